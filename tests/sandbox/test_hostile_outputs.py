"""Output of hostile code: links, pipes, pickles, junk. Written here as a kernel would leave it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from labwright.record.schema.figures import AxesFacts, DrawnFacts, FigureFacts
from labwright.record.untrusted_files import BadFile, remove_path, write_file
from labwright.sandbox import results
from labwright.sandbox.results import collect_figures, hash_arrays, hash_artifacts, measure_attempt

LIMIT = 2**20
EXPERIMENTS = [
    ("Path('measurements.jsonl').write_text('[1, 2]\\n')", "measurements.jsonl line 1 was not written by lab"),
    ('Path(\'measurements.jsonl\').write_text(\'{"name": "a", "value": NaN}\\n\')', "line 1"),
    ("Path('measurements.jsonl').write_text('{\"name\": \"a\", \"value\": 1' + '0' * 400 + '}\\n')", "line 1"),
    ("import os\nos.symlink('/etc/passwd', 'measurements.jsonl')", "measurements.jsonl cannot be read"),
    ("import os\nos.mkfifo('measurements.jsonl')", "not a plain file"),
    (
        "import numpy as np, os\nos.mkdir('arrays')\nnp.save('arrays/a.npy', np.array([{}]), allow_pickle=True)",
        "arrays/a.npy contains Python objects",
    ),
    ("import os\nos.mkdir('arrays')\nPath('arrays/a.npy').write_text('text')", "arrays/a.npy is not an array"),
    ("import os\nos.symlink('/etc', 'arrays')", "arrays is a symbolic link"),
]
PLOTS = [
    ("print('nothing')", "no figure was drawn"),
    ("Path('figures/a.png').write_text('no image')", "a.png is not a readable PNG image"),
    ("Path('figures/a.pdf').write_text('no pdf')", "a.pdf is not a PDF"),
    ("import os\nos.symlink('/etc/passwd', 'figures/a.png')", "a.png cannot be read"),
    ("Path('figures/a b.png').touch()", "letters, digits"),
    ("Path('figures/a.png').write_bytes(bytes(20 * 2**20 + 1))", "more than the limit"),
]


@pytest.mark.parametrize(("code", "words"), EXPERIMENTS)
def test_what_cannot_be_read_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(code, {"Path": Path})
    with pytest.raises(BadFile, match=words):
        hash_arrays(tmp_path)
        measure_attempt(tmp_path, tmp_path / "labels", seed=0)


@pytest.mark.parametrize(("code", "words"), PLOTS)
def test_figures_that_cannot_be_used_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figures").mkdir()
    exec(code, {"Path": Path})
    figures, failure = collect_figures(tmp_path)
    assert figures == ()
    assert failure is not None and failure.kind == "figure"
    assert words in failure.message


def test_words_that_utf8_cannot_hold_are_measured_as_far_as_they_can(tmp_path: Path) -> None:
    line = {"name": "caf\udce9", "value": 1.0, "condition": "\ud800", "dataset": "d", "split": "validation"}
    (tmp_path / "measurements.jsonl").write_text(json.dumps(line) + "\n")
    [found] = measure_attempt(tmp_path, tmp_path / "labels", seed=0).final
    assert (found.name, found.condition) == ("caf?", "?")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ('{"width_inches": NaN, "dpi": 100, "smallest_font": 1e999}', FigureFacts(dpi=100)),
        (
            '{"dpi": 100, "axes": [{"xlabel": "x", "xlimits": [0, Infinity], "drawn": [{"kind": "line", '
            '"low": -1e999}]}]}',
            FigureFacts(dpi=100, axes=(AxesFacts(xlabel="x", drawn=(DrawnFacts(kind="line"),)),)),
        ),
        (r'{"smallest_text": "\ud800", "words": ["caf\udce9"]}', FigureFacts(smallest_text="?", words=("caf?",))),
        ("[" * 100_000, FigureFacts()),
        ('{"dpi": "many"}', FigureFacts()),
        ("[1]", FigureFacts()),
    ],
)
def test_facts_of_a_figure_that_could_not_be_read_again_are_left_out(
    tmp_path: Path, said: str, kept: FigureFacts
) -> None:
    (tmp_path / "figures").mkdir()
    Image.new("L", (2, 2)).save(tmp_path / "figures" / "a.png")
    (tmp_path / "figures" / "a.png.facts.json").write_text(said)
    [figure], failure = collect_figures(tmp_path)
    assert (failure, figure.facts) == (None, kept)


def test_artifacts_whose_names_no_record_could_hold_are_refused(tmp_path: Path) -> None:
    (tmp_path / "artifacts" / "net").mkdir(parents=True)
    (tmp_path / "artifacts" / "net" / "caf\udce9").touch()
    with pytest.raises(BadFile, match=r"artifacts/ contains a file named 'net/caf\\udce9': use UTF-8"):
        hash_artifacts(tmp_path, LIMIT)


def test_what_code_says_last_of_train_and_dev_is_kept_beside_its_results(tmp_path: Path) -> None:
    lines = [
        {"name": "rate", "value": value, "condition": "adam", "dataset": "digits", "split": split, "step": step}
        for split, value, step in (
            ("dev", 0.1, None),
            ("dev", 0.003, None),
            ("train", 0.5, None),
            ("dev", 0.7, 3),
            ("validation", 0.9, None),
            ("test", 0.9, None),
        )
    ]
    (tmp_path / "measurements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = measure_attempt(tmp_path, tmp_path / "labels", seed=0)
    assert [(one.split, one.value) for one in found.self_reported] == [("dev", 0.003), ("train", 0.5)]
    assert [(one.split, one.value) for one in found.final] == [("validation", 0.9)], "dev values are not results"


def test_a_large_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_FILE_BYTES", 1000)
    (tmp_path / "measurements.jsonl").write_bytes(b"x" * 2000)
    with pytest.raises(BadFile, match="has 2000 bytes, more than the limit of 1000"):
        measure_attempt(tmp_path, tmp_path, seed=0)


@pytest.mark.parametrize("name", ["../out", "/etc/out", "linked/out", ""])
def test_nothing_is_written_or_removed_outside(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadFile):
        write_file(folder, name, "x")
    with pytest.raises(BadFile):
        remove_path(folder, name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "job", "linked"]


def test_a_write_replaces_whatever_stands_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").touch()
    (tmp_path / "link").symlink_to("/nowhere")
    for name in ("folder", "link", "new/deep"):
        write_file(tmp_path, name, "text")
        assert (tmp_path / name).read_text() == "text" and not (tmp_path / name).is_symlink()
