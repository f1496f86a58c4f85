"""Find table cells that differ from the values from which the rest of the table is computed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median, stdev

from labwright.review.external_papers.number_matching import is_rounding_of, list_scales
from labwright.review.external_papers.printed_numbers import PrintedNumber, extract_numbers
from labwright.review.external_papers.result_files import ValueSeries
from labwright.review.external_papers.signs.sign import CONCLUSIVE, Kind, Sign
from labwright.review.external_papers.verdicts import NumberVerdict

Words = frozenset[str]
STATISTICS = {"mean": fmean, "median": median, "largest": max, "least": min}
MOST_VALUES, MOST_CELLS = 20_000, 200


@dataclass(frozen=True)
class Rule:
    """The rule by which a cell is computed from values; `field` is the part of their names that is not a label of the
    cell.
    """

    file: str
    field: Words
    statistic: str


@dataclass(frozen=True)
class NamedValues:
    """Values with the same names, in files of one kind in one folder."""

    kind: str
    stem: Words
    names: Words
    field: Words
    values: list[float]


@dataclass(frozen=True)
class AlignedCell:
    """A table cell with the words of its labels; `others` are the label words of the other rows and columns."""

    verdict: NumberVerdict
    row: Words
    column: Words
    others: Words

    @cached_property
    def numbers(self) -> tuple[PrintedNumber, ...]:
        return extract_numbers(self.verdict.claim.cell.text, "cell") if self.verdict.claim.cell else ()


def of_alignment(verdicts: Sequence[NumberVerdict], series: Sequence[ValueSeries]) -> Iterator[Sign]:
    """Yield cells whose values give another number under the rule that fits the other cells."""
    every = sources(series)
    tables: dict[int, list[NumberVerdict]] = defaultdict(list)
    for one in verdicts:
        cell = one.claim.cell
        if cell is not None and not any(cell is other.claim.cell for other in tables[one.claim.passage.table]):
            tables[one.claim.passage.table].append(one)
    for table, inside in tables.items():
        entries = [one for one in _entries(inside[:MOST_CELLS]) if one.numbers and one.numbers[0].digits >= 3]
        given = [dict(_values(one, every)) for one in entries]
        for column in dict.fromkeys(one.verdict.claim.cell.column for one in entries if one.verdict.claim.cell):
            own = [
                at
                for at, one in enumerate(entries)
                if one.verdict.claim.cell and one.verdict.claim.cell.column == column
            ]
            yield from _of_column(table, [entries[at] for at in own], [given[at] for at in own])


def _of_column(
    table: int, entries: Sequence[AlignedCell], given: Sequence[Mapping[Rule, list[float]]]
) -> Iterator[Sign]:
    support: dict[Rule, list[int]] = defaultdict(list)
    for at, (one, values) in enumerate(zip(entries, given, strict=True)):
        for rule, own in values.items():
            if _gives(one, rule, own):
                support[rule].append(at)
    strength = {rule: sum(_weight(entries[at], given[at][rule]) for at in ats) for rule, ats in support.items()}
    if not strength:
        return
    order = list(STATISTICS)
    rule = max(strength, key=lambda rule: (strength[rule], -order.index(rule.statistic)))
    apart = [at for at, values in enumerate(given) if rule in values and at not in support[rule]]
    apart = [
        at
        for at in apart
        if not any(at in support[other] for other in support if other.statistic in ("mean", "median"))
    ]
    least = 2 if rule.statistic == "mean" else 3
    if strength[rule] < least or len(apart) > max(1, len(support[rule]) / 2) or rule.statistic in ("largest", "least"):
        return
    for at in apart:
        yield from _apart(table, entries[at], rule, given[at][rule], [entries[other] for other in support[rule]])


def _weight(entry: AlignedCell, values: Sequence[float]) -> int:
    """Weight of an agreement; doubled if the deviation agrees as well."""
    return 1 + (
        len(entry.numbers) == 2
        and len(values) > 1
        and any(is_rounding_of(entry.numbers[1], size) for size in _sizes(values))
    )


def _sizes(values: Sequence[float]) -> tuple[float, ...]:
    sd = stdev(values)
    return sd, sd * (1 - 1 / len(values)) ** 0.5, sd / len(values) ** 0.5, 1.96 * sd / len(values) ** 0.5


def _apart(
    table: int, entry: AlignedCell, rule: Rule, values: Sequence[float], others: Sequence[AlignedCell]
) -> Iterator[Sign]:
    number, expected = entry.numbers[0], STATISTICS[rule.statistic](values)
    names = " ".join(sorted(rule.field | entry.row | entry.column))
    shown = ", ".join(f"{one.numbers[0].text} ({one.verdict.claim.where.partition(', ')[2]})" for one in others[:3])
    said = (
        f"the {rule.statistic} of the {len(values)} values of {names} in {rule.file} is {expected:.6g}, which also "
        f"gives {shown}"
    )
    off = min(abs(abs(number.value) - abs(expected) * scale) for scale in list_scales(number))
    best = (
        len(values) > 2
        and len(set(values)) > 1
        and any(is_rounding_of(number, end) for end in (max(values), min(values)))
    )
    kind: Kind = "best of the seeds" if best else "other value"
    said += (
        f"; this one is the {'largest' if is_rounding_of(number, max(values)) else 'smallest'} of the values"
        if best
        else ""
    )
    spread = (
        len(entry.numbers) == 2
        and len(values) > 1
        and not any(is_rounding_of(entry.numbers[1], size) for size in _sizes(values))
    )
    if best or (off > number.step and (spread or entry.verdict.kind in ("unsupported", "ambiguous"))):
        yield Sign(
            kind, said, f"table {table}, {entry.verdict.claim.where.partition(', ')[2]}", number.text, CONCLUSIVE
        )


def _gives(entry: AlignedCell, rule: Rule, values: Sequence[float]) -> bool:
    return is_rounding_of(entry.numbers[0], STATISTICS[rule.statistic](values))


def _entries(verdicts: Sequence[NumberVerdict]) -> list[AlignedCell]:
    rows = {cell.row: words(_label(cell.row, one)) - _IDLE for one in verdicts if (cell := one.claim.cell)}
    columns = {cell.column: words(cell.column_label) - _IDLE for one in verdicts if (cell := one.claim.cell)}
    every = frozenset(word for label in (*rows.values(), *columns.values()) for word in label)
    if len(rows) > 1:
        common = frozenset(word for word in every if all(word in label for label in rows.values()))
        rows = {row: label - common for row, label in rows.items()}
    made: list[AlignedCell] = []
    for one in verdicts:
        if (cell := one.claim.cell) and rows[cell.row]:
            row, column = rows[cell.row], columns[cell.column]
            made.append(AlignedCell(one, row, column, every - row - column))
    return made


def _label(row: int, one: NumberVerdict) -> str:
    """Return the label of a row, with its other text cells."""
    cells = [cell for cell in one.claim.passage.cells if cell.row == row]
    return " ".join(
        dict.fromkeys(
            [
                *(cell.row_label for cell in cells[:1]),
                *(cell.text for cell in cells if len(cell.text) < 40 and not extract_numbers(cell.text, "cell")),
            ]
        )
    )


def _values(entry: AlignedCell, every: Sequence[NamedValues]) -> Iterator[tuple[Rule, list[float]]]:
    """Yield the result of each rule for the values that have the labels of a cell."""
    kinds: dict[str, list[NamedValues]] = defaultdict(list)
    for one in every:
        kinds[one.kind].append(one)
    for inside in kinds.values():
        own = [one for one in inside if entry.row <= one.names]
        labels = entry.row | {word for word in entry.column if any(word in one.names for one in own)}
        fields: dict[tuple[str, Words], list[float]] = defaultdict(list)
        for one in own:
            if labels <= one.names and not entry.others & one.names - one.field:
                fields[f"{' '.join(sorted(one.stem - labels))}{one.kind}", one.field - labels].extend(one.values)
        for (file, field), values in fields.items():
            for statistic in STATISTICS if len(values) > 1 else ("mean",):
                yield Rule(file, field, statistic), values


def words(label: str) -> Words:
    """Return the words and numbers of a label, in lower case."""
    return frozenset(re.findall(r"[a-z]+[+*]*|\d+(?:\.\d+)?", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", label).lower()))


_IDLE = frozenset(
    "the of in a on for mean avg average std sd se ci n ours our proposed results result summary value values "
    "where".split()
)


def sources(series: Sequence[ValueSeries]) -> list[NamedValues]:
    """Return the values of the result files by name, without logs and reports."""
    found: dict[tuple[str, Words, Words, Words], list[float]] = defaultdict(list)
    for one in series:
        if one.from_prose or one.file.endswith((".log", ".txt", ".out")) or len(one.values) > MOST_VALUES:
            continue
        folder, _, name = one.file.rpartition("/")
        stem, _, kind = name.rpartition(".")
        stem_words = frozenset(word for word in words(stem) if not word.isdigit())
        for value, place in zip(one.values, one.places, strict=True):
            tabular = "|" in one.key or place.startswith("line ")
            path = one.key if tabular else re.sub(r"\[\d+\]", "", place)
            last = one.key.partition("|")[0] if tabular else path.rpartition(".")[2]
            found[f"{folder}.{kind}", stem_words, words(path) | stem_words, words(last)].append(value)
    return [NamedValues(*key, values) for key, values in found.items()]
