"""What a writer is told of comparisons that nobody registered."""

from __future__ import annotations

from pathlib import Path

from labwright.models.prompt_renderer import render
from labwright.models.roles.paper_writing import WRITE, ExploratoryComparison
from labwright.record.run_folder import RunFolder
from labwright.stages.paper.paper_context import PaperContext
from labwright.stages.settings import PaperSettings
from tests.models.examples import INPUTS
from tests.paper import synthetic_paper


def told(root: Path) -> dict[str, ExploratoryComparison]:
    """The comparisons of the synthetic run."""
    state = synthetic_paper.make_state()
    return {one.key: one for one in PaperContext(state, RunFolder(root), PaperSettings()).evidence.comparisons}


def test_an_estimate_is_of_the_first_condition_of_the_pair(tmp_path: Path) -> None:
    found = told(tmp_path)
    worse = found["diff/digits/accuracy/method@noise20~baseline@noise20"]
    assert (worse.basis_text, worse.subject, worse.partner, worse.better) == (
        "exploratory",
        "method@noise20",
        "baseline@noise20",
        "baseline@noise20",
    )
    better = found["diff/digits/log_loss/method@noise20~baseline@noise20"]
    assert (better.subject, better.better) == ("method@noise20", "method@noise20")
    old = ExploratoryComparison(key="k", dataset="d", metric="m", better="a", worse="b", n=5)
    assert (old.subject, old.partner) == ("a", "b")


def test_a_pair_is_told_with_its_interval_and_without_a_verdict(tmp_path: Path) -> None:
    key = "diff/digits/log_loss/method@noise20~baseline@noise20"
    one = told(tmp_path)[key]
    user = render(WRITE, INPUTS["write"].model_copy(update={"comparisons": (one,)})).user
    assert f"`{key}` (exploratory) prints: {one.clause}" in " ".join(user.split())
    assert one.clause.endswith("test data; lower is better; exploratory)")
