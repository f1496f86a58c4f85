"""Find ideas in sequence, each as one decision in the ideation's own log, and write files from which a run can start.

An interrupted decision is resumed with its recorded answers and searches, so that a kill costs only the call in flight.
`ideas.json` is derived from the log alone. The files of an idea are task.md, idea.json, idea.md, related_work.md and
proposal.md.

Source: MLR-Bench (appendix B.1): idea, literature review, proposal; here the review is based on search results alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel

from labwright.models.client import ModelClient
from labwright.models.roles.ideation import PROPOSAL, RELATED_WORK, ProposalInputs, RelatedWork, RelatedWorkInputs
from labwright.models.roles.role import Role
from labwright.record.events.paper_events import IdeaProposed
from labwright.record.events.search_events import TaskDone
from labwright.record.ideation import FinalIdea, FoundPaper
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import write_file
from labwright.record.schema.decisions import RunTask
from labwright.stages.ideation.idea_checks import find_text_faults, remove_claim_sentences
from labwright.stages.ideation.idea_drafting import IdeaDrafter, IdeationContext, deduplicate_works
from labwright.stages.run_context import decision_number

A = TypeVar("A", bound=BaseModel)
In = TypeVar("In", bound=BaseModel)


def build_idea_work(number: int) -> RunTask:
    """Return the task of idea `number`, counted from 1."""
    return RunTask(task=f"idea {number}")


async def find_ideas(study: IdeationContext, count: int) -> None:
    """Develop ideas 1 to `count` in order, stopping at the first that fails. Raises `ModelError`."""
    write_ideas(study)
    for number in range(1, count + 1):
        decision_id = decision_number(study.recorder, build_idea_work(number))
        if decision_id in study.state.finished_decisions:
            continue
        if decision_id not in study.state.ideation.proposed_ideas:
            client = study.models.make_client(decision_id, 0)
            study.recorder.append(await IdeaDrafter(study, client, number).propose_idea())
        study.recorder.append(TaskDone(k=decision_id))
        write_ideas(study)
        if study.state.ideation.proposed_ideas[decision_id].idea is None:
            return


def list_ideas(state: RunState) -> tuple[tuple[int, FinalIdea], ...]:
    """Return the completed ideas, each with its number."""
    return tuple((number, one.idea) for number, one in list_outcomes(state) if one.idea is not None)


def list_outcomes(state: RunState) -> tuple[tuple[int, IdeaProposed], ...]:
    """Return the outcome of each idea that was decided on, with its number."""
    return tuple(
        (int(decided.action.task.removeprefix("idea ")), state.ideation.proposed_ideas[k])
        for k, decided in sorted(state.decisions.items())
        if isinstance(decided.action, RunTask) and k in state.ideation.proposed_ideas
    )


def write_ideas(study: IdeationContext) -> None:
    """Write `ideas.json` from the log, atomically; nothing before the first idea."""
    ideas = [idea.to_json() for _, idea in list_ideas(study.state)]
    if ideas:
        write_file(study.folder / "ideas.json", json.dumps(ideas, indent=1, ensure_ascii=False) + "\n")


WriteUpStep = Literal["idea", "literature", "proposal"]


async def write_up(study: IdeationContext, steps: tuple[WriteUpStep, ...]) -> None:
    """Write the files of every idea, each step as its own decision; existing files are kept. Raises `ModelError`."""
    for number, idea in list_ideas(study.state):
        home = study.folder / f"idea-{number}"
        _write_new_file(home / "task.md", study.started.topic)
        _write_new_file(home / "idea.json", json.dumps(idea.to_json(), indent=1, ensure_ascii=False) + "\n")
        _write_new_file(home / "idea.md", format_idea(idea))
        for step, name, write_step in (
            ("literature", "related_work.md", _write_review),
            ("proposal", "proposal.md", _write_proposal),
        ):
            if steps[-1] == "idea" or (step == "proposal" and step not in steps):
                continue
            decision_id = decision_number(study.recorder, RunTask(task=f"{step} {number}"))
            if decision_id not in study.state.finished_decisions or not (home / name).exists():
                _write_new_file(
                    home / name, await write_step(study, study.models.make_client(decision_id, 0), number, idea)
                )
            if decision_id not in study.state.finished_decisions:
                study.recorder.append(TaskDone(k=decision_id))


async def _ask_twice(
    client: ModelClient, role: Role[In, A], inputs: In, find_faults: Callable[[A], tuple[str, ...]]
) -> tuple[A, tuple[str, ...]]:
    """Return an answer, corrected once if the program finds faults, and the faults that remain. Raises `ModelError`."""
    answer = await client.ask(role, inputs)
    if faults := find_faults(answer):
        answer = await client.ask(role, inputs.model_copy(update={"complaints": faults}))
        faults = find_faults(answer)
    return answer, faults


async def _write_review(study: IdeationContext, client: ModelClient, number: int, idea: FinalIdea) -> str:
    works = list_found_works(study, number)

    def find_faults(answer: RelatedWork) -> tuple[str, ...]:
        unknown = [one.paper for one in answer.notes if one.paper > len(works)]
        text = " ".join((*(one.summary for one in answer.notes), *answer.challenges))
        return (
            *(f"paper {paper} is not among the {len(works)} papers" for paper in unknown),
            *find_text_faults(text, works, study.statements),
        )

    inputs = RelatedWorkInputs(
        topic=study.started.topic,
        idea=idea.idea,
        works=works,
        closest=idea.closest,
        said=idea.novelty_statement,
        context=study.statements,
    )
    answer, _ = await _ask_twice(client, RELATED_WORK, inputs, find_faults)
    notes = [
        f"{_format_work(works[one.paper - 1])}. {remove_claim_sentences(one.summary)[0]}"
        for one in answer.notes
        if one.paper <= len(works)
    ]
    return _format_markdown(
        f"Related work: {idea.idea.title}",
        {
            "Search": idea.novelty_statement,
            "Papers": _format_list(notes) or "None.",
            "Challenges": _format_list(remove_claim_sentences(one)[0] for one in answer.challenges),
        },
    )


async def _write_proposal(study: IdeationContext, client: ModelClient, number: int, idea: FinalIdea) -> str:
    works = list_found_works(study, number)
    inputs = ProposalInputs(
        topic=study.started.topic,
        idea=idea.idea,
        means=study.started.means,
        estimate=idea.estimate,
        fit=idea.fit,
        said=idea.novelty_statement,
        related_work=(study.folder / f"idea-{number}" / "related_work.md").read_text(encoding="utf-8"),
        context=study.statements,
    )
    answer, faults = await _ask_twice(
        client,
        PROPOSAL,
        inputs,
        lambda answer: find_text_faults(" ".join(answer.model_dump().values()), works, study.statements),
    )
    parts = {name.capitalize(): remove_claim_sentences(text)[0] for name, text in answer.model_dump().items()}
    unknown = [fault for fault in faults if "names a work" in fault]
    return _format_markdown(
        idea.idea.title,
        {**parts, "Novelty": idea.novelty_statement, "Remarks": _format_list((*idea.fit.why, *unknown))},
    )


def _write_new_file(path: Path, text: str) -> None:
    """Write a file unless it exists, so that changes by the user are kept."""
    if not path.exists():
        write_file(path, text)


def list_found_works(study: IdeationContext, number: int) -> tuple[FoundPaper, ...]:
    """Return the papers that the searches of an idea found."""
    action = build_idea_work(number)
    return deduplicate_works(
        tuple(
            one.search
            for (decision_id, _), one in sorted(study.state.ideation.literature_searches.items())
            if study.state.decisions[decision_id].action == action
        )
    )


def format_idea(idea: FinalIdea) -> str:
    """Format an idea as Markdown."""
    text = idea.idea
    fits = "fits" if idea.fit.fits else "does not fit: " + "; ".join(idea.fit.why)
    parts = {
        "Hypothesis": text.short_hypothesis,
        "Abstract": text.abstract,
        "Experiments": _format_list(text.experiments),
        "Risks and limits": _format_list(text.risks),
        "Related work": text.related_work,
        "Novelty": idea.novelty_statement,
        "Closest papers": _format_list(f"{_format_work(close.work)}: {close.difference}" for close in idea.closest),
        "Feasibility": f"By its estimate, it {fits}. Total: {idea.estimate.hours:g} h. {idea.estimate.reason}",
        "Follows": _format_list(
            f"{found.quote} (`{found.key}` of {idea.origin.run}). {why}" for found, why in idea.origin.reasons
        )
        if idea.origin is not None
        else "",
        "Remarks": _format_list(idea.remarks),
    }
    return _format_markdown(text.title, parts)


def _format_markdown(title: str, parts: Mapping[str, str]) -> str:
    return "\n\n".join((f"# {title}", *(f"## {name}\n\n{text}" for name, text in parts.items() if text))) + "\n"


def _format_list(items: object) -> str:
    return "\n".join(f"- {' '.join(str(one).split())}" for one in items)  # pyrefly: ignore


def _format_work(work: FoundPaper) -> str:
    authors = "; ".join(work.authors[:3]) + (" and others" if len(work.authors) > 3 else "")
    details = ", ".join(text for text in (authors, str(work.year or ""), work.identifier) if text)
    return f"**{work.title}** ({details or 'no authors, year or identifier'})"
