"""Metrics computed from submitted predictions, on the original examples or on many resamples at once, and metrics
defined by formulas in a plan.

For class probabilities (after a softmax for logits): accuracy, macro F1, AUROC, log loss, expected calibration error
and Brier score. For predicted classes: accuracy and macro F1. For regression: mean squared and absolute error, R².

scikit-learn has all of these except the calibration error, with `sample_weight`, and a test checks that the values are
equal. They are reimplemented because a bootstrap needs 2,000 weightings of the same examples: this takes a few array
operations here (0.1 s) but 2,000 calls with scikit-learn (30 s). A weighting is one row of `counts` (draws, examples)
and states how often each example was drawn.

Metrics defined by formulas in a plan: scikit-learn metrics with arguments, metrics by group, and label-free metrics.

    fbeta_score(beta=2)    f1_score(average=macro)    top_k_accuracy_score(k=3)    neg_log_loss
    worst(accuracy, by=hospital)    mean(...)    gap(...), best minus worst    within(accuracy, by=hospital, group=a)
    agreement(shortcut)        share of predictions that equal the value of a column
    accuracy_of(unmarked)      share of rows whose class in a submitted column is the true one

A plain name means the built-in metric if there is one. Measures take counts, as above; for scikit-learn, examples are
repeated according to their counts, so resampling works for every metric. Groups without a
value (no example, one class) are skipped. A column belongs to the dataset, or the plan declares that the experiment's
code submits it; values that depend on a submitted column are graded `computed` at best. Formulas and declared columns
of a run are stored with its labels.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from labwright.record.python_syntax import parse_expression
from labwright.record.schema.data_plan import MetricSpec, SubmittedColumn
from labwright.record.untrusted_files import write_file

Array = NDArray[Any]
Measure = Callable[[Array], Array]
"""Counts (draws, examples) -> values (draws,), NaN for a draw without a value."""

MIN_PROBABILITY = 1e-7
"""Probabilities are clipped to at least this value before taking the logarithm, so that one certain mistake costs
16.1."""
ECE_BINS = 15
MAX_CHUNK_VALUES = 2**22
"""Number of values of `counts` processed at a time: 32 MiB as floats."""

METRICS: dict[str, MetricSpec] = {
    name: MetricSpec(name=name, title=title, higher_is_better=higher, worst=low if higher else high, low=low, high=high)
    for name, title, higher, low, high in (
        ("accuracy", "accuracy", True, 0.0, 1.0),
        ("macro_f1", "macro F1", True, 0.0, 1.0),
        ("auroc", "AUROC", True, 0.0, 1.0),
        ("log_loss", "log loss", False, 0.0, -log(MIN_PROBABILITY)),
        ("ece", "expected calibration error", False, 0.0, 1.0),
        ("brier", "Brier score", False, 0.0, 2.0),
        ("mse", "mean squared error", False, 0.0, None),
        ("mae", "mean absolute error", False, 0.0, None),
        ("r2", "R squared", True, None, 1.0),
    )
}
METRICS["log_loss"] = METRICS["log_loss"].model_copy(update={"unit": "nats"})
_REGRESSION_METRICS = frozenset({"mse", "mae", "r2"})


def list_computable(classes: int) -> frozenset[str]:
    """Return the metrics available for `classes` classes (0: regression)."""
    return frozenset(METRICS) - _REGRESSION_METRICS if classes else _REGRESSION_METRICS


def compute_scores(
    kind: str, values: Array, truth: Array, more: Mapping[str, Measure] | None = None
) -> dict[str, float]:
    """Compute every metric available for predictions of this kind, by name; metrics without a value are left out.

    `values` has shape (n,) for "predictions", otherwise (n, classes); `truth` has shape (n,), with integers for
    classes. `more` contains formulas of the plan. For huge values, metrics may not be finite.
    """
    once, extra = np.ones((1, len(truth))), more or {}
    measures = {**build_metric_measures(kind, values, truth), **extra}
    with np.errstate(all="ignore"):
        scores = {name: float(measure(once)[0]) for name, measure in measures.items()}
    return {name: value for name, value in scores.items() if name not in ("auroc", *extra) or not np.isnan(value)}


def compute_resampled_scores(
    kind: str,
    values: Array,
    truth: Array,
    *,
    counts: Array,
    names: Collection[str],
    more: Mapping[str, Measure] | None = None,
) -> dict[str, Array]:
    """Compute the metrics in `names` that `compute_scores` returns, on every resample: name -> (draws,).

    NaN for a draw without a value (AUROC with one class).
    """
    wanted = {name: measure for name, measure in (more or {}).items() if name in names}
    known = compute_scores(kind, values, truth, wanted).keys() & names
    every = {**build_metric_measures(kind, values, truth), **wanted}
    measures = {name: measure for name, measure in every.items() if name in known}
    rows = max(1, MAX_CHUNK_VALUES // max(1, counts.shape[1]))
    chunks = [counts[start : start + rows].astype(float) for start in range(0, len(counts), rows)] if measures else []
    with np.errstate(all="ignore"):
        return {name: np.concatenate([measure(chunk) for chunk in chunks]) for name, measure in measures.items()}


def draw_counts(rng: Generator, draws: int, examples: int) -> Array:
    """Draw resamples of the whole set, and return how often each of them contains each example: (draws, examples),
    small integers.
    """
    counts = np.empty((draws, examples), dtype=np.uint8)
    for row in counts:
        row[:] = np.minimum(np.bincount(rng.integers(0, examples, size=examples), minlength=examples), 255)
    return counts


def count_passes(names: Collection[str], classes: int) -> int:
    """Estimate the cost of one resample of these metrics, in passes over the examples (about 4 ns each)."""
    several = {"macro_f1": classes, "auroc": 10 * classes, "ece": ECE_BINS, "r2": 3}
    return sum(several.get(name, 1) for name in names)


def compute_softmax(logits: Array) -> Array:
    """Convert rows of logits to rows of probabilities."""
    powers = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def build_metric_measures(kind: str, values: Array, truth: Array) -> dict[str, Measure]:
    """Build the built-in measures for predictions of a kind."""
    if kind == "predictions" and truth.dtype.kind == "f":
        errors = values - truth
        return {"mse": _build_mean(errors**2), "mae": _build_mean(abs(errors)), "r2": _build_r2(errors, truth)}
    probabilities = compute_softmax(values) if kind == "logits" else values.astype(float)
    predicted = values if kind == "predictions" else probabilities.argmax(axis=1)
    right = _build_mean((predicted == truth).astype(float))
    of_classes = {"accuracy": right, "macro_f1": _build_macro_f1(predicted, truth)}
    if kind == "predictions":
        return of_classes
    own = probabilities[np.arange(len(truth)), truth]
    return of_classes | {
        "auroc": _build_auroc(probabilities, truth),
        "log_loss": _build_mean(-np.log(np.clip(own, MIN_PROBABILITY, 1.0))),
        "ece": _build_ece(probabilities, truth),
        "brier": _build_mean(np.square(probabilities).sum(axis=1) - 2.0 * own + 1.0),
    }


def _build_mean(outcomes: Array) -> Measure:
    """Weighted mean of one number per example.

    It may be correctness, the error or its square, the log loss in nats, or the squared distance to the one-hot truth,
    from 0 to 2 (Source: Brier 1950, "Verification of forecasts expressed in terms of probability", eq. 2).
    """
    return lambda counts: (counts * outcomes).sum(axis=1) / counts.sum(axis=1)


def _build_macro_f1(predicted: Array, truth: Array) -> Measure:
    """Unweighted mean of F1 over the classes that occur in the truth or the predictions.

    Memory is proportional to examples plus classes, not to their product.
    """
    classes, numbers = np.unique(np.concatenate((predicted, truth)), return_inverse=True)
    chosen, true = np.split(numbers, [len(predicted)])
    right = chosen == true

    def of_class(number: Array, counts: Array) -> Array:
        return np.stack([np.bincount(number, weights=row, minlength=len(classes)) for row in counts])

    def measure(counts: Array) -> Array:
        totals = of_class(chosen, counts) + of_class(true, counts)
        shares = np.divide(2.0 * of_class(true, counts * right), totals, out=np.zeros_like(totals), where=totals > 0)
        return shares.sum(axis=1) / (totals > 0).sum(axis=1)

    return measure


def _build_ece(probabilities: Array, truth: Array) -> Measure:
    """Expected calibration error of the top class, with 15 equal-width bins, each open below and closed above.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", eq. 3.
    """
    confidence = probabilities.max(axis=1)
    gaps = (probabilities.argmax(axis=1) == truth) - confidence
    bins = np.clip(np.ceil(confidence * ECE_BINS).astype(int) - 1, 0, ECE_BINS - 1)

    def measure(counts: Array) -> Array:
        sums = [np.abs(np.bincount(bins, weights=gaps * row, minlength=ECE_BINS)).sum() for row in counts]
        return np.array(sums) / counts.sum(axis=1)

    return measure


def _build_r2(errors: Array, truth: Array) -> Measure:
    """Share of variance explained; 0 for predicting the mean, and 0 if the truth is constant."""
    squared, centred = errors**2, truth.astype(float) - truth.mean(dtype=float)

    def measure(counts: Array) -> Array:
        squares = counts @ centred**2
        spread = squares - (counts @ centred) ** 2 / counts.sum(axis=1)
        spread[spread <= 1e-12 * squares] = 0.0  # the values of a draw are equal, so the rest is rounding error
        return np.where(spread > 0, 1.0 - counts @ squared / np.where(spread > 0, spread, 1.0), 0.0)

    return measure


def _build_auroc(probabilities: Array, truth: Array) -> Measure:
    """Area under the ROC curve: of class 1 if there are two classes, otherwise the one-vs-rest mean over classes.

    Ties count half. Classes of no example or of all examples are left out; NaN if no class is left. Source: Hanley and
    McNeil 1982, "The meaning and use of the area under a ROC curve" (as a Wilcoxon statistic).
    """
    classes = (1,) if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    areas = [_compute_auc(probabilities[:, c], truth == c) for c in classes]

    def measure(counts: Array) -> Array:
        values = np.stack([area(counts) for area in areas], axis=1)
        known = ~np.isnan(values)
        total = np.where(known, values, 0.0).sum(axis=1)
        return np.divide(total, known.sum(axis=1), out=np.full(len(counts), np.nan), where=known.any(axis=1))

    return measure


def _compute_auc(scores: Array, positive: Array) -> Measure:
    """Share of pairs of a positive and a negative example that the scores order correctly; NaN without pairs."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.nan) != 0)
    own = positive[order]

    def measure(counts: Array) -> Array:
        ordered = counts[:, order]
        positives = np.add.reduceat(ordered * own, starts, axis=1)
        negatives = np.add.reduceat(ordered * ~own, starts, axis=1)
        below = negatives.cumsum(axis=1) - negatives / 2.0
        pairs = positives.sum(axis=1) * negatives.sum(axis=1)
        return np.divide((positives * below).sum(axis=1), pairs, out=np.full(len(counts), np.nan), where=pairs > 0)

    return measure


