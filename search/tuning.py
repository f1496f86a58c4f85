"""Decide which settings each arm tries next and when a choice is final.

The study (`search.sampling`) chooses numbers; code written by models stays in the tree. A study belongs to one arm on
one version of its code. Every arm gets the same number of trials.

All trials share the run's seed, so settings are compared with the same random numbers, and a difference between two of
them owes less to chance (common random numbers; Glasserman and Yao 1992, "Some guidelines and guarantees for common
random numbers"). A setting may still suit this one seed: so the best ones are repeated with other seeds, and what is
confirmed has fresh ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log

from labwright.record.claims.estimates import MIN_REPLICATES
from labwright.record.reference_baselines import (
    OFF_THE_SHELF_ARM,
    OFF_THE_SHELF_MODELS,
    TRIVIAL_ARM,
    build_default_setting,
    count_reference_trials,
)
from labwright.record.schema.data_plan import Hyperparameter, HyperparameterSetting, Trial
from labwright.record.schema.decisions import ExpandTree, WidenDimension
from labwright.record.schema.nodes import Node, NodeKind, TrialResult
from labwright.record.tuning_results import (
    MAX_EQUAL_RATIO,
    MIN_TRIALS_FOR_TREND,
    find_best,
    find_decisive_gain,
    find_edges,
    find_tuned_study,
    is_still_gaining,
    list_settings,
    rank_trials,
    select_full_trials,
)
from labwright.search.sampling import BATCH_SIZE, round_four_digits, sample_setting
from labwright.search.stage_snapshot import StageSnapshot

WIDENED_BUDGET_SHARE = 1 / 3
"""Growth of each arm's budget, as a share of it, when a dimension is widened."""
MAX_BUDGET_FACTOR, BUDGET_STEPS = 2, 6
"""Maximum factor on an arm's budget while an arm is still gaining, and number of steps per budget."""
NEGLIGIBLE_TRIAL_SHARE = 0.2
"""Part of a trial; a smaller remaining budget is not worth another trial."""


def next_tuning_action(view: StageSnapshot, node: Node | None) -> ExpandTree | WidenDimension | None:
    """Return the next tuning action for a node's program; None if it waits for results, or is finished.

    First every arm gets its due trials. Then, in the tuning stage, a dimension is widened if a choice lies at its
    edge; then the best settings of each arm are repeated with other seeds, and the choices are measured together.
    """
    if node is None or not is_tunable(view, node):
        return None
    finals = [one for one in view.list_nodes_of_kind("trial") if one.parent == node.id and one.seed != view.seed]
    if "trial" not in view.skipped_kinds and not view.limit_reason:
        if not finals:
            if (batch := _next_batch(view, node)) is not None or view.has_pending_trials:
                return batch
            if view.stage == "tuning" and (wider := _next_widening(view, node)) is not None:
                return wider
        if (final := _next_finals(view, node, finals)) is not None:
            return final
    return None if view.has_pending_trials else build_conclusion(view, node)


def find_tuning_base(view: StageSnapshot) -> Node | None:
    """Return the node whose program the tuning stage tunes: the user's own, otherwise the one selected by the
    previous stage.
    """
    written = [
        node
        for node in view.open_nodes
        if "improve" in (node.kind, view.nodes[node.parent].kind if node.kind == "debug" and node.parent else "")
    ]
    return written[-1] if written else view.root


def _find_study(view: StageSnapshot, node: Node, arm: str) -> tuple[TrialResult, ...]:
    """Return the trials of an arm on its code in a node."""
    return view.studies.get((arm, view.code_hashes[node.id].get(arm, "")), ())


def is_tunable(view: StageSnapshot, node: Node) -> bool:
    """Return whether trials can be measured for a node's program: it runs by cells, and an arm has a space."""
    return bool(view.plan.tuned_arms) and node.id in view.code_hashes


def build_conclusion(view: StageSnapshot, node: Node) -> ExpandTree | None:
    """Return the node that measures the chosen setting of every arm; None if it already exists or nothing new was
    chosen.
    """
    if any(one.parent == node.id for one in view.list_nodes_of_kind("tune")):
        return None
    best = {arm: find_best(_find_study(view, node, arm), view.plan) for arm in view.plan.tuned_arms}
    chosen = tuple(Trial(arm=arm, number=one.number, setting=one.setting) for arm, one in best.items() if one)
    if not chosen or (view.stage != "tuning" and all(node.trials.get(one.arm, 0) == one.number for one in chosen)):
        return None
    return _build_expansion(view, node, "tune", chosen)


