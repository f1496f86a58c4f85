"""Metric formulas: values compared with scikit-learn, resamples, groups, and one-line errors."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as untyped  # pyright: ignore[reportMissingTypeStubs]

from labwright.record.schema.data_plan import MetricSpec, SubmittedColumn
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.datasets import build_registry, materialise, read_materialised
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import DatasetError, Job, SubmissionRefused
from labwright.sandbox.metrics import (
    FormulaError,
    FormulaInputs,
    build_measures,
    complete_metric,
    compute_resampled_scores,
    compute_scores,
    draw_counts,
    find_formula_faults,
    parse_formula,
    write_formulas,
)
from labwright.sandbox.scoring import compute_chance_level, score_sealed, score_submissions, seal_test_predictions
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import run_job
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
NUMBERS = RNG.exponential(size=N).astype(np.float32)
GUESSES = NUMBERS * RNG.uniform(0.5, 1.5, N)


def share(true: Any) -> float:
    return float(sum(true) / len(true))


def spread(values: list[Any]) -> Any:
    return max(values) - min(values)


def seen(truth: Any = TRUTH, values: Any = P, kind: str = "probabilities", **more: Any) -> FormulaInputs:
    return FormulaInputs(kind, values, truth, ("k0", "k1", "k2", "k3"), {"ward": WARD, "hint": HINT}, **more)


def value(text: str, at: FormulaInputs) -> float:
    return compute_scores(at.kind, at.values, at.truth, build_measures({"m": text}, at))["m"]


@pytest.mark.parametrize(
    ("text", "by_hand"),
    [
        ("f1_score(average=macro)", lambda: sk.f1_score(TRUTH, SAID, average="macro")),
        ("fbeta_score(beta=2, average=weighted)", lambda: sk.fbeta_score(TRUTH, SAID, beta=2, average="weighted")),
        ("balanced_accuracy", lambda: sk.balanced_accuracy_score(TRUTH, SAID)),
        ("matthews_corrcoef", lambda: sk.matthews_corrcoef(TRUTH, SAID)),
        ("cohen_kappa_score(weights=quadratic)", lambda: sk.cohen_kappa_score(TRUTH, SAID, weights="quadratic")),
        (
            "jaccard_score(average='macro', labels=[1, 2])",
            lambda: sk.jaccard_score(TRUTH, SAID, average="macro", labels=[1, 2]),
        ),
        ("top_k_accuracy_score(k=3)", lambda: sk.top_k_accuracy_score(TRUTH, P, k=3)),
        (
            "roc_auc_score(multi_class=ovr, average=weighted)",
            lambda: sk.roc_auc_score(TRUTH, P, multi_class="ovr", average="weighted"),
        ),
        ("neg_log_loss", lambda: -sk.log_loss(TRUTH, P)),
        ("recall_score(average=micro)", lambda: sk.recall_score(TRUTH, SAID, average="micro")),
        ("worst(accuracy, by=ward)", lambda: min(sk.accuracy_score(TRUTH[IN[w]], SAID[IN[w]]) for w in "abc")),
        ("worst(log_loss, by=ward)", lambda: max(sk.log_loss(TRUTH[IN[w]], P[IN[w]]) for w in "abc")),
        (
            "mean(f1_score(average=macro), by=ward)",
            lambda: np.mean([sk.f1_score(TRUTH[IN[w]], SAID[IN[w]], average="macro") for w in "abc"]),
        ),
        ("gap(accuracy, by=ward)", lambda: spread([sk.accuracy_score(TRUTH[IN[w]], SAID[IN[w]]) for w in "abc"])),
        ("within(accuracy, by=ward, group=b)", lambda: sk.accuracy_score(TRUTH[IN["b"]], SAID[IN["b"]])),
        ("agreement(hint)", lambda: share(np.array(["k0", "k1", "k2", "k3"])[SAID] == HINT)),
    ],
)
def test_values_are_those_of_scikit_learn_called_by_hand(text: str, by_hand: Any) -> None:
    assert value(text, seen()) == pytest.approx(by_hand(), rel=1e-9)


@pytest.mark.parametrize(
    ("text", "by_hand"),
    [
        ("root_mean_squared_error", lambda: sk.root_mean_squared_error(NUMBERS, GUESSES)),
        ("mean_pinball_loss(alpha=0.9)", lambda: sk.mean_pinball_loss(NUMBERS, GUESSES, alpha=0.9)),
        ("worst(mae, by=ward)", lambda: max(abs(NUMBERS - GUESSES)[IN[w]].mean() for w in "abc")),
    ],
)
def test_values_of_numbers_too(text: str, by_hand: Any) -> None:
    assert value(text, seen(NUMBERS, GUESSES, "predictions")) == pytest.approx(by_hand(), rel=1e-6)


def test_two_classes_are_scored_by_the_second() -> None:
    truth, p = TRUTH % 2, P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)
    assert value("average_precision", seen(truth, p)) == pytest.approx(sk.average_precision_score(truth, p[:, 1]))
    assert value("f1_score", seen(truth, p)) == pytest.approx(sk.f1_score(truth, p.argmax(axis=1)))
    assert value("worst(f1_score, by=ward)", seen(truth, p)) < 1
    assert not build_measures({"m": "roc_auc"}, seen(values=SAID, kind="predictions"))


@pytest.mark.parametrize(
    "text",
    [
        "matthews_corrcoef",
        "worst(accuracy, by=ward)",
        "gap(macro_f1, by=ward)",
        "mean(ece, by=ward)",
        "agreement(hint)",
        "top_k_accuracy_score(k=2)",
    ],
)
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


def test_groups_that_no_draw_holds_are_passed_over() -> None:
    counts = (WARD != "a").astype(float)[None]
    found = compute_resampled_scores(
        "probabilities",
        P,
        TRUTH,
        counts=counts,
        names={"m"},
        more=build_measures({"m": "worst(accuracy, by=ward)"}, seen()),
    )["m"]
    assert found[0] == min(share(SAID[IN[w]] == TRUTH[IN[w]]) for w in "bc")


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("f2_score", "unknown metric 'f2_score'; did you mean r2_score or f1_score"),
        ("fbeta_score(gamma=2)", "fbeta_score has no argument 'gamma'; it has beta, labels"),
        ("fbeta_score(2)", "takes its arguments by name"),
        ("worst(accuracy)", "worst takes a metric and by="),
        ("within(accuracy, by=ward)", "by= and group="),
        ("agreement()", "must be written"),
        ("accuracy_of(a, b)", "must be written accuracy_of(COLUMN)"),
        ("a b", "cannot be parsed"),
        ("lambda: " * 400 + "a", "cannot be parsed"),
        ("accuracy - 1", "was found where a metric was expected"),
        ("f1_score(average=[[1], {}])", "is not a valid argument value"),
        ("__import__('os')", "takes its arguments by name"),
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
        ("within(accuracy, by=ward, group=z)", {}, 4, "has no group 'z'; it has a, b, c"),
        ("f1_score", {}, 4, "multiclass"),
        ("f1_score(average=macr)", {}, 4, "average"),
        ("f1_score(average=macro)", {"higher_is_better": False}, 4, "declared as lower is better, but perfect"),
        ("gap(accuracy, by=ward)", {}, 4, "a smaller gap between groups is better"),
        ("matthews_corrcoef", {"low": 0.0, "high": 1.0}, 4, "its declared range is 0 to 1, but"),
        ("top_k_accuracy_score(k=4)", {}, 4, "it is 1 for all predictions"),
        ("root_mean_squared_error", {"higher_is_better": False}, 4, "it needs numbers, but this dataset has classes"),
        ("accuracy_score", {}, 0, "it needs classes, but this dataset has numbers"),
        ("worst(mse, by=ward)", {"higher_is_better": False}, 4, "it needs numbers, but this dataset has classes"),
        ("confusion_matrix", {}, 4, "m"),
        ("agreement(ward)", {}, 4, "never names a class"),
        ("agreement(ward)", {}, 0, "needs predicted classes, but this dataset has none"),
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


@pytest.mark.parametrize(
    ("text", "higher", "classes"),
    [
        ("f1_score(average=macro)", True, 4),
        ("f1_score", True, 2),
        ("neg_log_loss", True, 3),
        ("hamming_loss", False, 3),
        ("gap(accuracy, by=ward)", False, 3),
        ("root_mean_squared_error", False, 0),
        ("agreement(hint)", False, 3),
        ("flip_rate(to=a0.1)", False, 3),
        ("worst(roc_auc_ovr, by=ward)", True, 3),
        ("d2_log_loss_score", True, 2),
    ],
)
def test_what_can_be_computed_has_no_fault(text: str, higher: bool, classes: int) -> None:
    metric = MetricSpec(name="m", formula=text, higher_is_better=higher)
    assert list(find_formula_faults(metric, classes, {"ward": (), "hint": ()}, ("k0",))) == []


def test_ranges_follow_from_ours() -> None:
    def ends(text: str, *, higher: bool = True) -> tuple[Any, ...]:
        one = complete_metric(MetricSpec(name="m", formula=text, higher_is_better=higher))
        return one.low, one.high, one.worst

    assert ends("worst(accuracy, by=ward)") == (0.0, 1.0, 0.0)
    assert ends("gap(accuracy, by=ward)", higher=False) == (0.0, 1.0, 1.0)
    assert ends("flip_rate(to=a)", higher=False) == (0.0, 1.0, 1.0)
    assert ends("matthews_corrcoef") == (None, None, None)
    assert complete_metric(MetricSpec(name="balanced_accuracy", higher_is_better=True)).formula == "balanced_accuracy"
    assert complete_metric(MetricSpec(name="train_seconds", higher_is_better=False)).formula == ""


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
    write_formulas(
        (
            MetricSpec(name="worst_ward", formula="worst(accuracy, by=ward)", higher_is_better=True),
            MetricSpec(name="flips", formula="flip_rate(to=b)", higher_is_better=False),
        ),
        (),
        tmp_path / "labels",
    )
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
    flips = {one.condition: one.value for one in tests if one.name == "flips"}
    others = [np.random.default_rng(n).dirichlet([1, 1], 40).argmax(axis=1) for n in (2, 3)]
    assert flips == {"a": np.mean(others[0] != others[1]), "b": 0.0}
    assert 0 < compute_chance_level(tmp_path / "labels", "worst_ward")["wards"] < 1


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
    write_formulas(
        tuple(MetricSpec(name=name, formula=text, higher_is_better=True) for name, text in metrics.items()),
        COLUMNS,
        tmp_path / "labels",
    )
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
    assert not compute_chance_level(tmp_path / "labels", "follows")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mark": None}, r"column 'mark' is missing: submit it .*columns=\{'mark': values\}"),
        ({"mark": np.zeros(3, dtype=int)}, "must be 40 whole numbers"),
        ({"mark": np.zeros(40)}, "must be 40 whole numbers, .* float64"),
        ({"mark": np.full(40, 2)}, r"'mark' must lie in -1\.\.1"),
        ({"marked": np.full(40, -1)}, r"'marked' must lie in 0\.\.999"),
        ({"other": np.zeros((40, 4096), dtype=int)}, "more than the limit"),
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
        ("worst(accuracy, by=marked)", ""),
        ("agreement(marked)", "needs a column of classes, but 'marked' holds groups"),
        ("gap(accuracy, by=mark)", "needs a column of groups, but 'mark' holds classes"),
        ("within(accuracy, by=marked, group=yes)", "are numbers: write group=0"),
        ("accuracy_of(ward)", "is not in the plan's `columns`"),
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
        ("meta=sick", "two roles"),
        ("meta=ward,meta_shown=ward", "two roles"),
        ("dev_from=test", "dev_from='test' is invalid"),
        ("dev_from=validation,drop=part,drop=secret", "needs a given validation split"),
    ],
)
def test_faults_of_meta_columns(tmp_path: Path, options: str, complaint: str) -> None:
    with pytest.raises(DatasetError) as caught:
        own(tmp_path, options)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


ATTACK = """
import os
import numpy as np
import lab

