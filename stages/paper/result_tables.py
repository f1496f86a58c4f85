"""Build the result tables of a paper from `\\result` macros, so that every number is bound to the record as in the
text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from textwrap import wrap

from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim
from labwright.record.claims.formatting import format_estimate, is_share
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import compute_requested_estimates, list_registered_estimates
from labwright.record.claims.sentences import describe_need, describe_outcome, format_lost_seeds, join_names
from labwright.record.claims.setting_controls import find_agreeing_controls
from labwright.record.estimands import (
    classify_scale,
    describe_estimand,
    find_effect_metric,
    find_swapped_arms,
    is_contrast,
    list_cells_read,
    list_main_arms,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.schema.data_plan import DataPlan, MetricSpec, parse_arm
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis, HypothesisDecision
from labwright.record.schema.paper import AddendumEstimate, SeedSet
from labwright.stages.paper.latex import capitalise, format_tabular, mark_recorded, render_template
from labwright.stages.paper.latex_sources import PaperTable

REFERENCES_NOTE = " References, for orientation: models outside the study, trained on the training data as provided."
CONTROL_MARK = " (control)"
MAX_ARM_COLUMNS, MAX_LEVEL_COLUMNS = 6, 4
"""Largest number of arms that are columns of the main table, and of levels that are columns of the ablations; more of
them are rows."""
MAX_HEAD_CHARS, MAX_FACTOR_CHARS, MAX_VARIANT_CHARS = 16, 28, 48
"""Characters per line of a column heading, of the first one, and of a variant."""


def build_result_tables(
    claims: Sequence[Claim],
    plan: DataPlan,
    ablated: Sequence[str] = (),
    changes: Mapping[str, str] | None = None,
    differences: Sequence[ClaimDifference] = (),
    decisions: Sequence[HypothesisDecision] = (),
) -> tuple[PaperTable, ...]:
    """Build the tables of claims of one split (test, or validation if there is no test split).

    `main` has the primary metric for every arm that all experiments measure (`list_main_arms`), and other metrics where
    a method is worse than a baseline; `ablation` the differences of the conditions in `ablated` that are not in `main`.
    In the appendix, `metrics` has the other metrics in full, and `controls` the arms with the settings of another whose
    difference has the direction that it has at the arms' own settings. All but `main` exist only if there is something
    to show. `changes` says what the arm of an ablation changes. Nothing is
    bold: the table of hypotheses has the verdicts. Grades and caveats are in the disclosures.
    """
    titles = _TableTitles(plan, changes or {})
    split = claims[0].shown_split if claims else "test"
    where = f" on {split} data" * bool(split)
    compared = [one for one in claims if one.arm in titles.main]
    further = [metric for metric in plan.metrics[1:] if any(one.name == metric.name for one in compared)]
    made: list[PaperTable] = []
    if compared:
        spread = {(one.name, one.dataset, one.condition): one.sd or 0.0 for one in claims}
        methods = {one.name for one in plan.arms if one.role == "method"}
        lost = {
            (one.name, one.dataset, one.level)
            for one in differences
            if one.name != plan.primary_metric.name
            and one.arm in methods
            and one.better == one.other
            and one.excludes_zero
            and abs(one.mean)
            > max(spread.get((one.name, one.dataset, side), 0.0) for side in (one.condition, one.other))
        }
        chosen = [
            one
            for metric in plan.metrics
            for one in compared
            if one.name == metric.name and (metric == plan.primary_metric or (one.name, one.dataset, one.level) in lost)
        ]
        references = [one for one in claims if one.arm in REFERENCE_ARM_TITLES and one.name == plan.primary_metric.name]
        worse = [metric for metric in further if any(one.name == metric.name for one in chosen)]
        if all(one in chosen for one in compared if one.name in {metric.name for metric in further}):
            further = []
        harm = (
            f" Other metrics have rows where a method is worse than a baseline by more than a standard deviation and "
            f"the interval of the difference excludes zero: {_list_directions(worse, titles)}."
        )
        more = r" Other metrics: Table~\ref{tab:metrics}."
        made.append(
            PaperTable(
                "main",
                _build_main_table(chosen, titles, references),
                f"{titles.format_metric(plan.primary_metric)}{where} "
                f"({_format_direction(plan.primary_metric)}): mean $\\pm$ standard deviation over $n$ seeds."
                f"{harm * bool(worse)}{more * bool(further)}"
                f"{REFERENCES_NOTE if references else ''}{_format_grades(chosen)}",
            )
        )
    if further:
        shown = [one for one in compared if one.name in {metric.name for metric in further}]
        made.append(
            PaperTable(
                "metrics",
                _build_main_table(shown, titles, ()),
                f"Secondary metrics{where} ({_list_directions(further, titles)}): mean $\\pm$ standard "
                f"deviation over $n$ seeds; the supplement has their intervals."
                f"{_format_grades(shown)}",
                placement="appendix",
            )
        )
    pairs = [
        one
        for one in differences
        if one.name == plan.primary_metric.name and one.condition in set(ablated) and one.arm not in titles.main
        if one.arm in titles.swapped or parse_arm(one.other) == plan.find_tuned_arm(one.arm)
    ]
    agreeing = {one.key for one in find_agreeing_controls(plan, differences, decisions)}
    changed = "each variant (with the part that it changes) from the whole method"
    controls = "an arm with the settings of another from that other (control)"
    for name, found, what in (
        ("ablation", [one for one in pairs if one.key not in agreeing], changed),
        ("controls", [one for one in pairs if one.key in agreeing], ""),
    ):
        what = " and of ".join(filter(None, (what, controls * any(one.arm in titles.swapped for one in found))))
        variants = tuple(dict.fromkeys(plan.name_arm(one.arm) for one in found))
        if found:
            made.append(
                PaperTable(
                    name,
                    _build_ablation_table(found, titles),
                    f"{name.capitalize()}: difference in {mark_recorded(titles.name_metric(plan.primary_metric))}"
                    f"{where} ({'percentage points, ' * is_share(plan.primary_metric)}"
                    f"{_format_direction(plan.primary_metric)}) of {what}, paired by seed, with its exploratory "
                    f"{mark_recorded('95%')} interval.{_format_grades(found)}",
                    placement="main" if name == "ablation" and len(variants) > 1 else "appendix",
                    variants=variants,
                )
            )
    return tuple(made)


def _list_directions(metrics: Iterable[MetricSpec], titles: _TableTitles) -> str:
    return ", ".join(f"{mark_recorded(titles.name_metric(one))} ({_format_direction(one)})" for one in metrics)


def _format_grades(claims: Sequence[Claim]) -> str:
    """Return the grade that the values of a table share, if the program did not score them."""
    grades = {one.grade for one in claims}
    return f" Grade of all values: {grades.pop()}." if len(grades) == 1 and grades != {"scored"} else ""


def _build_main_table(chosen: Sequence[Claim], titles: _TableTitles, references: Sequence[Claim]) -> str:
    """Build the main table: the arms are columns, many arms are rows. Each dataset ends with its reference models."""
    arms = [arm for arm in titles.main if any(one.arm == arm for one in chosen)]
    several = len({one.name for one in chosen}) > 1
    wide = len(arms) <= MAX_ARM_COLUMNS

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for metric in titles.plan.metrics:
            found = [one for one in here if one.name == metric.name]
            for level in titles.list_levels(found):
                name = titles.format_metric(metric) if several or not level else ""
                label = ", ".join(filter(None, (name, titles.format_level(level))))
                cells = [_find_claim(found, arm, level) for arm in arms]
                if wide:
                    yield label, *(_format_value(one, interval=False) for one in cells), _format_counts(cells)
                for k, claim in enumerate(filter(None, cells if not wide else ())):
                    value = _format_value(claim, interval=False)
                    yield "" if k else label, mark_recorded(titles.name_arm(claim.arm)), value, _format_counts([claim])
        if models := [one for one in references if one.dataset == here[0].dataset]:
            named = [
                f"{mark_recorded(REFERENCE_ARM_TITLES[one.arm].removesuffix(' reference'))} "
                f"{_format_value(one, interval=False)}"
                for one in models
            ]
            value = "; ".join(named)
            across = rf"\multicolumn{{{len(arms)}}}{{c}}{{{value}}}" if wide and len(arms) > 1 else value
            yield "References", *([""] if not wide else []), across, _format_counts(models)

    heads = [_stack_lines(titles.name_arm(arm), MAX_HEAD_CHARS, "[b]", "r") for arm in arms]
    head = heads if wide else ("Arm", r"Mean $\pm$ sd")
    types = "l" + "r" * (len(arms) + 1) if wide else "llrr"
    return _format_groups(types, (titles.factor, *head, "$n$"), chosen, titles, rows)


def _build_ablation_table(pairs: Sequence[ClaimDifference], titles: _TableTitles) -> str:
    """Build a table of differences with one row per variant; levels are columns, or many of them rows."""
    levels, show = titles.list_levels(pairs), partial(_format_value, points=is_share(titles.plan.primary_metric))
    wide = len(levels) <= MAX_LEVEL_COLUMNS

    def rows(here: Sequence[Claim]) -> Iterator[Sequence[str]]:
        for arm in dict.fromkeys(one.arm for one in here):
            first = next(one for one in pairs if one.arm == arm)  # which says what the variant changes
            name = titles.format_variant(arm, described=first.dataset == here[0].dataset)
            cells = [_find_claim(here, arm, level) for level in levels]
            if wide:
                yield name, *map(show, cells), _format_counts(cells)
            found = [(level, one) for level, one in zip(levels, cells, strict=True) if one is not None and not wide]
            for k, (level, one) in enumerate(found):
                yield "" if k else name, titles.format_level(level), show(one), _format_counts([one])

    heads = [titles.format_level(level) or "Difference" for level in levels] if wide else [titles.factor, "Difference"]
    return _format_groups(f"l{'r' * (len(heads) + 1)}", ("Variant", *heads, "$n$"), pairs, titles, rows)


def _format_groups(
    types: str,
    head: Sequence[str],
    claims: Sequence[Claim],
    titles: _TableTitles,
    rows: Callable[[Sequence[Claim]], Iterable[Sequence[str]]],
) -> str:
    """Format a table with one group of rows per dataset."""
    groups = {name: [one for one in claims if one.dataset == name] for name in dict.fromkeys(x.dataset for x in claims)}
    headings = {name: mark_recorded(titles.plan.name_dataset(name)) for name in groups}
    return format_tabular(
        head, types, (row for name, those in groups.items() for row in ([headings[name]], *rows(those)))
    )


def _find_claim(claims: Iterable[Claim], arm: str, level: str) -> Claim | None:
    return next((one for one in claims if (one.arm, one.level) == (arm, level)), None)


def _format_value(claim: Claim | None, *, interval: bool = True, points: bool = False) -> str:
    """Format a mean with its deviation, or a difference (in points, as the text does), and its interval."""
    if claim is None:
        return "--"
    form = ("points" if points else "mean") if isinstance(claim, ClaimDifference) else "pm"
    text = rf"\result{{{claim.key}.{form}}}"
    if not interval or claim.low is None:
        return text
    ends = rf"(\result{{{claim.key}.points_ci}})" if points else rf"\result{{{claim.key}.ci}}"
    return rf"{text} {{\footnotesize {ends}}}"


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

    def __init__(self, plan: DataPlan, changes: Mapping[str, str]) -> None:
        self.plan, self._changes = plan, changes
        self.swapped = find_swapped_arms(plan)
        self.main = list_main_arms(plan)
        factor = plan.factor or "level" if plan.levels else ""
        self.factor = _stack_lines(capitalise(factor), MAX_FACTOR_CHARS, "[b]", "l")

    def name_metric(self, metric: MetricSpec) -> str:
        return f"{metric.display_name}{f' ({metric.unit})' if metric.unit else ''}"

    def format_metric(self, metric: MetricSpec) -> str:
        return mark_recorded(capitalise(self.name_metric(metric)))

    def name_arm(self, name: str) -> str:
        title = REFERENCE_ARM_TITLES.get(name) or self.plan.name_arm(name)
        return f"{capitalise(title)}{CONTROL_MARK if name in self.swapped else ''}"

    def format_variant(self, name: str, *, described: bool) -> str:
        """Format the title of a variant and what it changes, with names of the code in typewriter."""
        change = f": {self._changes[name]}" if described and name in self._changes else ""
        title = self.name_arm(name).removesuffix(CONTROL_MARK) + change
        lines = _stack_lines(title, MAX_VARIANT_CHARS, "[t]", "l")
        return r"\addlinespace[2pt]" + re.sub(r"\w+(?:\\_\\allowbreak{}\w+)+", r"\\texttt{\g<0>}", lines)

    def format_level(self, name: str) -> str:
        return mark_recorded(self.plan.name_level(name))

    def list_levels(self, claims: Sequence[Claim]) -> list[str]:
        """Return the levels of claims in the plan's order."""
        found = [one.level for one in claims]
        return [level for level in dict.fromkeys((*self.plan.level_names, *found)) if level in found]