MAX_FINALISTS, FINALIST_SEEDS = 3, 2
"""Number of settings of an arm that are repeated, and the number of seeds, since a result with one seed may be due to
chance."""
FINALIST_SEED_OFFSET = 1000
"""Offset of the final seeds from the run's seed; the replicates that claims rest on thus have other seeds."""


def _next_finals(view: StageSnapshot, node: Node, before: Sequence[Node]) -> ExpandTree | None:
    """Return the best settings of each arm, to be repeated with another seed; None if this is done, or if studies are
    small.
    """
    if len(before) >= FINALIST_SEEDS:
        return None
    studies = [_find_study(view, node, arm) for arm in view.plan.tuned_arms]
    tuned_here = view.stage == "tuning" or any(one.parent == node.id for one in view.list_nodes_of_kind("trial"))
    if not tuned_here or max(len(select_full_trials(study)) for study in studies) < MIN_TRIALS_FOR_TREND:
        return None
    trials = tuple(
        Trial(arm=one.arm, number=one.number, setting=one.setting)
        for study in studies
        for one in rank_trials(study, view.plan)[:MAX_FINALISTS]
    )
    return _build_expansion(view, node, "trial", trials, seed=view.seed + FINALIST_SEED_OFFSET + len(before))


# --- effort due to each arm ------------------------------------------------------------------------------------------


def _next_batch(view: StageSnapshot, node: Node) -> ExpandTree | None:
    """Return the next settings of the arm that is furthest behind."""
    owed = {arm: amount for arm, amount in count_pending_trials(view, node).items() if amount > 0}
    for arm in sorted(owed, key=lambda arm: -owed[arm]):
        batches = ceil(owed[arm] / BATCH_SIZE)  # of equal size
        trials = next_trials(view, node, arm, max_count=ceil(owed[arm] / batches))
        if trials:
            return _build_expansion(view, node, "trial", trials)
    return None


def next_trials(view: StageSnapshot, node: Node, arm: str, *, max_count: int) -> tuple[Trial, ...]:
    """Return up to `max_count` new settings of an arm with consecutive numbers; fewer if its space is exhausted."""
    study = _find_study(view, node, arm)
    tried = [one.setting for one in study]
    made: list[Trial] = []
    first = max((number for name, number in view.decided_trials if name == arm), default=0) + 1
    for number in range(first, first + max_count):
        setting = sample_setting(view, arm, study, number=number, tried=tried)
        if setting is None:
            break
        tried.append(setting)
        made.append(Trial(arm=arm, number=number, setting=setting))
    return tuple(made)


def _build_expansion(
    view: StageSnapshot, node: Node, kind: NodeKind, trials: tuple[Trial, ...], *, seed: int | None = None
) -> ExpandTree:
    """Build a node that runs another node's program with these settings."""
    return ExpandTree(
        stage=view.stage,
        kind=kind,
        parent=node.id,
        ordinal=len(view.list_nodes_of_kind(kind)),
        seed=view.seed if seed is None else seed,
        trials=trials,
    )


def count_pending_trials(view: StageSnapshot, node: Node) -> dict[str, float]:
    """Return, by arm, how many more trials it needs on a node's program to use its budget and to match the arm with the
    most trials.

    After the tuning stage an arm only gets a new budget if a code change altered its results.
    """
    plan, spent = view.plan, view.spent_by_arm
    budget = _compute_budget(view, node) if view.stage == "tuning" else plan.tuning.budget
    need = dict.fromkeys(plan.tuned_arms, 0.0)
    for arm in plan.tuned_arms:
        code = view.code_hashes[node.id].get(arm, "")
        study = view.studies.get((arm, code), ())
        stale = view.stage == "tuning" or not find_tuned_study(view.studies, arm, node.trials.get(arm, 0), code, plan)
        if stale and (lacking := budget - len(study)) > NEGLIGIBLE_TRIAL_SHARE:
            need[arm] = lacking
    given = {arm: amount + need[arm] for arm, amount in spent.items()}
    most = max(given.values(), default=0.0)
    for arm in plan.tuned_arms:
        if most > MAX_EQUAL_RATIO * given[arm]:
            need[arm] = max(need[arm], most / MAX_EQUAL_RATIO - spent[arm])
    return need


