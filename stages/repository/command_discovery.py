"""List the commands in a repository's documents and the scripts that can be run, checked against the code.

Nothing is run, and no command is preferred because of its name. A command with a missing script, module or option is
outdated.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Any, cast

import yaml

from labwright.record.schema import Scalar
from labwright.record.schema.repository import CommandSpace, split_folder
from labwright.record.yaml_text import load_untrusted_yaml
from labwright.stages.repository.patch_scope import (
    CodeIndex,
    find_module_name,
    find_script,
    index_code,
    list_imports,
    list_reached_files,
    read_last_name,
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
    for path in list_reached_files(code, argv):
        for node in ast.walk(code.trees[path]) if path in code.trees else ():
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


def list_variants(argv: Sequence[str], code: CodeIndex) -> dict[str, list[str]]:
    """Return the groups of a Hydra configuration with their variants."""
    hydra = find_hydra_config(code, argv)
    return {
        group: sorted(PurePosixPath(path).stem for path in paths)
        for group, paths in (_group_files(code.texts, hydra[0]) if hydra is not None else {}).items()
        if group
    }


def _group_files(texts: Mapping[str, str], folder: str) -> dict[str, list[str]]:
    """Group the configuration files by their folder, relative to the configuration folder."""
    found: dict[str, list[str]] = {}
    for path in texts:
        if path.startswith(f"{folder}/" if folder else "") and path.endswith((".yaml", ".yml")):
            found.setdefault(str(PurePosixPath(path).parent.relative_to(folder)).removeprefix("."), []).append(path)
    return found


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
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            return {}
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _list_strings(tree: ast.Module) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


_COMMAND_LINE = re.compile(
    r"(?:`|^[ \t]*(?:[-*$>|][ \t]*)?(?:run:[ \t]*)?)((?:cd [\w./-]+ && )?(?:[A-Z_]+=\S+[ \t]+)*"
    r"(?:uv run |poetry run )?(?:(?:python3?|torchrun|accelerate launch)[ \t]|\./[\w./-]+\.py\b)[^`#\n]*)",
    re.MULTILINE,
)
_DOCUMENT_PATH = re.compile(r"(^|/)(README|Makefile|GNUmakefile|.*\.(md|rst|txt|sh|ya?ml))", re.IGNORECASE)
_SEED_NAME = re.compile(r"seed$", re.IGNORECASE)


@dataclass(frozen=True)
class CommandCandidate:
    """A command line, with `{seed}` in place of its seed. `wrong`: why it cannot run; empty if no fault is known."""

    argv: tuple[str, ...]
    location: str
    env: Mapping[str, str]
    wrong: str = ""

    @property
    def is_seeded(self) -> bool:
        return any("{seed}" in word for word in self.argv)


def list_candidates(texts: Mapping[str, str]) -> list[CommandCandidate]:
    """Return the commands of documents that the code supports, then other scripts that can be run, then outdated
    commands; of each, the README's and the top folder's first.
    """
    code = index_code(texts)
    written = [
        one
        for path, text in sorted(texts.items(), key=lambda pair: _rank_path(pair[0]))
        if _DOCUMENT_PATH.search(path)
        for one in _find_in_document(path, text, code)
    ]
    fit = [one for one in written if not one.wrong]
    named = {find_script(one.argv, texts) for one in fit}
    offered = [one for one in _find_entry_points(code) if find_script(one.argv, texts) not in named]
    every = [*fit, *offered, *(one for one in written if one.wrong)]
    return list({one.argv: one for one in reversed(every)}.values())[::-1]


def find_seed_args(code: CodeIndex, argv: Sequence[str]) -> tuple[str, ...]:
    """Return words that set the seed of a command without one; empty if that is impossible."""
    for option in list_options(argv, code):
        if _SEED_NAME.search(option.dest):
            return (option.flag, "{seed}")
    if find_hydra_config(code, argv) is not None or any(re.fullmatch(r"[\w.]+=.*", word) for word in argv):
        key = next((one.name for one in find_keys(argv, code) if _SEED_NAME.search(one.name)), None)
        return (f"{key}={{seed}}",) if key else ()
    return ()


def insert_seed(argv: Sequence[str], code: CodeIndex) -> tuple[str, ...]:
    """Return the command with `{seed}` in place of its seed; if it has no seed but accepts one, `{seed}` is added.

    With Hydra, the command is made to write to `{out}` instead of a folder named after the time.
    """
    words = list(argv)
    if find_hydra_config(code, argv) is not None and not any(word.startswith("hydra.run.dir=") for word in words):
        words.append("hydra.run.dir={out}")
    for at, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if equals and _SEED_NAME.search(name.lstrip("-")):
            words[at] = f"{name}={{seed}}"
            return tuple(words)
        if word.startswith("--") and _SEED_NAME.search(word[2:]) and at + 1 < len(words):
            words[at + 1] = "{seed}"
            return tuple(words)
    return (*words, *find_seed_args(code, words)) if not any("{seed}" in word for word in words) else tuple(words)


def find_missing_script(argv: Sequence[str], texts: Mapping[str, str]) -> str:
    """Return the first Python file of a command line if the repository lacks it; empty otherwise."""
    _, words = split_folder(argv)
    if not re.fullmatch(r"python(3(\.\d+)?)?|torchrun", words[0]) or find_script(argv, texts):
        return ""
    first = next((word for word in words[1:] if not word.startswith("-")), "")
    return first if first.endswith(".py") and not first.startswith("/") and "{" not in first else ""


def find_unknown_options(argv: Sequence[str], code: CodeIndex) -> str:
    """Return the reason why the script's parser rejects a command line; empty if it accepts it or has no options."""
    known = {flag for one in list_options(argv, code) for flag in one.flags}
    if not known or find_hydra_config(code, argv) is not None:
        return ""
    used = [word.partition("=")[0] for word in argv if re.match(r"--[a-zA-Z]", word)]
    unknown = [word for word in used if not any(flag.startswith(word) for flag in known)]
    return f"the parser has no option {', '.join(unknown)}" if unknown else ""


