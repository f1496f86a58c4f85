"""The facts that a judge gets with an external paper."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers.verdicts import collect_audit_facts

FILLER = "We compare two rules on points that a generator draws. " * 8
OUT = {
    "0": {"rmse": 1.2345, "ndcg": 0.8123},
    "1": {"rmse": 1.3456, "ndcg": 0.8234},
    "2": {"rmse": 1.4567, "ndcg": 0.8345},
}
TEXT = "The errors are 1.2345, 1.3456 and 1.4567. The gains are 0.8123, 0.8234 and 0.8345.\n"


def facts(folder: Path, text: str) -> AuditFacts:
    """The facts on a small paper with this section of results."""
    (folder / "results").mkdir()
    (folder / "results" / "out.json").write_text(json.dumps(OUT))
    (folder / "paper.md").write_text(
        f"# Rules\n\n## Abstract\n\nWe measure it. {FILLER}\n\n## Method\n\n{FILLER}\n\n## Results\n\n{text}\n"
    )
    return asyncio.run(collect_audit_facts(folder / "paper.md", results=folder / "results"))


def test_sizes_years_and_settings_are_not_missed_and_a_result_is(tmp_path: Path) -> None:
    settings = "| setting | value |\n|---|---|\n| rate | 0.0375 |\n| rows | 12,000 |\n"
    text = f"{TEXT}Of 12,000 rows, as in 1998, 7,431 are kept. The loss is 0.5713, as 17 of 20 (80%).\n\n{settings}"
    found = facts(tmp_path, text)
    assert found.counts[0] == ("found", 6) and found.findings == (
        "in no result file: 0.5713 (results, Results)",
        "count, results, Results: '17 of 20 (80%)': 17 of 20 is 85 %",
    )
