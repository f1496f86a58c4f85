"""The step of a run that reads its documents: once, recorded with hashes, before the plan and in its prompt."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import cast

from labwright.models.client import Models
from labwright.models.offline.planning import answer_digest
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.paper_events import ContextRead
from labwright.record.retention import build_manifest
from labwright.record.run_folder import RunFolder
from labwright.record.schema.decisions import CONTEXT_TASK
from labwright.sandbox.job import Executor
from labwright.search.settings import SearchSettings
from labwright.stages.document_summaries import format_statements, read_context
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from labwright.stages.user_documents import copy_documents

NOTE = "We found that seeds matter. The notes ask for at least five seeds in every comparison.\n"


def bench(folder: RunFolder, events: list[Event]) -> tuple[RunContext, ScriptedModel, MemoryLog]:
    """A bench that has all that the step needs, on a log with these events."""
    model, log = ScriptedModel.from_role_functions(digest=answer_digest), MemoryLog(events)
    return (
        RunContext(
            recorder=log,
            folder=folder,
            models=Models(model, log, ModelSettings(), lambda: 0.0),
            executor=cast("Executor", None),
            search=SearchSettings(),
            paper=PaperSettings(),
            node_seconds=60,
        ),
        model,
        log,
    )


def given(tmp_path: Path) -> RunFolder:
    """The folder of a run that was given one note."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "notes.md").write_text(NOTE)
    folder = RunFolder(tmp_path / "run")
    copy_documents(tmp_path / "papers", folder.context)
    return folder


def test_documents_are_recorded_with_their_hashes_and_in_the_manifest(tmp_path: Path) -> None:
    folder = given(tmp_path)
    one, _, log = bench(folder, [])
    asyncio.run(read_context(one))
    assert log.state.paper.context is not None
    [document] = log.state.paper.context.documents
    assert document.sha256 == hashlib.sha256(NOTE.encode()).hexdigest()
    assert build_manifest(log.state, folder)["context/01_notes.md"] == document.sha256
    assert format_statements(log.state.paper.context)[1].startswith(
        "[notes.md part 1] The notes ask for at least five seeds"
    )
    assert log.state.is_task_done(CONTEXT_TASK)


def test_any_prefix_of_the_log_goes_on_without_asking_again(tmp_path: Path) -> None:
    folder = given(tmp_path)
    one, _, whole = bench(folder, [])
    asyncio.run(read_context(one))
    for cut in range(len(whole.events) + 1):
        again, model, log = bench(folder, whole.events[:cut])
        asyncio.run(read_context(again))
        assert log.state.paper.context == whole.state.paper.context
        answered = any(event.type == "answered" for event in whole.events[:cut])
        assert len(model.requests) == (0 if answered else 1)
        assert sum(isinstance(event, ContextRead) for event in log.events) == 1
