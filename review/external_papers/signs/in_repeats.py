"""Check means and deviations against their values, in results and tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev, stdev

from labwright.review.external_papers.number_matching import is_rounding_of
from labwright.review.external_papers.passages import PaperPassage
from labwright.review.external_papers.printed_numbers import extract_numbers
from labwright.review.external_papers.result_files import ValueSeries
from labwright.review.external_papers.signs.sign import Sign

_VALUES = re.compile(
    r"(?:[._](?:values|scores|runs|per_seed|per_run|raw|all|seeds|accuracies|accs|results|"
    r"list))?\[#\]$"
)
_MEAN = re.compile(r"(?:^|[._])(?:mean|avg|average)$")
_SPREAD = re.compile(r"(?:^|[._])(?:std|sd|stdev|stddev)$")
_REPEAT = re.compile(r"(?:seed|run|fold|trial|repeat|split)\s*#?\s*\d", re.I)


def of_repeats(
    series: Sequence[ValueSeries], groups: Sequence[ValueSeries], passages: Sequence[PaperPassage]
) -> Iterator[Sign]:
    """Yield all such signs."""
    yield from _summaries(series)
    for passage in passages:
        if passage.cells:
            yield from _rows(passage)
    yield from _spreads((*series, *groups), passages)


def _summaries(series: Sequence[ValueSeries]) -> Iterator[Sign]:
    """Find means outside the range of their values, and deviations larger than that range."""
    single = {(one.file, one.key): one for one in series if len(one.values) == 1}
    for one in series:
        match = _VALUES.search(one.key)
        if match is None or not 2 <= len(one.values) <= 100 or one.from_prose:
            continue
        stem = one.key[: match.start()]
        low, high = min(one.values), max(one.values)
        slack = 0.02 * max(high - low, abs(high) * 0.01)
        for (file, key), other in single.items():
            own = file == one.file and key.startswith(stem) and "." not in key[len(stem) + 1 :]
            value = other.values[0]
            if own and _MEAN.search(key) and not low - slack <= value <= high + slack:
                yield Sign(
                    "impossible scores",
                    f"{key} is outside the range of its {len(one.values)} values",
                    file,
                    f"{value:g}, {low:g} to {high:g}",
                    0.8,
                )
            if own and _SPREAD.search(key) and value > high - low + slack:
                yield Sign(
                    "impossible scores",
                    f"{key} is larger than the range of its {len(one.values)} values",
                    file,
                    f"{value:g}, {low:g} to {high:g}",
                    0.8,
                )


def _rows(passage: PaperPassage) -> Iterator[Sign]:
    """Check a mean next to its seeds in a table row."""
    rows: dict[int, list[tuple[str, float, float]]] = defaultdict(list)
    for cell in passage.cells:
        for number in extract_numbers(cell.text, "cell")[:1]:
            rows[cell.row].append((cell.column_label, number.value, number.rounding_slack))
    for row in rows.values():
        seeds = [(value, slack) for label, value, slack in row if _REPEAT.search(label)]
        means = [(value, slack) for label, value, slack in row if re.search(r"mean|avg|average", label, re.I)]
        if len(seeds) >= 2 and len(means) == 1:
            middle = sum(value for value, _ in seeds) / len(seeds)
            if abs(means[0][0] - middle) > 2.2 * (means[0][1] + max(slack for _, slack in seeds)):
                yield Sign(
                    "impossible scores",
                    f"the mean of {len(seeds)} columns is {middle:.4g}",
                    f"table {passage.table}",
                    f"{means[0][0]:g}",
                    0.75,
                )


_SPREAD_OF = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*%?\s*(?:\u00b1|\+/-|\\pm)\s*(\d+(?:\.\d+)?)")


def _spreads(series: Sequence[ValueSeries], passages: Sequence[PaperPassage]) -> Iterator[Sign]:
    """Find standard deviations in a table that are impossible for values with the reported mean."""
    repeated = [one for one in series if 3 <= len(one.values) <= 200 and not one.from_prose]
    wrong: list[str] = []
    right = 0
    for cell in (cell for passage in passages for cell in passage.cells):
        numbers = extract_numbers(cell.text, "cell")
        if len(numbers) != 2 or not _SPREAD_OF.search(cell.text) or numbers[0].digits < 3:
            continue
        mean, spread = numbers
        own = [one for one in repeated if is_rounding_of(mean, fmean(one.values)) and len(set(one.values)) > 1]
        if any(is_rounding_of(spread, size) for one in own for size in _sizes(one.values)):
            right += 1
        elif own and all(_too_large(spread.value, mean.value, one.values) for one in own):
            wrong.append(f"{cell.text} ({cell.label})")
    if wrong and right:
        what = f"{len(wrong)} deviations are far above those of the values with this mean, {right} are right"
        yield Sign("impossible scores", what, "tables", "; ".join(wrong[:3]), 0.65)


def _too_large(spread: float, mean: float, values: Sequence[float]) -> bool:
    """Return whether a deviation is more than twice that of the values, even if both are percentages of the mean."""
    return spread > 2 * max(_sizes(values)[:2]) * (100 if max(values) <= 1 < mean else 1)


def _sizes(values: Sequence[float]) -> tuple[float, ...]:
    """Return deviations (n - 1, n), standard error, half widths of 95 % intervals, and range."""
    sd, n = stdev(values), len(values)
    error = sd / n**0.5
    student = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}.get(n, 1.98)
    return sd, pstdev(values), error, 1.96 * error, student * error, max(values) - min(values)
