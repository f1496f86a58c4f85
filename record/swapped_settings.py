"""Controls of tuning: an arm with the tuned setting of the arm that a confirmatory hypothesis compares it with.

If two arms run with different settings, the settings may explain their difference. Every fresh seed therefore measures
the baseline at the method's setting too, and the method at the baseline's, with the same code. Hyperparameters that the
other arm lacks keep the arm's own values. The comparisons are exploratory: no verdict reads these cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from labwright.record.estimands import list_deciding_cells
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.nodes import Cell


def list_swapped_cells(plan: DataPlan, *, trials: Mapping[str, int] | None = None, seed: int = 0) -> tuple[Cell, ...]:
    """Return the cells of one seed in which an arm runs with the setting of another, where the hypotheses read the arm.

    `trials`: arm -> number of its chosen setting; None: not known yet, and every pair of arms counts. Arms that both
    run with their defaults have none.
    """
    roles = {arm.name: arm.role for arm in plan.arms}
    tuned = {arm: {one.name for one in plan.find_space(arm)} for arm in plan.tuned_arms}
    found: dict[Cell, None] = {}
    for hypothesis in plan.hypotheses:
        read = sorted(list_deciding_cells(hypothesis, plan)) if hypothesis.confirmatory else []
        for place, other in product(read, dict.fromkeys(one.arm for one in read)):
            if place.arm not in tuned or other not in tuned or roles[place.arm] == roles[other]:
                continue
            own, others = (0, 0) if trials is None else (trials.get(place.arm, 0), trials.get(other, 0))
            if not tuned[place.arm] & tuned[other] or (trials is not None and own == others == 0):
                continue
            own_cell = Cell(dataset=place.dataset, arm=place.arm, level=place.level, seed=seed, trial=own)
            cell = own_cell.model_copy(update={"setting_of": other, "setting_trial": others})
            if cell.measured_arm not in roles:
                found[cell] = None
    return tuple(found)


def find_swapped_arms(plan: DataPlan) -> dict[str, tuple[str, str]]:
    """Return, by the name that measurements give it, each arm that runs with another's setting, and that other arm."""
    return {cell.measured_arm: (cell.arm, cell.setting_of) for cell in list_swapped_cells(plan)}
