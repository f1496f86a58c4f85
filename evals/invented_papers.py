"""`python -m labwright.evals.invented_papers PAPERS --model M [--base-url URL] [--view all|paper] [--limit N]
[--out FILE]`: test the judge on papers known to be fabricated or honest.

PAPERS has one folder per paper (`paper.md`, `code/`, `results/`, optionally `*.log`), and `truth.json`: a list of
`{name, honest, kind, ...}`. The report has AUROC, recall and false alarms for the judge's statement on the results,
its overall score and its score from the text alone, and the papers called fabricated by kind. `--out FILE` is
written after each paper; papers in it are not judged again. A paper without a judgement counts as missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from labwright.agent.cli.commands import Judge
from labwright.agent.cli.judge import attach_evidence
from labwright.agent.forecast import open_model
from labwright.evals.agreement.invented_detection import RESULTS_COLUMN, SUSPICION, list_thresholds, read_truth
from labwright.evals.agreement.scores import ScaleRange, normalize_column
from labwright.evals.detection import Detection, build_detection_table, compute_detection, list_notes
from labwright.evals.intervals import compute_proportion
from labwright.models.client import Models
from labwright.models.roles.judge import JUDGE
from labwright.models.settings import ModelSettings
from labwright.record.errors import UsageError, UserError
from labwright.record.run_folder import write_file
from labwright.record.schema.paper import Judgement, JudgeView
from labwright.review.external_papers.verdicts import collect_audit_facts
from labwright.review.judge.guards import guard_paper
from labwright.review.judge.judge import JudgeCase, judge_case, read_rubric
from labwright.review.judge.paper_reader import read_paper

OVERALL_FIGURE, TEXT_ALONE_FIGURE = "overall", "text alone"
LOG_PATTERNS = ("*.log", "results/*.log", "code/*.log", "results/log*.txt", "code/log*.txt")


async def judge_paper(folder: Path, models: Models, view: JudgeView) -> Judgement:
    """Judge the paper in a folder. Raises `ModelError`, `JudgeError`, `ResultsError`, `TexError`."""
    paper = folder / "paper.md"
    code, results = (one if one.is_dir() else None for one in (folder / "code", folder / "results"))
    logs = sorted(path for pattern in LOG_PATTERNS for path in folder.glob(pattern))
    args = Judge(code=code, results=results, log=logs[0] if logs else None, view=view)
    audit = await collect_audit_facts(paper, results=results) if view == "all" else None
    case, client = (
        JudgeCase(await guard_paper(await read_paper(paper)), read_rubric(), paper.name),
        models.make_client(0, 0),
    )
    case = await attach_evidence(case, args, audit, [client])
    return await judge_case(case, client, model=models.get_model_name(JUDGE))


def compute_suspicions(rows: Mapping[str, Judgement]) -> dict[str, dict[str, float]]:
    """Return the suspicion by score and paper."""
    found: dict[str, dict[str, float]] = {RESULTS_COLUMN: {}, OVERALL_FIGURE: {}, TEXT_ALONE_FIGURE: {}}
    for name, one in rows.items():
        if one.results is not None:
            found[RESULTS_COLUMN][name] = SUSPICION[normalize_column(one.results.answer)]
        if one.text_alone is not None:
            found[TEXT_ALONE_FIGURE][name] = -float(one.text_alone.score)
        for score in one.scores:
            if score.dimension == OVERALL_FIGURE:
                found[OVERALL_FIGURE][name] = -float(score.score)
    return found


def measure_figures(rows: Mapping[str, Judgement], labels: Mapping[str, bool]) -> list[Detection]:
    """Return how well each score detects fabrication."""
    return [
        compute_detection(figure, values, labels, list_thresholds(figure, ScaleRange()))
        for figure, values in compute_suspicions(rows).items()
    ]


def format_kinds(rows: Mapping[str, Judgement], entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return how many papers of each kind were called fabricated."""
    found: dict[str, list[bool]] = {}
    for one in entries:
        if (judgement := rows.get(str(one["name"]))) is not None and judgement.results is not None:
            kind = f"{'honest' if one['honest'] else 'invented'}, {one.get('kind') or 'no kind'}"
            found.setdefault(kind, []).append(judgement.results.answer == "invented")
    return {kind: str(compute_proportion(sum(called), len(called))) for kind, called in sorted(found.items())}


def read_stored(out: Path | None) -> dict[str, Judgement]:
    """Read the judgements stored in an output file."""
    if out is None or not out.exists():
        return {}
    found = cast("Mapping[str, Any]", json.loads(out.read_text(encoding="utf-8")))["judgements"]
    return {name: Judgement.model_validate(one) for name, one in found.items()}


async def judge_papers(
    folder: Path, names: Sequence[str], models: Models, view: JudgeView, out: Path | None
) -> dict[str, Judgement]:
    """Judge the papers, saving after each."""
    rows = read_stored(out)
    for name in names:
        if name in rows:
            continue
        try:
            rows[name] = await judge_paper(folder / name, models, view)
            print(f"{name}: {rows[name].score_line}", flush=True)
        except (UserError, UsageError) as error:
            print(f"{name}: no judgement: {error}", flush=True)
        _save_rows(out, rows)
    return rows


def _save_rows(out: Path | None, rows: Mapping[str, Judgement], **more: Any) -> None:
    if out is not None:
        found = {"judgements": {name: one.model_dump(mode="json") for name, one in rows.items()}, **more}
        write_file(out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("papers", type=Path)
    parser.add_argument("--model", required=True, help="the judge")
    parser.add_argument("--base-url")
    parser.add_argument("--view", choices=get_args(JudgeView), default="all")
    parser.add_argument("--limit", type=int, help="judge only the first N papers of truth.json")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    entries = cast("list[dict[str, Any]]", json.loads((given.papers / "truth.json").read_text()))[: given.limit]
    names = [str(one["name"]) for one in entries]
    labels = {name: one for name, one in read_truth(given.papers / "truth.json").items() if name in names}
    models = open_model(ModelSettings(name=given.model, base_url=given.base_url))
    rows = asyncio.run(judge_papers(given.papers, names, models, given.view, given.out))
    found, by_kind = measure_figures(rows, labels), format_kinds(rows, entries)
    notes = (f"{one.figure}: {note}" for one in found for note in list_notes(one))
    print(
        build_detection_table(found).to_markdown(),
        *notes,
        *(f"{kind}: {one}" for kind, one in by_kind.items()),
        sep="\n",
    )
    _save_rows(given.out, rows, report=[one.model_dump(mode="json") for one in found], kinds=by_kind)


if __name__ == "__main__":
    main()
