"""Whether the settings of two arms, each tuned for its own, may explain their difference.

A control measures an arm at the setting of the arm that a confirmatory hypothesis compares it with
(`record.swapped_settings`). It agrees if its difference from that other arm has the direction that the two arms have at
their own settings: by the interval of the registered effect with the same values, otherwise by a 95 % interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import NamedTuple

from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.estimands import CellRef, find_effect_metric
from labwright.record.reducers.run_state import RunState
from labwright.record.registered_pairs import find_registered_pair
from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.swapped_settings import find_swapped_arms, list_swapped_cells


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
    known = find_registered_estimates(plan, differences, decide_hypotheses(state))
    compared = {
        (one.dataset, one.arm, one.level): (one, same) for one, same in _compare_controls(plan, differences, known)
    }
    for cell in list_swapped_cells(plan, trials=lock.trials):
        if state.search.find_cell_setting(cell) != state.search.find_setting(cell.arm, cell.trial):
            control, agrees = compared.get((cell.dataset, cell.measured_arm, cell.level), (None, False))
            arms = (cell.arm, cell.setting_of)
            arm, other = arms if control else sorted(arms, key=order.index)
            registered = known.get(control.key) if control else None
            if not agrees or (control and registered and not control.excludes_zero):
                found[OpenSetting(arm, other, control, registered, agrees)] = None
    return tuple(found)


def find_agreeing_controls(
    plan: DataPlan, differences: Sequence[ClaimDifference], decisions: Sequence[HypothesisDecision]
) -> list[ClaimDifference]:
    """Return the differences of controls that agree with those of the arms at their own settings."""
    known = find_registered_estimates(plan, differences, decisions)
    return [one for one, agrees in _compare_controls(plan, differences, known) if agrees]


def find_registered_estimates(
    plan: DataPlan, differences: Sequence[ClaimDifference], decisions: Sequence[HypothesisDecision]
) -> dict[str, RegisteredEstimate]:
    """Return, by the key of a difference, the registered effect with the same values: it is the same comparison, also
    if the plan has an arm of its own for a control."""
    found: dict[str, RegisteredEstimate] = {}
    for decision in decisions:
        for number, part in enumerate(decision.parts, 1):
            pair, values = find_registered_pair(part.effect, plan), dict(zip(part.seeds, part.values, strict=False))
            for one in differences if pair is not None and values else ():
                other = CellRef(one.dataset, parse_arm(one.other), one.level)
                sign = 1 if pair is not None and pair[1] == other else -1
                if (
                    other in (pair or ())
                    and find_effect_metric(part.effect, plan).name == one.name
                    and values.keys() == {*one.seeds}
                    and all(
                        isclose(sign * values[seed], value, abs_tol=1e-9)
                        for seed, value in zip(one.seeds, one.values, strict=True)
                    )
                ):
                    ends = (part.low, part.high)[::sign]
                    low, high = (None if end is None else sign * end for end in ends)
                    found.setdefault(one.key, RegisteredEstimate(f"{decision.key}/{number}", sign, low, high))
    return found


def _compare_controls(
    plan: DataPlan, differences: Sequence[ClaimDifference], known: Mapping[str, RegisteredEstimate]
) -> Iterator[tuple[ClaimDifference, bool]]:
    """Yield the difference of each control and whether it agrees. A registered effect's interval counts where there is
    one."""
    swapped = find_swapped_arms(plan)
    differences = [
        one if (own := known.get(one.key)) is None else one.model_copy(update={"low": own.low, "high": own.high})
        for one in differences
    ]
    primary = [one for one in differences if one.name == plan.primary_metric.name]
    own = {(one.dataset, one.level, one.arm, parse_arm(one.other)): one for one in primary}
    for one in own.values():
        if one.arm in swapped:
            arm, other = swapped[one.arm]
            same, reverse = (own.get((one.dataset, one.level, *pair)) for pair in ((arm, other), (other, arm)))
            direction = same.sign if same is not None else -reverse.sign if reverse is not None else None
            yield one, direction == one.sign
