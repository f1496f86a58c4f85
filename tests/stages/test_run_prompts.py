"""What prompts of a small run say, as the models read them: real stages, with a scripted model and executor."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from benchmarks.scripted_study import answer_role, draw_plots
from labwright.models.backend import ModelRequest
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import FigureReviews, PlotInputs, Plots, VisionInputs
from labwright.models.roles.node_assessment import FeedbackInputs
from labwright.models.roles.study_plan import AblationPlan, AblationPlanInputs
from labwright.record.baseline_check import Ablation
from labwright.record.events.run_events import RunResumed
from labwright.record.events.search_events import (
    AblationsPlanned,
    DecisionMade,
    PlanPrepared,
    StageSummarised,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.machine import ComputeRate
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, Measurement, MetricSpec, Split
from labwright.record.schema.decisions import ABLATION_PLAN_TASK, ExpandTree, VisibleDecisions, build_summary_task
from labwright.record.schema.nodes import Failure, NodeKind, NodeVerdict, SoundnessCheck, StageName, StageSummary
from labwright.record.schema.paper import FigureReview
from labwright.sandbox.job import Job, JobOutcome
from labwright.stages.nodes.node_runner import expand
from labwright.stages.run_context import RunContext
from labwright.stages.stage_report import build_summary_inputs
from tests.stages.test_nodes import search

PLAN = DataPlan(
    task="classify",
    datasets=(DatasetUse(name="digits"),),
    expected_seconds=1,
    factor="noise",
    open=("WIDTH, to 512",),
    metrics=(MetricSpec(name="accuracy", higher_is_better=True), MetricSpec(name="ece", higher_is_better=False)),
    arms=(Arm(name="sgd", role="baseline"), Arm(name="adam", role="method"), Arm(name="oracle", role="ablation")),
    levels=(Level(name="a0"), Level(name="a1"), Level(name="a3")),
    covered=(2,),
)
RATE = ComputeRate(
    processor="Some CPU",
    cores=8,
    memory_bytes=16 * 10**9,
    threads=2,
    at_once=3,
    product_seconds=0.04321,
    epoch_seconds=1.234,
)
CHECK = SoundnessCheck(name="rotated agrees with plain", outcome="failed", seen="0.859 against 0.874 at a0")


def value(name: str, condition: str, number: float, split: Split = "validation") -> Measurement:
    return Measurement(
        name=name,
        value=number,
        condition=condition,
        dataset="digits",
        split=split,
        seed=0,
        grade="logged" if split == "dev" else "scored",
    )


def measured(shift: float = 0.0, arms: tuple[str, ...] = ("sgd", "adam")) -> tuple[Measurement, ...]:
    """Accuracy that falls from level to level, of the second arm faster; a metric that the plan does not name."""
    return tuple(
        one
        for k, arm in enumerate(arms)
        for level, drop in (("a0", 0.0), ("a1", 0.125), ("a3", 0.25))
        for one in (
            value("accuracy", f"{arm}@{level}", 0.75 + shift * (arm == "adam") - drop * (1 + k)),
            value("ece", f"{arm}@{level}", 0.5),
            value("brier", f"{arm}@{level}", 0.625),
        )
    )


class World:
    """A run whose root is measured, a model that is asked, and what it was asked."""

    def __init__(
        self,
        folder: Path,
        *,
        script: Callable[[Job], JobOutcome | None] = lambda job: None,
        program: Callable[[CodeInputs], Program] | None = None,
        plan: DataPlan = PLAN,
    ) -> None:
        self.asked: list[ModelRequest] = []
        self._program = program

        def run(job: Job) -> JobOutcome | None:
            found = script(job)
            return found or (
                draw_plots(job)
                if job.kind == "plot"
                else JobOutcome(
                    seconds=3,
                    measurements=measured(0.0625),
                    self_reported=(value("chosen_rate", "adam@a3", 0.02, "dev"),),
                )
            )

        self.bench, self.jobs = search(folder, run, model=self.answer)
        self.log = self.bench.recorder
        self.log.append(RunResumed(rate=RATE))
        self.log.append(PlanPrepared(data_plan=plan, datasets=()))
        root = self.log.state.nodes["n0001"]
        self.log.state.nodes["n0001"] = root.model_copy(
            update={"attempts": (root.attempts[0].model_copy(update={"measurements": measured()}),)}
        )

    def answer(self, request: ModelRequest) -> BaseModel:
        self.asked.append(request)
        inputs = request.inputs
        if isinstance(inputs, CodeInputs) and self._program is not None:
            return self._program(inputs)
        if isinstance(inputs, PlotInputs):
            return Plots(plots="# again")
        if isinstance(inputs, VisionInputs):
            return FigureReviews(
                reviews=tuple(
                    FigureReview(name=name, readable=True, issues=("Mark chance, 10 %.",)) for name in inputs.names
                )
            )
        if isinstance(inputs, AblationPlanInputs):
            return AblationPlan(ablations=PAIR[:1])
        if isinstance(inputs, FeedbackInputs):
            return NodeVerdict(sound=True, analysis="As planned.", checks=(CHECK,))
        return answer_role(request)

    async def make(
        self,
        kind: NodeKind,
        *,
        stage: StageName = "agenda",
        parent: str | None = "n0001",
        item: str = "",
        seed: int = 0,
    ) -> str:
        decided = self.decide(kind, stage=stage, parent=parent, item=item, seed=seed)
        await expand(self.bench, decided, lambda: None)
        return f"n{decided.k:04d}"

    def decide(
        self,
        kind: NodeKind,
        *,
        stage: StageName = "agenda",
        parent: str | None = "n0001",
        item: str = "",
        seed: int = 0,
    ) -> DecisionMade:
        state = self.log.state
        k = state.last_decision + 1
        decided = DecisionMade(
            k=k,
            seen=everything(self.bench),
            action=ExpandTree(
                stage=stage,
                kind=kind,
                parent=parent,
                item=item,
                seed=seed,
                ordinal=sum(node.kind == kind for node in state.list_stage_nodes(stage)),
            ),
        )
        self.log.append(decided)
        return decided

    def prompt(self, role: str) -> str:
        """The last prompt of a role, on one line."""
        prompt = next(one.prompt for one in reversed(self.asked) if one.role.name == role)
        return " ".join(f"{prompt.system}\n{prompt.user}".split())


def everything(bench: RunContext) -> VisibleDecisions:
    """All that is decided on so far may be seen."""
    return VisibleDecisions(through=bench.state.last_decision)


async def test_the_machine_its_rate_and_both_limits_are_said_to_whoever_writes_code(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.make("improve", item="one")
    said = world.prompt("code")
    assert "8 CPU cores (Some CPU). One experiment has 2 threads and at most 16.0 GB of memory; up to 3 run" in said
    assert "product takes 0.043 s, and one epoch of a small network (784 inputs, one hidden layer of 256" in said
    assert ", plain SGD) 1.2 s." in said and "began on another machine" not in said
    assert "60 s of compute time, summed over all cells" in said and "are run once more, with 90 s" in said
    world.log.append(RunResumed(rate=RATE.model_copy(update={"moved": True, "product_seconds": None})))
    await world.make("improve", item="one")
    assert "could not be measured" in world.prompt("code") and "began on another machine" in world.prompt("code")


async def test_a_judge_is_told_of_attempts_differences_what_dev_says_and_the_hypothesis(tmp_path: Path) -> None:
    def late(job: Job) -> JobOutcome | None:
        return (
            JobOutcome(seconds=60, failure=Failure(kind="timeout", message="it took 60 s"))
            if job.name.endswith("/1") and job.kind == "experiment"
            else None
        )

    world = World(tmp_path, script=late)
    node = await world.make("improve", item="one")
    said = world.prompt("feedback")
    assert "Title: Bench" in said and "six to twelve short sentences" in said
    assert "attempt 1 took 60 s of 60 s, and was stopped (timeout: it took 60 s); attempt 2 took 3 s of 90 s" in said
    assert "digits, adam@a0, validation: accuracy 0.8125 (before 0.75, +0.0625), ece 0.5 (unchanged)" in said
    assert "digits, sgd@a0, validation: accuracy 0.75, ece 0.5 (unchanged)" in said and "brier" not in said
    assert "- digits, adam: a0 0.8125; a1 -0.25, a3 -0.5; mean of these -0.375" in said
    assert "- digits, adam@a3, dev: chosen_rate 0.02" in said
    assert world.log.state.nodes[node].verdict == NodeVerdict(sound=True, analysis="As planned.", checks=(CHECK,))


async def test_a_child_is_told_checks_advice_attempts_and_what_dev_says(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = await world.make("improve", item="one")
    await world.make("improve", item="one", parent=first)
    said = world.prompt("code")
    assert f"- {CHECK.name}: failed; {CHECK.seen}" in said and re.search("- loss.png: [^-]*Mark chance", said)
    assert "attempt 1 took 3 s of 60 s, and finished." in said and "chosen_rate 0.02" in said
    assert "Left for experiments to choose: WIDTH, to 512." in said
    world.log.append(StageWinnerChosen(stage="agenda", best=first, ended="limit"))
    inputs = build_summary_inputs(world.bench, "agenda", world.log.state.last_decision + 1)
    assert inputs.nodes[0].checks == (CHECK,) and inputs.tables.self_reported[0].name == "chosen_rate"
    assert [(one.same, one.by["a3"]) for one in inputs.tables.levels] == [("sgd", -0.25), ("adam", -0.5)]


async def test_figures_may_show_validation_of_the_run_and_an_aggregate_of_each_replicate(tmp_path: Path) -> None:
    read: dict[str, str] = {}

    def seen(job: Job) -> JobOutcome | None:
        read[job.name] = job.source.get("scores.json", "")
        return None

    world = World(tmp_path, script=seen)
    node = await world.make("improve", item="one")
    rows = json.loads(read[f"{node}/plots1"])
    assert {
        "node": node,
        "seed": 0,
        "dataset": "digits",
        "condition": "adam@a3",
        "arm": "adam",
        "level": "a3",
        "metric": "accuracy",
        "value": 0.3125,
    } in rows
    assert {row["metric"] for row in rows} == {"accuracy", "ece"} and not read[f"{node}/1"]
    runs = [await world.make("replicate", parent=node, seed=seed) for seed in (1, 2)]
    together = await world.make("aggregate", parent=node)
    of_all = json.loads(read[f"{together}/plots1"])
    assert {(row["node"], row["seed"]) for row in of_all} == {(runs[0], 1), (runs[1], 2)}
    said = world.prompt("plot")
    assert (
        re.search("- loss.png: [^-]*Mark chance", said)
        and "from `scores.json`, which has the scores of every run" in said
    )
    assert "NaN" in said and "chance line" in said


@pytest.mark.parametrize(("item", "covered"), [("one", False), ("two", True)])
async def test_an_item_that_the_compared_arms_answer_is_said_to_be_so(tmp_path: Path, item: str, covered: bool) -> None:
    world = World(tmp_path)
    await world.make("improve", item=item)
    assert ("measuring the arms of the data plan answers it" in world.prompt("code")) == covered
    assert ("`nothing_left`, in one or two sentences" in world.prompt("code")) == covered
    assert 'that "What to measure" does not list, even if the item names them' in " ".join(world.prompt("code").split())


# --- nothing is left to try -----------------------------------------------------------------------------------------


def declining(_: CodeInputs) -> Program:
    return Program(title="", plan="", varies="", nothing_left="It is answered.")


async def test_of_an_item_that_the_compared_arms_answer_nothing_may_be_left_to_try(tmp_path: Path) -> None:
    world = World(tmp_path, program=declining)
    node = world.log.state.nodes[await world.make("improve", item="two")]
    assert (node.status, node.attempts, node.source_sha256) == ("cancelled", (), "")
    assert node.failure == Failure(kind="nothing left", message="It is answered.")
    assert not any(job.name.startswith(node.id) for job in world.jobs)


# --- ablations ------------------------------------------------------------------------------------------------------

LONG = "the five rates of the arm itself, each scored on dev marked at random, " * 20
PAIR = tuple(
    Ablation(
        name=name,
        part=f"the choice of {arm}'s rate",
        action="replace",
        metrics=("accuracy",),
        why="w.",
        replacement=f"{LONG} of {arm}, the end",
    )
    for name, arm in (("o-adam", "Adam"), ("o-sgd", "SGD"))
)


def ablating(world: World) -> None:
    """The agenda is over and its report is not written; two ablations are planned."""
    k = world.log.state.last_decision + 1
    world.log.append(DecisionMade(k=k, action=ABLATION_PLAN_TASK))
    world.log.append(AblationsPlanned(ablations=PAIR))
    world.log.append(TaskDone(k=k))


async def test_the_report_of_an_earlier_stage_is_shown_once_it_is_written(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = await world.make("improve", item="one")
    world.log.append(StageWinnerChosen(stage="agenda", best=first, ended="limit"))
    ablating(world)
    await world.make("ablate", stage="ablation", parent=first, item=PAIR[0].item_text)
    assert "the report itself" not in world.prompt("code")
    k = world.log.state.last_decision + 1
    world.log.append(DecisionMade(k=k, action=build_summary_task("agenda"), seen=everything(world.bench)))
    world.log.append(StageSummarised(k=k, summary=StageSummary(stage="agenda", tried="t", found="the report itself")))
    world.log.append(TaskDone(k=k))
    await world.make("ablate", stage="ablation", parent=first, item=PAIR[1].item_text)
    assert "the report itself" in world.prompt("code")


async def test_ablations_are_told_of_each_other_whole_and_judged_together(tmp_path: Path) -> None:
    def own(job: Job) -> JobOutcome | None:
        return JobOutcome(seconds=1, measurements=measured(arms=("o-adam",))) if job.kind == "experiment" else None

    world = World(tmp_path, script=own)
    world.log.append(StageWinnerChosen(stage="agenda", best="n0001", ended="limit"))
    ablating(world)
    first = await world.make("ablate", stage="ablation", item=PAIR[0].item_text)
    said = world.prompt("code")
    assert " ".join(f"replacement: {PAIR[0].replacement}".split()) in said
    assert PAIR[1].summary in said
    assert "`lab.seed + 505`" in said and "Written by other authors" in said
    assert PAIR[0].summary in world.prompt("feedback"), "the judge holds it against the whole plan"
    await world.make("ablate", stage="ablation", item=PAIR[1].item_text)
    assert f"{first} LEARNING_RATE=0.0000: digits o-adam 0.625" in world.prompt("feedback")
