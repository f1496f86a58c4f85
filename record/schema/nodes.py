"""The stages of a run, and its nodes: attempts, plots, verdict and findings, and why one failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from pydantic import Field

from labwright.record.schema.cell import Cell, CellOutcomeLine, TrainingCounts
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.figures import Figure, FigureReview
from labwright.record.schema.frozen_model import FrozenModel, Scalar

StageName = Literal["preliminary", "tuning", "agenda", "ablation"]
STAGES: tuple[StageName, ...] = ("preliminary", "tuning", "agenda", "ablation")
Phase = Literal[
    "prepare",
    "preliminary",
    "tuning",
    "agenda",
    "ablation",
    "score",
    "figures",
    "write",
    "cite",
    "reflect",
    "missing",
    "release",
    "judge",
    "done",
]
"""What a run does next: the steps of its state machine, and `done`."""
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In the order in which a run goes through them."""
NodeKind = Literal["draft", "debug", "improve", "trial", "tune", "ablate", "replicate", "aggregate", "rung"]
"""`trial`: its parent's program with settings of one arm that are tried; `tune`: with the setting that was chosen for
each arm; `replicate`: with another seed; `rung`: the program's own ladder (`record.reference_baselines`). No model
writes these four."""
SEARCH_KINDS: frozenset[NodeKind] = frozenset({"draft", "debug", "improve", "tune", "ablate"})
"""The kinds that count against the node limit of a stage; the others come on top."""

SELECTION_KINDS: frozenset[NodeKind] = frozenset({"draft", "debug", "improve", "trial", "tune"})
"""Nodes whose values on validation select something."""


class BranchStep(FrozenModel):
    """A node on the way from the root to a stage's best: what it changed, and its plan."""

    node: str
    stage: StageName
    kind: NodeKind
    varies: str
    plan: str


class StageSummary(FrozenModel):
    """A stage in words, from the record. Carries validation results only."""

    stage: StageName
    tried: str
    found: str
    supported_by_replicates: str = Field(default="", description="what the replicates support, and what they do not")
    next: str = ""
    numbers: tuple[str, ...] = Field(default=(), description="keys of the claims on validation that carry the report")
    branch: tuple[BranchStep, ...] = Field(default=(), description="from the root to the stage's best, by the program")
    failures: tuple[str, ...] = Field(default=(), description="a line a failed node, by the program")


NodeStatus = Literal["proposed", "running", "buggy", "good", "pruned", "cancelled"]

NodeStep = Literal["proposed", "writing", "waiting", "running", "plotting", "reviewing", "judging", "done"]
"""What is being done about a node. `proposed`: nothing yet, or nothing since a kill; `writing`: a model writes its code
or a plotting script; `waiting`: it needs a free slot; `running`, `plotting`: its code or that script runs in one;
`reviewing`: a model looks at its figures; `judging`: a model judges it."""

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
"""`budget`: none was left for the language models that it asks; `no answer`: the model wrote nothing usable; `nothing
left`: it was free to say that nothing is worth trying, and
said so; `hopeless`: we ended the code, since it could not come to anything; `diverged`: a value was not finite;
`suspect`: it ran, but its numbers cannot be trusted (docs/honesty.md); `killed`: a person ended it."""


class Failure(FrozenModel):
    """Why something did not work: an error class for the search, words for the debugger."""

    kind: ErrorClass
    message: str
    traceback: str = ""
    ours: str = Field(
        default="",
        description="where the program itself failed on what the code left: exception, "
        "file:function:line of its innermost frames; empty where code failed",
    )


class CellRun(FrozenModel):
    """One execution of a cell. Its folder below the run's is `cells/<id>`."""

    id: str = Field(pattern=r"^[0-9a-f]{24}-[0-9]+$", description="from the key, and which execution of it")
    cell: Cell
    key: str = Field(description="sha256 of all that its code could reach")
    seconds: float = Field(ge=0, description="wall clock of the code alone")
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = Field(default=(), description="final values, validation only")
    self_reported: tuple[Measurement, ...] = Field(
        default=(), description="final values of train and dev, by the code itself"
    )
    arrays: dict[str, str] = Field(default_factory=dict, description="file under arrays/ -> sha256")
    sealed: dict[str, str] = Field(default_factory=dict, description="sealed test predictions: file -> sha256")
    artifacts: dict[str, str] = Field(default_factory=dict, description="file under artifacts/ -> sha256")
    curves_sha256: str | None = Field(default=None, description="of measurements.jsonl, which holds every step")
    stdout_tail: str = ""
    peak_host_bytes: int | None = Field(default=None, description="None: not measured")
    peak_gpu_bytes: int | None = Field(default=None, description="None: no GPU, or unknown")
    resumed: bool = Field(default=False, description="whether it went on from a checkpoint of an earlier execution")
    asked: dict[str, int] = Field(default={}, description="language model -> questions that it answered")
    exchanges_sha256: str | None = Field(default=None, description="of exchanges.jsonl, which names them")
    training: TrainingCounts | None = Field(
        default=None, description="as the sandbox counted it; None: nothing was seen"
    )


