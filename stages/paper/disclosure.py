"""Build `review/disclosure.json` at release: everything that a run tried, measured and selected.

It depends only on the record up to the release, so an audit can rebuild it; the later judgement and its cost are not
included. Stepwise values are in each attempt's measurements.jsonl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic_core import to_json

from labwright.record.ablation_results import collect_ablation_results
from labwright.record.cell_status import CellStatus, CellTotals, compute_all_cells, compute_cell_totals
from labwright.record.claims.estimates import find_replicates, find_winner, nodes_ignoring_seed
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import compute_requested_estimates, list_requests
from labwright.record.claims.setting_controls import build_tuning_report, compute_parity
from labwright.record.events import Event
from labwright.record.events.paper_events import PaperReleased
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import AncestorRun, RoleUsage, RunState, sum_usage
from labwright.record.reference_baselines import (
    compute_reference_claims,
    find_chosen_settings,
    find_reference_tuning_node,
    find_reference_wins,
)
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import SearchAction
from labwright.record.schema.nodes import SEARCH_KINDS, STAGES, Attempt, Node, StageName
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


def format_disclosure(state: RunState, *, isolation: str, text_round: int) -> str:
    """Return the disclosure of a run that is about to release the draft of round `text_round`.

    Units are seconds, bytes, USD and tokens, as in the field names.
    """
    assert state.started is not None
    drafts = {one.round: one for one in state.paper.drafts}  # the last draft is recorded again when the paper is done
    cells, first = compute_all_cells(state), find_reference_tuning_node(state)
    primary = state.search.data_plan.primary_metric.name if state.search.data_plan else ""
    return (
        to_json(
            {
                "form": 1,
                "run_version": state.started.version,
                "paper_version": state.paper.version,
                "idea": state.started.idea,
                "seed": state.started.seed,
                "models": state.models,
                "isolation": state.isolations,
                "isolation_told": isolation,
                "machines": state.machines,
                "settings": state.started.settings,
                "overrides": state.overrides,
                "datasets": state.search.datasets,
                "scorers": state.search.scorers,
                "installed": state.search.installed_packages,
                "untested": state.search.data_plan.untested_statements if state.search.data_plan else (),
                "rules": SELECTION_RULES,
                "protocol": state.search.protocol_review,
                "prior_work": state.paper.prior_work,
                **_describe_recalled(state),
                "plan": state.search.plan_hash,
                "amendments": [one.model_dump(exclude={"data_plan"}) for one in state.search.amendments],
                "locks": [one for _, one in state.search.locks],
                "decided": decide_hypotheses(state),
                "estimates": [
                    {"request": one.request} | one.found.model_dump(include={"mean", "low", "high", "seeds", "values"})
                    for one in compute_requested_estimates(state, list_requests(state))[0]
                ],
                "counts": _count_records(state),
                "nodes": [
                    _describe_node(node, state) | _describe_cells(cells.get(node.id, ()), state.gpus_per_experiment)
                    for node in state.nodes.values()
                ],
                **_describe_cell_totals(compute_cell_totals(state, cells), state.gpus_per_experiment),
                "metrics": list(_describe_metrics(state, primary)),
                "decisions": [
                    {
                        "k": k,
                        "action": _describe_action(one.action),
                        "seen_through": one.seen.through,
                        "seen_also": one.seen.also,
                    }
                    for k, one in state.decisions.items()
                ],
                "stages": [_describe_stage(name, state) for name in STAGES],
                "reported": find_winner(state),
                "ladder": {
                    "settings": find_chosen_settings(state, first.id)
                    if first is not None and first.is_finished
                    else {},
                    "values": [claim for claim in compute_reference_claims(state) if claim.name == primary],
                    "beats every arm on": [one.dataset for one in find_reference_wins(state)]
                    if state.search.data_plan
                    else [],
                },
                "comparisons": list(state.search.comparisons.values()),
                "probes": state.search.probes,
                "readings": state.search.code_readings,
                "seedless": nodes_ignoring_seed(state),
                "drafts": [
                    {
                        "round": one.round,
                        "untied": len(one.violations),
                        "findings": len(one.findings),
                        "pages": one.pages,
                        "released": one.round == text_round,
                        "cut": [line for line in one.edits if line.endswith(CUT_NOTE)],
                        "claims too much": read.violations if (read := state.paper.claims_read.get(one.round)) else (),
                        "unreported": read.unreported if read else (),
                        "unread": read.unread if read else None,
                    }
                    for one in drafts.values()
                ],
                "limited": "; ".join(filter(None, (*state.earlier_limits, state.limit_reason))),
                "tuning": build_tuning_report(state),
                "parity": compute_parity(state),
                # the judge runs after the paper; usage of an earlier version does not belong to this paper
                "subjects": state.calls.llm_usage,
                "campaign": state.campaign,
                "cost": [
                    _describe_cost(role, used)
                    for role, used in sorted(state.calls.usage_by_role.items())
                    if role not in LATE_ROLES
                ],
                # reserved for calls that were interrupted, or failed with unknown cost
                "lost_usd": round(sum((one.usd for one in state.calls.lost_costs.values()), 0.0), 6),
                "seconds_of_code": round(state.experiment_seconds, 1),
                "seconds_of_run": round(state.active_seconds, 1),
                "notes": [{"after_decision": one.after_decision, "text": one.command.text} for one in state.notes],
                "ablations": _describe_ablations(state),
                **({"requests": state.paper.requests, "addenda": state.search.addenda} if state.search.addenda else {}),
                "unscored": {node: failure.message for node, failure in state.search.scoring_failures.items()},
                "figures_left_out": state.paper.figures.left_out if state.paper.figures is not None else {},
                "steering": list(_describe_user_actions(state)),
                "figures_refused": {
                    node.id: why for node in state.nodes.values() if (why := list(_list_refusals(node)))
                },
                "human_nodes": [
                    {"node": node.id, "author": node.author, "stage": node.stage, "kind": node.kind, "plan": node.plan}
                    for node in state.user_nodes
                ],
                "ancestry": [_describe_ancestor(one) for one in state.ancestry],
                "unanswered": list(state.calls.unanswered_calls.values()),
                "siblings": BRANCH_NOTE if state.ancestry else "",
            },
            indent=1,
            by_alias=False,
        ).decode()
        + "\n"
    )


def find_disclosure_file(folder: RunFolder) -> str:
    """Return the path of the disclosure relative to the run; each version of the paper has its own."""
    name = "disclosure.json" if folder.paper_version == 1 else f"disclosure-{folder.paper_version}.json"
    return str((folder.review / name).relative_to(folder.root))


def rebuild_release_state(events: Iterable[tuple[Event, float]]) -> RunState:
    """Return the state at the last release, i.e. the fold of all events before it."""
    every = list(events)
    last = max((at for at, (event, _) in enumerate(every) if isinstance(event, PaperReleased)), default=len(every))
    return fold_events(every[:last])


def _describe_action(action: SearchAction) -> dict[str, object]:
    """Return an action without fields that do not apply to it."""
    few = [name for name in ("repairs_children", "trials", "arm") if not getattr(action, name, "")]
    return action.model_dump(mode="json", exclude=set(few))


def _count_records(state: RunState) -> dict[str, int]:
    """Count the records that readers ask for first."""
    nodes = list(state.nodes.values())
    attempts = [attempt for node in nodes for attempt in node.attempts]
    by_status = {
        f"{status} nodes": sum(node.status == status for node in nodes)
        for status in dict.fromkeys(node.status for node in nodes)
    }
    return {
        "nodes": len(nodes),
        **by_status,
        "suspect nodes": sum(bool(node.suspect) for node in nodes),
        "executions": len(attempts),
        "failed executions": sum(one.failure is not None for one in attempts),
        "retries": len(attempts) - sum(bool(node.attempts) for node in nodes),
        "plottings": sum(node.plot_count for node in nodes),
        "comparisons": len(state.search.comparisons),
        "nodes scored on test data": len(state.search.test_measurements),
        "drafts": len({one.round for one in state.paper.drafts}),
        "notes": len(state.notes),
    }


def _format_failure(of: Node | Attempt) -> str:
    return f"{of.failure.kind}: {of.failure.message}" if of.failure is not None else ""


def _list_refusals(node: Node) -> Iterator[str]:
    for plotting in node.plottings:
        if plotting.failure is not None:
            yield f"plotting {plotting.n}: {plotting.failure.message}"
        for review in plotting.reviews or ():
            if not review.readable:
                yield f"plotting {plotting.n}: {review.name}: {'; '.join(review.issues) or 'refused without a reason'}"


def _describe_node(node: Node, state: RunState) -> dict[str, object]:
    copied = (
        "id",
        "decision",
        "parent",
        "stage",
        "kind",
        "seed",
        "title",
        "plan",
        "varies",
        "source_sha256",
        "status",
        "reasons",
        "suspect",
        "findings",
    )
    return {
        **{name: getattr(node, name) for name in copied},
        "failure": _format_failure(node),
        "verdict": node.verdict.analysis if node.verdict else "",
        "checks": node.verdict.checks if node.verdict else (),
        "attempts": [
            {
                "number": one.number,
                "seconds": round(one.seconds, 3),
                "limit": one.limit,
                "alone": one.alone,
                "resumed": one.resumed,
                "failure": _format_failure(one),
                "peak_host_bytes": one.peak_host_bytes,
                "peak_gpu_bytes": one.peak_gpu_bytes,
                "arrays": len(one.arrays),
                "sealed": len(one.sealed),
            }
            for one in node.attempts
        ],
        "figures": len(node.figures),
        "validation": node.measurements,
        "test": state.search.test_measurements.get(node.id, ()),
    }


def _describe_cell_totals(totals: CellTotals | None, gpus: int) -> dict[str, object]:
    """Return the totals of the run's cells; empty if no node has cells."""
    if totals is None:
        return {}
    hours = {"gpu_hours": round(totals.seconds * gpus / 3600, 4)} if gpus else {}
    return {"cells": totals.model_dump(exclude={"seconds_left"}) | hours}


