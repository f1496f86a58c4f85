"""Commands of the program, run in the process of the tests: starting another process costs two CPU seconds."""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout

from labwright.agent.cli import main


def run_scientist(*words: object) -> subprocess.CompletedProcess[str]:
    """Run `scientist` with these arguments and return its exit code and output."""
    arguments = [*map(str, words)]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())
