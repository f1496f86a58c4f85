"""The appendix of a paper, generated from the record: everything that ran, whether or not it helped.

All text of the record is escaped, all its numbers stand in `\\rec{}`; no model writes any of it. The text itself is in
`appendix.tex.jinja`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import cast

from record.claims.differences import Difference, Family
from record.claims.means import LEVEL, MINIMUM_REPLICATES, POWER, Claim
from record.fold.state import RunState
from record.nouns.data import Grade
from record.nouns.nodes import Node
from stages.paper.incidents import context, paid
from stages.paper.latex import longtable, recorded_row, rendered, short, words
from stages.paper.tables import CONSTANT

GRADES: dict[Grade, str] = {
    "scored": "computed by the program from submitted predictions, on labels that the code could not see",
    "evaluated": "computed in a second kernel by a scorer that was frozen before the search",
    "computed": "computed by the program from submitted predictions, but isolation was off: the labels were within the "
                "reach of the experiment's code",
    "logged": "said by the experiment's code, not recomputed",
}
FAMILIES: dict[Family, str] = {
    "confirmatory": "Confirmatory: the primary metric, method against baseline",
    "exploratory": "Exploratory: other metrics, and ablations",
}


def appendix(state: RunState, claims: Sequence[Claim], *, isolation: str = "", figures: Sequence[str] = ()) -> str:
    """The appendix as TeX. `isolation` says what kept the code from the labels.

    `figures` are the names of those that do not stand in the main text.
    """
    differences = [one for one in claims if isinstance(one, Difference)]
    over_examples = any(one.over_examples is not None for one in differences)
    groups = dict.fromkeys((one.family, one.dataset) for one in differences)
    places = {group: (group[0] != "confirmatory", place) for place, group in enumerate(groups)}
    without_interval: dict[str, dict[str, None]] = {}
    for one in differences:
        if one.over_examples is not None and one.over_examples.reason:
            without_interval.setdefault(one.over_examples.reason, {})[f"{words(one.name)} on {one.dataset}"] = None
    usage = sorted((role, one) for role, one in state.usage.items() if role != "judge")  # it comes after the paper
    total = state.usage_without("judge")
    settings, unset = _settings(state)
    metric = state.data_plan.primary if state.data_plan is not None else None

    def score(node: Node) -> str:
        """The mean of the primary metric over the method's conditions on validation data, else over all."""
        assert state.data_plan is not None
        methods = {arm.name for arm in state.data_plan.arms if arm.role == "method"}
        values = [one for one in node.measurements if metric and one.name == metric.name and one.split == "validation"]
        chosen = [one.value for one in values if one.arm in methods] or [one.value for one in values]
        return f"{fmean(chosen):#.4g}".rstrip(".") if chosen else "--"

    return rendered("appendix.tex.jinja", context(state) | {
        "figures": figures, "isolation": isolation,
        "grades": {grade: meaning for grade, meaning in GRADES.items() if grade in {one.grade for one in claims}},
        "metric": metric, "score": score, "means": [one for one in claims if not isinstance(one, Difference)],
        "by_seed": by_seed, "constant": CONSTANT, "families": FAMILIES,
        "differences": sorted(differences, key=lambda one: places[one.family, one.dataset]),
        "forms": ["mean", "ci", *["ci_examples"] * over_examples, "p_adjusted", "mde", "n"],
        "over_examples": over_examples,
        "without_interval": without_interval, "power": f"{POWER:.0%}", "level": f"{LEVEL:.0%}",
        "minimum_replicates": MINIMUM_REPLICATES, "settings": settings, "unset": unset,
        "usage": [*usage, ("total", total)] if usage else [], "total": total, "paid": paid,
        "table": longtable, "row": recorded_row}) + "\n"


def by_seed(claim: Claim) -> str:
    """The replicates behind a mean."""
    return ", ".join(f"{seed}: {value:.4g}" for seed, value in zip(claim.seeds, claim.values, strict=True))


def _settings(state: RunState) -> tuple[list[tuple[tuple[str, str], tuple[str, str]]], list[str]]:
    """Settings with their values, two a row, and the names of those without one."""
    def flat(value: object, prefix: str) -> Iterable[tuple[str, str]]:
        if not isinstance(value, dict):
            return [(prefix, "" if value is None else str(value))]
        return [pair for name, inner in cast(dict[str, object], value).items()
                for pair in flat(inner, f"{prefix}.{name}" if prefix else name)]

    settings = state.started.settings if state.started is not None else {}
    shown = sorted((name, short(value, 160)) for name, value in flat(settings, "")
                   if name != "sandbox.scorers" and name.split(".")[0] != "data")  # these stand above
    given = [(name, value) for name, value in shown if value]
    half = (len(given) + 1) // 2
    return [*zip_longest(given[:half], given[half:], fillvalue=("", ""))], [name for name, value in shown if not value]