# Render what was registered and its outcomes as TeX: a sentence of the disclosure, a table, a part of the appendix.
# The disclosure has the hash of the plan, the search objective with its reason, and whether prior work was read. The
# table `hypotheses` of the main text has the effects of each hypothesis with interval, n, direction and claim, and
# its verdict; the appendix (`registered.tex.jinja`) has the statements, the decision rules and what else was
# computed.

HASH_CHARS = 12
"""Printed digits of the plan's hash."""
NO_PRIOR_WORK_NOTE = "Prior work unread: no full text of a related paper was at hand before the plan was made."


def render_plan_note(state: RunState) -> str:
    """Return what the appendix discloses about the plan."""
    plan = state.search.plan
    reason = f" Reason: {plan.objective_reason.rstrip('.')}." if plan.objective_reason else ""
    ranked = "the method's metric" if plan.objective == "improve" else "every arm at its best, never by an effect"
    unread = f" {NO_PRIOR_WORK_NOTE}" if state.paper.prior_work is None or state.paper.prior_work.is_unread else ""
    return mark_recorded(
        f"Data plan {state.search.plan_hash[:HASH_CHARS]}, made before any code was written. The search ranked "
        f"experiments by {ranked}.{reason}{unread}"
    )


def build_hypothesis_tables(state: RunState) -> tuple[PaperTable, ...]:
    """Build the table `hypotheses`; empty if nothing was registered."""
    plan, found = state.search.plan, decide_hypotheses(state)
    if not found:
        return ()
    # the most frequent level has no mark
    marks = {level: "*" * rank for rank, (level, _) in enumerate(Counter(one.level for one in found).most_common())}
    head = {
        "Hypothesis and its effects": r"L{0.35\linewidth}",
        "Effect, interval": "l",
        "$n$": "r",
        "Direction": "l",
        "Claim": r"L{0.21\linewidth}",
    }
    shown: dict[str, tuple[float, EffectDecision]] = {}  # of equal effects the one with the widest interval
    for decision in sorted(found, key=lambda one: one.level):
        for part in decision.parts:
            shown.setdefault(_describe_effect(part.effect, plan), (decision.level, part))
    units, rows = {one.hypothesis.unit for one in found}, list[Sequence[str]]()
    for one in found:
        (label, *cells), *rest = _build_rows(one, plan, marks, shown, names_unit=len(units) > 1)
        rows += [(r"\addlinespace[2pt]" * bool(rows) + label, *cells), *rest]
    main = plan.name_dataset(plan.datasets[0].name)
    levels = [
        f"{mark}{100 * (1 - level):.3g}%"
        + ", corrected by Holm" * any(one.level == level and level < 0.05 and one.family > 1 for one in found)
        for level, mark in marks.items()
    ]
    read = [part.effect for one in found for part in one.parts]
    effects = [one for one in read if _find_form(one, plan) == "points"]
    shares = list(dict.fromkeys(find_effect_metric(one, plan) for one in effects))
    of = f" in {join_names([one.display_name for one in shares])}" * (plan.primary_metric not in shares)
    notes = [
        f"Hypotheses and the effects that decide them, in {plan.primary_metric.display_name} on {main} unless stated "
        f"otherwise: estimate and interval ({'; '.join(levels)}) over $n$ "
        f"{'datasets' if units == {'datasets'} else 'seeds'}, direction, and the claim.",
        f"Differences{of} are in percentage points." if shares else "",
        "Other effects are fractions."
        if any(find_effect_metric(one, plan) in shares and _find_form(one, plan) == "mean" for one in read)
        else "",
        "An interval is what those of all looks have in common, so an estimate may lie off its middle."
        if len(state.search.looks) > 1
        else "",
        "A preview confirms nothing."
        if any(one.hypothesis.confirmatory and not one.confirmed for one in found)
        else "",
        "Rival: what a rival explanation predicted, and we did not."
        if any(_is_rival_open(one) for one in found)
        else "",
    ]
    return (
        PaperTable(
            "hypotheses",
            format_tabular([*head], head.values(), rows),
            " ".join(mark_recorded(note).replace(r"\$n\$", "$n$") for note in notes if note),
        ),
    )


