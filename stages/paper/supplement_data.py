"""Build the files of `paper/supplement/`: the record as machine-readable tables, with the meaning of each column.

They depend only on the record, so an audit can rebuild them. Values have full precision here; the paper and its
supplement round them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from labwright.record.cell_status import compute_all_cells
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim, compute_node_score
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import compare_anchors
from labwright.record.claims.setting_controls import (
    ArmTuningReport,
    TuningReport,
    build_tuning_report,
    compute_parity,
    find_disparities,
)
from labwright.record.reducers.run_state import RoleUsage, RunState
from labwright.record.schema.data_plan import to_words
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Node
from labwright.record.schema.paper import LATE_ROLES
from labwright.record.table import Column, Table
from labwright.record.tuning_results import MAX_EQUAL_RATIO, MIN_TRIALS_FOR_TREND
from labwright.stages.paper.latex import shorten

SUPPLEMENT_FOLDER = "supplement"
"""The folder of the files, below the paper's folder."""


def _describe(name: str, title: str, meanings: Mapping[str, str], rows: Sequence[Sequence[object]]) -> Table:
    """Build a table from the meanings of its columns."""
    return Table(tuple(Column(one, meaning=meaning) for one, meaning in meanings.items()), rows, title, name)


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


def count_usage(state: RunState) -> list[tuple[str, RoleUsage]]:
    """Return the model calls by role up to the writing of the paper, and their total."""
    found = sorted((role, one) for role, one in state.calls.usage_by_role.items() if role not in LATE_ROLES)
    return [*found, ("total", state.calls.sum_usage_without(*LATE_ROLES))] if found else []


def build_supplement_tables(state: RunState, claims: Sequence[Claim]) -> tuple[Table, ...]:
    """Build all tables, including empty ones."""
    means = [one for one in claims if not isinstance(one, ClaimDifference)]
    paired = [one for one in claims if isinstance(one, ClaimDifference)]
    plan, cells = state.search.data_plan, compute_all_cells(state)
    return (
        _describe(
            "hypotheses",
            "What was registered and what came of it, a row an effect",
            {
                "id": "of the hypothesis",
                "statement": "in words",
                "confirmatory": "whether the paper stands on it",
                "estimand": "expression over cells, above zero if the hypothesis is right",
                "smallest": "effect of interest, in the metric's unit",
                "claim": "what was claimed of it",
                "mean": "estimate",
                "low": "end of the interval",
                "high": "end of the interval",
                "n": "seeds, or datasets",
                "direction": "of this effect",
                "verdict": "whether the claim holds",
                "values": "by seed, in the order of seeds",
            },
            [
                (
                    one.hypothesis.id,
                    one.hypothesis.statement,
                    one.hypothesis.confirmatory,
                    part.effect.estimand,
                    part.effect.smallest,
                    part.effect.claim_text,
                    part.mean,
                    part.low,
                    part.high,
                    len(part.values),
                    part.direction,
                    part.verdict,
                    " ".join(f"{value:.6g}" for value in part.values),
                )
                for one in decide_hypotheses(state)
                for part in one.parts
            ],
        ),
        _describe(
            "measurements",
            "Means over replicates",
            {
                **_KEY_MEANINGS,
                "n": "replicates",
                "mean": "over them",
                "sd": "their standard deviation",
                "low": "end of the 95 % interval of the mean",
                "high": "end of the interval",
                "grade": "who computed it",
                "key": "as the paper's source names it",
            },
            [
                (
                    one.split,
                    one.dataset,
                    one.name,
                    one.condition,
                    one.n,
                    one.mean,
                    one.sd,
                    one.low,
                    one.high,
                    one.grade,
                    one.key,
                )
                for one in means
            ],
        ),
        _describe(
            "replicates",
            "The values behind the means",
            {**_KEY_MEANINGS, "seed": "of the replicate", "node": "that measured it", "value": "measured"},
            [
                (one.split, one.dataset, one.name, one.condition, seed, node, value)
                for one in means
                for seed, node, value in zip(one.seeds, one.nodes, one.values, strict=True)
            ],
        ),
        _describe(
            "comparisons",
            "Paired differences over seeds, condition minus other; nobody registered them",
            {
                **_KEY_MEANINGS,
                "other": "what is taken away",
                "n": "pairs",
                "mean": "difference",
                "low": "end of the 95 % interval",
                "high": "end of the interval",
                "over": "what the interval covers",
                "basis": "exploratory, and what qualifies it",
                "key": "as the paper's source names it",
            },
            [
                (
                    one.split,
                    one.dataset,
                    one.name,
                    one.condition,
                    one.other,
                    one.n,
                    one.mean,
                    one.low,
                    one.high,
                    "seeds and examples" if one.examples else "seeds",
                    one.basis_text,
                    one.key,
                )
                for one in paired
            ],
        ),
        _describe(
            "nodes",
            "Every node; score: mean of the primary metric on validation data of the main dataset over the method's "
            "conditions (over all where it measured no method), time: seconds of code over all attempts",
            {
                "node": "its id",
                "parent": "the node that it was made from",
                "stage": "of the search",
                "kind": "of work",
                "status": "at the end",
                "seed": "it ran with",
                "varies": "what it changes",
                "score": "see above",
                "runs": "executions",
                "time": "seconds",
                "error": "kind of failure",
            },
            [
                (
                    node.id,
                    node.parent,
                    node.stage,
                    node.kind,
                    node.status + (", suspect" if node.suspect else ""),
                    node.seed,
                    _describe_variation(node, state),
                    compute_node_score(node, plan),
                    len(node.attempts),
                    round(sum(one.seconds for one in node.attempts), 1),
                    node.failure.kind if node.failure else None,
                )
                for node in state.nodes.values()
            ],
        ),
        _describe(
            "cells",
            "What each node owed, and what became of it",
            {
                "node": "that owed it",
                "dataset": "of the plan",
                "arm": "of the plan",
                "level": "of the plan",
                "trial": "setting of hyperparameters",
                "seed": "it ran with",
                "outcome": "measured, taken over, failed or left out",
                "taken_from": "node that measured it",
                "seconds": "of computing",
                "why": "it failed or was left out",
            },
            [
                (
                    node,
                    one.cell.dataset,
                    one.cell.measured_arm,
                    one.cell.level,
                    one.cell.trial,
                    one.cell.seed,
                    one.outcome,
                    one.node,
                    round(one.seconds, 3),
                    one.why,
                )
                for node, found in cells.items()
                for one in found
            ],
        ),
        _describe(
            "cost",
            "Model calls by role, up to the writing of this paper",
            {
                "role": "of the model",
                "calls": "answered",
                "input_tokens": "sent, cached ones too",
                "cached_tokens": "of these, read from a provider's cache",
                "output_tokens": "answered",
                "US_dollars": "where the price is known",
                "unpriced": "calls without a known price",
                "seconds": "waited",
            },
            [
                (
                    role,
                    one.calls,
                    one.input_tokens,
                    one.cached_tokens,
                    one.output_tokens,
                    round(one.usd, 4),
                    one.unpriced,
                    round(one.seconds),
                )
                for role, one in count_usage(state)
            ],
        ),
        _describe(
            "subjects",
            "Language models that experiments asked: every answer is kept in the record, and each was asked for once",
            {
                "subject": "as the plan names it",
                "versions": "that answered",
                "calls": "answered",
                "input_tokens": "sent",
                "output_tokens": "answered",
                "US_dollars": "paid",
                "asked": "first and last, UTC",
            },
            [
                (
                    one.name,
                    " ".join(one.models),
                    one.calls,
                    one.input_tokens,
                    one.output_tokens,
                    round(one.usd, 4),
                    f"{one.first[:16]} to {one.last[:16]}",
                )
                for one in state.calls.llm_usage
            ],
        ),
        _describe(
            "settings",
            "Settings of the run; of paths the last part",
            {"setting": "its name", "value": "as used"},
            list(_list_settings(state)),
        ),
    )


