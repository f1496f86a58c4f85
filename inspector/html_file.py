"""Export a run as a single HTML file: the inspector's pages with embedded style and images, readable without a server.

The file has no scripts and loads nothing: its policy forbids both. Pages that a click would open (a node, a part of the
paper) are sections shown when a link targets them.

Limits: the file has at most `MAX_BYTES`; pages, images and PDFs that no longer fit are left out and counted at the top.
Only the latest version of the paper is included, with its first pages. Model calls and other files of the run are not
included (`--zip` has them).
"""

from __future__ import annotations

import base64
import hashlib
import re
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
from labwright.inspector.web.page_renderer import TABS, WEB_FOLDER
from labwright.inspector.web.paper_pages import list_figures

MAX_BYTES = 16_000_000
"""Maximum bytes of all pages, images and PDFs."""
SECTION_NAMES = ("reports", "tree", "checks", "cost", "events")
"""Views that follow the overview; the others open next to it."""
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
    the paper. Raises `UsageError`."""
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
        if address is None:
            return f'<span class="dim">[image left out: {alt[1] if alt else ""}]</span>'
        return f"{found[1]}{address}{found[3]}"

    inner = page.partition("<main")[2].partition(">")[2].rpartition("</main>")[0] or page
    return _IMAGE.sub(image, _LINK_OR_ID.sub(named, _ACTIVE_ELEMENTS.sub("", inner)))


class _HtmlFile:
    """Collects pages, the most important first, while there is room, and combines them."""

    def __init__(self, run: Path, version: int) -> None:
        self._run, self._version = run, version
        self._handlers = Handlers(run, form_token="")
        [self._name] = self._handlers.runs.find_folders()
        self._base = f"/runs/{quote(self._name, safe='')}"
        self._pages: dict[str, str] = {}
        """Path below the run's address -> page, in output order."""
        self._room, self._left_out = MAX_BYTES, Counter[str]()

    def build(self, as_of: str) -> HtmlExport:
        page = _read_text(self._handlers.run(self._name))
        sections = {one: _read_text(self._handlers.run(self._name, one)) for one in SECTION_NAMES}
        self._room -= sum(len(one.encode()) for one in (page, *sections.values()))
        for place, make in self._list_contents():
            text = _read_text(make())
            if self._take_room(len(text.encode()), place.partition("/")[0].partition("?")[0]):
                self._pages[place] = text
        main = self._rewrite(page, "")
        shown = [(place, self._rewrite(text, f"{place}-")) for place, text in sections.items()]
        ids = {place: self._to_id(place) for place in self._pages}
        parts = [(ids[place], place, self._rewrite(text, f"{ids[place]}-")) for place, text in self._pages.items()]
        places = {one: f"view-{one}" for one in sections} | ids
        left = tuple(f"{kind} ({number})" for kind, number in self._left_out.items())
        style = "".join((WEB_FOLDER / "static" / name).read_text() for name in ("inspector.css", "export.css"))
        title = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
        html = self._handlers.pages.render_page(
            "export",
            run=self._name,
            as_of=as_of,
            left_out=left,
            main=main,
            tabs=[(one, places[one]) for one in TABS if one in places],
            sections=shown,
            parts=parts,
            style=style,
            digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            title=title[1] if title else escape(self._name),
        )
        return HtmlExport(html, len(parts) + 1, left)

    def _take_room(self, size: int, kind: str) -> bool:
        """Return whether a part fits, and count it."""
        fits = size <= self._room
        self._room -= size * fits
        self._left_out += Counter([kind] * (not fits))
        return fits

    def _list_contents(self) -> Iterator[tuple[str, Callable[[], Response]]]:
        """Yield pages, the most important first: path inside the run's address, and a function that renders the
        page."""
        name, handlers, papers = self._name, self._handlers, self._handlers.papers
        state = handlers.get_run(name).state
        if state.kind == "paper":
            yield "paper", partial(papers.paper, name)
            yield "chart", partial(handlers.chart, name, part=True)
        for node in state.nodes:
            yield f"nodes/{node}", partial(handlers.node, name, node, part=True)
        for figure in list_figures(state):
            yield f"figures/{figure.name}", partial(papers.figure, name, figure.name, part=True)
        for key in dict.fromkeys(re.findall(r'/trace\?key=([^&"]+)', self._pages.get("paper", ""))):
            yield f"trace?key={unquote(key)}", partial(papers.trace, name, key=unquote(key), part=True)

    def _rewrite(self, page: str, prefix: str) -> str:
        return rewrite_page(page, prefix, link=self._rewrite_link, picture=self._embed_picture)

    def _to_place(self, address: str) -> str:
        """Return the path of an address inside the run's address, without the included version; empty if it is not
        inside it.
        """
        parts, version = urlsplit(address), [str(self._version)]
        asked = parse_qs(parts.query)
        is_own = parts.path.startswith(f"{self._base}/") and asked.get("v", version) == version
        if not is_own or asked.keys() - {"key", "v"}:
            return ""
        place = unquote(parts.path.removeprefix(f"{self._base}/"))
        return place + "".join(f"?key={key}" for key in asked.get("key", ()))

    def _to_id(self, place: str) -> str:
        """Return the id that represents a path in the file."""
        name = "page-" + re.sub(r"[^A-Za-z0-9]+", "-", place).strip("-")
        is_plain = re.fullmatch(r"[A-Za-z0-9/]+", place)
        return name if is_plain else f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"

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
        pdf = self._embed(read_bytes(self._run, place.removeprefix("files/"), MAX_BYTES), b"%PDF-", "application/pdf")
        return "" if pdf is None else f' href="{pdf}" download="{escape(self._name)}-{escape(Path(place).name)}"'

    def _embed_picture(self, address: str) -> str | None:
        """Return the data address of an image. Every use embeds the image again and takes up space."""
        kind, _, path = self._to_place(address).partition("/")
        png = read_bytes(self._run, path, MAX_BYTES) if kind == "files" else None
        if kind == "sheets":
            version, number = map(int, path.removesuffix(".png").split("/"))
            try:
                png = bytes(self._handlers.papers.picture(self._name, version, number).body)
            except HTTPException:
                png = None
        return self._embed(png, b"\x89PNG\r\n\x1a\n", "image/png")

    def _embed(self, data: bytes | None, start: bytes, kind: str) -> str | None:
        """Return the data address of a file of a kind; None if it is not one, or there is no room for it."""
        if data is None or not data.startswith(start):
            return None
        address = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        return address if self._take_room(len(address), "images and PDFs") else None


def _read_text(answer: Response) -> str:
    return bytes(answer.body).decode()
