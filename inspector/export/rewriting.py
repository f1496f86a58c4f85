"""One page of the inspector as a part of a file: links lead within the file, pictures stand in it, nothing acts.

The pages escape all text of others, so what the parser sees as a tag is the inspector's own. Dropped is what would act
or lead out of the file: scripts, forms, frames, addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from html.parser import HTMLParser

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


class Part(HTMLParser):
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
