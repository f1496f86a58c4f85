"""Reference models: two arms that the program itself adds for each dataset with known labels.

`trivial` uses no features; `off-the-shelf` is boosted trees or a linear model, tuned with as many trials as an arm of
the plan: all settings are drawn at random in advance, and for each dataset the best one on validation data is selected.
Neither uses the plan's levels, so both are compared with every arm at that arm's best level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from types import MappingProxyType
from typing import Any

from labwright.record.cell_status import compute_node_cells
from labwright.record.claims.estimates import Claim, compute_claims, compute_paper_claims
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import Scalar
from labwright.record.schema.data_plan import (
    DatasetFacts,
    Hyperparameter,
    HyperparameterKind,
    HyperparameterSetting,
    Split,
    Trial,
    TuningPlan,
    select_active,
)
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Cell, Node

TRIVIAL_ARM, OFF_THE_SHELF_ARM = "trivial", "off-the-shelf"
REFERENCE_ARM_TITLES: Mapping[str, str] = MappingProxyType(
    {TRIVIAL_ARM: "trivial reference", OFF_THE_SHELF_ARM: "off-the-shelf reference"}
)
OFF_THE_SHELF_MODELS = ("boosted trees", "linear")


def build_space(facts: Iterable[DatasetFacts]) -> tuple[Hyperparameter, ...]:
    """Build the search space of the off-the-shelf model for these datasets."""

    def dimension(name: str, kind: HyperparameterKind, default: Scalar, **more: Any) -> Hyperparameter:
        of_model: dict[str, Any] = {"arms": (OFF_THE_SHELF_ARM,), "source": "the default of scikit-learn 1.9", **more}
        return Hyperparameter(name=name, kind=kind, default=default, **of_model)

    of_trees, of_linear = ({"given": "model", "among": (model,)} for model in OFF_THE_SHELF_MODELS)
    table = {"options": OFF_THE_SHELF_MODELS, "source": "common practice on tables"}
    options = ("plain", *(("components",) if any(len(one.shape) > 1 for one in facts) else ()))
    features = {"options": options, "source": "pixels, columns or counts as they are"}
    parts = {"low": 8, "high": 128, "given": "features", "among": ("components",), "source": "common practice"}
    return (
        dimension("model", "choice", OFF_THE_SHELF_MODELS[0], **table),
        dimension("learning_rate", "log", 0.1, low=0.02, high=0.5, **of_trees),
        dimension("rounds", "integer", 100, low=30, high=150, **of_trees),
        dimension("leaves", "integer", 31, low=4, high=31, **of_trees),
        dimension("leaf_size", "integer", 20, low=5, high=50, **of_trees),
        dimension("penalty", "log", 1.0, low=1e-4, high=1e4, **of_linear),
        *([dimension("features", "choice", "plain", **features)] if len(options) > 1 else []),
        *([dimension("components", "integer", 32, **parts)] if "components" in options else []),
    )


def build_reference_space(state: RunState) -> tuple[Hyperparameter, ...]:
    """Return the search space of the off-the-shelf model; empty if no dataset has reference models."""
    facts = [one for one in state.search.datasets if one.name in list_reference_datasets(state)]
    return build_space(facts) if facts else ()


def list_reference_datasets(state: RunState) -> tuple[str, ...]:
    """Return the plan's datasets with reference models: all except unlabelled folders and datasets whose scorer takes
    artifacts.
    """
    artifacts = {one.dataset for one in state.search.scorers if one.takes == "artifact"}
    return tuple(one.name for one in state.search.datasets if one.task != "none" and one.name not in artifacts)


def build_default_setting(space: Iterable[Hyperparameter], model: str) -> HyperparameterSetting:
    """Return the default setting of a model."""
    space = tuple(space)
    return select_active(space, {one.name: model if one.name == "model" else one.default for one in space})


def count_reference_trials(tuning: TuningPlan) -> int:
    """Return the number of off-the-shelf settings to try: as many as an arm of the plan has trials, including the
    defaults.
    """
    return ceil(tuning.budget)


# --- nodes: one that tries settings, then one per seed with the selected setting --------------------------------------


def find_reference_tuning_node(state: RunState) -> Node | None:
    """Return the node that tries settings; None before it is decided on."""
    return next((one for one in state.nodes.values() if one.kind == "rung" and one.parent is None), None)


def find_reference_nodes(state: RunState) -> list[Node]:
    """Return the nodes that measure the selected settings with fresh seeds."""
    return [one for one in state.nodes.values() if one.kind == "rung" and one.parent is not None]


def list_reference_cells(state: RunState, node: Node) -> tuple[Cell, ...]:
    """Return the cells of a reference node: both arms on each dataset; off-the-shelf with every setting, or the
    selected one."""
    action = state.decisions[node.decision].action
    assert isinstance(action, ExpandTree)
    tried = tuple(one.number for one in action.trials if one.arm == OFF_THE_SHELF_ARM)
    best = {} if node.parent is None else find_chosen_settings(state, node.parent)

    def list_trials(dataset: str) -> list[tuple[str, int]]:
        numbers = tried if node.parent is None else (best[dataset].number,)
        return [(TRIVIAL_ARM, 0), *((OFF_THE_SHELF_ARM, number) for number in numbers)]

    return tuple(
        Cell(dataset=name, arm=arm, trial=number, seed=node.seed)
        for name in list_reference_datasets(state)
        for arm, number in list_trials(name)
    )


def find_chosen_settings(state: RunState, node: str) -> dict[str, Trial]:
    """Return, by dataset, the best setting on validation data; the first setting if none was measured."""
    plan = state.search.data_plan
    assert plan is not None
    name = plan.tuning.metric or plan.primary_metric.name
    sign = next((1 if one.higher_is_better else -1 for one in plan.metrics if one.name == name), 1)
    values: dict[str, dict[int, float]] = {dataset: {} for dataset in list_reference_datasets(state)}
    for one in compute_node_cells(state, node):
        if one.cell.arm == OFF_THE_SHELF_ARM and one.run is not None and one.run.failure is None:
            own = next((value.value for value in one.run.measurements if value.name == name), None)
            values[one.cell.dataset] |= {} if own is None else {one.cell.trial: sign * own}
    best = {
        dataset: min(known or {1: 0.0}, key=lambda number: (-known.get(number, 0.0), number))
        for dataset, known in values.items()
    }
    return {dataset: state.search.trials[OFF_THE_SHELF_ARM, number] for dataset, number in best.items()}


# --- results ---------------------------------------------------------------------------------------------------------


def compute_reference_claims(state: RunState) -> list[Claim]:
    """Return the mean scores of the reference models over seeds, on the same split as the paper's claims."""
    good = [one for one in find_reference_nodes(state) if one.status == "good"]
    on_test = all(one.split == "test" for one in compute_paper_claims(state))
    split: Split = "test" if on_test else "validation"
    return compute_claims(
        split, [(one, state.search.test_measurements.get(one.id, ()) if on_test else one.measurements) for one in good]
    )


def find_reference_wins(state: RunState) -> tuple[Claim, ...]:
    """Return, for each dataset, the value of the reference model whose mean of the primary metric beats that of every
    baseline and method, each at its best level, if there is one.

    Means are compared without a test, since a better reference model counts against the study.
    """
    plan = state.search.data_plan
    assert plan is not None
    metric = plan.primary_metric
    sign = 1 if metric.higher_is_better else -1

    def best(claims: Iterable[Claim], dataset: str) -> Claim | None:
        known = (one for one in claims if (one.dataset, one.name) == (dataset, metric.name))
        return max(known, key=lambda one: sign * one.mean, default=None)

    own = [one for one in compute_paper_claims(state) if one.arm in plan.compared_arms]
    found = compute_reference_claims(state)
    pairs = [(best(found, use.name), best(own, use.name)) for use in plan.datasets]
    return tuple(
        rung for rung, arm in pairs if rung is not None and arm is not None and sign * rung.mean > sign * arm.mean
    )