def _describe_cells(cells: Iterable[CellStatus], gpus: int) -> dict[str, object]:
    """Return the cells of a node with their outcomes, in order; empty for a program without cells."""
    found = [
        {
            **one.cell.model_dump(),
            "outcome": one.outcome,
            "diverged": one.has_diverged,
            "why": one.why,
            "execution": one.run.id if one.run is not None else "",
            "taken_from": one.node,
            "seconds": round(one.seconds, 3),
            **({"gpu_hours": round(one.seconds * gpus / 3600, 6)} if gpus else {}),
        }
        for one in cells
    ]
    return {"cells": found} if found else {}


def _describe_metrics(state: RunState, primary: str) -> Iterator[dict[str, object]]:
    """Yield every metric with its use; nodes were selected by the primary metric on validation data."""
    seen: dict[tuple[str, str, str], list[tuple[str, Measurement]]] = {}
    for node in state.nodes.values():
        values = [one for attempt in node.attempts for one in attempt.measurements]
        for measurement in (*values, *state.search.test_measurements.get(node.id, ())):
            seen.setdefault((measurement.name, measurement.dataset, measurement.split), []).append(
                (node.id, measurement)
            )
    for (name, dataset, split), values in sorted(seen.items()):
        yield {
            "name": name,
            "dataset": dataset,
            "split": split,
            "conditions": list(dict.fromkeys(one.condition for _, one in values)),
            "nodes": len({node for node, _ in values}),
            "values": len(values),
            "grades": sorted({one.grade for _, one in values}),
            "selects": name == primary and split == "validation",
        }


