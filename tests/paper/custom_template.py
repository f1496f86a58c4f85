"""The custom template from docs/paper.md as a folder, and papers that strain a layout."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from labwright.record.schema.paper import PaperDraft, Section
from labwright.stages.paper.latex_sources import FigureFile, PaperParts, PaperTable
from tests.paper import synthetic_paper

PAGE = Path(__file__).resolve().parents[2] / "docs" / "paper.md"
LONG = "Very long name of a dataset that somebody gave sixty letters"
WORD = "Pneumonoultramicroscopicsilicovolcanoconiosisandmorelettersx"


def write_documented_template(folder: Path) -> Path:
    """Write the example of the page, unchanged."""
    text = PAGE.read_text()
    folder.mkdir()
    for name, language in (("venue.sty", "tex"), ("template.toml", "toml"), ("paper.tex.jinja", "latex")):
        [block] = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        (folder / name).write_text(block)
    return folder


def make_small_paper(folder: Path) -> PaperParts:
    """A short paper that cites nothing."""
    return synthetic_paper.make_short_paper(folder, "Nothing was found, and nothing is cited.")


def make_hostile_paper(folder: Path) -> PaperParts:
    """Names of 60 letters, some without a break point; a table of 40 rows, a wide table, 12 figures, no references."""
    parts = synthetic_paper.make_parts(folder)
    key = next(iter(parts.evidence.results))
    rows = "\n".join(rf"{name} & \result{{{key}}} & \result{{{key}}} \\" for name in [LONG, WORD] * 20)
    tall = rf"\begin{{tabular}}{{@{{}}lrr@{{}}}}" f"\n{rows}\n" r"\end{tabular}"
    cells = " & ".join([rf"\result{{{key}}}"] * 12)
    wide = rf"\begin{{tabular}}{{@{{}}l{'r' * 12}@{{}}}}" f"\n{WORD} & {cells} \\\\\n" r"\end{tabular}"
    figures = tuple(FigureFile(f"figure{number}", parts.figures[number % 3].path) for number in range(12))
    body = "\n\n".join(
        [
            r"\papertable{tall}",
            r"\papertable{wide}",
            f"Of {LONG} and of {WORD} in the text. " * 12,
            *(rf"\paperfigure{{{one.name}}}" for one in figures),
            "Words of the end. " * 80,
        ]
    )
    draft = PaperDraft(
        title=f"{LONG} {WORD}",
        abstract=f"{LONG} {WORD}. " * 3,
        sections=(Section(title=f"{LONG} {LONG}", body=body),),
        captions={one.name: f"{WORD} {LONG}. " * 3 for one in figures},
    )
    evidence = replace(
        parts.evidence,
        figures=frozenset(one.name for one in figures),
        tables=frozenset({"tall", "wide"}),
        names=(LONG, WORD),
    )
    tables = (PaperTable("tall", tall, f"{LONG}. " * 4), PaperTable("wide", wide, f"{WORD}. " * 4))
    appendix = parts.appendix.replace("Optical digits", LONG).replace("LEARNING", WORD)
    return replace(parts, draft=draft, figures=figures, tables=tables, evidence=evidence, library=(), appendix=appendix)
