"""Paired bootstrap of differences and effects on test data over the test examples, computed on the host.

Replicates show the variation between training runs; the bootstrap shows the variation between test sets. All examples
are drawn with replacement, the same ones for both arms and every seed; the difference is the mean over the same
replicates; the interval spans the 2.5th to 97.5th percentile of all draws. What the replicates share of this variation
is kept apart (`ResampledInterval.shared`), since the spread over seeds contains the rest. Sources: Efron and Tibshirani
1993, "An Introduction to the Bootstrap", chapter 13; Owen and Eckles 2012, "Bootstrapping data arrays of arbitrary
order".

Large test sets get fewer draws, never fewer examples; below `MIN_DRAWS` draws there is no interval.

Clusters of examples are few and of unequal size, so a bootstrap over them underestimates the variance. Instead, each
cluster is left out once (the jackknife; `CV3` in MacKinnon, Nielsen and Webb 2023, "Cluster-robust inference: a guide
to empirical practice"). The equivalent number of clusters of equal size is reported with it (Kish 1965).

Limits: nothing is computed for values that the host did not compute from predictions (`evaluated`, `logged`). Without
clusters, dependence between examples, such as frames of one film, is ignored. Percentile intervals are too short for a
few dozen examples.
"""

from __future__ import annotations

from asyncio import to_thread
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.claims.hypothesis_tests import (
    DivergedError,
    ReplicateValues,
    check_measured,
    close_look,
    compute_effect_value,
    decide_after_look,
    find_deciding_nodes,
    format_effect_key,
    list_estimated_effects,
    read_values,
)
from labwright.record.estimands import (
    CellRef,
    EstimandValue,
    Expression,
    MissingCell,
    find_effect_metric,
    list_cells_read,
    list_conditions_read,
    split_quotient,
)
from labwright.record.events.search_events import LookTaken, SealedTestScored
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import ResultFolder, RunFolder, list_result_folders
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement, ResampledInterval
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.record.schema.nodes import Failure, Node
from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.metrics import (
    compute_resampled_scores,
    count_formula_passes,
    count_passes,
    draw_counts,
    read_formulas,
)
from labwright.sandbox.repository.command_cells import read_sealed_test_values
from labwright.sandbox.scoring import iterate_sealed_predictions, read_labels, score_sealed
from labwright.search.hours import explain_sampling_end
from labwright.search.replication import list_look_replicates, list_unread_nodes
from labwright.stages.run_context import RunContext

if TYPE_CHECKING:
    from numpy.typing import NDArray


ResampledScores = dict[tuple[str, ...], Any]
"""(cluster column or empty, dataset, node, condition, metric) -> its value in each draw."""
MAX_DRAWS = 2000
MIN_DRAWS = 200
"""Minimum number of draws for a stable interval."""
MAX_PASSES = 2e10
"""Maximum number of example passes per dataset: about a minute and a half on one core."""
MAX_DRAW_BYTES = 2**28
"""Maximum memory of the matrix of draws by examples, in bytes."""
NOT_COMPUTED_REASON = "its values were not computed by the program from predictions"


class SampleSize(NamedTuple):
    """Sample size of a test set: the number of examples or clusters, and its equivalent in equal-sized clusters."""

    units: int
    effective_units: float


class DatasetDraws(NamedTuple):
    """What was drawn of several datasets; keys are (cluster column or empty, dataset)."""

    scores: ResampledScores
    samples: dict[tuple[str, str], SampleSize]
    reasons: dict[tuple[str, str], str]
    """Reasons why nothing could be drawn."""


