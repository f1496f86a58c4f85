"""Studies whose arms are words of the repository's command."""

import pytest

from labwright.models.prompt_renderer import render
from labwright.models.roles import ABLATION_PLAN, MISSING_ABLATIONS
from labwright.models.roles.role import AnyRole
from labwright.record.schema.data_plan import Arm, ArmRole, DataPlan
from labwright.stages.repository.patched_arms import build_search_settings
from tests.models.examples import INPUTS, PLAN, SHOWN_REPOSITORY


def plan_with(**words: tuple[str, ...]) -> DataPlan:
    roles: dict[str, ArmRole] = {"plain": "baseline", "bent": "method", "without": "ablation"}
    arms = tuple(Arm(name=name, role=roles[name], words=each) for name, each in words.items())
    return PLAN.model_copy(update={"arms": arms})


@pytest.mark.parametrize(
    "plan, drafts, ablations",
    [
        (plan_with(plain=(), bent=("--bend",), without=("--no-scale",)), 1, 0),
        (plan_with(plain=(), bent=("--bend",), without=()), 1, None),
        (plan_with(plain=(), bent=(), without=("--no-scale",)), None, None),
    ],
)
def test_methods_made_by_words_have_one_draft_even_if_an_ablation_is_patched(
    plan: DataPlan, drafts: int | None, ablations: int | None
) -> None:
    chosen = build_search_settings(plan)
    assert chosen.get("search.num_drafts") == drafts
    assert chosen.get("search.planned_ablations") == ablations


@pytest.mark.parametrize("role", [ABLATION_PLAN, MISSING_ABLATIONS])
def test_who_asks_for_ablations_sees_the_repository(role: AnyRole) -> None:
    inputs = INPUTS[role.name]
    shown = render(role, inputs.model_copy(update={"repository": SHOWN_REPOSITORY})).user
    assert "# The repository" in shown and "fit(x, y)" in shown
    assert "# The repository" not in render(role, inputs).user
