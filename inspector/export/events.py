"""The log of a run as lines of JSON: the same bytes for the same events, whichever version reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator


def event_lines(rows: Iterable[tuple[float, str]]) -> Iterator[str]:
    """A line for each event: its number, when it was committed (seconds since the epoch), its type, its own fields."""
    for seq, (at, body) in enumerate(rows, 1):
        yield json.dumps({"seq": seq, "at": at} | json.loads(body), ensure_ascii=False, separators=(",", ":"))
