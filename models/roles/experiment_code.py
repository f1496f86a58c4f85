"""Write an experiment (`code`, or `coder` with tools). Also defines the inputs about the study, its nodes and their
runs that several roles share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from labwright.models.conversation import ToolCall
from labwright.models.roles.role import EnvironmentField, Role
from labwright.record.baseline_check import Ablation
from labwright.record.estimands import list_main_arms
from labwright.record.events.run_events import AUTHOR_ROLE
from labwright.record.machine import ComputeRate
from labwright.record.python_syntax import collect_attributes, collect_constants, collect_reads
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Node, NodeKind, SoundnessCheck, StageName, StageSummary
from labwright.record.source_tree import (
    ENTRY_FILE,
    PLOTS_FILE,
    SourceEdit,
    SourceTreeError,
    WholeFile,
    apply_edits,
    check_program,
    select_code,
)
from labwright.record.tuning_results import ChosenSetting

# An author of code: it works with tools and hands in a typed result (`models.author`).


class HandIn(FrozenModel):
    """A result of an author."""

    reasons: str = Field(
        min_length=1, max_length=2000, description="what you did and why, for the reader of the record"
    )


class CoderFact(FrozenModel):
    """Text that the program shows under a title."""

    title: str
    text: str


AuthorTask = Literal["prepare", "parts", "experiment", "arms", "conclusion", "program"]


class CoderInputs(FrozenModel):
    """A task of an author."""

    task: AuthorTask
    frozen: tuple[str, ...] = Field(default=(), description="patterns of files that may not change")
    known: tuple[CoderFact, ...] = Field(default=(), description="what the program knows already")
    surroundings: Annotated[str, EnvironmentField("")] = Field(default="", description="the machine and the limits")
    steps: int = Field(default=40, description="how many tools may be called")


CODER = Role(AUTHOR_ROLE, CoderInputs, ToolCall, temperature=0.2, max_tokens=16_384, prompt_tokens=60_000)


Seconds = Annotated[float, EnvironmentField(0.0)]
"""A time limit in seconds. A second limit in a prompt applies to the single retry after the first limit was
reached; 0: no retry.
"""
MeasuredRate = Annotated[ComputeRate | None, EnvironmentField(None)]
"""Speed of experiments on this machine; None: not measured."""


class StudyInputs(FrozenModel):
    """Inputs shared by every role that deals with the whole study; their prompts begin with `_study.md`."""

    idea: Idea
    data_plan: DataPlan
    facts: tuple[DatasetFacts, ...] = Field(default=(), description="the datasets as prepared")


class MetricChange(FrozenModel):
    """Changes of a metric from the first arm to the others at one level, or from the first level to the others for one
    arm."""

    dataset: str
    same: str = Field(description="level or arm that all these cells share; empty if there are no levels")
    name: str = Field(description="name of the metric")
    first: str = Field(description="the first arm, or level")
    value: float = Field(description="there")
    by: dict[str, float] = Field(description="other arm, or level -> its value minus that of the first")
    n: int = Field(default=1, description="number of runs averaged for each value")


class Tables(FrozenModel):
    """Differences computed from a node's values, and its self-reported values (`_tables.md`)."""

    arms: tuple[MetricChange, ...] = Field(
        default=(), description="the primary metric from the first arm to the others"
    )
    levels: tuple[MetricChange, ...] = Field(
        default=(), description="the primary metric from the first level to the others"
    )
    self_reported: tuple[Measurement, ...] = Field(default=(), description="last self-reported values on train and dev")


class NodeBrief(FrozenModel):
    """A node with its code: the node to start from, to ablate or to compare."""

    node: Node
    files: dict[str, str] = Field(default={}, description="path -> text; plots.py as last accepted")
    seconds: float | None = Field(default=None, description="wall-clock seconds; None if time decides nothing")
    seedless: bool = Field(default=False, description="whether its replicates gave equal values for every seed")
    settings: tuple[ChosenSetting, ...] = Field(
        default=(), description="settings of each arm with hyperparameters; only for programs with cells"
    )

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Return the names of its artifacts, for use in `lab.artifact`."""
        last = self.node.attempts[-1:]
        return tuple(sorted({file.partition("/")[0] for one in last for file in one.artifacts}))

    @property
    def code(self) -> dict[str, str]:
        """Return the files that ran as the experiment, entry file first."""
        return select_code(self.files)

    @property
    def experiment(self) -> str:
        return self.files.get(ENTRY_FILE, "")

    @property
    def non_plot_files(self) -> dict[str, str]:
        """Return all files except plots.py."""
        return {path: text for path, text in self.files.items() if path != PLOTS_FILE}

    @property
    def plots(self) -> str:
        return self.files.get(PLOTS_FILE, "")


class NodeLine(FrozenModel):
    """A node in one line: in a stage's table, or in the list of what was tried."""

    id: str
    kind: NodeKind
    varies: str
    status: str = ""
    outcome: str = Field(description="the primary metric by dataset and arm, or an error message")
    error: str | None = None
    analysis: str = Field(default="", description="the analysis from its verdict, for nodes that worked")
    checks: tuple[SoundnessCheck, ...] = Field(default=(), description="failed checks from its verdict")


