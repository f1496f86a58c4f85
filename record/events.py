"""Everything that can happen in a run, as small frozen values with a literal tag.

The log (`record.log`) stores them in order and adds a sequence number and the time; `record.fold` turns them into the
state of the run. An event is committed before anything depends on it. Adding a field needs a default, so that old
logs still read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from record.ablation import Ablation, MissingAblation
from record.citing import CheckedEntry, FoundWork, Searched, Support
from record.context import Digest
from record.ideation import FinalIdea, LiteratureSearch, Means
from record.judgement import Judgement
from record.machine import Machine
from record.nouns import (
    Action,
    Attempt,
    CallKey,
    DataPlan,
    DatasetFacts,
    Draft,
    Failure,
    Figure,
    FigureReview,
    FinalFigure,
    Finding,
    Frozen,
    Idea,
    Measurement,
    NodeKind,
    NodeStatus,
    OverExamples,
    PaperFigureReview,
    Scalar,
    Scorer,
    Seen,
    Spending,
    StageName,
    StageSummary,
    Usage,
    Verdict,
)


class Started(Frozen):
    """A run began. `settings` is the whole composed configuration, as it was saved."""

    type: Literal["started"] = "started"
    idea: Idea
    settings: dict[str, Any]
    seed: int
    version: str
    model: str
    isolation: str = Field(default="", description="'bubblewrap', or 'none: ' and why; empty in records older than it")
    machine: Machine | None = Field(default=None, description="what experiments run in; None in records older than it")
    template: str = Field(
        default="", description="sha256 of the run's own copy of the paper's template; empty in older records")


class Resumed(Frozen):
    """A process took the run up again; from here on earlier requests to stop no longer hold."""

    type: Literal["resumed"] = "resumed"
    settings: dict[str, Any] = Field(default_factory=dict, description="overrides given with resume, by dotted key")
    model: str = ""
    isolation: str = Field(default="", description="as in `started`, of this process")
    machine: Machine | None = Field(default=None, description="as in `started`, of this process")
    reaped: int = Field(default=0, description="processes of the run's kernels that had outlived the program")
    template: str = Field(
        default="", description="sha256 of the run's own copy of the paper's template, where another was named")


class Branched(Frozen):
    """The run begins here as a branch of another one: every event before this one was copied from its log.

    `sha256` is that of the copied events (`record.branching.digest_of`), the parent's log up to the point.
    """

    type: Literal["branched"] = "branched"
    parent: str = Field(description="name of the folder of the run that it branched from")
    path: str = Field(default="", description="where that folder lay")
    point: str = Field(description="a node (after its verdict), or a stage (before its first decision)")
    events: int = Field(description="how many events were copied")
    sha256: str
    seed: int = Field(description="of the choices after this event; experiments keep the seeds of the run")
    settings: dict[str, Any] = Field(default_factory=dict, description="overrides given with it, by dotted key")
    template: str = Field(
        default="", description="sha256 of the run's own copy of the paper's template, where another was named")
    version: str = Field(default="", description="of the program")
    note: str = Field(default="", description="what the person said with it")
    by: str = Field(default="", description="who branched: as the operating system knows them")
    beyond: tuple[str, ...] = Field(
        default=(), description="runs that the parent itself is a branch of, where that was after this point")


class Prepared(Frozen):
    """The data plan was fixed and its datasets were materialised."""

    type: Literal["prepared"] = "prepared"
    data_plan: DataPlan
    datasets: tuple[DatasetFacts, ...]
    scorers: tuple[Scorer, ...] = Field(default=(), description="frozen for datasets of the plan")


class Decided(Frozen):
    """Decision k, committed before anything is done about it. Its prompts use only the results in `seen`."""

    type: Literal["decided"] = "decided"
    k: int
    action: Action
    seen: Seen = Seen()


class Proposed(Frozen):
    """The node of decision k has a plan and a source (sealed in nodes/<id>/source)."""

    type: Literal["proposed"] = "proposed"
    node: str
    decision: int
    title: str
    plan: str
    varies: str
    source_sha256: str
    setups: dict[str, Scalar] = Field(default_factory=dict)
    author: str = Field(default="", description="the person who wrote the source; empty: a model")


class Executed(Frozen):
    """An attempt of a node ran to its end, its folder is sealed."""

    type: Literal["executed"] = "executed"
    node: str
    attempt: Attempt


class Plotted(Frozen):
    """A node's plots ran for the n-th time; with `failure` they drew nothing that can be used."""

    type: Literal["plotted"] = "plotted"
    node: str
    n: int
    figures: tuple[Figure, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0


class Reviewed(Frozen):
    """The n-th plots of a node were reviewed."""

    type: Literal["reviewed"] = "reviewed"
    node: str
    n: int
    reviews: tuple[FigureReview, ...]
    looked: bool = Field(default=True, description="whether a model looked at the figures; the lint alone did if not")


class Judged(Frozen):
    """A node is finished."""

    type: Literal["judged"] = "judged"
    node: str
    status: NodeStatus
    reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    verdict: Verdict | None = None


class Suspected(Frozen):
    """A node's code was checked and something was found; `suspect` findings keep its numbers out."""

    type: Literal["suspected"] = "suspected"
    node: str
    findings: tuple[Finding, ...]


class Probed(Frozen):
    """A winner was run again, after the search, with something changed that must move its numbers."""

    type: Literal["probed"] = "probed"
    node: str
    probe: Literal["labels", "seed"] = Field(description="labels: training labels permuted; seed: another seed")
    seconds: float = 0.0
    measurements: tuple[Measurement, ...] = ()
    outcome: Literal["moved", "still", "unclear"]
    why: str


class Compared(Frozen):
    """Decision k, a comparison, is answered; it is never asked again for this pair."""

    type: Literal["compared"] = "compared"
    k: int
    a: str
    b: str
    better: str | None = Field(default=None, description="the sounder node; None: neither")
    reasons: str = ""


class Settled(Frozen):
    """A stage's search ended and this node was carried forward (None: nothing good was found)."""

    type: Literal["settled"] = "settled"
    stage: StageName
    best: str | None
    reasons: tuple[str, ...] = ()
    ended: str = Field(description="why the stage's search ended")


class Summarised(Frozen):
    """A stage is over, with its report."""

    type: Literal["summarised"] = "summarised"
    summary: StageSummary


class Answered(Frozen):
    """A model's answer was paid for and committed. `request_sha256` verifies; the key identifies."""

    type: Literal["answered"] = "answered"
    key: CallKey
    request_sha256: str
    model: str
    answer: dict[str, Any]
    usage: Usage
    seconds: float
    retries: int = 0
    asked: str = Field(default="", description="model and temperature as configured when asked; the hash covers them")


class Reserved(Frozen):
    """The most that a call or an attempt may take, set aside before it begins; recorded where a budget is set.

    `Answered`, `Executed` or `Returned` settle it. What a kill cut off stays spent.
    """

    type: Literal["reserved"] = "reserved"
    k: int = Field(description="the decision that it is for")
    name: str = Field(description="the call's key, or node/attempt")
    spending: Spending


class Returned(Frozen):
    """What was set aside for a call was not taken: the provider was not reached, or refused at once."""

    type: Literal["returned"] = "returned"
    name: str


class Unsealed(Frozen):
    """The sealed test predictions of a frozen node were scored: once, after the last stage."""

    type: Literal["unsealed"] = "unsealed"
    node: str
    measurements: tuple[Measurement, ...]
    failure: Failure | None = Field(default=None, description="why a frozen scorer gave no values")


class AblationsPlanned(Frozen):
    """What the last stage takes up, in this order; without any, the risks of the idea."""

    type: Literal["ablations_planned"] = "ablations_planned"
    ablations: tuple[Ablation, ...] = ()
    risks: tuple[str, ...] = Field(default=(), description="for each risk of the idea, which ablation tests it or why "
                                                           "none does")
    why: str = Field(default="", description="why there are none")


class AblationsMissed(Frozen):
    """What a reviewer of the draft would ask for, and what of it is run."""

    type: Literal["ablations_missed"] = "ablations_missed"
    missing: tuple[MissingAblation, ...] = ()
    why: str = Field(default="", description="why these, or why there are none")


class Resampled(Frozen):
    """The test examples were resampled, once, for every difference that the paper may print."""

    type: Literal["resampled"] = "resampled"
    found: tuple[OverExamples, ...]


class ContextRead(Frozen):
    """The documents that the person gave were read and summarised."""

    type: Literal["context_read"] = "context_read"
    documents: tuple[Digest, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="what could not be read, and why, one line each")


class Ideating(Frozen):
    """Ideation on a topic began; its log is no run's."""

    type: Literal["ideating"] = "ideating"
    topic: str
    sha256: str = Field(description="of the topic's file")
    means: Means
    rounds: int = Field(description="reflections on an idea at most")
    version: str
    model: str


class LookedUp(Frozen):
    """The n-th query of decision k was made."""

    type: Literal["looked_up"] = "looked_up"
    k: int
    n: int
    search: LiteratureSearch


class Conceived(Frozen):
    """Decision k came to an idea, or to none since each draft repeated an earlier one."""

    type: Literal["conceived"] = "conceived"
    k: int
    idea: FinalIdea | None = None
    reason: str = Field(default="", description="why there is none")


class WorkDone(Frozen):
    """A step outside the search is finished."""

    type: Literal["work_done"] = "work_done"
    k: int


class FiguresMade(Frozen):
    """The paper's figures were drawn from recorded arrays."""

    type: Literal["figures_made"] = "figures_made"
    figures: dict[str, str] = Field(description="file under paper/figures -> sha256")
    descriptions: dict[str, str] = Field(description="stem -> what it shows")
    arrays: tuple[str, ...] = Field(description="sha256 of every array that the script was given")
    reviews: tuple[FigureReview, ...] = ()
    looked: bool = True
    failure: Failure | None = Field(default=None, description="of the figures that could not be drawn, a line each")
    placed: tuple[FinalFigure, ...] = Field(default=(), description="in order; empty in records older than it")
    left_out: dict[str, str] = Field(default_factory=dict, description="name of a figure -> why the paper has it not")


class FiguresSeen(Frozen):
    """The figures of an assessed draft were looked at in its PDF, with captions and the text that refers to them.

    A figure without changes keeps the review of the round before.
    """

    type: Literal["figures_seen"] = "figures_seen"
    round: int
    looked: bool = Field(description="whether a model saw the pictures")
    why: str = Field(default="", description="why nobody looked")
    reviews: tuple[PaperFigureReview, ...] = ()
    seen: dict[str, str] = Field(
        default_factory=dict, description="figure -> sha256 over picture, caption and text, as it was reviewed")


class LibraryChecked(Frozen):
    """The library that the run was given was held against its records of verification, and against catalogues."""

    type: Literal["library_checked"] = "library_checked"
    entries: tuple[CheckedEntry, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="papers of the user's folder that are not found")
    files: dict[str, str] = Field(description="what may be cited of it: file in the run -> sha256")


class WorksFound(Frozen):
    """A round of gathering citations: what was searched for, and what catalogues gave."""

    type: Literal["works_found"] = "works_found"
    version: int = Field(default=1, description="the writing of the paper that it is for")
    round: int
    searches: tuple[Searched, ...]
    works: tuple[FoundWork, ...] = ()


class WorksChosen(Frozen):
    """Of the works of a round, those that joined the library, with the sentences that they are to support."""

    type: Literal["works_chosen"] = "works_chosen"
    version: int = 1
    round: int
    supports: tuple[Support, ...] = ()
    refused: dict[str, str] = Field(default_factory=dict, description="title of a chosen work -> why it is not cited")
    files: dict[str, str] = Field(description="the verified entries: file in the run -> sha256")


class Drafted(Frozen):
    """A version of the paper's text: round 0 by the writer, then by the reflector."""

    type: Literal["drafted"] = "drafted"
    round: int
    draft: Draft
    violations: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    pages: int | None = None
    done: bool = False
    anew: bool = Field(default=False, description="assessed again, since the record has changed: the versions before "
                                                  "it no longer count")
    over: float = Field(default=0.0, description="pages of main text beyond the limit")
    complaints: tuple[str, ...] = Field(default=(), description="what should be better, and does not hold up a release")
    edits: tuple[str, ...] = Field(default=(), description="a reflector's edits that were made, shortened")
    refused: tuple[str, ...] = Field(default=(), description="its edits that could not be made, and why")


RULES = 2
"""Rules that verdicts and generated parts of a paper follow now. 1: not corrected for several comparisons."""


class Released(Frozen):
    """The paper was built for the last time. `released` is False for a DRAFT that the binder refused."""

    type: Literal["released"] = "released"
    released: bool
    pdf: str | None
    files: dict[str, str] = Field(default_factory=dict, description="paper file -> sha256")
    beside: dict[str, str] = Field(
        default_factory=dict, description="the disclosure and what else is released with it: file in the run -> sha256")
    reasons: tuple[str, ...] = ()
    pages: int | None = None
    rules: int = Field(default=1, description="what its verdicts and generated parts follow (`RULES` when it was made)")


class Rewriting(Frozen):
    """The paper of a finished run is written again, beside the one that is there."""

    type: Literal["rewriting"] = "rewriting"
    version: int
    settings: dict[str, Any] = Field(default_factory=dict, description="overrides given with it, by dotted key")
    model: str = ""
    template: str = Field(
        default="", description="sha256 of the run's own copy of the paper's template, where another was named")


class Assessed(Frozen):
    """The paper was judged, after its release and without bearing on it; or why there is no judgement."""

    type: Literal["assessed"] = "assessed"
    judgement: Judgement | None = None
    why: str = Field(default="", description="why there is no judgement")
    files: dict[str, str] = Field(default_factory=dict, description="report, relative to the run's folder -> sha256")


class Commanded(Frozen):
    """Somebody asked something of the running process (`control/`)."""

    type: Literal["commanded"] = "commanded"
    verb: Literal["stop", "pause", "resume", "note", "kill", "mark"]
    target: str = Field(default="", description="a node (kill, mark), or a stage (note; empty: the one at work)")
    text: str = Field(default="", description="the reason; of a note, what the next prompts see")
    mark: Literal["suspect", "closed"] = Field(default="suspect", description="of a mark; closed: nothing builds on it")
    by: str = Field(default="", description="who asked: as the operating system knows them")
    file: str = Field(default="", description="its name in control/, written by the process that took it")


class Unheeded(Frozen):
    """Files in `control/` had no effect: they were no commands, or came too late."""

    type: Literal["unheeded"] = "unheeded"
    number: int
    told: tuple[str, ...] = Field(description="why, a line each, of the first few")


class Limited(Frozen):
    """A ceiling of the run, or of one stage, was reached: nothing new is proposed there, what is there is reported."""

    type: Literal["limited"] = "limited"
    reason: str
    stage: StageName | None = Field(default=None, description="None: the whole run")
    without: tuple[NodeKind, ...] = Field(
        default=(), description="nodes after the search (replicate, aggregate) that are not begun any more either")


class Paused(Frozen):
    """The provider of a model is down or a quota is used up: no call is made until then."""

    type: Literal["paused"] = "paused"
    reason: str
    until: float = Field(description="when the next call is tried, in seconds since the epoch")


class Recovered(Frozen):
    """The provider answers again."""

    type: Literal["recovered"] = "recovered"
    seconds: float = Field(description="how long it did not")


class Ended(Frozen):
    """The process ended in an orderly way."""

    type: Literal["ended"] = "ended"
    exit_code: int
    reason: str


Event = Annotated[
    Started | Branched | Resumed | Prepared | Decided | Proposed | Executed | Plotted | Reviewed | Judged | Compared
    | Settled | Summarised | Answered
    | Reserved | Returned | Unsealed | WorkDone | FiguresMade | Drafted | Released | Assessed | Commanded | Limited
    | Rewriting | Paused | Recovered | Ended | AblationsPlanned | AblationsMissed
    | LibraryChecked | WorksFound | WorksChosen
    | Suspected | Probed | FiguresSeen | Resampled | ContextRead | Ideating | LookedUp | Conceived | Unheeded,
    Field(discriminator="type"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
