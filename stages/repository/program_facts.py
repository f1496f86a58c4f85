"""What the code of a repository says about its program: options, keys, the words that its command accepts, documents,
files, and what a traced run called.

These are facts, not choices: nothing is run, nothing is left out because of its name, and nothing is proposed as a
part.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Any, cast

import yaml

from labwright.models.roles.experiment_code import CoderFact
from labwright.models.roles.repository import FunctionFact, ShownCode, ShownFile, SwitchFact
from labwright.record.float_compare import parse_whole_number
from labwright.record.python_syntax import FunctionNode, read_last_name
from labwright.record.schema import Scalar
from labwright.record.schema.repository import (
    CommandSpace,
    PartWay,
    RepositoryCommand,
    build_edit,
    format_command_line,
    split_folder,
)
from labwright.record.yaml_text import load_untrusted_yaml
from labwright.sandbox.repository.metric import METRIC_FORMS, parse_metric
from labwright.sandbox.repository.trace import CallTrace
from labwright.stages.repository.patch_scope import (
    CodeIndex,
    FunctionDefinition,
    find_script,
    index_code,
    list_reached_files,
    rank_path,
    walk_reached,
)

# Find the settings of a repository: options of its argument parsers and keys of its configuration files.

_OPTION_CALLS = ("add_argument", "option", "Option", "Argument")


@dataclass(frozen=True)
class ParserOption:
    """An option of an argument parser. `value` is its default, if the source states it."""

    path: str
    line: int
    flags: tuple[str, ...]
    dest: str
    action: str = ""
    value: Scalar | None = None
    command: str = ""
    """The subcommand of the option; empty for the main parser."""
    help: str = ""

    def __str__(self) -> str:
        default = "" if self.value is None else f", default {self.value!r}"
        action = f", {self.action}" if self.action else ""
        place = f"({self.path}:{self.line})" + (f": {self.help}" if self.help else "")
        return f"{', '.join(self.flags)}{action}{default} {place}"

    @property
    def flag(self) -> str:
        """The longest spelling."""
        return max(self.flags, key=len)

    @property
    def off_args(self) -> tuple[str, ...]:
        """Command words that turn the option off; empty if it cannot be turned off or is off by default."""
        bare = self.flag.lstrip("-")
        if self.action == "store_false":
            return (self.flag,)
        if self.action == "BooleanOptionalAction" and self.value is True:
            return (f"--no-{bare}",)
        if self.action == "store_true" and bare.startswith(("no-", "no_")):
            return (self.flag,)
        return (self.flag, "False") if self.value is True and not self.action else ()


@dataclass(frozen=True)
class ConfigKey:
    """A key of a configuration file, named as in an override: `model.use_gate`."""

    path: str
    name: str
    value: Scalar | None
    line: int

    def __str__(self) -> str:
        return f"{self.name} = {self.value!r} ({self.path})"

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


def find_options(code: CodeIndex) -> list[ParserOption]:
    """Return the options of all parsers declared with argparse, click or typer, in source order."""
    return [one for path, tree in code.trees.items() for one in _find_file_options(path, tree)]


def _find_file_options(path: str, tree: ast.Module) -> Iterator[ParserOption]:
    commands = {
        target.id: command
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
        if (command := read_subcommand(node.value))
    }
    calls = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and read_last_name(node.func) in _OPTION_CALLS
    )
    for call in sorted(calls, key=lambda one: one.lineno):
        flags = tuple(
            one.value
            for one in call.args
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.startswith("-")
        )
        if not flags:
            continue
        given = {one.arg: one.value for one in call.keywords if one.arg}
        long = max(flags, key=len)
        dest = _read_text(given.get("dest")) or long.lstrip("-").replace("-", "_")
        action = _read_text(given.get("action")) or (read_last_name(given["action"]) if "action" in given else "")
        if action == "" and "is_flag" in given:
            action = "store_true"
        holder = call.func.value if isinstance(call.func, ast.Attribute) else None
        yield ParserOption(
            path,
            call.lineno,
            flags,
            dest,
            action,
            _read_scalar(given.get("default")),
            commands.get(read_last_name(holder), "") if holder is not None else "",
            _read_text(given.get("help")),
        )


def read_subcommand(node: ast.AST) -> str:
    """Return the subcommand that a node adds to a parser; empty if it adds none."""
    if isinstance(node, ast.Call) and read_last_name(node.func) == "add_parser" and node.args:
        return _read_text(node.args[0])
    return ""


def _read_text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _read_scalar(node: ast.expr | None) -> Scalar | None:
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError):
        return None
    return value if isinstance(value, str | int | float | bool) else None


# --- configuration files ----------------------------------------------------------------------------------------------


def find_keys(argv: Sequence[str], code: CodeIndex) -> list[ConfigKey]:
    """Return the keys of the configuration that a command reads; with Hydra, those of the files named in its
    defaults."""
    texts, hydra = code.texts, find_hydra_config(code, argv)
    if hydra is not None:
        return [key for path, prefix in _compose_config(texts, *hydra) for key in _read_keys(path, texts[path], prefix)]
    named = [
        path
        for path in texts
        if path.endswith((".yaml", ".yml", ".json"))
        if path in argv or any(path in _list_strings(tree) for tree in code.trees.values())
    ]
    return [key for path in named for key in _read_keys(path, texts[path], "")]


def find_hydra_config(code: CodeIndex, argv: Sequence[str]) -> tuple[str, str] | None:
    """Return the folder and name of Hydra's main configuration; None if the command's script does not use Hydra."""
    for path, node in walk_reached(code, argv):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hydra.main":
            given = {one.arg: _read_text(one.value) for one in node.keywords if one.arg}
            folder = posixpath.normpath(PurePosixPath(path).parent / (given.get("config_path") or "."))
            return "" if folder == "." else folder, given.get("config_name") or "config"
    return None


def _compose_config(texts: Mapping[str, str], folder: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a Hydra configuration, each with the prefix of its keys."""
    main = _find_file(texts, f"{folder}/{name}" if folder else name)
    if main is None:
        return
    yield main, ""
    content = _parse_mapping(texts[main])
    for entry in cast("list[Any]", content.get("defaults") or []):
        for group, option in cast("dict[str, Any]", entry).items() if isinstance(entry, dict) else ():
            group = str(group).removeprefix("override ").removeprefix("optional ")
            path = _find_file(texts, f"{folder}/{group}/{option}" if folder else f"{group}/{option}")
            if path is not None:
                yield path, group.replace("/", ".") + "."


