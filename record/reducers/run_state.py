"""The state of a run with derived values: phase, costs, seeds, settings, user commands."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, cast

from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import ConfirmationLocked, DecisionMade
from labwright.record.reducers.state_fields import RoleUsage, RunStateFields, UserCommand, sum_usage
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import MISSING_ABLATIONS_TASK, Cost, EndStage, RunTask
from labwright.record.schema.nodes import PHASES, STAGES, Node, Phase, StageName, StudyKind
from labwright.record.schema.tuning import HyperparameterSetting


@dataclass
class RunState(RunStateFields):
    """A run according to its log so far."""

    @property
    def last_decision(self) -> int:
        """The highest decision number, 0 before the first."""
        return next(reversed(self.decisions), 0)

    def list_stage_nodes(self, stage: StageName) -> list[Node]:
        """Return the nodes of a stage in decision order."""
        return [node for node in self.nodes.values() if node.stage == stage]

    def with_decision_context(self, decision_id: int) -> RunState:
        """Return the state with the parts on which prompts depend as of decision k, so that later renderings of prompts
        are identical.
        """
        terms = self.decision_contexts.get(decision_id)
        return (
            self
            if terms is None
            else replace(
                self, limit_reason=terms.limit_reason, skipped_kinds=terms.skipped_kinds, isolations=terms.isolations
            )
        )

    def find_setting(self, arm: str, trial: int) -> HyperparameterSetting:
        """Return the hyperparameters of an arm in a trial; an ablation uses those of another arm.

        An ablation of the method at the setting of another arm uses the method's defaults for hyperparameters that the
        arm lacks.
        """
        plan = self.data_plan
        assert plan is not None
        name = arm if (arm, trial) in self.trials else plan.find_tuned_arm(arm)
        setting = self.trials[name, trial].setting if trial else plan.find_defaults(name)
        method = next((one.name for one in plan.arms if one.role == "method"), name)
        return setting if name in (arm, method) else plan.find_defaults(method) | setting

    def find_cell_setting(self, cell: Cell) -> HyperparameterSetting:
        """Return the hyperparameters of a cell: its arm's, with those that a swapped setting replaces; none without a
        plan."""
        plan = self.data_plan
        if plan is None:
            return {}
        own = self.find_setting(cell.arm, cell.trial)
        if not cell.setting_of:
            return own
        shared = {one.name for one in plan.find_space(cell.arm)}
        other = self.find_setting(cell.setting_of, cell.setting_trial)
        return own | {name: value for name, value in other.items() if name in shared}

    @property
    def plan_hash(self) -> str:
        """sha256 of the current data plan; the appendix of the paper prints its first digits."""
        return hash_plan(self.data_plan) if self.data_plan is not None else ""

    @property
    def current_lock(self) -> ConfirmationLocked | None:
        """The current lock; None before there is one."""
        return self.locks[-1][1] if self.locks else None

    @property
    def reuses_test_data(self) -> bool:
        """Whether the run branched off a run whose test data were already scored, so they cannot confirm a claim."""
        return any(one.branching.tested for one in self.ancestry)

    @property
    def is_paused(self) -> bool:
        """Whether the user paused the run."""
        return self.paused_by is not None

    def compute_seed(self, decision_id: int) -> int:
        """Return the seed of decision k: that of the run, or of the last branching before the decision."""
        assert self.started is not None
        return next(
            (one.branching.seed for one in reversed(self.ancestry) if one.decision < decision_id), self.started.seed
        )

    def compute_variation(self, decision_id: int) -> int:
        """Return a number that distinguishes decision k from the same decision in other branches; 0 if not needed."""
        assert self.started is not None
        seed = self.compute_seed(decision_id)
        return 0 if seed == self.started.seed else seed

    @property
    def user_nodes(self) -> list[Node]:
        """The nodes whose code the user wrote."""
        return [node for node in self.nodes.values() if node.author]

    @property
    def inherited_usage(self) -> RoleUsage:
        """Usage by model calls before the run branched off; zero if it did not."""
        return sum_usage(one for ancestor in self.ancestry for one in ancestor.usage.values())

    @property
    def notes(self) -> list[UserCommand]:
        """Notes from the user."""
        return [one for one in self.user_commands if one.command.verb == "note"]

    def list_notes(self, decision_id: int, stage: StageName) -> tuple[str, ...]:
        """Return the notes for a stage from before decision k, as its prompts show them even when they are rendered
        again.
        """
        return tuple(one.command.text for one in self.notes if one.after_decision < decision_id and one.stage == stage)

    def list_marks_since(self, decision_id: int) -> list[CommandReceived]:
        """Return the marks made after decision k, which that decision and its prompts must not use."""
        return [
            one.command
            for one in self.user_commands
            if one.command.verb == "mark" and one.after_decision >= decision_id
        ]

    def find_stage_end(self, stage: StageName) -> DecisionMade | None:
        """Return the decision that ended the search of a stage, if any."""
        return next(
            (one for one in self.decisions.values() if isinstance(one.action, EndStage) and one.action.stage == stage),
            None,
        )

    def is_task_done(self, task: str) -> bool:
        """Return whether a task outside the search was decided on and is finished."""
        return any(k in self.finished_decisions for k, d in self.decisions.items() if d.action == RunTask(task=task))

    def format_paper_task(self, name: str) -> str:
        """Return the name of a paper task for the current version; each version has its own decisions."""
        return name if self.paper_version == 1 else f"{name} v{self.paper_version}"

    @property
    def stage(self) -> StageName | None:
        """The stage being searched; after the search the last stage, until every stage has its summary; then None.

        Follow-up work of a settled stage (replicates, their aggregate, its summary) runs during the next search.
        """
        unsettled: list[StageName] = [name for name in STAGES if not self.stages[name].is_settled]
        unreported: list[StageName] = [name for name in STAGES if self.stages[name].summary is None]
        return next(iter(unsettled or unreported), None)

    @property
    def kind(self) -> StudyKind:
        """The kind of the study."""
        return self.started.kind if self.started is not None else "paper"

    @property
    def phase(self) -> Phase:
        """The next phase of the state machine, as used by the router of `agent.state_machine`."""
        if self.kind != "paper":
            return next(phase for phase in PHASES[self.kind] if not self.is_task_done(phase))
        if self.data_plan is None:
            return "prepare"
        if self.stage is not None:
            return self.stage
        if not self.is_task_done("score tests"):
            return "score"
        begun = bool(self.drafts) or self.paper_version == 1 or self.is_task_done(self.format_paper_task("figures"))
        if self.figures is None or not begun:  # the program's own figures are drawn again for a new version
            return "figures"
        if not self.drafts:
            return "write"
        if not any(one.done for one in self.drafts):
            return "cite" if self._needs_citations else "reflect"
        if self.released is None:  # missing ablations are requested once, for the first version of the paper
            asked_for = (self.read_setting("paper.missing_ablations") or 0) > 0 and self.paper_version == 1
            return "missing" if asked_for and not self.is_task_done(MISSING_ABLATIONS_TASK.task) else "release"
        return "judge" if self.judged is None else "done"

    @property
    def _needs_citations(self) -> bool:
        """Whether citations must still be gathered for the first draft of this version."""
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
        """Return the usage over all roles except these."""
        return sum_usage(one for role, one in self.usage_by_role.items() if role not in roles)

    @property
    def spent_cost(self) -> Cost:
        """Cost of completed work plus reservations for calls and attempts in progress."""
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
        """GPUs per experiment: the current setting, or more if an arm needs more; 0 on the CPU."""
        if self.read_setting("sandbox.device") != "cuda":
            return 0
        needed = (arm.needs.gpus or 0 for arm in self.data_plan.arms) if self.data_plan is not None else ()
        return max(int(self.read_setting("sandbox.gpus_per_node") or 1), *needed, 0)

    def read_setting(self, key: str) -> Any:
        """Return the current value of a setting by its dotted key; None if the record has none."""
        if key in self.overrides:
            return self.overrides[key]
        value: Any = self.started.settings if self.started is not None else {}
        for name in key.split("."):
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        return value

    @property
    def mean_writing_seconds(self) -> float:
        """Mean time to write the code of a node; 0.0 before the first."""
        code = self.usage_by_role.get("code")
        return code.seconds / code.calls if code is not None else 0.0

    @property
    def experiment_seconds(self) -> float:
        """Seconds that experiments ran, over all attempts of this run, excluding those before it branched off."""
        ran = sum(attempt.seconds for node in self.nodes.values() for attempt in node.attempts)
        return ran - sum(one.experiment_seconds for one in self.ancestry)


def hash_plan(plan: DataPlan) -> str:
    """Return the sha256 of a data plan's canonical JSON."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()


def describe_nodes(state: RunState) -> str:
    """Describe the nodes of a run, for an error message about an unknown node."""
    names = list(state.nodes)
    return f"{names[0]} to {names[-1]}" if names else "no nodes yet"


MARK_PREFIX = "marked by a person: "
"""Prefix of a reason for suspicion that comes from the user."""


def collect_mark_reasons(state: RunState, mark: CommandReceived) -> dict[str, str]:
    """Return the nodes to which a mark applies, with reasons; ablations of a suspect node are suspect too."""
    if mark.mark == "closed":
        return {mark.target: mark.text}
    found = {mark.target: MARK_PREFIX + mark.text}
    for node in state.nodes.values():  # parents come before their children
        if node.stage == "ablation" and node.parent in found:
            found[node.id] = f"{MARK_PREFIX}as {mark.target}, which it rests on: {mark.text}"
    return found
