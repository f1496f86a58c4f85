"""Ablate the components of a repository within a budget of runs.

First every component is ablated once. Then runs are spent on the border between the most important components and the
rest, components that may mask each other are ablated together, and findings are confirmed on fresh seeds.

Each mutation of a component has its own tree and command words and is tried at one seed. If it fails, has no
effect on the run, or removes the whole model, the next mutation is tried. A component that no mutation can ablate is
`not measured`, never 0. A component without which the program cannot run, or that produces the data against which
predictions are scored, is reported but not ranked. Source: AblateCell, ablation phase; the policy is
`search.ablation_bandit`.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TypeVar

from labwright.record.baseline_check import parse_expected
from labwright.record.claims.estimates import MIN_REPLICATES
from labwright.record.events.repository_events import (
    AblationsConcluded,
    CommandFound,
    CommandPurpose,
    MutationTried,
    PartsFound,
)
from labwright.record.schema.repository import (
    CommandRun,
    MutationOutcome,
    RepositoryCommand,
    RepositoryMutation,
    RepositoryPart,
    UnexaminedPart,
)
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.sandbox.repository.trace import CallTrace, build_no_training_variables, read_trace
from labwright.search.ablation_bandit import (
    CONFIRM_SEEDS,
    BanditArm,
    advise_budget,
    compute_pooled_sigma,
    find_harmful,
    find_near_zero,
    order_sweep,
    pick_arm,
    rank_arms,
    run_group_test,
    split_budget,
)
from labwright.stages.repository.ablation_stats import (
    MIN_RANKED_PARTS,
    UNRANKED_GATES,
    PartMeasurements,
    apply_floor_rule,
    build_results,
    classify_patch_run,
    compute_effect,
    compute_interaction,
    compute_rank_agreement,
    exceeds_sum,
    is_at_floor,
)
from labwright.stages.repository.baseline_reproduction import (
    BASELINE_SEEDS,
    RepositoryReproduction,
    choose_command,
    to_command_found,
)
from labwright.stages.repository.command_runs import CommandRunner, CommandSetup
from labwright.stages.repository.component_discovery import (
    LOSS_TERM,
    ComponentInventory,
    discover_components,
    is_strength,
)
from labwright.stages.repository.model_queries import ModelQueries
from labwright.stages.run_context import RunContext

T = TypeVar("T")


async def reproduce(context: RunContext) -> None:
    """Find the command of the repository, repair it if needed, and check its result."""
    await _open_reproduction(context, await _find_command(context)).reproduce()


async def ablate(context: RunContext) -> None:
    """Ablate the components of the repository if its baseline is accepted."""
    code, options = context.state.repository_state, context.ablation
    found, baseline = code.command, code.baseline
    if found is None or baseline is None or options.reproduce_only:
        return
    accepted = baseline.verdict in ("reproduced", "unchecked")
    if not accepted and not (baseline.verdict == "differs" and options.accept_baseline):
        return
    work = _open_reproduction(context, found)
    words = tuple(shlex.split(options.proxy))
    proxy = work.setup.command.model_copy(update={"argv": words}) if words else None
    await RepositoryAblation(
        work.runs, work.setup, BASELINE_SEEDS, options.top, options.budget_runs, proxy, work.queries
    ).ablate()


def _open_reproduction(context: RunContext, found: CommandFound) -> RepositoryReproduction:
    repository, executor = context.repository, context.executor
    assert repository is not None and repository.environment is not None and isinstance(executor, LocalExecutor)
    runs = CommandRunner(
        context.recorder,
        executor,
        repository.mirror,
        context.folder.root,
        context.node_seconds,
        context.sandbox.device,
        tuple(shlex.split(context.code.resume)),
        context.signals,
    )
    setup = CommandSetup(context.code.tree, found.command, repository.environment)
    return RepositoryReproduction(
        runs, context.sandbox, setup, found.expected, queries=ModelQueries(context.models, context.recorder)
    )


async def _find_command(context: RunContext) -> CommandFound:
    if (known := context.state.repository_state.command) is not None:
        return known
    code, repository = context.code, context.repository
    assert repository is not None
    texts = repository.mirror.read_texts(code.tree)
    given = code.command_record if code.command else None
    found = choose_command(texts, given, code.metric, direction=code.direction, scale=code.scale)
    if found is None:
        asking = ModelQueries(context.models, context.recorder)
        found = to_command_found(await asking.choose_command(texts, given, code.metric), code.scale)
    context.recorder.append(
        found.model_copy(
            update={
                "expected": parse_expected(code.expect) if code.expect else found.expected,
                "command": found.command.model_copy(update={"env": found.command.env | code.env}),
            }
        )
    )
    assert context.state.repository_state.command is not None
    return context.state.repository_state.command


MAX_WAYS_PER_PART = 3
"""Maximum number of mutations tried per component."""
LARGE_EFFECT_SHARES = {"max": 0.5, "min": 0.1}
"""Share of the baseline, by direction of the metric, above which an effect is compared with the floor. A metric to
be minimized is bounded by chance level, which may be close to the baseline.
"""
SUSPECT_GAIN_SHARE = 0.5
"""Share of the baseline; a larger gain raises the question whether the component produces the scored data."""
FIRST_FRESH_SEED = 1000
"""First of the fresh seeds, which no selection has used."""


@dataclass
class _PartState:
    """State of a component: its selected mutation and its effects by seed."""

    part: RepositoryPart
    way: int = -1
    gate: MutationOutcome = "failed"
    flag: str = ""
    effects: dict[int, float | None] = field(default_factory=dict[int, "float | None"])
    at_floor: dict[int, float] = field(default_factory=dict[int, float])
    under_way: int = 0
    runs: int = 0

    @property
    def arm(self) -> BanditArm:
        found = tuple(one for one in self.effects.values() if one is not None)
        settled = self.gate in ("no effect", "not reached")
        return BanditArm(
            self.part.name,
            self.part.prior,
            found,
            failed_runs=sum(one is None for one in self.effects.values()),
            in_flight=self.under_way,
            is_settled=settled,
        )

    @property
    def mutation(self) -> RepositoryMutation:
        return self.part.mutations[self.way]

    @property
    def is_loss(self) -> bool:
        """Whether the component is the only loss term that makes the model learn; it then counts as plumbing, like the
        whole loss.
        """
        return self.gate in ("at the floor", "breaks the program") and self.part.why == LOSS_TERM

    @property
    def is_ranked(self) -> bool:
        """Whether the component's effect counts as its importance."""
        return self.gate not in UNRANKED_GATES and not self.is_loss and bool(self.effects)


