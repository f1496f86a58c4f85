"""Answers of the offline model about a repository: it reads none, keeps what rules found, and adds nothing."""

from __future__ import annotations

from labwright.models.errors import CatalogueError
from labwright.models.roles.repository import (
    CommandChoice,
    CommandInputs,
    PartNote,
    PartsAnswer,
    PartsInputs,
    PatchAnswer,
    PatchCheck,
    PatchCheckInputs,
    PatchInputs,
    RepairAnswer,
    RepairInputs,
)


def answer_command(inputs: CommandInputs) -> CommandChoice:
    """Return the user's command, else the first one that the code confirms. Raises `CatalogueError`."""
    words = inputs.command or next((one.words for one in inputs.candidates if not one.wrong), ())
    if not words or not inputs.metric:
        lacking = "--metric" if words else "--command"
        raise CatalogueError(f"the offline model reads no documents: give {lacking}, or name a model with --model")
    return CommandChoice(words=words, metric=inputs.metric, direction="max", why="found by rule")


def answer_repair(inputs: RepairInputs) -> RepairAnswer:
    return RepairAnswer(repair=None, why="the offline model knows no repair beyond the rule-based ones")


def answer_parts(inputs: PartsInputs) -> PartsAnswer:
    return PartsAnswer(parts=tuple(PartNote(name=one.name, prior=0.5) for one in inputs.parts))


def answer_part_patch(inputs: PatchInputs) -> PatchAnswer:
    return PatchAnswer(edits=(), what="the offline model writes no patch")


def answer_patch_check(inputs: PatchCheckInputs) -> PatchCheck:
    return PatchCheck(agrees=False, why="the offline model reads no patch")
