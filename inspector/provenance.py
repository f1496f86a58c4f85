"""Find what is behind a recorded value: the files, the cell that measured it, and lines of code.

The line of code is the call that may have submitted the value; there are several if several calls match.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from labwright.inspector.run_files import MAX_FILE_BYTES, PathRefusedError, list_files, open_within, read_bytes
from labwright.record.cell_status import compute_node_cells
from labwright.record.claims.estimates import Claim
from labwright.record.claims.question_results import EXPERIMENT_ARM
from labwright.record.python_syntax import parse_python
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, list_result_folders
from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import Node, format_place_name
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE


class SourceLocation(FrozenModel):
    """A line in a file where a number is printed or computed."""

    file: str
    line: int
    text: str


class TracedFile(FrozenModel):
    """A file of the run with its recorded hash, if any. `same` tells whether the file still has that hash."""

    path: str
    sha256: str
    same: bool | None
    holds: str


class NumberOrigin(FrozenModel):
    """One node that contributed to a number."""

    node: str
    seed: int
    value: float
    condition: str
    files: tuple[TracedFile, ...] = ()
    cell: str = ""
    """Folder of the cell that measured it; empty for code that measures all conditions at once."""
    measured_by: str = ""
    """Node that ran that cell, if this node reused it."""


class TraceCandidate(FrozenModel):
    """A possible origin of a printed number. `what` names the form that contains the number."""

    kind: Literal["claim", "setting", "value", "text"]
    key: str
    what: str
    printed: str
    grade: str = ""
    places: tuple[SourceLocation, ...] = ()
    """Empty if the paper does not print the value."""
    origins: tuple[NumberOrigin, ...] = ()
    data: tuple[str, ...] = ()
    code: tuple[SourceLocation, ...] = ()
    reproduce_command: str = ""
    """The command that reproduces the value; empty if nothing is computed."""


class NumberTrace(FrozenModel):
    """Possible origins of a number, printed numbers first; if none matches, the `nearest` printed numbers."""

    number: str
    candidates: tuple[TraceCandidate, ...]
    nearest: tuple[str, ...] = ()


def find_code_lines(folder: RunFolder, node: str, look: Callable[[str], Iterable[int]]) -> Iterator[SourceLocation]:
    """Yield the lines found by `look` in a node's code, those of its entry file first."""
    root = str(folder.get_source_path(node).relative_to(folder.root))
    paths = [one.path for one in list_files(folder.root, root) if one.path.endswith(".py")]
    for path in sorted(paths, key=lambda one: one != f"{root}/{ENTRY_FILE}"):
        found = read_bytes(folder.root, path, MAX_FILE_BYTES) if path != f"{root}/{PLOTS_FILE}" else None
        text = (found or b"").decode("utf-8", "replace")
        shown = text.splitlines()
        for number in look(text):
            yield SourceLocation(file=path, line=number, text=shown[number - 1].strip())


def build_origins(state: RunState, folder: RunFolder, claim: Claim, used: Container[str]) -> Iterator[NumberOrigin]:
    """Yield the values of a claim by node, for the nodes in `used`, with the files behind them and the cell that a node
    measured or reused."""
    for node, seed, value in zip(claim.nodes, claim.seeds, claim.values, strict=True):
        if node not in used:
            continue
        cell, by = "", ""
        for one in compute_node_cells(state, node):
            here = (one.cell.dataset, one.cell.condition) == (claim.dataset, claim.condition)
            if (one.cell.arm == EXPERIMENT_ARM or here) and one.run is not None:
                cell, by = str(folder.get_cell_path(one.run.id).relative_to(folder.root)), one.node
                break
        files = tuple(_find_files(state, state.nodes[node], folder, claim))
        yield NumberOrigin(
            node=node, seed=seed, value=value, condition=claim.condition, files=files, cell=cell, measured_by=by
        )