# --- formulas of a plan -----------------------------------------------------------------------------------------------


GROUP_RULES = {"worst": {"by"}, "mean": {"by"}, "gap": {"by"}, "within": {"by", "group"}}
SHARE_RULES = frozenset({"agreement", "accuracy_of"})
SKLEARN_CALL_SECONDS = 3e-3
"""Approximate duration of a scikit-learn call in seconds; a pass over an example takes 4 ns (`count_passes`)."""
_FORMULA_FILE = "formulas.json"
_COLUMN_FILE = "columns.json"
_BARE_WORD_PATTERN = re.compile(r"(?<=[=(,])\s*([A-Za-z0-9_.@-]+)(?=\s*[,)])")
_NUMBER_PATTERN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


class FormulaError(ValueError):
    """An invalid formula, or a formula without a value for the data. To be fixed by its author."""


@dataclass(frozen=True)
class MetricFormula:
    """A parsed formula. `rule` is empty for a plain metric; otherwise it is the rule for combining groups or
    comparing predictions.
    """

    rule: str = ""
    metric: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    column: str = ""
    group: str = ""
    """The group of `within`."""

    @property
    def is_builtin(self) -> bool:
        return self.metric in METRICS and not self.arguments


@dataclass(frozen=True)
class FormulaInputs:
    """Inputs of formulas: predictions of a kind, the truth, and further data about the examples."""

    kind: str
    values: Array
    truth: Array
    class_names: tuple[str, ...] = ()
    columns: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Columns of the dataset, as texts."""
    submitted: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Columns that the code submitted, as whole numbers."""

    @property
    def predicted_values(self) -> Array:
        return self.values if self.kind == "predictions" else self.values.argmax(axis=1)


