"""The run's copy of a repository: the user's folder is only read, edits give new trees, missing parts are reported."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from labwright.record.schema.repository import RepositoryEdit
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository import git_mirror
from labwright.sandbox.repository.git_mirror import GitMirror
from tests.repositories import make_repository, run_git


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "code")


def everything_in(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_taking_in_writes_nothing_to_the_users_folder(code: Path, tmp_path: Path) -> None:
    os.utime(code / "train.py")  # git would refresh the index
    before = everything_in(code)
    taken = GitMirror(tmp_path / "m" / "mirror").import_head(code)
    assert everything_in(code) == before
    assert taken.commit == run_git(code, "rev-parse", "HEAD").strip() and taken.files == 7 and not taken.snapshot


def test_uncommitted_work_is_refused_or_becomes_a_commit_of_ours(code: Path, tmp_path: Path) -> None:
    (code / "train.py").write_text("print(1)\n")
    (code / "new.py").write_text("print(2)\n")
    (code / "metrics.json").write_text("ignored")
    before = everything_in(code)
    mirror = GitMirror(tmp_path / "m" / "mirror")
    with pytest.raises(RepositoryError, match=r"has uncommitted changes \((train|new)\.py.*--dirty"):
        mirror.import_head(code)
    taken = mirror.import_head(code, dirty=True)
    texts = mirror.read_texts(taken.tree)
    assert taken.snapshot and texts["train.py"] == "print(1)\n" and texts["new.py"] == "print(2)\n"
    assert "metrics.json" not in texts and everything_in(code) == before
    assert GitMirror(tmp_path / "other" / "mirror").import_head(code, dirty=True).commit == taken.commit


@pytest.mark.parametrize(
    ("there", "words"),
    [("folder", "is not a git repository"), ("repository", "has no commit"), ("", "is not a folder")],
)
def test_what_is_no_repository_is_refused_in_one_line(tmp_path: Path, there: str, words: str) -> None:
    folder = tmp_path / "x"
    if there:
        folder.mkdir()
    if there == "repository":
        run_git(folder, "init", "-q")
    with pytest.raises(RepositoryError, match=words) as error:
        GitMirror(tmp_path / "m" / "mirror").import_head(folder)
    assert "\n" not in str(error.value)


def test_an_edit_changes_one_place_and_equal_files_are_one_tree(code: Path, tmp_path: Path) -> None:
    mirror = GitMirror(tmp_path / "m" / "mirror")
    taken = mirror.import_head(code)
    edit = RepositoryEdit(path="train.py", old="1e-3 * np.eye", new="1e-2 * np.eye")
    tree = mirror.apply_edits(taken.tree, [edit, RepositoryEdit(path="notes/a.txt", new="hello\n")])
    assert (
        mirror.read_texts(tree)["notes/a.txt"] == "hello\n" and "1e-2 * np.eye" in mirror.read_texts(tree)["train.py"]
    )
    assert (
        mirror.apply_edits(tree, [RepositoryEdit(path="train.py", old="1e-2 * np.eye", new="1e-3 * np.eye")])
        != taken.tree
    )
    patch = mirror.build_diff(taken.tree, tree)
    assert "+hello" in patch and mirror.apply_edits(taken.tree, []) == mirror.apply_patch(taken.tree, "") == taken.tree
    assert mirror.apply_patch(taken.tree, patch) == tree
    with pytest.raises(RepositoryError, match="the patch does not apply to the tree"):
        mirror.apply_patch(tree, patch)
    with pytest.raises(RepositoryError, match="is not the path of a file"):  # it would also change train.py
        mirror.apply_edits(tree, [RepositoryEdit(path=f"a\x00100644 {'1' * 40}\ttrain.py", new="x")])
    commit = mirror.commit(tree, taken.commit, "mended")
    assert commit == mirror.commit(tree, taken.commit, "mended")
    for old, times in (("np", "occurs"), ("nowhere", "occurs 0 times")):
        with pytest.raises(RepositoryError, match=times):
            mirror.apply_edits(taken.tree, [RepositoryEdit(path="train.py", old=old, new="x")])


def test_a_read_only_copy_is_not_written_to(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = GitMirror(tmp_path / "m" / "mirror").import_head(code)
    patch = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n"
    before = everything_in(tmp_path / "m")

    def is_allowed(_path: Path, _mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", is_allowed)
    mirror = GitMirror(tmp_path / "m" / "mirror")
    assert mirror.read_texts(mirror.apply_patch(taken.tree, patch))["new.txt"] == "new\n"
    assert mirror.has_tree(taken.tree) and everything_in(tmp_path / "m") == before


def test_a_checkout_has_the_files_and_git_has_one_commit(code: Path, tmp_path: Path) -> None:
    (code / "link").symlink_to("train.py")
    run_git(code, "add", "-A")
    run_git(code, "commit", "-qm", "big")
    mirror = GitMirror(tmp_path / "m" / "mirror")
    out = tmp_path / "out"
    mirror.checkout(mirror.import_head(code).tree, out)
    assert not (out / "train.py").is_symlink() and (out / "link").is_symlink()
    assert run_git(out, "log", "--format=%s").split("\n")[0] == "the files of this run"
    assert run_git(out, "status", "--short", "--untracked-files=no") == ""
    again = tmp_path / "again"
    mirror.checkout(mirror.import_head(code).tree, again)
    assert run_git(again, "rev-parse", "HEAD") == run_git(out, "rev-parse", "HEAD"), "equal files have one commit"


def test_what_git_does_not_hold_is_told(code: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    run_git(code, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "parts/other")
    (code / "weights.pt").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 1\n"
    )
    run_git(code, "add", "-A")
    run_git(code, "commit", "-qm", "more")
    taken = GitMirror(tmp_path / "m" / "mirror").import_head(code)
    assert any("submodules" in one and "parts/other" in one for one in taken.faults)
    assert any("LFS" in one and "weights.pt" in one for one in taken.faults)


@pytest.mark.parametrize(("limit", "value"), [("_MAX_MEMORY_BYTES", 2**24), ("MAX_OUTPUT_BYTES", 2**20)])
@pytest.mark.slow
def test_a_few_objects_that_describe_many_files_take_little_memory(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    tree = git_mirror.run_git(code, ["rev-parse", "HEAD^{tree}"]).decode().strip()
    for _ in range(4):
        lines = "".join(f"040000 tree {tree}\td{n}\n" for n in range(10))
        tree = git_mirror.run_git(code, ["mktree"], lines.encode()).decode().strip()
    commit = (
        git_mirror.run_git(code, ["commit-tree", tree, "-m", "many"], variables=git_mirror.AUTHOR_VARIABLES)
        .decode()
        .strip()
    )
    git_mirror.run_git(code, ["update-ref", "HEAD", commit])
    (code / ".git" / "index").unlink()
    monkeypatch.setattr(git_mirror, limit, value)
    with pytest.raises(RepositoryError, match=r"^git [a-z-]* (failed|printed more than)"):
        GitMirror(tmp_path / "m" / "mirror").import_head(code, dirty=True)
