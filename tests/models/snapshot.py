"""Compare a text with one kept beside the tests. SNAPSHOT_UPDATE=1 writes it instead."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def assert_snapshot(name: str, text: str) -> None:
    """Fail with a diff if `text` is not what `snapshots/<name>` holds."""
    path = FOLDER / name
    if os.environ.get("SNAPSHOT_UPDATE") == "1":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text)
        return
    kept = path.read_text() if path.exists() else ""
    if kept != text:
        diff = difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "now", lineterm="", n=1)
        raise AssertionError(f"{name} changed; look at it, then run with SNAPSHOT_UPDATE=1\n" + "\n".join(diff))