class NodeInFlight(FrozenModel):
    """A node decided before this one, whose result may not be known yet."""

    id: str
    kind: NodeKind
    item: str = Field(default="", description="the agenda item or risk that it works on, if any")
    varies: str = Field(default="", description="for a draft: the design that it chose")


class RequiredMeasurements(FrozenModel):
    """The measurements required of a node of a stage: every condition of the data plan on every dataset."""

    datasets: tuple[str, ...]
    arms: tuple[str, ...] = Field(default=(), description="empty for an ablation, which has its own arm")
    levels: tuple[str, ...] = ()


class NodeInputs(StudyInputs):
    """Inputs shared by roles that make or judge a node."""

    stage: StageName
    kind: NodeKind
    item: str = Field(default="", description="the agenda item or risk that the node works on, if any")
    ablation: Ablation | None = Field(default=None, description="the planned ablation behind the item, if any")
    duty: RequiredMeasurements | None = Field(
        default=None, description="measurements required of this node; None: all that the data plan names"
    )
    floored: tuple[str, ...] = Field(
        default=(),
        description="one sentence for each hypothesis of which no arm is better than a constant prediction; to make a "
        "node, of its parent",
    )
    tables: Tables = Field(default=Tables(), description="tables of the node; to make a node, of its parent")


class AuthorInputs(NodeInputs):
    """Inputs shared by roles that make a node: its stage, the node it starts from, and what was tried."""

    goal: str
    arm: str = Field(default="", description="the arm that this node must improve, if any")
    covered: bool = Field(
        default=False,
        description="whether the plan says that its arms answer the item, or an earlier node worked on it; if so, the "
        "author may reply that nothing is worth trying",
    )
    others: tuple[Ablation, ...] = Field(
        default=(), description="the other planned ablations, which other authors write"
    )
    ordinal: int = Field(default=0, description="number of this proposal of its kind, from 0; each must differ")
    variation: int = Field(default=0, description="number of the branch, whose choices should differ; 0: none")
    parent: NodeBrief | None = None
    siblings: tuple[NodeLine, ...] = Field(default=(), description="the latest finished nodes")
    in_flight: tuple[NodeInFlight, ...] = Field(default=(), description="nodes being written at the same time")
    earlier: tuple[StageSummary, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="notes of the user")
    node_seconds: Seconds
    retry_seconds: Seconds = 0.0
    rate: MeasuredRate = None
    quiet_seconds: Annotated[float | None, EnvironmentField(None)] = Field(
        default=None,
        description="seconds without output, log or submission after which the run is stopped; None: never",
    )
    spare: Annotated[float | None, EnvironmentField(None)] = Field(
        default=None,
        description="share of the time limit that the parent used, if there is room for a harder experiment",
    )
    device: Annotated[str, EnvironmentField("")] = "cpu"  # or GPUs with memory and bf16 support
    network: Annotated[bool, EnvironmentField(False)] = False
    packages: Annotated[tuple[str, ...], EnvironmentField(())] = ()  # importable packages, with versions


class CodeInputs(AuthorInputs):
    studies: tuple[EarlierStudy, ...] = Field(
        default=(), description="for a draft: records of earlier runs, the code of the first shown in full"
    )
    lab_reference: str = Field(description="the documentation of `lab`, as text")
    pretrained: Annotated[tuple[str, ...], EnvironmentField(())] = ()  # for `lab.pretrained`, as OWNER/NAME@REVISION


ARM_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
"""Pattern of an arm's name."""


class ProgramDescription(FrozenModel):
    """What a program does, or why none is worth running."""

    title: str = Field(description="up to ten words")
    plan: str = Field(description="description of the experiment and its purpose, in a few sentences")
    varies: str = Field(
        description="the one thing that distinguishes this node, e.g. 'a wider network' or 'without label smoothing'"
    )
    arms: tuple[str, ...] = Field(
        default=(),
        description="names of arms measured in addition to those of the data plan, such as that of an ablation",
    )
    nothing_left: str = Field(
        default="", description="only if your task offers it: why nothing is worth trying; then give nothing else"
    )

    def list_added_arms(self, inputs: AuthorInputs) -> tuple[str, ...]:
        """Return the arms measured in addition to those of the data plan: those of an ablation, or of a node that
        fixes one.
        """
        if inputs.stage != "ablation":
            return ()
        return (inputs.ablation.name,) if inputs.ablation is not None else self.arms