# --- parsing ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def parse_formula(text: str) -> MetricFormula:
    """Parse a formula. Raises `FormulaError`."""
    try:
        tree = parse_expression(_BARE_WORD_PATTERN.sub(_quote_word, " ".join(text.split())))
    except SyntaxError:
        raise FormulaError(
            f"{text!r} cannot be parsed: write it like worst(f1_score(average=macro), by=hospital)"
        ) from None
    name, given, named = _parse_call(tree)
    if name in SHARE_RULES:
        if named or len(given) != 1:
            raise FormulaError(f"{name} must be written {name}(COLUMN)")
        return MetricFormula(name, column=_parse_word(given[0]))
    if name not in GROUP_RULES:
        return _parse_metric(name, given, named)
    if len(given) != 1 or named.keys() != GROUP_RULES[name]:
        raise FormulaError(f"{name} takes a metric and {' and '.join(f'{key}=' for key in sorted(GROUP_RULES[name]))}")
    inner = _parse_metric(*_parse_call(given[0]))
    group = _parse_word(named["group"]) if "group" in named else ""
    return MetricFormula(name, inner.metric, inner.arguments, _parse_word(named["by"]), group)


def _quote_word(match: re.Match[str]) -> str:
    """Quote a name that is not a Python identifier: `a0.1`, `method@a0.1`, `my-arm`."""
    word = match[1]
    return repr(word) if not (word.isidentifier() or _NUMBER_PATTERN.fullmatch(word)) else word


