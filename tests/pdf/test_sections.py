"""Sections, reading order and numbers of papers in every document class that is installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from labwright.pdf.layout import TITLE_PAGE, PdfSection, split_sections
from labwright.pdf.reader import read_pdf
from labwright.review.external_papers.passages import extract_claims, extract_passages
from labwright.review.judge.paper_reader import read_paper
from tests.pdf.latex_papers import ABSTRACT, PAPERS, RESULTS, LatexMissing, LatexPaper, find_places, typeset

TYPICAL = ("article-wide-table", "article-running-heads", "article-stamped", "IEEEtran", "memoir")
"""Papers that `make test` reads; `make bench` reads all."""
PUBLIC_PAPERS = Path(__file__).parents[2].parent / "shared" / "data" / "mlr-bench" / "papers"

pytestmark = pytest.mark.slow


@pytest.fixture(
    params=[
        pytest.param(paper, id=paper.name, marks=() if paper.name in TYPICAL else pytest.mark.bench) for paper in PAPERS
    ]
)
def paper(request: pytest.FixtureRequest) -> LatexPaper:
    if shutil.which("pdflatex") is None:
        pytest.skip("TeX is not installed")
    return request.param


def make_pdf(paper: LatexPaper, folder: Path) -> Path:
    try:
        return typeset(paper, folder)
    except LatexMissing as missing:
        pytest.skip(f"{missing} is not installed")


def strip_label(title: str) -> str:
    """Return a title without its number and final point, in small letters."""
    label = r"(?:(?:chapter|appendix)\s+)?(?:[A-Z]|[\d.]+|[IVX]+)[.:]?\s+"
    return re.sub(rf"^{label}", "", title, flags=re.IGNORECASE).casefold().rstrip(".")


def join_lines(section: PdfSection) -> str:
    return re.sub(r"\s+", " ", section.text.replace("-\n", ""))


async def test_a_paper_is_read_by_section_in_order_and_only_results_are_numbers(
    paper: LatexPaper, tmp_path: Path
) -> None:
    path = make_pdf(paper, tmp_path)
    found = split_sections(read_pdf(path).pages)
    abstract = [one for one in found if one.title.casefold() == "abstract"]
    sections = [one for one in found if one.level and one not in abstract]
    assert [strip_label(one.title) for one in sections if one.level == 1] == [one.casefold() for one in paper.titles]
    assert [strip_label(one.title) for one in sections if one.level > 1] == [one.casefold() for one in paper.inner]
    for one in sections:
        marks = re.findall(r"The text of ([\w ]+?) (begins|ends) here", join_lines(one))
        if paper.inner and marks:
            assert marks == [(strip_label(one.title), "begins"), (strip_label(one.title), "ends")]
    assert [join_lines(one)[: len(ABSTRACT)] for one in abstract] == [ABSTRACT] * paper.has_abstract
    assert [one.title for one in found if not one.level] == ([TITLE_PAGE] if paper.has_abstract else [""])
    places = [place for one in found for place in find_places(one.text)]
    assert places == sorted(set(places)) and len(places) > 4

    claims = extract_claims(extract_passages(await read_paper(path)))
    numbers = {one.number.text.split()[0].rstrip("%") for one in claims}
    assert "91.4" in numbers and numbers <= set(RESULTS), [one.context for one in claims]
