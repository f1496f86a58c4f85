"""Room for text and floats is estimated before anything is written, and comes close to what TeX prints."""

from __future__ import annotations

import importlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.models.roles.paper_writing import PaperOutline, PlannedAbstract, PlannedSection
from labwright.record.event_log import MemoryLog
from labwright.record.events.paper_events import FiguresDrawn
from labwright.record.schema.paper import FinalFigure, PaperDraft, Section
from labwright.stages.paper.hypothesis_figures import PROGRAM_FIGURES
from labwright.stages.paper.latex_sources import FigureFile, PaperTable, read_drawn_size
from labwright.stages.paper.outline import (
    HEADING_INCHES,
    TITLE_INCHES,
    count_page_words,
    count_text_words,
    count_words,
    divide_words,
    find_crowding_figures,
    measure_floats,
)
from labwright.stages.paper.paper_context import build_write_inputs
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import (
    MainTextLength,
    build_paper,
    build_paper_context,
    check_length,
    check_thinness,
    measure_pages,
)
from tests.paper import synthetic_paper
from tests.paper.conftest import PrintedPaper
from tests.stages.test_paper_writing import Desk, scripted

WORKSHOP, CONFERENCE = load_template("workshop"), load_template("conference")


@pytest.mark.slow
@pytest.mark.parametrize("printed", ["workshop", "conference"], indirect=True)
def test_the_estimate_comes_close_to_what_is_printed(printed: PrintedPaper) -> None:
    parts, template = printed.parts, load_template(printed.template)
    floats = measure_floats(parts.figures, parts.tables, parts.draft.captions, template)
    words = sum(count_words(parts.draft).values()) + sum(floats.values())
    headings = len(parts.draft.sections) * HEADING_INCHES / template.columns
    found = words / count_page_words(template) + (TITLE_INCHES + headings) / template.text_height
    assert found == pytest.approx(printed.found.pages_filled, abs=0.5)


def test_a_section_with_many_floats_keeps_its_words() -> None:
    titles, floats = ("Introduction", "Results", "Conclusion"), {f"fig:f{k}": 140 for k in range(5)}
    outline = PaperOutline(
        title="T",
        abstract=PlannedAbstract(claim="c"),
        sections=tuple(
            PlannedSection(
                title=title, claim="c", share=share, figures=("f0", "f1", "f2", "f3", "f4") if k == 1 else ()
            )
            for k, (title, share) in enumerate(zip(titles, (0.3, 0.5, 0.2), strict=True))
        ),
    )
    words = count_text_words(WORKSHOP)
    found = divide_words(outline, words, floats)
    assert sum(found.values()) == pytest.approx(words - 5 * 140, abs=15) and found["Results"] > 700
    crowded = divide_words(outline, words, dict.fromkeys(floats, 900))
    assert sum(crowded.values()) == pytest.approx(0.55 * words, abs=20), "more than half of the room is for text"


def test_floats_take_room_by_their_rows_columns_and_size(tmp_path: Path) -> None:
    def words(row: str, rows: int, layout: str = "lr") -> int:
        body = "\n".join([rf"{row} & 1 \\"] * rows)
        table = PaperTable("t", f"\\begin{{tabular}}{{@{{}}{layout}@{{}}}}\n{body}\n\\end{{tabular}}", "A caption.")
        return measure_floats((), [table], {}, WORKSHOP)["tab:t"]

    assert words("a", 5) < words("a", 20)
    long = "a statement of a hypothesis in many words that does not fit on one line of its column"
    assert words(long, 5) < words(long, 5, "L{0.3\\linewidth}r")
    figures = synthetic_paper.make_figures(tmp_path)
    sizes = {one.name: read_drawn_size(one.path) for one in figures}
    assert sizes["loss"] == pytest.approx((5.8, 2.1), abs=0.1)
    short, tall = (measure_floats(figures, (), captions, WORKSHOP) for captions in ({}, {"loss": "word " * 200}))
    assert tall["fig:loss"] > short["fig:loss"] and tall["fig:curves"] == short["fig:curves"]
    [unknown] = measure_floats([FigureFile("x", tmp_path / "none.pdf")], (), {}, CONFERENCE).values()
    assert 50 < unknown < 300


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
@pytest.mark.parametrize("font_type", [3, 42])
async def test_a_figure_whose_words_are_drawings_is_a_finding(tmp_path: Path, font_type: int) -> None:
    pyplot = importlib.import_module("matplotlib.pyplot")
    parts = synthetic_paper.make_short_paper(tmp_path, "\\paperfigure{drawn}")
    with pyplot.rc_context({"pdf.fonttype": font_type}):
        figure = pyplot.figure()
        figure.suptitle("Accuracy")
        figure.savefig(tmp_path / "drawn.pdf")
        pyplot.close(figure)
    parts = replace(parts, figures=(FigureFile("drawn", tmp_path / "drawn.pdf"),))
    built = await build_paper(parts, WORKSHOP, tmp_path / "paper")
    assert built.pdf is not None and b"/Type3" not in built.pdf.read_bytes(), "object streams are compressed"
    found = [one.text for one in built.findings if "Type 3 fonts in the PDF (page 1)" in one.text]
    assert len(found) == (font_type == 3)


