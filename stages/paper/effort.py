"""What a paper tells of tuning: what each arm was given, what was chosen, what more trials would have brought, what the
compared arms took, and published anchors. Made from the record; the words are in `effort.tex.jinja`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from labwright.record.claims.caveats import anchored
from labwright.record.claims.means import Claim
from labwright.record.effort import Account, ArmTuning, account_of, disparities, parity_of
from labwright.record.fold.state import RunState
from labwright.record.nouns.frozen import Scalar
from labwright.record.nouns.tuning import Hyperparameter
from labwright.record.tuning import EQUAL, FEWEST
from labwright.stages.paper.latex import recorded, short, words

SAMPLERS = {
    "random": "",
    "sobol": "The trials are points of a Sobol sequence, not drawn at random. ",
    **{
        sampler: f"The trials were proposed by {name} after a few that were spread over the space, not drawn at "
        f"random: "
        "for so many trials the curve says what was found, and no random search is promised to find as much. "
        for sampler, name in (("tpe", "TPE"), ("gp", "a Gaussian process"))
    },
}


def effort_context(state: RunState, claims: Sequence[Claim]) -> dict[str, Any]:
    """What the sections on tuning, and the sentences on it, are filled in from."""
    account, rows = account_of(state), parity_of(state)
    curves = {one.arm: one.curve for one in account.arms if one.curve} if account is not None else {}
    settings = {one.arm: one.chosen for one in account.arms if one.chosen is not None} if account is not None else {}
    unequal = disparities(state, rows)
    return {
        "account": account,
        "unequal": account.unequal if account is not None else (),
        "equal": f"{EQUAL:g}",
        "fewest": FEWEST,
        "notes": _notes,
        "setting_rows": _setting_rows,
        "sampler_said": SAMPLERS,
        "parity": [(one, [_count(x) for x in (one.steps, one.rows, one.parameters)]) for one in rows],
        "disparities": unequal,
        "anchored": anchored(state.data_plan, claims),
        "gaining": [arm for arm, one in settings.items() if one.gaining],
        "stale": [arm for arm, one in settings.items() if one.stale],
        "differs": {
            arm: "; ".join(f"{', '.join(what)} (against {other})" for name, other, what in unequal if name == arm)
            for arm, _, _ in unequal
        },
        "curves": drawn(curves, across="trials", up=words(account.metric.title or account.metric.name))
        if account is not None and any(len(one) > 1 for one in curves.values())
        else "",
    }


def _notes(account: Account, one: ArmTuning) -> str:
    """What has to be said of an arm's effort; empty where it is as it should be."""
    chosen = one.chosen
    return "; ".join(
        text
        for text, holds in (
            ("UNEQUAL: less than the others", one.arm in account.unequal),
            ("every setting of its space was tried", one.effort.exhausted),
            ("stale: not tuned on the reported code", chosen is not None and chosen.stale),
            ("the best came late: not converged", chosen is not None and chosen.gaining),
            (
                f"at the edge: {', '.join(chosen.edges)}" if chosen is not None else "",
                chosen is not None and chosen.edges,
            ),
        )
        if holds
    )


def _setting_rows(one: ArmTuning) -> list[tuple[object, ...]]:
    """Hyperparameter, what was chosen, default, range and the default's source, of an arm in the reported node."""
    chosen = one.chosen.setting if one.chosen is not None else {}
    return [
        (
            dimension.name,
            _value(chosen.get(dimension.name)),
            _value(dimension.default),
            _range(dimension),
            dimension.source,
        )
        for dimension in one.space
    ]


def _range(one: Hyperparameter) -> str:
    where = f", where {one.given} is {' or '.join(map(_value, one.among))}" if one.given else ""
    if one.kind == "choice":
        return ", ".join(map(_value, one.options)) + where
    return f"{one.low:g} to {one.high:g}" + (", log" if one.kind == "log" else "") + where


def _value(value: Scalar | None) -> str:
    return "--" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _count(value: float | None) -> str:
    return "--" if value is None else f"{value:.0f}"


