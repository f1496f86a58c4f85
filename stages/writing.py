"""The paper: written from the record, checked, edited within bounds, and released only when everything is tied.

Source: AI-Scientist-v2, section 3.3 and appendix B (writer and reflection). What its writer could not see, ablations
and replicate statistics, is what ours gets first.
"""

from __future__ import annotations

import json
import shutil

from models.door import Desk
from models.errors import BudgetSpent
from models.roles import ReflectInputs, Reflection
from record.events import Drafted, Released
from record.folder import sha256, write_file
from record.manifest import manifest
from record.nouns import Draft
from stages.bench import Bench, do_work
from stages.manuscript import Material, parts_for, write_inputs
from stages.paper.disclosure import as_file, disclosure, file_of
from stages.paper.round import Assessment, assess

BLOCKING = ("prints ??", "the limit is", "is not installed", "TeX stopped", "did not end", "not compiled",
            "bibtex failed", "has no file")
"""Findings with which a paper is not released; the others (a line that sticks out) are blemishes, and disclosed."""


async def write(bench: Bench) -> None:
    """Record the writer's draft, assessed."""

    async def work(desk: Desk) -> None:
        draft = await desk.ask("write", write_inputs(material_of(bench)), Draft)
        if not bench.state.drafts:
            await _record(bench, draft, number=0)

    await do_work(bench, bench.state.paper_task("write"), work)


async def reflect(bench: Bench) -> None:
    """Record edited drafts until nothing is left to mend, the reflector is done, or the rounds are used up."""

    async def work(desk: Desk) -> None:
        inputs = write_inputs(material_of(bench))
        for number in range(1, bench.paper.reflections + 1):
            last = bench.state.drafts[number - 1]
            try:
                answer = await desk.ask("reflect", ReflectInputs(
                    inputs=inputs, draft=last.draft, pages=last.pages, violations=last.violations,
                    compile_findings=last.findings,
                    figure_reviews=bench.state.figures.reviews if bench.state.figures else ()), Reflection)
            except BudgetSpent:
                break
            if not answer.edits and not answer.captions:
                break
            if len(bench.state.drafts) == number:
                await _record(bench, edited(last.draft, answer), number=number)
        bench.recorder.append(bench.state.drafts[-1].model_copy(update={"done": True}))

    await do_work(bench, bench.state.paper_task("reflect"), work)


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
            released=not reasons, reasons=reasons, pages=found.pages, beside=_disclose(bench, best),
            pdf=str(bench.folder.paper.relative_to(bench.folder.root) / "paper.pdf") if found.pdf else None,
            files={str(path.relative_to(bench.folder.paper)): sha256(path)
                   for path in sorted(bench.folder.paper.rglob("*")) if path.is_file() and "rounds" not in path.parts}))

        write_file(bench.folder.root / "manifest.json", json.dumps(manifest(bench.state, bench.folder), indent=1))

    await do_work(bench, bench.state.paper_task("release"), work)


def material_of(bench: Bench) -> Material:
    """The run's record as a paper is made from it."""
    return Material(bench.state, bench.folder, bench.paper, bench.notice, bench.isolation)


def best_of(drafts: list[Drafted]) -> Drafted:
    """The version to release: least untied, then least to mend; of equals the latest."""
    return min(reversed(drafts), key=lambda one: (len(one.violations), _blocking(one.findings), len(one.findings)))


def reasons_against(found: Assessment) -> tuple[str, ...]:
    """Why a paper is not released; empty when it is."""
    untied = tuple(str(violation) for violation in found.violations)
    return untied + tuple(finding for finding in found.findings if _blocking((finding,)))


def edited(draft: Draft, answer: Reflection) -> Draft:
    """A draft with the reflector's edits; an edit of what the draft does not have is left out."""
    bodies = {edit.title: edit.body for edit in answer.edits}
    sections = tuple(section.model_copy(update={"body": bodies.get(section.title, section.body)})
                     for section in draft.sections)
    return draft.model_copy(update={
        "title": bodies.get("title", draft.title), "abstract": bodies.get("abstract", draft.abstract),
        "sections": sections, "captions": {**draft.captions, **answer.captions}})


def _blocking(findings: tuple[str, ...]) -> int:
    return sum(any(sign in finding for sign in BLOCKING) for finding in findings)


async def _record(bench: Bench, draft: Draft, *, number: int) -> None:
    found = await _assess(bench, draft, f"round{number}")
    bench.recorder.append(Drafted(
        round=number, draft=draft, pages=found.pages, findings=found.findings,
        violations=tuple(str(violation) for violation in found.violations)))


async def _assess(bench: Bench, draft: Draft, folder: str, *, refused: bool = False) -> Assessment:
    material = material_of(bench)
    return await assess(parts_for(material, draft, refused=refused), material.template,
                        bench.folder.paper / "rounds" / folder, timeout=bench.paper.timeout)


def _disclose(bench: Bench, best: Drafted) -> dict[str, str]:
    """Write the disclosure; its path in the run -> sha256."""
    file = file_of(bench.folder)
    path = bench.folder.root / file
    write_file(path, as_file(disclosure(bench.state, isolation=bench.isolation, text=best.round)))
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
