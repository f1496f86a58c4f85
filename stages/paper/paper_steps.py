"""The steps of a paper; each is a step of the run:

    draw_figures   draw figures from recorded arrays and statistics only       figures.py
    write          outline -> sections, with the abstract -> version 0         this module, outline.py
    cite           find and verify works that the text still needs             citations.py
    reflect        review the PDF's figures, edit the text, in rounds          figures.py, reflection.py
    claims         read every sentence, compare its claims with the record     claim_check.py
    release        complete the best version, copy-edit it, cut it to its      this module, copy_edit.py,
                   page limit, cut overclaims: release it or leave it a DRAFT  disclosure.py

Each version is assessed as a whole (`typesetting`): the draft's source is checked (`review.evidence`), its LaTeX
sources are built (`latex_sources`, from `paper_context`) and typeset, and the PDF is checked (`typesetting`).
Source: AI-Scientist-v2, section 3.3 and appendix B (writer and reflection). Unlike there, the writer sees ablations and
replicate statistics.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent, ModelError
from labwright.models.roles.judge import JUDGE, Rubric
from labwright.models.roles.paper_writing import OUTLINE, WRITE, OutlineInputs, PaperOutline, WriteInputs
from labwright.models.roles.role import AnyRole
from labwright.record.claims.hypothesis_tests import check_measured
from labwright.record.claims.requested_estimates import (
    compute_requested_estimates,
    list_measured_parts,
    list_registered_estimates,
)
from labwright.record.events.paper_events import DraftAssessed, PaperJudged, PaperReleased
from labwright.record.events.run_events import CommandReceived
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import build_manifest
from labwright.record.run_folder import RunFolder, hash_file, write_file
from labwright.record.schema.nodes import Phase
from labwright.record.schema.paper import AddendumEstimate, EditableText, Judgement, JudgePanel, PaperDraft, Section
from labwright.record.yaml_text import dump_yaml
from labwright.review.evidence.tex_runner import TexError
from labwright.review.judge.attachments import collect_record_facts
from labwright.review.judge.guards import guard_paper
from labwright.review.judge.injection_screening import screen_case
from labwright.review.judge.judge import JudgeCase, find_family_warnings, judge_case, read_rubric
from labwright.review.judge.paper_reader import JudgeError, Paper, PaperError, read_paper
from labwright.stages.paper.citations import check_library, gather_citations, is_novelty_unchecked, reduce_related_work
from labwright.stages.paper.claim_check import (
    find_claim_violations,
    list_claim_obstacles,
    list_reported,
    list_unstated,
    read_claims,
    remove_claims,
)
from labwright.stages.paper.copy_edit import copy_edit
from labwright.stages.paper.disclosure import find_disclosure_file, format_disclosure
from labwright.stages.paper.figures import draw_figures, redraw_program_figures
from labwright.stages.paper.hypothesis_figures import PROGRAM_FIGURES
from labwright.stages.paper.outline import (
    build_report,
    build_section_inputs,
    find_unexplained_effects,
    group_sections,
    match_sections,
    repair_outline,
    use_registered_keys,
)
from labwright.stages.paper.paper_context import PaperContext, build_write_inputs
from labwright.stages.paper.reflection import ask_to_shorten, drop_figure, find_spare_figure, is_referred_to, reflect
from labwright.stages.paper.required_statements import complete_draft
from labwright.stages.paper.typesetting import (
    assess_draft,
    assess_edit,
    assess_new_draft,
    build_paper_context,
    list_obstacles,
    select_best,
)
from labwright.stages.run_context import RunContext, run_once, wait_at_gate
from labwright.stages.settings import MAX_OUTLINE_CALLS

RETRY_NOTE = "the call is repeated once; without a usable answer no paper is written"
PERSON_EDIT_NOTE = "changed by a person at the gate"
"""How a version that a person changed is marked in the record."""
MAX_CUTS = 3
"""Maximum number of times that overclaims are cut from a version and the rest is read again."""
UNUSABLE_ANSWER = "the previous answer was unusable: answer with all required fields and nothing else"


class NoDraftError(Exception):
    """Raised when the model gives no usable draft. Another model can write the paper from the same experiments."""

    def __init__(self, role: AnyRole, client: ModelClient) -> None:
        super().__init__(
            f"no paper: {client.get_model_name(role)} gave no usable response as {role} in 2 attempts; "
            f"experiments are kept: "
            "write the paper with another model (scientist write RUN --model NAME), or resume"
        )


async def write_draft(context: RunContext) -> None:
    """Record the writer's draft, assessed: an outline, then the sections in order, the abstract with the last. What the
    budget has no room for, the program writes. A version for reviewers starts from the text that they read, and is
    revised in the step `reflect`.

    Raises `NoDraftError`, `UnmeasuredEffectError`.
    """

    async def work(client: ModelClient) -> None:
        if (reviewed := context.state.paper.reviewed_draft) is not None:
            if not context.state.paper.drafts:
                context.recorder.append(await assess_new_draft(context, reviewed, number=0))
            return
        await check_library(context)
        material = build_paper_context(context, client.decision)
        check_measured(material.decisions)
        inputs = build_write_inputs(material)
        written = list[Section]()
        try:
            draft = await _ask_for_draft(context, client, material, inputs, written)
        except BudgetSpent:
            draft = build_report(inputs, written)
        if not context.state.paper.drafts:
            # whether the text reports an outcome that a placed table has is asked of its readers later
            later = [one.id for one in inputs.statements if one.id.startswith("hypothesis-")]
            draft = complete_draft(draft, inputs.statements, reported=later)[1]
            context.recorder.append(await assess_new_draft(context, draft, number=0))

    await redraw_program_figures(context)
    await run_once(context, context.state.paper.format_task("write"), work)


async def _ask_for_draft(
    context: RunContext, client: ModelClient, material: PaperContext, inputs: WriteInputs, written: list[Section]
) -> PaperDraft:
    """Return the writer's draft; `written` receives its sections as they are written. Raises `BudgetSpent`."""
    outline, material = await _write_outline(client, material, inputs)
    inputs = build_write_inputs(material)
    captions: dict[str, str] = {}
    abstract = ""
    for asked in group_sections(outline, context.paper.sections_per_call):
        given = build_section_inputs(inputs, outline, asked, tuple(written))
        answer = await client.ask_or_none(WRITE, given, instead=RETRY_NOTE) or await client.ask_or_none(
            WRITE, given.model_copy(update={"complaints": (UNUSABLE_ANSWER,)}), instead=RETRY_NOTE
        )
        if answer is None:
            raise NoDraftError(WRITE, client)
        written += match_sections(asked, answer.sections)
        captions |= {name: text for name, text in answer.captions.items() if name not in PROGRAM_FIGURES}
        abstract = answer.abstract or abstract
    draft = PaperDraft(
        title=outline.title,
        abstract=abstract,
        sections=tuple(written),
        captions=captions,
        estimates=outline.estimates,
        separating=tuple(dict.fromkeys(one.separated_by for one in outline.explanations if one.separated_by)),
    )
    return reduce_related_work(draft) if inputs.related_work_by_program else draft


