"""Everything that can happen in a run, as small frozen values with a literal tag; a module a subject.

The log (`record.event_log`) stores them in order and adds a sequence number and the time; `record.reducers` turns them
into the state of the run. An event is committed before anything depends on it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from labwright.record.events.paper_events import IdeaEvent, PaperEvent
from labwright.record.events.repository_events import RepositoryEvent
from labwright.record.events.run_events import CallEvent, RunEvent
from labwright.record.events.search_events import NodeEvent, SearchEvent

Event = Annotated[
    RunEvent | SearchEvent | NodeEvent | CallEvent | IdeaEvent | PaperEvent | RepositoryEvent,
    Field(discriminator="type"),
]
EVENT_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)
