"""Dataset specifications: syntax, path resolution and detection of changed data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from labwright.sandbox.data.spec import DataSpec, parse_idea_specs, parse_spec, parse_specs
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.datasets import MAX_DATA_BYTES, build_registry, materialise
from labwright.sandbox.job import DatasetError
from tests.sandbox.data.sample_files import make_rows, write_table


def test_a_text_and_a_mapping_say_the_same(tmp_path: Path) -> None:
    text = parse_spec("a=x/b.csv,target=y,group=g,drop=one,drop=two, and more,task=regression", tmp_path)
    assert text == parse_spec(
        {
            "name": "a",
            "path": "x/b.csv",
            "target": "y",
            "group": "g",
            "task": "regression",
            "drop": ["one", "two, and more"],
        },
        tmp_path,
    )
    assert text.path == tmp_path / "x" / "b.csv" and text.drop == ("one", "two, and more")
    assert DataSpec.model_validate(text.model_dump(mode="json")) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("farms.csv", "data 'farms.csv' is not NAME=PATH: write NAME=PATH,target=COLUMN"),
        ("/path/farms.csv,target=y", "data '/path/farms.csv,target=y' is not NAME=PATH"),
        ("a/b=x.csv", "invalid dataset name 'a/b'"),
        ("a=x.csv,target=y,target=z", "data 'a': target= is given twice"),
        ("a=x.csv,group=g,time=t", "use either group= or time="),
        ("a=x.csv,target=y,drop=y", "column 'y' has two roles"),
        ({"name": "a"}, "data 'a': needs either a path or a hub dataset"),
        (7, "data must be a string or a mapping, not 7"),
    ],
)
def test_data_that_are_named_wrongly(tmp_path: Path, value: Any, words: str) -> None:
    with pytest.raises(DatasetError) as caught:
        parse_specs(value, tmp_path)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_an_idea_brings_data_from_its_own_folder_only(tmp_path: Path) -> None:
    home = tmp_path / "idea"
    home.mkdir()
    prose = ["CIFAR-10 with N=1000 labels", "digits", "n=10 per class", "ratio=0.5 of wine"]
    [spec] = parse_idea_specs([*prose, "farms=sub/farms.csv,target=y"], home)
    assert spec.path == home / "sub" / "farms.csv"
    for path in ("/etc/passwd.csv", "../farms.csv"):
        with pytest.raises(DatasetError, match="are outside the idea file's folder: to allow them, use --"):
            parse_idea_specs([f"farms={path},target=y"], home)
    (home / "way.csv").symlink_to(tmp_path / "farms.csv")
    with pytest.raises(DatasetError, match="are outside"):
        parse_idea_specs(["farms=way.csv"], home)


def test_the_copy_of_a_run_does_not_need_the_file(tmp_path: Path) -> None:
    path = write_table(tmp_path / "fields.csv", make_rows())
    spec = UserDataset(parse_spec("fields=fields.csv,target=good,drop=farm,drop=day", tmp_path), MAX_DATA_BYTES).pin(3)
    places = {"views": tmp_path / "v", "labels": tmp_path / "l"}
    facts = materialise("fields", **places, seed=3, sources=build_registry([spec]))
    path.unlink()
    assert materialise("fields", **places, seed=3, sources=build_registry([spec])) == facts
    shutil.rmtree(places["views"])
    with pytest.raises(DatasetError, match=r"data 'fields' \(fields.csv\): .*fields.csv does not exist"):
        materialise("fields", **places, seed=3, sources=build_registry([spec]))
    write_table(path, make_rows(121))
    with pytest.raises(DatasetError, match=r"it changed since the run began \(sha256 [0-9a-f]{12}, now [0-9a-f]{12}\)"):
        materialise("fields", **places, seed=3, sources=build_registry([spec]))
    assert not places["views"].exists()


def test_a_folder_by_path_is_watched_by_names_sizes_and_ends(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    shard = tmp_path / "shards" / "0.bin"
    shard.write_bytes(bytes(3 * 2**20))
    source = UserDataset(parse_spec("s=shards", tmp_path), MAX_DATA_BYTES)
    before = source.compute_origin()
    shard.write_bytes(bytes(3 * 2**20 - 1) + b"x")
    assert source.compute_origin() != before
