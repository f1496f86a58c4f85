"""Build the result tables of a paper from `\\result` macros, so that every number is bound to the record as in the
text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import get_args

from labwright.record.claims.caveats import Caveat, compare_anchors
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import GRADES_BEST_FIRST, Claim
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, MetricSpec, parse_arm, to_words
from labwright.record.swapped_settings import find_swapped_arms
from labwright.sandbox.scoring import AGREEMENT_SUFFIX
from labwright.stages.paper.latex import format_row, mark_recorded
from labwright.stages.paper.latex_sources import PaperTable

CONSTANT_NOTE = "Where several replicates have no deviation, all of them gave the same value: the spread is unknown."
"""Caption note for claims with `record.claims.estimates.Claim.is_constant`."""
REFERENCES_NOTE = (
    " References are models of the program's own, tuned with as many trials as an arm of the study; no "
    "part of the comparisons."
)
COMPARED_NOTE = "The supplement has the paired differences."


def build_result_tables(
    claims: Sequence[Claim],
    plan: DataPlan,
    facts: Sequence[DatasetFacts] = (),
    ablated: Sequence[str] = (),
    differences: Sequence[ClaimDifference] = (),
) -> tuple[PaperTable, ...]:
    """Build the tables that a paper may place, from claims of one split (test, or validation if there is no test
    split).

    `main` has the primary metric with intervals, `metrics` the other metrics, `ablation` the conditions in `ablated`;
    the last two exist only if there is something to show. Captions name the caveats of `differences`.
    """
    titles = _TableTitles(plan, facts)
    split = claims[0].split if claims else "test"
    compared = [one for one in claims if titles.find_role(one.arm) in ("baseline", "method")]
    primary = [one for one in claims if one.name == plan.primary_metric.name]
    made: list[PaperTable] = []
    if compared:
        chosen = [one for one in primary if one in compared]
        references = [one for one in primary if one.arm in REFERENCE_ARM_TITLES]
        tabular = _build_wide_table(chosen, titles, references)
        made.append(
            PaperTable(
                "main",
                tabular,
                (
                    f"{titles.format_metric(plan.primary_metric)} on {split} data "
                    f"({_format_direction(plan.primary_metric)}): mean $\\pm$ standard "
                    f"deviation over $n$ replicates with different seeds, and in brackets the {mark_recorded('95%')} "
                    f"Student $t$ "
                    f"interval of the mean: the variation due to retraining, not to the choice of test "
                    f"examples. {COMPARED_NOTE}"
                    f"{_format_notes(chosen, titles, claims)}"
                    f"{_format_caveats(plan, claims, differences, titles)}"
                    f"{REFERENCES_NOTE if references else ''}"
                ),
            )
        )
    metrics = [metric for metric in plan.metrics[1:] if any(one.name == metric.name for one in compared)]
    if metrics:
        shown = [one for one in compared if one.name in {metric.name for metric in metrics}]
        directed = ", ".join(f"{titles.format_metric(one).lower()}: {_format_direction(one)}" for one in metrics)
        tabular = _build_metric_table(compared, metrics, titles)
        made.append(
            PaperTable(
                "metrics",
                tabular,
                (
                    f"Secondary metrics on {split} data ({directed}): mean $\\pm$ standard deviation over the same "
                    f"replicates. The supplement has their intervals.{_format_notes(shown, titles, claims)}"
                ),
            )
        )
    if removed := [one for one in primary if one.condition in set(ablated)]:
        places = {(one.dataset, one.level) for one in removed}
        shown = [
            *(one for one in primary if titles.find_role(one.arm) == "method" and (one.dataset, one.level) in places),
            *removed,
        ]
        tabular = _build_ablation_table(shown, titles)
        controls = "" if titles.swapped.keys().isdisjoint(one.arm for one in removed) else CONTROLS_NOTE
        made.append(
            PaperTable(
                "ablation",
                tabular,
                (
                    f"Ablations, {titles.format_metric(plan.primary_metric).lower()} on {split} data "
                    f"({_format_direction(plan.primary_metric)}): the "
                    f"method compared with the method without one part{controls}, with the {mark_recorded('95%')} "
                    "Student $t$ interval."
                    f"{_format_notes(shown, titles, claims)}"
                ),
            )
        )
    return tuple(made)


CONTROLS_NOTE = ", and, as exploratory controls, arms at the tuned setting of the arm that they are compared with"


def _format_notes(claims: Sequence[Claim], titles: _TableTitles, every: Sequence[Claim]) -> str:
    """Return the notes of a caption: on grades (by metric, arm and dataset if they differ), and on values without a
    deviation. `every` also contains claims that are not shown, such as the agreement of a model's
    grades with labels."""
    notes: list[str] = []
    grades = sorted({one.grade for one in claims}, key=GRADES_BEST_FIRST.index)
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
                f"{mark_recorded(to_words(name))} of {titles.format_arm(arm)} on {titles.format_dataset(dataset)}"
                for name, arm, dataset in each
            )
            for grade, each in of.items()
        ]
        notes.append(f"Grades: {'; '.join(parts)}.")
    if any(one.is_constant for one in claims):
        notes.append(CONSTANT_NOTE)
    notes += [
        f"A language model's grades of {titles.format_arm(one.arm)} agree with labels of dev: {_format_value(other)}."
        for one in claims
        if one.grade == "judged"
        for other in every
        if (other.name, other.dataset, other.condition) == (f"{one.name}{AGREEMENT_SUFFIX}", one.dataset, one.condition)
    ]
    return "".join(f" {note}" for note in notes)


def _format_caveats(
    plan: DataPlan, claims: Sequence[Claim], differences: Sequence[ClaimDifference], titles: _TableTitles
) -> str:
    """Return sentences on the caveats of the verdicts on compared arms, and on missed published values."""
    pairs = {
        caveat: dict.fromkeys(
            f"{titles.format_arm(one.arm)} against {titles.format_arm(parse_arm(one.other))}"
            for one in differences
            if caveat in one.caveats and titles.find_role(one.arm) == "method"
        )
        for caveat in get_args(Caveat)
    }
    notes = [f" {caveat.capitalize()}: {', '.join(which)}." for caveat, which in pairs.items() if which]
    notes += [
        rf" Published of {titles.format_arm(one.anchor.arm)} on {titles.format_dataset(one.anchor.dataset)}: "
        rf"\setup{{{one.key}.value}} $\pm$ \setup{{{one.key}.tolerance}} (\setup{{{one.key}.source}})."
        for one in compare_anchors(plan, claims)
        if one.is_missed
    ]
    return "".join(notes)


def _build_wide_table(chosen: Sequence[Claim], titles: _TableTitles, references: Sequence[Claim]) -> str:
    """Build the main table: up to two arms side by side, otherwise one row per arm; each dataset ends with one line
    per reference model."""
    arms = [arm for arm in titles.arms if any(one.arm == arm for one in chosen)]
    wide = len(arms) <= 2

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for level in titles.list_levels(here):
            cells = [_find_claim(here, arm, level) for arm in arms]
            found = [one for one in cells if one is not None]
            if wide:
                yield titles.format_level(level), *map(_format_value, cells), _format_counts(cells)
            for k, (claim, value) in enumerate(zip(found, map(_format_value, found), strict=True) if not wide else ()):
                yield (
                    "" if k else titles.format_level(level),
                    titles.format_arm(claim.arm),
                    value,
                    _format_counts([claim]),
                )
        for claim in references:
            if claim.dataset == here[0].dataset:
                first = (titles.format_arm(claim.arm),) if wide else ("", titles.format_arm(claim.arm))
                value = (
                    rf"\multicolumn{{{len(arms)}}}{{c}}{{{_format_value(claim)}}}"
                    if wide and len(arms) > 1
                    else _format_value(claim)
                )
                yield *first, value, _format_counts([claim])

    head = (
        (titles.factor, *map(titles.format_arm, arms), "$n$")
        if wide
        else (titles.factor, "Arm", r"Mean $\pm$ sd [interval]", "$n$")
    )
    return _format_tabular("l" + "c" * len(arms) + "r" if wide else "llcr", head, chosen, titles, rows)


def _build_ablation_table(claims: Sequence[Claim], titles: _TableTitles) -> str:
    """Build a table with one row per arm and level, the method first."""

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for arm in dict.fromkeys(one.arm for one in here):
            found = sorted((one for one in here if one.arm == arm), key=lambda one: titles.rank_level(one.level))
            for k, claim in enumerate(found):
                yield (
                    "" if k else titles.format_arm(arm),
                    titles.format_level(claim.level),
                    _format_value(claim),
                    _format_counts([claim]),
                )

    return _format_tabular("llcr", ("Variant", titles.factor, r"Mean $\pm$ sd [interval]", "$n$"), claims, titles, rows)


def _build_metric_table(claims: Sequence[Claim], metrics: Sequence[MetricSpec], titles: _TableTitles) -> str:
    """Build a table with one row per level and arm and one column per metric, without intervals."""

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for level in titles.list_levels(here):
            columns = [
                [_find_claim([one for one in here if one.name == metric.name], arm, level) for arm in titles.compared]
                for metric in metrics
            ]
            values = [[_format_value(one, interval=False) for one in cells] for cells in columns]
            for k, arm in enumerate(titles.compared):
                if any(cells[k] for cells in columns):
                    yield (
                        "" if k else titles.format_level(level),
                        titles.format_arm(arm),
                        *(column[k] for column in values),
                    )

    head = (titles.factor, "Arm", *map(titles.format_metric, metrics))
    return _format_tabular("ll" + "c" * len(metrics), head, claims, titles, rows)


def _format_tabular(
    columns: str,
    head: Sequence[str],
    claims: Sequence[Claim],
    titles: _TableTitles,
    rows: Callable[[Sequence[Claim]], Iterable[Sequence[str]]],
) -> str:
    """Format a table with one group of rows per dataset."""
    groups: list[str] = []
    for dataset in dict.fromkeys(one.dataset for one in claims):
        title = rf"\multicolumn{{{len(head)}}}{{@{{}}l}}{{\textit{{{titles.format_dataset(dataset)}}}}} \\"
        groups.append("\n".join((title, *map(format_row, rows([one for one in claims if one.dataset == dataset])))))
    body = "\n\\addlinespace[3pt]\n".join(groups)
    return (
        f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{format_row(head)}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}"
    )


def _find_claim(claims: Iterable[Claim], arm: str, level: str) -> Claim | None:
    return next((one for one in claims if (one.arm, one.level) == (arm, level)), None)


def _format_value(claim: Claim | None, *, interval: bool = True) -> str:
    if claim is None:
        return "--"
    text = rf"\result{{{claim.key}.pm}}"
    return rf"{text} {{\footnotesize \result{{{claim.key}.ci}}}}" if interval and claim.low is not None else text


def _format_counts(claims: Sequence[Claim | None]) -> str:
    found = [one for one in claims if one is not None]
    distinct = found[:1] if len({one.n for one in found}) == 1 else found
    return "/".join(rf"\result{{{one.key}.n}}" for one in distinct) or "--"


def _format_direction(metric: MetricSpec) -> str:
    return "higher is better" if metric.higher_is_better else "lower is better"


class _TableTitles:
    """Titles of a plan's arms, levels, metrics and datasets, as tables print them."""

    def __init__(self, plan: DataPlan, facts: Sequence[DatasetFacts]) -> None:
        self._arms = {one.name: one for one in plan.arms}
        self.swapped = find_swapped_arms(plan)
        self._datasets = {one.name: one.title or one.name for one in facts}
        self._levels = {one.name: one.title or one.name for one in plan.levels}
        self.arms = list(self._arms)
        self.compared = [one.name for one in plan.arms if one.role != "ablation"]
        self.factor = self._capitalise(plan.factor) if plan.factor else "Level" if plan.levels else ""

    def format_metric(self, metric: MetricSpec) -> str:
        return self._capitalise(f"{metric.title or to_words(metric.name)}{f' ({metric.unit})' if metric.unit else ''}")

    def format_dataset(self, name: str) -> str:
        return mark_recorded(self._datasets.get(name, name))

    def format_arm(self, name: str) -> str:
        arm = self._arms.get(name)
        if name in self.swapped:
            own, other = map(self.format_arm, self.swapped[name])
            return f"{own} at the setting of {other} (control)"
        return self._capitalise(
            (arm.title if arm else REFERENCE_ARM_TITLES.get(name, "")) or to_words(name).replace("-", " ")
        )

    def format_level(self, name: str) -> str:
        return mark_recorded(self._levels.get(name, name))

    def find_role(self, arm: str) -> str:
        return self._arms[arm].role if arm in self._arms else "ablation"

    def rank_level(self, level: str) -> int:
        return list(self._levels).index(level) if level in self._levels else len(self._levels)

    def list_levels(self, claims: Iterable[Claim]) -> list[str]:
        """Return the levels of claims in the plan's order."""
        return sorted({one.level for one in claims}, key=lambda level: (self.rank_level(level), level))

    @staticmethod
    def _capitalise(text: str) -> str:
        return mark_recorded(text[:1].upper() + text[1:])
