"""Events of the study of a user's repository: import, reproduction, and ablation of its parts."""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import Field, model_validator

from labwright.record.errors import UsageError
from labwright.record.events.event import Event
from labwright.record.schema.idea import ExperimentDesign
from labwright.record.schema.repository import (
    BaselineVerdict,
    EnvironmentDeviation,
    ExpectedResult,
    MutationOutcome,
    PartResult,
    PartWay,
    RepositoryCommand,
    RepositoryPart,
    SameSeed,
    UnexaminedPart,
)


class RepositoryImported(Event, type="code_taken", latest="repository.imported"):
    """The repository was copied: its HEAD, or a commit that includes the uncommitted changes."""

    repository: str = Field(description="folder as given by the user")
    commit: str
    tree: str
    snapshot: bool = False
    files: int
    bytes: int
    faults: tuple[str, ...] = Field(default=(), description="content that git does not have: submodules, files in LFS")


class EnvironmentBuilt(Event, type="environment_built", latest="repository.environment"):
    """The environment in which commands of the repository run."""

    python: str = Field(description="Python version")
    packages: dict[str, str] = Field(default_factory=dict, description="packages installed alongside, name -> version")
    deviations: tuple[EnvironmentDeviation, ...] = ()
    mounts: dict[str, str] = Field(default_factory=dict, description="name -> fingerprint of the mounted content")
    device: str = "cpu"


class CommandFound(Event, type="command_found", latest="repository.command"):
    """The command that produces the result was determined."""

    command: RepositoryCommand
    expected: ExpectedResult | None = None
    by: Literal["person", "model"]
    why: str = Field(default="", description="remark on the command")


class RepairMade(Event, type="repaired", latest="repository.repair"):
    """An author made the command run, once in a study."""

    failure: str = Field(default="", description="message of the failed run; empty: nothing was run before")
    reason: str
    command: RepositoryCommand = Field(description="the command with the repair")
    pins: tuple[str, ...] = Field(default=(), description="packages to install")
    patch: str = Field(default="", description="unified diff of the repository's files")
    tree: str = Field(description="tree with the repair")
    commit: str = ""

    @model_validator(mode="before")
    @classmethod
    def _refuse_earlier_form(cls, stored: Any) -> Any:
        if isinstance(stored, dict) and "repair" in stored:  # it had neither the whole command nor a patch
            raise UsageError(
                "another version of scientist recorded a repair of the repository, which this one cannot read: open "
                "the run with that version, or start another"
            )
        return cast(Any, stored)


class BaselineChecked(Event, type="baseline_checked", latest="repository.baseline"):
    """The unmodified repository was run with its seeds and compared with the reported value."""

    tree: str
    node: str = Field(default="", description="node of the unmodified repository, with its repairs, in an ablation")
    seeds: tuple[int, ...] = Field(default=(), description="seeds of that node and its replicates")
    mean: float | None
    spread: float | None
    verdict: BaselineVerdict
    same_seed: SameSeed | None = Field(default=None, description="None: it was not run twice")
    seconds: float | None = Field(default=None, description="run time, if there was only one run")
    why: str = Field(default="", description="why it failed")

    @property
    def is_exact(self) -> bool:
        """Whether one run of a variant is enough, since the command does not vary."""
        return self.same_seed == "does not vary"


class PartsFound(Event, type="parts_found", latest="ablation.parts"):
    """Parts that can be ablated, and excluded candidates with reasons."""

    parts: tuple[RepositoryPart, ...]
    rest: tuple[UnexaminedPart, ...] = ()
    whole: PartWay | None = Field(default=None, description="how the whole model is disabled")
    budget: int = Field(description="maximum number of runs in total, including the baseline")
    why: str = Field(default="", description="how the author chose the parts, or why there are none")

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_form(cls, stored: Any) -> Any:
        if isinstance(stored, dict) and "floors" in stored:  # at most one
            return {name: one for name, one in cast("dict[str, Any]", stored).items() if name != "floors"} | {
                "whole": next(iter(stored["floors"]), None)
            }
        return cast(Any, stored)


class MutationTried(Event, type="patched", latest="ablation.tried_mutations", by="part way"):
    """One mutation that removes a part was tried with one seed."""

    part: str
    way: int = Field(ge=0, description="index of the part's mutation")
    node: str = Field(default="", description="node that ran it; empty: it could not be run")
    gate: MutationOutcome
    why: str = ""


class AblationsConcluded(Event, type="ablations_settled", latest="ablation.results"):
    """The results of the ablations."""

    results: tuple[PartResult, ...]
    top: tuple[str, ...] = Field(description="the most important parts by fresh seeds, in order")
    runs: int
    stopped: str = Field(default="", description="why parts have no verdict: a limit, or the budget of runs")


class QuestionDesigned(Event, type="question_designed", latest="question.design"):
    """The experiment for a question was designed, before any file is changed."""

    design: ExperimentDesign


class QuestionAnswered(Event, type="question_answered", latest="question.answer"):
    """The conclusion, whose numbers the program printed."""

    conclusion: str = Field(description="empty: there is no answer")
    source: str = Field(default="", description="the conclusion with the keys of its numbers")
    why: str = ""
