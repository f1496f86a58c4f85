"""Fakes of the four catalogues on loopback, with a small set of works, in the formats of their public documentation.

The formats follow: docs.openalex.org ("Work object"), github.com/CrossRef/rest-api-doc ("api_format.md") with
crossref.org's tutorial on `updated-by`, api.semanticscholar.org ("Academic Graph API") and info.arxiv.org ("arXiv API
User's Manual"). Works, people and identifiers are invented, or those of examples/library.bib.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlparse
from xml.sax.saxutils import escape

import pytest

from labwright.literature import catalogue_client
from labwright.literature.catalogue_client import CATALOGUE_NAMES, CatalogueName, LiteratureSettings
from labwright.literature.works import normalise_text


@dataclass(frozen=True)
class TrueWork:
    """A work in the fake catalogues."""

    title: str
    people: tuple[tuple[str, str], ...]
    """Given and family names."""
    year: int
    doi: str = ""
    arxiv: str = ""
    venue: str = "Journal of Examples"
    abstract: str = "We study something, and find that it holds."
    retracted: bool = False
    online: int | None = None
    """Year of the online version, if different."""
    subtitle: str = ""
    """Separate in Crossref; appended to the title in the others."""
    within: tuple[CatalogueName, ...] = CATALOGUE_NAMES

    @property
    def whole(self) -> str:
        return f"{self.title}: {self.subtitle}" if self.subtitle else self.title

    @property
    def shown(self) -> list[str]:
        return [f"{given} {family}".strip() for given, family in self.people]


Fault = Callable[["Exchange"], bool]
"""Answers instead of a catalogue; False means the catalogue answers itself."""

SLOW_SECONDS = 100.0
"""Time that a server without an answer keeps its client waiting, in seconds."""


@dataclass
class CatalogueWorld:
    """The works, and the errors of each catalogue."""

    works: list[TrueWork]
    faults: dict[CatalogueName, Fault] = field(default_factory=dict[CatalogueName, Fault])
    asked: list[tuple[CatalogueName, str]] = field(default_factory=list[tuple[CatalogueName, str]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    texts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """PDFs at arXiv, by identifier."""


class Exchange(BaseHTTPRequestHandler):
    """Handle one request; the first part of the path names the catalogue."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        world = self.world
        parts = urlparse(self.path)
        name, _, rest = parts.path.lstrip("/").partition("/")
        if name == "pdf":
            world.asked.append(("arxiv", self.path))
            self.say(200 if rest in world.texts else 404, world.texts.get(rest, b""))
            return
        source = cast("CatalogueName", name)
        world.asked.append((source, self.path))
        world.headers.append({key.lower(): value for key, value in self.headers.items()})
        fault = world.faults.get(source)
        if fault is not None and fault(self):
            return
        known = [one for one in world.works if source in one.within]
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.say(*ANSWERS[source](known, unquote(rest), query))

    @property
    def world(self) -> CatalogueWorld:
        assert isinstance(self.server, _Server)
        return self.server.world

    def say(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        data = text.encode() if isinstance(text, str) else text
        self.send_response(code)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, world: CatalogueWorld) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.world = world


class Catalogues:
    """Serve the four catalogues, without rate limits and retries in the client."""

    def __init__(self, works: Sequence[TrueWork] = (), faults: dict[CatalogueName, Fault] | None = None) -> None:
        self.world = CatalogueWorld(list(works), dict(faults or {}))
        self._server = _Server(self.world)
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Catalogues:
        self._patch.setattr(catalogue_client, "MIN_INTERVAL_SECONDS", dict.fromkeys(CATALOGUE_NAMES, 0.0))
        self._patch.setattr(catalogue_client, "MAX_RETRIES", 0)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patch.undo()
        self._server.shutdown()
        self._server.server_close()

    def settings(self, **changed: Any) -> LiteratureSettings:
        """Return settings for the fake catalogues."""
        host = f"http://127.0.0.1:{self._server.server_address[1]}"
        usual: dict[str, Any] = {
            "addresses": {name: f"{host}/{name}" for name in CATALOGUE_NAMES},
            "timeout": SLOW_SECONDS,
        }
        return LiteratureSettings.model_validate(usual | changed)

    def count(self, source: CatalogueName) -> int:
        return sum(one == source for one, _ in self.world.asked)


# --- faults ---------------------------------------------------------------------------------------------------------


def fail_unavailable(exchange: Exchange) -> bool:
    exchange.say(503, "upstream is away")
    return True


