"""Cells of a study in real kernels are isolated: files and failures of one do not affect others."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import lab
import lab._job
import numpy as np
import pytest

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Cell, CellOutcomeLine, TrainingCounts
from labwright.record.source_tree import select_visible_files
from labwright.sandbox import cell_scheduler
from labwright.sandbox.job import CellResult, CellTask, Job, JobOutcome
from labwright.sandbox.workspace import rescue_checkpoints
from tests.jobs import cell_tasks
from tests.sandbox.conftest import SETTINGS, DatasetStore, holds_eventually, is_gone, run_alone, write_job_file

ROOT = Path(__file__).resolve().parents[2]
STUDY = """
import builtins, os, pathlib, random, subprocess, sys, tempfile, time
import numpy as np
import lab
import common

def traces():
    places = [pathlib.Path("left"), pathlib.Path("../left"), pathlib.Path(tempfile.gettempdir(), "left")]
    return [hasattr(np, "left"), np.geterr()["over"] == "raise", "LEFT" in os.environ, hasattr(builtins, "left"),
            common.COUNT != 3, "left" in globals(), *(place.exists() for place in places)]

def dirty(cell):
    np.left = builtins.left = globals()["left"] = os.environ["LEFT"] = cell.arm
    np.seterr(over="raise")
    np.random.seed(cell.seed + 1), random.seed(5), np.random.rand(7)
    common.COUNT += 1
    for place in ("left", "../left", os.path.join(tempfile.gettempdir(), "left"), "common.py", "experiment.py"):
        pathlib.Path(place).write_text("raise RuntimeError('changed')")

def run(cell):
    print(traces())
    base = lab.shared("base", lambda: {"drawn": np.random.rand(3), "seed": lab.seed})
    condition = cell.condition
    assert lab.shared("captured", lambda: condition) == condition
    assert dict(**cell.setting) == {"rate": 0.1} and "other" not in cell.setting and cell.setting.get("other", 3) == 3
    assert cell.setting | {"other": 3} == {"other": 3} | cell.setting == {"rate": 0.1, "other": 3}
    assert lab.shared("rate 0.1", lambda: cell.setting["rate"]) == 0.1
    if cell.arm == "unset":
        cell.setting["other"]
    assert lab.shared("read", lambda: cell.dataset + cell.condition) == cell.dataset + cell.condition
    values = np.concatenate([base["drawn"], np.random.rand(2), [random.random(), lab.seed == cell.seed]])
    print(base["drawn"].flags.writeable, base["seed"])
    print("kernel", os.getppid(), os.listdir("inputs") if os.path.isdir("inputs") else [])
    lab.save("values", values)
    lab.log("loss", 0.5, step=1)
    data = lab.data(cell.dataset)
    for split, part in (("validation", data.validation), ("test", data.test)):
        lab.submit(split=split, predictions=np.arange(len(part.x)) % (data.classes or 7))
    if cell.arm == "early":
        lab.save_artifact("net", values)
    if cell.arm == "late":
        print("read", np.load(lab.artifact("net", arm="early")).tobytes() == values.tobytes())
    if cell.arm == "slow":
        print("child", subprocess.Popen(["sleep", "60"], start_new_session=True).pid, flush=True)
        time.sleep(60)
    if cell.arm == "killed":
        os.kill(os.getpid(), 9)
    if cell.arm == "raising":
        raise ValueError("broken")
    if cell.arm == "diverging":
        lab.log("loss", float("nan"), step=2)
    if cell.arm == "deadly":
        os.kill(os.getppid(), 9)
        time.sleep(60)
    dirty(cell)

