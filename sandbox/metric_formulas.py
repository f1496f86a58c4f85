"""Metrics that a plan asks for by a formula: any of scikit-learn's with its arguments, by group, and without labels.

    fbeta_score(beta=2)    f1_score(average=macro)    top_k_accuracy_score(k=3)    neg_log_loss
    worst(accuracy, by=hospital)    mean(...)    gap(...), best minus worst    within(accuracy, by=hospital, group=a)
    agreement(shortcut)        share of predictions that say what a column says
    flip_rate(to=a0)           share of examples that another condition of the same experiment predicts otherwise:
                               this arm at level a0, arm `to` at this level, or the condition `arm@level`

What is unqualified is ours where we have that name (`sandbox.metrics`). A measure takes counts as ours do; where
scikit-learn computes, examples are repeated as often as they count, so that resamples hold for every metric. A group
without a value (no example, one class) is passed over. The formulas of a run lie beside its labels.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.data_plan import MetricSpec, parse_arm, parse_level
from labwright.sandbox.metrics import (
    METRICS,
    Measure,
    build_metric_measures,
    compute_softmax,
    count_passes,
    list_computable,
)
from labwright.sandbox.safe_io import write_file

Array = NDArray[Any]

GROUP_RULES = {"worst": {"by"}, "mean": {"by"}, "gap": {"by"}, "within": {"by", "group"}}
LABEL_FREE_RULES = {"agreement": set[str](), "flip_rate": {"to"}}
SKLEARN_CALL_SECONDS = 3e-3
"""Seconds that a call of scikit-learn takes, about; a pass over an example takes 4 ns (`sandbox.metrics.passes`)."""
_FORMULA_FILE = "formulas.json"
_BARE_WORD_PATTERN = re.compile(r"(?<=[=(,])\s*([A-Za-z0-9_.@-]+)(?=\s*[,)])")
_NUMBER_PATTERN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


class FormulaError(ValueError):
    """A formula that is none, or has no value for such data. Who acts: whoever wrote it."""


@dataclass(frozen=True)
class MetricFormula:
    """`how` is "" for a metric as it is, else by which rule groups are put together or predictions compared."""

    rule: str = ""
    metric: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    column: str = ""
    other: str = ""
    """The group of `within`, the condition of `flip_rate`."""

    @property
    def is_builtin(self) -> bool:
        return self.metric in METRICS and not self.arguments


@dataclass(frozen=True)
class FormulaInputs:
    """What formulas are computed from: predictions of a kind, the truth, and what else is known of the examples."""

    kind: str
    values: Array
    truth: Array
    class_names: tuple[str, ...] = ()
    columns: Mapping[str, Array] = field(default_factory=dict[str, Array])
    condition: str = ""
    find_other_predictions: Callable[[str], Array | None] = lambda _: None
    """Condition -> what it predicts for the same examples."""

    @property
    def predicted_values(self) -> Array:
        return self.values if self.kind == "predictions" else self.values.argmax(axis=1)


# --- reading ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def parse_formula(text: str) -> MetricFormula:
    """Raises `FormulaError`."""
    try:
        tree = ast.parse(_BARE_WORD_PATTERN.sub(_quote_word, " ".join(text.split())), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(
            f"{text!r} cannot be read: write as in worst(f1_score(average=macro), by=hospital), a name "
            "with blanks in quotes"
        ) from None
    name, given, named = _parse_call(tree)
    if name in LABEL_FREE_RULES:
        if named.keys() != LABEL_FREE_RULES[name] or len(given) != (name == "agreement"):
            raise FormulaError(f"{name} is written {'agreement(COLUMN)' if given else 'flip_rate(to=CONDITION)'}")
        return MetricFormula(
            name, column=_parse_word(given[0]) if given else "", other=_parse_word(named["to"]) if named else ""
        )
    if name not in GROUP_RULES:
        return _parse_metric(name, given, named)
    if len(given) != 1 or named.keys() != GROUP_RULES[name]:
        raise FormulaError(f"{name} takes a metric and {' and '.join(f'{key}=' for key in sorted(GROUP_RULES[name]))}")
    inner = _parse_metric(*_parse_call(given[0]))
    return MetricFormula(
        name,
        inner.metric,
        inner.arguments,
        _parse_word(named["by"]),
        _parse_word(named["group"]) if "group" in named else "",
    )


def _quote_word(found: re.Match[str]) -> str:
    """A name as a string where it is no word of Python's: `a0.1`, `method@a0.1`, `my-arm`."""
    word = found[1]
    return repr(word) if not (word.isidentifier() or _NUMBER_PATTERN.fullmatch(word)) else word


