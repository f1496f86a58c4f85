"""What a paper tells of tuning: effort, settings, parity, stale settings and published anchors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.claims import sentences
from labwright.record.claims.estimates import Claim
from labwright.record.claims.formatting import format_claims, format_setups
from labwright.record.claims.setting_controls import build_tuning_report, compute_parity, find_disparities
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import PublishedAnchor
from labwright.record.schema.nodes import TrialResult
from labwright.record.tuning_results import ChosenSetting, build_effective_plan, find_chosen
from labwright.stages.paper.appendix import list_disclosures, render_appendix
from labwright.stages.paper.disclosure import format_disclosure
from labwright.stages.paper.paper_context import PaperClaims, build_paper_claims
from labwright.stages.paper.result_tables import build_result_tables
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import assess_paper
from tests.inspector.sample_run import make_sample
from tests.inspector.tuning_run import make_tuning_run
from tests.paper import synthetic_paper
from tests.paper.test_paper_parts import typed

STALE = make_tuning_run().state
CLAIMS = build_paper_claims(STALE)


def whole_of(state: RunState, claims: Sequence[Claim]) -> str:
    return render_appendix(state, claims)


def plain(text: str) -> str:
    return " ".join(text.replace("\\allowbreak{}", "").replace("\\rec{", "").replace("}", "").split())


def anchored(value: float) -> tuple[RunState, PaperClaims]:
    """The run whose tuning stands, with this value published of its baseline."""
    state = make_tuning_run(stale=False).state
    assert state.search.data_plan is not None
    state.search.data_plan = state.search.data_plan.model_copy(
        update={
            "anchors": (
                PublishedAnchor(
                    arm="plain", dataset="digits", metric="log_loss", value=value, tolerance=0.05, source="Doe 2019"
                ),
            )
        }
    )
    return state, build_paper_claims(state)


def test_the_appendix_has_what_each_arm_was_given() -> None:
    whole = whole_of(STALE, CLAIMS.all_claims)
    text = plain(whole)
    for words in (
        "Each arm was to have 3 trials, its defaults among them. A trial",
        "plain & 3 & 1 & 12 & 1.00 & 1.00 & UNEQUAL: less than the others",
        "smooth & 3 & 2 & 18 & 1.25 & 1.50 & tuned with fewer trials than planned",
    ):
        assert words in text, words
    assert r"\pm$ \setup{anchor.digits.log_loss.plain.tolerance}" in whole
    assert typed(whole.replace("3pt", "")) == []


def test_the_expected_best_ends_at_the_best_of_all_trials_and_goes_in_the_metrics_direction() -> None:
    account = build_tuning_report(STALE)
    assert account is not None and [one.best for one in account.arms] == [0.55, 0.4]
    smooth = account.arms[1].curve  # of 0.5, 0.45 and 0.4: the third trial failed
    assert smooth == pytest.approx((0.45, 0.4278, 0.4167), abs=1e-4)


def test_seconds_of_cells_that_end_at_once_are_not_compared() -> None:
    rows = compute_parity(STALE)
    assert [what for *_, what in find_disparities(STALE, rows)] == [("rows", "seconds")]
    short = [one.model_copy(update={"seconds": one.seconds / 10}) for one in rows]
    assert [what for *_, what in find_disparities(STALE, short)] == [("rows",)]


@pytest.mark.parametrize(("studies", "caveat"), [((1, 1), "not tuned"), ((1, 3), "tuned with fewer trials")])
def test_a_pair_that_tried_only_its_defaults_is_not_tuned(
    studies: tuple[int, int], caveat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(state: RunState, node: str, trials: Sequence[TrialResult]) -> dict[str, ChosenSetting]:
        found = find_chosen(state, node, trials)
        counts: dict[str, int] = dict(zip(("plain", "smooth"), studies, strict=True))
        return {arm: one.model_copy(update={"study": counts[arm], "stale": True}) for arm, one in found.items()}

    monkeypatch.setattr(sentences, "find_chosen", find)
    [one] = build_paper_claims(STALE).differences
    assert one.caveats == (caveat, "unanchored")


def test_the_text_must_tell_what_is_unequal_stale_or_unanchored() -> None:
    lines = " ".join(list_disclosures(STALE, CLAIMS.means))
    for words in (
        "Less effort went into tuning plain than",
        "hyperparameters of smooth were tuned with fewer trials",
        r"plain reaches \result{test/digits/log_loss/plain.mean}",
        "smooth and plain differ in rows and",
    ):
        assert words in lines, words
    assert [one.basis_text for one in CLAIMS.differences] == ["exploratory, tuned with fewer trials, unanchored"]
    for value, verdict in ((0.3, "exploratory, unanchored"), (0.52, "exploratory")):
        state, claims = anchored(value)
        assert [one.basis_text for one in claims.differences] == [verdict]
        said = " ".join(list_disclosures(state, claims.means))
        assert ("unanchored" in said) == (value == 0.3) and "Less effort" not in said and "stale" not in said
        assert "UNEQUAL" not in whole_of(state, claims.all_claims)


def test_a_best_setting_that_came_late_stands_beside_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "labwright.record.tuning_results.MIN_TRIALS_FOR_TREND", 3
    )  # trials of smooth, of which the last is the best
    state = make_tuning_run(stale=False).state
    claims = build_paper_claims(state)
    assert [one.basis_text for one in claims.differences] == ["exploratory, tuning not converged, unanchored"]
    assert "The best setting of smooth was found so late" in " ".join(list_disclosures(state, claims.means))
    assert "& the best came late: not converged" in plain(whole_of(state, claims.all_claims))


def test_the_disclosure_has_every_trial_and_plain_scripts_say_that_nothing_was_tuned() -> None:
    found = json.loads(format_disclosure(STALE, isolation="", text_round=0))
    assert [(one["arm"], one["number"], one["outcome"]) for one in found["tuning"]["trials"]][2:8] == [
        *(("plain", n, "measured") for n in (1, 2, 3)),
        ("smooth", 1, "measured"),
        ("smooth", 2, "failed"),
        ("smooth", 3, "measured"),
    ]
    assert [one["arm"] for one in found["parity"]] == ["plain", "smooth"]
    scripts = make_sample().state
    assert build_tuning_report(scripts) is None and compute_parity(scripts) == ()
    assert "were not tuned by the program" in plain(whole_of(scripts, []))
    assert "tuned" not in " ".join(list_disclosures(scripts, []))


def test_ranges_options_and_defaults_of_hyperparameters_may_be_printed() -> None:
    printed = {key: value.tex for key, value in format_setups(STALE).items() if key.startswith("space.")}
    [rate] = [one for one in build_effective_plan(STALE).space if one.name == "learning_rate"]
    assert float(printed["space.learning_rate.high"]) == rate.high and "space.learning_rate.low" in printed
    assert "space.learning_rate.default" in printed
    choice = rate.model_copy(update={"kind": "choice", "low": None, "high": None, "options": (0.1, 0.5, 1)})
    plan = STALE.search.data_plan
    assert plan is not None
    changed = replace(STALE, search=replace(STALE.search, data_plan=plan.model_copy(update={"space": (choice,)})))
    printed = {key: value.tex for key, value in format_setups(replace(changed, decisions={})).items()}
    assert (printed["space.learning_rate"], printed["space.learning_rate.values"]) == ("0.1, 0.5, 1", "3")


@pytest.mark.slow
@pytest.mark.bench  # a test of a whole run typesets such a paper too
def test_tables_and_sentences_are_typeset_and_tied(tmp_path: Path) -> None:
    assert STALE.search.data_plan is not None
    body = r"\papertable{main} " + list_disclosures(STALE, CLAIMS.means)[2]
    parts = synthetic_paper.make_short_paper(tmp_path, body)
    evidence = replace(
        parts.evidence,
        results=format_claims(CLAIMS.all_claims),
        setups=format_setups(STALE),
        names=(),
        tables=frozenset({"main"}),
        plan=STALE.search.data_plan,
    )
    made = asyncio.run(
        assess_paper(
            replace(
                parts,
                evidence=evidence,
                appendix=whole_of(STALE, CLAIMS.all_claims),
                tables=build_result_tables(CLAIMS.means, STALE.search.data_plan, differences=CLAIMS.differences),
            ),
            load_template("conference"),
            tmp_path / "paper",
        )
    )
    assert made.pdf is not None and made.violations == ()
    assert all(one.text.startswith("the character") for one in made.findings), "only what the story's text has"