def fail_busy(exchange: Exchange) -> bool:
    exchange.say(429, {"message": "Too Many Requests"}, {"retry-after": "3600"})
    return True


def answer_malformed(exchange: Exchange) -> bool:
    exchange.say(200, '{"results": [{"id": ')
    return True


def answer_other_form(exchange: Exchange) -> bool:
    exchange.say(200, {"message": "Endpoint request timed out"})
    return True


def stay_silent(exchange: Exchange) -> bool:
    time.sleep(SLOW_SECONDS)
    exchange.close_connection = True
    return True


def answer_slowly(exchange: Exchange) -> bool:
    """Send one byte at a time, so that no single wait is long."""
    exchange.send_response(200)
    exchange.send_header("content-length", "100000")
    exchange.end_headers()
    try:
        for _ in range(int(20 * SLOW_SECONDS)):
            exchange.wfile.write(b" ")
            exchange.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass
    exchange.close_connection = True
    return True


def answer_endlessly(exchange: Exchange) -> bool:
    """Send more than the size limit."""
    exchange.send_response(200)
    exchange.end_headers()
    try:
        for _ in range(200):
            exchange.wfile.write(b" " * 100_000)
    except OSError:
        pass
    exchange.close_connection = True
    return True


def break_connection(exchange: Exchange) -> bool:
    """Close the connection in the middle of the answer."""
    exchange.send_response(200)
    exchange.send_header("content-length", "100000")
    exchange.end_headers()
    exchange.wfile.write(b'{"results": [')
    exchange.close_connection = True
    return True


# --- what they answer -----------------------------------------------------------------------------------------------


def _find_alike(works: Sequence[TrueWork], query: str, most: int) -> list[TrueWork]:
    """Return works that share words with a query, most first, like a relevance search."""
    words = set(normalise_text(query).split())
    scored = [(len(words & set(normalise_text(f"{one.whole} {' '.join(one.shown)}").split())), one) for one in works]
    return [one for score, one in sorted(scored, key=lambda pair: -pair[0]) if score > 1][:most]


def _answer_openalex(works: Sequence[TrueWork], path: str, query: dict[str, str]) -> tuple[int, Any]:
    kind, _, value = query.get("filter", "").partition(":")
    if kind == "doi":
        found = [one for one in works if value in (one.doi.lower(), f"10.48550/arxiv.{one.arxiv}" if one.arxiv else "")]
    else:
        found = _find_alike(works, value or query["search"], int(query["per-page"]))
    return 200, {
        "meta": {"count": len(found), "page": 1, "per_page": int(query["per-page"])},
        "group_by": [],
        "results": [_to_openalex(n, one) for n, one in enumerate(found)],
    }


def _to_openalex(n: int, one: TrueWork) -> dict[str, Any]:
    index: dict[str, list[int]] = {}
    for place, word in enumerate(one.abstract.split()):
        index.setdefault(word, []).append(place)
    preprint = [{"is_oa": True, "landing_page_url": f"https://arxiv.org/abs/{one.arxiv}", "source": None}]
    place = {"is_oa": False, "landing_page_url": f"https://doi.org/{one.doi}", "source": {"display_name": one.venue}}
    return {
        "id": f"https://openalex.org/W{abs(hash(one.whole + one.doi))}",
        "title": one.whole,
        "type": "article",
        "doi": f"https://doi.org/{one.doi}" if one.doi else None,
        "publication_year": one.year,
        "authorships": [
            {
                "author_position": "first",
                "author": {"id": f"https://openalex.org/A{m}", "orcid": None, "display_name": name},
            }
            for m, name in enumerate(one.shown)
        ],
        "is_retracted": one.retracted,
        "abstract_inverted_index": index or None,
        "primary_location": place,
        "locations": [place, *(preprint if one.arxiv else [])],
    }


def _answer_crossref(works: Sequence[TrueWork], path: str, query: dict[str, str]) -> tuple[int, Any]:
    works = [one for one in works if one.doi]
    if path.startswith("works/"):
        found = [one for one in works if one.doi.lower() == path.removeprefix("works/").lower()]
        if not found:
            return 404, "Resource not found."
        return 200, {
            "status": "ok",
            "message-type": "work",
            "message-version": "1.0.0",
            "message": _to_crossref(found[0]),
        }
    found = _find_alike(works, query["query.bibliographic"], int(query["rows"]))
    return 200, {
        "status": "ok",
        "message-type": "work-list",
        "message-version": "1.0.0",
        "message": {
            "facets": {},
            "total-results": len(found),
            "items-per-page": int(query["rows"]),
            "items": [_to_crossref(one) for one in found],
        },
    }