def _find_file(texts: Mapping[str, str], stem: str) -> str | None:
    return next((path for end in ("", ".yaml", ".yml") if (path := stem + end) in texts), None)


def _read_keys(path: str, text: str, prefix: str) -> Iterator[ConfigKey]:
    def walk(value: Any, name: str) -> Iterator[ConfigKey]:
        if isinstance(value, dict):
            for key, inner in cast("dict[Any, Any]", value).items():
                if str(key) not in ("defaults", "hydra"):
                    yield from walk(inner, f"{name}.{key}" if name else str(key))
        elif isinstance(value, str | int | float | bool):
            yield ConfigKey(path, prefix + name, value, find_key_line(text, name))

    yield from walk(_parse_mapping(text), "")


def find_key_line(text: str, name: str) -> int:
    """Return the number of the line with an option or a key, whose parts (`model.gate`) follow each other."""
    at = 0
    for part in name.lstrip("-").split("."):
        words = "[-_]".join(map(re.escape, re.split("[-_]", part)))
        found = re.compile(rf"\b{words}\b").search(text, at)
        at = found.start() if found is not None else at
    return text.count("\n", 0, at) + 1


def _parse_mapping(text: str) -> dict[str, Any]:
    try:
        content = load_untrusted_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _list_strings(tree: ast.Module) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


_SEED_NAME = re.compile(r"seed$", re.IGNORECASE)


def find_seed_args(code: CodeIndex, argv: Sequence[str]) -> tuple[str, ...]:
    """Return words that set the seed of a command without one; empty if that is impossible."""
    for option in list_options(argv, code):
        if _SEED_NAME.search(option.dest):
            return (option.flag, "{seed}")
    if find_hydra_config(code, argv) is not None or any(re.fullmatch(r"[\w.]+=.*", word) for word in argv):
        key = next((one.name for one in find_keys(argv, code) if _SEED_NAME.search(one.name)), None)
        return (f"{key}={{seed}}",) if key else ()
    return ()


