"""The reflector: edits of a draft, in bounded rounds, each held against the best version before it.

A round after which the checks find more than before is taken back: the next one starts from the best version again, and
learns what was tried. Every round is recorded, and so are edits that could not be made. A passage to be edited is found
if it stands exactly once, where any run of white space is like any other: models wrap lines anew.

What it does not guarantee: that a version in which the checks find as little as in another reads better.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles import REFLECT
from labwright.models.roles.revising import ReflectInputs, Reflection, Round, SectionEdit, TextEdit
from labwright.record.events.papers import Drafted
from labwright.record.nouns.figures import FinalFigure
from labwright.record.nouns.papers import Draft, Section
from labwright.record.typeset import without_form
from labwright.review.evidence import scan, sentences, used_keys
from labwright.review.evidence.allowed import CITES
from labwright.stages.bench import Bench, do_work
from labwright.stages.paper.citations import of_this_version
from labwright.stages.paper.decided import OURS
from labwright.stages.paper.figure_review import review_paper_figures
from labwright.stages.paper.findings import lengths
from labwright.stages.paper.material import write_inputs
from labwright.stages.paper.obligations import left_out, with_owed
from labwright.stages.paper.scope import misread, review_scope, too_much
from labwright.stages.paper.versions import best_of, counted, drafted, material_of, rank

MANY = 5
"""Violations of one section from which on it may be rewritten as a whole."""
IDLE = 2
"""Rounds in a row that bring no new text, after which no other is begun."""
SHOWN = 80
"""Characters of a passage that are shown in a report on its edit."""
NO_FIGURE = "there is no such figure"
SPARED = "metrics"
"""The table that a text gives up where it is too long."""


async def reflect(bench: Bench) -> None:
    """Record edited drafts until nothing is left to fix, the reflector is done, or the rounds are used up."""

    async def work(client: ModelClient) -> None:
        await revise(bench, client, range(1, bench.paper.reflections + 1))
        bench.recorder.append(best_of(bench.state.drafts).model_copy(update={"done": True}))

    await do_work(bench, bench.state.paper_task("reflect"), work)


async def revise(bench: Bench, client: ModelClient, rounds: Iterable[int], *, news: tuple[str, ...] = ()) -> None:
    """Record a draft a round, by the rounds' numbers. `news` is shown in each: what was run since the last draft."""
    for number in rounds:
        before = _before(bench.state.drafts, number)
        await review_paper_figures(bench, best_of(before))
        await review_scope(bench, best_of(before))
        try:
            answer = await client.usable(
                REFLECT, reflect_inputs(bench, before, client.decision, news=news), then="the draft stands as it is"
            )
        except BudgetSpent:
            return
        if answer is None or answer.empty:
            return
        if not any(one.round == number for one in bench.state.drafts):
            base, figures = best_of(before), {one.name for one in material_of(bench).figures}
            found = _complete(bench, edited(base.draft, answer, figures=figures, rewritable=_rewritable(base)))
            same = next((one for one in before if one.draft == found.draft), None)
            version = same or await drafted(bench, found.draft, number=number)
            bench.recorder.append(
                version.model_copy(
                    update={
                        "round": number,
                        "edits": tuple(found.made),
                        "refused": tuple(found.refused),
                        "anew": False,
                        "done": before[-1].done,
                    }
                )
            )
        if _is_over(_before(bench.state.drafts, number + 1), done=answer.done):
            return


def _complete(bench: Bench, found: Edited) -> Edited:
    """The edited draft with what it owes and the edits took out."""
    material = material_of(bench)
    statements, tabled = write_inputs(material).statements, material.evidence.tabled
    made = [*found.made, *(f"{line}, done by the program" for line in left_out(found.draft, statements, tabled))]
    return Edited(with_owed(found.draft, statements, tabled), made, found.refused)


def _before(drafts: Sequence[Drafted], number: int) -> tuple[Drafted, ...]:
    """The versions before a round, each once: what it sees, now as on any later day."""
    found: dict[int, Drafted] = {}
    for one in drafts:
        if one.round < number:
            found.setdefault(one.round, one)
    return tuple(counted(tuple(found.values())))


