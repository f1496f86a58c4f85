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

from labwright.record.claims.means import paper_claims
from labwright.record.fold.state import RunState
from labwright.record.reading import read_state
from labwright.record.tuning import results
from tests.faults.killing import Killed
from tests.faults.same import latex, tree
from tests.faults.served import SMALL, studying
from tests.models.openai_server import OpenAIServer
from tests.stages.celled_study import celled_model

KILLS, A_RUN, IN_TUNING = 60, 20, 20
"""How many kills in all, in one run at most (each is then taken to its end), and where all are inside of tuning."""
WITHIN = 1.0
"""A process is killed within as many times as long after it began a cell as the whole run takes for one, on average."""


@dataclass
class Lost:
    """What kills of one run cost, in executions of cells."""

    killed: Killed
    in_flight: list[list[str]] = field(default_factory=list[list[str]])
    """At each kill: begun and not committed."""
    wrong: list[str] = field(default_factory=list[str])
    """Cells that began again after they had been committed."""

    def look(self, before: int, committed: list[str]) -> None:
        """After a process, which began its cells `before` others on, and found these committed."""
        begun, known = self.killed.begun(), Counter(name for cut in self.in_flight for name in cut)
        self.wrong += [name for name in begun[before:] if name in committed]
        now = Counter(name for name, _ in self.killed.executed())
        self.in_flight.append(sorted((Counter(begun) - now - known).elements()))


def celled_kills(runs: Path, *, kills: int = KILLS, seed: int = 0, tuning: bool = False) -> dict[str, Any]:
    """So many kills over as many runs as that takes: what was begun, lost and done twice, and what came of it.

    With `tuning` a process is killed amid cells of trials alone.
    """
    noted, done = runs / "noted", list[dict[str, Any]]()
    with OpenAIServer(studying(noted, model=celled_model)) as server:
        whole, began = Killed(runs / "whole", server, noted), time.monotonic()
        state = whole.to_its_end()
        within = WITHIN * (time.monotonic() - began) / len(whole.begun())
        rng = Random(seed)
        while (left := kills - sum(len(one["kills"]) for one in done)) > 0:
            moments = [rng.uniform(0.0, within) for _ in range(min(left, A_RUN))]
            done.append(
                _run(
                    Killed(runs / f"killed{len(done) + 1}", server, noted),
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
        "cells": len(whole.executed()),
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


def _run(killed: Killed, moments: list[float], *, whole: Killed, reference: RunState, tuning: bool) -> dict[str, Any]:
    """One run that is killed at these moments (seconds), or until it ends, and is taken to its end."""
    lost = Lost(killed)
    for seconds in (*moments, None):
        if seconds is not None and tuning and killed.kills and _tuned(read_state(killed.run)):
            continue
        before, committed = len(killed.begun()), [name for name, _ in killed.executed()]
        alive = seconds is not None and killed.amid_cells(seconds, "__t" if tuning else "")
        if seconds is None:
            killed.to_its_end()
        lost.look(before, committed)
        if not alive:
            break
    state, executed = read_state(killed.run), killed.executed()
    return {
        "kills": killed.kills,
        "begun": len(killed.begun()),
        "committed": len(executed),
        "in_flight": [len(one) for one in lost.in_flight],
        "most_in_flight": SMALL["search.num_workers"],
        "committed_and_begun_again": lost.wrong,
        "committed_twice": len(executed) - len({id for _, id in executed}) + len(executed) - len(dict(executed)),
        "same_tree": tree(state) == tree(reference),
        "same_choice": _choices(state) == _choices(reference),
        "same_claims": paper_claims(state) == paper_claims(reference),
        "same_latex": latex(killed.run) == latex(whole.run),
        "asked_again": killed.asked_again(),
        "done_twice": killed.twice(),
        "damaged": killed.damaged,
    }


def _tuned(state: RunState) -> bool:
    """Whether no trial is left to measure in the stage of tuning."""
    return state.stages["tuning"].settled or any(node.kind == "tune" for node in state.nodes.values())


def _choices(state: RunState) -> list[object]:
    """Every trial with what it came to, and the trial that each node runs with; without times."""
    return [
        *(one.model_copy(update={"seconds": 0.0}) for one in results(state)),
        *(node.trials for node in state.nodes.values()),
    ]


def cells_hold(found: dict[str, Any]) -> bool:
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
