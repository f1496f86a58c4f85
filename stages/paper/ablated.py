"""What a paper tells of its ablations: which were planned, what became of each, and what a reviewer asked for besides.

Made from the record. Rows hold the record's words; sentences for the writer hold no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from record.fold.state import RunState
from record.nouns.frozen import Frozen
from record.trials import Trial, trials

LATE = ("After the draft, a reviewer was asked which ablations its claims need. Whoever asked had read the test "
        "results of the draft; nothing was chosen by those of the new nodes, which were scored once, after all of them "
        "ran.")


class AblationsTold(Frozen):
    """All that the disclosure says of ablations."""

    trials: tuple[Trial, ...] = Field(description="in the order of the plan; those that a reviewer asked for last")
    risks: tuple[str, ...] = Field(description="each risk factor of the idea, and which ablation tests it, or why none")
    unplanned: str = Field(description="why there was no plan")
    missing: str = Field(description="what the reviewer of the draft said; empty: nobody was asked")
    rule: str = LATE


def ablations_told(state: RunState) -> AblationsTold | None:
    """For the disclosure; None where nothing was planned and nobody asked, as in older records."""
    if state.planned is None and state.missed is None:
        return None
    return AblationsTold(
        trials=trials(state), risks=state.planned.risks if state.planned is not None else (),
        unplanned=state.planned.why if state.planned is not None else "",
        missing=state.missed.why if state.missed is not None else "")


def ablation_sentences(state: RunState) -> tuple[str, ...]:
    """What a reader must be told, one sentence each, in words without numbers."""
    found = trials(state)
    told: list[str] = []
    for outcome, words in (("failed", "Planned ablations that failed"), ("not run", "Planned ablations that were not "
                                                                                   "run")):
        if names := _names([one for one in found if one.by == "author" and one.outcome == outcome]):
            told.append(f"{words}: {names}; the appendix says why.")
    asked = [one for one in found if one.by == "reviewer"]
    if done := _names([one for one in asked if one.outcome == "measured"]):
        told.append(f"Run after the first draft, since a reviewer who had read it, test results included, asked for "
                    f"them: {done}. The figures do not show them.")
    for outcome, words in (("failed", "failed"), ("not run", "were not run")):
        if names := _names([one for one in asked if one.outcome == outcome]):
            told.append(f"Ablations that a reviewer of the draft asked for and that {words}: {names}; the appendix "
                        "says why.")
    return tuple(told)


def planned_rows(state: RunState) -> Iterable[tuple[str, str]]:
    """Name and fate of every planned ablation; why there was no plan."""
    if state.planned is not None and state.planned.why:
        yield "none", state.planned.why
    yield from (_row(one) for one in trials(state) if one.by == "author")


def missing_rows(state: RunState) -> Iterable[tuple[str, str]]:
    """Name and fate of every ablation that was asked for after the draft, and what was said with it."""
    if state.missed is not None:
        yield "asked", state.missed.why
    yield from (_row(one) for one in trials(state) if one.by == "reviewer")


def _row(one: Trial) -> tuple[str, str]:
    change = {"remove": f"{one.ablation.part} taken out",
              "replace": f"{one.ablation.part} replaced by {one.ablation.replacement}",
              "add": f"{one.ablation.replacement} added to {one.ablation.part}"}[one.ablation.action]
    if one.outcome == "measured":
        again = f"{one.replicates} replicates" if one.replicates else "no replicates, so that nothing is claimed of it"
        return one.ablation.name, f"{change}: measured by {one.node} as {', '.join(one.arms) or 'no arm'}, {again}"
    return one.ablation.name, f"{change}: {one.outcome}{f' ({one.node})' if one.node else ''}, {one.why}"


def _names(found: Sequence[Trial]) -> str:
    return ", ".join(one.ablation.name for one in found)