ADDENDUM_TABLE = "addendum"


def build_addendum_tables(state: RunState) -> tuple[PaperTable, ...]:
    """Build the table of the estimates that addenda registered; empty if there are none. It stands in the appendix
    unless the text places it."""
    found = compute_requested_estimates(state, list_registered_estimates(state))[0]
    if not found:
        return ()
    plan = found[0].plan
    head = {"Estimate": r"L{0.6\linewidth}", "Value, interval": "l", "$n$": "r"}
    rows = list[tuple[str, ...]]()
    for one in found:
        form = _find_form(one.found.effect, plan)
        seeds = one.request.seeds if isinstance(one.request, AddendumEstimate) else "registered"
        unit, interval = r"\%" * (form == "percent"), "ci" if form == "mean" else f"{form}_ci"
        value = rf"\result{{{one.key}.{form}}}{unit} {{\footnotesize (\result{{{one.key}.{interval}}}{unit})}}"
        what = capitalise(_describe_effect(one.found.effect, plan)) + _ADDED_SEEDS[seeds]
        rows.append((mark_recorded(what), value, rf"\result{{{one.key}.n}}"))
    note = (
        f"Addendum for reviewers, exploratory: registered estimates in {plan.primary_metric.display_name} on "
        f"{plan.name_dataset(plan.datasets[0].name)} unless stated otherwise, with 95% interval over $n$ seeds, not "
        "corrected for other estimates; that of a difference of two arms also covers test examples where predictions "
        f"were resampled.{' Differences are in percentage points.' * is_share(plan.primary_metric)}"
    )
    tabular = format_tabular([*head], head.values(), rows)
    return (PaperTable(ADDENDUM_TABLE, tabular, mark_recorded(note).replace(r"\$n\$", "$n$"), placement="appendix"),)


