"""A study of random erasing with three confirmatory arms at three levels, as measured after its lock."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.claims.formatting import format_claims, format_decisions, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.events import Event
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    ConfirmationLocked,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    PlanPrepared,
    SealedTestScored,
    StageWinnerChosen,
)
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    DatasetUse,
    Level,
    Measurement,
    MetricSpec,
    Split,
)
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.hypotheses import Effect, Hypothesis, RivalExplanation
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence
from labwright.stages.paper.figures import build_style, build_style_files
from labwright.stages.paper.hypothesis_figures import build_figure_data, build_figure_script
from labwright.stages.paper.latex import mark_recorded
from labwright.stages.paper.latex_sources import FigureFile, PaperParts, PaperTable
from labwright.stages.paper.result_tables import build_hypothesis_tables, build_result_tables
from labwright.stages.paper.template import load_template

HELPS = "erase-anywhere@a95 - none@a95"
PLAN = DataPlan(
    task="Classify images of clothing whose training copies carry a small bright mark that agrees with the label.",
    datasets=(DatasetUse(name="fashion", title="Fashion-MNIST"),),
    metrics=(
        MetricSpec(name="accuracy", higher_is_better=True, low=0.0, high=1.0),
        MetricSpec(name="log_loss", higher_is_better=False),
        MetricSpec(name="ece", title="calibration error", higher_is_better=False),
    ),
    arms=(
        Arm(name="none", title="no erasing", role="baseline"),
        Arm(name="erase-anywhere", title="random erasing", role="method"),
        Arm(name="erase-off-mark", title="erasing, mark spared", role="ablation"),
    ),
    levels=(
        Level(name="a10", title="10 % (chance)", value=0.1),
        Level(name="a80", title="80 %", value=0.8),
        Level(name="a95", title="95 %", value=0.95),
    ),
    factor="agreement of mark and label",
    expected_seconds=80.0,
    hypotheses=(
        Hypothesis(
            id="erasing-helps",
            title="Erasing helps",
            statement="At 95 % agreement, random erasing makes the network more accurate by at least three points.",
            effects=(Effect(estimand=HELPS, smallest=0.03),),
            reason="less would not be worth an augmentation",
            rival=RivalExplanation(
                statement="Erasing only regularises.",
                estimand="erase-anywhere@a95 - erase-off-mark@a95",
                ours="above zero",
                theirs="near zero",
            ),
            alternatives=(Effect(estimand="erase-anywhere@a80 - none@a80", smallest=0.03),),
        ),
        Hypothesis(
            id="by-hiding",
            title="By hiding the mark",
            statement="There is a gain at 95 % agreement, and erasing that spares the mark keeps less than half of it.",
            effects=(
                Effect(estimand=HELPS, smallest=0.03, claim="positive"),
                Effect(
                    estimand="0.5 * (erase-anywhere@a95 - none@a95) - (erase-off-mark@a95 - none@a95)", smallest=0.01
                ),
            ),
            reason="a point is enough to say that hiding carries most of it",
        ),
        Hypothesis(
            id="grows",
            title="The gain grows",
            statement="The gain of random erasing is larger at 95 % agreement than at chance.",
            effects=(
                Effect(
                    estimand="(erase-anywhere@a95 - none@a95) - (erase-anywhere@a10 - none@a10)",
                    smallest=0.02,
                    claim="positive",
                ),
            ),
            reason="two points are as much as the gain itself",
            confirmatory=False,
        ),
    ),
)
FACTS = (
    DatasetFacts(
        name="fashion",
        source="file",
        features=784,
        classes=10,
        sizes={"train": 9000, "dev": 1000, "validation": 2000, "test": 4000},
        fingerprint="ab" * 32,
        seed=3,
    ),
)
ACCURACIES = {
    "none": (0.864, 0.801, 0.676),
    "erase-anywhere": (0.863, 0.814, 0.703),
    "erase-off-mark": (0.862, 0.808, 0.689),
}
SEEDS = (1001, 1002, 1003, 1004, 1005)


def make_measurements(seed: int, split: Split) -> tuple[Measurement, ...]:
    """Return the values of one seed: arms share the seed's luck, so that their differences vary less."""
    rng = random.Random(f"{seed}/{split}")
    luck = [rng.gauss(0, 0.006) for _ in PLAN.levels]
    found: list[Measurement] = []
    for arm, means in ACCURACIES.items():
        for k, (level, mean) in enumerate(zip(PLAN.levels, means, strict=True)):
            accuracy = mean + luck[k] + rng.gauss(0, 0.004)
            log_loss = 1.2 - accuracy + (0.05 if arm == "none" and level.name == "a95" else 0.0)
            ece = 0.05 + (0.03 if arm != "none" else 0.0) + rng.gauss(0, 0.003)
            found += [
                Measurement(
                    name=name,
                    value=round(value, 5),
                    condition=f"{arm}@{level.name}",
                    dataset="fashion",
                    split=split,
                    seed=seed,
                    grade="scored",
                )
                for name, value in (("accuracy", accuracy), ("log_loss", log_loss), ("ece", ece))
            ]
    return tuple(found)


