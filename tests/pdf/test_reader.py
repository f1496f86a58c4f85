"""Words, fonts and pictures of PDFs, and files that are none."""

from __future__ import annotations

import io
import os
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from labwright.pdf.layout import CELL_SEPARATOR, format_page, order_lines
from labwright.pdf.reader import PdfError, PdfPage, PdfWord, read_pdf, render_page
from tests.review.test_judge import pdf


@pytest.mark.slow
@pytest.mark.parametrize(("font_type", "expected"), [(3, True), (42, False)])
def test_fonts_of_type_3_are_recognised(tmp_path: Path, font_type: int, expected: bool) -> None:
    pyplot: Any = import_module("matplotlib.pyplot")
    with pyplot.rc_context({"pdf.fonttype": font_type}):
        figure = pyplot.figure()
        figure.text(0.5, 0.5, "Accuracy")
        figure.savefig(tmp_path / "figure.pdf")
        pyplot.close(figure)
    [page] = read_pdf(tmp_path / "figure.pdf").pages
    assert [word.text for word in page.words] == ["Accuracy"] and page.has_type3 is expected


def test_a_page_is_drawn_whole_or_in_part() -> None:
    file = io.BytesIO(pdf(["Rain falls"]))
    whole = Image.open(io.BytesIO(render_page(file, 1, pixels=450)))
    part = Image.open(io.BytesIO(render_page(file, 1, dpi=144, crop=(10.0, 30.0, 110.0, 60.0))))
    assert (whole.size, part.size) == ((450, 450), (200, 60))
    assert part.convert("L").getextrema()[0] == 0 and whole.convert("L").getextrema()[1] == 255


def test_words_have_places_fonts_and_contrast() -> None:
    [page] = read_pdf(io.BytesIO(pdf(["Rain falls"])), contrast_pages=1).pages
    first, second = page.words
    assert (first.text, second.text, first.font, first.size) == ("Rain", "falls", "Helvetica", 10.0)
    assert 20 <= first.box[0] < first.box[2] < second.box[0] and first.baseline == pytest.approx(50, abs=15)
    assert first.contrast is not None and first.contrast > 100


def test_the_worker_sees_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []
    start = subprocess.Popen

    def spy(*arguments: Any, **options: Any) -> Any:
        seen.append(options["env"])
        return start(*arguments, **options)

    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setattr(subprocess, "Popen", spy)
    read_pdf(io.BytesIO(pdf(["Rain"])))
    assert seen and "OPENAI_API_KEY" not in seen[0] and seen[0]["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("data", [b"", b"%PDF-1.4 broken", b"no PDF"])
def test_a_file_that_is_no_pdf_is_one_line(data: bytes) -> None:
    with pytest.raises(PdfError, match="damaged or needs a password"):
        read_pdf(io.BytesIO(data))
    with pytest.raises(PdfError):
        render_page(io.BytesIO(pdf(["Rain"])), 2, pixels=100)


# --- layout ---------------------------------------------------------------------------------------------------------


def set_lines(*columns: tuple[float, float, list[str]]) -> list[PdfWord]:
    """Return words set in columns, in this order: left edge, width, and a line for each 12 points."""
    return [
        PdfWord(word, (begin, 12.0 * row, begin + wide - 3, 12.0 * row + 10), 12.0 * row + 8, "T", 10.0)
        for left, across, lines in columns
        for row, text in enumerate(lines)
        if text
        for wide in [across / len(text.split())]
        for at, word in enumerate(text.split())
        for begin in [left + wide * at]
    ]


def test_a_table_is_read_by_rows() -> None:
    words = set_lines((10, 60, ["set", "digits", "wine"]), (200, 40, ["loss", "0.113", "0.471"]))
    page = PdfPage(600, 800, tuple(words))
    assert format_page(page) == f"set{CELL_SEPARATOR}loss\ndigits{CELL_SEPARATOR}0.113\nwine{CELL_SEPARATOR}0.471"


def test_two_columns_are_read_one_after_the_other_below_what_spans_both() -> None:
    left, right = (
        [f"{side} line {letter} of the text that is set here" for letter in "abcdefghi"] for side in ("left", "right")
    )
    title = "Title that goes over both of the columns of this page"
    words = set_lines((60, 460, [title]), (60, 220, ["", "", *left]), (320, 220, ["", "", *right]))
    lines = order_lines(PdfPage(600, 800, tuple(words)))
    assert [line.text for line in lines] == [title, *left, *right]


def test_rotated_words_and_numbers_of_lines_come_last() -> None:
    numbers = [PdfWord(f"{n:03}", (5, 12.0 * n, 20, 12.0 * n + 8), 12.0 * n + 8, "T", 8.0) for n in range(10)]
    stamp = PdfWord("arXiv:1", (2, 300, 9, 400), 400, "T", 20.0, angle=90)
    text = set_lines((60, 300, [f"line {letter} of the text" for letter in "abcdefghij"]))
    page = PdfPage(600, 800, (stamp, *numbers, *text))
    assert format_page(page).splitlines()[0] == "line a of the text"
    assert format_page(page).endswith("arXiv:1 " + " ".join(word.text for word in numbers))
