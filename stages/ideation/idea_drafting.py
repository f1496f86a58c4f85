"""Develop one idea: draft it, search the literature, compare, reflect, and repeat.

At least one query is executed before an idea is final. Faults found by the program go back to the model with the next
reflection; faults left after the last reflection are removed or noted by rule, and a repeated idea is drafted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labwright.literature.lookup import LiteratureClient
from labwright.literature.works import build_title_key
from labwright.models.client import ModelClient, Models
from labwright.models.roles.ideation import (
    IDEA,
    IDEA_MATCH,
    IDEA_REFLECT,
    ClosestPick,
    IdeaDraft,
    IdeaInputs,
    IdeaMatchInputs,
    IdeaReflectInputs,
    IdeaReflection,
    IdeaText,
)
from labwright.record.claims.open_questions import hash_idea
from labwright.record.event_log import Recorder
from labwright.record.events.paper_events import IdeaProposed, IdeationStarted, LiteratureSearched
from labwright.record.ideation import ClosestWork, FinalIdea, FoundPaper, IdeaOrigin, LiteratureSearch
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.idea import Idea
from labwright.review.judge.paper_reader import quote_is_in
from labwright.stages.document_summaries import format_statements
from labwright.stages.ideation import idea_checks

MAX_DRAFTS = 2
"""Maximum number of drafts of one idea: the second replaces a repetition of an earlier idea."""
MAX_SEARCHES = 8
"""Maximum number of queries per idea."""
MIN_CLOSEST_WORKS = 3
"""Minimum number of closest papers to name, if so many were found."""


@dataclass(frozen=True)
class IdeationContext:
    """Everything that an ideation needs."""

    recorder: Recorder
    models: Models
    literature: LiteratureClient
    folder: Path

    @property
    def state(self) -> RunState:
        return self.recorder.state

    @property
    def started(self) -> IdeationStarted:
        """The recorded topic and the resources that ideas must fit."""
        assert self.state.ideation.started is not None
        return self.state.ideation.started

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements of the user's documents."""
        return format_statements(self.state.paper.context)


