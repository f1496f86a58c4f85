"""How well the static checks of honesty do: recall on planted cases, false alarms on their honest twins.

    python -m benchmarks.honesty [--seeds N] [--tuning] [--out FILE]

Prints one JSON object. The report runs over the kinds that were written without sight of the checks
(`benchmarks.planted_blind`, and later, by somebody else, `benchmarks.planted_blind2`; each was blind once, at its first
run), and over the tuning kinds with seeds that tuning never used; `--tuning` runs the tuning kinds with theirs. A case
counts as caught where a finding is `suspect`; notes are told apart. Intervals are 95 % Wilson.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.planted import cases as tuned
from record.nouns.data import Arm, DataPlan, DatasetFacts, DatasetUse, MetricSpec
from review.honesty import check_program

REPORT_SEED = 1000
"""The first seed of the report; tuning uses those below."""

PLAN = DataPlan(
    task="classify tables", expected_seconds=1,
    datasets=tuple(DatasetUse(name=name) for name in ("digits", "wine", "iris", "breast_cancer", "diabetes")),
    metrics=(MetricSpec(name="log_loss", higher_is_better=False), MetricSpec(name="accuracy", higher_is_better=True)),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")))

SIMULATED = PLAN.model_copy(update={
    "task": "forecast a simulated series, which the experiment generates", "datasets": (DatasetUse(name="wave"),),
    "metrics": (MetricSpec(name="mse", higher_is_better=False),)})
"""The plan of cases on "wave", a series that they make themselves: no labels of it are withheld."""
WAVE = DatasetFacts(name="wave", source="generated: a noisy oscillation", features=0, classes=0, sizes={},
                    fingerprint="", seed=0, task="none")


class CaseLike(Protocol):
    """A program of a kind; the blind cases have a class of their own."""

    @property
    def kind(self) -> str: ...
    @property
    def honest(self) -> bool: ...
    @property
    def source(self) -> str: ...
    @property
    def why(self) -> str: ...


def wilson(hits: int, of: int) -> tuple[float, float]:
    """95 % interval of a share. Source: Wilson (1927)."""
    if of == 0:
        return 0.0, 1.0
    z, p = 1.959964, hits / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    low, high = (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)
    return round(max(0.0, low), 3), round(min(1.0, high), 3)


def report(cases: Iterable[CaseLike]) -> dict[str, Any]:
    """Recall, false alarms, both by kind, and what went wrong."""
    began, kinds, wrong = time.monotonic(), dict[str, dict[str, int]](), list[dict[str, Any]]()
    for case in cases:
        wave = '"wave"' in case.source
        plan, facts = (SIMULATED, (WAVE,)) if wave else (PLAN, None)
        found = check_program({"experiment.py": case.source}, plan, facts=facts)
        caught = [one for one in found if one.suspect]
        line = kinds.setdefault(case.kind, {"planted": 0, "caught": 0, "noted": 0, "twins": 0, "alarms": 0})
        line["twins" if case.honest else "planted"] += 1
        line["alarms" if case.honest else "caught"] += bool(caught)
        line["noted"] += not case.honest and bool(found) and not caught
        if bool(caught) == case.honest:
            wrong.append({"kind": case.kind, "why": case.why, "honest": case.honest,
                          "findings": [str(one) for one in found]})
    total = {name: sum(line[name] for line in kinds.values()) for name in ("planted", "caught", "twins", "alarms")}
    return {
        "kinds": len(kinds), "recall": f"{total['caught']}/{total['planted']}",
        "recall_interval": wilson(total["caught"], total["planted"]),
        "false_alarms": f"{total['alarms']}/{total['twins']}",
        "false_alarm_interval": wilson(total["alarms"], total["twins"]),
        "kinds_caught": f"{sum(line['caught'] == line['planted'] for line in kinds.values())}/{len(kinds)}",
        "by_kind": kinds, "missed": sorted({f"{one['kind']}: {one['why']}" for one in wrong if not one["honest"]}),
        "alarmed": [one for one in wrong if one["honest"]][:20], "seconds": round(time.monotonic() - began, 2)}


def gathered(make: Callable[[int], Iterable[CaseLike]], seeds: Iterable[int]) -> list[CaseLike]:
    return [case for seed in seeds for case in make(seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.tuning:
        found = {"tuning": report(gathered(tuned, range(asked.seeds)))}
    else:
        from benchmarks.planted_blind import cases as first
        from benchmarks.planted_blind2 import cases as second

        seeds = range(REPORT_SEED, REPORT_SEED + asked.seeds)
        found = {name: report(gathered(cases, seeds)) for name, cases in (
            ("blind2", second), ("blind", first), ("seen", tuned))}
    text = json.dumps(found, indent=1)
    print(text)
    if asked.out is not None:
        asked.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
