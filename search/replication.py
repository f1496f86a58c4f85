"""What settled stages are built on and still owe: replicates of their best, an aggregate of those, a summary.

A stage settles again on its next best node where the best turned out suspect, only while later stages are searched.

Replicates run the same code with other seeds. Those of the tuned node are the pilot: from their spread alone follows
how many fresh seeds decide the plan's hypotheses (`record.claims.hypothesis_tests.n_planned`), never from what they
show.
When the agenda settles that number is locked, and the winner runs with seeds that nothing has run with before; what is
ablated from it runs with the first of them. Stopping when a result looks good would make it look better than it is.

A seed that was cancelled, since time or budget were spent, is owed again as soon as there is more. One that failed, or
that a person ended, is replaced by the next fresh one, whatever it had shown, for a quarter of the seeds at most.
Training that diverged is a result, and no failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor, inf, isfinite
from statistics import fmean, stdev

from labwright.record.campaign import DecisionForecast
from labwright.record.claims.estimates import MIN_REPLICATES, SIGNIFICANCE_LEVEL, find_winner
from labwright.record.claims.hypothesis_tests import (
    SKEWED_LEVEL_FACTOR,
    compute_divergence_n,
    compute_planned_n,
    compute_unit_values,
    compute_worst_loss,
    read_replicate_values,
)
from labwright.record.estimands import EstimandError, MissingCell, has_extreme
from labwright.record.events.search_events import ConfirmationLocked
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import ExpandTree, RunTask, VisibleDecisions, build_summary_task
from labwright.record.schema.nodes import STAGES, Node, StageName
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot


def view_at_stage_end(
    state: RunState, stage: StageName, settings: SearchSettings, *, by_decision: int | None = None
) -> StageSnapshot | None:
    """A stage as its search left it, with what people had marked when it was settled on what decision `by` found (None:
    by now); None while its search goes on."""
    end = state.find_stage_end(stage)
    if end is None:
        return None
    settled = state.stages[stage].find_settlement(by_decision) if by_decision is not None else None
    marks = state.last_decision if settled is None else settled[0]
    return build_snapshot(state, stage, end.seen, before=end.k, marks_before=marks + 1, settings=settings)


def find_unsettled_stage(state: RunState, settings: SearchSettings) -> StageSnapshot | None:
    """The first stage that must settle again, since its best node is suspect by now, as its search left it."""
    for stage in STAGES[:-1]:
        best = state.nodes.get(state.stages[stage].best or "")
        if best is not None and best.suspect:
            return view_at_stage_end(state, stage, settings)
    return None


MAX_CONTESTED_NODES = 3
"""Nodes of a stage that are run with further seeds because noise hides which is better."""
FRESH_SEED_OFFSET = 10_000
"""What the first fresh seed is more than the run's: searching and tuning use those just after it."""
MIN_FRESH_SEEDS = 3
"""Replicates of a pilot below which their spread says nothing."""
MAX_REPLACED_SHARE = 1 / 4
"""Of the locked seeds so many, and one at least, are replaced where they failed: with more the code is at fault."""


def pending_follow_up(view: StageSnapshot, settings: SearchSettings) -> ExpandTree | RunTask | None:
    """The next step that is due and can be begun now; replicates first, since they wait for no model."""
    replicated = () if "replicate" in view.skipped_kinds else iterate_targets(view, settings)
    due = (one for target in replicated for one in next_replicate(view, *target))
    return next(due, None) or next(_iterate_conclusions(view, settings), None)


def find_pilot_replicates(view: StageSnapshot) -> tuple[Node, ...]:
    """The replicates of the tuned node, of which so many as are finished show the spread."""
    tuned = view.winner_by_stage.get("tuning") or view.winner_by_stage.get("preliminary")
    return (
        tuple(one for one in view.list_replicates(tuned.id) if one.seed < view.seed + FRESH_SEED_OFFSET)
        if tuned is not None
        else ()
    )


def compute_wanted_seeds(view: StageSnapshot) -> dict[str, int]:
    """Confirmatory hypothesis -> the fresh seeds that decide it, by the spread that the pilot showed on validation.

    Those whose cells the pilot did not measure are not there.
    """
    plan = view.plan
    asked = [one for one in plan.hypotheses if one.confirmatory]
    runs = [
        read_replicate_values(one) for one in find_pilot_replicates(view) if one.status == "good" and not one.suspect
    ]
    found: dict[str, int] = {}
    for one in asked:
        for effect in one.effects:
            by_seed, level = one.model_copy(update={"unit": "seeds"}), SIGNIFICANCE_LEVEL / len(asked)
            try:
                values = compute_unit_values(plan, by_seed, effect, runs).values
                loss = compute_worst_loss(plan, by_seed, effect, runs)
            except (MissingCell, EstimandError):
                continue
            if len(values) >= MIN_FRESH_SEEDS:
                n = max(
                    compute_planned_n(
                        stdev(values),
                        len(values),
                        effect.smallest,
                        level * (SKEWED_LEVEL_FACTOR if has_extreme(effect.estimand) else 1),
                    ),
                    compute_divergence_n(loss, effect.smallest, level),
                )
                found[one.id] = max(n, found.get(one.id, 0))
    return found


