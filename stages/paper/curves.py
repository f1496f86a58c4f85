"""Lines in one panel, drawn by TeX itself from values of the record, so that an audit makes them again.

The appendix is made by the program as one text; a drawing in it needs no kernel, no file and no model. The units are
big points (1/72 inch); lines differ in dashes as well as in colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, log10

from stages.paper.latex import recorded, short

WIDTH, HEIGHT, LEFT = 220.0, 110.0, 40.0
"""Of the panel, and the room at its left for the labels of the axis."""
COLOURS = ("0 .45 .70", ".84 .37 0", "0 .62 .45", ".80 .47 .65", ".90 .62 0", ".34 .71 .91", "0 0 0")
DASHES = ("[] 0", "[4 2] 0", "[1 2] 0", "[6 2 1 2] 0")


def drawn(curves: Mapping[str, Sequence[float]], *, across: str, up: str) -> str:
    r"""The curves over 1, 2, ... as a `picture` of TeX, with its axes named; numbers of labels stand in `\rec{}`."""
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
    return "\n".join((
        r"\setlength\unitlength{1bp}", rf"\begin{{picture}}({LEFT + WIDTH + 130:g},{HEIGHT + 42:g})(0,-24)",
        rf"\put(0,0){{\pdfliteral{{q {' '.join(paths)} Q}}}}", *labels, r"\end{picture}"))


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
    step = next(factor * 10.0 ** floor(log10(raw)) for factor in (1, 2, 5, 10) if factor * 10.0 ** floor(log10(raw))
                >= raw * 0.999)
    return [k * step for k in range(floor(low / step), max(ceil(high / step), floor(low / step) + 1) + 1)]
