"""Lists in prompts: what belongs together takes one line, what decides comes first, and what is left out is counted."""

from __future__ import annotations

from labwright.models.client import render
from labwright.models.prompt_filters import (
    format_arrays,
    format_claims,
    format_drawn_data,
    format_estimate,
    format_measurements,
    format_other_claims,
    format_setups,
)
from labwright.models.roles.figures import FIGURE_REVIEW, ArrayBrief, FigureReviewInputs, Range
from labwright.models.roles.node_assessment import FEEDBACK
from labwright.models.roles.paper_writing import ClaimLine, EstimateLine
from labwright.record.schema.paper import AxesFacts, DrawnFacts
from tests.models.examples import INPUTS, MEASUREMENTS


def test_the_arrays_of_many_runs_take_a_line_a_name() -> None:
    found = tuple(
        ArrayBrief(
            path=f"inputs/n{run}/{name}.npy",
            shape=(4, 40),
            dtype="float64",
            ranges=(Range(low=run, high=run + 1, mean=run + 0.5),),
        )
        for run in range(10)
        for name in ("loss", "rates")
        if (run, name) != (3, "rates")
    )
    head, *lines = format_arrays(found).splitlines()
    assert head.count("`inputs/n") == 10
    assert lines == [
        "- `loss.npy` (4, 40) float64, 0 to 10, mean 0.5 to 9.5",
        "- `rates.npy` (4, 40) float64, 0 to 10, mean 0.5 to 9.5; not in `inputs/n3/`",
    ]


def test_the_arrays_of_the_cells_of_a_dataset_share_a_line() -> None:
    found = [
        ArrayBrief(
            path=f"arrays/{name}__wine__{arm}__{level}.npy",
            shape=(40,),
            dtype="float64",
            ranges=(Range(low=k, high=k + 1, mean=k),),
        )
        for name in ("loss", "rate")
        for k, arm in enumerate(("plain", "no-warmup"))
        for level in ("n5", "n50")
    ]
    lines = format_arrays([*found, ArrayBrief(path="arrays/loss__wine.npy", shape=(2,), dtype="int64")]).splitlines()
    cells = "plain__n5, plain__n50, no-warmup__n5, no-warmup__n50"
    assert lines == [
        f"- `arrays/loss__wine__*.npy` for * = {cells}: (40) float64, 0 to 2, mean 0 to 1",
        "- `arrays/rate__wine__*.npy` for the same *: (40) float64, 0 to 2, mean 0 to 1",
        "- `arrays/loss__wine.npy` (2) int64",
    ]
    several = [
        one.model_copy(update={"path": one.path.replace("arrays", f"inputs/n{k}")}) for k in (1, 2) for one in found[:4]
    ]
    assert format_arrays(several).splitlines()[1].startswith(f"- `loss__wine__*.npy` for * = {cells}: (40)")
    assert len(format_arrays(several[:7]).splitlines()) == 3 and "not in `inputs/n2/`" in format_arrays(several[:7])


def test_an_array_is_told_with_its_range_and_the_columns_of_a_narrow_table() -> None:
    column = Range(low=0, high=1, mean=0.5)
    one = ArrayBrief(
        path="arrays/loss.npy",
        shape=(9, 2),
        dtype="float32",
        ranges=(column, Range(low=2, high=3e29, mean=2.5)),
        missing=2,
    )
    assert format_arrays((one,)) == (
        "- `arrays/loss.npy` (9, 2) float32, column 0: 0 to 1, mean 0.5, column 1: 2 to 3e+29, mean 2.5, 2 not finite"
    )
    assert format_arrays(()) == "- none"


def test_values_stand_beside_those_of_the_parent_and_equal_ones_are_told_once() -> None:
    older = tuple(
        one.model_copy(update={"value": 0.5}) if one.condition == "plain@n500" and one.name == "accuracy" else one
        for one in MEASUREMENTS
    )
    lines = format_measurements(MEASUREMENTS[:6], before=older).splitlines()
    assert lines[0] == "- digits, plain@n50, validation: accuracy 0.812346, log_loss 0.9 (unchanged)"
    assert lines[1] == (
        "- digits, plain@n500, validation: accuracy 0.951 (before 0.5, +0.451), log_loss 0.21 (unchanged)"
    )
    assert lines[3] == "- digits, margin@n500, validation: accuracy 0.95, log_loss 0.2 (parent only)"
    feedback = INPUTS["feedback"].model_copy(update={"parent_measurements": MEASUREMENTS})
    assert render(FEEDBACK, feedback).user.count("0.812346") == 1


