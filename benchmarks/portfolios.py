"""`python -m benchmarks.portfolios [--out FILE] [--campaign]`: portfolios of ideas of known truth.

Simulated portfolios have twelve ideas: claims that are true, claims that are false at the boundary of their test (the
worst case), and claims that the allowed seeds cannot decide. All policies see the same random numbers. Forecast,
choice, test and correction are those of the program (`planned_seeds`, `select_studies`, `decide_from_runs`,
`compute_joint_levels`); each selected study is tested once, with as many seeds as forecast, at most the allowed number
(`benchmarks.decisions` measures tests with several looks).

- `portfolio`: the program: choice by expected decided claims per hour, tests on fresh seeds, Holm's correction.
- `reused`: the same, but the pilot's seeds are among the tested ones.
- `by effect`: as many studies, those whose pilots show the clearest effects; fresh seeds, Holm's correction.
- `by effect, reused`: the same, but the pilot's seeds are among the tested ones.
- `naive`: the same without correction.
- `all`: every study on fresh seeds, Holm's correction, without pilots.

With `--campaign`, the twelve ideas of `benchmarks.portfolio_program` run as processes of real campaigns: as a
portfolio, all under the same time limit, and all without a limit. It takes about ten minutes.

Exits 1 if the program confirms a false claim in more portfolios than chance explains.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.portfolio_program import STUDIES
from benchmarks.report import make_parser, print_report
from benchmarks.study_world import Array
from labwright.agent.campaign import CampaignRunner, CampaignRuns, create_campaign, read_campaign_ideas
from labwright.agent.cli.campaign import KEPT_SHARE, build_report, write_portfolio
from labwright.agent.settings import compose_settings
from labwright.record.campaign import RUNS_FOLDER, CampaignTerms, DecisionForecast, select_studies
from labwright.record.claims.estimates import MIN_REPLICATES, SIGNIFICANCE_LEVEL
from labwright.record.claims.hypothesis_tests import ReplicateValues, compute_joint_levels, decide_from_runs
from labwright.record.claims.planned_seeds import MAX_UNITS, compute_planned_seeds
from labwright.record.event_log import read_state
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, MetricSpec
from labwright.record.schema.hypotheses import Effect, Hypothesis, HypothesisDecision
from labwright.search.settings import NUM_PLANNING_SEEDS, SearchSettings

ROOT = Path(__file__).parents[1]
PORTFOLIOS = 200
TRUE_IDEAS, FALSE_IDEAS, NOISY_IDEAS = 3, 6, 3
IDEAS = TRUE_IDEAS + FALSE_IDEAS + NOISY_IDEAS
KEEP = ceil(KEPT_SHARE * IDEAS)
MOST_SEEDS = SearchSettings().max_seeds
HOURS = 30.0
"""Compute hours for fresh seeds."""
PROTOTYPE_SEEDS = 2
"""Time of a pilot's prototypes, in seeds."""
EFFECT = Effect(estimand="method - baseline", smallest=1.0, claim="positive")
PLAN = DataPlan(
    task="simulated",
    objective="measure",
    expected_seconds=1,
    datasets=(DatasetUse(name="d0"),),
    metrics=(MetricSpec(name="score", higher_is_better=True),),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
    hypotheses=(Hypothesis(id="h", statement="above", reason="less is noise", unit="seeds", effects=(EFFECT,)),),
)


@dataclass(frozen=True)
class SimulatedIdea:
    """An idea and its truth, in smallest effects of interest."""

    effect: float
    sd: float
    seconds: float
    """Compute time of a seed."""
    pilot: Array
    fresh: Array

    @property
    def pilot_hours(self) -> float:
        return (PROTOTYPE_SEEDS + len(self.pilot)) * self.seconds / 3600

    def forecast(self, name: str, studies: int) -> DecisionForecast:
        """Forecast the seeds that the claim needs, as `search.replication.forecast_decision` does."""
        planned = compute_planned_seeds(EFFECT, stdev(self.pilot.tolist()), level=SIGNIFICANCE_LEVEL / studies)
        wanted = max(MIN_REPLICATES, planned.n or MAX_UNITS)
        return DecisionForecast(name=name, wanted={"h": wanted}, hypotheses=1, seeds=MOST_SEEDS, seconds=self.seconds)


