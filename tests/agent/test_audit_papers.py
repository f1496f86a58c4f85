"""The generated parts of a paper are made again from the record and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.audit import AuditReport, audit_run
from labwright.agent.cli.trace import format_run_audit
from labwright.record.events.paper_events import PaperReleased
from tests.inspector.sample_run import make_ended
from tests.inspector.test_logs import written
from tests.stages import finished_run

pytestmark = pytest.mark.slow


def test_a_paper_is_made_again_and_compared(tmp_path: Path) -> None:
    now = PaperReleased(released=True, pdf=None, pages=4)
    report = audit_run(finished_run.write_run(tmp_path / "run", now))
    assert report.counts["paper sources"] >= 3
    assert "paper/paper.tex" in [one.where for one in report.findings if one.kind == "changed"]


def test_a_paper_that_the_record_holds_no_text_of_is_a_finding(tmp_path: Path) -> None:
    found = audit_run(written(tmp_path / "calm", make_ended())).findings
    assert ("missing", "paper") in [(one.kind, one.where) for one in found]


def test_the_same_said_of_many_files_is_a_few_lines() -> None:
    report = AuditReport()
    for number in range(500):
        report.add("missing", f"nodes/n{number}", "the record names it, but it is missing")
    report.add("unbound", "paper.tex", "0.9 is no value of the record")
    lines = [one.plain for one in format_run_audit(report)]
    assert len(lines) == 20 + 1 + 1 + 2 and "and 480 more" in lines[20] and lines[21].startswith("unbound: paper.tex")
    assert lines[-1] == "501 findings: 1 unbound"
