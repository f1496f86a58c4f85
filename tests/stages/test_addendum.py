"""What reviewers of a paper ask for: registered, run, scored once, and never part of the first registration."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labwright.models.roles.paper_revision import (
    AddendumInputs,
    AddendumPlan,
    FoundRequest,
    PlannedMeasure,
    ReviewerRequests,
    ReviewerRequestsInputs,
)
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.estimates import find_added_replicates, find_trusted_replicates, find_winner
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import (
    compute_requested_estimates,
    list_registered_estimates,
    list_requests,
)
from labwright.record.events import Event
from labwright.record.events.paper_events import PaperJudged, PaperReleased, RewriteStarted
from labwright.record.events.search_events import AddendumRegistered, NodeProposed, SealedTestScored
from labwright.record.run_folder import RunFolder, hash_file
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.paper import EstimateRequest, PaperDraft, ReviewFile, Section
from labwright.review.evidence import check_draft
from labwright.stages.paper.appendix import list_ablation_rows
from labwright.stages.paper.disclosure import format_disclosure
from labwright.stages.paper.paper_context import PaperContext
from labwright.stages.paper.required_statements import complete_draft, list_addendum_statements
from labwright.stages.paper.response import describe_requests, list_outcomes
from labwright.stages.reviewer_requests import run_addendum
from labwright.stages.settings import PaperSettings
from tests.stages import test_ablation_planning as planning
from tests.stages.small_study import make_ablation
from tests.stages.test_ablation_planning import Model, World, at_draft, read_conditions

pytestmark = pytest.mark.slow
drafted_once, without_tex_and_labels = planning.drafted_once, planning.without_tex_and_labels
"""Fixtures."""

REVIEW = "Is it the weight? Please run half the weight. Two seeds are few. The method is not explained. Use more data."
REQUESTS = (
    FoundRequest(review=1, kind="new control", request="Run half the weight.", quote="Please run half the weight."),
    FoundRequest(review=1, kind="more seeds", request="Run more seeds.", quote="Two seeds are few."),
    FoundRequest(review=1, kind="clearer text", request="Explain it.", quote="The method is not explained."),
    FoundRequest(review=1, kind="other", request="Use more data.", quote="Use more data."),
)
ESTIMATE = EstimateRequest(name="half", estimand="shrunk - half-weight", purpose="what the weight adds")
MEASURES = (
    PlannedMeasure(
        request="R1",
        ablation=make_ablation("half-weight").model_copy(update={"title": "half the weight"}),
        estimates=(ESTIMATE,),
    ),
    PlannedMeasure(request="R2", seeds=2),
    PlannedMeasure(request="R4", reason="The plan has no other data."),
)


@pytest.fixture(autouse=True, scope="module")
def scores_with_noise(without_tex_and_labels: None) -> Iterator[None]:
    """Test values whose differences vary from seed to seed, so that they have intervals."""

    def scored(folder: Path, *_: object, seed: int, **__: object) -> tuple[Measurement, ...]:
        run = RunFolder(folder.parents[2])
        source = (run.get_source_path(folder.parent.name) / "experiment.py").read_text(encoding="utf-8")
        return tuple(
            Measurement(
                name="log_loss",
                value=0.2 * seed + 0.01 * len(arm) * (1 + seed % 3),
                condition=arm,
                dataset="iris",
                split="test",
                seed=seed,
                grade="computed",
            )
            for arm in read_conditions(source)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labwright.stages.evidence.resampling.score_sealed", scored)
        yield


def reader(*requests: FoundRequest) -> Callable[[ReviewerRequestsInputs], ReviewerRequests]:
    return lambda _: ReviewerRequests(requests=requests)


def planner(*measures: PlannedMeasure) -> Callable[[AddendumInputs], AddendumPlan]:
    return lambda _: AddendumPlan(measures=measures)


def make_model(**roles: Callable[[Any], Any]) -> Model:
    return Model(**{"reviewer_requests": reader(*REQUESTS), "addendum": planner(*MEASURES)} | roles)


def at_reviews(drafted: tuple[Path, list[Event]], root: Path, model: Model, **changes: Any) -> World:
    """A run whose released paper was reviewed."""
    path = root / "reviews" / "v2" / "1.txt"
    path.parent.mkdir(parents=True)
    path.write_text(REVIEW)
    review = ReviewFile(name="r.md", stored="reviews/v2/1.txt", sha256=hash_file(path))
    more = (
        PaperReleased(released=True, pdf=None, round=0),
        PaperJudged(why="off"),
        RewriteStarted(version=2, reviews=(review,)),
    )
    world = at_draft(drafted, root, model, *more, **changes)
    assert world.state.phase == "addendum"
    return world


def revise(world: World) -> bool:
    return asyncio.run(run_addendum(world.bench))


def test_what_reviewers_ask_for_is_registered_then_run_and_changes_no_verdict(
    drafted_once: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    world = at_reviews(drafted_once, tmp_path, make_model())
    best, before = find_winner(world.state) or "", len(world.log.events)
    trusted, verdicts = find_trusted_replicates(world.state, best), decide_hypotheses(world.state)
    assert revise(world) and world.state.phase == "write"
    state = world.state
    assert find_trusted_replicates(state, best) == trusted and decide_hypotheses(state) == verdicts
    (addendum,) = state.search.addenda
    new = world.log.events[before:]
    at = new.index(addendum)
    assert not any(isinstance(event, NodeProposed | SealedTestScored) for event in new[:at])
    assert "test values of 6 runs, every verdict, and the paper" in addendum.seen
    assert addendum.seeds == (10_005, 10_006) and [one.seed for one in find_added_replicates(state)] == [10_005, 10_006]
    assert addendum.refused == {"R4": "The plan has no other data."}
    (arm,) = [one for one in collect_ablation_results(state) if one.by == "addendum"]
    assert (arm.outcome, arm.arms, arm.replicates) == ("measured", ("half-weight",), 2)
    scored = {event.node for event in new if isinstance(event, SealedTestScored)}
    assert scored == {
        arm.node,
        *(one.id for one in find_trusted_replicates(state, arm.node)),
        *(one.id for one in find_added_replicates(state)),
    }
    found, faults = compute_requested_estimates(state, list_registered_estimates(state))
    assert {one.request.name: one.found.seeds for one in found} == {
        "v2-r1-half": (10_003, 10_004),
        "v2-r2-added-1-1": (10_005, 10_006),
        "v2-r2-all-1-1": (10_003, 10_004, 10_005, 10_006),
    }
    assert faults == ()


def test_the_paper_the_prompts_and_the_disclosure_say_that_it_is_an_addendum(
    drafted_once: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    world = at_reviews(drafted_once, tmp_path, make_model())
    assert revise(world)
    state = world.state
    (statement,) = list_addendum_statements(state)
    assert "not part of the first registration" in statement.text and "half-weight" in statement.text
    bare = PaperDraft(title="T", abstract="A.", sections=(Section(title="Results", body="It fell."),))
    assert "refer to Table~\\ref{tab:addendum}" in complete_draft(bare, [statement])[0][0]
    completed = complete_draft(bare, [statement])[1]
    assert complete_draft(completed, [statement])[0] == () and "\\result" not in completed.sections[0].body
    material = PaperContext(state, world.bench.folder, PaperSettings(), requests=list_requests(state))
    (table,) = [one for one in material.tables if one.name == "addendum"]
    assert table.placement == "appendix" and re.findall(r"\\result\{(\S+)\.n\}", table.tabular) == [
        "estimate/v2-r1-half",
        "estimate/v2-r2-added-1-1",
        "estimate/v2-r2-all-1-1",
    ]
    assert "Shrunk minus half the weight" in table.tabular and "added seeds alone" in table.tabular
    assert check_draft(completed, material.evidence) == () and {"half-weight", "half the weight"} <= {
        *material.evidence.names
    }
    differences = {one.key: one for one in material.claims.differences}
    (found, *_) = [one for one in material.estimates if one.request.name == "v2-r1-half"]
    reverse = differences["diff/iris/log_loss/half-weight~shrunk"]
    assert found.found.mean == pytest.approx(-reverse.mean) and reverse.low is not None and reverse.high is not None
    assert (found.found.low, found.found.high) == pytest.approx((-reverse.high, -reverse.low)), "as registered"
    outcomes = {one.request.id: one.outcome for one in list_outcomes(state)}
    assert outcomes == {
        "R1": "Measured as half-weight with 2 seeds, as an addendum to the plan.",
        "R2": "2 of 2 further seeds worked.",
        "R3": "",
        "R4": "Not measured: The plan has no other data.",
    }
    told = describe_requests(state)
    assert "its estimates in a table: estimate/v2-r1-half." in told[0] and "change the text" in told[2]
    assert [name for name, _ in list_ablation_rows(state, "addendum")] == ["half-weight"]
    disclosed = json.loads(format_disclosure(state, isolation="", text_round=0))
    assert [one["id"] for one in disclosed["requests"]["requests"]] == ["R1", "R2", "R3", "R4"]
    assert disclosed["addenda"][0]["seeds"] == [10_005, 10_006]


def test_a_request_needs_a_passage_of_its_review(drafted_once: tuple[Path, list[Event]], tmp_path: Path) -> None:
    invented = REQUESTS[0].model_copy(update={"quote": "The authors must add a larger model."})
    stranger = REQUESTS[0].model_copy(update={"review": 2})
    model = make_model(reviewer_requests=reader(invented, stranger, REQUESTS[2]))
    world = at_reviews(drafted_once, tmp_path, model)
    assert revise(world)
    requests = world.state.paper.requests
    assert requests is not None and [(one.id, one.quote) for one in requests.requests] == [("R1", REQUESTS[2].quote)]
    assert "has no passage 'The authors must add a larger model.'" in requests.dropped[0]
    assert "there is no review 2, only 1 to 1" in requests.dropped[1]
    assert model.inputs["reviewer_requests"][1].complaints == requests.dropped, "it was asked once more"
    assert "addendum" not in model.inputs and world.state.search.addenda[0].items == (), "text alone is not measured"


def test_a_killed_addendum_is_continued_as_registered(drafted_once: tuple[Path, list[Event]], tmp_path: Path) -> None:
    world = at_reviews(drafted_once, tmp_path / "whole", make_model())
    assert revise(world)
    at = next(n for n, one in enumerate(world.log.events) if isinstance(one, AddendumRegistered))
    halfway = (at + 1 + len(world.log.events)) // 2
    for number, cut in enumerate((at + 1, halfway)):
        model = make_model()
        again = World(tmp_path / "whole", model, events=world.log.events[:cut])
        assert revise(again), number
        assert not {"reviewer_requests", "addendum"} & model.inputs.keys()
        assert again.state.search.addenda == world.state.search.addenda
        assert list(again.state.nodes) == list(world.state.nodes)
        assert again.state.search.test_measurements == world.state.search.test_measurements


def test_a_plan_with_faults_is_returned_once_and_its_unusable_parts_are_left_out(
    drafted_once: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    wrong = ESTIMATE.model_copy(update={"estimand": "shrunk - unknown-arm"})
    plan = (MEASURES[0].model_copy(update={"estimates": (wrong,)}), PlannedMeasure(request="R4", seeds=99))
    model = make_model(addendum=planner(*plan))
    world = at_reviews(drafted_once, tmp_path, model)
    assert revise(world)
    assert any("unknown-arm" in one for one in model.inputs["addendum"][1].complaints)
    (addendum,) = world.state.search.addenda
    assert [one.request for one in addendum.estimates] == ["R4", "R4"] and len(addendum.seeds) == 10
    assert addendum.refused == {"R2": "the plan of the addendum says nothing about it"}
