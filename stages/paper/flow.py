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
from labwright.models.roles.role import AnyRole
from labwright.models.roles.writing import OUTLINE, WRITE, OutlineInputs, PaperOutline, WriteInputs
from labwright.record.events.papers import Drafted, Released
from labwright.record.folder import sha256, write_file
from labwright.record.manifest import manifest
from labwright.record.nouns.nodes import Phase
from labwright.record.nouns.papers import Draft, Section
from labwright.stages.bench import Bench, do_work
from labwright.stages.paper.citations import cite
from labwright.stages.paper.disclosure import disclosure, file_of
from labwright.stages.paper.figures import draw_figures
from labwright.stages.paper.findings import of_abstract
from labwright.stages.paper.material import write_inputs
from labwright.stages.paper.obligations import left_out, with_owed
from labwright.stages.paper.outline import checked, groups, section_inputs, taken
from labwright.stages.paper.reflection import lighter, reflect
from labwright.stages.paper.scope import review_scope, too_much, without_claims
from labwright.stages.paper.versions import assess_draft, best_of, drafted, material_of, reasons_against
from labwright.stages.settings import OUTLINES

THEN = "it is asked once more; without any usable answer no paper is written"
AGAIN = "the answer before could not be used: answer with every field that is asked for, and nothing else"


class NoDraftError(Exception):
    """No draft of the paper could be had. Who acts: the person; another model writes it from the same experiments."""

    def __init__(self, role: AnyRole, client: ModelClient) -> None:
        super().__init__(
            f"no paper: {client.name_of(role)} gave no answer as {role} that can be used, twice; experiments are kept: "
            "write it with another model (scientist write RUN --model NAME), or resume"
        )


async def write(bench: Bench) -> None:
    """Record the writer's draft, assessed: an outline, then its sections in order, the abstract with the last, and once
    more where it is longer than an abstract may be.

    Raises: `NoDraftError`.
    """

    async def work(client: ModelClient) -> None:
        material = material_of(bench, client.decision)
        inputs = write_inputs(material)
        outline = await _outlined(client, inputs)
        sections: tuple[Section, ...] = ()
        captions: dict[str, str] = {}
        abstract = ""
        for asked in groups(outline, bench.paper.sections_per_call):
            given = section_inputs(inputs, outline, asked, sections)
            answer = await client.usable(WRITE, given, then=THEN) or await client.usable(
                WRITE, given.model_copy(update={"complaints": (AGAIN,)}), then=THEN
            )
            if answer is None:
                raise NoDraftError(WRITE, client)
            sections += taken(asked, answer.sections)
            captions |= answer.captions
            abstract = answer.abstract or abstract
        if complaints := of_abstract(abstract, material.evidence):
            given = section_inputs(inputs, outline, (), sections).model_copy(update={"complaints": complaints})
            answer = await client.usable(WRITE, given, then="the reflector gets the abstract as it is")
            abstract = answer.abstract if answer is not None and answer.abstract else abstract
        if not bench.state.drafts:
            draft = Draft(title=outline.title, abstract=abstract, sections=sections, captions=captions)
            draft = with_owed(draft, inputs.statements, material.evidence.tabled)
            bench.recorder.append(await drafted(bench, draft, number=0))

    await do_work(bench, bench.state.paper_task("write"), work)


async def _outlined(client: ModelClient, inputs: WriteInputs) -> PaperOutline:
    """An outline in which all that it names is there, and all that has to be reported has a place."""
    outline: PaperOutline | None = None
    complaints: tuple[str, ...] = ()
    for _ in range(OUTLINES):
        asked = OutlineInputs(inputs=inputs, complaints=complaints, previous=outline)
        outline = await client.usable(OUTLINE, asked, then=THEN) or outline
        complaints = (AGAIN,) if outline is None else checked(outline, inputs)[1]
        if not complaints:
            break
    if outline is None:
        raise NoDraftError(OUTLINE, client)
    return checked(outline, inputs)[0]


