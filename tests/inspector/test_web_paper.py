"""The paper on the page: values by their keys, where they stand, and what becomes of papers that cannot be read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import httpx
import pytest

from labwright.inspector.number_tracer import TextBit, read_values, split_text
from labwright.inspector.web.paper_pages import PageLink, PdfError, find_links, read_pages, render_pdf_page
from labwright.record.events.paper_events import FiguresDrawn, PaperReleased
from labwright.record.events.search_events import StageWinnerChosen
from tests.inspector.sample_run import EventStory, make_sample
from tests.inspector.web_server import EVIL, ParsedPage, get_raw, record_story, running_server

pytestmark = pytest.mark.slow


PLAIN, SMOOTH = (f"validation/digits/log_loss/{arm}" for arm in ("plain", "smooth"))
RESULTS = (
    f"\\resultvalue{{{PLAIN}.mean}}{{0.500}}\n\\resultvalue{{{SMOOTH}.mean}}{{0.500}}\n"
    f"\\resultvalue{{{SMOOTH}.pm}}{{0.500 \\ensuremath{{\\pm}} 0.010}}\n\\setupvalue{{run.nodes}}{{4}}\n"
    "\\resultvalue{gone.mean}{\\ensuremath{-}0.3}\n"
)
PAPER = r"""\documentclass{x}
\title{Calm \emph{numbers}}
\begin{document}
\begin{abstract}
Of \setup{run.nodes} programs the plain one has a loss of \result{PLAIN.mean} after all
and the smooth one reaches a value of \result{SMOOTH.mean} in the end; it was \result{gone.mean} less\%.
\end{abstract}

\section{Results}
\paragraph{Method.} See Table~\ref{tab:main} \citep{a2020b}. % a comment
\begin{equation}
x = \alpha
\end{equation}

\papertable{main}

