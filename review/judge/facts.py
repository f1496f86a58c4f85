"""What the record says of the run behind a paper, for a judge: counts, not the harness's opinion of itself.

A function of what was recorded up to the release. The judge's own calls are left out, so that a run resumed between
its answer and its judgement renders the same question again.
"""

from __future__ import annotations

from collections import Counter

from models.judgement import RecordFacts
from record.claims import Difference, ablations, differences, paper_claims, replicates_of, winner
from record.fold.state import RunState
from record.nouns.data import arm_of
from record.nouns.papers import Draft
from review.evidence.allowed import CITES
from review.evidence.binder import used_keys

SEARCHED = ("draft", "debug", "improve", "tune", "ablate")


def facts_of(state: RunState, draft: Draft) -> RecordFacts:
    """The facts behind the paper that was made from `draft`."""
    plan, released = state.data_plan, state.released
    nodes = [node for node in state.nodes.values() if node.kind in SEARCHED]
    copies = replicates_of(state, winner(state) or "")
    claims = paper_claims(state)
    paid = state.usage_without("judge")
    called = _called(differences(state, claims), state)
    texts = _texts(draft)
    return RecordFacts(
        released=released is not None and released.released, pages=released.pages if released else None,
        nodes=len(nodes), failed=sum(node.status in ("buggy", "pruned", "cancelled") for node in nodes),
        doubted=sum(bool(node.suspect) or (node.verdict is not None and not node.verdict.sound) for node in nodes),
        replicates=sum(one.status == "good" for one in copies),
        replicates_failed=sum(one.status != "good" for one in copies),
        fewest_seeds=min((claim.n for claim in claims), default=0), ablations=len(ablations(state)),
        datasets=len(state.datasets), conditions=len(plan.conditions) if plan else 0,
        for_method=called["method"], for_other=called["other"], no_difference=called["no measurable difference"],
        undecided=called["unknown"], corrected=state.corrected,
        grades=tuple(sorted(Counter(str(claim.grade) for claim in claims).items())),
        bound_values=len(used_keys(texts)), references=len(used_keys(texts, CITES)),
        figures=len(used_keys(texts, frozenset({"paperfigure"}))), limited=state.limited or "", models=state.models,
        calls=paid.calls, usd=round(paid.usd, 4), unpriced=paid.unpriced, code_seconds=round(state.seconds_of_code, 1))


def _called(found: list[Difference], state: RunState) -> Counter[str]:
    """What is called of each comparison of a method with a baseline, by its direction where there is one."""
    roles = {arm.name: arm.role for arm in state.data_plan.arms} if state.data_plan else {}
    counts: Counter[str] = Counter()
    for one in found:
        if roles.get(arm_of(one.condition)) == "method":
            counts[{"improved": "method", "worsened": "other"}.get(one.called, one.called)] += 1
    return counts


def _texts(draft: Draft) -> list[str]:
    return [draft.title, draft.abstract, *draft.captions.values(),
            *(text for section in draft.sections for text in (section.title, section.body))]
