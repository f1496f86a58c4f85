"""Files of a node that a claim's value was computed from. None of them is reached by a link."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inspector.files import LARGEST, RefusedError, bytes_of, open_within
from inspector.trace.nouns import FileOf
from record.claims import Claim
from record.folder import RunFolder
from record.nouns.nodes import Node


def files_of(node: Node, folder: RunFolder, claim: Claim) -> Iterator[FileOf]:
    """The predictions behind a value, or what the code wrote; then its source."""
    last = node.attempts[-1]
    place = str(folder.attempt(node.id, last.number).relative_to(folder.root))
    if claim.grade == "logged":
        yield _file(folder.root, f"{place}/measurements.jsonl", last.curves_sha256 or "", "values that the code logged")
    elif claim.split == "test":
        for name in _listed(folder.root, f"{place}/sealed/index.jsonl", claim):
            yield _file(folder.root, f"{place}/sealed/{name}", last.sealed.get(name, ""), "sealed test predictions")
    else:
        for name in _listed(folder.root, f"{place}/submissions.jsonl", claim):
            yield _file(folder.root, f"{place}/submissions/{name}", "", f"{claim.split} predictions")


def _file(run: Path, path: str, recorded: str, holds: str) -> FileOf:
    return FileOf(path=path, sha256=recorded, same=_sha256(run, path) == recorded if recorded else None, holds=holds)


def _sha256(run: Path, path: str) -> str | None:
    """The hash of a file; None where there is none, or only by a link."""
    try:
        with os.fdopen(open_within(run, path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (RefusedError, OSError):
        return None


def _listed(run: Path, index: str, claim: Claim) -> list[str]:
    """The files that an index names for a claim's dataset, split and condition, at the end of training."""
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in (bytes_of(run, index, LARGEST) or b"").splitlines()]
        return [str(one["file"]) for one in lines if one.get("step") is None
                and (one.get("dataset"), one.get("split"), one.get("condition"))
                == (claim.dataset, claim.split, claim.condition)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
