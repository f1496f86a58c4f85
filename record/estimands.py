"""Estimands: small expressions over the cells of a study, parsed, checked against a plan, and evaluated for one unit.

    method - baseline                                            difference of two arms
    adam@a0.3 / adam@a0                                          ratio of two levels
    change(method, baseline)                                     (method - baseline) / |baseline|
    drop(adam, from=a0)                                          adam at a0 minus adam at the level that is looked at
    mean(drop(adam, from=a0) - drop(sgd, from=a0), over=[a0.1, a0.3])      difference of differences
    slope(method - baseline, over=levels)                        per unit of the levels' values, by least squares
    worst(method, over=datasets)                                 or min, max, mean; worst of a difference is its least
    on(method - baseline, digits)                                on a dataset other than the main one
    tuned(adam, over=[r0.1, r0.01], by=dev)                      adam at the level that is best on dev (or validation),
                                                                 chosen anew in every unit; the levels by name, or all

Numbers are floats, or arrays of resamples, elementwise. A name without a level is read at the level that an `over`
around it looks at; without any dataset said it is read on the main one. Where factors are crossed, a level of one of
them stands for it in whatever is looked at: `mean(slope(adam, over=[a0, a0.3]), over=[r1, r2])` is the slope over the
first factor at each level of the second, averaged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from importlib import import_module
from random import Random
from typing import Any, Literal, NamedTuple

from labwright.record.nouns.data import DataPlan, MetricSpec
from labwright.record.nouns.hypotheses import Effect, Hypothesis
from labwright.record.rounding import minus

Number = Any
"""A float, or an array of floats of a shape that all of one evaluation have."""
Axis = Literal["levels", "datasets"]
FOLDS = ("mean", "max", "min", "worst", "slope")
CHOOSES = ("dev", "validation")
"""The splits by whose values `tuned` may choose: test values choose nothing."""
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_DO: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: _minus(a, b),
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:@[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$")


class EstimandError(ValueError):
    """An expression that cannot be read, or not of this plan. Who acts: whoever wrote it; the text says what
    is wrong.
    """


class Place(NamedTuple):
    """What is read: an arm at a level (empty: the study has none) on a dataset, on the split that decides or `by`."""

    dataset: str
    arm: str
    level: str
    by: str = ""

    @property
    def condition(self) -> str:
        """As measurements name it: `arm`, or `arm@level`."""
        return f"{self.arm}@{self.level}" if self.level else self.arm

    def __str__(self) -> str:
        return f"{self.condition} on {self.dataset}{f' ({self.by} values)' if self.by else ''}"


Read = Callable[[Place], Number]
"""The value of a cell in one unit. Raises `Gap` where there is none."""


class Gap(Exception):
    """A cell that an estimand reads has no value, or the estimand has none: a divisor is zero."""

    def __init__(self, place: Place, of: str = "") -> None:
        super().__init__(f"{place}{of}")
        self.place = place


@dataclass(frozen=True)
class Constant:
    value: float


@dataclass(frozen=True)
class Ref:
    arm: str
    level: str = ""


@dataclass(frozen=True)
class Sum:
    """Two expressions and the sign between them: + - * /."""

    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Drop:
    of: Expression
    level: str


@dataclass(frozen=True)
class Fold:
    """Mean, extreme or slope over levels or datasets; all of them where none is named."""

    how: str
    of: Expression
    axis: Axis | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class On:
    of: Expression
    dataset: str


@dataclass(frozen=True)
class Tuned:
    arm: str
    names: tuple[str, ...]
    by: str


Expression = Constant | Ref | Sum | Drop | Fold | On | Tuned


# --- reading ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def parsed(text: str) -> Expression:
    """An expression as a tree. Raises `EstimandError`."""
    try:
        tree = ast.parse(_NAME.sub(_quoted, " ".join(text.split())), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise EstimandError(
            f"{text!r} cannot be read as an expression: see the examples; a minus between names has spaces around it"
        ) from None
    return _node(tree)


def _quoted(found: re.Match[str]) -> str:
    """A name as a string, also one of digits where a name is to stand; functions and keywords as they are."""
    word, before, after = found[0], found.string[: found.start()].rstrip(), found.string[found.end() :].lstrip()[:1]
    if after in ("(", "="):
        return "from_" if word == "from" else word
    named = before.endswith("=") or before.count("[") > before.count("]")
    return word if _NUMBER.match(word) and not named else repr(word)


def _node(tree: ast.expr) -> Expression:
    match tree:
        case ast.Constant(value=str(name)):
            arm, _, level = name.partition("@")
            return Ref(arm, level)
        case ast.Constant(value=int(value) | float(value)) if not isinstance(value, bool):
            return Constant(float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Sum("*", Constant(-1.0), _node(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return Sum(_SIGNS[type(op)], _node(left), _node(right))
        case ast.Call(func=ast.Name(id=name)):
            return _call(name, tree)
        case _:
            raise EstimandError(f"{ast.unparse(tree)} has no meaning in an estimand")


def _call(name: str, tree: ast.Call) -> Expression:
    given = {(one.arg or "**").rstrip("_"): one.value for one in tree.keywords}
    wants = {
        "drop": (1, {"from"}),
        "change": (2, set[str]()),
        "on": (2, set[str]()),
        "tuned": (1, {"over", "by"}),
        **dict.fromkeys(FOLDS, (1, {"over"})),
    }
    if name not in wants:
        raise EstimandError(f"there is no function {name!r}; there are {', '.join(wants)}")
    count, keywords = wants[name]
    if len(tree.args) != count or given.keys() != keywords:
        raise EstimandError(
            f"{name} takes {count} expression{'s' * (count > 1)}"
            + (f" and {' and '.join(f'{one}=' for one in sorted(keywords))}" if keywords else "")
        )
    first = _node(tree.args[0])
    if name == "drop":
        return Drop(first, _word(given["from"]))
    if name == "change":
        second = _node(tree.args[1])
        return Sum("/", Sum("-", first, second), Sum("|", second, second))
    if name == "on":
        return On(first, _word(tree.args[1]))
    axis, names = _over(given["over"])
    if name == "tuned":
        if not isinstance(first, Ref) or first.level:
            raise EstimandError("tuned takes an arm, and not an expression: tuned(adam, over=[r1, r2], by=dev)")
        if axis == "datasets":
            raise EstimandError("tuned goes over levels, and not over datasets")
        if (by := _word(given["by"])) not in CHOOSES:
            raise EstimandError(f"by={by}: a level is chosen by its values on {' or '.join(CHOOSES)}")
        return Tuned(first.arm, names, by)
    return Fold(name, first, axis, names)


def _over(tree: ast.expr) -> tuple[Axis | None, tuple[str, ...]]:
    if isinstance(tree, ast.List | ast.Tuple):
        names = tuple(_word(one) for one in tree.elts)
        if not names or len(set(names)) < len(names):
            raise EstimandError(f"over=[{', '.join(names)}] must name levels or datasets, each once")
        return None, names
    word = _word(tree)
    if word not in ("levels", "datasets"):
        raise EstimandError(f"over={word} is nothing to go over: levels, datasets, or a list of either")
    return ("levels" if word == "levels" else "datasets"), ()


def _word(tree: ast.expr) -> str:
    if isinstance(tree, ast.Constant):
        return str(tree.value)
    raise EstimandError(f"{ast.unparse(tree)} stands where a name is to stand")


# --- evaluating ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """Where an expression is looked at."""

    plan: DataPlan
    metric: MetricSpec
    read: Read
    dataset: str
    level: str = ""
    instead: str = ""
    """A level in the place of every mean, extreme or slope over levels."""


def evaluated(text: str, plan: DataPlan, metric: MetricSpec, read: Read, *, dataset: str = "") -> Number:
    """The value of an estimand in one unit, on a dataset (the main one). Raises `Gap` and `EstimandError`."""
    return _value(parsed(text), Context(plan, metric, read, dataset or plan.datasets[0].name))


def by_level(text: str, plan: DataPlan, metric: MetricSpec, read: Read) -> dict[str, Number]:
    """What a whole estimand comes to with one level in the place of its means and extremes over levels, level by level;
    of a slope, what it is the slope of. Empty where there is none, or where they go over unlike levels.

    Raises `Gap` and `EstimandError`.
    """
    whole, at = parsed(text), Context(plan, metric, read, plan.datasets[0].name)
    over = [(fold, _axis(fold.axis, fold.names, at)) for fold in _folds(whole)]
    found = [(fold, names) for fold, (axis, names) in over if axis == "levels"]
    if len({names for _, names in found}) != 1 or any(fold.how == "slope" and fold is not whole for fold, _ in found):
        return {}
    return {name: _value(whole, replace(at, instead=name)) for name in found[0][1]}


def is_extreme(text: str) -> bool:
    """Whether an estimand has the largest or smallest of several cells in it, so that its values are skewed."""
    return any(fold.how in ("max", "min", "worst") for fold in _folds(parsed(text)))


def _minus(a: Number, b: Number) -> Number:
    return minus(a, b) if _plain(a, b) else a - b


def _folds(one: Expression) -> Iterator[Fold]:
    if isinstance(one, Fold):
        yield one
    if isinstance(one, Sum):
        yield from (*_folds(one.left), *_folds(one.right))
    elif isinstance(one, Fold | Drop | On):
        yield from _folds(one.of)


def _value(one: Expression, at: Context) -> Number:
    match one:
        case Constant():
            return one.value
        case Ref():
            return at.read(_place(one.arm, _known(one.level, "levels", at) if one.level else at.level, at))
        case Sum(sign="|"):
            return abs(_value(one.left, at))
        case Sum():
            right = _value(one.right, at)
            if one.sign == "/" and isinstance(right, int | float) and not right:
                raise Gap(Place(at.dataset, "a divisor of zero", at.level))
            return _DO[one.sign](_value(one.left, at), right)
        case Drop():
            return _minus(_value(one.of, replace(at, level=_known(one.level, "levels", at))), _value(one.of, at))
        case On():
            return _value(one.of, replace(at, dataset=_known(one.dataset, "datasets", at)))
        case Fold():
            axis, names = _axis(one.axis, one.names, at)
            if axis == "levels" and at.instead:
                return _value(one.of, replace(at, level=at.instead))
            values = [_value(one.of, replace(at, **{axis[:-1]: name})) for name in names]
            return _folded(one, axis, names, values, at)
        case Tuned():
            _, names = _axis("levels", one.names, at)
            scores = [at.read(_place(one.arm, name, at, one.by)) for name in names]
            best = (max if at.metric.higher_is_better else min)(range(len(names)), key=scores.__getitem__)
            return at.read(_place(one.arm, names[best], at))


def _folded(one: Fold, axis: Axis, names: Sequence[str], values: Sequence[Number], at: Context) -> Number:
    if one.how == "mean":
        return sum(values) / len(values)
    if one.how == "slope":
        points = _points(names, at) if axis == "levels" else []
        numbers = [value for value in points if value is not None]
        if len(numbers) != len(names) or len(set(numbers)) < 2:
            raise EstimandError("slope goes over at least two levels with different numeric values")
        middle = sum(numbers) / len(numbers)
        return sum((x - middle) * value for x, value in zip(numbers, values, strict=True)) / sum(
            (x - middle) ** 2 for x in numbers
        )
    plain = isinstance(one.of, Ref)
    largest = one.how == "max" or (one.how == "worst" and plain and not at.metric.higher_is_better)
    return reduce(_larger if largest else _smaller, values)


def _points(names: Sequence[str], at: Context) -> list[float | None]:
    """The levels as numbers; of crossed factors, those of the one factor that differs between them."""
    values = {level.name: level.value for level in at.plan.all_levels}
    parts = {level.name: level.parts for level in at.plan.levels if level.parts}
    if not at.plan.factors:
        return [values[name] for name in names]
    differing = [
        each
        for each in zip(*(parts.get(name) or tuple(name.split("+")) for name in names), strict=True)
        if len(set(each)) > 1
    ]
    if len(differing) != 1:
        raise EstimandError("slope goes over the levels of one factor, the others fixed: name them in over=[...]")
    return [values[name] for name in differing[0]]


def _larger(a: Number, b: Number) -> Number:
    return max(a, b) if _plain(a, b) else _numpy().maximum(a, b)


def _smaller(a: Number, b: Number) -> Number:
    return min(a, b) if _plain(a, b) else _numpy().minimum(a, b)


def _plain(a: Number, b: Number) -> bool:
    """Whether neither is an array: a constant, or a cell that diverged, stands beside arrays as a number."""
    return isinstance(a, float | int) and isinstance(b, float | int)


def _numpy() -> Any:
    """numpy, which whoever evaluates arrays has imported."""
    return import_module("numpy")


def _place(arm: str, level: str, at: Context, by: str = "") -> Place:
    if arm not in {one.name for one in at.plan.arms}:
        raise EstimandError(f"there is no arm {arm!r}; there are {_first([one.name for one in at.plan.arms])}")
    if at.plan.levels and not level:
        raise EstimandError(f"{arm!r} is read at no level: write {arm}@{at.plan.levels[0].name}, or go over levels")
    if level not in at.plan.level_names:
        _known(level.partition("+")[0], "levels", at)
        raise EstimandError(
            f"{arm!r} is read at {level!r}, which leaves other factors open: write {arm}@"
            f"{at.plan.levels[0].name}, or go over their levels"
        )
    if not at.plan.owes(at.dataset, arm, level):
        raise EstimandError(f"{Place(at.dataset, arm, level)} is left out of the plan: nobody measures it")
    return Place(at.dataset, arm, level, by)


def _known(name: str, axis: Axis, at: Context) -> str:
    """The name of a dataset or level. That of one factor's level stands for it in the level that is looked at; where
    other factors are still open, the levels of some of them come back, joined by +."""
    names = [one.name for one in (at.plan.levels if axis == "levels" else at.plan.datasets)]
    if name in names:
        return name
    parts = {level.name: place for place, factor in enumerate(at.plan.factors) for level in factor.levels}
    if axis == "datasets" or name not in parts:
        names = [*(parts if axis == "levels" else ()), *names]
        raise EstimandError(f"there is no {axis[:-1]} {name!r}; there are {_first(names)}")
    whole = {level.name: level.parts for level in at.plan.levels}
    seen = whole.get(at.level) or tuple(one for one in at.level.split("+") if one)
    chosen = dict(sorted({parts[one]: one for one in (*seen, name)}.items()))
    return {each: full for full, each in whole.items()}.get(tuple(chosen.values()), "+".join(chosen.values()))


def _first(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "none"


def _axis(axis: Axis | None, names: tuple[str, ...], at: Context) -> tuple[Axis, tuple[str, ...]]:
    """What an expression goes over; of a list of names, what they are names of."""
    if axis is None:
        levels = {one.name for one in at.plan.all_levels}
        axis = "datasets" if names and not levels.intersection(names) else "levels"
    known = tuple(one.name for one in (at.plan.levels if axis == "levels" else at.plan.datasets))
    if not (names or known):
        raise EstimandError(f"the plan has no {axis} to go over")
    return axis, tuple(_known(name, axis, at) for name in names) or known


def places_of(text: str, plan: DataPlan, metric: MetricSpec, *, dataset: str = "") -> tuple[Place, ...]:
    """Every cell that an estimand reads, in order. Raises `EstimandError`."""
    found: dict[Place, float] = {}
    rng = Random(0)

    def read(place: Place) -> float:
        return found.setdefault(place, rng.uniform(1.0, 2.0))  # all different: no divisor is zero by chance

    try:
        evaluated(text, plan, metric, read, dataset=dataset)
    except Gap:
        raise EstimandError("it divides by zero whatever is measured") from None
    for place in [one for one in found if one.by]:  # a choice reads what it chooses among, too
        found.setdefault(place._replace(by=""), 1.0)
    return tuple(found)


def metric_of(effect: Effect, plan: DataPlan) -> MetricSpec:
    """The metric that an effect is read in. Raises `EstimandError`."""
    found = next((one for one in plan.metrics if one.name == effect.metric), None)
    if effect.metric and found is None:
        raise EstimandError(
            f"there is no metric {effect.metric!r} in the plan; there are {', '.join(one.name for one in plan.metrics)}"
        )
    return found or plan.primary


def conditions_read(effects: Iterable[Effect], plan: DataPlan) -> set[tuple[str, str, str]]:
    """(dataset, metric, condition) of every cell that effects read. Raises `EstimandError`."""
    return {
        (place.dataset, metric.name, place.condition)
        for effect in effects
        for metric in (metric_of(effect, plan),)
        for place in places_of(effect.estimand, plan, metric)
    }


def cells_of(hypothesis: Hypothesis, plan: DataPlan) -> frozenset[Place]:
    """The cells that a hypothesis is decided by. Raises `EstimandError`."""
    datasets = [one.name for one in plan.datasets] if hypothesis.unit == "datasets" else [plan.datasets[0].name]
    return frozenset(
        place._replace(by="")
        for effect in hypothesis.effects
        for dataset in datasets
        for place in places_of(effect.estimand, plan, metric_of(effect, plan), dataset=dataset)
    )


def registered(plan: DataPlan) -> frozenset[Place]:
    """The cells that decide the plan's confirmatory hypotheses."""
    return frozenset[Place]().union(*(cells_of(one, plan) for one in plan.hypotheses if one.confirmatory))


