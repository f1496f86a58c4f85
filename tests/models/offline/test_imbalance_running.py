"""The programs of the study on class imbalance in real kernels: what they thin out, what pairs, what is drawn."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from models.offline.coding import code
from models.offline.plotting import figures, plot
from models.offline.scripts import with_constant
from models.roles import ArrayBrief, PlotInputs, Program
from record.nouns.measurements import Measurement
from record.nouns.nodes import ErrorClass
from review.figures import lint, refusing
from sandbox.datasets import materialise
from sandbox.executor import LocalExecutor
from sandbox.job import Job, Outcome
from sandbox.settings import SandboxSettings
from tests.models.offline.any_study import brief
from tests.models.offline.final import draw_final
from tests.models.offline.test_imbalance import CASE, SOUND

pytestmark = pytest.mark.slow

ABLATION = ("without-focus",)


class Kitchen:
    """Runs programs in kernels, each in a folder of its own."""

    def __init__(self, executor: LocalExecutor, base: Path) -> None:
        self.executor, self.base = executor, base

    async def run(self, program: Program, name: str, seed: int = 11) -> Outcome:
        return await self.executor.run(Job(
            name=name, folder=self.base / name, source={"experiment.py": program.experiment}, seed=seed, timeout=120.0,
            datasets=CASE.names))

    async def plot(self, script: str, name: str, arrays: str = "", inputs: dict[str, Path] | None = None) -> Outcome:
        folder = self.base / name
        folder.mkdir(exist_ok=True)
        if arrays:
            shutil.copytree(self.base / arrays / "arrays", folder / "arrays")
        return await self.executor.run(Job(
            name=name, folder=folder, source={"plots.py": script}, entry="plots.py", mode="plot", timeout=120.0,
            inputs=inputs or {}))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    base = tmp_path_factory.mktemp("data")
    for name in CASE.names:
        materialise(name, views=base / "views", labels=base / "labels", seed=1)
    yield base


@pytest_asyncio.fixture
async def kitchen(data: Path, tmp_path: Path) -> AsyncIterator[Kitchen]:
    executor = LocalExecutor(2, data / "views", labels=data / "labels", settings=SandboxSettings(isolation="auto"),
                             cache=data / "cache")
    yield Kitchen(executor, tmp_path)
    await executor.close()


def short(program: Program, epochs: int = 1) -> Program:
    """The program with few epochs, so that the suite stays brisk; nothing else is changed."""
    lines = [f"EPOCHS = {epochs}" if line.startswith("EPOCHS = ") else line for line in program.experiment.splitlines()]
    return program.model_copy(update={"experiment": "\n".join(lines) + "\n"})


def on_shapes(program: Program) -> Program:
    return program.model_copy(update={"experiment": with_constant(program.experiment, "DATASETS", ["shapes"])})


def findings(outcome: Outcome) -> list[str]:
    assert outcome.failure is None, outcome.failure
    return [finding for figure in outcome.figures for finding in refusing(lint(figure))]


def values(measurements: tuple[Measurement, ...]) -> dict[tuple[str, str], float]:
    return {(m.dataset, m.condition): m.value for m in measurements if m.name == "macro_f1"}


async def test_a_draft_with_two_mistakes_fails_as_documented_and_is_mended_in_two_steps(kitchen: Kitchen) -> None:
    program = short(code(CASE.code_inputs(ordinal=4)))
    expected: list[ErrorClass] = ["import", "no measurement"]
    for number, kind in enumerate(expected):
        failure = (await kitchen.run(program, f"try{number}")).failure
        assert failure is not None and failure.kind == kind
        program = code(CASE.code_inputs(kind="debug", parent=brief(program, failure)))
    outcome = await kitchen.run(program, "mended")
    assert outcome.failure is None
    assert values(outcome.measurements).keys() == {("digits", c) for c in CASE.plan.conditions}
    assert {m.name for m in outcome.measurements} >= {metric.name for metric in CASE.plan.metrics}
    assert len(outcome.sealed) >= len(CASE.plan.conditions)


async def test_winner_ablation_plots_and_final_figures_from_end_to_end(kitchen: Kitchen) -> None:
    winner = short(CASE.winner(SOUND))
    ablated = code(CASE.code_inputs("ablation", "ablate", item=CASE.idea.risks[2], parent=brief(winner)))
    outcomes = await asyncio.gather(kitchen.run(winner, "n1"), kitchen.run(on_shapes(winner), "n2", 12),
                                    kitchen.run(on_shapes(ablated), "ablated"))
    assert [outcome.failure for outcome in outcomes] == [None] * 3
    one, other, alike = (values(outcome.measurements) for outcome in outcomes)
    assert one.keys() == {(name, condition) for name in CASE.names for condition in CASE.plan.conditions}
    assert not set(one.items()) & set(other.items())  # another seed draws other rare classes, images and weights
    # Where all classes are equally large, focus has nothing to act on: the ablation pairs exactly.
    assert alike["shapes", "without-focus@ratio1"] == one["shapes", "method@ratio1"]
    thinned_as_said(kitchen.base)

    inputs = {name: kitchen.base / name / "arrays" for name in ("n1", "n2")}
    briefs = tuple(ArrayBrief(path=f"inputs/{name}/{file}", shape=(1,), dtype="float64")
                   for name, outcome in zip(inputs, outcomes, strict=False) for file in outcome.arrays)
    together = plot(PlotInputs(data_plan=CASE.plan, purpose="aggregate", arrays=briefs, seeds=(11, 12),
                               lab_reference=""))
    drawn = await asyncio.gather(
        kitchen.plot(winner.plots, "plots", "n1"), kitchen.plot(together.plots, "aggregate", inputs=inputs))
    assert [findings(outcome) for outcome in drawn] == [[], []]
    await draw_final(kitchen.executor, kitchen.base / "final", figures(CASE.figures_inputs(briefs, ABLATION)),
                     inputs=inputs, statistics=CASE.statistics(ABLATION))


def thinned_as_said(base: Path) -> None:
    """Every second class keeps one image in RATIO, others all; both arms and both ratios thin out the same classes."""
    tables = {(arm, level): np.load(base / "n1" / "arrays" / f"recall__shapes__{arm}__{level}.npy")
              for arm in ("baseline", "method") for level in ("ratio1", "ratio10", "ratio30")}
    sizes = {key: table[:, 0] for key, table in tables.items()}
    rare = tables["method", "ratio1"][:, 3].astype(bool)
    assert rare.sum() == 4
    for arm in ("baseline", "method"):
        assert set(sizes[arm, "ratio1"]) == {100.0}
        for level, kept in (("ratio10", 10.0), ("ratio30", 3.0)):
            assert set(sizes[arm, level][rare]) == {kept} and set(sizes[arm, level][~rare]) == {100.0}
    elsewhere = np.load(base / "n2" / "arrays" / "recall__shapes__method__ratio10.npy")
    assert (elsewhere[:, 3].astype(bool) != rare).any()
