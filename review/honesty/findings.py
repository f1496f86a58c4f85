"""The findings on a program: what its form shows, and scores that it said of labels that it cannot have.

A finding is `suspect` where an honest program has no reason to do so; what may be right is a note, or a sign
(`review.honesty.weighing`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from labwright.record.nouns.data import DataPlan, DatasetFacts, Measurement
from labwright.record.nouns.nodes import Finding
from labwright.record.source import ENTRY
from labwright.review.honesty.form import Lines, of_form
from labwright.review.honesty.form.lines import parsed
from labwright.review.honesty.plotted import typed_figures
from labwright.review.honesty.unseen import unseen_in_record, withheld
from labwright.review.honesty.weighing import weighed


def check(
    sources: Mapping[str, str],
    plan: DataPlan | None = None,
    *,
    facts: Iterable[DatasetFacts] | None = None,
    plots: Collection[str] = ("plots.py",),
    measurements: Sequence[Measurement] = (),
    beside: Iterable[Finding] = (),
) -> tuple[Finding, ...]:
    """The findings on sources by path, one a kind and line; code that does not parse has none, and no other file.

    `plots` names the sources that only draw. `facts` say which datasets have withheld labels, and of what kind; without
    them all of the plan have them. `measurements` are what a run of the sources recorded; they are checked for scores
    of withheld rows. `beside` are facts of that run, which are given back with the others and weighed with them.
    """
    code = {path: text for path, text in sources.items() if path.endswith(".py") and path not in plots}
    found = [*_of_code(code, plan)]
    for name in plots:
        with suppress(*_UNREAD):
            found += [one.model_copy(update={"file": name}) for one in list(typed_figures(sources.get(name, "")))]
    findings = {(one.file, one.kind, one.line): one for one in reversed(found)}
    return weighed((*reversed(findings.values()), *unseen_in_record(measurements, withheld(plan, facts)), *beside))


_UNREAD = (SyntaxError, RecursionError)
"""What of code nothing can be said."""


def _of_code(code: Mapping[str, str], plan: DataPlan | None) -> list[Finding]:
    trees = parsed(code)
    entry = next((path for path in (ENTRY, *trees) if path in trees), None)
    if entry is not None:
        with suppress(*_UNREAD):
            return list(of_form(trees, Lines({entry: code[entry], **code}), plan))
    return []