_ADDED_SEEDS: Mapping[SeedSet, str] = {"registered": "", "added": "; added seeds alone", "all": "; all seeds"}


def _build_rows(
    one: HypothesisDecision,
    plan: DataPlan,
    marks: Mapping[float, str],
    shown: Mapping[str, tuple[float, EffectDecision]],
    *,
    names_unit: bool,
) -> Iterator[Sequence[str]]:
    """Yield the rows of a hypothesis: its name with its verdict, its effects, its rival if that is not ruled out, and
    the declared alternatives if some do not support it. The name and a single effect share a row. `shown` has the level
    and the decision whose interval is printed for an effect: one interval, if it has the same direction."""
    kind = "" if one.confirmed else ", preview" if one.hypothesis.confirmatory else ", exploratory"
    name = rf"\emph{{{mark_recorded(capitalise(one.hypothesis.name))}}}"
    also = ", over new test examples too" * (names_unit and one.hypothesis.unit == "seeds and examples")
    few = one.verdict != "open" and one.holds < len(one.hypothesis.alternatives)
    held = f"; {one.holds} of {len(one.hypothesis.alternatives)} alternatives supported" if few else ""
    if len(one.parts) > 1:
        yield rf"\multicolumn{{4}}{{@{{}}l}}{{{name}}}", mark_recorded(f"{one.verdict}{kind}{held}")
    for part in one.parts:
        what = _describe_effect(part.effect, plan)
        label = f"{name}: {mark_recorded(what + also)}" if len(one.parts) == 1 else _indent(what + also)
        claim = f"{_format_claim(part.effect, plan)}: {part.verdict}{f'{kind}{held}' * (len(one.parts) == 1)}"
        level, equal = shown[what] if shown[what][1].direction == part.direction else (one.level, part)
        numbers = _format_numbers(equal, plan, marks[level])
        yield label, *numbers, _format_effect_direction(part), mark_recorded(claim)
    if _is_rival_open(one) and one.rival is not None and one.hypothesis.rival is not None:
        outcome = "as neither explanation predicts" if one.rival_sign else "separates no explanation"
        outcome = "as the rival says" if one.rival_sign == one.hypothesis.rival.theirs else outcome
        what = f"Rival: {_describe_effect(one.rival.effect, plan)}"
        found = (*_format_numbers(one.rival, plan, marks[one.level]), one.rival_sign or "open", outcome)
        missing = ("--", "--", "--", "not measured on every fresh seed")
        yield _indent(what), *(found if one.rival.mean is not None else missing)


