"""Reconstruct from code, logs and result files which scripts ran, in what order, and what they wrote.

Every string that a call in the code receives becomes a pattern: its literal parts in order. A script *ran* if a log has
a line that only its strings match; scripts that it imports were *loaded*. A result file belongs to the scripts that
name it other than for reading. Nothing is executed, so a log forged from the code's own strings looks real, and text
that is built at run time is not recognised.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from labwright.record.python_syntax import parse_plain

MAX_LINES, MAX_LINE_CHARACTERS, MAX_LOG_BYTES = 20_000, 2_000, 20_000_000
"""Limits: lines of a log, characters of a line, bytes of a file."""
MIN_LITERAL_LETTERS, MAX_TEMPLATES = 6, 4_000
"""Minimum letters in the literal parts of a recognisable string; maximum strings of all code."""
MIN_SILENT_STRINGS, MIN_RECOGNISED_LINES = 2, 3
"""A script is absent from the logs if it has this many strings, and this many log lines are recognised."""

_LOG_SUFFIXES = (".log", ".out", ".err")
_LOG_NAME = re.compile(r"log|stdout|stderr|console|nohup|slurm", re.I)
_STAMP = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d\b")
_FORMAT_FIELD = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[sdifgeEr]|\{[^{}]*\}")
_PRINT_CALL = re.compile(r"^(?:print|debug|info|warning|error|log)$")
_READ_CALL = re.compile(r"^(?:loads?|loadtxt|genfromtxt|read_\w+)$")
_WORD = re.compile(r"[a-z]{3,}")
_TEST_PATH = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|[^/]*_test\.py$|conftest\.py$)")


@dataclass(frozen=True)
class PrintedString:
    """A string that code passes to a call: a pattern for text that contains it, and its place in the code."""

    pattern: re.Pattern[str]
    longest: str
    file: str
    line: int
    is_printed: bool
    """Whether the call is one that prints or logs."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Log:
    """A log file; `name` is its path below the results folder."""

    name: str
    lines: tuple[str, ...]


@dataclass
class Script:
    """A code file; `nodes`, of its syntax tree, are empty for other languages and for code that does not parse."""

    path: str
    text: str
    nodes: tuple[ast.AST, ...] = ()
    strings: list[PrintedString] = field(default_factory=list[PrintedString])

    @property
    def is_test(self) -> bool:
        return _TEST_PATH.search(self.path) is not None

    @property
    def is_entry(self) -> bool:
        """Return whether the file does something when executed."""
        body = self.nodes[0].body if self.nodes and isinstance(self.nodes[0], ast.Module) else []
        return any(
            (isinstance(one, ast.If) and "__main__" in ast.unparse(one.test))
            or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call))
            for one in body
        )

    def list_imports(self) -> set[str]:
        """Return the last parts of imported names."""
        found: set[str] = set()
        for one in self.nodes:
            if isinstance(one, ast.Import):
                found |= {name.name.rpartition(".")[2] for name in one.names}
            elif isinstance(one, ast.ImportFrom):
                found |= {(one.module or "").rpartition(".")[2], *(name.name for name in one.names)}
        return found

    def list_written_names(self) -> set[str]:
        """Return strings that may name a written file, with `*` for values; those only read are left out."""
        if not self.nodes:
            return set(re.findall(r"[\w./-]+\.\w{2,5}\b", self.text))
        reads = [one for one in self.nodes if isinstance(one, ast.Call) and _is_read_call(one)]
        read = {id(deep) for one in reads for deep in ast.walk(one)}
        return {
            "".join(piece or "*" for piece in _split_string(one))
            for one in self.nodes
            if id(one) not in read
            and (isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str)))
        }

    def list_typed_numbers(self) -> dict[float, int]:
        """Return the numbers typed in the code, with the line of each."""
        return {
            float(one.value): one.lineno
            for one in self.nodes
            if isinstance(one, ast.Constant) and isinstance(one.value, float)
        }

    def list_settings(self) -> set[float]:
        """Return the numbers that are given by keyword, as a default, or as a constant in capitals."""
        values = list[ast.expr | None]()
        for one in self.nodes:
            match one:
                case ast.keyword(value=value):
                    values.append(value)
                case ast.arguments(defaults=defaults, kw_defaults=named):
                    values += [*defaults, *named]
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                    values.append(value)
                case _:
                    pass
        return {
            float(one.value)
            for one in values
            if isinstance(one, ast.Constant) and isinstance(one.value, int | float) and not isinstance(one.value, bool)
        }


