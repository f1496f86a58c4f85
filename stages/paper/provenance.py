"""What a paper tells of its ablations: which were planned, what became of each, and what a reviewer asked for besides.

Made from the record. Rows hold the record's words; sentences for the writer hold no number.

What a paper tells of where its run began, and of the people who wrote some of its code.

A run that branched off rests on decisions of another run, and is one of the ways in which that one was gone on with.
How many such ways were tried, and whether this one was chosen for its result, no record knows; so it is told that it
does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from record.fold.facts import Ancestor, RoleUsage
from record.fold.state import RunState
from record.nouns.frozen import Frozen
from record.nouns.nodes import STAGES, NodeKind, StageName
from record.trials import Trial, trials
from stages.paper.latex import recorded

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
    """For the disclosure; None where nothing was planned and nobody asked."""
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


FORKED = (
    "Other branches of the same run may have been made, and this paper may have been chosen among theirs; the record "
    "of a run knows its ancestors and not its siblings, so no value here is corrected for such a choice.")


class AncestorTold(Frozen):
    """A run that this one branched off. Costs are what was taken there up to the point, and count for no cap here."""

    run: str = Field(description="name of its folder")
    point: str
    decision: int = Field(description="the last decision that was taken there")
    nodes: int = Field(description="that were made there, or begun")
    events: int
    sha256: str = Field(description="of its log up to the point")
    seed: int = Field(description="of the choices after the point")
    settings_changed: tuple[str, ...]
    note: str
    by: str
    beyond: tuple[str, ...] = Field(description="runs that it was itself a branch of, from a later point than this one")
    calls: int
    tokens: int
    usd: float
    unpriced: int
    seconds_of_code: float
    seconds_of_run: float


class HumanTold(Frozen):
    """A node whose code a person wrote."""

    node: str
    author: str
    stage: StageName
    kind: NodeKind
    plan: str


def ancestors_told(state: RunState) -> tuple[AncestorTold, ...]:
    """For the disclosure, the first ancestor first."""
    return tuple(_told(one) for one in state.ancestry)


def humans_told(state: RunState) -> tuple[HumanTold, ...]:
    """For the disclosure, in the order of decisions."""
    return tuple(HumanTold(node=node.id, author=node.author, stage=node.stage, kind=node.kind, plan=node.plan)
                 for node in state.human_nodes)


def origin(state: RunState) -> str:
    """Where the run began, as TeX for the appendix; empty for one that began with its idea."""
    told = ancestors_told(state)
    if not told:
        return ""
    said = [recorded(f"{_origin(one)} {_cost(one)}") for one in told]
    return "\n\n".join([*said, FORKED])


def human_rows(state: RunState) -> Iterable[tuple[str, str]]:
    """Nodes that people wrote, and who."""
    return ((one.node, f"{one.kind}, by {one.author}") for one in humans_told(state))


def origin_sentences(state: RunState) -> Iterator[str]:
    """What a reader must be told, in words without numbers."""
    if state.ancestry:
        yield ("The run goes on from a point of another run, of which there may be other branches; the appendix says "
               "what was decided there.")
    if state.human_nodes:
        yield "A person wrote the code of some experiments; the appendix says which."


def _told(one: Ancestor) -> AncestorTold:
    used = RoleUsage()
    for role in one.usage.values():
        used.calls, used.usd, used.unpriced = used.calls + role.calls, used.usd + role.usd, (
            used.unpriced + role.unpriced)
        used.input_tokens += role.input_tokens + role.output_tokens
    event = one.event
    return AncestorTold(
        run=event.parent, point=event.point, decision=one.decision, nodes=one.nodes, events=event.events,
        sha256=event.sha256, seed=event.seed, settings_changed=tuple(event.settings), note=event.note, by=event.by,
        beyond=event.beyond, calls=used.calls, tokens=used.input_tokens, usd=round(used.usd, 6),
        unpriced=used.unpriced, seconds_of_code=round(one.seconds_of_code, 1),
        seconds_of_run=round(one.active_seconds, 1))


def _origin(one: AncestorTold) -> str:
    where = (f"before the first decision of the {one.point} stage" if one.point in STAGES
             else f"after the verdict on node {one.point}")
    itself = f" (then a branch of {', '.join(one.beyond)})" if one.beyond else ""
    return (f"This run is a branch of the run {one.run}{itself}, {where}. Its decisions up to {one.decision} were "
            f"taken there, and the {one.nodes} nodes that they made were begun there (SHA of that part of the log: "
            f"{one.sha256[:12]}).")


def _cost(one: AncestorTold) -> str:
    paid = "a price that is not known" if one.unpriced and one.unpriced == one.calls else f"{one.usd:.2f} US dollars"
    more = f" and {one.unpriced} calls of unknown price" if one.unpriced and one.unpriced != one.calls else ""
    return (f"There, up to this point, {one.calls} model calls with {one.tokens} tokens were made, for {paid}{more}, "
            f"and experiment code ran for {one.seconds_of_code:.0f} seconds; this is not in the cost below.")
