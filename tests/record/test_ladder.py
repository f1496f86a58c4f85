"""The ladder: what it tries, what is chosen of it, and what it says of a study in tables and abstract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from labwright.record.claims.means import paper_claims
from labwright.record.events import Event
from labwright.record.events.searching import CellExecuted, CellsOwed, Decided, Executed, Judged, Proposed, Unsealed
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState
from labwright.record.ladder import (
    RUNGS,
    TRIVIAL,
    TUNED,
    beaten_by,
    cells_of_rung,
    chosen_settings,
    ladder_space,
    reference_claims,
)
from labwright.record.nouns.data import DatasetFacts, Measurement, Split
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import Attempt, CellRun, node_id
from labwright.record.nouns.tuning import Hyperparameter, Trial, Tuning
from labwright.record.printed import value_of
from labwright.record.typeset import uses
from labwright.review.evidence import check_draft
from labwright.search.ladder import drawn, rung
from labwright.search.tree import View
from labwright.stages.paper.material import claims_of
from labwright.stages.paper.obligations import left_out, of_rungs, with_owed
from labwright.stages.paper.tables import tables
from tests.paper.synthetic import DRAFT, PLAN, events, evidence, state

METRIC = PLAN.primary.name


def view(budget: float = 8, *, tuned: bool = True) -> View:
    space = (Hyperparameter(name="rate", kind="log", low=0.1, high=1, default=0.5, source="s"),)
    plan = PLAN.model_copy(update={"tuning": Tuning(budget=budget), "space": space if tuned else ()})
    pictures = DatasetFacts(
        name="p", source="own", features=64, classes=2, sizes={}, fingerprint="f", seed=0, shape=(8, 8, 1)
    )
    return View(
        stage="tuning",
        plan=plan,
        nodes={},
        root=None,
        ladder=ladder_space(RunState(data_plan=plan, datasets=(pictures,))),
    )


def test_as_many_settings_are_drawn_as_an_arm_has_the_same_each_time_with_both_defaults_first() -> None:
    trials = drawn(view())
    assert trials == drawn(view()) and trials[0] == Trial(arm=TRIVIAL, number=0, setting={})
    tuned = [one.setting for one in trials[1:]]
    assert len(tuned) == len({str(one) for one in tuned}) == 8 and [one.number for one in trials[1:]] == [*range(1, 9)]
    assert [one["model"] for one in tuned[:2]] == ["boosted trees", "linear"] and tuned[1]["penalty"] == 1.0
    assert all(("rounds" in one) == (one["model"] == "boosted trees") for one in tuned)
    assert all(("components" in one) == (one["features"] == "components") for one in tuned)
    assert len(drawn(view(tuned=False))) == 3, "no arm is tuned, so nor is this one"
    due = rung(view())
    assert due is not None and (due.kind, due.parent, due.trials) == ("rung", None, trials)


def measured(name: str, values: dict[str, float], split: Split, seed: int) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(name=METRIC, value=value, condition=name, dataset=dataset, split=split, seed=seed, grade="scored")
        for dataset, value in values.items()
    )


def laddered(trials: Sequence[dict[str, float]], test: dict[str, float]) -> RunState:
    """The synthetic run with a ladder: validation values of its settings by dataset, then test values of two seeds."""
    log: list[Event] = events()
    before = fold((event, float(at)) for at, event in enumerate(log))
    k = before.last_decision + 1
    first = node_id(k)
    settings = tuple(
        Trial(arm=TUNED, number=n, setting={"model": "linear", "penalty": float(n)}) for n in range(1, len(trials) + 1)
    )
    log += [
        Decided(k=k, action=Expand(stage="ablation", kind="rung", seed=7, trials=settings)),
        Proposed(node=first, decision=k, title="t", plan="p", varies="v", source_sha256="0" * 64),
    ]
    cells = cells_of_rung(
        fold((event, float(at)) for at, event in enumerate(log)),
        fold((event, float(at)) for at, event in enumerate(log)).nodes[first],
    )
    keys = tuple(f"{n:02x}" * 32 for n in range(len(cells)))
    log.append(CellsOwed(node=first, cells=cells, keys=keys))
    for cell, key in zip(cells, keys, strict=True):
        value = trials[cell.trial - 1][cell.dataset] if cell.arm == TUNED else 9.0
        log.append(
            CellExecuted(
                node=first,
                run=CellRun(
                    id=f"{key[:24]}-0",
                    cell=cell,
                    key=key,
                    seconds=1,
                    measurements=measured(cell.arm, {cell.dataset: value}, "validation", 7),
                ),
            )
        )
    log += [Executed(node=first, attempt=Attempt(number=1, seconds=1)), Judged(node=first, status="good")]
    for n in (1, 2):
        name = node_id(k + n)
        log += [
            Decided(k=k + n, action=Expand(stage="ablation", kind="rung", parent=first, seed=7 + n)),
            Proposed(node=name, decision=k + n, title="t", plan="p", varies="v", source_sha256="0" * 64),
            Executed(node=name, attempt=Attempt(number=1, seconds=1)),
            Judged(node=name, status="good"),
            Unsealed(
                node=name,
                measurements=(
                    *measured(TUNED, {name: value + n / 1000 for name, value in test.items()}, "test", 7 + n),
                    *measured(TRIVIAL, dict.fromkeys(test, 9.0), "test", 7 + n),
                ),
            ),
        ]
    return fold((event, float(at)) for at, event in enumerate(log))


def test_of_each_dataset_the_best_setting_is_chosen_and_seeds_run_with_it() -> None:
    run = laddered([{"digits": 0.5, "wine": 0.2}, {"digits": 0.4, "wine": 0.3}], {"digits": 0.0, "wine": 1.0})
    first = next(one for one in run.nodes.values() if one.kind == "rung")
    assert first.tries and {name: one.number for name, one in chosen_settings(run, first.id).items()} == {
        "digits": 2,
        "wine": 1,
    }, "the metric is better when lower"
    last = [*run.nodes.values()][-1]
    assert [(cell.dataset, cell.arm, cell.trial, cell.seed) for cell in cells_of_rung(run, last)] == [
        ("digits", TRIVIAL, 0, 9),
        ("digits", TUNED, 2, 9),
        ("wine", TRIVIAL, 0, 9),
        ("wine", TUNED, 1, 9),
    ]
    assert {(one.arm, one.n) for one in reference_claims(run)} == {(TRIVIAL, 2), (TUNED, 2)}
    assert paper_claims(run) == paper_claims(state()), "it is in no family and no claim of the study"


@pytest.fixture
def run() -> RunState:
    return laddered([{"digits": 0.5, "wine": 0.2}], {"digits": 0.0, "wine": 1.0})


def test_a_rung_that_beats_every_arm_at_its_best_level_is_told_in_the_abstract(run: RunState) -> None:
    [beaten] = beaten_by(run)
    own = [
        one.mean
        for one in paper_claims(run)
        if (one.dataset, one.name) == ("digits", METRIC) and one.arm in PLAN.compared
    ]
    assert (beaten.dataset, beaten.rung.arm, beaten.best.mean) == ("digits", TUNED, min(own))
    just = laddered([{"digits": 0.5, "wine": 0.2}], {"digits": min(own), "wine": 1.0})
    assert beaten_by(just) == () == of_rungs(just), "not better than the best level of the best arm"
    told = of_rungs(run)
    assert [one.id for one in told] == ["ladder-digits"] and told[0].abstract
    draft = with_owed(DRAFT, told, {})
    assert len(left_out(DRAFT, told, {})) == 1 and left_out(draft, told, {}) == ()
    assert with_owed(draft, told, {}) == draft
    assert draft.abstract.startswith(DRAFT.abstract.rstrip()) and "off-the-shelf reference" in draft.abstract
    base = replace(evidence(run), statements=tuple(one.text for one in told))
    known = dict(base.results) | {
        use.key: value_of(0.001, 3) for use in uses(draft.abstract) if use.key not in base.results
    }
    assert check_draft(draft, replace(base, results=known)) == check_draft(DRAFT, base), "it leans on the record"


def test_rungs_are_lines_of_the_main_table_alone_and_nothing_is_called_of_them(run: RunState) -> None:
    claims = claims_of(run)
    assert not any({one.arm, one.other.partition("@")[0]} & RUNGS.keys() for one in claims.differences)
    main, *others = tables(claims.means, PLAN, run.datasets, (), claims.differences)
    lines = [line for line in main.tabular.splitlines() if line.startswith(("Trivial", "Off-the-shelf"))]
    assert len(lines) == 4 and "References are models of the program's own" in main.caption
    assert not any(name in table.tabular for table in others for name in RUNGS)
