"""Check a finished run against its record: everything in the paper is bound, and no file has changed.

Read-only. Limits: the audit does not detect wrong values reported by the experiment's own code (grade `logged`), or a
record that was rewritten completely together with its files.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from labwright.agent.environment import describe_isolation_for_readers, paper_notice
from labwright.agent.repository_setup import build_report_files
from labwright.agent.settings import override_settings
from labwright.record.branching import find_false_ancestry
from labwright.record.claims.estimates import GRADES_BEST_FIRST
from labwright.record.claims.requested_estimates import list_requests
from labwright.record.claims.sentences import join_names
from labwright.record.errors import UsageError
from labwright.record.event_log import drop_unreleased_rewrite, parse_events, read_rows
from labwright.record.llm_calls import EXCHANGES_LIST, find_prompt, read_exchanges
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import list_recorded_files
from labwright.record.run_folder import ResultFolder, RunFolder, hash_file, hash_texts, list_result_folders, read_source
from labwright.record.schema.data_plan import EvidenceGrade, Measurement
from labwright.record.schema.nodes import Attempt, CellOutcomeLine, Node
from labwright.record.table import format_quantity
from labwright.review.evidence import check_draft, check_pdf, tex_runner
from labwright.review.evidence.latex_scanner import CITE_COMMANDS
from labwright.review.evidence.source_check import collect_used_keys
from labwright.sandbox.datasets import read_materialised
from labwright.sandbox.job import RepositoryError, SandboxError
from labwright.sandbox.metrics import read_formulas
from labwright.sandbox.output import strip_control_chars
from labwright.sandbox.repository.git_mirror import open_mirror
from labwright.sandbox.scoring import read_sealed, read_submitted, score_sealed, score_submissions
from labwright.stages.paper.disclosure import find_disclosure_file, format_disclosure, rebuild_release_state
from labwright.stages.paper.latex_sources import build_sources
from labwright.stages.paper.paper_context import PaperContext, build_paper_parts
from labwright.stages.paper.template import TemplateError
from labwright.stages.paper.typesetting import select_best

# Compare the cells that a node's attempt reports with the recorded executions. Reads only the log; `agent.audit`
# checks the files of cells.


def find_disagreements(state: RunState) -> Iterator[tuple[str, str]]:
    """Yield each disagreement as node and message."""
    for name, owed in state.required_cells.items():
        if len(owed.keys) != len(owed.cells) or len(set(owed.keys)) != len(owed.keys):
            yield name, f"it requires {len(owed.cells)} cells but has {len(set(owed.keys))} different keys"
        keys = dict(zip(owed.cells, owed.keys, strict=False))
        for key, run in owed.taken.items():
            yield from ((name, why) for why in _check_reused_cell(state, name, key, run))
        node = state.nodes[name]
        if not node.attempts or not (attempt := node.attempts[-1]).cells:
            continue
        if absent := set(owed.cells).symmetric_difference(line.cell for line in attempt.cells):
            yield name, f"its attempt and its required cells differ in {', '.join(sorted(map(str, absent)))}"
        for line in attempt.cells:
            yield from (
                (name, f"{line.cell}: {why}") for why in _check_cell_line(state, node, line, keys.get(line.cell))
            )
        yield from ((name, why) for why in _check_values(state, attempt, trial=node.is_trial))


def _check_reused_cell(state: RunState, name: str, key: str, run: str) -> Iterator[str]:
    """Yield the faults of a reused cell."""
    if key not in state.required_cells[name].keys:
        yield f"it reuses {run} for a cell that it does not require"
    if run not in state.cells:
        yield f"it reuses {run}, which is not in the record"
        return
    node, found = state.cells[run]
    if found.key != key:
        yield f"it reuses {run} of {node}, which was measured under another key"
    if found.failure is not None:
        yield f"it reuses {run} of {node}, which failed"


def _check_cell_line(state: RunState, node: Node, line: CellOutcomeLine, key: str | None) -> Iterator[str]:
    """Compare a cell reported by an attempt with the execution that it names."""
    if line.outcome == "left out":
        return
    by, run = state.cells.get(line.id, ("", None))
    if run is None:
        yield f"it is reported as {line.outcome} by {line.id or 'no execution'}, which is not in the record"
        return
    if (run.cell, run.key) != (line.cell, key):
        yield f"{line.id} is of another cell or has another key"
    if (run.failure is not None) != (line.outcome == "failed"):
        yield f"reported as {line.outcome}, but {line.id} {'failed' if run.failure is not None else 'measured it'}"
    expected = line.node if line.outcome == "taken over" else node.id
    if by != expected:
        yield f"{line.id} was executed for {by}, not for {expected or 'a named node'}"


def _check_values(state: RunState, attempt: Attempt, *, trial: bool) -> Iterator[str]:
    """Yield differences between the values and arrays of an attempt and those measured by its cells. Values of trials
    are stored only in cells."""
    runs = [
        state.cells[line.id][1]
        for line in attempt.cells
        if line.outcome in ("measured", "taken over") and line.id in state.cells
    ]
    made = {str(value) for run in runs for value in run.measurements}
    has = {str(value) for value in attempt.measurements}
    lost = made - has if attempt.failure is None and not trial else set[str]()
    for what, values in (("that no cell measured", has - made), ("missing that its cells measured", lost)):
        if values:
            yield f"its attempt has {len(values)} values {what}, such as {min(values)}"
    yield from (
        f"the array {name} of its attempt differs from that of {run.id}"
        for run in runs
        for name, digest in run.arrays.items()
        if attempt.arrays.get(name, digest) != digest
    )


Kind = Literal["unbound", "changed", "missing", "score", "cells", "not checked"]


@dataclass(frozen=True)
class AuditFinding:
    """A disagreement with the record."""

    kind: Kind
    where: str
    what: str


@dataclass
class AuditReport:
    """Result of an audit. `counts` maps each kind of item to the number checked."""

    findings: list[AuditFinding] = field(default_factory=list[AuditFinding])
    counts: Counter[str] = field(default_factory=Counter[str])
    released: bool = False
    not_here: int = 0
    """Recorded files that were left out of a copy without cells, such as a copy for reading."""

    @property
    def unbound_count(self) -> int:
        """Number of numbers, figures and citations in the paper that are not bound to the record."""
        return sum(finding.kind == "unbound" for finding in self.findings)

    def add(self, kind: Kind, where: str, what: str) -> None:
        self.findings.append(AuditFinding(kind, where, what))

    def compare_file(self, folder: RunFolder, path: Path, text: str) -> None:
        """Add a finding if a file differs from what the record produces."""
        if not path.is_file() or path.read_text() != text:
            self.add("changed", str(path.relative_to(folder.root)), "differs from the file generated from the record")


def audit_run(run: Path) -> AuditReport:
    """Audit a run. Raises `RecordError` if the folder is not a run, `UsageError` if nothing is recorded."""
    rows = read_rows(RunFolder(run).events)
    events = drop_unreleased_rewrite(list(parse_events(rows, RunFolder(run).events)))
    state = fold_events(events)
    if state.started is None:
        raise UsageError(f"{run} was interrupted before it started: there is nothing to audit")
    report = AuditReport(released=bool(state.paper.released and state.paper.released.released))
    folder = RunFolder(run, state.paper.version)
    if state.ancestry:
        report.counts["ancestors"] += len(state.ancestry)
    for keep in state.deleted_folders.values():
        report.counts[f"folders deleted (keep={keep})"] += 1
    for one in find_false_ancestry(rows, state):  # the parent itself is not checked
        report.add("changed", f"the log, events to {one.events}", f"not those of {one.parent} at {one.point}")
    context, prior = state.paper.context, state.paper.prior_work
    documents = (context.documents if context is not None else ()) or (prior.papers if prior is not None else ())
    recorded = {"data": bool(state.search.datasets), "context": bool(documents), "cells": bool(state.cells)}
    recorded["templates"] = bool(state.paper.template_sha256)
    absent = [name for name, here in recorded.items() if here and not (folder.root / name).is_dir()]
    _check_files(report, folder, state, absent)
    if absent:
        files, cells = (
            format_quantity(*one) for one in ((report.not_here, "recorded file"), (len(state.cells), "cell"))
        )
        more = f": {files}, among them those of {cells}" if "cells" in absent else ", as in a copy without data"
        more += "; datasets were not compared, and scores not recomputed" * ("data" in absent)
        more += "; the paper was not compared" * ("templates" in absent)
        report.add("not checked", join_names(absent), f"not in this copy{more}")
    _check_sources(report, folder, state)
    _check_cells(report, folder, state, absent)
    _check_scores(report, folder, state, with_data={"data", "cells"}.isdisjoint(absent))
    if state.kind != "paper":
        try:
            files = build_report_files(state, folder) if state.phase == "done" else {}
        except (RepositoryError, ValueError) as error:
            report.add("changed", "report", f"it cannot be built from the damaged files: {error}")
            files = {}
        for name, text in files.items():
            report.counts["report files"] += 1
            report.compare_file(folder, folder.root / name, text)
        return report
    if state.paper.released is None:
        report.add("not checked", "paper", "this run has no paper yet")
    elif not state.paper.drafts:
        report.add("missing", "paper", "the record has a paper, but no text for it")
    elif "templates" not in absent:
        asyncio.run(_check_paper(report, folder, state))
    if state.paper.released is not None and state.paper.drafts:
        state = rebuild_release_state(events)
        if state.paper.claims_read:  # earlier versions disclosed other checks: there, only the file's hash is compared
            disclosed = format_disclosure(
                state, isolation=describe_isolation_for_readers(state), text_round=select_best(state.paper.drafts).round
            )
            report.counts["disclosure"] += 1
            report.compare_file(folder, folder.root / find_disclosure_file(folder), disclosed)
    return report


# --- files ----------------------------------------------------------------------------------------------------------


def _check_files(report: AuditReport, folder: RunFolder, state: RunState, absent: Sequence[str]) -> None:
    """Check that every recorded file and every dataset is present and unchanged."""
    for path, expected in list_recorded_files(state, folder):
        where = path.relative_to(folder.root)
        if where.parts[0] in absent and where.parts[0] != "cells":
            continue
        if "cells" in absent and not path.is_file():
            report.not_here += 1
            continue
        report.counts["files"] += 1
        if not path.is_file():
            report.add("missing", str(where), "the record names it, but it is missing")
        elif hash_file(path) != expected:
            report.add("changed", str(where), f"its sha256 is no longer {expected[:12]}...")
    imported = state.repository.imported
    if imported is not None and not open_mirror(folder).has_tree(imported.tree):
        report.add("changed", "code/mirror", "the run's copy of the repository is missing or damaged")
    for answer in state.calls.answers.values():
        if (prompt := find_prompt(folder.root, answer)) is not None and prompt.asked is None:
            report.add("changed", f"prompts/{answer.request_sha256}.json.gz", prompt.changed)
    if "data" in absent:
        return
    metrics = state.search.data_plan.metrics if state.search.data_plan else ()
    if read_formulas(folder.labels) != {one.name: one.formula for one in metrics if one.formula}:
        report.add("changed", "data (formulas)", "the formulas stored with the labels differ from the plan")
    for facts in state.search.datasets:
        report.counts["datasets"] += 1
        if facts.source.startswith("git:"):
            if not open_mirror(folder).has_tree(facts.origin):
                report.add("changed", f"data ({facts.name})", "the run's copy of the repository is missing or damaged")
            continue
        found = read_materialised(facts.name, folder.views, folder.labels)
        if found is None or found.fingerprint != facts.fingerprint:
            report.add("changed", f"data ({facts.name})", "the copy is missing, or differs from the recorded dataset")


def _check_sources(report: AuditReport, folder: RunFolder, state: RunState) -> None:
    """Check that every node's code is the recorded code, including the copies next to its results."""
    for node in state.nodes.values():
        if not node.source_sha256:
            continue
        report.counts["sources"] += 1
        source = read_source(folder.get_source_path(node.id)) if folder.get_source_path(node.id).is_dir() else {}
        if hash_texts(source) != node.source_sha256:
            report.add("changed", f"nodes/{node.id}/source", "the code differs from the recorded code")
            continue
        for attempt in node.attempts:
            place = folder.get_attempt_path(node.id, attempt.number)
            for name, text in (source | {"node.ipynb": strip_control_chars(source.get("experiment.py", ""))}).items():
                if (place / name).is_file() and _read_code(place / name) != text:
                    where = str((place / name).relative_to(folder.root))
                    report.add("changed", where, f"its code differs from nodes/{node.id}/source")