def find_missing_script(argv: Sequence[str], texts: Mapping[str, str]) -> str:
    """Return the first Python file of a command line if the repository lacks it; empty otherwise."""
    _, words = split_folder(argv)
    if not re.fullmatch(r"python(3(\.\d+)?)?|torchrun", words[0]) or find_script(argv, texts):
        return ""
    first = next((word for word in words[1:] if not word.startswith("-")), "")
    return first if first.endswith(".py") and not first.startswith("/") and "{" not in first else ""


def list_options(argv: Sequence[str], code: CodeIndex) -> list[ParserOption]:
    """Return the options of a command: those of its script and of the files that it imports, with its subcommand."""
    paths = {*list_reached_files(code, argv)} & code.trees.keys()
    return [one for one in find_options(code) if one.path in paths and (not one.command or one.command in argv)]


# Check the command words of arms, levels and hyperparameters against a repository's command, before anything is run.
#
# Words are refused only if the code is certain to reject them: if a parser accepts unknown options, or is built
# elsewhere, nothing is refused.

_OPEN_PARSERS = frozenset(
    """parse_known_args HfArgumentParser from_cli Fire add_dataclass_fields parse_intermixed_args DEFINE_string
DEFINE_float DEFINE_integer LightningCLI tyro run_exit""".split()
)
"""Calls that let a command accept undeclared options."""


def find_unknown_args(words: Sequence[str], argv: Sequence[str], code: CodeIndex) -> str:
    """Return the added words that a command does not accept; empty if it accepts all, or if that is uncertain."""
    flags = _list_closed_options(argv, code)
    if not flags:
        return ""
    asked = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    known = sorted(flags)
    for name in asked:
        if not any(flag.startswith(name) for flag in known):
            near = get_close_matches(name, known, 1)
            return f"has no option {name}" + (f", but {near[0]}" if near else f"; known: {', '.join(known[:12])}")
    bare = next((word for word in words if re.match(r"[\w.]+=", word)), "")
    if not bare or _takes_positional_args(code, argv):
        return ""
    return f"does not accept {bare!r}, only options: {', '.join(known[:12])}"


def takes_overrides(argv: Sequence[str], code: CodeIndex) -> bool:
    """Return whether the code may pass words of the form `key=value` to the configuration."""
    return not _list_closed_options(argv, code) or _takes_positional_args(code, argv)


def _list_closed_options(argv: Sequence[str], code: CodeIndex) -> set[str]:
    """Return all options of a command if it is certain to accept no others; otherwise, as with Hydra, an empty set."""
    if find_hydra_config(code, argv) is not None:
        return set()
    called = {read_last_name(node.func) for _, node in walk_reached(code, argv) if isinstance(node, ast.Call)}
    return set() if _OPEN_PARSERS & called else {flag for one in list_options(argv, code) for flag in one.flags}


def _takes_positional_args(code: CodeIndex, argv: Sequence[str]) -> bool:
    """Return whether a parser has a positional argument or one that takes several words, or whether the code reads
    `argv` itself.
    """
    for _, node in walk_reached(code, argv):
        if isinstance(node, ast.Call) and read_last_name(node.func) in ("add_argument", "argument", "Argument"):
            first = node.args[0] if node.args else None
            is_option = isinstance(first, ast.Constant) and str(first.value).startswith("-")
            if not is_option or any(one.arg == "nargs" for one in node.keywords):
                return True
        elif isinstance(node, ast.Attribute) and node.attr == "argv":
            return True
    return False


