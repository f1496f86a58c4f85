"""A user's repository is taken in, its result made again, and its parts taken out one by one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from labwright.record.events.run_events import LOG_FORMAT_VERSION
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.repository import (
    BaselineVerdict,
    CommandRun,
    EnvironmentDeviation,
    ExpectedResult,
    MutationOutcome,
    PartResult,
    RepositoryCommand,
    RepositoryMutation,
    RepositoryPart,
    RepositoryRepair,
    SameSeed,
    UnexaminedPart,
)
from labwright.record.schema.research_question import ExperimentDesign, QuestionRun, ResearchQuestion

CommandPurpose = Literal["repair", "baseline", "trace", "search", "joint", "confirm"]


class RepositoryImported(FrozenModel):
    """The repository was copied, as its HEAD is or with uncommitted work as a commit of ours."""

    type: Literal["code_taken"] = "code_taken"
    format: int = LOG_FORMAT_VERSION
    repository: str = Field(description="the folder, as the person gave it")
    commit: str
    tree: str
    snapshot: bool = False
    files: int
    bytes: int
    faults: tuple[str, ...] = Field(default=(), description="what git does not hold: submodules, files in LFS")
    settings: dict[str, Any] = Field(default_factory=dict)
    version: str = ""
    model: str = ""
    isolation: str = ""


class EnvironmentBuilt(FrozenModel):
    """What its commands run with."""

    type: Literal["environment_built"] = "environment_built"
    how: Literal["given", "interpreter", "beside"] = Field(
        description="an interpreter that was named, ours, or ours with packages installed beside"
    )
    python: str = Field(description="version")
    packages: dict[str, str] = Field(default_factory=dict, description="installed beside, name -> version")
    folders: tuple[str, ...] = Field(default=(), description="of the repository, from which it imports")
    deviations: tuple[EnvironmentDeviation, ...] = ()
    mounts: dict[str, str] = Field(default_factory=dict, description="name -> fingerprint of what lies there")
    device: str = "cpu"


class CommandFound(FrozenModel):
    """The command that makes the result."""

    type: Literal["command_found"] = "command_found"
    command: RepositoryCommand
    expected: ExpectedResult | None = None
    by: Literal["person", "repository", "model"]
    why: str = Field(default="", description="where it stands, and what was wrong with others")


class RepairTried(FrozenModel):
    """A repair was tried after a failed run: it is kept where the program then got past what stopped it."""

    type: Literal["repaired"] = "repaired"
    signature: str = Field(description="what stopped the program")
    repair: RepositoryRepair
    by: Literal["rule", "model"]
    tree: str = Field(description="the files with it")
    commit: str = ""
    kept: bool
    then: str = Field(default="", description="what stops it now; empty: nothing")


class BaselineChecked(FrozenModel):
    """The repository as it is, over its seeds, beside what its authors report."""

    type: Literal["baseline_checked"] = "baseline_checked"
    tree: str
    runs: tuple[str, ...]
    mean: float | None
    spread: float | None
    verdict: BaselineVerdict
    same_seed: SameSeed | None = Field(default=None, description="None: it was not run twice")
    seconds: float | None = Field(default=None, description="of one run, where there was one alone")
    why: str = Field(default="", description="it failed: what stopped it")


class PartsFound(FrozenModel):
    """What can be taken out, and what is not and why."""

    type: Literal["parts_found"] = "parts_found"
    parts: tuple[RepositoryPart, ...]
    rest: tuple[UnexaminedPart, ...] = ()
    floors: tuple[RepositoryMutation, ...] = Field(default=(), description="edits that leave nothing of the model")
    budget: int = Field(description="runs that may be made in all, the baseline's among them")


class MutationTried(FrozenModel):
    """One way to take a part out was tried at one seed, and what came of it."""

    type: Literal["patched"] = "patched"
    part: str
    way: int = Field(ge=0, description="which of the part's mutations")
    tree: str
    gate: MutationOutcome
    why: str = ""


class CommandEnded(FrozenModel):
    """A run of the command ended."""

    type: Literal["command_ended"] = "command_ended"
    run: CommandRun
    purpose: CommandPurpose
    parts: tuple[str, ...] = Field(default=(), description="what was taken out")


class AblationsConcluded(FrozenModel):
    """What is reported."""

    type: Literal["ablations_settled"] = "ablations_settled"
    results: tuple[PartResult, ...]
    top: tuple[str, ...] = Field(description="the most important parts, in order")
    runs: int
    agreement: float | None = Field(default=None, description="of ranks by proxy and full command: Kendall's tau")
    stopped: str = Field(default="", description="why the search ended before it was separated or spent")


class QuestionDesigned(FrozenModel):
    """How a question will be answered, before any file is changed."""

    type: Literal["question_designed"] = "question_designed"
    question: ResearchQuestion
    design: ExperimentDesign


class QuestionRunEnded(FrozenModel):
    """A try at the experiment ran; number 0: the repository as it is."""

    type: Literal["question_ran"] = "question_ran"
    number: int = Field(ge=0)
    run: QuestionRun


class QuestionAnswered(FrozenModel):
    """The conclusion. `bound`: whether each of its numbers and directions follows from what was measured."""

    type: Literal["question_answered"] = "question_answered"
    conclusion: str = Field(description="empty: there is no answer")
    bound: bool = False
    why: str = ""


RepositoryEvent = (
    RepositoryImported
    | EnvironmentBuilt
    | CommandFound
    | RepairTried
    | BaselineChecked
    | PartsFound
    | MutationTried
    | CommandEnded
    | AblationsConcluded
    | QuestionDesigned
    | QuestionRunEnded
    | QuestionAnswered
)
