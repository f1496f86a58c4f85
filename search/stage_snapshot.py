"""Queries on the tree as visible to one decision. A `StageSnapshot` is a value: equal snapshots give equal picks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, product
from math import sqrt
from operator import attrgetter
from statistics import fmean, stdev
from typing import Literal

from labwright.record.ablation_results import find_item_nodes
from labwright.record.claims.floor import NO_SCORES, ConstantScores, Floored, find_floored
from labwright.record.claims.hypothesis_tests import read_constant_scores, read_replicate_values
from labwright.record.estimands import list_main_arms
from labwright.record.events.search_events import ConfirmationLocked, LookTaken
from labwright.record.internal_errors import Memo
from labwright.record.reducers.run_state import RunState, collect_mark_reasons
from labwright.record.reference_baselines import build_reference_space
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, MetricSpec
from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    LOOK_TASKS,
    CompareNodes,
    ExpandTree,
    RunTask,
    SearchAction,
    VisibleDecisions,
    WidenDimension,
    build_summary_task,
)
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import (
    SEARCH_KINDS,
    STAGES,
    Node,
    NodeKind,
    PanelEntry,
    StageName,
    StageSummary,
    TrialResult,
    format_node_id,
)
from labwright.record.tuning_results import (
    TrialStudies,
    TuningEffort,
    collect_trial_results,
    compute_efforts,
    group_studies,
    widen_space,
)
from labwright.search.design_forecast import CellTimes, read_cell_times
from labwright.search.settings import FAILED_REPAIRS, SearchSettings

# Rank nodes by the share of their stage's panel that they measured, then by the primary metric of the method. A panel
# is fixed for a stage. Metrics are only compared within one dataset and condition, as a gain relative to a reference
# node; different metrics are never averaged. Only validation data are used. A difference within the noise between
# replicates does not count; before there are replicates, the noise is unknown.

MIN_REPLICATES_FOR_NOISE = 3
CLOSE_CALL_STANDARD_ERRORS = 1.0
"""Two nodes are a close call if they differ by less than this many standard errors of the difference.

Follows the one-standard-error rule (Breiman et al. 1984, section 3.4.3), which prefers the simpler of close candidates.
"""


@dataclass(frozen=True)
class ComparisonPanel:
    """The entries on which the nodes of a stage are compared, regardless of their other measurements."""

    metric: MetricSpec
    entries: frozenset[PanelEntry]
    deciding_arms: frozenset[str]


def list_stage_datasets(stage: StageName, plan: DataPlan) -> tuple[str, ...]:
    """Return the datasets measured by nodes of a stage: the main one in the first stage, two in the second, then
    all.
    """
    counts: dict[StageName, int] = {"preliminary": 1, "tuning": 2}
    return tuple(use.name for use in plan.datasets)[: counts.get(stage)]


def get_panel(stage: StageName, plan: DataPlan) -> ComparisonPanel:
    """Return the panel of a stage: every arm that all experiments measure, at every level on the stage's datasets.

    With objective `improve`, the methods decide. With `measure`, all compared arms decide, each at its best, so neither
    the size nor the sign of an effect influences the selection.
    """

    def build() -> ComparisonPanel:
        cells = product(list_stage_datasets(stage, plan), list_main_arms(plan), plan.level_names)
        entries = frozenset(PanelEntry(*cell) for cell in cells if plan.has_cell(*cell))
        methods = (arm.name for arm in plan.arms if arm.role == "method")
        deciding = methods if plan.objective == "improve" else plan.compared_arms
        return ComparisonPanel(plan.primary_metric, entries, frozenset(deciding))

    return _PANEL_MEMO.get_or_compute(stage, (plan,), build)


_PANEL_MEMO = Memo[ComparisonPanel]()
_RANKED_MEMO = Memo[Mapping[PanelEntry, float]]()


def collect_values(node: Node, metric: MetricSpec) -> Mapping[PanelEntry, float]:
    """Return the values of a metric in a node on validation data, whether in the panel or not."""
    return node.attempts[-1].validation_values.get(metric.name, {}) if node.attempts else {}


def compute_ranked_values(node: Node, panel: ComparisonPanel) -> Mapping[PanelEntry, float]:
    """Return the values by which a node is ranked: panel values, with the metric's worst value, if it has one, where
    training diverged in the last attempt. These values must not be printed.
    """

    def compute() -> Mapping[PanelEntry, float]:
        values, worst = collect_values(node, panel.metric), panel.metric.worst
        lines = node.attempts[-1].cells if node.attempts and worst is not None else ()
        lost = {PanelEntry(one.cell.dataset, one.cell.measured_arm, one.cell.level) for one in lines if one.diverged}
        found = {**dict.fromkeys(lost, worst or 0.0), **values}
        return {one: found[one] for one in found.keys() & panel.entries}

    return _RANKED_MEMO.get_or_compute((node.id, panel.metric.name), (node.attempts, panel), compute)


def find_diverged(node: Node, panel: ComparisonPanel) -> Collection[PanelEntry]:
    """Return the panel entries that rank as the metric's worst value, since their training diverged."""
    return compute_ranked_values(node, panel).keys() - collect_values(node, panel.metric).keys()


