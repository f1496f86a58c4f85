"""A run in Python: its nodes, cells, measurements and claims as pandas frames (docs/python.md).

    from labwright import open_run
    run = open_run("runs/NAME")
    run.nodes.groupby("kind")["seconds"].sum()

It only reads, also while the run goes on; what came later is seen by opening the run again. `COLUMNS` says what every
column is, and in which unit. Not in the frames: values by step (each attempt's `measurements.jsonl`), code and prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pandas

from labwright.inspector.safe_text import to_plain
from labwright.inspector.timeline import Timeline
from labwright.inspector.tree import build_tree
from labwright.record.cell_status import CellStatus, compute_all_cells
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import Claim, compute_ablation_claims, compute_test_claims
from labwright.record.claims.hypothesis_tests import decide_hypotheses, find_deciding_nodes
from labwright.record.log_reader import read_events
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.record.zips import open_run_folder

FRAME_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "nodes": {
        "node": "id, in the order of decisions; the folder is `nodes/<id>`",
        "parent": "the node that it was made from; empty for a draft",
        "stage": "preliminary, tuning, agenda, ablation",
        "kind": "draft, debug, improve, trial, tune, ablate, replicate, aggregate, rung",
        "status": "proposed, running, good, buggy, pruned, cancelled",
        "seed": "that its code ran with",
        "title": "what it is, in the words of its author",
        "varies": "the hyperparameter, agenda item or ablated part that it tries",
        "value": "the primary metric on the first dataset, validation, mean over the method's conditions; in its unit",
        "best": "whether it is the best of its stage",
        "suspect": "whether its numbers are kept out of every claim",
        "attempts": "how often its code was run",
        "seconds": "s, wall clock of its code over all attempts",
        "judged": "s that the run had been worked on when the node was judged; empty before",
        "tokens": "of its model calls, prompts and answers",
        "usd": "USD of its model calls; 0 where the price is unknown",
        "error": "class of its failure, such as shape or timeout; empty where it works",
        "why": "the message of that failure",
    },
    "cells": {
        "node": "that owes the cell",
        "dataset": "its name in the plan",
        "arm": "its name in the plan",
        "level": "of the arm; empty where the study has none",
        "trial": "number of the setting of hyperparameters; 0: the arm's defaults",
        "share": "of the training steps or examples that were used, 0 to 1",
        "seed": "that the cell ran with",
        "outcome": "measured, taken over, failed, left out, waiting",
        "by": "the node that measured it, where it was taken over",
        "value": "the primary metric on validation; in its unit",
        "seconds": "s, wall clock of its execution, also where that was another node's",
        "host_bytes": "bytes, most resident memory; empty where it was not measured",
        "gpu_bytes": "bytes, most memory on its GPUs; empty without a GPU",
        "diverged": "whether it failed because a value was not finite",
        "why": "it failed, or was left out",
        "key": "sha256 of all that its code could reach",
    },
    "measurements": {
        "node": "that measured it",
        "metric": "its name in the plan, or the one that the code gave it",
        "value": "the final value, of no step",
        "unit": "of the value, as the plan says; empty for a plain number",
        "condition": "arm, or arm@level",
        "arm": "of the condition",
        "level": "of the condition; empty where it has none",
        "dataset": "its name in the plan",
        "split": "train, dev, validation; test once the search is over",
        "seed": "that the code ran with",
        "grade": "who computed it (docs/evidence.md): scored, evaluated, computed, judged, unattributed, logged",
    },
    "claims": {
        "key": "as the paper's sources name it; the same on both splits of a difference",
        "kind": "mean (over replicates), difference (paired by seed), hypothesis (one effect of it)",
        "metric": "of its values",
        "unit": "of the values, as the plan says; empty for a plain number",
        "dataset": "its name in the plan; empty for a hypothesis",
        "split": "validation, or test once the search is over",
        "condition": "whose value it is; the estimand of a hypothesis",
        "other": "the condition that is taken off, of a difference",
        "n": "values: seeds, or datasets where a hypothesis is about these",
        "mean": "in the unit",
        "sd": "in the unit, over the values; empty where they do not differ",
        "low": "lower end of the 95 % interval of the mean; of a hypothesis at the level that Holm's correction leaves",
        "high": "upper end of that interval",
        "p": "of a difference, corrected in its family; of a hypothesis, before correction; two-sided",
        "smallest": "smallest effect that matters, of a hypothesis; in the unit",
        "verdict": "improved, worsened, not significant, unknown; of a hypothesis supported, smaller, "
        "negligible, opposite, undecided",
        "confirmed": "whether a hypothesis was decided on test data and fresh seeds that were locked before",
        "grade": "the weakest of its measurements; empty for a hypothesis",
        "nodes": "replicates that it rests on, with a space between them",
    },
}
"""Frame -> column -> what it is. Times are in seconds, values in the unit of their metric."""
NUMBER_COLUMNS: Final = frozenset(
    {"value", "judged", "host_bytes", "gpu_bytes", "mean", "sd", "low", "high", "p", "smallest"}
)
"""Columns that may be empty and are numbers all the same."""


@dataclass(frozen=True)
class RunFrames:
    """A run that was read; each frame is made when it is first asked for."""

    state: RunState
    timeline: Timeline

    @cached_property
    def nodes(self) -> pandas.DataFrame:
        """One row a node."""
        return _build_frame("nodes", _node_rows(self.state, self.timeline))

    @cached_property
    def cells(self) -> pandas.DataFrame:
        """One row for each cell that a node owes; none for programs that do all at once."""
        found = compute_all_cells(self.state).items()
        return _build_frame("cells", (_cell_row(self.state, node, one) for node, every in found for one in every))

    @cached_property
    def measurements(self) -> pandas.DataFrame:
        """One row for each final value of a node's last attempt, and each of its test values once these are scored."""
        return _build_frame("measurements", _measurement_rows(self.state))

    @cached_property
    def claims(self) -> pandas.DataFrame:
        """What the record supports: the means and differences that a paper may print, and what was decided."""
        return _build_frame("claims", _claim_rows(self.state))


