"""Which settings are tried next for which arm, and when a choice stands: an Optuna study an arm over the record.

Numbers go to the study; what a model writes stays with the tree. A study belongs to one arm on one version of its code.
It is built anew from what a decision may see, and asked by the number of the trial; so equal views give equal trials,
in `ticket` order whatever the number of workers. Every arm gets as much of the plan's currency as the others.

Source: Bergstra et al. 2011 (TPE), Li et al. 2020 (asynchronous successive halving), both as Optuna has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import ceil, log
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

from record.nouns.data import DataPlan
from record.nouns.decisions import Expand, Extend
from record.nouns.frozen import Scalar
from record.nouns.nodes import Node, NodeKind
from record.nouns.tuning import Hyperparameter, Setting, Trial
from record.tuning import (
    EQUAL,
    FEWEST,
    TrialResult,
    best_of,
    edges,
    gaining,
    ranked,
    scores,
    settings_in,
    spent_on,
    study_of,
    tuned_on,
    whole_of,
)
from search.tree import View

BATCH = 4
"""Settings of one arm that one node tries: few enough that the next ones learn of them, enough to share a kernel."""
MORE = 1 / 3
"""Of the budget, what each arm gets on top once a dimension is widened."""
MOST, STEPS = 2, 6
"""So many times its budget an arm gets at most while one still gains, in so many steps for each budget."""
SLACK = 0.2
"""Of a trial, what is not worth another one."""
THIRD = 3
"""Of the trials at a rung, one in so many goes on."""
STARTUP = 5
"""Trials of an arm that are drawn at random before TPE has something to go by."""
FAR = 3
"""Scores count down to so many times below the median as the best is above it."""
TRIES = 10
"""Times that a setting is asked for that was not tried before."""


def step(view: View, node: Node | None) -> Expand | Extend | None:
    """What tuning a node's program takes next; None where it waits for results, or is through.

    First every arm is given what it is owed; then, in the stage of tuning, a dimension is widened where a choice lies
    at its edge; then the best of each arm are tried again with other seeds, and the choices are measured together.
    """
    if node is None or not tunable(view, node):
        return None
    finals = [one for one in view.kind("trial") if one.parent == node.id and one.seed != view.seed]
    if "trial" not in view.without and not view.limited:
        if not finals and (batch := _batch(view, node)) is not None:
            return batch
        if not finals and view.in_trial:
            return None
        wider = _wider(view, node) if view.stage == "tuning" and not finals else None
        final = _final(view, node, finals) if wider is None else None
        if wider is not None or final is not None:
            return wider or final
    return None if view.in_trial else conclusion(view, node)


def base(view: View) -> Node | None:
    """The node whose program stage 2 tunes: what a person wrote there, else what the stage before settled on."""
    written = [node for node in view.open if "improve" in (
        node.kind, view.nodes[node.parent].kind if node.kind == "debug" and node.parent else "")]
    return written[-1] if written else view.root


def _study_of(view: View, node: Node, arm: str) -> tuple[TrialResult, ...]:
    """The trials of an arm on the code that it has in a node."""
    return study_of(view.trials, arm, view.codes[node.id].get(arm, ""))


def tunable(view: View, node: Node) -> bool:
    """Whether trials can be measured of a node's program: it measures by cells, and an arm has a space."""
    return bool(view.plan.tuned_arms) and node.id in view.codes


def conclusion(view: View, node: Node) -> Expand | None:
    """The node that measures what was chosen for every arm; None where there is one, or nothing new was chosen."""
    if any(one.parent == node.id for one in view.kind("tune")):
        return None
    best = {arm: best_of(_study_of(view, node, arm), view.plan)
            for arm in view.plan.tuned_arms}
    chosen = tuple(Trial(arm=arm, number=one.number, setting=one.setting) for arm, one in best.items() if one)
    if not chosen or (view.stage != "tuning" and all(node.trials.get(one.arm, 0) == one.number for one in chosen)):
        return None
    return _with_settings(view, node, "tune", chosen)


FINALISTS, SEEDS = 3, 2
"""So many settings of an arm are tried again, with so many seeds: one seed alone may have been lucky."""
OTHER = 1000
"""Seeds of finals begin so far from the run's: replicates, which carry the claims, have others."""


def _final(view: View, node: Node, before: Sequence[Node]) -> Expand | None:
    """The best settings of each arm, to be tried with another seed; None where that is done, or studies are small."""
    if len(before) >= SEEDS:
        return None
    trials = tuple(
        Trial(arm=arm, number=one.number, setting=one.setting) for arm in view.plan.tuned_arms
        for study in (_study_of(view, node, arm),) if len(whole_of(study)) >= FEWEST
        for one in ranked(study, view.plan)[:FINALISTS])
    return _with_settings(view, node, "trial", trials, seed=view.seed + OTHER + len(before)) if trials else None


