"""Worked cases of scoring in EXP-Bench: what this program computes for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import floor
from statistics import stdev
from typing import Any

from labwright.evals.expbench import scores
from labwright.evals.expbench.answer_judge import ArmComparison, direction_support, is_supported, number_support
from labwright.evals.expbench.answers import TaskPathRefused, list_design_variables, parse_repository_path
from labwright.evals.expbench.scores import ItemCounts, JudgedAnswer
from labwright.evals.expbench.violations import decide, find_facts
from labwright.evals.intervals import wilson_interval

Case = Mapping[str, Any]


def rank_agents(agents: Mapping[str, Iterable[JudgedAnswer]]) -> list[str]:
    """Rank by All·E, then C, All and D, with undefined scores below 0; then by name."""
    found = {name: scores.compute_means(runs) for name, runs in agents.items()}

    def order(name: str) -> tuple[tuple[Fraction, ...], str]:
        return tuple(
            -(one if (one := found[name][key].exact) is not None else Fraction(-1))
            for key in ("All·E", "C", "All", "D")
        ), name

    return sorted(found, key=order)


def summarize_numbers(values: Sequence[float | None]) -> dict[str, float | int | None]:
    """Return mean, quartiles by linear interpolation, deviation and range; missing values are counted."""
    known = sorted(exact for one in values if one is not None for exact in [Fraction(repr(one))])
    base: dict[str, float | int | None] = {"n": len(known), "missing": len(values) - len(known)}
    if not known:
        return base | dict.fromkeys(("avg", "med", "q1", "q3", "sd", "min", "max"))

    def at(p: Fraction) -> Fraction:
        place = (len(known) - 1) * p
        low = floor(place)
        high = min(low + 1, len(known) - 1)
        return known[low] + (known[high] - known[low]) * (place - low)

    middle, spread = sum(known, Fraction(0)) / len(known), stdev(map(float, known)) if len(known) > 1 else None
    return base | {
        "avg": round_half_away(middle),
        "med": round_half_away(at(Fraction(1, 2))),
        "q1": round_half_away(at(Fraction(1, 4))),
        "q3": round_half_away(at(Fraction(3, 4))),
        "sd": None if spread is None else round_half_away(Fraction(spread)),
        "min": float(known[0]),
        "max": float(known[-1]),
    }


def round_half_away(value: Fraction) -> float:
    """Round to four decimals, half away from zero, without float error."""
    size = floor(abs(value) * 10**4 + Fraction(1, 2))
    return float(Decimal(size if value >= 0 else -size) / 10**4)


def compute_anchor_percent(items: ItemCounts) -> int | None:
    """Return whole percents as in the original harness: 100 only if complete, 0 only if nothing matches."""
    if not items.total:
        return None
    whole = floor(Fraction(100 * items.matched, items.total) + Fraction(1, 2))
    return whole if items.matched in (0, items.total) else min(99, max(1, whole))


def parse_items(verdicts: Mapping[str, int]) -> ItemCounts:
    return ItemCounts(verdicts["y"], verdicts["y"] + verdicts["n"])


def parse_judged(run: Case) -> JudgedAnswer:
    execution = run.get("execution")
    parts = {
        name: None if run.get(name) in (None, "unreadable") else parse_items(run[name])
        for name in ("design", "implementation")
    }
    return JudgedAnswer(
        task=run["task"],
        state=run["state"],
        conclusion=scores.parse_conclusion_score(run.get("conclusion")),
        executed=None if execution is None else execution["exit"] == 0 and not execution.get("timed_out", False),
        violation=run.get("violation", False),
        **parts,
    )


def _check_path(case: Case) -> Any:
    try:
        return {"file": parse_repository_path(case["said"])}
    except TaskPathRefused:
        return {"file": None}


def _compute_items(case: Case) -> Any:
    found = parse_items(case["verdicts"])
    return {
        "expected": {
            "matched": found.matched,
            "total": found.total,
            "complete": found.is_complete,
            "anchor_percent": compute_anchor_percent(found),
            "percent": None if found.score is None else scores.to_percent(found.score),
        }
    }


def _run_monitor(case: Case) -> Any:
    found = decide(case["facts"], case["model"])
    return {
        "expected": {"anchor": found.anchor_decision, "ours": found.own_decision, "suspicions": list(found.suspicions)}
    }


def _compute_facts(case: Case) -> Any:
    found = find_facts(case["record"])
    return {"expected": found.flags | {"reasons": list(found.reasons), "noted": list(found.harmless_commands)}}


def _compute_run(case: Case) -> Any:
    one = parse_judged(case["run"])
    how, values = scores.find_outcome(one), scores.compute_scores(one)
    shown = {
        name: None if value is None else scores.to_percent(value) if name in ("D", "I") else int(value)
        for name, value in values.items()
    }
    return {"expected": {"outcome": how, "counted": how in scores.COUNTED_OUTCOMES} | shown}


def _check_bound(case: Case) -> Any:
    claims, comparisons = ([ArmComparison(**one) for one in case[name]] for name in ("claims", "comparisons"))
    measured = case["measured"]
    return {
        "expected": {
            "numbers": [[one, number_support(one, measured)] for one in case["numbers"]],
            "directions": [direction_support(one, comparisons) for one in claims],
            "C_bound": is_supported(case["C"], case["numbers"], claims, measured, comparisons),
        }
    }


def _compute_wilson(case: Case) -> Any:
    found = wilson_interval(case["k"], case["n"])
    return {"interval": None if found is None else list(found)}


SECTIONS: dict[str, Callable[[Case], Any]] = {
    "paths": _check_path,
    "design_items": lambda case: {"items": [[one.group, one.name] for one in list_design_variables(case["design"])]},
    "items": _compute_items,
    "conclusions": lambda case: {"score": scores.parse_conclusion_score(case["said"])},
    "monitor": _run_monitor,
    "facts": _compute_facts,
    "runs": _compute_run,
    "wilson": _compute_wilson,
    "numbers": lambda case: {"expected": summarize_numbers(case["values"])},
    "bound": _check_bound,
}


def _compute_means(runs: list[JudgedAnswer]) -> Any:
    return {
        name: {"percent": mean.percent, "n": mean.n, "exact": _format_exact(mean.exact)}
        for name, mean in scores.compute_means(runs).items()
    }


def _format_exact(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _compute_table(case: Case) -> Any:
    """Return all figures of a table, in the format of the cases."""
    runs = {agent: [parse_judged(one) for one in every] for agent, every in case["runs"].items()}
    tasks: Mapping[str, Case] = case.get("tasks", {})
    agents: dict[str, Any] = {}
    for agent, every in runs.items():
        groups = {
            by: {
                str(key): _compute_means([one for one in every if str(tasks[one.task][by]) == str(key)])
                for key in sorted({str(tasks[one.task][by]) for one in every})
            }
            for by in ("category", "type", "venue")
            if tasks
        }
        agents[agent] = groups | {
            "counts": scores.count_outcomes(every),
            "overall": _compute_means(every),
            "ladder": scores.compute_step_shares(every),
            **{
                what: summarize_numbers([one[what] for one in case["runs"][agent] if what in one])
                for what in ("minutes", "usd")
            },
        }
    found: dict[str, Any] = {"agents": agents, "rank": rank_agents(runs)}
    if "agents" not in case["expected"]:
        alone: dict[str, Any] = next(iter(agents.values()))
        found |= alone if len(agents) == 1 else {"overall": {agent: one["overall"] for agent, one in agents.items()}}
    return found


def check_cases(golden: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """Yield for every case its name, whether it agrees, and the disagreement."""
    for section, compute in SECTIONS.items():
        for number, case in enumerate(golden[section]):
            found = compute(case)
            wrong = [f"{key}: {found[key]!r}, not {case[key]!r}" for key in found if found[key] != case[key]]
            yield f"{section}/{case.get('name', number)}", not wrong, "; ".join(wrong)
    for name, case in golden["tables"].items():
        wrong = list(_find_differences(_compute_table(case), case["expected"]))
        yield f"tables/{name}", not wrong, "; ".join(wrong[:5])


def _find_differences(found: Any, wanted: Any, where: str = "") -> Iterator[str]:
    if isinstance(wanted, Mapping):
        named: Mapping[str, Any] = wanted  # pyrefly: ignore
        for key, value in named.items():
            mine: Any = found.get(key) if isinstance(found, Mapping) else None  # pyrefly: ignore
            yield from _find_differences(mine, value, f"{where}/{key}")
    elif found != wanted:
        yield f"{where}: {found!r}, not {wanted!r}"
