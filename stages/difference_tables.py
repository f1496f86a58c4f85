"""Tables computed from a node's values, used for judging, tuning, reports and figures.

They list differences of the primary metric between arms and between levels, so that no model has to subtract, and
values on train and dev reported by the code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from labwright.models.roles.experiment_code import MetricChange, Tables
from labwright.record.claims.estimates import Claim
from labwright.record.float_compare import subtract_rounded
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, Measurement, parse_arm, parse_level
from labwright.record.schema.idea import UserAnchor
from labwright.record.schema.nodes import Node
from labwright.record.tuning_results import list_trial_cells

Quantity = tuple[str, str, str]
"""(dataset, condition, metric)."""


def build_tables(nodes: Iterable[Node], plan: DataPlan, *, parent: Node | None = None) -> Tables:
    """Build tables from the last attempts of these nodes (one seed each). The first value of a condition is used.

    With the parent of an ablation, which measures only the ablated arm, arms are compared with the parent's method.
    """
    last = [node.attempts[-1] for node in nodes if node.attempts]
    values = _collect_values(one for attempt in last for one in attempt.measurements)
    if parent is None:
        arms = _compare_arms(values, plan)
    else:
        method = next((arm.name for arm in plan.arms if arm.role == "method"), "")
        own = {key: value for key, value in _collect_values(parent.measurements).items() if parse_arm(key[1]) == method}
        arms = _compare_across(own | values, plan, n=1, order=[method], name=parse_arm, within=parse_level)
    return Tables(
        arms=arms,
        levels=_compare_levels(values, plan),
        self_reported=tuple(one for attempt in last for one in attempt.self_reported),
    )


def _collect_values(measurements: Iterable[Measurement]) -> dict[Quantity, float]:
    values: dict[Quantity, float] = {}
    for one in measurements:
        values.setdefault((one.dataset, one.condition, one.name), one.value)
    return values


def build_mean_tables(statistics: Sequence[Claim], nodes: Iterable[Node], plan: DataPlan) -> Tables:
    """Build tables from means over equally many replicates; without means, from the nodes' single seed."""
    single = build_tables(nodes, plan)
    if not any(one.name == plan.primary_metric.name for one in statistics):
        return single
    by_n = {one.n: {(s.dataset, s.condition, s.name): s.mean for s in statistics if s.n == one.n} for one in statistics}
    return Tables(
        arms=tuple(line for n, found in by_n.items() for line in _compare_arms(found, plan, n=n)),
        levels=tuple(line for n, found in by_n.items() for line in _compare_levels(found, plan, n=n)),
        self_reported=single.self_reported,
    )


