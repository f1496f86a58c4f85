"""A small run told by hand, with text as hostile as a model can write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labwright.inspector.status import RunStatus, build_status, fold_with_lines
from labwright.record.events import Event
from labwright.record.events.paper_events import PaperReleased
from labwright.record.events.run_events import CallAnswered, LimitReached, ProcessEnded, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodePlotted,
    NodeProposed,
    NodesCompared,
    PlanPrepared,
    PlotsReviewed,
    StageSummarised,
    StageWinnerChosen,
)
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Measurement, MetricSpec
from labwright.record.schema.decisions import CallKey, CompareNodes, ExpandTree, TokenUsage
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt, Failure, NodeKind, StageName, StageSummary, format_node_id
from labwright.record.schema.paper import FigureReview

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]loss[/] \u202eeslaf\u202c\r\nsecond \x9b31mline \x00"
BEGAN = 1_700_000_000.0

PLAN = DataPlan(
    task="learn digits " + HOSTILE,
    datasets=(DatasetUse(name="digits"),),
    expected_seconds=1.0,
    metrics=(MetricSpec(name="log_loss", title="log loss", higher_is_better=False),),
    arms=(Arm(name="plain", role="baseline"), Arm(name="smooth", role="method")),
)
IDEA = Idea.model_validate({"Name": "calm", "Title": "Calm " + HOSTILE, "Experiments": ["one"]})
SETTINGS = {"search": {"preliminary": {"nodes": 5}, "tuning": {"nodes": 3}}}


def read_status(
    run: str, events: Sequence[tuple[Event, float]], process: str | None, *, now: float, folder: Path | None = None
) -> RunStatus:
    """The status after these events, as `scientist status` shows it."""
    state, latest = fold_with_lines(events, 8)
    return build_status(run, state, latest, process, now=now, folder=folder)


class EventStory:
    """Collects events with times, one second apart."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, float]] = []
        self.k = 0

    def add(self, *events: Event) -> None:
        for event in events:
            self.events.append((event, BEGAN + len(self.events)))

    def add_start(self) -> None:
        self.add(
            RunStarted(idea=IDEA, settings=SETTINGS, seed=1, version="0", model="offline"),
            PlanPrepared(data_plan=PLAN, datasets=()),
        )

    def add_node(
        self, stage: StageName, kind: NodeKind, parent: str | None = None, *, seed: int = 1, varies: str = HOSTILE
    ) -> str:
        self.k += 1
        node = format_node_id(self.k)
        self.add(
            DecisionMade(k=self.k, action=ExpandTree(stage=stage, kind=kind, parent=parent, seed=seed)),
            CallAnswered(
                key=CallKey(decision=self.k, attempt=1, role="code", ordinal=0),
                request_sha256="0",
                model="offline",
                answer={},
                usage=TokenUsage(input_tokens=900, output_tokens=400),
                seconds=0.5,
            ),
            NodeProposed(node=node, decision=self.k, title=HOSTILE, plan="p", varies=varies, source_sha256="0"),
        )
        return node

    def finish_good(self, node: str, value: float) -> None:
        values = tuple(
            Measurement(
                name="log_loss",
                value=value + gap,
                condition=arm,
                dataset="digits",
                split="validation",
                seed=1,
                grade="computed",
            )
            for arm, gap in (("plain", 0.5), ("smooth", 0.0))
        )
        self.add(
            AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=4.0, measurements=values)),
            NodeJudged(node=node, status="good"),
        )

    def finish_buggy(self, node: str) -> None:
        failure = Failure(kind="shape", message="shapes differ " + HOSTILE)
        self.add(
            AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=1.0, failure=failure)),
            NodeJudged(node=node, status="buggy", failure=failure),
        )

    @property
    def state(self) -> RunState:
        return fold_events(self.events)


def make_sample() -> EventStory:
    """Two drafts, one mended by a debug child; a tuned node that was replotted and won; one node still running."""
    story = EventStory()
    story.add_start()
    first = story.add_node("preliminary", "draft")
    second = story.add_node("preliminary", "draft")
    story.finish_buggy(first)
    story.finish_good(second, 0.4)
    mended = story.add_node("preliminary", "debug", first)
    story.finish_good(mended, 0.3)
    copy = story.add_node("preliminary", "replicate", mended, seed=2)
    story.finish_good(copy, 0.35)
    story.add(
        StageWinnerChosen(stage="preliminary", best=mended, ended="limit " + HOSTILE),
        StageSummarised(k=0, summary=StageSummary(stage="preliminary", tried="t", found="f " + HOSTILE)),
    )
    tuned = story.add_node("tuning", "tune", mended, varies="LEARNING_RATE=0.003")
    refused = FigureReview(name="loss.png", readable=False, issues=("no axis label " + HOSTILE,))
    story.add(
        NodePlotted(node=tuned, n=1), PlotsReviewed(node=tuned, n=1, reviews=(refused,)), NodePlotted(node=tuned, n=2)
    )
    story.finish_good(tuned, 0.2)
    story.add_node("tuning", "tune", tuned)
    return story


def make_eventful() -> EventStory:
    """A settled stage whose code ignores its seed and that still owes a replicate; then a stage with a comparison, a
    retry for time, a pruned node and a limit."""
    story = EventStory()
    story.add_start()
    best = story.add_node("preliminary", "draft")
    story.finish_good(best, 0.4)
    story.add(StageWinnerChosen(stage="preliminary", best=best, ended="limit"))
    for seed in (2, 3):
        story.finish_good(story.add_node("preliminary", "replicate", best, seed=seed), 0.4)
    story.add_node("preliminary", "replicate", best, seed=4)
    slow, doomed = story.add_node("tuning", "tune", best), story.add_node("tuning", "tune", best)
    late = Failure(kind="timeout", message="too long " + HOSTILE)
    hopeless = Failure(kind="hopeless", message="far below its peers " + HOSTILE)
    story.add(
        AttemptExecuted(node=slow, attempt=Attempt(number=1, seconds=60.0, limit=60.0, failure=late)),
        AttemptExecuted(node=slow, attempt=Attempt(number=2, seconds=80.0, limit=90.0)),
        NodeJudged(node=slow, status="good"),
        AttemptExecuted(node=doomed, attempt=Attempt(number=1, seconds=9.0, failure=hopeless)),
        NodeJudged(node=doomed, status="pruned", failure=hopeless, reasons=(HOSTILE,)),
    )
    story.k += 1
    story.add(
        DecisionMade(k=story.k, action=CompareNodes(stage="tuning", a=best, b=slow)),
        NodesCompared(k=story.k, a=best, b=slow, better=slow, reasons="it is simpler " + HOSTILE),
        LimitReached(stage="tuning", reason="limit of 9 model calls " + HOSTILE),
    )
    return story


def make_ended(code: int = 0) -> EventStory:
    """The same, settled, released and over."""
    story = make_sample()
    story.add(
        StageWinnerChosen(stage="tuning", best="n0005", ended="limit of 3 nodes"),
        PaperReleased(released=code == 0, pdf="paper/paper.pdf", reasons=("unbound number " + HOSTILE,)),
        ProcessEnded(exit_code=code, reason="because " + HOSTILE),
    )
    return story