_KEY_MEANINGS = {
    "split": "of the data",
    "dataset": "of the plan",
    "metric": "its name",
    "condition": "arm, or arm@level",
}


def _list_settings(state: RunState) -> Iterator[tuple[str, str]]:
    def flat(value: object, prefix: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for name, inner in cast(dict[str, object], value).items():
                yield from flat(inner, f"{prefix}.{name}" if prefix else name)
        elif value is not None:
            yield prefix, shorten(value, 160)

    settings = state.started.settings if state.started is not None else {}
    return (one for one in sorted(flat(settings, "")) if one[0] != "sandbox.scorers" and not one[0].startswith("data."))


def _describe_variation(node: Node, state: RunState) -> str | None:
    action = state.decisions[node.decision].action
    if isinstance(action, ExpandTree) and action.trials:
        return f"{action.trials[0].arm}: {len(action.trials)} trials"
    return node.varies or node.title or None


# Report tuning effort: each arm's budget, the resources of the compared arms, and published values. The wording is in
# `effort.tex.jinja`.


def build_effort_context(state: RunState, claims: Sequence[Claim]) -> dict[str, Any]:
    """Build the values for the sections and sentences on tuning."""
    account = build_tuning_report(state)
    name_arm = state.search.data_plan.name_arm if state.search.data_plan is not None else to_words
    settings = {one.arm: one.chosen for one in account.arms if one.chosen is not None} if account is not None else {}
    return {
        "account": account,
        "name_arm": name_arm,
        "unequal": tuple(map(name_arm, account.underfunded_arms)) if account is not None else (),
        "equal": f"{MAX_EQUAL_RATIO:g}",
        "fewest": MIN_TRIALS_FOR_TREND,
        "notes": _format_notes,
        "disparities": [
            (name_arm(arm), name_arm(other), what)
            for arm, other, what in find_disparities(state, compute_parity(state))
        ],
        "anchored": compare_anchors(state.search.data_plan, claims),
        "gaining": [name_arm(arm) for arm, one in settings.items() if one.gaining],
        "stale": [name_arm(arm) for arm, one in settings.items() if one.stale],
    }


def _format_notes(account: TuningReport, one: ArmTuningReport) -> str:
    """Return the notes on an arm's tuning effort; empty if there is nothing to report."""
    chosen = one.chosen
    return "; ".join(
        text
        for text, holds in (
            ("UNEQUAL: less than the others", one.arm in account.underfunded_arms),
            ("every setting of its space was tried", one.effort.exhausted),
            ("tuned with fewer trials than planned", chosen is not None and chosen.stale),
            ("the best came late: not converged", chosen is not None and chosen.gaining),
            (
                f"at the edge: {', '.join(chosen.edges)}" if chosen is not None else "",
                chosen is not None and chosen.edges,
            ),
        )
        if holds
    )
