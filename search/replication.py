"""What settled stages are built on and still owe: replicates of their best, an aggregate of those, a summary.

A stage settles again on its next best node where the best turned out suspect, only while later stages are searched.

Replicates run the same code with other seeds. Those of the tuned node are the pilot: from their spread alone follows
how many fresh seeds decide the plan's hypotheses (`record.claims.decisions.n_planned`), never from what they show.
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

from labwright.record.campaign import Prospect
from labwright.record.claims.decisions import SKEWED, n_planned, n_rare, run_of, units_of, worst_loss
from labwright.record.claims.means import LEVEL, MINIMUM_REPLICATES, winner
from labwright.record.estimands import EstimandError, Gap, is_extreme
from labwright.record.events.searching import Locked
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Expand, Seen, Work, summary_of
from labwright.record.nouns.nodes import STAGES, Node, StageName
from labwright.search.settings import SearchSettings
from labwright.search.tree import View, view_of


def as_left(state: RunState, stage: StageName, settings: SearchSettings, *, by: int | None = None) -> View | None:
    """A stage as its search left it, with what people had marked when it was settled on what decision `by` found (None:
    by now); None while its search goes on."""
    end = state.end_of(stage)
    if end is None:
        return None
    settled = state.stages[stage].settlement(by) if by is not None else None
    marks = state.last_decision if settled is None else settled[0]
    return view_of(state, stage, end.seen, before=end.k, marks_before=marks + 1, settings=settings)


def unsettled(state: RunState, settings: SearchSettings) -> View | None:
    """The first stage that must settle again, since its best node is suspect by now, as its search left it."""
    for stage in STAGES[:-1]:
        best = state.nodes.get(state.stages[stage].best or "")
        if best is not None and best.suspect:
            return as_left(state, stage, settings)
    return None


MOST_CONTESTED = 3
"""Nodes of a stage that are run with further seeds because noise hides which is better."""
FRESH = 10_000
"""What the first fresh seed is more than the run's: searching and tuning use those just after it."""
FEWEST = 3
"""Replicates of a pilot below which their spread says nothing."""
REPLACED = 1 / 4
"""Of the locked seeds so many, and one at least, are replaced where they failed: with more the code is at fault."""


def owed(view: View, settings: SearchSettings) -> Expand | Work | None:
    """The next step that is due and can be begun now; replicates first, since they wait for no model."""
    replicated = () if "replicate" in view.without else targets(view, settings)
    due = (one for target in replicated for one in replicate_of(view, *target))
    return next(due, None) or next(_conclusions(view, settings), None)


def pilot(view: View) -> tuple[Node, ...]:
    """The replicates of the tuned node, of which so many as are finished show the spread."""
    tuned = view.settled.get("tuning") or view.settled.get("preliminary")
    return tuple(one for one in view.replicates(tuned.id) if one.seed < view.seed + FRESH) if tuned is not None else ()


def wanted(view: View) -> dict[str, int]:
    """Confirmatory hypothesis -> the fresh seeds that decide it, by the spread that the pilot showed on validation.

    Those whose cells the pilot did not measure are not there.
    """
    plan = view.plan
    asked = [one for one in plan.hypotheses if one.confirmatory]
    runs = [run_of(one) for one in pilot(view) if one.status == "good" and not one.suspect]
    found: dict[str, int] = {}
    for one in asked:
        for effect in one.effects:
            by_seed, level = one.model_copy(update={"unit": "seeds"}), LEVEL / len(asked)
            try:
                values = units_of(plan, by_seed, effect, runs).values
                loss = worst_loss(plan, by_seed, effect, runs)
            except (Gap, EstimandError):
                continue
            if len(values) >= FEWEST:
                n = max(
                    n_planned(
                        stdev(values),
                        len(values),
                        effect.smallest,
                        level * (SKEWED if is_extreme(effect.estimand) else 1),
                    ),
                    n_rare(loss, effect.smallest, level),
                )
                found[one.id] = max(n, found.get(one.id, 0))
    return found


def fresh(view: View, settings: SearchSettings) -> int:
    """How many fresh seeds the winner is to run with, as far as is known by now: as many as decide, within limits."""
    first = settings.seeds("agenda")
    if not first or view.spent:
        return first
    return min(max(first, settings.max_seeds), max((first, *wanted(view).values())))


def prospect_of(state: RunState, settings: SearchSettings) -> Prospect:
    """What the replicates so far say of the seeds that a run's claim asks for, and of their time; no value counts."""
    plan, stage = state.data_plan, state.stage
    asked = [one for one in plan.hypotheses if one.confirmatory] if plan is not None else []
    if not asked or stage is None:
        return Prospect(name="", why="its plan has no claim to be confirmed" if stage else "nothing was planned")
    view = view_of(state, stage, Seen(also=tuple(sorted(state.finished))), settings=settings)
    runs = [one.attempts[-1].seconds for one in pilot(view) if one.status == "good" and one.attempts]
    found = wanted(view)
    why = "" if found else "its replicates measured nothing of its claim" if runs else "no replicate of a prototype ran"
    return Prospect(
        name="",
        wanted=found,
        hypotheses=len(asked),
        why=why,
        seconds=fmean(runs) if runs else 0.0,
        seeds=max(settings.max_seeds, settings.seeds("agenda")),
    )


