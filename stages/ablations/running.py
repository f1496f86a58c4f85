"""Ablations that were asked for after the draft, run in batches: each with its debugging, then with its replicates.

A batch is decided on as a whole when nothing is under way, and sees what was there before the first of them and its own
parents: decisions, prompts and numbers are the same however often the run was cut. Budget and time limit refuse what
does not fit; the reason is recorded, and does not make the run a partial one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import ceil
from statistics import median

from record.ablation import MissingAblation
from record.claims import winner
from record.events.searching import Decided
from record.fold.state import RunState
from record.nouns.decisions import Expand, Seen
from record.nouns.nodes import Node
from record.nouns.stages import NodeKind
from record.trials import line_of
from search.replication import of_ablation
from search.tree import View, view_of
from stages.bench import Bench, note_time
from stages.nodes.node import expand
from stages.settings import LATE_DEBUGS

TIME = 0.5
"""Share of the time that is left which these experiments may be expected to take; the paper needs the rest."""


async def run_missing(bench: Bench, k: int) -> bool:
    """Run what was accepted, batch by batch, until nothing is due; False when the run was asked to stop.

    What a kill cut short is finished before anything new is decided on, so that decisions keep their numbers.
    """
    while await bench.signals.going():
        batch = _unfinished(bench.state, k) or [_decide(bench, one, k) for one in _due(bench)]
        if not batch:
            _refuse_the_rest(bench)
            return True
        await _together(bench, batch)
    return False


def _refuse_the_rest(bench: Bench) -> None:
    """Record why what was accepted was not begun after all: others took more than was expected."""
    missed = bench.state.missed
    left = [one for one in accepted(bench.state) if not line_of(bench.state, one.ablation.item)]
    if missed is None or not left:
        return
    reason = bench.state.limited or no_room(bench, 1) or "there was no room beside the others"
    bench.recorder.append(missed.model_copy(update={"missing": tuple(
        one.model_copy(update={"refused": reason}) if one in left else one for one in missed.missing)}))


def _unfinished(state: RunState, k: int) -> list[Decided]:
    return [one for number, one in state.decisions.items()
            if number > k and number not in state.finished and isinstance(one.action, Expand)]


def _due(bench: Bench) -> list[Expand]:
    """What can be begun when nothing is under way: ablations, then debugging, then replicates, as the budget allows."""
    note_time(bench)
    state = bench.state
    if state.limited is not None:
        return []
    items = [one.ablation.item for one in accepted(state)]
    lines = [line_of(state, item) for item in items]
    new = [expansion(bench, "ablate", item=item) for item, line in zip(items, lines, strict=True) if not line]
    debugs = [expansion(bench, "debug", parent=line[-1]) for line in lines if _mendable(line, bench)]
    again = [one for line in lines if line and _good(line[-1]) for one in _replicates(bench, line[-1])]
    return _fitting(bench, new) or _fitting(bench, debugs) or _fitting(bench, again)


def _fitting(bench: Bench, actions: Sequence[Expand]) -> list[Expand]:
    """The first of these actions, as many as the budget has room for."""
    budget = bench.budget
    if budget is None:
        return list(actions)
    return [one for n, one in enumerate(actions, start=1) if budget.lacking(*actions[:n]) is None]


def accepted(state: RunState) -> list[MissingAblation]:
    missing = state.missed.missing if state.missed is not None else ()
    return [one for one in missing if not one.refused]


def _mendable(line: Sequence[Node], bench: Bench) -> bool:
    most = min(LATE_DEBUGS, bench.search.max_debug_depth)
    return bool(line) and line[-1].status == "buggy" and bool(line[-1].source_sha256) and len(line) <= most


def _good(node: Node) -> bool:
    return node.status == "good" and not node.suspect


def _replicates(bench: Bench, node: Node) -> list[Expand]:
    """The replicates that a node still needs, with the seeds of what it is ablated from."""
    view = ablation_view(bench)
    done = len(view.replicates(node.id))
    return [expansion(bench, "replicate", parent=node, seed=view.seed + 1 + number)
            for number in range(done, of_ablation(view, bench.search))]


def expansion(
    bench: Bench, kind: NodeKind, *, item: str = "", parent: Node | None = None, seed: int | None = None
) -> Expand:
    state = bench.state
    assert state.started is not None
    return Expand(stage="ablation", kind=kind, item=item, parent=parent.id if parent else winner(state),
                  seed=state.started.seed if seed is None else seed)


def _decide(bench: Bench, action: Expand, k: int) -> Decided:
    """Record a decision: it sees what was there when this step began, and its parent."""
    state = bench.state
    parent = state.nodes[action.parent or ""]
    ordinal = sum(one.kind == action.kind for one in state.stage_nodes("ablation"))
    decided = Decided(k=state.last_decision + 1, action=action.model_copy(update={"ordinal": ordinal}),
                      seen=Seen(through=k, also=(parent.decision,) if parent.decision > k else ()))
    bench.recorder.append(decided)
    return decided


def ablation_view(bench: Bench) -> View:
    return view_of(bench.state, "ablation", Seen(through=bench.state.last_decision), settings=bench.search)


async def _together(bench: Bench, batch: Sequence[Decided]) -> None:
    """Make all nodes of a batch; when one cannot be made at all, the others are dropped and resumed later."""
    tasks = [asyncio.ensure_future(expand(bench, one, lambda: None)) for one in batch]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- room ------------------------------------------------------------------------------------------------------------


def no_room(bench: Bench, number: int) -> str:
    """Why so many ablations with their replicates cannot be run, by budget and time; empty where they can."""
    view = ablation_view(bench)
    again = of_ablation(view, bench.search)
    one = [expansion(bench, "ablate"), *[expansion(bench, "replicate")] * again]
    lacking = bench.budget.lacking(*one * number) if bench.budget is not None else None
    if lacking is not None:
        return lacking
    state = bench.state
    rounds = 1 + LATE_DEBUGS + ceil(again * number / bench.search.num_workers)
    expected = rounds * _seconds(state)
    left = max(0.0, bench.run_seconds - state.active_seconds)
    if expected <= TIME * left:
        return ""
    return (f"the time limit: {left:.0f} s are left, the paper included, and the experiments are expected to take "
            f"{expected:.0f} s")


def _seconds(state: RunState) -> float:
    """How long the code of an ablation ran, as usual; that of the method where there was none."""
    ran = [node.attempts[-1].seconds for node in state.stage_nodes("ablation")
           if node.kind == "ablate" and node.status == "good" and node.attempts]
    best = state.nodes[winner(state) or ""]
    return median(ran) if ran else best.attempts[-1].seconds
