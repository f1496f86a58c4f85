"""Lines that code can print: the texts of a call and what is put in between, as patterns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

SPECIFIC = 4
"""Letters that a template must have of its own to be known again."""


@dataclass(frozen=True)
class Template:
    """A line that code can print: its pattern, the letters that are its own, and where it stands."""

    pattern: re.Pattern[str]
    words: str
    file: str
    line: int


def called(call: ast.Call) -> str:
    """The last part of the name of what is called; "" where it has none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def template_of_names(call: ast.Call, path: str) -> Iterator[Template]:
    """The template of a call that prints names and values: its own text, then the names that it hands over."""
    given = pieces_of(call.args[0]) if call.args else ()
    texts = [piece for piece in given if isinstance(piece, str) and piece.strip()]
    names = [word.arg for word in call.keywords if word.arg]
    if sum(map(len, (*texts, *names))) >= SPECIFIC:
        parts = [*map(_escaped, texts), *(rf"\b{re.escape(name)}\b" for name in names)]
        longest = max((*(text.strip() for text in texts), *names), key=len)
        yield Template(re.compile(r".{0,400}?".join(parts)), longest, path, call.lineno)


@dataclass(frozen=True)
class Hole:
    """What is put into a text: the pattern of what its format can print."""

    pattern: str = r".{0,400}?"


_FLOAT = r"[-+ ]*(?:[\d,_]*\d\.\d{%s}|nan|inf)"


def _hole(form: str) -> Hole:
    """The hole of a format such as `.4f`, `5d` or `.1%`; of any other nothing is known."""
    match = re.fullmatch(r"[^.\d]*[<>^=+\- ]?\d*,?(?:\.(\d+))?([fFdi%e]?)", form)
    if match is None or not match[2]:
        return Hole()
    if match[2] in "di":
        return Hole(r"[-+ ]*\d[\d,_]*")
    if match[2] == "e":
        return Hole(r"[-+ ]*(?:\d[\d.]*e[-+]?\d+|nan|inf)")
    places = match[1] or "6"
    body = _FLOAT % places if places != "0" else r"[-+ ]*(?:\d[\d,_]*|nan|inf)"
    return Hole(rf"{body}%" if match[2] == "%" else body)


def pieces_of(node: ast.expr, records: Mapping[str, ast.Dict] = {}) -> Iterator[str | Hole]:
    """Texts and what is put in between, in order; `records` are the dictionaries that names stand for."""
    if isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else Hole()
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) and not _format(part) else None
            if isinstance(part, ast.Constant) or (isinstance(inner, ast.Call) and called(inner) == "dumps"):
                yield from pieces_of(inner or part, records)
            else:
                yield _hole(_format(part))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from (*pieces_of(node.left, records), *pieces_of(node.right, records))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield from _filled(node.left, PERCENT)
    elif isinstance(node, ast.Call) and called(node) == "format" and isinstance(node.func, ast.Attribute):
        yield from _filled(node.func.value, r"\{[^{}:]*(?::([^{}]*))?\}")
    elif isinstance(node, ast.Call) and called(node) == "join" and isinstance(node.func, ast.Attribute) and node.args:
        inner = node.args[0]
        elements = (
            [inner.elt]
            if isinstance(inner, ast.GeneratorExp | ast.ListComp)
            else (inner.elts if isinstance(inner, ast.List | ast.Tuple) else [])
        )
        for element in elements:
            yield "\n"
            yield from pieces_of(element)
        yield Hole()
    elif isinstance(node, ast.Dict):
        yield from _record(node, records)
    elif (
        isinstance(node, ast.Call)
        and called(node) == "dumps"
        and node.args
        and not any(word.arg in ("sort_keys", "indent") for word in node.keywords)
    ):
        yield from _record(node.args[0], records)
    else:
        yield Hole()


def _record(node: ast.expr, records: Mapping[str, ast.Dict]) -> Iterator[str | Hole]:
    """A dictionary as a line of JSON: its keys in their order; others may follow."""
    found = records.get(node.id) if isinstance(node, ast.Name) else node
    yield Hole()
    for key in found.keys if isinstance(found, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield f'{RECORD}{key.value}":'
        yield Hole()


RECORD = '"'
"""What the name of a value begins with in a line of JSON."""
PERCENT = r"%[-+ #0]*\d*((?:\.\d+)?[sdifgeExr])"


def _format(part: ast.expr) -> str:
    spec = part.format_spec if isinstance(part, ast.FormattedValue) else None
    if isinstance(spec, ast.JoinedStr) and all(isinstance(one, ast.Constant) for one in spec.values):
        return "".join(str(one.value) for one in spec.values if isinstance(one, ast.Constant))
    return ""


def _filled(form: ast.expr, holes: str) -> Iterator[str | Hole]:
    """The texts of a format between its holes."""
    for piece in pieces_of(form):
        yield from split_at(piece, holes) if isinstance(piece, str) else (piece,)


def split_at(text: str, holes: str) -> Iterator[str | Hole]:
    for at, part in enumerate(re.split(holes, text)):
        if at % 2:
            yield _hole(part or "")
        else:
            yield part.replace("%%", "%") if holes == PERCENT else part


def templates_of(pieces: Sequence[str | Hole], path: str, line: int) -> Iterator[Template]:
    """The templates of one call, one for each line that it prints."""
    lines: list[list[str | Hole]] = [[]]
    for piece in pieces:
        if isinstance(piece, Hole):
            lines[-1].append(piece)
            continue
        first, *rest = re.split(r"[\r\n]", piece)  # a bar of progress starts its line anew
        lines[-1].append(first)
        for text in rest:
            lines.append([text])
    for parts in lines:
        texts = [part for part in parts if isinstance(part, str)]
        if len(re.findall(r"[A-Za-z]", "".join(texts))) >= SPECIFIC:
            body = "".join(_escaped(part) if isinstance(part, str) else part.pattern for part in parts)
            pattern = re.compile(rf"(?:^|[\W_]){body.removeprefix(_SPACES).removesuffix(_SPACES)}\s*$")
            yield Template(pattern, max(texts, key=len).strip(), path, line)


_SPACES = r"\s+"


def _escaped(text: str) -> str:
    return re.sub(r"(?:\\?[ \t])+", r"\\s+", re.escape(text.replace("{{", "{").replace("}}", "}")))
