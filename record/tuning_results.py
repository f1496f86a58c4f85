"""Search spaces of arms, results of trials, chosen settings, and the tuning effort of each arm, computed from the log.

A trial is a setting of one arm, measured on one version of that arm's code, with the run's seed, on validation data.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import ceil, log
from operator import mul
from statistics import fmean, median

from pydantic import Field

from labwright.record.cell_status import CellStatus, compute_node_cells
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, HyperparameterSetting, MetricSpec, TuningPlan
from labwright.record.schema.decisions import ExpandTree, WidenDimension
from labwright.record.schema.hypotheses import PRECISE_SHARE
from labwright.record.schema.nodes import SELECTION_KINDS, Cell, Node, TrialResult

EDGE_SHARE = 0.1
"""A value lies at the edge of a range if it is closer to its end than this share of the range."""
MAX_LISTED_SETTINGS = 1000
"""Number of settings above which a space counts as infinite."""


class WidenedHyperparameter(Hyperparameter):
    """A hyperparameter whose range was widened during tuning."""

    planned: str
    """The range of the plan, as text."""
    arm: str
    """The arm whose chosen setting lay at the edge of the planned range."""

    def __str__(self) -> str:
        return f"{super().__str__()}; planned {self.planned}, widened since the best of {self.arm} lay at its edge"


def build_effective_plan(state: RunState, before: int | None = None) -> DataPlan:
    """Return the plan as prompts show it: with the ranges widened by the decisions before `before` (None: all)."""
    plan = state.search.data_plan
    assert plan is not None
    earlier = (one.action for k, one in state.decisions.items() if before is None or k < before)
    widened = {one.dimension: one for one in earlier if isinstance(one, WidenDimension)}

    def widen(one: Hyperparameter) -> Hyperparameter:
        if (wider := widened.get(one.name)) is None:
            return one
        ranges = {"low": wider.low, "high": wider.high, "planned": f"{one.low:g} to {one.high:g}", "arm": wider.arm}
        return WidenedHyperparameter.model_validate(one.model_dump() | ranges)

    return plan.model_copy(update={"space": tuple(map(widen, plan.space))}) if widened else plan


def widen_space(plan: DataPlan, arm: str, extended: Mapping[str, WidenDimension]) -> tuple[Hyperparameter, ...]:
    """Return the dimensions of an arm with their current ranges."""
    ranges = {name: {"low": one.low, "high": one.high} for name, one in extended.items()}
    space = plan.find_space(arm)
    return tuple(one.model_copy(update=ranges[one.name]) if one.name in ranges else one for one in space)


def find_edges(setting: HyperparameterSetting, space: Iterable[Hyperparameter]) -> tuple[str, ...]:
    """Return the dimensions whose chosen value is at an edge of their range."""
    return tuple(
        one.name
        for one in space
        if one.kind != "choice"
        and one.name in setting
        and (not EDGE_SHARE <= compute_position(one, setting[one.name]) <= 1 - EDGE_SHARE)
    )


def compute_position(dimension: Hyperparameter, value: object) -> float:
    """Return the position of a value in a range, from 0 to 1, on the scale of its dimension."""
    assert dimension.low is not None and dimension.high is not None and isinstance(value, int | float)
    low, high, at = (log(x) if dimension.kind == "log" else x for x in (dimension.low, dimension.high, value))
    return (at - low) / (high - low) if high > low else 0.5


def list_settings(space: Iterable[Hyperparameter]) -> list[HyperparameterSetting] | None:
    """Return every setting of a space; None if it is infinite: a range of numbers, or more than
    `MAX_LISTED_SETTINGS`."""
    settings: list[HyperparameterSetting] = [{}]
    for one in space:
        if one.kind in ("log", "linear"):
            return None
        values = one.options if one.kind == "choice" else range(int(one.low or 0), int(one.high or 0) + 1)
        if len(values) * len(settings) > MAX_LISTED_SETTINGS:
            return None
        made: list[HyperparameterSetting] = []
        for known in settings:
            is_active = not one.given or known.get(one.given) in one.among
            made += [known | {one.name: value} for value in values] if is_active else [known]
        settings = made
    return settings


MAX_EQUAL_RATIO = 1.2
"""Efforts count as equal if the largest is at most this multiple of the smallest."""


class TuningEffort(FrozenModel):
    """The tuning effort of an arm before any selection: measured versions of its code and settings."""

    arm: str
    trials: int = Field(description="settings that were tried, without the defaults")
    versions: int = Field(description="code versions that were measured with an existing setting")
    seconds: float = Field(description="compute time of trials and code versions, including failures")
    exhausted: bool = Field(description="whether every setting of its space was tried")

    @property
    def evaluation_count(self) -> int:
        """Number of trials and code versions."""
        return self.trials + self.versions

    def count_spent(self, tuning: TuningPlan) -> float:
        """Return the effort in the plan's currency."""
        return self.seconds if tuning.currency == "seconds" else float(self.evaluation_count)


