"""Whether an entry is true: title, authors and year agree with what a catalogue says of one work.

The rules, for a work of a catalogue and an entry:
- the title is the same but for TeX, case, marks and punctuation; a subtitle may be left out, none may be added;
- the authors are the same people in the same order; `and others` may stand for the rest;
- the year is one of a version that the catalogue lists (published, in print or online, or the preprint's);
- a DOI or arXiv identifier of the entry is listed by a catalogue for that work, and for no other title.
One catalogue has to agree on all of title, authors and year; one may confirm an identifier that another lacks. A work
that any asked catalogue marks as retracted is refused, and one of those that list retractions has to have answered.

What failed to answer makes an entry unverified, never refused, unless what answered is decisive (retracted, or the
identifier of another work). Only a verified entry ships.

What it does not guarantee: that pages, volume or venue are right (they are not compared); that a namesake of the author
wrote it; that a retraction is known to the catalogues.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from literature.errors import SourceError
from literature.library import Entry
from literature.names import disagreement
from literature.titles import same_title
from literature.verified import Verification, compared_sha256
from literature.works import Source, Work
from record.nouns.frozen import Frozen


class Verified(Frozen):
    """One catalogue at least says the same."""

    outcome: Literal["verified"] = "verified"
    verification: Verification
    abstract: str = ""


class Refused(Frozen):
    """The catalogues know better: what is wrong."""

    outcome: Literal["refused"] = "refused"
    reason: str


class Unverified(Frozen):
    """It could not be found out: why."""

    outcome: Literal["unverified"] = "unverified"
    reason: str


Outcome = Annotated[Verified | Refused | Unverified, Field(discriminator="outcome")]


@dataclass
class _Heard:
    """What catalogues answered for one entry, and which of them failed."""

    works: list[Work] = field(default_factory=list[Work])
    answered: list[Source] = field(default_factory=list[Source])
    failed: dict[str, str] = field(default_factory=dict[str, str])


async def verify(entry: Entry, sources: Sequence[Source], *, today: datetime.date, timeout: float) -> Outcome:
    """What the catalogues say of an entry, within `timeout` seconds.

    Those that list retractions are always asked; the others where these do not agree.
    """
    if missing := [name for name in ("title", "author", "year") if not entry.plain(name)]:
        return Refused(reason=f"it has no {' and no '.join(missing)}")
    if not sources:
        return Unverified(reason="no catalogue is asked (literature.sources is empty)")
    heard = _Heard()
    first = [one for one in sources if one.lists_retractions]
    try:
        async with asyncio.timeout(timeout):
            await _ask(heard, first, entry)
            if not isinstance(_outcome(entry, heard, today), Verified):
                await _ask(heard, [one for one in sources if one not in first], entry)
    except TimeoutError:
        silent = [one.name for one in sources if one not in heard.answered and one.name not in heard.failed]
        heard.failed |= dict.fromkeys(silent, f"no answer within {timeout:g} s")
    return _outcome(entry, heard, today)


async def _ask(heard: _Heard, sources: Sequence[Source], entry: Entry) -> None:
    async def one(source: Source) -> None:
        try:
            heard.works += await source.find(entry.wanted)
            heard.answered.append(source)
        except SourceError as error:
            heard.failed[source.name] = str(error)

    await asyncio.gather(*(one(source) for source in sources))


def _outcome(entry: Entry, heard: _Heard, today: datetime.date) -> Outcome:
    if decisive := _foreign(entry, heard.works):
        return Refused(reason=decisive)
    works = [work for work in heard.works if not disagreements(entry, work)]
    if any(work.retracted for work in heard.works if _is_same(work, works) or _named(entry, work)):
        return Refused(reason="it is retracted")
    wanting = [name for name, held in _identifiers(entry, works) if not held]
    if works and not wanting and any(one.lists_retractions for one in heard.answered):
        agreed = ["title", "authors", "year", *(name for name, _ in _identifiers(entry, works))]
        best = next((one for one in works if one.abstract), works[0])
        return Verified(abstract=best.abstract, verification=Verification(
            source=works[0].source, id=works[0].identifier, date=today, agreed=tuple(agreed),
            sha256=compared_sha256(entry)))
    reason = _reason(entry, heard, works, wanting)
    if heard.failed:
        return Unverified(reason=f"{reason}; without an answer: {'; '.join(heard.failed.values())}")
    return Refused(reason=reason) if works == [] or wanting else Unverified(reason=reason)


def disagreements(entry: Entry, work: Work) -> tuple[str, ...]:
    """What of title, authors and year of an entry is not as a work has it, in that order."""
    found: list[str] = []
    if not same_title(entry.fields["title"], work.title, work.subtitle):
        found.append(f"the title there is {work.title[:160]!r}")
    if why := disagreement(entry.fields["author"], work.authors, known_cut=work.cut):
        found.append(why)
    year = entry.plain("year")
    if not year.isdigit() or int(year) not in work.years:
        found.append(f"the year is {year!r}, {work.source} lists {', '.join(map(str, work.years)) or 'none'}")
    return tuple(found)


def _foreign(entry: Entry, works: Iterable[Work]) -> str:
    """Why an identifier of the entry names another work; empty where it does not."""
    for name, value in (("doi", entry.doi), ("arXiv", entry.arxiv)):
        named = [work for work in works if value and value in (*work.dois, work.arxiv)]
        if named and not any(same_title(entry.fields["title"], one.title, one.subtitle) for one in named):
            return f"{name}:{value} is another work, {named[0].title[:160]!r} ({named[0].source})"
    return ""


def _named(entry: Entry, work: Work) -> bool:
    """Whether a work has an identifier of the entry."""
    return bool(entry.doi and entry.doi in work.dois) or bool(entry.arxiv and entry.arxiv == work.arxiv)


def _is_same(work: Work, works: Iterable[Work]) -> bool:
    return any(work is one or set(work.dois) & set(one.dois) or (work.arxiv and work.arxiv == one.arxiv)
               for one in works)


def _identifiers(entry: Entry, works: Sequence[Work]) -> list[tuple[str, bool]]:
    """Each identifier of the entry, and whether a work that agrees has it."""
    asked = [("doi", entry.doi, [doi for work in works for doi in work.dois]),
             ("arXiv", entry.arxiv, [work.arxiv for work in works])]
    return [(name, value in held) for name, value, held in asked if value]


def _reason(entry: Entry, heard: _Heard, works: Sequence[Work], wanting: Sequence[str]) -> str:
    if works and wanting:
        return f"no catalogue that was asked lists its {' or '.join(wanting)} for this work"
    if works:
        return "no catalogue that lists retractions answered"
    if not heard.answered:
        return "no catalogue answered"
    alike = [work for work in heard.works if same_title(entry.fields["title"], work.title, work.subtitle)]
    if alike:
        return "; ".join(min((disagreements(entry, work) for work in alike), key=len))
    return "no catalogue that answered knows a work of this title"
