"""Stages and nodes of a run: attempts, plots, verdicts, findings and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field

from labwright.record.schema.cell import Cell, CellOutcomeLine, TrainingCounts
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.figures import Figure, FigureReview
from labwright.record.schema.frozen_model import FrozenModel, Scalar
from labwright.record.schema.tuning import HyperparameterSetting

StageName = Literal["preliminary", "tuning", "agenda", "ablation"]
STAGES: tuple[StageName, ...] = ("preliminary", "tuning", "agenda", "ablation")
StudyKind = Literal["paper", "ablation", "question"]
"""What comes out of a study: a paper on an idea, the parts of a repository that matter, the answer to a question."""
GateName = Literal["plan", "lock", "paper"]
"""A point where a run can wait for a person: before the data of its plan are fetched, before the plan is locked, before
its paper is released."""
Phase = Literal[
    "prepare",
    "preliminary",
    "tuning",
    "agenda",
    "ablation",
    "score",
    "addendum",
    "figures",
    "write",
    "cite",
    "reflect",
    "missing",
    "release",
    "respond",
    "judge",
    "done",
    "reproduce",
    "ablate",
    "answer",
    "report",
]
"""The next step of a run's state machine, or `done`."""
PHASES: Mapping[StudyKind, tuple[Phase, ...]] = {
    "paper": get_args(Phase)[:-4],
    "ablation": ("prepare", "reproduce", "ablate", "report", "done"),
    "question": ("prepare", "answer", "report", "done"),
}
"""The phases of each kind of study, in order."""
REVISION_PHASES: tuple[Phase, ...] = ("addendum", "respond")
"""Phases of a version of the paper that answers reviewers."""
STUDY_STAGES: Mapping[StudyKind, tuple[StageName, ...]] = {
    "paper": STAGES,
    "ablation": ("preliminary", "ablation"),
    "question": ("preliminary",),
}
"""The stages of the nodes of each kind of study."""
NodeKind = Literal["draft", "debug", "improve", "trial", "tune", "ablate", "replicate", "aggregate", "rung"]
"""`trial`: the parent's program with settings of one arm to try; `tune`: with the chosen setting of each arm;
`replicate`: with another seed; `rung`: reference models (`record.reference_baselines`). No model writes code for these
four."""
SEARCH_KINDS: frozenset[NodeKind] = frozenset({"draft", "debug", "improve", "tune", "ablate"})
"""The kinds that count against the node limit of a stage; others are additional."""

PLANNING_STAGES: tuple[StageName, ...] = ("preliminary", "tuning")
"""Stages whose best node is still changed: its replicates serve to plan the number of fresh seeds, and measure only the
cells that confirmatory hypotheses read."""
SELECTION_KINDS: frozenset[NodeKind] = frozenset({"draft", "debug", "improve", "trial", "tune"})
"""Nodes whose validation values are used for selection."""


class BranchStep(FrozenModel):
    """A node on the path from the root to a stage's best node: its change and its plan."""

    node: str
    stage: StageName
    kind: NodeKind
    varies: str
    plan: str


class StageSummary(FrozenModel):
    """A written report on a stage, based on the record. Only contains validation results."""

    stage: StageName
    tried: str
    found: str
    supported_by_replicates: str = Field(
        default="", description="claims that the replicates support, and claims that they do not"
    )
    next: str = ""
    numbers: tuple[str, ...] = Field(default=(), description="keys of the validation claims behind the report")
    branch: tuple[BranchStep, ...] = Field(
        default=(), description="path from the root to the stage's best node, set by the program"
    )
    failures: tuple[str, ...] = Field(default=(), description="one line per failed node, set by the program")


NodeStatus = Literal["proposed", "running", "buggy", "good", "pruned", "cancelled"]

NodeStep = Literal["proposed", "writing", "waiting", "running", "plotting", "reviewing", "judging", "done"]
"""Current work on a node. `proposed`: no work yet, or none since a kill; `writing`: a model writes its code or a
plotting script; `waiting`: it needs a free slot; `running`, `plotting`: its code or that script is running;
`reviewing`: a model reviews its figures; `judging`: a model judges it.
"""

ErrorClass = Literal[
    "syntax",
    "import",
    "shape",
    "memory",
    "timeout",
    "died",
    "no measurement",
    "figure",
    "no answer",
    "hopeless",
    "suspect",
    "killed",
    "nothing left",
    "diverged",
    "budget",
    "other",
]
"""`budget`: the budget for studied language models was used up; `no answer`: the model wrote nothing usable; `nothing
left`: the model chose to report that nothing is worth trying; `hopeless`: the code was stopped because it could not
succeed; `diverged`: a value was not finite; `suspect`: it ran, but its numbers cannot be trusted (docs/honesty.md);
`killed`: the user ended it."""


