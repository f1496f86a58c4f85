"""User datasets as NPZ archives, image folders, Hugging Face datasets and plain folders."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from labwright.sandbox.data.frames import import_datasets_library, import_pyarrow
from labwright.sandbox.data.preparation import SPLIT_SHARES
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.datasets import MAX_DATA_BYTES
from labwright.sandbox.job import DatasetError
from tests.sandbox.data.sample_files import find_refusal, make_rows, materialise_named, write_pictures, write_table

pytestmark = pytest.mark.slow

# --- NPZ ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "shape", "served"),
    [
        (np.int64, (6,), np.int64),
        (np.int16, (6,), np.int64),
        (np.float32, (4, 3), np.float32),
        (np.float64, (5,), np.float32),
        (np.uint8, (5, 5), np.float32),
        (np.uint8, (5, 5, 3), np.float32),
    ],
)
def test_arrays_are_served_as_they_are(tmp_path: Path, dtype: Any, shape: tuple[int, ...], served: Any) -> None:
    x = (np.random.default_rng(0).random((100, *shape)) * 200).astype(dtype)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(100) % 2)
    found = materialise_named("a=a.npz", tmp_path)
    train = found.view["train_x"]
    image = dtype == np.uint8
    assert train.dtype == served and train.shape[1:] == (*shape, *((1,) if image and len(shape) == 2 else ()))
    everything = np.concatenate([found.view[f"{split}_x"].reshape(-1) for split in SPLIT_SHARES])
    expected = x.astype(np.float32) / np.float32(255) if image else x.astype(served)
    assert np.array_equal(np.sort(everything), np.sort(expected.reshape(-1)))


def test_an_archive_may_bring_its_splits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = {"train": 60, "val": 20, "test": 30}
    arrays = {f"{part}_x": rng.integers(0, 9, (n, 4)) for part, n in sizes.items()}
    labels = {f"{part}_y": np.arange(n) % 3 for part, n in sizes.items()}
    np.savez(tmp_path / "a.npz", **arrays, **labels)  # pyright: ignore[reportArgumentType]
    found = materialise_named("a=a.npz", tmp_path)
    assert np.array_equal(found.view["test_x"], arrays["test_x"])
    assert found.facts.sizes == {"train": 51, "dev": 9, "validation": 20, "test": 30}
    assert found.facts.split_rule.startswith("given train, validation, test; dev taken from train")


def test_an_archive_may_hold_groups_and_texts_as_labels(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        pixels=np.ones((100, 3)) * np.arange(100)[:, None],
        who=np.arange(100) // 5,
        kind=np.array(["cat", "dog"])[np.arange(100) % 2],
    )
    facts = materialise_named("a=a.npz,target=kind,group=who", tmp_path).facts
    assert (facts.class_names, facts.split_rule) == (("cat", "dog"), "automatic, whole groups, seed 3")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.array([{}] * 60, dtype=object), "y": np.arange(60) % 2}, "Python objects are not unpickled"),
        ({"x": np.zeros((60, 2))}, "it must contain x and y, or train_x, train_y, ...; it contains x"),
        ({"x": np.zeros((60, 2)), "y": np.arange(50)}, "per example of x (shape (60, 2)), not int64 of shape (50,)"),
        (
            {"x": np.zeros(60), "y": np.arange(60) % 2},
            "x must contain numbers of shape (examples, ...), not float64 of",
        ),
        ({"x": np.array([["a"]] * 60), "y": np.arange(60) % 2}, "x must contain numbers"),
        ({"x": np.full((60, 2), np.nan), "y": np.arange(60) % 2}, "x contains a non-finite value in example 1"),
        ({"x": np.zeros((60, 2)), "y": np.zeros(60)}, "has only one class"),
        ({"x": np.zeros((60, 2)), "y": np.full(60, np.inf)}, "column 'y' contains inf in row 1"),
        ({"x": np.zeros((60, 2)), "y": np.zeros((60, 2))}, "y must contain one number or text per example"),
        (
            {
                "train_x": np.zeros((60, 2)),
                "train_y": np.arange(60) % 2,
                "test_x": np.zeros((9, 3)),
                "test_y": np.arange(9) % 2,
            },
            "its splits contain examples of different shapes",
        ),
    ],
)
def test_an_archive_that_cannot_be_used(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    assert words in find_refusal("a=a.npz", tmp_path)


def test_an_archive_is_asked_for_its_size_before_it_is_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1000, 1000)), y=np.zeros(1000))
    assert (tmp_path / "a.npz").stat().st_size < 50_000
    assert "it unpacks to 8008" in find_refusal("a=a.npz", tmp_path, limit=100_000)
    (tmp_path / "b.npz").write_bytes(b"PK no archive at all")
    assert "numpy cannot read it as an NPZ archive" in find_refusal("b=b.npz", tmp_path)


# --- images ---------------------------------------------------------------------------------------------------------


def test_images_by_class(tmp_path: Path) -> None:
    from PIL import Image

    write_pictures(tmp_path / "set", {"cat": 30, "dog": 30})
    Image.new("L", (9, 7), 100).save(tmp_path / "set" / "cat" / "odd.png")
    (tmp_path / "set" / "dog" / ".DS_Store").write_bytes(b"x")
    found = materialise_named("pets=set", tmp_path)
    facts = found.facts
    assert (facts.shape, facts.class_names, facts.features) == ((6, 6, 1), ("cat", "dog"), 36)
    assert sum(facts.sizes.values()) == 61
    assert facts.warnings == ("1 of 61 images were resized to the most common size, 6 x 6",)
    x = found.view["train_x"]
    assert x.dtype == np.float32 and x.shape[1:] == (6, 6, 1) and x.min() >= 0 and x.max() <= 1 and x.max() > 0.9


def test_colour_gives_three_channels_and_folders_give_splits(tmp_path: Path) -> None:
    for part, count in (("train", 40), ("test", 8)):
        write_pictures(tmp_path / "set" / part, {"cat": count, "dog": count}, mode="RGB")
    facts = materialise_named("pets=set", tmp_path).facts
    assert facts.shape == (6, 6, 3) and facts.sizes["test"] == 16
    assert facts.split_rule.startswith("given train, test; dev and validation taken from train, stratified")


def test_sixteen_bits_transparency_and_palettes(tmp_path: Path) -> None:
    from PIL import Image

    write_pictures(tmp_path / "set", {"a": 25, "b": 25})
    Image.fromarray(np.full((6, 6), 257 * 200, dtype=np.uint16)).save(tmp_path / "set" / "a" / "deep.png")
    Image.new("LA", (6, 6), (50, 10)).save(tmp_path / "set" / "a" / "see.png")
    source = UserDataset(parse_spec("s=set", tmp_path), MAX_DATA_BYTES)
    x = source.load().x
    assert x.shape == (52, 6, 6, 1) and 200 in {int(one.max()) for one in x[:] if one.min() == one.max()}
    Image.new("P", (6, 6)).save(tmp_path / "set" / "b" / "few.png")
    assert source.load().x.shape == (53, 6, 6, 3), "a palette may contain colours"


def test_image_folders_that_cannot_be_used(tmp_path: Path) -> None:
    write_pictures(tmp_path / "one", {"cat": 60})
    assert "it has only one class ('cat')" in find_refusal("p=one", tmp_path)
    write_pictures(tmp_path / "few", {"cat": 60, "dog": 2})
    assert "1 of 2 classes have too few examples ('dog' has 2)" in find_refusal("p=few", tmp_path)
    write_pictures(tmp_path / "bad", {"cat": 30, "dog": 30})
    (tmp_path / "bad" / "dog" / "003.png").write_bytes(b"\x89PNG no image")
    assert "dog/003.png cannot be read as an image" in find_refusal("p=bad", tmp_path)
    whole = (tmp_path / "bad" / "dog" / "004.png").read_bytes()
    (tmp_path / "bad" / "dog" / "003.png").write_bytes(whole[:60])
    assert "dog/003.png cannot be read as an image" in find_refusal("p=bad", tmp_path)
    assert "target= is for tables" in find_refusal("p=few,target=x", tmp_path)


def test_links_lead_neither_out_nor_in_circles(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "set", {"cat": 30, "dog": 30})
    outside = write_pictures(tmp_path / "other", {"x": 1}) / "x" / "000.png"
    link = root / "cat" / "link.png"
    link.symlink_to(outside)
    assert "cat/link.png is a link to a folder, to a missing file or out of the dataset's folder" in find_refusal(
        "p=set", tmp_path
    )
    link.unlink()
    link.symlink_to(link)
    assert "cat/link.png is a link to a folder, to a missing file or out of" in find_refusal("p=set", tmp_path)
    link.unlink()
    link.symlink_to(root)
    assert "cat/link.png is a link to a folder, to a missing file or out of" in find_refusal("p=set", tmp_path)
    link.unlink()
    link.symlink_to(root / "cat" / "001.png")
    assert materialise_named("p=set", tmp_path).facts.sizes["train"] > 0
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    assert "cannot be opened" in find_refusal("p=loop.csv", tmp_path)


# --- plain folders --------------------------------------------------------------------------------------------------


def test_any_other_folder_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "clips" / "day").mkdir(parents=True)
    for i in range(3):
        (tmp_path / "clips" / "day" / f"{i}.wav").write_bytes(bytes(50))
    found = materialise_named("clips=clips", tmp_path)
    assert (found.facts.task, found.facts.classes, found.facts.sizes, found.facts.columns) == ("none", 0, {}, (".wav",))
    assert "graded `logged`" in found.facts.warnings[0] and not found.labels
    assert f'"path": "{tmp_path}/clips"' in str(found.view["about"])
    (tmp_path / "void").mkdir()
    assert "it is an empty folder" in find_refusal("v=void", tmp_path)
    assert (
        materialise_named(
            "pets=set,task=none", write_pictures(tmp_path / "set", {"cat": 3, "dog": 3}).parent
        ).facts.task
        == "none"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.csv", "does not exist or cannot be opened"),
        ("book.xlsx", ".xlsx is not a supported format: use CSV, TSV"),
        ("plain", "a file without an extension is not a supported format"),
    ],
)
def test_other_files(tmp_path: Path, name: str, words: str) -> None:
    if not name.startswith("none"):
        (tmp_path / name).write_bytes(b"x")
    assert words in find_refusal(f"d={name}", tmp_path)


# --- Hugging Face ---------------------------------------------------------------------------------------------------


def test_a_saved_dataset(tmp_path: Path) -> None:
    datasets = import_datasets_library()
    rows = make_rows()
    columns = {key: [row[key] for row in rows] for key in ("soil", "rain", "good")}
    datasets.Dataset.from_dict(columns).save_to_disk(str(tmp_path / "saved"))
    write_table(tmp_path / "fields.csv", [{key: row[key] for key in columns} for row in rows])
    one, two = (
        materialise_named("one=saved,target=good", tmp_path),
        materialise_named("two=fields.csv,target=good", tmp_path),
    )
    assert one.facts.fingerprint == two.facts.fingerprint and one.facts.source == "folder:saved"


def test_saved_splits_class_labels_tokens_and_images(tmp_path: Path) -> None:
    datasets = import_datasets_library()
    from PIL import Image

    features = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("int32"), length=4),
            "label": datasets.ClassLabel(names=["pos", "neg", "odd"]),
        }
    )

    def part(n: int, labels: list[int]) -> Any:
        return datasets.Dataset.from_dict(
            {"tokens": [[i, i + 1, 2, 3] for i in range(n)], "label": [labels[i % len(labels)] for i in range(n)]},
            features=features,
        )

    datasets.DatasetDict(
        {
            "train": part(60, [0, 1, 2]),
            "validation": part(12, [0, 1, 2]),
            "test": part(9, [-1]),
            "unsupervised": part(9, [-1]),
        }
    ).save_to_disk(str(tmp_path / "text"))
    found = materialise_named("t=text", tmp_path)
    assert found.view["train_x"].dtype == np.int64 and found.facts.class_names == ("pos", "neg", "odd")
    assert found.facts.split_rule.startswith("given train, validation; dev and test taken from train")
    assert [line[:20] for line in found.facts.warnings[:2]] == ["the split 'test' has", "the split 'unsupervi"]
    drawn = [Image.new("L", (5, 4), i) for i in range(60)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["even", "odd"])})
    shown = datasets.Dataset.from_dict({"image": drawn, "label": [i % 2 for i in range(60)]}, features=features)
    shown.save_to_disk(str(tmp_path / "drawn"))
    assert materialise_named("d=drawn", tmp_path).facts.shape == (4, 5, 1)


def test_saved_sets_that_cannot_be_used(tmp_path: Path) -> None:
    datasets = import_datasets_library()
    labels = [i % 2 for i in range(60)]
    ragged = datasets.Dataset.from_dict({"tokens": [[1] * (1 + i % 3) for i in range(60)], "label": labels})
    ragged.save_to_disk(str(tmp_path / "ragged"))
    assert "column 'tokens' contains lists of different lengths" in find_refusal("r=ragged", tmp_path)
    ragged.add_column("n", list(range(60))).save_to_disk(str(tmp_path / "mixed"))
    assert "must be the only feature: omit the others (drop=n ...)" in find_refusal("r=mixed", tmp_path)
    texts = datasets.Dataset.from_dict({"text": [f"a long text {i}" for i in range(60)], "label": labels})
    texts.save_to_disk(str(tmp_path / "texts"))
    assert materialise_named("t=texts", tmp_path).facts.form == "texts"
    assert "more than sandbox.data_bytes (100)" in find_refusal("t=texts", tmp_path, limit=100)
    (tmp_path / "texts" / "state.json").write_text("{}")
    assert "the datasets library could not load it" in find_refusal("t=texts", tmp_path)


def test_the_hub_without_a_network_is_one_line_with_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the libraries' offline mode; otherwise they only retry for longer."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(import_datasets_library().config, "HF_HUB_OFFLINE", True)
    line = find_refusal("h=hf:nobody/such-a-set", tmp_path)
    assert line.startswith(
        "data 'h' (hf:nobody/such-a-set): the datasets library could not load it; without a network "
    )
    assert "save_to_disk" in line


def test_the_hub_loads_by_name_configuration_and_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the hub download is replaced: the result is a real dataset made from a local file."""
    datasets = import_datasets_library()
    rows = [{key: row[key] for key in ("soil", "rain", "good")} for row in make_rows()]
    local = str(write_table(tmp_path / "f.csv", rows))
    real = datasets.load_dataset
    asked: list[tuple[str, str | None, str | None]] = []

    def fetched(path: str, name: str | None, *, revision: str | None) -> Any:
        asked.append((path, name, revision))
        return real("csv", data_files=local, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", fetched)
    spec = parse_spec("h=hf:some/set,config=small,revision=v2,target=good", tmp_path)
    source = UserDataset(spec, MAX_DATA_BYTES)
    facts = source.build_facts(3)
    assert asked == [("some/set", "small", "v2")] and facts.source == "hf:some/set@v2"
    assert facts.classes == 2 and len(facts.origin) == 64
    other = UserDataset(spec.model_copy(update={"sha256": "0" * 64}), MAX_DATA_BYTES)
    with pytest.raises(DatasetError, match="it changed on the hub since the run began"):
        other.load()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,)}",
        "{" * 200,
        "'''",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
    ],
)
def test_an_array_with_an_odd_header_is_refused(tmp_path: Path, header: str) -> None:
    odd = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", odd)
    assert "numpy cannot read it as an NPZ archive" in find_refusal("a=a.npz", tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.npy").write_bytes(odd)
    assert "cannot be mapped by numpy" in find_refusal("a=folder", tmp_path)


def test_a_table_names_no_picture_outside_of_its_folder(tmp_path: Path) -> None:
    arrow = import_pyarrow()
    (tmp_path / "own").mkdir()
    for place in ("secret.png", "own/near.png"):
        Image.new("L", (4, 4), 7).save(tmp_path / place)
    os.mkfifo(tmp_path / "own" / "pipe.png")
    kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])

    def named(path: str) -> None:
        images = arrow.array([{"bytes": None, "path": path}] * 60, kind)
        import_pyarrow("parquet").write_table(
            arrow.table({"image": images, "y": [n % 2 for n in range(60)]}), tmp_path / "own" / "a.parquet"
        )

    named("near.png")
    assert materialise_named("a=own/a.parquet", tmp_path).view["train_x"].shape[1:] == (4, 4, 1)
    for path, words in (
        (str(tmp_path / "secret.png"), "outside the table's folder"),
        ("../secret.png", "outside the table's folder"),
        ("pipe.png", "is not a file"),
        ("a\0b", "a path that cannot be resolved"),
    ):
        named(path)
        assert words in find_refusal("a=own/a.parquet", tmp_path)


def test_what_is_drawn_by_a_program_is_no_picture(tmp_path: Path) -> None:
    """Pillow passes PostScript to Ghostscript regardless of the file name."""
    for label in "ab":
        (tmp_path / "images" / label).mkdir(parents=True)
        for n in range(30):
            (tmp_path / "images" / label / f"{n}.png").write_bytes(
                b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n"
            )
    assert "UnidentifiedImageError" in find_refusal("a=images", tmp_path)
