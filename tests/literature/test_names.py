"""Comparison of names, titles, identifiers and entries."""

from __future__ import annotations

import pytest

from labwright.literature.bibtex import BibEntry, format_bibtex, parse_bibtex
from labwright.literature.lookup import hash_compared, read_verification
from labwright.literature.works import (
    explain_author_mismatch,
    find_arxiv_id,
    find_doi,
    is_same_person,
    is_same_title,
    parse_authors,
    read_arxiv_year,
    strip_retraction_mark,
    strip_tex,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('M{\\"u}ller, Rafael', "Rafael Mueller"),
        ("van Merrienboer, Bart", "Bart van Merriënboer"),
        ("Chawla, N. V.", "Nitesh V. Chawla"),
        ("{OpenAI}", "OpenAI"),
        ("Zhang Wei", "Wei Zhang"),
        ("King, Jr., Martin Luther", "Martin Luther King Jr."),
        ("Hinton, GE", "Geoffrey Everest Hinton"),
        ("LeCun, Yann", "Yann Le Cun"),
        ("Le, Quoc V.", "Quoc V. Le"),
        ("de Freitas, Nando", "N. Freitas"),
    ],
)
def test_writings_of_one_person(one: str, other: str) -> None:
    assert is_same_person(one, other) and is_same_person(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Wang, Wei", "Wen Wang"),
        ("Smith, J. B.", "John A. Smith"),
        ("Smith, Jane", "John Smith"),
        ("Smith, John", "John Smithson"),
        ("", "A B"),
    ],
)
def test_other_people(one: str, other: str) -> None:
    assert not is_same_person(one, other) and not is_same_person(other, one)


def test_lists_of_authors() -> None:
    assert parse_authors("{Barnes and Noble} and Doe, J. and others") == (["{Barnes and Noble}", "Doe, J."], True)
    assert explain_author_mismatch("A, B and others", ["B. A", "D. C"]) == ""
    assert explain_author_mismatch("A, B and C, D", ["B. A"], known_cut=True) == ""
    assert "no author" in explain_author_mismatch("", ["B. A"]) and "has no author" in explain_author_mismatch(
        "A, B", []
    )


@pytest.mark.parametrize(
    ("written", "known", "same"),
    [
        ("{SMOTE}: Over-sampling", "SMOTE: oversampling", True),
        ("Deep Learning", "Deep learning: a review", False),
        ("A Long Main Title", "A long main title: and its sub", True),
        ("A Long Main Title: Sub", "A long main title", False),
        ("A $x$ of 5% of it", "A x of 5", False),
        ("$\\beta$-VAE", "β-VAE", True),
        ("", "", False),
        ("Hupkes' `Diagnostic' Test", "Hupkes’ ‘Diagnostic’ Test", True),
    ],
)
def test_titles(written: str, known: str, same: bool) -> None:
    assert is_same_title(written, known) is same


def test_marks_of_retraction_are_taken_off_a_title() -> None:
    assert strip_retraction_mark("RETRACTED ARTICLE: Foo bar") == ("Foo bar", True)
    assert strip_retraction_mark("CO<sub>2</sub> &amp; <i>E. coli</i>: a < b") == ("CO2 & E. coli: a < b", False)
    assert strip_retraction_mark("Retractions in science: a study") == ("Retractions in science: a study", False)


def test_identifiers_in_texts() -> None:
    assert find_doi("see https://doi.org/10.1109/CVPR.2019.00949).") == "10.1109/cvpr.2019.00949"
    assert find_doi("10.48550/arXiv.1706.04599") == "" == find_arxiv_id("no 1706.04599")
    for text in (
        "arXiv:1706.04599v2 [cs]",
        "https://doi.org/10.48550/arXiv.1706.04599",
        "arxiv.org/pdf/1706.04599",
        "arXiv preprint arXiv:1706.04599",
        "CoRR, abs/1706.04599, arXiv: 1706.04599",
    ):
        assert find_arxiv_id(text) == "1706.04599", text
    assert find_arxiv_id("http://arxiv.org/abs/cs/9901001v1") == "cs/9901001"
    assert (read_arxiv_year("1706.04599"), read_arxiv_year("cs/9901001"), read_arxiv_year("x")) == (2017, 1999, None)


def test_entries_are_read_with_macros_quotes_and_comments_and_written_again() -> None:
    text = (
        '@string{icml = "Int. Conf."}\n% a comment\n@InProceedings{a:1/b, Title = "A {B}", booktitle = icml,\n'
        " year = 2017, eprint = {1706.04599v1}, archivePrefix = {arXiv}}\n@comment{x}\n"
    )
    [entry] = parse_bibtex(text)
    assert (entry.kind, entry.key, entry.venue, entry.arxiv, entry.line) == (
        "inproceedings",
        "a:1/b",
        "Int. Conf.",
        "1706.04599",
        3,
    )
    assert parse_bibtex(format_bibtex([entry]))[0].fields == entry.fields
    assert strip_tex("100\\% of {\\L}{\\'o}d{\\'z}~-- yes") == "100% of Łódź – yes"


@pytest.mark.parametrize(
    "record",
    [
        "by me",
        "source: x; id: y; date: 2026-13-01; agreed: title, authors, year; sha256: {hash}",
        "source: x; id: y; date: 2026-01-01; agreed: title, venue, pages; sha256: {hash}",
        "source: x; id: y; date: 2026-01-01; agreed: title, authors, year; sha256: " + "0" * 32,
        "source: x; id: y; date: 2026-01-01; agreed: title, authors, year; sha256: {hash}",
    ],
)
def test_a_record_holds_in_its_form_for_what_was_compared(record: str) -> None:
    entry = BibEntry(kind="misc", key="a", fields={"title": "T", "author": "A", "year": "2001"})
    held = entry.with_fields(verified=record.format(hash=hash_compared(entry)))
    assert (read_verification(held) is not None) == (record.endswith("year; sha256: {hash}") and "2026-01" in record)


@pytest.mark.parametrize(
    "title", ["{" * 5000, "{" * 3000 + "a" + "}" * 3000, r"\begin{a}" * 2000, r"\href{", r"\sqrt[" * 500]
)
def test_a_title_that_is_no_tex_is_compared_as_it_stands(title: str) -> None:
    assert not is_same_title("Deep learning of things", title)
