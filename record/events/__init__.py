"""All events of a run, as small frozen values with a literal tag; one module per subject.

The log (`record.event_log`) stores them in order with a sequence number and timestamp; `record.reducers` folds them
into the state of the run. An event is committed before anything depends on it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from labwright.record.events.paper_events import IdeationEvent, PaperEvent
from labwright.record.events.repository_events import AblationEvent, QuestionEvent, RepositoryEvent
from labwright.record.events.run_events import CallEvent, RunEvent
from labwright.record.events.search_events import NodeEvent, SearchEvent

Event = Annotated[
    RunEvent
    | SearchEvent
    | NodeEvent
    | CallEvent
    | IdeationEvent
    | PaperEvent
    | RepositoryEvent
    | AblationEvent
    | QuestionEvent,
    Field(discriminator="type"),
]
EVENT_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)
