"""What stops a program, by what it says, and the mends that are known without a model.

A mend changes where imports are found, names that Python or NumPy gave up, words of the command that its parser does
not know; never a metric, a split, a seed or a hyperparameter, and it swallows no exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from labwright.record.nouns.nodes import Failure
from labwright.record.nouns.repository import Command, Edit, Repair
from labwright.stages.repository.code import code_in, edit_between
from labwright.stages.repository.commands import script_of, seed_words
from labwright.stages.repository.options import options_in

_NUMPY = {
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
_ABC = {
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
_RENAMED = {
    ("inspect", "getargspec"): "getfullargspec",
    ("time", "clock"): "perf_counter",
    ("math", "inf_"): "inf",
    ("fractions", "gcd"): "gcd",
}
DISTRIBUTIONS = {
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


def signature_of(failure: Failure | None, words: str) -> str:
    """What stopped a program, so that two runs can be compared: `module:mixnet`, `option:--seed`; empty: nothing did.

    `words`: the end of what it printed.
    """
    if failure is None:
        return ""
    said = f"{words}\n{failure.message}\n{failure.traceback}"
    for kind, pattern in _SIGNATURES:
        if found := re.search(pattern, said):
            return f"{kind}:{'.'.join(filter(None, found.groups()))}"
    if failure.kind in ("memory", "timeout", "no measurement", "died"):
        return f"{failure.kind}:"
    return f"other:{failure.message[:120]}"


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


def mends(
    signature: str, texts: Mapping[str, str], command: Command, traceback: str, folders: Sequence[str] = ()
) -> Iterator[Repair]:
    """Known mends for what stopped a program, the likeliest first."""
    kind, _, what = signature.partition(":")
    if kind == "module":
        yield from _of_module(what, texts, folders)
    elif kind == "name":
        yield from _of_name(what, texts)
    elif kind == "option":
        yield from _of_option(what, texts, command)


def _of_module(name: str, texts: Mapping[str, str], folders: Sequence[str]) -> Iterator[Repair]:
    top = name.partition(".")[0]
    for path in sorted(texts, key=lambda one: one.count("/")):
        found = re.fullmatch(rf"((?:[\w.-]+/)*){re.escape(top)}(?:/__init__)?\.py", path) or re.fullmatch(
            rf"((?:[\w.-]+/)*){re.escape(top)}/[\w/]+\.py", path
        )
        folder = found[1].rstrip("/") or "." if found else None
        if folder is not None and folder not in folders:
            yield Repair(
                kind="pythonpath",
                env={"PYTHONPATH": folder},
                reason=f"{top} lies in {folder if folder != '.' else 'the top'}, which is not on the path",
            )
            return
    if top in ("imp", "distutils", "asyncore"):
        return
    yield Repair(kind="pins", pins=(DISTRIBUTIONS.get(top, top),), reason=f"{top} is not installed")


def _of_name(what: str, texts: Mapping[str, str]) -> Iterator[Repair]:
    first, _, second = what.rpartition(".")
    for module, name in ((first, second), (second, first)):
        if module == "collections" and name in _ABC:
            if edits := _moved(texts):
                yield Repair(
                    kind="patch", edits=edits, reason=f"collections.{name} is collections.abc.{name} since Python 3.10"
                )
        elif module in ("numpy", "np") and name in _NUMPY:
            if edits := _renamed(texts, r"\b(np|numpy)\.", name, _NUMPY[name]):
                yield Repair(kind="patch", edits=edits, reason=f"numpy.{name} is gone; it was numpy.{_NUMPY[name]}")
        elif (module, name) in _RENAMED:
            new = _RENAMED[module, name]
            if edits := _renamed(texts, rf"\b({module})\.", name, new):
                yield Repair(kind="patch", edits=edits, reason=f"{module}.{name} is gone; {module}.{new} does it")


def _renamed(texts: Mapping[str, str], before: str, name: str, new: str) -> tuple[Edit, ...]:
    pattern = re.compile(rf"{before}{re.escape(name)}\b(?!\s*=[^=])")
    return _edited(texts, lambda text: pattern.sub(lambda one: f"{one[1]}.{new}", text))


def _moved(texts: Mapping[str, str]) -> tuple[Edit, ...]:
    """Imports and uses of abstract classes from `collections`, as they must be now."""

    def mend(text: str) -> str:
        def split(found: re.Match[str]) -> str:
            names = [one.strip() for one in found[2].strip("() \n").split(",") if one.strip()]
            abstract = [one for one in names if one.split()[0] in _ABC]
            rest = [one for one in names if one not in abstract]
            if not abstract:
                return found[0]
            lines = [f"{found[1]}from collections import {', '.join(rest)}"] if rest else []
            return "\n".join([*lines, f"{found[1]}from collections.abc import {', '.join(abstract)}"])

        text = re.sub(r"^([ \t]*)from collections import (\([^)]*\)|[^\n#]+)", split, text, flags=re.MULTILINE)
        used = rf"\bcollections\.({'|'.join(sorted(_ABC))})\b"
        if re.search(used, text):
            text = re.sub(used, lambda one: f"collections.abc.{one[1]}", text)
            text = re.sub(
                r"^import collections$", "import collections\nimport collections.abc", text, flags=re.MULTILINE
            )
        return text

    return _edited(texts, mend)


def _edited(texts: Mapping[str, str], mend: Callable[[str], str]) -> tuple[Edit, ...]:
    return tuple(
        edit_between(path, text, after)
        for path, text in texts.items()
        if path.endswith(".py") and (after := mend(text)) != text
    )


def _of_option(option: str, texts: Mapping[str, str], command: Command) -> Iterator[Repair]:
    """Without an option that the parser does not know: the one that it has for the same, or none."""
    code = code_in(texts)
    words = list(command.argv)
    at = next((at for at, word in enumerate(words) if word.partition("=")[0] == option), None)
    if at is None:
        return
    takes = "=" not in words[at] and at + 1 < len(words) and not words[at + 1].startswith("--")
    rest = words[:at] + words[at + 1 + takes :]
    given = words[at + 1] if takes else ""
    if "seed" in option:
        rest += seed_words(code, rest)
    else:
        script = script_of(words, texts)
        bare = option.lstrip("-").replace("-", "_")
        alike = [
            one.flag
            for one in options_in(code)
            if one.path == script and (one.dest == bare or bare in one.dest or one.dest in bare)
        ]
        rest += [alike[0], given] if alike and given else []
    yield Repair(kind="argv", argv=tuple(rest), reason=f"its parser knows no {option}")