def check_added_arms(inputs: AuthorInputs, answer: ProgramDescription, *, named: bool) -> None:
    """Raise `SourceTreeError` if added arms have invalid names, or are missing although `named` is set."""
    added, compared = answer.list_added_arms(inputs), list_main_arms(inputs.data_plan)
    odd = [arm for arm in added if not ARM_NAME.fullmatch(arm) or arm in compared]
    if odd:
        raise SourceTreeError(
            f"arms: {odd[0][:80]!r} is not a valid name for an arm of an ablation: use letters, digits and "
            "hyphens, such as without-<part>, and no arm that the data plan compares"
        )
    if named and not added:
        raise SourceTreeError("arms is empty: name the arm that this ablation measures, such as without-<part>")


class WrittenProgram(ProgramDescription, HandIn):
    """What an author hands in: its files are those of its scratch copy."""


class ProgramInputs(CodeInputs, CoderInputs):
    """Inputs of an author that writes a program in a scratch copy of the parent's files."""

    task: AuthorTask = "program"


class Program(ProgramDescription):
    """An experiment and its plots as files and edits of the parent's files."""

    files: tuple[WholeFile, ...] = Field(
        default=(), description="whole files: for a draft all files, otherwise those that are new or rewritten"
    )
    edits: tuple[SourceEdit, ...] = Field(
        default=(), description="changes of the parent's files; files not named stay as they are"
    )
    removed: tuple[str, ...] = Field(default=(), description="paths of the parent's files that are no longer needed")

    def apply_to(self, before: Mapping[str, str]) -> dict[str, str]:
        """Apply the answer to the parent's files.

        Raises: `SourceTreeError`: an edit does not match, or there is nothing to run.
        """
        made = apply_edits(before, files=self.files, edits=self.edits, removed=self.removed)
        check_program(made)
        return made


def _check_program(inputs: CodeInputs, program: Program) -> None:
    """Raise `SourceTreeError` if a program is not usable."""
    before = inputs.parent.files if inputs.parent else {}
    changed = bool(program.files or program.edits or program.removed)
    check_written_program(inputs, program, program.apply_to(before) if changed else before, changed=changed)


def check_written_program(
    inputs: CodeInputs, program: ProgramDescription, made: Mapping[str, str], *, changed: bool
) -> None:
    """Raise `SourceTreeError` if a program with these files is not usable. `changed`: code was written."""
    if program.nothing_left and inputs.covered:
        return
    before = inputs.parent.files if inputs.parent else {}
    extended = inputs.kind == "improve" and collect_reads(before.get(ENTRY_FILE, "")) is not None
    if not changed and (program.nothing_left or not extended):
        raise SourceTreeError(
            "no code was written, and this task requires it: give files, or edits of those shown"
            + (f" (nothing_left says: {program.nothing_left})" if program.nothing_left else "")
        )
    check_program(made)
    of_cells = collect_reads(made[ENTRY_FILE]) is not None
    planned = inputs.ablation if inputs.stage == "ablation" else None
    if planned is not None and program.arms and planned.name not in program.arms:
        raise SourceTreeError(
            f"arms has {program.arms[0][:80]!r}, and this node measures the planned ablation "
            f"{planned.name!r}: other nodes measure the other ablations"
        )
    check_added_arms(inputs, program, named=inputs.kind == "ablate" and of_cells)
    if inputs.data_plan.space and of_cells:
        _check_reads_settings(made, inputs.data_plan)


def _check_reads_settings(made: Mapping[str, str], plan: DataPlan) -> None:
    """Raise `SourceTreeError` if a program with cells sets hyperparameters instead of using those of the plan."""
    code, names = select_code(made), [one.name for one in plan.space]
    if not any("setting" in collect_attributes(text) for text in code.values()):
        raise SourceTreeError(
            f"nothing reads cell.setting: take the plan's hyperparameters from it "
            f"({', '.join(names)}), as cell.setting[{names[0]!r}]"
        )
    for path, text in code.items():
        own = [name for name in collect_constants(text) if name.lower() in names]
        if own:
            raise SourceTreeError(
                f"{path} sets {own[0]}, which is a hyperparameter of the plan: remove the constant, and "
                f"read cell.setting[{own[0].lower()!r}] instead"
            )


CODE = Role("code", CodeInputs, Program, prompt_tokens=16_000, typical_tokens=(4500, 3200), check=_check_program)
