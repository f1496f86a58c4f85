"""Values in human notation: read if unambiguous, otherwise rejected with advice."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from labwright.sandbox.data.frames import read_numerals
from tests.sandbox.data.sample_files import find_refusal, materialise_named

ROWS = 90


def column(path: Path, write: Callable[[float], str], *, delimiter: str = ",", name: str = "x") -> list[float]:
    """Write a table whose first column uses some notation and return the parsed numbers."""
    rng = random.Random(3)
    numbers = [round(rng.gauss(0, 2000), 2) for _ in range(ROWS)]
    quote = '"' if delimiter == "," else ""
    lines = [
        delimiter.join((name, "kind", "label")),
        *(delimiter.join((f"{quote}{write(one)}{quote}", "ab"[i % 2], str(i % 2))) for i, one in enumerate(numbers)),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return numbers


def german(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


WAYS: list[tuple[Callable[[float], str], str]] = [
    (lambda x: f"{x:.2f}".replace(".", ","), ";"),
    (german, ";"),
    (german, ","),
    (lambda x: f"{x:,.2f}", ","),
    (lambda x: f"{x:,.2f}".replace(",", "\u202f"), ";"),
    (lambda x: f"{x:,.2f}".replace(",", "'"), ","),
    (lambda x: f"{x:.2f}%", ","),
    (lambda x: f"{x:.2f} %", ","),
    (lambda x: f"{german(x)} €", ";"),
    (lambda x: f"-${-x:,.2f}" if x < 0 else f"${x:,.2f}", ","),
    (lambda x: f"${x:,.2f}", ","),
    (lambda x: f"{x:.2f}%".replace("-", "\u2212"), ","),
]


@pytest.mark.parametrize(("write", "delimiter"), WAYS)
def test_numbers_are_read_as_they_are_written_and_it_is_said(
    tmp_path: Path, write: Callable[[float], str], delimiter: str
) -> None:
    numbers = column(tmp_path / "t.csv", write, delimiter=delimiter)
    found = materialise_named("t=t.csv,target=x", tmp_path)
    y = np.concatenate(
        [
            *(found.view[f"{split}_y"] for split in ("train", "dev")),
            *(found.labels[f"{split}_y"] for split in ("validation", "test")),
        ]
    )
    assert found.facts.task == "regression"
    assert np.allclose(np.sort(y), np.sort(np.array(numbers, dtype=np.float32)))
    [told] = [one for one in found.facts.warnings if "is read as numbers" in one]
    assert told.startswith("column 'x' is read as numbers: ") and " as " in told
    assert materialise_named("feature=t.csv,target=label", tmp_path).facts.columns == ("x", "kind")


def test_numbers_that_may_be_two_are_told_with_both(tmp_path: Path) -> None:
    rng = random.Random(1)
    (tmp_path / "t.csv").write_text(
        "x,label\n" + "".join(f'"{rng.randrange(1000, 90_000):,}",{i % 2}\n' for i in range(ROWS))
    )
    for text in ("t=t.csv,target=label", "t=t.csv,target=x"):
        line = find_refusal(text, tmp_path)
        assert "column 'x' has an ambiguous number: '" in line and ": write " in line and "drop=x" in line
    assert materialise_named("t=t.csv,target=label,text=x", tmp_path).facts.form == "texts"


@pytest.mark.parametrize(
    "texts", [["1.2.3", "1.2.4"], ["$", "$$"], ["3%", "4"], ["a", "1,5"], ["1,23,4"], ["-"], ["+-1", "2"], ["٣,٤"]]
)
def test_what_is_no_number_stays_a_text(texts: list[str]) -> None:
    assert not read_numerals(texts).values


@given(st.lists(st.text("0123456789.,'-+% $€", max_size=9), min_size=1, unique=True))
def test_any_texts_are_numbers_or_not(texts: list[str]) -> None:
    found = read_numerals(texts)
    assert not found.values or (len(found.values) == len(texts) and all(map(np.isfinite, found.values)))


def words(path: Path, *, target: str) -> None:
    (path / "t.csv").write_text(
        "x,word,label\n"
        + "".join(f"{i * 37 % 101},{('NA', 'None', 'FR')[i % 3]},{i % 2}\n" for i in range(ROWS)).replace(
            "word", target
        )
    )


def test_a_class_called_none_is_a_class_where_that_is_said(tmp_path: Path) -> None:
    words(tmp_path, target="word")
    line = find_refusal("t=t.csv,target=word", tmp_path)
    words_told = "contains 'NA' in 30 rows and 'None' in 30 rows, which count as missing"
    assert line.endswith(f"the target column 'word' {words_told}: if it is a value, add literal=word")
    assert materialise_named("own=t.csv,target=word,literal=word", tmp_path).facts.class_names == ("FR", "NA", "None")


def test_withheld_labels_of_minus_one_are_left_out(tmp_path: Path) -> None:
    def part(labels: list[int]) -> Any:
        rows: dict[str, Any] = {"x": [i * 37 % 101 for i in range(len(labels))], "label": labels}
        return Dataset.from_dict(rows)  # pyright: ignore[reportUnknownMemberType]

    train, withheld = [i % 2 for i in range(ROWS)], [-1] * 30
    DatasetDict({"train": part(train), "test": part(withheld)}).save_to_disk(str(tmp_path / "set"))  # pyright: ignore[reportUnknownMemberType]
    found = materialise_named("s=set,target=label", tmp_path).facts
    assert found.class_names == ("0", "1") and sum(found.sizes.values()) == ROWS
    assert "the split 'test' has no labels (label is -1 in all rows) and is not used" in found.warnings
    signs = [2 * one - 1 for one in train]
    DatasetDict({"train": part(signs), "test": part(withheld)}).save_to_disk(str(tmp_path / "signs"))  # pyright: ignore[reportUnknownMemberType]
    kept = materialise_named("signs=signs,target=label", tmp_path).facts
    assert kept.class_names == ("-1", "1") and kept.sizes["test"] == 30, "-1 is a class of train"
