"""Prompts of model calls, stored next to the log as `prompts/<sha256>.json.gz`, named by the hash in the answer's
event.

The file has the exact text that was hashed: model and temperature, role, system and user text, the answer's schema, and
the sha256 of each image (never its bytes), so one hash verifies it. It is written before the question is sent, so every
committed answer has its prompt; a file without an answer (after a kill or a refusal) is harmless. Equal questions share
a file.

Limits: the folder is not protected. A file that is missing, too large, or changed is recognised when it is read, but is
not an audit finding, since nothing in a paper depends on it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from labwright.record.event_log import RecordError
from labwright.record.events.run_events import CallAnswered, PromptChanged
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.untrusted_files import open_plain_file

MAX_PROMPT_BYTES = 16 * 2**20
_HASH_PATTERN = re.compile(r"[0-9a-f]{64}")


class PromptRecord(FrozenModel):
    """A question exactly as it was sent, whichever model received it."""

    asked: str = Field(description="model and temperature as configured")
    role: str
    system: str = Field(description="instructions; they stay the same during a run if the role allows it")
    user: str
    images: tuple[str, ...] = Field(description="sha256 of each attached image")
    answer: dict[str, Any] = Field(alias="schema", description="JSON schema of the answer")

    step: dict[str, Any] = Field(default_factory=dict)
    """In a conversation: its tools; after the first step the last call, while `user` is its result."""

    @property
    def answer_name(self) -> str:
        """The type of the requested answer, e.g. `Program`."""
        return str(self.answer.get("title", ""))


class PromptLookup(FrozenModel):
    """Result of looking up a question. `changed`: its difference from the record; empty if there is none."""

    asked: PromptRecord | None = Field(description="None: the file is not a readable question")
    changed: str = ""


def store_prompt(run: Path, text: str) -> None:
    """Store the text of a question atomically; an existing file is kept. Raises `RecordError`."""
    data = text.encode()
    path = RunFolder(run).prompts / f"{hashlib.sha256(data).hexdigest()}.json.gz"
    if path.is_file():
        return
    try:
        write_file(path, gzip.compress(data, mtime=0))
    except OSError as error:
        fix = "free disk space (or fix its permissions), then resume"
        raise RecordError(f"cannot write to {path.parent}: {error.strerror}; {fix}") from error


def find_prompt(run: Path, event: CallAnswered | PromptChanged) -> PromptLookup | None:
    """Look up a question as it was asked, or as it would be asked now; None if it was not stored
    (`models.keep_prompts=false`).

    Reads at most 16 MiB and follows no link within the run's folder.
    """
    expected = event.request_sha256
    packed = _read_prompt_file(run, f"{expected}.json.gz") if _HASH_PATTERN.fullmatch(expected) else None
    if packed is None:
        return None
    text, unpacker = b"", zlib.decompressobj(wbits=31)
    with suppress(zlib.error):
        text = unpacker.decompress(packed, MAX_PROMPT_BYTES)
    if not unpacker.eof:
        return PromptLookup(asked=None, changed="changed since: it is damaged or too large")
    found = hashlib.sha256(text).hexdigest()
    changed = "" if found == expected else f"changed since: its sha256 is {found[:16]}, recorded {expected[:16]}"
    try:
        return PromptLookup(asked=PromptRecord.model_validate_json(text), changed=changed)
    except ValidationError:
        return PromptLookup(asked=None, changed=changed or "unknown format (written by another version?)")


def _read_prompt_file(run: Path, name: str) -> bytes | None:
    """Read a regular file of the prompts folder, at most `MAX_PROMPT_BYTES + 1` bytes; None if it does not exist."""
    try:
        folder = os.open(RunFolder(run).prompts, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            with open(open_plain_file(name, folder), "rb") as file:
                return file.read(MAX_PROMPT_BYTES + 1)
        finally:
            os.close(folder)
    except OSError:
        return None
