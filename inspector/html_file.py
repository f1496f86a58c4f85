"""Export a run as a single HTML file: the inspector's pages with embedded style and images, readable without a server.

The file has no scripts and loads nothing: its policy forbids both. Pages that a click would open (a node, a part of the
paper) are sections shown when a link targets them.

Limits: pages, images and PDFs each have a size limit (16 MB together); parts that exceed it are left out and counted at
the top of the file. Only the selected version of the paper is included. Files of the run other than the PDF are named
but not included (`--zip` has them).
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from fastapi import HTTPException
from starlette.responses import Response

from labwright.inspector.run_files import read_bytes
from labwright.inspector.web.app import Handlers
from labwright.inspector.web.node_table import TableQuery
from labwright.inspector.web.page_renderer import TABS, WEB_FOLDER, PageRenderer
from labwright.inspector.web.paper_pages import list_figures
from labwright.record.event_log import RecordError
from labwright.record.table import format_quantity

MAX_PAGES_BYTES = 9_000_000
"""Maximum bytes of all pages."""
MIN_ROOM_BYTES = 20_000
"""Remaining bytes below which no more pages are rendered, since few would fit."""
MAX_PICTURES_BYTES = 5_000_000
"""Maximum bytes of all embedded images."""
MAX_PDF_BYTES = 2_000_000
"""Maximum bytes of all embedded PDFs."""
SECTION_NAMES = ("reports", "tree", "checks", "cost", "events")
"""Views that follow the overview; the others open next to it."""
CONTENT_NAMES = {
    "paper": "later paper page",
    "chart": "chart",
    "table": "table",
    "cells": "cell",
    "nodes": "node",
    "figures": "paper figure",
    "trace": "trace",
    "calls": "model call",
}
"""Kinds of included pages, most important first."""
_ACTIVE_ELEMENTS = re.compile(r"<(form|button)\b.*?</\1>|<input\b[^>]*>", re.DOTALL)
_LINK_OR_ID = re.compile(r'\s(href|id)="([^"]*)"')
_IMAGE = re.compile(r'(<img\b[^>]*?\ssrc=")([^"]*)("[^>]*>)')
_ALT = re.compile(r'\salt="([^"]*)"')


class HtmlExport(NamedTuple):
    """The content of the file, and the parts that were left out."""

    html: str
    pages: int
    left_out: tuple[str, ...]


def export_page(run: Path, *, as_of: str, version: int) -> HtmlExport:
    """Export a run's page and the pages to which it links as one file. `as_of` is its date, `version` the version of
    the paper. Raises `RecordError`."""
    return _HtmlFile(run, version).build(as_of)


def rewrite_page(page: str, prefix: str, *, link: Callable[[str], str], picture: Callable[[str], str | None]) -> str:
    """Rewrite the content of `<main>` of a page, or a part of a page: ids get a `prefix`, forms and buttons are
    removed.

    `link` returns the attributes for an address, `picture` a data address (None: leave it out). Pages escape all
    untrusted text, so anything that looks like a tag or attribute comes from the inspector.
    """

    def named(found: re.Match[str]) -> str:
        value = unescape(found[2])
        return link(value) if found[1] == "href" else f' id="{escape(prefix + value)}"'

    def image(found: re.Match[str]) -> str:
        address, alt = picture(unescape(found[2])), _ALT.search(found[0])
        return (
            f"{found[1]}{address}{found[3]}"
            if address is not None
            else (f'<span class="dim">[image left out: {alt[1] if alt else ""}]</span>')
        )

    inner = page.partition("<main")[2].partition(">")[2].rpartition("</main>")[0] or page
    return _IMAGE.sub(image, _LINK_OR_ID.sub(named, _ACTIVE_ELEMENTS.sub("", inner)))


class _HtmlFile:
    """Collects pages, the most important first, while there is room, and combines them."""

    def __init__(self, run: Path, version: int) -> None:
        self._run, self._name, self._version = run, run.name, version
        self._handlers = Handlers(run, form_token="")
        self._base = f"/runs/{quote(run.name, safe='')}"
        self._pages: dict[str, str] = {}
        """Path below the run's address -> page, in output order."""
        self._pictures = PictureEmbedder(MAX_PICTURES_BYTES)
        self._data: dict[str, str | None] = {}
        self._pdf_room = MAX_PDF_BYTES

    def build(self, as_of: str) -> HtmlExport:
        try:
            page = _read_text(self._handlers.run(self._name))
            sections = {one: _read_text(self._handlers.run(self._name, one)) for one in SECTION_NAMES}
        except HTTPException as error:
            raise RecordError(f"the page of {self._name} cannot be exported: {error.detail}") from None
        missing = self._gather_pages(MAX_PAGES_BYTES - sum(len(one.encode()) for one in (page, *sections.values())))
        parts = [
            (name := self._to_id(place), place, self._rewrite(text, f"{name}-")) for place, text in self._pages.items()
        ]
        main = self._rewrite(page, "")
        left = tuple(
            format_quantity(number, kind)
            for kind, number in (
                *((called, missing[kind]) for kind, called in CONTENT_NAMES.items()),
                ("image", self._pictures.left_out),
            )
            if number
        )
        style = "".join((WEB_FOLDER / "static" / name).read_text() for name in ("inspector.css", "export.css"))
        title = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
        html = PageRenderer({}).render_page(
            "export",
            run=self._name,
            as_of=as_of,
            left_out=left,
            main=main,
            tabs=[
                (one, self._to_id(one) if one in self._pages else f"view-{one}")
                for one in TABS
                if one in sections or one in self._pages
            ],
            sections=[(place, self._rewrite(text, f"{place}-")) for place, text in sections.items()],
            parts=parts,
            style=style,
            digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            title=title[1] if title else escape(self._name),
        )
        return HtmlExport(html, len(parts) + 1, left)

    def _gather_pages(self, room: int) -> Counter[str]:
        """Keep pages while there is space; return how many of each kind were left out."""
        left = Counter[str]()
        for place, make in self._list_contents():
            try:
                page = _read_text(make()) if room > MIN_ROOM_BYTES else ""
            except HTTPException:
                continue
            if page and (size := len(page.encode())) <= room:
                room -= size
                self._pages[place] = page
            else:
                left[place.partition("/")[0].partition("?")[0]] += 1
        left["paper"] += max(0, len(set(re.findall(r"&amp;page=\d+", self._pages.get("paper", "")))) - 1)
        return left

    def _list_contents(self) -> Iterator[tuple[str, Callable[[], Response]]]:
        """Yield pages in the order of `CONTENT_NAMES`: path inside the run's address, and a function that renders the
        page.
        """
        name, handlers, papers = self._name, self._handlers, self._handlers.papers
        state = handlers.get_run(name).state
        if state.kind == "paper":
            yield "paper", partial(papers.paper, name)
            yield "chart", partial(handlers.views.chart, name, part=True)
        yield "table", partial(handlers.views.table, name, TableQuery(part=True))
        yield "cells", partial(handlers.views.cells, name, part=True)
        for node in state.nodes:
            yield f"nodes/{node}", partial(handlers.node, name, node, part=True)
        for figure in list_figures(state):
            yield f"figures/{figure.name}", partial(papers.figure, name, figure.name, part=True)
        for key in dict.fromkeys(re.findall(r'/trace\?key=([^&"]+)', self._pages.get("paper", ""))):
            yield f"trace?key={unquote(key)}", partial(papers.trace, name, key=unquote(key), part=True)
        yield "calls", partial(handlers.calls, name)
        for call in map(str, reversed(state.calls.answers)):
            yield f"calls/{call}", partial(handlers.call, name, call, part=True)

    def _rewrite(self, page: str, prefix: str) -> str:
        return rewrite_page(page, prefix, link=self._rewrite_link, picture=self._embed_picture)

    def _to_place(self, address: str) -> str:
        """Return the path of an address inside the run's address, without the included version; empty if it is not
        inside it.
        """
        parts = urlsplit(address)
        asked = parse_qs(parts.query)
        if (
            not parts.path.startswith(f"{self._base}/")
            or asked.keys() - {"key", "v"}
            or (asked.get("v", [str(self._version)]) != [str(self._version)])
        ):
            return ""
        place = unquote(parts.path.removeprefix(f"{self._base}/"))
        return place + "".join(f"?key={key}" for key in asked.get("key", ()))

    def _to_id(self, place: str) -> str:
        """Return the id that represents a path in the file."""
        name = "page-" + re.sub(r"[^A-Za-z0-9]+", "-", place).strip("-")
        return (
            name
            if re.fullmatch(r"[A-Za-z0-9/]+", place)
            else (f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}")
        )

    def _rewrite_link(self, link: str) -> str:
        target, _, anchor = link.partition("#")
        place = self._to_place(target)
        if target in ("", self._base) or place in SECTION_NAMES:  # a node's id as anchor opens the node
            node, view = f"nodes/{anchor}", f"view-{place}" if place else "main"
            return f' href="#{self._to_id(node) if node in self._pages else escape(anchor) or view}"'
        if place in self._pages:
            return f' href="#{self._to_id(place)}"'
        if not (place.startswith("files/") and place.endswith(".pdf")):
            return ""
        if place not in self._data:
            body = read_bytes(self._run, place.removeprefix("files/"), MAX_PDF_BYTES) or b""
            self._data[place] = (
                f"data:application/pdf;base64,{base64.b64encode(body).decode()}" if body.startswith(b"%PDF-") else None
            )
        data = self._data[place]
        if data is None or len(data) > self._pdf_room:
            return ""
        self._pdf_room -= len(data)
        return f' href="{data}" download="{escape(self._name)}-{escape(Path(place).name)}"'

    def _embed_picture(self, address: str) -> str | None:
        """Return the data address of an image. Every use embeds the image again and takes up space."""
        place = self._to_place(address)
        if place in self._data:
            return self._pictures.embed_again(self._data[place])
        kind, _, path = place.partition("/")
        png = read_bytes(self._run, path, MAX_PICTURE_BYTES) if kind == "files" else None
        if kind == "sheets":
            try:
                version, number = map(int, path.removesuffix(".png").split("/"))
                png = bytes(self._handlers.papers.picture(self._name, version, number).body)
            except HTTPException:
                png = None
        self._data[place] = self._pictures.embed(png) if png is not None else None
        return self._data[place]


