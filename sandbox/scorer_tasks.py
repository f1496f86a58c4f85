"""What a frozen scorer is run on: the submissions of one attempt for one dataset and split, in a folder of its own.

Kept: the scorer is the one that was frozen; it runs in a kernel that the experiment's code is not in, and sees of the
labels those of the split alone. Artifacts are copied as bytes and opened only in there.

Not kept: an artifact that runs code when it is opened (a pickle) runs it beside the scorer, and could write its own
scores. A scorer must read formats that hold data alone (.npz, safetensors, `torch.load(weights_only=True)`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from labwright.record.nouns.data import Measurement, Scorer, Split
from labwright.record.nouns.frozen import encodable
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.execution import Script
from labwright.sandbox.job import Job
from labwright.sandbox.scoring import Submission, truth_of
from labwright.sandbox.untrusted import FILE_BYTES, copy_file, read_as, read_lines
from labwright.sandbox.workspace import dataset_folders

ENTRY = "evaluate.py"
_DRIVER = Path(__file__).with_name("scorer_driver.py")


@dataclass(frozen=True)
class Task:
    """Submissions of one dataset and split, with the scorer that takes them."""

    scorer: Scorer
    text: str
    split: Split
    submissions: tuple[Submission, ...]


def tasks_of(submissions: Sequence[Submission], split: Split, scorers: Mapping[str, tuple[Scorer, str]]) -> list[Task]:
    """What is to be scored; of predictions the final ones. Raises `SubmissionRefused` for artifacts nobody takes."""
    tasks: list[Task] = []
    final = [submission for submission in submissions if submission.split == split and submission.step is None]
    takers = {name for name, (scorer, _) in scorers.items() if scorer.takes == "artifact"}
    for submission in final:
        if submission.kind == "artifact" and submission.dataset not in takers:
            raise SubmissionRefused(
                f"{submission.where}: no scorer of this run takes artifacts of {submission.dataset!r}"
            )
    for dataset, (scorer, text) in scorers.items():
        taken = tuple(
            submission
            for submission in final
            if submission.dataset == dataset and (submission.kind == "artifact") == (scorer.takes == "artifact")
        )
        if taken:
            tasks.append(Task(scorer, text, split, taken))
    return tasks


def lay_out(task: Task, job: Job, place: Path, *, views: Path, labels: Path, limit: int) -> Script:
    """Fill the job's empty folder from the submissions in `place`; what to run in it.

    `limit` is in bytes, of all artifacts. Raises `SubmissionRefused`.
    """
    dataset, target, left = task.scorer.dataset, job.folder, limit
    view = (views / f"{dataset}.npz").absolute()
    for name, text in ((ENTRY, _DRIVER.read_text()), ("scorer.py", task.text)):
        (target / name).write_text(text)
    for submission in task.submissions:
        artifact, to = submission.kind == "artifact", f"submissions/{submission.file}"
        copy_file(place, submission.file, target, to, left if artifact else FILE_BYTES)
        left -= (target / to).stat().st_size if artifact else 0
    if (labels / f"{dataset}.npz").is_file():
        np.save(target / "truth.npy", truth_of(labels, task.submissions[0])[0])
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
    return Script(job, target, views={dataset: str(view)}, readable=dataset_folders((dataset,), views))


def read_scores(task: Task, folder: Path, *, seed: int) -> tuple[Measurement, ...]:
    """The values that the scorer gave, every metric for every submission. Raises `SubmissionRefused`."""
    with read_as(f"the scorer of {task.scorer.dataset!r} left no scores", SubmissionRefused):
        lines: list[Any] = [json.loads(line) for line in read_lines(folder, "scores.jsonl", FILE_BYTES)]
        answers = {int(line["number"]): line for line in lines}
    measurements: list[Measurement] = []
    for number, submission in enumerate(task.submissions):
        answer: Any = answers.get(number, {})
        where = f"the scorer of {task.scorer.dataset!r} on {submission.where}"
        if answer.get("error"):
            raise SubmissionRefused(f"{where}: {encodable(str(answer['error']))}")
        values: Any = answer.get("values")
        for metric in task.scorer.metrics:
            value = cast("dict[str, Any]", values).get(metric.name) if isinstance(values, dict) else None
            if not isinstance(value, float) or not math.isfinite(value):  # the driver writes floats alone
                raise SubmissionRefused(f"{where} gave {value!r} for {metric.name!r}, which is not a finite number")
            measurements.append(submission.measurement(metric.name, value, seed=seed))
    return tuple(measurements)
