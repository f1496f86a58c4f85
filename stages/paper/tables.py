"""Tables of a paper: rows of `\\result` macros, so that the binder holds for them as it does for the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import get_args

from labwright.record.claims.caveats import Caveat, anchored
from labwright.record.claims.differences import Difference
from labwright.record.claims.means import GRADES, Claim
from labwright.record.ladder import RUNGS
from labwright.record.nouns.data import DataPlan, DatasetFacts, MetricSpec, arm_of
from labwright.sandbox.scoring import AGREEMENT
from labwright.stages.paper.latex import recorded, row, words
from labwright.stages.paper.sources import Table

CONSTANT = "Where several replicates have no deviation, all of them gave the same value: the spread is unknown."
"""What a caption says where `record.claims.means.Claim.constant` holds."""
REFERENCES = (
    " References are models of the program's own, tuned with as many trials as an arm of the study; no "
    "part of the comparisons."
)
COMPARED = "The supplement has the paired differences, with corrected verdicts."


def tables(
    claims: Sequence[Claim],
    plan: DataPlan,
    facts: Sequence[DatasetFacts] = (),
    ablated: Sequence[str] = (),
    differences: Sequence[Difference] = (),
) -> tuple[Table, ...]:
    """The tables that a paper may place, of claims of one split (test, or validation where there is no other).

    `main` has the primary metric with intervals, `metrics` the others, `ablation` the conditions in `ablated`; the
    last two only where there is something to show. Of a dataset, level and metric, the mean of the arm that
    `differences` call better than every other arm of the table is bold; where an arm cannot be told from it, none is.
    """
    titles = _Titles(plan, facts, differences)
    split = claims[0].split if claims else "test"
    compared = [one for one in claims if titles.role(one.arm) in ("baseline", "method")]
    primary = [one for one in claims if one.name == plan.primary.name]
    made: list[Table] = []
    if compared:
        chosen = [one for one in primary if one in compared]
        references = [one for one in primary if one.arm in RUNGS]
        tabular = _wide(chosen, titles, references)
        made.append(
            Table(
                "main",
                tabular,
                (
                    f"{titles.metric(plan.primary)} on {split} data ({_direction(plan.primary)}): mean $\\pm$ standard "
                    f"deviation over $n$ replicates with different seeds, and in brackets the {recorded('95%')} "
                    f"Student $t$ "
                    f"interval of the mean: the variation due to retraining, not to the choice of test "
                    f"examples. {COMPARED}"
                    f"{_notes(tabular, chosen, titles, claims)}{_caveats(plan, claims, differences, titles)}"
                    f"{REFERENCES if references else ''}"
                ),
            )
        )
    metrics = [metric for metric in plan.metrics[1:] if any(one.name == metric.name for one in compared)]
    if metrics:
        shown = [one for one in compared if one.name in {metric.name for metric in metrics}]
        directed = ", ".join(f"{titles.metric(one).lower()}: {_direction(one)}" for one in metrics)
        tabular = _many(compared, metrics, titles)
        made.append(
            Table(
                "metrics",
                tabular,
                (
                    f"Secondary metrics on {split} data ({directed}): mean $\\pm$ standard deviation over the same "
                    f"replicates. The supplement has their intervals.{_notes(tabular, shown, titles, claims)}"
                ),
            )
        )
    if removed := [one for one in primary if one.condition in set(ablated)]:
        places = {(one.dataset, one.level) for one in removed}
        shown = [
            *(one for one in primary if titles.role(one.arm) == "method" and (one.dataset, one.level) in places),
            *removed,
        ]
        tabular = _ablations(shown, titles)
        made.append(
            Table(
                "ablation",
                tabular,
                (
                    f"Ablations, {titles.metric(plan.primary).lower()} on {split} data "
                    f"({_direction(plan.primary)}): the "
                    f"method beside itself without one part, with the {recorded('95%')} Student $t$ interval."
                    f"{_notes(tabular, shown, titles, claims)}"
                ),
            )
        )
    return tuple(made)


def _notes(tabular: str, claims: Sequence[Claim], titles: _Titles, every: Sequence[Claim]) -> str:
    """Sentences on what is bold, on grades (by metric and dataset where they differ), and on values without a
    deviation, each where there are any. `every` has more than is shown: how far a model's grades agree with labels."""
    notes = ["Bold: called better than every other arm of its row or group."] if r"\textbf" in tabular else []
    grades = sorted({one.grade for one in claims}, key=GRADES.index)
    if len(grades) == 1:
        notes.append(f"Grade of all values: {grades[0]}.")
    elif grades:
        of = {
            grade: dict.fromkeys((one.name, one.arm, one.dataset) for one in claims if one.grade == grade)
            for grade in grades
        }
        parts = [
            f"{grade}: "
            + ", ".join(
                f"{recorded(words(name))} of {titles.arm(arm)} on {titles.dataset(dataset)}"
                for name, arm, dataset in each
            )
            for grade, each in of.items()
        ]
        notes.append(f"Grades: {'; '.join(parts)}.")
    if any(one.constant for one in claims):
        notes.append(CONSTANT)
    notes += [
        f"A language model's grades of {titles.arm(one.arm)} agree with labels of dev: {_value(other)}."
        for one in claims
        if one.grade == "judged"
        for other in every
        if (other.name, other.dataset, other.condition) == (f"{one.name}{AGREEMENT}", one.dataset, one.condition)
    ]
    return "".join(f" {note}" for note in notes)


