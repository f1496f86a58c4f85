"""`python -m benchmarks.policies TABLE... [--out FILE] [--draws N] [--budgets N...]`: which policy finds what matters.

Each policy for choosing the next run is simulated on a stored table of runs of one repository: every part at every
seed, and the baseline. Each draw is a separate world: seeds are drawn from the table with replacement, the same for
a part and its baseline (`--unpaired`: different ones, as for a program without seeds), and priors agree with the
true importances by `--agreement` (0: uninformed). Budgets include the baseline's runs. Correct are the five parts
that help most by the mean over all seeds of the table, including ties with the fifth. Acc@5 is a mean over draws,
with its standard error.

python -m benchmarks.policies measure REPOSITORY TRUTH.json --out TABLE.json [--seeds N] [--python PATH]

makes such a table from a repository with known parts: `reference` in the file says how to remove each.

python -m benchmarks.policies border [--draws N] [--out FILE]

compares two uses of a budget on invented parts: after one run each, fresh seeds at once (the program's policy), or
first runs at the boundary of the five that help most, where not all parts can have fresh seeds.
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
from dataclasses import asdict, dataclass, field, replace
from itertools import product
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


BASELINE_RUNS = 5
"""Runs of the baseline and its check before any part is ablated; the first three are seeds of the search."""
EFFECT_MEDIAN, EFFECT_SPREAD, IDLE_SHARE = 0.03, 1.2, 0.25
"""Invented effects: median and standard deviation of the logarithm, and the share of parts without any effect."""


def compare_border(
    *, sizes: Sequence[int], noises: Sequence[float], shares: Sequence[float], draws: int
) -> list[dict[str, Any]]:
    """Compare the two uses for each number of parts, noise of a run (in medians of an effect) and share of the default
    budget: Acc@5 of parts with fresh seeds, and parts with fresh seeds. Both have the same parts."""
    found: list[dict[str, Any]] = []
    for size, noise, share in product(sizes, noises, shares):
        budget, played = round((7 * size + 29) * share), list[tuple[tuple[float, int], tuple[float, int]]]()
        for draw in range(draws):
            rng = Random(f"{size} {noise} {draw}")
            effects = [
                0.0 if rng.random() < IDLE_SHARE else EFFECT_MEDIAN * math.exp(rng.gauss(0, EFFECT_SPREAD))
                for _ in range(size)
            ]
            world = InventedParts(effects, noise * EFFECT_MEDIAN, budget, draw)
            played.append((replace(world).play(at_border=True), replace(world).play(at_border=False)))
        (accuracy, verdicts) = list(zip(*(zip(*pair, strict=True) for pair in played), strict=True))
        border, plain = ([one[at] for one in accuracy] for at in (0, 1))
        gains = [after - before for before, after in zip(border, plain, strict=True)]
        found.append(
            {"parts": size, "noise": noise, "share": share, "budget": budget}
            | {
                name: {"acc": round(fmean(acc), 4), "verdicts": round(fmean(one[at] for one in verdicts), 1)}
                for at, (name, acc) in enumerate((("border", border), ("plain", plain)))
            }
            | {"difference": round(fmean(gains), 4), "se": round(stdev(gains) / math.sqrt(draws), 4)}
        )
    return found


@dataclass
class InventedParts:
    """Parts with true effects and runs with noise; `spent` counts every run."""

    effects: Sequence[float]
    noise: float
    budget: int
    seed: int
    spent: int = BASELINE_RUNS
    rng: Random = field(init=False)
    baseline: list[float] = field(init=False)
    seen: dict[int, list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.baseline = [self.rng.gauss(0, self.noise) for _ in range(3)]
        order = self.rng.sample(range(len(self.effects)), len(self.effects))
        self.seen = {part: [] for part in order[: self._split.explored]}

    @property
    def _split(self) -> ablation_bandit.BudgetSplit:
        return ablation_bandit.split_budget(len(self.effects), self.budget, k=TOP_K, baseline=BASELINE_RUNS)

    def play(self, *, at_border: bool) -> tuple[float, int]:
        """Spend the budget; return Acc@5 of the parts with fresh seeds, and how many have them."""
        for part in self.seen:
            self._run_part(part)
        seeds = ablation_bandit.CONFIRM_SEEDS
        if at_border and self.spent + seeds * (1 + len(self.seen)) > self.budget:
            self._run_border(self.budget - seeds * (2 + self._split.confirmed))
        self.spent += seeds
        fresh, base = dict[int, float](), [self.rng.gauss(0, self.noise) for _ in range(seeds)]
        for part in sorted(self.seen, key=lambda one: -abs(fmean(self.seen[one]))):
            if self.spent + seeds <= self.budget:
                self.spent += seeds
                fresh[part] = fmean(self.effects[part] + self.rng.gauss(0, self.noise) - one for one in base)
        least = sorted(self.effects, reverse=True)[TOP_K - 1]
        best = [part for part in sorted(fresh, key=lambda one: -fresh[one]) if fresh[part] > 0][:TOP_K]
        return sum(self.effects[part] >= least for part in best) / TOP_K, len(fresh)

    def _run_part(self, part: int) -> None:
        place = len(self.seen[part])
        if place >= len(self.baseline):
            self.baseline.append(self.rng.gauss(0, self.noise))
            self.spent += 1
        self.spent += 1
        self.seen[part].append(self.effects[part] + self.rng.gauss(0, self.noise) - self.baseline[place])

    def _run_border(self, most: int) -> None:
        while self.spent + 2 <= most:
            arms = [RunningArm(f"{part:03}", 0.5, tuple(one)) for part, one in self.seen.items()]
            sigma = ablation_bandit.compute_pooled_sigma(self.seen.values(), self.baseline).sigma
            harmful = set(ablation_bandit.find_harmful(arms, sigma))
            pick = pick_arm([one for one in arms if one.name not in harmful], sigma=sigma, k=TOP_K)
            if pick.next is None or pick.separated:
                return
            self._run_part(int(pick.next))


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
    parser.add_argument("files", nargs="+", type=Path, help="tables, `measure REPOSITORY TRUTH`, or `border`")
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
    elif str(given.files[0]) == "border":
        found = compare_border(sizes=(8, 15, 25), noises=(0.3, 1.0), shares=(0.35, 0.5, 0.7, 1.0), draws=given.draws)
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
