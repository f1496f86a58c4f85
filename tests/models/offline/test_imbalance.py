"""The study on class imbalance: its programs, and words that hold for any outcome."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.offline.coding import code
from models.offline.length import Measure
from models.offline.planning import plan
from models.offline.plotting import figures
from models.offline.reflecting import reflect
from models.offline.scripts import constant
from models.offline.study import study_of_plan
from models.offline.writing import fitted, outline, write
from models.roles import ArrayBrief, Program, ReflectInputs, Sibling, WriteInputs
from record.idea_file import read_idea
from record.nouns.drafts import Draft
from record.nouns.idea import Idea
from record.nouns.nodes import ErrorClass, Failure
from record.nouns.stages import NodeKind, StageName
from record.setups import constants_of
from review.evidence.binder import check_draft
from review.evidence.violations import Evidence
from tests.models.offline.any_study import Called, Case, Verdict, brief, evidence
from tests.models.offline.inputs import REPOSITORY

pytestmark = pytest.mark.slow

CASE = Case(read_idea(REPOSITORY / "examples" / "ideas" / "image_imbalance.json"))
ABLATIONS = ("without-augmentation", "without-balancing", "without-focus", "without-skew-and-noise")
VERDICTS: tuple[Verdict, ...] = ("improved", "no measurable difference", "unknown")
SOUND = 1
"""The ordinal of a draft without faults."""


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
    return dict(re.findall(r'^    "([\w-]+)": (\{.*\}),$', body[1], flags=re.MULTILINE))


# --- programs -------------------------------------------------------------------------------------------------------


def test_the_idea_in_other_words_leads_here_and_imbalance_alone_does_not() -> None:
    made = plan(CASE.plan_inputs())
    assert made == CASE.plan and study_of_plan(made) is CASE.study
    worded = Idea.model_validate({
        "Name": "x", "Title": "Does data augmentation help rare classes?", "Experiments": "e",
        "Abstract": "We oversample the images of a minority class."})
    assert Case(worded).study is CASE.study
    assert CASE.plan.primary.name == "macro_f1" and CASE.plan.primary.higher_is_better


def test_every_program_compiles_and_draws_at_random_from_the_seed_alone() -> None:
    winner = CASE.winner(SOUND)
    made = [*(code(CASE.code_inputs(ordinal=k)) for k in range(10)), *children("tuning", "tune", 12, CASE.sound(SOUND)),
            *children("agenda", "improve", 8, CASE.sound(SOUND)), *children("ablation", "ablate", 12, winner), winner]
    for program in made:
        for text in (program.experiment, program.plots):
            ast.parse(text)
            assert not [line for line in text.splitlines() if len(line) > 120]
        seeded = re.findall(r"(?:manual_seed|default_rng)\((\[?.*?)[,)\]]", program.experiment)
        assert len(seeded) >= 4 and all("lab.seed" in one for one in seeded)
        assert {"EPOCHS", "HIDDEN", "BATCH", "ROTATION", "FOCUS", "LEAST"} <= constants_of(program.experiment).keys()
    assert len({program.experiment for program in made}) >= 10 + 12 + 4 + 12


def test_levels_of_the_plan_are_the_ratios_of_the_code() -> None:
    constants = constants_of(CASE.sound().experiment)
    assert [level.value for level in CASE.plan.levels] == [1, constants["RATIO_MODERATE"], constants["RATIO_STRONG"]]
    assert all(f'"{level.name}"' in CASE.sound().experiment for level in CASE.plan.levels)


def test_a_documented_share_of_the_drafts_is_faulty() -> None:
    drafts, sound = [code(CASE.code_inputs(ordinal=k)) for k in range(5)], [CASE.sound(k) for k in range(5)]
    assert [draft.experiment != right.experiment for draft, right in zip(drafts, sound, strict=True)] == [
        True, False, False, True, True]
    assert [draft.plots != right.plots for draft, right in zip(drafts, sound, strict=True)] == [
        False, False, True, False, False]


def test_every_edit_and_every_fault_finds_its_place() -> None:
    study = CASE.study
    for k, spec in enumerate(study.drafts):
        draft = CASE.sound(k)
        for edit in (*(study.fault(name) for name in (*spec.faults, *study.agenda_faults.values())),
                     *(edit for addition in study.agenda for edit in addition.edits)):
            assert edit.find in getattr(draft, edit.file), (spec.title, edit.find)


@pytest.mark.parametrize(
    ("ordinal", "kinds"), [(0, ["import"]), (3, ["shape"]), (4, ["import", "no measurement"])])
def test_repairs_follow_the_failure_that_is_reported(ordinal: int, kinds: list[ErrorClass]) -> None:
    program = code(CASE.code_inputs(ordinal=ordinal))
    for kind in kinds:
        program = code(CASE.code_inputs(kind="debug", parent=brief(program, Failure(kind=kind, message="it failed"))))
    sound = CASE.sound(ordinal).experiment.splitlines()
    assert [line for line in sound if line not in program.experiment.splitlines()] == []
    assert "rotate_image" not in program.experiment and program.experiment.count("lab.submit(") == 2


def test_an_ablation_trains_one_arm_and_says_in_its_name_what_it_lacks() -> None:
    made = children("ablation", "ablate", 12, CASE.winner(SOUND))
    assert [one.varies for one in made[:4]] == [*ABLATIONS[:3], "without-skew"]  # in the order of the idea's risks
    arms = [arms_of(one) for one in made]
    assert [list(one) for one in arms] == [[one.varies] for one in made] and len({one.varies for one in made}) == 12
    plain = '{"balanced": True, "chance": 0.0, "focus": False, "even": False}'
    assert arms[0] == {"without-augmentation": plain}
    assert '"balanced": False' in arms[1]["without-balancing"] and constant(made[2].experiment, "FOCUS") is False


def test_figures_follow_what_was_recorded() -> None:
    arrays = tuple(ArrayBrief(path=f"inputs/n1/{kind}__digits__method__ratio10.npy", shape=(2, 2), dtype="float64")
                   for kind in ("examples", "recall", "rare_answers"))
    full = figures(CASE.figures_inputs(arrays, ABLATIONS[:1]))
    assert [one.name for one in full.figures] == ["examples", "ablation", "recall-and-traces"]
    bare = figures(CASE.figures_inputs(()))
    assert [one.name for one in bare.figures] == ["primary-by-ratio"]
    for made in (full, bare):
        ast.parse(made.script)
    assert "Higher is better" in full.figures[1].description


# --- the paper ------------------------------------------------------------------------------------------------------


def always(verdict: Verdict, better: bool) -> Called:
    return lambda dataset, metric, condition: (verdict, better)


def held_to(inputs: WriteInputs) -> Evidence:
    """What the binder holds a draft to: the metric's title holds a digit, and is a name of the data plan."""
    known = evidence(inputs)
    return replace(known, names=(*known.names, *(metric.title for metric in inputs.data_plan.metrics)))


