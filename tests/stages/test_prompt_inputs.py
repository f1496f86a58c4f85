"""What prompts are told of the tree and of a stage: only what may be seen, by the plan, with nothing cut unmarked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from models.door import Models
from models.scripted import ScriptedModel
from models.settings import ModelSettings
from record.events import Decided, Executed, Judged, Prepared, Proposed, Settled, Started
from record.fold import node_id
from record.folder import RunFolder, write_source
from record.log import MemoryLog
from record.nouns import (
    Arm,
    Attempt,
    DataPlan,
    DatasetUse,
    Expand,
    Failure,
    Idea,
    Level,
    Measurement,
    MetricSpec,
    NodeKind,
    Seen,
    StageName,
    Verdict,
)
from sandbox.job import Outcome
from sandbox.scripted import ScriptedExecutor
from search.settings import SearchSettings
from stages.bench import Bench
from stages.briefs import code_inputs, outcome, plotting_reference
from stages.report import reasons_for, summary_inputs, whole_stage
from stages.settings import PaperSettings

IDEA = Idea.model_validate({
    "Name": "x", "Title": "X", "Experiments": ["one", "two"], "Risk Factors and Limitations": ["r"]})
PLAN = DataPlan(
    task="t", expected_seconds=1,
    datasets=(DatasetUse(name="digits"), DatasetUse(name="wine"), DatasetUse(name="iris")),
    metrics=(MetricSpec(name="log_loss", higher_is_better=False), MetricSpec(name="accuracy", higher_is_better=True)),
    arms=(Arm(name="plain", role="baseline"), Arm(name="mixup", role="method"), Arm(name="no-warmup", role="ablation")),
    levels=(Level(name="n50"), Level(name="n500")))


class Story:
    """A log that is written decision by decision."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog([Started(idea=IDEA, settings={}, seed=7, version="0", model="scripted")])
        self.log.append(Prepared(data_plan=PLAN, datasets=()))
        model = Models(ScriptedModel.by_role(), self.log, ModelSettings(), time.monotonic)
        self.bench = Bench(
            recorder=self.log, folder=RunFolder(folder), models=model, search=SearchSettings(order="ticket"),
            paper=PaperSettings(), executor=ScriptedExecutor(lambda job: (0, Outcome(seconds=0))), node_seconds=60)

    def decide(self, kind: NodeKind, *, stage: StageName = "preliminary", parent: str | None = None,
               seen: Seen | None = None, seed: int = 7, item: str = "") -> Decided:
        k = self.log.state.last_decision + 1
        action = Expand(stage=stage, kind=kind, parent=parent, seed=seed, item=item,
                        ordinal=sum(node.kind == kind for node in self.log.state.stage_nodes(stage)))
        decided = Decided(k=k, action=action, seen=seen or Seen(through=k - 1))
        self.log.append(decided)
        return decided

    def finish(self, decided: Decided, values: dict[tuple[str, str], float], failure: Failure | None = None) -> str:
        node = node_id(decided.k)
        assert isinstance(decided.action, Expand)
        write_source(self.bench.folder.source(node), {"experiment.py": "X = 1\n"})
        self.log.append(Proposed(
            node=node, decision=decided.k, title="", plan="p", varies=f"v{decided.k}", source_sha256="0"))
        found = tuple(Measurement(name=name, value=value + shift, condition=condition, dataset=dataset,
                                  split="validation", seed=decided.action.seed, grade="computed")
                      for (dataset, condition), value in values.items()
                      for name, shift in (("log_loss", 0.0), ("accuracy", 0.5), ("brier", 0.0)))
        self.log.append(Executed(node=node, attempt=Attempt(number=1, seconds=1, measurements=found, failure=failure)))
        verdict = Verdict(sound=True, analysis=f"analysis of {node}", next_step=f"after {node}")
        self.log.append(Judged(node=node, status="buggy" if failure else "good", failure=failure, verdict=verdict))
        return node


def cells(plain: float, mixup: float, dataset: str = "digits") -> dict[tuple[str, str], float]:
    return {(dataset, f"{arm}@{level}"): value + shift
            for arm, value in (("plain", plain), ("mixup", mixup)) for level, shift in (("n50", 0.0), ("n500", -0.1))}


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_sibling_whose_result_may_not_be_seen_is_only_known_to_be_in_the_making(story: Story) -> None:
    first = story.decide("draft")
    second = story.decide("draft", seen=Seen())
    before = code_inputs(story.bench, second)
    story.finish(first, cells(0.5, 0.4))
    assert code_inputs(story.bench, second) == before
    assert before.siblings == () and [one.id for one in before.in_flight] == ["n0001"]
    third = code_inputs(story.bench, story.decide("draft", seen=Seen(also=(1,))))
    assert [one.id for one in third.siblings] == ["n0001"] and [one.id for one in third.in_flight] == ["n0002"]


def test_in_flight_agenda_items_are_told_and_next_steps_reach_the_code(story: Story) -> None:
    best = story.finish(story.decide("draft"), cells(0.5, 0.4))
    story.log.append(Settled(stage="preliminary", best=best, ended="ceiling"))
    story.decide("improve", stage="agenda", parent=best, item="one")
    second = story.decide("improve", stage="agenda", parent=best, item="two", seen=Seen(through=1))
    inputs = code_inputs(story.bench, second)
    assert [(one.kind, one.item) for one in inputs.in_flight] == [("improve", "one")]
    assert inputs.parent is not None and inputs.parent.next_step == "after n0001"


