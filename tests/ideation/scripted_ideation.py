"""A scripted world for ideation: drafts and reflections by hand, a library with given answers, a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from labwright.literature.catalogue_client import CatalogueName
from labwright.literature.lookup import LiteratureClient
from labwright.literature.works import PublishedWork, WorkQuery
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.ideation import (
    ClosestPick,
    IdeaDraft,
    IdeaInputs,
    IdeaReflectInputs,
    IdeaReflection,
    IdeaText,
)
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.paper_events import IdeaProposed, IdeationStarted
from labwright.record.ideation import FinalIdea, FoundPaper
from labwright.stages.ideation.idea_drafting import IdeationContext
from labwright.stages.ideation.ideation_steps import find_ideas
from tests.models.ideation_examples import ESTIMATE, MEANS, TEXT, TOPIC, WORK


@dataclass
class FakeCatalogue:
    """A catalogue that returns the same works to every query, and keeps the queries."""

    works: tuple[FoundPaper, ...] = (WORK,)
    asked: list[str] = field(default_factory=list[str])
    name: CatalogueName = "openalex"
    lists_retractions: bool = True

    async def search(self, query: str, limit: int) -> tuple[PublishedWork, ...]:
        self.asked.append(query)
        return tuple(
            PublishedWork(
                source=self.name,
                id=one.title,
                title=one.title,
                authors=one.authors,
                abstract=one.abstract,
                years=(one.year,) if one.year else (),
                venue=one.venue,
            )
            for one in self.works
        )

    async def find(self, wanted: WorkQuery) -> tuple[PublishedWork, ...]:
        raise AssertionError("ideation verifies no reference")


OTHERS = (
    (
        "margin_small_data",
        "Margin penalties on small training sets",
        "A margin penalty raises accuracy on small training sets over plain cross-entropy.",
    ),
    (
        "tree_depth_wine",
        "Depth limits of boosted trees under feature corruption",
        "Shallow boosted trees lose less accuracy than deep ones when features are corrupted at test time.",
    ),
    (
        "augment_rotations",
        "Rotations as augmentation for handwritten digits",
        "Rotated copies raise log loss on upright digits once the angle passes thirty degrees.",
    ),
)


def make_idea_text(number: int = 0, **changes: Any) -> IdeaText:
    """One of a few ideas that are unlike each other, with changes."""
    name, title, hypothesis = OTHERS[number]
    return TEXT.model_copy(update={"name": name, "title": title, "short_hypothesis": hypothesis, **changes})


def make_draft(idea: IdeaText, *queries: str) -> IdeaDraft:
    return IdeaDraft(idea=idea, estimate=ESTIMATE, queries=queries or ("large margin small sample",))


PICK = ClosestPick(paper=1, quote="We revisit large margins", difference="It looks at many examples, this at few.")


def reflect(inputs: IdeaReflectInputs, **changes: Any) -> IdeaReflection:
    """The draft handed back as it is, done, with the first result as the closest."""
    answer = IdeaReflection(
        thoughts="As it was.",
        closest=(PICK,) if inputs.works else (),
        idea=inputs.draft.idea,
        estimate=inputs.draft.estimate,
        done=True,
    )
    return answer.model_copy(update=changes)


@dataclass
class IdeationWorld:
    """A study by script. `model` answers by role, `log` keeps what happened."""

    answers: Mapping[str, Callable[[Any], BaseModel]]
    folder: Path
    catalogue: FakeCatalogue | None = field(default_factory=FakeCatalogue)
    rounds: int = 3
    events: Sequence[Event] = ()

    def __post_init__(self) -> None:
        self.model = ScriptedModel.from_role_functions(**self.answers)
        began = IdeationStarted(topic=TOPIC, sha256="0", means=MEANS, rounds=self.rounds, version="0", model="scripted")
        self.log = MemoryLog(list(self.events or (began,)))
        self.study = IdeationContext(
            recorder=self.log,
            literature=LiteratureClient((self.catalogue,) if self.catalogue else ()),
            folder=self.folder,
            models=Models(self.model, self.log, ModelSettings(), lambda: 0.0),
        )

    def find_ideas(self, count: int = 1) -> None:
        asyncio.run(find_ideas(self.study, count))

    @property
    def told(self) -> list[IdeaProposed]:
        """What came of each idea."""
        return list(self.log.state.ideation.proposed_ideas.values())

    @property
    def idea(self) -> FinalIdea:
        """The first idea."""
        found = self.told[0].idea
        assert found is not None, self.told[0].reason
        return found

    def inputs_of_role(self, role: str) -> list[Any]:
        return [one.inputs for one in self.model.requests if one.role.name == role]


def draft_by_number(*ideas: IdeaText) -> Callable[[IdeaInputs], IdeaDraft]:
    """Drafts by the number of the idea that is asked for."""
    return lambda inputs: make_draft(ideas[inputs.number - 1])
