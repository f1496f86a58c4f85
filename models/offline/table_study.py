"""The offline model's study of a user's own tables: models of scikit-learn, compared as the plan says.

Its own plan compares gradient boosting with a linear model, and with boosted stumps, which separate the rival
explanation that columns act alone. A plan by the user may compare any arms that are named in `ESTIMATORS`, with the
hyperparameters that are named there. Nothing is written that does not follow from the plan and the record.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from labwright.models.errors import CatalogueError
from labwright.models.offline.edits import MAX_LINE_CHARACTERS, Scripts, make_program, render_template
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.study_plan import AblationPlan, AblationPlanInputs, CatalogueEntry, PlanInputs
from labwright.record.baseline_check import Ablation
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Hyperparameter, MetricSpec, TuningPlan
from labwright.record.schema.hypotheses import Effect, Hypothesis, PossibleOutcomes, RivalExplanation

SMALLEST_EFFECTS = {
    "log_loss": 0.02,
    "accuracy": 0.01,
    "macro_f1": 0.01,
    "auroc": 0.01,
    "brier": 0.01,
    "ece": 0.01,
    "r2": 0.02,
}
"""Smallest differences that matter, of metrics without a unit of the user."""
TITLES = {
    "accuracy": ("accuracy", True),
    "macro_f1": ("macro F1", True),
    "auroc": ("AUROC", True),
    "log_loss": ("log loss", False),
    "brier": ("Brier score", False),
    "ece": ("ECE", False),
    "r2": ("R squared", True),
    "mae": ("mean absolute error", False),
    "mse": ("mean squared error", False),
}
"""Metric -> title, and whether higher values are better."""
CLASSIFICATION_METRICS, REGRESSION_METRICS = ("log_loss", "accuracy"), ("r2", "mae")
TRAINING_SHARES = (1.0, 0.5, 0.25, 0.75, 0.35, 0.9)
"""Shares of the training rows of later programs: what the comparison owes to the number of rows."""
HALF_THE_ROWS = "without-half-of-the-rows"
BASELINE, STUMPS, METHOD = "linear_model", "boosted_stumps", "gradient_boosting"


@dataclass(frozen=True)
class Estimator:
    """A model of scikit-learn: its expressions, which read `setting`, and its hyperparameters."""

    title: str
    description: str
    module: str
    classifier: str
    regressor: str
    space: tuple[Hyperparameter, ...]
    part: str = ""
    """What its ablation takes out."""
    replacement: tuple[str, str] = ("", "")
    """Text of the expressions, and what stands in its place in the ablation."""


def _log(name: str, low: float, high: float, default: float, source: str) -> Hyperparameter:
    return Hyperparameter(name=name, kind="log", low=low, high=high, default=default, source=source)


def _integer(name: str, low: int, high: int, default: int, source: str) -> Hyperparameter:
    return Hyperparameter(name=name, kind="integer", low=low, high=high, default=default, source=source)


_DEFAULT = "the default of scikit-learn"
ESTIMATORS = {
    BASELINE: Estimator(
        "linear model",
        "logistic regression or ridge regression on standardised columns",
        "linear_model",
        'LogisticRegression(C=1 / setting["penalty"], max_iter=2000)',
        'Ridge(alpha=setting["penalty"])',
        (_log("penalty", 0.001, 1000.0, 1.0, _DEFAULT),),
    ),
    METHOD: Estimator(
        "gradient boosting",
        "boosted trees on histograms, which model interactions of columns",
        "ensemble",
        'HistGradientBoostingClassifier(learning_rate=setting["rate"], '
        'max_leaf_nodes=int(setting["leaves"]), random_state=lab.seed)',
        'HistGradientBoostingRegressor(learning_rate=setting["rate"], '
        'max_leaf_nodes=int(setting["leaves"]), random_state=lab.seed)',
        (_log("rate", 0.01, 0.5, 0.1, _DEFAULT), _integer("leaves", 3, 64, 31, _DEFAULT)),
    ),
    STUMPS: Estimator(
        "boosted stumps",
        "the same boosting with trees of a single split, in which every column acts alone",
        "ensemble",
        'HistGradientBoostingClassifier(learning_rate=setting["rate"], max_leaf_nodes=2, random_state=lab.seed)',
        'HistGradientBoostingRegressor(learning_rate=setting["rate"], max_leaf_nodes=2, random_state=lab.seed)',
        (_log("rate", 0.01, 0.5, 0.1, _DEFAULT),),
    ),
    "random_forest": Estimator(
        "random forest",
        "an average of trees that are grown on samples of rows and columns",
        "ensemble",
        'RandomForestClassifier(n_estimators=200, min_samples_leaf=int(setting["leaf_rows"]), random_state=lab.seed)',
        'RandomForestRegressor(n_estimators=200, min_samples_leaf=int(setting["leaf_rows"]), random_state=lab.seed)',
        (_integer("leaf_rows", 1, 32, 1, _DEFAULT),),
        "averaging of trees",
        ("n_estimators=200", "n_estimators=1"),
    ),
    "nearest_neighbours": Estimator(
        "nearest neighbours",
        "the average of the nearest training rows, on standardised columns",
        "neighbors",
        'KNeighborsClassifier(n_neighbors=int(setting["neighbours"]))',
        'KNeighborsRegressor(n_neighbors=int(setting["neighbours"]))',
        (_integer("neighbours", 1, 50, 5, _DEFAULT),),
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
    deciding = next(name for name in names if name in SMALLEST_EFFECTS)
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


def _state_hypothesis(entry: CatalogueEntry, metric: str, *, is_main: bool) -> Hypothesis:
    def subtract(other: str) -> str:
        difference = f"{METHOD} - {other}" if TITLES[metric][1] else f"{other} - {METHOD}"
        return difference if is_main else f"on({difference}, {entry.name})"

    title, smallest = TITLES[metric][0], SMALLEST_EFFECTS[metric]
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
            refuted="The linear model is as good, or good enough: use it, since it is easier to read.",
            open="The table is too small to tell the two apart at this difference: collect more rows.",
        ),
    )


# --- code -------------------------------------------------------------------------------------------------------------


def write_table_program(inputs: CodeInputs) -> Program:
    """Write the program of a node. Later programs use fewer training rows, and those of ablations add an arm."""
    if inputs.stage == "ablation" or inputs.kind == "ablate":
        return _ablate(inputs)
    turn = 0 if inputs.kind in ("draft", "debug") else 1 + inputs.ordinal
    share = TRAINING_SHARES[turn % len(TRAINING_SHARES)]
    rows = "all training rows" if share == 1 else f"{share:.0%} of the training rows"
    title = f"The arms on {rows}"
    plan = f"Fit every arm of the plan to {rows}."
    return make_program(inputs.parent, _write(inputs, title, plan, share=share), title=title, plan=plan, varies=rows)


def _ablate(inputs: CodeInputs) -> Program:
    name = inputs.ablation.name if inputs.ablation is not None else HALF_THE_ROWS
    title = f"The method {name.replace('-', ' ')}"
    plan = inputs.ablation.change_text if inputs.ablation is not None else "Fit the method to half of the rows."
    program = make_program(
        inputs.parent, _write(inputs, title, plan, ablated=name), title=title, plan=plan, varies=name
    )
    return program.model_copy(update={"arms": (name,)})


def _write(inputs: CodeInputs, title: str, plan: str, *, share: float = 1.0, ablated: str = "") -> Scripts:
    is_classification = is_about_classes(inputs.data_plan)
    arms = [*inputs.data_plan.compared_arms]
    models = {arm: _express(arm, classification=is_classification) for arm in arms}
    if ablated:
        method = inputs.data_plan.find_tuned_arm(ablated)
        old, new = ESTIMATORS[method].replacement
        whole = models[method]
        models[ablated] = whole.replace(old, new) if ablated == _name_ablation(method) else whole
    experiment = render_template(
        "own_table/experiment.py.jinja",
        title=title,
        plan=textwrap.fill(plan, MAX_LINE_CHARACTERS),
        modules=sorted({ESTIMATORS[arm].module for arm in arms}),
        share=share,
        halved=[ablated] if ablated == HALF_THE_ROWS else [],
        models=models,
        classification=is_classification,
    )
    return Scripts(experiment, write_table_plots(inputs.data_plan))


def write_table_plots(plan: DataPlan) -> str:
    """Write the script that draws what the arms predict on the dev part."""
    return render_template("own_table/plots.py.jinja", classification=is_about_classes(plan))


def is_about_classes(plan: DataPlan) -> bool:
    """Return whether a plan predicts classes rather than numbers."""
    return plan.primary_metric.name not in ("r2", "mae", "mse")


def _express(arm: str, *, classification: bool) -> str:
    estimator = ESTIMATORS[arm]
    return f"{estimator.module}.{estimator.classifier if classification else estimator.regressor}"


# --- ablations --------------------------------------------------------------------------------------------------------


def plan_table_ablations(inputs: AblationPlanInputs) -> AblationPlan:
    """Plan the ablations of the first method: its part, if it has one, and half of the training rows."""
    plan = inputs.data_plan
    method = next((arm.name for arm in plan.arms if arm.role == "method"), plan.compared_arms[-1])
    estimator, metrics = ESTIMATORS[method], tuple(one.name for one in plan.metrics)
    rows = Ablation(
        name=HALF_THE_ROWS,
        part="half of the training rows",
        action="remove",
        metrics=metrics,
        why="Fit the method to half as many rows: is the number of rows what limits it?",
    )
    if not estimator.part:
        return AblationPlan(ablations=(rows,))
    part = Ablation(
        name=_name_ablation(method),
        part=estimator.part,
        action="remove",
        metrics=metrics,
        why=f"Fit the method without {estimator.part}: is this what it gains by?",
    )
    return AblationPlan(ablations=(part, rows)[: inputs.most])


def _name_ablation(method: str) -> str:
    return f"without-{ESTIMATORS[method].part.removeprefix('the ').lower().replace(' ', '-')}"


# --- paper ------------------------------------------------------------------------------------------------------------


def describe_table_setup() -> Sequence[str]:
    """Return the sentences on the set-up that hold for every such study."""
    return (
        "Rows are split once into training, development, validation and test parts; labels of the last two are never "
        "seen by the code, and the program scores its predictions.",
        "Each seed draws a bootstrap sample of the training rows, the same for every arm.",
        "Columns are standardised, and missing values are replaced by medians of the training rows.",
        "The hyperparameters of every arm are tuned with equal effort on validation data.",
    )
