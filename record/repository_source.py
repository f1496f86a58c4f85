"""Source files of a node whose cells run a command of the user's repository: the command, and the changes of each arm.

`code.json` specifies the command, `arms/<arm>.json` the additional words, and `arms/<arm>.diff` the changed files as
git's unified diff from the tree in `code.json`. A cell sees only the files of its own arm
(`record.source_tree.select_visible_files`), so changing another arm does not change its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import Arm
from labwright.record.schema.frozen_model import FrozenModel, Scalar
from labwright.record.schema.repository import RepositoryCommand
from labwright.record.source_tree import ENTRY_FILE, format_arm_path

CODE_FILE = "code.json"
ENTRY_TEXT = '''"""Each cell is one run of the command in code.json, in the repository as arms/<arm>.json changes it.

No kernel runs this file: the program checks the tree out, runs the command and reads the metric that it left.
"""
'''


class ArmCode(FrozenModel):
    """The changes that define an arm of the repository."""

    words: tuple[str, ...] = Field(
        default=(), description="words added to the command: options, or overrides key=value"
    )
    patch: str = Field(
        default="", exclude=True, description="diff from the common base tree; stored in a separate file"
    )


class ScriptResults(FrozenModel):
    """The results of a script that measures several arms by itself: JSON {metric: {arm: [value of a seed, ...]}}."""

    file: str
    metrics: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: int = Field(description="values that each arm needs on each metric")
    first_seed: int = Field(default=0, description="seed of the first value")


class RepositoryProgram(FrozenModel):
    """The common part of all cells of a program."""

    commit: str
    tree: str = Field(description="git id of the base tree")
    command: RepositoryCommand
    name: str = Field(description="name of its metric in the plan")
    predictions: str = Field(
        default="", description="file of predictions that the host scores, instead of both metrics"
    )
    test_metric: str = Field(default="", description="read by the host, sealed with the cell until the search ends")
    environment: str = Field(default="", description="sha256 of interpreter, packages and mounted data")
    results: ScriptResults | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="what the command measures, instead of metrics",
    )
    traced: bool = Field(
        default=False,
        exclude_if=lambda value: not value,
        description="whether runs record the functions that are called (`sandbox.repository.trace`)",
    )
    levels: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="level -> words")
    dimensions: dict[str, str] = Field(
        default_factory=dict, description="hyperparameter -> the word that sets it, containing {value}"
    )

    def build_words(self, arm: ArmCode, cell: Cell, setting: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Return the words of a cell's arm, level and setting, in that order."""
        own = (
            self.dimensions.get(name, f"{name}={{value}}").replace("{value}", str(value))
            for name, value in setting.items()
        )
        return (*arm.words, *self.levels.get(cell.level, ()), *(word for text in own for word in text.split()))


def build_program(
    planned: Sequence[Arm], code: RepositoryProgram, arms: Mapping[str, ArmCode] | None = None
) -> dict[str, str]:
    """Return the files of a program that measures every arm of a plan; by default each arm only has the plan's
    words."""
    files = {ENTRY_FILE: ENTRY_TEXT, CODE_FILE: code.model_dump_json(indent=1) + "\n"}
    made = {arm.name: ArmCode(words=arm.words) for arm in planned} if arms is None else arms
    for name, one in made.items():
        files[format_arm_path(name, ".json")] = one.model_dump_json(indent=1) + "\n"
        if one.patch:
            files[format_arm_path(name, ".diff")] = one.patch
    return files


def parse_program(source: Mapping[str, str]) -> RepositoryProgram | None:
    """Parse the program of a source; None if it is not a repository program."""
    return RepositoryProgram.model_validate_json(source[CODE_FILE]) if CODE_FILE in source else None


def parse_arm_code(source: Mapping[str, str], arm: str) -> ArmCode:
    """Parse the changes of an arm; without its file, the unmodified repository."""
    words = source.get(format_arm_path(arm, ".json"))
    made = ArmCode() if words is None else ArmCode.model_validate_json(words)
    return made.model_copy(update={"patch": source.get(format_arm_path(arm, ".diff"), "")})


OUTPUT_FOLDER = "out"
"""The folder in the checkout that `{out}` stands for; it is emptied before each run."""
OVERRIDES_PLACEHOLDER = "{overrides}"
"""Placeholder in a command for the words of arms, levels and trials."""


def build_command_line(
    command: RepositoryCommand, seed: int, words: Sequence[str] = (), *, device: str = "cpu"
) -> list[str]:
    """Return the command with additional words.

    They replace `{overrides}`; otherwise overrides (`key=value`) follow the existing ones, and options come last.
    """
    argv = list(command.argv)
    if OVERRIDES_PLACEHOLDER in argv:
        at = argv.index(OVERRIDES_PLACEHOLDER)
        argv[at : at + 1] = words
    else:
        overrides = [word for word in words if word.startswith("~") or (not word.startswith("-") and "=" in word)]
        at = max(
            (at + 1 for at, word in enumerate(argv) if "=" in word and not word.startswith("-")), default=len(argv)
        )
        argv[at:at] = overrides
        argv += [word for word in words if word not in overrides]
    return command.model_copy(update={"argv": tuple(argv)}).build_argv(seed, out=OUTPUT_FOLDER, device=device)
