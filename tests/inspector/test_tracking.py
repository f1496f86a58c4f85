"""Runs in trackers: what they are sent, and what their own readers give back (where they are installed)."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.inspector.tracking import Snapshot, Tracker, TrackerSync, build_snapshot
from labwright.record.event_log import read_state
from tests.inspector.sample_run import EventStory, make_ended
from tests.inspector.test_logs import written
from tests.inspector.web_server import append_events, record_story


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return written(tmp_path / "calm", make_ended())


def test_a_snapshot_has_the_scalars_and_the_status(run: Path) -> None:
    state = read_state(run)
    now = build_snapshot("calm", state)
    assert now.metrics.keys() == {"model_calls", "usd", "nodes", "best"} and now.metrics["nodes"] == 6
    assert now.texts["metric"] == "log_loss" and now.texts["status"] == "done" and now.ended
    assert now.started_at < now.at and now.step == state.event_count
    assert not set("\x1b\x00") & set(str(now))


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_a_package_that_is_missing_is_named(
    run: Path, tmp_path: Path, tracker: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        """No package is installed."""

    monkeypatch.setattr("labwright.inspector.tracking.find_spec", nothing)
    assert main(["export", str(run), f"--{tracker}", str(tmp_path / "there")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"pip install '.[{tracker}]'" in line and not (tmp_path / "there").exists()


class Kept:
    """A sink that keeps what it is sent; `faulty`: one that is away at the end."""

    address = "memory"

    def __init__(self) -> None:
        self.updates: list[Snapshot] = []
        self.closed: list[tuple[bool, dict[str, str]]] = []
        self.faulty = False

    def update(self, now: Snapshot) -> None:
        self.updates.append(now)

    def close(self, now: Snapshot, files: Path) -> None:
        if self.faulty:
            raise ConnectionError("it is away")
        self.closed.append((now.ended, {one.name: one.read_text() for one in files.iterdir()}))


@pytest.mark.parametrize("faulty", [False, True])
def test_a_mirror_sends_each_change_once_and_never_holds_up_the_run(tmp_path: Path, faulty: bool) -> None:
    sinks, said, story = list[Kept](), list[str](), make_ended()

    def opened(folder: Path, now: Snapshot) -> Tracker:
        sinks.append(Kept())
        sinks[0].faulty = faulty
        return sinks[0]

    with TrackerSync(tmp_path / "calm", opened, said.append, sync_seconds=0.01):
        for n, (event, _) in enumerate(story.events):
            append_events(record_story(tmp_path / "calm", EventStory()) if not n else tmp_path / "calm", event)
    [sink] = sinks
    steps = [one.step for one in sink.updates]
    if faulty:
        assert not sink.closed
        assert said == ["mirroring to the tracker stopped: it is away"]
    else:
        assert steps == sorted(set(steps)) and said == []
        assert (sink.updates[-1].step, sink.updates[-1].metrics["nodes"]) == (len(story.events), 6)
        [(ended, files)] = sink.closed
        assert ended and [*files] == ["claims.csv"] and files["claims.csv"].startswith("key,kind,metric")


def test_a_tracker_that_is_not_there_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        """No package is installed."""

    monkeypatch.setattr("labwright.inspector.tracking.find_spec", nothing)
    idea = "examples/ideas/label_noise_calibration.json"
    assert main(["run", "--idea", idea, "--runs", str(tmp_path / "runs"), "--track", "mlflow:there"]) == 2
    assert main(["run", "--idea", idea, "--runs", str(tmp_path / "runs"), "--track", "paper"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert "pip install '.[mlflow]'" in said[0] and "give wandb or mlflow" in said[1]
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's own store asks SQLAlchemy in an outdated way
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="the extra mlflow is not installed")
def test_mlflow_gives_back_what_it_was_sent(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "ml"
    assert main(["export", str(run), "--mlflow", str(place)]) == 0
    assert main(["export", str(run), "--mlflow", str(place)]) == 2 and "already" in capsys.readouterr().err
    assert main(["export", str(run), "--mlflow", str(place), "--force"]) == 0
    client: Any = import_module("mlflow.tracking").MlflowClient(tracking_uri=f"sqlite:///{place / 'mlflow.db'}")
    [found] = client.search_runs([client.get_experiment_by_name("scientist").experiment_id])
    now = build_snapshot("calm", read_state(run))
    assert found.data.metrics == now.metrics and found.info.status == "FINISHED"
    assert found.data.tags["scientist.status"] == now.texts["status"]
    assert {one.step for one in client.get_metric_history(found.info.run_id, "nodes")} == {now.step}
    assert [one.path for one in client.list_artifacts(found.info.run_id)] == ["claims.csv"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="the extra wandb is not installed")
def test_wandb_writes_one_folder_and_sends_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)  # an export is offline all the same
    assert main(["export", str(run), "--wandb", str(tmp_path / "wb")]) == 0
    [folder] = (tmp_path / "wb" / "wandb").glob("offline-run-*-calm")
    assert (folder / "files" / "claims.csv").read_text().startswith("key,kind,metric")
    assert b"model_calls" in next(folder.glob("*.wandb")).read_bytes()
    assert main(["export", str(run), "--wandb", str(tmp_path / "wb")]) == 2
