"""How long a paper will be, in lines of text: rough, so that a first draft comes out near its limit.

The builder counts the real pages, and the reflector shortens what this got wrong.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

from models.offline.claims import Outline, Part
from models.roles.writing import WriteInputs
from record.typeset import filled

LINES_A_PAGE = 53.0
CHARACTERS_A_LINE = 104
HEAD = 9.0
"""Lines of title, author and notice."""
HEADING = 2.6
FIGURE = 13.0
TABLE_FRAME = 5.5
GAP = 0.4
"""Lines between paragraphs."""

_CITE = re.compile(r"\\cite[pt]\{([^}]*)\}")
_FLOAT = re.compile(r"\\paper(figure|table)\{([^}]*)\}")


@dataclass(frozen=True)
class Measure:
    """Lines and pages of an outline under the inputs that it was made from."""

    inputs: WriteInputs

    def pages(self, outline: Outline) -> float:
        """Estimated pages of main text."""
        abstract = 1.15 * self._text(outline.abstract)  # set narrower than the text
        return (HEAD + abstract + sum(self._part(part) for part in outline.parts)) / LINES_A_PAGE

    @cached_property
    def _printed(self) -> dict[str, int]:
        lines = (*self.inputs.results, *self.inputs.setups)
        return {line.key: len(re.sub(r"\\[a-z]+|[{}]|\\,", "", line.printed)) for line in lines}

    def _part(self, part: Part) -> float:
        return HEADING + sum(self._text(text) for p in part.paragraphs for text in p.text.split("\n\n"))

    def _text(self, text: str) -> float:
        found = _FLOAT.fullmatch(text.strip())
        if found:
            return FIGURE + self._caption(found[2]) if found[1] == "figure" else self._table(found[2])
        if "\\begin{equation" in text:
            return 4.0
        plain = filled(text, lambda use: "0" * self._printed.get(use.key, 5))
        plain = _CITE.sub(lambda match: "0" * 22 * (match[1].count(",") + 1), plain)
        return math.ceil(len(re.sub(r"\\[a-zA-Z]+|[{}$]", "", plain)) / CHARACTERS_A_LINE) + GAP

    def _caption(self, name: str) -> float:
        text = next((figure.description for figure in self.inputs.figures if figure.name == name), "")
        return math.ceil(len(text) / (1.1 * CHARACTERS_A_LINE))

    def _table(self, name: str) -> float:
        """Lines of a table: a heading a dataset, and a row a level or more, by the arms that have results."""
        keys = {line.key.rpartition(".")[0] for line in self.inputs.results if line.key.count("/") >= 3}
        cells = {tuple(key.split("/")[1::2]) for key in keys if not key.startswith("diff/")}
        arms = {condition.partition("@")[0] for _, condition in cells}
        planned = {arm.name for arm in self.inputs.data_plan.arms if arm.role != "ablation"}
        datasets, levels = len({dataset for dataset, _ in cells}), max(1, len(self.inputs.data_plan.levels))
        rows = {"main": 1, "metrics": len(arms & planned), "ablation": 1 + len(arms - planned)}.get(name, 1)
        return TABLE_FRAME + 0.85 * datasets * (1 + levels * rows)
