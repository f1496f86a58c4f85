"""`scientist reproduce`: real kernels run a small record again; what is another number, or other code, is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.agent.cli.reproduce import find_machine_differences
from labwright.agent.environment import describe_machine
from labwright.agent.settings import Settings, compose_settings
from labwright.record.event_log import EventLog, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    PlanPrepared,
    SealedTestScored,
    StageWinnerChosen,
)
from labwright.record.lock import acquire_lock
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, MetricSpec
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt
from labwright.sandbox.datasets import SALT_FILE, build_registry, find_user_salt, materialise, read_materialised
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.scoring import score_sealed
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.evidence.reproduction import copy_datasets
from tests.jobs import run_job

CODE = """\
import numpy as np
import lab

lab.seed_everything()
data = lab.data("iris")
SPREAD = np.random.{generator}
for split in ("validation", "test"):
    x = getattr(data, split).x
    for condition, weight in (("baseline", 0.0), ("method", 1.0)):
        means = [data.train.x[data.train.y == c].mean(0) for c in range(data.classes)]
        scores = np.stack([-((x - mean) ** 2).sum(1) for mean in means], 1)
        scores = scores * (0.5 + weight * SPREAD.uniform(0.0, 0.1))
        lab.submit("iris", split, condition, logits=scores + SPREAD.normal(0, 0.1, scores.shape))
"""
SEEDED, UNSEEDED = CODE.format(generator="default_rng(lab.seed)"), CODE.format(generator="default_rng()")
PLAN = DataPlan(
    task="classify",
    datasets=(DatasetUse(name="iris"),),
    expected_seconds=1,
    metrics=(MetricSpec(name="log_loss", higher_is_better=False),),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
)
SETTINGS = compose_settings(
    flags={"sandbox.isolation": "auto", "search.num_workers": 2, "sandbox.timeout": 60}, environment={}
)


def recorded(root: Path, code: str, *, replicates: int = 2) -> Path:
    """A run of a winner and its replicates, executed in real kernels and scored on test data."""
    folder = RunFolder(root)
    folder.create_folders()
    facts = materialise("iris", views=folder.views, labels=folder.labels, seed=0)
    names = [f"n{k:04d}" for k in range(1, replicates + 2)]
    for name in names:
        seal_source(folder.get_source_path(name), {"experiment.py": code})
    ran = asyncio.run(executed(folder, code, names))
    sha256 = seal_source(folder.root / "unused", {"experiment.py": code})
    shutil.rmtree(folder.root / "unused")
    events: list[Event] = [
        RunStarted(
            idea=Idea(Name="i", Title="t", Experiments=("e",)),
            settings=SETTINGS.model_dump(mode="json"),
            seed=0,
            version="1",
            model="offline",
            machine=describe_machine(SETTINGS.sandbox),
        ),
        PlanPrepared(data_plan=PLAN, datasets=(facts,)),
    ]
    for k, (name, outcome) in enumerate(zip(names, ran, strict=True), 1):
        assert outcome.failure is None, outcome.failure
        kind = "draft" if k == 1 else "replicate"
        events += [
            DecisionMade(
                k=k, action=ExpandTree(stage="agenda", kind=kind, parent=None if k == 1 else names[0], seed=k)
            ),
            NodeProposed(node=name, decision=k, title="t", plan="p", varies="v", source_sha256=sha256),
            AttemptExecuted(
                node=name,
                attempt=Attempt(
                    number=1,
                    seconds=outcome.seconds,
                    limit=60.0,
                    measurements=outcome.measurements,
                    arrays=outcome.arrays,
                    sealed=outcome.sealed,
                    curves_sha256=outcome.curves_sha256,
                ),
            ),
            NodeJudged(node=name, status="good"),
        ]
    events.append(StageWinnerChosen(stage="agenda", best=names[0], ended="limit"))
    events += [
        SealedTestScored(node=name, measurements=score_sealed(folder.get_attempt_path(name, 1), folder.labels, seed=k))
        for k, name in enumerate(names, 1)
    ]
    with closing(EventLog(folder.events)) as log:
        for event in events:
            log.append(event)
    return root


async def executed(folder: RunFolder, code: str, names: list[str]) -> list[JobOutcome]:
    executor = LocalExecutor(2, folder.views, labels=folder.labels, settings=SETTINGS.sandbox, cache=folder.cache)
    try:
        return await asyncio.gather(
            *(
                run_job(
                    executor,
                    Job(
                        name=name,
                        folder=folder.get_attempt_path(name, 1),
                        source={"experiment.py": code},
                        seed=k,
                        timeout=60,
                        datasets=("iris",),
                    ),
                )
                for k, name in enumerate(names, 1)
            )
        )
    finally:
        await executor.close()


def reproduced(capsys: pytest.CaptureFixture[str], run: Path, *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["reproduce", str(run), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def contents(root: Path) -> dict[str, str]:
    """Every file of a run by its hash."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("runs") / "seeded", SEEDED)


@pytest.fixture(scope="module")
def unseeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("runs") / "unseeded", UNSEEDED)


