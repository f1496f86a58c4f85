"""The parts of a repository taken out one by one: every part once, then the edge of the most important, then those that
may hide each other together, and what was found again on fresh seeds.

Each way to take a part out is a tree and words of its own, tried at one seed: where it fails, changes nothing that
runs, or leaves nothing of the model, the next way is tried. A part that no way took out is `not measured`, never 0; one
that every way breaks the program without, or that makes what predictions are scored against, is told and not ranked.

Source: AblateCell, its ablation phase; the policy is `search.arms`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TypeVar

from labwright.record.claims.means import MINIMUM_REPLICATES
from labwright.record.events.repository import AblationsSettled, PartsFound, Patched, Purpose
from labwright.record.nouns.repository import Command, CommandRun, Gate, Mutation, NotExamined, Part
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.mirror import changed
from labwright.sandbox.repository.trace import Trace, read_trace, untaught
from labwright.search.arms import (
    CONFIRM_SEEDS,
    Arm,
    advised_budget,
    group_test,
    harmful,
    near_zero,
    pick,
    pooled_sigma,
    ranked,
    shares,
    sweep_order,
)
from labwright.stages.repository.asking import Asking
from labwright.stages.repository.effects import (
    LEAST_RANKED,
    UNRANKED,
    Measured,
    at_the_floor,
    effect_of,
    floor_rule,
    interaction,
    patch_gate,
    rank_agreement,
    results,
    shows_more,
)
from labwright.stages.repository.inventory import LOSS_TERM, Inventory, inventory, is_strength
from labwright.stages.repository.runs import Runs, Setup

T = TypeVar("T")

WAYS = 3
"""Ways that are tried to take one part out."""
MUCH = {"max": 0.5, "min": 0.1}
"""Of the baseline: an effect from which on it is asked whether anything of the model is left. What is to be low ends
where chance is, which may lie close."""
SUSPECT = 0.5
"""Of the baseline: from which gain on it is asked whether a part makes what is scored."""
FRESH = 1000
"""The first of the seeds that nothing was chosen by."""


@dataclass
class _Tried:
    """What is known of a part: the way that stands for it, and its runs by seed."""

    part: Part
    way: int = -1
    gate: Gate = "failed"
    flag: str = ""
    effects: dict[int, float | None] = field(default_factory=dict[int, "float | None"])
    at_floor: dict[int, float] = field(default_factory=dict[int, float])
    under_way: int = 0
    runs: int = 0

    @property
    def arm(self) -> Arm:
        found = tuple(one for one in self.effects.values() if one is not None)
        settled = self.gate in ("no effect", "not reached")
        return Arm(
            self.part.name,
            self.part.prior,
            found,
            failed=sum(one is None for one in self.effects.values()),
            in_flight=self.under_way,
            settled=settled,
        )

    @property
    def mutation(self) -> Mutation:
        return self.part.mutations[self.way]

    @property
    def is_loss(self) -> bool:
        """Whether it is the term of the loss without which nothing is learnt: plumbing, as the whole loss is."""
        return self.gate in ("at the floor", "breaks the program") and self.part.why == LOSS_TERM

    @property
    def is_ranked(self) -> bool:
        """Whether what it does is its importance."""
        return self.gate not in UNRANKED and not self.is_loss and bool(self.effects)


@dataclass
class Ablation:
    """One study of a repository whose baseline runs."""

    runs: Runs
    setup: Setup
    seeds: tuple[int, ...]
    """Those of the baseline, the first of which every part is taken out at."""
    top: int = 5
    budget: int | None = None
    """Runs in all; None: what `search.arms.advised_budget` says."""
    proxy: Command | None = None
    """A cheaper command by which parts are ranked; what is reported comes of the full one."""
    asking: Asking | None = None
    """A model that weighs what was found, and patches what no rule takes out; None: nobody is asked."""
    _tried: dict[str, _Tried] = field(default_factory=dict[str, _Tried])
    _trace: Trace = field(default_factory=Trace)
    _repeatable: bool = True
    _lowering: asyncio.Task[float | None] | None = None
    _together: tuple[str, ...] = ()

    async def ablate(self) -> AblationsSettled:
        """What every part does. Raises `ExecutorError`."""
        if (known := self.runs.code.settled) is not None:
            return known
        found = await self._parts()
        if not found.parts:
            settled = AblationsSettled(
                results=(), top=(), runs=self._spent, stopped=("no part was found that a run can be made without")
            )
            self.runs.recorder.append(settled)
            return settled
        if self.proxy is not None:
            await _all(self._run(self.setup.tree, (), seed, "baseline", ()) for seed in self.seeds)
        await self._first_values(found)
        self._together = await self._twins()
        await self._edge(found)
        settled = await self._confirmed(found)
        self.runs.recorder.append(settled)
        return settled

    # --- what there is ------------------------------------------------------------------------------------------------

    async def _parts(self) -> PartsFound:
        baseline = self.runs.code.baseline
        assert baseline is not None
        self._repeatable = baseline.same_seed == "same digits"
        traced = await self.runs.make(self.setup, self.seeds[0], "trace", repeat=1, traced=True)
        self._trace = await asyncio.to_thread(read_trace, self.runs.folder_of(traced))
        if (known := self.runs.code.parts) is None:
            texts = await asyncio.to_thread(self.runs.mirror.texts, self.setup.tree)
            found = inventory(texts, self.setup.command, self._trace)
            if self.asking is not None:
                found = await self.asking.parts(found, self.setup.command, self._trace, texts)
            known = self._within_budget(found)
            self.runs.recorder.append(known)
        self._tried = {part.name: _Tried(part) for part in known.parts}
        return known

    def _within_budget(self, found: Inventory) -> PartsFound:
        """The parts that the budget has runs for, by prior; the rest is told."""
        more = len(self.seeds) + LEAST_RANKED if self.proxy is not None else 0
        budget = self.budget or advised_budget(len(found.parts), k=self.top) + more
        most = shares(len(found.parts), budget, k=self.top, baseline=len(self.seeds) + 2).explored
        names = sweep_order({part.name: part.prior for part in found.parts})[:most]
        left = tuple(
            NotExamined(name=part.name, kind="budget", why=f"no runs are left for it of {budget}")
            for part in found.parts
            if part.name not in names
        )
        return PartsFound(
            parts=tuple(part for part in found.parts if part.name in names),
            rest=(*found.rest, *left),
            floors=found.floors,
            budget=budget,
        )

    # --- every part once ----------------------------------------------------------------------------------------------

    async def _first_values(self, found: PartsFound) -> None:
        order = sweep_order({one.part.name: one.part.prior for one in self._tried.values()})
        await _all([self._first_value(self._tried[name]) for name in order])

    async def _first_value(self, one: _Tried) -> None:
        """Take a part out by the first way that works; of several that leave nothing the one that loses least.

        Where no way by rule takes it out, a model is asked for a patch.
        """
        await self._by_ways(one, range(min(WAYS, len(one.part.mutations))))
        if one.gate == "moved" and await self._makes_what_is_scored(one):
            one.gate = "changes what is scored"
        if one.way >= 0 or one.at_floor or self.asking is None:
            return
        tried = [
            f"{one.part.mutations[way].what}: {known.gate}" + (f" ({known.why})" if known.why else "")
            for (name, way), known in self.runs.code.patched.items()
            if name == one.part.name
        ]
        texts = await asyncio.to_thread(self.runs.mirror.texts, self.setup.tree)
        mutation, why = await self.asking.patch(one.part, tried, self.setup.command, texts)
        way = len(one.part.mutations)
        if mutation is None:
            one.gate = self._gated(one.part.name, way, None, "unverified", why)
            return
        one.part = one.part.model_copy(update={"mutations": (*one.part.mutations, mutation)})
        await self._by_ways(one, range(way, way + 1))

    async def _by_ways(self, one: _Tried, ways: Iterable[int]) -> None:
        for way in ways:
            gate, effect = await self._tried_way(one, way)
            if gate == "moved" and effect is not None:
                one.way, one.gate, one.effects = way, gate, {self.seeds[0]: effect}
                return
            if gate == "at the floor" and effect is not None:
                one.at_floor[way] = effect
            elif gate == "no effect":
                one.way, one.gate, one.effects = way, gate, {self.seeds[0]: 0.0}
                return
            elif one.way < 0:
                one.gate = gate
        if one.at_floor and self._baseline is not None and (floor := await self._lowest()) is not None:
            ranks = floor_rule(
                self.setup.command.direction,
                self._baseline,
                floor,
                [(str(way), effect) for way, effect in one.at_floor.items()],
            )
            assert ranks.ranked is not None and ranks.effect is not None
            one.way, one.effects = int(ranks.ranked), {self.seeds[0]: ranks.effect}
            # what can be left out by its option, or gives back its argument, may be as important as all of the model;
            # through zeros nothing passes, whatever they stand for
            whole = ranks.effect >= ranks.gap or one.mutation.kind == "zero"
            one.gate, one.flag = ("breaks the program", "") if whole else ("at the floor", ranks.flag)
        elif (
            one.way < 0
            and not one.at_floor
            and any(
                "is not finite" in self.runs.code.patched[one.part.name, way].why
                for way in ways
                if (one.part.name, way) in self.runs.code.patched
            )
        ):
            one.gate = "breaks the program"

    async def _tried_way(self, one: _Tried, way: int) -> tuple[Gate, float | None]:
        mutation, name = one.part.mutations[way], one.part.name
        tree = self._tree([mutation])
        if tree is None or (tree == self.setup.tree and not mutation.words):
            return self._gated(name, way, tree, "no change"), None
        run = await self._run(tree, mutation.words, self.seeds[0], "search", (name,))
        if run is None:
            return "failed", None
        one.runs += 1
        baseline = self._baseline
        if run.value is None or baseline is None:
            return self._gated(name, way, tree, "failed", run.failure.message if run.failure else ""), None
        gate = patch_gate(baseline, run.value, reached=self._reached(mutation), repeatable=self._repeatable)
        effect = effect_of(self.setup.command.direction, [baseline], [run.value]).mean
        if gate == "moved" and effect is not None and (effect >= MUCH[self.setup.command.direction] * abs(baseline)):
            floor = await self._lowest()
            gap = (baseline - floor) * (1 if self.setup.command.direction == "max" else -1) if floor is not None else 0
            gate = "at the floor" if at_the_floor(effect, gap) else gate
        return self._gated(name, way, tree, gate), effect

    async def _lowest(self) -> float | None:
        """The metric where nothing of the model is left, run once it is asked for; None where no way leads there."""
        if self._lowering is None:
            self._lowering = asyncio.create_task(self._run_floors())
        return await self._lowering

    async def _run_floors(self) -> float | None:
        found = self.runs.code.parts
        for floor in found.floors if found is not None else ():
            if (tree := self._tree([floor])) is not None:
                run = await self._run(tree, floor.words, self.seeds[0], "search", ("the whole model",))
                if run is not None and self._is_lower(run.value):
                    return run.value
        untrained = replace(
            self._searching,
            command=self._searching.command.model_copy(update={"env": self._searching.command.env | untaught()}),
        )
        run = await self._run(self.setup.tree, (), self.seeds[0], "search", ("the whole training",), untrained)
        return run.value if run is not None and self._is_lower(run.value) else None

    def _is_lower(self, value: float | None) -> bool:
        """Whether a value is worse than the baseline's: where it is not, something else than the model was
        taken away.
        """
        baseline = self._baseline
        return (
            value is not None
            and baseline is not None
            and (value < baseline if self.setup.command.direction == "max" else value > baseline)
        )

    async def _makes_what_is_scored(self, one: _Tried) -> bool:
        """Whether a part without which the result is far better makes what predictions are held against: nothing that
        is scored is as it was, by a traced run."""
        baseline, effect = self._baseline, one.effects.get(self.seeds[0])
        if baseline is None or effect is None or effect > -SUSPECT * abs(baseline):
            return False
        tree = self._tree([one.mutation])
        if tree is None or self._spent >= self._budget:
            return False
        run = await self.runs.make(
            replace(self._searching, tree=tree),
            self.seeds[0],
            "search",
            repeat=1,
            traced=True,
            words=one.mutation.words,
            parts=(one.part.name,),
        )
        again = await asyncio.to_thread(read_trace, self.runs.folder_of(run))
        return self._trace.scores_other(again)

    @property
    def _budget(self) -> int:
        found = self.runs.code.parts
        assert found is not None
        return found.budget

    def _gated(self, part: str, way: int, tree: str | None, gate: Gate, why: str = "") -> Gate:
        if (part, way) not in self.runs.code.patched:
            self.runs.recorder.append(Patched(part=part, way=way, tree=tree or "", gate=gate, why=why[:300]))
        return gate

    def _reached(self, mutation: Mutation) -> bool | None:
        """Whether lines that it changes ran in the traced run; None where none are."""
        spans = [self._span(edit.path, edit.old) for edit in mutation.edits if edit.path.endswith(".py")]
        return any(self._trace.ran(path, lines) for path, lines in spans) if spans else None

    def _span(self, path: str, piece: str) -> tuple[str, range]:
        text = self.runs.mirror.texts(self.setup.tree).get(path, "")
        first = text[: max(0, text.find(piece))].count("\n") + 1
        return path, range(first, first + piece.count("\n") + 1)

    def _tree(self, mutations: Iterable[Mutation]) -> str | None:
        """The files with all of these edits; None where they do not fit together."""
        texts: dict[str, str] = {}
        try:
            for edit in (edit for mutation in mutations for edit in mutation.edits):
                before = texts.get(edit.path) or self.runs.mirror.texts(self.setup.tree).get(edit.path)
                texts[edit.path] = changed(before, edit)
        except RepositoryError:
            return None
        return self.runs.mirror.with_files(self.setup.tree, texts) if texts else self.setup.tree

    # --- the edge of the most important -------------------------------------------------------------------------------

    async def _edge(self, found: PartsFound) -> None:
        """Runs where they tell the k-th from the next, until that is told or what is left is kept for confirming."""
        kept = CONFIRM_SEEDS * (1 + len(self._to_confirm(found)))
        waiting: set[asyncio.Task[None]] = set()
        while True:
            while len(waiting) < self.runs.executor.slots and (
                self._spent + kept + 2 * (1 + len(waiting)) <= found.budget
            ):
                chosen = pick(self._candidates(), sigma=self._sigma, k=self.top)
                if chosen.next is None or chosen.separated or not isfinite(self._sigma) or not self._sigma:
                    break
                waiting.add(asyncio.create_task(self._again(self._tried[chosen.next])))
            if not waiting:
                return
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    def _candidates(self) -> list[Arm]:
        """The parts that may be among the most important: not those that harm, which are told apart."""
        arms = [one.arm for one in self._tried.values() if one.is_ranked]
        harms = set(harmful(arms, self._sigma)) if isfinite(self._sigma) else set[str]()
        return [one for one in arms if one.name not in harms]

    async def _again(self, one: _Tried) -> None:
        """One more effect of a part, at the next seed."""
        one.under_way += 1
        seed = next(seed for seed in (*self.seeds, *range(max(self.seeds) + 1, FRESH)) if seed not in one.effects)
        one.effects[seed] = None
        try:
            base, run = await asyncio.gather(
                self._run(self.setup.tree, (), seed, "baseline", ()),
                self._run(self._tree([one.mutation]) or "", one.mutation.words, seed, "search", (one.part.name,)),
            )
            one.runs += 1
            if base is not None and run is not None and base.value is not None and run.value is not None:
                one.effects[seed] = effect_of(self.setup.command.direction, [base.value], [run.value]).mean
        finally:
            one.under_way -= 1

    @property
    def _sigma(self) -> float:
        """Of one effect, from what was repeated and the baseline's seeds."""
        return pooled_sigma((one.arm.effects for one in self._tried.values()), self._baselines).sigma

    # --- those that hide each other -----------------------------------------------------------------------------------

    async def _twins(self) -> tuple[str, ...]:
        """The least set that matters only together; empty where none was found.

        Of what only has a strength none is among them: with the strengths of all at zero, programs break.
        """
        sigma = self._sigma
        arms = [one.arm for one in self._tried.values() if one.is_ranked and not is_strength(one.mutation)]
        names = near_zero(arms, sigma, self.top) if isfinite(sigma) else []
        if len(names) < 2:
            return ()
        search = group_test(names)
        try:
            subset = next(search)
            while True:
                joint = await self._joint(subset)
                singles = [self._tried[name].arm.mean for name in subset]
                subset = search.send(joint is not None and shows_more(singles, joint, sigma=sigma))
        except StopIteration as ended:
            least: tuple[str, ...] = ended.value
        if len(least) < 2 or (joint := await self._joint(least)) is None:
            return ()
        singles = [self._tried[name].arm.mean for name in least]
        return least if interaction(singles, joint, sigma=sigma).twins else ()

    async def _joint(self, names: Sequence[str]) -> float | None:
        """The effect of taking several parts out together, at the first seed."""
        ways = [self._tried[name].mutation for name in names]
        tree, words = self._tree(ways), tuple(word for way in ways for word in way.words)
        if tree is None or self._baseline is None:
            return None
        run = await self._run(tree, words, self.seeds[0], "joint", names)
        if run is None or run.value is None:
            return None
        return effect_of(self.setup.command.direction, [self._baseline], [run.value]).mean

    # --- on fresh seeds -----------------------------------------------------------------------------------------------

    async def _confirmed(self, found: PartsFound) -> AblationsSettled:
        sets = self._to_confirm(found)
        seeds = [FRESH + at for at in range(CONFIRM_SEEDS)]
        base = dict(
            zip(seeds, await _all([self._run(self.setup.tree, (), seed, "confirm", ()) for seed in seeds]), strict=True)
        )
        sets += self._spare(found, sets)
        again = await _all([self._repeated(names, seeds, base) for names in sets])
        agreement = (
            await self._agreement(
                {names[0]: one for names, one in zip(sets, again, strict=True) if len(names) == 1}, base
            )
            if self.proxy is not None
            else None
        )
        confirmed = {"+".join(names): one for names, one in zip(sets, again, strict=True)}
        rows = results(
            [
                *(confirmed.get(name) or self._once(one) for name, one in self._tried.items()),
                *([confirmed["+".join(self._together)]] if self._together else []),
            ],
            direction=self.setup.command.direction,
            paired=self.setup.command.seeded,
        )
        rows = sorted(
            rows, key=lambda row: (row.called in (*UNRANKED, "not measured", "not reached"), -abs(row.mean or 0.0))
        )
        # by what fresh seeds say, where they were run
        among = {arm.name for arm in self._candidates()}
        best = [row.part for row in rows if row.part in among][: self.top]
        return AblationsSettled(
            results=tuple(rows),
            top=tuple(best),
            runs=self._spent,
            agreement=agreement,
            stopped=""
            if all((name,) in sets for name in best)
            else (f"the budget of {found.budget} runs confirms {sum(len(one) == 1 for one in sets)} parts"),
        )

    def _spare(self, found: PartsFound, sets: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """What else goes to fresh seeds, as far as the budget has runs left: the other parts, by what was seen."""
        others = [
            one for one in ranked([one.arm for one in self._tried.values() if one.is_ranked]) if (one.name,) not in sets
        ]
        rest = {(one.name,) for one in others}
        made = sum(one.purpose == "confirm" and one.parts in rest for one in self.runs.code.runs.values())
        ahead = sum(self._owed(names) for names in sets)
        left = found.budget - (self._spent - made) - ahead
        return [(one.name,) for one in others][: max(0, left // CONFIRM_SEEDS)]

    def _owed(self, names: tuple[str, ...]) -> int:
        """Runs on fresh seeds that were not made of what was chosen."""
        made = sum(one.purpose == "confirm" and one.parts == names for one in self.runs.code.runs.values())
        return max(0, CONFIRM_SEEDS - made)

    async def _agreement(self, confirmed: dict[str, Measured], base: Mapping[int, CommandRun | None]) -> float | None:
        """How alike the proxy and the full command rank parts, over at least `LEAST_RANKED` of them."""
        full: dict[str, float] = {}
        for name, one in confirmed.items():
            seeds = sorted(one.baseline)
            effect = effect_of(
                self.setup.command.direction,
                [one.baseline[seed] for seed in seeds],
                [one.ablated[seed] for seed in seeds],
            ).mean
            full |= {name: effect} if effect is not None else {}
        seed, first = next(iter(base.items()))
        for arm in ranked([one.arm for one in self._tried.values() if one.is_ranked]):
            if len(full) >= LEAST_RANKED or first is None or first.value is None:
                break
            one = self._tried[arm.name]
            if arm.name not in full and (tree := self._tree([one.mutation])) is not None:
                run = await self._run(tree, one.mutation.words, seed, "confirm", (arm.name,))
                if run is not None and run.value is not None:
                    full[arm.name] = effect_of(self.setup.command.direction, [first.value], [run.value]).mean or 0.0
        return rank_agreement({name: self._tried[name].arm.mean for name in full}, full)

    def _to_confirm(self, found: PartsFound) -> list[tuple[str, ...]]:
        """What goes to fresh seeds: the most important parts, the one that harms most, those found together."""
        most = shares(len(found.parts), found.budget, k=self.top, baseline=len(self.seeds) + 2).confirmed
        sets = [(name,) for name in dict.fromkeys((*self._best[:most], *self._harms))]
        return [*sets, *([self._together] if self._together else [])]

    @property
    def _best(self) -> list[str]:
        return [one.name for one in ranked(self._candidates())][: self.top]

    @property
    def _harms(self) -> list[str]:
        arms = [one.arm for one in self._tried.values() if one.is_ranked]
        return harmful(arms, self._sigma)[:1] if isfinite(self._sigma) else []

    async def _repeated(
        self, names: Sequence[str], seeds: Sequence[int], base: dict[int, CommandRun | None]
    ) -> Measured:
        tried = [self._tried[name] for name in names]
        ways = [one.mutation for one in tried]
        tree, words = self._tree(ways), tuple(word for way in ways for word in way.words)
        assert tree is not None
        runs = await _all([self._run(tree, words, seed, "confirm", names) for seed in seeds])
        kept = [run.id for run in (*runs, *base.values()) if run is not None]
        gate = tried[0].gate if len(tried) == 1 else "moved"
        if gate == "no effect" and any(
            run is not None and (one := base[seed]) is not None and run.value != one.value
            for seed, run in zip(seeds, runs, strict=True)
        ):
            gate = "moved"  # at the seed of the search the metric did not show it
        return Measured(
            "+".join(names),
            "; ".join(way.what for way in ways),
            ", ".join(_where(one.part) for one in tried),
            gate=gate,
            flag="" if len(tried) == 1 else "together",
            baseline={seed: run.value if run is not None else None for seed, run in base.items()},
            ablated={seed: run.value if run is not None else None for seed, run in zip(seeds, runs, strict=True)},
            found_with=sum(one.runs for one in tried),
            runs=tuple(kept),
        )

    def _once(self, one: _Tried) -> Measured:
        """A part that was not taken to fresh seeds: what the search saw is told, and nothing is called of it."""
        mutation = one.mutation.what if one.way >= 0 else ", ".join(way.what for way in one.part.mutations[:WAYS])
        seen = {seed: effect for seed, effect in one.effects.items() if effect is not None}
        seen = dict(list(seen.items())[: MINIMUM_REPLICATES - 1])
        base = {seed: run.value for seed in seen if (run := self.runs.made(self._searching, seed)) is not None}
        sign = 1 if self.setup.command.direction == "max" else -1
        gone = {seed: value - sign * seen[seed] for seed, value in base.items() if value is not None}
        flag = "" if not seen else "seen in the search" if self.proxy is None else "seen by the proxy"
        flag = "the loss itself: nothing is learnt without it" if one.is_loss else flag
        return Measured(
            one.part.name,
            mutation,
            _where(one.part),
            gate=one.gate,
            baseline=base,
            ablated=gone,
            flag=flag,
            found_with=one.runs,
        )

    # --- runs and what is left of them --------------------------------------------------------------------------------

    async def _run(
        self,
        tree: str,
        words: Sequence[str],
        seed: int,
        purpose: Purpose,
        parts: Sequence[str],
        setup: Setup | None = None,
    ) -> CommandRun | None:
        """A run, if it was made or the budget has one left; `setup`: of what other than the study's."""
        setup = replace(setup or (self.setup if purpose == "confirm" else self._searching), tree=tree)
        found = self.runs.code.parts
        known = self.runs.made(setup, seed, words=words)
        if known is None and found is not None and self._spent >= found.budget:
            return None
        return known or await self.runs.make(setup, seed, purpose, words=words, parts=parts)

    @property
    def _searching(self) -> Setup:
        """What the search runs: the cheaper command, where there is one."""
        return self.setup if self.proxy is None else replace(self.setup, command=self.proxy)

    @property
    def _spent(self) -> int:
        """Runs that were made or are under way, but for those of repairs that did not give a value."""
        made = sum(one.purpose != "repair" for one in self.runs.code.runs.values())
        return made + 1 + self.runs.under_way

    @property
    def _baselines(self) -> list[float]:
        """Values of the baseline on its seeds, and on those that parts were repeated at."""
        made = (
            self.runs.made(self._searching, seed) for seed in (*self.seeds, *range(max(self.seeds) + 1, FRESH // 50))
        )
        return [run.value for run in made if run is not None and run.value is not None]

    @property
    def _baseline(self) -> float | None:
        run = self.runs.made(self._searching, self.seeds[0])
        return run.value if run is not None else None


async def _all(work: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*work))


def _where(part: Part) -> str:
    return f"{part.path}:{part.line}"
