"""A run in Python: its nodes, cells, measurements and claims as pandas data frames (docs/python.md).

    from labwright import open_run
    run = open_run("runs/NAME")
    run.nodes.groupby("kind")["seconds"].sum()

Reading never changes a run, and works while it is running; open it again to see later events. docs/python.md describes
every column and its unit. The frames do not include values by step (see each attempt's `measurements.jsonl`), code or
prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pandas

from labwright.inspector.safe_text import to_plain
from labwright.inspector.tree import build_tree
from labwright.record.cell_status import CellStatus, compute_all_cells
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import Claim, compute_ablation_claims, compute_test_claims
from labwright.record.claims.hypothesis_tests import decide_hypotheses, find_deciding_nodes
from labwright.record.event_log import read_events
from labwright.record.events.search_events import NodeJudged
from labwright.record.line_store import EVENTS_FILE
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.record.zips import open_run_folder

FRAME_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "nodes": "node parent stage kind status seed title varies value best suspect attempts seconds judged tokens "
    "usd error why".split(),
    "cells": "node dataset arm level trial share seed outcome by value seconds host_bytes gpu_bytes diverged why "
    "key".split(),
    "measurements": "node metric value unit condition arm level dataset split seed grade".split(),
    "claims": "key kind metric unit dataset split condition other n mean sd low high p smallest direction verdict "
    "confirmed grade nodes".split(),
}
"""Frame -> columns. docs/python.md describes each. Times are in seconds, values in the unit of their metric."""
NO_CLAIM: Final[dict[str, Any]] = dict.fromkeys(("dataset", "other", "grade", "direction", "verdict"), "")
"""Texts of a row of claims that may be empty."""
NUMBER_COLUMNS: Final = frozenset(
    {"value", "judged", "host_bytes", "gpu_bytes", "mean", "sd", "low", "high", "p", "smallest"}
)
"""Columns of numbers that may be empty."""


@dataclass(frozen=True)
class RunFrames:
    """A run that was read; frames are built on first access."""

    state: RunState
    judged: Mapping[str, float] = field(default_factory=dict[str, float])
    """Node -> seconds of work until its verdict."""

    @cached_property
    def nodes(self) -> pandas.DataFrame:
        """One row per node."""
        return _build_frame("nodes", _node_rows(self.state, self.judged))

    @cached_property
    def cells(self) -> pandas.DataFrame:
        """One row per required cell; empty for code that measures all conditions at once."""
        found = compute_all_cells(self.state).items()
        return _build_frame("cells", (_cell_row(self.state, node, one) for node, every in found for one in every))

    @cached_property
    def measurements(self) -> pandas.DataFrame:
        """One row per final value of a node's last attempt, and per test value after scoring."""
        return _build_frame("measurements", _measurement_rows(self.state))

    @cached_property
    def claims(self) -> pandas.DataFrame:
        """The means and differences that a paper may print, and the decisions on hypotheses."""
        return _build_frame("claims", _claim_rows(self.state))


def open_run(path: str | Path) -> RunFrames:
    """Read the current state of a run from its folder or zip. Raises `RecordError` if it is not a run, `UsageError` if
    the zip cannot be opened."""
    state, judged = RunState(), dict[str, float]()
    for event, at in read_events(open_run_folder(Path(path)) / EVENTS_FILE):
        apply_event(state, event, at)
        if isinstance(event, NodeJudged):
            judged[event.node] = state.active_seconds
    return RunFrames(state, judged)


def _build_frame(name: str, rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    columns = [*FRAME_COLUMNS[name]]
    frame: Any = pandas.DataFrame([*rows], columns=columns)
    return frame.astype({one: float for one in columns if one in NUMBER_COLUMNS})


def _node_rows(state: RunState, judged: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    for row in build_tree(state).rows:
        calls = state.calls.settled_costs.get(row.decision)
        known = row.model_dump(include={"stage", "kind", "status", "seed", "best", "attempts", "seconds"})
        texts = {name: to_plain(getattr(row, name)) for name in ("title", "varies", "why")}
        yield {
            **known,
            **texts,
            "node": row.id,
            "parent": row.parent or "",
            "value": row.metric,
            "suspect": bool(row.suspect),
            "error": row.failure or "",
            "judged": judged.get(row.id),
            "tokens": calls.tokens if calls else 0,
            "usd": calls.usd if calls else 0.0,
        }


def _cell_row(state: RunState, node: str, one: CellStatus) -> dict[str, Any]:
    primary = state.search.data_plan.primary_metric.name if state.search.data_plan else ""
    return one.cell.model_dump() | {
        "node": node,
        "outcome": one.outcome,
        "by": one.node,
        "value": one.find_value(primary),
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
        logged = node.attempts[-1].self_reported if node.attempts else ()
        every: Iterable[Measurement] = chain(logged, node.measurements, state.search.test_measurements.get(node.id, ()))
        for one in every:
            yield one.model_dump(exclude={"name", "step"}) | {
                "node": node.id,
                "metric": one.name,
                "unit": units.get(one.name, ""),
                "arm": one.arm,
                "level": one.level,
            }


def _metric_units(state: RunState) -> dict[str, str]:
    """Return metric -> unit from the plan."""
    return {metric.name: metric.unit for metric in state.search.data_plan.metrics} if state.search.data_plan else {}


# --- claims ---------------------------------------------------------------------------------------------------------


def _claim_rows(state: RunState) -> Iterator[dict[str, Any]]:
    units = _metric_units(state)
    means = [*compute_ablation_claims(state), *compute_test_claims(state)]
    for one in means:
        yield _claim_row(one, "mean", units)
    for one in compute_differences(state, means):
        yield _claim_row(one, "difference", units) | {"other": one.other, "verdict": one.basis_text}
    nodes = [node.id for node in find_deciding_nodes(state)[0]]
    split = "test" if any(node in state.search.test_measurements for node in nodes) else "validation"
    decided = NO_CLAIM | {"kind": "hypothesis", "nodes": " ".join(nodes), "split": split}
    primary = state.search.data_plan.primary_metric.name if state.search.data_plan else ""
    for decision in decide_hypotheses(state):
        for number, part in enumerate(decision.parts):
            metric = part.effect.metric or primary
            about = {"key": f"{decision.key}/{number}", "metric": metric, "unit": units.get(metric, "")}
            yield decided | _effect_row(decision, part) | about


def _claim_row(one: Claim, kind: str, units: Mapping[str, str]) -> dict[str, Any]:
    known = one.model_dump(include={"key", "dataset", "split", "condition", "mean", "sd", "low", "high", "grade"})
    about = {"kind": kind, "metric": one.name, "unit": units.get(one.name, "")}
    return NO_CLAIM | known | about | {"confirmed": False, "n": one.n, "nodes": " ".join(one.nodes)}


def _effect_row(decision: HypothesisDecision, part: EffectDecision) -> dict[str, Any]:
    return part.model_dump(include={"mean", "sd", "low", "high", "direction", "verdict"}) | {
        "condition": part.effect.estimand,
        "n": len(part.values),
        "p": decision.p,
        "smallest": part.effect.smallest,
        "confirmed": decision.confirmed,
    }