async def _write_outline(
    client: ModelClient, material: PaperContext, inputs: WriteInputs
) -> tuple[PaperOutline, PaperContext]:
    """Return an outline in which all names exist and everything that must be reported has a place, and the record with
    the estimates that it asks for."""
    outline: PaperOutline | None = None
    complaints: tuple[str, ...] = ()
    for _ in range(MAX_OUTLINE_CALLS):
        asked = OutlineInputs(inputs=inputs, complaints=complaints, previous=outline)
        outline = await client.ask_or_none(OUTLINE, asked, instead=RETRY_NOTE) or outline
        if outline is None:
            complaints = (UNUSABLE_ANSWER,)
            continue
        outline = use_registered_keys(outline, material.plan, list_measured_parts(material.decisions))
        estimates, faults = compute_requested_estimates(material.state, outline.estimates)
        asked = tuple(one.request for one in estimates)
        material = replace(material, requests=(*asked, *list_registered_estimates(material.state)))
        inputs = inputs.model_copy(update={"estimates": material.estimate_lines})
        complaints = (*faults, *repair_outline(outline, inputs)[1], *find_unexplained_effects(outline, inputs))
        if not complaints:
            break
    if outline is None:
        raise NoDraftError(OUTLINE, client)
    asked = tuple(one for one in material.requests if not isinstance(one, AddendumEstimate))
    return repair_outline(outline.model_copy(update={"estimates": asked}), inputs)[0], material


