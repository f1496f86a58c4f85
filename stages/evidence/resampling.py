"""How far differences and effects on test data vary with the test examples: a paired bootstrap, where the labels are.

Replicates show what training again would change; the test set is a sample too, and this shows what other examples
would. All examples are drawn anew, with replacement, the same ones for both arms and every seed; the difference is the
mean over the same replicates; the interval is between the 2.5 and 97.5 percentiles of all draws. Source: Efron and
Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13.

Large test sets get fewer draws, never fewer examples; below `FEWEST` draws there is no interval.

Clusters of examples are few, and of unlike size: a bootstrap of them comes out too small. Each is left out once instead
(the jackknife; `CV3` in MacKinnon, Nielsen and Webb 2023, "Cluster-robust inference: a guide to empirical practice").
What clusters of unlike size are worth in clusters of one size is told beside it (Kish 1965).

What it does not guarantee: anything of values that were not computed by us from predictions (`evaluated`, `logged`),
nor, without clusters, of examples that depend on each other, as frames of one film do. Percentile intervals are too
short for a few dozen examples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from labwright.record.claims.decisions import Diverged, Run, deciding_nodes, key_of, measured_of, run_of, value_of
from labwright.record.claims.differences import Difference, differences
from labwright.record.claims.means import paper_claims
from labwright.record.estimands import Gap, Number, Place, metric_of, places_of
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.nouns.data import DataPlan, DatasetFacts, OverExamples
from labwright.record.nouns.hypotheses import Effect, Hypothesis
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.formulas import cost, kept
from labwright.sandbox.metrics import draw_counts, passes, resampled_scores
from labwright.sandbox.scoring import columns_of, sealed_predictions

if TYPE_CHECKING:
    from numpy.typing import NDArray

Drawn = dict[tuple[str, ...], Any]
"""(cluster column or empty, dataset, node, condition, metric) -> its value in each draw."""
DRAWS = 2000
FEWEST = 200
"""Draws below which the ends of the interval would be those of a handful of draws."""
PASSES = 2e10
"""Passes over examples for one dataset at most: about a minute and a half on one core."""
CELLS = 2**28
"""Draws times examples at most, in bytes of memory."""
NOT_OURS = "its values were not computed by the program from predictions"


class Sample(NamedTuple):
    """What the test examples of a dataset are a sample of: so many examples, or clusters, and what they are worth in
    clusters of one size."""

    units: int
    worth: float


def resampled(state: RunState, folder: RunFolder) -> tuple[OverExamples, ...]:
    """What resampling says of every difference on test data, or why it says nothing; in the order of the differences.

    Reads sealed predictions and labels. Takes up to a few minutes for large test sets: not for the event loop.
    """
    of_dataset: dict[str, list[Difference]] = defaultdict(list)
    for one in differences(state, paper_claims(state)):
        if one.split == "test":
            of_dataset[one.dataset].append(one)
    facts = {one.name: one for one in state.datasets}
    return (
        *(
            found
            for dataset, chosen in of_dataset.items()
            for found in _of_dataset(state, folder, facts.get(dataset), chosen)
        ),
        *_effects(state, folder),
    )


def _effects(state: RunState, folder: RunFolder) -> Iterator[OverExamples]:
    """The same of every effect of a hypothesis that generalises over examples, on whatever datasets it is read; a
    choice inside it stays as the validation or dev values of its seed have it."""
    plan, nodes = state.data_plan, [one for one in deciding_nodes(state)[0] if one.status == "good"]
    asked = [
        (one, key_of(one, number), effect)
        for one in (plan.hypotheses if plan is not None else ())
        if one.unit in ("seeds and examples", "seeds and clusters")
        for number, effect in enumerate(measured_of(one))
    ]
    if plan is None or not nodes or not asked:
        return
    facts, drawn = {one.name: one for one in state.datasets}, Drawn()
    names = {metric_of(effect, plan).name for *_, effect in asked}
    read = {
        (one.cluster, place.dataset, place.condition)
        for one, _, effect in asked
        for place in places_of(effect.estimand, plan, metric_of(effect, plan))
    }
    samples: dict[tuple[str, str], Sample] = {}
    reasons: dict[tuple[str, str], str] = {}
    for cluster, dataset in sorted({one[:2] for one in read}):
        wanted = {(node.id, condition) for node in nodes for *where, condition in read if where == [cluster, dataset]}
        try:
            samples[cluster, dataset], values = _drawn(
                state, folder, facts[dataset], wanted, names=names, cluster=cluster
            )
            drawn |= {(cluster, dataset, *key): each for key, each in values.items()}
        except SubmissionRefused as error:
            reasons[cluster, dataset] = str(error)
    runs = [run_of(node, state.tests.get(node.id, ())) for node in nodes]
    for one, key, effect in asked:
        yield over_examples(
            plan,
            one,
            effect,
            key,
            runs,
            reason=next(
                (
                    reasons[one.cluster, place.dataset]
                    for place in places_of(effect.estimand, plan, metric_of(effect, plan))
                    if (one.cluster, place.dataset) in reasons
                ),
                "",
            ),
            drawn={name[1:]: values for name, values in drawn.items() if name[0] == one.cluster},
            samples={dataset: sample for (cluster, dataset), sample in samples.items() if cluster == one.cluster},
        )


def over_examples(
    plan: DataPlan,
    one: Hypothesis,
    effect: Effect,
    key: str,
    runs: Sequence[Run],
    *,
    drawn: Mapping[tuple[str, ...], Any],
    samples: Mapping[str, Sample],
    reason: str = "",
) -> OverExamples:
    """How an effect varies with the test examples. `drawn` are the values by dataset, node, condition and metric: in
    every draw of examples, or with each cluster left out."""
    import numpy as np

    metric, kept = metric_of(effect, plan), [run for run in runs if _decides(plan, one, effect, run)]
    nothing = OverExamples(key=key, nodes=tuple(run.node for run in kept), reason=reason or NOT_OURS)
    if reason or not kept:
        return nothing

    def mean(values: Callable[[Run, Place], Number | None]) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            return np.atleast_1d(
                sum(value_of(plan, one, effect, run, values=partial(values, run))[0] for run in kept) / len(kept)
            )

    def measured(run: Run, place: Place) -> Number | None:
        return run.values.get((place.dataset, place.condition, metric.name))

    def resampled_in(dataset: str, run: Run, place: Place) -> Number | None:
        if dataset not in ("", place.dataset) or measured(run, place) is None:  # a cell that diverged has no draws
            return measured(run, place)
        return drawn[place.dataset, run.node, place.condition, metric.name][:shortest]

    read = sorted({place.dataset for place in places_of(effect.estimand, plan, metric)})
    units, worth = (min(getattr(samples[name], field) for name in read) if samples else 0 for field in Sample._fields)
    shortest = None if one.cluster else min((len(values) for values in drawn.values()), default=0)
    try:
        if one.cluster:
            whole, variance = mean(measured), 0.0
            for dataset in read:
                without = mean(partial(resampled_in, dataset))
                variance += float(((without - whole) ** 2).sum()) * (len(without) - 1) / len(without)
            found = OverExamples(key=key, nodes=nothing.nodes, clusters=units, worth=worth)
            return found.model_copy(
                update={"sd": sqrt(variance)}
                if isfinite(variance)
                else {"reason": f"{metric.name} has no value without one of the clusters"}
            )
        means = mean(partial(resampled_in, ""))
    except (KeyError, Gap):
        return nothing
    means = means[np.isfinite(means)]
    if len(means) < FEWEST:
        return nothing
    low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    return OverExamples(
        key=key,
        nodes=nothing.nodes,
        low=low,
        high=high,
        examples=units,
        worth=worth,
        draws=len(means),
        sd=float(np.std(means, ddof=1)) * sqrt(units / max(1, units - 1)),
    )


def _decides(plan: DataPlan, one: Hypothesis, effect: Effect, run: Run) -> bool:
    """Whether a run has a value of an effect, so that its mean is over this one, too."""
    try:
        return bool(value_of(plan, one, effect, run))
    except (Diverged, Gap):
        return False


def draws_for(examples: int, passes: int) -> int:
    """How many draws are made where one of them takes so many passes over so many examples; 0: too many for any."""
    most = int(min(DRAWS, PASSES // max(1, examples * passes), CELLS // max(1, examples)))
    return most if most >= FEWEST else 0


def _of_dataset(
    state: RunState, folder: RunFolder, facts: DatasetFacts | None, chosen: Sequence[Difference]
) -> Iterator[OverExamples]:
    # Ours are those whose arms we scored from predictions: not code, and not a scorer of the user's own.
    by_scorers = {
        metric.name
        for scorer in state.scorers
        if facts is not None and scorer.dataset == facts.name
        for metric in scorer.metrics
    }
    ours = [
        one
        for one in chosen
        if facts is not None and one.grade in ("scored", "computed") and one.name not in by_scorers
    ]
    examples = facts.sizes.get("test", 0) if facts is not None else 0
    wanted = {
        part
        for one in ours
        for part in (*((node, one.condition) for node in one.nodes), *((node, one.other) for node in one.others))
    }
    names = {one.name for one in ours}
    found: dict[tuple[str, str, str], NDArray[Any]] = {}
    reason = ""
    if wanted:
        assert facts is not None
        try:
            found = _drawn(state, folder, facts, wanted, names=names)[1]
        except SubmissionRefused as error:
            reason = str(error)
    for one in chosen:
        yield (
            _interval(one, found, examples)
            if one in ours and not reason
            else OverExamples(
                key=one.key, nodes=one.nodes, others=one.others, reason=reason if one in ours else NOT_OURS
            )
        )


def _drawn(
    state: RunState,
    folder: RunFolder,
    facts: DatasetFacts,
    wanted: set[tuple[str, str]],
    *,
    names: set[str],
    cluster: str = "",
) -> tuple[Sample, dict[tuple[str, str, str], NDArray[Any]]]:
    """The scores of (node, condition)s in every draw of a dataset's test examples, or without each cluster of them
    where a column says which belong together; and what is a sample there. Raises `SubmissionRefused`."""
    import numpy as np

    examples = facts.sizes.get("test", 0)
    formulas = {name: text for name, text in kept(folder.labels).items() if name in names}
    each = passes(names - formulas.keys(), facts.classes) + sum(
        cost(text, facts.classes, examples) for text in formulas.values()
    )
    draws = draws_for(examples, len(wanted) * each)
    if not draws:
        raise SubmissionRefused(f"{examples} test examples are too many for {FEWEST} draws")
    assert state.started is not None
    rng = np.random.default_rng([state.started.seed, crc32(facts.name.encode())])
    if not cluster:
        return Sample(examples, float(examples)), _scores(
            state, folder, facts.name, wanted, names=names, drawn=draw_counts(rng, draws, examples)
        )
    column = columns_of(folder.labels, facts.name, "test")[1].get(cluster)
    if column is None:
        raise SubmissionRefused(f"{facts.name!r} has no column {cluster!r} to draw clusters by")
    values, member = np.unique(column, return_inverse=True)
    if len(values) > draws:  # so many that they are left out in groups
        member = rng.permutation(np.arange(len(values)) % draws)[member]
    sizes = np.bincount(member)
    without = (np.arange(len(sizes))[:, None] != member).astype(np.uint8)
    return Sample(len(values), float(sizes.sum() ** 2 / (sizes**2).sum())), _scores(
        state, folder, facts.name, wanted, names=names, drawn=without
    )


def _scores(
    state: RunState,
    folder: RunFolder,
    dataset: str,
    wanted: set[tuple[str, str]],
    *,
    names: set[str],
    drawn: NDArray[Any],
) -> dict[tuple[str, str, str], NDArray[Any]]:
    found: dict[tuple[str, str, str], NDArray[Any]] = {}
    for node in dict.fromkeys(node for node, _ in sorted(wanted)):
        last = state.nodes[node].attempts[-1]
        for one, values, truth, more in sealed_predictions(
            folder.attempt(node, last.number), folder.labels, expected=last.sealed
        ):
            if one.dataset == dataset and (node, one.condition) in wanted:
                if len(truth) != drawn.shape[1]:
                    raise SubmissionRefused(f"{one.where}: {len(truth)} labels, where the record has {drawn.shape[1]}")
                found |= {
                    (node, one.condition, name): over
                    for name, over in resampled_scores(
                        one.kind, values, truth, counts=drawn, names=names, more=more
                    ).items()
                }
    return found


def _interval(one: Difference, found: Mapping[tuple[str, str, str], NDArray[Any]], examples: int) -> OverExamples:
    import numpy as np

    keys = [
        ((node, one.condition, one.name), (other, one.other, one.name))
        for node, other in zip(one.nodes, one.others, strict=True)
    ]
    nothing = OverExamples(key=one.key, nodes=one.nodes, others=one.others, examples=examples)
    if any(a not in found or b not in found for a, b in keys):
        return nothing.model_copy(update={"reason": NOT_OURS})
    means = np.mean([found[a] - found[b] for a, b in keys], axis=0)
    means = means[np.isfinite(means)]
    if len(means) < FEWEST:
        return nothing.model_copy(
            update={"reason": f"{one.name} has a value in {len(means)} draws, fewer than {FEWEST}"}
        )
    low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    return nothing.model_copy(update={"low": low, "high": high, "draws": len(means)})
