"""What a writer is told of comparisons: whose verdict it is, and what could have gone unseen."""

from __future__ import annotations

from pathlib import Path

from labwright.models.prompt_renderer import render
from labwright.models.roles.paper_writing import WRITE, ExploratoryComparison
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.events.search_events import SealedTestResampled
from labwright.record.reducers.event_fold import apply_event
from labwright.record.run_folder import RunFolder
from labwright.stages.paper.paper_context import PaperContext
from labwright.stages.settings import PaperSettings
from tests.models.examples import INPUTS
from tests.paper import synthetic_paper


def told(root: Path, *, low: float, high: float) -> dict[str, ExploratoryComparison]:
    """The comparisons of the synthetic run, where resampling gave this around each mean."""
    state = synthetic_paper.make_state()
    found = tuple(
        over.model_copy(update={"low": one.mean + low, "high": one.mean + high, "reason": ""})
        for one in compute_differences(state, compute_paper_claims(state))
        if (over := one.resampled_interval) is not None
    )
    apply_event(state, SealedTestResampled(found=found))
    return {one.key: one for one in PaperContext(state, RunFolder(root), PaperSettings()).evidence.comparisons}


def test_a_verdict_is_of_the_first_condition_of_the_pair(tmp_path: Path) -> None:
    found = told(tmp_path, low=-0.001, high=0.001)
    worse = found["diff/digits/accuracy/method@noise20~baseline@noise20"]
    assert (worse.verdict, worse.subject, worse.partner, worse.better) == (
        "worsened",
        "method@noise20",
        "baseline@noise20",
        "baseline@noise20",
    )
    better = found["diff/digits/log_loss/method@noise20~baseline@noise20"]
    assert (better.verdict, better.subject, better.better, better.note) == (
        "improved",
        "method@noise20",
        "method@noise20",
        "",
    )
    old = ExploratoryComparison(key="k", dataset="d", metric="m", better="a", worse="b", verdict="improved", n=5)
    assert (old.subject, old.partner) == ("a", "b")


def test_no_measurable_difference_is_told_with_what_could_have_been_seen(tmp_path: Path) -> None:
    key = "diff/digits/log_loss/method@noise20~baseline@noise20"
    one = told(tmp_path, low=-1.0, high=1.0)[key]
    assert one.verdict == "not significant"
    assert one.note == "the seeds agree on it, but its interval over test examples includes zero"
    user = render(WRITE, INPUTS["write"].model_copy(update={"comparisons": (one,)})).user
    assert f"`{key}` (not significant) prints: {one.clause}; {one.note}" in " ".join(user.split())
    assert "which is not significant over test examples (one below 0.0" in one.clause
