"""The flow of a paper, a step of the run each:

    draw_figures   figures, each from recorded arrays and statistics alone           figures.py, drawing.py
    write          outline -> sections, the last with the abstract -> version 0      this module, outline.py
    cite           works that the text still needs, verified                         citations.py, library.py
    reflect        look at the PDF's figures -> edits -> the next version, in rounds figure_review.py, reflection.py
    release        the best version: released where nothing is untied, else a DRAFT  this module, disclosure.py

Each version is assessed as a whole (versions.py): the draft's source is checked (review.evidence), its sources with
results.tex are made (sources.py, from material.py), typeset, and the PDF is checked (typeset.py).

Source: AI-Scientist-v2, section 3.3 and appendix B (writer and reflection). What its writer could not see, ablations
and replicate statistics, is what ours gets first.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable, Mapping

from models.client import ModelClient
from models.roles.role import AnyRole
from models.roles.writing import OUTLINE, WRITE, OutlineInputs, PaperOutline, SectionInputs, Sections, WriteInputs
from record.events.papers import Drafted, Released
from record.folder import sha256, write_file
from record.manifest import manifest
from record.nouns.nodes import Phase
from record.nouns.papers import Draft, Section
from stages.bench import Bench, do_work
from stages.paper.citations import cite
from stages.paper.disclosure import as_file, disclosure, file_of
from stages.paper.figures import draw_figures
from stages.paper.material import write_inputs
from stages.paper.outline import complaints_on, groups, repaired, section_inputs, taken
from stages.paper.reflection import reflect
from stages.paper.versions import assess_draft, best_of, drafted, material_of, reasons_against
from stages.settings import OUTLINES

THEN = "it is asked once more; without any usable answer no paper is written"
AGAIN = "the answer before could not be used: answer with every field that is asked for, and nothing else"


class NoDraftError(Exception):
    """No draft of the paper could be had. Who acts: the person; another model writes it from the same experiments."""


async def write(bench: Bench) -> None:
    """Record the writer's draft, assessed: an outline, then its sections in order, the abstract with the last.

    Raises: `NoDraftError`.
    """

    async def work(client: ModelClient) -> None:
        inputs = write_inputs(material_of(bench, client.decision))
        draft = await _written(client, inputs, await _outlined(client, inputs), size=bench.paper.sections_per_call)
        if not bench.state.drafts:
            bench.recorder.append(await drafted(bench, draft, number=0))

    await do_work(bench, bench.state.paper_task("write"), work)


async def release(bench: Bench) -> None:
    """Build the best draft for the last time: released when nothing is untied, else a watermarked DRAFT."""

    async def work(_: ModelClient) -> None:
        material, best = material_of(bench), best_of(bench.state.drafts)
        found = await assess_draft(bench, material, best.draft, "final")
        reasons = reasons_against(found)
        if reasons:
            found = await assess_draft(bench, material, best.draft, "final", refused=True)
        _publish(bench)
        bench.recorder.append(Released(
            released=not reasons, reasons=reasons, pages=found.pages, round=best.round,
            beside=_disclose(bench, best),
            pdf=str(bench.folder.paper.relative_to(bench.folder.root) / "paper.pdf") if found.pdf else None,
            files={str(path.relative_to(bench.folder.paper)): sha256(path)
                   for path in sorted(bench.folder.paper.rglob("*")) if path.is_file() and "rounds" not in path.parts}))

        write_file(bench.folder.root / "manifest.json", json.dumps(manifest(bench.state, bench.folder), indent=1))

    await do_work(bench, bench.state.paper_task("release"), work)


def _disclose(bench: Bench, best: Drafted) -> dict[str, str]:
    """Write the disclosure; its path in the run -> sha256."""
    file = file_of(bench.folder)
    path = bench.folder.root / file
    write_file(path, as_file(disclosure(bench.state, isolation=bench.isolation(bench.state), text=best.round)))
    return {file: sha256(path)}


def _publish(bench: Bench) -> None:
    """Copy the final build up to paper/, the PDF last."""
    final = bench.folder.paper / "rounds" / "final"
    (bench.folder.paper / "paper.pdf").unlink(missing_ok=True)
    for path in sorted(final.rglob("*"), key=lambda path: path.suffix == ".pdf"):
        if path.is_file():
            target = bench.folder.paper / path.relative_to(final)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.rmtree(final)


# --- outline and sections -------------------------------------------------------------------------------------------


async def _outlined(client: ModelClient, inputs: WriteInputs) -> PaperOutline:
    """An outline in which all that it names is there, and all that has to be reported has a place."""
    outline: PaperOutline | None = None
    complaints: tuple[str, ...] = ()
    for _ in range(OUTLINES):
        asked = OutlineInputs(inputs=inputs, complaints=complaints, previous=outline)
        outline = await client.usable(OUTLINE, asked, then=THEN) or outline
        complaints = (AGAIN,) if outline is None else complaints_on(outline, inputs)
        if not complaints:
            break
    if outline is None:
        raise NoDraftError(_no_draft(OUTLINE, client))
    return repaired(outline, inputs)


async def _written(client: ModelClient, inputs: WriteInputs, outline: PaperOutline, *, size: int) -> Draft:
    sections: tuple[Section, ...] = ()
    captions: dict[str, str] = {}
    abstract = ""
    for asked in groups(outline, size):
        answer = await _sections(client, section_inputs(inputs, outline, asked, sections))
        sections += taken(asked, answer.sections)
        captions |= answer.captions
        abstract = answer.abstract or abstract
    return Draft(title=outline.title, abstract=abstract, sections=sections, captions=captions)


async def _sections(client: ModelClient, inputs: SectionInputs) -> Sections:
    """The sections that are asked for, at the second try if need be. Raises `NoDraftError`."""
    for complaints in ((), (AGAIN,)):
        given = inputs.model_copy(update={"complaints": complaints})
        answer = await client.usable(WRITE, given, then=THEN)
        if answer is not None:
            return answer
    raise NoDraftError(_no_draft(WRITE, client))


def _no_draft(role: AnyRole, client: ModelClient) -> str:
    return (f"no paper: {client.name_of(role)} gave no answer as {role} that can be used, twice; experiments are kept: "
            "write it with another model (scientist write RUN --model NAME), or resume")


STEPS: Mapping[Phase, Callable[[Bench], Awaitable[None]]] = {
    "figures": draw_figures, "write": write, "cite": cite, "reflect": reflect, "release": release}
"""The steps by the names that the record gives them, in their order."""
