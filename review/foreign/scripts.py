"""What the code of a paper can print and write, read off its syntax; nothing is executed.

Every string that goes to a print, a logger, a function that passes it on, or a file, becomes a template: a pattern
that the lines of a log are matched to. A string that is made elsewhere is opaque, and nothing is said of it.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

_PRINTS = re.compile(
    r"^(?:print|info|debug|warning|warn|error|critical|exception|log|echo|write|writeln|say|emit|report|message|msg|"
    r"set_description|set_postfix|tprint|rprint|success|trace|secho|log_\w+|\w+_log|print_\w+|_?log\w*|_?say\w*|"
    r"_?emit\w*|_?echo\w*|status|note|banner|section|out|p)$"
)
_WRITES = re.compile(
    r"^(?:dump|to_csv|to_json|to_markdown|to_parquet|to_latex|save|savez|savetxt|savefig|write|write_text|writelines|"
    r"writerow|writerows|writeheader|safe_dump|print|dumps|FileHandler|add|basicConfig)$"
)
_TEST = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|[^/]*_test\.py$|conftest\.py$)")
SPECIFIC = 4
"""Letters that a template must have of its own to be known again."""
MOST_TEMPLATES = 4_000


@dataclass(frozen=True)
class Template:
    """A line that code can print: its pattern, the letters that are its own, and where it stands."""

    pattern: re.Pattern[str]
    words: str
    file: str
    line: int


@dataclass
class Script:
    """One file of code. `opaque` are the lines that print what cannot be told from the syntax, `loggers` those of
    functions that print whatever names and values they are given."""

    path: str
    text: str
    tree: ast.Module | None
    templates: list[Template] = field(default_factory=list[Template])
    opaque: list[int] = field(default_factory=list[int])
    loggers: list[int] = field(default_factory=list[int])

    @property
    def is_test(self) -> bool:
        return _TEST.search(self.path) is not None

    @cached_property
    def is_entry(self) -> bool:
        """Whether the file does something when it is started: a main part, or calls of its own at the top."""
        if self.tree is None:
            return self.path.endswith((".sh", ".bash"))
        main = any(isinstance(one, ast.If) and "__main__" in ast.unparse(one.test) for one in self.tree.body)
        return main or any(isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) for one in self.tree.body)

    @cached_property
    def strings(self) -> frozenset[str]:
        """The string constants of the file, those of an f-string with `*` for what is put in."""
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
        """All words of the file, in small letters, names cut at underscores and capitals."""
        return words_of_line(self.text)

    @cached_property
    def writes(self) -> bool:
        """Whether the file has any call that writes."""
        if self.tree is None:
            return ">" in self.text or "tee " in self.text
        return any(_WRITES.match(called(one)) for one in ast.walk(self.tree) if isinstance(one, ast.Call)) or any(
            isinstance(one, ast.Call) and called(one) == "open" and len(one.args) > 1 for one in ast.walk(self.tree)
        )

    @cached_property
    def imports(self) -> frozenset[str]:
        """The last parts of the names that the file imports."""
        found: set[str] = set()
        for one in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(one, ast.Import):
                found |= {name.name.rpartition(".")[2] for name in one.names}
            elif isinstance(one, ast.ImportFrom):
                found |= {(one.module or "").rpartition(".")[2], *(name.name for name in one.names)}
        return frozenset(found)

    @cached_property
    def only_read(self) -> frozenset[str]:
        """String constants that stand in calls that read, and nowhere else."""
        reading = [one for one in ast.walk(self.tree) if isinstance(one, ast.Call) and _reads(one)] if self.tree else []
        inside = [deep.value for one in reading for deep in ast.walk(one) if isinstance(deep, ast.Constant)]
        every = [one.value for one in ast.walk(self.tree) if isinstance(one, ast.Constant)] if self.tree else []
        return frozenset(one for one in inside if isinstance(one, str) and inside.count(one) >= every.count(one))

    def writes_file(self, name: str) -> bool:
        """Whether the file names a file of results, not only to read it, and writes."""
        base = PurePosixPath(name).name
        return self.writes and any(_names(string, base) for string in self.strings - self.only_read)


def _reads(call: ast.Call) -> bool:
    """Whether a call opens a file to read it."""
    name = called(call)
    if name == "open":
        modes = [one.value for one in (*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode"))
                 if isinstance(one, ast.Constant)]
        return not any(letter in str(mode) for mode in modes for letter in "wax+")
    return name in ("load", "loads", "loadtxt", "genfromtxt", "read_text", "read_bytes") or name.startswith("read_")


def words_of_line(text: str) -> frozenset[str]:
    """The words of a text of at least two letters."""
    return frozenset(word.lower() for word in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}", text))


def _names(string: str, base: str) -> bool:
    last = string.strip().rpartition("/")[2]
    if last == base:
        return True
    if "*" in last and len(last.replace("*", "")) >= 6 and "." in last:
        return re.fullmatch(".*".join(map(re.escape, last.split("*"))), base) is not None
    return last.startswith(".") is False and "." not in last and len(last) > 3 and base.rpartition(".")[0] == last


def read_scripts(files: Mapping[str, str]) -> tuple[Script, ...]:
    """Scripts by path, with the templates of what they print."""
    scripts = [Script(path, text, _parsed(path, text)) for path, text in sorted(files.items())]
    wrappers = frozenset(name for script in scripts for name in _wrappers(script))
    keyed = frozenset(one.name for script in scripts for one in _functions(script) if one.args.kwarg and _prints(one))
    count = 0
    for script in scripts:
        if count < MOST_TEMPLATES and not script.is_test:
            _read_templates(script, wrappers, keyed)
            count += len(script.templates)
    return tuple(scripts)


def called(call: ast.Call) -> str:
    """The last part of the name of what is called; "" where it has none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    """The names of what a function is given, those of `*more` among them."""
    given = function.args
    more = (given.vararg,) if given.vararg is not None else ()
    return tuple(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more))


