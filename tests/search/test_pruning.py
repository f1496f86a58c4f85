"""When running code is hopeless: by what it logged, in the order in which it logged it."""

from __future__ import annotations

import pytest

from labwright.search.pruning import CurveKey, CurveSample, collect_peer_values, explain_hopeless, explain_silence

METHOD: CurveKey = ("digits", "method", "loss", "train")
BASELINE: CurveKey = ("digits", "baseline", "loss", "train")


def falling(curve: CurveKey, *values: float, first: int = 1) -> list[CurveSample]:
    return [(curve, first + i, value) for i, value in enumerate(values)]


def peers(*finals: float, curve: CurveKey = METHOD, steps: int = 10) -> list[list[CurveSample]]:
    """One log a peer: a straight line from 2.0 at step 1 to its final value."""
    return [falling(curve, *(2.0 + (final - 2.0) * i / (steps - 1) for i in range(steps))) for final in finals]


OTHERS = collect_peer_values(peers(0.40, 0.42, 0.44))


def test_far_behind_every_peer_is_hopeless_and_told_with_its_figures() -> None:
    assert explain_hopeless(falling(METHOD, 2.0, 2.0, 2.9), OTHERS) is None  # its best was 2.0
    found = explain_hopeless(falling(METHOD, 3.0, 3.0, 2.9), OTHERS)
    assert found == (
        "loss of method on digits (train) was 2.9 at best by step 3, 3 peers had 1.64 to 1.65 "
        "(median 1.65, spread 0.16); behind in 1 of 1 loss curves"
    )


@pytest.mark.parametrize(
    "points",
    [
        falling(METHOD, 9.0, 9.0),  # before 30 % of ten steps
        [(METHOD, 11, 9.0)],  # no peer came so far
        [(("digits", "method", "accuracy", "train"), 5, 9.0)],  # not known to be better when lower
        [(BASELINE, 5, 9.0)],  # no peer logged it
        falling(METHOD, 2.0, 1.9, 1.9, 1.8),  # worse than all, but not far
    ],
)
def test_what_cannot_be_compared_or_is_near_runs_on(points: list[CurveSample]) -> None:
    assert explain_hopeless(points, OTHERS) is None


def test_it_must_be_behind_in_half_of_the_curves_and_may_catch_up() -> None:
    curves: list[CurveKey] = [METHOD, BASELINE, ("wine", "method", "loss", "train")]
    logs = [
        [*one, *two, *three]
        for one, two, three in zip(*(peers(0.40, 0.42, 0.44, curve=curve) for curve in curves), strict=True)
    ]
    three = collect_peer_values(logs)
    assert explain_hopeless([(METHOD, 10, 5.0)], three) is None
    assert explain_hopeless([(METHOD, 9, 5.0), (METHOD, 10, 0.4), (BASELINE, 10, 5.0)], three) is None
    assert "behind in 2 of 3" in (explain_hopeless([(METHOD, 10, 5.0), (BASELINE, 10, 5.0)], three) or "")


def test_silence_is_hopeless_beyond_its_limit_only() -> None:
    assert explain_silence(60.0, 60.0) is None
    assert explain_silence(61.2, 60.0) == (
        "it printed, logged and submitted nothing for 61 s; the limit is 60 s (search.silent_timeout)"
    )
