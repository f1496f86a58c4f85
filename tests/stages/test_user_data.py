"""Runs on a user's own CSV with groups; the model is a script."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.agent.settings import Settings, compose_settings
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.roles.experiment_code import Program
from labwright.models.roles.study_plan import PlanInputs
from labwright.models.settings import ModelSettings
from labwright.record import control_files
from labwright.record.event_log import read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import NodeJudged
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, DatasetUse
from labwright.sandbox.job import DatasetError
from tests.stages.small_study import IDEA, make_small_model
from tests.stages.test_whole_run import SMALL

LEAST = SMALL | {
    "search.preliminary.nodes": 2,
    "search.num_drafts": 1,
    "search.preliminary.num_seeds": 0,
    "search.tuning.num_seeds": 0,
}


class OnOther(Backend):
    """The small study's model, its plan and code turned to a dataset of another name."""

    def __init__(self, dataset: str) -> None:
        super().__init__("scripted")
        self.dataset = dataset
        self.base = make_small_model()
        self.planned: list[PlanInputs] = []

    async def answer(self, request: ModelRequest) -> Reply:
        reply = await self.base.answer(request)
        output = reply.output
        if isinstance(request.inputs, PlanInputs):
            self.planned.append(request.inputs)
        if isinstance(output, DataPlan):
            return replace(reply, output=output.model_copy(update={"datasets": (DatasetUse(name=self.dataset),)}))
        if isinstance(output, Program):
            files = tuple(
                one.model_copy(update={"text": one.text.replace('"iris"', repr(self.dataset))}) for one in output.files
            )
            return replace(reply, output=output.model_copy(update={"files": files}))
        return reply


def ran(
    runs: Path, model: Backend, settings: Settings, *, until: Callable[[Event], bool] = lambda _: False
) -> RunState:
    """A run that is stopped after an event of which `until` says so."""
    from labwright.agent import run

    def opened(_: ModelSettings) -> Backend:
        return model

    def listen(event: Event, _: RunState) -> None:
        if until(event):
            control_files.send_command(runs / "own", CommandReceived(verb="stop", text="enough"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", opened)
        run.start_study(IDEA, settings, runs=runs, name="own", listener=listen)
    return read_state(runs / "own")


def farms(path: Path) -> Path:
    """A table with a group column, a text column, gaps and, at its end, rows that stand there twice."""
    rng = random.Random(2)
    table: list[list[object]] = []
    for i in range(240):
        soil, rain = rng.choice(["clay", "loam", "sand"]), round(rng.gauss(50, 15), 2)
        good = "yes" if rain / 15 + 2 * (soil == "loam") + rng.gauss(0, 0.7) > 4 else "no"
        ph = "" if rng.random() < 0.08 else rng.random()
        table.append([f"farm {rng.randrange(30)}", i // 8, soil, rain, ph, good])
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["farm", "week", "soil", "rain", "ph", "good"], *table])
    return path


def one_works(event: Event) -> bool:
    """Whether a node has just been found good."""
    return isinstance(event, NodeJudged) and event.status == "good"


def own_table(folder: Path) -> Settings:
    """A run on a table in this folder, made there."""
    table = farms(folder / "farms.csv")
    return compose_settings(environment={}, flags=LEAST | {"data": [f"farms={table},target=good,group=farm,drop=week"]})


@pytest.mark.slow
def test_a_csv_goes_from_the_flag_to_the_experiments(tmp_path: Path) -> None:
    model = OnOther("farms")
    state = ran(tmp_path, model, own_table(tmp_path), until=one_works)
    [facts] = state.search.datasets
    assert (facts.source, facts.task, facts.target, facts.split_rule) == (
        "csv:farms.csv",
        "classification",
        "good",
        "automatic, whole groups, seed 3",
    )
    first = model.planned[0].catalogue[0]
    assert first.own and first.columns == ("soil", "rain", "ph") and first.missing == facts.missing != {}
    assert first.sizes == facts.sizes
    found = [one for node in state.nodes.values() for one in node.measurements]
    assert {one.dataset for one in found} == {"farms"} and {one.split for one in found} == {"validation"}


@pytest.mark.slow
def test_a_file_that_changes_before_it_is_cut_is_refused(tmp_path: Path) -> None:
    """The fingerprint is taken when the run begins; the cut is made of these bytes or not at all."""

    class Meddling(OnOther):
        async def answer(self, request: ModelRequest) -> Reply:
            table.write_text(table.read_text() + "farm 1,30,clay,50,0.5,no\n")
            return await super().answer(request)

    table = farms(tmp_path / "farms.csv")
    settings = compose_settings(flags=LEAST | {"data": [f"farms={table},target=good,drop=farm"]}, environment={})
    with pytest.raises(DatasetError, match=r"data 'farms' \(farms.csv\): it changed since the run began \(sha256 "):
        ran(tmp_path, Meddling("farms"), settings)
    assert read_state(tmp_path / "own").search.data_plan is None
