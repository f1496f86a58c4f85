"""Find the sources of a recorded value: nodes, files, data, lines of code, and the command that reproduces it.

The line of code is the call that may have submitted the value; there are several if several calls match.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from labwright.inspector.run_files import MAX_FILE_BYTES, PathRefusedError, list_files, open_within, read_bytes
from labwright.record.cell_status import compute_node_cells
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim, find_added_replicates, find_winner
from labwright.record.claims.hypothesis_tests import find_deciding_nodes
from labwright.record.claims.question_results import EXPERIMENT_ARM
from labwright.record.claims.requested_estimates import add_measured_arms
from labwright.record.claims.sentences import list_effect_datasets
from labwright.record.estimands import find_effect_metric, list_cells_read
from labwright.record.python_syntax import parse_python
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key
from labwright.record.run_folder import RunFolder, list_result_folders
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.hypotheses import EffectDecision
from labwright.record.schema.nodes import ExecutionResult, Node, format_place_name
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


class TracedEffect(NamedTuple):
    """An effect of a hypothesis, or an exploratory estimate."""

    what: str
    found: EffectDecision


_SETTING_KINDS = {
    "code": "constant of the winner's code",
    "data": "size of the data",
    "level": "level of the data plan",
    "run": "count from the record",
    "tuned": "chosen by tuning",
    "anchor": "published value from the data plan",
    "arm": "name from the data plan",
    "hypothesis": "name from the data plan",
    "margin": "smallest effect of interest from the data plan",
    "bound": "bound of a claim from the data plan",
}


class ProvenanceLookup:
    """Looks up claims and settings in a state of the record. `run` is the run's folder as shown in commands."""

    def __init__(self, state: RunState, folder: RunFolder, known: Mapping[str, Claim], run: str) -> None:
        self._state, self._folder, self._known, self._run = state, folder, known, run

    def trace_claim(
        self, claim: Claim, what: str, text: str, places: tuple[SourceLocation, ...], *, only: str | None = None
    ) -> TraceCandidate:
        """Trace a claim that is printed as `text`; with `only`, only the values of that node."""
        parts, code, used = [claim], list[SourceLocation](), {*claim.nodes}
        if isinstance(claim, ClaimDifference):
            used |= {*claim.others}
            keys = [format_key(claim.split, claim.dataset, claim.name, one) for one in (claim.condition, claim.other)]
            parts = [self._known[key] for key in keys if key in self._known]
            what = ", ".join((what, *claim.caveats))
        for part in parts:  # once per source, since replicates run their parent's code
            sources = {self._state.nodes[name].source_sha256: name for name in reversed(part.nodes)}
            for name in sources.values():
                code += self._find_lines(name, lambda text, part=part: find_submitting_lines(text, part))
        origins = tuple(
            NumberOrigin(
                node=node,
                seed=seed,
                value=value,
                condition=part.condition,
                files=tuple(_find_files(self._state, self._state.nodes[node], self._folder, part)),
                **self._cell_fields(node, part),
            )
            for part in parts
            for node, seed, value in zip(part.nodes, part.seeds, part.values, strict=True)
            if node in used and only in (None, node)
        )
        return TraceCandidate(
            kind="claim",
            key=claim.key,
            what=what,
            printed=text,
            grade=claim.grade,
            places=places,
            origins=origins,
            data=self._describe_data(claim.dataset),
            code=tuple(dict.fromkeys(code)),
            reproduce_command=self.format_reproduce_command([one.node for one in origins]),
        )

    def trace_effect(
        self, one: TracedEffect, key: str, text: str, places: tuple[SourceLocation, ...]
    ) -> TraceCandidate:
        """Trace an effect, printed as `text`: its value for each unit, then the values on which these are based."""
        behind = [self.trace_claim(part, "", "", ()) for part in self._find_read_claims(one)]
        added = (node for node in find_added_replicates(self._state) if node.seed in one.found.seeds)
        by_seed = {node.seed: node.id for node in (*find_deciding_nodes(self._state)[0], *added)}
        plan = self._plan
        return TraceCandidate(
            kind="claim",
            key=key,
            what=one.what,
            printed=text,
            places=places,
            origins=(
                *(
                    NumberOrigin(node=by_seed[seed], seed=seed, value=value, condition=one.found.effect.estimand)
                    for seed, value in zip(one.found.seeds, one.found.values, strict=False)
                    if seed in by_seed
                ),
                *(origin for each in behind for origin in each.origins),
            ),
            code=tuple(dict.fromkeys(place for each in behind for place in each.code)),
            data=tuple(
                line
                for name in (list_effect_datasets(plan, one.found.effect) if plan is not None else ())
                for line in self._describe_data(name)
            ),
            reproduce_command=self.format_reproduce_command([*by_seed.values()]),
        )

    @cached_property
    def _plan(self) -> DataPlan | None:
        """The plan with all measured arms, which estimates may read."""
        plan = self._state.search.data_plan
        return None if plan is None else add_measured_arms(self._state, plan)

    def _find_read_claims(self, one: TracedEffect) -> list[Claim]:
        """Return the claims with the means that an effect reads, on the deciding split."""
        plan = self._plan
        split = next((known.split for known in self._known.values() if not isinstance(known, ClaimDifference)), "test")
        if plan is None:
            return []
        metric = find_effect_metric(one.found.effect, plan)
        read = list_cells_read(one.found.effect.estimand, plan, metric)
        keys = dict.fromkeys(format_key(split, place.dataset, metric.name, place.condition) for place in read)
        return [self._known[key] for key in keys if key in self._known]

    def trace_setting(self, key: str, text: str, places: tuple[SourceLocation, ...]) -> TraceCandidate:
        where, _, name = key.partition(".")
        best = find_winner(self._state) if where == "code" else None
        return TraceCandidate(
            kind="setting",
            key=key,
            what=_SETTING_KINDS.get(where, "setting"),
            printed=text,
            places=places,
            data=self._describe_data(name.partition(".")[0]) if where == "data" else (),
            code=tuple(self._find_lines(best, lambda text: find_assignments(text, name))) if best else (),
            reproduce_command=self.format_reproduce_command([best]) if best else "",
        )

    def format_reproduce_command(self, nodes: Iterable[str]) -> str:
        if self._state.kind == "question":
            return f"git apply {self._run}/change.patch && bash {self._run}/reproduce.sh"
        if self._state.kind != "paper":
            return ""
        chosen = " ".join(f"--node {name}" for name in dict.fromkeys(nodes))
        return f"scientist reproduce {self._run} {chosen}".strip()

    def _find_lines(self, node: str, look: Callable[[str], Iterable[int]]) -> Iterator[SourceLocation]:
        """Yield the lines found by `look` in a node's code, those of its entry file first."""
        root = str(self._folder.get_source_path(node).relative_to(self._folder.root))
        paths = [one.path for one in list_files(self._folder.root, root) if one.path.endswith(".py")]
        for path in sorted(paths, key=lambda one: one != f"{root}/{ENTRY_FILE}"):
            found = read_bytes(self._folder.root, path, MAX_FILE_BYTES) if path != f"{root}/{PLOTS_FILE}" else None
            text = (found or b"").decode("utf-8", "replace")
            shown = text.splitlines()
            for number in look(text):
                yield SourceLocation(file=path, line=number, text=shown[number - 1].strip())

    def _cell_fields(self, node: str, claim: Claim) -> dict[str, str]:
        """Return the fields of an origin that identify the cell in which a node measured a claim's value."""
        for one in compute_node_cells(self._state, node):
            cell = one.cell
            here = cell.arm == EXPERIMENT_ARM or (cell.dataset, cell.condition) == (claim.dataset, claim.condition)
            if here and one.run is not None:
                return {
                    "cell": str(self._folder.get_cell_path(one.run.id).relative_to(self._folder.root)),
                    "measured_by": one.node,
                }
        return {}

    def _describe_data(self, name: str) -> tuple[str, ...]:
        return tuple(
            f"{one.name} from {one.source}, fingerprint {one.fingerprint}"
            for one in self._state.search.datasets
            if one.name == name
        )


