"""Produce LaTeX fragments: printable characters, escaped text of the record, aligned columns, tables across pages."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from labwright.record.claims.sentences import join_names
from labwright.record.result_macros import has_number_word
from labwright.record.schema.data_plan import to_words

_DECLARED_CHARACTER = re.compile(r"\\DeclareUnicodeCharacter\{([0-9A-F]{4,6})\}")
_LATIN = frozenset(map(chr, range(0xC0, 0x180))) - frozenset("ĦħĸĿŀŉŦŧĄąſ\u00d7\u00f7")
_PRINTABLE = (
    _LATIN | frozenset(map(chr, range(32, 127))) | frozenset("\n\t") | frozenset("ĄąŊŋ¡¿§¶©®ªº£¥€™†‡•…‰‹›«»‘’‚“”„–—")
)
_DROPPED_CHARACTERS = frozenset("\ufeff\u00ad\u2060\u200c\u200d\u200e\u200f")
FALLBACK_MACRO = r"\unknowncharacter{}"
MAX_REASON_CHARS = 260
"""Maximum characters of one reason."""
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:,'\"\]]+/)+")


def replace_unprintable(texts: Mapping[str, str], styles: Iterable[Path]) -> tuple[dict[str, str], list[str]]:
    """Return the texts with a visible box for every character that neither T1 nor these styles can print, and a line
    for each such character."""
    declared = (code for path in styles for code in _DECLARED_CHARACTER.findall(path.read_text(encoding="utf-8")))
    printable = _PRINTABLE | {chr(int(code, 16)) for code in declared}
    normal = {name: unicodedata.normalize("NFC", text) for name, text in texts.items()}
    unknown = sorted(set("".join(normal.values())) - printable - _DROPPED_CHARACTERS)
    boxes = str.maketrans(dict.fromkeys(_DROPPED_CHARACTERS, "") | dict.fromkeys(unknown, FALLBACK_MACRO))
    lines = [
        f"the character {char!r} (U+{ord(char):04X}, {unicodedata.name(char, 'no name').lower()}) cannot be printed "
        "and was replaced by a box: spell it out"
        for char in unknown
    ]
    return {name: text.translate(boxes) for name, text in normal.items()}, lines


_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "_": r"\_\allowbreak{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "$": r"\$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\`{}",
    "=": r"=\allowbreak{}",
    "/": r"/\allowbreak{}",
    "@": r"@\allowbreak{}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",  # after the end of a row, and in a label, these would be parsed as arguments
}


def escape(text: str) -> str:
    """Escape plain text for TeX, on one line, with break points after signs in long names, no space before %, and both
    hyphens of options."""
    escaped = "".join(_ESCAPES.get(char, char) for char in re.sub(r"(?<=\d) %", "%", " ".join(text.split())))
    return re.sub(r"--(?=[A-Za-z])", "-{}-", escaped)


def mark_recorded(text: object) -> str:
    """Convert text of the record to TeX, with each number (also in words) in `\\rec{}`, which marks it as printed by
    the program."""
    words = " ".join(str(text).split()).split(" ")
    marked = " ".join(
        rf"\rec{{{escape(word)}}}"
        if has_number_word(word) or any(unicodedata.numeric(char, None) is not None for char in word)
        else escape(word)
        for word in words
    )
    return marked.replace(r"} \%", r"}\%")


def capitalise(text: str) -> str:
    """Return text with a capital at its start, unless it starts with a symbol or a variable, such as `k = 5`."""
    return text[:1].upper() + text[1:] if re.match(r"[^\W\d_]{2}|a [^\W\d_]", text) else text


def shorten(text: object, limit: int = MAX_REASON_CHARS) -> str:
    """Return the string on one line, cut at a word boundary, without folders of this machine."""
    text = _FOLDERS.sub(".../", " ".join(str(text).split()))
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " ..."


def format_row(cells: Iterable[str]) -> str:
    """Format TeX cells as a table row."""
    return " & ".join(cells) + r" \\"


def format_recorded_row(*cells: object) -> str:
    """Format values of the record as a table row."""
    return format_row(map(mark_recorded, cells))


def format_tabular(titles: Sequence[str], types: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Format TeX cells as a table that stays on one page; a row of one cell is the heading of the rows below it."""
    lines = [r"\toprule", format_row(titles), r"\midrule"]
    for row in rows:
        if len(row) == 1:
            lines += [r"\addlinespace[3pt]"] * (lines[-1] != r"\midrule")
            row = [rf"\multicolumn{{{len(titles)}}}{{@{{}}l}}{{\textit{{{row[0]}}}}}"]
        lines.append(format_row(row))
    body = "\n".join((*lines, r"\bottomrule"))
    return f"\\begin{{tabular}}{{@{{}}{''.join(types)}@{{}}}}\n{body}\n\\end{{tabular}}"


