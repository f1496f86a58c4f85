"""Words of arms, levels and hyperparameters, held against what a repository's command knows, before anything is run.

Refused is what the code says for certain: where a parser takes what it does not know, or is made elsewhere, nothing is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import cast

import yaml

from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.frozen import Scalar
from labwright.record.nouns.space import Space
from labwright.stages.repository.code import Code, last_name
from labwright.stages.repository.context import reached
from labwright.stages.repository.options import Key, Option, hydra_of, keys_in, names_in, options_in

_OPEN = {
    "parse_known_args",
    "HfArgumentParser",
    "from_cli",
    "Fire",
    "add_dataclass_fields",
    "parse_intermixed_args",
    "DEFINE_string",
    "DEFINE_float",
    "DEFINE_integer",
    "LightningCLI",
    "tyro",
    "run_exit",
}
"""Calls after which a command may know more than its declared options."""


def options_of(argv: Sequence[str], code: Code) -> list[Option]:
    """The options of what a command runs, its subcommand's included."""
    paths = set(reached(code, argv))
    return [one for one in options_in(code) if one.path in paths and (not one.command or one.command in argv)]


def wrong_words(words: Sequence[str], argv: Sequence[str], code: Code) -> str:
    """What of words that are added to a command it does not know; empty where it knows all, or nobody can tell."""
    if hydra_of(code) is not None:
        own = next((word for word in words if re.match(r"--(?!config|cfg|resolve|package)", word)), "")
        known = names_in(code.texts, code)
        return (
            f"knows no option {own}: it takes overrides key=value"
            if own
            else ""
            if known is None
            else _unknown("key", filter(None, map(_key, words)), known)
        )
    flags = _closed(argv, code)
    if not flags:
        return ""
    asked = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    if wrong := _unknown("option", (one for one in asked if not any(flag.startswith(one) for flag in flags)), flags):
        return wrong
    bare = next((word for word in words if re.match(r"[\w.]+=", word)), "")
    return (
        ""
        if not bare or _takes_words(code, argv)
        else (f"takes no {bare!r}, only options: {', '.join(sorted(flags)[:12])}")
    )


def takes_overrides(argv: Sequence[str], code: Code) -> bool:
    """Whether words `key=value` may reach its configuration, as far as the code tells."""
    return hydra_of(code) is not None or not _closed(argv, code) or _takes_words(code, argv)


def _closed(argv: Sequence[str], code: Code) -> set[str]:
    """All options of a command, where it certainly knows no others; else none."""
    called = {
        last_name(node.func)
        for path in reached(code, argv)
        if path in code.trees
        for node in ast.walk(code.trees[path])
        if isinstance(node, ast.Call)
    }
    return set() if _OPEN & called else {flag for one in options_of(argv, code) for flag in one.flags}


def _takes_words(code: Code, argv: Sequence[str]) -> bool:
    """Whether a parser has an argument without a name, or one that takes several words; or nothing says so."""
    for path in reached(code, argv):
        for node in ast.walk(code.trees[path]) if path in code.trees else ():
            if isinstance(node, ast.Call) and last_name(node.func) in ("add_argument", "argument", "Argument"):
                first = node.args[0] if node.args else None
                if not (isinstance(first, ast.Constant) and str(first.value).startswith("-")) or any(
                    one.arg == "nargs" for one in node.keywords
                ):
                    return True
            elif isinstance(node, ast.Attribute) and node.attr == "argv":
                return True
    return False


def _key(word: str) -> str:
    """The key that an override sets; empty where it adds one, or is none."""
    name = word.partition("=")[0] if "=" in word or word.startswith("~") else ""
    return "" if name.startswith(("+", "-", "hydra")) else name.lstrip("~").partition("@")[0]


def _unknown(noun: str, names: Iterable[str], known: Iterable[str]) -> str:
    known = sorted(known)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            return f"knows no {noun} {name}" + (f", but {near[0]}" if near else f"; there is {', '.join(known[:12])}")
    return ""


def words_faults(plan: DataPlan, argv: Sequence[str], code: Code) -> Iterator[str]:
    """Which words of a plan its command does not know, one sentence each."""
    return space_faults(Space(hyperparameters=plan.space, arms=plan.arms, levels=plan.all_levels), argv, code)


def space_faults(space: Space, argv: Sequence[str], code: Code) -> Iterator[str]:
    """Which words of a space its command does not know, one sentence each; what reaches patched arms alone is not
    there yet."""
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
        own = next((word for word in words if _head(word) in _filled(argv)), "")
        if own:
            yield f"{what} sets {_head(own)}, which the program fills in for each run: take it out"
        if wrong := wrong_words(words, argv, code):
            yield f"{what} has the words {' '.join(words)}: the command {wrong}"
    yield from (
        f"{what} has the word {' '.join(words)}, without {{value}}"
        for what, words in tuned
        if "{value}" not in " ".join(words)
    )


def _head(word: str) -> str:
    return word.partition("=")[0]


def _filled(argv: Sequence[str]) -> set[str]:
    """Options and keys that stand before `{seed}` and `{out}` in a command."""
    return {
        _head(word)
        for word, after in zip(argv, (*argv[1:], ""), strict=True)
        if re.search(r"\{(seed|out)\}", word if "=" in word else after)
    }


# --- hyperparameters as a person gives them ---------------------------------------------------------------------------


def completed(name: str, told: dict[str, object], argv: Sequence[str], code: Code) -> dict[str, object]:
    """A hyperparameter as a file gives it, with what the repository itself tells of it: how the command is given it,
    its default there, and where that stands."""
    made = {"name": name, **told}
    if made.pop("log", False):
        made.setdefault("kind", "log")
    place = _place(str(made.get("word", "")), name, argv, code)
    if place is not None:
        word = f"{place.flag} {{value}}" if isinstance(place, Option) else f"{place.name}={{value}}"
        made.setdefault("word", word)
        value, where = _default(place, argv)
        if value is not None and "default" not in made:
            made |= {"default": value, "source": made.get("source", where)}
    made.setdefault("source", "given by the user")
    if "kind" not in made:
        numbers = (made.get("low"), made.get("high"), made.get("default"))
        made["kind"] = (
            "choice"
            if made.get("options")
            else ("integer" if all(isinstance(one, int) for one in numbers) else "linear")
        )
    return made


def _place(word: str, name: str, argv: Sequence[str], code: Code) -> Option | Key | None:
    """The option or key that a word sets, or that has the name."""
    options, keys = options_of(argv, code), keys_in(code.texts, tuple(argv), code)
    if word:
        head = re.split(r"[ =]", word)[0]
        return next((one for one in options if head in one.flags), None) or next(
            (one for one in keys if one.name == head.lstrip("+")), None
        )
    named = [one for one in keys if name in (one.name, one.name.replace(".", "_"), one.name.rpartition(".")[2])]
    return next((one for one in options if one.dest == name), None) or (named[0] if len(named) == 1 else None)


def _default(place: Option | Key, argv: Sequence[str]) -> tuple[Scalar | None, str]:
    """What it is where no arm says otherwise, and who says so."""
    names = place.flags if isinstance(place, Option) else (place.name,)
    for word, after in zip(argv, (*argv[1:], ""), strict=True):
        head, equals, value = word.partition("=")
        if head in names and (equals or isinstance(place, Option)):
            text = value if equals else after
            return (None if "{" in text else cast("Scalar", yaml.safe_load(text))), "the command"
    return place.value, f"the repository, {place.path}:{place.line}"
