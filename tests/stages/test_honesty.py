"""A suspect node through the real stage: flagged, mended by its child, out of the claims; and the probe of a winner."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from benchmarks.studies import measured
from labwright.models.backend import ModelRequest
from labwright.models.client import Models
from labwright.models.roles.coding import CodeInputs, Program
from labwright.models.roles.figures import PlotInputs, Plots
from labwright.models.roles.reading import CodeReaderInputs, CodeReading
from labwright.models.scripted import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.claims.means import paper_claims, trusted_replicates, winner
from labwright.record.events.running import Commanded
from labwright.record.events.searching import Prepared, Probed, Suspected
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.code_reading import CodeDoubt
from labwright.record.nouns.data import DatasetFacts
from labwright.record.nouns.nodes import Finding
from labwright.review.honesty.probe import ENTRY, TASK, program
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job, Outcome
from labwright.sandbox.scoring import chance_level, final_predictions
from labwright.sandbox.scripted import ScriptedExecutor
from labwright.sandbox.settings import SandboxSettings
from labwright.search.settings import RETRY_FACTOR, SearchSettings
from labwright.stages.bench import Bench
from labwright.stages.evidence.probing import chosen_cells, probe_winners
from labwright.stages.evidence.scoring import frozen, score_tests
from labwright.stages.nodes.canvas import Canvas
from labwright.stages.nodes.plotting import draw
from labwright.stages.paper.appendix import incidents
from labwright.stages.settings import PaperSettings
from labwright.stages.shares import RunShares
from labwright.stages.stage import NothingWorkedError
from tests.programs import files
from tests.stages.small_study import experiment
from tests.stages.test_nodes import agenda, program_or_plots, search
from tests.stages.test_prompt_inputs import Story, cells

Asked = Callable[[ModelRequest], BaseModel]
STANDING = 'print("measured")'
TYPED = 'import lab\nlab.result("accuracy", 0.97, condition="method", dataset="digits")\n'


async def test_a_suspect_node_is_debugged_and_disclosed(tmp_path: Path) -> None:
    told: list[CodeInputs] = []

    def model(request: ModelRequest) -> BaseModel:
        if isinstance(request.inputs, CodeInputs):
            told.append(request.inputs)
            if request.inputs.kind != "debug":
                return Program(
                    title="typed", plan="typed", varies=f"a{request.inputs.ordinal}", files=files(TYPED, "# plots")
                )
        return program_or_plots(request)

    bench, _ = search(tmp_path, lambda job: None, nodes=3, model=model)
    first, *others = await agenda(bench)
    assert first.status == "buggy" and first.failure is not None and first.failure.kind == "suspect"
    assert [(one.kind, one.line) for one in first.findings] == [("constant", 2)] and len(first.suspect) == 1
    mending = [node for node in others if node.kind == "debug"]
    assert mending and mending[0].parent == first.id
    parent = next(one.parent for one in told if one.kind == "debug")
    assert parent is not None and "line 2" in parent.findings[0]
    assert "made of numbers in the source" in incidents(bench.state)


async def test_a_score_said_of_withheld_rows_makes_a_node_suspect_whatever_its_source_looks_like(
    tmp_path: Path,
) -> None:
    values = tuple(one.model_copy(update={"grade": "logged"}) for one in measured(0.5))

    def said(job: Job) -> Outcome | None:
        return Outcome(seconds=1, measurements=values) if job.mode == "experiment" else None

    bench, _ = search(tmp_path, said)
    facts = DatasetFacts(
        name="digits", source="sklearn:load_digits", features=64, classes=10, sizes={}, fingerprint="", seed=0
    )
    bench.recorder.append(Prepared(data_plan=bench.plan, datasets=(facts,)))
    first, *_ = await agenda(bench)
    assert first.status == "buggy" and first.failure is not None and first.failure.kind == "suspect"
    assert [one.kind for one in first.findings] == ["unseen labels"] and "lab.submit" in first.failure.message


def outcome(job: Job) -> Outcome | None:
    return None


async def test_the_winner_is_probed_once_and_what_does_not_move_is_out(tmp_path: Path) -> None:
    bench, jobs = search(tmp_path, outcome)
    await agenda(bench)
    await probe_winners(bench)
    await probe_winners(bench)
    probes = [(one.probe, one.outcome) for one in bench.state.probes]
    assert probes[:2] == [("seed", "unclear"), ("labels", "unclear")] and not [j for j in jobs if j.entry == ENTRY]
    assert probes[2:] == [("rows", "unclear"), ("arms", "unclear")] + [("rows", "unclear")] * (len(probes) - 4)
    assert [one.verdict for one in bench.state.readings] == ["not read"] * len(bench.state.readings)
    assert "reads no labels" in incidents(bench.state)


def reading(*doubts: CodeDoubt, verdict: Literal["honest", "doubtful", "dishonest"] = "dishonest") -> Asked:
    def model(request: ModelRequest) -> BaseModel:
        if isinstance(request.inputs, CodeReaderInputs):
            assert "# " not in "".join(request.inputs.files.values())
            return CodeReading(doubts=doubts, verdict=verdict)
        if isinstance(request.inputs, CodeInputs):
            return Program(
                title="t",
                plan="p",
                varies=f"a{request.inputs.ordinal}",
                files=files(f"{STANDING}  # as it should be\n", "# plots"),
            )
        return program_or_plots(request)

    return model


async def read_with(model: Asked, tmp_path: Path, *, signs: tuple[Finding, ...] = ()) -> Bench:
    """A bench whose winner was read."""
    bench, _ = search(tmp_path, outcome, model=model)
    await agenda(bench)
    best = winner(bench.state)
    assert best is not None
    if signs:
        bench.recorder.append(Suspected(node=best, findings=signs))
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


SIGN = Finding(kind="equal arms", why="the arms are equal", suspect=False, sign="run")


async def test_a_reader_alone_is_told_and_costs_nothing(tmp_path: Path) -> None:
    bench = await read_with(reading(doubt(1, STANDING)), tmp_path)
    first = bench.state.readings[0]
    assert (first.verdict, len(first.doubts), first.dropped) == ("dishonest", 1, 0)
    node = bench.state.nodes[first.node]
    assert not node.suspect and [one.sign for one in node.findings] == ["reader"]
    assert "It is typed" in incidents(bench.state) and winner(bench.state) == first.node


async def test_a_reader_and_a_fact_of_the_run_make_a_node_suspect(tmp_path: Path) -> None:
    bench = await read_with(reading(doubt(1, STANDING)), tmp_path, signs=(SIGN,))
    first = bench.state.readings[0]
    assert bench.state.nodes[first.node].suspect and winner(bench.state) != first.node
    assert bench.state.readings[1].node == winner(bench.state), "what takes its place is read, too"


async def test_doubts_that_do_not_stand_at_their_lines_are_dropped_and_counted(tmp_path: Path) -> None:
    bench = await read_with(reading(doubt(1, "rng.normal()"), doubt(999, STANDING)), tmp_path, signs=(SIGN,))
    first = bench.state.readings[0]
    assert (first.verdict, first.doubts, first.dropped) == ("doubtful", (), 2)
    assert not bench.state.nodes[first.node].suspect and "doubts dropped" in incidents(bench.state)


async def test_a_suspect_winner_gives_way_to_the_one_before(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, outcome)
    await agenda(bench)
    best = winner(bench.state)
    assert best is not None
    bench.recorder.append(Commanded(verb="mark", target=best, text="typed numbers"))
    after = winner(bench.state)
    assert trusted_replicates(bench.state, best) == [] and best not in [node.id for node in frozen(bench.state)]
    assert after != best or paper_claims(bench.state) == []


async def test_where_every_best_is_suspect_the_run_ends_without_a_paper_and_says_why(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, outcome)
    await agenda(bench)
    while (best := winner(bench.state)) is not None and not bench.state.nodes[best].suspect:
        bench.recorder.append(Commanded(verb="mark", target=best, text="typed numbers"))
    with pytest.raises(NothingWorkedError, match=r"every stage is suspect.*typed numbers"):
        await score_tests(bench)
    assert not bench.state.tests  # agent.run makes exit 4 of it, "paper not released", with this reason


def test_the_cells_that_are_probed_are_chosen_with_those_that_they_read() -> None:
    a1, b1, a2, b2, c2 = (Cell(dataset="iris", arm=name[0], level=name[1]) for name in ("a1", "b1", "a2", "b2", "c2"))
    assert chosen_cells((a1, b1, a2, b2), {"b": "a"}) == (a1, b1)
    assert chosen_cells((a1, b1, a2, b2, c2), {"c": "b", "b": "a"}) == (a1, b1, a2, b2, c2)
    assert chosen_cells((a1, b1, b2, c2), {}) == (a1, b1, c2) and chosen_cells((), {}) == ()
    assert chosen_cells((b1, a1), {"a": "b", "b": "a"}) == (b1, a1)


def test_what_a_probe_takes_of_the_gpus_is_left_free_from_the_start() -> None:
    shares = RunShares(
        ModelSettings(), SearchSettings(), PaperSettings(), node_seconds=100.0, gpus=lambda: 2, grace=10.0
    )
    assert shares.steps()[TASK].gpu_seconds == shares.attempt(100.0 * RETRY_FACTOR).gpu_seconds
    assert shares.paper_share.gpu_seconds > 0


async def test_plots_with_typed_numbers_are_drawn_again_and_refused_where_they_stay(tmp_path: Path) -> None:
    typed = 'import matplotlib.pyplot as plt\nplt.bar(["a", "b"], [0.91, 0.87])\n'
    story, told = Story(tmp_path), list[PlotInputs]()

    def again(inputs: PlotInputs) -> Plots:
        told.append(inputs)
        return Plots(plots=typed)

    node = story.finish(story.decide("draft"), cells(0.5, 0.4))
    (story.bench.folder.source(node) / "plots.py").write_text(typed)
    models = Models(ScriptedModel.by_role(plot=again), story.log, ModelSettings(), time.monotonic)
    bench = replace(story.bench, models=models, executor=ScriptedExecutor(unused))
    failure = await draw(bench, bench.models.at(1, 0), Canvas(node))
    assert failure is not None and failure.kind == "figure" and "typed into the script" in failure.message
    assert len(told) == bench.paper.replots and "line 2" in told[0].complaints[0]
    assert [len(one.figures) for one in story.log.state.nodes[node].plottings] == [0] * (bench.paper.replots + 1)


def unused(job: Job) -> tuple[float, Outcome]:
    raise AssertionError(f"{job.name} was run")


@pytest.mark.slow
async def test_code_that_learns_is_probed_in_a_kernel_and_passes(tmp_path: Path) -> None:
    from labwright.review.honesty.probe import labels_probe, without_labels
    from labwright.review.honesty.row_probe import PROGRAM as ROWS
    from labwright.review.honesty.row_probe import rows_probe
    from tests.stages.small_study import PLAN

    views, labels = tmp_path / "views", tmp_path / "labels"
    materialise("iris", views=views, labels=labels, seed=1)
    executor = LocalExecutor(
        2, views, labels=labels, cache=tmp_path / "c", settings=SandboxSettings(isolation="auto", pool=0)
    )
    source = {"experiment.py": experiment()}
    try:
        plain = await executor.run(Job(name="plain", folder=tmp_path / "a", source=source, datasets=("iris",)))
        rows = await executor.run(
            Job(name="rows", folder=tmp_path / "r", source=source | {ENTRY: ROWS}, entry=ENTRY, datasets=("iris",))
        )
        permuted = await executor.run(
            Job(
                name="permuted",
                folder=tmp_path / "b",
                source=source | {ENTRY: program()},
                entry=ENTRY,
                datasets=("iris",),
            )
        )
    finally:
        await executor.close()
    assert plain.failure is None and permuted.failure is None, (plain.failure, permuted.failure)
    found = labels_probe(
        plain.measurements, permuted.measurements, metric=PLAN.primary, chance=chance_level(labels, PLAN.primary.name)
    )
    assert found.outcome == "moved", found
    first, second, third = (final_predictions(tmp_path / name, labels) for name in "arb")
    assert rows.failure is None and rows_probe(first, second, PLAN).outcome == "moved"
    assert without_labels(first, third, PLAN) == ()


def test_a_probe_is_an_event_that_reads_back() -> None:
    from labwright.record.events import EVENT

    one = Probed(node="n0001", probe="seed", outcome="still", why="the same")
    assert EVENT.validate_json(one.model_dump_json()) == one
