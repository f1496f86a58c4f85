"""A run whose arms the program tuned, told by hand: a draft, three trials of each arm, a dimension that was widened,
the choice, five replicates and their test values. The baseline misses what was published of it."""

from __future__ import annotations

from collections.abc import Iterable

from labwright.record.events.searching import (
    CellExecuted,
    CellsOwed,
    Decided,
    Executed,
    Judged,
    Prepared,
    Proposed,
    Settled,
    Unsealed,
)
from labwright.record.nouns.cells import Cell, Training
from labwright.record.nouns.decisions import Expand, Extend
from labwright.record.nouns.nodes import Attempt, CellRun, NodeKind, StageName, node_id
from labwright.record.nouns.tuning import Anchor, Hyperparameter, Setting, Trial, Tuning
from tests.inspector import story as told_by_hand
from tests.inspector.celled import key_of, line, ran
from tests.inspector.story import Story

SPACE = (
    Hyperparameter(name="learning_rate", kind="log", low=0.001, high=0.1, default=0.01, source="Adam's paper"),
    Hyperparameter(name="smoothing", kind="linear", low=0, high=0.5, default=0.1, source="usual", arms=("smooth",)),
)
PLAN = told_by_hand.PLAN.model_copy(
    update={
        "space": SPACE,
        "tuning": Tuning(budget=3),
        "anchors": (
            Anchor(
                arm="plain", dataset="digits", metric="log_loss", value=0.3, tolerance=0.05, source="Doe 2019, table 2"
            ),
        ),
    }
)


class Study(Story):
    """Tells nodes that measure two arms cell by cell, on versions of their code."""

    def node(
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
            node_id(self.k),
            [
                ran(one, value, seconds=2.0 + (one.arm == "smooth"), n=self.k)
                for one, value in zip(cells, values, strict=True)
            ],
        )
        runs = [
            run.model_copy(
                update={
                    "key": key_of(one) + str(self.k),
                    "training": Training(steps=100, rows=3200 + 800 * (one.arm == "smooth")),
                }
            )
            for run, one in zip(runs, cells, strict=True)
        ]
        self.tell(
            Decided(k=self.k, action=Expand(stage=stage, kind=kind, parent=parent, seed=seed, trials=tuple(trials))),
            Proposed(node=node, decision=self.k, title="t", plan="p", varies="", source_sha256="0"),
            CellsOwed(node=node, cells=cells, keys=tuple(run.key for run in runs), code={"plain": "b", "smooth": code}),
            *(CellExecuted(node=node, run=run) for run in runs),
            Executed(node=node, attempt=_attempt(runs, kind)),
            Judged(node=node, status="good"),
        )
        return node


def _attempt(runs: Iterable[CellRun], kind: NodeKind) -> Attempt:
    values = () if kind == "trial" else tuple(one for run in runs for one in run.measurements)
    return Attempt(number=1, seconds=9.0, measurements=values, cells=tuple(map(line, runs)))


def cells(trials: dict[str, int], seed: int = 1) -> list[Cell]:
    return [Cell(dataset="digits", arm=arm, trial=trials.get(arm, 0), seed=seed) for arm in ("plain", "smooth")]


def trial(arm: str, number: int, **setting: float) -> Trial:
    found: Setting = {**setting}
    return Trial(arm=arm, number=number, setting=found)


def tuned(*, stale: bool = True) -> Study:
    """The run; `stale`: whether the method's code was changed after it was tuned, which gave it one more look."""
    study = Study()
    study.begin()
    study.tell(Prepared(data_plan=PLAN, datasets=()))
    first = study.node("preliminary", "draft", None, *cells({}), values=(0.6, 0.5))
    study.tell(Settled(stage="preliminary", best=first, ended="limit"))
    plain = [trial("plain", n, learning_rate=rate) for n, rate in ((1, 0.02), (2, 0.005), (3, 0.05))]
    smooth = [trial("smooth", n, learning_rate=rate, smoothing=0.2) for n, rate in ((1, 0.02), (2, 0.004), (3, 0.0011))]
    for batch, values in ((plain, (0.55, 0.7, 0.65)), (smooth, (0.45, None, 0.4))):
        study.node(
            "tuning",
            "trial",
            first,
            *(Cell(dataset="digits", arm=one.arm, trial=one.number, seed=1) for one in batch),
            trials=batch,
            values=values,
        )
    study.k += 1
    study.tell(
        Decided(k=study.k, action=Extend(stage="tuning", dimension="learning_rate", low=1e-4, high=0.1, arm="smooth"))
    )
    best = study.node(
        "tuning", "tune", first, *cells({"plain": 1, "smooth": 3}), trials=(plain[0], smooth[2]), values=(0.55, 0.4)
    )
    study.tell(Settled(stage="tuning", best=best, ended="the arms are tuned"))
    if stale:
        best = study.node("agenda", "improve", best, *cells({"plain": 1, "smooth": 3}), values=(0.55, 0.3), code="c")
        study.tell(Settled(stage="agenda", best=best, ended="limit"))
    for seed in range(2, 7):
        noise = 0.001 * (seed % 3)
        copy = study.node(
            "agenda" if stale else "tuning",
            "replicate",
            best,
            *cells({"plain": 1, "smooth": 3}, seed),
            values=(0.55 + noise, 0.3 + 2 * noise),
            code="c" if stale else "a",
            seed=seed,
        )
        study.tell(
            Unsealed(
                node=copy,
                measurements=tuple(
                    one.model_copy(update={"split": "test"}) for one in study.state.nodes[copy].measurements
                ),
            )
        )
    return study
