"""Settings of what the stages make besides the tree: figures and the paper."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from record.nouns import Frozen


class PaperSettings(Frozen):
    """How the paper is made."""

    template: str = Field(default="workshop", description="a folder in templates_latex/")
    bib: Path | None = Field(default=None, description="a .bib file with verified entries that may be cited")
    reflections: int = Field(default=3, ge=0, le=10, description="rounds in which the reflector may edit")
    replots: int = Field(default=2, ge=0, le=5, description="further tries at figures that were refused")
    timeout: float = Field(default=120.0, gt=0, description="seconds for one compilation")
    judge: bool = Field(default=True, description="have the finished paper judged, as the last step of a run")