class ChosenSetting(FrozenModel):
    """The setting of an arm in a node."""

    arm: str
    number: int
    setting: HyperparameterSetting
    code: str
    study: int = Field(description="settings fully measured on this code")
    stale: bool
    """Whether there are fewer trials than planned, and an earlier code version with enough trials gave other values."""
    gaining: bool
    """Whether it was found so late in its study that more trials may find a better setting."""
    edges: tuple[str, ...] = Field(description="dimensions whose chosen value is at an edge of their range")


def list_trial_cells(plan: DataPlan, arm: str, *, seed: int, number: int = 0, share: float = 1.0) -> tuple[Cell, ...]:
    """Return the cells to measure for one setting of an arm."""
    datasets, levels = plan.tuning.datasets or (plan.datasets[0].name,), plan.tuning.levels or plan.level_names
    return tuple(
        Cell(dataset=dataset, arm=arm, level=level, trial=number, share=share, seed=seed)
        for dataset, level in product(datasets, levels)
        if plan.has_cell(dataset, arm, level)
    )


def collect_trial_results(
    state: RunState, visible_decisions: Container[int] | None = None, *, before: int | None = None
) -> tuple[TrialResult, ...]:
    """Return every setting that was measured on some version of an arm's code, in decision order.

    For decisions not in `visible_decisions` (None: all are visible), only the settings to try are known; decisions
    from `before` on (None: the next one) are ignored.
    """
    assert state.search.data_plan is not None and state.started is not None
    found: dict[tuple[str, str, int, float], dict[int, TrialResult]] = {}
    for node in state.nodes.values():
        if node.kind not in SELECTION_KINDS or node.stage == "ablation":
            continue
        if before is not None and node.decision >= before:
            continue
        visible = node.is_finished if visible_decisions is None else node.decision in visible_decisions
        if visible and node.id in state.required_cells:
            results = state.search.trial_results.get(node.id) or compute_node_results(state, node)
        else:
            results = _list_pending_results(state, node)
        for one in results:
            by_seed = found.setdefault((one.arm, one.code, one.number, one.share), {})
            if node.seed not in by_seed or (by_seed[node.seed].outcome != "measured" and one.outcome == "measured"):
                by_seed[node.seed] = one
    return tuple(_merge_seeds(tuple(by_seed.values())) for by_seed in found.values())


def _merge_seeds(results: Sequence[TrialResult]) -> TrialResult:
    """Merge the results of one setting over its seeds: the means of the measured seeds."""
    measured = [one for one in results if one.outcome == "measured"] or results[:1]
    if len(measured) == 1:
        return measured[0]
    return measured[0].model_copy(
        update={
            "seeds": len(measured),
            "seconds": sum(one.seconds for one in measured),
            "values": {name: fmean(one.values[name] for one in measured) for name in measured[0].values},
        }
    )


