"""Stretches of LaTeX, Markdown and HTML that are written but not shown to a reader.

By the usual ways: white, tiny, transparent, shifted off the page, phantom boxes, arguments that a macro drops, elements
that are not displayed, link definitions. Definitions are looked up where they stand; nothing is executed.

What it does not find: what only TeX or a browser could know, such as a macro that builds a command, or a style sheet.
Judge the PDF where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from review.judge.guards.letters import Stretch, merged
from review.judge.sections import after_group

_GROUP = r"\{[^{}]*\}"
_SPEC = r"(?:\[(?P<model>\w+)\])?\s*\{(?P<colour>[^{}]*)\}"
_BOXED = re.compile(r"\\(?:cell|row|page|f?colou?r(?:box)?)\w*\s*(?:\[\w+\])?\s*\{(?P<ground>[^{}]*)\}[^\n]{0,60}$")
_UNIT = {"pt": 1.0, "bp": 1.0, "mm": 2.8, "cm": 28.0, "in": 72.0, "em": 10.0, "ex": 4.0, "sp": 0.0}
_NEVER = re.compile(
    r"\\(?:h|v)?phantom\s*(?=\{)|\\(?:typeout|message|wlog|special|pdfinfo|hypersetup|@gobble|@secondoftwo|sbox\s*\d+|"
    r"savebox\s*\{[^{}]*\}|setbox\s*\d+\s*=?\s*\\[hv]box)\s*(?=\{)")
_SHRUNK = re.compile(r"\\(?:scalebox\s*\{\s*(?P<factor>[\d.]+)\s*\}"
                     r"|resizebox\*?\s*\{\s*(?P<wide>[\d.]+)\s*(?P<unit>[a-z]{2})\s*\}"
                     r"\s*\{[^{}]*\}|raisebox\s*\{\s*-?\s*(?P<rise>[\d.]+)\s*(?P<up>[a-z]{2})\s*\}|"
                     r"texttransparent\s*\{\s*(?P<clear>[\d.]+)\s*\})\s*(?:\[[^\]]*\])*\s*(?=\{)")
_COLOURED = re.compile(rf"\\textcolou?r\s*{_SPEC}\s*(?=\{{)")
_SWITCH = re.compile(rf"\\colou?r\s*{_SPEC}|\\fontsize\s*\{{\s*(?P<size>[\d.]+)\s*(?P<sized>[a-z]{{2}})?\s*\}}|"
                     r"\\transparent\s*\{\s*(?P<clear>[\d.]+)\s*\}")
_OFF = re.compile(r"\\(?:[hv]space\*?\s*\{\s*|kern\s*|hskip\s*)-\s*(?P<far>[\d.]+)\s*(?P<unit>[a-z]{2})\s*\}?")
_UNPRINTED = re.compile(
    r"\\begin\{(filecontents\*?|lrbox|comment)\}.*?\\end\{\1\}|\\if(?:false|0|num\s*0\s*[=>]\s*[1-9])\b.*?\\fi\b|"
    r"\\pdfliteral\s*(?:direct|page)?\s*\{\s*3 Tr\s*\}.*?(?:\\pdfliteral\s*(?:direct|page)?\s*\{\s*[0-2] Tr\s*\}"
    r"|\Z)", re.DOTALL)
_DEFINED = re.compile(r"\\definecolou?r\s*\{(?P<name>[^{}]*)\}\s*\{(?P<model>[^{}]*)\}\s*\{(?P<colour>[^{}]*)\}|"
                      r"\\colorlet\s*\{(?P<alias>[^{}]*)\}\s*\{(?P<of>[^{}]*)\}")
_MACRO = re.compile(r"\\(?:(?:re|provide)?newcommand\*?|renewcommand\*?|providecommand\*?"
                    r"|DeclareRobustCommand\*?)\s*\{?\\"
                    r"(?P<name>[A-Za-z]+)\}?\s*\[1\]\s*\{|\\def\s*\\(?P<plain>[A-Za-z]+)\s*#1\s*\{")

_STYLE = (r"(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0*[0-2](?:\.\d*)?\s*(?:px|pt|em|rem"
          r"|%)?\s*[;\"']|opacity\s*:\s*0(?:\.[01]\d*)?\s*[;\"']|(?<![-\w])color\s*:\s*(?:white|#f{3,8}\b"
          r"|#f[a-f0-9]f[a-f0-9]f[a-f0-9]\b|rgba?\(\s*2[45]\d\s*,\s*2[45]\d\s*,\s*2[45]\d)|text-indent\s*:\s*-\d{3,}"
          r"|left\s*:\s*-\d{3,}|\shidden[\s=>]|(?<![-\w])color\s*=\s*[\"']?(?:white|#f{3,8}\b))")
_HTML = re.compile(
    rf"<(?P<tag>[a-z]\w*)\b[^<>]*{_STYLE}[^<>]*>.*?(?:</(?P=tag)\s*>|\Z)|<(?P<never>script|style|template"
    rf"|noscript)\b.*?"
    r"(?:</(?P=never)\s*>|\Z)|<meta\b[^<>]*>", re.IGNORECASE | re.DOTALL)
_DEFINITION = re.compile(r"^[ ]{0,3}\[(?!\^)[^\]\n]+\]:[ \t]*(?:#|<>|\S+)[ \t]+(?:\"[^\n]*\"|'[^\n]*'"
                         r"|\([^\n]*\))[ \t]*$",
                         re.MULTILINE)


def unshown(text: str, form: str, preamble: str = "") -> list[Stretch]:
    """Begin and end of every stretch of a paper's source that a reader of the finished paper does not see."""
    if form == "LaTeX":
        return merged(_latex(text, preamble))
    return merged(match.span() for pattern in (_HTML, _DEFINITION) for match in pattern.finditer(text))


