"""The study on temporal consistency: its programs, and words that hold for any outcome."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.offline.coding import code
from models.offline.length import Measure
from models.offline.planning import plan
from models.offline.scripts import constant
from models.offline.study import catalogue, study_of_plan
from models.offline.writing import fitted, outline, write
from models.roles import Program, Sibling
from record.idea_file import read_idea
from record.nouns.drafts import Draft
from record.nouns.nodes import Failure
from record.nouns.stages import NodeKind, StageName
from review.evidence.binder import check_draft
from tests.models.offline.any_study import Called, Case, Verdict, brief, evidence
from tests.models.offline.inputs import REPOSITORY

pytestmark = pytest.mark.slow

CASE = Case(read_idea(REPOSITORY / "examples" / "ideas" / "temporal_consistency.json"))
ABLATIONS = ("without-order", "without-recurrence", "without-recurrence-or-penalty", "without-mild-weight")
VERDICTS: tuple[Verdict, ...] = ("improved", "no measurable difference", "unknown")
GRU, ENCODER = 1, 2
"""Ordinals of drafts."""


def children(stage: StageName, kind: NodeKind, count: int, parent: Program) -> list[Program]:
    """Programs of one kind, each told of those before it."""
    made: list[Program] = []
    items = CASE.idea.experiments if stage == "agenda" else CASE.idea.risks if stage == "ablation" else ("",)
    for ordinal in range(count):
        siblings = tuple(Sibling(id="s", kind=kind, varies=one.varies, outcome="1.0") for one in made)
        item = items[ordinal % len(items)] if ordinal < len(items) else ""
        made.append(code(CASE.code_inputs(stage, kind, ordinal=ordinal, item=item, parent=brief(parent),
                                          siblings=siblings)))
    return made


def arms_of(program: Program) -> dict[str, str]:
    body = re.search(r"(?ms)^ARMS = \{\n(.*?)^\}", program.experiment)
    assert body
    return dict(re.findall(r'^    "([\w-]+)": (PENALTY.*),$', body[1], flags=re.MULTILINE))


# --- programs -------------------------------------------------------------------------------------------------------


def test_the_idea_and_its_plan_lead_to_this_study_and_to_no_other() -> None:
    assert CASE.study.name == "temporal_consistency"
    made = plan(CASE.plan_inputs())
    assert made == CASE.plan and study_of_plan(made) is CASE.study
    worded = CASE.idea.model_copy(update={"name": "x"})
    assert Case(worded).study is CASE.study
    assert len({one.name for one in catalogue()}) == len(catalogue())


def test_every_program_compiles_and_draws_at_random_from_the_seed_alone() -> None:
    winner = CASE.winner(GRU)
    made = [*(code(CASE.code_inputs(ordinal=k)) for k in range(10)), *children("tuning", "tune", 12, CASE.sound(GRU)),
            *children("agenda", "improve", 8, CASE.sound(GRU)), *children("ablation", "ablate", 12, winner), winner]
    for program in made:
        for text in (program.experiment, program.plots):
            ast.parse(text)
            assert not [line for line in text.splitlines() if len(line) > 120]
        seeded = re.findall(r"(?:manual_seed|default_rng)\((\[?.*?)[,)\]]", program.experiment)
        assert len(seeded) >= 3 and all("lab.seed" in one for one in seeded)
    assert len({program.experiment for program in made}) >= 10 + 12 + 4 + 12


def test_arms_share_all_but_the_penalty() -> None:
    assert arms_of(CASE.sound()) == {"baseline": 'PENALTY | {"weight": 0.0}', "method": "PENALTY"}
    changed = [arms_of(program) for program in children("ablation", "ablate", 9, CASE.winner(GRU))]
    assert all(text.startswith("PENALTY") for arms in changed for text in arms.values())


def test_an_encoder_comes_with_its_own_plain_arm_and_never_twice() -> None:
    recurrent = code(CASE.code_inputs("ablation", "ablate", item=CASE.idea.risks[1], parent=brief(CASE.winner(GRU))))
    assert list(arms_of(recurrent)) == ["without-recurrence", "without-recurrence-or-penalty"]
    assert recurrent.experiment.count("class Encoder(") == 1
    made = children("ablation", "ablate", 12, CASE.winner(ENCODER))
    assert not [one for one in made if "recurrence" in one.varies]
    assert all(one.experiment.count("class Encoder(") == 1 for one in made)


def test_every_edit_and_every_fault_finds_its_place() -> None:
    study = CASE.study
    for k, spec in enumerate(study.drafts):
        draft = CASE.sound(k)
        for edit in (*(study.fault(name) for name in spec.faults),
                     *(edit for addition in study.agenda for edit in addition.edits)):
            assert edit.find in getattr(draft, edit.file), (spec.title, edit.find)
    winner = CASE.winner(GRU)
    edits = [*(edit for part in study.ablations for edit in part.edits),
             *map(study.fault, study.agenda_faults.values())]
    assert [edit for edit in edits if edit.find not in getattr(winner, edit.file)] == []


def test_what_runs_out_of_time_makes_fewer_updates() -> None:
    slow = Failure(kind="timeout", message="too slow")
    mended = code(CASE.code_inputs(kind="debug", parent=brief(CASE.sound(), slow)))
    assert constant(mended.experiment, "STEPS") == 120 and "steps is halved" in mended.plan


# --- the paper ------------------------------------------------------------------------------------------------------


def always(verdict: Verdict, better: bool) -> Called:
    return lambda dataset, metric, condition: (verdict, better)


def text_of(draft: Draft) -> str:
    return "\n".join((draft.title, draft.abstract, *(section.body for section in draft.sections)))


@pytest.mark.parametrize("ablations", [(), ABLATIONS])
@pytest.mark.parametrize(("verdict", "better"), [(v, b) for v in VERDICTS for b in (True, False)])
def test_the_binder_finds_nothing_whatever_the_outcome(
    verdict: Verdict, better: bool, ablations: tuple[str, ...],
) -> None:
    inputs = CASE.write_inputs(always(verdict, better), ablations)
    draft = write(inputs)
    assert [str(one) for one in check_draft(draft, evidence(inputs))] == []
    assert "<r:" not in text_of(draft) and "<s:" not in text_of(draft) and "{value}" not in text_of(draft)
    assert ("Ablations" in [section.title for section in draft.sections]) == bool(ablations)


@given(st.integers(min_value=0))
@settings(max_examples=10, deadline=None)
def test_any_mixture_of_outcomes_holds(seed: int) -> None:
    def called(dataset: str, metric: str, condition: str) -> tuple[Verdict, bool]:
        drawn = sum(map(ord, dataset + metric + condition)) * 31 + seed
        return VERDICTS[drawn % 3], bool(drawn // 3 % 2)

    inputs = CASE.write_inputs(called, ABLATIONS)
    assert check_draft(write(inputs), evidence(inputs)) == ()


def test_verdicts_choose_the_words() -> None:
    better, worse = (text_of(write(CASE.write_inputs(always("improved", one)))) for one in (True, False))
    assert "the penalty improved the accuracy throughout" in better and "costs right answers" not in better
    assert "the penalty makes the accuracy worse throughout" in worse and "improved" not in worse
    assert "in all of them it costs right answers" in worse
    none = text_of(write(CASE.write_inputs(always("no measurable difference", True))))
    assert "no difference in accuracy is measurable" in none and "worse" not in none and "improved" not in none
    unknown = text_of(write(CASE.write_inputs(always("unknown", True))))
    assert "do not allow a statement" in unknown and "improved" not in unknown and "measurable" not in unknown


def test_a_better_log_loss_without_more_right_answers_is_said() -> None:
    def called(dataset: str, metric: str, condition: str) -> tuple[Verdict, bool]:
        return ("improved", True) if metric == "log_loss" else ("no measurable difference", True)

    assert "comes with no more right answers" in text_of(write(CASE.write_inputs(called)))


def test_missing_keys_drop_sentences_and_not_the_paper() -> None:
    inputs = CASE.write_inputs(always("improved", True), ABLATIONS, setups=(), references=(), comparisons=())
    draft = write(inputs)
    assert check_draft(draft, evidence(inputs)) == ()
    assert r"\setup" not in text_of(draft) and r"\cite" not in text_of(draft)
    assert "no effect is claimed" in draft.abstract
    bare = CASE.write_inputs(always("improved", True), results=(), comparisons=(), figures=(), tables=())
    assert check_draft(write(bare), evidence(bare)) == ()


def test_the_first_draft_keeps_to_the_pages_by_an_estimate() -> None:
    inputs = CASE.write_inputs(always("improved", True), ABLATIONS)
    paper = outline(inputs)
    assert Measure(inputs).pages(fitted(paper, inputs)) <= inputs.page_limit
    assert fitted(paper, inputs.model_copy(update={"page_limit": 20})) == paper
