"""The record of a verification, as it stands in an entry's `verified` field.

    verified = {source: crossref; id: doi:10.1162/neco.1997.9.8.1735; date: 2026-11-21; agreed: title, authors, year;
                sha256: 5f0c...}

The hash is over what was compared (title, authors, year, DOI, arXiv identifier, without TeX and case): an entry that
was edited there since is no longer verified, one that was set in other braces is.

What it does not guarantee: who wrote the record. It is no signature: whoever can edit the file can compute the hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import date

from pydantic import Field, ValidationError

from literature.library import Entry
from literature.names import authors_in
from literature.tex import folded
from literature.titles import pressed
from record.nouns.frozen import Frozen

_PART = re.compile(r"^(source|id|date|agreed|sha256):\s*(.+)$", re.DOTALL)


class Verification(Frozen):
    """That an entry is what a source says."""

    source: str = Field(min_length=1, description="a catalogue's name, or `by hand` with the pages that were looked at")
    id: str = Field(min_length=1, description="as `Work.identifier`")
    date: date
    agreed: tuple[str, ...] = Field(min_length=3, description="fields that were compared and agree")
    sha256: str = Field(pattern=r"^[0-9a-f]{32}$", description="first half of the hash over what was compared")

    def __str__(self) -> str:
        return (f"source: {self.source}; id: {self.id}; date: {self.date}; agreed: {', '.join(self.agreed)}; "
                f"sha256: {self.sha256}")


def compared_sha256(entry: Entry) -> str:
    """Over what of an entry a source is held against."""
    names, cut = authors_in(entry.fields.get("author", ""))
    content = [pressed(entry.fields.get("title", "")), [folded(one) for one in names], cut, entry.plain("year"),
               entry.doi, entry.arxiv]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def verification_of(entry: Entry) -> Verification | str:
    """The record of an entry that still holds; else why there is none."""
    text = entry.fields.get("verified", "")
    if not text.strip():
        return "it has no record of a verification"
    parts = {match[1]: match[2] for part in text.split(";") if (match := _PART.match(part.strip()))}
    agreed = tuple(one.strip() for one in parts.pop("agreed", "").split(","))
    try:
        found = Verification.model_validate({**parts, "agreed": agreed})
    except ValidationError:
        return "its record of a verification is not in the form `source: ; id: ; date: ; agreed: ; sha256: `"
    if missing := [name for name in ("title", "authors", "year") if name not in found.agreed]:
        return f"its record does not say that {' and '.join(missing)} agreed"
    if found.sha256 != compared_sha256(entry):
        return f"it was edited since it was verified on {found.date}"
    return found


def has_record(entry: Entry) -> bool:
    """Whether an entry is verified by a record of its own that still holds."""
    return isinstance(verification_of(entry), Verification)