def test_figures_that_leave_too_little_room_are_for_the_appendix(tmp_path: Path) -> None:
    sizes = {"fig:a": 400, "fig:b": 300, "fig:c": 300, "tab:main": 500}
    assert find_crowding_figures(2000, sizes, ["b", "c"]) == ["c", "b"]
    assert find_crowding_figures(4000, sizes, ["b", "c"]) == []
    program = sorted(PROGRAM_FIGURES)[0]
    drawn = (program, *(f"f{k}" for k in range(9)))
    log = MemoryLog(
        [
            *synthetic_paper.make_events(),
            FiguresDrawn(
                figures={},
                descriptions={},
                arrays=(),
                placed=tuple(FinalFigure(name=name, description="d") for name in drawn),
            ),
        ]
    )
    inputs = build_write_inputs(build_paper_context(Desk(tmp_path, scripted(), log).bench))
    kept = [one.name for one in inputs.figures if one.placement == "main"]
    assert program in kept and "f0" in kept and "f8" not in kept
    assert {f"fig:{name}" for name in kept} == {label for label in inputs.float_words if label.startswith("fig:")}
    assert inputs.text_words == count_text_words(WORKSHOP)


def test_words_are_counted_without_floats_and_a_thin_paper_is_a_complaint() -> None:
    body = r"It is \result{a/b.mean} here. \paperfigure{loss}"
    draft = PaperDraft(title="T", abstract="We ask.", sections=(Section(title="Results", body=body),))
    assert count_words(draft) == {"abstract": 2, "Results": 4}
    assert check_thinness(2.3, 4) and "fills 2.3 of 4 pages" in check_thinness(2.3, 4)[0]
    assert check_thinness(2.5, 4) == () and check_thinness(None, 4) == ()


@pytest.mark.parametrize(
    ("ends", "figure", "finding"),
    [
        ("674.4pt of 650.4pt", 4, "too long by about 2 lines of text: its limit is 4 pages"),  # they wait for a page
        ("24.0pt of 650.4pt", 5, "too long by about 2 lines of text: its limit is 4 pages"),
        ("24.0pt of 650.4pt", 6, "too long by about 2 lines of text: its limit is 4 pages"),  # a float stands later
        ("650.4pt of 650.4pt", 0, "too long, since figure wide stands alone on a further page (about 17 lines): its"),
    ],
)
def test_the_excess_length_is_given_in_lines(tmp_path: Path, ends: str, figure: int, finding: str) -> None:
    end = 5 if figure else 4
    labels = {"paper:main-end": end, "fig:wide": figure or 5}
    aux = "".join(f"\\newlabel{{{name}}}{{{{1}}{{{page}}}{{}}{{}}{{}}}}\n" for name, page in labels.items())
    (tmp_path / "paper.aux").write_text(aux)
    (tmp_path / "paper.log").write_text(f"paper: main text ends at {ends}\n")
    length = measure_pages(tmp_path, {"fig:wide": 0.3})
    assert length is not None and finding in check_length(length, WORKSHOP)[0].text
    exact = MainTextLength(4.0, 4.0)
    assert check_length(exact, WORKSHOP) == ()