def _parse_call(tree: ast.expr) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    match tree:
        case ast.Name(id=name):
            return name, [], {}
        case ast.Call(func=ast.Name(id=name)):
            return name, tree.args, {one.arg or "**": one.value for one in tree.keywords}
        case _:
            raise FormulaError(f"{ast.unparse(tree)} was found where a metric was expected")


def _parse_metric(name: str, given: Sequence[ast.expr], named: Mapping[str, ast.expr]) -> MetricFormula:
    if given:
        raise FormulaError(f"{name} takes its arguments by name: {name}(argument=value)")
    formula = MetricFormula(metric=name, arguments=tuple((key, _parse_value(one)) for key, one in named.items()))
    if not formula.is_builtin:
        _find_sklearn_function(formula)
    return formula


def _parse_value(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Name):
        return {"true": True, "false": False, "none": None}.get(tree.id, tree.id)
    try:
        value: Any = ast.literal_eval(tree)
        hashable: Any = tuple(value) if isinstance(tree, ast.List) else value
        hash(hashable)
        return hashable
    except (ValueError, TypeError):
        raise FormulaError(f"{ast.unparse(tree)} is not a valid argument value") from None


def _parse_word(tree: ast.expr) -> str:
    return tree.id if isinstance(tree, ast.Name) else str(_parse_value(tree))


