"""Numbers of a table that cannot all be right: shares of n, scores of no confusion matrix, errors against R squared,
columns that are another one times a number.

Every printed number stands for an interval as wide as its last place. Sources: Brown and Heathers (2017), the GRIM
test; Hand et al. (2021) for F1 as a mean of precision and recall.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from review.foreign.passages import Cell, Passage
from review.foreign.printed import Printed, numbers_of
from review.foreign.signs.sign import Sign

_PRECISION, _RECALL = re.compile(r"\bprec(?:ision)?\b", re.I), re.compile(r"\brec(?:all)?\b|\bsensitivity\b", re.I)
_F1 = re.compile(r"\bf1\b|\bf-?1?[ -]?(?:score|measure)\b", re.I)
_R2 = re.compile(r"\br\s*\^?\s*(?:2|\u00b2)\b|\br\^\{?2", re.I)
_MSE, _RMSE, _MAE = (
    re.compile(r"(?<!r)(?<!n)\bmse\b", re.I),
    re.compile(r"\brmse\b", re.I),
    re.compile(r"\bmae\b", re.I),
)
_SHARE = re.compile(r"acc|error rate|success|hit rate|solved|correct|exact match|\bem\b|pass@", re.I)
_AVERAGED = re.compile(r"balanced|\bcv\b|cross|mean|avg|average|macro|\u00b1|fold|top-?\d|auc|weighted", re.I)
_SCALED = re.compile(
    r"rel|norm|ratio|speed|%|percent|\bx\b|\u00d7|std|sd\b|sem|\u00b1|time|sec|hour|cost|param|memory|epoch|size|steps?\b|"
    r"flops|seed|n\b|train|batch|samples|per |total|min\b|ms\b|mb\b|gb\b|drop|gain|delta|\u0394|retained|share",
    re.I,
)
_PARTS = re.compile(r"@\s*\d+|class|per[- ]", re.I)


@dataclass(frozen=True)
class Row:
    """A row of a table: the first number of each column, by column."""

    label: str
    numbers: Mapping[int, Printed]
    cells: Mapping[int, Cell]


def of_tables(passages: Sequence[Passage], counts: Sequence[int], repeats: Sequence[int]) -> Iterator[Sign]:
    """All of them. `counts` are the sizes of test sets that paper, code or log name; `repeats` "
    "those of seeds and folds."""
    for passage in passages:
        if not passage.cells:
            continue
        rows, heads = _rows(passage), {cell.column: cell.column_label for cell in passage.cells}
        where = f"table {passage.table}"
        for row in rows:
            yield from _matrix(row, heads, where)
            yield from _errors(row, heads, where)
        if re.match(r"[\s|*]*(?:method|model|approach|arm|algorithm|system|variant|config)", passage.text, re.I):
            yield from _explained(rows, heads, where)
        yield from _ratios(rows, heads, where)
        yield from _shares(rows, heads, where, counts, repeats)


def _rows(passage: Passage) -> list[Row]:
    rows: dict[int, tuple[str, dict[int, Printed], dict[int, Cell]]] = {}
    for cell in passage.cells:
        _, numbers, cells = rows.setdefault(cell.row, (cell.row_label, {}, {}))
        found = numbers_of(cell.text, "cell")
        if found and not re.search(r"[A-Za-z]{4}", cell.text):
            numbers[cell.column], cells[cell.column] = found[0], cell
    return [Row(*one) for one in rows.values()]


def _column(
    row: Row, heads: Mapping[int, str], name: re.Pattern[str], other: re.Pattern[str] | None = None
) -> Printed | None:
    found = [
        number
        for column, number in row.numbers.items()
        if name.search(heads.get(column, ""))
        and not _PARTS.search(heads[column])
        and not (other is not None and other.search(heads[column]))
    ]
    return found[0] if len(found) == 1 else None


