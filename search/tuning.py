"""Which settings are tried next for which arm, and when a choice stands.

Numbers go to the study (`search.sampling`); what a model writes stays with the tree. A study belongs to one arm on one
version of its code. Every arm gets as much of the plan's currency as the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log

from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.decisions import Expand, Extend
from labwright.record.nouns.nodes import Node, NodeKind
from labwright.record.nouns.tuning import Hyperparameter, Trial
from labwright.record.spaces import edges, settings_in
from labwright.record.tuning import EQUAL, FEWEST, TrialResult, best_of, gaining, ranked, spent_on, tuned_on, whole_of
from labwright.search.sampling import BATCH, ask, four_digits, promoted
from labwright.search.tree import View

MORE = 1 / 3
"""Of the budget, what each arm gets on top once a dimension is widened."""
MOST, STEPS = 2, 6
"""So many times its budget an arm gets at most while one still gains, in so many steps for each budget."""
SLACK = 0.2
"""Of a trial, what is not worth another one."""


def step(view: View, node: Node | None) -> Expand | Extend | None:
    """What tuning a node's program takes next; None where it waits for results, or is through.

    First every arm is given what it is owed; then, in the stage of tuning, a dimension is widened where a choice lies
    at its edge; then the best of each arm are tried again with other seeds, and the choices are measured together.
    """
    if node is None or not tunable(view, node):
        return None
    finals = [one for one in view.kind("trial") if one.parent == node.id and one.seed != view.seed]
    if "trial" not in view.without and not view.limited:
        if not finals and (batch := _batch(view, node)) is not None:
            return batch
        if not finals and view.in_trial:
            return None
        wider = _wider(view, node) if view.stage == "tuning" and not finals else None
        final = _final(view, node, finals) if wider is None else None
        if wider is not None or final is not None:
            return wider or final
    return None if view.in_trial else conclusion(view, node)


def base(view: View) -> Node | None:
    """The node whose program stage 2 tunes: what a person wrote there, else what the stage before settled on."""
    written = [
        node
        for node in view.open
        if "improve" in (node.kind, view.nodes[node.parent].kind if node.kind == "debug" and node.parent else "")
    ]
    return written[-1] if written else view.root


def _study_of(view: View, node: Node, arm: str) -> tuple[TrialResult, ...]:
    """The trials of an arm on the code that it has in a node."""
    return view.studies.get((arm, view.codes[node.id].get(arm, "")), ())


def tunable(view: View, node: Node) -> bool:
    """Whether trials can be measured of a node's program: it measures by cells, and an arm has a space."""
    return bool(view.plan.tuned_arms) and node.id in view.codes


def conclusion(view: View, node: Node) -> Expand | None:
    """The node that measures what was chosen for every arm; None where there is one, or nothing new was chosen."""
    if any(one.parent == node.id for one in view.kind("tune")):
        return None
    best = {arm: best_of(_study_of(view, node, arm), view.plan) for arm in view.plan.tuned_arms}
    chosen = tuple(Trial(arm=arm, number=one.number, setting=one.setting) for arm, one in best.items() if one)
    if not chosen or (view.stage != "tuning" and all(node.trials.get(one.arm, 0) == one.number for one in chosen)):
        return None
    return _with_settings(view, node, "tune", chosen)


FINALISTS, SEEDS = 3, 2
"""So many settings of an arm are tried again, with so many seeds: one seed alone may have been lucky."""
OTHER = 1000
"""Seeds of finals begin so far from the run's: replicates, which carry the claims, have others."""


def _final(view: View, node: Node, before: Sequence[Node]) -> Expand | None:
    """The best settings of each arm, to be tried with another seed; None where that is done, where studies are small,
    and where arms get equally many seconds: so many settings do not cost them the same."""
    studies = [_study_of(view, node, arm) for arm in view.plan.tuned_arms]
    tuned_here = view.stage == "tuning" or any(one.parent == node.id for one in view.kind("trial"))
    if (
        len(before) >= SEEDS
        or not tuned_here
        or view.plan.tuning.currency == "seconds"
        or (max(len(whole_of(study)) for study in studies) < FEWEST)
    ):
        return None
    trials = tuple(
        Trial(arm=one.arm, number=one.number, setting=one.setting)
        for study in studies
        for one in ranked(study, view.plan)[:FINALISTS]
    )
    return _with_settings(view, node, "trial", trials, seed=view.seed + OTHER + len(before))


# --- who is owed what ------------------------------------------------------------------------------------------------


def _batch(view: View, node: Node) -> Expand | None:
    """The next settings of the arm that is furthest behind what it is owed."""
    owed = {arm: amount for arm, amount in owed_trials(view, node).items() if amount > 0}
    for arm in sorted(owed, key=lambda arm: -owed[arm]):
        batches = ceil(owed[arm] / BATCH)  # of equal size
        trials = next_trials(view, node, arm, count=ceil(owed[arm] / batches))
        if trials:
            return _with_settings(view, node, "trial", trials)
    return next(
        (
            _with_settings(view, node, "trial", tuple(further[:BATCH]))
            for arm in view.plan.tuned_arms
            if (further := promoted(_study_of(view, node, arm), view.plan))
        ),
        None,
    )


