"""The reflector: targeted edits of a draft, in bounded rounds, each held against the best version before it.

A round after which the checks find more than before is taken back: the next one starts from the best version again, and
is told what was tried. Every round is recorded, and so are edits that could not be made.

What it does not guarantee: that a version in which the checks find as little as in another reads better.

A reflector's edits on a draft: those that can be made are, and of every other it is said why not.

A passage is found if it stands exactly once, where any run of white space is like any other: models wrap lines anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from models.door import Desk
from models.errors import BudgetSpent
from models.roles.revising import REFLECT, ReflectInputs, Reflection, Round, SectionEdit, TextEdit
from models.roles.writing import ClaimLine, Comparison, WriteInputs
from record.events.papers import Drafted
from record.nouns.figures import Placement
from record.nouns.papers import Draft, Section
from stages.bench import Bench, do_work
from stages.paper.citations import chosen_in
from stages.paper.figure_review import look_at_figures
from stages.paper.findings import lengths
from stages.paper.material import write_inputs
from stages.paper.versions import best_of, counted, drafted, material_of, rank

MANY = 5
"""Violations of one section from which on it may be rewritten as a whole."""

IDLE = 2
"""Rounds in a row that bring no new text, after which no other is begun."""


async def reflect(bench: Bench) -> None:
    """Record edited drafts until nothing is left to mend, the reflector is done, or the rounds are used up."""

    async def work(desk: Desk) -> None:
        await revise(bench, desk, range(1, bench.paper.reflections + 1))
        bench.recorder.append(best_of(bench.state.drafts).model_copy(update={"done": True}))

    await do_work(bench, bench.state.paper_task("reflect"), work)


async def revise(bench: Bench, desk: Desk, rounds: Iterable[int], *, news: tuple[str, ...] = ()) -> None:
    """Record a draft a round, by the rounds' numbers. `news` is told in each: what was run since the last draft."""
    for number in rounds:
        before = before_round(bench.state.drafts, number)
        await look_at_figures(bench, best_of(before))
        try:
            answer = await desk.usable(REFLECT, reflect_inputs(bench, before, desk.decision, news=news),
                                       then="the draft stands as it is")
        except BudgetSpent:
            return
        if answer is None or answer.empty:
            return
        if not any(one.round == number for one in bench.state.drafts):
            bench.recorder.append(await _round(bench, before, answer, number))
        if _over(before_round(bench.state.drafts, number + 1), done=answer.done):
            return


def before_round(drafts: Sequence[Drafted], number: int) -> tuple[Drafted, ...]:
    """The versions before a round, each once: what it sees, now as on any later day."""
    found: dict[int, Drafted] = {}
    for one in drafts:
        if one.round < number:
            found.setdefault(one.round, one)
    return tuple(counted(tuple(found.values())))


def reflect_inputs(bench: Bench, before: Sequence[Drafted], k: int, *, news: tuple[str, ...] = ()) -> ReflectInputs:
    """What the reflector of decision k gets: the best version so far, what is wrong with it, and what was tried."""
    base = best_of(before)
    seen = bench.state.figures_seen.get(base.round)
    inputs = write_inputs(material_of(bench, k))
    results, comparisons = needed(inputs, base, news)
    return ReflectInputs(
        inputs=inputs, results=results, comparisons=comparisons, draft=base.draft, pages=base.pages, over=base.over,
        violations=base.violations, complaints=base.complaints,
        compile_findings=tuple(one.text for one in base.findings if one.by_edit),
        lengths=lengths(base.draft, base.pages),
        figure_reviews=bench.state.figures.reviews if bench.state.figures else (),
        paper_figures=seen.reviews if seen is not None else (), rewritable=rewritable(base), tried=told(before),
        news=news, supports=tuple(support for one in chosen_in(bench.state) for support in one.supports))