async def release_paper(context: RunContext) -> None:
    """Build the best draft for the last time. It is released if nothing is unbound or missing, otherwise left a
    watermarked DRAFT."""

    async def work(_: ModelClient) -> None:
        await _complete_draft(context)
        await copy_edit(context)
        left = await approve_text(context, await _cut_overclaims(context))
        material, best, folder = build_paper_context(context), select_best(context.state.paper.drafts), context.folder
        found = await assess_draft(context, material, best.draft, "final", whole=True)
        reasons = (*list_obstacles(found), *_add_statements(material, best.draft)[0], *left)
        if reasons:
            found = await assess_draft(context, material, best.draft, "final", refused=reasons, whole=True)
        final = folder.paper_folder / "rounds" / "final"
        (folder.paper_folder / "paper.pdf").unlink(missing_ok=True)
        later = shutil.ignore_patterns("paper.pdf")  # the PDF is there when all else is
        shutil.copytree(final, folder.paper_folder, ignore=later, copy_function=shutil.copyfile, dirs_exist_ok=True)
        if found.pdf is not None:
            shutil.copyfile(found.pdf, folder.paper_folder / "paper.pdf")
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

    await run_once(context, context.state.paper.format_task("release"), work)


async def approve_text(context: RunContext, left: tuple[str, ...]) -> tuple[str, ...]:
    """Wait until a person approved or changed the text, if the run waits for one. Takes and returns what prevents the
    release, one line each. Raises `StopRequested`."""
    if not context.state.has_gate("paper"):
        return left
    file = context.folder.paper_folder / "rounds" / "text.yaml"
    shown = context.state.find_approval("paper") is not None

    async def check(approval: CommandReceived) -> tuple[str, ...]:
        nonlocal left
        if approval.draft is None or approval.draft == select_best(context.state.paper.drafts).draft:
            return ()
        version = await assess_edit(context, approval.draft, PERSON_EDIT_NOTE, anew=True)
        await read_claims(context, version)
        blocking = (one.text for one in version.findings if one.blocks)
        claims = list_claim_obstacles(find_claim_violations(context, version.draft))
        if faults := (*version.violations, *blocking, *claims):
            return faults
        context.recorder.append(version)
        left = await _cut_overclaims(context)
        return ()

    if not shown:
        text = select_best(context.state.paper.drafts).draft.model_dump(include=set(EditableText.model_fields))
        write_file(file, dump_yaml(text))
    blocked = f"as it is, it is not released: {'; '.join(left)[:300]}" if left else ""
    more = f"its text is in {file.relative_to(context.folder.root)}"
    await wait_at_gate(context, "paper", check, more="; ".join(filter(None, (more, blocked))))
    return left


async def _complete_draft(context: RunContext) -> None:
    """Record one version with all that the best one lacks, if anything: the required statements, two sentences as
    related work if nothing published was cited, and fewer figures while the text is too long. Before a figure moves to
    which a section refers, the writer is asked, once."""
    version, figures = await _assess_complete(context), build_paper_context(context).figures
    may_ask = context.paper.reflections > 0
    while version.over > 0 and (found := drop_figure(version.draft, figures)):
        if may_ask and is_referred_to(version.draft, figure := find_spare_figure(version.draft, figures)):
            may_ask = False
            _record_new(context, version)
            await ask_to_shorten(context, version, figure)
            version = await _assess_complete(context)
            continue
        moved = (f"{line}, by the program, because the text is too long" for line in found.applied)
        version = await assess_edit(context, found.draft, *version.edits, *moved)
    _record_new(context, version)


async def _assess_complete(context: RunContext) -> DraftAssessed:
    """Assess the best version with the required statements that it lacks, and related work that it may have."""
    best = select_best(context.state.paper.drafts)
    await read_claims(context, best)
    kept = reduce_related_work(best.draft) if is_novelty_unchecked(context.state, best.draft) else best.draft
    missing, draft = _add_statements(build_paper_context(context), kept)
    edits = (*missing, *["related work reduced to two sentences"] * (kept != best.draft))
    return await assess_edit(context, draft, *(f"{line}, by the program" for line in edits))


def _record_new(context: RunContext, version: DraftAssessed) -> None:
    if version.draft != select_best(context.state.paper.drafts).draft:
        context.recorder.append(version)


