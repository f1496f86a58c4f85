"""`scientist store`: show or prune the shared cache of this machine.

Also `scientist memory` and `scientist prefetch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.commands import MemoryForget, MemoryList, Prefetch, Store
from labwright.agent.cli.errors import DONE, FINDINGS, format_line, print_lines, print_result, print_to_stderr
from labwright.agent.data import add_idea_data
from labwright.agent.settings import compose_settings, parse_duration
from labwright.inspector.safe_text import shorten
from labwright.record.claims.open_questions import forget_studies, format_study_json, read_memory
from labwright.record.errors import UsageError
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.idea import read_idea
from labwright.record.table import Table, format_quantity
from labwright.sandbox.content_store import ContentStore, StoreEntry, default_store_root
from labwright.sandbox.data.spec import HUB_PREFIX
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.hub import HubOffers, fetch_model, parse_pretrained
from labwright.sandbox.packages import RunPackages


def show_store(args: Store) -> int:
    unused = parse_duration(args.unused)
    if not isinstance(unused, float):
        raise UsageError(f"--unused: {args.unused!r} is not a duration: write 30d, 12h or 0s")
    place = ContentStore(compose_settings(config=args.config, flags=args.flags).sandbox.store or default_store_root())
    gone = place.prune(unused=unused) if args.prune else []
    changed = {one.key for one in place.find_damaged()} if args.check else set[str]()
    left = sorted(place.iterate_entries(), key=lambda one: -one.bytes)
    print_result(
        {
            "folder": str(place.root),
            "entries": [vars(one) | {"changed": one.key in changed} for one in left],
            "removed": [vars(one) for one in gone],
        },
        _format_store(place, left, gone, changed),
        json=args.json,
    )
    return FINDINGS if changed else DONE


def _format_store(
    place: ContentStore, left: list[StoreEntry], gone: list[StoreEntry], changed: set[str]
) -> Iterator[Text | Table]:
    marks = {one.key: "CHANGED" if one.key in changed else "used by runs" if one.shared else "" for one in left}
    days = {one.key: f"{datetime.fromtimestamp(one.used):%Y-%m-%d}" for one in left}
    rows = ((one.kind, one.name, f"{one.bytes / 1e6:.1f}", days[one.key], one.key[:12], marks[one.key]) for one in left)
    yield Table.of(("kind", "name", "MB", "last used", "key", ""), rows)
    total = sum(one.bytes for one in left)
    yield format_line(f"{place.root}: {format_quantity(len(left), 'item')}, {total / 1e6:.1f} MB")
    if gone:
        yield format_line(
            f"removed: {format_quantity(len(gone), 'item')}, {sum(one.bytes for one in gone) / 1e6:.1f} MB; space used "
            "by runs is freed when they are deleted"
        )


# `scientist memory list|forget`: the records of finished studies in a folder (`record.claims.open_questions`).


def list_records(args: MemoryList) -> int:
    found = read_memory(_check_folder(args.memory))
    for line in found.problems:
        print_to_stderr(line)
    if args.json:
        print(format_study_json(found.studies))
    else:
        lines = [line for one in found.studies for line in _format_study(one)]
        print_lines(lines or [format_line("no records", "dim")])
    return DONE


def forget_records(args: MemoryForget) -> int:
    gone = forget_studies(_check_folder(args.memory), args.record or "")
    print_lines([format_line(f"deleted {one.id} (run {one.run}): {shorten(one.title, 80)}") for one in gone])
    return DONE


def _check_folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: give the folder of a memory (--memory)")
    return folder


def _format_study(study: EarlierStudy) -> list[Text]:
    day = datetime.fromtimestamp(study.finished_at, UTC).date().isoformat()
    head = f"{study.id}  {day}  {shorten(study.run, 60)}: {shorten(study.title, 80)}"
    lines = [f"no paper: {study.failed}"] if study.failed else []
    lines += [f"{one.key} {one.verdict}{'' if one.confirmed else ' so far'}: {one.statement}" for one in study.verdicts]
    lines += [f"data: {', '.join(study.datasets)}"] if study.datasets else []
    lines += [f"failed experiments: {len(one.nodes)} ({one.kind}): {one.message}" for one in study.failures]
    return [format_line(head, "bold"), *(format_line(shorten(line, 200), label="  ") for line in lines)]


# `scientist prefetch`: download what a run needs from the Hugging Face Hub and a package index.


def prefetch_files(args: Prefetch) -> int:
    file, config = args.file, args.config
    is_config = file.suffix.lower() in (".yaml", ".yml")
    if is_config and config is not None:
        raise UsageError(f"{file} is a configuration: omit --config, or give an idea (.json)")
    idea = None if is_config else read_idea(file, args.idea_idx)
    settings = compose_settings(config=file if is_config else config, flags=args.flags)
    settings = settings if idea is None else add_idea_data(settings, idea, file.parent)
    hub = HubOffers(settings.sandbox)
    own = [UserDataset(spec, settings.sandbox.data_bytes) for spec in settings.data if spec.hub]
    sources = [*own, *hub.sources.values()]
    models = dict.fromkeys((*parse_pretrained(settings.sandbox.pretrained), *hub.models))
    for source in sources:  # read in the same way as by the run
        facts = source.build_facts(settings.seed)
        print(f"data {source.name}: {HUB_PREFIX}{source.spec.hub}, {facts.example_count} examples")
    for model in models:
        print(f"pretrained {model}: commit {fetch_model(model).name}")
    more = RunPackages(settings.sandbox)
    overlay = more.build_overlay(more.names)  # resolved together, so that any subset works offline
    if overlay is not None:
        print(f"packages: {overlay.installed or 'all installed already'}; {overlay.installed.bytes / 1e6:.1f} MB")
    if not models and not sources and overlay is None:
        print("nothing to fetch: the settings name no hf:OWNER/SET, pretrained model or package")
    return DONE
