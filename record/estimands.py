"""Estimands: small expressions over the cells of a study, parsed, checked against a plan, and evaluated for one unit.

  method - baseline                                            difference of two arms
  adam@a0.3 / adam@a0                                          ratio of two levels
  change(method, baseline)                                     (method - baseline) / |baseline|
  drop(adam, from=a0)                                          adam at a0 minus adam at the current level
  mean(drop(adam, from=a0) - drop(sgd, from=a0), over=[a0.1, a0.3])      difference of differences
  slope(method - baseline, over=levels)                        per unit of the levels' values, by least squares
  worst(method, over=datasets)                                 or min, max, mean; worst of a difference is its minimum
  on(method - baseline, digits)                                on a dataset other than the main one
  tuned(adam, over=[r0.1, r0.01], by=dev)                      adam at the level that is best on dev (or validation),
                                                               chosen anew in every unit; named levels, or all

Numbers are floats, or arrays of resamples (elementwise). A name without a level is read at the current level of the
enclosing `over`, and on the main dataset unless another is given. With crossed factors, a level of one factor applies
to every combination: `mean(slope(adam, over=[a0, a0.3]), over=[r1, r2])` is the slope over the first factor at each
level of the second, averaged.
"""

from __future__ import annotations

import ast
import operator as op
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from importlib import import_module
from itertools import product
from random import Random
from typing import Any, Literal, NamedTuple, TypeGuard

from labwright.record.float_compare import subtract_rounded
from labwright.record.python_syntax import parse_expression
from labwright.record.schema.data_plan import DataPlan, MetricSpec
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.record.schema.nodes import Cell

