"""Texts of failures and output: error classes and bounded transcripts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record.schema.nodes import ErrorClass
from labwright.sandbox.output import (
    Transcript,
    build_notebook,
    classify_exception,
    failure_from_exception,
    strip_colours,
)

CUDA_FULL = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 12.75 MiB is "
    "free. Process 4242 has 79.13 GiB memory in use. Of the allocated memory 78.50 GiB is allocated by PyTorch, and "
    "100.25 MiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("SyntaxError", "invalid syntax", "syntax"),
        ("ModuleNotFoundError", "No module named 'x'", "import"),
        ("MemoryError", "", "memory"),
        ("RuntimeError", "[enforce fail] DefaultCPUAllocator: can't allocate memory", "memory"),
        ("OutOfMemoryError", CUDA_FULL, "memory"),
        (
            "AcceleratorError",
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            "memory",
        ),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "memory"),
        ("RuntimeError", "CUDA error: device-side assert triggered", "other"),
        ("RuntimeError", "element 0 of tensors does not require grad", "other"),
    ],
)
def test_errors_are_classified(name: str, message: str, kind: ErrorClass) -> None:
    assert classify_exception(name, message) == kind


def test_a_traceback_is_plain_short_and_relative(tmp_path: Path) -> None:
    lines = ["\x1b[31mError\x1b[0m", *(f"{tmp_path}/net.py line {i}" for i in range(1000)), "the end"]
    failure = failure_from_exception("ValueError", f"in {tmp_path}/x", traceback=lines, folder=tmp_path)
    assert failure.message == "ValueError: in x"
    assert failure.traceback.startswith("Error\nnet.py line 0\n") and failure.traceback.endswith("the end")
    assert "characters left out" in failure.traceback and len(failure.traceback) < 8100


@given(
    pieces=st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(max_size=30)), max_size=40),
    half=st.integers(1, 40),
)
def test_a_transcript_keeps_head_and_tail_and_counts_the_rest(pieces: list[tuple[str, str]], half: int) -> None:
    transcript = Transcript(2 * half)
    for stream, text in pieces:
        transcript.add(stream, text)
    whole = "".join(text for _, text in pieces)
    assert transcript.dropped == max(0, len(whole) - 2 * half)
    if transcript.dropped:
        assert transcript.to_text().startswith(whole[:half]) and transcript.to_text().endswith(whole[-half:])
        assert len(transcript.to_text()) < 2 * half + 80
    else:
        assert transcript.to_text() == whole


def test_a_notebook_takes_any_text() -> None:
    transcript = Transcript(1000)
    transcript.add("stdout", "bell \x07 and half a pair \ud800\n")
    assert "bell ? and half a pair ?" in build_notebook([("print('\x00')", transcript.to_chunks())])


@pytest.mark.parametrize("piece", ["\x1b]", "\x1b[", "\x1b[0;", "\x1b]0;", "\x1b]\x1b\\"])
def test_unfinished_escapes_take_no_time(piece: str) -> None:
    began = time.process_time()
    strip_colours(piece * 500_000)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("word", ["shape ", "shape '", "expected 1d batch_size", "array dimensions ", "features, but "])
def test_a_long_message_takes_no_time(word: str) -> None:
    began = time.process_time()
    failure = failure_from_exception("ValueError", word * 100_000 + "not aligned", traceback=[], folder=Path("/x"))
    assert len(failure.message) < 3000 and time.process_time() - began < 5
