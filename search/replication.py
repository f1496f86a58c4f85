"""What settled stages are built on and still owe: replicates of their best, an aggregate of those, a summary.

A stage settles again on its next best node where the best turned out suspect, only while later stages are searched.

Replicates run the same code with other seeds. How many depends on their spread alone, never on what they show: so many
that the interval of the paired difference is narrower than half the difference that the search saw with its own seed
(which no claim uses). Stopping when a result looks good would make it look better than it is. Source: the two-stage
rule of C. Stein (1945), where the first sample fixes the size of the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from statistics import fmean, stdev

from record.claims.means import MINIMUM_REPLICATES, t_quantile
from record.fold.state import RunState
from record.nouns.decisions import Expand, Work, summary_of
from record.nouns.nodes import STAGES, Node, StageName
from search.score import measured
from search.settings import SearchSettings
from search.tree import View, view_of


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


RESOLVED = 0.5
"""Half-width of the interval that is wanted, as a share of the difference that the search saw."""
REPORTED: tuple[StageName, ...] = ("agenda", "ablation")
"""The stages whose best the paper reports: there the number of replicates adapts."""


def owed(view: View, settings: SearchSettings) -> Expand | Work | None:
    """The next step that is due and can be begun now; replicates first, since they wait for no model."""
    replicated = () if "replicate" in view.without else targets(view, settings)
    due = (one for target in replicated for one in replicate_of(view, *target))
    return next(due, None) or next(_conclusions(view, settings), None)


def wanted(view: View, target: Node, stage: StageName, settings: SearchSettings) -> int:
    """How many replicates the best of a stage is to have, by what is known so far."""
    first = settings.seeds(stage)
    if stage not in REPORTED or view.spent or settings.max_seeds <= first:
        return first
    known = view.replicates(target.id)[:first]
    if len(known) < max(first, 2) or not all(one.finished for one in known):
        return first
    paired = [_contrasts(one, view) for one in known if one.status == "good"]
    counts = [first]
    for dataset, effect in _contrasts(target, view).items():
        values = [one[dataset] for one in paired if dataset in one]
        if len(values) >= 2:
            counts.append(replicates_for(stdev(values), effect, settings.max_seeds))
    return max(counts)


def targets(view: View, settings: SearchSettings) -> Iterator[tuple[StageName, Node, int]]:
    """What is replicated, for which stage and how often: every stage's best, and each ablation that worked.

    Ablations run with the seeds of what they are ablated from, so that differences are paired; with as many as a
    comparison needs to be called, where the node that they are ablated from has as many.
    """
    for stage, best in view.settled.items():
        if best is not None:
            yield stage, best, wanted(view, best, stage, settings)
    if view.stage == "ablation" and view.root is not None and settings.seeds("ablation"):
        yield "ablation", view.root, wanted(view, view.root, "ablation", settings)
        for node in view.good:
            yield "ablation", node, of_ablation(view, settings)


def of_ablation(view: View, settings: SearchSettings) -> int:
    """How many replicates an ablation that works is to have, by what is known so far of what it is ablated from."""
    first = settings.seeds("ablation")
    if view.root is None or not first:
        return 0
    return max(first, min(wanted(view, view.root, "ablation", settings), MINIMUM_REPLICATES))


def replicate_of(view: View, stage: StageName, target: Node, count: int) -> Iterator[Expand]:
    """The next replicate of a node that is to have so many; none where it has them."""
    done = len(view.replicates(target.id))
    if done < count:
        yield Expand(stage=stage, kind="replicate", parent=target.id, seed=view.seed + 1 + done,
                     ordinal=sum(one.kind == "replicate" and one.stage == stage for one in view.nodes.values()))


def _conclusions(view: View, settings: SearchSettings) -> Iterator[Expand | Work]:
    """The aggregate, then the summary, of each settled stage whose replicates are finished.

    A stage in which nothing is left that counts is reported on alone, while other stages have something.
    """
    for stage, best in view.settled.items():
        replicates = view.replicates(best.id) if best is not None else ()
        if not all(one.finished for one in replicates) or (best is None and view.best is None):
            continue
        last = max((one.decision for one in replicates), default=0)
        aggregate = next((one for one in view.nodes.values() if best is not None and one.kind == "aggregate"
                          and one.parent == best.id and one.decision > last), None)
        due = "aggregate" not in view.without and any(one.status == "good" for one in replicates)
        if best is not None and aggregate is None and due:
            ordinal = sum(one.kind == "aggregate" and one.stage == stage for one in view.nodes.values())
            yield Expand(stage=stage, kind="aggregate", parent=best.id, ordinal=ordinal, seed=view.seed)
        elif (aggregate is None or aggregate.finished) and stage not in view.reports:
            yield summary_of(stage)


def _contrasts(node: Node, view: View) -> dict[str, float]:
    """Dataset -> mean of the primary metric over the methods' cells minus that over the baselines'."""
    role = {arm.name: arm.role for arm in view.plan.arms}
    found: dict[tuple[str, str], list[float]] = {}
    for entry, value in measured(node, view.plan).items():
        found.setdefault((entry.dataset, role.get(entry.arm, "")), []).append(value)
    return {dataset: fmean(values) - fmean(found[dataset, "baseline"])
            for (dataset, of), values in found.items() if of == "method" and (dataset, "baseline") in found}


def replicates_for(sd: float, effect: float, most: int) -> int:
    """The smallest n with a 95 % interval of half-width at most `RESOLVED` x |effect|; 0 without spread, else `most`.

    At least as many as a comparison needs to be called. `sd` is of the paired differences over the first replicates.
    """
    if sd == 0:
        return 0
    half = RESOLVED * abs(effect)
    return next((n for n in range(MINIMUM_REPLICATES, most) if t_quantile(0.975, n - 1) * sd / sqrt(n) <= half), most)
