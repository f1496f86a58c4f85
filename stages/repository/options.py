"""What of a repository can be set from outside: options of its argument parsers, keys of its configuration files."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

import yaml

from labwright.record.nouns.frozen import Scalar
from labwright.record.yaml_text import load_foreign_yaml
from labwright.stages.repository.code import Code, last_name

_CONSTRUCTORS = ("add_argument", "option", "Option", "Argument")


@dataclass(frozen=True)
class Option:
    """An option of an argument parser. `value` is its default where the source tells it."""

    path: str
    line: int
    flags: tuple[str, ...]
    dest: str
    action: str = ""
    value: Scalar | None = None
    command: str = ""
    """The subcommand that has it; empty for the parser itself."""
    help: str = ""

    @property
    def flag(self) -> str:
        """The long form."""
        return max(self.flags, key=len)

    @property
    def off(self) -> tuple[str, ...]:
        """Words that turn it off; empty where it cannot be, or is off."""
        bare = self.flag.lstrip("-")
        if self.action == "store_false":
            return (self.flag,)
        if self.action == "BooleanOptionalAction" and self.value is True:
            return (f"--no-{bare}",)
        if self.action == "store_true" and bare.startswith(("no-", "no_", "without", "disable")):
            return (self.flag,)
        return (self.flag, "False") if self.value is True and not self.action else ()


@dataclass(frozen=True)
class Key:
    """A key of a configuration file, as an override names it: `model.use_gate`."""

    path: str
    name: str
    value: Scalar | None
    line: int


def options_in(code: Code) -> list[Option]:
    """The options of all parsers (argparse, click, typer by their declarations), in the order of the text."""
    return [one for path, tree in code.trees.items() for one in _options(path, tree)]


def _options(path: str, tree: ast.Module) -> Iterator[Option]:
    commands = {
        target.id: command
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
        if (command := _subcommand(node.value))
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and last_name(node.func) in _CONSTRUCTORS)
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
        dest = _text(given.get("dest")) or long.lstrip("-").replace("-", "_")
        action = _text(given.get("action")) or (last_name(given["action"]) if "action" in given else "")
        if action == "" and "is_flag" in given:
            action = "store_true"
        holder = call.func.value if isinstance(call.func, ast.Attribute) else None
        yield Option(
            path,
            call.lineno,
            flags,
            dest,
            action,
            _scalar(given.get("default")),
            commands.get(last_name(holder), "") if holder is not None else "",
            _text(given.get("help")),
        )


def _subcommand(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and last_name(node.func) == "add_parser" and node.args:
        return _text(node.args[0])
    return ""


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _scalar(node: ast.expr | None) -> Scalar | None:
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError):
        return None
    return value if isinstance(value, str | int | float | bool) else None


# --- configuration files ----------------------------------------------------------------------------------------------


def keys_in(texts: Mapping[str, str], argv: tuple[str, ...], code: Code) -> list[Key]:
    """The keys of the configuration that a command reads: of Hydra's files those that its defaults name."""
    hydra = hydra_of(code)
    if hydra is not None:
        return [key for path, prefix in _composed(texts, *hydra) for key in _keys(path, texts[path], prefix)]
    named = [
        path
        for path in texts
        if path.endswith((".yaml", ".yml", ".json"))
        if path in argv or any(path in _strings(tree) for tree in code.trees.values())
    ]
    return [key for path in named for key in _keys(path, texts[path], "")]


def hydra_of(code: Code) -> tuple[str, str] | None:
    """Folder and name of Hydra's main configuration; None where the repository does not use it."""
    for path, tree in code.trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "main"
                and (last_name(node.func.value) == "hydra")
            ):
                given = {one.arg: _text(one.value) for one in node.keywords if one.arg}
                folder = PurePosixPath(path).parent / (given.get("config_path") or ".")
                return _plain(folder), given.get("config_name") or "config"
    return None


def _composed(texts: Mapping[str, str], folder: str, name: str) -> Iterator[tuple[str, str]]:
    """The files of a Hydra configuration with the prefix of their keys."""
    main = _found(texts, f"{folder}/{name}" if folder else name)
    if main is None:
        return
    yield main, ""
    told = _mapping(texts[main])
    for entry in cast("list[Any]", told.get("defaults") or []):
        for group, option in cast("dict[str, Any]", entry).items() if isinstance(entry, dict) else ():
            group = str(group).removeprefix("override ").removeprefix("optional ")
            path = _found(texts, f"{folder}/{group}/{option}" if folder else f"{group}/{option}")
            if path is not None:
                yield path, group.replace("/", ".") + "."


