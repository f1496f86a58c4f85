"""Write the response to the reviewers and the list of changes, next to the new version of the paper.

For each request: its passage, what was done, the registered values, where the paper has it, or why nothing was done.
The program writes everything but a few words of a model, which have no numbers, so every number is a value of the
record or in a passage that was looked up. The response ends with the changed words of the text, since the macros in the
sources hide them from line-based tools.

Limits: whether the words answer the request is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from labwright.models import roles
from labwright.models.client import ModelClient
from labwright.models.roles.paper_revision import RequestOutcome, RespondInputs, WrittenAnswer
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.estimates import find_added_replicates
from labwright.record.claims.requested_estimates import RequestedEstimate, compute_requested_estimates
from labwright.record.claims.sentences import join_names
from labwright.record.estimands import find_effect_metric, list_cells_read
from labwright.record.events.paper_events import ReviewersAnswered
from labwright.record.events.search_events import AddendumRegistered
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import hash_file, write_file
from labwright.record.schema.paper import AddendumEstimate, PaperDraft, RequestAnswer, ReviewerRequest, Section
from labwright.review.judge.paper_reader import quote_is_in
from labwright.stages.paper.figures import expand_macros
from labwright.stages.paper.latex import render_template
from labwright.stages.paper.paper_context import PaperContext
from labwright.stages.paper.typesetting import build_paper_context
from labwright.stages.run_context import RunContext, run_once

# What the record has for the requests of reviewers: measured values, refusals, or nothing but the text.


def find_addendum(state: RunState) -> AddendumRegistered | None:
    """Return the addendum of the paper's current version."""
    return next((one for one in state.search.addenda if one.version == state.paper.version), None)


def list_outcomes(state: RunState) -> tuple[RequestOutcome, ...]:
    """Return each request of the current version with what the record has for it; empty for one about the text."""
    requests, addendum = state.paper.requests, find_addendum(state)
    if requests is None:
        return ()
    return tuple(
        RequestOutcome(request=one, outcome=" ".join(_describe_outcome(state, addendum, one)) if addendum else "")
        for one in requests.requests
    )


def _describe_outcome(state: RunState, addendum: AddendumRegistered, request: ReviewerRequest) -> Iterator[str]:
    """Yield sentences on what was measured for a request, and why not."""
    if why := addendum.refused.get(request.id):
        yield f"Not measured: {why.rstrip('.')}."
    results = {one.ablation.name: one for one in collect_ablation_results(state) if one.by == "addendum"}
    for item in addendum.items:
        if item.request == request.id and request.id not in addendum.refused:
            found = results[item.ablation.name]
            if found.outcome == "measured":
                yield f"Measured as {', '.join(found.arms)} with {found.replicates} seeds, as an addendum to the plan."
            else:
                fate = "failed" if found.outcome == "failed" else "was not run"
                yield f"The arm {item.ablation.name} {fate}: {found.why}."
    wanted = [one for one in addendum.estimates if one.request == request.id]
    found, faults = compute_requested_estimates(state, wanted)
    if any(one.seeds == "added" for one in wanted):
        yield f"{len(find_added_replicates(state))} of {len(addendum.seeds)} further seeds worked."
    elif found and not any(one.request == request.id for one in addendum.items):
        added, plan = {arm for one in results.values() for arm in one.arms}, found[0].plan
        cells = (
            cell
            for one in found
            for cell in list_cells_read(one.request.estimand, plan, find_effect_metric(one.found.effect, plan))
        )
        names = dict.fromkeys(plan.name_arm(cell.arm) for cell in cells if cell.arm in added)
        those = f"of {join_names([*names])}, which the addendum added" if names else "that were measured before"
        yield f"Estimated over cells {those}."
    yield from (f"{fault}." for fault in faults)


def _answers(one: RequestedEstimate, request: str) -> bool:
    return isinstance(one.request, AddendumEstimate) and one.request.request == request


def describe_requests(state: RunState) -> tuple[str, ...]:
    """Return one line for each request of the current version, for the reflector's prompt."""
    addendum, lines = find_addendum(state), list[str]()
    estimates = compute_requested_estimates(state, addendum.estimates if addendum is not None else ())[0]
    for one in list_outcomes(state):
        what = f"A reviewer asks ({one.request.kind}): {one.request.request} In the review: {one.request.quote!r}."
        if one.outcome:
            keys = ", ".join(each.key for each in estimates if _answers(each, one.request.id))
            lines.append(
                f"{what} {one.outcome}{f' The program prints its estimates in a table: {keys}.' if keys else ''} Say "
                "what they show, even if it weakens a claim, and report what was not measured as a limitation where a "
                "reader would miss it."
            )
        else:
            lines.append(f"{what} Nothing was measured for it: change the text where the reviewer is right.")
    return tuple(lines)


NO_ANSWER = "the model gave no usable answer"


class TextChange(NamedTuple):
    """A part of the text that differs, as readers see it: words with their mark (' ' kept, '-' removed, '+' added)."""

    section: str
    words: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        parts = {"-": "[removed: {}]", "+": "[added: {}]", " ": "{}"}
        return f"{self.section}: " + " ".join(parts[mark].format(text) for mark, text in self.words)


