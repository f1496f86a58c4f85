"""What a compilation says of a paper, as short lines that a writer can act on.

How long the parts of a draft are, and whether it keeps to its pages. By an estimate, scaled to what was counted.
"""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

from labwright.models.roles.paper_revision import SectionLength
from labwright.record.result_macros import ResultMacroUse, fill_macros, to_plain_text
from labwright.record.schema.paper import PaperDraft, PaperFinding
from labwright.review.evidence import Evidence, find_sentence_spans, numbers, scan
from labwright.stages.paper.template import PaperTemplate

MIN_OVERFULL_POINTS = 10.0
"""Points that a line may stick out before it is a finding."""
MIN_TABLE_PERCENT = 70
"""Percent of its size below which a table is a finding."""
MAX_EXCERPT_CHARS = 100
"""Characters of a source line that a finding shows."""
CHKTEX_MESSAGES = {
    "16": "a formula is still open at the end of the paragraph",
    "18": "typed quotes: write ``...''",
    "26": "a space stands before a punctuation mark",
}
"""The warnings of chktex that mean something in a body of model text; the others are matters of taste."""


def parse_log(log: str, source: str = "") -> tuple[PaperFinding, ...]:
    """Findings in a LaTeX log: references, citations, overfull boxes, missing characters. `source` is paper.tex."""
    found = [
        PaperFinding(text=f"{kind.lower()} {name!r} is undefined and prints ??", blocks=True)
        for kind, name in re.findall(r"(Reference|Citation) `([^']*)' on page \S+ undefined", log)
    ]
    for match in re.finditer(r"Overfull \\hbox \(([\d.]+)pt too wide\)([^\n]*)", log):
        if float(match[1]) > MIN_OVERFULL_POINTS:
            lines = re.search(r"lines? (\d+)", match[2])
            appendix = 0 <= log.find("(./appendix.tex") < match.start()
            where = "the appendix" if appendix else find_section(source, int(lines[1])) if lines and source else ""
            found.append(
                PaperFinding(
                    by_edit=not appendix,
                    text=(
                        f"{where}{': ' if where else ''}a line sticks out by {float(match[1]):.0f} pt"
                        f"{match[2].replace(' in paragraph', ',')}: reword it"
                    ),
                )
            )
    for match in re.finditer(r"Overfull \\vbox \(([\d.]+)pt too high\)", log):
        if float(match[1]) > MIN_OVERFULL_POINTS:
            found.append(PaperFinding(text=f"a page is too full by {float(match[1]):.0f} pt: shorten a float"))
    lines = [
        f"the table {name!r} is shrunk to {percent} %: it is too wide or too long for the page"
        for name, percent in re.findall(r"paper: table (\S+) is set at (\d+) percent", log)
        if int(percent) < MIN_TABLE_PERCENT
    ]
    lines += [f"missing character: {line}" for line in re.findall(r"Missing character: (.*)", log)]
    lines += [f"the label {name!r} stands twice" for name in re.findall(r"Label `([^']*)' multiply defined", log)]
    return tuple(dict.fromkeys((*found, *(PaperFinding(text=line) for line in lines))))


def measure_pages(folder: Path, floats: tuple[str, ...]) -> float | None:
    """Pages of main text, with the used part of the last: up to its end or its last float, from the .aux; references
    and appendix do not count."""
    aux, log = ((folder / f"paper.{suffix}").read_text(errors="replace") for suffix in ("aux", "log"))
    pages = {
        name: int(page) for name, page in re.findall(r"\\newlabel\{([^{}]*)\}\{\{(?:[^{}]|\{[^{}]*\})*\}\{(\d+)\}", aux)
    }
    if "paper:main-end" not in pages:
        return None
    last = max([pages["paper:main-end"], *(pages[name] for name in floats if name in pages)])
    total = re.search(r"paper: main text ends at ([\d.]+)pt of ([\d.]+)pt", log)
    ends_there = total is not None and last == pages["paper:main-end"]
    return last - 1 + float(total[1]) / float(total[2]) if total is not None and ends_there else float(last)


def check_length(pages: float, template: PaperTemplate) -> tuple[PaperFinding, ...]:
    """A finding where the main text is longer than the template allows."""
    if ceil(pages) <= template.page_limit:
        return ()
    return (
        PaperFinding(
            blocks=True,
            text=(
                f"the main text takes {ceil(pages)} pages, the limit is {template.page_limit}: shorten it by about "
                f"{max(pages - template.page_limit, 0.05):.1f} pages"
            ),
        ),
    )


