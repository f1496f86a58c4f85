"""What a model is asked about a repository: answers are gated, asked for once, told where they point nowhere."""

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
from labwright.models.scripted import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.log import EventLog
from labwright.record.nouns.nodes import Failure
from labwright.record.nouns.repository import Command, CommandRun, Edit, Mutation, Part, Repair
from labwright.sandbox.repository.command import Ground
from labwright.sandbox.repository.environment import Environment
from labwright.sandbox.repository.trace import Called, Trace
from labwright.stages.repository.asking import Asking, named_in, out_of_scope, refused
from labwright.stages.repository.code import code_in
from labwright.stages.repository.inventory import Inventory
from labwright.stages.repository.runs import Setup
from tests.repositories import FILES

COMMAND = Command(argv=("python", "train.py", "--seed", "{seed}"), metric="metrics.json:test.r2")
SETUP = Setup("0" * 40, COMMAND, Environment(Ground(sys.executable), "interpreter", "3.11", {}, (), {}))
RUN = CommandRun(
    id="a" * 24,
    key="a",
    tree="0",
    argv=("python",),
    seed=0,
    seconds=1,
    stdout_tail=(
        'Traceback (most recent call last):\n  File "/experiment/train.py", line 3, in <module>\nKeyError: 1\n'
    ),
    failure=Failure(kind="other", message="KeyError: 1"),
)
TILT = Part(name="tilt", kind="one of several", path="tinyfit/features.py", symbol="tilt", line=4, mutations=())
GOOD = Edit(path="tinyfit/features.py", old="    return [x[:, 0]]\n", new="    return [0 * x[:, 0]]\n")


class Asked:
    """An `Asking` over a log, with a model that gives these answers in turn."""

    def __init__(self, folder: Path, **answers: list[Any]) -> None:
        self._left = {role: list(some) for role, some in answers.items()}
        self.model = ScriptedModel.by_role(**{role: self._of(role) for role in answers})
        self.log = EventLog(folder / "a.db")
        self.asking = Asking(Models(self.model, self.log, ModelSettings(), lambda: 0.0), self.log)

    def _of(self, role: str) -> Any:
        return lambda inputs: self._left[role].pop(0)  # pyright: ignore


def repair(**fields: Any) -> RepairAnswer:
    return RepairAnswer(repair=Repair(reason="r", **fields), why="w")


SWALLOW = Edit(path="train.py", old="banner(opts)\nF", new="try:\n    banner(opts)\nexcept OSError:\n    pass\nF")
SMALL = Edit(path="train.py", old="banner(opts)\nF", new="F")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Repair(kind="patch", reason="", edits=(SWALLOW,)), "swallows an exception"),
        (Repair(kind="patch", reason="", edits=(SMALL.model_copy(update={"old": "nowhere"}),)), "occurs 0 times"),
        (Repair(kind="patch", reason="", edits=(SMALL.model_copy(update={"new": "F = ("}),)), "does not parse"),
        (
            Repair(kind="patch", reason="", edits=(SMALL.model_copy(update={"new": "# x\nbanner(opts)\nF"}),)),
            "is the same",
        ),
        (Repair(kind="argv", reason="", argv=("python", "train.py", "--seed", "3")), "--seed has another value"),
        (Repair(kind="pins", reason=""), "pins is empty"),
        (Repair(kind="patch", reason="", edits=(SMALL,)), ""),
        (Repair(kind="argv", reason="", argv=("python", "train.py", "--seed", "{seed}", "--no-bend")), ""),
    ],
)
def test_repairs_that_may_not_be_made(given: Repair, why: str) -> None:
    assert (why in refused(given, COMMAND, FILES)) if why else refused(given, COMMAND, FILES) == ""


def test_code_that_measures_may_not_change() -> None:
    texts = {"m.py": "def accuracy(p, y):\n    return (p == y).mean()\n"}
    given = Repair(kind="patch", reason="", edits=(Edit(path="m.py", old="(p == y).mean()", new="1.0"),))
    assert refused(given, COMMAND, texts) == "m.py: it changes accuracy, which measures"


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ((GOOD,), ""),
        ((Edit(path="tinyfit/features.py", old="x[:, 1] ** 2", new="0"),), "changes bend, which is neither tilt"),
        ((Edit(path="metrics.json", new="{}"),), "the file that the metric is read from"),
        (tuple(Edit(path=f"new{n}.txt", new="x") for n in range(5)), "at most 4"),
        ((Edit(path="a.txt", new="x\n" * 41),), "at most 4 and 40"),
    ],
)
def test_patches_stay_with_their_part(edits: tuple[Edit, ...], why: str) -> None:
    found = out_of_scope(Mutation(kind="replace", what="w", edits=edits), TILT, COMMAND, FILES)
    assert (why in found) if why else found == ""


