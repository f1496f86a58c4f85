"""Replicates: how many, with which seeds, and beside what."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Iterable
from math import ceil, inf
from random import Random
from statistics import stdev
from typing import Any

import pytest

from labwright.record.claims.estimates import find_trusted_replicates
from labwright.record.claims.hypothesis_tests import (
    decide_from_runs,
    decide_hypotheses,
    find_deciding_nodes,
    read_replicate_values,
)
from labwright.record.claims.planned_seeds import compute_planned_seeds
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import LimitReached
from labwright.record.events.search_events import (
    ConfirmationLocked,
    DecisionMade,
    LookTaken,
    NodeJudged,
    SealedTestScored,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import CompareNodes, ExpandTree, SearchAction, VisibleDecisions
from labwright.record.schema.hypotheses import Effect as Sought
from labwright.record.schema.hypotheses import Hypothesis, RivalExplanation
from labwright.record.schema.nodes import STAGES, Failure, format_node_id
from labwright.search.hours import LimitHit, plan_hours
from labwright.search.policy import build_policy
from labwright.search.replication import FRESH_SEED_OFFSET, build_lock, find_lacking_seeds, is_further_seed
from labwright.search.scheduler import ReleaseSlot
from labwright.search.settings import SearchSettings, StageLimits
from labwright.search.stage_snapshot import build_snapshot
from tests.search import virtual_time
from tests.search.scripted_search import (
    PLAN,
    SearchWorld,
    comparable_tree,
    make_settings,
    measure,
    new_log,
    run_search,
    run_whole_search,
)

FRESH = tuple(range(FRESH_SEED_OFFSET, FRESH_SEED_OFFSET + 30))


def nodes_in(events: Iterable[object]) -> list[ExpandTree]:
    return [one.action for one in events if isinstance(one, DecisionMade) and isinstance(one.action, ExpandTree)]


class Effect(SearchWorld):
    """The method is better by 0.1; each seed adds noise of its own to it."""

    noise = 0.0

    def draw_measurements(self, action: ExpandTree, rng: Random) -> tuple[Measurement, ...]:
        off = self.noise * Random(f"seed {action.seed}").gauss(0, 1)
        gain = 0.1 + off
        return tuple(measure(0.5 - gain * (arm.role == "method"), arm.name, seed=action.seed) for arm in PLAN.arms)


class Quiet(Effect):
    noise = 0.005


class Loud(Effect):
    noise = 0.2


DECIDED = PLAN.model_copy(
    update={
        "hypotheses": (
            Hypothesis(
                id="gain",
                statement="the method loses less",
                reason="less is noise",
                effects=(Sought(estimand="baseline - method", smallest=0.05),),
                rival=RivalExplanation(
                    statement="the seeds differ", estimand="baseline", ours="above zero", theirs="near zero"
                ),
            ),
        )
    }
)


@pytest.mark.parametrize("objective", ["improve", "measure"])
@pytest.mark.parametrize(("world", "count"), [(Effect, 5), (Quiet, 5), (Loud, 20)])
def test_the_count_follows_the_spread_of_the_pilot_and_seeds_are_fresh(
    world: type[Effect], count: int, objective: str
) -> None:
    log, _ = run_whole_search(
        buggy=0.0,
        world=world,
        plan=DECIDED.model_copy(update={"objective": objective}),
        stages=STAGES[:-1],
        max_seeds=20,
        num_seeds=3,
        tuning=StageLimits(nodes=4, num_seeds=5),
        agenda=StageLimits(nodes=3, num_seeds=5),
    )
    state, lock = log.state, log.state.search.current_lock
    assert lock is not None and lock.winner == state.search.stages["agenda"].best
    assert lock.seeds == FRESH[:count]
    pilot = [one for one in state.nodes.values() if one.kind == "replicate" and one.stage == "tuning"]
    assert pilot and all(one.seed < FRESH_SEED_OFFSET for one in pilot)
    assert world is not Loud or (lock.wanted["gain"] > 20 and "search.max_seeds is 20" in lock.why)


class Uneven(Effect):
    noise = 0.06
    conclusive_look = 0


@pytest.mark.slow
def test_the_first_look_allows_for_a_pilot_that_shows_too_little_spread() -> None:
    log, _ = run_whole_search(buggy=0.0, world=Uneven, plan=DECIDED, stages=STAGES[:-1], num_seeds=3, max_seeds=100)
    state, lock = log.state, log.state.search.current_lock
    pilot = [one for one in state.nodes.values() if one.kind == "replicate" and one.stage == "tuning"]
    gains = [a.value - b.value for a, b in (one.measurements for one in pilot)]
    assert lock is not None and len(gains) == 3
    effect = DECIDED.hypotheses[0].effects[0]
    likely, upper = (compute_planned_seeds(effect, sd).n or 0 for sd in (stdev(gains), 2.1170 * stdev(gains)))
    assert lock.wanted["gain"] == max(5, likely) and 2 * likely < upper, "2 / 0.4463, the 20 % quantile of chi-square"
    assert lock.looks[0] == ceil(upper / 2) and lock.n == next(size for size in lock.looks if size >= likely)


class Early(Quiet):
    conclusive_look = 1


@pytest.mark.parametrize("order", ["ticket", "arrival"])
@pytest.mark.parametrize(("world", "sizes"), [(Early, [5, 8]), (Quiet, [5, 8, 10, 15, 20])])
def test_looks_read_the_first_fresh_seeds_and_end_by_a_decision_or_a_limit(
    world: type[Effect], sizes: list[int], order: str
) -> None:
    log, _ = run_whole_search(
        buggy=0.0, world=world, plan=DECIDED, max_seeds=20, order=order, agenda=StageLimits(nodes=3, num_seeds=5)
    )
    state, lock = log.state, log.state.search.current_lock
    assert lock is not None and lock.looks[:5] == (5, 8, 10, 15, 20)
    assert [one.seeds for one in state.search.looks] == [FRESH[:size] for size in sizes]
    limit = "the next look takes 29 seeds, and search.max_seeds is 20"
    assert state.search.looks[-1].ends == ("decided" if world is Early else limit)
    fresh = find_trusted_replicates(state, lock.winner)
    assert len(fresh) == sizes[-1], "claims rest on the fresh ones, and none runs that no look reads"
    looked_at = 0
    for event in log.events:  # a seed runs only after the look before it
        if isinstance(event, LookTaken):
            looked_at = event.look + 1
        for action in nodes_in([event]):
            assert action.parent != lock.winner or action.seed - FRESH_SEED_OFFSET < lock.looks[looked_at]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["improve", "measure"])
def test_looks_give_one_tree_in_ticket_order_and_survive_a_kill(objective: str) -> None:
    plan = DECIDED.model_copy(update={"objective": objective})
    given = make_settings(max_seeds=20, num_seeds=5, agenda=StageLimits(nodes=3))

    def search(timing: int, places: int) -> MemoryLog:
        changes: dict[str, Any] = given.model_dump() | {"num_workers": places}
        return run_whole_search(buggy=0.0, world=Early, plan=plan, timing=timing, **changes)[0]

    whole = search(0, 2)
    assert len(whole.state.search.looks) == 2
    assert all(comparable_tree(search(timing, places)) == comparable_tree(whole) for timing, places in ((1, 1), (2, 4)))
    looks = [k for k, event in enumerate(whole.events) if isinstance(event, LookTaken)]
    for cut in (place + step for place in looks for step in (-1, 0, 1)):
        log = MemoryLog(whole.events[: cut + 1])
        world = Early(log, buggy=0.0)
        world.settings = given
        virtual_time.run(run_search(log, world, given))
        assert log.state.search.looks == whole.state.search.looks
        assert comparable_tree(log) == comparable_tree(whole)


@pytest.mark.parametrize(("objective", "stage"), [("improve", "agenda"), ("measure", "tuning")])
def test_the_lock_follows_the_last_stage_that_selects_and_comes_before_any_fresh_seed(
    objective: str, stage: str
) -> None:
    plan = DECIDED.model_copy(update={"objective": objective})
    log, _ = run_whole_search(buggy=0.0, world=Quiet, plan=plan, order="arrival")
    kinds = [(event.type, getattr(event, "stage", "")) for event in log.events]
    locked = next(k for k, (kind, _) in enumerate(kinds) if kind == "locked")
    assert kinds[locked - 1] == ("stage_winner_chosen", stage)
    later = nodes_in(log.events[locked:])
    assert later and all(one.seed < FRESH_SEED_OFFSET for one in nodes_in(log.events[:locked]))
    search = log.state.search
    assert search.current_lock is not None and search.current_lock.plan == search.plan_hash
    if objective == "measure":
        assert all(one.seed >= FRESH_SEED_OFFSET for one in later[:2]), "the claim comes before exploration"
        assert search.stages["agenda"].best == search.current_lock.winner, "nothing is selected afterwards"


def test_no_more_seeds_are_locked_than_there_is_time_for() -> None:
    pilot = StageLimits(nodes=4, num_seeds=5)
    log, _ = run_whole_search(
        buggy=0.0, world=Loud, plan=DECIDED, stages=STAGES[:-1], order="arrival", max_seeds=20, tuning=pilot
    )
    state = log.state
    given = make_settings(order="arrival", max_seeds=20, num_workers=2, tuning=pilot)
    state.search.locks.clear()
    state.search.looks.clear()

    def lock_with(affordable: float, with_controls: float) -> ConfirmationLocked | None:
        def count(*, swapped: bool) -> float:
            return with_controls if swapped else affordable

        return build_lock(state, given, count)

    short, longer = (lock_with(seeds, seeds) for seeds in (6, 15))
    assert short is not None and short.n == 6 and "there is time for 6" in short.why and short.looks == (6,)
    tight, ample = (lock_with(15, seeds) for seeds in (9, 40))
    assert tight is not None and not tight.swapped and tight.n == 14, "controls of tuning cost no planned seed"
    assert ample is not None and ample.swapped
    fewer = lock_with(15, 13)
    assert fewer is not None and fewer.swapped and fewer.n == 12, "from twelve seeds on, controls come first"
    assert longer is not None and longer.looks[:4] == (7, 10, 14, 20)
    assert longer.n == 14, "no look reads a fifteenth seed"


class Lossy(Quiet):
    """The run's time is up once amid seed 10001; seed 10003 always fails, and a person ends 10005, which
    replaces it.
    """

    conclusive_look = 0

    async def perform(self, decided: DecisionMade, freed: ReleaseSlot) -> None:
        action = decided.action
        seed = action.seed if isinstance(action, ExpandTree) and action.kind == "replicate" else 0
        ran = sum(node.kind == "replicate" and node.seed == seed for node in self.log.state.nodes.values())
        failure = {
            FRESH_SEED_OFFSET + 3: Failure(kind="other", message="NameError"),
            FRESH_SEED_OFFSET + 5: Failure(kind="killed", message="ended by a person"),
        }.get(seed)
        if seed == FRESH_SEED_OFFSET + 1 and ran == 1:
            failure = Failure(kind="other", message="not run: the time is up")
        if failure is None or self.log.state.nodes[format_node_id(decided.k)].stage != "agenda":
            await super().perform(decided, freed)
            return
        freed()
        status = "buggy" if seed == FRESH_SEED_OFFSET + 3 else "cancelled"
        self.log.append(NodeJudged(node=format_node_id(decided.k), failure=failure, status=status))


@pytest.mark.parametrize("order", ["ticket", "arrival"])
def test_a_fresh_seed_that_was_cut_short_is_owed_again_and_one_that_failed_is_replaced(order: str) -> None:
    log, _ = run_whole_search(
        buggy=0.0,
        world=Lossy,
        plan=DECIDED,
        num_seeds=3,
        tuning=StageLimits(num_seeds=5),
        order=order,
        agenda=StageLimits(nodes=3, num_seeds=5),
        max_seeds=20,
    )
    state, lock = log.state, log.state.search.current_lock
    assert lock is not None and lock.n == 5
    replicates = [one for one in state.nodes.values() if one.kind == "replicate" and one.parent == lock.winner]
    fresh = [one for one in replicates if one.seed >= FRESH_SEED_OFFSET]
    assert Counter(one.seed for one in fresh) == dict.fromkeys(FRESH[:7], 1) | {FRESH[1]: 2}
    good = tuple(FRESH[k] for k in (0, 1, 2, 4, 6))
    assert {one.seed for one in fresh if one.status == "good"} == {*good}, "two of five are replaced"
    nodes, confirmed = find_deciding_nodes(state)
    assert confirmed and tuple(one.seed for one in nodes) == FRESH[:7], "of a seed the last run"
    cut = next(one for one in fresh if one.seed == FRESH[1] and one.status == "cancelled")
    before = build_snapshot(state, "ablation", VisibleDecisions(through=cut.decision), before=cut.decision + 1)
    target, ended = state.nodes[lock.winner], dataclasses.replace(before, run_limit_reason="the time is up")
    assert find_lacking_seeds(before, target, [FRESH[1]]) == (FRESH[1],)
    assert find_lacking_seeds(ended, target, [FRESH[1]]) == (), "not at once"
    [one] = decide_from_runs(DECIDED, [read_replicate_values(node) for node in nodes], confirmed=True)
    assert one.verdict == "supported" and one.parts[0].seeds == good
    assert ["NameError" in why or "ended by a person" in why for why in one.parts[0].left_out] == [True, True]
    log.append(SealedTestScored(node=nodes[0].id, measurements=()))
    assert decide_hypotheses(state)[0].verdict == "supported", "fresh seeds decide a study that seals no test data"


def list_variant_seeds(state: RunState) -> list[tuple[int, ...]]:
    """The seeds of each ablation."""
    made = [node.id for node in state.list_stage_nodes("ablation") if node.kind == "ablate"]
    runs = [one for one in state.nodes.values() if one.kind == "replicate"]
    return [tuple(one.seed for one in runs if one.parent == node) for node in made]


@pytest.mark.parametrize("order", ["ticket", "arrival"])
@pytest.mark.parametrize(("given", "count"), [(5, 5), (3, 5), (None, 10), (0, 0)])
def test_ablations_have_the_seeds_of_what_they_are_compared_with(given: int | None, count: int, order: str) -> None:
    limits = StageLimits(nodes=3, num_seeds=given)
    log, _ = run_whole_search(
        buggy=0.0, world=Loud, plan=DECIDED, num_seeds=3, max_seeds=10, ablation=limits, order=order
    )
    assert list_variant_seeds(log.state) == [FRESH[:count]] * 3, "a number that the user gives does not grow"


class Fixed(Loud):
    """Every second ablation ignores its seed, and one fresh seed of the winner fails."""

    def draw_measurements(self, action: ExpandTree, rng: Random) -> tuple[Measurement, ...]:
        made = self.log.state.nodes.get(action.parent or "")
        if made is not None and made.kind == "ablate" and self.ordinal(made.decision) % 2:
            return (measure(0.4, seed=action.seed),)
        return super().draw_measurements(action, rng)

    def ordinal(self, k: int) -> int:
        action = self.log.state.decisions[k].action
        assert isinstance(action, ExpandTree)
        return action.ordinal

    async def perform(self, decided: DecisionMade, freed: ReleaseSlot) -> None:
        action = decided.action
        if not isinstance(action, ExpandTree) or (action.kind, action.stage, action.seed) != (
            "replicate",
            "agenda",
            FRESH[6],
        ):
            await super().perform(decided, freed)
            return
        freed()
        failure = Failure(kind="other", message="NameError")
        self.log.append(NodeJudged(node=format_node_id(decided.k), failure=failure, status="buggy"))


def test_further_seeds_pair_with_finished_ones_and_vary() -> None:
    log, _ = run_whole_search(buggy=0.0, world=Fixed, plan=DECIDED, num_seeds=3, max_seeds=10)
    looked = log.state.search.looks[-1].seeds
    assert looked == tuple(seed for seed in FRESH[:11] if seed != FRESH[6])
    assert list_variant_seeds(log.state) == [looked, FRESH[:5], looked]


def test_a_cap_ends_further_seeds_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_cap(action: SearchAction, *_: object, **__: object) -> LimitHit | None:
        dear = isinstance(action, ExpandTree) and (action.stage, action.seed) == ("ablation", FRESH[7])
        return LimitHit("the budget of 1 GPU-hours") if dear else None

    monkeypatch.setattr("tests.search.scripted_search.check_time", check_cap)
    log, _ = run_whole_search(buggy=0.0, world=Loud, plan=DECIDED, num_seeds=3, max_seeds=10)
    assert list_variant_seeds(log.state) == [FRESH[:7]] * 3
    [limit] = [one for one in log.events if isinstance(one, LimitReached)]
    assert (limit.stage, limit.reason) == ("ablation", "no further seeds: the budget of 1 GPU-hours")
    assert log.state.limit_reason is None and not log.state.skipped_kinds


SECONDS = 10.0
"""Of every node, while two run at once."""
HOURLY = make_settings(num_workers=2, num_seeds=5, max_seeds=20, lookahead=0, planned_ablations=0)


class Clocked:
    """A search whose record has times, so that it can go on from any event with the time that it had left."""

    def __init__(self, given: SearchSettings, seconds: float, *, kept: Clocked | None = None, cut: int = 0) -> None:
        self.given, self.times = given, list[float]()
        ticks = list(kept.times[:cut]) if kept is not None else []
        began = ticks[-1] if ticks else 0.0

        def tell() -> float:
            now = ticks.pop(0) if ticks else began + asyncio.get_running_loop().time()
            self.times.append(now)
            return now

        async def search() -> MemoryLog:
            events = kept.log.events[:cut] if kept is not None else new_log(plan=DECIDED).events
            log = MemoryLog(events, clock=tell)
            world = Loud(log, buggy=0.0, delay=lambda k: SECONDS, seconds=SECONDS)
            world.settings, world.run_seconds = given, seconds
            await run_search(log, world, given)
            return log

        self.log = virtual_time.run(search())


@pytest.mark.slow
@pytest.mark.parametrize("order", ["ticket", "arrival"])
def test_further_seeds_of_ablations_end_with_the_time_left_for_them(order: str) -> None:
    given = HOURLY.model_copy(update={"order": order})
    whole = Clocked(given, inf).log
    [every] = set(list_variant_seeds(whole.state))
    assert every == FRESH[:20] == whole.state.search.looks[-1].seeds
    seconds = 560.0
    log = Clocked(given, seconds).log
    state, counts = log.state, [len(seeds) for seeds in list_variant_seeds(log.state)]
    assert state.search.looks[-1].seeds == FRESH[:20] and 5 < min(counts) <= max(counts) <= min(counts) + 1 < 20
    [limit] = [one for one in log.events if isinstance(one, LimitReached)]
    assert limit.stage == "ablation" and limit.skipped_kinds == ("replicate",)
    assert "one further seed of 3 ablations" in limit.reason
    assert state.limit_reason is None and state.search.stages["ablation"].limit_reason is None, "only these end"
    assert state.search.stages["ablation"].end_reason == whole.state.search.stages["ablation"].end_reason
    assert not state.skipped_kinds
    hours = plan_hours(
        build_snapshot(state, "ablation", VisibleDecisions(through=state.last_decision), settings=given), given, seconds
    )
    assert hours is not None
    left, kept = seconds - state.active_seconds, hours.set_aside / 2
    assert kept <= left < kept + 4 * SECONDS, "no more than a round and the judging of the last runs"


@pytest.mark.slow
@pytest.mark.parametrize("order", ["ticket", "arrival"])
def test_further_seeds_go_on_after_a_kill_and_follow_from_the_record(order: str) -> None:
    given = HOURLY.model_copy(update={"order": order})
    whole = Clocked(given, 560.0)
    state = whole.log.state
    further = [k for k, one in state.decisions.items() if is_further_seed(one.action, state.search.current_lock, given)]
    assert len(further) > 6
    for k in further:  # from the whole record, what a decision saw gives it again
        view = build_snapshot(state, "ablation", state.decisions[k].seen, before=k, settings=given)
        assert build_policy(given).pick(view, Random(f"0/{k}")) == state.decisions[k].action
    made = [at for at, one in enumerate(whole.log.events) if isinstance(one, DecisionMade) and one.k in further]
    [end] = [at for at, one in enumerate(whole.log.events) if isinstance(one, LimitReached)]
    for cut in (made[0], made[len(made) // 2] + 1, end + 1):
        again = Clocked(given, 560.0, kept=whole, cut=cut).log
        kept = comparable_tree(MemoryLog(whole.log.events[:cut]))
        assert [one[:5] for one in comparable_tree(again)[: len(kept)]] == [one[:5] for one in kept]
        assert cut <= end or comparable_tree(again) == comparable_tree(whole.log), "a limit that is recorded holds"
        counts = [len(seeds) for seeds in list_variant_seeds(again.state)]
        assert max(counts) <= min(counts) + 1 and sum(isinstance(one, LimitReached) for one in again.events) == 1
    free = Clocked(given, inf)
    for cut in (made[0], made[len(made) // 2] + 1):  # where time refuses nothing, the tree is the same
        assert comparable_tree(Clocked(given, inf, kept=free, cut=cut).log) == comparable_tree(free.log)


class Shared(SearchWorld):
    """All runs with one seed draw the same data, so that seeds differ widely and versions of the method little."""

    gains = True

    def draw_measurements(self, action: ExpandTree, rng: Random) -> tuple[Measurement, ...]:
        of = action.parent if action.kind == "replicate" else None
        kind = self.log.state.nodes[of].kind if of is not None else action.kind
        better = 0.02 * (kind in ("improve", "debug")) if self.gains else Random(f"{of or action}").uniform(-0.02, 0.02)
        own = 0.0 if self.gains else Random(f"{action}").uniform(-0.05, 0.05)
        drawn = Random(f"seed {action.seed}").uniform(0.2, 0.4)
        values = {arm.name: drawn + 0.2 - (arm.role == "method") * (0.1 + better) + own for arm in PLAN.arms}
        return tuple(measure(value, arm, seed=action.seed) for arm, value in values.items())


UNTUNED = PLAN.model_copy(update={"space": ()})


@pytest.mark.parametrize("order", ["ticket", "arrival"])
def test_a_gain_that_seeds_hide_is_found_by_pairs_of_runs_with_one_seed(order: str) -> None:
    log, _ = run_whole_search(
        buggy=0.0, world=Shared, plan=UNTUNED, num_seeds=3, order=order, agenda=StageLimits(nodes=3, num_seeds=5)
    )
    state = log.state
    best = state.nodes[state.search.stages["agenda"].best or ""]
    assert best.kind == "improve", "the prototype was kept for being cheaper"
    replicates = [one for one in state.list_stage_nodes("agenda") if one.kind == "replicate"]
    assert [one.parent for one in replicates if one.seed < FRESH_SEED_OFFSET] == [best.id] * 2
    compared = [one.action for one in state.decisions.values() if isinstance(one.action, CompareNodes)]
    assert all(one.stage != "agenda" for one in compared)
    trusted = find_trusted_replicates(state, best.id)
    assert all(one.seed >= FRESH_SEED_OFFSET for one in trusted), "no claim rests on them"
