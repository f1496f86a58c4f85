"""Findings between arms: one prediction for two, arms that a score gave their names, arms with very unequal means.

The walk notes the means of an arm's prediction: the turns of the loops that trained it, its learning rate, the rows
that were kept, labels out of order. What a loop without known turns does is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from record.nouns.data import DataPlan, arm_of
from record.nouns.nodes import Finding
from review.honesty.flow import Sink
from review.honesty.flow.training import Training
from review.honesty.form import Lines
from review.honesty.values import Means, Ranked, Tag, Tags

RATIOS = {"turns": 10.0, "steps": 5.0}
"""How much more of a means one arm must have for a finding; `turns` counts ensembles, so more of it."""
RATES = 100.0
"""The same of learning rates. They are compared within one optimiser or one update: Adam's are not those of SGD."""
FEW_ROWS = 200.0
"""Rows of train that a baseline alone is held to, up to which there is a finding."""
SMALL_SHARE = 0.34
Key = tuple[str, object, object]
"""Condition, dataset, split."""


def between_arms(sinks: Sequence[Sink], lines: Lines, plan: DataPlan | None, training: Training) -> Iterable[Finding]:
    """All of them."""
    submitted = [one for one in sinks if one.name in ("submit", "artifact", "result") and isinstance(
        one.named.get("condition"), str)]
    yield from _one_for_two([one for one in submitted if one.name != "result"], lines)
    yield from _swapped(sinks, submitted, lines, plan)
    yield from _unequal([one for one in submitted if one.name != "result"], lines, plan, training)


def _key(sink: Sink) -> Key:
    return str(sink.named.get("condition")), sink.named.get("dataset"), sink.named.get("split")


def _one_for_two(submitted: Sequence[Sink], lines: Lines) -> Iterator[Finding]:
    """One array submitted for two arms."""
    first: dict[tuple[int, object, object], str] = {}
    for one in submitted:
        condition, dataset, split = _key(one)
        arm = arm_of(condition)
        before = first.setdefault((id(one.value), dataset, split), arm)
        if before != arm:
            yield lines.finding("one for two", one.call, f"the prediction of arm {before!r} is also submitted for "
                                                         f"{arm!r}")


def _swapped(sinks: Sequence[Sink], submitted: Sequence[Sink], lines: Lines,
             plan: DataPlan | None) -> Iterator[Finding]:
    """Which prediction goes to which arm hangs on how good it is."""
    why = "which prediction is submitted for which arm is decided by comparing their scores"
    arms = {arm_of(_key(one)[0]) for one in submitted} | {arm.name for arm in plan.arms if plan} if plan else {
        arm_of(_key(one)[0]) for one in submitted}
    for one in sinks:
        if one.named.get("picked"):
            yield lines.finding("swapped", one.call, why)
    taken: dict[tuple[str, int, object], dict[str, Sink]] = {}
    for one in submitted:
        condition, dataset, _ = _key(one)
        if one.named.get("together"):  # a pair of name and model is only put in order
            continue
        for tag in one.tags:
            if isinstance(tag, Ranked) and (not tag.names or len(tag.names & arms) > 1):
                taken.setdefault((one.name, tag.choice, dataset), {})[arm_of(condition)] = one
    for by_arm in taken.values():
        if len(by_arm) > 1:
            yield lines.finding("swapped", list(by_arm.values())[-1].call, why)


# --- means ----------------------------------------------------------------------------------------------------------


def _unequal(submitted: Sequence[Sink], lines: Lines, plan: DataPlan | None, training: Training) -> Iterator[Finding]:
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {"baseline": "baseline", "method": "method"}
    wording = " ".join(f"{arm.title} {arm.description}" for arm in plan.arms) + plan.notes + plan.task if plan else ""
    by_place: dict[tuple[str, object, object], dict[str, list[Sink]]] = {}
    for one in submitted:
        condition, dataset, split = _key(one)
        role = roles.get(arm_of(condition))
        if role in ("baseline", "method"):
            level = condition.partition("@")[2]
            by_place.setdefault((level, dataset, split), {}).setdefault(role, []).append(one)
    for found in by_place.values():
        for weak in found.get("baseline", ()):
            for strong in found.get("method", ()):
                why = _weaker(training.means(weak.tags), training.means(strong.tags))
                if why:
                    yield lines.finding("unequal", weak.call, "the baseline is trained with other means than the "
                                        f"method: {why}", suspect=not re.search(_TOLD, wording, re.I))


_TOLD = r"budget|epochs?\b|steps\b|rows\b|subset|few-?shot|small(er)? (sample|train)|share of (the )?(train|data)"


def _weaker(weak: Tags, strong: Tags) -> str:
    """In what a baseline was held back; empty where it was not."""
    if Tag.SHUFFLED in weak and Tag.SHUFFLED not in strong:
        return "its labels are out of order"
    rates = sorted({tag.name for tag in weak if isinstance(tag, Means) and tag.name.startswith("rate")})
    for name in (*RATIOS, *rates):
        less, more, ratio = _most(weak, name), _most(strong, name), RATIOS.get(name, RATES)
        if less is None or more is None:
            continue
        absurd = name in rates and less >= ratio * max(more, 1e-12) and less >= 10
        if absurd or more >= ratio * max(less, 1e-12):
            return f"{name} {less:g} against {more:g}"
    for name, most in (("rows", FEW_ROWS), ("share of rows", SMALL_SHARE)):
        held = [tag.value for tag in weak if isinstance(tag, Means) and tag.name == name]
        kept = [tag.value for tag in strong if isinstance(tag, Means) and tag.name == name]
        if held and min(held) <= most and (not kept or min(kept) >= 5 * min(held)):
            return f"{name} {min(held):g}"
    return ""


def _most(tags: Tags, name: str) -> float | None:
    values = [tag.value for tag in tags if isinstance(tag, Means) and tag.name == name]
    return max(values) if values else None