def _list_pending_results(state: RunState, node: Node) -> Iterable[TrialResult]:
    """Yield the settings that a node will try, before its results are visible."""
    action = state.decisions[node.decision].action
    codes = state.required_cells[node.parent or ""].code if node.parent in state.required_cells else {}
    for one in action.trials if isinstance(action, ExpandTree) and action.kind == "trial" else ():
        code = codes.get(one.arm, "")
        yield TrialResult(**dict(one), node=node.id, kind="trial", outcome="running", values={}, seconds=0.0, code=code)


def index_trial_results(state: RunState, nodes: Iterable[Node]) -> None:
    """Keep the results of finished nodes in the state; those of other nodes are computed when asked for."""
    for node in nodes:
        state.search.trial_results.pop(node.id, None)
        selects = node.kind in SELECTION_KINDS and node.stage != "ablation"
        if selects and node.is_finished and node.id in state.required_cells and state.search.data_plan is not None:
            state.search.trial_results[node.id] = compute_node_results(state, node)


def compute_node_results(state: RunState, node: Node) -> tuple[TrialResult, ...]:
    """Return the result of each setting that a node with cells measured."""
    plan = state.search.data_plan
    assert plan is not None
    owed, known = state.required_cells[node.id], {one.cell: one for one in compute_node_cells(state, node.id)}
    compared, found = plan.compared_arms, list[TrialResult]()
    tried = dict.fromkeys((cell.arm, cell.trial, cell.share) for cell in owed.cells if cell.arm in compared)
    for arm, number, share in tried:
        cells = list_trial_cells(plan, arm, seed=node.seed, number=number, share=share)
        lines = [known[cell] for cell in cells if cell in known]
        values, by_dataset = _compute_cell_values(plan, lines), dict[str, list[float]]()
        complete = all(cell in values for cell in cells)
        for cell in cells if complete else ():
            by_dataset.setdefault(cell.dataset, []).append(values[cell])
        found.append(
            TrialResult(
                arm=arm,
                number=number,
                setting=state.search.find_setting(arm, number),
                code=owed.code.get(arm, ""),
                share=share,
                node=node.id,
                kind=node.kind,
                seconds=sum(one.seconds for one in lines),
                outcome="measured" if complete else "failed",
                values={dataset: fmean(each) for dataset, each in by_dataset.items()},
            )
        )
    return tuple(found)


def _compute_cell_values(plan: DataPlan, lines: Iterable[CellStatus]) -> dict[Cell, float]:
    name, worst = (metric := find_tuning_metric(plan)).name, metric.worst
    found: dict[Cell, float] = {}
    for one in lines:
        if one.has_diverged and worst is not None:
            found[one.cell] = worst
        elif one.outcome in ("measured", "taken over") and one.run is not None:
            found.update((one.cell, value.value) for value in one.run.measurements if value.name == name)
    return found


# --- studies: the trials of one arm on one version of its code --------------------------------------------------------


TrialStudies = Mapping[tuple[str, str], tuple[TrialResult, ...]]
"""(arm, sha256 of its code) -> its trials, in order of appearance."""


def group_studies(found: Iterable[TrialResult]) -> TrialStudies:
    """Group trials by arm and version of its code, ordered by number, partial shares first."""
    own: dict[tuple[str, str], list[TrialResult]] = {}
    for one in found:
        own.setdefault((one.arm, one.code), []).append(one)
    return {key: tuple(sorted(those, key=lambda one: (one.number, one.share))) for key, those in own.items()}


