"""A node's source where its cells are runs of a repository's command: what is run, and what makes each arm of it.

`code.json` says what is run, `arms/<arm>.json` with which words, and `arms/<arm>.diff` in which files: git's unified
diff from the tree that `code.json` names. A cell sees the files of its own arm alone
(`record.source_tree.visible_files`), so that another arm's change leaves its key as it is.
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
    """What makes an arm of the repository."""

    words: tuple[str, ...] = Field(default=(), description="added to the command: options, or overrides key=value")
    patch: str = Field(default="", exclude=True, description="from the files that all arms start from; a file beside")


class RepositoryProgram(FrozenModel):
    """What every cell of a program runs."""

    commit: str
    tree: str = Field(description="git's id of the files that edits start from")
    command: RepositoryCommand
    name: str = Field(description="of the metric that it gives, as the plan calls it")
    predictions: str = Field(default="", description="in place of both metrics: the file that the host scores")
    test_metric: str = Field(default="", description="read by the host, sealed with the cell until the search is over")
    environment: str = Field(default="", description="sha256 of interpreter, packages and mounted data")
    levels: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="level -> words")
    dimensions: dict[str, str] = Field(default_factory=dict, description="hyperparameter -> its word, with {value}")

    def build_words(self, arm: ArmCode, cell: Cell, setting: Mapping[str, Scalar]) -> tuple[str, ...]:
        """The words of a cell's arm, level and setting, in that order."""
        own = (
            self.dimensions.get(name, f"{name}={{value}}").replace("{value}", str(value))
            for name, value in setting.items()
        )
        return (*arm.words, *self.levels.get(cell.level, ()), *(word for text in own for word in text.split()))


def build_program(
    planned: Sequence[Arm], code: RepositoryProgram, arms: Mapping[str, ArmCode] | None = None
) -> dict[str, str]:
    """The files of the program that measures every arm of a plan; without `arms` the plan's words make each."""
    files = {ENTRY_FILE: ENTRY_TEXT, CODE_FILE: code.model_dump_json(indent=1) + "\n"}
    made = {arm.name: ArmCode(words=arm.words) for arm in planned} if arms is None else arms
    for name, one in made.items():
        files[format_arm_path(name, ".json")] = one.model_dump_json(indent=1) + "\n"
        if one.patch:
            files[format_arm_path(name, ".diff")] = one.patch
    return files


def parse_program(source: Mapping[str, str]) -> RepositoryProgram | None:
    """What a program runs; None where it is no repository's."""
    return RepositoryProgram.model_validate_json(source[CODE_FILE]) if CODE_FILE in source else None


def parse_arm_code(source: Mapping[str, str], arm: str) -> ArmCode:
    """What makes an arm; the repository as it is where the program has no file for it."""
    words = source.get(format_arm_path(arm, ".json"))
    made = ArmCode() if words is None else ArmCode.model_validate_json(words)
    return made.model_copy(update={"patch": source.get(format_arm_path(arm, ".diff"), "")})


OUTPUT_FOLDER = "out"
"""What `{out}` stands for: a folder of the checkout, empty before each run."""
OVERRIDES_PLACEHOLDER = "{overrides}"
"""Where words of arms, levels and trials go in a command that says so."""


def build_command_line(
    command: RepositoryCommand, seed: int, words: Sequence[str] = (), *, device: str = "cpu"
) -> list[str]:
    """The command with more words: in place of `{overrides}`, else overrides (`key=value`) beside those that it has
    and options at its end."""
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
