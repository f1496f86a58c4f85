"""Limits of a single coordinator: a record of 1,000 nodes and 10^5 cells, decisions, its page, and cells per second.

python -m benchmarks.scale [--out FILE] [--nodes N ...] [--cells N] [--no-page] [--stages-only]

Prints one JSON object. Decisions are measured in each stage; cells per second are those that one process sends out,
receives and commits. Nothing is trained and no other machine is used: workers answer at once from a prepared
folder, so only the coordinator's own work is measured, which does not scale with machines. `record` and `stages`
are measured in a separate process for each size and stage. Settings of `stages` are drawn at random, so Optuna's
samplers do not matter.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from benchmarks.generated_runs import PLAN, GrowingRun, list_cell_lines, make_cell_run
from benchmarks.report import make_parser, print_report
from labwright.inspector.status import build_status
from labwright.record.event_log import EventLog, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    ConfirmationLocked,
    DecisionMade,
    LookTaken,
    NodeJudged,
    PlanPrepared,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.line_store import write_rows
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import collectable
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetUse,
    Hyperparameter,
    Level,
    MetricSpec,
    Trial,
    TuningPlan,
)
from labwright.record.schema.decisions import LOOK_TASKS, ExpandTree, VisibleDecisions
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import STAGES, Attempt, Cell, NodeKind, StageName, format_node_id
from labwright.sandbox.cell_scheduler import CellSchedule
from labwright.sandbox.job import CellTask, Job
from labwright.search.policy import BestFirstPolicy
from labwright.search.settings import SearchSettings, StageLimits
from labwright.search.stage_snapshot import build_snapshot
from labwright.stages.nodes.node_cells import reusable_cells

SIZES = (10, 100, 1000)
CELL_SIZES = ((400, 100), (1000, 100))
"""Nodes, and cells per node, for `stages`."""


# --- the record -------------------------------------------------------------------------------------------------------


def measure_record(folder: Path, nodes: int, cells: int) -> dict[str, Any]:
    """Write such a record; return events per second, bytes, and the time to open it, to decide and to view it."""
    levels = tuple(Level(name=f"l{n}") for n in range(-(-cells // 4)))
    plan = PLAN.model_copy(update={"factor": "level", "levels": levels})
    began = time.perf_counter()
    growing = GrowingRun(folder / "run", nodes, cells, plan=plan, is_viewed=False)
    with closing(growing.log) as log:
        wall = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        decided = [_time_decision(log, nodes) for _ in range(3)]
    path = folder / "run" / "events.jsonl"
    began = time.perf_counter()
    with closing(EventLog(path)):
        opened = time.perf_counter() - began
    state = read_state(folder / "run")
    began = time.perf_counter()
    build_status(str(folder), state, (), None, now=time.time(), folder=folder / "run")
    shown = time.perf_counter() - began
    events = nodes * (cells + 11) + 2
    return {
        "nodes": nodes,
        "cells": nodes * cells,
        "events": events,
        "events_a_second": round(events / wall),
        "bytes": path.stat().st_size,
        "bytes_a_cell": round(path.stat().st_size / (nodes * cells)),
        "open_seconds": round(opened, 2),
        "memory_mb": round(memory / 1e6),
        "decision_ms": round(1000 * min(decided), 1),
        "status_seconds": round(shown, 2),
    }


def _time_decision(log: EventLog, nodes: int) -> float:
    """Return the seconds of a decision: the snapshot and the policy's choice."""
    settings = SearchSettings(agenda=StageLimits(nodes=nodes + 1), ablation=StageLimits(nodes=nodes + 1))
    began = time.perf_counter()
    view = build_snapshot(log.state, "ablation", VisibleDecisions(through=log.state.last_decision), settings=settings)
    BestFirstPolicy(settings).pick(view, Random(0))
    return time.perf_counter() - began


def measure_records(folder: Path, sizes: list[int], cells: int) -> list[dict[str, Any]]:
    """Measure records of several sizes, each written in its own process and left in the folder."""
    return [_measure_apart(folder / str(nodes), nodes, cells) for nodes in sizes]


def _measure_apart(place: Path, nodes: int, cells: int, *options: str) -> dict[str, Any]:
    """Return what a process of its own measures (`--one`)."""
    place.mkdir()
    words = ["--one", str(place), "--nodes", str(nodes), "--cells", str(cells), *options]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", *words], stdout=subprocess.PIPE, text=True, check=True
    )
    print(ran.stdout, file=sys.stderr, flush=True)
    return json.loads(ran.stdout)