# --- lines in one panel, drawn by TeX itself from values of the record, so that an audit makes them again -------------


WIDTH, HEIGHT, LEFT = 220.0, 110.0, 40.0
"""Of the panel, and the room at its left for the labels of the axis, in big points (1/72 inch)."""
COLOURS = ("0 .45 .70", ".84 .37 0", "0 .62 .45", ".80 .47 .65", ".90 .62 0", ".34 .71 .91", "0 0 0")
DASHES = ("[] 0", "[4 2] 0", "[1 2] 0", "[6 2 1 2] 0")


def drawn(curves: Mapping[str, Sequence[float]], *, across: str, up: str) -> str:
    r"""The curves over 1, 2, ... as a `picture` of TeX, with its axes named; numbers of labels stand in `\rec{}`.

    It needs no kernel, no file and no model. Lines differ in dashes as well as in colour.
    """
    most = max(map(len, curves.values()))
    ticks = _ticks([value for curve in curves.values() for value in curve])
    low, step = ticks[0], ticks[1] - ticks[0]
    digits = max(0, -floor(log10(step) + 1e-9))

    def point(k: int, value: float) -> tuple[float, float]:
        return (LEFT + WIDTH * (k - 0.5) / most, HEIGHT * (value - low) / (ticks[-1] - low))

    paths = [f"0 G .5 w {_path([(LEFT, HEIGHT), (LEFT, 0), (LEFT + WIDTH, 0)])}"]
    labels = [_label(LEFT + WIDTH / 2, -16, "t", across), _label(LEFT - 20, HEIGHT + 8, "bl", up)]
    for value in ticks:
        height = point(1, value)[1]
        paths.append(_path([(LEFT - 3, height), (LEFT, height)]))
        labels.append(_label(LEFT - 5, height, "r", f"{value:.{digits}f}"))
    for k in range(1, most + 1, ceil(most / 12)):
        x = point(k, low)[0]
        paths.append(_path([(x, -3), (x, 0)]))
        labels.append(_label(x, -5, "t", k))
    for at, (name, curve) in enumerate(curves.items()):
        height = HEIGHT - 8 - 12 * at
        line = [point(k, value) for k, value in enumerate(curve, 1)]
        look = f"{COLOURS[at % len(COLOURS)]} RG 1 w {DASHES[at % len(DASHES)]} d"
        paths.append(f"{look} {_path(line)} {_path([(LEFT + WIDTH + 8, height), (LEFT + WIDTH + 28, height)])}")
        paths.append("[] 0 d 3 w 1 J " + " ".join(_path([one, one]) for one in line) + " 0 J")
        labels.append(_label(LEFT + WIDTH + 32, height, "l", short(name, 28)))
    return "\n".join(
        (
            r"\setlength\unitlength{1bp}",
            rf"\begin{{picture}}({LEFT + WIDTH + 130:g},{HEIGHT + 42:g})(0,-24)",
            rf"\put(0,0){{\pdfliteral{{q {' '.join(paths)} Q}}}}",
            *labels,
            r"\end{picture}",
        )
    )


def _path(points: Iterable[tuple[float, float]]) -> str:
    steps = [f"{x:.2f} {y:.2f}" for x, y in points]
    return f"{steps[0]} m {' '.join(f'{one} l' for one in steps[1:])} S"


def _label(x: float, y: float, anchor: str, text: object) -> str:
    return rf"\put({x:.2f},{y:.2f}){{\makebox(0,0)[{anchor}]{{\scriptsize {recorded(text)}}}}}"


def _ticks(values: Sequence[float]) -> list[float]:
    """Round values at equal distances, from below the least to above the largest; two at least."""
    low, high = min(values), max(values)
    span = high - low or abs(high) / 10 or 1.0
    raw = span / 4
    step = next(
        factor * 10.0 ** floor(log10(raw))
        for factor in (1, 2, 5, 10)
        if factor * 10.0 ** floor(log10(raw)) >= raw * 0.999
    )
    return [k * step for k in range(floor(low / step), max(ceil(high / step), floor(low / step) + 1) + 1)]
