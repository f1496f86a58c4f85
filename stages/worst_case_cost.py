"""Worst-case cost of each part of a run, which the budget reserves until the part is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from labwright.models import roles
from labwright.models.budget import compute_max_call_cost
from labwright.models.roles.injection_reader import MAX_CALLS
from labwright.models.roles.paper_writing import MAX_SECTIONS
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    MISSING_ABLATIONS_TASK,
    CompareNodes,
    Cost,
    ExpandTree,
    RunTask,
    SearchAction,
    build_summary_task,
)
from labwright.record.schema.nodes import STAGES
from labwright.review.honesty.label_probe import PROBE_TASK
from labwright.search.settings import RETRY_FACTOR, SearchSettings
from labwright.stages.document_summaries import CONTEXT_TASK, MAX_DIGEST_ROUNDS
from labwright.stages.settings import (
    MAX_ABLATION_PLAN_CALLS,
    MAX_AMEND_CALLS,
    MAX_OUTLINE_CALLS,
    MAX_PLAN_CALLS,
    MAX_PRIOR_PAPERS,
    MAX_REVIEW_CALLS,
    MAX_REVISION_ROUNDS,
    PaperSettings,
)


def format_figure_review_task(number: int) -> str:
    """Return the task that reviews the figures in the PDF of a draft, by its round."""
    return f"look at the figures of round {number}"


def format_overclaim_task(number: int) -> str:
    """Return the task that compares a draft's claims with the decided hypotheses, by its round."""
    return f"scope of round {number}"


@dataclass(frozen=True)
class WorstCaseCosts:
    """Worst-case costs of a run under its settings (implements `models.budget.CostReservations`).

    `gpus` returns the number of GPUs per experiment, 0 on the CPU: a plan may request more GPUs than the settings.
    """

    models: ModelSettings
    search: SearchSettings
    paper: PaperSettings
    node_seconds: float
    gpus: Callable[[], int] = lambda: 0
    documents: int = 0
    """Number of the user's papers and notes that are summarised before planning."""
    prior_papers: int = MAX_PRIOR_PAPERS
    """Maximum number of papers whose full text is read for the items that they used."""
    grace_seconds: float = 0.0
    """Seconds that code may exceed its limit, for each of the cells that run in parallel."""
    planner: AnyRole = roles.PLAN

    def compute_step_costs(self) -> Mapping[str, Cost]:
        """Return the worst-case cost of every step outside the search, by task."""
        return {
            **self._step_costs,
            PROBE_TASK: self._step_costs[PROBE_TASK] + self.compute_attempt_cost(self.node_seconds * RETRY_FACTOR),
        }  # includes the first label permutation

    @cached_property
    def _step_costs(self) -> Mapping[str, Cost]:
        paper, call = self.paper, self._compute_call_cost
        reviews, missing = paper.replots + 1, bool(paper.missing_ablations)
        rounds = paper.reflections + (1 + MAX_REVISION_ROUNDS) * missing  # drafts that may be reviewed
        return {
            CONTEXT_TASK: call(roles.DIGEST) * (self.documents * MAX_DIGEST_ROUNDS),
            "prepare": (
                call(roles.PRIOR_SEARCH)
                + call(roles.PRIOR_WORK) * self.prior_papers
                + call(self.planner) * (MAX_PLAN_CALLS + MAX_AMEND_CALLS)
                + call(roles.PROTOCOL_REVIEW) * MAX_REVIEW_CALLS
            ),
            **{build_summary_task(stage).task: call(roles.SUMMARY) for stage in STAGES},
            "figures": call(roles.FIGURES, roles.VISION) * reviews,
            "write": call(roles.OUTLINE) * MAX_OUTLINE_CALLS
            + call(roles.WRITE) * (paper.count_writer_calls(MAX_SECTIONS) + 2),
            "cite": call(roles.CITE_ASK, roles.CITE_SELECT) * paper.citation_rounds,
            "reflect": call(roles.REFLECT) * paper.reflections,
            ABLATION_PLAN_TASK.task: call(roles.ABLATION_PLAN)
            * MAX_ABLATION_PLAN_CALLS
            * bool(self.search.planned_ablations),
            MISSING_ABLATIONS_TASK.task: (
                call(roles.MISSING_ABLATIONS) * MAX_ABLATION_PLAN_CALLS + call(roles.REFLECT) * MAX_REVISION_ROUNDS
            )
            * missing
            + call(roles.CODE_READER) * paper.missing_ablations,
            PROBE_TASK: call(roles.CODE_READER) * (1 + self.search.ablation.nodes),
            **{format_figure_review_task(number): call(roles.FIGURE_REVIEW) for number in range(rounds)},
            **{format_overclaim_task(number): call(roles.SCOPE, roles.READER) for number in range(rounds + 1)},
            "judge": (call(roles.INFLUENCE) * MAX_CALLS + call(roles.JUDGE)) * paper.judge,
        }

    @property
    def total_step_cost(self) -> Cost:
        """The cost of all steps together, which is reserved from the start."""
        return sum(self.compute_step_costs().values(), start=Cost())

    def compute_action_cost(self, action: SearchAction) -> Cost:
        """Return the worst-case cost of an action; a search node may have one further attempt with a longer limit.

        Plots are written and reviewed. This counts one call more than a node makes, since its first plots come with its
        code.
        """
        attempts = self.compute_attempt_cost(self.node_seconds) + self.compute_attempt_cost(
            self.node_seconds * RETRY_FACTOR
        )
        plots = self._compute_call_cost(roles.PLOT, roles.VISION) * (self.paper.replots + 1)
        match action:
            case ExpandTree(kind="replicate" | "trial" | "rung"):
                return attempts
            case ExpandTree(kind="tune"):
                return attempts + self._compute_call_cost(roles.FEEDBACK) + plots
            case ExpandTree(kind="aggregate"):
                return plots
            case ExpandTree():
                return attempts + self._compute_call_cost(roles.CODE, roles.FEEDBACK) + plots
            case CompareNodes():
                return self._compute_call_cost(roles.COMPARE)
            case RunTask():
                return self.compute_step_costs().get(action.task, Cost())
            case _:
                return Cost()

    def compute_attempt_cost(self, limit: float) -> Cost:
        """Return the worst-case cost of one execution with a time limit in seconds."""
        return Cost(gpu_seconds=(limit + self.grace_seconds * self.search.num_workers) * self.gpus())

    def _compute_call_cost(self, *requested: AnyRole) -> Cost:
        """Return the worst-case cost of one call of each role."""
        return sum((compute_max_call_cost(self.models, role, role.prompt_tokens) for role in requested), start=Cost())