def measure_pages(folder: Path, sizes: list[int]) -> dict[str, Any]:
    """Measure the first paint of each in a browser, from a fresh server, and once more."""
    from benchmarks.inspector import measure_paint
    from tests.inspector.browser.chromium import chromium, running_viewer

    found: dict[str, Any] = {}
    with chromium() as browser:
        for nodes in sizes:
            with running_viewer(folder / str(nodes) / "run") as viewer:
                found[str(nodes)] = {
                    "first": measure_paint(browser, viewer.address),
                    "again": measure_paint(browser, viewer.address),
                }
    return found


# --- a decision in each stage -----------------------------------------------------------------------------------------

ARMS = ("plain", "c1", "c2", "c3")


def make_plan(nodes: int, cells: int) -> DataPlan:
    """Make a plan with four tuned arms and enough levels for so many cells per node."""
    return DataPlan(
        task="classify",
        datasets=(DatasetUse(name="d"),),
        expected_seconds=1.0,
        factor="level",
        levels=tuple(Level(name=f"l{n}") for n in range(cells // len(ARMS))),
        metrics=(MetricSpec(name="log_loss", title="log loss", higher_is_better=False),),
        arms=tuple(Arm(name=name, role="method" if n else "baseline") for n, name in enumerate(ARMS)),
        space=(Hyperparameter(name="lr", kind="log", low=1e-4, high=1.0, default=0.01, source="usual"),),
        tuning=TuningPlan(budget=4.0 * nodes, sampler="random"),
        hypotheses=(
            Hypothesis(
                id="h",
                statement="s",
                reason="r",
                unit="seeds",
                confirmatory=True,
                effects=(Effect(estimand="mean(c1 - plain, over=levels)", smallest=0.01),),
            ),
        ),
    )


def list_kinds(stage: StageName, nodes: int) -> Iterator[tuple[StageName, NodeKind, int]]:
    """Yield stage, kind and parent (0: none) of each node of a run that searches this stage with so many of them."""
    place = STAGES.index(stage)
    shares = ((1.0,), (0.05, 0.95), (0.05, 0.25, 0.7), (0.05, 0.15, 0.4, 0.4))[place]
    k, bests = 0, [0]
    for name, share in zip(STAGES, shares, strict=False):
        first = k + 1
        last = nodes if name == stage else k + max(2, round(share * nodes))
        while k < last:
            k += 1
            best = bests[-1]
            if name == "preliminary":
                yield name, "draft", 0
            elif name == "tuning":
                yield name, ("tune" if k == last and name != stage else "trial"), best
            elif name == "agenda":
                yield name, "improve", best
            else:
                yield (name, "ablate", best) if (k - first) % 2 else ("agenda", "replicate", best)
        bests.append(last if name == "tuning" else first)


def make_stage_events(stage: StageName, nodes: int, cells: int) -> Iterator[Event]:
    """Yield the events of such a run: each cell is executed separately, and earlier stages are finished."""
    plan, last, settings = make_plan(nodes, cells), "preliminary", 0
    yield RunStarted(
        idea=Idea.model_validate({"Name": "n", "Title": "t", "Experiments": ["one", "two"]}),
        settings={},
        seed=0,
        version="0",
        model="m",
    )
    yield PlanPrepared(data_plan=plan, datasets=())
    bests: dict[StageName, str] = {}
    k, fresh = 0, tuple(range(10_000, 10_000 + nodes))
    for k, (name, kind, parent) in enumerate(list_kinds(stage, nodes), 1):
        if STAGES.index(name) > STAGES.index(last) or (kind == "replicate" and "agenda" not in bests):
            best = bests[last] = format_node_id(parent)
            yield StageWinnerChosen(stage=last, best=best, ended="limit")
            if last == "agenda":
                yield ConfirmationLocked(
                    plan="0" * 64,
                    amendments=0,
                    winner=best,
                    source="0" * 64,
                    n=nodes,
                    seeds=fresh,
                    looks=(nodes // 10, nodes // 5, nodes),
                )
            last = name if kind != "replicate" else "ablation"
        trials: tuple[Trial, ...] = ()
        if kind == "trial":
            trials = tuple(
                Trial(arm=ARMS[k % 4], number=settings + n, setting={"lr": 0.01 + (settings + n) / 1e6})
                for n in range(1, 5)
            )
            settings += 4
        seed = 10_000 + k if kind == "replicate" else 0
        yield DecisionMade(
            k=k,
            seen=VisibleDecisions(through=k - 1),
            action=ExpandTree(
                stage=name,
                kind=kind,
                parent=format_node_id(parent) if parent else None,
                seed=seed,
                trials=trials,
                item="one" if kind == "improve" else f"risk {k}" if kind == "ablate" else "",
            ),
        )
        yield from make_measured_events(k, trials, plan, seed)
    for look, task in enumerate(LOOK_TASKS[:2] if "agenda" in bests else (), 1):
        yield DecisionMade(k=k + look, seen=VisibleDecisions(through=k + look - 1), action=task)
        yield LookTaken(look=look - 1, seeds=fresh[: nodes // 10 * look])
        yield TaskDone(k=k + look)


def make_measured_events(k: int, trials: tuple[Trial, ...], plan: DataPlan, seed: int) -> Iterator[Event]:
    """Yield a node's cells, their executions, and its verdict."""
    name, wanted = format_node_id(k), [(one.arm, one.number) for one in trials] or [(arm, 0) for arm in ARMS]
    grid = [
        Cell(dataset="d", arm=arm, level=level, trial=number, seed=seed)
        for level in plan.level_names
        for arm, number in wanted
    ]
    keys = [f"{k:032x}{n:032x}" for n in range(len(grid))]
    yield CellsRequired(
        node=name,
        cells=tuple(grid),
        keys=tuple(keys),
        code={arm: f"{0 if trials or arm == 'plain' else k:064x}" for arm in ARMS},
    )
    runs = [
        make_cell_run(cell, key, 1 + (k * 37 + n * 11) % 101 / 1000, f"{key[8:32]}-{n}")
        for n, (cell, key) in enumerate(zip(grid, keys, strict=True))
    ]
    yield from (CellExecuted(node=name, run=run) for run in runs)
    values = () if trials else tuple(one for run in runs for one in run.measurements)
    yield AttemptExecuted(
        node=name, attempt=Attempt(number=1, seconds=1.0, cells=list_cell_lines(runs), measurements=values)
    )
    yield NodeJudged(node=name, status="good")


def measure_stages(sizes: list[tuple[int, int]], folder: Path) -> list[dict[str, Any]]:
    """Measure a decision in each stage of such runs, each in its own process."""
    return [
        _measure_apart(folder / f"{stage}{nodes}", nodes, cells, "--stage", stage)
        for nodes, cells in sizes
        for stage in STAGES
    ]


def measure_stage(folder: Path, stage: StageName, nodes: int, cells: int) -> dict[str, Any]:
    """Measure a decision, the next one after another node, and the other work that a run does per node."""
    events = list(make_stage_events(stage, nodes, cells))
    state = RunState()
    for event in events:
        apply_event(state, event)
    gc.freeze()  # as a log does once it is read
    first = _time_cpu(lambda: _make_decision(state, stage, nodes))
    later: list[float] = []
    for _ in range(1 if first > 3 else 3):
        for event in _make_one_more(state, stage, cells):
            apply_event(state, event)
        later.append(_time_cpu(lambda: _make_decision(state, stage, nodes)))
    found: dict[str, Any] = {
        "stage": stage,
        "nodes": nodes,
        "cells": len(state.cells),
        "first_decision_ms": round(1000 * first, 1),
        "decision_ms": round(1000 * min(later), 1),
        "keeping_ms": round(1000 * _time_cpu(lambda: list(collectable(state, lambda _: ()))), 1),
        "owing_ms": round(1000 * _time_cpu(lambda: _plan_cells(state)), 1),
    }
    for name in ("first_status_ms", "status_ms"):
        found[name] = round(1000 * _time_cpu(lambda: build_status("r", state, (), None, now=0.0)), 1)
        for event in _make_one_more(state, stage, cells):
            apply_event(state, event)
    if stage == "ablation":
        write_rows(folder / "events.jsonl", "run", ((0.0, event.model_dump_json()) for event in events))
        found["open_seconds"] = round(_time_cpu(lambda: EventLog(folder / "events.jsonl").close()), 2)
        more = [
            event for k in range(nodes + 1, nodes + 11) for event in _make_node_events(k, "draft", "preliminary", cells)
        ]
        with closing(EventLog(folder / "events.jsonl")) as log:
            seconds = _time_cpu(lambda: [log.append(event) for event in more])
        found |= {"events": len(events), "events_a_second": round(len(more) / seconds)}
    return found | {"memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)}


def _make_one_more(state: RunState, stage: StageName, cells: int) -> Iterator[Event]:
    """Yield the events of one more node, of the kind that the stage makes."""
    last = next(node for node in reversed(state.nodes.values()) if node.stage == stage)
    yield from _make_node_events(state.last_decision + 1, last.kind, stage, cells, parent=last.parent)


def _make_node_events(
    k: int, kind: NodeKind, stage: StageName, cells: int, parent: str | None = None
) -> Iterator[Event]:
    trials = (
        tuple(Trial(arm="c1", number=10**6 + 4 * k + n, setting={"lr": 0.5 + (4 * k + n) / 1e6}) for n in range(4))
        if kind == "trial"
        else ()
    )
    yield DecisionMade(
        k=k,
        action=ExpandTree(stage=stage, kind=kind, parent=parent, seed=0, trials=trials),
        seen=VisibleDecisions(through=k - 1),
    )
    yield from make_measured_events(k, trials, make_plan(k, cells), 0)


def _plan_cells(state: RunState) -> None:
    """Determine which cells one more node would reuse."""
    bench: Any = SimpleNamespace(state=state, search=SearchSettings())
    reusable_cells(
        next(reversed(state.decisions.values())), next(reversed(state.required_cells.values())).keys, context=bench
    )


def _make_decision(state: RunState, stage: StageName, nodes: int) -> None:
    """Make a decision: the end of the first stage, one more node in the others."""
    most = StageLimits(nodes=2 * nodes)
    settings = SearchSettings(
        preliminary=most, tuning=most, agenda=most, ablation=most, num_drafts=2, planned_ablations=False
    )
    view, policy = (
        build_snapshot(state, stage, VisibleDecisions(through=state.last_decision), settings=settings),
        BestFirstPolicy(settings),
    )
    policy.pick(view, Random(0))
    assert view.best_node is not None  # the choice may be pending work of finished stages, before any search
    policy.next_search_node(view, Random(0))


def _time_cpu(work: Callable[[], object]) -> float:
    """Return CPU seconds, so that other load does not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


# --- the coordinator
# --------------------------------------------------------------------------------------------------


def measure_taking(counts: tuple[int, ...] = (100, 1000, 10_000)) -> dict[str, float]:
    """Return the milliseconds to find the next cell of a job with so many cells."""
    found: dict[str, float] = {}
    for count in counts:
        cells = tuple(Cell(dataset="d", arm=f"a{n % 4}", level=f"l{n}") for n in range(count))
        tasks = {cell: CellTask(expected_seconds=1.0) for cell in cells}
        schedule = CellSchedule(Job("job", Path(), {}, cells=tasks, timeout=1e9))
        began, times = time.perf_counter(), 5
        for _ in range(times):
            schedule.take_next("d")
        found[str(count)] = round(1000 * (time.perf_counter() - began) / times, 2)
    return found


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--cells", type=int, default=100, help="cells per node")
    parser.add_argument("--no-page", action="store_true")
    parser.add_argument("--stages-only", action="store_true", help="only the decisions in each stage")
    parser.add_argument("--one", type=Path, help="write one record into this folder, and report its cost")
    parser.add_argument("--stage", choices=STAGES, help="with --one: a run that searches this stage")
    args = parser.parse_args()
    size = args.nodes[0], args.cells
    if args.one is not None:
        made = measure_stage(args.one, args.stage, *size) if args.stage else measure_record(args.one, *size)
        print(json.dumps(made))
        return 0
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        found["stages"] = measure_stages(list(CELL_SIZES), Path(name))
        if args.stages_only:
            print_report(found, args.out)
            return 0
        found["taking_ms"] = measure_taking()
        found["record"] = measure_records(Path(name), args.nodes, args.cells)
        found["page"] = None if args.no_page else measure_pages(Path(name), args.nodes)
    print_report(found, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
