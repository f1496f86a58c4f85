"""`scientist revise`: how reviews are read, and what is refused before anything is changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.agent.cli.branch import MAX_REVIEW_CHARACTERS, read_reviews
from labwright.agent.run import compute_revision_limits
from labwright.agent.settings import Settings, override_settings
from labwright.models.roles.paper_revision import MAX_REVIEWS
from labwright.record.event_log import read_events, read_state
from labwright.record.events.paper_events import PaperJudged
from tests.context.papers import write_pdf
from tests.stages.finished_run import write_run

REVIEW = "The paper is clear. Please run a control without smoothing, since the gain may come from the temperature."


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_each_form_of_a_review_is_read(tmp_path: Path) -> None:
    assert [(one.name, one.text) for one in read_reviews(write(tmp_path / "r.md", REVIEW))] == [("r.md", REVIEW)]
    openreview = [
        {"summary": {"value": "Short."}, "weaknesses": {"value": REVIEW}, "rating": 3},
        {"review": {"strengths": ["Clear."], "questions": [REVIEW]}},
    ]
    found = read_reviews(write(tmp_path / "r.json", json.dumps(openreview)))
    assert [one.name for one in found] == ["r.json, 1", "r.json, 2"]
    assert found[0].text == f"summary: Short.\nweaknesses: {REVIEW}"
    assert found[1].text == f"strengths: Clear.\nquestions: {REVIEW}"
    (single,) = read_reviews(write(tmp_path / "one.json", json.dumps({"review": REVIEW})))
    assert single.name == "one.json" and single.text == f"review: {REVIEW}"


def test_a_pdf_is_read(tmp_path: Path) -> None:
    (found,) = read_reviews(write_pdf(tmp_path / "review.pdf", REVIEW.replace(". ", ".\n")))
    assert "Please run a control without smoothing" in " ".join(found.text.split())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("r.md", "Too short.", "a review of fewer than 10 words"),
        ("r.json", "{", "is not valid JSON"),
        ("r.json", "[1, 2]", "a review of fewer than 10 words"),
        ("r.txt", "word " * MAX_REVIEW_CHARACTERS, f"at most {MAX_REVIEW_CHARACTERS} are read"),
        ("r.pdf", "%PDF-1.4 not really", "no extractable text"),
    ],
)
def test_a_review_that_cannot_be_read_is_one_line(
    name: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", PaperJudged(why="off"))
    before = [event for event, _ in read_events(run / "events.jsonl")]
    assert main(["revise", str(run), "--reviews", str(write(tmp_path / name, text))]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1
    assert [event for event, _ in read_events(run / "events.jsonl")] == before


def test_a_run_without_a_released_paper_or_its_files_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    review = write(tmp_path / "r.md", REVIEW)

    def refused(run: Path, *more: str) -> str:
        assert main(["revise", str(run), "--reviews", str(review), *more]) == 2
        return capsys.readouterr().err

    assert "is not finished" in refused(write_run(tmp_path / "open"))
    run = write_run(tmp_path / "run", PaperJudged(why="off"))
    assert "the latest version of the paper" in refused(run), "its release names no text"
    assert "the data of a run is fixed" in refused(run, "--set", "data=x=y.csv")
    assert "absent.md does not exist" in refused(run, str(tmp_path / "absent.md"))
    many = write(tmp_path / "many.json", json.dumps([{"review": REVIEW}] * MAX_REVIEWS))
    assert f"{MAX_REVIEWS + 1} reviews are given, at most {MAX_REVIEWS}" in refused(run, str(many))


def test_limits_are_those_of_the_revision_on_top_of_what_the_run_took(tmp_path: Path) -> None:
    state = read_state(write_run(tmp_path / "run", PaperJudged(why="off")))
    given = {"time_limit": 600.0, "budget.usd": 2.0}
    limits = compute_revision_limits(state, override_settings(Settings().model_dump(mode="json"), given), given)
    spent = state.calls.spent_cost
    assert limits == {"time_limit": state.active_seconds + 600.0, "budget.usd": spent.usd + 2.0}
    assert compute_revision_limits(state, Settings(time_limit=1.0), {}) == {
        "time_limit": state.active_seconds + Settings().time_limit
    }, "by default the time limit of the run"
