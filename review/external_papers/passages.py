"""Extract the passages of a paper that state results: abstract, result sections, tables, captions.

Sections are selected by title; a section with an uninformative title is treated like the previous one. Method, related
work and setup are skipped, except for their tables and captions. Tables of a PDF have lost their columns and are read
line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from labwright.review.external_papers.printed_numbers import PrintedNumber, extract_numbers, find_unit_scales
from labwright.review.judge.paper_reader import Paper, PaperSection, split_numbered_text

PassageRole = Literal["abstract", "results", "table", "caption"]


@dataclass(frozen=True)
class PaperTableCell:
    """A table cell: its place, the labels of its row and column, and its text."""

    row: int
    column: int
    row_label: str
    column_label: str
    text: str

    @property
    def label(self) -> str:
        return f"{self.row_label} {self.column_label}"


@dataclass(frozen=True)
class PaperPassage:
    """A paragraph, a caption, or a table with its cells."""

    role: PassageRole
    section: str
    text: str
    cells: tuple[PaperTableCell, ...] = ()
    table: int = 0


@dataclass(frozen=True)
class ClaimedNumber:
    """A number with its location: the passage, the table cell, and the words around it."""

    number: PrintedNumber
    passage: PaperPassage
    context: str
    cell: PaperTableCell | None = None

    @property
    def where(self) -> str:
        if self.cell is not None:
            return (
                f"table {self.passage.table}, {self.cell.row_label or 'row ' + str(self.cell.row)} / "
                f"{self.cell.column_label or 'column ' + str(self.cell.column)}"
            )
        return f"{self.passage.role}, {self.passage.section}" if self.passage.section else self.passage.role


_RESULTS_TITLE = re.compile(
    r"result|experiment|evaluation|analys[ie]s|ablation|finding|comparison|performance|discussion|conclusion|benchmark"
    r"|empirical|robustness|limitation",
    re.I,
)
_OTHER_TITLE = re.compile(
    r"introduction|background|related|method|approach|preliminar|problem|framework|setup|set-up|setting|dataset|"
    r"implementation|model architecture|training details|baselines|metrics|protocol|notation|hardware|future|broader|"
    r"ethic|title|author",
    re.I,
)
_SKIPPED_TITLE = re.compile(r"^(?:\d+\.?\s*)?(?:references|bibliography|thebibliography|acknowledge?ments?)", re.I)
_CAPTION = re.compile(r"^[ \t>*_]*(?:table|tab\.|figure|fig\.)\s*[A-Z]?\d+\s*\**\s*[:.|]", re.I | re.M)
_CHANGE_WORDS = re.compile(
    r"drop|reduc|decreas|degrad|improve|change|gain|loss|gap|differ|delta|\u0394|\\Delta|saving", re.I
)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_TABLE_RULE = re.compile(r"^[\s|:+=]*-[\s|:+=-]*$")
_TABLE = re.compile(r"^[^|\n]*\|[^|\n]*\|.*\n(?=.*\|)[ \t|:+=]*-[ \t|:+=-]*(?:\n[^|\n]*\|.*)*$", re.M)
_SMALL_HEADING = re.compile(r"^[ \t]*\*\*(?:\d[\d.]*\s+)?([^*\n]{3,70}?)[.:]?\*\*[ \t]*$", re.M)
_SENTENCE = re.compile(r"(?<=[.!?;])(?<!\bvs\.)(?<!\bFig\.)(?<!e\.g\.)(?<!i\.e\.)(?<!al\.)\s+(?=[A-Z*(\[])|\n")


def extract_passages(paper: Paper) -> tuple[PaperPassage, ...]:
    """Return the passages to audit, in order."""
    passages = list(_read_passages(paper))
    numbers = accumulate(int(passage.role == "table") for passage in passages)
    return tuple(
        replace(passage, table=number) if passage.cells else passage
        for passage, number in zip(passages, numbers, strict=True)
    )


def extract_claims(passages: Iterable[PaperPassage]) -> tuple[ClaimedNumber, ...]:
    """Return every number of the passages.

    In a table, a number without a sign is positive, unless it is labelled as a change.
    """
    claims: list[ClaimedNumber] = []
    for passage in passages:
        for cell in passage.cells:
            scales = find_unit_scales(cell.column_label.rpartition("(")[2])
            for number in extract_numbers(cell.text, "cell"):
                sign = number.sign or ("" if _CHANGE_WORDS.search(cell.label) else "+")
                number = replace(
                    number,
                    percent=number.percent or "%" in cell.label,
                    sign=sign,
                    unit_scales=number.unit_scales or scales,
                )
                claims.append(ClaimedNumber(number, passage, f"{cell.label} {cell.text}", cell))
        ends = [match.end() for match in _SENTENCE.finditer(passage.text)]
        for number in extract_numbers(passage.text) if not passage.cells else ():
            begin = max((end for end in ends if end <= number.at), default=0)
            end = min((end for end in ends if end > number.at), default=len(passage.text))
            claims.append(ClaimedNumber(number, passage, passage.text[begin:end].strip()))
    return tuple(claims)


def _read_passages(paper: Paper) -> Iterator[PaperPassage]:
    role: PassageRole | None = "abstract"
    number, outer = "", role
    for part in list_sections(paper):
        title = part.title.strip(" *#")
        if _SKIPPED_TITLE.match(title):
            role = None
            continue
        inner = number and title.startswith(f"{number}.") and re.match(r"\d+\.\d", title)
        role = _subsection_role(title, outer) if inner else _section_role(title, role)
        if not inner:
            number, outer = (re.match(r"\d+\b(?!\.\d)", title) or [""])[0], role
        yield from (
            _read_latex(part, title, role) if paper.form == "LaTeX" else _read_lines(part, title, role, paper.form)
        )


def list_sections(paper: Paper) -> tuple[PaperSection, ...]:
    """Return the sections; numbered Markdown headings without a `#` are found as in a PDF."""
    if paper.form in ("Markdown", "text") and sum(bool(part.title) for part in paper.sections) < 4:
        return split_numbered_text("\n".join(f"{part.title}\n{part.text}" for part in paper.sections))
    return paper.sections


def _section_role(title: str, before: PassageRole | None) -> PassageRole | None:
    if re.match(r"(?:\d+\.?\s*)?abstract", title, re.I):
        return "abstract"
    if _is_skipped_section(title):
        return None
    if _RESULTS_TITLE.search(title):
        return "results"
    return None if before == "abstract" and re.match(r"\d", title) else before


def _subsection_role(title: str, above: PassageRole | None) -> PassageRole | None:
    """Return the role of the text under a subheading: in a section that is read, it is read unless it is setup;
    elsewhere, only results are read.
    """
    if above is None:
        return "results" if re.search(r"result|finding", title, re.I) else None
    return None if _is_skipped_section(title) else above


def _is_skipped_section(title: str) -> bool:
    return bool(_OTHER_TITLE.search(title)) and not re.search(r"result|analys|finding", title, re.I)


# --- Markdown, text, PDF --------------------------------------------------------------------------------------------


def _read_lines(part: PaperSection, title: str, role: PassageRole | None, form: str) -> Iterator[PaperPassage]:
    text, at, inside = _IMAGE.sub(r"Figure: \1", part.text), 0, role
    for table in (*_TABLE.finditer(text), None):
        prose = text[at : table.start() if table else None]
        for block in re.split(r"\n\s*\n", _SMALL_HEADING.sub(r"\n\n\g<0>\n\n", _CAPTION.sub(r"\n\n\g<0>", prose))):
            if heading := _SMALL_HEADING.fullmatch(block):
                inside = _subsection_role(heading[1], role)
            elif block.strip():
                yield from _read_paragraph(block.strip(), title, inside, form)
        if table:
            lines = (row.strip() for row in table[0].split("\n") if not _TABLE_RULE.match(row))
            bare = (row.replace(r"\|", "\x02").removeprefix("|").removesuffix("|") for row in lines)
            rows = [[cell.replace("\x02", "|").strip() for cell in row.split("|")] for row in bare]
            yield PaperPassage("table", title, table[0], tuple(_build_cells(rows)))
            at = table.end()


def _read_paragraph(text: str, title: str, role: PassageRole | None, form: str) -> Iterator[PaperPassage]:
    if _CAPTION.match(text) or text.startswith("Figure: "):
        yield PaperPassage("caption", title, text.removeprefix("Figure: "))
        return
    lines = text.split("\n")
    rows = [
        line
        for line in lines
        if form == "PDF" and len(extract_numbers(line, "cell")) >= 2 and len(re.findall(r"[A-Za-z]{2,}", line)) <= 6
    ]
    if len(rows) >= 2 and len(rows) * 2 >= len(lines):
        yield PaperPassage("table", title, text)
    elif role is not None:
        yield PaperPassage(role, title, text)


def _build_cells(rows: list[list[str]]) -> Iterator[PaperTableCell]:
    """Yield the cells of a table.

    The first row labels the columns; a first column of words or seeds labels the rows.
    """
    heads = [_strip_markdown(cell) for cell in rows[0]] if rows else []
    for at, row in enumerate(rows[1:], 1):
        label = _strip_markdown(row[0]) if row else ""
        for column, text in enumerate(row[1:], 1):
            head = heads[column] if column < len(heads) else ""
            yield PaperTableCell(at, column, label, head, text)


def _strip_markdown(text: str) -> str:
    text = re.sub(r"\\multi(?:row|column)\{[^{}]*\}\{[^{}]*\}", "", text)
    text = re.sub(r"\\(?:textbf|textit|emph|mathbf|mathrm|text|textsc)\b|[*$`{}]", "", text)
    return re.sub(r"\s+", " ", text.replace("\\%", "%")).strip()


# --- LaTeX ----------------------------------------------------------------------------------------------------------

_TABULAR = re.compile(r"\\begin\{(tabular[x*]?|longtable)\}(.*?)\\end\{\1\}", re.DOTALL)
_LATEX_CAPTION = re.compile(
    r"\\caption(?:of\{\w+\})?(?:\[[^\]]*\])?\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}", re.DOTALL
)
_ENVIRONMENT = re.compile(r"\\begin\{(table|figure)(\*?)\}.*?\\end\{\1\2\}", re.DOTALL)
_UNPRINTED_COMMAND = re.compile(
    r"\\(?:label|ref|eqref|autoref|cref|Cref|includegraphics|vspace|hspace|setlength|renewcommand|resizebox|cmidrule|"
    r"cline|bibliography\w*|input|url|href|footnotesize|usepackage|documentclass)\*?"
    r"(?:\([^)]*\))?(?:\[[^\]]*\])*(?:\{[^{}]*\})*"
)


def _read_latex(part: PaperSection, title: str, role: PassageRole | None) -> Iterator[PaperPassage]:
    for match in _LATEX_CAPTION.finditer(part.text):
        yield PaperPassage("caption", title, _strip_latex(match[1]))
    for match in _TABULAR.finditer(part.text):
        yield PaperPassage("table", title, match[0], tuple(_build_cells(_split_latex_rows(match[2]))))
    if role is None:
        return
    prose = _TABULAR.sub(" ", _ENVIRONMENT.sub("\n\n", _LATEX_CAPTION.sub(" ", part.text)))
    for paragraph in re.split(r"\n\s*\n", prose):
        if paragraph.strip():
            yield PaperPassage(role, title, _strip_latex(paragraph))


def _split_latex_rows(body: str) -> list[list[str]]:
    """Return the cell texts of each row; a cell that spans columns is followed by empty cells."""
    body = re.sub(r"^(?:\s*\[[^\]]*\])?(?:\s*\{(?:[^{}]|\{[^{}]*\})*\}){1,2}", "", body, count=1)
    body = re.sub(
        r"\\(?:toprule|midrule|bottomrule|hline|addlinespace)(?:\[[^\]]*\])?", "", _UNPRINTED_COMMAND.sub("", body)
    )
    rows: list[list[str]] = []
    for row in re.split(r"\\\\(?:\[[^\]]*\])?", body):
        cells: list[str] = []
        for cell in re.split(r"(?<!\\)&", row):
            span = re.search(r"\\multicolumn\{(\d+)\}\{[^{}]*\}\{((?:[^{}]|\{[^{}]*\})*)\}", cell)
            if span and int(span[1]) < 50:
                cells += [span[2], *[""] * (int(span[1]) - 1)]
            else:
                cells.append(re.sub(r"\\multirow\{[^{}]*\}\{[^{}]*\}", "", cell))
        if any(cell.strip() for cell in cells):
            rows.append(cells)
    return rows


def _strip_latex(text: str) -> str:
    text = re.sub(r"\\(?:textbf|textit|emph|mathbf|text|mathrm)\b|\\[,;!]", "", _UNPRINTED_COMMAND.sub("", text))
    return text.replace("\\%", "%")
