"""The model calls and experiments of a run: one table by phase and role.

Forecast, reservations and outlook are computed from this table. `likely` is based on measured runs; `most` is the
maximum that the limits allow. While a run is running, the likely cost of a call is adjusted to the calls that the run
has made.

Limits: token counts come from rendered prompts and one language model's run; a reasoning model writes several times as
much, which the table learns only from the run's first calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from labwright.models import prices, roles
from labwright.models.budget import Priority, compute_max_call_cost
from labwright.models.roles.judge import MAX_CALLS
from labwright.models.roles.paper_writing import MAX_SECTIONS
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import MIN_REPLICATES
from labwright.record.estimands import list_main_arms
from labwright.record.reducers.run_state import RoleUsage, RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    CONTEXT_TASK,
    MISSING_ABLATIONS_TASK,
    PROBE_TASK,
    CompareNodes,
    Cost,
    ExpandTree,
    RunTask,
    SearchAction,
    TokenUsage,
    build_summary_task,
)
from labwright.record.schema.nodes import PHASES, STAGES, Phase
from labwright.record.tuning_results import list_trial_cells
from labwright.search.policy import MAX_LATE_DEBUGS
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import MAX_COMPARISONS
from labwright.stages.settings import (
    MAX_ABLATION_PLAN_CALLS,
    MAX_AMEND_CALLS,
    MAX_AUTHOR_STEPS,
    MAX_DIGEST_ROUNDS,
    MAX_OUTLINE_CALLS,
    MAX_PLAN_CALLS,
    MAX_PRIOR_PAPERS,
    MAX_REVIEW_CALLS,
    MAX_REVISION_ROUNDS,
    PaperSettings,
)

DEBUGS_PER_DRAFT = 0.6
"""Average number of debug nodes per first draft: three of five drafts fail in the offline study."""
FAILURE_RATE = 0.15
"""Share of search nodes that fail or are unsound, so that they need no figure review and no verdict."""
USUAL_SECTIONS = 7
"""Sections of a paper."""
USUAL_MISSING_ABLATIONS = 1
"""Ablations that a reviewer requests, if any: the median of AblationBench, table 2."""
MAX_READER_CALLS = 8
"""Maximum number of calls that read a version: four batches of sentences, each asked twice."""
USUAL_AUTHOR_STEPS = 9
"""Tool calls of an author: 7 to 11 in the studies of three public repositories."""
USUAL_REPLOTS = 0.3
"""Additional plotting attempts per node: 2 of 16 in offline runs, 2 of 3 with a language model."""
REPLICATES = "replicates"
PRIOR_CALLS = 3
"""Calls of typical cost that count besides a run's own calls in the ratio of actual to typical cost."""


class Rank(IntEnum):
    """What is left out if money or tokens run short, lowest rank first; money for higher ranks is set aside."""

    EXTRA = 0
    """Prior work, plan review, figures of nodes, comparisons by a model."""
    SEARCH = 1
    """Code and verdicts of nodes."""
    POLISH = 2
    """Reflections after the first, and citations."""
    FIGURE_REVIEW = 3
    """Review of the paper's figures by a model."""
    JUDGE = 4
    MISSING = 5
    """Ablations that a reviewer of the draft requests."""
    CHECKS = 6
    """Corrected outline, first reflection, claim readers, copy edit, code reader, summaries, figures by a model."""
    NEEDED = 7
    """Plan, outline and sections. Without outline and sections the program writes a report by itself."""


class CostRow(NamedTuple):
    """Calls of a role in a phase, or executions of experiments (`role` is None)."""

    phase: Phase
    role: AnyRole | None
    rank: Rank
    likely: float
    most: float

    @property
    def name(self) -> str:
        """The role's name, `replicates` of the main experiments, or empty for other experiments."""
        if self.role is not None:
            return self.role.name
        return REPLICATES if self.phase == "agenda" and self.rank == Rank.CHECKS else ""


def format_figure_review_task(number: int) -> str:
    """Return the task that reviews the figures in the PDF of a draft, by its round."""
    return f"look at the figures of round {number}"


def format_claims_task(number: int) -> str:
    """Return the task that reads a draft and compares its claims with the record, by its round."""
    return f"claims of round {number}"


