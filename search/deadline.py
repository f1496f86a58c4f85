"""The run's time limit: what is begun has time to be finished, with the replicates that it owes; the rest is left out.

How long code runs is expected from what ran before. As long as no node works there is nothing to set time aside for.
"""

from __future__ import annotations

from math import ceil

from record.fold.state import RunState
from record.nouns.decisions import Action, Expand, Seen
from record.nouns.stages import STAGES
from search.ceilings import expected_seconds
from search.replication import of_ablation, targets
from search.settings import SearchSettings
from search.tree import SEARCH_KINDS, View, view_of


def too_late(action: Action, state: RunState, settings: SearchSettings, *, left: float) -> str | None:
    """Why an action is not begun with so many seconds left of the run, or None."""
    if left <= 0:
        return "it was reached"
    if not isinstance(action, Expand) or action.kind == "aggregate":
        return None
    view = view_of(state, action.stage, Seen(through=state.last_decision), settings=settings)
    if action.kind == "replicate":
        seconds = expected_seconds(action, view)
        return None if seconds <= left else f"{left:.0f} s are left, and a replicate is expected to run {seconds:.0f} s"
    needed = _needed(action, view, settings)
    if needed <= left:
        return None
    return (f"{left:.0f} s are left, and another node with the replicates that are owed by then is expected to take "
            f"{needed:.0f} s")


def _needed(action: Expand, view: View, settings: SearchSettings) -> float:
    """Seconds until a search node, what is under way, and the replicates owed by then have run."""
    if view.best is None:
        return 0.0
    running = 1 + sum(node.kind != "aggregate" for node in view.in_flight)
    rounds = ceil(running / settings.num_workers) + ceil(_owed(view, settings) / settings.num_workers)
    return rounds * expected_seconds(action, view)


def _owed(view: View, settings: SearchSettings) -> int:
    """Replicates that are due once this stage has one node more."""
    counts: dict[str, int] = {}
    for _, target, count in targets(view, settings):
        counts[target.id] = max(count - len(view.replicates(target.id)), counts.get(target.id, 0))
    unborn = sum(node.kind in SEARCH_KINDS for node in view.searching) + 1
    if view.stage == "ablation":
        return sum(counts.values()) + unborn * of_ablation(view, settings)
    return sum(counts.values()) + max(settings.seeds(stage) for stage in STAGES[STAGES.index(view.stage):])
