"""Edit a draft in bounded rounds; each version is compared with the best version before it.

Of a round that exceeds the page limit, the edits that add most are undone. A round with more findings than before is
reverted: the next round starts from the best version again and sees the failed edits. Every round is recorded, with the
edits that were refused. A passage to edit must occur exactly once; runs of whitespace compare equal, since models
rewrap lines.

Limits: a version with fewer findings does not necessarily read better.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labwright.models.client import ModelClient
from labwright.models.roles import REFLECT
from labwright.models.roles.paper_revision import ReflectInputs, Reflection, ReflectionRound, SectionEdit, TextEdit
from labwright.record.events.paper_events import DraftAssessed
from labwright.record.result_macros import strip_form
from labwright.record.schema.paper import FigureAspectReview, FinalFigure, PaperDraft
from labwright.record.table import format_quantity
from labwright.review.evidence import collect_used_keys, compile_use
from labwright.review.evidence.latex_scanner import CITE_COMMANDS
from labwright.stages.cost_table import SHORTEN_TASK
from labwright.stages.paper.citations import (
    UNCITED_COMPLAINT,
    is_novelty_unchecked,
    list_version_works,
    reduce_related_work,
)
from labwright.stages.paper.claim_check import read_claims
from labwright.stages.paper.figures import review_paper_figures
from labwright.stages.paper.hypothesis_figures import PROGRAM_FIGURES
from labwright.stages.paper.outline import count_page_words, count_words
from labwright.stages.paper.paper_context import build_write_inputs
from labwright.stages.paper.required_statements import complete_draft
from labwright.stages.paper.response import describe_requests
from labwright.stages.paper.result_tables import ADDENDUM_TABLE
from labwright.stages.paper.typesetting import (
    assess_new_draft,
    build_paper_context,
    count_lines,
    find_next_round,
    list_current,
    rank_version,
    select_best,
)
from labwright.stages.run_context import RunContext, run_once

MIN_VIOLATIONS_TO_REWRITE = 5
"""Minimum number of violations in a section for rewriting it as a whole."""
MAX_IDLE_ROUNDS = 2
"""Maximum number of consecutive rounds without new text; then no further round starts."""
MAX_PASSAGE_CHARS = 80
"""Number of characters of a passage that the report on its edit shows."""
NO_FIGURE_REASON = "there is no such figure"
PROGRAM_CAPTION_REASON = "the program writes the caption of this figure"


async def reflect(context: RunContext) -> None:
    """Record edited drafts until nothing is left to fix, the reflector is done, or the rounds are used up."""

    async def work(client: ModelClient) -> None:
        await revise(context, client, range(1, context.paper.reflections + 1), results=describe_requests(context.state))
        context.recorder.append(select_best(context.state.paper.drafts).model_copy(update={"done": True}))

    await run_once(context, context.state.paper.format_task("reflect"), work)


async def revise(
    context: RunContext, client: ModelClient, rounds: Iterable[int], *, results: tuple[str, ...] = ()
) -> None:
    """Record one draft per round, under the given round numbers. `results` describes runs since the last draft and is
    shown in each round."""
    for number in rounds:
        before = _list_earlier(context.state.paper.drafts, number)
        await review_paper_figures(context, select_best(before))
        await read_claims(context, select_best(before))
        answer = await client.ask_or_none(
            REFLECT,
            build_reflect_inputs(context, before, client.decision, results=results),
            instead="the draft stays unchanged",
        )
        if answer is None or answer.is_empty:
            return
        if not any(one.round == number for one in context.state.paper.drafts):
            found, version = await _assess_edits(context, before, answer, number)
            lines = {"edits": tuple(found.applied), "refused": tuple(found.refused)}
            update = {"round": number, "anew": False, "done": before[-1].done, **lines}
            context.recorder.append(version.model_copy(update=update))
        if _is_over(_list_earlier(context.state.paper.drafts, number + 1), done=answer.done):
            return


async def ask_to_shorten(context: RunContext, version: DraftAssessed, figure: str) -> None:
    """Record a further round in which the reflector may shorten the text, before the program moves a figure to which a
    section refers; once for each version of the paper."""
    lines = format_quantity(count_lines(version.over, build_paper_context(context).template), "line")
    news = (
        f"The main text is too long by about {lines}. Shorten it, or move a figure: otherwise the program moves "
        f"`{figure}` to the appendix, though a section refers to it."
    )

    async def work(client: ModelClient) -> None:
        paper = context.state.paper
        if len(paper.drafts) == paper.drafts_before[client.decision]:  # a kill may have come right after the round
            await revise(context, client, [find_next_round(context.state)], results=(news,))

    await run_once(context, context.state.paper.format_task(SHORTEN_TASK), work)


async def _assess_edits(
    context: RunContext, before: Sequence[DraftAssessed], answer: Reflection, number: int
) -> tuple[DraftEdits, DraftAssessed]:
    """Apply the edits of a round and assess the draft. If it exceeds the page limit, and the one before did not, those
    that add most are undone, as many as it takes."""
    base, material = select_best(before), build_paper_context(context)
    figures, undone = {one.name for one in material.figures}, list[str]()
    while True:
        applied = apply_edits(base.draft, answer, figures=figures, rewritable=_list_rewritable(base))
        found = _complete_edits(context, applied)
        found.refused += undone
        same = next((one for one in before if one.draft == found.draft), None)
        version = same or await assess_new_draft(context, found.draft, number=number)
        growth = _measure_growth(answer, material.float_words)
        excess = version.over * count_page_words(material.template)
        if base.over or excess <= 0 or not growth:
            return found, version
        for one in sorted(growth, key=growth.__getitem__, reverse=True):
            undone.append(f"{one!r}: undone, since the text would exceed its page limit")
            answer = answer.model_copy(update={"edits": tuple(edit for edit in answer.edits if edit.new != one)})
            excess -= growth[one]
            if excess <= 0:
                break


def _measure_growth(answer: Reflection, float_words: Mapping[str, int]) -> dict[str, int]:
    """Return the words that edits add, by their new text, with the room of the figures and tables that they place."""

    def measure(text: str) -> int:
        labels = [f"fig:{name}" for name in collect_used_keys([text], frozenset({"paperfigure"}))]
        labels += [f"tab:{name}" for name in collect_used_keys([text], frozenset({"papertable"}))]
        return len(text.split()) + sum(float_words.get(label, 0) for label in labels)

    growth = {edit.new: measure(edit.new) - measure(edit.old) for edit in answer.edits}
    return {text: words for text, words in growth.items() if words > 0}


def _complete_edits(context: RunContext, found: DraftEdits) -> DraftEdits:
    """Restore required statements that the edits removed, and reduce related work that still cites nothing."""
    material, draft = build_paper_context(context), found.draft
    if is_novelty_unchecked(context.state, draft) and (reduced := reduce_related_work(draft)) != draft:
        found.record("related work reduced to two sentences, by the program", "")
        found = DraftEdits(reduced, found.applied, found.refused)
    statements = material.statements
    # whether the text reports what a placed table has is asked of its readers
    later = [one.id for one in statements if one.id.startswith("hypothesis-")]
    missing, draft = complete_draft(found.draft, statements, reported=later)
    return DraftEdits(draft, [*found.applied, *(f"{line}, added by the program" for line in missing)], found.refused)


def _list_earlier(drafts: Sequence[DraftAssessed], number: int) -> tuple[DraftAssessed, ...]:
    """Return the versions before a round, each once, so that a resumed round sees the same ones."""
    found: dict[int, DraftAssessed] = {}
    for draft in drafts:
        if draft.round < number:
            found.setdefault(draft.round, draft)
    return tuple(list_current(tuple(found.values())))


def build_reflect_inputs(
    context: RunContext, earlier: Sequence[DraftAssessed], decision_id: int, *, results: tuple[str, ...] = ()
) -> ReflectInputs:
    """Build the reflector's inputs as of a decision: the best version so far, its faults, and what was tried."""
    base = select_best(earlier)
    seen, read = context.state.paper.figure_reviews.get(base.round), context.state.paper.claims_read.get(base.round)
    material = build_paper_context(context, decision_id)
    inputs, draft = build_write_inputs(material), base.draft
    supports = tuple(support for one in list_version_works(context.state)[1] for support in one.supports)
    violations = (*base.violations, *(read.violations if read else ()))
    replaced = is_novelty_unchecked(context.state, draft) and draft != reduce_related_work(draft)
    # From the record, the reflector needs the subject of the paper and all that the draft or a finding names.
    complaints = (*base.left_out, *base.complaints)
    text = "\n".join(
        (*draft.texts, *violations, *complaints, *results, *(key for s in inputs.statements for key in s.keys))
    )
    limit, page_words = material.template.page_limit, count_page_words(material.template)
    cited = {*collect_used_keys(draft.texts, CITE_COMMANDS), *(one.key for one in supports)}
    return ReflectInputs(
        inputs=inputs.model_copy(update={"references": tuple(one for one in inputs.references if one.key in cited)}),
        draft=draft,
        pages=base.filled,
        excess_lines=count_lines(base.over, material.template),
        room=round(max(0.0, limit - base.filled) * page_words) if base.filled is not None else 0,
        results=tuple(line for line in inputs.results if line.listed or strip_form(line.key) in text),
        comparisons=tuple(one for one in inputs.comparisons if one.listed or one.key in text),
        estimates=inputs.estimates,
        violations=violations,
        complaints=(
            *complaints,
            *(read.unreported if read else ()),
            *[UNCITED_COMPLAINT] * (replaced and bool(inputs.references)),
        ),
        compile_findings=tuple(one.text for one in base.findings if one.by_edit),
        lengths=count_words(draft),
        figure_reviews=context.state.paper.figures.reviews if context.state.paper.figures else (),
        paper_figures=tuple(
            # the writer cannot change what the program draws and says below it
            one.model_copy(update={"image": FigureAspectReview(ok=True), "caption": FigureAspectReview(ok=True)})
            if one.name in PROGRAM_FIGURES
            else one
            for one in (seen.reviews if seen is not None else ())
        ),
        rewritable=_list_rewritable(base),
        tried=tuple(
            ReflectionRound(
                number=one.round, outcome=_describe_outcome(earlier[:k], one), edits=one.edits, refused=one.refused
            )
            for k, one in enumerate(earlier)
            if k
        ),
        news=results,
        supports=supports,
    )


