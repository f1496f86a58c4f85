"""`scientist stop`: asks the process that works on a run, through its `control/` folder."""

from __future__ import annotations

from pathlib import Path

from agent.commands.edge import DONE
from agent.commands.look import process_on, run_folder
from record.control import send
from record.events import Commanded


def stop(path: Path) -> int:
    """Ask a run to stop: nodes that run get a short grace, and the run can be resumed."""
    folder = run_folder(path)
    process = process_on(folder)
    if process is None:  # an order left behind would stop the next resume
        print(f"nothing to stop: no process works on {path}")
        return DONE
    send(folder, Commanded(verb="stop"))
    print(f"asked {process} to stop; it ends within its grace, and goes on with: scientist resume {path}")
    return DONE
