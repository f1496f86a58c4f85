"""Time limits of stages and of the run, met by reserving the expected time.

Reaching a limit is an event (`LimitReached`), since it depends on time; therefore a resumed run decides as before, also
in `ticket` order. Nodes are only started if there is time to finish them and their replicates. Run times are estimated
from earlier runs; as long as no node works, no time needs to be reserved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf
from statistics import median

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import ExpandTree, SearchAction, VisibleDecisions
from labwright.record.schema.nodes import SEARCH_KINDS, StageName
from labwright.record.tuning_results import list_trial_cells
from labwright.search.replication import count_fresh_seeds, find_lacking_seeds, iterate_targets, list_ablation_seeds
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot


@dataclass(frozen=True)
class LimitHit:
    """The reason why an action may not start, in one stage or in the whole run (None).

    `may_fit_later`: this or another action may start once work in progress has ended.
    """

    reason: str
    stage: StageName | None = None
    may_fit_later: bool = False


RoomCheck = Callable[[SearchAction], LimitHit | None]
"""Check whether the run's budget has room for the maximum cost of an action."""


@dataclass(frozen=True)
class TimeLimits:
    """Time limits of one stage.

    While the first stage has no working node, its first debug attempt is limited only by the time of the whole run.
    """

    seconds: float | None = None
    run_seconds: float | None = None

    def find_refusal(self, action: ExpandTree, view: StageSnapshot, state: RunState, *, now: float) -> str | None:
        """Return why a search node may not start, or None. `now`: active seconds of the run."""
        began = state.stages[action.stage].began_at
        if self.seconds is None or began is None:
            return None
        left = self.seconds - (now - began)
        if action.kind == "debug" and has_nothing_working(view):
            left = max(left, self.run_seconds - now if self.run_seconds is not None else inf)
        expected = estimate_seconds(action, view)
        return (
            None
            if expected <= left
            else (
                f"limit of {self.seconds:g} s: {max(0.0, left):.0f} s left, but another node is expected to take "
                f"{expected:.0f} s"
            )
        )


def has_nothing_working(view: StageSnapshot) -> bool:
    """Return whether the first stage has no working node, and nothing was debugged yet."""
    return view.stage == "preliminary" and not view.good_nodes and not view.list_nodes_of_kind("debug")


def estimate_seconds(action: ExpandTree, view: StageSnapshot) -> float:
    """Estimate the run time of a node: that of its parent, otherwise the median of the stage, otherwise the planned
    time.
    """
    parent = view.nodes.get(action.parent or "")
    if parent is not None and parent.attempts and parent.attempts[-1].failure is None:
        last = parent.attempts[-1]
        if action.kind == "trial":
            cells = sum(len(list_trial_cells(view.plan, one.arm, seed=0)) * one.share for one in action.trials)
            return last.seconds * cells / max(1, len(last.cells))
        return last.seconds
    ran = [node.attempts[-1].seconds for node in view.good_nodes]
    return median(ran) if ran else view.plan.expected_seconds


def explain_too_late(
    action: SearchAction, state: RunState, settings: SearchSettings, *, seconds_left: float
) -> str | None:
    """Return why an action is not started with this time left in the run, or None.

    A search node also needs time for the work in progress and for the replicates due by then.
    """
    if seconds_left <= 0:
        return "the limit was reached"
    if not isinstance(action, ExpandTree) or action.kind == "aggregate":
        return None
    view = build_snapshot(state, action.stage, VisibleDecisions(through=state.last_decision), settings=settings)
    seconds = estimate_seconds(action, view)
    if action.kind in ("replicate", "rung"):
        return (
            None
            if seconds <= seconds_left
            else (f"{seconds_left:.0f} s left, but a {action.kind} is expected to take {seconds:.0f} s")
        )
    running = 1 + sum(node.kind != "aggregate" for node in view.in_flight)
    rounds = ceil(running / settings.num_workers) + ceil(
        _count_pending_replicates(view, settings) / settings.num_workers
    )
    needed = 0.0 if view.best_node is None else rounds * seconds
    return (
        None
        if needed <= seconds_left
        else (
            f"{seconds_left:.0f} s left, but another node with the replicates due by then is expected to take "
            f"{needed:.0f} s"
        )
    )


def _count_pending_replicates(view: StageSnapshot, settings: SearchSettings) -> int:
    """Count the replicates due once this stage has one more node; until seeds are locked, the deciding replicates
    count too.
    """
    seeds: dict[str, set[int]] = {}
    for _, target, of in iterate_targets(view, settings):
        seeds.setdefault(target.id, set()).update(of)
    due = sum(len(find_lacking_seeds(view, view.nodes[target], of)) for target, of in seeds.items())
    if view.stage == "ablation":
        unborn = sum(node.kind in SEARCH_KINDS for node in view.unfinished_search_nodes) + 1
        return due + unborn * len(list_ablation_seeds(view, settings))
    own = settings.count_seeds(view.stage) if view.stage != "agenda" else 0
    return due + max(own, count_fresh_seeds(view, settings))
