"""What the search decides, what becomes of its nodes, how a stage ends, and what is found out after the search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.ablation import Ablation, MissingAblation
from labwright.record.schema.cell import Cell
from labwright.record.schema.code_reading import CodeDoubt, CodeReadingVerdict
from labwright.record.schema.data_plan import (
    DataPlan,
    DatasetFacts,
    FrozenScorer,
    HubItem,
    Measurement,
    ResampledInterval,
)
from labwright.record.schema.decisions import SearchAction, VisibleDecisions
from labwright.record.schema.figures import Figure, FigureReview
from labwright.record.schema.frozen_model import FrozenModel, Scalar
from labwright.record.schema.nodes import (
    Attempt,
    CellRun,
    Failure,
    HonestyFinding,
    NodeStatus,
    NodeStep,
    NodeVerdict,
    StageName,
    StageSummary,
)
from labwright.record.schema.packages import InstalledPackages
from labwright.record.schema.protocol_review import ReviewedFinding


class NodeProposed(FrozenModel):
    """The node of decision k has a plan and a source (sealed in nodes/<id>/source)."""

    type: Literal["proposed"] = "proposed"
    node: str
    decision: int
    title: str
    plan: str
    varies: str
    arms: tuple[str, ...] = Field(default=(), description="that the program adds to those of the data plan")
    source_sha256: str
    setups: dict[str, Scalar] = Field(default_factory=dict)
    author: str = Field(default="", description="the person who wrote the source; empty: a model")


class NodeStepEntered(FrozenModel):
    """Work on a node went over to another step. `proposed` and `done` follow from its decision and its verdict."""

    type: Literal["stepped"] = "stepped"
    node: str
    step: NodeStep


class CellsRequired(FrozenModel):
    """What a node has to measure, in the order of importance, with the key of each cell (sha256 of all it can reach).

    Cells in `taken` were measured under the same key by the execution named there, and are not run again.
    """

    type: Literal["cells_owed"] = "cells_owed"
    node: str
    cells: tuple[Cell, ...]
    keys: tuple[str, ...] = Field(description="one a cell")
    code: dict[str, str] = Field(default={}, description="arm -> sha256 of the files that its cells see")
    taken: dict[str, str] = Field(default_factory=dict, description="key -> id of the execution")


class CellExecuted(FrozenModel):
    """A cell of a node ran to its end, its folder cells/<id> is sealed."""

    type: Literal["cell_executed"] = "cell_executed"
    node: str
    run: CellRun


class AttemptExecuted(FrozenModel):
    """An attempt of a node ran to its end, its folder is sealed."""

    type: Literal["executed"] = "executed"
    node: str
    attempt: Attempt


class NodePlotted(FrozenModel):
    """A node's plots ran for the n-th time; with `failure` they drew nothing that can be used."""

    type: Literal["plotted"] = "plotted"
    node: str
    n: int
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0


class PlotsReviewed(FrozenModel):
    """The n-th plots of a node were reviewed."""

    type: Literal["reviewed"] = "reviewed"
    node: str
    n: int
    reviews: tuple[FigureReview, ...]
    looked: bool = Field(default=True, description="whether a model looked at the figures; the lint alone did if not")
    taken: dict[str, str] = Field(
        default={}, description="figure -> the node whose review of the very same picture stands for it"
    )


class NodeJudged(FrozenModel):
    """A node is finished."""

    type: Literal["judged"] = "judged"
    node: str
    status: NodeStatus
    reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    verdict: NodeVerdict | None = None


class NodeSuspected(FrozenModel):
    """A node's code was checked and something was found; `suspect` findings keep its numbers out."""

    type: Literal["suspected"] = "suspected"
    node: str
    findings: tuple[HonestyFinding, ...]


class NodeProbed(FrozenModel):
    """What the paper rests on was run again, after the search, with something changed that must move its numbers.

    Of `rows` it must move the predictions of the replaced rows, and no others.
    """

    type: Literal["probed"] = "probed"
    node: str
    probe: Literal["labels", "seed", "rows", "arms"] = Field(
        description=(
            "labels: training labels permuted; seed: another seed; rows: every second row to be predicted "
            "replaced; arms: "
            "the names of baseline and method exchanged"
        )
    )
    seconds: float = 0.0
    measurements: tuple[Measurement, ...] = ()
    outcome: Literal["moved", "still", "unclear"]
    why: str


class CodeRead(FrozenModel):
    """The code of a node that the paper rests on was read by a second role, or could not be."""

    type: Literal["code_read"] = "code_read"
    node: str
    reader: str = Field(description="the model")
    decision: int
    verdict: CodeReadingVerdict
    doubts: tuple[CodeDoubt, ...] = Field(default=(), description="whose quote stands at the lines that they cite")
    dropped: int = Field(default=0, description="doubts whose quote does not")


class SealedTestScored(FrozenModel):
    """The sealed test predictions of a frozen node were scored: once, after the last stage."""

    type: Literal["unsealed"] = "unsealed"
    node: str
    measurements: tuple[Measurement, ...]
    failure: Failure | None = Field(default=None, description="why a frozen scorer gave no values")


class SealedTestResampled(FrozenModel):
    """The test examples were resampled, once, for every difference that the paper may print."""

    type: Literal["resampled"] = "resampled"
    found: tuple[ResampledInterval, ...]


NodeEvent = (
    NodeProposed
    | NodeStepEntered
    | CellsRequired
    | CellExecuted
    | AttemptExecuted
    | NodePlotted
    | PlotsReviewed
    | NodeJudged
    | NodeSuspected
    | NodeProbed
    | CodeRead
    | SealedTestScored
    | SealedTestResampled
)


