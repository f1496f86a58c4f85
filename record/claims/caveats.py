"""What stands beside a verdict without changing it: settings that are stale or that more trials may well better,
baselines that miss a published value.

What it does not guarantee: that a baseline without an anchor is near to what was published of it.
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

Caveat = Literal["stale tuning", "tuning not converged", "unanchored"]


class AnchorComparison(NamedTuple):
    """A published value beside ours on test data; None where there is no claim of it."""

    anchor: PublishedAnchor
    claim: Claim | None

    @property
    def key(self) -> str:
        """What `record.claims.formatting.setups` prints of the anchor begins with this."""
        return ".".join(("anchor", *map(format_key, (self.anchor.dataset, self.anchor.metric, self.anchor.condition))))

    @property
    def is_missed(self) -> bool:
        """Whether ours lies further from it than its tolerance."""
        return self.claim is not None and abs(self.claim.mean - self.anchor.value) > self.anchor.tolerance


def compare_anchors(plan: DataPlan | None, claims: Iterable[Claim]) -> tuple[AnchorComparison, ...]:
    """Every anchor of a plan beside our mean on test data."""
    known = {one.key: one for one in claims}
    return tuple(
        AnchorComparison(one, known.get(f"test/{one.dataset}/{one.metric}/{one.condition}"))
        for one in (plan.anchors if plan is not None else ())
    )


class CaveatFinder:
    """The caveats of comparisons between these claims."""

    def __init__(self, state: RunState, claims: Sequence[Claim]) -> None:
        plan = state.data_plan
        self._state = state
        self._unanchored = {one.anchor.arm for one in compare_anchors(plan, claims) if one.is_missed}
        # before the stage of tuning is over, no setting is expected to be tuned
        tunes = (
            claims
            and plan is not None
            and plan.tuned_arms
            and state.required_cells
            and state.stages["tuning"].is_settled
        )
        self._found = collect_trial_results(state) if tunes else None
        self._chosen: dict[str, dict[str, ChosenSetting]] = {}

    def find_caveats(self, claim: Claim, other: Claim) -> tuple[Caveat, ...]:
        """What has to be said of the comparison of two claims, beside its verdict."""
        settings = [one for each in (claim, other) if (one := self._find_setting(each)) is not None]
        said: dict[Caveat, bool] = {
            "stale tuning": any(one.stale for one in settings),
            "tuning not converged": any(one.gaining for one in settings),
            "unanchored": other.split == "test" and other.arm in self._unanchored,
        }
        return tuple(one for one, holds in said.items() if holds)

    def _find_setting(self, claim: Claim) -> ChosenSetting | None:
        """What the arm of a claim ran with; None where nothing is tuned."""
        node = _find_claim_node(self._state, claim)
        if self._found is None or node not in self._state.required_cells or node not in self._state.nodes:
            return None
        if node not in self._chosen:
            self._chosen[node] = find_chosen(self._state, node, self._found)
        return self._chosen[node].get(claim.arm)


def _find_claim_node(state: RunState, claim: Claim) -> str:
    """The node whose program and settings a claim is of."""
    node = state.nodes.get(claim.nodes[0])
    return "" if node is None else node.parent or "" if node.kind == "replicate" else node.id
