"""The typed inputs and outputs of every role that a model plays; `models/prompts/<role>.md` renders the inputs.

A role's prompt may use the fields of its inputs and nothing else. Outputs are validated before they are committed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from models.circumstance import Circumstance
from models.exhibits import PartInputs as PartInputs
from models.exhibits import PartNotes as PartNotes
from models.judgement import JudgeAnswer as JudgeAnswer
from models.judgement import JudgeInputs as JudgeInputs
from record.ablation import Ablation
from record.claims import Called
from record.machine import Rate
from record.nouns.data import DataPlan, DatasetFacts, Measurement
from record.nouns.figures import FigureFacts, FigureReview, PaperFigureReview, Placement
from record.nouns.figures import FinalFigure as FinalFigure
from record.nouns.frozen import Frozen
from record.nouns.idea import Idea
from record.nouns.nodes import BranchStep, Check, ErrorClass, Failure, NodeKind, StageName, StageSummary
from record.nouns.papers import Draft, Section, Support

Role = Literal["plan", "code", "plot", "vision", "feedback", "compare", "summary", "figures", "outline",
               "write", "reflect", "judge", "figure_review", "ablation_plan", "missing_ablations",
               "cite_ask", "cite_select",
               "idea", "idea_reflect", "related_work", "proposal", "idea_of", "digest", "prefer", "judge_notes"]


class Study(Frozen):
    """What every role is told that works on the study as a whole: prompts begin with it (`prompts/_study.md`)."""

    idea: Idea
    data_plan: DataPlan
    facts: tuple[DatasetFacts, ...] = Field(default=(), description="the datasets as they were materialised")


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
    node_seconds: Annotated[float, Circumstance(0.0)] = Field(description="wall-clock limit of one experiment")
    device: Annotated[str, Circumstance("")] = "cpu"
    retry_seconds: Annotated[float, Circumstance(0.0)] = Field(
        default=0.0, description="limit of the one more run of what met the first; 0: none")
    rate: Annotated[Rate | None, Circumstance(None)] = Field(
        default=None, description="how fast experiments run; None: not measured")
    shares: dict[str, float] = Field(default_factory=dict, description="share of a dataset's examples by split")
    context: tuple[str, ...] = Field(default=(), description="lines from the user's own documents, with their places")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the plan handed in before")


# --- code -----------------------------------------------------------------------------------------------------------


class Ran(Frozen):
    """One execution of a node's code, as far as its results hang on it."""

    number: int
    seconds: float = Field(description="wall clock")
    limit: float | None = Field(default=None, description="wall clock that it had")
    alone: bool = Field(default=False, description="whether it had the machine's memory to itself")
    resumed: bool = Field(default=False, description="whether it went on from a checkpoint of the one before")
    ended: str = Field(default="", description="why it failed; empty: it ran to its end")


class AcrossLevels(Frozen):
    """What an arm's metric does from the first level of the factor to the others."""

    dataset: str
    arm: str
    name: str
    level: str = Field(description="the first one")
    value: float = Field(description="there")
    by: dict[str, float] = Field(description="other level -> its value less that of the first")
    n: int = Field(default=1, description="runs that each value is the mean of")


class ParentBrief(Frozen):
    """The node to start from."""

    id: str
    kind: NodeKind
    plan: str
    experiment: str
    plots: str
    measurements: tuple[Measurement, ...] = ()
    said: tuple[Measurement, ...] = Field(default=(), description="last words on train and dev, by its own account")
    ran: tuple[Ran, ...] = Field(default=(), description="every execution of its code")
    analysis: str = ""
    checks: tuple[Check, ...] = Field(default=(), description="of its verdict")
    advice: tuple[str, ...] = Field(default=(), description="what would make its accepted figures better, `name: what`")
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


