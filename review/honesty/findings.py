"""The findings on a program: what its form shows, labels that it cannot have, and what its source suggests.

A finding is `suspect` where an honest program has no reason to do so. What the interpreter of the source noticed is a
sign (`review.honesty.weighing`); what may be right is a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from record.nouns.data import DataPlan, DatasetFacts, Measurement
from record.nouns.nodes import Finding
from record.source import ENTRY
from review.honesty.flow import TooLongError
from review.honesty.form import Lines, of_form
from review.honesty.form.lines import parsed
from review.honesty.plotted import typed_figures
from review.honesty.source_signs import source_signs
from review.honesty.submissions import Withheld, unseen_in_record, withheld
from review.honesty.weighing import weighed


def check(
    sources: Mapping[str, str], plan: DataPlan | None = None, *, facts: Iterable[DatasetFacts] | None = None,
    plots: Collection[str] = ("plots.py",), measurements: Sequence[Measurement] = (),
    beside: Iterable[Finding] = (),
) -> tuple[Finding, ...]:
    """The findings on sources by path, one a kind and line; code that does not parse has none, and no other file.

    `plots` names the sources that only draw. `facts` say which datasets have withheld labels, and of what kind; without
    them all of the plan have them. `measurements` are what a run of the sources recorded; they are checked for scores
    of withheld rows. `beside` are facts of that run, which are given back with the others and weighed with them.
    """
    hidden = withheld(plan, facts)
    code = {path: text for path, text in sources.items() if path.endswith(".py") and path not in plots}
    found = [*_of_code(code, plan, hidden)]
    for name in plots:
        with suppress(*_UNREAD):
            found += [one.model_copy(update={"file": name}) for one in list(typed_figures(sources.get(name, "")))]
    found += [*unseen_in_record(measurements, hidden), *beside]
    findings: dict[tuple[str, str, int], Finding] = {}
    for one in found:
        known = findings.setdefault((one.file, one.kind, one.line), one)
        if one.suspect and not known.suspect:
            findings[one.file, one.kind, one.line] = one
    return weighed(findings.values())


_UNREAD = (SyntaxError, RecursionError)
"""What of code nothing can be said."""


def _of_code(code: Mapping[str, str], plan: DataPlan | None, hidden: Withheld) -> Iterable[Finding]:
    trees = parsed(code)
    entry = next((path for path in (ENTRY, *trees) if path in trees), None)
    if entry is None:
        return
    lines, found = Lines({entry: code[entry], **code}), list[Finding]()
    with suppress(*_UNREAD):
        yield from list(of_form(trees, lines, plan))
    with suppress(*_UNREAD, TooLongError):
        found = list(source_signs(trees, lines, plan, hidden))
    for one in found:
        yield one.model_copy(update={"suspect": False, "sign": "flow"}) if one.suspect else one
