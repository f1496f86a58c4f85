"""The checks of `scientist doctor --gpu`: on the CPU in the form that they have there."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.agent.doctor import gpu
from labwright.agent.doctor.gpu import GpuCheck, GpuChecker, build_gpu_report, redact_names
from tests.sandbox.conftest import SETTINGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_check_passes_in_a_real_kernel_and_the_report_names_no_machine() -> None:
    checks = GpuChecker(SETTINGS)
    made = next(checks.run_all())
    assert (made.name, made.outcome, made.why) == ("fork", "passed", "")
    report = build_gpu_report(checks, (made,))
    assert report.all_passed and report.torch.startswith("2.") and not report.gpus
    text = report.model_dump_json()
    assert str(Path.home()) not in text and "/tmp" not in text and socket.gethostname() not in text


@pytest.mark.bench
@pytest.mark.slow
def test_every_check_holds_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "HANG_LIMIT_SECONDS", 3.0)
    checks = GpuChecker(SETTINGS)
    made = {one.name: one for one in checks.run_all()}
    names = ("fork", "two", "bf16", "same", "memory", "kill")
    assert {name: (one.outcome, one.why) for name, one in made.items()} == dict.fromkeys(names, ("passed", ""))


def test_a_check_that_breaks_has_failed_and_names_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no such file: /home/somebody/secret.txt")

    monkeypatch.setattr(gpu, "run_file", broken)
    made = list(GpuChecker(SETTINGS).run_all())
    assert [one.outcome for one in made] == ["failed"] * 6
    assert made[0].why == "OSError: no such file: PATH"
    assert not build_gpu_report(GpuChecker(SETTINGS), made).all_passed
    assert redact_names("half a/b of ~/x/y.py, /scratch and /usr/bin/python3") == "half a/b of PATH, PATH and PATH"
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-box-7.lab.example")
    monkeypatch.setenv("USER", "alice")
    assert redact_names("[gpu-box-7.lab.example]:29500 from gpu-box-7, user alice; malice stays") == (
        "[HOST]:29500 from HOST, user USER; malice stays"
    )


@pytest.mark.slow
def test_without_a_gpu_it_is_one_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["doctor", "--gpu"]) == 2
    told = capsys.readouterr()
    assert not told.out and told.err.count("\n") == 1 and "sandbox.device is cuda, but" in told.err
    assert not [*tmp_path.iterdir()]
    (tmp_path / "there.json").write_text("{}")
    assert main(["doctor", "--gpu", "--out", "there.json"]) == 2
    assert (
        "already exists: choose another --out" in capsys.readouterr().err
        and (tmp_path / "there.json").read_text() == "{}"
    )


def test_readme_says_on_which_gpus_it_was_tried_as_the_committed_reports_do() -> None:
    readme = (ROOT / "README.md").read_text()
    reports = [*(ROOT / "docs" / "gpu-reports").glob("*.json")]
    for report in reports:
        content = json.loads(report.read_text())
        checks = [GpuCheck.model_validate(one) for one in content["checks"]]
        assert checks and all(one.outcome != "failed" for one in checks)
        model = content["gpus"][0].split(",")[0].removeprefix("NVIDIA ")
        assert f"GPU support was tried once, on [one {model}]" in readme
    assert len(reports) == 1
