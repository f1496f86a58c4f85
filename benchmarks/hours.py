"""`python -m benchmarks.hours [--out FILE]`: how often whole studies decide their claim within their hours.

Studies differ in true effect, noise, cells, slots, hours, gains from tuning, and failures (`benchmarks.study_world`).
Each is carried out by these policies, on the same random numbers:

- `current`: the program itself; its scheduler runs in virtual time.
- `former`: the policy of version c82ce9ec: three drafts, five replicates of the best one, trials that double, five
  replicates of the tuned node, main experiments, then as many fresh seeds as planned or as time is left for. Its
  intervals count the interaction of seeds and examples twice, which made them 20 to 30 % too wide.
- `former hours`: the same seeds with the intervals and verdicts of the program.
- `looking oracle`: knows spread and tuning curve, but not the effect; chooses the number of trials that decides most,
  spends everything else on fresh seeds, and obeys the same looks.
- `free oracle`: the same with one test of all seeds.

Former policy and oracles are simulated, the latter with the program's looks, intervals and verdicts. All set the same
time aside for test scoring and the paper, but the former policy none. The true effect is that of fully tuned arms. A
study succeeds if its claim is rightly decided, or if the half-width of its interval is at most a third of the margin
and its claim is not wrongly decided. At the boundary of a claim no verdict is right. `wrong` counts verdicts that are
wrong of fully tuned arms, `wrong_of_confirmed` those that are wrong of the confirmed settings. `boundary` has further
studies whose effect is at the boundary with the confirmed settings. Models' answers take no time.

Exits 1 if a goal is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import heapreplace
from math import ceil, floor, sqrt
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
from scipy import stats as scipy_stats

from benchmarks.decisions import MAX_FALSE_RATE
from benchmarks.report import make_parser, print_report
from benchmarks.study_world import (
    EFFECTS,
    EXAMPLES,
    MOST_TRIALS,
    SETTINGS,
    STRATA,
    TRIALS,
    Array,
    Outcome,
    Study,
    build_plan,
    choose_settings,
    compute_bias,
    draw_study,
    draw_trials,
    drive,
    find_draws,
)
from labwright.record.claims.differences import estimate_mean
from labwright.record.claims.estimates import MIN_REPLICATES, SIGNIFICANCE_LEVEL, compute_t_quantile, compute_upper_rate
from labwright.record.claims.hypothesis_tests import LookSample, ReplicateValues, decide_from_looks, list_undecided
from labwright.record.claims.planned_seeds import predict_seeds
from labwright.record.schema.data_plan import DataPlan, ResampledInterval
from labwright.record.schema.decisions import MAX_SINGLE_LOOK_SEEDS, build_look_weights
from labwright.record.schema.hypotheses import PRECISE_SHARE, HypothesisDecision, HypothesisVerdict
from labwright.record.schema.nodes import TrialResult
from labwright.record.tuning_results import is_still_gaining
from labwright.search.hours import PROBE_PROGRAMS, PROBE_SHARE, WRITE_UP_SHARE
from labwright.search.replication import MAX_REPLACED_SHARE, plan_looks
from labwright.search.sampling import BATCH_SIZE
from labwright.search.settings import STAGE_TIME_SHARE
from labwright.search.tuning import BUDGET_STEPS, FINALIST_SEEDS, MAX_FINALISTS

stats: Any = scipy_stats
GOALS = {"looking oracle": 0.9, "free oracle": 0.8}
PolicyName = Literal["current", "former", "former hours", "looking oracle", "free oracle"]
POLICIES: tuple[PolicyName, ...] = ("current", "former", "former hours", "looking oracle", "free oracle")


@dataclass
class SimulatedSlots:
    """Slots of a run, in seconds since its start."""

    count: int
    ends: list[float] = field(init=False)
    """When each slot is free."""

    def __post_init__(self) -> None:
        self.ends = [0.0] * self.count

    @property
    def now(self) -> float:
        """When the next slot is free."""
        return self.ends[0]

    def start(self, seconds: float) -> None:
        """Start something in the next free slot."""
        heapreplace(self.ends, self.ends[0] + seconds)

    def wait(self) -> None:
        """Wait until everything has ended."""
        self.ends = [max(self.ends)] * self.count


def decide(study: Study, samples: Sequence[tuple[Sequence[float], float]]) -> HypothesisDecision:
    """Decide the claim from the values and the weight of each look, as in a run."""

    def find_resampled(key: str) -> ResampledInterval:
        return study.spread_of_examples

    return decide_from_looks(
        build_plan(study),
        [
            LookSample(
                [
                    ReplicateValues(
                        seed, f"n{seed}", {("d0", "method", "score"): value, ("d0", "baseline", "score"): 0.0}
                    )
                    for seed, value in enumerate(values)
                ],
                find_resampled,
                weight,
                look,
            )
            for look, (values, weight) in enumerate(samples)
        ],
        confirmed=True,
        levels={},
    )[0]


class StudyRun:
    """One policy in one study: its slots, and what it knows. Times are in fresh seeds."""

    def __init__(self, study: Study) -> None:
        self.study, self.slots, self.draws = study, SimulatedSlots(study.slots), find_draws(study)
        self.losses = self.draws.losses[:, 0]
        """Losses of the settings that would be confirmed."""
        self.trials = [1] * study.arms
        """Settings of each arm that were tried, with the defaults."""
        self.is_repeated = False
        """Whether the best settings were repeated with other seeds."""
        self.fresh = 0
        """Fresh seeds that were started."""
        self.read: list[Sequence[int]] = []
        """Fresh seeds that each look read."""

    @property
    def left(self) -> float:
        """Slot-seconds that are left."""
        return sum(max(0.0, self.study.seconds - end) for end in self.slots.ends)

    def run_drafts(self, count: int, may_start: Callable[[], bool] = lambda: True) -> bool:
        """Run lines of drafts, each until one of its programs works; return whether one does."""
        works = False
        for line in self.draws.buggy[:count]:
            for buggy in line:
                if works and not may_start():
                    break
                self.slots.start(1.0)
                works |= not buggy
                if not buggy:
                    break
        return works

    def run_fresh_seeds(self, n: int) -> list[int] | None:
        """Run fresh seeds until the first `n` are complete or replaced; return these, or None if time ran out."""
        failed, wanted = int(self.draws.failed[: self.fresh].sum()), n
        wanted += min(failed, ceil(MAX_REPLACED_SHARE * n))
        while self.fresh < wanted:
            if self.slots.now + 1 > self.study.seconds:
                break
            self.slots.start(1.0)
            self.fresh += 1
            if self.fresh == wanted:
                failed = int(self.draws.failed[: self.fresh].sum())
                wanted = n + min(failed, ceil(MAX_REPLACED_SHARE * n))
        return None if self.fresh < wanted else self.list_complete()[:n]

    def list_complete(self) -> list[int]:
        return [seed for seed in range(self.fresh) if not self.draws.failed[seed]]

    def read_effects(self, seeds: Sequence[int]) -> list[float]:
        """Return the effect with each of these seeds."""
        mean = self.study.effect + float(compute_bias(self.losses)) + self.draws.shared
        return [mean + float(self.draws.seeds[seed]) for seed in seeds]

    def confirm(self, looks: Sequence[int], is_end: Callable[[int], bool]) -> Outcome:
        """Run fresh seeds and look at them until the claim is decided, sampling ends, or no time is left."""
        weights = build_look_weights(len(looks)) if looks else ()
        found: HypothesisDecision | None = None
        for look, n in enumerate(looks):
            seeds = self.run_fresh_seeds(n)
            if seeds is None and look:
                break
            seeds = self.list_complete()[:n] if seeds is None else seeds
            if len(seeds) < 2:
                break
            self.read.append(seeds)
            found = self.decide_looks(weights)
            if not list_undecided([found]) or is_end(look):
                break
        return Outcome(
            verdict=found.verdict if found else "open",
            is_precise=found is not None and all(part.is_precise for part in found.parts),
            seeds=len(self.read[-1]) if self.read else 0,
            share=self.fresh / self.study.hours,
            bias=float(compute_bias(self.losses)),
        )

    def decide_looks(self, weights: Sequence[float]) -> HypothesisDecision:
        """Decide the claim from the looks so far."""
        return decide(
            self.study, [(self.read_effects(seeds), weight) for seeds, weight in zip(self.read, weights, strict=False)]
        )

    def is_gaining(self, count: int, plan: DataPlan) -> bool:
        """Return whether an arm is still gaining after so many trials."""
        return any(
            is_still_gaining([make_trial(number, float(value)) for number, value in enumerate(arm[:count])], plan)
            for arm in self.draws.trials
        )

    def run_trials(self, plan: DataPlan, may_start: Callable[[float], bool]) -> bool:
        """Run the trials of every arm, with further ones while an arm gains, and the repeated ones; return whether none
        was refused."""
        budget = float(TRIALS)
        while True:
            whole = floor(budget + 1e-9)
            for size in split_batches(whole - min(self.trials)):
                for arm in range(self.study.arms):
                    if not may_start(size / self.study.arms):
                        self.slots.wait()
                        return False
                    self.slots.start(size / self.study.arms)
                    self.trials[arm] += size
            self.slots.wait()
            if budget >= MOST_TRIALS or not self.is_gaining(whole, plan):
                break
            budget = min(budget + TRIALS / BUDGET_STEPS, MOST_TRIALS)
        for _ in range(FINALIST_SEEDS):
            if not may_start(float(MAX_FINALISTS)):
                self.slots.wait()
                return False
            self.slots.start(float(MAX_FINALISTS))
        self.slots.wait()
        self.is_repeated = True
        return True

    def choose(self) -> None:
        """Confirm the settings that the trials so far choose."""
        draws = self.draws
        self.losses = np.array(
            [
                choose_settings(draws.losses[arm], draws.trials[arm], draws.finals[arm], n, repeated=self.is_repeated)
                for arm, n in enumerate(self.trials)
            ]
        )

    def fail(self) -> Outcome:
        """Return the outcome of a run in which no program works."""
        return Outcome("open", False, 0, 0.0, 0.0)


def make_trial(number: int, value: float) -> TrialResult:
    return TrialResult.model_construct(
        arm="",
        number=number,
        setting={},
        code="",
        node="",
        kind="trial",
        outcome="measured",
        values={"d0": value},
        seconds=1.0,
        seeds=1,
    )


def split_batches(trials: int) -> list[int]:
    """Return the sizes of the nodes that measure so many trials of an arm."""
    sizes: list[int] = []
    while trials > 0:
        sizes.append(ceil(trials / ceil(trials / BATCH_SIZE)))
        trials -= sizes[-1]
    return sizes


# --- the former policy -----------------------------------------------------------------------------------------------

FORMER_SEEDS, FORMER_MOST_SEEDS, FORMER_POWER = 5, 20, 0.9
"""Replicates of each stage's best node, maximum number of fresh seeds, and the power that Stein's rule aimed at."""
INTERACTION_SHARE = 0.5
"""Share of the variance between seeds that is their interaction with examples."""


class FormerRun(StudyRun):
    """The policy of version c82ce9ec. Times are in fresh seeds."""

    is_limited = False
    """Whether the run's time limit refused a node, which ended all search and planning."""
    planned = FORMER_SEEDS

    def carry_out(self) -> Outcome:
        study, seconds = self.study, self.study.seconds
        plan = build_plan(study).model_copy(update={"hypotheses": ()})
        if not self.run_drafts(SETTINGS.num_drafts, lambda: self.has_room(1.0)):
            return self.fail()
        self.slots.wait()
        self.replicate()
        end = self.slots.now + STAGE_TIME_SHARE * seconds
        self.run_trials(plan, lambda size: self.slots.now + size <= end and self.has_room(size))
        if max(self.trials) > 1 and self.has_room(1.0):
            self.choose()  # the chosen settings together, whose cells are reused
            self.replicate()
        self.slots.wait()
        if not self.is_limited:
            self.planned = self.plan_seeds()
            end = self.slots.now + STAGE_TIME_SHARE * seconds
            for _ in range(SETTINGS.agenda.nodes):
                if self.slots.now + 1 > end or not self.has_room(1.0):
                    break
                self.slots.start(1.0)
            self.slots.wait()
        n = FORMER_SEEDS if self.is_limited else self.planned
        if n > self.left:
            n = max(0, floor(seconds - self.slots.now)) * study.slots
        return self.confirm((n,) if n else (), lambda look: True)

    def decide_formerly(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the intervals and verdicts of that version."""
        if not self.read:
            return outcome
        values, study = self.read_effects(self.read[0]), self.study
        examples = study.examples + INTERACTION_SHARE * study.sd**2 / len(values) if study.examples else 0.0
        low, high = estimate_mean(values, examples, EXAMPLES - 1).compute_interval(SIGNIFICANCE_LEVEL)
        if study.claim == "positive":
            verdict: HypothesisVerdict = "supported" if low > 0 else "refuted" if high < 0 else "open"
        else:  # above; smaller, negligible or opposite
            verdict = "supported" if low > 1 else "refuted" if high < 0 or (low > -1 and high < 1) else "open"
        return replace(outcome, verdict=verdict, is_precise=(high - low) / 2 <= PRECISE_SHARE)

    def has_room(self, seconds: float) -> bool:
        """Return whether there is time for a node, those in progress, and the replicates due by then."""
        running = 1 + sum(end > self.slots.now for end in self.slots.ends)
        rounds = ceil(running / self.study.slots) + ceil(self.planned / self.study.slots)
        self.is_limited |= rounds * seconds > self.study.seconds - self.slots.now
        return not self.is_limited

    def replicate(self) -> None:
        """Run the replicates of a stage's best node."""
        for _ in range(FORMER_SEEDS):
            if self.slots.now + 1 <= self.study.seconds:
                self.slots.start(1.0)

    def plan_seeds(self) -> int:
        """Return the seeds that decide zero and twice the margin by Stein's rule."""
        freedom = FORMER_SEEDS - 1
        both = compute_t_quantile(1 - SIGNIFICANCE_LEVEL / 2, freedom) + compute_t_quantile(
            (1 + FORMER_POWER) / 2, freedom
        )
        wanted = ceil((both * stdev(self.draws.pilot[:FORMER_SEEDS].tolist())) ** 2)
        return min(FORMER_MOST_SEEDS, max(MIN_REPLICATES, wanted))


# --- oracles ---------------------------------------------------------------------------------------------------------

ORACLE_TRIALS = ((1, False), (3, False), (5, False), (8, False), (12, False), (12, True), (24, True))
"""Trials of each arm, and whether the best ones are repeated."""
ORACLE_DRAWS = 300
LOOK_LEVEL = 0.8 * SIGNIFICANCE_LEVEL
"""Level that three looks use."""


class OracleRun(StudyRun):
    """Knows the spread and the tuning curve, but neither the effect nor what chance does."""

    def carry_out(self, *, looking: bool) -> Outcome:
        study = self.study
        if not self.run_drafts(1):
            return self.fail()
        self.slots.wait()
        trials, self.is_repeated = max(ORACLE_TRIALS, key=lambda one: self.rate_trials(*one, looking=looking))
        self.trials = [trials] * study.arms
        self.choose()
        for size in split_batches(trials - 1):
            for _ in range(study.arms):
                self.slots.start(size / study.arms)
        for _ in range(FINALIST_SEEDS * self.is_repeated):
            self.slots.start(float(MAX_FINALISTS))
        self.slots.wait()
        affordable = self.count_affordable(self.left)
        if not looking:
            return self.confirm((affordable,) if affordable else (), lambda look: True)
        looks = plan_looks(affordable, affordable) if affordable else ()
        return self.confirm(
            looks,
            lambda look: look + 1 >= len(looks) or looks[look + 1] - looks[look] > self.count_affordable(self.left),
        )

    def count_affordable(self, left: float) -> int:
        """Return the seeds that fit, with test scoring and the paper."""
        total = self.study.hours
        return max(0, floor(left - min(PROBE_PROGRAMS, PROBE_SHARE * total) - WRITE_UP_SHARE * total))

    def rate_trials(self, trials: int, repeated: bool, *, looking: bool) -> float:
        """Return the probability of a success with so many trials, over all true effects."""
        study = self.study
        n = self.count_affordable(self.left - (trials - 1) - MAX_FINALISTS * FINALIST_SEEDS * repeated)
        if n < 2:
            return 0.0
        level = LOOK_LEVEL if looking and n > MAX_SINGLE_LOOK_SEEDS else SIGNIFICANCE_LEVEL
        half = predict_seeds(study.registered, n, study.sd, level, study.examples, EXAMPLES - 1).half_width
        bias = sample_bias(study, trials, repeated)
        error = sqrt(study.sd**2 / n + study.examples)
        found: list[float] = []
        for effect in EFFECTS:
            distance = effect - study.registered.limit
            sign = float(np.sign(distance))
            right = stats.norm.cdf((sign * (distance + bias) - half) / error)
            wrong = stats.norm.cdf((-sign * (distance + bias) - half) / error)
            found.append(float((1 - wrong if half <= PRECISE_SHARE else right if sign else 0 * right).mean()))
        return sum(found) / len(found)


@cache
def sample_bias(study: Study, trials: int, repeated: bool) -> Array:
    """Return biases of the effect after so many trials, over possible trials."""
    drawn = draw_trials(study, np.random.default_rng([51, study.number]), (ORACLE_DRAWS,))
    return compute_bias(choose_settings(*drawn, trials, repeated=repeated))


# --- report ----------------------------------------------------------------------------------------------------------


def carry_out(study: Study) -> dict[PolicyName, Outcome]:
    """Carry out a study by every policy."""
    former = FormerRun(study)
    hours = former.carry_out()
    return {
        "current": drive(study, is_biased=True),
        "former": former.decide_formerly(hours),
        "former hours": hours,
        "looking oracle": OracleRun(study).carry_out(looking=True),
        "free oracle": OracleRun(study).carry_out(looking=False),
    }


def place_at_boundary(study: Study) -> Study:
    """Return the study with a true effect at the boundary of its claim."""
    return replace(study, effect=study.registered.limit)


def carry_out_at_boundary(study: Study) -> Outcome:
    """Carry out a study by the program, as if the confirmed settings were fully tuned."""
    return drive(place_at_boundary(study), is_biased=False)


def summarize(studies: Sequence[Study], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what one policy made of these studies."""
    each, count = list(zip(studies, outcomes, strict=True)), len(studies)

    def rate(found: Sequence[bool]) -> float:
        return round(sum(found) / count, 4)

    return {
        "studies": count,
        "success": rate([one.is_success(study) for study, one in each]),
        "decided": rate([one.verdict == study.truth != "open" for study, one in each]),
        "precise": rate([one.is_precise for one in outcomes]),
        "wrong": rate([one.is_wrong(study) for study, one in each]),
        "wrong_of_confirmed": rate(
            [one.is_wrong(replace(study, effect=study.effect + one.bias)) for study, one in each]
        ),
        "mean_seeds": round(fmean(one.seeds for one in outcomes), 1),
        "median_seeds": float(np.median([one.seeds for one in outcomes])),
        "share_of_slot_seconds": round(fmean(one.share for one in outcomes), 3),
        "bias_sd": round(float(np.std([one.bias for one in outcomes])), 3),
    }


def build_report(
    studies: Sequence[Study], found: Sequence[dict[PolicyName, Outcome]], boundary: Sequence[Outcome]
) -> dict[str, Any]:
    """Return shares by hours and policy, and whether the goals are met."""
    report: dict[str, Any] = {}
    for name in ("all", *STRATA):
        mine = [k for k, study in enumerate(studies) if name in ("all", study.stratum)]
        whole: dict[str, Any] = {
            policy: summarize([studies[k] for k in mine], [found[k][policy] for k in mine]) for policy in POLICIES
        }
        current = whole["current"]["success"]
        report[name] = whole | {
            "current_over": {policy: round(current / whole[policy]["success"], 3) for policy in POLICIES[1:]}
        }
    wrong = {sign: sum(one.verdict == sign for one in boundary) for sign in ("supported", "refuted")}
    count = len(boundary)
    report["boundary"] = {
        "studies": count,
        **{sign: round(number / count, 4) for sign, number in wrong.items()},
        "highest_of_95_percent_intervals": round(max(compute_upper_rate(k, count, 0.025) for k in wrong.values()), 4),
    }
    report["goals"] = {
        **{
            f"{share:g} of the {policy}": report["all"]["current_over"][policy] >= share
            for policy, share in GOALS.items()
        },
        "twice the former where hours are short": report["short"]["current_over"]["former"] >= 2,
        "at most .025 wrong at the boundary, within simulation error": all(
            1 - compute_upper_rate(count - k, count, 0.025) <= MAX_FALSE_RATE for k in wrong.values()
        ),
    }
    return report


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--studies", type=int, default=1080)
    parser.add_argument("--boundary", type=int, default=1080, help="further studies at the boundary of their claim")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    began = time.monotonic()
    studies = [draw_study(number) for number in range(args.studies)]
    edge = [draw_study(args.studies + number) for number in range(args.boundary)]
    with ProcessPoolExecutor(args.processes) as pool:
        found = list(pool.map(carry_out, studies, chunksize=20))
        boundary = list(pool.map(carry_out_at_boundary, edge, chunksize=20))
    report = build_report(studies, found, boundary)
    report["seconds"] = round(time.monotonic() - began, 1)
    print_report(report, args.out)
    return 0 if all(report["goals"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