class Failure(FrozenModel):
    """The reason for a failure: an error class for the search, and a message for the debugger."""

    kind: ErrorClass
    message: str
    traceback: str = ""
    ours: str = Field(
        default="",
        description="location of an internal error while processing the code's output: exception, file:function:line "
        "of the innermost frames; empty if the code failed",
    )


class ExecutionResult(FrozenModel):
    """Result of executing code: one cell, or the cells of a node together. Files are in its folder."""

    seconds: float = Field(default=0.0, ge=0, description="wall clock of the code alone")
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = Field(
        default=(),
        description="final values (no step), validation only; computed on the host if predictions were submitted",
    )
    self_reported: tuple[Measurement, ...] = Field(
        default=(), description="final values (no step) on train and dev reported by the code: choices, diagnostics"
    )
    arrays: dict[str, str] = Field(default_factory=dict, description="file under arrays/ -> sha256")
    sealed: dict[str, str] = Field(default_factory=dict, description="sealed test predictions: file -> sha256")
    artifacts: dict[str, str] = Field(default_factory=dict, description="file under artifacts/ -> sha256")
    curves_sha256: str | None = Field(default=None, description="sha256 of measurements.jsonl, which has every step")
    stdout_tail: str = ""
    peak_host_bytes: int | None = Field(default=None, description="peak resident memory; None: not measured")
    peak_gpu_bytes: int | None = Field(default=None, description="peak memory of its GPUs; None: no GPU, or unknown")
    resumed: bool = Field(default=False, description="whether it resumed from a checkpoint of an earlier execution")
    asked: dict[str, int] = Field(default={}, description="language model -> number of answered questions")
    exchanges_sha256: str | None = Field(
        default=None, description="sha256 of exchanges.jsonl, which lists them; None for several cells together"
    )

    def copy_results(self) -> dict[str, Any]:
        """Return the fields that every result has, for a result of another class."""
        return {name: getattr(self, name) for name in ExecutionResult.model_fields}


class CellRun(ExecutionResult):
    """One execution of a cell. Its folder is `cells/<id>` in the run's folder."""

    id: str = Field(pattern=r"^[0-9a-f]{24}-[0-9]+$", description="start of the key, and number of the execution")
    cell: Cell
    key: str = Field(description="sha256 of all that its code could access")
    training: TrainingCounts | None = Field(
        default=None, description="as reported by its process; None: nothing was observed"
    )


class TrialResult(FrozenModel):
    """The result of one setting of an arm, on one version of its code."""

    arm: str
    number: int
    setting: HyperparameterSetting
    code: str = Field(description="sha256 of the files that the arm's cells see")
    share: float
    node: str = Field(description="node that measured it first")
    kind: NodeKind = Field(description="kind of that node; any kind other than `trial` is a code version")
    outcome: Literal["measured", "failed", "running"]
    values: dict[str, float] = Field(
        description="dataset -> mean over levels of the metric by which trials are compared; the worst value if "
        "training diverged"
    )
    seconds: float = Field(description="compute time")
    seeds: int = Field(default=1, description="number of seeds; `values` are means over them")


class PanelEntry(NamedTuple):
    """The unit of comparison between nodes: one arm at one level (empty if the study has no levels) on one dataset."""

    dataset: str
    arm: str
    level: str


class Attempt(ExecutionResult):
    """One execution of a node's code. The files of a node that measures cells are in the folders of its cells."""

    number: int = Field(ge=1)
    limit: float | None = Field(default=None, description="time limit")
    alone: bool = Field(default=False, description="whether it ran alone, as a retry after running out of memory")
    cells: tuple[CellOutcomeLine, ...] = Field(
        default=(), description="required cells and their outcomes; empty for a program without cells"
    )

    @cached_property
    def validation_values(self) -> Mapping[str, Mapping[PanelEntry, float]]:
        """Metric -> its final values on validation data."""
        found: dict[str, dict[PanelEntry, float]] = {}
        for one in self.measurements:
            if one.split == "validation":
                arm, _, level = one.condition.partition("@")
                found.setdefault(one.name, {})[PanelEntry(one.dataset, arm, level)] = one.value
        return found

    @property
    def whole_seconds(self) -> float:
        """Run time as if every cell had run, also those that were reused."""
        return sum(line.seconds for line in self.cells) or self.seconds

    @property
    def is_out_of_time(self) -> bool:
        """Whether cells of the attempt reached its time limit, or were left out because of it."""
        return any(line.outcome == "left out" or line.why.startswith("timeout:") for line in self.cells)