def _find_in_document(path: str, text: str, code: CodeIndex) -> Iterator[CommandCandidate]:
    for found in _COMMAND_LINE.finditer(text.replace("\\\n", " ")):
        try:
            folder, [*words] = split_folder(shlex.split(found[1]))
        except ValueError:
            continue
        if any(word in ("|", ">", "&&", ";", "pip", "venv", "pytest", "-c") for word in words):
            continue
        env: dict[str, str] = {}
        while words and re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        while words[:1] in (["uv"], ["poetry"], ["run"]):
            words.pop(0)
        if words and words[0].startswith("./"):
            words.insert(0, "python")
        if len(words) < 2:
            continue
        named = words[2] if words[1] == "-m" and len(words) > 2 else words[1]
        is_script = named.endswith(".py") or words[1] == "-m" or found[0][0] != "`"  # `python 3.8` is none
        folders = [folder] if folder or words[1] == "-m" else [posixpath.dirname(path), ""]
        placed = [["cd", one, "&&", *words] if one else words for one in folders]
        words = next((one for one in placed if find_script(one, code.texts)), placed[-1])
        script = find_script(words, code.texts)
        if (script is None and not is_script) or _installs(code.trees.get(script or "", ast.Module([], []))):
            continue
        wrong = f"there is no {named}" if script is None else find_unknown_options(words, code)
        yield CommandCandidate(insert_seed(words, code), path, env, wrong)


def _find_entry_points(code: CodeIndex) -> Iterator[CommandCandidate]:
    """Yield commands for the scripts of the code, with the first subcommand of their parser."""
    found = [path for path, tree in code.trees.items() if _is_entry(tree) and not _installs(tree)]
    for path in sorted(found, key=_rank_path):
        words = ("python", "-m", find_module_name(path)) if path.startswith(("src/", "lib/")) else ("python", path)
        subcommands = [name for node in ast.walk(code.trees[path]) if (name := read_subcommand(node))]
        argv = insert_seed((*words, *subcommands[:1]), code)
        yield CommandCandidate(argv, f"the code of {path}", {})


def _is_entry(tree: ast.Module) -> bool:
    """Return whether a file is runnable: it checks `__name__`, or parses arguments at top level."""
    return any(
        (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
        or (isinstance(node, ast.Assign | ast.Expr) and "parse_args" in ast.unparse(node.value))
        for node in tree.body
    )


def _installs(tree: ast.Module) -> bool:
    """Return whether a script installs the repository instead of producing a result."""
    return not {"setuptools", "distutils"}.isdisjoint(name.partition(".")[0] for name in list_imports(tree))


def list_options(argv: Sequence[str], code: CodeIndex) -> list[ParserOption]:
    """Return the options of a command: those of its script and of the files that it imports, with its subcommand."""
    paths = {*list_reached_files(code, argv)} & code.trees.keys()
    return [one for one in find_options(code) if one.path in paths and (not one.command or one.command in argv)]


def _rank_path(path: str) -> tuple[int, int, str]:
    first = 0 if path.lower().startswith("readme") else 1 if path.count("/") == 0 else 2
    return first, path.count("/"), path


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
    called = {
        read_last_name(node.func)
        for path in list_reached_files(code, argv)
        if path in code.trees
        for node in ast.walk(code.trees[path])
        if isinstance(node, ast.Call)
    }
    return set() if _OPEN_PARSERS & called else {flag for one in list_options(argv, code) for flag in one.flags}


def _takes_positional_args(code: CodeIndex, argv: Sequence[str]) -> bool:
    """Return whether a parser has a positional argument or one that takes several words, or whether the code reads
    `argv` itself.
    """
    for path in list_reached_files(code, argv):
        for node in ast.walk(code.trees[path]) if path in code.trees else ():
            if isinstance(node, ast.Call) and read_last_name(node.func) in ("add_argument", "argument", "Argument"):
                first = node.args[0] if node.args else None
                if not (isinstance(first, ast.Constant) and str(first.value).startswith("-")) or any(
                    one.arg == "nargs" for one in node.keywords
                ):
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


# --- hyperparameters given by the user --------------------------------------------------------------------------------


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
