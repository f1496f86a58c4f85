"""Settings of what the stages make besides the tree: figures and the paper."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from record.nouns import Frozen


class PaperSettings(Frozen):
    """How the paper is made."""

    template: str = Field("workshop", description="a folder in templates_latex/, or the path of your own")
    bib: Path | None = Field(None, description="a .bib file with verified entries that may be cited")
    reflections: int = Field(3, ge=0, le=10, description="rounds in which the reflector may edit")
    replots: int = Field(2, ge=0, le=5, description="further tries at figures that were refused")
    timeout: float = Field(120.0, gt=0, description="seconds for one compilation")
