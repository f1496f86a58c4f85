"""The content store shared by runs: created once, linked, verified, pruned without affecting a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from labwright.agent.cli import main
from labwright.record.run_folder import RunFolder
from labwright.record.untrusted_files import BadFile
from labwright.sandbox.content_store import ContentStore, compute_key, pack_archive, share_run, unpack_archive


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "store")


def run_with_data(root: Path, fill: int = 1) -> RunFolder:
    run = RunFolder(root)
    run.views.mkdir(parents=True)
    np.savez(run.views / "digits.npz", x=np.full(1000, fill))
    files = run.pretrained / "tiny--bert@v1" / "files"
    files.mkdir(parents=True)
    (files / "weights").write_bytes(b"w" * 5000)
    return run


def test_two_runs_have_one_copy(store: ContentStore, tmp_path: Path) -> None:
    runs = [run_with_data(tmp_path / name) for name in "ab"]
    for run in (*runs, *runs):
        share_run(run, store)
    one, other = (run.views / "digits.npz" for run in runs)
    assert one.samefile(other) and np.load(one)["x"].sum() == 1000
    assert sorted((entry.kind, entry.name, entry.shared) for entry in store.iterate_entries()) == [
        ("pretrained", "tiny--bert@v1", True),
        ("view", "digits", True),
    ]
    share_run(run_with_data(tmp_path / "c", fill=2), store)
    assert len(list(store.iterate_entries())) == 3


def test_pruning_takes_nothing_from_a_run(store: ContentStore, tmp_path: Path) -> None:
    run = run_with_data(tmp_path / "a")
    share_run(run, store)
    assert not store.prune(unused=60.0)
    assert len(store.prune(unused=0.0)) == 2 and not list(store.iterate_entries())
    assert np.load(run.views / "digits.npz")["x"].sum() == 1000


def test_what_was_changed_is_found(store: ContentStore, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"abc")
    key = store.add(tmp_path / "data", "view", "data")
    assert store.add(tmp_path / "data", "view", "again") == key and not store.find_damaged()
    content = store.find(key)
    assert content is not None
    content.write_bytes(b"abd")
    assert [one.key for one in store.find_damaged()] == [key]
    assert store.find("0" * 64) is None


@pytest.mark.parametrize("words", [["store"], ["store", "--check"], ["store", "--prune", "--unused", "0s"]])
def test_the_command_shows_and_prunes(
    words: list[str],
    store: ContentStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    share_run(run_with_data(tmp_path / "a"), store)
    given = [*words, "--set", f"sandbox.store={store.root}", "--json"]
    assert main(given) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["removed"]) == (2 if "--prune" in words else 0)
    assert len(told["entries"]) == 2 - len(told["removed"])
    assert main([*words, "--unused", "soon", "--set", f"sandbox.store={store.root}"]) == 2
    assert "--unused: 'soon' is not a duration" in capsys.readouterr().err


def test_a_parcel_holds_what_a_folder_does(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    (folder / "arrays").mkdir(parents=True)
    (folder / "arrays" / "a\udcff.npy").write_bytes(b"\0" * 3000)
    (folder / "run.sh").write_text("true")
    (folder / "run.sh").chmod(0o755)
    os.symlink("/etc/passwd", folder / "link")
    os.mkfifo(folder / "pipe")
    os.utime(folder / "run.sh", (1000, 1000))
    pack_archive(folder, tmp_path / "parcel", max_bytes=10_000, clock_shift=5.0)
    unpack_archive(tmp_path / "parcel", tmp_path / "came", max_bytes=10_000)
    assert compute_key(tmp_path / "came" / "arrays") == compute_key(folder / "arrays")
    assert os.readlink(tmp_path / "came" / "link") == "/etc/passwd" and (tmp_path / "came" / "pipe").is_fifo()
    assert os.access(tmp_path / "came" / "run.sh", os.X_OK) and (tmp_path / "came" / "run.sh").stat().st_mtime == 1005
    with pytest.raises(BadFile, match="exceed"):
        pack_archive(folder, tmp_path / "parcel", max_bytes=100)