def resample_differences(state: RunState, folder: RunFolder) -> tuple[ResampledInterval, ...]:
    """Resample every difference on test data and every effect that generalises over examples, in this order.

    Reads sealed predictions and labels. Takes up to a few minutes for large test sets, so it must not run in the event
    loop.
    """
    # Only values that the host scored from predictions, neither by code nor by the user's own scorer.
    own = {(scorer.dataset, metric.name) for scorer in state.search.scorers for metric in scorer.metrics}
    known = {facts.name for facts in state.search.datasets}
    every = [one for one in compute_differences(state, compute_paper_claims(state)) if one.split == "test"]
    scored = [
        one
        for one in every
        if one.grade in ("scored", "computed") and (one.dataset, one.name) not in own and one.dataset in known
    ]
    wanted = defaultdict[tuple[str, str], set[tuple[str, str, str]]](set)
    for one in scored:
        for condition, ran in ((one.condition, one.nodes), (one.other, one.others)):
            wanted["", one.dataset] |= {(node, condition, one.name) for node in ran}
    draws = _draw_datasets(state, folder, wanted)
    return (
        *(_explain_missing(one, NOT_COMPUTED_REASON) for one in every if one not in scored),
        *(_resample_difference(one, draws) for one in scored),
        *resample_effects(state, folder, find_deciding_nodes(state)[0]),
    )


def _explain_missing(one: ClaimDifference, reason: str) -> ResampledInterval:
    return ResampledInterval(key=one.key, nodes=one.nodes, others=one.others, reason=reason)


def resample_effects(state: RunState, folder: RunFolder, replicates: Sequence[Node]) -> Iterator[ResampledInterval]:
    """Resample every effect of a hypothesis that generalises over examples, on all datasets that it uses, for the mean
    over these replicates.

    Selections inside an effect are not resampled: they use the validation or dev values of their seed. Draws are not
    those of the differences, so what the paper compares changes no verdict.
    """
    plan, nodes = state.search.data_plan, [one for one in replicates if one.status == "good"]
    if plan is None or not nodes:
        return
    effects = [
        (one, format_effect_key(one, number), effect, list_conditions_read([effect], plan))
        for one in plan.hypotheses
        if one.unit in ("seeds and examples", "seeds and clusters")
        for number, effect in enumerate(list_estimated_effects(one))
    ]
    names = {find_effect_metric(effect, plan).name for _, _, effect, _ in effects}
    wanted = defaultdict[tuple[str, str], set[tuple[str, str, str]]](set)
    for one, _, _, read in effects:
        for dataset, _, condition in read:
            wanted[one.cluster, dataset] |= {(node.id, condition, name) for node in nodes for name in names}
    drawn, samples, reasons = _draw_datasets(state, folder, wanted)
    runs = [read_values(state, node) for node in nodes]
    for one, key, effect, read in effects:
        yield resample_effect(
            plan,
            one,
            effect,
            key,
            runs,
            reason=next((why for dataset, *_ in sorted(read) if (why := reasons.get((one.cluster, dataset)))), ""),
            drawn={name[1:]: values for name, values in drawn.items() if name[0] == one.cluster},
            samples={dataset: sample for (group, dataset), sample in samples.items() if group == one.cluster},
        )


def _draw_datasets(
    state: RunState, folder: RunFolder, wanted: Mapping[tuple[str, str], set[tuple[str, str, str]]]
) -> DatasetDraws:
    """Draw the (node, condition, metric) scores that are wanted of each cluster column, or none, and dataset."""
    draws, facts = DatasetDraws({}, {}, {}), {one.name: one for one in state.search.datasets}
    for (cluster, dataset), scores in sorted(wanted.items()):
        try:
            sample, values = _draw_scores(state, folder, facts[dataset], scores, cluster=cluster)
        except SubmissionRefused as error:
            draws.reasons[cluster, dataset] = str(error)
        else:
            draws.samples[cluster, dataset] = sample
            for key, each in values.items():
                draws.scores[cluster, dataset, *key] = each
    return draws


def _resample_difference(one: ClaimDifference, draws: DatasetDraws) -> ResampledInterval:
    """Compute how a difference varies with the test examples."""
    import numpy as np

    if (why := draws.reasons.get(("", one.dataset))) is not None:
        return _explain_missing(one, why)
    drawn, sample = draws.scores, draws.samples["", one.dataset]
    missing = _explain_missing(one, NOT_COMPUTED_REASON)
    sides = ((one.condition, one.nodes), (one.other, one.others))
    first, second = ([("", one.dataset, node, side, one.name) for node in ran] for side, ran in sides)
    if any(key not in drawn for key in (*first, *second)):
        return missing
    each = np.stack([drawn[key] for key in first]) - np.stack([drawn[key] for key in second])
    each = each[:, np.isfinite(each).all(axis=0)]
    if each.shape[1] < MIN_DRAWS:
        few = f"{one.name} has a value in only {each.shape[1]} draws; at least {MIN_DRAWS} are needed"
        return _explain_missing(one, few)
    found = _describe_draws(each, [each], sample.units)
    return missing.model_copy(update={"reason": "", "examples": sample.units, "worth": sample.effective_units, **found})


