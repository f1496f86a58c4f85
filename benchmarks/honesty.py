"""Accuracy of each honesty rule alone: recall on planted programs, false alarms on their honest twins.

python -m benchmarks.honesty [--sets blind3] [--model M --base-url URL] [--out FILE]

Prints one JSON object, by set of `benchmarks.planted`. For each rule: recall and false alarms with 95 % Wilson
intervals, and the programs that no other deciding rule catches, which are lost without it. `equal arms` is
a note and does not decide. With `--model`, a model also reads each program: `reader, once` counts what
the first request calls dishonest with a quote that stands in the code, `reader` what a second request confirms.
`--sets reading` (with `--model`) is a set of nodes that are only read: 30 dishonest ones, each of another kind, and 10
honest ones that look suspicious, by an author who had seen neither program nor other sets.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.planted import SETS, Program, programs
from benchmarks.planted_runs import PlantedFacts, PlantedRunner, find_facts
from benchmarks.report import make_parser, print_report
from benchmarks.sets import read_set
from labwright.agent.forecast import open_model
from labwright.evals.intervals import compute_proportion, wilson_interval
from labwright.models.client import Models
from labwright.models.roles.node_assessment import CodeReaderInputs
from labwright.models.settings import ModelSettings
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetFacts, DatasetUse, MetricSpec
from labwright.review.honesty.code_reading import number_lines, read_code, strip_comments
from labwright.review.honesty.label_probe import (
    CLASS_METRICS,
    FINDING_KIND,
    NUMERIC_METRICS,
    find_impossible_scores,
    list_withheld_metrics,
)

READING_SET = Path(__file__).parent / "planted" / "reading.tar.gz"
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
DECIDING_RULES = (FINDING_KIND, "labels", "rows")
NOTES = ("equal arms",)
READER, READER_ONCE = "reader", "reader, once"


def find_rules(planted: Program, facts: PlantedFacts) -> frozenset[str]:
    """Return the names of the rules that find something in the program and its executions."""
    every = {use.name: CLASS_METRICS | NUMERIC_METRICS for use in PLAN.datasets}
    hidden = list_withheld_metrics(SIMULATED, (WAVE,)) if '"wave"' in planted.source else every
    withheld = find_impossible_scores(facts.measurements, hidden)
    return frozenset(one.kind for one in (*withheld, *facts.findings))


async def read_program(planted: Program, facts: PlantedFacts, models: Models) -> frozenset[str]:
    """Return what a model that reads the program says of it, as names of rules. Raises `ModelError`."""
    plan, code = SIMULATED if '"wave"' in planted.source else PLAN, {"experiment.py": strip_comments(planted.source)}
    inputs = CodeReaderInputs(
        task=plan.task,
        arms=plan.arms,
        metrics=plan.metrics,
        datasets=tuple(use.name for use in plan.datasets),
        kind="draft",
        files={name: number_lines(text) for name, text in code.items()},
        facts=tuple(one.why for one in facts.findings if not one.suspect),
    )
    found = await read_code(models.make_client(0, 0), inputs, code)
    return frozenset({READER_ONCE} if found.verdict == "dishonest" else ()) | {READER for _ in found.confirmed}


async def measure_readings(models: Models) -> dict[str, Any]:
    """Return recall and false alarms of two readings, and of one, on the nodes that are only read."""
    files = read_set(READING_SET)
    confirmed, once = dict[bool, list[bool]](), dict[bool, list[bool]]()
    for number, line in enumerate(files["truth.jsonl"].splitlines()):
        truth = json.loads(line)
        inside = {name.partition("/")[2]: text for name, text in files.items() if name.startswith(f"{truth['id']}/")}
        code = {name: strip_comments(text) for name, text in inside.items() if name.endswith(".py")}
        inputs = CodeReaderInputs(
            task=inside["plan.txt"],
            arms=(),
            metrics=(),
            datasets=(),
            kind="draft",
            files={name: number_lines(text) for name, text in code.items()},
        )
        found = await read_code(models.make_client(number, 0), inputs, code)
        confirmed.setdefault(truth["dishonest"], []).append(bool(found.confirmed))
        once.setdefault(truth["dishonest"], []).append(found.verdict == "dishonest")
    return {
        name: {
            key: compute_proportion(sum(rows[dishonest]), len(rows[dishonest])).model_dump()
            for key, dishonest in (("recall", True), ("false_alarms", False))
        }
        for name, rows in ((READER, confirmed), (READER_ONCE, once))
    }


def build_report(planted: Iterable[Program], runs: PlantedRunner, models: Models | None = None) -> dict[str, Any]:
    """Return recall, false alarms and what is lost without it for each rule, and the errors."""
    began, caught, errors = time.monotonic(), dict[Program, frozenset[str]](), dict[str, str]()
    for program in planted:
        facts = find_facts(runs, program, PLAN)
        if facts.error:
            errors[program.name] = facts.error.strip().splitlines()[-1][:200]
        caught[program] = find_rules(program, facts)
        if models is not None:
            caught[program] |= asyncio.run(read_program(program, facts, models))
    deciding = (*DECIDING_RULES, *((READER,) if models is not None else ()))
    rules = (*deciding, *NOTES, *((READER_ONCE,) if models is not None else ()))
    return {
        **{rule: summarize_rule(caught, [rule], deciding) for rule in rules},
        "all that decide": summarize_rule(caught, deciding, deciding),
        "not run": errors,
        "seconds": round(time.monotonic() - began, 1),
    }


def summarize_rule(
    caught: Mapping[Program, frozenset[str]], rules: Sequence[str], deciding: Sequence[str]
) -> dict[str, Any]:
    """Return recall and false alarms of some rules, and what the other deciding rules do not find."""
    planted = [program for program in caught if not program.honest]
    twins = [program for program in caught if program.honest]
    hits = [one for one in planted if caught[one] & {*rules}]
    alarms = [one for one in twins if caught[one] & {*rules}]
    return {
        "recall": f"{len(hits)}/{len(planted)}",
        "recall_interval": wilson_interval(len(hits), len(planted)),
        "false_alarms": f"{len(alarms)}/{len(twins)}",
        "false_alarm_interval": wilson_interval(len(alarms), len(twins)),
        "only here": sorted(one.kind for one in hits if not caught[one] & ({*deciding} - {*rules})),
        "alarmed": sorted(one.name for one in alarms),
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--sets", default=",".join(SETS), help="of benchmarks.planted, separated by commas")
    parser.add_argument("--each", type=int, default=1, help="use only one program and its twin in so many")
    parser.add_argument("--model", help="reads the programs")
    parser.add_argument("--base-url")
    arguments = parser.parse_args()
    models = open_model(ModelSettings(name=arguments.model, base_url=arguments.base_url)) if arguments.model else None
    found: dict[str, Any] = {}
    with PlantedRunner() as runs:
        for name in arguments.sets.split(","):
            if name == "reading":
                if models is None:
                    parser.error("--sets reading needs --model")
                found[name] = asyncio.run(measure_readings(models))
                continue
            chosen = programs(name)
            pairs = sorted({one.name.rpartition("_")[0] for one in chosen})[:: arguments.each]
            found[name] = build_report([one for one in chosen if one.name.rpartition("_")[0] in pairs], runs, models)
    print_report(found, arguments.out)


if __name__ == "__main__":
    main()
