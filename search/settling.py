"""On what a stage goes on: on its best node, and on the next best one where that turned out suspect.

A stage settles again only while later stages are searched: what the next best one then owes, replicates and a report,
is done beside their search like anything else that is owed.
"""

from __future__ import annotations

from record.fold.state import RunState
from record.nouns.stages import STAGES, StageName
from search.settings import SearchSettings
from search.tree import View, view_of


def as_left(state: RunState, stage: StageName, settings: SearchSettings, *, by: int | None = None) -> View | None:
    """A stage as its search left it, with what people had marked when it was settled on what decision `by` found (None:
    by now); None while its search goes on."""
    end, last = state.end_of(stage), state.stages[stage].settlement(by) if by is not None else None
    told = state.last_decision if last is None else last[0]
    return view_of(state, stage, end.seen, before=end.k, told=told + 1, settings=settings) if end is not None else None


def unsettled(state: RunState, settings: SearchSettings) -> View | None:
    """The first stage that must settle again, since its best node is suspect by now, as its search left it."""
    for stage in STAGES[:-1]:
        best = state.nodes.get(state.stages[stage].best or "")
        if best is not None and best.suspect:
            return as_left(state, stage, settings)
    return None
