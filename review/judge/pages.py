"""Pages of a PDF as pictures for a model that looks at them. Pages with a removed passage are withheld: a picture would
bring it back.

What it does not guarantee: an order that is drawn in a picture, and is no text, reaches the model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.backend import Image
from models.exhibits import Pages
from review.evidence import tex

MOST_PAGES, LONGER_SIDE, MOST_BYTES = 8, 1100, 6_000_000
"""How many pages, pixels of a page's longer side, and bytes of all pictures together."""


@dataclass(frozen=True)
class Pictures:
    """Pictures of pages, and which pages they are."""

    pages: Pages
    images: tuple[Image, ...] = ()


async def pictures(pdf: Path, total: int, *, withheld: Sequence[int] = (), most: int = MOST_PAGES,
                   timeout: float = 120.0) -> Pictures:
    """The first pages of a PDF that are not withheld. None are shown where poppler cannot draw. Raises `TexMissing`."""
    wanted = [page for page in range(1, total + 1) if page not in withheld][:most]
    images: dict[int, Image] = {}
    with tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True) as name:
        copy = Path(name) / "paper.pdf"
        copy.write_bytes(pdf.read_bytes())
        for page in wanted:
            await tex.run(["pdftoppm", "-q", "-png", "-cropbox", "-singlefile", "-f", str(page), "-l", str(page),
                           "-scale-to", str(LONGER_SIDE), copy.name, f"page-{page}"], copy.parent, timeout=timeout)
            drawn = copy.with_name(f"page-{page}.png")
            if not drawn.exists() or sum(len(one.data) for one in images.values()) + drawn.stat().st_size > MOST_BYTES:
                break
            images[page] = Image(drawn.read_bytes())
    return Pictures(Pages(shown=tuple(images), total=total, withheld=tuple(withheld)), tuple(images.values()))
