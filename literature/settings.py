"""Settings of the catalogues of works: which are asked, where, how fast and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from record.nouns.frozen import Frozen

SourceName = Literal["openalex", "crossref", "semantic_scholar", "arxiv"]
SOURCES: tuple[SourceName, ...] = get_args(SourceName)

ADDRESSES: dict[SourceName, str] = {
    "openalex": "https://api.openalex.org", "crossref": "https://api.crossref.org",
    "semantic_scholar": "https://api.semanticscholar.org/graph/v1", "arxiv": "https://export.arxiv.org/api",
}
INTERVALS: dict[SourceName, float] = {"openalex": 0.15, "crossref": 0.25, "semantic_scholar": 1.1, "arxiv": 3.0}
"""Seconds between requests at least, within what each catalogue asks for of those without a contract."""


class LiteratureSettings(Frozen):
    """Where published works are looked up. Keys are no settings: they are never recorded (`Credentials`)."""

    sources: tuple[SourceName, ...] = Field(
        default=SOURCES, description="catalogues of published works that are asked; []: none, nothing is verified anew")
    addresses: dict[SourceName, str] = Field(
        default_factory=dict[SourceName, str], description="base URL of a catalogue, where it is not the public one")
    intervals: dict[SourceName, float] = Field(
        default_factory=dict[SourceName, float],
        description="seconds between requests to a catalogue at least, where they are not the usual ones")
    timeout: float = Field(
        default=15.0, gt=0, le=120, allow_inf_nan=False, description="seconds for one request to a catalogue")
    lookup_timeout: float = Field(
        default=60.0, gt=0, le=600, allow_inf_nan=False, description="seconds for one reference or one search, over "
                                                                     "all catalogues, waits and retries included")
    library_timeout: float = Field(
        default=600.0, gt=0, le=7200, allow_inf_nan=False, description="seconds for a whole library of references")
    retries: int = Field(default=2, ge=0, le=5, description="further tries at a request that failed or was too early")
    longest_wait: float = Field(
        default=20.0, ge=0, le=120, allow_inf_nan=False, description="seconds that are waited for a busy catalogue at "
                                                                     "most; one that asks for more is left alone")
    cache: Path = Field(
        default=Path("~/.cache/scientist/literature"), description="folder that catalogues' answers are kept in, from "
                                                                   "the working directory if it is relative")
    cache_days: float = Field(
        default=30.0, ge=0, allow_inf_nan=False, description="days that an answer is kept; an empty one a tenth; 0: "
                                                             "no answer is kept")
    cache_mb: float = Field(
        default=100.0, gt=0, allow_inf_nan=False, description="room for kept answers (10^6 bytes); the oldest go first")


@dataclass(frozen=True)
class Credentials:
    """What the environment holds for the catalogues; never recorded, never shown."""

    semantic_scholar: str = ""
    """A key (S2_API_KEY), sent to Semantic Scholar alone."""
    mail: str = ""
    """An address (OPENALEX_MAIL_ADDRESS), sent to OpenAlex and Crossref: they serve those faster who leave one."""

    def __repr__(self) -> str:
        return "Credentials()"
