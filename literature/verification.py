"""Verify entries: title, authors and year must agree with one work in a catalogue.

The rules are in docs/ideas.md. One catalogue must agree on title, authors and year; another catalogue may confirm an
identifier that the first one lacks. A work is refused if any queried catalogue marks it as retracted; at least one
catalogue that lists retractions must have answered. If a catalogue fails, an entry is unverified rather than refused,
unless another answer is decisive (retracted, or the identifier of another work). Only verified entries may be cited.

The verification is stored in the `verified` field of an entry:

    verified = {source: crossref; id: doi:10.1162/neco.1997.9.8.1735; date: 2026-11-21; agreed: title, authors, year;
                sha256: 5f0c...}

The hash covers the compared fields (title, authors, year, DOI, arXiv identifier, without TeX and case). Editing any of
these invalidates the verification; changing braces does not.

Limits: anyone who can edit the file can compute the hash; pages, volume and venue are not compared; namesakes of an
author are not detected; catalogues may not know of a retraction.
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
from labwright.literature.works import CatalogueAnswers, PublishedWork, WorkCatalogue
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.whole_numbers import parse_whole_number

_RECORD_PART_PATTERN = re.compile(r"^(source|id|date|agreed|sha256):\s*(.+)$", re.DOTALL)


class Verification(FrozenModel):
    """Proof that an entry agrees with a source."""

    source: str = Field(min_length=1, description="a catalogue's name, or `by hand` with the pages consulted")
    id: str = Field(min_length=1, description="as `Work.identifier`")
    date: datetime.date
    agreed: tuple[str, ...] = Field(min_length=3, description="fields that agree")
    sha256: str = Field(pattern=r"^[0-9a-f]{32}$", description="first half of the hash of the compared fields")

    def __str__(self) -> str:
        return (
            f"source: {self.source}; id: {self.id}; date: {self.date}; agreed: {', '.join(self.agreed)}; "
            f"sha256: {self.sha256}"
        )


class VerificationOutcome(FrozenModel):
    """Result of a verification: a catalogue agrees, the catalogues contradict the entry, or the entry could not be
    looked up.
    """

    outcome: Literal["verified", "refused", "unverified"]
    reason: str = Field(default="", description="why it must not be cited; empty if verified")
    verification: Verification | None = None
    abstract: str = ""


async def verify_entry(
    entry: BibEntry, sources: Sequence[WorkCatalogue], *, today: datetime.date, timeout: float
) -> VerificationOutcome:
    """Verify an entry within `timeout` seconds.

    Catalogues that list retractions are always queried, the others only if those do not verify the entry.
    """
    if missing := [name for name in ("title", "author", "year") if not entry.read_plain(name)]:
        return VerificationOutcome(outcome="refused", reason=f"it has no {' and no '.join(missing)}")
    if not sources:
        return VerificationOutcome(
            outcome="unverified", reason="no catalogue is configured (literature.sources is empty)"
        )
    answers = CatalogueAnswers(timeout)
    await answers.collect(
        [source for source in sources if source.lists_retractions], lambda source: source.find(entry.work_query)
    )
    if _decide_outcome(entry, answers, sources, today).outcome != "verified":
        others = [source for source in sources if not source.lists_retractions]
        await answers.collect(others, lambda source: source.find(entry.work_query))
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
        and any(source.lists_retractions and source.name in answers.works_by_catalogue for source in sources)
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
        reason = f"no queried catalogue lists its {' or '.join(missing)} for this work"
    else:
        reason = "no catalogue that lists retractions answered" if works else _explain_no_match(entry, answers, every)
    if answers.failure_by_catalogue:
        reason = f"{reason}; without an answer: {'; '.join(answers.failure_by_catalogue.values())}"
    refused = not answers.failure_by_catalogue and (missing or not works)
    return VerificationOutcome(outcome="refused" if refused else "unverified", reason=reason)


def _explain_no_match(entry: BibEntry, answers: CatalogueAnswers, works: Sequence[PublishedWork]) -> str:
    """Explain why no work matches, i.e. how the closest work with the same title differs."""
    if not answers.works_by_catalogue:
        return "no catalogue answered"
    alike = [
        find_disagreements(entry, work)
        for work in works
        if is_same_title(entry.fields["title"], work.title, work.subtitle)
    ]
    return "; ".join(min(alike, key=len)) if alike else "no catalogue that answered has a work with this title"


def find_disagreements(entry: BibEntry, work: PublishedWork) -> tuple[str, ...]:
    """Return the differences in title, authors and year between an entry and a work."""
    found: list[str] = []
    if not is_same_title(entry.fields["title"], work.title, work.subtitle):
        found.append(f"the source has the title {work.title[:160]!r}")
    if why := explain_author_mismatch(entry.fields["author"], work.authors, known_cut=work.cut):
        found.append(why)
    year = entry.read_plain("year")
    if parse_whole_number(year) not in work.years:
        found.append(f"the year is {year!r}, {work.source} lists {', '.join(map(str, work.years)) or 'none'}")
    return tuple(found)


# --- the record of a verification -----------------------------------------------------------------------------------


def hash_compared(entry: BibEntry) -> str:
    """Return the first half of the hash of the compared fields."""
    names, cut = parse_authors(entry.fields.get("author", ""))
    content = [
        build_title_key(entry.fields.get("title", "")),
        [normalise_text(name) for name in names],
        cut,
        entry.read_plain("year"),
        entry.doi,
        entry.arxiv,
    ]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def read_verification(entry: BibEntry) -> Verification | None:
    """Return the verification of an entry if it is well-formed and complete and the entry has not been edited since."""
    parts = {
        match[1]: match[2]
        for part in entry.fields.get("verified", "").split(";")
        if (match := _RECORD_PART_PATTERN.match(part.strip()))
    }
    agreed = tuple(name.strip() for name in parts.pop("agreed", "").split(","))
    try:
        record = Verification.model_validate({**parts, "agreed": agreed})
    except ValidationError:
        return None
    holds = {"title", "authors", "year"} <= set(record.agreed) and record.sha256 == hash_compared(entry)
    return record if holds else None
