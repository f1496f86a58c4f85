"""Sample settings of one arm from a study over its trials, by the number of the next trial.

The study is rebuilt in memory from the record each time, so equal snapshots give equal settings; in `ticket` order they
do not depend on the number of workers.

Source: Rasmussen and Williams 2006 (Gaussian processes) and Bergstra et al. 2011 (TPE), as implemented in Optuna; McKay
et al. 1979 (Latin hypercubes).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import floor
from random import Random
from statistics import median
from types import ModuleType
from typing import Any

from labwright.record.schema import Scalar
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, HyperparameterSetting, select_active
from labwright.record.schema.nodes import TrialResult
from labwright.record.tuning_results import compute_scores, list_settings
from labwright.search.stage_snapshot import StageSnapshot

BATCH_SIZE = 4
"""Number of settings of one arm per node: few enough for later settings to learn from them, and enough to share a
kernel."""
STARTUP_TRIALS = 5
"""Number of trials of an arm, including the defaults, that cover its space before a sampler uses their results."""
MAX_GAP_BELOW_MEDIAN = 3
"""Scores are clipped if their distance below the median exceeds this many times the distance of the best score above
it."""
MAX_SAMPLING_TRIES = 10


def sample_setting(
    view: StageSnapshot, arm: str, study: Sequence[TrialResult], *, number: int, tried: Sequence[HyperparameterSetting]
) -> HyperparameterSetting | None:
    """Return a setting that has not been tried before; None if none is found.

    Arms with equal spaces and trial results get equal settings.
    """
    space, sampler = view.find_space(arm), view.plan.tuning.sampler
    for attempt in range(MAX_SAMPLING_TRIES):
        if sampler == "sobol":
            from scipy.stats import qmc  # half a second

            sequence = qmc.Sobol(len(space), rng=view.seed).fast_forward(number + attempt * BATCH_SIZE)
            setting = _map_point(space, sequence.random(1)[0].tolist())
        elif sampler != "random" and len(tried) < STARTUP_TRIALS and not attempt:
            setting = _map_point(space, _sample_latin_hypercube(space, view.seed, max(0, len(tried) - 1)))
        else:
            known = () if sampler == "random" else _collect_known(study, view.plan, space, tried)
            setting = select_active(space, _suggest(sampler, known, space, _hash_seed(view.seed, number, attempt)))
        if setting not in tried:
            return setting
    return next((one for one in list_settings(space) or () if one not in tried), None)


def _hash_seed(*of: object) -> int:
    """Hash values into a seed."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, of)).encode()).digest()[:4])


def _sample_latin_hypercube(space: Sequence[Hyperparameter], seed: int, number: int) -> Sequence[float]:
    """Return one of the first points of a study, which form a Latin hypercube and so cover every range and all
    options.

    Arms that share a dimension start with the same values for it.
    """
    point: list[float] = []
    for one in space:
        rng = Random(_hash_seed(seed, one.name))
        parts = rng.sample(range(STARTUP_TRIALS - 1), STARTUP_TRIALS - 1)
        point.append((parts[number] + [rng.random() for _ in parts][number]) / len(parts))
    return point


def _map_point(space: Sequence[Hyperparameter], point: Sequence[float]) -> HyperparameterSetting:
    """Return the setting at a point of the unit cube."""
    found: HyperparameterSetting = {}
    for one, share in zip(space, point, strict=True):
        low, high = one.low or 0.0, one.high or 0.0
        if one.kind == "choice":
            found[one.name] = one.options[int(share * len(one.options))]
        elif one.kind == "integer":
            found[one.name] = floor(low + share * (high - low + 1))
        else:
            value = low * (high / low) ** share if one.kind == "log" else low + share * (high - low)
            found[one.name] = _round_in_range(value, one)
    return select_active(space, found)


KnownTrial = tuple[tuple[tuple[str, Scalar], ...], float | None]
"""A setting as seen by a sampler, and its score; None while it is running."""


def _collect_known(
    study: Sequence[TrialResult],
    plan: DataPlan,
    space: Sequence[Hyperparameter],
    tried: Sequence[HyperparameterSetting],
) -> tuple[KnownTrial, ...]:
    """Return the trials of a study, and settings decided on since; inactive dimensions have their defaults.

    Failed trials get the score of the worst successful one. Scores far below the others are clipped, since one diverged
    trial would make all other trials look equal.
    """
    score = compute_scores(study, plan)
    middle, best = median(score.values() or (0.0,)), max(score.values(), default=0.0)
    least = max(min(score.values(), default=0.0), middle - MAX_GAP_BELOW_MEDIAN * (best - middle))
    values = (least if one.outcome == "failed" else score.get(one.number) for one in study)
    known = (
        (_fill_defaults(one.setting, space), None if value is None else max(value, least))
        for one, value in zip(study, values, strict=True)
    )
    return (*known, *((_fill_defaults(one, space), None) for one in tried[len(study) :]))


def _fill_defaults(setting: HyperparameterSetting, space: Sequence[Hyperparameter]) -> tuple[tuple[str, Scalar], ...]:
    return tuple((one.name, setting.get(one.name, one.default)) for one in space)


@lru_cache(maxsize=256)
def _suggest(
    sampler: str, known: tuple[KnownTrial, ...], space: tuple[Hyperparameter, ...], seed: int
) -> HyperparameterSetting:
    """Return the next setting of a sampler, rounded to four digits; cached since decisions ask repeatedly."""
    optuna, distributions = _import_optuna(), _build_distributions(space)
    samplers: dict[str, Callable[[], Any]] = {
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True),
        "gp": lambda: optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS - 1),
    }
    study, states = optuna.create_study(direction="maximize", sampler=samplers[sampler]()), optuna.trial.TrialState
    for setting, score in known:
        state = states.RUNNING if score is None else states.COMPLETE
        params = dict(setting)
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, state=state, value=score))
    trial = study.ask(distributions)
    return {
        one.name: trial.params[one.name]
        if one.kind in ("choice", "integer")
        else _round_in_range(trial.params[one.name], one)
        for one in space
    }


def _build_distributions(space: Sequence[Hyperparameter]) -> dict[str, Any]:
    made = _import_optuna().distributions
    kinds: dict[str, Callable[[Hyperparameter], Any]] = {
        "choice": lambda one: made.CategoricalDistribution(one.options),
        "integer": lambda one: made.IntDistribution(int(one.low or 0), int(one.high or 0)),
        "linear": lambda one: made.FloatDistribution(one.low or 0.0, one.high or 0.0),
        "log": lambda one: made.FloatDistribution(one.low or 0.0, one.high or 0.0, log=True),
    }
    return {one.name: kinds[one.kind](one) for one in space}


def round_four_digits(value: float) -> float:
    """Round to four significant digits, since settings are printed unchanged."""
    return float(f"{value:.4g}")


def _round_in_range(value: float, one: Hyperparameter) -> float:
    """Round within the range, whose ends may have more digits."""
    assert one.low is not None and one.high is not None
    return min(max(round_four_digits(value), one.low), one.high)


@cache
def _import_optuna() -> ModuleType:
    """Import Optuna on first use, since most commands never tune, and silence its log."""
    import optuna  # half a second

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
