"""One idea from a draft to its end: look up, hold against what was found, reflect, and again.

At least one query is executed before an idea is final. What a program finds wrong goes back to the model with the next
reflection; what stays wrong after the last one is struck out or remarked by rule, and a repetition is drafted anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labwright.literature.lookup import Literature
from labwright.models.client import ModelClient
from labwright.models.roles.ideation import (
    IDEA,
    IDEA_REFLECT,
    ClosestPick,
    IdeaDraft,
    IdeaInputs,
    IdeaReflectInputs,
    IdeaReflection,
    IdeaText,
)
from labwright.record.events.papers import Conceived, LookedUp
from labwright.record.ideation import ClosestWork, FinalIdea, FoundWork, LiteratureSearch, Means
from labwright.record.log import Recorder
from labwright.record.nouns.idea import Idea
from labwright.review.judge.quotes import stands_in
from labwright.stages.ideation import checks

DRAFTS = 2
"""Drafts of one idea: the second where the first came to a repetition."""
MOST_SEARCHES = 8
"""Queries of one idea at most."""
LEAST_CLOSEST = 3
"""Closest papers to be named, where so many were found."""


@dataclass(frozen=True)
class Topic:
    """What ideas are found for, and what they have to fit."""

    text: str
    means: Means
    rounds: int
    context: tuple[str, ...] = ()


@dataclass
class IdeaDrafting:
    """The work on idea number `number`, decision `k`."""

    topic: Topic
    recorder: Recorder
    literature: Literature
    client: ModelClient
    k: int
    number: int
    earlier: tuple[Idea, ...]
    _searches: list[LiteratureSearch] = field(default_factory=list[LiteratureSearch])

    async def conceive(self) -> Conceived:
        """The idea, or why there is none. Raises `ModelError`."""
        complaints = list[str]()
        for _ in range(DRAFTS):
            draft = await self.client.ask(
                IDEA,
                IdeaInputs(
                    topic=self.topic.text,
                    means=self.topic.means,
                    number=self.number,
                    earlier=self.earlier,
                    context=self.topic.context,
                    complaints=tuple(complaints),
                ),
            )
            reflected = await self._reflected(draft)
            twin = self._twin(reflected.idea, reflected.alike)
            if twin is None:
                return Conceived(k=self.k, idea=self._final(reflected))
            complaints.append(
                f"your idea {reflected.idea.title!r} repeats the earlier idea {twin!r}: take up another "
                "question of the topic"
            )
        return Conceived(k=self.k, reason=f"{DRAFTS} drafts repeat earlier ideas: {complaints[-1]}")

    async def _reflected(self, draft: IdeaDraft) -> IdeaReflection:
        """The draft after its rounds. The first round has searched at least once."""
        now, closest, alike, reflected = draft, tuple[ClosestPick, ...](), "", None
        for number in range(1, self.topic.rounds + 1):
            await self._search(now.queries)
            complaints = (
                self._text_faults(now, alike) if not closest and not alike else self._faults(now, closest, alike)
            )
            reflected = await self.client.ask(
                IDEA_REFLECT,
                IdeaReflectInputs(
                    topic=self.topic.text,
                    means=self.topic.means,
                    draft=now,
                    fit=checks.fit_of(now.estimate, self.topic.means),
                    searches=tuple(one.model_copy(update={"works": ()}) for one in self._searches),
                    works=self._works,
                    closest=closest,
                    earlier=self.earlier,
                    context=self.topic.context,
                    last=number == self.topic.rounds,
                    complaints=complaints,
                ),
            )
            closest, alike = reflected.closest, reflected.alike
            now = IdeaDraft(
                idea=reflected.idea, estimate=reflected.estimate, queries=reflected.queries or draft.queries
            )
            if reflected.done and not self._faults(now, closest, alike):
                break
        assert reflected is not None
        return reflected

    async def _search(self, queries: Sequence[str]) -> None:
        """Execute the queries that were not made before; each is recorded before it is used."""
        for query in queries:
            query = " ".join(query.split())
            if len(self._searches) >= MOST_SEARCHES or query in {one.query for one in self._searches}:
                continue
            n = len(self._searches)
            known = self.recorder.state.looked_up.get((self.k, n))
            if known is None:
                known = LookedUp(k=self.k, n=n, search=await looked_up(self.literature, query))
                self.recorder.append(known)
            self._searches.append(known.search)

    @property
    def _works(self) -> tuple[FoundWork, ...]:
        return distinct(tuple(self._searches))

    def _twin(self, idea: IdeaText, alike: str) -> str | None:
        """The earlier idea that this one repeats, by its words or, in `alike`, by the model's own check."""
        return next(
            (one.name for one in self.earlier if checks.are_alike(idea, one)),
            alike if alike in {one.name for one in self.earlier} else None,
        )

    def _faults(self, draft: IdeaDraft, closest: Sequence[ClosestPick], alike: str) -> tuple[str, ...]:
        return (*self._text_faults(draft, alike), *pick_faults(closest, self._works))

    def _text_faults(self, draft: IdeaDraft, alike: str) -> tuple[str, ...]:
        idea, found = draft.idea, list[str]()
        if (twin := self._twin(idea, alike)) is not None:
            found.append(f"it repeats the earlier idea {twin!r}: change what is asked, not the words")
        found += [
            f"{phrase!r} claims a novelty that no search can show: say what is done instead"
            for phrase in checks.claims_of(idea)
        ]
        found += [
            f"{name!r} names a work that no search returned: leave it out"
            for name in checks.unknown_names(checks.named_in(idea), self._works, self.topic.context)
        ]
        needed = {one.name for one in draft.estimate.data}
        if strange := [name for name in idea.datasets if name not in needed]:
            found.append(
                f"datasets names {', '.join(map(repr, strange))}, and the estimate's data {sorted(needed)}: "
                "use the same names"
            )
        found += [
            f"{why}: change the idea or the estimate, whichever is wrong"
            for why in checks.fit_of(draft.estimate, self.topic.means).why
        ]
        return tuple(found)

    def _final(self, reflected: IdeaReflection) -> FinalIdea:
        """The idea with what is known of it; what is still wrong is struck out, or remarked."""
        works = self._works
        idea, struck = checks.without_claims(reflected.idea)
        unknown = checks.unknown_names(checks.named_in(idea), works, self.topic.context)
        remarks = [f"struck out, since it claims a novelty that was not shown: {text}" for text in struck]
        remarks += [f"named from memory, returned by no search: {name}" for name in unknown]
        remarks += [f"left out of the closest papers: {fault}" for fault in pick_faults(reflected.closest, works)]
        closest = closest_of(reflected.closest, works)
        return FinalIdea(
            idea=idea.idea,
            novelty=checks.novelty_of(self._searches, works),
            said=checks.novelty_text(self._searches, works, closest),
            queries=tuple(one.query for one in self._searches),
            closest=closest,
            estimate=reflected.estimate,
            fit=checks.fit_of(reflected.estimate, self.topic.means),
            remarks=tuple(remarks),
        )