@pytest.mark.slow
def test_a_run_gives_its_printed_digits_again_and_stays_untouched(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run)
    code, found = reproduced(capsys, run)
    assert code == 0 and found["good"] and found["unlike"] == [] and found["left_out"] == []
    assert [one["node"] for one in found["nodes"]] == ["n0001", "n0002", "n0003"]
    claims = [one for one in found["numbers"] if one["claim"]]
    assert {one["verdict"] for one in found["numbers"]} == {"equal"} and all(one["difference"] == 0 for one in claims)
    assert {len(one["nodes"]) for one in claims} == {2}, "a claim leaves the searched seed out"
    assert "diff/iris/log_loss/method~baseline" in {one["key"] for one in claims}
    assert any(one["key"].startswith("n0001:validation/") for one in found["numbers"])
    assert contents(run) == before and list(run.parent.iterdir()) == [run]


@pytest.mark.slow
def test_code_that_was_altered_is_not_run_and_one_replicate_is_enough_to_see_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    source = copy / "nodes" / "n0002" / "source" / "experiment.py"
    source.write_text(source.read_text().replace("0.5", "0.6"))
    code, found = reproduced(capsys, copy, "--node", "n0002")
    assert code == 5 and "its code differs from the recorded code" in found["nodes"][0]["failure"]
    assert {one["verdict"] for one in found["numbers"]} == {"missing"} and found["left_out"] == ["n0001", "n0003"]
    assert found["kept"] == str(tmp_path / "copy.reproduced")


@pytest.mark.slow
def test_what_a_killed_process_left_is_replaced_and_what_another_process_uses_is_not(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, left = tmp_path / "copy", tmp_path / "copy.reproduced"
    shutil.copytree(run, copy)
    (copy / "nodes" / "n0002" / "source" / "experiment.py").write_text("0.6")
    left.mkdir()
    (left / "half").touch()
    killed = "import os, sys; from pathlib import Path; from labwright.record.lock import FolderLock\n"
    killed += "FolderLock(Path(sys.argv[1])).acquire(); os._exit(9)"
    subprocess.run([sys.executable, "-c", killed, str(left)], check=False, timeout=600)
    assert reproduced(capsys, copy, "--node", "n0002")[1]["kept"] == str(left)
    assert not (left / "half").exists()
    with acquire_lock(left):
        assert reproduced(capsys, copy, "--node", "n0002")[1]["kept"] == f"{left}-2"
    assert reproduced(capsys, copy, "--node", "n0002")[1]["kept"] == f"{left}-3", "what a finished process kept stays"


@pytest.mark.slow
def test_code_without_a_seed_is_told_here_and_is_within_noise_elsewhere(
    unseeded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", str(unseeded)]) == 5
    out = capsys.readouterr().out
    assert "NOT reproduced" in out and "different" in out and "are kept in" in out
    code, found = reproduced(capsys, unseeded, "--set", "sandbox.threads=2")
    claims = [one for one in found["numbers"] if one["claim"]]
    assert found["unlike"] == ["sandbox.threads 1 in the run, 2 here"]
    assert "within noise" in {one["verdict"] for one in claims}
    assert all(one["difference"] <= one["noise"] for one in claims if one["verdict"] == "within noise")
    assert code == (0 if found["good"] else 5)


@pytest.mark.slow
def test_data_that_were_altered_are_made_again_from_their_source(run: Path, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "copy")
    shutil.copytree(run, copy.root)
    view = copy.views / "iris.npz"
    view.write_bytes(view.read_bytes()[:-200])
    scratch = RunFolder(tmp_path / "scratch")
    assert copy_datasets(read_state(run), copy, scratch, build_registry()) == ("iris",)
    assert read_materialised("iris", copy.views, copy.labels) is None
    assert read_materialised("iris", scratch.views, scratch.labels) == read_state(run).search.datasets[0]


@pytest.mark.slow
def test_data_whose_labels_and_secret_are_lost_are_made_again_with_the_secret_of_the_user(
    run: Path, tmp_path: Path
) -> None:
    copy, scratch = RunFolder(tmp_path / "copy"), RunFolder(tmp_path / "scratch")
    shutil.copytree(run, copy.root)
    secret = (copy.labels / SALT_FILE).read_text()
    assert find_user_salt().read_text() == secret
    shutil.rmtree(copy.labels)
    assert copy_datasets(read_state(run), copy, scratch, build_registry()) == ("iris",)
    assert (scratch.labels / SALT_FILE).read_text() == secret


@pytest.mark.slow
def test_what_cannot_be_run_again_is_refused_in_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--node", "n0099"], ["--limit", "0"], ["--set", "sandbox.thread=2"]):
        assert main(["reproduce", str(run), *options]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("scientist: ") and err.count("\n") == 1
    assert list(run.parent.iterdir()) == [run]


@pytest.mark.parametrize(
    ("there", "here", "must_be_equal"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_on_a_gpu_digits_are_held_to_be_equal_in_the_deterministic_mode_alone(
    there: bool, here: bool, must_be_equal: bool
) -> None:
    settings = Settings().model_copy(update={"sandbox": SandboxSettings(device="cuda", deterministic=here)})
    held = settings.sandbox.model_copy(update={"deterministic": there})
    state = RunState()
    apply_event(
        state,
        RunStarted(
            idea=Idea.model_validate({"Name": "x", "Title": "X", "Experiments": "e"}),
            seed=1,
            version="0",
            model="m",
            settings={"sandbox": held.model_dump(mode="json")},
            machine=describe_machine(settings.sandbox),
        ),
    )
    assert (find_machine_differences(state, settings) == ()) == must_be_equal
