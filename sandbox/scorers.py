"""User-defined scorers: parsed, never run here, and frozen before any experiment code is written; and their tasks: the
submissions of one attempt for one dataset and split, in their own folder.

A scorer is a Python file with a function and a literal `METRICS` at top level; docs/statistics.md has an example. The
first paragraph of the function's docstring is shown to authors of experiments: it must describe what to submit.

Guarantees: the scorer is the frozen one; it runs in a kernel without the experiment's code, and sees only the labels of
its split. Artifacts are copied as bytes and opened only there.

Limits: an artifact that runs code when opened (a pickle) runs it in the scorer's process and could write its own
scores. A scorer must only read pure data formats (.npz, safetensors, `torch.load(weights_only=True)`).
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from labwright.record.python_syntax import parse_python
from labwright.record.schema import replace_unencodable
from labwright.record.schema.data_plan import FrozenScorer, Measurement, MetricSpec, Split
from labwright.record.untrusted_files import (
    MAX_FILE_BYTES,
    MAX_LINE_BYTES,
    copy_file,
    raise_read_errors_as,
    read_lines,
    write_file,
)
from labwright.sandbox.datasets import DatasetSources
from labwright.sandbox.job import DatasetError, SubmissionRefused
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.scoring import Submission, read_labels
from labwright.sandbox.workspace import KernelScript, list_dataset_folders

SCORER_FORM = "write FILE.py:FUNCTION"


def parse_scorers(sources: DatasetSources, named: Iterable[str] = ()) -> dict[str, str]:
    """Parse `NAME=FILE:FUNCTION` strings to a mapping from dataset to `FILE:FUNCTION`. Raises `DatasetError`."""
    places: dict[str, str] = {}
    for text in named:
        name, equals, place = text.partition("=")
        if not equals or name not in sources:
            raise DatasetError(f"scorer {text!r}: write DATASET=FILE.py:FUNCTION; datasets: {', '.join(sources)}")
        if name in places:
            raise DatasetError(f"dataset {name!r} has two scorers: give one")
        places[name] = place
    return places


def read_scorer(dataset: str, place: str) -> tuple[FrozenScorer, str]:
    """Return a scorer and the source of its file. Raises `DatasetError` with the reason if it cannot be used."""
    file, _, function = place.rpartition(":")
    try:
        if not file or not function.isidentifier():
            raise ValueError(f"no function is given: {SCORER_FORM}")
        text = Path(file).read_text("utf-8-sig")
        return _parse_scorer(dataset, function, parse_python(text), hashlib.sha256(text.encode()).hexdigest()), text
    except (OSError, ValueError, SyntaxError) as error:
        raise DatasetError(f"scorer of {dataset!r}: cannot use {place}: {error}") from None


def freeze_scorer(dataset: str, place: str, folder: Path) -> FrozenScorer:
    """Copy a scorer to `folder`, unless one is frozen there, and return its facts for the record. Raises
    `DatasetError`."""
    if (frozen := read_frozen_scorers(folder).get(dataset)) is not None:
        return frozen[0]
    scorer, text = read_scorer(dataset, place)
    _write_scorer(folder, scorer, text)
    return scorer


def copy_frozen_scorers(scorers: Iterable[FrozenScorer], source: Path, target: Path) -> None:
    """Copy recorded scorers from `source` to `target`, which may be the same folder.

    Raises `DatasetError` for a scorer that is missing or was changed.
    """
    for scorer in scorers:
        file = source / f"{scorer.dataset}.py"
        content = file.read_bytes() if file.is_file() else b""
        if hashlib.sha256(content).hexdigest() != scorer.sha256:
            raise DatasetError(f"the frozen scorer of {scorer.dataset!r} is not the recorded one: restore {file}")
        _write_scorer(target, scorer, content.decode())


def read_frozen_scorers(folder: Path | None) -> dict[str, tuple[FrozenScorer, str]]:
    """Return every frozen scorer with its source, by dataset. Raises `SubmissionRefused` if a scorer was changed."""
    frozen: dict[str, tuple[FrozenScorer, str]] = {}
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        scorer, text = FrozenScorer.model_validate_json(path.read_text()), path.with_suffix(".py").read_text()
        if hashlib.sha256(text.encode()).hexdigest() != scorer.sha256:
            raise SubmissionRefused(f"the scorer of {path.stem!r} was changed after it was frozen: restore it")
        frozen[path.stem] = scorer, text
    return frozen


def describe_scorer(scorer: FrozenScorer) -> str:
    """Describe a scorer for prompts that plan or write an experiment."""
    better = {True: "higher", False: "lower"}
    metrics = ", ".join(f"`{one.name}` ({better[one.higher_is_better]} is better)" for one in scorer.metrics)
    how = "`lab.submit_artifact` takes what is evaluated" if scorer.takes == "artifact" else "of every `lab.submit`"
    return f"{metrics}, computed outside by a frozen scorer; {how}. {scorer.asks}".strip()


def _parse_scorer(dataset: str, function: str, tree: ast.Module, sha256: str) -> FrozenScorer:
    """Raises `ValueError`."""
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    if not defined:
        raise ValueError(f"it defines no top-level function {function!r}")
    if len(defined[0].args.args) != 2:
        raise ValueError(f"{function} must take two arguments, (submission, truth)")
    metrics = _read_literal(tree, "METRICS", None)
    if not isinstance(metrics, dict) or not metrics:
        raise ValueError('it needs a literal METRICS = {"name": "higher" or "lower"} at top level')
    named = {str(key): better for key, better in cast("dict[Any, Any]", metrics).items()}
    for name, better in named.items():
        if better not in ("higher", "lower"):
            raise ValueError(f"METRICS[{name!r}] must be 'higher' or 'lower', not {better!r}")
        if name in METRICS or not name.isidentifier():
            raise ValueError(f"the metric {name!r} is a built-in metric or not a valid Python identifier: rename it")
    paragraph = (ast.get_docstring(defined[0]) or "").partition("\n\n")[0]
    return FrozenScorer(
        dataset=dataset,
        function=function,
        takes=_read_literal(tree, "TAKES", "predictions"),
        sha256=sha256,
        metrics=tuple(
            MetricSpec(name=name, title=name.replace("_", " "), higher_is_better=better == "higher")
            for name, better in named.items()
        ),
        asks=" ".join(paragraph.split()),
    )


def _read_literal(tree: ast.Module, name: str, default: Any) -> Any:
    """Return the literal assigned to a top-level name. Raises `ValueError` if it is computed."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
            try:
                return ast.literal_eval(node.value)
            except (ValueError, TypeError):
                raise ValueError(f"{name} must be a literal: the file is parsed, not run") from None
    return default


def _write_scorer(folder: Path, scorer: FrozenScorer, text: str) -> None:
    write_file(folder, f"{scorer.dataset}.py", text)
    write_file(folder, f"{scorer.dataset}.json", scorer.model_dump_json())


# --- tasks ------------------------------------------------------------------------------------------------------------


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
    for one in final:
        if one.kind == "artifact" and one.dataset not in takers:
            raise SubmissionRefused(f"{one.description}: this run has no scorer for artifacts of {one.dataset!r}")
    for dataset, (scorer, text) in scorers.items():
        of_dataset = [one for one in final if one.dataset == dataset]
        taken = tuple(one for one in of_dataset if (one.kind == "artifact") == (scorer.takes == "artifact"))
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
        np.save(target / "truth.npy", read_labels(labels, dataset, task.split).truth)
    listed = [submission.model_dump(exclude={"grade", "step"}) for submission in task.submissions]
    about = {"function": task.scorer.function, "split": task.split, "view": str(view), "submissions": listed}
    (target / "task.json").write_text(json.dumps(about))
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
