"""Find impossible table numbers: shares of n (GRIM, Brown and Heathers 2017), F1, MAE and RMSE."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from labwright.review.external_papers.passages import PaperPassage, PaperTableCell
from labwright.review.external_papers.printed_numbers import PrintedNumber, extract_numbers
from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, Sign

_PRECISION, _RECALL = re.compile(r"\bprec(?:ision)?\b", re.I), re.compile(r"\brec(?:all)?\b|\bsensitivity\b", re.I)
_F1 = re.compile(r"\bf1\b|\bf-?1?[ -]?(?:score|measure)\b", re.I)
_MSE, _RMSE, _MAE = (
    re.compile(r"(?<!r)(?<!n)\bmse\b", re.I),
    re.compile(r"\brmse\b", re.I),
    re.compile(r"\bmae\b", re.I),
)
_SHARE = re.compile(r"acc|error rate|success|hit rate|solved|correct|exact match|\bem\b|pass@", re.I)
_AVERAGED = re.compile(r"balanced|\bcv\b|cross|mean|avg|average|macro|\u00b1|fold|top-?\d|auc|weighted", re.I)
_PARTS = re.compile(r"@\s*\d+|class|per[- ]", re.I)


@dataclass(frozen=True)
class PaperTableRow:
    """A table row: the first number in each column."""

    label: str
    numbers: Mapping[int, PrintedNumber]
    cells: Mapping[int, PaperTableCell]


def of_tables(passages: Sequence[PaperPassage], counts: Sequence[int], repeats: Sequence[int]) -> Iterator[Sign]:
    """Yield all signs of this kind; `counts` are named test set sizes, `repeats` numbers of seeds and folds."""
    for passage in passages:
        if not passage.cells:
            continue
        rows, heads = _rows(passage), {cell.column: cell.column_label for cell in passage.cells}
        where = f"table {passage.table}"
        for row in rows:
            yield from _matrix(row, heads, where)
            yield from _errors(row, heads, where)
        yield from _shares(rows, heads, where, counts, repeats)


def _rows(passage: PaperPassage) -> list[PaperTableRow]:
    rows: dict[int, tuple[str, dict[int, PrintedNumber], dict[int, PaperTableCell]]] = {}
    for cell in passage.cells:
        _, numbers, cells = rows.setdefault(cell.row, (cell.row_label, {}, {}))
        found = extract_numbers(cell.text, "cell")
        if found and not re.search(r"[A-Za-z]{4}", cell.text):
            numbers[cell.column], cells[cell.column] = found[0], cell
    return [PaperTableRow(*one) for one in rows.values()]


def _column(
    row: PaperTableRow, heads: Mapping[int, str], name: re.Pattern[str], other: re.Pattern[str] | None = None
) -> PrintedNumber | None:
    found = [
        number
        for column, number in row.numbers.items()
        if name.search(heads.get(column, ""))
        and not _PARTS.search(heads[column])
        and not (other is not None and other.search(heads[column]))
    ]
    return found[0] if len(found) == 1 else None


def _matrix(row: PaperTableRow, heads: Mapping[int, str], where: str) -> Iterator[Sign]:
    """Check that F1 is at most the mean of precision and recall (Hand et al. 2021)."""
    precision, recall = _column(row, heads, _PRECISION, _F1), _column(row, heads, _RECALL, _F1)
    f1 = _column(row, heads, _F1)
    if precision is None or recall is None or f1 is None or len({_unit(one) for one in (precision, recall, f1)}) > 1:
        return
    most = (precision.value + precision.rounding_slack + recall.value + recall.rounding_slack) / 2
    said = f"precision {precision.text}, recall {recall.text}, F1 {f1.text}"
    if f1.value - f1.rounding_slack > most + 1e-9:
        yield Sign(
            "impossible scores", "F1 is above the mean of precision and recall", f"{where}, {row.label}", said, 0.8
        )
        return
    harmonic = (
        2 * precision.value * recall.value / (precision.value + recall.value) if precision.value + recall.value else 0
    )
    far = 0.12 * max(abs(harmonic), 1e-9)
    if f1.value + f1.rounding_slack < min(precision.value, recall.value) - far:
        yield Sign("impossible scores", "F1 is far below precision and recall", f"{where}, {row.label}", said, 0.6)


def _unit(number: PrintedNumber) -> bool:
    return number.percent or abs(number.value) > 1


def _errors(row: PaperTableRow, heads: Mapping[int, str], where: str) -> Iterator[Sign]:
    """Check that MAE is at most RMSE, and RMSE the root of MSE."""
    mae, rmse, mse = (_column(row, heads, name) for name in (_MAE, _RMSE, _MSE))
    if mae is not None and rmse is not None and mae.value - mae.rounding_slack > rmse.value + rmse.rounding_slack:
        yield Sign(
            "impossible scores", "MAE is above RMSE", f"{where}, {row.label}", f"MAE {mae.text}, RMSE {rmse.text}", 0.8
        )
    if mse is not None and rmse is not None and mse.value > 0:
        low, high = (math.sqrt(max(0.0, mse.value + side * mse.rounding_slack)) for side in (-1, 1))
        if rmse.value + rmse.rounding_slack < low * 0.93 or rmse.value - rmse.rounding_slack > high * 1.02:
            yield Sign(
                "impossible scores",
                "RMSE is not the root of MSE",
                f"{where}, {row.label}",
                f"MSE {mse.text}, RMSE {rmse.text}",
                0.7,
            )


def _shares(
    rows: Sequence[PaperTableRow], heads: Mapping[int, str], where: str, counts: Sequence[int], repeats: Sequence[int]
) -> Iterator[Sign]:
    """Find shares that no whole number gives for any named n, in one run or over all seeds."""
    sizes = {count * repeat for count in counts for repeat in (1, *repeats)}
    if not counts or len(counts) > 6:
        return
    wrong: list[tuple[str, PrintedNumber]] = []
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
        return  # the assumed size of the test set was wrong
    for label, number in wrong[:3]:
        sizes_said = ", ".join(map(str, sorted(set(counts))))
        what = f"no whole number of {sizes_said} gives it"
        yield Sign("impossible value", what, f"{where}, {label}", number.text, CIRCUMSTANTIAL)


def _possible(number: PrintedNumber, whole: float, size: int) -> bool:
    low, high = ((number.value + side * 1.2 * number.rounding_slack) * size / whole for side in (-1, 1))
    return math.floor(high + 1e-9) >= math.ceil(low - 1e-9)