class Attempt(FrozenModel):
    """One execution of a node's code."""

    number: int = Field(ge=1)
    seconds: float = Field(ge=0, description="wall clock, of the code alone")
    limit: float | None = Field(default=None, description="wall clock that it was allowed")
    alone: bool = Field(default=False, description="whether no other code of ours ran beside it: a retry for memory")
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = Field(default=(), description="final values (no step), validation only")
    arrays: dict[str, str] = Field(default_factory=dict, description="file under arrays/ -> sha256")
    sealed: dict[str, str] = Field(default_factory=dict, description="sealed test predictions: file -> sha256")
    curves_sha256: str | None = Field(default=None, description="of measurements.jsonl, which holds every step")
    self_reported: tuple[Measurement, ...] = Field(
        default=(),
        description="final values (no step) that the code itself gave of train and dev: choices, diagnostics",
    )
    artifacts: dict[str, str] = Field(default_factory=dict, description="file under artifacts/ -> sha256")
    resumed: bool = Field(default=False, description="whether it went on from a checkpoint of an earlier attempt")
    asked: dict[str, int] = Field(default={}, description="language model -> questions that it answered")
    exchanges_sha256: str | None = Field(
        default=None, description="of exchanges.jsonl; None for cells, which have theirs"
    )
    peak_host_bytes: int | None = Field(default=None, description="most resident memory; None: not measured")
    peak_gpu_bytes: int | None = Field(default=None, description="most memory on its GPUs; None: none, or unknown")
    stdout_tail: str = ""
    cells: tuple[CellOutcomeLine, ...] = Field(
        default=(), description="what it owed and what became of each; empty for a program that does all at once"
    )

    @property
    def is_out_of_time(self) -> bool:
        """Whether cells met its time limit, or were left out for it."""
        return any(line.outcome == "left out" or line.why.startswith("timeout:") for line in self.cells)


class PlotRun(FrozenModel):
    """One run of a node's plotting script. `reviews` is None until the figures were looked at."""

    n: int = Field(ge=1)
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0
    reviews: tuple[FigureReview, ...] | None = None
    looked: bool = Field(default=True, description="whether a model looked at the figures; the lint alone did if not")
    taken: dict[str, str] = Field(
        default={}, description="figure -> the node whose review of the very same picture stands for it"
    )


class SoundnessCheck(FrozenModel):
    """Something that had to hold for a node's numbers to mean what its plan says, and whether it did."""

    name: str = Field(description="what was checked, in a few words")
    outcome: Literal["passed", "failed", "unclear"]
    seen: str = Field(description="what was seen, with its numbers, in one sentence")

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}; {self.seen}"


class NodeVerdict(FrozenModel):
    """The one typed judgement that a finished node gets."""

    sound: bool = Field(description="does the code test what its plan and the data plan say, on the data they name?")
    analysis: str = Field(description="six to twelve sentences: what was found, what it does not show")
    checks: tuple[SoundnessCheck, ...] = Field(default=(), description="that the plans or the code ask for")
    next_step: str = ""


class HonestyFinding(FrozenModel):
    """What a check of honesty found in a node's code, with its evidence (docs/honesty.md)."""

    kind: str = Field(description="e.g. 'constant', 'random', 'swallowed'")
    why: str = Field(description="one sentence that a reader can hold against the line")
    suspect: bool = Field(default=True, description="whether it keeps the node's numbers out; a note otherwise")
    sign: Literal["", "run", "reader"] = Field(
        default="",
        description=(
            "where a sign of dishonest code is from, which counts together with one from elsewhere; empty: no such sign"
        ),
    )
    file: str = "experiment.py"
    line: int = Field(default=0, description="from 1; 0: it is of no single line")
    text: str = Field(default="", description="the line")

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}: {self.text}: " if self.line else ""
        return f"{place}{self.why}"


class Node(FrozenModel):
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
    arms: tuple[str, ...] = Field(default=(), description="that its program adds to those of the data plan")
    trials: dict[str, int] = Field(default={}, description="arm -> the trial whose setting it runs with; 0: defaults")
    source_sha256: str = ""
    setups: dict[str, Scalar] = Field(default_factory=dict, description="upper-case constants of the source")
    author: str = Field(default="", description="the person who wrote the source; empty: a model")
    repairs_children: tuple[str, ...] = Field(
        default=(),
        description="children of its parent, which works, that failed alike; where it works, it stands for its parent",
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
    marked: int = Field(default=0, description="marks of people that make it suspect, or what it rests on")
    closed: str = Field(default="", description="why a person wants nothing built on it; empty where none does")

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Final validation measurements of the last attempt."""
        return self.attempts[-1].measurements if self.attempts else ()

    @property
    def is_trial(self) -> bool:
        """Whether it tries settings, so that its values are with its cells, and none is its own."""
        return self.kind == "trial" or (self.kind == "rung" and self.parent is None)

    @property
    def plot_count(self) -> int:
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
    def is_finished(self) -> bool:
        return self.status in ("good", "buggy", "pruned", "cancelled")


def format_node_id(decision_id: int) -> str:
    """The id of the node that decision k makes."""
    return f"n{decision_id:04d}"


def iterate_retries(node: Node) -> Iterator[tuple[Attempt, Attempt]]:
    """Each attempt that failed, or lacked time, with the one that followed it."""
    for first, second in zip(node.attempts, node.attempts[1:], strict=False):
        if first.failure is not None or first.is_out_of_time:
            yield first, second


def describe_limit_change(first: Attempt, second: Attempt) -> str:
    """The limits of an attempt as against the one before it."""
    given: list[str] = []
    if second.limit is not None and first.limit is not None and second.limit > first.limit:
        given.append(f"with a limit of {second.limit:.0f} s instead of {first.limit:.0f} s")
    if second.alone and not first.alone:
        given.append("alone on the machine")
    return " and ".join(given) or "with the same limits"
