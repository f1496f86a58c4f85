"""The paper: written from the record by an outline, checked, and released only when everything is tied.

`stages.writing.revising` edits it in between.

Source: AI-Scientist-v2, section 3.3 and appendix B (writer and reflection). What its writer could not see, ablations
and replicate statistics, is what ours gets first.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence

from models.door import Desk
from models.roles import OutlineInputs, PaperOutline, Role, SectionInputs, Sections, WriteInputs
from record.events.papers import RULES, Drafted, Released
from record.folder import sha256, write_file
from record.manifest import manifest
from record.nouns.drafts import Draft, Section
from stages.bench import Bench, do_work
from stages.paper.disclosure import as_file, disclosure, file_of
from stages.paper.lengths import too_thin
from stages.paper.outlining import complaints_on, groups, mended, section_inputs, taken
from stages.paper.round import Assessment, assess
from stages.paper.telling import untold
from stages.settings import OUTLINES
from stages.writing.manuscript import Material, parts_for, write_inputs

THEN = "it is asked once more; without any usable answer no paper is written"
AGAIN = "the answer before could not be used: answer with every field that is asked for, and nothing else"


class NoDraftError(Exception):
    """No draft of the paper could be had. Who acts: the person; another model writes it from the same experiments."""


async def write(bench: Bench) -> None:
    """Record the writer's draft, assessed: an outline, then its sections in order, the abstract with the last.

    Raises: `NoDraftError`.
    """

    async def work(desk: Desk) -> None:
        inputs = write_inputs(material_of(bench, desk.decision))
        draft = await _written(desk, inputs, await _outlined(desk, inputs), size=bench.paper.sections_per_call)
        if not bench.state.drafts:
            bench.recorder.append(await drafted(bench, draft, number=0))

    await do_work(bench, bench.state.paper_task("write"), work)


async def _outlined(desk: Desk, inputs: WriteInputs) -> PaperOutline:
    """An outline in which all that it names is there, and all that has to be told has a place."""
    outline: PaperOutline | None = None
    complaints: tuple[str, ...] = ()
    for _ in range(OUTLINES):
        asked = OutlineInputs(inputs=inputs, complaints=complaints, previous=outline)
        outline = await desk.usable("outline", asked, PaperOutline, then=THEN) or outline
        complaints = (AGAIN,) if outline is None else complaints_on(outline, inputs)
        if not complaints:
            break
    if outline is None:
        raise NoDraftError(_no_draft("outline", desk))
    return mended(outline, inputs)


async def _written(desk: Desk, inputs: WriteInputs, outline: PaperOutline, *, size: int) -> Draft:
    sections: tuple[Section, ...] = ()
    captions: dict[str, str] = {}
    abstract = ""
    for asked in groups(outline, size):
        answer = await _sections(desk, section_inputs(inputs, outline, asked, sections))
        sections += taken(asked, answer.sections)
        captions |= answer.captions
        abstract = answer.abstract or abstract
    return Draft(title=outline.title, abstract=abstract, sections=sections, captions=captions)


async def _sections(desk: Desk, inputs: SectionInputs) -> Sections:
    """The sections that are asked for, at the second try if need be. Raises `NoDraftError`."""
    for complaints in ((), (AGAIN,)):
        given = inputs.model_copy(update={"complaints": complaints})
        answer = await desk.usable("write", given, Sections, then=THEN)
        if answer is not None:
            return answer
    raise NoDraftError(_no_draft("write", desk))


def _no_draft(role: Role, desk: Desk) -> str:
    return (f"no paper: {desk.name_of(role)} gave no answer as {role} that can be used, twice; experiments are kept: "
            "write it with another model (scientist write RUN --model NAME), or resume")


async def release(bench: Bench) -> None:
    """Build the best draft for the last time: released when nothing is untied, else a watermarked DRAFT."""

    async def work(_: Desk) -> None:
        best = best_of(bench.state.drafts)
        found = await _assess(bench, best.draft, "final")
        reasons = reasons_against(found)
        if reasons:
            found = await _assess(bench, best.draft, "final", refused=True)
        _publish(bench)
        bench.recorder.append(Released(
            released=not reasons, reasons=reasons, pages=found.pages, round=best.round, rules=RULES,
            beside=_disclose(bench, best),
            pdf=str(bench.folder.paper.relative_to(bench.folder.root) / "paper.pdf") if found.pdf else None,
            files={str(path.relative_to(bench.folder.paper)): sha256(path)
                   for path in sorted(bench.folder.paper.rglob("*")) if path.is_file() and "rounds" not in path.parts}))

        write_file(bench.folder.root / "manifest.json", json.dumps(manifest(bench.state, bench.folder), indent=1))

    await do_work(bench, bench.state.paper_task("release"), work)


def material_of(bench: Bench, k: int | None = None) -> Material:
    """The run's record as a paper is made from it: on the terms of now, or of decision k, whose prompts tell them."""
    state = bench.state if k is None else bench.state.as_of(k)
    return Material(state, bench.folder, bench.paper, bench.notice, bench.isolation(state))


def best_of(drafts: Sequence[Drafted]) -> Drafted:
    """The version to release: least untied, then least to mend; of equals the latest."""
    return min(reversed(counted(drafts)), key=rank)


def counted(drafts: Sequence[Drafted]) -> Sequence[Drafted]:
    """The versions that were assessed against the record as it is: those since it changed last."""
    return drafts[max((at for at, one in enumerate(drafts) if one.anew), default=0):]


def rank(one: Drafted) -> tuple[float, ...]:
    """What is wrong with a version, what weighs most first: less is better."""
    return (len(one.violations), sum(finding.blocks for finding in one.findings), one.over,
            len(one.findings) + len(one.complaints))


def reasons_against(found: Assessment) -> tuple[str, ...]:
    """Why a paper is not released; empty when it is."""
    untied = tuple(str(violation) for violation in found.violations)
    return untied + tuple(finding.text for finding in found.findings if finding.blocks)


async def drafted(bench: Bench, draft: Draft, *, number: int) -> Drafted:
    """A version of the text with all that is found in it, built in a folder of its own. It is not recorded yet."""
    material = material_of(bench)
    found = await _assess(bench, draft, f"round{number}")
    limit = material.template.page_limit
    inputs = write_inputs(material)
    return Drafted(
        round=number, draft=draft, pages=found.pages, findings=found.findings,
        over=round(max(0.0, (found.filled or 0.0) - limit), 2),
        violations=tuple(str(violation) for violation in found.violations),
        untied=dict(Counter(violation.where for violation in found.violations)),
        complaints=(*(f"section {one.title!r} is empty: write it" for one in draft.sections if not one.body.strip()),
                    *too_thin(found.filled, limit),
                    *untold(draft, inputs.tellings, inputs.comparisons, {line.key for line in inputs.results})))


async def _assess(bench: Bench, draft: Draft, folder: str, *, refused: bool = False) -> Assessment:
    material = material_of(bench)
    return await assess(parts_for(material, draft, refused=refused), material.template,
                        bench.folder.paper / "rounds" / folder, timeout=bench.paper.timeout)


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
