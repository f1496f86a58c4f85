"""Rate limits, retries, waits, circuit breaker, and time limits."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
from typing import cast

import pytest

from labwright.literature import CatalogueAnswerError
from labwright.literature.catalogue_client import (
    CATALOGUE_NAMES,
    MAX_ANSWER_BYTES,
    CatalogueClient,
    CatalogueCredentials,
    CatalogueRequest,
)
from labwright.literature.catalogues import Arxiv
from labwright.literature.lookup import open_literature
from tests.literature.catalogues import SLOW_SECONDS, Catalogues, Exchange, fail_unavailable, stay_silent
from tests.literature.reference_sets import TRUE_ENTRIES, WORLD

pytestmark = pytest.mark.slow

ASK = CatalogueRequest("crossref", "works", {"query.bibliographic": "calibration of networks", "rows": "3"})
MAIL = CatalogueCredentials(mail="a@b.c")


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def failing(times: int, code: int, **headers: str):
    left = [times]

    def answer(exchange: Exchange) -> bool:
        left[0] -= 1
        if left[0] < 0:
            return False
        exchange.say(code, "later", {key.replace("_", "-"): value for key, value in headers.items()})
        return True

    return answer


async def test_a_busy_server_is_asked_again_when_it_says_so(monkeypatch: pytest.MonkeyPatch):
    with Catalogues(WORLD, {"crossref": failing(1, 429, retry_after="1")}) as catalogues:
        monkeypatch.setattr("labwright.literature.catalogue_client.MAX_RETRIES", 2)
        async with CatalogueClient(catalogues.settings(), MAIL) as web:
            began = time.monotonic()
            assert await web.ask(ASK, words)
            assert time.monotonic() - began >= 1.0 and catalogues.count("crossref") == 2


async def test_a_server_that_asks_for_too_long_a_wait_is_left_alone():
    with Catalogues(WORLD, {"crossref": failing(9, 429, retry_after="3600")}) as catalogues:
        async with CatalogueClient(catalogues.settings(), MAIL) as web:
            for sign in ("more than 20 s", "is not queried"):
                with pytest.raises(CatalogueAnswerError, match=sign):
                    await web.ask(ASK, words)
        assert catalogues.count("crossref") == 1


async def test_after_three_failures_in_a_row_nobody_is_asked_for_a_while():
    now = [0.0]
    with Catalogues(WORLD, {"crossref": failing(3, 503)}) as catalogues:
        async with CatalogueClient(catalogues.settings(), MAIL, clock=lambda: now[0]) as web:
            for _ in range(6):
                with pytest.raises(CatalogueAnswerError):
                    await web.ask(ASK, words)
            assert catalogues.count("crossref") == 3
            now[0] += 121
            assert await web.ask(ASK, words)


async def test_the_pace_is_kept(monkeypatch: pytest.MonkeyPatch):
    with Catalogues(WORLD) as catalogues:
        monkeypatch.setattr("labwright.literature.catalogue_client.MIN_INTERVAL_SECONDS", {"crossref": 0.2})
        async with CatalogueClient(catalogues.settings(), MAIL) as web:
            began = time.monotonic()
            await asyncio.gather(*(web.ask(ASK, words) for _ in range(4)))
            assert time.monotonic() - began >= 0.6


async def test_servers_that_never_answer_cost_no_more_than_the_limits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("labwright.literature.lookup.LOOKUP_TIMEOUT_SECONDS", 0.4)
    monkeypatch.setattr("labwright.literature.lookup.LIBRARY_TIMEOUT_SECONDS", 0.9)
    with Catalogues(WORLD, dict.fromkeys(CATALOGUE_NAMES, stay_silent)) as catalogues:
        async with open_literature(catalogues.settings(), CatalogueCredentials()) as literature:
            began = time.monotonic()
            found = await literature.search("calibration", 3)
            assert not found.works and len(found.outages) == 4
            library = await literature.check(TRUE_ENTRIES)
            assert time.monotonic() - began < SLOW_SECONDS / 2
    assert all(one.outcome.outcome == "unverified" for one in library.checked) and len(library.checked) == 20


async def test_one_silent_catalogue_does_not_take_the_answers_of_the_others():
    with Catalogues(WORLD, {"arxiv": stay_silent, "semantic_scholar": fail_unavailable}) as catalogues:
        async with open_literature(catalogues.settings(timeout=3.0), CatalogueCredentials()) as literature:
            found = await literature.search("calibration of modern neural networks", 3)
    assert [one.title for one in found.works[:1]] == ["On Calibration of Modern Neural Networks"]
    assert len(found.outages) == 2


async def test_a_work_that_does_not_exist_is_no_error() -> None:
    with Catalogues(WORLD) as catalogues:
        async with CatalogueClient(catalogues.settings(), MAIL) as web:
            assert await web.ask(CatalogueRequest("crossref", "works/10.5555%2Fnone", {}, is_lookup=True), words) == ()


def gzipped(size: int) -> bytes:
    return gzip.compress(bytes(size), 9, mtime=0)


@pytest.mark.parametrize(
    ("body", "encoding", "words"),
    [
        (gzipped(40_000_000), "gzip", "more than 8000000 bytes"),
        (gzip.compress(gzipped(10**6), mtime=0), "gzip, gzip", "encoding"),
        (b"x", "zstd", "encoding"),
        (b"no gzip", "gzip", "other than text"),
    ],
)
async def test_an_answer_that_unpacks_to_more_takes_no_more_memory(body: bytes, encoding: str, words: str):
    def packed(exchange: Exchange) -> bool:
        exchange.say(200, body, {"content-encoding": encoding})
        return True

    with Catalogues(WORLD, {"crossref": packed}) as catalogues:
        async with CatalogueClient(catalogues.settings(), MAIL) as web:
            tracemalloc.start()
            with pytest.raises(CatalogueAnswerError, match=words):
                await web.ask(ASK, lambda text: (text,))
            assert tracemalloc.get_traced_memory()[1] < 4 * MAX_ANSWER_BYTES
            tracemalloc.stop()


def test_entries_within_each_other_are_no_works_of_a_feed():
    entry = "<entry><id>http://arxiv.org/abs/1706.04599v1</id><title>x</title><author><name>n</name></author>"
    feed = '<feed xmlns="http://www.w3.org/2005/Atom">' + entry * 3000 + "</entry>" * 3000 + "</feed>"
    [work] = Arxiv(cast("CatalogueClient", None)).read_works(feed, lookup=False)
    assert work.authors == ("n",)  # repeating the authors in each would make the size quadratic
