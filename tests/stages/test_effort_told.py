"""What a paper tells of tuning: effort, settings, curves, parity, stale settings and published anchors."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.claims.means import Claim
from labwright.record.claims.printing import printed, setups
from labwright.record.effort import account_of, parity_of
from labwright.record.fold.state import RunState
from labwright.record.nouns.tuning import Anchor
from labwright.stages.paper.appendix import disclosures, supplement
from labwright.stages.paper.disclosure import disclosure
from labwright.stages.paper.effort import drawn
from labwright.stages.paper.material import PaperClaims, claims_of
from labwright.stages.paper.tables import tables
from labwright.stages.paper.template import load
from labwright.stages.paper.typeset import assess
from tests.inspector.story import told
from tests.inspector.tuned import tuned
from tests.paper import synthetic
from tests.paper.test_pieces import typed

STALE = tuned().state
CLAIMS = claims_of(STALE)


def whole_of(state: RunState, claims: Sequence[Claim]) -> str:
    return supplement(state, claims, title="T", authors="A")


def plain(text: str) -> str:
    return " ".join(text.replace("\\allowbreak{}", "").replace("\\rec{", "").replace("}", "").split())


def anchored(value: float) -> tuple[RunState, PaperClaims]:
    """The run whose tuning stands, with this value published of its baseline."""
    state = tuned(stale=False).state
    assert state.data_plan is not None
    state.data_plan = state.data_plan.model_copy(
        update={
            "anchors": (
                Anchor(
                    arm="plain", dataset="digits", metric="log_loss", value=value, tolerance=0.05, source="Doe 2019"
                ),
            )
        }
    )
    return state, claims_of(state)


def test_the_supplement_has_what_each_arm_was_given_and_what_was_chosen() -> None:
    whole = whole_of(STALE, CLAIMS.every)
    text = plain(whole)
    for words in (
        "Each arm was to have 3 trials, its defaults among them. A trial",
        "plain & 3 & 1 & 12 & 1.00 & 1.00 & UNEQUAL: less than the others",
        "smooth & 3 & 2 & 18 & 1.25 & 1.50 & stale: not tuned on the reported code",
        r"smooth & 3 & learning\_rate & 0.0011 & 0.01 & 0.0001 to 0.1, log & Adam's paper",
        r"learning\_rate] now 0.0001 to 0.1, after a choice of smooth",
        "a Gaussian process after a few",
        "smooth & 5 & 100 & 4000 & -- & 3 & rows, seconds (against plain)",
        "n0003 & n0001 & tuning & trial & good & 1 & smooth: 3 trials",
    ):
        assert words in text, words
    assert r"\pm$ \setup{anchor.digits.log_loss.plain.tolerance}" in whole
    drawing = re.compile(r"\\setlength\\unitlength.*?\\end\{picture\}", re.DOTALL)
    [picture] = drawing.findall(whole)
    assert typed(drawing.sub("", whole).replace("3pt", "")) == []
    assert typed(re.sub(r"\\(?:begin\{picture\}|put|makebox)\([^\[{]*|\{\\pdfliteral\{.*|1bp", "", picture)) == []


def test_a_curve_ends_at_the_best_of_all_trials_and_goes_in_the_metrics_direction() -> None:
    account = account_of(STALE)
    assert account is not None and [one.best for one in account.arms] == [0.55, 0.4]
    smooth = account.arms[1].curve  # of 0.5, 0.45 and 0.4: the third trial failed
    assert smooth == pytest.approx((0.45, 0.4278, 0.4167), abs=1e-4)
    picture = drawn({"a": (3.0, 2.0), "b": (1.0,)}, across="trials", up="loss")
    assert "95.00 0.00 m" in picture and picture.count(r"\scriptsize \rec{") == 5 + 2
    assert drawn({"a": (0.5, 0.5)}, across="trials", up="loss"), "values that are all the same have an axis, too"


def test_the_text_must_tell_what_is_unequal_stale_or_unanchored() -> None:
    lines = " ".join(disclosures(STALE, CLAIMS.means))
    for words in (
        "not tuned with equal effort: plain got less",
        "hyperparameters of smooth were not tuned, as far",
        r"plain reaches \result{test/digits/log_loss/plain.mean}",
        "smooth and plain are not equal in rows and seconds;",
    ):
        assert words in lines, words
    assert [one.verdict for one in CLAIMS.differences] == ["improved, stale tuning, unanchored"]
    assert STALE.data_plan is not None
    [main] = tables(CLAIMS.means, STALE.data_plan, differences=CLAIMS.differences)
    assert "Stale tuning: Smooth against Plain. Unanchored: Smooth against Plain. Published of Plain on" in main.caption
    assert typed(main.caption) == []
    for value, verdict in ((0.3, "improved, unanchored"), (0.52, "improved")):
        state, claims = anchored(value)
        assert [one.verdict for one in claims.differences] == [verdict]
        said = " ".join(disclosures(state, claims.means))
        assert ("unanchored" in said) == (value == 0.3) and "equal effort" not in said and "stale" not in said
        assert "UNEQUAL" not in whole_of(state, claims.every)


def test_a_best_setting_that_came_late_stands_beside_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labwright.record.tuning.FEWEST", 3)  # trials of smooth, of which the last is the best
    state = tuned(stale=False).state
    claims = claims_of(state)
    assert [one.verdict for one in claims.differences] == ["improved, tuning not converged, unanchored"]
    assert "The best setting of smooth came so late" in " ".join(disclosures(state, claims.means))
    assert "& the best came late: not converged" in plain(whole_of(state, claims.every))


def test_the_disclosure_has_every_trial_and_plain_scripts_say_that_nothing_was_tuned() -> None:
    found = json.loads(disclosure(STALE, isolation="", text=0))
    assert [(one["arm"], one["number"], one["outcome"]) for one in found["tuning"]["trials"]][2:8] == [
        *(("plain", n, "measured") for n in (1, 2, 3)),
        ("smooth", 1, "measured"),
        ("smooth", 2, "failed"),
        ("smooth", 3, "measured"),
    ]
    assert [one["arm"] for one in found["parity"]] == ["plain", "smooth"]
    scripts = told().state
    assert account_of(scripts) is None and parity_of(scripts) == ()
    assert "were not tuned by the program" in plain(whole_of(scripts, []))
    assert "tuned" not in " ".join(disclosures(scripts, []))


@pytest.mark.slow
@pytest.mark.bench  # a test of a whole run typesets such a paper too
def test_tables_curves_and_sentences_are_typeset_and_tied(tmp_path: Path) -> None:
    assert STALE.data_plan is not None
    body = r"\papertable{main} " + disclosures(STALE, CLAIMS.means)[2]
    parts = synthetic.bare(tmp_path, body)
    evidence = replace(
        parts.evidence,
        results=printed(CLAIMS.every),
        setups=setups(STALE),
        names=(),
        tables=frozenset({"main"}),
        plan=STALE.data_plan,
    )
    made = asyncio.run(
        assess(
            replace(
                parts,
                evidence=evidence,
                supplement=whole_of(STALE, CLAIMS.every),
                tables=tables(CLAIMS.means, STALE.data_plan, differences=CLAIMS.differences),
            ),
            load("conference"),
            tmp_path / "paper",
        )
    )
    assert made.pdf is not None and made.violations == ()
    assert all(one.text.startswith("the character") for one in made.findings), "only what the story's text has"