class PlanPrepared(FrozenModel):
    """The data plan was fixed and its datasets were materialised."""

    type: Literal["prepared"] = "prepared"
    data_plan: DataPlan
    datasets: tuple[DatasetFacts, ...]
    scorers: tuple[FrozenScorer, ...] = Field(default=(), description="frozen for datasets of the plan")
    installed: InstalledPackages | None = Field(
        default=None, description="packages, where settings or plan ask for any"
    )
    hub: tuple[HubItem, ...] = Field(default=(), description="models and datasets that the plan took of the hub")
    settings: dict[str, int] = Field(default={}, description="overrides that follow from the plan, by dotted key")


class DecisionMade(FrozenModel):
    """Decision k, committed before anything is done about it. Its prompts use only the results in `seen`."""

    type: Literal["decided"] = "decided"
    k: int
    action: SearchAction
    seen: VisibleDecisions = VisibleDecisions()


class TaskDone(FrozenModel):
    """A step outside the search is finished."""

    type: Literal["work_done"] = "work_done"
    k: int


class NodesCompared(FrozenModel):
    """Decision k, a comparison, is answered; it is never asked again for this pair."""

    type: Literal["compared"] = "compared"
    k: int
    a: str
    b: str
    better: str | None = Field(default=None, description="the sounder node; None: neither")
    reasons: str = ""


class StageWinnerChosen(FrozenModel):
    """A stage's search ended and this node was carried forward (None: nothing good was found).

    Again where the one that was carried forward turned out suspect while later stages were searched.
    """

    type: Literal["stage_winner_chosen"] = "stage_winner_chosen"
    stage: StageName
    best: str | None
    reasons: tuple[str, ...] = ()
    ended: str = Field(description="why the stage's search ended")


class PlanAmended(FrozenModel):
    """The data plan was changed after it was fixed and before the lock; numbers count from 1."""

    type: Literal["amended"] = "amended"
    number: int = Field(ge=1)
    data_plan: DataPlan
    why: str
    by: str = Field(description="the person, or the step of the program that did it")
    seen: str = Field(description="what had been seen by then, in words")


class ConfirmationLocked(FrozenModel):
    """What is confirmed, and how, before any test score: fixed when the agenda settles. Another one follows only where
    the winner turns out suspect; test data are scored after the last."""

    type: Literal["locked"] = "locked"
    plan: str = Field(description="sha256 of the data plan as it is by now")
    amendments: int = Field(ge=0, description="that it has had")
    winner: str
    source: str = Field(description="sha256 of the winner's tree of files")
    trials: dict[str, int] = Field(default_factory=dict, description="arm -> the setting that it is confirmed with")
    n: int = Field(ge=0, description="fresh seeds")
    wanted: dict[str, int] = Field(
        default_factory=dict, description=("confirmatory hypothesis -> fresh seeds that its power asks for")
    )
    seeds: tuple[int, ...] = Field(description="in the order in which they run")
    why: str = Field(default="", description="why there are fewer seeds than are wanted")

    def is_fresh_seed(self, seed: int) -> bool:
        """Whether a seed is a fresh one: locked, or one after those, which takes the place of one that failed."""
        return bool(self.seeds) and seed >= self.seeds[0]


class ProtocolReviewed(FrozenModel):
    """The data plan was reviewed before it was fixed and before any code was written; `prepared` has it as amended.

    Findings that are open are printed in the paper. Nothing here ends a run.
    """

    type: Literal["protocol_reviewed"] = "protocol_reviewed"
    reviewer: str = Field(description="the model, as it was configured")
    reviewed: DataPlan
    findings: tuple[ReviewedFinding, ...] = ()
    amendment: PlanAmended | None = Field(
        default=None, description="number 1, where the plan was changed for a finding"
    )
    why: str = Field(default="", description="why there is no review")

    @property
    def message(self) -> str:
        """What came of it, in one line."""
        if self.why:
            return f"the plan was not reviewed: {self.why}"
        found, number = "finding" if len(self.findings) == 1 else "findings", len(self.findings) or "no"
        return f"{number} {found} on the plan by {self.reviewer}" + (
            f", {len(self.open_findings) or 'none'} open; the plan was {'amended' if self.amendment else 'not changed'}"
            if self.findings
            else ""
        )

    @property
    def open_findings(self) -> tuple[ReviewedFinding, ...]:
        """The findings that were not answered, or that the reviewer still holds."""
        return tuple(one for one in self.findings if one.open)


class StageSummarised(FrozenModel):
    """Decision k, the report on a stage, is written."""

    type: Literal["summarised"] = "summarised"
    k: int = 0
    summary: StageSummary


class AblationsPlanned(FrozenModel):
    """What the last stage takes up, in this order; without any, the risks of the idea."""

    type: Literal["ablations_planned"] = "ablations_planned"
    ablations: tuple[Ablation, ...] = ()
    risks: tuple[str, ...] = Field(
        default=(), description="for each risk of the idea, which ablation tests it or why none does"
    )
    why: str = Field(default="", description="why there are none")


class MissingAblationsNamed(FrozenModel):
    """What a reviewer of the draft would ask for, and what of it is run."""

    type: Literal["ablations_missed"] = "ablations_missed"
    missing: tuple[MissingAblation, ...] = ()
    why: str = Field(default="", description="why these, or why there are none")


SearchEvent = (
    PlanPrepared
    | PlanAmended
    | ProtocolReviewed
    | DecisionMade
    | TaskDone
    | NodesCompared
    | StageWinnerChosen
    | ConfirmationLocked
    | StageSummarised
    | AblationsPlanned
    | MissingAblationsNamed
)
