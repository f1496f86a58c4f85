"""Small user datasets and helpers to read them."""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labwright.record.schema.data_plan import DatasetFacts
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.datasets import MAX_DATA_BYTES, build_registry, materialise
from labwright.sandbox.job import DatasetError

Row = dict[str, Any]


def make_rows(n: int = 120) -> list[Row]:
    """Return table rows with a class that depends on rain and soil, and some missing values of ph."""
    rng = random.Random(5)
    found: list[Row] = []
    for i in range(n):
        soil, rain = rng.choice(["clay", "loam", "sand"]), round(rng.gauss(50.0, 15.0), 2)
        found.append(
            {
                "farm": f"farm {i % 15}",
                "day": f"2024-{1 + i // 28:02d}-{1 + i % 28:02d}",
                "soil": soil,
                "rain": rain,
                "ph": "" if i % 11 == 0 else round(rng.gauss(6.5, 0.5), 2),
                "tons": round(rain / 20 + rng.random(), 3),
                "good": "yes" if rain + 10 * (soil == "loam") > 55 else "no",
            }
        )
    return found


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], *, delimiter: str = ",") -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_pictures(root: Path, sizes: Mapping[str, int], *, mode: str = "L", side: int = 6) -> Path:
    """Create one folder per class with the given number of small images."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for label, count in sizes.items():
        (root / label).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            pixels = rng.integers(0, 255, (side, side) if mode == "L" else (side, side, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(root / label / f"{i:03d}.png")
    return root


@dataclass(frozen=True)
class MaterialisedData:
    """A dataset as a kernel sees it, and its labels on the host."""

    facts: DatasetFacts
    view: dict[str, NDArray[Any]]
    labels: dict[str, NDArray[Any]]


def materialise_named(text: str, base: Path, *, seed: int = 3) -> MaterialisedData:
    """Prepare a dataset specified as on the command line; paths are relative to `base`."""
    spec = parse_spec(text, base)
    folder = base / f"store-{spec.name}-{seed}"
    facts = materialise(
        spec.name, views=folder / "views", labels=folder / "labels", seed=seed, sources=build_registry([spec])
    )
    return MaterialisedData(
        facts, _read_arrays(folder / "views" / f"{spec.name}.npz"), _read_arrays(folder / "labels" / f"{spec.name}.npz")
    )


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def find_refusal(text: str, base: Path, *, limit: int = MAX_DATA_BYTES, seed: int = 3) -> str:
    """Return the error message for unusable data."""
    with pytest.raises(DatasetError) as caught:
        UserDataset(parse_spec(text, base), limit).build_facts(seed)
    line = str(caught.value)
    assert "\n" not in line and line.startswith("data '"), line
    return line