def _find_files(state: RunState, node: Node, folder: RunFolder, claim: Claim) -> Iterator[TracedFile]:
    """Yield the predictions or logged values behind a value."""
    places = format_place_name(claim.dataset, claim.condition), f"{claim.dataset}__{claim.condition.replace('@', '__')}"
    for path, result in list_result_folders(state, folder, node):
        if not any((one.dataset, one.condition) == (claim.dataset, claim.condition) for one in result.measurements):
            continue
        place = str(path.relative_to(folder.root))
        of_cell = next((name for one in places if (name := f"test_metric__{one}.json") in result.sealed), "")
        if claim.split == "test" and of_cell:
            holds = "test metric, sealed with its cell"
            yield _describe_file(folder.root, f"{place}/sealed/{of_cell}", result.sealed[of_cell], holds)
        elif claim.grade == "logged":
            digest, holds = result.curves_sha256 or "", "values that the code logged"
            yield _describe_file(folder.root, f"{place}/measurements.jsonl", digest, holds)
        elif claim.split == "test":
            for name in _read_index(folder.root, f"{place}/sealed/index.jsonl", claim):
                digest, holds = result.sealed.get(name, ""), "sealed test predictions"
                yield _describe_file(folder.root, f"{place}/sealed/{name}", digest, holds)
        else:
            for name in _read_index(folder.root, f"{place}/submissions.jsonl", claim):
                yield _describe_file(folder.root, f"{place}/submissions/{name}", "", f"{claim.split} predictions")


def _describe_file(run: Path, path: str, recorded: str, holds: str) -> TracedFile:
    found = None
    if recorded:
        with suppress(PathRefusedError, OSError), os.fdopen(open_within(run, path), "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    return TracedFile(path=path, sha256=recorded, same=found == recorded if recorded else None, holds=holds)


def _read_index(run: Path, index: str, claim: Claim) -> list[str]:
    """Return the files that an index lists for the dataset, split and condition of a claim at the end of training."""
    about = {"dataset": claim.dataset, "split": claim.split, "condition": claim.condition, "step": None}
    text = read_bytes(run, index, MAX_FILE_BYTES) or b""
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
        return [str(one["file"]) for one in lines if about == {key: one.get(key) for key in about}]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


_ARGUMENT_ORDER = {"submit": ("dataset", "split", "condition"), "log": ("name", "value"), "result": ("name", "value")}


def find_submitting_lines(source: str, claim: Claim) -> list[int]:
    """Return line numbers (from 1) of `lab` calls that may have submitted a claim's value, judging by their constant
    arguments."""
    about = {"dataset": claim.dataset, "split": claim.split, "condition": claim.condition, "name": claim.name}
    return [
        call.lineno
        for name, call in _find_lab_calls(source)
        if (name != "submit") == (claim.grade == "logged") and not _is_about_other(name, call, about)
    ]


def find_assignments(source: str, name: str) -> list[int]:
    """Return line numbers (from 1) where a name is assigned at the top level."""
    tree = _parse_source(source)
    assigned = [one for one in (tree.body if tree else ()) if isinstance(one, ast.Assign)]
    return [one.lineno for one in assigned if name in [getattr(target, "id", "") for target in one.targets]]


@lru_cache(maxsize=64)
def _find_lab_calls(source: str) -> tuple[tuple[str, ast.Call], ...]:
    """Return the `lab` calls by line; cached, since many values come from one script."""
    tree = _parse_source(source)
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)] if tree else []
    named = [
        (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", ""), call)
        for call in sorted(calls, key=lambda one: one.lineno)
    ]
    return tuple((name, call) for name, call in named if name in _ARGUMENT_ORDER)


def _parse_source(source: str) -> ast.Module | None:
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _is_about_other(name: str, call: ast.Call, about: dict[str, str]) -> bool:
    """Return whether the call explicitly concerns another value or logs a point of a curve."""
    given = dict(zip(_ARGUMENT_ORDER[name], call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg is not None}
    constants = {what: value.value for what, value in given.items() if isinstance(value, ast.Constant)}
    if "step" in given and constants.get("step", 0) is not None:
        return True
    return any(isinstance(value, str) and value != about[what] for what, value in constants.items() if what in about)
