"""How often verdicts on hypotheses are right, of studies whose truth is known: pilot, amendments, lock and fresh seeds.

    python -m benchmarks.decisions [--studies 1000] [--twice 400] [--out FILE]

Prints one JSON object. Scheduler, policy, nodes, lock, record and verdicts are those of a run; values are drawn. Every
program has a quality of its own that both arms share, so that there is something to select, and every second study has
its hypothesis turned, by an amendment, towards what its own pilot showed: the worst that a person can do before the
lock. Ends with 1 where, without any effect, more than 63 of 1,000 studies are called supported, or where fewer than
80 % of verdicts are right at effects of zero and of twice the smallest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel

from benchmarks.grids import written
from benchmarks.studies import SlowModel, drawn, new_bench
from labwright.models.backend import ModelRequest
from labwright.models.roles.coding import CodeInputs, Program
from labwright.record.claims.decisions import decisions, run_of, units_of
from labwright.record.claims.means import trusted_replicates, winner
from labwright.record.edits import File
from labwright.record.events.searching import Amended, Unsealed
from labwright.record.fold.state import RunState
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import Arm, DataPlan, DatasetUse, Measurement, MetricSpec, Split
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.hypotheses import Effect, Hypothesis, Rival
from labwright.record.nouns.nodes import STAGES
from labwright.sandbox.job import CellOutcome, Job
from labwright.sandbox.scripted import ScriptedExecutor
from labwright.search.replication import FRESH
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.bench import Bench
from labwright.stages.stage import Research

Objective = Literal["improve", "measure"]
SMALLEST = 1.0
PILOT = 5
MOST = 63
"""Of 1,000 studies without an effect, those that may be called supported: 50 and two standard deviations."""
RIGHT = 0.8
SETTINGS = SearchSettings(
    num_workers=2,
    lookahead=0,
    num_drafts=2,
    num_seeds=PILOT,
    max_seeds=80,
    planned_ablations=0,
    order="ticket",
    window=4,
    ladder=False,
    preliminary=StageLimits(nodes=2, num_seeds=0),
    tuning=StageLimits(nodes=1),
    agenda=StageLimits(nodes=3),
    ablation=StageLimits(nodes=1, num_seeds=0),
)


class Study(Frozen):
    """One simulated study. `sd` is of the paired difference between seeds."""

    number: int
    effect: float
    objective: Objective

    @property
    def sd(self) -> float:
        return Random(f"sd {self.number}").uniform(0.3, 1.2)

    @property
    def amended(self) -> bool:
        return self.number % 2 == 1

    def value(self, program: str, arm: str, seed: int, split: Split) -> float:
        """What an arm of a program scores: the program's quality, the effect, and noise of the seed and the split."""
        quality = Random(f"{self.number}/{program}").gauss(0, 1)
        noise = Random(f"{self.number}/{program}/{arm}/{seed}").gauss(0, self.sd / 2**0.5)
        own = Random(f"{self.number}/{program}/{arm}/{seed}/{split}").gauss(0, self.sd / 10)
        return 100 + quality + self.effect * (arm == "method") + noise + own


def asked(estimand: str) -> tuple[Hypothesis, ...]:
    """The hypothesis that an effect is above zero."""
    return (
        Hypothesis(
            id="gain",
            statement="one arm is better",
            reason="less is noise",
            unit="seeds",
            rival=Rival(statement="chance", estimand="baseline", ours="above zero", theirs="near zero"),
            effects=(Effect(estimand=estimand, smallest=SMALLEST),),
        ),
    )


def plan_of(study: Study) -> DataPlan:
    """The data plan of a study."""
    return DataPlan(
        task="simulated",
        datasets=(DatasetUse(name="digits"),),
        expected_seconds=1,
        objective=study.objective,
        metrics=(MetricSpec(name="accuracy", higher_is_better=True),),
        hypotheses=asked("method - baseline"),
        arms=(
            Arm(name="baseline", role="baseline", untuned="drawn"),
            Arm(name="method", role="method", untuned="drawn"),
        ),
    )


def answered(request: ModelRequest) -> BaseModel:
    """A program a node, each with a text of its own; all else as in other benchmarks."""
    if not isinstance(request.inputs, CodeInputs):
        return written(request, lambda _: "plots.py")
    kind = request.inputs.kind
    name = f"# {request.inputs.stage} {kind} {request.inputs.ordinal} {request.inputs.item}\n"
    files = {
        "experiment.py": "import lab\n\n\ndef run(cell):\n    return cell.seed\n\n\nlab.measure(run)\n" + name,
        "plots.py": "# plots\n",
    }
    arms = ("without-part",) if kind == "ablate" else ()
    return Program(
        title="a program",
        plan="as planned",
        varies=kind,
        arms=arms,
        files=tuple(File(path=path, text=text) for path, text in files.items()),
    )