data = lab.data("wards")
assert set(data.train.meta) == set(data.dev.meta) == {"ward"} and len(data.train.meta["ward"]) == len(data.train.y)
assert not hasattr(data.validation, "meta")
found = []
for root in ("TMP", "/tmp", os.getcwd()):
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("site-packages", ".git")]  # of this install
        for name in names:
            path = os.path.join(place, name)
            if os.path.getsize(path) and (name == "w.csv" or "labels" in path):
                found.append(path)
            elif name.endswith(".npz") and os.path.getsize(path):
                with np.load(path) as file:
                    found += [f"{path}:{key}" for key in file.files if key not in ("meta", "about") and any(
                        "SECRET" in one for one in file[key].ravel().astype(str))]
print("found", found)
lab.result("found", len(found), condition="a", dataset="wards")
"""


@pytest.mark.slow
async def test_isolated_code_finds_no_hidden_column_on_the_machine(tmp_path: Path) -> None:
    own(tmp_path, "meta=secret,meta_shown=ward,drop=part")
    executor = LocalExecutor(
        1,
        tmp_path / "views",
        labels=tmp_path / "labels",
        cache=tmp_path / "cache",
        settings=SandboxSettings(isolation="auto"),
        secret=(tmp_path / "w.csv",),
    )
    try:
        if not executor.isolation.is_on:
            pytest.skip("this machine isolates nothing")
        outcome = await run_job(
            executor,
            Job(
                name="attack",
                folder=tmp_path / "job",
                seed=0,
                timeout=60.0,
                datasets=("wards",),
                source={"experiment.py": ATTACK.replace("TMP", str(tmp_path))},
            ),
        )
    finally:
        await executor.close()
    assert outcome.failure is None, outcome.failure
    assert "found []" in outcome.stdout_tail


MARKED = """
import numpy as np
import lab

