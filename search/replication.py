"""Follow-up work of settled stages: replicates of the nodes that the study rests on, looks at the fresh ones, an
aggregate, a summary.

If its best node becomes suspect, a stage settles on the next best node, but only during the search of later stages.

Replicates run the same code with other seeds. The best draft has no replicates unless requested, since tuning changes
it. The tuned node has a few, in the cells that confirmatory hypotheses read and with the seeds of its finalists, so
that measurements from tuning are reused. Only their spread, never their results, determines how many fresh seeds decide
the plan's hypotheses (`record.claims.planned_seeds.compute_planned_seeds`). When the last stage that may change the
confirmed program has ended (`find_locking_stage`), node, number of seeds and looks are locked. The node then runs with
unused seeds, before all further search; its ablations use the first of these seeds, and further ones at the end of the
search, if time is left. Stopping whenever a result looks good would bias it, so the fresh seeds are read only at the
looks of the lock (`record.schema.decisions`). The planned seeds measure every cell; seeds that later looks add measure
only the cells that an undecided claim reads, and no further look tests a claim that is decided.

A seed that was cancelled because time or budget ran out, or because a look had ended the sampling (not in `ticket`
order), is run again when more is available and sampling continues. A seed that failed, or
that the user ended, is replaced by the next fresh one, whatever its results, for at most a quarter of the seeds.
Diverged training is a result, not a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, inf
from statistics import stdev
from typing import Protocol

from labwright.record.claims.estimates import MIN_REPLICATES, SIGNIFICANCE_LEVEL, find_winner, has_same_values
from labwright.record.claims.hypothesis_tests import SKEWED_LEVEL_FACTOR, estimate_over_seeds, read_replicate_values
from labwright.record.claims.planned_seeds import MAX_UNITS, compute_planned_seeds, compute_upper_deviation
from labwright.record.estimands import CellRef, has_extreme, list_registered_cells
from labwright.record.events.search_events import ConfirmationLocked, LookTaken
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import (
    LOOK_TASKS,
    ExpandTree,
    RunTask,
    SearchAction,
    build_look_sizes,
    build_summary_task,
)
from labwright.record.schema.nodes import PLANNING_STAGES, STAGES, Node, StageName
from labwright.search.design_forecast import list_main_cells
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot, find_locking_stage
from labwright.search.tuning import FINALIST_SEED_OFFSET


def view_at_stage_end(state: RunState, stage: StageName, settings: SearchSettings) -> StageSnapshot | None:
    """Return a stage as of the end of its search, with the user marks known now; None while the search continues."""
    end = state.find_stage_end(stage)
    if end is None:
        return None
    marks = state.last_decision + 1
    return build_snapshot(state, stage, end.seen, before=end.k, marks_before=marks, settings=settings)


def find_unsettled_stage(state: RunState, settings: SearchSettings) -> StageSnapshot | None:
    """Return the first stage that must settle again because its best node is now suspect, as of the end of
    its search.
    """
    for stage in STAGES[:-1]:
        best = state.nodes.get(state.search.stages[stage].best or "")
        if best is not None and best.suspect:
            return view_at_stage_end(state, stage, settings)
    return None


MAX_CONTESTED_NODES = 3
"""Maximum number of nodes of a stage that get further seeds because noise hides which is better."""
MAX_UNCONTROLLED_SEEDS = 12
"""Number of fresh seeds from which on arms at each other's tuned setting come before further seeds."""
FIRST_LOOK_SHARE = 1 / 2
"""Share of the seeds that an upper limit of the spread requires, and of those for which there is time, at which the
first look happens: the third look, which has most of the level, then reads all of them (`record.schema.decisions`)."""
FRESH_SEED_OFFSET = 10_000
"""Offset of the first fresh seed from the run's seed: search and tuning use the seeds just after it."""
MIN_FRESH_SEEDS = 3
"""Minimum number of pilot replicates for estimating their spread."""
MAX_REPLACED_SHARE = 1 / 4
"""Share of the locked seeds (at least one seed) that may be replaced after failures; if more fail, the code is at
fault."""