class NodeLine(Frozen):
    """A node in one line of a stage's table."""

    id: str
    kind: NodeKind
    varies: str
    status: str
    outcome: str
    analysis: str = Field(default="", description="of its verdict, for nodes that worked")
    checks: tuple[Check, ...] = Field(default=(), description="of its verdict that did not pass")


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
    """For role `code`; answers with `Program`."""

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
    parent: ParentBrief | None = None
    siblings: tuple[Sibling, ...] = Field(default=(), description="finished nodes: the best and the latest ones")
    rest: Rest | None = Field(default=None, description="the finished nodes that are not among the siblings")
    in_flight: tuple[InFlight, ...] = Field(default=(), description="nodes that are being made at the same time")
    earlier: tuple[StageSummary, ...] = ()
    unreported: tuple[Unreported, ...] = Field(default=(), description="of the earlier stages, those without a report")
    notes: tuple[str, ...] = Field(default=(), description="notes of the person who runs us")
    node_seconds: Annotated[float, Circumstance(0.0)]
    retry_seconds: Annotated[float, Circumstance(0.0)] = Field(
        default=0.0, description="limit of the one more run of what met the first; 0: none")
    rate: Annotated[Rate | None, Circumstance(None)] = Field(
        default=None, description="how fast experiments run; None: not measured")
    quiet_seconds: Annotated[float | None, Circumstance(None)] = Field(
        default=None, description="seconds without output, log or submission after which it is ended; None: never")
    spare: Annotated[float | None, Circumstance(None)] = Field(
        default=None, description="the share of the time limit that the parent took, where a harder experiment fits")
    device: Annotated[str, Circumstance("")] = Field(
        default="cpu", description="what it runs on: 'cpu', or GPUs with memory and bf16 support")
    network: Annotated[bool, Circumstance(False)] = Field(
        default=False, description="whether the code reaches the network")
    lab_reference: str = Field(description="the documentation of `lab`, as text")
    packages: Annotated[tuple[str, ...], Circumstance(())] = Field(
        default=(), description="importable packages with versions")
    pretrained: Annotated[tuple[str, ...], Circumstance(())] = Field(
        default=(), description="models for `lab.pretrained`, as OWNER/NAME@REVISION")


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


# --- plot and figures -----------------------------------------------------------------------------------------------


class Range(Frozen):
    """Of the finite values of an array, or of a column of it."""

    low: float
    high: float
    mean: float


class ArrayBrief(Frozen):
    """A recorded array: where a plotting script finds it, relative to its folder, and what its values are."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    ranges: tuple[Range, ...] = Field(default=(), description="of the whole array; of a narrow table, of each column")
    missing: int = Field(default=0, description="values that are not finite")


class PlotInputs(Frozen):
    """For role `plot` (a replot, or the plots of an aggregate); answers with `Plots`."""

    data_plan: DataPlan
    purpose: Literal["replot", "aggregate"]
    arrays: tuple[ArrayBrief, ...]
    plan: str = ""
    plots: str = Field(default="", description="the script that was refused; or, for an aggregate, the node's")
    complaints: tuple[str, ...] = ()
    advice: tuple[str, ...] = Field(default=(), description="what reviewers would better in figures that they accepted")
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
    lint: tuple[tuple[str, ...], ...] = Field(description="what the figure lint refuses it for, one tuple a figure")
    remarks: tuple[tuple[str, ...], ...] = Field(default=(), description="what it only complains of, likewise")
    arrays: tuple[ArrayBrief, ...] = Field(default=(), description="what the figures may have been drawn from")
    earlier: tuple[tuple[str, ...], ...] = Field(
        default=(), description="what the last review found in a figure of that name, one tuple a figure")
    measurements: tuple[Measurement, ...] = Field(default=(), description="on validation, of the node alone")


class FigureReviews(Frozen):
    reviews: tuple[FigureReview, ...]


# --- feedback ------------------------------------------------------------------------------------------------------


class FeedbackInputs(Study):
    """For role `feedback`; answers with `Verdict`."""

    stage: StageName
    kind: NodeKind
    item: str = Field(default="", description="the agenda item that it took up, if any")
    plan: str
    varies: str
    experiment: str
    measurements: tuple[Measurement, ...]
    parent_measurements: tuple[Measurement, ...] = ()
    levels: tuple[AcrossLevels, ...] = Field(default=(), description="the primary metric from the first level on")
    said: tuple[Measurement, ...] = Field(default=(), description="last words on train and dev, by its own account")
    ran: tuple[Ran, ...] = Field(default=(), description="every execution of its code")
    beside: tuple[Sibling, ...] = Field(default=(), description="finished nodes of other ablations, to be read with it")
    duty: Duty | None = Field(default=None, description="what must be measured; None: all that the data plan names")
    figures: tuple[FigureReview, ...] = Field(default=(), description="reviews of its figures, all found readable")
    ablation: Ablation | None = Field(default=None, description="the planned ablation that it had to carry out, if any")
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


class CompareInputs(Study):
    """For role `compare`; answers with `Preference`."""

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
    called: Called = Field(description="of `condition` against `other`")
    better: str = Field(description="the condition with the better mean")
    detectable: float | None = Field(default=None, description="smallest true difference that would have been found")
    key: str = ""


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


class SummaryInputs(Study):
    """For role `summary`; answers with `StageReport`. Validation results only."""

    stage: StageName
    ended: str
    nodes: tuple[NodeLine, ...]
    best: str | None
    best_plan: str = ""
    reasons: tuple[str, ...] = ()
    selection: Selection | None = None
    statistics: tuple[Statistic, ...] = Field(default=(), description="metrics of the plan; no interval where n < 3")
    differences: tuple[Contrast, ...] = Field(default=(), description="paired over seeds, for metrics of the plan")
    levels: tuple[AcrossLevels, ...] = Field(default=(), description="the primary metric from the first level on")
    said: tuple[Measurement, ...] = Field(default=(), description="of the best: final values of train and dev, by its "
                                                                  "code's own account")
    replicates_failed: int = 0
    seedless: tuple[str, ...] = Field(
        default=(), description="replicated nodes that gave the same values for every seed: their code ignores it")
    branch: tuple[BranchStep, ...] = Field(default=(), description="from the first draft to the stage's best")


class StageReport(Frozen):
    """A stage in words, from the record. `numbers` are keys of statistics or differences that were shown."""

    tried: str = Field(description="what was done: how many nodes, how many failed and of what")
    found: str = Field(description="the findings, the primary metric first, surprises and failures included")
    held: str = Field(default="", description="what the replicates support, and what they do not")
    next: str = Field(default="", description="what the next stage should do with it")
    numbers: tuple[str, ...] = Field(default=(), description="keys of the statistics and paired differences that carry "
                                                             "the report, the most telling first, up to twelve")


# --- paper ----------------------------------------------------------------------------------------------------------


class House(Frozen):
    """What the paper's house style gives to figures; widths in inches of the printed page."""

    text_width: float
    column_width: float = Field(description="of one column; that of the text where there is one")
    reference: str = Field(default="", description="the documentation of the module `house`, as text")


