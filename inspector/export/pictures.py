"""Pictures as data addresses, made small, while there is room."""

from __future__ import annotations

import base64
import io
import warnings

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
