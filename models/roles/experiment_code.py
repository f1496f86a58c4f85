"""Writing an experiment (`code`), and what roles are shown of the study, its nodes and their runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from labwright.models.roles.role import EnvironmentField, Role
from labwright.record.ablation import Ablation
from labwright.record.estimands import list_main_arms
from labwright.record.machine import ComputeRate
from labwright.record.python_syntax import collect_attributes, collect_constants, collect_reads
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import (
    Attempt,
    ErrorClass,
    Failure,
    NodeKind,
    SoundnessCheck,
    StageName,
    StageSummary,
)
from labwright.record.source_edits import SourceEdit, WholeFile, apply_edits
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE, SourceTreeError, check_program, select_code
from labwright.record.tuning_results import ChosenSetting

Seconds = Annotated[float, EnvironmentField(0.0)]
"""A limit in wall-clock time. A prompt that gives two of them means by the second that of one more run of what met the
first; 0: none."""
MeasuredRate = Annotated[ComputeRate | None, EnvironmentField(None)]
"""How fast experiments run; None: not measured."""


class StudyInputs(FrozenModel):
    """What every role that works on the whole study is shown; prompts begin with it (`_study.md`)."""

    idea: Idea
    data_plan: DataPlan
    facts: tuple[DatasetFacts, ...] = Field(default=(), description="the datasets as they were materialised")


class MetricChange(FrozenModel):
    """What a metric does from the first arm to the others at one level, or from the first level to the others of one
    arm."""

    dataset: str
    same: str = Field(description="the level, or the arm, that all of these share; empty where there are no levels")
    name: str = Field(description="of the metric")
    first: str = Field(description="the first arm, or level")
    value: float = Field(description="there")
    by: dict[str, float] = Field(description="other arm, or level -> its value less that of the first")
    n: int = Field(default=1, description="runs that each value is the mean of")


class Tables(FrozenModel):
    """What the program works out of values of a node, and what its code said of itself (`_tables.md`)."""

    arms: tuple[MetricChange, ...] = Field(default=(), description="the primary metric from the first arm on")
    levels: tuple[MetricChange, ...] = Field(default=(), description="the primary metric from the first level on")
    self_reported: tuple[Measurement, ...] = Field(
        default=(), description="last words on train and dev, by its own account"
    )


class NodeBrief(FrozenModel):
    """A node with its code: the one to start from, to ablate, or to compare."""

    id: str
    kind: NodeKind
    plan: str
    varies: str = ""
    files: dict[str, str] = Field(default={}, description="path -> text; plots.py as it was accepted last")
    seconds: float | None = Field(default=None, description="wall clock of its code; None where time decides nothing")
    measurements: tuple[Measurement, ...] = ()
    ran: tuple[Attempt, ...] = Field(default=(), description="every execution of its code")
    analysis: str = ""
    checks: tuple[SoundnessCheck, ...] = Field(default=(), description="of its verdict")
    advice: tuple[str, ...] = Field(default=(), description="what would make its accepted figures better, `name: what`")
    next_step: str = Field(default="", description="what its verdict would do next")
    failure: Failure | None = None
    stdout_tail: str = ""
    seedless: bool = Field(default=False, description="whether its replicates gave the same values for every seed")
    findings: tuple[str, ...] = Field(default=(), description="what a check of honesty found in its code")
    artifacts: tuple[str, ...] = Field(default=(), description="names of what it left for `lab.artifact`")
    settings: tuple[ChosenSetting, ...] = Field(
        default=(), description="of each arm with hyperparameters; of cells alone"
    )

    @property
    def code(self) -> dict[str, str]:
        """What ran as the experiment, its entry first."""
        return select_code(self.files)

    @property
    def experiment(self) -> str:
        return self.files.get(ENTRY_FILE, "")

    @property
    def non_plot_files(self) -> dict[str, str]:
        """All but plots.py."""
        return {path: text for path, text in self.files.items() if path != PLOTS_FILE}

    @property
    def plots(self) -> str:
        return self.files.get(PLOTS_FILE, "")


class NodeLine(FrozenModel):
    """A node in one line: of a stage's table, or of the memory of what was tried beside another one."""

    id: str
    kind: NodeKind
    varies: str
    status: str = ""
    outcome: str = Field(description="the primary metric by dataset and arm, or an error message")
    error: ErrorClass | None = None
    analysis: str = Field(default="", description="of its verdict, for nodes that worked")
    checks: tuple[SoundnessCheck, ...] = Field(default=(), description="of its verdict that did not pass")


