"""Result files that are copies of one another under the names of different data or methods."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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


def of_files(series: Sequence[Series], logs: str) -> Iterator[Sign]:
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
    yield from _seeds(files, logs)
    for name, inside in parts.items():
        yield from _parts(name, inside)
    for name in files:
        own = [one for one in series if one.file == name]
        yield from _shares(name, own)
        yield from _multiples(name, own)


def _seeds(files: Mapping[str, list[float]], logs: str) -> Iterator[Sign]:
    """Files of several seeds with the same numbers, where the log knows of fewer seeds."""
    named = [name for name in files if re.search(r"seed\D?\d|run\D?\d", name, re.I) and len(files[name]) >= LEAST]
    same = [name for name in named if files[name] == files[named[0]]]
    ran = set(re.findall(r"\b(?:seed|run)\W{0,4}(\d+)", logs, re.I))
    if len(same) > 1 and ran and len(ran) < len(named):
        what = f"{len(same)} files of seeds have the same numbers, the log knows of {len(ran)} seeds"
        yield Sign("copied results", what, same[0], "", .7)


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


_SCALED = re.compile(
    r"rel|norm|ratio|std|sd\b|sem|time|sec|step|cost|param|weight|epoch|size|index|percent|"
    r"per_(?:sec|step|epoch)", re.I)


def _multiples(name: str, series: Sequence[Series]) -> Iterator[Sign]:
    """Series of measurements of which one is the other times the same number."""
    long = [one for one in series if 5 <= len(one.values) <= 1000 and not _SCALED.search(one.key)
            and len(set(one.values)) >= 5 and all(value > 0 for value in one.values)][:60]
    for a, b in combinations(long, 2):
        if len(a.values) != len(b.values):
            continue
        ratios = [y / x for x, y in zip(a.values, b.values, strict=True)]
        slack = max(_step(y) / y + _step(x) / x for x, y in zip(a.values, b.values, strict=True))
        middle = sorted(ratios)[len(ratios) // 2]
        varied = max(a.values) > 1.1 * min(a.values) and slack < .01
        if varied and all(abs(ratio / middle - 1) <= slack for ratio in ratios) and not any(
                abs(middle / unit - 1) < .003 for unit in (1, 2, .5, 10, .1, 100, .01, 1000, .001, 60, 1 / 60)):
            what = f"{b.key} is {a.key} times {middle:.4g} in all {len(ratios)} values"
            yield Sign("constant ratio", what, name, "", .75)
            return


def _step(value: float) -> float:
    """One unit in the last place that a value was written with."""
    return 10.0 ** -len(f"{value!r}".partition(".")[2]) if "e" not in f"{value!r}" else abs(value) * 1e-6


_N_TEST = re.compile(r"(?:n_?test|test_?(?:size|n|samples)|n_?eval\w*|num_?test\w*)$", re.I)
_SHARE = re.compile(r"(?:^|[._ ])(?:test_?)?(?:acc|accuracy|error_rate)(?:$|[._\[ ])", re.I)
_NO_SHARE = re.compile(
    r"train|val|dev|balanced|std|sd\b|ci|low|high|mean|avg|loss|delta|diff|drop|gain|p_value|chance|top",
    re.I)


def _shares(name: str, series: Sequence[Series]) -> Iterator[Sign]:
    """Accuracies that no whole number of the test set gives, in a file where others are just that."""
    sizes = {int(value) for one in series if _N_TEST.search(one.key) for value in one.values if value == int(value) > 0}
    repeats = {int(value) for one in series if re.search(r"(?:repeats?|seeds|runs|folds|trials)$", one.key)
               for value in one.values if 1 < value == int(value) < 100} | {1}
    if len(sizes) != 1:
        return
    size = sizes.pop()
    shares = [(one, value) for one in series if _SHARE.search(one.key) and not _NO_SHARE.search(one.key)
              for value in one.values if 0 < value < 1]
    wrong = [(one, value) for one, value in shares if not any(_whole(value, size * repeat) for repeat in repeats)]
    if wrong and 2 * len(wrong) <= len(shares) and len(wrong) < len(shares) - 1:
        one, value = wrong[0]
        yield Sign("impossible value", f"{len(wrong)} of {len(shares)} accuracies are no share of {size}",
                   f"{name}: {one.key}", f"{value:g}", .7)


def _whole(value: float, size: int) -> bool:
    places = len(f"{value!r}".partition(".")[2])
    slack = .51 * 10.0 ** -places * size if places < 8 else 1e-6 * size
    return abs(value * size - round(value * size)) <= slack


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