def _caveats(plan: DataPlan, claims: Sequence[Claim], differences: Sequence[Difference], titles: _Titles) -> str:
    """Sentences on what stands beside the verdicts of the compared arms: as its caveats have it."""
    pairs = {
        caveat: dict.fromkeys(
            f"{titles.arm(one.arm)} against {titles.arm(arm_of(one.other))}"
            for one in differences
            if caveat in one.caveats and titles.role(one.arm) == "method"
        )
        for caveat in get_args(Caveat)
    }
    notes = [f" {caveat.capitalize()}: {', '.join(which)}." for caveat, which in pairs.items() if which]
    notes += [
        rf" Published of {titles.arm(one.anchor.arm)} on {titles.dataset(one.anchor.dataset)}: "
        rf"\setup{{{one.key}.value}} $\pm$ \setup{{{one.key}.tolerance}} (\setup{{{one.key}.source}})."
        for one in anchored(plan, claims)
        if one.missed
    ]
    return "".join(notes)


def _wide(chosen: Sequence[Claim], titles: _Titles, references: Sequence[Claim]) -> str:
    """Arms side by side where two fit, else one row an arm; under those of a dataset a line for each reference."""
    arms = [arm for arm in titles.arms if any(one.arm == arm for one in chosen)]
    wide = len(arms) <= 2

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for level in titles.levels(here):
            cells = [_find(here, arm, level) for arm in arms]
            found = [one for one in cells if one is not None]
            if wide:
                yield titles.level(level), *_values(cells, titles), _counts(cells)
            for k, (one, value) in enumerate(zip(found, _values(found, titles), strict=True) if not wide else ()):
                yield "" if k else titles.level(level), titles.arm(one.arm), value, _counts([one])
        for one in references:
            if one.dataset == here[0].dataset:
                first = (titles.arm(one.arm),) if wide else ("", titles.arm(one.arm))
                value = rf"\multicolumn{{{len(arms)}}}{{c}}{{{_value(one)}}}" if wide and len(arms) > 1 else _value(one)
                yield *first, value, _counts([one])

    head = (
        (titles.factor, *map(titles.arm, arms), "$n$")
        if wide
        else (titles.factor, "Arm", r"Mean $\pm$ sd [interval]", "$n$")
    )
    return _tabular("l" + "c" * len(arms) + "r" if wide else "llcr", head, chosen, titles, rows)


def _ablations(claims: Sequence[Claim], titles: _Titles) -> str:
    """One row an arm and level, the method first."""

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for arm in dict.fromkeys(one.arm for one in here):
            found = sorted((one for one in here if one.arm == arm), key=lambda one: titles.rank(one.level))
            for k, one in enumerate(found):
                yield "" if k else titles.arm(arm), titles.level(one.level), _value(one), _counts([one])

    return _tabular("llcr", ("Variant", titles.factor, r"Mean $\pm$ sd [interval]", "$n$"), claims, titles, rows)


