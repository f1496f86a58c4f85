"""What prompts are told of the tree and of a stage: only what may be seen, by the plan, with nothing cut unmarked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from benchmarks.scripted_study import SlowModel, answer_role, make_context
from labwright.models.client import Models, render
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CODE
from labwright.models.roles.node_assessment import CompareInputs, Preference
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    PlanPrepared,
    StageSummarised,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, Measurement, MetricSpec
from labwright.record.schema.decisions import CompareNodes, ExpandTree, RunTask, VisibleDecisions
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import (
    Attempt,
    Failure,
    NodeKind,
    NodeVerdict,
    StageName,
    StageSummary,
    format_node_id,
)
from labwright.sandbox.job import JobOutcome
from labwright.search.settings import SearchSettings
from labwright.stages.data_planning import check_context_window
from labwright.stages.prompt_inputs import MAX_LINES, build_code_inputs, describe_outcome, list_arm_settings
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from labwright.stages.stage_report import build_stage_view, build_summary_inputs, explain_selection
from labwright.stages.stage_runner import compare_nodes
from tests.fake_executor import FakeExecutor
from tests.inspector import tuning_run

LATER = 1000
"""A decision after all that a story tells."""
IDEA = Idea.model_validate(
    {"Name": "x", "Title": "X", "Experiments": ["one", "two"], "Risk Factors and Limitations": ["r"]}
)
PLAN = DataPlan(
    task="t",
    expected_seconds=1,
    datasets=(DatasetUse(name="digits"), DatasetUse(name="wine"), DatasetUse(name="iris")),
    metrics=(MetricSpec(name="log_loss", higher_is_better=False), MetricSpec(name="accuracy", higher_is_better=True)),
    arms=(Arm(name="plain", role="baseline"), Arm(name="mixup", role="method"), Arm(name="no-warmup", role="ablation")),
    levels=(Level(name="n50"), Level(name="n500")),
)


class Story:
    """A log that is written decision by decision."""

    def __init__(
        self, folder: Path, order: Literal["arrival", "ticket"] = "ticket", **answers: Callable[[Any], BaseModel]
    ) -> None:
        self.log = MemoryLog([RunStarted(idea=IDEA, settings={}, seed=7, version="0", model="scripted")])
        self.log.append(PlanPrepared(data_plan=PLAN, datasets=()))
        model = Models(ScriptedModel.from_role_functions(**answers), self.log, ModelSettings(), time.monotonic)
        self.bench = RunContext(
            recorder=self.log,
            folder=RunFolder(folder),
            models=model,
            search=SearchSettings(order=order),
            paper=PaperSettings(),
            executor=FakeExecutor(lambda job: (0, JobOutcome(seconds=0))),
            node_seconds=60,
        )

    def decide(
        self,
        kind: NodeKind,
        *,
        stage: StageName = "preliminary",
        parent: str | None = None,
        seen: VisibleDecisions | None = None,
        seed: int = 7,
        item: str = "",
    ) -> DecisionMade:
        k = self.log.state.last_decision + 1
        action = ExpandTree(
            stage=stage,
            kind=kind,
            parent=parent,
            seed=seed,
            item=item,
            ordinal=sum(node.kind == kind for node in self.log.state.list_stage_nodes(stage)),
        )
        decided = DecisionMade(k=k, action=action, seen=seen or VisibleDecisions(through=k - 1))
        self.log.append(decided)
        return decided

    def do(self, action: CompareNodes | RunTask) -> DecisionMade:
        k = self.log.state.last_decision + 1
        decided = DecisionMade(k=k, action=action, seen=VisibleDecisions(through=k - 1))
        self.log.append(decided)
        return decided

    def finish(
        self, decided: DecisionMade, values: dict[tuple[str, str], float], failure: Failure | None = None
    ) -> str:
        node = format_node_id(decided.k)
        assert isinstance(decided.action, ExpandTree)
        seal_source(self.bench.folder.get_source_path(node), {"experiment.py": "X = 1\n"})
        self.log.append(
            NodeProposed(node=node, decision=decided.k, title="", plan="p", varies=f"v{decided.k}", source_sha256="0")
        )
        found = tuple(
            Measurement(
                name=name,
                value=value + shift,
                condition=condition,
                dataset=dataset,
                split="validation",
                seed=decided.action.seed,
                grade="computed",
            )
            for (dataset, condition), value in values.items()
            for name, shift in (("log_loss", 0.0), ("accuracy", 0.5), ("brier", 0.0))
        )
        self.log.append(
            AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=1, measurements=found, failure=failure))
        )
        verdict = NodeVerdict(sound=True, analysis=f"analysis of {node}", next_step=f"after {node}")
        self.log.append(NodeJudged(node=node, status="buggy" if failure else "good", failure=failure, verdict=verdict))
        return node


def cells(plain: float, mixup: float, dataset: str = "digits") -> dict[tuple[str, str], float]:
    return {
        (dataset, f"{arm}@{level}"): value + shift
        for arm, value in (("plain", plain), ("mixup", mixup))
        for level, shift in (("n50", 0.0), ("n500", -0.1))
    }


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_sibling_whose_result_may_not_be_seen_is_only_known_to_be_in_the_making(story: Story) -> None:
    first = story.decide("draft")
    second = story.decide("draft", seen=VisibleDecisions())
    before = build_code_inputs(story.bench, second)
    story.finish(first, cells(0.5, 0.4))
    after = build_code_inputs(story.bench, second)
    design = story.log.state.nodes["n0001"].varies
    assert design and [one.varies for one in after.in_flight] == [design], "a second draft is told what the first chose"
    assert after.model_copy(update={"in_flight": before.in_flight}) == before
    assert before.siblings == () and [one.id for one in before.in_flight] == ["n0001"]
    third = build_code_inputs(story.bench, story.decide("draft", seen=VisibleDecisions(also=(1,))))
    assert [one.id for one in third.siblings] == ["n0001"] and [one.id for one in third.in_flight] == ["n0002"]


@pytest.mark.parametrize(
    ("stage", "kind", "datasets", "arms"),
    [
        ("preliminary", "draft", ("digits",), ("plain", "mixup")),
        ("tuning", "tune", ("digits", "wine"), ("plain", "mixup")),
        ("agenda", "improve", ("digits", "wine", "iris"), ("plain", "mixup")),
        ("ablation", "ablate", ("digits", "iris"), ()),
    ],
)
def test_what_must_be_measured_follows_from_stage_and_plan(
    story: Story, stage: StageName, kind: NodeKind, datasets: tuple[str, ...], arms: tuple[str, ...]
) -> None:
    parent = None
    if stage != "preliminary":
        parent = story.finish(story.decide("draft"), cells(0.5, 0.4) | cells(0.5, 0.4, "iris"))
        story.log.append(StageWinnerChosen(stage="preliminary", best=parent, ended="limit"))
    duty = build_code_inputs(story.bench, story.decide(kind, stage=stage, parent=parent)).duty
    assert duty is not None and (duty.datasets, duty.arms, duty.levels) == (datasets, arms, ("n50", "n500"))


def test_an_outcome_is_means_by_arm_and_says_what_is_missing(story: Story) -> None:
    found = cells(0.5, 0.4) | cells(0.3, 0.2, "wine")
    del found["wine", "mixup@n500"]
    node = story.finish(story.decide("draft"), dict(reversed(found.items())))
    assert describe_outcome(story.log.state.nodes[node], PLAN) == (
        "log_loss (means over levels): digits plain 0.45, mixup 0.35; wine plain 0.25, mixup 0.2 (1 of 2 levels)"
    )
    many = {("digits", f"arm{i:02}@{level}"): 0.1 for i in range(40) for level in ("n50", "n500")}
    crowd = story.finish(story.decide("draft"), many)
    shown, left = describe_outcome(story.log.state.nodes[crowd], PLAN).split(", and ")
    assert shown.endswith(" 0.1") and left == f"{40 - shown.count('arm')} more means omitted" and len(shown) < 360
    failed = story.finish(story.decide("draft"), {}, Failure(kind="shape", message="m" * 200))
    assert describe_outcome(story.log.state.nodes[failed], PLAN) == f"shape: {'m' * 89} ..."


def test_the_report_gets_the_reasons_and_paired_differences(story: Story) -> None:
    story.finish(story.decide("draft"), {("digits", "mixup@n50"): 0.1})
    story.finish(story.decide("draft"), cells(0.5, 0.44))
    best = story.finish(story.decide("draft"), cells(0.5, 0.4))
    for seed in (8, 9):
        again = cells(0.5 + seed / 100, 0.4 + seed / 100 + seed / 1000)
        story.finish(story.decide("replicate", parent=best, seed=seed), again)
    view = build_stage_view(story.bench, "preliminary")
    reasons = explain_selection(view)
    assert view.best_node is not None and view.best_node.id == best
    assert reasons[0] == "it measured 4 of the 4 (dataset, condition) cells of the stage's panel, as many as n0002"
    assert "n0003 0.4 (+4.8%) vs. n0002 0.42" in reasons[1] and "relative to n0002" in reasons[1]
    story.log.append(StageWinnerChosen(stage="preliminary", best=best, reasons=reasons, ended="limit"))
    inputs = build_summary_inputs(story.bench, "preliminary", LATER)
    assert inputs.reasons == reasons and "cells of plain, mixup" in reasons[1]
    assert [line.analysis for line in inputs.nodes] == [f"analysis of n000{i}" for i in (1, 2, 3)]
    assert {one.name for one in inputs.statistics} == {"log_loss", "accuracy"}
    assert all(one.n == 2 and one.low is None and one.sd is not None for one in inputs.statistics)
    contrast = inputs.differences[0]
    assert (contrast.name, contrast.condition, contrast.other) == ("log_loss", "mixup@n50", "plain@n50")
    assert contrast.mean == pytest.approx(-0.0915) and contrast.low is None


# --- memory ---------------------------------------------------------------------------------------------------------


def tuned(story: Story, nodes: int) -> str:
    """A tuning stage of so many finished nodes whose first ones are the best, every fifth failed; the root's id."""
    root = story.finish(story.decide("draft"), cells(0.9, 0.9))
    story.log.append(StageWinnerChosen(stage="preliminary", best=root, ended="limit"))
    for k in range(nodes):
        failure = Failure(kind="shape", message="m" * 300) if k % 5 == 4 else None
        story.finish(story.decide("tune", stage="tuning", parent=root), cells(0.5 + k / 1000, 0.4 + k / 1000), failure)
    return root


