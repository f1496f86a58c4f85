"""A study whose processes are killed at random moments while cells run, compared with an undisturbed one.

The start of each cell is not taken from the record: the process notes it when an execution starts in a kernel.
Cells that re-run a finished node with other labels (`probes/`) are not measurements, and are not counted. Kills may
be limited to the tuning stage (`tuning`).
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.event_log import read_state
from labwright.record.reducers.run_state import RunState
from labwright.record.tuning_results import collect_trial_results
from tests.faults.http_study import SMALL_SETTINGS, make_study_script
from tests.faults.run_comparison import comparable_latex, comparable_tree
from tests.faults.run_killer import KilledRun
from tests.models.openai_server import OpenAIServer
from tests.stages.cell_study import make_cell_model

KILLS, KILLS_PER_RUN, IN_TUNING = 60, 20, 20
"""Number of kills in total, per run (each run is then completed), and within tuning."""
MAX_DELAY_SECONDS = 1.0
"""Maximum delay of a kill after the start of a cell, relative to the mean time per cell of the complete run."""
MAX_CELLS_BEGUN = 3
"""Maximum number of cells that a process begins before its kill, so that kills are spread over the run."""


class KillMoment(NamedTuple):
    """A process is killed `seconds` after it began its cell number `cells`, from 1."""

    cells: int
    seconds: float


@dataclass
class LostWork:
    """Cell executions lost through the kills of one run."""

    killed: KilledRun
    in_flight: list[list[str]] = field(default_factory=list[list[str]])
    """Cells started and not committed at each kill."""
    wrong: list[str] = field(default_factory=list[str])
    """Cells that were started again after they had been committed."""

    def record_process(self, before: int, committed: list[str]) -> None:
        """Update after a process that started its cells from `before` on, and found these committed."""
        begun, known = self.killed.list_begun(), Counter(name for cut in self.in_flight for name in cut)
        self.wrong += [name for name in begun[before:] if name in committed]
        now = Counter(name for name, _ in self.killed.list_executed())
        self.in_flight.append(sorted((Counter(begun) - now - known).elements()))


def measure_kills(runs: Path, *, kills: int = KILLS, seed: int = 0, tuning: bool = False) -> dict[str, Any]:
    """Perform the kills over as many runs as needed: count cells started, lost and repeated, and compare the results.

    With `tuning`, a process is only killed during cells of trials.
    """
    noted, done = runs / "noted", list[dict[str, Any]]()
    with OpenAIServer(make_study_script(noted, model=make_cell_model)) as server:
        whole, began = KilledRun(runs / "whole", server, noted), time.monotonic()
        state = whole.run_to_end()
        within = MAX_DELAY_SECONDS * (time.monotonic() - began) / len(whole.list_begun())
        rng = Random(seed)
        while (left := kills - sum(len(one["kills"]) for one in done)) > 0:
            moments = [
                KillMoment(rng.randint(1, MAX_CELLS_BEGUN), rng.uniform(0.0, within))
                for _ in range(min(left, KILLS_PER_RUN))
            ]
            done.append(
                _run_killed(
                    KilledRun(runs / f"killed{len(done) + 1}", server, noted),
                    moments,
                    whole=whole,
                    reference=state,
                    tuning=tuning,
                )
            )
    return {
        "seed": seed,
        "kills": kills,
        "in_tuning": tuning,
        "cells": len(whole.list_executed()),
        "trials": len(state.search.trials),
        "taken_over": sum(
            line.outcome == "taken over"
            for node in state.nodes.values()
            for attempt in node.attempts
            for line in attempt.cells
        ),
        "begun": sum(one["begun"] for one in done),
        "committed": sum(one["committed"] for one in done),
        "lost_in_flight": sum(map(sum, (one["in_flight"] for one in done))),
        "runs": done,
    }


def _run_killed(
    killed: KilledRun, moments: list[KillMoment], *, whole: KilledRun, reference: RunState, tuning: bool
) -> dict[str, Any]:
    """Run once with kills at these moments, or until it ends, and complete it."""
    lost = LostWork(killed)
    for moment in (*moments, None):
        if moment is not None and tuning and killed.kills and _is_tuned(read_state(killed.run)):
            continue
        before, committed = len(killed.list_begun()), [name for name, _ in killed.list_executed()]
        alive = moment is not None and killed.kill_amid_cells(moment.seconds, "__t" if tuning else "", moment.cells)
        if moment is None:
            killed.run_to_end()
        lost.record_process(before, committed)
        if not alive:
            break
    state, executed = read_state(killed.run), killed.list_executed()
    return compare_killed(killed, whole, reference) | {
        "begun": len(killed.list_begun()),
        "committed": len(executed),
        "in_flight": [len(one) for one in lost.in_flight],
        "most_in_flight": SMALL_SETTINGS["search.num_workers"],
        "committed_and_begun_again": lost.wrong,
        "committed_twice": len(executed) - len({id for _, id in executed}) + len(executed) - len(dict(executed)),
        "same_choice": _list_choices(state) == _list_choices(reference),
    }


def compare_killed(killed: KilledRun, whole: KilledRun, reference: RunState) -> dict[str, Any]:
    """Compare a killed run with an undisturbed one, whose state is `reference`."""
    state = read_state(killed.run)
    return {
        "kills": killed.kills,
        "same_tree": comparable_tree(state) == comparable_tree(reference),
        "same_claims": compute_paper_claims(state) == compute_paper_claims(reference),
        "same_latex": comparable_latex(killed.run) == comparable_latex(whole.run),
        "asked_again": killed.count_repeated_requests(),
        "done_twice": killed.find_repeated(),
        "damaged": killed.damaged,
        "outlived": len(killed.outlived),
        "left_running": killed.list_running(),
    }


def is_intact(found: dict[str, Any]) -> bool:
    """Return whether nothing was lost, repeated or damaged in a killed run."""
    return all(found[name] for name in ("same_tree", "same_claims", "same_latex")) and not any(
        found[name] for name in ("asked_again", "done_twice", "damaged", "left_running")
    )


def _is_tuned(state: RunState) -> bool:
    """Return whether no trial is left to measure in the tuning stage."""
    return state.search.stages["tuning"].is_settled or any(node.kind == "tune" for node in state.nodes.values())


def _list_choices(state: RunState) -> list[object]:
    """Return every trial with its result, and the trial that each node uses; without times."""
    return [
        *(one.model_copy(update={"seconds": 0.0}) for one in collect_trial_results(state)),
        *(node.trials for node in state.nodes.values()),
    ]


def cells_are_intact(found: dict[str, Any]) -> bool:
    """Return whether only running cells were repeated, and the results do not differ."""
    return all(
        is_intact(one)
        and one["same_choice"]
        and max(one["in_flight"]) <= one["most_in_flight"]
        and one["begun"] == one["committed"] + sum(one["in_flight"])
        and not (one["in_flight"][-1] or one["committed_and_begun_again"] or one["committed_twice"])
        for one in found["runs"]
    )
