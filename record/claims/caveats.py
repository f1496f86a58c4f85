"""Caveats that qualify a verdict without changing it: incomplete tuning, and baselines that miss a published
value.

Limits: a baseline without an anchor may still be far from its published value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from labwright.record.claims.estimates import Claim
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.tuning import PublishedAnchor
from labwright.record.tuning_results import ChosenSetting, collect_trial_results, find_chosen

Caveat = Literal["tuned with fewer trials", "tuning not converged", "unanchored"]


class AnchorComparison(NamedTuple):
    """A published value and the measured test result; `claim` is None if no test result was measured."""

    anchor: PublishedAnchor
    claim: Claim | None

    @property
    def key(self) -> str:
        """Prefix of the keys that `record.claims.formatting.format_setups` prints for the anchor."""
        return ".".join(("anchor", *map(format_key, (self.anchor.dataset, self.anchor.metric, self.anchor.condition))))

    @property
    def is_missed(self) -> bool:
        """Whether the measured mean differs from the published value by more than the tolerance."""
        return self.claim is not None and abs(self.claim.mean - self.anchor.value) > self.anchor.tolerance


def compare_anchors(plan: DataPlan | None, claims: Iterable[Claim]) -> tuple[AnchorComparison, ...]:
    """Pair every anchor of a plan with the measured test mean."""
    known = {one.key: one for one in claims}
    return tuple(
        AnchorComparison(one, known.get(f"test/{one.dataset}/{one.metric}/{one.condition}"))
        for one in (plan.anchors if plan is not None else ())
    )


class CaveatFinder:
    """Find the caveats of comparisons between these claims."""

    def __init__(self, state: RunState, claims: Sequence[Claim]) -> None:
        plan = state.search.data_plan
        self._state = state
        self._unanchored = {one.anchor.arm for one in compare_anchors(plan, claims) if one.is_missed}
        # settings are only expected to be tuned once the tuning stage is over
        tunes = (
            claims
            and plan is not None
            and plan.tuned_arms
            and state.required_cells
            and state.search.stages["tuning"].is_settled
        )
        self._found = collect_trial_results(state) if tunes else None
        self._chosen: dict[str, dict[str, ChosenSetting]] = {}

    def find_caveats(self, claim: Claim, other: Claim) -> tuple[Caveat, ...]:
        """Return the caveats of comparing two claims."""
        settings = [one for each in (claim, other) if (one := self._find_setting(each)) is not None]
        applies: dict[Caveat, bool] = {
            "tuned with fewer trials": any(one.stale for one in settings),
            "tuning not converged": any(one.gaining for one in settings),
            "unanchored": other.split == "test" and other.arm in self._unanchored,
        }
        return tuple(one for one, holds in applies.items() if holds)

    def _find_setting(self, claim: Claim) -> ChosenSetting | None:
        """Return the setting used by the arm of a claim; None if nothing is tuned."""
        node = _find_claim_node(self._state, claim)
        if self._found is None or node not in self._state.required_cells or node not in self._state.nodes:
            return None
        if node not in self._chosen:
            self._chosen[node] = find_chosen(self._state, node, self._found)
        return self._chosen[node].get(claim.arm)


def _find_claim_node(state: RunState, claim: Claim) -> str:
    """Return the node whose program and settings a claim describes."""
    node = state.nodes.get(claim.nodes[0])
    return "" if node is None else node.parent or "" if node.kind == "replicate" else node.id
