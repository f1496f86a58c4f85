"""What role `code` writes: whole files that compile, differ, and change in their parents what they say they change."""

from __future__ import annotations

import ast
import re

import pytest

from labwright.models.errors import CatalogueError
from labwright.models.offline.experiment_code import answer_code, repair_parent, write_sound_draft
from labwright.models.offline.study import load_study, read_constant
from labwright.models.roles.experiment_code import NodeLine
from labwright.record.python_syntax import collect_constants
from labwright.record.schema.nodes import ErrorClass, Failure, NodeKind, StageName
from tests.models.offline.role_inputs import (
    IDEA,
    PLAN,
    OfflineProgram,
    make_agenda_winner,
    make_brief,
    make_code_inputs,
    write_program,
)

SOUND = 1
"""The ordinal of a draft without faults."""


def children(stage: StageName, kind: NodeKind, count: int, parent: OfflineProgram) -> list[OfflineProgram]:
    """Programs of one kind, each told of those before it; agenda items and risks in turn."""
    found: list[OfflineProgram] = []
    items = IDEA.experiments if stage == "agenda" else IDEA.risks if stage == "ablation" else ("",)
    for ordinal in range(count):
        siblings = tuple(NodeLine(id="s", kind=kind, varies=one.varies, outcome="1.0") for one in found)
        item = items[ordinal % len(items)] if ordinal < len(items) else ""
        found.append(
            write_program(
                make_code_inputs(stage, kind, ordinal=ordinal, item=item, parent=make_brief(parent), siblings=siblings)
            )
        )
    return found


def every_program() -> list[OfflineProgram]:
    drafts = [write_program(make_code_inputs(ordinal=k)) for k in range(21)]
    parent = drafts[SOUND]
    winner = make_agenda_winner()
    return [
        *drafts,
        *children("preliminary", "improve", 4, parent),
        *children("agenda", "improve", 12, parent),
        *children("ablation", "ablate", 7, winner),
        winner,
    ]


@pytest.mark.slow
def test_every_program_compiles_and_has_constants_for_what_is_not_tuned() -> None:
    for program in every_program():
        for text in (program.experiment, program.plots):
            ast.parse(text)
            assert not [line for line in text.splitlines() if len(line) > 120]
        assert {"EPOCHS", "HIDDEN", "BATCH"} <= collect_constants(program.experiment).keys()
        assert not collect_constants(program.experiment).keys() & {one.name.upper() for one in PLAN.space}
        seeded = re.findall(r"(?:manual_seed|default_rng)\((\[?.*?)[,)\]]", program.experiment)
        assert seeded and all("lab.seed" in one for one in seeded), "all that is random comes from the seed"


def test_the_same_inputs_have_the_same_answer() -> None:
    assert every_program() == every_program()


def test_drafts_differ_and_a_documented_share_is_faulty() -> None:
    drafts = [write_program(make_code_inputs(ordinal=k)) for k in range(10)]
    assert len({draft.experiment for draft in drafts}) == 10
    sound = [write_sound_draft(load_study(), make_code_inputs(ordinal=k)) for k in range(5)]
    faulty = [draft for draft, right in zip(drafts, sound, strict=False) if draft.experiment != right.experiment]
    unlabelled = [draft for draft, right in zip(drafts, sound, strict=False) if draft.plots != right.plots]
    assert (len(faulty), len(unlabelled)) == (3, 1)


def body(source: str, name: str) -> str:
    match = re.search(rf"(?ms)^{name} = \{{.*?^\}}", source)
    assert match
    return match[0]


def test_the_agenda_is_cumulative_and_always_covers_the_plan() -> None:
    winner = make_agenda_winner()
    assert 'lab.save("confidence"' in winner.experiment and 'lab.save("fitted"' in winner.experiment
    assert read_constant(winner.experiment, "EPOCHS") == 60
    assert '"baseline": {' in winner.experiment and '"method": {' in winner.experiment
    again = write_program(
        make_code_inputs("agenda", "improve", ordinal=8, item=IDEA.experiments[1], parent=make_brief(winner))
    )
    assert again.experiment.count('lab.save("confidence"') == 1


def test_an_ablation_trains_one_arm_and_keeps_all_else() -> None:
    winner = make_agenda_winner()
    found = children("ablation", "ablate", 7, winner)
    arms = [re.findall(r'^    "([\w-]+)": \{', body(one.experiment, "ARMS"), flags=re.MULTILINE) for one in found]
    assert all(names[:2] == ["baseline", "method"] and len(names) == 3 for names in arms)
    assert len({names[2] for names in arms}) == 7
    assert arms[0][2] == "without-clean-dev"  # what the idea's first risk asks for
    for program in found:
        assert program.program.arms == (program.varies,)
        kept = program.experiment.replace(body(program.experiment, "ARMS"), "").partition("# --- network")[2]
        assert kept == winner.experiment.partition("# --- network")[2]


@pytest.mark.parametrize(
    ("ordinal", "kinds"), [(0, ["other"]), (3, ["no measurement"]), (4, ["other", "no measurement"])]
)
def test_repairs_follow_the_failure_that_is_reported(ordinal: int, kinds: list[ErrorClass]) -> None:
    program = write_program(make_code_inputs(ordinal=ordinal))
    for kind in kinds:
        failure = Failure(kind=kind, message="it failed")
        program = write_program(make_code_inputs(kind="debug", parent=make_brief(program, failure)))
    sound = write_sound_draft(load_study(), make_code_inputs(ordinal=ordinal)).experiment
    assert [line for line in sound.splitlines() if line not in program.experiment.splitlines()] == []
    assert program.experiment.count("lab.submit(") == 2


def test_a_failure_without_a_known_repair_has_a_way_on() -> None:
    winner = make_agenda_winner()
    fallback = write_sound_draft(load_study(), make_code_inputs(ordinal=1))

    def mended(kind: ErrorClass) -> OfflineProgram:
        program = repair_parent(load_study(), make_brief(winner, Failure(kind=kind, message="it failed")), fallback)
        return OfflineProgram(program, program.apply_to(winner.files))

    odd = mended("other")
    assert (odd.experiment, odd.plots) == (fallback.experiment, fallback.plots)


def test_a_child_without_a_parent_is_refused() -> None:
    with pytest.raises(CatalogueError, match="without a parent"):
        answer_code(make_code_inputs("agenda", "improve"))


def test_every_edit_finds_its_place() -> None:
    one = load_study()
    for ordinal, spec in enumerate(one.drafts):
        draft = write_sound_draft(one, make_code_inputs(ordinal=ordinal))
        for edit in (
            *map(one.find_fault, (*spec.faults, *one.agenda_faults.values())),
            *(edit for addition in one.agenda for edit in addition.edits),
        ):
            assert edit.find in getattr(draft, edit.file), (spec.title, edit.find)
