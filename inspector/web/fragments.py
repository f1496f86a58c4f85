"""The live views of a run, divided into pieces: a browser receives only the pieces that have changed.

Each piece is an element with an id, rendered by a macro of `pieces.html.jinja`, and rendered again only when its
content changes, so the cost of an update depends only on the new content, not on the number of nodes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from labwright.inspector.findings import list_effects, list_report_files
from labwright.inspector.render import format_llm_usage
from labwright.inspector.status import RunStatus, find_condition
from labwright.inspector.summary import Headline, build_headline, count_verdicts, describe_next_step
from labwright.inspector.tree import StageRows
from labwright.inspector.web.charts import (
    MIN_WIDTH,
    Chart,
    IntervalBar,
    build_chart,
    draw_effect,
    draw_intervals,
    draw_stage,
)
from labwright.inspector.web.page_renderer import NODE_VERBS, PageRenderer, list_actions
from labwright.inspector.web.paper_pages import find_best_figure
from labwright.inspector.web.run_cache import CachedRun, RunListEntry
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import Claim, compute_ablation_claims, compute_validation_claims
from labwright.record.claims.setting_controls import TuningReport
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import STAGES, StageName, StageSummary
from labwright.record.table import format_quantity
from labwright.record.zips import find_zip

LIVE_VIEWS: Final = ("overview", "reports", "chart", "tree", "checks", "cost", "events")
"""Views that follow a run while it runs. The chart is fetched again as a whole."""
MAX_EFFECTS: Final = 12
"""Effects of an ablation or a question on the overview, the largest first."""


class Fragment(NamedTuple):
    """An element with its id, the id of its parent and its HTML; or new attributes for an existing element."""

    id: str
    parent: str
    html: str
    attributes: Mapping[str, str] | None = None


class StageReportView(FrozenModel):
    """A stage's report: text, and the primary metric of its best node (or of its ablations) with replicates."""

    stage: StageName
    best: str | None
    ended: str
    reasons: tuple[str, ...]
    summary: StageSummary | None
    metric: str
    intervals: tuple[IntervalBar[Claim], ...]
    differences: tuple[ClaimDifference, ...]


