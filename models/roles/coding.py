"""Writing an experiment (`code`), and what roles are shown of the study, its nodes and their runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from models.roles.role import Circumstance, Role
from record.ablation import Ablation
from record.machine import Rate
from record.nouns.data import DataPlan, DatasetFacts, Measurement
from record.nouns.frozen import Frozen
from record.nouns.idea import Idea
from record.nouns.nodes import Attempt, Check, ErrorClass, Failure, NodeKind, StageName, StageSummary

Seconds = Annotated[float, Circumstance(0.0)]
"""A limit in wall-clock time. A prompt that gives two of them means by the second that of one more run of what met the
first; 0: none."""
Measured = Annotated[Rate | None, Circumstance(None)]
"""How fast experiments run; None: not measured."""


class Study(Frozen):
    """What every role that works on the whole study is shown; prompts begin with it (`_study.md`)."""

    idea: Idea
    data_plan: DataPlan
    facts: tuple[DatasetFacts, ...] = Field(default=(), description="the datasets as they were materialised")


class AcrossLevels(Frozen):
    """What an arm's metric does from the first level of the factor to the others."""

    dataset: str
    arm: str
    name: str
    level: str = Field(description="the first one")
    value: float = Field(description="there")
    by: dict[str, float] = Field(description="other level -> its value less that of the first")
    n: int = Field(default=1, description="runs that each value is the mean of")


class NodeBrief(Frozen):
    """A node with its code: the one to start from, to ablate, or to compare."""

    id: str
    kind: NodeKind
    plan: str
    varies: str = ""
    experiment: str
    plots: str = ""
    seconds: float | None = Field(default=None, description="wall clock of its code; None where time decides nothing")
    measurements: tuple[Measurement, ...] = ()
    said: tuple[Measurement, ...] = Field(default=(), description="last words on train and dev, by its own account")
    ran: tuple[Attempt, ...] = Field(default=(), description="every execution of its code")
    analysis: str = ""
    checks: tuple[Check, ...] = Field(default=(), description="of its verdict")
    advice: tuple[str, ...] = Field(default=(), description="what would make its accepted figures better, `name: what`")
    next_step: str = Field(default="", description="what its verdict would do next")
    failure: Failure | None = None
    stdout_tail: str = ""
    seedless: bool = Field(default=False, description="whether its replicates gave the same values for every seed")
    findings: tuple[str, ...] = Field(default=(), description="what a check of honesty found in its code")
    artifacts: tuple[str, ...] = Field(default=(), description="names of what it left for `lab.artifact`")


class NodeLine(Frozen):
    """A node in one line: of a stage's table, or of the memory of what was tried beside another one."""

    id: str
    kind: NodeKind
    varies: str
    status: str = ""
    outcome: str = Field(description="the primary metric by dataset and arm, or an error message")
    error: ErrorClass | None = None
    analysis: str = Field(default="", description="of its verdict, for nodes that worked")
    checks: tuple[Check, ...] = Field(default=(), description="of its verdict that did not pass")


class OmittedNodes(Frozen):
    """The finished nodes without a line of their own, in counts."""

    worked: int
    failed: dict[ErrorClass, int] = Field(default={}, description="nodes by error class")
    tried: tuple[str, ...] = Field(default=(), description="what they varied, each once, newest first")
    more: int = Field(default=0, description="how many such names are left out")


class InFlight(Frozen):
    """A node that was decided on before this one, and whose plan and result may not be known yet."""

    id: str
    kind: NodeKind
    item: str = Field(default="", description="the agenda item or risk that it takes up, if any")


class Unreported(Frozen):
    """A stage that is over, and whose report is not written yet: its nodes instead."""

    stage: StageName
    best: str
    nodes: tuple[NodeLine, ...] = ()


class Duty(Frozen):
    """What a node of a stage must measure, by the data plan: every condition on every dataset."""

    datasets: tuple[str, ...]
    arms: tuple[str, ...] = Field(default=(), description="empty for an ablation, which has an arm of its own")
    levels: tuple[str, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """`arm`, or `arm@level` where the plan has levels."""
        return tuple(f"{arm}@{level}" for arm in self.arms for level in self.levels) if self.levels else self.arms


class CodeInputs(Study):
    stage: StageName
    kind: NodeKind
    goal: str
    item: str = Field(default="", description="the agenda item or risk to take up, if any")
    ablation: Ablation | None = Field(default=None, description="the planned ablation that the item stands for, if any")
    covered: bool = Field(default=False, description="whether the compared arms answer the item, by the plan")
    others: tuple[Ablation, ...] = Field(default=(), description="the other planned ablations, written by others")
    declinable: bool = Field(default=False, description="whether it may say that nothing is worth trying")
    ordinal: int = Field(default=0, description="which proposal of this kind this is, from 0; each must differ")
    variation: int = Field(default=0, description="the number of a branch, whose choices are to differ; 0: none")
    duty: Duty | None = Field(default=None, description="what must be measured; None: all that the data plan names")
    parent: NodeBrief | None = None
    siblings: tuple[NodeLine, ...] = Field(default=(), description="finished nodes: the best and the latest ones")
    rest: OmittedNodes | None = Field(default=None, description="the finished nodes that are not among the siblings")
    in_flight: tuple[InFlight, ...] = Field(default=(), description="nodes that are being made at the same time")
    earlier: tuple[StageSummary, ...] = ()
    unreported: tuple[Unreported, ...] = Field(default=(), description="of the earlier stages, those without a report")
    notes: tuple[str, ...] = Field(default=(), description="notes of the person who runs us")
    node_seconds: Seconds
    retry_seconds: Seconds = 0.0
    rate: Measured = None
    quiet_seconds: Annotated[float | None, Circumstance(None)] = Field(
        default=None, description="seconds without output, log or submission after which it is ended; None: never")
    spare: Annotated[float | None, Circumstance(None)] = Field(
        default=None, description="the share of the time limit that the parent took, where a harder experiment fits")
    device: Annotated[str, Circumstance("")] = "cpu"  # or GPUs with memory and bf16 support
    network: Annotated[bool, Circumstance(False)] = False
    lab_reference: str = Field(description="the documentation of `lab`, as text")
    packages: Annotated[tuple[str, ...], Circumstance(())] = ()  # those that can be imported, with versions
    pretrained: Annotated[tuple[str, ...], Circumstance(())] = ()  # for `lab.pretrained`, as OWNER/NAME@REVISION


class Program(Frozen):
    """An experiment and its plots, as whole files; or why none is worth running, where the part allows to say so."""

    title: str = Field(description="up to ten words")
    plan: str = Field(description="what is done and why, in a few sentences")
    varies: str = Field(description="the one thing that sets this node apart, e.g. 'LEARNING_RATE=0.003' or "
                                    "'without label smoothing'")
    experiment: str = Field(description="experiment.py, a whole Python file; settings as upper-case constants on top")
    plots: str = Field(description="plots.py, a whole Python file that draws from arrays/*.npy into figures/*.png")
    nothing_left: str = Field(default="", description="only where your part offers it: why nothing is worth trying; "
                                                      "`experiment` and `plots` are empty then")


CODE = Role("code", CodeInputs, Program, prompt_tokens=16_000, usual=(4500, 3200))
