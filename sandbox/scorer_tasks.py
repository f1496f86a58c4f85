"""Tasks of frozen scorers: the submissions of one attempt for one dataset and split, in their own folder.

Guarantees: the scorer is the frozen one; it runs in a kernel without the experiment's code, and sees only the labels of
its split. Artifacts are copied as bytes and opened only there.

Limits: an artifact that runs code when opened (a pickle) runs it in the scorer's process and could write its own
scores. A scorer must only read pure data formats (.npz, safetensors, `torch.load(weights_only=True)`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from labwright.record.schema.data_plan import FrozenScorer, Measurement, Split
from labwright.record.schema.frozen_model import replace_unencodable
from labwright.record.untrusted_files import MAX_FILE_BYTES, MAX_LINE_BYTES, copy_file, raise_read_errors_as, read_lines
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.scoring import Submission, read_truth_labels
from labwright.sandbox.workspace import KernelScript, list_dataset_folders

SCORER_ENTRY = "evaluate.py"
_DRIVER_PATH = Path(__file__).with_name("scorer_driver.py")


@dataclass(frozen=True)
class ScorerTask:
    """Submissions of one dataset and split, with their scorer."""

    scorer: FrozenScorer
    scorer_text: str
    split: Split
    submissions: tuple[Submission, ...]


def build_scorer_tasks(
    submissions: Sequence[Submission], split: Split, scorers: Mapping[str, tuple[FrozenScorer, str]]
) -> list[ScorerTask]:
    """Build the tasks; for predictions, only final ones. Raises `SubmissionRefused` for artifacts without a scorer."""
    tasks: list[ScorerTask] = []
    final = [submission for submission in submissions if submission.split == split and submission.step is None]
    takers = {name for name, (scorer, _) in scorers.items() if scorer.takes == "artifact"}
    for submission in final:
        if submission.kind == "artifact" and submission.dataset not in takers:
            raise SubmissionRefused(
                f"{submission.description}: this run has no scorer for artifacts of {submission.dataset!r}"
            )
    for dataset, (scorer, text) in scorers.items():
        taken = tuple(
            submission
            for submission in final
            if submission.dataset == dataset and (submission.kind == "artifact") == (scorer.takes == "artifact")
        )
        if taken:
            tasks.append(ScorerTask(scorer, text, split, taken))
    return tasks


def prepare_scorer_folder(
    task: ScorerTask, script: KernelScript, submissions_folder: Path, *, views: Path, labels: Path, limit: int
) -> KernelScript:
    """Fill the script's empty folder from `submissions_folder` and return the script with what it reads.

    `limit` is the total size of artifacts in bytes. Raises `SubmissionRefused`.
    """
    dataset, target, left = task.scorer.dataset, script.folder, limit
    view = (views / f"{dataset}.npz").absolute()
    for name, text in ((SCORER_ENTRY, _DRIVER_PATH.read_text()), ("scorer.py", task.scorer_text)):
        (target / name).write_text(text)
    for submission in task.submissions:
        artifact, to = submission.kind == "artifact", f"submissions/{submission.file}"
        copy_file(submissions_folder, submission.file, target, to, left if artifact else MAX_FILE_BYTES)
        left -= (target / to).stat().st_size if artifact else 0
    if (labels / f"{dataset}.npz").is_file():
        np.save(target / "truth.npy", read_truth_labels(labels, task.submissions[0])[0])
    (target / "task.json").write_text(
        json.dumps(
            {
                "function": task.scorer.function,
                "split": task.split,
                "view": str(view),
                "submissions": [submission.model_dump(exclude={"grade", "step"}) for submission in task.submissions],
            }
        )
    )
    return replace(script, views={dataset: str(view)}, readable=list_dataset_folders((dataset,), views))


def read_scores(task: ScorerTask, folder: Path, *, seed: int) -> tuple[Measurement, ...]:
    """Read the scorer's values of every metric for every submission. Raises `SubmissionRefused`."""
    limit = MAX_LINE_BYTES * len(task.submissions)
    with raise_read_errors_as(f"the scorer of {task.scorer.dataset!r} wrote no valid scores", SubmissionRefused):
        lines: list[Any] = [json.loads(line) for line in read_lines(folder, "scores.jsonl", limit)]
        answers = {int(line["number"]): line for line in lines}
    measurements: list[Measurement] = []
    for number, submission in enumerate(task.submissions):
        answer: Any = answers.get(number, {})
        where = f"the scorer of {task.scorer.dataset!r} on {submission.description}"
        if answer.get("error"):
            raise SubmissionRefused(f"{where}: {replace_unencodable(str(answer['error']))}")
        values: Any = answer.get("values")
        for metric in task.scorer.metrics:
            value = cast("dict[str, Any]", values).get(metric.name) if isinstance(values, dict) else None
            if not isinstance(value, float) or not math.isfinite(value):  # the driver writes only floats
                raise SubmissionRefused(f"{where} returned {value!r} for {metric.name!r}, which is not a finite number")
            measurements.append(submission.to_measurement(metric.name, value, seed=seed))
    return tuple(measurements)