_PROBABILITY_PARAMETERS = ("y_score", "y_proba", "y_prob")
_PREDICTION_PARAMETERS = ("y_pred", "labels_pred", "y2", *_PROBABILITY_PARAMETERS)
"""Names of the second parameter of scikit-learn's functions."""


@dataclass(frozen=True)
class SklearnFunction:
    call: Callable[..., Any]
    sign: int
    arguments: dict[str, Any]
    takes_probabilities: bool
    """Whether the metric takes probabilities rather than predicted classes."""
    is_regression: bool
    takes_labels: bool


@lru_cache(maxsize=256)
def _find_sklearn_function(wanted: MetricFormula) -> SklearnFunction:
    """Return scikit-learn's scorer or function of that name, with its arguments. Raises `FormulaError`."""
    from sklearn import metrics

    library: Any = metrics
    name, sign, more = wanted.metric, 1, dict[str, Any]()
    scorers: list[str] = library.get_scorer_names()
    functions = [one for one in library.__all__ if _second_parameter(getattr(library, one)) in _PREDICTION_PARAMETERS]
    if name in scorers:
        scorer = library.get_scorer(name)
        call, sign, more = scorer._score_func, scorer._sign, dict(scorer._kwargs)
    elif name in functions:
        call = getattr(library, name)
    else:
        near = get_close_matches(name, [*METRICS, *scorers, *functions], n=3) or [*METRICS, "a metric of scikit-learn"]
        raise FormulaError(f"unknown metric {name!r}; did you mean {' or '.join(near)}?")
    known = [one for one in list(inspect.signature(call).parameters)[2:] if one != "sample_weight"]
    if unknown := [key for key, _ in wanted.arguments if key not in known]:
        raise FormulaError(f"{name} has no argument {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    takes_probabilities = _second_parameter(call) in _PROBABILITY_PARAMETERS
    is_regression, arguments = call.__module__.endswith("._regression"), more | dict(wanted.arguments)
    return SklearnFunction(call, sign, arguments, takes_probabilities, is_regression, "labels" in known)


def _second_parameter(call: object) -> str:
    return [*inspect.signature(call).parameters, "", ""][1] if inspect.isfunction(call) else ""


# --- computing -------------------------------------------------------------------------------------------------------


def build_measures(formulas: Mapping[str, str], inputs: FormulaInputs) -> dict[str, Measure]:
    """Build measures for the formulas (name -> text) that can be computed from these predictions."""
    measures = {name: _build_measure(parse_formula(text), inputs) for name, text in formulas.items()}
    return {name: measure for name, measure in measures.items() if measure is not None}


def _build_measure(formula: MetricFormula, inputs: FormulaInputs) -> Measure | None:
    if formula.column in inputs.submitted:
        column = inputs.submitted[formula.column]
        if formula.rule in SHARE_RULES:
            return _build_mean(column == (inputs.predicted_values if formula.rule == "agreement" else inputs.truth))
        return _build_group_measure(formula, inputs, column.astype(str))
    if not formula.rule:
        return _build_plain_measure(formula, inputs)
    if (texts := inputs.columns.get(formula.column)) is None:
        return None
    if formula.rule != "agreement":
        return _build_group_measure(formula, inputs, texts)
    names = np.array(inputs.class_names)
    return _build_mean(names[inputs.predicted_values.astype(int)] == texts) if inputs.class_names else None


def _build_group_measure(formula: MetricFormula, inputs: FormulaInputs, texts: Array) -> Measure | None:
    parts: list[tuple[Array, Measure]] = []
    for group in np.unique(texts):
        rows = np.flatnonzero(texts == group)
        part = _build_plain_measure(formula, FormulaInputs(inputs.kind, inputs.values[rows], inputs.truth[rows]))
        if part is not None and formula.group in ("", str(group)):
            parts.append((rows, part))

    def measure(counts: Array) -> Array:
        drawn = [(counts[:, rows], part) for rows, part in parts]
        values = np.stack([np.where(own.any(axis=1), part(own), np.nan) for own, part in drawn])
        known = ~np.isnan(values)
        lowest, highest = np.where(known, values, np.inf).min(axis=0), np.where(known, values, -np.inf).max(axis=0)
        if formula.rule == "gap":
            combined = highest - lowest
        elif formula.rule == "worst":
            combined = lowest if is_higher_better(formula) else highest
        else:
            combined = np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)
        return np.where(known.any(axis=0), combined, np.nan)

    return measure if parts else None