lab.measure(run, reads={"late": "early"})
"""
SOURCE = {
    "experiment.py": STUDY,
    "common.py": "COUNT = 3\n",
    "arms/early.py": "",
    "arms/late.py": "",
    "arms/base.py": "",
    "plots.py": "",
}


def cell(arm: str, level: str = "", *, dataset: str = "digits") -> Cell:
    return Cell(dataset=dataset, arm=arm, level=level, seed=4)


EARLY, LATE, OTHER = cell("early", "a"), cell("late", "a"), cell("early", "b")
GOOD = (EARLY, LATE, OTHER)
BAD = tuple(map(cell, ("slow", "killed", "raising", "diverging", "deadly", "unset")))


@dataclass(frozen=True)
class Ran:
    """A finished job, the outcomes of its cells, and their folders."""

    outcome: JobOutcome
    cells: dict[Cell, CellResult]
    seconds: float
    """Outcomes of all executions; the cell whose kernel died has two."""
    folders: dict[Cell, Path]
    job: Job

    def line(self, one: Cell) -> CellOutcomeLine:
        return next(line for line in self.outcome.cells if line.cell == one)

    def output(self, one: Cell) -> str:
        return (self.folders[one] / "stdout.txt").read_text()


def ran(
    store: DatasetStore,
    place: Path,
    cells: tuple[Cell, ...],
    *,
    expected: Mapping[Cell, float] | None = None,
    ready: Mapping[Cell, tuple[CellResult, Path]] | None = None,
) -> Ran:
    """Run a job of the study, moving each cell's folder away when it ends."""
    came: dict[Cell, CellResult] = {}
    folders: dict[Cell, Path] = {}
    seconds: list[float] = []

    async def took(one: Cell, outcome: CellResult, folder: Path) -> Path:
        seconds.append(outcome.seconds)
        came[one], folders[one] = outcome, place / "sealed cells" / one.name
        shutil.rmtree(folders[one], ignore_errors=True)  # of a retried cell
        folders[one].parent.mkdir(exist_ok=True)
        return folder.rename(folders[one])

    place.mkdir()
    job = Job(
        name="study",
        folder=place / "job",
        source=SOURCE,
        cells=cell_tasks(
            cells,
            expected=expected,
            known={one: result for one, (result, _) in (ready or {}).items()},
            measured={one: folder for one, (_, folder) in (ready or {}).items()},
            settings={one: {"rate": 0.1} for one in cells},
        ),
        timeout=120.0,
    )
    outcome = asyncio.run(run_alone(store, job, cache=place / "cache", commit=took))
    return Ran(outcome, came, sum(seconds), folders, job)


@pytest.fixture(scope="module")
def study(store: DatasetStore, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Good and bad cells; the slow one may take a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_scheduler, "MIN_TIME_LIMIT_SECONDS", 1.0)
        return ran(store, tmp_path_factory.mktemp("study") / "a", (EARLY, *BAD, LATE, OTHER), expected={BAD[0]: 0.1})


@pytest.mark.slow
def test_a_bad_cell_leaves_the_others(study: Ran) -> None:
    failures = [(one.arm, study.cells[one].failure) for one in study.job.cells]
    kinds = {arm: failure.kind if failure else "" for arm, failure in failures}
    assert kinds == {
        "early": "",
        "late": "",
        "slow": "timeout",
        "killed": "died",
        "raising": "other",
        "diverging": "diverged",
        "deadly": "died",
        "unset": "other",
    }
    assert [line.outcome for line in study.outcome.cells] == [
        "measured",
        *["failed"] * len(BAD),
        "measured",
        "measured",
    ]
    failure = study.outcome.failure
    assert failure is not None and failure.kind == "other"
    assert failure.message == "6 of 9 cells failed; the first, raising on digits: ValueError: broken"
    assert (
        'in run\n    raise ValueError("broken")\n' in failure.traceback and 'File "experiment.py"' in failure.traceback
    )
    assert "arm 'unset' has no hyperparameter 'other' in this trial; it has: rate" in study.line(BAD[-1]).why
    assert "SIGKILL" in study.line(BAD[1]).why and "not finite" in study.line(BAD[3]).why


@pytest.mark.slow
def test_what_a_cell_started_dies_with_it(study: Ran) -> None:
    words = study.output(BAD[0]).split()
    assert is_gone(int(words[words.index("child") + 1]))


@pytest.mark.slow
def test_no_cell_finds_what_another_left(study: Ran) -> None:
    for one in GOOD:
        assert study.output(one).splitlines()[0] == str([False] * 9)
        assert study.output(one).splitlines()[1].startswith("False ")  # shared values are read-only
    assert "read True" in study.output(LATE)
    assert [path.name for path in (study.folders[EARLY] / "arms").iterdir()] == ["base.py", "early.py"]


