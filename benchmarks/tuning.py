"""Which methods are called improved, in studies of known truth: simulated learners, otherwise the real program.

python -m benchmarks.tuning SET [--check] [--out FILE]        planted studies (benchmarks/planted_tuning/README.md)
python -m benchmarks.tuning --run RUN                         effort of every arm of a finished run

Prints one JSON object. Scheduler, policy, nodes, cell scheduling, record and claims are the real ones; a learner
replaces the kernel, and its test values the scores of sealed predictions. For reference, `untuned` is the result of
the same comparison with both arms at their defaults. Exits 1 if more than two of 30 under-tuned baselines, or fewer
than 24 of 30 true gains, are called improved (in proportion), or if the search of a study differs between one, two
and four slots.
"""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from pydantic import BaseModel

from benchmarks.cell_scheduling import answer_cell_role
from benchmarks.generated_runs import measure
from benchmarks.planted_tuning import HOME, PlantedStudy, read
from benchmarks.report import make_parser, print_report
from benchmarks.scripted_study import SlowModel, draw_plots, make_context
from labwright.models.backend import ModelRequest
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import (
    SIGNIFICANCE_LEVEL,
    adjust_p_values,
    compute_detectable_effect,
    compute_p_value,
    compute_test_claims,
    find_replicates,
    find_winner,
)
from labwright.record.event_log import read_state
from labwright.record.events.search_events import SealedTestScored
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import HyperparameterSetting, Measurement, Split
from labwright.record.schema.nodes import STAGES, Cell, Failure
from labwright.record.source_tree import WholeFile
from labwright.record.tuning_results import MAX_EQUAL_RATIO, collect_trial_results, compute_efforts, find_chosen
from labwright.record.zips import open_run_folder
from labwright.sandbox.job import CellResult, Job
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor

SEEDS = 8
SOURCE = {
    "experiment.py": "import lab\n\n\ndef run(cell):\n    return cell.setting\n\n\nlab.measure(run)\n",
    "arms/baseline.py": "# baseline\n",
    "arms/method.py": "# method\n",
    "plots.py": "# plots\n",
}
SETTINGS = SearchSettings(
    num_workers=2,
    lookahead=0,
    num_drafts=1,
    num_seeds=0,
    max_seeds=0,
    planned_ablations=0,
    order="ticket",
    window=4,
    preliminary=StageLimits(nodes=1),
    tuning=StageLimits(nodes=2),
    agenda=StageLimits(nodes=1, num_seeds=SEEDS),
    ablation=StageLimits(nodes=1, num_seeds=0),
)


def answer(request: ModelRequest) -> BaseModel:
    """Answer with a draft with both arms, or an improvement that changes no arm; otherwise as in other benchmarks."""
    if not isinstance(request.inputs, CodeInputs):
        return answer_cell_role(request, lambda _: "plots.py")
    added = ("without-part",) if request.inputs.kind == "ablate" else ()
    files = SOURCE | {"plots.py": f"# {request.inputs.kind}\n"}
    return Program(
        title="a program",
        plan="as planned",
        varies=request.inputs.kind,
        arms=added,
        files=tuple(WholeFile(path=path, text=text) for path, text in files.items()),
    )


def measure_cell(study: PlantedStudy, cell: Cell, setting: HyperparameterSetting, split: Split) -> Measurement | None:
    """Return the score of a cell; None if training diverges."""
    value = study.value(cell.arm, setting, seed=cell.seed, split=split, level=cell.level)
    name = study.plan.primary_metric.name
    return measure(value, cell, name=name, split=split) if math.isfinite(value) else None


def run_study(study: PlantedStudy, folder: Path, *, slots: int = 2, pace: float = 0.0) -> RunState:
    """Run the study from its first draft to its scored test values; cells take up to `pace` seconds, at random."""
    rng = Random(slots)

    def cell(job: Job, one: Cell) -> tuple[float, CellResult]:
        found = measure_cell(study, one, dict(job.cells[one].setting), "validation")
        lost = None if found else Failure(kind="diverged", message="a value was not finite")
        return pace * rng.random(), CellResult(
            seconds=1.0, failure=lost, cell=one, measurements=(found,) if found else ()
        )

    async def run() -> None:
        research = StageRunner(bench)
        for stage in STAGES:
            assert await research.run_stage(stage)

    executor = FakeExecutor(lambda job: (0.0, draw_plots(job)), slots=slots, cell=cell)
    settings = SETTINGS.model_copy(update={"num_workers": slots})
    bench = make_context(folder, SlowModel(answer, 0.0), executor, settings, plan=study.plan)
    asyncio.run(run())
    state = bench.state
    for node in find_replicates(state, find_winner(state) or ""):
        cells = [line.cell for line in node.attempts[-1].cells if line.outcome in ("measured", "taken over")]
        found = (measure_cell(study, one, state.search.find_setting(one.arm, one.trial), "test") for one in cells)
        bench.recorder.append(SealedTestScored(node=node.id, measurements=tuple(one for one in found if one)))
    return state


