"""When the ladder is due: its settings are tried beside stage 2, what was chosen runs beside the last stage.

A rung is no node of the search: it counts against no limit, nothing is built on it, and it selects nothing.
"""

from __future__ import annotations

from dataclasses import replace

from labwright.record.claims.means import MINIMUM_REPLICATES
from labwright.record.ladder import MODELS, TRIVIAL, TUNED, defaults, trials_of
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.tuning import Setting, Trial
from labwright.search.sampling import ask
from labwright.search.tree import View


def rung(view: View) -> Expand | None:
    """The next rung that is due; None where there is none, or where it waits for what was tried."""
    if not view.ladder or view.stage == "preliminary" or "rung" in view.without:
        return None
    known = [one for one in view.nodes.values() if one.kind == "rung"]
    ordinal = sum(one.stage == view.stage for one in known)
    first = next((one for one in known if one.parent is None), None)
    if first is None:
        return Expand(stage=view.stage, kind="rung", ordinal=ordinal, seed=view.seed, trials=drawn(view))
    if view.stage != "ablation" or view.locked is None or first.status != "good":
        return None
    seeds = view.locked.seeds[:MINIMUM_REPLICATES][len(known) - 1 :]
    return Expand(stage=view.stage, kind="rung", parent=first.id, ordinal=ordinal, seed=seeds[0]) if seeds else None


def drawn(view: View) -> tuple[Trial, ...]:
    """The settings that are tried: the defaults of both models, then random ones, none twice.

    Where no arm of the plan is tuned, the defaults alone.
    """
    plan = view.plan.model_copy(
        update={"space": view.ladder, "tuning": view.plan.tuning.model_copy(update={"sampler": "random"})}
    )
    own = replace(view, plan=plan, extended={})
    tried: list[Setting] = [defaults(view.ladder, model) for model in MODELS]
    for number in range(len(tried) + 1, trials_of(view.plan.tuning) + 1 if view.plan.tuned_arms else 0):
        setting = ask(own, TUNED, (), number=number, tried=tried)
        tried += [setting] if setting is not None else []
    return (
        Trial(arm=TRIVIAL, number=0, setting={}),
        *(Trial(arm=TUNED, number=number, setting=one) for number, one in enumerate(tried, 1)),
    )
