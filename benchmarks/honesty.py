"""Accuracy of the honesty checks: recall on planted programs, false alarms on their honest twins.

python -m benchmarks.honesty [--sets blind3] [--out FILE]

Prints one JSON object, by set of `benchmarks.planted`: `tuned` was written with knowledge of the checks, `blind3`
without (it was blind at its first run only). A program counts as caught if a finding is `suspect`; notes are
counted separately. Intervals are 95 % Wilson.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.planted import SETS, Program, programs
from benchmarks.planted_runs import PlantedFacts, PlantedRunner, find_facts
from labwright.evals.proportions import wilson_interval
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetFacts, DatasetUse, MetricSpec
from labwright.review.honesty import check_program
from labwright.review.honesty.verdict import apply_corroboration

PLAN = DataPlan(
    task="classify tables",
    expected_seconds=1,
    datasets=tuple(DatasetUse(name=name) for name in ("digits", "wine", "iris", "breast_cancer", "diabetes")),
    metrics=(MetricSpec(name="log_loss", higher_is_better=False), MetricSpec(name="accuracy", higher_is_better=True)),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
)

SIMULATED = PLAN.model_copy(
    update={
        "task": "forecast a simulated series, which the experiment generates",
        "datasets": (DatasetUse(name="wave"),),
        "metrics": (MetricSpec(name="mse", higher_is_better=False),),
    }
)
"""Plan of the cases on "wave", a series that they generate: it has no withheld labels."""
WAVE = DatasetFacts(
    name="wave",
    source="generated: a noisy oscillation",
    features=0,
    classes=0,
    sizes={},
    fingerprint="",
    seed=0,
    task="none",
)
METHODS = ("form", "run", "signs of the run", "together")
"""`form`: static checks and exact labels; `run`: what facts of the run and probes make suspect; `signs of the run`:
the same including notes; `together`: the full rule (`review.honesty.verdict`), without a reader.
"""


def find_caught(planted: Program, facts: PlantedFacts | None) -> dict[str, list[str]]:
    """Return the findings that would make the program suspect, by method."""
    plan, known = (SIMULATED, (WAVE,)) if '"wave"' in planted.source else (PLAN, None)
    sources = {"experiment.py": planted.source}
    seen = check_program(sources, plan, facts=known, measurements=facts.measurements if facts is not None else ())
    of_run = facts.findings if facts is not None else ()
    return {
        "form": [str(one) for one in seen if one.suspect],
        "run": [str(one) for one in apply_corroboration(of_run) if one.suspect],
        "signs of the run": [str(one) for one in of_run if one.suspect or one.sign],
        "together": [str(one) for one in apply_corroboration((*seen, *of_run)) if one.suspect],
    }


def build_report(planted: Iterable[Program], runs: PlantedRunner | None = None) -> dict[str, Any]:
    """Return recall, false alarms and errors by method. Without `runs`, nothing is executed."""
    began, lines, errors = time.monotonic(), list[tuple[Program, dict[str, list[str]]]](), dict[str, str]()
    for program in planted:
        facts = find_facts(runs, program, PLAN) if runs is not None else None
        if facts is not None and facts.error:
            errors[program.name] = facts.error.strip().splitlines()[-1][:200]
        lines.append((program, find_caught(program, facts)))
    ways = {way: _list_findings([(program, found[way]) for program, found in lines]) for way in METHODS}
    return {**ways, "not run": errors, "seconds": round(time.monotonic() - began, 1)}


def _list_findings(lines: Sequence[tuple[Program, list[str]]]) -> dict[str, Any]:
    planted = [(program, found) for program, found in lines if not program.honest]
    twins = [(program, found) for program, found in lines if program.honest]
    hits, alarms = (sum(bool(found) for _, found in part) for part in (planted, twins))
    return {
        "recall": f"{hits}/{len(planted)}",
        "recall_interval": wilson_interval(hits, len(planted)),
        "false_alarms": f"{alarms}/{len(twins)}",
        "false_alarm_interval": wilson_interval(alarms, len(twins)),
        "missed": sorted({program.kind for program, found in planted if not found}),
        "alarmed": {program.name: found for program, found in twins if found},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", default=",".join(SETS), help="of benchmarks.planted, separated by commas")
    parser.add_argument("--still", action="store_true", help="only read the programs, run nothing")
    parser.add_argument("--each", type=int, default=1, help="use only one program and its twin in so many")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    with PlantedRunner() as runs:
        for name in arguments.sets.split(","):
            chosen = programs(name)
            pairs = sorted({one.name.rpartition("_")[0] for one in chosen})[:: arguments.each]
            found[name] = build_report(
                [one for one in chosen if one.name.rpartition("_")[0] in pairs], None if arguments.still else runs
            )
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
