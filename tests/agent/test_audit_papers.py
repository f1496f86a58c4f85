"""The generated parts of a paper are made again from the record and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.audit import audit
from record.events.papers import Released
from tests.inspector.story import ended
from tests.inspector.test_logs import written
from tests.stages import finished

pytestmark = pytest.mark.slow

def test_a_paper_is_made_again_and_compared(tmp_path: Path) -> None:
    now = Released(released=True, pdf=None, pages=4)
    report = audit(finished.written(tmp_path / "run", now))
    assert report.counts["paper sources"] >= 3
    assert "paper/paper.tex" in [one.where for one in report.findings if one.kind == "changed"]


def test_a_paper_that_the_record_holds_no_text_of_is_a_finding(tmp_path: Path) -> None:
    found = audit(written(tmp_path / "calm", ended())).findings
    assert ("missing", "paper") in [(one.kind, one.where) for one in found]
