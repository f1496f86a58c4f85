"""`review/disclosure.json`: everything that was tried, looked at and chosen in a run, made from the record at release.

It is a function of the record up to the release, so that an audit can make it again; what comes later (the judgement
and what it costs) is not in it. Values with a step are not repeated here: each attempt's measurements.jsonl has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic_core import to_json

from labwright.record.ablation_results import ablation_results
from labwright.record.cells import CellStatus, CellTotals, all_cells, totals_of
from labwright.record.claims.decisions import decisions
from labwright.record.claims.means import replicates_of, seedless, winner
from labwright.record.effort import account_of, parity_of
from labwright.record.events import Event
from labwright.record.events.papers import Released
from labwright.record.fold.apply import fold
from labwright.record.fold.facts import Ancestor, RoleUsage, total_of
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.ladder import beaten_by, chosen_settings, first_rung, reference_claims
from labwright.record.nouns.data import Measurement
from labwright.record.nouns.decisions import Action
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES, Attempt, Node, StageName
from labwright.record.nouns.papers import JUDGING
from labwright.stages.paper.appendix import FORKED, LATE
from labwright.stages.paper.scope import CUT, misread

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
    "text": "of all drafts the one with the fewest passages not tied to the record, then with the fewest findings "
    "that stop a release, then with the fewest findings; of equals the latest",
}


def disclosure(state: RunState, *, isolation: str, text: int) -> str:
    """The text of the disclosure of a run that is about to be released, with the draft of round `text`.

    Seconds, bytes, USD and tokens, as the fields are named.
    """
    assert state.started is not None
    drafts = {one.round: one for one in state.drafts}  # the last is recorded again when it is done
    cells, first = all_cells(state), first_rung(state)
    primary = state.data_plan.primary.name if state.data_plan else ""
    return (
        to_json(
            {
                "form": 1,
                "run_version": state.started.version,
                "paper_version": state.version,
                "idea": state.started.idea,
                "seed": state.started.seed,
                "models": state.models,
                "isolation": state.isolations,
                "isolation_told": isolation,
                "machines": state.machines,
                "settings": state.started.settings,
                "overrides": state.overrides,
                "datasets": state.datasets,
                "scorers": state.scorers,
                "installed": state.installed,
                "untested": state.data_plan.not_tested if state.data_plan else (),
                "rules": RULES,
                "protocol": state.protocol,
                "prior_work": state.prior_work,
                "plan": state.plan_hash,
                "amendments": [one.model_dump(exclude={"data_plan"}) for one in state.amendments],
                "locks": [one for _, one in state.locks],
                "decided": decisions(state),
                "counts": _counts(state),
                "nodes": [
                    _node(node, state) | _cells(cells.get(node.id, ()), state.gpus) for node in state.nodes.values()
                ],
                **_all_cells(totals_of(state, cells), state.gpus),
                "metrics": list(_metrics(state, primary)),
                "decisions": [
                    {
                        "k": k,
                        "action": _action(one.action),
                        "seen_through": one.seen.through,
                        "seen_also": one.seen.also,
                    }
                    for k, one in state.decisions.items()
                ],
                "stages": [_stage(name, state) for name in STAGES],
                "reported": winner(state),
                "ladder": {
                    "settings": chosen_settings(state, first.id) if first is not None and first.finished else {},
                    "values": [claim for claim in reference_claims(state) if claim.name == primary],
                    "beats every arm on": [one.dataset for one in beaten_by(state)] if state.data_plan else [],
                },
                "comparisons": list(state.compared.values()),
                "probes": state.probes,
                "readings": state.readings,
                "seedless": seedless(state),
                "drafts": [
                    {
                        "round": one.round,
                        "untied": len(one.violations),
                        "findings": len(one.findings),
                        "pages": one.pages,
                        "released": one.round == text,
                        "cut": [line for line in one.edits if line.endswith(CUT)],
                        "claims too much": state.scoped[one.round].findings if one.round in state.scoped else (),
                        "misread": misread(state.scoped.get(one.round), decisions(state)),
                    }
                    for one in drafts.values()
                ],
                "limited": state.limited or "",
                "tuning": account_of(state),
                "parity": parity_of(state),
                # the judge comes after the paper; of an earlier writing it is not this paper's
                "subjects": state.subjects,
                "campaign": state.campaign,
                "cost": [_cost(role, used) for role, used in sorted(state.usage.items()) if role not in JUDGING],
                # set aside for calls that a kill cut off, or that failed with an open bill
                "lost_usd": round(sum((one.usd for one in state.lost.values()), 0.0), 6),
                "seconds_of_code": round(state.seconds_of_code, 1),
                "seconds_of_run": round(state.active_seconds, 1),
                "notes": [{"after_decision": one.after, "text": one.command.text} for one in state.notes],
                "ablations": _ablations(state),
                "unscored": {node: failure.message for node, failure in state.unscored.items()},
                "figures_left_out": state.figures.left_out if state.figures is not None else {},
                "steering": list(_steering(state)),
                "figures_refused": {node.id: why for node in state.nodes.values() if (why := list(_refused(node)))},
                "human_nodes": [
                    {"node": node.id, "author": node.author, "stage": node.stage, "kind": node.kind, "plan": node.plan}
                    for node in state.human_nodes
                ],
                "ancestry": [_ancestor(one) for one in state.ancestry],
                "unanswered": list(state.unanswered.values()),
                "siblings": FORKED if state.ancestry else "",
            },
            indent=1,
            by_alias=False,
        ).decode()
        + "\n"
    )


def file_of(folder: RunFolder) -> str:
    """Its path in the run: each writing of the paper has its own."""
    name = "disclosure.json" if folder.version == 1 else f"disclosure-{folder.version}.json"
    return str((folder.review / name).relative_to(folder.root))


def at_release(events: Iterable[tuple[Event, float]]) -> RunState:
    """The state from which the last release was disclosed: all events before it."""
    every = list(events)
    last = max((at for at, (event, _) in enumerate(every) if isinstance(event, Released)), default=len(every))
    return fold(every[:last])


def _action(action: Action) -> dict[str, object]:
    """What was decided, without what is not said of such a node."""
    few = [name for name in ("mends", "trials", "arm") if not getattr(action, name, "")]
    return action.model_dump(mode="json", exclude=set(few))


def _counts(state: RunState) -> dict[str, int]:
    """What there is of everything that a reader would ask for first."""
    nodes = list(state.nodes.values())
    attempts = [attempt for node in nodes for attempt in node.attempts]
    by_status = {
        f"{status} nodes": sum(node.status == status for node in nodes)
        for status in dict.fromkeys(node.status for node in nodes)
    }
    return {
        "nodes": len(nodes),
        **by_status,
        "suspect nodes": sum(bool(node.suspect) for node in nodes),
        "executions": len(attempts),
        "failed executions": sum(one.failure is not None for one in attempts),
        "retries": len(attempts) - sum(bool(node.attempts) for node in nodes),
        "plottings": sum(node.plots for node in nodes),
        "comparisons": len(state.compared),
        "nodes scored on test data": len(state.tests),
        "drafts": len({one.round for one in state.drafts}),
        "notes": len(state.notes),
    }


def _failure(of: Node | Attempt) -> str:
    return f"{of.failure.kind}: {of.failure.message}" if of.failure is not None else ""


def _refused(node: Node) -> Iterator[str]:
    for plotting in node.plottings:
        if plotting.failure is not None:
            yield f"plotting {plotting.n}: {plotting.failure.message}"
        for review in plotting.reviews or ():
            if not review.readable:
                yield f"plotting {plotting.n}: {review.name}: {'; '.join(review.issues) or 'refused without a reason'}"


def _node(node: Node, state: RunState) -> dict[str, object]:
    copied = (
        "id",
        "decision",
        "parent",
        "stage",
        "kind",
        "seed",
        "title",
        "plan",
        "varies",
        "source_sha256",
        "status",
        "reasons",
        "suspect",
        "findings",
    )
    return {
        **{name: getattr(node, name) for name in copied},
        "failure": _failure(node),
        "verdict": node.verdict.analysis if node.verdict else "",
        "checks": node.verdict.checks if node.verdict else (),
        "attempts": [
            {
                "number": one.number,
                "seconds": round(one.seconds, 3),
                "limit": one.limit,
                "alone": one.alone,
                "resumed": one.resumed,
                "failure": _failure(one),
                "peak_host_bytes": one.peak_host_bytes,
                "peak_gpu_bytes": one.peak_gpu_bytes,
                "arrays": len(one.arrays),
                "sealed": len(one.sealed),
            }
            for one in node.attempts
        ],
        "figures": len(node.figures),
        "validation": node.measurements,
        "test": state.tests.get(node.id, ()),
    }


def _all_cells(totals: CellTotals | None, gpus: int) -> dict[str, object]:
    """The cells of the run in numbers; nothing where no node owes any."""
    if totals is None:
        return {}
    hours = {"gpu_hours": round(totals.seconds * gpus / 3600, 4)} if gpus else {}
    return {"cells": totals.model_dump(exclude={"seconds_left"}) | hours}


def _cells(cells: Iterable[CellStatus], gpus: int) -> dict[str, object]:
    """What a node owed and what became of each, in that order; nothing for a program that does all at once."""
    found = [
        {
            **one.cell.model_dump(),
            "outcome": one.outcome,
            "diverged": one.diverged,
            "why": one.why,
            "execution": one.run.id if one.run is not None else "",
            "taken_from": one.node,
            "seconds": round(one.seconds, 3),
            **({"gpu_hours": round(one.seconds * gpus / 3600, 6)} if gpus else {}),
        }
        for one in cells
    ]
    return {"cells": found} if found else {}


def _metrics(state: RunState, primary: str) -> Iterator[dict[str, object]]:
    """Every metric as it was looked at; nodes were chosen by the primary one, on validation data."""
    seen: dict[tuple[str, str, str], list[tuple[str, Measurement]]] = {}
    for node in state.nodes.values():
        values = [one for attempt in node.attempts for one in attempt.measurements]
        for one in (*values, *state.tests.get(node.id, ())):
            seen.setdefault((one.name, one.dataset, one.split), []).append((node.id, one))
    for (name, dataset, split), values in sorted(seen.items()):
        yield {
            "name": name,
            "dataset": dataset,
            "split": split,
            "conditions": list(dict.fromkeys(one.condition for _, one in values)),
            "nodes": len({node for node, _ in values}),
            "values": len(values),
            "grades": sorted({one.grade for _, one in values}),
            "selects": name == primary and split == "validation",
        }


def _stage(name: StageName, state: RunState) -> dict[str, object]:
    stage = state.stages[name]
    searched = [node for node in state.stage_nodes(name) if node.kind in SEARCH_KINDS]
    return {
        "stage": name,
        "best": stage.best,
        "reasons": stage.reasons,
        "candidates": sum(node.status == "good" and not node.suspect for node in searched),
        "tried": len(searched),
        "ended": stage.ended or "",
        "limited": stage.limited or "",
        "replicates": [one.id for one in replicates_of(state, stage.best)] if stage.best else [],
    }


def _cost(role: str, used: RoleUsage) -> dict[str, object]:
    return {
        "role": role,
        "calls": used.calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_tokens": used.cached_tokens,
        "cache_write_tokens": used.cache_write_tokens,
        "cached_usd": round(used.cached_usd, 6),
        "usd": round(used.usd, 6),
        "unpriced": used.unpriced,
        "seconds": round(used.seconds, 1),
    }


def _ablations(state: RunState) -> dict[str, object] | None:
    planned, missed = state.planned, state.missed
    if planned is None and missed is None:
        return None
    return {
        "trials": ablation_results(state),
        "risks": planned.risks if planned is not None else (),
        "unplanned": planned.why if planned is not None else "",
        "missing": missed.why if missed is not None else "",
        "rule": LATE,
    }


def _steering(state: RunState) -> Iterator[dict[str, object]]:
    """What people asked of the search while it went on. A pause and a stop had no bearing on it."""
    for one in state.steered:
        verb = one.command.verb
        if verb in ("kill", "mark", "note"):
            yield {
                "after_decision": one.after,
                "verb": verb,
                "target": (one.stage or "") if verb == "note" else one.command.target,
                "mark": one.command.mark if verb == "mark" else "",
                "reason": one.command.text,
            }


def _ancestor(one: Ancestor) -> dict[str, object]:
    """A run that this one branched off. Costs are what was taken there up to the point, and count for no cap here."""
    event, used = one.event, total_of(one.usage.values())
    return {
        "run": event.parent,
        "point": event.point,
        "decision": one.decision,
        "nodes": one.nodes,
        "events": event.events,
        "sha256": event.sha256,
        "seed": event.seed,
        "settings_changed": list(event.settings),
        "note": event.note,
        "by": event.by,
        "beyond": event.beyond,
        "calls": used.calls,
        "tokens": used.input_tokens + used.output_tokens,
        "usd": round(used.usd, 6),
        "unpriced": used.unpriced,
        "seconds_of_code": round(one.seconds_of_code, 1),
        "seconds_of_run": round(one.active_seconds, 1),
    }
