"""The folder of a run whose paper is released and not judged yet: the synthetic record and a paper in LaTeX."""

from __future__ import annotations

from pathlib import Path

from labwright.agent.settings import Settings
from labwright.record.events import Event
from labwright.record.events.papers import Drafted, FiguresMade, Released
from labwright.record.events.running import Started
from labwright.record.events.searching import Decided, Summarised, WorkDone
from labwright.record.folder import RunFolder, sha256
from labwright.record.log import EventLog
from labwright.record.nouns.decisions import Work
from labwright.record.nouns.figures import FinalFigure
from labwright.record.nouns.nodes import STAGES, StageSummary
from tests.paper import synthetic

QUOTE = "We ask whether smoothing the targets helps when labels are noisy."
PAPER = rf"""\documentclass{{article}}
\title{{Smoothing}}
\begin{{document}}
\begin{{abstract}}{QUOTE} The log loss falls on digits, measured over five seeds.\end{{abstract}}
\section{{Method}} {"Both arms start from the same weights and see the same wrong labels in the same batches. " * 5}
\section{{Results}} Label smoothing improved the log loss by the interval of paired differences; it matters in practice.
\end{{document}}
"""


def events(*, released: bool = True, settings: Settings | None = None) -> list[Event]:
    """Everything up to the release of the paper."""
    first, *search = synthetic.events()
    assert isinstance(first, Started)
    k = max(event.k for event in search if isinstance(event, Decided)) + 1
    return [
        first.model_copy(update={"settings": (settings or Settings()).model_dump(mode="json")}),
        *search,
        *(Summarised(k=0, summary=StageSummary(stage=stage, tried="t", found="f")) for stage in STAGES),
        Decided(k=k, action=Work(task="score tests")),
        WorkDone(k=k),
        FiguresMade(figures={}, descriptions={}, arrays=(), placed=(FinalFigure(name="loss", description="the loss"),)),
        Drafted(round=0, draft=synthetic.DRAFT, pages=4, done=True),
        Released(released=released, pdf=None, reasons=() if released else ("an untied number",), pages=4),
    ]


def written(root: Path, *more: Event, released: bool = True, settings: Settings | None = None) -> Path:
    """The folder with these events and its paper."""
    folder = RunFolder(root)
    folder.create()
    folder.paper.mkdir()
    source = folder.paper / "paper.tex"
    source.write_text(PAPER)
    times = iter(range(1, 10_000))
    log = EventLog(folder.db, clock=lambda: float(next(times)))
    for event in (*events(released=released, settings=settings), *more):
        if isinstance(event, Released):
            event = event.model_copy(update={"files": {"paper.tex": sha256(source)}})
        log.append(event)
    log.close()
    return root
