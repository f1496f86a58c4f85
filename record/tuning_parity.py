"""Report on the tuning of all arms, computed from the log.

Paper, inspector and exports use the same report. Values are from validation data; seconds are compute time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from pydantic import Field

from labwright.record.cell_status import CellStatus, compute_all_cells
from labwright.record.claims.estimates import find_trusted_replicates, find_winner
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.cell import TrainingCounts
from labwright.record.schema.data_plan import MetricSpec
from labwright.record.schema.decisions import WidenDimension
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import TrialResult
from labwright.record.schema.tuning import Hyperparameter, TuningPlan
from labwright.record.search_space import widen_space
from labwright.record.tuning_results import (
    MAX_EQUAL_RATIO,
    ChosenSetting,
    TuningEffort,
    collect_trial_results,
    compute_efforts,
    compute_expected_best,
    find_chosen,
    find_tuning_metric,
)


class ArmTuningReport(FrozenModel):
    """The effort spent on one arm, its chosen setting, and the expected best value."""

    effort: TuningEffort
    in_trials: float | None = Field(
        description="trials and code versions, as a multiple of the count of the arm with the fewest; None if that "
        "count is 0"
    )
    in_seconds: float | None
    space: tuple[Hyperparameter, ...] = Field(description="final ranges, possibly widened")
    chosen: ChosenSetting | None = Field(
        description="setting in the node that the paper reports; None before the paper has a node"
    )
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
        """Arms whose effort is below the maximum by more than `MAX_EQUAL_RATIO`, in the plan's currency."""
        given = {one.arm: compute_spent(one.effort, self.tuning) for one in self.arms}
        return tuple(arm for arm, amount in given.items() if amount * MAX_EQUAL_RATIO < max(given.values()))


def compute_spent(effort: TuningEffort, tuning: TuningPlan) -> float:
    """Return the effort spent on an arm in the plan's currency."""
    return effort.seconds if tuning.currency == "seconds" else effort.evaluation_count


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
    arms: list[ArmTuningReport] = []
    for one, trials, seconds in zip(
        given,
        _compute_ratios([one.evaluation_count for one in given]),
        _compute_ratios([one.seconds for one in given]),
        strict=True,
    ):
        sign = 1.0 if metric.higher_is_better else -1.0
        values = [sign * value for value in _collect_study_scores(found, one.arm, dataset)]
        arms.append(
            ArmTuningReport(
                effort=one,
                in_trials=trials,
                in_seconds=seconds,
                space=widen_space(plan, one.arm, state.search.widened_dimensions),
                chosen=settings.get(one.arm),
                best=sign * max(values) if values else None,
                curve=tuple(sign * value for value in compute_expected_best(tuple(values))),
            )
        )
    return TuningReport(
        metric=metric,
        dataset=dataset,
        tuning=plan.tuning,
        arms=tuple(arms),
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
        if one.arm == arm and one.share == 1 and dataset in one.values:
            by_code.setdefault(one.code, []).append(one.values[dataset])
    return max(reversed(by_code.values()), key=len) if by_code else []


def _compute_ratios(given: Sequence[float]) -> list[float | None]:
    least = min(given, default=0.0)
    return [one / least if least else None for one in given]


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
    cells = compute_all_cells(state)
    lines = [
        one
        for node in find_trusted_replicates(state, best)
        for one in cells.get(node.id, ())
        if one.cell.dataset == plan.datasets[0].name
    ]
    found = {arm: [one for one in lines if one.cell.measured_arm == arm] for arm in plan.compared_arms}
    return tuple(parity for arm, own in found.items() if (parity := _compute_arm_compute(arm, own)) is not None)


def _compute_arm_compute(arm: str, lines: Iterable[CellStatus]) -> ArmCompute | None:
    runs = [one.run for one in lines if one.outcome in ("measured", "taken over") and one.run is not None]
    if not runs:
        return None
    counts = [run.training or TrainingCounts() for run in runs]
    return ArmCompute(
        arm=arm,
        cells=len(runs),
        seconds=fmean(run.seconds for run in runs),
        steps=_compute_mean(one.steps for one in counts),
        rows=_compute_mean(one.rows for one in counts),
        parameters=_compute_mean(one.parameters for one in counts),
    )


def _compute_mean(values: Iterable[int | None]) -> float | None:
    """Return the mean if every cell has a count; otherwise None."""
    found = [*values]
    known = [value for value in found if value is not None]
    return fmean(known) if len(known) == len(found) else None


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
