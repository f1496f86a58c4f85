"""List the commands in a repository's documents and the scripts that can be run, checked against the code.

Nothing is run, and no command is preferred because of its name. A command with a missing script, module or option is
outdated.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from labwright.record.schema.repository import split_folder
from labwright.stages.repository.code_index import CodeIndex, find_module_name, index_code
from labwright.stages.repository.config_options import ParserOption, find_hydra_config, find_keys, find_options

_COMMAND_LINE = re.compile(
    r"^[ \t]*(?:[-*$>|][ \t]*)?(?:run:[ \t]*)?((?:cd [\w./-]+ && )?(?:[A-Z_]+=\S+[ \t]+)*(?:uv run |poetry run )?"
    r"(?:python3?|torchrun|accelerate launch)\s[^`#\n]*)",
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
    path = find_script(argv, code.texts)
    for option in find_options(code):
        if _SEED_NAME.search(option.dest) and path is not None and _reaches(option, path, argv, code):
            return (option.flag, "{seed}")
    if find_hydra_config(code) is not None or any(re.fullmatch(r"[\w.]+=.*", word) for word in argv):
        key = next((one.name for one in find_keys(code.texts, tuple(argv), code) if _SEED_NAME.search(one.name)), None)
        return (f"{key}={{seed}}",) if key else ()
    return ()


def insert_seed(argv: Sequence[str], code: CodeIndex) -> tuple[str, ...]:
    """Return the command with `{seed}` in place of its seed; if it has no seed but accepts one, `{seed}` is added.

    With Hydra, the command is made to write to `{out}` instead of a folder named after the time.
    """
    words = list(argv)
    if find_hydra_config(code) is not None and not any(word.startswith("hydra.run.dir=") for word in words):
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


def find_script(argv: Sequence[str], texts: Mapping[str, str]) -> str | None:
    """Return the file that a command line runs; None if it is not in the repository."""
    folder, rest = split_folder(argv)
    words = list(rest)
    while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] in ("uv", "poetry", "run", "accelerate", "launch")):
        words.pop(0)
    if words[1:2] == ["-m"] and len(words) > 2:
        stem = words[2].replace(".", "/")
        return next(
            (
                path
                for path in (
                    f"{folder}{stem}{end}" for folder in ("", "src/", "lib/") for end in (".py", "/__main__.py")
                )
                if path in texts
            ),
            None,
        )
    named = next((word for word in words[1:] if word.endswith(".py")), "")
    path = posixpath.normpath(posixpath.join(folder, named))
    return path if named and path in texts else None


def find_missing_script(argv: Sequence[str], texts: Mapping[str, str]) -> str:
    """Return the first Python file of a command line if the repository lacks it; empty otherwise."""
    _, words = split_folder(argv)
    if not re.fullmatch(r"python(3(\.\d+)?)?|torchrun", words[0]) or find_script(argv, texts):
        return ""
    first = next((word for word in words[1:] if not word.startswith("-")), "")
    return first if first.endswith(".py") and not first.startswith("/") and "{" not in first else ""


def find_unknown_options(argv: Sequence[str], code: CodeIndex) -> str:
    """Return the reason why the script's parser rejects a command line; empty if it accepts it or has no options."""
    path = find_script(argv, code.texts)
    known = {
        flag for one in find_options(code) for flag in one.flags if path is not None and _reaches(one, path, argv, code)
    }
    if not known or find_hydra_config(code) is not None:
        return ""
    used = [word.partition("=")[0] for word in argv if re.match(r"--[a-zA-Z]", word)]
    unknown = [word for word in used if not any(flag.startswith(word) for flag in known)]
    return f"the parser has no option {', '.join(unknown)}" if unknown else ""


def _find_in_document(path: str, text: str, code: CodeIndex) -> Iterator[CommandCandidate]:
    for found in _COMMAND_LINE.finditer(text.replace("\\\n", " ")):
        try:
            words = shlex.split(found[1])
        except ValueError:
            continue
        words = [word for word in words if word not in ("\\",)]
        folder, rest = split_folder(words)
        words = list(rest)
        if any(word in ("|", ">", "&&", ";", "pip", "venv", "pytest", "-c") for word in words):
            continue
        env: dict[str, str] = {}
        while words and re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        while words[:1] in (["uv"], ["poetry"], ["run"]):
            words.pop(0)
        if len(words) < 2:
            continue
        named = words[2] if words[1] == "-m" and len(words) > 2 else words[1]
        words = ["cd", folder, "&&", *words] if folder else words
        script = find_script(words, code.texts)
        wrong = f"there is no {named}" if script is None else find_unknown_options(words, code)
        yield CommandCandidate(insert_seed(words, code), path, env, wrong)


def _find_entry_points(code: CodeIndex) -> Iterator[CommandCandidate]:
    """Yield commands for the scripts of the code, with the first subcommand of their parser."""
    found = [path for path, tree in code.trees.items() if _is_entry(tree)]
    for path in sorted(found, key=_rank_path):
        words = ("python", "-m", find_module_name(path)) if path.startswith(("src/", "lib/")) else ("python", path)
        argv = insert_seed((*words, *_list_subcommands(code.trees[path])[:1]), code)
        yield CommandCandidate(argv, f"the code of {path}", {})


def _is_entry(tree: ast.Module) -> bool:
    """Return whether a file is runnable: it checks `__name__`, or parses arguments at top level."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return True
        if isinstance(node, ast.Assign | ast.Expr) and "parse_args" in ast.unparse(node.value):
            return True
    return False


def _list_subcommands(tree: ast.Module) -> list[str]:
    return [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_parser"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def _reaches(one: ParserOption, path: str, argv: Sequence[str], code: CodeIndex) -> bool:
    """Return whether a command reads an option: it is declared in the command's script or in a file that the script
    imports.
    """
    if one.command and one.command not in argv:
        return False
    return (
        one.path == path or find_module_name(one.path) in list_imports(code.trees[path])
        if path in code.trees
        else False
    )


def list_imports(tree: ast.Module) -> set[str]:
    """Return the names of the modules that a file imports, and of what it imports from them."""
    found = {f"{node.module}" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    found |= {
        f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if node.module
    }
    return found | {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}


def _rank_path(path: str) -> tuple[int, int, str]:
    first = 0 if path.lower().startswith("readme") else 1 if path.count("/") == 0 else 2
    return first, path.count("/"), path