def _list_rewritable(base: DraftAssessed) -> tuple[str, ...]:
    """Return the sections that single edits cannot repair: empty ones, and those with many violations."""
    return tuple(
        one.title
        for one in base.draft.sections
        if not one.body.strip() or base.untied.get(f"section {one.title!r}", 0) >= MIN_VIOLATIONS_TO_REWRITE
    )


def _is_over(drafts: Sequence[DraftAssessed], *, done: bool) -> bool:
    """Return whether another round would be pointless, because the last ones changed nothing, or because nothing is
    left to fix and the reflector is done.
    """
    fresh = [one.draft not in [earlier.draft for earlier in drafts[:k]] for k, one in enumerate(drafts) if k]
    if len(fresh) >= MAX_IDLE_ROUNDS and not any(fresh[-MAX_IDLE_ROUNDS:]):
        return True
    last = drafts[-1]
    open_ = [one for one in last.findings if one.by_edit]
    return (
        done
        and last is select_best(drafts)
        and not (last.violations or open_ or last.left_out or last.complaints or last.refused)
    )


def _describe_outcome(before: Sequence[DraftAssessed], one: DraftAssessed) -> str:
    base, twin = select_best(before), next((earlier for earlier in before if earlier.draft == one.draft), None)
    if twin is not None:
        return "nothing changed" if twin is base else f"same text as round {twin.round}: not kept"
    if rank_version(one) <= rank_version(base):
        return "kept"
    known, faults = (
        (*each.violations, *each.left_out, *(finding.text for finding in each.findings), *each.complaints)
        for each in (base, one)
    )
    more = [line for line in faults if line not in known]
    return f"reverted because it made the draft worse: {'; '.join(more[:5]) or 'more of its faults block a release'}"