def names_in(texts: Mapping[str, str], code: Code) -> set[str] | None:
    """All that an override of a Hydra configuration may name: groups, and keys however deep, of every variant; None
    where files alone do not tell."""
    hydra = hydra_of(code)
    if hydra is None or not list(_composed(texts, *hydra)) or any("ConfigStore" in texts[path] for path in code.trees):
        return None
    found = set[str]()
    for group, paths in _groups(texts, hydra[0]).items():
        for path in paths:
            package = re.search(r"^# *@package +(\S+)", texts[path], re.MULTILINE)
            if package is not None and package[1] != "_global_":
                return None
            prefix = "" if package is not None or not group else f"{group.replace('/', '.')}."
            found |= {
                group,
                *(
                    name
                    for name in _every(_mapping(texts[path]), prefix)
                    if name.partition(".")[0] not in ("hydra", "defaults")
                ),
            }
    return found - {""}


def variants_in(texts: Mapping[str, str], code: Code) -> dict[str, list[str]]:
    """The groups of a Hydra configuration, each with its variants."""
    hydra = hydra_of(code)
    return {
        group: sorted(PurePosixPath(path).stem for path in paths)
        for group, paths in (_groups(texts, hydra[0]) if hydra is not None else {}).items()
        if group
    }


def _groups(texts: Mapping[str, str], folder: str) -> dict[str, list[str]]:
    """Its files by the folder below that of its configuration that they lie in."""
    found: dict[str, list[str]] = {}
    for path in texts:
        if path.startswith(f"{folder}/" if folder else "") and path.endswith((".yaml", ".yml")):
            found.setdefault(str(PurePosixPath(path).parent.relative_to(folder)).removeprefix("."), []).append(path)
    return found


def _every(value: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, inner in value.items():
        yield prefix + str(key)
        if isinstance(inner, dict):
            yield from _every(cast("dict[str, Any]", inner), f"{prefix}{key}.")


def groups_off(texts: Mapping[str, str], code: Code) -> list[tuple[str, str, str, str]]:
    """Groups of a Hydra configuration that have a variant for nothing: (group, chosen, that variant, file)."""
    hydra = hydra_of(code)
    if hydra is None or (main := _found(texts, f"{hydra[0]}/{hydra[1]}".lstrip("/"))) is None:
        return []
    found: list[tuple[str, str, str, str]] = []
    for entry in cast("list[Any]", _mapping(texts[main]).get("defaults") or []):
        for group, option in cast("dict[str, Any]", entry).items() if isinstance(entry, dict) else ():
            for empty in ("none", "off", "identity", "disabled", "constant"):
                path = _found(texts, f"{hydra[0]}/{group}/{empty}".lstrip("/"))
                if path is not None and str(option) != empty:
                    found.append((str(group), str(option), empty, main))
                    break
    return found


def targets_in(texts: Mapping[str, str], code: Code) -> list[tuple[str, str, int]]:
    """Objects that Hydra's configuration lists beside each other, as callbacks: (key, file, line)."""
    hydra = hydra_of(code)
    found: list[tuple[str, str, int]] = []
    for path, prefix in _composed(texts, *hydra) if hydra is not None else ():
        told = _mapping(texts[path])
        listed = [key for key, value in told.items() if isinstance(value, dict) and "_target_" in value]
        lines = texts[path].splitlines()
        found += [
            (prefix + key, path, next((at for at, one in enumerate(lines, 1) if one.startswith(f"{key}:")), 1))
            for key in listed
            if len(listed) > 1 and prefix
        ]
    return found


def _found(texts: Mapping[str, str], stem: str) -> str | None:
    return next((path for end in ("", ".yaml", ".yml") if (path := stem + end) in texts), None)


def _plain(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    return "/".join(parts)


def _keys(path: str, text: str, prefix: str) -> Iterator[Key]:
    lines = text.splitlines()

    def walk(value: Any, name: str) -> Iterator[Key]:
        if isinstance(value, dict):
            for key, inner in cast("dict[Any, Any]", value).items():
                if str(key) not in ("defaults", "hydra"):
                    yield from walk(inner, f"{name}.{key}" if name else str(key))
        elif isinstance(value, str | int | float | bool):
            last = name.rpartition(".")[2]
            line = next((at for at, one in enumerate(lines, 1) if one.strip().strip('"').startswith(last)), 1)
            yield Key(path, prefix + name, value, line)

    yield from walk(_mapping(text), "")


def _mapping(text: str) -> dict[str, Any]:
    try:
        told = load_foreign_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


def _strings(tree: ast.Module) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
