"""The most that each part of a run may take: what its budget leaves free until the part is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from labwright.models import roles
from labwright.models.budget import most_of_call
from labwright.models.roles.influence import MOST_CALLS
from labwright.models.roles.role import AnyRole
from labwright.models.roles.writing import MOST_SECTIONS
from labwright.models.settings import ModelSettings
from labwright.record.nouns.decisions import (
    ABLATION_PLAN,
    MISSING_ABLATIONS,
    Action,
    Compare,
    Expand,
    Spending,
    Work,
    summary_of,
)
from labwright.record.nouns.nodes import STAGES
from labwright.review.honesty.probe import TASK
from labwright.search.settings import RETRY_FACTOR, SearchSettings
from labwright.stages.digests import CONTEXT
from labwright.stages.digests import ROUNDS as DIGESTS
from labwright.stages.settings import (
    AMENDS,
    OUTLINES,
    PLANNINGS,
    PLANS,
    PRIOR_PAPERS,
    REVIEWS,
    REVISIONS,
    PaperSettings,
)


def look_task(number: int) -> str:
    """The step that looks at the figures in the PDF of a draft, by its round."""
    return f"look at the figures of round {number}"


def scope_task(number: int) -> str:
    """The step that holds what a draft claims against what was decided, by its round."""
    return f"scope of round {number}"


@dataclass(frozen=True)
class RunShares:
    """`models.budget.Shares` of a run as it is set. `gpus` tells those of one experiment, 0 on the CPU: a plan may ask
    for more than the settings do."""

    models: ModelSettings
    search: SearchSettings
    paper: PaperSettings
    node_seconds: float
    gpus: Callable[[], int] = lambda: 0
    documents: int = 0
    """Papers and notes of the user's that are summarised before the plan."""
    prior: int = PRIOR_PAPERS
    """Full texts that are read for what they used."""
    grace: float = 0.0
    """Seconds that code may run over its limit, each cell of those that run at once."""
    planner: AnyRole = roles.PLAN

    def steps(self) -> Mapping[str, Spending]:
        """Every step outside the search that a run takes, by its task."""
        return {**self._steps, TASK: self._steps[TASK] + self.attempt(self.node_seconds * RETRY_FACTOR)}  # the first
        # permutation of labels

    @cached_property
    def _steps(self) -> Mapping[str, Spending]:
        paper, call = self.paper, self._call
        looks, missing = paper.replots + 1, bool(paper.missing_ablations)
        rounds = paper.reflections + (1 + REVISIONS) * missing  # versions of the text that may be looked at
        return {
            CONTEXT: call(roles.DIGEST) * (self.documents * DIGESTS),
            "prepare": (
                call(roles.PRIOR_SEARCH)
                + call(roles.PRIOR_WORK) * self.prior
                + call(self.planner) * (PLANS + AMENDS)
                + call(roles.PROTOCOL_REVIEW) * REVIEWS
            ),
            **{summary_of(stage).task: call(roles.SUMMARY) for stage in STAGES},
            "figures": call(roles.FIGURES, roles.VISION) * looks,
            "write": call(roles.OUTLINE) * OUTLINES + call(roles.WRITE) * (paper.writings(MOST_SECTIONS) + 2),
            "cite": call(roles.CITE_ASK, roles.CITE_SELECT) * paper.citation_rounds,
            "reflect": call(roles.REFLECT) * paper.reflections,
            ABLATION_PLAN.task: call(roles.ABLATION_PLAN) * PLANNINGS * bool(self.search.planned_ablations),
            MISSING_ABLATIONS.task: (call(roles.MISSING_ABLATIONS) * PLANNINGS + call(roles.REFLECT) * REVISIONS)
            * missing
            + call(roles.CODE_READER) * paper.missing_ablations,
            TASK: call(roles.CODE_READER) * (1 + self.search.ablation.nodes),
            **{look_task(number): call(roles.FIGURE_REVIEW) for number in range(rounds)},
            **{scope_task(number): call(roles.SCOPE, roles.READER) for number in range(rounds + 1)},
            "judge": (call(roles.INFLUENCE) * MOST_CALLS + call(roles.JUDGE)) * paper.judge,
        }

    @property
    def paper_share(self) -> Spending:
        """All steps together: what is set aside from the start."""
        return sum(self.steps().values(), start=Spending())

    def of(self, action: Action) -> Spending:
        """The most that an action may take; a node of the search gets one attempt more, with a longer limit.

        Plots are written and looked at; one of these two calls is more than a node makes, whose first plots come with
        its code.
        """
        attempts = self.attempt(self.node_seconds) + self.attempt(self.node_seconds * RETRY_FACTOR)
        drawn = self._call(roles.PLOT, roles.VISION) * (self.paper.replots + 1)
        match action:
            case Expand(kind="replicate" | "trial" | "rung"):
                return attempts
            case Expand(kind="tune"):
                return attempts + self._call(roles.FEEDBACK) + drawn
            case Expand(kind="aggregate"):
                return drawn
            case Expand():
                return attempts + self._call(roles.CODE, roles.FEEDBACK) + drawn
            case Compare():
                return self._call(roles.COMPARE)
            case Work():
                return self.steps().get(action.task, Spending())
            case _:
                return Spending()

    def attempt(self, limit: float) -> Spending:
        """The most that one execution with a limit in seconds takes."""
        return Spending(gpu_seconds=(limit + self.grace * self.search.num_workers) * self.gpus())

    def _call(self, *asked: AnyRole) -> Spending:
        """The most that one call of each takes."""
        return sum((most_of_call(self.models, role, role.prompt_tokens) for role in asked), start=Spending())
