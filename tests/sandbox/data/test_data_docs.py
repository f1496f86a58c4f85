"""Values in human notation are rejected with advice."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labwright.sandbox.data.frames import import_datasets_library
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
def test_numbers_in_another_notation_are_refused(tmp_path: Path, write: Callable[[float], str], delimiter: str) -> None:
    column(tmp_path / "t.csv", write, delimiter=delimiter)
    for text in ("t=t.csv,target=x", "t=t.csv,target=label"):
        line = find_refusal(text, tmp_path)
        assert "column 'x' contains the text " in line and "write it like 1234.5" in line and "drop=x" in line
    assert materialise_named("t=t.csv,target=label,text=x", tmp_path).facts.form == "texts"


@pytest.mark.parametrize("texts", [["1.2.3", "1.2.4"], ["$", "$$"], ["a", "1,5"], ["1,23,4", "b"], ["-", "/"]])
def test_what_is_no_number_stays_a_text(texts: list[str], tmp_path: Path) -> None:
    rows = "".join(f'{i * 37 % 101},"{texts[i % 2]}",{i // 2 % 2}\n' for i in range(ROWS))
    (tmp_path / "t.csv").write_text("x,word,label\n" + rows)
    assert materialise_named("t=t.csv,target=label", tmp_path).facts.features == 3


@pytest.mark.slow
def test_withheld_labels_of_minus_one_are_left_out(tmp_path: Path) -> None:
    library = import_datasets_library()  # takes seconds

    def part(labels: list[int]) -> Any:
        rows: dict[str, Any] = {"x": [i * 37 % 101 for i in range(len(labels))], "label": labels}
        return library.Dataset.from_dict(rows)

    train, withheld = [i % 2 for i in range(ROWS)], [-1] * 30
    library.DatasetDict({"train": part(train), "test": part(withheld)}).save_to_disk(str(tmp_path / "set"))
    found = materialise_named("s=set,target=label", tmp_path).facts
    assert found.class_names == ("0", "1") and sum(found.sizes.values()) == ROWS
    assert "the split 'test' has no labels (label is -1 in all rows) and is not used" in found.warnings
    signs = [2 * one - 1 for one in train]
    library.DatasetDict({"train": part(signs), "test": part(withheld)}).save_to_disk(str(tmp_path / "signs"))
    kept = materialise_named("signs=signs,target=label", tmp_path).facts
    assert kept.class_names == ("-1", "1") and kept.sizes["test"] == 30, "-1 is a class of train"
