"""`python -m evals.ablatecell.golden FILE`: the worked cases of reproduce-then-ablate, held against what we compute.

Prints `N of M agree` and what does not; exits 1 then. Floats agree to 1e-6; of a message the words are asked that the
case names.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from labwright.evals.ablatecell import published
from labwright.evals.ablatecell.recovery import chance, recovery
from labwright.record.claims.means import LEVEL, holm
from labwright.record.expected import ExpectedError, check_baseline, parse_expected
from labwright.record.nouns.repository import Expected
from labwright.sandbox.repository.metric import parse_metric, read_metric
from labwright.search import arms
from labwright.stages.repository import effects
from labwright.stages.repository.scope import patch_scope

TOLERANCE = 1e-6
Case = Mapping[str, Any]
Found = dict[str, Any]


def disagreements(cases: Iterable[Case]) -> list[str]:
    """A line for each case that comes out otherwise, or that nothing here computes."""
    return [f"{case['id']}: {why}" for case in cases if (why := _wrong(case))]


def _wrong(case: Case) -> str:
    compute = COMPUTE.get(case["what"])
    if compute is None:
        return f"nothing computes {case['what']!r}"
    found = compute(case["given"])
    wrong = [key for key, value in case["expect"].items() if key not in found or not _same(found[key], value, key)]
    return "; ".join(f"{key} is {found.get(key)!r}, not {case['expect'][key]!r}" for key in wrong)


def _same(found: Any, wanted: Any, key: str = "") -> bool:
    if key == "message":
        return wanted in found
    if isinstance(wanted, bool) or wanted is None or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=0, abs_tol=TOLERANCE)
    if isinstance(wanted, dict):
        named, mine = cast(dict[str, Any], wanted), cast(dict[str, Any], found)
        return mine.keys() == named.keys() and all(_same(mine[name], value) for name, value in named.items())
    if isinstance(wanted, list):
        pairs = cast(list[Any], wanted), cast(Sequence[Any], found)
        return len(pairs[0]) == len(pairs[1]) and all(_same(mine, one) for one, mine in zip(*pairs, strict=True))
    return found == wanted


def _effect(given: Case) -> Found:
    return effects.effect_of(given["direction"], given["baseline"], given["ablated"])._asdict()


def _critical(given: Case) -> Found:
    return effects.critical(given["baseline_mean"], given["effects"], given["share"])._asdict()


def _paired(given: Case) -> Found:
    found = effects.paired_interval(given["effects"])
    return {
        "n": found.n,
        "mean": found.mean,
        "sd": found.sd,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "called": found.called,
    }


def _holm(given: Case) -> Found:
    adjusted = holm(given["p"])
    return {"adjusted": adjusted, "kept_at_5_percent": [p is not None and p <= LEVEL for p in adjusted]}


def _printed_rows(given: Case) -> Found:
    return {"rows": [published.interval_of(published.PrintedRow(*row))._asdict() for row in given["rows"]]}


def _trials(given: Case) -> Found:
    return published.trials(given["trials"], given["rounds"], given["most_a_round"])._asdict()


def _product(given: Case) -> Found:
    return published.end_to_end(given["reproduction"], given["ablation"])._asdict()


def _recovery(given: Case) -> Found:
    return recovery(given["importance"], given["found"], given["k"])._asdict()


def _chance(given: Case) -> Found:
    expected = [chance(given["k"], parts) for parts in given["m"]]
    return {"expected": expected, "mean": sum(expected) / len(expected)}


def _reward(given: Case) -> Found:
    rows = [published.RewardRow(*row) for row in given["rows"]]
    return published.rewards(rows, given["cost_weight"])._asdict()


def _literal(given: Case) -> Found:
    if "R" in given:
        return {"beta": [arms.beta_of(number, given["R"], given["beta"]) for number in range(given["R"])]}
    if "explore" in given:
        return {
            "K": [
                arms.candidates(runs, explore=given["explore"], base=given["base"], exploit=given["exploit"])
                for runs in given["n"]
            ]
        }
    index = [
        arms.ucb_index(mean, runs, given["T"], given["beta"])
        for mean, runs in zip(given["mu"], given["n"], strict=True)
    ]
    return {"index": index, "chosen": index.index(max(index))}


def _literal_trace(given: Case) -> Found:
    prior, gained = given["prior"], given.get("reward", {})
    done = arms.literal_rounds(
        prior, lambda arm: gained.get(arm, 0.0), rounds=given["R"], size=given["K"], beta=given.get("beta", 2.0)
    )
    return {
        "arms": done.arms,
        "ucb_fired": done.ucb_fired,
        "runs": dict(done.runs),
        "measured": sorted(done.runs),
        "never": sorted(prior.keys() - done.runs.keys()),
    }


def _sigma(given: Case) -> Found:
    return arms.pooled_sigma(given["effects"].values(), given["baseline"])._asdict()


def _boundary(given: Case) -> Found:
    seen = [
        arms.Arm(
            name,
            effects=(given["mean"].get(name, 0.0),) * runs,
            failed=given.get("failed", {}).get(name, 0),
            in_flight=given.get("in_flight", {}).get(name, 0),
        )
        for name, runs in given["runs"].items()
    ]
    found = arms.pick(seen, sigma=given.get("sigma", 0.0), k=given["k"], tries=given.get("tries", arms.TRIES))
    return found._asdict()


def _cap(given: Case) -> Found:
    return arms.shares(
        given["components"],
        given["budget"],
        k=given["k"],
        confirm_seeds=given["confirm_seeds"],
        baseline=given["baseline_explore"],
    )._asdict()


def _interaction(given: Case) -> Found:
    found = effects.interaction(given["single"].values(), given["joint"], sigma=given["sigma"], runs=given["runs"])
    return {"interaction": found.value, "bound": found.bound, "twins": found.twins}


def _group_test(given: Case) -> Found:
    """Each subset shows the excess where it holds all of the parts that cause it."""
    cause, subsets = set(given["joint_excess_of"]), list[str]()
    search = arms.group_test(given["parts"])
    try:
        subset = next(search)
        while True:
            subsets.append("".join(subset))
            subset = search.send(bool(cause) and cause <= set(subset) and given["excess"] > given["bound"])
    except StopIteration as ended:
        return {"pair": list(ended.value), "subsets": subsets, "runs": len(subsets)}


def _expect(given: Case) -> Found:
    if "texts" in given:
        return {"refused": all(map(_refused, given["texts"]))}
    return parse_expected(given["text"]).model_dump()


def _refused(text: str) -> bool:
    try:
        parse_expected(text)
    except ExpectedError:
        return True
    return False


def _baseline(given: Case) -> Found:
    return check_baseline(given["values"], Expected(value=given["expected"], tolerance=given["tolerance"])).model_dump()


def _metric(given: Case) -> Found:
    metric = parse_metric(given["spec"])
    with tempfile.TemporaryDirectory() as folder:
        if given.get("file") is not None:
            (Path(folder) / metric.place).write_text(given["file"])
        stale = given.get("committed_in_repository", False) and not given.get("written_by_the_run", True)
        found = read_metric(metric, Path(folder), given.get("stdout", ""), scale=given.get("scale", 1.0), stale=stale)
    failure = found.failure
    return {
        "value": found.value,
        "note": found.note,
        "failure": failure.kind if failure else None,
        "message": failure.message if failure else "",
    }


def _scope(given: Case) -> Found:
    return patch_scope(given["before"], given["after"], given["target"], given["metric_symbols"])._asdict()


def _patch_effect(given: Case) -> Found:
    gate = effects.patch_gate(given["baseline"], given["ablated_same_seed"], reached=given["lines_executed"])
    return {"verdict": gate, "effect": 0.0 if gate == "no effect" else None}


def _floor(given: Case) -> Found:
    found = effects.floor_rule(
        given["direction"],
        given["baseline"],
        given["floor"],
        [(name, effect) for name, effect in given["effects_by_mutation"]],
        given["share"],
    )
    return {**found._asdict(), "flag": found.flag or None}


COMPUTE: dict[str, Callable[[Case], Found]] = {
    "effect": _effect,
    "critical": _critical,
    "paired interval": _paired,
    "holm": _holm,
    "t interval from mean, sd, n": _printed_rows,
    "sum": _trials,
    "product": _product,
    "recovery": _recovery,
    "chance": _chance,
    "reward": _reward,
    "literal": _literal,
    "literal trace": _literal_trace,
    "sigma": _sigma,
    "boundary pick": _boundary,
    "sweep": lambda given: {"order": arms.sweep_order(given["prior"])},
    "inventory cap": _cap,
    "interaction": _interaction,
    "group test": _group_test,
    "parse --expect": _expect,
    "baseline check": _baseline,
    "parse metric": _metric,
    "patch scope": _scope,
    "patch effect": _patch_effect,
    "floor": _floor,
}
"""What a case is about -> how it is computed."""


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
        raise SystemExit("usage: python -m evals.ablatecell.golden FILE")
    raise SystemExit(main(sys.argv[1]))
