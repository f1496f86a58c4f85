"""Times of events in a run, in seconds of work, built from the events alongside the state.

`RunState` has only the current state; charts over time and cost need its history.
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
"""(second, value from then on) pairs."""


class Moment(NamedTuple):
    """Seconds of work, and the cost of model calls up to that time."""

    seconds: float
    usd: float


class ExecutionSpan(NamedTuple):
    """One execution of a node's code, with begin, end and peak memory (0: not measured)."""

    node: str
    begin: float
    end: float
    host: int
    gpu: int


@dataclass
class Timeline:
    """Executions, costs and judging times of nodes."""

    judged: dict[str, Moment] = field(default_factory=dict[str, Moment])
    spans: list[ExecutionSpan] = field(default_factory=list[ExecutionSpan])
    usd: Steps = field(default_factory=lambda: [(0.0, 0.0)])
    tokens: Steps = field(default_factory=lambda: [(0.0, 0.0)])
    """Cumulative prompt and answer tokens of all model calls."""
    running: dict[str, float] = field(default_factory=dict[str, float])
    """Node -> second when its code started."""

    def add_event(self, event: Event, state: RunState) -> None:
        """Add an event right after it was applied to the state."""
        now = state.active_seconds
        if isinstance(event, CallAnswered):
            used = event.usage
            self.usd.append((now, self.usd[-1][1] + (used.usd or 0.0)))
            self.tokens.append((now, self.tokens[-1][1] + used.input_tokens + used.output_tokens))
        elif isinstance(event, NodeStepEntered) and event.step == "running":
            self.running[event.node] = now
        elif isinstance(event, AttemptExecuted):
            one = event.attempt  # recorded shortly after its slot was freed, so the code has already ended
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
        """Return the number of slots in use, or the bytes of `host` or `gpu` memory, as the sum of peaks."""
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
    """Return the mean of a value up to `until` as a share of its maximum; None if either is zero."""
    ends = [*(at for at, _ in steps[1:]), max(until, steps[-1][0])]
    area = sum(value * (end - at) for (at, value), end in zip(steps, ends, strict=True))
    return area / (until * most) if until > 0 and most > 0 else None
