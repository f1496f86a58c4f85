"""Worked cases of reproduce-then-ablate: what this program computes for each kind.

Floats must agree to 1e-6; messages must contain the words of the case.
"""

from __future__ import annotations

import ast
import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple, cast

from benchmarks import ablation_policies
from benchmarks.ablation_policies import compute_recovery
from labwright.record.baseline_check import ExpectedError, check_baseline, parse_expected
from labwright.record.claims.estimates import (
    MIN_REPLICATES,
    SIGNIFICANCE_LEVEL,
    adjust_p_values,
    compute_p_value,
    compute_t_interval,
    compute_t_quantile,
)
from labwright.record.python_syntax import parse_plain
from labwright.record.schema.repository import ExpectedResult
from labwright.sandbox.repository.metric import parse_metric, read_metric
from labwright.search import ablation_bandit
from labwright.stages.repository import ablation_report
from labwright.stages.repository.ablation_report import MIN_TWIN_ERRORS
from labwright.stages.repository.patch_scope import list_changed_symbols, walk_named

# Recompute AblateCell's published numbers from their inputs in the paper. Source: AblateCell, Eq. 3 and its tables of
# intervals, trials, and success by phase.

ROUNDING_TOLERANCE = 0.005
"""Tolerance of a printed bound: means are printed to two digits."""


class PrintedRow(NamedTuple):
    """A row of the table of intervals."""

    row: str
    n: int
    mean: float
    sd: float
    low: float
    high: float


class FollowingRow(NamedTuple):
    """The interval recomputed from a row's mean, deviation and count, to three digits."""

    row: str
    low: float
    high: float
    agrees: bool
    sd_over_mean: float


def compute_interval(row: PrintedRow) -> FollowingRow:
    """Recompute the t interval of a row."""
    half = compute_t_quantile(1 - SIGNIFICANCE_LEVEL / 2, row.n - 1) * row.sd / sqrt(row.n)
    low, high = row.mean - half, row.mean + half
    agrees = max(abs(low - row.low), abs(high - row.high)) <= ROUNDING_TOLERANCE
    return FollowingRow(row.row, round(low, 3), round(high, 3), agrees, round(row.sd / row.mean, 3))


class Trials(NamedTuple):
    """Trials by repository, and whether they fit into the rounds."""

    sums: dict[str, int]
    possible: dict[str, bool]


def sum_trials(by_component: Mapping[str, Sequence[int]], rounds: int, most_a_round: int) -> Trials:
    """Add up the trials of a repository's components."""
    sums = {name: sum(each) for name, each in by_component.items()}
    return Trials(sums, {name: total <= rounds * most_a_round for name, total in sums.items()})


class EndToEnd(NamedTuple):
    """Success rates in percent, to a tenth."""

    end_to_end: list[float]
    mean: float


def compute_end_to_end(reproduction: Sequence[float], ablation: Sequence[float]) -> EndToEnd:
    """Return the success rate of both phases; the mean is of products, not the product of means."""
    both = [one * other / 100 for one, other in zip(reproduction, ablation, strict=True)]
    return EndToEnd([round(one, 1) for one in both], round(fmean(both), 1))


def compute_reward(baseline: float, ablated: float, hours: float, *, weight: float = 0.01) -> float:
    """Return Eq. 3: the magnitude of the effect minus its cost in GPU hours."""
    return abs(baseline - ablated) - weight * hours


def count_candidates(runs: int, *, explore: int = 5, base: int = 3, exploit: int = 2) -> int:
    """Return the number of candidates of one arm in a round, by its number of previous runs; the paper does not
    publish the sizes.
    """
    return explore if runs < 3 else base if runs <= 10 else exploit


PRINTED_REWARDS = {"CPA unified": 4.92, "GEARS pert. GNN": 6.7, "BioLORD zu": 5.25}
"""Rewards that the paper prints for these rows."""


class RewardRow(NamedTuple):
    """Correlations, and the GPU-hours of the ablated run."""

    row: str
    baseline: float
    ablated: float
    hours: float


class Rewards(NamedTuple):
    """Rewards from the equation and as printed, and whether the equation can give the printed ones."""

    reward: list[float]
    published: list[float]
    reachable: bool


def compute_rewards(rows: Sequence[RewardRow], weight: float) -> Rewards:
    """Compute rewards.

    The difference between correlations of one sign is at most 1, and cost only reduces the reward.
    """
    printed = [PRINTED_REWARDS[row.row] for row in rows]
    computed = [compute_reward(row.baseline, row.ablated, row.hours, weight=weight) for row in rows]
    return Rewards(computed, printed, max(printed) <= 1.0)


