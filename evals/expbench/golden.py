"""`python -m evals.expbench.golden FILE`: the worked cases of scoring, held against what we compute.

Prints `N of M agree` and what does not; exits 1 then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from labwright.evals.expbench import scores
from labwright.evals.expbench.facts import facts_of, monitor
from labwright.evals.expbench.scores import Items, Judged
from labwright.evals.expbench.tasks import PathRefused, design_items, repository_path
from labwright.evals.shares import wilson
from labwright.stages.repository.stated import Claim, bound, held, standing

Case = Mapping[str, Any]
ITEMS = {"y": 1, "n": 1, "-": 0}


def items_of(verdicts: Mapping[str, int]) -> Items:
    return Items(verdicts["y"], verdicts["y"] + verdicts["n"])


def judged_of(run: Case) -> Judged:
    execution = run.get("execution")
    parts = {
        name: None if run.get(name) in (None, "unreadable") else items_of(run[name])
        for name in ("design", "implementation")
    }
    return Judged(
        task=run["task"],
        state=run["state"],
        conclusion=scores.said(run.get("conclusion")),
        executed=None if execution is None else execution["exit"] == 0 and not execution.get("timed_out", False),
        violation=run.get("violation", False),
        minutes=run.get("minutes"),
        usd=run.get("usd"),
        **parts,
    )


def _path(case: Case) -> Any:
    try:
        return {"file": repository_path(case["said"])}
    except PathRefused:
        return {"file": None}


def _items(case: Case) -> Any:
    found = items_of(case["verdicts"])
    return {
        "expected": {
            "matched": found.matched,
            "total": found.total,
            "complete": found.complete,
            "anchor_percent": found.anchor,
            "percent": None if found.score is None else scores.percent(found.score),
        }
    }


def _monitor(case: Case) -> Any:
    found = monitor(case["facts"], case["model"])
    return {"expected": {"anchor": found.anchor, "ours": found.ours, "suspicions": list(found.suspicions)}}


def _facts(case: Case) -> Any:
    found = facts_of(case["record"])
    return {"expected": found.flags | {"reasons": list(found.reasons), "noted": list(found.noted)}}


def _run(case: Case) -> Any:
    one = judged_of(case["run"])
    how, values = scores.outcome(one), scores.scores(one)
    shown = {
        name: None if value is None else scores.percent(value) if name in ("D", "I") else int(value)
        for name, value in values.items()
    }
    return {"expected": {"outcome": how, "counted": how in scores.COUNTED} | shown}


def _bound(case: Case) -> Any:
    claims, comparisons = ([Claim(**one) for one in case[name]] for name in ("claims", "comparisons"))
    measured = case["measured"]
    return {
        "expected": {
            "numbers": [[one, standing(one, measured)] for one in case["numbers"]],
            "directions": [held(one, comparisons) for one in claims],
            "C_bound": bound(case["C"], case["numbers"], claims, measured, comparisons),
        }
    }


def _wilson(case: Case) -> Any:
    found = wilson(case["k"], case["n"])
    return {"interval": None if found is None else list(found)}


SECTIONS: dict[str, Callable[[Case], Any]] = {
    "paths": _path,
    "design_items": lambda case: {"items": [list(one) for one in design_items(case["design"])]},
    "items": _items,
    "conclusions": lambda case: {"score": scores.said(case["said"])},
    "monitor": _monitor,
    "facts": _facts,
    "runs": _run,
    "wilson": _wilson,
    "numbers": lambda case: {"expected": scores.numbers(case["values"])},
    "bound": _bound,
}


def _means(runs: list[Judged]) -> Any:
    return {
        name: {"percent": mean.percent, "n": mean.n, "exact": _exact(mean.exact)}
        for name, mean in scores.means(runs).items()
    }


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _table(case: Case) -> Any:
    """Everything that a table may be asked for, in the form of the cases."""
    runs = {agent: [judged_of(one) for one in every] for agent, every in case["runs"].items()}
    tasks: Mapping[str, Case] = case.get("tasks", {})
    agents: dict[str, Any] = {}
    for agent, every in runs.items():
        groups = {
            by: {
                str(key): _means([one for one in every if str(tasks[one.task][by]) == str(key)])
                for key in sorted({str(tasks[one.task][by]) for one in every})
            }
            for by in ("category", "type", "venue")
            if tasks
        }
        agents[agent] = groups | {
            "counts": scores.counts(every),
            "overall": _means(every),
            "ladder": scores.ladder(every),
            **{
                what: scores.numbers([one[what] for one in case["runs"][agent] if what in one])
                for what in ("minutes", "usd")
            },
        }
    found: dict[str, Any] = {"agents": agents, "rank": scores.rank(runs)}
    if "agents" not in case["expected"]:
        alone: dict[str, Any] = next(iter(agents.values()))
        found |= alone if len(agents) == 1 else {"overall": {agent: one["overall"] for agent, one in agents.items()}}
    return found


def cases(golden: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """Every case: its name, whether it agrees, and what does not."""
    for section, compute in SECTIONS.items():
        for number, case in enumerate(golden[section]):
            found = compute(case)
            wrong = [f"{key}: {found[key]!r}, not {case[key]!r}" for key in found if found[key] != case[key]]
            yield f"{section}/{case.get('name', number)}", not wrong, "; ".join(wrong)
    for name, case in golden["tables"].items():
        wrong = list(_differences(_table(case), case["expected"]))
        yield f"tables/{name}", not wrong, "; ".join(wrong[:5])


def _differences(found: Any, wanted: Any, where: str = "") -> Iterator[str]:
    if isinstance(wanted, Mapping):
        named: Mapping[str, Any] = wanted  # pyright: ignore
        for key, value in named.items():
            mine: Any = found.get(key) if isinstance(found, Mapping) else None  # pyright: ignore
            yield from _differences(mine, value, f"{where}/{key}")
    elif found != wanted:
        yield f"{where}: {found!r}, not {wanted!r}"


def main(words: list[str]) -> int:
    found = list(cases(json.loads(Path(words[0]).read_text(encoding="utf-8"))))
    for name, agrees, why in found:
        if not agrees:
            print(f"{name}: {why}")
    agree = sum(agrees for _, agrees, _ in found)
    print(f"{agree} of {len(found)} agree")
    return 0 if agree == len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