class FiguresInputs(Study):
    """For role `figures`: the paper's final figures from recorded arrays; answers with `FigureScript`."""

    arrays: tuple[ArrayBrief, ...]
    statistics: tuple[Statistic, ...] = Field(description="also in inputs/statistics.json, as a list of these objects")
    example_plots: str = Field(description="plots.py of the winning node, which shows what its arrays hold")
    ablations: tuple[str, ...] = Field(default=(), description="conditions that are ablations")
    synthetic: tuple[str, ...] = Field(default=(), description="datasets whose examples were generated")
    house: House = House(text_width=5.5, column_width=5.5)
    lab_reference: str
    complaints: tuple[str, ...] = Field(default=(), description="of the figures that were refused, `name: what`")
    keep: tuple[str, ...] = Field(default=(), description="figures that stand, and are not drawn again")
    previous: str = Field(default="", description="the code of the refused figures")


class FigurePart(Frozen):
    """One figure, and the code that draws it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,59}$", description="file stem under figures/")
    description: str = Field(description="what it shows, without numbers")
    code: str = Field(default="", description="Python that draws and saves this figure alone; it runs after `script`")
    placement: Placement = Field(default="main", description="main text, or appendix")
    panels: int = Field(default=1, ge=1, le=3, description="panels side by side")
    datasets: tuple[str, ...] = Field(default=(), description="names of the datasets that it shows")


class FigureScript(Frozen):
    """The final figures, each drawn in a kernel of its own by `script` and then the figure's `code`."""

    script: str = Field(description="Python that all figures need: imports, loading, shared functions; draws nothing")
    figures: tuple[FigurePart, ...] = Field(min_length=1)


class ClaimLine(Frozen):
    """A number that the paper may print, and the macro that prints it."""

    key: str
    printed: str
    meaning: str
    primary: bool = Field(default=False, description="whether it is of the plan's primary metric, which is never cut")


class Reference(Frozen):
    """A verified work that may be cited; of what it did and found, the abstract is all that is known."""

    key: str
    title: str
    authors: str
    year: str
    note: str = ""
    abstract: str = Field(default="", description="empty where no catalogue gave one")


