"""The search through the real scheduler, in a scripted world."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from record.events import Decided, Executed, Judged, Prepared, Settled
from record.log import MemoryLog
from record.nouns import Attempt, DatasetUse, Expand, Failure, Measurement, MetricSpec, NodeKind, Seen, StageName
from search.policy import BestFirst
from search.scheduler import Freed, Scheduler, Signals
from search.settings import StageLimits
from search.tree import SEARCH_KINDS, view_of
from tests.search.worlds import PLAN, World, new_log, search, settings, tree


def run(*, timing: int = 0, seed: int = 0, buggy: float = 0.3, **changes: object) -> tuple[MemoryLog, World]:
    log = new_log(seed)
    rng = Random(timing)
    delays = [rng.random() * 0.004 for _ in range(500)]
    world = World(log, buggy=buggy, delay=lambda k: delays[k])
    asyncio.run(search(log, world, settings(**changes)))
    return log, world


def test_every_node_kind_and_different_replicate_seeds() -> None:
    log, _ = run()
    kinds = {node.kind for node in log.state.nodes.values()}
    assert kinds == {"draft", "debug", "improve", "tune", "ablate", "replicate", "aggregate"}
    by_parent: dict[str | None, list[int]] = {}
    for node in log.state.nodes.values():
        if node.kind == "replicate":
            by_parent.setdefault(node.parent, []).append(node.seed)
    assert by_parent and all(len(set(seeds)) == len(seeds) and 0 not in seeds for seeds in by_parent.values())


@pytest.mark.parametrize("order", ["arrival", "ticket"])
def test_ceilings_hold_and_places_are_respected(order: str) -> None:
    log, world = run(order=order, num_workers=3, lookahead=1)
    counts = Counter(node.stage for node in log.state.nodes.values() if node.kind in SEARCH_KINDS)
    assert counts["preliminary"] <= 8 and counts["tuning"] <= 4 and counts["agenda"] == 4 and counts["ablation"] == 3
    assert 1 < world.places_used <= 4


def test_ticket_order_gives_one_tree_whatever_the_timing_and_places() -> None:
    reference = tree(run(timing=0, num_workers=1)[0])
    for timing, places in enumerate([1, 2, 4, 8, 2, 4, 8, 1], start=1):
        assert tree(run(timing=timing, num_workers=places)[0]) == reference


def test_another_seed_gives_another_tree() -> None:
    assert tree(run(seed=1)[0]) != tree(run(seed=0)[0])


def test_a_kill_between_the_end_of_a_stage_and_its_settling_decides_nothing_twice() -> None:
    whole, _ = run()
    ends = [i for i, event in enumerate(whole.events) if isinstance(event, Decided) and event.action.do == "end"]
    assert len(ends) == 4
    for cut in ends:
        log = MemoryLog(whole.events[: cut + 1])
        asyncio.run(search(log, World(log), settings()))
        assert tree(log) == tree(whole) and len(log.state.decisions) == len(whole.state.decisions)


@hypothesis_settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 400), order=st.sampled_from(["ticket", "arrival"]), buggy=st.sampled_from([0.0, 0.3, 0.6]))
def test_any_prefix_of_the_log_resumes(cut: int, order: str, buggy: float) -> None:
    whole, _ = run(order=order, buggy=buggy)
    log = MemoryLog(whole.events[: max(2, min(cut, len(whole.events)))])
    finished = set(log.state.finished)
    world = World(log, buggy=buggy)
    asyncio.run(search(log, world, settings(order=order)))
    assert not finished & set(world.started), "finished work was done again"
    decided = [event.k for event in log.events if isinstance(event, Decided)]
    assert decided == sorted(set(decided)), "a decision was made twice"
    if order == "ticket":
        assert tree(log) == tree(whole)


@hypothesis_settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 50), buggy=st.sampled_from([0.0, 0.5, 0.9, 1.0]), depth=st.integers(0, 3))
def test_the_search_ends_and_debugs_no_deeper_than_allowed(seed: int, buggy: float, depth: int) -> None:
    log, _ = run(seed=seed, buggy=buggy, max_debug_depth=depth)
    view = view_of(log.state, "preliminary", Seen(through=10_000))
    assert all(view.debug_depth(node) <= depth for node in log.state.nodes.values())
    assert all(node.finished for node in log.state.nodes.values())
    if buggy == 1.0:
        assert log.state.stages["preliminary"].best is None


def test_an_identical_failure_is_not_tried_a_third_time() -> None:
    class Stubborn(World):
        def _finish(self, node: str, k: int, action: Expand) -> None:
            self.log.append(Judged(node=node, status="buggy", failure=Failure(kind="shape", message="always the same")))

    log = new_log()
    asyncio.run(search(log, Stubborn(log), settings(num_drafts=1, preliminary=StageLimits(nodes=3))))
    assert [node.kind for node in log.state.nodes.values()] == ["draft", "debug", "draft"]


@pytest.mark.parametrize(("higher", "expected"), [(True, "n0002"), (False, "n0001")])
def test_the_best_follows_the_direction_of_the_metric(higher: bool, expected: str) -> None:
    log = new_log()
    metric = MetricSpec(name="log_loss", higher_is_better=higher)
    log.append(Prepared(data_plan=PLAN.model_copy(update={"metrics": (metric,)}), datasets=()))
    for k, value in ((1, 0.2), (2, 0.4)):
        log.append(Decided(k=k, action=Expand(stage="preliminary", kind="draft", seed=0)))
        one = Measurement(name="log_loss", value=value, condition="method", dataset="digits", split="validation",
                          seed=0, grade="computed")
        log.append(Executed(node=f"n000{k}", attempt=Attempt(number=1, seconds=1, measurements=(one,))))
        log.append(Judged(node=f"n000{k}", status="good"))
    best = view_of(log.state, "preliminary", Seen(through=2)).best
    assert best is not None and best.id == expected


def test_picks_depend_on_view_and_random_source_alone() -> None:
    log, _ = run()
    policy = BestFirst(settings())
    for k, decided in list(log.state.decisions.items()):
        prefix = MemoryLog([e for e in log.events if not (isinstance(e, Decided) and e.k >= k)][:2])
        assert policy.pick(view_of(prefix.state, "preliminary", Seen()), Random(k)) == policy.pick(
            view_of(prefix.state, "preliminary", Seen()), Random(k))
        assert decided.k == k


def test_a_request_to_stop_drops_nothing_that_finished() -> None:
    async def stopped() -> tuple[MemoryLog, object]:
        log = new_log()
        signals = Signals()
        given = settings(order="arrival", grace=0.05)
        world = World(log, delay=lambda k: 0.01)
        scheduler = Scheduler(recorder=log, policy=BestFirst(given), expand=world.expand, settings=given,
                              stage="preliminary", signals=signals)
        asyncio.get_running_loop().call_later(0.015, signals.stop.set)
        return log, await scheduler.run()

    log, end = asyncio.run(stopped())
    assert end is None
    again = World(log)
    finished = set(log.state.finished)
    asyncio.run(search(log, again, settings(order="arrival")))
    assert not finished & set(again.started)


def test_a_pause_holds_decisions_back() -> None:
    async def paused() -> int:
        log = new_log()
        signals = Signals()
        signals.go.clear()
        given = settings(order="arrival")
        scheduler = Scheduler(recorder=log, policy=BestFirst(given), expand=World(log).expand, settings=given,
                              stage="preliminary", signals=signals)
        task = asyncio.ensure_future(scheduler.run())
        await asyncio.sleep(0.02)
        held = len(log.state.decisions)
        signals.go.set()
        await task
        return held

    assert asyncio.run(paused()) == 0


def test_a_broken_model_ends_the_search_with_its_error() -> None:
    async def broken(_: Decided, __: Freed) -> None:
        raise RuntimeError("provider down")

    log = new_log()
    given = settings(order="arrival")
    with pytest.raises(RuntimeError, match="provider down"):
        asyncio.run(Scheduler(
            recorder=log, policy=BestFirst(given), expand=broken, settings=given, stage="preliminary").run())


def test_ablated_variants_that_worked_are_all_replicated() -> None:
    log, _ = run(buggy=0.0, ablation=StageLimits(nodes=2, num_seeds=3))
    state = log.state
    best = state.stages["ablation"].best
    targets = [node.id for node in state.stage_nodes("ablation") if node.kind == "ablate"] + [best]
    for target in targets:
        replicates = [n for n in state.nodes.values() if n.kind == "replicate" and n.parent == target]
        assert len(replicates) == 3
    assert all(isinstance(d.action, Expand) or d.action.do in ("wait", "end") for d in state.decisions.values())


def test_tuning_chooses_a_setting_for_all_arms_alike() -> None:
    log = new_log()
    first = {"baseline": 0.5, "method": 0.5}
    suits_method, suits_both = {"baseline": 0.9, "method": 0.3}, {"baseline": 0.4, "method": 0.4}
    for k, values in enumerate((first, suits_method, suits_both), start=1):
        stage: StageName = "preliminary" if k == 1 else "tuning"
        kind: NodeKind = "draft" if k == 1 else "tune"
        log.append(Decided(k=k, action=Expand(stage=stage, kind=kind, seed=0, parent="n0001" if k > 1 else None)))
        found = tuple(Measurement(name="log_loss", value=value, condition=arm, dataset="digits", split="validation",
                                  seed=0, grade="computed") for arm, value in values.items())
        log.append(Executed(node=f"n000{k}", attempt=Attempt(number=1, seconds=1, measurements=found)))
        log.append(Judged(node=f"n000{k}", status="good"))
        if k == 1:
            log.append(Settled(stage="preliminary", best="n0001", ended="it ran"))
    view = view_of(log.state, "tuning", Seen(through=3))
    assert view.best is not None and view.best.id == "n0003"
    assert replace(view, stage="agenda").best == view.root


def test_every_dataset_of_the_widest_nodes_counts() -> None:
    log = new_log()
    log.append(Prepared(data_plan=PLAN.model_copy(update={
        "datasets": (DatasetUse(name="digits"), DatasetUse(name="wine"))}), datasets=()))
    values = [{"digits": 0.10}, {"digits": 0.30, "wine": 0.20}, {"digits": 0.31, "wine": 0.10}]
    for k, found in enumerate(values, start=1):
        log.append(Decided(k=k, action=Expand(stage="preliminary", kind="draft", seed=0)))
        measured = tuple(Measurement(name="log_loss", value=value, condition="method", dataset=dataset, seed=0,
                                     split="validation", grade="computed") for dataset, value in found.items())
        log.append(Executed(node=f"n000{k}", attempt=Attempt(number=1, seconds=1, measurements=measured)))
        log.append(Judged(node=f"n000{k}", status="good"))
    view = view_of(log.state, "preliminary", Seen(through=3))
    assert [node.id for node in view.widest] == ["n0002", "n0003"]
    assert view.best is not None and view.best.id == "n0003"
