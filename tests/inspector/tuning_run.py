"""A run whose arms the program tuned, told by hand: a draft, three trials of each arm, a dimension that was widened,
the choice, five replicates and their test values. The baseline misses what was published of it."""

from __future__ import annotations

from collections.abc import Iterable

from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    PlanPrepared,
    SealedTestScored,
    StageWinnerChosen,
)
from labwright.record.schema.data_plan import Hyperparameter, HyperparameterSetting, PublishedAnchor, Trial, TuningPlan
from labwright.record.schema.decisions import ExpandTree, WidenDimension
from labwright.record.schema.nodes import Attempt, Cell, CellRun, NodeKind, StageName, TrainingCounts, format_node_id
from tests.inspector import sample_run
from tests.inspector.cell_run import make_cell_line, make_execution, make_key
from tests.inspector.sample_run import EventStory

SPACE = (
    Hyperparameter(name="learning_rate", kind="log", low=0.001, high=0.1, default=0.01, source="Adam's paper"),
    Hyperparameter(name="smoothing", kind="linear", low=0, high=0.5, default=0.1, source="usual", arms=("smooth",)),
)
PLAN = sample_run.PLAN.model_copy(
    update={
        "space": SPACE,
        "tuning": TuningPlan(budget=3),
        "anchors": (
            PublishedAnchor(
                arm="plain", dataset="digits", metric="log_loss", value=0.3, tolerance=0.05, source="Doe 2019, table 2"
            ),
        ),
    }
)


class TuningStory(EventStory):
    """Tells nodes that measure two arms cell by cell, on versions of their code."""

    def add_measured_node(
        self,
        stage: StageName,
        kind: NodeKind,
        parent: str | None,
        *cells: Cell,
        trials: Iterable[Trial] = (),
        values: Iterable[float | None],
        code: str = "a",
        seed: int = 1,
    ) -> str:
        """A node, with what its cells came to; the method's code is of this version."""
        self.k += 1
        node, runs = (
            format_node_id(self.k),
            [
                make_execution(one, value, seconds=2.0 + (one.arm == "smooth"), n=self.k)
                for one, value in zip(cells, values, strict=True)
            ],
        )
        runs = [
            run.model_copy(
                update={
                    "key": make_key(one) + str(self.k),
                    "training": TrainingCounts(steps=100, rows=3200 + 800 * (one.arm == "smooth")),
                }
            )
            for run, one in zip(runs, cells, strict=True)
        ]
        self.add(
            DecisionMade(
                k=self.k, action=ExpandTree(stage=stage, kind=kind, parent=parent, seed=seed, trials=tuple(trials))
            ),
            NodeProposed(node=node, decision=self.k, title="t", plan="p", varies="", source_sha256="0"),
            CellsRequired(
                node=node, cells=cells, keys=tuple(run.key for run in runs), code={"plain": "b", "smooth": code}
            ),
            *(CellExecuted(node=node, run=run) for run in runs),
            AttemptExecuted(node=node, attempt=_attempt(runs, kind)),
            NodeJudged(node=node, status="good"),
        )
        return node


def _attempt(runs: Iterable[CellRun], kind: NodeKind) -> Attempt:
    values = () if kind == "trial" else tuple(one for run in runs for one in run.measurements)
    return Attempt(number=1, seconds=9.0, measurements=values, cells=tuple(map(make_cell_line, runs)))


def make_cells(trials: dict[str, int], seed: int = 1) -> list[Cell]:
    return [Cell(dataset="digits", arm=arm, trial=trials.get(arm, 0), seed=seed) for arm in ("plain", "smooth")]


def make_trial(arm: str, number: int, **setting: float) -> Trial:
    found: HyperparameterSetting = {**setting}
    return Trial(arm=arm, number=number, setting=found)


def make_tuning_run(*, stale: bool = True) -> TuningStory:
    """The run; `stale`: whether the method's code was changed after it was tuned, which gave it one more look."""
    study = TuningStory()
    study.add_start()
    study.add(PlanPrepared(data_plan=PLAN, datasets=()))
    first = study.add_measured_node("preliminary", "draft", None, *make_cells({}), values=(0.6, 0.5))
    study.add(StageWinnerChosen(stage="preliminary", best=first, ended="limit"))
    plain = [make_trial("plain", n, learning_rate=rate) for n, rate in ((1, 0.02), (2, 0.005), (3, 0.05))]
    smooth = [
        make_trial("smooth", n, learning_rate=rate, smoothing=0.2) for n, rate in ((1, 0.02), (2, 0.004), (3, 0.0011))
    ]
    for batch, values in ((plain, (0.55, 0.7, 0.65)), (smooth, (0.45, None, 0.4))):
        study.add_measured_node(
            "tuning",
            "trial",
            first,
            *(Cell(dataset="digits", arm=one.arm, trial=one.number, seed=1) for one in batch),
            trials=batch,
            values=values,
        )
    study.k += 1
    study.add(
        DecisionMade(
            k=study.k,
            action=WidenDimension(stage="tuning", dimension="learning_rate", low=1e-4, high=0.1, arm="smooth"),
        )
    )
    best = study.add_measured_node(
        "tuning",
        "tune",
        first,
        *make_cells({"plain": 1, "smooth": 3}),
        trials=(plain[0], smooth[2]),
        values=(0.55, 0.4),
    )
    study.add(StageWinnerChosen(stage="tuning", best=best, ended="the arms are tuned"))
    if stale:
        best = study.add_measured_node(
            "agenda", "improve", best, *make_cells({"plain": 1, "smooth": 3}), values=(0.55, 0.3), code="c"
        )
        study.add(StageWinnerChosen(stage="agenda", best=best, ended="limit"))
    for seed in range(2, 7):
        noise = 0.001 * (seed % 3)
        copy = study.add_measured_node(
            "agenda" if stale else "tuning",
            "replicate",
            best,
            *make_cells({"plain": 1, "smooth": 3}, seed),
            values=(0.55 + noise, 0.3 + 2 * noise),
            code="c" if stale else "a",
            seed=seed,
        )
        study.add(
            SealedTestScored(
                node=copy,
                measurements=tuple(
                    one.model_copy(update={"split": "test"}) for one in study.state.nodes[copy].measurements
                ),
            )
        )
    return study
