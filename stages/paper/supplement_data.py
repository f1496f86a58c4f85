"""Build the files of `paper/supplement/`: the record as machine-readable tables, with the meaning of each column.

They depend only on the record, so an audit can rebuild them. Values have full precision here; the paper and its
supplement round them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
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
from labwright.record.schema import Scalar
from labwright.record.schema.data_plan import Hyperparameter, to_words
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Node
from labwright.record.schema.paper import LATE_ROLES
from labwright.record.table import Column, Table
from labwright.record.tuning_results import MAX_EQUAL_RATIO, MIN_TRIALS_FOR_TREND
from labwright.stages.paper.latex import mark_recorded, shorten

SUPPLEMENT_FOLDER = "supplement"
"""The folder of the files, below the paper's folder."""


def _describe(
    name: str, title: str, meanings: Mapping[str, str], rows: Sequence[Sequence[object]], types: str = ""
) -> Table:
    """Build a table from the meanings of its columns; `types` are their TeX types, for a table that is printed."""
    tex = re.findall(r"[lr]|L\{[^}]*\}", types) or [""] * len(meanings)
    columns = (
        Column(one, meaning=meaning, tex=kind) for (one, meaning), kind in zip(meanings.items(), tex, strict=True)
    )
    return Table(tuple(columns), rows, title, name)


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
            "lllllrL{1.9in}rrrL{0.6in}",
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
            "lrrrrrrr",
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
            "lL{1.6in}rrrrL{1.5in}",
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


# Report tuning effort: each arm's budget, the chosen settings, the expected gain from more trials, the resources of
# the compared arms, and published values. The wording is in `effort.tex.jinja`.

SAMPLER_NOTES = {
    "random": "",
    "sobol": "The trials are points of a Sobol sequence, not drawn at random. ",
    **{
        sampler: f"The trials were proposed by {name} after a few that were spread over the space, not drawn at "
        f"random: "
        "for so many trials the curve says what was found, and no random search is promised to find as much. "
        for sampler, name in (("tpe", "TPE"), ("gp", "a Gaussian process"))
    },
}


