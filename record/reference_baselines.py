"""Reference models: two arms that the program itself adds for each dataset with known labels.

`trivial` uses no features; `off-the-shelf` is boosted trees or a linear model, tuned with as many trials as an arm of
the plan: all settings are drawn at random in advance, and for each dataset the best one on validation data is selected.
Neither uses the plan's levels, so both are compared with every arm at that arm's best level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from types import MappingProxyType

from labwright.record.cell_status import compute_node_cells
from labwright.record.claims.estimates import Claim, compute_claims, compute_paper_claims
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import (
    DatasetFacts,
    Hyperparameter,
    HyperparameterSetting,
    Split,
    Trial,
    TuningPlan,
)
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import Cell, Node

TRIVIAL_ARM, OFF_THE_SHELF_ARM = "trivial", "off-the-shelf"
REFERENCE_ARM_TITLES: Mapping[str, str] = MappingProxyType(
    {TRIVIAL_ARM: "trivial reference", OFF_THE_SHELF_ARM: "off-the-shelf reference"}
)
"""Titles of the reference arms in tables."""
OFF_THE_SHELF_MODELS = ("boosted trees", "linear")
_DEFAULT_SOURCE = "the default of scikit-learn 1.9"


def build_space(facts: Iterable[DatasetFacts], pretrained: Iterable[str] = ()) -> tuple[Hyperparameter, ...]:
    """Build the search space of the off-the-shelf model for these datasets; `pretrained` models are
    OWNER/NAME@REVISION."""

    def of_trees(name: str, low: float, high: float, default: float) -> Hyperparameter:
        return Hyperparameter(
            name=name,
            kind="log" if name == "learning_rate" else "integer",
            low=low,
            high=high,
            default=default if name == "learning_rate" else int(default),
            source=_DEFAULT_SOURCE,
            arms=(OFF_THE_SHELF_ARM,),
            given="model",
            among=OFF_THE_SHELF_MODELS[:1],
        )

    options = ("plain", *(("components",) if any(len(one.shape) > 1 for one in facts) else ()), *pretrained)
    features = Hyperparameter(
        name="features",
        kind="choice",
        options=options,
        default="plain",
        arms=(OFF_THE_SHELF_ARM,),
        source="pixels, columns or counts as they are",
    )
    return (
        Hyperparameter(
            name="model",
            kind="choice",
            options=OFF_THE_SHELF_MODELS,
            default=OFF_THE_SHELF_MODELS[0],
            arms=(OFF_THE_SHELF_ARM,),
            source="common practice on tables",
        ),
        of_trees("learning_rate", 0.02, 0.5, 0.1),
        of_trees("rounds", 30, 150, 100),
        of_trees("leaves", 4, 31, 31),
        of_trees("leaf_size", 5, 50, 20),
        Hyperparameter(
            name="penalty",
            kind="log",
            low=1e-4,
            high=1e4,
            default=1.0,
            source=_DEFAULT_SOURCE,
            arms=(OFF_THE_SHELF_ARM,),
            given="model",
            among=OFF_THE_SHELF_MODELS[1:],
        ),
        *((features,) if len(options) > 1 else ()),
        *(
            (
                Hyperparameter(
                    name="components",
                    kind="integer",
                    low=8,
                    high=128,
                    default=32,
                    arms=(OFF_THE_SHELF_ARM,),
                    source="common practice",
                    given="features",
                    among=("components",),
                ),
            )
            if "components" in options
            else ()
        ),
    )


def build_reference_space(state: RunState) -> tuple[Hyperparameter, ...]:
    """Return the search space of the off-the-shelf model; empty if no dataset has reference models."""
    facts = [one for one in state.search.datasets if one.name in list_reference_datasets(state)]
    return build_space(facts, state.read_setting("sandbox.pretrained") or ()) if facts else ()


def list_reference_datasets(state: RunState) -> tuple[str, ...]:
    """Return the plan's datasets with reference models: all except unlabelled folders and datasets whose scorer takes
    artifacts.
    """
    artifacts = {one.dataset for one in state.search.scorers if one.takes == "artifact"}
    return tuple(one.name for one in state.search.datasets if one.task != "none" and one.name not in artifacts)


def build_default_setting(space: Iterable[Hyperparameter], model: str) -> HyperparameterSetting:
    """Return the default setting of a model."""
    found: HyperparameterSetting = {}
    for one in space:
        if not one.given or found.get(one.given) in one.among:
            found[one.name] = model if one.name == "model" else one.default
    return found


def count_reference_trials(tuning: TuningPlan) -> int:
    """Return the number of off-the-shelf settings to try: as many as an arm of the plan has trials, including the
    defaults.
    """
    return ceil(tuning.budget if tuning.currency == "trials" else TuningPlan().budget)


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
    return tuple(
        Cell(dataset=name, arm=arm, trial=number, seed=node.seed)
        for name in list_reference_datasets(state)
        for arm, numbers in (
            (TRIVIAL_ARM, (0,)),
            (OFF_THE_SHELF_ARM, tried if node.parent is None else (best[name].number,)),
        )
        for number in numbers
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
        dataset: min((-value, number) for number, value in (known or {1: 0.0}).items())
        for dataset, known in values.items()
    }
    return {dataset: state.search.trials[OFF_THE_SHELF_ARM, number] for dataset, (_, number) in best.items()}


# --- results ---------------------------------------------------------------------------------------------------------


def compute_reference_claims(state: RunState) -> list[Claim]:
    """Return the mean scores of the reference models over seeds, on the same split as the paper's claims."""
    good = [one for one in find_reference_nodes(state) if one.status == "good"]
    on_test = all(one.split == "test" for one in compute_paper_claims(state))
    split: Split = "test" if on_test else "validation"
    return compute_claims(
        split, [(one, state.search.test_measurements.get(one.id, ()) if on_test else one.measurements) for one in good]
    )


class ReferenceWin(FrozenModel):
    """A reference model that beats every baseline and method on a dataset, each at its best level."""

    dataset: str
    reference: Claim
    best: Claim


def find_reference_wins(state: RunState) -> tuple[ReferenceWin, ...]:
    """Return, for each dataset, the reference model whose mean of the primary metric beats that of every arm, if there
    is one.

    Means are compared without a test, since a better reference model counts against the study.
    """
    plan = state.search.data_plan
    assert plan is not None
    sign = 1 if plan.primary_metric.higher_is_better else -1

    def best(claims: Iterable[Claim], dataset: str) -> Claim | None:
        return max(
            (one for one in claims if (one.dataset, one.name) == (dataset, plan.primary_metric.name)),
            key=lambda one: sign * one.mean,
            default=None,
        )

    own, found = (
        [one for one in compute_paper_claims(state) if one.arm in plan.compared_arms],
        compute_reference_claims(state),
    )
    pairs = [(use.name, best(found, use.name), best(own, use.name)) for use in plan.datasets]
    return tuple(
        ReferenceWin(dataset=name, reference=rung, best=arm)
        for name, rung, arm in pairs
        if rung is not None and arm is not None and sign * rung.mean > sign * arm.mean
    )
