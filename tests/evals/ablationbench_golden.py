"""Worked cases of AblationBench: what this program computes for each kind.

The expected value is the public code's, or
the corrected one if a case says that the public code is wrong. Floats must agree to 1e-5; for plans, the number of
faults is compared, for rows, what they match.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, cast

from labwright.evals.ablationbench.judge_eval import build_labels, count_agreement
from labwright.evals.ablationbench.papers import read_plan
from labwright.evals.ablationbench.scores import (
    NO_GOLD,
    NO_REQUEST,
    Pairs,
    PlanFigures,
    Row,
    compute_author_score,
    compute_paired_difference,
    compute_reviewer_score,
    compute_score,
    find_majority,
    find_requested_entries,
    format_not_judged,
    parse_names,
    parse_pairs,
)
from labwright.evals.intervals import compute_mean

TOLERANCE = 1e-5
NO_MATCH, NO_ANSWER = "people found no match in this plan", "the judge gave no answer for this plan"
Case = Mapping[str, Any]
CaseResult = dict[str, Any]


def rows_from_sides(answer: Iterable[Row], gold_side: str) -> list[Row]:
    """Return rows by paper and plan from a blinded answer; rows without a gold ablation are dropped."""
    other = "B" if gold_side == "A" else "A"
    rows = [
        {"name_in_paper": row.get(f"name_in_{gold_side}"), "name_in_plan": row.get(f"name_in_{other}")}
        for row in answer
    ]
    return [row for row in rows if parse_names(row["name_in_paper"])]


def score_separate_votes(
    gold: int, entries: int, answers: Sequence[Pairs | None], *, k: int | None = None
) -> PlanFigures:
    """Return the score if gold ablations and entries are voted on separately, whatever they are matched with."""
    kept = entries if k is None else min(k, entries)
    cut = [None if one is None else frozenset(pair for pair in one if pair[1] < kept) for one in answers]
    found = find_majority([None if one is None else frozenset(pair[0] for pair in one) for one in cut]) or frozenset()
    used = find_majority([None if one is None else frozenset(pair[1] for pair in one) for one in cut]) or frozenset()
    return compute_score([int(at in found) for at in range(gold)], kept - len(used), len(used), kept)


def find_disagreements(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case that disagrees or has no implementation."""
    return [f"{case['id']}: {why}" for case in cases if (why := _check_case(case))]


def _check_case(case: Case) -> str:
    compute = COMPUTE.get(case["kind"])
    if compute is None:
        return f"there is no implementation for {case['kind']!r}"
    given = case["input"]
    found, wanted = compute(given), case.get("definition", case.get("upstream", {})) | case.get("extras", {})
    wrong = [key for key, value in wanted.items() if not _is_agreeing(key, value, found, given)]
    return "; ".join(f"{key} is {found.get(key)!r}, not {wanted[key]!r}" for key in wrong)


def _is_agreeing(key: str, wanted: Any, found: CaseResult, given: Case) -> bool:
    if key not in found:
        return False
    if key == "faults":
        return len(found[key]) == len(wanted)
    if key == "rows":
        return _parse_matches(wanted, given) == found[key]
    return _is_same(found[key], wanted)


def _parse_matches(rows: Sequence[Case], given: Case) -> Any:
    """Parse what rows match."""
    if "gold" in given:
        return parse_pairs(rows, given["gold"], given["plan"])
    return find_requested_entries(rows, given["plan"])


def _is_same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or wanted is None or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=0, abs_tol=TOLERANCE)
    if isinstance(wanted, dict):
        named, mine = cast(dict[str, Any], wanted), cast(dict[str, Any], found)
        return all(name in mine and _is_same(mine[name], value) for name, value in named.items())
    if isinstance(wanted, list):
        pairs = cast(list[Any], wanted), cast(Sequence[Any], found)
        return len(pairs[0]) == len(pairs[1]) and all(_is_same(mine, one) for one, mine in zip(*pairs, strict=True))
    return found == wanted


def _compute_author(given: Case) -> CaseResult:
    return _score_author(given, parse_pairs(given["rows"], given["gold"], given["plan"]))