def resample_effect(
    plan: DataPlan,
    hypothesis: Hypothesis,
    effect: Effect,
    key: str,
    runs: Sequence[ReplicateValues],
    *,
    drawn: Mapping[tuple[str, ...], Any],
    samples: Mapping[str, SampleSize],
    reason: str = "",
) -> ResampledInterval:
    """Compute how an effect varies with the test examples.

    `drawn` maps (dataset, node, condition, metric) to the values in every draw, or with each cluster left out.
    """
    import numpy as np

    metric, kept = find_effect_metric(effect, plan), [run for run in runs if _has_value(plan, effect, run)]
    nothing = ResampledInterval(key=key, nodes=tuple(run.node for run in kept), reason=reason or NOT_COMPUTED_REASON)
    if reason or not kept:
        return nothing

    def compute_each(
        values: Callable[[ReplicateValues, CellRef], EstimandValue | None], part: Expression | None = None
    ) -> NDArray[Any]:
        """Return the values of the effect, or of a part of its estimand, by run and draw."""

        def compute(run: ReplicateValues) -> NDArray[Any]:
            return np.atleast_1d(compute_effect_value(plan, effect, run, values=partial(values, run), part=part))

        with np.errstate(all="ignore"):
            return np.stack(np.broadcast_arrays(*map(compute, kept)))

    def measured(run: ReplicateValues, place: CellRef) -> EstimandValue | None:
        return run.values.get((place.dataset, place.condition, metric.name))

    def resampled_in(dataset: str, run: ReplicateValues, place: CellRef) -> EstimandValue | None:
        if dataset not in ("", place.dataset):
            return measured(run, place)
        return drawn[place.dataset, run.node, place.condition, metric.name][:shortest]

    read = sorted({place.dataset for place in list_cells_read(effect.estimand, plan, metric)})
    units, effective_units = (
        min(getattr(samples[name], field) for name in read) if samples else 0 for field in SampleSize._fields
    )
    shortest = None if hypothesis.cluster else min((len(values) for values in drawn.values()), default=0)
    parts = split_quotient(effect.estimand)
    try:
        if hypothesis.cluster:
            whole, variance = compute_each(measured), 0.0
            shared = [0.0] * (3 if parts else 1)
            for dataset in read:
                moved = partial(resampled_in, dataset)
                without = compute_each(moved)
                scale = (without.shape[1] - 1) / without.shape[1]
                variance += scale * float(((without - whole).mean(axis=0) ** 2).sum())
                changes = [compute_each(moved, part) - compute_each(measured, part) for part in parts or (None,)]
                shared = [old + new for old, new in zip(shared, _compute_shared(changes, scale), strict=True)]
            found = ResampledInterval(key=key, nodes=nothing.nodes, clusters=units, worth=effective_units)
            return found.model_copy(
                update={"sd": sqrt(variance), "shared": tuple(shared)}
                if isfinite(variance)
                else {"reason": f"{metric.name} has no value when one of the clusters is left out"}
            )
        drawn_parts = [compute_each(partial(resampled_in, ""), part) for part in (None, *(parts or ()))]
    except (KeyError, MissingCell):
        return nothing
    whole_draws = [each.shape[1] for each in drawn_parts]
    drawn_parts = [np.broadcast_to(each, (len(kept), max(whole_draws))) for each in drawn_parts]
    finite = np.isfinite(drawn_parts).all(axis=(0, 1))
    drawn_parts = [each[:, finite] for each in drawn_parts]
    if finite.sum() < MIN_DRAWS:
        return nothing
    return ResampledInterval(
        key=key,
        nodes=nothing.nodes,
        examples=units,
        worth=effective_units,
        **_describe_draws(drawn_parts[0], drawn_parts[1:] or drawn_parts, units),
    )


