"""When what happened in a run, in seconds that were worked on it: folded from its events beside the state.

`RunState` says what is; charts over hours and cost need when it came to be so.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, ProcessEnded, RunResumed
from labwright.record.events.search_events import AttemptExecuted, NodeJudged, NodeStepEntered
from labwright.record.reducers.run_state import RunState

Steps = list[tuple[float, float]]
"""Second and the value from then on."""


class Moment(NamedTuple):
    """How long a run was worked on, and what its model calls had cost."""

    seconds: float
    usd: float


class ExecutionSpan(NamedTuple):
    """One execution of a node's code, from when to when, and the most memory it held (0: not measured)."""

    node: str
    begin: float
    end: float
    host: int
    gpu: int


@dataclass
class Timeline:
    """What a run was busy with, and when its nodes were judged."""

    judged: dict[str, Moment] = field(default_factory=dict[str, Moment])
    spans: list[ExecutionSpan] = field(default_factory=list[ExecutionSpan])
    usd: Steps = field(default_factory=lambda: [(0.0, 0.0)])
    tokens: Steps = field(default_factory=lambda: [(0.0, 0.0)])
    """Of all model calls so far, prompts and answers."""
    running: dict[str, float] = field(default_factory=dict[str, float])
    """Nodes whose code runs, since when."""

    def add_event(self, event: Event, state: RunState) -> None:
        """Take in an event, right after it was folded into the state."""
        now = state.active_seconds
        if isinstance(event, CallAnswered):
            used = event.usage
            self.usd.append((now, self.usd[-1][1] + (used.usd or 0.0)))
            self.tokens.append((now, self.tokens[-1][1] + used.input_tokens + used.output_tokens))
        elif isinstance(event, NodeStepEntered) and event.step == "running":
            self.running[event.node] = now
        elif isinstance(event, AttemptExecuted):
            one = event.attempt  # it is told a moment after its slot was free, so that its end is not now
            begin = max(0.0, self.running.pop(event.node, now - one.seconds))
            self.spans.append(
                ExecutionSpan(
                    event.node, begin, min(now, begin + one.seconds), one.peak_host_bytes or 0, one.peak_gpu_bytes or 0
                )
            )
        elif isinstance(event, NodeJudged):
            self.judged[event.node] = Moment(now, self.usd[-1][1])
            self.running.pop(event.node, None)
        elif isinstance(event, RunResumed | ProcessEnded):
            self.running.clear()

    def compute_usage(self, what: str = "slots") -> Steps:
        """How many slots were in use, or bytes of `host` or `gpu` memory: the sum of the most that each took."""
        changes: defaultdict[float, float] = defaultdict(float, {0.0: 0.0})
        for begin in self.running.values() if what == "slots" else ():
            changes[begin] += 1
        for span in self.spans:
            amount = 1 if what == "slots" else span.host if what == "host" else span.gpu
            changes[span.begin] += amount
            changes[span.end] -= amount
        times = sorted(changes)
        return [*zip(times, accumulate(changes[at] for at in times), strict=True)]


def compute_used_share(steps: Steps, until: float, most: float) -> float | None:
    """The mean of a value over the time up to `until`, as a share of the most; None where there is no time or most."""
    ends = [*(at for at, _ in steps[1:]), max(until, steps[-1][0])]
    area = sum(value * (end - at) for (at, value), end in zip(steps, ends, strict=True))
    return area / (until * most) if until > 0 and most > 0 else None