ODD = """
import multiprocessing, os, time
import numpy as np
import lab

def inner():
    return np.random.rand(2)

def outer():
    return {"inner": lab.shared("inner", inner), "drawn": np.random.rand(2)}

def four():
    return 4

def run(cell):
    lab.result("size", 3)
    if cell.arm == "nested":
        value = lab.shared("outer", outer)
        lab.save("same", [np.array_equal(value["inner"], lab.shared("inner", inner)), value["drawn"].flags.writeable])
    if cell.arm == "several":
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            print(pool.map(abs, [-1, 2]), lab.launch(four, processes=2))
    if cell.arm == "unbuilt":
        lab.shared("unbuilt", lambda: 1 / 0)
    if cell.arm == "unkilled":
        lab.shared("unkilled", lambda: os.kill(os.getpid(), 9))
    if cell.arm == "closing":
        os.closerange(0, 200)
    while cell.arm in ("stubborn", "closing"):
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass
    if cell.arm == "leaving":
        os._exit(3)
    if cell.arm == "large":
        lab.checkpoint(lab.restore() or 1)
        held = [np.ones(10**7) for _ in range(60)]
        time.sleep(10)

lab.measure(run)
"""


@pytest.mark.slow
@pytest.mark.bench
@pytest.mark.parametrize("isolation", ["none", "auto"])
def test_cells_that_end_oddly(
    store: DatasetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: Literal["none", "auto"]
) -> None:
    monkeypatch.setattr(cell_scheduler, "MIN_TIME_LIMIT_SECONDS", 5.0)
    settings = SETTINGS.model_copy(update={"memory_gb": 0.7, "isolation": isolation})
    arms = ("nested", "several", "unbuilt", "unkilled", "stubborn", "closing", "leaving", "large", "nested")
    cells = tuple(cell(arm, level) for arm, level in zip(arms, "abcdefghi", strict=True))
    job = Job(
        name="odd",
        folder=tmp_path / "odd",
        source={"experiment.py": ODD},
        cells=cell_tasks(
            cells, expected=dict.fromkeys((one for one in cells if one.arm not in ("several", "large")), 0.1)
        ),
        timeout=100.0,
        live_output=tmp_path / "live",
    )
    outcome = asyncio.run(run_alone(store, job, slots=2, settings=settings, cache=tmp_path / "cache"))
    became = [(line.cell.arm, line.outcome, line.why.partition(":")[0]) for line in outcome.cells]
    assert became == [
        ("nested", "measured", ""),
        ("several", "measured", ""),
        ("unbuilt", "failed", "other"),
        ("unkilled", "failed", "died"),
        ("stubborn", "failed", "timeout"),
        ("closing", "failed", "timeout"),
        ("leaving", "failed", "died"),
        ("large", "failed", "memory"),
        ("nested", "measured", ""),
    ]
    why = {line.cell.arm: line.why for line in outcome.cells}
    assert "ZeroDivisionError" in why["unbuilt"] and "killed by SIGKILL" in why["unkilled"]
    assert "exit code 3" in why["leaving"] and "was killed" in why["stubborn"]
    assert "[1, 2] 4" in (tmp_path / "odd" / "stdout.txt").read_text()
    same = [
        np.load(one.path / "arrays" / name).tolist() for one in outcome.measured_folders for name in one.result.arrays
    ]
    assert same == [[True, False]] * 2 and outcome.resumed
    assert not (tmp_path / "live").exists()


TRAINING = """
import sys
import numpy as np, torch, lab
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

def trained(cell, x, y):
    torch.manual_seed(lab.seed)
    net = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=cell.setting["rate"])
    for part in torch.arange(len(x)).split(100):
        optimizer.zero_grad()
        torch.nn.CrossEntropyLoss()(net(x[part]), y[part]).backward()
        optimizer.step()
    with torch.no_grad():
        net(x)
    return net[0].weight.detach().numpy()

def run(cell):
    torch.manual_seed(lab.seed)
    net = torch.nn.Conv2d(8, 16, 3)
    y = net(torch.rand(64, 8, 28, 28)).square().mean()
    y.backward()
    torch.rand(400, 400) @ torch.rand(400, 400)
    lab.save("gradient", net.weight.grad)
    lab.result("loss", y.item())
    train = lab.data(cell.dataset).train
    x = train.x.reshape(len(train.x), -1)
    weights = trained(cell, torch.tensor(x), torch.tensor(train.y))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=9)).fit(x, train.y)
    torch.nn.Module.__call__ = torch.nn.Module.__call__.__wrapped__
    sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks.clear()
    assert (trained(cell, torch.tensor(x), torch.tensor(train.y)) == weights).all(), "counting does not change results"
    lab.save("counted", [-(-len(x) // 100) + model[-1].n_iter_[0], 2 * len(x), 64 * 10 + 10])

lab.measure(run)
"""