def pending_follow_up(view: StageSnapshot, settings: SearchSettings) -> ExpandTree | RunTask | None:
    """Return the next step that can start now: looks and replicates first, since they need no model, and a look before
    further replicates, since it may make them needless.
    """
    replicated = () if "replicate" in view.skipped_kinds else iterate_targets(view, settings)
    due = (one for target in replicated for one in next_replicate(view, *target))
    return find_due_look(view) or next(due, None) or next(_iterate_conclusions(view, settings), None)


def _find_tuned_node(view: StageSnapshot) -> Node | None:
    if view.stage == "tuning":
        return view.best_node
    return view.winner_by_stage.get("tuning") or view.winner_by_stage.get("preliminary")


def next_pilot_run(view: StageSnapshot, settings: SearchSettings) -> ExpandTree | None:
    """Return the next missing replicate of the tuned node before the tuning stage ends; later replicates are follow-up
    work.
    """
    tuned = _find_tuned_node(view) if view.stage == "tuning" else None
    if tuned is None or view.stops_replicates:
        return None
    return next(next_replicate(view, "tuning", tuned, list_planning_seeds(view, "tuning", settings)), None)


def list_planning_seeds(view: StageSnapshot, stage: StageName, settings: SearchSettings) -> Sequence[int]:
    """Return the seeds of replicates that are used to plan the number of fresh seeds.

    None where a limit ended tuning: time is so short that the fresh seeds need all of it, whatever their spread. The
    preliminary stage has them only if they are requested: then a limit does not matter.
    """
    if stage in view.limited_stages and stage != "preliminary":
        return ()
    first = view.seed + FINALIST_SEED_OFFSET
    return range(first, first + settings.count_seeds(stage))


def find_pilot_replicates(view: StageSnapshot) -> tuple[Node, ...]:
    """Return the replicates of the tuned node with planning seeds; the finished ones show the spread."""
    tuned = _find_tuned_node(view)
    replicates = view.list_replicates(tuned.id) if tuned is not None else ()
    return tuple(one for one in replicates if one.seed < view.seed + FRESH_SEED_OFFSET)


def compute_wanted_seeds(
    view: StageSnapshot, *, deviation: Callable[[Sequence[float]], float] = stdev
) -> dict[str, int]:
    """Return, by confirmatory hypothesis, the number of fresh seeds needed to decide it, from the pilot's spread on
    validation data.
    `deviation`: of the pilot's values.

    Hypotheses whose cells the pilot did not measure are left out.
    """
    plan = view.plan
    pilots = (one for one in find_pilot_replicates(view) if one.status == "good" and not one.suspect)
    runs = [read_replicate_values(one) for one in pilots]
    claims = sum(one.confirmatory for one in plan.hypotheses)
    level, found = SIGNIFICANCE_LEVEL / max(1, claims), dict[str, int]()
    for one, effect in plan.confirmatory_effects:
        values = estimate_over_seeds(plan, effect, runs).values
        if len(values) >= MIN_FRESH_SEEDS:
            factor = SKEWED_LEVEL_FACTOR if has_extreme(effect.estimand) else 1
            planned = compute_planned_seeds(effect, deviation(values), level=level * factor).n or MAX_UNITS
            found[one.id] = max(MIN_REPLICATES, planned, found.get(one.id, 0))
    return found


def count_fresh_seeds(view: StageSnapshot, settings: SearchSettings) -> int:
    """Return the number of fresh seeds for the winner as currently known: as many as needed, within limits."""
    first = settings.count_seeds("agenda")
    if not first or view.run_limit_reason:
        return first
    return min(count_most_seeds(settings), max((first, *compute_wanted_seeds(view).values())))


def count_most_seeds(settings: SearchSettings) -> int:
    """Return the maximum number of fresh seeds."""
    return max(settings.count_seeds("agenda"), settings.max_seeds)


class CountSeeds(Protocol):
    """Counts the fresh seeds for which a run has time; with `swapped`, they also measure arms at each other's tuned
    setting."""

    def __call__(self, *, swapped: bool) -> float: ...