def draw_portfolio(number: int) -> dict[str, SimulatedIdea]:
    """Draw the ideas of the portfolio with this number."""
    rng = np.random.default_rng([8, number])

    def draw(effect: float, low: float, high: float) -> SimulatedIdea:
        sd, seconds = (exp(rng.uniform(log(a), log(b))) for a, b in ((low, high), (60.0, 1200.0)))
        pilot, fresh = (effect + sd * rng.standard_normal(n) for n in (NUM_PLANNING_SEEDS, MOST_SEEDS))
        return SimulatedIdea(effect, sd, seconds, pilot, fresh)

    return {
        **{f"true{k}": draw(EFFECT.design_value, 0.5, 4.0) for k in range(TRUE_IDEAS)},
        **{f"false{k}": draw(EFFECT.limit, 0.5, 4.0) for k in range(FALSE_IDEAS)},
        **{f"noisy{k}": draw(EFFECT.limit, 8.0, 20.0) for k in range(NOISY_IDEAS)},
    }


def decide(idea: SimulatedIdea, n: int, *, reused: bool, level: float | None = None) -> HypothesisDecision:
    """Test the claim of an idea with `n` seeds, at a level or at its own."""
    values = np.concatenate([idea.pilot, idea.fresh])[:n] if reused else idea.fresh[:n]
    runs = [
        ReplicateValues(k, "", {("d0", "method", "score"): float(value), ("d0", "baseline", "score"): 0.0})
        for k, value in enumerate(values)
    ]
    return decide_from_runs(PLAN, runs, confirmed=True, levels={} if level is None else {"h": level})[0]


def confirm(
    ideas: Mapping[str, SimulatedIdea], seeds: Mapping[str, int], *, reused: bool = False, corrected: bool = True
) -> list[str]:
    """Return the ideas whose claims are supported, tested with these numbers of seeds."""
    alone = {name: (decide(ideas[name], n, reused=reused),) for name, n in seeds.items()}
    if not corrected:
        return [name for name, [found] in alone.items() if found.verdict == "supported"]
    levels = compute_joint_levels(alone)
    return [
        name
        for name, n in seeds.items()
        if decide(ideas[name], n, reused=reused, level=levels[name]["h"]).verdict == "supported"
    ]


def simulate(number: int) -> dict[str, tuple[list[str], float]]:
    """Return the confirmed claims and compute hours of each policy in one portfolio."""
    ideas = draw_portfolio(number)
    forecasts = {name: one.forecast(name, KEEP) for name, one in ideas.items()}
    seeds = {name: min(MOST_SEEDS, one.wanted["h"]) for name, one in forecasts.items()}
    pilots = sum(one.pilot_hours for one in ideas.values())

    def clarity(name: str) -> float:
        pilot = ideas[name].pilot.tolist()
        return fmean(pilot) / (stdev(pilot) / sqrt(len(pilot)))

    def cost(names: Sequence[str]) -> float:
        return sum(seeds[name] * ideas[name].seconds for name in names) / 3600

    best = select_studies(forecasts.values(), KEEP, hours=HOURS).names
    clearest = sorted(ideas, key=clarity, reverse=True)[:KEEP]
    by_forecast, by_effect = ({name: seeds[name] for name in names} for names in (best, clearest))
    return {
        "portfolio": (confirm(ideas, by_forecast), pilots + cost(best)),
        "reused": (confirm(ideas, by_forecast, reused=True), pilots + cost(best)),
        "by effect": (confirm(ideas, by_effect), pilots + cost(clearest)),
        "by effect, reused": (confirm(ideas, by_effect, reused=True), pilots + cost(clearest)),
        "naive": (confirm(ideas, by_effect, reused=True, corrected=False), pilots + cost(clearest)),
        "all": (confirm(ideas, seeds), cost(list(ideas))),
    }


