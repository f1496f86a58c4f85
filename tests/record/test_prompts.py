"""Kept questions: the bytes that were hashed, read back bounded, and nothing in the folder can hurt the reader."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from labwright.record import llm_calls
from labwright.record.events.run_events import CallAnswered
from labwright.record.llm_calls import PromptLookup, PromptRecord, find_prompt, store_prompt
from labwright.record.schema.decisions import CallKey, TokenUsage

TEXT = json.dumps(
    {
        "asked": "m at temperature 0.5",
        "role": "code",
        "system": "You write code.",
        "user": "Wröte?\n",
        "images": ["ab" * 32],
        "schema": {"title": "Program", "type": "object"},
    },
    ensure_ascii=False,
)


def answered(text: str = TEXT, *, sha256: str | None = None) -> CallAnswered:
    return CallAnswered(
        key=CallKey(decision=1, attempt=1, role="code", ordinal=0),
        model="m",
        answer={},
        usage=TokenUsage(),
        request_sha256=sha256 or hashlib.sha256(text.encode()).hexdigest(),
        seconds=0.0,
    )


def planted(run: Path, packed: bytes, text: str = TEXT) -> PromptLookup | None:
    """What is read where these bytes lie under the name of a question."""
    folder = run / "prompts"
    folder.mkdir(exist_ok=True)
    (folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json.gz").write_bytes(packed)
    return find_prompt(run, answered(text))


def test_a_question_is_kept_and_read_back(tmp_path: Path) -> None:
    store_prompt(tmp_path, TEXT)
    kept = find_prompt(tmp_path, answered())
    assert kept is not None and kept.asked is not None and kept.changed == ""
    assert (kept.asked.system, kept.asked.user) == ("You write code.", "Wröte?\n")
    assert kept.asked.images == ("ab" * 32,) and kept.asked.answer_name == "Program"
    assert PromptRecord.model_validate_json(TEXT) == kept.asked


def test_what_was_changed_says_so(tmp_path: Path) -> None:
    kept = planted(tmp_path, gzip.compress(TEXT.replace("You", "They").encode()))
    assert kept is not None and kept.asked is not None and kept.asked.system == "They write code."
    assert kept.changed.startswith("changed since: its sha256 is ")


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"no gzip",
        gzip.compress(TEXT.encode(), mtime=0)[:-9],
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(b"\xff\xfe", mtime=0),
        gzip.compress(b'{"role": "code"}', mtime=0),
    ],
    ids=["empty", "plain", "cut off", "no JSON", "no text", "a part"],
)
def test_what_cannot_be_read_says_so(tmp_path: Path, packed: bytes) -> None:
    kept = planted(tmp_path, packed)
    assert kept is not None and kept.asked is None and "changed since" in kept.changed


def test_a_bomb_is_read_to_the_limit_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = planted(tmp_path, gzip.compress(bytes(4 * llm_calls.MAX_PROMPT_BYTES)))
    assert kept is not None and kept.asked is None and "damaged or too large" in kept.changed
    monkeypatch.setattr(llm_calls, "MAX_PROMPT_BYTES", len(TEXT.encode()))
    assert planted(tmp_path, gzip.compress(TEXT.encode())) == PromptLookup(asked=PromptRecord.model_validate_json(TEXT))


def test_no_link_pipe_or_folder_is_read(tmp_path: Path) -> None:
    store_prompt(tmp_path / "real", TEXT)
    [real] = (tmp_path / "real" / "prompts").iterdir()
    planted = {name: tmp_path / name / "prompts" / real.name for name in ("link", "pipe", "folder")}
    for at in planted.values():
        at.parent.mkdir(parents=True)
    planted["link"].symlink_to(real)
    os.mkfifo(planted["pipe"])
    planted["folder"].mkdir()
    for name in planted:
        assert find_prompt(tmp_path / name, answered()) is None, name
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "prompts").symlink_to(tmp_path / "real" / "prompts")
    assert find_prompt(tmp_path / "linked", answered()) is None
