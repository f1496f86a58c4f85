"""What to do next: pure functions of a view and a random source. Nothing here waits, writes or measures.

Source: AI-Scientist-v2, sections 3.2.1 and 3.2.2 (stages, node kinds, debug priority); ceilings and stop rules are the
design's. Best-first order is computed from verdicts and measurements; no model is asked to choose again.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from record.nouns import Action, End, Expand, Node, NodeKind, StageName, Wait
from search.settings import SearchSettings
from search.tree import View

GROWS: dict[StageName, NodeKind] = {"preliminary": "draft", "tuning": "tune", "agenda": "improve", "ablation": "ablate"}
"""The kind of node by which a stage makes progress."""


class Policy(Protocol):
    """Chooses one action from what may be seen."""

    def pick(self, view: View, rng: Random) -> Action: ...


class BestFirst:
    """Debug buggy leaves first, then grow from the best; then replicate what was found, and aggregate it."""

    def __init__(self, settings: SearchSettings) -> None:
        self.settings = settings

    def pick(self, view: View, rng: Random) -> Action:
        over = self.over(view)
        if over is None:
            return self._debug(view, rng) or self._grow(view) or Wait()
        if view.searching:
            return Wait()
        if view.best is None:
            return End(reason=f"{over}; nothing worked", stage=view.stage)
        return self._replicate(view) or (Wait() if view.in_flight else self._aggregate(view)
                                         or End(reason=over, stage=view.stage))

    def over(self, view: View) -> str | None:
        """Why the search of this stage is over, or None while it goes on.

        Depends on search nodes alone: once all of them are finished and this is not None, it stays so while their
        replicates run.
        """
        if view.limited:
            return view.limited
        ceiling = self.settings.limits(view.stage).nodes
        if len(view.searched) >= ceiling:
            return f"ceiling of {ceiling} nodes"
        if view.stage == "preliminary":
            return self._prototype_works(view)
        if view.stage == "tuning":
            return self._tuned(view)
        return None

    def _prototype_works(self, view: View) -> str | None:
        followed_up = len(view.kind("draft")) >= self.settings.num_drafts and not view.searching
        if followed_up and view.good and not view.debuggable(self.settings.max_debug_depth):
            return "a prototype works, and every draft was followed to its end"
        return None

    def _tuned(self, view: View) -> str | None:
        """Source: AI-Scientist-v2, section 3.2.1: converged curves, and two datasets where the plan has two."""
        tried = [node for node in view.kind("tune") if node.finished]
        best = view.best
        if best is None or best.stage != "tuning" or len(tried) < self.settings.min_tuned:
            return None
        datasets = {one.dataset for one in best.measurements}
        if best.attempts[-1].converged and len(datasets) >= min(2, len(view.plan.datasets)):
            return f"curves converged on {len(datasets)} dataset(s)"
        return None

    def _debug(self, view: View, rng: Random) -> Expand | None:
        leaves = view.debuggable(self.settings.max_debug_depth)
        if not leaves or rng.random() >= self.settings.debug_prob:
            return None
        return self._expand(view, "debug", leaves[0])

    def _grow(self, view: View) -> Expand | None:
        kind = GROWS[view.stage]
        if kind == "draft":
            wanted = len(view.kind("draft")) < self.settings.num_drafts or not (view.good or view.searching)
            return self._expand(view, "draft", None) if wanted else None
        return self._expand(view, kind, view.best) if view.best is not None else None

    def _replicate(self, view: View) -> Expand | None:
        for target in view.targets:
            done = view.replicates(target.id)
            if len(done) < self.settings.seeds(view.stage):
                return self._expand(view, "replicate", target, seed=view.seed + 1 + len(done))
        return None

    def _aggregate(self, view: View) -> Expand | None:
        best = view.best
        some = best is not None and any(one.status == "good" for one in view.replicates(best.id))
        return self._expand(view, "aggregate", best) if some and not view.kind("aggregate") else None

    def _expand(self, view: View, kind: NodeKind, parent: Node | None, *, seed: int | None = None) -> Expand:
        ordinal = len(view.kind(kind))
        item = view.items[ordinal % len(view.items)] if view.items and kind in ("improve", "ablate") else ""
        return Expand(stage=view.stage, kind=kind, parent=parent.id if parent else None, ordinal=ordinal, item=item,
                      seed=view.seed if seed is None else seed)