def _check_cells(report: AuditReport, folder: RunFolder, state: RunState, absent: Sequence[str]) -> None:
    """Check that every executed cell has a folder, and that nodes agree with the executions of their cells."""
    if state.cells or state.required_cells:
        report.counts["cells"] += len(state.cells)
    for run in state.cells:
        if "cells" not in absent and not folder.get_cell_path(run).is_dir():
            report.add("missing", f"cells/{run}", "the record has this execution of a cell, but its folder is missing")
    for node, what in find_disagreements(state):
        report.add("cells", f"node {node}", what)
    exchanges = read_exchanges(folder.root)
    for run, (_, one) in state.cells.items():
        place = folder.get_cell_path(run) / EXCHANGES_LIST
        if one.exchanges_sha256 is not None and place.is_file() and hash_file(place) == one.exchanges_sha256:
            report.counts["exchanges"] += sum(one.asked.values())
            with open(place, encoding="utf-8") as lines:
                known = (json.loads(line) for line in lines)
                if wrong := exchanges.find_differing(one.key, ((each["id"], each["sha256"]) for each in known)):
                    what = f"the answer {wrong} in exchanges.jsonl differs from the recorded one"
                    report.add("changed", f"cells/{run}", what)


def _read_code(path: Path) -> str:
    """Return the text of a file, or the code of a notebook written by `sandbox.output`; empty if it cannot be
    parsed."""
    text = path.read_bytes().decode(errors="replace")
    try:
        return "".join(json.loads(text)["cells"][0]["source"]) if path.suffix == ".ipynb" else text
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


