"""The state of a run, with what follows from its facts: phase, spending, seeds, settings, what people asked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, cast

from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import ConfirmationLocked, DecisionMade
from labwright.record.reducers.state_fields import RoleUsage, RunStateFields, UserCommand, sum_usage
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import MISSING_ABLATIONS_TASK, Cost, EndStage, RunTask
from labwright.record.schema.nodes import STAGES, Node, Phase, StageName, format_node_id
from labwright.record.schema.tuning import HyperparameterSetting


@dataclass
class RunState(RunStateFields):
    """A run as its log tells it so far."""

    @property
    def last_decision(self) -> int:
        """The highest decision number, 0 before the first."""
        return next(reversed(self.decisions), 0)

    def list_stage_nodes(self, stage: StageName) -> list[Node]:
        """The nodes of a stage in the order of their decisions."""
        return [node for node in self.nodes.values() if node.stage == stage]

    def find_node_of_decision(self, decision_id: int) -> Node | None:
        """The node that decision k made, if it made one."""
        return self.nodes.get(format_node_id(decision_id))

    def with_decision_context(self, decision_id: int) -> RunState:
        """The state with the terms that decision k was made on, which prompts of its work tell on any later day."""
        terms = self.decision_contexts.get(decision_id)
        return (
            self
            if terms is None
            else replace(
                self, limit_reason=terms.limit_reason, skipped_kinds=terms.skipped_kinds, isolations=terms.isolations
            )
        )

    def find_setting(self, arm: str, trial: int) -> HyperparameterSetting:
        """The hyperparameters of an arm in a trial; an ablation has those of the (first) method."""
        assert self.data_plan is not None
        own = arm in self.data_plan.compared_arms or (arm, trial) in self.trials
        name = arm if own else next((one.name for one in self.data_plan.arms if one.role == "method"), arm)
        return self.trials[name, trial].setting if trial else self.data_plan.find_defaults(name)

    @property
    def plan_hash(self) -> str:
        """sha256 of the data plan as it is by now; page one of the paper prints its beginning."""
        return hash_plan(self.data_plan) if self.data_plan is not None else ""

    @property
    def current_lock(self) -> ConfirmationLocked | None:
        """What is confirmed, as it was locked last; None before the agenda settled."""
        return self.locks[-1][1] if self.locks else None

    @property
    def reuses_test_data(self) -> bool:
        """Whether the run branched off one whose test data were scored by then: they confirm nothing any more."""
        return any(one.branching.tested for one in self.ancestry)

    @property
    def is_paused(self) -> bool:
        """Whether a person holds the run."""
        return self.paused_by is not None

    def compute_seed(self, decision_id: int) -> int:
        """The seed of choice k: the run's, or that of the branching before it."""
        assert self.started is not None
        return next(
            (one.branching.seed for one in reversed(self.ancestry) if one.decision < decision_id), self.started.seed
        )

    def compute_variation(self, decision_id: int) -> int:
        """What sets choice k apart from the same choice of other branches; 0 where nothing is to."""
        assert self.started is not None
        seed = self.compute_seed(decision_id)
        return 0 if seed == self.started.seed else seed

    @property
    def user_nodes(self) -> list[Node]:
        """The nodes whose code a person wrote."""
        return [node for node in self.nodes.values() if node.author]

    @property
    def inherited_usage(self) -> RoleUsage:
        """What model calls took before the run branched off; nothing in a run that did not."""
        return sum_usage(one for ancestor in self.ancestry for one in ancestor.usage.values())

    @property
    def notes(self) -> list[UserCommand]:
        """Notes of the person who runs us."""
        return [one for one in self.user_commands if one.command.verb == "note"]

    def list_notes(self, decision_id: int, stage: StageName) -> tuple[str, ...]:
        """The notes for a stage that came before decision k: what its prompts show, also when rendered again."""
        return tuple(one.command.text for one in self.notes if one.after_decision < decision_id and one.stage == stage)

    def list_marks_since(self, decision_id: int) -> list[CommandReceived]:
        """The marks that came after decision k was made: what it and its prompts know nothing of."""
        return [
            one.command
            for one in self.user_commands
            if one.command.verb == "mark" and one.after_decision >= decision_id
        ]

    def find_stage_end(self, stage: StageName) -> DecisionMade | None:
        """The decision that ended the search of a stage, if it was made."""
        return next(
            (one for one in self.decisions.values() if isinstance(one.action, EndStage) and one.action.stage == stage),
            None,
        )

    def is_task_done(self, task: str) -> bool:
        """Whether a step outside the search was decided on and is finished."""
        return any(k in self.finished_decisions for k, d in self.decisions.items() if d.action == RunTask(task=task))

    def format_paper_task(self, name: str) -> str:
        """A step of the paper by its name in this writing: each writing has decisions of its own."""
        return name if self.paper_version == 1 else f"{name} v{self.paper_version}"

    @property
    def stage(self) -> StageName | None:
        """The stage that is searched; then the last one, until every stage has its summary; None when all are over.

        What a settled stage still owes (replicates, their aggregate, its summary) is done beside the next search.
        """
        unsettled: list[StageName] = [name for name in STAGES if not self.stages[name].is_settled]
        unreported: list[StageName] = [name for name in STAGES if self.stages[name].summary is None]
        return next(iter(unsettled or unreported), None)

    @property
    def phase(self) -> Phase:
        """The step that the state machine enters next: what the router of `agent.state_machine` follows."""
        if self.data_plan is None:
            return "prepare"
        if self.stage is not None:
            return self.stage
        if not self.is_task_done("score tests"):
            return "score"
        if self.figures is None:
            return "figures"
        if not self.drafts:
            return "write"
        if not any(one.done for one in self.drafts):
            return "cite" if self._needs_citations else "reflect"
        if self.released is None:  # missing ablations are asked for once, for the first writing of the paper
            asked_for = (self.read_setting("paper.missing_ablations") or 0) > 0 and self.paper_version == 1
            return "missing" if asked_for and not self.is_task_done(MISSING_ABLATIONS_TASK.task) else "release"
        return "judge" if self.judged is None else "done"

    @property
    def _needs_citations(self) -> bool:
        """Whether works are still to be gathered for the first draft of this writing."""
        wanted = self.read_setting("literature.sources") and self.read_setting("paper.citation_rounds")
        begun = any(one.action == RunTask(task=self.format_paper_task("reflect")) for one in self.decisions.values())
        return (
            bool(wanted)
            and len(self.drafts) == 1
            and self.limit_reason is None
            and not begun
            and not self.is_task_done(self.format_paper_task("cite"))
        )

    @property
    def total_usage(self) -> RoleUsage:
        """Usage over all roles."""
        return self.sum_usage_without()

    def sum_usage_without(self, *roles: str) -> RoleUsage:
        """Usage over all roles but these."""
        return sum_usage(one for role, one in self.usage_by_role.items() if role not in roles)

    @property
    def spent_cost(self) -> Cost:
        """What is paid for, and what is set aside for calls and attempts under way."""
        return sum(
            (
                *self.settled_costs.values(),
                *self.lost_costs.values(),
                *(one.spending for one in self.reservations.values()),
            ),
            start=Cost(),
        )

    @property
    def gpus_per_experiment(self) -> int:
        """GPUs of one experiment, as the run is set now, or as an arm needs that takes more; 0 on the CPU."""
        if self.read_setting("sandbox.device") != "cuda":
            return 0
        needed = (arm.needs.gpus or 0 for arm in self.data_plan.arms) if self.data_plan is not None else ()
        return max(int(self.read_setting("sandbox.gpus_per_node") or 1), *needed, 0)

    def read_setting(self, key: str) -> Any:
        """A setting by its dotted key, as the run is set now; None where the record has none."""
        if key in self.overrides:
            return self.overrides[key]
        value: Any = self.started.settings if self.started is not None else {}
        for name in key.split("."):
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        return value

    @property
    def mean_writing_seconds(self) -> float:
        """How long it took to write the code of a node, on average; 0.0 before the first."""
        code = self.usage_by_role.get("code")
        return code.seconds / code.calls if code is not None else 0.0

    @property
    def experiment_seconds(self) -> float:
        """Seconds that experiments ran, over all attempts of this run; not those before it branched off."""
        ran = sum(attempt.seconds for node in self.nodes.values() for attempt in node.attempts)
        return ran - sum(one.experiment_seconds for one in self.ancestry)


def hash_plan(plan: DataPlan) -> str:
    """sha256 of a data plan, as its canonical JSON."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()


def describe_nodes(state: RunState) -> str:
    """Which nodes a run has, for a message about one that it has not."""
    names = list(state.nodes)
    return f"{names[0]} to {names[-1]}" if names else "no nodes yet"


MARK_PREFIX = "marked by a person: "
"""How a reason to suspect a node begins that a person gave."""


def collect_mark_reasons(state: RunState, mark: CommandReceived) -> dict[str, str]:
    """The nodes that a mark is for, and what it says of each: what was ablated from a suspect node is suspect too."""
    if mark.mark == "closed":
        return {mark.target: mark.text}
    found = {mark.target: MARK_PREFIX + mark.text}
    for node in state.nodes.values():  # parents come before their children
        if node.stage == "ablation" and node.parent in found:
            found[node.id] = f"{MARK_PREFIX}as {mark.target}, which it rests on: {mark.text}"
    return found
