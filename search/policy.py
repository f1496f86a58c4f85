"""Choose the next action, and decide when the search of a stage ends: pure functions of a snapshot and a random source.

Source: AI-Scientist-v2, sections 3.2.1 and 3.2.2 (stages and their goals, node kinds, debug priority). Whether a goal
is reached is computed where possible: datasets from measurements, tuning from its trials, ablations from their plan.
The best-first order is computed from verdicts and measurements; a model is only asked about close calls.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    CompareNodes,
    EndStage,
    ExpandTree,
    SearchAction,
    WaitForResult,
    WidenDimension,
)
from labwright.record.schema.nodes import Node, NodeKind, StageName
from labwright.search import tuning
from labwright.search.replication import (
    find_pilot_replicates,
    list_ablation_seeds,
    list_further_replicates,
    needs_paired_seeds,
    next_pilot_run,
    next_replicate,
    pending_follow_up,
)
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import StageSnapshot, find_locking_stage
from labwright.search.tuning import next_reference_run


def stage_end_reason(view: StageSnapshot, settings: SearchSettings) -> str | None:
    """Return why the search of this stage is over, or None while it continues.

    The preliminary stage ends when a prototype works and every buggy draft was fixed or fully debugged; tuning when
    every arm received its planned effort and the choices were measured together; ablation when every planned ablation
    was tried and no failed one can still be fixed.

    While no arm of a confirmatory hypothesis is better than a constant prediction, the stages before the lock go on to
    their limits.

    The result depends only on search nodes: once all of them are finished and it is not None, it no longer changes.
    """
    if view.limit_reason:
        return view.limit_reason
    limit = settings.find_limits(view.stage).nodes
    if len(view.searched_nodes) >= limit:
        return f"limit of {limit} nodes"
    followed_up = not view.unfinished_search_nodes and not view.list_debuggable(settings)
    if view.stage == "preliminary":
        drafted = len(view.list_nodes_of_kind("draft")) >= settings.count_drafts(view.plan.open)
        works = drafted and view.open_nodes and followed_up and not view.is_floored
        return "a prototype works, and every draft was followed up" if works else None
    if view.best_node is None:
        return "there is no node to build on: the selected node is suspect"
    if view.stage == "tuning":
        base = tuning.find_tuning_base(view)
        if view.is_floored:
            return None
        if not view.plan.tuned_arms:
            return "nothing can be tuned: no arm has hyperparameters"
        if base is None or not tuning.is_tunable(view, base):
            return "nothing can be tuned: the program does not run cell by cell"
        waits = view.has_pending_trials or not followed_up or tuning.next_tuning_action(view, base) is not None
        return None if waits else "every arm was tuned"
    if not followed_up:
        return None
    if view.stage == "agenda":
        return "no experiment has an idea left to try" if is_agenda_exhausted(view) else None
    return "every planned ablation was tried" if view.items_taken_up else None


def is_agenda_exhausted(view: StageSnapshot) -> bool:
    """Return whether the authors reported for every agenda item that nothing is left to try, and that no baseline
    needs work.
    """
    return (
        view.stage == "agenda"
        and bool(view.exhausted_items)
        and not view.open_items
        and (view.selects_nothing or not tuning.undertuned_baseline(view))
    )


NODE_KIND_BY_STAGE: dict[StageName, NodeKind] = {
    "preliminary": "draft",
    "tuning": "improve",
    "agenda": "improve",
    "ablation": "ablate",
}
"""The kind of node that adds code in each stage; in tuning only the user does so, since its search is
`search.tuning`."""


class Policy(Protocol):
    """Chooses one action from a snapshot."""

    def pick(self, view: StageSnapshot, rng: Random) -> SearchAction: ...


def build_policy(settings: SearchSettings) -> Policy:
    """Build the policy named in the settings."""
    return BestFirstPolicy(settings) if settings.policy == "best-first" else ChainPolicy(settings)


@dataclass(frozen=True)
class StagedPolicy:
    """A policy that works by stages: follow-up work first, then further nodes, then the end of the stage.
    Subclasses choose the nodes.
    """

    settings: SearchSettings

    def pick(self, view: StageSnapshot, rng: Random) -> SearchAction:
        plan = view.ablation_plan_status == "due" and not view.limit_reason
        due = ABLATION_PLAN_TASK if plan else pending_follow_up(view, self.settings) or next_reference_run(view)
        if due is not None:
            return due
        reason = stage_end_reason(view, self.settings)
        if reason is None:
            found = self.next_search_node(view, rng) if view.ablation_plan_status != "asked" else None
            return found or WaitForResult()
        if view.unfinished_search_nodes:
            return WaitForResult()
        if (tuned := self.next_tuning_step(view)) is not None:
            return tuned
        if (rerun := needs_paired_seeds(view)) is not None:  # resolve close calls: by seeds, then by a model
            return rerun
        if any(one.parent in {node.id for node in view.contested_nodes} for one in view.in_flight):
            return WaitForResult()
        if view.undecided_pair is not None and not view.limit_reason:
            a, b = view.undecided_pair
            return WaitForResult() if view.pending_comparisons else CompareNodes(stage=view.stage, a=a, b=b)
        if view.stage == find_locking_stage(view.plan):  # the lock depends on the pilot
            if (pilot := next_pilot_run(view, self.settings)) is not None:
                return pilot
            if not all(one.is_finished for one in find_pilot_replicates(view)):
                return WaitForResult()
        if view.stage == "ablation":
            further = list_further_replicates(view, self.settings)
            if further or view.has_pending_results:
                return further[0] if further else WaitForResult()
        return EndStage(reason=reason if view.best_node is not None else f"{reason}; nothing worked", stage=view.stage)

    def next_tuning_step(self, view: StageSnapshot) -> SearchAction | None:
        """Return the next step after the search of a stage: tune arms whose code changed, and measure the
        chosen settings."""
        node = {"tuning": tuning.find_tuning_base(view), "agenda": view.best_node}.get(view.stage)
        was_tuned = view.stage == "agenda" and view.list_nodes_of_kind("tune")  # only once per stage
        if node is None or view.selects_nothing or view.run_limit_reason or was_tuned:
            return None
        return tuning.next_tuning_action(view, node) or (WaitForResult() if view.has_pending_trials else None)

    @abstractmethod
    def next_search_node(self, view: StageSnapshot, rng: Random) -> ExpandTree | WidenDimension | None:
        """Return the next search node of an unfinished stage; None if it has to wait for a result."""


class BestFirstPolicy(StagedPolicy):
    """Debug buggy leaves first, with probability `debug_prob`; otherwise build on the best node."""

    def next_search_node(self, view: StageSnapshot, rng: Random) -> ExpandTree | WidenDimension | None:
        leaves = view.list_debuggable(self.settings)
        debug = build_expansion(view, "debug", leaves[0]) if leaves else None
        if debug is not None and rng.random() < self.settings.debug_prob:
            return debug
        if view.stage != "preliminary":
            if view.best_node is None or view.items_taken_up or is_agenda_exhausted(view):
                return debug
            if view.stage == "tuning":
                due = debug or tuning.next_tuning_action(view, tuning.find_tuning_base(view))
                return due or build_floor_improvement(view)
            return build_next_expansion(view, view.best_node)
        wanted = len(view.list_nodes_of_kind("draft")) < self.settings.count_drafts(view.plan.open) or not (
            view.open_nodes or view.unfinished_search_nodes
        )
        return build_expansion(view, "draft", None) if wanted else debug or build_floor_improvement(view)


class ChainPolicy(StagedPolicy):
    """A single line of nodes without a tree: fix the newest node, or build on it, whether or not it was better.

    Serves as the baseline for tree search, and as a minimal policy.
    """

    def next_search_node(self, view: StageSnapshot, rng: Random) -> ExpandTree | WidenDimension | None:
        if view.unfinished_search_nodes:
            return None
        leaves = view.list_debuggable(self.settings)
        if leaves:
            return build_expansion(view, "debug", leaves[-1])
        if view.stage == "preliminary":
            return build_expansion(view, "draft", None)
        if view.items_taken_up or is_agenda_exhausted(view):
            return None
        if view.stage == "tuning":
            return tuning.next_tuning_action(view, tuning.find_tuning_base(view)) or build_floor_improvement(view)
        newest = view.open_nodes[-1] if view.open_nodes else view.root
        return build_expansion(view, NODE_KIND_BY_STAGE[view.stage], view.root if view.stage == "ablation" else newest)


def build_floor_improvement(view: StageSnapshot) -> ExpandTree | None:
    """Build an improvement of the best node because it is at the floor; None otherwise, and while results are out."""
    waits = view.unfinished_search_nodes or view.has_pending_trials
    if not view.is_floored or view.best_node is None or waits:
        return None
    return build_expansion(view, "improve", view.best_node).model_copy(update={"item": "", "arm": ""})


def build_next_expansion(view: StageSnapshot, parent: Node) -> ExpandTree | None:
    """Build the next node of this stage that adds code; None while another node works on the item that it would get:
    the answers about the item are not known before that node has ended."""
    node = build_expansion(view, NODE_KIND_BY_STAGE[view.stage], parent)
    return None if node.item and node.item in view.items_in_work else node


def build_expansion(view: StageSnapshot, kind: NodeKind, parent: Node | None) -> ExpandTree:
    """Build a search node of this stage, with the next agenda item."""
    ordinal = len(view.list_nodes_of_kind(kind))
    item = ""
    arm = tuning.undertuned_baseline(view) if kind == "improve" and not view.selects_nothing else ""
    if view.agenda_items and kind in ("improve", "ablate") and not arm:
        turn = view.count_turns(kind) % len(view.agenda_items)
        due = (*view.agenda_items[turn:], *view.agenda_items[:turn])
        open_items = [one for one in due if one not in view.exhausted_items] or due[:1]
        item = next((one for one in open_items if one not in view.items_in_work), open_items[0])
    return ExpandTree(
        stage=view.stage,
        kind=kind,
        parent=parent.id if parent else None,
        ordinal=ordinal,
        item=item,
        arm=arm,
        seed=view.seed,
    )


@dataclass(frozen=True)
class FollowUpPolicy:
    """A policy without search that only does the follow-up work of settled stages: replicates, aggregates, reports."""

    settings: SearchSettings

    def pick(self, view: StageSnapshot, rng: Random) -> SearchAction:
        due = pending_follow_up(view, self.settings)
        return due or (
            WaitForResult()
            if view.has_pending_results
            else EndStage(reason="the follow-up work of earlier stages is done")
        )


MAX_LATE_DEBUGS = 1


@dataclass(frozen=True)
class RequestedWorkPolicy:
    """What reviewers requested: each ablation, one debug attempt if it fails, its replicates; then further fresh seeds
    of the confirmed node."""

    settings: SearchSettings
    is_affordable: Callable[[SearchAction], bool]
    """Whether the budget has room for an action; an action without room is skipped and does not affect others."""

    def pick(self, view: StageSnapshot, rng: Random) -> SearchAction:
        tried = [line[-1] for line in view.requested_ablations.values() if line]
        due = [
            build_expansion(view, "ablate", view.root).model_copy(update={"item": item})
            for item, line in view.requested_ablations.items()
            if not line
        ]
        deepest = min(MAX_LATE_DEBUGS, self.settings.max_debug_depth)
        leaves = view.list_debuggable(self.settings.model_copy(update={"max_debug_depth": deepest}))
        due += [build_expansion(view, "debug", node) for node in leaves if node in tried]
        for node in tried:
            if node in view.good_nodes:
                due += next_replicate(view, "ablation", node, list_ablation_seeds(view.lock, self.settings))
        if view.lock is not None and view.added_seeds:
            due += next_replicate(view, "agenda", view.nodes[view.lock.winner], view.added_seeds)
        first = None if view.run_limit_reason else next((one for one in due if self.is_affordable(one)), None)
        if first is not None:
            return first
        return WaitForResult() if view.in_flight else EndStage(reason="the work requested by reviewers is finished")
