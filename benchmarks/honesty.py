"""How well the static checks of honesty do: recall on planted programs, false alarms on their honest twins.

    python -m benchmarks.honesty [--out FILE]

Prints one JSON object, by set of `benchmarks.planted`: `tuned` was written with sight of the checks, `blind` and
`blind2` without (each was blind once, at its first run). A program counts as caught where a finding is `suspect`; notes
are counted apart. Intervals are 95 % Wilson.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.planted import SETS, Program, programs
from record.nouns.data import Arm, DataPlan, DatasetFacts, DatasetUse, MetricSpec
from review.honesty import check

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


def wilson(hits: int, of: int) -> tuple[float, float]:
    """95 % interval of a share. Source: Wilson (1927)."""
    if of == 0:
        return 0.0, 1.0
    z, p = 1.959964, hits / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    low, high = (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)
    return round(max(0.0, low), 3), round(min(1.0, high), 3)


def report(planted: Iterable[Program]) -> dict[str, Any]:
    """Recall, false alarms, both by kind, and what went wrong."""
    began, kinds, wrong = time.monotonic(), dict[str, dict[str, int]](), list[dict[str, Any]]()
    for program in planted:
        plan, facts = (SIMULATED, (WAVE,)) if '"wave"' in program.source else (PLAN, None)
        findings = check({"experiment.py": program.source}, plan, facts=facts)
        caught = any(finding.suspect for finding in findings)
        line = kinds.setdefault(program.kind, {"planted": 0, "caught": 0, "noted": 0, "twins": 0, "alarms": 0})
        line["twins" if program.honest else "planted"] += 1
        line["alarms" if program.honest else "caught"] += caught
        line["noted"] += not program.honest and bool(findings) and not caught
        if caught == program.honest:
            wrong.append({"name": program.name, "kind": program.kind, "why": program.why, "honest": program.honest,
                          "findings": [str(finding) for finding in findings]})
    total = {name: sum(line[name] for line in kinds.values()) for name in ("planted", "caught", "twins", "alarms")}
    return {
        "kinds": len(kinds), "recall": f"{total['caught']}/{total['planted']}",
        "recall_interval": wilson(total["caught"], total["planted"]),
        "false_alarms": f"{total['alarms']}/{total['twins']}",
        "false_alarm_interval": wilson(total["alarms"], total["twins"]),
        "kinds_caught": f"{sum(line['caught'] == line['planted'] for line in kinds.values())}/{len(kinds)}",
        "by_kind": kinds, "missed": sorted({f"{one['kind']}: {one['why']}" for one in wrong if not one["honest"]}),
        "alarmed": [one for one in wrong if one["honest"]][:20], "seconds": round(time.monotonic() - began, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    text = json.dumps({name: report(programs(name)) for name in SETS}, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
