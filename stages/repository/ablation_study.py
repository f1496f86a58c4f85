"""Ablate the components of a repository within a budget of runs.

First every component is ablated once, and components that may mask each other are ablated together. Then fresh seeds
decide, the largest effects first, until every component has a verdict or the budget is used.

Each mutation of a component is an arm, with its own patch and command words, and is tried at one seed, and at a second
if no digit changed. If it fails, does not run, or removes the whole model, the next mutation is tried. A component that
no mutation can ablate is `not measured`, never 0. A component without which the program cannot run, or that produces
the data against which predictions are scored, is reported but not ranked.

Every choice is a function of the recorded runs, and interrupted runs are completed before any new choice, so a resumed
study repeats no run and asks no model twice. Source: AblateCell, ablation phase; the policy is
`search.ablation_bandit`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from statistics import fmean

from labwright.record.claims.part_effects import FIRST_FRESH_SEED, compare_arms
from labwright.record.events.repository_events import AblationsConcluded, MutationTried, PartsFound
from labwright.record.reducers.run_state import AblationState
from labwright.record.schema.nodes import CellRun
from labwright.record.schema.repository import MutationOutcome, PartResult, PartWay, RepositoryPart, UnexaminedPart
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository.trace import NO_TRAINING_VARIABLES, CallTrace, read_trace
from labwright.search.ablation_bandit import (
    CONFIRM_SEEDS,
    BanditArm,
    advise_budget,
    compute_pooled_sigma,
    find_near_zero,
    order_sweep,
    run_group_test,
    split_budget,
)
from labwright.stages.repository.ablation_report import (
    NO_OPTIMIZER,
    UNRANKED_GATES,
    WHOLE_TRAINING,
    MeasuredPart,
    build_results,
    classify_patch_run,
    compute_effect,
    exceeds_sum,
    is_at_floor,
    is_coarse_metric,
)
from labwright.stages.repository.arm_runs import ArmRuns, CommandSetup, RepositoryArm, gather_all, name_arm, read_value
from labwright.stages.repository.authors import format_limits, propose_parts
from labwright.stages.repository.baseline_reproduction import BASELINE_SEEDS, RepositoryReproduction
from labwright.stages.run_context import RunContext

LARGE_EFFECT_SHARES = {"max": 0.5, "min": 0.1}
"""Share of the baseline, by direction of the metric, above which an effect is compared with the floor. A metric to
be minimized is bounded by chance level, which may be close to the baseline.
"""
SUSPECT_GAIN_SHARE = 0.05
"""Share of the baseline; a larger gain raises the question whether the component produces the scored data."""
LEFT_OPEN = "the number of parts decides how many runs are made, at least one each, and fresh seeds for all"
MAX_FRESH_SEEDS = 3 * CONFIRM_SEEDS
"""Maximum number of fresh seeds of a component whose effects are equal at all of them."""


async def ablate(context: RunContext) -> None:
    """Ablate the components of the repository if its baseline is accepted."""
    code, options = context.state.repository, context.ablation
    if code.command is None or code.baseline is None or options.reproduce_only:
        return
    accepted = code.baseline.verdict in ("reproduced", "unchecked")
    if accepted or (code.baseline.verdict == "differs" and options.accept_baseline):
        await RepositoryAblation(RepositoryReproduction(context, code.command)).ablate()


@dataclass
class _PartState:
    """State of a component: its selected mutation, and what is known about it."""

    part: RepositoryPart
    way: int = -1
    gate: MutationOutcome = "failed"

    @property
    def mutation(self) -> PartWay:
        return self.part.ways[self.way]

    @property
    def is_strength(self) -> bool:
        """Whether its mutation sets a number to zero by a word of the command."""
        words = self.mutation.words
        return bool(words) and not self.mutation.edits and re.search(r"(^|=)0(\.0*)?$", words[-1]) is not None

    @property
    def is_ranked(self) -> bool:
        """Whether the component's effect counts as its importance."""
        return self.gate not in UNRANKED_GATES and self.way >= 0


