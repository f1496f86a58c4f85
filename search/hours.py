"""Divide a run's computing time: what decides the study comes first, exploration gets the rest.

Times are in slot-seconds: seconds times the number of experiments that run at once (`search.num_workers`). As soon as a
cell was measured, the time of one fresh seed is known; confirmation (every cell of the winner at the planned number of
seeds), test scoring with its probes, and the paper are set aside. An exploratory node starts only if it fits into the
time that the exploratory nodes in progress leave; before the ablation stage, the time of its first node is kept free
too.

Until the pilot shows the spread, the planned number is not known, and confirmation has its whole share. The first
trials of each arm come before all seeds but `MIN_REPLICATES`: many seeds of a setting that nobody compared are worth
less than a few of a tuned one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from statistics import median

from labwright.record.claims.estimates import MIN_REPLICATES, find_winner
from labwright.record.estimands import list_main_arms
from labwright.record.events.search_events import LookTaken
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import ABLATION_PLAN_TASK, ExpandTree, SearchAction
from labwright.record.schema.nodes import STAGES, NodeKind, StageName
from labwright.record.tuning_results import list_settings, list_trial_cells
from labwright.search.design_forecast import CONFIRMATION_SHARE, list_main_cells, list_seed_cells
from labwright.search.policy import MAX_LATE_DEBUGS, stage_end_reason
from labwright.search.replication import (
    compute_wanted_seeds,
    count_fresh_seeds,
    count_most_seeds,
    find_lacking_seeds,
    is_further_seed,
    is_sampling_ended,
    iterate_targets,
    list_ablation_seeds,
    list_confirming_seeds,
    list_further_replicates,
    list_late_cells,
)
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot

# Time limits of stages, met by estimating the time of a node; `search.hours` divides the time of the run. Reaching
# one is an event (`LimitReached`), since it depends on time: a resumed run makes the same decisions, even in `ticket`
# order.


@dataclass(frozen=True)
class LimitHit:
    """The reason why an action may not start, in one stage or in the whole run (None).

    `may_fit_later`: this or another action may start once work in progress has ended.
    """

    reason: str
    stage: StageName | None = None
    may_fit_later: bool = False


@dataclass(frozen=True)
class RunTime:
    """The time limit of a run, and what is left of it, in seconds."""

    limit: float = inf
    left: float = inf


RoomCheck = Callable[[SearchAction], LimitHit | None]
"""Check whether the run's budget has room for the maximum cost of an action."""


@dataclass(frozen=True)
class TimeLimits:
    """Time limits of one stage.

    While the first stage has no working node, its first debug attempt is limited only by the time of the whole run.
    """

    seconds: float | None = None
    run_seconds: float | None = None

    def find_refusal(self, action: ExpandTree, view: StageSnapshot, state: RunState, *, now: float) -> LimitHit | None:
        """Return why a search node may not start, or None. `now`: active seconds of the run."""
        began = state.search.stages[action.stage].began_at
        if self.seconds is None or began is None:
            return None
        left = self.seconds - (now - began)
        if action.kind == "debug" and has_nothing_working(view):
            left = max(left, self.run_seconds - now if self.run_seconds is not None else inf)
        expected = estimate_seconds(action, view)
        if expected <= left:
            return None
        said = f"limit of {self.seconds:g} s: {max(0.0, left):.0f} s left"
        reason = f"{said}, but another node is expected to take {expected:.0f} s"
        return LimitHit(reason, stage=view.stage, may_fit_later=has_nothing_working(view))


def has_nothing_working(view: StageSnapshot) -> bool:
    """Return whether the first stage has no working node and nothing has been debugged yet."""
    return view.stage == "preliminary" and not view.good_nodes and not view.list_nodes_of_kind("debug")


