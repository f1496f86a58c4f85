"""What a study leaves to a next one: its surprises, and the verdicts that are open.

Each finding names a key of the record and quotes the record in a sentence that this module writes, so that the reasons
of an idea that follows a study can be checked (`FollowedStudy.find_finding`).
"""

from __future__ import annotations

from collections.abc import Iterator

from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import describe_need, describe_support, describe_units
from labwright.record.ideation import StudyFinding
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import find_reference_wins
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision


def list_surprises(state: RunState) -> tuple[StudyFinding, ...]:
    """Return what a study measured against its expectations: refuted hypotheses, measurements that agree with the rival
    explanation, the surprise that the planner of ablations named, and reference models that beat every arm.

    Before the confirmation, the verdicts are previews on validation data.
    """
    found = [finding for one in decide_hypotheses(state) for finding in find_surprises(one)]
    for each in collect_ablation_results(state):
        if each.surprise is not None:
            control = f"its control {each.ablation.name}: {each.outcome}"
            found.append(
                StudyFinding(
                    key=f"ablation/{each.ablation.name}",
                    verdict="surprise",
                    quote=f"{each.surprise.finding} ({control})",
                )
            )
    found += [
        StudyFinding(
            key=f"reference/{win.dataset}",
            verdict="better",
            quote=f"the reference model {win.reference.condition} beats every arm on {win.dataset} "
            f"({win.reference.mean:.4g})",
        )
        for win in (find_reference_wins(state) if state.search.data_plan is not None else ())
    ]
    return tuple(found)


def list_open_verdicts(state: RunState) -> tuple[StudyFinding, ...]:
    """Return the hypotheses whose verdict is open, and the alternative forms in which a supported one does not hold."""
    return tuple(found for one in decide_hypotheses(state) for found in find_open_verdicts(one))


def find_surprises(one: HypothesisDecision) -> Iterator[StudyFinding]:
    """Yield the surprises of a hypothesis: that it is refuted, and that its rival explanation is right."""
    if one.verdict == "refuted":
        yield _describe_verdict(one)
    rival, sign = one.hypothesis.rival, one.rival_sign
    if rival is not None and one.rival is not None and sign is not None and one.has_effect and sign == rival.theirs:
        said = f"`{rival.estimand}` is {sign}{_format_estimate(one.rival)}, as the rival explanation says"
        yield StudyFinding(key=f"{one.key}/rival", verdict=sign, quote=f"{said}: {rival.statement}")


def find_open_verdicts(one: HypothesisDecision) -> Iterator[StudyFinding]:
    """Yield what a hypothesis leaves open: its verdict or, if it is supported, other forms of the question."""
    if one.verdict == "open":
        yield _describe_verdict(one)
    if one.verdict == "supported":
        for key, part in one.parts_by_key.items():
            if "/alternative-" in key and part.verdict != "supported":
                said = f"`{part.effect.estimand}`: {describe_support(part)}{_format_estimate(part)}"
                yield StudyFinding(
                    key=key, verdict=part.verdict, quote=f"{one.hypothesis.name} in another form, {said}"
                )


def _describe_verdict(one: HypothesisDecision) -> StudyFinding:
    parts = [
        f"`{part.effect.estimand}`: {describe_support(part)}{_format_estimate(part)}, {describe_units(one, part)}"
        + (f"; {need}" if (need := describe_need(part)) else "")
        for part in one.parts
    ]
    preview = (
        "" if one.confirmed else " (preview on validation data)" if one.hypothesis.confirmatory else " (exploratory)"
    )
    statement = one.hypothesis.statement.rstrip(".")
    return StudyFinding(
        key=one.key, verdict=one.verdict, quote=f'"{statement}" is {one.verdict}{preview}: {"; ".join(parts)}'
    )


def _format_estimate(part: EffectDecision) -> str:
    interval = f" [{part.low:.4g}, {part.high:.4g}]" if part.low is not None and part.high is not None else ""
    return "" if part.mean is None else f", {part.mean:.4g}{interval}"
