""".bib files as written by people and programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.literature import LibraryError
from labwright.literature.bibtex import parse_bibtex, read_user_library


def test_a_text_that_is_defined_twice_counts_from_there_on() -> None:
    one, other = parse_bibtex(
        '@string{j = "Journal"}\n@article{a, journal = j # " of X", year = 2001}\n'
        '@string{j = {Letters}}\n@article{b, journal = J, month = jan, title = "C {\\# D} # E"}\n'
    )
    assert one.fields == {"journal": "Journal of X", "year": "2001"}
    assert other.fields == {"journal": "Letters", "month": "jan", "title": "C {\\# D} # E"}


@pytest.mark.parametrize(
    ("date", "year"), [("2021", "2021"), ("2021-05-03/2022-01-01", "2021"), ("in press", ""), ("20215", "")]
)
def test_the_year_of_a_date_is_the_year(date: str, year: str) -> None:
    [entry] = parse_bibtex(f"@online{{o, title = {{A}}, date = {{{date}}}, journaltitle = {{J}}}}")
    assert entry.read_plain("year") == year and entry.venue == "J"
    [given] = parse_bibtex(f"@online{{o, date = {{{date}}}, year = {{1999}}}}")
    assert given.read_plain("year") == "1999"


def test_another_archive_is_not_arxiv() -> None:
    of, other = parse_bibtex(
        "@online{a, eprint = {2106.00001}, eprinttype = {arXiv}}\n"
        "@online{b, eprint = {2106.00001}, eprinttype = {jstor}}"
    )
    assert (of.arxiv, other.arxiv) == ("2106.00001", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@article{a, year = 1}\n@article{a, year = 2}", "line 2: the key 'a' is used twice"),
        ("@article{a, year = 1, year = 2}", "line 1: an entry has the field year twice"),
        ("@article{a, title = {A\n@article{b, year = 2}", "check for a missing brace or comma"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(LibraryError, match=words):
        parse_bibtex(text)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.bib").write_text("@article{a, title = {A}}\n", encoding="utf-8-sig")
    assert [one.key for one in read_user_library(tmp_path / "a.bib")] == ["a"]
