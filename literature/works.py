"""Published works and the catalogues that describe them."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from typing import Any, Protocol

from labwright.literature import CatalogueAnswerError
from labwright.literature.catalogue_client import CatalogueName
from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import PublishedWork

_DOI_PATTERN = re.compile(r"10\.\d{4,9}/[^\s\"<>{}|\\^`]+")
_ARXIV_PATTERN = re.compile(r"(?P<id>\d{4}\.\d{4,5}|[a-z][a-z.-]+/\d{7})(?:v\d+)?", re.IGNORECASE)
_ARXIV_DOI_PREFIX = "10.48550/arxiv."


class WorkQuery(FrozenModel):
    """Known facts about a work to look up. Identifiers have the same form as in `Work`."""

    title: str = ""
    doi: str = ""
    arxiv: str = ""


class WorkCatalogue(Protocol):
    """A catalogue of works."""

    @property
    def name(self) -> CatalogueName: ...

    @property
    def lists_retractions(self) -> bool:
        """Whether the absence of a retraction mark means that no retraction is known."""
        ...

    async def search(self, query: str, limit: int) -> tuple[PublishedWork, ...]:
        """Search for works, best first, at most `limit`. Raises `CatalogueAnswerError`."""
        ...

    async def find(self, wanted: WorkQuery) -> tuple[PublishedWork, ...]:
        """Return candidates for one work without duplicates: those with matching identifiers first, then those with
        similar titles.

        Raises `CatalogueAnswerError`.
        """
        ...


@dataclass
class CatalogueAnswers:
    """The catalogues' answers within a time limit, and the reasons why other catalogues did not answer."""

    seconds: float
    works_by_catalogue: dict[CatalogueName, tuple[PublishedWork, ...]] = field(
        default_factory=dict[CatalogueName, tuple[PublishedWork, ...]]
    )
    failure_by_catalogue: dict[CatalogueName, str] = field(default_factory=dict[CatalogueName, str])

    def __post_init__(self) -> None:
        self._deadline = asyncio.get_running_loop().time() + self.seconds

    async def collect(
        self, sources: Iterable[WorkCatalogue], ask: Callable[[WorkCatalogue], Awaitable[tuple[PublishedWork, ...]]]
    ) -> None:
        """Query the catalogues concurrently; a catalogue that has not answered by the deadline counts as failed."""

        async def collect_one(source: WorkCatalogue) -> None:
            try:
                async with asyncio.timeout_at(self._deadline):
                    self.works_by_catalogue[source.name] = await ask(source)
            except TimeoutError:
                self.failure_by_catalogue[source.name] = f"{source.name} gave no answer within {self.seconds:g} s"
            except CatalogueAnswerError as error:
                self.failure_by_catalogue[source.name] = str(error)

        await asyncio.gather(*map(collect_one, sources))

    def list_all_works(self, sources: Iterable[WorkCatalogue]) -> tuple[PublishedWork, ...]:
        """Return all works in the order of the catalogues."""
        return tuple(work for source in sources for work in self.works_by_catalogue.get(source.name, ()))


def find_doi(text: str) -> str:
    """Return the first DOI in a string, in lower case, without trailing punctuation; empty if there is none.

    DOIs assigned by arXiv are skipped: `find_arxiv_id` reads them.
    """
    match = _DOI_PATTERN.search(text)
    doi = match[0].rstrip(".,;:)]'").lower() if match else ""
    return "" if doi.startswith(_ARXIV_DOI_PREFIX) else doi


def find_arxiv_id(text: str) -> str:
    """Return the arXiv identifier in a string that mentions arXiv (`arXiv:1706.04599v2`, a URL, a DOI); else empty."""
    for marked in re.finditer(r"arxiv(?:\.org/(?:abs|pdf)/|[.:/]\s*|\s+)(?:abs/)?", text, re.IGNORECASE):
        if match := _ARXIV_PATTERN.match(text, marked.end()):
            return match["id"].lower()
    return ""


def read_arxiv_year(identifier: str) -> int | None:
    """Return the year of an arXiv identifier, from its first two digits."""
    digits = re.search(r"(?:^|/)(\d\d)\d\d", identifier)
    return (1900 if int(digits[1]) > 90 else 2000) + int(digits[1]) if digits else None


# Compare titles and names without TeX, diacritics, case and punctuation.

_LETTERS = (
    "ø=o ł=l đ=d ß=ss æ=ae œ=oe ı=i þ=th ð=d β=beta α=alpha γ=gamma λ=lambda π=pi σ=sigma ε=epsilon ϵ=epsilon μ=mu "
    "µ=mu τ=tau ω=omega δ=delta θ=theta"
)
_LETTER_TABLE = {ord(pair[0]): pair[2:] for pair in _LETTERS.split()}


@cache
def _build_converter() -> Any:
    from pylatexenc.latex2text import LatexNodes2Text  # type: ignore[import-untyped]

    return LatexNodes2Text(math_mode="text")


def strip_tex(value: str) -> str:
    """Convert a TeX field to plain text: accents as characters, no braces or commands, single spaces."""
    escaped = re.sub(r"(?<!\\)%", r"\\%", value)  # fields have no comments, so % is literal
    text = value
    if set(value) & set("\\{}$~"):
        try:
            text = str(_build_converter().latex_to_text(escaped))
        except Exception:  # noqa: BLE001  input may be malformed: unclosed braces, commands without arguments
            text = value
    return " ".join(unicodedata.normalize("NFC", text.replace("---", "\u2014").replace("--", "\u2013")).split())