@pytest.mark.slow
def test_training_in_two_threads_is_counted(store: DatasetStore, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"threads": 2})
    cells = (cell("a"), cell("a").model_copy(update={"trial": 1}))
    came: dict[Cell, CellResult] = {}

    async def took(one: Cell, outcome: CellResult, folder: Path) -> Path:
        came[one] = outcome
        return folder

    job = Job(
        name="t",
        folder=tmp_path / "t",
        source={"experiment.py": TRAINING},
        cells=cell_tasks(cells, settings={one: {"rate": 0.1 * (1 + one.trial)} for one in cells}),
        timeout=90.0,
    )
    outcome = asyncio.run(run_alone(store, job, settings=settings, cache=tmp_path / "cache", commit=took))
    assert {line.outcome for line in outcome.cells} == {"measured"}, outcome

    def saved(name: str, one: Cell) -> list[float]:
        return np.load(tmp_path / "t" / "cells" / one.name / "arrays" / f"{name}__{one.place_name}.npy").tolist()

    for one, found in came.items():
        steps, rows, parameters = saved("counted", one)
        assert found.training == TrainingCounts(steps=int(steps), rows=int(rows), parameters=int(parameters))
    assert len({found.arrays[f"gradient__{one.place_name}.npy"] for one, found in came.items()}) == 1


HALTING = """
import time
import lab

def run(cell):
    if lab.restore() is None:
        lab.checkpoint(1)
        time.sleep(60)
    lab.result("restored", lab.restore())

lab.measure(run)
"""
HALTED = cell("a")


def halting(store: DatasetStore, place: Path, folder: Path, task: CellTask | None = None) -> JobOutcome:
    """Run a job with one cell that hangs unless it finds a checkpoint."""
    source, cells = {"experiment.py": HALTING}, {HALTED: task or CellTask()}
    job = Job(name="halting", source=source, folder=folder, cells=cells, timeout=90.0)
    return asyncio.run(run_alone(store, job, cache=place / "cache"))


