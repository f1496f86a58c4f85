"""A ledger in which every verdict occurs, for the sentences beside it."""

from __future__ import annotations

from models.roles.writing import Comparison
from record.claims.differences import Called
from review.evidence import Evidence, Value
from tests.paper import synthetic

Means = tuple[float, float, str]
"""Mean of the first arm, mean of the second, and the verdict: `+` or `-` called, for the first or the second arm;
`=` no measurable difference; `?` unknown."""

AGAINST: dict[str, tuple[str, str, tuple[Means, Means, Means]]] = {
    "digits/log_loss": ("method", "baseline", ((.30, .29, "="), (.40, .55, "+"), (.60, .90, "+"))),
    "wine/log_loss": ("method", "baseline", ((.50, .40, "-"), (.45, .47, "?"), (.50, .70, "+"))),
    "digits/accuracy": ("method", "baseline", ((.96, .97, "="), (.94, .93, "="), (.92, .85, "+"))),
    "wine/accuracy": ("method", "baseline", ((.95, .94, "?"), (.93, .94, "?"), (.90, .88, "?"))),
    "digits/ece": ("method", "baseline", ((.05, .02, "-"), (.03, .08, "+"), (.04, .12, "+"))),
    "wine/ece": ("method", "baseline", ((.10, .11, "="), (.12, .11, "="), (.13, .14, "="))),
}
ABLATED: dict[str, tuple[str, str, tuple[Means, Means, Means]]] = {
    "digits/log_loss": ("no-schedule", "method", ((.31, .30, "="), (.46, .40, "-"), (.75, .60, "-"))),
    "wine/log_loss": ("no-schedule", "method", ((.51, .50, "="), (.46, .45, "="), (.52, .50, "="))),
    "digits/accuracy": ("no-schedule", "method", ((.95, .96, "?"), (.94, .94, "?"), (.90, .92, "?"))),
}
CALLED: dict[str, Called] = {"+": "improved", "-": "improved", "=": "no measurable difference", "?": "unknown"}
LEVELS = ("noise00", "noise20", "noise40")


def evidence() -> Evidence:
    """What a draft may lean on in this world; figures and tables as in `synthetic.DRAFT`."""
    values: dict[str, Value] = {}
    comparisons: list[Comparison] = []
    for table in (AGAINST, ABLATED):
        for place, (arm, other, cells) in table.items():
            for level, cell in zip(LEVELS, cells, strict=True):
                comparisons.append(_compared(place, f"{arm}@{level}", f"{other}@{level}", cell))
                values |= _values(place, f"{arm}@{level}", f"{other}@{level}", cell)
    base = synthetic.evidence(synthetic.state())
    forms = ("mean", "sd", "n", "low", "high", "pm", "ci")
    return Evidence(
        results={f"{key}.{form}": "0.123" for key in values for form in forms}, setups=base.setups, cites=base.cites,
        figures=base.figures, tables=base.tables, names=base.names, comparisons=tuple(comparisons), values=values,
        plan=synthetic.PLAN, facts=synthetic.FACTS)


def _compared(place: str, arm: str, other: str, cell: Means) -> Comparison:
    dataset, metric = place.split("/")
    first, second, verdict = cell
    leads = verdict == "+" or (verdict != "-" and (first > second) == (metric == "accuracy"))
    return Comparison(
        key=f"diff/{place}/{arm}~{other}", dataset=dataset, metric=metric, better=arm if leads else other,
        worse=other if leads else arm, n=3 if verdict == "?" else 6,
        verdict=CALLED[verdict])


def _values(place: str, arm: str, other: str, cell: Means) -> dict[str, Value]:
    first, second, verdict = cell
    half = 0.001 if verdict in "+-" else 0.1
    return {
        f"test/{place}/{arm}": Value(mean=first, low=first - 0.005, high=first + 0.005),
        f"test/{place}/{other}": Value(mean=second, low=second - 0.005, high=second + 0.005),
        f"diff/{place}/{arm}~{other}": Value(
            mean=first - second, low=first - second - half, high=first - second + half)}