def count_fresh_seeds(view: StageSnapshot, settings: SearchSettings) -> int:
    """How many fresh seeds the winner is to run with, as far as is known by now: as many as decide, within limits."""
    first = settings.count_seeds("agenda")
    if not first or view.run_limit_reason:
        return first
    return min(max(first, settings.max_seeds), max((first, *compute_wanted_seeds(view).values())))


def forecast_decision(state: RunState, settings: SearchSettings) -> DecisionForecast:
    """What the replicates so far say of the seeds that a run's claim asks for, and of their time; no value counts."""
    plan, stage = state.data_plan, state.stage
    asked = [one for one in plan.hypotheses if one.confirmatory] if plan is not None else []
    if not asked or stage is None:
        return DecisionForecast(
            name="", why="its plan has no claim to be confirmed" if stage else "nothing was planned"
        )
    view = build_snapshot(
        state, stage, VisibleDecisions(also=tuple(sorted(state.finished_decisions))), settings=settings
    )
    runs = [one.attempts[-1].seconds for one in find_pilot_replicates(view) if one.status == "good" and one.attempts]
    found = compute_wanted_seeds(view)
    why = "" if found else "its replicates measured nothing of its claim" if runs else "no replicate of a prototype ran"
    return DecisionForecast(
        name="",
        wanted=found,
        hypotheses=len(asked),
        why=why,
        seconds=fmean(runs) if runs else 0.0,
        seeds=max(settings.max_seeds, settings.count_seeds("agenda")),
    )


def build_lock(state: RunState, settings: SearchSettings, *, seconds_left: float = inf) -> ConfirmationLocked | None:
    """What is to be confirmed, where the agenda has settled on what is not locked yet: as many seeds as decide.

    With `left` seconds of the run, and where measured time may decide anything (`arrival`), no more than there is time
    for.
    """
    view, best = view_at_stage_end(state, "agenda", settings), find_winner(state)
    if (
        view is None
        or best is None
        or state.test_measurements
        or not state.stages["agenda"].is_settled
        or (state.current_lock is not None and state.current_lock.winner == best)
    ):
        return None
    node, asked, n = state.nodes[best], compute_wanted_seeds(view), count_fresh_seeds(view, settings)
    why = [f"{name} asks for {count}" for name, count in asked.items() if count > n]
    why += [f"search.max_seeds is {settings.max_seeds}"] if why else []
    seconds = node.attempts[-1].seconds if node.attempts else 0.0
    if settings.order == "arrival" and isfinite(seconds_left) and n * seconds > seconds_left * settings.num_workers:
        n = max(0, floor(seconds_left / seconds)) * settings.num_workers
        why = [*why, f"there is time for {n}"]
    first = view.seed + FRESH_SEED_OFFSET
    return ConfirmationLocked(
        plan=state.plan_hash,
        amendments=len(state.amendments),
        winner=best,
        source=node.source_sha256,
        trials=node.trials,
        n=n,
        wanted=asked,
        seeds=tuple(range(first, first + n)),
        why="; ".join(why),
    )


def iterate_targets(view: StageSnapshot, settings: SearchSettings) -> Iterator[tuple[StageName, Node, Sequence[int]]]:
    """What is replicated, for which stage and with which seeds: every stage's best, and each ablation that worked.

    Ablations run with the seeds of what they are ablated from, so that differences are paired; with as many as a
    comparison needs to be called, where the node that they are ablated from has as many.
    """
    for stage, best in view.winner_by_stage.items():
        if best is not None and stage != "agenda":
            yield stage, best, range(view.seed + 1, view.seed + 1 + settings.count_seeds(stage))
    if view.lock is not None and view.lock.winner in view.nodes:
        yield "agenda", view.nodes[view.lock.winner], list_confirming_seeds(view)
        if view.stage == "ablation":
            for node in view.good_nodes:
                yield "ablation", node, list_ablation_seeds(view, settings)


