"""The nouns of a run: frozen values that events carry, prompts show and papers cite.

Every folder may import this module; it imports none of ours. A noun never changes: a later fact about it is a
later event (`record.events`), and the state of a run is the fold of those (`record.fold`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

StageName = Literal["preliminary", "tuning", "agenda", "ablation"]
STAGES: tuple[StageName, ...] = ("preliminary", "tuning", "agenda", "ablation")

NodeKind = Literal["draft", "debug", "improve", "tune", "ablate", "replicate", "aggregate"]
NodeStatus = Literal["proposed", "running", "buggy", "good", "pruned", "cancelled"]
Split = Literal["train", "dev", "validation", "test"]
Grade = Literal["scored", "evaluated", "computed", "logged"]
ErrorClass = Literal[
    "syntax", "import", "shape", "memory", "timeout", "died", "no measurement", "figure", "no answer", "hopeless",
    "suspect", "killed", "other"]
"""`no answer`: the model wrote nothing usable; `hopeless`: we ended the code, since it could not come to anything;
`suspect`: it ran, but its numbers cannot be trusted (docs/honesty.md); `killed`: a person ended it."""


class Frozen(BaseModel):
    """A value that cannot change and refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- the idea -------------------------------------------------------------------------------------------------------


def _lines(value: Any) -> Any:
    """Accept what people write where a list of sentences is meant: one string, a list, or a mapping of titles."""
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if isinstance(value, dict):
        return tuple(f"{key}: {text}" for key, text in cast("dict[Any, Any]", value).items())
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return tuple("; ".join(_lines(item)) if isinstance(item, list | dict) else str(item) for item in items)
    return value


Lines = Annotated[tuple[str, ...], BeforeValidator(_lines)]


class Idea(BaseModel):
    """A research idea in AI-Scientist-v2's JSON form (field names unchanged), with three optional fields of ours."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    name: str = Field(alias="Name", min_length=1)
    title: str = Field(alias="Title", min_length=1)
    short_hypothesis: str = Field(default="", alias="Short Hypothesis")
    related_work: str = Field(default="", alias="Related Work")
    abstract: str = Field(default="", alias="Abstract")
    experiments: Lines = Field(alias="Experiments", min_length=1)
    risks: Lines = Field(default=(), alias="Risk Factors and Limitations")
    datasets: Lines = Field(default=(), alias="Datasets")
    metric: str | None = Field(default=None, alias="Metric")
    code: str | None = Field(default=None, alias="Code")


# --- the data plan --------------------------------------------------------------------------------------------------


class MetricSpec(Frozen):
    """A metric by name. The primary one is fixed in the data plan and never redefined."""

    name: str = Field(description="snake_case, one that the scorer knows where predictions are submitted")
    title: str = Field(default="", description="how a table heads it, e.g. 'log loss'")
    unit: str = Field(default="", description="empty for a pure number")
    higher_is_better: bool = Field(description="direction of improvement")


class Arm(Frozen):
    """One compared arm. A measurement's condition is `arm`, or `arm@level` where the plan has levels."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", description="short identifier, used as the condition")
    title: str = Field(default="", description="how a table names it")
    role: Literal["baseline", "method", "ablation"]
    description: str = ""


class Level(Frozen):
    """One level of the factor that the study varies besides the arm (a noise rate, a length)."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    title: str = ""
    value: float | None = Field(default=None, description="the level as a number, for an axis")


class DatasetUse(Frozen):
    """A registered dataset and the role it plays."""

    name: str = Field(description="a name from the catalogue that `lab.data(name)` accepts")
    reason: str = ""


class DataPlan(Frozen):
    """What `prepare` makes of an idea's prose before any code is written."""

    task: str = Field(description="one sentence: what is learned from what")
    datasets: tuple[DatasetUse, ...] = Field(min_length=1, description="the first is the main one")
    metrics: tuple[MetricSpec, ...] = Field(min_length=1, description="the first is primary: it selects")
    arms: tuple[Arm, ...] = Field(min_length=1, description="at least one baseline and one method")
    levels: tuple[Level, ...] = ()
    factor: str = Field(default="", description="what the levels are levels of, e.g. 'label noise rate'")
    expected_seconds: float = Field(gt=0, description="wall clock of one experiment: every arm, level and dataset")
    untested: tuple[str, ...] = Field(default=(), description="what the idea asks for and this plan cannot test")
    notes: str = ""

    @property
    def primary(self) -> MetricSpec:
        return self.metrics[0]

    @property
    def conditions(self) -> tuple[str, ...]:
        """Every `arm` or `arm@level` that the plan asks to be measured."""
        if not self.levels:
            return tuple(arm.name for arm in self.arms)
        return tuple(f"{arm.name}@{level.name}" for arm in self.arms for level in self.levels)


