"""Abstract and conclusion against the body: they print nothing that a reader cannot find there, on the same data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from record.nouns.drafts import Draft
from review.evidence.scan import Scanned
from review.evidence.violations import Evidence, Violation
from review.evidence.words.sentences import Key, key_of


def unshown(draft: Draft, parts: Mapping[str, Scanned], evidence: Evidence) -> Iterator[Violation]:
    """Values of the abstract and the conclusion that no placed table and no other section prints."""
    ending = _ending(draft)
    ends = {"abstract", f"section {ending!r}"}
    body = [key for where, scanned in parts.items() if where not in ends for key in _keys(scanned)]
    placed = {use.key for scanned in parts.values() for use in scanned.uses if use.command == "papertable"}
    tables = frozenset[str]().union(*(evidence.tabled.get(name, frozenset()) for name in placed))
    if any(name not in evidence.tabled for name in placed):
        return
    shown = tables | {key.family for key in body}
    for where in ("abstract", f"section {ending!r}"):
        for key in _keys(parts[where]) if where in parts else ():
            if why := _why(key, shown, tables, evidence):
                yield Violation(kind="claim", where=where, excerpt=f"\\result{{{key.key}}}", mend=why)


def _ending(draft: Draft) -> str:
    """The title of the last section, if it concludes; of a section that also discusses results nothing is asked."""
    last = draft.sections[-1].title if draft.sections else ""
    return last if "conclu" in last.lower() or "summary" in last.lower() else ""


def _keys(scanned: Scanned) -> list[Key]:
    return [key for use in scanned.uses if (key := key_of(use))]


def _why(key: Key, shown: frozenset[str], tables: frozenset[str], evidence: Evidence) -> str:
    """Why a summary may not print a value; empty where it may."""
    splits = {one.split("/")[0] for one in tables} - {"diff"}
    if not key.other and splits and key.split not in splits:
        return f"the tables are on {', '.join(sorted(splits))} data, this value is on {key.split} data: take theirs"
    if key.other and key.family not in shown:
        sides = {f"/{key.dataset}/{key.metric}/{one}" for one in (key.condition, key.other)}
        if all(any(one.endswith(side) for one in shown) for side in sides):
            return ""
    if key.family in shown or key.key not in evidence.results:
        return ""
    return "no table that is placed and no other section shows this value: show it there, or leave it out here"
