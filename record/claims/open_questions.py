"""What a study leaves to a next one: its surprises, and the verdicts that are open.

Each finding names a key of the record and quotes the record in a sentence that this module writes, so that an idea that
follows a study can be checked against it (`find_reason_fault`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import describe_need, describe_support, describe_units
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import find_reference_wins
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision


class StudyFinding(FrozenModel):
    """A result of a study that a next study could follow. `quote` is a sentence about the record."""

    key: str = Field(min_length=1, description="what the record calls it: `hypothesis/drop`, `ablation/no-decay`")
    verdict: str = Field(min_length=1, description="its verdict, as the record has it")
    quote: str = ""


class IdeaReason(FrozenModel):
    """A reason for an idea that follows a study: a finding of its record, and why it leads to the idea."""

    key: str = Field(min_length=1, max_length=200, description="key of a finding in the list, copied")
    verdict: str = Field(min_length=1, max_length=40, description="verdict of that finding, copied")
    why: str = Field(min_length=1, max_length=1000, description="how this finding leads to the idea's question")
    quote: str = Field(default="", description="inserted by the program")


def list_surprises(state: RunState) -> tuple[StudyFinding, ...]:
    """Return what a study measured against its expectations: refuted hypotheses, measurements that agree with the rival
    explanation, the surprise that the planner of ablations named, and reference models that beat every arm.

    Before the confirmation, the verdicts are previews on validation data.
    """
    found: list[StudyFinding] = []
    for one in decide_hypotheses(state):
        if one.verdict == "refuted":
            found.append(_describe_verdict(one))
        rival, sign = one.hypothesis.rival, one.rival_sign
        if rival is not None and one.rival is not None and sign is not None and one.has_effect and sign == rival.theirs:
            said = f"`{rival.estimand}` is {sign}{_format_estimate(one.rival)}, as the rival explanation says"
            found.append(StudyFinding(key=f"{one.key}/rival", verdict=sign, quote=f"{said}: {rival.statement}"))
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
    return tuple(found for one in decide_hypotheses(state) for found in _iterate_open(one))


def find_reason_fault(reason: IdeaReason, findings: Sequence[StudyFinding]) -> str | None:
    """Return why a reason does not agree with the record, or None."""
    known = {one.key: one.verdict for one in findings}
    if reason.key not in known:
        return f"the record has no finding {reason.key!r}: use one of {', '.join(known)}"
    if reason.verdict != known[reason.key]:
        return f"the verdict of {reason.key} is {known[reason.key]!r}, not {reason.verdict!r}"
    return None


def _iterate_open(one: HypothesisDecision) -> Iterator[StudyFinding]:
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
