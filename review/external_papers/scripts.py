"""Determine from its syntax what the code of a paper can print and write; nothing is executed.

Every string passed to a print, a logger, a function that forwards it, or a file becomes a template, i.e. a pattern for
log lines. Strings that are built elsewhere are opaque and give no evidence.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from labwright.review.external_papers.print_templates import (
    PERCENT_FORMAT,
    PrintTemplate,
    TemplateHole,
    build_name_value_template,
    build_templates,
    called_name,
    split_at_holes,
    split_expression,
)

_PRINT_CALL = re.compile(
    r"^(?:print|info|debug|warning|warn|error|critical|exception|log|echo|write|writeln|say|emit|report|message|msg|"
    r"set_description|set_postfix|tprint|rprint|success|trace|secho|log_\w+|\w+_log|print_\w+|_?log\w*|_?say\w*|"
    r"_?emit\w*|_?echo\w*|status|note|banner|section|out|p)$"
)
_WRITE_CALL = re.compile(
    r"^(?:dump|to_csv|to_json|to_markdown|to_parquet|to_latex|save|savez|savetxt|savefig|write|write_text|writelines|"
    r"writerow|writerows|writeheader|safe_dump|print|dumps|FileHandler|add|basicConfig)$"
)

_TEST_PATH = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|[^/]*_test\.py$|conftest\.py$)")
MAX_TEMPLATES = 4_000


@dataclass
class AuditedScript:
    """A code file.

    `opaque_lines` print text that the syntax does not show; `logger_lines` call functions that print any names and
    values.
    """

    path: str
    text: str
    tree: ast.Module | None
    templates: list[PrintTemplate] = field(default_factory=list[PrintTemplate])
    opaque_lines: list[int] = field(default_factory=list[int])
    logger_lines: list[int] = field(default_factory=list[int])

    @property
    def is_test(self) -> bool:
        return _TEST_PATH.search(self.path) is not None

    @cached_property
    def is_entry(self) -> bool:
        """Return whether the file does something when executed: a main block, or top-level calls."""
        if self.tree is None:
            return self.path.endswith((".sh", ".bash"))
        main = any(isinstance(one, ast.If) and "__main__" in ast.unparse(one.test) for one in self.tree.body)
        return main or any(isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) for one in self.tree.body)

    @cached_property
    def strings(self) -> frozenset[str]:
        """Return the string constants of the file, with `*` for values in f-strings."""
        if self.tree is None:
            return frozenset(re.findall(r"[\w./-]+\.\w{2,5}\b", self.text))
        plain = (
            one.value for one in ast.walk(self.tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)
        )
        joined = (
            "".join(
                part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "*"
                for part in one.values
            )
            for one in ast.walk(self.tree)
            if isinstance(one, ast.JoinedStr)
        )
        return frozenset((*plain, *joined))

    @cached_property
    def words(self) -> frozenset[str]:
        """Return all words of the file, in lower case; names are split at underscores and capitals."""
        return extract_words(self.text)

    @cached_property
    def has_write_calls(self) -> bool:
        """Return whether the file has any call that writes."""
        if self.tree is None:
            return ">" in self.text or "tee " in self.text
        return any(
            _WRITE_CALL.match(called_name(one)) for one in ast.walk(self.tree) if isinstance(one, ast.Call)
        ) or any(
            isinstance(one, ast.Call) and called_name(one) == "open" and len(one.args) > 1
            for one in ast.walk(self.tree)
        )

    @cached_property
    def imported_names(self) -> frozenset[str]:
        """Return the last parts of the names that the file imports."""
        found: set[str] = set()
        for one in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(one, ast.Import):
                found |= {name.name.rpartition(".")[2] for name in one.names}
            elif isinstance(one, ast.ImportFrom):
                found |= {(one.module or "").rpartition(".")[2], *(name.name for name in one.names)}
        return frozenset(found)

    @cached_property
    def read_only_strings(self) -> frozenset[str]:
        """Return the string constants that are only used in calls that read."""
        reading = (
            [one for one in ast.walk(self.tree) if isinstance(one, ast.Call) and _is_read_call(one)]
            if self.tree
            else []
        )
        inside = [deep.value for one in reading for deep in ast.walk(one) if isinstance(deep, ast.Constant)]
        every = [one.value for one in ast.walk(self.tree) if isinstance(one, ast.Constant)] if self.tree else []
        return frozenset(one for one in inside if isinstance(one, str) and inside.count(one) >= every.count(one))

    def may_write_file(self, name: str, code_words: Collection[str] = ()) -> bool:
        """Return whether the file may write a result file.

        It does so if it names the file other than for reading and has a call that writes, or if it builds the name from
        words of the code (`code_words`) and a suffix.
        """
        base = PurePosixPath(name)
        together = f"*{base.suffix}" if base.stem in code_words else None
        return self.has_write_calls and any(
            _names_file(string, base.name) or string.rpartition("/")[2] == together
            for string in self.strings - self.read_only_strings
        )


def _is_read_call(call: ast.Call) -> bool:
    """Return whether a call opens a file for reading."""
    name = called_name(call)
    if name == "open":
        modes = [
            one.value
            for one in (*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode"))
            if isinstance(one, ast.Constant)
        ]
        return not any(letter in str(mode) for mode in modes for letter in "wax+")
    return name in ("load", "loads", "loadtxt", "genfromtxt", "read_text", "read_bytes") or name.startswith("read_")


def extract_words(text: str) -> frozenset[str]:
    """Return the words of the text with two or more letters."""
    return frozenset(word.lower() for word in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}", text))


def _names_file(string: str, base: str) -> bool:
    last = string.strip().rpartition("/")[2]
    if last == base:
        return True
    if "*" in last and len(last.replace("*", "")) >= 6 and "." in last:
        return re.fullmatch(".*".join(map(re.escape, last.split("*"))), base) is not None
    return last.startswith(".") is False and "." not in last and len(last) > 3 and base.rpartition(".")[0] == last


def read_scripts(files: Mapping[str, str]) -> tuple[AuditedScript, ...]:
    """Return the scripts, with the templates of what they print."""
    scripts = [AuditedScript(path, text, _parse(path, text)) for path, text in sorted(files.items())]
    wrappers = frozenset(name for script in scripts for name in _find_print_wrappers(script))
    keyed = frozenset(
        one.name
        for script in scripts
        for one in _iter_functions(script)
        if one.args.kwarg and _passes_parameter_to_print(one)
    )
    count = 0
    for script in scripts:
        if count < MAX_TEMPLATES and not script.is_test:
            _read_templates(script, wrappers, keyed)
            count += len(script.templates)
    return tuple(scripts)


def list_parameter_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    """Return the names of a function's parameters, including `*more`."""
    given = function.args
    more = (given.vararg,) if given.vararg is not None else ()
    return tuple(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more))


