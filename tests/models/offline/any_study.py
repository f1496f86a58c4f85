"""Inputs for every role of any study of the catalogue, as the rest of the program would make them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from models.offline.coding import code, sound_draft
from models.offline.plotting import figures
from models.offline.study import Study, study_of_idea
from models.roles import (
    ArrayBrief,
    CatalogueEntry,
    ClaimLine,
    CodeInputs,
    Comparison,
    FiguresInputs,
    FinalFigure,
    ParentBrief,
    PlanInputs,
    Program,
    Reference,
    Statistic,
    WriteInputs,
)
from record.nouns.data import DataPlan, DatasetFacts
from record.nouns.idea import Idea
from record.nouns.nodes import Failure
from record.nouns.stages import NodeKind, StageName
from record.setups import constants_of
from review.evidence.violations import LITERALS, Evidence

Verdict = Literal["improved", "no measurable difference", "unknown"]
Called = Callable[[str, str, str], tuple[Verdict, bool]]
"""(dataset, metric, condition) -> what is called of it against its partner, and whether it is the better one."""


def _title(name: str) -> str:
    """As the sources of datasets have it, where a study's text leans on it."""
    return f"Arithmetic expressions with {name[-1]} operators" if name.startswith("arithmetic_") else ""


@dataclass(frozen=True)
class Case:
    """A study met through an idea."""

    idea: Idea

    @property
    def study(self) -> Study:
        return study_of_idea(self.idea)

    @property
    def plan(self) -> DataPlan:
        return self.study.plan

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(use.name for use in self.plan.datasets)

    def plan_inputs(self) -> PlanInputs:
        entries = tuple(CatalogueEntry(name=n, title=n, examples=500, features=8, classes=3) for n in self.names)
        metrics = ("accuracy", "macro_f1", "log_loss", "ece", "brier")
        return PlanInputs(idea=self.idea, catalogue=entries, metrics=metrics, node_seconds=60.0)

    def code_inputs(self, stage: StageName = "preliminary", kind: NodeKind = "draft", **changes: Any) -> CodeInputs:
        return CodeInputs(idea=self.idea, data_plan=self.plan, facts=(), stage=stage, kind=kind, goal="",
                          node_seconds=60.0, lab_reference="").model_copy(update=changes)

    def sound(self, ordinal: int = 0) -> Program:
        return sound_draft(self.study, self.code_inputs(ordinal=ordinal))

    def winner(self, ordinal: int = 0) -> Program:
        """A sound draft that took up every item of the idea, one after another."""
        program = self.sound(ordinal)
        for number, item in enumerate(self.idea.experiments):
            program = code(self.code_inputs("agenda", "improve", ordinal=4 * number, item=item, parent=brief(program)))
        return program

    def conditions(self, ablations: tuple[str, ...] = ()) -> tuple[str, ...]:
        levels = [level.name for level in self.plan.levels]
        more = (f"{arm}@{level}" for arm in ablations for level in levels) if levels else ablations
        return (*self.plan.conditions, *more)

    def statistics(self, ablations: tuple[str, ...] = ()) -> tuple[Statistic, ...]:
        return tuple(
            Statistic(key=f"test/{dataset}/{metric.name}/{condition}", name=metric.name, dataset=dataset,
                      condition=condition, mean=0.2 + 0.02 * k, sd=0.02, n=6, low=0.18 + 0.02 * k, high=0.22 + 0.02 * k)
            for dataset in self.names for metric in self.plan.metrics
            for k, condition in enumerate(self.conditions(ablations)))

    def figures_inputs(self, arrays: tuple[ArrayBrief, ...], ablations: tuple[str, ...] = ()) -> FiguresInputs:
        added = tuple(one for one in self.conditions(ablations) if one not in self.plan.conditions)
        return FiguresInputs(idea=self.idea, data_plan=self.plan, arrays=arrays, statistics=self.statistics(ablations),
                             example_plots="", ablations=added, lab_reference="")

    def write_inputs(self, called: Called, ablations: tuple[str, ...] = (), **changes: Any) -> WriteInputs:
        """Inputs of a writer where every comparison is called as `called` says."""
        comparisons = tuple(self._compared(called, ablations))
        winner = self.winner().experiment
        keys = [f"{s.key}.{form}" for s in self.statistics(ablations) for form in ("mean", "pm", "ci", "n")]
        keys += [f"{c.key}.{form}" for c in comparisons for form in ("mean", "ci")]
        setups = [f"code.{name}" for name in constants_of(winner)] + ["run.seeds"]
        setups += [f"level.{level.name}" for level in self.plan.levels if level.value is not None]
        setups += [f"data.{name}.{what}" for name in self.names
                   for what in ("train", "dev", "validation", "test", "features", "classes", "duplicates")]
        arrays = tuple(ArrayBrief(path=f"inputs/n1/{quantity}__x.npy", shape=(9, 3), dtype="float64")
                       for quantity in re.findall(r'lab\.save\(f"(\w+?)__', winner))
        return WriteInputs(
            idea=self.idea, data_plan=self.plan, facts=self.facts(), summaries=(), comparisons=comparisons,
            page_limit=4,
            results=tuple(ClaimLine(key=key, printed="0.123", meaning=key) for key in keys),
            setups=tuple(ClaimLine(key=key, printed="7", meaning=key) for key in setups),
            figures=tuple(FinalFigure(**one.model_dump(exclude={"code"}))
                          for one in figures(self.figures_inputs(arrays, ablations)).figures),
            tables=("main", "metrics", *(("ablation",) if ablations else ())), literals=LITERALS,
            references=tuple(Reference(key=key, title="T", authors="A", year="2000") for key in
                             ("merity2017revisiting", "kingma2015adam", "lake2018generalization")),
            winner_source=winner, disclosures=("Two replicates failed.",)).model_copy(update=changes)

    def facts(self) -> tuple[DatasetFacts, ...]:
        sizes = {"train": 90, "dev": 20, "validation": 40, "test": 40}
        return tuple(DatasetFacts(name=name, title=_title(name), source="generated", features=8, classes=3, sizes=sizes,
                                  duplicates=0, fingerprint="ab" * 32, seed=3) for name in self.names)

    def _compared(self, called: Called, ablations: tuple[str, ...]) -> list[Comparison]:
        roles = {arm.role: arm.name for arm in reversed(self.plan.arms)}
        pairs = [(roles["method"], roles["baseline"]), *((arm, roles["method"]) for arm in ablations)]
        suffixes = [f"@{level.name}" for level in self.plan.levels] or [""]
        found: list[Comparison] = []
        for dataset in self.names:
            for metric in self.plan.metrics:
                for a, b in ((f"{arm}{end}", f"{other}{end}") for end in suffixes for arm, other in pairs):
                    verdict, better = called(dataset, metric.name, a)
                    found.append(Comparison(
                        key=f"diff/{dataset}/{metric.name}/{a}~{b}", dataset=dataset, metric=metric.name,
                        better=a if better else b, worse=b if better else a, n=6, condition=a,
                        verdict="worsened" if verdict == "improved" and not better else verdict))
        return found


def brief(program: Program, failure: Failure | None = None, kind: NodeKind = "draft") -> ParentBrief:
    return ParentBrief(id="n1", kind=kind, plan=program.plan, experiment=program.experiment, plots=program.plots,
                       failure=failure)


def evidence(inputs: WriteInputs) -> Evidence:
    """What the binder holds a draft of these inputs to."""
    return Evidence(
        results={line.key: line.printed for line in inputs.results}, literals=inputs.literals,
        setups={line.key: line.printed for line in inputs.setups},
        cites=frozenset(one.key for one in inputs.references), figures=frozenset(one.name for one in inputs.figures),
        tables=frozenset(inputs.tables), comparisons=inputs.comparisons,
        names=tuple(level.title for level in inputs.data_plan.levels), plan=inputs.data_plan, facts=inputs.facts)
