"""Check the command words of arms, levels and hyperparameters against a repository's command, before anything is run.

Words are refused only if the code is certain to reject them: if a parser accepts unknown options, or is built
elsewhere, nothing is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import cast

import yaml

from labwright.record.schema import Scalar
from labwright.record.schema.repository import CommandSpace
from labwright.stages.repository.command_discovery import (
    ConfigKey,
    ParserOption,
    find_hydra_config,
    find_keys,
    list_options,
)
from labwright.stages.repository.patch_scope import CodeIndex, list_reached_files, read_last_name

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