def _describe_stage(name: StageName, state: RunState) -> dict[str, object]:
    stage = state.search.stages[name]
    searched = [node for node in state.list_stage_nodes(name) if node.kind in SEARCH_KINDS]
    return {
        "stage": name,
        "best": stage.best,
        "reasons": stage.reasons,
        "candidates": sum(node.status == "good" and not node.suspect for node in searched),
        "tried": len(searched),
        "ended": stage.end_reason or "",
        "limited": stage.limit_reason or "",
        "replicates": [one.id for one in find_replicates(state, stage.best)] if stage.best else [],
    }


def _describe_cost(role: str, used: RoleUsage) -> dict[str, object]:
    return {
        "role": role,
        "calls": used.calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_tokens": used.cached_tokens,
        "cache_write_tokens": used.cache_write_tokens,
        "cached_usd": round(used.cached_usd, 6),
        "usd": round(used.usd, 6),
        "unpriced": used.unpriced,
        "seconds": round(used.seconds, 1),
    }


def _describe_ablations(state: RunState) -> dict[str, object] | None:
    planned, missed = state.search.planned_ablations, state.search.missing_ablations
    if planned is None and missed is None:
        return None
    return {
        "trials": collect_ablation_results(state),
        "risks": planned.risks if planned is not None else (),
        "unplanned": planned.why if planned is not None else "",
        "missing": missed.why if missed is not None else "",
        "rule": LATE_ABLATIONS_NOTE,
    }


def _describe_user_actions(state: RunState) -> Iterator[dict[str, object]]:
    """Yield the user actions that affected the search; pausing and stopping did not."""
    for action in state.user_commands:
        verb = action.command.verb
        if verb == "approve":
            yield {
                "after_decision": action.after_decision,
                "verb": verb,
                "target": action.command.target,
                "changed": "plan" if action.command.plan else "text" if action.command.draft else "",
                "reason": action.command.text,
            }
        if verb in ("kill", "mark", "note"):
            yield {
                "after_decision": action.after_decision,
                "verb": verb,
                "target": (action.stage or "") if verb == "note" else action.command.target,
                "mark": action.command.mark if verb == "mark" else "",
                "reason": action.command.text,
            }


def _describe_recalled(state: RunState) -> dict[str, object]:
    """Return the records of earlier runs that prompts showed, without their values and code; empty without a memory."""
    if (found := state.recalled_studies) is None:
        return {}
    return {
        "earlier_runs": [
            {"id": one.study.id, "run": one.study.run, "digest": one.study.digest, "why": one.why}
            for one in found.shown
        ]
    }


def _describe_ancestor(one: AncestorRun) -> dict[str, object]:
    """Describe an ancestor run. Its costs up to the branch point do not count towards this run's limits."""
    event, used = one.branching, sum_usage(one.usage.values())
    return {
        "run": event.parent,
        "point": event.point,
        "decision": one.decision,
        "nodes": one.nodes,
        "events": event.events,
        "sha256": event.sha256,
        "seed": event.seed,
        "settings_changed": list(event.settings),
        "note": event.note,
        "by": event.by,
        "beyond": event.later_ancestors,
        "calls": used.calls,
        "tokens": used.input_tokens + used.output_tokens,
        "usd": round(used.usd, 6),
        "unpriced": used.unpriced,
        "seconds_of_code": round(one.experiment_seconds, 1),
        "seconds_of_run": round(one.active_seconds, 1),
    }
