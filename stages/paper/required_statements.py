r"""Determine the statements that a paper must contain, find those that a draft omits, and add them.

Required are the estimate of every effect of a hypothesis, every measured ablation, the table of an addendum, the
datasets on which the method loses, reference models that beat every arm, another metric in which the outcome of a
registered pair differs, arms at the floor or at the ceiling, settings that may explain a difference, and the bias of an
early stop. The writer words them;
of points without a number, the reader of the claims says whether a section makes them (`RequiredStatement.point`). A
draft that omits one is not released. The program adds what a writer omits, as sentences of macros and fixed words
(`Evidence.statements`). No page limit removes it: versions are ranked first by their omissions, and figures are moved
instead. Whether the text also says what was decided is checked by reading it.

Limits: a reader may still give a statement too little weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from labwright.models.roles.paper_writing import RequiredStatement
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.differences import ClaimDifference, find_sign
from labwright.record.claims.estimates import find_added_replicates
from labwright.record.claims.hypothesis_tests import decide_hypotheses, list_undecided
from labwright.record.claims.requested_estimates import (
    find_registered_pair,
    list_measured_keys,
    list_registered_pairs,
    list_registered_sides,
)
from labwright.record.claims.sentences import join_names
from labwright.record.claims.setting_controls import find_open_settings
from labwright.record.estimands import CellRef, find_effect_metric
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES, ReferenceWin, find_reference_wins
from labwright.record.result_macros import ClaimKey, find_macro_uses, strip_form
from labwright.record.schema.data_plan import DataPlan, parse_arm, parse_level
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import collect_used_keys
from labwright.stages.paper.result_tables import build_addendum_tables

_EXPLORATORY_CONTROL = ", the exploratory control for the strongest surprise of the exploration"
HYPOTHESIS_TABLE = "hypotheses"
TableClaims = Mapping[str, frozenset[str]]
"""Table -> the claims that it prints."""


def list_required_statements(state: RunState, differences: Sequence[ClaimDifference]) -> tuple[RequiredStatement, ...]:
    """Return the statements that the record requires, besides the outcomes of the hypotheses."""
    decisions, looks = decide_hypotheses(state), state.search.looks
    by_results = not looks or looks[-1].conclusive or not list_undecided(decisions)
    return (
        *list_reference_statements(state),
        *list_limit_statements(decisions),
        *list_stopping_statements(decisions, by_results=by_results),
        *_list_setting_statements(state, differences),
        *list_metric_statements(state, decisions, differences),
        *_list_ablation_statements(state, decisions, differences),
        *list_addendum_statements(state),
        *_list_loss_statements(state, decisions, differences),
    )


def list_addendum_statements(state: RunState) -> Iterator[RequiredStatement]:
    """Yield what addenda registered, that it is not part of the first registration, and the table of its estimates."""
    tables = build_addendum_tables(state)
    arms = [arm for one in collect_ablation_results(state) if one.by == "addendum" for arm in one.arms]
    seeds = ["further seeds"] * bool(find_added_replicates(state))
    if not (tables or arms or seeds):
        return
    what = join_names([*map(_name_arm, arms), *seeds])
    labels = tuple(f"tab:{one.name}" for one in tables)
    place = "".join(rf" (Table~\ref{{{label}}})" for label in labels)
    sentence = (
        f"Reviewers of an earlier version asked for {what or 'further estimates'}, which we registered as an addendum "
        "after the test data had been opened, so they are exploratory and not part of the first registration"
        f"{place}."
    )
    yield RequiredStatement(
        id="addendum",
        keys=labels,
        required_form="referred" if labels else "",
        point="results that reviewers asked for were registered only after the test data had been opened, and are not "
        "part of the first registration",
        text=sentence,
        sentences=(sentence,),
    )


def list_reference_statements(state: RunState) -> tuple[RequiredStatement, ...]:
    """Return a sentence for each reference model that beats every arm, with macros for names and values."""
    wins, made = dict[str, list[ReferenceWin]](), list[RequiredStatement]()
    for one in find_reference_wins(state):
        wins.setdefault(one.reference.arm, []).append(one)
    for arm, found in wins.items():
        datasets = join_names([f"\\setup{{data.{one.dataset}.title}}" for one in found])
        values = join_names([f"\\result{{{one.reference.key}.mean}}" for one in found])
        sentence = (
            f"On {datasets}, the {REFERENCE_ARM_TITLES[arm]}, a model from outside the study that is trained on the "
            f"training data as provided, is better than every arm at its best level (for orientation; "
            f"\\setup{{metric.title}}: {values})."
        )
        made.append(
            RequiredStatement(
                id=f"ladder-{arm}",
                keys=tuple(one.reference.key for one in found),
                required_form="printed",
                text=sentence,
                sentences=(sentence,),
            )
        )
    return tuple(made)


def list_limit_statements(decisions: Sequence[HypothesisDecision]) -> Iterator[RequiredStatement]:
    """Yield, for each confirmatory hypothesis, that its arms are at the floor or as good as the metric allows."""
    for one in (one for one in decisions if one.hypothesis.confirmatory and (one.floored or one.saturated)):
        title = f"\\setup{{hypothesis.{one.hypothesis.id}.title}}"
        point = f"on {one.hypothesis.name}: no arm is better than a constant prediction, so that nothing is decided"
        sentence = (
            f"On {title}, nothing is decided: no arm that it compares is better than a constant prediction on "
            "validation data, so their differences are those of arms that learned nothing that counts."
        )
        if not one.floored:
            point = f"on {one.hypothesis.name}: every arm reaches the best possible value with every seed"
            sentence = (
                f"On {title}, every arm reaches the best possible value of the metric with every seed: they are equal "
                "by saturation, which says nothing about harder data."
            )
        yield RequiredStatement(id=f"limit-{one.hypothesis.id}", point=point, text=sentence, sentences=(sentence,))


def list_stopping_statements(
    decisions: Sequence[HypothesisDecision], *, by_results: bool = True
) -> Iterator[RequiredStatement]:
    """Yield the bias of decided estimates if sampling of seeds could stop early, and did; `by_results` is whether the
    claims are clear now, otherwise a limit ended sampling before they were."""
    if any(part.optimistic for one in decisions if one.hypothesis.confirmatory for part in one.parts):
        end = "could stop as soon as results were clear"
        if not by_results:
            end = "ended at a limit before all confirmatory claims were decided"
        sentence = (
            f"Seeds were added in steps, with a test at each, and sampling {end}. This does not raise the rate of "
            "false claims, but it makes the estimates of decided effects somewhat too large on average."
        )
        yield RequiredStatement(
            id="stopping",
            point="sampling of seeds could stop early, depending on the results, which makes estimates optimistic",
            text=sentence,
            sentences=(sentence,),
        )


def _list_setting_statements(state: RunState, differences: Sequence[ClaimDifference]) -> Iterator[RequiredStatement]:
    """Yield a statement for each pair of arms whose difference their tuned settings may explain."""
    plan = state.search.data_plan
    if plan is None:
        return
    for one in find_open_settings(state, differences):
        arm, other = map(_name_arm, (one.arm, one.other))
        names = f"{plan.name_arm(one.arm)} and {plan.name_arm(one.other)}"
        control, known = one.control, one.registered
        if control is None:
            point = (
                f"{names} ran at different tuned settings and were never compared at a common one, so that the "
                "settings may explain their difference"
            )
            sentence = (
                f"We compared {arm} and {other} only at the settings tuned for each, so part of their difference may "
                "be due to the settings."
            )
        else:
            sides = f"{other} minus {arm}" if known is not None and known.sign < 0 else f"{arm} minus {other}"
            key = control.key if known is None else known.key
            level = "95" if known is None else f"\\result{{{key}.confidence}}"
            point = (
                f"with {names} at the setting tuned for the latter, the sign of their difference is open, as it is at "
                "their own settings"
                if one.agrees
                else f"with {names} at the setting tuned for the latter, the direction found at their own settings "
                "does not show, so that the settings may explain their difference"
            )
            ending = (
                "its sign is open, as it is at their own settings."
                if one.agrees
                else "the direction seen at their own settings does not show, so that the settings may explain it."
            )
            sentence = (
                f"With both arms at the setting tuned for {other}, the difference in \\setup{{metric.title}} on "
                f"{_format_place(control)} ({sides}) was \\result{{{key}.mean}} ({level}\\% interval "
                f"\\result{{{key}.ci}}{'; exploratory' if known is None else ''}): {ending}"
            )
        yield RequiredStatement(
            id=f"settings-{one.arm}-{one.other}" + (f"-{control.level}-{control.dataset}" if control else ""),
            keys=(known.key if known else control.key,) if control else (),
            required_form="printed" if control else "",
            point=point,
            text=sentence,
            sentences=(sentence,),
        )


def list_metric_statements(
    state: RunState, decisions: Sequence[HypothesisDecision], differences: Sequence[ClaimDifference]
) -> Iterator[RequiredStatement]:
    """Yield, for each confirmatory hypothesis, the first difference of a pair that it is about whose direction in
    another metric of the plan is clear, and open or opposite in the metric of the hypothesis."""
    plan = state.search.data_plan
    if plan is None:
        return
    found = dict[str, tuple[str, str]]()
    known = _list_registered(plan, decisions)
    parts = {key: part for one in decisions for key, part in one.parts_by_key.items()}
    for decision, part in ((one, part) for one in decisions if one.hypothesis.confirmatory for part in one.parts):
        pair, metric = find_registered_pair(part.effect, plan), find_effect_metric(part.effect, plan)
        if pair is None or part.mean is None:
            continue
        sign = {"positive": 1, "negative": -1}.get(part.direction, 0) * (1 if metric.higher_is_better else -1)
        better, sides = pair[sign < 0] if sign else None, frozenset(map(_place, pair))
        names = {one.name for one in plan.metrics} - {metric.name}
        for one in differences:
            if (
                _list_places(one) == sides
                and one.name in names
                and one.excludes_zero
                and (better is None or one.better != better.condition)
            ):
                arms = [one.arm, parse_arm(one.other)]
                first, second = arms if one.better == one.condition else reversed(arms)
                key, minus, level, basis = _find_printed(one, known)
                if key in parts and not find_sign(parts[key].low, parts[key].high):
                    continue  # the interval that is printed includes zero
                usual = f"{_name_arm(second)} is better" if better else "the sign of their difference is open"
                here, there = (_name_metric(name, plan) for name in (metric.name, one.name))
                sentence = (
                    f"The metrics disagree on {_format_place(one)}: in {there}, {_name_arm(first)} is better than "
                    f"{_name_arm(second)} ({minus}: \\result{{{key}.mean}}, {level}\\% interval \\result{{{key}.ci}}"
                    f"{basis and f', {basis}'}), whereas in {here} {usual}."
                )
                found.setdefault(decision.hypothesis.id, (key, sentence))
    for key, sentence in dict(found.values()).items():
        yield RequiredStatement(
            id=f"metric-{key.removeprefix('diff/').replace('/', '-')}",
            keys=(key,),
            required_form="printed",
            text=sentence,
            sentences=(sentence,),
        )


_Sides = frozenset[tuple[str, str]]
"""(dataset, condition) of both sides of a difference."""
_Registered = Mapping[tuple[str, _Sides], tuple[str, Sequence[CellRef]]]
"""(metric, sides) of a registered pair -> its key and its cells in the registered order."""


def _place(one: CellRef) -> tuple[str, str]:
    return one.dataset, one.condition


def _list_places(one: ClaimDifference) -> _Sides:
    return frozenset([(one.dataset, one.condition), (one.dataset, one.other)])


def _list_registered(plan: DataPlan | None, decisions: Iterable[HypothesisDecision]) -> _Registered:
    """Return the registered and measured pairs, alternatives and rivals included; of a pair with several keys, the
    first one."""
    measured = list_measured_keys(decisions)
    pairs = reversed(list_registered_pairs(plan, measured).items()) if plan is not None else ()
    return {(metric, frozenset(map(_place, cells))): (key, cells) for key, (metric, *cells) in pairs}


def _find_printed(one: ClaimDifference, known: _Registered) -> tuple[str, str, str, str]:
    """Return the key of a difference that a paper prints, its arms in words, the confidence of its interval and the
    term for what is not registered: a registered pair has its own order and interval."""
    key, cells = known.get((one.name, _list_places(one)), (one.key, ()))
    minus = " minus ".join(map(_name_arm, [place.arm for place in cells] or [one.arm, parse_arm(one.other)]))
    return (key, minus, f"\\result{{{key}.confidence}}", "") if cells else (key, minus, "95", one.basis_text)


def _name_arm(name: str) -> str:
    return f"\\setup{{arm.{name}.title}}"


def _name_metric(name: str, plan: DataPlan) -> str:
    return "\\setup{metric.title}" if name == plan.primary_metric.name else f"\\setup{{metric.{name}.title}}"


def _list_ablation_statements(
    state: RunState, decisions: Sequence[HypothesisDecision], differences: Sequence[ClaimDifference]
) -> Iterator[RequiredStatement]:
    """Yield, for each measured ablation arm, its clearest difference on the main dataset. The arms of an addendum have
    registered estimates instead."""
    known = _list_registered(state.search.data_plan, decisions)
    for result in collect_ablation_results(state):
        for arm in result.arms if result.outcome == "measured" and result.by != "addendum" else ():
            found = _filter_primary(state, [one for one in differences if one.arm == arm])
            here = [one for one in found if one.dataset == found[0].dataset]
            if here:
                clearest = max(here, key=lambda one: (one.excludes_zero, abs(one.mean)))
                key = _find_printed(clearest, known)[0]
                yield RequiredStatement(
                    id=f"ablation-{arm}",
                    keys=(key,),
                    equal_keys={key: (clearest.key,)},
                    required_form="shown",
                    text=(
                        f"{result.ablation.name}, an ablation of {result.ablation.part}"
                        f"{_EXPLORATORY_CONTROL if result.surprise is not None else ''}: "
                        f"\\result{{{key}.mean}}"
                    ),
                    sentences=(_format_difference(clearest, known),),
                )


def _list_loss_statements(
    state: RunState, decisions: Sequence[HypothesisDecision], differences: Sequence[ClaimDifference]
) -> Iterator[RequiredStatement]:
    """Yield statements where the method loses to a baseline: by an interval without zero, or by its means at
    every level of a dataset. Registered pairs are reported as such, with their own interval."""
    roles = {arm.name: arm.role for arm in state.search.data_plan.arms} if state.search.data_plan is not None else {}
    places: dict[tuple[str, str, str], list[ClaimDifference]] = {}
    registered = list_registered_sides(state.search.data_plan)
    known = _list_registered(state.search.data_plan, decisions)
    for difference in _filter_primary(state, differences):
        sides = frozenset(
            (difference.dataset, difference.name, one) for one in (difference.condition, difference.other)
        )
        if roles.get(difference.arm) == "method" and sides not in registered:
            places.setdefault((difference.dataset, difference.arm, parse_arm(difference.other)), []).append(difference)
    for (dataset, arm, other), found in places.items():
        behind = [one for one in found if one.better == one.other and one.mean != 0]
        lost = behind if len(behind) == len(found) else [one for one in behind if one.excludes_zero]
        if lost:
            keys = [_find_printed(one, known)[0] for one in lost]
            values = (
                f"{parse_level(one.condition) or 'in all'}: \\result{{{key}.mean}}"
                for one, key in zip(lost, keys, strict=True)
            )
            yield RequiredStatement(
                id=f"behind-{dataset}-{arm}-{other}",
                keys=tuple(keys),
                equal_keys={key: (one.key,) for one, key in zip(lost, keys, strict=True)},
                required_form="shown",
                text=f"{arm} against {other} on {dataset}, where its means are worse: {'; '.join(values)}",
                sentences=tuple(_format_difference(one, known) for one in lost),
            )


def _filter_primary(state: RunState, differences: Iterable[ClaimDifference]) -> list[ClaimDifference]:
    plan = state.search.data_plan
    return [one for one in differences if plan is not None and one.name == plan.primary_metric.name]


def _format_difference(one: ClaimDifference, known: _Registered) -> str:
    """Write a sentence with a difference of the primary metric. Names are macros, since they may contain numbers."""
    key, minus, level, basis = _find_printed(one, known)
    interval = "" if one.low is None else f"{level}\\% interval \\result{{{key}.ci}}"
    noted = "; ".join(filter(None, (interval, basis)))
    return (
        f"On {_format_place(one)}, the difference in \\setup{{metric.title}} ({minus}) is \\result{{{key}.mean}}"
        f"{noted and f' ({noted})'}."
    )


def _format_place(one: ClaimDifference) -> str:
    """Write the dataset of a difference and, if it has one, its level."""
    return f"\\setup{{data.{one.dataset}.title}}" + f" at \\setup{{level.{one.level}.title}}" * bool(one.level)


# --- drafts -----------------------------------------------------------------------------------------------------------


def describe_unstated(item: RequiredStatement) -> str:
    """Describe to the writer a statement whose point no section makes."""
    return f"no section says that {item.point} ({item.id}): say it once, in your own words"


def missing_statements(
    draft: PaperDraft,
    statements: Iterable[RequiredStatement],
    table_claims: TableClaims,
    unstated: Collection[RequiredStatement] = (),
    reported: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the required statements that a draft omits, one line each. According to its readers, no section makes
    the points `unstated`, and one reports the hypotheses of the statements `reported` (ids)."""
    lines: list[str] = []
    for item in statements:
        if item in unstated:
            lines.append(describe_unstated(item))
        if missing := _find_missing_keys(draft, item, table_claims, reported):
            macros = ", ".join(f"\\result{{{key}.mean}}" for key in missing)
            where = (
                "place a table that contains it, or print" if item.required_form == "shown" else "in the results, print"
            )
            how = f"{where} {macros} (or another form of it) with its interval"
            if item.required_form == "referred":
                how = "in the results, refer to " + ", ".join(rf"Table~\ref{{{key}}}" for key in missing)
            lines.append(f"no section reports {item.id}: {how}")
    return tuple(lines)


