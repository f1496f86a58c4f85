"""The ladder: two reference arms that the program itself brings to each dataset whose labels it knows.

`trivial` looks at no learned feature, `off-the-shelf` is boosted trees or a linear model, tuned with as many trials as
an arm of the plan has: all drawn at random before any is measured, of each dataset the one that is best on validation.
Both know nothing of the plan's levels, so they are held against every arm at the level at which it does best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from types import MappingProxyType

from labwright.record.cells import cells_of
from labwright.record.claims.means import Claim, claims_over, paper_claims
from labwright.record.fold.state import RunState
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import DatasetFacts, Split
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.nodes import Node
from labwright.record.nouns.tuning import Hyperparameter, Setting, Trial, Tuning

TRIVIAL, TUNED = "trivial", "off-the-shelf"
RUNGS: Mapping[str, str] = MappingProxyType({TRIVIAL: "trivial reference", TUNED: "off-the-shelf reference"})
"""What the arms of the ladder are called in tables."""
MODELS = ("boosted trees", "linear")
_SKLEARN = "the default of scikit-learn 1.9"


def space_of(facts: Iterable[DatasetFacts], pretrained: Iterable[str] = ()) -> tuple[Hyperparameter, ...]:
    """What is tuned off the shelf on these datasets; `pretrained` models are OWNER/NAME@REVISION."""

    def of_trees(name: str, low: float, high: float, default: float) -> Hyperparameter:
        return Hyperparameter(
            name=name,
            kind="log" if name == "learning_rate" else "integer",
            low=low,
            high=high,
            default=default if name == "learning_rate" else int(default),
            source=_SKLEARN,
            arms=(TUNED,),
            given="model",
            among=MODELS[:1],
        )

    options = ("plain", *(("components",) if any(len(one.shape) > 1 for one in facts) else ()), *pretrained)
    features = Hyperparameter(
        name="features",
        kind="choice",
        options=options,
        default="plain",
        arms=(TUNED,),
        source="pixels, columns or counts as they are",
    )
    return (
        Hyperparameter(
            name="model",
            kind="choice",
            options=MODELS,
            default=MODELS[0],
            arms=(TUNED,),
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
            source=_SKLEARN,
            arms=(TUNED,),
            given="model",
            among=MODELS[1:],
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
                    arms=(TUNED,),
                    source="common practice",
                    given="features",
                    among=("components",),
                ),
            )
            if "components" in options
            else ()
        ),
    )


def ladder_space(state: RunState) -> tuple[Hyperparameter, ...]:
    """The space of the tuned rung; empty where no dataset has rungs."""
    facts = [one for one in state.datasets if one.name in datasets_of(state)]
    return space_of(facts, state.setting("sandbox.pretrained") or ()) if facts else ()


def datasets_of(state: RunState) -> tuple[str, ...]:
    """The plan's datasets that have rungs: not a folder without labels, nor what a scorer takes artifacts of."""
    artifacts = {one.dataset for one in state.scorers if one.takes == "artifact"}
    return tuple(one.name for one in state.datasets if one.task != "none" and one.name not in artifacts)


def defaults(space: Iterable[Hyperparameter], model: str) -> Setting:
    """The defaults of one of the models."""
    found: Setting = {}
    for one in space:
        if not one.given or found.get(one.given) in one.among:
            found[one.name] = model if one.name == "model" else one.default
    return found


def trials_of(tuning: Tuning) -> int:
    """How many settings are tried off the shelf: as many as an arm of the plan has, defaults included."""
    return ceil(tuning.budget if tuning.currency == "trials" else Tuning().budget)


# --- its nodes: one that tries settings, then one a seed with what was chosen ----------------------------------------


def first_rung(state: RunState) -> Node | None:
    """The node that tries settings; None before it was decided on."""
    return next((one for one in state.nodes.values() if one.kind == "rung" and one.parent is None), None)


def rungs(state: RunState) -> list[Node]:
    """The nodes that measured what was chosen, with fresh seeds."""
    return [one for one in state.nodes.values() if one.kind == "rung" and one.parent is not None]


def cells_of_rung(state: RunState, node: Node) -> tuple[Cell, ...]:
    """What a rung owes: both arms on each dataset; off the shelf every setting, or the one that was chosen."""
    action = state.decisions[node.decision].action
    assert isinstance(action, Expand)
    tried = tuple(one.number for one in action.trials if one.arm == TUNED)
    best = {} if node.parent is None else chosen_settings(state, node.parent)
    return tuple(
        Cell(dataset=name, arm=arm, trial=number, seed=node.seed)
        for name in datasets_of(state)
        for arm, numbers in ((TRIVIAL, (0,)), (TUNED, tried if node.parent is None else (best[name].number,)))
        for number in numbers
    )


def chosen_settings(state: RunState, node: str) -> dict[str, Trial]:
    """Dataset -> the setting that was best there on validation data; the first where none was measured."""
    plan = state.data_plan
    assert plan is not None
    name = plan.tuning.metric or plan.primary.name
    sign = next((1 if one.higher_is_better else -1 for one in plan.metrics if one.name == name), 1)
    values: dict[str, dict[int, float]] = {dataset: {} for dataset in datasets_of(state)}
    for one in cells_of(state, node):
        if one.cell.arm == TUNED and one.run is not None and one.run.failure is None:
            own = next((value.value for value in one.run.measurements if value.name == name), None)
            values[one.cell.dataset] |= {} if own is None else {one.cell.trial: sign * own}
    best = {
        dataset: min((-value, number) for number, value in (known or {1: 0.0}).items())
        for dataset, known in values.items()
    }
    return {dataset: state.trials[TUNED, number] for dataset, (_, number) in best.items()}


# --- what it says of a study -----------------------------------------------------------------------------------------


def reference_claims(state: RunState) -> list[Claim]:
    """Means of the rungs over their seeds, on the data that the paper's claims are of."""
    good = [one for one in rungs(state) if one.status == "good"]
    on_test = all(one.split == "test" for one in paper_claims(state))
    split: Split = "test" if on_test else "validation"
    return claims_over(split, [(one, state.tests.get(one.id, ()) if on_test else one.measurements) for one in good])


class Beaten(Frozen):
    """A rung that is better on a dataset than every baseline and method, each at the level at which it does best."""

    dataset: str
    rung: Claim
    best: Claim


def beaten_by(state: RunState) -> tuple[Beaten, ...]:
    """For each dataset the rung that beats every arm of the study on the primary metric, by means, if one does.

    A comparison of means, and no test: it stands against the study, which has to prove itself.
    """
    plan = state.data_plan
    assert plan is not None
    sign = 1 if plan.primary.higher_is_better else -1

    def best(claims: Iterable[Claim], dataset: str) -> Claim | None:
        return max(
            (one for one in claims if (one.dataset, one.name) == (dataset, plan.primary.name)),
            key=lambda one: sign * one.mean,
            default=None,
        )

    own, found = [one for one in paper_claims(state) if one.arm in plan.compared], reference_claims(state)
    pairs = [(use.name, best(found, use.name), best(own, use.name)) for use in plan.datasets]
    return tuple(
        Beaten(dataset=name, rung=rung, best=arm)
        for name, rung, arm in pairs
        if rung is not None and arm is not None and sign * rung.mean > sign * arm.mean
    )
