"""Schedule the reference models: their settings are tried during tuning, the selected ones run during ablation.

A reference node is not a search node: it counts towards no limit, nothing builds on it, and it influences no selection.
"""

from __future__ import annotations

from dataclasses import replace

from labwright.record.claims.estimates import MIN_REPLICATES
from labwright.record.reference_baselines import (
    OFF_THE_SHELF_ARM,
    OFF_THE_SHELF_MODELS,
    TRIVIAL_ARM,
    build_default_setting,
    count_reference_trials,
)
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.tuning import HyperparameterSetting, Trial
from labwright.search.sampling import sample_setting
from labwright.search.stage_snapshot import StageSnapshot


def next_reference_run(view: StageSnapshot) -> ExpandTree | None:
    """Return the next reference node to run; None if there is none, or if it waits for results."""
    if not view.reference_space or view.stage == "preliminary" or "rung" in view.skipped_kinds:
        return None
    known = [one for one in view.nodes.values() if one.kind == "rung"]
    ordinal = sum(one.stage == view.stage for one in known)
    first = next((one for one in known if one.parent is None), None)
    if first is None:
        return ExpandTree(stage=view.stage, kind="rung", ordinal=ordinal, seed=view.seed, trials=sample_settings(view))
    if view.stage != "ablation" or view.lock is None or first.status != "good":
        return None
    seeds = view.lock.seeds[:MIN_REPLICATES][len(known) - 1 :]
    return ExpandTree(stage=view.stage, kind="rung", parent=first.id, ordinal=ordinal, seed=seeds[0]) if seeds else None


def sample_settings(view: StageSnapshot) -> tuple[Trial, ...]:
    """Return the settings to try: the defaults of both models, then random ones without repetition.

    If no arm of the plan is tuned, return only the defaults.
    """
    plan = view.plan.model_copy(
        update={"space": view.reference_space, "tuning": view.plan.tuning.model_copy(update={"sampler": "random"})}
    )
    own = replace(view, plan=plan, widened_dimensions={})
    tried: list[HyperparameterSetting] = [
        build_default_setting(view.reference_space, model) for model in OFF_THE_SHELF_MODELS
    ]
    for number in range(len(tried) + 1, count_reference_trials(view.plan.tuning) + 1 if view.plan.tuned_arms else 0):
        setting = sample_setting(own, OFF_THE_SHELF_ARM, (), number=number, tried=tried)
        tried += [setting] if setting is not None else []
    return (
        Trial(arm=TRIVIAL_ARM, number=0, setting={}),
        *(Trial(arm=OFF_THE_SHELF_ARM, number=number, setting=one) for number, one in enumerate(tried, 1)),
    )