def _is_rival_open(one: HypothesisDecision) -> bool:
    """Return whether a rival explanation of an effect that was found was measured and is not ruled out."""
    rival = one.hypothesis.rival
    return one.rival is not None and rival is not None and one.has_effect and one.rival_sign != rival.ours


def _indent(what: str) -> str:
    return rf"\hangindent=1.6em\quad {mark_recorded(capitalise(what))}"


def _format_numbers(part: EffectDecision, plan: DataPlan, mark: str) -> tuple[str, str]:
    """Return the estimate with its interval, and the number of units."""
    estimate = _format_estimate(part, plan, _find_form(part.effect, plan))
    return estimate + mark, mark_recorded(len(part.values))


def _describe_effect(effect: Effect, plan: DataPlan) -> str:
    """Describe an effect by short names; metric and dataset only where they are not the main ones."""
    metric = find_effect_metric(effect, plan)
    read = {place.dataset for place in list_cells_read(effect.estimand, plan, metric)}
    names = [plan.name_dataset(use.name) for use in plan.datasets if use.name in read]
    others = " and ".join(names)
    what = describe_estimand(effect.estimand, plan)
    return (
        what
        + f", in {metric.display_name}" * (metric != plan.primary_metric)
        + f", on {others}" * (read != {plan.datasets[0].name} and not all(f"on {one}" in what for one in names))
    )


