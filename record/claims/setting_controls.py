"""Whether the settings of two arms, each tuned for its own, may explain their difference.

A control measures an arm at the setting of the arm that a confirmatory hypothesis compares it with
(`record.swapped_settings`). It agrees if its difference from that other arm has the direction that the two arms have at
their own settings: by the interval of the registered effect with the same values, otherwise by a 95 % interval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isclose
from typing import NamedTuple

from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.estimands import CellRef, find_effect_metric
from labwright.record.reducers.run_state import RunState
from labwright.record.registered_pairs import find_registered_pair
from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.record.swapped_settings import find_swapped_arms, list_swapped_cells


class RegisteredEstimate(NamedTuple):
    """The registered effect that is the same difference, or the reverse one (`sign` -1)."""

    key: str
    part: EffectDecision
    sign: int


class OpenSetting(NamedTuple):
    """Two arms whose difference their settings may explain: a control that disagrees; None: no control was measured.

    `registered` is the registered effect with the values of the control. `undecided`: the sign is open both at the own
    settings and in the control."""

    arm: str
    other: str
    control: ClaimDifference | None = None
    registered: RegisteredEstimate | None = None
    undecided: bool = False


def find_open_settings(state: RunState, differences: Sequence[ClaimDifference]) -> tuple[OpenSetting, ...]:
    """Return the pairs of arms of confirmatory hypotheses with different settings whose controls of the primary metric
    disagree, are registered and decide nothing, or were not measured."""
    plan, lock = state.data_plan, state.current_lock
    if plan is None or lock is None:
        return ()
    order, found = [one.name for one in plan.arms], dict[tuple[str, str, str], OpenSetting]()
    registered = find_registered_estimates(plan, differences, decide_hypotheses(state))
    compared = {
        (one.dataset, one.arm, one.level): (one, signs)
        for one, *signs in _compare_controls(plan, differences, registered)
    }
    for cell in list_swapped_cells(plan, trials=lock.trials):
        if state.find_cell_setting(cell) == state.find_setting(cell.arm, cell.trial):
            continue
        control, signs = compared.get((cell.dataset, cell.measured_arm, cell.level), (None, [None, None]))
        arms = (cell.arm, cell.setting_of)
        arm, other = arms if control else sorted(arms, key=order.index)
        if control is None:
            found[arm, other, ""] = OpenSetting(arm, other)
        elif signs[0] != signs[1] or (signs[1] == 0 and control.key in registered):
            known = registered.get(control.key)
            found[arm, other, control.key] = OpenSetting(arm, other, control, known, signs == [0, 0])
    return tuple(found.values())


def find_agreeing_controls(plan: DataPlan, differences: Sequence[ClaimDifference]) -> list[ClaimDifference]:
    """Return the differences of controls that agree with those of the arms at their own settings."""
    return [one for one, own, control in _compare_controls(plan, differences, {}) if own == control]


def find_registered_estimates(
    plan: DataPlan, differences: Iterable[ClaimDifference], decisions: Collection[HypothesisDecision]
) -> dict[str, RegisteredEstimate]:
    """Return, by the key of a difference, the registered effect with the same values: it is the same comparison, also
    if the plan has an arm of its own for a control."""
    parts = [
        (f"{one.key}/{number}", part, pair)
        for one in decisions
        for number, part in enumerate(one.parts, 1)
        if part.seeds and (pair := find_registered_pair(part.effect, plan)) is not None
    ]
    found: dict[str, RegisteredEstimate] = {}
    for one in differences:
        other = CellRef(one.dataset, parse_arm(one.other), one.level)
        for key, part, pair in parts:
            if other not in pair or find_effect_metric(part.effect, plan).name != one.name:
                continue
            sign, values = 1 if pair[1] == other else -1, dict(zip(part.seeds, part.values, strict=True))
            if values.keys() == {*one.seeds} and all(
                isclose(sign * values[seed], value, abs_tol=1e-9)
                for seed, value in zip(one.seeds, one.values, strict=True)
            ):
                found.setdefault(one.key, RegisteredEstimate(key, part, sign))
    return found


def _compare_controls(
    plan: DataPlan, differences: Sequence[ClaimDifference], registered: Mapping[str, RegisteredEstimate]
) -> Iterator[tuple[ClaimDifference, int | None, int]]:
    """Yield each control with the sign of the difference at the own settings (None without one) and its own sign."""

    def find_sign(one: ClaimDifference) -> int:
        """Return the direction of a difference: 1 or -1, and 0 if its interval includes zero."""
        known = registered.get(one.key)
        low, high = (one.low, one.high) if known is None else (known.part.low, known.part.high)
        sign = 0 if low is None or high is None or low <= 0 <= high else 1 if low > 0 else -1
        return sign if known is None else known.sign * sign

    swapped = find_swapped_arms(plan)
    primary = [one for one in differences if one.name == plan.primary_metric.name]
    own = {(one.dataset, one.level, one.arm, parse_arm(one.other)): one for one in primary}
    for one in own.values():
        if one.arm in swapped:
            arm, other = swapped[one.arm]
            same, reverse = (own.get((one.dataset, one.level, *pair)) for pair in ((arm, other), (other, arm)))
            direction = find_sign(same) if same is not None else -find_sign(reverse) if reverse is not None else None
            yield one, direction, find_sign(one)