def _matrix(row: Row, heads: Mapping[int, str], where: str) -> Iterator[Sign]:
    """F1 is at most the arithmetic mean of precision and recall, averaged over classes and seeds too."""
    precision, recall = _column(row, heads, _PRECISION, _F1), _column(row, heads, _RECALL, _F1)
    f1 = _column(row, heads, _F1)
    if precision is None or recall is None or f1 is None or len({_unit(one) for one in (precision, recall, f1)}) > 1:
        return
    most = (precision.value + precision.slack + recall.value + recall.slack) / 2
    said = f"precision {precision.text}, recall {recall.text}, F1 {f1.text}"
    if f1.value - f1.slack > most + 1e-9:
        yield Sign(
            "impossible scores", "F1 is above the mean of precision and recall", f"{where}, {row.label}", said, 0.8
        )
        return
    harmonic = (
        2 * precision.value * recall.value / (precision.value + recall.value) if precision.value + recall.value else 0
    )
    far = 0.12 * max(abs(harmonic), 1e-9)
    if f1.value + f1.slack < min(precision.value, recall.value) - far:
        yield Sign("impossible scores", "F1 is far below precision and recall", f"{where}, {row.label}", said, 0.6)


def _unit(number: Printed) -> bool:
    return number.percent or abs(number.value) > 1


def _errors(row: Row, heads: Mapping[int, str], where: str) -> Iterator[Sign]:
    """MAE is at most RMSE, and RMSE the root of MSE."""
    mae, rmse, mse = (_column(row, heads, name) for name in (_MAE, _RMSE, _MSE))
    if mae is not None and rmse is not None and mae.value - mae.slack > rmse.value + rmse.slack:
        yield Sign(
            "impossible scores", "MAE is above RMSE", f"{where}, {row.label}", f"MAE {mae.text}, RMSE {rmse.text}", 0.8
        )
    if mse is not None and rmse is not None and mse.value > 0:
        low, high = (math.sqrt(max(0.0, mse.value + side * mse.slack)) for side in (-1, 1))
        if rmse.value + rmse.slack < low * 0.93 or rmse.value - rmse.slack > high * 1.02:
            yield Sign(
                "impossible scores",
                "RMSE is not the root of MSE",
                f"{where}, {row.label}",
                f"MSE {mse.text}, RMSE {rmse.text}",
                0.7,
            )


def _explained(rows: Sequence[Row], heads: Mapping[int, str], where: str) -> Iterator[Sign]:
    """On one test set 1 - R squared is in proportion to the squared error, so that the order is the same."""
    both = [
        (row, error, r2)
        for row in rows
        if (error := _column(row, heads, _MSE) or _column(row, heads, _RMSE))
        and (r2 := _column(row, heads, _R2))
        and -1 <= r2.value <= 1
    ]
    for at, (one, error, r2) in enumerate(both):
        for other, second, other_r2 in both[at + 1 :]:
            better = second.value + second.slack < (error.value - error.slack) * 0.97
            worse_r2 = other_r2.value + other_r2.slack < r2.value - r2.slack - 0.01
            better_too = error.value + error.slack < (second.value - second.slack) * 0.97
            worse_r2_too = r2.value + r2.slack < other_r2.value - other_r2.slack - 0.01
            if _same_data(one, other, heads) and ((better and worse_r2) or (better_too and worse_r2_too)):
                yield Sign(
                    "impossible scores",
                    "the smaller squared error has the smaller R squared",
                    f"{where}, {one.label} and {other.label}",
                    f"{error.text} with {r2.text}, {second.text} with {other_r2.text}",
                    0.65,
                )
                return


def _same_data(one: Row, other: Row, heads: Mapping[int, str]) -> bool:
    """Whether no column of words tells the rows' data apart."""
    return not any(
        re.search(r"data|task|split|domain|target", head, re.I) for head in heads.values()
    ) and not re.search(r"data|train|valid", f"{one.label} {other.label}", re.I)