@dataclass
class PaperProvenance:
    """What is known of the programs behind a paper.

    `ran` maps each script that ran to its first and last log line, in the order of the first ones. `writers` has the
    scripts of each result file.
    """

    scripts: tuple[Script, ...] = ()
    logs: tuple[Log, ...] = ()
    printed_by: dict[tuple[str, int], tuple[PrintedString, ...]] = field(
        default_factory=dict[tuple[str, int], tuple[PrintedString, ...]]
    )
    """The strings that match a log line, by log and line number."""
    ran: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    loaded: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    writers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def read_scripts(files: Mapping[str, str]) -> tuple[Script, ...]:
    """Return the scripts with the strings that they may print."""
    scripts = [Script(path, text, tuple(_parse(path, text))) for path, text in sorted(files.items())]
    count = 0
    for script in scripts:
        if count < MAX_TEMPLATES and not script.is_test:
            script.strings = list(dict.fromkeys(_list_strings(script)))
            count += len(script.strings)
    return tuple(scripts)


def read_logs(results: Path) -> tuple[Log, ...]:
    """Return the log files of a results folder, or the file itself, at most 200."""
    paths = sorted(results.rglob("*")) if results.is_dir() else [results]
    logs = [
        path
        for path in paths
        if path.suffix in _LOG_SUFFIXES or (path.suffix in (".txt", ".jsonl") and _LOG_NAME.search(path.stem))
    ]
    return tuple(
        read_log(path, path.relative_to(results).as_posix() if results.is_dir() else path.name)
        for path in logs[:200]
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_LOG_BYTES
    )


def read_log(path: Path, name: str) -> Log:
    """Read a log file; each state of a progress bar counts as a line."""
    text = path.read_text(encoding="utf-8", errors="replace")[:MAX_LOG_BYTES]
    lines = re.split(r"\r\n|\n|\r", text)[:MAX_LINES]
    return Log(name, tuple(line[:MAX_LINE_CHARACTERS] for line in lines))


def reconstruct_provenance(
    scripts: Sequence[Script], logs: Sequence[Log], result_files: Sequence[str]
) -> PaperProvenance:
    """Reconstruct what ran and what it wrote."""
    found = PaperProvenance(tuple(scripts), tuple(logs))
    own: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for log, number, strings in _match_lines(scripts, logs):
        found.printed_by[log.name, number] = strings
        if len(owners := {one.file for one in strings}) == 1:
            stamp = _STAMP.search(log.lines[number - 1])
            own[owners.pop()].append((stamp[0] if stamp else "", f"{log.name}:{number}"))
    for path, lines in sorted(own.items(), key=lambda one: one[1][0][0]):
        first, last = (f"{place}, {stamp}" if stamp else place for stamp, place in (lines[0], lines[-1]))
        found.ran[path] = first, last
    by_stem = {PurePosixPath(one.path).stem: one for one in scripts}
    waiting, loaded = [one for one in scripts if one.path in found.ran], list[str]()
    while waiting:
        for name in sorted(waiting.pop().list_imports() & by_stem.keys()):
            if (path := by_stem[name].path) not in found.ran and path not in loaded:
                loaded.append(path)
                waiting.append(by_stem[name])
    found.loaded = tuple(loaded)
    if len(found.printed_by) >= MIN_RECOGNISED_LINES:
        silent = [one for one in scripts if one.path not in found.ran and one.path not in loaded and one.is_entry]
        found.absent = tuple(
            one.path for one in silent if sum(text.is_printed for text in one.strings) >= MIN_SILENT_STRINGS
        )
    names = {one.path: one.list_written_names() for one in scripts if not one.is_test}
    every = {name for own_names in names.values() for name in own_names}
    for file in result_files:
        base = PurePosixPath(file)
        built = f"*{base.suffix}" if base.stem in every else None  # of a name that the code has, and the suffix
        writers = [path for path, own_names in names.items() if _names_any(own_names, base.name, built)]
        if writers:
            found.writers[file] = tuple(writers)
    return found


def format_provenance(found: PaperProvenance) -> Iterator[str]:
    """Yield the known facts about the programs behind a paper, one line each."""
    if found.ran:
        spans = (f"{path} ({first} to {last})" for path, (first, last) in found.ran.items())
        yield f"ran, with first and last log line that only it prints, in this order: {_join(list(spans))}"
    known = {*found.ran, *found.loaded, *found.absent}
    rest = [one.path for one in found.scripts if one.path not in known and one.is_entry and not one.is_test]
    for what, paths in (
        ("imported by these", found.loaded),
        ("prints text, none of which is in the logs", found.absent),
        ("unknown whether it ran: no log line is specific to it", rest),
    ):
        if paths:
            yield f"{what}: {_join(paths)}"
    for name, writers in found.writers.items():
        yield f"result file {name} is named in {_join(writers)}, and not only to be read"
    lines = [(log.name, number, line) for log in found.logs for number, line in enumerate(log.lines, 1)]
    worded = [(name, number, line) for name, number, line in lines if re.search(r"[A-Za-z]{2}", line)]
    if found.scripts and worded:
        rest = [_WORD.findall(line.lower()) for name, number, line in worded if (name, number) not in found.printed_by]
        known = {word for one in found.scripts for word in _WORD.findall(one.text.lower())}
        strange = sum(2 * sum(word in known for word in words) < len(words) for words in rest)
        yield (
            f"{len(found.printed_by)} of {len(worded)} log lines match strings of the code; the wording of {strange} "
            f"occurs nowhere in it (libraries print, too); {len(rest) - strange} begin with values or are put together"
        )


