"""What models were asked, kept beside the log: `prompts/<sha256>.json.gz`, named by the hash in the answer's event.

The file is the very text that was hashed: model and temperature, role, system and user text, the answer's schema, and
the sha256 of each picture (never its bytes). So whoever reads it back can hold it against the record with one hash. It
is written before the question goes out, so that a committed answer has its prompt; a file without an answer (a kill, a
refusal) is harmless. Equal questions share a file.

What it does not guarantee: that the folder is left alone. A file that is gone, too large, or not what was hashed is
told apart when it is read, and is no finding of the audit: nothing in a paper rests on it.
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

from labwright.record.events.run_events import CallAnswered, PromptChanged
from labwright.record.log_reader import RecordError
from labwright.record.run_folder import RunFolder, open_regular, write_file
from labwright.record.schema.frozen_model import FrozenModel

MAX_PROMPT_BYTES = 16 * 2**20
"""Bytes of a question that is read back, unpacked or packed."""
_HASH_PATTERN = re.compile(r"[0-9a-f]{64}")


class PromptRecord(FrozenModel):
    """A question as it was sent, whatever model it went to."""

    asked: str = Field(description="model and temperature, as they were configured")
    role: str
    system: str = Field(description="instructions, the same over a run as far as the role allows")
    user: str
    images: tuple[str, ...] = Field(description="sha256 of each picture that went with it")
    answer: dict[str, Any] = Field(alias="schema", description="JSON schema that the answer keeps to")

    @property
    def answer_name(self) -> str:
        """What kind of answer was asked for, e.g. `Program`."""
        return str(self.answer.get("title", ""))


class PromptLookup(FrozenModel):
    """What was found of a question. `changed`: why it is not what the record says was asked; empty where it is."""

    asked: PromptRecord | None = Field(description="None: what lies there cannot be read as a question")
    changed: str = ""


def store_prompt(run: Path, text: str) -> None:
    """Keep the text of a question, whole or not at all; one that is there already stays. Raises `RecordError`."""
    data = text.encode()
    path = RunFolder(run).prompts / f"{hashlib.sha256(data).hexdigest()}.json.gz"
    if path.is_file():
        return
    try:
        write_file(path, gzip.compress(data, mtime=0))
    except OSError as error:
        raise RecordError(
            f"cannot write to {path.parent}: {error.strerror}; free disk space (or fix its permissions), then resume"
        ) from error


def find_prompt(run: Path, event: CallAnswered | PromptChanged) -> PromptLookup | None:
    """What was asked, or would be now; None where it was not kept (`models.keep_prompts=false`).

    Reads 16 MiB at most and follows no link within the run's folder.
    """
    expected = event.request_sha256
    packed = _read_prompt_file(run, f"{expected}.json.gz") if _HASH_PATTERN.fullmatch(expected) else None
    if packed is None:
        return None
    text, unpacker = b"", zlib.decompressobj(wbits=31)
    with suppress(zlib.error):
        text = unpacker.decompress(packed, MAX_PROMPT_BYTES)
    if not unpacker.eof:
        return PromptLookup(asked=None, changed="changed since: it is damaged, or larger than a question is")
    found = hashlib.sha256(text).hexdigest()
    changed = "" if found == expected else f"changed since: its sha256 is {found[:16]}, recorded {expected[:16]}"
    try:
        return PromptLookup(asked=PromptRecord.model_validate_json(text), changed=changed)
    except ValidationError:
        return PromptLookup(asked=None, changed=changed or "of a form that this version does not know")


def _read_prompt_file(run: Path, name: str) -> bytes | None:
    """A regular file of the folder of prompts, at most `LARGEST` bytes and one; None where there is none."""
    try:
        folder = os.open(RunFolder(run).prompts, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            with open(open_regular(name, folder), "rb") as file:
                return file.read(MAX_PROMPT_BYTES + 1)
        finally:
            os.close(folder)
    except OSError:
        return None
