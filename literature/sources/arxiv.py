"""arXiv: preprints as an Atom feed. Of withdrawals it knows its own only, so it does not count as listing retractions.

Source: info.arxiv.org, "arXiv API User's Manual", sections 3.1 (`search_query`, `id_list`), 3.3 (the feed), 3.4
(errors come as an entry).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from labwright.literature import SourceError
from labwright.literature.matching import normalized, without_retraction_mark
from labwright.literature.settings import SourceName
from labwright.literature.sources import Catalogue, years_of
from labwright.literature.web import Question
from labwright.literature.works import Wanted, Work, arxiv_of, doi_of
from labwright.record.whole_numbers import parse_whole_number

_ATOM, _ARXIV = "{http://www.w3.org/2005/Atom}", "{http://arxiv.org/schemas/atom}"
_STOP = frozenset("a an and as at by for from in is of on or the to via with not andnot".split())


class Arxiv(Catalogue):
    name: SourceName = "arxiv"

    def searching(self, query: str, limit: int) -> Question:
        words = [word for word in normalized(query).split() if word not in _STOP]
        return self._question(limit, "search_query", " AND ".join(f"all:{word}" for word in words[:12]))

    def lookups(self, wanted: Wanted) -> Iterator[Question]:
        if wanted.arxiv:
            yield self._question(1, "id_list", wanted.arxiv)
        if words := normalized(wanted.title):
            yield self._question(10, "search_query", f'ti:"{words}"')

    def _question(self, limit: int, parameter: str, value: str) -> Question:
        return Question(self.name, "query", {parameter: value, "start": "0", "max_results": str(limit)})

    async def pdf(self, identifier: str) -> bytes:
        """The full text of a preprint; empty where there is none. Raises `SourceError`."""
        found = await self._web.ask(
            Question(self.name, f"../pdf/{identifier}", {}, lookup=True, binary=True), lambda text: (text,)
        )
        return "".join(found).encode("latin-1")

    def read(self, text: str, *, lookup: bool) -> tuple[Work, ...]:
        if "<!DOCTYPE" in text[:2000] or "<!ENTITY" in text:  # no feed has one; entities can be made to grow endlessly
            raise SourceError("arxiv answers in an unknown form (a document type)")
        try:
            feed = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise SourceError(f"arxiv answers in an unknown form ({error})") from None
        if feed.tag != f"{_ATOM}feed":
            raise SourceError(f"arxiv answers in an unknown form ({feed.tag[:60]!r})")
        return tuple(work for entry in feed.findall(f"{_ATOM}entry") if (work := _work(entry)) is not None)


def _work(entry: ElementTree.Element) -> Work | None:
    address = _text(entry, f"{_ATOM}id")
    if "/api/errors" in address:
        raise SourceError(f"arxiv answers with an error: {_text(entry, f'{_ATOM}summary')[:120]!r}")
    identifier, title = arxiv_of(address), _text(entry, f"{_ATOM}title")
    if not identifier or not title:
        return None
    title, marked = without_retraction_mark(title)
    journal, comment = _text(entry, f"{_ARXIV}journal_ref"), _text(entry, f"{_ARXIV}comment")
    doi, published = doi_of(_text(entry, f"{_ARXIV}doi")), _text(entry, f"{_ATOM}published")[:4]
    printed = re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", journal)
    names = [_text(author, f"{_ATOM}name") for author in entry.findall(f"{_ATOM}author")]
    withdrawn = re.search(
        r"\b(?:this|the) (?:paper|article|submission|manuscript) (?:has been|was|is) withdrawn\b",
        comment,
        re.IGNORECASE,
    )
    return Work(
        source="arxiv",
        id=identifier,
        title=title,
        authors=tuple(one for one in names if one),
        years=years_of(*map(parse_whole_number, (*printed[-1:], published))),
        venue=journal,
        dois=(doi,) if doi else (),
        arxiv=identifier,
        abstract=_text(entry, f"{_ATOM}summary"),
        retracted=marked or withdrawn is not None,
    )


def _text(element: ElementTree.Element, tag: str) -> str:
    return " ".join((element.findtext(tag) or "").split())
