"""A user's repository is read without its configuration: none of its programs runs, no outside file is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from labwright.evals.expbench.violations import import_commit
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository.git_mirror import GitMirror
from tests.repositories import make_repository, run_git


def configured(code: Path, *lines: str) -> None:
    with open(code / ".git" / "config", "a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def attributed(code: Path, line: str) -> None:
    (code / ".git" / "info").mkdir(exist_ok=True)
    (code / ".git" / "info" / "attributes").write_text(f"{line}\n")


def clean(code: Path, run: str) -> None:
    configured(code, '[filter "x"]', f'clean = "{run}; cat"', "required = true")
    attributed(code, "* filter=x")


def process(code: Path, run: str) -> None:
    configured(code, '[filter "x"]', f'process = "{run}"')
    attributed(code, "* filter=x")


def included(code: Path, run: str) -> None:
    (code / ".git" / "more").write_text(f'[core]\nfsmonitor = "{run}"\n')
    configured(code, "[include]", "path = more")


def fsmonitor(code: Path, run: str) -> None:
    configured(
        code,
        "[core]",
        f'fsmonitor = "{run}"',
        f'pager = "{run}"',
        f'editor = "{run}"',
        f'askPass = "{run}"',
        f'alternateRefsCommand = "{run}"',
    )


def text_conversion(code: Path, run: str) -> None:
    configured(code, '[diff "x"]', f'textconv = "{run}"', f'command = "{run}"', "[diff]", f'external = "{run}"')
    attributed(code, "* diff=x")


def lazy_fetch(code: Path, run: str) -> None:
    configured(
        code,
        "[core]",
        "repositoryformatversion = 1",
        f'sshCommand = "{run}"',
        "[extensions]",
        "partialClone = origin",
        '[remote "origin"]',
        "promisor = true",
        "url = ssh://localhost/x",
        f'uploadpack = "{run}"',
        "[credential]",
        f'helper = "!{run}"',
    )
    blob = run_git(code, "rev-parse", "HEAD:train.py").strip()
    (code / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (code / ".git" / "objects" / "pack" / "pack-x.promisor").write_text("")


def submodule(code: Path, run: str) -> None:
    other = make_repository(code.parent / "other")
    run_git(code, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "parts/other")
    run_git(code, "commit", "-qm", "parts")
    inner = code / ".git" / "modules" / "parts" / "other"
    (inner / "config").write_text((inner / "config").read_text() + f'[core]\nfsmonitor = "{run}"\n')
    (code / "parts" / "other" / "train.py").write_text("changed\n")


def hooks(code: Path, run: str) -> None:
    for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        hook = code / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{run}\n")
        hook.chmod(0o755)


@pytest.mark.parametrize("plant", [clean, process, included, fsmonitor, text_conversion, lazy_fetch, submodule, hooks])
def test_no_program_of_a_repository_runs(plant: Callable[[Path, str], None], tmp_path: Path) -> None:
    code, mark = make_repository(tmp_path / "code"), tmp_path / "ran"
    plant(code, f"touch {mark}")
    os.utime(code / "train.py", (1, 1))  # as after a copy: git compares the contents
    (code / "new.py").write_text("x = 1\n")
    mirror = GitMirror(tmp_path / "m" / "mirror")
    if plant is lazy_fetch:
        with pytest.raises(RepositoryError, match="is a partial clone with missing objects"):
            mirror.import_head(code, dirty=True)
    else:
        taken = mirror.import_head(code, dirty=True)
        assert mirror.read_texts(taken.tree)["new.py"] == "x = 1\n"
        assert GitMirror.read_working_texts(code, dirty=True)["train.py"] == mirror.read_texts(taken.tree)["train.py"]
        assert import_commit(GitMirror(tmp_path / "m" / "other"), code)
    assert not mark.exists()


def file_of_git(code: Path, private: Path) -> None:
    shutil.rmtree(code / ".git")
    (code / ".git").write_text(f"gitdir: {private / '.git'}\n")


def link_of_git(code: Path, private: Path) -> None:
    shutil.rmtree(code / ".git")
    (code / ".git").symlink_to(private / ".git")


def false_worktree(code: Path, private: Path) -> None:
    shutil.move(code / ".git", code / "fake")
    (code / "fake" / "commondir").write_text(f"{private / '.git'}\n")
    (code / "fake" / "gitdir").write_text(f"{code / '.git'}\n")
    (code / ".git").write_text("gitdir: fake\n")


def borrowed(code: Path, private: Path) -> None:
    (code / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (code / ".git" / "objects" / "info" / "alternates").write_text(f"{private / '.git' / 'objects'}\n")


def borrowed_by_a_link(code: Path, private: Path) -> None:
    (code / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (code / ".git" / "borrowed").write_text(f"{private / '.git' / 'objects'}\n")
    (code / ".git" / "objects" / "info" / "alternates").symlink_to("../../borrowed")


def one_linked_object(code: Path, private: Path) -> None:
    commit = run_git(private, "rev-parse", "HEAD").strip()
    (code / ".git" / "objects" / commit[:2]).mkdir(exist_ok=True)
    (code / ".git" / "objects" / commit[:2] / commit[2:]).symlink_to(
        private / ".git" / "objects" / commit[:2] / commit[2:]
    )


def linked_objects(code: Path, private: Path) -> None:
    shutil.rmtree(code / ".git" / "objects")
    (code / ".git" / "objects").symlink_to(private / ".git" / "objects")


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (file_of_git, "does not refer back to this folder"),
        (link_of_git, "is a symbolic link"),
        (false_worktree, "does not refer back to this folder"),
        (borrowed, "borrows objects from another repository"),
        (linked_objects, "has no objects of its own"),
        (borrowed_by_a_link, "objects stored elsewhere"),
        (one_linked_object, "objects stored elsewhere"),
    ],
)
def test_what_lies_outside_a_repository_is_refused(
    plant: Callable[[Path, Path], None], words: str, tmp_path: Path
) -> None:
    private = make_repository(tmp_path / "private", {"secret.txt": "of the person\n"})
    code = make_repository(tmp_path / "code")
    plant(code, private)
    with pytest.raises(RepositoryError, match=words) as error:
        GitMirror(tmp_path / "m" / "mirror").import_head(code, dirty=True)
    assert "\n" not in str(error.value) and not (tmp_path / "m" / "mirror").exists()


def test_what_a_person_ignores_is_ignored_and_plain_settings_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\nexcludesFile = ~/ignored\n")
    (home / "ignored").write_text("*.mine\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    code = make_repository(tmp_path / "code")
    (code / "a.mine").write_text("x")
    (code / "b.own").write_text("x")
    (code / ".git" / "info").mkdir(exist_ok=True)
    (code / ".git" / "info" / "exclude").write_text("*.own\n")
    configured(code, "[core]", "fileMode = false")
    (code / "train.py").chmod(0o755)
    mirror = GitMirror(tmp_path / "m" / "mirror")
    taken = mirror.import_head(code)
    assert not taken.snapshot
    (code / "new.py").write_text("x = 1\n")
    names = mirror.read_texts(mirror.import_head(code, dirty=True).tree)
    assert "new.py" in names and "a.mine" not in names and "b.own" not in names


def test_a_linked_working_folder_and_a_submodule_are_repositories(tmp_path: Path) -> None:
    code = make_repository(tmp_path / "code")
    run_git(code, "worktree", "add", "-q", str(tmp_path / "beside"), "-b", "side")
    run_git(tmp_path / "beside", "commit", "-q", "--allow-empty", "-m", "side")
    run_git(
        code,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(make_repository(tmp_path / "other")),
        "in",
    )
    run_git(code, "commit", "-qm", "in")
    run_git(code, "pack-refs", "--all")
    for number, place in enumerate((tmp_path / "beside", code / "in", code)):
        taken = GitMirror(tmp_path / "m" / str(number)).import_head(place)
        assert taken.commit == run_git(place, "rev-parse", "HEAD").strip() and not taken.snapshot


def test_files_of_lfs_are_not_copied_and_may_differ(tmp_path: Path) -> None:
    code = make_repository(tmp_path / "code")
    (code / "w.pt").write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 700\n")
    (code / ".gitattributes").write_text("*.pt filter=lfs\n*.ipynb filter=strip\n")
    (code / "a.ipynb").write_text("{}\n")
    run_git(code, "add", "-A")
    run_git(code, "commit", "-qm", "weights")
    (code / "w.pt").write_bytes(b"weights" * 100)
    taken = GitMirror(tmp_path / "m" / "mirror").import_head(code)
    assert not taken.snapshot and "LFS files are not included: w.pt" in taken.faults[0]
    (code / "a.ipynb").write_text("{1}\n")
    with pytest.raises(RepositoryError, match=r"uncommitted changes \(a\.ipynb\)"):
        GitMirror.read_working_texts(code)


def test_a_commit_is_taken_from_a_bare_repository_and_by_its_name(tmp_path: Path) -> None:
    code = make_repository(tmp_path / "code")
    first = run_git(code, "rev-parse", "HEAD").strip()
    (code / "train.py").write_text("x = 1\n")
    run_git(code, "commit", "-qam", "second")
    run_git(code, "clone", "-q", "--bare", "--no-local", str(code), str(tmp_path / "bare"))
    mirror = GitMirror(tmp_path / "m" / "mirror")
    assert import_commit(mirror, tmp_path / "bare", first) == run_git(code, "rev-parse", f"{first}^{{tree}}").strip()
    assert mirror.read_texts(import_commit(mirror, tmp_path / "bare"))["train.py"] == "x = 1\n"
    with pytest.raises(RepositoryError, match="has no commit 1234567"):
        import_commit(mirror, tmp_path / "bare", "1234567")


@pytest.mark.parametrize(
    ("name", "text"),
    [("config", '[filter "x"]\n\tsmudge = "touch ran; cat"\n'), ("objects/info/alternates", "/elsewhere\n")],
)
def test_a_copy_in_the_run_of_another_names_no_program(tmp_path: Path, name: str, text: str) -> None:
    mirror = GitMirror(tmp_path / "m" / "mirror")
    tree = mirror.import_head(make_repository(tmp_path / "code")).tree
    (mirror.folder / name).parent.mkdir(exist_ok=True)
    with open(mirror.folder / name, "a") as file:
        file.write(text)
    again = GitMirror(mirror.folder)
    assert not again.has_tree(tree), "an audit reports that it differs from the record"
    with pytest.raises(RepositoryError, match=r"which scientist never (does|sets)"):
        again.checkout(tree, tmp_path / "out")