def needed(
    inputs: WriteInputs, base: Drafted, news: Sequence[str] = ()
) -> tuple[tuple[ClaimLine, ...], tuple[Comparison, ...]]:
    """Of the record what a revision may need: the primary metric, and what the draft or a finding about it names."""
    draft = base.draft
    said = "\n".join((draft.title, draft.abstract, *(one.body for one in draft.sections), *draft.captions.values(),
                      *base.violations, *base.complaints, *news, *(key for one in inputs.tellings for key in one.keys)))
    primary = inputs.data_plan.primary.name
    return (tuple(line for line in inputs.results if line.primary or line.key.rpartition(".")[0] in said),
            tuple(one for one in inputs.comparisons if one.metric == primary or one.key in said))


def rewritable(base: Drafted) -> tuple[str, ...]:
    """Sections that edits of passages cannot mend: empty ones, and those with many violations."""
    return tuple(one.title for one in base.draft.sections
                 if not one.body.strip() or base.untied.get(f"section {one.title!r}", 0) >= MANY)


def told(before: Sequence[Drafted]) -> tuple[Round, ...]:
    """The rounds so far, as the next one is told of them."""
    return tuple(Round(number=one.round, outcome=_outcome(before[:k], one), edits=one.edits, refused=one.refused)
                 for k, one in enumerate(before) if k)


def _outcome(before: Sequence[Drafted], one: Drafted) -> str:
    twin = _twin(before, one)
    if twin is not None:
        return "nothing changed" if twin is best_of(before) else f"led back to the text of round {twin.round}: not kept"
    base = best_of(before)
    if rank(one) <= rank(base):
        return "kept"
    counts = (("violations", len(base.violations), len(one.violations)),
              ("findings", len(base.findings), len(one.findings)),
              ("complaints", len(base.complaints), len(one.complaints)), ("pages too many", base.over, one.over))
    worse = ", ".join(f"{name} {first:g} -> {second:g}" for name, first, second in counts if second > first)
    more = [line for line in _wrong(one) if line not in _wrong(base)]
    return f"taken back, since it made the draft worse: {worse or 'what stops a release'}; {'; '.join(more[:3])}"


def _wrong(one: Drafted) -> tuple[str, ...]:
    return (*one.violations, *(finding.text for finding in one.findings), *one.complaints)


def _twin(before: Sequence[Drafted], one: Drafted) -> Drafted | None:
    """An earlier version with the same text."""
    return next((other for other in before if other.draft == one.draft), None)


async def _round(bench: Bench, before: Sequence[Drafted], answer: Reflection, number: int) -> Drafted:
    """The version after a round. Text that was assessed before is not built again."""
    base = best_of(before)
    figures = {one.name for one in write_inputs(material_of(bench)).figures}
    found: Edited = edited(base.draft, answer, figures=figures, rewritable=rewritable(base))
    twin = next((one for one in before if one.draft == found.draft), None)
    made = await drafted(bench, found.draft, number=number) if twin is None else twin
    return made.model_copy(update={
        "round": number, "edits": found.made, "refused": found.refused, "anew": False, "done": before[-1].done})


def _over(drafts: Sequence[Drafted], *, done: bool) -> bool:
    """Whether another round would be idle: nothing new came of the last ones, or all is well and the reflector done."""
    fresh = [_twin(drafts[:k], one) is None for k, one in enumerate(drafts) if k]
    if len(fresh) >= IDLE and not any(fresh[-IDLE:]):
        return True
    last = drafts[-1]
    open_ = [one for one in last.findings if one.by_edit]
    return done and last is best_of(drafts) and not (last.violations or open_ or last.complaints or last.refused)


SHOWN = 80
"""Characters of a passage that are shown in a report on its edit."""


@dataclass(frozen=True)
class Edited:
    """A draft after a round of edits. `made` and `refused` have one line an edit."""

    draft: Draft
    made: tuple[str, ...]
    refused: tuple[str, ...]


