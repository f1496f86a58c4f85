"""GPUs and pretrained models on the command line: what cannot be had is refused before anything is created."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import labwright.sandbox.gpus as leases
from labwright.agent.cli import main
from tests.fake_executor import FakeNvml, make_gpus

IDEA: dict[str, Any] = {"Name": "calm", "Title": "Calm networks", "Experiments": ["train one"]}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    # The only door to the driver, which this machine has not: two GPUs, one of them hidden.
    monkeypatch.setattr(leases, "Nvml", lambda: FakeNvml(make_gpus(2)))
    Path("idea.json").write_text(json.dumps(IDEA))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpus", "0,1"], "sandbox.gpus: '1' is not one of the 1 visible GPUs: 0 scripted GPU-00000001"),
        (["--gpus", "0", "--set", "sandbox.gpus_per_node=2"], "sandbox.gpus_per_node is 2, but 1 GPU is available"),
        (["--set", "sandbox.pretrained=tiny/bert"], "sandbox.pretrained: 'tiny/bert' is not OWNER/NAME@REVISION"),
        (["--set", "sandbox.slots_per_gpu=0"], "setting 'sandbox.slots_per_gpu'"),
    ],
)
def test_what_cannot_be_had_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--idea", "idea.json", "--model", "offline", *arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith(f"scientist: {words}")
    assert sorted(path.name for path in Path().iterdir()) == ["idea.json"]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "said"), [("1", ""), ("2", "2 workers, but 1 experiment(s) fit on the GPUs")])
def test_a_gpu_that_is_there_is_taken(workers: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is wrong with it: the offline model, which is asked later, refuses the idea."""
    arguments = ["run", "--idea", "idea.json", "--model", "offline", "--gpus", "0", "--workers", workers]
    assert main(arguments) == 2
    *before, last = capsys.readouterr().err.splitlines()
    assert "the built-in offline model supports only one study" in last
    assert "".join(before).startswith(f"scientist: {said}" if said else "") and len(before) == bool(said)