def test_no_claim_is_left_out_and_what_may_be_chosen_is_told_in_few_lines() -> None:
    lines = [
        ClaimLine(key=f"test/d{k}/{name}/a@l{k % 2}.mean", printed="0.1", meaning="mean: it", listed=name == "accuracy")
        for name in ("brier", "accuracy")
        for k in range(300)
    ]
    assert format_claims(lines).count("\n") == 599
    [line] = format_other_claims((lines,)).splitlines()
    assert line.startswith("- `test/D/M/a@L`: D of d0, d1, ") and line.endswith("; M of brier; L of l0, l1")


def test_levels_of_an_arm_share_a_line_and_estimates_list_what_they_print() -> None:
    lines = [
        ClaimLine(key=f"test/d/accuracy/a@{level}.{form}", printed=text, meaning="accuracy on d, A")
        for level, form, text in (
            ("l0", "pm", "0.5"),
            ("l0", "mean", "0.5"),
            ("l1", "pm", "0.7"),
            ("l1", "percent", "70"),
        )
    ]
    assert (
        format_claims(lines) == "- `test/d/accuracy/a@LEVEL`: accuracy on d, A; `.pm` l0 0.5, l1 0.7; `.percent` l1 70"
    )
    forms = {"mean": "0.03", "ci": "[0.02, 0.04]", "n": "5", "confidence": "97.5"}
    line = EstimateLine(key="hypothesis/gain/1", subject="log loss", forms=forms, note="it is above zero")
    assert format_estimate(line) == (
        "`hypothesis/gain/1`: log loss; `.mean` 0.03, `.ci` [0.02, 0.04], `.confidence` 97.5; it is above zero"
    )
    share = line.model_copy(update={"forms": {**forms, "confidence": "95", "points": "3", "points_ci": "2 to 4"}})
    assert "; `.points` 3, `.points_ci` 2 to 4; " in format_estimate(share) and ".mean" not in format_estimate(share)
    setups = ("data.d.test", "data.d.title", "arm.a.title", "run.nodes", "run.seeds")
    assert format_setups([ClaimLine(key=key, printed="7") for key in setups]) == (
        "- `data.d`: `.test` 7, `.title` 7\n- `run`: `.seeds` 7"
    )
    levels = {"level.n20": "0.2", "level.n20.title": "20 % noise", "level.a": "0", "level.a.title": "clean"}
    lines = [ClaimLine(key=key, printed=text) for key, text in {**levels, "tuned.a.trials": "9"}.items()]
    assert format_setups(lines).splitlines() == [
        "- `level.n20`: `.title` 20 % noise",
        "- `level`: `.a` 0",
        "- `level.a`: `.title` clean",
        '- `tuned.a`: `.trials` 9 (add "besides the defaults")',
    ], "a title with the value of a level is printed, not the value"


def test_further_differences_in_the_primary_metric_have_values() -> None:
    forms = {"mean": "0.043", "ci": "[0.035, 0.051]", "n": "23", "points": "4.3", "points_ci": "3.5 to 5.1"}
    lines = [
        EstimateLine(key=f"diff/d/{metric}/a@{level}~b@{level}", forms=shown, listed=False)
        for metric, level, shown in (
            ("accuracy", "l0", forms),
            ("accuracy", "l1", {"mean": "0.1", "n": "1"}),
            ("ece", "l0", forms),
        )
    ]
    [line] = format_other_claims((lines,), "accuracy").splitlines()
    assert line.endswith("L of l0, l1; d l0 `.points` 4.3 (3.5 to 5.1; n 23); d l1 `.mean` 0.1 (no interval; n 1)")


def test_markers_of_one_point_share_a_line_and_what_is_left_out_is_said() -> None:
    line = DrawnFacts(kind="line", points=5, low=0, high=1, mean=0.5, first=0, last=1)
    mark = DrawnFacts(kind="line", points=1, low=2, high=2, mean=2, marker="o")
    axes = AxesFacts(drawn=(line, *(mark.model_copy(update={"low": float(k)}) for k in range(60))))
    assert format_drawn_data(axes).splitlines()[1:] == ["- line: 60 single points from 0 to 59"]
    many = AxesFacts(drawn=tuple(line.model_copy(update={"label": f"arm {k}"}) for k in range(16)))
    assert len(format_drawn_data(many).splitlines()) == 16, "the reviewer compares each with the arrays"
    assert format_drawn_data(many, 8).endswith("[... 8 more series left out ...]")
    assert format_drawn_data(AxesFacts()) == ""


def test_what_was_measured_is_told_once_for_all_figures_of_the_paper() -> None:
    inputs = INPUTS["figure_review"]
    assert isinstance(inputs, FigureReviewInputs)
    figures = tuple(
        inputs.figures[0].model_copy(update={"name": f"f{k}", "data": (f"on d{k % 2}: 0.5", "on d9: 0.7")})
        for k in range(9)
    )
    user = render(FIGURE_REVIEW, inputs.model_copy(update={"figures": figures})).user
    assert [user.count(text) for text in ("on d0: 0.5", "on d1: 0.5", "on d9: 0.7")] == [1, 1, 1]
