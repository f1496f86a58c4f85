"""Whether the settings of two arms, each tuned for its own, may explain their difference.

A control measures an arm at the setting of the arm that a confirmatory hypothesis compares it with
(`record.swapped_settings`). It agrees if its difference from that other arm has the direction (by a 95 % interval) that
the two arms have at their own settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from labwright.record.claims.differences import ClaimDifference
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.record.swapped_settings import find_swapped_arms, list_swapped_cells


class OpenSetting(NamedTuple):
    """Two arms whose difference their settings may explain: a control that disagrees; None: no control was measured."""

    arm: str
    other: str
    control: ClaimDifference | None


def find_open_settings(state: RunState, differences: Sequence[ClaimDifference]) -> tuple[OpenSetting, ...]:
    """Return the pairs of arms of confirmatory hypotheses with different settings whose controls of the primary metric
    disagree or were not measured."""
    plan, lock = state.data_plan, state.current_lock
    if plan is None or lock is None:
        return ()
    order, found = [one.name for one in plan.arms], dict[OpenSetting, None]()
    compared = {(one.dataset, one.arm, one.level): (one, same) for one, same in _compare_controls(plan, differences)}
    for cell in list_swapped_cells(plan, trials=lock.trials):
        if state.find_cell_setting(cell) != state.find_setting(cell.arm, cell.trial):
            control, agrees = compared.get((cell.dataset, cell.measured_arm, cell.level), (None, False))
            arms = (cell.arm, cell.setting_of)
            arm, other = arms if control else sorted(arms, key=order.index)
            found |= {} if agrees else {OpenSetting(arm, other, control): None}
    return tuple(found)


def find_agreeing_controls(plan: DataPlan, differences: Sequence[ClaimDifference]) -> list[ClaimDifference]:
    """Return the differences of controls that agree with those of the arms at their own settings."""
    return [one for one, agrees in _compare_controls(plan, differences) if agrees]


def _compare_controls(plan: DataPlan, differences: Sequence[ClaimDifference]) -> Iterator[tuple[ClaimDifference, bool]]:
    swapped = find_swapped_arms(plan)
    primary = [one for one in differences if one.name == plan.primary_metric.name]
    own = {(one.dataset, one.level, one.arm, parse_arm(one.other)): one for one in primary}
    for one in own.values():
        if one.arm in swapped:
            arm, other = swapped[one.arm]
            same, reverse = (own.get((one.dataset, one.level, *pair)) for pair in ((arm, other), (other, arm)))
            direction = _find_sign(same) if same is not None else -_find_sign(reverse) if reverse is not None else None
            yield one, direction == _find_sign(one)


def _find_sign(one: ClaimDifference) -> int:
    """Return the direction of a difference: 1 or -1, and 0 if its interval includes zero."""
    return 0 if not one.excludes_zero else 1 if one.mean > 0 else -1