def _many(claims: Sequence[Claim], metrics: Sequence[MetricSpec], titles: _Titles) -> str:
    """One row a level and arm; one column a metric, without intervals."""

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for level in titles.levels(here):
            columns = [
                [_find([one for one in here if one.name == metric.name], arm, level) for arm in titles.compared]
                for metric in metrics
            ]
            values = [_values(cells, titles, interval=False) for cells in columns]
            for k, arm in enumerate(titles.compared):
                if any(cells[k] for cells in columns):
                    yield "" if k else titles.level(level), titles.arm(arm), *(column[k] for column in values)

    head = (titles.factor, "Arm", *map(titles.metric, metrics))
    return _tabular("ll" + "c" * len(metrics), head, claims, titles, rows)


def _tabular(
    columns: str,
    head: Sequence[str],
    claims: Sequence[Claim],
    titles: _Titles,
    rows: Callable[[Sequence[Claim]], Iterable[Sequence[str]]],
) -> str:
    """A group of rows a dataset."""
    groups: list[str] = []
    for dataset in dict.fromkeys(one.dataset for one in claims):
        title = rf"\multicolumn{{{len(head)}}}{{@{{}}l}}{{\textit{{{titles.dataset(dataset)}}}}} \\"
        groups.append("\n".join((title, *map(row, rows([one for one in claims if one.dataset == dataset])))))
    body = "\n\\addlinespace[3pt]\n".join(groups)
    return (
        f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{row(head)}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}"
    )


def _find(claims: Iterable[Claim], arm: str, level: str) -> Claim | None:
    return next((one for one in claims if (one.arm, one.level) == (arm, level)), None)


def _values(cells: Sequence[Claim | None], titles: _Titles, *, interval: bool = True) -> list[str]:
    """What the cells of one place print; in bold the one that is called better than every other there."""
    shown = [one for one in cells if one is not None]
    return [
        _value(
            one,
            interval=interval,
            bold=one is not None
            and len(shown) > 1
            and all(
                (one.dataset, one.name, one.condition, other.condition) in titles.better
                for other in shown
                if other is not one
            ),
        )
        for one in cells
    ]


def _value(claim: Claim | None, *, interval: bool = True, bold: bool = False) -> str:
    if claim is None:
        return "--"
    text = rf"\textbf{{\result{{{claim.key}.pm}}}}" if bold else rf"\result{{{claim.key}.pm}}"
    return rf"{text} {{\footnotesize \result{{{claim.key}.ci}}}}" if interval and claim.low is not None else text


def _counts(claims: Sequence[Claim | None]) -> str:
    found = [one for one in claims if one is not None]
    distinct = found[:1] if len({one.n for one in found}) == 1 else found
    return "/".join(rf"\result{{{one.key}.n}}" for one in distinct) or "--"


def _direction(metric: MetricSpec) -> str:
    return "higher is better" if metric.higher_is_better else "lower is better"


class _Titles:
    """How a table names the plan's things."""

    def __init__(self, plan: DataPlan, facts: Sequence[DatasetFacts], differences: Sequence[Difference]) -> None:
        self._arms = {one.name: one for one in plan.arms}
        self.better = {
            (one.dataset, one.name, one.better, one.other if one.better == one.condition else one.condition)
            for one in differences
            if one.called in ("improved", "worsened")
        }
        self._datasets = {one.name: one.title or one.name for one in facts}
        self._levels = {one.name: one.title or one.name for one in plan.levels}
        self.arms = list(self._arms)
        self.compared = [one.name for one in plan.arms if one.role != "ablation"]
        self.factor = self._capital(plan.factor) if plan.factor else "Level" if plan.levels else ""

    def metric(self, metric: MetricSpec) -> str:
        return self._capital(f"{metric.title or words(metric.name)}{f' ({metric.unit})' if metric.unit else ''}")

    def dataset(self, name: str) -> str:
        return recorded(self._datasets.get(name, name))

    def arm(self, name: str) -> str:
        arm = self._arms.get(name)
        return self._capital((arm.title if arm else RUNGS.get(name, "")) or words(name).replace("-", " "))

    def level(self, name: str) -> str:
        return recorded(self._levels.get(name, name))

    def role(self, arm: str) -> str:
        return self._arms[arm].role if arm in self._arms else "ablation"

    def rank(self, level: str) -> int:
        return list(self._levels).index(level) if level in self._levels else len(self._levels)

    def levels(self, claims: Iterable[Claim]) -> list[str]:
        """The levels of claims, in the plan's order."""
        return sorted({one.level for one in claims}, key=lambda level: (self.rank(level), level))

    @staticmethod
    def _capital(text: str) -> str:
        return recorded(text[:1].upper() + text[1:])
