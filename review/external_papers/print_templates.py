"""Patterns for lines that code can print, built from the literal strings and the values between them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MIN_SPECIFIC_LETTERS = 4
"""Minimum letters that a template needs to be recognised."""


@dataclass(frozen=True)
class PrintTemplate:
    """A line that code can print: its pattern, its literal letters, and its place in the code."""

    pattern: re.Pattern[str]
    words: str
    file: str
    line: int


def called_name(call: ast.Call) -> str:
    """Return the last part of the called function's name; "" if it has none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def build_name_value_template(call: ast.Call, path: str) -> Iterator[PrintTemplate]:
    """Yield the template of a call that prints names and values: its literal text, then the names passed."""
    given = split_expression(call.args[0]) if call.args else ()
    texts = [piece for piece in given if isinstance(piece, str) and piece.strip()]
    names = [word.arg for word in call.keywords if word.arg]
    if sum(map(len, (*texts, *names))) >= MIN_SPECIFIC_LETTERS:
        parts = [*map(_escape_pattern, texts), *(rf"\b{re.escape(name)}\b" for name in names)]
        longest = max((*(text.strip() for text in texts), *names), key=len)
        yield PrintTemplate(re.compile(r".{0,400}?".join(parts)), longest, path, call.lineno)


@dataclass(frozen=True)
class TemplateHole:
    """A value in a printed string: the pattern of what its format can print."""

    pattern: str = r".{0,400}?"


_FLOAT = r"[-+ ]*(?:[\d,_]*\d\.\d{%s}|nan|inf)"


def _parse_hole(form: str) -> TemplateHole:
    """Parse a format such as `.4f`, `5d` or `.1%`; any other format matches anything."""
    match = re.fullmatch(r"[^.\d]*[<>^=+\- ]?\d*,?(?:\.(\d+))?([fFdi%e]?)", form)
    if match is None or not match[2]:
        return TemplateHole()
    if match[2] in "di":
        return TemplateHole(r"[-+ ]*\d[\d,_]*")
    if match[2] == "e":
        return TemplateHole(r"[-+ ]*(?:\d[\d.]*e[-+]?\d+|nan|inf)")
    places = match[1] or "6"
    body = _FLOAT % places if places != "0" else r"[-+ ]*(?:\d[\d,_]*|nan|inf)"
    return TemplateHole(rf"{body}%" if match[2] == "%" else body)


def split_expression(node: ast.expr, records: Mapping[str, ast.Dict] = {}) -> Iterator[str | TemplateHole]:
    """Yield literal strings and holes in order; `records` are the dictionaries that names are bound to."""
    if isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else TemplateHole()
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) and not _format_spec(part) else None
            if isinstance(part, ast.Constant) or (isinstance(inner, ast.Call) and called_name(inner) == "dumps"):
                yield from split_expression(inner or part, records)
            else:
                yield _parse_hole(_format_spec(part))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from (*split_expression(node.left, records), *split_expression(node.right, records))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield from _split_format_string(node.left, PERCENT_FORMAT)
    elif isinstance(node, ast.Call) and called_name(node) == "format" and isinstance(node.func, ast.Attribute):
        yield from _split_format_string(node.func.value, r"\{[^{}:]*(?::([^{}]*))?\}")
    elif (
        isinstance(node, ast.Call)
        and called_name(node) == "join"
        and isinstance(node.func, ast.Attribute)
        and node.args
    ):
        inner = node.args[0]
        elements = (
            [inner.elt]
            if isinstance(inner, ast.GeneratorExp | ast.ListComp)
            else (inner.elts if isinstance(inner, ast.List | ast.Tuple) else [])
        )
        for element in elements:
            yield "\n"
            yield from split_expression(element)
        yield TemplateHole()
    elif isinstance(node, ast.Dict):
        yield from _split_dict(node, records)
    elif (
        isinstance(node, ast.Call)
        and called_name(node) == "dumps"
        and node.args
        and not any(word.arg in ("sort_keys", "indent") for word in node.keywords)
    ):
        yield from _split_dict(node.args[0], records)
    else:
        yield TemplateHole()


def _split_dict(node: ast.expr, records: Mapping[str, ast.Dict]) -> Iterator[str | TemplateHole]:
    """Yield a dictionary as a JSON line: its keys in order, possibly followed by others."""
    found = records.get(node.id) if isinstance(node, ast.Name) else node
    yield TemplateHole()
    for key in found.keys if isinstance(found, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield f'{JSON_NAME_PREFIX}{key.value}":'
        yield TemplateHole()


JSON_NAME_PREFIX = '"'
"""Start of the name of a value in a JSON line."""
PERCENT_FORMAT = r"%[-+ #0]*\d*((?:\.\d+)?[sdifgeExr])"


def _format_spec(part: ast.expr) -> str:
    spec = part.format_spec if isinstance(part, ast.FormattedValue) else None
    if isinstance(spec, ast.JoinedStr) and all(isinstance(one, ast.Constant) for one in spec.values):
        return "".join(str(one.value) for one in spec.values if isinstance(one, ast.Constant))
    return ""


def _split_format_string(form: ast.expr, holes: str) -> Iterator[str | TemplateHole]:
    """Yield the literal parts of a format string between its holes."""
    for piece in split_expression(form):
        yield from split_at_holes(piece, holes) if isinstance(piece, str) else (piece,)


def split_at_holes(text: str, holes: str) -> Iterator[str | TemplateHole]:
    for at, part in enumerate(re.split(holes, text)):
        if at % 2:
            yield _parse_hole(part or "")
        else:
            yield part.replace("%%", "%") if holes == PERCENT_FORMAT else part


def build_templates(pieces: Sequence[str | TemplateHole], path: str, line: int) -> Iterator[PrintTemplate]:
    """Yield the templates of a call, one for each line that it prints."""
    lines: list[list[str | TemplateHole]] = [[]]
    for piece in pieces:
        if isinstance(piece, TemplateHole):
            lines[-1].append(piece)
            continue
        first, *rest = re.split(r"[\r\n]", piece)  # a progress bar rewrites its line
        lines[-1].append(first)
        for text in rest:
            lines.append([text])
    for parts in lines:
        texts = [part for part in parts if isinstance(part, str)]
        if len(re.findall(r"[A-Za-z]", "".join(texts))) >= MIN_SPECIFIC_LETTERS:
            body = "".join(_escape_pattern(part) if isinstance(part, str) else part.pattern for part in parts)
            pattern = re.compile(rf"(?:^|[\W_]){body.removeprefix(_SPACES).removesuffix(_SPACES)}\s*$")
            yield PrintTemplate(pattern, max(texts, key=len).strip(), path, line)


_SPACES = r"\s+"


def _escape_pattern(text: str) -> str:
    return re.sub(r"(?:\\?[ \t])+", r"\\s+", re.escape(text.replace("{{", "{").replace("}}", "}")))
