"""Run git with fixed settings; the user's and system's configuration are not read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer

from labwright.sandbox.errors import RepositoryError

GIT_TIMEOUT_SECONDS = 600.0
"""Timeout of one git command in seconds."""
_MAX_MEMORY_BYTES, MAX_OUTPUT_BYTES = 8 * 2**30, 2**30
"""Limits of the memory (without mapped files) and of the output of one git command."""
AUTHOR_VARIABLES = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "scientist"), ("EMAIL", "scientist@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}
_QUIET_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
}
_SAFE_OPTIONS = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "core.commitGraph=false",
    "-c",
    "protocol.file.allow=always",
)


def run_git(
    folder: Path, arguments: Sequence[str], stdin: bytes = b"", variables: Mapping[str, str] | None = None
) -> bytes:
    """Run a git command and return its output; `variables` set the git directory. Raises `RepositoryError`.

    Memory and output are limited, since a few objects can describe a tree of any number of files.
    """
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    limited = ["/bin/sh", "-c", f'ulimit -d {_MAX_MEMORY_BYTES >> 10}; exec "$@"', "sh", "git"]
    with TemporaryFile() as given, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        with subprocess.Popen(
            [*limited, *_SAFE_OPTIONS, *arguments],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env={**inherited, "HOME": os.devnull, **_QUIET_VARIABLES, **(variables or {})},
        ) as git:
            timer = Timer(GIT_TIMEOUT_SECONDS, git.kill)
            timer.start()
            try:
                assert git.stdout is not None
                output = git.stdout.read(MAX_OUTPUT_BYTES + 1)
                if len(output) > MAX_OUTPUT_BYTES:
                    raise RepositoryError(
                        f"git {arguments[0]} printed more than {MAX_OUTPUT_BYTES} bytes: the repository is too large"
                    )
                git.wait()
            finally:
                late = timer.finished.is_set()
                timer.cancel()
                git.kill()
        errors.seek(0)
        message = " ".join(errors.read().decode("utf-8", errors="replace").split())[-300:]
    if late:
        raise RepositoryError(f"git {arguments[0]} took more than {GIT_TIMEOUT_SECONDS:g} s")
    if git.returncode == 127:
        raise RepositoryError("git is not installed: install it (apt-get install git)")
    if git.returncode:
        raise RepositoryError(f"git {arguments[0]} failed: {message or git.returncode}")
    return output
