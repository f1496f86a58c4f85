"""Any event: the union of all of them, told apart by `type`, and how one is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from record.events.calls import CallEvent
from record.events.ideating import IdeaEvent
from record.events.nodes import NodeEvent
from record.events.papers import PaperEvent
from record.events.running import RunEvent
from record.events.searching import SearchEvent

Event = Annotated[
    RunEvent | SearchEvent | NodeEvent | CallEvent | IdeaEvent | PaperEvent, Field(discriminator="type")]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
