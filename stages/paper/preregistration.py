"""Render what was registered and its outcomes as TeX: a sentence of the disclosure, a table, a part of the appendix.

The disclosure has the hash of the plan, the search objective with its reason, and whether prior work was read. The
table `hypotheses` of the main text has the effects of each hypothesis with interval, n, direction and claim, and its
verdict; the appendix (`registered.tex.jinja`) has the statements, the decision rules and what else was computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf

from labwright.record.claims.formatting import format_estimate, is_share
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import describe_need, describe_outcome, format_lost_seeds, join_names
from labwright.record.estimands import (
    classify_scale,
    describe_estimand,
    find_effect_metric,
    is_contrast,
    list_cells_read,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis, HypothesisDecision
from labwright.record.table import Column, Table
from labwright.stages.paper.latex import Tex, capitalise, format_tabular, mark_recorded, render_template
from labwright.stages.paper.latex_sources import PaperTable

HASH_CHARS = 12
"""Printed digits of the plan's hash."""
NO_PRIOR_WORK_NOTE = "Prior work unread: no full text of a related paper was at hand before the plan was made."


def render_plan_note(state: RunState) -> str:
    """Return what the appendix discloses about the plan; empty without one."""
    plan = state.search.data_plan
    if plan is None:
        return ""
    reason = f" Reason: {plan.objective_reason.rstrip('.')}." if plan.objective_reason else ""
    ranked = "the method's metric" if plan.objective == "improve" else "every arm at its best, never by an effect"
    unread = f" {NO_PRIOR_WORK_NOTE}" if state.paper.prior_work is None or state.paper.prior_work.is_unread else ""
    return mark_recorded(
        f"Data plan {state.search.plan_hash[:HASH_CHARS]}, made before any code was written. The search ranked "
        f"experiments by {ranked}.{reason}{unread}"
    )


def build_hypothesis_tables(state: RunState) -> tuple[PaperTable, ...]:
    """Build the table `hypotheses`; empty if nothing was registered."""
    plan, found = state.search.data_plan, decide_hypotheses(state)
    if plan is None or not found:
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
    columns = tuple(Column(Tex(title), tex=kind) for title, kind in head.items())
    shown: dict[str, tuple[float, EffectDecision]] = {}  # of equal effects the one with the widest interval
    for decision in sorted(found, key=lambda one: one.level):
        for part in decision.parts:
            shown.setdefault(_describe_effect(part.effect, plan), (decision.level, part))
    rows = [tuple(map(Tex, row)) for one in found for row in _build_rows(one, plan, marks, shown)]
    main = plan.name_dataset(plan.datasets[0].name)
    units = "datasets" if all(one.hypothesis.unit == "datasets" for one in found) else "seeds"
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
        f"otherwise: estimate and interval ({'; '.join(levels)}) over $n$ {units}, direction, and the claim.",
        f"Differences{of} are in percentage points." if shares else "",
        "Other effects are fractions."
        if any(find_effect_metric(one, plan) in shares and _find_form(one, plan) == "mean" for one in read)
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
            format_tabular(Table(columns, rows)),
            " ".join(mark_recorded(note).replace(r"\$n\$", "$n$") for note in notes if note),
        ),
    )


def _build_rows(
    one: HypothesisDecision,
    plan: DataPlan,
    marks: Mapping[float, str],
    shown: Mapping[str, tuple[float, EffectDecision]],
) -> Iterator[Sequence[str]]:
    """Yield the rows of a hypothesis: its name with its verdict, its effects, its rival if that is not ruled out, and
    the declared alternatives if some do not support it. The name and a single effect share a row. `shown` has the level
    and the decision whose interval is printed for an effect: one interval, if it has the same direction."""
    kind = "" if one.confirmed else ", preview" if one.hypothesis.confirmatory else ", exploratory"
    name = rf"\emph{{{mark_recorded(capitalise(one.hypothesis.name))}}}"
    few = one.verdict != "open" and one.holds < len(one.hypothesis.alternatives)
    held = f"; {one.holds} of {len(one.hypothesis.alternatives)} alternatives supported" if few else ""
    if len(one.parts) > 1:
        yield rf"\multicolumn{{4}}{{@{{}}l}}{{{name}}}", mark_recorded(f"{one.verdict}{kind}{held}")
    for part in one.parts:
        what = _describe_effect(part.effect, plan)
        label = f"{name}: {mark_recorded(what)}" if len(one.parts) == 1 else _indent(what)
        claim = f"{_format_claim(part.effect, plan)}: {part.verdict}{f'{kind}{held}' * (len(one.parts) == 1)}"
        level, equal = shown[what] if shown[what][1].direction == part.direction else (one.level, part)
        numbers = _format_numbers(equal, plan, marks[level])
        yield label, *numbers, _format_direction(part), mark_recorded(claim)
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


def _format_direction(part: EffectDecision) -> str:
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
    unit = "%" if form == "percent" else " points"
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
    plan, found = state.search.data_plan, decide_hypotheses(state)
    if plan is None or not found:
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
    yield from format_lost_seeds(part, hypothesis)
    if part.optimistic:
        yield "stopping early makes the estimate optimistic"
