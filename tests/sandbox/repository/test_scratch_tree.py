"""The tools of an author: what they return and change, and attacks on the host through them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

import pytest

from labwright.record.untrusted_files import open_parent
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.sandbox.repository import scratch_tree as module
from labwright.sandbox.repository.command import CommandEnvironment, CommandJob, CommandOutcome
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.scratch_tree import ScratchTree, ToolResult, open_scratch_tree
from labwright.sandbox.settings import SandboxSettings
from tests.repositories import make_repository, run_git

needs_sandbox = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]


@asynccontextmanager
async def open_tools(
    tmp_path: Path,
    *,
    files: dict[str, str] | None = None,
    link: tuple[str, Path] | None = None,
    frozen: Sequence[str] = (),
) -> AsyncGenerator[ScratchTree]:
    code = make_repository(tmp_path / "code")
    for name, text in (files or {}).items():
        (code / name).write_text(text)
    if link is not None:
        (code / link[0]).symlink_to(link[1])
    run_git(code, "add", "-A", "--force")
    run_git(code, "commit", "-qm", "files", "--allow-empty")
    mirror = GitMirror(tmp_path / "m" / "mirror")
    settings = SandboxSettings(grace=0.5, memory_gb=1.0, disk_gb=5.0, tasks=64)
    executor = LocalExecutor(
        1, tmp_path / "views", labels=tmp_path / "labels", cache=tmp_path / "cache", settings=settings
    )
    try:
        async with open_scratch_tree(
            mirror,
            mirror.import_head(code).tree,
            CommandEnvironment(sys.executable),
            executor.run_command,
            frozen=frozen,
            max_seconds=20.0,
        ) as tools:
            yield tools
    finally:
        await executor.close()
    assert not list((tmp_path / "m" / "scratch").iterdir())


async def call(tools: ScratchTree, name: str, **arguments: object) -> str:
    result = await tools.call(name, arguments)
    assert not result.failed, result
    return result.text


async def refused(tools: ScratchTree, name: str, **arguments: object) -> str:
    before = tools.tree
    result = await tools.call(name, arguments)
    assert result.failed and result.tree == tools.tree == before and "\n" not in result.text, result
    return result.text


@pytest.mark.slow
async def test_an_author_looks_edits_writes_and_gets_a_patch(tmp_path: Path) -> None:
    async with open_tools(tmp_path, files={"big.txt": "a line\n" * 200_000}) as tools:
        start = tools.tree
        assert "train.py (" in (top := await call(tools, "list")) and "tinyfit/" in top and "big.txt (1400000)" in top
        assert "tinyfit/features.py (" in await call(tools, "list", recursive=True)
        lines = (tmp_path / "code" / "train.py").read_text().splitlines()
        text = await call(tools, "read", path="./train.py", first=2, last=3)
        assert text == f"train.py, lines 2 to 3 of {len(lines)}:\n{lines[1]}\n{lines[2]}\n"
        assert "a line" in await call(tools, "read", path="big.txt", first=199_999)
        assert "tinyfit/features.py:4: def tilt(x):" in await call(tools, "search", pattern=r"def t\w+\(", files="*.py")
        assert tools.tree == start
        await call(tools, "edit", path="tinyfit/features.py", old="return [x[:, 0]]", new="return []")
        one = tools.tree
        await call(tools, "write", path="new/note.txt", text="one\n")
        mirror = GitMirror(tmp_path / "m" / "mirror")
        patch = mirror.build_diff(start, tools.tree)
        assert "-    return [x[:, 0]]\n+    return []" in patch and "new/note.txt" in patch
        assert mirror.apply_patch(start, patch) == tools.tree != one
        await asyncio.to_thread(tools.restore, one)
        assert "note" not in await call(tools, "list", recursive=True) and tools.tree == one
        assert {spec.name for spec in tools.specs} == {"list", "read", "search", "edit", "write", "run"}
        assert all(spec.parameters["properties"] and spec.description for spec in tools.specs)


@pytest.mark.slow
async def test_long_text_ends_with_a_whole_line_and_says_how_to_go_on(tmp_path: Path) -> None:
    lines = [f"{number} {'x' * 90}\n" for number in range(1, 1001)]
    async with open_tools(tmp_path, files={"long.txt": "".join(lines)}) as tools:
        read, first = "", 1
        while first <= len(lines):
            head, _, text = (await call(tools, "read", path="long.txt", first=first)).partition("\n")
            body, _, note = text.partition("[")
            assert head.startswith(f"long.txt, lines {first} to ") and len(text) < module.MAX_RESULT_CHARS
            read, first = read + body, int(note.rpartition("=")[2].rstrip("]") or len(lines) + 1)
        assert read == "".join(lines)
        *found, note = (await call(tools, "search", pattern="xxx")).splitlines()
        assert 50 < len(found) < module.MAX_MATCHES and all(line.endswith("x" * 90) for line in found)
        assert note.startswith(f"[lines that match after {found[-1].partition(': ')[0]} are left out: narrow")
        *few, note = (await call(tools, "search", pattern="^[0-9]+ x", files="long.*")).splitlines()
        assert few == found and "left out" in note
        assert (await call(tools, "search", pattern="^7 ")) == f"long.txt:7: {lines[6].rstrip()}"


async def test_a_wrong_call_is_a_failed_result_in_one_line(tmp_path: Path) -> None:
    files = {"bytes.bin": "a\0b", "evaluate.py": "print(1)\n"}
    async with open_tools(tmp_path, files=files, frozen=("evaluate.*",)) as tools:
        assert "use list, read, search, edit, write, run" in await refused(tools, "Bash", command="ls")
        assert "path" in await refused(tools, "read")
        assert "extra" in (await refused(tools, "read", path="train.py", wrong=1)).lower()
        assert "first" in await refused(tools, "read", path="train.py", first="x")
        assert "occurs 0 times" in await refused(tools, "edit", path="train.py", old="nothing such", new="")
        assert "times in train.py" in await refused(tools, "edit", path="train.py", old="x", new="y")
        assert "frozen (evaluate.*)" in await refused(tools, "write", path="evaluate.py", text="")
        assert "frozen (evaluate.*)" in await refused(tools, "edit", path="./evaluate.py", old="1", new="2")
        assert "not a text file" in await refused(tools, "read", path="bytes.bin")
        assert "cannot be read" in await refused(tools, "read", path="missing.py")
        assert "regular expression" in await refused(tools, "search", pattern="(")
        assert "folder" in await refused(tools, "write", path="tinyfit", text="x")
        assert "Not a directory" in await refused(tools, "list", path="train.py/tinyfit")
        assert "limit of" in await refused(tools, "write", path="large.txt", text="x" * 2**21)
        assert "no command line" in await refused(tools, "run", command="echo \0")


@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "a/../../out.txt",
        "/etc/passwd",
        ".git/config",
        "x/.GIT/hooks/post-checkout",
        "a\nb",
        "a\0b",
        ".",
        "",
    ],
)
async def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, path: str) -> None:
    async with open_tools(tmp_path) as tools:
        for name, rest in (("read", {}), ("write", {"text": "x"}), ("edit", {"old": "a", "new": "b"})):
            await refused(tools, name, path=path, **rest)
        if path not in (".", ""):
            await refused(tools, "list", path=path)
            await refused(tools, "search", pattern="root", path=path)
    assert not (tmp_path / "out.txt").exists() and not (tmp_path / "m" / "out.txt").exists()


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.slow
async def test_links_of_a_repository_are_not_followed(tmp_path: Path, is_folder: bool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("the secret")
    async with open_tools(tmp_path, link=("link", outside if is_folder else outside / "secret.txt")) as tools:
        path = "link/secret.txt" if is_folder else "link"
        assert "link is a symbolic link" in await refused(tools, "read", path=path)
        await refused(tools, "edit", path=path, old="secret", new="x")
        assert "link" in await refused(tools, "write", path=path, text="x")
        assert "secret.txt" not in await call(tools, "list", recursive=True)
        assert "the secret" not in await call(tools, "search", pattern="secret")
        await refused(tools, "search", pattern="secret", path=f"{path}/x")
    assert (outside / "secret.txt").read_text() == "the secret"


async def test_a_folder_that_becomes_a_link_between_look_and_write_stays_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with open_tools(tmp_path) as tools:
        folder = tmp_path / "m" / "scratch" / "scratch"

        def swap_then_open(place: Path, relative: str) -> AbstractContextManager[tuple[int, str]]:
            os.rename(folder / "tinyfit", folder / "moved")
            (folder / "tinyfit").symlink_to(outside)
            return open_parent(place, relative)

        monkeypatch.setattr(module, "open_parent", swap_then_open)
        await refused(tools, "write", path="tinyfit/report.py", text="x")
    assert not list(outside.iterdir())


class TestCommands:
    pytestmark = needs_sandbox

    async def test_a_command_sees_the_edits_and_its_changes_are_taken(self, tmp_path: Path) -> None:
        async with open_tools(tmp_path, files={"run.sh": "echo ran\n"}, frozen=("tinyfit/report.py",)) as tools:
            start = tools.tree
            await call(tools, "write", path="main.py", text="import os\nprint('hello', os.getcwd())\n")
            assert "hello /experiment\n[exit code 0" in await call(tools, "run", command="python main.py")
            command = (
                "sed -i s/hello/bye/ main.py; rm run.sh; echo x > made.txt; "
                "ln -sf /etc/passwd tinyfit/link; rm train.py; ln -s /etc/passwd train.py"
            )
            text = await call(tools, "run", command=command)
            assert "[changed in the tree: " in text and "not kept in the tree (no text, or too large): train.py" in text
            patch = GitMirror(tmp_path / "m" / "mirror").build_diff(start, tools.tree)
            assert "bye" in patch and "deleted file mode" in patch and "run.sh" in patch
            assert "made.txt" not in patch and "train.py" not in patch
            assert "x" in await call(tools, "read", path="made.txt")
            for path in ("train.py", "tinyfit/link"):
                assert "is a symbolic link" in await refused(tools, "read", path=path)
            failed = await tools.call("run", {"command": "python -c 'raise ValueError(\"odd\")'"})
            assert failed.failed and "ValueError: odd" in failed.text
            text = await call(tools, "run", command="echo '# x' >> tinyfit/report.py; sed -i s/bye/ciao/ main.py")
            assert "[frozen: tinyfit/report.py; put back, and files that commands created are gone]" in text
            assert "# x" not in await call(tools, "read", path="tinyfit/report.py")
            assert "ciao" in await call(tools, "read", path="main.py")
            assert "cannot be read" in await refused(tools, "read", path="made.txt")
            patch = GitMirror(tmp_path / "m" / "mirror").build_diff(start, tools.tree)
            assert "ciao" in patch and "report.py" not in patch

    async def test_a_command_has_no_network_credentials_or_other_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
        (tmp_path / "labels").mkdir()
        (tmp_path / "labels" / "test.csv").write_text("label")
        code = (
            f"import os,socket; print('sk-' in str(os.environ), os.path.exists('{tmp_path / 'labels'}'), "
            f"os.path.exists('{tmp_path / 'm' / 'mirror'}')); socket.create_connection(('1.1.1.1', 53), 2)"
        )
        async with open_tools(tmp_path) as tools:
            result = await tools.call("run", {"command": f'python -c "{code}"'})
            assert result.failed and result.text.startswith("False False False\n") and "unreachable" in result.text

    async def test_an_endless_command_is_killed_with_its_children(self, tmp_path: Path) -> None:
        command = "trap '' INT TERM; (setsid sh -c 'trap \"\" INT; (setsid sleep 7531 &) ; sleep 7531' &) ; sleep 7531"
        async with open_tools(tmp_path) as tools:
            began = time.monotonic()
            result = await tools.call("run", {"command": command, "seconds": 1})
            assert result.failed and "limit of 1 s" in result.text and time.monotonic() - began < 15
            assert not subprocess.run(["pgrep", "-f", "sleep 7531"], capture_output=True, check=False).stdout
            assert "still here" in await call(tools, "run", command="echo still here")

    async def test_odd_files_left_by_a_command_do_no_harm(self, tmp_path: Path) -> None:
        command = (
            "truncate -s 2G sparse.txt; truncate -s 2G train.py; mkfifo pipe; mkdir -p .git locked/in; "
            "echo '[core]' > .git/config; touch $'a\\nb: 0000 forged'; chmod 0 locked; rm -r tinyfit; echo > tinyfit"
        )
        async with open_tools(tmp_path) as tools:
            began, start = time.monotonic(), tools.tree
            await call(tools, "run", command=command)
            assert "more than the limit of" in await refused(tools, "read", path="sparse.txt")
            await refused(tools, "read", path="pipe")
            await refused(tools, "write", path="pipe", text="x")
            await refused(tools, "write", path="tinyfit/features.py", text="x")
            listed = await call(tools, "list")
            assert "'a\\nb: 0000 forged' (0)" in listed and ".git/" not in listed and "pipe (no plain file)" in listed
            await call(tools, "list", recursive=True)
            assert "no line matches" in await call(tools, "search", pattern=r"\[core\]")
            assert time.monotonic() - began < 15
            patch = GitMirror(tmp_path / "m" / "mirror").build_diff(start, tools.tree)
            assert "train.py" not in patch and "tinyfit/features.py" in patch

    async def test_an_expression_that_explodes_is_stopped(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_SEARCH_SECONDS", 1.0)
        async with open_tools(tmp_path, files={"a.txt": "a" * 60 + "!\n"}) as tools:
            assert "more than 1 s" in await refused(tools, "search", pattern="(a+)+$")
            assert "a.txt:1: aaa" in await call(tools, "search", pattern="^aaa")


async def test_the_commands_of_a_session_are_bounded_by_its_limit(tmp_path: Path) -> None:
    jobs: list[CommandJob] = []

    async def run(job: CommandJob) -> CommandOutcome:
        jobs.append(job)
        return CommandOutcome(0.1, None, "", "score 0.91\n")

    async with open_tools(tmp_path) as opened:
        mirror, tree = GitMirror(tmp_path / "m" / "mirror"), opened.tree
        async with open_scratch_tree(
            mirror, tree, CommandEnvironment("python"), run, name="two", max_seconds=5.0, redact=lambda _: "[withheld]"
        ) as tools:
            result = await tools.call("run", {"command": "x", "seconds": 1e9})
            assert result == ToolResult("[withheld]", tree, result.seconds)
    assert jobs[0].timeout == 5.0
