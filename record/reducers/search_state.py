"""The search of a study with a paper: its plan, stages, trials, comparisons, and sealed test data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from labwright.record.ablation import MissingAblation
from labwright.record.events import search_events
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import (
    DataPlan,
    DatasetFacts,
    FrozenScorer,
    HubItem,
    Measurement,
    ResampledInterval,
)
from labwright.record.schema.decisions import WidenDimension
from labwright.record.schema.nodes import STAGES, Failure, StageName, StageSummary, TrialResult
from labwright.record.schema.packages import InstalledPackages
from labwright.record.schema.tuning import HyperparameterSetting, Trial


@dataclass
class StageState:
    """The state of one stage."""

    settlements: list[tuple[int, search_events.StageWinnerChosen]] = field(
        default_factory=list[tuple[int, search_events.StageWinnerChosen]]
    )
    """The selected nodes (several if one became suspect), each with the last decision before its selection."""
    reports: dict[int, StageSummary] = field(default_factory=dict[int, StageSummary])
    limit_reason: str | None = None
    began_at: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""

    def find_settlement(self, before: int | None = None) -> tuple[int, search_events.StageWinnerChosen] | None:
        """Return the last settlement, or the last one before a decision."""
        return next((one for one in reversed(self.settlements) if before is None or one[0] < before), None)

    @property
    def is_settled(self) -> bool:
        return bool(self.settlements)

    @property
    def best(self) -> str | None:
        return self.settlements[-1][1].best if self.settlements else None

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.settlements[-1][1].reasons if self.settlements else ()

    @property
    def end_reason(self) -> str | None:
        return self.settlements[-1][1].ended if self.settlements else None

    @property
    def summary(self) -> StageSummary | None:
        """The written report with the latest decision."""
        return self.reports[max(self.reports)] if self.reports else None


@dataclass
class SearchState:
    """The data plan and the tree search over it. `record.reducers.search_reducer` folds its events."""

    data_plan: DataPlan | None = None
    amendments: list[search_events.PlanAmended] = field(default_factory=list[search_events.PlanAmended])
    protocol_review: search_events.ProtocolReviewed | None = None
    """The review of the plan by a second model; None before it."""
    datasets: tuple[DatasetFacts, ...] = ()
    scorers: tuple[FrozenScorer, ...] = ()
    installed_packages: InstalledPackages | None = None
    """Packages installed for the run."""
    hub_items: tuple[HubItem, ...] = ()
    """Models and datasets that the plan uses from the hub."""
    stages: dict[StageName, StageState] = field(default_factory=lambda: {name: StageState() for name in STAGES})
    comparisons: dict[tuple[str, str], search_events.NodesCompared] = field(
        default_factory=dict[tuple[str, str], search_events.NodesCompared]
    )
    """Comparisons by pair of nodes, the one that was decided on earlier first."""
    trials: dict[tuple[str, int], Trial] = field(default_factory=dict[tuple[str, int], Trial])
    """Every setting that was decided on for an arm, by arm and number."""
    trial_results: dict[str, tuple[TrialResult, ...]] = field(default_factory=dict[str, tuple[TrialResult, ...]])
    """Finished node with cells, before ablation -> the result of each setting that it measured."""
    selection_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Arm -> compute seconds of executions used for selection (`record.schema.nodes.SELECTION_KINDS`), before
    ablation."""
    widened_dimensions: dict[str, WidenDimension] = field(default_factory=dict[str, WidenDimension])
    """Widened dimensions of the search space, by name."""
    probes: list[search_events.NodeProbed] = field(default_factory=list[search_events.NodeProbed])
    planned_ablations: search_events.AblationsPlanned | None = None
    """The ablations of the ablation stage; None before planning, or without planning."""
    missing_ablations: search_events.MissingAblationsNamed | None = None
    """Ablations that a reviewer of the draft would request; None if they were not determined."""
    addenda: list[search_events.AddendumRegistered] = field(default_factory=list[search_events.AddendumRegistered])
    """What was registered for reviewers of the paper, by version of the paper."""
    code_readings: list[search_events.CodeRead] = field(default_factory=list[search_events.CodeRead])
    """Readings of the code behind the paper by a second role."""
    hours: search_events.HoursSetAside | None = None
    """The latest plan of the run's computing time."""
    locks: list[tuple[int, search_events.ConfirmationLocked]] = field(
        default_factory=list[tuple[int, search_events.ConfirmationLocked]]
    )
    """The locks of what is confirmed, each with the last decision before it."""
    looks: list[search_events.LookTaken] = field(default_factory=list[search_events.LookTaken])
    """The looks at the fresh seeds of the current lock, in order."""
    scored_at: float | None = None
    """Active seconds of the run when the test data were scored, after which the paper is written."""
    test_measurements: dict[str, tuple[Measurement, ...]] = field(default_factory=dict[str, tuple[Measurement, ...]])
    resampled_intervals: dict[str, ResampledInterval] = field(default_factory=dict[str, ResampledInterval])
    """Intervals of differences from resampling the test examples, by key."""
    scoring_failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """The reason why a user's own scorer gave no test values for a node."""

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
    def requested_ablations(self) -> tuple[MissingAblation, ...]:
        """The ablations requested after the draft, then those of addenda."""
        missing = self.missing_ablations.missing if self.missing_ablations is not None else ()
        return (*missing, *(one for addendum in self.addenda for one in addendum.items))

    @property
    def added_seeds(self) -> tuple[int, ...]:
        """Fresh seeds of addenda, which no claim of the first registration reads."""
        return tuple(seed for addendum in self.addenda for seed in addendum.seeds)

    @property
    def plan_hash(self) -> str:
        """sha256 of the current data plan; the appendix of the paper prints its first digits."""
        return hash_plan(self.data_plan) if self.data_plan is not None else ""

    @property
    def current_lock(self) -> search_events.ConfirmationLocked | None:
        """The current lock; None before there is one."""
        return self.locks[-1][1] if self.locks else None

    @property
    def stage(self) -> StageName | None:
        """The stage being searched; after the search the last stage, until every stage has its summary; then None.

        Follow-up work of a settled stage (replicates, their aggregate, its summary) runs during the next search.
        """
        unsettled: list[StageName] = [name for name in STAGES if not self.stages[name].is_settled]
        unreported: list[StageName] = [name for name in STAGES if self.stages[name].summary is None]
        return next(iter(unsettled or unreported), None)


def hash_plan(plan: DataPlan) -> str:
    """Return the sha256 of a data plan's canonical JSON."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()
