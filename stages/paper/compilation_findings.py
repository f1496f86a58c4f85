"""Turn the output of a compilation into short findings that a writer can act on.

Also check the page limit and the length of the abstract.
"""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

from labwright.record.result_macros import ResultMacroUse, fill_macros, is_interval_form, to_plain_text
from labwright.record.schema.paper import PaperFinding
from labwright.review.evidence import Evidence, find_sentence_spans, numbers, scan
from labwright.stages.paper.template import PaperTemplate

MIN_OVERFULL_POINTS = 10.0
"""Points by which a line must be overfull to be a finding."""
MIN_TABLE_PERCENT = 70
"""Scale in percent below which a shrunk table is a finding."""
MAX_EXCERPT_CHARS = 100
"""Characters of a source line shown in a finding."""
CHKTEX_MESSAGES = {
    "16": "a formula is still open at the end of the paragraph",
    "18": "typed quotes: write ``...''",
    "26": "space before a punctuation mark",
}
"""Warnings of chktex that matter for text written by a model; other warnings are a matter of taste."""


def parse_log(log: str, source: str = "") -> tuple[PaperFinding, ...]:
    """Return the findings in a LaTeX log: references, citations, overfull boxes, missing characters. `source` is
    paper.tex."""
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
                        f"{where}{': ' if where else ''}a line is too wide by {float(match[1]):.0f} pt"
                        f"{match[2].replace(' in paragraph', ',')}: reword it"
                    ),
                )
            )
    for match in re.finditer(r"Overfull \\vbox \(([\d.]+)pt too high\)", log):
        if float(match[1]) > MIN_OVERFULL_POINTS:
            found.append(PaperFinding(text=f"a page is overfull by {float(match[1]):.0f} pt: shorten a float"))
    lines = [
        f"the table {name!r} is shrunk to {percent} %: it is too wide or too long for the page"
        for name, percent in re.findall(r"paper: table (\S+) is set at (\d+) percent", log)
        if int(percent) < MIN_TABLE_PERCENT
    ]
    lines += [f"missing character: {line}" for line in re.findall(r"Missing character: (.*)", log)]
    lines += [f"the label {name!r} is defined twice" for name in re.findall(r"Label `([^']*)' multiply defined", log)]
    return tuple(dict.fromkeys((*found, *(PaperFinding(text=line) for line in lines))))


def measure_pages(folder: Path, floats: tuple[str, ...]) -> float | None:
    """Return the pages of main text, counting the used part of the last page up to the end of the text or its last
    float, from the .aux file. References and appendix do not count."""
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
    """Return a finding if the main text exceeds the template's page limit."""
    if ceil(pages) <= template.page_limit:
        return ()
    return (
        PaperFinding(
            blocks=True,
            text=(
                f"the main text takes {pages:.1f} pages, the limit is {template.page_limit}: shorten it by about "
                f"{max(pages - template.page_limit, 0.05):.1f} pages"
            ),
        ),
    )


def parse_chktex(output: str, source: str = "") -> tuple[PaperFinding, ...]:
    """Convert chktex's lines `number:line` to findings, each with its section and the text of that line of
    paper.tex."""
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
    """Return the part of the draft, by the writer's name for it, that contains a line of paper.tex."""
    before = "\n".join(source.splitlines()[:line])
    titles = re.findall(r"^\\section\{(.*)\}$", before, re.MULTILINE)
    if titles:
        return f"section {titles[-1]!r}"
    return "abstract" if "\\begin{abstract}" in before else f"paper.tex line {line}"


MIN_FILLED_SHARE = 0.6
"""Share of the page limit below which a paper is too short."""


def check_thinness(pages: float | None, limit: int) -> tuple[str, ...]:
    """Return a complaint if a paper leaves much of its space unused."""
    if pages is None or pages >= MIN_FILLED_SHARE * limit:
        return ()
    return (
        f"the main text fills {pages:.1f} of {limit} pages: report more of the method, settings, results and failures "
        "in the record",
    )


MAX_ABSTRACT_SENTENCES, MAX_ABSTRACT_NUMBERS = 6, 4
"""Limits of an abstract. One number per confirmatory effect is always allowed."""


def check_abstract(abstract: str, evidence: Evidence) -> tuple[str, ...]:
    """Return complaints about an abstract with too many sentences or numbers; statements added by the
    program, intervals with their confidence, levels and registered margins do not count."""
    for statement in evidence.statements:
        abstract = abstract.replace(statement, "")
    count = sum(1 for _ in find_sentence_spans(scan(abstract)))

    def value(use: ResultMacroUse) -> str:
        found = evidence.find_value(use)
        declared = use.macro == "setup" and use.key.startswith(("level.", "margin.", "bound."))
        return "" if found is None or declared or is_interval_form(use.key) else to_plain_text(found)

    printed = fill_macros(abstract, value)
    plain = re.sub(r"\\([%&#_$])", r"\1", printed)
    found = [text for _, text in numbers.find_numbers(evidence.mask_typed(plain))]
    registered = evidence.plan.hypotheses if evidence.plan is not None else ()
    most = max(MAX_ABSTRACT_NUMBERS, sum(len(one.effects) for one in registered if one.confirmatory))
    long = f"the abstract has {count} sentences: use at most {MAX_ABSTRACT_SENTENCES}, the finding first"
    full = (
        f"the abstract prints {len(found)} numbers ({', '.join(found)}): use at most {most}, intervals not counted; "
        "tables have the rest"
    )
    return (*[long] * (count > MAX_ABSTRACT_SENTENCES), *[full] * (len(found) > most))