# --- scores ---------------------------------------------------------------------------------------------------------


def _check_scores(report: AuditReport, folder: RunFolder, state: RunState, *, with_data: bool) -> None:
    """Recompute the values that were scored from predictions, using the stored predictions.

    Frozen scorers are only re-run by `scientist reproduce`: here, their values are compared with the attempt's own file
    and its unchanged submissions; the frozen copy itself is checked as a file.
    """
    named = {(scorer.dataset, metric.name) for scorer in state.search.scorers for metric in scorer.metrics}
    for node in state.nodes.values():
        for attempt in node.attempts:
            tests = state.search.test_measurements.get(node.id, ()) if attempt is node.attempts[-1] else ()
            values = [one for one in (*attempt.measurements, *tests) if one.grade != "logged"]
            custom = [one for one in values if (one.dataset, one.name) in named]
            standard = [one for one in values if (one.dataset, one.name) not in named] if with_data else []
            recomputed: set[str] = set()
            results = list_result_folders(state, folder, node, attempt)
            try:
                if standard:
                    graded = [one.grade for one in standard]
                    best: EvidenceGrade = next(grade for grade in GRADES_BEST_FIRST if graded.count(grade))
                    recomputed |= _rescore(folder, node, results, grade=best, tests=bool(tests))
                if custom:
                    recomputed |= _evaluated_values(results, tests)
            except (SandboxError, OSError, ValueError) as error:
                report.add("score", f"node {node.id}", f"its values cannot be compared with its files: {error}")
                continue
            for one in (*standard, *custom):
                if str(one) not in recomputed:
                    what = (
                        f"{one.name} of {one.condition} on {one.dataset} ({one.split}) is recorded as {one.value:.6g}"
                    )
                    report.add("score", f"node {node.id}", f"{what}; the submitted predictions give another value")
            if with_data:
                report.counts["scores"] += len(standard)
            report.counts["values of frozen scorers"] += len(custom)


