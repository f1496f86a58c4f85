"""Events of the run as a whole: start, resume, branch, user commands, limits and end; model answers and
reservations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from labwright.record.events.event import Event
from labwright.record.events.search_events import ProtocolReviewed
from labwright.record.machine import ComputeRate, Machine
from labwright.record.schema import is_empty
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import CallKey, Cost, StudiedLLMUsage, TokenUsage
from labwright.record.schema.earlier_study import RecalledStudy
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import GateName, NodeKind, StageName, StudyKind
from labwright.record.schema.paper import PaperDraft


class RunStarted(Event, type="started"):
    """A run started. `settings` is the complete saved configuration."""

    kind: StudyKind = Field(default="paper", exclude_if=lambda value: value == "paper")
    idea: Idea
    settings: dict[str, Any]
    seed: int
    version: str
    model: str
    isolation: str = Field(default="", description="'bubblewrap', or 'none: ' and the reason")
    machine: Machine | None = Field(default=None, description="machine on which experiments run")
    rate: ComputeRate | None = Field(default=None, description="measured speed of the machine; None: not measured")
    template: str = Field(default="", description="sha256 of the run's own copy of the paper's template")
    plan: DataPlan | None = Field(default=None, description="the data plan, if the user gave one")
    review: ProtocolReviewed | None = Field(default=None, exclude_if=is_empty)
    """The review of exactly that plan by a dry run; it is not repeated."""


class RunResumed(Event, type="resumed"):
    """A process resumed the run; earlier requests to stop no longer apply."""

    settings: dict[str, Any] = Field(default_factory=dict, description="overrides given with resume, by dotted key")
    model: str = ""
    isolation: str = Field(default="", description="as in `started`, for this process")
    machine: Machine | None = Field(default=None, description="as in `started`, for this process")
    rate: ComputeRate | None = None
    """Measured again if the machine, or the run's share of it, differs."""
    reaped: int = Field(default=0, description="leftover kernel processes of the run that were killed")
    template: str = ""
    """sha256 of the run's own copy of the paper's template, if another template was given."""


class RunBranched(Event, type="branched"):
    """The run starts here as a branch of another one: every earlier event was copied from the parent's log.

    `sha256` is the hash of the copied events (`record.branching.hash_events`), i.e. of the parent's log up to the
    branch point.
    """

    parent: str = Field(description="folder name of the run from which it branched")
    path: str = Field(default="", description="path of that folder at the time")
    point: str = Field(description="a node (after its verdict), or a stage (before its first decision)")
    events: int = Field(description="number of copied events")
    sha256: str
    seed: int = Field(description="seed for the choices after this event; experiments keep the run's seeds")
    settings: dict[str, Any] = Field(default_factory=dict, description="overrides given with it, by dotted key")
    template: str = ""
    """sha256 of the run's own copy of the paper's template, if another template was given."""
    version: str = Field(default="", description="version of the program")
    note: str = Field(default="", description="note given by the user")
    by: str = Field(default="", description="user name according to the operating system")
    later_ancestors: tuple[str, ...] = ()
    """Runs from which the parent itself branched after this point."""
    tested: bool = False
    """Whether the parent's test data were ever scored; if so, the branch's verdicts are exploratory."""


CTRL_C = "Ctrl-C"
"""`CommandReceived.by` of a stop by SIGINT."""


class CommandReceived(Event, type="commanded"):
    """A command to the running process was received (`control/`, or a signal)."""

    verb: Literal["stop", "pause", "resume", "note", "kill", "mark", "amend", "approve"]
    target: str = ""
    """A node (kill, mark), a stage (note; empty: the current one), or a gate (approve)."""
    text: str = Field(default="", description="the reason; for a note, the text shown in later prompts")
    mark: Literal["suspect", "closed"] = "suspect"
    """Kind of mark; closed: nothing builds on the node."""
    plan: DataPlan | None = None
    """For an amendment, or an approval with changes: the complete new plan."""
    draft: PaperDraft | None = Field(default=None, exclude_if=is_empty)
    """For an approval of a paper with changes: the complete new text."""
    by: str = Field(default="", description="user name according to the operating system, or the signal")
    file: str = Field(default="", description="name of the file in control/, set by the receiving process")


class CommandIgnored(Event, type="command_ignored"):
    """Files in `control/` had no effect because they were not commands or arrived too late."""

    number: int
    messages: tuple[str, ...] = Field(description="reasons for the first few, one line each")


class GateReached(Event, type="gate_reached"):
    """The run waits at a gate until a person approves what comes next (`CommandReceived`, verb approve)."""

    gate: GateName
    comes_next: str = Field(description="what the run does after the approval")
    cost: str = Field(default="", description="what that is estimated to cost; empty if unknown")
    plan: DataPlan | None = Field(default=None, description="at the gate plan: the plan to approve")


class GateEditRefused(Event, type="gate_edit_refused"):
    """A change made at a gate did not pass the checks, so the run still waits there."""

    gate: GateName
    reasons: tuple[str, ...]


