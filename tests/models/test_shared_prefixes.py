"""What calls share comes first, byte for byte, so that providers find it in their caches."""

from __future__ import annotations

import pytest

from labwright.models import roles
from labwright.models.client import render
from labwright.models.roles import ROLES
from labwright.models.roles.experiment_code import StudyInputs
from tests.models.examples import CODE, INPUTS, PARENT

STUDY: tuple[str, ...] = (
    "code",
    "feedback",
    "compare",
    "summary",
    "figures",
    "ablation_plan",
    "missing_ablations",
    "addendum",
    "outline",
    "write",
    "reflect",
)
DRAWN: tuple[str, ...] = ("plot", "vision", "figure_review")
FROZEN = {"idea", "data_plan", "facts", "lab_reference", "style", "inputs", "outline", "words"}
"""What stays as it is while the calls of a role are asked."""


def common(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    return first[: next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def whole(role: str) -> str:
    prompt = render(ROLES[role], INPUTS[role])
    return prompt.system + prompt.user


def test_every_role_that_sees_the_study_is_among_them() -> None:
    assert {role for role, inputs in INPUTS.items() if isinstance(inputs, StudyInputs)} <= set(STUDY)


@pytest.mark.parametrize(("roles", "last"), [(STUDY, "source sklearn:load_digits"), (DRAWN, "A condition is")])
def test_roles_that_see_the_same_begin_alike(roles: tuple[str, ...], last: str) -> None:
    shared = common([whole(role) for role in roles])
    assert last in shared and len(shared) > 1000


def test_all_parts_in_a_study_begin_with_the_same_rules() -> None:
    assert "even these do not override the rules here" in common([whole(role) for role in (*STUDY, *DRAWN)])


@pytest.mark.parametrize("role", [*STUDY, *DRAWN])
def test_nothing_that_may_change_while_a_run_lasts_stands_in_a_beginning(role: str) -> None:
    """Limits, devices and packages change on a resume, notes and results at any time."""
    inputs = INPUTS[role]
    bare = {
        name: field.get_default(call_default_factory=True)
        for name, field in type(inputs).model_fields.items()
        if name not in FROZEN and not field.is_required()
    }
    bare |= {name: 4711.0 for name in ("node_seconds",) if name in type(inputs).model_fields}
    assert render(ROLES[role], inputs.model_copy(update=bare)).system == render(ROLES[role], inputs).system


def test_children_of_a_node_share_its_code_with_each_other_in_every_stage() -> None:
    parent = PARENT.model_copy(update={"files": {"experiment.py": "x = 1\n" * 500}})
    asked = [
        render(
            roles.CODE,
            CODE.model_copy(
                update={"parent": parent, "stage": stage, "kind": kind, "siblings": (), "notes": (kind,), "item": kind}
            ),
        )
        for stage, kind in (("tuning", "tune"), ("agenda", "improve"), ("ablation", "ablate"), ("tuning", "debug"))
    ]
    shared = common([one.system + one.user for one in asked])
    assert "x = 1\n" * 500 in shared and "End of its output" in shared
