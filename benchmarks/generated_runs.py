"""Generated runs for benchmarks of the record and of the web page: trees that grow node by node, and their events.

`measure` builds a measurement for all benchmarks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from labwright.record.event_log import EventLog
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    DecisionMade,
    NodeJudged,
    NodePlotted,
    NodeProposed,
    PlanPrepared,
    PlotsReviewed,
    StageSummarised,
    StageWinnerChosen,
)
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, EvidenceGrade, Measurement, MetricSpec, Split
from labwright.record.schema.decisions import CallKey, ExpandTree, TokenUsage, VisibleDecisions
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import (
    STAGES,
    Attempt,
    Cell,
    CellOutcomeLine,
    CellRun,
    NodeKind,
    NodeVerdict,
    StageName,
    StageSummary,
    format_node_id,
)
from labwright.record.schema.paper import Figure, FigureFacts, FigureReview

PLAN = DataPlan(
    task="classify",
    datasets=(DatasetUse(name="d"),),
    expected_seconds=1.0,
    metrics=(MetricSpec(name="log_loss", title="log loss", higher_is_better=False),),
    arms=(Arm(name="c0", role="baseline"), *(Arm(name=f"c{i}", role="method") for i in range(1, 4))),
)
PROGRAM = "x = 1  # a line of an experiment\n" * 120
"""About 4 kB of code, as in an answer of the role `code`."""


def measure(
    value: float,
    cell: Cell,
    *,
    name: str = "log_loss",
    split: Split = "validation",
    seed: int | None = None,
    grade: EvidenceGrade = "scored",
) -> Measurement:
    """Return the value of a cell."""
    return Measurement(
        name=name,
        value=value,
        condition=cell.condition,
        dataset=cell.dataset,
        split=split,
        seed=cell.seed if seed is None else seed,
        grade=grade,
    )


def make_cell_run(cell: Cell, key: str, value: float, name: str) -> CellRun:
    """Return the execution of a cell, which took a second; its id is `name`."""
    return CellRun(
        id=name,
        cell=cell,
        key=key,
        seconds=1.0,
        stdout_tail="epoch 1\n",
        measurements=(measure(value, cell),),
        sealed={"0.npy": "0" * 64},
    )


def list_cell_lines(runs: Iterable[CellRun]) -> tuple[CellOutcomeLine, ...]:
    """Return the lines of an attempt that measured these cells."""
    return tuple(CellOutcomeLine(cell=run.cell, outcome="measured", id=run.id, seconds=1.0) for run in runs)


def make_node_events(k: int, cells: int = 0) -> Iterator[Event]:
    """Yield the events of one good node: it measures so many cells, each executed separately, or else twelve values."""
    name = format_node_id(k)
    grid = [Cell(dataset="d", arm=f"c{n % 4}", level=f"l{n // 4}", seed=k) for n in range(cells)]
    runs = [make_cell_run(cell, f"{k:032x}{n:032x}", k + n / 7, f"{k:012x}{n:012x}-0") for n, cell in enumerate(grid)]
    yield DecisionMade(
        k=k,
        action=ExpandTree(stage="preliminary", kind="draft", parent=None, seed=k),
        seen=VisibleDecisions(through=k - 1),
    )
    yield _make_answer(
        k, "code", {"title": "t", "plan": "p" * 400, "files": [{"path": "experiment.py", "text": PROGRAM}]}
    )
    yield NodeProposed(node=name, decision=k, title="t", plan="p" * 400, varies=f"A={k}", source_sha256="0" * 64)
    yield from (CellExecuted(node=name, run=run) for run in runs)
    yield AttemptExecuted(
        node=name,
        attempt=Attempt(
            number=1,
            seconds=1.0,
            measurements=tuple(one for run in runs for one in run.measurements)
            or tuple(measure(0.1 * k + i, Cell(dataset="d", arm=f"c{i % 4}", seed=k)) for i in range(12)),
            cells=list_cell_lines(runs),
            arrays={"loss.npy": "0" * 64},
            stdout_tail="epoch 1\n" * 60,
        ),
    )
    figure = Figure(name="loss.png", sha256="0" * 64, facts=FigureFacts())
    yield NodePlotted(node=name, n=1, figures=(figure,), seconds=1.0)
    yield _make_answer(k, "vision", {"reviews": [{"name": "loss.png", "readable": True, "description": "d" * 200}]})
    yield PlotsReviewed(node=name, n=1, reviews=(FigureReview(name="loss.png", readable=True, description="d" * 200),))
    yield _make_answer(k, "feedback", {"sound": True, "analysis": "a" * 400})
    yield NodeJudged(node=name, status="good", verdict=NodeVerdict(sound=True, analysis="a" * 400))


def _make_answer(k: int, role: str, answer: dict[str, object]) -> CallAnswered:
    return CallAnswered(
        key=CallKey(decision=k, attempt=0, role=role, ordinal=0),
        request_sha256="0" * 64,
        model="m",
        answer=answer,
        usage=TokenUsage(input_tokens=3000, output_tokens=1000),
        seconds=5.0,
        asked="m at temperature 0.5",
    )


class GrowingRun:
    """A generated run: a tree over four stages that grows node by node. If it is `viewed`, nodes have 40 kB of files,
    and list the cells that they require."""

    def __init__(
        self, folder: Path, nodes: int, cells: int = 0, *, plan: DataPlan = PLAN, is_viewed: bool = True
    ) -> None:
        folder.mkdir(parents=True)
        self.folder, self.cells, self.is_viewed, self.count = folder, cells, is_viewed, 0
        self.log = EventLog(folder / "events.jsonl")
        self._a_stage = -(-nodes // len(STAGES))
        idea = Idea.model_validate({"Name": "n", "Title": "A run to be looked at", "Experiments": ["one"]})
        self.log.append(RunStarted(idea=idea, settings={}, seed=0, version="0", model="m"))
        self.log.append(PlanPrepared(data_plan=plan, datasets=()))
        for _ in range(nodes):
            self.add_node()

    def add_node(self) -> tuple[str, float]:
        """Add a complete node; return its id, and when its event was committed (since the epoch)."""
        self.count += 1
        k, name, shown = self.count, format_node_id(self.count), 0.0
        stage = STAGES[min((k - 1) // self._a_stage, len(STAGES) - 1)]
        first = STAGES.index(stage) * self._a_stage + 1
        if k == first and k > 1:
            self._append_stage_end(STAGES[STAGES.index(stage) - 1], format_node_id(k - 1))
        if self.is_viewed:
            self._write_files(name)
        events = list(make_node_events(k, self.cells))
        runs = [event.run for event in events if isinstance(event, CellExecuted)]
        for event in events:
            self.log.append(_place_in_tree(event, k, first, stage) if isinstance(event, DecisionMade) else event)
            shown = time.time() if isinstance(event, DecisionMade) else shown
            if isinstance(event, NodeProposed) and runs and self.is_viewed:
                cells, keys = tuple(run.cell for run in runs), tuple(run.key for run in runs)
                self.log.append(CellsRequired(node=name, cells=cells, keys=keys))
        return name, shown

    def _append_stage_end(self, stage: StageName, best: str) -> None:
        self.log.append(StageWinnerChosen(stage=stage, best=best, ended="limit"))
        summary = StageSummary(stage=stage, tried="t " * 200, found="f " * 200)
        self.log.append(StageSummarised(k=0, summary=summary))

    def _write_files(self, name: str) -> None:
        folder = self.folder / "nodes" / name
        for path, size in {
            "source/experiment.py": 4000,
            "source/plots.py": 2000,
            "attempt1/stdout.txt": 4000,
            "plots1/figures/loss.png": 30_000,
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(b"x = 1\n" * (size // 6))


def _place_in_tree(event: DecisionMade, k: int, first: int, stage: StageName) -> DecisionMade:
    """Give the decision a place in the tree: five drafts per stage, and children as in a search."""
    kinds: tuple[NodeKind, ...] = ("draft", "improve", "tune", "ablate")
    inner = k - first
    parent = (
        None if inner < 5 and stage == "preliminary" else format_node_id(first + (inner - 5) // 3 if inner >= 5 else 1)
    )
    kind = "draft" if parent is None else kinds[STAGES.index(stage)] if stage != "preliminary" else "improve"
    return DecisionMade(
        k=k, action=ExpandTree(stage=stage, kind=kind, parent=parent, seed=k), seen=VisibleDecisions(through=k - 1)
    )
