"""Run git with fixed settings; the user's and system's configuration are not read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from labwright.sandbox.errors import RepositoryError

GIT_TIMEOUT_SECONDS = 600.0
"""Timeout of one git command in seconds."""
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
    "-c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c core.untrackedCache=false "
    "-c core.commitGraph=false -c protocol.file.allow=always"
).split()


def run_git(
    folder: Path, arguments: Sequence[str], stdin: bytes = b"", variables: Mapping[str, str] | None = None
) -> bytes:
    """Run a git command and return its output; `variables` set the git directory. Raises `RepositoryError`."""
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    try:
        ran = subprocess.run(
            ["git", *_SAFE_OPTIONS, *arguments],
            input=stdin,
            capture_output=True,
            timeout=GIT_TIMEOUT_SECONDS,
            check=False,
            cwd=folder,
            env={**inherited, "HOME": os.devnull, **_QUIET_VARIABLES, **(variables or {})},
        )
    except FileNotFoundError:
        raise RepositoryError("git is not installed: install it (apt-get install git)") from None
    except subprocess.TimeoutExpired:
        raise RepositoryError(f"git {arguments[0]} took more than {GIT_TIMEOUT_SECONDS:g} s") from None
    if ran.returncode:
        message = " ".join(ran.stderr.decode("utf-8", errors="replace").split())[-300:]
        raise RepositoryError(f"git {arguments[0]} failed: {message or ran.returncode}")
    return ran.stdout