def _format_effect_direction(part: EffectDecision) -> str:
    """Return the direction; a dash without a value, or where zero does not mean "no effect"."""
    has_direction = part.mean is not None and (part.effect.bound is None or is_contrast(part.effect.estimand))
    return part.direction if has_direction else "--"


def _find_form(effect: Effect, plan: DataPlan) -> str:
    """Return the form in which the table prints an effect, as the text does: in per cent, in points, or unscaled."""
    scale, share = classify_scale(effect.estimand), is_share(find_effect_metric(effect, plan))
    return "percent" if scale == "ratio" else "points" if scale == "difference" and share else "mean"


def _format_claim(effect: Effect, plan: DataPlan) -> str:
    """Return the claim on an effect in the unit of the table: `at least 3 points`."""
    form = _find_form(effect, plan)
    if form == "mean" or effect.claim == "positive":
        return effect.claim_text
    unit = "%" if form == "percent" else " point" if 100 * effect.limit == 1 else " points"
    return f"{effect.claim_text.removesuffix(f'{effect.limit:g}')}{100 * effect.limit:.6g}{unit}"


def _format_estimate(part: EffectDecision, plan: DataPlan, form: str = "mean") -> str:
    """Format an estimate in a printed form, with its interval."""
    if part.mean is None:
        return "--"
    printed = format_estimate("", part, 0.0, plan)
    interval = printed.get(".ci" if form == "mean" else f".{form}_ci")
    ends = "" if interval is None else interval.tex if form == "mean" else f"[{interval.tex.replace(' to ', ', ')}]"
    unit = r"\%" * (form == "percent")
    return rf"\rec{{{printed[f'.{form}'].tex}{unit}}}" + (rf" \rec{{{ends}}}" if ends else "")


def render_in_full(state: RunState) -> str:
    """Render the part of the appendix; empty if nothing was registered."""
    plan, found = state.search.plan, decide_hypotheses(state)
    if not found:
        return ""
    return render_template(
        "registered.tex.jinja",
        {
            "found": found,
            # code of a repository makes its own splits, perhaps by the seed
            "one_sample": not any(one.command for one in state.search.datasets),
            "described": partial(describe_estimand, plan=plan),
            "estimate": partial(_format_estimate, plan=plan),
            "notes": _list_notes,
            "outcome": describe_outcome,
            "metric": partial(find_effect_metric, plan=plan),
        },
    )


def _list_notes(part: EffectDecision, hypothesis: Hypothesis) -> Iterator[str]:
    """Yield what else readers of an estimate must know: the seeds that it needs, those that were lost, its bias."""
    if (part.needed or inf) > len(part.values) and (
        need := describe_need(part, "datasets" if hypothesis.unit == "datasets" else "seeds")
    ):
        yield need
    yield from format_lost_seeds(part)
    if part.optimistic:
        yield "stopping early makes the estimate optimistic"
