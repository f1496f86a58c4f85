"""Forged predictions and results are the failure of their submission, in one line; the program goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import LifoQueue
from typing import Any

import numpy as np
import pytest

from labwright.record.errors import SandboxError, SubmissionRefused
from labwright.sandbox import limited_process
from labwright.sandbox.limited_process import LimitedProcess, call_limited
from labwright.sandbox.repository.command import WITHHELD_LINE, OutputRedactor
from labwright.sandbox.repository.metric import parse_metric, read_metric
from labwright.sandbox.results import measure_attempt
from tests.sandbox.conftest import DatasetStore

ROWS, TEST_ROWS = 360, 359


@pytest.fixture
def child() -> Iterator[LimitedProcess]:
    process = LimitedProcess(memory_bytes=2**30, seconds=1.0)
    yield process
    process.close()


def limit_calls(monkeypatch: pytest.MonkeyPatch, child: LimitedProcess) -> None:
    """Let `call_limited` use this child."""
    monkeypatch.setattr(limited_process, "_idle_processes", LifoQueue[LimitedProcess]())
    limited_process._idle_processes.put(child)  # pyright: ignore[reportPrivateUsage]


# --- the process ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (np.ones, (2**28,), "reading it takes more than 1 GiB of memory"),
        (time.sleep, (30,), "reading it took more than 1 s"),
        (re.match, (r"(a+)+b", "a" * 64), "reading it took more than 1 s"),
        (os.abort, (), "it ended the process that read it (exit code -6)"),
        (os._exit, (0,), "it ended the process that read it (exit code 0)"),
    ],
    ids=["memory", "time", "compiled code", "abort", "exit"],
)
def test_what_takes_too_much_is_refused_in_one_line_and_the_next_call_is_answered(
    child: LimitedProcess, function: Callable[..., Any], arguments: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(SubmissionRefused) as refused:
        child.call(function, *arguments, subject="submission of 'a'")
    assert str(refused.value) == f"submission of 'a': {words}"
    assert child.call(len, "abc", subject="") == 3


def test_errors_arrive_with_the_traceback_of_the_child(child: LimitedProcess) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        child.call(divmod, 1, 0, subject="")
    (traceback,) = raised.value.__notes__
    assert "limited_process.py" in traceback and "\n" not in str(raised.value)
    with pytest.raises(FileNotFoundError) as missing:
        child.call(os.stat, "/nowhere", subject="")
    assert missing.value.errno == 2


def test_a_child_that_was_killed_from_outside_is_started_again(child: LimitedProcess) -> None:
    first = child.call(os.getpid, subject="")
    os.kill(first, signal.SIGKILL)
    assert child.call(os.getpid, subject="") not in (first, os.getpid())


def test_a_child_that_does_not_start_is_no_fault_of_the_data(
    child: LimitedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SandboxError, match=r"does not start \(exit code 1\)") as refused:
        child.call(len, "", subject="submission of 'a'")
    assert not isinstance(refused.value, SubmissionRefused)


def test_relative_paths_are_those_of_the_caller(
    child: LimitedProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child.call(len, "", subject="")
    monkeypatch.chdir(tmp_path)
    Path("here").touch()
    assert child.call(os.path.exists, Path("here"), subject="")


def test_an_interrupted_call_leaves_no_answer_for_the_next(child: LimitedProcess) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        child.call(len, "", subject="")
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            child.call(time.sleep, 0.5, subject="")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert child.call(len, "ab", subject="") == 2


def test_threads_get_their_own_answers_and_the_child_no_keys(
    child: LimitedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(child.call, abs, -number, subject="") for number in range(200)]
        assert [one.result() for one in answers] == list(range(200))
    assert child.call(os.getenv, "SOME_API_KEY", subject="") is None


def test_a_call_that_takes_long_delays_no_other_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = LimitedProcess(seconds=5.0)
    slow.call(len, "", subject="")
    limit_calls(monkeypatch, slow)
    monkeypatch.setattr(limited_process, "_WAIT_SECONDS", 0.01)
    with ThreadPoolExecutor(2) as threads:
        hostile = threads.submit(call_limited, time.sleep, 30, subject="submission of 'a'")
        time.sleep(0.1)
        first = call_limited(os.getpid, subject="")
        assert not hostile.done() and first != os.getpid()
        assert call_limited(os.getpid, subject="") == first, "the started child serves the next call too"
        with pytest.raises(SubmissionRefused, match="took more than 5 s"):
            hostile.result()
    assert call_limited(len, "ab", subject="") == 2
    assert limited_process._idle_processes.qsize() == 1  # pyright: ignore[reportPrivateUsage]
    limited_process._idle_processes.get().close()  # pyright: ignore[reportPrivateUsage]


# --- forged predictions -----------------------------------------------------------------------------------------------


def header(shape: str, descr: str = "'<i8'") -> bytes:
    """An array file whose header promises what does not follow."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def classes(**dtype: Any) -> Any:
    return (np.arange(ROWS) % 10).astype(**dtype)