def count_coverage(node: Node, panel: ComparisonPanel) -> int:
    """Return the number of panel entries for which a node has values."""
    return len(compute_ranked_values(node, panel))


def restrict_to_common(nodes: Sequence[Node], panel: ComparisonPanel) -> ComparisonPanel:
    """Return the panel restricted to entries for which all these nodes have values."""
    found = (compute_ranked_values(node, panel).keys() for node in nodes)
    common = panel.entries.intersection(*found) if nodes else frozenset[PanelEntry]()
    return panel if len(common) == len(panel.entries) else replace(panel, entries=common)


def compute_gain(node: Node, reference: Node, panel: ComparisonPanel) -> float:
    """Return the relative gain over the reference in the common entries of the deciding arms (of all arms if there are
    none).

    Within each dataset, means over its entries are compared. The datasets' relative gains, limited to 1 in magnitude,
    are averaged, so neither an entry near zero nor a dataset with large values dominates. Positive is better,
    regardless of the metric's direction; 0.0 without a common entry.
    """
    sign = 1.0 if panel.metric.higher_is_better else -1.0
    means = _compute_common_means(node, reference, panel)
    gains = [
        sign * (ours - theirs) / max(abs(theirs), abs(ours - theirs)) if ours != theirs else 0.0
        for ours, theirs in means.values()
    ]
    return fmean(gains) if gains else 0.0


def estimate_noise(replicates: Sequence[Node], panel: ComparisonPanel) -> dict[str, float]:
    """Return, by dataset, the standard deviation over replicates of the deciding values; only measured values are used.

    Empty with fewer than `MIN_REPLICATES_FOR_NOISE` replicates. Datasets with identical values are left out, since
    their noise is unknown.
    """
    if len(replicates) < MIN_REPLICATES_FOR_NOISE:
        return {}
    measured = [collect_values(one, panel.metric) for one in replicates]
    found = [{entry: values[entry] for entry in values.keys() & panel.entries} for values in measured]
    spread = {dataset: stdev(means) for dataset, means in _compute_dataset_means(found, panel.deciding_arms).items()}
    return {dataset: sd for dataset, sd in spread.items() if sd > 0}


def is_close_call(a: Node, b: Node, panel: ComparisonPanel, noise_by_dataset: Mapping[str, float]) -> bool:
    """Return whether two nodes with one seed each are indistinguishable on every dataset; without known noise, only if
    equal.

    Nodes without common entries are not close.
    """
    pairs = _compute_common_means(a, b, panel)
    return bool(pairs) and all(
        abs(x - y) <= CLOSE_CALL_STANDARD_ERRORS * sqrt(2) * noise_by_dataset.get(dataset, 0.0)
        for dataset, (x, y) in pairs.items()
    )


def compute_paired_differences(
    a: Sequence[Node], b: Sequence[Node], panel: ComparisonPanel
) -> dict[str, tuple[float, float]]:
    """Return, by dataset, the mean difference `a - b` over common seeds and its standard error.

    `a` and `b` are a node and its good replicates. Runs with the same seed share their random draws, so the noise is
    the spread of their differences, not the spread of the runs. Empty with fewer than `MIN_REPLICATES_FOR_NOISE` common
    seeds.
    """
    ours, theirs = ({one.seed: one for one in those} for those in (a, b))
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < MIN_REPLICATES_FOR_NOISE:
        return {}
    found: dict[str, list[float]] = {}
    for seed in seeds:
        for dataset, (x, y) in _compute_common_means(ours[seed], theirs[seed], panel).items():
            found.setdefault(dataset, []).append(x - y)
    return {
        dataset: (fmean(values), stdev(values) / sqrt(len(values)))
        for dataset, values in found.items()
        if len(values) == len(seeds)
    }


