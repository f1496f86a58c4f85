"""The base classes of all events of a run."""

from __future__ import annotations

from typing import Any, ClassVar

from labwright.record.schema import TaggedModel


class Event(TaggedModel):
    """A fact about a run, stored in its log under the tag of its class.

    A class names the field of the state that keeps its events: `latest` is the field with the latest one, or with the
    latest one for each value of the fields `by`; `listed` is a list of all. What else an event changes is in
    `record.reducers.event_fold`.
    """

    kept: ClassVar[tuple[str, str, str]] = ("", "", "")
    """`latest`, `by` and `listed`."""

    def __init_subclass__(cls, *, latest: str = "", by: str = "", listed: str = "", **config: Any) -> None:
        super().__init_subclass__(**config)
        cls.kept = latest, by, listed


class NodeEvent(Event):
    """A fact about one node, which every kind of study has."""

    node: str
