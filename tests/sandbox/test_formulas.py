"""Metric formulas: values compared with scikit-learn, resamples, groups, and one-line errors."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as untyped

from labwright.record.schema.data_plan import MetricSpec, SubmittedColumn
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.datasets import build_registry, materialise, read_materialised
from labwright.sandbox.job import DatasetError, SubmissionRefused
from labwright.sandbox.metrics import (
    FormulaError,
    FormulaInputs,
    build_measures,
    compute_resampled_scores,
    compute_scores,
    draw_counts,
    find_formula_faults,
    parse_formula,
    rates_predictions,
    write_formulas,
)
from labwright.sandbox.scoring import compute_constants, score_sealed, score_submissions, seal_test_predictions
from tests.sandbox.test_scoring import put

sk: Any = untyped
RNG = np.random.default_rng(3)
N, K = 90, 4
TRUTH = RNG.integers(0, K, N)
P = RNG.dirichlet(np.ones(K), N) * 0.6 + 0.4 * np.eye(K)[TRUTH]
SAID = P.argmax(axis=1)
WARD = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
IN = {w: np.flatnonzero(w == WARD) for w in ("a", "b", "c")}
HINT = np.array(["k0", "k1", "k2", "k3"])[RNG.integers(0, K, N)]


def share(true: Any) -> float:
    return float(sum(true) / len(true))


def seen(truth: Any = TRUTH, values: Any = P, kind: str = "probabilities", **more: Any) -> FormulaInputs:
    return FormulaInputs(kind, values, truth, ("k0", "k1", "k2", "k3"), {"ward": WARD, "hint": HINT}, **more)


def value(text: str, at: FormulaInputs) -> float:
    return compute_scores(at.kind, at.values, at.truth, build_measures({"m": text}, at))["m"]


@pytest.mark.parametrize(
    ("text", "by_hand"),
    [
        ("f1_score(average=macro)", lambda: sk.f1_score(TRUTH, SAID, average="macro")),
        ("balanced_accuracy", lambda: sk.balanced_accuracy_score(TRUTH, SAID)),
        ("cohen_kappa_score(weights=quadratic)", lambda: sk.cohen_kappa_score(TRUTH, SAID, weights="quadratic")),
        ("top_k_accuracy_score(k=3)", lambda: sk.top_k_accuracy_score(TRUTH, P, k=3)),
        ("neg_log_loss", lambda: -sk.log_loss(TRUTH, P)),
        ("worst(accuracy, by=ward)", lambda: min(sk.accuracy_score(TRUTH[IN[w]], SAID[IN[w]]) for w in "abc")),
        (
            "mean(f1_score(average=macro), by=ward)",
            lambda: np.mean([sk.f1_score(TRUTH[IN[w]], SAID[IN[w]], average="macro") for w in "abc"]),
        ),
        ("within(accuracy, by=ward, group=b)", lambda: sk.accuracy_score(TRUTH[IN["b"]], SAID[IN["b"]])),
    ],
)
def test_values_are_those_of_scikit_learn_called_by_hand(text: str, by_hand: Any) -> None:
    assert value(text, seen()) == pytest.approx(by_hand(), rel=1e-9)


@pytest.mark.parametrize("text", ["matthews_corrcoef", "gap(macro_f1, by=ward)", "agreement(hint)"])
def test_resamples_are_values_of_the_examples_drawn(text: str) -> None:
    counts = draw_counts(np.random.default_rng(1), 5, N)
    found = compute_resampled_scores(
        "probabilities", P, TRUTH, counts=counts, names={"m"}, more=build_measures({"m": text}, seen())
    )
    for row, got in zip(counts, found["m"], strict=True):
        index = np.repeat(np.arange(N), row)
        drawn = FormulaInputs(
            "probabilities", P[index], TRUTH[index], seen().class_names, {"ward": WARD[index], "hint": HINT[index]}
        )
        assert got == pytest.approx(value(text, drawn))


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("f2_score", "unknown metric 'f2_score'; did you mean r2_score or f1_score"),
        ("fbeta_score(2)", "takes its arguments by name"),
        ("within(accuracy, by=ward)", "by= and group="),
        ("accuracy_of(a, b)", "must be written accuracy_of(COLUMN)"),
        ("lambda: " * 400 + "a", "cannot be parsed"),
        ("f1_score(average=[[1], {}])", "is not a valid argument value"),
    ],
)
def test_what_is_no_formula_is_said(text: str, complaint: str) -> None:
    with pytest.raises(FormulaError, match=r"\w") as caught:
        parse_formula(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fields", "classes", "complaint"),
    [
        ("worst(accuracy, by=city)", {}, 4, "unknown column 'city'; available: ward"),
        ("f1_score", {}, 4, "multiclass"),
        ("f1_score(average=macro)", {"higher_is_better": False}, 4, "declared as lower is better, but perfect"),
        ("matthews_corrcoef", {"low": 0.0, "high": 1.0}, 4, "its declared range is 0 to 1, but"),
        ("root_mean_squared_error", {"higher_is_better": False}, 4, "it needs numbers, but this dataset has classes"),
        ("worst(mse, by=ward)", {"higher_is_better": False}, 4, "it needs numbers, but this dataset has classes"),
        ("agreement(ward)", {}, 4, "never names a class"),
    ],
)
def test_trials_contradict_what_a_plan_declares(
    text: str, fields: dict[str, Any], classes: int, complaint: str
) -> None:
    metric = MetricSpec.model_validate({"name": "m", "formula": text, "higher_is_better": True, **fields})
    faults = list(find_formula_faults(metric, classes, {"ward": ("a", "b", "c")}, ("k0", "k1", "k2", "k3")))
    assert len(faults) == 1
    assert complaint in faults[0]
    assert "\n" not in faults[0]


# --- from a file to scores ------------------------------------------------------------------------------------------


def table(path: Path, *, split: bool = False) -> Path:
    rng = random.Random(1)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "z", "ward", "secret", "part", "sick"])
        for i in range(200):
            sick, part = rng.choice(["no", "yes"]), "train" if i < 120 else "validation" if i < 160 else "test"
            writer.writerow(
                [
                    rng.gauss(sick == "yes", 1),
                    rng.random(),
                    rng.choice("abc"),
                    f"SECRET{i % 7}-{sick}",
                    part if split else "",
                    sick,
                ]
            )
    return path


def own(tmp_path: Path, options: str, *, split: bool = False) -> Any:
    sources = build_registry(
        (parse_spec(f"wards={table(tmp_path / 'w.csv', split=split)},target=sick,{options}", tmp_path),)
    )
    return materialise("wards", views=tmp_path / "views", labels=tmp_path / "labels", seed=0, sources=sources)


def test_groups_of_a_file_are_scored_on_validation_and_sealed_test(tmp_path: Path) -> None:
    facts = own(tmp_path, "meta=ward,meta=secret,drop=part")
    assert facts.meta == {
        "ward": ("a", "b", "c"),
        "secret": tuple(sorted(f"SECRET{i}-{s}" for i in range(7) for s in ("no", "yes"))),
    }
    assert facts.columns == ("x", "z")
    metrics = [MetricSpec(name="worst_ward", formula="worst(accuracy, by=ward)", higher_is_better=True)]
    write_formulas(metrics, (), tmp_path / "labels")
    labels = np.load(tmp_path / "labels" / "wards.npz")
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    for number, (split, condition) in enumerate(
        [("validation", "a"), ("validation", "b"), ("test", "a"), ("test", "b")]
    ):
        p = np.random.default_rng(number).dirichlet([1, 1], len(labels[f"{split}_y"]))
        put(attempt, number, split, dataset="wards", condition=condition, values=p)
    values = {
        one.condition: one
        for one in score_submissions(attempt, tmp_path / "labels", split="validation", seed=0)
        if one.name == "worst_ward"
    }
    p, y = (np.random.default_rng(0).dirichlet([1, 1], 40).argmax(axis=1), labels["validation_y"])
    ward = labels["validation_meta"][:, 0]
    assert values["a"].value == min(share(p[ward == w] == y[ward == w]) for w in "abc")
    sealed = seal_test_predictions(attempt, tmp_path / "labels")
    tests = score_sealed(attempt, tmp_path / "labels", seed=0, expected=sealed)
    p, y = (np.random.default_rng(2).dirichlet([1, 1], 40).argmax(axis=1), labels["test_y"])
    ward = labels["test_meta"][:, 0]
    [worst] = [one.value for one in tests if one.name == "worst_ward" and one.condition == "a"]
    assert worst == min(share(p[ward == w] == y[ward == w]) for w in "abc")
    assert 0 < compute_constants(tmp_path / "labels", metrics)["worst_ward"]["wards"] < 1


COLUMNS = (
    SubmittedColumn(name="mark", holds="classes", description="the class that the mark stands for"),
    SubmittedColumn(name="marked", holds="groups", description="1 if the image has a mark"),
)


def submit_with_columns(folder: Path, split: str, truth: Any, **changes: Any) -> dict[str, Any]:
    """Submit predictions of two classes for `wards` as condition a, with the columns of the plan."""
    rng = np.random.default_rng(len(split))
    values = {"mark": rng.integers(-1, 2, len(truth)), "marked": rng.integers(0, 2, len(truth)), **changes}
    columns = {f"column-{name}": column for name, column in values.items() if column is not None}
    p = rng.dirichlet([1, 1], len(truth))
    put(folder, len(split), split, dataset="wards", condition="a", values=p, **columns)
    return values | {"said": p.argmax(axis=1)}


def test_formulas_read_columns_that_the_code_submitted(tmp_path: Path) -> None:
    own(tmp_path, "meta=ward,drop=part")
    metrics = {
        "follows": "agreement(mark)",
        "unmarked": "accuracy_of(mark)",
        "clean": "within(accuracy, by=marked, group=0)",
        "worst_ward": "worst(accuracy, by=ward)",
    }
    planned = [MetricSpec(name=name, formula=text, higher_is_better=True) for name, text in metrics.items()]
    write_formulas(planned, COLUMNS, tmp_path / "labels")
    labels = np.load(tmp_path / "labels" / "wards.npz")
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    given = {split: submit_with_columns(attempt, split, labels[f"{split}_y"]) for split in ("validation", "test")}
    scored = score_submissions(attempt, tmp_path / "labels", split="validation", seed=0, grade="scored")
    sealed = seal_test_predictions(attempt, tmp_path / "labels", grade="scored")
    tests = score_sealed(attempt, tmp_path / "labels", seed=0, expected=sealed)
    for split, values in (("validation", scored), ("test", tests)):
        truth, one = labels[f"{split}_y"], given[split]
        clean = one["marked"] == 0
        found = {value.name: value for value in values}
        assert found["follows"].value == pytest.approx(share(one["said"] == one["mark"]))
        assert found["unmarked"].value == pytest.approx(share(truth == one["mark"]))
        assert found["clean"].value == pytest.approx(share(one["said"][clean] == truth[clean]))
        grades = {name: found[name].grade for name in (*metrics, "accuracy")}
        assert grades == dict.fromkeys(("follows", "unmarked", "clean"), "computed") | dict.fromkeys(
            ("worst_ward", "accuracy"), "scored"
        )
    assert list(compute_constants(tmp_path / "labels", planned)) == ["worst_ward"], "the others need columns of code"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mark": None}, r"column 'mark' is missing: lab.submit.*columns=\{'mark': values\}"),
        ({"mark": np.zeros(40)}, "must be 40 whole numbers, .* float64"),
        ({"marked": np.full(40, -1)}, r"'marked' must lie in 0\.\.999"),
    ],
)
def test_a_bad_column_is_refused_on_test_too(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    own(tmp_path, "meta=ward,drop=part")
    write_formulas((), COLUMNS, tmp_path / "labels")
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    submit_with_columns(attempt, "test", np.load(tmp_path / "labels" / "wards.npz")["test_y"], **changes)
    with pytest.raises(SubmissionRefused, match=complaint):
        seal_test_predictions(attempt, tmp_path / "labels")


def test_reference_models_need_no_columns_and_get_no_values_that_read_them(tmp_path: Path) -> None:
    own(tmp_path, "meta=ward,drop=part")
    metric = MetricSpec(name="follows", formula="agreement(mark)", higher_is_better=True)
    write_formulas((metric,), COLUMNS, tmp_path / "labels")
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    rows = len(np.load(tmp_path / "labels" / "wards.npz")["validation_y"])
    put(attempt, 1, "validation", dataset="wards", condition="trivial", values=np.full((rows, 2), 0.5))
    scored = score_submissions(attempt, tmp_path / "labels", split="validation", seed=0, grade="scored")
    assert "accuracy" in {one.name for one in scored} and "follows" not in {one.name for one in scored}


@pytest.mark.parametrize(
    ("formula", "complaint"),
    [
        ("agreement(mark)", ""),
        ("agreement(marked)", "needs a column of classes, but 'marked' holds groups"),
        ("within(accuracy, by=marked, group=yes)", "are numbers: write group=0"),
        ("agreement(marks)", "unknown column 'marks'"),
    ],
)
def test_a_formula_needs_a_declared_column_of_its_kind(formula: str, complaint: str) -> None:
    metric = MetricSpec(name="m", formula=formula, higher_is_better=not formula.startswith("gap"))
    found = list(find_formula_faults(metric, 4, {"ward": ("a", "b")}, ("a", "b", "c", "d"), submitted=COLUMNS))
    assert [complaint in one for one in found] == [True] * bool(complaint)


def test_code_sees_a_meta_column_only_where_it_was_asked(tmp_path: Path) -> None:
    """The unpacked view contains no row of a hidden column, and only train and dev rows of a shown one."""
    facts = own(tmp_path, "meta=secret,meta_shown=ward,drop=part")
    with np.load(tmp_path / "views" / "wards.npz") as view:
        arrays = {name: view[name] for name in view.files if name not in ("meta", "about")}
    assert not [
        name
        for name, array in arrays.items()
        if array.dtype.kind == "U" and any("SECRET" in str(one) for one in array.ravel())
    ]
    assert {name for name in arrays if name.endswith("_meta")} == {"train_meta", "dev_meta"}
    assert arrays["train_meta"].shape == (len(arrays["train_y"]), 1)
    assert arrays["train_x"].shape[1] == 2
    kept = read_materialised("wards", tmp_path / "views", tmp_path / "labels")
    assert kept is not None
    assert kept.fingerprint == facts.fingerprint


def test_dev_comes_from_validation_where_that_is_asked(tmp_path: Path) -> None:
    facts = own(tmp_path, "split=part,dev_from=validation,meta=ward,meta=secret", split=True)
    assert facts.sizes == {"train": 120, "dev": 14, "validation": 26, "test": 40}
    assert "dev taken from validation" in facts.split_rule


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("meta=town", "meta=: no column 'town'"),
        ("meta=ward,meta_shown=ward", "two roles"),
        ("dev_from=validation,drop=part,drop=secret", "needs a given validation split"),
    ],
)
def test_faults_of_meta_columns(tmp_path: Path, options: str, complaint: str) -> None:
    with pytest.raises(DatasetError) as caught:
        own(tmp_path, options)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("accuracy", True),
        ("worst(accuracy, by=ward)", True),
        ("fbeta_score(beta=2, average=macro)", True),
        ("gap(accuracy, by=ward)", False),
        ("agreement(mark)", False),
        ("accuracy_of(mark)", False),
    ],
)
def test_only_a_metric_that_rates_predictions_has_a_floor(text: str, rates: bool) -> None:
    assert rates_predictions(MetricSpec(name="own", formula=text, higher_is_better=True)) is rates
