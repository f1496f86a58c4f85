"""What to do next, and when the search of a stage is over: pure functions of a view and a random source.

Source: AI-Scientist-v2, sections 3.2.1 and 3.2.2 (stages and their goals, node kinds, debug priority). Goals are
computed where they can be: datasets from measurements, tuning from its trials, ablations from their plan.
Best-first order is computed from verdicts and measurements; a model is asked for close calls alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from labwright.record.nouns.decisions import ABLATION_PLAN, Action, Compare, End, Expand, Extend, Wait
from labwright.record.nouns.nodes import Node, NodeKind, StageName
from labwright.search import tuning
from labwright.search.ladder import rung
from labwright.search.replication import contested, of_ablation, owed, pilot, replicate_of
from labwright.search.settings import SearchSettings
from labwright.search.tree import View


def over(view: View, settings: SearchSettings) -> str | None:
    """Why the search of this stage is over, or None while it goes on.

    The first stage ends with a working prototype and no draft dropped for a bug that was not followed up; tuning when
    every arm had what the plan gives it and the choices were measured together; ablation when every planned one was
    taken up and none failed that could still be fixed.

    Depends on search nodes alone: once all of them are finished and this is not None, it stays so.
    """
    if view.limited:
        return view.limited
    limit = settings.limits(view.stage).nodes
    if len(view.searched) >= limit:
        return f"limit of {limit} nodes"
    followed_up = not view.searching and not view.debuggable(settings.max_debug_depth)
    if view.stage == "preliminary":
        drafted = len(view.kind("draft")) >= settings.num_drafts
        return (
            "a prototype works, and every draft was followed to its end"
            if (drafted and view.open and followed_up)
            else None
        )
    best = view.best
    if best is None:
        return "nothing is left to build on: what was carried forward is suspect"
    if view.stage == "tuning" and ((base := tuning.base(view)) is None or not tuning.tunable(view, base)):
        return "nothing can be tuned: " + (
            "no arm has hyperparameters"
            if not view.plan.tuned_arms
            else "the program does all at once, and not cell by cell"
        )
    if view.stage == "agenda" and followed_up and nothing_left(view):
        return "nothing is left to try of any experiment"
    if view.stage == "tuning" and followed_up and tuning.step(view, tuning.base(view)) is None and not view.in_trial:
        return "every arm was tuned"
    return "every planned ablation was tried" if view.stage == "ablation" and view.taken_up and followed_up else None


def nothing_left(view: View) -> bool:
    """Whether authors said of all that the agenda lists that nothing is left to try, and no baseline is to
    be bettered.
    """
    return view.stage == "agenda" and bool(view.answered) and not view.unanswered and not tuning.behind(view)


GROWS: dict[StageName, NodeKind] = {
    "preliminary": "draft",
    "tuning": "improve",
    "agenda": "improve",
    "ablation": "ablate",
}
"""The kind of node that brings code to a stage; to stage 2 a person alone does, its search is `search.tuning`."""


class Policy(Protocol):
    """Chooses one action from what may be seen."""

    def pick(self, view: View, rng: Random) -> Action: ...


def policy_of(settings: SearchSettings) -> Policy:
    """The policy that the settings name."""
    return BestFirst(settings) if settings.policy == "best-first" else Chain(settings)


@dataclass(frozen=True)
class Staged:
    """A policy in stages: what is owed, then a node more, then the end. Which node, the subclass says."""

    settings: SearchSettings

    def pick(self, view: View, rng: Random) -> Action:
        plan = view.planning == "due" and not view.limited
        due = ABLATION_PLAN if plan else owed(view, self.settings) or rung(view)
        if due is not None:
            return due
        reason = over(view, self.settings)
        if reason is None:
            return (self.grow(view, rng) if view.planning != "asked" else None) or Wait()
        if view.searching:
            return Wait()
        if (tuned := self.tuned(view)) is not None:
            return tuned
        if (rerun := contested(view)) is not None:  # settle close calls: by seeds, then by a model
            return rerun
        if any(one.parent in {node.id for node in view.contested} for one in view.in_flight):
            return Wait()
        if view.undecided is not None and not view.limited:
            a, b = view.undecided
            return Wait() if view.asked else Compare(stage=view.stage, a=a, b=b)
        if (view.stage == "ablation" and view.busy) or (
            view.stage == "agenda" and not all(one.finished for one in pilot(view))
        ):  # from the pilot follows what is locked
            return Wait()
        return End(reason=reason if view.best is not None else f"{reason}; nothing worked", stage=view.stage)

    def tuned(self, view: View) -> Action | None:
        """What is due once a stage is searched: to tune arms again whose code changed, to measure what was chosen."""
        node = {"tuning": tuning.base(view), "agenda": view.best}.get(view.stage)
        if node is None or view.spent or (view.stage == "agenda" and view.kind("tune")):  # once a stage is enough
            return None
        return tuning.step(view, node) or (Wait() if view.in_trial else None)

    def common_repair(self, view: View) -> Expand | None:
        """What children of one node failed of alike is mended in that node, once, and not in each of them."""
        if not view.together.unmended or not self.settings.max_debug_depth:
            return None
        children = view.together.unmended[0]
        return expansion(view, "debug", view.nodes[children[0].parent or ""]).model_copy(
            update={"mends": tuple(node.id for node in children)}
        )

    @abstractmethod
    def grow(self, view: View, rng: Random) -> Expand | Extend | None:
        """The next search node of a stage that is not over; None to wait for a result."""


class BestFirst(Staged):
    """Debug buggy leaves first, with `debug_prob`; otherwise grow from the best."""

    def grow(self, view: View, rng: Random) -> Expand | Extend | None:
        leaves = view.debuggable(self.settings.max_debug_depth)
        debug = self.common_repair(view) or (expansion(view, "debug", leaves[0]) if leaves else None)
        if debug is not None and rng.random() < self.settings.debug_prob:
            return debug
        if view.stage != "preliminary":
            if view.best is None or view.taken_up or nothing_left(view):
                return debug
            if view.stage == "tuning":
                return debug or tuning.step(view, tuning.base(view))
            return expansion(view, GROWS[view.stage], view.best) if view.best.id not in view.together.pending else None
        wanted = len(view.kind("draft")) < self.settings.num_drafts or not (view.open or view.searching)
        return expansion(view, "draft", None) if wanted else debug


class Chain(Staged):
    """One line of work and no tree: fix the newest node, or go on from it, whether it was better or not.

    What a tree search is to be compared with, and all that a policy needs to be.
    """

    def grow(self, view: View, rng: Random) -> Expand | Extend | None:
        if view.searching:
            return None
        leaves = view.debuggable(self.settings.max_debug_depth)
        debug = self.common_repair(view) or (expansion(view, "debug", leaves[-1]) if leaves else None)
        if debug is not None:
            return debug
        if view.stage == "preliminary":
            return expansion(view, "draft", None)
        if view.taken_up or nothing_left(view):
            return None
        if view.stage == "tuning":
            return tuning.step(view, tuning.base(view))
        newest = view.open[-1] if view.open else view.root
        return expansion(view, GROWS[view.stage], view.root if view.stage == "ablation" else newest)


def expansion(view: View, kind: NodeKind, parent: Node | None) -> Expand:
    """A search node of this stage, with the agenda item whose turn it is."""
    ordinal = len(view.kind(kind))
    item = ""
    arm = tuning.behind(view) if kind == "improve" else ""
    if view.items and kind in ("improve", "ablate") and not arm:
        turn = view.turns(kind) % len(view.items)
        due = (*view.together.again, *view.items[turn:], *view.items[:turn])
        item = next((one for one in due if one not in view.answered), due[0])
    return Expand(
        stage=view.stage,
        kind=kind,
        parent=parent.id if parent else None,
        ordinal=ordinal,
        item=item,
        arm=arm,
        seed=view.seed,
    )


@dataclass(frozen=True)
class Owed:
    """What settled stages still owe, and no search: replicates, aggregates, reports."""

    settings: SearchSettings

    def pick(self, view: View, rng: Random) -> Action:
        due = owed(view, self.settings)
        return due or (Wait() if view.busy else End(reason="what the stages before owed is done"))


LATE_DEBUGS = 1
"""Debug attempts of an ablation that was asked for after the draft, and fails: its claims wait."""


@dataclass(frozen=True)
class MissingAblations:
    """What a reviewer of the draft asks for: each ablation, a debug attempt where it fails, then its replicates."""

    settings: SearchSettings
    fits: Callable[[Action], bool]
    """Whether the budget has room for an action; what it has no room for is not begun, and limits nothing else."""

    def pick(self, view: View, rng: Random) -> Action:
        due: list[Expand] = []
        tried = [line[-1] for line in view.missing.values() if line]
        due += [
            expansion(view, "ablate", view.root).model_copy(update={"item": item})
            for item, line in view.missing.items()
            if not line
        ]
        deepest = min(LATE_DEBUGS, self.settings.max_debug_depth)
        due += [expansion(view, "debug", node) for node in view.debuggable(deepest) if node in tried]
        for node in tried:
            if node in view.good:
                due += replicate_of(view, "ablation", node, of_ablation(view, self.settings))
        first = None if view.spent else next((one for one in due if self.fits(one)), None)
        if first is not None:
            return first
        return Wait() if view.in_flight else End(reason="what a reviewer asked for came to its end")
