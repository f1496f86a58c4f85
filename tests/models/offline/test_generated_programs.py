"""Generated programs in real kernels: mistakes fail as documented, what mends them runs and measures, plots pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from labwright.models.offline.experiment_code import answer_figures, answer_plot
from labwright.models.roles.figures import ArrayBrief, FiguresInputs, PlotInputs
from labwright.record.schema.nodes import Cell, ErrorClass
from labwright.review.figures import lint_figure, list_refusals
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import cell_tasks, run_job
from tests.models.offline.final_figures import draw_final_figures
from tests.models.offline.role_inputs import (
    IDEA,
    PLAN,
    OfflineProgram,
    make_agenda_winner,
    make_brief,
    make_code_inputs,
    make_statistics,
    write_program,
)

pytestmark = pytest.mark.slow

NAMES = tuple(use.name for use in PLAN.datasets)
METRICS = {metric.name for metric in PLAN.metrics}


@dataclass
class Kitchen:
    """Runs programs in kernels, each in a folder of its own."""

    executor: LocalExecutor
    base: Path

    async def run(
        self, program: OfflineProgram, name: str, seed: int = 11, datasets: tuple[str, ...] = NAMES
    ) -> JobOutcome:
        arms = program.program.arms or ("baseline", "method")
        cells = tuple(
            Cell(dataset=dataset, arm=arm, level=level.name, seed=seed)
            for dataset in datasets
            for level in PLAN.levels
            for arm in arms
        )
        return await run_job(
            self.executor,
            Job(
                name=name,
                folder=self.base / name,
                source=program.files,
                timeout=120.0,
                cells=cell_tasks(
                    cells,
                    settings={
                        cell: PLAN.find_defaults(cell.arm if cell.arm in PLAN.compared_arms else "method")
                        for cell in cells
                    },
                ),
            ),
        )

    def array_folders(self, name: str) -> tuple[Path, ...]:
        return tuple((self.base / name).glob("cells/*/arrays"))

    async def plot(self, script: str, name: str, arrays: str = "", inputs: tuple[str, ...] = ()) -> JobOutcome:
        folder = self.base / name
        given = {"arrays": self.array_folders(arrays)} if arrays else {}
        given |= {f"inputs/{one}": self.array_folders(one) for one in inputs}
        return await run_job(
            self.executor,
            Job(
                name=name,
                folder=folder,
                source={"plots.py": script},
                entry="plots.py",
                kind="plot",
                timeout=120.0,
                inputs=given,
            ),
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    base = tmp_path_factory.mktemp("data")
    for name in NAMES:
        materialise(name, views=base / "views", labels=base / "labels", seed=1)
    yield base


@pytest_asyncio.fixture
async def kitchen(data: Path, tmp_path: Path) -> AsyncIterator[Kitchen]:
    settings = SandboxSettings(isolation="auto")
    executor = LocalExecutor(2, data / "views", labels=data / "labels", settings=settings, cache=data / "cache")
    yield Kitchen(executor, tmp_path)
    await executor.close()


def short(program: OfflineProgram, epochs: int = 3) -> OfflineProgram:
    """The program with few epochs, so that the suite stays brisk; nothing else is changed."""
    lines = [f"EPOCHS = {epochs}" if line.startswith("EPOCHS = ") else line for line in program.experiment.splitlines()]
    return replace(program, files=program.files | {"experiment.py": "\n".join(lines) + "\n"})


def findings(outcome: JobOutcome) -> list[str]:
    assert outcome.failure is None, outcome.failure
    return [finding for figure in outcome.figures for finding in list_refusals(lint_figure(figure))]


async def test_a_draft_with_two_mistakes_fails_as_documented_and_is_mended_in_two_steps(kitchen: Kitchen) -> None:
    program = short(write_program(make_code_inputs(ordinal=4)))
    expected: list[ErrorClass] = ["other", "no measurement"]
    for number, kind in enumerate(expected):
        failure = (await kitchen.run(program, f"try{number}", datasets=NAMES[:1])).failure
        assert failure is not None and failure.kind == kind
        program = write_program(make_code_inputs(kind="debug", parent=make_brief(program, failure)))
    outcome = await kitchen.run(program, "mended", datasets=NAMES[:1])
    assert outcome.failure is None
    assert {(m.dataset, m.condition) for m in outcome.measurements} == {("digits", c) for c in PLAN.conditions}
    assert {m.name for m in outcome.measurements} >= METRICS and len(outcome.sealed) >= len(PLAN.conditions)


@pytest.mark.bench  # tests/stages/test_whole_run.py has a figure drawn again
async def test_refused_plots_are_mended_from_the_findings_of_the_lint(kitchen: Kitchen) -> None:
    program = short(write_program(make_code_inputs(ordinal=2)))
    assert (await kitchen.run(program, "draft", datasets=NAMES[:1])).failure is None
    complaints = findings(await kitchen.plot(program.plots, "refused", "draft"))
    assert complaints and all("no y label" in complaint for complaint in complaints)
    again = answer_plot(
        PlotInputs(
            data_plan=PLAN,
            purpose="replot",
            arrays=(),
            plots=program.plots,
            lab_reference="",
            complaints=tuple(complaints),
        )
    )
    assert findings(await kitchen.plot(again.apply_to(program.plots), "replotted", "draft")) == []


@pytest.mark.bench
async def test_winner_ablation_aggregate_and_final_figures_from_end_to_end(kitchen: Kitchen) -> None:
    winner = short(make_agenda_winner())
    ablation = write_program(make_code_inputs("ablation", "ablate", item=IDEA.risks[0], parent=make_brief(winner)))
    done = await asyncio.gather(
        kitchen.run(winner, "n1", 11), kitchen.run(winner, "n2", 12), kitchen.run(ablation, "ablated", 11)
    )
    assert [outcome.failure for outcome in done] == [None] * 3
    values = [{(m.dataset, m.name, m.condition): m.value for m in outcome.measurements} for outcome in done]
    assert {(d, c) for d, _, c in values[0]} == {(d, c) for d in NAMES for c in PLAN.conditions}
    assert values[0] != values[1]
    for dataset in NAMES:  # without noise, noisy dev labels are clean ones: the ablation pairs exactly
        pair = (dataset, "log_loss", "method@noise0"), (dataset, "log_loss", "without-clean-dev@noise0")
        assert values[0][pair[0]] == values[2][pair[1]]

    inputs = {name: kitchen.array_folders(name) for name in ("n1", "n2")}
    briefs = tuple(
        ArrayBrief(path=f"inputs/{name}/{file}", shape=(1,), dtype="float64")
        for name, outcome in zip(inputs, done, strict=False)
        for file in outcome.arrays
    )
    together = answer_plot(
        PlotInputs(data_plan=PLAN, purpose="aggregate", arrays=briefs, seeds=(11, 12), lab_reference="")
    )
    drawn = await asyncio.gather(
        kitchen.plot(winner.plots, "plots", "n1"), kitchen.plot(together.plots, "aggregate", inputs=tuple(inputs))
    )
    assert [findings(outcome) for outcome in drawn] == [[], []]
    await final_figures(kitchen, inputs, briefs)


async def final_figures(kitchen: Kitchen, inputs: dict[str, tuple[Path, ...]], briefs: tuple[ArrayBrief, ...]) -> None:
    ablations = ("without-clean-dev", "without-smoothing")
    drawn = answer_figures(
        FiguresInputs(
            idea=IDEA,
            data_plan=PLAN,
            arrays=briefs,
            statistics=make_statistics(ablations),
            example_plots="",
            lab_reference="",
            ablations=tuple(f"{arm}@{level.name}" for arm in ablations for level in PLAN.levels),
        )
    )
    await draw_final_figures(
        kitchen.executor, kitchen.base / "final", drawn, inputs=inputs, statistics=make_statistics(ablations)
    )