def describe_truth(study: PlantedStudy) -> dict[str, Any]:
    """Return the truth of a study, and whether its label is correct."""
    tuned, plan = study.best("method") - study.best("baseline"), study.plan
    method, baseline = (study.learner(arm).expected(plan.find_defaults(arm)) for arm in ("method", "baseline"))
    least = compute_detectable_effect(SEEDS, math.hypot(study.baseline.sd, study.method.sd), max(1, len(study.levels)))
    assert least is not None
    holds = (
        tuned >= 2 * least if study.label == "gain" else (-least <= tuned <= 0.1 * least and method - baseline > least)
    )
    return {
        "name": study.name,
        "label": study.label,
        "flaw": study.flaw,
        "gain_tuned": round(tuned, 5),
        "gain_at_defaults": round(method - baseline, 5),
        "detectable": round(least, 5),
        "untuned": decide_untuned(study),
        "label_holds": holds,
    }


def decide_untuned(study: PlantedStudy) -> str:
    """Return the verdict from eight paired seeds on test data with both arms at their defaults."""
    level = study.plan.level_names[0]
    values = {
        arm: [
            study.value(arm, study.plan.find_defaults(arm), seed=seed, split="test", level=level)
            for seed in range(1, SEEDS + 1)
        ]
        for arm in ("method", "baseline")
    }
    gains = [a - b for a, b in zip(values["method"], values["baseline"], strict=True)]
    return _call_difference(fmean(gains), compute_p_value(gains) if all(map(math.isfinite, gains)) else None)


def _call_difference(gain: float, p: float | None) -> str:
    """Return what a t test with this p says of a difference."""
    if p is None:
        return "unknown"
    return "not significant" if p > SIGNIFICANCE_LEVEL else "improved" if gain > 0 else "worsened"


def describe_result(study: PlantedStudy) -> dict[str, Any]:
    """Return the truth of a study, and the program's verdict."""
    with tempfile.TemporaryDirectory() as folder:
        state = run_study(study, Path(folder))
    found = [
        one
        for one in compute_differences(state, compute_test_claims(state))
        if one.name == study.plan.primary_metric.name and one.arm == "method"
    ]
    adjusted = adjust_p_values([compute_p_value(one.values) for one in found])
    words = [_call_difference(one.mean, p) for one, p in zip(found, adjusted, strict=True)]
    place = words.index("improved") if "improved" in words else 0
    called = found[place] if found else None
    return describe_truth(study) | {
        "called": words[place] if words else "unknown",
        "mean": round(called.mean, 5) if called else None,
        "efforts": compute_effort(state),
        "settings": {arm: one.setting for arm, one in find_chosen(state, find_winner(state) or "").items()},
    }


def is_same_by_slots(study: PlantedStudy) -> bool:
    """Return whether one, two and four slots make the same decisions, try the same settings and choose the same."""
    found: list[object] = []
    for slots in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            state = run_study(study, Path(folder), slots=slots, pace=0.005)
        found.append(
            (
                [one.action for one in state.decisions.values()],
                collect_trial_results(state),
                [
                    (node.id, node.kind, node.parent, node.status, node.trials, node.measurements)
                    for node in state.nodes.values()
                ],
                find_chosen(state, find_winner(state) or ""),
                compute_test_claims(state),
            )
        )
    return found[0] == found[1] == found[2]


def compute_effort(state: RunState) -> dict[str, Any]:
    """Return trials, versions and seconds by arm, and the largest-to-smallest ratio of trials and versions."""
    found = compute_efforts(state)
    counted = [one.evaluation_count for one in found]
    return {
        "arms": {
            one.arm: {"trials": one.trials, "versions": one.versions, "seconds": round(one.seconds, 1)} for one in found
        },
        "ratio": round(max(counted) / min(counted), 3) if counted and min(counted) else None,
        "limit": MAX_EQUAL_RATIO,
    }


def measure_studies(studies: Sequence[PlantedStudy]) -> dict[str, Any]:
    """Count how many studies of either label are called improved, and compare with the goals."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:  # a fork with threads may hang
        every = list(pool.map(describe_result, studies))
    improved = {
        label: sum(one["called"] == "improved" for one in every if one["label"] == label)
        for label in ("undertuned", "gain")
    }
    of = {label: sum(one["label"] == label for one in every) for label in improved}
    met = improved["undertuned"] <= of["undertuned"] * 2 / 30 and improved["gain"] >= of["gain"] * 24 / 30
    same = is_same_by_slots(studies[0])
    wrong = [one["untuned"] for one in every if one["label"] == "undertuned"].count("improved")
    return {
        "improved": improved,
        "of": of,
        "undertuned_improved_at_defaults": wrong,
        "same_by_slots": same,
        "goals_met": met and same,
        "studies": every,
    }


def main() -> int:
    """Run the benchmark described in the module docstring."""
    parser = make_parser(__doc__)
    parser.add_argument("studies", type=Path, nargs="?", default=HOME / "examples.tar.gz")
    parser.add_argument("--check", action="store_true", help="only check whether the labels are true")
    parser.add_argument("--run", type=Path, help="report on a finished run instead")
    given = parser.parse_args()
    if given.run is not None:
        found = compute_effort(read_state(open_run_folder(given.run)))
        good = found["ratio"] is None or found["ratio"] <= MAX_EQUAL_RATIO
    else:
        studies = read(given.studies)
        found = {"studies": [describe_truth(one) for one in studies]} if given.check else measure_studies(studies)
        good = all(one["label_holds"] for one in found["studies"]) and found.get("goals_met", True)
    print_report(found, given.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
