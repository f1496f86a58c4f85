"""`python -m benchmarks.statistics --out FILE`: how often papers report an effect that does not exist, or miss one.

Simulated papers of comparisons between equal arms are evaluated by `record.claims.differences` as in a run: the
share of papers that report any difference, with and without the correction. Also the share of comparisons that are
reported if the true difference is exactly the detectable one: the power that the paper states, at the strictest
step. Values are normal, as the t test assumes; `dependence` is the correlation between the comparisons of one seed,
which share code and data.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, Claim, compute_detectable_effect
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, MetricSpec


@dataclass(frozen=True)
class FalseAlarmShares:
    """Shares of papers that report at least one difference although there is none."""

    papers: int
    comparisons: int
    n: int
    dependence: float
    corrected: float
    uncorrected: float


@dataclass(frozen=True)
class DetectionPower:
    """How often a just detectable true difference is reported. `promised` is at the strictest step of Holm's method."""

    papers: int
    comparisons: int
    n: int
    called: float
    promised: float


def simulate_false_alarms(*, papers: int, comparisons: int, n: int, dependence: float, seed: int) -> FalseAlarmShares:
    """Simulate papers in which method and baseline are equal on each of `comparisons` datasets, with `n` seeds."""
    import numpy as np

    state, rng = _make_state(comparisons), np.random.default_rng(seed)
    corrected = uncorrected = 0
    for _ in range(papers):
        found = compute_differences(state, _make_claims(_draw_noise(rng, comparisons, n, dependence)))
        corrected += any(one.significance != "not significant" for one in found)
        uncorrected += any((one.p or 1.0) <= SIGNIFICANCE_LEVEL for one in found)
    return FalseAlarmShares(papers, comparisons, n, dependence, corrected / papers, uncorrected / papers)


def simulate_power(*, papers: int, comparisons: int, n: int, seed: int) -> DetectionPower:
    """Simulate papers in which one of several comparisons has a true difference of the detectable size."""
    import numpy as np

    state, rng = _make_state(comparisons), np.random.default_rng(seed)
    shift = compute_detectable_effect(n, 1.0, comparisons)
    assert shift is not None
    called = 0
    for _ in range(papers):
        noise = _draw_noise(rng, comparisons, n, 0.0)
        noise[0] += shift
        called += compute_differences(state, _make_claims(noise))[0].significance == "improved"
    return DetectionPower(papers, comparisons, n, called / papers, 0.8)


def _draw_noise(rng: Any, comparisons: int, n: int, dependence: float) -> Any:
    """Draw normal differences (comparisons, n) with deviation 1; those of one seed are correlated."""
    shared, own = rng.normal(size=(1, n)), rng.normal(size=(comparisons, n))
    return dependence**0.5 * shared + (1 - dependence) ** 0.5 * own


def _make_state(comparisons: int) -> RunState:
    return RunState(
        data_plan=DataPlan(
            task="none",
            datasets=tuple(DatasetUse(name=f"d{k}") for k in range(comparisons)),
            expected_seconds=1.0,
            metrics=(MetricSpec(name="accuracy", higher_is_better=True),),
            arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
        )
    )


def _make_claims(noise: Any) -> list[Claim]:
    return [
        _make_claim(f"d{k}", arm, tuple(map(float, row if arm == "method" else 0 * row)))
        for k, row in enumerate(noise)
        for arm in ("method", "baseline")
    ]


def _make_claim(dataset: str, arm: str, values: tuple[float, ...]) -> Claim:
    places = range(len(values))
    return Claim(
        key=f"test/{dataset}/accuracy/{arm}",
        name="accuracy",
        dataset=dataset,
        condition=arm,
        split="test",
        values=values,
        seeds=tuple(places),
        nodes=tuple(f"n{k}" for k in places),
        grade="computed",
        mean=fmean(values),
        sd=None,
        low=None,
        high=None,
    )


def main() -> int:
    """Print the report, and write it to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the JSON report")
    parser.add_argument("--papers", type=int, default=4000, help="simulated papers per row")
    arguments = parser.parse_args()
    alarms = [
        simulate_false_alarms(papers=arguments.papers, comparisons=20, n=n, dependence=dependence, seed=7)
        for n in (5, 10)
        for dependence in (0.0, 0.5, 0.9)
    ]
    powers = [
        simulate_power(papers=arguments.papers, comparisons=m, n=n, seed=7) for m, n in ((1, 5), (9, 7), (20, 10))
    ]
    text = json.dumps(
        {"false_alarms": [asdict(one) for one in alarms], "power": [asdict(one) for one in powers]}, indent=1
    )
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
