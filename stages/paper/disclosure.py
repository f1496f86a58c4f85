"""Build what a release discloses beside the paper: everything that a run tried, measured and selected, as recorded.

`review/disclosure.json` has all of it, `paper/supplement/` the values behind the paper as tables, with the meaning of
each column. Both depend only on the record up to the release, so an audit can rebuild them; the later judgement and its
cost are not included. Values are in full. Stepwise values are in each attempt's measurements.jsonl. Units are seconds,
bytes, USD and tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from pydantic_core import to_json

from labwright.record.ablation_results import collect_ablation_results
from labwright.record.cell_status import CellStatus, compute_all_cells, compute_cell_totals
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim, find_winner, nodes_ignoring_seed
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
from labwright.record.table import Column, Table
from labwright.stages.paper.appendix import BRANCH_NOTE, LATE_ABLATIONS_NOTE

CUT_NOTE = "cut by the program, since the record does not have it"
"""End of the line on a sentence that was cut from a draft."""
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
    return {
        **node.model_dump(exclude={"attempts": {"__all__": _UNDISCLOSED_OF_ATTEMPT}, "step": True}),
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


# The tables of `paper/supplement/`.

SUPPLEMENT_FOLDER = "supplement"
"""The folder of the files, below the paper's folder."""


def format_files(tables: Iterable[Table]) -> dict[str, str]:
    """Return the files by path below the paper's folder: one CSV per table, and the description of all columns."""
    tables = list(tables)
    descriptions = "\n".join(
        f"\n## {one.name}.csv\n\n{one.title}.\n\n"
        + Table.of(("column", "meaning"), [(column.title, column.meaning) for column in one.columns]).to_markdown()
        for one in tables
    )
    return {
        f"{SUPPLEMENT_FOLDER}/README.md": (
            "# Data behind the paper\n\nMade by the program from the record of the run; values are in full, an "
            "empty field means that there is no value. `scientist audit` makes every file again. All decisions, "
            f"executions and choices are in `review/` of the run (disclosure).\n{descriptions}\n"
        ),
        **{f"{SUPPLEMENT_FOLDER}/{one.name}.csv": one.to_csv() for one in tables},
    }


Row = TypeVar("Row")


def _build_table(
    name: str, title: str, rows: Iterable[Row], columns: Mapping[str, tuple[str, Callable[[Row], object]]]
) -> Table:
    """Build a table with a row for each of `rows`; `columns`: title -> (meaning, value)."""
    return Table(
        tuple(Column(one, meaning=meaning) for one, (meaning, _) in columns.items()),
        [tuple(value(row) for _, value in columns.values()) for row in rows],
        title,
        name,
    )


def build_supplement_tables(state: RunState, claims: Sequence[Claim]) -> tuple[Table, ...]:
    """Build all tables, including empty ones."""
    means = [one for one in claims if not isinstance(one, ClaimDifference)]
    place: dict[str, tuple[str, Callable[[Claim], object]]] = {
        "split": ("of the data", lambda one: one.split),
        "dataset": ("of the plan", lambda one: one.dataset),
        "metric": ("its name", lambda one: one.name),
        "condition": ("arm, or arm@level", lambda one: one.condition),
    }
    return (
        _build_table(
            "hypotheses",
            "What was registered and what came of it, a row an effect",
            [(one, part) for one in decide_hypotheses(state) for part in one.parts],
            {
                "id": ("of the hypothesis", lambda row: row[0].hypothesis.id),
                "statement": ("in words", lambda row: row[0].hypothesis.statement),
                "confirmatory": ("whether the paper stands on it", lambda row: row[0].hypothesis.confirmatory),
                "estimand": (
                    "expression over cells, above zero if the hypothesis is right",
                    lambda row: row[1].effect.estimand,
                ),
                "smallest": ("effect of interest, in the metric's unit", lambda row: row[1].effect.smallest),
                "claim": ("what was claimed of it", lambda row: row[1].effect.claim_text),
                "mean": ("estimate", lambda row: row[1].mean),
                "low": ("end of the interval", lambda row: row[1].low),
                "high": ("end of the interval", lambda row: row[1].high),
                "n": ("seeds, or datasets", lambda row: len(row[1].values)),
                "direction": ("of this effect", lambda row: row[1].direction),
                "verdict": ("whether the claim holds", lambda row: row[1].verdict),
                "values": (
                    "by seed, in the order of seeds",
                    lambda row: " ".join(f"{value:.6g}" for value in row[1].values),
                ),
            },
        ),
        _build_table(
            "measurements",
            "Means over replicates",
            means,
            {
                **place,
                "n": ("replicates", lambda one: one.n),
                "mean": ("over them", lambda one: one.mean),
                "sd": ("their standard deviation", lambda one: one.sd),
                "low": ("end of the 95 % interval of the mean", lambda one: one.low),
                "high": ("end of the interval", lambda one: one.high),
                "grade": ("who computed it", lambda one: one.grade),
                "key": ("as the paper's source names it", lambda one: one.key),
            },
        ),
        _build_table(
            "replicates",
            "The values behind the means",
            [(one, *each) for one in means for each in zip(one.seeds, one.nodes, one.values, strict=True)],
            {
                "key": ("of the mean, as in `measurements`", lambda row: row[0].key),
                "seed": ("of the replicate", lambda row: row[1]),
                "node": ("that measured it", lambda row: row[2]),
                "value": ("measured", lambda row: row[3]),
            },
        ),
        _build_table(
            "comparisons",
            "Paired differences over seeds, condition minus other; nobody registered them",
            [one for one in claims if isinstance(one, ClaimDifference)],
            {
                **place,
                "other": ("what is taken away", lambda one: one.other),
                "n": ("pairs", lambda one: one.n),
                "mean": ("difference", lambda one: one.mean),
                "low": ("end of the 95 % interval", lambda one: one.low),
                "high": ("end of the interval", lambda one: one.high),
                "over": ("what the interval covers", lambda one: "seeds and examples" if one.examples else "seeds"),
                "basis": ("exploratory, and what qualifies it", lambda one: one.basis_text),
                "key": ("as the paper's source names it", lambda one: one.key),
            },
        ),
    )
