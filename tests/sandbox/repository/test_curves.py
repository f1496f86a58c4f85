"""Logged training values become curves, except those that may reveal test results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labwright.record.schema.data_plan import Split
from labwright.record.schema.nodes import Cell
from labwright.sandbox.repository.command import OutputRedactor
from labwright.sandbox.repository.command_cells import MAX_CURVES, MAX_POINTS, read_command_curves

CELL = Cell(arm="method", dataset="fit", level="", seed=3)


def curves(
    folder: Path, hidden: OutputRedactor | None = None, since: float = 0.0
) -> dict[tuple[Split, str], dict[int, float]]:
    """Return points by split and name."""
    found: dict[tuple[Split, str], dict[int, float]] = {}
    for one in read_command_curves(folder, CELL, hidden or OutputRedactor(), since):
        assert (one.grade, one.dataset, one.condition, one.seed) == ("logged", "fit", "method", 3)
        assert one.step is not None
        found.setdefault((one.split, one.name), {})[one.step] = one.value
    return found


def write(folder: Path, name: str, content: str | bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "epoch,train_loss,val_acc,time\n1,0.5,0.25,noon\n2,0.25,,later\n3,nan,0.75,late\n"),
        (
            "log.jsonl",
            '{"step": 1, "train_loss": 0.5, "val_acc": 0.25}\n\n{"step": 2, "train_loss": 0.25, "done": true}\n'
            '{"_step": 3, "val_acc": 0.75, "epoch": 1, "_runtime": 3.5}\n',
        ),
    ],
)
def test_columns_of_a_table_with_a_step_are_curves(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text)
    assert curves(tmp_path) == {("train", "loss"): {1: 0.5, 2: 0.25}, ("validation", "acc"): {1: 0.25, 3: 0.75}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "step,test_acc,f1Test\n1,0.5,0.25\n"),
        ("log.csv", "step,split,acc\n1,test,0.5\n"),
        ("log.csv", "step,secret\n1,0.5\n"),
        ("log.csv", "step,eval_acc\n1,81.234\n"),
    ],
)
def test_what_may_tell_test_results_is_withheld_whole(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text)
    hidden = OutputRedactor.from_metric("metrics.json:test.score", ["secret"]).with_values(0.81234)
    assert not curves(tmp_path, hidden)
    write(tmp_path, "train.csv", "step,val_acc\n1,0.8123401\n")
    assert curves(tmp_path, hidden) == {("validation", "acc"): {1: 0.8123401}}, "the name identifies the split"


def test_what_the_run_did_not_write_or_is_no_log_is_none(tmp_path: Path) -> None:
    write(tmp_path, "old.csv", "step,loss\n1,0.5\n")
    os.utime(tmp_path / "old.csv", (1000, 1000))
    write(tmp_path, "data.csv", "id,value\n1,0.5\n")
    write(tmp_path, "odd.csv", b"step,loss\n\xff\xfe,1\n1,2,3,4\n" + b"9" * 200_000)
    write(tmp_path, "odd.jsonl", "3\n")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "old.csv")
    assert curves(tmp_path, since=2000) == {("train", "loss"): {1: 2.0}}, "the readable part of a file is used"


def test_curves_are_few_and_short_and_of_several_the_newest_counts(tmp_path: Path) -> None:
    for age, place in ((100, "new"), (200, "old")):
        write(
            tmp_path,
            f"{place}/log.jsonl",
            "".join(
                json.dumps({"step": step, **{f"a{name}": step + age for name in range(30)}}) + "\n"
                for step in range(1000)
            ),
        )
        os.utime(tmp_path / place / "log.jsonl", (1e9 - age, 1e9 - age))
    found = curves(tmp_path)
    assert len(found) == MAX_CURVES and all(MAX_POINTS <= len(one) <= MAX_POINTS + 1 for one in found.values())
    assert all(one[0] == 100 and one[999] == 1099 for one in found.values())
