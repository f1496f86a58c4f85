"""What ideation hears of the catalogues: each answers, fails or is late for itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from labwright.literature import CatalogueAnswerError, lookup
from labwright.literature.catalogue_client import CatalogueName
from labwright.literature.lookup import LiteratureClient
from labwright.literature.works import PublishedWork, WorkQuery
from labwright.stages.ideation.idea_drafting import search_literature

WORK = PublishedWork(
    source="openalex",
    id="W1",
    title="Margins",
    subtitle="revisited",
    authors=("Lovelace, Ada",),
    years=(2020, 2019),
    dois=("10.1000/182",),
    abstract="We revisit margins.",
)


@dataclass
class Scripted:
    """A source that returns, raises or sleeps."""

    name: CatalogueName
    answer: tuple[PublishedWork, ...] | Exception = ()
    seconds: float = 0.0
    lists_retractions: bool = False

    async def search(self, query: str, limit: int) -> tuple[PublishedWork, ...]:
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer[:limit]

    async def find(self, wanted: WorkQuery) -> tuple[PublishedWork, ...]:
        raise AssertionError


def test_one_answers_one_fails_and_one_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "LOOKUP_TIMEOUT_SECONDS", 0.1)
    late = Scripted("arxiv", (WORK,), seconds=30)
    broken = Scripted("crossref", CatalogueAnswerError("crossref cannot be reached"))
    found = asyncio.run(search_literature(LiteratureClient((Scripted("openalex", (WORK,)), broken, late)), "margins"))
    assert found.answered == ("openalex",) and found.query == "margins"
    assert found.silent == ("crossref cannot be reached", "arxiv gave no answer within 0.1 s")
    [work] = found.works
    assert (work.title, work.year, work.identifier) == ("Margins: revisited", 2020, "doi:10.1000/182")
    assert work.abstract == "We revisit margins." and work.source == "openalex"


def test_all_silent_is_no_answer() -> None:
    broken = Scripted("crossref", CatalogueAnswerError("crossref is down"))
    found = asyncio.run(search_literature(LiteratureClient((broken,)), "m"))
    assert not found.answered and not found.works