@dataclass
class DraftEdits:
    """A draft and its edits. `applied` and `refused` have one line per edit, refused ones with the reason."""

    draft: PaperDraft
    applied: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])

    def record(self, edit: str, refused: str) -> bool:
        """Note an edit as applied, or as refused with a reason; return whether it was applied."""
        (self.refused if refused else self.applied).append(f"{edit}: {refused}" if refused else edit)
        return not refused


def apply_edits(
    draft: PaperDraft, answer: Reflection, *, figures: Collection[str], rewritable: Collection[str] = ()
) -> DraftEdits:
    """Return the draft with the possible edits applied. `figures` are the paper's figures, `rewritable` the sections
    that may be rewritten."""
    found, texts = DraftEdits(draft), draft.parts
    for rewrite in answer.rewrites:
        if found.record(f"{rewrite.title}, as a whole", _check_rewrite(rewrite, texts, rewritable)):
            texts[find_part(rewrite.title, texts)] = rewrite.body
    for edit in answer.edits:
        where, passage = find_part(edit.section, texts), r"\s+".join(map(re.escape, edit.old.split()))
        text = texts.get(where, "")
        places = [match.span(1) for match in re.finditer(f"(?=({passage}))", text)]
        refused = _check_edit(edit, where, texts, len(places))
        what = f"{edit.section}: {_shorten_passage(edit.old)}"
        if found.record(what if refused else f"{what} -> {_shorten_passage(edit.new) or 'taken out'}", refused):
            start, end = places[0]
            texts[where] = text[:start] + edit.new + text[end:]
    for name, caption in answer.captions.items():
        where = f"caption of {name}"
        same = not caption.strip() or texts.get(where) == caption
        refused = NO_FIGURE_REASON if name not in figures else "it is empty or unchanged" if same else ""
        refused = PROGRAM_CAPTION_REASON if name in PROGRAM_FIGURES else refused
        if found.record(where, refused):
            texts[where] = caption
    for name in answer.placements:
        placed = compile_use(("paperfigure",), re.escape(name))
        left = {title: placed.sub("", text) for title, text in texts.items()}
        refused = NO_FIGURE_REASON if name not in figures else "it is already there" if left == texts else ""
        if found.record(f"{name} to the appendix" if refused else f"{name} moved to the appendix", refused):
            texts = left
    remaining = collect_used_keys(texts.values(), frozenset({"papertable"}))
    for section in draft.sections:  # no edit takes out what decides
        for name in collect_used_keys([section.body], frozenset({"papertable"})):
            if name not in (*remaining, ADDENDUM_TABLE):
                found.record(f"{section.title}: the table {name} taken out", "it has what decides, so it stays")
                texts[f"section {section.title!r}"] += f"\n\n\\papertable{{{name}}}"
    for title, text in texts.items():  # remove the gaps left by passages
        texts[title] = re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    found.draft = draft.with_parts(texts)
    return found