EstimandValue = Any
"""A float, or an array of floats; all arrays of one evaluation have the same shape."""
Axis = Literal["levels", "datasets"]
AGGREGATE_FUNCTIONS = ("mean", "max", "min", "worst", "slope")
_FUNCTIONS: dict[str, tuple[int, set[str]]] = {
    "drop": (1, {"from"}),
    "change": (2, set()),
    "on": (2, set()),
    "tuned": (1, {"over", "by"}),
    **dict.fromkeys(AGGREGATE_FUNCTIONS, (1, {"over"})),
}
"""Function -> the number of its expressions, and its keywords."""
SELECTION_SPLITS = ("dev", "validation")
"""The splits on which `tuned` may select; test values must not be used for selection."""
_OPERATORS: dict[str, tuple[type[ast.operator], str, Callable[[EstimandValue, EstimandValue], EstimandValue]]] = {
    "+": (ast.Add, "plus", op.add),
    "-": (ast.Sub, "minus", lambda a, b: _subtract(a, b)),
    "*": (ast.Mult, "times", op.mul),
    "/": (ast.Div, "divided by", lambda a, b: a / b),
}
"""Sign -> its syntax, its word and what it computes."""
_OPERATOR_SIGNS = {kind: sign for sign, (kind, *_) in _OPERATORS.items()}
_NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:@[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_NUMBER_PATTERN = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$")


class EstimandError(ValueError):
    """An expression cannot be parsed, or does not fit the plan. The message states the fault, which the author
    of the expression must fix.
    """


class CellRef(NamedTuple):
    """A cell to read: an arm at a level (empty if the study has none) on a dataset; on the deciding split, or on
    `selection_split`."""

    dataset: str
    arm: str
    level: str
    selection_split: str = ""

    @property
    def condition(self) -> str:
        """The condition as named in measurements: `arm` or `arm@level`."""
        return f"{self.arm}@{self.level}" if self.level else self.arm

    def __str__(self) -> str:
        return f"{self.condition} on {self.dataset}" + f" ({self.selection_split} values)" * bool(self.selection_split)


ReadCell = Callable[[CellRef], EstimandValue]
"""Return the value of a cell in one unit. Raises `MissingCell` if there is none."""


class MissingCell(Exception):
    """Raised when a cell of an estimand has no value, or a zero divisor makes the estimand undefined."""

    def __init__(self, place: CellRef, of: str = "") -> None:
        super().__init__(f"{place}{of}")
        self.place = place


@dataclass(frozen=True)
class NumberLiteral:
    value: float


@dataclass(frozen=True)
class ArmRef:
    arm: str
    level: str = ""


@dataclass(frozen=True)
class BinaryOperation:
    """Two expressions and the operator between them: + - * /."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class DropLevel:
    operand: Expression
    level: str


@dataclass(frozen=True)
class Aggregate:
    """Mean, extreme or slope over levels or datasets; over all of them if none is named."""

    function: str
    operand: Expression
    axis: Axis | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class OnDataset:
    operand: Expression
    dataset: str


@dataclass(frozen=True)
class TunedArm:
    arm: str
    names: tuple[str, ...]
    selection_split: str


Expression = NumberLiteral | ArmRef | BinaryOperation | DropLevel | Aggregate | OnDataset | TunedArm
_MINUS_ONE = NumberLiteral(-1.0)


# --- parsing ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def parse_estimand(text: str) -> Expression:
    """Parse an expression into a tree. Raises `EstimandError`."""
    try:
        tree = parse_expression(_NAME_PATTERN.sub(_quote_name, " ".join(text.split())))
    except SyntaxError:
        raise EstimandError(
            f"{text!r} is not a valid expression: see the examples; a minus between names needs spaces around it"
        ) from None
    return _parse_expression(tree)


def _quote_name(found: re.Match[str]) -> str:
    """Quote a name, including one that consists of digits if a name is expected; leave functions and keywords
    unchanged.
    """
    word, before, after = found[0], found.string[: found.start()].rstrip(), found.string[found.end() :].lstrip()[:1]
    if after in ("(", "="):
        return "from_" if word == "from" else word
    named = before.endswith("=") or before.count("[") > before.count("]")
    return word if _NUMBER_PATTERN.match(word) and not named else repr(word)


def _parse_expression(tree: ast.expr) -> Expression:
    match tree:
        case ast.Constant(value=str(name)):
            arm, _, level = name.partition("@")
            return ArmRef(arm, level)
        case ast.Constant(value=int(value) | float(value)) if not isinstance(value, bool):
            return NumberLiteral(float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return BinaryOperation("*", _MINUS_ONE, _parse_expression(operand))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATOR_SIGNS:
            return BinaryOperation(_OPERATOR_SIGNS[type(sign)], _parse_expression(left), _parse_expression(right))
        case ast.Call(func=ast.Name(id=name)):
            return _parse_call(name, tree)
        case _:
            raise EstimandError(f"{ast.unparse(tree)} is not allowed in an estimand")


def _parse_call(name: str, tree: ast.Call) -> Expression:
    given = {(one.arg or "**").rstrip("_"): one.value for one in tree.keywords}
    if name not in _FUNCTIONS:
        raise EstimandError(f"there is no function {name!r}; available: {', '.join(_FUNCTIONS)}")
    count, keywords = _FUNCTIONS[name]
    if len(tree.args) != count or given.keys() != keywords:
        and_keywords = f" and {' and '.join(f'{one}=' for one in sorted(keywords))}" if keywords else ""
        raise EstimandError(f"{name} takes {count} expression{'s' * (count > 1)}{and_keywords}")
    first = _parse_expression(tree.args[0])
    if name == "drop":
        return DropLevel(first, _parse_word(given["from"]))
    if name == "change":
        second = _parse_expression(tree.args[1])
        return BinaryOperation("/", BinaryOperation("-", first, second), BinaryOperation("|", second, second))
    if name == "on":
        return OnDataset(first, _parse_word(tree.args[1]))
    axis, names = _parse_axis(given["over"])
    if name == "tuned":
        if not isinstance(first, ArmRef) or first.level:
            raise EstimandError("tuned takes an arm, not an expression: write tuned(adam, over=[r1, r2], by=dev)")
        if axis == "datasets":
            raise EstimandError("tuned selects among levels, not datasets: use over=levels or a list of levels")
        if (by := _parse_word(given["by"])) not in SELECTION_SPLITS:
            raise EstimandError(f"by={by}: use by={' or by='.join(SELECTION_SPLITS)}")
        return TunedArm(first.arm, names, by)
    return Aggregate(name, first, axis, names)


def _parse_axis(tree: ast.expr) -> tuple[Axis | None, tuple[str, ...]]:
    if isinstance(tree, ast.List | ast.Tuple):
        names = tuple(_parse_word(one) for one in tree.elts)
        if not names or len(set(names)) < len(names):
            raise EstimandError(f"over=[{', '.join(names)}] must list levels or datasets without repetition")
        return None, names
    word = _parse_word(tree)
    if word not in ("levels", "datasets"):
        raise EstimandError(f"over={word} is not a valid range: expected levels, datasets, or a list of either")
    return ("levels" if word == "levels" else "datasets"), ()


def _parse_word(tree: ast.expr) -> str:
    if isinstance(tree, ast.Constant):
        return str(tree.value)
    raise EstimandError(f"{ast.unparse(tree)} was found where a name was expected")


# --- evaluation ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluationContext:
    """The context in which an expression is evaluated."""

    plan: DataPlan
    metric: MetricSpec
    read: ReadCell
    dataset: str
    level: str = ""


def evaluate_estimand(
    estimand: str | Expression, plan: DataPlan, metric: MetricSpec, read: ReadCell, *, dataset: str = ""
) -> EstimandValue:
    """Return the value of an estimand, or of a part of one, in one unit, on a dataset (default: the main one).

    Raises `MissingCell` and `EstimandError`.
    """
    whole = parse_estimand(estimand) if isinstance(estimand, str) else estimand
    return _evaluate(whole, EvaluationContext(plan, metric, read, dataset or plan.datasets[0].name))


def has_extreme(text: str) -> bool:
    """Return whether an estimand contains the maximum or minimum of several cells, so that its values are skewed."""
    folds = (one for one in _iterate_parts(parse_estimand(text)) if isinstance(one, Aggregate))
    return any(one.function in ("max", "min", "worst") for one in folds)


def split_quotient(text: str) -> tuple[Expression, Expression] | None:
    """Return numerator and divisor of an estimand that is a quotient of cells, else None.

    The divisor of a relative change is returned without its sign, so its mean may be negative (`is_change`).
    """
    whole = parse_estimand(text)
    if not isinstance(whole, BinaryOperation) or whole.operator != "/" or not _reads_cells(whole.right):
        return None
    return whole.left, whole.right.left if _is_size(whole.right) else whole.right


def is_change(text: str) -> bool:
    """Return whether an estimand is a relative change, where the sign of the divisor is ignored."""
    whole = parse_estimand(text)
    return isinstance(whole, BinaryOperation) and whole.operator == "/" and _is_size(whole.right)


EstimandScale = Literal["value", "difference", "ratio", "other"]
"""Unit of an estimand: that of the metric, of a difference of it, none, or another, such as that of a slope."""


def classify_scale(text: str) -> EstimandScale:
    """Return the unit of an estimand."""
    whole, parts = parse_estimand(text), [*_iterate_parts(parse_estimand(text))]
    if split_quotient(text) is not None:
        return "ratio"
    if _has_number(whole) or any(isinstance(one, Aggregate) and one.function == "slope" for one in parts):
        return "other"
    operators = {one.operator for one in parts if isinstance(one, BinaryOperation)}
    if operators & {"/", "|"} or (operators - {"-"} and not _is_contrast(whole)):
        return "other"
    return "difference" if _is_contrast(whole) else "value"


def is_contrast(text: str) -> bool:
    """Return whether zero means "no effect", as in a difference, slope or change without numbers other than a sign."""
    whole = parse_estimand(text)
    return not _has_number(whole) and _is_contrast(whole)


def _is_contrast(one: Expression) -> bool:
    match one:
        case BinaryOperation(operator="-") | DropLevel() | Aggregate(function="slope"):
            return True
        case BinaryOperation(operator="*"):
            return one.left == _MINUS_ONE and _is_contrast(one.right)
        case BinaryOperation(operator="/" | "+"):
            return _is_contrast(one.left) and (one.operator == "/" or _is_contrast(one.right))
        case Aggregate() | OnDataset():
            return _is_contrast(one.operand)
        case _:
            return False


def _has_number(one: Expression) -> bool:
    return any(isinstance(each, NumberLiteral) and each != _MINUS_ONE for each in _iterate_parts(one))


def _reads_cells(one: Expression) -> bool:
    return any(isinstance(each, ArmRef | TunedArm) for each in _iterate_parts(one))


def _is_size(one: Expression) -> TypeGuard[BinaryOperation]:
    return isinstance(one, BinaryOperation) and one.operator == "|"


def _iterate_parts(one: Expression) -> Iterator[Expression]:
    """Yield an expression and all parts of it."""
    yield one
    if isinstance(one, BinaryOperation):
        yield from (*_iterate_parts(one.left), *_iterate_parts(one.right))
    elif isinstance(one, Aggregate | DropLevel | OnDataset):
        yield from _iterate_parts(one.operand)


def _subtract(a: EstimandValue, b: EstimandValue) -> EstimandValue:
    return subtract_rounded(a, b) if isinstance(a, float | int) and isinstance(b, float | int) else a - b


def _evaluate(one: Expression, at: EvaluationContext) -> EstimandValue:
    match one:
        case NumberLiteral():
            return one.value
        case ArmRef():
            level = _resolve_name(one.level, "levels", at) if one.level else at.level
            return at.read(_build_cell_ref(one.arm, level, at))
        case BinaryOperation(operator="|"):
            return abs(_evaluate(one.left, at))
        case BinaryOperation():
            right = _evaluate(one.right, at)
            if one.operator == "/" and isinstance(right, int | float) and not right:
                raise MissingCell(CellRef(at.dataset, "a divisor of zero", at.level))
            return _OPERATORS[one.operator][2](_evaluate(one.left, at), right)
        case DropLevel():
            before = _evaluate(one.operand, replace(at, level=_resolve_name(one.level, "levels", at)))
            return _subtract(before, _evaluate(one.operand, at))
        case OnDataset():
            return _evaluate(one.operand, replace(at, dataset=_resolve_name(one.dataset, "datasets", at)))
        case Aggregate():
            axis, names = _resolve_axis(one.axis, one.names, at)
            values = [_evaluate(one.operand, replace(at, **{axis[:-1]: name})) for name in names]  # pyrefly: ignore
            return _apply_aggregate(one, axis, names, values, at)
        case TunedArm():
            _, names = _resolve_axis("levels", one.names, at)
            scores = [at.read(_build_cell_ref(one.arm, name, at, one.selection_split)) for name in names]
            best = (max if at.metric.higher_is_better else min)(range(len(names)), key=scores.__getitem__)
            return at.read(_build_cell_ref(one.arm, names[best], at))


def _apply_aggregate(
    one: Aggregate, axis: Axis, names: Sequence[str], values: Sequence[EstimandValue], at: EvaluationContext
) -> EstimandValue:
    if one.function == "mean":
        return sum(values) / len(values)
    if one.function == "slope":
        points = _parse_level_values(names, at) if axis == "levels" else []
        numbers = [value for value in points if value is not None]
        if len(numbers) != len(names) or len(set(numbers)) < 2:
            raise EstimandError("slope needs at least two levels with different numeric values")
        middle = sum(numbers) / len(numbers)
        shares = [x - middle for x in numbers]
        return sum(x * y for x, y in zip(shares, values, strict=True)) / sum(x**2 for x in shares)
    plain = isinstance(one.operand, ArmRef)
    largest = one.function == "max" or (one.function == "worst" and plain and not at.metric.higher_is_better)
    if all(isinstance(one, float | int) for one in values):  # a diverged cell is a number even among arrays
        return max(values) if largest else min(values)
    numpy = import_module("numpy")  # callers that evaluate arrays have already imported it
    return reduce(numpy.maximum if largest else numpy.minimum, values)


def _parse_level_values(names: Sequence[str], at: EvaluationContext) -> list[float | None]:
    """Return the values of the levels; with crossed factors, the values of the only factor that differs between
    them.
    """
    values = {level.name: level.value for level in at.plan.all_levels}
    parts = {level.name: level.parts for level in at.plan.levels if level.parts}
    if not at.plan.factors:
        return [values[name] for name in names]
    by_factor = zip(*(parts.get(name) or tuple(name.split("+")) for name in names), strict=True)
    differing = [each for each in by_factor if len(set(each)) > 1]
    if len(differing) != 1:
        raise EstimandError("slope needs the levels of one factor with the others fixed: list them in over=[...]")
    return [values[name] for name in differing[0]]


def _build_cell_ref(arm: str, level: str, at: EvaluationContext, by: str = "") -> CellRef:
    arms = [one.name for one in at.plan.arms]
    if arm not in arms:
        raise EstimandError(f"there is no arm {arm!r}; the plan has {_format_first(arms)}")
    if at.plan.levels and not level:
        raise EstimandError(f"{arm!r} has no level: write {arm}@{at.plan.levels[0].name}, or aggregate over levels")
    if level not in at.plan.level_names:
        _resolve_name(level.partition("+")[0], "levels", at)
        whole = at.plan.levels[0].name
        raise EstimandError(
            f"{arm!r} at {level!r} leaves other factors open: write {arm}@{whole}, or aggregate over their levels"
        )
    if not at.plan.has_cell(at.dataset, arm, level):
        raise EstimandError(f"{CellRef(at.dataset, arm, level)} is excluded from the plan, so it is not measured")
    return CellRef(at.dataset, arm, level, by)


def _resolve_name(name: str, axis: Axis, at: EvaluationContext) -> str:
    """Resolve the name of a dataset or level.

    A level of one factor is combined with the current level; if other factors are still open, the result is the levels
    of the known factors joined by +.
    """
    names = [one.name for one in (at.plan.levels if axis == "levels" else at.plan.datasets)]
    if name in names:
        return name
    parts = {level.name: place for place, factor in enumerate(at.plan.factors) for level in factor.levels}
    if axis == "datasets" or name not in parts:
        names = [*(parts if axis == "levels" else ()), *names]
        raise EstimandError(f"there is no {axis[:-1]} {name!r}; the plan has {_format_first(names)}")
    whole = {level.name: level.parts for level in at.plan.levels}
    seen = whole.get(at.level) or tuple(one for one in at.level.split("+") if one)
    chosen = dict(sorted({parts[one]: one for one in (*seen, name)}.items()))
    return {each: full for full, each in whole.items()}.get(tuple(chosen.values()), "+".join(chosen.values()))


def _format_first(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"


def _resolve_axis(axis: Axis | None, names: tuple[str, ...], at: EvaluationContext) -> tuple[Axis, tuple[str, ...]]:
    """Resolve the axis of an aggregation and its names; a list of names determines its axis."""
    if axis is None:
        levels = {one.name for one in at.plan.all_levels}
        axis = "datasets" if names and not levels.intersection(names) else "levels"
    known = tuple(one.name for one in (at.plan.levels if axis == "levels" else at.plan.datasets))
    if not (names or known):
        raise EstimandError(f"the plan has no {axis} to aggregate over")
    return axis, tuple(_resolve_name(name, axis, at) for name in names) or known


def list_cells_read(text: str, plan: DataPlan, metric: MetricSpec, *, dataset: str = "") -> tuple[CellRef, ...]:
    """Return every cell that an estimand reads, in order. Raises `EstimandError`."""
    found: dict[CellRef, float] = {}
    rng = Random(0)

    def read(place: CellRef) -> float:
        return found.setdefault(place, rng.uniform(1.0, 2.0))  # all values differ, so that no divisor is zero by chance

    try:
        evaluate_estimand(text, plan, metric, read, dataset=dataset)
    except MissingCell:
        raise EstimandError("it always divides by zero") from None
    for place in [one for one in found if one.selection_split]:  # `tuned` also reads the deciding values
        found.setdefault(place._replace(selection_split=""), 1.0)
    return tuple(found)


def find_effect_metric(effect: Effect, plan: DataPlan) -> MetricSpec:
    """Return the metric of an effect. Raises `EstimandError`."""
    known = {one.name: one for one in plan.metrics}
    if effect.metric and effect.metric not in known:
        raise EstimandError(f"there is no metric {effect.metric!r} in the plan; it has {', '.join(known)}")
    return known.get(effect.metric, plan.primary_metric)


def list_conditions_read(effects: Iterable[Effect], plan: DataPlan) -> set[tuple[str, str, str]]:
    """Return (dataset, metric, condition) of every cell that the effects read. Raises `EstimandError`."""
    return {
        (place.dataset, metric.name, place.condition)
        for effect in effects
        for metric in (find_effect_metric(effect, plan),)
        for place in list_cells_read(effect.estimand, plan, metric)
    }


def list_deciding_cells(hypothesis: Hypothesis, plan: DataPlan) -> frozenset[CellRef]:
    """Return the cells that decide a hypothesis. Raises `EstimandError`."""
    datasets = [one.name for one in plan.datasets] if hypothesis.unit == "datasets" else [plan.datasets[0].name]
    return frozenset(
        place._replace(selection_split="")
        for effect in hypothesis.effects
        for dataset in datasets
        for place in list_cells_read(effect.estimand, plan, find_effect_metric(effect, plan), dataset=dataset)
    )


def list_rival_cells(hypothesis: Hypothesis, plan: DataPlan) -> frozenset[CellRef]:
    """Return the cells in which a hypothesis and its rival disagree. Raises `EstimandError`."""
    if hypothesis.rival is None:
        return frozenset()
    metric = find_effect_metric(hypothesis.effects[0], plan)
    read = list_cells_read(hypothesis.rival.estimand, plan, metric)
    return frozenset(place._replace(selection_split="") for place in read)


def list_registered_cells(plan: DataPlan) -> frozenset[CellRef]:
    """Return the cells that decide the plan's confirmatory hypotheses, or distinguish them from their rivals."""
    return frozenset[CellRef]().union(
        *(list_deciding_cells(one, plan) | list_rival_cells(one, plan) for one in plan.hypotheses if one.confirmatory)
    )


def list_main_arms(plan: DataPlan) -> tuple[str, ...]:
    """Return the arms that every experiment measures: baselines, methods, and the ablations that confirmatory
    hypotheses or their rivals read. They run on the same seeds."""
    needed = {place.arm for place in list_registered_cells(plan)}
    return tuple(arm.name for arm in plan.arms if arm.role != "ablation" or arm.name in needed)


# --- checks ----------------------------------------------------------------------------------------------------------

SIMULATED_STUDIES = 400
MAX_ESTIMAND_LENGTH = 1000


def find_hypothesis_faults(plan: DataPlan) -> Iterator[str]:
    """Yield the faults of a plan's hypotheses, one sentence each."""
    ids = [one.id for one in plan.hypotheses]
    yield from (f"hypothesis {name!r} is defined twice" for name in dict.fromkeys(ids) if ids.count(name) > 1)
    if not any(one.confirmatory for one in plan.hypotheses):
        yield "no hypothesis is confirmatory: mark the one that this study decides"
    yield from _find_order_faults(plan)
    for one in plan.hypotheses:
        yield from (f"hypothesis {one.id!r}{fault}" for fault in _find_faults(one, plan))


def _find_faults(one: Hypothesis, plan: DataPlan) -> Iterator[str]:
    """Yield the faults of a hypothesis, as phrases that follow its name."""
    by_dataset, rival = one.unit == "datasets", one.rival
    for effect in (*one.effects, *one.alternatives):
        if (fault := _find_effect_fault(effect, plan, everywhere=by_dataset)) is not None:
            yield f", {effect.estimand!r}: {fault}"
    if by_dataset and len(plan.datasets) < 3:
        few = f"the plan has only {len(plan.datasets)}: use at least three, or unit 'seeds'"
        yield f" has datasets as its unit, but {few}"
    if (one.unit == "seeds and clusters") != bool(one.cluster):
        yield ": `cluster` must be set for unit 'seeds and clusters', and only for it"
    if one.confirmatory and rival is None:
        asked = "say what else could cause the effect, and which measurement distinguishes them"
        yield f" has no rival explanation: {asked}"
    if rival is not None and rival.ours == rival.theirs:
        yield f": both explanations predict {rival.ours} of {rival.estimand!r}, so it does not distinguish them"
    if rival is not None:
        probe = Effect(estimand=rival.estimand, smallest=1.0)
        if (fault := _find_effect_fault(probe, plan, sized=False)) is not None:
            yield f", rival, {rival.estimand!r}: {fault}"


def _find_order_faults(plan: DataPlan) -> Iterator[str]:
    """Yield the errors in `presupposes`, which sets the order in which hypotheses are tested."""
    by_id = {one.id: one for one in plan.hypotheses}
    for one in (one for one in plan.hypotheses if one.presupposes):
        where, before = f"hypothesis {one.id!r} presupposes {one.presupposes!r}", by_id.get(one.presupposes)
        seen, others = [one.id], ", ".join(name for name in by_id if name != one.id)
        if before is None:
            fix = f"name one of {others}" if others else "leave it empty"
            yield f"{where}, which is not a hypothesis of the plan: {fix}"
            continue
        if one.confirmatory and not before.confirmatory:
            yield f"{where}, which is exploratory and therefore never decided: make that one confirmatory"
            continue
        while before is not None and before.id not in seen:
            seen.append(before.id)
            before = by_id.get(before.presupposes)
        if before is not None and before.id == one.id:
            yield f"{where}, which presupposes it in turn ({' <- '.join(seen)}): no order of tests is possible"


def _find_effect_fault(effect: Effect, plan: DataPlan, *, sized: bool = True, everywhere: bool = False) -> str | None:
    """Return why an effect cannot be decided; None if it can be decided."""
    if len(effect.estimand) > MAX_ESTIMAND_LENGTH:
        return f"it has more than {MAX_ESTIMAND_LENGTH} characters"
    try:
        metric = find_effect_metric(effect, plan)
        datasets = [use.name for use in (plan.datasets if everywhere else plan.datasets[:1])]
        places = [list_cells_read(effect.estimand, plan, metric, dataset=name) for name in datasets]
    except EstimandError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"
    if not any(places):
        return "it reads no cell"
    found = _simulate_values(effect.estimand, plan, metric)
    if len({round(value, 12) for value in found}) < 2:
        return "no measurement can refute it: its value is always the same"
    return _find_claim_fault(effect, metric, found) if sized else None


def _find_claim_fault(effect: Effect, metric: MetricSpec, possible: Sequence[float]) -> str | None:
    """Return why an effect's claim is malformed, or cannot be refuted or supported by any possible value."""
    claim, bound = effect.claim, effect.bound
    if claim in ("positive", "within") and bound is not None:
        return f"claim {claim!r} takes no bound: leave `bound` null, or claim 'at least' or 'at most'"
    if claim == "at most" and bound is None:
        return "claim 'at most' needs its `bound`: 0.5 for 'keeps at most half'"
    whole = parse_estimand(effect.estimand)
    if is_ratio(whole) and (bound is None or claim not in ("at least", "at most")):
        return "a ratio is compared with a bound, not with zero: claim 'at least' or 'at most', and set `bound`"
    if _scales_contrast(whole):
        return (
            "a share of an effect is written as a ratio: estimand '(a - c) / (b - c)', claim 'at most' (or 'at "
            "least') and `bound`, the share"
        )
    low, high = effect.claimed_range
    said = f"the smallest effect of {effect.smallest:g}" if bound is None else f"its bound of {bound:g}"
    if min(possible) > low and max(possible) < high:
        return f"no measurement can refute it: it is always on the claimed side of {said}"
    if metric.low is not None and metric.high is not None and (max(possible) < low or min(possible) > high):
        return (
            f"no possible measurement is on the claimed side of {said}: {metric.name} lies within {metric.low:g} and "
            f"{metric.high:g}; check the unit"
        )
    return None


def is_ratio(one: Expression) -> bool:
    """Return whether an expression is a quotient whose value without any effect is not zero; `change` is not one."""
    if isinstance(one, Aggregate | DropLevel | OnDataset):
        return is_ratio(one.operand)
    return (
        isinstance(one, BinaryOperation) and one.operator == "/" and _reads_cells(one.right) and not _is_size(one.right)
    )


def _scales_contrast(one: Expression) -> bool:
    """Return whether a difference contains a share of a difference: `0.5 * (a - b) - (c - b)`."""
    if isinstance(one, Aggregate | DropLevel | OnDataset):
        return _scales_contrast(one.operand)
    if not isinstance(one, BinaryOperation) or one.operator not in "+-":
        return False
    products = [part for part in (one.left, one.right) if isinstance(part, BinaryOperation) and part.operator == "*"]
    pairs = [pair for part in products for pair in ((part.left, part.right), (part.right, part.left))]
    return any(
        isinstance(factor, NumberLiteral) and abs(factor.value) not in (0.0, 1.0) and _is_contrast(other)
        for factor, other in pairs
    )


def _simulate_values(text: str, plan: DataPlan, metric: MetricSpec) -> list[float]:
    """Return values of an estimand in studies with random cells, including cells at the ends of the metric's range."""
    rng = Random(0)
    low = metric.low if metric.low is not None else -10.0
    high = metric.high if metric.high is not None else low + 100.0
    found: list[float] = []
    for trial in range(SIMULATED_STUDIES):
        drawn: dict[object, float] = {}

        def read(place: CellRef, drawn: dict[object, float] = drawn, kind: int = trial % 3) -> float:
            of = place.arm if kind == 2 else place  # equal values everywhere in an arm, as needed for a minimum
            if of not in drawn:
                drawn[of] = rng.choice((low, high)) if kind else rng.uniform(low, high)
            return drawn[of]

        with suppress(MissingCell):
            found.append(float(evaluate_estimand(text, plan, metric, read)))
    return found


# --- wording ---------------------------------------------------------------------------------------------------------


def describe_estimand(text: str, plan: DataPlan) -> str:
    """Describe an estimand with the titles of the plan."""
    return _describe_expression(parse_estimand(text), plan)


def _describe_expression(one: Expression, plan: DataPlan, *, inner: bool = False) -> str:
    def describe(part: Expression) -> str:
        return _describe_expression(part, plan, inner=True)

    match one:
        case NumberLiteral():
            return f"{one.value:g}"
        case ArmRef():
            return plan.name_condition(f"{one.arm}@{one.level}" if one.level else one.arm)
        case BinaryOperation(operator="|"):
            return f"the size of {describe(one.left)}"
        case BinaryOperation():
            text = _describe_operation(one, plan, describe)
            return f"({text})" if inner else text
        case DropLevel():
            return f"the drop of {describe(one.operand)} from {plan.name_level(one.level)}"
        case OnDataset():
            return f"{_describe_expression(one.operand, plan, inner=inner)} on {plan.name_dataset(one.dataset)}"
        case Aggregate():
            how = {"max": "largest", "min": "smallest"}.get(one.function, one.function)
            levels = {each.name for each in plan.all_levels}
            names = [plan.name_level(name) if name in levels else plan.name_dataset(name) for name in one.names]
            over = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or f"all {one.axis}"
            return f"the {how} over {over} of {describe(one.operand)}"
        case TunedArm():
            return f"{plan.name_arm(one.arm)} at the level that is best on {one.selection_split}"


def _describe_operation(one: BinaryOperation, plan: DataPlan, describe: Callable[[Expression], str]) -> str:
    match one:
        case BinaryOperation("-", OnDataset() as first, OnDataset() as second) if first.operand == second.operand:
            places = f"on {plan.name_dataset(first.dataset)} minus the same on {plan.name_dataset(second.dataset)}"
            return f"{describe(first.operand)} {places}"
        case _ if levels := _find_common_level(one):
            return f"{_describe_expression(levels[1], plan)}, at {plan.name_level(levels[0])}"
        case BinaryOperation("/", BinaryOperation() as change, BinaryOperation("|")):
            return f"the relative change from {describe(change.right)} to {describe(change.left)}"
        case BinaryOperation("*", left, right) if left == _MINUS_ONE:
            return f"minus {describe(right)}"
        case _:
            return f"{describe(one.left)} {_OPERATORS[one.operator][1]} {describe(one.right)}"


def _find_common_level(one: Expression) -> tuple[str, Expression] | None:
    """Return the level at which an expression reads all its arms, and the expression without it; None if it reads
    several, aggregates, or has a single arm."""
    arms = [part for part in _iterate_parts(one) if isinstance(part, ArmRef)]
    if len(arms) < 2 or len({arm.level for arm in arms}) > 1 or not arms[0].level:
        return None
    if any(isinstance(part, Aggregate | DropLevel | OnDataset | TunedArm) for part in _iterate_parts(one)):
        return None
    return arms[0].level, _remove_level(one)


def _remove_level(one: Expression) -> Expression:
    if isinstance(one, BinaryOperation):
        return replace(one, left=_remove_level(one.left), right=_remove_level(one.right))
    return ArmRef(one.arm, "") if isinstance(one, ArmRef) else one


# Controls of tuning: an arm with the tuned setting of the arm that a confirmatory hypothesis compares it with.
#
# If two arms run with different settings, the settings may explain their difference. Every fresh seed therefore
# measures the baseline at the method's setting too, and the method at the baseline's, with the same code.
# Hyperparameters that the other arm lacks keep the arm's own values. The comparisons are exploratory: no verdict reads
# these cells.


def list_swapped_cells(plan: DataPlan, *, trials: Mapping[str, int] | None = None, seed: int = 0) -> tuple[Cell, ...]:
    """Return the cells of one seed in which an arm runs with the setting of another, where the hypotheses read the arm.

    `trials`: arm -> number of its chosen setting; None: not known yet, and every pair of arms counts. Arms that both
    run with their defaults have none.
    """
    roles = {arm.name: arm.role for arm in plan.arms}
    tuned = {arm: {one.name for one in plan.find_space(arm)} for arm in plan.tuned_arms}
    found: dict[Cell, None] = {}
    for hypothesis in plan.hypotheses:
        read = sorted(list_deciding_cells(hypothesis, plan)) if hypothesis.confirmatory else []
        for place, other in product(read, dict.fromkeys(one.arm for one in read)):
            if place.arm not in tuned or other not in tuned or roles[place.arm] == roles[other]:
                continue
            own, others = (0, 0) if trials is None else (trials.get(place.arm, 0), trials.get(other, 0))
            if not tuned[place.arm] & tuned[other] or (trials is not None and own == others == 0):
                continue
            own_cell = Cell(dataset=place.dataset, arm=place.arm, level=place.level, seed=seed, trial=own)
            cell = own_cell.model_copy(update={"setting_of": other, "setting_trial": others})
            if cell.measured_arm not in roles:
                found[cell] = None
    return tuple(found)


def find_swapped_arms(plan: DataPlan) -> dict[str, tuple[str, str]]:
    """Return, by the name that measurements give it, each arm that runs with another's setting, and that other arm."""
    return {cell.measured_arm: (cell.arm, cell.setting_of) for cell in list_swapped_cells(plan)}
