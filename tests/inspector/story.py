"""A small run told by hand, with text as hostile as a model can write it."""

from __future__ import annotations

from labwright.record.events import Event
from labwright.record.events.papers import Released
from labwright.record.events.running import Answered, Ended, Limited, Started
from labwright.record.events.searching import (
    Compared,
    Decided,
    Executed,
    Judged,
    Plotted,
    Prepared,
    Proposed,
    Reviewed,
    Settled,
    Summarised,
)
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import Arm, DataPlan, DatasetUse, Measurement, MetricSpec
from labwright.record.nouns.decisions import CallKey, Compare, Expand, Usage
from labwright.record.nouns.figures import FigureReview
from labwright.record.nouns.idea import Idea
from labwright.record.nouns.nodes import Attempt, Failure, NodeKind, StageName, StageSummary, node_id

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


class Story:
    """Collects events with times, one second apart."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, float]] = []
        self.k = 0

    def tell(self, *events: Event) -> None:
        for event in events:
            self.events.append((event, BEGAN + len(self.events)))

    def begin(self) -> None:
        self.tell(
            Started(idea=IDEA, settings=SETTINGS, seed=1, version="0", model="offline"),
            Prepared(data_plan=PLAN, datasets=()),
        )

    def expand(
        self, stage: StageName, kind: NodeKind, parent: str | None = None, *, seed: int = 1, varies: str = HOSTILE
    ) -> str:
        self.k += 1
        node = node_id(self.k)
        self.tell(
            Decided(k=self.k, action=Expand(stage=stage, kind=kind, parent=parent, seed=seed)),
            Answered(
                key=CallKey(decision=self.k, attempt=1, role="code", ordinal=0),
                request_sha256="0",
                model="offline",
                answer={},
                usage=Usage(input_tokens=900, output_tokens=400),
                seconds=0.5,
            ),
            Proposed(node=node, decision=self.k, title=HOSTILE, plan="p", varies=varies, source_sha256="0"),
        )
        return node

    def good(self, node: str, value: float) -> None:
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
        self.tell(
            Executed(node=node, attempt=Attempt(number=1, seconds=4.0, measurements=values)),
            Judged(node=node, status="good"),
        )

    def buggy(self, node: str) -> None:
        failure = Failure(kind="shape", message="shapes differ " + HOSTILE)
        self.tell(
            Executed(node=node, attempt=Attempt(number=1, seconds=1.0, failure=failure)),
            Judged(node=node, status="buggy", failure=failure),
        )

    @property
    def state(self) -> RunState:
        return fold(self.events)


def told() -> Story:
    """Two drafts, one mended by a debug child; a tuned node that was replotted and won; one node still running."""
    story = Story()
    story.begin()
    first = story.expand("preliminary", "draft")
    second = story.expand("preliminary", "draft")
    story.buggy(first)
    story.good(second, 0.4)
    mended = story.expand("preliminary", "debug", first)
    story.good(mended, 0.3)
    copy = story.expand("preliminary", "replicate", mended, seed=2)
    story.good(copy, 0.35)
    story.tell(
        Settled(stage="preliminary", best=mended, ended="limit " + HOSTILE),
        Summarised(k=0, summary=StageSummary(stage="preliminary", tried="t", found="f " + HOSTILE)),
    )
    tuned = story.expand("tuning", "tune", mended, varies="LEARNING_RATE=0.003")
    refused = FigureReview(name="loss.png", readable=False, issues=("no axis label " + HOSTILE,))
    story.tell(Plotted(node=tuned, n=1), Reviewed(node=tuned, n=1, reviews=(refused,)), Plotted(node=tuned, n=2))
    story.good(tuned, 0.2)
    story.expand("tuning", "tune", tuned)
    return story


def eventful() -> Story:
    """A settled stage whose code ignores its seed and that still owes a replicate; then a stage with a comparison, a
    retry for time, a pruned node and a limit."""
    story = Story()
    story.begin()
    best = story.expand("preliminary", "draft")
    story.good(best, 0.4)
    story.tell(Settled(stage="preliminary", best=best, ended="limit"))
    for seed in (2, 3):
        story.good(story.expand("preliminary", "replicate", best, seed=seed), 0.4)
    story.expand("preliminary", "replicate", best, seed=4)
    slow, doomed = story.expand("tuning", "tune", best), story.expand("tuning", "tune", best)
    late = Failure(kind="timeout", message="too long " + HOSTILE)
    hopeless = Failure(kind="hopeless", message="far below its peers " + HOSTILE)
    story.tell(
        Executed(node=slow, attempt=Attempt(number=1, seconds=60.0, limit=60.0, failure=late)),
        Executed(node=slow, attempt=Attempt(number=2, seconds=80.0, limit=90.0)),
        Judged(node=slow, status="good"),
        Executed(node=doomed, attempt=Attempt(number=1, seconds=9.0, failure=hopeless)),
        Judged(node=doomed, status="pruned", failure=hopeless, reasons=(HOSTILE,)),
    )
    story.k += 1
    story.tell(
        Decided(k=story.k, action=Compare(stage="tuning", a=best, b=slow)),
        Compared(k=story.k, a=best, b=slow, better=slow, reasons="it is simpler " + HOSTILE),
        Limited(stage="tuning", reason="limit of 9 model calls " + HOSTILE),
    )
    return story


def ended(code: int = 0) -> Story:
    """The same, settled, released and over."""
    story = told()
    story.tell(
        Settled(stage="tuning", best="n0005", ended="limit of 3 nodes"),
        Released(released=code == 0, pdf="paper/paper.pdf", reasons=("unbound number " + HOSTILE,)),
        Ended(exit_code=code, reason="because " + HOSTILE),
    )
    return story