def turned(bench: Bench) -> None:
    """Turn the hypothesis towards what the pilot shows, as soon as it is there."""
    state = bench.state
    runs = [
        run_of(one)
        for one in state.nodes.values()
        if one.kind == "replicate" and one.status == "good" and one.seed < FRESH
    ]
    if state.amendments or state.lock is not None or len(runs) < PILOT or state.data_plan is None:
        return
    [one] = state.data_plan.hypotheses
    shown = fmean(units_of(state.data_plan, one, one.effects[0], runs).values)
    bench.recorder.append(
        Amended(
            number=1,
            why="the pilot showed it so",
            by="a person",
            seen="the pilot",
            data_plan=state.data_plan.model_copy(
                update={"hypotheses": asked("method - baseline" if shown > 0 else "baseline - method")}
            ),
        )
    )


def carried_out(study: Study, folder: Path) -> RunState:
    """A study from its first draft to its scored test values."""

    def measured(node: str, one: Cell, split: Split) -> Measurement:
        program = bench.state.nodes[node.partition("/")[0]]
        source = (
            program.source_sha256
            if program.kind != "replicate"
            else bench.state.nodes[program.parent or ""].source_sha256
        )
        return Measurement(
            name="accuracy",
            value=study.value(source, one.arm, one.seed, split),
            split=split,
            condition=one.condition,
            dataset=one.dataset,
            seed=one.seed,
            grade="scored",
        )

    def cell(job: Job, one: Cell) -> tuple[float, CellOutcome]:
        if study.amended:
            turned(bench)
        return 0.0, CellOutcome(1.0, cell=one, measurements=(measured(job.name, one, "validation"),))

    async def run() -> None:
        research = Research(bench)
        for stage in STAGES:
            assert await research.stage(stage)

    bench = new_bench(
        folder,
        SlowModel(answered, 0.0),
        ScriptedExecutor(lambda job: (0.0, drawn(job)), slots=2, cell=cell),
        SETTINGS,
        plan=plan_of(study),
    )
    asyncio.run(run())
    state = bench.state
    for node in trusted_replicates(state, winner(state) or ""):
        bench.recorder.append(
            Unsealed(
                node=node.id,
                measurements=tuple(measured(node.id, line.cell, "test") for line in node.attempts[-1].cells),
            )
        )
    return state


def told(study: Study) -> dict[str, Any]:
    """What is true of a study, and what the program says of it."""
    with tempfile.TemporaryDirectory() as folder:
        state = carried_out(study, Path(folder))
    [one] = decisions(state)
    assert state.lock is not None and one.confirmed and len(one.parts[0].values) == state.lock.n
    ours = one.hypothesis.effects[0].estimand == "method - baseline"
    expected = ("negligible", "smaller") if not study.effect else ("supported",) if ours else ("opposite",)
    right = one.verdict in expected
    return {
        "effect": study.effect,
        "objective": study.objective,
        "verdict": one.verdict,
        "right": right,
        "amended": len(state.amendments),
        "n": state.lock.n,
        "turned": not ours,
    }


def summary(found: Sequence[dict[str, Any]], objective: Objective, effect: float) -> dict[str, Any]:
    """Counts of the studies of one kind."""
    these = [one for one in found if one["objective"] == objective and one["effect"] == effect]
    return {
        "objective": objective,
        "effect": effect / SMALLEST,
        "studies": len(these),
        "verdicts": dict(Counter(one["verdict"] for one in these)),
        "right": round(fmean(one["right"] for one in these), 4) if these else None,
        "amended": sum(one["amended"] for one in these),
        "turned": sum(one["turned"] for one in these),
        "mean_n": round(fmean(one["n"] for one in these), 1) if these else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000, help="without an effect, for each objective")
    parser.add_argument("--twice", type=int, default=400, help="with twice the smallest effect, for each objective")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    asked_for = parser.parse_args()
    began = time.monotonic()
    objectives: tuple[Objective, ...] = ("improve", "measure")
    studies = [
        Study(number=number, effect=effect, objective=objective)
        for objective in objectives
        for effect, count in ((0.0, asked_for.studies), (2 * SMALLEST, asked_for.twice))
        for number in range(count)
    ]
    with ProcessPoolExecutor(asked_for.processes) as pool:
        found = list(pool.map(told, studies, chunksize=8))
    groups = [summary(found, objective, effect) for objective in objectives for effect in (0.0, 2 * SMALLEST)]
    none = [one for one in groups if not one["effect"]]
    good = all(one["verdicts"].get("supported", 0) <= MOST * one["studies"] / 1000 for one in none) and all(
        one["right"] >= RIGHT for one in groups
    )
    text = json.dumps({"groups": groups, "holds": good, "seconds": round(time.monotonic() - began, 1)}, indent=1)
    print(text)
    if asked_for.out is not None:
        asked_for.out.write_text(text + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
