"""A node's notebook as cells: code, and what it printed, drew or raised."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from inspector.files import text_of
from inspector.text import printable
from inspector.web.watched import Watched

LARGEST: Final = 8_000_000
"""Bytes of a notebook."""
CELLS: Final = 200
TEXT: Final = 100_000
"""Characters of a cell, and of each of its outputs."""


class Output(NamedTuple):
    """`kind` is text, error or picture; a picture has its bytes (PNG)."""

    kind: str
    text: str
    picture: bytes = b""


class Cell(NamedTuple):
    """A cell: its kind in the notebook's words, its text, its outputs."""

    kind: str
    source: str
    outputs: tuple[Output, ...]


def cells_of(run: Watched, node: str, attempt: int) -> tuple[Cell, ...] | None:
    """The cells of an attempt's notebook; None where there is none that can be read."""
    text = text_of(run.folder, f"nodes/{node}/attempt{attempt}/node.ipynb", most=LARGEST)
    try:
        cells = cast("list[Any]", json.loads(text or "")["cells"])
        return tuple(_cell(one) for one in cells[:CELLS])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def picture_of(cells: tuple[Cell, ...], number: int) -> bytes | None:
    """The n-th picture of a notebook, counted from 0."""
    found = [one.picture for cell in cells for one in cell.outputs if one.picture]
    return found[number] if 0 <= number < len(found) else None


def _cell(one: Any) -> Cell:
    return Cell(str(one.get("cell_type", "")), _text(one.get("source", "")), tuple(
        found for output in one.get("outputs", [])[:CELLS] for found in _outputs(output)))


def _outputs(one: Any) -> Iterator[Output]:
    if one.get("output_type") == "error":
        yield Output("error", _text("\n".join(map(str, one.get("traceback", [])))))
    elif "text" in one:
        yield Output("text", _text(one["text"]))
    else:
        data = one.get("data", {})
        picture = _png(data.get("image/png"))
        yield Output("picture", "", picture) if picture else Output("text", _text(data.get("text/plain", "")))


def _png(data: Any) -> bytes:
    try:
        found = base64.b64decode("".join(cast("list[str]", data)) if isinstance(data, list) else data)
    except (binascii.Error, TypeError, ValueError):
        return b""
    return found if found.startswith(b"\x89PNG\r\n\x1a\n") else b""


def _text(value: Any) -> str:
    whole = "".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
    text = printable(whole[:TEXT])
    return text if len(whole) <= TEXT else f"{text}\n... {len(whole) - TEXT} characters more"
