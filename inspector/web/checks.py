"""What checks of a run recorded, and what people asked of it: lines for the page, from the record alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from record.events.papers import Drafted
from record.fold.parts import Steered
from record.fold.state import RunState


class Check(NamedTuple):
    """A thing that was checked. `good` is None where nothing says whether it is; `nodes` are those that it is about."""

    name: str
    good: bool | None
    text: str
    nodes: tuple[str, ...] = ()


class Asked(NamedTuple):
    """Something that a person asked of the run while it went on; `node` is empty where it is about the run."""

    at: str
    what: str
    node: str
    reason: str
    by: str


class Checks(NamedTuple):
    """The last checks, and the files that a release wrote about them."""

    checks: tuple[Check, ...]
    files: tuple[str, ...]


def checks_of(state: RunState, seedless: tuple[str, ...]) -> Checks:
    """The checks so far; `seedless` are nodes whose replicates gave the same values for every seed."""
    return Checks(tuple(_checks(state, seedless)), tuple(state.released.beside) if state.released else ())


def _checks(state: RunState, seedless: tuple[str, ...]) -> Iterator[Check]:
    draft = _draft(state)
    if draft is not None:
        which = f"round {draft.round}, which {'the paper prints' if state.released else 'is the latest'}: "
        yield Check("Binding", not draft.violations, which + (
            f"{len(draft.violations)} pieces of the text are not tied to the record" if draft.violations else
            "every number, figure and citation is tied to the record"))
        if draft.findings:
            yield Check("Typesetting", False, "; ".join(map(str, draft.findings)))
    judged = state.assessed.judgement if state.assessed is not None else None
    if judged is not None and judged.audit is not None:
        found = judged.audit
        counts = ", ".join(f"{number} {name}" for name, number in found.counts)
        yield Check("Audit", not found.findings, f"{found.numbers} numbers held against {found.against}"
                    f"{f' ({counts})' if counts else ''}: {'; '.join(found.findings) or 'no findings'}"
                    f"{f'; and {found.more} more' if found.more else ''}")
    for one in state.probes:
        what = "trained on permuted labels" if one.probe == "labels" else "run under other seeds"
        yield Check("Probe", {"moved": True, "still": False}.get(one.outcome), f"{one.node} {what}: {one.why}",
                    (one.node,))
    suspects = tuple(node.id for node in state.nodes.values() if node.suspect)
    if state.nodes:
        yield Check("Suspect", not suspects, f"{len(suspects)} of {len(state.nodes)} nodes: their numbers stay "
                    "out of the paper" if suspects else "no node is suspect", suspects[:12])
    if seedless:
        yield Check("Seeds", False, "the same values for every seed", seedless[:12])
    authors = tuple(node.id for node in state.nodes.values() if node.author)
    if authors:
        yield Check("People", None, "code written by a person", authors[:12])
    if state.unheeded:
        yield Check("Control", None, f"{state.unheeded} files in control/ had no effect")


def _draft(state: RunState) -> Drafted | None:
    """The draft that the paper prints, once it is built; the latest one before."""
    printed = state.released.round if state.released is not None else None
    return next((one for one in reversed(state.drafts) if printed in (None, one.round)), None)


def asked_of(state: RunState) -> tuple[Asked, ...]:
    """What people asked, the newest first."""
    return tuple(map(_asked, reversed(state.steered)))


def _asked(one: Steered) -> Asked:
    command = one.command
    what = {"mark": f"mark as {command.mark}", "note": f"note for {one.stage or 'the run'}"}.get(
        command.verb, command.verb)
    return Asked(
        at=datetime.fromtimestamp(one.at, UTC).isoformat(timespec="seconds"), what=what, reason=command.text,
        node=command.target if command.verb in ("kill", "mark") else "", by=command.by)