def _parsed(path: str, text: str) -> ast.Module | None:
    if not path.endswith((".py", ".ipynb")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _wrappers(script: Script) -> Iterator[str]:
    """Functions that hand a parameter of theirs on to a print or a logger."""
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            given = set(parameters(one))
            for inner in ast.walk(one):
                if (
                    isinstance(inner, ast.Call)
                    and _PRINTS.match(called(inner))
                    and any(
                        isinstance(name, ast.Name) and name.id in given for arg in inner.args for name in ast.walk(arg)
                    )
                ):
                    yield one.name


def _functions(script: Script) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one


def _add_keys(script: Script, call: ast.Call) -> None:
    """The template of a call that prints names and values: its own text, then the names that it hands over."""
    given = _pieces(call.args[0]) if call.args else ()
    texts = [piece for piece in given if isinstance(piece, str) and piece.strip()]
    names = [word.arg for word in call.keywords if word.arg]
    if sum(map(len, (*texts, *names))) >= SPECIFIC:
        parts = [*map(_escaped, texts), *(rf"\b{re.escape(name)}\b" for name in names)]
        longest = max((*(text.strip() for text in texts), *names), key=len)
        script.templates.append(Template(re.compile(r".{0,400}?".join(parts)), longest, script.path, call.lineno))


def _prints(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Call) and _PRINTS.match(called(one)) for one in ast.walk(function))