def main_arms(plan: DataPlan) -> tuple[str, ...]:
    """The arms that every experiment of the search measures: baselines, methods, and the ablations that the plan's
    confirmatory hypotheses need, which have to run on the same seeds."""
    needed = {place.arm for place in registered(plan)}
    return tuple(arm.name for arm in plan.arms if arm.role != "ablation" or arm.name in needed)


# --- checking --------------------------------------------------------------------------------------------------------

TRIALS = 400
"""Random studies in which an effect is looked at."""
MOST_CHARACTERS = 1000


def hypothesis_faults(plan: DataPlan) -> Iterator[str]:
    """What is wrong with the hypotheses of a plan, a sentence each."""
    ids = [one.id for one in plan.hypotheses]
    yield from (f"hypothesis {name!r} is named twice" for name in dict.fromkeys(ids) if ids.count(name) > 1)
    if not any(one.confirmatory for one in plan.hypotheses):
        yield "no hypothesis is confirmatory: say what this study decides"
    for one in plan.hypotheses:
        where = f"hypothesis {one.id!r}"
        for effect in (*one.effects, *one.alternatives):
            if (fault := _fault(effect, plan, everywhere=one.unit == "datasets")) is not None:
                yield f"{where}, {effect.estimand!r}: {fault}"
        if one.unit == "datasets" and len(plan.datasets) < 3:
            yield f"{where} has datasets as its unit, and the plan has {len(plan.datasets)}: three at least, or seeds"
        if one.diverged == "worst value" and (
            unbound := sorted({metric.name for metric in _metrics_of(one, plan) if metric.worst is None})
        ):
            yield (
                f"{where} counts training that diverged as the worst value, and {', '.join(unbound)} has none: say "
                "it in `worst`, or leave such seeds out"
            )
        if one.diverged == "worst value" and one.unit == "datasets":
            yield f"{where}: with datasets as its unit seeds that diverged are left out: `diverged` is 'left out'"
        if (one.unit == "seeds and clusters") != bool(one.cluster):
            yield f"{where}: `cluster` is the column of unit 'seeds and clusters', and of no other"
        if one.confirmatory and one.rival is None:
            yield f"{where} has no rival explanation: say what else could make the effect, and what tells them apart"
        if one.rival is not None:
            if one.rival.ours == one.rival.theirs:
                yield (
                    f"{where}: both explanations predict {one.rival.ours} of {one.rival.estimand!r}, so no cell "
                    "separates them"
                )
            probe = Effect(estimand=one.rival.estimand, smallest=1.0)
            if (fault := _fault(probe, plan, sized=False)) is not None:
                yield f"{where}, rival, {one.rival.estimand!r}: {fault}"


