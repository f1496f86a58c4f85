"""Facts of a run that need an explanation in its code. Nothing is executed here.

They are notes, which the reader of the code gets (`review.honesty.code_reading`): honest arms can be equal if the
component between them has no effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np

from labwright.record.schema.nodes import HonestyFinding
from labwright.sandbox.scoring import SubmittedPredictions


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