def build_lock(state: RunState, settings: SearchSettings, count_affordable: CountSeeds) -> ConfirmationLocked | None:
    """Build the lock of what is confirmed, if its stage has ended and it is not locked yet.

    It plans as many fresh seeds as needed, and at most those for which the run has time: all of these, if time
    was too short to plan (`list_planning_seeds`) or allows only one look. The table of looks is such that three of them
    fit (`FIRST_LOOK_SHARE`), and the number of seeds is that of a look; the table goes on beyond it, since a pilot only
    guesses the number. As a guess that is too low costs looks with most of the level, the first look is planned from an
    upper limit of the spread.

    Compared arms are also measured at each other's tuned setting if there is time for the planned seeds, or for
    `MAX_UNCONTROLLED_SEEDS` of them, with these controls: a claim that differing settings may explain gains less from
    further seeds than from controls.
    """
    search = state.search
    stage = find_locking_stage(search.data_plan) if search.data_plan is not None else "agenda"
    best, begun = find_winner(state), search.test_measurements or search.looks
    if best is None or begun or not search.stages[stage].is_settled:
        return None
    if search.current_lock is not None and search.current_lock.winner == best:
        return None
    if (view := view_at_stage_end(state, stage, settings)) is None:
        return None
    affordable, with_controls = count_affordable(swapped=False), count_affordable(swapped=True)
    node, asked, n = state.nodes[best], compute_wanted_seeds(view), count_fresh_seeds(view, settings)
    tested = bool(view.plan.confirmatory_effects) and n > 0
    if tested and not asked and affordable < inf and view.limited_stages.intersection(PLANNING_STAGES):
        n = count_most_seeds(settings)  # no planning seeds ran
    swapped = with_controls >= min(n, MAX_UNCONTROLLED_SEEDS)
    affordable = with_controls if swapped else affordable
    pilots = len(find_pilot_replicates(view))
    why = [f"{name} needs {count} by a pilot of {pilots}" for name, count in asked.items() if count > n]
    why += [f"search.max_seeds is {settings.max_seeds}"] if why else []
    if affordable < n:
        why, n = [*why, f"there is time for {affordable:.0f}"], int(affordable)
    if not swapped and with_controls < affordable:
        why.append("there is no time to measure compared arms at each other's tuned setting")
    most = int(min(affordable, count_most_seeds(settings)))
    likely = compute_wanted_seeds(view, deviation=compute_upper_deviation)
    looks = plan_looks(max((n, *likely.values())), most) if tested and most else ()
    fitting = [size for size in looks if size <= most]
    if fitting:  # a seed that no look reads would be wasted
        n = next((size for size in fitting if size >= n), fitting[-1])
    seed = view.seed + FRESH_SEED_OFFSET
    return ConfirmationLocked(
        plan=search.plan_hash,
        amendments=len(search.amendments),
        winner=best,
        source=node.source_sha256,
        trials=node.trials,
        n=n,
        wanted=asked,
        seeds=tuple(range(seed, seed + n)),
        looks=looks,
        swapped=swapped,
        why="; ".join(why),
    )


def plan_looks(n: int, most: int) -> tuple[int, ...]:
    """Return the table of looks for `n` planned seeds and time for at most `most`; three looks fit."""
    return build_look_sizes(min(max(MIN_REPLICATES, ceil(n * FIRST_LOOK_SHARE)), int(most * FIRST_LOOK_SHARE)), most)


def iterate_targets(view: StageSnapshot, settings: SearchSettings) -> Iterator[tuple[StageName, Node, Sequence[int]]]:
    """Yield the nodes to replicate, with their stage and seeds: the tuned node, the winner, each ablation.

    Ablations use the seeds of the node that they ablate, so that differences are paired; there are as many as
    a comparison requires, or as many as that node has.
    """
    for stage in PLANNING_STAGES:
        if (best := view.winner_by_stage.get(stage)) is not None:
            yield stage, best, list_planning_seeds(view, stage, settings)
    winner = view.nodes.get(view.lock.winner) if view.lock is not None else None
    if view.lock is not None and winner is not None and not winner.suspect:
        yield "agenda", winner, list_confirming_seeds(view)
        if view.stage == "ablation":
            for node in view.good_nodes:
                yield "ablation", node, list_ablation_seeds(view.lock, settings)


