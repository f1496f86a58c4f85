"""The examination of a machine: real probes, with faults planted through PATH, files and what the system says."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agent.cli import main
from agent.cli.doctor import TEMPLATES, examine
from agent.doctor import machine, software
from agent.doctor.probe import Finding, run
from agent.doctor.software import Family, Package, read_family
from agent.keys import NAMES
from agent.settings import Settings
from record.network import kind_of
from sandbox.isolation import limits
from sandbox.settings import SandboxSettings

pytestmark = pytest.mark.slow

SLOW = ((software, "packages"), (software, "of_experiments"), (machine, "kernel"), (machine, "gpu"))



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


def grade(finding: Finding) -> str:
    assert bool(finding.fix) == (finding.grade != "ok"), "what is not ok comes with its fix, and nothing else does"
    return finding.grade


# --- programs -------------------------------------------------------------------------------------------------------


def test_a_program_that_does_not_end_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    plant(tmp_path, "slow", f"/bin/sleep 5 & echo $! > {tmp_path}/child; wait")
    began = time.monotonic()
    ran = run([str(tmp_path / "slow")], limit=0.3)
    assert ran.code is None and "within 0.3 s" in ran.problem
    assert time.monotonic() - began < 3
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    until = time.monotonic() + 2
    while (state := child.read_text().split()[2] if child.exists() else "gone") not in ("Z", "gone"):
        assert time.monotonic() < until, f"still there: {state}"
        time.sleep(0.02)


def test_a_program_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    assert "cannot be started" in run([str(tmp_path / "none")], limit=1).problem


def test_a_probe_that_breaks_is_a_fault_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Finding:
        raise RuntimeError("two\nlines")

    def fine(*_: object) -> Finding:
        return Finding(check="x", grade="ok", found="fine")

    for module, name in SLOW:
        monkeypatch.setattr(module, name, fine)
    monkeypatch.setattr(machine, "disk", fails)
    found = list(examine(Settings(), tmp_path, {}))
    [one] = [one for one in found if one.check == "disk"]
    assert grade(one) == "fault" and "RuntimeError: two lines" in one.found and len(found) == 12


# --- Python and packages --------------------------------------------------------------------------------------------


def test_an_old_python_is_a_fault() -> None:
    assert grade(software.python((3, 10, 9))) == "fault"
    assert grade(software.python((3, 13, 0))) == "ok"


def test_every_dependency_is_looked_at_and_every_tested_version_known() -> None:
    names = {one.name for one in software.declared()}
    assert {"torch", "numpy", "pydantic-ai-slim", "typer"} <= names
    assert set(software.tested()) >= {one.lower() for one in names}


def test_every_dependency_is_imported_by_a_name_that_its_metadata_has() -> None:
    provided = packages_distributions()
    for one in software.declared():
        name = software.IMPORTED_AS.get(one.name, one.name.replace("-", "_"))
        assert canonicalize_name(one.name) in {canonicalize_name(by) for by in provided.get(name, [])}, one.name


@pytest.mark.parametrize(("lacks", "expected"), [
    ("", "ok"), ("torch", "warning"), ("ipykernel", "fault"), ("nvidia-ml-py", "ok"), ("typer", "ok")])
def test_the_kernels_own_interpreter_is_asked_for_what_experiments_use_alone(
    tmp_path: Path, lacks: str, expected: str
) -> None:
    script = f"""import json, sys