COPY_EDIT_TASK = "copy edit"
"""The task that copy-edits the draft before its release."""
SHORTEN_TASK = "shorten the text"
"""The task that asks for a shorter draft before the program moves a figure."""
TASK_PHASES: Mapping[str, Phase] = {
    **{phase: phase for phases in PHASES.values() for phase in phases},
    CONTEXT_TASK: "prepare",
    ABLATION_PLAN_TASK.task: "ablation",
    MISSING_ABLATIONS_TASK.task: "missing",
    PROBE_TASK: "score",
    **{build_summary_task(stage).task: stage for stage in STAGES},
}


def find_phase(state: RunState, decision_id: int, late: int | None = None) -> Phase:
    """Return the phase to which a decision's calls and experiments belong. `late`: nodes decided on after this
    decision are a reviewer's ablations; determined if not given."""
    decided = state.decisions.get(decision_id)
    match decided.action if decided is not None else None:
        case ExpandTree() | CompareNodes() as action:
            return "missing" if decision_id > (_find_late_start(state) if late is None else late) else action.stage
        case RunTask(task=task):
            name = task.removesuffix(f" v{state.paper.version}")
            return TASK_PHASES.get(name, "reflect")  # figures and claims of a round, shortening, copy edit
        case _:
            return state.phase


def compute_spent_by_phase(state: RunState) -> dict[Phase, Cost]:
    """Return the amount spent by phase, without calls in progress."""
    found: dict[Phase, Cost] = {}
    late = _find_late_start(state)
    for costs in (state.calls.settled_costs, state.calls.lost_costs):
        for k, cost in costs.items():
            phase = find_phase(state, k, late)
            found[phase] = found.get(phase, Cost()) + cost
    return found


def count_trials(plan: DataPlan) -> float:
    """Count the trials for tuning every arm once, in units of experiments of every arm, level and dataset."""
    cells = len(list_main_arms(plan)) * len(plan.level_names) * len(plan.datasets)
    return plan.tuning.budget * sum(len(list_trial_cells(plan, arm, seed=0)) for arm in plan.tuned_arms) / cells


