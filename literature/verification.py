"""Whether an entry is true: title, authors and year agree with what a catalogue says of one work.

The rules are in docs/ideas.md. One catalogue has to agree on all of title, authors and year; one may confirm an
identifier that another lacks. A work that any asked catalogue marks as retracted is refused, and one of those that list
retractions has to have answered. A catalogue that fails makes an entry unverified, never refused, unless another's
answer is decisive (retracted, or the identifier of another work). Only a verified entry may be cited.

The record of a verification stands in the `verified` field of an entry:

    verified = {source: crossref; id: doi:10.1162/neco.1997.9.8.1735; date: 2026-11-21; agreed: title, authors, year;
                sha256: 5f0c...}

The hash is over what was compared (title, authors, year, DOI, arXiv identifier, without TeX and case): an entry in
which any of these was edited since is no longer verified, one with other braces is.

What it does not guarantee: who wrote the record (whoever can edit the file can compute the hash); that pages, volume or
venue are right (they are not compared); that it was not written by a namesake of the author; that a retraction is known
to the catalogues.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationError

from labwright.literature.bibtex import BibEntry
from labwright.literature.matching import (
    build_title_key,
    explain_author_mismatch,
    is_same_title,
    normalise_text,
    parse_authors,
)
from labwright.literature.works import CatalogueAnswers, Work, WorkCatalogue
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.whole_numbers import parse_whole_number

_RECORD_PART_PATTERN = re.compile(r"^(source|id|date|agreed|sha256):\s*(.+)$", re.DOTALL)


class Verification(FrozenModel):
    """That an entry agrees with what a source says."""

    source: str = Field(min_length=1, description="a catalogue's name, or `by hand` with the pages that were looked at")
    id: str = Field(min_length=1, description="as `Work.identifier`")
    date: datetime.date
    agreed: tuple[str, ...] = Field(min_length=3, description="fields that were compared and agree")
    sha256: str = Field(pattern=r"^[0-9a-f]{32}$", description="first half of the hash over what was compared")

    def __str__(self) -> str:
        return (
            f"source: {self.source}; id: {self.id}; date: {self.date}; agreed: {', '.join(self.agreed)}; "
            f"sha256: {self.sha256}"
        )


class VerificationOutcome(FrozenModel):
    """What the catalogues say of an entry: at least one agrees, they contradict it, or it could not be looked up."""

    outcome: Literal["verified", "refused", "unverified"]
    reason: str = Field(default="", description="why it may not be cited; empty for a verified one")
    verification: Verification | None = None
    abstract: str = ""


async def verify_entry(
    entry: BibEntry, sources: Sequence[WorkCatalogue], *, today: datetime.date, timeout: float
) -> VerificationOutcome:
    """What the catalogues say of an entry, within `timeout` seconds.

    Those that list retractions are always asked; the others where these do not agree.
    """
    if missing := [name for name in ("title", "author", "year") if not entry.read_plain(name)]:
        return VerificationOutcome(outcome="refused", reason=f"it has no {' and no '.join(missing)}")
    if not sources:
        return VerificationOutcome(outcome="unverified", reason="no catalogue is asked (literature.sources is empty)")
    answers = CatalogueAnswers(timeout)
    await answers.collect([one for one in sources if one.lists_retractions], lambda one: one.find(entry.work_query))
    if _decide_outcome(entry, answers, sources, today).outcome != "verified":
        others = [one for one in sources if not one.lists_retractions]
        await answers.collect(others, lambda one: one.find(entry.work_query))
    return _decide_outcome(entry, answers, sources, today)


def _decide_outcome(
    entry: BibEntry, answers: CatalogueAnswers, sources: Sequence[WorkCatalogue], today: datetime.date
) -> VerificationOutcome:
    every, identifiers = answers.list_all_works(sources), entry.identifiers
    for name, value in identifiers.items():
        named = [work for work in every if value in work.identifiers]
        if named and not any(is_same_title(entry.fields["title"], work.title, work.subtitle) for work in named):
            return VerificationOutcome(
                outcome="refused",
                reason=f"{name}:{value} is another work, {named[0].title[:160]!r} ({named[0].source})",
            )
    works = [work for work in every if not find_disagreements(entry, work)]
    known = frozenset(identifiers.values()).union(*(work.identifiers for work in works))
    if any(work.retracted for work in every if work in works or work.identifiers & known):
        return VerificationOutcome(outcome="refused", reason="it is retracted")
    missing = [name for name, value in identifiers.items() if not any(value in work.identifiers for work in works)]
    if (
        works
        and not missing
        and any(one.lists_retractions and one.name in answers.works_by_catalogue for one in sources)
    ):
        abstract = next((work.abstract for work in works if work.abstract), "")
        return VerificationOutcome(
            outcome="verified",
            abstract=abstract,
            verification=Verification(
                source=works[0].source,
                id=works[0].identifier,
                date=today,
                sha256=hash_compared(entry),
                agreed=("title", "authors", "year", *identifiers),
            ),
        )
    if works and missing:
        reason = f"no catalogue that was asked lists its {' or '.join(missing)} for this work"
    else:
        reason = "no catalogue that lists retractions answered" if works else _explain_no_match(entry, answers, every)
    if answers.failure_by_catalogue:
        reason = f"{reason}; without an answer: {'; '.join(answers.failure_by_catalogue.values())}"
    refused = not answers.failure_by_catalogue and (missing or not works)
    return VerificationOutcome(outcome="refused" if refused else "unverified", reason=reason)


def _explain_no_match(entry: BibEntry, answers: CatalogueAnswers, works: Sequence[Work]) -> str:
    """Why no work agrees with the entry: what the closest one of its title differs in."""
    if not answers.works_by_catalogue:
        return "no catalogue answered"
    alike = [
        find_disagreements(entry, work)
        for work in works
        if is_same_title(entry.fields["title"], work.title, work.subtitle)
    ]
    return "; ".join(min(alike, key=len)) if alike else "no catalogue that answered knows a work of this title"


def find_disagreements(entry: BibEntry, work: Work) -> tuple[str, ...]:
    """What of title, authors and year differs between an entry and a work, in that order."""
    found: list[str] = []
    if not is_same_title(entry.fields["title"], work.title, work.subtitle):
        found.append(f"the title there is {work.title[:160]!r}")
    if why := explain_author_mismatch(entry.fields["author"], work.authors, known_cut=work.cut):
        found.append(why)
    year = entry.read_plain("year")
    if parse_whole_number(year) not in work.years:
        found.append(f"the year is {year!r}, {work.source} lists {', '.join(map(str, work.years)) or 'none'}")
    return tuple(found)


# --- the record of a verification -----------------------------------------------------------------------------------


def hash_compared(entry: BibEntry) -> str:
    """First half of the hash over what is compared of an entry."""
    names, cut = parse_authors(entry.fields.get("author", ""))
    content = [
        build_title_key(entry.fields.get("title", "")),
        [normalise_text(one) for one in names],
        cut,
        entry.read_plain("year"),
        entry.doi,
        entry.arxiv,
    ]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def read_verification(entry: BibEntry) -> Verification | None:
    """The record of an entry, where it is in form, names what has to agree, and the entry was not edited since."""
    parts = {
        match[1]: match[2]
        for part in entry.fields.get("verified", "").split(";")
        if (match := _RECORD_PART_PATTERN.match(part.strip()))
    }
    agreed = tuple(one.strip() for one in parts.pop("agreed", "").split(","))
    try:
        record = Verification.model_validate({**parts, "agreed": agreed})
    except ValidationError:
        return None
    holds = {"title", "authors", "year"} <= set(record.agreed) and record.sha256 == hash_compared(entry)
    return record if holds else None