class Comparison(Frozen):
    """A paired difference that the record supports, and the words that may be used for it."""

    key: str
    dataset: str
    metric: str
    better: str = Field(description="condition with the better mean")
    worse: str
    equal: bool = Field(default=False, description="whether the means are equal, so that neither is better")
    verdict: Called = Field(description="of `subject` against the other; corrected for the comparisons beside it")
    n: int
    condition: str = Field(default="", description="whose verdict it is; that of the better one where it is not said")
    note: str = Field(default="", description="what has to be told with the verdict")

    @property
    def subject(self) -> str:
        return self.condition or self.better

    @property
    def partner(self) -> str:
        """The condition that the subject is compared with."""
        return self.worse if self.subject == self.better else self.better


class Telling(Frozen):
    """Something that the paper has to tell: an outcome that the record holds, or what a reader must be told."""

    id: str
    text: str = Field(description="in words, with the macros that print its numbers")
    keys: tuple[str, ...] = Field(default=(), description="of the comparisons that it is about")
    abstract: bool = Field(default=False, description="whether the abstract has to tell it as well")


class WriteInputs(Study):
    """The record as a paper is made from it: what roles `outline`, `write` and `reflect` share."""

    summaries: tuple[StageSummary, ...]
    results: tuple[ClaimLine, ...] = Field(description="use as \\result{key}")
    setups: tuple[ClaimLine, ...] = Field(description="use as \\setup{key}")
    comparisons: tuple[Comparison, ...]
    figures: tuple[FinalFigure, ...] = Field(description="place with \\paperfigure{name}, refer with \\ref{fig:name}")
    tables: tuple[str, ...] = Field(description="place with \\papertable{name}, refer with \\ref{tab:name}")
    references: tuple[Reference, ...] = Field(description="cite with \\citep{key} or \\citet{key}")
    literals: tuple[str, ...] = Field(description="the only numbers that may be typed")
    page_limit: int
    context: tuple[str, ...] = Field(default=(), description="lines from the user's own documents, with their places")
    winner_plan: str = ""
    winner_source: str = ""
    disclosures: tuple[str, ...] = Field(default=(), description="what a reader must be told: failures, limits, grades")
    tellings: tuple[Telling, ...] = Field(default=(), description="what the paper has to tell, disclosures included")
    branch: tuple[BranchStep, ...] = Field(default=(), description="from the first draft to the node that is reported")


# --- outline and sections -------------------------------------------------------------------------------------------

MOST_SECTIONS = 12


class PlannedSection(Frozen):
    """A section before it is written: what it says, and what it uses."""

    title: str
    claim: str = Field(description="one sentence: what a reader knows after it")
    keys: tuple[str, ...] = Field(default=(), description="of results and settings that it prints, with their suffix")
    figures: tuple[str, ...] = Field(default=(), description="that it places")
    tables: tuple[str, ...] = Field(default=(), description="that it places")
    references: tuple[str, ...] = Field(default=(), description="that it cites")
    tells: tuple[str, ...] = Field(default=(), description="ids of what has to be told and is told here")
    share: float = Field(gt=0, le=1, description="of the main text, its figures and tables included")


class PlannedAbstract(Frozen):
    """The abstract before it is written."""

    claim: str = Field(description="one sentence: the main finding, in the words of its verdict")
    keys: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()


class PaperOutline(Frozen):
    """A paper before it is written."""

    title: str
    abstract: PlannedAbstract
    sections: tuple[PlannedSection, ...] = Field(min_length=1, max_length=MOST_SECTIONS)


class OutlineInputs(Frozen):
    """For role `outline`; answers with `PaperOutline`."""

    inputs: WriteInputs
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the outline handed in before")
    previous: PaperOutline | None = None


