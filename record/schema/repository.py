"""A user's repository: how its result is made, what came of each run of it, its parts, and what taking one out does.

A `tree` is named by git's own id of it, so that equal files are one tree whatever commits and patches led there.

Source: AblateCell (arXiv; sections on reproduction and ablation), and where it is silent docs/repositories.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import Failure

MetricDirection = Literal["max", "min"]


class ExpectedResult(FrozenModel):
    """What the repository's authors report, and how far from it still counts as the same. Both in the metric's unit."""

    value: float
    tolerance: float = Field(ge=0)


class RepositoryCommand(FrozenModel):
    """How the repository's result is made. Words may hold {seed}, {out} and {device}.

    `seeded`: whether the seed reaches it; where it does not, runs are compared unpaired.
    """

    argv: tuple[str, ...] = Field(min_length=1, description="the first word `python` stands for its interpreter")
    env: dict[str, str] = Field(default_factory=dict, description="variables beside those that every run has")
    metric: str = Field(description="FILE.json:a.b, FILE.csv:column@last, tb:DIR:tag@last or stdout:REGEX")
    direction: MetricDirection = "max"
    scale: float = Field(default=1.0, description="what the number that is read is multiplied with")
    seeded: bool = True

    def build_argv(self, seed: int, *, out: str = "out", device: str = "cpu", extra: tuple[str, ...] = ()) -> list[str]:
        """The command line of one run."""
        known = {"{seed}": str(seed), "{out}": out, "{device}": device}
        return [re.sub(r"\{(?:seed|out|device)\}", lambda one: known[one[0]], word) for word in (*self.argv, *extra)]


class RepositoryEdit(FrozenModel):
    """A piece of a file, and what takes its place; the piece occurs exactly once. Without one: a new file."""

    path: str
    old: str = ""
    new: str = ""


class EnvironmentDeviation(FrozenModel):
    """Where the environment is not what the repository asks for."""

    wanted: str
    found: str = Field(description="empty: it is not there")


class CommandRun(FrozenModel):
    """One run of the command in a tree: a cell of the study. Its folder below the record's is `runs/<id>`."""

    id: str = Field(pattern=r"^[0-9a-f]{24}$", description="the beginning of its key")
    key: str = Field(description="sha256 of tree, words, environment, data, kind of device, seed and repeat")
    tree: str = Field(description="git's id of the files that ran")
    argv: tuple[str, ...]
    seed: int
    repeat: int = Field(default=0, ge=0, description="which run of the same tree, words and seed")
    seconds: float = Field(ge=0)
    value: float | None = Field(default=None, description="the metric; None where the run failed")
    note: str = Field(default="", description="what is to be known of how the value was read")
    failure: Failure | None = None
    stdout_tail: str = ""
    reached: tuple[str, ...] = Field(default=(), description="of a smoke run: `path:line` that were executed")
    peak_host_bytes: int | None = None


RepairKind = Literal["pythonpath", "patch", "pins", "argv", "env"]


class RepositoryRepair(FrozenModel):
    """One change after which the command goes on further than before."""

    kind: RepairKind
    reason: str
    edits: tuple[RepositoryEdit, ...] = ()
    argv: tuple[str, ...] = Field(default=(), description="the whole command line, where it is changed")
    env: dict[str, str] = Field(default_factory=dict)
    pins: tuple[str, ...] = ()


BaselineVerdict = Literal["reproduced", "differs", "unchecked", "failed"]
SameSeed = Literal["same digits", "differs", "unseeded"]

PartKind = Literal["optional", "one of several", "shape-preserving"]
MutationKind = Literal["option", "override", "drop", "zero", "identity", "replace"]


class RepositoryMutation(FrozenModel):
    """One way to take a part out: words added to the command, or edits of files."""

    kind: MutationKind
    what: str = Field(description="in words: `--no-gust`, `returns its argument p`")
    words: tuple[str, ...] = ()
    edits: tuple[RepositoryEdit, ...] = ()


class RepositoryPart(FrozenModel):
    """Something of the repository that a run can be made without."""

    name: str
    kind: PartKind
    path: str
    symbol: str = Field(description="function, class or method in that file; of an option its name")
    line: int = Field(ge=1)
    why: str = Field(default="", description="what it is, of one that a reader added")
    prior: float = Field(default=0.5, ge=0, le=1, description="how much it is believed to matter, before any run")
    mutations: tuple[RepositoryMutation, ...] = Field(description="in the order in which they are tried")


class UnexaminedPart(FrozenModel):
    """What is not ablated, and why: plumbing that everything passes through, decoys, or parts beyond the budget."""

    name: str
    why: str
    kind: Literal["plumbing", "decoy", "budget"]


MutationOutcome = Literal[
    "no change",
    "out of scope",
    "unverified",
    "not reached",
    "no effect",
    "failed",
    "at the floor",
    "breaks the program",
    "changes what is scored",
    "moved",
]
PartClassification = Literal[
    "critical",
    "helps",
    "no measurable difference",
    "harmful",
    "no effect",
    "not reached",
    "not measured",
    "breaks the program",
    "changes what is scored",
    "unknown",
]
"""`breaks the program`: nothing of the model is left; `changes what is scored`: it makes what predictions are held
against. Neither is an importance of a part, and neither is ranked."""


def format_command_line(argv: Iterable[str]) -> str:
    """A command line as a shell reads it, its placeholders as they are."""
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./{}-]+", word) else shlex.quote(word) for word in argv)


class PartResult(FrozenModel):
    """What is reported of a part. An effect is positive where the part helps, whatever the metric's direction."""

    part: str = Field(description="one, or several joined by + that were taken out together")
    mutation: str
    where: str = Field(description="`path:line`")
    n: int = Field(description="pairs of runs: on fresh seeds, or of the search where `flag` says so")
    mean: float | None
    relative: float | None = Field(default=None, description="to the baseline's mean")
    low: float | None = None
    high: float | None = None
    p: float | None = Field(default=None, description="of the paired t test, after Holm over all that is tested")
    called: PartClassification
    detectable: float | None = Field(default=None, description="the smallest effect that 4 of 5 such studies find")
    flag: str = ""
    found_with: int = Field(default=0, description="runs of the search, which are not among the n")
    runs: tuple[str, ...] = Field(default=(), description="ids of the runs behind the mean, the baseline's last")
