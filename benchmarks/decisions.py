"""How often verdicts on hypotheses are right in studies of known truth: pilot, amendments, lock and fresh seeds.

python -m benchmarks.decisions [--studies 1000] [--twice 400] [--out FILE]

Prints one JSON object. Scheduler, policy, nodes, lock, record and verdicts are the real ones; values are drawn.
Every program has its own quality, shared by both arms, so there is something to select. In every second study an
amendment turns the hypothesis towards the result of its own pilot: the worst that a user can do before the lock.
Exits 1 if, without an effect, more than 63 of 1,000 studies are called supported, or if fewer than 80 % of verdicts
are right at effects of zero and of twice the smallest.
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

from benchmarks.cell_scheduling import answer_cell_role
from benchmarks.scripted_study import SlowModel, draw_plots, make_context
from labwright.models.backend import ModelRequest
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.record.claims.estimates import find_trusted_replicates, find_winner
from labwright.record.claims.hypothesis_tests import compute_unit_values, decide_hypotheses, read_replicate_values
from labwright.record.events.search_events import PlanAmended, SealedTestScored
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Measurement, MetricSpec, Split
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.hypotheses import Effect, Hypothesis, RivalExplanation
from labwright.record.schema.nodes import STAGES
from labwright.record.source_edits import WholeFile
from labwright.sandbox.fake_executor import FakeExecutor
from labwright.sandbox.job import CellOutcome, Job
from labwright.search.replication import FRESH_SEED_OFFSET
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import StageRunner

Objective = Literal["improve", "measure"]
SMALLEST_EFFECT = 1.0
PILOT_SEEDS = 5
MAX_SEEDS = 63
"""Maximum of 1,000 studies without an effect that may be called supported: 50 plus two standard deviations."""
MIN_RIGHT_SHARE = 0.8
SETTINGS = SearchSettings(
    num_workers=2,
    lookahead=0,
    num_drafts=2,
    num_seeds=PILOT_SEEDS,
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


class SimulatedStudy(FrozenModel):
    """One simulated study. `sd` is of the paired difference between seeds."""

    number: int
    effect: float
    objective: Objective

    @property
    def sd(self) -> float:
        return Random(f"sd {self.number}").uniform(0.3, 1.2)

    @property
    def is_amended(self) -> bool:
        return self.number % 2 == 1

    def compute_score(self, program: str, arm: str, seed: int, split: Split) -> float:
        """Return the score of an arm: the program's quality, the effect, and noise of the seed and the split."""
        quality = Random(f"{self.number}/{program}").gauss(0, 1)
        noise = Random(f"{self.number}/{program}/{arm}/{seed}").gauss(0, self.sd / 2**0.5)
        own = Random(f"{self.number}/{program}/{arm}/{seed}/{split}").gauss(0, self.sd / 10)
        return 100 + quality + self.effect * (arm == "method") + noise + own


def make_hypotheses(estimand: str) -> tuple[Hypothesis, ...]:
    """Make the hypothesis that an effect is above zero."""
    return (
        Hypothesis(
            id="gain",
            statement="one arm is better",
            reason="less is noise",
            unit="seeds",
            rival=RivalExplanation(statement="chance", estimand="baseline", ours="above zero", theirs="near zero"),
            effects=(Effect(estimand=estimand, smallest=SMALLEST_EFFECT),),
        ),
    )


def make_plan(study: SimulatedStudy) -> DataPlan:
    """Make the data plan of a study."""
    return DataPlan(
        task="simulated",
        datasets=(DatasetUse(name="digits"),),
        expected_seconds=1,
        objective=study.objective,
        metrics=(MetricSpec(name="accuracy", higher_is_better=True),),
        hypotheses=make_hypotheses("method - baseline"),
        arms=(
            Arm(name="baseline", role="baseline", untuned="drawn"),
            Arm(name="method", role="method", untuned="drawn"),
        ),
    )


def answer(request: ModelRequest) -> BaseModel:
    """Answer with one program per node, each with its own text; otherwise as in other benchmarks."""
    if not isinstance(request.inputs, CodeInputs):
        return answer_cell_role(request, lambda _: "plots.py")
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
        files=tuple(WholeFile(path=path, text=text) for path, text in files.items()),
    )


