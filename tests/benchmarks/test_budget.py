"""The simulation of budgets plays whole runs."""

from __future__ import annotations

from benchmarks.budget import simulate


def test_a_simulated_run_with_room_gets_a_paper_within_its_cap() -> None:
    run = simulate((50.0, 0))
    assert run["outcome"] == "paper" and not run["overspent"] and 0 < run["bill"] <= 50
