"""A run as one HTML file: the inspector's own pages, with style and pictures in them, that opens without a server.

Nothing in the file acts and nothing is loaded from anywhere: its policy forbids scripts and addresses. What a click on
the page opens (a node, a part of the paper) is a section that shows when a link leads to it.

What it does not guarantee: that everything fits. Pages, pictures and PDFs have each a sum of bytes (16 MB together),
and kinds of pages a number (`KINDS`); what is over it is left out and counted at the top of the file. Of the paper the
newest writing is contained. Files of the run are named, not contained (`--zip` has them); the PDF is.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit

from inspector.export.html_parts import LARGEST, PageRewriter, Pictures, Site
from inspector.web.pages import HERE
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
LOOK = """
.leaf { display: none; } .leaf:target, .leaf:has(:target) { display: block; }
.leaf { position: fixed; z-index: 5; inset: 0 0 0 auto; width: min(46rem, 50vw); overflow: auto;
  padding: 0 1.1rem 2rem; background: var(--paper); border-left: 1px solid var(--line); }
.leaf > .shut { position: sticky; top: 0; display: block; padding: .6rem 0; background: var(--paper); z-index: 2; }
body:has(.leaf:target) #main, body:has(.leaf :target) #main { margin-right: min(46rem, 50vw); width: auto; }
.jump { top: 0; } .panelhead .close, .steering { display: none; }
@media (max-width: 60rem) { .leaf { width: 100%; border: 0; }
  body:has(.leaf:target) #main, body:has(.leaf :target) #main { margin-right: auto; } }
@media print { .leaf { display: block; position: static; width: auto; } }
"""


class Made(NamedTuple):
    """A file, and what is not in it."""

    html: str
    pages: int
    left_out: tuple[str, ...]


def page_of(run: Path, *, as_of: str, version: int) -> Made:
    """A run's page and what it leads to, in one file. `as_of` says of when it is, `version` which writing of the paper
    is contained. Raises `RecordError`."""
    with Site(run) as site:
        return _File(site, run.name, version).made(as_of)


class _File:
    """Gathers pages, those first that matter most, until there is no room; then puts them together."""

    def __init__(self, site: Site, run: str, version: int) -> None:
        self._site, self._run, self._version = site, run, version
        self._base = f"/runs/{quote(run, safe='')}"
        self._pages: dict[str, str] = {}
        """Address -> page, in the order in which they were found."""
        self._known: dict[bytes, str] = {}
        self._kinds: Counter[str] = Counter()
        self._room = PAGES
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
        self._gather(first.body.decode())
        parts = [self._part(address, page) for address, page in self._pages.items()]
        main = PageRewriter("", lambda link: self._link(self._base, link), self._picture).of(first.body.decode())
        left = tuple(f"{number} {kind}" for kind, number in (
            *((CALLED[kind], number) for kind, number in self._left.items()), ("pictures", self._pictures.left_out))
            if number)
        return Made(self._whole(first.body.decode(), main, parts, as_of, left), len(parts) + 1, left)

    # --- which pages ------------------------------------------------------------------------------------------------

    def _gather(self, first: str) -> None:
        """Follow the links of the first page, and those of the pages that they lead to."""
        self._room = PAGES - len(first.encode())
        wave, seen = self._linked(self._base, first), set[str]()
        for _ in range(WAVES):
            following: list[str] = []
            for address in sorted(dict.fromkeys(wave), key=lambda one: list(KINDS).index(self._kind(one))):
                if address not in seen:
                    seen.add(address)
                    following += self._kept(address)
            wave = following

    def _kept(self, address: str) -> list[str]:
        """Keep a page, if there is room for it; returns what it leads to."""
        kind = self._kind(address)
        page = self._site.get(address, most=PAGES) if self._open_for(kind) else None
        if page is not None and page.status not in (200, 413):
            return []
        if page is not None and page.body and (known := self._known.get(page.body)) is not None:
            self._same[address] = known
            return []
        shown = page.body.partition(b"<main")[2] if page is not None else b""
        if page is None or page.status == 413 or len(shown) > self._room or self._kinds[kind] >= KINDS[kind]:
            self._left[kind] += 1
            return []
        self._kinds[kind] += 1
        self._room -= len(shown)
        self._known[page.body] = address
        self._pages[address] = text = page.body.decode()
        return self._linked(address, text)

    def _open_for(self, kind: str) -> bool:
        """Whether pages of a kind are asked for: of the paper always, since some of its addresses show the same."""
        return self._room > TIGHT and (kind == "paper" or self._kinds[kind] < KINDS[kind])

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

    # --- what becomes of them ---------------------------------------------------------------------------------------

    def _part(self, address: str, page: str) -> str:
        name = self._id(address)
        text = PageRewriter(f"{name}-", lambda link: self._link(address, link), self._picture).of(page)
        return (f'<section class="leaf" id="{name}" aria-label="{escape(unquote(name))}">'
                f'<a class="shut" href="#main">✕ close</a>{text}</section>')

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
        if target.startswith(f"{self._base}/files/") and target.endswith(".pdf"):
            return self._pdf(target)
        return {}

    def _pdf(self, address: str) -> dict[str, str]:
        if address not in self._data:
            found = self._site.get(address, most=PDF)
            fits, text = found.body.startswith(b"%PDF-"), base64.b64encode(found.body).decode()
            self._data[address] = f"data:application/pdf;base64,{text}" if fits else None
        data = self._data[address]
        if data is None or len(data) > self._pdf_room:
            return {}
        self._pdf_room -= len(data)
        return {"href": data, "download": f"{self._run}-{Path(unquote(address)).name}"}

    def _picture(self, address: str) -> str | None:
        """The data address of a picture. Each place that shows it holds it anew, and takes room."""
        if address not in self._data:
            inside = address.startswith(f"{self._base}/")
            found = self._site.get(address, most=LARGEST) if inside else None
            self._data[address] = self._pictures.address(found.body) if found and found.status == 200 else None
            return self._data[address]
        return self._pictures.again(self._data[address])

    def _whole(self, first: str, main: str, parts: list[str], as_of: str, left: tuple[str, ...]) -> str:
        style = (HERE / "static" / "inspector.css").read_text() + LOOK
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        title = re.search(r"<title>(.*?)</title>", first, re.DOTALL)
        policy = (f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; "
                  "form-action 'none'")
        missing = f' <span class="dim">Left out for its size: {escape(", ".join(left))}.</span>' if left else ""
        return (f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
                '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
                f'<title>{title[1] if title else escape(self._run)}</title>\n<style>{style}</style>\n</head>\n<body>\n'
                f'<main id="main" class="page">\n<p class="small dim">{escape(self._run)}, as of {escape(as_of)}: '
                f'a copy in one file.{missing}</p>\n{main}</main>\n' + "\n".join(parts) + "\n</body>\n</html>\n")