@pytest.mark.parametrize(("stage", "kind", "datasets", "arms"), [
    ("preliminary", "draft", ("digits",), ("plain", "mixup")),
    ("tuning", "tune", ("digits", "wine"), ("plain", "mixup")),
    ("agenda", "improve", ("digits", "wine", "iris"), ("plain", "mixup")),
    ("ablation", "ablate", ("digits", "iris"), ())])
def test_what_must_be_measured_follows_from_stage_and_plan(
    story: Story, stage: StageName, kind: NodeKind, datasets: tuple[str, ...], arms: tuple[str, ...]
) -> None:
    parent = None
    if stage != "preliminary":
        parent = story.finish(story.decide("draft"), cells(0.5, 0.4) | cells(0.5, 0.4, "iris"))
        story.log.append(Settled(stage="preliminary", best=parent, ended="ceiling"))
    duty = code_inputs(story.bench, story.decide(kind, stage=stage, parent=parent)).duty
    assert duty is not None and (duty.datasets, duty.arms, duty.levels) == (datasets, arms, ("n50", "n500"))
    assert len(duty.conditions) == 2 * len(arms)


def test_an_outcome_is_means_by_arm_and_says_what_is_missing(story: Story) -> None:
    found = cells(0.5, 0.4) | cells(0.3, 0.2, "wine")
    del found["wine", "mixup@n500"]
    node = story.finish(story.decide("draft"), dict(reversed(found.items())))
    assert outcome(story.log.state.nodes[node], PLAN) == (
        "log_loss (means over levels): digits plain 0.45, digits mixup 0.35, wine plain 0.25, "
        "wine mixup 0.2 (1 of 2 levels)")
    many = {("digits", f"arm{i}@n50"): 0.1 for i in range(11)}
    crowd = story.finish(story.decide("draft"), many)
    assert outcome(story.log.state.nodes[crowd], PLAN).endswith(", and 3 more means left out")
    failed = story.finish(story.decide("draft"), {}, Failure(kind="shape", message="m" * 200))
    assert outcome(story.log.state.nodes[failed], PLAN) == f"shape: {'m' * 120} ..."


def test_the_report_gets_the_rule_what_was_compared_and_paired_differences(story: Story) -> None:
    story.finish(story.decide("draft"), {("digits", "mixup@n50"): 0.1})
    story.finish(story.decide("draft"), cells(0.5, 0.44))
    best = story.finish(story.decide("draft"), cells(0.5, 0.4))
    for seed in (8, 9):
        again = cells(0.5 + seed / 100, 0.4 + seed / 100 + seed / 1000)
        story.finish(story.decide("replicate", parent=best, seed=seed), again)
    view = whole_stage(story.bench, "preliminary")
    reasons = reasons_for(view)
    assert view.best is not None and view.best.id == best
    assert reasons[0] == "it measured 4 of the 12 (dataset, condition) cells of the plan, as many as n0002"
    assert "n0003 0.35 (+10.3%) against n0002 0.39" in reasons[1] and "relative to n0002" in reasons[1]
    story.log.append(Settled(stage="preliminary", best=best, reasons=reasons, ended="ceiling"))
    inputs = summary_inputs(story.bench, "preliminary")
    assert inputs.selection is not None and inputs.selection.arms == ("mixup",) and "earlier" in inputs.selection.rule
    assert [(one.id, one.cells) for one in inputs.selection.candidates] == [("n0003", 4), ("n0002", 4), ("n0001", 1)]
    assert [line.analysis for line in inputs.nodes] == [f"analysis of n000{i}" for i in (1, 2, 3)]
    assert {one.name for one in inputs.statistics} == {"log_loss", "accuracy"}
    assert all(one.n == 2 and one.low is None and one.sd is not None for one in inputs.statistics)
    contrast = inputs.differences[0]
    assert (contrast.name, contrast.condition, contrast.other) == ("log_loss", "mixup@n50", "plain@n50")
    assert contrast.mean == pytest.approx(-0.0915) and contrast.low is None and contrast.called == "unknown"


def test_with_three_seeds_intervals_are_shown_and_ablations_are_compared(story: Story) -> None:
    best = story.finish(story.decide("draft"), cells(0.5, 0.4))
    story.log.append(Settled(stage="preliminary", best=best, ended="ceiling"))
    part = story.finish(story.decide("ablate", stage="ablation", parent=best), {("digits", "no-warmup@n50"): 0.47})
    for seed in (8, 9, 10):
        story.finish(story.decide("replicate", stage="ablation", parent=best, seed=seed), cells(0.5, 0.4 + seed / 1000))
        story.finish(story.decide("replicate", stage="ablation", parent=part, seed=seed),
                     {("digits", "no-warmup@n50"): 0.47 + seed / 500})
    story.log.append(Settled(stage="ablation", best=best, ended="ceiling"))
    inputs = summary_inputs(story.bench, "ablation")
    pairs = {(one.condition, one.other): one for one in inputs.differences if one.name == "log_loss"}
    ablated = pairs["no-warmup@n50", "mixup@n50"]
    assert ablated.n == 3 and ablated.low is not None and ablated.better == "mixup@n50"
    assert inputs.selection is not None and inputs.selection.candidates == ()


def test_plotting_scripts_are_told_of_plotting_alone(story: Story) -> None:
    whole, part = story.bench.lab_reference, plotting_reference(story.bench)
    assert whole.endswith(part) and part.startswith("## plots.py") and "inputs/<node>" in part
    assert "lab.submit(" not in part and "lab.submit(" in whole
