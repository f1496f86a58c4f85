"""The folder of a run whose paper is released and not judged yet: the synthetic record and a paper in LaTeX."""

from __future__ import annotations

from pathlib import Path

from labwright.agent.settings import Settings
from labwright.record.event_log import EventLog
from labwright.record.events import Event
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn, PaperReleased
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import DecisionMade, StageSummarised, TaskDone
from labwright.record.run_folder import RunFolder, hash_file
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import STAGES, StageSummary
from labwright.record.schema.paper import FinalFigure
from tests.paper import synthetic_paper

QUOTE = "We ask whether smoothing the targets helps when labels are noisy."
PAPER = rf"""\documentclass{{article}}
\title{{Smoothing}}
\begin{{document}}
\begin{{abstract}}{QUOTE} The log loss falls on digits, measured over five seeds.\end{{abstract}}
\section{{Method}} {"Both arms start from the same weights and see the same wrong labels in the same batches. " * 5}
\section{{Results}} Label smoothing improved the log loss by the interval of paired differences; it matters in practice.
\end{{document}}
"""


def make_events(*, released: bool = True, settings: Settings | None = None) -> list[Event]:
    """Everything up to the release of the paper."""
    first, *search = synthetic_paper.make_events()
    assert isinstance(first, RunStarted)
    k = max(event.k for event in search if isinstance(event, DecisionMade)) + 1
    return [
        first.model_copy(update={"settings": (settings or Settings()).model_dump(mode="json")}),
        *search,
        *(StageSummarised(k=0, summary=StageSummary(stage=stage, tried="t", found="f")) for stage in STAGES),
        DecisionMade(k=k, action=RunTask(task="score tests")),
        TaskDone(k=k),
        FiguresDrawn(
            figures={}, descriptions={}, arrays=(), placed=(FinalFigure(name="loss", description="the loss"),)
        ),
        DraftAssessed(round=0, draft=synthetic_paper.DRAFT, pages=4, done=True),
        PaperReleased(released=released, pdf=None, reasons=() if released else ("an untied number",), pages=4),
    ]


def write_run(root: Path, *more: Event, released: bool = True, settings: Settings | None = None) -> Path:
    """The folder with these events and its paper."""
    folder = RunFolder(root)
    folder.create_folders()
    folder.paper_folder.mkdir()
    source = folder.paper_folder / "paper.tex"
    source.write_text(PAPER)
    times = iter(range(1, 10_000))
    log = EventLog(folder.events, clock=lambda: float(next(times)))
    for event in (*make_events(released=released, settings=settings), *more):
        if isinstance(event, PaperReleased):
            event = event.model_copy(update={"files": {"paper.tex": hash_file(source)}})
        log.append(event)
    log.close()
    return root
