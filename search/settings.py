"""Settings of the search. Counts of nodes are limits; replicates and aggregates are additional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import StageName

RETRY_FACTOR = 1.5
"""Factor on the time limit of a retry after a timeout; 2 would double the longest wait of a run."""
FAILED_REPAIRS = 2
"""Repairs of one program that fail, each in another way, before `author=auto` gives it to an author with tools."""
NUM_PLANNING_SEEDS = 3
"""Number of paired seeds of the tuned node from which the number of fresh seeds is planned: the fewest that show a
spread. A wrong guess costs a look at the results, not the study."""
STAGE_TIME_SHARE = 0.4
"""Share of the run's time limit for a stage without its own limit; so one slow stage leaves more than half of the time
for the others."""


class StageLimits(FrozenModel):
    """Hard limits of one stage, including all its attempts. Source of the counts: AI-Scientist-v2, table 3."""

    nodes: int = Field(
        default=12, ge=1, description="maximum number of search nodes: drafts, debugs, improvements, tunings, ablations"
    )
    time_limit: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="seconds; None: 40 % of the run's time limit"
    )
    num_seeds: int | None = Field(
        default=None,
        ge=0,
        description="replicates; None: search.num_seeds; in tuning at most three, which plan the number of fresh "
        "seeds; in preliminary none; of ablations as many as time allows",
    )


class SearchSettings(FrozenModel):
    """Settings of the tree search."""

    policy: Literal["best-first", "chain"] = Field(
        default="best-first", description="best-first: tree search; chain: a single line of nodes, for comparison"
    )
    num_workers: int = Field(default=2, ge=1, le=256, description="number of concurrent experiments")
    lookahead: int = Field(
        default=2, ge=0, description="minimum number of nodes written ahead while all workers are busy; 0: none"
    )
    order: Literal["arrival", "ticket"] = Field(
        default="arrival",
        description="arrival: fastest; ticket: reproducible, since the same seed and window give the same tree",
    )
    window: int | None = Field(
        default=None, ge=1, description="ticket: decision k waits for results up to k - window; None: 3 x num_workers"
    )
    num_drafts: int = Field(
        default=3,
        ge=1,
        description="first drafts in the preliminary stage, of different designs; one if the plan leaves nothing open",
    )
    max_debug_depth: int = Field(
        default=3, ge=0, description="maximum consecutive debug attempts; AI-Scientist-v2, table 3"
    )
    author: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="whether an author, a model that works with tools (docs/models.md), writes programs of own-data "
        "studies. auto: only where two repairs in a row failed, or one in the same way; always: every program; never: "
        "each is one answer",
    )
    debug_prob: float = Field(
        default=1.0, ge=0, le=1, description="probability of debugging a buggy leaf first; AI-Scientist-v2, table 3"
    )
    num_seeds: int = Field(
        default=5, ge=0, description="replicates of a reported node, each with its own seed, and of each ablation"
    )
    max_seeds: int = Field(
        default=100,
        ge=0,
        description="maximum number of fresh seeds for reported results, if the spread between planning seeds "
        "requires more than agenda.num_seeds and there is time for them",
    )
    max_trials: int | None = Field(
        default=None,
        ge=1,
        description="maximum tuning trials per arm in a plan made by the planner; None: as it decides",
    )
    planned_ablations: int = Field(
        default=5,
        ge=0,
        le=12,
        description="ablations planned before the last stage, which runs them in order; 0: "
        "no plan, ablate the idea's risk factors",
    )
    ladder: bool = Field(default=True, description="measure two built-in reference models (docs/search.md)")
    prune: bool = Field(default=True, description="stop search nodes that are silent (docs/search.md)")
    silent_timeout: float | None = Field(
        default=None,
        gt=0,
        description="with order arrival: seconds without output after which code is stopped; default: "
        "half of sandbox.timeout, at least 60",
    )
    grace: float = Field(
        default=20.0, ge=0, description="seconds that running nodes get to finish after a stop request"
    )
    preliminary: StageLimits = StageLimits(nodes=21)
    tuning: StageLimits = StageLimits()
    agenda: StageLimits = StageLimits()
    ablation: StageLimits = StageLimits()

    def find_limits(self, stage: StageName) -> StageLimits:
        """Return the limits of a stage."""
        return getattr(self, stage)

    def count_seeds(self, stage: StageName) -> int:
        """Return the minimum number of replicates of a target in this stage."""
        own = self.find_limits(stage).num_seeds
        usual = {"preliminary": 0, "tuning": min(NUM_PLANNING_SEEDS, self.num_seeds)}.get(stage, self.num_seeds)
        return usual if own is None else own

    def count_drafts(self, choices: Sequence[str]) -> int:
        """Return the number of first drafts of a plan that leaves these choices open; more drafts would be copies."""
        return self.num_drafts if choices else 1

    @property
    def effective_window(self) -> int:
        return self.window if self.window is not None else 3 * self.num_workers