def build_effort_context(state: RunState, claims: Sequence[Claim]) -> dict[str, Any]:
    """Build the values for the sections and sentences on tuning."""
    account, rows = build_tuning_report(state), compute_parity(state)
    name_arm = state.search.data_plan.name_arm if state.search.data_plan is not None else to_words
    curves = {name_arm(one.arm): one.curve for one in account.arms if one.curve} if account is not None else {}
    settings = {one.arm: one.chosen for one in account.arms if one.chosen is not None} if account is not None else {}
    unequal = find_disparities(state, rows)
    return {
        "account": account,
        "name_arm": name_arm,
        "unequal": tuple(map(name_arm, account.underfunded_arms)) if account is not None else (),
        "equal": f"{MAX_EQUAL_RATIO:g}",
        "fewest": MIN_TRIALS_FOR_TREND,
        "notes": _format_notes,
        "setting_rows": _build_setting_rows,
        "sampler_said": SAMPLER_NOTES,
        "parity": [(one, [_format_count(x) for x in (one.steps, one.rows, one.parameters)]) for one in rows],
        "disparities": [(name_arm(arm), name_arm(other), what) for arm, other, what in unequal],
        "anchored": compare_anchors(state.search.data_plan, claims),
        "gaining": [name_arm(arm) for arm, one in settings.items() if one.gaining],
        "stale": [name_arm(arm) for arm, one in settings.items() if one.stale],
        "differs": {
            arm: "; ".join(
                f"{', '.join(what)} (against {name_arm(other)})" for name, other, what in unequal if name == arm
            )
            for arm, _, _ in unequal
        },
        "curves": draw_curves(curves, x_label="trials", y_label=account.metric.display_name)
        if account is not None and any(len(one) > 1 for one in curves.values())
        else "",
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


def _build_setting_rows(one: ArmTuningReport) -> list[tuple[object, ...]]:
    """Return rows of hyperparameter, chosen value, default, range and the default's source, for an arm of the reported
    node."""
    chosen = one.chosen.setting if one.chosen is not None else {}
    return [
        (
            dimension.name,
            _format_value(chosen.get(dimension.name)),
            _format_value(dimension.default),
            _format_range(dimension),
            dimension.source,
        )
        for dimension in one.space
    ]


def _format_range(one: Hyperparameter) -> str:
    where = f", where {one.given} is {' or '.join(map(_format_value, one.among))}" if one.given else ""
    if one.kind == "choice":
        return ", ".join(map(_format_value, one.options)) + where
    return f"{one.low:g} to {one.high:g}" + (", log" if one.kind == "log" else "") + where


def _format_value(value: Scalar | None) -> str:
    return "--" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _format_count(value: float | None) -> str:
    return "--" if value is None else f"{value:.0f}"


# --- line plots drawn by TeX from recorded values, so that an audit can rebuild them ----------------------------------


PLOT_WIDTH, PLOT_HEIGHT, PLOT_LEFT_MARGIN = 220.0, 110.0, 40.0
"""Panel size and left margin for axis labels, in big points (1/72 inch)."""
COLOURS = ("0 .45 .70", ".84 .37 0", "0 .62 .45", ".80 .47 .65", ".90 .62 0", ".34 .71 .91", "0 0 0")
DASHES = ("[] 0", "[4 2] 0", "[1 2] 0", "[6 2 1 2] 0")


def draw_curves(curves: Mapping[str, Sequence[float]], *, x_label: str, y_label: str) -> str:
    r"""Draw the curves over 1, 2, ... as a TeX `picture` with labelled axes; numbers in labels are in `\rec{}`.

    No kernel, file or model is needed. Lines differ in dashes as well as in color.
    """
    most = max(map(len, curves.values()))
    ticks = _compute_ticks([value for curve in curves.values() for value in curve])
    low, step = ticks[0], ticks[1] - ticks[0]
    digits = max(0, -floor(log10(step) + 1e-9))

    def point(k: int, value: float) -> tuple[float, float]:
        return (PLOT_LEFT_MARGIN + PLOT_WIDTH * (k - 0.5) / most, PLOT_HEIGHT * (value - low) / (ticks[-1] - low))

    paths = [
        f"0 G .5 w "
        f"{_format_path([(PLOT_LEFT_MARGIN, PLOT_HEIGHT), (PLOT_LEFT_MARGIN, 0), (PLOT_LEFT_MARGIN + PLOT_WIDTH, 0)])}"
    ]
    labels = [
        _format_label(PLOT_LEFT_MARGIN + PLOT_WIDTH / 2, -16, "t", x_label),
        _format_label(PLOT_LEFT_MARGIN - 20, PLOT_HEIGHT + 8, "bl", y_label),
    ]
    for value in ticks:
        height = point(1, value)[1]
        paths.append(_format_path([(PLOT_LEFT_MARGIN - 3, height), (PLOT_LEFT_MARGIN, height)]))
        labels.append(_format_label(PLOT_LEFT_MARGIN - 5, height, "r", f"{value:.{digits}f}"))
    for k in range(1, most + 1, ceil(most / 12)):
        x = point(k, low)[0]
        paths.append(_format_path([(x, -3), (x, 0)]))
        labels.append(_format_label(x, -5, "t", k))
    for at, (name, curve) in enumerate(curves.items()):
        height = PLOT_HEIGHT - 8 - 12 * at
        line = [point(k, value) for k, value in enumerate(curve, 1)]
        look = f"{COLOURS[at % len(COLOURS)]} RG 1 w {DASHES[at % len(DASHES)]} d"
        right = PLOT_LEFT_MARGIN + PLOT_WIDTH
        sample = _format_path([(right + 8, height), (right + 28, height)])
        paths.append(f"{look} {_format_path(line)} {sample}")
        paths.append("[] 0 d 3 w 1 J " + " ".join(_format_path([one, one]) for one in line) + " 0 J")
        labels.append(_format_label(PLOT_LEFT_MARGIN + PLOT_WIDTH + 32, height, "l", shorten(name, 28)))
    return "\n".join(
        (
            r"\setlength\unitlength{1bp}",
            rf"\begin{{picture}}({PLOT_LEFT_MARGIN + PLOT_WIDTH + 130:g},{PLOT_HEIGHT + 42:g})(0,-24)",
            rf"\put(0,0){{\pdfliteral{{q {' '.join(paths)} Q}}}}",
            *labels,
            r"\end{picture}",
        )
    )


def _format_path(points: Iterable[tuple[float, float]]) -> str:
    steps = [f"{x:.2f} {y:.2f}" for x, y in points]
    return f"{steps[0]} m {' '.join(f'{one} l' for one in steps[1:])} S"


def _format_label(x: float, y: float, anchor: str, text: object) -> str:
    return rf"\put({x:.2f},{y:.2f}){{\makebox(0,0)[{anchor}]{{\scriptsize {mark_recorded(text)}}}}}"


def _compute_ticks(values: Sequence[float]) -> list[float]:
    """Return at least two equally spaced round values that cover the range of the values."""
    low, high = min(values), max(values)
    span = high - low or abs(high) / 10 or 1.0
    raw = span / 4
    step = next(
        factor * 10.0 ** floor(log10(raw))
        for factor in (1, 2, 5, 10)
        if factor * 10.0 ** floor(log10(raw)) >= raw * 0.999
    )
    return [k * step for k in range(floor(low / step), max(ceil(high / step), floor(low / step) + 1) + 1)]