def arm_of(condition: str) -> str:
    """The arm named by a condition: `method@noise20` -> `method`."""
    return condition.partition("@")[0]


def level_of(condition: str) -> str:
    """The level named by a condition, or an empty string."""
    return condition.partition("@")[2]


class DatasetFacts(Frozen):
    """A dataset as it was materialised for a run."""

    name: str
    title: str = ""
    source: str = Field(description="e.g. 'sklearn:load_digits'")
    features: int
    classes: int
    sizes: dict[str, int] = Field(description="examples by split: train, dev, validation, test")
    duplicates: int = Field(default=0, description="test and validation examples that also stand in train")
    fingerprint: str = Field(description="sha256 of all splits")
    seed: int
    task: str = Field(default="", description="classification, regression, or none: a folder that the code reads; "
                                              "empty in older records")
    target: str = Field(default="", description="the column, or what else the labels are")
    columns: tuple[str, ...] = Field(default=(), description="features as the source has them, before any encoding")
    class_names: tuple[str, ...] = ()
    shape: tuple[int, ...] = Field(default=(), description="of one example, where it is no plain row of features")
    split_rule: str = Field(default="", description="how the splits were made, in words")
    duplicates_by: dict[str, int] = Field(default_factory=dict, description="'test in train' -> rows")
    missing: dict[str, int] = Field(default_factory=dict, description="column -> rows without a value")
    origin: str = Field(default="", description="sha256 of the file, folder or examples that it was read from")
    warnings: tuple[str, ...] = Field(default=(), description="what a reader of its results must know")
    scorer: str = Field(default="", description="what a frozen scorer of the user's computes, and from what, in words")

    @property
    def synthetic(self) -> bool:
        """Whether its examples were made by a program, and not collected."""
        return self.source.startswith("generated")


class Scorer(Frozen):
    """A scorer of the user's own, as it was frozen before the search (`sandbox.evaluation.scorers`)."""

    dataset: str
    function: str
    takes: Literal["predictions", "artifact"]
    metrics: tuple[MetricSpec, ...] = Field(min_length=1)
    sha256: str = Field(description="of its file")
    asks: str = Field(default="", description="what it wants to be handed, in the words of its docstring")


# --- measurements ---------------------------------------------------------------------------------------------------


class Measurement(Frozen):
    """One measured value. `grade` says who computed it, and from what (see docs/evidence.md)."""

    name: str
    value: float
    condition: str
    dataset: str
    split: Split
    seed: int
    step: int | None = None
    grade: Grade

    @field_validator("value")
    @classmethod
    def _finite(cls, value: float) -> float:
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"a measurement must be finite, not {value!r}")
        return value


class OverExamples(Frozen):
    """How a paired difference on test data varies with the test examples: a percentile interval over resamples of
    them, of the mean over the same replicates. `reason` says why there is none, where there is none."""

    key: str = Field(description="of the difference")
    nodes: tuple[str, ...] = Field(description="whose predictions were resampled")
    others: tuple[str, ...] = Field(description="those of the other arm, in the same order")
    low: float | None = None
    high: float | None = None
    examples: int = Field(default=0, description="of the test set")
    draws: int = Field(default=0, description="resamples of the whole test set")
    reason: str = ""

    def supports(self, mean: float) -> bool:
        """Whether the interval lies on the side of zero that the mean lies on, or there is none."""
        if self.low is None or self.high is None:
            return True
        return self.low > 0 if mean > 0 else self.high < 0


# --- nodes ----------------------------------------------------------------------------------------------------------


class Failure(Frozen):
    """Why something did not work: an error class for the search, words for the debugger."""

    kind: ErrorClass
    message: str
    traceback: str = ""


