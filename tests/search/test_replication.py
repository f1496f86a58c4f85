"""Replicates: how many, with which seeds, and beside what."""

from __future__ import annotations

from random import Random

import pytest

from record.events.searching import Decided, Executed, Judged
from record.nouns.data import Measurement, arm_of
from record.nouns.decisions import Expand, summary_of
from record.nouns.nodes import SEARCH_KINDS, StageName
from search.replication import replicates_for
from search.settings import StageLimits
from tests.search.worlds import PLAN, World, run


def test_ablated_variants_that_worked_are_all_replicated() -> None:
    log, _ = run(buggy=0.0, ablation=StageLimits(nodes=2, num_seeds=3))
    state = log.state
    best = state.stages["ablation"].best
    targets = [node.id for node in state.stage_nodes("ablation") if node.kind == "ablate"] + [best]
    for target in targets:
        replicates = [n for n in state.nodes.values() if n.kind == "replicate" and n.parent == target]
        assert len(replicates) == 3


class Effect(World):
    """The method is better by 0.1; each seed adds noise of its own to it."""

    noise = 0.0

    def measured(self, action: Expand, rng: Random) -> tuple[Measurement, ...]:
        off = self.noise * Random(f"seed {action.seed}").gauss(0, 1)
        return tuple(Measurement(
            name="log_loss", value=0.5 - (0.1 + off) * (arm.role == "method"), condition=arm.name, dataset="digits",
            split="validation", seed=action.seed, grade="computed") for arm in PLAN.arms)


class Quiet(Effect):
    noise = 0.005


class Loud(Effect):
    noise = 0.2


@pytest.mark.parametrize(("world", "count"), [(Effect, 3), (Quiet, 5), (Loud, 10)])
def test_the_count_follows_the_spread(world: type[Effect], count: int) -> None:
    log, _ = run(buggy=0.0, world=world, num_seeds=3, max_seeds=10)
    best = log.state.stages["agenda"].best
    seeds = [node.seed for node in log.state.nodes.values() if node.kind == "replicate" and node.parent == best]
    assert seeds == list(range(1, count + 1))


def test_how_many_an_interval_asks_for() -> None:
    assert replicates_for(0.0, 0.1, 10) == 0  # identical: more of the same says nothing
    assert replicates_for(0.01, 0.1, 10) == 5  # as many as a comparison needs to be called
    assert [replicates_for(sd, 0.1, 10) for sd in (0.05, 0.06, 0.2)] == [7, 9, 10]
    assert replicates_for(0.01, 0.0, 10) == 10 and replicates_for(0.01, 0.1, 4) == 4


def test_ablations_have_the_seeds_of_what_they_are_compared_with() -> None:
    log, _ = run(buggy=0.0, world=Loud, num_seeds=3, max_seeds=10)
    state = log.state
    seeds = {node.id: [one.seed for one in state.nodes.values() if one.kind == "replicate" and one.parent == node.id]
             for node in state.stage_nodes("ablation") if node.kind == "ablate"}
    assert len(seeds) == 3 and all(of == [1, 2, 3, 4, 5] for of in seeds.values())
    assert arm_of("method@x") == "method"


@pytest.mark.parametrize("order", ["ticket", "arrival"])
def test_replicates_and_summaries_overlap_the_search_of_the_next_stage(order: str) -> None:
    log, _ = run(order=order, buggy=0.0, num_workers=4)
    events = log.events
    first: dict[StageName, int] = {}
    for i, event in enumerate(events):
        action = event.action if isinstance(event, Decided) else None
        if isinstance(action, Expand) and action.kind in SEARCH_KINDS | {"trial"}:
            first.setdefault(action.stage, i)
    done = {event.node: i for i, event in enumerate(events) if isinstance(event, Judged)}
    replicates = [node for node in log.state.stage_nodes("preliminary") if node.kind == "replicate"]
    assert replicates and any(done[node.id] > first["tuning"] for node in replicates)
    assert all(log.state.work_done(summary_of(stage).task) for stage in ("preliminary", "tuning", "agenda"))


def test_a_summary_comes_after_all_replicates_and_their_aggregate() -> None:
    log, _ = run(order="arrival")
    state = log.state
    for k, decided in state.decisions.items():
        for stage in ("preliminary", "tuning", "agenda"):
            if decided.action == summary_of(stage):
                best = state.stages[stage].best
                due = [one for one in state.nodes.values() if one.parent == best and one.stage == stage
                       and one.kind in ("replicate", "aggregate")]
                assert all(one.decision in decided.seen for one in due)
                assert k in state.finished


def test_nothing_is_cancelled_when_a_stage_ends() -> None:
    log, world = run(order="arrival", buggy=0.0, num_workers=4)
    assert len(world.started) == len(set(world.started)), "work was begun twice"
    executed = [event.node for event in log.events if isinstance(event, Executed)]
    assert len(executed) == len(set(executed))