def _describe_draws(whole: NDArray[Any], parts: Sequence[NDArray[Any]], examples: int) -> dict[str, Any]:
    """Return the fields of a `ResampledInterval` that follow from values by run and draw: of the whole effect, and of
    the parts whose shared variances are needed."""
    import numpy as np

    means = whole.mean(axis=0)
    low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    unbiased = examples / max(1, examples - 1)
    return {
        "low": low,
        "high": high,
        "draws": len(means),
        "sd": float(np.std(means, ddof=1)) * sqrt(unbiased),
        "shared": _compute_shared(
            [each - each.mean(axis=1, keepdims=True) for each in parts], unbiased / (len(means) - 1)
        ),
    }


def _compute_shared(changes: Sequence[NDArray[Any]], scale: float) -> tuple[float, ...]:
    """Return the variance over test examples that all runs share: of one quantity, or of two and their covariance.

    `changes` has the change of each quantity by run and draw, and `scale` makes sums of their squares variances. This
    is the covariance between different runs: the variance of the mean over n runs, less the n-th part of the variance
    that is specific to single runs (the interaction of seeds and examples), which the spread over seeds contains.
    """

    def compute_covariance(a: NDArray[Any], b: NDArray[Any]) -> float:
        n, of_mean = len(a), float((a.mean(axis=0) * b.mean(axis=0)).sum())
        return scale * (of_mean if n == 1 else (n * of_mean - float((a * b).sum()) / n) / (n - 1))

    if len(changes) == 1:
        return (compute_covariance(changes[0], changes[0]),)
    above, below = changes
    return compute_covariance(above, above), compute_covariance(below, below), compute_covariance(above, below)


def _has_value(plan: DataPlan, effect: Effect, run: ReplicateValues) -> bool:
    """Return whether a run has a value of an effect, so that it enters the mean."""
    try:
        compute_effect_value(plan, effect, run)
    except (DivergedError, MissingCell):
        return False
    return True


