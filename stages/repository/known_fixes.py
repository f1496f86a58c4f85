"""Recognize from its output why a program stops, and propose what needs no reading of the code: an import folder or a
package. An author makes every other repair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from labwright.record.schema.nodes import Failure
from labwright.record.schema.repository import RepositoryRepair

_SIGNATURES = (
    ("module", r"No module named '([\w.]+)'"),
    ("name", r"cannot import name '(\w+)' from '([\w.]+)'"),
    ("name", r"AttributeError: module '([\w.]+)' has no attribute '(\w+)'"),
    ("path", r"can't open file '([^']+)'"),
    ("option", r"unrecognized arguments: (--?[\w-]+)"),
    ("option", r"No such option: (--?[\w-]+)"),
    ("argument", r"the following arguments are required: (.+)"),
    ("argument", r"invalid choice: '([^']*)'"),
    ("data", r"FileNotFoundError: .*?'([^']+)'"),
)


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


def propose_fixes(signature: str, texts: Mapping[str, str], folders: Sequence[str] = ()) -> Iterator[RepositoryRepair]:
    """Yield the fix of a module that cannot be imported: its folder in the repository, otherwise the package of its
    name. `folders` are on the import path already.
    """
    kind, _, name = signature.partition(":")
    if kind != "module":
        return
    top = name.partition(".")[0]
    for path in sorted(texts, key=lambda one: one.count("/")):
        found = re.fullmatch(rf"((?:[\w.-]+/)*){re.escape(top)}(?:\.py|/[\w/]+\.py)", path)
        folder = found[1].rstrip("/") or "." if found else None
        if folder is not None and folder not in folders:
            reason = f"{top} is in {'the top folder' if folder == '.' else folder}, which is not on the import path"
            yield RepositoryRepair(kind="pythonpath", env={"PYTHONPATH": folder}, reason=reason)
            return
    yield RepositoryRepair(kind="pins", pins=(top,), reason=f"{top} is not installed")
