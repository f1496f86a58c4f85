"""Nothing is begun after the time limit but the report, and what is begun before it has time for all that it owes."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.run_process import read_job_end
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims, find_ablation_conditions
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, LimitReached
from labwright.record.events.search_events import AttemptExecuted, DecisionMade, StageWinnerChosen
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import ExpandTree
from labwright.search.replication import FRESH_SEED_OFFSET
from tests.agent.scripted_runs import Killed, RunWorld

pytestmark = pytest.mark.slow

REPORT = set(
    (
        "code_reader summary figures vision outline write claim_reader second_claim_reader setup_reader "
        "reflect copy_edit figure_review judge"
    ).split()
)
"""The roles that a partial report needs."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWorld:
    found = RunWorld(tmp_path, monkeypatch)
    found.seconds = 1000.0
    found.tick = lambda event, state: found.seconds if event.type == "executed" else 0.0
    return found


def searched(world: RunWorld, **settings: object) -> None:
    """A run up to the figures of its paper."""
    world.kill = lambda event: event.type == "figures_made"
    with pytest.raises(Killed):
        world.run(**settings)


def asked_late(world: RunWorld) -> set[str]:
    """The roles that were answered after the limit."""
    late = next(number for number, event in enumerate(world.events) if event.type == "limit_reached")
    return {event.key.role for event in world.events[late:] if isinstance(event, CallAnswered)}


def replicated(state: RunState, node: str) -> int:
    return sum(one.kind == "replicate" and one.parent == node for one in state.nodes.values())


def test_an_exploratory_node_is_begun_only_beside_what_is_set_aside(world: RunWorld) -> None:
    world.run(time_limit=7000)
    assert max(world.begun.values()) + world.seconds <= 7000, world.begun
    state = world.state
    assert state.limit_reason is None and "set aside for" in str(state.search.stages["ablation"].limit_reason)
    assert state.process_end is not None and state.process_end.exit_code == 0, "exploration fits the time"
    best = state.search.stages["agenda"].best
    assert best is not None and replicated(state, best) == 4 and not state.list_stage_nodes("ablation")
    assert asked_late(world) <= REPORT | {"plot"}, "the aggregate of replicates that were owed is drawn"


def test_what_is_owed_fits_where_there_is_time(world: RunWorld) -> None:
    searched(world, time_limit=12_500)
    state = world.state
    ablated = next(one for one in state.nodes.values() if one.kind == "ablate")
    assert state.limit_reason is None and replicated(state, ablated.id) == 2


def test_time_that_is_left_goes_to_seeds_of_the_ablation_also_after_a_kill(world: RunWorld) -> None:
    ninth = FRESH_SEED_OFFSET + 5 + 8

    def is_further(event: Event) -> bool:
        action = event.action if isinstance(event, DecisionMade) else None
        return isinstance(action, ExpandTree) and (action.stage, action.seed) == ("ablation", ninth)

    world.kill = is_further
    with pytest.raises(Killed):
        world.run(time_limit=60_000, search__agenda__num_seeds=20)
    world.kill = lambda event: False
    assert world.resume("--time-limit", "12000") == 0, "the clock of this world begins again"
    state = world.state
    [ablated] = [one for one in state.nodes.values() if one.kind == "ablate"]
    best, count = state.search.stages["agenda"].best, replicated(state, ablated.id)
    assert best is not None and replicated(state, best) == 20 + 2, "fresh seeds and the pilot"
    limits = [event for event in world.events if isinstance(event, LimitReached)]
    assert [(one.stage, one.skipped_kinds) for one in limits] == [("ablation", ("replicate",))]
    assert 9 < count < 20 and state.limit_reason is None
    assert max(world.begun.values()) + world.seconds <= 60_000
    [found] = collect_ablation_results(state)
    assert (found.outcome, found.replicates) == ("measured", count)
    ablations = find_ablation_conditions(state)
    assert {one.n for one in compute_paper_claims(state) if one.condition in ablations} == {count}
    pairs = [one for one in compute_differences(state, compute_paper_claims(state)) if one.condition in ablations]
    assert pairs and {one.n for one in pairs} == {count}, "each pairs with a seed of the node that it ablates"


@pytest.mark.bench
def test_replicates_and_probes_are_left_out_and_told_where_code_took_longer_than_expected(world: RunWorld) -> None:
    def late(event: Event, state: RunState) -> float:
        longer = isinstance(event, AttemptExecuted) and state.nodes[event.node].kind == "ablate"
        return 90_000.0 if longer else world.seconds if event.type == "executed" else 0.0

    world.tick, world.typeset = late, True
    world.kill = lambda event: event.type == "drafted"
    with pytest.raises(Killed):
        world.run(time_limit=40_000, paper__reflections=0)
    assert all(at < 40_000 for at in world.begun.values()), world.begun
    state = world.state
    ablated = next(one for one in state.nodes.values() if one.kind == "ablate")
    assert replicated(state, ablated.id) == 0
    assert asked_late(world) <= REPORT | {"feedback"}, "the node that ran is finished"
    assert state.skipped_kinds == {"replicate"}
    built = world.folder / "run" / "paper" / "rounds" / "round0"
    text = " ".join(" ".join(path.read_text() for path in built.glob("*.tex")).split())
    assert "Skipped for lack of time or budget" in text


def test_a_decision_is_not_made_after_the_limit(world: RunWorld) -> None:
    """The clock is looked at where something is begun, not only now and then."""
    world.tick = lambda event, state: (
        90_000.0 if isinstance(event, StageWinnerChosen) and event.stage == "agenda" else 0.0
    )
    searched(world, time_limit=40_000)
    late = next(number for number, event in enumerate(world.events) if event.type == "limit_reached")
    begun = [
        event
        for event in world.events[late:]
        if isinstance(event, DecisionMade) and isinstance(event.action, ExpandTree)
    ]
    assert begun == [] and asked_late(world) <= REPORT


def test_the_end_of_a_slurm_job_is_read() -> None:
    assert read_job_end("1763700000") == 1763700000.0
    assert [read_job_end(text) for text in ("", "UNLIMITED", "0")] == [None, None, None]