class RunFragments:
    """Renders and caches the pieces of one run."""

    def __init__(self, run: CachedRun, pages: PageRenderer) -> None:
        self.run = run
        self._pages = pages
        self._made: dict[str, tuple[Any, Fragment]] = {}
        self._now: dict[str, tuple[int, dict[str, Fragment]]] = {}

    def render(self, view: str) -> tuple[int, dict[str, Fragment]]:
        """Return the version of the run, and all pieces of a view by id."""
        with self.run.lock:
            version = self.run.refresh()
            if view not in self._now or self._now[view][0] != version:
                self._now[view] = version, {piece.id: piece for piece in self._iter_fragments(view, version)}
            return self._now[view]

    def _iter_fragments(self, view: str, version: int) -> Iterator[Fragment]:
        run, state = self.run, self.run.state
        yield self._render("state", "crumbs", find_condition(state, run.process), run.trouble, version)
        if view == "overview":
            yield from self._iter_overview()
        elif view == "reports":
            yield from self._iter_reports()
        elif view == "tree":
            tree = run.build_tree()
            path = tuple(row for row in tree.rows if row.on_best_path)
            yield self._render("road", "roads", run.name, path, tree.winner)
            for stage in tree.stages:
                yield from self._render_stage(stage)
        elif view == "checks":
            seedless = tuple(row.id for row in run.build_tree().rows if row.seedless)
            files = state.paper.current.released.companion_files if state.paper.current else {}
            found = tuple(list_checks(state, seedless))
            yield self._render("checks", "main", run.name, found, tuple(files), shlex.quote(str(find_zip(run.folder))))
        elif view == "cost":
            status = run.read_status()
            used = format_llm_usage(status.llm_usage) if status.llm_usage is not None else []
            yield self._render("cost", "main", status, used)
        elif view == "events":
            yield self._render("happened", "main", tuple(run.latest))
            yield self._render("asked", "main", run.name, tuple(reversed(state.user_commands[-50:])), NODE_VERBS)

    def _iter_overview(self) -> Iterator[Fragment]:
        """Yield how the run stands: verdicts, current work, time and money by phase, the best value and figure."""
        run, state = self.run, self.run.state
        status = run.read_status()
        entry, head = RunListEntry(run, status=status), build_headline(state)
        yield self._render("summary", "main", run.name, entry, run.trouble)
        yield self._render("steer", "main", run.name, list_actions(run))
        if state.kind == "paper":
            bars = draw_intervals(head.compared, zero=True) if head else ()
            counts, paper = count_verdicts(status), state.paper.current
            yield self._render("verdicts", "main", run.name, head, self._draw_effects(head), bars, counts, paper)
        else:
            yield from self._render_findings(status, MAX_EFFECTS)
        yield self._render("now", "main", run.name, status, describe_next_step(status))
        yield self._render("hours", "main", status, state.time_limit)
        yield self._render("money", "main", run.name, status)
        if state.kind == "paper":
            yield self._render("best", "main", run.name, entry, head, find_best_figure(run, entry.node))

    def _iter_reports(self) -> Iterator[Fragment]:
        """Yield all effects with their intervals; for a study also the differences and the reports of the stages."""
        run, state = self.run, self.run.state
        if state.kind != "paper":
            yield from self._render_findings(run.read_status(), None)
            return
        head = build_headline(state)
        bars = draw_intervals(head.compared, zero=True) if head else ()
        yield self._render("headline", "main", head, self._draw_effects(head), bars)
        tuning = run.build_tree().tuning
        for stage in run.build_tree().stages:
            yield self._render(f"report-{stage.stage}", "main", run.name, build_report(state, stage.stage))
        yield self._render("tuned", "main", run.name, tuning, draw_best_of_k(tuning) if tuning is not None else None)

    def _render_findings(self, status: RunStatus, most: int | None) -> Iterator[Fragment]:
        """Render the findings of an ablation or a question and its effects, `most` of them, the largest first."""
        every = list_effects(self.run.state)
        shown = sorted(every, key=lambda one: -abs(one.difference.mean))[:most] if most is not None else every
        bars = draw_intervals([one.difference for one in shown], zero=True)
        pairs = tuple(zip(shown, bars, strict=True))
        files = list_report_files(self.run.folder) if status.phase == "done" else ()
        yield self._render("findings", "main", self.run.name, status.findings, files)
        yield self._render("effects", "main", self.run.name, pairs, len(every) - len(shown), key=f"effects {most}")

    def _draw_effects(self, head: Headline | None) -> tuple[tuple[tuple[Any, Any], ...], ...]:
        return tuple(tuple((one, draw_effect(one.part)) for one in those) for those in head.effects) if head else ()

    def _render_stage(self, stage: StageRows) -> Iterator[Fragment]:
        name, tree = stage.stage, draw_stage(stage)
        bare = stage.model_copy(update={"nodes": ()})
        yield self._render(f"head-{name}", f"stage-{name}", bare, stage.searched_count, len(stage.nodes))
        attributes = {
            "class": "tree wide" if tree.width > MIN_WIDTH else "tree",
            "width": f"{tree.width:.0f}",
            "height": f"{tree.height:.0f}",
            "viewBox": f"0 0 {tree.width:.0f} {tree.height:.0f}",
        }
        yield Fragment(f"svg-{name}", f"stage-{name}", "", attributes)
        for placed in tree.nodes:
            yield self._render(f"g-{placed.row.id}", f"svg-{name}", self.run.name, placed)
        for row in sorted(stage.nodes, key=lambda one: one.decision):
            yield self._render(f"row-{row.id}", f"list-{name}", self.run.name, row)

    def _render(self, name: str, parent: str, *values: Any, key: str = "") -> Fragment:
        known = self._made.get(key or name)
        if known is None or known[0] != values:
            html = self._pages.render_piece(name.partition("-")[0], name, *values)
            known = self._made[key or name] = values, Fragment(name, parent, html)
        return known[1]


def build_report(state: RunState, stage: StageName) -> StageReportView:
    """Build a stage's report; parts are empty before the stage ends. For ablations, it contains only conditions that
    differ from the method."""
    known, plan = state.search.stages[stage], state.search.data_plan
    claims = compute_validation_claims(state, known.best) if known.best in state.nodes and plan is not None else []
    if stage == "ablation" and claims and (every := compute_ablation_claims(state)):
        full = {claim.condition for claim in claims}
        found = [one for one in compute_differences(state, every) if one.condition not in full]
        claims = [claim for claim in every if claim.condition not in full]
    else:
        found = compute_differences(state, claims)
    primary = plan.primary_metric.name if plan is not None else ""
    return StageReportView(
        stage=stage,
        best=known.best,
        ended=known.end_reason or "",
        reasons=known.reasons,
        summary=known.summary,
        metric=(plan.primary_metric.title or primary) if plan is not None else "",
        intervals=draw_intervals([one for one in claims if one.name == primary]),
        differences=tuple(one for one in found if one.name == primary),
    )


