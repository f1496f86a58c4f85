"""Change programs: constants, entries and anchored edits of a script, and minimal changes of a Python function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import jinja2

from labwright.models.offline.study import STUDY_FOLDER, Scalar, ScriptEdit
from labwright.models.roles.experiment_code import Program
from labwright.record.python_syntax import parse_plain
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE, WholeFile

# Changes of a script's text: constants, entries, anchored edits. The rest of the text stays unchanged.

MAX_LINE_CHARACTERS = 118


@dataclass(frozen=True)
class Scripts:
    """The two files of a program."""

    experiment: str
    plots: str


def make_program(scripts: Scripts, *, title: str, plan: str, varies: str) -> Program:
    """Make a program as submitted, with both files whole."""
    files = (WholeFile(path=ENTRY_FILE, text=scripts.experiment), WholeFile(path=PLOTS_FILE, text=scripts.plots))
    return Program(title=title, plan=plan, varies=varies, files=files)


@cache
def _make_environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader((STUDY_FOLDER, STUDY_FOLDER.parent)),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=False,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def render_template(template: str, **values: object) -> str:
    """Render a template of the study; ends with one newline."""
    return _make_environment().get_template(template).render(**values).rstrip() + "\n"


def read_constant(source: str, name: str) -> Scalar | list[str]:
    """Return the value of an upper-case constant of a source. Raises `KeyError` if it has none of that name."""
    match = re.search(rf"(?m)^{name} = (.+)$", source)
    if match is None:
        raise KeyError(name)
    return ast.literal_eval(match[1])


def scale_constants(source: str, factors: Mapping[str, float]) -> str:
    """Return the source with whole constants multiplied and rounded, at least one."""
    for name, factor in factors.items():
        value = read_constant(source, name)
        assert isinstance(value, int)
        source = re.sub(rf"(?m)^{name} = .+$", f"{name} = {max(1, round(value * factor))}", source, count=1)
    return source


def add_entry(source: str, opening: str, line: str) -> str:
    """Return the source with a line added before the first line after `opening` that begins with a closing bracket."""
    pattern = rf"(?ms)^({re.escape(opening)}\n.*?)^([}}\])])"
    return re.sub(pattern, lambda match: f"{match[1]}{line}\n{match[2]}", source, count=1)


def is_applicable(scripts: Scripts, edits: Iterable[ScriptEdit]) -> bool:
    """Return whether every edit matches, and none was applied before."""
    for edit in edits:
        text = getattr(scripts, edit.file)
        if edit.find not in text or edit.replace in text:
            return False
    return True


def apply_edits(scripts: Scripts, edits: Iterable[ScriptEdit]) -> Scripts:
    """Return the scripts with every matching edit applied."""
    for edit in edits:
        text: str = getattr(scripts, edit.file)
        scripts = replace(scripts, **{edit.file: text.replace(edit.find, edit.replace, 1)})
    return scripts


# Minimal changes of a Python function: it returns zeros of the same shape, or one of its arguments.

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
HELPER_NAME = "_taken_out"
_HELPER_SOURCE = f"""def {HELPER_NAME}(value):
    if isinstance(value, (list, tuple)):
        kept = [{HELPER_NAME}(one) for one in value]
        return type(value)(*kept) if hasattr(value, "_fields") else type(value)(kept)
    if isinstance(value, dict):
        return {{key: {HELPER_NAME}(one) for key, one in value.items()}}
    return value * 0 if hasattr(value, "__mul__") and not isinstance(value, (str, bool)) else value


"""


def find_function(text: str, symbol: str) -> FunctionNode | None:
    """Return a top-level function (`name`) or a method (`Class.name`) of a file; None if there is none."""
    owner, _, name = symbol.rpartition(".")
    body = parse_plain(text).body
    if owner:
        body = next((one.body for one in body if isinstance(one, ast.ClassDef) and one.name == owner), list[ast.stmt]())
    return next((one for one in body if isinstance(one, FunctionNode) and one.name == name), None)


def return_zeros(text: str, function: FunctionNode) -> str | None:
    """Return the file with everything that a function returns replaced by zeros of the same shape; None if it returns
    nothing, or yields.
    """
    own = list(_walk_own(function))
    given = [one for one in own if isinstance(one, ast.Return) and one.value is not None]
    if not given or any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own):
        return None
    tree = parse_plain(text)
    holder = next(one for one in tree.body if one.lineno <= function.lineno <= (one.end_lineno or one.lineno))
    decorators: list[ast.expr] = getattr(holder, "decorator_list", [])
    top = min((holder.lineno, *(one.lineno for one in decorators))) - 1
    for one in sorted(given, key=lambda one: -one.lineno):
        assert one.value is not None
        source = ast.get_source_segment(text, one.value)
        if source is None:
            return None
        bare = "\n" in source or isinstance(one.value, ast.Tuple)
        text = _replace_node(text, one.value, f"{HELPER_NAME}(({source}))" if bare else f"{HELPER_NAME}({source})")
    lines = text.splitlines(keepends=True)
    return "".join((*lines[:top], _HELPER_SOURCE, *lines[top:]))


def return_argument(text: str, function: FunctionNode, parameter: str) -> str:
    """Return the file in which a function returns one of its arguments unchanged."""
    first = function.body[1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0]
    if first.lineno == function.lineno:  # the whole function is on one line
        return _replace_node(text, first, f"return {parameter}")
    lines = text.splitlines(keepends=True)
    at = min((first.lineno, *(one.lineno for one in getattr(first, "decorator_list", ())))) - 1
    return "".join((*lines[:at], " " * first.col_offset + f"return {parameter}\n", *lines[at:]))


def _walk_own(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of a body, without the contents of nested functions and classes."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _replace_node(text: str, node: ast.expr | ast.stmt, new: str) -> str:
    """Return the text with a node's source replaced."""
    lines = text.splitlines(keepends=True)
    begins, ends = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = lines[begins].encode()[: node.col_offset].decode()
    tail = lines[ends].encode()[node.end_col_offset or 0 :].decode()
    return "".join((*lines[:begins], head, new, tail, *lines[ends + 1 :]))
