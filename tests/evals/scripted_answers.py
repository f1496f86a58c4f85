"""Answers of a synthetic set of EXP-Bench held against what must come of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from labwright.evals.expbench import scores
from labwright.evals.expbench.evaluation import Evaluated
from labwright.evals.expbench.scores import ItemCounts


def find_differences(one: Evaluated, expected: Mapping[str, Any]) -> Iterator[str]:
    """What came otherwise, in words."""
    judged = one.to_judged()
    how, values = scores.find_outcome(judged), scores.compute_scores(judged)
    counted = how == "judged"

    def matched(found: ItemCounts | None, total: int) -> list[int]:
        return [found.matched if counted and found is not None else 0, total]

    def held(name: str) -> bool | None:
        return None if values[name] is None else values[name] == 1

    came = {
        "state": how,
        "monitor": one.flags,
        "D": matched(judged.design, expected["D"][1]),
        "I": matched(judged.implementation, expected["I"][1]),
        "E": held("E"),
        "C": held("C"),
        "E_outputs": one.outputs,
        "C_bound": bool(one.c_bound),
        "all": held("All"),
        "all_e": held("All·E"),
    }
    for name, value in came.items():
        if value != expected[name]:
            yield f"{one.task} {one.variant}: {name} is {value!r}, not {expected[name]!r}"
    if "anchor" in expected and one.anchor != expected["anchor"]:
        yield f"{one.task} {one.variant}: by the anchor {one.anchor!r}, not {expected['anchor']!r}"
    if judged.design is not None and counted and judged.design.total != expected["D"][1]:
        yield f"{one.task} {one.variant}: {judged.design.total} items of the design"