def reflect_inputs(bench: Bench, before: Sequence[Drafted], k: int, *, news: tuple[str, ...] = ()) -> ReflectInputs:
    """What the reflector of decision k gets: the best version so far, what is wrong with it, and what was tried."""
    base = best_of(before)
    seen, scoped = bench.state.figures_seen.get(base.round), bench.state.scoped.get(base.round)
    material = material_of(bench, k)
    inputs, draft = write_inputs(material), base.draft
    supports = tuple(support for one in of_this_version(bench.state)[1] for support in one.supports)
    violations = (*base.violations, *too_much(draft, scoped.findings if scoped else (), material.evidence))
    # Of the record it needs what the paper is about, and what the draft or a finding about it names.
    complaints = (*base.left_out, *base.complaints)
    text = "\n".join(
        (*draft.texts, *violations, *complaints, *news, *(key for s in inputs.statements for key in s.keys))
    )
    cited = {*used_keys(draft.texts, CITES), *(one.key for one in supports)}
    return ReflectInputs(
        inputs=inputs.model_copy(update={"references": tuple(one for one in inputs.references if one.key in cited)}),
        draft=draft,
        pages=base.pages,
        over=base.over,
        results=tuple(line for line in inputs.results if line.listed or without_form(line.key) in text),
        comparisons=tuple(one for one in inputs.comparisons if one.listed or one.key in text),
        violations=violations,
        complaints=(*complaints, *misread(scoped, material.decisions)),
        compile_findings=tuple(one.text for one in base.findings if one.by_edit),
        lengths=lengths(draft, base.pages),
        figure_reviews=bench.state.figures.reviews if bench.state.figures else (),
        paper_figures=seen.reviews if seen is not None else (),
        rewritable=_rewritable(base),
        tried=tuple(
            Round(number=one.round, outcome=_outcome(before[:k], one), edits=one.edits, refused=one.refused)
            for k, one in enumerate(before)
            if k
        ),
        news=news,
        supports=supports,
    )


def _rewritable(base: Drafted) -> tuple[str, ...]:
    """Sections that edits of passages cannot repair: empty ones, and those with many violations."""
    return tuple(
        one.title
        for one in base.draft.sections
        if not one.body.strip() or base.untied.get(f"section {one.title!r}", 0) >= MANY
    )


def _is_over(drafts: Sequence[Drafted], *, done: bool) -> bool:
    """Whether another round would be idle: nothing new came of the last ones, or all is well and the reflector done."""
    fresh = [one.draft not in [earlier.draft for earlier in drafts[:k]] for k, one in enumerate(drafts) if k]
    if len(fresh) >= IDLE and not any(fresh[-IDLE:]):
        return True
    last = drafts[-1]
    open_ = [one for one in last.findings if one.by_edit]
    return (
        done
        and last is best_of(drafts)
        and not (last.violations or open_ or last.left_out or last.complaints or last.refused)
    )


def _outcome(before: Sequence[Drafted], one: Drafted) -> str:
    base, twin = best_of(before), next((earlier for earlier in before if earlier.draft == one.draft), None)
    if twin is not None:
        return "nothing changed" if twin is base else f"led back to the text of round {twin.round}: not kept"
    if rank(one) <= rank(base):
        return "kept"
    counts = (
        ("violations", len(base.violations), len(one.violations)),
        ("findings", len(base.findings), len(one.findings)),
        ("complaints", len(base.complaints), len(one.complaints)),
        ("pages too many", base.over, one.over),
        ("things left out", len(base.left_out), len(one.left_out)),
    )
    worse = ", ".join(f"{name} {first:g} -> {second:g}" for name, first, second in counts if second > first)
    known, faults = (
        (*each.violations, *each.left_out, *(finding.text for finding in each.findings), *each.complaints)
        for each in (base, one)
    )
    more = [line for line in faults if line not in known]
    return f"taken back, since it made the draft worse: {worse or 'what stops a release'}; {'; '.join(more[:3])}"


@dataclass
class Edited:
    """A draft and the edits of it. `made` and `refused` have one line an edit: those that could be made, and why the
    others could not."""

    draft: Draft
    made: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])

    def note(self, what: str, refused: str) -> bool:
        """Note an edit, refused for a reason or made; whether it may be made."""
        (self.refused if refused else self.made).append(f"{what}: {refused}" if refused else what)
        return not refused


