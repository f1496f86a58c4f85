"""Find the settings of a repository: options of its argument parsers and keys of its configuration files."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

import yaml

from labwright.record.schema.frozen_model import Scalar
from labwright.record.yaml_text import load_untrusted_yaml
from labwright.stages.repository.code_index import CodeIndex, read_last_name

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
        if (command := _read_subcommand(node.value))
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


def _read_subcommand(node: ast.expr) -> str:
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


def find_keys(texts: Mapping[str, str], argv: tuple[str, ...], code: CodeIndex) -> list[ConfigKey]:
    """Return the keys of the configuration that a command reads; with Hydra, those of the files named in its
    defaults."""
    hydra = find_hydra_config(code)
    if hydra is not None:
        return [key for path, prefix in _compose_config(texts, *hydra) for key in _read_keys(path, texts[path], prefix)]
    named = [
        path
        for path in texts
        if path.endswith((".yaml", ".yml", ".json"))
        if path in argv or any(path in _list_strings(tree) for tree in code.trees.values())
    ]
    return [key for path in named for key in _read_keys(path, texts[path], "")]


def find_hydra_config(code: CodeIndex) -> tuple[str, str] | None:
    """Return the folder and name of Hydra's main configuration; None if the repository does not use Hydra."""
    for path, tree in code.trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "main"
                and (read_last_name(node.func.value) == "hydra")
            ):
                given = {one.arg: _read_text(one.value) for one in node.keywords if one.arg}
                folder = PurePosixPath(path).parent / (given.get("config_path") or ".")
                return _to_plain_path(folder), given.get("config_name") or "config"
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


def list_override_names(texts: Mapping[str, str], code: CodeIndex) -> set[str] | None:
    """Return all names that an override of a Hydra configuration accepts, i.e. groups and nested keys of every
    variant. None if the files alone do not determine them.
    """
    hydra = find_hydra_config(code)
    if (
        hydra is None
        or not list(_compose_config(texts, *hydra))
        or any("ConfigStore" in texts[path] for path in code.trees)
    ):
        return None
    found = set[str]()
    for group, paths in _group_files(texts, hydra[0]).items():
        for path in paths:
            package = re.search(r"^# *@package +(\S+)", texts[path], re.MULTILINE)
            if package is not None and package[1] != "_global_":
                return None
            prefix = "" if package is not None or not group else f"{group.replace('/', '.')}."
            found |= {
                group,
                *(
                    name
                    for name in _walk_keys(_parse_mapping(texts[path]), prefix)
                    if name.partition(".")[0] not in ("hydra", "defaults")
                ),
            }
    return found - {""}


def list_variants(texts: Mapping[str, str], code: CodeIndex) -> dict[str, list[str]]:
    """Return the groups of a Hydra configuration with their variants."""
    hydra = find_hydra_config(code)
    return {
        group: sorted(PurePosixPath(path).stem for path in paths)
        for group, paths in (_group_files(texts, hydra[0]) if hydra is not None else {}).items()
        if group
    }


def _group_files(texts: Mapping[str, str], folder: str) -> dict[str, list[str]]:
    """Group the configuration files by their folder, relative to the configuration folder."""
    found: dict[str, list[str]] = {}
    for path in texts:
        if path.startswith(f"{folder}/" if folder else "") and path.endswith((".yaml", ".yml")):
            found.setdefault(str(PurePosixPath(path).parent.relative_to(folder)).removeprefix("."), []).append(path)
    return found


def _walk_keys(value: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, inner in value.items():
        yield prefix + str(key)
        if isinstance(inner, dict):
            yield from _walk_keys(cast("dict[str, Any]", inner), f"{prefix}{key}.")


def _find_file(texts: Mapping[str, str], stem: str) -> str | None:
    return next((path for end in ("", ".yaml", ".yml") if (path := stem + end) in texts), None)


def _to_plain_path(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    return "/".join(parts)


def _read_keys(path: str, text: str, prefix: str) -> Iterator[ConfigKey]:
    lines = text.splitlines()

    def walk(value: Any, name: str) -> Iterator[ConfigKey]:
        if isinstance(value, dict):
            for key, inner in cast("dict[Any, Any]", value).items():
                if str(key) not in ("defaults", "hydra"):
                    yield from walk(inner, f"{name}.{key}" if name else str(key))
        elif isinstance(value, str | int | float | bool):
            last = name.rpartition(".")[2]
            line = next((at for at, one in enumerate(lines, 1) if one.strip().strip('"').startswith(last)), 1)
            yield ConfigKey(path, prefix + name, value, line)

    yield from walk(_parse_mapping(text), "")


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
