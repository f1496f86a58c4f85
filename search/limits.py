"""Limits of a stage and of the run on time. They hold because what is expected is set aside.

Reaching one is an event (`Limited`), since time decides it: a resumed run, in `ticket` order too, decides as before.
What is begun has time to be finished, with the replicates that it owes. How long code runs is expected from what ran
before; as long as no node works there is nothing to set time aside for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf
from statistics import median

from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Action, Expand, Seen
from labwright.record.nouns.nodes import SEARCH_KINDS, StageName
from labwright.record.tuning import cells_of_trial
from labwright.search.replication import fresh, lacking, of_ablation, targets
from labwright.search.settings import SearchSettings
from labwright.search.tree import View, view_of


@dataclass(frozen=True)
class Refusal:
    """Why something may not be begun, in one stage or (None) in the whole run.

    `later`: it may, or something else instead, once what is under way has come to its end.
    """

    reason: str
    stage: StageName | None = None
    later: bool = False


Room = Callable[[Action], Refusal | None]
"""Whether the run's budget has room for the most that an action may take."""


@dataclass(frozen=True)
class Limits:
    """What one stage may take.

    While the first stage has nothing that works, its first debug only has to end within the time of the whole run.
    """

    seconds: float | None = None
    run_seconds: float | None = None

    def refuse(self, action: Expand, view: View, state: RunState, *, now: float) -> str | None:
        """Why a search node may not be begun, or None. `now`: active seconds of the run."""
        began = state.stages[action.stage].began
        if self.seconds is None or began is None:
            return None
        left = self.seconds - (now - began)
        if action.kind == "debug" and nothing_worked_yet(view):
            left = max(left, self.run_seconds - now if self.run_seconds is not None else inf)
        expected = expected_seconds(action, view)
        return (
            None
            if expected <= left
            else (
                f"limit of {self.seconds:g} s: {max(0.0, left):.0f} s are left, and another node is expected to run "
                f"{expected:.0f} s"
            )
        )


def nothing_worked_yet(view: View) -> bool:
    """Whether the first stage has nothing that works, and nothing was debugged yet."""
    return view.stage == "preliminary" and not view.good and not view.kind("debug")


def expected_seconds(action: Expand, view: View) -> float:
    """How long the code of a node is expected to run: as long as its parent's, or as usual here, or as planned."""
    parent = view.nodes.get(action.parent or "")
    if parent is not None and parent.attempts and parent.attempts[-1].failure is None:
        last = parent.attempts[-1]
        if action.kind == "trial":
            cells = sum(len(cells_of_trial(view.plan, one.arm, seed=0)) * one.share for one in action.trials)
            return last.seconds * cells / max(1, len(last.cells))
        return last.seconds
    ran = [node.attempts[-1].seconds for node in view.good]
    return median(ran) if ran else view.plan.expected_seconds


def too_late(action: Action, state: RunState, settings: SearchSettings, *, left: float) -> str | None:
    """Why an action is not begun with so many seconds left of the run, or None.

    A search node needs time for what is under way and for the replicates owed by then, too.
    """
    if left <= 0:
        return "it was reached"
    if not isinstance(action, Expand) or action.kind == "aggregate":
        return None
    view = view_of(state, action.stage, Seen(through=state.last_decision), settings=settings)
    seconds = expected_seconds(action, view)
    if action.kind in ("replicate", "rung"):
        return (
            None
            if seconds <= left
            else (f"{left:.0f} s are left, and a {action.kind} is expected to run {seconds:.0f} s")
        )
    running = 1 + sum(node.kind != "aggregate" for node in view.in_flight)
    rounds = ceil(running / settings.num_workers) + ceil(_owed(view, settings) / settings.num_workers)
    needed = 0.0 if view.best is None else rounds * seconds
    return (
        None
        if needed <= left
        else (
            f"{left:.0f} s are left, and another node with the replicates that are owed by then is expected to take "
            f"{needed:.0f} s"
        )
    )


def _owed(view: View, settings: SearchSettings) -> int:
    """Replicates that are due once this stage has one node more; until seeds are locked, those that decide, too."""
    seeds: dict[str, set[int]] = {}
    for _, target, of in targets(view, settings):
        seeds.setdefault(target.id, set()).update(of)
    due = sum(len(lacking(view, view.nodes[target], of)) for target, of in seeds.items())
    if view.stage == "ablation":
        unborn = sum(node.kind in SEARCH_KINDS for node in view.searching) + 1
        return due + unborn * len(of_ablation(view, settings))
    own = settings.seeds(view.stage) if view.stage != "agenda" else 0
    return due + max(own, fresh(view, settings))
