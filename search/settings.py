"""Settings of the search. Counts of nodes are limits; replicates and aggregates come on top."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import StageName

RETRY_FACTOR = 1.5
"""How many times the limit an attempt gets that ran out of time: twice would double the longest wait of a run."""
STAGE_TIME_SHARE = 0.4
"""Share of the run's time limit that a stage without a limit of its own may take: one that drags on leaves the others
more than half."""


class StageLimits(FrozenModel):
    """Hard limits of one stage, all that it tries included. Source of the counts: AI-Scientist-v2, table 3."""

    nodes: int = Field(default=12, ge=1, description="search nodes: drafts, debugs, improvements, tunings, ablations")
    time_limit: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="seconds; None: 40 % of the run's time limit"
    )
    num_seeds: int | None = Field(default=None, ge=0, description="replicates a target; None: search.num_seeds")


class SearchSettings(FrozenModel):
    """How the tree is searched."""

    policy: Literal["best-first", "chain"] = Field(
        default="best-first", description="chain: one line of work without a tree, for comparison"
    )
    num_workers: int = Field(default=2, ge=1, le=256, description="experiments that run at the same time")
    lookahead: int = Field(
        default=2, ge=0, description="least number of nodes written ahead while all workers are busy; 0: none"
    )
    order: Literal["arrival", "ticket"] = Field(
        default="arrival", description="arrival: fastest; ticket: the same seed and window give the same tree"
    )
    window: int | None = Field(
        default=None, ge=1, description="ticket: decision k waits for results up to k - window; None: 3 x num_workers"
    )
    num_drafts: int = Field(default=3, ge=1, description="independent first drafts in the preliminary stage")
    max_debug_depth: int = Field(default=3, ge=0, description="debug attempts in a row; AI-Scientist-v2, table 3")
    debug_prob: float = Field(default=1.0, ge=0, le=1, description="chance of debugging a buggy leaf first; table 3")
    num_seeds: int = Field(
        default=5,
        ge=0,
        description="replicates of a stage's best, each with another seed; those of the tuned one are the pilot",
    )
    max_seeds: int = Field(
        default=20,
        ge=0,
        description="most fresh seeds of what the paper reports, where the pilot's spread asks for "
        "more than agenda.num_seeds",
    )
    planned_ablations: int = Field(
        default=5,
        ge=0,
        le=12,
        description="ablations planned before the last stage, which runs them in order; 0: "
        "none, it follows the idea's risk factors",
    )
    ladder: bool = Field(default=True, description="measure two reference arms of the program's own (docs/search.md)")
    prune: bool = Field(default=True, description="stop experiments that have no prospect of success (docs/search.md)")
    silent_timeout: float | None = Field(
        default=None,
        gt=0,
        description="arrival: seconds without output after which code is stopped; by default "
        "half of sandbox.timeout, and 60 at least",
    )
    grace: float = Field(default=20.0, ge=0, description="seconds that running nodes get after a request to stop")
    preliminary: StageLimits = StageLimits(nodes=21)
    tuning: StageLimits = StageLimits()
    agenda: StageLimits = StageLimits()
    ablation: StageLimits = StageLimits()

    def find_limits(self, stage: StageName) -> StageLimits:
        """The limits of a stage."""
        return getattr(self, stage)

    def count_seeds(self, stage: StageName) -> int:
        """How many replicates a target of this stage gets at least."""
        own = self.find_limits(stage).num_seeds
        return self.num_seeds if own is None else own

    @property
    def effective_window(self) -> int:
        return self.window if self.window is not None else 3 * self.num_workers