def add_missing_statements(
    draft: PaperDraft,
    statements: Iterable[RequiredStatement],
    table_claims: TableClaims,
    unstated: Collection[RequiredStatement] = (),
    reported: Collection[str] = (),
) -> PaperDraft:
    """Return the draft with the omitted required statements added."""
    sentences: list[str] = []
    for item in statements:
        missing = _find_missing_keys(draft, item, table_claims, reported)
        if len(item.sentences) == 1:
            sentences += item.sentences if missing or item in unstated else ()
        else:
            sentences += [text for key, text in zip(item.keys, item.sentences, strict=False) if key in missing]
    found = [
        Section(title=one.title, body=f"{one.body.rstrip()}\n\n{' '.join(sentences)}")
        if sentences and at == _find_results_section(draft)
        else one
        for at, one in enumerate(draft.sections)
    ]
    return draft.model_copy(update={"sections": tuple(found)}) if sentences else draft


def _find_missing_keys(
    draft: PaperDraft, item: RequiredStatement, table_claims: TableClaims, reported: Collection[str]
) -> list[str]:
    """Return the keys whose estimates the sections must show and do not, or the tables that they must refer to."""
    bodies = [section.body for section in draft.sections]
    if item.required_form == "referred":
        return [key for key in item.keys if key not in collect_used_keys(bodies, frozenset({"ref"}))]
    if item.required_form not in ("printed", "shown"):
        return []
    placed = collect_used_keys(bodies, frozenset({"papertable"})) if item.required_form == "shown" else ()
    means = {key[1:4] for name in placed for text in table_claims.get(name, ()) if (key := ClaimKey.parse_key(text))}
    printed = _find_printed_keys("\n".join(bodies))
    missing = [key for key in item.keys if not printed & {key, *item.equal_keys.get(key, ())}]
    if item.required_form == "printed" and HYPOTHESIS_TABLE in collect_used_keys(bodies, frozenset({"papertable"})):
        # the table has all parts of a hypothesis that the text reports
        return missing if len(missing) == len(item.keys) and item.id not in reported else []
    return [key for key in missing if not any(_is_in_table(one, means) for one in (key, *item.equal_keys.get(key, ())))]


def _is_in_table(key: str, means: set[tuple[str, str, str]]) -> bool:
    claim = ClaimKey.parse_key(key)
    return claim is not None and all(
        (claim.dataset, claim.metric, side) in means for side in (claim.condition, claim.other)
    )


def _find_printed_keys(text: str) -> set[str]:
    return {strip_form(use.key) for use in find_macro_uses(text) if use.macro == "result"}


def _find_results_section(draft: PaperDraft) -> int:
    """Return the index of the section that prints the most results; the first one in case of a tie."""
    counts = [len(_find_printed_keys(one.body)) for one in draft.sections]
    return counts.index(max(counts))
