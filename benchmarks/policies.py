"""`python -m benchmarks.policies TABLE... [--out FILE] [--draws N] [--budgets N...]`: which policy finds what matters.

Each policy for choosing the next run is simulated on a stored table of runs of one repository: every part at every
seed, and the baseline. Each draw is a separate world: seeds are drawn from the table with replacement, the same for
a part and its baseline (`--unpaired`: different ones, as for a program without seeds), and priors agree with the
true importances by `--agreement` (0: uninformed). Budgets include the baseline's runs. Correct are the five parts
that help most by the mean over all seeds of the table, including ties with the fifth. Acc@5 is a mean over draws,
with its standard error.

python -m benchmarks.policies measure REPOSITORY TRUTH.json --out TABLE.json [--seeds N] [--python PATH]

makes such a table from a repository with known parts: `reference` in the file says how to remove each.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean, pstdev, stdev
from typing import Any

from benchmarks.ablation_policies import RunningArm, compute_recovery, compute_ucb_index, pick_arm, run_algorithm_one
from benchmarks.report import make_parser, print_report
from labwright.record.schema import FrozenModel
from labwright.record.schema.repository import MetricDirection
from labwright.sandbox.repository.metric import parse_metric, read_metric
from labwright.search import ablation_bandit

TOP_K = 5
DRAWS = 500
BUDGETS = (20, 30, 40)
FIRST_SEED = 1001
"""First seed of a table: the truth of a generated repository was measured with other seeds."""
_RUN_SECONDS = 120


class StoredRuns(FrozenModel):
    """Stored runs: values at the same position have the same seed. Effects are positive if a part helps."""

    name: str
    direction: MetricDirection
    baseline: tuple[float, ...]
    parts: Mapping[str, tuple[float, ...]]

    def compute_effect(self, part: str, seed: int, other: int) -> float:
        """Return the effect from the runs at two positions, the baseline's first."""
        return (self.baseline[seed] - self.parts[part][other]) * (1 if self.direction == "max" else -1)

    def list_effects(self, part: str) -> list[float]:
        """Return the effect for every seed."""
        return [self.compute_effect(part, seed, seed) for seed in range(len(self.baseline))]

    def compute_importance(self) -> dict[str, float]:
        """Return the mean effect over all seeds; 0 for a harmful part, which cannot be among those that help most."""
        return {part: max(0.0, fmean(self.list_effects(part))) for part in self.parts}


@dataclass
class PolicyWorld:
    """One draw: its own order of seeds, a budget that includes the baseline's runs, and priors."""

    table: StoredRuns
    rng: Random
    runs_left: int
    agreement: float
    paired: bool = True
    seen: dict[str, list[float]] = field(init=False)
    priors: dict[str, float] = field(init=False)
    seeds: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        names = list(self.table.parts)
        self.seen = {name: [] for name in names}
        sizes = [math.log(max(value, 1e-4)) for value in self.table.compute_importance().values()]
        spread, middle, noise = pstdev(sizes) or 1.0, fmean(sizes), math.sqrt(1 - self.agreement**2)
        self.priors = {
            name: self.agreement * (size - middle) / spread + noise * self.rng.gauss(0, 1)
            for name, size in zip(names, sizes, strict=True)
        }

    def run_part(self, part: str) -> float | None:
        """Return the effect from one more run; None if the budget is spent. A new seed also costs a baseline run."""
        place = len(self.seen[part])
        cost = 1 + (place >= len(self.seeds))
        if self.runs_left < cost:
            return None
        self.runs_left -= cost
        if cost > 1:
            self.seeds.append(self.rng.randrange(len(self.table.baseline)))
        seed = self.seeds[place]
        other = seed if self.paired else self.rng.randrange(len(self.table.baseline))
        self.seen[part].append(self.table.compute_effect(part, seed, other))
        return self.seen[part][-1]

    def list_arms(self) -> list[RunningArm]:
        return [RunningArm(name, self.priors[name], tuple(values)) for name, values in self.seen.items()]

    def estimate_sigma(self) -> float:
        """Estimate the sigma of one effect; without repeats, effects are assumed to be exact."""
        drawn = [self.table.baseline[seed] for seed in self.seeds]
        found = ablation_bandit.compute_pooled_sigma(self.seen.values(), drawn).sigma
        return found if math.isfinite(found) else 1e-6


Policy = Callable[[PolicyWorld], None]


