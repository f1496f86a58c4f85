"""Ideas by script: nothing is final before it was looked up, novelty is never claimed, no two are alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.models.roles.ideation import ClosestPick, IdeaReflectInputs, IdeaReflection
from labwright.record.events.paper_events import LiteratureSearched
from labwright.record.ideation import LiteratureSearch, RequiredDataset
from labwright.record.schema.idea import read_idea
from labwright.stages.ideation.idea_checks import (
    are_alike,
    check_fit,
    find_claims_in_text,
    find_unknown_works,
    remove_claim_sentences,
)
from labwright.stages.ideation.idea_drafting import deduplicate_works
from tests.ideation.scripted_ideation import (
    PICK,
    FakeCatalogue,
    IdeationWorld,
    draft_by_number,
    make_draft,
    make_idea_text,
    reflect,
)
from tests.models.ideation_examples import ESTIMATE, MEANS, WORK


def test_an_idea_is_looked_up_before_it_is_final_and_its_file_runs(tmp_path: Path) -> None:
    shelf = FakeCatalogue()
    world = IdeationWorld({"idea": draft_by_number(make_idea_text()), "idea_reflect": reflect}, tmp_path, shelf)
    world.find_ideas()
    assert shelf.asked == ["large margin small sample"]
    assert world.idea.novelty == "compared" and "openalex" in world.idea.novelty_statement
    [close] = world.idea.closest
    assert close.work.title == "Margins revisited" and close.difference.startswith("It looks at many examples")
    [told] = json.loads((tmp_path / "ideas.json").read_text())
    assert list(told)[:7] == [
        "Name",
        "Title",
        "Short Hypothesis",
        "Related Work",
        "Abstract",
        "Experiments",
        "Risk Factors and Limitations",
    ]
    assert told["closest"][0]["work"]["year"] == 2020 and told["fit"]["fits"]
    assert read_idea(tmp_path / "ideas.json").name == "margin_small_data"


def test_without_a_network_the_search_is_made_and_novelty_is_unchecked(tmp_path: Path) -> None:
    world = IdeationWorld({"idea": draft_by_number(make_idea_text()), "idea_reflect": reflect}, tmp_path, None)
    world.find_ideas()
    assert world.idea.novelty == "unchecked" and "no source answered" in world.idea.novelty_statement
    assert world.idea.queries == ("large margin small sample",) and not world.idea.closest
    assert [one.n for one in world.log.state.ideation.literature_searches.values()] == [0]


def test_a_claim_of_novelty_goes_back_and_what_stays_is_struck_out(tmp_path: Path) -> None:
    boast = make_idea_text(
        abstract="We ask whether margins help when there are few examples. This is the first study to ask. We "
        "do it at three sizes.",
        title="A novel margin for small sets",
    )
    world = IdeationWorld({"idea": draft_by_number(boast), "idea_reflect": reflect}, tmp_path, None, rounds=2)
    world.find_ideas()
    first, second = world.inputs_of_role("idea_reflect")
    assert any("'the first study'" in one for one in first.complaints) and second.complaints and second.last
    idea = world.idea.idea
    assert "first" not in idea.abstract and "three sizes" in idea.abstract
    assert idea.title == "A margin for small sets"
    assert any("the first study" in one for one in world.idea.remarks)
    assert not find_claims_in_text(json.dumps(world.idea.idea.model_dump(mode="json")))


def test_a_work_that_no_search_returned_goes_back_and_is_remarked(tmp_path: Path) -> None:
    named = make_idea_text(
        related_work="Lovelace and Turing (2020) revisit margins. Hopper et al. (1999) did it before."
    )
    world = IdeationWorld({"idea": draft_by_number(named), "idea_reflect": reflect}, tmp_path, rounds=1)
    world.find_ideas()
    [inputs] = world.inputs_of_role("idea_reflect")
    assert [one for one in inputs.complaints if "Hopper" in one]
    assert not [one for one in inputs.complaints if "Lovelace" in one or "Turing" in one]
    assert world.idea.remarks == ("cited from memory, not returned by any search: Hopper et al.",)


def test_closest_papers_come_from_results_and_rest_on_their_abstracts(tmp_path: Path) -> None:
    bare = WORK.model_copy(update={"title": "Without abstract", "abstract": ""})
    picks = (
        ClosestPick(paper=1, quote="They prove that margins are useless", difference="made up"),
        ClosestPick(paper=2, difference="from memory"),
        ClosestPick(paper=9, difference="none"),
    )

    def answer(inputs: IdeaReflectInputs) -> IdeaReflection:
        return reflect(inputs, closest=picks if not inputs.last else (PICK, picks[1]))

    world = IdeationWorld(
        {"idea": draft_by_number(make_idea_text()), "idea_reflect": answer},
        tmp_path,
        FakeCatalogue(works=(WORK, bare)),
        rounds=2,
    )
    world.find_ideas()
    complaints = world.inputs_of_role("idea_reflect")[1].complaints
    assert any("paper 9 is not among the 2 results" in one for one in complaints)
    assert any("is not in the abstract of paper 1" in one for one in complaints)
    assert [one.work.title for one in world.idea.closest] == ["Margins revisited", "Without abstract"]
    assert world.idea.closest[1].difference == "unknown: the source gave no abstract"


def test_a_repetition_is_sent_back_drafted_again_and_then_refused(tmp_path: Path) -> None:
    twin = make_idea_text(1, title=make_idea_text().title)
    world = IdeationWorld(
        {"idea": draft_by_number(make_idea_text(), twin), "idea_reflect": reflect}, tmp_path, rounds=1
    )
    world.find_ideas(3)
    assert [one.idea is None for one in world.told] == [False, True]
    drafts = world.inputs_of_role("idea")
    assert [one.number for one in drafts] == [1, 2, 2] and "repeats the earlier idea" in drafts[2].complaints[0]
    assert any("repeats the earlier idea" in one for one in world.inputs_of_role("idea_reflect")[1].complaints)
    assert len(json.loads((tmp_path / "ideas.json").read_text())) == 1


def test_the_models_own_check_counts_too(tmp_path: Path) -> None:
    def answer(inputs: IdeaReflectInputs) -> IdeaReflection:
        alike = "margin_small_data" if inputs.draft.idea.name == "tree_depth_wine" else "no such idea"
        return reflect(inputs, alike=alike)

    drafts = [make_idea_text(), make_idea_text(1), make_idea_text(2)]
    world = IdeationWorld({"idea": lambda _: make_draft(drafts.pop(0)), "idea_reflect": answer}, tmp_path, rounds=1)
    world.find_ideas(2)
    assert [one.idea.idea.name for one in world.told if one.idea] == ["margin_small_data", "augment_rotations"]


@pytest.mark.slow
def test_any_prefix_of_the_log_goes_on_to_the_same_ideas(tmp_path: Path) -> None:
    """A kill costs the call or the search in flight: the rest is found in the log."""
    answers = {"idea": draft_by_number(make_idea_text(), make_idea_text(1)), "idea_reflect": reflect}
    shelf = FakeCatalogue()
    whole = IdeationWorld(answers, tmp_path / "whole", shelf)
    whole.find_ideas(2)
    kept = (tmp_path / "whole" / "ideas.json").read_text()
    calls, searches = len(whole.model.requests), len(shelf.asked)
    for cut in range(1, len(whole.log.events) + 1):
        again = FakeCatalogue()
        world = IdeationWorld(answers, tmp_path / f"cut{cut}", again, events=whole.log.events[:cut])
        done = sum(one.type == "answered" for one in whole.log.events[:cut])
        seen = sum(isinstance(one, LiteratureSearched) for one in whole.log.events[:cut])
        world.find_ideas(2)
        assert (tmp_path / f"cut{cut}" / "ideas.json").read_text() == kept
        assert (len(world.model.requests), len(again.asked)) == (calls - done, searches - seen)
        assert sum(one.type == "work_done" for one in world.log.events) == 2


# --- looking up -----------------------------------------------------------------------------------------------------


def test_the_same_work_of_two_sources_is_one_and_has_its_abstract() -> None:
    bare = WORK.model_copy(update={"abstract": "", "title": "Margins, revisited!"})
    found = deduplicate_works((LiteratureSearch(query="a", works=(bare,)), LiteratureSearch(query="b", works=(WORK,))))
    assert found == (WORK,)


# --- feasibility ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hours": 20.0}, "take 20 h"),
        ({"gpu_memory_gb": 8.0}, "the run has none"),
        ({"packages": ("jax",)}, "'jax' is not installed"),
        ({"data": (RequiredDataset(name="svhn", source="catalogue"),)}, "no dataset 'svhn'"),
        ({"data": (RequiredDataset(name="a/b", source="hub"),)}, "on the hub"),
        ({"data": (RequiredDataset(name="clinic", source="other"),)}, "is not available"),
    ],
)
def test_what_does_not_fit_is_said(change: dict[str, object], why: str) -> None:
    fit = check_fit(ESTIMATE.model_copy(update=change), MEANS)
    assert not fit.fits and any(why in one for one in fit.why)


def test_what_fits_fits() -> None:
    assert check_fit(ESTIMATE, MEANS).fits
    more = ESTIMATE.model_copy(
        update={
            "gpu_memory_gb": 40.0,
            "pretrained": ("a/b",),
            "data": (
                RequiredDataset(name="a/b", source="hub"),
                RequiredDataset(name="mine", source="own"),
                RequiredDataset(name="x", source="synthetic"),
            ),
        }
    )
    assert check_fit(more, MEANS.model_copy(update={"gpus": ("H100",), "gpu_memory_gb": 80.0, "fetching": True})).fits


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "We propose a novel loss.",
        "To our knowledge this is the first study of it.",
        "No prior work asks this.",
        "Unlike previous work, we count.",
    ],
)
def test_claims_of_novelty_are_seen(said: str) -> None:
    assert (
        find_claims_in_text(said)
        and remove_claim_sentences(f"One stays. {said} Two stay.")[0] == "One stays. Two stay."
    )


@pytest.mark.parametrize("said", ["The first layer is frozen.", "The method is compared with the best baseline."])
def test_plain_sentences_are_no_claims(said: str) -> None:
    assert not find_claims_in_text(said)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("Smith et al. show it.", True),
        ("(Smith and Wu, 2019)", True),
        ("see arXiv:2301.01234", True),
        ("doi 10.1145/123.456", True),
        ("(Turing, 2020)", False),
        ("in 2021", False),
        ("since (2019)", False),
    ],
)
def test_names_of_works_are_held_against_the_results(said: str, named: bool) -> None:
    assert bool(find_unknown_works(said, (WORK,), ())) == named


def test_ideas_of_one_name_or_title_are_alike() -> None:
    one = make_idea_text(
        name="a",
        title="Label smoothing under label noise",
        short_hypothesis="Label smoothing lowers calibration error under label noise.",
    )
    same = make_idea_text(
        name="b",
        title="Label-smoothing, under label noise",
        short_hypothesis="Smoothing the labels lowers the calibration error when labels are noisy.",
    )
    other = make_idea_text(
        name="c",
        title="Mixup under label noise",
        short_hypothesis="Mixup slows the learning of wrong examples by heart, seen in training loss.",
    )
    assert are_alike(one, same) and not are_alike(one, other)
