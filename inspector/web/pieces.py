"""A run's page as pieces: what a browser has is brought up to date by the pieces that differ.

Each piece is one element with an id, made by a macro of `pieces.html.jinja`, and made again only when what it shows has
changed: an update costs what is new, however many nodes there are.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from labwright.inspector.headline import Headline, headline_of
from labwright.inspector.render import subject_lines
from labwright.inspector.tree import StageRows
from labwright.inspector.web.drawing import WIDE, Interval, drawn, effect_bar, intervals
from labwright.inspector.web.forms import OF_NODES, actions
from labwright.inspector.web.pages import Pages
from labwright.inspector.web.plots import Chart, chart
from labwright.inspector.web.watched import RunLine, Watched
from labwright.record.claims.differences import Difference, differences
from labwright.record.claims.means import (
    Claim,
    ablation_claims,
    ablations,
    trusted_replicates,
    validation_claims,
    winner,
)
from labwright.record.effort import Account
from labwright.record.fold.state import RunState
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.nodes import STAGES, StageName, StageSummary


class Piece(NamedTuple):
    """An element: its id, where it goes when it is new, what it is; or new attributes of one that is there."""

    id: str
    parent: str
    html: str
    attributes: Mapping[str, str] | None = None


class Report(Frozen):
    """A stage's report: words, and the primary metric of its best, or of what was ablated from it, with replicates."""

    stage: StageName
    best: str | None
    ended: str
    reasons: tuple[str, ...]
    summary: StageSummary | None
    metric: str
    intervals: tuple[Interval[Claim], ...]
    differences: tuple[Difference, ...]


class RunPieces:
    """Makes the pieces of one run, and keeps what it made."""

    def __init__(self, run: Watched, pages: Pages) -> None:
        self.run = run
        self._pages = pages
        self._made: dict[str, tuple[Any, Piece]] = {}
        self._reports: dict[StageName, tuple[object, Report]] = {}
        self._headline: tuple[object, Headline | None] = None, None
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
        rows = [row for stage in tree.stages for row in stage.nodes]
        yield self._piece("summary", "main", run.name, RunLine(run, status=status), run.trouble)
        headline = self._head()
        yield self._piece(
            "headline",
            "heads",
            run.name,
            headline,
            tuple(tuple((effect, effect_bar(effect.part)) for effect in those) for those in headline.effects)
            if headline
            else (),
            intervals(headline.compared, zero=True) if headline else (),
            run.state.standing,
        )
        yield self._piece("steer", "wheel", run.name, actions(run))
        yield self._piece(
            "road",
            "roads",
            run.name,
            tuple(sorted((row for row in rows if row.on_best_path), key=lambda row: row.decision)),
            tree.winner,
        )
        for stage in tree.stages:
            yield from self._stage(stage)
            yield self._piece(f"report-{stage.stage}", "reports", run.name, self._report(stage.stage))
        yield self._piece(
            "tuned", "reports", run.name, tree.tuning, best_of_k(tree.tuning) if tree.tuning is not None else None
        )
        yield self._piece(
            "cost",
            "costs",
            status.cost,
            status.code_seconds,
            status.roles,
            status.budget,
            status.cells,
            subject_lines(status.subjects) if status.subjects is not None else [],
        )
        yield self._piece("happened", "events", status.last_events)
        yield self._piece("asked", "events", run.name, tuple(reversed(run.state.steered[-50:])), OF_NODES)
        yield self._piece("judgement", "paper", run.name, run.state.standing, run.state.released, run.state.version)
        yield self._piece(
            "checks",
            "checked",
            run.name,
            tuple(checks_of(run.state, tuple(row.id for row in rows if row.seedless))),
            tuple(run.state.standing.released.beside) if run.state.standing else (),
            shlex.quote(str(run.folder)),
        )

    def _head(self) -> Headline | None:
        """The headline, made anew when what it rests on is."""
        state = self.run.state
        best = winner(state)
        of = (
            state.data_plan,
            best,
            tuple(trusted_replicates(state, best)) if best else (),
            state.lock,
            len(state.tests),
            tuple(state.resampled.values()),
            len(state.ancestry),
        )
        if self._headline[0] != of:
            self._headline = of, headline_of(state)
        return self._headline[1]

    def _report(self, stage: StageName) -> Report:
        """The report of a stage, made anew when what it rests on is: its intervals and tests cost milliseconds."""
        state = self.run.state
        known = state.stages[stage]
        of = (
            known.best,
            known.ended,
            known.reasons,
            known.summary,
            state.data_plan,
            tuple(trusted_replicates(state, known.best)) if known.best else (),
            [trusted_replicates(state, node.id) for node in ablations(state)] if stage == "ablation" else (),
        )
        made = self._reports.get(stage)
        if made is None or made[0] != of:
            made = self._reports[stage] = of, report_of(state, stage)
        return made[1]

    def _stage(self, stage: StageRows) -> Iterator[Piece]:
        name, tree = stage.stage, drawn(stage)
        yield self._piece(
            f"head-{name}", f"stage-{name}", stage.model_copy(update={"nodes": ()}), stage.searched, len(stage.nodes)
        )
        yield Piece(
            f"svg-{name}",
            f"stage-{name}",
            "",
            {
                "class": "tree wide" if tree.width > WIDE else "tree",
                "width": f"{tree.width:.0f}",
                "height": f"{tree.height:.0f}",
                "viewBox": f"0 0 {tree.width:.0f} {tree.height:.0f}",
            },
        )
        for placed in tree.nodes:
            yield self._piece(f"g-{placed.row.id}", f"svg-{name}", self.run.name, placed)
        for row in sorted(stage.nodes, key=lambda one: one.decision):
            yield self._piece(f"row-{row.id}", f"list-{name}", self.run.name, row)

    def _piece(self, name: str, parent: str, *values: Any) -> Piece:
        known = self._made.get(name)
        if known is None or known[0] != values:
            macro = name.partition("-")[0]
            known = self._made[name] = values, Piece(name, parent, self._pages.piece("pieces", macro, name, *values))
        return known[1]


