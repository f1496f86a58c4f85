"""Files of a node that a claim's value was computed from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from record.claims import Claim
from record.folder import RunFolder, sha256
from record.nouns import Frozen, Node


class FileOf(Frozen):
    """A file of the run, with its hash in the record; empty where the record has none. `same`: it still has it."""

    path: str
    sha256: str
    same: bool | None
    holds: str


def files_of(node: Node, folder: RunFolder, claim: Claim) -> Iterator[FileOf]:
    """The predictions behind a value, or what the code wrote; then its source."""
    last = node.attempts[-1]
    place = folder.attempt(node.id, last.number)
    if claim.grade == "logged":
        yield _file(folder, place / "measurements.jsonl", last.curves_sha256 or "", "values that the code logged")
    elif claim.split == "test":
        for name in _listed(place / "sealed" / "index.jsonl", claim):
            yield _file(folder, place / "sealed" / name, last.sealed.get(name, ""), "sealed test predictions")
    else:
        for name in _listed(place / "submissions.jsonl", claim):
            yield _file(folder, place / "submissions" / name, "", f"{claim.split} predictions")


def _file(folder: RunFolder, path: Path, recorded: str, holds: str) -> FileOf:
    same = (path.is_file() and sha256(path) == recorded) if recorded else None
    return FileOf(path=str(path.relative_to(folder.root)), sha256=recorded, same=same, holds=holds)


def _listed(index: Path, claim: Claim) -> list[str]:
    """The files that an index names for a claim's dataset, split and condition, at the end of training."""
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in index.read_text().splitlines()]
    except (OSError, ValueError):
        return []
    return [str(one["file"]) for one in lines if one.get("step") is None
            and (one.get("dataset"), one.get("split"), one.get("condition"))
            == (claim.dataset, claim.split, claim.condition)]
