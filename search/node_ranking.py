"""Rank nodes by the share of their stage's panel that they measured, then by the primary metric of the method.

A panel is fixed for a stage. Metrics are only compared within one dataset and condition, as a gain relative to a
reference node; different metrics are never averaged. Only validation data are used. A difference within the noise
between replicates does not count; before there are replicates, the noise is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import sqrt
from statistics import fmean, stdev

from labwright.record.estimands import list_main_arms
from labwright.record.memo import Memo
from labwright.record.schema.data_plan import DataPlan, MetricSpec
from labwright.record.schema.nodes import Node, PanelEntry, StageName

MIN_REPLICATES_FOR_NOISE = 3
"""Minimum number of replicates for estimating the noise."""
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
    """Arms whose entries decide among nodes with equal coverage."""

    @cached_property
    def deciding_entries(self) -> dict[str, list[PanelEntry]]:
        """Dataset -> the entries that decide."""
        return _group_deciding(self.entries, self.deciding_arms)

    def restrict(self, entries: Collection[PanelEntry]) -> ComparisonPanel:
        """Return the panel restricted to some entries."""
        kept = self.entries.intersection(entries)
        return self if len(kept) == len(self.entries) else replace(self, entries=kept)


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
    return _PANEL_MEMO.get_or_compute(stage, (plan,), lambda: _build_panel(stage, plan))


_PANEL_MEMO = Memo[ComparisonPanel]()
_RANKED_MEMO = Memo[Mapping[PanelEntry, float]]()
_MEANS_MEMO = Memo[dict[str, float]]()


def _build_panel(stage: StageName, plan: DataPlan) -> ComparisonPanel:
    methods = frozenset(arm.name for arm in plan.arms if arm.role == "method")
    return ComparisonPanel(
        plan.primary_metric,
        frozenset(
            PanelEntry(dataset, arm, level)
            for dataset in list_stage_datasets(stage, plan)
            for arm in list_main_arms(plan)
            for level in plan.level_names
            if plan.has_cell(dataset, arm, level)
        ),
        methods if plan.objective == "improve" else frozenset(plan.compared_arms),
    )


def collect_values(node: Node, plan: DataPlan) -> Mapping[PanelEntry, float]:
    """Return the primary metric of a node on validation data, whether in the panel or not."""
    return _read_primary_values(node, plan.primary_metric.name)


def find_diverged(node: Node, panel: ComparisonPanel) -> frozenset[PanelEntry]:
    """Return the panel entries whose training diverged in a node's last attempt, if the metric has a worst value.

    They rank as that value. Without a worst value, these entries are missing.
    """
    lines = node.attempts[-1].cells if node.attempts and panel.metric.worst is not None else ()
    lost = {PanelEntry(one.cell.dataset, one.cell.measured_arm, one.cell.level) for one in lines if one.diverged}
    return panel.entries & lost - _read_primary_values(node, panel.metric.name).keys()


def compute_ranked_values(node: Node, panel: ComparisonPanel) -> Mapping[PanelEntry, float]:
    """Return the values by which a node is ranked: panel values, with the worst value for diverged training. These
    values must not be printed.
    """
    return _RANKED_MEMO.get_or_compute(
        (node.id, panel.metric.name), (node.attempts, panel), lambda: _compute_ranked_values(node, panel)
    )


def _compute_ranked_values(node: Node, panel: ComparisonPanel) -> Mapping[PanelEntry, float]:
    worst = panel.metric.worst
    lost = dict.fromkeys(find_diverged(node, panel), worst) if worst is not None else {}
    values = _read_primary_values(node, panel.metric.name)
    own = values if values.keys() <= panel.entries else {one: values[one] for one in values.keys() & panel.entries}
    return {**lost, **own} if lost else own


def count_coverage(node: Node, panel: ComparisonPanel) -> int:
    """Return the number of panel entries for which a node has values."""
    return len(compute_ranked_values(node, panel))


def restrict_to_common(nodes: Sequence[Node], panel: ComparisonPanel) -> ComparisonPanel:
    """Return the panel restricted to entries for which all these nodes have values."""
    if not nodes:
        return panel.restrict(())
    partly = [found.keys() for node in nodes if len(found := compute_ranked_values(node, panel)) < len(panel.entries)]
    return panel.restrict(set(panel.entries).intersection(*partly))


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
    name = panel.metric.name
    found = [
        {entry: value for entry, value in _read_primary_values(one, name).items() if entry in panel.entries}
        for one in replicates
    ]
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
        pairs = _compute_common_means(ours[seed], theirs[seed], panel)
        for dataset, (x, y) in pairs.items():
            found.setdefault(dataset, []).append(x - y)
    return {
        dataset: (fmean(values), stdev(values) / sqrt(len(values)))
        for dataset, values in found.items()
        if len(values) == len(seeds)
    }


def _compute_common_means(a: Node, b: Node, panel: ComparisonPanel) -> dict[str, tuple[float, ...]]:
    """Return, by dataset, the mean of each of two nodes over the entries that both have."""
    found = [compute_ranked_values(one, panel) for one in (a, b)]
    if any(len(values) < len(panel.entries) for values in found):
        return _compute_dataset_means(found, panel.deciding_arms)
    means, others = (
        _MEANS_MEMO.get_or_compute(
            one.id,
            (values,),
            lambda values=values: {
                dataset: fmean([*map(values.__getitem__, entries)])
                for dataset, entries in panel.deciding_entries.items()
            },
        )
        for one, values in zip((a, b), found, strict=True)
    )
    return {dataset: (mean, others[dataset]) for dataset, mean in means.items()}


def _read_primary_values(node: Node, metric: str) -> Mapping[PanelEntry, float]:
    return node.attempts[-1].validation_values.get(metric, {}) if node.attempts else {}


def _compute_dataset_means(
    found: Sequence[Mapping[PanelEntry, float]], arms: frozenset[str]
) -> dict[str, tuple[float, ...]]:
    """Return the mean of each node by dataset, over the common entries (only those of the given arms, if any)."""
    grouped = _group_deciding(set(found[0]).intersection(*found[1:]), arms)
    return {
        dataset: tuple(fmean([one[entry] for entry in entries]) for one in found)
        for dataset, entries in grouped.items()
    }


def _group_deciding(entries: Collection[PanelEntry], arms: frozenset[str]) -> dict[str, list[PanelEntry]]:
    """Group the entries of the given arms (all entries if there are none) by dataset."""
    deciding = sorted([entry for entry in entries if entry.arm in arms] or entries)
    return {dataset: list(those) for dataset, those in groupby(deciding, key=lambda entry: entry.dataset)}
