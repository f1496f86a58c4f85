"""The forecast: a pure function, held against what finished runs really took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from labwright.agent.forecast import Amount, Forecast, forecast_run
from labwright.agent.settings import compose_settings
from labwright.models.roles import ROLES
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    DatasetUse,
    Hyperparameter,
    Level,
    MetricSpec,
    TuningPlan,
)
from labwright.record.schema.nodes import STAGES

DEMO: dict[str, Any] = {
    "num_workers": 2,
    "num_drafts": 3,
    "num_seeds": 3,
    "preliminary": {"nodes": 5},
    "tuning": {"nodes": 3},
    "agenda": {"nodes": 3, "num_seeds": 5},
    "ablation": {"nodes": 3, "num_seeds": 5},
}


class Took(NamedTuple):
    """A finished run of the label noise study on two cores (November 2026): what it was set to and what it took."""

    search: dict[str, Any]
    calls: dict[str, int]
    experiments: int
    code_seconds: float
    bytes: int


TOOK = Took(
    DEMO,
    {
        "prior_search": 1,
        "plan": 1,
        "protocol_review": 1,
        "code": 11,
        "plot": 3,
        "vision": 10,
        "feedback": 11,
        "summary": 4,
        "ablation_plan": 1,
        "figures": 1,
        "outline": 1,
        "write": 2,
        "cite_ask": 1,
        "figure_review": 5,
        "reflect": 5,
        "missing_ablations": 1,
        "judge": 1,
        "influence": 2,
        "code_reader": 5,
    },
    42,
    211.0,
    57285115,
)
"""On a busy machine. Ten trials of a cell each count as what they are of an experiment."""
LATER = ("claim_reader", "second_claim_reader", "setup_reader", "copy_edit")
"""Roles that this run did not have."""

PLAN = DataPlan(
    task="t",
    datasets=tuple(DatasetUse(name=name) for name in ("digits", "breast_cancer", "wine")),
    metrics=(MetricSpec(name="log_loss", higher_is_better=False),),
    expected_seconds=6.0,
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
    levels=tuple(Level(name=name) for name in ("noise0", "noise20", "noise40")),
    space=(Hyperparameter(name="learning_rate", kind="log", low=0.0003, high=0.03, default=0.003, source="practice"),),
    tuning=TuningPlan(budget=6, levels=("noise20",)),
    open=("the network",),
)


def facts(name: str, sizes: tuple[int, int, int, int], features: int, classes: int) -> DatasetFacts:
    return DatasetFacts(
        name=name,
        source="s",
        features=features,
        classes=classes,
        fingerprint="f",
        seed=0,
        sizes=dict(zip(("train", "dev", "validation", "test"), sizes, strict=True)),
    )


FACTS = (
    facts("digits", (898, 180, 360, 359), 64, 10),
    facts("breast_cancer", (284, 57, 115, 113), 30, 2),
    facts("wine", (90, 17, 35, 36), 13, 3),
)


def cast(settings: Mapping[str, Any] = {}, plan: DataPlan = PLAN) -> Forecast:
    """The forecast of a run like the demo with other settings, by dotted key."""
    flags = {"sandbox.timeout": 120.0, "time_limit": 1800.0, "search": DEMO, **settings}
    return forecast_run(plan, FACTS, compose_settings(flags=flags, environment={}))


def test_a_finished_run_took_what_was_forecast() -> None:
    took = TOOK
    found = cast({"search": took.search, "paper.missing_ablations": 1})
    calls = [one for one in found.calls if one.role not in LATER]
    likely = sum(one.likely for one in calls)
    assert 0.8 < likely / sum(took.calls.values()) < 1.25
    assert 0.9 < found.experiments.likely / took.experiments < 1.15
    assert 0.8 < found.disk_gb.likely * 1e9 / took.bytes < 1.25
    assert 0.25 < found.code_hours.likely * 3600 / took.code_seconds < 1.5
    for one in calls:
        assert abs(one.likely - took.calls.get(one.role, 0)) <= 3, one.role
        assert took.calls.get(one.role, 0) <= one.most, one.role
    assert took.experiments <= found.experiments.most
    assert took.code_seconds <= found.code_hours.most * 3600
    assert took.bytes <= found.disk_gb.most * 1e9


def test_every_role_is_counted_and_has_its_tokens() -> None:
    elsewhere = set(
        (
            "prefer idea idea_reflect idea_match related_work proposal idea_of digest coder repository_plan "
            "question_design question_conclusion reviewer_requests addendum respond"
        ).split()
    )
    roles = set(ROLES) - elsewhere  # these are asked by other commands than run
    assert {one.role for one in cast().calls} == roles
    assert roles == {name for name, role in ROLES.items() if role.typical_tokens != (0, 0)}


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 10), st.integers(1, 16), st.integers(0, 5))
def test_the_likely_never_exceeds_the_most_and_limits_only_add(
    nodes: int, drafts: int, seeds: int, workers: int, replots: int
) -> None:
    search: dict[str, Any] = {
        **{stage: {"nodes": nodes} for stage in STAGES},
        "num_drafts": drafts,
        "num_seeds": seeds,
        "num_workers": workers,
    }
    others = {"paper.replots": replots, "time_limit": 54_000.0}
    found = cast({"search": search, **others})
    amounts = (found.experiments, found.input_tokens, found.output_tokens, found.code_hours, found.disk_gb)
    assert all(0 <= one.likely <= one.most for one in (*amounts, *found.calls))
    more = cast({"search": {**search, "ablation": {"nodes": nodes + 1}}, **others})
    assert more.experiments.most > found.experiments.most and more.input_tokens.most > found.input_tokens.most


def test_gpu_hours_are_those_of_code_on_a_gpu() -> None:
    assert cast().gpu_hours is None
    found = cast({"sandbox.device": "cuda"})
    assert found.gpu_hours == found.code_hours


# --- prices ---------------------------------------------------------------------------------------------------------


def usd(name: str, base_url: str | None = None) -> Amount | None:
    return cast({"models.name": name, "models.base_url": base_url}).usd


def test_usd_comes_from_the_public_list_where_it_knows_the_model() -> None:
    found = usd("openai:gpt-4o")
    assert found is not None and 0.5 < found.likely < found.most < 50
    assert usd("offline") is not None
    assert usd("openai:no-such-model") is None
    own = usd("openai:gpt-4o", "http://localhost:8000/v1")
    assert own is not None and own.most == 0, "a server of one's own costs nothing"
    assert usd("openai:gpt-4o", "https://models.example.org/v1") is None, "somebody else's has no public price"