def test_of_many_nodes_the_latest_are_told(story: Story) -> None:
    root = tuned(story, 100)
    inputs = build_code_inputs(story.bench, story.decide("tune", stage="tuning", parent=root))
    assert [one.id for one in inputs.siblings] == [format_node_id(k) for k in range(102 - MAX_LINES, 102)]
    user = render(CODE, inputs).user
    assert "or from the same node before, the latest (" in user and "- n0078 " in user and "- n0077 " not in user


def test_the_report_on_an_earlier_stage_is_shown_once_it_may_be_seen(story: Story) -> None:
    root = story.finish(story.decide("draft"), cells(0.5, 0.4))
    story.log.append(StageWinnerChosen(stage="preliminary", best=root, ended="limit"))
    written = story.do(RunTask(task="summary of preliminary"))
    beside = story.decide("tune", stage="tuning", parent=root, seen=VisibleDecisions(through=1))
    before = build_code_inputs(story.bench, beside)
    story.log.append(StageSummarised(k=written.k, summary=StageSummary(stage="preliminary", tried="t", found="f")))
    story.log.append(TaskDone(k=written.k))
    assert build_code_inputs(story.bench, beside) == before and before.earlier == ()
    assert [
        one.found for one in build_code_inputs(story.bench, story.decide("tune", stage="tuning", parent=root)).earlier
    ] == ["f"]


