"""Records of earlier studies for the prompts of this one, read once from a memory (`record.study_memory`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labwright.record.event_log import Recorder
from labwright.record.events.run_events import StudiesRecalled
from labwright.record.study_memory import read_memory, select_studies


def recall_studies(
    recorder: Recorder, memory: Path | None, text: str, *, idea_sha256: str = "", datasets: Sequence[str] = ()
) -> None:
    """Record, once per log, which records of a memory the prompts show; nothing without a memory.

    Records are chosen by what a study is about: a text, the hash of its idea and its data.
    """
    if memory is None or recorder.state.recalled_studies is not None:
        return
    found = read_memory(memory)
    shown = select_studies(found.studies, text, idea_sha256=idea_sha256, datasets=datasets)
    recorder.append(
        StudiesRecalled(
            memory=str(memory), shown=shown, left_out=len(found.studies) - len(shown), problems=found.problems[:5]
        )
    )