# --- who is owed what ------------------------------------------------------------------------------------------------


def _batch(view: View, node: Node) -> Expand | None:
    """The next settings of the arm that is furthest behind what it is owed."""
    owed = {arm: amount for arm, amount in owed_trials(view, node).items() if amount > 0}
    for arm in sorted(owed, key=lambda arm: -owed[arm]):
        batches = ceil(owed[arm] / BATCH)  # of equal size
        trials = next_trials(view, node, arm, count=ceil(owed[arm] / batches))
        if trials:
            return _with_settings(view, node, "trial", trials)
    return next((_with_settings(view, node, "trial", promoted) for arm in view.plan.tuned_arms
                 if (promoted := _promoted(view, node, arm))), None)


def _with_settings(
    view: View, node: Node, kind: NodeKind, trials: tuple[Trial, ...], *, seed: int | None = None,
) -> Expand:
    """A node that runs another one's program with these settings."""
    return Expand(stage=view.stage, kind=kind, parent=node.id, ordinal=len(view.kind(kind)),
                  seed=view.seed if seed is None else seed, trials=trials)


def owed_trials(view: View, node: Node) -> dict[str, float]:
    """Arm -> how many trials more it is to have on a node's program: its budget, and as much as the arm with most.

    In a later stage than tuning an arm is owed a budget of its own only where its code changed what it computes.
    """
    plan = view.plan
    budget = _budget(view, node) if view.stage == "tuning" else plan.tuning.budget
    need: dict[str, float] = {}
    cost: dict[str, float] = {}
    for arm in plan.tuned_arms:
        code = view.codes[node.id].get(arm, "")
        study = study_of(view.trials, arm, code)
        cost[arm] = _cost(view, arm)
        stale = view.stage == "tuning" or not tuned_on(view.trials, arm, node.trials.get(arm, 0), code, plan)
        lacking = budget - spent_on(study, plan) - _running(study) * cost[arm]
        need[arm] = max(0.0, lacking) if stale and lacking > SLACK * cost[arm] else 0.0
    given = {arm: amount + need[arm] for arm, amount in view.given.items()}
    most = max(given.values(), default=0.0)
    return {arm: max(need[arm], most / EQUAL - view.given[arm] if most > EQUAL * given[arm] else 0.0) / cost[arm]
            for arm in plan.tuned_arms}


def _budget(view: View, node: Node) -> float:
    """What every arm is to have in stage 2: the plan's budget, more of it for each dimension that was widened, and as
    long as an arm is still gaining more for all, up to `MOST` times the budget."""
    plan, budget = view.plan, view.plan.tuning.budget
    amount = budget * (1 + MORE * sum(one.stage == view.stage for one in view.extended.values()))
    studies = {arm: study for arm in plan.tuned_arms if (study := _study_of(view, node, arm)) and not (
        (every := settings_in(view.space_of(arm))) and len(every) <= len(study))}
    while amount < MOST * budget:
        parts = [_part(study, plan, amount - SLACK * _cost(view, arm)) for arm, study in studies.items()]
        if None in parts or not any(gaining(part, plan) for part in parts if part):
            break
        amount = min(amount + budget / STEPS, MOST * budget)
    return amount


def _part(study: Sequence[TrialResult], plan: DataPlan, amount: float) -> Sequence[TrialResult] | None:
    """The first trials of a study that take so much of the plan's currency; None where they are not all measured."""
    for end, one in enumerate(study, 1):
        if one.outcome == "running":
            return None
        if spent_on(study[:end], plan) >= amount:
            return study[:end]
    return None


def _cost(view: View, arm: str) -> float:
    """What a trial of an arm takes of the currency: 1, or the mean of its seconds so far (1 before there are any)."""
    if view.plan.tuning.currency == "trials":
        return 1.0
    known = [one.seconds for one in view.trials if one.arm == arm and one.outcome == "measured" and one.seconds]
    return sum(known) / len(known) if known else 1.0


def _running(study: Sequence[TrialResult]) -> int:
    known = {one.number for one in study if one.outcome != "running"}
    return len({one.number for one in study} - known)


def behind(view: View) -> str:
    """The baseline whose code is to be bettered next, since others had so many more looks; empty: none.

    One whose better version is on its way waits for it.
    """
    under_way = {view.bettered.get(node.id) for node in view.in_flight}
    most = max(view.given.values(), default=0.0)
    versions = max(view.versions.values(), default=0)
    late = [arm.name for arm in view.plan.arms if arm.role == "baseline" and arm.name in view.given
            and arm.name not in under_way
            and most > EQUAL * view.given[arm.name] and view.versions[arm.name] < versions]
    return min(late, key=lambda arm: view.given[arm], default="")