def _metrics_of(one: Hypothesis, plan: DataPlan) -> Iterator[MetricSpec]:
    for effect in (*one.effects, *one.alternatives):
        with suppress(EstimandError):  # told of the effect itself
            yield metric_of(effect, plan)


def _fault(effect: Effect, plan: DataPlan, *, sized: bool = True, everywhere: bool = False) -> str | None:
    """Why an effect cannot be decided; None where it can."""
    if len(effect.estimand) > MOST_CHARACTERS:
        return f"it has more than {MOST_CHARACTERS} characters"
    try:
        metric = metric_of(effect, plan)
        places = [
            place
            for use in (plan.datasets if everywhere else plan.datasets[:1])
            for place in places_of(effect.estimand, plan, metric, dataset=use.name)
        ]
    except EstimandError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"
    if not places:
        return "it reads no cell"
    found = _imagined(effect.estimand, plan, metric)
    if len({round(value, 12) for value in found}) < 2:
        return "no cell can refute it: it has the same value whatever is measured"
    if not sized:
        return None
    if min(found) > effect.smallest:
        return "no cell can refute it: it is larger than the smallest effect whatever is measured"
    if max(found) < effect.smallest and metric.low is not None and metric.high is not None:
        return (
            f"nothing that could be measured reaches its smallest effect of {effect.smallest:g}: {metric.name} "
            f"lies within {metric.low:g} and {metric.high:g}; is that another unit?"
        )
    return None