# Two rules that the worked cases of AblateCell check and that this program decides in another way. The scope of a
# patch: an author names the places that no patch may touch (`stages.repository.authors`). The interaction of
# components: a set whose joint effect exceeds the sum of the single effects gets fresh seeds, which decide.

ScopeVerdict = Literal["in scope", "no change", "decoy", "out of scope"]


class PartInteraction(NamedTuple):
    """`value`: the joint effect minus the sum of the single effects; `is_joint`: whether it exceeds chance."""

    value: float
    bound: float
    is_joint: bool


def compute_interaction(singles: Iterable[float], joint: float, *, sigma: float, runs: int = 1) -> PartInteraction:
    """Compute the interaction of components that were ablated `runs` times each, and equally often together. `sigma`:
    standard deviation of one effect.
    """
    alone = list(singles)
    value, bound = joint - sum(alone), MIN_TWIN_ERRORS * sigma * math.sqrt((1 + len(alone)) / runs)
    return PartInteraction(value, bound, value > bound)


class PatchScope(NamedTuple):
    """`changed`: symbols, in the order of the file."""

    changed: tuple[str, ...]
    verdict: ScopeVerdict
    why: str = ""


def check_patch_scope(before: str, after: str, target: str, metric_symbols: Collection[str] = ()) -> PatchScope:
    """Check the patch of one file: it may change the target, its callers and imports, but not code that computes the
    metric.

    `decoy`: the target affects no computed result. Raises `SyntaxError` for the patched file.
    """
    changed = list_changed_symbols(before, after)
    if not changed:
        return PatchScope((), "no change", "the syntax tree is unchanged")
    measuring = [one for one in changed if one in metric_symbols]
    if measuring:
        return PatchScope(changed, "out of scope", f"changes {measuring[0]}, which computes the metric")
    allowed = {target, "import", *list_callers(parse_plain(before), target)}
    other = [one for one in changed if one not in allowed and not one.startswith(f"{target}.")]
    if other:
        return PatchScope(changed, "out of scope", f"changes {other[0]}, which is neither {target} nor calls it")
    if is_decoy(parse_plain(before), target):
        return PatchScope(changed, "decoy", f"{target} affects no computed result")
    return PatchScope(changed, "in scope")


def list_callers(tree: ast.Module, target: str) -> set[str]:
    """Return the symbols that contain a call of the target's name."""
    return {name for name, node in walk_named(tree) for one in ast.walk(node) if _calls_target(one, target)}


def _calls_target(node: ast.AST, target: str) -> bool:
    last = target.rpartition(".")[2]
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id == last)
        or (isinstance(node.func, ast.Attribute) and node.func.attr == last)
    )


def is_decoy(tree: ast.Module, target: str) -> bool:
    """Return whether every call of the target discards its value and the target changes no outside state.

    A target that is not called by name in this file is not a decoy, since its use is unknown.
    """
    calls = [one for one in ast.walk(tree) if _calls_target(one, target)]
    dropped = [one for one in ast.walk(tree) if isinstance(one, ast.Expr) and _calls_target(one.value, target)]
    body = next((node for name, node in walk_named(tree) if name == target), None)
    return bool(calls) and len(calls) == len(dropped) and body is not None and not any(map(_may_write, ast.walk(body)))


def _may_write(node: ast.AST) -> bool:
    """Return whether a node may change state outside its function: attributes, items, globals."""
    return isinstance(node, ast.Global | ast.Nonlocal) or (
        isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    )


def chance_recovery(k: int, parts: int) -> float:
    """Return the Acc@k of k randomly drawn parts."""
    return min(1.0, k / parts)


TOLERANCE = 1e-6
Case = Mapping[str, Any]
CaseResult = dict[str, Any]


