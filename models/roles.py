"""The typed inputs and outputs of every role that a model plays; `models/prompts/<role>.md` renders the inputs.

A role's prompt may use the fields of its inputs and nothing else. Outputs are validated before they are committed.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from models.judgement import JudgeAnswer as JudgeAnswer
from models.judgement import JudgeInputs as JudgeInputs
from record.nouns import (
    DataPlan,
    DatasetFacts,
    Draft,
    ErrorClass,
    Failure,
    FigureFacts,
    FigureReview,
    Frozen,
    Idea,
    Measurement,
    NodeKind,
    StageName,
    StageSummary,
)

Role = Literal["plan", "code", "plot", "vision", "feedback", "compare", "summary", "figures", "write", "reflect",
               "judge"]


# --- plan -----------------------------------------------------------------------------------------------------------


class CatalogueEntry(Frozen):
    """A dataset that can be had."""

    name: str
    title: str
    examples: int
    features: int
    classes: int
    sizes: dict[str, int] = Field(default_factory=dict, description="examples by split, as it would be cut; empty: "
                                                                    "not known before it is loaded")
    own: bool = Field(default=False, description="brought by the person who runs us; the fields below are of such data")
    task: str = Field(default="", description="classification, regression, or none: a folder without known labels")
    target: str = ""
    columns: tuple[str, ...] = Field(default=(), description="features before any encoding; of a folder, file endings")
    class_names: tuple[str, ...] = ()
    shape: tuple[int, ...] = Field(default=(), description="of one example, where it is no plain row of features")
    missing: dict[str, int] = Field(default_factory=dict, description="column -> rows without a value")
    split_rule: str = ""
    warnings: tuple[str, ...] = ()
    scorer: str = Field(default="", description="what a frozen scorer of the user's computes there, in words")


class PlanInputs(Frozen):
    """For role `plan`; answers with `DataPlan`."""

    idea: Idea
    catalogue: tuple[CatalogueEntry, ...]
    metrics: tuple[str, ...] = Field(description="metrics that we compute from submitted predictions")
    node_seconds: float = Field(description="wall-clock limit of one experiment")
    device: str = "cpu"
    shares: dict[str, float] = Field(default_factory=dict, description="share of a dataset's examples by split")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the plan handed in before")


# --- code -----------------------------------------------------------------------------------------------------------


class ParentBrief(Frozen):
    """The node to start from."""

    id: str
    kind: NodeKind
    plan: str
    experiment: str
    plots: str
    measurements: tuple[Measurement, ...] = ()
    analysis: str = ""
    next_step: str = Field(default="", description="what its verdict would do next")
    failure: Failure | None = None
    stdout_tail: str = ""
    seedless: bool = Field(default=False, description="whether its replicates gave the same values for every seed")
    findings: tuple[str, ...] = Field(default=(), description="what a check of honesty found in its code")
    artifacts: tuple[str, ...] = Field(default=(), description="names of what it left for `lab.artifact`")


class Sibling(Frozen):
    """One line of memory: what was tried beside this, and what came of it."""

    id: str
    kind: NodeKind
    varies: str
    outcome: str = Field(description="the primary metric by dataset and arm, or an error message")
    error: ErrorClass | None = None


class Rest(Frozen):
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


class Duty(Frozen):
    """What a node of a stage must measure, by the data plan: every condition on every dataset."""

    datasets: tuple[str, ...]
    arms: tuple[str, ...] = Field(default=(), description="empty for an ablation, which has an arm of its own")
    levels: tuple[str, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """`arm`, or `arm@level` where the plan has levels."""
        return tuple(f"{arm}@{level}" for arm in self.arms for level in self.levels) if self.levels else self.arms


class CodeInputs(Frozen):
    """For role `code`; answers with `Program`."""

    idea: Idea
    data_plan: DataPlan
    facts: tuple[DatasetFacts, ...]
    stage: StageName
    kind: NodeKind
    goal: str
    item: str = Field(default="", description="the agenda item or risk to take up, if any")
    ordinal: int = Field(default=0, description="which proposal of this kind this is, from 0; each must differ")
    duty: Duty | None = Field(default=None, description="what must be measured; None: all that the data plan names")
    parent: ParentBrief | None = None
    siblings: tuple[Sibling, ...] = Field(default=(), description="finished nodes: the best and the latest ones")
    rest: Rest | None = Field(default=None, description="the finished nodes that are not among the siblings")
    in_flight: tuple[InFlight, ...] = Field(default=(), description="nodes that are being made at the same time")
    earlier: tuple[StageSummary, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="notes of the person who runs us")
    node_seconds: float
    spare: float | None = Field(
        default=None, description="the share of the time limit that the parent took, where a harder experiment fits")
    device: str = Field(default="cpu", description="what it runs on: 'cpu', or GPUs with memory and bf16 support")
    network: bool = Field(default=False, description="whether the code reaches the network")
    lab_reference: str = Field(description="the documentation of `lab`, as text")
    packages: tuple[str, ...] = Field(default=(), description="importable packages with versions")
    pretrained: tuple[str, ...] = Field(default=(), description="models for `lab.pretrained`, as OWNER/NAME@REVISION")


class Program(Frozen):
    """An experiment and its plots, as whole files."""

    title: str = Field(description="up to ten words")
    plan: str = Field(description="what is done and why, in a few sentences")
    varies: str = Field(description="the one thing that sets this node apart, e.g. 'LEARNING_RATE=0.003' or "
                                    "'without label smoothing'")
    experiment: str = Field(description="experiment.py, a whole Python file; settings as upper-case constants on top")
    plots: str = Field(description="plots.py, a whole Python file that draws from arrays/*.npy into figures/*.png")


# --- plot and figures -----------------------------------------------------------------------------------------------


class ArrayBrief(Frozen):
    """A recorded array: where a plotting script finds it, relative to its folder."""

    path: str
    shape: tuple[int, ...]
    dtype: str


class PlotInputs(Frozen):
    """For role `plot` (a replot, or the plots of an aggregate); answers with `Plots`."""

    data_plan: DataPlan
    purpose: Literal["replot", "aggregate"]
    arrays: tuple[ArrayBrief, ...]
    plan: str = ""
    plots: str = Field(default="", description="the script that was refused; or, for an aggregate, the node's")
    complaints: tuple[str, ...] = ()
    seeds: tuple[int, ...] = Field(default=(), description="for an aggregate and its replots: seed of each folder in "
                                                           "inputs/, in order")
    lab_reference: str = Field(description="the part of `lab`'s documentation that is about plotting")


class Plots(Frozen):
    """A plotting script, as a whole file."""

    plots: str


class VisionInputs(Frozen):
    """For role `vision`, the images given in the same order; answers with `FigureReviews`.

    Figures that were found readable before and are unchanged are not among them.
    """

    data_plan: DataPlan
    subject: Literal["node", "aggregate", "paper"] = Field(default="node", description="whose figures: of one run, of "
                                                                                       "its replicates, of the paper")
    seeds: tuple[int, ...] = Field(default=(), description="of the runs that an aggregate draws together")
    plan: str
    names: tuple[str, ...]
    facts: tuple[FigureFacts, ...]
    lint: tuple[tuple[str, ...], ...] = Field(description="findings of the figure lint, one tuple a figure")
    earlier: tuple[tuple[str, ...], ...] = Field(
        default=(), description="what the last review found in a figure of that name, one tuple a figure")
    measurements: tuple[Measurement, ...] = Field(default=(), description="on validation, of the node alone")


class FigureReviews(Frozen):
    reviews: tuple[FigureReview, ...]


# --- feedback ------------------------------------------------------------------------------------------------------


class FeedbackInputs(Frozen):
    """For role `feedback`; answers with `Verdict`."""

    data_plan: DataPlan
    stage: StageName
    kind: NodeKind
    plan: str
    varies: str
    experiment: str
    measurements: tuple[Measurement, ...]
    parent_measurements: tuple[Measurement, ...] = ()
    duty: Duty | None = Field(default=None, description="what must be measured; None: all that the data plan names")
    figures: tuple[FigureReview, ...] = Field(default=(), description="reviews of its figures, all found readable")
    stdout_tail: str = ""


# --- compare --------------------------------------------------------------------------------------------------------


class Contender(Frozen):
    """One of two nodes that measurements cannot tell apart."""

    id: str
    plan: str
    varies: str
    experiment: str
    measurements: tuple[Measurement, ...]
    seconds: float | None = Field(default=None, description="wall clock of its code; None where time decides nothing")
    analysis: str = Field(default="", description="of its verdict")


class CompareInputs(Frozen):
    """For role `compare`; answers with `Preference`."""

    idea: Idea
    data_plan: DataPlan
    stage: StageName
    a: Contender
    b: Contender
    difference: str = Field(description="unified diff of their experiment.py, from a to b")
    noise: dict[str, float] = Field(
        description="dataset -> standard deviation over seeds of the primary metric's mean over the cells that decide")


class Preference(Frozen):
    """Which of two nodes is the sounder one to build on."""

    better: Literal["a", "b", "neither"]
    reasons: str = Field(description="two to four sentences, with the places in the code")


# --- summary --------------------------------------------------------------------------------------------------------


class Statistic(Frozen):
    """A mean over replicates. `low` and `high` are the 95 % interval (Student t); None where n < 2."""

    key: str
    name: str
    dataset: str
    condition: str
    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None


class Contrast(Frozen):
    """A paired difference over seeds, `condition - other`. `low` and `high` are the 95 % interval, None where n < 3."""

    name: str = Field(description="the metric")
    dataset: str
    condition: str
    other: str
    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None
    called: Literal["improved", "no measurable difference", "unknown"]
    better: str = Field(description="the condition with the better mean")


class Candidate(Frozen):
    """A node that could have been carried forward, as it was compared."""

    id: str
    cells: int = Field(description="how many of the (dataset, condition) cells that count it measured")
    mean: float | None = Field(description="primary metric, mean over its cells of the arms that decide")
    gain: float = Field(description="over the reference, as a share; positive is better")


class Selection(Frozen):
    """How the best node of a stage was chosen."""

    rule: str
    arms: tuple[str, ...] = Field(description="the arms whose cells decide")
    cells: int = Field(description="the (dataset, condition) cells that count for coverage")
    reference: str = Field(default="", description="the node that gains are relative to")
    candidates: tuple[Candidate, ...] = Field(default=(), description="the one that was chosen, then by gain")
    noise: dict[str, float] = Field(
        default_factory=dict, description="dataset -> sd between seeds of what decides; without an entry: unknown")
    close: tuple[str, ...] = Field(default=(), description="nodes that cannot be told from the one that gains most")
    asked: tuple[str, ...] = Field(default=(), description="comparisons of these by a model, with their outcome")


class NodeLine(Frozen):
    """A node in one line of a stage's table."""

    id: str
    kind: NodeKind
    varies: str
    status: str
    outcome: str
    analysis: str = Field(default="", description="of its verdict, for nodes that worked")


