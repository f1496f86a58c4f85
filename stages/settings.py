"""Settings of what the stages make besides the tree: figures and the paper."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel

MAX_PLAN_CALLS = 3
"""How often a data plan that names what does not exist is shown its faults."""
MAX_PRIOR_PAPERS = 5
"""Papers that are read for what they used, before the plan: the user's own first."""
MAX_REVIEW_CALLS = 2
"""Calls of the plan's reviewer: findings, and which of them still hold."""
MAX_AMEND_CALLS = 2
"""Calls of the planner for a plan that answers the findings."""
MAX_OUTLINE_CALLS = 2
"""Calls for the outline at most: what the second one leaves wrong is fixed by rule."""
MAX_ABLATION_PLAN_CALLS = 2
"""Calls for a plan of ablations at most: of what the second one gives, what cannot be used is left out."""
MAX_CITATION_QUERIES = 5
"""Searches of a round of gathering at most: more would be about lesser claims."""
MAX_REVISION_ROUNDS = 2
"""Rounds of the reflector after missing ablations: one to report them, one to fix what that broke."""


class PaperSettings(FrozenModel):
    """How the paper is made."""

    template: str = Field(
        default="workshop", description="workshop, conference, or a folder of your own (docs/paper.md)"
    )
    bib: Path | None = Field(default=None, description="a .bib file with verified entries that may be cited")
    papers: Path | None = Field(
        default=None, description="a folder of PDFs: those that a catalogue knows may be cited as well"
    )
    citation_rounds: int = Field(
        default=3,
        ge=0,
        le=20,
        description="rounds of looking for works to cite in the first draft; 0: no catalogue is asked",
    )
    checklist: bool = Field(
        default=False, description="the checklist of NeurIPS after the appendix, answered from the record where it can"
    )
    sections_per_call: int = Field(default=4, ge=0, description="sections that one call of the writer writes; 0: all")
    reflections: int = Field(default=3, ge=0, le=10, description="rounds in which the reflector may edit")
    missing_ablations: int = Field(
        default=2,
        ge=0,
        le=2,
        description="ablations that a reviewer of the draft may ask for, which are then run; 0: nobody asks",
    )
    replots: int = Field(default=2, ge=0, le=5, description="times that refused figures are drawn again")
    timeout: float = Field(default=120.0, gt=0, description="seconds for one compilation")
    judge: bool = Field(default=True, description="have the finished paper judged, as the last step of a run")

    def count_writer_calls(self, sections: int) -> int:
        """Calls of the writer for so many sections."""
        return -(-sections // self.sections_per_call) if self.sections_per_call else 1
