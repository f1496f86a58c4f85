"""Whether two titles are the same."""

from __future__ import annotations

import re
from html import unescape

from literature.tex import folded, plain

_BREAK = re.compile(r"\s*[:?!\u2013\u2014]\s+|\s+-\s+")
_MARK = re.compile(
    r"^\W*(?:retracted|retraction|withdrawn|removed)(?:\s+(?:article|paper|chapter))?\s*[:\u2013\u2014-]\s*",
    re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][\w:]{0,20}(?:\s[^<>]{0,100})?/?>")
SHORTEST = 3
"""Words of a main title that may stand for the whole: 'Deep Learning' may not."""


def pressed(title: str) -> str:
    """A title as it is compared: letters and digits alone, so that hyphens and spaces make no difference."""
    return folded(title).replace(" ", "")


def same_title(written: str, known: str, subtitle: str = "") -> bool:
    """Whether a title as somebody wrote it is that of a known work.

    A subtitle may be left out where three words are left; a subtitle that the known work has not is another title.
    """
    if not (wanted := pressed(written)):
        return False
    whole = f"{known}: {subtitle}" if subtitle else known
    if wanted in (pressed(whole), pressed(known)):
        return True
    main = _BREAK.split(plain(known), maxsplit=1)[0]
    return len(folded(main).split()) >= SHORTEST and wanted == pressed(main)


def unmarked(title: str) -> tuple[str, bool]:
    """A catalogue's title without tags and without a publisher's 'RETRACTED:', and whether that stood there."""
    title = " ".join(unescape(_TAG.sub("", title)).split())
    found = _MARK.match(title)
    return (title[found.end():], True) if found else (title, False)
