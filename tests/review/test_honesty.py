"""The rules of honesty: typed figures, the probe of labels, scores of withheld labels."""

from __future__ import annotations

import pytest

from benchmarks.honesty import PLAN
from labwright.record.schema.data_plan import DatasetFacts, EvidenceGrade, Measurement, MetricSpec, Split
from labwright.review.honesty.figure_data_check import find_typed_figures
from labwright.review.honesty.label_probe import find_impossible_scores, judge_label_permutation, list_withheld_metrics
from tests.models.offline import role_inputs
from tests.stages import small_study

ACCURACY = MetricSpec(name="accuracy", higher_is_better=True)
LOSS = MetricSpec(name="log_loss", higher_is_better=False)


@pytest.mark.slow
def test_plots_of_whole_studies_pass() -> None:
    for plots in (role_inputs.make_agenda_winner().plots, small_study.plots_code()):
        assert not list(find_typed_figures(plots))


def test_typed_figures_are_found_with_their_line_and_reference_lines_are_not() -> None:
    typed = 'import matplotlib.pyplot as plt\nplt.bar(["a", "b", "c"], [0.91, 0.87, 0.95])\n'
    [found] = find_typed_figures(typed)
    assert found.line == 2 and found.text == 'plt.bar(["a", "b", "c"], [0.91, 0.87, 0.95])'
    assert not list(find_typed_figures("import matplotlib.pyplot as plt\nplt.plot([0, 1], [0, 1])\n"))
    assert not list(find_typed_figures("def ("))


@pytest.mark.parametrize(
    "script",
    [
        'scores = {"a": 0.91, "b": 0.87}\nplt.bar(list(scores), list(scores.values()))\n',
        "y = np.array([0.91, 0.87, 0.95])\nplt.plot([1, 2, 3], y)\n",
        'scores = {"a": 0.91, "b": 0.87}\nplt.bar(x=list(scores), height=[scores[k] for k in scores])\n',
        "gen = np.random.default_rng(1)\nplt.plot(np.cumsum(gen.normal(size=50)))\n",
    ],
)
def test_a_script_on_its_own_must_draw_recorded_arrays(script: str) -> None:
    head = "import matplotlib.pyplot as plt\nimport numpy as np\n"
    assert len(list(find_typed_figures(head + script))) == 1
    recorded = 'y = np.load("inputs/n3/loss.npy")\nplt.plot(y)\nplt.bar(["a", "b"], [y[0], y[-1]])\nplt.axhline(0.5)\n'
    assert not list(find_typed_figures(head + recorded))


# --- the probe ------------------------------------------------------------------------------------------------------


def measured(value: float, *, condition: str = "method", name: str = "accuracy", seed: int = 0) -> Measurement:
    return Measurement(
        name=name, value=value, condition=condition, dataset="digits", split="validation", seed=seed, grade="computed"
    )


def test_permuted_labels_must_cost_the_advantage_over_chance() -> None:
    chance = {"digits": 0.1}
    assert (
        judge_label_permutation([measured(0.95)], [measured(0.12)], metric=ACCURACY, chance=chance).outcome == "moved"
    )
    kept = judge_label_permutation([measured(0.95)], [measured(0.94)], metric=ACCURACY, chance=chance)
    assert kept.outcome == "still" and "99 %" in kept.why
    assert (
        judge_label_permutation([measured(0.11)], [measured(0.1)], metric=ACCURACY, chance=chance).outcome == "unclear"
    )
    losses = [measured(value, name="log_loss") for value in (0.2, 2.6)]
    assert judge_label_permutation(losses[:1], losses[1:], metric=LOSS, chance={"digits": 2.3}).outcome == "moved"


# --- scores of rows whose labels the code cannot have ---------------------------------------------------------------


def facts_of(name: str, *, classes: int = 0, task: str = "") -> DatasetFacts:
    return DatasetFacts(
        name=name, source="here", features=1, classes=classes, sizes={}, fingerprint="", seed=0, task=task
    )


def logged(
    name: str, grade: EvidenceGrade = "logged", *, step: int | None = None, split: Split = "validation"
) -> Measurement:
    return Measurement(
        name=name, value=0.9, condition="method", dataset="digits", split=split, seed=0, grade=grade, step=step
    )


def test_what_was_recorded_is_held_to_the_same_rule() -> None:
    facts = (facts_of("digits", classes=10),)
    withheld = list_withheld_metrics(PLAN, facts)
    [found] = find_impossible_scores([logged("accuracy"), logged("accuracy")], withheld)
    assert found.suspect and found.line == 0 and "cannot have the labels" in str(found)
    fine = [
        logged("accuracy", "scored"),
        logged("accuracy", "evaluated"),
        logged("accuracy", step=3),
        logged("mse"),
        logged("accuracy", split="dev"),
        logged("dev_accuracy"),
    ]
    assert find_impossible_scores(fine, withheld) == ()
    assert find_impossible_scores([logged("accuracy")], list_withheld_metrics(PLAN, ())) == ()
