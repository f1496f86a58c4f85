"""Time limits of stages, met by estimating the time of a node; `search.hours` divides the time of the run.

Reaching one is an event (`LimitReached`), since it depends on time: a resumed run makes the same decisions, even in
`ticket` order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from statistics import median

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import ExpandTree, SearchAction
from labwright.record.schema.nodes import StageName
from labwright.record.tuning_results import list_trial_cells
from labwright.search.stage_snapshot import StageSnapshot


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
        """Return the reason why a search node may not start, or None. `now`: active seconds of the run."""
        began = state.search.stages[action.stage].began_at
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
    """Return whether the first stage has no working node and nothing has been debugged yet."""
    return view.stage == "preliminary" and not view.good_nodes and not view.list_nodes_of_kind("debug")


def estimate_seconds(action: ExpandTree, view: StageSnapshot) -> float:
    """Estimate the time of a node in slot-seconds: that of its parent, else the median of the stage, else the
    planned time."""
    parent = view.nodes.get(action.parent or "")
    if parent is not None and parent.attempts and parent.attempts[-1].failure is None:
        last = parent.attempts[-1]
        if action.kind == "trial":
            cells = sum(len(list_trial_cells(view.plan, one.arm, seed=0)) * one.share for one in action.trials)
            return last.whole_seconds * cells / max(1, len(last.cells))
        if action.kind == "ablate" and last.cells:  # only its own arm runs
            return last.whole_seconds / len({line.cell.arm for line in last.cells})
        return last.whole_seconds
    ran = [node.attempts[-1].whole_seconds for node in view.good_nodes]
    return median(ran) if ran else view.plan.expected_seconds
