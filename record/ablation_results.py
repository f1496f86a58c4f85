"""Outcome of every planned ablation according to the record: measured, failed or not run, with the reason.

This module reports which ablation a node had to try and whether it ran. It does not check that the code changed
only that part; a model and the honesty check do (docs/search.md).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.baseline_check import Ablation, Surprise
from labwright.record.claims.estimates import compute_paper_claims, find_replicates
from labwright.record.estimands import list_main_arms
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel, is_empty
from labwright.record.schema.data_plan import Arm, DataPlan
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Node
from labwright.record.schema.paper import AddendumItem

AblationOrigin = Literal["author", "reviewer", "addendum"]


class AblationResult(FrozenModel):
    """A planned ablation and its outcome. `by`: planned before the ablation stage, requested after the draft, or
    registered in an addendum for reviewers of the paper."""

    ablation: Ablation
    by: AblationOrigin
    outcome: Literal["measured", "failed", "not run"]
    node: str = ""
    """Node that measured it, or the last node that failed; empty if it was not started."""
    arms: tuple[str, ...] = ()
    """Arms that the node measured in addition to those of the plan."""
    replicates: int = Field(default=0, description="number of successful replicates")
    why: str = Field(default="", description="reason why it failed or was not run")
    surprise: Surprise | None = Field(default=None, exclude_if=is_empty)
    """The surprise that it is the exploratory control for."""


def collect_ablation_results(state: RunState) -> tuple[AblationResult, ...]:
    """Return every planned ablation in order, then those requested by a reviewer of the draft, then of addenda."""
    planned = state.search.planned_ablations.ablations if state.search.planned_ablations is not None else ()
    stage = state.search.stages["ablation"]
    ended = stage.limit_reason or state.limit_reason or stage.end_reason or ""
    found = [_build_result(state, one, "author", ended) for one in planned]
    for one in state.search.requested_ablations:
        by = "addendum" if isinstance(one, AddendumItem) else "reviewer"
        found.append(_build_result(state, one.ablation, by, one.refused or state.limit_reason or ""))
    return tuple(found)


def find_ablation(state: RunState, item: str) -> Ablation | None:
    """Return the planned ablation for an agenda item of the ablation stage; None for a risk listed in the idea."""
    planned = state.search.planned_ablations.ablations if state.search.planned_ablations is not None else ()
    requested = (one.ablation for one in state.search.requested_ablations)
    return next((one for one in (*planned, *requested) if one.item_text == item), None)


def find_item_nodes(state: RunState, item: str) -> list[Node]:
    """Return the node for an ablation item and the nodes that debugged it, in decision order."""
    found: dict[str, Node] = {}
    for node in state.list_stage_nodes("ablation"):
        action = state.decisions[node.decision].action
        taken = isinstance(action, ExpandTree) and node.kind == "ablate" and action.item == item
        if taken or (node.kind == "debug" and node.parent in found):
            found[node.id] = node
    return list(found.values())


def _build_result(state: RunState, ablation: Ablation, by: AblationOrigin, ended: str) -> AblationResult:
    line, planned = find_item_nodes(state, ablation.item_text), state.search.planned_ablations
    named = planned.surprise if planned is not None and by == "author" else None
    surprise = named if named is not None and named.control == ablation.name else None
    found = AblationResult(
        ablation=ablation, by=by, outcome="not run", why=ended or "not taken up yet", surprise=surprise
    )
    good = next((node for node in line if node.status == "good" and not node.suspect), None)
    if good is not None:
        replicates = [one for one in find_replicates(state, good.id) if one.status == "good" and not one.suspect]
        main_arms = list_main_arms(state.search.data_plan) if state.search.data_plan else ()
        arms = tuple(dict.fromkeys(one.arm for one in good.measurements if one.arm not in main_arms))
        measured = {"outcome": "measured", "node": good.id, "arms": arms, "replicates": len(replicates), "why": ""}
        return found.model_copy(update=measured)
    last = next((node for node in reversed(line) if node.is_finished), None)
    if last is None:
        return found
    why = "; ".join((*last.reasons, *last.suspect)) or last.status
    return found.model_copy(update={"outcome": "failed", "node": last.id, "why": why})


def add_measured_arms(state: RunState, plan: DataPlan) -> DataPlan:
    """Return the plan with the measured arms outside of it as ablations, under their titles: those of ablations, and
    arms at the setting of another."""
    known, results = {one.name for one in plan.arms}, collect_ablation_results(state)
    added = dict.fromkeys(arm for one in results for arm in one.arms if arm not in known)
    added |= dict.fromkeys(one.arm for one in compute_paper_claims(state) if one.arm not in known)
    titles = {one.ablation.name: one.ablation.title for one in results}
    arms = (Arm(name=one, title=titles.get(one) or plan.name_arm(one), role="ablation") for one in added)
    return plan.model_copy(update={"arms": (*plan.arms, *arms)})
