"""`scientist store`: what runs have in common on this machine, and what of it may go."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from labwright.agent.cli.commands import Store as Asked
from labwright.agent.cli.edge import DONE, FINDINGS
from labwright.agent.cli.shown import answer, line, table
from labwright.agent.settings import compose, seconds
from labwright.record.errors import WrongUse
from labwright.sandbox.packages import store as packages
from labwright.sandbox.store import Entry, Store, default_root, remove_tree


def store(asked: Asked) -> int:
    unused = seconds(asked.unused)
    if not isinstance(unused, float):
        raise WrongUse(f"--unused {asked.unused!r} is no time: write 30d, 12h or 0s")
    place = Store(compose(config=asked.config, flags=asked.flags).sandbox.store or default_root())
    gone = _pruned(place, unused) if asked.prune else []
    changed = {one.key for one in place.check()} if asked.check else set[str]()
    left = sorted((*place.entries(), *_installed()), key=lambda one: -one.bytes)
    answer(
        {
            "folder": str(place.root),
            "entries": [vars(one) | {"changed": one.key in changed} for one in left],
            "removed": [vars(one) for one in gone],
        },
        _lines(place, left, gone, changed),
        json=asked.json,
    )
    return FINDINGS if changed else DONE


def _installed() -> Iterator[Entry]:
    """Folders of packages, which are named by their lock."""
    for folder, size, used in packages.folders():
        yield Entry(folder.name, "packages", str(folder), size, used, False)


def _pruned(place: Store, unused: float) -> list[Entry]:
    old = [one for one in _installed() if one.used <= time.time() - unused]
    for one in old:
        remove_tree(packages.store() / one.key)
    return [*place.prune(unused=unused), *old]


def _lines(place: Store, left: list[Entry], gone: list[Entry], changed: set[str]) -> Iterator[Text | Table]:
    yield table(
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
                "CHANGED" if one.key in changed else "runs link to it" if one.shared else "",
            )
            for one in left
        ),
    )
    total = sum(one.bytes for one in left)
    yield line(f"{place.root}: {len(left)} things, {total / 1e6:.1f} MB")
    if gone:
        yield line(
            f"removed: {len(gone)} things, {sum(one.bytes for one in gone) / 1e6:.1f} MB; what runs link to is "
            "freed with them"
        )
