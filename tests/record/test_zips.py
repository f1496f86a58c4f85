"""Zips that are opened as runs: what is refused, each with one line, and what is read as from a folder."""

from __future__ import annotations

import random
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labwright import open_run
from labwright.agent.cli import main
from labwright.record import zips
from labwright.record.errors import UsageError
from labwright.record.zips import open_run_folder
from tests.inspector.sample_run import make_ended
from tests.inspector.test_logs import written
from tests.recorded_run import RECORDED

READ = (["status"], ["tree"], ["logs", "-n", "3"], ["tree", "--json"])


def _zip(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as packed:
        for name, content in members:
            packed.writestr(name, content)
    return path


def _link(name: str) -> zipfile.ZipInfo:
    about = zipfile.ZipInfo(name)
    about.create_system, about.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return about


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([("run/../../out", b"")], "not the name of a plain file inside it"),
        ([("/etc/out", b"")], "not the name of a plain file inside it"),
        ([("run//out", b"")], "not the name of a plain file inside it"),
        ([("run\\out", b"")], "not the name of a plain file inside it"),
        ([(_link("run/events.jsonl"), b"/etc/passwd")], "not the name of a plain file inside it"),
        ([("run/events.jsonl", b"a"), ("run/events.jsonl", b"b")], "'run/events.jsonl' occurs twice in it"),
        ([("run/events.jsonl", b"a"), ("run/events.jsonl/a", b"b")], "'run/events.jsonl/a' occurs twice in it"),
        ([("run/events.jsonl/a", b"a"), ("run/events.jsonl", b"b")], "'run/events.jsonl' occurs twice in it"),
        ([("run" + "/a" * 30_000, b"a")], "not the name of a plain file inside it"),
        ([("run/events.jsonl", b"\0" * (zips.FREE_BYTES + 1))], "implausible for a run"),
        ([("run/notes.txt", b"a")], "it contains no run"),
        ([("a/events.jsonl", b"a"), ("b/events.jsonl", b"a")], "it contains several runs"),
    ],
)
def test_a_zip_that_is_no_run_is_refused(
    members: list[tuple[str, bytes]], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with pytest.raises(UsageError, match=why) as refused:
        open_run_folder(_zip(tmp_path / "a.zip", *members))
    assert "\n" not in str(refused.value) and "scientist export RUN --zip FILE" in str(refused.value)
    assert [one.name for one in tmp_path.iterdir()] in (["a.zip", "tmp"], ["tmp", "a.zip"])
    assert [*(tmp_path / "tmp").iterdir()] == [], "nothing is left"


def test_a_file_that_is_no_zip_and_one_that_is_cut_off_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.zip").write_bytes(b"no zip")
    whole = _zip(tmp_path / "whole.zip", ("run/events.jsonl", bytes(range(256)) * 99), compression=zipfile.ZIP_STORED)
    changed = bytearray(whole.read_bytes())
    changed[5000] ^= 1
    (tmp_path / "b.zip").write_bytes(changed)
    for name in "ab":
        assert main(["status", str(tmp_path / f"{name}.zip")]) == 2
        assert "it is damaged" in capsys.readouterr().err
    assert main(["status", str(tmp_path / "none.zip")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_run_without_its_folder_is_called_as_its_zip(tmp_path: Path) -> None:
    packed = _zip(tmp_path / "mine.zip", ("events.jsonl", b"log"), ("nodes/n0001/a.txt", b"text"))
    folder = open_run_folder(packed)
    assert folder.name == "mine" and (folder / "nodes/n0001/a.txt").read_bytes() == b"text"
    assert open_run_folder(packed) == folder, "a zip is unpacked once"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert open_run_folder(folder) == folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with data, and with code that its nodes share."""
    run = written(tmp_path_factory.mktemp("runs") / "calm", make_ended())
    code = random.Random(0).randbytes(20_000).hex()
    for path in ("data/labels/digits.npz", *(f"nodes/n000{number}/source/experiment.py" for number in range(1, 7))):
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_text(code)
    return run


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    assert main(["export", str(folder), "--with-data", "--zip", str(folder.parent / "calm.zip")]) == 0
    return folder.parent / "calm.zip"


@pytest.mark.slow
def test_a_zip_is_read_as_its_folder_is(folder: Path, packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed.chmod(0o444)
    before = packed.read_bytes()
    for command, *more in READ:
        said: list[str] = []
        for run in (packed, folder):
            assert main([command, str(run), *more]) == 0, command
            said.append(capsys.readouterr().out.replace(str(run), "RUN"))
        assert said[0] == said[1], command
    assert open_run(packed).nodes.equals(open_run(folder).nodes) and packed.read_bytes() == before
    assert main(["trace", str(RECORDED), "0.02", "--json"]) == 0


@pytest.mark.slow
def test_a_run_is_exported_from_its_zip_as_from_its_folder(folder: Path, packed: Path, tmp_path: Path) -> None:
    small = tmp_path / "b.zip"
    assert main(["export", str(packed), "--with-data", "--zip", str(small), "--small"]) == 0
    with zipfile.ZipFile(packed) as found:
        found.extractall(tmp_path / "by hand")
    with zipfile.ZipFile(small) as found:
        assert found.namelist() == [zips.INNER] and b"scientist view" in found.comment
    files = [_files(one) for one in (tmp_path / "by hand" / "calm", open_run_folder(small))]
    assert files[0] == files[1] == _files(folder), "the same files, byte by byte"
    assert small.stat().st_size < 0.6 * packed.stat().st_size
    assert main(["export", str(small), "--zip", str(small), "--force"]) == 2


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_small_zip_is_checked_as_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = _zip(tmp_path / "inner.zip", ("../out", b"text"))
    small = _zip(tmp_path / "a.zip", (zips.INNER, inner.read_bytes()), compression=zipfile.ZIP_LZMA)
    assert main(["status", str(small)]) == 2
    assert "not the name of a plain file inside it" in capsys.readouterr().err
    small = _zip(tmp_path / "b.zip", (zips.INNER, b"no zip"), compression=zipfile.ZIP_LZMA)
    assert main(["status", str(small)]) == 2
    assert "it is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["resume", "RUN"],
        ["write", "RUN"],
        ["judge", "RUN"],
        ["branch", "RUN", "--from", "agenda"],
        ["stop", "RUN"],
        ["pause", "RUN"],
        ["kill", "RUN", "n0001", "--reason", "it is slow"],
        ["mark", "RUN", "n0001", "--reason", "it is odd"],
        ["note", "RUN", "a note"],
    ],
)
def test_what_writes_into_a_run_refuses_a_zip(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(RECORDED) if word == "RUN" else word for word in words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "is a read-only zip" in said
    how = "--zip recorded-run-plain.zip --with-data && python3 -m zipfile -e recorded-run-plain.zip .), then"
    assert f"(scientist export {RECORDED} {how}" in said


@pytest.mark.slow
@pytest.mark.parametrize("words", ["status", "logs --json"])  # text at the end of the work, and lines as they are read
def test_a_reader_of_the_output_that_ends_first_ends_the_command_quietly(words: str, packed: Path) -> None:
    command, *rest = words.split()
    given = [sys.executable, "-m", "labwright", command, str(packed), *rest]
    with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as printing:
        assert printing.stdout is not None and printing.stderr is not None
        printing.stdout.close()
        assert printing.wait(timeout=600) == 141
        assert printing.stderr.read() == ""


@pytest.mark.slow
def test_what_view_unpacked_is_removed_when_it_is_terminated(packed: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "labwright", "view", str(packed)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline().startswith("open http://")
        assert "can read the runs;" in serving.stdout.readline(), "nobody steers a zip"
        assert [*tmp_path.glob("scientist-run-*")]
        serving.terminate()
        serving.wait(timeout=600)
    assert not [*tmp_path.glob("scientist-run-*")]