def _ratios(rows: Sequence[Row], heads: Mapping[int, str], where: str) -> Iterator[Sign]:
    """A column of scores that is another one times the same number, or plus the same number, in every row."""
    columns = sorted({column for row in rows for column in row.numbers})
    for at, left in enumerate(columns):
        for right in columns[at + 1 :]:
            if any(_SCALED.search(heads.get(column, "")) for column in (left, right)):
                continue
            pairs = [
                (row.numbers[left], row.numbers[right]) for row in rows if left in row.numbers and right in row.numbers
            ]
            if sign := _constant(pairs):
                yield Sign(
                    "constant ratio",
                    f"{heads[right]} is {heads[left]} {sign} in every row",
                    where,
                    ", ".join(f"{a.text} / {b.text}" for a, b in pairs[:5]),
                    0.65,
                )
    by_row = [row for row in rows if len(row.numbers) >= 4]
    for at, one in enumerate(by_row):
        for other in by_row[at + 1 :]:
            shared = [
                column
                for column in one.numbers
                if column in other.numbers and not _SCALED.search(heads.get(column, ""))
            ]
            if _SCALED.search(f"{one.label} {other.label}"):
                continue
            if sign := _constant([(one.numbers[column], other.numbers[column]) for column in shared]):
                yield Sign(
                    "constant ratio",
                    f"{other.label} is {one.label} {sign} in every column",
                    where,
                    ", ".join(f"{one.numbers[c].text} / {other.numbers[c].text}" for c in shared[:5]),
                    0.6,
                )


def _constant(pairs: Sequence[tuple[Printed, Printed]]) -> str:
    """What turns all first numbers into the second; "" where nothing does, or by chance or by a change of units."""
    fine = [(a, b) for a, b in pairs if a.digits >= 3 and b.digits >= 3 and a.value > 0 and b.value > 0]
    values = {a.value for a, _ in fine}
    if len(fine) < 4 or len(fine) < len(pairs) or len(values) < 4 or max(values) < 1.02 * min(values):
        return ""
    low = max((b.value - b.slack) / (a.value + a.slack) for a, b in fine)
    high = min((b.value + b.slack) / (a.value - a.slack) for a, b in fine)
    factor = (low + high) / 2
    units = (1, 2, 0.5, 10, 0.1, 100, 0.01, 1000, 0.001, 60, 1 / 60)
    if low <= high and not any(low <= unit <= high or abs(factor / unit - 1) < 0.004 for unit in units):
        return f"times {factor:.4g}"
    least = max(b.value - a.value - a.slack - b.slack for a, b in fine)
    most = min(b.value - a.value + a.slack + b.slack for a, b in fine)
    shift = (least + most) / 2
    step = max(a.step + b.step for a, b in fine)
    return f"plus {shift:.4g}" if least <= most and abs(shift) > 4 * step and max(values) > 1.05 * min(values) else ""


def _shares(
    rows: Sequence[Row], heads: Mapping[int, str], where: str, counts: Sequence[int], repeats: Sequence[int]
) -> Iterator[Sign]:
    """A share that no whole number of n gives, for no n that is named, once or over all seeds."""
    sizes = {count * repeat for count in counts for repeat in (1, *repeats)}
    if not counts or len(counts) > 6:
        return
    wrong: list[tuple[str, Printed]] = []
    tried = 0
    for row in rows:
        for column, number in row.numbers.items():
            head = heads.get(column, "")
            name = f"{head} {row.label}" if not _SHARE.search(head) else head
            text = row.cells[column].text
            if not _SHARE.search(name) or _AVERAGED.search(f"{head} {text}") or not number.value > 0:
                continue
            whole = 100.0 if number.percent or number.value > 1 else 1.0
            if number.value > whole or not any(whole / size > 1.5 * number.step for size in sizes):
                continue
            tried += 1
            if not any(_possible(number, whole, size) for size in sizes):
                wrong.append((f"{row.label} / {head}", number))
    if wrong and len(wrong) == tried and (tried > 1 or len(counts) > 1):
        return  # what is taken for the size of the test set is another
    for label, number in wrong[:3]:
        sizes_said = ", ".join(map(str, sorted(set(counts))))
        what = f"no whole number of {sizes_said} gives it"
        yield Sign("impossible value", what, f"{where}, {label}", number.text, .7)


def _possible(number: Printed, whole: float, size: int) -> bool:
    low, high = ((number.value + side * 1.2 * number.slack) * size / whole for side in (-1, 1))
    return math.floor(high + 1e-9) >= math.ceil(low - 1e-9)