def report_of(state: RunState, stage: StageName) -> Report:
    """What a stage's report rests on; empty parts before it is settled. Of ablations: what differs from the method."""
    known, plan = state.stages[stage], state.data_plan
    claims = validation_claims(state, known.best) if known.best in state.nodes and plan is not None else []
    if stage == "ablation" and claims and (every := ablation_claims(state)):
        full = {claim.condition for claim in claims}
        found = [one for one in differences(state, every) if one.condition not in full]
        claims = [claim for claim in every if claim.condition not in full]
    else:
        found = differences(state, claims)
    primary = plan.primary.name if plan is not None else ""
    return Report(
        stage=stage,
        best=known.best,
        ended=known.ended or "",
        reasons=known.reasons,
        summary=known.summary,
        metric=(plan.primary.title or primary) if plan is not None else "",
        intervals=intervals([one for one in claims if one.name == primary]),
        differences=tuple(one for one in found if one.name == primary),
    )


def best_of_k(account: Account) -> Chart | None:
    """What each arm can be expected to reach with k of its trials; None before any was measured."""
    curves = {
        (one.arm, ""): [(float(k), value) for k, value in enumerate(one.curve, 1)] for one in account.arms if one.curve
    }
    title = account.metric.title or account.metric.name
    return chart(f"Expected best {title} of k trials", "trials (k)", title, curves) if curves else None


def update(before: Mapping[str, Piece], after: Mapping[str, Piece], version: int) -> str | None:
    """What a page that has `before` is sent so that it has `after`, as JSON; None where nothing differs."""
    new = [piece for name, piece in after.items() if before.get(name) != piece]
    gone = sorted(before.keys() - after.keys())
    return json.dumps({"version": version, "pieces": new, "gone": gone}) if new or gone else None


