"""The offline model's study of a user's own tables: models of scikit-learn, compared as the plan says.

Its own plan compares gradient boosting with a linear model, and with boosted stumps, which separate the rival
explanation that columns act alone. A plan by the user may compare any arms that are named in `ESTIMATORS`, with the
hyperparameters that are named there. Nothing is written that does not follow from the plan and the record.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from labwright.models.errors import CatalogueError
from labwright.models.offline.study import MAX_LINE_CHARACTERS, Scripts, make_program, render_template
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.study_plan import AblationPlan, AblationPlanInputs, PlanInputs
from labwright.record.baseline_check import Ablation
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    DatasetUse,
    Hyperparameter,
    MetricSpec,
    TuningPlan,
)
from labwright.record.schema.hypotheses import Effect, Hypothesis, PossibleOutcomes, RivalExplanation

TITLES = {
    "accuracy": ("accuracy", True, 0.01),
    "macro_f1": ("macro F1", True, 0.01),
    "auroc": ("AUROC", True, 0.01),
    "log_loss": ("log loss", False, 0.02),
    "brier": ("Brier score", False, 0.01),
    "ece": ("ECE", False, 0.01),
    "r2": ("R squared", True, 0.02),
    "mae": ("mean absolute error", False, None),
    "mse": ("mean squared error", False, None),
}
"""Metric -> title, whether higher values are better, and the smallest difference that matters (None: its unit is the
user's)."""
CLASSIFICATION_METRICS, REGRESSION_METRICS = ("log_loss", "accuracy"), ("r2", "mae")
TRAINING_SHARES = (1.0, 0.5, 0.25, 0.75, 0.35, 0.9)
"""Shares of the training rows of later programs: what the comparison owes to the number of rows."""
HALF_THE_ROWS = "without-half-of-the-rows"
BASELINE, STUMPS, METHOD = "linear_model", "boosted_stumps", "gradient_boosting"


@dataclass(frozen=True)
class Estimator:
    """A model of scikit-learn and its hyperparameters."""

    title: str
    description: str
    module: str
    expression: str
    """It reads `setting`; `*` stands for `Classifier` or `Regressor`."""
    space: tuple[Hyperparameter, ...]
    regressor: str = ""
    """The expression for numbers, if it is another one."""


def _build_hyperparameter(
    name: str, kind: Literal["log", "integer"], low: float, high: float, default: float
) -> Hyperparameter:
    source = "the default of scikit-learn"
    return Hyperparameter(name=name, kind=kind, low=low, high=high, default=default, source=source)


_RATE = _build_hyperparameter("rate", "log", 0.01, 0.5, 0.1)
ESTIMATORS = {
    BASELINE: Estimator(
        "linear model",
        "logistic regression or ridge regression on standardised columns",
        "linear_model",
        'LogisticRegression(C=1 / setting["penalty"], max_iter=2000)',
        (_build_hyperparameter("penalty", "log", 0.001, 1000.0, 1.0),),
        'Ridge(alpha=setting["penalty"])',
    ),
    METHOD: Estimator(
        "gradient boosting",
        "boosted trees on histograms, which model interactions of columns",
        "ensemble",
        'HistGradientBoosting*(learning_rate=setting["rate"], max_leaf_nodes=int(setting["leaves"]), '
        "random_state=lab.seed)",
        (_RATE, _build_hyperparameter("leaves", "integer", 3, 64, 31)),
    ),
    STUMPS: Estimator(
        "boosted stumps",
        "the same boosting with trees of a single split, in which every column acts alone",
        "ensemble",
        'HistGradientBoosting*(learning_rate=setting["rate"], max_leaf_nodes=2, random_state=lab.seed)',
        (_RATE,),
    ),
    "random_forest": Estimator(
        "random forest",
        "an average of trees that are grown on samples of rows and columns",
        "ensemble",
        'RandomForest*(n_estimators=200, min_samples_leaf=int(setting["leaf_rows"]), random_state=lab.seed)',
        (_build_hyperparameter("leaf_rows", "integer", 1, 32, 1),),
    ),
    "nearest_neighbours": Estimator(
        "nearest neighbours",
        "the average of the nearest training rows, on standardised columns",
        "neighbors",
        'KNeighbors*(n_neighbors=int(setting["neighbours"]))',
        (_build_hyperparameter("neighbours", "integer", 1, 50, 5),),
    ),
}
"""The arms that the offline model can measure, by name."""


def is_table_study(plan: DataPlan) -> bool:
    """Return whether a plan compares models of scikit-learn on tables."""
    return all(arm in ESTIMATORS for arm in plan.compared_arms)


def plan_table_study(inputs: PlanInputs) -> DataPlan:
    """Plan a comparison of gradient boosting with a linear model on the user's tables, tuned with equal effort.

    Raises `CatalogueError` for data that are no tables, or of different kinds.
    """
    own = [one for one in inputs.catalogue if one.own]
    tasks = {one.task for one in own}
    if odd := [one.name for one in own if one.shape or one.form or one.task not in ("classification", "regression")]:
        raise CatalogueError(
            f"the offline model studies tables of numbers and categories, and {odd[0]} is none: choose another model "
            "with --model"
        )
    if len(tasks) > 1:
        raise CatalogueError("the offline model studies tables of one kind, classes or numbers: give them one by one")
    known = CLASSIFICATION_METRICS if tasks == {"classification"} else REGRESSION_METRICS
    asked = inputs.idea.metric or ""
    usable = [name for name in TITLES if name in inputs.metrics]
    is_fit = asked in usable and (asked in ("r2", "mae", "mse")) == (known == REGRESSION_METRICS)
    names = list(dict.fromkeys((asked, *known) if is_fit else known))
    deciding = next(name for name in names if TITLES[name][2] is not None)
    arms = (BASELINE, STUMPS, METHOD)
    datasets = tuple(DatasetUse(name=one.name, title="", reason="the user's table") for one in own)
    return DataPlan(
        task=f"Predict {' and '.join(one.target or 'the target' for one in own)} from the columns of a table, and ask "
        "whether gradient boosting is worth more than a linear model.",
        datasets=datasets,
        metrics=tuple(MetricSpec(name=one, title=TITLES[one][0], higher_is_better=TITLES[one][1]) for one in names),
        arms=tuple(
            Arm(
                name=name,
                title=ESTIMATORS[name].title,
                role="method" if name == METHOD else "baseline",
                description=ESTIMATORS[name].description,
            )
            for name in arms
        ),
        space=_list_space(arms),
        tuning=TuningPlan(budget=8),
        hypotheses=tuple(_state_hypothesis(one, deciding, is_main=one is own[0]) for one in own[:5]),
        untested=("other models than these", "other tables", "experiments of the idea beyond this comparison"),
        expected_seconds=5.0,
        objective="measure",
        objective_reason="The study compares two known models and proposes none.",
        notes="Planned by rules of the offline model, without a language model.",
    )


def _list_space(arms: Sequence[str]) -> tuple[Hyperparameter, ...]:
    """Return the hyperparameters of some arms, each with the arms that have it."""
    known = {one.name: one for arm in arms for one in ESTIMATORS[arm].space}
    return tuple(
        one.model_copy(
            update={"arms": tuple(arm for arm in arms if name in {each.name for each in ESTIMATORS[arm].space})}
        )
        for name, one in known.items()
    )


def _state_hypothesis(entry: DatasetFacts, metric: str, *, is_main: bool) -> Hypothesis:
    title, is_higher_better, smallest = TITLES[metric]
    assert smallest is not None

    def subtract(other: str) -> str:
        difference = f"{METHOD} - {other}" if is_higher_better else f"{other} - {METHOD}"
        return difference if is_main else f"on({difference}, {entry.name})"

    return Hypothesis(
        id=f"boosting-on-{entry.name.lower().replace('_', '-')}"[:40],
        title="boosting is better than a linear model",
        statement=f"On rows that it has not seen, gradient boosting has the better {title} than a linear model.",
        effects=(Effect(estimand=subtract(BASELINE), metric=metric, smallest=smallest, claim="positive"),),
        reason="a smaller gain does not pay for a model that is harder to read",
        rival=RivalExplanation(
            statement="Only the shape of single columns matters, which boosted stumps model too.",
            estimand=subtract(STUMPS),
            ours="above zero",
            theirs="near zero",
        ),
        outcomes=PossibleOutcomes(
            supported="Interactions or steps in the columns matter: use boosted trees.",
            refuted="Boosting gains nothing, or too little to matter: use the linear model, which is easier to read.",
            open="The table is too small to tell the two apart at this difference: collect more rows.",
        ),
    )


# --- code -------------------------------------------------------------------------------------------------------------


def write_table_program(inputs: CodeInputs) -> Program:
    """Write the program of a node. Later programs use fewer training rows, and those of ablations add an arm."""
    share, ablated = 1.0, ""
    if inputs.stage == "ablation" or inputs.kind == "ablate":
        ablated = varies = inputs.ablation.name if inputs.ablation is not None else HALF_THE_ROWS
        title = f"The method {ablated.replace('-', ' ')}"
        text = inputs.ablation.change_text if inputs.ablation is not None else "Fit the method to half of the rows."
    else:
        turn = 0 if inputs.kind in ("draft", "debug") else 1 + inputs.ordinal
        share = TRAINING_SHARES[turn % len(TRAINING_SHARES)]
        varies = "all training rows" if share == 1 else f"{share:.0%} of the training rows"
        title, text = f"The arms on {varies}", f"Fit every arm of the plan to {varies}."
    plan = inputs.data_plan
    models = {arm: _express(arm, classification=is_about_classes(plan)) for arm in plan.compared_arms}
    if ablated:
        models[ablated] = models[plan.find_tuned_arm(ablated)]
    experiment = render_template(
        "own_table/experiment.py.jinja",
        title=title,
        plan=textwrap.fill(text, MAX_LINE_CHARACTERS),
        modules=sorted({ESTIMATORS[arm].module for arm in plan.compared_arms}),
        share=share,
        halved=[ablated] if ablated == HALF_THE_ROWS else [],
        models=models,
        classification=is_about_classes(plan),
    )
    program = make_program(Scripts(experiment, write_table_plots(plan)), title=title, plan=text, varies=varies)
    return program.model_copy(update={"arms": (ablated,)}) if ablated else program


def write_table_plots(plan: DataPlan) -> str:
    """Write the script that draws what the arms predict on the dev part."""
    return render_template("own_table/plots.py.jinja", classification=is_about_classes(plan))


def is_about_classes(plan: DataPlan) -> bool:
    """Return whether a plan predicts classes rather than numbers."""
    return plan.primary_metric.name not in ("r2", "mae", "mse")


def _express(arm: str, *, classification: bool) -> str:
    one = ESTIMATORS[arm]
    text = one.expression if classification else one.regressor or one.expression
    return f"{one.module}.{text.replace('*', 'Classifier' if classification else 'Regressor')}"


def plan_table_ablations(inputs: AblationPlanInputs) -> AblationPlan:
    """Plan the one ablation: half of the training rows."""
    rows = Ablation(
        name=HALF_THE_ROWS,
        part="half of the training rows",
        action="remove",
        metrics=tuple(one.name for one in inputs.data_plan.metrics),
        why="Fit the method to half as many rows: is the number of rows what limits it?",
    )
    return AblationPlan(ablations=(rows,))