def lock_of(state: RunState, settings: SearchSettings, *, left: float = inf) -> Locked | None:
    """What is to be confirmed, where the agenda has settled on what is not locked yet: as many seeds as decide.

    With `left` seconds of the run, and where measured time may decide anything (`arrival`), no more than there is time
    for.
    """
    view, best = as_left(state, "agenda", settings), winner(state)
    if (
        view is None
        or best is None
        or state.tests
        or not state.stages["agenda"].settled
        or (state.lock is not None and state.lock.winner == best)
    ):
        return None
    node, asked, n = state.nodes[best], wanted(view), fresh(view, settings)
    why = [f"{name} asks for {count}" for name, count in asked.items() if count > n]
    why += [f"search.max_seeds is {settings.max_seeds}"] if why else []
    seconds = node.attempts[-1].seconds if node.attempts else 0.0
    if settings.order == "arrival" and isfinite(left) and n * seconds > left * settings.num_workers:
        n = max(0, floor(left / seconds)) * settings.num_workers
        why = [*why, f"there is time for {n}"]
    first = view.seed + FRESH
    return Locked(
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


def targets(view: View, settings: SearchSettings) -> Iterator[tuple[StageName, Node, Sequence[int]]]:
    """What is replicated, for which stage and with which seeds: every stage's best, and each ablation that worked.

    Ablations run with the seeds of what they are ablated from, so that differences are paired; with as many as a
    comparison needs to be called, where the node that they are ablated from has as many.
    """
    for stage, best in view.settled.items():
        if best is not None and stage != "agenda":
            yield stage, best, range(view.seed + 1, view.seed + 1 + settings.seeds(stage))
    if view.locked is not None and view.locked.winner in view.nodes:
        yield "agenda", view.nodes[view.locked.winner], confirming(view)
        if view.stage == "ablation":
            for node in view.good:
                yield "ablation", node, of_ablation(view, settings)


def confirming(view: View) -> Sequence[int]:
    """The fresh seeds of the winner: those that were locked, and the next one in the place of each that failed."""
    if view.locked is None or not view.locked.seeds:
        return ()
    failed = sum(
        view.locked.has(one.seed) and one.finished and one.status != "good" and not _cut_short(one)
        for one in view.replicates(view.locked.winner)
    )
    end = view.locked.seeds[-1] + 1
    return (*view.locked.seeds, *range(end, end + min(failed, ceil(REPLACED * len(view.locked.seeds)))))


def _cut_short(replicate: Node) -> bool:
    """Whether a replicate came to nothing since time or budget were spent: neither its code nor a person ended it."""
    return replicate.status == "cancelled" and (replicate.failure is None or replicate.failure.kind != "killed")


def lacking(view: View, target: Node, seeds: Iterable[int]) -> tuple[int, ...]:
    """Those of the seeds that a node was not run with. What was cut short waits until the run has more again."""
    done = {one.seed for one in view.replicates(target.id) if view.spent or not _cut_short(one)}
    return tuple(seed for seed in seeds if seed not in done)


def of_ablation(view: View, settings: SearchSettings) -> Sequence[int]:
    """The seeds that an ablation is to run with, the first of those that what it is ablated from runs with."""
    first = settings.seeds("ablation")
    if view.locked is None or not first:
        return ()
    return view.locked.seeds[: max(first, min(len(view.locked.seeds), MINIMUM_REPLICATES))]


def contested(view: View) -> Expand | None:
    """The next run of two nodes that noise keeps from being told apart, with the seeds that tell them apart: those
    right after the run's own. They carry no claim. None where there is no such pair, or enough of them ran.
    """
    if view.limited or view.spent or "replicate" in view.without:
        return None
    ran = {one.parent for one in view.kind("replicate") if one.seed < view.seed + FRESH}
    for node in view.contested if len(ran | {one.id for one in view.contested}) <= MOST_CONTESTED else ():
        if due := next(replicate_of(view, view.stage, node, range(view.seed + 1, view.seed + FEWEST)), None):
            return due
    return None


def replicate_of(view: View, stage: StageName, target: Node, seeds: Sequence[int]) -> Iterator[Expand]:
    """The next replicate of a node that is to have these seeds; none where it has them."""
    for seed in lacking(view, target, seeds)[:1]:
        yield Expand(
            stage=stage,
            kind="replicate",
            parent=target.id,
            seed=seed,
            ordinal=sum(one.kind == "replicate" and one.stage == stage for one in view.nodes.values()),
        )


def again(view: View, node: str, stage: StageName) -> tuple[Node, ...]:
    """The replicates of a node that a stage is concluded from: the fresh ones once they are locked, else the others."""
    late = stage in ("agenda", "ablation") and view.locked is not None
    return tuple(one for one in view.replicates(node) if (one.seed >= view.seed + FRESH) == late)


def _conclusions(view: View, settings: SearchSettings) -> Iterator[Expand | Work]:
    """The aggregate, then the summary, of each settled stage whose replicates are finished.

    One aggregate serves two stages that settled on one node with the same replicates.

    A stage in which nothing is left that counts is reported on alone, while other stages have something.
    """
    for stage, best in view.settled.items():
        replicates = again(view, best.id, stage) if best is not None else ()
        if not all(one.finished for one in replicates) or (best is None and view.best is None):
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
        due = "aggregate" not in view.without and any(one.status == "good" for one in replicates)
        if best is not None and aggregate is None and due:
            ordinal = sum(one.kind == "aggregate" and one.stage == stage for one in view.nodes.values())
            yield Expand(stage=stage, kind="aggregate", parent=best.id, ordinal=ordinal, seed=view.seed)
        elif (aggregate is None or aggregate.finished) and stage not in view.reports:
            yield summary_of(stage)
