"""Papers of earlier versions: their generated parts had another form, and are held to their hashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.audit import audit
from record.events.papers import RULES, Released
from tests.inspector.story import ended
from tests.inspector.test_logs import written
from tests.stages import finished

pytestmark = pytest.mark.slow

HASHES = "paper sources of an earlier form, by their hashes"


def test_a_paper_released_under_earlier_rules_is_held_to_its_hashes(tmp_path: Path) -> None:
    run = finished.written(tmp_path / "run")
    report = audit(run)
    assert report.counts[HASHES] == 1 and "paper sources" not in report.counts
    assert not [one for one in report.findings if one.kind == "changed" and one.where.startswith("paper/")]
    (run / "paper" / "paper.tex").write_text("something else")
    assert [one.where for one in audit(run).findings if one.kind == "changed" and one.where.startswith("paper/")] == [
        "paper/paper.tex"]


def test_a_paper_of_these_rules_is_made_again_and_compared(tmp_path: Path) -> None:
    now = Released(released=True, pdf=None, pages=4, rules=RULES)
    report = audit(finished.written(tmp_path / "run", now))
    assert report.counts["paper sources"] >= 3 and HASHES not in report.counts
    assert "paper/paper.tex" in [one.where for one in report.findings if one.kind == "changed"]


def test_a_paper_that_the_record_holds_no_text_of_is_a_finding(tmp_path: Path) -> None:
    found = audit(written(tmp_path / "calm", ended())).findings
    assert ("missing", "paper") in [(one.kind, one.where) for one in found]
