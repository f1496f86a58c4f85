"""What every arm was given and what came of it, side by side: one account of a run's tuning, computed from the log.

Paper, inspector and exports show the same account. Values are of validation data; seconds are of computing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from pydantic import Field

from labwright.record.cells import CellStatus, all_cells
from labwright.record.claims.means import trusted_replicates, winner
from labwright.record.fold.state import RunState
from labwright.record.nouns.cells import Training
from labwright.record.nouns.data import MetricSpec
from labwright.record.nouns.decisions import Extend
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.tuning import Hyperparameter, Tuning
from labwright.record.spaces import widened
from labwright.record.tuning import EQUAL, Chosen, Effort, TrialResult, chosen, efforts, expected_best, results


class ArmTuning(Frozen):
    """What one arm was given, what was chosen for it, and what it can be expected to reach."""

    effort: Effort
    in_trials: float | None = Field(
        description="trials and versions of code, as a multiple of the arm with fewest; None where that one has none"
    )
    in_seconds: float | None
    space: tuple[Hyperparameter, ...] = Field(description="as wide as it was in the end")
    chosen: Chosen | None = Field(description="in the node that the paper reports; None before there is one")
    best: float | None = Field(description="of `curve`'s trials, in the metric's own unit")
    curve: tuple[float, ...] = Field(description="expected best of k trials, for k from 1, in the metric's own unit")

    @property
    def arm(self) -> str:
        return self.effort.arm


class Account(Frozen):
    """How the arms of a run were tuned. `curve` and `best` are means over the levels on `dataset`."""

    metric: MetricSpec
    dataset: str
    tuning: Tuning
    arms: tuple[ArmTuning, ...]
    untuned: dict[str, str] = Field(description="compared arm without hyperparameters -> why, as the plan says")
    extended: tuple[Extend, ...] = Field(description="dimensions that were widened")
    trials: tuple[TrialResult, ...]

    @property
    def unequal(self) -> tuple[str, ...]:
        """The arms that were given less than the most, beyond `EQUAL`, in the plan's currency."""
        given = {one.arm: spent(one.effort, self.tuning) for one in self.arms}
        return tuple(arm for arm, amount in given.items() if amount * EQUAL < max(given.values()))


def spent(effort: Effort, tuning: Tuning) -> float:
    """What an arm was given in the plan's currency."""
    return effort.seconds if tuning.currency == "seconds" else effort.looks


def account_of(state: RunState) -> Account | None:
    """How the arms were tuned; None where the program tunes nothing: a plan without spaces, or plain scripts."""
    plan = state.data_plan
    if plan is None or not plan.tuned_arms or not state.owed:
        return None
    found, best = results(state), winner(state)
    given = efforts(state, found)
    settings = chosen(state, best, found) if best in state.owed else {}
    metric = next((one for one in plan.metrics if one.name == plan.tuning.metric), plan.primary)
    main = plan.datasets[0].name
    dataset = main if main in (plan.tuning.datasets or (main,)) else plan.tuning.datasets[0]
    arms: list[ArmTuning] = []
    for one, trials, seconds in zip(
        given, _ratios([one.looks for one in given]), _ratios([one.seconds for one in given]), strict=True
    ):
        sign = 1.0 if metric.higher_is_better else -1.0
        values = [sign * value for value in _study(found, one.arm, dataset)]
        arms.append(
            ArmTuning(
                effort=one,
                in_trials=trials,
                in_seconds=seconds,
                space=widened(plan, one.arm, state.extended),
                chosen=settings.get(one.arm),
                best=sign * max(values) if values else None,
                curve=tuple(sign * value for value in expected_best(tuple(values))),
            )
        )
    return Account(
        metric=metric,
        dataset=dataset,
        tuning=plan.tuning,
        arms=tuple(arms),
        extended=tuple(state.extended.values()),
        untuned={
            one.name: one.untuned for one in plan.arms if one.role != "ablation" and one.name not in plan.tuned_arms
        },
        trials=found,
    )


def _study(found: Iterable[TrialResult], arm: str, dataset: str) -> list[float]:
    """What trials of an arm came to that were measured in full, on the version of its code that has most of them."""
    by_code: dict[str, list[float]] = {}
    for one in found:
        if one.arm == arm and one.share == 1 and dataset in one.values:
            by_code.setdefault(one.code, []).append(one.values[dataset])
    return max(reversed(by_code.values()), key=len) if by_code else []


def _ratios(given: Sequence[float]) -> list[float | None]:
    least = min(given, default=0.0)
    return [one / least if least else None for one in given]


# --- what the compared arms took, side by side ----------------------------------------------------------------------

QUANTITIES = ("steps", "rows", "parameters", "seconds")


class Parity(Frozen):
    """What an arm's cells took in the replicates that the paper reports, on the main dataset: means over `cells`."""

    arm: str
    cells: int
    steps: float | None = Field(description="of the optimizer; None where the program saw none")
    rows: float | None = Field(description="that training saw, each as often as it saw it")
    parameters: float | None = Field(description="that were trained")
    seconds: float


def parity_of(state: RunState) -> tuple[Parity, ...]:
    """The compared arms side by side, as the sandbox counted; empty where no replicate measures by cells."""
    best, plan = winner(state), state.data_plan
    if best is None or plan is None:
        return ()
    cells = all_cells(state)
    lines = [
        one
        for node in trusted_replicates(state, best)
        for one in cells.get(node.id, ())
        if one.cell.dataset == plan.datasets[0].name
    ]
    found = {arm: [one for one in lines if one.cell.arm == arm] for arm in plan.compared}
    return tuple(parity for arm, own in found.items() if (parity := _parity(arm, own)) is not None)


def _parity(arm: str, lines: Iterable[CellStatus]) -> Parity | None:
    runs = [one.run for one in lines if one.outcome in ("measured", "taken over") and one.run is not None]
    if not runs:
        return None
    counts = [run.training or Training() for run in runs]
    return Parity(
        arm=arm,
        cells=len(runs),
        seconds=fmean(run.seconds for run in runs),
        steps=_mean(one.steps for one in counts),
        rows=_mean(one.rows for one in counts),
        parameters=_mean(one.parameters for one in counts),
    )


def _mean(values: Iterable[int | None]) -> float | None:
    """The mean of what was counted in every cell; None where it was not in one of them."""
    found = [*values]
    known = [value for value in found if value is not None]
    return fmean(known) if len(known) == len(found) else None


def disparities(state: RunState, rows: Sequence[Parity]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(method, baseline, what they are unequal in beyond `EQUAL`), where there is anything."""
    roles = {one.name: one.role for one in state.data_plan.arms} if state.data_plan else {}
    found = (
        (a.arm, b.arm, tuple(name for name in QUANTITIES if _unequal(getattr(a, name), getattr(b, name))))
        for a in rows
        for b in rows
        if (roles.get(a.arm), roles.get(b.arm)) == ("method", "baseline")
    )
    return tuple(one for one in found if one[2])


def _unequal(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and max(a, b) > EQUAL * min(a, b)
