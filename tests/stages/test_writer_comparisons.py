"""What a writer is told of comparisons that nobody registered."""

from __future__ import annotations

from pathlib import Path

from labwright.models.client import render
from labwright.models.roles.paper_writing import WRITE, ExploratoryComparison
from labwright.record.run_folder import RunFolder
from labwright.stages.paper.paper_context import PaperContext
from labwright.stages.settings import PaperSettings
from tests.models.examples import INPUTS
from tests.paper import synthetic_paper


def told(root: Path) -> dict[str, ExploratoryComparison]:
    """The comparisons of the synthetic run."""
    state = synthetic_paper.make_state()
    return {one.key: one for one in PaperContext(state, RunFolder(root), PaperSettings()).comparisons}


def test_an_estimate_is_of_the_first_condition_of_the_pair(tmp_path: Path) -> None:
    found = told(tmp_path)
    lower = found["diff/digits/accuracy/method@noise20~baseline@noise20"]
    assert (lower.pair.condition, lower.pair.other) == ("method@noise20", "baseline@noise20")
    assert lower.worse == "method@noise20"
    higher = found["diff/digits/log_loss/method@noise20~baseline@noise20"]
    assert (higher.pair.condition, higher.worse) == ("method@noise20", "baseline@noise20")


def test_a_pair_is_shown_with_the_names_of_the_plan_and_its_interval(tmp_path: Path) -> None:
    key = "diff/digits/log_loss/method@noise20~baseline@noise20"
    one = told(tmp_path)[key]
    user = render(WRITE, INPUTS["write"].model_copy(update={"comparisons": (one,)})).user
    subject = "log loss on Digits (test), label smoothing at 20% noise minus cross-entropy at 20% noise"
    assert f"`{key}`: {subject}; `.mean` {one.forms['mean']}, `.ci` {one.forms['ci']}; over 5 seeds" in user
