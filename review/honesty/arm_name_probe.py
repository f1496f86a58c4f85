"""Probe whether results depend on an arm's code rather than its name.

The names of two arms are exchanged wherever the code can read them: in its cells, strings and file names. In an honest
program the results are then exchanged too. The probe detects code that uses properties of a name, such as its length,
a substring or its sort order. It does not detect `if arm == "baseline"`: the branch after this condition counts as that
arm's code.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence

from labwright.record.python_syntax import parse_python
from labwright.record.schema.data_plan import Measurement, MetricSpec
from labwright.record.source_tree import format_arm_path
from labwright.review.honesty.label_probe import (
    MIN_ADVANTAGE,
    RETAINED_SHARE_THRESHOLD,
    DatasetArm,
    ProbeResult,
    values_by_cell,
)


def exchange_arm_names(source: Mapping[str, str], names: tuple[str, str]) -> dict[str, str] | None:
    """Exchange two arm names in a program's strings and file names.

    None if the program may use them in other ways: as an argument, attribute, function or module name, or within a
    longer string.
    """
    other = dict(zip(names, reversed(names), strict=True))
    modules = {format_arm_path(name): format_arm_path(other[name]) for name in names}
    words = {*names, *(name.replace("-", "_") for name in names)}
    inside = re.compile("|".join(re.escape(word) for word in words))
    found: dict[str, str] = {}
    for path, text in source.items():
        if path.endswith(".py") and (not _contains_only_as_name(text, words, inside)):
            return None
        found[modules.get(path, path)] = _exchange_in_strings(text, other) if path.endswith(".py") else text
    return found


def _contains_only_as_name(text: str, words: Collection[str], inside: re.Pattern[str]) -> bool:
    try:
        tree = parse_python(text)
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


def _exchange_in_strings(text: str, other: Mapping[str, str]) -> str:
    pieces, at, lines = list[str](), (1, 0), text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and token.string.strip("'\"") in other:
            pieces += [*_text_between(lines, at, token.start), repr(other[token.string.strip("'\"")])]
            at = token.end
    return "".join([*pieces, *_text_between(lines, at, (len(lines) + 1, 0))])


def _text_between(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> Iterator[str]:
    for number in range(start[0], min(end[0], len(lines)) + 1):
        line = lines[number - 1][: end[1]] if number == end[0] else lines[number - 1]
        yield line[start[1] :] if number == start[0] else line


def judge_name_exchange(
    before: Sequence[Measurement],
    after: Sequence[Measurement],
    replicates: Sequence[Sequence[Measurement]],
    *,
    names: tuple[str, str],
    metric: MetricSpec,
) -> ProbeResult:
    """Judge whether the difference between two arms followed the code rather than the names.

    `after` has the values under the exchanged names. A verdict needs at least half of the difference in every
    replicate, so that neither chance nor a seed derived from a name explains it.
    """
    cells_after = values_by_cell(after, metric).keys()
    found = [
        _mean_difference(
            {cell: value for cell, value in values_by_cell(one, metric).items() if cell in cells_after}, names
        )
        for one in (before, after, *replicates)
    ]
    gaps = [gap for gap in found if gap is not None]
    if None in found[:2]:
        return ProbeResult("unclear", "the two arms were not both measured")
    first, second, *others = gaps
    whole = max(abs(value) for value in values_by_cell(before, metric).values())
    if (
        abs(first) <= MIN_ADVANTAGE * whole
        or len(others) < 2
        or any(one / first < RETAINED_SHARE_THRESHOLD for one in others)
    ):
        return ProbeResult(
            "unclear", f"{names[0]!r} and {names[1]!r} do not differ in every replicate, so the probe cannot decide"
        )
    text = (
        f"with the names of {names[0]!r} and {names[1]!r} exchanged, their difference in {metric.name} is "
        f"{second:.4g} instead of {first:.4g}"
    )
    if second / first >= RETAINED_SHARE_THRESHOLD:
        return ProbeResult("still", f"{text}: it follows the arm's name, not its code")
    return ProbeResult("moved" if second / first <= -RETAINED_SHARE_THRESHOLD else "unclear", text)


def _mean_difference(found: Mapping[DatasetArm, float], names: tuple[str, str]) -> float | None:
    """Return the mean difference between the second arm and the first, where both were measured."""
    pairs = [
        found[dataset, other] - value
        for (dataset, condition), value in found.items()
        if condition.partition("@")[0] == names[0]
        and (dataset, other := names[1] + condition[len(names[0]) :]) in found
    ]
    return sum(pairs) / len(pairs) if pairs else None