def _compute_budget(view: StageSnapshot, node: Node) -> float:
    """Return the effort due to every arm in the tuning stage: the budget, plus more for each widened dimension, and
    more for all arms while one of them still gains enough to matter for a claim, up to `MAX_BUDGET_FACTOR` times the
    budget."""
    plan, budget = view.plan, view.plan.tuning.budget
    widened = sum(one.stage == view.stage for one in view.widened_dimensions.values())
    amount = budget * (1 + WIDENED_BUDGET_SHARE * widened)
    if find_decisive_gain(plan) is None:
        return amount
    studies = {arm: study for arm in plan.tuned_arms if (study := _find_study(view, node, arm))}
    for arm, study in tuple(studies.items()):
        if (every := list_settings(view.find_space(arm))) and len(every) <= len(study):
            del studies[arm]
    while amount < MAX_BUDGET_FACTOR * budget:
        parts = [_take_spent_part(study, amount - NEGLIGIBLE_TRIAL_SHARE) for study in studies.values()]
        if None in parts or not any(is_still_gaining(part, plan) for part in parts if part):
            break
        amount = min(amount + budget / BUDGET_STEPS, MAX_BUDGET_FACTOR * budget)
    return amount


def _take_spent_part(study: Sequence[TrialResult], amount: float) -> Sequence[TrialResult] | None:
    """Return this many of the first trials of a study; None if not all are measured."""
    part = study[: ceil(amount)]
    return None if len(part) < amount or any(one.outcome == "running" for one in part) else part


def undertuned_baseline(view: StageSnapshot) -> str:
    """Return the baseline whose code should be improved next because others had many more tries; empty if there is
    none.

    A baseline that is already being improved waits for that result.
    """
    under_way = {view.improved_arm_by_node.get(node.id) for node in view.in_flight}
    waiting = under_way | view.exhausted_items
    most = max(view.spent_by_arm.values(), default=0.0)
    versions = max((one.versions for one in view.efforts.values()), default=0)
    baselines = (arm.name for arm in view.plan.arms if arm.role == "baseline" and arm.name in view.efforts)
    late = [
        arm
        for arm in baselines
        if arm not in waiting
        and most > MAX_EQUAL_RATIO * view.spent_by_arm[arm]
        and view.efforts[arm].versions < versions
    ]
    return min(late, key=lambda arm: view.spent_by_arm[arm], default="")


def _next_widening(view: StageSnapshot, node: Node) -> WidenDimension | None:
    """Return a dimension to widen because an arm's choice lies at its edge; each is widened once."""
    for arm in view.plan.tuned_arms:
        best = find_best(_find_study(view, node, arm), view.plan)
        space = {one.name: one for one in view.find_space(arm)}
        for name in find_edges(best.setting, space.values()) if best is not None else ():
            if name not in view.widened_dimensions and not space[name].closed and best is not None:
                low, high = _compute_widened_range(space[name], best.setting[name])
                return WidenDimension(stage=view.stage, dimension=name, low=low, high=high, arm=arm)
    return None


def _compute_widened_range(one: Hyperparameter, value: object) -> tuple[float, float]:
    """Return the range extended by half its width at the end where a value lies; this end keeps its
    sign.
    """
    assert one.low is not None and one.high is not None and isinstance(value, int | float)
    if one.kind == "log":
        factor = (one.high / one.low) ** 0.5
        upper = log(value) > (log(one.low) + log(one.high)) / 2
        low, high = (one.low, one.high * factor) if upper else (one.low / factor, one.high)
    else:
        half = (one.high - one.low) / 2
        upper = value > (one.low + one.high) / 2
        low, high = (one.low, one.high + half) if upper else (one.low - half, one.high)
        low = max(low, min(one.low, 1.0 if one.kind == "integer" else 0.0)) if one.low >= 0 else low
    if one.kind == "integer":
        return float(round(low)), float(round(high))
    return round_four_digits(low), round_four_digits(high)


# Schedule the reference models: their settings are tried during tuning, the selected ones run during ablation. A
# reference node is not a search node: it counts towards no limit, nothing builds on it, and it influences no
# selection.


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
    own = replace(view, plan=plan, actions={})
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
