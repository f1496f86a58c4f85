"""The form of `review/disclosure.json`. Seconds, bytes, USD and tokens, as the fields are named."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from record.events.running import Unanswered
from record.events.searching import Compared, Probed
from record.machine import Machine
from record.nouns.data import DatasetFacts, Measurement, Scorer
from record.nouns.decisions import Action
from record.nouns.frozen import Frozen
from record.nouns.idea import Idea
from record.nouns.nodes import Check, Finding, NodeKind, NodeStatus, StageName
from record.trials import Trial

LATE = ("After the draft, a reviewer was asked which ablations its claims need. Whoever asked had read the test "
        "results of the draft; nothing was chosen by those of the new nodes, which were scored once, after all of them "
        "ran.")


class DisclosedAttempt(Frozen):
    """One execution."""

    number: int
    seconds: float
    limit: float | None
    alone: bool
    resumed: bool
    failure: str = Field(description="error class and message; empty where it ran to its end")
    peak_host_bytes: int | None
    peak_gpu_bytes: int | None
    arrays: int
    sealed: int


class DisclosedNode(Frozen):
    """One node, whatever became of it."""

    id: str
    decision: int
    parent: str | None
    stage: StageName
    kind: NodeKind
    seed: int
    title: str
    plan: str
    varies: str
    source_sha256: str
    status: NodeStatus
    reasons: tuple[str, ...]
    suspect: tuple[str, ...]
    findings: tuple[Finding, ...]
    failure: str
    verdict: str = Field(description="the model's analysis, empty where it gave none")
    checks: tuple[Check, ...] = Field(default=(), description="of the verdict")
    attempts: tuple[DisclosedAttempt, ...]
    figures: int
    validation: tuple[Measurement, ...]
    test: tuple[Measurement, ...]


class DisclosedMetric(Frozen):
    """A metric as it was looked at: on which data, by how many nodes, how often."""

    name: str
    dataset: str
    split: str
    conditions: tuple[str, ...]
    nodes: int
    values: int
    grades: tuple[str, ...]
    selects: bool = Field(description="whether nodes were chosen by it: the primary metric, on validation data")


class DisclosedDecision(Frozen):
    """A numbered decision, and the decisions whose results it might use."""

    k: int
    action: Action
    seen_through: int
    seen_also: tuple[int, ...]


class DisclosedStage(Frozen):
    """How a stage ended, and what was carried forward from among how many."""

    stage: StageName
    best: str | None
    reasons: tuple[str, ...]
    candidates: int = Field(description="search nodes that worked and are not suspect")
    tried: int = Field(description="search nodes in all")
    ended: str
    limited: str
    replicates: tuple[str, ...] = Field(description="of the best, failed ones included")


class DisclosedDraft(Frozen):
    """One version of the text."""

    round: int
    untied: int
    findings: int
    pages: int | None
    released: bool


class DisclosedCost(Frozen):
    """Calls of one role."""

    role: str
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="of the input, read from the provider's cache, as far as it says")
    cache_write_tokens: int
    cached_usd: float = Field(description="of `usd`, what the cached tokens took")
    usd: float
    unpriced: int = Field(description="calls whose price is unknown")
    seconds: float


class DisclosedNote(Frozen):
    """A note of the person who ran it, and the last decision before it."""

    after_decision: int
    text: str


class DisclosedSteering(Frozen):
    """What a person asked of the search while it went on, and the last decision before it. Not who it was."""

    after_decision: int
    verb: Literal["kill", "mark", "note"]
    target: str = Field(description="the node; of a note the stage")
    mark: str = Field(description="suspect or closed; empty for other verbs")
    reason: str = Field(description="of a note, its text")


class DisclosedAblations(Frozen):
    """All that the disclosure says of ablations."""

    trials: tuple[Trial, ...] = Field(description="in the order of the plan; those that a reviewer asked for last")
    risks: tuple[str, ...] = Field(description="each risk factor of the idea, and which ablation tests it, or why none")
    unplanned: str = Field(description="why there was no plan")
    missing: str = Field(description="what the reviewer of the draft said; empty: nobody was asked")
    rule: str = LATE


class DisclosedAncestor(Frozen):
    """A run that this one branched off. Costs are what was taken there up to the point, and count for no cap here."""

    run: str = Field(description="name of its folder")
    point: str
    decision: int = Field(description="the last decision that was taken there")
    nodes: int = Field(description="that were made there, or begun")
    events: int
    sha256: str = Field(description="of its log up to the point")
    seed: int = Field(description="of the choices after the point")
    settings_changed: tuple[str, ...]
    note: str
    by: str
    beyond: tuple[str, ...] = Field(description="runs that it was itself a branch of, from a later point than this one")
    calls: int
    tokens: int
    usd: float
    unpriced: int
    seconds_of_code: float
    seconds_of_run: float


class DisclosedHumanNode(Frozen):
    """A node whose code a person wrote."""

    node: str
    author: str
    stage: StageName
    kind: NodeKind
    plan: str


class Disclosure(Frozen):
    """All of it."""

    form: int = 1
    run_version: str = Field(description="version of the program")
    paper_version: int
    idea: Idea
    seed: int
    models: tuple[str, ...]
    isolation: tuple[str, ...] = Field(description="of each process that worked on the run")
    isolation_told: str
    machines: tuple[Machine, ...] = Field(description="hardware and versions; empty in records that do not say")
    settings: dict[str, Any]
    overrides: dict[str, Any] = Field(description="settings given when the run was taken up again")
    datasets: tuple[DatasetFacts, ...]
    scorers: tuple[Scorer, ...]
    untested: tuple[str, ...] = Field(description="what the idea asks for and the data plan cannot test")
    rules: dict[str, str]
    counts: dict[str, int]
    nodes: tuple[DisclosedNode, ...]
    metrics: tuple[DisclosedMetric, ...]
    decisions: tuple[DisclosedDecision, ...]
    stages: tuple[DisclosedStage, ...]
    reported: str | None = Field(description="the node that the paper reports")
    comparisons: tuple[Compared, ...]
    probes: tuple[Probed, ...]
    seedless: tuple[str, ...] = Field(description="nodes whose replicates gave the same values for every seed")
    drafts: tuple[DisclosedDraft, ...]
    limited: str
    cost: tuple[DisclosedCost, ...]
    lost_usd: float = Field(description="set aside for calls that a kill cut off, or that failed with an open bill")
    seconds_of_code: float
    seconds_of_run: float
    notes: tuple[DisclosedNote, ...]
    ablations: DisclosedAblations | None = Field(
        default=None, description="planned, tried, asked for by a reviewer; left out where nobody planned any")
    unscored: dict[str, str] = Field(
        default_factory=dict, description="node -> why a frozen scorer gave its test submissions no values")
    figures_left_out: dict[str, str] = Field(
        default_factory=dict, description="figure that was made for the paper -> why the paper has it not")
    steering: tuple[DisclosedSteering, ...] = Field(
        default=(), description="kills, marks and notes of people, in order (docs/steering.md)")
    figures_refused: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="node -> why a plotting of it was refused, each as 'plotting n: why'")
    human_nodes: tuple[DisclosedHumanNode, ...] = Field(default=(), description="nodes whose code a person wrote")
    ancestry: tuple[DisclosedAncestor, ...] = Field(
        default=(), description="runs that this one branched off, the first first; left out where there is none")
    unanswered: tuple[Unanswered, ...] = Field(
        default=(), description="model calls that got no usable answer, and what was done instead")
    siblings: str = Field(default="", description="of a branch: what is not known of other branches")
