"""Inputs for every role, as the rest of the program would make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labwright.models.offline.experiment_code import answer_code
from labwright.models.offline.study import load_study
from labwright.models.roles.experiment_code import CodeInputs, NodeBrief, Program
from labwright.models.roles.paper_writing import ClaimLine, ExploratoryComparison, Reference, WriteInputs
from labwright.models.roles.study_plan import PlanInputs
from labwright.record.claims.estimates import Claim
from labwright.record.result_macros import print_name
from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.idea import read_idea
from labwright.record.schema.nodes import Failure, Node, NodeKind, StageName
from labwright.record.schema.paper import FinalFigure
from labwright.review.evidence.violations import ALLOWED_LITERALS, Evidence
from labwright.sandbox.datasets import BundledDataset
from tests.models.examples import build_claim

REPOSITORY = Path(__file__).resolve().parents[3]
IDEA = read_idea(REPOSITORY / "examples" / "ideas" / "label_noise_calibration.json")
SIZES = (("digits", 64, 10), ("breast_cancer", 30, 2), ("wine", 13, 3))
METRICS = ("accuracy", "macro_f1", "log_loss", "ece", "brier")
KEYS = ("guo2017calibration", "muller2019when", "szegedy2016rethinking", "lukasik2020does", "kingma2015adam")

IsBetter = Callable[[str, str, str], bool]
"""(dataset, metric, condition) -> whether it is better than its partner."""


PLAN = load_study().plan


def make_plan_inputs(**changes: Any) -> PlanInputs:
    entries = tuple(BundledDataset(n, n, 500, f, c).build_facts(0) for n, f, c in SIZES)
    return PlanInputs(idea=IDEA, catalogue=entries, metrics=METRICS, node_seconds=60.0).model_copy(update=changes)


def make_code_inputs(stage: StageName = "preliminary", kind: NodeKind = "draft", **changes: Any) -> CodeInputs:
    return CodeInputs(
        idea=IDEA, data_plan=PLAN, facts=(), stage=stage, kind=kind, goal="", node_seconds=60.0, lab_reference=""
    ).model_copy(update=changes)


@dataclass(frozen=True)
class OfflineProgram:
    """A program with the files that it makes of its parent's."""

    program: Program
    files: dict[str, str]

    @property
    def experiment(self) -> str:
        return self.files["experiment.py"]

    @property
    def plots(self) -> str:
        return self.files["plots.py"]

    @property
    def varies(self) -> str:
        return self.program.varies


def write_program(inputs: CodeInputs) -> OfflineProgram:
    """What role `code` writes, applied to what it was shown."""
    program = answer_code(inputs)
    return OfflineProgram(program, program.apply_to(inputs.parent.files if inputs.parent else {}))


def make_brief(one: OfflineProgram, failure: Failure | None = None, kind: NodeKind = "draft") -> NodeBrief:
    node = Node(id="n1", decision=1, parent=None, stage="preliminary", kind=kind, seed=1)
    return NodeBrief(node=node.model_copy(update={"plan": one.program.plan, "failure": failure}), files=one.files)


def make_agenda_winner() -> OfflineProgram:
    """A sound draft that took up every agenda item, one after another."""
    one = write_program(make_code_inputs(ordinal=1))
    for ordinal, item in enumerate(IDEA.experiments):
        one = write_program(
            make_code_inputs("agenda", "improve", ordinal=4 * ordinal, item=item, parent=make_brief(one))
        )
    return one


def make_statistics(ablations: tuple[str, ...] = ()) -> tuple[Claim, ...]:
    conditions = (*PLAN.conditions, *(f"{arm}@{level.name}" for arm in ablations for level in PLAN.levels))
    return tuple(
        build_claim(f"test/{d}/{metric.name}/{c}", metric.name, d, c, mean=x, n=6, sd=0.02, low=x - 0.02, high=x + 0.02)
        for d, _, _ in SIZES
        for metric in PLAN.metrics
        for x, c in ((0.2 + 0.1 * k, c) for k, c in enumerate(conditions))
    )


