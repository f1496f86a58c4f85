"""`scientist export`: a run as files for others: its page, its events, its tree, the model's answers, its folder; or in
a tracker.

Each file is written whole or not at all; one that is there already stays unless --force. The run is not changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from labwright.agent.cli.commands import Export
from labwright.agent.cli.edge import DONE, check_output, say, until_reader_gone
from labwright.agent.cli.status import state_of
from labwright.agent.keys import NAMES
from labwright.inspector.export.archive import event_lines, pack
from labwright.inspector.export.html_file import page_of
from labwright.inspector.text import plain
from labwright.inspector.tracking.logged import record_of
from labwright.inspector.tree import tree_of
from labwright.models.replay import exchange_of, written
from labwright.record.errors import WrongUse
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.reading import events_in, read_rows
from labwright.record.zips import open_run_folder

SHORTEST = 16
"""Characters of a key, at least, for which its value is searched in what is exported; shorter ones are placeholders."""
LISTED = 8
PRINTED = Path("-")


def export(asked: Export) -> int:
    folder = open_run_folder(asked.run).resolve()
    state = state_of(folder)
    _check(asked)
    secrets = keys_in(os.environ)
    rows = read_rows(RunFolder(folder).db)
    if any(secret.encode() in body.encode() for _, body in rows for secret in secrets):
        raise WrongUse(f"the log of {asked.run} holds the value of a key that is set here: nothing was exported")
    with until_reader_gone():
        _texts(asked, state, rows)
        if asked.html is not None:
            _page(asked.html, folder, state, secrets, force=asked.force)
        if asked.zip is not None:
            with _whole(asked.zip, force=asked.force) as made:
                packed = pack(
                    folder,
                    made,
                    with_data=asked.with_data,
                    small=asked.small,
                    secrets=[one.encode() for one in secrets],
                )
            for line in packed.left_out[:LISTED]:
                say(f"left out: {line}")
            if len(packed.left_out) > LISTED:
                say(f"left out: {len(packed.left_out) - LISTED} more")
            _told(asked.zip, f", {packed.files} files")
        # each tracker is an extra that need not be installed
        if asked.mlflow is not None:
            from labwright.inspector.tracking.mlflow import to_mlflow

            place = to_mlflow(record_of(folder), asked.mlflow, force=asked.force)
            print(f"MLflow: {len(state.nodes)} nodes in {plain(place)}", flush=True)
        if asked.wandb is not None:
            from labwright.inspector.tracking.wandb import to_wandb

            place = to_wandb(record_of(folder), asked.wandb, force=asked.force)
            print(f"W&B (offline): {len(state.nodes)} nodes in {plain(place)}", flush=True)
    return DONE


def keys_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of providers' keys that are set here."""
    named = {
        name: value.strip()
        for name, value in environment.items()
        if name in NAMES or name.endswith(("_API_KEY", "_TOKEN", "_SECRET"))
    }
    return tuple(value for value in named.values() if len(value) >= SHORTEST)


def _check(asked: Export) -> None:
    """Refuse before anything is written. Raises `WrongUse`."""
    files = [one for one in (asked.html, asked.events, asked.tree, asked.exchange, asked.zip) if one is not None]
    if not files and asked.mlflow is None and asked.wandb is None:
        raise WrongUse(
            "export what? Give --html, --events, --tree, --exchange or --zip with a FILE, --mlflow or --wandb a DIR"
        )
    if PRINTED in (asked.html, asked.zip):
        raise WrongUse("- (standard output) takes --events, --tree or --exchange only")
    for given, option in ((asked.with_data, "--with-data"), (asked.small, "--small")):
        if given and asked.zip is None:
            raise WrongUse(f"{option} goes with --zip")
    if len(set(files)) < len(files):
        raise WrongUse("two exports into one file: give each a FILE of its own")
    for file in files:
        if file != PRINTED:
            check_output(file, asked.run)
        if file != PRINTED and not file.parent.is_dir():
            raise WrongUse(f"{file} cannot be written: {file.parent} is not a folder; make it first, or choose another")
        if file != PRINTED and not os.access(file.parent, os.W_OK | os.X_OK):
            raise WrongUse(f"{file} cannot be written: {file.parent} cannot be written to")
        if file != PRINTED and file.exists() and not asked.force:
            raise WrongUse(f"{file} exists already: choose another path, or give --force")


def _texts(asked: Export, state: RunState, rows: Sequence[tuple[float, str]]) -> None:
    def exchange() -> Iterable[str]:
        yield from written(exchange_of(event for event, _ in events_in(rows, asked.run))).split("\n")[:-1]

    texts: tuple[tuple[Path | None, Iterable[str]], ...] = (
        (asked.events, event_lines(rows)),
        (asked.tree, [tree_of(state).model_dump_json(indent=1)]),
        (asked.exchange, exchange()),
    )
    for file, lines in texts:
        if file == PRINTED:
            sys.stdout.writelines(f"{line}\n" for line in lines)
        elif file is not None:
            with _whole(file, force=asked.force) as made:
                made.writelines(f"{line}\n".encode() for line in lines)
            _told(file)


def _page(file: Path, folder: Path, state: RunState, secrets: Sequence[str], *, force: bool) -> None:
    as_of = f"{datetime.fromtimestamp(state.last_at).astimezone():%Y-%m-%d %H:%M %Z}"
    page = page_of(folder, as_of=as_of, version=state.version)
    if any(secret in page.html for secret in secrets):
        raise WrongUse(f"a file of {folder.name} holds the value of a key that is set here: no page was written")
    with _whole(file, force=force) as made:
        made.write(page.html.encode())
    left_out = f"; left out for their size: {', '.join(page.left_out)}" if page.left_out else ""
    _told(file, f", {page.pages} pages{left_out}")


@contextmanager
def _whole(path: Path, *, force: bool) -> Generator[IO[bytes]]:
    """A file that stands at its path when all of it is written, and not before. Raises `WrongUse`."""
    part: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part", delete=False
        ) as made:
            part = Path(made.name)
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
        if part is not None:
            part.unlink(missing_ok=True)


def _told(file: Path, what: str = "") -> None:
    size = file.stat().st_size
    shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    print(f"{plain(str(file))}: {shown}{what}", flush=True)