class Attempt(Frozen):
    """One execution of a node's code."""

    number: int = Field(ge=1)
    seconds: float = Field(ge=0, description="wall clock, of the code alone")
    limit: float | None = Field(default=None, description="wall clock that it was allowed; None in older records")
    alone: bool = Field(default=False, description="whether no other code of ours ran beside it: a retry for memory")
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = Field(default=(), description="final values (no step), validation only")
    arrays: dict[str, str] = Field(default_factory=dict, description="file under arrays/ -> sha256")
    sealed: dict[str, str] = Field(default_factory=dict, description="sealed test predictions: file -> sha256")
    curves_sha256: str | None = Field(default=None, description="of measurements.jsonl, which holds every step")
    artifacts: dict[str, str] = Field(default_factory=dict, description="file under artifacts/ -> sha256")
    resumed: bool = Field(default=False, description="whether it went on from a checkpoint of an earlier attempt")
    peak_host_bytes: int | None = Field(default=None, description="most resident memory; None: not measured")
    peak_gpu_bytes: int | None = Field(default=None, description="most memory on its GPUs; None: none, or unknown")
    stdout_tail: str = ""
    converged: bool | None = Field(default=None, description="whether logged loss curves levelled off; None: no curve")


class Figure(Frozen):
    """A figure that a plotting script saved, with the facts its live matplotlib object gave."""

    name: str = Field(description="file name under figures/, e.g. 'loss.png'")
    sha256: str
    facts: FigureFacts


class DrawnFacts(Frozen):
    """One thing that was drawn from data: what it is, how it looks, and what its values are."""

    kind: str = Field(description="line, scatter, bar, barh, image (a number a cell), picture, contour, area, "
                                  "box or patch")
    label: str = Field(default="", description="as a legend would show it")
    points: int = 0
    finite: bool = Field(default=True, description="whether a value is finite")
    low: float | None = Field(default=None, description="of the finite heights; cells of an image")
    high: float | None = None
    mean: float | None = None
    first: float | None = None
    last: float | None = None
    constant: bool = Field(default=False, description="three finite values or more, all equal")
    interval: bool = Field(default=False, description="error bars, or a band in its colour")
    colour: str = Field(default="", description="#rrggbb; empty: several")
    line: str = ""
    marker: str = ""
    hatch: str = ""


class AxesFacts(Frozen):
    """What one live matplotlib axes said of itself."""

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    series: int = Field(default=0, description="lines, bar groups, scatters and images with data")
    labelled_series: int = 0
    legend: bool = False
    empty: bool = Field(default=False, description="no artist holds a finite data point")
    visible: bool = True
    drawn: tuple[DrawnFacts, ...] = Field(default=(), description="the first 40")
    legend_entries: tuple[str, ...] = ()
    tick_words: tuple[str, ...] = Field(default=(), description="tick labels that are no numbers")
    notes: tuple[str, ...] = Field(default=(), description="texts within the axes, the first 40")
    note_count: int = 0
    xticks: int | None = Field(default=None, description="tick labels that are drawn; None: unknown")
    yticks: int | None = None
    xwords: bool = Field(default=False, description="whether all tick labels are words")
    ywords: bool = False
    xscale: str = "linear"
    yscale: str = "linear"
    xlimits: tuple[float, float] | None = None
    ylimits: tuple[float, float] | None = None
    spread: bool = Field(default=False, description="a band, error bars, boxes or loose intervals are drawn")
    zlabel: str | None = Field(default=None, description="None: there is no third axis")
    colourbar: bool = Field(default=False, description="whether the figure has one")
    covered: float = Field(default=0.0, description="share of the drawn data that lies under the legend")


class OverlapFacts(Frozen):
    """Two texts that lie on each other; `b` may be 'the legend' or 'another panel'."""

    a: str
    b: str
    share: float = Field(description="of the smaller one's box")


class FigureFacts(Frozen):
    """What a live matplotlib figure said of itself when it was saved."""

    axes: tuple[AxesFacts, ...] = ()
    width_inches: float = Field(default=0.0, description="of the file; 0: matplotlib did not save it")
    height_inches: float = 0.0
    dpi: float = 0.0
    words: tuple[str, ...] = Field(default=(), description="outside of the axes: its title, notes, legend")
    scales: tuple[str, ...] = Field(default=(), description="labels of its colour bars")
    clipped: tuple[str, ...] = Field(default=(), description="texts that reach beyond the canvas")
    overlaps: tuple[OverlapFacts, ...] = Field(default=(), description="the worst first")
    smallest_font: float | None = Field(default=None, description="points, at the figure's own size")
    smallest_text: str = ""
    cut: bool = Field(default=False, description="whether time or room did not suffice to look at every text")
    error: str = Field(default="", description="why the figure could not be looked at, or not to the end")