def open_run(path: str | Path) -> RunFrames:
    """The run in a folder or a zip, as far as it is now. Raises `RecordError` where there is none, `WrongUse` for a
    zip that cannot be opened."""
    state, timeline = RunState(), Timeline()
    for event, at in read_events(open_run_folder(Path(path)) / "run.db"):
        apply_event(state, event, at)
        timeline.add_event(event, state)
    return RunFrames(state, timeline)


def _build_frame(name: str, rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    columns = [*FRAME_COLUMNS[name]]
    frame: Any = pandas.DataFrame([*rows], columns=columns)
    return frame.astype({one: float for one in columns if one in NUMBER_COLUMNS})


def _node_rows(state: RunState, timeline: Timeline) -> Iterator[dict[str, Any]]:
    rows = sorted((row for stage in build_tree(state).stages for row in stage.nodes), key=lambda row: row.decision)
    for row in rows:
        calls, moment = state.settled_costs.get(row.decision), timeline.judged.get(row.id)
        known = {
            name: getattr(row, name) for name in ("stage", "kind", "status", "seed", "best", "attempts", "seconds")
        }
        yield (
            known
            | {name: to_plain(getattr(row, name)) for name in ("title", "varies", "why")}
            | {
                "node": row.id,
                "parent": row.parent or "",
                "value": row.metric,
                "suspect": bool(row.suspect),
                "error": row.failure or "",
                "judged": moment.seconds if moment else None,
                "tokens": calls.tokens if calls else 0,
                "usd": calls.usd if calls else 0.0,
            }
        )


def _cell_row(state: RunState, node: str, one: CellStatus) -> dict[str, Any]:
    primary = state.data_plan.primary_metric.name if state.data_plan else ""
    values = (
        value
        for value in (one.run.measurements if one.run else ())
        if value.name == primary and value.split == "validation"
    )
    return one.cell.model_dump() | {
        "node": node,
        "outcome": one.outcome,
        "by": one.node,
        "value": next((value.value for value in values), None),
        "seconds": one.seconds,
        "diverged": one.has_diverged,
        "why": to_plain(one.why),
        "key": one.key,
        "host_bytes": one.run.peak_host_bytes if one.run else None,
        "gpu_bytes": one.run.peak_gpu_bytes if one.run else None,
    }


def _measurement_rows(state: RunState) -> Iterator[dict[str, Any]]:
    units = _metric_units(state)
    for node in state.nodes.values():
        said = node.attempts[-1].self_reported if node.attempts else ()
        every: Iterable[Measurement] = chain(said, node.measurements, state.test_measurements.get(node.id, ()))
        for one in every:
            yield one.model_dump(exclude={"name", "step"}) | {
                "node": node.id,
                "metric": one.name,
                "unit": units.get(one.name, ""),
                "arm": one.arm,
                "level": one.level,
            }


def _metric_units(state: RunState) -> dict[str, str]:
    """Metric -> unit, of the plan."""
    return {metric.name: metric.unit for metric in state.data_plan.metrics} if state.data_plan else {}


# --- claims ---------------------------------------------------------------------------------------------------------


def _claim_rows(state: RunState) -> Iterator[dict[str, Any]]:
    units = _metric_units(state)
    means = [*compute_ablation_claims(state), *compute_test_claims(state)]
    for one in means:
        yield _claim_row(one, "mean", units)
    for one in compute_differences(state, means):
        yield _claim_row(one, "difference", units) | {
            "other": one.other,
            "p": one.p_adjusted,
            "verdict": ", ".join((one.significance, *one.caveats)),
        }
    nodes = [node.id for node in find_deciding_nodes(state)[0]]
    decided = {
        "kind": "hypothesis",
        "dataset": "",
        "other": "",
        "grade": "",
        "nodes": " ".join(nodes),
        "split": "test" if any(node in state.test_measurements for node in nodes) else "validation",
    }
    primary = state.data_plan.primary_metric.name if state.data_plan else ""
    for decision in decide_hypotheses(state):
        for number, part in enumerate(decision.parts):
            metric = part.effect.metric or primary
            yield (
                decided
                | _effect_row(decision, part)
                | {"key": f"{decision.key}/{number}", "metric": metric, "unit": units.get(metric, "")}
            )


def _claim_row(one: Claim, kind: str, units: Mapping[str, str]) -> dict[str, Any]:
    known = one.model_dump(include={"key", "dataset", "split", "condition", "mean", "sd", "low", "high", "grade"})
    return known | {
        "kind": kind,
        "metric": one.name,
        "unit": units.get(one.name, ""),
        "other": "",
        "n": one.n,
        "verdict": "",
        "confirmed": False,
        "nodes": " ".join(one.nodes),
    }


def _effect_row(decision: HypothesisDecision, part: EffectDecision) -> dict[str, Any]:
    return part.model_dump(include={"mean", "sd", "low", "high", "verdict"}) | {
        "condition": part.effect.estimand,
        "n": len(part.values),
        "p": decision.p,
        "smallest": part.effect.smallest,
        "confirmed": decision.confirmed,
    }
