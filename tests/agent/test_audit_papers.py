"""The generated parts of a paper are made again from the record and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.audit import AuditReport, audit
from labwright.agent.cli.audit import run_lines
from labwright.record.events.papers import Released
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


def test_the_same_said_of_many_files_is_a_few_lines() -> None:
    report = AuditReport()
    for number in range(500):
        report.add("missing", f"nodes/n{number}", "the record names it, but it is missing")
    report.add("unbound", "paper.tex", "0.9 is no value of the record")
    lines = [one.plain for one in run_lines(report)]
    assert len(lines) == 20 + 1 + 1 + 2 and "and 480 more" in lines[20] and lines[21].startswith("unbound: paper.tex")
    assert lines[-1] == "501 findings: 1 unbound"
