"""Runs in trackers: what they are told, and what their own readers give back (where they are installed)."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.inspector.tracking.tracked_runs import TrackedRun, Tracker, TrackerSync, read_tracked_record
from labwright.record.event_log import EventLog
from labwright.record.events.search_events import AttemptExecuted
from labwright.record.run_folder import RunFolder
from labwright.record.schema.nodes import Attempt
from tests.inspector.sample_run import EventStory, make_ended
from tests.inspector.test_logs import written
from tests.inspector.web_server import append_events, record_story


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunFolder(written(tmp_path / "calm", make_ended()))
    log = EventLog(folder.events)
    log.append(AttemptExecuted(node="n0006", attempt=Attempt(number=1, seconds=1.0, curves_sha256="0")))
    log.close()
    folder.get_attempt_path("n0006", 1).mkdir(parents=True)
    (folder.get_attempt_path("n0006", 1) / "measurements.jsonl").write_text(
        "\n".join(
            (
                '{"name": "loss", "dataset": "digits", "split": "train", "condition": "smooth@1", "step": 1, '
                '"value": 0.5}',
                '{"name": "loss", "dataset": "digits", "split": "train", "condition": "smooth@1", "step": 2, '
                '"value": 0.25}',
                '{"name": "loss", "dataset": "digits", "split": "train", "condition": "smooth@1", "step": 3, '
                '"value": NaN}',
                "damaged",
                "[1]",
            )
        )
    )
    folder.get_source_path("n0006").mkdir(parents=True)
    (folder.get_source_path("n0006") / "experiment.py").write_text("print(1)\n")
    (folder.get_source_path("n0006") / "link.py").symlink_to("/etc/passwd")
    return folder.root


def test_one_table_of_what_is_told(run: Path) -> None:
    record = read_tracked_record(run)
    assert [one.id for one in record.nodes] == [f"n000{k}" for k in range(1, 7)]
    mended, last = record.nodes[2], record.nodes[5]
    assert mended.metrics["validation/digits/smooth/log_loss"] == 0.3 and mended.metrics["seconds"] == 4.0
    assert mended.tags["scientist.parent"] == "n0001" and mended.started_at < mended.ended_at
    assert last.curves == (("curve/train/digits/smooth_1/loss", 1, 0.5), ("curve/train/digits/smooth_1/loss", 2, 0.25))
    assert last.files == ("nodes/n0006/source/experiment.py",) and not last.done
    assert record.run.params["primary_metric"] == "log_loss"
    assert not set("\x1b\x00") & set(str(record.nodes))


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_a_package_that_is_missing_is_named(
    run: Path, tmp_path: Path, tracker: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(f"labwright.inspector.tracking.{tracker}.import_module", missing)
    assert main(["export", str(run), f"--{tracker}", str(tmp_path / "there")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"pip install 'labwright[{tracker}]'" in line and not (tmp_path / "there").exists()


class Kept:
    """A sink that keeps what it is told; `faulty`: one that is away from the second node on."""

    address = "memory"

    def __init__(self, folder: Path, run: TrackedRun) -> None:
        self.nodes: list[str] = []
        self.updates: list[tuple[int, float]] = []
        self.closed: list[bool] = []
        self.faulty = False

    def write_node(self, one: TrackedRun) -> None:
        if self.faulty and self.nodes:
            raise ConnectionError("it is away")
        self.nodes.append(one.id)

    def update_run(self, run: TrackedRun, step: int) -> None:
        self.updates.append((step, run.metrics["nodes"]))

    def close(self, run: TrackedRun) -> None:
        self.closed.append(run.done)


@pytest.mark.parametrize("faulty", [False, True])
def test_a_mirror_tells_a_tracker_of_each_node_once_and_never_holds_up_the_run(tmp_path: Path, faulty: bool) -> None:
    sinks, said, story = list[Kept](), list[str](), make_ended()

    def opened(folder: Path, run: TrackedRun) -> Tracker:
        sinks.append(Kept(folder, run))
        sinks[0].faulty = faulty
        return sinks[0]

    with TrackerSync(tmp_path / "calm", opened, said.append, sync_seconds=0.01):
        for n, (event, _) in enumerate(story.events):
            append_events(record_story(tmp_path / "calm", EventStory()) if not n else tmp_path / "calm", event)
    [sink] = sinks
    if faulty:
        assert sink.nodes == ["n0001"] and not sink.closed
        assert said == ["mirroring to the tracker stopped: it is away"]
    else:
        assert sorted(sink.nodes) == ["n0001", "n0002", "n0003", "n0004", "n0005"] and said == []
        assert sink.closed == [True] and sink.updates[-1] == (len(story.events), 6)


def test_a_tracker_that_is_not_there_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        """No package is installed."""

    monkeypatch.setattr("labwright.inspector.tracking.tracked_runs.find_spec", nothing)
    idea = "examples/ideas/label_noise_calibration.json"
    assert main(["run", "--idea", idea, "--runs", str(tmp_path / "runs"), "--track", "mlflow:there"]) == 2
    assert main(["run", "--idea", idea, "--runs", str(tmp_path / "runs"), "--track", "paper"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert "pip install 'labwright[mlflow]'" in said[0] and "give wandb or mlflow" in said[1]
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's own store asks SQLAlchemy in an outdated way
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="the extra mlflow is not installed")
def test_mlflow_gives_back_what_it_was_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "ml"
    assert main(["export", str(run), "--mlflow", str(place)]) == 0
    assert main(["export", str(run), "--mlflow", str(place)]) == 2 and "already" in capsys.readouterr().err
    assert main(["export", str(run), "--mlflow", str(place), "--force"]) == 0
    client: Any = import_module("mlflow.tracking").MlflowClient(tracking_uri=f"sqlite:///{place / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name("scientist").experiment_id])
    by_node = {one.data.tags.get("scientist.node", ""): one for one in found}
    record = read_tracked_record(run)
    assert len(found) == 1 + len(record.nodes)
    for node in record.nodes:
        assert node.metrics.items() <= by_node[node.id].data.metrics.items()
        assert by_node[node.id].data.tags["mlflow.parentRunId"] == by_node[""].info.run_id
    last = by_node["n0006"].info.run_id
    history = client.get_metric_history(last, "curve/train/digits/smooth_1/loss")
    assert [(one.step, one.value) for one in history] == [(1, 0.5), (2, 0.25)]
    assert [one.path for one in client.list_artifacts(last, "source")] == ["source/experiment.py"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="the extra wandb is not installed")
def test_wandb_writes_a_folder_a_node_and_sends_nothing(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), "--wandb", str(tmp_path / "wb")]) == 0
    folders = sorted((tmp_path / "wb" / "wandb").glob("offline-run-*"))
    assert len(folders) == 7
    [last] = [one for one in folders if one.name.endswith("calm-n0006")]
    assert (last / "files" / "source" / "experiment.py").read_text() == "print(1)\n"
    assert b"curve/train/digits/smooth_1/loss" in next(last.glob("*.wandb")).read_bytes()
    assert main(["export", str(run), "--wandb", str(tmp_path / "wb")]) == 2