for name, _ in json.loads(sys.argv[3]):
    print("found " + json.dumps({{"name": name, "version": "1", "error": "no module" * (name == "{lacks}")}}))"""
    (tmp_path / "answer.py").write_text(script)
    plant(tmp_path, "python", f'exec {sys.executable} {tmp_path}/answer.py "$@"')
    found = software.of_experiments(str(tmp_path / "python"))
    assert grade(found) == expected and (not lacks or expected == "ok" or f"pip install {lacks}" in found.fix)


@pytest.mark.slow
def test_the_environment_of_the_program_itself_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert grade(software.packages()) == "ok"
    assert software.of_experiments(sys.executable).found == "their interpreter is the program's own"


def test_an_import_is_really_tried() -> None:
    found = software.installed(sys.executable, ["packaging", "no-such-package"], limit=30)
    assert [bool(one.error) for one in found if isinstance(one, Package)] == [False, True]


def test_a_package_that_breaks_the_interpreter_is_named(tmp_path: Path) -> None:
    plant(tmp_path, "python", 'echo \'found {"name": "good", "version": "1", "error": ""}\'; echo boom >&2; exit 139')
    found = software.installed(str(tmp_path / "python"), ["good", "bad"], limit=5)
    assert found == "importing bad broke the interpreter: boom"


@pytest.mark.parametrize(("version", "error", "expected"), [
    ("2.0", "", "ok"), ("2.0+cpu", "", "ok"), ("1.4", "", "fault"), ("2.1", "", "warning"),
    ("2.0", "ImportError: libcuda", "fault"), (None, "not installed", "fault"),
])
def test_versions_are_held_against_what_is_wanted_and_tested(version: str | None, error: str, expected: str) -> None:
    found = software.judged([Requirement("torch>=1.5")], [Package("torch", version, error)], {"torch": "2.0"})
    assert grade(found) == expected


# --- the machine ----------------------------------------------------------------------------------------------------


def test_a_machine_without_a_gpu_is_fine_unless_one_was_asked_for(bin: Path) -> None:
    plant(bin, "python", "echo '0 -'")
    assert machine.gpu("python", "cpu").found == "none: experiments run on the CPU"
    assert grade(machine.gpu("python", "cuda")) == "fault"


@pytest.mark.parametrize(("torch", "device", "expected", "words"), [
    ("echo '2 12.8'", "cuda", "ok", "H200"), ("echo '2 12.8'", "cpu", "warning", "will not use it"),
    ("echo '0 -'", "cuda", "fault", "torch sees none"), ("echo '0 -'", "cpu", "warning", "torch sees none"),
    ("exit 1", "cuda", "fault", "could not be asked"),
])
def test_a_gpu_that_torch_cannot_use_is_found(
    bin: Path, torch: str, device: str, expected: str, words: str
) -> None:
    plant(bin, "nvidia-smi", "echo 'NVIDIA H200, 143771 MiB'")
    plant(bin, "python", torch)
    found = machine.gpu("python", device)
    assert grade(found) == expected and words in found.found and "H200" in found.found


def test_a_child_that_left_the_group_and_holds_the_pipes_is_not_waited_for() -> None:
    began = time.monotonic()
    ran = run(["/bin/sh", "-c", "setsid sleep 12 & sleep 12"], limit=0.2)
    assert "did not end within 0.2 s" in ran.why and time.monotonic() - began < 8


def test_a_driver_that_hangs_is_bounded_and_told(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "GPU_LIMIT", 0.2)
    plant(bin, "nvidia-smi", "/bin/sleep 20")
    plant(bin, "python", "echo '0 -'")
    found = machine.gpu("python", "cpu")
    assert grade(found) == "warning" and "did not end within 0.2 s" in found.found


@pytest.mark.parametrize(("free_kb", "limit", "expected"), [
    (16_000_000, "max", "ok"), (2_000_000, "max", "warning"), (500_000, "max", "fault"),
    (16_000_000, "1000000000", "fault"), (16_000_000, "2000000000", "warning"),
])
def test_memory_counts_what_the_control_group_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_kb: int, limit: str, expected: str
) -> None:
    (tmp_path / "memory.max").write_text(limit + "\n")
    def own(kind: str, file: str) -> list[Path]:
        return [tmp_path / "memory.max"]

    monkeypatch.setattr(limits, "_own", own)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=32e9, available=free_kb * 1024))
    assert grade(machine.memory(4)) == expected


def test_a_full_disk_is_a_fault(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free / 1e9
    assert grade(machine.disk(tmp_path, free + 5)) == "fault"


MOUNTS = r"""rootfs / rootfs rw 0 0
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/ada/local\040disk xfs rw 0 0
host /mnt/c 9p rw 0 0
broken
"""


@pytest.mark.parametrize(("place", "kind", "expected"), [
    ("/tmp/runs", "ext4", "ok"), ("/home/ada/runs", "nfs4", "warning"), ("/home/ada/local disk/runs", "xfs", "ok"),
    ("/homestead/runs", "ext4", "ok"), ("/mnt/c/runs", "9p", "warning"),
])
def test_the_filesystem_is_that_of_the_nearest_mount(tmp_path: Path, place: str, kind: str, expected: str) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert kind_of(Path(place), MOUNTS) == kind
    assert grade(machine.filesystem(Path(place), mounts=tmp_path / "mounts")) == expected


def test_the_real_mounts_are_read(tmp_path: Path) -> None:
    assert kind_of(tmp_path.resolve(), Path("/proc/self/mounts").read_text()) is not None


def test_a_clock_of_another_time_is_found(tmp_path: Path) -> None:
    assert grade(machine.clock(tmp_path)) == "ok"
    assert grade(machine.clock(tmp_path, wall=lambda: 0.0)) == "fault"
    assert grade(machine.clock(tmp_path, wall=lambda: time.time() + 3600)) == "warning"
    assert grade(machine.clock(tmp_path, monotonic=lambda: 5.0)) == "fault"
    assert not list(tmp_path.iterdir())


# --- TeX ------------------------------------------------------------------------------------------------------------


def test_the_files_that_templates_load_are_read_from_them() -> None:
    wanted = software.wanted(TEMPLATES)
    assert {"article.cls", "natbib.sty", "booktabs.sty", "hyperref.sty", "ptmr8t.tfm"} <= set(wanted)
    assert "scientist-workshop.sty" not in wanted


def test_a_missing_tex_set_names_the_packages_of_this_distribution(bin: Path) -> None:
    found = software.typesetting("debian", TEMPLATES)
    assert grade(found) == "fault" and "pdflatex" in found.found
    assert found.fix == ("sudo apt-get install -y --no-install-recommends latexmk poppler-utils texlive-latex-base")
    fedora = software.typesetting("fedora", TEMPLATES)
    assert fedora.fix.startswith("sudo dnf install -y ") and "texlive-bibtex" in fedora.fix


def test_a_missing_style_is_a_fault_and_a_missing_chktex_is_not(bin: Path) -> None:
    for name in software.NEEDED:
        plant(bin, name, "exit 0")
    plant(bin, "kpsewhich", 'for f in "$@"; do [ "$f" = microtype.sty ] || echo /tex/$f; done; exit 1')
    found = software.typesetting("debian", TEMPLATES)
    assert grade(found) == "fault" and found.fix.endswith("texlive-latex-recommended")
    plant(bin, "kpsewhich", 'for f in "$@"; do echo /tex/$f; done')
    found = software.typesetting("debian", TEMPLATES)
    assert grade(found) == "warning" and found.fix.endswith("chktex")


# --- isolation ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_bubblewrap_is_really_tried() -> None:
    assert grade(machine.isolation("debian")) in ("ok", "warning")


def test_a_missing_bubblewrap_is_a_warning_that_says_what_it_means(bin: Path) -> None:
    found = machine.isolation("debian")
    assert grade(found) == "warning" and "without isolation" in found.found
    assert found.fix.endswith("bubblewrap")


SYS = "proc/sys/kernel/"


@pytest.mark.parametrize(("marks", "words"), [
    ({f"{SYS}apparmor_restrict_unprivileged_userns": "1\n"}, "profile bwrap /"),
    ({f"{SYS}apparmor_restrict_unprivileged_userns": "1\n"}, "apparmor_restrict_unprivileged_userns=0"),
    ({f"{SYS}unprivileged_userns_clone": "0\n"}, "kernel.unprivileged_userns_clone=1"),
    ({"proc/sys/user/max_user_namespaces": "0\n"}, "user.max_user_namespaces="),
    ({".dockerenv": "", f"{SYS}apparmor_restrict_unprivileged_userns": "1\n"}, "run --security-opt"),
    ({"var/run/secrets/kubernetes.io": ""}, "let this container be the sandbox"),
    ({f"{SYS}apparmor_restrict_unprivileged_userns": "0\n", f"{SYS}unprivileged_userns_clone": "1\n"}, "dmesg"),
])
def test_each_reason_has_its_own_fix(bin: Path, tmp_path: Path, marks: dict[str, str], words: str) -> None:
    for name, text in marks.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    plant(bin, "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    found = machine.isolation("debian", tmp_path)
    assert grade(found) == "warning" and words in found.fix
    assert "No permissions" in found.found and "\n" not in found.fix
    required = machine.isolation("debian", tmp_path, wanted="required")
    assert grade(required) == "fault" and words in required.fix


@pytest.mark.parametrize(("release", "expected"), [
    ({"ID": "ubuntu", "ID_LIKE": "debian"}, "debian"), ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "fedora"),
    ({"ID": "opensuse-tumbleweed"}, "suse"), ({"ID": "odd"}, "other"),
])
def test_distributions_are_told_apart(
    release: dict[str, str], expected: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    assert read_family() == expected


# --- keys -----------------------------------------------------------------------------------------------------------


@given(st.text("QXZJ9876", min_size=4, max_size=60), st.sampled_from(NAMES))
def test_no_part_of_a_key_is_ever_shown(secret: str, name: str) -> None:
    parts = {secret[n: n + 3] for n in range(len(secret) - 2)}
    for held in (secret, f" {secret}", f"'{secret}'", f"{secret}\n", f"<{secret}>", f"your-{secret}"):
        shown = machine.keys({name: held}).model_dump_json()
        assert name in shown and not any(part in shown for part in parts) and str(len(held)) not in shown


@pytest.mark.parametrize(("value", "words"), [
    ("", "is empty"), ("  ", "is empty"), ("abc def", "holds white space"), ("abc\n", "holds white space"),
    ("'abc'", "holds quotes"), ("your-key-here", "is a placeholder"), ("...", "is a placeholder"),
])
def test_a_key_that_cannot_be_right_is_a_warning(value: str, words: str) -> None:
    found = machine.keys({"OPENAI_API_KEY": value, "HF_TOKEN": "hf-good"})
    assert grade(found) == "warning" and words in found.found and "HF_TOKEN" in found.found


# --- a kernel, and the whole ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_kernel_makes_the_round_trip() -> None:
    assert grade(machine.kernel(SandboxSettings())) == "ok"


def test_an_interpreter_that_cannot_be_a_kernel_is_a_fault(tmp_path: Path) -> None:
    for script in ("echo no module named ipykernel >&2; exit 1", None):
        python = tmp_path / "python"
        plant(tmp_path, "python", script) if script else python.unlink()
        found = machine.kernel(SandboxSettings(python=str(python), start_timeout=5))
        assert grade(found) == "fault" and "sandbox.python" in found.fix


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The slow probes answer at once; they have tests of their own."""
    def fine(*_: object) -> Finding:
        return Finding(check="x", grade="ok", found="fine")

    for module, name in SLOW:
        monkeypatch.setattr(module, name, fine)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("quick")
def test_the_command_prints_a_line_a_check_and_makes_no_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-indeed")
    code = main(["doctor", "--runs", str(tmp_path / "runs")])
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 13 and "not asked" in out[-1]
    assert all(line.split()[0] in ("ok", "warning", "fault") for line in out[:-1])
    assert code == (5 if any(line.startswith("fault") for line in out) else 0)
    assert "secret" not in "".join(out) and not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("quick")
def test_a_fault_is_exit_5_also_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--set", "min_free_gb=1000000", "--json"]) == 5
    said = json.loads(capsys.readouterr().out)
    assert said["counts"]["fault"] >= 1
    assert next(one for one in said["findings"] if one["check"] == "disk")["grade"] == "fault"


@pytest.mark.parametrize(("arguments", "words"), [
    (["--probe-context"], "nothing is sent without it"), (["--base-url", "http://localhost:1/v1"], "go with --model"),
    (["--set", "min_free=1"], "did you mean 'min_free_gb'?"), (["--config", "none.yaml"], "no configuration file"),
])
def test_what_doctor_cannot_use_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