FORGED: dict[str, tuple[Any, str]] = {
    "class out of range": (np.full(ROWS, 10), r"class numbers 0\.\.9"),
    "class far out of range": (np.full(ROWS, 2**63, np.uint64), r"class numbers 0\.\.9"),
    "half a class": (np.full(ROWS, 0.5), r"class numbers 0\.\.9"),
    "millions of values": (np.zeros(5_000_000, np.int8), "unpacks to|more than the limit"),
    "not a number": (np.full(ROWS, np.nan), "not finite"),
    "infinite": (np.full(ROWS, np.inf, np.float16), "not finite"),
    "wider than a double": (np.full(ROWS, np.longdouble("1e4000")), "not finite"),
    "truth values": (classes(dtype=bool), "of dtype bool"),
    "complex": (classes(dtype=complex), "of dtype complex"),
    "words": (classes(dtype=str), "of dtype <U"),
    "dates": (classes(dtype="M8[s]"), "of dtype datetime64"),
    "records": (np.zeros(ROWS, [("a", "i4"), ("b", "i4")]), "of dtype"),
    "objects": (np.array([{}] * ROWS, object), "Object arrays cannot be loaded"),
    "two dimensions": (np.zeros((ROWS, 1), int), "must have shape"),
    "no dimension": (np.array(3), "must have shape"),
    "huge shape": (header(f"({10**15},)"), "not what lab.submit writes"),
    "shape beyond all numbers": (header(f"({2**62}, {2**62})"), "not what lab.submit writes"),
    "negative shape": (header("(-1,)"), "not what lab.submit writes"),
    "wide items": (header(f"({ROWS},)", "'<U999999999'"), "not what lab.submit writes"),
    "objects by header": (header(f"({ROWS},)", "'|O'"), "Object arrays cannot be loaded"),
    "code in the header": (header("__import__('os').abort()"), "not what lab.submit writes"),
    "nothing": (b"", "must have shape"),
    "no array": (b"just text", "must have shape"),
}


def submit(folder: Path, data: Any, *, split: str = "validation", name: str = "0" * 20) -> None:
    (folder / "submissions").mkdir(parents=True, exist_ok=True)
    with (
        zipfile.ZipFile(folder / "submissions" / f"{name}.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("predictions.npy", "w") as file,
    ):
        file.write(data) if isinstance(data, bytes) else np.lib.format.write_array(file, data)
    line = {"file": f"{name}.npz", "dataset": "digits", "split": split, "condition": "m", "kind": "predictions"}
    with open(folder / "submissions.jsonl", "a") as index:
        index.write(json.dumps(line) + "\n")


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("forged", FORGED)
def test_forged_predictions_are_refused_and_nothing_is_sealed(
    store: DatasetStore, tmp_path: Path, forged: str, split: str
) -> None:
    data, words = FORGED[forged]
    if split == "test" and not isinstance(data, bytes) and data.shape[:1] == (ROWS,):
        data = data[:TEST_ROWS]
    submit(tmp_path, data, split=split)
    with pytest.raises(SubmissionRefused, match=words) as refused:
        measure_attempt(tmp_path, store.labels, seed=0)
    assert "\n" not in str(refused.value) and str(refused.value).startswith(f"submission of 'm' for digits/{split}")
    assert not (tmp_path / "sealed").exists()


def test_a_small_archive_of_gigabytes_is_refused(store: DatasetStore, tmp_path: Path) -> None:
    submit(tmp_path, header(f"({2**28},)", "'|i1'") + bytes(2**28))
    assert (tmp_path / "submissions" / f"{'0' * 20}.npz").stat().st_size < 300_000
    with pytest.raises(SubmissionRefused, match="more than the limit"):
        measure_attempt(tmp_path, store.labels, seed=0)


@pytest.mark.parametrize("dtype", ["<i8", ">i8", ">f8", "<f2", ">u4", "longdouble", "int8"])
def test_every_order_and_width_of_numbers_gives_the_same_scores(
    store: DatasetStore, tmp_path: Path, dtype: str
) -> None:
    submit(tmp_path, classes(dtype=dtype))
    submit(tmp_path / "plain", classes(dtype=np.int64))
    found, plain = (measure_attempt(place, store.labels, seed=0).final for place in (tmp_path, tmp_path / "plain"))
    assert {one.name for one in found} == {"accuracy", "macro_f1"} and found == plain


def test_a_metric_whose_expression_never_ends_is_a_missing_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: LimitedProcess
) -> None:
    limit_calls(monkeypatch, child)
    reading = read_metric(parse_metric("stdout:((a+)+)b"), tmp_path, "a" * 64)
    assert reading.value is None and reading.failure is not None
    assert reading.failure.message == "stdout:((a+)+)b: reading it took more than 1 s"
    hidden = OutputRedactor.from_metric("stdout:((a+)+)b", ())
    assert hidden.redact("a test result\n" + "a" * 64) == WITHHELD_LINE
    assert hidden.redact("no result\nab\n") == f"no result\n{WITHHELD_LINE}\n"