def find_disagreements(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case that disagrees or has no implementation."""
    return [f"{case['id']}: {why}" for case in cases if (why := _check_case(case))]


UNREPORTED_KEYS = ("note",)
"""Parts of worked cases that are not compared, since the program does not report them: how often a metric matched."""


def _check_case(case: Case) -> str:
    compute = COMPUTE.get(case["what"])
    if compute is None:
        return f"there is no implementation for {case['what']!r}"
    found = compute(case["given"])
    expected = {key: value for key, value in case["expect"].items() if key not in UNREPORTED_KEYS}
    wrong = [key for key, value in expected.items() if key not in found or not _is_same(found[key], value, key)]
    return "; ".join(f"{key} is {found.get(key)!r}, not {case['expect'][key]!r}" for key in wrong)


def _is_same(found: Any, wanted: Any, key: str = "") -> bool:
    if key == "message":
        return wanted in found
    if isinstance(wanted, bool) or wanted is None or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=0, abs_tol=TOLERANCE)
    if isinstance(wanted, dict):
        named, mine = cast(dict[str, Any], wanted), cast(dict[str, Any], found)
        return mine.keys() == named.keys() and all(_is_same(mine[name], value) for name, value in named.items())
    if isinstance(wanted, list):
        pairs = cast(list[Any], wanted), cast(Sequence[Any], found)
        return len(pairs[0]) == len(pairs[1]) and all(_is_same(mine, one) for one, mine in zip(*pairs, strict=True))
    return found == wanted


def _compute_effect(given: Case) -> CaseResult:
    pairs = zip(given["baseline"], given["ablated"], strict=True)
    effects = [ablation_report.compute_effect(given["direction"], *pair) for pair in pairs]
    found = [one for one in effects if one is not None]
    baseline = [one for one in given["baseline"] if one is not None]
    mean, level = (fmean(found) if found else None), (abs(fmean(baseline)) if baseline else 0.0)
    relative = mean / level if level and mean is not None else None
    return {"effects": effects, "n": len(found), "mean": mean, "relative": relative}


def _compute_critical_value(given: Case) -> CaseResult:
    effects: Mapping[str, float] = given["effects"]
    order = sorted(effects, key=lambda name: (-abs(effects[name]), name))
    level, share = given["baseline_mean"], given["share"]
    return {
        "critical": [name for name in order if ablation_report.reaches_share(effects[name], level, share)],
        "harmful": [name for name in order if effects[name] < 0],
    }


def _compute_paired(given: Case) -> CaseResult:
    effects = [one for one in given["effects"] if one is not None]
    sd, low, high = compute_t_interval(effects)
    p = compute_p_value(effects)
    is_unknown = len(effects) < MIN_REPLICATES or p is None
    found = {"n": len(effects), "mean": fmean(effects) if effects else None, "sd": sd, "low": low, "high": high, "p": p}
    return {**found, "called": "unknown" if is_unknown else None}


def _compute_holm(given: Case) -> CaseResult:
    adjusted = adjust_p_values(given["p"])
    return {"adjusted": adjusted, "kept_at_5_percent": [p is not None and p <= SIGNIFICANCE_LEVEL for p in adjusted]}


def _compute_printed_rows(given: Case) -> CaseResult:
    return {"rows": [compute_interval(PrintedRow(*row))._asdict() for row in given["rows"]]}


def _compute_trials(given: Case) -> CaseResult:
    return sum_trials(given["trials"], given["rounds"], given["most_a_round"])._asdict()


def _compute_product(given: Case) -> CaseResult:
    return compute_end_to_end(given["reproduction"], given["ablation"])._asdict()


def _compute_recovery(given: Case) -> CaseResult:
    return compute_recovery(given["importance"], given["found"], given["k"])._asdict()


def _compute_chance(given: Case) -> CaseResult:
    expected = [chance_recovery(given["k"], parts) for parts in given["m"]]
    return {"expected": expected, "mean": sum(expected) / len(expected)}


def _compute_reward(given: Case) -> CaseResult:
    rows = [RewardRow(*row) for row in given["rows"]]
    return compute_rewards(rows, given["cost_weight"])._asdict()


def _run_literal_policy(given: Case) -> CaseResult:
    if "R" in given:
        return {
            "beta": [ablation_policies.compute_beta(number, given["R"], given["beta"]) for number in range(given["R"])]
        }
    if "explore" in given:
        return {
            "K": [
                count_candidates(runs, explore=given["explore"], base=given["base"], exploit=given["exploit"])
                for runs in given["n"]
            ]
        }
    index = [
        ablation_policies.compute_ucb_index(mean, runs, given["T"], given["beta"])
        for mean, runs in zip(given["mu"], given["n"], strict=True)
    ]
    return {"index": index, "chosen": index.index(max(index))}


def _trace_literal_policy(given: Case) -> CaseResult:
    prior, gained = given["prior"], given.get("reward", {})
    done = ablation_policies.run_algorithm_one(
        prior, lambda arm: gained.get(arm, 0.0), rounds=given["R"], size=given["K"], beta=given.get("beta", 2.0)
    )
    return {
        "arms": done.arms,
        "ucb_fired": done.ucb_decisions,
        "runs": dict(done.runs),
        "measured": sorted(done.runs),
        "never": sorted(prior.keys() - done.runs.keys()),
    }


def _compute_sigma(given: Case) -> CaseResult:
    return ablation_bandit.compute_pooled_sigma(given["effects"].values(), given["baseline"])._asdict()


def _run_boundary_policy(given: Case) -> CaseResult:
    seen = [
        ablation_policies.RunningArm(
            name,
            effects=(given["mean"].get(name, 0.0),) * runs,
            failed_runs=given.get("failed", {}).get(name, 0),
            in_flight=given.get("in_flight", {}).get(name, 0),
        )
        for name, runs in given["runs"].items()
    ]
    found = ablation_policies.pick_arm(
        seen,
        sigma=given.get("sigma", 0.0),
        k=given["k"],
        tries=given.get("tries", ablation_policies.MAX_TRIES_WITHOUT_VALUE),
    )
    return found._asdict()


def _compute_cap(given: Case) -> CaseResult:
    return ablation_bandit.split_budget(
        given["components"],
        given["budget"],
        k=given["k"],
        confirm_seeds=given["confirm_seeds"],
        baseline=given["baseline_explore"],
    )._asdict()


def _compute_interaction(given: Case) -> CaseResult:
    found = compute_interaction(given["single"].values(), given["joint"], sigma=given["sigma"], runs=given["runs"])
    return {"interaction": found.value, "bound": found.bound, "twins": found.is_joint}


def _run_group_test(given: Case) -> CaseResult:
    """Simulate group tests: a subset shows the excess if it contains all parts that cause it."""
    cause, subsets = set(given["joint_excess_of"]), list[str]()
    search = ablation_bandit.run_group_test(given["parts"])
    try:
        subset = next(search)
        while True:
            subsets.append("".join(subset))
            subset = search.send(bool(cause) and cause <= set(subset) and given["excess"] > given["bound"])
    except StopIteration as ended:
        return {"pair": list(ended.value), "subsets": subsets, "runs": len(subsets)}


def _compare_expected(given: Case) -> CaseResult:
    if "texts" in given:
        return {"refused": all(map(_is_refused, given["texts"]))}
    return parse_expected(given["text"]).model_dump()


def _is_refused(text: str) -> bool:
    try:
        parse_expected(text)
    except ExpectedError:
        return True
    return False


def _check_baseline(given: Case) -> CaseResult:
    return check_baseline(
        given["values"], ExpectedResult(value=given["expected"], tolerance=given["tolerance"])
    ).model_dump()


def _read_metric(given: Case) -> CaseResult:
    metric = parse_metric(given["spec"])
    with tempfile.TemporaryDirectory() as folder:
        if given.get("file") is not None:
            (Path(folder) / metric.place).write_text(given["file"])
        found = read_metric(metric, Path(folder), given.get("stdout", ""))
    failure = found.failure
    return {
        "value": None if found.value is None else found.value * given.get("scale", 1.0),
        "failure": failure.kind if failure else None,
        "message": failure.message if failure else "",
    }


def _check_scope(given: Case) -> CaseResult:
    return check_patch_scope(given["before"], given["after"], given["target"], given["metric_symbols"])._asdict()


def _compute_patch_effect(given: Case) -> CaseResult:
    gate = ablation_report.classify_patch_run(
        given["baseline"], given["ablated_same_seed"], reached=given["lines_executed"]
    )
    return {"verdict": gate, "effect": 0.0 if gate == "no effect" else None}


def _compute_floor(given: Case) -> CaseResult:
    gap = (given["baseline"] - given["floor"]) * (1 if given["direction"] == "max" else -1)
    effects: list[tuple[str, float]] = [(name, effect) for name, effect in given["effects_by_mutation"]]
    at_floor = [ablation_report.is_at_floor(effect, gap) for _, effect in effects]
    free = [one for one, low in zip(effects, at_floor, strict=True) if not low]
    name, effect = free[0] if free else min(effects, key=lambda one: one[1])
    flag = None if free else "at the floor"
    return {"gap": gap, "at_floor": at_floor, "ranked": name, "effect": effect, "flag": flag}


COMPUTE: dict[str, Callable[[Case], CaseResult]] = {
    "effect": _compute_effect,
    "critical": _compute_critical_value,
    "paired interval": _compute_paired,
    "holm": _compute_holm,
    "t interval from mean, sd, n": _compute_printed_rows,
    "sum": _compute_trials,
    "product": _compute_product,
    "recovery": _compute_recovery,
    "chance": _compute_chance,
    "reward": _compute_reward,
    "literal": _run_literal_policy,
    "literal trace": _trace_literal_policy,
    "sigma": _compute_sigma,
    "boundary pick": _run_boundary_policy,
    "sweep": lambda given: {"order": ablation_bandit.order_sweep(given["prior"])},
    "inventory cap": _compute_cap,
    "interaction": _compute_interaction,
    "group test": _run_group_test,
    "parse --expect": _compare_expected,
    "baseline check": _check_baseline,
    "parse metric": _read_metric,
    "patch scope": _check_scope,
    "patch effect": _compute_patch_effect,
    "floor": _compute_floor,
}
"""Function that computes each kind of case."""
