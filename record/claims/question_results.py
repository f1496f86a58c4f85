"""What the experiment of a question measured: means of its arms, their paired differences, and how these are printed.

The keys are those of every claim of the record: `validation/DATA/METRIC/ARM.FORM` for a mean over seeds,
`diff/DATA/METRIC/ARM~OTHER.FORM` for a paired difference with its interval, and `setting/NAME` for a setting of the
design.
"""

from __future__ import annotations

import re
from itertools import permutations
from typing import NamedTuple

from labwright.record.claims.differences import ClaimDifference, build_difference
from labwright.record.claims.estimates import Claim, compute_claims
from labwright.record.claims.formatting import format_claims
from labwright.record.printed_value import PrintedValue, print_name, print_significant
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key, to_plain_text
from labwright.record.schema.nodes import Node
from labwright.record.schema.research_question import ExperimentDesign

UNMODIFIED_ARM, EXPERIMENT_ARM = "unmodified", "experiment"
"""Names of the repository as it is, and of the script that measures every arm of the design."""
FORMS = {
    "mean": "mean",
    "sd": "standard deviation over seeds",
    "ci": "95 % interval",
    "n": "number of seeds",
    "percent": "in per cent of the other arm's mean",
}
KEY_PATTERN = re.compile(r"(?:\\result)?\{([^{}]+)\}")


class ComparedArms(NamedTuple):
    """The difference of an arm to another on a metric, and the direction that it shows."""

    difference: ClaimDifference
    shows: str

    def __str__(self) -> str:
        found, one_run = self.difference, " (one run each)" * (self.difference.n == 1)
        return f"{found.name}: {found.condition} against {found.other}: {self.shows}{one_run}"


class QuestionResults:
    """The results of the experiment, in one state of the record."""

    def __init__(self, state: RunState, node: Node, design: ExperimentDesign) -> None:
        self.design = design
        self.claims: list[Claim] = compute_claims("validation", [(node, node.measurements)])
        """The mean of every arm on every metric."""
        higher = {one.name: one.higher_is_better for one in design.metrics}
        differences = [
            build_difference(state, a, b, higher=higher[a.name])
            for a, b in permutations(self.claims, 2)
            if a.name == b.name and set(a.seeds) & set(b.seeds)
        ]
        self.comparisons = [ComparedArms(one, _describe_direction(one)) for one in differences]
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


def find_question_results(state: RunState) -> QuestionResults | None:
    """Return the results of the experiment; None if no attempt measured everything."""
    designed = state.question.design
    node = next((one for one in list_experiment_nodes(state) if one.status == "good"), None)
    return QuestionResults(state, node, designed.design) if designed is not None and node is not None else None


def _describe_direction(one: ClaimDifference) -> str:
    if not any(one.values):
        return "the same"
    if one.sd is not None and not one.excludes_zero:
        return "open"
    return "higher" if one.mean > 0 else "lower"
