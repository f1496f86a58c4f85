"""Queries to a model about a repository: answers are checked, requested once, and reported if they point nowhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from labwright.models.client import Models
from labwright.models.roles.repository import (
    AddedPart,
    CommandChoice,
    PartNote,
    PartsAnswer,
    PatchAnswer,
    PatchCheck,
    RepairAnswer,
)
from labwright.models.scripted_model import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventLog
from labwright.record.schema.cell import Cell
from labwright.record.schema.nodes import CellRun, Failure
from labwright.record.schema.repository import (
    RepositoryCommand,
    RepositoryEdit,
    RepositoryMutation,
    RepositoryPart,
    RepositoryRepair,
)
from labwright.sandbox.repository.command import CommandEnvironment
from labwright.sandbox.repository.environment import RepositoryEnvironment
from labwright.sandbox.repository.trace import CalledFunction, CallTrace
from labwright.stages.repository.arm_runs import CommandSetup
from labwright.stages.repository.code_index import index_code
from labwright.stages.repository.component_discovery import ComponentInventory
from labwright.stages.repository.model_queries import ModelQueries, check_repair, check_scope, find_named_places
from tests.repositories import FILES

COMMAND = RepositoryCommand(argv=("python", "train.py", "--seed", "{seed}"), metric="metrics.json:test.r2")
SETUP = CommandSetup(
    "0" * 40, COMMAND, RepositoryEnvironment(CommandEnvironment(sys.executable), "interpreter", "3.11", {}, (), {})
)
RUN = CellRun(
    id=f"{'a' * 24}-0",
    key="a" * 64,
    cell=Cell(dataset="tinyfit", arm="baseline"),
    seconds=1,
    stdout_tail=(
        'Traceback (most recent call last):\n  File "/experiment/train.py", line 3, in <module>\nKeyError: 1\n'
    ),
    failure=Failure(kind="other", message="KeyError: 1"),
)
TILT = RepositoryPart(
    name="tilt", kind="one of several", path="tinyfit/features.py", symbol="tilt", line=4, mutations=()
)
GOOD = RepositoryEdit(path="tinyfit/features.py", old="    return [x[:, 0]]\n", new="    return [0 * x[:, 0]]\n")


class Asked:
    """Build `ModelQueries` over a log, with a model that gives these answers in turn."""

    def __init__(self, folder: Path, **answers: list[Any]) -> None:
        self._left = {role: list(some) for role, some in answers.items()}
        self.model = ScriptedModel.from_role_functions(**{role: self._of(role) for role in answers})
        self.log = EventLog(folder / "a.db")
        self.asking = ModelQueries(Models(self.model, self.log, ModelSettings(), lambda: 0.0), self.log)

    def _of(self, role: str) -> Any:
        return lambda inputs: self._left[role].pop(0)  # pyright: ignore


def repair(**fields: Any) -> RepairAnswer:
    return RepairAnswer(repair=RepositoryRepair(reason="r", **fields), why="w")


SWALLOW = RepositoryEdit(
    path="train.py", old="banner(opts)\nF", new="try:\n    banner(opts)\nexcept OSError:\n    pass\nF"
)
SMALL = RepositoryEdit(path="train.py", old="banner(opts)\nF", new="F")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (RepositoryRepair(kind="patch", reason="", edits=(SWALLOW,)), "swallows an exception"),
        (
            RepositoryRepair(kind="patch", reason="", edits=(SMALL.model_copy(update={"old": "nowhere"}),)),
            "occurs 0 times",
        ),
        (
            RepositoryRepair(kind="patch", reason="", edits=(SMALL.model_copy(update={"new": "F = ("}),)),
            "no longer parses",
        ),
        (
            RepositoryRepair(
                kind="patch", reason="", edits=(SMALL.model_copy(update={"new": "# x\nbanner(opts)\nF"}),)
            ),
            "is unchanged",
        ),
        (
            RepositoryRepair(kind="argv", reason="", argv=("python", "train.py", "--seed", "3")),
            "--seed has a different value",
        ),
        (RepositoryRepair(kind="pins", reason=""), "pins is empty"),
        (RepositoryRepair(kind="patch", reason="", edits=(SMALL,)), ""),
        (RepositoryRepair(kind="argv", reason="", argv=("python", "train.py", "--seed", "{seed}", "--no-bend")), ""),
    ],
)
def test_repairs_that_may_not_be_made(given: RepositoryRepair, why: str) -> None:
    assert (why in check_repair(given, COMMAND, FILES)) if why else check_repair(given, COMMAND, FILES) == ""


def test_code_that_measures_may_not_change() -> None:
    texts = {"m.py": "def accuracy(p, y):\n    return (p == y).mean()\n"}
    given = RepositoryRepair(
        kind="patch", reason="", edits=(RepositoryEdit(path="m.py", old="(p == y).mean()", new="1.0"),)
    )
    assert check_repair(given, COMMAND, texts) == "m.py: changes accuracy, which computes a metric"


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ((GOOD,), ""),
        (
            (RepositoryEdit(path="tinyfit/features.py", old="x[:, 1] ** 2", new="0"),),
            "changes bend, which is neither tilt",
        ),
        ((RepositoryEdit(path="metrics.json", new="{}"),), "the file that the metric is read from"),
        (tuple(RepositoryEdit(path=f"new{n}.txt", new="x") for n in range(5)), "limits are 4 and"),
        ((RepositoryEdit(path="a.txt", new="x\n" * 41),), "limits are 4 and 40"),
    ],
)
def test_patches_stay_with_their_part(edits: tuple[RepositoryEdit, ...], why: str) -> None:
    found = check_scope(RepositoryMutation(kind="replace", what="w", edits=edits), TILT, COMMAND, FILES)
    assert (why in found) if why else found == ""


async def test_a_refused_repair_is_asked_for_once_more_and_then_given_up(tmp_path: Path) -> None:
    bad, good = repair(kind="patch", edits=(SWALLOW,)), repair(kind="patch", edits=(SMALL,))
    asked = Asked(tmp_path, repair=[bad, good])
    assert await asked.asking.propose_repair(RUN, SETUP, FILES) == good.repair
    assert asked.model.requests[1].inputs.complaints == ("train.py: swallows an exception",)  # pyright: ignore
    assert [one.path for one in asked.model.requests[0].inputs.shown] == ["train.py"]  # pyright: ignore
    again = ModelQueries(
        Models(ScriptedModel.from_role_functions(), asked.log, ModelSettings(), lambda: 0.0), asked.log
    )
    assert await again.propose_repair(RUN, SETUP, FILES) == good.repair  # from the ledger: no model is asked
    (tmp_path / "b").mkdir()
    assert await Asked(tmp_path / "b", repair=[bad, bad]).asking.propose_repair(RUN, SETUP, FILES) is None


async def test_priors_are_taken_and_what_points_nowhere_is_told(tmp_path: Path) -> None:
    found = ComponentInventory((TILT, TILT.model_copy(update={"name": "odd"})), ())
    line = next(one.line for one in index_code(FILES).definitions if one.name == "design")
    trace = CallTrace({f"train.py:{line}": CalledFunction("train.py", "design", line, 1, (), ())})
    asked = Asked(
        tmp_path,
        parts=[
            PartsAnswer(
                parts=(PartNote(name="tilt", prior=0.9), PartNote(name="odd", prior=0, drop=True, why="only tells")),
                added=(
                    AddedPart(name="assembly", path="train.py", symbol="design", prior=0.4, why="it joins"),
                    AddedPart(name="ghost", path="train.py", symbol="nothing", prior=0.4, why="?"),
                ),
            )
        ],
    )
    read = await asked.asking.assess_parts(found, COMMAND, trace, FILES)
    assert [(one.name, one.prior, one.why) for one in read.parts] == [("tilt", 0.9, ""), ("assembly", 0.4, "it joins")]
    assert [(one.name, one.kind) for one in read.rest] == [("odd", "decoy"), ("ghost", "budget")]


async def test_a_patch_needs_a_second_reader(tmp_path: Path) -> None:
    answer = PatchAnswer(edits=(GOOD,), what="zeros")
    yes, no = PatchCheck(agrees=True, why="y"), PatchCheck(agrees=False, why="another part goes too")
    asked = Asked(tmp_path, part_patch=[answer, answer], patch_check=[no, yes])
    mutation, why = await asked.asking.write_patch(TILT, ("drop: failed",), COMMAND, FILES)
    assert mutation is not None and mutation.kind == "replace" and not why
    assert asked.model.requests[2].inputs.complaints == ("another part goes too",)  # pyright: ignore
    for number, (some, told) in enumerate((([no, no], "another part goes too"),)):
        (tmp_path / str(number)).mkdir()
        asked = Asked(tmp_path / str(number), part_patch=[answer, answer], patch_check=some)
        assert await asked.asking.write_patch(TILT, (), COMMAND, FILES) == (None, told)
    (tmp_path / "n").mkdir()
    none = Asked(tmp_path / "n", part_patch=[PatchAnswer(edits=(), what="it cannot be")])
    assert await none.asking.write_patch(TILT, (), COMMAND, FILES) == (None, "it cannot be")


async def test_a_command_that_the_code_does_not_bear_out_is_asked_for_again(tmp_path: Path) -> None:
    def choice(*words: str) -> CommandChoice:
        return CommandChoice(words=words, metric="metrics.json:test.r2", direction="max", why="w")

    asked = Asked(tmp_path, command=[choice("python", "main.py"), choice("python", "train.py", "--seed", "1")])
    found = await asked.asking.choose_command(FILES, None, "")
    assert found is not None and found.words == ("python", "train.py", "--seed", "{seed}")
    assert asked.model.requests[1].inputs.complaints == ("python main.py: there is no main.py",)  # pyright: ignore


def test_files_that_an_error_names_are_shown() -> None:
    said = "ImportError: cannot import name 'x' from 'tinyfit.features' (/experiment/tinyfit/features.py)"
    assert [one.path for one in find_named_places(RUN.stdout_tail + said, FILES)] == ["train.py", "tinyfit/features.py"]
