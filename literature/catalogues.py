"""The four public catalogues, each a `literature.works.WorkCatalogue`, and their common code."""

from __future__ import annotations

import contextlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast
from urllib.parse import quote
from xml.etree import ElementTree

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from labwright.literature import CatalogueAnswerError
from labwright.literature.catalogue_client import CatalogueClient, CatalogueName, CatalogueRequest
from labwright.literature.works import (
    PublishedWork,
    WorkQuery,
    find_arxiv_id,
    find_doi,
    normalise_text,
    read_abstract,
    read_arxiv_year,
    strip_retraction_mark,
)
from labwright.record.float_compare import parse_whole_number


class WebCatalogue(ABC):
    """A `WorkCatalogue` that is queried over HTTP."""

    name: CatalogueName
    lists_retractions: bool = False

    def __init__(self, web: CatalogueClient) -> None:
        self._web = web

    async def search(self, query: str, limit: int) -> tuple[PublishedWork, ...]:
        return (await self._ask(self.build_search_request(query, limit)))[:limit]

    async def find(self, wanted: WorkQuery) -> tuple[PublishedWork, ...]:
        found = [work for question in self.build_lookup_requests(wanted) for work in await self._ask(question)]
        return tuple({work.id: work for work in reversed(found)}.values())[::-1]

    async def _ask(self, question: CatalogueRequest) -> tuple[PublishedWork, ...]:
        return await self._web.ask(question, lambda text: self.read_works(text, lookup=question.is_lookup))

    @abstractmethod
    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        """Build the request to search for works."""

    @abstractmethod
    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        """Build the requests for one work, by identifiers first."""

    @abstractmethod
    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        """Read the works in an answer, skipping malformed ones. Raises `CatalogueAnswerError`."""


