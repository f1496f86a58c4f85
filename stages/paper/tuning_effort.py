"""Report tuning effort: each arm's budget, the chosen settings, the expected gain from more trials, the resources
of the compared arms, and published values. The wording is in `effort.tex.jinja`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from labwright.record.claims.caveats import compare_anchors
from labwright.record.claims.estimates import Claim
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import to_words
from labwright.record.schema.frozen_model import Scalar
from labwright.record.schema.tuning import Hyperparameter
from labwright.record.tuning_parity import (
    ArmTuningReport,
    TuningReport,
    build_tuning_report,
    compute_parity,
    find_disparities,
)
from labwright.record.tuning_results import MAX_EQUAL_RATIO, MIN_TRIALS_FOR_TREND
from labwright.stages.paper.latex import mark_recorded, shorten

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
