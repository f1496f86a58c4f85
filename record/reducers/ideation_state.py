"""An ideation: its topic, its searches and the ideas proposed."""

from __future__ import annotations

from dataclasses import dataclass, field

from labwright.record.events import paper_events


@dataclass
class IdeationState:
    """The ideation that the log is about; empty in a run."""

    started: paper_events.IdeationStarted | None = None
    literature_searches: dict[tuple[int, int], paper_events.LiteratureSearched] = field(
        default_factory=dict[tuple[int, int], paper_events.LiteratureSearched]
    )
    proposed_ideas: dict[int, paper_events.IdeaProposed] = field(default_factory=dict[int, paper_events.IdeaProposed])

    def apply(self, event: paper_events.IdeationEvent) -> None:
        """Fold one event of an ideation into the state, in place."""
        match event:
            case paper_events.IdeationStarted():
                self.started = event
            case paper_events.LiteratureSearched():
                self.literature_searches[event.k, event.n] = event
            case paper_events.IdeaProposed():
                self.proposed_ideas[event.k] = event
