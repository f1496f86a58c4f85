"""What a prompt shows of a text: what binds is whole, prose ends with a sentence, and cuts are counted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.models import roles
from labwright.models.client import render
from labwright.models.prompt_filters import (
    FIELD_LEEWAY,
    FIELD_LENGTHS,
    MIN_CUT_SHARE,
    cut_field,
    cut_middle,
    cut_sentences,
)
from labwright.models.roles import ROLES
from labwright.models.roles.experiment_code import RequiredMeasurements
from labwright.models.roles.node_assessment import FEEDBACK, FeedbackInputs
from labwright.models.roles.role import PROMPTS_FOLDER
from labwright.record.baseline_check import Ablation
from labwright.record.schema.data_plan import Arm, Level
from tests.models.examples import (
    ABLATION,
    CODE,
    FACTS,
    IDEA,
    INPUTS,
    PARENT,
    PLAN,
    WRITE,
    change_node,
    make_attempts,
    make_node,
)

LONG = "One rule. " * 3000 + "The last rule fixes 128 hidden units."
PROSE = st.text(alphabet=st.sampled_from("ab .!?\n"), max_size=400)
STUDY: tuple[str, ...] = ("code", "feedback", "compare", "summary", "figures", "ablation_plan", "missing_ablations")
PAPER: tuple[str, ...] = ("outline", "write", "reflect")


@given(PROSE, st.integers(20, 200))
def test_prose_is_cut_at_the_end_of_a_sentence(text: str, limit: int) -> None:
    flat = " ".join(text.split())
    shown, _, left = cut_sentences(text, limit).partition(" [... ")
    if len(flat) <= limit:
        assert shown == flat and not left
    else:
        assert flat.startswith(shown) and len(shown) <= limit
        assert int(left.split()[0]) > 0
        if re.search(r"[.!?](?= )", flat[:limit]):
            assert shown[-1] in ".!?"


def test_a_number_is_no_end_of_a_sentence() -> None:
    assert cut_sentences("It rose to 0.95 there. It fell to 0.12 here.", 30).startswith("It rose to 0.95 there. [...")


@given(st.integers(1, 300), st.integers(10, 200))
def test_a_cut_that_saves_little_is_not_made(length: int, limit: int) -> None:
    cut = cut_middle("x" * length, limit)
    assert ("left out" in cut) == (length > limit and length - limit >= MIN_CUT_SHARE * length)


@pytest.mark.parametrize("field", FIELD_LENGTHS)
def test_what_keeps_to_the_length_that_was_asked_for_is_shown_whole(field: str) -> None:
    text = "Word. " * (FIELD_LENGTHS[field] // 6)
    assert cut_field(text, field) == text.strip() and FIELD_LEEWAY > 1
    prompts = "".join(path.read_text() for path in PROMPTS_FOLDER.glob("*.md"))
    assert f"{{{{ length.{field} }}}}" in prompts, "nobody is told that length"


def binding() -> dict[str, str]:
    """Role -> its whole prompt, where the study's plan, claim and duty are longer than anybody would write them."""
    plan = PLAN.model_copy(
        update={
            "notes": LONG,
            "hypotheses": (),
            "levels": tuple(Level(name=f"l{i}") for i in range(300)),
            "task": LONG,
            "arms": tuple(arm.model_copy(update={"description": LONG}) for arm in PLAN.arms),
        }
    )
    idea = IDEA.model_copy(update={"short_hypothesis": LONG, "abstract": LONG, "experiments": (LONG,) * 14})
    study = {"idea": idea, "data_plan": plan, "facts": FACTS}
    found: dict[str, str] = {}
    for role in STUDY:
        prompt = render(ROLES[role], INPUTS[role].model_copy(update=study))
        found[role] = prompt.system + prompt.user
    for role in PAPER:
        prompt = render(ROLES[role], INPUTS[role].model_copy(update={"inputs": WRITE.model_copy(update=study)}))
        found[role] = prompt.system + prompt.user
    return found


def test_the_plan_and_the_claim_are_never_cut() -> None:
    for role, text in binding().items():
        assert "left out" not in text.partition("# Your role")[0], role
        assert text.count(LONG) == 14 + 2 + 1 + 1 + len(PLAN.arms), role
        assert "margin@l299" in text, role


def test_code_and_what_has_to_be_measured_are_never_cut() -> None:
    source = "x = 1\n" * 9000
    duty = RequiredMeasurements(
        datasets=("d",), arms=tuple(f"a{i}" for i in range(30)), levels=tuple(f"l{i}" for i in range(50))
    )
    plan = PLAN.model_copy(
        update={
            "hypotheses": (),
            "arms": tuple(Arm(name=name, role="method") for name in duty.arms),
            "levels": tuple(Level(name=name) for name in duty.levels),
        }
    )
    verdict = INPUTS["feedback"]
    assert isinstance(verdict, FeedbackInputs)
    ablation = Ablation.model_validate(ABLATION.model_dump() | {"replacement": LONG})
    judged = render(
        FEEDBACK,
        verdict.model_copy(
            update={"code": {"experiment.py": source}, "duty": duty, "data_plan": plan, "ablation": ablation}
        ),
    )
    parent = PARENT.model_copy(update={"files": {"experiment.py": source, "plots.py": source}})
    coded = render(
        roles.CODE,
        CODE.model_copy(
            update={"kind": "ablate", "parent": parent, "duty": duty, "data_plan": plan, "ablation": ablation}
        ),
    )
    for user in (judged.user, coded.user):
        assert source.strip() in user and "`a29@l49`" in user and LONG in user and "left out" not in user
    improved = render(roles.CODE, CODE.model_copy(update={"kind": "improve", "parent": parent, "item": LONG}))
    assert LONG in improved.user and improved.user.count(source.strip()) == 2


def test_what_the_code_printed_is_shown_as_far_as_it_was_kept() -> None:
    printed = "\n".join(f"line {n}" for n in range(400))
    attempts = make_attempts(printed)
    judged = INPUTS["feedback"].model_copy(update={"node": make_node(attempts=attempts)})
    assert printed in render(FEEDBACK, judged).user
    shown = render(roles.CODE, CODE.model_copy(update={"parent": change_node(PARENT, attempts=attempts)}))
    assert printed in shown.user