def _parse(path: str, text: str) -> ast.Module | None:
    if not path.endswith((".py", ".ipynb")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _find_print_wrappers(script: AuditedScript) -> Iterator[str]:
    """Yield functions that forward a parameter to a print or a logger."""
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            given = set(list_parameter_names(one))
            for inner in ast.walk(one):
                if (
                    isinstance(inner, ast.Call)
                    and _PRINT_CALL.match(called_name(inner))
                    and any(
                        isinstance(name, ast.Name) and name.id in given for arg in inner.args for name in ast.walk(arg)
                    )
                ):
                    yield one.name


def _iter_functions(script: AuditedScript) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one


def _passes_parameter_to_print(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Call) and _PRINT_CALL.match(called_name(one)) for one in ast.walk(function))


def _read_templates(script: AuditedScript, wrappers: frozenset[str], keyed: frozenset[str]) -> None:
    if script.tree is None:
        for number, line in enumerate(script.text.splitlines(), 1):
            if found := re.match(r"\s*echo\s+(?:-\w+\s+)?[\"']?(.*?)[\"']?\s*(?:[|>].*)?$", line):
                texts = re.split(r"\$\{?\w+\}?|\$\([^)]*\)", found[1])
                pieces = [one for text in texts for one in (TemplateHole(), text)][1:]
                script.templates += build_templates(pieces, script.path, number)
        return
    inside, records = _parameters_by_line(script.tree), _find_named_dicts(script.tree)
    script.logger_lines = [
        one.lineno for one in _iter_functions(script) if one.args.kwarg is not None and _passes_parameter_to_print(one)
    ]
    for call in ast.walk(script.tree):
        if not isinstance(call, ast.Call) or not (
            called_name(call) in keyed
            or (call.args and (_PRINT_CALL.match(called_name(call)) or called_name(call) in wrappers))
        ):
            continue
        pieces: list[str | TemplateHole] = []
        if called_name(call) in keyed:
            script.templates += build_name_value_template(call, script.path)
            continue
        for at, arg in enumerate(call.args):
            if at and called_name(call) == "print":
                pieces.append(" ")
            if at and isinstance(call.args[0], ast.Constant) and "%" in str(call.args[0].value):
                break  # the arguments of a logger's format
            for piece in split_expression(arg, records):
                pieces += (
                    split_at_holes(piece, PERCENT_FORMAT)
                    if isinstance(piece, str) and called_name(call) != "print"
                    else (piece,)
                )
        if _prints_json(call) or not any(isinstance(one, str) and re.search(r"[A-Za-z]{2}", one) for one in pieces):
            names = {name.id for arg in call.args for name in ast.walk(arg) if isinstance(name, ast.Name)}
            if not names & inside.get(call.lineno, set()) and names:
                script.opaque_lines.append(call.lineno)
        script.templates += build_templates(pieces, script.path, call.lineno)


def _prints_json(node: ast.AST) -> bool:
    """Return whether a dictionary or JSON text is printed, which may have more than its visible names."""
    return any(
        isinstance(one, ast.Dict) or (isinstance(one, ast.Call) and called_name(one) == "dumps")
        for one in ast.walk(node)
    )


def _find_named_dicts(tree: ast.Module) -> dict[str, ast.Dict]:
    """Return the dictionaries that names are bound to, if a name has no other binding."""
    found: dict[str, list[ast.expr]] = {}
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            found.setdefault(one.targets[0].id, []).append(one.value)
    return {name: only for name, (only, *more) in found.items() if isinstance(only, ast.Dict) and not more}


def _parameters_by_line(tree: ast.Module) -> dict[int, set[str]]:
    """Return the parameters of the enclosing function, by line."""
    found: dict[int, set[str]] = {}
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            given = set(list_parameter_names(one))
            for line in range(one.lineno, (one.end_lineno or one.lineno) + 1):
                found.setdefault(line, set()).update(given)
    return found
