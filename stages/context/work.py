"""The step of a run that reads the documents that it was given, before anything is planned."""

from __future__ import annotations

from models.door import Desk
from stages.bench import Bench, do_work
from stages.context.digesting import digest_all
from stages.context.reading import copies_in

CONTEXT = "context"
"""The step's task."""


async def read_context(bench: Bench) -> None:
    """Record what the run's documents say; a run without any has no such step. Raises `ModelError`."""
    copies, refused = copies_in(bench.folder.context)
    if not copies and not refused:
        return

    async def work(desk: Desk) -> None:
        if bench.state.context is None:
            bench.recorder.append(await digest_all(desk, copies, refused))

    await do_work(bench, CONTEXT, work)
