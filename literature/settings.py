"""Settings of the catalogues of works: which are asked, where and for how long, and what answers are kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel

CatalogueName = Literal["openalex", "crossref", "semantic_scholar", "arxiv"]
CATALOGUE_NAMES: tuple[CatalogueName, ...] = get_args(CatalogueName)


class LiteratureSettings(FrozenModel):
    """Where published works are looked up. Keys are no settings: they are never recorded (`Credentials`)."""

    sources: tuple[CatalogueName, ...] = Field(
        default=CATALOGUE_NAMES,
        description="catalogues of published works that are asked; []: none, nothing is verified anew",
    )
    addresses: dict[CatalogueName, str] = Field(
        default_factory=dict[CatalogueName, str], description="base URL of a catalogue, where it is not the public one"
    )
    timeout: float = Field(
        default=15.0, gt=0, le=120, allow_inf_nan=False, description="seconds for one request to a catalogue"
    )
    cache: Path = Field(
        default=Path("~/.cache/scientist/literature"),
        description="folder that catalogues' answers are kept in, from the working directory if it is relative",
    )
    cache_days: float = Field(
        default=30.0,
        ge=0,
        allow_inf_nan=False,
        description="days that an answer is kept; an empty one a tenth; 0: no answer is kept",
    )


@dataclass(frozen=True)
class CatalogueCredentials:
    """What the environment holds for the catalogues; never recorded, never shown."""

    semantic_scholar: str = ""
    """A key (S2_API_KEY), sent to Semantic Scholar alone."""
    mail: str = ""
    """An address (OPENALEX_MAIL_ADDRESS), sent to OpenAlex and Crossref: they serve those faster who leave one."""

    def __repr__(self) -> str:
        return "Credentials()"

    def build_parameters(self, source: CatalogueName) -> dict[str, str]:
        """Sent with each question to a catalogue."""
        return {"mailto": self.mail} if self.mail and source in ("openalex", "crossref") else {}

    def build_headers(self, source: CatalogueName) -> dict[str, str]:
        """Sent with each question to a catalogue."""
        return {"x-api-key": self.semantic_scholar} if self.semantic_scholar and source == "semantic_scholar" else {}