@dataclass
class IdeaDrafter:
    """The work on idea `number`, as the decision of `client`."""

    study: IdeationContext
    client: ModelClient
    number: int
    _searches: list[LiteratureSearch] = field(default_factory=list[LiteratureSearch])

    @property
    def _earlier(self) -> tuple[Idea, ...]:
        """The ideas found before this one."""
        proposed = sorted(self.study.state.ideation.proposed_ideas.items())
        return tuple(one.idea.idea for k, one in proposed if one.idea and k < self.client.decision)

    @property
    def _known(self) -> dict[str, Any]:
        """Inputs shared by drafts and reflections."""
        started = self.study.started
        return {
            "topic": started.topic,
            "means": started.means,
            "study": started.study,
            "context": self.study.statements,
            "earlier": self._earlier,
            "studies": self.study.state.list_earlier_studies(),
        }

    async def propose_idea(self) -> IdeaProposed:
        """Return the idea, or the reason for having none. Raises `ModelError`."""
        complaints = list[str]()
        for _ in range(MAX_DRAFTS):
            draft = await self.client.ask(
                IDEA, IdeaInputs(**self._known, number=self.number, complaints=tuple(complaints))
            )
            reflected = await self._reflect(draft)
            twin = self._find_duplicate(reflected.idea, reflected.alike)
            repeated = f"the earlier idea {twin!r}" if twin is not None else await self._find_settled(reflected.idea)
            if not repeated:
                return IdeaProposed(k=self.client.decision, idea=self._finish(reflected))
            complaints.append(
                f"your idea {reflected.idea.title!r} repeats {repeated}: choose another question of the topic"
            )
        return IdeaProposed(
            k=self.client.decision, reason=f"{MAX_DRAFTS} drafts repeat earlier ideas: {complaints[-1]}"
        )

    async def _find_settled(self, idea: IdeaText) -> str:
        """Return the earlier run that settled the question of an idea, and why; empty if none did.

        Whether the texts are the same is computed; whether two texts ask the same question is read by a model.
        """
        settled = {one.id: one for one in self.study.state.list_earlier_studies() if one.is_settled}
        sha256 = hash_idea(idea.idea)
        same = next((one for one in settled.values() if one.idea_sha256 == sha256), None)
        why = "it has the same title and hypothesis"
        if same is None and settled:
            inputs = IdeaMatchInputs(idea=idea.idea, studies=tuple(settled.values()))
            answer = await self.client.ask_or_none(IDEA_MATCH, inputs, instead="the idea counts as another question")
            same, why = (settled.get(answer.same), answer.reason) if answer is not None else (None, "")
        if same is None:
            return ""
        outcome = same.failed or ", ".join(f"{one.key} {one.verdict}" for one in same.verdicts)
        return f"an earlier run ({same.run}, record {same.id}: {outcome}; {why.rstrip('. ')})"

    async def _reflect(self, draft: IdeaDraft) -> IdeaReflection:
        """Return the draft after all reflection rounds; each round searches first."""
        now, closest, alike, reflected = draft, tuple[ClosestPick, ...](), "", None
        for number in range(1, self.study.started.rounds + 1):
            await self._search(now.queries)
            is_first = not closest and not alike
            complaints = self._find_text_faults(now, alike) if is_first else self._find_faults(now, closest, alike)
            inputs = IdeaReflectInputs(
                **self._known,
                draft=now,
                fit=idea_checks.check_fit(now.estimate, self.study.started.means),
                searches=tuple(one.model_copy(update={"works": ()}) for one in self._searches),
                works=self._works,
                closest=closest,
                last=number == self.study.started.rounds,
                complaints=complaints,
            )
            reflected = await self.client.ask(IDEA_REFLECT, inputs)
            closest, alike = reflected.closest, reflected.alike
            now = IdeaDraft(
                idea=reflected.idea,
                estimate=reflected.estimate,
                queries=reflected.queries or draft.queries,
                reasons=reflected.reasons,
            )
            if reflected.done and not self._find_faults(now, closest, alike):
                break
        assert reflected is not None
        return reflected

    async def _search(self, queries: Sequence[str]) -> None:
        """Execute new queries; each search is recorded before its results are used."""
        for query in queries:
            query = " ".join(query.split())
            if len(self._searches) >= MAX_SEARCHES or query in {one.query for one in self._searches}:
                continue
            n = len(self._searches)
            recorded = self.study.state.ideation.literature_searches.get((self.client.decision, n))
            if recorded is None:
                found = await search_literature(self.study.literature, query)
                recorded = LiteratureSearched(k=self.client.decision, n=n, search=found)
                self.study.recorder.append(recorded)
            self._searches.append(recorded.search)

    @property
    def _works(self) -> tuple[FoundPaper, ...]:
        return deduplicate_works(tuple(self._searches))

    def _find_duplicate(self, idea: IdeaText, alike: str) -> str | None:
        """Return the earlier idea that this one repeats, by its words or by the model's own check (`alike`)."""
        return next(
            (one.name for one in self._earlier if idea_checks.are_alike(idea, one)),
            alike if alike in {one.name for one in self._earlier} else None,
        )

    def _find_faults(self, draft: IdeaDraft, closest: Sequence[ClosestPick], alike: str) -> tuple[str, ...]:
        return (*self._find_text_faults(draft, alike), *find_pick_faults(closest, self._works))

    def _find_text_faults(self, draft: IdeaDraft, alike: str) -> tuple[str, ...]:
        idea, faults = draft.idea, list[str]()
        if (twin := self._find_duplicate(idea, alike)) is not None:
            faults.append(f"it repeats the earlier idea {twin!r}: change the question, not the wording")
        faults += idea_checks.find_text_faults(idea_checks.join_prose(idea), self._works, self.study.statements)
        needed = {one.name for one in draft.estimate.data}
        if unlisted := [name for name in idea.datasets if name not in needed]:
            faults.append(
                f"`datasets` names {', '.join(map(repr, unlisted))}, but the estimate lists {sorted(needed)}: "
                "use the same names"
            )
        misfits = idea_checks.check_fit(draft.estimate, self.study.started.means).why
        return (*faults, *(f"{why}: change the idea or the estimate, whichever is wrong" for why in misfits))

    def _finish(self, reflected: IdeaReflection) -> FinalIdea:
        """Return the final idea with all findings; remaining faults are removed or noted as remarks."""
        works = self._works
        idea, struck = idea_checks.remove_claims(reflected.idea)
        unknown = idea_checks.find_unknown_works(idea_checks.join_prose(idea), works, self.study.statements)
        remarks = [f"removed, because it claims novelty without evidence: {text}" for text in struck]
        remarks += [f"cited from memory, not returned by any search: {name}" for name in unknown]
        remarks += [f"left out of the closest papers: {fault}" for fault in find_pick_faults(reflected.closest, works)]
        closest = select_closest(reflected.closest, works)
        return FinalIdea(
            idea=idea.idea,
            novelty=idea_checks.build_novelty(self._searches, works),
            novelty_statement=idea_checks.format_novelty(self._searches, works, closest),
            queries=tuple(one.query for one in self._searches),
            closest=closest,
            estimate=reflected.estimate,
            fit=idea_checks.check_fit(reflected.estimate, self.study.started.means),
            remarks=tuple(remarks),
            origin=self._find_origin(reflected),
        )

    def _find_origin(self, reflected: IdeaReflection) -> IdeaOrigin | None:
        """Return the study that the idea follows, with the findings that its reasons name."""
        study = self.study.started.study
        if study is None:
            return None
        reasons = tuple((study.find_finding(one), one.why) for one in reflected.reasons)
        return IdeaOrigin(run=study.run, reasons=reasons)