def edited(draft: Draft, answer: Reflection, *, figures: Collection[str], rewritable: Collection[str] = ()) -> Edited:
    """The draft with the edits that can be made. `figures` are the paper's, `rewritable` the sections open to it."""
    desk = _Desk(draft, frozenset(figures), frozenset(rewritable))
    for rewrite in answer.rewrites:
        desk.rewrite(rewrite)
    for edit in answer.edits:
        desk.replace(edit)
    for name, caption in answer.captions.items():
        desk.caption(name, caption)
    for name, place in answer.placements.items():
        desk.move(name, place)
    return Edited(desk.draft(), tuple(desk.made), tuple(desk.refused))


@dataclass
class _Desk:
    """The parts of a draft while they are edited."""

    before: Draft
    figures: frozenset[str]
    rewritable: frozenset[str]
    made: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.parts = {"title": self.before.title, "abstract": self.before.abstract,
                      **{section.title: section.body for section in self.before.sections}}
        self.captions = dict(self.before.captions)
        self.placements = dict(self.before.placements)

    def draft(self) -> Draft:
        sections = tuple(Section(title=one.title, body=_tidy(self.parts[one.title])) for one in self.before.sections)
        return self.before.model_copy(update={
            "title": self.parts["title"].strip(), "abstract": _tidy(self.parts["abstract"]), "sections": sections,
            "captions": self.captions, "placements": self.placements})

    def rewrite(self, edit: SectionEdit) -> None:
        what = f"{edit.title}, as a whole"
        if edit.title not in self.parts:
            self.refused.append(f"{what}: there is no such section")
        elif edit.title not in self.rewritable:
            self.refused.append(f"{what}: it is not open to a whole rewrite, edit its passages")
        elif not edit.body.strip() or edit.body.strip() == self.parts[edit.title].strip():
            self.refused.append(f"{what}: the new text is empty, or the old one")
        else:
            self.parts[edit.title] = edit.body
            self.made.append(what)

    def replace(self, edit: TextEdit) -> None:
        what = f"{edit.section}: {_short(edit.old)}"
        if edit.section not in self.parts:
            self.refused.append(f"{what}: there is no section {edit.section!r}")
            return
        found = _found(self.parts[edit.section], edit.old)
        if not edit.old.strip():
            self.refused.append(f"{what}: the old passage is empty")
        elif len(found) != 1:
            times = f"stands there {len(found)} times: give more of it" if found else "does not stand there"
            self.refused.append(f"{what}: the passage {times}")
        elif edit.new == edit.old or (edit.section == "title" and not edit.new.strip()):
            self.refused.append(f"{what}: it would change nothing, or leave no title")
        else:
            text, (start, end) = self.parts[edit.section], found[0]
            self.parts[edit.section] = text[:start] + edit.new + text[end:]
            self.made.append(f"{what} -> {_short(edit.new) or 'taken out'}")

    def caption(self, name: str, caption: str) -> None:
        if name not in self.figures:
            self.refused.append(f"caption of {name}: there is no such figure")
        elif not caption.strip() or self.captions.get(name) == caption:
            self.refused.append(f"caption of {name}: it is empty, or as it was")
        else:
            self.captions[name] = caption
            self.made.append(f"caption of {name}")

    def move(self, name: str, place: Placement) -> None:
        if name not in self.figures:
            self.refused.append(f"{name} to {place}: there is no such figure")
        elif self.placements.get(name) == place:
            self.refused.append(f"{name} to {place}: it stands there")
        else:
            self.placements[name] = place
            self.made.append(f"{name} moved to {'the text' if place == 'main' else 'the appendix'}")
            if place == "appendix":
                self.parts |= {title: text.replace(f"\\paperfigure{{{name}}}", "")
                               for title, text in self.parts.items()}


def _found(text: str, passage: str) -> list[tuple[int, int]]:
    words = passage.split()
    if not words:
        return []
    pattern = re.compile(r"(?=(" + r"\s+".join(re.escape(word) for word in words) + "))")
    return [match.span(1) for match in pattern.finditer(text)]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= SHOWN else f"{flat[:SHOWN]}...") if flat else ""


def _tidy(text: str) -> str:
    """The text without the gaps that passages left."""
    return re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
