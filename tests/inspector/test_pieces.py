"""Pieces of a page that grows: what is sent is what changed, and what was kept is as if it were made anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.inspector.web.pages import Pages
from labwright.inspector.web.pieces import Piece, RunPieces, report_of, update
from labwright.inspector.web.watched import Watched
from labwright.record.events import Event
from labwright.record.events.papers import Assessed, Released
from labwright.record.events.searching import Settled
from labwright.record.log import EventLog
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.papers import Judgement
from tests.inspector.story import eventful, told
from tests.record.test_claims import add, recorded

ADDRESSES = {"js": "", "css": "", "icon": ""}


def pieces(folder: Path) -> RunPieces:
    return RunPieces(Watched(folder, "run"), Pages(ADDRESSES))


def grown(folder: Path, *events: Event) -> None:
    folder.mkdir(exist_ok=True)
    log = EventLog(folder / "run.db")
    for event in events:
        log.append(event)
    log.close()


@pytest.mark.slow
def test_pieces_of_a_run_that_grew_are_those_of_one_read_at_once(tmp_path: Path) -> None:
    events = [event for event, _ in eventful().events]
    grown(tmp_path / "run")
    growing = pieces(tmp_path / "run")
    for event in events:
        grown(tmp_path / "run", event)
        growing.run._looked = -1e9  # pyright: ignore[reportPrivateUsage] - the wait between two looks is not of interest
        growing.now()
    assert _settled(growing.now()[1]) == _settled(pieces(tmp_path / "run").now()[1])


def _settled(found: dict[str, Piece]) -> dict[str, Piece]:
    """Without what tells the time."""
    return {name: one for name, one in found.items() if name not in ("summary", "happened", "asked", "cost", "steer")}


def test_what_is_sent_is_what_differs(tmp_path: Path) -> None:
    story = told()
    grown(tmp_path / "run", *(event for event, _ in story.events))
    view, known = pieces(tmp_path / "run"), len(story.events)
    before = view.now()[1]
    story.expand("tuning", "tune", "n0005")
    grown(tmp_path / "run", *(event for event, _ in story.events[known:]))
    view.run._looked = -1e9  # pyright: ignore[reportPrivateUsage] - as above
    version, after = view.now()
    sent = [piece[0] for piece in json.loads(update(before, after, version) or "")["pieces"]]
    assert {"g-n0007", "row-n0007", "svg-tuning"} <= set(sent) and "g-n0001" not in sent
    assert update(after, after, version) is None


def test_the_report_on_ablations_tells_what_was_taken_out_against_the_method() -> None:
    log = recorded([0.3, 0.1, 0.2], [0.5, 0.4, 0.6])
    best = log.state.stages["agenda"].best
    taken = add(log, 9, Expand(stage="ablation", kind="ablate", parent=best, seed=0), {"without-warm-up": 1.0})
    for i, value in enumerate((0.7, 0.9, 0.8)):
        add(
            log,
            10 + i,
            Expand(stage="ablation", kind="replicate", parent=taken, seed=1 + i),
            {"method": 5.0, "without-warm-up": value},
        )
    log.append(Settled(stage="ablation", best=best, ended="limit"))
    found = report_of(log.state, "ablation")
    assert [(one.claim.condition, len(one.claim.values)) for one in found.intervals] == [("without-warm-up", 3)]
    assert [(one.condition, one.other, round(one.mean, 6)) for one in found.differences] == [
        ("without-warm-up", "method", 0.6)
    ], "against the method as it was reported, not as ablations measured it again"
    assert {one.condition for one in report_of(log.state, "agenda").differences} == {"method"}


def test_a_judgement_is_shown_with_the_text_alone_and_how_the_results_came_about(tmp_path: Path) -> None:
    score = {"dimension": "overall", "score": 1, "lowest": 1, "highest": 10, "reason": "r", "quote": "", "quoted": True}
    grown(
        tmp_path / "run",
        *(event for event, _ in told().events),
        Released(released=True, pdf=None),
        Assessed(
            judgement=Judgement.model_validate(
                {
                    "paper": "p",
                    "paper_sha256": "0",
                    "rubric": "r",
                    "rubric_sha256": "0",
                    "model": "m",
                    "scores": [score],
                    "confidence": 2,
                    "most_confidence": 5,
                    "text_alone": {"score": 7, "lowest": 1, "highest": 10, "reason": "<b>"},
                    "results": {"answer": "invented", "details": "a script drew them", "quote": "rng.uniform"},
                }
            )
        ),
    )
    html = pieces(tmp_path / "run").now()[1]["judgement"].html
    assert "Text alone: <b>7</b>" in html and "&lt;b&gt;" in html
    assert 'Results: <b class="bad">invented</b>' in html and "(not in what it was shown)" in html
