"""Settings of figures and paper, and limits on model calls."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from labwright.record.schema import FrozenModel

MAX_PLAN_CALLS = 3
"""Maximum number of planner calls until a data plan has no faults."""
MAX_PRIOR_PAPERS = 5
"""Maximum number of papers read before planning for the datasets and baselines they used; the user's own come first."""
MAX_DIGEST_ROUNDS = 2
"""Maximum number of summary attempts per document: the second corrects wrong page references of the first."""
MAX_REVIEW_CALLS = 2
"""Number of calls of the plan's reviewer: one for findings, and one for the findings that remain."""
MAX_AMEND_CALLS = 2
"""Maximum number of planner calls for a plan that answers the findings."""
MAX_OUTLINE_CALLS = 2
"""Maximum number of calls for the outline; remaining errors of the last one are fixed by rule."""
MAX_ABLATION_PLAN_CALLS = 2
"""Maximum number of calls for a plan of ablations; unusable ablations of the last answer are dropped."""
MAX_CITATION_QUERIES = 5
"""Maximum number of searches per citation round; further searches would concern minor claims."""
MAX_AUTHOR_STEPS = 24
"""Maximum number of tool calls of an author for one program."""
MAX_REVISION_ROUNDS = 2
"""Rounds of the reflector after missing ablations: one to report them, one to fix resulting errors."""

MAX_ADDED_ARMS, MAX_ADDED_SEEDS = 4, 10
"""Maximum number of arms, and of further fresh seeds, that an addendum for reviewers registers."""


class PaperSettings(FrozenModel):
    """Settings of the paper."""

    template: str = Field(
        default="workshop",
        description="workshop, conference, ieee, acm, lncs, a venue with the folder of its official style such as "
        "neurips=FOLDER, or your own template folder (docs/paper.md)",
    )
    anonymous: bool = Field(default=False, description="hide the authors, as in the version of a venue for review")
    bib: Path | None = Field(default=None, description=".bib file of references; verified entries may be cited")
    papers: Path | None = Field(
        default=None, description="folder of PDFs; those found in a catalogue may be cited as well"
    )
    citation_rounds: int = Field(
        default=3, ge=0, le=20, description="rounds of citation search for the first draft; 0: no catalogue is queried"
    )
    checklist: bool = Field(
        default=False,
        description="add the NeurIPS checklist after the appendix, answered from the record where possible",
    )
    sections_per_call: int = Field(default=4, ge=0, description="sections per call of the writer; 0: all")
    reflections: int = Field(default=3, ge=0, le=10, description="maximum rounds of revision by the reflector")
    missing_ablations: int = Field(
        default=2,
        ge=0,
        le=2,
        description="maximum ablations that the draft's reviewer may request, which are then run; 0: no review",
    )
    replots: int = Field(default=2, ge=0, le=5, description="maximum attempts to redraw rejected figures")
    timeout: float = Field(default=120.0, gt=0, description="timeout of one compilation, in seconds")
    judge: bool = Field(default=True, description="judge the finished paper as the last step of a run")

    def count_writer_calls(self, sections: int) -> int:
        """Return the number of writer calls for `sections` sections."""
        return -(-sections // self.sections_per_call) if self.sections_per_call else 1
