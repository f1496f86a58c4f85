"""`scientist view`: the web page of a run, or of a folder of runs, on this machine alone."""

from __future__ import annotations

from pathlib import Path

from agent.commands.edge import DONE, WrongUse
from inspector.web.serve import PortTakenError, serve


def view(place: Path, *, port: int) -> int:
    """Serve the page until Ctrl-C."""
    if not place.is_dir():
        raise WrongUse(f"there is no folder {place}: give the folder of a run, or one that holds runs")
    try:
        serve(place.resolve(), port=port, tell=_told)
    except PortTakenError as error:
        raise WrongUse(str(error)) from None
    return DONE


def _told(address: str) -> None:
    print(f"open {address}", flush=True)
    print("(on this machine only; whoever has the address can read the runs; Ctrl-C ends it)", flush=True)
