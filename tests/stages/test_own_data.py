"""A whole run on data of the user's own, a CSV with groups: from the flag to the paper."""

from __future__ import annotations

import csv
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.settings import Settings, compose
from models.backend import Reply, Request
from models.roles.coding import Program
from models.roles.planning import PlanInputs
from models.roles.role import AnyRole
from models.settings import ModelSettings
from record.fold.state import RunState
from record.nouns.data import DataPlan, DatasetUse
from record.nouns.idea import Idea
from record.reading import read_state
from sandbox.errors import DatasetError
from tests.stages.small_study import IDEA, small_model
from tests.stages.test_whole_run import SMALL

LEAST = SMALL | {"search.preliminary.nodes": 2, "search.num_drafts": 1, "search.num_seeds": 1}


class OnOther:
    """The small study's model, its plan and code turned to a dataset of another name and shape."""

    name = "scripted"
    sees = True

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self.base = small_model()
        self.planned: list[PlanInputs] = []

    def name_of(self, role: AnyRole) -> str:
        return self.base.name_of(role)

    async def answer(self, request: Request) -> Reply:
        reply = await self.base.answer(request)
        if isinstance(request.inputs, PlanInputs):
            self.planned.append(request.inputs)
        if isinstance(reply.output, DataPlan):
            return replace(reply, output=reply.output.model_copy(update={"datasets": (DatasetUse(name=self.dataset),)}))
        if isinstance(reply.output, Program):
            return replace(reply, output=reply.output.model_copy(update={
                "experiment": self._turned(reply.output.experiment)}))
        return reply

    def _turned(self, source: str) -> str:
        swaps = {'"iris"': repr(self.dataset), "data.train.x[rows],": "data.train.x[rows].reshape(len(rows), -1),",
                 "(points):\n": "(points):\n        points = points.reshape(len(points), -1)\n"}
        for before, after in swaps.items():
            assert before in source
            source = source.replace(before, after)
        return source


def ran(runs: Path, model: OnOther, settings: Settings, idea: Idea = IDEA) -> RunState:
    from agent import run

    def opened(_: ModelSettings) -> OnOther:
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", opened)
        run.start(idea, settings, runs=runs, name="own", listener=lambda event, state: None)
    return read_state(runs / "own")


def farms(path: Path, rows: int = 240) -> Path:
    """A table with a group column, a text column, gaps and, at its end, rows that stand there twice."""
    rng = random.Random(2)
    table: list[list[object]] = []
    for i in range(rows):
        soil, rain = rng.choice(["clay", "loam", "sand"]), round(rng.gauss(50, 15), 2)
        good = "yes" if rain / 15 + 2 * (soil == "loam") + rng.gauss(0, 0.7) > 4 else "no"
        ph = "" if rng.random() < 0.08 else rng.random()
        table.append([f"farm {rng.randrange(30)}", i // 8, soil, rain, ph, good])
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["farm", "week", "soil", "rain", "ph", "good"], *table])
    return path


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")
def test_a_csv_goes_from_the_flag_to_the_paper(tmp_path: Path) -> None:
    table = farms(tmp_path / "farms.csv")
    model = OnOther("farms")
    settings = compose(flags=LEAST | {"data": [f"farms={table},target=good,group=farm,drop=week"]}, environment={})
    state = ran(tmp_path, model, settings)
    assert state.ended is not None and state.ended.exit_code == 0, state.ended
    [facts] = state.datasets
    assert (facts.source, facts.task, facts.target, facts.split_rule) == (
        "csv:farms.csv", "classification", "good", "ours, whole groups, seed 3")
    first = model.planned[0].catalogue[0]
    assert first.own and first.columns == ("soil", "rain", "ph") and first.missing == facts.missing != {}
    assert first.sizes == facts.sizes
    appendix = (tmp_path / "own" / "paper" / "appendix.tex").read_text()
    assert "whole groups" in appendix and "csv:farms.csv" in appendix and str(tmp_path) not in appendix


def test_a_file_that_changes_before_it_is_cut_is_refused(tmp_path: Path) -> None:
    """The fingerprint is taken when the run begins; the cut is made of these bytes or not at all."""

    class Meddling(OnOther):
        async def answer(self, request: Request) -> Reply:
            table.write_text(table.read_text() + "farm 1,30,clay,50,0.5,no\n")
            return await super().answer(request)

    table = farms(tmp_path / "farms.csv")
    settings = compose(flags=LEAST | {"data": [f"farms={table},target=good,drop=farm"]}, environment={})
    with pytest.raises(DatasetError, match=r"data 'farms' \(farms.csv\): it changed since the run began \(sha256 "):
        ran(tmp_path, Meddling("farms"), settings)
    assert read_state(tmp_path / "own").data_plan is None
