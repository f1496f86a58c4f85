"""All events of a run, as small frozen values with a literal tag; one module per subject.

The log (`record.event_log`) stores them in order with a sequence number and timestamp; `record.reducers` folds them
into the state of the run. An event is committed before anything depends on it.
"""

from __future__ import annotations

from pydantic import TypeAdapter

from labwright.record.events import paper_events, repository_events, run_events, search_events
from labwright.record.events.event import Event
from labwright.record.schema import build_adapter

__all__ = ["Event", "paper_events", "repository_events", "run_events", "search_events"]

EVENT_ADAPTER: TypeAdapter[Event] = build_adapter(Event)