\paperfigure{loss}
\end{document}""".replace("PLAIN", PLAIN).replace("SMOOTH", SMOOTH)
FLOATS = r"""\definefloat{figure:loss}{%
\figurefloat{loss}{loss.pdf}{4in}%
{The loss of \emph{both} arms by step of the training.}}
\definefloat{table:main}{%
\tablefloat{main}{%
\begin{tabular}{@{}lc@{}}
\toprule
arm & loss \\
\midrule
smooth \& calm & \textbf{\result{KEY.pm}} \\
\bottomrule
\end{tabular}}%
{Loss of both arms.}}
""".replace("KEY", SMOOTH)
PAGES = (
    (
        "Calm numbers",
        "Of 4 programs the plain one has a loss of 0.500 after all",
        "and the smooth one reaches a value of 0.500 in the end; it was -0.3 less.",
        "Figure 1. The loss of both arms by",
        "step of the training.",
    ),
    ("Table 1: Loss of both arms.", "arm loss", "smooth & calm 0.500 ± 0.010", "n0005 draft 0.7312 n9999"),
)


def pdf(*pages: tuple[str, ...]) -> bytes:
    """A PDF with these lines; tabs part columns."""
    first = 4
    kids = " ".join(f"{first + 2 * n} 0 R" for n in range(len(pages)))
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for n, lines in enumerate(pages):
        shown = "".join(
            f"BT /F1 10 Tf {50 + 170 * across} {750 - 20 * at} Td ({part}) Tj ET\n"
            for at, line in enumerate(lines)
            for across, part in enumerate(line.split("\t"))
        )
        parts += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {first + 2 * n + 1} 0 R >>",
            f"<< /Length {len(shown)} >>\nstream\n{shown}endstream",
        ]
    found, places = b"%PDF-1.4\n", list[int]()
    for number, part in enumerate(parts, 1):
        places.append(len(found))
        found += f"{number} 0 obj\n{part}\nendobj\n".encode("cp1252")
    table = "".join(f"{at:010d} 00000 n \n" for at in places)
    return (
        found
        + (
            f"xref\n0 {len(parts) + 1}\n0000000000 65535 f \n{table}trailer\n"
            f"<< /Size {len(parts) + 1} /Root 1 0 R >>\nstartxref\n{len(found)}\n%%EOF\n"
        ).encode()
    )


def written(folder: Path, *, evil: str = "") -> Path:
    """A run with a released paper, whose winner has two replicates."""
    story = make_sample()
    for seed in (2, 3):
        story.finish_good(story.add_node("tuning", "replicate", "n0005", seed=seed), 0.5)
    figures = FiguresDrawn(figures={"loss.png": "0"}, descriptions={"loss": "The loss" + evil}, arrays=())
    story.add(
        StageWinnerChosen(stage="tuning", best="n0005", ended="limit"),
        figures,
        PaperReleased(released=True, pdf="paper/paper.pdf", pages=2),
    )
    run = record_story(folder / "calm", story)
    (run / "paper").mkdir()
    for name, text in {"results": RESULTS, "paper": PAPER + evil, "floats": FLOATS, "appendix": ""}.items():
        (run / "paper" / f"{name}.tex").write_text(text)
    (run / "paper" / "paper.pdf").write_bytes(pdf(*PAGES))
    return run


# --- the source -----------------------------------------------------------------------------------------------------


def test_the_source_is_read_with_its_keys() -> None:
    found = split_text(PAPER, read_values(RESULTS))
    assert [bit.key for bit in found if bit.key] == ["run.nodes", f"{PLAIN}.mean", f"{SMOOTH}.mean", "gone.mean"]
    text = "".join(bit.text for bit in found)
    assert "Of 4 programs" in text and "it was -0.3 less%." in text and "See Table “main” [a2020b]." in text
    assert TextBit("0.500 ± 0.010", f"{SMOOTH}.pm") in split_text(FLOATS, read_values(RESULTS))


def test_any_source_is_read() -> None:
    for text in (
        "",
        "{",
        "}",
        "\\result{",
        "\\section{",
        "\\begin{document}",
        "\\\\{}" * 99,
        "\\emph{" * 999,
        EVIL,
        "\\definefloat{",
        "\\definefloat{table:x}{\\begin{tabular}",
    ):
        split_text(text, read_values(text))


# --- where values stand ---------------------------------------------------------------------------------------------


def marks(tmp_path: Path, pages: tuple[tuple[str, ...], ...] = PAGES) -> tuple[PageLink, ...]:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "paper.pdf").write_bytes(pdf(*pages))
    texts = [split_text(text, read_values(RESULTS)) for text in (PAPER, *FLOATS.split(r"\definefloat"))]
    found = read_pages(tmp_path, "paper/paper.pdf")
    return find_links(found, texts, {"loss": "The loss of both arms by step"}, {"n0005": None})


def test_equal_numbers_are_told_apart_by_their_keys(tmp_path: Path) -> None:
    found = [(one.kind, one.target, one.page) for one in marks(tmp_path)]
    assert found == [
        ("key", "run.nodes", 1),
        ("key", f"{PLAIN}.mean", 1),
        ("key", f"{SMOOTH}.mean", 1),
        ("key", "gone.mean", 1),
        ("figure", "loss", 1),
        ("key", f"{SMOOTH}.pm", 2),
        ("node", "n0005", 2),
        ("number", "0.7312", 2),
    ]


def test_values_are_found_by_the_words_around_them_in_any_order(tmp_path: Path) -> None:
    turned = (
        (
            "and the smooth one reaches a value of 0.500 in the end; it was less.",
            "Of 4 programs the plain one has a loss of 0.500 after all",
            "Elsewhere 0.500 stands alone.",
        ),
    )
    found = [(one.kind, one.target) for one in marks(tmp_path, turned)]
    assert found == [("key", f"{SMOOTH}.mean"), ("key", "run.nodes"), ("key", f"{PLAIN}.mean"), ("number", "0.500")]


def test_a_table_of_equal_numbers_is_read_row_by_row(tmp_path: Path) -> None:
    names = ("alpha", "beta", "gamma", "delta")
    values = {f"{name}.{column}": "0.500" for name in names for column in ("mean", "sd")}
    rows = "".join(rf"{name} & \result{{{name}.mean}} & \result{{{name}.sd}} \\ " for name in names)
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "paper.pdf").write_bytes(pdf(tuple(f"{name}\t0.500\t0.500" for name in names)))
    found = find_links(read_pages(tmp_path, "paper/paper.pdf"), [split_text(rows, values)], {}, {})
    assert [one.target for one in found] == list(values)


def test_a_box_covers_its_words_and_one_over_two_lines_has_two(tmp_path: Path) -> None:
    broken = (("arm loss", "smooth & calm 0.500", "± 0.010 after it"),)
    [*boxes] = [one for one in marks(tmp_path, broken) if one.kind == "key"]
    assert [one.target for one in boxes] == [f"{SMOOTH}.pm"] * 2
    assert boxes[0].top + boxes[0].height <= boxes[1].top + 1 and boxes[0].left > boxes[1].left > 50
    assert all(5 < one.height < 20 and 20 < one.width < 40 for one in boxes)


def test_a_pdf_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    path = tmp_path / "paper" / "paper.pdf"
    for make in (
        lambda: None,
        lambda: path.write_bytes(b"%PDF-1.4 nothing"),
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/etc/passwd"),
    ):
        path.unlink(missing_ok=True)
        make()
        with pytest.raises(PdfError):
            read_pages(tmp_path, "paper/paper.pdf")
        with pytest.raises(PdfError):
            render_pdf_page(tmp_path, "paper/paper.pdf", 1)


# --- over HTTP ------------------------------------------------------------------------------------------------------


def test_a_click_on_a_number_leads_to_nodes_seeds_and_files(tmp_path: Path) -> None:
    written(tmp_path)
    with running_server(tmp_path) as web:
        page = web.get("/runs/calm/paper").text
        links = [value for name, value in ParsedPage(page).attributes if name == "href" and "trace?key=" in value]
        assert len(links) == 5
        picture = web.get("/runs/calm/sheets/1/2.png")
        assert picture.headers["content-type"] == "image/png" and picture.content.startswith(b"\x89PNG")
        found = web.get(next(one for one in links if f"{SMOOTH}.mean" in one)).text
        assert SMOOTH in found and PLAIN not in found
        assert set(re.findall(r'class="tonode" href="/runs/calm/nodes/(n\d+)"', found)) == {"n0007", "n0008"}
        assert "<td>1</td>" in found and "computed" in found and "scientist reproduce" in found
        assert "possible origins" in web.get("/runs/calm/trace?number=1").text  # what digits alone leave open
        assert "no such value" in web.get("/runs/calm/trace", params={"key": EVIL}).text
        assert "Figure loss" in web.get("/runs/calm/figures/loss").text
        for gone in ("paper?v=2", "paper?v=-1", "sheets/1/9.png", "sheets/2/1.png", "figures/other"):
            assert web.get(f"/runs/calm/{gone}").status_code == 404, gone


def test_without_pages_a_number_can_still_be_traced(tmp_path: Path) -> None:
    run = written(tmp_path, evil=EVIL)
    (run / "paper" / "paper.pdf").unlink()
    with running_server(tmp_path) as web:
        page = web.get("/runs/calm/paper").text
        seen = ParsedPage(page)
        assert "The pages cannot be shown" in page and seen.tags.count("script") == 1 and "img" not in seen.tags
        assert SMOOTH in web.get("/runs/calm/trace?number=0.500").text
        assert get_raw(web, "/runs/calm/sheets/1/1.png")[0] == 404
        assert ParsedPage(web.get("/runs/calm/figures/loss").text).tags.count("script") == 1


def test_a_run_without_a_paper_says_so(tmp_path: Path) -> None:
    story = EventStory()
    story.add_start()
    record_story(tmp_path / "calm", story)
    with running_server(tmp_path) as web:
        assert "No paper yet" in web.get("/runs/calm/paper").text
        assert web.get("/runs/calm/figures/loss").status_code == 404


def test_a_long_paper_is_shown_some_pages_at_a_time(tmp_path: Path, web: httpx.Client) -> None:
    assert web.get("/runs/whole/paper?page=-5").status_code == 200
    run = written(tmp_path)
    (run / "paper" / "paper.pdf").write_bytes(pdf(*([PAGES[0]] * 11)))
    with running_server(tmp_path) as other:
        assert re.findall(r'id="sheet-(\d+)"', other.get("/runs/calm/paper").text) == [str(n) for n in range(1, 9)]
        assert re.findall(r'id="sheet-(\d+)"', other.get("/runs/calm/paper?page=99").text) == ["9", "10", "11"]