def compute_scores(study: Sequence[TrialResult], plan: DataPlan) -> dict[tuple[int, float], float]:
    """Return, by (number, share), the score of a trial relative to the best of its study, averaged over datasets.

    0 is the best on every dataset, -1 the lower limit; higher is better, regardless of the metric's direction. On each
    dataset the distance d to the best value, in units of the study's median distance, counts as d / (1 + d). Therefore
    a dataset's scale and zero do not matter, all datasets have equal weight, and a single outlier, such as diverged
    training, does not make the others look equal. Sources: the distance to the best, averaged over datasets (ADTM;
    Wistuba et al. 2018, Scalable Gaussian process-based transfer surrogates for hyperparameter optimization); scaled by
    the median instead of the range (output warping; Song et al. 2024, The Vizier Gaussian Process Bandit Algorithm).
    """
    sign = 1.0 if find_tuning_metric(plan).higher_is_better else -1.0
    measured = [one for one in study if one.outcome == "measured"]
    found: dict[tuple[int, float], list[float]] = {(one.number, one.share): [] for one in measured}
    for dataset in dict.fromkeys(dataset for one in measured for dataset in one.values):
        values = {(one.number, one.share): sign * one.values[dataset] for one in measured if dataset in one.values}
        best = max(values.values())
        scale = median([best - value for value in values.values() if value < best] or [1.0])
        for key, value in values.items():
            found[key].append(-(best - value) / (best - value + scale))
    return {key: fmean(each) for key, each in found.items()}


def rank_trials(study: Sequence[TrialResult], plan: DataPlan) -> list[TrialResult]:
    """Return the fully measured trials, best first: most seeds, then score, then lowest number."""
    known = compute_scores(study, plan)
    return sorted(select_full_trials(study), key=lambda one: (-one.seeds, -known[one.number, one.share], one.number))


def find_best(study: Sequence[TrialResult], plan: DataPlan) -> TrialResult | None:
    """Return the first trial of `rank_trials`; None if there is none."""
    return next(iter(rank_trials(study, plan)), None)


# --- effort of arms, and chosen settings ----------------------------------------------------------------------------


def compute_efforts(state: RunState, found: Sequence[TrialResult] | None = None) -> tuple[TuningEffort, ...]:
    """Return the effort of each tunable arm in the plan's order; trials count as soon as they are
    decided on.
    """
    plan = state.search.data_plan
    assert plan is not None and state.started is not None
    own: dict[str, list[TrialResult]] = {arm: [] for arm in plan.tuned_arms}
    for one in collect_trial_results(state) if found is None else found:
        own.setdefault(one.arm, []).append(one)
    return tuple(_compute_effort(state, plan, arm, own[arm]) for arm in plan.tuned_arms)


def _compute_effort(state: RunState, plan: DataPlan, arm: str, found: Iterable[TrialResult]) -> TuningEffort:
    looks = {(one.code, one.number): one for one in found if one.outcome != "failed" or one.kind == "trial"}
    trials = sum(one.kind == "trial" for one in looks.values())
    every = list_settings(widen_space(plan, arm, state.search.widened_dimensions))
    tried = {tuple(sorted(one.setting.items())) for one in looks.values()}
    return TuningEffort(
        arm=arm,
        trials=trials,
        versions=len(looks) - trials,
        seconds=state.search.selection_seconds.get(arm, 0.0),
        exhausted=every is not None and len(tried) >= len(every),
    )


def find_chosen(state: RunState, node: str, found: Sequence[TrialResult] | None = None) -> dict[str, ChosenSetting]:
    """Return, by arm, its setting in a node with cells, and whether it was tuned on that node's code."""
    plan, known = state.search.data_plan, state.nodes[node]
    assert plan is not None
    studies = group_studies(collect_trial_results(state) if found is None else found)
    made: dict[str, ChosenSetting] = {}
    for arm in plan.tuned_arms:
        code = state.required_cells[node].code.get(arm, "") if node in state.required_cells else ""
        number = known.trials.get(arm, 0)
        own = studies.get((arm, code), ())
        setting, study = state.search.find_setting(arm, number), find_tuned_study(studies, arm, number, code, plan)
        made[arm] = ChosenSetting(
            arm=arm,
            number=number,
            setting=setting,
            code=code,
            study=len(select_full_trials(own)),
            stale=not study,
            gaining=is_still_gaining(study, plan),
            edges=find_edges(setting, widen_space(plan, arm, state.search.widened_dimensions)),
        )
    return made


def select_full_trials(study: Iterable[TrialResult]) -> list[TrialResult]:
    """Return the fully measured trials of a study."""
    return [one for one in study if one.outcome == "measured" and one.share == 1]


