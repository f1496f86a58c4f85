"""Copy-edit the final draft: a language model improves its language, and the program keeps its content.

An edit is refused if it changes a macro, citation, reference, float, number or formula, or the names around a value.
The edited draft is then checked like one after a reflection: by the evidence check, by TeX, and by the reading of its
claims. An edit whose sentence claims something new that the record does not support is undone; a version with more
faults than before is not released (`typesetting.select_best`).

Limits: an edit may drop a qualification that no claim depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labwright.models.client import ModelClient
from labwright.models.roles import COPY_EDIT
from labwright.models.roles.paper_revision import CopyEditInputs, Reflection, SourceText, TextEdit
from labwright.record.events.paper_events import DraftAssessed
from labwright.record.schema.paper import PaperDraft
from labwright.review.claims.sentences import find_stated_points
from labwright.review.evidence import Evidence, find_sentence_spans, number_words, numbers, scan
from labwright.review.evidence.latex_scanner import VALUE_COMMANDS, ScannedText
from labwright.stages.cost_table import COPY_EDIT_TASK
from labwright.stages.paper.claim_check import find_claim_violations, list_sentences, list_unstated, read_claims
from labwright.stages.paper.reflection import DraftEdits, apply_edits, find_part
from labwright.stages.paper.typesetting import assess_edit, build_paper_context, find_next_round, select_best
from labwright.stages.run_context import RunContext, run_once

EDIT_NOTE = "copy edit"
"""How the edits of a copy-edited version are marked in the record."""


async def copy_edit(context: RunContext) -> None:
    """Record the best draft with the edits that change no claim, if any are left."""

    async def work(client: ModelClient) -> None:
        drafts = context.state.paper.drafts
        if any(line.startswith(EDIT_NOTE) for one in drafts for line in one.edits):
            return
        base = select_best(drafts)
        evidence = build_paper_context(context, client.decision).evidence
        texts = {where: text for where, text in base.draft.parts.items() if not where.startswith("title")}
        answer = await client.ask_or_none(
            COPY_EDIT,
            CopyEditInputs(
                title=base.draft.title, texts=tuple(SourceText(where=where, text=text) for where, text in texts.items())
            ),
            instead="the text is not copy-edited",
        )
        edits = answer.edits if answer is not None else ()
        found = apply_copy_edits(base.draft, edits, evidence)
        if found.draft == base.draft:
            return
        trial = base.model_copy(update={"draft": found.draft, "round": find_next_round(context.state)})
        sound = await _list_sound_edits(context, base, trial, edits)
        if len(sound) < len(edits):
            found = apply_copy_edits(base.draft, sound, evidence)
            found.refused += [f"{one.section}: {one.old!r}: it changes a claim" for one in edits if one not in sound]
        lines = [f"{EDIT_NOTE}, {line}" for line in found.applied] or [f"{EDIT_NOTE}: all edits were undone"]
        kept = await assess_edit(context, found.draft, *lines)
        context.recorder.append(kept.model_copy(update={"edits": tuple(lines), "refused": tuple(found.refused)}))

    await run_once(context, context.state.paper.format_task(COPY_EDIT_TASK), work)


async def _list_sound_edits(
    context: RunContext, base: DraftAssessed, edited: DraftAssessed, edits: Sequence[TextEdit]
) -> tuple[TextEdit, ...]:
    """Read the claims of the edited version as after a reflection, and return the edits that add no sentence which the
    record does not support, and remove none that makes a required point; none, if the sentences cannot be assigned to
    single edits."""
    await read_claims(context, edited)
    material, before = build_paper_context(context), _flatten(base.draft)
    readings = context.state.paper.sentence_readings
    refused = {one.source for one, _ in find_claim_violations(context, edited.draft) if one.source not in before}
    texts = {edit: _flatten(apply_copy_edits(base.draft, [edit], material.evidence).draft) for edit in edits}
    found = {source: [edit for edit, text in texts.items() if source in text] for source in refused}
    stated = find_stated_points(list_sentences(material, base.draft), readings)
    for one in list_unstated(material, edited.draft, readings):
        for sentence in stated.get(one.id, ()):
            found[sentence.source] = [edit for edit, text in texts.items() if sentence.source not in text]
    if not all(found.values()):
        return ()
    return tuple(edit for edit in edits if not any(edit in culprits for culprits in found.values()))


def _flatten(draft: PaperDraft) -> str:
    return " ".join(" ".join(draft.parts.values()).split())


def apply_copy_edits(draft: PaperDraft, edits: Sequence[TextEdit], evidence: Evidence) -> DraftEdits:
    """Return the draft with the edits applied that keep its content."""
    found = DraftEdits(draft)
    for edit in edits:
        step = apply_edits(found.draft, Reflection(done=False, edits=(edit,)), figures=())
        where = find_part(edit.section, found.draft.parts)
        before, after = (one.draft.parts.get(where, "") for one in (found, step))
        objection = "" if step.refused else find_objection(before, after, evidence)
        found.refused += step.refused or [f"{edit.section}: {edit.old!r}: {objection}"] * bool(objection)
        if not step.refused and not objection:
            found.draft = step.draft
            found.applied += step.applied
    return found


def find_objection(before: str, after: str, evidence: Evidence) -> str:
    """Explain why an edit of a text would change its content; return "" if it would not."""
    old, new = scan(before), scan(after)
    if _list_keys(old) != _list_keys(new):
        return "it changes a macro, a citation, a reference or a float"
    if _list_numbers(old, evidence) != _list_numbers(new, evidence):
        return "it changes a number"
    if _list_formulas(old) != _list_formulas(new):
        return "it changes a formula"
    if len(new.problems) > len(old.problems):
        return new.problems[-1].fix
    if any(text in before and text not in after for text in evidence.statements):
        return "it changes a required statement"
    first, second = _list_edited_names(old, new, evidence)
    rest = iter(first)
    if not all(name in rest for name in second):
        return "it adds a name to a sentence with a result, or moves one"
    return ""


def _list_keys(text: ScannedText) -> list[tuple[str, str]]:
    return [(use.command, use.key) for use in text.uses]


def _list_numbers(text: ScannedText, evidence: Evidence) -> list[str]:
    """Return all numbers in order, as digits or as words; words in names of the study (`Branch at half`) are none."""
    plain = re.sub(r"[\x00-\x02]", " ", text.plain)
    prose = numbers.mask_matches(plain, [numbers.compile_phrase(one) for one in evidence.names if one.strip()], " ")
    words = [(one.at, one.words.casefold()) for one in number_words.find_number_words(prose, ())]
    words += [(one.at, one.words.casefold()) for one in number_words.find_ratio_words(prose)]
    return [number for _, number in sorted([*numbers.find_numbers(plain), *words])]


def _list_formulas(text: ScannedText) -> str:
    return "".join(char for char, inside in zip(text.source, text.math, strict=True) if inside)


def _list_edited_names(old: ScannedText, new: ScannedText, evidence: Evidence) -> tuple[list[str], list[str]]:
    """Return the names of the study and the values in the edited sentences, in order: before and after the edit.
    Without a value in these sentences both are empty."""
    before, after = ({one.source[slice(*span)]: span for span in find_sentence_spans(one)} for one in (old, new))
    first, second = (
        [name for source in own if source not in other for name in _list_names(text, *own[source], evidence)]
        for text, own, other in ((old, before, after), (new, after, before))
    )
    return (first, second) if any(name.startswith("\\") for name in first) else ([], [])


def _list_names(text: ScannedText, start: int, end: int, evidence: Evidence) -> Iterator[str]:
    plain, found = text.plain[start:end], list[tuple[int, str]]()
    for name in sorted(evidence.names, key=len, reverse=True):
        pattern = numbers.compile_phrase(name)
        found += [(match.start(), name.casefold()) for match in pattern.finditer(plain)]
        plain = numbers.mask_matches(plain, [pattern])
    found += [
        (use.at - start, f"\\{use.command}{{{use.key}}}")
        for use in text.uses
        if use.command in VALUE_COMMANDS and start <= use.at < end
    ]
    return (name for _, name in sorted(found))