def _rescore(
    folder: RunFolder, node: Node, results: Sequence[ResultFolder], *, grade: EvidenceGrade, tests: bool
) -> set[str]:
    """Compute every value from the predictions of an attempt's cells. Raises `SandboxError`, `OSError`."""
    labels, found = folder.labels, list[Measurement]()
    for place, result in results:
        found += score_submissions(place, labels, split="validation", seed=node.seed, grade=grade)
        if tests:
            found += score_sealed(place, labels, seed=node.seed, expected=result.sealed)
    return {str(one) for one in found}


def _evaluated_values(results: Sequence[ResultFolder], tests: Sequence[Measurement]) -> set[str]:
    """Return the values for which an attempt submitted predictions, from the files of its cells or, for sealed
    predictions, from the record.

    Raises: `SandboxError`, `OSError`, `ValueError`.
    """
    lines = [line for place, _ in results for line in (place / "measurements.jsonl").read_text().splitlines()]
    submitted = {(one.dataset, one.condition) for place, _ in results for one in read_submitted(place, "computed")}
    sealed = {
        (one.dataset, one.condition)
        for place, result in (results if tests else ())
        for one in read_sealed(place, result.sealed)
    }
    return {
        str(one)
        for made, values in ((submitted, map(Measurement.model_validate_json, lines)), (sealed, tests))
        for one in values
        if (one.dataset, one.condition) in made
    }


