"""arXiv: preprints as an Atom feed. It lists only its own withdrawals, so it does not count as a catalogue that lists
retractions.

Source: info.arxiv.org, "arXiv API User's Manual", sections 3.1 (`search_query`, `id_list`), 3.3 (the feed), 3.4 (errors
come as an entry).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from labwright.literature import CatalogueAnswerError
from labwright.literature.catalogue_client import CatalogueName, CatalogueRequest
from labwright.literature.catalogues import WebCatalogue, unique_years
from labwright.literature.works import (
    PublishedWork,
    WorkQuery,
    find_arxiv_id,
    find_doi,
    normalise_text,
    strip_retraction_mark,
)
from labwright.record.float_compare import parse_whole_number

_ATOM_NAMESPACE, _ARXIV_NAMESPACE = "{http://www.w3.org/2005/Atom}", "{http://arxiv.org/schemas/atom}"
_STOP_WORDS = frozenset("a an and as at by for from in is of on or the to via with not andnot".split())


class Arxiv(WebCatalogue):
    name: CatalogueName = "arxiv"

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        words = [word for word in normalise_text(query).split() if word not in _STOP_WORDS]
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
            work for entry in feed.findall(f"{_ATOM_NAMESPACE}entry") if (work := _build_work(entry)) is not None
        )


def _build_work(entry: ElementTree.Element) -> PublishedWork | None:
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
