"""What the hours of a run can decide, and what is removed from a design that does not fit them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from labwright.record.estimands import find_hypothesis_faults
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Hyperparameter, Level, MetricSpec, TuningPlan
from labwright.record.schema.hypotheses import Effect, Hypothesis, RivalExplanation
from labwright.record.schema.nodes import Attempt, Cell, CellOutcomeLine, Node
from labwright.search.design_forecast import (
    MIN_TRIALS,
    CellTimes,
    DesignForecast,
    forecast_design,
    list_main_cells,
    read_cell_times,
    reduce_design,
)
from labwright.search.settings import SearchSettings

GAIN = "method@a95 - plain@a95"
PLAN = DataPlan(
    task="t",
    datasets=(DatasetUse(name="fashion"), DatasetUse(name="digits")),
    metrics=(MetricSpec(name="accuracy", higher_is_better=True, low=0.0, high=1.0),),
    arms=(Arm(name="plain", role="baseline"), Arm(name="method", role="method"), Arm(name="spared", role="ablation")),
    levels=tuple(Level(name=f"a{rate}", value=rate / 100) for rate in (10, 80, 95)),
    factor="agreement",
    expected_seconds=120.0,
    space=(Hyperparameter(name="lr", kind="log", low=1e-4, high=1e-1, default=1e-3, source="common"),),
    tuning=TuningPlan(budget=24, levels=("a95",)),
    hypotheses=(
        Hypothesis(
            id="gain",
            statement="Erasing helps",
            reason="less would not be worth it",
            effects=(Effect(estimand=GAIN, smallest=0.03),),
            alternatives=(Effect(estimand=GAIN.replace("a95", "a80"), smallest=0.03),),
            rival=RivalExplanation(
                statement="s", estimand="spared@a95 - plain@a95", ours="near zero", theirs="above zero"
            ),
        ),
        Hypothesis(
            id="grows",
            statement="The gain grows.",
            reason="the same",
            effects=(Effect(estimand=f"({GAIN}) - (method@a10 - plain@a10)", smallest=0.03),),
            confirmatory=False,
        ),
    ),
)
MEASURED = CellTimes({("fashion", f"{arm}@a95"): 20.0 for arm in ("plain", "method", "spared")}, 10.0)


def forecast(
    *,
    seconds: float = 4500.0,
    max_seeds: int = 100,
    test: int = 0,
    spreads: Mapping[tuple[str, str], float] | None = None,
) -> DesignForecast:
    settings, sizes = SearchSettings(max_seeds=max_seeds), {"fashion": {"test": test}}
    return forecast_design(PLAN, MEASURED, settings, seconds, sizes=sizes, spreads=spreads)


def test_hours_are_divided_by_the_slot_seconds_of_one_seed() -> None:
    found = forecast()
    known, other = 3 * 3 * 20.0, 3 * 3 * 10.0  # other levels of an arm take as long as its own; digits was not measured
    swapped = 2 * 20.0  # plain and method at each other's setting
    assert (found.cells, found.deciding, found.seed_seconds) == (18 + 2, 3, known + other + swapped)
    assert found.most_seeds == 9000 // found.seed_seconds
    assert found.share_seeds == 5400 // found.seed_seconds
    assert (
        f"2 slots, 75 min, {found.seed_seconds:g} slot-seconds a seed of all {found.cells} cells, of which"
        in found.lines[0]
    )
    assert "(measured)" in found.lines[0]
    assert forecast(max_seeds=3).lines[0].endswith("; search.max_seeds allows 3")
    assert "max_seeds" not in forecast().lines[0]


def test_the_half_width_has_a_floor_that_seeds_do_not_lower() -> None:
    spread, test = {("gain", GAIN): 0.01}, 24010  # a floor of 0.004
    widths = [
        effect.half_width
        for hours in (1, 10, 1000)
        for effect in forecast(seconds=hours * 3600.0, spreads=spread, test=test, max_seeds=10_000).effects
    ]
    assert widths == sorted((one for one in widths if one is not None), reverse=True)
    assert widths[-1] == pytest.approx(0.004, rel=0.01)
    [known] = forecast(spreads=spread, test=test).effects
    assert known.planned is not None and known.equivalent is not None
    assert f"if the truth is 0.06, {known.planned} seeds support the claim with probability 0.8" in str(known)
    assert "a true zero is then called equivalent with probability" in str(known)
    [unknown] = forecast(test=4000).effects
    assert unknown.half_width is None and unknown.floor == pytest.approx(1.96 * (0.1 / 4000) ** 0.5)
    assert "half-width unknown; the test examples leave 0.0098 of it" in str(unknown)
    assert "tenth of the predictions" not in str(forecast().effects[0])


def test_what_no_claim_reads_goes_first_then_reference_models_then_trials() -> None:
    found = reduce_design(PLAN, MEASURED, SearchSettings(), 600.0)
    removed = [one.why.split(" was")[0].split(" were")[0] for one in found]
    assert removed == ["level a10", "level a80", "dataset digits", "the reference models", "tuning"]
    without = reduce_design(PLAN, MEASURED, SearchSettings(ladder=False), 600.0)
    assert without and all("reference models" not in one.why for one in without), "there are none to leave out"
    last = found[-1].plan
    assert MIN_TRIALS <= last.tuning.budget < 24
    assert [use.name for use in last.datasets] == ["fashion"]
    assert not last.reference_models
    assert [one.id for one in last.hypotheses] == ["gain"]
    assert last.hypotheses[0].alternatives == ()
    assert "The gain grows (too little time)" in last.untested
    assert list(find_hypothesis_faults(last)) == []
    assert {cell.level for cell in list_main_cells(last)} == {"a95"}
    assert "slot-seconds" in found[0].why


def test_one_execution_on_a_loaded_machine_does_not_decide_alone_what_a_cell_takes() -> None:
    cell = Cell(dataset="fashion", arm="plain", level="a95")

    def node(name: str, *seconds: float) -> Node:
        lines = [CellOutcomeLine(cell=cell, outcome="measured", id=f"{name}{one}", seconds=one) for one in seconds]
        attempt = Attempt(number=1, cells=tuple(lines))
        return Node(
            id=name,
            decision=1,
            stage="preliminary",
            kind="draft",
            parent=None,
            seed=0,
            attempts=(attempt,),
            status="good",
        )

    def read(*nodes: Node) -> float:
        found = read_cell_times(nodes, 10.0)
        assert found is not None
        return found.average

    slow = node("n0001", 50.0)
    assert read(slow) == 30.0
    assert read(slow, slow) == 30.0, "an execution that two nodes use counts once"
    assert read(slow, node("n0002", 12.0, 12.5)) == 12.25
    alone = read_cell_times([slow])
    assert alone is not None and alone.average == 50.0


@pytest.mark.parametrize("changes", [{"tuning": TuningPlan(budget=24, levels=("a10",))}])
def test_a_level_that_tuning_names_stays(changes: dict[str, object]) -> None:
    found = reduce_design(PLAN.model_copy(update=changes), MEASURED, SearchSettings(), 300.0)
    assert all("level a10" not in one.why for one in found)