@dataclass
class RepositoryAblation:
    """The ablation study of a repository whose baseline works."""

    runs: CommandRunner
    setup: CommandSetup
    seeds: tuple[int, ...]
    """Seeds of the baseline; every component is ablated at the first."""
    top: int = 5
    budget: int | None = None
    """Maximum number of runs; None: `search.ablation_bandit.advise_budget` decides."""
    proxy: RepositoryCommand | None = None
    """A cheaper command used to rank components; reported values come from full runs."""
    queries: ModelQueries | None = None
    """A model that assesses the components found and writes patches where no rule applies; None: no model is asked."""
    _part_states: dict[str, _PartState] = field(default_factory=dict[str, _PartState])
    _trace: CallTrace = field(default_factory=CallTrace)
    _repeatable: bool = True
    _floor_task: asyncio.Task[float | None] | None = None
    _joint_set: tuple[str, ...] = ()

    async def ablate(self) -> AblationsConcluded:
        """Measure the effect of every component. Raises `ExecutorError`."""
        if (known := self.runs.code_state.ablation_results) is not None:
            return known
        found = await self._find_parts()
        if not found.parts:
            settled = AblationsConcluded(
                results=(), top=(), runs=self._runs_spent, stopped=("no part was found that a run can do without")
            )
            self.runs.recorder.append(settled)
            return settled
        if self.proxy is not None:
            await _gather(self._run(self.setup.tree, (), seed, "baseline", ()) for seed in self.seeds)
        await self._measure_all_parts(found)
        self._joint_set = await self._find_joint_set()
        await self._separate_top(found)
        settled = await self._confirm(found)
        self.runs.recorder.append(settled)
        return settled

    # --- discovery ----------------------------------------------------------------------------------------------------

    async def _find_parts(self) -> PartsFound:
        baseline = self.runs.code_state.baseline
        assert baseline is not None
        self._repeatable = baseline.same_seed == "same digits"
        traced = await self.runs.run(self.setup, self.seeds[0], "trace", repeat=1, traced=True)
        self._trace = await asyncio.to_thread(read_trace, self.runs.find_run_folder(traced))
        if (known := self.runs.code_state.parts) is None:
            texts = await asyncio.to_thread(self.runs.mirror.read_texts, self.setup.tree)
            found = discover_components(texts, self.setup.command, self._trace)
            if self.queries is not None:
                found = await self.queries.assess_parts(found, self.setup.command, self._trace, texts)
            known = self._limit_to_budget(found)
            self.runs.recorder.append(known)
        self._part_states = {part.name: _PartState(part) for part in known.parts}
        return known

    def _limit_to_budget(self, found: ComponentInventory) -> PartsFound:
        """Keep the components that the budget allows, by prior; list the others as not examined."""
        more = len(self.seeds) + MIN_RANKED_PARTS if self.proxy is not None else 0
        budget = self.budget or advise_budget(len(found.parts), k=self.top) + more
        most = split_budget(len(found.parts), budget, k=self.top, baseline=len(self.seeds) + 2).explored
        names = order_sweep({part.name: part.prior for part in found.parts})[:most]
        left = tuple(
            UnexaminedPart(name=part.name, kind="budget", why=f"the budget of {budget} runs is used up")
            for part in found.parts
            if part.name not in names
        )
        return PartsFound(
            parts=tuple(part for part in found.parts if part.name in names),
            rest=(*found.rest, *left),
            floors=found.floors,
            budget=budget,
        )

    # --- one run per component ----------------------------------------------------------------------------------------

    async def _measure_all_parts(self, found: PartsFound) -> None:
        order = order_sweep({one.part.name: one.part.prior for one in self._part_states.values()})
        await _gather([self._measure_part(self._part_states[name]) for name in order])

    async def _measure_part(self, one: _PartState) -> None:
        """Ablate a component with the first mutation that works; if all remove the whole model, use the one with
        the smallest loss.

        If no rule-based mutation works, ask a model for a patch.
        """
        await self._try_ways(one, range(min(MAX_WAYS_PER_PART, len(one.part.mutations))))
        if one.gate == "moved" and await self._changes_scored_data(one):
            one.gate = "changes what is scored"
        if one.way >= 0 or one.at_floor or self.queries is None:
            return
        tried = [
            f"{one.part.mutations[way].what}: {known.gate}" + (f" ({known.why})" if known.why else "")
            for (name, way), known in self.runs.code_state.tried_mutations.items()
            if name == one.part.name
        ]
        texts = await asyncio.to_thread(self.runs.mirror.read_texts, self.setup.tree)
        mutation, why = await self.queries.write_patch(one.part, tried, self.setup.command, texts)
        way = len(one.part.mutations)
        if mutation is None:
            one.gate = self._record_gate(one.part.name, way, None, "unverified", why)
            return
        one.part = one.part.model_copy(update={"mutations": (*one.part.mutations, mutation)})
        await self._try_ways(one, range(way, way + 1))

    async def _try_ways(self, one: _PartState, ways: Iterable[int]) -> None:
        for way in ways:
            gate, effect = await self._try_way(one, way)
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
        if one.at_floor and self._first_baseline is not None and (floor := await self._find_floor()) is not None:
            ranks = apply_floor_rule(
                self.setup.command.direction,
                self._first_baseline,
                floor,
                [(str(way), effect) for way, effect in one.at_floor.items()],
            )
            assert ranks.ranked is not None and ranks.effect is not None
            one.way, one.effects = int(ranks.ranked), {self.seeds[0]: ranks.effect}
            # A component removed by its option or replaced by its argument may be as important as the whole model;
            # nothing passes through zeros, whatever the component does.
            whole = ranks.effect >= ranks.gap or one.mutation.kind == "zero"
            one.gate, one.flag = ("breaks the program", "") if whole else ("at the floor", ranks.flag)
        elif (
            one.way < 0
            and not one.at_floor
            and any(
                "is not finite" in self.runs.code_state.tried_mutations[one.part.name, way].why
                for way in ways
                if (one.part.name, way) in self.runs.code_state.tried_mutations
            )
        ):
            one.gate = "breaks the program"

    async def _try_way(self, one: _PartState, way: int) -> tuple[MutationOutcome, float | None]:
        mutation, name = one.part.mutations[way], one.part.name
        tree = self._build_tree([mutation])
        if tree is None or (tree == self.setup.tree and not mutation.words):
            return self._record_gate(name, way, tree, "no change"), None
        run = await self._run(tree, mutation.words, self.seeds[0], "search", (name,))
        if run is None:
            return "failed", None
        one.runs += 1
        baseline = self._first_baseline
        if run.value is None or baseline is None:
            return self._record_gate(name, way, tree, "failed", run.failure.message if run.failure else ""), None
        gate = classify_patch_run(baseline, run.value, reached=self._is_reached(mutation), repeatable=self._repeatable)
        effect = compute_effect(self.setup.command.direction, [baseline], [run.value]).mean
        if (
            gate == "moved"
            and effect is not None
            and (effect >= LARGE_EFFECT_SHARES[self.setup.command.direction] * abs(baseline))
        ):
            floor = await self._find_floor()
            gap = (baseline - floor) * (1 if self.setup.command.direction == "max" else -1) if floor is not None else 0
            gate = "at the floor" if is_at_floor(effect, gap) else gate
        return self._record_gate(name, way, tree, gate), effect

    async def _find_floor(self) -> float | None:
        """Return the metric with the whole model removed, measured on first use; None if it cannot be measured."""
        if self._floor_task is None:
            self._floor_task = asyncio.create_task(self._run_floors())
        return await self._floor_task

    async def _run_floors(self) -> float | None:
        found = self.runs.code_state.parts
        for floor in found.floors if found is not None else ():
            if (tree := self._build_tree([floor])) is not None:
                run = await self._run(tree, floor.words, self.seeds[0], "search", ("the whole model",))
                if run is not None and self._is_worse(run.value):
                    return run.value
        untrained = replace(
            self._search_setup,
            command=self._search_setup.command.model_copy(
                update={"env": self._search_setup.command.env | build_no_training_variables()}
            ),
        )
        run = await self._run(self.setup.tree, (), self.seeds[0], "search", ("the whole training",), untrained)
        return run.value if run is not None and self._is_worse(run.value) else None

    def _is_worse(self, value: float | None) -> bool:
        """Return whether a value is worse than the baseline's. If it is not, something other than the model was
        removed."""
        baseline = self._first_baseline
        return (
            value is not None
            and baseline is not None
            and (value < baseline if self.setup.command.direction == "max" else value > baseline)
        )

    async def _changes_scored_data(self, one: _PartState) -> bool:
        """Return whether a component whose removal improves the result far too much produces the scoring targets: in a
        traced run, none of the scored data is the same as before."""
        baseline, effect = self._first_baseline, one.effects.get(self.seeds[0])
        if baseline is None or effect is None or effect > -SUSPECT_GAIN_SHARE * abs(baseline):
            return False
        tree = self._build_tree([one.mutation])
        if tree is None or self._runs_spent >= self._budget:
            return False
        run = await self.runs.run(
            replace(self._search_setup, tree=tree),
            self.seeds[0],
            "search",
            repeat=1,
            traced=True,
            words=one.mutation.words,
            parts=(one.part.name,),
        )
        again = await asyncio.to_thread(read_trace, self.runs.find_run_folder(run))
        return self._trace.is_scored_on_other_data(again)

    @property
    def _budget(self) -> int:
        found = self.runs.code_state.parts
        assert found is not None
        return found.budget

    def _record_gate(
        self, part: str, way: int, tree: str | None, gate: MutationOutcome, why: str = ""
    ) -> MutationOutcome:
        if (part, way) not in self.runs.code_state.tried_mutations:
            self.runs.recorder.append(MutationTried(part=part, way=way, tree=tree or "", gate=gate, why=why[:300]))
        return gate

    def _is_reached(self, mutation: RepositoryMutation) -> bool | None:
        """Return whether lines that a mutation changes ran in the traced run; None if it changes no Python code."""
        spans = [self._find_span(edit.path, edit.old) for edit in mutation.edits if edit.path.endswith(".py")]
        return any(self._trace.was_executed(path, lines) for path, lines in spans) if spans else None

    def _find_span(self, path: str, piece: str) -> tuple[str, range]:
        text = self.runs.mirror.read_texts(self.setup.tree).get(path, "")
        first = text[: max(0, text.find(piece))].count("\n") + 1
        return path, range(first, first + piece.count("\n") + 1)

    def _build_tree(self, mutations: Iterable[RepositoryMutation]) -> str | None:
        """Return the tree with the edits of all mutations; None if they conflict."""
        texts: dict[str, str] = {}
        try:
            for edit in (edit for mutation in mutations for edit in mutation.edits):
                before = texts.get(edit.path) or self.runs.mirror.read_texts(self.setup.tree).get(edit.path)
                texts[edit.path] = apply_edit(before, edit)
        except RepositoryError:
            return None
        return self.runs.mirror.replace_files(self.setup.tree, texts) if texts else self.setup.tree

    # --- the border of the top components -----------------------------------------------------------------------------

    async def _separate_top(self, found: PartsFound) -> None:
        """Spend runs on separating the k-th component from the next, until they are separated or only runs reserved for
        confirmation are left.
        """
        kept = CONFIRM_SEEDS * (1 + len(self._select_to_confirm(found)))
        waiting: set[asyncio.Task[None]] = set()
        while True:
            while len(waiting) < self.runs.executor.slots and (
                self._runs_spent + kept + 2 * (1 + len(waiting)) <= found.budget
            ):
                chosen = pick_arm(self._list_candidates(), sigma=self._sigma, k=self.top)
                if chosen.next is None or chosen.separated or not isfinite(self._sigma) or not self._sigma:
                    break
                waiting.add(asyncio.create_task(self._repeat_part(self._part_states[chosen.next])))
            if not waiting:
                return
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    def _list_candidates(self) -> list[BanditArm]:
        """Return the components that can rank among the most important. Harmful ones are reported separately."""
        arms = [one.arm for one in self._part_states.values() if one.is_ranked]
        harms = set(find_harmful(arms, self._sigma)) if isfinite(self._sigma) else set[str]()
        return [one for one in arms if one.name not in harms]

    async def _repeat_part(self, one: _PartState) -> None:
        """Measure a component's effect at the next seed."""
        one.under_way += 1
        seed = next(
            seed for seed in (*self.seeds, *range(max(self.seeds) + 1, FIRST_FRESH_SEED)) if seed not in one.effects
        )
        one.effects[seed] = None
        try:
            base, run = await asyncio.gather(
                self._run(self.setup.tree, (), seed, "baseline", ()),
                self._run(self._build_tree([one.mutation]) or "", one.mutation.words, seed, "search", (one.part.name,)),
            )
            one.runs += 1
            if base is not None and run is not None and base.value is not None and run.value is not None:
                one.effects[seed] = compute_effect(self.setup.command.direction, [base.value], [run.value]).mean
        finally:
            one.under_way -= 1

    @property
    def _sigma(self) -> float:
        """Standard deviation of one effect, from repeated measurements and the baseline's seeds."""
        return compute_pooled_sigma(
            (one.arm.effects for one in self._part_states.values()), self._baseline_values
        ).sigma

    # --- components that mask each other ------------------------------------------------------------------------------

    async def _find_joint_set(self) -> tuple[str, ...]:
        """Return the smallest set of components that matters only jointly; empty if there is none.

        Components that only set a strength are excluded: programs break when all strengths are zero.
        """
        sigma = self._sigma
        arms = [one.arm for one in self._part_states.values() if one.is_ranked and not is_strength(one.mutation)]
        names = find_near_zero(arms, sigma, self.top) if isfinite(sigma) else []
        if len(names) < 2:
            return ()
        search = run_group_test(names)
        try:
            subset = next(search)
            while True:
                joint = await self._measure_joint_effect(subset)
                singles = [self._part_states[name].arm.mean_effect for name in subset]
                subset = search.send(joint is not None and exceeds_sum(singles, joint, sigma=sigma))
        except StopIteration as ended:
            least: tuple[str, ...] = ended.value
        if len(least) < 2 or (joint := await self._measure_joint_effect(least)) is None:
            return ()
        singles = [self._part_states[name].arm.mean_effect for name in least]
        return least if compute_interaction(singles, joint, sigma=sigma).is_joint else ()

    async def _measure_joint_effect(self, names: Sequence[str]) -> float | None:
        """Return the effect of ablating several components together, at the first seed."""
        ways = [self._part_states[name].mutation for name in names]
        tree, words = self._build_tree(ways), tuple(word for way in ways for word in way.words)
        if tree is None or self._first_baseline is None:
            return None
        run = await self._run(tree, words, self.seeds[0], "joint", names)
        if run is None or run.value is None:
            return None
        return compute_effect(self.setup.command.direction, [self._first_baseline], [run.value]).mean

    # --- confirmation on fresh seeds ----------------------------------------------------------------------------------

    async def _confirm(self, found: PartsFound) -> AblationsConcluded:
        sets = self._select_to_confirm(found)
        seeds = [FIRST_FRESH_SEED + at for at in range(CONFIRM_SEEDS)]
        base = dict(
            zip(
                seeds,
                await _gather([self._run(self.setup.tree, (), seed, "confirm", ()) for seed in seeds]),
                strict=True,
            )
        )
        sets += self._select_spare(found, sets)
        again = await _gather([self._measure_on_fresh_seeds(names, seeds, base) for names in sets])
        agreement = (
            await self._compute_proxy_agreement(
                {names[0]: one for names, one in zip(sets, again, strict=True) if len(names) == 1}, base
            )
            if self.proxy is not None
            else None
        )
        confirmed = {"+".join(names): one for names, one in zip(sets, again, strict=True)}
        rows = build_results(
            [
                *(confirmed.get(name) or self._build_search_row(one) for name, one in self._part_states.items()),
                *([confirmed["+".join(self._joint_set)]] if self._joint_set else []),
            ],
            direction=self.setup.command.direction,
            paired=self.setup.command.seeded,
        )
        rows = sorted(
            rows,
            key=lambda row: (row.called in (*UNRANKED_GATES, "not measured", "not reached"), -abs(row.mean or 0.0)),
        )
        # ranked by fresh seeds where those were run
        among = {arm.name for arm in self._list_candidates()}
        best = [row.part for row in rows if row.part in among][: self.top]
        return AblationsConcluded(
            results=tuple(rows),
            top=tuple(best),
            runs=self._runs_spent,
            agreement=agreement,
            stopped=""
            if all((name,) in sets for name in best)
            else (f"the budget of {found.budget} runs confirms {sum(len(one) == 1 for one in sets)} parts"),
        )

    def _select_spare(self, found: PartsFound, sets: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Select further components for fresh seeds by their measured effects, as long as the budget allows."""
        others = [
            one
            for one in rank_arms([one.arm for one in self._part_states.values() if one.is_ranked])
            if (one.name,) not in sets
        ]
        rest = {(one.name,) for one in others}
        made = sum(one.purpose == "confirm" and one.parts in rest for one in self.runs.code_state.runs.values())
        ahead = sum(self._count_remaining_runs(names) for names in sets)
        left = found.budget - (self._runs_spent - made) - ahead
        return [(one.name,) for one in others][: max(0, left // CONFIRM_SEEDS)]

    def _count_remaining_runs(self, names: tuple[str, ...]) -> int:
        """Return how many runs on fresh seeds a selected set still needs."""
        made = sum(one.purpose == "confirm" and one.parts == names for one in self.runs.code_state.runs.values())
        return max(0, CONFIRM_SEEDS - made)

    async def _compute_proxy_agreement(
        self, confirmed: dict[str, PartMeasurements], base: Mapping[int, CommandRun | None]
    ) -> float | None:
        """Return how well the rankings by the proxy and by the full command agree, over at least `MIN_RANKED_PARTS`
        components."""
        full: dict[str, float] = {}
        for name, part in confirmed.items():
            seeds = sorted(part.baseline)
            effect = compute_effect(
                self.setup.command.direction,
                [part.baseline[seed] for seed in seeds],
                [part.ablated[seed] for seed in seeds],
            ).mean
            full |= {name: effect} if effect is not None else {}
        seed, first = next(iter(base.items()))
        for arm in rank_arms([one.arm for one in self._part_states.values() if one.is_ranked]):
            if len(full) >= MIN_RANKED_PARTS or first is None or first.value is None:
                break
            one = self._part_states[arm.name]
            if arm.name not in full and (tree := self._build_tree([one.mutation])) is not None:
                run = await self._run(tree, one.mutation.words, seed, "confirm", (arm.name,))
                if run is not None and run.value is not None:
                    full[arm.name] = (
                        compute_effect(self.setup.command.direction, [first.value], [run.value]).mean or 0.0
                    )
        return compute_rank_agreement({name: self._part_states[name].arm.mean_effect for name in full}, full)

    def _select_to_confirm(self, found: PartsFound) -> list[tuple[str, ...]]:
        """Select the sets to measure on fresh seeds: the most important components, the most harmful one, and the joint
        set."""
        most = split_budget(len(found.parts), found.budget, k=self.top, baseline=len(self.seeds) + 2).confirmed
        sets = [(name,) for name in dict.fromkeys((*self._top_parts[:most], *self._most_harmful))]
        return [*sets, *([self._joint_set] if self._joint_set else [])]

    @property
    def _top_parts(self) -> list[str]:
        return [one.name for one in rank_arms(self._list_candidates())][: self.top]

    @property
    def _most_harmful(self) -> list[str]:
        arms = [one.arm for one in self._part_states.values() if one.is_ranked]
        return find_harmful(arms, self._sigma)[:1] if isfinite(self._sigma) else []

    async def _measure_on_fresh_seeds(
        self, names: Sequence[str], seeds: Sequence[int], base: dict[int, CommandRun | None]
    ) -> PartMeasurements:
        tried = [self._part_states[name] for name in names]
        ways = [one.mutation for one in tried]
        tree, words = self._build_tree(ways), tuple(word for way in ways for word in way.words)
        assert tree is not None
        runs = await _gather([self._run(tree, words, seed, "confirm", names) for seed in seeds])
        kept = [run.id for run in (*runs, *base.values()) if run is not None]
        gate = tried[0].gate if len(tried) == 1 else "moved"
        if gate == "no effect" and any(
            run is not None and (one := base[seed]) is not None and run.value != one.value
            for seed, run in zip(seeds, runs, strict=True)
        ):
            gate = "moved"  # the metric showed no effect at the seed of the search
        return PartMeasurements(
            "+".join(names),
            "; ".join(way.what for way in ways),
            ", ".join(_format_place(one.part) for one in tried),
            gate=gate,
            flag="" if len(tried) == 1 else "together",
            baseline={seed: run.value if run is not None else None for seed, run in base.items()},
            ablated={seed: run.value if run is not None else None for seed, run in zip(seeds, runs, strict=True)},
            runs=tuple(kept),
        )

    def _build_search_row(self, one: _PartState) -> PartMeasurements:
        """Build the row of a component without fresh seeds: it reports the effects seen in the search and gives no
        verdict."""
        mutation = (
            one.mutation.what if one.way >= 0 else ", ".join(way.what for way in one.part.mutations[:MAX_WAYS_PER_PART])
        )
        seen = {seed: effect for seed, effect in one.effects.items() if effect is not None}
        seen = dict(list(seen.items())[: MIN_REPLICATES - 1])
        base = {seed: run.value for seed in seen if (run := self.runs.find_run(self._search_setup, seed)) is not None}
        sign = 1 if self.setup.command.direction == "max" else -1
        gone = {seed: value - sign * seen[seed] for seed, value in base.items() if value is not None}
        flag = "" if not seen else "seen in the search" if self.proxy is None else "seen by the proxy"
        flag = "part of the loss: nothing is learned without it" if one.is_loss else flag
        return PartMeasurements(
            one.part.name, mutation, _format_place(one.part), gate=one.gate, baseline=base, ablated=gone, flag=flag
        )

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def _run(
        self,
        tree: str,
        words: Sequence[str],
        seed: int,
        purpose: CommandPurpose,
        parts: Sequence[str],
        setup: CommandSetup | None = None,
    ) -> CommandRun | None:
        """Return a run, from the log or newly executed; None if the budget is used up. `setup` overrides the study's
        setup."""
        setup = replace(setup or (self.setup if purpose == "confirm" else self._search_setup), tree=tree)
        found = self.runs.code_state.parts
        known = self.runs.find_run(setup, seed, words=words)
        if known is None and found is not None and self._runs_spent >= found.budget:
            return None
        return known or await self.runs.run(setup, seed, purpose, words=words, parts=parts)

    @property
    def _search_setup(self) -> CommandSetup:
        """Setup of the search: with the cheaper command, if there is one."""
        return self.setup if self.proxy is None else replace(self.setup, command=self.proxy)

    @property
    def _runs_spent(self) -> int:
        """Number of runs finished or in progress, without failed repair runs."""
        made = sum(one.purpose != "repair" for one in self.runs.code_state.runs.values())
        return made + 1 + self.runs.running_count

    @property
    def _baseline_values(self) -> list[float]:
        """Baseline values on the study's seeds and on the seeds at which components were repeated."""
        made = (
            self.runs.find_run(self._search_setup, seed)
            for seed in (*self.seeds, *range(max(self.seeds) + 1, FIRST_FRESH_SEED // 50))
        )
        return [run.value for run in made if run is not None and run.value is not None]

    @property
    def _first_baseline(self) -> float | None:
        run = self.runs.find_run(self._search_setup, self.seeds[0])
        return run.value if run is not None else None


async def _gather(work: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*work))


def _format_place(part: RepositoryPart) -> str:
    return f"{part.path}:{part.line}"
