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
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.record.swapped_settings import find_swapped_arms, list_swapped_cells


class OpenSetting(NamedTuple):
    """Two arms whose difference their settings may explain: a control that disagrees; None: no control was measured."""

    arm: str
    other: str
    control: ClaimDifference | None


def find_open_settings(state: RunState, differences: Sequence[ClaimDifference]) -> tuple[OpenSetting, ...]:
    """Return the pairs of arms of confirmatory hypotheses with different settings whose controls of the primary metric
    disagree or were not measured; each pair without any control once."""
    plan, lock = state.data_plan, state.current_lock
    if plan is None or lock is None:
        return ()
    compared = dict(_compare_controls(plan, differences))
    found: dict[OpenSetting, None] = {}
    for cell in list_swapped_cells(plan, trials=lock.trials):
        if state.find_cell_setting(cell) != state.find_setting(cell.arm, cell.trial):
            control = next((one for one in compared if _is_of(one, cell)), None)
            if control is None:
                arm, other = sorted((cell.arm, cell.setting_of), key=[one.name for one in plan.arms].index)
                found[OpenSetting(arm, other, None)] = None
            elif not compared[control]:
                found[OpenSetting(cell.arm, cell.setting_of, control)] = None
    measured = {frozenset((one.arm, one.other)) for one in found if one.control is not None}
    return tuple(one for one in found if one.control is not None or frozenset((one.arm, one.other)) not in measured)


def find_agreeing_controls(plan: DataPlan, differences: Sequence[ClaimDifference]) -> list[ClaimDifference]:
    """Return the differences of controls that agree with those of the arms at their own settings."""
    return [one for one, agrees in _compare_controls(plan, differences) if agrees]


def _is_of(control: ClaimDifference, cell: Cell) -> bool:
    return (control.dataset, control.arm, control.level) == (cell.dataset, cell.measured_arm, cell.level)


def _compare_controls(plan: DataPlan, differences: Sequence[ClaimDifference]) -> Iterator[tuple[ClaimDifference, bool]]:
    swapped = find_swapped_arms(plan)
    own = {
        (one.dataset, one.level, one.arm, parse_arm(one.other)): one for one in differences if _is_primary(one, plan)
    }
    for one in own.values():
        if one.arm in swapped:
            arm, other = swapped[one.arm]
            same, reverse = (own.get((one.dataset, one.level, *pair)) for pair in ((arm, other), (other, arm)))
            direction = _find_sign(same) if same is not None else -_find_sign(reverse) if reverse is not None else None
            yield one, direction == _find_sign(one)


def _is_primary(one: ClaimDifference, plan: DataPlan) -> bool:
    return one.name == plan.primary_metric.name


def _find_sign(one: ClaimDifference) -> int:
    """Return the direction of a difference: 1 or -1, and 0 if its interval includes zero."""
    return 0 if not one.excludes_zero else 1 if one.mean > 0 else -1
