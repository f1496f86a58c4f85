"""The contract of all catalogues, and the specifics of each."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator

import pytest

from labwright.literature import CatalogueAnswerError
from labwright.literature.catalogue_client import (
    CATALOGUE_NAMES,
    CatalogueClient,
    CatalogueCredentials,
    LiteratureSettings,
)
from labwright.literature.lookup import CATALOGUE_CLASSES
from labwright.literature.works import WorkCatalogue, WorkQuery, is_same_title
from tests.literature.catalogues import (
    SLOW_SECONDS,
    Catalogues,
    Exchange,
    Fault,
    TrueWork,
    answer_endlessly,
    answer_malformed,
    answer_other_form,
    answer_slowly,
    break_connection,
)

pytestmark = pytest.mark.slow

SECRET = CatalogueCredentials(semantic_scholar="sk-of-semantic-scholar", mail="me@example.org")
WORKS = (
    TrueWork(
        "Learning Margins from Few Examples",
        (("Ann", "One"), ("Bob", "de Two")),
        2020,
        doi="10.5555/M.1",
        arxiv="1911.00001",
        abstract="A margin < 1 helps & hurts.",
    ),
    TrueWork(
        "Learning Margins from Few Examples",
        (("Cid", "Other"),),
        2011,
        doi="10.5555/m.2",
        arxiv="1101.00002",
        abstract="",
    ),
    TrueWork("Margins of Trees", (("Dee", "Four"),), 2019, doi="10.5555/m.3", arxiv="1901.00003"),
)


@pytest.fixture
def catalogues() -> Generator[Catalogues]:
    with Catalogues(WORKS) as found:
        yield found


@pytest.fixture(params=CATALOGUE_NAMES)
async def source(request: pytest.FixtureRequest, catalogues: Catalogues) -> AsyncGenerator[WorkCatalogue]:
    async with CatalogueClient(catalogues.settings(), SECRET) as web:
        yield CATALOGUE_CLASSES[request.param](web)


class TestSource:
    """The contract."""

    async def test_a_search_gives_the_best_first_and_no_more_than_the_limit(self, source: WorkCatalogue):
        found = await source.search("learning margins from few-shot examples", 2)
        assert [one.title for one in found] == ["Learning Margins from Few Examples"] * 2
        assert all(one.source == source.name and one.id for one in found)

    async def test_nothing_found_is_no_error(self, source: WorkCatalogue):
        assert await source.search("zzzz qqqq", 5) == ()
        assert await source.find(WorkQuery(title="zzzz qqqq", doi="10.5555/none", arxiv="2001.00001")) == ()

    @pytest.mark.parametrize("wanted", [WorkQuery(doi="10.5555/m.1"), WorkQuery(arxiv="1911.00001")])
    async def test_an_identifier_finds_its_work_alone(self, source: WorkCatalogue, wanted: WorkQuery):
        if (source.name == "crossref" and wanted.arxiv) or (source.name == "arxiv" and wanted.doi):
            return  # one has no preprints, the other no search by DOI
        (work,) = await source.find(wanted)
        assert work.authors[0] in ("Ann One", "One, Ann") and len(work.authors) == 2
        assert work.dois == ("10.5555/m.1",) and work.arxiv == "1911.00001" and not work.retracted
        assert set(work.years) >= {2019} and work.abstract == "A margin < 1 helps & hurts."
        assert 2020 in work.years or source.name == "arxiv"

    async def test_a_title_finds_every_namesake_once(self, source: WorkCatalogue):
        found = await source.find(WorkQuery(title="{Learning} Margins, from few: Examples", doi="10.5555/m.1"))
        same = [one for one in found if is_same_title("learning margins from few examples", one.title)]
        assert len(same) == 2 == len({one.id for one in same})
        assert {one.abstract for one in same} == {"A margin < 1 helps & hurts.", ""}

    @pytest.mark.parametrize(
        "fault",
        [answer_malformed, answer_other_form, answer_slowly, answer_endlessly, break_connection],
        ids=lambda one: one.__name__,
    )
    async def test_a_fault_is_an_error_in_time(self, source: WorkCatalogue, catalogues: Catalogues, fault: Fault):
        catalogues.world.faults[source.name] = fault
        began = time.monotonic()
        async with CatalogueClient(catalogues.settings(timeout=0.4), SECRET) as web:
            asked = CATALOGUE_CLASSES[source.name](web)
            with pytest.raises(CatalogueAnswerError, match=source.name):
                await asked.search("learning margins", 3)
            with pytest.raises(CatalogueAnswerError, match=source.name):
                await asked.find(WorkQuery(title="learning margins", doi="10.5555/m.1", arxiv="1911.00001"))
        assert time.monotonic() - began < SLOW_SECONDS / 2

    async def test_keys_go_to_one_catalogue_and_a_missing_server_is_an_error(
        self, source: WorkCatalogue, catalogues: Catalogues
    ):
        await source.search("learning margins", 3)
        (_, path), (headers,) = catalogues.world.asked[-1], catalogues.world.headers[-1:]
        assert (headers.get("x-api-key") == SECRET.semantic_scholar) == (source.name == "semantic_scholar")
        assert ("me%40example.org" in path) == (source.name in ("openalex", "crossref"))
        assert SECRET.semantic_scholar not in path and "sk-of" not in repr(SECRET)
        settings = LiteratureSettings(addresses={source.name: "http://127.0.0.1:9"})
        async with CatalogueClient(settings, SECRET) as nowhere:
            with pytest.raises(CatalogueAnswerError, match="cannot be reached"):
                await CATALOGUE_CLASSES[source.name](nowhere).search("learning margins", 3)


async def test_a_broken_item_does_not_hide_the_others(catalogues: Catalogues):
    def with_rubbish(exchange: Exchange) -> bool:
        good = {
            "paperId": "p1",
            "title": "Margins of Trees",
            "authors": [{"name": None}],
            "year": 2019,
            "externalIds": None,
            "abstract": None,
            "venue": None,
            "publicationDate": "not a date",
        }
        exchange.say(200, {"total": 3, "data": [{"title": 3}, None, good, {"paperId": "p2", "title": None}]})
        return True

    catalogues.world.faults["semantic_scholar"] = with_rubbish
    async with CatalogueClient(catalogues.settings(), SECRET) as web:
        (work,) = await CATALOGUE_CLASSES["semantic_scholar"](web).search("margins", 5)
    assert (work.id, work.authors, work.years, work.abstract) == ("p1", ("",), (2019,), "")


@pytest.mark.parametrize(
    ("feed", "sign"),
    [
        ('<!DOCTYPE lolz [<!ENTITY a "aaaa">]><feed xmlns="http://www.w3.org/2005/Atom"/>', "document type"),
        ("<html/>", "'html'"),
        (
            '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>http://arxiv.org/api/errors#bad_id</id><title>Error</title>'
            "<summary>incorrect id format for 1</summary></entry></feed>",
            "incorrect id format",
        ),
    ],
)
async def test_a_feed_that_is_none_is_an_error(catalogues: Catalogues, feed: str, sign: str):
    def answer(exchange: Exchange) -> bool:
        exchange.say(200, feed)
        return True

    catalogues.world.faults["arxiv"] = answer
    async with CatalogueClient(catalogues.settings(), SECRET) as web:
        with pytest.raises(CatalogueAnswerError, match=sign):
            await CATALOGUE_CLASSES["arxiv"](web).search("margins", 3)


async def test_notices_and_withdrawals(catalogues: Catalogues):
    notice = {"DOI": "10.5555/n", "title": ["Retraction: Margins"], "update-to": [{"type": "retraction", "DOI": "x"}]}
    marked = {"DOI": "10.5555/w", "title": ["WITHDRAWN: Margins of Grass"], "issued": {"date-parts": [[None]]}}

    def answer(exchange: Exchange) -> bool:
        exchange.say(200, {"message": {"items": [notice, marked]}})
        return True

    catalogues.world.faults["crossref"] = answer
    async with CatalogueClient(catalogues.settings(), SECRET) as web:
        (work,) = await CATALOGUE_CLASSES["crossref"](web).search("margins", 5)
    assert (work.title, work.retracted, work.years) == ("Margins of Grass", True, ())
