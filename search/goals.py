"""When the search of a stage is over: its goal is reached, or a ceiling.

Source: AI-Scientist-v2, section 3.2.1 (goals of the stages); what can be computed is computed: datasets from
measurements, convergence from logged curves, ablations from their plan. Ceilings on calls and time are in
`search.ceilings`.
"""

from __future__ import annotations

from search.settings import SearchSettings
from search.tree import View

NOTHING = "nothing left"
"""The failure of a node whose author was free to say that nothing is worth trying, and said so."""


def over(view: View, settings: SearchSettings) -> str | None:
    """Why the search of this stage is over, or None while it goes on.

    Depends on search nodes alone: once all of them are finished and this is not None, it stays so.
    """
    if view.limited:
        return view.limited
    ceiling = settings.limits(view.stage).nodes
    if len(view.searched) >= ceiling:
        return f"ceiling of {ceiling} nodes"
    declined = next((node.failure for node in view.searched if node.failure and node.failure.kind == NOTHING), None)
    if view.stage == "tuning" and declined is not None:
        return f"nothing is left to tune: {declined.message}"
    if view.stage == "preliminary":
        return _prototype_works(view, settings)
    if view.best is None:
        return "nothing is left to build on: what was carried forward is suspect"
    if view.stage == "tuning":
        return _tuned(view, settings)
    return _all_ablated(view, settings) if view.stage == "ablation" else None


def _all_ablated(view: View, settings: SearchSettings) -> str | None:
    """Every planned ablation was taken up, and none failed that could still be mended."""
    if view.taken_up and not view.searching and not view.debuggable(settings.max_debug_depth):
        return "every planned ablation was tried"
    return None


def _prototype_works(view: View, settings: SearchSettings) -> str | None:
    """A working prototype, and no draft dropped for a bug that was not followed up."""
    followed_up = len(view.kind("draft")) >= settings.num_drafts and not view.searching
    if followed_up and view.open and not view.debuggable(settings.max_debug_depth):
        return "a prototype works, and every draft was followed to its end"
    return None


def _tuned(view: View, settings: SearchSettings) -> str | None:
    """Settings enough that ran, converged curves, and two datasets where the plan has two."""
    best = view.best
    if best is None or best.stage != "tuning" or len(view.good) < settings.min_tuned:
        return None
    datasets = {one.dataset for one in best.measurements}
    if best.attempts[-1].converged and len(datasets) >= min(2, len(view.plan.datasets)):
        return f"curves converged on {len(datasets)} dataset(s)"
    return None