def list_confirming_seeds(view: StageSnapshot) -> Sequence[int]:
    """Return the fresh seeds that run: those of the next look and, of the locked ones, those of the look after it, so
    that no slot waits for a look."""
    if view.lock is None or not view.lock.looks or is_sampling_ended(view):
        return list_look_seeds(view)
    further = view.lock.looks[len(view.looks) : len(view.looks) + 2]
    return _list_fresh_seeds(view, max(further[0], min(further[-1], view.lock.n)))


def list_look_seeds(view: StageSnapshot) -> Sequence[int]:
    """Return the fresh seeds that the next look reads; after the last look, those that it read; without looks, the
    locked ones."""
    if view.lock is None or not view.lock.seeds:
        return ()
    if not view.lock.looks:
        return _list_fresh_seeds(view, len(view.lock.seeds))
    ended = bool(view.looks and view.looks[-1].ends)
    return _list_fresh_seeds(view, view.lock.looks[len(view.looks) - ended])


def list_undecided_cells(plan: DataPlan, looks: Sequence[LookTaken]) -> frozenset[CellRef]:
    """Return the cells that the look after these reads: of claims that they left undecided; without looks, of all."""
    undecided = looks[-1].undecided if looks else None
    asked = tuple(one for one in plan.hypotheses if undecided is None or one.id in undecided)
    return list_registered_cells(plan.model_copy(update={"hypotheses": asked}))


def is_late_seed(view: StageSnapshot, seed: int) -> bool:
    """Return whether a fresh seed measures only what an undecided claim reads: a look added it to the planned ones."""
    if view.lock is None or not view.looks or view.looks[-1].undecided is None or seed in view.added_seeds:
        return False
    return view.lock.is_fresh_seed(seed) and seed not in _list_fresh_seeds(view, view.lock.n)


def list_late_cells(view: StageSnapshot) -> frozenset[CellRef]:
    """Return the cells of the seeds that the next look adds to the planned ones; empty if it adds none."""
    sizes = view.lock.looks[len(view.looks) :] if view.lock is not None else ()
    late = view.lock is not None and sizes and is_late_seed(view, _list_fresh_seeds(view, sizes[0])[-1])
    return list_undecided_cells(view.plan, view.looks) if late else frozenset()


def _list_fresh_seeds(view: StageSnapshot, n: int) -> range:
    """Return the first `n` fresh seeds, and the next one for each of them that failed, within the limit."""
    assert view.lock is not None
    ended = (one for one in view.fresh_replicates if one.is_finished and one.status != "good")
    failed = [one.seed for one in ended if not one.is_cut_short]
    first = view.lock.seeds[0]
    seeds = range(first, first + n)
    while (lost := min(sum(seed in seeds for seed in failed), ceil(MAX_REPLACED_SHARE * n))) > len(seeds) - n:
        seeds = range(first, first + n + lost)
    return seeds


def is_sampling_ended(view: StageSnapshot) -> bool:
    """Return whether a look ended the sampling of fresh seeds, or no claim about their node is possible any more."""
    winner = view.nodes.get(view.lock.winner) if view.lock is not None else None
    return bool(view.looks and view.looks[-1].ends) or winner is None or bool(winner.suspect)


def list_unread_nodes(state: RunState) -> tuple[Node, ...]:
    """Return the unfinished nodes that nothing reads: fresh replicates once a look ended the sampling, and trials once
    a limit of the run ended the search of their stage."""
    lock, looks = state.search.current_lock, state.search.looks
    open_nodes = [one for one in state.nodes.values() if not one.is_finished]
    trials = [one for one in open_nodes if one.kind == "trial" and state.limit_reason is not None]
    unread = [one for one in trials if state.find_stage_end(one.stage) is not None]
    if lock is not None and looks and looks[-1].ends:
        read = {*looks[-1].seeds, *state.search.added_seeds}
        fresh = (one for one in open_nodes if one.parent == lock.winner and lock.is_fresh_seed(one.seed))
        unread += [one for one in fresh if one.kind == "replicate" and one.seed not in read]
    return tuple(unread)


