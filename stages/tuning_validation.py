"""What is wrong with what a data plan says of tuning: spaces, what is spent on them, anchors. One sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.idea import UserAnchor
from labwright.record.schema.tuning import Hyperparameter
from labwright.record.tuning_results import list_trial_cells

MAX_TUNING_BUDGETS = {"trials": 200, "seconds": 30 * 24 * 3600}
"""Of the currency, what an arm may get at most: more is a slip of the planner's."""


def find_tuning_faults(plan: DataPlan, given_anchors: Sequence[UserAnchor] = ()) -> Iterator[str]:
    """What is wrong with a plan's spaces, tuning and anchors; `given` are the anchors of the idea."""
    counts = Counter(one.name for one in plan.space)
    yield from (f"hyperparameter {name!r} is named twice in `space`" for name in sorted(counts) if counts[name] > 1)
    for n, one in enumerate(plan.space):
        yield from (
            f"hyperparameter {one.name!r}: {fault}"
            for fault in (
                *find_range_faults(one),
                *_find_arm_faults(one, plan),
                *_find_condition_faults(one, plan, plan.space[:n]),
            )
        )
    for arm in plan.arms:
        if arm.role != "ablation" and not plan.find_space(arm.name) and not arm.untuned.strip():
            yield f"arm {arm.name!r} has neither a hyperparameter in `space` nor a reason in `untuned`"
        elif arm.untuned.strip() and plan.find_space(arm.name):
            yield (
                f"arm {arm.name!r} says why it is untuned, and `space` has {plan.find_space(arm.name)[0].name!r} "
                "for it: name the arms of that hyperparameter, or leave `untuned` empty"
            )
    if plan.space:
        yield from _find_budget_faults(plan)
    yield from _find_anchor_faults(plan, given_anchors)


def find_range_faults(hyperparameter: Hyperparameter) -> Iterator[str]:
    """What is wrong with a dimension's range or options, and with its default."""
    if hyperparameter.kind == "choice":
        if hyperparameter.low is not None or hyperparameter.high is not None:
            yield "a choice has `options`, and neither low nor high"
        if len(set(hyperparameter.options)) < max(2, len(hyperparameter.options)):
            yield f"a choice has two options or more, each once, and not {list(hyperparameter.options)}"
        elif hyperparameter.default not in hyperparameter.options:
            yield f"its default {hyperparameter.default!r} is not one of its options {list(hyperparameter.options)}"
        return
    if hyperparameter.options:
        yield f"`options` are of a choice alone, and it is {hyperparameter.kind}"
    if hyperparameter.low is None or hyperparameter.high is None or hyperparameter.low >= hyperparameter.high:
        yield f"its range needs a low below its high, and not {hyperparameter.low} and {hyperparameter.high}"
    elif hyperparameter.kind == "log" and hyperparameter.low <= 0:
        yield (
            f"a range on a log scale is positive, and begins at {hyperparameter.low:g}: use linear, or a "
            "choice that has 0"
        )
    elif (
        isinstance(hyperparameter.default, str | bool)
        or not hyperparameter.low <= hyperparameter.default <= hyperparameter.high
    ):
        yield (
            f"its default {hyperparameter.default!r} is not between {hyperparameter.low:g} and {hyperparameter.high:g}"
        )
    elif hyperparameter.kind == "integer" and any(
        number != int(number) for number in (hyperparameter.low, hyperparameter.high, hyperparameter.default)
    ):
        yield "low, high and default of an integer are whole numbers"


def _find_arm_faults(one: Hyperparameter, plan: DataPlan) -> Iterator[str]:
    """Which of its arms are none that is compared."""
    yield from (
        f"its arm {arm!r} is no baseline or method of the plan; there are {', '.join(plan.compared_arms)}"
        for arm in one.arms
        if arm not in plan.compared_arms
    )


def _find_condition_faults(one: Hyperparameter, plan: DataPlan, before: Iterable[Hyperparameter]) -> Iterator[str]:
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
    elif lacking := set(one.arms or plan.compared_arms) - set(choice.arms or plan.compared_arms):
        yield f"it hangs on {one.given!r}, which the arm {min(lacking)!r} does not have"


def _find_budget_faults(plan: DataPlan) -> Iterator[str]:
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
    if not 2 <= tuning.budget <= MAX_TUNING_BUDGETS[tuning.currency]:
        yield (
            f"tuning.budget {tuning.budget:g} must be from 2 to {MAX_TUNING_BUDGETS[tuning.currency]} "
            f"{tuning.currency} an arm"
        )
    if not all(low < high for low, high in pairwise((0.0, *tuning.rungs, 1.0))):
        yield f"tuning.rungs {list(tuning.rungs)} must rise between 0 and 1, without these"
    for arm in plan.tuned_arms:
        if not list_trial_cells(plan, arm, seed=0):
            yield f"arm {arm!r} has nothing to be measured at tuning.datasets and tuning.levels: `left_out` leaves none"


def _find_anchor_faults(plan: DataPlan, given: Sequence[UserAnchor]) -> Iterator[str]:
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
