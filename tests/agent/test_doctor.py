"""The examination of a machine: real probes, with faults planted through PATH, files and what the system says."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.agent import environment
from labwright.agent.api_keys import KEY_VARIABLES
from labwright.agent.cli import main
from labwright.agent.cli.doctor import check_machine
from labwright.agent.doctor import Verdict, machine
from labwright.agent.settings import Settings
from labwright.sandbox.isolation import processes
from labwright.sandbox.settings import SandboxSettings

pytestmark = pytest.mark.slow

SLOW = ("check_packages", "check_experiment_packages", "check_kernel", "check_gpu", "check_typesetting")


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def plant(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def grade(finding: Verdict) -> str:
    assert bool(finding.fix) == (finding.grade != "ok"), "what is not ok comes with its fix, and nothing else does"
    return finding.grade


def test_a_probe_that_breaks_is_a_fault_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Verdict:
        raise RuntimeError("two\nlines")

    def fine(*_: object) -> Verdict:
        return Verdict("ok", "fine")

    for name in SLOW:
        monkeypatch.setattr(machine, name, fine)
    monkeypatch.setattr(machine, "check_disk", fails)
    found = list(check_machine(Settings(), tmp_path, {}))
    [one] = [one for check, one in found if check == "disk"]
    assert grade(one) == "fault" and "RuntimeError: two lines" in one.found and len(found) == 9


# --- packages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "expected", "words"),
    [
        ("pytest>=1", "ok", "has all 1"),
        ("pytest<1", "fault", "(required: <1)"),
        ("no-such-package", "fault", "no-such-package is not installed"),
        ("no-such-package; extra == 'x'", "ok", "all 0"),
    ],
)
def test_packages_are_held_against_what_is_declared(
    monkeypatch: pytest.MonkeyPatch, needs: str, expected: str, words: str
) -> None:
    def requires(name: str) -> list[str]:
        return [needs]

    monkeypatch.setattr(machine, "requires", requires)
    found = machine.check_packages()
    assert grade(found) == expected and words in found.found


def test_the_kernels_own_interpreter_is_asked_for_what_experiments_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "REPORTED_PACKAGES", ("torch", "no-such-package"))
    found = machine.check_experiment_packages(sys.executable)
    assert grade(found) == "warning" and "pip install no-such-package" in found.fix and "torch" not in found.found
    assert grade(machine.check_experiment_packages(str(tmp_path / "python"))) == "fault"


# --- the machine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "device", "expected", "words"),
    [
        ("""echo '["12.8", ["H200"]]'""", "cuda", "ok", "H200"),
        ("""echo '["12.8", ["H200"]]'""", "cpu", "warning", "will not use it"),
        ("echo '[null, []]'", "cuda", "fault", "torch sees no GPU"),
        ("echo '[null, []]'", "cpu", "warning", "driver is"),
        ("echo no libcuda >&2; exit 1", "cuda", "fault", "torch failed: no libcuda"),
        ("exec /bin/sleep 20", "cpu", "warning", "timed out"),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_found(
    bin: Path, monkeypatch: pytest.MonkeyPatch, torch: str, device: str, expected: str, words: str
) -> None:
    monkeypatch.setattr(machine, "TORCH_LIMIT_SECONDS", 3.0)
    plant(bin, "nvidia-smi", "exit 0")
    plant(bin, "python", torch)
    found = machine.check_gpu("python", device)
    assert grade(found) == expected and words in found.found


@pytest.mark.parametrize(
    ("free_kb", "limit", "expected"),
    [
        (16_000_000, "max", "ok"),
        (2_000_000, "max", "warning"),
        (500_000, "max", "fault"),
        (16_000_000, "1000000000", "fault"),
        (16_000_000, "2000000000", "warning"),
    ],
)
def test_memory_counts_what_the_control_group_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_kb: int, limit: str, expected: str
) -> None:
    (tmp_path / "memory.max").write_text(limit + "\n")

    def own(kind: str, file: str) -> list[Path]:
        return [tmp_path / "memory.max"]

    monkeypatch.setattr(processes, "_find_own_cgroup_paths", own)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=32e9, available=free_kb * 1024))
    assert grade(machine.check_memory(4)) == expected


# --- TeX ------------------------------------------------------------------------------------------------------------


def test_programs_of_tex_that_are_missing_are_named_with_the_packages_of_debian(bin: Path) -> None:
    found = machine.check_typesetting("workshop")
    assert grade(found) == "fault" and "pdflatex" in found.found
    assert "apt-get install" in found.fix and "texlive-latex-recommended" in found.fix


@pytest.mark.skipif(shutil.which("latexmk") is None, reason="needs TeX")
def test_a_paper_of_two_lines_is_really_set(tmp_path: Path) -> None:
    assert grade(machine.check_typesetting("workshop")) in ("ok", "warning")
    found = machine.check_typesetting(str(tmp_path))
    assert grade(found) == "fault" and "docs/paper.md" in found.fix


# --- isolation ------------------------------------------------------------------------------------------------------


def test_a_missing_bubblewrap_is_a_warning_that_says_what_it_means(bin: Path) -> None:
    found = machine.check_isolation()
    assert grade(found) == "warning" and "without isolation" in found.found
    assert "apt-get install bubblewrap" in found.fix


SYS = "proc/sys/kernel/"


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ({f"{SYS}apparmor_restrict_unprivileged_userns": "1\n"}, "profile bwrap /"),
        ({f"{SYS}apparmor_restrict_unprivileged_userns": "1\n"}, "apparmor_restrict_unprivileged_userns=0"),
        ({f"{SYS}unprivileged_userns_clone": "0\n"}, "kernel.unprivileged_userns_clone=1"),
        ({"proc/sys/user/max_user_namespaces": "0\n"}, "user.max_user_namespaces="),
        ({".dockerenv": "", f"{SYS}apparmor_restrict_unprivileged_userns": "1\n"}, "run --security-opt"),
        ({"var/run/secrets/kubernetes.io": ""}, "this is a container: start it with"),
        ({f"{SYS}apparmor_restrict_unprivileged_userns": "0\n", f"{SYS}unprivileged_userns_clone": "1\n"}, "dmesg"),
    ],
)
def test_each_reason_has_its_own_fix(bin: Path, tmp_path: Path, marks: dict[str, str], words: str) -> None:
    for name, text in marks.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    plant(bin, "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    found = machine.check_isolation(tmp_path)
    assert grade(found) == "warning" and words in found.fix
    assert "No permissions" in found.found and "\n" not in found.fix
    required = machine.check_isolation(tmp_path, wanted="required")
    assert grade(required) == "fault" and words in required.fix


# --- keys -----------------------------------------------------------------------------------------------------------


@given(st.text("QXZJ9876", min_size=4, max_size=60), st.sampled_from(KEY_VARIABLES))
def test_no_part_of_a_key_is_ever_shown(secret: str, name: str) -> None:
    parts = {secret[n : n + 3] for n in range(len(secret) - 2)}
    for held in (secret, f" {secret}", f"'{secret}'", f"{secret}\n", f"<{secret}>"):
        shown = machine.check_keys({name: held}).found
        assert name in shown and not any(part in shown for part in parts) and str(len(held)) not in shown


@pytest.mark.parametrize("value", ["", "  ", "abc def", "abc\n", "'abc'", "<your key>"])
def test_a_key_that_cannot_be_right_is_a_warning(value: str) -> None:
    found = machine.check_keys({"OPENAI_API_KEY": value, "HF_TOKEN": "hf-good"})
    assert grade(found) == "warning" and found.found.startswith("HF_TOKEN; ") and found.found.endswith("OPENAI_API_KEY")


# --- a kernel, and the whole ----------------------------------------------------------------------------------------


def test_a_real_kernel_makes_the_round_trip() -> None:
    assert grade(machine.check_kernel(SandboxSettings())) == "ok"


def test_an_interpreter_that_cannot_be_a_kernel_is_a_fault(tmp_path: Path) -> None:
    for script in ("echo no module named ipykernel >&2; exit 1", None):
        python = tmp_path / "python"
        plant(tmp_path, "python", script) if script else python.unlink()
        found = machine.check_kernel(SandboxSettings(python=str(python), start_timeout=5))
        assert grade(found) == "fault" and "sandbox.python" in found.fix


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The slow probes answer at once; they have tests of their own."""

    def fine(*_: object) -> Verdict:
        return Verdict("ok", "fine")

    for name in SLOW:
        monkeypatch.setattr(machine, name, fine)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("quick")
def test_the_command_prints_a_line_a_check_and_makes_no_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-indeed")
    code = main(["doctor", "--runs", str(tmp_path / "runs")])
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 10 and out[-1].split()[:3] == ["skipped", "model", "give"]
    assert all(line.split()[0] in ("ok", "warning", "fault") for line in out[:-1])
    assert code == (5 if any(line.startswith("fault") for line in out) else 0)
    assert "secret" not in "".join(out) and not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("quick")
def test_a_fault_is_exit_5_also_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--set", "min_free_gb=1000000", "--json"]) == 5
    said = json.loads(capsys.readouterr().out)
    assert said["counts"]["fault"] >= 1
    assert next(one for one in said["findings"] if one["check"] == "disk")["grade"] == "fault"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--base-url", "http://localhost:1/v1"], "--base-url requires --model"),
        (["--set", "min_free=1"], "did you mean 'min_free_gb'?"),
        (["--config", "none.yaml"], "cannot read the config"),
    ],
)
def test_what_doctor_cannot_use_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