def _imagined(text: str, plan: DataPlan, metric: MetricSpec) -> list[float]:
    """Values of an estimand in studies whose cells are drawn at random, at the ends of the metric's range, too."""
    rng = Random(0)
    low = metric.low if metric.low is not None else -10.0
    high = metric.high if metric.high is not None else low + 100.0
    found: list[float] = []
    for trial in range(TRIALS):
        drawn: dict[object, float] = {}

        def read(place: Place, drawn: dict[object, float] = drawn, kind: int = trial % 3) -> float:
            of = place.arm if kind == 2 else place  # an arm that is as good everywhere: what a minimum needs
            if of not in drawn:
                drawn[of] = rng.choice((low, high)) if kind else rng.uniform(low, high)
            return drawn[of]

        try:
            found.append(float(evaluated(text, plan, metric, read)))
        except Gap:
            continue
    return found


# --- saying ----------------------------------------------------------------------------------------------------------


def described(text: str, plan: DataPlan) -> str:
    """An estimand in words, with the titles of the plan."""
    return _said(parsed(text), plan)


def _said(one: Expression, plan: DataPlan, *, inner: bool = False) -> str:
    match one:
        case Constant():
            return f"{one.value:g}"
        case Ref():
            arm = _title(plan.arms, one.arm)
            return f"{arm} at {_title(plan.all_levels, one.level)}" if one.level else arm
        case Sum(sign="|"):
            return f"the size of {_said(one.left, plan, inner=True)}"
        case Sum():
            change = isinstance(one.right, Sum) and one.right.sign == "|"
            if change and isinstance(one.left, Sum):
                text = (
                    f"the relative change from {_said(one.left.right, plan, inner=True)} to "
                    f"{_said(one.left.left, plan, inner=True)}"
                )
            elif one.sign == "*" and one.left == Constant(-1.0):
                text = f"minus {_said(one.right, plan, inner=True)}"
            else:
                word = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}[one.sign]
                text = f"{_said(one.left, plan, inner=True)} {word} {_said(one.right, plan, inner=True)}"
            return f"({text})" if inner else text
        case Drop():
            return f"the drop of {_said(one.of, plan, inner=True)} from {_title(plan.all_levels, one.level)}"
        case On():
            return f"{_said(one.of, plan)} on {_title(plan.datasets, one.dataset)}"
        case Fold():
            how = {
                "mean": "the mean",
                "max": "the largest",
                "min": "the smallest",
                "worst": "the worst",
                "slope": "the slope",
            }[one.how]
            levels = {each.name for each in plan.all_levels}
            names = [_title(plan.all_levels if name in levels else plan.datasets, name) for name in one.names]
            over = ", ".join(names) or f"all {one.axis}"
            return f"{how} over {over} of {_said(one.of, plan, inner=True)}"
        case Tuned():
            return f"{_title(plan.arms, one.arm)} at the level that is best on {one.by}"


def _title(nouns: Sequence[Any], name: str) -> str:
    return next((getattr(one, "title", "") or one.name for one in nouns if one.name == name), name)