@pytest.mark.slow
@pytest.mark.bench
def test_a_cell_that_a_kill_cut_goes_on_from_its_checkpoint(store: DatasetStore, tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    code = """from pathlib import Path; import sys; from tests.sandbox.conftest import DatasetStore
from tests.sandbox.test_cells import halting
views, labels, place = map(Path, sys.argv[1:])
halting(DatasetStore(views, labels, place), place, place / 'draft')"""
    command = [sys.executable, "-c", code, str(store.views), str(store.labels), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        met = holds_eventually(lambda: bool(list(draft.glob("kernels/*/cells/*/checkpoints/*"))))
        os.killpg(process.pid, signal.SIGKILL)
    safe = rescue_checkpoints(draft)
    assert met and safe is not None
    outcome = halting(store, tmp_path / "1", tmp_path / "1" / "job", CellTask(folder=safe / "cells" / HALTED.name))
    assert [line.outcome for line in outcome.cells] == ["measured"] and outcome.resumed, outcome


# --- in this process --------------------------------------------------------------------------------------------------


@pytest.fixture
def in_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a folder as if the cell `method@noise` were running in it."""
    monkeypatch.setattr(lab._job, "_registered", [])
    one = {"dataset": "digits", "arm": "method", "level": "noise", "trial": 0, "seed": 7}
    arms, datasets = {"base": "digits__base__noise"}, {"digits": ""}
    return write_job_file(tmp_path, monkeypatch, datasets=datasets, arms=arms, cell=one, deadline=0.0)


def run_one(cell: object) -> None:
    """The function that a program passes to `lab.measure`."""


def twice() -> None:
    lab.measure(run_one)
    lab.measure(run_one)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (twice, "called twice: distinguish arms"),
        (lab._job.get_registered, r"experiment\.py does not call lab\.measure"),
        (lambda: lab.submit("digits", "test", "method"), "cannot report on condition 'method'"),
        (lambda: lab.result("loss", 1.0, dataset="iris"), "cannot report on dataset 'iris'"),
        (lambda: lab.artifact("net", arm="other"), r"reads=\{'method': 'other'\}"),
        (lambda: lab.artifact("net"), "needs either node= or arm="),
    ],
)
def test_wrong_use_in_a_cell_is_refused_in_words(in_cell: Path, call: Callable[[], object], words: str) -> None:
    with pytest.raises(lab.LabError, match=words):
        call()


def test_what_a_cell_says_is_of_itself(in_cell: Path) -> None:
    lab.log("loss", 2.0, step=1)
    lab.result("size", 3, condition="method@noise")
    lab.save("loss", [1, 2])
    (in_cell / "net.pt").write_text("weights")
    lab.save_artifact("net.pt", in_cell / "net.pt")
    said = [json.loads(line) for line in (in_cell / "measurements.jsonl").read_text().splitlines()]
    assert {(one["dataset"], one["condition"]) for one in said} == {("digits", "method@noise")}
    assert [path.name for path in (in_cell / "arrays").iterdir()] == ["loss__digits__method__noise.npy"]
    assert [path.name for path in (in_cell / "artifacts").iterdir()] == ["net__digits__method__noise.pt"]
    other = in_cell / "inputs" / "arms" / "base"
    other.mkdir(parents=True)
    np.save(other / "net__digits__base__noise.npy", np.ones(2))
    assert lab.artifact("net", arm="base").name == "net__digits__base__noise.npy"


@pytest.mark.parametrize(
    ("arm", "names"),
    [
        ("early", {"experiment.py", "common.py", "arms/__init__.py", "arms/base.py", "arms/early.py"}),
        ("late", {"experiment.py", "common.py", "arms/__init__.py", "arms/base.py", "arms/early.py", "arms/late.py"}),
        ("without-x", {"experiment.py", "common.py", "arms/__init__.py", "arms/base.py", "arms/without_x.py"}),
        ("new", {"experiment.py", "common.py", "arms/__init__.py", "arms/base.py"}),
    ],
)
def test_a_cell_sees_the_files_of_its_arm(arm: str, names: set[str]) -> None:
    files = (
        "experiment.py plots.py common.py arms/__init__.py arms/base.py arms/early.py arms/late.py arms/without_x.py"
    ).split()
    source: dict[str, str] = dict.fromkeys(files, "")
    arms = ("early", "late", "without-x", "new")
    assert set(select_visible_files(source, arm, arms=arms, reads={"late": "early"})) == names


NEEDY = """
import time
import lab
import numpy as np

def run(cell):
    held = np.ones(int(6e8 if cell.arm == "hungry" else 1e6), dtype=np.uint8)
    if cell.arm == "slow":
        time.sleep(60)
    time.sleep(1)
    lab.result("size", float(held.sum()), condition=cell.condition, dataset=cell.dataset, split="validation")

lab.measure(run)
"""


@pytest.mark.slow
def test_a_cell_gets_the_memory_and_the_hours_that_its_arm_needs(store: DatasetStore, tmp_path: Path) -> None:
    """A cell that uses more memory than its arm declares is killed and retried alone on the machine."""
    seen: list[tuple[str, str]] = []

    async def took(one: Cell, outcome: CellResult, folder: Path) -> Path:
        seen.append((one.arm, outcome.failure.kind if outcome.failure else ""))
        return folder

    needs = {"hungry": ResourceNeeds(memory_gb=0.5), "slow": ResourceNeeds(hours=3 / 3600)}
    cells = cell_tasks(map(cell, ("hungry", "slow", "plain")), needs=needs)
    job = Job(name="needs", folder=tmp_path / "job", source={"experiment.py": NEEDY}, timeout=60.0, cells=cells)
    found = asyncio.run(run_alone(store, job, slots=2, cache=tmp_path / "cache", commit=took))
    assert [kind for arm, kind in seen if arm == "hungry"] == ["memory", ""]
    became = {line.cell.arm: (line.outcome, line.why) for line in found.cells}
    assert became["hungry"] == ("measured", "") and became["plain"] == ("measured", "")  # the second time
    assert became["slow"][0] == "failed" and became["slow"][1].startswith("timeout")
