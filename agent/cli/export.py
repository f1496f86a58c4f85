"""`scientist export`: write a run's page, events, tree, model answers or folder to files, or its nodes to a tracker.

Each file is written completely or not at all; existing files are kept unless --force is given. The run is not changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO

from labwright.agent.api_keys import KEY_VARIABLES
from labwright.agent.cli.commands import Export
from labwright.agent.cli.errors import DONE, check_output, ignoring_closed_output, print_to_stderr
from labwright.agent.cli.output import format_json
from labwright.agent.cli.status import read_run_state
from labwright.inspector.export.archive import format_events, pack_run
from labwright.inspector.export.html_file import export_page
from labwright.inspector.safe_text import to_plain
from labwright.inspector.tracking.tracked_runs import export_record
from labwright.inspector.tree import build_tree
from labwright.models.replay import extract_exchange, format_exchange
from labwright.record.errors import UsageError
from labwright.record.log_reader import parse_events, read_rows
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.zips import open_run_folder

MIN_SECRET_LENGTH = 16
"""Minimum length of a key whose value is searched for in exports; shorter values are placeholders."""
MAX_LEFT_OUT_SHOWN = 8
STDOUT = Path("-")


def export_run(args: Export) -> int:
    folder = open_run_folder(args.run).resolve()
    state = read_run_state(folder)
    _check_options(args)
    secrets = find_secrets(os.environ)
    rows = read_rows(RunFolder(folder).events)
    if any(secret.encode() in body.encode() for _, body in rows for secret in secrets):
        raise UsageError(
            f"the log of {args.run} contains the value of an API key set in this environment: nothing was exported"
        )
    with ignoring_closed_output():
        _write_texts(args, state, rows)
        if args.html is not None:
            _write_page(args.html, folder, state, secrets, force=args.force)
        if args.zip is not None:
            with _atomic_file(args.zip, force=args.force) as made:
                packed = pack_run(
                    folder, made, with_data=args.with_data, small=args.small, secrets=[one.encode() for one in secrets]
                )
            for line in packed.left_out[:MAX_LEFT_OUT_SHOWN]:
                print_to_stderr(f"left out: {line}")
            if len(packed.left_out) > MAX_LEFT_OUT_SHOWN:
                print_to_stderr(f"left out: {len(packed.left_out) - MAX_LEFT_OUT_SHOWN} more")
            _print_written(args.zip, f", {packed.files} files")
        if args.mlflow is not None:
            from labwright.inspector.tracking.mlflow import MlflowTracker  # an optional extra

            made = export_record(folder, partial(MlflowTracker, place=args.mlflow, force=args.force))
            print(f"MLflow: {len(state.nodes)} nodes in {to_plain(made.address)}", flush=True)
        if args.wandb is not None:
            from labwright.inspector.tracking.wandb import WandbTracker  # an optional extra

            made = export_record(folder, partial(WandbTracker, folder=args.wandb.resolve(), force=args.force))
            print(f"W&B (offline): {len(state.nodes)} nodes in {to_plain(made.address)}", flush=True)
    return DONE


def find_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of provider keys that are set in the environment."""
    named = {
        name: value.strip()
        for name, value in environment.items()
        if name in KEY_VARIABLES or name.endswith(("_API_KEY", "_TOKEN", "_SECRET"))
    }
    return tuple(value for value in named.values() if len(value) >= MIN_SECRET_LENGTH)


def _check_options(args: Export) -> None:
    """Check the options before anything is written. Raises `UsageError`."""
    files = [one for one in (args.html, args.events, args.tree, args.exchange, args.zip) if one is not None]
    if not files and args.mlflow is None and args.wandb is None:
        raise UsageError("nothing to export: give --html, --events, --tree, --exchange, --zip, --mlflow or --wandb")
    if STDOUT in (args.html, args.zip):
        raise UsageError("- (standard output) works only with --events, --tree and --exchange")
    for given, option in ((args.with_data, "--with-data"), (args.small, "--small")):
        if given and args.zip is None:
            raise UsageError(f"{option} requires --zip")
    if len(set(files)) < len(files):
        raise UsageError("two exports have the same FILE: give each its own")
    for file in files:
        if file != STDOUT:
            check_output(file, args.run)
        if file != STDOUT and not file.parent.is_dir():
            raise UsageError(f"{file} cannot be written: {file.parent} is not a folder; create it or choose another")
        if file != STDOUT and not os.access(file.parent, os.W_OK | os.X_OK):
            raise UsageError(f"{file} cannot be written: {file.parent} is not writable")
        if file != STDOUT and file.exists() and not args.force:
            raise UsageError(f"{file} already exists: choose another path, or give --force")


def _write_texts(args: Export, state: RunState, rows: Sequence[tuple[float, str]]) -> None:
    def exchange() -> Iterable[str]:
        yield from format_exchange(extract_exchange(event for event, _ in parse_events(rows, args.run))).split("\n")[
            :-1
        ]

    texts: tuple[tuple[Path | None, Iterable[str]], ...] = (
        (args.events, format_events(rows)),
        (args.tree, [format_json(build_tree(state))]),
        (args.exchange, exchange()),
    )
    for file, lines in texts:
        if file == STDOUT:
            sys.stdout.writelines(f"{line}\n" for line in lines)
        elif file is not None:
            with _atomic_file(file, force=args.force) as made:
                made.writelines(f"{line}\n".encode() for line in lines)
            _print_written(file)


def _write_page(file: Path, folder: Path, state: RunState, secrets: Sequence[str], *, force: bool) -> None:
    as_of = f"{datetime.fromtimestamp(state.last_event_at).astimezone():%Y-%m-%d %H:%M %Z}"
    page = export_page(folder, as_of=as_of, version=state.paper.version)
    if any(secret in page.html for secret in secrets):
        raise UsageError(
            f"a file of {folder.name} contains the value of an API key set in this environment: no page was written"
        )
    with _atomic_file(file, force=force) as made:
        made.write(page.html.encode())
    left_out = f"; left out because of size: {', '.join(page.left_out)}" if page.left_out else ""
    _print_written(file, f", {page.pages} pages{left_out}")


@contextmanager
def _atomic_file(path: Path, *, force: bool) -> Generator[IO[bytes]]:
    """Open a file that appears at its path only once it is completely written. Raises `UsageError`."""
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
        raise UsageError(f"cannot write {path} ({error.strerror}): choose another path, or free disk space") from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _print_written(file: Path, what: str = "") -> None:
    size = file.stat().st_size
    shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    print(f"{to_plain(str(file))}: {shown}{what}", flush=True)