def estimate_seconds(action: ExpandTree, view: StageSnapshot) -> float:
    """Estimate the time of a node in slot-seconds: that of its parent, else the median of the stage, else the
    planned time."""
    parent = view.nodes.get(action.parent or "")
    if parent is not None and parent.attempts and parent.attempts[-1].failure is None:
        last = parent.attempts[-1]
        if action.kind == "trial":
            cells = sum(len(list_trial_cells(view.plan, one.arm, seed=0)) for one in action.trials)
            return last.whole_seconds * cells / max(1, len(last.cells))
        if action.kind == "ablate" and (times := view.cell_times) is not None:  # only its own arm runs
            return times.estimate(list_main_cells(view.plan)) / len(list_main_arms(view.plan))
        return last.whole_seconds
    ran = [node.attempts[-1].whole_seconds for node in view.good_nodes]
    return median(ran) if ran else view.plan.expected_seconds


WRITE_UP_SHARE = 0.1
"""Share of the time for figures, text and revision, during which the slots are idle."""
PROBE_PROGRAMS, PROBE_SHARE = 2, 0.1
"""Time of the probes before scoring, in executions of the winner's program (permuted labels, and one cell per arm for
replaced rows), and its maximum share of the time, beyond which probes are left out."""

MAX_REQUESTS_SHARE = 0.5
"""Maximum expected share of the remaining time for what reviewers request; the paper needs the rest."""
SURPRISE_SHARE = 0.1
"""Maximum share of the time that is kept for the first ablation, the control for the strongest surprise."""

EXPLORING_KINDS = frozenset[NodeKind]({"draft", "debug", "improve", "ablate", "trial"})
"""Nodes for which nothing is set aside; measuring the chosen settings together belongs to what is confirmed."""


@dataclass(frozen=True)
class Hours:
    """The computing time of a run and what of it is set aside, in slot-seconds."""

    total: float
    seed_seconds: float
    """Time of one fresh seed of the next look, which may measure only what an undecided claim reads."""
    seeds: int
    """Planned fresh seeds."""
    remaining_seeds: int
    """Those of them that did not finish."""
    scoring: float
    write_up: float

    @property
    def confirmation(self) -> float:
        return self.seeds * self.seed_seconds

    @property
    def set_aside(self) -> float:
        """What is still needed for what decides the study."""
        return self.remaining_seeds * self.seed_seconds + self.scoring + self.write_up


def plan_hours(
    view: StageSnapshot, settings: SearchSettings, run_seconds: float, *, swapped: bool = True
) -> Hours | None:
    """Divide a run of `run_seconds` as known in this snapshot; None before anything was measured.

    `swapped`: whether a fresh seed also measures arms at each other's tuned setting; after the lock, this says so.
    """
    seconds = compute_seed_seconds(view, swapped=swapped)
    if seconds is None:
        return None
    total, times, late = run_seconds * settings.num_workers, view.cell_times, list_late_cells(view)
    most = CONFIRMATION_SHARE * total / seconds if seconds and total < inf else inf
    if view.lock is not None:
        wanted, remaining = max(view.lock.n, len(list_confirming_seeds(view))), count_remaining_seeds(view)
    else:
        known = not view.plan.confirmatory_effects or bool(compute_wanted_seeds(view))
        wanted = count_fresh_seeds(view, settings) if known else count_most_seeds(settings)
        wanted = remaining = int(min(wanted, most))
    return Hours(
        total=total,
        seed_seconds=times.estimate(late) if times is not None and late else seconds,
        seeds=wanted,
        remaining_seeds=remaining,
        scoring=min(PROBE_PROGRAMS * seconds, PROBE_SHARE * total),
        write_up=WRITE_UP_SHARE * total if total < inf else 0.0,
    )


