"""`scientist store`: show or prune the shared cache of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from labwright.agent.cli.commands import Store
from labwright.agent.cli.errors import DONE, FINDINGS
from labwright.agent.cli.output import build_table, format_line, print_result
from labwright.agent.settings import compose_settings, parse_duration
from labwright.record.errors import UsageError
from labwright.sandbox.content_store import ContentStore, StoreEntry, default_store_root


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
    yield build_table(
        "kind",
        "name",
        "MB",
        "last used",
        "key",
        "",
        rows=(
            (
                one.kind,
                one.name,
                f"{one.bytes / 1e6:.1f}",
                time.strftime("%Y-%m-%d", time.localtime(one.used)),
                one.key[:12],
                "CHANGED" if one.key in changed else "used by runs" if one.shared else "",
            )
            for one in left
        ),
    )
    total = sum(one.bytes for one in left)
    yield format_line(f"{place.root}: {len(left)} items, {total / 1e6:.1f} MB")
    if gone:
        yield format_line(
            f"removed: {len(gone)} items, {sum(one.bytes for one in gone) / 1e6:.1f} MB; space used by runs is freed "
            "when they are deleted"
        )