class RepositoryAblation:
    """The ablation study of a repository whose baseline works."""

    def __init__(self, baseline: RepositoryReproduction) -> None:
        options = baseline.context.ablation
        self.context: RunContext = baseline.context
        self.runs: ArmRuns = baseline.runs
        self.setup: CommandSetup = baseline.setup
        self.top: int = options.top
        self._reproduction = baseline
        self._baseline = baseline.arm
        self._part_states: dict[str, _PartState] = {}
        self._arms: dict[tuple[tuple[str, int], ...], RepositoryArm | None] = {}
        self._trace = CallTrace()
        self._gap_task: asyncio.Task[float] | None = None
        self._joint_set: tuple[str, ...] = ()

    @property
    def _ablation(self) -> AblationState:
        return self.context.state.ablation

    async def ablate(self) -> None:
        """Measure the effect of every component and record the results. Raises `ExecutorError`."""
        await self.runs.finish_interrupted()
        if (found := await self._find_parts()) is None:
            return
        if not found.parts:
            why = f"the budget of {found.budget} runs leaves none for parts" if found.rest else found.why
            self._conclude(AblationsConcluded(results=(), top=(), runs=self._runs_spent, stopped=why))
            return
        order = order_sweep({part.name: part.prior for part in found.parts})
        await gather_all([self._measure_part(self._part_states[name]) for name in order])
        self._joint_set = await self._find_joint_set(found)
        await self._confirm(found)
        self._conclude(self._build_conclusion(found))

    def _conclude(self, concluded: AblationsConcluded) -> None:
        if self._ablation.results != concluded:
            self.context.recorder.append(concluded)

    # --- discovery ----------------------------------------------------------------------------------------------------

    async def _find_parts(self) -> PartsFound | None:
        """Return the components, from the record or newly found; None if a limit came first."""
        traced = await self._reproduction.run_traced()
        if traced is None:
            return None
        self._trace = await asyncio.to_thread(read_trace, self.context.folder.get_cell_path(traced.id))
        known, budget = self._ablation.parts, self.context.ablation.budget_runs
        if known is None or budget not in (None, known.budget):
            found = await propose_parts(self.context, self.setup, self._trace, self._describe_budget())
            known = self._limit_to_budget(found, budget)
            self.context.recorder.append(known)
        self._part_states = {part.name: _PartState(part) for part in known.parts}
        return known

    def _describe_budget(self) -> str:
        """Describe the baseline, the seconds of a run and the runs that are left, for the author of the parts."""
        check, spent = self.context.state.repository.baseline, self._runs_spent
        runs = [self.runs.find_run(self._baseline, seed) for seed in BASELINE_SEEDS]
        seconds = fmean([one.seconds for one in runs if one is not None] or [0.0])
        assert check is not None and check.mean is not None
        spread = f", standard deviation {check.spread:.3g}" if check.spread is not None else ""
        budget = self.context.ablation.budget_runs
        left = f"{budget - spent} runs are left" if budget is not None else LEFT_OPEN
        return (
            f"As it is, the repository gives {check.mean:.6g}{spread} over {len(check.seeds)} seeds. A run takes "
            f"{seconds:.3g} s, {self.context.executor.slots} at a time; {left}. {format_limits(self.context)}"
        )

    def _limit_to_budget(self, found: PartsFound, budget: int | None) -> PartsFound:
        """Keep the components that the budget allows, by prior; list the others as not examined."""
        budget = budget or advise_budget(len(found.parts))
        most = split_budget(len(found.parts), budget, k=self.top, baseline=len(BASELINE_SEEDS) + 2).explored
        names = order_sweep({part.name: part.prior for part in found.parts})[:most]
        left = tuple(
            UnexaminedPart(name=part.name, kind="budget", why=f"the budget of {budget} runs is used up")
            for part in found.parts
            if part.name not in names
        )
        parts = tuple(part for part in found.parts if part.name in names)
        return found.model_copy(update={"parts": parts, "rest": (*found.rest, *left), "budget": budget})

    # --- one run per component ----------------------------------------------------------------------------------------

    async def _measure_part(self, one: _PartState) -> None:
        """Ablate a component with the first mutation that works; if all remove the whole model, use the one with
        the smallest loss.
        """
        name, at_floor = one.part.name, dict[int, float]()
        for way in range(len(one.part.ways)):
            gate, effect = await self._try_way(one, way)
            if gate in ("moved", "no effect") and effect is not None:
                one.way, one.gate = way, gate
                break
            if gate == "at the floor" and effect is not None:
                at_floor[way] = effect
            else:
                one.gate = gate
        if one.way >= 0:
            if one.gate == "moved" and await self._changes_scored_data(one):
                one.gate = "changes what is scored"
        elif at_floor:
            one.way = min(at_floor, key=lambda way: at_floor[way])
            is_broken = at_floor[one.way] >= await self._find_gap()
            one.gate = "breaks the program" if is_broken else "at the floor"
        elif any(
            "is not finite" in tried.why for tried in self._ablation.tried_mutations.values() if tried.part == name
        ):
            one.gate = "breaks the program"

    async def _try_way(self, one: _PartState, way: int) -> tuple[MutationOutcome, float | None]:
        mutation, name = one.part.ways[way], one.part.name
        arm = self._get_arm({name: way})
        if arm is None:
            return self._record_gate(name, way, None, "no change"), None
        run = await self._run(arm, BASELINE_SEEDS[0])
        if run is None:
            return "failed", None
        value, baseline = read_value(run, arm.metric), self._first_baseline
        if value is None or baseline is None:
            return self._record_gate(name, way, arm, "failed", run.failure.message if run.failure else ""), None
        check = self.context.state.repository.baseline
        is_repeatable = check is not None and (check.same_seed == "same digits" or check.is_exact)
        reached = self._is_reached(mutation)
        gate = classify_patch_run(baseline, value, reached=reached, repeatable=is_repeatable)
        if gate == "no effect" and not self._is_exact:  # equal digits at one seed may be chance
            again = read_value(await self._run(arm, BASELINE_SEEDS[1]), arm.metric)
            other = self.runs.list_values(self._baseline).get(BASELINE_SEEDS[1])
            if again is not None and other is not None:
                gate = classify_patch_run(other, again, reached=reached, repeatable=is_repeatable)
        effect = compute_effect(self.setup.command.direction, baseline, value)
        large = LARGE_EFFECT_SHARES[self.setup.command.direction] * abs(baseline)
        if gate == "moved" and effect is not None and effect >= large:
            gate = "at the floor" if is_at_floor(effect, await self._find_gap()) else gate
        return self._record_gate(name, way, arm, gate), effect

    async def _find_gap(self) -> float:
        """Return the effect of removing the whole model, measured on first use; 0 if it is not known."""
        if self._gap_task is None:
            self._gap_task = asyncio.create_task(self._measure_gap())
        return await self._gap_task

    async def _measure_gap(self) -> float:
        parts, command = self._ablation.parts, self.setup.command
        if parts is not None and parts.whole is not None:
            arm = self._build_arm(["the whole model"], 0, [parts.whole], self.setup)
            gap = await self._measure_effect(arm) if arm is not None else None
            if gap is not None and gap > 0:  # a better value means that something else was removed
                return gap
        setup = replace(self.setup, command=command.model_copy(update={"env": command.env | NO_TRAINING_VARIABLES}))
        arm = self._build_arm([WHOLE_TRAINING], 0, [PartWay(what="no optimizer steps")], setup)
        gap = await self._measure_effect(arm) if arm is not None else None
        if gap == 0:
            self._record_gate(WHOLE_TRAINING, 0, arm, "no effect", NO_OPTIMIZER)
        return max(gap or 0.0, 0.0)

    async def _measure_effect(self, arm: RepositoryArm) -> float | None:
        """Return the effect of an arm at the first seed of the baseline; None if it has no value."""
        value = read_value(await self._run(arm, BASELINE_SEEDS[0]), arm.metric)
        return compute_effect(self.setup.command.direction, self._first_baseline, value)

    async def _changes_scored_data(self, one: _PartState) -> bool:
        """Return whether a component whose removal improves the result far too much produces the scoring targets: in a
        traced run, none of the scored data is the same as before."""
        baseline, effect = self._first_baseline, self._list_effects([one.part.name]).get(BASELINE_SEEDS[0])
        if baseline is None or effect is None or effect > -SUSPECT_GAIN_SHARE * abs(baseline):
            return False
        arm = self._build_arm([one.part.name], one.way, [one.mutation], self.setup, traced=True)
        if arm is None or (run := await self._run(arm, BASELINE_SEEDS[0])) is None:
            return False
        again = await asyncio.to_thread(read_trace, self.context.folder.get_cell_path(run.id))
        return self._trace.is_scored_on_other_data(again)

    def _record_gate(
        self, part: str, way: int, arm: RepositoryArm | None, gate: MutationOutcome, why: str = ""
    ) -> MutationOutcome:
        if (part, way) not in self._ablation.tried_mutations:
            node = self.runs.find_node(arm) if arm is not None else ""
            self.context.recorder.append(MutationTried(part=part, way=way, node=node, gate=gate, why=why[:300]))
        return gate

    def _is_reached(self, mutation: PartWay) -> bool | None:
        """Return whether lines that a mutation changes ran in the traced run; None if it changes no Python code."""
        texts, reached = self.runs.mirror.read_texts(self.setup.tree), list[bool]()
        for edit in mutation.edits:
            if edit.path.endswith(".py"):
                text = texts.get(edit.path, "")
                first = text[: max(0, text.find(edit.old))].count("\n") + 1
                lines = range(first, first + edit.old.count("\n") + 1)
                reached.append(self._trace.was_executed(edit.path, lines))
        return any(reached) if reached else None

    # --- arms ---------------------------------------------------------------------------------------------------------

    def _get_arm(self, ways: Mapping[str, int]) -> RepositoryArm | None:
        """Return the arm without these components, by their mutations; None if they change nothing or conflict."""
        key = tuple(ways.items())
        if key not in self._arms:
            mutations = [self._part_states[name].part.ways[way] for name, way in key]
            self._arms[key] = self._build_arm([*ways], key[0][1] if len(key) == 1 else 0, mutations, self.setup)
        return self._arms[key]

    def _find_arm(self, names: Sequence[str]) -> RepositoryArm | None:
        """Return the arm without these components, by their selected mutations; None if one has none."""
        if any(self._part_states[name].way < 0 for name in names):
            return None
        return self._get_arm({name: self._part_states[name].way for name in names})

    def _build_arm(
        self, parts: Sequence[str], way: int, mutations: Sequence[PartWay], setup: CommandSetup, *, traced: bool = False
    ) -> RepositoryArm | None:
        """Build an arm with the mutations of a setup that remove these parts; None if they change nothing or conflict.
        `way` is the index of the mutation of a single part."""
        words = tuple(word for one in mutations for word in one.words)
        try:
            tree = self.runs.mirror.apply_edits(setup.tree, [edit for one in mutations for edit in one.edits])
        except RepositoryError:
            return None
        if tree == setup.tree and not words and setup == self.setup:
            return None
        what = "; ".join(one.what for one in mutations)
        return self.runs.build_arm(
            name_arm(parts, way),
            f"without {' and '.join(parts)}: {what}{', with a trace of its calls' * traced}",
            setup,
            tree=tree,
            words=words,
            parts=parts,
            kind="replicate" if traced else "ablate",
            parent=self.runs.find_node(self._baseline),
            traced=traced,
        )

    # --- effects of the search ----------------------------------------------------------------------------------------

    def _list_effects(self, names: Sequence[str]) -> dict[int, float | None]:
        """Return the effects of a set of components at the seeds of the search; None for a run without a value."""
        arm = self._find_arm(names)
        if arm is None:
            return {}
        base, own = self.runs.list_values(self._baseline), self.runs.list_values(arm)
        seeds = [seed for seed in own if seed in base and seed < FIRST_FRESH_SEED]
        return {seed: compute_effect(self.setup.command.direction, base[seed], own[seed]) for seed in seeds}

    def _list_ranked(self) -> list[BanditArm]:
        is_coarse = self._is_coarse
        return [
            BanditArm(
                name,
                one.part.prior,
                tuple(effect for effect in self._list_effects([name]).values() if effect is not None),
                is_settled=one.gate == "not reached" or (one.gate == "no effect" and not is_coarse),
            )
            for name, one in self._part_states.items()
            if one.is_ranked
        ]

    @property
    def _is_coarse(self) -> bool:
        """Whether an equal value at one seed may be chance."""
        return not self._is_exact and is_coarse_metric(self._list_all_values())

    @property
    def _is_exact(self) -> bool:
        """Whether one run of an arm is enough, since the command does not vary."""
        check = self.context.state.repository.baseline
        return check is not None and check.is_exact

    def _list_all_values(self) -> list[list[float]]:
        """Return the values of every arm of the search."""
        arms = map(self._find_arm, ([name] for name in self._part_states))
        found = [self.runs.list_values(arm) for arm in (self._baseline, *arms) if arm is not None]
        return [[value for value in values.values() if value is not None] for values in found]

    @property
    def _sigma(self) -> float:
        """Standard deviation of one effect, from repeated measurements and the baseline's seeds; at least one step of a
        coarse metric."""
        effects = [one.effects for one in self._list_ranked()]
        values = self.runs.list_values(self._baseline).items()
        baseline = [value for seed, value in values if value is not None and seed < FIRST_FRESH_SEED]
        sigma = compute_pooled_sigma(effects, baseline).sigma
        if not self._is_coarse:
            return sigma
        steps = sorted({value for values in self._list_all_values() for value in values})
        return max(sigma, min((after - before for before, after in pairwise(steps)), default=0.0))

    # --- components that mask each other ------------------------------------------------------------------------------

    async def _find_joint_set(self, found: PartsFound) -> tuple[str, ...]:
        """Return the smallest set of components that matters only jointly; empty if there is none.

        Components that only set a strength are excluded: programs break when all strengths are zero. The runs that
        confirm the most important components are not used for the search.
        """
        most, sigma = found.budget - self._count_reserved(found), self._sigma
        arms = [one for one in self._list_ranked() if not self._part_states[one.name].is_strength]
        names = find_near_zero(arms, sigma, self.top) if isfinite(sigma) else []
        singles = {one.name: one.mean_effect for one in arms}

        async def is_joint(subset: Sequence[str]) -> bool:
            arm = self._find_arm(subset)
            if arm is None or (self._runs_spent >= most and not self.runs.list_nodes(arm)):
                return False
            joint = await self._measure_effect(arm)
            return joint is not None and exceeds_sum([singles[name] for name in subset], joint, sigma=sigma)

        search = run_group_test(names)
        try:
            subset = next(search)
            while True:
                subset = search.send(await is_joint(subset))
        except StopIteration as ended:
            least: tuple[str, ...] = ended.value
        return least if len(least) > 1 and await is_joint(least) else ()

    # --- fresh seeds --------------------------------------------------------------------------------------------------

    def _count_reserved(self, found: PartsFound) -> int:
        """Return how many runs are kept for fresh seeds: of the baseline, the most important components, and a joint
        set."""
        split = split_budget(len(found.parts), found.budget, k=self.top, baseline=len(BASELINE_SEEDS) + 2)
        return CONFIRM_SEEDS * (2 + split.confirmed)

    def _rank_sets(self) -> list[tuple[str, ...]]:
        """Return the components that can have a verdict, and the joint set, the largest effects in the search first."""
        effects: dict[tuple[str, ...], float] = {}
        effects |= {(one.name,): one.mean_effect for one in self._list_ranked() if one.effects}
        if self._joint_set:
            effects[self._joint_set] = self._list_effects(self._joint_set).get(BASELINE_SEEDS[0]) or 0.0
        return sorted(effects, key=lambda names: (-abs(effects[names]), names))

    async def _confirm(self, found: PartsFound) -> None:
        """Measure on fresh seeds what has no verdict, the largest effects of the search first, while the budget lasts.

        What could not be tested because all its effects are equal gets further seeds, up to `MAX_FRESH_SEEDS`. Since
        such effects were never tested before, this does not inflate the error rate.
        """
        while self.context.state.limit_reason is None:
            left, chosen = found.budget - self._runs_spent, dict[tuple[str, int], RepositoryArm]()
            for arm in self._list_unknown_arms():
                missing = self._list_missing_runs(arm)
                if missing and len(chosen | missing) <= left:
                    chosen |= missing
            await gather_all([self._run(arm, seed) for (_, seed), arm in chosen.items()])
            if not chosen:
                return

    def _list_missing_runs(self, arm: RepositoryArm) -> dict[tuple[str, int], RepositoryArm]:
        """Return the runs on fresh seeds, of an arm and of the baseline, that a verdict on the arm still needs."""
        count = max(CONFIRM_SEEDS, min(self._count_fresh_runs(arm) + 1, MAX_FRESH_SEEDS))
        return {
            (one.sha256, seed): one
            for one in (self._baseline, arm)
            for seed in range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + count)
            if seed not in {node.seed for node in self.runs.list_nodes(one)}
        }

    def _list_unknown_arms(self) -> list[RepositoryArm]:
        """Return the arms of sets without a verdict that can be run, the largest effects first."""
        unknown = {row.part for row in self._build_rows() if row.called == "unknown"}
        arms = (self._find_arm(names) for names in self._rank_sets() if "+".join(names) in unknown)
        return [arm for arm in arms if arm is not None]

    def _count_fresh_runs(self, arm: RepositoryArm) -> int:
        return sum(one.seed >= FIRST_FRESH_SEED for one in self.runs.list_nodes(arm))

    # --- results ------------------------------------------------------------------------------------------------------

    def _build_conclusion(self, found: PartsFound) -> AblationsConcluded:
        rows = sorted(
            self._build_rows(),
            key=lambda row: (row.called in (*UNRANKED_GATES, "not measured", "not reached"), -abs(row.mean or 0.0)),
        )
        helping = [row.part for row in rows if row.fresh and (row.mean or 0.0) > 0 and row.part in self._part_states]
        undecided = [arm for arm in self._list_unknown_arms() if self._count_fresh_runs(arm) < MAX_FRESH_SEEDS]
        unexamined = sum(one.kind == "budget" for one in found.rest)
        missing = [self._list_missing_runs(arm) for arm in undecided]
        fewest = min(map(len, missing), default=1 + CONFIRM_SEEDS)
        enough = max(
            advise_budget(len(found.parts) + unexamined),
            self._runs_spent + len({key for runs in missing for key in runs}),
        )
        count = len(undecided) + unexamined
        left = (
            f"{count} part{'s have' if count > 1 else ' has'} no verdict: {self._runs_spent} of {found.budget} runs "
            f"are used, and one more verdict takes at least {fewest}; raise --budget-runs, to {enough} for verdicts on "
            "all"
        )
        return AblationsConcluded(
            results=tuple(rows),
            top=tuple(name for name in helping if self._part_states[name].is_ranked)[: self.top],
            runs=self._runs_spent,
            stopped=self.context.state.limit_reason or (left if count else ""),
        )

    def _build_rows(self) -> list[PartResult]:
        sets: list[tuple[str, ...]] = [(name,) for name in self._part_states]
        sets += [self._joint_set] if self._joint_set else []
        return list(build_results([self._describe_set(names) for names in sets], is_coarse=self._is_coarse))

    def _describe_set(self, names: tuple[str, ...]) -> MeasuredPart:
        """Describe a component, or a set, with its effect: on fresh seeds if there are any, otherwise in the search."""
        states = [self._part_states[name] for name in names]
        ways = [(one.mutation,) if one.way >= 0 else one.part.ways for one in states]
        is_joint = len(names) > 1
        found = MeasuredPart(
            "+".join(names),
            "; ".join(", ".join(way.what for way in each) for each in ways),
            ", ".join(f"{one.part.path}:{one.part.line}" for one in states),
            "moved" if is_joint else states[0].gate,
            flag="together" if is_joint else "",
            is_exact=self._is_exact,
        )
        arm = self._find_arm(names)
        nodes = self.runs.list_nodes(arm) if arm is not None else []
        effect = compare_arms(self.context.state, nodes[0].id) if nodes else None
        if effect is None:
            return found
        seen = "" if effect.is_fresh or self._is_exact else "seen in the search"
        return found._replace(node=nodes[0].id, effect=effect, flag=found.flag or seen)

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def _run(self, arm: RepositoryArm, seed: int) -> CellRun | None:
        """Return a run, from the record or newly executed; None if a limit or the budget of runs is reached."""

        def is_affordable() -> bool:
            return self._ablation.parts is None or self._runs_spent < self._ablation.parts.budget

        return await self.runs.run(arm, seed, is_allowed=is_affordable)

    @property
    def _runs_spent(self) -> int:
        """Number of runs finished or in progress, without those of repairs."""
        nodes = self.context.state.nodes.values()
        return sum(one.kind != "debug" and bool(one.source_sha256) for one in nodes)

    @property
    def _first_baseline(self) -> float | None:
        return self.runs.list_values(self._baseline).get(BASELINE_SEEDS[0])
