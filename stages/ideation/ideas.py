"""Ideas one after the other, each a decision of a log of its own; then each as files from which a run can start.

Cut short, the same decision is taken up again: its answers and searches are found in the log, so that a kill costs the
call in flight. What `ideas.json` holds follows from the log alone. The files of an idea are task.md, idea.json,
related_work.md and proposal.md.

Source: MLR-Bench (appendix B.1): idea, literature review, proposal; here the review rests on search results alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labwright.literature.lookup import Literature
from labwright.models.client import ModelClient, Models
from labwright.models.roles.ideation import PROPOSAL, RELATED_WORK, ProposalInputs, RelatedWorkInputs
from labwright.record.events.papers import Conceived
from labwright.record.events.searching import WorkDone
from labwright.record.fold.state import RunState
from labwright.record.folder import write_file
from labwright.record.ideation import FinalIdea, FoundWork
from labwright.record.log import Recorder
from labwright.record.nouns.decisions import Work
from labwright.stages.bench import numbered
from labwright.stages.digests import lines_of
from labwright.stages.ideation.checks import claims_in, struck_out, unknown_names
from labwright.stages.ideation.drafting import IdeaDrafting, Topic, distinct


@dataclass(frozen=True)
class Study:
    """The means of an ideation. `on_idea` is called with each idea, or with why there is none."""

    recorder: Recorder
    models: Models
    literature: Literature
    folder: Path
    on_idea: Callable[[int, Conceived], None]

    @property
    def state(self) -> RunState:
        return self.recorder.state


def idea_work(number: int) -> Work:
    """The decision on idea `number`, from 1."""
    return Work(task=f"idea {number}")


async def find_ideas(study: Study, count: int) -> None:
    """Bring the ideas 1 to `count` to their ends, in this order, until one comes to nothing. Raises `ModelError`."""
    write_ideas(study)
    for number in range(1, count + 1):
        k = numbered(study.recorder, idea_work(number))
        if k in study.state.finished:
            continue
        if k not in study.state.conceived:
            earlier = [one.idea.idea for n, one in sorted(study.state.conceived.items()) if one.idea and n < k]
            study.recorder.append(
                await IdeaDrafting(
                    topic=topic_of(study.state),
                    recorder=study.recorder,
                    literature=study.literature,
                    client=study.models.at(k, 0),
                    k=k,
                    number=number,
                    earlier=tuple(earlier),
                ).conceive()
            )
        study.recorder.append(WorkDone(k=k))
        write_ideas(study)
        study.on_idea(number, study.state.conceived[k])
        if study.state.conceived[k].idea is None:
            return


def topic_of(state: RunState) -> Topic:
    """The topic as it was recorded, with what the user's documents say."""
    assert state.ideating is not None
    began = state.ideating
    return Topic(text=began.topic, means=began.means, rounds=began.rounds, context=lines_of(state.context))


def ideas_of(state: RunState) -> tuple[tuple[int, FinalIdea], ...]:
    """The ideas that there are, each with its number."""
    return tuple((number, one.idea) for number, one in outcomes_of(state) if one.idea is not None)


def outcomes_of(state: RunState) -> tuple[tuple[int, Conceived], ...]:
    """What came of each idea that was decided on, with its number."""
    tasks = {k: one.action.task for k, one in state.decisions.items() if isinstance(one.action, Work)}
    return tuple((int(tasks[k].removeprefix("idea ")), one) for k, one in sorted(state.conceived.items()))


def write_ideas(study: Study) -> None:
    """Write `ideas.json` as the log has it, whole or not at all; nothing before the first idea."""
    ideas = [idea.as_json() for _, idea in ideas_of(study.state)]
    if ideas:
        write_file(study.folder / "ideas.json", json.dumps(ideas, indent=1, ensure_ascii=False) + "\n")


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
        for step, name, text in (("literature", "related_work.md", _review), ("proposal", "proposal.md", _proposed)):
            if steps[-1] == "idea" or (step == "proposal" and step not in steps):
                continue
            k = numbered(study.recorder, Work(task=f"{step} {number}"))
            if k not in study.state.finished or not (home / name).exists():
                _write(home / name, await text(study, study.models.at(k, 0), number, idea))
            if k not in study.state.finished:
                study.recorder.append(WorkDone(k=k))


