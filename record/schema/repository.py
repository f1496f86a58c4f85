"""A user's repository: its command, runs of it, its parts, and the results of ablating them.

A `tree` is identified by its git id, so equal files have equal trees, independent of the commits and patches that led
to them.

Source: AblateCell (arXiv; sections on reproduction and ablation); docs/repositories.md covers the points that
it leaves open.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import Arm, DataPlan, Hyperparameter, Level

MetricDirection = Literal["max", "min"]


class ExpectedResult(FrozenModel):
    """The result that the authors report, and the tolerance for reproducing it, both in the metric's unit."""

    value: float
    tolerance: float = Field(ge=0)


class RepositoryCommand(FrozenModel):
    """The command that produces the repository's result. Words may contain {seed}, {out} and {device}.

    The command may begin with `cd FOLDER &&`.
    """

    argv: tuple[str, ...] = Field(min_length=1, description="the first word `python` stands for its interpreter")
    env: dict[str, str] = Field(default_factory=dict, description="variables in addition to those of every run")
    metric: str = Field(
        description="FILE.json:a.b, FILE.csv:column@last, FILE.txt:REGEX, stdout:REGEX, output:REGEX, or for scored "
        "predictions predictions:FILE@METRIC, without METRIC if the plan has the metrics"
    )
    direction: MetricDirection = "max"

    @property
    def seeded(self) -> bool:
        """Whether it takes a seed; otherwise runs are compared unpaired."""
        return any("{seed}" in word for word in self.argv)

    @property
    def metric_name(self) -> str:
        """Name under which the metric is measured: its key, its column, its tag, or the text before it."""
        kind, _, rest = self.metric.partition(":")
        if kind in ("stdout", "output") or ("." in kind and not kind.endswith((".json", ".csv", ".tsv", ".jsonl"))):
            before = re.split(r"\((?!\?)", rest)[0]  # up to the group that is the number
            literal = re.sub(r"\\.[+*?]?|\[[^\]]*\][+*?]?|\(\?[^)]*\)[+*?]?|\.[+*?]", "\0", before)
            words = re.findall(r"[A-Za-z][\w@/. -]*", literal)
            return words[-1].strip(" -") if words else "metric"
        if kind == "predictions":
            return rest.rpartition("@")[2]
        return rest.partition("@")[0]

    @property
    def predictions(self) -> str:
        """FILE[:COLUMN] of the predictions that the program scores; empty: it reads the metric."""
        kind, _, rest = self.metric.partition(":")
        return rest.rpartition("@")[0] if kind == "predictions" else ""

    def build_argv(self, seed: int, *, out: str = "out", device: str = "cpu") -> list[str]:
        """Return the command line of one run."""
        folder, _ = split_folder(self.argv)
        known = {"{seed}": str(seed), "{out}": posixpath.relpath(out, folder) if folder else out, "{device}": device}
        return [re.sub(r"\{(?:seed|out|device)\}", lambda one: known[one[0]], word) for word in self.argv]


class RepositoryEdit(FrozenModel):
    """A string in a file, which must occur exactly once, and its replacement. Without `old`, it is a new file."""

    path: str
    old: str = ""
    new: str = ""


def build_edit(path: str, before: str, after: str) -> RepositoryEdit:
    """Build the edit that turns one string into another: the lines that differ, with enough context to be unique."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first, last = len(posixpath.commonprefix([old, new])), len(posixpath.commonprefix([old[::-1], new[::-1]]))
    last = min(last, len(old) - first, len(new) - first)
    while True:
        piece = "".join(old[first : len(old) - last])
        if piece and before.find(piece) == before.rfind(piece):  # overlapping matches included
            return RepositoryEdit(path=path, old=piece, new="".join(new[first : len(new) - last]))
        if not first and not last:
            return RepositoryEdit(path=path, old=before, new=after)
        first, last = max(0, first - 1), max(0, last - 1)


class EnvironmentDeviation(FrozenModel):
    """A difference between the environment and what the repository requires."""

    wanted: str
    found: str = Field(description="empty: not available")


BaselineVerdict = Literal["reproduced", "differs", "unchecked", "failed"]
SameSeed = Literal["same digits", "differs", "unseeded", "does not vary"]
"""`does not vary`: the command sets no seed, and all its runs gave the same digits."""


Word = Annotated[str, Field(min_length=1, max_length=500)]


class PartWay(FrozenModel):
    """One way to take a part out: words added to the command, edits of files, or both."""

    what: str = Field(min_length=1, max_length=200, description="in words: `--no-gust`, `ln_1 is the identity`")
    words: tuple[Word, ...] = Field(default=(), max_length=20)
    edits: tuple[RepositoryEdit, ...] = Field(default=(), max_length=12)


class ProposedPart(FrozenModel):
    """A part of the method that can be taken out. The ways are tried in their order."""

    name: str = Field(min_length=1, max_length=60, description="short, unique, as the code calls it")
    path: str = Field(description="file in which it is")
    symbol: str = Field(description="function, class, Class.method, option or key in that file")
    why: str = Field(min_length=1, max_length=300, description="what it does in the method")
    prior: float = Field(ge=0, le=1)
    ways: tuple[PartWay, ...] = Field(min_length=1, max_length=3)


class RepositoryPart(ProposedPart):
    """A part as it is recorded: with its line."""

    line: int = Field(ge=1)


class UnexaminedPart(FrozenModel):
    """A candidate that is not ablated, with the reason: the author left it out, or it is beyond the budget."""

    name: str
    why: str
    kind: Literal["author", "budget"]


UnrankedOutcome = Literal["breaks the program", "changes what is scored"]
"""`breaks the program`: nothing of the model is left; `changes what is scored`: the part creates the targets against
which predictions are scored. Neither measures importance, so neither is ranked."""
MeasuredEffect = Literal["critical", "helps", "no measurable difference", "harmful", "negligible"]
"""`negligible`: less than another seed changes."""
MutationOutcome = Literal["no change", "not reached", "no effect", "failed", "at the floor", UnrankedOutcome, "moved"]
PartClassification = Literal[MeasuredEffect, "no effect", "not reached", "not measured", UnrankedOutcome, "unknown"]


def split_folder(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Split `cd FOLDER && COMMAND` into the folder, empty if there is none, and the words of the command."""
    is_inside = len(argv) > 3 and argv[0] == "cd" and argv[2] == "&&"
    return (argv[1], argv[3:]) if is_inside else ("", argv)


