"""Settings of the catalogues: which ones to query, at which address and for how long, and how long to cache answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel

CatalogueName = Literal["openalex", "crossref", "semantic_scholar", "arxiv"]
CATALOGUE_NAMES: tuple[CatalogueName, ...] = get_args(CatalogueName)


class LiteratureSettings(FrozenModel):
    """Settings of literature lookups. API keys are not settings and are never recorded (`CatalogueCredentials`)."""

    sources: tuple[CatalogueName, ...] = Field(
        default=CATALOGUE_NAMES,
        description="catalogues of published works to query; []: none, so no reference is newly verified",
    )
    addresses: dict[CatalogueName, str] = Field(
        default_factory=dict[CatalogueName, str], description="base URL of a catalogue, if not the public one"
    )
    timeout: float = Field(
        default=15.0, gt=0, le=120, allow_inf_nan=False, description="timeout of one request to a catalogue, in seconds"
    )
    cache: Path = Field(
        default=Path("~/.cache/scientist/literature"),
        description="folder that caches catalogue answers; a relative path starts at the working directory",
    )
    cache_days: float = Field(
        default=30.0,
        ge=0,
        allow_inf_nan=False,
        description="days that an answer is cached; an empty answer is cached for a tenth of that; 0: no caching",
    )


@dataclass(frozen=True)
class CatalogueCredentials:
    """Credentials from the environment, which are never recorded or shown."""

    semantic_scholar: str = ""
    """API key (S2_API_KEY), sent only to Semantic Scholar."""
    mail: str = ""
    """Mail address (OPENALEX_MAIL_ADDRESS), sent to OpenAlex and Crossref, which then answer faster."""

    def __repr__(self) -> str:
        return "Credentials()"

    def build_parameters(self, source: CatalogueName) -> dict[str, str]:
        """Return the query parameters for each request to a catalogue."""
        return {"mailto": self.mail} if self.mail and source in ("openalex", "crossref") else {}

    def build_headers(self, source: CatalogueName) -> dict[str, str]:
        """Return the headers for each request to a catalogue."""
        return {"x-api-key": self.semantic_scholar} if self.semantic_scholar and source == "semantic_scholar" else {}