def _read_templates(script: Script, wrappers: frozenset[str], keyed: frozenset[str]) -> None:
    if script.tree is None:
        for number, line in enumerate(script.text.splitlines(), 1):
            if found := re.match(r"\s*echo\s+(?:-\w+\s+)?[\"']?(.*?)[\"']?\s*(?:[|>].*)?$", line):
                texts = re.split(r"\$\{?\w+\}?|\$\([^)]*\)", found[1])
                _add(script, [one for text in texts for one in (Hole(), text)][1:], number)
        return
    inside = _parameters(script.tree)
    script.loggers = [one.lineno for one in _functions(script) if one.args.kwarg is not None and _prints(one)]
    for call in ast.walk(script.tree):
        if (
            not isinstance(call, ast.Call)
            or not (_PRINTS.match(called(call)) or called(call) in wrappers)
            or not call.args
        ):
            continue
        pieces: list[str | Hole] = []
        if called(call) in keyed:
            _add_keys(script, call)
            continue
        for at, arg in enumerate(call.args):
            if at and called(call) == "print":
                pieces.append(" ")
            if at and isinstance(call.args[0], ast.Constant) and "%" in str(call.args[0].value):
                break  # the arguments of a logger's format
            for piece in _pieces(arg):
                pieces += _split(piece, _PERCENT) if isinstance(piece, str) and called(call) != "print" else (piece,)
        if not any(isinstance(one, str) and re.search(r"[A-Za-z]{2}", one) for one in pieces):
            names = {name.id for arg in call.args for name in ast.walk(arg) if isinstance(name, ast.Name)}
            if not names & inside.get(call.lineno, set()) and names:
                script.opaque.append(call.lineno)
        _add(script, pieces, call.lineno)


def _parameters(tree: ast.Module) -> dict[int, set[str]]:
    """The parameters of the function around, by line."""
    found: dict[int, set[str]] = {}
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            given = set(parameters(one))
            for line in range(one.lineno, (one.end_lineno or one.lineno) + 1):
                found.setdefault(line, set()).update(given)
    return found


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


def _pieces(node: ast.expr) -> Iterator[str | Hole]:
    """Texts and what is put in between, in order."""
    if isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else Hole()
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from _pieces(part) if isinstance(part, ast.Constant) else (_hole(_format(part)),)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from (*_pieces(node.left), *_pieces(node.right))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield from _filled(node.left, _PERCENT)
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
            yield from _pieces(element)
        yield Hole()
    else:
        yield Hole()


_PERCENT = r"%[-+ #0]*\d*((?:\.\d+)?[sdifgeExr])"


def _format(part: ast.expr) -> str:
    spec = part.format_spec if isinstance(part, ast.FormattedValue) else None
    if isinstance(spec, ast.JoinedStr) and all(isinstance(one, ast.Constant) for one in spec.values):
        return "".join(str(one.value) for one in spec.values if isinstance(one, ast.Constant))
    return ""


def _filled(form: ast.expr, holes: str) -> Iterator[str | Hole]:
    """The texts of a format between its holes."""
    for piece in _pieces(form):
        yield from _split(piece, holes) if isinstance(piece, str) else (piece,)


def _split(text: str, holes: str) -> Iterator[str | Hole]:
    for at, part in enumerate(re.split(holes, text)):
        if at % 2:
            yield _hole(part or "")
        else:
            yield part


def _add(script: Script, pieces: Sequence[str | Hole], line: int) -> None:
    """The templates of one call, one for each line that it prints."""
    lines: list[list[str | Hole]] = [[]]
    for piece in pieces:
        if isinstance(piece, Hole):
            lines[-1].append(piece)
            continue
        first, *rest = piece.split("\n")
        lines[-1].append(first)
        for text in rest:
            lines.append([text])
    for parts in lines:
        texts = [part for part in parts if isinstance(part, str)]
        if len(re.findall(r"[A-Za-z]", "".join(texts))) >= SPECIFIC:
            body = "".join(_escaped(part) if isinstance(part, str) else part.pattern for part in parts)
            pattern = re.compile(rf"(?:^|[\W_]){body.removeprefix(_SPACES).removesuffix(_SPACES)}\s*$")
            script.templates.append(Template(pattern, max(texts, key=len).strip(), script.path, line))


_SPACES = r"\s+"


def _escaped(text: str) -> str:
    return re.sub(r"(?:\\?[ \t])+", r"\\s+", re.escape(text.replace("{{", "{").replace("}}", "}")))
