"""`scientist export`: a run as files for others: its page, its events, its tree, its folder; or in a tracker.

Each file is written whole or not at all; one that is there already stays unless --force. The run is not changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from agent.cli.edge import DONE, say, until_reader_gone
from agent.cli.status import run_folder
from agent.keys import NAMES
from inspector.export.archive import event_lines, pack
from inspector.export.html_file import page_of
from inspector.text import plain
from inspector.tracking.logged import Record, record_of
from inspector.tree import tree_of
from record.errors import WrongUse
from record.fold.state import RunState
from record.folder import RunFolder
from record.reading import read_rows, read_state

SHORTEST = 16
"""Characters of a key, at least, for which its value is searched in what is exported; shorter ones are placeholders."""
LISTED = 8


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    html: Path | None = None
    events: Path | None = None
    tree: Path | None = None
    zip: Path | None = None
    mlflow: str | None = None
    wandb: Path | None = None
    with_data: bool = False
    force: bool = False

    @property
    def files(self) -> list[Path]:
        return [one for one in (self.html, self.events, self.tree, self.zip) if one is not None]


def export(run: Path, **asked: Any) -> int:
    folder, wanted = run_folder(run).resolve(), Wanted(**asked)
    if not wanted.files and wanted.mlflow is None and wanted.wandb is None:
        raise WrongUse("export what? Give --html, --events, --tree or --zip with a FILE, --mlflow or --wandb a DIR")
    _check(wanted)
    secrets = keys_in(os.environ)
    rows = read_rows(RunFolder(folder).db)
    if any(secret.encode() in body.encode() for _, body in rows for secret in secrets):
        raise WrongUse(f"the log of {run} holds the value of a key that is set here: nothing was exported")
    with until_reader_gone():
        made: list[str] = []
        for name, write in _steps(folder, rows, secrets, wanted):
            try:
                write()
            except WrongUse as error:
                before = f"; made before that, and left there: {', '.join(made)}" if made else ""
                raise WrongUse(f"{error}{before}") from None
            made.append(name)
    return DONE


def _steps(
    folder: Path, rows: Sequence[tuple[float, str]], secrets: tuple[str, ...], wanted: Wanted
) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is written, by its name."""
    state = read_state(folder)
    if (events := wanted.events) is not None:
        yield str(events), lambda: _text(events, lambda: (f"{line}\n" for line in event_lines(rows)), wanted)
    if (tree := wanted.tree) is not None:
        yield str(tree), lambda: _text(tree, lambda: iter([f"{tree_of(state).model_dump_json(indent=1)}\n"]), wanted)
    if (html := wanted.html) is not None:
        yield str(html), lambda: _html(folder, state, html, secrets, wanted)
    if (zipped := wanted.zip) is not None:
        yield str(zipped), lambda: _zip(folder, zipped, secrets, wanted)
    if (mlflow := wanted.mlflow) is not None:
        # each tracker is an extra that need not be installed
        from inspector.tracking.mlflow import to_mlflow

        yield mlflow, lambda: _tracked(folder, "MLflow", lambda record: to_mlflow(record, mlflow, force=wanted.force))
    if (wandb := wanted.wandb) is not None:
        from inspector.tracking.wandb import to_wandb

        yield str(wandb), lambda: _tracked(
            folder, "W&B (offline)", lambda record: to_wandb(record, wandb, force=wanted.force))


def keys_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of providers' keys that are set here."""
    named = {name: value.strip() for name, value in environment.items()
             if name in NAMES or name.endswith(("_API_KEY", "_TOKEN", "_SECRET"))}
    return tuple(value for value in named.values() if len(value) >= SHORTEST)


def _check(wanted: Wanted) -> None:
    """Refuse before anything is written. Raises `WrongUse`."""
    if Path("-") in (wanted.html, wanted.zip):
        raise WrongUse("- (standard output) takes --events or --tree only")
    if wanted.with_data and wanted.zip is None:
        raise WrongUse("--with-data goes with --zip")
    if len(set(wanted.files)) < len(wanted.files):
        raise WrongUse("two exports into one file: give each a FILE of its own")
    for file in wanted.files:
        if file.is_dir():
            raise WrongUse(f"{file} is a folder: give the path of a file")
        if file != Path("-") and not (file.parent.is_dir() and os.access(file.parent, os.W_OK | os.X_OK)):
            raise WrongUse(f"{file} cannot be written: {file.parent} " + (
                "cannot be written to" if file.parent.is_dir() else "is no folder; make it first, or choose another"))
        if file != Path("-") and file.exists() and not wanted.force:
            raise WrongUse(f"{file} exists already: choose another path, or give --force")


# --- files ----------------------------------------------------------------------------------------------------------


def _text(file: Path, lines: Callable[[], Iterator[str]], wanted: Wanted) -> None:
    if file == Path("-"):
        sys.stdout.writelines(lines())
        return
    with whole(file, force=wanted.force) as made:
        made.writelines(line.encode() for line in lines())
    _done(file)


def _html(folder: Path, state: RunState, file: Path, secrets: tuple[str, ...], wanted: Wanted) -> None:
    as_of = f"{datetime.fromtimestamp(state.last_at).astimezone():%Y-%m-%d %H:%M %Z}"
    page = page_of(folder, as_of=as_of, version=state.version)
    if any(secret in page.html for secret in secrets):
        raise WrongUse(f"a file of {folder.name} holds the value of a key that is set here: no page was written")
    with whole(file, force=wanted.force) as made:
        made.write(page.html.encode())
    _done(file, f"{page.pages} pages" + (f"; left out for their size: {', '.join(page.left_out)}"
                                         if page.left_out else ""))


def _zip(folder: Path, file: Path, secrets: tuple[str, ...], wanted: Wanted) -> None:
    with whole(file, force=wanted.force) as made:
        packed = pack(folder, made, with_data=wanted.with_data, secrets=[one.encode() for one in secrets])
    for line in packed.left_out[:LISTED]:
        say(f"left out: {line}")
    if len(packed.left_out) > LISTED:
        say(f"left out: {len(packed.left_out) - LISTED} more")
    _done(file, f"{packed.files} files")


@contextmanager
def whole(path: Path, *, force: bool) -> Generator[IO[bytes]]:
    """A file that stands at its path when all of it is written, and not before. Raises `WrongUse`."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
    except OSError as error:
        raise WrongUse(f"cannot write {path} ({error.strerror}): choose another path") from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as made:
            yield made
            made.flush()
            os.fsync(made.fileno())
        part.chmod(0o644)
        if force:
            part.replace(path)
        else:
            os.link(part, path)
    except OSError as error:
        raise WrongUse(f"cannot write {path} ({error.strerror}): choose another path, or free disk space") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _done(file: Path, what: str = "") -> None:
    size = file.stat().st_size
    shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    print(f"{plain(str(file))}: {shown}" + (f", {what}" if what else ""), flush=True)


# --- trackers -------------------------------------------------------------------------------------------------------


def _tracked(folder: Path, name: str, to: Callable[[Record], str]) -> None:
    """Write the record of a run to a tracker. Raises `TrackerError`."""
    record = record_of(folder)
    print(f"{name}: {len(record.nodes)} nodes in {plain(to(record))}", flush=True)
