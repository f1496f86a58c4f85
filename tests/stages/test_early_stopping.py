"""Whether running code is pruned: by which peers, in which order, and for what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.models.client import render
from labwright.models.roles.experiment_code import CODE
from labwright.record.events.search_events import DecisionMade
from labwright.sandbox.job import ExecutionProgress, LoggedPoint
from labwright.search.settings import SearchSettings
from labwright.stages.nodes.node_runner import build_watch
from labwright.stages.prompt_inputs import build_code_inputs
from tests.stages.test_prompt_inputs import Story, cells

CURVE = ("digits", "mixup@n50", "loss", "train")
FAR = ExecutionProgress(20.0, quiet_seconds=0.0, points=tuple(LoggedPoint(CURVE, step, 9.0) for step in range(10)))
QUIET = ExecutionProgress(2000.0, quiet_seconds=1900.0)
BROKEN = ExecutionProgress(20.0, quiet_seconds=0.0, points=(LoggedPoint(CURVE, 1, float("nan")),))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def peer(story: Story) -> None:
    """A good node whose loss fell to 0.5 in ten steps."""
    node = story.finish(story.decide("draft"), cells(0.5, 0.4))
    folder = story.bench.folder.get_attempt_path(node, 1)
    folder.mkdir(parents=True)
    dataset, condition, name, split = CURVE
    (folder / "measurements.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "name": name,
                    "value": 1.4 - 0.1 * step,
                    "condition": condition,
                    "dataset": dataset,
                    "split": split,
                    "seed": 7,
                    "step": step,
                    "grade": "logged",
                }
            )
            + "\n"
            for step in range(10)
        )
    )


def ask(story: Story, decided: DecisionMade, glance: ExecutionProgress, **settings: object) -> str | None:
    """What the watcher of a decision says; None also where there is no watcher."""
    watch = build_watch(
        replace(story.bench, search=SearchSettings.model_validate({"order": "ticket"} | settings)), decided
    )
    return watch(glance) if watch else None


def test_far_behind_three_peers_is_pruned_in_either_order(story: Story) -> None:
    for _ in range(3):
        peer(story)
    decided = story.decide("draft")
    for order in ("ticket", "arrival"):
        assert "median 1.1" in (ask(story, decided, FAR, order=order) or "")
        assert "not finite" in (ask(story, decided, BROKEN, order=order) or "")
        assert ask(story, decided, FAR, order=order, prune=False) is None


def test_time_decides_in_arrival_order_only(story: Story) -> None:
    for _ in range(3):
        peer(story)
    decided = story.decide("draft")
    assert ask(story, decided, QUIET) is None
    assert "for 1900 s" in (ask(story, decided, QUIET, order="arrival") or "")
    assert ask(story, decided, QUIET, order="arrival", silent_timeout=2000.0) is None
    ended = replace(FAR, ended=True)
    assert ask(story, decided, ended) == ask(story, decided, FAR)  # whenever it was looked at
    assert ask(story, decided, ended, order="arrival") is None  # it is done: pruning would save nothing


@pytest.mark.parametrize(("seconds", "settings", "quiet"), [(20.0, {}, 60.0), (360.0, {"order": "ticket"}, None)])
def test_how_long_code_may_be_silent_follows_its_limit_and_its_author_is_told(
    story: Story, seconds: float, settings: dict[str, object], quiet: float | None
) -> None:
    decided = story.decide("draft")
    search = SearchSettings.model_validate({"order": "arrival"} | settings)
    bench = replace(story.bench, node_seconds=seconds, search=search)
    assert bench.quiet_seconds == quiet
    prompt = render(CODE, build_code_inputs(bench, decided)).user
    if quiet is None:
        assert "is stopped as stuck" not in prompt
    else:
        assert f"submits nothing for {quiet:g} s is stopped as stuck" in prompt
        watch = build_watch(bench, decided)
        assert watch is not None and watch(replace(QUIET, quiet_seconds=quiet)) is None
        assert f"the limit is {quiet:g} s" in (watch(replace(QUIET, quiet_seconds=quiet + 1)) or "")
