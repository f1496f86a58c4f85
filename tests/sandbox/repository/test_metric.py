"""Reading metrics: every format, and the messages if there is no value."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.sandbox.repository.metric import MAX_METRIC_BYTES, MetricError, MetricReading, parse_metric, read_metric

LOG = "epoch,val,test\n1,0.5,0.51\n2,0.4,0.44\n3,0.45,0.43\n"


def read(folder: Path, spec: str, text: str | None = None, **said: object) -> MetricReading:
    """Read a metric from a file with this content."""
    metric = parse_metric(spec)
    if text is not None:
        (folder / metric.place).parent.mkdir(parents=True, exist_ok=True)
        (folder / metric.place).write_text(text)
    return read_metric(metric, folder, **said)  # pyright: ignore[reportArgumentType]


def why(found: MetricReading) -> str:
    """Return the message of a failed reading."""
    assert found.failure is not None and found.failure.kind == "no measurement" and found.value is None
    assert "\n" not in found.failure.message
    return found.failure.message


@pytest.mark.parametrize(
    ("spec", "text", "value"),
    [
        ("m.json:test.r2", '{"train": {"r2": 0.9}, "test": {"r2": 0.71}}', 0.71),
        ("deep/m.json:folds.1.acc", '{"folds": [{"acc": 0.5}, {"acc": 0.6}]}', 0.6),
        ("m.json:top.acc@0.5", '{"top": {"acc@0.5": 0.25}}', 0.25),
        ("m.json:a.b.c", '{"a.b": {"c": 1}, "a": 2}', 1.0),
        ("m.json:folds.-1", '{"folds": [1, 2, 3]}', 3.0),
        ("log.csv:test", LOG, 0.43),
        ("log.csv:test@last", LOG, 0.43),
        ("log.csv:test@epoch=2", LOG, 0.44),
        ("log.csv:test@min(val)", LOG, 0.44),
        ("log.csv:test@max(val)", LOG, 0.51),
        ("log.csv:val@min(val)", LOG, 0.4),
        ("log.csv:test@last", LOG + "4,0.6,\n", 0.43),
        ("log.tsv:b", "a\tb\n1\t2\n", 2.0),
        ("log.csv:test@max(val)", "\ufeffval , test\n nan, 1\n 0.1, 2\n", 2.0),
        ("log.jsonl:acc@step=1", '{"step": 1, "acc": 0.5}\n{"step": 1, "loss": 2}\n{"step": 2, "acc": 0.7}\n', 0.5),
    ],
)
def test_a_number_is_read_where_the_metric_says(tmp_path: Path, spec: str, text: str, value: float) -> None:
    assert read(tmp_path, spec, text) == MetricReading(value)


def test_the_last_match_in_the_output_counts_and_that_there_were_several_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, "stdout:acc ([0-9.]+) %", stdout="acc 1.0 %\nbest acc 84.0 %\n", scale=0.01)
    assert found == MetricReading(0.84, "2 matches, the last was taken")
    assert "no printed line matches" in why(read(tmp_path, "stdout:acc ([0-9.]+)", stdout="done"))
    assert "not a number" in why(read(tmp_path, "stdout:acc (.*)", stdout="acc high"))


@pytest.mark.parametrize(
    ("spec", "text", "words"),
    [
        ("m.json:r2", '{"r2": NaN}', "not finite"),
        ("m.json:r2", '{"r2": 1e999}', "not finite"),
        ("m.json:r2", '{"loss": 1}', "no such key: 'r2'; the keys are loss"),
        ("m.json:r2", None, "no such file"),
        ("m.json:r2", '{"r2": "0.7"}', "not a number"),
        ("m.json:r2", '{"r2": true}', "not a number"),
        ("m.json:r2", '{"r2": {"a": 1}}', "not a number"),
        ("m.json:r2.x", '{"r2": 1}', "no such key: 'x'"),
        ("m.json:r2", "{", "cannot be read"),
        ("m.json:r2", "[" * 200_000, "cannot be read"),
        ("m.csv:acc", LOG, "no column 'acc'; the columns are epoch, val, test"),
        ("m.csv:val@epoch=9", LOG, "epoch is 9"),
        ("m.csv:val@max(best)", LOG, "no column 'best'"),
        ("m.csv:val", "", "no column 'val'"),
        ("m.csv:val", "val\nnan\n", "not finite"),
        ("m.csv:val", "val\nhigh\n", "not a number"),
        ("m.jsonl:val", "3\n", "cannot be read"),
        ("m.csv:val", "val\n" + "9" * 140_000, "cannot be read"),
        ("**/m.json:r2", None, "no such file"),
    ],
)
def test_what_gives_no_number_is_a_failure_in_words(tmp_path: Path, spec: str, text: str | None, words: str) -> None:
    assert words in why(read(tmp_path, spec, text))


@given(st.binary(max_size=300))
def test_whatever_bytes_a_run_leaves_are_a_number_or_a_failure(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        for spec, name in (("m.json:a", "m.json"), ("m.csv:a@min(b)", "m.csv"), ("m.jsonl:a", "m.jsonl")):
            head = b"a,b\n" if name == "m.csv" else b""
            (Path(folder) / name).write_bytes(head + content + b"\0" * 4)
            found = read_metric(parse_metric(spec), Path(folder))
            assert (found.value is None) != (found.failure is None), found


def test_a_file_that_the_run_did_not_write_counts_for_nothing(tmp_path: Path) -> None:
    assert "older than the run" in why(read(tmp_path, "m.json:r2", stale=True))
    assert "older" not in why(read(tmp_path, "m.json:r2", '{"acc": 1}', stale=True))
    (tmp_path / "m.json").write_text('{"r2": 1}')
    os.utime(tmp_path / "m.json", (1000, 1000))
    assert "older than the run" in why(read(tmp_path, "m.json:r2", since=2000))
    assert read(tmp_path, "m.json:r2", since=999) == MetricReading(1.0)


def test_no_link_is_followed_and_nothing_huge_is_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "m.json").write_text('{"r2": 1}')
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "m.json").symlink_to(outside / "m.json")
    (folder / "linked").symlink_to(outside)
    why(read(folder, "m.json:r2"))
    assert "symbolic link" in why(read(folder, "linked/m.json:r2"))
    assert "no such file" in why(read(folder, "*/m.json:r2"))
    os.mkfifo(folder / "pipe.json")
    why(read(folder, "pipe.json:r2"))
    (folder / "big.json").touch()
    os.truncate(folder / "big.json", MAX_METRIC_BYTES + 1)
    assert f"limit of {MAX_METRIC_BYTES}" in why(read(folder, "big.json:r2"))


def test_of_files_that_a_pattern_names_the_newest_is_read_and_it_is_said(tmp_path: Path) -> None:
    for age, day in ((300, "a"), (100, "b"), (200, "c")):
        path = tmp_path / "outputs" / day / "m.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"r2": age}))
        os.utime(path, (age, age))
    note = "3 files match, the newest was read: outputs/a/m.json"
    assert read(tmp_path, "outputs/*/m.json:r2") == read(tmp_path, "**/m.json:r2") == MetricReading(300.0, note)
    assert "no such file" in why(read(tmp_path, "*/m.json:r2"))


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "m.txt:acc",
        "m.json",
        "m.json:",
        "/etc/m.json:a",
        "../m.json:a",
        "stdout:acc",
        "stdout:([0-9",
        "m.csv:",
        "m.csv:a@best",
        "m.csv:a@",
        "tb:runs:acc",
    ],
)
def test_a_metric_that_cannot_be_meant_is_refused_at_once(spec: str) -> None:
    with pytest.raises(MetricError) as refused:
        parse_metric(spec)
    assert "\n" not in str(refused.value) and len(str(refused.value)) > 40


def test_the_folder_of_the_run_stands_in_the_name() -> None:
    assert parse_metric("{out}/m.json:a", out="out/7").place == "out/7/m.json"