def next_trials(view: View, node: Node, arm: str, *, count: int) -> tuple[Trial, ...]:
    """So many new settings of an arm, numbered on; fewer where its space has no more."""
    study = _study_of(view, node, arm)
    rungs = view.plan.tuning.rungs
    tried = list({one.number: one.setting for one in study}.values())
    made: list[Trial] = []
    first = max((number for name, number in view.numbers if name == arm), default=0) + 1
    for number in range(first, first + count):
        setting = ask(view, arm, study, number=number, tried=tried)
        if setting is None:
            break
        tried.append(setting)
        made.append(Trial(arm=arm, number=number, setting=setting, share=rungs[0] if rungs else 1.0))
    return tuple(made)


def _with_settings(
    view: View, node: Node, kind: NodeKind, trials: tuple[Trial, ...], *, seed: int | None = None
) -> Expand:
    """A node that runs another one's program with these settings."""
    return Expand(
        stage=view.stage,
        kind=kind,
        parent=node.id,
        ordinal=len(view.kind(kind)),
        seed=view.seed if seed is None else seed,
        trials=trials,
    )


def owed_trials(view: View, node: Node) -> dict[str, float]:
    """Arm -> how many trials more it is to have on a node's program: its budget, and as much as the arm with most.

    In a later stage than tuning an arm is owed a budget of its own only where its code changed what it computes.
    """
    plan = view.plan
    budget = _budget(view, node) if view.stage == "tuning" else plan.tuning.budget
    need: dict[str, float] = {}
    cost: dict[str, float] = {}
    for arm in plan.tuned_arms:
        code = view.codes[node.id].get(arm, "")
        study = view.studies.get((arm, code), ())
        cost[arm] = _cost(view, arm)
        stale = view.stage == "tuning" or not tuned_on(view.studies, arm, node.trials.get(arm, 0), code, plan)
        lacking = budget - spent_on(study, plan) - _running(study) * cost[arm]
        need[arm] = max(0.0, lacking) if stale and lacking > SLACK * cost[arm] else 0.0
    given = {arm: amount + need[arm] for arm, amount in view.given.items()}
    most = max(given.values(), default=0.0)
    return {
        arm: max(need[arm], most / EQUAL - view.given[arm] if most > EQUAL * given[arm] else 0.0) / cost[arm]
        for arm in plan.tuned_arms
    }


def _budget(view: View, node: Node) -> float:
    """What every arm is to have in stage 2: the plan's budget, more of it for each dimension that was widened, and as
    long as an arm is still gaining more for all, up to `MOST` times the budget."""
    plan, budget = view.plan, view.plan.tuning.budget
    amount = budget * (1 + MORE * sum(one.stage == view.stage for one in view.extended.values()))
    studies = {
        arm: study
        for arm in plan.tuned_arms
        if (study := _study_of(view, node, arm))
        and not ((every := settings_in(view.space_of(arm))) and len(every) <= len(study))
    }
    while amount < MOST * budget:
        parts = [_part(study, plan, amount - SLACK * _cost(view, arm)) for arm, study in studies.items()]
        if None in parts or not any(gaining(part, plan) for part in parts if part):
            break
        amount = min(amount + budget / STEPS, MOST * budget)
    return amount


def _part(study: Sequence[TrialResult], plan: DataPlan, amount: float) -> Sequence[TrialResult] | None:
    """The first trials of a study that take so much of the plan's currency; None where they are not all measured."""
    numbers, seconds = set[int](), 0.0
    for end, one in enumerate(study, 1):
        if one.outcome == "running":
            return None
        numbers.add(one.number)
        seconds += one.seconds
        if (seconds if plan.tuning.currency == "seconds" else len(numbers)) >= amount:  # as `spent_on`
            return study[:end]
    return None


def _cost(view: View, arm: str) -> float:
    """What a trial of an arm takes of the currency: 1, or the mean of its seconds so far (1 before there are any)."""
    if view.plan.tuning.currency == "trials":
        return 1.0
    known = [one.seconds for one in view.trials if one.arm == arm and one.outcome == "measured" and one.seconds]
    return sum(known) / len(known) if known else 1.0


def _running(study: Sequence[TrialResult]) -> int:
    known = {one.number for one in study if one.outcome != "running"}
    return len({one.number for one in study} - known)


def behind(view: View) -> str:
    """The baseline whose code is to be bettered next, since others had so many more looks; empty: none.

    One whose better version is on its way waits for it.
    """
    under_way = {view.bettered.get(node.id) for node in view.in_flight}
    most = max(view.given.values(), default=0.0)
    versions = max(view.versions.values(), default=0)
    late = [
        arm.name
        for arm in view.plan.arms
        if arm.role == "baseline"
        and arm.name in view.given
        and arm.name not in under_way
        and arm.name not in view.answered
        and most > EQUAL * view.given[arm.name]
        and view.versions[arm.name] < versions
    ]
    return min(late, key=lambda arm: view.given[arm], default="")


def _wider(view: View, node: Node) -> Extend | None:
    """A dimension that is widened, since the choice of an arm lies at its edge; each once."""
    for arm in view.plan.tuned_arms:
        best = best_of(_study_of(view, node, arm), view.plan)
        space = {one.name: one for one in view.space_of(arm)}
        for name in edges(best.setting, space.values()) if best is not None else ():
            if name not in view.extended and not space[name].closed and best is not None:
                low, high = _widened(space[name], best.setting[name])
                return Extend(stage=view.stage, dimension=name, low=low, high=high, arm=arm)
    return None


def _widened(one: Hyperparameter, value: object) -> tuple[float, float]:
    """The range with half its width more at the end where a value lies; no sign changes by it."""
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
    return (float(round(low)), float(round(high))) if one.kind == "integer" else (four_digits(low), four_digits(high))