class CommonFailure(FrozenModel):
    """What children of a node that works failed of alike; it is mended in the node, before it has more children."""

    children: tuple[NodeLine, ...]
    failure: Failure = Field(description="of the first of them")
    difference: str = Field(default="", description="unified diff from the node's code to that child's")


class OmittedNodes(FrozenModel):
    """The finished nodes without a line of their own, in counts."""

    worked: int
    failed: dict[ErrorClass, int] = Field(default={}, description="nodes by error class")
    tried: tuple[str, ...] = Field(default=(), description="what they varied, each once, newest first")
    more: int = Field(default=0, description="how many such names are left out")


class NodeInFlight(FrozenModel):
    """A node that was decided on before this one, and whose plan and result may not be known yet."""

    id: str
    kind: NodeKind
    item: str = Field(default="", description="the agenda item or risk that it takes up, if any")


class UnreportedStage(FrozenModel):
    """A stage that is over, and whose report is not written yet: its nodes instead."""

    stage: StageName
    best: str
    nodes: tuple[NodeLine, ...] = ()


class RequiredMeasurements(FrozenModel):
    """What a node of a stage must measure, by the data plan: every condition on every dataset."""

    datasets: tuple[str, ...]
    arms: tuple[str, ...] = Field(default=(), description="empty for an ablation, which has an arm of its own")
    levels: tuple[str, ...] = ()


class AuthorInputs(StudyInputs):
    """What is shown to whoever makes a node: of its stage, the node it starts from, and what was tried."""

    stage: StageName
    kind: NodeKind
    goal: str
    item: str = Field(default="", description="the agenda item or risk to take up, if any")
    arm: str = Field(default="", description="the arm that this node is to make better, if any")
    ablation: Ablation | None = Field(default=None, description="the planned ablation that the item stands for, if any")
    covered: bool = Field(
        default=False,
        description="whether the plan's arms answer the item, by the plan: "
        "then it may say that nothing is worth trying",
    )
    others: tuple[Ablation, ...] = Field(default=(), description="the other planned ablations, written by others")
    ordinal: int = Field(default=0, description="which proposal of this kind this is, from 0; each must differ")
    variation: int = Field(default=0, description="the number of a branch, whose choices are to differ; 0: none")
    duty: RequiredMeasurements | None = Field(
        default=None, description="what must be measured; None: all that the data plan names"
    )
    parent: NodeBrief | None = None
    tables: Tables = Field(default=Tables(), description="of the parent")
    common: CommonFailure | None = Field(default=None, description="of children of the parent, to be mended in it")
    siblings: tuple[NodeLine, ...] = Field(default=(), description="finished nodes: the best and the latest ones")
    rest: OmittedNodes | None = Field(default=None, description="the finished nodes that are not among the siblings")
    in_flight: tuple[NodeInFlight, ...] = Field(default=(), description="nodes that are being made at the same time")
    earlier: tuple[StageSummary, ...] = ()
    unreported: tuple[UnreportedStage, ...] = Field(
        default=(), description="of the earlier stages, those without a report"
    )
    notes: tuple[str, ...] = Field(default=(), description="notes of the person who runs us")
    node_seconds: Seconds
    retry_seconds: Seconds = 0.0
    rate: MeasuredRate = None
    quiet_seconds: Annotated[float | None, EnvironmentField(None)] = Field(
        default=None, description="seconds without output, log or submission after which it is ended; None: never"
    )
    spare: Annotated[float | None, EnvironmentField(None)] = Field(
        default=None, description="the share of the time limit that the parent took, where a harder experiment fits"
    )
    device: Annotated[str, EnvironmentField("")] = "cpu"  # or GPUs with memory and bf16 support
    network: Annotated[bool, EnvironmentField(False)] = False
    packages: Annotated[tuple[str, ...], EnvironmentField(())] = ()  # those that can be imported, with versions