class SummaryInputs(Frozen):
    """For role `summary`; answers with `StageReport`. Validation results only."""

    idea: Idea
    data_plan: DataPlan
    stage: StageName
    ended: str
    nodes: tuple[NodeLine, ...]
    best: str | None
    best_plan: str = ""
    reasons: tuple[str, ...] = ()
    selection: Selection | None = None
    statistics: tuple[Statistic, ...] = Field(default=(), description="metrics of the plan; no interval where n < 3")
    differences: tuple[Contrast, ...] = Field(default=(), description="paired over seeds, for metrics of the plan")
    replicates_failed: int = 0
    seedless: tuple[str, ...] = Field(
        default=(), description="replicated nodes that gave the same values for every seed: their code ignores it")


class StageReport(Frozen):
    """A stage in words, from the record."""

    tried: str = Field(description="what was done: how many nodes, how many failed and of what")
    found: str = Field(description="the findings, the primary metric first, surprises and failures included")
    held: str = Field(default="", description="what the replicates support, and what they do not")
    next: str = Field(default="", description="what the next stage should do with it")


# --- paper ----------------------------------------------------------------------------------------------------------


class FiguresInputs(Frozen):
    """For role `figures`: the paper's final figures from recorded arrays; answers with `FigureScript`."""

    idea: Idea
    data_plan: DataPlan
    arrays: tuple[ArrayBrief, ...]
    statistics: tuple[Statistic, ...] = Field(description="also in inputs/statistics.json, as a list of these objects")
    example_plots: str = Field(description="plots.py of the winning node, which shows what its arrays hold")
    ablations: tuple[str, ...] = Field(default=(), description="conditions that are ablations")
    lab_reference: str
    complaints: tuple[str, ...] = ()
    previous: str = ""