def parse_chktex(output: str, source: str = "") -> tuple[PaperFinding, ...]:
    """Findings in chktex's lines `number:line`, each with its section and what stands there in paper.tex."""
    lines, texts = re.findall(r"^(\d+):(\d+)$", output, re.MULTILINE), source.splitlines()
    found = dict.fromkeys(
        f"{find_section(source, int(line))}: {CHKTEX_MESSAGES[number]}"
        + (
            f", in {' '.join(texts[int(line) - 1].split())[:MAX_EXCERPT_CHARS]!r}"
            if 0 < int(line) <= len(texts)
            else ""
        )
        for number, line in lines
        if number in CHKTEX_MESSAGES
    )
    return tuple(PaperFinding(text=text) for text in found)


def find_section(source: str, line: int) -> str:
    """The part of the draft that a line of paper.tex is of, as a writer knows it."""
    before = "\n".join(source.splitlines()[:line])
    titles = re.findall(r"^\\section\{(.*)\}$", before, re.MULTILINE)
    if titles:
        return f"section {titles[-1]!r}"
    return "abstract" if "\\begin{abstract}" in before else f"paper.tex line {line}"


WORDS_PER_PAGE = 550
PAGES_PER_FLOAT = 0.25
"""Pages of a figure or table."""
MIN_FILLED_SHARE = 0.6
"""Share of the limit below which a paper is too thin."""

_FLOAT = re.compile(r"\\paper(?:figure|table)\{[^}]*\}")
_MACRO = re.compile(r"\\(?:result|setup|ref|cite\w*)\{[^}]*\}")


def measure_sections(draft: PaperDraft, pages: float | None) -> tuple[SectionLength, ...]:
    """Abstract and sections in order. `pages` of main text in all, where they were counted."""
    texts = {"abstract": draft.abstract, **{section.title: section.body for section in draft.sections}}
    found = [
        (title, len(_MACRO.sub("x", _FLOAT.sub("", text)).split()), len(_FLOAT.findall(text)))
        for title, text in texts.items()
    ]
    estimates = [words / WORDS_PER_PAGE + PAGES_PER_FLOAT * floats for _, words, floats in found]
    scale = pages / sum(estimates) if pages and sum(estimates) else 1.0
    return tuple(
        SectionLength(title=title, words=words, floats=floats, pages=round(scale * estimate, 2))
        for (title, words, floats), estimate in zip(found, estimates, strict=True)
    )


def check_thinness(pages: float | None, limit: int) -> tuple[str, ...]:
    """A complaint on a paper that leaves much of its space unused."""
    if pages is None or pages >= MIN_FILLED_SHARE * limit:
        return ()
    return (
        f"the main text fills {pages:.1f} of {limit} pages: say more of method, settings, results and failures "
        "that the record holds",
    )


MAX_ABSTRACT_SENTENCES, MAX_ABSTRACT_NUMBERS = 6, 4
"""What an abstract has at most: a reader keeps no more. One number for each confirmatory effect is allowed in any case.
"""


def check_abstract(abstract: str, evidence: Evidence) -> tuple[str, ...]:
    """Complaints on an abstract that is longer, or prints more numbers, than a reader keeps; but for what the program
    itself says in it."""
    for statement in evidence.statements:
        abstract = abstract.replace(statement, "")
    count = sum(1 for _ in find_sentence_spans(scan(abstract)))

    def value(use: ResultMacroUse) -> str:
        found = evidence.find_value(use)
        return "" if found is None else to_plain_text(found)

    printed = fill_macros(abstract, value)
    plain = re.sub(r"\\([%&#_$])", r"\1", printed)
    typed = numbers.mask_matches(plain, numbers.compile_phrases(evidence.literals, evidence.names))
    found = [text for _, text in numbers.find_numbers(typed)]
    registered = evidence.plan.hypotheses if evidence.plan is not None else ()
    most = max(MAX_ABSTRACT_NUMBERS, sum(len(one.effects) for one in registered if one.confirmatory))
    long = f"the abstract has {count} sentences: make it {MAX_ABSTRACT_SENTENCES} at most, the finding first"
    full = (
        f"the abstract prints {len(found)} numbers ({', '.join(found)}): {most} at most; "
        r"\verdict{key.short} prints the estimate alone, tables have the rest"
    )
    return (*[long] * (count > MAX_ABSTRACT_SENTENCES), *[full] * (len(found) > most))