@dataclass(frozen=True)
class CostTable:
    """The table of a run under its settings, and costs computed from it (implements `models.budget.CostEstimates`).

    `gpus` returns the number of GPUs per experiment, 0 on the CPU: a plan may request more than the settings.
    """

    models: ModelSettings
    search: SearchSettings
    paper: PaperSettings
    node_seconds: float
    gpus: Callable[[], float] = lambda: 0.0
    documents: int = 0
    """Number of the user's papers and notes that are summarised before planning."""
    catalogues: bool = True
    """Whether catalogues of published works are queried."""
    grace_seconds: float = 0.0
    """Seconds that code may exceed its limit, for each of the cells that run in parallel."""
    planner: AnyRole = roles.PLAN

    # --- the table --------------------------------------------------------------------------------------------------

    def list_rows(self, plan: DataPlan | None = None) -> list[CostRow]:
        """Return the table; without tuning until there is a plan."""
        likely, most = (list(self._count(plan, most=at_most)) for at_most in (False, True))
        return [
            CostRow(phase, role, rank, number, max(number, upper))
            for (phase, role, rank, number), (*_, upper) in zip(likely, most, strict=True)
        ]

    def _count(self, plan: DataPlan | None, *, most: bool) -> Iterator[tuple[Phase, AnyRole | None, Rank, float]]:
        """Yield the rows with likely numbers, or with the maximum that the limits allow.

        Replicates and trials need no calls, since they run their parent's code. The tuned node, the winner and every
        working ablation are replicated, at most as often as the winner; the replicates of the winner are the fresh
        seeds for confirmation, drawn by one aggregate. No model reviews the figures of drafts. Arms are tuned in
        stage 2, and again if the main experiments changed their code. In the maximum, each execution has a second
        attempt.
        """
        search, paper = self.search, self.paper
        missing = paper.missing_ablations if most else min(USUAL_MISSING_ABLATIONS, paper.missing_ablations)
        works = 1.0 if most else 1 - FAILURE_RATE
        replots = paper.replots if most else min(USUAL_REPLOTS, paper.replots)
        tries = paper.replots + 1 if most else min(2, paper.replots + 1)
        attempts, planned = 1 + most, search.planned_ablations
        nodes = {stage: search.find_limits(stage).nodes for stage in STAGES}
        seeds = {stage: search.count_seeds(stage) for stage in STAGES}
        if most:
            seeds["agenda"] = max(seeds["agenda"], search.max_seeds)
        else:
            drafts = search.num_drafts if plan is None else search.count_drafts(plan.open)
            nodes["preliminary"] = min(nodes["preliminary"], round((1 + DEBUGS_PER_DRAFT) * drafts))
            nodes["ablation"] = min(nodes["ablation"], round((1 + FAILURE_RATE) * planned) or nodes["ablation"])
        tuned = plan is not None and bool(plan.tuned_arms)
        written = nodes | {
            "tuning": nodes["tuning"] if most and tuned else 0,
            "missing": missing * (1 + MAX_LATE_DEBUGS * most),
        }
        chosen = {"tuning": tuned, "agenda": tuned and most}  # nodes with the chosen settings need no new code
        variants = min(seeds["agenda"], max(seeds["ablation"], MIN_REPLICATES)) * bool(search.count_seeds("ablation"))
        ablated = round(nodes["ablation"] * works)
        further = most and variants and search.ablation.num_seeds is None  # if time is left for them
        replicates = seeds | {
            "ablation": ablated * (seeds["agenda"] if further else variants),
            "missing": missing * variants,
        }
        prior = min(MAX_PRIOR_PAPERS, MAX_PRIOR_PAPERS if self.catalogues else self.documents)

        yield "prepare", roles.DIGEST, Rank.EXTRA, self.documents * (MAX_DIGEST_ROUNDS if most else 1)
        yield "prepare", roles.PRIOR_SEARCH, Rank.EXTRA, self.catalogues
        yield "prepare", roles.PRIOR_WORK, Rank.EXTRA, prior if most else round(prior / 2)
        yield "prepare", self.planner, Rank.NEEDED, MAX_PLAN_CALLS if most else 1
        yield "prepare", self.planner, Rank.EXTRA, MAX_AMEND_CALLS if most else 1
        yield "prepare", roles.PROTOCOL_REVIEW, Rank.EXTRA, MAX_REVIEW_CALLS
        for stage in (*STAGES, "missing"):
            code, picture = (Rank.MISSING,) * 2 if stage == "missing" else (Rank.SEARCH, Rank.EXTRA)
            searched = written[stage] + chosen.get(stage, False)
            aggregates = stage == "agenda" and seeds[stage] > 0
            reviewed = searched * works * (stage != "preliminary")
            plots = aggregates + (searched * works + aggregates * most) * replots
            by_author = self._count_author_programs(written[stage], most=most)
            yield stage, roles.CODE, code, written[stage] - by_author
            yield stage, roles.CODER, code, by_author * (MAX_AUTHOR_STEPS if most else USUAL_AUTHOR_STEPS)
            yield stage, roles.FEEDBACK, code, searched * works
            yield stage, roles.PLOT, picture, plots
            yield stage, roles.VISION, picture, reviewed + plots
            yield stage, None, code, searched * attempts
            yield stage, None, Rank.CHECKS if stage == "agenda" else code, replicates[stage] * attempts
            if stage == "missing":
                continue
            compared = stage != "ablation"
            yield stage, roles.COMPARE, Rank.EXTRA, (MAX_COMPARISONS if most else 1 / 3) * compared
            yield stage, roles.SUMMARY, Rank.CHECKS, 1
        trials = count_trials(plan) if plan is not None else 0.0
        yield "tuning", None, Rank.SEARCH, trials * attempts * attempts
        plannings = MAX_ABLATION_PLAN_CALLS if most else 1
        yield "ablation", roles.ABLATION_PLAN, Rank.EXTRA, plannings * bool(planned)
        yield "score", roles.CODE_READER, Rank.CHECKS, (1 + ablated) * (2 if most else 1)
        yield "score", None, Rank.CHECKS, 1  # the first label permutation
        yield "figures", roles.FIGURES, Rank.CHECKS, tries
        yield "figures", roles.VISION, Rank.FIGURE_REVIEW, tries
        yield "write", roles.OUTLINE, Rank.NEEDED, 1
        yield "write", roles.OUTLINE, Rank.CHECKS, (MAX_OUTLINE_CALLS - 1) * most
        yield "write", roles.WRITE, Rank.NEEDED, paper.count_writer_calls(MAX_SECTIONS if most else USUAL_SECTIONS)
        yield "write", roles.WRITE, Rank.CHECKS, int(most)  # an unusable answer
        citations = (paper.citation_rounds if most else min(2, paper.citation_rounds)) * self.catalogues
        yield "cite", roles.CITE_ASK, Rank.POLISH, citations
        yield "cite", roles.CITE_SELECT, Rank.POLISH, citations
        rounds = paper.reflections if most else min(2, paper.reflections)
        revisions = MAX_REVISION_ROUNDS * bool(missing) if most else missing
        shortenings = min(1, rounds) * most
        yield "reflect", roles.REFLECT, Rank.CHECKS, min(1, rounds) + shortenings
        yield "reflect", roles.REFLECT, Rank.POLISH, max(0, rounds - 1)
        yield "reflect", roles.FIGURE_REVIEW, Rank.FIGURE_REVIEW, rounds + revisions + shortenings
        versions = rounds + revisions + shortenings + 1
        yield "reflect", roles.CLAIM_READER, Rank.CHECKS, MAX_READER_CALLS * versions if most else 2 + versions
        yield "reflect", roles.SECOND_CLAIM_READER, Rank.CHECKS, MAX_READER_CALLS * versions if most else 1 + versions
        yield "reflect", roles.SETUP_READER, Rank.CHECKS, 2 * versions if most else 1 + versions
        yield "reflect", roles.COPY_EDIT, Rank.CHECKS, 1
        yield "missing", roles.MISSING_ABLATIONS, Rank.MISSING, plannings * bool(missing)
        yield "missing", roles.CODE_READER, Rank.MISSING, missing * (2 if most else 1)
        yield "missing", roles.REFLECT, Rank.MISSING, revisions
        yield "judge", roles.INFLUENCE, Rank.JUDGE, (MAX_CALLS if most else 2) * paper.judge
        yield "judge", roles.JUDGE, Rank.JUDGE, paper.judge

    def _count_author_programs(self, written: float, *, most: bool) -> float:
        """Count the programs of a stage that an author writes (`stages.nodes.program_author.wants_author`)."""
        names = [one.name for one in self.models.list_candidates(roles.CODER)]
        if self.planner is roles.REPOSITORY_PLAN or names in ([], ["offline"]) or self.search.author == "never":
            return 0
        if self.search.author == "always":
            return written
        depth = self.search.max_debug_depth  # of a program and its repairs, all but two may be an author's
        chains, rest = divmod(most * written, 1 + depth)
        return chains * max(0, depth - 1) + max(0, rest - 2)

    # --- the cost of one call or experiment -------------------------------------------------------------------------

    def compute_typical_cost(self, role: AnyRole, *, dearest: bool = False) -> Cost | None:
        """Return the cost of a typical call with a role's first model, or with its most expensive one; None if its
        price is unknown."""
        tokens = TokenUsage(input_tokens=role.likely_tokens[0], output_tokens=role.likely_tokens[1])
        costs = [prices.compute_usd(one, tokens) for one in self.models.list_candidates(role)]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        if not known:
            return Cost()
        return Cost(usd=max(known) if dearest else known[0], tokens=sum(role.likely_tokens))

    @cached_property
    def _typical_costs(self) -> Mapping[str, Cost]:
        """The typical cost by role; only tokens if the price is unknown."""
        return {
            name: self.compute_typical_cost(role) or Cost(tokens=sum(role.likely_tokens))
            for name, role in roles.ROLES.items()
        }

    def estimate_call(self, role: AnyRole, state: RunState) -> Cost:
        """Return the likely cost of a call: the mean of the role's calls in this run and of one typical call, which is
        scaled by how the run's calls compare with typical ones."""
        typical, used = self._typical_costs, state.calls.usage_by_role
        once, own, start = typical[role.name], used.get(role.name, RoleUsage()), typical[roles.CODE.name] * PRIOR_CALLS
        made = [(typical[name], one) for name, one in used.items() if name in typical]
        usd = start.usd + sum(one.usd for _, one in made)
        likely_usd = start.usd + sum(cost.usd * one.calls for cost, one in made)
        tokens = start.tokens + sum(one.input_tokens + one.output_tokens for _, one in made)
        likely_tokens = start.tokens + sum(cost.tokens * one.calls for cost, one in made)
        own_tokens = own.input_tokens + own.output_tokens
        return Cost(
            usd=(own.usd + once.usd * usd / (likely_usd or 1.0)) / (1 + own.calls),
            tokens=round((own_tokens + once.tokens * tokens / (likely_tokens or 1)) / (1 + own.calls)),
        )

    @cached_property
    def _least_costs(self) -> Mapping[str, Cost]:
        """The maximum cost of a single request by role: the least that a call requires."""
        return {
            name: compute_max_call_cost(self.models, role, role.prompt_tokens, single=True)
            for name, role in roles.ROLES.items()
        }

    def compute_attempt_cost(self, limit: float) -> Cost:
        """Return the maximum cost of one execution with a time limit in seconds."""
        return Cost(gpu_seconds=(limit + self.grace_seconds * self.search.num_workers) * self.gpus())

    def estimate_attempt(self, state: RunState) -> Cost:
        """Return the likely cost of one execution, from the run's earlier executions or from the plan's estimate."""
        took = [one.seconds for node in state.nodes.values() for one in node.attempts]
        expected = state.search.data_plan.expected_seconds if state.search.data_plan is not None else self.node_seconds
        return Cost(gpu_seconds=min(fmean(took) if took else expected, self.node_seconds) * self.gpus())

    @cached_property
    def least_cost(self) -> Cost:
        """The smallest budget for a report: the likely cost of a plan, one node and the shortest paper, with one
        request and one execution at their maximum."""
        return self.compute_set_aside(RunState()) + self.compute_attempt_cost(self.node_seconds)

    # --- what the budget asks ---------------------------------------------------------------------------------------

    def estimate_action(self, action: SearchAction, state: RunState) -> Cost:
        """Return the likely cost of an action."""
        calls: dict[AnyRole, float] = {roles.COMPARE: 1} if isinstance(action, CompareNodes) else {}
        if isinstance(action, ExpandTree) and action.kind not in ("replicate", "trial", "rung"):
            again = min(USUAL_REPLOTS, self.paper.replots)
            calls = {roles.VISION: 1 + again, roles.PLOT: again + (action.kind == "aggregate")}
            if action.kind != "aggregate":
                by_author = self._count_author_programs(1, most=False)
                calls |= {
                    roles.FEEDBACK: 1,
                    roles.CODE: (action.kind != "tune") * (1 - by_author),
                    roles.CODER: (action.kind != "tune") * by_author * USUAL_AUTHOR_STEPS,
                }
        runs = isinstance(action, ExpandTree) and action.kind != "aggregate"
        costs = [self.estimate_call(role, state) * number for role, number in calls.items()]
        return sum(costs, start=self.estimate_attempt(state) * runs)

    def list_remaining(self, state: RunState, *begun: tuple[str, str]) -> list[tuple[CostRow, float]]:
        """Return the rows of the remaining work, with the likely numbers: without tuning, and only the write-up
        after the run reached a limit. `begun`: calls that are about to start, by phase and role.

        Executions other than replicates are not reduced by those already made.
        """
        made, at, found = _count_made(state), PHASES["paper"].index(state.phase), list[tuple[CostRow, float]]()
        made.update(begun)
        for row in self._rows:
            left = max(0.0, row.likely - made[row.phase, row.name])
            made[row.phase, row.name] = max(0, made[row.phase, row.name] - round(row.likely))
            over = PHASES["paper"].index(row.phase) < at and row.role is not roles.SUMMARY
            is_late = row.rank > Rank.SEARCH and row.phase not in ("cite", "missing")  # still asked after a limit
            if left and not over and (state.limit_reason is None or is_late):
                found.append((row, left))
        return found

    def find_rank(self, state: RunState, decision_id: int, role: str) -> Rank:
        """Return the rank of a role's next call in a decision."""
        phase, rank = find_phase(state, decision_id), Rank.NEEDED
        made = _count_made(state)[phase, role]
        for row in self._rows:
            if (row.phase, row.name) == (phase, role):
                rank = row.rank
                if made < row.most:
                    break
                made -= round(row.most)
        return rank

    def find_priority(self, state: RunState, decision_id: int, role: str) -> Priority:
        """Return the consequence of refusing a role's next call in a decision."""
        rank = self.find_rank(state, decision_id, role)
        return "needed" if rank == Rank.NEEDED else "search" if rank == Rank.SEARCH else "optional"

    def compute_set_aside(
        self, state: RunState, decision_id: int | None = None, role: str = "", action: SearchAction | None = None
    ) -> Cost:
        """Return the amount that the next call of a role in a decision must leave free: the likely cost of all
        higher-ranked work, and the maximum of one request and one execution, since these start only if their maximum
        fits.

        Without a role, the amount that an experiment of the decision must leave; without a decision, the amount that a
        new action must leave. Until a node works, the search leaves the amount that the shortest paper needs.
        """
        phase = state.phase if decision_id is None else find_phase(state, decision_id)
        rank = Rank.MISSING if phase == "missing" else Rank.SEARCH
        most = (self._compute_most(one).subtract_floored(self._estimate_once(one, state)) for one in (roles.CODE, None))
        margin = sum(most, start=Cost())
        if decision_id is not None:
            action, margin = state.decisions[decision_id].action, Cost()
            rank = self.find_rank(state, decision_id, role) if role else rank
        lowest = Rank.NEEDED if rank == Rank.NEEDED else max(rank, Rank.SEARCH) + 1
        if role == roles.FEEDBACK.name:  # a node that was measured gets its verdict
            lowest = Rank.CHECKS
        if rank <= Rank.SEARCH and not any(node.status == "good" for node in state.nodes.values()):
            lowest = Rank.NEEDED
        begun: list[tuple[str, str]] = [(phase, role)]
        if action is not None and _is_replicate(action):
            begun += [("agenda", REPLICATES)] * self.search.max_seeds  # no replicate waits for the others
        total = Cost()
        for row, left in self.list_remaining(state, *begun):
            if row.rank >= lowest:
                once, most = self._estimate_once(row.role, state), self._compute_most(row.role)
                total, above = total + once * left, most.subtract_floored(once)
                margin = Cost(**{name: max(value, getattr(above, name)) for name, value in margin})
        if rank == Rank.EXTRA and phase in STAGES:
            total += self._compute_most(roles.FEEDBACK)
        if phase == "prepare":
            total += self.estimate_action(ExpandTree(stage="preliminary", kind="draft", seed=0), state)
        return total + margin

    def _estimate_once(self, role: AnyRole | None, state: RunState) -> Cost:
        return self.estimate_attempt(state) if role is None else self.estimate_call(role, state)

    def _compute_most(self, role: AnyRole | None) -> Cost:
        """Return the maximum of a single request of a role, or of an execution."""
        return self.compute_attempt_cost(self.node_seconds) if role is None else self._least_costs[role.name]

    @cached_property
    def _rows(self) -> list[CostRow]:
        """The table without tuning, for which no money is set aside."""
        return self.list_rows()


def _count_made(state: RunState) -> Counter[tuple[str, str]]:
    """Count calls by phase and role, and replicates by stage, for the current version of the paper."""
    late, version = _find_late_start(state), f" v{state.paper.version}"
    since = next(  # a new version of the paper repeats the calls of the one before
        (
            k
            for k, one in state.decisions.items()
            if isinstance(one.action, RunTask) and one.action.task.endswith(version)
        ),
        0,
    )
    made: Counter[tuple[str, str]] = Counter(
        (find_phase(state, key.decision, late), key.role) for key in state.calls.answers if key.decision >= since
    )
    made.update(
        (find_phase(state, k, late), REPLICATES)
        for k, one in state.decisions.items()
        if k >= since and _is_replicate(one.action)
    )
    return made


def _is_replicate(action: SearchAction) -> bool:
    return isinstance(action, ExpandTree) and action.kind == "replicate"


def _find_late_start(state: RunState) -> int:
    """Return the decision after which nodes belong to what reviewers asked for."""
    tasks = ((k, one.action.task) for k, one in state.decisions.items() if isinstance(one.action, RunTask))
    late = (k for k, task in tasks if task == MISSING_ABLATIONS_TASK.task or task.startswith("addendum "))
    return next(late, state.last_decision)
