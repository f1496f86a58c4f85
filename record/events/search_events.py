"""Events of the search: decisions, progress and results of nodes, ends of stages, and checks after the search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.baseline_check import Ablation, MissingAblation, Surprise
from labwright.record.events.event import Event, NodeEvent
from labwright.record.schema import Scalar, is_empty
from labwright.record.schema.data_plan import (
    DataPlan,
    DatasetFacts,
    FrozenScorer,
    HubItem,
    Measurement,
    ResampledInterval,
)
from labwright.record.schema.decisions import SearchAction, VisibleDecisions
from labwright.record.schema.hypotheses import ReviewedFinding
from labwright.record.schema.nodes import (
    Attempt,
    Cell,
    CellRun,
    CodeDoubt,
    CodeReadingVerdict,
    Failure,
    HonestyFinding,
    InstalledPackages,
    Node,
    NodeStatus,
    NodeStep,
    NodeVerdict,
    StageName,
    StageSummary,
)
from labwright.record.schema.paper import AddendumEstimate, AddendumItem, Figure, FigureReview


class NodeProposed(NodeEvent, type="proposed"):
    """The node of decision k has a plan and a source (sealed in nodes/<id>/source)."""

    decision: int
    title: str
    plan: str
    varies: str
    arms: tuple[str, ...] = Field(default=(), description="arms that the program adds to those of the data plan")
    source_sha256: str
    setups: dict[str, Scalar] = Field(default_factory=dict)
    author: str = Field(default="", description="user who wrote the source; empty: a model")


class NodeStepEntered(NodeEvent, type="stepped"):
    """A node entered another step. `proposed` and `done` are implied by its decision and its verdict."""

    step: NodeStep


class CellsRequired(NodeEvent, type="cells_owed", latest="required_cells", by="node"):
    """The cells that a node must run, most important first, each with its key (sha256 of everything that it can
    access).

    Cells in `taken` were already measured under the same key by the named execution, and are not run again.
    """

    cells: tuple[Cell, ...]
    keys: tuple[str, ...] = Field(description="one per cell")
    code: dict[str, str] = Field(default={}, description="arm -> sha256 of the files that its cells see")
    taken: dict[str, str] = Field(default_factory=dict, description="key -> id of the reused execution")


class CellExecuted(NodeEvent, type="cell_executed"):
    """A cell of a node ran to completion; its folder cells/<id> is sealed."""

    run: CellRun


class AttemptExecuted(NodeEvent, type="executed"):
    """An attempt of a node ran to completion; its folder is sealed."""

    attempt: Attempt


class NodePlotted(NodeEvent, type="plotted"):
    """A node's plotting script ran for the n-th time; if `failure` is set, no usable figure was drawn."""

    n: int
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0


class PlotsReviewed(NodeEvent, type="reviewed"):
    """The figures of a node's n-th attempt at plots were reviewed."""

    n: int
    reviews: tuple[FigureReview, ...]
    looked: bool = Field(default=True, description="whether a model reviewed the figures; otherwise only the lint did")


class NodeJudged(NodeEvent, type="judged"):
    """A node is finished."""

    status: NodeStatus
    reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    verdict: NodeVerdict | None = None


class NodeSuspected(NodeEvent, type="suspected"):
    """A node's code was checked with findings; `suspect` findings exclude its numbers."""

    findings: tuple[HonestyFinding, ...]


class NodeProbed(NodeEvent, type="probed", listed="search.probes"):
    """After the search, a node on which the paper relies was run again with a change that must change its numbers.

    With `rows`, only the predictions of the replaced rows may change.
    """

    probe: Literal["labels", "seed", "rows", "arms"]
    """Labels: training labels permuted; rows: every second row to be predicted replaced; in old records also seed (the
    replicates) and arms (names of baseline and method swapped)."""
    seconds: float = 0.0
    measurements: tuple[Measurement, ...] = ()
    outcome: Literal["moved", "still", "unclear"]
    why: str


class CodeRead(Event, type="code_read", listed="search.code_readings"):
    """The code of a node on which the paper relies was read by a model, or reading it failed."""

    node: str
    reader: str = Field(description="name of the model")
    decision: int
    verdict: CodeReadingVerdict
    doubts: tuple[CodeDoubt, ...] = Field(default=(), description="doubts whose quote occurs at the cited lines")
    dropped: int = Field(default=0, description="number of doubts whose quote does not occur there")
    second: CodeReadingVerdict | None = Field(default=None, exclude_if=is_empty)
    """Verdict of a second, independent reading; None: the first one needed no confirmation."""


