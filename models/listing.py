"""Lists in prompts: one line for what belongs together, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from models.cutting import flat, oneline
from models.roles.figures import ArrayBrief, Range
from models.roles.writing import ClaimLine
from record.nouns.data import DataPlan, Measurement, arm_of
from record.nouns.figures import AxesFacts, DrawnFacts

Row = tuple[str, str, str]
"""Dataset, condition, split."""


class Value(NamedTuple):
    """A measured value in a row. `said` is who says it, where that is the code."""

    name: str
    value: float
    said: str

    def __str__(self) -> str:
        return f"{self.name} {number(self.value)}{self.said}"


def number(value: float | None) -> str:
    """A number to six digits, or 'unknown'."""
    return "unknown" if value is None else f"{value:.6g}"


def capped(lines: Sequence[str], limit: int, what: str = "lines") -> str:
    """The first lines, and how many more there are; '- none' where there is none."""
    left = [f"[... {len(lines) - limit} more {what} left out ...]"] if len(lines) > limit else []
    return "\n".join([*lines[:limit], *left]) or "- none"


def conditions(plan: DataPlan, ablations: bool) -> tuple[str, ...]:
    """The plan's conditions whose arm is an ablation, or those whose arm is not."""
    arms = {arm.name for arm in plan.arms if (arm.role == "ablation") == ablations}
    return tuple(condition for condition in plan.conditions if arm_of(condition) in arms)


# --- measurements ---------------------------------------------------------------------------------------------------


def table(measurements: Iterable[Measurement], limit: int = 120, plan: DataPlan | None = None,
          before: Iterable[Measurement] = ()) -> str:
    """One line a (dataset, condition, split): every value by name, in the order of recording.

    With a plan, scores that it does not name are left out: a submission is scored by all metrics that fit. Values of
    `before` stand beside those that they were before, with the difference; what was measured before alone follows.
    """
    shown, old = _rows(measurements, plan), _rows(before, plan)
    lines = [_row(row, values, old.get(row)) for row, values in shown.items()]
    lines += [f"{_row(row, values)}; before, and not here" for row, values in old.items() if row not in shown]
    return capped(lines, limit)


def _rows(measurements: Iterable[Measurement], plan: DataPlan | None) -> dict[Row, list[Value]]:
    named = {metric.name for metric in plan.metrics} if plan else set[str]()
    rows: dict[Row, list[Value]] = {}
    for m in measurements:
        if named and m.name not in named and m.grade in ("scored", "computed"):
            continue
        said = " (said by the code)" if m.grade == "logged" else ""
        rows.setdefault((m.dataset, m.condition, m.split), []).append(Value(m.name, m.value, said))
    return rows


def _row(row: Row, values: Sequence[Value], before: Sequence[Value] | None = None) -> str:
    if before is not None and set(before) == set(values):
        return f"- {', '.join(row)}: {', '.join(map(str, values))} (unchanged)"
    known = {one.name: one.value for one in before or ()}
    return f"- {', '.join(row)}: {', '.join(f'{one}{_before(one.value, known.get(one.name))}' for one in values)}"


def _before(value: float, before: float | None) -> str:
    if before is None:
        return ""
    return " (unchanged)" if before == value else f" (before {number(before)}, {value - before:+.4g})"


# --- claims ---------------------------------------------------------------------------------------------------------


def claims(lines: Sequence[ClaimLine], limit: int = 240) -> str:
    """One line a claim: its key without ending, what it is of, and what each ending prints.

    Of more than `limit` the first ones are shown, and all that carry the study's question.
    """
    forms: dict[str, list[ClaimLine]] = {}
    for line in lines:
        forms.setdefault(line.key.rpartition(".")[0], []).append(line)
    room = max(0, limit - sum(of[0].primary for of in forms.values()))
    shown: list[str] = []
    for stem, of in forms.items():
        if of[0].primary or room > 0:
            room -= not of[0].primary
            shown.append(_claim(stem, of))
    left = len(forms) - len(shown)
    return "\n".join(shown + ([f"[... {left} more claims left out ...]"] if left else []))


