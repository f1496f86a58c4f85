"""The GPU script: its scripted model answers what the study asks, its files fit each other, its parts report alone."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from benchmarks import gpu
from benchmarks.gpu_study.model import PROGRAMS, ScriptedServer
from labwright.agent.plan_files import check_plan, read_plan
from labwright.agent.settings import compose_settings
from labwright.models.roles import ROLES
from labwright.record.schema.idea import read_idea

STUDY = PROGRAMS.parent
ASKED = ("protocol_review", "feedback", "code_reader", "summary", "code", "plot")
"""Roles without whose answers the study comes to no decision."""


def ask(server: ScriptedServer, schema: dict[str, Any]) -> dict[str, Any]:
    body = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "?"}],
        "tools": [{"type": "function", "function": {"name": "final_result", "parameters": schema}}],
    }
    request = urllib.request.Request(
        f"{server.url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        answer = json.load(reply)
    return json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize("name", ASKED)
def test_the_scripted_model_answers_by_the_schema_alone(name: str) -> None:
    output: type[BaseModel] = ROLES[name].output
    with ScriptedServer() as server:
        answer = output.model_validate(ask(server, output.model_json_schema()))
    if name == "code":
        assert {one.path for one in getattr(answer, "files")} == {"experiment.py", "plots.py"}  # noqa: B009


def test_idea_and_plan_of_the_study_fit_each_other(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", x=rng.integers(2, 20, (200, 8)), y=rng.integers(0, 4, 200))
    settings = compose_settings(
        flags={"data": [{"name": "sequences", "path": str(tmp_path / "x.npz")}]}, environment={}
    )
    path = STUDY / "plan.yaml"
    check_plan(read_plan(path), path, read_idea(STUDY / "idea.json"), settings)


def test_a_part_that_breaks_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(self: gpu.GpuParts) -> dict[str, Any]:
        raise ValueError("odd")

    def good(self: gpu.GpuParts) -> dict[str, Any]:
        return {"seen": 1}

    monkeypatch.setattr(gpu.GpuParts, "describe_machine", breaks)
    monkeypatch.setattr(gpu.GpuParts, "check_inside", good)
    out = tmp_path / "new" / "gpu.json"
    words = ["--device", "cpu", "--only", "machine", "--only", "inside", "--only", "leases", "--out", str(out)]
    assert gpu.main(words) == 1
    report = json.loads(out.read_text())
    assert report == json.loads(capsys.readouterr().out)
    assert [(name, one["outcome"]) for name, one in report["parts"].items()] == [
        ("machine", "failed"),
        ("inside", "ok"),
        ("leases", "skipped"),
    ]
    assert report["parts"]["machine"]["why"] == "ValueError: odd"
    assert gpu.main(["--device", "cpu", "--minutes", "0.1", "--only", "inside"]) == 0
    assert "the minutes are over" in capsys.readouterr().out


@pytest.mark.slow
def test_a_command_that_never_ends_is_ended(tmp_path: Path) -> None:
    checks = gpu.GpuParts("cpu", tmp_path, time.monotonic() + 60)
    checks.program = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(gpu.PartFailed, match="not finished after"):
        checks.run_scientist(limit=0.1)


def test_the_command_for_the_other_machine_is_short() -> None:
    script = (Path(gpu.__file__).parent / "gpu_carry.sh").read_text()
    command = script[script.index("<<COMMAND\n") :]
    assert len(command) < 1500 and re.search(r"--minutes \d+", command)