def _compare_arms(values: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[MetricChange, ...]:
    """Compare the first measured arm of the plan, baselines first, with each other arm."""
    order = [arm.name for arm in sorted(plan.arms, key=lambda arm: arm.role != "baseline")]
    return _compare_across(values, plan, n=n, order=order, name=parse_arm, within=parse_level)


def _compare_levels(values: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[MetricChange, ...]:
    """Compare the first level of the plan with the others; empty without levels or if the first was not measured."""
    order = [level.name for level in plan.levels]
    lines = _compare_across(values, plan, n=n, order=order, name=parse_level, within=parse_arm)
    return tuple(line for line in lines if line.first == order[0])


def _compare_across(
    values: Mapping[Quantity, float],
    plan: DataPlan,
    *,
    n: int,
    order: Sequence[str],
    name: Callable[[str], str],
    within: Callable[[str], str],
) -> tuple[MetricChange, ...]:
    """Return one line per dataset and fixed part, in the order of `found`; names that are not in `order` come last."""
    curves: dict[tuple[str, str], dict[str, float]] = {}
    for (dataset, condition, metric), value in values.items():
        if metric == plan.primary_metric.name:
            curves.setdefault((dataset, within(condition)), {})[name(condition)] = value
    lines: list[MetricChange] = []
    for (dataset, same), curve in curves.items():
        names = [one for one in order if one in curve] + [one for one in curve if one not in order]
        if len(names) > 1 and names[0] in order:
            first, *others = names
            lines.append(
                MetricChange(
                    dataset=dataset,
                    same=same,
                    name=plan.primary_metric.name,
                    first=first,
                    value=curve[first],
                    by={other: subtract_rounded(curve[other], curve[first]) for other in others},
                    n=n,
                )
            )
    return tuple(lines)


# Checks of the hyperparameter spaces, tuning budget and anchors of a data plan. Each fault is one sentence.

MAX_TUNING_TRIALS = 200
"""Maximum tuning budget of an arm; a larger one is a mistake of the planner."""


def find_tuning_faults(plan: DataPlan, given_anchors: Sequence[UserAnchor] = ()) -> Iterator[str]:
    """Yield the faults of a plan's spaces, tuning and anchors; `given_anchors` are the anchors of the idea."""
    counts = Counter(one.name for one in plan.space)
    yield from (f"hyperparameter {name!r} is defined twice in `space`" for name in sorted(counts) if counts[name] > 1)
    for n, one in enumerate(plan.space):
        unknown = find_unknown("arm", one.arms, plan.compared_arms)
        faults = (*find_range_faults(one), *unknown, *_find_condition_faults(one, plan, plan.space[:n]))
        yield from (f"hyperparameter {one.name!r}: {fault}" for fault in faults)
    for arm in plan.arms:
        space, is_untuned = plan.find_space(arm.name), bool(arm.untuned.strip())
        if arm.role != "ablation" and not space and not is_untuned:
            yield f"arm {arm.name!r} has neither a hyperparameter in `space` nor a reason in `untuned`"
        elif is_untuned and space:
            yield (
                f"arm {arm.name!r} has both a reason in `untuned` and the hyperparameter {space[0].name!r} in `space`: "
                "restrict the arms of that hyperparameter, or leave `untuned` empty"
            )
    if plan.space:
        yield from _find_budget_faults(plan)
    yield from _find_anchor_faults(plan, given_anchors)


def find_unknown(noun: str, names: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    """Yield a fault for each of these names that is not known."""
    listed = ", ".join(filter(None, known)) or "none"
    yield from (f"there is no {noun} {name!r}; available: {listed}" for name in names if name not in known)


def find_range_faults(one: Hyperparameter) -> Iterator[str]:
    """Yield the faults of a hyperparameter's range or options, and of its default."""
    if one.kind == "choice":
        if one.low is not None or one.high is not None:
            yield "a choice takes `options` and neither low nor high"
        if len(set(one.options)) < max(2, len(one.options)):
            yield f"a choice needs at least two distinct options, not {list(one.options)}"
        elif one.default not in one.options:
            yield f"its default {one.default!r} is not one of its options {list(one.options)}"
        return
    if one.options:
        yield f"`options` are only allowed for a choice; its kind is {one.kind}"
    if one.low is None or one.high is None or one.low >= one.high:
        yield f"low must be below high, not {one.low} and {one.high}"
    elif one.kind == "log" and one.low <= 0:
        yield f"a log-scale range must be positive, but low is {one.low:g}: use linear, or a choice that includes 0"
    elif isinstance(one.default, str | bool) or not one.low <= one.default <= one.high:
        yield f"its default {one.default!r} is not between {one.low:g} and {one.high:g}"
    elif one.kind == "integer" and any(number != int(number) for number in (one.low, one.high, one.default)):
        yield "low, high and default of an integer must be whole numbers"


def _find_condition_faults(one: Hyperparameter, plan: DataPlan, before: Iterable[Hyperparameter]) -> Iterator[str]:
    """Yield the faults of the choice on which a hyperparameter depends."""
    choice = next((other for other in before if other.name == one.given and other.kind == "choice"), None)
    if not one.given:
        if one.among:
            yield "`among` requires `given`, the choice that the hyperparameter depends on"
    elif choice is None:
        yield f"`given` is {one.given!r}, which is not a choice that precedes it in `space`"
    elif not one.among or not set(one.among) <= set(choice.options):
        yield (
            f"`among` {list(one.among)} must be a non-empty subset of the options of {one.given!r}, "
            f"{list(choice.options)}"
        )
    elif lacking := set(one.arms or plan.compared_arms) - set(choice.arms or plan.compared_arms):
        yield f"it depends on {one.given!r}, which the arm {min(lacking)!r} does not have"


def _find_budget_faults(plan: DataPlan) -> Iterator[str]:
    """Yield the faults of the tuning budget, and of the datasets and levels where trials are measured."""
    tuning = plan.tuning
    unknown = [
        *find_unknown("metric", filter(None, [tuning.metric]), [one.name for one in plan.metrics]),
        *find_unknown("dataset", tuning.datasets, [one.name for one in plan.datasets]),
        *find_unknown("level", tuning.levels, plan.level_names),
    ]
    yield from (f"tuning: {fault}" for fault in unknown)
    for noun, names in (("datasets", tuning.datasets), ("levels", tuning.levels)):
        if len(set(names)) < len(names):
            yield f"tuning.{noun} {', '.join(names)} must not repeat a name"
    if not 2 <= tuning.budget <= MAX_TUNING_TRIALS:
        yield f"tuning.budget {tuning.budget:g} must be from 2 to {MAX_TUNING_TRIALS} trials per arm"
    for arm in plan.tuned_arms if not unknown else ():
        if not list_trial_cells(plan, arm, seed=0):
            yield f"`left_out` removes every cell of arm {arm!r} at tuning.datasets and tuning.levels: keep one"


def _find_anchor_faults(plan: DataPlan, given: Sequence[UserAnchor]) -> Iterator[str]:
    """Yield the faults of the plan's anchors, both on their own and compared with those of the idea."""
    for anchor in plan.anchors:
        unknown = (
            *find_unknown("baseline", [anchor.arm], [arm.name for arm in plan.arms if arm.role == "baseline"]),
            *find_unknown("dataset", [anchor.dataset], [use.name for use in plan.datasets]),
            *find_unknown("level", [anchor.level], plan.level_names),
            *find_unknown("metric", [anchor.metric], [metric.name for metric in plan.metrics]),
        )
        yield from (f"anchors: {fault}" for fault in unknown)
    expected, planned = (
        Counter((one.value, one.tolerance, one.source) for one in each) for each in (given, plan.anchors)
    )
    for value, tolerance, source in planned - expected:
        yield (
            f"the idea has no anchor of {value:g} within {tolerance:g} from {source!r}: copy the anchors of the idea "
            "unchanged, and add none"
        )
    for value, tolerance, source in expected - planned:
        if not any(source in line for line in plan.untested):
            yield (
                f"the idea's anchor of {value:g} within {tolerance:g} from {source!r} is missing: copy it, or, if the "
                "plan has nothing that it applies to, say so in `untested` and quote its source"
            )