def find_due_look(view: StageSnapshot) -> RunTask | None:
    """Return the look that is due: all of its seeds have finished, in any order.

    If time or budget ran out before the first look, it reads the seeds that are complete, since no value has been seen.
    """
    lock = view.lock
    if lock is None or not lock.looks or view.has_pending_look or is_sampling_ended(view):
        return None
    seeds = list_look_seeds(view)
    runs = [one for one in view.list_replicates(lock.winner) if one.seed in seeds]
    finished = {one.seed for one in runs if not one.is_cut_short}
    enough = finished.issuperset(seeds) or (view.stops_replicates and not view.looks)
    if any(not one.is_finished for one in runs) or not enough:
        return None
    needed = list_undecided_cells(view.plan, view.looks)
    return LOOK_TASKS[len(view.looks)] if list_complete_replicates(needed, lock, runs) else None


def list_complete_replicates(needed: Iterable[CellRef], lock: ConfirmationLocked, runs: Iterable[Node]) -> list[Node]:
    """Return the fresh replicates with an outcome (a value, or divergence) in every one of these cells, in the order of
    their seeds."""
    places = {one._replace(selection_split="") for one in needed}

    def is_complete(node: Node) -> bool:
        lines = node.attempts[-1].cells if node.attempts else ()
        ended = (one.cell for one in lines if one.outcome in ("measured", "taken over") or one.diverged)
        known = {CellRef(cell.dataset, cell.measured_arm, cell.level) for cell in ended}
        return node.status == "good" and not node.suspect and (not lines or known >= places)

    complete = {one.seed: one for one in runs if lock.is_fresh_seed(one.seed) and is_complete(one)}
    return [complete[seed] for seed in sorted(complete)]


def list_look_replicates(state: RunState, look: int) -> list[Node]:
    """Return the replicates that a look of the current lock reads: the first complete ones, at most as many as the look
    needs.
    """
    assert state.search.data_plan is not None and state.search.current_lock is not None
    lock, needed = state.search.current_lock, list_undecided_cells(state.search.data_plan, state.search.looks[:look])
    replicates = (one for one in state.nodes.values() if one.kind == "replicate" and one.parent == lock.winner)
    return list_complete_replicates(needed, lock, replicates)[: lock.looks[look]]


def find_lacking_seeds(view: StageSnapshot, target: Node, seeds: Iterable[int]) -> tuple[int, ...]:
    """Return the seeds with which a node must still run. Cancelled ones wait until the run has more time or
    budget.
    """
    done = {one.seed for one in view.list_replicates(target.id) if view.run_limit_reason or not one.is_cut_short}
    return tuple(seed for seed in seeds if seed not in done)


def list_ablation_seeds(lock: ConfirmationLocked | None, settings: SearchSettings) -> Sequence[int]:
    """Return the seeds of an ablation: the first seeds of the node that it ablates."""
    first = settings.count_seeds("ablation")
    if lock is None or not first:
        return ()
    return lock.seeds[: max(first, min(len(lock.seeds), MIN_REPLICATES))]


def is_further_seed(action: SearchAction, lock: ConfirmationLocked | None, settings: SearchSettings) -> bool:
    """Return whether an action runs an ablation with a seed beyond its first ones."""
    if not isinstance(action, ExpandTree) or (action.kind, action.stage) != ("replicate", "ablation"):
        return False
    return action.seed not in list_ablation_seeds(lock, settings)


def list_further_replicates(view: StageSnapshot, settings: SearchSettings) -> tuple[ExpandTree, ...]:
    """Return the next round of further seeds of the ablations: one for each working ablation with the fewest seeds.

    They pair with the fresh seeds that the looks read and with which every method ran: none before the last look, and
    no more than these. None for an ablation that ignores its seed, if the user set the number of seeds, or once a limit
    refused a round.
    """
    first, lock, looks = list_ablation_seeds(view.lock, settings), view.lock, view.looks
    stopped = view.stops_replicates or view.further_seeds_ended
    if not first or lock is None or settings.ablation.num_seeds is not None or stopped or _has_further_looks(view):
        return ()
    others = [one for one in view.in_flight if (one.kind, one.stage) != ("replicate", "ablation")]
    if view.nodes[lock.winner].suspect or others:
        return ()
    most = looks[-1].seeds[-1] if looks and looks[-1].seeds else inf
    fresh = (one for one in view.fresh_replicates if one.seed <= most)
    methods = {arm.name for arm in view.plan.arms if arm.role == "method"}  # with which ablations are compared
    compared = [cell for cell in list_main_cells(view.plan) if cell.arm in methods]
    seeds = [one.seed for one in list_complete_replicates(compared, lock, fresh)]
    varying = [node for node in view.good_nodes if not has_same_values(view.list_replicates(node.id))]
    lacking = {node.id: len(find_lacking_seeds(view, node, seeds)) for node in varying}
    behind = [node for node in varying if lacking[node.id] == max(lacking.values())]
    return tuple(one for node in behind for one in next_replicate(view, "ablation", node, seeds))


