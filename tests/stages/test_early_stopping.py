"""Whether running code is pruned: in which order, and for what."""

from __future__ import annotations

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
from tests.stages.test_prompt_inputs import Story

CURVE = ("digits", "mixup@n50", "loss", "train")
QUIET = ExecutionProgress(2000.0, quiet_seconds=1900.0)
BROKEN = ExecutionProgress(20.0, quiet_seconds=0.0, points=(LoggedPoint(CURVE, 1, float("nan")),))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def ask(story: Story, decided: DecisionMade, glance: ExecutionProgress, **settings: object) -> str | None:
    """What the watcher of a decision says; None also where there is no watcher."""
    watch = build_watch(
        replace(story.bench, search=SearchSettings.model_validate({"order": "ticket"} | settings)), decided
    )
    return watch(glance) if watch else None


def test_values_that_are_not_finite_and_silence_are_stopped_in_arrival_order_only(story: Story) -> None:
    decided = story.decide("draft")
    for glance, said in ((BROKEN, "loss of mixup@n50 on digits (train) was nan at step 1"), (QUIET, "for 1900 s")):
        assert ask(story, decided, glance) is None
        assert said in (ask(story, decided, glance, order="arrival") or "")
        assert ask(story, decided, glance, order="arrival", prune=False) is None
    assert ask(story, decided, QUIET, order="arrival", silent_timeout=2000.0) is None
    assert ask(story, story.decide("replicate", parent="n0001", seed=9), BROKEN, order="arrival") is None


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