def list_confirming_seeds(view: StageSnapshot) -> Sequence[int]:
    """The fresh seeds of the winner: those that were locked, and the next one in the place of each that failed."""
    if view.lock is None or not view.lock.seeds:
        return ()
    failed = sum(
        view.lock.is_fresh_seed(one.seed) and one.is_finished and one.status != "good" and not _is_cut_short(one)
        for one in view.list_replicates(view.lock.winner)
    )
    end = view.lock.seeds[-1] + 1
    return (*view.lock.seeds, *range(end, end + min(failed, ceil(MAX_REPLACED_SHARE * len(view.lock.seeds)))))


def _is_cut_short(replicate: Node) -> bool:
    """Whether a replicate came to nothing since time or budget were spent: neither its code nor a person ended it."""
    return replicate.status == "cancelled" and (replicate.failure is None or replicate.failure.kind != "killed")


def find_lacking_seeds(view: StageSnapshot, target: Node, seeds: Iterable[int]) -> tuple[int, ...]:
    """Those of the seeds that a node was not run with. What was cut short waits until the run has more again."""
    done = {one.seed for one in view.list_replicates(target.id) if view.run_limit_reason or not _is_cut_short(one)}
    return tuple(seed for seed in seeds if seed not in done)


def list_ablation_seeds(view: StageSnapshot, settings: SearchSettings) -> Sequence[int]:
    """The seeds that an ablation is to run with, the first of those that what it is ablated from runs with."""
    first = settings.count_seeds("ablation")
    if view.lock is None or not first:
        return ()
    return view.lock.seeds[: max(first, min(len(view.lock.seeds), MIN_REPLICATES))]


def needs_paired_seeds(view: StageSnapshot) -> ExpandTree | None:
    """The next run of two nodes that noise keeps from being told apart, with the seeds that tell them apart: those
    right after the run's own. They carry no claim. None where there is no such pair, or enough of them ran.
    """
    if view.limit_reason or view.run_limit_reason or "replicate" in view.skipped_kinds:
        return None
    ran = {one.parent for one in view.list_nodes_of_kind("replicate") if one.seed < view.seed + FRESH_SEED_OFFSET}
    for node in (
        view.contested_nodes if len(ran | {one.id for one in view.contested_nodes}) <= MAX_CONTESTED_NODES else ()
    ):
        if due := next(next_replicate(view, view.stage, node, range(view.seed + 1, view.seed + MIN_FRESH_SEEDS)), None):
            return due
    return None


def next_replicate(view: StageSnapshot, stage: StageName, target: Node, seeds: Sequence[int]) -> Iterator[ExpandTree]:
    """The next replicate of a node that is to have these seeds; none where it has them."""
    for seed in find_lacking_seeds(view, target, seeds)[:1]:
        yield ExpandTree(
            stage=stage,
            kind="replicate",
            parent=target.id,
            seed=seed,
            ordinal=sum(one.kind == "replicate" and one.stage == stage for one in view.nodes.values()),
        )


def find_concluding_replicates(view: StageSnapshot, node: str, stage: StageName) -> tuple[Node, ...]:
    """The replicates of a node that a stage is concluded from: the fresh ones once they are locked, else the others."""
    late = stage in ("agenda", "ablation") and view.lock is not None
    return tuple(one for one in view.list_replicates(node) if (one.seed >= view.seed + FRESH_SEED_OFFSET) == late)


def _iterate_conclusions(view: StageSnapshot, settings: SearchSettings) -> Iterator[ExpandTree | RunTask]:
    """The aggregate, then the summary, of each settled stage whose replicates are finished.

    One aggregate serves two stages that settled on one node with the same replicates.

    A stage in which nothing is left that counts is reported on alone, while other stages have something.
    """
    for stage, best in view.winner_by_stage.items():
        replicates = find_concluding_replicates(view, best.id, stage) if best is not None else ()
        if not all(one.is_finished for one in replicates) or (best is None and view.best_node is None):
            continue
        last = max((one.decision for one in replicates), default=0)
        aggregate = next(
            (
                one
                for one in view.nodes.values()
                if best is not None and one.kind == "aggregate" and one.parent == best.id and one.decision > last
            ),
            None,
        )
        due = "aggregate" not in view.skipped_kinds and any(one.status == "good" for one in replicates)
        if best is not None and aggregate is None and due:
            ordinal = sum(one.kind == "aggregate" and one.stage == stage for one in view.nodes.values())
            yield ExpandTree(stage=stage, kind="aggregate", parent=best.id, ordinal=ordinal, seed=view.seed)
        elif (aggregate is None or aggregate.is_finished) and stage not in view.report_written_by_stage:
            yield build_summary_task(stage)