def play_literal(world: PolicyWorld) -> None:
    """Algorithm 1 as printed: rounds of five candidates of one arm."""
    run_algorithm_one(
        world.priors,
        lambda arm: _effect_size(world.run_part(arm)),
        rounds=max(1, (world.runs_left - TOP_K) // TOP_K),
        size=TOP_K,
    )


def _effect_size(effect: float | None) -> float | None:
    return None if effect is None else abs(effect)


def play_random(world: PolicyWorld) -> None:
    """Choose any arm, however often it ran."""
    names = list(world.seen)
    while world.run_part(world.rng.choice(names)) is not None:
        pass


def play_uniform(world: PolicyWorld) -> None:
    """Choose in turn, in the order of priors."""
    order = ablation_bandit.order_sweep(world.priors)
    while world.run_part(min(order, key=lambda name: len(world.seen[name]))) is not None:
        pass


def play_ucb(world: PolicyWorld) -> None:
    """The printed index for every single run, with its weight of 2; unexplored arms first."""
    for total in range(10**6):
        fresh = [name for name in ablation_bandit.order_sweep(world.priors) if not world.seen[name]]
        arm = fresh[0] if fresh else max(world.seen, key=lambda name: _ucb_index(world.seen[name], total))
        if world.run_part(arm) is None:
            return


def _ucb_index(values: Sequence[float], total: int) -> float:
    return compute_ucb_index(fmean(map(abs, values)), len(values), total, 2.0)


def play_boundary(world: PolicyWorld) -> None:
    """Every arm once, then the boundary of the five that help most."""
    while True:
        seen, sigma = world.list_arms(), world.estimate_sigma()
        bad = set(ablation_bandit.find_harmful(seen, sigma))
        chosen = pick_arm([one for one in seen if one.name not in bad], sigma=sigma, k=TOP_K).next
        if chosen is None or world.run_part(chosen) is None:
            return


POLICIES: dict[str, Policy] = {
    "literal": play_literal,
    "random": play_random,
    "uniform": play_uniform,
    "ucb": play_ucb,
    "boundary": play_boundary,
}


@dataclass(frozen=True)
class ComparisonTerms:
    """Terms of a comparison: worlds drawn, quality of priors, and whether a part runs on its baseline's seed."""

    draws: int = DRAWS
    agreement: float = 0.0
    paired: bool = True


def play_policy(table: StoredRuns, policy: Policy, budget: int, terms: ComparisonTerms) -> list[float]:
    """Return Acc@5 of every draw; all policies have the same worlds."""
    importance, found = table.compute_importance(), list[float]()
    for number in range(terms.draws):
        world = PolicyWorld(table, Random(f"{table.name} {number}"), budget, terms.agreement, terms.paired)
        policy(world)
        found.append(compute_recovery(importance, ablation_bandit.find_helping(world.list_arms(), TOP_K), TOP_K).acc)
    return found


def compare_policies(tables: Sequence[StoredRuns], budgets: Sequence[int], terms: ComparisonTerms) -> dict[str, Any]:
    """Return Acc@5 by policy and budget, for each table and overall, with standard errors over draws."""
    result: dict[str, Any] = {}
    for name, policy in POLICIES.items():
        for budget in budgets:
            each = {table.name: play_policy(table, policy, budget, terms) for table in tables}
            result.setdefault(name, {})[str(budget)] = {
                "all": _summarize([fmean(row) for row in zip(*each.values(), strict=True)]),
                **{table: _summarize(values) for table, values in each.items()},
            }
    return result


def _summarize(values: Sequence[float]) -> dict[str, float]:
    return {"acc": round(fmean(values), 4), "se": round(stdev(values) / math.sqrt(len(values)), 4)}


def measure_repository(repository: Path, truth: Mapping[str, Any], seeds: int, python: str) -> StoredRuns:
    """Remove every part of a repository at every seed, as its truth file says, after fixing its faults."""
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    single = {name: how for name, how in truth["reference"].items() if name in truth["components"]}
    return StoredRuns(
        name=f"{repository.parent.name}/{repository.name}",
        direction=truth["direction"],
        baseline=tuple(_run_part(repository, truth, {}, seed, python) for seed in numbers),
        parts={
            name: tuple(_run_part(repository, truth, how, seed, python) for seed in numbers)
            for name, how in single.items()
        },
    )


def _run_part(repository: Path, truth: Mapping[str, Any], how: Mapping[str, Any], seed: int, python: str) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / repository.name
        shutil.copytree(repository, work, ignore=shutil.ignore_patterns(".git"))
        for data in repository.parent.glob(f"{repository.name}-data"):
            (Path(scratch) / data.name).symlink_to(data.resolve())
        for path, old, new in (*(one["edit"] for one in truth["faults"] if "edit" in one), *how.get("edits", ())):
            (work / path).write_text((work / path).read_text().replace(old, new))
        words = [python, *truth["command"].format(seed=seed).split()[1:], *how.get("args", ())]
        environment = os.environ | truth["env"] | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            words, cwd=work, env=environment, capture_output=True, text=True, timeout=_RUN_SECONDS, check=True
        )
        read = read_metric(parse_metric(truth["metric"]), work, done.stdout)
        assert read.value is not None, read.failure
        return read.value


def main(words: Sequence[str]) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="tables, or `measure REPOSITORY TRUTH`")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--agreement", type=float, default=0.0, help="correlation of priors with importances, 0 to 1")
    parser.add_argument("--unpaired", action="store_true", help="run a part on other seeds than its baseline")
    parser.add_argument("--seeds", type=int, default=12, help="seeds of a measured table")
    parser.add_argument("--python", default=sys.executable, help="interpreter for a repository")
    given = parser.parse_args(words)
    if str(given.files[0]) == "measure":
        truth = json.loads(given.files[2].read_text())
        found = measure_repository(given.files[1], truth, given.seeds, given.python).model_dump(mode="json")
    else:
        tables = [StoredRuns.model_validate_json(file.read_text()) for file in given.files]
        terms = ComparisonTerms(given.draws, given.agreement, not given.unpaired)
        found = {
            **asdict(terms),
            "tables": [one.name for one in tables],
            "acc_at_5": compare_policies(tables, given.budgets, terms),
        }
    print_report(found, given.out)


if __name__ == "__main__":
    main(sys.argv[1:])
