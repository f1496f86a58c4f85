"""Build the result tables of a paper from `\\result` macros, so that every number is bound to the record as in the
text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import get_args

from labwright.record.claims.caveats import Caveat, compare_anchors
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import GRADES_BEST_FIRST, Claim
from labwright.record.claims.setting_controls import find_agreeing_controls
from labwright.record.estimands import list_main_arms
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, MetricSpec, parse_arm
from labwright.record.swapped_settings import find_swapped_arms
from labwright.sandbox.scoring import AGREEMENT_SUFFIX
from labwright.stages.paper.latex import format_row, mark_recorded
from labwright.stages.paper.latex_sources import PaperTable

CONSTANT_NOTE = "Where several replicates have no deviation, all of them gave the same value: the spread is unknown."
"""Caption note for claims with `record.claims.estimates.Claim.is_constant`."""
REFERENCES_NOTE = " References: models of the program's own, tuned like an arm; no part of the comparisons."
BOLD_NOTE = " Bold: better than the arm with which a decided hypothesis compares it."
CONTROL_MARK = " (control)"
MAX_ARM_COLUMNS, MAX_LEVEL_COLUMNS = 6, 4
"""Largest number of arms that are columns of the main table, and of levels that are columns of the ablations; more of
them are rows."""
MAX_HEAD_CHARS, MAX_VARIANT_CHARS = 16, 45
"""Characters per line of a column heading, and of the name of a variant."""


def build_result_tables(
    claims: Sequence[Claim],
    plan: DataPlan,
    facts: Sequence[DatasetFacts] = (),
    ablated: Sequence[str] = (),
    differences: Sequence[ClaimDifference] = (),
    bold: Collection[str] = (),
) -> tuple[PaperTable, ...]:
    """Build the tables of claims of one split (test, or validation if there is no test split).

    `main` has the primary metric for every arm that all experiments measure (`list_main_arms`), and other metrics where
    a method is worse than a baseline; `ablation` the differences of the conditions in `ablated` that are not in `main`.
    In the appendix, `metrics` has the other metrics in full, and `controls` the arms with the settings of another whose
    difference has the direction that it has at the arms' own settings. All but `main` exist only if there is something
    to show. `bold` has the keys of the means that are bold. Captions name the caveats of `differences`.
    """
    titles = _TableTitles(plan, facts)
    split = claims[0].split if claims else "test"
    compared = [one for one in claims if one.arm in titles.main]
    further = [metric for metric in plan.metrics[1:] if any(one.name == metric.name for one in compared)]
    made: list[PaperTable] = []
    if compared:
        lost = {
            (one.name, one.dataset, one.level)
            for one in differences
            if one.name != plan.primary_metric.name
            and titles.find_role(one.arm) == "method"
            and one.better == one.other
            and one.excludes_zero
        }
        chosen = [
            one
            for metric in plan.metrics
            for one in compared
            if one.name == metric.name and (metric == plan.primary_metric or (one.name, one.dataset, one.level) in lost)
        ]
        references = [one for one in claims if one.arm in REFERENCE_ARM_TITLES and one.name == plan.primary_metric.name]
        worse = [metric for metric in further if any(one.name == metric.name for one in chosen)]
        harm = (
            f" Rows of {_list_directions(worse, titles)}: where a method is worse than a baseline and the interval of "
            "the difference excludes zero."
        )
        more = r" Other metrics: Table~\ref{tab:metrics}."
        made.append(
            PaperTable(
                "main",
                _build_main_table(chosen, titles, references, bold),
                f"{titles.format_metric(plan.primary_metric)} on {split} data "
                f"({_format_direction(plan.primary_metric)}): mean $\\pm$ standard deviation over $n$ seeds."
                f"{harm * bool(worse)}{more * bool(further)}"
                f"{BOLD_NOTE if any(one.key in bold for one in chosen) else ''}"
                f"{REFERENCES_NOTE if references else ''}"
                f"{_format_caveats(plan, claims, differences, titles)}"
                f"{_format_notes(chosen, titles, claims)}",
            )
        )
    if further:
        shown = [one for one in compared if one.name in {metric.name for metric in further}]
        made.append(
            PaperTable(
                "metrics",
                _build_main_table(shown, titles, (), bold),
                f"Secondary metrics on {split} data ({_list_directions(further, titles)}): mean $\\pm$ standard "
                f"deviation over the same seeds; the supplement has their intervals."
                f"{_format_notes(shown, titles, claims)}",
                placement="appendix",
            )
        )
    pairs = [
        one
        for one in differences
        if one.name == plan.primary_metric.name and one.condition in set(ablated) and one.arm not in titles.main
        if one.arm in titles.swapped or parse_arm(one.other) == plan.find_tuned_arm(one.arm)
    ]
    agreeing = {one.key for one in find_agreeing_controls(plan, differences)}
    controls = "an arm with the settings of another from that other (control)"
    for name, found, what in (
        ("ablation", [one for one in pairs if one.key not in agreeing], "each variant from the whole method"),
        ("controls", [one for one in pairs if one.key in agreeing], ""),
    ):
        what = " and of ".join(filter(None, (what, controls * any(one.arm in titles.swapped for one in found))))
        if found:
            made.append(
                PaperTable(
                    name,
                    _build_ablation_table(found, titles),
                    f"{name.capitalize()}: difference in {mark_recorded(titles.name_metric(plan.primary_metric))} on "
                    f"{split} data ({_format_direction(plan.primary_metric)}) of {what}, paired by seed, with its "
                    f"exploratory {mark_recorded('95%')} interval.{_format_notes(found, titles, claims)}",
                    placement="main" if name == "ablation" else "appendix",
                )
            )
    return tuple(made)


def _list_directions(metrics: Iterable[MetricSpec], titles: _TableTitles) -> str:
    return ", ".join(f"{mark_recorded(titles.name_metric(one))} ({_format_direction(one)})" for one in metrics)


def _format_notes(claims: Sequence[Claim], titles: _TableTitles, every: Sequence[Claim]) -> str:
    """Return the notes of a caption: on grades (by metric; by arm and dataset where one has several; none if the
    program scored all values), and on values without a deviation. `every` also contains claims that are not shown, such
    as the agreement of a model's grades with labels."""
    notes: list[str] = []
    grades = sorted({one.grade for one in claims}, key=GRADES_BEST_FIRST.index)
    if len(grades) == 1:
        notes += [f"Grade of all values: {grades[0]}."] if grades != ["scored"] else []
    elif grades:
        by_metric = {name: {one.grade for one in claims if one.name == name} for name in {one.name for one in claims}}
        parts = [
            f"{grade}: "
            + ", ".join(
                dict.fromkeys(
                    mark_recorded(titles.plan.name_metric(one.name))
                    if len(by_metric[one.name]) == 1
                    else f"{mark_recorded(titles.plan.name_metric(one.name))} of {titles.format_arm(one.arm)} on "
                    f"{titles.format_dataset(one.dataset)}"
                    for one in claims
                    if one.grade == grade
                )
            )
            for grade in grades
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


def _build_main_table(
    chosen: Sequence[Claim], titles: _TableTitles, references: Sequence[Claim], bold: Collection[str]
) -> str:
    """Build the main table: the arms are columns, many arms are rows. Each dataset ends with its reference models."""
    arms = [arm for arm in titles.main if any(one.arm == arm for one in chosen)]
    wide = len(arms) <= MAX_ARM_COLUMNS

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for metric in titles.plan.metrics:
            found = [one for one in here if one.name == metric.name]
            for level in titles.list_levels(found):
                name = titles.format_metric(metric) if metric != titles.plan.primary_metric else ""
                label = ", ".join(filter(None, (name, titles.format_level(level))))
                cells = [_find_claim(found, arm, level) for arm in arms]
                if wide:
                    yield label, *(_format_value(one, bold, interval=False) for one in cells), _format_counts(cells)
                for k, claim in enumerate(filter(None, cells if not wide else ())):
                    value = _format_value(claim, bold, interval=False)
                    yield "" if k else label, titles.format_arm(claim.arm), value, _format_counts([claim])
        if models := [one for one in references if one.dataset == here[0].dataset]:
            named = [
                f"{mark_recorded(REFERENCE_ARM_TITLES[one.arm].removesuffix(' reference'))} "
                f"{_format_value(one, interval=False)}"
                for one in models
            ]
            value = "; ".join(named)
            across = rf"\multicolumn{{{len(arms)}}}{{c}}{{{value}}}" if wide and len(arms) > 1 else value
            yield "References", *([""] if not wide else []), across, _format_counts(models)

    head = (
        (titles.factor, *(titles.format_arm_head(arm) for arm in arms), "$n$")
        if wide
        else (titles.factor, "Arm", r"Mean $\pm$ sd", "$n$")
    )
    return _format_tabular("l" + "c" * len(arms) + "r" if wide else "llcr", head, chosen, titles, rows)


def _build_ablation_table(pairs: Sequence[ClaimDifference], titles: _TableTitles) -> str:
    """Build a table of differences with one row per variant; levels are columns, or many of them rows."""
    levels = titles.list_levels(pairs)
    wide = len(levels) <= MAX_LEVEL_COLUMNS

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for arm in dict.fromkeys(one.arm for one in here):
            name, cells = titles.format_variant(arm), [_find_claim(here, arm, level) for level in levels]
            if wide:
                yield name, *map(_format_value, cells), _format_counts(cells)
            found = [(level, one) for level, one in zip(levels, cells, strict=True) if one is not None and not wide]
            for k, (level, one) in enumerate(found):
                yield "" if k else name, titles.format_level(level), _format_value(one), _format_counts([one])

    heads = [titles.format_level(level) or "Difference" for level in levels] if wide else [titles.factor, "Difference"]
    return _format_tabular(f"l{'c' * len(heads)}r", ("Variant", *heads, "$n$"), pairs, titles, rows)


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


def _format_value(claim: Claim | None, bold: Collection[str] = (), *, interval: bool = True) -> str:
    """Format a mean with its deviation, or a difference, and its interval."""
    if claim is None:
        return "--"
    text = rf"\result{{{claim.key}.{'mean' if isinstance(claim, ClaimDifference) else 'pm'}}}"
    text = rf"\textbf{{{text}}}" if claim.key in bold else text
    return f"{text} {_format_interval(claim)}".rstrip() if interval else text


def _format_interval(claim: Claim | None) -> str:
    return "" if claim is None or claim.low is None else rf"{{\footnotesize \result{{{claim.key}.ci}}}}"


def _format_counts(claims: Sequence[Claim | None]) -> str:
    found = [one for one in claims if one is not None]
    distinct = found[:1] if len({one.n for one in found}) == 1 else found
    return "/".join(rf"\result{{{one.key}.n}}" for one in distinct) or "--"


def _format_direction(metric: MetricSpec) -> str:
    return "higher is better" if metric.higher_is_better else "lower is better"


def _stack_lines(text: str, width: int, position: str, align: str) -> str:
    """Format text in a cell, in several lines if it has more characters than `width`."""
    lines = [mark_recorded(line) for line in wrap(text, width, break_on_hyphens=False)]
    stacked = r"\\".join(lines)
    return stacked if len(lines) <= 1 else rf"\begin{{tabular}}{position}{{@{{}}{align}@{{}}}}{stacked}\end{{tabular}}"


class _TableTitles:
    """Names of a plan's arms, levels, metrics and datasets, as tables print them."""

    def __init__(self, plan: DataPlan, facts: Sequence[DatasetFacts]) -> None:
        self.plan = plan
        self.swapped = find_swapped_arms(plan)
        self._datasets = {one.name: one.title for one in (*facts, *plan.datasets) if one.title}
        self.main = list_main_arms(plan)
        factor = plan.factor or "level" if plan.levels else ""
        self.factor = _stack_lines(factor[:1].upper() + factor[1:], MAX_HEAD_CHARS, "[b]", "l")

    def name_metric(self, metric: MetricSpec) -> str:
        return f"{metric.display_name}{f' ({metric.unit})' if metric.unit else ''}"

    def format_metric(self, metric: MetricSpec) -> str:
        return self._capitalise(self.name_metric(metric))

    def format_dataset(self, name: str) -> str:
        return mark_recorded(self._datasets.get(name, self.plan.name_dataset(name)))

    def _name_arm(self, name: str) -> str:
        title = REFERENCE_ARM_TITLES.get(name) or self.plan.name_arm(name)
        return f"{title[:1].upper()}{title[1:]}{CONTROL_MARK if name in self.swapped else ''}"

    def format_arm(self, name: str) -> str:
        return mark_recorded(self._name_arm(name))

    def format_arm_head(self, name: str) -> str:
        return _stack_lines(self._name_arm(name), MAX_HEAD_CHARS, "[b]", "c")

    def format_variant(self, name: str) -> str:
        return _stack_lines(self._name_arm(name).removesuffix(CONTROL_MARK), MAX_VARIANT_CHARS, "[t]", "l")

    def format_level(self, name: str) -> str:
        return mark_recorded(self.plan.name_level(name))

    def find_role(self, arm: str) -> str:
        return next((one.role for one in self.plan.arms if one.name == arm), "ablation")

    def rank_level(self, level: str) -> int:
        names = self.plan.level_names
        return names.index(level) if level in names else len(names)

    def list_levels(self, claims: Iterable[Claim]) -> list[str]:
        """Return the levels of claims in the plan's order."""
        return sorted({one.level for one in claims}, key=lambda level: (self.rank_level(level), level))

    @staticmethod
    def _capitalise(text: str) -> str:
        return mark_recorded(text[:1].upper() + text[1:])