class FigureReview(Frozen):
    """A verdict on one figure; what is not readable or not faithful does not count."""

    name: str
    readable: bool = Field(description="whether a reader can use it as it is; recorded as false if it is not faithful")
    faithful: bool = Field(default=True, description="whether what is drawn agrees with the data summary")
    informative: bool = Field(default=True, description="whether it tells what the text, the tables or other figures "
                                                        "would not")
    issues: tuple[str, ...] = ()
    description: str = ""


class Plotting(Frozen):
    """One run of a node's plotting script. `reviews` is None until the figures were looked at."""

    n: int = Field(ge=1)
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0
    reviews: tuple[FigureReview, ...] | None = None
    looked: bool = Field(default=True, description="whether a model looked at the figures; the lint alone did if not")


Placement = Literal["main", "appendix"]
"""Where a figure stands in the paper."""


class FinalFigure(Frozen):
    """A figure of the paper, drawn from recorded arrays."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="file stem under figures/; saved as .pdf and .png")
    description: str = Field(description="what it shows, without numbers")
    placement: Placement = Field(default="main", description="main text, or appendix")
    panels: int = Field(default=1, ge=1, le=3, description="panels side by side")
    datasets: tuple[str, ...] = Field(default=(), description="names of the datasets that it shows")
    synthetic: bool = Field(default=False, description="whether all that it shows is of generated examples")
    width: float = Field(default=0.0, description="inches at which it was drawn; 0 where that is not known")


class Aspect(Frozen):
    """What a reviewer says of one side of a figure."""

    ok: bool
    issues: tuple[str, ...] = ()


class PaperFigureReview(Frozen):
    """A verdict on a figure as it stands in the compiled paper, with its caption and the text that refers to it."""

    name: str
    image: Aspect
    caption: Aspect
    references: Aspect = Field(description="the paragraphs that refer to it")
    duplicates: tuple[str, ...] = Field(default=(), description="names of figures of the paper that show the same")
    advice: Literal["keep", "appendix", "drop"] = Field(
        default="keep", description="where it should go: stay, into the appendix, or out of the paper")
    reason: str = Field(default="", description="of an advice other than keep")


class Verdict(Frozen):
    """The one typed judgement that a finished node gets."""

    sound: bool = Field(description="does the code test what its plan and the data plan say, on the data they name?")
    analysis: str = Field(description="three to five sentences: what was found, what it does not show")
    next_step: str = ""


Scalar = str | int | float | bool


class Finding(Frozen):
    """What a check of honesty found in a node's code, with its evidence (docs/honesty.md)."""

    kind: str = Field(description="e.g. 'constant', 'random', 'swallowed'")
    why: str = Field(description="one sentence that a reader can hold against the line")
    suspect: bool = Field(default=True, description="whether it keeps the node's numbers out; a note otherwise")
    file: str = "experiment.py"
    line: int = Field(default=0, description="from 1; 0: it is of no single line")
    text: str = Field(default="", description="the line")

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}: {self.text}: " if self.line else ""
        return f"{place}{self.why}"


class Node(Frozen):
    """A node as the log tells it so far."""

    id: str
    decision: int
    parent: str | None
    stage: StageName
    kind: NodeKind
    seed: int
    title: str = ""
    plan: str = ""
    varies: str = Field(default="", description="the hyperparameter, agenda item or ablated part that it tries")
    source_sha256: str = ""
    setups: dict[str, Scalar] = Field(default_factory=dict, description="upper-case constants of the source")
    author: str = Field(default="", description="the person who wrote the source; empty: a model")
    attempts: tuple[Attempt, ...] = ()
    plottings: tuple[Plotting, ...] = ()
    status: NodeStatus = "proposed"
    reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    verdict: Verdict | None = None
    suspect: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    closed: str = Field(default="", description="why a person wants nothing built on it; empty where none does")

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Final validation measurements of the last attempt."""
        return self.attempts[-1].measurements if self.attempts else ()

    @property
    def plots(self) -> int:
        """How often the node was plotted."""
        return len(self.plottings)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the last plotting."""
        return self.plottings[-1].figures if self.plottings else ()

    @property
    def reviews(self) -> tuple[FigureReview, ...]:
        """The verdicts on the last figures."""
        return (self.plottings[-1].reviews or ()) if self.plottings else ()

    @property
    def finished(self) -> bool:
        return self.status in ("good", "buggy", "pruned", "cancelled")


# --- decisions ------------------------------------------------------------------------------------------------------


