"""The names of a plan's arms, levels, datasets, metrics and hypotheses that readers see."""

from __future__ import annotations

import pytest

from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, MetricSpec
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.record.schema.repository import RepositoryCommand


def make_plan(title: str = "") -> DataPlan:
    return DataPlan(
        task="classify",
        datasets=(DatasetUse(name="fashion_mnist", title=title and "Fashion-MNIST"),),
        metrics=(MetricSpec(name="log_loss", higher_is_better=False, title=title),),
        arms=(
            Arm(name="no-erasing", role="baseline", title=title),
            Arm(name="erase_all", role="method", title=title and "random erasing"),
        ),
        levels=(Level(name="s_95", title=title and "95 % agreement"),),
        expected_seconds=1,
    )


def test_titles_come_before_names() -> None:
    plan = make_plan("plain training")
    assert plan.name_arm("no-erasing") == "plain training"
    assert plan.name_condition("erase_all@s_95") == "random erasing at 95 % agreement"
    assert plan.name_condition("erase_all-at-no-erasing") == "random erasing with the settings of plain training"
    assert (plan.name_dataset("fashion_mnist"), plan.name_metric("log_loss")) == ("Fashion-MNIST", "plain training")


def test_a_hypothesis_without_a_title_is_named_by_its_id() -> None:
    one = Hypothesis(
        id="erasing-helps",
        statement="Erasing helps.",
        effects=(Effect(estimand="b - a", smallest=0.03),),
        reason="noise",
    )
    assert one.name == "erasing helps"
    assert one.model_copy(update={"title": "Erasing recovers accuracy"}).name == "Erasing recovers accuracy"


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (r"stdout:train loss: \S+ test loss: (\d+\.\d+)", "test loss"),
        (r"output:acc\s*=\s*([\d.]+)@mean", "acc"),
        (r"r.txt:final (?:val )?acc=(\S+)", "acc"),
        (r"stdout:(\d+)", "metric"),
        ("m.csv:val@last", "val"),
    ],
)
def test_a_metric_has_the_name_that_stands_before_its_number(metric: str, name: str) -> None:
    assert RepositoryCommand(argv=("python", "run.py"), metric=metric).metric_name == name
