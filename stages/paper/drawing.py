"""Draws the paper's figures, each in a kernel and a folder of its own: one that fails takes no other with it."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from models.roles.assessing import Statistic
from models.roles.figures import FigurePart, FigureScript, House
from record.folder import write_file
from record.nouns.figures import Figure
from record.nouns.nodes import Failure
from record.syntax import parse
from sandbox.job import Executor, Job
from stages.nodes.canvas import Canvas
from stages.nodes.plotting import PLOT_SECONDS
from stages.paper.template import Template

HERE = Path(__file__).parent
MODULE, STYLE = "figure_style.py", "paper.mplstyle"
"""What a script finds in its folder."""
SUFFIXES = (".pdf", ".png")


@dataclass(frozen=True)
class Drawing:
    """One figure as it came out. `figures` are its two files, empty where it failed."""

    part: FigurePart
    script: str
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def width(self) -> float:
        """Inches; 0 where it was saved by other means than matplotlib's."""
        return max((figure.facts.width_inches for figure in self.figures), default=0.0)


@dataclass(frozen=True)
class Studio:
    """What every figure is drawn with. `folder` gets figures/ with the files of all figures."""

    executor: Executor
    folder: Path
    canvas: Canvas
    statistics: tuple[Statistic, ...]
    style: House
    seed: int = 0
    seconds: float = PLOT_SECONDS
    """Wall-clock limit of one figure."""


def style_for(template: Template) -> House:
    """The style of figures at the widths of a template, with what its module says of itself."""
    tree = parse((HERE / MODULE).read_text(encoding="utf-8"))
    lines = [ast.get_docstring(tree) or "", ""]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            lines += [f"`{node.name}({ast.unparse(node.args)}){returns}`: {ast.get_docstring(node) or ''}"]
    return House(text_width=template.text_width, column_width=template.column_width, reference="\n".join(lines))


def style_files(style: House) -> dict[str, str]:
    """The module and the style that a script finds in its folder, with the widths of the page in them."""
    module = (HERE / MODULE).read_text(encoding="utf-8")
    for name, width in (("TEXT_WIDTH", style.text_width), ("COLUMN_WIDTH", style.column_width)):
        module = re.sub(rf"(?m)^{name} = .*$", f"{name} = {width}", module)
    return {MODULE: module, STYLE: (HERE / STYLE).read_text(encoding="utf-8")}


async def draw_all(studio: Studio, script: FigureScript, *, turn: int = 0) -> list[Drawing]:
    """Every figure of a script, drawn or failed, in its order."""

    async def draw(part: FigurePart) -> Drawing:
        source = f"{script.script.rstrip()}\n\n\n{part.code.strip()}\n" if part.code.strip() else script.script
        folder = studio.folder / f"turn{turn}" / part.name
        write_file(folder / "inputs" / "statistics.json",
                   json.dumps([one.model_dump() for one in studio.statistics], indent=1))
        outcome = await studio.executor.run(Job(
            name=f"figures/{turn}/{part.name}", folder=folder, entry="figures.py", mode="plot", seed=studio.seed,
            source={"figures.py": source, **style_files(studio.style)}, timeout=studio.seconds,
            inputs=studio.canvas.inputs))
        saved, wanted = {one.name for one in outcome.figures}, [f"{part.name}{suffix}" for suffix in SUFFIXES]
        failure, missing = outcome.failure, [f"figures/{name}" for name in wanted if name not in saved]
        if failure is None and missing:
            failure = Failure(kind="figure", message=(
                f"the code did not save {' and '.join(missing)}; it saved {', '.join(sorted(saved)) or 'nothing'}. "
                f"`figure_style.save(figure, {part.name!r})` writes both."))
        if failure is None:
            (studio.folder / "figures").mkdir(parents=True, exist_ok=True)
            for name in wanted:
                shutil.copyfile(folder / "figures" / name, studio.folder / "figures" / name)
        shutil.rmtree(folder, ignore_errors=True)
        figures = tuple(one for one in outcome.figures if one.name in wanted)
        return Drawing(part, source, () if failure else figures, failure)

    return list(await asyncio.gather(*map(draw, script.figures)))