def _build_plain_measure(formula: MetricFormula, inputs: FormulaInputs) -> Measure | None:
    if formula.is_builtin:
        return build_metric_measures(inputs.kind, inputs.values, inputs.truth).get(formula.metric)
    if (call := _build_sklearn_call(formula, inputs)) is None:
        return None

    def once(row: Array) -> float:
        try:
            return call(np.repeat(np.arange(len(row)), row.astype(int)))
        except (ValueError, ArithmeticError):
            return np.nan  # for example, only one class: planning has tested the formula on typical data

    return lambda counts: np.array([once(row) for row in counts])


def _build_sklearn_call(formula: MetricFormula, inputs: FormulaInputs) -> Callable[[Array], float] | None:
    """Return scikit-learn's value as a function of chosen rows; None if it needs other predictions."""
    function = _find_sklearn_function(formula)
    if function.is_regression != (inputs.truth.dtype.kind == "f") or (
        function.takes_probabilities and inputs.kind == "predictions"
    ):
        return None
    values, more = inputs.predicted_values, function.arguments
    if function.takes_probabilities:
        values = compute_softmax(inputs.values) if inputs.kind == "logits" else inputs.values.astype(float)
        values = values / values.sum(axis=1, keepdims=True)
        more = {"labels": list(range(values.shape[1]))} | more if function.takes_labels else more
        values = values[:, 1] if values.shape[1] == 2 else values

    def call(rows: Array) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value: Any = function.call(inputs.truth[rows], values[rows], **more)
        return function.sign * float(value)

    return call


@lru_cache(maxsize=256)
def is_higher_better(formula: MetricFormula) -> bool:
    """Whether higher values are better, judged by perfect and random predictions. Raises `FormulaError`."""
    if formula.is_builtin:
        return METRICS[formula.metric].higher_is_better
    plain = MetricFormula(metric=formula.metric, arguments=formula.arguments)
    try:
        perfect, drawn = _try_formula(plain, 0 if _find_sklearn_function(plain).is_regression else 2)
    except FormulaError:  # for example, a metric of three classes or more
        perfect, drawn = _try_formula(plain, 3)
    return perfect > max(drawn)


# --- checking --------------------------------------------------------------------------------------------------------

TRIAL_EXAMPLES = 120
RANDOM_TRIALS = 5


def formula_text(metric: MetricSpec) -> str:
    """Return the formula of a plan's metric; empty for the name of a built-in metric, and for a metric that only
    code can compute.
    """
    if metric.formula or metric.name in METRICS:
        return "" if metric.formula == metric.name in METRICS else metric.formula
    with suppress(FormulaError):
        parse_formula(metric.name)
        return metric.name
    return ""


def _read_formula(metric: MetricSpec) -> MetricFormula:
    """Return the formula of a plan's metric, a plain one for a metric that is built in or that only code can compute.
    Raises `FormulaError`."""
    text = formula_text(metric)
    return parse_formula(text) if text else MetricFormula(metric=metric.name)


