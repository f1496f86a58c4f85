"""Whether and when running code is stopped as hopeless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from labwright.models.client import render
from labwright.models.roles.experiment_code import CODE
from labwright.record.events.search_events import DecisionMade
from labwright.search.settings import SearchSettings
from labwright.stages.nodes.node_runner import NodeRunner
from labwright.stages.prompt_inputs import build_code_inputs
from tests.stages.test_prompt_inputs import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def quiet_seconds(story: Story, decided: DecisionMade, **settings: object) -> float | None:
    """Seconds of silence after which the code of a decision is stopped; None: never."""
    context = replace(story.bench, search=SearchSettings.model_validate({"order": "ticket"} | settings))
    return NodeRunner(context, decided, cast(Any, None), lambda: None).quiet_seconds


def test_code_is_stopped_in_arrival_order_only_and_replicates_never(story: Story) -> None:
    decided = story.decide("draft")
    assert quiet_seconds(story, decided) is None
    assert quiet_seconds(story, decided, order="arrival", prune=False) is None
    assert quiet_seconds(story, decided, order="arrival", silent_timeout=2000.0) == 2000.0
    replicate = story.decide("replicate", parent="n0001", seed=9)
    assert quiet_seconds(story, replicate, order="arrival", silent_timeout=2000.0) is None


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
