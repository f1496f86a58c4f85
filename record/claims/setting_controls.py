"""Whether the settings of two arms, each tuned for its own, may explain their difference.

A control measures an arm at the setting of the arm that a confirmatory hypothesis compares it with
(`record.estimands`). It agrees if its difference from that other arm has the direction that the two arms have at
their own settings: by the interval of the registered effect with the same values, otherwise by a 95 % interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose
from statistics import fmean
from typing import NamedTuple

from pydantic import Field

from labwright.record.ablation_results import collect_ablation_results
from labwright.record.cell_status import compute_all_cells
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import find_trusted_replicates, find_winner
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import find_registered_pair
from labwright.record.estimands import CellRef, find_effect_metric, find_swapped_arms, list_swapped_cells
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, MetricSpec, TuningPlan, parse_arm
from labwright.record.schema.decisions import WidenDimension
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.nodes import CellRun, TrainingCounts, TrialResult
from labwright.record.tuning_results import (
    MAX_EQUAL_RATIO,
    ChosenSetting,
    TuningEffort,
    collect_trial_results,
    compute_efforts,
    compute_expected_best,
    find_chosen,
    find_tuning_metric,
    widen_space,
)


class RegisteredEstimate(NamedTuple):
    """The registered effect that is the same difference, or the reverse one (`sign` -1), with the difference's interval
    according to it."""

    key: str
    sign: int
    low: float | None
    high: float | None


class OpenSetting(NamedTuple):
    """Two arms whose difference their settings may explain: a control that disagrees, or that is registered and has an
    open sign, as at their own settings; None: no control was measured."""

    arm: str
    other: str
    control: ClaimDifference | None
    registered: RegisteredEstimate | None = None
    agrees: bool = False


def find_open_settings(state: RunState, differences: Sequence[ClaimDifference]) -> tuple[OpenSetting, ...]:
    """Return the pairs of arms of confirmatory hypotheses with different settings whose controls of the primary metric
    disagree, are registered and decide nothing, or were not measured."""
    plan, lock = state.search.data_plan, state.search.current_lock
    if plan is None or lock is None:
        return ()
    order, found = [one.name for one in plan.arms], dict[OpenSetting, None]()
    known, controls = find_registered_estimates(plan, differences, decide_hypotheses(state)), find_controls(state)
    compared = {
        (one.dataset, *controls[one.arm], one.level): (one, same)
        for one, same in _compare_controls(plan, differences, known, controls)
    }
    pairs = {frozenset(key[1:3]) for key in compared}
    for cell in list_swapped_cells(plan, trials=lock.trials):
        if state.search.find_cell_setting(cell) != state.search.find_setting(cell.arm, cell.trial):
            arms = (cell.arm, cell.setting_of)
            control, agrees = compared.get((cell.dataset, *arms, cell.level), (None, False))
            if control is None and frozenset(arms) in pairs:
                continue  # they were compared at the other setting
            arm, other = arms if control else sorted(arms, key=order.index)
            registered = known.get(control.key) if control else None
            if not agrees or (control and registered and not control.excludes_zero):
                found[OpenSetting(arm, other, control, registered, agrees)] = None
    return tuple(found)


def find_controls(state: RunState) -> dict[str, tuple[str, str]]:
    """Return the arms at the setting of another, each with the arm that it is and that other, by name; also ablations
    that turn the method into a baseline."""
    plan = state.search.data_plan
    if plan is None:
        return {}
    made = [one for one in collect_ablation_results(state) if one.outcome == "measured" and one.ablation.same_as]
    made_arms = {arm: (one.ablation.same_as, plan.find_tuned_arm(arm)) for one in made for arm in one.arms}
    return find_swapped_arms(plan) | made_arms


def find_agreeing_controls(
    plan: DataPlan, differences: Sequence[ClaimDifference], decisions: Sequence[HypothesisDecision]
) -> list[ClaimDifference]:
    """Return the differences of controls that agree with those of the arms at their own settings."""
    known = find_registered_estimates(plan, differences, decisions)
    return [one for one, agrees in _compare_controls(plan, differences, known, find_swapped_arms(plan)) if agrees]


def find_registered_estimates(
    plan: DataPlan, differences: Sequence[ClaimDifference], decisions: Sequence[HypothesisDecision]
) -> dict[str, RegisteredEstimate]:
    """Return, by the key of a difference, the registered effect with the same values: it is the same comparison, also
    if the plan has an arm of its own for a control."""
    found: dict[str, RegisteredEstimate] = {}
    parts = [(f"{one.key}/{number}", part) for one in decisions for number, part in enumerate(one.parts, 1)]
    for key, part in parts:
        pair, values = find_registered_pair(part.effect, plan), dict(zip(part.seeds, part.values, strict=False))
        if pair is None or not values:
            continue
        metric = find_effect_metric(part.effect, plan).name
        for one in differences:
            other = CellRef(one.dataset, parse_arm(one.other), one.level)
            rows = dict(zip(one.seeds, one.values, strict=True))
            if other not in pair or metric != one.name or not values.keys() <= rows.keys():
                continue  # after the look that decided a claim, its cells may have had further planned seeds
            sign = 1 if pair[1] == other else -1
            if all(isclose(sign * value, rows[seed], abs_tol=1e-9) for seed, value in values.items()):
                low, high = (None if end is None else sign * end for end in (part.low, part.high)[::sign])
                found.setdefault(one.key, RegisteredEstimate(key, sign, low, high))
    return found


def _compare_controls(
    plan: DataPlan,
    differences: Sequence[ClaimDifference],
    known: Mapping[str, RegisteredEstimate],
    controls: Mapping[str, tuple[str, str]],
) -> Iterator[tuple[ClaimDifference, bool]]:
    """Yield the difference of each control from the arm whose setting it has, and whether it agrees. A registered
    effect's interval counts where there is one."""
    ends = {key: {"low": one.low, "high": one.high} for key, one in known.items()}
    differences = [one.model_copy(update=ends.get(one.key)) for one in differences]
    primary = [one for one in differences if one.name == plan.primary_metric.name]
    own = {(one.dataset, one.level, one.arm, parse_arm(one.other)): one for one in primary}
    for one in own.values():
        if one.arm in controls and parse_arm(one.other) == controls[one.arm][1]:
            arm, other = controls[one.arm]
            same, reverse = (own.get((one.dataset, one.level, *pair)) for pair in ((arm, other), (other, arm)))
            direction = same.sign if same is not None else -reverse.sign if reverse is not None else None
            yield one, direction == one.sign


