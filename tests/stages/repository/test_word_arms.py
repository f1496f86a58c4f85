"""Studies whose arms are words of the repository's command."""

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from labwright.models.client import render
from labwright.models.roles import ABLATION_PLAN, MISSING_ABLATIONS
from labwright.models.roles.role import AnyRole
from labwright.record.events.search_events import DecisionMade
from labwright.record.schema.data_plan import Arm, ArmRole, DataPlan
from labwright.record.schema.decisions import ExpandTree, VisibleDecisions
from labwright.record.schema.hypotheses import Effect, Hypothesis, RivalExplanation
from labwright.record.schema.nodes import NodeKind
from labwright.stages.nodes import repository_program
from labwright.stages.repository.paper_study import NothingLeftError, build_search_settings
from tests.models.examples import INPUTS, PLAN, SHOWN_REPOSITORY


def plan_with(*, rival: str = "bent - plain", **words: tuple[str, ...]) -> DataPlan:
    roles: dict[str, ArmRole] = {"plain": "baseline", "bent": "method", "without": "ablation"}
    arms = tuple(Arm(name=name, role=roles[name], words=each) for name, each in words.items())
    explained = RivalExplanation(statement="x", estimand=rival, ours="above zero", theirs="near zero")
    effect = Effect(estimand="bent - plain", smallest=0.1)
    one = Hypothesis(id="bend", statement="x", effects=(effect,), reason="x", unit="seeds", rival=explained)
    return PLAN.model_copy(update={"arms": arms, "hypotheses": (one,), "levels": (), "factors": ()})


@pytest.mark.parametrize(
    "plan, drafts, ablations",
    [
        (plan_with(plain=(), bent=("--bend",), without=("--no-scale",)), 1, 0),
        (plan_with(plain=(), bent=("--bend",), without=()), 1, None),
        (plan_with(plain=(), bent=(), without=("--no-scale",)), None, None),
        (plan_with(plain=(), bent=("--bend",), without=(), rival="bent - without"), None, None),
    ],
)
def test_arms_made_by_words_have_one_draft_even_if_an_ablation_of_the_last_stage_is_patched(
    plan: DataPlan, drafts: int | None, ablations: int | None
) -> None:
    chosen = build_search_settings(plan)
    assert chosen.get("search.num_drafts") == drafts
    assert chosen.get("search.planned_ablations") == ablations


@pytest.mark.parametrize("kind", ["draft", "debug"])
@pytest.mark.parametrize(("rival", "asked"), [("bent - without", True), ("bent - plain", False)])
async def test_a_control_without_words_that_every_experiment_measures_is_asked_of_an_author(
    kind: NodeKind, rival: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(*_: object) -> None:
        raise NothingLeftError("an author was asked")

    monkeypatch.setattr(repository_program, "write_patched_program", write)

    def give_code(code: object, _: object) -> object:
        return code

    def give_nothing(*_: object) -> dict[str, str]:
        return {}

    monkeypatch.setattr(repository_program, "build_plan_code", give_code)
    monkeypatch.setattr(repository_program, "build_program", give_nothing)
    plan = plan_with(plain=(), bent=("--bend",), without=(), rival=rival)
    context: Any = SimpleNamespace(studied=SimpleNamespace(program=None), plan=plan)
    action = ExpandTree(stage="preliminary", kind=kind, parent=None, ordinal=0, seed=0)
    decided, view = DecisionMade(k=1, seen=VisibleDecisions(), action=action), cast(Any, SimpleNamespace(nodes={}))
    if asked:
        with pytest.raises(NothingLeftError, match="an author was asked"):
            await repository_program.build_repository_program(context, decided, cast(Any, None), view)
    else:
        made, _, _ = await repository_program.build_repository_program(context, decided, cast(Any, None), view)
        assert made.varies == "plain, bent"


@pytest.mark.parametrize("role", [ABLATION_PLAN, MISSING_ABLATIONS])
def test_who_asks_for_ablations_sees_the_repository(role: AnyRole) -> None:
    inputs = INPUTS[role.name]
    shown = render(role, inputs.model_copy(update={"repository": SHOWN_REPOSITORY})).user
    assert "# The repository" in shown and "fit(x, y)" in shown
    assert "# The repository" not in render(role, inputs).user


def test_declared_values_of_a_repository_are_those_that_all_arms_share_in_files_that_the_command_reaches() -> None:
    texts = {
        "run.py": "from train import fit\nGRID = (0.1, 1)\n",
        "train.py": "RATE = 0.3\ndef fit(steps=200): ...\n",
        "other.py": "OTHER = 1\n",
    }
    trees = {"base": texts, "patched": texts | {"train.py": "RATE = 0.5\ndef fit(steps=200): ...\n"}}
    repository = Mock()
    repository.program.tree, repository.program.command.argv = "base", ("python", "run.py")
    repository.mirror.apply_patch = Mock(side_effect=["base", "base", "patched"])
    repository.mirror.read_texts = trees.__getitem__
    context, files = Mock(studied=repository), {"arms/b.json": "{}", "arms/b.diff": "a diff"}
    assert repository_program.read_declared_values(context, files, ["a"]) == {
        "GRID": "0.1, 1",
        "RATE": 0.3,
        "steps": 200,
    }
    assert repository_program.read_declared_values(context, files, ["a", "b"]) == {"GRID": "0.1, 1", "steps": 200}