def pick_faults(picks: Sequence[ClosestPick], works: Sequence[FoundWork]) -> tuple[str, ...]:
    """What is wrong with the closest papers that were named, one sentence each."""
    found = [f"paper {pick.paper} is none of the {len(works)} results" for pick in picks if pick.paper > len(works)]
    for pick in picks:
        if pick.paper <= len(works) and not _stands(pick, works[pick.paper - 1]):
            found.append(
                f"the quote {pick.quote!r} does not stand in the abstract of paper {pick.paper}: copy its words"
            )
    sound = len(closest_of(picks, works))
    if sound < min(LEAST_CLOSEST, len(works)):
        found.append(
            f"{sound} of the {len(works)} results are named as closest: name {min(LEAST_CLOSEST, len(works))} "
            "at least, each once"
        )
    return tuple(found)


def closest_of(picks: Sequence[ClosestPick], works: Sequence[FoundWork]) -> tuple[ClosestWork, ...]:
    """The closest papers whose difference rests on what their abstract says, each once."""
    sound = {pick.paper: pick for pick in picks if pick.paper <= len(works) and _stands(pick, works[pick.paper - 1])}
    return tuple(
        ClosestWork(work=works[pick.paper - 1], difference=pick.difference, quote=pick.quote)
        if works[pick.paper - 1].abstract
        else ClosestWork(work=works[pick.paper - 1], difference="unknown: the source gave no abstract")
        for pick in sound.values()
    )


def _stands(pick: ClosestPick, work: FoundWork) -> bool:
    return not work.abstract or stands_in(pick.quote, work.abstract)


# --- looking papers up: a query to all catalogues, and the works of many queries, each once ---------------------------


RESULTS = 10
"""Works of one query at most."""
ABSTRACT = 3000
"""Characters of an abstract that are kept."""


async def looked_up(literature: Literature, query: str) -> LiteratureSearch:
    """What the catalogues answered to a query, its texts bounded, and which of them gave no answer.

    Not guaranteed: that a search which was answered finds the work that comes closest.
    """
    answer = await literature.search(query, RESULTS)
    silent = answer.outages if answer.answered or answer.outages else ("no catalogue is asked",)
    return LiteratureSearch(
        query=query,
        answered=answer.answered,
        silent=silent,
        works=tuple(
            FoundWork(
                title=(f"{one.title}: {one.subtitle}" if one.subtitle else one.title)[:400],
                authors=one.authors[:20],
                year=one.years[0] if one.years else None,
                venue=one.venue,
                abstract=one.abstract[:ABSTRACT],
                identifier=one.identifier,
                source=one.source,
            )
            for one in answer.works
        ),
    )


def distinct(searches: tuple[LiteratureSearch, ...], most: int = 24) -> tuple[FoundWork, ...]:
    """The works of all searches, each once, in the order in which they were found; those with an abstract stand in."""
    found: dict[str, FoundWork] = {}
    for work in (work for search in searches for work in search.works):
        key = "".join(char for char in work.title.casefold() if char.isalnum())
        if key and (key not in found or (work.abstract and not found[key].abstract)):
            found[key] = work
    return tuple(found.values())[:most]