def find_space_faults(space: CommandSpace, argv: Sequence[str], code: CodeIndex) -> Iterator[str]:
    """Yield the words of a space that its command does not accept, one sentence each. Words that reach only patched
    arms are not checked, since their code does not exist yet."""
    patched = {arm.name for arm in space.arms if arm.role != "baseline" and not arm.words}
    tuned = [
        (f"hyperparameter {one.name!r}", (one.word or f"{one.name}={{value}}").split())
        for one in space.hyperparameters
        if not one.arms or not set(one.arms) <= patched
    ]
    for what, words in (
        *((f"arm {one.name!r}", one.words) for one in space.arms),
        *((f"level {one.name!r}", one.words) for one in space.levels),
        *tuned,
    ):
        filled = _list_filled(argv)
        if own := next((name for word in words if (name := word.partition("=")[0]) in filled), ""):
            yield f"{what} sets {own}, which the program sets for each run: remove it"
        if wrong := find_unknown_args(words, argv, code):
            yield f"{what} has the words {' '.join(words)}: the command {wrong}"
    yield from (
        f"{what} has the word {' '.join(words)}, which lacks {{value}}"
        for what, words in tuned
        if "{value}" not in " ".join(words)
    )


def _list_filled(argv: Sequence[str]) -> set[str]:
    """Return the options and keys that precede `{seed}` and `{out}` in a command."""
    return {
        word.partition("=")[0]
        for word, after in zip(argv, (*argv[1:], ""), strict=True)
        if re.search(r"\{(seed|out)\}", word if "=" in word else after)
    }


def complete_hyperparameter(
    name: str, given: dict[str, object], argv: Sequence[str], code: CodeIndex
) -> dict[str, object]:
    """Complete a hyperparameter from a user's file with what the repository states: how the command sets it, its
    default, and where that is defined."""
    made = {"name": name, **given}
    if made.pop("log", False):
        made.setdefault("kind", "log")
    place = _find_target(str(made.get("word", "")), name, argv, code)
    if place is not None:
        word = f"{place.flag} {{value}}" if isinstance(place, ParserOption) else f"{place.name}={{value}}"
        made.setdefault("word", word)
        value, where = _find_default(place, argv)
        if value is not None and "default" not in made:
            made |= {"default": value, "source": made.get("source", where)}
    made.setdefault("source", "given by the user")
    if "kind" not in made:
        numbers = (made.get("low"), made.get("high"), made.get("default"))
        kind = "integer" if all(isinstance(one, int) for one in numbers) else "linear"
        made["kind"] = "choice" if made.get("options") else kind
    return made


def _find_target(word: str, name: str, argv: Sequence[str], code: CodeIndex) -> ParserOption | ConfigKey | None:
    """Return the option or key that a word sets, or that has the given name."""
    options, keys = list_options(argv, code), find_keys(argv, code)
    if word:
        head = re.split(r"[ =]", word)[0]
        return next((one for one in options if head in one.flags), None) or next(
            (one for one in keys if one.name == head.lstrip("+")), None
        )
    named = [one for one in keys if name in (one.name, one.name.replace(".", "_"), one.name.rpartition(".")[2])]
    return next((one for one in options if one.dest == name), None) or (named[0] if len(named) == 1 else None)


def _find_default(place: ParserOption | ConfigKey, argv: Sequence[str]) -> tuple[Scalar | None, str]:
    """Return the value that applies if no arm sets it, and its source."""
    names = place.flags if isinstance(place, ParserOption) else (place.name,)
    for word, after in zip(argv, (*argv[1:], ""), strict=True):
        head, equals, value = word.partition("=")
        if head in names and (equals or isinstance(place, ParserOption)):
            text = value if equals else after
            return (None if "{" in text else cast("Scalar", yaml.safe_load(text))), "the command"
    return place.value, f"the repository, {place.path}:{place.line}"


# Select what a model sees of a repository: a map of all files, the most relevant files, and more on request.
#
# Omissions are stated. Files are ranked by the number of imports between them and the command's script.

MAX_MAP_CHARS, MAX_SHOWN_CHARS, MAX_REQUESTED_CHARS = 14_000, 48_000, 24_000
"""Maximum characters of the map, of the files shown without a request, and of one request."""
MAX_FILE_CHARS = 12_000
"""Maximum characters of a file that is shown in full."""
EXCERPT_LINES = 160
"""Lines shown before and after a place of a long file."""