class CodeInputs(AuthorInputs):
    lab_reference: str = Field(description="the documentation of `lab`, as text")
    pretrained: Annotated[tuple[str, ...], EnvironmentField(())] = ()  # for `lab.pretrained`, as OWNER/NAME@REVISION


ARM_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
"""What an arm may be called."""


def list_added_arms(inputs: AuthorInputs, named: tuple[str, ...]) -> tuple[str, ...]:
    """The arms that an answer makes beside those of the data plan: of an ablation, and of what repairs one."""
    if inputs.stage != "ablation":
        return ()
    return (inputs.ablation.name,) if inputs.ablation is not None else named


def check_added_arms(inputs: AuthorInputs, added: tuple[str, ...], *, named: bool) -> None:
    """Raises `SourceError` where arms beside the plan's cannot be called so, or have to be `named` and are not."""
    compared = list_main_arms(inputs.data_plan)
    odd = [arm for arm in added if not ARM_NAME.fullmatch(arm) or arm in compared]
    if odd:
        raise SourceTreeError(
            f"arms: {odd[0][:80]!r} is no name for an arm of an ablation: use letters, digits and "
            "hyphens, as without-<part>, and no arm that the data plan compares"
        )
    if named and not added:
        raise SourceTreeError("arms is empty: name the arm that this ablation measures, as without-<part>")


class Program(FrozenModel):
    """An experiment and its plots, as files and as edits of the parent's; or why none is worth running, where the part
    allows to say so."""

    title: str = Field(description="up to ten words")
    plan: str = Field(description="what is done and why, in a few sentences")
    varies: str = Field(
        description="the one thing that sets this node apart, e.g. 'a wider network' or 'without label smoothing'"
    )
    files: tuple[WholeFile, ...] = Field(
        default=(), description="whole files: all of a draft, and those that are new or written anew"
    )
    edits: tuple[SourceEdit, ...] = Field(
        default=(), description="changes of the parent's files; what is not named stays"
    )
    removed: tuple[str, ...] = Field(default=(), description="paths of the parent's files that are no longer needed")
    arms: tuple[str, ...] = Field(
        default=(),
        description="names of arms that this program measures beside those of the data plan: the one of an ablation",
    )
    nothing_left: str = Field(
        default="",
        description="only where your part offers it: why nothing is worth trying; nothing else is given then",
    )

    def apply_to(self, before: Mapping[str, str]) -> dict[str, str]:
        """The files that it makes of those of its parent. Raises `SourceError`: an edit misses, or nothing can run."""
        made = apply_edits(before, files=self.files, edits=self.edits, removed=self.removed)
        check_program(made)
        return made

    def list_added_arms(self, inputs: AuthorInputs) -> tuple[str, ...]:
        """The arms that it measures beside those of the data plan: of an ablation, and of what repairs one."""
        return list_added_arms(inputs, self.arms)


def _check_program(inputs: CodeInputs, program: Program) -> None:
    """Raises `SourceError` where a program is none."""
    if program.nothing_left and inputs.covered:
        return
    extended = (
        inputs.kind == "improve" and inputs.parent is not None and collect_reads(inputs.parent.experiment) is not None
    )
    if not (program.files or program.edits or program.removed or extended):
        raise SourceTreeError(
            "no code was written, and this part asks for it: give files, or edits of those shown"
            + (f" (nothing_left says: {program.nothing_left})" if program.nothing_left else "")
        )
    made = program.apply_to(inputs.parent.files if inputs.parent else {})
    of_cells = collect_reads(made[ENTRY_FILE]) is not None
    planned = inputs.ablation if inputs.stage == "ablation" else None
    if planned is not None and program.arms and planned.name not in program.arms:
        raise SourceTreeError(
            f"arms has {program.arms[0][:80]!r}, and this node measures the planned ablation "
            f"{planned.name!r}: others write the others"
        )
    check_added_arms(inputs, program.list_added_arms(inputs), named=inputs.kind == "ablate" and of_cells)
    if inputs.data_plan.space and of_cells:
        _check_reads_settings(made, inputs.data_plan)


def _check_reads_settings(made: Mapping[str, str], plan: DataPlan) -> None:
    """Raises `SourceError` where a program of cells has hyperparameters of its own in place of the plan's."""
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
