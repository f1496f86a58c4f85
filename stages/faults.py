"""Whose an exception is that nobody expected: the node's over whose leavings it came, or the run's.

Never a node's: failures of disk, record, kernels, devices and models, and what goes wrong in those who only look on.
The same fault of ours in node after node (`record.unexpected`) is no node's either: the third one ends the run.
"""

from __future__ import annotations

from models.errors import ModelError
from record.fold.state import RunState
from record.log import RecordError
from record.nouns.nodes import Failure
from record.unexpected import MOST, frames_of
from sandbox.results import failure_of

RENDERING = ("models/door.py", "models/render.py", "models/roles.py")
"""Of the models' room only these work on what a node left; the rest works on what a model answers."""
ELSEWHERE = ("agent/", "inspector/", "models/", "sandbox/executor.py", "sandbox/scripted.py", "record/log.py")
"""Where an exception is never a node's: the executor has an edge of its own for what code left."""


class SameFaultError(Exception):
    """Three nodes met the same fault of ours. Who acts: whoever mends the program; then the run is resumed."""


def of_node(error: Exception) -> Failure:
    """The failure of the node that was worked on. Raises the error again where it is the run's."""
    passed = {file for file, _, _ in frames_of(error)} - set(RENDERING)
    if isinstance(error, ModelError | RecordError | SameFaultError) or any(
            file.startswith(ELSEWHERE) for file in passed):
        raise error
    return failure_of(error)


def end_if_repeated(state: RunState, failure: Failure | None) -> None:
    """Raises `SameFaultError` where a node's failure was a fault of ours that others met before it."""
    nodes = state.stumbled.get(failure.ours, ()) if failure is not None and failure.ours else ()
    if failure is not None and len(nodes) >= MOST:
        raise SameFaultError(
            f"the program stumbled at the same place over {', '.join(nodes)}: {failure.ours}; the tracebacks are in "
            f"the record ('scientist why RUN'); the run can be resumed, best with a program that mends it")