def edited(draft: Draft, answer: Reflection, *, figures: Collection[str], rewritable: Collection[str] = ()) -> Edited:
    """The draft with the edits that can be made. `figures` are the paper's, `rewritable` the sections open to it."""
    found = Edited(draft)
    texts: dict[str, str] = {
        "title": draft.title,
        "abstract": draft.abstract,
        **{section.title: section.body for section in draft.sections},
    }
    captions, placements = dict(draft.captions), dict(draft.placements)
    for rewrite in answer.rewrites:
        if found.note(f"{rewrite.title}, as a whole", _against_rewrite(rewrite, texts, rewritable)):
            texts[rewrite.title] = rewrite.body
    for edit in answer.edits:
        passage = r"\s+".join(map(re.escape, edit.old.split()))
        text = texts.get(edit.section, "")
        places: list[tuple[int, int]] = (
            [match.span(1) for match in re.finditer(f"(?=({passage}))", text)] if passage else []
        )
        refused = _against_edit(edit, texts, len(places))
        what = f"{edit.section}: {_short(edit.old)}"
        if found.note(what if refused else f"{what} -> {_short(edit.new) or 'taken out'}", refused):
            start, end = places[0]
            texts[edit.section] = text[:start] + edit.new + text[end:]
    for name, caption in answer.captions.items():
        same = not caption.strip() or captions.get(name) == caption
        refused = NO_FIGURE if name not in figures else "it is empty, or as it was" if same else ""
        if found.note(f"caption of {name}", refused):
            captions[name] = caption
    for name, place in answer.placements.items():
        refused = NO_FIGURE if name not in figures else "it stands there" if placements.get(name) == place else ""
        moved = f"{name} moved to {'the text' if place == 'main' else 'the appendix'}"
        if found.note(f"{name} to {place}" if refused else moved, refused):
            placements[name] = place
            if place == "appendix":
                texts = {title: text.replace(f"\\paperfigure{{{name}}}", "") for title, text in texts.items()}
    for title, text in texts.items():  # without the gaps that passages left
        texts[title] = re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    found.draft = draft.model_copy(
        update={
            "title": texts["title"],
            "abstract": texts["abstract"],
            "sections": tuple(Section(title=one.title, body=texts[one.title]) for one in draft.sections),
            "captions": captions,
            "placements": placements,
        }
    )
    return found


def lighter(draft: Draft, figures: Sequence[FinalFigure]) -> Edited | None:
    """The draft without the last float that its text can spare; None where it has none.

    A figure goes to the appendix, then the table of secondary metrics, which the supplement has, with the sentences
    that refer to it. What was decided stays: its figure and the other tables.
    """
    bodies = [one.body for one in draft.sections]
    placed = used_keys(bodies, frozenset({"paperfigure"}))
    if spared := [name for name in placed if name in {one.name for one in figures} - OURS]:
        return edited(draft, Reflection(done=False, placements={spared[-1]: "appendix"}), figures=spared)
    if SPARED not in used_keys(bodies, frozenset({"papertable"})):
        return None
    kept = tuple(one.model_copy(update={"body": _without_table(one.body)}) for one in draft.sections)
    return Edited(draft.model_copy(update={"sections": kept}), [f"the table {SPARED} taken out"])


def _without_table(text: str) -> str:
    text = text.replace(f"\\papertable{{{SPARED}}}", "")
    for start, end in reversed([*sentences(scan(text))]):
        if f"\\ref{{tab:{SPARED}}}" in text[start:end]:
            text = text[:start] + text[end:]
    return re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", text).strip()


def _against_rewrite(edit: SectionEdit, texts: dict[str, str], rewritable: Collection[str]) -> str:
    if edit.title not in texts:
        return "there is no such section"
    if edit.title not in rewritable:
        return "it is not open to a whole rewrite, edit its passages"
    same = not edit.body.strip() or edit.body.strip() == texts[edit.title].strip()
    return "the new text is empty, or the old one" if same else ""


def _against_edit(edit: TextEdit, texts: dict[str, str], times: int) -> str:
    if edit.section not in texts:
        return f"there is no section {edit.section!r}"
    if not edit.old.strip():
        return "the old passage is empty"
    if times != 1:
        return f"the passage {f'stands there {times} times: give more of it' if times else 'does not stand there'}"
    idle = edit.new == edit.old or (edit.section == "title" and not edit.new.strip())
    return "it would change nothing, or leave no title" if idle else ""


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= SHOWN else f"{flat[:SHOWN]}...") if flat else ""
