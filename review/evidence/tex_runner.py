"""Run TeX and related programs on untrusted text, within limits.

Guarantees: no shell escape; reads and writes only in the working folder (and TeX's own trees); a minimal
environment; a timeout that kills the whole process group; limits on CPU time and file size. If bubblewrap works,
TeX runs in the sandbox (`sandbox.isolation`): it sees only system programs and its folder, without network. Limits:
without a sandbox, a vulnerability in TeX is not contained.

TexError
  TexMissing a program is not installed: the user must install it
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labwright.sandbox.isolation.bubblewrap import SandboxSpec, build_command, get_probed_isolation
from labwright.sandbox.isolation.interpreter import select_exposable

TEX_PACKAGES = "texlive-latex-base texlive-latex-recommended texlive-fonts-recommended latexmk"
_DEBIAN_PACKAGES = {
    "texlive-science": r"algorithm|algpseudocode|siunitx",
    "texlive-fonts-extra": r"newtx|libertin|zi4|inconsolata|dsfont|fontawesome",
    "texlive-pictures": r"tikz|pgf",
    "texlive-bibtex-extra": r"biblatex",
    "texlive-publishers": r".*\.(?:cls|bst|clo)$",
    "texlive-latex-extra": r"",
}
"""How the names of files in Debian's packages of TeX Live beyond `TEX_PACKAGES` begin; the first match counts."""
SOURCE_DATE_EPOCH = "1577836800"
"""SOURCE_DATE_EPOCH for all papers, so that the same input gives the same bytes."""

_LATEX = ("pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "-file-line-error")
_LIMIT_SCRIPT = 'ulimit -f "$1" -t "$2" 2>/dev/null; shift 2; exec "$@"'
_MAX_FILE_BLOCKS = str(128 * 2048)
"""128 MiB in blocks of 512 bytes."""


class TexError(Exception):
    """Base class: TeX could not be run."""


class TexMissing(TexError):
    """A program is not on the PATH."""


@dataclass(frozen=True)
class ProcessResult:
    """Result of a program. `code` is None if it was killed after `seconds`."""

    code: int | None
    output: str
    seconds: float

    @property
    def timed_out(self) -> bool:
        return self.code is None


def find_program(program: str) -> str:
    """Return the path of a program.

    Raises `TexMissing` with the packages to install.
    """
    path = shutil.which(program)
    if path is None:
        raise TexMissing(f"TeX is not installed: no {program!r} on the PATH; on Debian: apt-get install {TEX_PACKAGES}")
    return path


def guess_debian_package(file: str) -> str:
    """Return the Debian package that probably has a class, package or bibliography style that TeX did not find."""
    return next(package for package, names in _DEBIAN_PACKAGES.items() if re.match(names, file))


async def run_program(
    argv: Sequence[str], folder: Path, *, timeout: float, child_programs: Sequence[str] = ()
) -> ProcessResult:
    """Run a program in a folder until it exits or times out.

    `child_programs` are the programs that it starts. Raises `TexMissing`.
    """
    programs = [find_program(program) for program in (argv[0], *child_programs)]
    started = asyncio.get_running_loop().time()
    limited = ["/bin/sh", "-c", _LIMIT_SCRIPT, "sh", _MAX_FILE_BLOCKS, str(int(timeout) + 5), programs[0], *argv[1:]]
    process = await asyncio.create_subprocess_exec(
        *_wrap_in_sandbox(limited, programs, folder.absolute()),
        cwd=folder,
        env=_build_environment(programs, folder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout):
            output = await _read_output(process)
        code = process.returncode
    except TimeoutError:
        output, code = b"", None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the rest of the process group
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return ProcessResult(code, output.decode("utf-8", "replace"), asyncio.get_running_loop().time() - started)


def latex_command(name: str) -> list[str]:
    """Return the command line of one pdflatex pass over `name`.tex."""
    return [*_LATEX, f"{name}.tex"]


async def run_latexmk(name: str, folder: Path, *, timeout: float) -> ProcessResult:
    """Build `name`.pdf with bibtex, in as many passes as the references need. No latexmkrc is read.

    Raises `TexMissing`.
    """
    return await run_program(
        ["latexmk", "-norc", "-pdf", "-bibtex", f"-pdflatex={' '.join(_LATEX)} %O %S", f"{name}.tex"],
        folder,
        timeout=timeout,
        child_programs=("pdflatex", "bibtex"),
    )


def _wrap_in_sandbox(command: list[str], programs: Sequence[str], folder: Path) -> list[str]:
    """Wrap the command in the sandbox, if there is one."""
    isolation = get_probed_isolation()
    if not isolation.is_on:
        return command
    places = {path.parent for program in programs for path in (Path(program), Path(program).resolve())}
    trees = select_exposable(
        {one for place in places for one in (place, *place.parents[1:2])}
    )  # such as /opt/texlive/2025
    return build_command(command, SandboxSpec(folder, environments=trees, user_namespace=isolation.user_namespace))


def _build_environment(programs: Sequence[str], folder: Path) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join(dict.fromkeys((*(str(Path(one).parent) for one in programs), "/usr/bin", "/bin"))),
        "HOME": str(folder),
        "TEXMFHOME": str(folder / ".none"),
        "LC_ALL": "C.UTF-8",
        "MKTEXPK": "0",
        "openin_any": "p",
        "openout_any": "p",
        "shell_escape": "f",
        "max_print_line": "1000",
        "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
        "FORCE_SOURCE_DATE": "1",
    }


async def _read_output(process: asyncio.subprocess.Process) -> bytes:
    """Return the first two megabytes of a process's output; read and discard the rest."""
    assert process.stdout is not None
    kept = bytearray()
    while chunk := await process.stdout.read(65536):
        if len(kept) < 2_000_000:
            kept += chunk
    await process.wait()
    return bytes(kept)