# --- harder experiments, seeds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "stage", "kind", "share"),
    [("arrival", "agenda", "improve", 1 / 60), ("ticket", "agenda", "improve", None)],
)
def test_room_for_a_harder_experiment_is_told_where_time_may_decide(
    tmp_path: Path, order: Literal["arrival", "ticket"], stage: StageName, kind: NodeKind, share: float | None
) -> None:
    story = Story(tmp_path, order)
    root = story.finish(story.decide("draft"), cells(0.5, 0.4))
    story.log.append(StageWinnerChosen(stage="preliminary", best=root, ended="limit"))
    inputs = build_code_inputs(story.bench, story.decide(kind, stage=stage, parent=root))
    assert inputs.spare == (None if share is None else pytest.approx(share))
    assert ("took 2 % of its time limit" in render(CODE, inputs).user) == (share is not None)


@pytest.mark.parametrize(("second", "said"), [(0.4, True), (0.41, False)])
def test_code_that_ignores_its_seed_is_named(story: Story, second: float, said: bool) -> None:
    root = story.finish(story.decide("draft"), cells(0.5, 0.4))
    story.log.append(StageWinnerChosen(stage="preliminary", best=root, ended="limit"))
    story.finish(story.decide("replicate", parent=root, seed=8), cells(0.5, 0.4))
    one = build_code_inputs(story.bench, story.decide("tune", stage="tuning", parent=root))
    story.finish(story.decide("replicate", parent=root, seed=9), cells(0.5, second))
    two = build_code_inputs(story.bench, story.decide("tune", stage="tuning", parent=root))
    assert one.parent is not None and two.parent is not None
    assert not one.parent.seedless and two.parent.seedless == said
    assert ("measurements do not depend on `lab.seed`" in render(CODE, two).user) == said