def normalise_text(value: str) -> str:
    """Convert to lower case without diacritics; every other character becomes a space."""
    decomposed = unicodedata.normalize("NFKD", strip_tex(value).casefold()).translate(_LETTER_TABLE)
    letters = "".join(char for char in decomposed if not unicodedata.combining(char) and char not in "'\u2019")
    return " ".join("".join(char if char.isalnum() else " " for char in letters).split())


def read_abstract(markup: str) -> str:
    """Return the text of a JATS or HTML abstract, without tags and heading."""
    text = unescape(re.sub(r"</?[A-Za-z][^<>]{0,200}>", " ", markup))
    return re.sub(r"^(?:abstract|summary)\b[\s:.]*", "", " ".join(text.split()), flags=re.IGNORECASE)


_SUBTITLE_BREAK = re.compile(r"\s*[:?!\u2013\u2014]\s+|\s+-\s+")
_RETRACTION_MARK = re.compile(
    r"^\W*(?:retracted|retraction|withdrawn|removed)(?:\s+(?:article|paper|chapter))?\s*[:\u2013\u2014-]\s*",
    re.IGNORECASE,
)
_TAG_PATTERN = re.compile(r"</?[A-Za-z][\w:]{0,20}(?:\s[^<>]{0,100})?/?>")
MIN_TITLE_LENGTH = 3
"""Minimum number of words of a main title that is accepted as the full title: 'Deep Learning' is not accepted."""


def build_title_key(title: str) -> str:
    """Return the letters and digits of a title, for comparisons that ignore hyphens and spaces."""
    return normalise_text(title).replace(" ", "")


def is_same_title(written: str, known: str, subtitle: str = "") -> bool:
    """Return whether a written title matches that of a known work.

    A subtitle may be omitted if three words remain; an additional subtitle makes it a different title.
    """
    if not (wanted := build_title_key(written)):
        return False
    whole = f"{known}: {subtitle}" if subtitle else known
    if wanted in (build_title_key(whole), build_title_key(known)):
        return True
    main = _SUBTITLE_BREAK.split(strip_tex(known), maxsplit=1)[0]
    return len(normalise_text(main).split()) >= MIN_TITLE_LENGTH and wanted == build_title_key(main)


def strip_retraction_mark(title: str) -> tuple[str, bool]:
    """Return a catalogue's title without tags and the publisher's 'RETRACTED:', and whether it had that mark."""
    title = " ".join(unescape(_TAG_PATTERN.sub("", title)).split())
    found = _RETRACTION_MARK.match(title)
    return (title[found.end() :], True) if found else (title, False)


_NAME_PARTICLES = frozenset(
    "van von der den de del della di da do dos das du la le los el al bin ibn ter ten af av zu zur und".split()
)
_NAME_SUFFIXES = frozenset(["jr", "sr", "ii", "iii", "iv"])


def parse_authors(field: str) -> tuple[list[str], bool]:
    """Return the names in a BibTeX author field, and whether it ends with `and others`."""
    from bibtexparser.middlewares.names import split_multiple_persons_names

    names = split_multiple_persons_names(" ".join(field.split()))
    cut = bool(names) and normalise_text(names[-1]) in ("others", "et al")
    return (names[:-1] if cut else names), cut


def split_name(text: str, *, particles: bool = False) -> list[str]:
    """Split `Family, Given`, `Family, Jr, Given` or `Given Family` into words, given names first.

    Suffixes are dropped; particles are dropped unless they are at either end. Umlauts are reduced to their shorter
    spelling.
    """
    spread = re.sub(r"(?<=[A-Z])\.(?=[A-Z])|(?<=\b[A-Z])(?=[A-Z]\b)", " ", text)  # "K.Q." and "KQ" are two initials
    family, *given = spread.split(",")
    words = [
        re.sub(r"(?<=[aou])e(?=[^aeiou])", "", word)
        for part in (*given, family)
        for word in normalise_text(part).split()
        if word not in _NAME_SUFFIXES
    ]
    return [
        word
        for position, word in enumerate(words)
        if particles or word not in _NAME_PARTICLES or position in (0, len(words) - 1)
    ]


def is_same_person(one: str, other: str) -> bool:
    """Return whether two names may be the same person: equal family names and compatible given names."""
    a, b = split_name(one), split_name(other)
    if not a or not b:
        return False
    whole, known = ("".join(split_name(name, particles=True)) for name in (one, other))
    if sorted(a) == sorted(b) or whole == known:
        return True  # one of the names may have the family name first or written as two words
    return a[-1] == b[-1] and _is_same_given_name(a[:-1], b[:-1])


def _is_same_given_name(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether given names agree; middle names may be missing, and initials and short forms match full names."""

    def stands_for(one: str, other: str) -> bool:
        return one.startswith(other) or other.startswith(one)

    if not a or not b:
        return not a and not b
    short, long = sorted((a[1:], b[1:]), key=len)
    rest = iter(long)
    return stands_for(a[0], b[0]) and all(any(stands_for(one, other) for other in rest) for one in short)


def explain_author_mismatch(written: str, known: Sequence[str], *, known_cut: bool = False) -> str:
    """Explain why an author field does not match the authors of a work in order; empty if it does."""
    names, cut = parse_authors(written)
    if not names:
        return "it has no author"
    if not known:
        return "the source has no author"
    if len(names) > len(known) and not known_cut:
        return f"it has {len(names)} authors, the source {len(known)}"
    if len(names) < len(known) and not cut:
        return f"it has {len(names)} authors, the source {len(known)}: end it with 'and others' if names are omitted"
    for position, (one, two) in enumerate(zip(names, known, strict=False), 1):
        if not is_same_person(one, two):
            elsewhere = any(is_same_person(one, other) for other in known)
            return f"author {position} is {one!r}, the source has {two!r}" + (" (order differs)" if elsewhere else "")
    return ""