# --- paper ----------------------------------------------------------------------------------------------------------


async def _check_paper(report: AuditReport, folder: RunFolder, state: RunState) -> None:
    """Check that the paper is identical to the one generated from the record, and that everything in it is bound."""
    assert state.started is not None
    settings = override_settings(state.started.settings, state.overrides)
    draft = select_best(state.paper.drafts).draft
    isolation = describe_isolation_for_readers(state)
    material = PaperContext(state, folder, settings.paper, paper_notice(state), isolation, list_requests(state, draft))
    report.counts["bound values"] += len(collect_used_keys(draft.texts))
    report.counts["citations"] += len(collect_used_keys(draft.texts, CITE_COMMANDS))
    report.counts["figures"] += len(collect_used_keys(draft.texts, frozenset({"paperfigure"})))
    has_pdf = state.paper.released is not None and (folder.paper_folder / "paper.pdf").exists()
    reasons = state.paper.released.reasons if state.paper.released is not None and has_pdf else ()
    try:
        template = material.template
    except TemplateError as error:
        report.add("changed", "templates", str(error))
        return
    parts = build_paper_parts(material, draft, refused=reasons, whole=True)
    violations = list(check_draft(parts.draft, parts.evidence))
    for name, text in build_sources(parts, template).files.items():
        report.counts["paper sources"] += 1
        report.compare_file(folder, folder.paper_folder / name, text)
    try:
        violations += await check_pdf(folder.paper_folder, replace(material.evidence, prints=template.prints))
    except (tex_runner.TexError, OSError) as error:
        report.add("not checked", "the PDF of the paper", str(error))
    for violation in violations:
        report.add("unbound", violation.where, f"{violation.excerpt}: {violation.fix}")
