r"""Determine the statements that a paper must contain, find those that a draft omits, and add them.

Required are the estimate of every effect of a hypothesis, the table of an addendum, reference models that beat every
arm, arms at the floor or at the ceiling, settings that may explain a difference, and the bias of an early stop. The
writer words them; of points without a number, the reader of the claims says whether a section makes them
(`RequiredStatement.point`). A draft that omits one is not released. The program adds what a writer omits, as sentences
of macros and fixed words (`Evidence.statements`). No page limit removes it: versions are ranked first by their
omissions, and figures are moved instead. Whether the text also says what was decided is checked by reading it. Measured
ablations, and datasets on which the method loses, must be planned in the outline; every draft has tables with their
values.

Limits: a reader may still give a statement too little weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from labwright.models.roles.paper_writing import RequiredStatement
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim, find_added_replicates
from labwright.record.claims.hypothesis_tests import decide_hypotheses, list_undecided
from labwright.record.claims.requested_estimates import is_effect_key, list_measured_parts, list_registered_keys
from labwright.record.claims.sentences import join_names
from labwright.record.claims.setting_controls import find_open_settings
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES, find_reference_wins
from labwright.record.result_macros import find_macro_uses, strip_form
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import collect_used_keys
from labwright.stages.paper.result_tables import build_addendum_tables

_EXPLORATORY_CONTROL = ", the exploratory control for the strongest surprise of the exploration"
HYPOTHESIS_TABLE = "hypotheses"


def list_required_statements(state: RunState, differences: Sequence[ClaimDifference]) -> tuple[RequiredStatement, ...]:
    """Return the statements that the record requires, besides the outcomes of the hypotheses."""
    decisions, looks = decide_hypotheses(state), state.search.looks
    by_results = not looks or looks[-1].conclusive or not list_undecided(decisions)
    return (
        *list_reference_statements(state),
        *list_limit_statements(decisions),
        *list_stopping_statements(decisions, by_results=by_results),
        *_list_setting_statements(state, differences),
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
    wins, made = dict[str, list[Claim]](), list[RequiredStatement]()
    for one in find_reference_wins(state):
        wins.setdefault(one.arm, []).append(one)
    for arm, found in wins.items():
        datasets = join_names([f"\\setup{{data.{one.dataset}.title}}" for one in found])
        values = join_names([f"\\result{{{one.key}.mean}}" for one in found])
        sentence = (
            f"On {datasets}, the {REFERENCE_ARM_TITLES[arm]}, a model from outside the study that is trained on the "
            f"training data as provided, is better than every arm at its best level (for orientation; "
            f"\\setup{{metric.title}}: {values})."
        )
        made.append(
            RequiredStatement(
                id=f"ladder-{arm}",
                keys=tuple(one.key for one in found),
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
            f"Seeds were planned in steps, with a test at each, and sampling {end}. This does not raise the rate of "
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
    plan = state.search.plan
    for one in find_open_settings(state, differences):
        arm, other = map(_name_arm, (one.arm, one.other))
        names = f"{plan.name_arm(one.arm)} and {plan.name_arm(one.other)}"
        name, control, known = f"settings-{one.arm}-{one.other}", one.control, one.registered
        if control is None:
            point = (
                f"{names} ran at different tuned settings and were never compared at a common one, so that the "
                "settings may explain their difference"
            )
            sentence = (
                f"We compared {arm} and {other} only at the settings tuned for each, so part of their difference may "
                "be due to the settings."
            )
            yield RequiredStatement(id=name, point=point, text=sentence, sentences=(sentence,))
            continue
        sides = f"{other} minus {arm}" if known is not None and known.sign < 0 else f"{arm} minus {other}"
        key = control.key if known is None else known.key
        level = "95" if known is None else f"\\result{{{key}.confidence}}"
        found = "the direction seen at their own settings does not show, so that the settings may explain it"
        if one.agrees:
            found = "the sign of their difference is open, as it is at their own settings"
        sentence = (
            f"With both arms at the setting tuned for {other}, the difference in \\setup{{metric.title}} on "
            f"{_format_place(control)} ({sides}) was \\result{{{key}.mean}} ({level}\\% interval "
            f"\\result{{{key}.ci}}{'; exploratory' if known is None else ''}): {found}."
        )
        yield RequiredStatement(
            id=f"{name}-{control.level}-{control.dataset}",
            keys=(key,),
            required_form="printed",
            point=f"with {names} at the setting tuned for the latter, {found}",
            text=sentence,
            sentences=(sentence,),
        )


def _name_arm(name: str) -> str:
    return f"\\setup{{arm.{name}.title}}"


def _list_ablation_statements(
    state: RunState, decisions: Sequence[HypothesisDecision], differences: Sequence[ClaimDifference]
) -> Iterator[RequiredStatement]:
    """Yield, for each measured ablation arm, its clearest difference on the main dataset. The arms of an addendum have
    registered estimates instead."""
    known = list_registered_keys(list_measured_parts(decisions), state.search.plan)
    for result in collect_ablation_results(state):
        for arm in result.arms if result.outcome == "measured" and result.by != "addendum" else ():
            found = _filter_primary(state, [one for one in differences if one.arm == arm])
            here = [one for one in found if one.dataset == found[0].dataset]
            if here:
                clearest = max(here, key=lambda one: (one.excludes_zero, abs(one.mean)))
                key = known.get(clearest.key, clearest.key)
                yield RequiredStatement(
                    id=f"ablation-{arm}",
                    keys=(key,),
                    text=(
                        f"{result.ablation.name}, an ablation of {result.ablation.part}"
                        f"{_EXPLORATORY_CONTROL if result.surprise is not None else ''}: "
                        f"\\result{{{key}.mean}}"
                    ),
                )


def _list_loss_statements(
    state: RunState, decisions: Sequence[HypothesisDecision], differences: Sequence[ClaimDifference]
) -> Iterator[RequiredStatement]:
    """Yield statements where the method loses to a baseline: by an interval without zero, or by its means at
    every level of a dataset. Registered pairs with a measured value are reported as such, with their own
    interval."""
    methods = {arm.name for arm in state.search.plan.arms if arm.role == "method"}
    places: dict[tuple[str, str, str], list[ClaimDifference]] = {}
    known = list_registered_keys(list_measured_parts(decisions), state.search.plan)
    for difference in _filter_primary(state, differences):
        if difference.arm in methods and not is_effect_key(known.get(difference.key, "")):
            places.setdefault((difference.dataset, difference.arm, parse_arm(difference.other)), []).append(difference)
    for (dataset, arm, other), found in places.items():
        behind = [one for one in found if one.better == one.other and one.mean != 0]
        lost = behind if len(behind) == len(found) else [one for one in behind if one.excludes_zero]
        if lost:
            keys = [known.get(one.key, one.key) for one in lost]
            values = (
                f"{parse_level(one.condition) or 'in all'}: \\result{{{key}.mean}}"
                for one, key in zip(lost, keys, strict=True)
            )
            yield RequiredStatement(
                id=f"behind-{dataset}-{arm}-{other}",
                keys=tuple(keys),
                text=f"{arm} against {other} on {dataset}, where its means are worse: {'; '.join(values)}",
            )


def _filter_primary(state: RunState, differences: Iterable[ClaimDifference]) -> list[ClaimDifference]:
    return [one for one in differences if one.name == state.search.plan.primary_metric.name]


def _format_place(one: ClaimDifference) -> str:
    """Write the dataset of a difference and, if it has one, its level."""
    return f"\\setup{{data.{one.dataset}.title}}" + f" at \\setup{{level.{one.level}.title}}" * bool(one.level)


# --- drafts -----------------------------------------------------------------------------------------------------------


def describe_unstated(item: RequiredStatement) -> str:
    """Describe to the writer a statement whose point no section makes."""
    return f"no section says that {item.point} ({item.id}): say it once, in your own words"


def complete_draft(
    draft: PaperDraft,
    statements: Iterable[RequiredStatement],
    unstated: Collection[RequiredStatement] = (),
    reported: Collection[str] = (),
) -> tuple[tuple[str, ...], PaperDraft]:
    """Return the required statements that a draft omits, one line each, and the draft with them. According to its
    readers, no section makes the points `unstated`, and one reports the hypotheses of the statements `reported` (ids).
    """
    lines, sentences = list[str](), list[str]()
    for item in statements:
        missing = _find_missing_keys(draft, item, reported)
        if item in unstated:
            lines.append(describe_unstated(item))
        if missing:
            macros = ", ".join(f"\\result{{{key}.mean}}" for key in missing)
            how = f"in the results, print {macros} (or another form of it) with its interval"
            if item.required_form == "referred":
                how = "in the results, refer to " + ", ".join(rf"Table~\ref{{{key}}}" for key in missing)
            lines.append(f"no section reports {item.id}: {how}")
        if len(item.sentences) == 1:
            sentences += item.sentences if missing or item in unstated else ()
        else:
            sentences += [text for key, text in zip(item.keys, item.sentences, strict=False) if key in missing]
    if not sentences:
        return tuple(lines), draft
    counts = [len(_find_printed_keys(one.body)) for one in draft.sections]
    at, sections = counts.index(max(counts)), [*draft.sections]  # the section that prints the most results
    body = f"{sections[at].body.rstrip()}\n\n{' '.join(sentences)}"
    sections[at] = Section(title=sections[at].title, body=body)
    return tuple(lines), draft.model_copy(update={"sections": tuple(sections)})


def _find_missing_keys(draft: PaperDraft, item: RequiredStatement, reported: Collection[str]) -> list[str]:
    """Return the keys whose estimates the sections must print and do not, or the tables that they must refer to."""
    bodies = [section.body for section in draft.sections]
    if item.required_form == "referred":
        return [key for key in item.keys if key not in collect_used_keys(bodies, frozenset({"ref"}))]
    if item.required_form != "printed":
        return []
    printed = _find_printed_keys("\n".join(bodies))
    missing = [key for key in item.keys if not printed & {key, *item.equal_keys.get(key, ())}]
    if HYPOTHESIS_TABLE in collect_used_keys(bodies, frozenset({"papertable"})):
        # the table has all parts of a hypothesis that the text reports
        return missing if len(missing) == len(item.keys) and item.id not in reported else []
    return missing


def _find_printed_keys(text: str) -> set[str]:
    return {strip_form(use.key) for use in find_macro_uses(text) if use.macro == "result"}