class SealedTestScored(Event, type="unsealed"):
    """The sealed test predictions of a frozen node were scored once, after the last stage."""

    node: str
    measurements: tuple[Measurement, ...]
    failure: Failure | None = Field(default=None, description="why a frozen scorer returned no values")


class SealedTestResampled(Event, type="resampled"):
    """The test examples were resampled once for every difference that the paper may print."""

    found: tuple[ResampledInterval, ...]


class PlanPrepared(Event, type="prepared"):
    """The data plan was fixed and its datasets were prepared."""

    data_plan: DataPlan
    datasets: tuple[DatasetFacts, ...]
    scorers: tuple[FrozenScorer, ...] = Field(default=(), description="frozen scorers for datasets of the plan")
    installed: InstalledPackages | None = None
    """Packages, if the settings or the plan require any."""
    hub: tuple[HubItem, ...] = Field(default=(), description="models and datasets that the plan uses from the hub")
    settings: dict[str, int] = Field(default={}, description="overrides that follow from the plan, by dotted key")
    constants: dict[str, dict[str, float]] = Field(default={}, exclude_if=is_empty)
    """Metric -> dataset -> its value for a constant prediction on validation data, where one can be computed."""


class DecisionMade(Event, type="decided"):
    """Decision k, committed before it is carried out. Its prompts use only the results in `seen`."""

    k: int
    action: SearchAction
    seen: VisibleDecisions = VisibleDecisions()


class TaskDone(Event, type="work_done"):
    """A step outside the search is finished."""

    k: int


class NodesCompared(Event, type="compared", latest="search.comparisons", by="a b"):
    """Decision k, a comparison of two nodes, has a result; this pair is not compared again."""

    k: int
    a: str
    b: str
    better: str | None = Field(default=None, description="the sounder node; None: neither")
    reasons: str = ""


class StageWinnerChosen(Event, type="stage_winner_chosen"):
    """A stage's search ended and selected this node (None: no good node was found).

    The event is repeated if the selected node becomes suspect during later stages.
    """

    stage: StageName
    best: str | None
    reasons: tuple[str, ...] = ()
    ended: str = Field(description="reason why the stage's search ended")


REDUCTION_AUTHOR, REVIEW_AUTHOR = "the program, for lack of time", "protocol review"
"""Steps of the program that amend a plan; any other author of an amendment is a person."""


class PlanAmended(Event, type="amended", listed="search.amendments"):
    """The data plan was changed after it was fixed and before the lock; amendments are numbered from 1."""

    number: int = Field(ge=1)
    data_plan: DataPlan
    why: str
    by: str = Field(description="user, or the program step that made the change")
    seen: str = Field(description="description of the results seen before the amendment")


class ConfirmationLocked(Event, type="locked"):
    """The program to confirm and how, fixed before any test scoring, when the last stage that may change it ends.

    A new lock follows only if the winner becomes suspect; test data are scored after the last lock.
    """

    plan: str = Field(description="sha256 of the current data plan")
    amendments: int = Field(ge=0, description="number of amendments to the plan")
    winner: str
    source: str = Field(description="sha256 of the winner's file tree")
    trials: dict[str, int] = Field(default_factory=dict, description="arm -> number of the confirmed setting")
    n: int = Field(ge=0, description="number of fresh seeds")
    wanted: dict[str, int] = Field(default_factory=dict)
    """Confirmatory hypothesis -> fresh seeds needed for its power."""
    seeds: tuple[int, ...]
    """Planned fresh seeds in the order in which they run; a later look takes the seeds after them."""
    looks: tuple[int, ...] = ()
    """Complete fresh seeds of each look (`record.schema.decisions`); empty: one look at all of them."""
    swapped: bool = False
    """Whether fresh seeds also measure compared arms at each other's tuned setting."""
    why: str = Field(default="", description="why there are fewer seeds than needed, or no controls")

    @property
    def short_hypotheses(self) -> tuple[str, ...]:
        """Confirmatory hypotheses that the pilot showed to need more seeds than were planned."""
        return tuple(name for name, count in self.wanted.items() if count > self.n)

    def is_fresh_seed(self, seed: int) -> bool:
        """Return whether a seed is fresh: i.e. locked, or a later seed that replaces a failed one."""
        return bool(self.seeds) and seed >= self.seeds[0]

    def is_confirming(self, node: Node) -> bool:
        """Return whether a node runs the winner with a fresh seed."""
        return node.kind == "replicate" and node.parent == self.winner and self.is_fresh_seed(node.seed)


