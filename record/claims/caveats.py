"""What stands beside a verdict without changing it: settings that are stale or that more trials may well better,
baselines that miss a published value.

What it does not guarantee: that a baseline without an anchor is near to what was published of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from labwright.record.claims.means import Claim
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.tuning import Anchor
from labwright.record.tuning import Chosen, chosen, results
from labwright.record.typeset import key_of

Caveat = Literal["stale tuning", "tuning not converged", "unanchored"]


class Anchored(NamedTuple):
    """A published value beside ours on test data; None where there is no claim of it."""

    anchor: Anchor
    ours: Claim | None

    @property
    def key(self) -> str:
        """What `record.claims.printing.setups` prints of the anchor begins with this."""
        return ".".join(("anchor", *map(key_of, (self.anchor.dataset, self.anchor.metric, self.anchor.condition))))

    @property
    def missed(self) -> bool:
        """Whether ours lies further from it than its tolerance."""
        return self.ours is not None and abs(self.ours.mean - self.anchor.value) > self.anchor.tolerance


def anchored(plan: DataPlan | None, claims: Iterable[Claim]) -> tuple[Anchored, ...]:
    """Every anchor of a plan beside our mean on test data."""
    known = {one.key: one for one in claims}
    return tuple(
        Anchored(one, known.get(f"test/{one.dataset}/{one.metric}/{one.condition}"))
        for one in (plan.anchors if plan is not None else ())
    )


class Caveats:
    """The caveats of comparisons between these claims."""

    def __init__(self, state: RunState, claims: Sequence[Claim]) -> None:
        plan = state.data_plan
        self._state = state
        self._unanchored = {one.anchor.arm for one in anchored(plan, claims) if one.missed}
        # before the stage of tuning is over, no setting is expected to be tuned
        tunes = claims and plan is not None and plan.tuned_arms and state.owed and state.stages["tuning"].settled
        self._found = results(state) if tunes else None
        self._chosen: dict[str, dict[str, Chosen]] = {}

    def of(self, claim: Claim, other: Claim) -> tuple[Caveat, ...]:
        """What has to be said of the comparison of two claims, beside its verdict."""
        settings = [one for each in (claim, other) if (one := self._setting(each)) is not None]
        said: dict[Caveat, bool] = {
            "stale tuning": any(one.stale for one in settings),
            "tuning not converged": any(one.gaining for one in settings),
            "unanchored": other.split == "test" and other.arm in self._unanchored,
        }
        return tuple(one for one, holds in said.items() if holds)

    def _setting(self, claim: Claim) -> Chosen | None:
        """What the arm of a claim ran with; None where nothing is tuned."""
        node = _node_of(self._state, claim)
        if self._found is None or node not in self._state.owed or node not in self._state.nodes:
            return None
        if node not in self._chosen:
            self._chosen[node] = chosen(self._state, node, self._found)
        return self._chosen[node].get(claim.arm)


def _node_of(state: RunState, claim: Claim) -> str:
    """The node whose program and settings a claim is of."""
    node = state.nodes.get(claim.nodes[0])
    return "" if node is None else node.parent or "" if node.kind == "replicate" else node.id
