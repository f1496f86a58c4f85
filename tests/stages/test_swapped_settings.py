"""Every fresh seed measures compared arms at each other's tuned setting, and no verdict reads them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.scripted_study import PLAN, SlowModel, draw_plots, make_late_context, make_measurements
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims, find_ablation_conditions
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.setting_controls import find_open_settings
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    StageWinnerChosen,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import seal_source
from labwright.record.schema.data_plan import Hyperparameter, HyperparameterSetting, Measurement, Trial
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Attempt, Cell, Failure
from labwright.record.schema.paper import PaperDraft, Section
from labwright.sandbox.job import CellResult, Job
from labwright.search.replication import FRESH_SEED_OFFSET
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.paper.required_statements import complete_draft, list_required_statements
from labwright.stages.paper.result_tables import build_result_tables
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor
from tests.hypotheses import make_hypotheses
from tests.stages.test_cells import ENTRY, program

RATE = Hyperparameter(name="rate", kind="log", low=1e-4, high=1.0, default=0.01, source="practice")
WARMUP = Hyperparameter(name="warmup", kind="integer", low=1, high=9, default=3, source="practice", arms=("method",))
TUNED = PLAN.model_copy(
    update={
        "space": (RATE, WARMUP),
        "hypotheses": tuple(
            one.model_copy(update={"unit": "seeds"}) for one in make_hypotheses("method", "baseline", higher=False)
        ),
    }
)
PROGRAM = {
    "experiment.py": ENTRY.format("baseline", 0.1),
    "arms/baseline.py": "X = 1\n",
    "arms/method.py": "X = 2\n",
    "plots.py": "#\n",
}
SETTINGS: dict[str, HyperparameterSetting] = {"baseline": {"rate": 0.1}, "method": {"rate": 0.001, "warmup": 5}}


async def study(folder: Path, chosen: dict[str, HyperparameterSetting]) -> tuple[RunState, dict[str, object]]:
    """Five fresh seeds of a study whose arms were tuned to these settings, and the settings that conditions ran with.

    Each value is the rate, lower by about 0.01 for the method. The method at the setting of the
    baseline fails with one seed.
    """
    ran: dict[str, object] = {}

    def measure(cell: Cell, split: str, setting: HyperparameterSetting) -> Measurement:
        rate = setting["rate"]
        assert isinstance(rate, float)
        value = rate - (0.01 + 1e-4 * (cell.seed % 3)) * (cell.arm == "method")
        return Measurement.model_validate(
            {
                "name": "log_loss",
                "value": value,
                "condition": cell.condition,
                "dataset": "digits",
                "split": split,
                "seed": cell.seed,
                "grade": "computed",
            }
        )

    def run(job: Job, cell: Cell) -> tuple[float, CellResult]:
        setting = dict(job.cells[cell].setting)
        ran.setdefault(cell.condition, setting)
        if cell.condition == "method-at-baseline" and cell.seed == FRESH_SEED_OFFSET:
            return 0.0, CellResult(
                seconds=1.0, failure=Failure(kind="other", message="no step is small enough"), cell=cell
            )
        return 0.0, CellResult(seconds=1.0, cell=cell, measurements=(measure(cell, "validation", setting),))

    settings = SearchSettings(
        num_workers=1,
        lookahead=0,
        max_seeds=5,
        ladder=False,
        planned_ablations=0,
        agenda=StageLimits(nodes=1),
        ablation=StageLimits(nodes=1, num_seeds=0),
        preliminary=StageLimits(num_seeds=0),
        tuning=StageLimits(num_seeds=0),
    )
    executor = FakeExecutor(lambda job: (0.0, draw_plots(job)), slots=1, cell=run)
    context = make_late_context(folder, SlowModel(program, 0.0), executor, settings, plan=TUNED)
    log = context.recorder
    trials = tuple(Trial(arm=arm, number=number, setting=one) for number, (arm, one) in enumerate(chosen.items(), 1))
    log.append(DecisionMade(k=4, action=ExpandTree(stage="tuning", kind="tune", parent="n0001", seed=0, trials=trials)))
    sha256 = seal_source(context.folder.get_source_path("n0004"), PROGRAM)
    log.append(NodeProposed(node="n0004", decision=4, title="tuned", plan="p", varies="v", source_sha256=sha256))
    attempt = Attempt(number=1, seconds=1, measurements=make_measurements(0.55))
    log.append(AttemptExecuted(node="n0004", attempt=attempt))
    log.append(NodeJudged(node="n0004", status="good"))
    log.append(StageWinnerChosen(stage="tuning", best="n0004", ended="for the test"))
    research = StageRunner(context)
    assert await research.run_stage("agenda")
    assert await research.run_follow_ups("ablation")
    await research.close()
    return context.state, ran


async def test_each_fresh_seed_measures_both_arms_at_the_setting_of_the_other(tmp_path: Path) -> None:
    state, ran = await study(tmp_path, SETTINGS)
    assert ran == {
        "baseline": {"rate": 0.1},
        "method": {"rate": 0.001, "warmup": 5},
        "baseline-at-method": {"rate": 0.001},
        "method-at-baseline": {"rate": 0.1, "warmup": 5},
    }, "what the baseline lacks keeps the method's own value"
    fresh = [one for one in state.nodes.values() if one.kind == "replicate" and one.seed >= FRESH_SEED_OFFSET]
    assert len(fresh) == 5 and all(one.status == "good" for one in fresh), "a failed control costs no seed"
    assert [line.cell.condition for line in fresh[1].attempts[-1].cells] == [*ran]
    others = [one for one in state.nodes.values() if one not in fresh]
    assert not any(line.cell.setting_of for one in others for last in one.attempts for line in last.cells)
    assert [len(one.seeds) for one in state.search.looks] == [5], "and no look waits for it"


async def test_arms_with_one_setting_have_no_controls(tmp_path: Path) -> None:
    _, ran = await study(tmp_path, {"baseline": {"rate": 0.1}, "method": {"rate": 0.1, "warmup": 5}})
    assert [*ran] == ["baseline", "method"]


async def test_the_controls_are_exploratory_differences_and_rows_of_a_table(tmp_path: Path) -> None:
    state, _ = await study(tmp_path, SETTINGS)
    for node in state.nodes.values():
        if node.seed >= FRESH_SEED_OFFSET:
            tests = tuple(one.model_copy(update={"split": "test"}) for one in node.measurements)
            state.search.test_measurements[node.id] = tests
    claims = compute_paper_claims(state)
    found = {(one.condition, one.other): one for one in compute_differences(state, claims)}
    assert [*found] == [("method", "baseline"), ("baseline-at-method", "method"), ("method-at-baseline", "baseline")]
    at_one_setting = found["baseline-at-method", "method"]
    assert round(at_one_setting.mean, 3) == 0.01 and at_one_setting.basis_text.startswith("exploratory")
    assert found["method-at-baseline", "baseline"].n == 4
    conditions = find_ablation_conditions(state)
    assert conditions == ("baseline-at-method", "method-at-baseline")
    main, controls = build_result_tables(claims, TUNED, ablated=conditions, differences=[*found.values()])
    assert "Baseline with the settings of method &" in controls.tabular and "(control)" in controls.caption
    assert controls.tabular.count(r"\result{diff/") == 6, "difference, interval and n of each control"
    assert "control" not in main.tabular
    assert (main.placement, controls.placement, controls.name) == ("main", "appendix", "controls"), "they agree"
    assert find_open_settings(state, [*found.values()]) == ()
    turned = at_one_setting.model_copy(update={"mean": -0.01, "low": -0.02, "high": -0.005})
    others = [one for one in found.values() if one is not at_one_setting]
    main, controls, agreeing = build_result_tables(claims, TUNED, ablated=conditions, differences=[turned, *others])
    names = (controls.name, controls.placement, agreeing.name)
    assert names == ("ablation", "appendix", "controls"), "the text reports a single one"
    other = found["method-at-baseline", "baseline"]
    both = [turned, other.model_copy(update={"mean": 0.01, "low": 0.005, "high": 0.02})]
    differences = [*both, *(one for one in others if one is not other)]
    _, together = build_result_tables(claims, TUNED, ablated=conditions, differences=differences)
    assert (together.name, together.placement) == ("ablation", "main")
    assert together.variants == ("baseline with the settings of method", "method with the settings of baseline")
    [item] = [one for one in list_required_statements(state, [turned, *others]) if one.id.startswith("settings-")]
    assert item.keys == (turned.key,) and "so that the settings may explain it" in item.text
    alone = [one for one in list_required_statements(state, [found["method", "baseline"]]) if "settings" in one.id]
    assert [one.text.partition(" only")[0] for one in alone] == [
        r"We compared \setup{arm.baseline.title} and \setup{arm.method.title}"
    ], "without a control once for the pair"
    text = PaperDraft(title="T", abstract="A.", sections=(Section(title="Results", body="R."),))
    assert complete_draft(text, alone)[1] == text, "a section may say it in other words: its readers decide"
    assert alone[0].text in complete_draft(text, alone, alone)[1].sections[0].body
    [decision] = decide_hypotheses(state)
    assert decision.verdict == "supported" and len(decision.parts[0].values) == 5
