"""Score a plan against the ablations of a paper (author), or against the requests of its reviews (reviewer).

Only the first k entries count. Precision is over gold, as in figure 5 and the public code: an entry that covers two
gold ablations counts twice, two entries for one gold ablation count once. A ratio over nothing is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Any, TypeVar, cast

from pydantic import Field
from scipy.sparse import csgraph, csr_array  # pyrefly: ignore

from labwright.evals.intervals import MeanWithInterval, compute_mean
from labwright.record.claims.estimates import compute_p_value
from labwright.record.schema import FrozenModel

# Convert judges' answers in the benchmark's files (rows by name) to pairs of positions and votes on entries.
#
# Rows refer to ablations by name. A repeated name counts for every ablation that has it, an unknown one for none;
# null, an empty list and a missing side mean no match.

Row = Mapping[str, Any]
Pairs = frozenset[tuple[int, int]]
"""Positions of a gold ablation and of an entry, both from 0."""


def parse_names(value: object) -> tuple[str, ...]:
    """Return the names in a field, which may have one, several or none."""
    if value is None:
        return ()
    listed = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
    return tuple(str(one) for one in listed if one is not None)


def parse_pairs(rows: Iterable[Row], gold: Sequence[str], plan: Sequence[str]) -> Pairs:
    """Return the pairs that an author judge's rows name."""
    return frozenset(
        (of_gold, of_plan)
        for row in rows
        for of_gold in _find_positions(row.get("name_in_paper"), gold)
        for of_plan in _find_positions(row.get("name_in_plan"), plan)
    )


def _find_positions(value: object, names: Sequence[str]) -> list[int]:
    wanted = set(parse_names(value))
    return [at for at, name in enumerate(names) if str(name) in wanted]


def read_requested(rows: Iterable[Row]) -> dict[str, bool]:
    """Return whether a reviewer judge's rows find each entry in the reviews; contradictory rows count as no."""
    answers: dict[str, bool] = {}
    for row in rows:
        for name in parse_names(row.get("name_in_plan")):
            answers[name] = answers.get(name, True) and row.get("appears_in_review") is True
    return answers


def find_requested_entries(rows: Iterable[Row], plan: Sequence[str]) -> frozenset[int]:
    """Return the positions of entries that a reviewer judge's rows find in the reviews."""
    answers = read_requested(rows)
    return frozenset(at for at, name in enumerate(plan) if answers.get(str(name), False))


K_AUTHOR, K_REVIEWER = 5, 2
NO_GOLD, NO_REQUEST = "no gold ablation", "no suggestion in the reviews"
Vote = TypeVar("Vote")


class PlanFigures(FrozenModel):
    """The score of a plan. `true` and `pred` are its labels: one per gold ablation, then one per false positive."""

    precision: float
    recall: float
    f1: float
    precision_plan: float | None = Field(description="matched entries over entries; None for an empty plan")
    true: tuple[int, ...]
    pred: tuple[int, ...]


class AuthorScore(PlanFigures):
    """Author score. nDCG uses the paper's order: hits over gold, the first k of them.

    `ndcg_plan` uses the plan's order, with a gain at each entry that finds new gold.
    """

    ndcg: float
    ndcg_plan: float
    f1_one_to_one: float = Field(description="if each entry may match only one gold ablation")
    found: tuple[bool, ...] = Field(description="of each gold ablation, in the paper's order")


def compute_author_score(gold: int, entries: int, pairs: Pairs, *, k: int | None = None) -> AuthorScore:
    """Score a plan's first k entries (None: all of them; nDCG is then cut at 5)."""
    kept, depth = entries if k is None else min(k, entries), K_AUTHOR if k is None else k
    pairs = frozenset(pair for pair in pairs if pair[1] < kept)
    found = [any(one == at for one, _ in pairs) for at in range(gold)]
    matched = len({entry for _, entry in pairs})
    alone = count_one_to_one(pairs)
    plain = compute_score([int(hit) for hit in found], kept - matched, matched, kept)
    return AuthorScore(
        **plain.model_dump(),
        ndcg=_compute_dcg(found[:depth]) / (_compute_dcg([True] * min(depth, gold)) or 1.0),
        ndcg_plan=_compute_dcg(_find_new_hits(pairs, kept)[:depth]) / (_compute_dcg([True] * min(depth, gold)) or 1.0),
        f1_one_to_one=_compute_f1(alone, kept - alone, gold - alone),
        found=tuple(found),
    )