def _parse_call(tree: ast.expr) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    match tree:
        case ast.Name(id=name):
            return name, [], {}
        case ast.Call(func=ast.Name(id=name)):
            return name, tree.args, {one.arg or "**": one.value for one in tree.keywords}
        case _:
            raise FormulaError(f"{ast.unparse(tree)} stands where a metric is to stand")


def _parse_metric(name: str, given: Sequence[ast.expr], named: Mapping[str, ast.expr]) -> MetricFormula:
    if given:
        raise FormulaError(f"{name} takes its arguments by name: {name}(argument=value)")
    found = MetricFormula(metric=name, arguments=tuple((key, _parse_value(one)) for key, one in named.items()))
    if not found.is_builtin:
        _find_sklearn_function(found)
    return found


def _parse_value(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Name):
        return {"true": True, "false": False, "none": None}.get(tree.id, tree.id)
    try:
        value: Any = ast.literal_eval(tree)
        found: Any = tuple(value) if isinstance(tree, ast.List) else value
        hash(found)
        return found
    except (ValueError, TypeError):
        raise FormulaError(f"{ast.unparse(tree)} is no value of an argument") from None


def _parse_word(tree: ast.expr) -> str:
    return tree.id if isinstance(tree, ast.Name) else str(_parse_value(tree))


@dataclass(frozen=True)
class SklearnFunction:
    call: Callable[..., Any]
    sign: int
    arguments: dict[str, Any]
    takes_probabilities: bool
    """Whether it takes probabilities, and no predicted classes."""
    is_regression: bool
    takes_labels: bool


@lru_cache(maxsize=256)
def _find_sklearn_function(wanted: MetricFormula) -> SklearnFunction:
    """scikit-learn's scorer or function of that name, with its arguments. Raises `FormulaError`."""
    from sklearn import metrics  # pyright: ignore[reportMissingTypeStubs]

    library: Any = metrics
    name, sign, more = wanted.metric, 1, dict[str, Any]()
    scorers: list[str] = library.get_scorer_names()
    functions = [
        one
        for one in library.__all__
        if inspect.isfunction(getattr(library, one))
        and _second_parameter(getattr(library, one)) in ("y_pred", "labels_pred", "y2", "y_score", "y_proba", "y_prob")
    ]
    if name in scorers:
        scorer = library.get_scorer(name)
        call, sign, more = scorer._score_func, scorer._sign, dict(scorer._kwargs)
    elif name in functions:
        call = getattr(library, name)
    else:
        near = get_close_matches(name, [*METRICS, *scorers, *functions], n=3)
        raise FormulaError(
            f"there is no metric {name!r}; "
            + (
                f"did you mean {' or '.join(near)}?"
                if near
                else f"there are {', '.join(METRICS)}, and those of scikit-learn"
            )
        )
    known = [one for one in list(inspect.signature(call).parameters)[2:] if one != "sample_weight"]
    if unknown := [key for key, _ in wanted.arguments if key not in known]:
        raise FormulaError(f"{name} has no argument {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    return SklearnFunction(
        call,
        sign,
        more | dict(wanted.arguments),
        _second_parameter(call) in ("y_score", "y_proba", "y_prob"),
        call.__module__.endswith("._regression"),
        "labels" in known,
    )


def _second_parameter(call: Callable[..., Any]) -> str:
    return [*inspect.signature(call).parameters, "", ""][1]


# --- measuring -------------------------------------------------------------------------------------------------------


