"""Check a compiled paper: the text that a reader sees, not its source.

A check copy is compiled from the same sources, with a letter for every bound value and counter, empty boxes for
figures and no bibliography. Any digit or number word that remains was typed, and is a violation unless it is an
allowed literal, a correct count or part of a name from the data plan. In the real PDF, the values of the record
must be printed.

Limits: text inside figures is not read; whether a sentence is true is not checked (the PDF has no keys).
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from labwright.pdf.layout import read_text
from labwright.pdf.reader import PdfError
from labwright.record import result_macros
from labwright.record.result_macros import ClaimKey, find_macro_uses
from labwright.review.evidence import number_words, numbers, tex_runner
from labwright.review.evidence.violations import Evidence, Kind, Violation


def find_printed_claims(text: str) -> frozenset[str]:
    r"""Return the keys of the claims printed with `\result` in LaTeX source, without their forms."""
    keys = (ClaimKey.parse_key(use.key) for use in find_macro_uses(text) if use.macro == "result")
    return frozenset(key.key_without_form for key in keys if key is not None)


CHECK_COPY_PREAMBLE = r"""\AddToHook{begindocument/end}{%
  \def\result#1{N}\def\setup#1{N}\def\rec#1{N}%
  \renewcommand\includegraphics[2][]{\fbox{F}}%
  \renewcommand\thepage{p}\renewcommand\thesection{S}\renewcommand\thesubsection{S}%
  \renewcommand\thesubsubsection{S}\renewcommand\thefigure{F}\renewcommand\thetable{T}%
  \renewcommand\theequation{E}\renewcommand\thefootnote{f}\renewcommand\thempfootnote{f}%
  \providecommand\thelinenumber{}\renewcommand\thelinenumber{l}%
  \def\makevruler[#1][#2][#3][#4][#5]{}\expandafter\def\csname ACM@mk@linecount\endcsname{}%
  \renewcommand\theenumi{e}\renewcommand\theenumii{e}\renewcommand\theenumiii{e}\renewcommand\theenumiv{e}%
}
"""
"""Preamble that makes TeX print only typed text.

References stay unresolved on purpose: one pass, no bibliography.
"""

_PAGE_END = re.compile(r"\s*p?\s*")
"""What follows the last word of a page: its number in the check copy."""
_SOURCES = ("paper.tex", "floats.tex", "appendix.tex")
"""Sources that the paper prints."""


async def check_pdf(folder: Path, evidence: Evidence, *, timeout: float = 60.0) -> tuple[Violation, ...]:
    """Return the violations in the paper in a folder that has the sources and the PDF.

    Raises `review.evidence.tex_runner.TexMissing`.
    """
    typed, printed = await asyncio.gather(
        _compile_check_copy(folder, timeout), extract_pdf_text(folder / "paper.pdf", timeout)
    )
    values = _check_values(folder, evidence, printed)
    if isinstance(typed, Violation):
        return (typed, *values)
    return (*check_printed_numbers(typed, evidence), *values)


async def extract_pdf_text(pdf: Path, timeout: float = 60.0) -> str:
    """Return the text of a PDF, with form feeds between pages; empty if it cannot be read."""
    try:
        return await asyncio.to_thread(read_text, pdf, timeout=timeout)
    except PdfError:
        return ""


async def _compile_check_copy(folder: Path, timeout: float) -> str | Violation:
    """Return the text of the check copy, or the violation that explains why it could not be compiled."""
    with tempfile.TemporaryDirectory(prefix="check-", ignore_cleanup_errors=True) as name:
        copy = Path(name)
        for source in folder.iterdir():
            if source.suffix in (".tex", ".cls", ".sty", ".clo", ".def", ".cfg"):
                shutil.copyfile(source, copy / source.name)
        (copy / "check.tex").write_text(CHECK_COPY_PREAMBLE + r"\input{paper.tex}")
        ran = await tex_runner.run_program(tex_runner.latex_command("check"), copy, timeout=timeout)
        if ran.code != 0 or not (copy / "check.pdf").exists():
            how = f"timed out after {timeout:g} s" if ran.timed_out else find_tex_error(ran.output)
            fix = "the paper could not be checked: fix the source so that it compiles"
            return Violation(kind="compile", where="check copy", excerpt=how, fix=fix)
        return await extract_pdf_text(copy / "check.pdf", timeout)


def find_tex_error(output: str) -> str:
    """Return the first error that TeX printed, on one line."""
    for macro, why in (
        ("KeyIsNotInResultsTex", "a \\result or \\setup uses a key that is not in the record"),
        ("FloatIsNotInFloatsTex", "a \\paperfigure or \\papertable names a float that does not exist"),
    ):
        if f"\\{macro}" in output:
            place = re.search(r"^(?:\./)?([\w.-]+:\d+: )", output, re.MULTILINE)
            return (place[1] if place else "") + why
    missing = re.search(
        r"^! LaTeX Error: File `([^']+)' not found.*?^(?:\S*/)?([\w.-]+):\d+: ", output, re.MULTILINE | re.DOTALL
    )
    if missing:
        package = tex_runner.guess_debian_package(missing[1])
        return f"{missing[2]}: File `{missing[1]}' not found: add it to the template, or apt-get install {package}"
    error = re.search(r"^(?:\S*/)?([\w.-]+:\d+: .*|! ?\S.*)$", output, re.MULTILINE)
    return error[1] if error else "no error message"


def check_printed_numbers(text: str, evidence: Evidence) -> Iterator[Violation]:
    """Yield the numbers in the text of a check copy, with form feeds between pages, that were typed and may not be."""
    lone = {one for one in evidence.literals if one.isdigit()}
    named = [*numbers.compile_names(evidence.names), *map(numbers.compile_printed, evidence.prints)]
    counts = number_words.list_counted_things(evidence)
    pages = text.split("\f")  # a phrase may go on on the next page, below its floats
    for page, (content, after) in enumerate(zip(pages, (*pages[1:], ""), strict=True), 1):
        plain = evidence.mask_typed(re.sub(r"(?<=\w)-\n(?=\w)", "-", content))
        for at, digits in numbers.find_numbers(plain):
            if digits in lone or ("," in digits and set(digits.split(",")) <= {"0", "1"}):
                continue
            lines = after.splitlines() if _PAGE_END.fullmatch(plain[at + len(digits) :].removeprefix("%")) else ()
            read = (evidence.mask_typed(f"{plain[at:].split()[0]} {one}") for one in lines)
            if any(all(place for place, _ in numbers.find_numbers(one)) for one in read):
                continue
            yield _make_violation("number", page, plain, at)
        joined = numbers.mask_matches(re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", content), named, " ")
        for found in number_words.find_number_words(joined, counts, ordinary=True):
            lines = after.splitlines() if _PAGE_END.fullmatch(joined[found.at + len(found.words) :]) else ()
            read = (number_words.find_number_words(f"{found.words} {one}", counts) for one in lines)
            if any(all(each.at for each in words) for words in read):
                continue
            yield _make_violation("word", page, joined, found.at)


def _make_violation(kind: Kind, page: int, text: str, at: int) -> Violation:
    return Violation(
        kind=kind,
        where=f"page {page} of the PDF",
        fix="typed by hand: no macro printed it",
        excerpt=f"...{' '.join(text[max(0, at - 40) : at + 40].replace(chr(1), '').split())}...",
    )


def _check_values(folder: Path, evidence: Evidence, printed: str) -> Iterator[Violation]:
    """Return the keys whose definition differs from the record, or whose value is not in the real PDF."""
    results = folder / "results.tex"
    defined = result_macros.parse_results(results.read_text()) if results.exists() else {}
    squeezed = re.sub(r"\s+", "", printed).replace("\u2212", "-").replace("\u2013", "-")
    texts = [(folder / name).read_text() for name in _SOURCES if (folder / name).exists()]
    uses = {use for text in texts for use in result_macros.find_macro_uses(text)}
    for use in sorted(uses):
        value, kind, where, fix = evidence.find_value(use), "value", "results.tex", ""
        if value is None:
            kind, where, fix = "key", "sources", "no such key in the record"
        elif not _has_same_value(defined.get(use), value.tex):
            fix = f"defined as {defined.get(use)!r}, but the record has {value.tex!r}"
        else:
            read = re.sub(r"\s", "", result_macros.to_plain_text(value))
            typed = (number for _, number in numbers.find_numbers(read) if number.isascii())
            # compares only numbers, since a page may end within a value
            if missing := next((number for number in typed if number not in squeezed), ""):
                where, fix = "PDF", f"{missing!r} is not in the PDF's text"
        if fix:
            yield Violation(kind=kind, where=where, excerpt=str(use), fix=fix)


def _has_same_value(defined: str | None, tex: str) -> bool:
    """Return whether results.tex defines a value as the record does, apart from characters missing in every font
    (boxes).
    """
    parts = (
        re.escape(char) if char.isascii() else rf"(?:{re.escape(char)}|\\unknowncharacter\{{\}})?"
        for char in unicodedata.normalize("NFC", tex)
    )
    return defined is not None and re.fullmatch("".join(parts), defined) is not None