def _score_author(given: Case, pairs: Pairs) -> CaseResult:
    if not given["gold"]:
        return {"not_scorable": NO_GOLD}
    score = compute_author_score(len(given["gold"]), len(given["plan"]), pairs, k=given.get("top_k"))
    return {**score.model_dump(), "rows": pairs}


def _compute_author_sides(given: Case) -> CaseResult:
    rows = rows_from_sides(given["answer"], given["gold_side"])
    return _compute_author({**given, "rows": rows})


def _compute_author_majority(given: Case) -> CaseResult:
    answers = [None if rows is None else parse_pairs(rows, given["gold"], given["plan"]) for rows in given["judges"]]
    voted = find_majority(answers)
    if voted is None and given["gold"]:
        return {"not_judged": format_not_judged(answers)}
    apart = score_separate_votes(len(given["gold"]), len(given["plan"]), answers, k=given.get("top_k"))
    return {**_score_author(given, voted or frozenset()), "separate_votes": apart.model_dump()}


def _compute_reviewer(given: Case) -> CaseResult:
    return _score_reviewer(given, find_requested_entries(given["rows"], given["plan"]))


def _score_reviewer(given: Case, matched: frozenset[int]) -> CaseResult:
    if not given["count"]:
        return {"not_scorable": NO_REQUEST}
    score = compute_reviewer_score(given["count"], len(given["plan"]), matched, k=given.get("top_k"))
    return {**score.model_dump(), "rows": matched}


def _compute_reviewer_majority(given: Case) -> CaseResult:
    answers = [None if rows is None else find_requested_entries(rows, given["plan"]) for rows in given["judges"]]
    voted = find_majority(answers)
    if voted is None and given["count"]:
        return {"not_judged": format_not_judged(answers)}
    return _score_reviewer(given, voted or frozenset())


def _compute_judge_eval(given: Case) -> CaseResult:
    found = build_labels(given["task"], given["labels"], given["rows"], given.get("plan"))
    if found.judge is None:
        return {"not_judged": NO_ANSWER}
    counts = found.agreement
    items = {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn, "tn": counts.tn}
    if not any(found.human):
        return {"not_scorable": NO_MATCH, **items}
    return {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1, **items}


def _compute_aggregate(given: Case) -> CaseResult:
    score = _compute_author if given["task"] == "author" else _compute_reviewer
    scored = [(score({**paper, "top_k": given.get("top_k")}), paper.get("cost")) for paper in given["papers"]]
    kept = [(one, cost) for one, cost in scored if "not_scorable" not in one]
    costs = [cost for _, cost in kept if cost is not None]
    found: CaseResult = {
        "papers": len(kept),
        "not_scorable": len(scored) - len(kept),
        "cost": fmean(costs) if costs else None,
    }
    for name in ("precision", "recall", "f1", "ndcg"):
        if (mean := compute_mean([one[name] for one, _ in kept if name in one])) is not None:
            found |= {name: mean.mean, f"{name}_sd": mean.sd}
    return found


def _read_plan_file(given: Case) -> CaseResult:
    plan = read_plan(given["lines"])
    return {"entries": [one.model_dump(mode="json") for one in plan.entries], "faults": plan.faults}


def _compute_paired(given: Case) -> CaseResult:
    found = compute_paired_difference("", "", "f1", list(zip(given["f1"], given["other_f1"], strict=True)))
    return {"mean_difference": found.difference.mean, "t_test_p": found.p}


def _compute_overall(given: Case) -> CaseResult:
    return {name: fmean([given["author"][name], given["reviewer"][name]]) for name in given["author"]}


COMPUTE: dict[str, Callable[[Case], CaseResult]] = {
    "author": _compute_author,
    "author_sides": _compute_author_sides,
    "author_majority": _compute_author_majority,
    "reviewer": _compute_reviewer,
    "reviewer_majority": _compute_reviewer_majority,
    "judge_eval": _compute_judge_eval,
    "aggregate": _compute_aggregate,
    "plan_file": _read_plan_file,
    "kappa": lambda given: {"kappa": count_agreement(given["human"], given["judge"]).kappa},
    "paired": _compute_paired,
    "overall": _compute_overall,
}
"""Function that computes each kind of case."""