class AnswerShape(BaseModel):
    """A part of an answer; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


ShapeT = TypeVar("ShapeT", bound=AnswerShape)


def nested_field(field: str, *path: str | int) -> Any:
    """Declare a field nested deeper in an answer; None if it is missing."""
    return Field(default=None, validation_alias=AliasPath(field, *path))


def read_json_works(
    source: CatalogueName,
    text: str,
    keys: Iterable[str],
    shape: type[ShapeT],
    build: Callable[[ShapeT], PublishedWork | None],
) -> tuple[PublishedWork, ...]:
    """Read the works below these keys of an answer: one, or a list, of which malformed ones are skipped.

    Raises `CatalogueAnswerError`.
    """
    found: list[PublishedWork | None] = []
    where = "the top level"
    try:
        items: Any = json.loads(text)
        for where in keys:
            items = items[where]
        if isinstance(items, list):
            for item in cast("list[Any]", items):
                with contextlib.suppress(ValidationError):
                    found.append(build(shape.model_validate(item)))
        else:
            found.append(build(shape.model_validate(items)))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise CatalogueAnswerError(f"{source} returned an unknown format (at {where})") from None
    return tuple(work for work in found if work is not None)


def unique_years(*years: int | None) -> tuple[int, ...]:
    """Return the given years without duplicates."""
    return tuple(dict.fromkeys(year for year in years if year))


# arXiv: preprints as an Atom feed. It lists only its own withdrawals, so it does not count as a catalogue that lists
# retractions.
#
# Source: info.arxiv.org, "arXiv API User's Manual", sections 3.1 (`search_query`, `id_list`), 3.3 (the feed), 3.4
# (errors come as an entry).

_ATOM_NAMESPACE, _ARXIV_NAMESPACE = "{http://www.w3.org/2005/Atom}", "{http://arxiv.org/schemas/atom}"
_ARXIV_STOP_WORDS = frozenset("a an and as at by for from in is of on or the to via with not andnot".split())


class Arxiv(WebCatalogue):
    name: CatalogueName = "arxiv"

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        words = [word for word in normalise_text(query).split() if word not in _ARXIV_STOP_WORDS]
        return self._build_request(limit, "search_query", " AND ".join(f"all:{word}" for word in words[:12]))

    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        if wanted.arxiv:
            yield self._build_request(1, "id_list", wanted.arxiv)
        if words := normalise_text(wanted.title):
            yield self._build_request(10, "search_query", f'ti:"{words}"')

    def _build_request(self, limit: int, parameter: str, value: str) -> CatalogueRequest:
        return CatalogueRequest(self.name, "query", {parameter: value, "start": "0", "max_results": str(limit)})

    async def download_pdf(self, identifier: str) -> bytes:
        """Download the PDF of a preprint; empty if there is none. Raises `CatalogueAnswerError`."""
        found = await self._web.ask(
            CatalogueRequest(self.name, f"../pdf/{identifier}", {}, is_lookup=True, is_binary=True),
            lambda text: (text,),
        )
        return "".join(found).encode("latin-1")

    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        if "<!DOCTYPE" in text[:2000] or "<!ENTITY" in text:  # feeds have none; entities could expand without limit
            raise CatalogueAnswerError("arxiv returned an unknown format (a document type)")
        try:
            feed = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise CatalogueAnswerError(f"arxiv returned an unknown format ({error})") from None
        if feed.tag != f"{_ATOM_NAMESPACE}feed":
            raise CatalogueAnswerError(f"arxiv returned an unknown format ({feed.tag[:60]!r})")
        return tuple(
            work for entry in feed.findall(f"{_ATOM_NAMESPACE}entry") if (work := _build_arxiv_work(entry)) is not None
        )


def _build_arxiv_work(entry: ElementTree.Element) -> PublishedWork | None:
    address = _read_text(entry, f"{_ATOM_NAMESPACE}id")
    if "/api/errors" in address:
        raise CatalogueAnswerError(f"arxiv returned an error: {_read_text(entry, f'{_ATOM_NAMESPACE}summary')[:120]!r}")
    identifier, title = find_arxiv_id(address), _read_text(entry, f"{_ATOM_NAMESPACE}title")
    if not identifier or not title:
        return None
    title, marked = strip_retraction_mark(title)
    journal, comment = (
        _read_text(entry, f"{_ARXIV_NAMESPACE}journal_ref"),
        _read_text(entry, f"{_ARXIV_NAMESPACE}comment"),
    )
    doi, published = (
        find_doi(_read_text(entry, f"{_ARXIV_NAMESPACE}doi")),
        _read_text(entry, f"{_ATOM_NAMESPACE}published")[:4],
    )
    printed = re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", journal)
    names = [_read_text(author, f"{_ATOM_NAMESPACE}name") for author in entry.findall(f"{_ATOM_NAMESPACE}author")]
    withdrawn = re.search(
        r"\b(?:this|the) (?:paper|article|submission|manuscript) (?:has been|was|is) withdrawn\b",
        comment,
        re.IGNORECASE,
    )
    return PublishedWork(
        source="arxiv",
        id=identifier,
        title=title,
        authors=tuple(name for name in names if name),
        years=unique_years(*map(parse_whole_number, (*printed[-1:], published))),
        venue=journal,
        dois=(doi,) if doi else (),
        arxiv=identifier,
        abstract=_read_text(entry, f"{_ATOM_NAMESPACE}summary"),
        retracted=marked or withdrawn is not None,
    )


def _read_text(element: ElementTree.Element, tag: str) -> str:
    return " ".join((element.findtext(tag) or "").split())


# Crossref: metadata that publishers deposit with a DOI, including retractions (and those from Retraction Watch).
#
# Source: github.com/CrossRef/rest-api-doc, "api_format.md"; crossref.org, "Retraction Watch retractions now in the
# Crossref API" (`updated-by` at the work, `update-to` at the notice).

WITHDRAWAL_TYPES = frozenset({"retraction", "withdrawal", "removal", "partial_retraction"})


class _CrossrefAuthor(AnswerShape):
    given: str | None = None
    family: str | None = None
    name: str | None = None

    @property
    def full_name(self) -> str:
        if self.family:
            return f"{self.family}, {self.given}" if self.given else self.family
        return self.name or self.given or ""


class _CrossrefRelation(AnswerShape):
    id: str = ""
    type: str = ""


class _CrossrefItem(AnswerShape):
    doi: str = Field(alias="DOI")
    title: str | None = nested_field("title", 0)
    subtitle: str | None = nested_field("subtitle", 0)
    author: tuple[_CrossrefAuthor, ...] = ()
    venue: str | None = nested_field("container-title", 0)
    in_print: int | None = nested_field("published-print", "date-parts", 0, 0)
    online: int | None = nested_field("published-online", "date-parts", 0, 0)
    issued: int | None = nested_field("issued", "date-parts", 0, 0)
    posted: int | None = nested_field("posted", "date-parts", 0, 0)
    abstract: str = ""
    updated_by: tuple[_CrossrefRelation, ...] = Field(default=(), alias="updated-by")
    update_to: tuple[_CrossrefRelation, ...] = Field(default=(), alias="update-to")
    relation: dict[str, tuple[_CrossrefRelation, ...]] = Field(default_factory=dict[str, tuple[_CrossrefRelation, ...]])


class Crossref(WebCatalogue):
    name: CatalogueName = "crossref"
    lists_retractions = True

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        parameters = {"query.bibliographic": " ".join(query.split()), "rows": str(limit)}
        return CatalogueRequest(self.name, "works", parameters)

    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        if wanted.doi:
            yield CatalogueRequest(self.name, f"works/{quote(wanted.doi, safe='')}", {}, is_lookup=True)
        if wanted.title:
            yield self.build_search_request(wanted.title, 10)

    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        keys = ("message",) if lookup else ("message", "items")
        return read_json_works(self.name, text, keys, _CrossrefItem, _build_crossref_work)


def _build_crossref_work(item: _CrossrefItem) -> PublishedWork | None:
    notice = any(update.type in WITHDRAWAL_TYPES for update in item.update_to)
    if not item.title or notice:  # a retraction notice is not the work itself
        return None
    title, marked = strip_retraction_mark(item.title)
    preprints = [preprint.id for preprint in item.relation.get("has-preprint", ())]
    arxiv = next((match for text in (item.doi, *preprints) if (match := find_arxiv_id(text))), "")
    return PublishedWork(
        source="crossref",
        id=item.doi.lower(),
        title=title,
        subtitle=item.subtitle or "",
        authors=tuple(author.full_name for author in item.author),
        years=unique_years(item.in_print, item.online, item.issued, item.posted, read_arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=(doi,) if (doi := find_doi(item.doi)) else (),
        arxiv=arxiv,
        abstract=read_abstract(item.abstract),
        retracted=marked or any(update.type in WITHDRAWAL_TYPES for update in item.updated_by),
    )


# OpenAlex: works with their versions, an inverted index of the abstract, and a retraction mark.
#
# Source: docs.openalex.org, "Work object", "Search works", "Filter works", "Rate limits and authentication".

_OPENALEX_FIELDS = (
    "id,doi,title,publication_year,authorships,is_retracted,abstract_inverted_index,primary_location,locations,type"
)
_MAX_OPENALEX_AUTHORS = 100


class _OpenAlexAuthor(AnswerShape):
    name: str | None = nested_field("author", "display_name")


class _OpenAlexLocation(AnswerShape):
    landing_page_url: str | None = None


class _OpenAlexItem(AnswerShape):
    id: str
    doi: str | None = None
    title: str | None = None
    type: str | None = None
    publication_year: int | None = None
    authorships: tuple[_OpenAlexAuthor, ...] = ()
    is_retracted: bool | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None
    venue: str | None = nested_field("primary_location", "source", "display_name")
    locations: tuple[_OpenAlexLocation, ...] | None = None


class OpenAlex(WebCatalogue):
    name: CatalogueName = "openalex"
    lists_retractions = True

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        return self._build_request(limit, "search", " ".join(query.split()))

    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        for doi in (wanted.doi, f"10.48550/arxiv.{wanted.arxiv}" if wanted.arxiv else ""):
            if doi:
                yield self._build_request(5, "filter", f"doi:{doi}")
        if words := normalise_text(wanted.title):  # commas, colons and bars have special meanings in a filter
            yield self._build_request(10, "filter", f"title.search:{words}")

    def _build_request(self, limit: int, parameter: str, value: str) -> CatalogueRequest:
        return CatalogueRequest(
            self.name, "works", {parameter: value, "per-page": str(limit), "select": _OPENALEX_FIELDS}
        )

    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        return read_json_works(self.name, text, ("results",), _OpenAlexItem, _build_openalex_work)


def _build_openalex_work(item: _OpenAlexItem) -> PublishedWork | None:
    if not item.title or item.type == "retraction":  # a retraction notice is not the work itself
        return None
    title, marked = strip_retraction_mark(item.title)
    pages = [location.landing_page_url or "" for location in item.locations or ()]
    arxiv = next((match for page in (item.doi or "", *pages) if (match := find_arxiv_id(page))), "")
    dois = [find_doi(item.doi or ""), *(find_doi(page) for page in pages if "doi.org/" in page)]
    index = item.abstract_inverted_index or {}  # word -> positions
    placed = sorted((position, word) for word, positions in index.items() for position in positions)
    return PublishedWork(
        source="openalex",
        id=item.id.rsplit("/", 1)[-1],
        title=title,
        authors=tuple(author.name or "" for author in item.authorships),
        cut=len(item.authorships) >= _MAX_OPENALEX_AUTHORS,
        years=unique_years(item.publication_year, read_arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=tuple(dict.fromkeys(filter(None, dois))),
        arxiv=arxiv,
        abstract=" ".join(word for _, word in placed),
        retracted=bool(item.is_retracted) or marked,
    )


# Semantic Scholar: works with external identifiers and abstracts. It does not mark retractions.
#
# Source: api.semanticscholar.org, "Academic Graph API" (`/paper/search`, `/paper/{paper_id}`, schema `FullPaper`).

_SEMANTIC_SCHOLAR_FIELDS = "title,abstract,year,publicationDate,authors,externalIds,venue"


class _SemanticScholarAuthor(AnswerShape):
    name: str | None = None


class _SemanticScholarItem(AnswerShape):
    id: str = Field(alias="paperId")
    title: str | None = None
    abstract: str | None = None
    year: int | None = None
    date: str | None = Field(default=None, alias="publicationDate")
    authors: list[_SemanticScholarAuthor] | None = None
    doi: str | None = nested_field("externalIds", "DOI")
    arxiv: str | None = nested_field("externalIds", "ArXiv")
    venue: str | None = None


class SemanticScholar(WebCatalogue):
    name: CatalogueName = "semantic_scholar"

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        words = " ".join(query.replace("-", " ").split())  # hyphenated terms match nothing
        return CatalogueRequest(
            self.name, "paper/search", {"query": words, "limit": str(limit), "fields": _SEMANTIC_SCHOLAR_FIELDS}
        )

    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        for kind, value in (("DOI", wanted.doi), ("ARXIV", wanted.arxiv)):
            if value:
                yield CatalogueRequest(
                    self.name,
                    f"paper/{kind}:{quote(value, safe=':')}",
                    {"fields": _SEMANTIC_SCHOLAR_FIELDS},
                    is_lookup=True,
                )
        if words := normalise_text(wanted.title):
            yield self.build_search_request(words, 10)

    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        if '"total"' in text and '"data"' not in text:  # nothing was found
            return ()
        return read_json_works(
            self.name, text, () if lookup else ("data",), _SemanticScholarItem, _build_semantic_scholar_work
        )


def _build_semantic_scholar_work(item: _SemanticScholarItem) -> PublishedWork | None:
    if not item.title:
        return None
    title, marked = strip_retraction_mark(item.title)
    doi = find_doi(item.doi or "")
    arxiv = find_arxiv_id(f"arXiv:{item.arxiv}" if item.arxiv else item.doi or "")
    dated = parse_whole_number(item.date[:4]) if item.date else None
    return PublishedWork(
        source="semantic_scholar",
        id=item.id,
        title=title,
        authors=tuple(author.name or "" for author in item.authors or ()),
        years=unique_years(item.year, dated, read_arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=(doi,) if doi else (),
        arxiv=arxiv,
        abstract=" ".join((item.abstract or "").split()),
        retracted=marked,
    )
