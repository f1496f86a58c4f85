"""`review/disclosure.json`: everything that was tried, looked at and chosen in a run, made from the record at release.

It is a function of the record up to the release, so that an audit can make it again; what comes later (the judgement
and what it costs) is not in it. Values with a step are not repeated here: each attempt's measurements.jsonl has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from record.claims import replicates_of, seedless, winner
from record.events import Event
from record.events.papers import Drafted, Released
from record.fold.apply import fold
from record.fold.state import RunState
from record.folder import RunFolder
from record.nouns.data import Measurement
from record.nouns.nodes import STAGES, Attempt, Node, StageName
from stages.paper.disclosed import (
    DisclosedAttempt,
    DisclosedCost,
    DisclosedDecision,
    DisclosedDraft,
    DisclosedMetric,
    DisclosedNode,
    DisclosedNote,
    DisclosedStage,
    DisclosedSteering,
    Disclosure,
)
from stages.paper.provenance import FORKED, disclosed_ablations, disclosed_ancestors, disclosed_humans

RULES = {
    "next node": "search.policy picks the parent from validation results that the decision may see (docs/search.md)",
    "best of a stage": "of the nodes that worked and are not suspect, those that measured most cells of the data plan; "
                       "of these the largest mean gain of the primary metric on validation data; where measured noise "
                       "hides the difference, the one that a comparison found sounder, else the earlier one (order "
                       "ticket) or the cheaper one (arrival)",
    "what the paper reports": "the best of the last stage before ablation that found one, by replicates alone: the "
                              "seed that the search looked at is left out",
    "test data": "scored once, after the last stage, for that node, the ablations that worked, and the replicates of "
                 "both",
    "text": "of all drafts the one with the fewest untied pieces, then with the fewest findings that stop a release, "
            "then with the fewest findings; of equals the latest",
}


def disclosure(state: RunState, *, isolation: str, text: int) -> Disclosure:
    """The disclosure of a run that is about to be released, with the draft of round `text`."""
    assert state.started is not None
    return Disclosure(
        run_version=state.started.version, paper_version=state.version, idea=state.started.idea,
        seed=state.started.seed, models=state.models, isolation=state.isolations, isolation_told=isolation,
        machines=state.machines, settings=state.started.settings, overrides=state.overrides, datasets=state.datasets,
        scorers=state.scorers, untested=state.data_plan.untested if state.data_plan else (), rules=RULES,
        counts=_counts(state), nodes=tuple(_node(node, state) for node in state.nodes.values()),
        metrics=tuple(_metrics(state)), decisions=tuple(
            DisclosedDecision(k=k, action=one.action, seen_through=one.seen.through, seen_also=one.seen.also)
            for k, one in state.decisions.items()),
        stages=tuple(_stage(name, state) for name in STAGES), reported=winner(state),
        comparisons=tuple(state.compared.values()), probes=tuple(state.probes), seedless=seedless(state),
        drafts=tuple(DisclosedDraft(round=one.round, untied=len(one.violations), findings=len(one.findings),
                               pages=one.pages, released=one.round == text) for one in _drafts(state)),
        limited=state.limited or "", cost=tuple(_cost(state)),
        lost_usd=round(sum(one.usd for one in state.lost.values()), 6), seconds_of_code=round(state.seconds_of_code, 1),
        seconds_of_run=round(state.active_seconds, 1),
        notes=tuple(DisclosedNote(after_decision=one.after, text=one.command.text) for one in state.notes),
        steering=tuple(_steering(state)), ablations=disclosed_ablations(state),
        unscored={node: failure.message for node, failure in state.unscored.items()},
        figures_left_out=dict(state.figures.left_out) if state.figures is not None else {},
        figures_refused={node.id: why for node in state.nodes.values() if (why := tuple(_refused(node)))},
        unanswered=tuple(state.unanswered.values()),
        human_nodes=disclosed_humans(state), ancestry=disclosed_ancestors(state),
        siblings=FORKED if state.ancestry else "")


def as_file(found: Disclosure) -> str:
    """The text of the file."""
    return found.model_dump_json(indent=1) + "\n"


def file_of(folder: RunFolder) -> str:
    """Its path in the run: each writing of the paper has its own."""
    name = "disclosure.json" if folder.version == 1 else f"disclosure-{folder.version}.json"
    return str((folder.review / name).relative_to(folder.root))


def at_release(events: Iterable[tuple[Event, float]]) -> RunState:
    """The state from which the last release was disclosed: all events before it."""
    every = list(events)
    last = max((at for at, (event, _) in enumerate(every) if isinstance(event, Released)), default=len(every))
    return fold(every[:last])


# --- parts ----------------------------------------------------------------------------------------------------------


def _counts(state: RunState) -> dict[str, int]:
    """What there is of everything that a reader would ask for first."""
    nodes = list(state.nodes.values())
    attempts = [attempt for node in nodes for attempt in node.attempts]
    by_status = {f"{status} nodes": sum(node.status == status for node in nodes)
                 for status in dict.fromkeys(node.status for node in nodes)}
    return {
        "nodes": len(nodes), **by_status, "suspect nodes": sum(bool(node.suspect) for node in nodes),
        "executions": len(attempts), "failed executions": sum(one.failure is not None for one in attempts),
        "retries": len(attempts) - sum(bool(node.attempts) for node in nodes),
        "plottings": sum(node.plots for node in nodes), "comparisons": len(state.compared),
        "nodes scored on test data": len(state.tests), "drafts": len({one.round for one in state.drafts}),
        "notes": len(state.notes)}


def _node(node: Node, state: RunState) -> DisclosedNode:
    return DisclosedNode(
        **node.model_dump(include={"id", "decision", "parent", "stage", "kind", "seed", "title", "plan", "varies",
                                   "source_sha256", "status", "reasons", "suspect"}),
        findings=node.findings, failure=_failure(node), verdict=node.verdict.analysis if node.verdict else "",
        checks=node.verdict.checks if node.verdict else (),
        attempts=tuple(DisclosedAttempt(
            **attempt.model_dump(include={"number", "limit", "alone", "resumed", "peak_host_bytes", "peak_gpu_bytes"}),
            seconds=round(attempt.seconds, 3), failure=_failure(attempt), arrays=len(attempt.arrays),
            sealed=len(attempt.sealed)) for attempt in node.attempts),
        figures=len(node.figures), validation=node.measurements, test=state.tests.get(node.id, ()))


def _failure(of: Node | Attempt) -> str:
    return f"{of.failure.kind}: {of.failure.message}" if of.failure is not None else ""


def _refused(node: Node) -> Iterator[str]:
    """Why the figures of a node were drawn again, or are not shown."""
    for plotting in node.plottings:
        if plotting.failure is not None:
            yield f"plotting {plotting.n}: {plotting.failure.message}"
        for review in plotting.reviews or ():
            if not review.readable:
                yield f"plotting {plotting.n}: {review.name}: {'; '.join(review.issues) or 'refused without a reason'}"


def _metrics(state: RunState) -> Iterator[DisclosedMetric]:
    primary = state.data_plan.primary.name if state.data_plan else ""
    seen: dict[tuple[str, str, str], list[tuple[str, Measurement]]] = {}
    for node in state.nodes.values():
        values = [one for attempt in node.attempts for one in attempt.measurements]
        for one in (*values, *state.tests.get(node.id, ())):
            seen.setdefault((one.name, one.dataset, one.split), []).append((node.id, one))
    for (name, dataset, split), values in sorted(seen.items()):
        yield DisclosedMetric(
            name=name, dataset=dataset, split=split, nodes=len({node for node, _ in values}), values=len(values),
            conditions=tuple(dict.fromkeys(one.condition for _, one in values)),
            grades=tuple(sorted({one.grade for _, one in values})),
            selects=name == primary and split == "validation")


def _stage(name: StageName, state: RunState) -> DisclosedStage:
    stage = state.stages[name]
    searched = [node for node in state.stage_nodes(name) if node.kind not in ("replicate", "aggregate")]
    return DisclosedStage(
        stage=name, best=stage.best, reasons=stage.reasons, tried=len(searched), ended=stage.ended or "",
        candidates=sum(node.status == "good" and not node.suspect for node in searched), limited=stage.limited or "",
        replicates=tuple(one.id for one in replicates_of(state, stage.best)) if stage.best else ())


def _steering(state: RunState) -> Iterator[DisclosedSteering]:
    """What had a bearing on the search; a pause and a stop have none."""
    for one in state.steered:
        verb = one.command.verb
        if verb in ("kill", "mark", "note"):
            yield DisclosedSteering(
                after_decision=one.after, verb=verb, reason=one.command.text,
                target=(one.stage or "") if verb == "note" else one.command.target,
                mark=one.command.mark if verb == "mark" else "")


def _drafts(state: RunState) -> Iterator[Drafted]:
    """Each round once: the last is recorded again when it is done."""
    yield from {one.round: one for one in state.drafts}.values()


def _cost(state: RunState) -> Iterator[DisclosedCost]:
    for role, one in sorted(state.usage.items()):
        if role != "judge":  # it comes after the paper; of an earlier writing it is not this paper's
            yield DisclosedCost.model_validate({
                **vars(one), "role": role, "cached_usd": round(one.cached_usd, 6), "usd": round(one.usd, 6),
                "seconds": round(one.seconds, 1)})