def by_parent(pieces: Mapping[str, Piece]) -> dict[str, list[Piece]]:
    """Pieces by the element that they go into, for the first rendering of a page."""
    found: dict[str, list[Piece]] = {f"{kind}-{stage}": [] for kind in ("svg", "list", "stage") for stage in STAGES}
    for piece in pieces.values():
        found.setdefault(piece.parent, []).append(piece)
    return found


# --- checks ---------------------------------------------------------------------------------------------------------


class ShownCheck(NamedTuple):
    """A thing that was checked. `good` is None where nothing says whether it is; `nodes` are those that it is about."""

    name: str
    good: bool | None
    text: str
    nodes: tuple[str, ...] = ()


def checks_of(state: RunState, seedless: tuple[str, ...]) -> Iterator[ShownCheck]:
    """The checks so far; `seedless` are nodes whose replicates gave the same values for every seed."""
    printed = state.released.round if state.released is not None else None
    draft = next((one for one in reversed(state.drafts) if printed in (None, one.round)), None)
    if draft is not None:
        which = f"round {draft.round}, which {'the paper prints' if state.released else 'is the latest'}: "
        yield ShownCheck(
            "Binding",
            not draft.violations,
            which
            + (
                f"{len(draft.violations)} pieces of the text are not bound to the record"
                if draft.violations
                else "every number, figure and citation is bound to the record"
            ),
        )
        if draft.left_out:
            yield ShownCheck("Told", False, "; ".join(draft.left_out))
        if draft.findings:
            yield ShownCheck("Typesetting", False, "; ".join(map(str, draft.findings)))
    if (review := state.protocol) is not None:
        yield ShownCheck("Protocol", not review.open if not review.why else None, review.told)
        yield from (ShownCheck("Protocol", False, one.line) for one in review.open)
    judged = state.assessed.judgement if state.assessed is not None else None
    if judged is not None and judged.audit is not None:
        found = judged.audit
        counts = ", ".join(f"{number} {name}" for name, number in found.counts)
        yield ShownCheck(
            "Audit",
            not found.findings,
            f"{found.numbers} numbers compared with {found.against}"
            f"{f' ({counts})' if counts else ''}: {'; '.join(found.findings) or 'no findings'}"
            f"{f'; and {found.more} more' if found.more else ''}",
        )
    for one in state.probes:
        what = {
            "labels": "trained on permuted labels",
            "seed": "run under other seeds",
            "rows": "given other rows to predict",
            "arms": "told the names of its arms exchanged",
        }[one.probe]
        yield ShownCheck(
            "Probe", {"moved": True, "still": False}.get(one.outcome), f"{one.node} {what}: {one.why}", (one.node,)
        )
    for one in state.readings:
        said = "; ".join(map(str, one.doubts)) or "no doubt with lines that bear it out"
        dropped = f"; {one.dropped} doubts dropped, whose quotes do not stand where they say" if one.dropped else ""
        yield ShownCheck(
            "Code read",
            {"honest": True, "dishonest": False}.get(one.verdict),
            (f"{one.node} {one.verdict} by {one.reader}" + (f": {said}{dropped}" if one.verdict != "not read" else "")),
            (one.node,),
        )
    suspects = tuple(node.id for node in state.nodes.values() if node.suspect)
    if state.nodes:
        yield ShownCheck(
            "Suspect",
            not suspects,
            f"{len(suspects)} of {len(state.nodes)} nodes: their numbers stay out of the paper"
            if suspects
            else "no node is suspect",
            suspects[:12],
        )
    if seedless:
        yield ShownCheck("Seeds", False, "the same values for every seed", seedless[:12])
    authors = tuple(node.id for node in state.nodes.values() if node.author)
    if authors:
        yield ShownCheck("People", None, "code written by a person", authors[:12])
    if state.unheeded:
        yield ShownCheck("Control", None, f"{state.unheeded} files in control/ had no effect")
