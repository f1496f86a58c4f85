"""What the report on a stage is told: the choice with the noise and the comparisons, and only what could be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.models.client import render
from labwright.models.roles.node_assessment import SUMMARY, StageReport, SummaryInputs
from labwright.record.events.run_events import LimitReached
from labwright.record.events.search_events import DecisionMade, NodesCompared, StageWinnerChosen
from labwright.record.schema.decisions import CompareNodes, VisibleDecisions, build_summary_task
from labwright.record.schema.nodes import Failure
from labwright.stages.stage_report import build_stage_view, build_summary_inputs, explain_selection, summarise_stage
from tests.stages.test_prompt_inputs import Story, cells


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def replicated(story: Story, *shifts: float) -> str:
    """A preliminary stage, settled on its one node, whose replicates differ from it by these."""
    best = story.finish(story.decide("draft"), cells(0.5, 0.4))
    story.log.append(StageWinnerChosen(stage="preliminary", best=best, ended="limit"))
    for seed, shift in enumerate(shifts, start=8):
        story.finish(story.decide("replicate", parent=best, seed=seed), cells(0.5 + shift, 0.4 + shift))
    return best


def tuned(story: Story, parent: str, *losses: float) -> list[str]:
    return [story.finish(story.decide("improve", stage="tuning", parent=parent), cells(loss, loss)) for loss in losses]


def test_the_noise_is_named_where_it_hides_a_larger_gain(story: Story) -> None:
    root = replicated(story, 0.0, 0.02, 0.04)  # sd 0.02: differences up to 0.028 are hidden
    first, second = tuned(story, root, 0.40, 0.39)
    view = build_stage_view(story.bench, "tuning")
    reasons = explain_selection(view)
    assert view.best_node is not None and view.best_node.id == first
    assert reasons[-2:] == (
        f"the noise between seeds hides the differences of {first}, {second} (standard deviation over replicates: "
        "digits 0.02)",
        "among them it is the earlier one",
    )
    assert f"{first} 0.35" in reasons[1] and "the best of the others" in reasons[1]


def test_a_comparison_that_named_one_is_the_reason(story: Story) -> None:
    root = replicated(story, 0.0, 0.02, 0.04)
    first, second = tuned(story, root, 0.40, 0.39)
    k = story.log.state.last_decision + 1
    story.log.append(DecisionMade(k=k, action=CompareNodes(stage="tuning", a=first, b=second)))
    story.log.append(NodesCompared(k=k, a=first, b=second, better=second, reasons="it scales on train alone"))
    view = build_stage_view(story.bench, "tuning")
    reasons = explain_selection(view)
    assert view.best_node is not None and view.best_node.id == second
    assert reasons[-1] == (f"a model was asked which is sounder to build on: {first} or {second}: {second}")
    assert "digits 0.02" in reasons[-2] and reasons[0].startswith("it measured 4 of the 8")


# --- what the program adds --------------------------------------------------------------------------------------------


async def test_a_report_has_the_branch_the_failures_and_only_keys_that_were_shown(tmp_path: Path) -> None:
    shown: list[str] = []

    def said(inputs: SummaryInputs) -> StageReport:
        shown.extend(one.key for one in (*inputs.statistics, *inputs.differences))
        return StageReport(tried="t", found="f", numbers=(shown[-1], "validation/no/such/key", shown[-1], shown[0]))

    story = Story(tmp_path, summary=said)
    failure = Failure(kind="shape", message="mat1 and mat2")
    broken = story.finish(story.decide("draft"), {}, failure)
    root = story.finish(story.decide("debug", parent=broken), cells(0.5, 0.4))
    story.log.append(StageWinnerChosen(stage="preliminary", best=root, ended="limit"))
    for seed in (8, 9, 10):
        story.finish(story.decide("replicate", parent=root, seed=seed), cells(0.5 + seed / 100, 0.4))
    [best] = tuned(story, root, 0.3)
    story.log.append(StageWinnerChosen(stage="tuning", best=best, ended="limit"))
    await summarise_stage(story.bench, story.bench.models.make_client(99, 0), "preliminary")
    await summarise_stage(story.bench, story.bench.models.make_client(100, 0), "tuning")
    first, second = (story.log.state.search.stages[name].summary for name in ("preliminary", "tuning"))
    assert first is not None and second is not None
    assert len(first.numbers) == 2 and set(first.numbers) <= set(shown) and first.numbers[0].startswith("diff/")
    assert first.failures == (f"{broken} (draft, v1): shape: mat1 and mat2; fixed by {root}",)
    assert [(one.node, one.kind, one.varies) for one in second.branch] == [
        (broken, "draft", "v1"),
        (root, "debug", "v2"),
        (best, "improve", "v6"),
    ]
    assert first.branch == second.branch[:2] and second.failures == ()


def test_a_report_says_that_no_later_stage_will_run_once_the_run_reached_its_limit(story: Story) -> None:
    replicated(story, 0.0)
    story.log.append(LimitReached(reason="the time limit of 60 s: 1 s left"))
    k = story.log.state.last_decision + 1
    story.log.append(DecisionMade(k=k, action=build_summary_task("preliminary"), seen=VisibleDecisions(through=k - 1)))
    inputs = build_summary_inputs(story.bench, "preliminary", k)
    assert inputs.limit == "the time limit of 60 s: 1 s left" and "agenda" in inputs.unstarted
    text = render(SUMMARY, inputs).user
    assert "No new experiment starts any more: the time limit of 60 s" in text and "will not run: " in text
    assert build_summary_inputs(story.bench, "preliminary", k - 1).limit == "", "an earlier decision did not know it"
