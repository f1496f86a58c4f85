"""Pieces of a page that grows: what is sent is what changed, and what was kept is as if it were made anew."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from labwright.inspector.summary import build_headline
from labwright.inspector.web.charts import draw_intervals
from labwright.inspector.web.fragments import LIVE_VIEWS, Fragment, RunFragments, build_report, encode_update
from labwright.inspector.web.page_renderer import PageRenderer
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.claims.differences import ClaimDifference
from labwright.record.events.paper_events import PaperJudged, PaperReleased
from labwright.record.events.search_events import StageWinnerChosen
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.paper import Judgement
from tests.inspector.sample_run import make_eventful, make_sample
from tests.inspector.tuning_run import make_tuning_run
from tests.inspector.web_server import append_events
from tests.record.test_claims import add, recorded

ADDRESSES = {"js": "", "css": "", "icon": ""}


def pieces(folder: Path) -> RunFragments:
    return RunFragments(CachedRun(folder, "run"), PageRenderer(ADDRESSES))


@pytest.mark.slow
def test_pieces_of_a_run_that_grew_are_those_of_one_read_at_once(tmp_path: Path) -> None:
    events = [event for event, _ in make_eventful().events]
    append_events(tmp_path / "run")
    growing = pieces(tmp_path / "run")
    for event in events:
        append_events(tmp_path / "run", event)
        growing.run._looked = -1e9  # the wait between two looks is not of interest
        for view in LIVE_VIEWS:
            growing.render(view)
    anew = pieces(tmp_path / "run")
    for view in LIVE_VIEWS:
        assert _settled(growing.render(view)[1]) == _settled(anew.render(view)[1])


def _settled(found: dict[str, Fragment]) -> dict[str, Fragment]:
    """Without what tells the time."""
    return {
        name: one
        for name, one in found.items()
        if name not in ("state", "hours", "now", "happened", "asked", "cost", "usage")
    }


def test_what_is_sent_is_what_differs(tmp_path: Path) -> None:
    story = make_sample()
    append_events(tmp_path / "run", *(event for event, _ in story.events))
    view, known = pieces(tmp_path / "run"), len(story.events)
    before = view.render("tree")[1]
    story.add_node("tuning", "tune", "n0005")
    append_events(tmp_path / "run", *(event for event, _ in story.events[known:]))
    view.run._looked = -1e9  # as above
    version, after = view.render("tree")
    sent = [piece[0] for piece in json.loads(encode_update(before, after, version) or "")["pieces"]]
    assert {"state", "g-n0007", "row-n0007", "svg-tuning"} <= set(sent) and "g-n0001" not in sent
    assert encode_update(after, after, version) is None


def test_the_report_on_ablations_tells_what_was_taken_out_against_the_method() -> None:
    log = recorded([0.3, 0.1, 0.2], [0.5, 0.4, 0.6])
    best = log.state.search.stages["agenda"].best
    taken = add(log, 9, ExpandTree(stage="ablation", kind="ablate", parent=best, seed=0), {"without-warm-up": 1.0})
    for i, value in enumerate((0.7, 0.9, 0.8)):
        add(
            log,
            10 + i,
            ExpandTree(stage="ablation", kind="replicate", parent=taken, seed=1 + i),
            {"method": 5.0, "without-warm-up": value},
        )
    log.append(StageWinnerChosen(stage="ablation", best=best, ended="limit"))
    found = build_report(log.state, "ablation")
    assert [(one.claim.condition, len(one.claim.values)) for one in found.intervals] == [("without-warm-up", 3)]
    assert [(one.condition, one.other, round(one.mean, 6)) for one in found.differences] == [
        ("without-warm-up", "method", 0.6)
    ], "against the method as it was reported, not as ablations measured it again"
    assert {one.condition for one in build_report(log.state, "agenda").differences} == {"method"}


def test_a_judgement_is_shown_with_the_text_alone_and_how_the_results_came_about() -> None:
    score = {"dimension": "overall", "score": 1, "lowest": 1, "highest": 10, "reason": "r", "quote": "", "quoted": True}
    story = make_sample()
    story.add(
        PaperReleased(released=True, pdf=None),
        PaperJudged(
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
    html = PageRenderer(ADDRESSES).render_piece("judgement", story.state.paper.current)
    assert "Text alone: <b>7</b>" in html and "&lt;b&gt;" in html
    assert 'Results: <b class="bad">invented</b>' in html and "(not in the judge's input)" in html


def test_the_overview_says_how_many_differences_it_leaves_out_and_shows_the_worst() -> None:
    head = build_headline(make_tuning_run().state)
    assert head is not None
    first = head.compared[0]
    every = [first.model_copy(update={"dataset": f"set{n}", "mean": 0.5 - 0.1 * n}) for n in range(9)]

    def render(compared: list[ClaimDifference]) -> str:
        shown = draw_intervals(compared, zero=True)
        return PageRenderer({}).render_piece("verdicts", "verdicts", "calm", head, ((),) * 9, shown, "", None)

    html = render(every)
    shown = re.findall(r"set\d", html)
    assert f"{len(shown)} of 9 shown, the worst first" in html and shown[0] == "set8" and "-0.3" in html
    assert "above zero: the method is better" in html and "shown, the worst" not in render(every[:2])