def _to_crossref(one: TrueWork) -> dict[str, Any]:
    made: dict[str, Any] = {
        "DOI": one.doi,
        "type": "journal-article",
        "source": "Crossref",
        "title": [one.title],
        "container-title": [one.venue],
        "issued": {"date-parts": [[one.online or one.year, 3]]},
        "published-print": {"date-parts": [[one.year, 3]]},
        "publisher": "Example Press",
        "reference-count": 3,
        "author": [
            {"given": given, "family": family, "sequence": "first", "affiliation": []} for given, family in one.people
        ],
    }
    if one.subtitle:
        made["subtitle"] = [one.subtitle]
    if one.online:
        made["published-online"] = {"date-parts": [[one.online, 11, 2]]}
    if one.abstract:
        made["abstract"] = f"<jats:title>Abstract</jats:title><jats:p>{escape(one.abstract)}</jats:p>"
    if one.arxiv:
        made["relation"] = {
            "has-preprint": [{"id-type": "doi", "id": f"10.48550/arXiv.{one.arxiv}", "asserted-by": "object"}]
        }
    if one.retracted:
        made["updated-by"] = [
            {
                "DOI": f"{one.doi}r",
                "type": "retraction",
                "label": "Retraction",
                "source": "retraction-watch",
                "updated": {"date-parts": [[2024, 1, 1]]},
            }
        ]
    return made


def _answer_semantic_scholar(works: Sequence[TrueWork], path: str, query: dict[str, str]) -> tuple[int, Any]:
    if path == "paper/search":
        found = _find_alike(works, query["query"], int(query["limit"]))
        return 200, {"total": len(found), "offset": 0, "data": [_to_semantic_scholar(one) for one in found]}
    kind, _, value = path.removeprefix("paper/").partition(":")
    held = [one for one in works if value.lower() == (one.doi.lower() if kind == "DOI" else one.arxiv) != ""]
    if not held:
        return 404, {"error": f"Paper with id {kind}:{value} not found"}
    return 200, _to_semantic_scholar(held[0])


def _to_semantic_scholar(one: TrueWork) -> dict[str, Any]:
    ids = {"CorpusId": 1} | ({"DOI": one.doi} if one.doi else {}) | ({"ArXiv": one.arxiv} if one.arxiv else {})
    return {
        "paperId": f"{abs(hash(one.whole + one.doi)):040x}"[:40],
        "externalIds": ids,
        "title": one.whole,
        "abstract": one.abstract or None,
        "venue": one.venue,
        "year": one.year,
        "publicationDate": f"{one.year}-03-01",
        "authors": [{"authorId": str(n), "name": name} for n, name in enumerate(one.shown)],
    }


def _answer_arxiv(works: Sequence[TrueWork], path: str, query: dict[str, str]) -> tuple[int, Any]:
    works = [one for one in works if one.arxiv]
    if "id_list" in query:
        found = [one for one in works if one.arxiv == query["id_list"]]
    else:
        found = _find_alike(
            works, re.sub(r"\b(?:ti|all):|\bAND\b", " ", query["search_query"]), int(query["max_results"])
        )
    return 200, (
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        '<title type="html">ArXiv Query</title><id>http://arxiv.org/api/x</id>\n'
        + "".join(map(_to_arxiv, found))
        + "</feed>\n"
    )


def _to_arxiv(one: TrueWork) -> str:
    authors = "".join(f"<author><name>{escape(name)}</name></author>" for name in one.shown)
    doi = f'<arxiv:doi xmlns:arxiv="http://arxiv.org/schemas/atom">{one.doi}</arxiv:doi>' if one.doi else ""
    return (
        f"<entry><id>http://arxiv.org/abs/{one.arxiv}v2</id><updated>2025-01-05T00:00:00Z</updated>"
        f"<published>20{one.arxiv[:2]}-06-14T17:00:00Z</published><title>{escape(one.whole)}</title>"
        f"<summary>  {escape(one.abstract)}\n</summary>{authors}{doi}"
        '<category term="cs.LG" scheme="http://arxiv.org/schemas/atom"/></entry>\n'
    )


ANSWERS: dict[CatalogueName, Callable[[Sequence[TrueWork], str, dict[str, str]], tuple[int, Any]]] = {
    "openalex": _answer_openalex,
    "crossref": _answer_crossref,
    "semantic_scholar": _answer_semantic_scholar,
    "arxiv": _answer_arxiv,
}