for split in ("validation", "test"):
    rows = lab.data("wards").rows(split)
    given = {"mark": np.arange(rows) % 2} if "mark" in COLUMNS else {}
    lab.submit("wards", split, "a", predictions=np.zeros(rows, dtype=int), columns=given)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "failure"), [("mark", ""), ("none", "the plan's column 'mark' is missing")])
async def test_code_submits_columns_that_formulas_read(tmp_path: Path, columns: str, failure: str) -> None:
    own(tmp_path, "meta=secret,drop=part")
    follows = MetricSpec(name="follows", formula="agreement(mark)", higher_is_better=False)
    write_formulas((follows,), COLUMNS[:1], tmp_path / "labels")
    executor = LocalExecutor(
        1,
        tmp_path / "views",
        labels=tmp_path / "labels",
        cache=tmp_path / "cache",
        settings=SandboxSettings(isolation="auto"),
    )
    job = Job(
        name="marked",
        folder=tmp_path / "job",
        seed=0,
        timeout=60.0,
        datasets=("wards",),
        source={"experiment.py": MARKED.replace("COLUMNS", repr(columns))},
    )
    try:
        outcome = await run_job(executor, job)
    finally:
        await executor.close()
    if failure:
        assert outcome.failure is not None and failure in outcome.failure.message
        return
    assert outcome.failure is None, outcome.failure
    [value] = [one for one in outcome.measurements if one.name == "follows"]
    assert (value.value, value.grade) == (0.5, "computed")
    assert outcome.sealed