async def respond(context: RunContext) -> None:
    """Record the response to the reviewers of the current version, in Markdown, with its files."""

    async def work(client: ModelClient) -> None:
        if context.state.paper.answered is not None:
            return
        material = build_paper_context(context, client.decision)
        before, after = read_versions(material)
        outcomes, changes = _list_outcomes(material), list_changes(before, after)
        given = await client.ask_or_none(
            roles.RESPOND,
            RespondInputs(draft=after, outcomes=outcomes, changes=tuple(map(str, changes))),
            instead="the response has only what the record says",
        )
        answers = {one.request: one for one in given.answers} if given is not None else {}
        checked = tuple(_check_answer(one.request.id, answers.get(one.request.id), after) for one in outcomes)
        why = "" if given is not None else NO_ANSWER
        paper = context.state.paper
        values = {
            "title": after.title,
            "version": paper.version,
            "rows": [
                {
                    "request": one.request,
                    "review": paper.reviews[one.request.review - 1].name,
                    "lines": one.values,
                    "answer": answer,
                    "done": one.outcome or describe_text_change(before, answer),
                }
                for one, answer in zip(outcomes, checked, strict=True)
            ],
            "addendum": find_addendum(context.state),
            "dropped": paper.requests.dropped if paper.requests is not None else (),
            "changes": changes,
            "why": why,
        }
        path = context.folder.paper_folder / "response.md"
        write_file(path, render_template("response.md.jinja", values) + "\n")
        files = {str(path.relative_to(context.folder.root)): hash_file(path)}
        context.recorder.append(ReviewersAnswered(answers=checked, why=why, files=files))

    await run_once(context, context.state.paper.format_task("respond"), work)


def _check_answer(request: str, one: WrittenAnswer | None, paper: PaperDraft) -> RequestAnswer:
    """Return the answer to a request; a passage that no part of the paper has is dropped."""
    if one is None:
        return RequestAnswer(request=request)
    parts = {"abstract": paper.abstract, **{each.title: each.body for each in paper.sections}}
    section = next((name for name, text in parts.items() if one.quote and quote_is_in(one.quote, text)), "")
    return RequestAnswer(request=request, answer=one.answer, quote=one.quote if section else "", section=section)


def describe_text_change(before: PaperDraft, answer: RequestAnswer) -> str:
    """Say whether the passage that answers a request is new; `before` is the text that was reviewed."""
    if not answer.quote:
        return "Nothing was measured; see the response."
    same = any(quote_is_in(answer.quote, text) for text in (before.abstract, *(one.body for one in before.sections)))
    return "The passage below is unchanged." if same else "The text was changed."


def _list_outcomes(material: PaperContext) -> tuple[RequestOutcome, ...]:
    """Return each request with what the record has for it, and the values of its registered estimates."""
    found = list_outcomes(material.state)
    return tuple(one.model_copy(update={"values": tuple(_list_values(material, one))}) for one in found)


def _list_values(material: PaperContext, outcome: RequestOutcome) -> Iterator[str]:
    """Yield the registered estimates of a request, one line each."""
    addendum = find_addendum(material.state)
    for one, line in zip(material.estimates, material.estimate_lines, strict=True):
        if addendum is not None and one.request in addendum.estimates and _answers(one, outcome.request.id):
            purpose = f"{one.request.purpose.rstrip('.')} ({line.note.rpartition('(')[2].rstrip(')')})"
            interval = f", 95% interval {line.forms['ci']}" if "ci" in line.forms else ""
            yield f"{purpose[:1].upper()}{purpose[1:]}. {line.subject}: {line.forms.get('mean', 'no value')}{interval}."


# --- changes of the text ----------------------------------------------------------------------------------------------


def read_versions(material: PaperContext) -> tuple[PaperDraft, PaperDraft]:
    """Return the text that was reviewed and the new one, as readers see them."""
    paper = material.state.paper
    before, after = paper.reviewed_draft, paper.find_released_draft()
    assert before is not None and after is not None

    def read(draft: PaperDraft) -> PaperDraft:
        def plain(text: str) -> str:
            parts = (" ".join(expand_macros(part, material.evidence).split()) for part in text.split("\n\n"))
            return "\n\n".join(filter(None, parts))

        sections = tuple(Section(title=plain(one.title), body=plain(one.body)) for one in draft.sections)
        return PaperDraft(title=plain(draft.title), abstract=plain(draft.abstract), sections=sections)

    return read(before), read(after)


def list_changes(before: PaperDraft, after: PaperDraft) -> tuple[TextChange, ...]:
    """Return the changed parts in the order of the new text, removed sections last."""
    old, new = (
        {"Title": draft.title, "Abstract": draft.abstract} | {one.title: one.body for one in draft.sections}
        for draft in (before, after)
    )
    changes = (TextChange(name, _compare_words(old.get(name, ""), new.get(name, ""))) for name in {**new, **old})
    return tuple(one for one in changes if any(mark != " " for mark, _ in one.words))


def _compare_words(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return runs of words with their marks; long runs of equal words are shortened."""
    first, second, found = old.split(), new.split(), list[tuple[str, str]]()
    for tag, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag == "equal":
            same = first[a:b]
            found.append((" ", " ".join(same if len(same) <= 24 else [*same[:10], "[...]", *same[-10:]])))
        else:
            found += [(mark, " ".join(words)) for mark, words in (("-", first[a:b]), ("+", second[c:d])) if words]
    return tuple(found)
