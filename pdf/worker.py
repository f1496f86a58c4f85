"""Read one untrusted PDF from standard input, in a process of its own with limits on memory, time and files.

`python worker.py REQUEST`, where REQUEST is JSON that `reader` writes. Words are printed as JSON, a
picture as PNG. Exit status 1: PDFium cannot read the file.
"""

from __future__ import annotations

import ctypes
import io
import json
import math
import resource
import sys
import unicodedata
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEMORY_LIMIT_BYTES = 3 * 2**30
MAX_PIXELS = 40_000_000
"""Maximum number of pixels of a rendered page; a larger page is rendered at a lower resolution."""
MAX_PAGE_CHARACTERS = 200_000
"""Maximum number of characters that are read of a page."""
SPLIT_GAP_EMS = 0.3
"""Horizontal gap in ems that separates two words without a space between them."""
MIN_GAP_EMS = 0.1
"""Minimum gap in ems of a space that PDFium guesses."""
SHIFT_EMS = 0.12
"""Minimum shift of the baseline in ems of a superscript or subscript, which is also smaller."""

pdfium: Any = import_module("pypdfium2")
raw: Any = import_module("pypdfium2.raw")


def main() -> None:
    """Answer one request."""
    request = json.loads(sys.argv[1])
    _set_limits(int(request["seconds"]))
    data = sys.stdin.buffer.read()
    try:
        document = pdfium.PdfDocument(data)
        pages = range(min(len(document), request["max_pages"]))
        if request["what"] == "words":
            found = [_read_page(document[at], ink=at < request["ink_pages"]) for at in pages]
            answer = json.dumps({"pages": found, "total": len(document)}).encode()
        else:
            answer = _render(document[request["page"] - 1], request)
    except (pdfium.PdfiumError, IndexError):
        sys.exit(1)
    sys.stdout.buffer.write(answer)


def _set_limits(seconds: int) -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_LIMIT_BYTES),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),  # writes no file
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))


# --- pictures -------------------------------------------------------------------------------------------------------


def _render(page: Any, request: dict[str, Any]) -> bytes:
    """Return a page as PNG, `request["crop"]` in points from the upper left corner, or all of it."""
    width, height = page.get_width(), page.get_height()
    side = width if request["side"] == "width" else max(width, height)
    picture = page.render(scale=_bound_scale(page, request["scale"] or request["pixels"] / side))
    image = picture.to_pil().convert("RGB")
    if request["crop"]:
        across, down = image.width / width, image.height / height
        left, top, right, bottom = request["crop"]
        box = round(left * across), round(top * down), round(right * across), round(bottom * down)
        image = image.crop((max(0, box[0]), max(0, box[1]), min(image.width, box[2]), min(image.height, box[3])))
    output = io.BytesIO()
    image.save(output, "PNG")
    return output.getvalue()


def _bound_scale(page: Any, scale: float) -> float:
    return min(scale, math.sqrt(MAX_PIXELS / (page.get_width() * page.get_height())))


# --- words ----------------------------------------------------------------------------------------------------------


class _WordParts:
    """The characters of a word that is being read."""

    def __init__(self) -> None:
        self.text = ""
        self.boxes: list[tuple[float, float, float, float]] = []
        self.baselines: list[float] = []
        self.fonts: list[str] = []
        self.sizes: list[float] = []
        self.angle = 0

    def as_list(self) -> list[Any]:
        left, bottom, right, top = (
            choose(values) for choose, values in zip((min, min, max, max), zip(*self.boxes, strict=True), strict=True)
        )
        font = max(set(self.fonts), key=self.fonts.count)
        size = max(size for size, one in zip(self.sizes, self.fonts, strict=True) if one == font)
        middle = sorted(self.baselines)[len(self.baselines) // 2]
        return [self.text, left, bottom, right, top, middle, font, round(size, 2), self.angle]


def _read_page(page: Any, *, ink: bool) -> dict[str, Any]:
    width, height, degrees = page.get_width(), page.get_height(), page.get_rotation()
    first_x, first_y, last_x, last_y = page.get_cropbox()
    words: list[list[Any]] = []
    has_type3 = False

    def turn(x: float, y: float) -> tuple[float, float]:
        """Return a point in points from the upper left corner of the page as it is displayed."""
        return {
            0: (x - first_x, last_y - y),
            90: (y - first_y, x - first_x),
            180: (last_x - x, y - first_y),
            270: (last_y - y, last_x - x),
        }[degrees]

    for parts, is_type3 in _collect_words(page):
        has_type3 = has_type3 or is_type3
        text, left, bottom, right, top, baseline, font, size, angle = parts.as_list()
        (x0, y0), (x1, y1) = turn(left, bottom), turn(right, top)
        box = [round(value, 2) for value in (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))]
        words.append([text, *box, round(turn(left, baseline)[1], 2), font, size, (angle + degrees) % 360, None])
    if ink:
        picture = page.render(scale=_bound_scale(page, 1.0)).to_numpy()
        for word in words:
            word[9] = _measure_contrast(word[1:5], picture, width, height)
    return {"width": round(width, 2), "height": round(height, 2), "words": words, "type3": has_type3}


