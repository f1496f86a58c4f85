"""The folders with the files behind a node's results: those of its cells, or that of a plain script."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.nodes import Attempt, ExecutionResult, Node


class ResultFolder(NamedTuple):
    """A sealed folder with arrays, artifacts, predictions and curves, and the recorded hashes of these files."""

    path: Path
    result: ExecutionResult


def list_result_folders(
    state: RunState, folder: RunFolder, node: Node, attempt: Attempt | None = None
) -> list[ResultFolder]:
    """Return the folders of an attempt, by default the last: of each measured cell in order, own or reused.

    Empty for a node that was not executed, and for one that tries settings, whose cells have values for other nodes.
    """
    if attempt is None:
        if not node.attempts:
            return []
        attempt = node.attempts[-1]
    if node.is_trial:
        return []
    if not attempt.cells:
        return [ResultFolder(folder.get_attempt_path(node.id, attempt.number), attempt)]
    return [
        ResultFolder(folder.get_cell_path(line.id), state.cells[line.id][1])
        for line in attempt.cells
        if line.outcome in ("measured", "taken over") and line.id in state.cells
    ]