def count_affordable_seeds(
    state: RunState, settings: SearchSettings, time: RunTime, *, read: int = 0, swapped: bool = True
) -> float:
    """Return the number of fresh seeds beyond the first `read` ones that ran, are running, or for which the run has
    time, in the share of the confirmation or in all that other work leaves; `swapped` as in `plan_hours`. The state may
    have a look that is not finished."""
    view = build_snapshot(state, state.search.stage or STAGES[-1], settings=settings)
    view = replace(view, looks=tuple(state.search.looks))
    hours = plan_hours(view, settings, time.limit, swapped=swapped)
    if hours is None or not hours.seed_seconds:
        return inf
    spent = sum(attempt.seconds for node in view.fresh_replicates for attempt in node.attempts)
    other = sum_other_work(view, settings, requested=bool(state.read_setting("paper.missing_ablations")))
    free = time.left * settings.num_workers - hours.scoring - hours.write_up
    room = min(free, max(CONFIRMATION_SHARE * hours.total - spent, free - other))
    more = max(0, int(room / hours.seed_seconds)) if room < inf else inf
    return more + max(0, sum(one.status == "good" or not one.is_finished for one in view.fresh_replicates) - read)


def explain_sampling_end(state: RunState, settings: SearchSettings, time: RunTime, taken: LookTaken) -> str | None:
    """Return the reason why no look follows this one, whatever it shows, or None."""
    lock, look = state.search.current_lock, taken.look
    assert lock is not None
    if look + 1 >= len(lock.looks):
        return "the table of looks ends"
    following, more = lock.looks[look + 1], lock.looks[look + 1] - lock.looks[look]
    if following > (most := count_most_seeds(settings)):
        return f"the next look takes {following} seeds, and search.max_seeds is {most}"
    after = replace(state, search=replace(state.search, looks=[*state.search.looks[:look], taken]))
    if more > (affordable := count_affordable_seeds(after, settings, time, read=lock.looks[look])):
        return f"the next look takes {more} more seeds, and there is time for {affordable:.0f}"
    return None


def sum_other_work(view: StageSnapshot, settings: SearchSettings, *, requested: bool) -> float:
    """Return the slot-seconds of all experiments that remain besides fresh seeds: ablations with their replicates, and
    what a reviewer may request (in half of the time that is left). Unlimited before the ablations are planned."""
    ended = view.stage == "ablation" and stage_end_reason(view, settings) is not None
    if view.stage != "ablation" or not (ended or view.ablation_plan_status == "done"):
        return inf
    due = 0 if ended else max(0, len(view.agenda_items) - view.count_turns("ablate"))
    due += len(view.unfinished_search_nodes) + len(view.list_debuggable(settings))
    own, requests = (estimate_requests(view, settings, count) for count in (due, int(requested)))
    return settings.num_workers * (own + requests / MAX_REQUESTS_SHARE) + sum_due_replicates(view, settings)


def count_remaining_seeds(view: StageSnapshot) -> int:
    """Return how many of the planned fresh seeds, and of those of the next look, did not finish."""
    if view.lock is None or is_sampling_ended(view) or "replicate" in view.skipped_kinds:
        return 0
    finished = sum(one.is_finished for one in view.fresh_replicates)
    return max(0, max(view.lock.n, len(list_confirming_seeds(view))) - finished)


def compute_seed_seconds(view: StageSnapshot, *, swapped: bool = True) -> float | None:
    """Return the slot-seconds of one fresh seed: every cell that the confirmation measures; None if nothing ran.

    A cell takes as long as its median execution, else as long as the others of its arm, else of all.
    """
    if (times := view.cell_times) is not None:
        trials = view.lock.trials if view.lock is not None else None
        swapped = view.lock.swapped if view.lock is not None else swapped
        return times.estimate(list_seed_cells(view.plan, trials=trials) if swapped else list_main_cells(view.plan))
    whole = [one.attempts[-1].seconds for one in view.timed_nodes if one.kind != "trial"]
    return whole[-1] if whole else None


