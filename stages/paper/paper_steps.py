"""The flow of a paper, a step of the run each:

    draw_figures   figures, each from recorded arrays and statistics alone           figures.py
    write          outline -> sections, the last with the abstract -> version 0      this module, outline.py
    cite           works that the text still needs, verified                         citations.py
    reflect        look at the PDF's figures -> edits -> the next version, in rounds figure_review.py, reflection.py
    scope          every text against the verdicts, a round each                     scope.py
    release        the best version, with all that it owes, cut to its verdicts and to
                   its pages: released or left a DRAFT                               this module, disclosure.py

Each version is assessed as a whole (versions.py): the draft's source is checked (review.evidence), its sources with
results.tex are made (sources.py, from material.py), typeset, and the PDF is checked (typeset.py).

Source: AI-Scientist-v2, section 3.3 and appendix B (writer and reflection). What its writer could not see, ablations
and replicate statistics, is what ours gets first.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable, Mapping

from labwright.models.client import ModelClient
from labwright.models.roles.paper_writing import OUTLINE, WRITE, OutlineInputs, PaperOutline, WriteInputs
from labwright.models.roles.role import AnyRole
from labwright.record.events.paper_events import DraftAssessed, PaperReleased
from labwright.record.manifest import build_manifest
from labwright.record.run_folder import hash_file, write_file
from labwright.record.schema.nodes import Phase
from labwright.record.schema.paper import PaperDraft, Section
from labwright.stages.paper.citations import gather_citations
from labwright.stages.paper.compilation_findings import check_abstract
from labwright.stages.paper.disclosure import find_disclosure_file, format_disclosure
from labwright.stages.paper.draft_versions import (
    assess_draft,
    assess_new_draft,
    build_paper_context,
    list_obstacles,
    select_best,
)
from labwright.stages.paper.figures import draw_figures
from labwright.stages.paper.outline import build_section_inputs, group_sections, match_sections, repair_outline
from labwright.stages.paper.overclaim_check import check_overclaims, list_overclaims, remove_overclaims
from labwright.stages.paper.paper_context import build_write_inputs
from labwright.stages.paper.reflection import drop_float, reflect
from labwright.stages.paper.required_statements import add_missing_statements, missing_statements
from labwright.stages.run_context import RunContext, run_once
from labwright.stages.settings import MAX_OUTLINE_CALLS

RETRY_NOTE = "it is asked once more; without any usable answer no paper is written"
UNUSABLE_ANSWER = "the answer before could not be used: answer with every field that is asked for, and nothing else"


class NoDraftError(Exception):
    """No draft of the paper could be had. Who acts: the person; another model writes it from the same experiments."""

    def __init__(self, role: AnyRole, client: ModelClient) -> None:
        super().__init__(
            f"no paper: {client.get_model_name(role)} gave no answer as {role} that can be used, twice; "
            f"experiments are kept: "
            "write it with another model (scientist write RUN --model NAME), or resume"
        )


async def write_draft(context: RunContext) -> None:
    """Record the writer's draft, assessed: an outline, then its sections in order, the abstract with the last, and once
    more where it is longer than an abstract may be.

    Raises: `NoDraftError`.
    """

    async def work(client: ModelClient) -> None:
        material = build_paper_context(context, client.decision)
        inputs = build_write_inputs(material)
        outline = await _write_outline(client, inputs)
        sections: tuple[Section, ...] = ()
        captions: dict[str, str] = {}
        abstract = ""
        for asked in group_sections(outline, context.paper.sections_per_call):
            given = build_section_inputs(inputs, outline, asked, sections)
            answer = await client.ask_or_none(WRITE, given, instead=RETRY_NOTE) or await client.ask_or_none(
                WRITE, given.model_copy(update={"complaints": (UNUSABLE_ANSWER,)}), instead=RETRY_NOTE
            )
            if answer is None:
                raise NoDraftError(WRITE, client)
            sections += match_sections(asked, answer.sections)
            captions |= answer.captions
            abstract = answer.abstract or abstract
        if complaints := check_abstract(abstract, material.evidence):
            given = build_section_inputs(inputs, outline, (), sections).model_copy(update={"complaints": complaints})
            answer = await client.ask_or_none(WRITE, given, instead="the reflector gets the abstract as it is")
            abstract = answer.abstract if answer is not None and answer.abstract else abstract
        if not context.state.drafts:
            draft = PaperDraft(title=outline.title, abstract=abstract, sections=sections, captions=captions)
            draft = add_missing_statements(draft, inputs.statements, material.evidence.claims_by_table)
            context.recorder.append(await assess_new_draft(context, draft, number=0))

    await run_once(context, context.state.format_paper_task("write"), work)


async def _write_outline(client: ModelClient, inputs: WriteInputs) -> PaperOutline:
    """An outline in which all that it names is there, and all that has to be reported has a place."""
    outline: PaperOutline | None = None
    complaints: tuple[str, ...] = ()
    for _ in range(MAX_OUTLINE_CALLS):
        asked = OutlineInputs(inputs=inputs, complaints=complaints, previous=outline)
        outline = await client.ask_or_none(OUTLINE, asked, instead=RETRY_NOTE) or outline
        complaints = (UNUSABLE_ANSWER,) if outline is None else repair_outline(outline, inputs)[1]
        if not complaints:
            break
    if outline is None:
        raise NoDraftError(OUTLINE, client)
    return repair_outline(outline, inputs)[0]


async def release_paper(context: RunContext) -> None:
    """Build the best draft for the last time: released when nothing is untied or left out, else a watermarked DRAFT."""

    async def work(_: ModelClient) -> None:
        await _complete_draft(context)
        await _shorten_draft(context)
        await check_overclaims(context, select_best(context.state.drafts))
        left = await _cut_overclaims(context)
        material, best, folder = build_paper_context(context), select_best(context.state.drafts), context.folder
        found = await assess_draft(context, material, best.draft, "final", whole=True)
        reasons = (
            *list_obstacles(found),
            *missing_statements(best.draft, build_write_inputs(material).statements, material.evidence.claims_by_table),
            *left,
        )
        if reasons:
            found = await assess_draft(context, material, best.draft, "final", refused=reasons, whole=True)
        final = folder.paper_folder / "rounds" / "final"
        (folder.paper_folder / "paper.pdf").unlink(missing_ok=True)
        for path in sorted(final.rglob("*"), key=lambda path: path.suffix == ".pdf"):  # the PDF last
            if path.is_file():
                target = folder.paper_folder / path.relative_to(final)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        shutil.rmtree(final)
        disclosed = folder.root / find_disclosure_file(folder)
        write_file(
            disclosed,
            format_disclosure(context.state, isolation=context.isolation(context.state), text_round=best.round),
        )
        context.recorder.append(
            PaperReleased(
                released=not reasons,
                reasons=reasons,
                pages=found.pages,
                round=best.round,
                companion_files={find_disclosure_file(folder): hash_file(disclosed)},
                pdf=str(folder.paper_folder.relative_to(folder.root) / "paper.pdf") if found.pdf else None,
                files={
                    str(path.relative_to(folder.paper_folder)): hash_file(path)
                    for path in sorted(folder.paper_folder.rglob("*"))
                    if path.is_file() and "rounds" not in path.parts
                },
            )
        )
        write_file(folder.root / "manifest.json", json.dumps(build_manifest(context.state, folder), indent=1))

    await run_once(context, context.state.format_paper_task("release"), work)


async def _complete_draft(context: RunContext) -> None:
    """Record a version that says what the best one owes and leaves out, where that leaves anything out."""
    material, best = build_paper_context(context), select_best(context.state.drafts)
    draft = add_missing_statements(
        best.draft, build_write_inputs(material).statements, material.evidence.claims_by_table
    )
    if draft != best.draft:
        await _record_edit(context, draft, *(f"{line}, by the program" for line in best.left_out))


async def _shorten_draft(context: RunContext) -> None:
    """Record versions with a float less in the text each, while it is too long and has one to spare."""
    version, figures = select_best(context.state.drafts), build_paper_context(context).figures
    while version.over > 0 and (found := drop_float(version.draft, figures)):
        version = await _record_edit(
            context, found.draft, *(f"{line}, by the program, since the text is too long" for line in found.applied)
        )


async def _record_edit(context: RunContext, draft: PaperDraft, *edits: str) -> DraftAssessed:
    """Record an edit by the program of the best version."""
    before = context.state.drafts
    made = await assess_new_draft(context, draft, number=max(one.round for one in before) + 1)
    made = made.model_copy(update={"done": select_best(before).done, "edits": edits})
    context.recorder.append(made)
    return made


async def _cut_overclaims(context: RunContext) -> tuple[str, ...]:
    """Record a version without the sentences that no verdict bears out, where there are any; what still claims too much
    in it, a line each."""
    material, best = build_paper_context(context), select_best(context.state.drafts)
    scoped = context.state.scope_checks.get(best.round)
    findings = scoped.findings if scoped is not None else ()
    draft, cuts = remove_overclaims(best.draft, findings, material.evidence)
    if cuts:
        await _record_edit(context, draft, *cuts)
    return list_overclaims(select_best(context.state.drafts).draft, findings, material.evidence)


PAPER_STEPS: Mapping[Phase, Callable[[RunContext], Awaitable[None]]] = {
    "figures": draw_figures,
    "write": write_draft,
    "cite": gather_citations,
    "reflect": reflect,
    "release": release_paper,
}
"""The steps by the names that the record gives them, in their order."""
