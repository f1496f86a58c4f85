"""Facts of a run that need an explanation in its code. Nothing is executed here.

They are notes, which the reader of the code gets (`review.honesty.code_reading`): honest arms can be equal if the
component between them has no effect.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from labwright.record.schema.cell import Cell, TrainingCounts
from labwright.record.schema.frozen_model import Scalar
from labwright.record.schema.nodes import HonestyFinding
from labwright.record.source_tree import read_constants, select_code
from labwright.sandbox.scoring import SubmittedPredictions

TRAINING_LENGTH_CONSTANT = re.compile(r"^(N_|NUM_)?(\w+_)?(EPOCHS|STEPS|ITERATIONS|UPDATES)$")
NOT_TRAINING_LENGTH = re.compile(r"MAX|WARM|EVAL|LOG|EVERY|INNER|PATIENCE|ATTACK|SAMPL|DIFFUS|TIME|WINDOW|HORIZON")
"""Names that only limit the length of training, or that do not concern training steps."""
EARLY_STOPPING_CODE = re.compile(r"patience|early|should_stop|seconds_left|\bbreak\b|converge|tol\b|max_?iter", re.I)


@dataclass(frozen=True)
class RunArtifacts:
    """Outputs of a node's execution that the checks read."""

    source: Mapping[str, str]
    predictions: Sequence[SubmittedPredictions] = ()
    training_by_cell: Mapping[Cell, TrainingCounts | None] = field(default_factory=dict[Cell, TrainingCounts | None])
    """Counts of the sandbox for each cell; empty for a program that is not divided into cells."""


def check_run(ran: RunArtifacts) -> tuple[HonestyFinding, ...]:
    """Return the facts, each as a note."""
    return (
        *find_equal_arms(ran.predictions),
        *find_short_training(
            read_constants(ran.source), list(ran.training_by_cell.values()), select_code(ran.source).values()
        ),
    )


def find_equal_arms(predicted: Iterable[SubmittedPredictions]) -> Iterator[HonestyFinding]:
    """Yield pairs of arms whose predictions are identical wherever both were measured.

    Labels are skipped: on few rows, two arms may predict the same labels.
    """
    places: dict[tuple[str, str], dict[str, SubmittedPredictions]] = defaultdict(dict)
    for one in predicted:
        if one.values.ndim > 1 or (one.values != np.round(one.values)).any():
            arm, _, level = one.condition.partition("@")
            places[one.dataset, level][arm] = one
    pairs: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for arms in places.values():
        for a, b in combinations(sorted(arms), 2):
            pairs[a, b].append(arms[a].kind == arms[b].kind and np.array_equal(arms[a].values, arms[b].values))
    for (a, b), equal in pairs.items():
        if all(equal):
            yield HonestyFinding(
                kind="equal arms",
                suspect=False,
                why=f"the predictions of {a!r} and {b!r} are identical wherever both were measured "
                f"({len(equal)} places)",
            )


def find_short_training(
    setups: Mapping[str, Scalar], trained: Sequence[TrainingCounts | None], code: Iterable[str]
) -> Iterator[HonestyFinding]:
    """Find training with fewer than half of the steps that the source's constants state, in every counted cell.

    An epoch has at least one step. Sources with early stopping, or whose constants only limit the length of training,
    are skipped.
    """
    declared = {
        name: int(value)
        for name, value in setups.items()
        if TRAINING_LENGTH_CONSTANT.match(name)
        and not NOT_TRAINING_LENGTH.search(name)
        and isinstance(value, int | float)
    }
    counted = [one.steps for one in trained if one is not None and one.steps is not None]
    if (
        not declared
        or not counted
        or len(counted) < len(trained)
        or any(EARLY_STOPPING_CODE.search(text) for text in code)
    ):
        return
    name = min(declared, key=lambda one: declared[one])
    if max(counted) * 2 < declared[name]:
        yield HonestyFinding(
            kind="too short",
            suspect=False,
            why=f"{name} is {declared[name]}, but no cell took more than {max(counted)} steps",
        )