def _wider(view: View, node: Node) -> Extend | None:
    """A dimension that is widened, since the choice of an arm lies at its edge; each once."""
    for arm in view.plan.tuned_arms:
        best = best_of(_study_of(view, node, arm), view.plan)
        space = {one.name: one for one in view.space_of(arm)}
        for name in edges(best.setting, space.values()) if best is not None else ():
            if name not in view.extended and not space[name].closed and best is not None:
                low, high = _widened(space[name], best.setting[name])
                return Extend(stage=view.stage, dimension=name, low=low, high=high, arm=arm)
    return None


def _widened(one: Hyperparameter, value: object) -> tuple[float, float]:
    """The range with half its width more at the end where a value lies; no sign changes by it."""
    assert one.low is not None and one.high is not None and isinstance(value, int | float)
    if one.kind == "log":
        factor = (one.high / one.low) ** 0.5
        upper = log(value) > (log(one.low) + log(one.high)) / 2
        low, high = (one.low, one.high * factor) if upper else (one.low / factor, one.high)
    else:
        half = (one.high - one.low) / 2
        upper = value > (one.low + one.high) / 2
        low, high = (one.low, one.high + half) if upper else (one.low - half, one.high)
        low = max(low, min(one.low, 1.0 if one.kind == "integer" else 0.0)) if one.low >= 0 else low
    return (float(round(low)), float(round(high))) if one.kind == "integer" else (_short(low), _short(high))


# --- asking a study by number ---------------------------------------------------------------------------------------


def next_trials(view: View, node: Node, arm: str, *, count: int) -> tuple[Trial, ...]:
    """So many new settings of an arm, numbered on; fewer where its space has no more."""
    study = _study_of(view, node, arm)
    rungs = view.plan.tuning.rungs
    tried = list({one.number: one.setting for one in study}.values())
    made: list[Trial] = []
    first = max((number for name, number in view.numbers if name == arm), default=0) + 1
    for number in range(first, first + count):
        setting = ask(view, arm, study, number=number, tried=tried)
        if setting is None:
            break
        tried.append(setting)
        made.append(Trial(arm=arm, number=number, setting=setting, share=rungs[0] if rungs else 1.0))
    return tuple(made)


def ask(
    view: View, arm: str, study: Sequence[TrialResult], *, number: int, tried: Sequence[Setting],
) -> Setting | None:
    """The setting of a trial that was not tried before; None where none is found."""
    space, sampler = view.space_of(arm), view.plan.tuning.sampler
    if sampler == "gp" and view.plan.tuning.rungs:
        sampler = "tpe"  # which learns of trials that were cut short
    for attempt in range(TRIES):
        if sampler == "sobol":
            setting = _at(space, _sobol(len(space), _number(view.seed, arm), number + attempt * BATCH))
        elif sampler != "random" and len(tried) < STARTUP and not attempt:
            setting = _at(space, _spread(len(space), _number(view.seed, arm), max(0, len(tried) - 1)))
        else:
            known = () if sampler == "random" else _known(study, view.plan, space, tried)
            setting = _counting(_suggested(sampler, known, space, _number(view.seed, arm, number, attempt)), space)
        if setting not in tried:
            return setting
    return next((one for one in settings_in(space) or () if one not in tried), None)