class SectionInputs(Frozen):
    """For role `write`; answers with `Sections`. The lists hold what the asked sections were planned with.

    `inputs` is the whole record; its own lists are not shown.
    """

    inputs: WriteInputs
    outline: PaperOutline
    asked: tuple[str, ...] = Field(description="titles of the sections to write now")
    abstract: bool = Field(description="whether to write the abstract now, after the last sections")
    written: tuple[Section, ...] = Field(default=(), description="the sections before these, as they were written")
    results: tuple[ClaimLine, ...] = ()
    setups: tuple[ClaimLine, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    figures: tuple[FinalFigure, ...] = ()
    tables: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    tellings: tuple[Telling, ...] = ()
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the answer before")


class Sections(Frozen):
    """Sections as they were asked for, and captions of the figures that they place."""

    sections: tuple[Section, ...] = Field(min_length=1)
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")
    abstract: str = Field(default="", description="empty unless it is asked for")


# --- reflect --------------------------------------------------------------------------------------------------------


class SectionLength(Frozen):
    """How long a part of a draft is, by an estimate that is scaled to the pages that were counted."""

    title: str
    words: int
    floats: int
    pages: float


class Round(Frozen):
    """An earlier round of reflection, as the next one is told of it."""

    number: int
    outcome: str = Field(description="kept, or taken back and why")
    edits: tuple[str, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="edits that could not be made, and why")


class ReflectInputs(Frozen):
    """For role `reflect`; answers with `Reflection`."""

    inputs: WriteInputs
    results: tuple[ClaimLine, ...] = Field(default=(), description="of the record's what the draft may need")
    comparisons: tuple[Comparison, ...] = Field(default=(), description="likewise")
    draft: Draft
    pages: int | None = Field(default=None, description="pages of main text; None where it did not compile")
    over: float = Field(default=0.0, description="pages of main text beyond the limit")
    violations: tuple[str, ...] = Field(default=(), description="of the binder: what is not tied to the record")
    compile_findings: tuple[str, ...] = ()
    complaints: tuple[str, ...] = Field(default=(), description="what should be better, found by the program")
    figure_reviews: tuple[FigureReview, ...] = ()
    paper_figures: tuple[PaperFigureReview, ...] = Field(
        default=(), description="of figures as they stand in the compiled paper; empty where nobody looked")
    lengths: tuple[SectionLength, ...] = ()
    rewritable: tuple[str, ...] = Field(default=(), description="titles of sections that may be rewritten as a whole")
    tried: tuple[Round, ...] = Field(default=(), description="the rounds before this one")
    news: tuple[str, ...] = Field(default=(), description="what was run since the draft was written, and is to be told")
    supports: tuple[Support, ...] = Field(default=(), description="works that were found for sentences of the draft")


class TextEdit(Frozen):
    """A passage replaced. `old` must stand exactly once in the part that is named."""

    section: str = Field(description="a section's title, or 'abstract' or 'title'")
    old: str = Field(description="the passage exactly as it stands, long enough to stand there only once")
    new: str = Field(description="what stands there instead; empty takes the passage out")


class SectionEdit(Frozen):
    """A whole section anew; only of those that may be rewritten."""

    title: str
    body: str


class Reflection(Frozen):
    """Targeted edits, made in this order; `done` with no edits ends the reflection."""

    done: bool
    edits: tuple[TextEdit, ...] = ()
    rewrites: tuple[SectionEdit, ...] = ()
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> its whole new caption")
    placements: dict[str, Placement] = Field(
        default_factory=dict[str, Placement], description="figure name -> where it is moved; from the text to the "
                                                          "appendix its \\paperfigure goes with it")

    @property
    def empty(self) -> bool:
        return not (self.edits or self.rewrites or self.captions or self.placements)


# --- figures in the paper -------------------------------------------------------------------------------------------


class Mention(Frozen):
    """A paragraph that refers to a figure, with its values printed."""

    where: str = Field(description="title of its section, or 'abstract'")
    text: str


class PlacedFigure(Frozen):
    """A figure as it stands in the compiled paper."""

    name: str
    page: int = Field(description="of the PDF, from 1")
    placement: Placement
    width: float = Field(description="inches on the page")
    scale: float = Field(default=1.0, description="printed width over the width that it was drawn at")
    description: str = Field(description="what it was drawn to show")
    caption: str = Field(description="with its values printed")
    mentions: tuple[Mention, ...] = ()
    lint: tuple[str, ...] = Field(default=(), description="what a program found")
    data: tuple[str, ...] = Field(default=(), description="what was drawn, a line each")


class FigureReviewInputs(Frozen):
    """For role `figure_review`, with a picture of each of `figures` from the PDF; answers with `PaperFigureReviews`.

    `others` have not changed since they were reviewed; their pictures are not shown.
    """

    data_plan: DataPlan
    title: str
    figures: tuple[PlacedFigure, ...]
    others: tuple[PlacedFigure, ...] = ()
    page_limit: int
    pages: int | None = Field(default=None, description="pages of main text; None where it did not compile")
    over: float = Field(default=0.0, description="pages of main text beyond the limit")


class PaperFigureReviews(Frozen):
    """One review for each figure that was shown."""

    looked: bool = Field(default=True, description="false where no picture could be seen")
    reviews: tuple[PaperFigureReview, ...] = ()