def _add_statements(material: PaperContext, draft: PaperDraft) -> tuple[tuple[str, ...], PaperDraft]:
    """Return the required statements that a draft that was read omits, one line each, and the draft with them."""
    readings = material.state.paper.sentence_readings
    unstated, reported = list_unstated(material, draft, readings), list_reported(material, draft, readings)
    return complete_draft(draft, material.statements, unstated, reported)


async def _cut_overclaims(context: RunContext) -> tuple[str, ...]:
    """Record versions without the sentences that the record does not support; return what still prevents the release,
    one line each. Each cut changes what the sentences after it refer to, so they are read again."""
    made = 0
    while True:
        version = select_best(context.state.paper.drafts)
        await read_claims(context, version)
        found = find_claim_violations(context, version.draft)
        draft, cuts = remove_claims(version.draft, found)
        if not cuts and not list_claim_obstacles(found):  # a cut may have taken what the paper must say
            missing, draft = _add_statements(build_paper_context(context), draft)
            cuts = tuple(f"{line}, by the program" for line in missing)
        if not cuts or made == MAX_CUTS:
            return list_claim_obstacles(found)
        context.recorder.append(await assess_edit(context, draft, *cuts, anew=True))
        made += 1


PAPER_STEPS: Mapping[Phase, Callable[[RunContext], Awaitable[None]]] = {
    "figures": draw_figures,
    "write": write_draft,
    "cite": gather_citations,
    "reflect": reflect,
    "release": release_paper,
}
"""The steps in order, by their names in the record."""


# The last step of a run: judge its paper and record the judgement, which never affects the release.


async def judge_paper(context: RunContext) -> None:
    """Record a judgement of the run's paper, or the reason why there is none."""

    async def work(client: ModelClient) -> None:
        if context.state.paper.judged is not None:
            return
        if not context.paper.judge:
            context.recorder.append(PaperJudged(why="judging is disabled (paper.judge)"))
            return
        try:
            judgement = await judge_run(
                context.state, context.folder, client, rubric=read_rubric(), model=context.models.get_model_name(JUDGE)
            )
            report = write_judgement(context.folder, judgement)
            files = {str(report.relative_to(context.folder.root)): hash_file(report)}
            listed = build_manifest(context.state, context.folder) | files
            write_file(context.folder.root / "manifest.json", json.dumps(listed, indent=1))
            assessed = PaperJudged(judgement=judgement, files=files)
        except (ModelError, JudgeError, TexError, OSError) as error:
            assessed = PaperJudged(why=str(error))
        context.recorder.append(assessed)

    await run_once(context, context.state.paper.format_task("judge"), work)


async def judge_run(
    state: RunState, folder: RunFolder, client: ModelClient, *, rubric: Rubric, model: str
) -> Judgement:
    """Judge a run's paper by a rubric. Raises `ModelError`, `JudgeError`, `TexError`."""
    case = await screen_case(await build_case(state, folder, rubric), client)
    judgement = await judge_case(case, client, model=model)
    return judgement.model_copy(update={"warnings": find_family_warnings([model], state.models)})


async def build_case(state: RunState, folder: RunFolder, rubric: Rubric) -> JudgeCase:
    """Build the case: the guarded paper and the facts of the run's record. Raises `JudgeError`, `TexError`."""
    paper = await read_released_paper(state, folder)
    return JudgeCase(
        await guard_paper(paper),
        rubric,
        str(paper.path.relative_to(folder.root)),
        facts=collect_record_facts(state, select_best(state.paper.drafts).draft),
    )


async def read_released_paper(state: RunState, folder: RunFolder) -> Paper:
    """Read the released paper of a run: the PDF, or the LaTeX source if there is no PDF. Raises `PaperError`."""
    if state.paper.released is None or not state.paper.drafts:
        raise PaperError("this run has no paper yet; finish it with: scientist resume RUN")
    name = Path(state.paper.released.pdf).name if state.paper.released.pdf else "paper.tex"
    return await read_paper(folder.paper_folder / name)


def write_judgement(folder: RunFolder, judgement: Judgement | JudgePanel) -> Path:
    """Write a judgement to `review/judge.json` or the next free `judge-N.json`, and return the path."""
    text = judgement.model_dump_json(indent=1) + "\n"
    paths = (folder.review / ("judge.json" if k == 1 else f"judge-{k}.json") for k in count(1))
    path = next(one for one in paths if not one.exists() or one.read_text() == text)  # the same one before a kill
    if not path.exists():
        write_file(path, text)
    return path