class StudiesRecalled(Event, type="studies_recalled", latest="recalled_studies"):
    """The records of earlier studies that the prompts of this study show. Read once, so that a resumed study sees the
    same, whatever becomes of the memory."""

    memory: str = Field(description="folder of the memory")
    shown: tuple[RecalledStudy, ...] = ()
    left_out: int = Field(default=0, description="other records of the memory")
    problems: tuple[str, ...] = Field(default=(), description="files that are no record, one line each")


class StudyKept(Event, type="study_kept", latest="kept_study"):
    """The record of this study was written to a memory."""

    memory: str = Field(description="folder of the memory")
    id: str
    sha256: str = Field(description="hash of the record's file; empty if it could not be written")
    why: str = Field(default="", description="why it could not be written")


class LimitReached(Event, type="limit_reached"):
    """A limit of the run or of one stage was reached: no new node is proposed in it, and existing results are
    reported. For a stage and replicates: only the further seeds of its ablations end.
    """

    reason: str
    stage: StageName | None = Field(default=None, description="None: the whole run")
    skipped_kinds: tuple[NodeKind, ...] = ()


class ProviderOutage(Event, type="provider_outage", latest="outage"):
    """The provider of a model is down or a quota is used up; no call is made until the given time."""

    reason: str
    until: float = Field(description="time of the next attempt, in seconds since the epoch")


class ProviderRecovered(Event, type="recovered"):
    """The provider answers again."""

    seconds: float = Field(description="duration of the outage")


class ClockMoved(Event, type="clock_moved"):
    """The machine's clock jumped forward relative to the process's monotonic clock: the machine slept, or its clock was
    set. Nothing ran during that time. A clock that is set back needs no event: later events are dated after this one.
    """

    seconds: float = Field(description="size of the jump")


class ProcessEnded(Event, type="ended", latest="process_end"):
    """The process ended normally."""

    exit_code: int
    reason: str


class FoldersDeleted(Event, type="collected"):
    """Unreferenced checkpoints and artifacts are deleted right after this event (`record.retention`)."""

    keep: Literal["cited", "best"] = Field(description="the retention setting")
    folders: tuple[
        Annotated[str, Field(pattern=r"^(nodes/n\d+/attempt\d+|cells/[0-9a-f]{24}-\d+)/(artifacts|checkpoints)$")], ...
    ]
    bytes: int = Field(default=0, ge=0, description="bytes that this frees")


class StudiedLLMsAsked(Event, type="subjects_asked"):
    """Usage of studied language models by experiments, as of the start of a step of the run (details:
    `record.llm_calls`).
    """

    uses: tuple[StudiedLLMUsage, ...]


class CampaignMembership(Event, type="in_campaign", latest="campaign"):
    """The number of studies in the campaign of this run, recorded after its test data were scored
    (`record.campaign`).
    """

    ideas: int = Field(description="ideas of the campaign, including failed and set-aside ones")
    tests: dict[str, int] = Field(default_factory=dict)
    """Dataset -> number of other runs that scored its test split."""


class CallAnswered(Event, type="answered"):
    """A model's answer was received and committed. A later answer with the same key replaces it; both were billed."""

    key: CallKey
    request_sha256: str = Field(description="hash of the question as sent")
    question_sha256: str = Field(default="", description="hash of the question without machine and limits")
    model: str
    answer: dict[str, Any]
    usage: TokenUsage
    seconds: float
    retries: int = 0
    asked: str = Field(default="", description="model and temperature as configured at the time; covered by the hash")
    left_out: tuple[str, ...] = ()
    """Settings not sent because the model does not accept them, such as temperature."""


class PromptChanged(Event, type="prompt_changed", latest="calls.changed_prompts", by="key"):
    """A committed answer is reused although the machine or limits stated in its question have changed."""

    key: CallKey
    request_sha256: str = Field(description="hash of the question as it would be sent now")


class CallUnanswered(Event, type="unanswered", latest="calls.unanswered_calls", by="key"):
    """A call got no usable answer, and the step continues without one."""

    key: CallKey
    why: str
    then: str = Field(description="action taken instead")


AUTHOR_ROLE, HAND_IN = "coder", "hand_in"
"""Role of the model that works with tools, and the tool that ends its work."""


class ToolUsed(Event, type="tool_used", latest="calls.tool_uses", by="key"):
    """A tool that an author called was run. The model sees the result only after this event, and a resumed run does
    not call the tool again.
    """

    key: CallKey = Field(description="the answer that called the tool")
    tool: str
    transcript_sha256: str
    """Hash of the first tree, of all calls up to this one and of the results before it."""
    result: str = Field(description="the text that the model was shown")
    tree: str = Field(description="git tree of the files after the call")
    seconds: float = Field(ge=0)
    failed: bool = Field(default=False, description="whether the call had no effect")


class CostReserved(Event, type="reserved"):
    """The maximum cost of a call or attempt was reserved before its start; recorded if a budget is set.

    `CallAnswered`, `AttemptExecuted` or `ReservationReturned` settle it. The reservation of a killed call stays spent;
    of a killed attempt at most the time until the run was resumed.
    """

    k: int = Field(description="decision that it belongs to")
    name: str = Field(description="key of the call, or node/attempt")
    spending: Cost


class ReservationReturned(Event, type="returned"):
    """A reservation was not used: the provider was not reached, or refused the call immediately."""

    name: str
