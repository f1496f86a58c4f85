"""Numbers of a table of results, and of sentences on them, that the result files do not give."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from review.foreign.origins import SCORE
from review.foreign.signs.sign import Sign
from review.foreign.verdicts import Verdict

_SETUP = re.compile(
    r"epoch|batch|learning rate|layers?\b|hidden|param|dimension|samples?\b|seeds?\b|steps?\b|fold|"
    r"iterations?\b|trees\b|depth|"
    r"\bdf\b|\bp\s*[<=]|confidence|interval|size|rows|features|classes|budget|threshold|weight|version|gpu|memory",
    re.I,
)


def of_numbers(verdicts: Sequence[Verdict], paper: str) -> Iterator[Sign]:
    """A table of which some numbers are nowhere in the results that hold the others; prose only "
    "where it names a score."""
    tables: dict[int, list[Verdict]] = defaultdict(list)
    for one in verdicts:
        if one.claim.cell is not None and one.claim.number.digits >= 2 and not _SETUP.search(one.claim.cell.label):
            tables[one.claim.passage.table].append(one)
    for number, inside in tables.items():
        missing = [one for one in inside if one.kind == "unsupported"]
        if missing:
            shown = "; ".join(f"{one.claim.number.text} ({one.claim.where.partition(', ')[2]})" for one in missing[:4])
            yield Sign(
                "numbers of the table",
                f"{len(missing)} of {len(inside)} numbers are in no result file",
                f"table {number}",
                shown,
                0.7 if len(missing) >= 2 or len(inside) <= 12 else 0.55,
            )
    prose = [
        one for one in verdicts
        if one.claim.cell is None and one.kind == "unsupported" and one.claim.number.digits >= 3
        and (one.claim.number.percent or SCORE.search(one.claim.context)) and not _SETUP.search(_around(one))]
    if prose:
        yield Sign("numbers of the table", f"{len(prose)} numbers of the text are in no result file",
                   prose[0].claim.where, prose[0].claim.context[:160], .5)


def _around(one: Verdict) -> str:
    """The words beside a number of the text."""
    at, text = one.claim.number.at, one.claim.passage.text
    return text[max(0, at - 25):at] + " " + text[at + len(one.claim.number.text):][:30]