def _claim(stem: str, forms: Sequence[ClaimLine]) -> str:
    said, _, what = forms[0].meaning.partition(": ")
    endings = ", ".join(f"`.{one.key.rpartition('.')[2]}` {flat(one.printed)}" for one in forms)
    return f"- `{stem}`: {oneline(what or said, 140)}; {endings}"


# --- arrays ---------------------------------------------------------------------------------------------------------


def arrays(found: Sequence[ArrayBrief], limit: int = 80) -> str:
    """One line for the arrays of one name in all folders that hold it: shape, type, range.

    Folders that hold the same names are named once, above.
    """
    names: dict[str, dict[str, ArrayBrief]] = {}
    for one in found:
        folder, _, name = one.path.rpartition("/")
        names.setdefault(name, {})[folder] = one
    folders = list(dict.fromkeys(folder for held in names.values() for folder in held))
    if len(folders) < 2:
        return capped([_array(one.path, [one]) for one in found], limit, "arrays")
    head = f"In each of {', '.join(f'`{folder}/`' for folder in folders)}, where no other folders are named:"
    lines = [_array(name, list(held.values())) + _where(held, folders) for name, held in names.items()]
    return f"{head}\n{capped(lines, limit, 'names')}"


def _where(held: Iterable[str], folders: Sequence[str]) -> str:
    missing = [folder for folder in folders if folder not in set(held)]
    return f"; not in {', '.join(f'`{folder}/`' for folder in missing)}" if missing else ""


def _array(name: str, of: Sequence[ArrayBrief]) -> str:
    shapes = " or ".join(dict.fromkeys(f"({', '.join(map(str, one.shape))})" for one in of))
    missing = sum(one.missing for one in of)
    return (f"- `{name}` {shapes} {' or '.join(dict.fromkeys(one.dtype for one in of))}{_ranges(of)}"
            + (f", {missing} not finite" if missing else ""))


def _ranges(of: Sequence[ArrayBrief]) -> str:
    """The range of an array in all folders together, or of each of its columns."""
    columns = max(len(one.ranges) for one in of)
    texts = [_range([one.ranges[k] for one in of if len(one.ranges) == columns]) for k in range(columns)]
    return "".join(f", {f'column {k}: ' * (columns > 1)}{text}" for k, text in enumerate(texts))


def _range(of: Sequence[Range]) -> str:
    low, high = number(min(one.low for one in of)), number(max(one.high for one in of))
    means = list(dict.fromkeys(number(mean) for mean in sorted(one.mean for one in of)))
    return f"{low} to {high}, mean {means[0]}" + (f" to {means[-1]}" if len(means) > 1 else "")


# --- what was drawn -------------------------------------------------------------------------------------------------


def drawn(axes: AxesFacts, limit: int = 40) -> str:
    """One line for what an axes draws from data; series of one point that look alike share one."""
    seen = [one for one in axes.drawn if one.low is not None]
    points: dict[tuple[str, str, str], list[DrawnFacts]] = {}
    lines: list[str] = []
    for one in seen:
        if one.points == 1:
            points.setdefault((one.kind, one.label, one.marker), []).append(one)
        else:
            lines.append(_series(one))
    lines += [_points(of) for of in points.values()]
    return capped(lines, limit, "series") if lines else ""


def _named(one: DrawnFacts) -> str:
    return f'- {one.kind}' + (f' "{oneline(one.label, 60)}"' if one.label else "")


def _series(one: DrawnFacts) -> str:
    return (f"{_named(one)}: {one.points} values from {number(one.low)} to {number(one.high)}, mean "
            f"{number(one.mean)}, first {number(one.first)}, last {number(one.last)}"
            + (", with intervals" if one.interval else ""))


def _points(of: Sequence[DrawnFacts]) -> str:
    lows = [one.low for one in of if one.low is not None]
    count = f"{len(of)} single points" if len(of) > 1 else "one point"
    low, high = number(min(lows)), number(max(lows))
    return f"{_named(of[0])}: {count} {f'from {low} to {high}' if len(of) > 1 else f'at {low}'}"
