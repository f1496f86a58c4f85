"""Collect the material for the judge of a paper: the audit, task, log, result files, code, and page images.

`scientist judge` and `python -m labwright.evals.invented_papers` both build their cases here, so that judges see the
same material. A model checks all of it for prompt injection before images are rendered. In the view `paper`, the judge
gets only the paper, like a reader: no code, log, record or audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.record.schema.paper import AuditFacts, JudgeView
from labwright.review.judge import (
    JudgeCase,
    build_code_exhibit,
    read_file_exhibit,
    read_results_exhibit,
    render_pages,
    screen_case,
)
from labwright.review.judge.attachments import MAX_PAGES
from labwright.review.judge.guards import neutralise


@dataclass(frozen=True)
class JudgeMaterials:
    """Files and options given with a paper."""

    task: Path | None = None
    code: Path | None = None
    log: Path | None = None
    results: Path | None = None
    pages: int | None = None
    view: JudgeView = "all"


async def attach_evidence(
    case: JudgeCase, materials: JudgeMaterials, audit: AuditFacts | None, readers: Sequence[ModelClient]
) -> JudgeCase:
    """Add the given material to the case, as its view requires; the first of the `readers` that answers checks it
    for prompt injection. Raises `JudgeError`, `TexError`."""
    task = [] if materials.task is None else [read_file_exhibit("task", materials.task)]
    if materials.view == "paper":
        case = replace(case, facts=None, audit=None, exhibits=tuple(task), view="paper")
    else:
        log = [] if materials.log is None else [read_file_exhibit("log", materials.log)]
        code = [] if materials.code is None else [build_code_exhibit(materials.code, case.guarded.paper.text)]
        results = None if materials.results is None else read_results_exhibit(materials.results, materials.log)
        shown = (*task, *log, *([results] if results is not None else []), *code)
        case = _attach_audit(replace(case, exhibits=shown), audit)
    case = await screen_case(case, *readers)
    return await _attach_page_images(case, MAX_PAGES if materials.pages is None else materials.pages)


def _attach_audit(case: JudgeCase, audit: AuditFacts | None) -> JudgeCase:
    """Add the audit to the case; quotes in its facts are sanitised like the files themselves."""
    if audit is None:
        return replace(case, audit=None)
    neutrals = [neutralise(line, "findings of the audit") for line in audit.findings]
    removed = tuple(one for _, found in neutrals for one in found)
    findings = tuple(line for line, _ in neutrals)
    paper = replace(case.guarded, removed=(*case.guarded.removed, *removed))
    return replace(case, audit=audit.model_copy(update={"findings": findings}), guarded=paper)


async def _attach_page_images(case: JudgeCase, most: int) -> JudgeCase:
    guarded = case.guarded
    if not guarded.pages or not most:
        return case
    return replace(
        case,
        pictures=await render_pages(guarded.paper.path, guarded.pages, withheld=guarded.withheld_pages, max_pages=most),
    )
