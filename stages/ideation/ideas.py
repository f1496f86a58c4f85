"""Ideas one after the other, each a decision of a log of its own; `ideas.json` is written anew after each.

Cut short, the same decision is taken up again: its answers and searches are found in the log, so that a kill costs the
call in flight. What the file holds follows from the log alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from models.door import Models
from models.ideation import EarlierIdea
from record.events.ideating import Conceived
from record.events.searching import Decided, WorkDone
from record.fold.state import RunState
from record.folder import write_file
from record.ideation import FinalIdea
from record.log import Recorder
from record.nouns.decisions import Work
from stages.context.lines import lines_of
from stages.ideation.conceiving import Conceiving, Topic
from stages.ideation.looking_up import Library


@dataclass(frozen=True)
class Study:
    """The means of an ideation. `told` is called with each idea, or with why there is none."""

    recorder: Recorder
    models: Models
    library: Library
    folder: Path
    told: Callable[[int, Conceived], None]

    @property
    def state(self) -> RunState:
        return self.recorder.state


def idea_work(number: int) -> Work:
    """The decision on idea `number`, from 1."""
    return Work(task=f"idea {number}")


def decision_on(state: RunState, work: Work) -> int | None:
    """The number of a decision that was made; None before it is."""
    return next((k for k, one in state.decisions.items() if one.action == work), None)


def numbered(recorder: Recorder, work: Work) -> int:
    """The number of a decision: its own if it was made before, else the next one."""
    k = decision_on(recorder.state, work)
    if k is None:
        k = recorder.state.last_decision + 1
        recorder.append(Decided(k=k, action=work))
    return k


async def find_ideas(study: Study, count: int) -> None:
    """Bring the ideas 1 to `count` to their ends, in this order, until one comes to nothing. Raises `ModelError`."""
    write_ideas(study)
    for number in range(1, count + 1):
        k = numbered(study.recorder, idea_work(number))
        if k in study.state.finished:
            continue
        if k not in study.state.conceived:
            study.recorder.append(await _conceived(study, k, number))
        study.recorder.append(WorkDone(k=k))
        write_ideas(study)
        study.told(number, study.state.conceived[k])
        if study.state.conceived[k].idea is None:
            return


async def _conceived(study: Study, k: int, number: int) -> Conceived:
    return await Conceiving(
        topic=topic_of(study.state), recorder=study.recorder, library=study.library, desk=study.models.at(k, 0), k=k,
        number=number, earlier=earlier_than(study.state, k)).conceive()


def topic_of(state: RunState) -> Topic:
    """The topic as it was recorded, with what the user's documents say."""
    assert state.ideating is not None
    began = state.ideating
    return Topic(text=began.topic, means=began.means, rounds=began.rounds, context=lines_of(state.context))


def earlier_than(state: RunState, k: int) -> tuple[EarlierIdea, ...]:
    """The ideas of the decisions before k, which no other may repeat."""
    return tuple(EarlierIdea(name=one.idea.idea.name, title=one.idea.idea.title,
                             short_hypothesis=one.idea.idea.short_hypothesis)
                 for number, one in sorted(state.conceived.items()) if number < k and one.idea is not None)


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
