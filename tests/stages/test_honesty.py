"""A suspect node through the real stage: flagged, mended by its child, out of the claims; and the probe of a winner."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from benchmarks.scripted_study import make_measurements
from labwright.models.backend import ModelRequest
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import PlotInputs, Plots
from labwright.models.roles.node_assessment import CodeReaderInputs, CodeReading
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import find_winner
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import PlanPrepared
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Cell, CodeDoubt, Node
from labwright.review.honesty.label_probe import (
    PROBE_FILE,
    ROW_PROBE_SCRIPT,
    build_probe_script,
    find_arms_ignoring_labels,
    judge_label_permutation,
    judge_row_replacement,
)
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.scoring import compute_constants, read_final_predictions
from labwright.sandbox.settings import SandboxSettings
from labwright.search.settings import SearchSettings
from labwright.stages.cost_table import CostTable
from labwright.stages.evidence.scoring import probe_winners, score_tests, select_cells
from labwright.stages.nodes.node_plots import PlotArrays, draw_plots
from labwright.stages.paper.appendix import render_incidents
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from labwright.stages.stage_runner import NoWorkingNodeError
from tests.fake_executor import FakeExecutor
from tests.jobs import run_job
from tests.programs import program_files
from tests.stages.small_study import PLAN, experiment_code
from tests.stages.test_nodes import agenda, program_or_plots, search
from tests.stages.test_prompt_inputs import Story, cells

Asked = Callable[[ModelRequest], BaseModel]
STANDING = 'print("measured")'


async def test_a_score_of_withheld_rows_makes_a_node_suspect_which_is_debugged_and_disclosed(tmp_path: Path) -> None:
    asked: list[CodeInputs] = []

    def model(request: ModelRequest) -> BaseModel:
        if isinstance(request.inputs, CodeInputs):
            asked.append(request.inputs)
        return program_or_plots(request)

    values = tuple(one.model_copy(update={"grade": "logged"}) for one in make_measurements(0.5))

    def said(job: Job) -> JobOutcome | None:
        return JobOutcome(seconds=1, measurements=values) if job.kind == "experiment" else None

    bench, _ = search(tmp_path, said, nodes=3, model=model)
    facts = DatasetFacts(
        name="digits", source="sklearn:load_digits", features=64, classes=10, sizes={}, fingerprint="", seed=0
    )
    bench.recorder.append(PlanPrepared(data_plan=bench.plan, datasets=(facts,)))
    first, *others = await agenda(bench)
    assert first.status == "buggy" and first.failure is not None and first.failure.kind == "suspect"
    assert [one.kind for one in first.findings] == ["unseen labels"] and "lab.submit" in first.failure.message
    assert any(node.kind == "debug" and node.parent == first.id for node in others)
    parent = next(one.parent for one in asked if one.kind == "debug")
    assert parent is not None and "lab.submit" in str(parent.node.findings[0])
    assert "cannot have the labels" in render_incidents(bench.state)


def outcome(job: Job) -> JobOutcome | None:
    return None


async def test_the_winner_is_probed_once_and_what_does_not_move_is_out(tmp_path: Path) -> None:
    bench, jobs = search(tmp_path, outcome)
    await agenda(bench)
    await probe_winners(bench)
    await probe_winners(bench)
    probes = [(one.probe, one.outcome) for one in bench.state.search.probes]
    assert probes[0] == ("labels", "unclear") and not [j for j in jobs if j.entry == PROBE_FILE]
    assert probes[1:] == [("rows", "unclear")] * (len(probes) - 1)
    assert [one.verdict for one in bench.state.search.code_readings] == ["not read"] * len(
        bench.state.search.code_readings
    )
    assert "does not read labels" in render_incidents(bench.state)


async def test_without_a_level_of_chance_the_label_probe_says_so(tmp_path: Path) -> None:
    def reads_labels(request: ModelRequest) -> BaseModel:
        if not isinstance(request.inputs, CodeInputs):
            return program_or_plots(request)
        files = program_files(f"data.y  # {request.inputs.ordinal}\n", "# plots")
        return Program(title="t", plan="p", varies=f"a{request.inputs.ordinal}", files=files)

    bench, _ = search(tmp_path, outcome, model=reads_labels)
    await agenda(bench)
    await probe_winners(bench)
    probe = bench.state.search.probes[0]
    assert (probe.probe, probe.outcome) == ("labels", "unclear")
    assert probe.why == "the record has no log_loss of predictions that ignore the inputs"


Verdict = Literal["honest", "doubtful", "dishonest"]


def reading(*doubts: CodeDoubt, verdict: Verdict = "dishonest", again: CodeReading | None = None) -> Asked:
    """A model whose second reading is `again`, or as the first."""

    def model(request: ModelRequest) -> BaseModel:
        if isinstance(request.inputs, CodeReaderInputs):
            assert "# " not in "".join(request.inputs.files.values())
            return again if again is not None and request.inputs.again else CodeReading(doubts=doubts, verdict=verdict)
        if isinstance(request.inputs, CodeInputs):
            return Program(
                title="t",
                plan="p",
                varies=f"a{request.inputs.ordinal}",
                files=program_files(f"{STANDING}  # as it should be\n", "# plots"),
            )
        return program_or_plots(request)

    return model


async def read_with(model: Asked, tmp_path: Path) -> RunContext:
    """A bench whose winner was read."""
    bench, _ = search(tmp_path, outcome, model=model)
    await agenda(bench)
    await probe_winners(bench)
    return bench


def doubt(line: int, quote: str) -> CodeDoubt:
    return CodeDoubt(
        kind="made up",
        file="experiment.py",
        first=line,
        last=line,
        quote=quote,
        what="It is typed.",
        honest="Measure it.",
    )


async def test_two_readings_that_agree_make_a_node_suspect(tmp_path: Path) -> None:
    bench = await read_with(reading(doubt(1, STANDING)), tmp_path)
    first = bench.state.search.code_readings[0]
    assert (first.verdict, len(first.doubts), first.dropped, first.second) == ("dishonest", 1, 0, "dishonest")
    node = bench.state.nodes[first.node]
    assert node.suspect and [(one.kind, one.line) for one in node.findings] == [("read: made up", 1)]
    assert find_winner(bench.state) != first.node and "It is typed" in render_incidents(bench.state)
    assert bench.state.search.code_readings[1].node == find_winner(bench.state), "what takes its place is read, too"


@pytest.mark.parametrize(
    "again",
    [
        CodeReading(
            verdict="dishonest",
            doubts=(
                CodeDoubt(kind="leak", file="other.py", first=1, last=1, quote=STANDING, what="w", honest="h"),
                CodeDoubt(
                    kind="leak", file="experiment.py", first=1, last=1, quote="rng.normal()", what="w", honest="h"
                ),
            ),
        )
    ],
)
async def test_a_second_reading_that_does_not_agree_leaves_the_node(tmp_path: Path, again: CodeReading) -> None:
    bench = await read_with(reading(doubt(1, STANDING), again=again), tmp_path)
    first = bench.state.search.code_readings[0]
    assert first.verdict == "dishonest" and first.second in ("honest", "doubtful")
    assert not bench.state.nodes[first.node].suspect and find_winner(bench.state) == first.node
    assert "It is typed" in render_incidents(bench.state), "it is disclosed"


async def test_a_resumed_run_reads_no_code_again(tmp_path: Path) -> None:
    bench = await read_with(reading(doubt(1, STANDING), again=CodeReading(verdict="honest")), tmp_path)
    readings = list(bench.state.search.code_readings)
    await probe_winners(bench)
    assert bench.state.search.code_readings == readings


async def test_doubts_that_do_not_stand_at_their_lines_are_dropped_and_counted(tmp_path: Path) -> None:
    bench = await read_with(reading(doubt(1, "rng.normal()"), doubt(999, STANDING)), tmp_path)
    first = bench.state.search.code_readings[0]
    assert (first.verdict, first.doubts, first.dropped) == ("doubtful", (), 2)
    assert not bench.state.nodes[first.node].suspect and "doubts dropped" in render_incidents(bench.state)


async def test_where_every_best_is_suspect_the_run_ends_without_a_paper_and_says_why(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, outcome)
    await agenda(bench)
    while (best := find_winner(bench.state)) is not None and not bench.state.nodes[best].suspect:
        bench.recorder.append(CommandReceived(verb="mark", target=best, text="typed numbers"))
    with pytest.raises(NoWorkingNodeError, match=r"every stage is suspect.*typed numbers"):
        await score_tests(bench)
    assert (
        not bench.state.search.test_measurements
    )  # agent.run makes exit 4 of it, "paper not released", with this reason


def test_the_cells_that_are_probed_are_chosen_with_those_that_they_read() -> None:
    a1, b1, a2, b2, c2 = (Cell(dataset="iris", arm=name[0], level=name[1]) for name in ("a1", "b1", "a2", "b2", "c2"))
    assert select_cells((a1, b1, a2, b2), {"b": "a"}) == [a1, b1]
    assert select_cells((a1, b1, a2, b2, c2), {"c": "b", "b": "a"}) == [a1, b1, a2, b2, c2]
    assert select_cells((a1, b1, b2, c2), {}) == [a1, b1, c2] and select_cells((), {}) == []
    assert select_cells((b1, a1), {"a": "b", "b": "a"}) == [b1, a1]


def test_the_search_leaves_gpu_time_for_the_probe_and_the_fresh_seeds() -> None:
    table = CostTable(
        ModelSettings(), SearchSettings(), PaperSettings(), node_seconds=100.0, gpus=lambda: 2, grace_seconds=10.0
    )
    state, fresh = RunState(), SearchSettings().count_seeds("agenda")
    state.search.data_plan = PLAN
    state.nodes["n0001"] = Node(
        id="n0001", parent=None, decision=1, stage="preliminary", kind="draft", seed=0, status="good"
    )
    most = table.compute_attempt_cost(100.0).gpu_seconds
    probe, ablation, likely = 1, 1 + fresh, 2 * min(PLAN.expected_seconds, 100.0)
    aside, replicate = table.compute_set_aside(state), ExpandTree(stage="agenda", kind="replicate", seed=9)
    assert aside.gpu_seconds == pytest.approx((probe + ablation + fresh) * likely + most - likely)
    assert table.compute_set_aside(state, action=replicate).gpu_seconds < aside.gpu_seconds


async def test_plots_with_typed_numbers_are_drawn_again_and_refused_where_they_stay(tmp_path: Path) -> None:
    typed = 'import matplotlib.pyplot as plt\nplt.bar(["a", "b"], [0.91, 0.87])\n'
    story, told = Story(tmp_path), list[PlotInputs]()

    def again(inputs: PlotInputs) -> Plots:
        told.append(inputs)
        return Plots(plots=typed)

    node = story.finish(story.decide("draft"), cells(0.5, 0.4))
    (story.bench.folder.get_source_path(node) / "plots.py").write_text(typed)
    models = Models(ScriptedModel.from_role_functions(plot=again), story.log, ModelSettings(), time.monotonic)
    bench = replace(story.bench, models=models, executor=FakeExecutor(unused))
    failure = await draw_plots(bench, bench.models.make_client(1, 0), PlotArrays(node))
    assert failure is not None and failure.kind == "figure" and "typed into the script" in failure.message
    assert len(told) == bench.paper.replots and "line 2" in told[0].complaints[0]
    assert [len(one.figures) for one in story.log.state.nodes[node].plottings] == [0] * (bench.paper.replots + 1)


def unused(job: Job) -> tuple[float, JobOutcome]:
    raise AssertionError(f"{job.name} was run")


STORED_MODEL = """
means = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])  # fitted elsewhere
fit = np.stack([data.train.x[data.train.y == c].mean(0) for c in range(3)])  # not used
features = lambda points: points
"""
ROWS_TO_PREDICT = """
means = np.stack([(data.train.x[data.train.y == c] - data.train.x.mean(0)).mean(0) for c in range(3)])
features = lambda points: points - points.mean(0)
"""
PREDICT = """
for split in ("validation", "test"):
    points = features(getattr(data, split).x)
    p = np.exp(-((points[:, None] - means[None]) ** 2).sum(-1)) + 1e-9
    lab.submit("iris", split, "method", probabilities=p / p.sum(1, keepdims=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "labels_found", "rows_found"),
    [
        (experiment_code(), False, False),
        (f'import lab\nimport numpy as np\ndata = lab.data("iris")\n{STORED_MODEL}{PREDICT}', True, False),
        (f'import lab\nimport numpy as np\ndata = lab.data("iris")\n{ROWS_TO_PREDICT}{PREDICT}', False, True),
    ],
    ids=["honest", "stored model", "rows to predict"],
)
async def test_each_probe_finds_a_cheat_that_the_other_does_not(
    tmp_path: Path, code: str, labels_found: bool, rows_found: bool
) -> None:
    views, labels, metric = tmp_path / "views", tmp_path / "labels", PLAN.primary_metric
    materialise("iris", views=views, labels=labels, seed=1)
    executor = LocalExecutor(2, views, labels=labels, cache=tmp_path / "c", settings=SandboxSettings(isolation="auto"))
    source = {"experiment.py": code}
    probes = {"plain": {}, "labels": {PROBE_FILE: build_probe_script()}, "rows": {PROBE_FILE: ROW_PROBE_SCRIPT}}
    try:
        jobs = [
            Job(
                name=name,
                folder=tmp_path / name,
                source=source | changed,
                entry=PROBE_FILE if changed else "experiment.py",
                datasets=("iris",),
            )
            for name, changed in probes.items()
        ]
        plain, permuted, _ = outcomes = [await run_job(executor, job) for job in jobs]
    finally:
        await executor.close()
    assert [one.failure for one in outcomes] == [None] * 3
    before, after, replaced = (read_final_predictions(tmp_path / name, labels) for name in probes)
    chance = compute_constants(labels, [metric])[metric.name]
    learned = judge_label_permutation(plain.measurements, permuted.measurements, metric=metric, chance=chance)
    found = bool(find_arms_ignoring_labels(before, after, PLAN)) or learned.outcome == "still"
    assert (found, judge_row_replacement(before, replaced, PLAN).outcome == "still") == (labels_found, rows_found)