def needs_paired_seeds(view: StageSnapshot) -> ExpandTree | None:
    """Return the next run for two nodes that noise makes indistinguishable, with the first planning seeds.

    No claim uses these runs. None if there is no such pair, or if enough of these runs are finished.
    """
    if view.limit_reason or view.stops_replicates:
        return None
    ran = {one.parent for one in view.list_nodes_of_kind("replicate") if one.seed < view.seed + FRESH_SEED_OFFSET}
    contested = view.contested_nodes
    if len(ran | {one.id for one in contested}) > MAX_CONTESTED_NODES:
        return None
    seeds = range(first := view.seed + FINALIST_SEED_OFFSET, first + MIN_FRESH_SEEDS - 1)
    return next((due for node in contested for due in next_replicate(view, view.stage, node, seeds)), None)


def next_replicate(view: StageSnapshot, stage: StageName, target: Node, seeds: Sequence[int]) -> Iterator[ExpandTree]:
    """Yield the next missing replicate of a node, if any."""
    for seed in find_lacking_seeds(view, target, seeds)[:1]:
        yield ExpandTree(
            stage=stage,
            kind="replicate",
            parent=target.id,
            seed=seed,
            ordinal=sum(one.kind == "replicate" and one.stage == stage for one in view.nodes.values()),
        )


def find_concluding_replicates(view: StageSnapshot, node: str, stage: StageName) -> tuple[Node, ...]:
    """Return the replicates that conclude a stage: after the lock those with fresh seeds, before it the others."""
    late = stage in ("agenda", "ablation") and view.lock is not None
    return tuple(one for one in view.list_replicates(node) if (one.seed >= view.seed + FRESH_SEED_OFFSET) == late)


def _iterate_conclusions(view: StageSnapshot, settings: SearchSettings) -> Iterator[ExpandTree | RunTask]:
    """Yield the summary of each settled stage whose replicates are finished; after the main experiments, yield first
    the aggregate of the fresh ones, since the paper shows only these.

    A stage without any valid node gets only a report, provided that another stage has a valid node.
    """
    for stage, best in view.winner_by_stage.items():
        if stage == "agenda" and _has_further_looks(view):
            continue
        replicates = find_concluding_replicates(view, best.id, stage) if best is not None else ()
        if not all(one.is_finished for one in replicates) or (best is None and view.best_node is None):
            continue
        last = max((one.decision for one in replicates), default=0)
        made = [one for one in view.nodes.values() if one.kind == "aggregate"]
        late = (one for one in made if best is not None and one.parent == best.id and one.decision > last)
        aggregate = next(late, None)
        due = stage == "agenda" and "aggregate" not in view.skipped_kinds
        if best is not None and aggregate is None and due and any(one.status == "good" for one in replicates):
            ordinal = sum(one.stage == stage for one in made)
            yield ExpandTree(stage=stage, kind="aggregate", parent=best.id, ordinal=ordinal, seed=view.seed)
        elif (aggregate is None or aggregate.is_finished) and stage not in view.report_written_by_stage:
            yield build_summary_task(stage)


def _has_further_looks(view: StageSnapshot) -> bool:
    """Return whether fresh seeds remain to be run or read."""
    if view.lock is None or not view.lock.looks or is_sampling_ended(view):
        return False
    lacking = find_lacking_seeds(view, view.nodes[view.lock.winner], list_confirming_seeds(view))
    return view.has_pending_look or find_due_look(view) is not None or bool(lacking and not view.stops_replicates)