class FinalFigure(Frozen):
    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="file stem under figures/; saved as .pdf and .png")
    description: str = Field(description="what it shows, without numbers")


class FigureScript(Frozen):
    script: str
    figures: tuple[FinalFigure, ...] = Field(min_length=1)


class ClaimLine(Frozen):
    """A number that the paper may print, and the macro that prints it."""

    key: str
    printed: str
    meaning: str


class Reference(Frozen):
    key: str
    title: str
    authors: str
    year: str
    note: str = ""


class Comparison(Frozen):
    """A paired difference that the record supports, and the words that may be used for it."""

    key: str
    dataset: str
    metric: str
    better: str = Field(description="condition with the better mean")
    worse: str
    verdict: Literal["improved", "no measurable difference", "unknown"]
    n: int


class WriteInputs(Frozen):
    """For role `write`; answers with `Draft`."""

    idea: Idea
    data_plan: DataPlan
    facts: tuple[DatasetFacts, ...]
    summaries: tuple[StageSummary, ...]
    results: tuple[ClaimLine, ...] = Field(description="use as \\result{key}")
    setups: tuple[ClaimLine, ...] = Field(description="use as \\setup{key}")
    comparisons: tuple[Comparison, ...]
    figures: tuple[FinalFigure, ...] = Field(description="place with \\paperfigure{name}, refer with \\ref{fig:name}")
    tables: tuple[str, ...] = Field(description="place with \\papertable{name}, refer with \\ref{tab:name}")
    references: tuple[Reference, ...] = Field(description="cite with \\citep{key} or \\citet{key}")
    literals: tuple[str, ...] = Field(description="the only numbers that may be typed")
    page_limit: int
    winner_plan: str = ""
    winner_source: str = ""
    disclosures: tuple[str, ...] = Field(default=(), description="what a reader must be told: failures, limits, grades")


class ReflectInputs(Frozen):
    """For role `reflect`; answers with `Reflection`."""

    inputs: WriteInputs
    draft: Draft
    pages: int | None = Field(default=None, description="pages of main text; None where it did not compile")
    violations: tuple[str, ...] = Field(default=(), description="of the binder: what is not tied to the record")
    compile_findings: tuple[str, ...] = ()
    figure_reviews: tuple[FigureReview, ...] = ()


class SectionEdit(Frozen):
    """A section body rewritten. `title` must be one of the draft's, or 'abstract' or 'title'."""

    title: str
    body: str


class Reflection(Frozen):
    """Targeted edits; `done` with no edits ends the reflection."""

    done: bool
    edits: tuple[SectionEdit, ...] = ()
    captions: dict[str, str] = Field(default_factory=dict)