def show_code(texts: Mapping[str, str], argv: Sequence[str], first_files: Iterable[str] = ()) -> ShownCode:
    """Build the map and select the files nearest to the command; those of `first_files` come first."""
    code = index_code(texts)
    order = list(dict.fromkeys((*(path for path in first_files if path in texts), *order_by_distance(code, argv))))
    shown = _take_fitting([one for one in order if len(texts[one]) <= MAX_FILE_CHARS], texts, MAX_SHOWN_CHARS)
    return ShownCode(map=format_map(code, argv, order), shown=shown, left_out=len(texts) - len(shown))


def read_requested(wants: Sequence[str], texts: Mapping[str, str]) -> tuple[tuple[ShownFile, ...], tuple[str, ...]]:
    """Return the requested files (`path`) and places (`path:symbol`, `path:line`), and messages about those that cannot
    be shown."""
    code, found, missed, left = index_code(texts), list[ShownFile](), list[str](), MAX_REQUESTED_CHARS
    for want in dict.fromkeys(wants):
        path, _, place = want.partition(":")
        if path not in texts:
            missed.append(f"there is no text file {path}")
            continue
        lines = [one.node.lineno for one in code.definitions if one.path == path and place in (one.symbol, one.name)]
        named = parse_whole_number(place)
        line = named if named is not None else lines[0] if lines else 1
        text, first = texts[path], 1
        if len(text) > MAX_FILE_CHARS or named is not None:
            first = max(1, line - EXCERPT_LINES)
            text = "".join(text.splitlines(keepends=True)[first - 1 : line + EXCERPT_LINES])
        one = ShownFile(path=path, text=text, first=first, whole=text == texts[path])
        if len(one.text) > left:
            missed.append(f"{want} is left out because the request is too large: ask for it again")
            continue
        left -= len(one.text)
        found.append(one)
    return tuple(found), tuple(missed)


def find_documents(texts: Mapping[str, str]) -> list[str]:
    """Return the paths of the README and nearby documents, the nearest first."""
    names = (path for path in texts if re.search(r"(^|/)README|^docs?/.*\.(md|rst)$|^Makefile$", path))
    return sorted(names, key=lambda path: (path.count("/"), path))


def order_by_distance(code: CodeIndex, argv: Sequence[str]) -> list[str]:
    """Return all files: the script, its direct and indirect imports, then configuration, other code and the rest."""
    rest = sorted(code.texts, key=lambda path: (rank_path(path), path.count("/"), path))
    named = (*argv, *(str(one.value) for one in find_options(code)))  # configuration files
    configuration = (name for name in named if name in code.texts and not name.endswith(".py"))
    return list(dict.fromkeys((*list_reached_files(code, argv), *configuration, *rest)))


def format_map(code: CodeIndex, argv: Sequence[str], order: Sequence[str]) -> str:
    """Format the list of all files, with as many symbols of Python files as fit.

    Tests, documents, examples and scripts that the command does not reach have none.
    """
    detailed = {*list_reached_files(code, argv), *(path for path in code.trees if rank_path(path) < 2)}
    texts, lines, left = code.texts, list[str](), MAX_MAP_CHARS
    whole = [path for path in order if path in code.trees]
    for path in whole:
        symbols = _format_symbols(code.trees[path]) if path in detailed else []
        entry = [f"{path} ({texts[path].count(chr(10))} lines)", *symbols]
        size = sum(len(line) + 1 for line in entry)
        lines += entry if size <= left else entry[:1]
        left -= size if size <= left else len(entry[0])
    others = [path for path in order if path not in code.trees]
    folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in others)
    for folder in folders:
        names = [PurePosixPath(path).name for path in others if str(PurePosixPath(path).parent) == folder]
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        lines.append(f"{'' if folder == '.' else folder + '/'}: {', '.join(names[:12])}{more}".lstrip(": "))
    text = "\n".join(lines)
    return text if len(text) <= 2 * MAX_MAP_CHARS else text[: 2 * MAX_MAP_CHARS] + "\n(the map is truncated)"