def format_command_line(argv: Iterable[str]) -> str:
    """Format a command line for a shell, leaving placeholders and `&&` unquoted."""
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./{}-]+|&&", word) else shlex.quote(word) for word in argv)


class PartResult(FrozenModel):
    """The reported result of a part. An effect is positive if the part helps, regardless of the metric's direction."""

    part: str = Field(description="one part, or several joined by + and ablated together")
    node: str = Field(default="", description="node of the arm without the part; empty if no mutation worked")
    key: str = Field(default="", description="key of the effect, the difference to the baseline")
    mutation: str
    where: str = Field(description="`path:line`")
    n: int = Field(description="pairs of runs: on fresh seeds, or from the search if `flag` says so")
    fresh: bool = Field(default=False, description="whether these are enough for a verdict: fresh seeds, or exact")
    mean: float | None
    relative: float | None = Field(default=None, description="relative to the baseline's mean")
    low: float | None = None
    high: float | None = None
    p: float | None = Field(default=None, description="from the paired t test, Holm-corrected over all tested parts")
    called: PartClassification
    detectable: float | None = Field(default=None, description="smallest effect that 4 of 5 such studies would find")
    flag: str = ""


# User-defined study space of a repository's command: hyperparameters, arms and levels with their command-line words.

SpaceItem = TypeVar("SpaceItem", Hyperparameter, Arm, Level)


class CommandSpace(FrozenModel):
    """Items that every plan of the study must contain unchanged."""

    hyperparameters: tuple[Hyperparameter, ...] = Field(default=(), description="tuned hyperparameters, with words")
    arms: tuple[Arm, ...] = Field(default=(), description="arms with their words")
    levels: tuple[Level, ...] = Field(default=(), description="levels with their words")
    factor: str = Field(default="", description="the quantity that the levels vary")

    def __bool__(self) -> bool:
        return bool(self.hyperparameters or self.arms or self.levels)


_COMPARED_FIELDS = {
    "hyperparameter": ("word", "kind", "low", "high", "options", "default", "arms", "given", "among"),
    "arm": ("role", "words"),
    "level": ("value", "words"),
}
"""Fields that determine what is run, for comparing a plan with the space."""


def apply_space(plan: DataPlan, space: CommandSpace) -> tuple[DataPlan, tuple[str, ...]]:
    """Add missing items of a space to a plan, and return the contradictions between them, one sentence each."""
    faults: list[str] = []

    def merged(noun: str, ours: tuple[SpaceItem, ...], given: tuple[SpaceItem, ...]) -> tuple[SpaceItem, ...]:
        known = {one.name: one for one in ours}
        for one in given:
            other = known.setdefault(one.name, one)
            wanted = {field: getattr(one, field) for field in _COMPARED_FIELDS[noun]}
            lacking = {field: value for field, value in wanted.items() if getattr(other, field) in ("", (), None)}
            known[one.name] = other.model_copy(update=lacking)
            faults.extend(
                f"{noun} {one.name!r} has {field} {getattr(other, field)!r} in the plan but {value!r} in the space: "
                "use the same value, or define it in only one of them"
                for field, value in wanted.items()
                if field not in lacking and getattr(other, field) != value
            )
        return tuple(known.values())

    if space.factor and plan.factor not in ("", space.factor):
        faults.append(
            f"the plan's levels vary {plan.factor!r}, but those of the space vary {space.factor!r}: a study "
            "has one factor"
        )
    made = plan.model_copy(
        update={
            "space": merged("hyperparameter", plan.space, space.hyperparameters),
            "arms": merged("arm", plan.arms, space.arms),
            "levels": merged("level", plan.levels, space.levels),
            "factor": plan.factor or space.factor,
        }
    )
    return made, tuple(faults)