def text_of(draft: Draft) -> str:
    return "\n".join((draft.title, draft.abstract, *(section.body for section in draft.sections)))


@pytest.mark.parametrize("ablations", [(), ABLATIONS])
@pytest.mark.parametrize(("verdict", "better"), [(v, b) for v in VERDICTS for b in (True, False)])
def test_the_binder_finds_nothing_whatever_the_outcome(
    verdict: Verdict, better: bool, ablations: tuple[str, ...],
) -> None:
    inputs = CASE.write_inputs(always(verdict, better), ablations)
    draft = write(inputs)
    assert [str(one) for one in check_draft(draft, held_to(inputs))] == []
    assert "<r:" not in text_of(draft) and "<s:" not in text_of(draft)
    assert ("Ablations" in [section.title for section in draft.sections]) == bool(ablations)


@given(st.integers(min_value=0))
@settings(max_examples=10, deadline=None)
def test_any_mixture_of_outcomes_holds(seed: int) -> None:
    def called(dataset: str, metric: str, condition: str) -> tuple[Verdict, bool]:
        drawn = sum(map(ord, dataset + metric + condition)) * 31 + seed
        return VERDICTS[drawn % 3], bool(drawn // 3 % 2)

    inputs = CASE.write_inputs(called, ABLATIONS)
    assert check_draft(write(inputs), held_to(inputs)) == ()


def test_verdicts_choose_the_words() -> None:
    better, worse = (text_of(write(CASE.write_inputs(always("improved", one), ABLATIONS))) for one in (True, False))
    assert "The remedy improved the macro F1 throughout" in better and "In every comparison under imbalance" in better
    assert "makes the macro F1 worse throughout" in worse and "and in some it is worse" in worse
    assert "it needs balanced sampling and the augmentation in every comparison" in worse
    none = text_of(write(CASE.write_inputs(always("no measurable difference", True), ABLATIONS)))
    assert "improved" not in none and "worse" not in none
    assert "we could not measure that balanced sampling and the augmentation adds anything" in none
    unknown = text_of(write(CASE.write_inputs(always("unknown", True), ABLATIONS)))
    assert "do not allow a statement" in unknown and "improved" not in unknown and "is measurable" not in unknown


def test_what_is_the_same_without_imbalance_is_not_compared_there() -> None:
    """Without imbalance no class is rare: transforming rare classes more often changes nothing."""
    def called(dataset: str, metric: str, condition: str) -> tuple[Verdict, bool]:
        return ("unknown", True) if condition == "without-focus@ratio1" else ("no measurable difference", True)

    text = text_of(write(CASE.write_inputs(called, ("without-focus",))))
    alike = "Transforming all classes alike makes no measurable difference in macro F1 on both sets at ratios of "
    assert f"{alike}\\setup{{level.ratio10}} and \\setup{{level.ratio30}}." in text
    assert "do not allow a statement" not in text


def test_a_log_loss_that_goes_the_other_way_is_said() -> None:
    def called(dataset: str, metric: str, condition: str) -> tuple[Verdict, bool]:
        return "improved", metric == "macro_f1"

    assert "point in opposite directions" in text_of(write(CASE.write_inputs(called)))


def test_missing_keys_drop_sentences_and_not_the_paper() -> None:
    inputs = CASE.write_inputs(always("improved", True), ABLATIONS, setups=(), references=(), comparisons=(),
                               literals=())
    draft = write(inputs)
    assert check_draft(draft, held_to(inputs)) == ()
    assert r"\setup" not in text_of(draft) and r"\cite" not in text_of(draft)
    assert "no effect is claimed" in draft.abstract
    bare = CASE.write_inputs(always("improved", True), results=(), comparisons=(), figures=(), tables=())
    assert check_draft(write(bare), held_to(bare)) == ()


def test_the_paper_says_what_its_test_data_are_and_why_accuracy_is_not_first() -> None:
    text = " ".join(text_of(write(CASE.write_inputs(always("unknown", True)))).split())
    assert "development, validation and test parts keep the balance of the sets" in text
    assert "accuracy is carried by the frequent classes" in text and "accuracy is close to the mean recall" in text


def test_a_paper_that_is_too_long_loses_what_is_spared_most_easily() -> None:
    inputs = CASE.write_inputs(always("improved", True), ABLATIONS)
    paper = outline(inputs)
    assert Measure(inputs).pages(fitted(paper, inputs)) <= inputs.page_limit
    assert fitted(paper, inputs.model_copy(update={"page_limit": 20})) == paper
    whole = inputs.model_copy(update={"page_limit": 20})
    answer = reflect(ReflectInputs(inputs=whole, draft=write(whole), pages=21))
    assert answer.edits and not answer.done