def check_time(action: SearchAction, state: RunState, settings: SearchSettings, time: RunTime) -> LimitHit | None:
    """Return why an action may not start with this time left in the run, or None.

    The end of the time ends the run. An exploratory node that does not fit next to the time that is set aside ends its
    stage, so that a later stage may still use time that the confirmation did not need.
    """
    if time.left <= 0:
        return LimitHit(f"the time limit of {time.limit:g} s was reached")
    if action == ABLATION_PLAN_TASK:  # is there time for one of them?
        action = ExpandTree(stage="ablation", kind="ablate", parent=find_winner(state), seed=0)
    if not isinstance(action, ExpandTree) or action.kind == "aggregate":
        return None
    view = build_snapshot(state, action.stage, settings=settings)
    if is_further_seed(action, view.lock, settings):
        requested = bool(state.read_setting("paper.missing_ablations"))
        reason = explain_no_further_seeds(view, settings, time, requested=requested)
        return LimitHit(reason, stage=action.stage) if reason is not None else None
    if action.kind not in EXPLORING_KINDS:
        seconds = estimate_seconds(action, view)
        if seconds <= time.left:
            return None
        left = f"{time.left:.0f} s left, but this {action.kind} is expected to take {seconds:.0f} s"
        return LimitHit(f"the time limit of {time.limit:g} s: {left}")
    exploring = [view.expansions[node.id] for node in view.in_flight if node.kind in EXPLORING_KINDS]
    explain = partial(explain_no_exploration, action, exploring, view, settings, time)
    if (reason := explain()) is None:
        return None
    return LimitHit(
        reason, stage=action.stage, may_fit_later=_may_end_sampling(view) and explain(released=True) is None
    )


def _may_end_sampling(view: StageSnapshot) -> bool:
    """Return whether a look may soon release the time of further fresh seeds: it was decided on, or its seeds run."""
    running = any(not one.is_finished for one in view.fresh_replicates)
    return view.lock is not None and bool(view.lock.looks) and (running or view.has_pending_look)


def explain_no_exploration(
    action: ExpandTree,
    running: Sequence[ExpandTree],
    view: StageSnapshot,
    settings: SearchSettings,
    time: RunTime,
    *,
    released: bool = False,
) -> str | None:
    """Return why an exploratory node may not start in addition to those in progress, or None. Nothing is set aside as
    long as no node works; with `released`, no fresh seeds.

    Trials of an arm start if the other arms can have as many; the first ones, if they fit next to `MIN_REPLICATES`
    seeds, without controls. No more is set aside while no arm is better than a constant prediction.
    """
    waiting = _list_untried_arms(action, view)
    hours = plan_hours(view, settings, time.limit, swapped=not (waiting or view.is_floored))
    if hours is None or view.best_node is None:
        return None
    if waiting or released or view.is_floored:
        most = 0 if released else MIN_REPLICATES
        hours = replace(hours, remaining_seeds=min(hours.remaining_seeds, most))
    seeds = len(list_ablation_seeds(view.lock, settings)) if view.stage == "ablation" else 0
    needed = sum_due_replicates(view, settings) + sum(
        estimate_seconds(one, view) * (1 + (seeds if one.stage == "ablation" else 0)) for one in (action, *running)
    )
    if action.stage == "tuning" and len({one.arm for one in action.trials}) == 1:
        needed += estimate_seconds(action, view) / len(action.trials) * _count_trials_behind(action, view)
    left = time.left * settings.num_workers
    kept = estimate_first_ablation(view, settings, hours)
    if needed + hours.set_aside + kept <= left:
        return None
    first = f", {kept:.0f} kept for the first ablation" if kept else ""
    return (
        f"{left:.0f} slot-seconds are left, {hours.set_aside:.0f} are set aside for {hours.remaining_seeds} fresh "
        f"seeds, test scoring and the paper{first}, and exploration would need {needed:.0f}"
    )


def _list_untried_arms(action: ExpandTree, view: StageSnapshot) -> list[str]:
    """Return the tuned arms without any trial, if an action is the first trials of one of them."""
    tried = {arm for arm, _ in view.decided_trials}
    if action.kind != "trial" or action.stage != "tuning" or tried.intersection(one.arm for one in action.trials):
        return []
    return [arm for arm in view.plan.tuned_arms if arm not in tried]


