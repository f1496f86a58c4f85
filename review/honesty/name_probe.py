"""Whether what is measured goes with the code of an arm and not with its name: the probe of arms.

The names of two arms are exchanged wherever the code can read them: in its cells, in its strings, in the names of its
files. An honest program is then the same program with other names, and what is measured is exchanged, too. It shows
code that looks at a name in another way than as it is written: at its length, a part of it, its place in an order. It
does not show `if arm == "baseline"`, whatever stands below it: that is the arm's code.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence

from labwright.record.nouns.data import Measurement, MetricSpec
from labwright.record.source import file_of
from labwright.record.syntax import parse
from labwright.review.honesty.probe import LEAST, RETAINED, Cell, Probe, values_of


def exchanged(source: Mapping[str, str], names: tuple[str, str]) -> dict[str, str] | None:
    """A program with two names of arms exchanged in its strings and in the names of its files.

    None where it may use them in another way: as the name of an argument, an attribute, a function or a module, or
    within a longer string.
    """
    other = dict(zip(names, reversed(names), strict=True))
    modules = {file_of(name): file_of(other[name]) for name in names}
    words = {*names, *(name.replace("-", "_") for name in names)}
    inside = re.compile("|".join(re.escape(word) for word in words))
    found: dict[str, str] = {}
    for path, text in source.items():
        if path.endswith(".py") and (not _plainly_named(text, words, inside)):
            return None
        found[modules.get(path, path)] = _strings_exchanged(text, other) if path.endswith(".py") else text
    return found


def _plainly_named(text: str, words: Collection[str], inside: re.Pattern[str]) -> bool:
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword | ast.arg) and node.arg in words:
            return False
        if isinstance(node, ast.Attribute) and node.attr in words:
            return False
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in words:
            return False
        if isinstance(node, ast.alias) and inside.search(f"{node.name} {node.asname}"):
            return False
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and (node.value not in words and inside.search(node.value))
        ):
            return False
    return True


def _strings_exchanged(text: str, other: Mapping[str, str]) -> str:
    pieces, at, lines = list[str](), (1, 0), text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and token.string.strip("'\"") in other:
            pieces += [*_between(lines, at, token.start), repr(other[token.string.strip("'\"")])]
            at = token.end
    return "".join([*pieces, *_between(lines, at, (len(lines) + 1, 0))])


def _between(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> Iterator[str]:
    for number in range(start[0], min(end[0], len(lines)) + 1):
        line = lines[number - 1][: end[1]] if number == end[0] else lines[number - 1]
        yield line[start[1] :] if number == start[0] else line


def arms_probe(
    before: Sequence[Measurement],
    after: Sequence[Measurement],
    replicates: Sequence[Sequence[Measurement]],
    *,
    names: tuple[str, str],
    metric: MetricSpec,
) -> Probe:
    """Whether the difference between two arms went with the code, and did not stay with the names.

    `after` has the values under the names that the code was told. Where every replicate shows at least half of the
    difference, neither luck nor a seed that follows from a name can keep it in place.
    """
    told = values_of(after, metric).keys()
    found = [
        _gap({cell: value for cell, value in values_of(one, metric).items() if cell in told}, names)
        for one in (before, after, *replicates)
    ]
    gaps = [gap for gap in found if gap is not None]
    if None in found[:2]:
        return Probe("unclear", "the two arms were not both measured")
    first, second, *others = gaps
    whole = max(abs(value) for value in values_of(before, metric).values())
    if abs(first) <= LEAST * whole or len(others) < 2 or any(one / first < RETAINED for one in others):
        return Probe(
            "unclear",
            f"{names[0]!r} and {names[1]!r} do not differ in every replicate, so there is nothing to exchange",
        )
    text = (
        f"with the names of {names[0]!r} and {names[1]!r} exchanged their difference in {metric.name} is "
        f"{second:.4g} instead of {first:.4g}"
    )
    if second / first >= RETAINED:
        return Probe("still", f"{text}: it goes with the name and not with the code of the arm")
    return Probe("moved" if second / first <= -RETAINED else "unclear", text)


def _gap(found: Mapping[Cell, float], names: tuple[str, str]) -> float | None:
    """The mean difference between the second arm and the first where both were measured."""
    pairs = [
        found[dataset, other] - value
        for (dataset, condition), value in found.items()
        if condition.partition("@")[0] == names[0]
        and (dataset, other := names[1] + condition[len(names[0]) :]) in found
    ]
    return sum(pairs) / len(pairs) if pairs else None
