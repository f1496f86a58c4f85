"""The facts that a judge gets with an external paper."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers import collect_audit_facts

FILLER = "We compare two rules on points that a generator draws. " * 8
RUN = """import json
from data import read
SEEDS, EPOCHS = [0, 1, 2], 40
out = {}
for seed in SEEDS:
    x, y = read(seed)
    out[seed] = {"rmse": error(x, y), "ndcg": rank(x, y)}
    print(f"seed {seed}: rmse {out[seed]['rmse']:.4f} ndcg {out[seed]['ndcg']:.4f}")
json.dump(out, open("results/out.json", "w"))
"""
OUT = {
    "0": {"rmse": 1.2345, "ndcg": 0.8123},
    "1": {"rmse": 1.3456, "ndcg": 0.8234},
    "2": {"rmse": 1.4567, "ndcg": 0.8345},
}
LOG = "".join(f"seed {seed}: rmse {one['rmse']:.4f} ndcg {one['ndcg']:.4f}\n" for seed, one in OUT.items())
TEXT = "The errors are 1.2345, 1.3456 and 1.4567. The gains are 0.8123, 0.8234 and 0.8345.\n"


def facts(
    folder: Path, text: str = TEXT, *, code: Mapping[str, str] | None = None, results: Mapping[str, str] | None = None
) -> AuditFacts:
    """The facts on a small paper with this section of results."""
    given = {
        "results": {"out.json": json.dumps(OUT), "log.txt": LOG, **(results or {})},
        "code": {"run.py": RUN, **(code or {})},
    }
    for name, files in given.items():
        (folder / name).mkdir()
        for file, body in files.items():
            (folder / name / file).write_text(body)
    (folder / "paper.md").write_text(
        f"# Rules\n\n## Abstract\n\nWe measure it. {FILLER}\n\n## Method\n\n{FILLER}\n\n## Results\n\n{text}\n"
    )
    return asyncio.run(collect_audit_facts(folder / "paper.md", results=folder / "results", code=folder / "code"))


def numbers(found: AuditFacts) -> list[str]:
    return [line for line in found.provenance if line.startswith("numbers of the paper")]


def test_numbers_that_a_script_prints_or_writes_are_named_as_such(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert found.ran == ("run.py",) and found.findings == ()
    assert numbers(found) == [
        "numbers of the paper on log lines that the code prints: 3",
        "numbers of the paper in files that the code names for writing: 3",
    ]
    assert found.counts == (("found", 6), ("derivable", 0), ("ambiguous", 0), ("unsupported", 0))


def test_numbers_typed_in_the_script_that_writes_them_are_named_with_the_line(tmp_path: Path) -> None:
    code = {"table.py": "import json\n\njson.dump({'ndcg': 0.9134}, open('results/table.json', 'w'))\n"}
    found = facts(tmp_path, "The gain is 0.9134.\n", code=code, results={"table.json": '{"ndcg": 0.9134}'})
    assert numbers(found) == [
        "numbers of the paper typed in the code that prints or writes them: 1, such as 0.9134 (table.py:3)"
    ]
    assert found.findings == (), "where a number stands is a fact; what it means is for a judge"


def test_sizes_years_and_settings_are_not_missed_and_a_result_is(tmp_path: Path) -> None:
    settings = "| setting | value |\n|---|---|\n| rate | 0.0375 |\n| rows | 12,000 |\n"
    text = f"{TEXT}Of 12,000 rows, as in 1998, 7,431 are kept. The loss is 0.5713, as 17 of 20 (80%).\n\n{settings}"
    assert facts(tmp_path, text).findings == (
        "in no result file: 0.5713 (results, Results)",
        "count, results, Results: '17 of 20 (80%)': 17 of 20 is 85 %",
    )
