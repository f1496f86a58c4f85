"""Reading metrics: every format, and the messages if there is no value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labwright.sandbox.repository.metric import MAX_METRIC_BYTES, MetricError, MetricReading, parse_metric, read_metric

LOG = "epoch,val,test\n1,0.5,0.51\n2,0.4,0.44\n3,0.45,0.43\n"


def read(folder: Path, spec: str, text: str | None = None, **said: object) -> MetricReading:
    """Read a metric from a file with this content."""
    metric = parse_metric(spec)
    if text is not None:
        (folder / metric.place).parent.mkdir(parents=True, exist_ok=True)
        (folder / metric.place).write_text(text)
    return read_metric(metric, folder, **said)  # pyrefly: ignore


def why(found: MetricReading) -> str:
    """Return the message of a failed reading."""
    assert found.failure is not None and found.failure.kind == "no measurement" and found.value is None
    assert "\n" not in found.failure.message
    return found.failure.message


@pytest.mark.parametrize(
    ("spec", "text", "value"),
    [
        ("m.json:test.r2", '{"train": {"r2": 0.9}, "test": {"r2": 0.71}}', 0.71),
        ("m.json:top.acc@0.5", '{"top": {"acc@0.5": 0.25}}', 0.25),
        ("m.json:folds.-1", '{"folds": [1, 2, 3]}', 3.0),
        ("log.csv:test@last", LOG, 0.43),
        ("log.csv:test@min(val)", LOG, 0.44),
        ("log.csv:val@min(val)", LOG, 0.4),
        ("log.tsv:b", "a\tb\n1\t2\n", 2.0),
        ("log.txt:^loss (.+)$", "val loss 2\nloss 1\nval loss 4\n", 1.0),
        ("log.jsonl:acc@step=1", '{"step": 1, "acc": 0.5}\n{"step": 1, "loss": 2}\n{"step": 2, "acc": 0.7}\n', 0.5),
    ],
)
def test_a_number_is_read_where_the_metric_says(tmp_path: Path, spec: str, text: str, value: float) -> None:
    assert read(tmp_path, spec, text) == MetricReading(value)


@pytest.mark.parametrize(
    ("spec", "text", "words"),
    [
        ("m.json:r2", '{"r2": NaN}', "not finite"),
        ("m.json:r2", '{"loss": 1}', "no such key: 'r2'; the keys are loss"),
        ("m.json:r2", '{"r2": "0.7"}', "not a number"),
        ("m.json:r2", '{"r2": {"a": 1}}', "not a number"),
        ("m.json:r2", "{", "cannot be read"),
        ("m.csv:acc", LOG, "no column 'acc'; the columns are epoch, val, test"),
        ("m.csv:val@max(best)", LOG, "no column 'best'"),
        ("m.csv:val", "val\nnan\n", "not finite"),
        ("m.jsonl:val", "3\n", "cannot be read"),
        ("**/m.json:r2", None, "no such file"),
    ],
)
def test_what_gives_no_number_is_a_failure_in_words(tmp_path: Path, spec: str, text: str | None, words: str) -> None:
    assert words in why(read(tmp_path, spec, text))


def test_a_file_that_the_run_did_not_write_counts_for_nothing(tmp_path: Path) -> None:
    assert "older than the run" in why(read(tmp_path, "m.json:r2"))
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


@pytest.mark.parametrize("spec", ["", "m.json", "/etc/m.json:a", "stdout:acc", "m.csv:", "m.csv:a@"])
def test_a_metric_that_cannot_be_meant_is_refused_at_once(spec: str) -> None:
    with pytest.raises(MetricError) as refused:
        parse_metric(spec)
    assert "\n" not in str(refused.value) and len(str(refused.value)) > 40