def _count_trials_behind(action: ExpandTree, view: StageSnapshot) -> int:
    """Return how many trials the other arms need to have as many as the arm that an action tries, as far as their
    spaces have so many settings."""
    made = {*view.decided_trials, *((one.arm, one.number) for one in action.trials)}
    counts = Counter(arm for arm, number in made if number)
    arms, most = view.plan.tuned_arms, counts[action.trials[0].arm]
    sizes = {arm: len(list_settings(view.find_space(arm)) or ()) - 1 for arm in arms}
    return sum(max(0, (most if sizes[arm] < 0 else min(most, sizes[arm])) - counts[arm]) for arm in arms)


def explain_no_further_seeds(
    view: StageSnapshot, settings: SearchSettings, time: RunTime, *, requested: bool
) -> str | None:
    """Return why the next round of further seeds of the ablations may not start, or None. `requested`: whether a
    reviewer of the draft may request ablations, of which one keeps its time."""
    hours, rounds = plan_hours(view, settings, time.limit), list_further_replicates(view, settings)
    if hours is None or not rounds:
        return None
    seconds = [estimate_seconds(one, view) for one in rounds]
    needed = max(*seconds, (sum(seconds) + sum_due_replicates(view, settings)) / settings.num_workers)
    kept = hours.set_aside / settings.num_workers
    if requested:
        kept += estimate_requests(view, settings, 1) / MAX_REQUESTS_SHARE
    if needed + kept <= time.left:
        return None
    return (
        f"{time.left:.0f} s are left, {kept:.0f} are set aside for test scoring, the paper and what a reviewer "
        f"may request, and one further seed of {len(rounds)} ablations would take until {needed:.0f} s from now"
    )


def estimate_requests(view: StageSnapshot, settings: SearchSettings, ablations: int, seeds: int = 0) -> float:
    """Return the seconds that requested ablations with their replicates, and further seeds of the reported node, are
    expected to take."""
    replicates, slots = len(list_ablation_seeds(view.lock, settings)), settings.num_workers
    ablate, replicate = (
        estimate_seconds(
            ExpandTree(stage="ablation", kind=kind, parent=view.root.id if view.root else None, seed=0), view
        )
        for kind in ("ablate", "replicate")
    )
    rounds = (1 + MAX_LATE_DEBUGS) * bool(ablations) + ceil(replicates * ablations / slots)
    return rounds * ablate + ceil(seeds / slots) * replicate


def estimate_first_ablation(view: StageSnapshot, settings: SearchSettings, hours: Hours) -> float:
    """Return the slot-seconds that earlier stages leave to the first planned ablation and its replicates, at most a
    tenth of the run: it is the control for the strongest surprise."""
    if view.stage == "ablation" or not settings.planned_ablations:
        return 0.0
    replicates, share = settings.count_seeds("ablation"), SURPRISE_SHARE * hours.total
    runs = 1 + (max(replicates, MIN_REPLICATES) if replicates else 0)
    whole = runs * (compute_seed_seconds(view) or 0.0)
    return min(share, whole / len(list_main_arms(view.plan))) if share < inf else 0.0


def sum_due_replicates(view: StageSnapshot, settings: SearchSettings) -> float:
    """Return the slot-seconds of replicates that did not finish, without those that confirm: the pilot, ablations."""
    if "replicate" in view.skipped_kinds:
        return 0.0
    due = {
        node.id: len(find_lacking_seeds(view, node, seeds))
        for stage, node, seeds in iterate_targets(view, settings)
        if stage != "agenda"
    }
    fresh = {node.id for node in view.fresh_replicates}
    running = [
        node for node in view.in_flight if node.kind == "replicate" and node.parent in due and node.id not in fresh
    ]
    seconds = sum(count * view.nodes[name].attempts[-1].whole_seconds for name, count in due.items())
    return seconds + sum(view.nodes[node.parent or ""].attempts[-1].whole_seconds for node in running)
