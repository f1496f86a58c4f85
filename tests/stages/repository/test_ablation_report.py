"""The report of an ablation: the baseline of the percentages, verdicts with what was detectable, and what was left."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from labwright.agent.cli.run import format_findings
from labwright.record.claims.estimates import compute_p_value
from labwright.record.claims.part_effects import compare_arms
from labwright.record.events.repository_events import (
    AblationsConcluded,
    BaselineChecked,
    CommandFound,
    MutationTried,
    PartsFound,
    RepairMade,
    RepositoryImported,
)
from labwright.record.events.run_events import RunStarted
from labwright.record.reducers.run_state import AblationState, RepositoryState, RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Attempt, Node
from labwright.record.schema.repository import PartResult, RepositoryCommand, UnexaminedPart
from labwright.stages.repository.ablation_report import (
    NO_OPTIMIZER,
    REPORT_FILE,
    RESULTS_FILE,
    SECTION_FILE,
    WHOLE_TRAINING,
    MeasuredPart,
    build_report_files,
    build_results,
)
from tests.models.examples import IDEA

FRESH = {1000: (10.0, 9.0), 1001: (12.0, 12.5), 1002: (11.0, 9.5), 1003: (9.0, 10.0), 1004: (13.0, 12.0)}
"""Seed -> result of the baseline and of the arm without the part."""


def build_nodes(name: str, parent: str | None, values: dict[int, float]) -> dict[str, Node]:
    """Return the node of an arm and its replicates by id; the first value is that of the node itself."""
    found: dict[str, Node] = {}
    for seed, value in values.items():
        measured = Measurement(
            name="score", value=value, condition=name, dataset="d", split="validation", seed=seed, grade="logged"
        )
        node = Node(
            id=f"{name}{seed}" if found else name,
            decision=1,
            parent=name if found else parent,
            stage="ablation",
            kind="replicate" if found else "ablate",
            seed=seed,
            source_sha256=name,
            status="good",
            attempts=(Attempt(number=1, measurements=(measured,)),),
        )
        found[node.id] = node
    return found


def build_state() -> RunState:
    imported = RepositoryImported(repository="/r/toy", commit="c" * 40, tree="t", files=1, bytes=1)
    command = RepositoryCommand(argv=("python", "run.py", "{seed}"), metric="stdout:score: (.*)")
    state = RunState(
        nodes=build_nodes("baseline", None, {0: 3.0, 1: 5.0} | {seed: one for seed, (one, _) in FRESH.items()})
        | build_nodes("without", "baseline", {seed: other for seed, (_, other) in FRESH.items()}),
        repository=RepositoryState(
            imported=imported,
            command=CommandFound(command=command, by="model", why="the first words of a longer reason ..."),
            baseline=BaselineChecked(
                tree="t", node="baseline", seeds=(0, 1), mean=4.0, spread=None, verdict="unchecked", same_seed=None
            ),
        ),
    )
    row = PartResult(
        part="max",
        node="without",
        key="diff/d/score/baseline~without",
        mutation="mean",
        where="run.py:3",
        n=5,
        fresh=True,
        mean=0.4,
        relative=0.4 / 11,
        low=-0.9,
        high=1.7,
        p=0.4,
        called="no measurable difference",
        detectable=2.25,
    )
    rest = (UnexaminedPart(name="anneal", kind="author", why="off"), UnexaminedPart(name="log", kind="budget", why="w"))
    tried = MutationTried(part=WHOLE_TRAINING, way=0, node="", gate="no effect", why=NO_OPTIMIZER)
    state.ablation = AblationState(
        PartsFound(parts=(), rest=rest, budget=30),
        {(WHOLE_TRAINING, 0): tried},
        AblationsConcluded(results=(row,), top=(), runs=12),
    )
    return state


def test_there_is_no_interval_of_two_seeds_and_no_percentage_of_a_metric_that_was_negative() -> None:
    state = build_state()
    assert (found := compare_arms(state, "without")) is not None and found.relative == pytest.approx(0.4 / 11)
    assert found.effect.low is not None
    few = {node: one for node, one in state.nodes.items() if one.seed < 1002}
    assert (found := compare_arms(replace(state, nodes=few), "without")) is not None
    assert (found.effect.n, found.effect.low, found.effect.high) == (2, None, None)
    lower = change_values(state, lambda node, value: value - 10)
    assert (found := compare_arms(lower, "without")) is not None and found.relative is None


def change_values(state: RunState, change: Callable[[Node, float], float]) -> RunState:
    """Return the state with other results."""
    nodes = {
        node: one.model_copy(
            update={
                "attempts": (
                    Attempt(
                        number=1,
                        measurements=tuple(
                            each.model_copy(update={"value": change(one, each.value)}) for each in one.measurements
                        ),
                    ),
                )
            }
        )
        for node, one in state.nodes.items()
    }
    return replace(state, nodes=nodes)


def test_a_metric_that_spans_orders_of_magnitude_is_tested_by_ratios() -> None:
    """Losses of 1e-8 to .05: without the part each is a thousand times larger, which one large value would hide."""
    losses = (1e-8, 3e-6, 0.05, 2e-7, 4e-5)

    def change(node: Node, _value: float) -> float:
        loss = losses[node.seed % 5]
        return loss * (1000 + 40 * (node.seed % 3)) if "without" in (node.id, node.parent) else loss

    found = compare_arms(change_values(build_state(), change), "without")
    assert found is not None and found.p is not None and found.p < 1e-6
    assert found.log_ratio == pytest.approx(-math.log(1047), rel=0.01) and found.relative is None
    assert found.effect.low is None and (compute_p_value(found.effect.values) or 0.0) > 0.3
    (row,) = build_results([MeasuredPart("max", effect=found)], is_coarse=False)
    assert row.called == "harmful" and "tested as a ratio" in row.flag and row.detectable is None


def test_a_repair_is_shown_and_runs_of_its_command_are_paired() -> None:
    state = build_state()
    command = RepositoryCommand(argv=("python", "run.py", "--seed", "{seed}"), metric="stdout:score: (.*)")
    reason, patch = "the seed was a literal", "--- a/run.py\n+++ b/run.py\n"
    state.repository.repair = RepairMade(reason=reason, command=command, patch=patch, tree="t")
    found = state.repository.command
    assert found is not None
    state.repository.command = found.model_copy(update={"command": command.model_copy(update={"argv": ("python",)})})
    effect = compare_arms(state, "without")
    assert effect is not None and effect.p == compute_p_value(effect.effect.values), "runs of the repaired command pair"
    report = build_report_files(state)[REPORT_FILE]
    assert (
        f"\n{reason}\n" in report and f"````diff\n{patch}" in report and "    python run.py --seed {seed}\n" in report
    )


def test_the_report_says_what_percentages_relate_to_and_what_was_detectable() -> None:
    files = build_report_files(build_state())
    report = files[REPORT_FILE]
    assert "**not compared, since no value is given**: mean 4.000, standard deviation 1.414 over 2 of 2 seeds" in report
    assert "**Baseline on fresh seeds**: mean 11.000, standard deviation 1.581 over 5 seeds" in report
    assert "| interval, uncorrected | p, corrected |" in report and "uncorrected 95" in files[SECTION_FILE]
    assert "(+3.6%)" in report and "| no measurable difference (detectable: 2.250) |" in report
    assert (
        r"no measurable difference (detectable: \result{diff/d/score/baseline~without.detectable})"
        in (files[SECTION_FILE])
    )
    assert "diff/d/score/baseline~without.detectable" in files[RESULTS_FILE]
    assert f"A run without training, to compare large effects with, was not possible: {NO_OPTIMIZER}." in report
    assert "- anneal (left out by the author): off\n- log (beyond the budget): w\n" in report
    assert "a longer reason ...\n" in report and "not significant" not in report


def test_the_command_prints_the_baseline_every_effect_what_broke_and_why_the_rest_is_open() -> None:
    state = build_state()
    found = state.ablation.results
    assert found is not None and state.repository.baseline is not None
    row = found.results[0].model_copy(update={"flag": "together"})
    broken = row.model_copy(update={"part": "log", "node": "", "mean": None, "called": "breaks the program"})
    state.ablation.results = found.model_copy(update={"results": (row, broken), "stopped": "1 part has no verdict"})
    state.repository.baseline = state.repository.baseline.model_copy(update={"why": "no seed is set"})
    state.started = RunStarted(kind="ablation", idea=IDEA, settings={}, seed=0, version="0", model="m")
    baseline, effect, *rest = (line.plain for line in format_findings(state))
    assert baseline == "baseline unchecked: mean 4; no seed is set"
    assert effect.startswith("without: +0.4 [") and effect.endswith(", n = 5: no measurable difference (together)")
    assert rest == ["without log: breaks the program (together)", "1 part has no verdict"]