async def release(bench: Bench) -> None:
    """Build the best draft for the last time: released when nothing is untied or left out, else a watermarked DRAFT."""

    async def work(_: ModelClient) -> None:
        await _tell(bench)
        await _fit(bench)
        await review_scope(bench, best_of(bench.state.drafts))
        left = await _cut(bench)
        material, best, folder = material_of(bench), best_of(bench.state.drafts), bench.folder
        found = await assess_draft(bench, material, best.draft, "final", whole=True)
        reasons = (
            *reasons_against(found),
            *left_out(best.draft, write_inputs(material).statements, material.evidence.tabled),
            *left,
        )
        if reasons:
            found = await assess_draft(bench, material, best.draft, "final", refused=reasons, whole=True)
        final = folder.paper / "rounds" / "final"
        (folder.paper / "paper.pdf").unlink(missing_ok=True)
        for path in sorted(final.rglob("*"), key=lambda path: path.suffix == ".pdf"):  # the PDF last
            if path.is_file():
                target = folder.paper / path.relative_to(final)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        shutil.rmtree(final)
        disclosed = folder.root / file_of(folder)
        write_file(disclosed, disclosure(bench.state, isolation=bench.isolation(bench.state), text=best.round))
        bench.recorder.append(
            Released(
                released=not reasons,
                reasons=reasons,
                pages=found.pages,
                round=best.round,
                beside={file_of(folder): sha256(disclosed)},
                pdf=str(folder.paper.relative_to(folder.root) / "paper.pdf") if found.pdf else None,
                files={
                    str(path.relative_to(folder.paper)): sha256(path)
                    for path in sorted(folder.paper.rglob("*"))
                    if path.is_file() and "rounds" not in path.parts
                },
            )
        )
        write_file(folder.root / "manifest.json", json.dumps(manifest(bench.state, folder), indent=1))

    await do_work(bench, bench.state.paper_task("release"), work)


async def _tell(bench: Bench) -> None:
    """Record a version that says what the best one owes and leaves out, where that leaves anything out."""
    material, best = material_of(bench), best_of(bench.state.drafts)
    draft = with_owed(best.draft, write_inputs(material).statements, material.evidence.tabled)
    if draft != best.draft:
        await _edited(bench, draft, *(f"{line}, by the program" for line in best.left_out))


async def _fit(bench: Bench) -> None:
    """Record versions with a float less in the text each, while it is too long and has one to spare."""
    version, figures = best_of(bench.state.drafts), material_of(bench).figures
    while version.over > 0 and (found := lighter(version.draft, figures)):
        version = await _edited(
            bench, found.draft, *(f"{line}, by the program, since the text is too long" for line in found.made)
        )


async def _edited(bench: Bench, draft: Draft, *edits: str) -> Drafted:
    """Record an edit by the program of the best version."""
    before = bench.state.drafts
    made = await drafted(bench, draft, number=max(one.round for one in before) + 1)
    made = made.model_copy(update={"done": best_of(before).done, "edits": edits})
    bench.recorder.append(made)
    return made


async def _cut(bench: Bench) -> tuple[str, ...]:
    """Record a version without the sentences that no verdict bears out, where there are any; what still claims too much
    in it, a line each."""
    material, best = material_of(bench), best_of(bench.state.drafts)
    scoped = bench.state.scoped.get(best.round)
    findings = scoped.findings if scoped is not None else ()
    draft, cuts = without_claims(best.draft, findings, material.evidence)
    if cuts:
        await _edited(bench, draft, *cuts)
    return too_much(best_of(bench.state.drafts).draft, findings, material.evidence)


STEPS: Mapping[Phase, Callable[[Bench], Awaitable[None]]] = {
    "figures": draw_figures,
    "write": write,
    "cite": cite,
    "reflect": reflect,
    "release": release,
}
"""The steps by the names that the record gives them, in their order."""