async def _review(study: Study, client: ModelClient, number: int, idea: FinalIdea) -> str:
    topic, works, complaints, answer = topic_of(study.state), works_of(study, number), tuple[str, ...](), None
    for _ in range(ROUNDS):
        answer = await client.ask(
            RELATED_WORK,
            RelatedWorkInputs(
                topic=topic.text,
                idea=idea.idea,
                works=works,
                closest=idea.closest,
                said=idea.said,
                context=topic.context,
                complaints=complaints,
            ),
        )
        text = " ".join((*(one.summary for one in answer.notes), *answer.challenges))
        complaints = (
            *(f"paper {one.paper} is none of the {len(works)}" for one in answer.notes if one.paper > len(works)),
            *_faults(text, works, topic.context),
        )
        if not complaints:
            break
    assert answer is not None
    notes = [
        f"{_named(works[one.paper - 1])}. {struck_out(one.summary)[0]}"
        for one in answer.notes
        if one.paper <= len(works)
    ]
    return _markdown(
        f"Related work: {idea.idea.title}",
        {
            "What was looked at": idea.said,
            "Papers": _listed(notes) or "None.",
            "Challenges": _listed(struck_out(one)[0] for one in answer.challenges),
        },
    )


async def _proposed(study: Study, client: ModelClient, number: int, idea: FinalIdea) -> str:
    topic, works, complaints, answer = topic_of(study.state), works_of(study, number), tuple[str, ...](), None
    review = (study.folder / f"idea-{number}" / "related_work.md").read_text(encoding="utf-8")
    for _ in range(ROUNDS):
        answer = await client.ask(
            PROPOSAL,
            ProposalInputs(
                topic=topic.text,
                idea=idea.idea,
                means=topic.means,
                estimate=idea.estimate,
                fit=idea.fit,
                said=idea.said,
                related_work=review,
                context=topic.context,
                complaints=complaints,
            ),
        )
        complaints = _faults(" ".join(answer.model_dump().values()), works, topic.context)
        if not complaints:
            break
    assert answer is not None
    parts = {name.capitalize(): struck_out(text)[0] for name, text in answer.model_dump().items()}
    unknown = [fault for fault in complaints if "names a work" in fault]
    return _markdown(idea.idea.title, {**parts, "Novelty": idea.said, "Remarks": _listed((*idea.fit.why, *unknown))})


def _write(path: Path, text: str) -> None:
    """Write a file that is not there yet: what a person changed stays as it is."""
    if not path.exists():
        write_file(path, text)


def works_of(study: Study, number: int) -> tuple[FoundWork, ...]:
    """The papers that the searches of an idea returned."""
    action = idea_work(number)
    return distinct(
        tuple(
            one.search
            for (k, _), one in sorted(study.state.looked_up.items())
            if study.state.decisions[k].action == action
        )
    )


def _faults(text: str, works: tuple[FoundWork, ...], context: tuple[str, ...]) -> tuple[str, ...]:
    return (
        *(f"{phrase!r} claims a novelty that no search can show" for phrase in claims_in(text)),
        *(
            f"{name!r} names a work that no search returned: leave it out"
            for name in unknown_names(text, works, context)
        ),
    )


def idea_text(idea: FinalIdea) -> str:
    """An idea to read."""
    one = idea.idea
    fits = "fits" if idea.fit.fits else "does not fit: " + "; ".join(idea.fit.why)
    parts = {
        "Hypothesis": one.short_hypothesis,
        "Abstract": one.abstract,
        "Experiments": _listed(one.experiments),
        "Risks and limits": _listed(one.risks),
        "Related work": one.related_work,
        "Novelty": idea.said,
        "Closest papers": _listed(f"{_named(close.work)}: {close.difference}" for close in idea.closest),
        "Feasibility": f"By its estimate it {fits}. {idea.estimate.hours:g} h in all. {idea.estimate.reason}",
        "Remarks": _listed(idea.remarks),
    }
    return _markdown(one.title, parts)


def _markdown(title: str, parts: Mapping[str, str]) -> str:
    return "\n\n".join((f"# {title}", *(f"## {name}\n\n{text}" for name, text in parts.items() if text))) + "\n"


def _listed(items: object) -> str:
    return "\n".join(f"- {' '.join(str(one).split())}" for one in items)  # pyright: ignore


def _named(work: FoundWork) -> str:
    authors = "; ".join(work.authors[:3]) + (" and others" if len(work.authors) > 3 else "")
    details = ", ".join(text for text in (authors, str(work.year or ""), work.identifier) if text)
    return f"**{work.title}** ({details or 'no authors, year or identifier'})"