def amend_hypothesis(bench: RunContext) -> None:
    """Turn the hypothesis towards the pilot's result as soon as there is one."""
    state = bench.state
    runs = [
        read_replicate_values(one)
        for one in state.nodes.values()
        if one.kind == "replicate" and one.status == "good" and one.seed < FRESH_SEED_OFFSET
    ]
    if state.amendments or state.current_lock is not None or len(runs) < PILOT_SEEDS or state.data_plan is None:
        return
    [one] = state.data_plan.hypotheses
    shown = fmean(compute_unit_values(state.data_plan, one, one.effects[0], runs).values)
    bench.recorder.append(
        PlanAmended(
            number=1,
            why="the pilot showed it so",
            by="a person",
            seen="the pilot",
            data_plan=state.data_plan.model_copy(
                update={"hypotheses": make_hypotheses("method - baseline" if shown > 0 else "baseline - method")}
            ),
        )
    )


def run_study(study: SimulatedStudy, folder: Path) -> RunState:
    """Run a study from its first draft to its scored test values."""

    def measured(node: str, one: Cell, split: Split) -> Measurement:
        program = bench.state.nodes[node.partition("/")[0]]
        source = (
            program.source_sha256
            if program.kind != "replicate"
            else bench.state.nodes[program.parent or ""].source_sha256
        )
        return Measurement(
            name="accuracy",
            value=study.compute_score(source, one.arm, one.seed, split),
            split=split,
            condition=one.condition,
            dataset=one.dataset,
            seed=one.seed,
            grade="scored",
        )

    def cell(job: Job, one: Cell) -> tuple[float, CellOutcome]:
        if study.is_amended:
            amend_hypothesis(bench)
        return 0.0, CellOutcome(1.0, cell=one, measurements=(measured(job.name, one, "validation"),))

    async def run() -> None:
        research = StageRunner(bench)
        for stage in STAGES:
            assert await research.run_stage(stage)

    bench = make_context(
        folder,
        SlowModel(answer, 0.0),
        FakeExecutor(lambda job: (0.0, draw_plots(job)), slots=2, cell=cell),
        SETTINGS,
        plan=make_plan(study),
    )
    asyncio.run(run())
    state = bench.state
    for node in find_trusted_replicates(state, find_winner(state) or ""):
        bench.recorder.append(
            SealedTestScored(
                node=node.id,
                measurements=tuple(measured(node.id, line.cell, "test") for line in node.attempts[-1].cells),
            )
        )
    return state


def describe_result(study: SimulatedStudy) -> dict[str, Any]:
    """Return the truth of a study, and the program's verdict."""
    with tempfile.TemporaryDirectory() as folder:
        state = run_study(study, Path(folder))
    [one] = decide_hypotheses(state)
    assert state.current_lock is not None and one.confirmed and len(one.parts[0].values) == state.current_lock.n
    ours = one.hypothesis.effects[0].estimand == "method - baseline"
    expected = ("negligible", "smaller") if not study.effect else ("supported",) if ours else ("opposite",)
    right = one.verdict in expected
    return {
        "effect": study.effect,
        "objective": study.objective,
        "verdict": one.verdict,
        "right": right,
        "amended": len(state.amendments),
        "n": state.current_lock.n,
        "turned": not ours,
    }


def summarize(found: Sequence[dict[str, Any]], objective: Objective, effect: float) -> dict[str, Any]:
    """Count the outcomes of studies of one kind."""
    these = [one for one in found if one["objective"] == objective and one["effect"] == effect]
    return {
        "objective": objective,
        "effect": effect / SMALLEST_EFFECT,
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
        SimulatedStudy(number=number, effect=effect, objective=objective)
        for objective in objectives
        for effect, count in ((0.0, asked_for.studies), (2 * SMALLEST_EFFECT, asked_for.twice))
        for number in range(count)
    ]
    with ProcessPoolExecutor(asked_for.processes) as pool:
        found = list(pool.map(describe_result, studies, chunksize=8))
    groups = [summarize(found, objective, effect) for objective in objectives for effect in (0.0, 2 * SMALLEST_EFFECT)]
    none = [one for one in groups if not one["effect"]]
    good = all(one["verdicts"].get("supported", 0) <= MAX_SEEDS * one["studies"] / 1000 for one in none) and all(
        one["right"] >= MIN_RIGHT_SHARE for one in groups
    )
    text = json.dumps({"groups": groups, "holds": good, "seconds": round(time.monotonic() - began, 1)}, indent=1)
    print(text)
    if asked_for.out is not None:
        asked_for.out.write_text(text + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