def find_formula_faults(
    metric: MetricSpec,
    classes: int,
    columns: Mapping[str, Sequence[str]],
    class_names: Sequence[str] = (),
    submitted: Sequence[SubmittedColumn] = (),
) -> Iterator[str]:
    """Yield reasons why a metric's formula does not work for a dataset with `classes` classes (0: regression).

    The formula is evaluated on random and perfect predictions and checked against the declared direction and range.
    `columns` maps columns of the dataset to their values, empty if there are too many; `submitted` are the plan's.
    """
    text = formula_text(metric)
    where = f"metric {metric.name!r}, {text!r}:"
    try:
        formula = parse_formula(text)
        made = next((one for one in submitted if one.name == formula.column), None)
        if made is not None:
            _check_submitted_use(formula, made)
        else:
            _check_column(formula, columns)
        if formula.rule in SHARE_RULES:
            if not classes:
                raise FormulaError(f"{formula.rule} needs predicted classes, but this dataset has none")
            values = columns.get(formula.column, ())
            if values and not set(values) & set(class_names):
                raise FormulaError(f"{formula.column!r} never names a class: its values are {', '.join(values[:5])}")
            return
        perfect, drawn = _try_formula(MetricFormula(metric=formula.metric, arguments=formula.arguments), classes)
    except FormulaError as error:
        yield f"{where} {error}"
        return
    better, is_gap = metric.higher_is_better, formula.rule == "gap"
    if is_gap and better:
        yield f"{where} a smaller gap between groups is better: set higher_is_better to false"
    elif {*drawn} == {perfect}:
        yield f"{where} it is {perfect:.3g} for all predictions"
    elif not is_gap and (perfect < max(drawn) if better else perfect > min(drawn)):
        yield (
            f"{where} declared as {'higher' if better else 'lower'} is better, but perfect predictions give "
            f"{perfect:.3g} and random ones {drawn[0]:.3g}"
        )
    low = -np.inf if metric.low is None else metric.low
    high = np.inf if metric.high is None else metric.high
    outside = [value for value in (perfect, *drawn) if not low - 1e-9 <= value <= high + 1e-9]
    if outside and not is_gap:
        yield f"{where} its declared range is {low:g} to {high:g}, but test predictions give {outside[0]:.3g}"


def _check_column(formula: MetricFormula, columns: Mapping[str, Sequence[str]]) -> None:
    """Raise `FormulaError` if the dataset does not have the column or group of a formula."""
    if formula.rule == "accuracy_of":
        raise FormulaError(f"{formula.column!r} is not in the plan's `columns`: declare it there, with its content")
    if formula.column and formula.column not in columns:
        raise FormulaError(
            f"unknown column {formula.column!r}; available: {', '.join(columns) or 'none (set meta=COLUMN)'}"
            "; a column made by the code must be declared in the plan's `columns`"
        )
    if formula.rule == "within" and formula.group not in (columns[formula.column] or (formula.group,)):
        groups = ", ".join(columns[formula.column])
        raise FormulaError(f"{formula.column!r} has no group {formula.group!r}; it has {groups}")


def _check_submitted_use(formula: MetricFormula, column: SubmittedColumn) -> None:
    """Raise `FormulaError` if a formula cannot use the content of a submitted column."""
    needed = "classes" if formula.rule in SHARE_RULES else "groups"
    if column.holds != needed:
        raise FormulaError(f"{formula.rule} needs a column of {needed}, but {column.name!r} holds {column.holds}")
    if formula.rule == "within" and not formula.group.isdecimal():
        raise FormulaError(f"groups of the submitted column {column.name!r} are numbers: write group=0")


@lru_cache(maxsize=256)
def _try_formula(formula: MetricFormula, classes: int) -> tuple[float, tuple[float, ...]]:
    """Return the values for perfect and for random predictions. Raises `FormulaError`."""
    rng, found = np.random.default_rng(0), list[float]()
    for trial in range(RANDOM_TRIALS + 1):
        if classes:
            truth = np.arange(TRIAL_EXAMPLES + 2 * classes) % classes
            values = np.eye(classes)[truth] if not trial else rng.dirichlet(np.ones(classes), size=len(truth))
        else:
            truth = rng.exponential(size=TRIAL_EXAMPLES).astype(np.float32)
            values = truth if not trial else rng.permutation(truth)
        found.append(
            _compute_value(formula, FormulaInputs("probabilities" if classes else "predictions", values, truth))
        )
    return found[0], tuple(found[1:])