def build_measures(formulas: Mapping[str, str], inputs: FormulaInputs) -> dict[str, Measure]:
    """Those of the formulas (name -> text) that can be computed from these predictions."""
    found = {name: _build_measure(parse_formula(text), inputs) for name, text in formulas.items()}
    return {name: measure for name, measure in found.items() if measure is not None}


def _build_measure(one: MetricFormula, seen: FormulaInputs) -> Measure | None:
    if one.rule == "flip_rate":
        return _build_flip_rate(one.other, seen)
    if one.column and one.column not in seen.columns:
        return None
    if one.rule == "agreement":
        said = np.array(seen.class_names)[seen.predicted_values.astype(int)] if seen.class_names else None
        return None if said is None else _build_share(said == seen.columns[one.column])
    if not one.rule:
        return _build_plain_measure(one, seen)
    texts = seen.columns[one.column]
    rows = {str(group): np.flatnonzero(texts == group) for group in np.unique(texts)}
    parts = {group: _build_plain_measure(one, _select_rows(seen, index)) for group, index in rows.items()}
    chosen = {group: part for group, part in parts.items() if part is not None and one.other in ("", group)}
    return _combine_groups(one, chosen, rows) if chosen else None


def _select_rows(seen: FormulaInputs, rows: Array) -> FormulaInputs:
    return FormulaInputs(seen.kind, seen.values[rows], seen.truth[rows])


def _combine_groups(one: MetricFormula, parts: Mapping[str, Measure], rows: Mapping[str, Array]) -> Measure:
    def measure(counts: Array) -> Array:
        values = np.stack(
            [
                np.where(counts[:, rows[group]].any(axis=1), part(counts[:, rows[group]]), np.nan)
                for group, part in parts.items()
            ]
        )
        known = ~np.isnan(values)
        lowest, highest = np.where(known, values, np.inf).min(axis=0), np.where(known, values, -np.inf).max(axis=0)
        if one.rule == "gap":
            found = highest - lowest
        elif one.rule == "worst":
            found = lowest if is_higher_better(one) else highest
        else:
            found = np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)
        return np.where(known.any(axis=0), found, np.nan)

    return measure


def _build_plain_measure(one: MetricFormula, seen: FormulaInputs) -> Measure | None:
    if one.is_builtin:
        return build_metric_measures(seen.kind, seen.values, seen.truth).get(one.metric)
    if (call := _build_sklearn_call(one, seen)) is None:
        return None

    def once(row: Array) -> float:
        try:
            return call(np.repeat(np.arange(len(row)), row.astype(int)))
        except (ValueError, ArithmeticError):
            return np.nan  # one class only, say: planning has tried it on what the whole data are like

    return lambda counts: np.array([once(row) for row in counts])


def _build_sklearn_call(one: MetricFormula, seen: FormulaInputs) -> Callable[[Array], float] | None:
    """scikit-learn's value on chosen examples; None where it takes other predictions."""
    function = _find_sklearn_function(one)
    if function.is_regression != (seen.truth.dtype.kind == "f") or (
        function.takes_probabilities and seen.kind == "predictions"
    ):
        return None
    values, more = seen.predicted_values, function.arguments
    if function.takes_probabilities:
        values = compute_softmax(seen.values) if seen.kind == "logits" else seen.values.astype(float)
        values = values / values.sum(axis=1, keepdims=True)
        more = {"labels": list(range(values.shape[1]))} | more if function.takes_labels else more
        values = values[:, 1] if values.shape[1] == 2 else values

    def call(rows: Array) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value: Any = function.call(seen.truth[rows], values[rows], **more)
        return function.sign * float(value)

    return call


def _build_flip_rate(to: str, seen: FormulaInputs) -> Measure | None:
    if seen.truth.dtype.kind == "f":
        return None
    arm, level = parse_arm(seen.condition), parse_level(seen.condition)
    for name in (to, f"{to}@{level}", f"{arm}@{to}"):
        if (other := seen.find_other_predictions(name)) is not None:
            return _build_share(seen.predicted_values != other)
    return None


def _build_share(outcomes: Array) -> Measure:
    return lambda counts: (counts * outcomes).sum(axis=1) / counts.sum(axis=1)


