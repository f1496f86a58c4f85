"""Tuning in every view: tree, status, page, and the record of all trials that is exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.inspector.render import format_status, format_tree
from labwright.inspector.status import RunStatus
from labwright.inspector.tree import build_tree
from labwright.inspector.web.fragments import RunFragments
from labwright.inspector.web.page_renderer import PageRenderer
from labwright.inspector.web.run_cache import CachedRun
from tests.inspector.sample_run import BEGAN, make_sample, read_status
from tests.inspector.tuning_run import make_tuning_run
from tests.inspector.web_server import record_story


def test_the_tree_shows_a_batch_of_trials_in_one_line_and_the_status_what_each_arm_was_given() -> None:
    story = make_tuning_run()
    lines = [line.plain for line in format_tree(build_tree(story.state))]
    assert any("n0003 trial  smooth: 3 trials, best 0.4, 1 failed" in line for line in lines)
    assert any(line.startswith("tuning  1/3 nodes + 2 trials") for line in lines), "trials are no nodes of the search"
    status = read_status("runs/calm", story.events, None, now=BEGAN)
    assert RunStatus.model_validate_json(status.model_dump_json()) == status
    assert (
        "tuning      plain 3 trials + 1 version of code (budget 3), best 0.55; smooth 3 trials + 2 versions of "
        "code (budget 3), best 0.4, fewer trials than planned (log_loss, digits)"
    ) in [line.plain for line in format_status(status)]
    assert read_status("runs/calm", make_sample().events, None, now=BEGAN).tuning is None


@pytest.mark.slow
def test_page_and_export_have_every_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = CachedRun(record_story(tmp_path / "calm", make_tuning_run()), "calm")
    run.refresh()
    html = RunFragments(run, PageRenderer({})).render("reports")[1]["tuned"].html
    assert "unequal: plain" in html and "learning_rate = 0.0011, smoothing = 0.2" in html
    assert "fewer trials than planned</span>" in html
    assert html.count('class="tonode"') == 9 and "failed</td>" in html
    assert main(["export", str(tmp_path / "calm"), "--tree", "-"]) == 0
    trials = json.loads(capsys.readouterr().out)["tuning"]["trials"]
    assert [(one["arm"], one["number"], one["node"]) for one in trials[5:8]] == [
        ("smooth", number, "n0003") for number in (1, 2, 3)
    ]
    assert trials[5]["values"] == {"digits": 0.45} and trials[5]["seconds"] == 3.0