def find_part(name: str, parts: Mapping[str, str]) -> str:
    """Return the name of a part of the draft to which an edit gives this name, or the title of a section."""
    return name if name in parts else f"section {name!r}"


def find_spare_figure(draft: PaperDraft, figures: Sequence[FinalFigure]) -> str:
    """Return the figure that the program moves to the appendix if the text is too long: the last one, if possible one
    to which no section refers; empty if there is none. The figure of the decided hypotheses stays."""
    bodies = [one.body for one in draft.sections]
    known = {one.name for one in figures} - PROGRAM_FIGURES
    placed = [name for name in collect_used_keys(bodies, frozenset({"paperfigure"})) if name in known]
    spared = [name for name in placed if not is_referred_to(draft, name)] or placed
    return spared[-1] if spared else ""


def is_referred_to(draft: PaperDraft, figure: str) -> bool:
    """Return whether a section refers to a figure."""
    return f"fig:{figure}" in collect_used_keys([one.body for one in draft.sections], frozenset({"ref"}))


def drop_figure(draft: PaperDraft, figures: Sequence[FinalFigure]) -> DraftEdits | None:
    """Return the draft with a figure moved to the appendix; None if there is none to spare."""
    name = find_spare_figure(draft, figures)
    found = apply_edits(draft, Reflection(done=False, placements={name: "appendix"}), figures=[name])
    return found if name and found.applied else None


def _check_rewrite(edit: SectionEdit, texts: dict[str, str], rewritable: Collection[str]) -> str:
    text = texts.get(find_part(edit.title, texts))
    if text is None:
        return "there is no such section"
    if edit.title not in rewritable:
        return "it may not be rewritten as a whole: edit its passages"
    same = not edit.body.strip() or edit.body.strip() == text.strip()
    return "the new text is empty or unchanged" if same else ""


def _check_edit(edit: TextEdit, where: str, texts: dict[str, str], times: int) -> str:
    if where not in texts:
        return f"there is no section {edit.section!r}"
    if not edit.old.strip():
        return "the old passage is empty"
    if times != 1:
        return f"the passage {f'occurs {times} times: quote more of it' if times else 'does not occur'}"
    is_title = where == "title" or where.startswith("title of section ")
    if edit.new == edit.old or (is_title and not edit.new.strip()):
        return "it would change nothing, or leave the title empty"
    return "another section has this title" if is_title and find_part(edit.new.strip(), texts) in texts else ""


def _shorten_passage(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= MAX_PASSAGE_CHARS else f"{flat[:MAX_PASSAGE_CHARS]}...") if flat else ""