def _compute_common_means(a: Node, b: Node, panel: ComparisonPanel) -> dict[str, tuple[float, ...]]:
    """Return, by dataset, the mean of each of two nodes over the entries that both have."""
    found = [compute_ranked_values(one, panel) for one in (a, b)]
    return _compute_dataset_means(found, panel.deciding_arms)


def _compute_dataset_means(
    found: Sequence[Mapping[PanelEntry, float]], arms: frozenset[str]
) -> dict[str, tuple[float, ...]]:
    """Return the mean of each node by dataset, over the common entries (only those of the given arms, if any)."""
    common = set(found[0]).intersection(*found[1:])
    deciding = sorted([entry for entry in common if entry.arm in arms] or common)
    grouped = {dataset: list(those) for dataset, those in groupby(deciding, key=attrgetter("dataset"))}
    return {
        dataset: tuple(fmean([*map(one.__getitem__, those)]) for one in found) for dataset, those in grouped.items()
    }


NodePair = tuple[str, str]
"""Two nodes, in the order in which they were decided on."""

AblationPlanStatus = Literal["no", "due", "asked", "done"]

MAX_COMPARISONS = 2
"""Maximum number of close calls per stage that a model may decide; differences within noise are of little
importance."""


@dataclass(frozen=True)
class StageSnapshot:
    """Snapshot of a stage as of decision k: nodes whose results are not visible appear as running, without details."""

    stage: StageName
    plan: DataPlan
    nodes: dict[str, Node]
    """Every node of the run by id, in decision order."""
    actions: Mapping[int, SearchAction] = field(default_factory=dict[int, SearchAction])
    winner_by_stage: dict[StageName, Node | None] = field(default_factory=dict[StageName, Node | None])
    """The best node of every earlier stage; None if all nodes of the stage are suspect."""
    report_written_by_stage: dict[StageName, bool] = field(default_factory=dict[StageName, bool])
    """The stages whose report was decided on since they settled, each with whether the report is visible."""
    summary_by_stage: dict[StageName, StageSummary] = field(default_factory=dict[StageName, StageSummary])
    """The visible reports."""
    sounder_by_pair: dict[NodePair, str | None] = field(default_factory=dict[NodePair, str | None])
    """The node that a comparison of two nodes of this stage found sounder; None: neither."""
    pending_comparisons: frozenset[NodePair] = frozenset()
    """Comparisons whose answer may not be known yet."""
    agenda_items: tuple[str, ...] = ()
    """The agenda: the idea's experiments; in the ablation stage the planned ablations, otherwise the idea's risk
    factors."""
    ablation_plan_status: AblationPlanStatus = "no"
    """Whether the ablations have been planned: `asked` until the plan is visible, `no` if the idea's risks are used."""
    requested_ablations: dict[str, tuple[Node, ...]] = field(default_factory=dict[str, tuple[Node, ...]])
    """Ablations requested by a reviewer and not refused: item -> the node that works on it, and its debug nodes."""
    added_seeds: tuple[int, ...] = ()
    """Fresh seeds of the confirmed node that addenda register."""
    trials: tuple[TrialResult, ...] = ()
    """Results of trials, in the stages that tune; trials without visible results appear as running."""
    code_hashes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Node with cells -> arm -> hash of the code that its cells see."""
    efforts: Mapping[str, TuningEffort] = field(default_factory=dict[str, TuningEffort])
    """Arm -> effort spent on it."""
    seed: int = 0
    """The run's seed, used by search nodes."""
    limit_reason: str | None = None
    """The limit that was reached, of the run or of this stage."""
    run_limit_reason: str | None = None
    """The limit of the whole run that was reached."""
    limited_stages: frozenset[StageName] = frozenset()
    skipped_kinds: frozenset[NodeKind] = frozenset()
    further_seeds_ended: bool = False
    """Whether a limit refused further seeds of the ablations."""
    reference_space: tuple[Hyperparameter, ...] = ()
    """The search space of the off-the-shelf model (`record.reference_baselines`); empty without reference models."""
    constants: ConstantScores = NO_SCORES
    """What a constant prediction reaches on validation data."""
    lock: ConfirmationLocked | None = None
    looks: tuple[LookTaken, ...] = ()
    has_pending_look: bool = False
    """Whether a further look was decided on whose result is not visible."""
    prefers_cheaper: bool = False
    """Whether ties go to the cheaper node; otherwise (`ticket` order) to the earlier one."""

    @cached_property
    def root(self) -> Node | None:
        """The best node of the previous stage, or of an earlier one if that is suspect."""
        found = reversed(self.winner_by_stage.values())
        return next((node for node in found if node is not None and not node.suspect), None)

    @cached_property
    def expansions(self) -> dict[str, ExpandTree]:
        """Node -> the decision that made it."""
        return {format_node_id(k): one for k, one in self.actions.items() if isinstance(one, ExpandTree)}

    @cached_property
    def item_by_node(self) -> dict[str, str]:
        """Node -> the agenda item on which it works, if any."""
        return {node: one.item for node, one in self.expansions.items() if one.item}

    @cached_property
    def improved_arm_by_node(self) -> dict[str, str]:
        """Node -> the arm that it should improve."""
        return {node: one.arm for node, one in self.expansions.items() if one.arm}

    @cached_property
    def decided_trials(self) -> frozenset[tuple[str, int]]:
        """Trials that were decided on, by arm and number."""
        return frozenset((one.arm, one.number) for made in self.expansions.values() for one in made.trials)

    @cached_property
    def widened_dimensions(self) -> dict[str, WidenDimension]:
        """Dimensions that were widened."""
        return {one.dimension: one for one in self.actions.values() if isinstance(one, WidenDimension)}

    @cached_property
    def spent_by_arm(self) -> dict[str, int]:
        """Arm -> number of its trials and code versions."""
        return {arm: one.evaluation_count for arm, one in self.efforts.items()}

    @cached_property
    def searched_nodes(self) -> tuple[Node, ...]:
        """The nodes of this stage that count towards its limit."""
        return tuple(node for node in self.nodes.values() if node.stage == self.stage and node.kind in SEARCH_KINDS)

    @cached_property
    def in_flight(self) -> tuple[Node, ...]:
        """Unfinished nodes of any stage."""
        return tuple(node for node in self.nodes.values() if not node.is_finished)

    @cached_property
    def studies(self) -> TrialStudies:
        """Trials by arm and version of its code."""
        return group_studies(self.trials)

    @property
    def has_pending_trials(self) -> bool:
        """Whether trials without visible results are running."""
        return any(node.kind == "trial" for node in self.in_flight)

    @property
    def has_pending_results(self) -> bool:
        """Whether further results may arrive."""
        return (
            bool(self.in_flight or self.pending_comparisons or self.has_pending_look)
            or self.ablation_plan_status == "asked"
            or not all(self.report_written_by_stage.values())
        )

    @property
    def items_taken_up(self) -> bool:
        return self.ablation_plan_status == "done" and self.count_turns("ablate") >= len(self.agenda_items)

    @cached_property
    def unfinished_search_nodes(self) -> tuple[Node, ...]:
        """Search nodes of this stage without visible results."""
        return tuple(node for node in self.searched_nodes if not node.is_finished)

    @cached_property
    def good_nodes(self) -> tuple[Node, ...]:
        """Search nodes of this stage that worked and are not suspect."""
        return tuple(node for node in self.searched_nodes if node.status == "good" and not node.suspect)

    @cached_property
    def open_nodes(self) -> tuple[Node, ...]:
        """Good nodes on which others may build and that the same program with chosen settings does not replace."""
        return tuple(node for node in self.good_nodes if not node.closed and node.id not in self.superseded_nodes)

    @cached_property
    def superseded_nodes(self) -> frozenset[str]:
        """Nodes replaced by the same program with chosen settings."""
        return frozenset(node.parent or "" for node in self.good_nodes if node.kind == "tune" and not node.closed)

    @cached_property
    def widest_nodes(self) -> tuple[Node, ...]:
        """The candidates for the best node: those that measured most of the panel, earliest first."""
        root = [self.root] if self.root and self.root.id not in self.superseded_nodes else []
        covered = [(count_coverage(node, self.panel), node) for node in (*root, *self.open_nodes)]
        most = max((cells for cells, _ in covered), default=0)
        return tuple(node for cells, node in covered if cells == most)

    @cached_property
    def panel(self) -> ComparisonPanel:
        """The panel on which the nodes of this stage are compared."""
        return get_panel(self.stage, self.plan)

    @cached_property
    def shared_panel(self) -> ComparisonPanel:
        """The panel restricted to the entries that all of the widest nodes measured, so that their gains are
        comparable.
        """
        return restrict_to_common(self.widest_nodes, self.panel)

    @cached_property
    def noise(self) -> dict[str, float]:
        """Dataset -> standard deviation between seeds, from the latest best node with enough replicates; or empty."""
        for best in reversed(self.winner_by_stage.values()):
            replicates = self.list_replicates(best.id) if best is not None else ()
            if len(done := [node for node in replicates if node.status == "good"]) >= MIN_REPLICATES_FOR_NOISE:
                return estimate_noise(done, self.panel)
        return {}

    @cached_property
    def indistinguishable_nodes(self) -> tuple[Node, ...]:
        """The widest nodes that are indistinguishable from the top node, cheapest (or earliest) first."""
        if not self.widest_nodes:
            return ()
        same = [node for node in self.widest_nodes if node is self.top_node or not self.is_distinguishable(node)]

        def rank(node: Node) -> tuple[float, int]:
            return (node.attempts[-1].seconds if self.prefers_cheaper else 0.0, node.decision)

        return tuple(sorted(same, key=rank))

    @cached_property
    def top_node(self) -> Node:
        """The widest node with the largest gain at the run's seed."""
        first, panel = self.widest_nodes[0], self.shared_panel
        return max(self.widest_nodes, key=lambda node: (compute_gain(node, first, panel), -node.decision))

    def is_distinguishable(self, node: Node) -> bool:
        """Return whether the top node is better than another by more than noise, measured on common seeds if there are
        enough, otherwise by the spread of the latest best node."""
        ours, theirs = self.list_good_runs(self.top_node), self.list_good_runs(node)
        found = compute_paired_differences(ours, theirs, restrict_to_common((*ours, *theirs), self.shared_panel))
        sign = 1.0 if self.shared_panel.metric.higher_is_better else -1.0
        if found:
            return any(sign * mean > CLOSE_CALL_STANDARD_ERRORS * error for mean, error in found.values())
        return not is_close_call(node, self.top_node, self.shared_panel, self.noise)

    def list_good_runs(self, node: Node) -> tuple[Node, ...]:
        """Return a node and its working replicates."""
        return (node, *(one for one in self.list_replicates(node.id) if one.status == "good" and not one.suspect))

    @cached_property
    def contested_nodes(self) -> tuple[Node, ...]:
        """The top node and the node preferred because of noise, both of which need more seeds; or empty."""
        if self.selects_nothing or not self.noise or not self.widest_nodes:
            return ()
        top, preferred = self.top_node, self.indistinguishable_nodes[0]
        return () if top is preferred or is_close_call(top, preferred, self.shared_panel, {}) else (top, preferred)

    @cached_property
    def best_node(self) -> Node | None:
        """The node to carry forward: it measured most of the panel and has the largest gain; in a close call, the
        sounder node.
        """
        return self._find_champion()[0]

    def find_floored(self, node: Node | None) -> tuple[Floored, ...]:
        """Return the confirmatory hypotheses of which no arm is better than a constant prediction in a node and its
        working replicates."""
        runs = [read_replicate_values(one).values for one in self.list_good_runs(node)] if node is not None else []
        confirmatory = {one.id for one in self.plan.hypotheses if one.confirmatory}
        found = find_floored(self.plan, self.constants, runs)
        return tuple(one for name, one in found.items() if name in confirmatory)

    @cached_property
    def is_floored(self) -> bool:
        """Whether nothing worth confirming was found yet: the best node of a stage that precedes the lock is at the
        floor."""
        return self.lock is None and bool(self.find_floored(self.best_node))

    @property
    def selects_nothing(self) -> bool:
        """Whether the stage only adds to the node selected before: ablations, and all stages after the lock."""
        return STAGES.index(self.stage) > STAGES.index(find_locking_stage(self.plan))

    @cached_property
    def exhausted_items(self) -> frozenset[str]:
        """Agenda items, and arms to improve, that get no further node: an author reported nothing left to try or, in a
        study that measures, a node that worked or the plan's arms answer them."""
        improved = self.list_nodes_of_kind("improve")
        said = [one.id for one in improved if one.failure is not None and one.failure.kind == "nothing left"]
        found = {self.improved_arm_by_node.get(node) or self.item_by_node.get(node, "") for node in said}
        if self.stage == "agenda" and self.selects_nothing:
            covered = {number for number in self.plan.covered if number <= len(self.agenda_items)}
            found |= self.answered_items.union(self.agenda_items[len(self.agenda_items) - len(covered) :])
        return frozenset(found)

    @cached_property
    def answered_items(self) -> frozenset[str]:
        """Agenda items on which a node worked that is good, or that a debug node repaired."""
        repaired = (node.parent or "" for node in self.good_nodes if node.kind == "debug")
        ids = {*(node.id for node in self.good_nodes), *repaired}
        return frozenset(item for node, item in self.item_by_node.items() if node in ids)

    @cached_property
    def items_in_work(self) -> frozenset[str]:
        """Agenda items on which a node works whose result is not visible."""
        return frozenset(self.item_by_node.get(node.id, "") for node in self.unfinished_search_nodes)

    @cached_property
    def open_items(self) -> tuple[str, ...]:
        """Agenda items that are not exhausted."""
        return tuple(item for item in self.agenda_items if item not in self.exhausted_items)

    @property
    def undecided_pair(self) -> NodePair | None:
        """The next undecided close call, if this stage may have more comparisons."""
        return self._find_champion()[1] if len(self.sounder_by_pair) < MAX_COMPARISONS else None

    def _find_champion(self) -> tuple[Node | None, NodePair | None]:
        """Return the champion of the close nodes so far, and the first pair among them that was not compared.

        Once seeds are locked, nothing more is selected, except in the stage that preceded the lock.
        """
        if self.selects_nothing or not self.indistinguishable_nodes:
            return self.root, None
        champion, *others = self.indistinguishable_nodes
        for other in others:
            if is_close_call(other, self.indistinguishable_nodes[0], self.shared_panel, {}):  # equal nodes are a tie
                continue
            pair = (champion.id, other.id) if champion.decision < other.decision else (other.id, champion.id)
            if pair not in self.sounder_by_pair:
                return champion, pair
            champion = other if self.sounder_by_pair[pair] == other.id else champion
        return champion, None

    @cached_property
    def parent_ids(self) -> frozenset[str | None]:
        """The nodes that have a child; replicates and aggregates do not count."""
        return frozenset(node.parent for node in self.nodes.values() if node.kind in SEARCH_KINDS)

    def find_space(self, arm: str) -> tuple[Hyperparameter, ...]:
        """Return the dimensions of an arm with their current ranges."""
        return widen_space(self.plan, arm, self.widened_dimensions)

    def list_nodes_of_kind(self, kind: NodeKind) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes.values() if node.stage == self.stage and node.kind == kind)

    def count_turns(self, kind: NodeKind) -> int:
        """Count the nodes of this kind for an item.

        Excludes nodes that the user wrote or that ablate an earlier root.
        """
        root = self.root.id if self.root is not None and self.stage == "ablation" else None
        return sum(
            not node.author and root in (None, node.parent) and node.id not in self.improved_arm_by_node
            for node in self.list_nodes_of_kind(kind)
        )

    def count_debug_depth(self, node: Node) -> int:
        """Return the number of consecutive debug attempts ending in this node."""
        if node.kind != "debug" or node.parent is None:
            return 0
        return 1 + self.count_debug_depth(self.nodes[node.parent])

    def has_repeated_failure(self, node: Node) -> bool:
        """Return whether a debugged program failed again in exactly the same way."""
        before = self.nodes[node.parent].failure if node.kind == "debug" and node.parent is not None else None
        if before is None or node.failure is None:
            return False
        return (before.kind, before.message) == (node.failure.kind, node.failure.message)

    def needs_author(self, node: Node) -> bool:
        """Return whether a single answer is not enough to repair a node: two repairs in a row failed, or the last one
        failed in the same way."""
        return node.status == "buggy" and (
            self.count_debug_depth(node) >= FAILED_REPAIRS or self.has_repeated_failure(node)
        )

    def list_debuggable(self, settings: SearchSettings) -> tuple[Node, ...]:
        """Return buggy leaves worth another try: with code to fix, not too deep, and without a repeated failure, unless
        an author has not yet had its turn."""

        def is_debuggable(node: Node) -> bool:
            if node.status != "buggy" or not node.source_sha256 or node.closed or node.marked:
                return False
            if node.failure is not None and node.failure.kind == "no answer":  # a model failed, not the code
                return False
            if node.id in self.parent_ids or self.count_debug_depth(node) >= settings.max_debug_depth:
                return False
            if not self.has_repeated_failure(node):
                return True
            return settings.author == "auto" and not self.needs_author(self.nodes[node.parent or ""])

        return tuple(node for node in self.searched_nodes if is_debuggable(node))

    @property
    def stops_replicates(self) -> bool:
        """Whether a limit of the run lets no further replicate start."""
        return bool(self.run_limit_reason) or "replicate" in self.skipped_kinds

    @cached_property
    def fresh_replicates(self) -> tuple[Node, ...]:
        """The replicates of the winner with fresh seeds, including failed ones."""
        return tuple(one for one in self.nodes.values() if self.lock is not None and self.lock.is_confirming(one))

    @cached_property
    def timed_nodes(self) -> tuple[Node, ...]:
        """The nodes that show how long the cells of the confirmation take."""
        good = (one for one in self.nodes.values() if one.status == "good" and one.attempts)
        return tuple(one for one in good if one.kind not in ("ablate", "aggregate", "rung"))

    @cached_property
    def cell_times(self) -> CellTimes | None:
        """The seconds of the cells that these nodes measured; None before the first one."""
        return read_cell_times(self.timed_nodes)

    def list_replicates(self, node: str) -> tuple[Node, ...]:
        """Return the replicates of a node, of any stage, including failed ones."""
        return tuple(self._replicates_by_node.get(node, ()))

    @cached_property
    def _replicates_by_node(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for one in self.nodes.values():
            if one.kind == "replicate" and one.parent is not None:
                found.setdefault(one.parent, []).append(one)
        return found


def find_locking_stage(plan: DataPlan) -> StageName:
    """Return the last stage that may change the program to confirm; the lock follows it.

    A study that measures something does not select by its results, so the tuned program is confirmed at once, and the
    main experiments are exploratory. A study that improves a method confirms the best program found by its main
    experiments.
    """
    return "tuning" if plan.objective == "measure" else "agenda"


def build_snapshot(
    state: RunState,
    stage: StageName,
    visible: VisibleDecisions | None = None,
    *,
    before: int | None = None,
    marks_before: int | None = None,
    settings: SearchSettings | None = None,
) -> StageSnapshot:
    """Build the tree as visible to decision `before` (None: the next one); without `visible`, with everything so far.
    The state must have a data plan and a start.

    Later decisions are left out, so that a prompt is unchanged when rendered again. Later marks and settlements are
    left out too or, if `marks_before` is given, those after that decision.
    """
    search, plan = state.search, state.search.data_plan
    assert plan is not None and state.started is not None
    settings, visible = settings or SearchSettings(), visible or VisibleDecisions(through=state.last_decision)
    marks_before = before if marks_before is None else marks_before
    earlier = {k: one.action for k, one in state.decisions.items() if before is None or k < before}
    finished = {k for k in state.finished_decisions if k in visible}
    known = state.nodes if marks_before is None else nodes_before_marks(state, marks_before)
    nodes = {
        node.id: node if node.decision in visible else _hide_results(node)
        for node in known.values()
        if before is None or node.decision < before
    }
    settled: dict[StageName, Node | None] = {
        name: nodes.get(last[1].best or "")
        for name in STAGES[: STAGES.index(stage)]
        if (last := search.stages[name].find_settlement(marks_before)) is not None
    }
    asked = {
        (action.a, action.b): k in visible
        for k, action in earlier.items()
        if isinstance(action, CompareNodes) and action.stage == stage
    }
    reports = _collect_reports(state, earlier, before)
    planning = _find_ablation_plan_status(state, earlier, visible, settings) if stage == "ablation" else "no"
    found = collect_trial_results(state, visible, before=before) if stage in ("tuning", "agenda") else ()
    owed = state.required_cells.items() if found else ()
    items = state.started.idea.risks if stage == "ablation" else _build_agenda(state.started.idea, plan)
    if planning == "done" and search.planned_ablations is not None:
        items = tuple(one.item_text for one in search.planned_ablations.ablations)
    requested = [one.ablation.item_text for one in search.requested_ablations if not one.refused]
    locked_at, locked = next(((k, one) for k, one in reversed(search.locks) if before is None or k < before), (0, None))
    later = {k: action for k, action in earlier.items() if locked is not None and k > locked_at}
    looks = [k for k, action in later.items() if isinstance(action, RunTask) and action in LOOK_TASKS]
    looks_seen = sum(k in finished for k in looks)
    return StageSnapshot(
        stage=stage,
        plan=plan,
        nodes=nodes,
        actions=earlier,
        winner_by_stage=settled,
        report_written_by_stage={name: k in finished for name, k in reports.items()},
        summary_by_stage={
            name: search.stages[name].reports[k]
            for name, k in reports.items()
            if k in visible and k in search.stages[name].reports
        },
        pending_comparisons=frozenset(pair for pair, known in asked.items() if not known),
        sounder_by_pair={
            pair: search.comparisons[pair].better
            for pair, known in asked.items()
            if known and pair in search.comparisons
        },
        trials=found,
        code_hashes={name: one.code for name, one in owed if name in nodes and nodes[name].is_finished},
        efforts={one.arm: one for one in compute_efforts(state, found)} if found else {},
        agenda_items=items,
        ablation_plan_status=planning,
        seed=state.started.seed,
        requested_ablations={
            item: tuple(nodes[node.id] for node in find_item_nodes(state, item) if node.id in nodes)
            for item in (requested if stage == "ablation" else ())
        },
        added_seeds=search.added_seeds,
        limit_reason=state.limit_reason or search.stages[stage].limit_reason,
        run_limit_reason=state.limit_reason,
        limited_stages=frozenset(name for name, one in search.stages.items() if one.limit_reason is not None),
        skipped_kinds=state.skipped_kinds,
        further_seeds_ended=search.further_seeds_ended is not None
        and (before is None or search.further_seeds_ended < before),
        prefers_cheaper=settings.order == "arrival",
        constants=read_constant_scores(state),
        lock=locked,
        looks=tuple(search.looks[:looks_seen]),
        has_pending_look=looks_seen < len(looks),
        reference_space=build_reference_space(state) if settings.ladder and plan.reference_models else (),
    )


def _hide_results(node: Node) -> Node:
    """Return a node as a running one, with facts from its decision alone."""
    facts = ("id", "decision", "parent", "stage", "kind", "seed", "author")
    return Node(**{name: getattr(node, name) for name in facts}, status="running")


def _build_agenda(idea: Idea, plan: DataPlan) -> tuple[str, ...]:
    """Return the idea's experiments; those fully answered by the plan's arms come last."""
    numbers = sorted(range(1, len(idea.experiments) + 1), key=lambda number: number in plan.covered)
    return tuple(idea.experiments[number - 1] for number in numbers)


def _find_ablation_plan_status(
    state: RunState, earlier: Mapping[int, SearchAction], seen: VisibleDecisions, settings: SearchSettings
) -> AblationPlanStatus:
    """Return the status of the ablation plan. A stage that started without a plan continues without one."""
    planned = state.search.planned_ablations
    k = next((k for k, action in earlier.items() if action == ABLATION_PLAN_TASK), None)
    if k is None:
        made = (node for node in state.list_stage_nodes("ablation") if node.kind == "ablate" and not node.author)
        begun = any(node.decision in earlier for node in made)
        return "due" if settings.planned_ablations and not begun else "no"
    if k not in seen or k not in state.finished_decisions:
        return "asked"
    return "done" if planned is not None and planned.ablations else "no"


def nodes_before_marks(state: RunState, decision_id: int) -> dict[str, Node]:
    """Return the nodes without the user marks that came after decision k."""
    nodes = dict(state.nodes)
    for mark in state.list_marks_since(decision_id):
        for name, reason in collect_mark_reasons(state, mark).items():
            if node := nodes.get(name):
                nodes[name] = node.model_copy(
                    update={"closed": ""}
                    if mark.mark == "closed"
                    else {"suspect": tuple(why for why in node.suspect if why != reason), "marked": node.marked - 1}
                )
    return nodes


def _collect_reports(state: RunState, earlier: Mapping[int, SearchAction], before: int | None) -> dict[StageName, int]:
    """Return, by stage, the decision to report on its last settlement; stages that have settled again since then are
    left out.
    """
    works: dict[str, StageName] = {build_summary_task(name).task: name for name in STAGES}
    found: dict[StageName, int] = {
        works[action.task]: k for k, action in earlier.items() if isinstance(action, RunTask) and action.task in works
    }
    settlements = {name: state.search.stages[name].find_settlement(before) for name in found}
    return {name: k for name, k in found.items() if (last := settlements[name]) is None or k > last[0]}