def measure_policies(portfolios: int) -> dict[str, Any]:
    """Measure false confirmations of each policy over simulated portfolios."""
    found: dict[str, list[tuple[list[str], float]]] = {}
    for number in range(portfolios):
        for name, outcome in simulate(number).items():
            found.setdefault(name, []).append(outcome)
    return {
        name: {
            "portfolios with a false confirmation": sum(any(map(is_false, names)) for names, _ in outcomes),
            "false confirmations": sum(is_false(one) for names, _ in outcomes for one in names),
            "true confirmations": sum(not is_false(one) for names, _ in outcomes for one in names),
            "compute hours per portfolio": round(fmean(hours for _, hours in outcomes), 1),
        }
        for name, outcomes in found.items()
    }


def is_false(name: str) -> bool:
    return not name.startswith("true")


# --- real campaigns -------------------------------------------------------------------------------------------------


def measure_campaign(folder: Path, *, seconds: float | None, keep: int | None) -> dict[str, Any]:
    """Run the twelve ideas as a campaign of two runs at a time, and compare its verdicts with the truth.

    Without a choice, all studies decide at the level of one family, as those of a portfolio do.
    """
    folder.mkdir(parents=True)
    ideas = [{"Name": name, "Title": name, "Experiments": ["one"]} for name in STUDIES]
    (folder / "ideas.json").write_text(json.dumps(ideas))
    place = folder / "campaign"
    terms = CampaignTerms(parallel=2, slots=2, seconds=seconds, keep=keep, pilot_seconds=15.0 if keep else None)
    settings = compose_settings(flags={"search.family": 0 if keep else len(STUDIES)}, environment={})
    create_campaign(list(read_campaign_ideas([folder / "ideas.json"])), settings, terms, place)
    state = CampaignRunner(
        place,
        CampaignRuns(place, (sys.executable, "-m", "benchmarks.portfolio_program"), kept=keep or 0),
        poll_seconds=0.1,
        environment=os.environ | {"PYTHONPATH": str(ROOT)},
    ).run()
    write_portfolio(place)
    verdicts = {one.name: one.verdicts[0] for one in build_report(place).lines if one.verdicts}
    confirmed = {name: one.verdict for name, one in verdicts.items() if one.confirmed}
    runs = {name: read_state(place / RUNS_FOLDER / name) for name in STUDIES if (place / RUNS_FOLDER / name).exists()}
    return {
        "set aside": {one.name: one.set_aside for one in state.entries.values() if one.set_aside},
        "confirmed": {name: {"verdict": verdict, "truth": STUDIES[name].truth} for name, verdict in confirmed.items()},
        "verdicts": Counter(confirmed.values()),
        "wrong": sum(verdict not in ("open", STUDIES[name].truth) for name, verdict in confirmed.items()),
        "seconds of runs": round(sum(one.active_seconds for one in runs.values()), 1),
        "seconds of the campaign": round(state.active_seconds, 1),
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--portfolios", type=int, default=PORTFOLIOS)
    parser.add_argument("--campaign", action="store_true")
    args = parser.parse_args()
    policies = measure_policies(args.portfolios)
    found: dict[str, Any] = {
        "portfolios": args.portfolios,
        "ideas": {"true": TRUE_IDEAS, "false": FALSE_IDEAS, "undecidable": NOISY_IDEAS, "continued at most": KEEP},
        "policies": policies,
    }
    if args.campaign:
        with TemporaryDirectory() as folder:
            found["campaigns"] = {
                "portfolio": measure_campaign(Path(folder) / "portfolio", seconds=240.0, keep=KEEP),
                "all, same limit": measure_campaign(Path(folder) / "same", seconds=240.0, keep=None),
                "all, no limit": measure_campaign(Path(folder) / "all", seconds=None, keep=None),
            }
    print_report(found, args.out)
    false, allowed = policies["portfolio"]["portfolios with a false confirmation"], SIGNIFICANCE_LEVEL / 2
    return int(false > args.portfolios * allowed + 2 * sqrt(args.portfolios * allowed * (1 - allowed)))


if __name__ == "__main__":
    sys.exit(main())