def has_enough_trials(study: Sequence[TrialResult], plan: DataPlan) -> bool:
    """Return whether a study has the planned effort, within `MAX_EQUAL_RATIO`."""
    return compute_study_cost(study, plan) * MAX_EQUAL_RATIO >= plan.tuning.budget


LATE_SHARE = 1 / 3
"""Share of trials at the end of a study; if the best trial is among them, the study is still gaining."""
MIN_TRIALS_FOR_TREND = 8


def is_still_gaining(study: Sequence[TrialResult], plan: DataPlan) -> bool:
    """Return whether more trials may find a setting that matters: the best setting is in the last share of the
    trials and gained more than `find_decisive_gain`, if that is known. A gain due to a lucky seed counts as well."""
    best, full, decisive = find_best(study, plan), select_full_trials(study), find_decisive_gain(plan)
    earlier = full[: ceil(len(full) * (1 - LATE_SHARE))]
    if best is None or len(full) < MIN_TRIALS_FOR_TREND or best in earlier:
        return False
    sign = 1.0 if find_tuning_metric(plan).higher_is_better else -1.0
    peers = [one for one in earlier if one.seeds == best.seeds] or earlier
    gains = [sign * value - max(sign * one.values[dataset] for one in peers) for dataset, value in best.values.items()]
    return decisive is None or max(gains) > decisive


def find_decisive_gain(plan: DataPlan) -> float | None:
    """Return the gain of an arm below which tuning cannot change a conclusion; None if no margin is in its unit.

    It is the half-width at which sampling of fresh seeds ends, for the smallest margin of the confirmatory effects on
    the tuning metric, except ratios and slopes.
    """
    metric = find_tuning_metric(plan).name
    margins = [
        effect.smallest
        for _, effect in plan.confirmatory_effects
        if (effect.metric or plan.primary_metric.name) == metric
        and not any(sign in effect.estimand for sign in ("/", "change(", "slope("))
    ]
    return PRECISE_SHARE * min(margins) if margins else None


def find_tuning_metric(plan: DataPlan) -> MetricSpec:
    """Return the metric by which trials are compared."""
    return next((metric for metric in plan.metrics if metric.name == plan.tuning.metric), plan.primary_metric)


def compute_study_cost(study: Iterable[TrialResult], plan: DataPlan) -> float:
    """Return the cost of a study in the plan's currency, without running trials."""
    looked = [one for one in study if one.outcome != "running"]
    if plan.tuning.currency == "seconds":
        return sum(one.seconds for one in looked)
    return float(len({one.number for one in looked}))


def find_tuned_study(
    studies: TrialStudies, arm: str, number: int, code: str, plan: DataPlan
) -> tuple[TrialResult, ...]:
    """Return a study with enough trials for a setting; empty if there is none.

    This is the study on this version of the code, or on another version on which the setting gave exactly the same
    values, since the change then did not affect the arm's computation.
    """
    own = studies.get((arm, code), ())
    if has_enough_trials(own, plan):
        return own
    values = next((one.values for one in select_full_trials(own) if one.number == number), None)
    for (name, other), study in studies.items():
        same = any((one.number, one.values) == (number, values) for one in select_full_trials(study))
        if name == arm and other != code and same and has_enough_trials(study, plan):
            return study
    return ()


@lru_cache(maxsize=64)
def compute_expected_best(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return, for each k, the expected best of k trials drawn at random from these. Higher is better.

    Source: Dodge et al. 2019, Show Your Work: Improved Reporting of Experimental Results, section 3.
    """
    ordered, n = sorted(values), len(values)
    shares = [i / n for i in range(1, n)]
    gaps, found = [high - low for low, high in pairwise(ordered)], list[float]()
    for _ in ordered:  # the largest value, less each gap below it times the chance that all k draws are below the gap
        gaps = list(map(mul, gaps, shares))
        found.append(ordered[-1] - sum(gaps))
    return tuple(found)
