"""User CSV and Parquet files: the resulting x and y, and a clear message for each error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labwright.sandbox.data.frames import import_pyarrow
from tests.sandbox.data.sample_files import Row, find_refusal, make_rows, materialise_named, write_table

PLAIN = "fields=fields.csv,target=good,drop=farm,drop=day,drop=tons"


def test_a_table_becomes_numbers_categories_and_marks(tmp_path: Path) -> None:
    write_table(tmp_path / "fields.csv", make_rows())
    found = materialise_named(PLAIN, tmp_path)
    names = json.loads(str(found.view["about"]))["names"]
    assert names == ["soil=clay", "soil=loam", "soil=sand", "rain", "ph", "ph missing"]
    facts = found.facts
    assert (facts.task, facts.classes, facts.class_names, facts.columns) == (
        "classification",
        2,
        ("no", "yes"),
        ("soil", "rain", "ph"),
    )
    assert facts.missing == {"ph": 11} and facts.features == 6 and sum(facts.sizes.values()) == 120
    x = found.view["train_x"]
    assert x.dtype == np.float32 and set(np.unique(x[:, :3])) == {0.0, 1.0} and (x[:, :3].sum(axis=1) == 1).all()
    assert abs(float(x[:, 3].mean())) < 1e-5 and abs(float(x[:, 3].std()) - 1) < 1e-4
    everything = np.concatenate([found.view[f"{split}_x"] for split in ("train", "dev", "validation", "test")])
    assert everything[:, 5].sum() == 11
    assert np.unique(everything[everything[:, 5] == 1, 4]).size == 1, "all gaps are filled with the median of train"
    assert set(found.labels["test_y"]) == {0, 1} and "test_y" not in found.view


def test_gaps_are_filled_from_train_alone(tmp_path: Path) -> None:
    """An outlier in test changes neither the median nor the scale."""
    rows = [
        {"a": "" if i == 3 else float(i % 7), "b": i * 1.5, "part": "test" if i >= 80 else "train", "y": "uv"[i % 2]}
        for i in range(100)
    ]
    write_table(tmp_path / "one.csv", rows)
    write_table(tmp_path / "two.csv", [*rows[:80], *({**row, "a": 1e9} for row in rows[80:])])
    one, two = (materialise_named(f"{name}={name}.csv,split=part", tmp_path).view for name in ("one", "two"))
    assert np.array_equal(one["train_x"], two["train_x"]) and not np.array_equal(one["test_x"], two["test_x"])


def test_a_regression_keeps_the_unit_of_its_target(tmp_path: Path) -> None:
    rows = make_rows()
    write_table(tmp_path / "fields.csv", rows)
    found = materialise_named("fields=fields.csv,target=tons,drop=farm,drop=day,drop=good", tmp_path)
    assert (found.facts.task, found.facts.classes, found.facts.class_names) == ("regression", 0, ())
    y = np.concatenate(
        [found.view["train_y"], found.view["dev_y"], found.labels["validation_y"], found.labels["test_y"]]
    )
    assert y.dtype == np.float32
    assert np.array_equal(np.sort(y), np.sort(np.array([row["tons"] for row in rows], dtype=np.float32)))


@pytest.mark.parametrize(
    ("values", "task", "option"),
    [([0, 1], "classification", ""), (list(range(30)), "regression", ""), ([0, 1], "regression", ",task=regression")],
)
def test_the_task_is_seen_from_the_target_or_named(tmp_path: Path, values: list[Any], task: str, option: str) -> None:
    write_table(tmp_path / "t.csv", [{"a": i % 9, "y": values[i % len(values)]} for i in range(180)])
    assert materialise_named(f"t=t.csv{option}", tmp_path).facts.task == task


def test_parquet_gives_the_same_as_csv(tmp_path: Path) -> None:
    rows = [{**row, "ph": None if row["ph"] == "" else row["ph"]} for row in make_rows()]
    write_table(tmp_path / "fields.csv", make_rows())
    import_pyarrow("parquet").write_table(import_pyarrow().Table.from_pylist(rows), tmp_path / "fields.parquet")
    one, two = (
        materialise_named(PLAIN, tmp_path),
        materialise_named(PLAIN.replace("fields=fields.csv", "other=fields.parquet"), tmp_path),
    )
    assert one.facts.fingerprint == two.facts.fingerprint and two.facts.source == "parquet:fields.parquet"


# --- what is refused ------------------------------------------------------------------------------------------------


def changed(row: int, **values: Any) -> list[Row]:
    rows = make_rows()
    rows[row].update(values)
    return rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (changed(16, rain="wet"), "column 'rain' contains the text 'wet' in row 17, but most values are numbers"),
        (changed(4, good=""), "the target column 'good' is missing in 1 rows (the first is row 5)"),
        (make_rows(5), "it has 5 examples, at least 50 are needed"),
        (
            [{**row, "note": f"text {i}"} for i, row in enumerate(make_rows())],
            "column 'note' contains 120 different strings, more than 20: convert it to numbers",
        ),
    ],
)
def test_a_table_that_cannot_be_used(tmp_path: Path, rows: list[Row], words: str) -> None:
    write_table(tmp_path / "fields.csv", rows)
    assert words in find_refusal(PLAIN, tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"a,b,a\n1,2,3\n", "column 'a' appears twice"),
        (b"a,good\n1,yes\n2\n", "it is not a valid CSV file: line 3: Expected 2 columns, got 1"),
        (b"PK\x03\x04\x00\x00", "it is a binary (or UTF-16) file"),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert words in find_refusal("t=t.csv,target=good", tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "no target column is given: add target=COLUMN; the columns are farm, day, soil"),
        (",target=good,group=fram", "group=: no column 'fram'; did you mean 'farm'?"),
        (
            ",target=good,task=regression,drop=farm,drop=day",
            "the target 'good' contains strings (such as 'no'): regression ",
        ),
        (",target=good,split=soil,drop=farm,drop=day", "the split column 'soil' contains 'clay'"),
        (
            ",target=good,group=soil,drop=farm,drop=day",
            "it cannot be split by group: 3 groups are too few for 4 splits",
        ),
    ],
)
def test_options_that_do_not_fit_the_table(tmp_path: Path, options: str, words: str) -> None:
    write_table(tmp_path / "fields.csv", make_rows())
    assert words in find_refusal(f"fields=fields.csv{options}", tmp_path)
