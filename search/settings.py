"""Settings of the search. Counts of nodes are ceilings; replicates and aggregates come on top."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from record.nouns import Frozen, StageName


class StageLimits(Frozen):
    """Ceilings of one stage. Source of the defaults: AI-Scientist-v2, table 3."""

    nodes: int = Field(default=12, ge=1, description="search nodes: drafts, debugs, improvements, tunings, ablations")
    num_seeds: int | None = Field(default=None, ge=0, description="replicates a target; None: search.num_seeds")


class SearchSettings(Frozen):
    """How the tree is searched."""

    num_workers: int = Field(default=2, ge=1, le=256, description="experiments that run at the same time")
    lookahead: int = Field(default=2, ge=0, description="nodes whose code may be written while all workers are busy")
    order: Literal["arrival", "ticket"] = Field(
        default="arrival", description="arrival: fastest; ticket: the same seed and window give the same tree")
    window: int | None = Field(
        default=None, ge=1, description="ticket: decision k waits for results up to k - window; None: 3 x num_workers")
    num_drafts: int = Field(default=3, ge=1, description="independent first drafts in the preliminary stage")
    max_debug_depth: int = Field(default=3, ge=0, description="debug attempts in a row; AI-Scientist-v2, table 3")
    debug_prob: float = Field(default=1.0, ge=0, le=1, description="share of picks with a buggy leaf first; table 3")
    num_seeds: int = Field(default=3, ge=0, description="replicates of a stage's best, each with another seed")
    min_tuned: int = Field(default=3, ge=1, description="hyperparameter nodes that must run before tuning may end")
    grace: float = Field(default=20.0, ge=0, description="seconds that running nodes get after a request to stop")
    preliminary: StageLimits = StageLimits(nodes=21)
    tuning: StageLimits = StageLimits()
    agenda: StageLimits = StageLimits()
    ablation: StageLimits = StageLimits()

    def limits(self, stage: StageName) -> StageLimits:
        """The ceilings of a stage."""
        return getattr(self, stage)

    def seeds(self, stage: StageName) -> int:
        """How many replicates a target of this stage gets."""
        own = self.limits(stage).num_seeds
        return self.num_seeds if own is None else own

    @property
    def effective_window(self) -> int:
        return self.window if self.window is not None else 3 * self.num_workers
