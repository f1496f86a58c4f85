"""`python -m benchmarks.reference_baselines --out FILE`: the reference models compared with plain scikit-learn.

On the splits of a run, the reference models as a run measures them (real kernels, `trials` settings drawn as in the
search, the best on validation scored on test), next to plain scikit-learn: DummyClassifier or DummyRegressor, a
linear model and boosted trees with defaults, and the better of the two after a random search of as many settings by
3-fold cross-validation on train. Every model is trained on train only.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import labwright
from benchmarks.report import make_parser, print_report
from labwright.record.reducers.run_state import RunState, SearchState
from labwright.record.reference_baselines import OFF_THE_SHELF_ARM, TRIVIAL_ARM, build_reference_space
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    DatasetUse,
    HyperparameterSetting,
    MetricSpec,
    Trial,
    TuningPlan,
)
from labwright.record.schema.nodes import Cell
from labwright.record.source_tree import ENTRY_FILE
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import CellTask, Job, measure_all
from labwright.sandbox.metrics import METRICS, compute_scores
from labwright.sandbox.scoring import score_sealed
from labwright.sandbox.settings import SandboxSettings
from labwright.search.stage_snapshot import StageSnapshot
from labwright.search.tuning import sample_settings

DATASETS = {"breast_cancer": "log_loss", "digits": "accuracy", "diabetes": "mse"}
"""A table with classes, an image set, a table with numbers to predict; and the primary metric of each."""


PROGRAM = Path(labwright.__file__).parent / "stages" / "reference_models" / ENTRY_FILE
SCORING = {"log_loss": "neg_log_loss", "accuracy": "accuracy", "mse": "neg_mean_squared_error"}


@dataclass(frozen=True)
class BaselineComparison:
    """Values of the primary metric on test data; for the reference models also on validation, and compute time."""

    dataset: str
    metric: str
    trials: int
    trivial: float
    tuned: float
    tuned_validation: float
    setting: HyperparameterSetting
    seconds: float
    wall_seconds: float
    dummy: float
    linear: float
    boosted: float
    searched: float
    searched_seconds: float


def list_trials(facts: DatasetFacts, metric: str, *, trials: int, seed: int) -> tuple[Trial, ...]:
    """Return the trials of a run with this seed."""
    plan = DataPlan(
        task="",
        datasets=(DatasetUse(name=facts.name),),
        metrics=(METRICS[metric],),
        expected_seconds=1.0,
        arms=(Arm(name="a", role="baseline"), Arm(name="b", role="method")),
        tuning=TuningPlan(budget=trials),
    )
    space = build_reference_space(RunState(search=SearchState(data_plan=plan, datasets=(facts,))))
    shared = tuple(one.model_copy(update={"arms": ("a",)}) for one in space)  # so that the plan has something to tune
    return sample_settings(
        StageSnapshot(
            stage="tuning", plan=plan.model_copy(update={"space": shared}), nodes={}, seed=seed, reference_space=space
        )
    )


async def run_reference(
    folder: Path, facts: DatasetFacts, metric: MetricSpec, trials: Sequence[Trial]
) -> dict[str, Any]:
    """Measure the reference models in a kernel, as a run does."""
    executor = LocalExecutor(1, folder / "views", settings=SandboxSettings(isolation="none"))
    cells = {Cell(dataset=facts.name, arm=one.arm, trial=one.number, seed=facts.seed): one.setting for one in trials}
    left: dict[Cell, Path] = {}
    values: dict[Cell, float] = {}

    began = time.monotonic()
    try:
        outcome = await measure_all(
            executor,
            Job(
                name="ladder",
                folder=folder / "job",
                source={ENTRY_FILE: PROGRAM.read_text()},
                timeout=600.0,
                cells={cell: CellTask(setting=setting) for cell, setting in cells.items()},
                may_skip_cells=False,
            ),
        )
        for cell, (place, result) in outcome.folders.items():
            assert result.failure is None, result.failure
            left[cell] = place
            values[cell] = next(one.value for one in result.measurements if one.name == metric.name)
    finally:
        await executor.close()
    sign = 1 if metric.higher_is_better else -1
    best = max((cell for cell in cells if cell.arm == OFF_THE_SHELF_ARM), key=lambda cell: sign * values[cell])

    def on_test(cell: Cell) -> float:
        scored = score_sealed(left[cell], folder / "labels", seed=facts.seed)
        return next(one.value for one in scored if one.name == metric.name)

    return {
        "trials": len(cells) - 1,
        "setting": cells[best],
        "seconds": round(outcome.seconds, 2),
        "wall_seconds": round(time.monotonic() - began, 2),
        "tuned_validation": values[best],
        "tuned": on_test(best),
        "trivial": on_test(next(cell for cell in cells if cell.arm == TRIVIAL_ARM)),
    }


def run_plain(folder: Path, facts: DatasetFacts, metric: MetricSpec, trials: int) -> dict[str, float]:
    """Measure plain scikit-learn on the same splits, with test labels read here."""
    ensemble, models, dummy, selection, stats = (
        import_module(name)
        for name in (
            "sklearn.ensemble",
            "sklearn.linear_model",
            "sklearn.dummy",
            "sklearn.model_selection",
            "scipy.stats",
        )
    )
    with np.load(folder / "views" / f"{facts.name}.npz") as view, np.load(folder / "labels" / f"{facts.name}.npz") as y:
        x_train, y_train, x_test, y_test = view["train_x"], view["train_y"], view["test_x"], y["test_y"]
    kind, scoring = "Classifier" if facts.classes else "Regressor", SCORING[metric.name]
    linear = models.LogisticRegression(max_iter=1000) if facts.classes else models.Ridge()
    boosted = getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=facts.seed)

    def on_test(model: Any) -> float:
        given = model.predict_proba(x_test) if facts.classes else model.predict(x_test)
        return compute_scores("probabilities" if facts.classes else "predictions", given, y_test)[metric.name]

    def searched(model: Any, **space: Any) -> Any:
        return selection.RandomizedSearchCV(
            model, space, n_iter=trials // 2, cv=3, scoring=scoring, random_state=facts.seed
        ).fit(x_train, y_train)

    found = [
        on_test(model.fit(x_train, y_train))
        for model in (getattr(dummy, f"Dummy{kind}")(strategy="prior" if facts.classes else "mean"), linear, boosted)
    ]
    began = time.monotonic()
    both = (
        searched(linear, **{"C" if facts.classes else "alpha": stats.loguniform(1e-4, 1e4)}),
        searched(
            boosted,
            learning_rate=stats.loguniform(0.02, 0.5),
            max_iter=stats.randint(30, 151),
            max_leaf_nodes=stats.randint(4, 32),
            min_samples_leaf=stats.randint(5, 51),
        ),
    )
    best = max(both, key=lambda one: one.best_score_)
    return dict(
        zip(
            ("dummy", "linear", "boosted", "searched", "searched_seconds"),
            (*found, on_test(best), round(time.monotonic() - began, 2)),
            strict=True,
        )
    )


def compare_dataset(name: str, *, trials: int, seed: int) -> BaselineComparison:
    """Compare the reference models with plain scikit-learn on one bundled dataset."""
    metric = METRICS[DATASETS[name]]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        facts = materialise(name, views=folder / "views", labels=folder / "labels", seed=seed)
        drawn_ones = list_trials(facts, metric.name, trials=trials, seed=seed)
        ours = asyncio.run(run_reference(folder, facts, metric, drawn_ones))
        with import_module("threadpoolctl").threadpool_limits(1):
            others: dict[str, Any] = run_plain(folder, facts, metric, ours["trials"])
        return BaselineComparison(dataset=name, metric=metric.name, **ours, **others)


def main(args: list[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset", action="append", choices=[*DATASETS], help="default: all three")
    options = parser.parse_args(args)
    names: list[str] = options.dataset or [*DATASETS]
    found = [asdict(compare_dataset(name, trials=options.trials, seed=options.seed)) for name in names]
    print_report(found, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
