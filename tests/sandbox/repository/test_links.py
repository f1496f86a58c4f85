"""The host does not follow links committed in a repository or created by its code: their targets stay unchanged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.repository import trace
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.metric import parse_metric, prepare_checkout
from tests.repositories import make_repository, run_git


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    place = tmp_path / "disk" / "results"
    place.mkdir(parents=True)
    (place / "metrics.json").write_text('{"acc": 0.91}')
    return place


def checkout(tmp_path: Path, plant: Callable[[Path], None]) -> Path:
    code = make_repository(tmp_path / "code")
    plant(code)
    run_git(code, "add", "-A", "--force")
    run_git(code, "commit", "-qm", "links")
    mirror = GitMirror(tmp_path / "m" / "mirror")
    mirror.checkout(mirror.import_head(code).tree, tmp_path / "out")
    return tmp_path / "out"


def test_patterns_pass_by_linked_folders_and_a_linked_file_goes_alone(tmp_path: Path, precious: Path) -> None:
    def plant(code: Path) -> None:
        (code / "results").symlink_to(precious)
        (code / "metrics.json").symlink_to(precious / "metrics.json")
        (code / "deep").mkdir()
        (code / "deep" / "metrics.json").write_text("{}")

    place = checkout(tmp_path, plant)
    prepare_checkout(place, map(parse_metric, ("*/metrics.json:acc", "metrics.json:acc")), "out")
    assert not (place / "deep" / "metrics.json").exists() and not os.path.lexists(place / "metrics.json")
    assert (precious / "metrics.json").read_text() == '{"acc": 0.91}'


def test_of_what_a_traced_run_leaves_plain_files_are_kept(tmp_path: Path, precious: Path) -> None:
    left, kept = tmp_path / "left", tmp_path / "kept"
    (left / trace.TRACE_FOLDER).mkdir(parents=True)
    (left / trace.TRACE_FOLDER / "trace-1.json").write_text('{"functions": [], "lines": {"a.py": [1]}}')
    (left / trace.TRACE_FOLDER / "trace-2.json").symlink_to(precious / "metrics.json")
    os.mkfifo(left / trace.TRACE_FOLDER / "trace-3.json")
    trace.copy_trace(left, kept)
    assert [one.name for one in (kept / trace.TRACE_FOLDER).iterdir()] == ["trace-1.json"]
    assert trace.read_trace(kept).was_executed("a.py", [1])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / trace.TRACE_FOLDER).symlink_to(precious)
    trace.copy_trace(tmp_path / "other", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_checkout_goes_however_its_code_locked_or_nested_it_and_what_it_links_to_stays(
    tmp_path: Path, precious: Path
) -> None:
    place = tmp_path / "place"
    (place / "locked" / "deep").mkdir(parents=True)
    (place / "link").symlink_to(precious)
    (place / "locked").chmod(0)
    folder = os.open(place, os.O_RDONLY)
    for _ in range(150):
        os.mkdir("nested", dir_fd=folder)
        inner = os.open("nested", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    remove_tree(place, ignore_errors=True)
    assert not place.exists() and (precious / "metrics.json").exists()


CALL = '{"argument_kinds": {"x": %s, "y": ["number"]}, "return_kind": ["number"], "digests": {"x": %s}}'
FUNCTION = '{"path": "a.py", "name": "f", "line": %s, "calls": 1, "callers": {}, "recorded_calls": [%s]}'


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"functions": [], "lines": {"a.py": [Infinity]}}',
        '{"functions": [%s], "lines": {}}' % (FUNCTION % ("Infinity", "")),
        '{"functions": [%s], "lines": {}}' % (FUNCTION % (1, CALL % ('["array", 5]', '"d"'))),
        '{"functions": [%s], "lines": {}}' % (FUNCTION % (1, CALL % ('["list", 1, [[[]]]]', '"d"'))),
        '{"functions": [%s], "lines": {}}' % (FUNCTION % (1, CALL % ('["array", [5]]', "[1]"))),
    ],
)
def test_a_forged_trace_is_no_trace(tmp_path: Path, text: str) -> None:
    """It is written by code of the repository: it must neither end the run nor be misread later."""
    (tmp_path / trace.TRACE_FOLDER).mkdir()
    (tmp_path / trace.TRACE_FOLDER / "trace-1.json").write_text(text)
    (tmp_path / trace.TRACE_FOLDER / "trace-2.json").write_text('{"functions": [], "lines": {"b.py": [2]}}')
    found = trace.read_trace(tmp_path)
    assert not found.functions and found.lines == {"b.py": frozenset({2})}