def draw_best_of_k(account: TuningReport) -> Chart | None:
    """Draw the expected best value of each arm after k trials; None before any trial was measured."""
    curves = {one.arm: [(float(k), value) for k, value in enumerate(one.curve, 1)] for one in account.arms if one.curve}
    title = account.metric.title or account.metric.name
    return build_chart(f"Expected best {title} of k trials", "trials (k)", title, curves) if curves else None


def encode_update(before: Mapping[str, Fragment], after: Mapping[str, Fragment], version: int) -> str | None:
    """Encode the changes from `before` to `after` as JSON; None if nothing differs."""
    new = [piece for name, piece in after.items() if before.get(name) != piece]
    gone = sorted(before.keys() - after.keys())
    return json.dumps({"version": version, "pieces": new, "gone": gone}) if new or gone else None


def group_by_parent(pieces: Mapping[str, Fragment]) -> dict[str, list[Fragment]]:
    """Group pieces by parent element, for the first rendering of a page."""
    found: dict[str, list[Fragment]] = {f"{kind}-{stage}": [] for kind in ("svg", "list", "stage") for stage in STAGES}
    for piece in pieces.values():
        found.setdefault(piece.parent, []).append(piece)
    return found


# --- checks ---------------------------------------------------------------------------------------------------------


PROBE_TEXT: Final = {
    "labels": "trained on permuted labels",
    "seed": "run under other seeds",
    "rows": "run with other rows to predict",
    "arms": "run with swapped arm names",
}


class CheckView(NamedTuple):
    """One check. `good` is None if there is no verdict; `nodes` are the affected nodes."""

    name: str
    good: bool | None
    text: str
    nodes: tuple[str, ...] = ()


def list_checks(state: RunState, seedless: tuple[str, ...]) -> Iterator[CheckView]:
    """Yield the checks made so far; `seedless` are nodes whose replicates gave the same values for every seed."""
    printed = state.paper.released.round if state.paper.released is not None else None
    draft = next((one for one in reversed(state.paper.drafts) if printed in (None, one.round)), None)
    if draft is not None:
        which = f"round {draft.round} ({'released' if state.paper.released else 'latest'})"
        unbound = f"{format_quantity(len(draft.violations), 'unbound passage')} in the text"
        bound = "all numbers, figures and citations are bound to the record"
        yield CheckView("Binding", not draft.violations, f"{which}: {unbound if draft.violations else bound}")
        if draft.left_out:
            yield CheckView("Disclosure", False, "; ".join(draft.left_out))
        if draft.findings:
            yield CheckView("Typesetting", False, "; ".join(map(str, draft.findings)))
    if (review := state.search.protocol_review) is not None:
        yield CheckView("Protocol", not review.open_findings if not review.why else None, review.message)
        yield from (CheckView("Protocol", False, one.summary_line) for one in review.open_findings)
    judged = state.paper.judged.judgement if state.paper.judged is not None else None
    if judged is not None and judged.audit is not None:
        found = judged.audit
        counts = ", ".join(f"{number} {name}" for name, number in found.counts)
        compared = f"{format_quantity(found.numbers, 'number')} compared with {found.against}"
        listed = ("; ".join(found.findings) or "no findings") + (f"; and {found.more} more" if found.more else "")
        yield CheckView("Audit", not found.findings, f"{compared}{f' ({counts})' if counts else ''}: {listed}")
    for one in state.search.probes:
        good = {"moved": True, "still": False}.get(one.outcome)
        yield CheckView("Probe", good, f"{one.node} {PROBE_TEXT[one.probe]}: {one.why}", (one.node,))
    for one in state.search.code_readings:
        doubts = "; ".join(map(str, one.doubts)) or "no doubts supported by code lines"
        dropped = f"; {one.dropped} doubts dropped because their quotes were not found" if one.dropped else ""
        text = f"{one.node} {one.verdict} by {one.reader}"
        text += f", second reading: {one.second}" if one.second is not None else ""
        text += f": {doubts}{dropped}" if one.verdict != "not read" else ""
        yield CheckView("Code review", {"honest": True, "dishonest": False}.get(one.verdict), text, (one.node,))
    suspects = tuple(node.id for node in state.nodes.values() if node.suspect)
    if state.nodes:
        excluded = f"{len(suspects)} of {format_quantity(len(state.nodes), 'node')}; their numbers are excluded"
        text = f"{excluded} from the paper" if suspects else "no suspect nodes"
        yield CheckView("Suspect", not suspects, text, suspects[:12])
    if seedless:
        yield CheckView("Seeds", False, "identical values for every seed", seedless[:12])
    if authors := tuple(node.id for node in state.nodes.values() if node.author):
        yield CheckView("User code", None, "code written by the user", authors[:12])
    if ignored := state.ignored_command_count:
        yield CheckView("Control", None, f"ignored {format_quantity(ignored, 'command')} in control/")