def _latex(text: str, preamble: str) -> Iterator[Stretch]:
    white = _whites(f"{preamble}\n{text}")
    yield from (match.span() for match in _UNPRINTED.finditer(text))
    for name in _dropping(f"{preamble}\n{text}"):
        yield from _arguments(re.compile(rf"\\{name}\s*(?=\{{)"), text)
    yield from _arguments(_NEVER, text)
    for match in _SHRUNK.finditer(text):
        if _vanishes(match):
            yield match.start(), _closed(text, match.end() + 1)
    for match in _COLOURED.finditer(text):
        if _is_white(match["model"], match["colour"], white) and not _on_colour(text, match.start(), white):
            yield match.start(), _closed(text, match.end() + 1)
    for match in _SWITCH.finditer(text):
        tiny = match["size"] is not None and _points(match["size"], match["sized"] or "pt") < 3
        clear = match["clear"] is not None and float(match["clear"]) < 0.1
        if tiny or clear or (match["colour"] is not None and _is_white(match["model"], match["colour"], white)
                             and not _on_colour(text, match.start(), white)):
            yield match.start(), _group_end(text, match.end())
    for match in _OFF.finditer(text):
        if _points(match["far"], match["unit"]) > 280:
            paragraph = text.find("\n\n", match.end())
            yield match.start(), paragraph if paragraph >= 0 else len(text)


def _arguments(command: re.Pattern[str], text: str) -> Iterator[Stretch]:
    for match in command.finditer(text):
        yield match.start(), _closed(text, match.end() + 1)


def _vanishes(match: re.Match[str]) -> bool:
    if match["factor"]:
        return float(match["factor"].strip(".") or 0) < 0.25
    if match["clear"]:
        return float(match["clear"].strip(".") or 0) < 0.1
    if match["wide"]:
        return _points(match["wide"], match["unit"]) < 12
    return _points(match["rise"], match["up"]) > 280


def _points(number: str, unit: str) -> float:
    return float(number.strip(".") or 0) * _UNIT.get(unit, 1.0)


def _closed(text: str, begin: int) -> int:
    """The place after the brace that closes the one before `begin`; the end of the text if none does."""
    end = after_group(text, begin)
    return len(text) if end is None else end


def _group_end(text: str, begin: int) -> int:
    """Where a switch ends: at the brace or environment that it stands in, or at the next colour or size."""
    end = max(begin, _closed(text, begin) - 1) if _closed(text, begin) < len(text) else len(text)
    after = re.compile(r"\\(?:colou?r\s*\{|normalcolou?r|normalsize|fontsize|end\{)").search(text, begin)
    return min(end, after.start()) if after else end


# --- colours --------------------------------------------------------------------------------------------------------


def _whites(text: str) -> set[str]:
    """Names that mean white or nearly white."""
    names = {"white"}
    for match in _DEFINED.finditer(text):
        if match["name"] and _is_white(match["model"], match["colour"], names):
            names.add(match["name"].strip())
        elif match["alias"] and _is_white(None, match["of"], names):
            names.add(match["alias"].strip())
    return names


def _is_white(model: str | None, colour: str, names: set[str]) -> bool:
    if model is None:
        base, *mixed = colour.split("!")
        share = float(mixed[0]) if mixed and re.fullmatch(r"\d+(?:\.\d+)?", mixed[0]) else 100.0
        other = mixed[1] if len(mixed) > 1 else "white"
        if base.strip() in names:
            return share >= 90 or other.strip() in names
        return other.strip() in names and bool(mixed) and share <= 8
    if model == "HTML":
        return bool(re.fullmatch(r"(?:[Ee][6-9A-Fa-f]|[Ff][0-9A-Fa-f]){3}", colour.strip()))
    values = [float(one) for one in re.findall(r"\d*\.?\d+", colour)]
    most = {"RGB": 230.0, "cmyk": 0.0}.get(model, 0.9)
    return bool(values) and (max(values) <= 0.08 if model == "cmyk" else min(values) >= most)


def _on_colour(text: str, begin: int, white: set[str]) -> bool:
    """Whether white text stands on a ground of a colour of its own, as in the head of a table."""
    line = text[text.rfind("\n", 0, begin) + 1:begin]
    match = _BOXED.search(line)
    return match is not None and not _is_white(None, match["ground"], white)


def _dropping(text: str) -> set[str]:
    """Macros of one argument that they do not print."""
    names: set[str] = set()
    for match in _MACRO.finditer(text):
        if "#1" not in text[match.end():_closed(text, match.end())]:
            names.add(match["name"] or match["plain"])
    return names
