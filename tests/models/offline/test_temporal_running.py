"""The study on temporal consistency in real kernels: the encoder runs, figures pass, faults fail as told."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from models.offline.coding import code
from models.offline.plotting import figures, plot
from models.roles import ArrayBrief, PlotInputs, Program
from review.figures import lint, refusing
from sandbox.datasets import materialise
from sandbox.executor import LocalExecutor
from sandbox.job import Job, Outcome
from sandbox.settings import SandboxSettings
from tests.models.offline.any_study import brief
from tests.models.offline.final import draw_final
from tests.models.offline.test_temporal import CASE, GRU

pytestmark = pytest.mark.slow

ABLATED = ("without-recurrence", "without-recurrence-or-penalty")


@pytest_asyncio.fixture
async def executor(tmp_path: Path) -> AsyncIterator[LocalExecutor]:
    for name in CASE.names:
        materialise(name, views=tmp_path / "views", labels=tmp_path / "labels", seed=1)
    kernels = LocalExecutor(2, tmp_path / "views", labels=tmp_path / "labels", cache=tmp_path / "cache",
                            settings=SandboxSettings(isolation="auto"))
    yield kernels
    await kernels.close()


def short(program: Program) -> str:
    """The experiment with a few updates, so that the suite stays brisk; nothing else is changed."""
    return "\n".join("STEPS = 12" if line.startswith("STEPS = ") else line for line in program.experiment.splitlines())


def findings(outcome: Outcome) -> list[str]:
    assert outcome.failure is None, outcome.failure
    return [finding for figure in outcome.figures for finding in refusing(lint(figure))]


async def test_winner_encoder_fault_and_figures_from_end_to_end(executor: LocalExecutor, tmp_path: Path) -> None:
    async def run(program: Program, name: str) -> Outcome:
        return await executor.run(Job(name=name, folder=tmp_path / name, source={"experiment.py": short(program)},
                                      seed=11, timeout=120.0, datasets=CASE.names))

    async def draw(script: str, name: str, *, arrays: str = "", inputs: dict[str, Path] | None = None) -> Outcome:
        folder = tmp_path / name
        (folder / "inputs").mkdir(parents=True)
        statistics = [one.model_dump() for one in CASE.statistics(ABLATED)]
        (folder / "inputs" / "statistics.json").write_text(json.dumps(statistics))
        if arrays:
            shutil.copytree(tmp_path / arrays / "arrays", folder / "arrays")
        return await executor.run(Job(name=name, folder=folder, source={"plots.py": script}, entry="plots.py",
                                      mode="plot", timeout=60.0, inputs=inputs or {}))

    winner = CASE.winner(GRU)
    encoder = code(CASE.code_inputs("ablation", "ablate", item=CASE.idea.risks[1], parent=brief(winner)))
    faulty = code(CASE.code_inputs(ordinal=3))
    first, ablated, failed = await asyncio.gather(run(winner, "n1"), run(encoder, "ablated"), run(faulty, "faulty"))
    assert {(m.dataset, m.condition) for m in first.measurements} == {
        (name, condition) for name in CASE.names for condition in CASE.plan.conditions}
    assert {(m.dataset, m.condition) for m in ablated.measurements} == {
        (name, f"{arm}@{level.name}") for name in (CASE.names[0], CASE.names[-1]) for arm in ABLATED
        for level in CASE.plan.levels}
    assert failed.failure is not None and failed.failure.kind == "other"
    mended = code(CASE.code_inputs(kind="debug", parent=brief(faulty, failed.failure)))
    assert mended.experiment == CASE.sound(3).experiment

    arrays_of_n1 = tmp_path / "n1" / "arrays"  # one run stands for its replicates
    inputs: dict[str, Path] = {"n1": arrays_of_n1, "n2": arrays_of_n1}
    arrays = tuple(ArrayBrief(path=f"inputs/{name}/{file}", shape=(1,), dtype="float64")
                   for name in inputs for file in first.arrays)
    together = plot(PlotInputs(data_plan=CASE.plan, purpose="aggregate", arrays=arrays, seeds=(11, 12),
                               lab_reference=""))
    final = figures(CASE.figures_inputs(arrays, ABLATED))
    assert [one.name for one in final.figures] == ["accuracy-by-complexity", "change-and-brackets", "ablation"]
    drawn = await asyncio.gather(
        draw(winner.plots, "plots", arrays="n1"), draw(together.plots, "aggregate", inputs=inputs))
    assert [findings(outcome) for outcome in drawn] == [[], []]
    await draw_final(executor, tmp_path / "paper", final, inputs=inputs, statistics=CASE.statistics(ABLATED))
