"""What the experiment of a question measured: means of its arms, their paired differences, and how these are printed.

The keys are those of every claim of the record: `validation/DATA/METRIC/ARM.FORM` for a mean over seeds,
`diff/DATA/METRIC/ARM~OTHER.FORM` for a paired difference with its interval, and `setting/NAME` for a setting of the
design.

The experiment is run twice if time allows. Its first run shows the spread, from which `plan_fresh_seeds` takes the
number of fresh seeds; the second run, on these seeds alone, is the one that counts, so that its intervals have their
level whatever the first run showed.
"""

from __future__ import annotations

import re
from itertools import permutations
from math import floor
from typing import NamedTuple

from labwright.record.claims.differences import ClaimDifference, Spread, build_difference, estimate_mean
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, Claim, compute_claims
from labwright.record.claims.formatting import format_claims
from labwright.record.claims.planned_seeds import compute_upper_deviation, count_precise_units
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import PrintedValue, format_key, print_name, print_significant, to_plain_text
from labwright.record.schema.idea import ExperimentDesign
from labwright.record.schema.nodes import Node

UNMODIFIED_ARM, EXPERIMENT_ARM = "unmodified", "experiment"
"""Names of the repository as it is, and of the script that measures every arm of the design."""
FORMS = {
    "mean": "mean",
    "sd": "standard deviation over seeds",
    "ci": "95 % interval",
    "n": "number of seeds",
    "percent": "in per cent of the other arm's mean",
}
MAX_FRESH_SEEDS = 200
"""Maximum number of fresh seeds."""
MIN_FRESH_SEEDS = 30
"""Number of fresh seeds even if the first run shows a smaller spread: two seeds may give equal values by chance."""
MIN_FRESH_SHARE = 0.25
"""Share of the time left that these may take, unless the first run had one seed and shows no spread."""
KEY_PATTERN = re.compile(r"(?:\\result)?\{([^{}]+)\}")


class ComparedArms(NamedTuple):
    """The difference of an arm to another on a metric, and the direction that it shows."""

    difference: ClaimDifference
    margin: float | None
    """The smallest difference that matters, if the design has one."""

    @property
    def shows(self) -> str:
        """`the same` if the interval lies within the margin, otherwise its direction, or `open` if it has none."""
        found, limit = self.difference, self.margin or 0.0
        low, high = (found.mean if bound is None else bound for bound in (found.low, found.high))
        within = found.n > 1 and -limit < low <= high < limit
        if within or not any(found.values):
            return "the same"
        if found.sd is not None and not found.excludes_zero:
            return "open"
        return "higher" if found.mean > 0 else "lower"

    def __str__(self) -> str:
        found = self.difference
        one_run = "one run each" if found.n == 1 else ""
        margin = f"differences below {self.margin:g} do not matter" if self.margin is not None else ""
        notes = "; ".join(filter(None, (one_run, margin)))
        shown = f" ({notes})" if notes else ""
        return f"{found.name}: {found.condition} against {found.other}: {self.shows}{shown}"


class QuestionResults:
    """The results of the experiment, in one state of the record."""

    def __init__(self, state: RunState, node: Node, design: ExperimentDesign) -> None:
        self.design, self.is_fresh = design, node.kind == "replicate"
        self.claims: list[Claim] = compute_claims("validation", [(node, node.measurements)])
        """The mean of every arm on every metric."""
        higher = {one.name: one.higher_is_better for one in design.metrics}
        differences = [
            build_difference(state, a, b, higher=higher[a.name])
            for a, b in permutations(self.claims, 2)
            if a.name == b.name and set(a.seeds) & set(b.seeds)
        ]
        margins = {one.name: one.margin for one in design.metrics}
        self.comparisons = [ComparedArms(one, margins[one.name]) for one in differences]
        """Every two arms on every metric, in both orders."""
        self.printed = self._print_values()
        """Key -> what is printed, and a description of it."""

    @property
    def pairs(self) -> list[ComparedArms]:
        """Every two arms on every metric, in one order: the later arm of the design against the earlier one."""
        order = [one.name for one in self.design.arms]
        return [
            one for one in self.comparisons if order.index(one.difference.condition) > order.index(one.difference.other)
        ]

    @property
    def seeds(self) -> int:
        """Number of seeds of each arm."""
        return max(one.n for one in self.claims)

    @property
    def settings(self) -> dict[str, PrintedValue]:
        """Key -> value of each setting of the design."""
        settings = (*self.design.constants, *self.design.varied)
        return {format_key("setting", one.name): print_name(one.value) for one in settings}

    def _print_values(self) -> dict[str, tuple[PrintedValue, str]]:
        found: dict[str, tuple[PrintedValue, str]] = {}
        means = {(one.name, one.condition): one.mean for one in self.claims}
        for claim in (*self.claims, *(one.difference for one in self.pairs)):
            values, what = format_claims([claim]), f"{claim.name} of {claim.condition}"
            forms = {form: text for form, text in FORMS.items() if claim.sd is not None or form not in ("sd", "ci")}
            if isinstance(claim, ClaimDifference):
                what += f" minus {claim.other}"
                if base := abs(means[claim.name, claim.other]):
                    values[f"{claim.key}.percent"] = print_significant(100 * claim.mean / base, 3)
            found |= {
                f"{claim.key}.{form}": (values[f"{claim.key}.{form}"], f"{text}: {what}")
                for form, text in forms.items()
                if f"{claim.key}.{form}" in values
            }
        return found | {key: (value, f"setting {key[8:]}") for key, value in self.settings.items()}

    def print_text(self, text: str) -> str:
        """Return a text with its keys replaced by the values that they print."""
        return KEY_PATTERN.sub(lambda one: to_plain_text(self.printed[one[1].strip()][0]), text)


