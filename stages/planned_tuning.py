"""What is wrong with what a data plan says of tuning: spaces, what is spent on them, anchors. One sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.idea import GivenAnchor
from labwright.record.nouns.tuning import Hyperparameter
from labwright.record.tuning import cells_of_trial

MOST = {"trials": 200, "seconds": 30 * 24 * 3600}
"""Of the currency, what an arm may get at most: more is a slip of the planner's."""


def tuning_faults(plan: DataPlan, given: Sequence[GivenAnchor] = ()) -> Iterator[str]:
    """What is wrong with a plan's spaces, tuning and anchors; `given` are the anchors of the idea."""
    counts = Counter(one.name for one in plan.space)
    yield from (f"hyperparameter {name!r} is named twice in `space`" for name in sorted(counts) if counts[name] > 1)
    for n, one in enumerate(plan.space):
        yield from (
            f"hyperparameter {one.name!r}: {fault}"
            for fault in (*range_faults(one), *_arms(one, plan), *_given(one, plan, plan.space[:n]))
        )
    for arm in plan.arms:
        if arm.role != "ablation" and not plan.space_of(arm.name) and not arm.untuned.strip():
            yield f"arm {arm.name!r} has neither a hyperparameter in `space` nor a reason in `untuned`"
        elif arm.untuned.strip() and plan.space_of(arm.name):
            yield (
                f"arm {arm.name!r} says why it is untuned, and `space` has {plan.space_of(arm.name)[0].name!r} "
                "for it: name the arms of that hyperparameter, or leave `untuned` empty"
            )
    if plan.space:
        yield from _tuning(plan)
    yield from _anchors(plan, given)


def range_faults(one: Hyperparameter) -> Iterator[str]:
    """What is wrong with a dimension's range or options, and with its default."""
    if one.kind == "choice":
        if one.low is not None or one.high is not None:
            yield "a choice has `options`, and neither low nor high"
        if len(set(one.options)) < max(2, len(one.options)):
            yield f"a choice has two options or more, each once, and not {list(one.options)}"
        elif one.default not in one.options:
            yield f"its default {one.default!r} is not one of its options {list(one.options)}"
        return
    if one.options:
        yield f"`options` are of a choice alone, and it is {one.kind}"
    if one.low is None or one.high is None or one.low >= one.high:
        yield f"its range needs a low below its high, and not {one.low} and {one.high}"
    elif one.kind == "log" and one.low <= 0:
        yield f"a range on a log scale is positive, and begins at {one.low:g}: use linear, or a choice that has 0"
    elif isinstance(one.default, str | bool) or not one.low <= one.default <= one.high:
        yield f"its default {one.default!r} is not between {one.low:g} and {one.high:g}"
    elif one.kind == "integer" and any(number != int(number) for number in (one.low, one.high, one.default)):
        yield "low, high and default of an integer are whole numbers"


def _arms(one: Hyperparameter, plan: DataPlan) -> Iterator[str]:
    """Which of its arms are none that is compared."""
    yield from (
        f"its arm {arm!r} is no baseline or method of the plan; there are {', '.join(plan.compared)}"
        for arm in one.arms
        if arm not in plan.compared
    )


def _given(one: Hyperparameter, plan: DataPlan, before: Iterable[Hyperparameter]) -> Iterator[str]:
    """What is wrong with the choice that it hangs on."""
    if not one.given:
        if one.among:
            yield "`among` counts only with `given`, the choice that it hangs on"
        return
    choice = next((other for other in before if other.name == one.given), None)
    if choice is None or choice.kind != "choice":
        yield f"`given` is {one.given!r}, which is no choice that stands before it in `space`"
    elif not one.among or not set(one.among) <= set(choice.options):
        yield f"`among` {list(one.among)} must be some of the options of {one.given!r}, {list(choice.options)}"
    elif lacking := set(one.arms or plan.compared) - set(choice.arms or plan.compared):
        yield f"it hangs on {one.given!r}, which the arm {min(lacking)!r} does not have"


def _tuning(plan: DataPlan) -> Iterator[str]:
    """What is wrong with what is spent on tuning, and where trials are measured."""
    tuning = plan.tuning
    for noun, names, known in (
        ("metric", (tuning.metric,) if tuning.metric else (), [one.name for one in plan.metrics]),
        ("datasets", tuning.datasets, [one.name for one in plan.datasets]),
        ("levels", tuning.levels, list(plan.level_names)),
    ):
        if len(set(names)) < len(names) or not set(names) <= set(known):
            yield (
                f"tuning.{noun} {', '.join(names)} must be of the plan's, each once: "
                f"{', '.join(filter(None, known)) or 'none'}"
            )
            return
    if not 2 <= tuning.budget <= MOST[tuning.currency]:
        yield (f"tuning.budget {tuning.budget:g} must be from 2 to {MOST[tuning.currency]} {tuning.currency} an arm")
    if not all(low < high for low, high in pairwise((0.0, *tuning.rungs, 1.0))):
        yield f"tuning.rungs {list(tuning.rungs)} must rise between 0 and 1, without these"
    for arm in plan.tuned_arms:
        if not cells_of_trial(plan, arm, seed=0):
            yield f"arm {arm!r} has nothing to be measured at tuning.datasets and tuning.levels: `left_out` leaves none"


def _anchors(plan: DataPlan, given: Sequence[GivenAnchor]) -> Iterator[str]:
    """What is wrong with the plan's anchors, in themselves and held against those of the idea."""
    for one in plan.anchors:
        for noun, name, known in (
            ("baseline", one.arm, [arm.name for arm in plan.arms if arm.role == "baseline"]),
            ("dataset", one.dataset, [use.name for use in plan.datasets]),
            ("level", one.level, list(plan.level_names)),
            ("metric", one.metric, [m.name for m in plan.metrics]),
        ):
            if name not in known:
                yield f"an anchor names the {noun} {name!r}; the plan has {', '.join(filter(None, known)) or 'none'}"
    asked, taken = (Counter((one.value, one.tolerance, one.source) for one in each) for each in (given, plan.anchors))
    for value, tolerance, source in taken - asked:
        yield (
            f"the idea gives no anchor of {value:g} within {tolerance:g} from {source!r}: anchors are taken over "
            "from it as they are, and none is made up"
        )
    for value, tolerance, source in asked - taken:
        if not any(source in line for line in plan.untested):
            yield (
                f"the idea's anchor of {value:g} within {tolerance:g} from {source!r} is missing: take it over, or "
                "where the plan lacks what it is of, say so in `untested` and quote its source"
            )
