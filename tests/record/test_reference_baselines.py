"""The ladder: what it tries, what is chosen of it, and what it says of a study in tables and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.events import Event
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    SealedTestScored,
)
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState, SearchState
from labwright.record.reference_baselines import (
    OFF_THE_SHELF_ARM,
    TRIVIAL_ARM,
    build_reference_space,
    compute_reference_claims,
    find_chosen_settings,
    find_reference_wins,
    list_reference_cells,
)
from labwright.record.result_macros import find_macro_uses, print_value
from labwright.record.schema.data_plan import DatasetFacts, Hyperparameter, Measurement, Split, Trial, TuningPlan
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Attempt, CellRun, format_node_id
from labwright.review.evidence import check_draft
from labwright.search.stage_snapshot import StageSnapshot
from labwright.search.tuning import next_reference_run, sample_settings
from labwright.stages.paper.required_statements import complete_draft, list_reference_statements
from tests.paper.synthetic_paper import DRAFT, PLAN, make_events, make_evidence, make_state

METRIC = PLAN.primary_metric.name


def view(budget: float = 8, *, tuned: bool = True) -> StageSnapshot:
    space = (Hyperparameter(name="rate", kind="log", low=0.1, high=1, default=0.5, source="s"),)
    plan = PLAN.model_copy(update={"tuning": TuningPlan(budget=budget), "space": space if tuned else ()})
    pictures = DatasetFacts(
        name="p", source="own", features=64, classes=2, sizes={}, fingerprint="f", seed=0, shape=(8, 8, 1)
    )
    return StageSnapshot(
        stage="tuning",
        plan=plan,
        nodes={},
        reference_space=build_reference_space(RunState(search=SearchState(data_plan=plan, datasets=(pictures,)))),
    )


def test_as_many_settings_are_drawn_as_an_arm_has_the_same_each_time_with_both_defaults_first() -> None:
    trials = sample_settings(view())
    assert trials == sample_settings(view()) and trials[0] == Trial(arm=TRIVIAL_ARM, number=0, setting={})
    tuned = [one.setting for one in trials[1:]]
    assert len(tuned) == len({str(one) for one in tuned}) == 8 and [one.number for one in trials[1:]] == [*range(1, 9)]
    assert [one["model"] for one in tuned[:2]] == ["boosted trees", "linear"] and tuned[1]["penalty"] == 1.0
    assert all(("rounds" in one) == (one["model"] == "boosted trees") for one in tuned)
    assert all(("components" in one) == (one["features"] == "components") for one in tuned)
    assert len(sample_settings(view(tuned=False))) == 3, "no arm is tuned, so nor is this one"
    due = next_reference_run(view())
    assert due is not None and (due.kind, due.parent, due.trials) == ("rung", None, trials)


def measured(name: str, values: dict[str, float], split: Split, seed: int) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(name=METRIC, value=value, condition=name, dataset=dataset, split=split, seed=seed, grade="scored")
        for dataset, value in values.items()
    )


def fold(log: Sequence[Event]) -> RunState:
    return fold_events((event, float(at)) for at, event in enumerate(log))


def laddered(trials: Sequence[dict[str, float]], test: dict[str, float]) -> RunState:
    """The synthetic run with a ladder: validation values of its settings by dataset, then test values of two seeds."""
    log: list[Event] = make_events()
    k = fold(log).last_decision + 1
    first = format_node_id(k)
    settings = tuple(
        Trial(arm=OFF_THE_SHELF_ARM, number=n, setting={"model": "linear", "penalty": float(n)})
        for n in range(1, len(trials) + 1)
    )
    log += [
        DecisionMade(k=k, action=ExpandTree(stage="ablation", kind="rung", seed=7, trials=settings)),
        NodeProposed(node=first, decision=k, title="t", plan="p", varies="v", source_sha256="0" * 64),
    ]
    cells = list_reference_cells(fold(log), fold(log).nodes[first])
    keys = tuple(f"{n:02x}" * 32 for n in range(len(cells)))
    log.append(CellsRequired(node=first, cells=cells, keys=keys))
    for cell, key in zip(cells, keys, strict=True):
        value = trials[cell.trial - 1][cell.dataset] if cell.arm == OFF_THE_SHELF_ARM else 9.0
        found = measured(cell.arm, {cell.dataset: value}, "validation", 7)
        run = CellRun(id=f"{key[:24]}-0", cell=cell, key=key, seconds=1, measurements=found)
        log.append(CellExecuted(node=first, run=run))
    log += [AttemptExecuted(node=first, attempt=Attempt(number=1, seconds=1)), NodeJudged(node=first, status="good")]
    for n in (1, 2):
        name, values = format_node_id(k + n), {name: value + n / 1000 for name, value in test.items()}
        found = measured(OFF_THE_SHELF_ARM, values, "test", 7 + n)
        trivial = measured(TRIVIAL_ARM, dict.fromkeys(test, 9.0), "test", 7 + n)
        log += [
            DecisionMade(k=k + n, action=ExpandTree(stage="ablation", kind="rung", parent=first, seed=7 + n)),
            NodeProposed(node=name, decision=k + n, title="t", plan="p", varies="v", source_sha256="0" * 64),
            AttemptExecuted(node=name, attempt=Attempt(number=1, seconds=1)),
            NodeJudged(node=name, status="good"),
            SealedTestScored(node=name, measurements=(*found, *trivial)),
        ]
    return fold(log)


def test_of_each_dataset_the_best_setting_is_chosen_and_seeds_run_with_it() -> None:
    run = laddered([{"digits": 0.5, "wine": 0.2}, {"digits": 0.4, "wine": 0.3}], {"digits": 0.0, "wine": 1.0})
    first = next(one for one in run.nodes.values() if one.kind == "rung")
    chosen = {name: one.number for name, one in find_chosen_settings(run, first.id).items()}
    assert first.is_trial and chosen == {"digits": 2, "wine": 1}, "the metric is better when lower"
    last = [*run.nodes.values()][-1]
    assert [(cell.dataset, cell.arm, cell.trial, cell.seed) for cell in list_reference_cells(run, last)] == [
        ("digits", TRIVIAL_ARM, 0, 9),
        ("digits", OFF_THE_SHELF_ARM, 2, 9),
        ("wine", TRIVIAL_ARM, 0, 9),
        ("wine", OFF_THE_SHELF_ARM, 1, 9),
    ]
    assert {(one.arm, one.n) for one in compute_reference_claims(run)} == {(TRIVIAL_ARM, 2), (OFF_THE_SHELF_ARM, 2)}
    assert compute_paper_claims(run) == compute_paper_claims(make_state()), "it is in no claim of the study"


@pytest.fixture
def run() -> RunState:
    return laddered([{"digits": 0.5, "wine": 0.2}], {"digits": 0.0, "wine": 1.0})


def test_a_rung_that_beats_every_arm_is_reported_once_in_the_results_for_orientation(run: RunState) -> None:
    [beaten] = find_reference_wins(run)
    own = [
        one.mean
        for one in compute_paper_claims(run)
        if (one.dataset, one.name) == ("digits", METRIC) and one.arm in PLAN.compared_arms
    ]
    assert (beaten.dataset, beaten.arm) == ("digits", OFF_THE_SHELF_ARM) and beaten.mean < min(own)
    just = laddered([{"digits": 0.5, "wine": 0.2}], {"digits": min(own), "wine": 1.0})
    assert find_reference_wins(just) == () == list_reference_statements(just), "no better than the best arm"
    told = list_reference_statements(run)
    assert [one.id for one in told] == ["ladder-off-the-shelf"] and not told[0].abstract
    draft = complete_draft(DRAFT, told)[1]
    assert len(complete_draft(DRAFT, told)[0]) == 1 and complete_draft(draft, told)[0] == ()
    assert complete_draft(draft, told)[1] == draft
    assert draft.abstract == DRAFT.abstract and "trained on the training data as provided" in told[0].text
    assert [told[0].text in one.body for one in draft.sections].count(True) == 1
    base = replace(make_evidence(run), statements=tuple(text for one in told for text in one.sentences))
    texts = "\n".join(draft.texts)
    known = dict(base.results) | {
        use.key: print_value(0.001, 3)
        for use in find_macro_uses(texts)
        if use.macro == "result" and use.key not in base.results
    }
    assert check_draft(draft, replace(base, results=known)) == check_draft(DRAFT, base), "it leans on the record"
