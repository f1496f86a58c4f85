"""Recognize from its output why a program stops, and propose known fixes without a model.

A fix changes the import path, names that Python or NumPy removed, or command words that the parser rejects. It never
changes a metric, a split, a seed or a hyperparameter, and never swallows an exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from labwright.record.schema.nodes import Failure
from labwright.record.schema.repository import RepositoryCommand, RepositoryEdit, RepositoryRepair
from labwright.stages.repository.code_index import build_edit, index_code
from labwright.stages.repository.command_discovery import find_script, find_seed_args
from labwright.stages.repository.config_options import find_options

_NUMPY_RENAMES = {
    "float_": "float64",
    "complex_": "complex128",
    "unicode_": "str_",
    "string_": "bytes_",
    "Inf": "inf",
    "Infinity": "inf",
    "infty": "inf",
    "NaN": "nan",
    "NAN": "nan",
    "product": "prod",
    "cumproduct": "cumprod",
    "alltrue": "all",
    "sometrue": "any",
    "trapz": "trapezoid",
    "in1d": "isin",
    "row_stack": "vstack",
    "int0": "intp",
    "uint0": "uintp",
    "round_": "round",
    "msort": "sort",
    "asfarray": "asarray",
    "mat": "asmatrix",
    "int": "int64",
    "float": "float64",
    "bool": "bool_",
    "object": "object_",
    "long": "int64",
    "complex": "complex128",
    "cast": "asarray",
    "find_common_type": "result_type",
    "longfloat": "longdouble",
    "singlecomplex": "complex64",
}
_ABC_NAMES = {
    "Mapping",
    "MutableMapping",
    "Sequence",
    "MutableSequence",
    "Set",
    "MutableSet",
    "Iterable",
    "Iterator",
    "Callable",
    "Hashable",
    "Sized",
    "Container",
    "Generator",
    "Collection",
    "ByteString",
    "KeysView",
    "ItemsView",
    "ValuesView",
    "MappingView",
    "Reversible",
    "Awaitable",
    "Coroutine",
}
_RENAMED_NAMES = {
    ("inspect", "getargspec"): "getfullargspec",
    ("time", "clock"): "perf_counter",
    ("math", "inf_"): "inf",
    ("fractions", "gcd"): "gcd",
}
DISTRIBUTION_NAMES = {
    "sklearn": "scikit-learn",
    "cv2": "opencv-python-headless",
    "yaml": "pyyaml",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "hydra": "hydra-core",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "tensorboard": "tensorboard",
    "pytorch_lightning": "pytorch-lightning",
}


def compute_signature(failure: Failure | None, words: str) -> str:
    """Return a signature of the failure, so that runs can be compared: `module:mixnet`, `option:--seed`; empty without
    a failure.

    `words`: the end of the program's output.
    """
    if failure is None:
        return ""
    output = f"{words}\n{failure.message}\n{failure.traceback}"
    for kind, pattern in _SIGNATURES:
        if found := re.search(pattern, output):
            return f"{kind}:{'.'.join(filter(None, found.groups()))}"
    if failure.kind in ("memory", "timeout", "no measurement", "died"):
        return failure.kind
    return failure.message[:120]


_SIGNATURES = (
    ("module", r"No module named '([\w.]+)'"),
    ("name", r"cannot import name '(\w+)' from '([\w.]+)'"),
    ("name", r"AttributeError: module '([\w.]+)' has no attribute '(\w+)'"),
    ("name", r"AttributeError: `(np)\.(\w+)` was removed"),
    ("path", r"can't open file '([^']+)'"),
    ("option", r"unrecognized arguments: (--?[\w-]+)"),
    ("option", r"No such option: (--?[\w-]+)"),
    ("argument", r"the following arguments are required: (.+)"),
    ("argument", r"invalid choice: '([^']*)'"),
    ("data", r"FileNotFoundError: .*?'([^']+)'"),
)


def propose_fixes(
    signature: str, texts: Mapping[str, str], command: RepositoryCommand, traceback: str, folders: Sequence[str] = ()
) -> Iterator[RepositoryRepair]:
    """Yield known fixes for a failure, likeliest first."""
    kind, _, what = signature.partition(":")
    if kind == "module":
        yield from _fix_module(what, texts, folders)
    elif kind == "name":
        yield from _fix_name(what, texts)
    elif kind == "option":
        yield from _fix_option(what, texts, command)


def _fix_module(name: str, texts: Mapping[str, str], folders: Sequence[str]) -> Iterator[RepositoryRepair]:
    top = name.partition(".")[0]
    for path in sorted(texts, key=lambda one: one.count("/")):
        found = re.fullmatch(rf"((?:[\w.-]+/)*){re.escape(top)}(?:/__init__)?\.py", path) or re.fullmatch(
            rf"((?:[\w.-]+/)*){re.escape(top)}/[\w/]+\.py", path
        )
        folder = found[1].rstrip("/") or "." if found else None
        if folder is not None and folder not in folders:
            yield RepositoryRepair(
                kind="pythonpath",
                env={"PYTHONPATH": folder},
                reason=f"{top} is in {folder if folder != '.' else 'the top folder'}, which is not on the import path",
            )
            return
    if top in ("imp", "distutils", "asyncore"):
        return
    yield RepositoryRepair(kind="pins", pins=(DISTRIBUTION_NAMES.get(top, top),), reason=f"{top} is not installed")


def _fix_name(what: str, texts: Mapping[str, str]) -> Iterator[RepositoryRepair]:
    first, _, second = what.rpartition(".")
    for module, name in ((first, second), (second, first)):
        if module == "collections" and name in _ABC_NAMES:
            if edits := _move_abc_imports(texts):
                yield RepositoryRepair(
                    kind="patch",
                    edits=edits,
                    reason=f"collections.{name} moved to collections.abc.{name} in Python 3.10",
                )
        elif module in ("numpy", "np") and name in _NUMPY_RENAMES:
            if edits := _rename(texts, r"\b(np|numpy)\.", name, _NUMPY_RENAMES[name]):
                yield RepositoryRepair(
                    kind="patch",
                    edits=edits,
                    reason=f"numpy.{name} was removed; replaced by numpy.{_NUMPY_RENAMES[name]}",
                )
        elif (module, name) in _RENAMED_NAMES:
            new = _RENAMED_NAMES[module, name]
            if edits := _rename(texts, rf"\b({module})\.", name, new):
                yield RepositoryRepair(
                    kind="patch", edits=edits, reason=f"{module}.{name} was removed; replaced by {module}.{new}"
                )


def _rename(texts: Mapping[str, str], before: str, name: str, new: str) -> tuple[RepositoryEdit, ...]:
    pattern = re.compile(rf"{before}{re.escape(name)}\b(?!\s*=[^=])")
    return _build_edits(texts, lambda text: pattern.sub(lambda one: f"{one[1]}.{new}", text))


def _move_abc_imports(texts: Mapping[str, str]) -> tuple[RepositoryEdit, ...]:
    """Replace imports and uses of abstract classes from `collections` by those of `collections.abc`."""

    def fix(text: str) -> str:
        def split(found: re.Match[str]) -> str:
            names = [one.strip() for one in found[2].strip("() \n").split(",") if one.strip()]
            abstract = [one for one in names if one.split()[0] in _ABC_NAMES]
            rest = [one for one in names if one not in abstract]
            if not abstract:
                return found[0]
            lines = [f"{found[1]}from collections import {', '.join(rest)}"] if rest else []
            return "\n".join([*lines, f"{found[1]}from collections.abc import {', '.join(abstract)}"])

        text = re.sub(r"^([ \t]*)from collections import (\([^)]*\)|[^\n#]+)", split, text, flags=re.MULTILINE)
        used = rf"\bcollections\.({'|'.join(sorted(_ABC_NAMES))})\b"
        if re.search(used, text):
            text = re.sub(used, lambda one: f"collections.abc.{one[1]}", text)
            text = re.sub(
                r"^import collections$", "import collections\nimport collections.abc", text, flags=re.MULTILINE
            )
        return text

    return _build_edits(texts, fix)


def _build_edits(texts: Mapping[str, str], fix: Callable[[str], str]) -> tuple[RepositoryEdit, ...]:
    return tuple(
        build_edit(path, text, after)
        for path, text in texts.items()
        if path.endswith(".py") and (after := fix(text)) != text
    )


def _fix_option(option: str, texts: Mapping[str, str], command: RepositoryCommand) -> Iterator[RepositoryRepair]:
    """Remove an option that the parser does not know, or replace it by the parser's equivalent."""
    code = index_code(texts)
    words = list(command.argv)
    at = next((at for at, word in enumerate(words) if word.partition("=")[0] == option), None)
    if at is None:
        return
    takes = "=" not in words[at] and at + 1 < len(words) and not words[at + 1].startswith("--")
    rest = words[:at] + words[at + 1 + takes :]
    given = words[at + 1] if takes else ""
    if "seed" in option:
        rest += find_seed_args(code, rest)
    else:
        script = find_script(words, texts)
        bare = option.lstrip("-").replace("-", "_")
        alike = [
            one.flag
            for one in find_options(code)
            if one.path == script and (one.dest == bare or bare in one.dest or one.dest in bare)
        ]
        rest += [alike[0], given] if alike and given else []
    yield RepositoryRepair(kind="argv", argv=tuple(rest), reason=f"removed unknown option {option}")