async def test_a_refused_repair_is_asked_for_once_more_and_then_given_up(tmp_path: Path) -> None:
    bad, good = repair(kind="patch", edits=(SWALLOW,)), repair(kind="patch", edits=(SMALL,))
    asked = Asked(tmp_path, repair=[bad, good])
    assert await asked.asking.repair("other:x", RUN, SETUP, FILES) == good.repair
    assert asked.model.requests[1].inputs.complaints == ("train.py: it swallows an exception",)  # pyright: ignore
    assert [one.path for one in asked.model.requests[0].inputs.shown] == ["train.py"]  # pyright: ignore
    again = Asking(Models(ScriptedModel.by_role(), asked.log, ModelSettings(), lambda: 0.0), asked.log)
    assert await again.repair("other:x", RUN, SETUP, FILES) == good.repair  # from the ledger: nobody is asked
    (tmp_path / "b").mkdir()
    assert await Asked(tmp_path / "b", repair=[bad, bad]).asking.repair("other:x", RUN, SETUP, FILES) is None


async def test_priors_are_taken_and_what_points_nowhere_is_told(tmp_path: Path) -> None:
    found = Inventory((TILT, TILT.model_copy(update={"name": "odd"})), ())
    line = next(one.line for one in code_in(FILES).definitions if one.name == "design")
    trace = Trace({f"train.py:{line}": Called("train.py", "design", line, 1, (), ())})
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
    read = await asked.asking.parts(found, COMMAND, trace, FILES)
    assert [(one.name, one.prior, one.why) for one in read.parts] == [("tilt", 0.9, ""), ("assembly", 0.4, "it joins")]
    assert [(one.name, one.kind) for one in read.rest] == [("odd", "decoy"), ("ghost", "budget")]


async def test_a_patch_needs_a_second_reader(tmp_path: Path) -> None:
    answer = PatchAnswer(edits=(GOOD,), what="zeros")
    yes, no = PatchCheck(agrees=True, why="y"), PatchCheck(agrees=False, why="another part goes too")
    asked = Asked(tmp_path, part_patch=[answer, answer], patch_check=[no, yes])
    mutation, why = await asked.asking.patch(TILT, ("drop: failed",), COMMAND, FILES)
    assert mutation is not None and mutation.kind == "replace" and not why
    assert asked.model.requests[2].inputs.complaints == ("another part goes too",)  # pyright: ignore
    for number, (some, told) in enumerate((([no, no], "another part goes too"),)):
        (tmp_path / str(number)).mkdir()
        asked = Asked(tmp_path / str(number), part_patch=[answer, answer], patch_check=some)
        assert await asked.asking.patch(TILT, (), COMMAND, FILES) == (None, told)
    (tmp_path / "n").mkdir()
    none = Asked(tmp_path / "n", part_patch=[PatchAnswer(edits=(), what="it cannot be")])
    assert await none.asking.patch(TILT, (), COMMAND, FILES) == (None, "it cannot be")


async def test_a_command_that_the_code_does_not_bear_out_is_asked_for_again(tmp_path: Path) -> None:
    def choice(*words: str) -> CommandChoice:
        return CommandChoice(words=words, metric="metrics.json:test.r2", direction="max", why="w")

    asked = Asked(tmp_path, command=[choice("python", "main.py"), choice("python", "train.py", "--seed", "1")])
    found = await asked.asking.command(FILES, None, "")
    assert found is not None and found.words == ("python", "train.py", "--seed", "{seed}")
    assert asked.model.requests[1].inputs.complaints == ("python main.py: there is no main.py",)  # pyright: ignore


def test_files_that_an_error_names_are_shown() -> None:
    said = "ImportError: cannot import name 'x' from 'tinyfit.features' (/experiment/tinyfit/features.py)"
    assert [one.path for one in named_in(RUN.stdout_tail + said, FILES)] == ["train.py", "tinyfit/features.py"]
