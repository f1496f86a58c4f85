"""`python -m evals.ablationbench.golden FILE`: the worked cases of AblationBench, held against what we compute.

Prints `N of M agree` and what does not; exits 1 then. Wanted is the public code's value, and ours where a case says
that the public code is wrong. Floats agree to 1e-5; of faults in a plan the number counts, of rows what they match.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from labwright.evals.ablationbench.agreement import NO_ANSWER, NO_MATCH, agreement, labels
from labwright.evals.ablationbench.entries import read_plan
from labwright.evals.ablationbench.means import mean_of, paired
from labwright.evals.ablationbench.rows import Pairs, asked_for, from_sides, pairs_of
from labwright.evals.ablationbench.scores import (
    NO_GOLD,
    NO_REQUEST,
    author_score,
    majority,
    not_judged,
    reviewer_score,
    separate_votes,
)

TOLERANCE = 1e-5
Case = Mapping[str, Any]
Found = dict[str, Any]


def disagreements(cases: Iterable[Case]) -> list[str]:
    """A line for each case that comes out otherwise, or that nothing here computes."""
    return [f"{case['id']}: {why}" for case in cases if (why := _wrong(case))]


def _wrong(case: Case) -> str:
    compute = COMPUTE.get(case["kind"])
    if compute is None:
        return f"nothing computes {case['kind']!r}"
    given = case["input"]
    found, wanted = compute(given), case.get("definition", case.get("upstream", {})) | case.get("extras", {})
    wrong = [key for key, value in wanted.items() if not _agrees(key, value, found, given)]
    return "; ".join(f"{key} is {found.get(key)!r}, not {wanted[key]!r}" for key in wrong)


def _agrees(key: str, wanted: Any, found: Found, given: Case) -> bool:
    if key not in found:
        return False
    if key == "faults":
        return len(found[key]) == len(wanted)
    if key == "rows":
        return _matches(wanted, given) == found[key]
    return _same(found[key], wanted)


def _matches(rows: Sequence[Case], given: Case) -> Any:
    """What rows match, of what there is."""
    if "gold" in given:
        return pairs_of(rows, given["gold"], given["plan"])
    return asked_for(rows, given["plan"])


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or wanted is None or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=0, abs_tol=TOLERANCE)
    if isinstance(wanted, dict):
        named, mine = cast(dict[str, Any], wanted), cast(dict[str, Any], found)
        return all(name in mine and _same(mine[name], value) for name, value in named.items())
    if isinstance(wanted, list):
        pairs = cast(list[Any], wanted), cast(Sequence[Any], found)
        return len(pairs[0]) == len(pairs[1]) and all(_same(mine, one) for one, mine in zip(*pairs, strict=True))
    return found == wanted


def _author(given: Case) -> Found:
    return _author_of(given, pairs_of(given["rows"], given["gold"], given["plan"]))


def _author_of(given: Case, pairs: Pairs) -> Found:
    if not given["gold"]:
        return {"not_scorable": NO_GOLD}
    score = author_score(len(given["gold"]), len(given["plan"]), pairs, k=given.get("top_k"))
    return {**score.model_dump(), "rows": pairs}


def _author_sides(given: Case) -> Found:
    rows = from_sides(given["answer"], given["gold_side"])
    return _author({**given, "rows": rows})


def _author_majority(given: Case) -> Found:
    answers = [None if rows is None else pairs_of(rows, given["gold"], given["plan"]) for rows in given["judges"]]
    voted = majority(answers)
    if voted is None and given["gold"]:
        return {"not_judged": not_judged(answers)}
    apart = separate_votes(len(given["gold"]), len(given["plan"]), answers, k=given.get("top_k"))
    return {**_author_of(given, voted or frozenset()), "separate_votes": apart.model_dump()}


def _reviewer(given: Case) -> Found:
    return _reviewer_of(given, asked_for(given["rows"], given["plan"]))


def _reviewer_of(given: Case, matched: frozenset[int]) -> Found:
    if not given["count"]:
        return {"not_scorable": NO_REQUEST}
    score = reviewer_score(given["count"], len(given["plan"]), matched, k=given.get("top_k"))
    return {**score.model_dump(), "rows": matched}


def _reviewer_majority(given: Case) -> Found:
    answers = [None if rows is None else asked_for(rows, given["plan"]) for rows in given["judges"]]
    voted = majority(answers)
    if voted is None and given["count"]:
        return {"not_judged": not_judged(answers)}
    return _reviewer_of(given, voted or frozenset())


def _judge_eval(given: Case) -> Found:
    found = labels(given["task"], given["labels"], given["rows"], given.get("plan"))
    if found.judge is None:
        return {"not_judged": NO_ANSWER}
    counts = found.counted
    items = {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn, "tn": counts.tn}
    if not any(found.human):
        return {"not_scorable": NO_MATCH, **items}
    return {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1, **items}


def _aggregate(given: Case) -> Found:
    score = _author if given["task"] == "author" else _reviewer
    scored = [(score({**paper, "top_k": given.get("top_k")}), paper.get("cost")) for paper in given["papers"]]
    kept = [(one, cost) for one, cost in scored if "not_scorable" not in one]
    costs = [cost for _, cost in kept if cost is not None]
    found: Found = {
        "papers": len(kept),
        "not_scorable": len(scored) - len(kept),
        "cost": fmean(costs) if costs else None,
    }
    for name in ("precision", "recall", "f1", "ndcg"):
        if (mean := mean_of([one[name] for one, _ in kept if name in one])) is not None:
            found |= {name: mean.mean, f"{name}_sd": mean.sd}
    return found


def _plan_file(given: Case) -> Found:
    plan = read_plan(given["lines"])
    return {"entries": [one.model_dump(mode="json") for one in plan.entries], "faults": plan.faults}


def _paired(given: Case) -> Found:
    found = paired("", "", "f1", list(zip(given["f1"], given["other_f1"], strict=True)))
    return {"mean_difference": found.difference.mean, "t_test_p": found.p}


def _overall(given: Case) -> Found:
    return {name: fmean([given["author"][name], given["reviewer"][name]]) for name in given["author"]}


COMPUTE: dict[str, Callable[[Case], Found]] = {
    "author": _author,
    "author_sides": _author_sides,
    "author_majority": _author_majority,
    "reviewer": _reviewer,
    "reviewer_majority": _reviewer_majority,
    "judge_eval": _judge_eval,
    "aggregate": _aggregate,
    "plan_file": _plan_file,
    "kappa": lambda given: {"kappa": agreement(given["human"], given["judge"]).kappa},
    "paired": _paired,
    "overall": _overall,
}
"""Kind of a case -> how it is computed."""


def main(file: str) -> int:
    """0 where all agree, 1 where one does not."""
    try:
        cases = json.loads(Path(file).read_text(encoding="utf-8"))["cases"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"{file} is no file of cases ({type(error).__name__}: {error}): give a golden.json")
        return 1
    wrong = disagreements(cases)
    print(f"{len(cases) - len(wrong)} of {len(cases)} agree")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m evals.ablationbench.golden FILE")
    raise SystemExit(main(sys.argv[1]))
