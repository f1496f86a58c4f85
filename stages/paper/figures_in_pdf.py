"""Where the figures of a compiled paper stand, what they look like there, and what the text says of them.

`scientist-paper.sty` writes each figure's corners into TeX's log when its page is shipped; poppler cuts them out. What
it does not guarantee: a place for a figure that a style sets in a way of its own, without `\\figurefloat`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from models.roles import Mention
from record.nouns.drafts import Draft
from review.evidence import Evidence, tex
from review.evidence.values import printable, spoken

DPI = 160
"""Of the pictures that a reviewer sees: text of 7 points is 16 pixels high."""
MARGIN = 0.06
"""Inches around a figure that are cut out with it, so that what sticks out is seen."""
_SP_AN_INCH = 65536 * 72.27

_CORNER = re.compile(r"^paper: figure (\S+) (from|to) (\d+) (-?\d+) (-?\d+) of (\d+)$", re.MULTILINE)
_VALUE = re.compile(r"\\(result|setup)\{([^{}]*)\}")
_PLACED = re.compile(r"\\paper(?:figure|table)\{[^{}]*\}")


@dataclass(frozen=True)
class Place:
    """A figure on its page. `page` counts from 1; inches from the page's upper left corner."""

    page: int
    left: float
    top: float
    width: float
    height: float


def places(log: str) -> dict[str, Place]:
    """Figure -> where it stands, from TeX's log; a figure whose two corners are not on one page is left out."""
    corners: dict[str, dict[str, tuple[int, float, float]]] = {}
    for name, which, page, x, y, height in _CORNER.findall(log):
        corners.setdefault(name, {})[which] = (int(page), int(x) / _SP_AN_INCH, (int(height) - int(y)) / _SP_AN_INCH)
    found: dict[str, Place] = {}
    for name, both in corners.items():
        if both.keys() == {"from", "to"} and both["from"][0] == both["to"][0]:
            (page, left, bottom), (_, right, top) = both["from"], both["to"]
            found[name] = Place(page, left, top, right - left, bottom - top)
    return found


async def cut(pdf: Path, wanted: Mapping[str, Place], *, dpi: int = DPI, timeout: float = 60.0) -> dict[str, bytes]:
    """Figure -> its picture as PNG, as it is printed. `timeout` is seconds for each; one that fails is left out.

    Raises `review.evidence.tex.TexMissing`.
    """
    pictures: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="cut-", ignore_cleanup_errors=True) as name:
        desk = Path(name)
        shutil.copyfile(pdf, desk / "paper.pdf")
        for figure, place in wanted.items():
            ran = await tex.run([*_command(place, dpi), "paper.pdf", "cut"], desk, timeout=timeout)
            if ran.code == 0 and (desk / "cut.png").is_file():
                pictures[figure] = (desk / "cut.png").read_bytes()
                (desk / "cut.png").unlink()
    return pictures


def _command(place: Place, dpi: int) -> list[str]:
    box = {"-x": place.left - MARGIN, "-y": place.top - MARGIN, "-W": place.width + 2 * MARGIN,
           "-H": place.height + 2 * MARGIN}
    return ["pdftoppm", "-q", "-png", "-singlefile", "-r", str(dpi), "-f", str(place.page), "-l", str(place.page),
            *(text for option, inches in box.items() for text in (option, str(max(0, round(inches * dpi)))))]


def mentions(draft: Draft, evidence: Evidence) -> dict[str, tuple[Mention, ...]]:
    """Figure -> the paragraphs of text and captions that refer to it, their values printed."""
    parts = [("abstract", draft.abstract), *((one.title, one.body) for one in draft.sections),
             *((f"caption of {name}", text) for name, text in draft.captions.items())]
    found: dict[str, list[Mention]] = {}
    for where, text in parts:
        for paragraph in re.split(r"\n\s*\n", text):
            for name in dict.fromkeys(_referred(paragraph)):
                found.setdefault(name, []).append(Mention(where=where, text=plain(paragraph, evidence)))
    return {name: tuple(texts) for name, texts in found.items()}


def _referred(text: str) -> Iterable[str]:
    return re.findall(r"\\ref\{fig:([^{}]*)\}", text)


def plain(text: str, evidence: Evidence) -> str:
    """Text of a draft as a reader sees it: values printed, figures by name in brackets; other TeX as it stands."""
    def value(match: re.Match[str]) -> str:
        source = evidence.results if match[1] == "result" else evidence.setups
        return spoken(printable(source[match[2]])) if match[2] in source else f"[no value {match[2]}]"

    text = _VALUE.sub(value, _PLACED.sub("", text))
    return " ".join(re.sub(r"\\ref\{fig:([^{}]*)\}", r"[\1]", text).replace("~", " ").split())