def _collect_words(page: Any) -> Iterator[tuple[_WordParts, bool]]:
    """Yield words in the order of the page's content, and whether each is set in a Type 3 font."""
    text_page = page.get_textpage()
    handle, loose = text_page.raw, raw.FS_RECTF()
    x, y = ctypes.c_double(), ctypes.c_double()
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    word, parted, guessed, last_object = _WordParts(), False, False, 0
    font, size, angle, type3 = "", 0.0, 0, False
    for at in range(min(raw.FPDFText_CountChars(handle), MAX_PAGE_CHARACTERS)):
        code = raw.FPDFText_GetUnicode(handle, at)
        char = "-" if code in (0x02, 0xFFFE) else chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"
        if raw.FPDFText_IsGenerated(handle, at) == 1:  # by PDFium, also within words in small capitals
            guessed = True
            continue
        if char.isspace() or code == 0:
            parted = True
            continue
        found = raw.FPDFText_GetTextObject(handle, at)
        address = ctypes.cast(found, ctypes.c_void_p).value or 0
        if address != last_object:
            last_object = address
            font, size, angle, type3 = _read_style(handle, at, found)
        raw.FPDFText_GetLooseCharBox(handle, at, loose)
        raw.FPDFText_GetCharBox(handle, at, left, right, bottom, top)
        raw.FPDFText_GetCharOrigin(handle, at, x, y)
        box = (
            min(loose.left, left.value), min(loose.bottom, bottom.value),
            max(loose.right, right.value), max(loose.top, top.value),
        )  # fmt: skip
        if abs(loose.top - loose.bottom) > 2.5 * size > 0:  # fonts of large symbols and broken ones
            box = (left.value, bottom.value, right.value, top.value)
        if guessed and word.text and (angle or box[0] - word.boxes[-1][2] > MIN_GAP_EMS * size):
            parted = True
        if word.text and (parted or _begins_word(word, char, box, y.value, size, angle)):
            yield word, type3
            word = _WordParts()
        parted = guessed = False
        char = unicodedata.normalize("NFKC", char) if 0xFB00 <= code <= 0xFB06 else char  # ligatures
        word.text = _compose(word, char, box) or word.text + char
        word.boxes.append(box)
        word.baselines.append(y.value)
        word.fonts.append(font)
        word.sizes.append(size)
        word.angle = angle
    if word.text:
        yield word, type3


_ACCENTS = {
    "`": "\u0300",
    "\u00b4": "\u0301",
    "\u02c6": "\u0302",
    "\u02dc": "\u0303",
    "\u00a8": "\u0308",
    "\u02c7": "\u030c",
}


def _compose(word: _WordParts, char: str, box: tuple[float, float, float, float]) -> str:
    """Return the word with a letter set under its last character, an accent, as TeX prints it; "" if it is none."""
    mark = _ACCENTS.get(word.text[-1:])
    if mark is None or not char.isalpha():
        return ""
    left, _, right, _ = word.boxes[-1]
    if not box[0] - 0.5 <= (left + right) / 2 <= box[2] + 0.5:
        return ""
    return word.text[:-1] + unicodedata.normalize("NFC", {"\u0131": "i", "\u0237": "j"}.get(char, char) + mark)


def _begins_word(word: _WordParts, char: str, box: tuple[float, ...], baseline: float, size: float, angle: int) -> bool:
    """Return whether a character without a space before it begins a word."""
    if angle != word.angle:
        return True
    if angle:
        return False
    before, em = word.boxes[-1], max(size, word.sizes[-1])
    shift = abs(baseline - word.baselines[-1])
    is_script = shift > SHIFT_EMS * em and min(size, word.sizes[-1]) < 0.85 * em
    if is_script and shift <= 0.7 * em and -0.3 * em < box[0] - before[2] < SPLIT_GAP_EMS * em:
        is_mark = size > word.sizes[-1] and word.text.isdigit()  # before a footnote
        return is_mark or (not word.text[-1].isalpha() and char.isdigit())  # after 0.93, but not x_1 and R^2
    return shift > 0.5 * em or box[0] - before[2] > SPLIT_GAP_EMS * em or box[0] < before[0] - 0.5 * em


def _read_style(handle: Any, at: int, text_object: Any) -> tuple[str, float, int, bool]:
    """Return the font, the size in points as printed, the angle in degrees, and whether the font is of Type 3."""
    buffer, flags, matrix = ctypes.create_string_buffer(256), ctypes.c_int(), raw.FS_MATRIX()
    length = raw.FPDFText_GetFontInfo(handle, at, buffer, 256, flags)
    name = buffer.raw[: max(0, length - 1)].decode("utf-8", "replace").rpartition("+")[2] if length <= 256 else ""
    scale = 1.0
    if raw.FPDFText_GetMatrix(handle, at, matrix):
        scale = math.hypot(matrix.c, matrix.d)
    degrees = round(math.degrees(raw.FPDFText_GetCharAngle(handle, at))) % 360
    font = raw.FPDFTextObj_GetFont(text_object) if text_object else None
    return name, raw.FPDFText_GetFontSize(handle, at) * scale, degrees, bool(font) and _is_type3(font)


def _is_type3(font: Any) -> bool:
    """Return whether a font is of Type 3: it is embedded, but as drawings, so that it has no font program."""
    size = ctypes.c_size_t()
    raw.FPDFFont_GetFontData(font, None, 0, size)
    return raw.FPDFFont_GetIsEmbedded(font) == 1 and size.value == 0


def _measure_contrast(box: list[float], picture: NDArray[np.uint8], width: float, height: float) -> int | None:
    """Return the contrast (0 to 255) in the middle of a word's box, in the colour channel that differs most."""
    x0, y0, x1, y1 = box
    across, down, fifth = picture.shape[1] / width, picture.shape[0] / height, (y1 - y0) / 5
    area = picture[
        max(0, int((y0 + fifth) * down)) : max(int((y0 + fifth) * down) + 1, int((y1 - fifth) * down) + 1, 0),
        max(0, int(x0 * across)) : max(0, int(x1 * across) + 1),
    ]
    return None if area.size == 0 else int((area.max(axis=(0, 1)).astype(int) - area.min(axis=(0, 1))).max())


if __name__ == "__main__":
    main()
