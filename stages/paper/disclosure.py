"""Build `review/disclosure.json` at release: everything that a run tried, measured and selected, as recorded.

It depends only on the record up to the release, so an audit can rebuild it; the later judgement and its cost are not
included. Stepwise values are in each attempt's measurements.jsonl. Units are seconds, bytes, USD and tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic_core import to_json

from labwright.record.ablation_results import collect_ablation_results
from labwright.record.cell_status import CellStatus, compute_all_cells, compute_cell_totals
from labwright.record.claims.estimates import find_winner, nodes_ignoring_seed
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import compute_requested_estimates, list_requests
from labwright.record.claims.setting_controls import build_tuning_report, compute_parity
from labwright.record.events import Event
from labwright.record.events.paper_events import DraftAssessed, PaperReleased
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import (
    compute_reference_claims,
    find_chosen_settings,
    find_reference_tuning_node,
    find_reference_wins,
)
from labwright.record.run_folder import RunFolder
from labwright.record.schema.nodes import STAGES, Node, StageName
from labwright.record.schema.paper import LATE_ROLES
from labwright.stages.paper.appendix import BRANCH_NOTE, LATE_ABLATIONS_NOTE
from labwright.stages.paper.claim_check import CUT_NOTE

SELECTION_RULES = {
    "next node": "search.policy picks the parent from validation results that the decision may see (docs/search.md)",
    "best of a stage": "of the nodes that worked and are not suspect, those that measured most cells of the data plan; "
    "of these the largest mean gain of the primary metric on validation data; where measured noise "
    "hides the difference, the one that a comparison found sounder, else the earlier one (order "
    "ticket) or the cheaper one (arrival)",
    "what the paper reports": "the best of the last stage before ablation that found one, by replicates alone: the "
    "seed that the search looked at is left out",
    "test data": "scored once, at the looks or after the last stage, for that node, the ablations that worked, and "
    "the replicates of both",
    "text": "of all drafts the one with the fewest passages not tied to the record, then with the fewest findings "
    "that stop a release, then with the fewest findings; of equals the latest",
}
_UNDISCLOSED_OF_ATTEMPT = {"stdout_tail", "cells", "arrays", "artifacts", "curves_sha256", "exchanges_sha256"}
"""Fields of an attempt that are its files, or that the cells of its node have."""


def format_disclosure(state: RunState, *, isolation: str, text_round: int) -> str:
    """Return the disclosure of a run that is about to release the draft of round `text_round`."""
    started, search, paper, calls = state.started, state.search, state.paper, state.calls
    assert started is not None
    drafts = {one.round: one for one in paper.drafts}  # the last draft is recorded again when the paper is done
    cells, first, plan = compute_all_cells(state), find_reference_tuning_node(state), search.data_plan
    content: dict[str, object] = {
        "form": 2,
        "run_version": started.version,
        "paper_version": paper.version,
        "idea": started.idea,
        "seed": started.seed,
        "models": state.models,
        "isolation": state.isolations,
        "isolation_told": isolation,
        "machines": state.machines,
        "settings": started.settings,
        "overrides": state.overrides,
        "campaign": state.campaign,
        "ancestry": state.ancestry,
        "siblings": BRANCH_NOTE if state.ancestry else "",
        "earlier_runs": [
            {"id": one.study.id, "run": one.study.run, "digest": one.study.digest, "why": one.why}
            for one in (state.recalled_studies.shown if state.recalled_studies is not None else ())
        ],
        "steering": [
            {"after_decision": one.after_decision, "stage": one.stage, **one.command.model_dump(exclude={"type", "by"})}
            for one in state.user_commands
            if one.command.verb in ("approve", "kill", "mark", "note")
        ],
        "datasets": search.datasets,
        "scorers": search.scorers,
        "installed": search.installed_packages,
        "prior_work": paper.prior_work,
        "protocol": search.protocol_review,
        "plan": search.plan_hash,
        "untested": plan.untested_statements if plan is not None else (),
        "amendments": [one.model_dump(exclude={"data_plan"}) for one in search.amendments],
        "locks": [one for _, one in search.locks],
        "decided": decide_hypotheses(state),
        "estimates": compute_requested_estimates(state, list_requests(state))[0],
        "rules": SELECTION_RULES,
        "nodes": [_describe_node(node, state, cells.get(node.id, ())) for node in state.nodes.values()],
        "cells": compute_cell_totals(state, cells),
        "gpus_per_experiment": state.gpus_per_experiment,
        "decisions": list(state.decisions.values()),
        "stages": [_describe_stage(name, state) for name in STAGES],
        "reported": find_winner(state),
        "ladder": {
            "settings": find_chosen_settings(state, first.id) if first is not None and first.is_finished else {},
            "values": compute_reference_claims(state),
            "beats every arm on": [one.dataset for one in find_reference_wins(state)] if plan is not None else [],
        },
        "comparisons": list(search.comparisons.values()),
        "probes": search.probes,
        "readings": search.code_readings,
        "seedless": nodes_ignoring_seed(state),
        "unscored": {node: failure.message for node, failure in search.scoring_failures.items()},
        "tuning": build_tuning_report(state),
        "parity": compute_parity(state),
        "ablations": collect_ablation_results(state),
        "planned_ablations": search.planned_ablations,
        "missing_ablations": search.missing_ablations,
        "missing_ablations_rule": LATE_ABLATIONS_NOTE,
        "requests": paper.requests,
        "addenda": search.addenda,
        "drafts": [_describe_draft(one, state, released=one.round == text_round) for one in drafts.values()],
        "figures_left_out": paper.figures.left_out if paper.figures is not None else {},
        "unanswered": list(calls.unanswered_calls.values()),
        "limited": "; ".join(filter(None, (*state.earlier_limits, state.limit_reason))),
        "subjects": calls.llm_usage,
        # the judge runs after the paper; usage of an earlier version does not belong to this paper
        "cost": {role: used for role, used in sorted(calls.usage_by_role.items()) if role not in LATE_ROLES},
        # reserved for calls that were interrupted, or failed with unknown cost
        "lost_usd": round(sum((one.usd for one in calls.lost_costs.values()), 0.0), 6),
        "seconds_of_code": round(state.experiment_seconds, 1),
        "seconds_of_run": round(state.active_seconds, 1),
    }
    return to_json(content, indent=1, by_alias=False).decode() + "\n"


def find_disclosure_file(folder: RunFolder) -> str:
    """Return the path of the disclosure relative to the run; each version of the paper has its own."""
    name = "disclosure.json" if folder.paper_version == 1 else f"disclosure-{folder.paper_version}.json"
    return str((folder.review / name).relative_to(folder.root))


def rebuild_release_state(events: Iterable[tuple[Event, float]]) -> RunState:
    """Return the state at the last release, i.e. the fold of all events before it."""
    every = list(events)
    last = max((at for at, (event, _) in enumerate(every) if isinstance(event, PaperReleased)), default=len(every))
    return fold_events(every[:last])


def _describe_node(node: Node, state: RunState, cells: Iterable[CellStatus]) -> dict[str, object]:
    return node.model_dump(exclude={"attempts": {"__all__": _UNDISCLOSED_OF_ATTEMPT}, "step": True}) | {
        "test": state.search.test_measurements.get(node.id, ()),
        "cells": [
            {
                **one.cell.model_dump(),
                "outcome": one.outcome,
                "diverged": one.has_diverged,
                "why": one.why,
                "execution": one.run.id if one.run is not None else "",
                "taken_from": one.node,
                "seconds": round(one.seconds, 3),
            }
            for one in cells
        ],
    }


def _describe_stage(name: StageName, state: RunState) -> dict[str, object]:
    stage = state.search.stages[name]
    return {
        "stage": name,
        "best": stage.best,
        "reasons": stage.reasons,
        "ended": stage.end_reason or "",
        "limited": stage.limit_reason or "",
    }


def _describe_draft(one: DraftAssessed, state: RunState, *, released: bool) -> dict[str, object]:
    read = state.paper.claims_read.get(one.round)
    return {
        "round": one.round,
        "untied": len(one.violations),
        "findings": len(one.findings),
        "pages": one.pages,
        "released": released,
        "cut": [line for line in one.edits if line.endswith(CUT_NOTE)],
        "claims too much": read.violations if read is not None else (),
        "unreported": read.unreported if read is not None else (),
        "unread": read.unread if read is not None else None,
    }
