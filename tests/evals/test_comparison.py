"""Paired judging: verdicts that follow a paper count, verdicts that follow a place are order bias."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import get_args

import pytest

from labwright.evals.paper_pairs import (
    MAX_CHARACTERS,
    ComparedPaper,
    build_side,
    decide_outcome,
    judge_pair,
    shorten_paper,
    tally_pairs,
)
from labwright.models.roles.judge import Better, PaperPreference, PreferInputs, ShownPaper
from labwright.record.event_log import read_state
from labwright.review.judge.paper_reader import Paper, PaperSection
from tests.paper import synthetic_paper
from tests.stages import finished_run


def says(better: Better) -> PaperPreference:
    return PaperPreference(for_first="a", for_second="b", deciding="c", better=better)


def entrant(name: str, text: str) -> ComparedPaper:
    return ComparedPaper(name, ShownPaper(text=text, characters=len(text)))


async def longer(asked: PreferInputs) -> PaperPreference:
    """A judge that follows the paper: the longer one."""
    a, b = asked.first.characters, asked.second.characters
    return says("neither" if a == b else "first" if a > b else "second")


async def first(asked: PreferInputs) -> PaperPreference:
    """A judge that follows the place."""
    return says("first")


ENTRANTS = [entrant("x", "short"), entrant("y", "much longer"), entrant("z", "longest of them")]


async def test_a_judge_that_follows_the_paper_wins_in_both_orders() -> None:
    pairs = [await judge_pair(a, b, longer) for a, b in itertools.combinations(ENTRANTS, 2)]
    assert [pair.outcome for pair in pairs] == ["b", "b", "b"]
    found = tally_pairs(["x", "y", "z"], pairs)
    assert found.wins == {"x": 0, "y": 1, "z": 2} and (found.ties, found.flipped, found.followed) == (0, 0, "")


async def test_a_judge_that_follows_the_place_wins_nothing_and_is_named() -> None:
    found = tally_pairs(
        ["x", "y", "z"], [await judge_pair(a, b, first) for a, b in itertools.combinations(ENTRANTS, 2)]
    )
    assert found.wins == {"x": 0, "y": 0, "z": 0} and (found.ties, found.flipped, found.followed) == (0, 3, "first")


async def test_both_orders_are_asked_with_the_papers_swapped_and_without_names() -> None:
    asked: list[PreferInputs] = []

    async def ask(inputs: PreferInputs) -> PaperPreference:
        asked.append(inputs)
        return says("neither")

    pair = await judge_pair(ENTRANTS[0], ENTRANTS[1], ask)
    assert pair.outcome == "tie" and (asked[0].first, asked[0].second) == (asked[1].second, asked[1].first)
    assert asked[0].first.text == "short"


def test_the_outcome_of_every_two_verdicts() -> None:
    found = {both: decide_outcome(*both) for both in itertools.product(get_args(Better), repeat=2)}
    assert found == {
        ("first", "first"): "order bias",
        ("first", "second"): "a",
        ("first", "neither"): "tie",
        ("second", "first"): "b",
        ("second", "second"): "order bias",
        ("second", "neither"): "tie",
        ("neither", "first"): "tie",
        ("neither", "second"): "tie",
        ("neither", "neither"): "tie",
    }


def test_a_long_paper_is_cut_and_says_so() -> None:
    sections = (PaperSection("A", "word " * 20_000), PaperSection("References", "ref " * 9000, True))
    paper = Paper(Path("p.md"), "Markdown", "", sections)
    found = shorten_paper(paper)
    assert len(found.text) <= MAX_CHARACTERS * 1.05 and found.left_out and found.characters == paper.characters


@pytest.mark.parametrize("released", [True, False])
def test_the_side_of_a_run(tmp_path: Path, released: bool) -> None:
    state = read_state(finished_run.write_run(tmp_path / "run", released=released))
    side = build_side("run", state, synthetic_paper.DRAFT)
    assert side.released is released and side.reasons == (() if released else ("an untied number",))
    assert side.title == synthetic_paper.DRAFT.title and side.claims and side.facts.nodes > 0
    assert len({one.metric for one in side.claims}) == 1, "the primary metric alone"
    assert build_side("run", state, None).title == state.started.idea.title  # pyrefly: ignore