def _format_symbols(tree: ast.Module) -> list[str]:
    lines: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [one.name for one in node.body if isinstance(one, FunctionNode)]
            bases = ", ".join(filter(None, map(read_last_name, node.bases)))
            lines.append(f"  class {node.name}({bases}): {', '.join(methods)}")
        elif isinstance(node, FunctionNode):
            given = ", ".join(one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
            lines.append(f"  {node.name}({given})")
    return lines


def _take_fitting(order: Sequence[str], texts: Mapping[str, str], most: int) -> tuple[ShownFile, ...]:
    shown: list[ShownFile] = []
    for path in order:
        if len(texts[path]) <= most and texts[path].strip() and (rank_path(path) < 2 or len(order) < 40):
            shown.append(ShownFile(path=path, text=texts[path]))
            most -= len(texts[path])
    return tuple(shown)


MAX_LISTED = 60
"""Maximum number of options, keys and commands that are listed."""


def list_documents(texts: Mapping[str, str]) -> Iterator[CoderFact]:
    """Yield the README and nearby documents, the first ones of the repository."""
    for path in find_documents(texts)[:2]:
        yield CoderFact(title=path, text=texts[path])


def list_files_fact(code: CodeIndex, command: RepositoryCommand) -> CoderFact:
    """Return the map of a repository: files, what they define, and who calls it."""
    return CoderFact(
        title="Files and what they define", text=format_map(code, command.argv, order_by_distance(code, command.argv))
    )


def list_command_facts(code: CodeIndex, command: RepositoryCommand) -> Iterator[CoderFact]:
    """Yield what the program knows about the commands of a repository."""
    yield from list_documents(code.texts)
    yield list_files_fact(code, command)
    yield CoderFact(title="Options of its parsers", text=_format_list(find_options(code)))
    yield CoderFact(title="Forms of a metric", text=METRIC_FORMS)


def list_method_facts(code: CodeIndex, command: RepositoryCommand) -> Iterator[CoderFact]:
    """Yield what the program knows about the method that a command runs."""
    yield from list_documents(code.texts)
    yield CoderFact(title="The command", text=format_command_line(command.argv))
    yield CoderFact(title="Its metric", text=f"{command.metric} ({command.direction} is better)")
    yield list_files_fact(code, command)
    for title, found in (("options", list_options(command.argv, code)), ("keys", find_keys(command.argv, code))):
        if found:
            yield CoderFact(title=f"Its {title}", text=_format_list(found))


def _format_list(lines: Sequence[object]) -> str:
    """Return the first lines, and how many there are besides; `none` if there are none."""
    more = [f"... and {len(lines) - MAX_LISTED} more"] if len(lines) > MAX_LISTED else []
    return "\n".join([*map(str, lines[:MAX_LISTED]), *more]) or "none"


def list_switches(code: CodeIndex, command: RepositoryCommand) -> tuple[SwitchFact, ...]:
    """Return the options and keys that turn something off and that the command does not set."""
    found = [
        SwitchFact(
            name=one.dest.removeprefix("no_"),
            path=one.path,
            symbol=one.dest,
            way=PartWay(what=" ".join(one.off_args), words=one.off_args),
        )
        for one in list_options(command.argv, code)
        if one.off_args and not any(flag in command.argv for flag in one.flags)
    ]
    keys = find_keys(command.argv, code)
    counts = Counter(key.last for key in keys)
    for key in keys:
        is_set = any(word.startswith(f"{key.name}=") for word in command.argv)
        if key.value is True and not is_set and (way := _build_switch(key, code, command)) is not None:
            name = key.last if counts[key.last] == 1 else key.name
            found.append(SwitchFact(name=name, path=key.path, symbol=key.name, way=way))
    return tuple(found)


def _build_switch(key: ConfigKey, code: CodeIndex, command: RepositoryCommand) -> PartWay | None:
    """Return how a key is set to false: by a word if the command takes overrides, otherwise in its file."""
    what = f"{key.name}=false"
    if any(re.fullmatch(r"[A-Za-z_][\w.]*=.*", word) for word in command.argv) and takes_overrides(command.argv, code):
        return PartWay(what=what, words=(what,))
    text = code.texts[key.path]
    pattern = re.compile(rf'^(\s*"?{re.escape(key.last)}"?\s*:\s*)(true)\b', re.MULTILINE | re.IGNORECASE)
    if len(pattern.findall(text)) != 1:
        return None
    return PartWay(what=what, edits=(build_edit(key.path, text, pattern.sub(r"\1false", text)),))


# --- what a traced run called -----------------------------------------------------------------------------------------


def list_functions(code: CodeIndex, trace: CallTrace) -> tuple[FunctionFact, ...]:
    """Return the functions that ran, in the order of the code."""
    places = {one.key: f"{one.path}:{one.symbol}" for one in code.definitions}
    return tuple(
        _build_function(one, trace, places)
        for one in code.definitions
        if one.key in trace.functions and trace.functions[one.key].recorded_calls
    )


def _build_function(one: FunctionDefinition, trace: CallTrace, places: Mapping[str, str]) -> FunctionFact:
    called = trace.functions[one.key]
    seen = called.recorded_calls
    return FunctionFact(
        path=one.path,
        symbol=one.symbol,
        name=one.name,
        calls=called.calls,
        callers=tuple(dict.fromkeys(places.get(key, key.rpartition(":")[0]) for key in called.callers if key)),
        arguments={
            name: _format_kind(seen[0].argument_kinds[name])
            for name in one.parameters
            if name in seen[0].argument_kinds
        },
        result=_format_kind(seen[0].return_kind),
        alike=tuple(
            name
            for name in one.parameters
            if all(call.argument_kinds.get(name) == call.return_kind and _has_arrays(call.return_kind) for call in seen)
        ),
    )


def _has_arrays(kind: Sequence[Any]) -> bool:
    return kind[0] == "array" or (kind[0] in ("list", "dict") and len(kind) > 2 and any(map(_has_arrays, kind[2])))


def _format_kind(kind: Sequence[Any]) -> str:
    """Format the kind of a value: `array(32, 6)`, `list of 2: array(4)`, or the name of its class."""
    if kind[0] == "array":
        return f"array({', '.join(map(str, kind[1]))})"
    if len(kind) > 2:
        inner = dict.fromkeys(map(_format_kind, kind[2]))
        return f"{kind[0]} of {kind[1]}" + (f": {', '.join(inner)}" if inner else "")
    return str(kind[0])


def find_metric_lines(texts: Mapping[str, str], metric: str) -> list[tuple[str, int, str]]:
    """Return the lines of Python code that may write a metric, as (path, number, line): those with its last key or the
    name of its file as a string; for a printed metric, those with the text before its number. The first of these that
    occurs anywhere decides.
    """
    parsed = parse_metric(metric)
    is_printed = parsed.kind in ("stdout", "output", "text")
    words = [parsed.name.rpartition(".")[2], PurePosixPath(parsed.place).name]
    if is_printed:
        words = [re.split(r"[(\[\\]", parsed.name)[0].strip()]
    return find_lines(texts, words, quoted=not is_printed)


def find_lines(texts: Mapping[str, str], words: Sequence[str], *, quoted: bool) -> list[tuple[str, int, str]]:
    """Return the lines of Python code with the first of these words that occurs, as (path, number, line). `quoted`: at
    the beginning or end of a string."""
    for word in filter(None, words):
        found = [
            (path, number, line.strip())
            for path, text in texts.items()
            if path.endswith(".py")
            for number, line in enumerate(text.splitlines(), 1)
            if word in line and (not quoted or re.search(rf"[\"'/]{re.escape(word)}[\"']", line))
        ]
        if found:
            return found
    return []


def find_metric_places(code: CodeIndex, command: RepositoryCommand) -> tuple[str, ...]:
    """Return the functions of the command's script whose lines may write the metric, as `path:symbol`; if there is
    none, the script's code outside functions.
    """
    script = find_script(command.argv, code.texts)
    if script is None:
        return ()
    found = dict.fromkeys(
        f"{path}:{_find_symbol(code, path, number)}"
        for path, number, _ in find_metric_lines({script: code.texts[script]}, command.metric)
    )
    return tuple(found) or (f"{script}:<module>",)


def _find_symbol(code: CodeIndex, path: str, line: int) -> str:
    """Return the innermost function around a line; `<module>` if there is none."""
    around = [one for one in code.definitions if one.path == path and one.line <= line <= (one.node.end_lineno or line)]
    return max(around, key=lambda one: one.line).symbol if around else "<module>"
