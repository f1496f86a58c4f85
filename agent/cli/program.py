"""The main function of the program, imported after the fast checks of `agent.cli.main`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from labwright.agent.api_keys import read_keys
from labwright.agent.cli.commands import app
from labwright.agent.cli.errors import READER_GONE, discarding_unread_output, report_error, saving_traceback
from labwright.pdf.reader import isolate_workers
from labwright.record.errors import UsageError
from labwright.record.machine import normalise_no_proxy

PATH_OPTIONS = ("--runs", "--out", "--context", "--papers", "--code", "--results", "--config", "--bib")


def run_program(arguments: list[str] | None) -> int:
    """Run a command line and return its exit code; every error is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore  print '?' if the terminal lacks Unicode
    read_keys(Path(), os.environ)
    normalise_no_proxy(os.environ)
    isolate_workers(_isolate_worker)
    try:
        with saving_traceback():
            given = sys.argv[1:] if arguments is None else arguments
            for name, value in (*pairwise(given), *(one.split("=", 1) for one in given if "=" in one)):
                if name in PATH_OPTIONS and not value.strip():  # probably an unset shell variable
                    raise UsageError(f"{name} is empty: give a path, or . for this folder")
            code: Any = app(arguments, prog_name="scientist", standalone_mode=False)
            with discarding_unread_output(sys.stdout):
                sys.stdout.flush()
    except SystemExit as error:  # with 1, rich and typer end the program when the reader of its output has gone
        if error.code != 1:
            raise
        return READER_GONE
    except Exception as error:  # noqa: BLE001  top-level handler
        return report_error(error)
    return code if isinstance(code, int) else 0


def _isolate_worker(command: Sequence[str], program: Path) -> list[str]:
    from labwright.sandbox.isolation.bubblewrap import isolate_command  # only commands that read PDFs need it

    return isolate_command(command, program)
