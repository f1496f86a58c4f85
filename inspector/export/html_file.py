"""A run as one HTML file: the inspector's own pages, with style and pictures in them, that opens without a server.

Nothing in the file acts and nothing is loaded from anywhere: its policy forbids scripts and addresses. What a click on
the page opens (a node, a part of the paper) is a section that shows when a link leads to it.

What it does not guarantee: that everything fits. Pages, pictures and PDFs have each a sum of bytes (16 MB together),
and kinds of pages a number (`KINDS`); what is over it is left out and counted at the top of the file. Of the paper the
newest writing is contained. Files of the run are named, not contained (`--zip` has them); the PDF is.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections import Counter
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit

from inspector.export.html_parts import LARGEST, Answer, PageRewriter, Pictures, Site
from inspector.web.pages import HERE, Pages
from record.reading import RecordError

HREF = re.compile(r'\shref="([^"]*)"')

PAGES = 9_000_000
"""Bytes of all pages."""
TIGHT = 20_000
"""Bytes of room for pages from which on no more of them are made: few would fit."""
PICTURES = 5_000_000
"""Bytes of all pictures, as they stand in the file."""
PDF = 2_000_000
"""Bytes of all PDFs, as they stand in the file."""
WAVES = 6
"""Links in a row that are followed."""
KINDS = {"paper": 2, "nodes": 2000, "figures": 60, "trace": 5000, "calls": 400}
"""The kinds of pages that are contained, those that matter most first, and how many of each at most."""
CALLED = {"paper": "parts of the paper after its first pages (the PDF has them)", "nodes": "nodes",
          "figures": "figures of the paper", "trace": "numbers' origins", "calls": "model calls"}


class Made(NamedTuple):
    """A file, and what is not in it."""

    html: str
    pages: int
    left_out: tuple[str, ...]


def page_of(run: Path, *, as_of: str, version: int) -> Made:
    """A run's page and what it leads to, in one file. `as_of` says of when it is, `version` which writing of the paper
    is contained. Raises `RecordError`."""
    with asyncio.Runner() as runner:
        return _File(Site(run, runner), run.name, version).made(as_of)


class _File:
    """Gathers pages, those first that matter most, until there is no room; then puts them together."""

    def __init__(self, site: Site, run: str, version: int) -> None:
        self._site, self._run, self._version = site, run, version
        self._base = f"/runs/{quote(run, safe='')}"
        self._pages: dict[str, str] = {}
        """Address -> page, in the order in which they were found."""
        self._same: dict[str, str] = {}
        """Address -> another that shows the same page, which is contained."""
        self._left: Counter[str] = Counter()
        self._pictures = Pictures(PICTURES)
        self._data: dict[str, str | None] = {}
        self._pdf_room = PDF

    def made(self, as_of: str) -> Made:
        first = self._site.get(self._base, most=PAGES)
        if first.status != 200:
            raise RecordError(f"the page of {self._run} cannot be made (status {first.status})")
        page = first.body.decode()
        self._gather(page)
        parts = [(name := self._id(address), unquote(name), self._rewritten(address, text, f"{name}-"))
                 for address, text in self._pages.items()]
        main = self._rewritten(self._base, page, "")
        left = tuple(f"{number} {kind}" for kind, number in (
            *((CALLED[kind], number) for kind, number in self._left.items()), ("pictures", self._pictures.left_out))
            if number)
        style = "".join((HERE / "static" / name).read_text() for name in ("inspector.css", "export.css"))
        title = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
        html = Pages({}).page(
            "export", run=self._run, as_of=as_of, left_out=left, main=main, parts=parts, style=style,
            digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            title=title[1] if title else escape(self._run))
        return Made(html, len(parts) + 1, left)

    def _gather(self, first: str) -> None:
        """Keep the pages that the links of the first page lead to, and those that they lead to, while there is room."""
        room, kinds, known = PAGES - len(first.encode()), Counter[str](), dict[bytes, str]()
        wave, seen = self._linked(self._base, first), set[str]()
        for _ in range(WAVES):
            addresses = sorted(dict.fromkeys(wave), key=lambda one: list(KINDS).index(self._kind(one)))
            wave = list[str]()
            for address in addresses:
                if address in seen:
                    continue
                seen.add(address)
                kind = self._kind(address)
                full = kinds[kind] >= KINDS[kind]
                # the paper is always asked for, since some of its addresses show the same
                asked = room > TIGHT and (kind == "paper" or not full)
                page = self._site.get(address, most=PAGES) if asked else Answer(413, b"")
                size = len(page.body.partition(b"<main")[2])
                if page.status not in (200, 413):
                    continue
                if page.body in known:
                    self._same[address] = known[page.body]
                elif page.status == 413 or size > room or full:
                    self._left[kind] += 1
                else:
                    kinds[kind] += 1
                    room -= size
                    known[page.body] = address
                    self._pages[address] = page.body.decode()
                    wave += self._linked(address, self._pages[address])

    def _linked(self, address: str, page: str) -> list[str]:
        found = (urljoin(address, unescape(link)).partition("#")[0] for link in HREF.findall(page))
        return [one for one in found if self._kind(one)]

    def _kind(self, address: str) -> str:
        """The kind of a page that the file may contain; empty for all other addresses."""
        if not address.startswith(f"{self._base}/"):
            return ""
        parts = urlsplit(address)
        kind, asked = parts.path.removeprefix(f"{self._base}/").split("/"), parse_qs(parts.query)
        if "notebook" in kind or "number" in asked or asked.get("v", [str(self._version)]) != [str(self._version)]:
            return ""
        return kind[0] if kind[0] in KINDS else ""

    def _rewritten(self, address: str, page: str, prefix: str) -> str:
        return PageRewriter(prefix, lambda link: self._link(address, link), self._picture).of(page)

    def _id(self, address: str) -> str:
        """What stands for an address within the file."""
        inner = address.removeprefix(f"{self._base}/")
        name = "page-" + re.sub(r"[^A-Za-z0-9]+", "-", unquote(urlsplit(inner).path)).strip("-")
        same = re.fullmatch(r"[A-Za-z0-9/]+", inner) is not None
        return name if same else f"{name}-{hashlib.sha256(inner.encode()).hexdigest()[:8]}"

    def _link(self, address: str, link: str) -> dict[str, str]:
        target, _, place = urljoin(address, link).partition("#")
        target = self._same.get(target, target)
        if target == self._base:  # there the name of a node alone opens it, with the script
            node = f"{self._base}/nodes/{place}"
            return {"href": f"#{self._id(node) if node in self._pages else place or 'main'}"}
        if target in self._pages:
            name = self._id(target)
            return {"href": f"#{name}-{place}" if place else f"#{name}"}
        if not (target.startswith(f"{self._base}/files/") and target.endswith(".pdf")):
            return {}
        if target not in self._data:
            body = self._site.get(target, most=PDF).body
            self._data[target] = f"data:application/pdf;base64,{base64.b64encode(body).decode()}" if body.startswith(
                b"%PDF-") else None
        data = self._data[target]
        if data is None or len(data) > self._pdf_room:
            return {}
        self._pdf_room -= len(data)
        return {"href": data, "download": f"{self._run}-{Path(unquote(target)).name}"}

    def _picture(self, address: str) -> str | None:
        """The data address of a picture. Each place that shows it holds it anew, and takes room."""
        if address in self._data:
            return self._pictures.again(self._data[address])
        inside = address.startswith(f"{self._base}/")
        found = self._site.get(address, most=LARGEST) if inside else Answer(404, b"")
        self._data[address] = self._pictures.address(found.body) if found.status == 200 else None
        return self._data[address]
