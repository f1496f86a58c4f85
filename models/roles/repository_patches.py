"""Change a user's repository so that the arms of a study exist: the task `arms` of an author (`roles.coder`)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from labwright.models.roles.coder import AuthorTask, CoderInputs, HandIn
from labwright.models.roles.experiment_code import AuthorInputs, check_added_arms, list_added_arms
from labwright.models.roles.repository import ShownFile, Word
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.source_edits import SourceEdit, WholeFile


class ShownArm(FrozenModel):
    """The words and the patch of an arm of the starting node."""

    name: str
    words: tuple[str, ...] = ()
    patch: str = Field(default="", description="unified diff from the unmodified repository")


class ShownRepository(FrozenModel):
    """A user's repository as shown in prompts."""

    command: str = Field(description="the command that every cell runs once")
    metric: str = Field(description="where its number is read")
    scored: bool = Field(
        default=False, description="whether the program scores its predictions instead of reading a number"
    )
    test_metric: bool = Field(default=False, description="whether test results are read too, and withheld")
    as_it_is: str = Field(default="", description="result and run time of one unmodified run")
    map: str
    shown: tuple[ShownFile, ...]
    left_out: int = Field(default=0, description="number of text files that are not shown")
    frozen: tuple[str, ...] = Field(default=(), description="patterns of files that may not change")


class ArmPatch(FrozenModel):
    """A change of the files of some arms."""

    arms: tuple[str, ...] = Field(min_length=1, max_length=20, description="the arms that it makes, never the baseline")
    start: str = Field(
        default="", description=("the arm whose files it changes; empty: each arm's own files, as in the starting node")
    )
    scratch: bool = Field(
        default=False,
        description="whether its files are those of the scratch copy as it is now; then give no edits and no files",
    )
    words: tuple[Word, ...] | None = Field(
        default=None,
        max_length=30,
        description=(
            "arguments for the command of these arms that replace those of the data plan; null: keep the plan's"
        ),
    )
    edits: tuple[SourceEdit, ...] = Field(default=(), description="changes of existing files")
    files: tuple[WholeFile, ...] = Field(default=(), description="whole files: new or rewritten ones")


class Patches(HandIn):
    """Patches that make the arms of a repository."""

    title: str = Field(default="", description="up to ten words")
    plan: str = Field(default="", description="description of the experiment and its purpose, in a few sentences")
    varies: str = Field(default="", description="the one thing that distinguishes this node, e.g. 'a wider network'")
    patches: tuple[ArmPatch, ...] = Field(default=(), max_length=20)
    arms: tuple[str, ...] = Field(
        default=(), description="names of arms in addition to those of the data plan, such as that of an ablation"
    )
    nothing_left: str = Field(
        default="", description="only if your task offers it: why nothing is worth trying; then give nothing else"
    )

    def list_added_arms(self, inputs: AuthorInputs) -> tuple[str, ...]:
        """Return the arms made in addition to those of the data plan: those of an ablation, or of a node that fixes
        one.
        """
        return list_added_arms(inputs, self.arms)


class PatchingInputs(AuthorInputs, CoderInputs):
    result: ClassVar[type[HandIn]] = Patches
    task: AuthorTask = "arms"
    repository: ShownRepository
    start: str = Field(default="", description="the arm with whose files the scratch copy starts; empty: the baseline")
    made: tuple[ShownArm, ...] = Field(default=(), description="arms of the starting node")
    changed: tuple[ShownFile, ...] = Field(
        default=(), description="files that these patches change, in their patched state"
    )


def check_patches(inputs: PatchingInputs, answer: Patches) -> None:
    """Raise `ValueError` if patches do not fit the task."""
    if answer.nothing_left and inputs.covered:
        return
    if not answer.patches:
        raise ValueError("no patch was written, and this task requires one")
    if not (answer.title and answer.plan and answer.varies):
        raise ValueError("title, plan and varies must describe the patches: give all three")
    check_added_arms(inputs, answer.list_added_arms(inputs), named=inputs.kind == "ablate")
