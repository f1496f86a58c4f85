"""Run a frozen scorer in a separate kernel. This source is copied there; `lab` is the only module of the project that
it can import.

Reads task.json and writes scores.jsonl: one line per submission, with its values or the scorer's error.
"""

from __future__ import annotations

import importlib.util
import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np


def main() -> None:
    """Score every submission of the task, with seeds reset for each."""
    import lab

    task = json.loads(Path("task.json").read_text())
    spec = importlib.util.spec_from_file_location("scorer", "scorer.py")
    assert spec is not None and spec.loader is not None
    scorer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scorer)
    evaluate, truth = getattr(scorer, task["function"]), _load_truth(task)
    with open("scores.jsonl", "w", encoding="utf-8") as scores:
        for number, submission in enumerate(task["submissions"]):
            lab.seed_everything()
            try:
                values = evaluate(_load_submission(submission), truth)
                answer: dict[str, Any] = {"values": {str(name): float(value) for name, value in values.items()}}
            except Exception as error:  # noqa: BLE001  (the host reports which submission it was)
                answer = {"error": f"{type(error).__name__}: {error}"[:500]}
            scores.write(json.dumps({"number": number, **answer}) + "\n")


def _load_submission(line: dict[str, Any]) -> SimpleNamespace:
    path = Path("submissions", line["file"])
    about = {key: line[key] for key in ("kind", "dataset", "split", "condition")}
    if line["kind"] != "artifact":
        with np.load(path, allow_pickle=False) as archive:
            return SimpleNamespace(values=archive[line["kind"]], path=None, **about)
    target = Path("submissions", Path(line["file"]).stem, line["name"])
    target.parent.mkdir()
    if line["packed"]:
        with tarfile.open(path) as archive:
            if odd := [one.name for one in archive if not (one.isreg() or one.isdir())]:  # links lead past the filter
                raise ValueError(f"{odd[0]!r} in the artifact is neither a file nor a folder")
            archive.extractall(target, filter="data")
    else:
        path.rename(target)
    return SimpleNamespace(values=None, path=target, **about)


def _load_truth(task: dict[str, Any]) -> SimpleNamespace:
    """Return inputs and labels of the scored split, the training data, and the dataset's folder, if it has one."""
    with np.load(task["view"], allow_pickle=False) as view:
        arrays = {key: view[key] for key in view.files if key not in ("meta", "about")}
        meta: dict[str, Any] = json.loads(str(view["meta"]))
        about: dict[str, str] = json.loads(str(view["about"])) if "about" in view.files else {}
    return SimpleNamespace(
        x=arrays.get(f"{task['split']}_x"),
        y=np.load("truth.npy") if Path("truth.npy").exists() else None,
        train_x=arrays.get("train_x"),
        train_y=arrays.get("train_y"),
        dev_x=arrays.get("dev_x"),
        dev_y=arrays.get("dev_y"),
        classes=meta["classes"],
        path=Path(about["path"]) if about.get("path") else None,
    )


main()
