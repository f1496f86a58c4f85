"""A study of cells whose processes are killed at random moments amid its cells, beside one that nothing happened to.

What was begun is not read off the record: the process notes each execution of a cell when it begins in a kernel. Cells
that a check of a finished node runs with other labels (`probes/`) are no measurements, and are not counted.
Kills may be kept to the stage in which settings are tried (`tuning`).
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.log_reader import read_state
from labwright.record.reducers.run_state import RunState
from labwright.record.tuning_results import collect_trial_results
from tests.faults.http_study import SMALL_SETTINGS, make_study_script
from tests.faults.run_comparison import comparable_latex, comparable_tree
from tests.faults.run_killer import KilledRun
from tests.models.openai_server import OpenAIServer
from tests.stages.cell_study import make_cell_model

KILLS, KILLS_PER_RUN, IN_TUNING = 60, 20, 20
"""How many kills in all, in one run at most (each is then taken to its end), and where all are inside of tuning."""
MAX_DELAY_SECONDS = 1.0
"""A process is killed within as many times as long after it began a cell as the whole run takes for one, on average."""


@dataclass
class LostWork:
    """What kills of one run cost, in executions of cells."""

    killed: KilledRun
    in_flight: list[list[str]] = field(default_factory=list[list[str]])
    """At each kill: begun and not committed."""
    wrong: list[str] = field(default_factory=list[str])
    """Cells that began again after they had been committed."""

    def record_process(self, before: int, committed: list[str]) -> None:
        """After a process, which began its cells `before` others on, and found these committed."""
        begun, known = self.killed.list_begun(), Counter(name for cut in self.in_flight for name in cut)
        self.wrong += [name for name in begun[before:] if name in committed]
        now = Counter(name for name, _ in self.killed.list_executed())
        self.in_flight.append(sorted((Counter(begun) - now - known).elements()))


def measure_kills(runs: Path, *, kills: int = KILLS, seed: int = 0, tuning: bool = False) -> dict[str, Any]:
    """So many kills over as many runs as that takes: what was begun, lost and done twice, and what came of it.

    With `tuning` a process is killed amid cells of trials alone.
    """
    noted, done = runs / "noted", list[dict[str, Any]]()
    with OpenAIServer(make_study_script(noted, model=make_cell_model)) as server:
        whole, began = KilledRun(runs / "whole", server, noted), time.monotonic()
        state = whole.run_to_end()
        within = MAX_DELAY_SECONDS * (time.monotonic() - began) / len(whole.list_begun())
        rng = Random(seed)
        while (left := kills - sum(len(one["kills"]) for one in done)) > 0:
            moments = [rng.uniform(0.0, within) for _ in range(min(left, KILLS_PER_RUN))]
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
        "trials": len(state.trials),
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
    killed: KilledRun, moments: list[float], *, whole: KilledRun, reference: RunState, tuning: bool
) -> dict[str, Any]:
    """One run that is killed at these moments (seconds), or until it ends, and is taken to its end."""
    lost = LostWork(killed)
    for seconds in (*moments, None):
        if seconds is not None and tuning and killed.kills and _is_tuned(read_state(killed.run)):
            continue
        before, committed = len(killed.list_begun()), [name for name, _ in killed.list_executed()]
        alive = seconds is not None and killed.kill_amid_cells(seconds, "__t" if tuning else "")
        if seconds is None:
            killed.run_to_end()
        lost.record_process(before, committed)
        if not alive:
            break
    state, executed = read_state(killed.run), killed.list_executed()
    return {
        "kills": killed.kills,
        "begun": len(killed.list_begun()),
        "committed": len(executed),
        "in_flight": [len(one) for one in lost.in_flight],
        "most_in_flight": SMALL_SETTINGS["search.num_workers"],
        "committed_and_begun_again": lost.wrong,
        "committed_twice": len(executed) - len({id for _, id in executed}) + len(executed) - len(dict(executed)),
        "same_tree": comparable_tree(state) == comparable_tree(reference),
        "same_choice": _list_choices(state) == _list_choices(reference),
        "same_claims": compute_paper_claims(state) == compute_paper_claims(reference),
        "same_latex": comparable_latex(killed.run) == comparable_latex(whole.run),
        "asked_again": killed.count_repeated_requests(),
        "done_twice": killed.find_repeated(),
        "damaged": killed.damaged,
    }


def _is_tuned(state: RunState) -> bool:
    """Whether no trial is left to measure in the stage of tuning."""
    return state.stages["tuning"].is_settled or any(node.kind == "tune" for node in state.nodes.values())


def _list_choices(state: RunState) -> list[object]:
    """Every trial with what it came to, and the trial that each node runs with; without times."""
    return [
        *(one.model_copy(update={"seconds": 0.0}) for one in collect_trial_results(state)),
        *(node.trials for node in state.nodes.values()),
    ]


def cells_are_intact(found: dict[str, Any]) -> bool:
    """Whether only what was in flight was repeated, and nothing differs."""
    return all(
        one["same_tree"]
        and one["same_choice"]
        and one["same_claims"]
        and one["same_latex"]
        and max(one["in_flight"]) <= one["most_in_flight"]
        and one["begun"] == one["committed"] + sum(one["in_flight"])
        and not one["in_flight"][-1]
        and not (
            one["committed_and_begun_again"]
            or one["committed_twice"]
            or one["asked_again"]
            or one["done_twice"]
            or one["damaged"]
        )
        for one in found["runs"]
    )