# Report on the tuning of all arms, computed from the log. Paper, inspector and exports use the same report. Values
# are from validation data; seconds are compute time.


class ArmTuningReport(FrozenModel):
    """The effort spent on one arm, its chosen setting, and the expected best value."""

    effort: TuningEffort
    in_trials: float | None
    """Trials and code versions, as a multiple of the count of the arm with the fewest; None if that count is 0."""
    in_seconds: float | None
    space: tuple[Hyperparameter, ...] = Field(description="final ranges, possibly widened")
    chosen: ChosenSetting | None
    """Setting in the node that the paper reports; None before the paper has a node."""
    best: float | None = Field(description="best value of `curve`'s trials, in the metric's own unit")
    curve: tuple[float, ...] = Field(description="expected best of k trials, for k from 1, in the metric's own unit")

    @property
    def arm(self) -> str:
        return self.effort.arm


class TuningReport(FrozenModel):
    """The tuning of the arms of a run. `curve` and `best` are means over the levels on `dataset`."""

    metric: MetricSpec
    dataset: str
    tuning: TuningPlan
    arms: tuple[ArmTuningReport, ...]
    untuned: dict[str, str] = Field(description="compared arm without hyperparameters -> reason given in the plan")
    extended: tuple[WidenDimension, ...] = Field(description="dimensions that were widened")
    trials: tuple[TrialResult, ...]

    @property
    def underfunded_arms(self) -> tuple[str, ...]:
        """Arms whose effort is below the maximum by more than `MAX_EQUAL_RATIO`."""
        given = {one.arm: one.effort.evaluation_count for one in self.arms}
        return tuple(arm for arm, amount in given.items() if amount * MAX_EQUAL_RATIO < max(given.values()))


