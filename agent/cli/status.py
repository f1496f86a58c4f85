"""`scientist status`, `tree`, `logs` and `view`: read a record without changing anything.

Also `scientist export`.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.text import Text

from labwright.agent.api_keys import KEY_VARIABLES
from labwright.agent.cli.commands import Export, ListRuns, Logs, Status, Tree, View
from labwright.agent.cli.errors import DONE, check_output, format_json, print_to_stderr
from labwright.agent.cli.errors import print_lines as print_table_lines
from labwright.agent.forecast import estimate_remaining
from labwright.inspector.archive import format_events, pack_run
from labwright.inspector.diagnosis import diagnose_run
from labwright.inspector.live_view import find_process, is_ascii, watch_run
from labwright.inspector.logs import PrintedLine, read_logs
from labwright.inspector.render import format_status, format_tree, print_lines
from labwright.inspector.safe_text import format_age, format_size, to_plain
from labwright.inspector.status import build_status, fold_with_lines
from labwright.inspector.summary import RunListRow, build_list_row
from labwright.inspector.tracking import choose_tracker, send_run
from labwright.inspector.tree import build_tree
from labwright.models.replay import extract_exchange, format_exchange
from labwright.record.campaign import RUNS_FOLDER, is_campaign
from labwright.record.claims.sentences import join_names
from labwright.record.errors import UsageError
from labwright.record.event_log import (
    RecordError,
    drop_unreleased_rewrite,
    is_run,
    parse_events,
    read_events,
    read_rows,
)
from labwright.record.events import Event
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.table import Table, format_quantity
from labwright.record.zips import is_zip, open_run_folder, refuse_zip


def read_run_events(path: Path) -> list[tuple[Event, float]]:
    """Read the log of a run folder. Raises `UsageError` if the path is not a run folder (a zip needs
    `open_run_folder`)."""
    refuse_zip(path)
    if not path.is_dir() or not is_run(path):
        what = "is not a run (it has no log of one)" if path.is_dir() else "is a file, not a folder"
        what = what if path.exists() else "does not exist"
        raise UsageError(f"{path} {what}: give the folder of a run, such as runs/NAME")
    try:
        return read_events(RunFolder(path).events)
    except RecordError as error:
        raise UsageError(str(error)) from None


def read_run_state(path: Path) -> RunState:
    """Read the state of the run in a folder. Raises `UsageError` if the path is not a run folder."""
    return fold_events(read_run_events(path))


def read_paper_state(path: Path) -> RunState:
    """Read the state of a run at the release of its paper, ignoring a later draft that was not released."""
    return fold_events(drop_unreleased_rewrite(read_run_events(path)))


LATEST_EVENTS_SHOWN = 8


def show_status(args: Status) -> int:
    if is_campaign(args.run):
        from labwright.agent.cli import campaign  # heavy import, only needed here

        return campaign.show_campaign(args.run, json=args.json)
    folder = open_run_folder(args.run)
    state, latest = fold_with_lines(read_run_events(folder), LATEST_EVENTS_SHOWN)
    process, now = find_process(folder), time.time()
    found = build_status(str(args.run), state, latest, process, now=now, folder=folder).model_copy(
        update={"remaining": estimate_remaining(state), "diagnosis": diagnose_run(state, process, now=now)}
    )
    if args.json:
        print(format_json(found))
    else:
        print_lines(Console(), format_status(found))
    return DONE


LIST_WIDTH = 500
"""Names of runs are never folded, so that they can be copied; a narrow terminal wraps the lines itself."""


def list_runs(args: ListRuns) -> int:
    from labwright.inspector.web.run_cache import RunCollection  # reads runs as the page does

    place = args.folder / RUNS_FOLDER if is_campaign(args.folder) else args.folder
    if not place.is_dir():
        raise UsageError(f"{place} is not a folder: give a folder of runs")
    runs, now = RunCollection(place), time.time()
    entries = [one for name in runs.find_folders() if (one := runs.find_entry(name)) is not None]
    rows = [build_list_row(one.status, now) for one in entries]
    if args.json:
        print(dumps([one.model_dump() for one in rows], indent=1))
    elif rows:
        print_table_lines([_build_run_table(rows)], Console(highlight=False, width=LIST_WIDTH))
    else:
        zips = join_names(to_plain(one.name) for one in sorted(place.glob("*.zip")))
        print(f"{place} has no runs" + f" in folders; view, status or trace open a zip: {zips}" * bool(zips))
    return DONE


def _build_run_table(rows: Sequence[RunListRow]) -> Table:
    def list_cells(one: RunListRow) -> tuple[str, ...]:
        condition = one.condition if one.condition in ("done", "failed") else f"{one.condition}, {one.phase}"
        age, usd = "-" if one.age is None else format_age(one.age), f"${one.usd:.2f}"
        return one.run, one.kind, condition, one.verdicts or "-", f"{one.hours:.2f}", usd, age

    titles = ("run", "kind", "condition", "verdicts", "hours", "cost", "age")
    return Table.of(titles, map(list_cells, rows))


def show_tree(args: Tree) -> int:
    if args.watch and args.json:
        raise UsageError(
            "--watch cannot be combined with --json; for streaming JSON: scientist logs RUN --follow --json"
        )
    folder = open_run_folder(args.run)
    found, console = build_tree(read_run_state(folder)), Console()
    if args.watch:
        with suppress(KeyboardInterrupt):
            watch_run(folder, console)
    elif args.json:
        print(format_json(found))
    else:
        print_lines(console, format_tree(found, ascii=is_ascii(console)))
    return DONE


def show_logs(args: Logs) -> int:
    folder = open_run_folder(args.run)
    nodes, node = read_run_state(folder).nodes, args.node
    if node is not None and node not in nodes:
        there = f"it has {min(nodes)} to {max(nodes)}: see scientist tree {args.run}" if nodes else "it has none yet"
        raise UsageError(f"{args.run} has no node {node!r}; {there}")
    console = Console(soft_wrap=True, highlight=False)
    with suppress(KeyboardInterrupt):
        for one in read_logs(folder, node=node, every=args.json, follow=args.follow, last=args.last):
            if one is None:
                console.file.flush()
            elif isinstance(one, PrintedLine) and not args.json:
                console.print(Text(f"  | {one.text}"))
            elif isinstance(one, PrintedLine):
                print(dumps(one.model_dump()))
            elif args.json:
                at = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
                print(dumps(one.model_dump() | {"at": at}))
            else:
                time_of_day = Text(f"{datetime.fromtimestamp(one.at):%Y-%m-%d %H:%M:%S}  ", style="dim")
                console.print(time_of_day.append(one.text or one.type, style="not dim"))
    return DONE


def serve_page(args: View) -> int:
    # the web toolkit is imported only when needed
    from labwright.inspector.web.server import serve_pages

    def announce(address: str) -> None:
        print(f"open {address}", flush=True)
        may = "read the runs" if args.read_only or is_zip(args.place) else "read and control the runs"
        print(f"(on this machine only; anyone with the address can {may}; press Ctrl-C to stop)", flush=True)

    if is_zip(args.place):  # exit cleanly on SIGTERM, so that unpacked files are removed
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    place = open_run_folder(args.place)
    if is_campaign(place):
        place = place / RUNS_FOLDER
    if not place.is_dir():
        raise UsageError(f"{place} is not a folder: give the folder or zip of a run, or a folder of runs")
    serve_pages(
        place.resolve(),
        port=args.port,
        on_address=announce,
        read_only=args.read_only or is_zip(args.place),
        estimate=estimate_remaining,
    )
    return DONE


# `scientist export`: write a run's page, events, tree, model answers or folder to files, or its scalars to a tracker.
# Each file is written completely or not at all; existing files are kept unless --force is given. The run is not
# changed.

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
    with suppress(KeyboardInterrupt):
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
            _print_written(args.zip, f", {format_quantity(packed.files, 'file')}")
        for name, there in (("mlflow", args.mlflow), ("wandb", args.wandb)):
            if there is not None:
                chosen = choose_tracker(f"{name}:{there}", force=args.force, live=False)
                made = send_run(folder, state, chosen)
                print(f"{name}: the run is in {to_plain(made.address)}", flush=True)
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
    for file in (one for one in files if one != STDOUT):
        check_output(file, args.run)
        if not file.parent.is_dir():
            raise UsageError(f"{file} cannot be written: {file.parent} is not a folder; create it or choose another")
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise UsageError(f"{file} cannot be written: {file.parent} is not writable")
        if file.exists() and not args.force:
            raise UsageError(f"{file} already exists: choose another path, or give --force")


def _write_texts(args: Export, state: RunState, rows: Sequence[tuple[float, str]]) -> None:
    answers = extract_exchange(event for event, _ in parse_events(rows, args.run)) if args.exchange else ()
    texts: tuple[tuple[Path | None, Iterable[str]], ...] = (
        (args.events, format_events(rows)),
        (args.tree, [format_json(build_tree(state))]),
        (args.exchange, format_exchange(answers).split("\n")[:-1]),
    )
    for file, lines in texts:
        if file == STDOUT:
            sys.stdout.writelines(f"{line}\n" for line in lines)
        elif file is not None:
            with _atomic_file(file, force=args.force) as made:
                made.writelines(f"{line}\n".encode() for line in lines)
            _print_written(file)


def _write_page(file: Path, folder: Path, state: RunState, secrets: Sequence[str], *, force: bool) -> None:
    from labwright.inspector.html_file import export_page  # the web toolkit is slow to import

    as_of = f"{datetime.fromtimestamp(state.last_event_at).astimezone():%Y-%m-%d %H:%M %Z}"
    page = export_page(folder, as_of=as_of, version=state.paper.version)
    if any(secret in page.html for secret in secrets):
        raise UsageError(
            f"a file of {folder.name} contains the value of an API key set in this environment: no page was written"
        )
    with _atomic_file(file, force=force) as made:
        made.write(page.html.encode())
    left_out = f"; left out because of size: {', '.join(page.left_out)}" if page.left_out else ""
    _print_written(file, f", {format_quantity(page.pages, 'page')}{left_out}")


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
    print(f"{to_plain(str(file))}: {format_size(file.stat().st_size)}{what}", flush=True)