class Expand(Frozen):
    """Make one node."""

    do: Literal["expand"] = "expand"
    stage: StageName
    kind: NodeKind
    parent: str | None = None
    ordinal: int = Field(default=0, description="how many nodes of this kind the stage decided on before")
    item: str = Field(default="", description="the agenda item or risk that this node takes up")
    seed: int = Field(description="the seed that its code runs with")


class Compare(Frozen):
    """Ask which of two nodes is the sounder one to build on: measurements cannot tell them apart."""

    do: Literal["compare"] = "compare"
    stage: StageName
    a: str = Field(description="node id; of the two the one decided on earlier")
    b: str


class Wait(Frozen):
    """Nothing worth doing until a result comes in."""

    do: Literal["wait"] = "wait"


class End(Frozen):
    """The stage is over."""

    do: Literal["end"] = "end"
    reason: str
    stage: StageName | None = None


class Work(Frozen):
    """A step that makes no node (prepare, summary, write ...), numbered so that its model calls have a key."""

    do: Literal["work"] = "work"
    task: str


def summary_of(stage: StageName) -> Work:
    """The step that reports on a stage: part of the search, since it overlaps the stage after."""
    return Work(task=f"summary of {stage}")


ABLATION_PLAN = Work(task="ablation plan")
"""What the last stage takes up is planned: part of the search, since what earlier stages owe goes on beside it."""

MISSING_ABLATIONS = Work(task="missing ablations")
"""After the draft: what a reviewer would ask for is asked, run, scored, and told."""

Action = Annotated[Expand | Compare | Wait | End | Work, Field(discriminator="do")]


class Seen(Frozen):
    """The decisions whose results decision k may use: all up to `through`, and `also`."""

    through: int = 0
    also: tuple[int, ...] = ()

    def __contains__(self, k: int) -> bool:
        return k <= self.through or k in self.also


# --- summaries and paper --------------------------------------------------------------------------------------------


class BranchStep(Frozen):
    """A node on the way from the root to a stage's best: what it changed, and its plan."""

    node: str
    stage: StageName
    kind: NodeKind
    varies: str
    plan: str


class StageSummary(Frozen):
    """A stage in words, from the record. Carries validation results only."""

    stage: StageName
    tried: str
    found: str
    held: str = Field(default="", description="what the replicates support, and what they do not")
    next: str = ""
    numbers: tuple[str, ...] = Field(default=(), description="keys of the claims on validation that carry the report")
    branch: tuple[BranchStep, ...] = Field(default=(), description="from the root to the stage's best, by the program")
    failures: tuple[str, ...] = Field(default=(), description="a line a failed node, by the program")


class Section(Frozen):
    """One section of a paper: a title and a LaTeX body in which every number is a macro."""

    title: str
    body: str


class Draft(Frozen):
    """What a writer hands in. Numbers are `\\result{key}` or `\\setup{key}`; floats `\\paperfigure{name}` etc."""

    title: str
    abstract: str
    sections: tuple[Section, ...] = Field(min_length=1)
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")
    placements: dict[str, Placement] = Field(
        default_factory=dict[str, Placement], description="figures that were moved, by name; the others stand where "
                                                          "their script put them")


class Usage(Frozen):
    """What one model answer took. `usd` is None where the price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None


class Spending(Frozen):
    """What a budget counts: of what is spent, of what is set aside, or of a cap."""

    usd: float = 0.0
    tokens: int = Field(default=0, description="of prompts and answers together")
    gpu_seconds: float = Field(default=0.0, description="wall clock of experiments, times the GPUs of each")

    def __add__(self, other: Spending) -> Spending:
        return Spending(usd=self.usd + other.usd, tokens=self.tokens + other.tokens,
                        gpu_seconds=self.gpu_seconds + other.gpu_seconds)

    def __mul__(self, times: int) -> Spending:
        return Spending(usd=self.usd * times, tokens=self.tokens * times, gpu_seconds=self.gpu_seconds * times)

    def above(self, other: Spending) -> Spending:
        """What this is more than another, 0 where it is less."""
        return Spending(usd=max(0.0, self.usd - other.usd), tokens=max(0, self.tokens - other.tokens),
                        gpu_seconds=max(0.0, self.gpu_seconds - other.gpu_seconds))


class CallKey(Frozen):
    """The identity of a model call: never its hash, since equal prompts may be asked twice on purpose."""

    decision: int
    attempt: int
    role: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.decision}.{self.attempt}.{self.role}.{self.ordinal}"


Figure.model_rebuild()
Plotting.model_rebuild()
Node.model_rebuild()
