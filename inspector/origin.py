"""Where a run branched off, and what had been taken by then: the same in status, tree, why and on the page."""

from __future__ import annotations

from inspector.text import count, dollars, duration, short
from record.fold.state import RunState
from record.nouns.frozen import Frozen
from record.nouns.stages import STAGES


class Origin(Frozen):
    """A branching. What was taken before it counts for no cap of the run, and is in no other cost of its status."""

    run: str
    point: str
    decisions: int
    nodes: int
    seed: int
    by: str
    note: str
    calls: int
    tokens: int
    usd: float
    unpriced: int
    seconds: float
    code_seconds: float


def origins_of(state: RunState) -> tuple[Origin, ...]:
    """The branchings that led to this run, the first one first; none where it began with its idea."""
    found: list[Origin] = []
    for one in state.ancestry:
        roles = one.usage.values()
        found.append(Origin(
            run=one.event.parent, point=one.event.point, decisions=one.decision, nodes=one.nodes, seed=one.event.seed,
            by=one.event.by, note=one.event.note, calls=sum(role.calls for role in roles),
            tokens=sum(role.input_tokens + role.output_tokens for role in roles),
            usd=round(sum(role.usd for role in roles), 6), unpriced=sum(role.unpriced for role in roles),
            seconds=round(one.active_seconds, 3), code_seconds=round(one.seconds_of_code, 3)))
    return tuple(found)


def origin_words(one: Origin) -> str:
    """A branching in one line safe for a terminal."""
    where = f"before the {one.point} stage" if one.point in STAGES else f"at {short(one.point, 20)}"
    who = f" by {short(one.by, 40)}" if one.by else ""
    return (f"branch of {short(one.run, 80)} {where}{who}: {one.nodes} nodes were taken over; there "
            f"{one.calls} calls, {count(one.tokens)} tokens, {dollars(one.usd, one.unpriced)}, "
            f"{duration(one.seconds)} worked, {duration(one.code_seconds)} of code")