def make_write_inputs(is_better: IsBetter, ablations: tuple[str, ...] = (), **changes: Any) -> WriteInputs:
    """Inputs of a writer where `is_better` says which side of each comparison is better."""
    comparisons = tuple(_make_comparisons(is_better, ablations))
    keys = [f"{s.key}.{form}" for s in make_statistics(ablations) for form in ("mean", "pm", "ci", "n")]
    setups = [f"code.{name}" for name in ("EPOCHS", "HIDDEN", "BATCH")]
    setups += [f"tuned.{arm}.{one.name}" for arm in PLAN.tuned_arms for one in PLAN.find_space(arm)]
    setups += [f"level.{level.name}" for level in PLAN.levels] + ["run.seeds"]
    setups += [
        f"data.{d}.{what}"
        for d, _, _ in SIZES
        for what in ("train", "dev", "validation", "test", "features", "classes", "duplicates")
    ]
    figures = ("primary-by-noise", "reliability-and-training", "ablation" if ablations else "ece-by-noise")
    return WriteInputs(
        idea=IDEA,
        data_plan=PLAN,
        facts=make_facts(),
        comparisons=comparisons,
        page_limit=4,
        results=tuple(ClaimLine(key=key, printed="0.123", meaning=key) for key in keys),
        setups=tuple(ClaimLine(key=key, printed="7", meaning=key) for key in setups),
        figures=tuple(FinalFigure(name=name, description=f"What {name} shows.") for name in figures),
        tables=("main", "metrics", *(("ablation",) if ablations else ())),
        literals=ALLOWED_LITERALS,
        references=tuple(Reference(key=key, title="T", authors="A", year="2000") for key in KEYS),
        winner_code={"experiment.py": make_agenda_winner().experiment},
        disclosures=("Some replicates failed.",),
    ).model_copy(update=changes)


def _make_comparisons(is_better: IsBetter, ablations: tuple[str, ...]) -> list[ExploratoryComparison]:
    found: list[ExploratoryComparison] = []
    pairs = [("method", "baseline"), *((arm, "method") for arm in ablations)]
    for dataset, _, _ in SIZES:
        for metric in PLAN.metrics:
            for level in PLAN.levels:
                for arm, other in pairs:
                    a, b = f"{arm}@{level.name}", f"{other}@{level.name}"
                    better = is_better(dataset, metric.name, a)
                    found.append(
                        ExploratoryComparison(
                            key=f"diff/{dataset}/{metric.name}/{a}~{b}",
                            worse=b if better else a,
                            forms={"mean": "0.123", "ci": "[0.1, 0.2]", "n": "6"},
                        )
                    )
    return found


def make_facts() -> tuple[DatasetFacts, ...]:
    sizes = {"train": 90, "dev": 20, "validation": 40, "test": 40}
    return tuple(
        DatasetFacts(
            name=n,
            source=f"sklearn:load_{n}",
            features=f,
            classes=c,
            sizes=sizes,
            duplicates=1,
            fingerprint="ab" * 32,
            seed=3,
        )
        for n, f, c in SIZES
    )


def make_evidence(inputs: WriteInputs) -> Evidence:
    """What the binder holds a draft of these inputs to."""
    return Evidence(
        results={key: print_name("0.123") for key in inputs.result_keys},
        literals=inputs.literals,
        setups={line.key: print_name(line.printed) for line in inputs.setups},
        cites=frozenset(one.key for one in inputs.references),
        figures=frozenset(one.name for one in inputs.figures),
        tables=frozenset(inputs.tables),
        replicates=frozenset({6}),
        names=tuple(level.title for level in inputs.data_plan.levels),
        plan=inputs.data_plan,
        facts=inputs.facts,
    )
