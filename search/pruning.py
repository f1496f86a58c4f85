"""Stop code that cannot succeed because its values are not finite, it is far behind its peers, or it is silent.

These functions are pure: only the logged values and their order matter, not the time of the check, so a repeated check
gives the same answer at the same line. Silence is the exception, and is only checked if time may influence decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from statistics import median

CurveKey = tuple[str, str, str, str]
"""(dataset, condition, name, split)"""
CurveSample = tuple[CurveKey, int, float]
"""(curve, step, value)"""
MIN_PEERS = 3
MIN_STEP_SHARE = 0.3
"""Share of the peers' median last step; before it, no curve is judged."""
MAX_DEVIATIONS_BEHIND = 3.0
"""Distance from the peers' median, in units of their spread, above which a value is far behind."""
MIN_RELATIVE_SPREAD = 0.1
"""Minimum spread of the peers, as a share of their median."""


PeerValues = Mapping[CurveKey, Mapping[int, Sequence[float]]]
"""The values of comparable experiments on their loss curves, by step.

A step counts if at least three peers have a value at exactly that step, and it is not too early.
"""


def collect_peer_values(logs: Iterable[Iterable[CurveSample]]) -> PeerValues:
    """Collect the values logged by each peer; of two values at one step, the later one is used."""
    values: dict[CurveKey, dict[int, list[float]]] = {}
    lengths: dict[CurveKey, list[int]] = {}
    for points in logs:
        latest = {(curve, step): value for curve, step, value in points if is_loss(curve)}
        last: dict[CurveKey, int] = {}
        for (curve, step), value in latest.items():
            last[curve] = max(step, last.get(curve, step))
            values.setdefault(curve, {}).setdefault(step, []).append(value)
        for curve, step in last.items():
            lengths.setdefault(curve, []).append(step)
    counting: dict[CurveKey, dict[int, list[float]]] = {}
    for curve, by_step in values.items():
        first = MIN_STEP_SHARE * median(lengths[curve])
        steps = {step: known for step, known in by_step.items() if step >= first and len(known) >= MIN_PEERS}
        counting |= {curve: steps} if steps else {}
    return counting


def is_loss(curve: CurveKey) -> bool:
    """Return whether lower values of a curve are better, according to its name."""
    return "loss" in curve[2].lower()


def explain_hopeless(points: Iterable[CurveSample], peers: PeerValues) -> str | None:
    """Explain in one sentence why an experiment with these logged points is hopeless; None if it is not.

    It is hopeless if a value is not finite, or if it is behind in at least half of the peers' curves: at the last
    comparable step, at least 30 % of the peers' median length, its best loss so far is worse than that of every peer,
    and worse than their median by more than three times their spread (median absolute deviation, at least 10 % of the
    median). Curves without values so far do not count as behind.

    Source: the median stopping rule (Golovin et al. 2017, Google Vizier, section 3.1), made stricter here, since the
    original rule stops everything worse than the median.
    """
    best: dict[CurveKey, float] = {}
    behind: set[CurveKey] = set()
    for curve, step, value in points:
        if not isfinite(value):
            return f"{_format_curve(curve)} was {value} at step {step}, which is not finite"
        best[curve] = min(value, best.get(curve, inf))
        known = peers.get(curve, {}).get(step)
        if known is None:
            continue
        middle = median(known)
        spread = max(median(abs(value - middle) for value in known), MIN_RELATIVE_SPREAD * abs(middle))
        if not spread or best[curve] <= max(*known, middle + MAX_DEVIATIONS_BEHIND * spread):
            behind.discard(curve)
            continue
        behind.add(curve)
        if 2 * len(behind) >= len(peers):
            return (
                f"{_format_curve(curve)} was {best[curve]:.3g} at best by step {step}, {len(known)} peers "
                f"had {min(known):.3g} to {max(known):.3g} (median {middle:.3g}, spread {spread:.2g}); behind in "
                f"{len(behind)} of {len(peers)} loss curves"
            )
    return None


def explain_silence(quiet_seconds: float, limit_seconds: float) -> str | None:
    """Return the reason why code without activity for this long is hopeless; None below the limit."""
    if quiet_seconds <= limit_seconds:
        return None
    limit = f"the limit is {limit_seconds:g} s (search.silent_timeout)"
    return f"it printed, logged and submitted nothing for {quiet_seconds:.0f} s; {limit}"


def _format_curve(curve: CurveKey) -> str:
    dataset, condition, name, split = curve
    return f"{name}{f' of {condition}' if condition else ''}{f' on {dataset}' if dataset else ''} ({split})"
