"""The steps between an idea and a run, each a file and each a start: task.md, idea.json, related_work.md, proposal.md.

Source: MLR-Bench (appendix B.1): idea, literature review, proposal; here the review rests on search results alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from models.door import Desk
from models.ideation import Proposal, ProposalInputs, RelatedWork, RelatedWorkInputs
from record.events.searching import WorkDone
from record.folder import write_file
from record.ideation import FinalIdea, FoundWork
from record.nouns.decisions import Work
from stages.ideation.ideas import Study, idea_work, ideas_of, numbered, topic_of
from stages.ideation.looking_up import distinct
from stages.ideation.novelty import claims_in, struck_out, unknown_names

Step = Literal["idea", "literature", "proposal"]
ROUNDS = 2
"""Tries at a review and at a proposal: the second where a program found something wrong with the first."""


async def write_up(study: Study, steps: tuple[Step, ...]) -> None:
    """Write the steps of every idea, each a decision of its own; a file that is there stays. Raises `ModelError`."""
    for number, idea in ideas_of(study.state):
        home = study.folder / f"idea-{number}"
        _write(home / "task.md", topic_of(study.state).text)
        _write(home / "idea.json", json.dumps(idea.as_json(), indent=1, ensure_ascii=False) + "\n")
        _write(home / "idea.md", idea_text(idea))
        if steps[-1] != "idea":
            await _literature(study, number, idea, home)
        if "proposal" in steps:
            await _proposal(study, number, idea, home)


async def _literature(study: Study, number: int, idea: FinalIdea, home: Path) -> None:
    k = numbered(study.recorder, Work(task=f"literature {number}"))
    if k in study.state.finished and (home / "related_work.md").exists():
        return
    works = works_of(study, number)
    review = await _review(study, study.models.at(k, 0), idea, works)
    _write(home / "related_work.md", review_text(idea, review, works))
    _done(study, k)


async def _review(study: Study, desk: Desk, idea: FinalIdea, works: tuple[FoundWork, ...]) -> RelatedWork:
    topic, complaints = topic_of(study.state), tuple[str, ...]()
    answer = None
    for _ in range(ROUNDS):
        answer = await desk.ask("related_work", RelatedWorkInputs(
            topic=topic.text, idea=idea.idea, works=works, closest=idea.closest, said=idea.said, context=topic.context,
            complaints=complaints), RelatedWork)
        text = " ".join((*(one.summary for one in answer.notes), *answer.challenges))
        complaints = (*(f"paper {one.paper} is none of the {len(works)}" for one in answer.notes
                        if one.paper > len(works)), *_faults(text, works, topic.context))
        if not complaints:
            break
    assert answer is not None
    return answer


async def _proposal(study: Study, number: int, idea: FinalIdea, home: Path) -> None:
    k = numbered(study.recorder, Work(task=f"proposal {number}"))
    if k in study.state.finished and (home / "proposal.md").exists():
        return
    desk, topic, complaints = study.models.at(k, 0), topic_of(study.state), tuple[str, ...]()
    works, answer = works_of(study, number), None
    for _ in range(ROUNDS):
        answer = await desk.ask("proposal", ProposalInputs(
            topic=topic.text, idea=idea.idea, means=topic.means, estimate=idea.estimate, fit=idea.fit, said=idea.said,
            related_work=(home / "related_work.md").read_text(encoding="utf-8"), context=topic.context,
            complaints=complaints), Proposal)
        complaints = _faults(" ".join(answer.model_dump().values()), works, topic.context)
        if not complaints:
            break
    assert answer is not None
    _write(home / "proposal.md", proposal_text(idea, answer, complaints))
    _done(study, k)


def _write(path: Path, text: str) -> None:
    """Write a file that is not there yet: what a person changed stays as it is."""
    if not path.exists():
        write_file(path, text)


def _done(study: Study, k: int) -> None:
    if k not in study.state.finished:
        study.recorder.append(WorkDone(k=k))


def works_of(study: Study, number: int) -> tuple[FoundWork, ...]:
    """The papers that the searches of an idea returned."""
    action = idea_work(number)
    return distinct(tuple(one.search for (k, _), one in sorted(study.state.looked_up.items())
                          if study.state.decisions[k].action == action))


def _faults(text: str, works: tuple[FoundWork, ...], context: tuple[str, ...]) -> tuple[str, ...]:
    return (*(f"{phrase!r} claims a novelty that no search can show" for phrase in claims_in(text)),
            *(f"{name!r} names a work that no search returned: leave it out"
              for name in unknown_names(text, works, context)))


# --- as Markdown ----------------------------------------------------------------------------------------------------


def idea_text(idea: FinalIdea) -> str:
    """An idea to read."""
    one = idea.idea
    fits = "fits" if idea.fit.fits else "does not fit: " + "; ".join(idea.fit.why)
    parts = {
        "Hypothesis": one.short_hypothesis, "Abstract": one.abstract, "Experiments": _listed(one.experiments),
        "Risks and limits": _listed(one.risks),
        "Related work": one.related_work, "Novelty": idea.said,
        "Closest papers": _listed(f"{_named(close.work)}: {close.difference}" for close in idea.closest),
        "Feasibility": f"By its estimate it {fits}. {idea.estimate.hours:g} h in all. {idea.estimate.reason}",
        "Remarks": _listed(idea.remarks)}
    return _markdown(one.title, parts)


def review_text(idea: FinalIdea, review: RelatedWork, works: tuple[FoundWork, ...]) -> str:
    """A review to read: the papers by name, from the results; sentences that claim novelty are left out."""
    notes = [f"{_named(works[one.paper - 1])}. {struck_out(one.summary)[0]}" for one in review.notes
             if one.paper <= len(works)]
    return _markdown(f"Related work: {idea.idea.title}", {
        "What was looked at": idea.said, "Papers": _listed(notes) or "None.",
        "Challenges": _listed(struck_out(one)[0] for one in review.challenges)})


def proposal_text(idea: FinalIdea, proposal: Proposal, faults: tuple[str, ...]) -> str:
    """A proposal to read, to edit and to run from (`scientist run --idea proposal.md`)."""
    parts = {name.capitalize(): struck_out(text)[0] for name, text in proposal.model_dump().items()}
    unknown = [fault for fault in faults if "names a work" in fault]
    return _markdown(idea.idea.title, {
        **parts, "Novelty": idea.said, "Remarks": _listed((*idea.fit.why, *unknown))})


def _markdown(title: str, parts: Mapping[str, str]) -> str:
    return "\n\n".join((f"# {title}", *(f"## {name}\n\n{text}" for name, text in parts.items() if text))) + "\n"


def _listed(items: object) -> str:
    return "\n".join(f"- {' '.join(str(one).split())}" for one in items)  # pyright: ignore


def _named(work: FoundWork) -> str:
    authors = "; ".join(work.authors[:3]) + (" and others" if len(work.authors) > 3 else "")
    told = ", ".join(text for text in (authors, str(work.year or ""), work.identifier) if text)
    return f"**{work.title}** ({told or 'no authors, year or identifier'})"