def _compute_value(formula: MetricFormula, inputs: FormulaInputs) -> float:
    rows = np.arange(len(inputs.truth))
    try:
        if formula.is_builtin:
            measure = _build_plain_measure(formula, inputs)
            value = None if measure is None else float(measure(np.ones((1, len(rows))))[0])
        else:
            call = _build_sklearn_call(formula, inputs)
            value = None if call is None else call(rows)
    except Exception as error:  # noqa: BLE001  a library function may raise anything for bad arguments
        raise FormulaError(" ".join(str(error).split())[:200]) from None
    if value is None:
        needed, given = ("classes", "numbers") if inputs.truth.dtype.kind == "f" else ("numbers", "classes")
        raise FormulaError(f"it needs {needed}, but this dataset has {given}")
    if not np.isfinite(value):
        raise FormulaError("it has no finite value for perfect or random predictions: check its arguments")
    return value


def complete_metric(metric: MetricSpec) -> MetricSpec:
    """Fill in range and worst value of a plan's metric from the built-in metrics."""
    try:
        formula = _read_formula(metric)
    except FormulaError:
        return metric
    base = METRICS.get(formula.metric) if formula.is_builtin else None
    low, high = (metric.low, metric.high) if base is None else (base.low, base.high)
    if formula.rule in SHARE_RULES:
        low, high = 0.0, 1.0
    elif formula.rule == "gap":
        low, high = 0.0, high - low if high is not None and low is not None else None
    is_known = base is not None or formula.rule in SHARE_RULES
    worst = (low if metric.higher_is_better else high) if is_known else metric.worst
    return metric.model_copy(update={"formula": formula_text(metric), "low": low, "high": high, "worst": worst})


def rates_predictions(metric: MetricSpec) -> bool:
    """Whether a metric says how good predictions are, not how they differ between groups, conditions or from a
    column."""
    with suppress(FormulaError):
        return _read_formula(metric).rule not in {"gap", *SHARE_RULES}
    return False


def can_score(metric: MetricSpec, classes: int, columns: Mapping[str, Sequence[str]]) -> bool:
    """Whether predictions on such a dataset can be scored by the metric."""
    with suppress(FormulaError):
        formula = _read_formula(metric)
        if formula.column and formula.column not in columns:
            return False
        if formula.rule in SHARE_RULES:
            return bool(classes)
        if formula.is_builtin:
            return formula.metric in list_computable(classes)
        return _find_sklearn_function(formula).is_regression != bool(classes)
    return False


def count_formula_passes(text: str, classes: int, examples: int) -> int:
    """Return the cost of one resample of a formula, in passes over the examples (as `count_passes`)."""
    formula = parse_formula(text)
    if formula.is_builtin or formula.rule in SHARE_RULES:
        return count_passes({formula.metric}, classes)
    calls = 3.0 if formula.column else 1.0
    if _find_sklearn_function(formula).takes_probabilities:
        calls *= 1 + classes / 3
    return 60 + int(calls * SKLEARN_CALL_SECONDS / 4e-9 / max(1, examples))


# --- storage with the labels -----------------------------------------------------------------------------------------


def write_formulas(metrics: Sequence[MetricSpec], columns: Sequence[SubmittedColumn], labels: Path) -> None:
    """Write the formulas and the declared columns of a plan to the folder of the labels."""
    labels.mkdir(parents=True, exist_ok=True)
    write_file(labels, _FORMULA_FILE, json.dumps({one.name: one.formula for one in metrics if one.formula}))
    if columns:
        write_file(labels, _COLUMN_FILE, json.dumps({one.name: one.holds for one in columns}))


def read_formulas(labels: Path) -> dict[str, str]:
    """Return the formulas of a run by metric name; empty if there are none."""
    return _read_table(labels / _FORMULA_FILE)


def read_declared_columns(labels: Path) -> dict[str, Literal["classes", "groups"]]:
    """Return the content of each column that the run's code must submit; empty if there are none."""
    return _read_table(labels / _COLUMN_FILE)


def _read_table(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}