# --- comparisons ----------------------------------------------------------------------------------------------------


def close_call(story: Story) -> DecisionMade:
    """A tuning node that differs from the root by less than the root's replicates do, and the decision to compare."""
    root = story.finish(story.decide("draft"), cells(0.5, 0.4))
    story.log.append(StageWinnerChosen(stage="preliminary", best=root, ended="limit"))
    for seed in (8, 9, 10):
        story.finish(story.decide("replicate", parent=root, seed=seed), cells(0.5, 0.4 + seed / 100))
    other = story.finish(story.decide("tune", stage="tuning", parent=root), cells(0.5, 0.41))
    return story.do(CompareNodes(stage="tuning", a=root, b=other))


@pytest.mark.parametrize(("said", "node"), [("b", "n0005")])
def test_a_comparison_is_answered_once_and_recorded(
    tmp_path: Path, said: Literal["a", "b", "neither"], node: str | None
) -> None:
    asked: list[CompareInputs] = []

    def answer(inputs: CompareInputs) -> Preference:
        asked.append(inputs)
        return Preference(better=said, reasons="B reads its constant.")

    story = Story(tmp_path, compare=answer)
    decided = close_call(story)
    asyncio.run(compare_nodes(story.bench, decided))
    found = story.log.state.search.comparisons["n0001", "n0005"]
    assert (found.k, found.better, found.reasons) == (decided.k, node, "B reads its constant.")
    [inputs] = asked
    assert (inputs.a.node.id, inputs.b.node.id, inputs.b.node.varies) == ("n0001", "n0005", "v5")
    assert inputs.a.experiment == "X = 1\n" and inputs.b.node.verdict is not None
    assert inputs.b.node.verdict.analysis == "analysis of n0005"
    assert inputs.difference == "", "both programs are the same here"
    assert inputs.noise == {"digits": pytest.approx(0.005)}, "of the mean over the cells that decide"


def test_a_child_is_told_of_the_settings_that_it_starts_from_what_its_decision_may_see() -> None:
    state = tuning_run.make_tuning_run().state
    parent = next(node for node in state.nodes.values() if node.kind == "improve")

    def told(seen: VisibleDecisions) -> dict[str, tuple[int, int, bool]]:
        decided = DecisionMade(
            k=99, seen=seen, action=ExpandTree(stage="agenda", kind="improve", parent=parent.id, seed=1)
        )
        return {one.arm: (one.number, one.study, one.stale) for one in list_arm_settings(state, parent, decided)}

    assert told(VisibleDecisions(through=98)) == {"plain": (1, 4, False), "smooth": (3, 1, True)}
    assert told(VisibleDecisions(through=parent.decision - 1)) == {"plain": (1, 4, False), "smooth": (3, 0, True)}
    assert told(VisibleDecisions(through=1, also=(parent.decision,)))["plain"] == (1, 2, True), (
        "the trials may not be seen"
    )


async def test_only_who_writes_code_needs_room_for_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = FakeExecutor(lambda job: (0.0, JobOutcome(seconds=0)))
    bench = make_context(tmp_path, SlowModel(answer_role, 0.0), executor, SearchSettings())
    asked: dict[str, int] = {}

    async def note(role: AnyRole, characters: int) -> None:
        asked[role.name] = characters

    monkeypatch.setattr(bench.models, "check_room", note)
    await check_context_window(bench, bench.plan)
    assert asked["code"] - asked["feedback"] == len(bench.lab_reference) > 0
