"""One page of the inspector as a part of a file: links lead within the file, pictures stand in it, nothing acts.

The pages escape all text of others, so what the parser sees as a tag is the inspector's own. Dropped is what would act
or lead out of the file: scripts, forms, frames, addresses.
"""

from __future__ import annotations

import asyncio
import base64
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from inspector.web.app import make_app

VOID = frozenset({"br", "hr", "img", "wbr", "col"})
DROPPED = frozenset({"script", "style", "form", "button", "iframe", "dialog", "object", "embed", "select", "textarea"})
"""Gone with all that is in them."""
DROPPED_VOID = frozenset({"input", "link", "meta", "base", "source", "area"})
DROPPED_NAMES = frozenset({"style", "loading", "target", "action", "srcset"})
NAMING = frozenset({"aria-labelledby", "aria-describedby", "for"})

Links = Callable[[str], Mapping[str, str]]
"""What stands for `href` of an address: attributes, none where it leads nowhere."""
Sources = Callable[[str], str | None]
"""The data address of a picture; None: it is left out."""


class PageRewriter(HTMLParser):
    """What stands within `<main>` of a page, with ids that begin with `prefix`."""

    def __init__(self, prefix: str, links: Links, sources: Sources) -> None:
        super().__init__(convert_charrefs=False)
        self._prefix, self._links, self._sources = prefix, links, sources
        self._found: list[str] = []
        self._within = self._gone = 0
        self._gone_tag = ""

    def of(self, page: str) -> str:
        self.feed(page)
        self.close()
        return "".join(self._found)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if self._gone:
            self._gone += tag == self._gone_tag
        elif tag in DROPPED or (any(name == "data-pdf" for name, _ in attrs) and tag not in VOID):
            self._gone, self._gone_tag = 1, tag
        elif tag == "main":
            self._within += 1
        elif self._within and tag not in DROPPED_VOID:
            self._found.append(self._tag(tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if self._within and not self._gone and tag not in DROPPED | DROPPED_VOID:
            self._found.append(self._tag(tag, dict(attrs)).removesuffix(">") + "/>")

    def handle_endtag(self, tag: str) -> None:
        if self._gone:
            self._gone -= tag == self._gone_tag
        elif tag == "main":
            self._within -= 1
        elif self._within and tag not in VOID | DROPPED | DROPPED_VOID:
            self._found.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._within and not self._gone:
            self._found.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def _tag(self, tag: str, attributes: dict[str, str | None]) -> str:
        if tag == "img":
            address = self._sources(attributes.get("src") or "")
            if address is None:
                return f'<span class="dim">[picture left out: {escape(attributes.get("alt") or "")}]</span>'
            attributes["src"] = address
        kept: dict[str, str | None] = {}
        for name, value in attributes.items():
            if name == "href":
                kept |= self._links(value or "")
            elif name == "id":
                kept[name] = f"{self._prefix}{value}"
            elif name in NAMING:
                kept[name] = " ".join(f"{self._prefix}{one}" for one in (value or "").split())
            elif not name.startswith(("on", "data-")) and name not in DROPPED_NAMES:
                kept[name] = value
        return f"<{tag}" + "".join(f" {name}" if value is None else f' {name}="{escape(value)}"'
                                   for name, value in kept.items()) + ">"


PLAIN = 30_000
"""Bytes up to which a picture stays as it is."""
WIDE, HIGH = 1000, 1600
"""Pixels of a larger one at most."""
LARGEST = 16 * 2**20
"""Bytes of a picture that is looked at."""


class Pictures:
    """Turns PNGs into data addresses while `room` bytes last; `left_out` counts those that it did not."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.left_out = 0

    def address(self, png: bytes) -> str | None:
        """A data address; None: there is no room, or it is no picture."""
        small = png if len(png) <= PLAIN else shrunk(png)
        if not png.startswith(b"\x89PNG\r\n\x1a\n") or small is None:
            self.left_out += 1
            return None
        return self.again(f"data:image/png;base64,{base64.b64encode(small).decode()}")

    def again(self, address: str | None) -> str | None:
        """The data address of a picture that stands in the file at one more place; None: there is no room."""
        if address is None or len(address) > self.room:
            self.left_out += 1
            return None
        self.room -= len(address)
        return address


def shrunk(png: bytes) -> bytes | None:
    """A PNG of a bounded size, with 256 colours; the picture itself where that is smaller; None: it is none."""
    from PIL import Image  # it takes long, and only an export of large pictures needs it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a bomb warns before it goes off
            with Image.open(io.BytesIO(png), formats=["PNG"]) as opened:
                picture = opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError):
        return None
    picture.thumbnail((WIDE, HIGH))
    found = io.BytesIO()
    picture.quantize(256, method=Image.Quantize.FASTOCTREE).save(found, "PNG")  # a quarter of the time of the others
    return min(found.getvalue(), png, key=len)


class Answer(NamedTuple):
    """What stands at an address."""

    status: int
    body: bytes


class Site:
    """The pages of one run. They only show: there is nothing to steer with."""

    def __init__(self, run: Path, runner: asyncio.Runner) -> None:
        self._app = make_app(run, read_only=True)
        self._runner = runner

    def get(self, address: str, *, most: int) -> Answer:
        """What stands at an address; of more than `most` bytes nothing but the status 413."""
        parts = urlsplit(address)
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": unquote(parts.path), "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
            "root_path": "", "headers": [(b"host", b"localhost")], "client": None, "server": ("localhost", 80)}
        status, body, requests = 500, bytearray(), [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not requests:  # whoever streams waits here for a browser that leaves: this one never does
                await asyncio.Event().wait()
            return requests.pop()

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            if len(body) <= most:
                body.extend(message.get("body", b""))

        self._runner.run(self._app(scope, receive, send))
        return Answer(status, bytes(body)) if len(body) <= most else Answer(413, b"")
