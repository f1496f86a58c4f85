"""Result files that are copies of one another under the names of different data or methods."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import PurePosixPath

from review.foreign.results import Series
from review.foreign.signs.sign import Sign

_COPY = re.compile(
    r"final|best|latest|last|copy|backup|old|all|main|full|summary|results?|run|rerun|metrics?|out|v\d+|seed|fold|"
    r"trial|rep|\d+",
    re.I,
)
_REPEAT = re.compile(r"seed|fold|trial|rep|run|^\d+$|epoch|step|iter|round", re.I)
LEAST = 3
"""Fine numbers that two parts must share, all of them."""


def of_files(series: Sequence[Series]) -> Iterator[Sign]:
    """Files, and parts of one file under different keys, whose fine numbers are all the same."""
    files: dict[str, list[float]] = defaultdict(list)
    parts: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for one in series:
        if one.written:
            continue
        files[one.file] += [value for value in one.values if _fine(value)]
        for key in _keys(one):
            parts[one.file][key[0]] += [(key[1], value) for value in one.values[:50] if _fine(value)]
    for a, b in combinations(sorted(files), 2):
        if len(files[a]) >= 2 * LEAST and files[a] == files[b] and _told_apart(a, b):
            yield Sign("copied results", f"all {len(files[a])} fine numbers are those of {b}", a, "", 0.75)
    for name, inside in parts.items():
        yield from _parts(name, inside)


def _parts(name: str, inside: dict[str, list[tuple[str, float]]]) -> Iterator[Sign]:
    for a, b in combinations(sorted(inside), 2):
        if (
            len(inside[a]) >= LEAST
            and sorted(inside[a]) == sorted(inside[b])
            and not _REPEAT.search(a)
            and not _REPEAT.search(b)
            and len({value for _, value in inside[a]}) >= LEAST
        ):
            shown = ", ".join(f"{value:g}" for _, value in inside[a][:4])
            yield Sign("copied results", f"{a} and {b} have the same {len(inside[a])} numbers", name, shown, 0.55)
            return


def _keys(one: Series) -> Iterator[tuple[str, str]]:
    """The outermost key of JSON under which values stand, and the rest."""
    if "|" in one.key or " " in one.key or "." not in one.key:
        return
    parts = one.key.split(".")
    for at in range(min(2, len(parts) - 1)):
        yield ".".join(parts[: at + 1]), ".".join(parts[at + 1 :])


def _told_apart(a: str, b: str) -> bool:
    """Whether two files are named after different things, and not as copies or seeds of one."""
    words = [set(re.findall(r"[a-z]+|\d+", PurePosixPath(name).with_suffix("").as_posix().lower())) for name in (a, b)]
    left, right = words[0] - words[1], words[1] - words[0]
    return (
        bool(left and right)
        and not any(_COPY.fullmatch(word) for word in left | right)
        and (PurePosixPath(a).suffix == PurePosixPath(b).suffix)
    )


def _fine(value: float) -> bool:
    return value != round(value, 2) and value not in (0.0, 1.0)
