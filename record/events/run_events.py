"""How a run begins, is resumed, branches, is steered, is limited and ends; answers of models, and what is reserved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from labwright.record.machine import ComputeRate, Machine
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import CallKey, Cost, TokenUsage
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.idea import Idea
from labwright.record.schema.llm_exchanges import StudiedLLMUsage
from labwright.record.schema.nodes import NodeKind, StageName

LOG_FORMAT_VERSION = 4
"""Of the records that this version writes and reads. Whoever changes what is stored takes the next number."""


class RunStarted(FrozenModel):
    """A run began. `settings` is the whole composed configuration, as it was saved."""

    type: Literal["started"] = "started"
    format: int = LOG_FORMAT_VERSION
    idea: Idea
    settings: dict[str, Any]
    seed: int
    version: str
    model: str
    isolation: str = Field(default="", description="'bubblewrap', or 'none: ' and why")
    machine: Machine | None = Field(default=None, description="what experiments run in")
    rate: ComputeRate | None = Field(default=None, description="how fast they run there; None where nobody measured it")
    template: str = Field(default="", description="sha256 of the run's own copy of the paper's template")
    plan: DataPlan | None = Field(default=None, description="the data plan, where the person gave one")


class RunResumed(FrozenModel):
    """A process took the run up again; from here on earlier requests to stop no longer hold."""

    type: Literal["resumed"] = "resumed"
    settings: dict[str, Any] = Field(default_factory=dict, description="overrides given with resume, by dotted key")
    model: str = ""
    isolation: str = Field(default="", description="as in `started`, of this process")
    machine: Machine | None = Field(default=None, description="as in `started`, of this process")
    rate: ComputeRate | None = Field(default=None, description="measured anew, where the machine or its share differs")
    reaped: int = Field(default=0, description="processes of the run's kernels that had outlived the program")
    template: str = Field(
        default="", description="sha256 of the run's own copy of the paper's template, where another was named"
    )


class RunBranched(FrozenModel):
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
        default="", description="sha256 of the run's own copy of the paper's template, where another was named"
    )
    version: str = Field(default="", description="of the program")
    note: str = Field(default="", description="what the person said with it")
    by: str = Field(default="", description="who branched: as the operating system knows them")
    later_ancestors: tuple[str, ...] = Field(
        default=(), description="runs that the parent itself is a branch of, where that was after this point"
    )
    tested: bool = Field(
        default=False,
        description="whether the parent's test data were scored, at whatever point: "
        "the branch's verdicts are exploratory then",
    )


class CommandReceived(FrozenModel):
    """Somebody asked something of the running process (`control/`)."""

    type: Literal["commanded"] = "commanded"
    verb: Literal["stop", "pause", "resume", "note", "kill", "mark", "amend"]
    target: str = Field(default="", description="a node (kill, mark), or a stage (note; empty: the one at work)")
    text: str = Field(default="", description="the reason; of a note, what the next prompts see")
    mark: Literal["suspect", "closed"] = Field(default="suspect", description="of a mark; closed: nothing builds on it")
    plan: DataPlan | None = Field(default=None, description="of an amendment: the whole plan, as it is to be")
    by: str = Field(default="", description="who asked: as the operating system knows them")
    file: str = Field(default="", description="its name in control/, written by the process that took it")


class CommandIgnored(FrozenModel):
    """Files in `control/` had no effect: they were no commands, or came too late."""

    type: Literal["command_ignored"] = "command_ignored"
    number: int
    messages: tuple[str, ...] = Field(description="why, a line each, of the first few")


class LimitReached(FrozenModel):
    """A limit of the run, or of one stage, was reached: nothing new is proposed there, what is there is reported."""

    type: Literal["limit_reached"] = "limit_reached"
    reason: str
    stage: StageName | None = Field(default=None, description="None: the whole run")
    skipped_kinds: tuple[NodeKind, ...] = Field(
        default=(), description="nodes after the search (replicate, aggregate) that are not begun any more either"
    )


class ProviderOutage(FrozenModel):
    """The provider of a model is down or a quota is used up: no call is made until then."""

    type: Literal["provider_outage"] = "provider_outage"
    reason: str
    until: float = Field(description="when the next call is tried, in seconds since the epoch")


class ProviderRecovered(FrozenModel):
    """The provider answers again."""

    type: Literal["recovered"] = "recovered"
    seconds: float = Field(description="how long it did not")


class ClockMoved(FrozenModel):
    """The machine's clock went another way than time did for the process that works on the run: the machine slept, or
    its clock was set. The run did not work in that time."""

    type: Literal["clock_moved"] = "clock_moved"
    seconds: float = Field(description="by which it is ahead of where it would be; below zero: behind")


class ProcessEnded(FrozenModel):
    """The process ended in an orderly way."""

    type: Literal["ended"] = "ended"
    exit_code: int
    reason: str


class FoldersDeleted(FrozenModel):
    """Checkpoints and artifacts that nothing refers to any more are deleted, right after this (`record.retention`)."""

    type: Literal["collected"] = "collected"
    keep: Literal["cited", "best"] = Field(description="the setting by which they go")
    folders: tuple[
        Annotated[str, Field(pattern=r"^(nodes/n\d+/attempt\d+|cells/[0-9a-f]{24}-\d+)/(artifacts|checkpoints)$")], ...
    ]
    bytes: int = Field(default=0, ge=0, description="that are free then")


class StudiedLLMsAsked(FrozenModel):
    """What experiments had asked language models when a step of the run began (`record.llm_calls` has each)."""

    type: Literal["subjects_asked"] = "subjects_asked"
    uses: tuple[StudiedLLMUsage, ...]


class CampaignMembership(FrozenModel):
    """How many studies this one is one of, once its test data were scored (`record.campaign`)."""

    type: Literal["in_campaign"] = "in_campaign"
    ideas: int = Field(description="of the campaign, with those that failed or were set aside")
    tests: dict[str, int] = Field(default_factory=dict, description="dataset -> others that scored its test split")


RunEvent = (
    RunStarted
    | RunResumed
    | RunBranched
    | CommandReceived
    | CommandIgnored
    | LimitReached
    | ProviderOutage
    | ProviderRecovered
    | FoldersDeleted
    | StudiedLLMsAsked
    | CampaignMembership
    | ClockMoved
    | ProcessEnded
)


class CallAnswered(FrozenModel):
    """A model's answer was paid for and committed. A later one under the same key takes its place: both were paid."""

    type: Literal["answered"] = "answered"
    key: CallKey
    request_sha256: str = Field(description="of the question as it was sent")
    question_sha256: str = Field(default="", description="of the question without what it tells of machine and limits")
    model: str
    answer: dict[str, Any]
    usage: TokenUsage
    seconds: float
    retries: int = 0
    asked: str = Field(default="", description="model and temperature as configured when asked; the hash covers them")
    left_out: tuple[str, ...] = Field(
        default=(), description="settings that the model does not take and that were not sent, as temperature"
    )


class PromptChanged(FrozenModel):
    """A committed answer is used, though the machine or the limits that its question told of are others by now."""

    type: Literal["prompt_changed"] = "prompt_changed"
    key: CallKey
    request_sha256: str = Field(description="of the question as it would be sent now")


class CallUnanswered(FrozenModel):
    """A call got no answer that can be used, and the step that made it goes on without."""

    type: Literal["unanswered"] = "unanswered"
    key: CallKey
    why: str
    then: str = Field(description="what is done instead")


class CostReserved(FrozenModel):
    """The most that a call or an attempt may take, set aside before it begins; recorded where a budget is set.

    `Answered`, `Executed` or `Returned` settle it. What a kill cut off stays spent.
    """

    type: Literal["reserved"] = "reserved"
    k: int = Field(description="the decision that it is for")
    name: str = Field(description="the call's key, or node/attempt")
    spending: Cost


class ReservationReturned(FrozenModel):
    """What was set aside for a call was not taken: the provider was not reached, or refused at once."""

    type: Literal["returned"] = "returned"
    name: str


CallEvent = CallAnswered | PromptChanged | CallUnanswered | CostReserved | ReservationReturned