def list_experiment_nodes(state: RunState) -> list[Node]:
    """Return the attempts at the experiment of a question, in order."""
    return [one for one in state.nodes.values() if EXPERIMENT_ARM in one.arms] if state.kind == "question" else []


def find_deciding_node(state: RunState) -> Node | None:
    """Return the last run of the experiment that measured everything, without one on fresh seeds that gives the values
    of the first run again."""
    good = [one for one in list_experiment_nodes(state) if one.status == "good"]
    fresh = [one for one in good if one.kind == "replicate" and repeats_values(state.nodes[one.parent or ""], one)]
    return next((one for one in reversed(good) if one not in fresh), None)


def find_question_results(state: RunState) -> QuestionResults | None:
    """Return the results of the experiment, those on fresh seeds if there are some; None if no run measured
    everything."""
    designed, node = state.question.design, find_deciding_node(state)
    return QuestionResults(state, node, designed.design) if designed is not None and node is not None else None


def plan_fresh_seeds(first: QuestionResults, seconds_a_seed: float, seconds_left: float) -> int:
    """Return how many fresh seeds to run after a first run; 0: the time does not suffice.

    They are as many as make the half-width of every difference a third of the margin or, where no metric has one, of
    the difference that the first run shows; at least as many as in the first run and `MIN_FRESH_SEEDS`, and at most
    those that fit. The spread of a first run of few seeds is uncertain: its upper bound is used, which holds in four of
    five such runs.
    """
    tried = first.design.seeds
    affordable = floor(seconds_left / seconds_a_seed) if seconds_a_seed > 0 else MAX_FRESH_SEEDS
    wanted = max(tried, min(MIN_FRESH_SEEDS, floor(affordable * (MIN_FRESH_SHARE if tried > 1 else 1))))
    deciding = [one for one in first.pairs if one.margin is not None] or first.pairs
    for one in deciding:
        smallest = one.margin if one.margin is not None else abs(one.difference.mean)
        spread = estimate_mean(one.difference.values).spread if tried > 1 else Spread()
        if smallest and spread.is_known:
            bound = spread._replace(units=compute_upper_deviation(one.difference.values) ** 2 / tried)
            needed = count_precise_units(bound, tried, smallest, SIGNIFICANCE_LEVEL)
            wanted = max(wanted, needed or MAX_FRESH_SEEDS)
    planned = min(wanted, affordable, MAX_FRESH_SEEDS)
    return planned if planned >= min(tried, 3) else 0


def repeats_values(first: Node, fresh: Node) -> bool:
    """Return whether a run on fresh seeds gives the values of the first run again, though these differ by seed."""
    values = [_list_values(one) for one in (first, fresh)]
    varied = [key for key, found in values[0].items() if len({*found}) > 1]
    return bool(varied) and all(
        all(a == b for a, b in zip(values[0][key], values[1].get(key, []), strict=False)) for key in varied
    )


def _list_values(node: Node) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for one in sorted(node.measurements, key=lambda each: each.seed):
        found.setdefault((one.name, one.condition), []).append(one.value)
    return found