@lru_cache(maxsize=256)
def is_higher_better(formula: MetricFormula) -> bool:
    """Whether higher values of its metric are better, as perfect and random predictions say. Raises `FormulaError`."""
    if formula.is_builtin:
        return METRICS[formula.metric].higher_is_better
    plain = MetricFormula(metric=formula.metric, arguments=formula.arguments)
    if _find_sklearn_function(plain).is_regression:
        perfect, drawn = _try_formula(plain, 0)
    else:
        try:
            perfect, drawn = _try_formula(plain, 2)
        except FormulaError:
            perfect, drawn = _try_formula(plain, 3)
    return perfect > max(drawn)


# --- checking --------------------------------------------------------------------------------------------------------

TRIAL_EXAMPLES = 120
RANDOM_TRIALS = 5


def formula_text(metric: MetricSpec) -> str:
    """The formula of a plan's metric; empty for one of ours by its name, and for what only code can give."""
    if metric.formula or metric.name in METRICS:
        return metric.formula if metric.formula != metric.name or metric.name not in METRICS else ""
    try:
        parse_formula(metric.name)
    except FormulaError:
        return ""
    return metric.name


def find_formula_faults(
    metric: MetricSpec, classes: int, columns: Mapping[str, Sequence[str]], class_names: Sequence[str] = ()
) -> Iterator[str]:
    """Why a metric's formula has no value on a dataset of so many classes (0: numbers), or not the declared direction
    and range: it is tried on random and perfect predictions. `columns` hold their values, none where there are many."""
    text = formula_text(metric)
    where = f"metric {metric.name!r}, {text!r}:"
    try:
        one = parse_formula(text)
        if one.column and one.column not in columns:
            raise FormulaError(
                f"there is no column {one.column!r} to go by; there "
                + (f"are {', '.join(columns)}" if columns else "is none (meta=COLUMN of the data)")
            )
        if one.rule == "within" and one.other not in (columns[one.column] or (one.other,)):
            raise FormulaError(f"{one.column!r} has no group {one.other!r}; it has {', '.join(columns[one.column])}")
        if one.rule in LABEL_FREE_RULES:
            if not classes:
                raise FormulaError(f"{one.rule} is of predicted classes, and these data have none")
            values = columns.get(one.column, ())
            if values and not set(values) & set(class_names):
                raise FormulaError(f"{one.column!r} never names a class: its values are {', '.join(values[:5])}")
            return
        perfect, drawn = _try_formula(MetricFormula(metric=one.metric, arguments=one.arguments), classes)
    except FormulaError as error:
        yield f"{where} {error}"
        return
    better = metric.higher_is_better
    if one.rule == "gap" and metric.higher_is_better:
        yield f"{where} a gap between groups is better when lower: higher_is_better is false"
    elif {*drawn} == {perfect}:
        yield f"{where} it is {perfect:.3g} whatever is predicted"
    elif one.rule != "gap" and (perfect < max(drawn) if better else perfect > min(drawn)):
        yield (
            f"{where} it is said to be better when {'higher' if better else 'lower'}, and perfect predictions give "
            f"{perfect:.3g} where random ones give {drawn[0]:.3g}"
        )
    for value in (perfect, *drawn) if one.rule != "gap" else ():
        if (metric.low is not None and value < metric.low - 1e-9) or (
            metric.high is not None and value > metric.high + 1e-9
        ):
            low, high = ("none" if end is None else f"{end:g}" for end in (metric.low, metric.high))
            yield f"{where} its range is given as {low} to {high}, and predictions that were tried give {value:.3g}"
            return


@lru_cache(maxsize=256)
def _try_formula(one: MetricFormula, classes: int) -> tuple[float, tuple[float, ...]]:
    """Its value for perfect predictions, and for random ones. Raises `FormulaError`."""
    rng, found = np.random.default_rng(0), list[float]()
    for trial in range(RANDOM_TRIALS + 1):
        if classes:
            truth = np.arange(TRIAL_EXAMPLES + 2 * classes) % classes
            values = np.eye(classes)[truth] if not trial else rng.dirichlet(np.ones(classes), size=len(truth))
        else:
            truth = rng.exponential(size=TRIAL_EXAMPLES).astype(np.float32)
            values = truth if not trial else rng.permutation(truth)
        seen = FormulaInputs("probabilities" if classes else "predictions", values, truth)
        found.append(_compute_value(one, seen))
    return found[0], tuple(found[1:])


