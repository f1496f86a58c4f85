"""Compare records of result files: inconsistent quotients, repeated runs, scaled columns, impossible shares."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from math import prod
from statistics import pstdev

from labwright.review.external_papers.result_files import ValueSeries
from labwright.review.external_papers.signs.sign import CONCLUSIVE, Sign

MOST_FIELDS, MOST_RECORDS = 14, 2_000
RARE = 5e-3
"""Below this probability, two runs do not agree in all measurements by chance."""


@dataclass(frozen=True)
class ResultRecord:
    """Values of one record. `kind` is what records of one kind have in common: folder, path without numbers, fields."""

    file: str
    kind: str
    where: str
    values: Mapping[str, float]


def of_records(series: Sequence[ValueSeries], sizes: Collection[int]) -> Iterator[Sign]:
    """Yield all signs of this kind; `sizes` are numbers that may be the size of a test set."""
    kinds: dict[str, list[ResultRecord]] = defaultdict(list)
    for one in records(series):
        kinds[one.kind].append(one)
    for inside in kinds.values():
        if 4 <= len(inside) <= MOST_RECORDS:
            yield from _quotients(inside)
            yield from _shares(inside, sizes)
    yield from _repeated([one for inside in kinds.values() for one in inside])
    yield from _multiples(series)


def records(series: Sequence[ValueSeries]) -> Iterator[ResultRecord]:
    """Yield the records of all files except logs and reports."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in series:
        if not one.from_prose and not one.file.endswith((".log", ".txt", ".out")) and len(one.values) <= MOST_RECORDS:
            for value, place in zip(one.values, one.places, strict=True):
                line = re.match(r"line \d+", place)
                name = place[line.end() :].strip() if line else place
                field, labels = one.key.partition("|")[::2] if "|" in one.key else (name.rpartition(".")[2], "")
                where = f"{labels} {line[0]}".strip() if line else place.rpartition(".")[0]
                found[one.file, where][field] = value
    for (file, where), values in found.items():
        if len(values) <= MOST_FIELDS:
            kind = " ".join([re.sub(r"[^/]*$", "", file), file.rpartition(".")[2], *sorted(values)])
            yield ResultRecord(file, kind, where, values)


def step(value: float) -> float:
    """Return one unit in the last place of a written value."""
    text = f"{value!r}"
    return 10.0 ** -len(text.partition(".")[2].rstrip("0")) if "e" not in text else abs(value) * 1e-6


# --- quotients that only some records satisfy
# --------------------------------------------------------------------------


def _quotients(inside: Sequence[ResultRecord]) -> Iterator[Sign]:
    """Find a field that is the quotient of two others in most records, but not in the others."""
    fields = sorted(inside[0].values)
    for whole, part, of in permutations(fields, 3):
        rows = [(one, one.values[whole], one.values[part], one.values[of]) for one in inside]
        if not all(c == int(c) > 0 and 0 <= b <= c and b == int(b) for _, _, b, c in rows):
            continue
        if len({b / c for _, _, b, c in rows}) < 4:
            continue
        for scale in (1, 100):
            wrong = [
                (one, a, b, c)
                for one, a, b, c in rows
                if abs(a - scale * b / c) > 0.51 * max(step(a), scale * 1e-4) + scale * 1e-6
            ]
            right = {a for one, a, *_ in rows if not any(one is other for other, *_ in wrong)}
            if wrong and len(right) >= 3 and len(wrong) <= 0.4 * len(rows):
                one, a, b, c = wrong[0]
                what = f"{whole} is {part} / {of} in {len(rows) - len(wrong)} records, but not in {len(wrong)} others"
                yield Sign("impossible scores", what, f"{one.file}: {one.where}", f"{a:g}, {b:g} / {c:g}", CONCLUSIVE)
                return


# --- repeated runs
# ----------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?:^|_)(?:seed|run|fold|trial|rep|split|index|id|i|k)$", re.I)


def _repeated(inside: Sequence[ResultRecord]) -> Iterator[Sign]:
    """Find two runs with different seeds and identical measurements, if this is too unlikely by chance."""
    for own in _runs(inside):
        if len(own) < 4:
            continue
        fields = [
            name
            for name in own[0].values
            if not _NUMBER.search(name.rpartition(".")[2]) and all(name in one.values for one in own)
        ]
        vectors = [tuple(one.values[name] for name in fields) for one in own]
        if len(set(vectors)) < 3 or len(set(vectors)) == len(own):
            continue
        twins = [(a, b) for (at, a), (to, b) in combinations(enumerate(own), 2) if vectors[at] == vectors[to]]
        chance = prod(_coincides([vector[at] for vector in set(vectors)]) for at in range(len(fields)))
        if len(twins) <= len(own) / 2 and (chance * len(own) * (len(own) - 1) / 2) ** len(twins) < RARE:
            a, b = twins[0]
            what = f"all {len(fields)} values equal those of {b.file}, in {len(twins)} such pairs of {len(own)} runs"
            shown = ", ".join(f"{a.values[name]:g}" for name in fields[:4])
            yield Sign("copied results", what, a.file, shown, CONCLUSIVE)
            return