def build_tuning_report(state: RunState) -> TuningReport | None:
    """Report how the arms were tuned; None if nothing is tuned (a plan without spaces, or plain scripts)."""
    plan = state.search.data_plan
    if plan is None or not plan.tuned_arms or not state.required_cells:
        return None
    found, best = collect_trial_results(state), find_winner(state)
    given = compute_efforts(state, found)
    settings = find_chosen(state, best, found) if best in state.required_cells else {}
    metric = find_tuning_metric(plan)
    main = plan.datasets[0].name
    dataset = main if main in (plan.tuning.datasets or (main,)) else plan.tuning.datasets[0]
    sign = 1.0 if metric.higher_is_better else -1.0
    trials, seconds = ([getattr(one, name) for one in given] for name in ("evaluation_count", "seconds"))

    def report_arm(one: TuningEffort) -> ArmTuningReport:
        values = [sign * value for value in _collect_study_scores(found, one.arm, dataset)]
        return ArmTuningReport(
            effort=one,
            in_trials=one.evaluation_count / min(trials) if min(trials) else None,
            in_seconds=one.seconds / min(seconds) if min(seconds) else None,
            space=widen_space(plan, one.arm, state.search.widened_dimensions),
            chosen=settings.get(one.arm),
            best=sign * max(values) if values else None,
            curve=tuple(sign * value for value in compute_expected_best(tuple(values))),
        )

    return TuningReport(
        metric=metric,
        dataset=dataset,
        tuning=plan.tuning,
        arms=tuple(map(report_arm, given)),
        extended=tuple(state.search.widened_dimensions.values()),
        untuned={
            one.name: one.untuned for one in plan.arms if one.role != "ablation" and one.name not in plan.tuned_arms
        },
        trials=found,
    )


def _collect_study_scores(found: Iterable[TrialResult], arm: str, dataset: str) -> list[float]:
    """Return the scores of an arm's fully measured trials on the version of its code that has the most of them."""
    by_code: dict[str, list[float]] = {}
    for one in found:
        if one.arm == arm and dataset in one.values:
            by_code.setdefault(one.code, []).append(one.values[dataset])
    return max(reversed(by_code.values()), key=len) if by_code else []


# --- compute of the compared arms ------------------------------------------------------------------------------------

PARITY_QUANTITIES = ("steps", "rows", "parameters", "seconds")
MIN_COMPARED_SECONDS = 1.0
"""Seconds per cell from which the compute time of two arms is compared."""


class ArmCompute(FrozenModel):
    """Compute used by an arm's cells in the reported replicates, on the main dataset: means over `cells`."""

    arm: str
    cells: int
    steps: float | None = Field(description="optimizer steps; None: not observed")
    rows: float | None = Field(description="training rows, including repeats")
    parameters: float | None = Field(description="trained parameters")
    seconds: float


def compute_parity(state: RunState) -> tuple[ArmCompute, ...]:
    """Return the compute of the compared arms, as their processes reported it; empty if no replicate measures cell
    by cell.
    """
    best, plan = find_winner(state), state.search.data_plan
    if best is None or plan is None:
        return ()
    cells, main = compute_all_cells(state), plan.datasets[0].name
    nodes = [node.id for node in find_trusted_replicates(state, best)]
    lines = [one for node in nodes for one in cells.get(node, ()) if one.cell.dataset == main]
    measured = [one for one in lines if one.outcome in ("measured", "taken over")]
    runs = {
        arm: [one.run for one in measured if one.cell.measured_arm == arm and one.run is not None]
        for arm in plan.compared_arms
    }
    return tuple(_compute_arm_compute(arm, own) for arm, own in runs.items() if own)


def _compute_arm_compute(arm: str, runs: Sequence[CellRun]) -> ArmCompute:
    counts = [run.training or TrainingCounts() for run in runs]

    def mean(values: Sequence[int | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fmean(known) if len(known) == len(values) else None

    return ArmCompute(
        arm=arm,
        cells=len(runs),
        seconds=fmean(run.seconds for run in runs),
        steps=mean([one.steps for one in counts]),
        rows=mean([one.rows for one in counts]),
        parameters=mean([one.parameters for one in counts]),
    )


def find_disparities(state: RunState, rows: Sequence[ArmCompute]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return (method, baseline, quantities that differ by more than `MAX_EQUAL_RATIO`), for pairs with differences."""
    roles = {one.name: one.role for one in state.search.data_plan.arms} if state.search.data_plan else {}
    found = (
        (a.arm, b.arm, tuple(name for name in PARITY_QUANTITIES if _is_unequal(a, b, name)))
        for a in rows
        for b in rows
        if (roles.get(a.arm), roles.get(b.arm)) == ("method", "baseline")
    )
    return tuple(one for one in found if one[2])


def _is_unequal(one: ArmCompute, other: ArmCompute, name: str) -> bool:
    """Return whether a quantity differs; seconds of short cells never do, since most of their time is the start of a
    process.
    """
    a, b = getattr(one, name), getattr(other, name)
    if a is None or b is None or (name == "seconds" and max(a, b) < MIN_COMPARED_SECONDS):
        return False
    return max(a, b) > MAX_EQUAL_RATIO * min(a, b)