def find_pick_faults(picks: Sequence[ClosestPick], works: Sequence[FoundPaper]) -> tuple[str, ...]:
    """Return the problems with the closest papers that were named, one sentence each."""
    faults = [f"paper {pick.paper} is not among the {len(works)} results" for pick in picks if pick.paper > len(works)]
    faults += [
        f"the quote {pick.quote!r} is not in the abstract of paper {pick.paper}: copy the exact words"
        for pick in picks
        if pick.paper <= len(works) and not _is_supported(pick, works)
    ]
    sound, least = len(select_closest(picks, works)), min(MIN_CLOSEST_WORKS, len(works))
    if sound < least:
        faults.append(f"{sound} of the {len(works)} results are named as closest: name at least {least}, each once")
    return tuple(faults)


def select_closest(picks: Sequence[ClosestPick], works: Sequence[FoundPaper]) -> tuple[ClosestWork, ...]:
    """Return the closest papers whose stated difference is supported by their abstract, each once."""
    sound = {pick.paper: pick for pick in picks if _is_supported(pick, works)}
    return tuple(
        ClosestWork(work=work, difference=pick.difference, quote=pick.quote)
        if (work := works[number - 1]).abstract
        else ClosestWork(work=work, difference="unknown: the source gave no abstract")
        for number, pick in sound.items()
    )


def _is_supported(pick: ClosestPick, works: Sequence[FoundPaper]) -> bool:
    if pick.paper > len(works):
        return False
    abstract = works[pick.paper - 1].abstract
    return not abstract or quote_is_in(pick.quote, abstract)


# --- literature search ------------------------------------------------------------------------------------------------


MAX_WORKS = 24
"""Maximum number of works of one idea that the model sees."""
RESULTS_PER_QUERY = 10
"""Maximum number of works per query."""
MAX_ABSTRACT_CHARS = 3000
"""Maximum number of characters kept of an abstract."""


async def search_literature(literature: LiteratureClient, query: str) -> LiteratureSearch:
    """Search all catalogues; return their results with bounded texts, and the catalogues that did not answer.

    Limits: an answered search may miss the closest work.
    """
    answer = await literature.search(query, RESULTS_PER_QUERY)
    silent = answer.outages if answer.answered or answer.outages else ("no catalogue is enabled",)
    return LiteratureSearch(
        query=query,
        answered=answer.answered,
        silent=silent,
        works=tuple(
            FoundPaper(
                title=(f"{one.title}: {one.subtitle}" if one.subtitle else one.title)[:400],
                authors=one.authors[:20],
                year=one.years[0] if one.years else None,
                venue=one.venue,
                abstract=one.abstract[:MAX_ABSTRACT_CHARS],
                identifier=one.identifier,
                source=one.source,
            )
            for one in answer.works
        ),
    )


def deduplicate_works(searches: tuple[LiteratureSearch, ...]) -> tuple[FoundPaper, ...]:
    """Return the distinct works of all searches in order of discovery; duplicates with an abstract are preferred."""
    found: dict[str, FoundPaper] = {}
    for work in (work for search in searches for work in search.works):
        key = build_title_key(work.title)
        if key and (key not in found or (work.abstract and not found[key].abstract)):
            found[key] = work
    return tuple(found.values())[:MAX_WORKS]