def _runs(inside: Sequence[ResultRecord]) -> Iterator[list[ResultRecord]]:
    """Yield groups of run files whose names differ only in numbers, each file as one record."""
    families: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for one in inside:
        families[re.sub(r"\d+", "#", one.file)][one.file] |= {
            f"{one.where}.{name}": value for name, value in one.values.items()
        }
    for files in families.values():
        yield [ResultRecord(file, "", "", values) for file, values in files.items() if len(values) <= 10 * MOST_FIELDS]


def _coincides(once: Sequence[float]) -> float:
    """Estimate how often two draws of a quantity coincide."""
    ordered = sorted(set(once))
    if len(ordered) < 3:
        return 1.0
    least = min(b - a for a, b in pairwise(ordered))
    most = max(once.count(value) for value in ordered) / len(once)
    return max(least / (3.5 * pstdev(once) + least), most if most * len(once) > 2 else 0.0)


# --- scaled columns
# ---------------------------------------------------------------------------------------------------

_SCALED = re.compile(
    r"rel|norm|ratio|scale|std|sd\b|sem|time|sec|step|cost|param|weight|epoch|size|index|percent|per_(?:sec|step|"
    r"epoch)",
    re.I,
)
UNITS = (1, 2, 0.5, 10, 0.1, 100, 0.01, 1000, 0.001, 60, 1 / 60)


def _multiples(series: Sequence[ValueSeries]) -> Iterator[Sign]:
    """Find series of one quantity that are a constant multiple of another file's or arm's."""
    long = [
        one
        for one in series
        if 5 <= len(one.values) <= MOST_RECORDS
        and len(set(one.values)) >= 5
        and not _SCALED.search(f"{one.file} {one.key}")
        and all(value >= 0 for value in one.values)
    ]
    quantities: dict[tuple[str, ...], list[ValueSeries]] = defaultdict(list)
    for one in long:
        path = re.sub(r"(?:\[#\])+$", "", one.key).split(".")
        above = [f"{one.file} {name}" for name in path[-2:-1]]
        names = {one.key.partition("|")[0]} if "|" in one.key else {path[-1], *above}
        for name in names:
            quantities[name, str(len(one.values))].append(one)
    for inside in quantities.values():
        for a, b in combinations(inside[:40], 2):
            factor = _factor(a.values, b.values) or 1 / (_factor(b.values, a.values) or 1)
            if not any(abs(factor / unit - 1) < 0.004 for unit in UNITS):
                own = a if a.file == b.file else b
                what = f"{own.key} is {a.file}: {a.key} times {factor:.4g} in all {len(a.values)} values"
                yield Sign(
                    "constant ratio",
                    what,
                    b.file,
                    ", ".join(f"{x:g} / {y:g}" for x, y in list(zip(a.values, b.values, strict=True))[:3]),
                    CONCLUSIVE,
                )
                return


def _factor(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the factor that turns one series into the other within rounding; None if there is none."""
    pairs = [(a, b, max(step(b), abs(b) * 1e-9)) for a, b in zip(one, other, strict=True) if a or b]
    if len(pairs) < 5 or not all(a > 0 for a, _, _ in pairs) or max(one) < 1.1 * min(a for a, _, _ in pairs):
        return None
    low = max((b - 0.51 * unit) / a for a, b, unit in pairs)
    high = min((b + 0.51 * unit) / a for a, b, unit in pairs)
    wide = sorted(unit / b if b else 1.0 for _, b, unit in pairs)[len(pairs) // 2]
    return (low + high) / 2 if 0 < low <= high and wide < 0.05 else None


# --- shares of the test set
# -------------------------------------------------------------------------------------------

_SHARE = re.compile(r"^(?:test_?)?(?:acc|accuracy|error_rate|success_rate|hit_rate|solved)$", re.I)


def _shares(inside: Sequence[ResultRecord], sizes: Collection[int]) -> Iterator[Sign]:
    """Find shares of one quantity that are fractions of the test set size for all arms but one."""
    for field in inside[0].values:
        values = [(one, one.values[field]) for one in inside if 0 < one.values[field] < 1]
        if not _SHARE.search(field) or len(values) < 6:
            continue
        largest = int(0.3 / min(step(value) for _, value in values))
        if any(all(is_share(value, size) for _, value in values) for size in range(5, min(largest, 2_000))):
            continue
        for size in sorted(size for size in sizes if size < largest):
            wrong = [(one, value) for one, value in values if not is_share(value, size)]
            arms = {_arm(one) for one, _ in wrong}
            of_arms = sum(_arm(one) in arms for one, _ in values)
            if 2 < len(wrong) <= 0.4 * len(values) and len(wrong) >= 0.6 * of_arms:
                one, value = wrong[0]
                what = f"{len(wrong)} of {len(values)} values of {field} are not a share of {size}, all of one kind"
                yield Sign("impossible value", what, f"{one.file}: {one.where}", f"{value:g}", CONCLUSIVE)
                return


def _arm(one: ResultRecord) -> str:
    return re.sub(r"\d+", "#", f"{one.file} {one.where}")


def is_share(value: float, size: int) -> bool:
    """Return whether some whole number divided by the size gives the value as written."""
    return abs(value * size - round(value * size)) <= (0.51 * step(value) + 1e-9) * size
