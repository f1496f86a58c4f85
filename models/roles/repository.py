"""Questions about a user's repository: the command that produces its result, its repair, and the parts to remove."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.repository import MetricDirection, RepositoryEdit, RepositoryRepair

Word = Annotated[str, Field(min_length=1, max_length=500)]


class ShownFile(FrozenModel):
    """A file, or the part of it that is shown."""

    path: str
    text: str
    first: int = Field(default=1, description="number of its first line")
    whole: bool = True


class CommandLine(FrozenModel):
    """A command that may produce the result, and its faults."""

    words: tuple[str, ...]
    where: str
    wrong: str = ""


class CommandInputs(FrozenModel):
    documents: tuple[ShownFile, ...]
    files: tuple[str, ...]
    candidates: tuple[CommandLine, ...] = ()
    options: tuple[str, ...] = Field(default=(), description="options of its parsers, one per line, with the file")
    command: tuple[str, ...] = Field(default=(), description="the user's command, if given")
    metric: str = Field(default="", description="the user's metric, if given")
    complaints: tuple[str, ...] = ()


class CommandChoice(FrozenModel):
    """The command that produces a repository's main result, and the place from which the number is read."""

    words: tuple[Word, ...] = Field(
        min_length=2,
        max_length=60,
        description=("the command line, one word per entry, `python` first for a Python program"),
    )
    metric: str = Field(
        min_length=3,
        max_length=300,
        description=("FILE.json:a.b, FILE.csv:column@last, or stdout:REGEX with one group in parentheses"),
    )
    direction: MetricDirection = Field(description="whether higher (max) or lower (min) is better")
    expected: str = Field(
        default="",
        max_length=40,
        description=(
            "the value that the documents state, in the unit that is read, as 0.83 or 0.83±0.02; empty: they state none"
        ),
    )
    why: str = Field(min_length=1, max_length=600)


COMMAND = Role("command", CommandInputs, CommandChoice, temperature=0.2, prompt_tokens=30_000)


class TriedRepair(FrozenModel):
    reason: str
    kept: bool = False
    then: str = Field(
        description="error that stopped the program after this repair; empty if the earlier error is gone"
    )


class RepairInputs(FrozenModel):
    words: tuple[str, ...] = Field(description="the command line")
    metric: str
    stopped: str = Field(description="the message with which it stopped")
    output: str = Field(description="the end of its output")
    python: str
    packages: tuple[str, ...] = Field(default=(), description="name and version of the packages that it requires")
    shown: tuple[ShownFile, ...] = ()
    files: tuple[str, ...] = ()
    tried: tuple[TriedRepair, ...] = ()
    complaints: tuple[str, ...] = ()


class RepairAnswer(FrozenModel):
    """One repair, or the reason why there is none."""

    repair: RepositoryRepair | None = Field(description="one change; null: no permitted change would help")
    why: str = Field(min_length=1, max_length=600)


REPAIR = Role("repair", RepairInputs, RepairAnswer, temperature=0.2, prompt_tokens=40_000)


class FoundPart(FrozenModel):
    """A part found by a program."""

    name: str
    kind: str
    where: str
    ways: tuple[str, ...]
    excerpt: str = ""


class PartsInputs(FrozenModel):
    documents: tuple[ShownFile, ...]
    words: tuple[str, ...]
    metric: str
    parts: tuple[FoundPart, ...]
    others: tuple[str, ...] = Field(default=(), description="candidates not counted as parts, and why")
    symbols: tuple[str, ...] = Field(default=(), description="path:symbol of all functions that ran")
    most: int = Field(default=3, description="maximum number of parts to add")


class PartNote(FrozenModel):
    """A reader's assessment of a part."""

    name: str = Field(min_length=1, max_length=200, description="exactly as in the list")
    prior: float = Field(ge=0, le=1, description="expected drop of the result without it")
    drop: bool = Field(default=False, description="whether it is clearly not part of the method")
    why: str = Field(default="", max_length=300)


class AddedPart(FrozenModel):
    """A part that the list lacks."""

    name: str = Field(min_length=1, max_length=100)
    path: str
    symbol: str = Field(description="function, or Class.method, as among the functions that ran")
    prior: float = Field(ge=0, le=1)
    why: str = Field(min_length=1, max_length=300)


class PartsAnswer(FrozenModel):
    """The parts of a program that may be ablated."""

    parts: tuple[PartNote, ...] = Field(description="one for each listed part")
    added: tuple[AddedPart, ...] = Field(default=(), max_length=6)


def _check_all_parts(inputs: PartsInputs, answer: PartsAnswer) -> None:
    known, named = [one.name for one in inputs.parts], [one.name for one in answer.parts]
    if lacking := [name for name in known if name not in named]:
        raise ValueError(f"parts lacks {', '.join(lacking[:5])}: give one entry for each part of the list")
    if odd := [name for name in named if name not in known]:
        raise ValueError(f"parts names {', '.join(odd[:5])}, which is not in the list: new ones go into added")


PARTS = Role("parts", PartsInputs, PartsAnswer, temperature=0.3, prompt_tokens=40_000, check=_check_all_parts)


class PatchInputs(FrozenModel):
    part: str
    where: str
    why: str = Field(default="", description="description of the part, if a model gave one")
    tried: tuple[str, ...] = Field(default=(), description="earlier attempts to remove it, with their outcomes")
    shown: tuple[ShownFile, ...]
    callers: tuple[ShownFile, ...] = ()
    complaints: tuple[str, ...] = ()


class PatchAnswer(FrozenModel):
    """Edits that make the program run without a part, or the reason why there are none."""

    edits: tuple[RepositoryEdit, ...] = Field(max_length=8)
    what: str = Field(min_length=1, max_length=200, description="short description of how the part is removed")


PATCH = Role("part_patch", PatchInputs, PatchAnswer, temperature=0.3, prompt_tokens=30_000)


class PatchCheckInputs(FrozenModel):
    part: str
    where: str
    what: str
    difference: str


class PatchCheck(FrozenModel):
    """Whether a patch removes one part and nothing else."""

    agrees: bool = Field(description="whether the change removes this part, all of it and nothing else")
    why: str = Field(min_length=1, max_length=400)


PATCH_CHECK = Role("patch_check", PatchCheckInputs, PatchCheck, temperature=0.0, prompt_tokens=15_000)