TABLE_WIDTH_INCHES = 5.6
"""Width in inches that table columns are designed for."""
MAX_UNBROKEN_ROWS = 14
"""Maximum rows of a table that no page break may divide."""
_WIDTH = re.compile(r"\{([\d.]+)in\}")


def format_longtable(name: str, columns: Mapping[str, str], caption: str, *, caller: Callable[[], str]) -> str:
    """Format a template's rows as a small table with its head on every page, labelled `tab:record-NAME`.

    `columns` maps each title to its type. Widths are inches on a page of `TABLE_WIDTH_INCHES`. A table with such
    columns fills the text width, and these columns absorb the difference to another page width.
    """
    rows, caption = [one for one in _join_lines(caller()).split("\n") if one], _join_lines(caption).strip()
    if len(rows) <= MAX_UNBROKEN_ROWS:
        rows = [f"{one}*" if one.endswith(r"\\") else one for one in rows]
    body = "\n".join(rows)
    head, types = " & ".join(columns), f"@{{}}{''.join(columns.values())}@{{}}"
    spread = "in}" in types
    total = sum(float(width) for width in _WIDTH.findall(types))
    types = _WIDTH.sub(
        lambda width: (
            rf"{{\dimexpr{width[1]}in+{float(width[1]) / total:.3f}\dimexpr"
            rf"\linewidth-{TABLE_WIDTH_INCHES}in\relax\relax}}"
        ),
        types,
    )
    if spread:
        types = types.replace("@{}", r"@{\extracolsep{\fill}}", 1)
    edges = r"\fullwidth" if spread else ""
    return (
        f"\\begingroup\\scriptsize\\setlength\\tabcolsep{{3pt}}{edges}\n"
        f"\\begin{{longtable}}{{{types}}}\n\\caption{{{caption}}}\\label{{tab:record-{name}}}\\\\\n"
        f"\\toprule\n{head} \\\\\n\\midrule\n\\endfirsthead\n\\toprule\n{head} \\\\\n\\midrule\n\\endhead\n"
        f"\\bottomrule\n\\endlastfoot\n{body}\n\\end{{longtable}}\n\\endgroup\n"
    )


def render_template(name: str, values: Mapping[str, Any]) -> str:
    """Render a template of this package. Filters: `rec`, `words`, `short`, `names` (joins them). An indented line
    continues the previous one."""
    text = _join_lines(_get_environment().get_template(name).render(values))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


@functools.cache
def _get_environment() -> SandboxedEnvironment:
    """Return the environment of this package's templates, which compiles each of them once."""
    environment = build_tex_environment(FileSystemLoader(Path(__file__).parent))
    filters: dict[str, Any] = environment.filters
    filters.update({"rec": mark_recorded, "words": to_words, "short": shorten, "names": join_names})
    return environment


def build_tex_environment(loader: BaseLoader) -> SandboxedEnvironment:
    """Build an environment for templates whose delimiters do not clash with TeX. Templates get values and cannot run
    Python."""
    return SandboxedEnvironment(
        loader=loader,
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )


def _join_lines(text: str) -> str:
    return re.sub(r"[ \t]*\n {2,}", " ", text)