def _find_files(state: RunState, node: Node, folder: RunFolder, claim: Claim) -> Iterator[TracedFile]:
    """Yield the predictions or logged values behind a value."""
    for path, result in list_result_folders(state, folder, node):
        if any((one.dataset, one.condition) == (claim.dataset, claim.condition) for one in result.measurements):
            yield from _find_files_in(str(path.relative_to(folder.root)), result, folder, claim)


def _find_files_in(place: str, last: ExecutionResult, folder: RunFolder, claim: Claim) -> Iterator[TracedFile]:
    """Yield those of them in one folder."""
    places = format_place_name(claim.dataset, claim.condition), f"{claim.dataset}__{claim.condition.replace('@', '__')}"
    of_cell = next((name for one in places if (name := f"test_metric__{one}.json") in last.sealed), "")
    if claim.split == "test" and of_cell:
        yield _describe_file(
            folder.root, f"{place}/sealed/{of_cell}", last.sealed[of_cell], "test metric, sealed with its cell"
        )
    elif claim.grade == "logged":
        yield _describe_file(
            folder.root, f"{place}/measurements.jsonl", last.curves_sha256 or "", "values that the code logged"
        )
    elif claim.split == "test":
        for name in _read_index(folder.root, f"{place}/sealed/index.jsonl", claim):
            yield _describe_file(
                folder.root, f"{place}/sealed/{name}", last.sealed.get(name, ""), "sealed test predictions"
            )
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
    try:
        lines: list[dict[str, Any]] = [
            json.loads(line) for line in (read_bytes(run, index, MAX_FILE_BYTES) or b"").splitlines()
        ]
        return [
            str(one["file"])
            for one in lines
            if one.get("step") is None
            and (one.get("dataset"), one.get("split"), one.get("condition"))
            == (claim.dataset, claim.split, claim.condition)
        ]
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
    return [
        one.lineno
        for one in (tree.body if tree else ())
        if isinstance(one, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in one.targets)
    ]


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
    given = dict(zip(_ARGUMENT_ORDER[name], call.args, strict=False)) | {
        one.arg: one.value for one in call.keywords if one.arg is not None
    }
    constants = {what: value.value for what, value in given.items() if isinstance(value, ast.Constant)}
    if "step" in given and constants.get("step", 0) is not None:
        return True
    return any(isinstance(value, str) and value != about[what] for what, value in constants.items() if what in about)
