"""Answers of catalogues kept on disk, so that the same question is asked once.

A file holds one answer under the hash of its question. A file that cannot be read, holds another question or is too
old is no answer, and goes. Files are written beside and renamed: two processes may share the folder.

What it does not guarantee: that a kept answer is still what the catalogue would say; that the folder never holds more
than its room for a moment, while several processes write.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from record.nouns.frozen import Frozen

DAY = 86400.0
_OURS = re.compile(r"[0-9a-f]{64}\.json")
"""Names of our files: the folder is of the user's choice, and may hold others."""


class _Kept(Frozen):
    question: str
    at: float = Field(description="seconds since the epoch")
    text: str


@dataclass(frozen=True)
class Cache:
    """Texts by question. `clock` gives seconds since the epoch; `days` of 0 keeps nothing."""

    folder: Path
    days: float
    room: int
    """Bytes."""
    clock: Callable[[], float]

    def get(self, question: str, share: float = 1.0) -> str | None:
        """The kept answer that is younger than `share` of the days; None where there is none."""
        path = self._path(question)
        try:
            kept = _Kept.model_validate_json(path.read_bytes())
        except OSError:
            return None
        except ValidationError:
            _remove(path)
            return None
        age = self.clock() - kept.at
        return kept.text if kept.question == question and 0 <= age < share * self.days * DAY else None

    def put(self, question: str, text: str) -> None:
        """Keep an answer, if the folder can be written to; the oldest make room for it."""
        if not self.days:
            return
        with contextlib.suppress(OSError):  # without a place to keep answers, they are asked for again
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("wb", dir=self.folder, suffix=".part", delete=False) as file:
                file.write(_Kept(question=question, at=self.clock(), text=text).model_dump_json().encode())
            os.replace(file.name, self._path(question))
            self._make_room()

    def _make_room(self) -> None:
        found = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob("*.json")
                       if _OURS.fullmatch(path.name))
        total = sum(size for _, size, _ in found)
        for _, size, path in found[:-1]:
            if total <= self.room:
                return
            _remove(path)
            total -= size

    def _path(self, question: str) -> Path:
        return self.folder / f"{hashlib.sha256(question.encode()).hexdigest()}.json"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
