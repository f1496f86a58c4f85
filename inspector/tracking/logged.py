"""What trackers are handed of a run."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from labwright.inspector.files import LARGEST, bytes_of, curve_points, listed
from labwright.inspector.logs import node_of
from labwright.inspector.text import plain, short
from labwright.inspector.tree import tree_of
from labwright.record.fold.apply import apply
from labwright.record.fold.state import RunState
from labwright.record.nouns.nodes import Node
from labwright.record.reading import read_events

POINTS = 50_000
"""Points of a node's curves that are exported."""


class Logged(NamedTuple):
    """A node, or the whole run, as a tracker's run. Times are seconds since the epoch; `files` are paths in the run."""

    id: str
    name: str
    done: bool
    began: float
    ended: float
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    curves: tuple[tuple[str, int, float], ...]
    """Name, step and value of what the last attempt logged with a step."""
    files: tuple[str, ...]


class Record(NamedTuple):
    """All that is exported of a run."""

    folder: Path
    run: Logged
    nodes: tuple[Logged, ...]


class Sink(Protocol):
    """A tracker that takes a run node by node, each when it is finished, and what the run came to by now."""

    def node(self, one: Logged) -> None: ...
    def update(self, run: Logged, step: int) -> None:
        """The metrics of the whole run, at so many events."""
        ...

    def close(self, run: Logged) -> None: ...


Times = dict[str, list[float]]
"""Node -> when something happened to it; empty name: of no node."""


def record_of(folder: Path) -> Record:
    """The run of a folder. Raises `RecordError`."""
    state, times = RunState(), Times()
    for event, at in read_events(folder / "run.db"):
        apply(state, event, at)
        times.setdefault(node_of(event, state) or "", []).append(at)
    return Record(
        folder,
        run_logged(folder, state),
        tuple(node_logged(folder, state, node, times) for node in state.nodes.values()),
    )


def run_logged(folder: Path, state: RunState) -> Logged:
    """The whole run as it is now."""
    started, plan, tree = state.started, state.data_plan, tree_of(state)
    best = next((row.metric for stage in tree.stages for row in stage.nodes if row.id == tree.winner), None)
    params = {"model": plain(started.model), "seed": str(started.seed)} if started else {}
    if plan is not None:
        params |= {
            "primary_metric": plan.primary.name,
            "higher_is_better": str(plan.primary.higher_is_better),
            "datasets": ", ".join(dataset.name for dataset in plan.datasets),
        }
    paper = state.standing.released.pdf if state.standing else None
    return Logged(
        id=folder.name,
        name=short(started.idea.title, 120) if started else folder.name,
        done=state.ended is not None,
        began=state.started_at,
        ended=state.last_at,
        params=params,
        curves=(),
        tags={"scientist.run": folder.name, "scientist.kind": "run", "scientist.winner": tree.winner or ""},
        metrics={"model_calls": state.total.calls, "usd": state.total.usd, "nodes": len(state.nodes)}
        | ({"best": best} if best is not None else {}),
        files=tuple(file for file in (paper, "idea.json", "data_plan.json", "config.yaml") if file),
    )


def copy_files(run: Path, logged: Logged, place: Path) -> None:
    """Copy the files to a folder, so that no link among them is followed; those that cannot be opened are left out."""
    for path in logged.files:
        content = bytes_of(run, path, LARGEST)
        if content is not None:
            copy = place / path.removeprefix(f"nodes/{logged.id}/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)


def node_logged(folder: Path, state: RunState, node: Node, times: Times) -> Logged:
    """A node as it is now."""
    own = times.get(node.id, [state.last_at])
    tags = {
        "scientist.run": folder.name,
        "scientist.node": node.id,
        "scientist.kind": node.kind,
        "scientist.stage": node.stage,
        "scientist.status": node.status,
        "scientist.parent": node.parent or "",
        "scientist.suspect": short("; ".join(node.suspect), 400),
        "scientist.failure": short(f"{node.failure.kind}: {node.failure.message}", 400) if node.failure else "",
    }
    params = {
        "seed": str(node.seed),
        "varies": short(node.varies, 400),
        **{_key(name): short(str(value), 400) for name, value in node.setups.items()},
    }
    metrics = {
        _key(one.split, one.dataset, one.condition, one.name): one.value
        for one in (*node.measurements, *state.tests.get(node.id, ()))
    }
    last = node.attempts[-1] if node.attempts else None
    log = (
        bytes_of(folder, f"nodes/{node.id}/attempt{last.number}/measurements.jsonl", LARGEST)
        if (last is not None and last.curves_sha256)
        else None
    )
    files = [file.path for file in listed(folder, f"nodes/{node.id}/source")]
    if node.plottings:
        drawn = listed(folder, f"nodes/{node.id}/plots{node.plots}/figures")
        files += [file.path for file in drawn if file.path.endswith(".png")]
    return Logged(
        id=node.id,
        name=f"{node.id} {node.kind}: {short(node.varies or node.title, 80)}",
        done=node.finished,
        began=own[0],
        ended=own[-1],
        tags={name: text for name, text in tags.items() if text},
        params=params,
        metrics=metrics | {"seconds": sum(attempt.seconds for attempt in node.attempts)},
        curves=tuple(
            (f"curve/{_key(one.split, one.dataset, one.condition, one.name)}", one.step, one.value)
            for one in islice(curve_points((log or b"").splitlines()), POINTS)
        ),
        files=tuple(files),
    )


def _key(*parts: str | None) -> str:
    """A name with the letters that every tracker takes."""
    return "/".join(re.sub(r"[^A-Za-z0-9_. -]", "_", part or "all")[:60] for part in parts)[:240]