class LookTaken(Event, type="look_taken"):
    """The hypotheses were tested on the first fresh seeds of the lock, on test data.

    Whether another look follows depends only on this table, the results so far and the time left.
    """

    look: int = Field(ge=0, description="index in `ConfirmationLocked.looks`")
    seeds: tuple[int, ...] = Field(description="the complete fresh seeds that it read, in their order")
    resampled: tuple[ResampledInterval, ...] = ()
    """Spread of every effect over test examples, for the mean over these seeds."""
    ends: str = Field(default="", description="why no further look follows; empty: sampling goes on")
    conclusive: bool = Field(default=False, description="whether the results ended sampling; otherwise a limit did")
    undecided: tuple[str, ...] | None = Field(default=None, description="claims for the next look; None (older): all")


class HoursSetAside(Event, type="hours_set_aside", latest="search.hours"):
    """Compute time (in slot-seconds) was set aside for the work that decides the study; the rest is for exploration."""

    when: str = Field(description="what was known by then")
    total: float = Field(description="time limit of the run times its slots")
    confirmation: float
    scoring: float = Field(description="probes and scoring of test predictions")
    write_up: float
    seeds: int = Field(description="fresh seeds that the confirmation is planned with")
    seed_seconds: float = Field(description="time of one fresh seed: every cell that it measures")


class ProtocolReviewed(Event, type="protocol_reviewed", latest="search.protocol_review"):
    """The data plan was reviewed before it was fixed and before any code was written; `prepared` has the amended plan.

    Open findings are printed in the paper. A review never ends a run.
    """

    reviewer: str = Field(description="model as configured")
    reviewed: DataPlan
    findings: tuple[ReviewedFinding, ...] = ()
    amendment: PlanAmended | None = None
    """Amendment number 1, if the plan was changed because of a finding."""
    why: str = Field(default="", description="reason for having no review")

    @property
    def outcome(self) -> DataPlan:
        """The plan after the review."""
        return self.amendment.data_plan if self.amendment is not None else self.reviewed

    @property
    def message(self) -> str:
        """The outcome in one line."""
        if self.why:
            return f"the plan was not reviewed: {self.why}"
        count, noun = len(self.findings) or "no", "finding" if len(self.findings) == 1 else "findings"
        found = f"{count} {noun} on the plan by {self.reviewer}"
        changed = "amended" if self.amendment else "not changed"
        rest = f", {len(self.open_findings) or 'none'} open; the plan was {changed}"
        return found + rest if self.findings else found

    @property
    def open_findings(self) -> tuple[ReviewedFinding, ...]:
        """The findings that were not answered, or that the reviewer maintains."""
        return tuple(one for one in self.findings if one.open)


class StageSummarised(Event, type="summarised"):
    """Decision k, the report on a stage, is written."""

    k: int = 0
    summary: StageSummary


class AblationsPlanned(Event, type="ablations_planned", latest="search.planned_ablations"):
    """The agenda of the ablation stage, in order; if empty, the risks of the idea."""

    ablations: tuple[Ablation, ...] = ()
    risks: tuple[str, ...] = ()
    """For each risk of the idea, the ablation that tests it, or the reason why none does."""
    surprise: Surprise | None = Field(default=None, exclude_if=is_empty)
    """What the first ablation is the exploratory control for."""
    why: str = Field(default="", description="reason for having no ablations")


class MissingAblationsNamed(Event, type="ablations_missed", latest="search.missing_ablations"):
    """Ablations requested by a reviewer of the draft, and the ablations that are run."""

    missing: tuple[MissingAblation, ...] = ()
    why: str = Field(default="", description="reason for these ablations, or for having none")


class AddendumRegistered(Event, type="addendum_registered", listed="search.addenda"):
    """What will be measured for reviewers was registered, before any of it ran, and after the test data were opened."""

    version: int = Field(description="version of the paper that reports it")
    plan: str = Field(description="sha256 of the data plan, which stays as it is")
    items: tuple[AddendumItem, ...] = Field(default=(), description="arms that are added, or refused")
    seeds: tuple[int, ...] = Field(default=(), description="further fresh seeds of the confirmed program")
    estimates: tuple[AddendumEstimate, ...] = Field(default=(), description="how the results will be read")
    refused: dict[str, str] = Field(default={}, description="request -> why nothing is measured for it")
    seen: str = Field(description="the results that were known")

    @property
    def accepted(self) -> tuple[AddendumItem, ...]:
        """The arms that are run."""
        return tuple(one for one in self.items if not one.refused)
