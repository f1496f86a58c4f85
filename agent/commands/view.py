"""`scientist view`: the web page of a run, or of a folder of runs, on this machine alone."""

from __future__ import annotations

from pathlib import Path

from agent.commands.edge import DONE, WrongUse
from agent.commands.look import run_folder
from inspector.web.server import PortTakenError, serve
from record.reading import is_run


def view(place: Path, *, port: int, read_only: bool) -> int:
    """Serve the page until Ctrl-C."""
    if not place.is_dir():
        raise WrongUse(f"there is no folder {place}: give the folder of a run, or one that holds runs")
    if is_run(place):
        run_folder(place)  # one that cannot be read is refused before anything is served
    try:
        serve(place.resolve(), port=port, tell=lambda address: _told(address, read_only), read_only=read_only)
    except PortTakenError as error:
        raise WrongUse(str(error)) from None
    return DONE


def _told(address: str, read_only: bool) -> None:
    print(f"open {address}", flush=True)
    may = "read the runs" if read_only else "read the runs and steer them"
    print(f"(on this machine only; whoever has the address can {may}; Ctrl-C ends it)", flush=True)
