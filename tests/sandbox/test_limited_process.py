"""Forged predictions and results are the failure of their submission, in one line; the program goes on."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import LifoQueue
from typing import Any

import numpy as np
import pytest

from labwright.record.errors import SubmissionRefused
from labwright.sandbox import limited_process
from labwright.sandbox.limited_process import LimitedProcess, call_limited
from labwright.sandbox.repository.command import WITHHELD_LINE, OutputRedactor
from labwright.sandbox.repository.metric import parse_metric, read_metric


@pytest.fixture
def child() -> Iterator[LimitedProcess]:
    process = LimitedProcess(memory_bytes=2**30, seconds=1.0)
    yield process
    process.close()


def limit_calls(monkeypatch: pytest.MonkeyPatch, child: LimitedProcess) -> None:
    """Let `call_limited` use this child."""
    monkeypatch.setattr(limited_process, "_idle_processes", LifoQueue[LimitedProcess]())
    limited_process._idle_processes.put(child)


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
@pytest.mark.slow
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


@pytest.mark.slow
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
    assert limited_process._idle_processes.qsize() == 1
    limited_process._idle_processes.get().close()  # pyrefly: ignore


# --- forged predictions -----------------------------------------------------------------------------------------------


@pytest.mark.slow
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
