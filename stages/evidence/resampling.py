"""How far differences and effects on test data vary with the test examples: a paired bootstrap, where the labels are.

Replicates show what training again would change; the test set is a sample too, and this shows what other examples
would. All examples are drawn anew, with replacement, the same ones for both arms and every seed; the difference is the
mean over the same replicates; the interval is between the 2.5 and 97.5 percentiles of all draws. Source: Efron and
Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13.

Large test sets get fewer draws, never fewer examples; below `FEWEST` draws there is no interval.

What it does not guarantee: anything of values that were not computed by us from predictions (`evaluated`, `logged`),
nor of examples that depend on each other, as frames of one film do. Percentile intervals are too short for a few dozen
examples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

from record.claims.decisions import Run, deciding_nodes, key_of, measured_of, run_of
from record.claims.differences import Difference, differences
from record.claims.means import paper_claims
from record.estimands import Gap, Place, evaluated, metric_of, places_of
from record.fold.state import RunState
from record.folder import RunFolder
from record.nouns.data import DataPlan, DatasetFacts, OverExamples
from record.nouns.hypotheses import Effect
from sandbox.errors import SubmissionRefused
from sandbox.formulas import cost, kept
from sandbox.metrics import draw_counts, passes, resampled_scores
from sandbox.scoring import columns_of, sealed_predictions

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


def resampled(state: RunState, folder: RunFolder) -> tuple[OverExamples, ...]:
    """What resampling says of every difference on test data, or why it says nothing; in the order of the differences.

    Reads sealed predictions and labels. Takes up to a few minutes for large test sets: not for the event loop.
    """
    of_dataset: dict[str, list[Difference]] = defaultdict(list)
    for one in differences(state, paper_claims(state)):
        if one.split == "test":
            of_dataset[one.dataset].append(one)
    facts = {one.name: one for one in state.datasets}
    return (*(found for dataset, chosen in of_dataset.items()
              for found in _of_dataset(state, folder, facts.get(dataset), chosen)), *_effects(state, folder))


def _effects(state: RunState, folder: RunFolder) -> Iterator[OverExamples]:
    """The same of every effect of a hypothesis that generalises over examples, on whatever datasets it is read; a
    choice inside it stays as the validation or dev values of its seed have it."""
    plan, nodes = state.data_plan, [one for one in deciding_nodes(state)[0] if one.status == "good"]
    asked = [(one.cluster, key_of(one, number), effect) for one in (plan.hypotheses if plan is not None else ())
             if one.unit in ("seeds and examples", "seeds and clusters")
             for number, effect in enumerate(measured_of(one))]
    if plan is None or not nodes or not asked:
        return
    facts, drawn, reason = {one.name: one for one in state.datasets}, Drawn(), ""
    names = {metric_of(effect, plan).name for *_, effect in asked}
    read = {(cluster, place.dataset, place.condition) for cluster, _, effect in asked
            for place in places_of(effect.estimand, plan, metric_of(effect, plan))}
    for cluster, dataset in sorted({one[:2] for one in read}):
        wanted = {(node.id, condition) for node in nodes for *where, condition in read if where == [cluster, dataset]}
        try:
            drawn |= {(cluster, dataset, *key): values for key, values in _drawn(
                state, folder, facts[dataset], wanted, names=names, cluster=cluster).items()}
        except SubmissionRefused as error:
            reason = str(error)
    runs = [run_of(node, state.tests.get(node.id, ())) for node in nodes]
    for cluster, key, effect in asked:
        yield _effect(plan, effect, key, runs, {key[1:]: values for key, values in drawn.items() if key[0] == cluster},
                      reason, facts[plan.datasets[0].name].sizes.get("test", 0))


def _effect(
    plan: DataPlan, effect: Effect, key: str, runs: Sequence[Run], drawn: Mapping[tuple[str, ...], Any], reason: str,
    examples: int,
) -> OverExamples:
    import numpy as np

    metric, nodes = metric_of(effect, plan), tuple(run.node for run in runs)
    shortest = min((len(values) for values in drawn.values()), default=0)
    nothing = OverExamples(key=key, nodes=nodes, reason=reason or NOT_OURS)

    def read(run: Run, place: Place) -> Any:
        if place.by:
            return run.others[place.by][place.dataset, place.condition, metric.name]
        if place in run.diverged and metric.worst is not None:
            return metric.worst
        return drawn[place.dataset, run.node, place.condition, metric.name][:shortest]

    try:
        means = np.mean([evaluated(effect.estimand, plan, metric, partial(read, run)) for run in runs], axis=0)
    except (KeyError, Gap):
        return nothing
    means = np.atleast_1d(means)[np.isfinite(np.atleast_1d(means))]
    if len(means) < FEWEST:
        return nothing
    low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    return OverExamples(key=key, nodes=nodes, low=low, high=high, examples=examples, draws=len(means),
                        sd=float(np.std(means, ddof=1)))


def draws_for(examples: int, passes: int) -> int:
    """How many draws are made where one of them takes so many passes over so many examples; 0: too many for any."""
    most = int(min(DRAWS, PASSES // max(1, examples * passes), CELLS // max(1, examples)))
    return most if most >= FEWEST else 0


def _of_dataset(
    state: RunState, folder: RunFolder, facts: DatasetFacts | None, chosen: Sequence[Difference]
) -> Iterator[OverExamples]:
    # Ours are those whose arms we scored from predictions: not code, and not a scorer of the user's own.
    by_scorers = {metric.name for scorer in state.scorers if facts is not None and scorer.dataset == facts.name
                  for metric in scorer.metrics}
    ours = [one for one in chosen if facts is not None and one.grade in ("scored", "computed")
            and one.name not in by_scorers]
    examples = facts.sizes.get("test", 0) if facts is not None else 0
    wanted = {part for one in ours for part in (*((node, one.condition) for node in one.nodes),
                                                *((node, one.other) for node in one.others))}
    names = {one.name for one in ours}
    found: dict[tuple[str, str, str], NDArray[Any]] = {}
    reason = ""
    if wanted:
        assert facts is not None
        try:
            found = _drawn(state, folder, facts, wanted, names=names)
        except SubmissionRefused as error:
            reason = str(error)
    for one in chosen:
        yield _interval(one, found, examples) if one in ours and not reason else OverExamples(
            key=one.key, nodes=one.nodes, others=one.others, reason=reason if one in ours else NOT_OURS)


def _drawn(
    state: RunState, folder: RunFolder, facts: DatasetFacts, wanted: set[tuple[str, str]], *, names: set[str],
    cluster: str = "",
) -> dict[tuple[str, str, str], NDArray[Any]]:
    """The scores of (node, condition)s in every draw of a dataset's test examples, whole clusters of them where a
    column says which belong together. Raises `SubmissionRefused`."""
    import numpy as np

    examples = facts.sizes.get("test", 0)
    formulas = {name: text for name, text in kept(folder.labels).items() if name in names}
    each = passes(names - formulas.keys(), facts.classes) + sum(
        cost(text, facts.classes, examples) for text in formulas.values())
    draws = draws_for(examples, len(wanted) * each)
    if not draws:
        raise SubmissionRefused(f"{examples} test examples are too many for {FEWEST} draws")
    assert state.started is not None
    rng = np.random.default_rng([state.started.seed, crc32(facts.name.encode())])
    if not cluster:
        return _scores(state, folder, facts.name, wanted, names=names, drawn=draw_counts(rng, draws, examples))
    column = columns_of(folder.labels, facts.name, "test")[1].get(cluster)
    if column is None:
        raise SubmissionRefused(f"{facts.name!r} has no column {cluster!r} to draw clusters by")
    values, member = np.unique(column, return_inverse=True)
    drawn = draw_counts(rng, draws, len(values))[:, member]
    return _scores(state, folder, facts.name, wanted, names=names, drawn=drawn)


def _scores(
    state: RunState, folder: RunFolder, dataset: str, wanted: set[tuple[str, str]], *, names: set[str],
    drawn: NDArray[Any],
) -> dict[tuple[str, str, str], NDArray[Any]]:
    found: dict[tuple[str, str, str], NDArray[Any]] = {}
    for node in dict.fromkeys(node for node, _ in sorted(wanted)):
        last = state.nodes[node].attempts[-1]
        for one, values, truth, more in sealed_predictions(
                folder.attempt(node, last.number), folder.labels, expected=last.sealed):
            if one.dataset == dataset and (node, one.condition) in wanted:
                if len(truth) != drawn.shape[1]:
                    raise SubmissionRefused(f"{one.where}: {len(truth)} labels, where the record has {drawn.shape[1]}")
                found |= {(node, one.condition, name): over
                          for name, over in resampled_scores(
                              one.kind, values, truth, counts=drawn, names=names, more=more).items()}
    return found


def _interval(one: Difference, found: Mapping[tuple[str, str, str], NDArray[Any]], examples: int) -> OverExamples:
    import numpy as np

    keys = [((node, one.condition, one.name), (other, one.other, one.name))
            for node, other in zip(one.nodes, one.others, strict=True)]
    nothing = OverExamples(key=one.key, nodes=one.nodes, others=one.others, examples=examples)
    if any(a not in found or b not in found for a, b in keys):
        return nothing.model_copy(update={"reason": NOT_OURS})
    means = np.mean([found[a] - found[b] for a, b in keys], axis=0)
    means = means[np.isfinite(means)]
    if len(means) < FEWEST:
        return nothing.model_copy(update={
            "reason": f"{one.name} has a value in {len(means)} draws, fewer than {FEWEST}"})
    low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    return nothing.model_copy(update={"low": low, "high": high, "draws": len(means)})
