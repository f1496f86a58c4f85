"""A whole run on a user's own CSV with groups, in which a reviewer asks for an ablation; the model is a script."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from labwright.agent.settings import Settings, compose_settings
from labwright.models.backend import ModelRequest, Reply, SingleModelBackend
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import Program
from labwright.models.roles.paper_revision import ReflectInputs, Reflection, TextEdit
from labwright.models.roles.study_plan import PlanInputs
from labwright.models.settings import ModelSettings
from labwright.record import control_files
from labwright.record.event_log import read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import NodeJudged
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, DatasetUse
from labwright.record.schema.idea import Idea
from labwright.sandbox.job import DatasetError
from tests.stages.small_study import IDEA, make_small_model
from tests.stages.test_whole_run import SMALL

LEAST = SMALL | {
    "search.preliminary.nodes": 2,
    "search.num_drafts": 1,
    "search.preliminary.num_seeds": 0,
    "search.tuning.num_seeds": 0,
}
KEY = "diff/farms/log_loss/half-weight~shrunk"


class OnOther(SingleModelBackend):
    """The small study's model, its plan and code turned to a dataset of another name and shape."""

    def __init__(self, dataset: str, base: ScriptedModel | None = None) -> None:
        super().__init__("scripted")
        self.dataset = dataset
        self.base = base or make_small_model()
        self.planned: list[PlanInputs] = []

    async def answer(self, request: ModelRequest) -> Reply:
        reply = await self.base.answer(request)
        if isinstance(request.inputs, PlanInputs):
            self.planned.append(request.inputs)
        if isinstance(reply.output, DataPlan):
            return replace(reply, output=reply.output.model_copy(update={"datasets": (DatasetUse(name=self.dataset),)}))
        if isinstance(reply.output, Program):
            return replace(
                reply,
                output=reply.output.model_copy(
                    update={
                        "files": tuple(
                            one.model_copy(update={"text": self._turned(one.text)})
                            if one.path == "experiment.py"
                            else one
                            for one in reply.output.files
                        )
                    }
                ),
            )
        return reply

    def _turned(self, source: str) -> str:
        swaps = {
            '"iris"': repr(self.dataset),
            "data.train.x[rows],": "data.train.x[rows].reshape(len(rows), -1),",
            "(points):\n": "(points):\n        points = points.reshape(len(points), -1)\n",
        }
        for before, after in swaps.items():
            assert before in source
            source = source.replace(before, after)
        return source


class Telling(ScriptedModel):
    """The small study's model, whose reflector tells what was run since, by its key."""

    def __init__(self) -> None:
        super().__init__(_told)
        self._small = make_small_model("half-weight")

    async def answer(self, request: ModelRequest) -> Reply:
        if isinstance(request.inputs, ReflectInputs) and request.inputs.news:
            return await super().answer(request)
        return await self._small.answer(request)


def _told(request: ModelRequest) -> Reflection:
    inputs = request.inputs
    assert isinstance(inputs, ReflectInputs)
    if inputs.tried:
        return Reflection(done=True)
    results = next(one for one in inputs.draft.sections if one.title == "Results")
    first = results.body.split("\n\n")[0]
    said = rf"{first} The paired difference that a reviewer asked for is \result{{{KEY}.mean}}."
    return Reflection(done=False, edits=(TextEdit(section="Results", old=first, new=said),))


def ran(
    runs: Path,
    model: SingleModelBackend,
    settings: Settings,
    *,
    idea: Idea = IDEA,
    until: Callable[[Event], bool] = lambda _: False,
) -> RunState:
    """A run that is stopped after an event of which `until` says so."""
    from labwright.agent import run

    def opened(_: ModelSettings) -> SingleModelBackend:
        return model

    def listen(event: Event, _: RunState) -> None:
        if until(event):
            control_files.send_command(runs / "own", CommandReceived(verb="stop", text="enough"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", opened)
        run.start_study(idea, settings, runs=runs, name="own", listener=listen)
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


def one_works(event: Event) -> bool:
    """Whether a node has just been found good."""
    return isinstance(event, NodeJudged) and event.status == "good"


@dataclass(frozen=True)
class Whole:
    """A run to its end, and what its model was asked."""

    folder: Path
    model: OnOther


def own_table(folder: Path) -> Settings:
    """A run on a table in this folder, made there."""
    table = farms(folder / "farms.csv")
    return compose_settings(environment={}, flags=LEAST | {"data": [f"farms={table},target=good,group=farm,drop=week"]})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    base = tmp_path_factory.mktemp("own")
    model = OnOther("farms", Telling())
    state = ran(base, model, own_table(base))
    assert state.process_end is not None and state.process_end.exit_code == 0, state.process_end
    return Whole(base / "own", model)


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