def count_draws(examples: int, passes: int) -> int:
    """Return the number of draws, each with `passes` passes over `examples` examples; 0 if `MIN_DRAWS` do not fit."""
    most = int(min(MAX_DRAWS, MAX_PASSES // max(1, examples * passes), MAX_DRAW_BYTES // max(1, examples)))
    return most if most >= MIN_DRAWS else 0


def _draw_scores(
    state: RunState, folder: RunFolder, facts: DatasetFacts, wanted: set[tuple[str, str, str]], *, cluster: str = ""
) -> tuple[SampleSize, dict[tuple[str, str, str], NDArray[Any]]]:
    """Return the sample size of a dataset, and the (node, condition, metric) scores in every draw of its test examples.

    If `cluster` names a column of groups, each group is left out once instead. Raises `SubmissionRefused`.
    """
    import numpy as np

    examples, names = facts.sizes.get("test", 0), {metric for *_, metric in wanted}
    formulas = {name: text for name, text in read_formulas(folder.labels).items() if name in names}
    each = count_passes(names - formulas.keys(), facts.classes) + sum(
        count_formula_passes(text, facts.classes, examples) for text in formulas.values()
    )
    draws = count_draws(examples, len({one[:2] for one in wanted}) * each)
    if not draws:
        raise SubmissionRefused(f"{examples} test examples are too many for {MIN_DRAWS} bootstrap draws")
    assert state.started is not None
    rng = np.random.default_rng([state.started.seed, crc32(facts.name.encode())])
    if cluster:
        column = read_labels(folder.labels, facts.name, "test").columns.get(cluster)
        if column is None:
            raise SubmissionRefused(f"{facts.name!r} has no column {cluster!r} that defines clusters")
        values, member = np.unique(column, return_inverse=True)
        if len(values) > draws:  # too many clusters: leave them out in groups
            member = rng.permutation(np.arange(len(values)) % draws)[member]
        sizes = np.bincount(member)
        drawn = (np.arange(len(sizes))[:, None] != member).astype(np.uint8)
        sample = SampleSize(len(values), float(sizes.sum() ** 2 / (sizes**2).sum()))
    else:
        drawn, sample = draw_counts(rng, draws, examples), SampleSize(examples, float(examples))
    by_condition: dict[tuple[str, str, str], NDArray[Any]] = {}
    for node in sorted({node for node, *_ in wanted}):
        for place, result in list_result_folders(state, folder, state.nodes[node]):
            sealed = iterate_sealed_predictions(place, folder.labels, expected=result.sealed)
            for submission, values, truth, more in sealed:
                names = {metric for *of, metric in wanted if of == [node, submission.condition]}
                if submission.dataset != facts.name or not names:
                    continue
                if len(truth) != drawn.shape[1]:
                    raise SubmissionRefused(
                        f"{submission.description}: {len(truth)} labels, but the record has {drawn.shape[1]}"
                    )
                scores = compute_resampled_scores(submission.kind, values, truth, counts=drawn, names=names, more=more)
                by_condition |= {(node, submission.condition, name): found for name, found in scores.items()}
    return sample, by_condition


# Look at the fresh seeds of the lock: score their sealed test predictions, and test the hypotheses on them. Test
# values appear in no prompt of the search, which continues during the looks; they only decide whether further fresh
# seeds run.


async def score_node(context: RunContext, node: Node) -> None:
    """Record the test measurements of a node, unless they are recorded."""
    if node.id in context.state.search.test_measurements:
        return
    failure, results = None, list_result_folders(context.state, context.folder, node)
    measurements = await to_thread(score_results, results, context.folder.labels, seed=node.seed)
    try:
        for folder, result in results:
            measurements += await context.executor.evaluate(folder, seed=node.seed, sealed=result.sealed)
    except SubmissionRefused as error:  # the user's own scorer failed: the other values remain
        failure = Failure(kind="other", message=str(error))
    if measurements or failure is not None:
        context.recorder.append(SealedTestScored(node=node.id, measurements=measurements, failure=failure))


def score_results(results: Sequence[ResultFolder], labels: Path, *, seed: int) -> tuple[Measurement, ...]:
    """Return the test measurements of a node from the sealed files of its cells. Raises `SubmissionRefused`,
    `RepositoryError`."""
    scored = [score_sealed(at, labels, seed=seed, expected=result.sealed) for at, result in results]
    read = [read_sealed_test_values(at, result.sealed) for at, result in results]
    return tuple(value for values in (*scored, *read) for value in values)


async def take_look(context: RunContext, look: int) -> None:
    """Score the fresh seeds of a look, test the hypotheses on them, and record whether sampling continues.

    The look is one event, and earlier scoring is not repeated, so a kill costs at most the scoring of one node. Raises
    `UnmeasuredEffectError`.
    """
    state, lock = context.state, context.state.search.current_lock
    if lock is None or len(state.search.looks) > look:  # recorded before a kill
        return
    nodes = list_look_replicates(state, look)
    for node in nodes:
        await score_node(context, node)
    taken = LookTaken(
        look=look,
        seeds=tuple(node.seed for node in nodes),
        resampled=await to_thread(lambda: tuple(resample_effects(state, context.folder, nodes))),
    )
    decisions = decide_after_look(state, taken)
    check_measured(decisions)
    taken = close_look(state, taken, decisions)
    ends: str | None = "every claim is decided or precise enough"
    if not taken.conclusive:
        ends = explain_sampling_end(context.state, context.search, context.time, taken)
    context.recorder.append(taken.model_copy(update={"ends": ends or ""}))
    if context.search.order == "arrival":
        for node in list_unread_nodes(context.state):
            context.signals.kill_node(node.id)


def continue_sampling(context: RunContext) -> None:
    """Record that sampling continues if only a limit ended it, which has been raised or left time that nothing else
    needs."""
    last = context.state.search.looks[-1] if context.state.search.looks else None
    if last is None or not last.ends or last.conclusive or context.state.search.stages["ablation"].is_settled:
        return
    if explain_sampling_end(context.state, context.search, context.time, last) is None:
        context.recorder.append(last.model_copy(update={"ends": ""}))