class PlotRun(FrozenModel):
    """One run of a node's plotting script. `reviews` is None until the figures were reviewed."""

    n: int = Field(ge=1)
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0
    reviews: tuple[FigureReview, ...] | None = None
    looked: bool = Field(default=True, description="whether a model reviewed the figures; otherwise only the lint did")
    taken: dict[str, str] = Field(
        default={},
        description="figure -> node whose review of the identical image, or of a figure of the same script, is reused",
    )


class SoundnessCheck(FrozenModel):
    """A condition that must hold for a node's numbers to mean what its plan states, and whether it held."""

    name: str = Field(description="the property that was checked, in a few words")
    outcome: Literal["passed", "failed", "unclear"]
    seen: str = Field(description="the observation, with its numbers, in one sentence")

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}; {self.seen}"


class NodeVerdict(FrozenModel):
    """The typed judgement of a finished node."""

    sound: bool = Field(
        description="whether the code tests what its plan and the data plan say, on the datasets that they name"
    )
    analysis: str = Field(description="six to twelve sentences: the findings, and what they do not show")
    checks: tuple[SoundnessCheck, ...] = Field(default=(), description="checks that the plans or the code require")
    next_step: str = ""


class HonestyFinding(FrozenModel):
    """A finding of an honesty check in a node's code, with its evidence (docs/honesty.md)."""

    kind: str = Field(description="e.g. 'constant', 'random', 'swallowed'")
    why: str = Field(description="one sentence that a reader can compare with the line")
    suspect: bool = Field(default=True, description="whether it excludes the node's numbers; otherwise a note")
    file: str = "experiment.py"
    line: int = Field(default=0, description="from 1; 0: no single line")
    text: str = Field(default="", description="the line")

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}: {self.text}: " if self.line else ""
        return f"{place}{self.why}"


class Node(FrozenModel):
    """A node according to the log so far."""

    id: str
    decision: int
    parent: str | None
    stage: StageName
    kind: NodeKind
    seed: int
    title: str = ""
    plan: str = ""
    varies: str = Field(default="", description="hyperparameter, agenda item or ablated part that it tries")
    arms: tuple[str, ...] = Field(default=(), description="arms that its program adds to those of the data plan")
    trials: dict[str, int] = Field(default={}, description="arm -> number of the setting it runs with; 0: defaults")
    source_sha256: str = ""
    setups: dict[str, Scalar] = Field(default_factory=dict, description="upper-case constants of the source")
    author: str = Field(default="", description="user who wrote the source; empty: a model")
    repairs_children: tuple[str, ...] = Field(
        default=(),
        description="children of its working parent with the same failure; a successful repair replaces its parent",
    )
    attempts: tuple[Attempt, ...] = ()
    plottings: tuple[PlotRun, ...] = ()
    status: NodeStatus = "proposed"
    step: NodeStep = "proposed"
    reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    verdict: NodeVerdict | None = None
    suspect: tuple[str, ...] = ()
    findings: tuple[HonestyFinding, ...] = ()
    marked: int = Field(default=0, description="number of user marks that make this node or its dependencies suspect")
    closed: str = Field(default="", description="user's reason why nothing may build on it; empty: not closed")

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Final validation measurements of the last attempt."""
        return self.attempts[-1].measurements if self.attempts else ()

    @property
    def is_trial(self) -> bool:
        """Whether the node tries settings, so that only its cells have values."""
        return self.kind == "trial" or (self.kind == "rung" and self.parent is None)

    @property
    def plot_count(self) -> int:
        """Number of times that the node was plotted."""
        return len(self.plottings)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the last plotting."""
        return self.plottings[-1].figures if self.plottings else ()

    @property
    def reviews(self) -> tuple[FigureReview, ...]:
        """The reviews of the last figures."""
        return (self.plottings[-1].reviews or ()) if self.plottings else ()

    @property
    def is_finished(self) -> bool:
        return self.status in ("good", "buggy", "pruned", "cancelled")


def format_node_id(decision_id: int) -> str:
    """Return the id of the node that decision k creates."""
    return f"n{decision_id:04d}"


def iterate_retries(node: Node) -> Iterator[tuple[Attempt, Attempt]]:
    """Yield each attempt that failed or ran out of time, together with the next one."""
    for first, second in zip(node.attempts, node.attempts[1:], strict=False):
        if first.failure is not None or first.is_out_of_time:
            yield first, second


def describe_limit_change(first: Attempt, second: Attempt) -> str:
    """Describe the limits of an attempt compared with those of the previous attempt."""
    given: list[str] = []
    if second.limit is not None and first.limit is not None and second.limit > first.limit:
        given.append(f"with a limit of {second.limit:.0f} s instead of {first.limit:.0f} s")
    if second.alone and not first.alone:
        given.append("alone on the machine")
    return " and ".join(given) or "with the same limits"
