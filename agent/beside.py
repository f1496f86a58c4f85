"""What stands beside a paper for its judge: what was executed, the audit, task, log, result files,
code, and pictures of its pages.

`scientist judge` and `python -m evals.invented` put a case together here, so that both show a judge the same. A model
reads all of it for passages that speak to the judge; pictures are made after that. In the view `paper` the judge gets
what a reader of the paper has: no code, log, record or audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.record.nouns.papers import AuditFacts, Removed, View
from labwright.review.judge import Case, code_exhibit, file_exhibit, pictures, results_exhibit, screened
from labwright.review.judge.exhibits import MOST_PAGES
from labwright.review.judge.guards import neutral


@dataclass(frozen=True)
class Beside:
    """What was given with a paper."""

    task: Path | None = None
    code: Path | None = None
    log: Path | None = None
    results: Path | None = None
    pages: int | None = None
    view: View = "all"


async def with_material(
    case: Case, beside: Beside, audit: AuditFacts | None, readers: Sequence[ModelClient], *, look: bool = True
) -> Case:
    """The case with what was given beside the paper, as its view has it, and read by the first of the `readers` who
    answers. `look`: whether pictures of pages are made. Raises `JudgeError`, `TexError`."""
    task = [] if beside.task is None else [file_exhibit("task", beside.task)]
    if beside.view == "paper":
        case = replace(case, facts=None, audit=None, exhibits=tuple(task), view="paper")
    else:
        log = [] if beside.log is None else [file_exhibit("log", beside.log)]
        code = (
            []
            if beside.code is None
            else [
                code_exhibit(
                    beside.code,
                    case.guarded.paper.text,
                    ran=audit.ran if audit else (),
                    flagged=audit.flagged if audit else (),
                )
            ]
        )
        results = None if beside.results is None else results_exhibit(beside.results, beside.log)
        shown = (*task, *log, *([results] if results is not None else []), *code)
        case = _with_facts(replace(case, exhibits=shown), audit)
    case = await screened(case, *readers)
    return await _with_pictures(case, 0 if not look else MOST_PAGES if beside.pages is None else beside.pages)


def _with_facts(case: Case, audit: AuditFacts | None) -> Case:
    """The case with the audit; what its facts quote is guarded like the files themselves."""
    if audit is None:
        return replace(case, audit=None)
    guarded, removed = dict[str, tuple[str, ...]](), list[Removed]()
    for name, lines in (("provenance", audit.provenance), ("findings", audit.findings)):
        neutrals = [neutral(line, "what was executed") for line in lines]
        guarded[name] = tuple(line for line, _ in neutrals)
        removed += [one for _, found in neutrals for one in found]
    paper = replace(case.guarded, removed=(*case.guarded.removed, *removed))
    return replace(case, audit=audit.model_copy(update=guarded), guarded=paper)


async def _with_pictures(case: Case, most: int) -> Case:
    guarded = case.guarded
    if not guarded.pages or not most:
        return case
    return replace(
        case, pictures=await pictures(guarded.paper.path, guarded.pages, withheld=guarded.marked_pages, most=most)
    )