def _read_text(answer: Response) -> str:
    return bytes(answer.body).decode()


# --- embedded images
# ---------------------------------------------------------------------------------------------------


MAX_UNSHRUNK_BYTES = 30_000
"""Images up to this many bytes are not shrunk."""
MAX_WIDTH_PIXELS, MAX_HEIGHT_PIXELS = 1000, 1600
"""Maximum size of a shrunk image in pixels."""
MAX_PICTURE_BYTES = 16 * 2**20
"""Maximum bytes of an image that is read."""


class PictureEmbedder:
    """Converts PNGs to data addresses while `room` bytes remain; `left_out` counts those that did not fit."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.left_out = 0

    def embed(self, png: bytes) -> str | None:
        """Return a data address, or None if there is no space or it is not an image."""
        small = png if len(png) <= MAX_UNSHRUNK_BYTES else shrink_png(png)
        if not png.startswith(b"\x89PNG\r\n\x1a\n") or small is None:
            self.left_out += 1
            return None
        return self.embed_again(f"data:image/png;base64,{base64.b64encode(small).decode()}")

    def embed_again(self, address: str | None) -> str | None:
        """Return the data address of an image for another use, or None if there is no space."""
        if address is None or len(address) > self.room:
            self.left_out += 1
            return None
        self.room -= len(address)
        return address


def shrink_png(png: bytes) -> bytes | None:
    """Return a PNG of limited size with 256 colours, or the original if smaller; None if it is not an image."""
    from PIL import Image  # slow import, only needed for large images

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # decompression bombs first raise a warning
            with Image.open(io.BytesIO(png), formats=["PNG"]) as opened:
                picture = opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError):
        return None
    picture.thumbnail((MAX_WIDTH_PIXELS, MAX_HEIGHT_PIXELS))
    found = io.BytesIO()
    picture.quantize(256, method=Image.Quantize.FASTOCTREE).save(
        found, "PNG"
    )  # four times faster than the other methods
    return min(found.getvalue(), png, key=len)