def _number(*of: object) -> int:
    """A seed."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, of)).encode()).digest()[:4])


def _sobol(dimensions: int, seed: int, number: int) -> Sequence[float]:
    """A point of a scrambled Sobol sequence."""
    from scipy.stats import qmc  # half a second

    return qmc.Sobol(dimensions, rng=seed).fast_forward(number).random(1)[0].tolist()


def _spread(dimensions: int, seed: int, number: int) -> Sequence[float]:
    """One of the first points of a study, which lie in different parts of every range and have all options."""
    from scipy.stats import qmc  # half a second

    return qmc.LatinHypercube(dimensions, rng=seed).random(STARTUP - 1)[number].tolist()


def _at(space: Sequence[Hyperparameter], point: Sequence[float]) -> Setting:
    """The setting at a point of the unit cube."""
    found: Setting = {}
    for one, share in zip(space, point, strict=True):
        low, high = one.low or 0.0, one.high or 0.0
        if one.kind == "choice":
            found[one.name] = one.options[int(share * len(one.options))]
        elif one.kind == "integer":
            found[one.name] = int(low + share * (high - low + 1))
        else:
            found[one.name] = _short(low * (high / low) ** share if one.kind == "log" else low + share * (high - low))
    return _counting(found, space)


def _counting(setting: Setting, space: Sequence[Hyperparameter]) -> Setting:
    """Those of its dimensions that count for it."""
    found: Setting = {}
    for one in space:
        if not one.given or found.get(one.given) in one.among:
            found[one.name] = setting[one.name]
    return found


class _Known(NamedTuple):
    """What a sampler is told of a trial."""

    setting: tuple[tuple[str, Scalar], ...]
    score: float | None
    """None while it runs."""
    rung: int | None
    """At which it was cut short; None: it was measured in full."""


def _known(
    study: Sequence[TrialResult], plan: DataPlan, space: Sequence[Hyperparameter], tried: Sequence[Setting],
) -> tuple[_Known, ...]:
    """The trials of a study, and settings that were decided on since; what does not count stands at its default.

    What failed is as bad as the worst that did not. Far below the rest all are alike: one that diverged would make the
    others look equal.
    """
    score = scores(study, plan)
    middle, best = median(score.values() or (0.0,)), max(score.values(), default=0.0)
    least = max(min(score.values(), default=0.0), middle - FAR * (best - middle))
    numbers = dict.fromkeys(one.number for one in study)
    known: list[_Known] = []
    for last in ([one for one in study if one.number == number][-1] for number in numbers):
        value = least if last.outcome == "failed" else score.get((last.number, last.share))
        known.append(_Known(_whole(last.setting, space), None if value is None else max(value, least),
                            plan.tuning.rungs.index(last.share) if last.share < 1 else None))
    return (*known, *(_Known(_whole(one, space), None, None) for one in tried[len(numbers):]))


def _whole(setting: Setting, space: Sequence[Hyperparameter]) -> tuple[tuple[str, Scalar], ...]:
    return tuple((one.name, setting.get(one.name, one.default)) for one in space)


@lru_cache(maxsize=256)
def _suggested(sampler: str, known: tuple[_Known, ...], space: tuple[Hyperparameter, ...], seed: int) -> Setting:
    """What a sampler tries next, of four digits; decisions ask more than once."""
    trial = _study(sampler, known, space, seed=seed).ask(_distributions(space))
    return {one.name: trial.params[one.name] if one.low is None or one.high is None or one.kind == "integer" else
            min(max(_short(trial.params[one.name]), one.low), one.high) for one in space}


def _study(
    sampler: str = "random", known: Sequence[_Known] = (), space: Sequence[Hyperparameter] = (), *, seed: int = 0,
) -> Any:
    """An Optuna study, in memory, that was told of these trials."""
    optuna = _optuna()
    samplers: dict[str, Callable[[], Any]] = {
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True),
        "gp": lambda: optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP - 1),
    }
    made = optuna.create_study(direction="maximize", sampler=samplers[sampler](),
                               pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=THIRD))
    states = optuna.trial.TrialState
    for one in known:
        running, cut = one.score is None, one.score is not None and one.rung is not None
        made.add_trial(optuna.trial.create_trial(
            params=dict(one.setting), distributions=_distributions(space), value=None if cut else one.score,
            state=states.RUNNING if running else states.PRUNED if cut else states.COMPLETE,
            intermediate_values={THIRD ** (one.rung or 0): one.score} if cut else {}))
    return made


def _promoted(view: View, node: Node, arm: str) -> tuple[Trial, ...]:
    """The trials of an arm that go on from a rung to the next, as asynchronous successive halving has it."""
    shares = (*view.plan.tuning.rungs, 1.0)
    if len(shares) == 1:
        return ()
    results = _study_of(view, node, arm)
    known = scores(results, view.plan)
    study = _study()
    promoted: list[Trial] = []
    for number in dict.fromkeys(one.number for one in results if one.share < 1):
        own = {one.share: one for one in results if one.number == number}
        trial, last = study.ask(), -1
        goes_on = True
        for rung, share in enumerate(shares[:-1]):
            if (number, share) in known and goes_on:
                trial.report(known[number, share], THIRD ** rung)
                goes_on, last = not trial.should_prune(), rung
        if goes_on and last >= 0 and shares[last + 1] not in own:
            promoted.append(Trial(arm=arm, number=number, setting=own[shares[last]].setting, share=shares[last + 1]))
    return tuple(promoted[:BATCH])


def _distributions(space: Sequence[Hyperparameter]) -> dict[str, Any]:
    made = _optuna().distributions
    return {one.name: made.CategoricalDistribution(one.options) if one.kind == "choice" else
            made.IntDistribution(int(one.low or 0), int(one.high or 0)) if one.kind == "integer" else
            made.FloatDistribution(one.low or 0.0, one.high or 0.0, log=one.kind == "log")
            for one in space}


def _short(value: float) -> float:
    return float(f"{value:.4g}")


@cache
def _optuna() -> ModuleType:
    """Optuna, without its news on the terminal; imported when first asked for: most commands never tune."""
    import optuna  # half a second

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
