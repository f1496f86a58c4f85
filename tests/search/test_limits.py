"""Hard limits of a stage: nodes, model calls, time."""

from __future__ import annotations

import pytest

from labwright.search.hours import TimeLimits
from tests.search import virtual_time
from tests.search.scripted_search import SearchWorld, make_settings, new_log, run_search


def test_a_node_that_is_not_expected_to_end_in_time_is_not_begun() -> None:
    log = new_log()
    world = SearchWorld(log, buggy=0.0, delay=lambda k: 20.0, seconds=20.0)
    given = make_settings(num_drafts=8, num_workers=1, lookahead=0, order="arrival")
    virtual_time.run(run_search(log, world, given, ("preliminary",), limits=TimeLimits(seconds=70.0)))
    stage = log.state.search.stages["preliminary"]
    assert stage.limit_reason is not None and "another node is expected to take 20 s" in stage.limit_reason
    assert stage.is_settled and stage.end_reason == stage.limit_reason
    assert len(log.state.list_stage_nodes("preliminary")) == 3  # begun at 0, 20 and 40 s; at 60 s only 10 s are left


@pytest.mark.parametrize("order", ["arrival", "ticket"])
@pytest.mark.parametrize(
    ("buggy", "of_the_run", "kinds"),
    [(1.0, 200.0, ["draft", "debug"]), (1.0, 100.5, ["draft"]), (0.0, 200.0, ["draft"])],
)
def test_a_first_draft_that_fails_is_debugged_once_also_where_the_time_of_the_stage_is_used_up(
    order: str, buggy: float, of_the_run: float, kinds: list[str]
) -> None:
    """The first draft takes 100 s of a stage that has 60; the run's own limit holds."""
    log = new_log()
    world = SearchWorld(log, buggy=buggy, delay=lambda k: 80.0)
    given = make_settings(num_workers=1, lookahead=0, order=order, window=1)
    virtual_time.run(
        run_search(log, world, given, ("preliminary",), limits=TimeLimits(seconds=60.0, run_seconds=of_the_run))
    )
    assert [node.kind for node in log.state.list_stage_nodes("preliminary")] == kinds
    assert "limit of 60 s" in str(log.state.search.stages["preliminary"].limit_reason)
