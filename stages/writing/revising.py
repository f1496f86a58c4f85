"""The reflector: targeted edits of a draft, in bounded rounds, each held against the best version before it.

A round after which the checks find more than before is taken back: the next one starts from the best version again, and
is told what was tried. Every round is recorded, and so are edits that could not be made.

What it does not guarantee: that a version in which the checks find as little as in another reads better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from models.door import Desk
from models.errors import BudgetSpent
from models.roles import ClaimLine, Comparison, ReflectInputs, Reflection, Round, WriteInputs
from record.events.papers import Drafted
from stages.bench import Bench, do_work
from stages.paper.editing import Edited, edited
from stages.paper.lengths import lengths
from stages.writing.citing import chosen_in
from stages.writing.looking import look_at_figures
from stages.writing.manuscript import write_inputs
from stages.writing.work import best_of, counted, drafted, material_of, rank

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
            answer = await desk.usable("reflect", reflect_inputs(bench, before, desk.decision, news=news), Reflection,
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