def make_state(plan: DataPlan = PLAN) -> RunState:
    """Return the record of the study, with test values of five fresh seeds."""
    log: list[Event] = [
        RunStarted(
            idea=Idea(Name="erase", Title="Erasing and shortcuts", Experiments=("e",)),
            settings={},
            seed=7,
            version="0.1.0",
            model="offline",
        ),
        PlanPrepared(data_plan=plan, datasets=FACTS),
    ]
    for k, seed in enumerate((12, *SEEDS), 1):
        action = ExpandTree(
            stage="preliminary", kind="draft" if k == 1 else "replicate", parent=None if k == 1 else "n0001", seed=seed
        )
        log += [
            DecisionMade(k=k, action=action),
            NodeProposed(node=f"n{k:04d}", decision=k, title="CNN", plan="p", varies="v", source_sha256="0" * 64),
            AttemptExecuted(
                node=f"n{k:04d}",
                attempt=Attempt(number=1, seconds=3.0, measurements=make_measurements(seed, "validation")),
            ),
            NodeJudged(node=f"n{k:04d}", status="good"),
        ]
        if k == 1:
            log.append(StageWinnerChosen(stage="preliminary", best="n0001", ended="a prototype ran"))
    log.append(ConfirmationLocked(plan="0", amendments=0, winner="n0001", source="0", n=len(SEEDS), seeds=SEEDS))
    log += [
        SealedTestScored(node=f"n{k:04d}", measurements=make_measurements(seed, "test"))
        for k, seed in enumerate(SEEDS, 2)
    ]
    return fold_events((event, float(at)) for at, event in enumerate(log))


def make_tables(run: RunState, plan: DataPlan = PLAN) -> tuple[PaperTable, ...]:
    """Return all tables of the study."""
    claims = compute_paper_claims(run)
    differences = compute_differences(run, claims)
    return (*build_hypothesis_tables(run), *build_result_tables(claims, plan, differences=differences))


def draw_figures(run: RunState, folder: Path, template: str) -> dict[str, str]:
    """Draw the program's figures in a folder, for the widths of a template, and return their captions."""
    assert run.search.data_plan is not None
    data = build_figure_data(run)
    script = build_figure_script(data, run.search.data_plan)
    assert script is not None
    (folder / "inputs").mkdir(parents=True)
    (folder / "inputs" / "decided.json").write_text(json.dumps(data))
    for name, text in build_style_files(build_style(load_template(template))).items():
        (folder / name).write_text(text)
    code = "\n".join((script.script, *(one.code for one in script.figures)))
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, timeout=600, check=True)
    return {one.name: mark_recorded(one.description) for one in script.figures}


TEXT = (
    "Random squares are often said to protect a network against shortcuts, and yet a square seldom hides a small cue. "
    "We plant a mark whose place agrees with the label in most training images and says nothing at test, and we ask "
    "how much of the lost accuracy the squares give back, and by which of two ways. "
) * 3


def make_parts(folder: Path, template: str, plan: DataPlan = PLAN) -> PaperParts:
    """Return a paper whose sections place every table and the lead figure inside running text."""
    run = make_state(plan)
    captions, tables = draw_figures(run, folder, template), make_tables(run, plan)
    claims = compute_paper_claims(run)
    floats = [r"\papertable{hypotheses}", r"\paperfigure{decided}"]
    floats += [rf"\papertable{{{one.name}}}" for one in tables[1:] if one.placement == "main"]
    sections = [Section(title=f"Part {'I' * k}", body=f"{TEXT}\n\n{one}\n\n{TEXT}") for k, one in enumerate(floats, 1)]
    return PaperParts(
        draft=PaperDraft(
            title="Erasing and Shortcuts", abstract="We ask.", sections=tuple(sections), captions=captions
        ),
        evidence=Evidence(
            results={
                **format_claims([*claims, *compute_differences(run, claims)], plan),
                **format_decisions(decide_hypotheses(run), plan),
            },
            setups=format_setups(run),
            figures=frozenset(captions),
            tables=frozenset(one.name for one in tables),
            captions=captions,
        ),
        figures=tuple(FigureFile(name=name, path=folder / "figures" / f"{name}.pdf") for name in captions),
        tables=tables,
        appendix="\\recordappendix\n\\section{Further tables}\n\n\\papertable{metrics}\n",
    )