def compute_reviewer_score(count: int, entries: int, matched: frozenset[int], *, k: int | None = None) -> PlanFigures:
    """Score a plan's first k entries against `count` requests, regardless of which request an entry matches."""
    kept = entries if k is None else min(k, entries)
    hits = sum(at < kept for at in matched)
    met = min(hits, count)
    return compute_score([1] * met + [0] * (count - met), kept - hits, hits, kept)


def compute_score(found: Sequence[int], false: int, matched: int, entries: int) -> PlanFigures:
    hits, missed = sum(found), len(found) - sum(found)
    return PlanFigures(
        precision=_divide(hits, hits + false),
        recall=_divide(hits, hits + missed),
        f1=_compute_f1(hits, false, missed),
        precision_plan=matched / entries if entries else None,
        true=(*(1 for _ in found), *[0] * false),
        pred=(*found, *[1] * false),
    )


def _compute_f1(hits: int, false: int, missed: int) -> float:
    return _divide(2 * hits, 2 * hits + false + missed)


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _compute_dcg(hits: Sequence[bool]) -> float:
    return sum(hit / log2(at + 1) for at, hit in enumerate(hits, 1))


def _find_new_hits(pairs: Pairs, entries: int) -> list[bool]:
    """Return for each entry whether it finds gold that no earlier entry did."""
    seen, news = set[int](), list[bool]()
    for at in range(entries):
        here = {gold for gold, entry in pairs if entry == at}
        news.append(bool(here - seen))
        seen |= here
    return news


def count_one_to_one(pairs: Pairs) -> int:
    """Return the size of a maximum matching, in which gold and entries are used at most once."""
    if not pairs:
        return 0
    gold, entries = zip(*pairs, strict=True)
    graphs: Any = csgraph
    partners = graphs.maximum_bipartite_matching(csr_array(([1] * len(pairs), (gold, entries))))
    return int((partners >= 0).sum())


# --- several judges -------------------------------------------------------------------------------------------------


def find_majority(answers: Sequence[frozenset[Vote] | None]) -> frozenset[Vote] | None:
    """Return the votes of more than half of the answering judges; None if at most half of the judges answered."""
    given = [one for one in answers if one is not None]
    if 2 * len(given) <= len(answers):
        return None
    return frozenset(
        vote for vote in frozenset[Vote]().union(*given) if 2 * sum(vote in one for one in given) > len(given)
    )


def format_not_judged(answers: Sequence[object | None]) -> str:
    return f"{sum(one is not None for one in answers)} of {len(answers)} judges answered"


# Differences between planners on their common papers.


class PairedPlannerDifference(FrozenModel):
    """The difference of two planners on their common papers, first minus second.

    `p`: paired t test, two-sided, None if all differences are equal.
    """

    first: str
    second: str
    figure: str
    difference: MeanWithInterval
    p: float | None
    adjusted: float | None = None


def compute_paired_difference(
    first: str, second: str, figure: str, values: Sequence[tuple[float, float]]
) -> PairedPlannerDifference:
    differences = [one - other for one, other in values]
    found = compute_mean(differences)
    assert found is not None, "at least one paper"
    equal = len(differences) < 2 or all(math.isclose(one, differences[0], abs_tol=1e-12) for one in differences)
    return PairedPlannerDifference(
        first=first, second=second, figure=figure, difference=found, p=None if equal else compute_p_value(differences)
    )
