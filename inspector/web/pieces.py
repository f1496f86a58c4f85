"""A run's page as pieces: what a browser has is brought up to date by the pieces that differ.

Each piece is one element with an id, made by a macro of `run.html.jinja`, and made again only when what it shows has
changed: an update costs what is new, however many nodes there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from inspector.web.drawing import WIDE, Interval, drawn, intervals
from inspector.web.pages import Pages
from inspector.web.watched import Line, Watched
from record.claims import Difference, differences, validation_claims
from record.fold import RunState
from record.nouns import STAGES, Frozen, StageName, StageSummary


class Piece(NamedTuple):
    """An element: its id, where it goes when it is new, what it is; or new attributes of one that is there."""

    id: str
    parent: str
    html: str
    attributes: Mapping[str, str] | None = None


class Report(Frozen):
    """A stage's report: words, and the primary metric of its best with replicates."""

    stage: StageName
    best: str | None
    ended: str
    reasons: tuple[str, ...]
    summary: StageSummary | None
    metric: str
    intervals: tuple[Interval, ...]
    differences: tuple[Difference, ...]


class RunPieces:
    """Makes the pieces of one run, and keeps what it made."""

    def __init__(self, run: Watched, pages: Pages) -> None:
        self.run = run
        self._pages = pages
        self._made: dict[str, tuple[Any, Piece]] = {}
        self._now: tuple[int, dict[str, Piece]] = (-1, {})

    def now(self) -> tuple[int, dict[str, Piece]]:
        """The version of the run, and all pieces by their id."""
        with self.run.held:
            version = self.run.look()
            if self._now[0] != version:
                self._now = version, {piece.id: piece for piece in self._every()}
            return self._now

    def _every(self) -> Iterator[Piece]:
        run, tree, status = self.run, self.run.tree(), self.run.status()
        yield self._piece("summary", "main", run.name, Line(run), run.trouble)
        for stage in tree.stages:
            name = stage.stage
            yield self._piece(f"head-{name}", f"stage-{name}", stage.model_copy(update={"nodes": ()}), stage.searched,
                              len(stage.nodes))
            tree_of_stage = drawn(stage)
            yield Piece(f"svg-{name}", f"stage-{name}", "", {
                "class": "tree wide" if tree_of_stage.width > WIDE else "tree",
                "width": f"{tree_of_stage.width:.0f}", "height": f"{tree_of_stage.height:.0f}",
                "viewBox": f"0 0 {tree_of_stage.width:.0f} {tree_of_stage.height:.0f}"})
            for placed in tree_of_stage.nodes:
                yield self._piece(f"g-{placed.row.id}", f"svg-{name}", run.name, placed)
            for row in sorted(stage.nodes, key=lambda one: one.decision):
                yield self._piece(f"row-{row.id}", f"list-{name}", run.name, row)
            yield self._piece(f"report-{name}", "reports", run.name, report_of(run.state, name))
        yield self._piece("cost", "costs", status.cost, status.roles, status.budget)
        yield self._piece("happened", "events", status.last_events)
        yield self._piece("judgement", "paper", run.name, run.state.released, run.state.assessed)

    def _piece(self, name: str, parent: str, *values: Any) -> Piece:
        known = self._made.get(name)
        if known is None or known[0] != values:
            macro = name.partition("-")[0]
            known = self._made[name] = values, Piece(name, parent, self._pages.piece("pieces", macro, name, *values))
        return known[1]


def report_of(state: RunState, stage: StageName) -> Report:
    """What a stage's report rests on; empty parts before it is settled."""
    known, plan = state.stages[stage], state.data_plan
    claims = validation_claims(state, known.best) if known.best in state.nodes and plan is not None else []
    primary = plan.primary.name if plan is not None else ""
    return Report(
        stage=stage, best=known.best, ended=known.ended or "", reasons=known.reasons, summary=known.summary,
        metric=(plan.primary.title or primary) if plan is not None else "",
        intervals=intervals([one for one in claims if one.name == primary]),
        differences=tuple(one for one in differences(state, claims) if one.name == primary))


def changed(before: Mapping[str, Piece], after: Mapping[str, Piece]) -> list[Piece]:
    """The pieces that are new or differ, in the order of the page."""
    return [piece for name, piece in after.items() if before.get(name) != piece]


def by_parent(pieces: Mapping[str, Piece]) -> dict[str, list[Piece]]:
    """Pieces by the element that they go into, for the first rendering of a page."""
    found: dict[str, list[Piece]] = {f"{kind}-{stage}": [] for kind in ("svg", "list", "stage") for stage in STAGES}
    for piece in pieces.values():
        found.setdefault(piece.parent, []).append(piece)
    return found
