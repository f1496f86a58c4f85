"""User datasets as NPZ archives, image folders, Hugging Face datasets and plain folders."""

from __future__ import annotations

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
    [(np.int64, (6,), np.int64), (np.float32, (4, 3), np.float32), (np.uint8, (5, 5), np.float32)],
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
    np.savez(tmp_path / "a.npz", **arrays, **labels)  # pyrefly: ignore
    found = materialise_named("a=a.npz", tmp_path)
    assert np.array_equal(found.view["test_x"], arrays["test_x"])
    assert found.facts.sizes == {"train": 51, "dev": 9, "validation": 20, "test": 30}
    assert found.facts.split_rule.startswith("given train, validation, test; dev taken from train")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.array([{}] * 60, dtype=object), "y": np.arange(60) % 2}, "allow_pickle=False"),
        ({"x": np.zeros((60, 2)), "y": np.arange(50)}, "per example of x (shape (60, 2)), not int64 of shape (50,)"),
        ({"x": np.array([["a"]] * 60), "y": np.arange(60) % 2}, "x must contain numbers"),
        ({"x": np.zeros((60, 2)), "y": np.zeros(60)}, "has only one class"),
        ({"x": np.zeros((60, 2)), "y": np.zeros((60, 2))}, "y must contain one number or text per example"),
    ],
)
def test_an_archive_that_cannot_be_used(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    assert words in find_refusal("a=a.npz", tmp_path)


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


def test_links_lead_neither_out_nor_in_circles(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "set", {"cat": 30, "dog": 30})
    outside = write_pictures(tmp_path / "other", {"x": 1}) / "x" / "000.png"
    link = root / "cat" / "link.png"
    link.symlink_to(outside)
    assert "cat/link.png is a link to no file of the dataset" in find_refusal("p=set", tmp_path)
    link.unlink()
    link.symlink_to(link)
    assert "cat/link.png is a link to no file of the dataset" in find_refusal("p=set", tmp_path)
    link.unlink()
    link.symlink_to(root)
    assert "cat/link.png is a link to no file of the dataset" in find_refusal("p=set", tmp_path)
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


# --- Hugging Face ---------------------------------------------------------------------------------------------------


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


def test_a_table_names_no_picture_outside_of_it(tmp_path: Path) -> None:
    arrow = import_pyarrow()
    Image.new("L", (4, 4), 7).save(tmp_path / "near.png")
    kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    images = arrow.array([{"bytes": None, "path": "near.png"}] * 60, kind)
    table = arrow.table({"image": images, "y": [n % 2 for n in range(60)]})
    import_pyarrow("parquet").write_table(table, tmp_path / "a.parquet")
    assert "image in row 1 is missing: store its bytes in the table" in find_refusal("a=a.parquet", tmp_path)


def test_what_is_drawn_by_a_program_is_no_picture(tmp_path: Path) -> None:
    """Pillow passes PostScript to Ghostscript regardless of the file name."""
    for label in "ab":
        (tmp_path / "images" / label).mkdir(parents=True)
        for n in range(30):
            (tmp_path / "images" / label / f"{n}.png").write_bytes(
                b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n"
            )
    assert "UnidentifiedImageError" in find_refusal("a=images", tmp_path)
