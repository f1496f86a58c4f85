"""Assess versions of a paper's text as a whole, and rank them by their faults; the best one is released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from labwright.record.claims.requested_estimates import list_requests
from labwright.record.events.paper_events import DraftAssessed
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.paper import PaperDraft
from labwright.stages.paper.paper_context import PaperContext, build_paper_parts, build_write_inputs
from labwright.stages.paper.required_statements import missing_statements
from labwright.stages.paper.typesetting import PaperAssessment, assess_paper, check_abstract, check_thinness
from labwright.stages.run_context import RunContext


def build_paper_context(context: RunContext, decision_id: int | None = None) -> PaperContext:
    """Return the record from which a paper is built, either the current one or that of a decision, which prompts
    use.
    """
    state = context.state if decision_id is None else context.state.with_decision_context(decision_id)
    isolation, requests = context.isolation(state), list_requests(state)
    return PaperContext(state, context.folder, context.paper, context.notice(state), isolation, requests)


async def assess_new_draft(context: RunContext, draft: PaperDraft, *, number: int) -> DraftAssessed:
    """Assess a version of the text, built in its own folder. The result is not yet recorded."""
    material = replace(build_paper_context(context), requests=list_requests(context.state, draft))
    found = await assess_draft(context, material, draft, f"round{number}")
    limit, inputs = material.template.page_limit, build_write_inputs(material)
    return DraftAssessed(
        round=number,
        draft=draft,
        pages=found.pages,
        filled=None if found.pages_filled is None else round(found.pages_filled, 2),
        findings=found.findings,
        over=round(max(0.0, (found.pages_filled or 0.0) - limit), 2),
        left_out=missing_statements(draft, inputs.statements, material.evidence.claims_by_table),
        violations=tuple(str(violation) for violation in found.violations),
        untied=dict(Counter(violation.where for violation in found.violations)),
        complaints=(
            *(f"section {one.title!r} is empty: write it" for one in draft.sections if not one.body.strip()),
            *check_thinness(found.pages_filled, limit),
            *check_abstract(draft.abstract, material.evidence),
        ),
    )


async def assess_draft(
    context: RunContext,
    material: PaperContext,
    draft: PaperDraft,
    folder: str,
    *,
    refused: Sequence[str] = (),
    whole: bool = False,
) -> PaperAssessment:
    """Check a draft and build it into a folder of the paper's rounds. If `refused` has reasons, the paper is
    stamped as a DRAFT; `whole` adds the supplement.
    """
    return await assess_paper(
        build_paper_parts(material, draft, refused=refused, whole=whole),
        material.template,
        context.folder.paper_folder / "rounds" / folder,
        timeout=context.paper.timeout,
    )


async def assess_edit(context: RunContext, draft: PaperDraft, *edits: str, anew: bool = False) -> DraftAssessed:
    """Assess an edit of the best version that is not a reflection; with `anew`, earlier versions no longer count. An
    unchanged draft is that version."""
    best = select_best(context.state.paper.drafts)
    if draft == best.draft:
        return best
    made = await assess_new_draft(context, draft, number=find_next_round(context.state))
    return made.model_copy(update={"done": best.done, "edits": edits, "refused": (), "anew": anew})


def find_next_round(state: RunState) -> int:
    """Return the number of the next version outside the rounds of reflection; none that was read before has it."""
    return max(*(one.round for one in state.paper.drafts), *state.paper.claims_read, 0) + 1


def select_best(drafts: Sequence[DraftAssessed]) -> DraftAssessed:
    """Return the version to release: fewest violations and omissions, then fewest faults; among equals the latest."""
    return min(reversed(list_current(drafts)), key=rank_version)


def list_current(drafts: Sequence[DraftAssessed]) -> Sequence[DraftAssessed]:
    """Return the versions assessed since the record last changed or overclaims were cut."""
    return drafts[max((at for at, one in enumerate(drafts) if one.anew), default=0) :]


def rank_version(version: DraftAssessed) -> tuple[float, ...]:
    """Return the faults of a version as a sort key, most important first; lower is better."""
    return (
        len(version.violations) + len(version.left_out),
        sum(finding.blocks for finding in version.findings),
        version.over,
        len(version.findings) + len(version.complaints),
    )


def list_obstacles(assessment: PaperAssessment) -> tuple[str, ...]:
    """Return the reasons not to release the version; empty if there are none."""
    untied = tuple(str(violation) for violation in assessment.violations)
    return untied + tuple(finding.text for finding in assessment.findings if finding.blocks)
