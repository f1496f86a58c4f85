"""How far differences on test data vary with the test examples: a paired bootstrap, computed where the labels are.

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
from typing import TYPE_CHECKING, Any
from zlib import crc32

from record.claims.differences import Difference, differences
from record.claims.means import paper_claims
from record.fold.state import RunState
from record.folder import RunFolder
from record.nouns.data import DatasetFacts, OverExamples
from sandbox.errors import SubmissionRefused
from sandbox.metrics import draw_counts, passes, resampled_scores
from sandbox.scoring import sealed_predictions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Drawn = dict[tuple[str, str, str], NDArray[Any]]
    """(node, condition, metric) -> its value in each draw."""
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
    return tuple(found for dataset, chosen in of_dataset.items()
                 for found in _of_dataset(state, folder, facts.get(dataset), chosen))


def draws_for(examples: int, passes: int) -> int:
    """How many draws are made where one of them takes so many passes over so many examples; 0: too many for any."""
    most = int(min(DRAWS, PASSES // max(1, examples * passes), CELLS // max(1, examples)))
    return most if most >= FEWEST else 0


def _of_dataset(
    state: RunState, folder: RunFolder, facts: DatasetFacts | None, chosen: Sequence[Difference]
) -> Iterator[OverExamples]:
    import numpy as np

    # Ours are those whose arms we scored from predictions: not code, and not a scorer of the user's own.
    by_scorers = {metric.name for scorer in state.scorers if facts is not None and scorer.dataset == facts.name
                  for metric in scorer.metrics}
    ours = [one for one in chosen if facts is not None and one.grade in ("scored", "computed")
            and one.name not in by_scorers]
    examples = facts.sizes.get("test", 0) if facts is not None else 0
    wanted = {part for one in ours for part in (*((node, one.condition) for node in one.nodes),
                                                *((node, one.other) for node in one.others))}
    names = {one.name for one in ours}
    draws = draws_for(examples, len(wanted) * passes(names, facts.classes if facts else 0)) if wanted else 0
    found: Drawn = {}
    reason = "" if draws else f"{examples} test examples are too many for {FEWEST} draws"
    if draws:
        assert facts is not None and state.started is not None
        rng = np.random.default_rng([state.started.seed, crc32(facts.name.encode())])
        try:
            found = _scores(state, folder, facts.name, wanted, names=names, drawn=draw_counts(rng, draws, examples))
        except SubmissionRefused as error:
            reason = str(error)
    for one in chosen:
        yield _interval(one, found, examples) if one in ours and not reason else OverExamples(
            key=one.key, nodes=one.nodes, others=one.others, reason=reason if one in ours else NOT_OURS)


def _scores(
    state: RunState, folder: RunFolder, dataset: str, wanted: set[tuple[str, str]], *, names: set[str],
    drawn: NDArray[Any],
) -> Drawn:
    found: Drawn = {}
    for node in dict.fromkeys(node for node, _ in sorted(wanted)):
        last = state.nodes[node].attempts[-1]
        for one, values, truth in sealed_predictions(
                folder.attempt(node, last.number), folder.labels, expected=last.sealed):
            if one.dataset == dataset and (node, one.condition) in wanted:
                if len(truth) != drawn.shape[1]:
                    raise SubmissionRefused(f"{one.where}: {len(truth)} labels, where the record has {drawn.shape[1]}")
                found |= {(node, one.condition, name): over
                          for name, over in resampled_scores(
                              one.kind, values, truth, counts=drawn, names=names).items()}
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