def _join(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _match_lines(
    scripts: Sequence[Script], logs: Sequence[Log]
) -> Iterator[tuple[Log, int, tuple[PrintedString, ...]]]:
    """Yield the log lines that strings of the code match, with their numbers from 1."""
    strings = [one for script in scripts for one in script.strings]
    seen: dict[str, tuple[PrintedString, ...]] = {}
    for log in logs:
        for number, line in enumerate(log.lines, 1):
            flat = re.sub(r"\s+", " ", line)
            key = re.sub(r"\d", "0", flat)
            if key not in seen:
                seen[key] = tuple(one for one in strings if one.longest in flat and one.pattern.search(flat))
            if seen[key]:
                yield log, number, seen[key]


def _parse(path: str, text: str) -> Iterator[ast.AST]:
    if path.endswith((".py", ".ipynb")):
        with warnings.catch_warnings(), suppress(SyntaxError):
            warnings.simplefilter("ignore")
            yield from ast.walk(parse_plain(text))


def _list_strings(script: Script) -> Iterator[PrintedString]:
    """Yield the recognisable strings that calls receive; the arguments of a call are one text."""
    for call in script.nodes:
        if isinstance(call, ast.Call):
            pieces = [piece for arg in call.args for piece in (*_split_string(arg), None)]
            printed = _PRINT_CALL.match(_called_name(call)) is not None
            yield from _build_strings(pieces, script.path, call.lineno, is_printed=printed)


def _build_strings(pieces: Sequence[str | None], path: str, line: int, *, is_printed: bool) -> Iterator[PrintedString]:
    """Yield a pattern for each line of a text, whose literal pieces have values between them."""
    for text in "".join("\0" if piece is None else piece for piece in pieces).split("\n"):
        literals = [re.sub(r"\s+", " ", one).strip() for one in text.split("\0")]
        literals = [one for one in literals if one]
        if sum(char.isalpha() for one in literals for char in one) >= MIN_LITERAL_LETTERS:
            pattern = re.compile(".{0,400}?".join(map(re.escape, literals)))
            yield PrintedString(pattern, max(literals, key=len), path, line, is_printed)


def _split_string(node: ast.AST) -> Iterator[str | None]:
    """Yield the literal parts of an expression in order, and None for each value."""
    match node:
        case ast.Constant(value=str(text)):
            for at, part in enumerate(_FORMAT_FIELD.split(text.replace("%%", "\1"))):
                yield from (None,) * bool(at)
                yield part.replace("\1", "%")
        case ast.JoinedStr():
            for part in node.values:
                yield part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else None
        case ast.BinOp(op=ast.Add()):
            yield from (*_split_string(node.left), *_split_string(node.right))
        case ast.BinOp(op=ast.Mod()):
            yield from _split_string(node.left)
        case ast.Call(func=ast.Attribute(attr="format", value=text)):
            yield from _split_string(text)
        case ast.Call(func=ast.Attribute(attr="dumps"), args=[ast.Dict() as record, *_]):
            yield from _split_string(record)
        case ast.Dict():
            for key in node.keys:
                if isinstance(key, ast.Constant):
                    yield from (f'"{key.value}":', None)
        case _:
            yield None


def _called_name(call: ast.Call) -> str:
    """Return the last part of the called function's name; "" if it has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_read_call(call: ast.Call) -> bool:
    """Return whether a call opens a file for reading."""
    if (name := _called_name(call)) != "open":
        return _READ_CALL.match(name) is not None
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return not any(set("wax+") & set(str(one.value)) for one in modes if isinstance(one, ast.Constant))


def _names_any(strings: Iterable[str], base: str, built: str | None) -> bool:
    """Return whether a string, with `*` for values, names a file; of the short ones, only `built` may."""
    for name in {one.strip().rpartition("/")[2] for one in strings}:
        long = len(name.replace("*", "")) >= 6 and "*" in name and "." in name
        if name in (base, built) or (long and re.fullmatch(".*".join(map(re.escape, name.split("*"))), base)):
            return True
    return False