def _compute_value(one: MetricFormula, seen: FormulaInputs) -> float:
    kinds = "numbers", "classes"
    if one.is_builtin:
        of_numbers, measure = one.metric in list_computable(0), _build_plain_measure(one, seen)
        call = None if measure is None else partial(_measure_rows, measure)
    else:
        call, of_numbers = _build_sklearn_call(one, seen), _find_sklearn_function(one).is_regression
    if call is None:
        raise FormulaError(f"it is of {kinds[not of_numbers]}, and these data have {kinds[of_numbers]}")
    try:
        value = call(np.arange(len(seen.truth)))
    except Exception as error:  # noqa: BLE001  whatever arguments of a formula make a foreign function raise
        raise FormulaError(" ".join(str(error).split())[:200]) from None
    if not np.isfinite(value):
        raise FormulaError("it has no finite value for perfect or random predictions: see what it takes")
    return value


def _measure_rows(measure: Measure, rows: Array) -> float:
    return float(measure(np.ones((1, len(rows))))[0])


def complete_metric(metric: MetricSpec) -> MetricSpec:
    """A plan's metric with what is known of it: ours with their ranges, formulas of ours with those of theirs."""
    text = formula_text(metric)
    try:
        one = parse_formula(text) if text else MetricFormula(metric=metric.name)
    except FormulaError:
        return metric
    base = METRICS.get(one.metric) if one.is_builtin else None
    low, high = (metric.low, metric.high) if base is None else (base.low, base.high)
    if one.rule in LABEL_FREE_RULES:
        low, high = 0.0, 1.0
    elif one.rule == "gap":
        low, high = 0.0, high - low if high is not None and low is not None else None
    worst = (
        metric.worst if base is None and one.rule not in LABEL_FREE_RULES else low if metric.higher_is_better else high
    )
    return metric.model_copy(update={"formula": text, "low": low, "high": high, "worst": worst})


def can_score(metric: MetricSpec, classes: int, columns: Mapping[str, Sequence[str]]) -> bool:
    """Whether predictions on such a dataset can be scored by it."""
    if not (text := formula_text(metric)):
        return metric.name in list_computable(classes)
    try:
        one = parse_formula(text)
    except FormulaError:
        return False
    ours = one.is_builtin and one.metric in list_computable(classes)
    return (not one.column or one.column in columns) and (
        bool(classes)
        if one.rule in LABEL_FREE_RULES
        else ours or (not one.is_builtin and _find_sklearn_function(one).is_regression != bool(classes))
    )


def count_formula_passes(text: str, classes: int, examples: int) -> int:
    """Passes over the examples that a resample of a formula takes, as `sandbox.metrics.passes` counts them."""
    one = parse_formula(text)
    if one.is_builtin or one.rule in LABEL_FREE_RULES:
        return count_passes({one.metric}, classes)
    calls = (3 if one.column else 1) * (1 + classes / 3 if _find_sklearn_function(one).takes_probabilities else 1)
    return 60 + int(calls * SKLEARN_CALL_SECONDS / 4e-9 / max(1, examples))


# --- beside the labels -----------------------------------------------------------------------------------------------


def write_formulas(metrics: Sequence[MetricSpec], labels: Path) -> None:
    """Write the formulas of a plan to where predictions are scored."""
    labels.mkdir(parents=True, exist_ok=True)
    write_file(labels, _FORMULA_FILE, json.dumps({one.name: one.formula for one in metrics if one.formula}))


def read_formulas(labels: Path) -> dict[str, str]:
    """The formulas of a run by the names of their metrics; none where it has none."""
    path = labels / _FORMULA_FILE
    return json.loads(path.read_text()) if path.is_file() else {}
