"""`python -m labwright.evals.agreement.human_study --out FILE`: agreement in the public human study of MLR-Bench.

Reads ../shared/data/mlr-bench (half of the study: five of ten tasks), or the folder given with --data; skipped with
a reason if it does not exist. The report shows that the means of the stored judge files equal llm_judge.csv, cell
by cell; the agreement with its controls; and how it changes if reviews that were clearly entered wrong (one
reviewer has two reviews of a paper and none of the next one) are dropped, or read as the missing one.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from labwright.evals.agreement.report import JudgeAgreementReport, build_agreement

DATA_FOLDER = Path(__file__).parents[3] / "shared" / "data" / "mlr-bench"
DIMENSIONS = ("Clarity", "Novelty", "Soundness", "Significance", "Overall")
KEY_COLUMNS = ("workshop_name", "model_name")
DUPLICATED_REVIEW = {"reviewer_id": "6", "model_name": "o4-mini", "workshop_name": "iclr2025_wsl"}
MISSING_REVIEW = {"model_name": "claude", "workshop_name": "iclr2025_bi_align"}


def compare_cells(data: Path) -> dict[str, Any]:
    """Compare each cell of llm_judge.csv with the mean over judges of the stored reviews of that paper."""
    judges = sorted(path.name for path in (data / "reviews").iterdir())
    equal, unlike = 0, list[str]()
    for row in _read_rows(data / "llm_judge.csv"):
        task, system = (row[name] for name in KEY_COLUMNS)
        files = [data / "reviews" / judge / task / f"review_{system}.json" for judge in judges]
        given = [json.loads(file.read_text()) for file in files]
        for name in DIMENSIONS:
            mean = fmean(one[name]["score"] for one in given)
            if abs(mean - float(row[name])) < 1e-9:
                equal += 1
            else:
                unlike.append(f"{task}/{system} {name}: {mean} in the files, {row[name]} in the table")
    return {"judges": judges, "cells": equal + len(unlike), "equal": equal, "unlike": unlike}


def compute_readings(data: Path) -> dict[str, JudgeAgreementReport]:
    """Return the agreement from the files as they are, without the duplicated reviews, and with the first one moved."""
    rows = _read_rows(data / "human_review.csv")
    twice = [row for row in rows if all(row[key] == value for key, value in DUPLICATED_REVIEW.items())]
    moved = [row | MISSING_REVIEW if row is twice[0] else row for row in rows] if twice else rows
    judge = data / "llm_judge.csv"
    with tempfile.TemporaryDirectory() as name:
        without = _write_rows(Path(name) / "without.csv", [row for row in rows if row not in twice])
        return {
            "unchanged": build_agreement(data / "human_review.csv", judge),
            "without the duplicated reviews": build_agreement(without, judge),
            "the first duplicated review as the missing one": build_agreement(
                _write_rows(Path(name) / "moved.csv", moved), judge
            ),
        }


def _read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _write_rows(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=DATA_FOLDER)
    given = parser.parse_args(arguments)
    if not (given.data / "human_review.csv").is_file():
        given.out.write_text(json.dumps({"skipped": f"{given.data / 'human_review.csv'} does not exist"}, indent=1))
        print(f"skipped: {given.data} does not exist")
        return 0
    found = compare_cells(given.data)
    read = compute_readings(given.data)
    given.out.write_text(
        json.dumps(
            {"cells": found, "readings": {name: one.model_dump(mode="json") for name, one in read.items()}}, indent=1
        )
    )
    print(f"{found['equal']} of {found['cells']} cells of llm_judge.csv equal the means of the stored reviews")
    for name, one in read.items():
        for line in one.dimensions:
            rho = "-" if line.spearman is None else f"{line.spearman.value:.4f}"
            print(
                f"{name}: {line.dimension}: |j-h| {line.judge_human:.4f}, |h-h| {line.human_human:.4f}, U p "
                f"{line.u.p:.4f}, rho {rho}, permuted p {line.shuffled.p:.4f}, always "
                f"{line.best_constant.score} {line.best_constant.distance:.4f}"
            )
    return 0 if found["equal"] == found["cells"] else 1


if __name__ == "__main__":
    sys.exit(main())
