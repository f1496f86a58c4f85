"""Runs a frozen scorer in a second kernel. Its text is copied there: nothing of ours but `lab` can be imported.

Reads task.json, writes scores.jsonl: a line a submission, with its values or with what the scorer raised.
"""

from __future__ import annotations

import importlib.util
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np


def main() -> None:
    """Score every submission of the task, each with the seeds set anew."""
    import lab

    task = json.loads(Path("task.json").read_text())
    function, truth = _function(task["function"]), _truth(task)
    with open("scores.jsonl", "w", encoding="utf-8") as scores:
        for number, one in enumerate(task["submissions"]):
            lab.seed_everything()
            scores.write(json.dumps({"number": number, **_scored(function, one, truth)}) + "\n")


def _scored(function: Callable[..., Any], one: dict[str, Any], truth: SimpleNamespace) -> dict[str, Any]:
    try:
        values = function(_submission(one), truth)
        return {"values": {str(name): float(value) for name, value in values.items()}}
    except Exception as error:  # noqa: BLE001  (the host says which submission it was)
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def _function(name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("scorer", "scorer.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _submission(one: dict[str, Any]) -> SimpleNamespace:
    path = Path("submissions", one["file"])
    about = {key: one[key] for key in ("kind", "dataset", "split", "condition")}
    if one["kind"] != "artifact":
        with np.load(path, allow_pickle=False) as archive:
            return SimpleNamespace(values=archive[one["kind"]], path=None, **about)
    target = Path("submissions", Path(one["file"]).stem, one["name"])
    target.parent.mkdir()
    if one["packed"]:
        with tarfile.open(path) as archive:
            archive.extractall(target, filter="data")
    else:
        path.rename(target)
    return SimpleNamespace(values=None, path=target, **about)


def _truth(task: dict[str, Any]) -> SimpleNamespace:
    """Inputs and labels of the split that is scored, those to learn from, and the folder where the dataset is one."""
    split = task["split"]
    with np.load(task["view"], allow_pickle=False) as view:
        arrays = {key: view[key] for key in view.files if key not in ("meta", "about")}
        meta: dict[str, Any] = json.loads(str(view["meta"]))
        about: dict[str, str] = json.loads(str(view["about"])) if "about" in view.files else {}
    return SimpleNamespace(
        x=arrays.get(f"{split}_x"), y=np.load("truth.npy") if Path("truth.npy").exists() else None,
        train_x=arrays.get("train_x"), train_y=arrays.get("train_y"), dev_x=arrays.get("dev_x"),
        dev_y=arrays.get("dev_y"), classes=meta["classes"], path=Path(about["path"]) if about.get("path") else None)


main()
