"""Exchanges of a run's experiments with studied language models, in `exchanges.jsonl` next to the log.

An exchange is identified by the key of the cell that asked, the hash of the question, and the ordinal of that question
in the cell's execution. Rows are only added (`record.line_store`); memory contains their places in the file, not their
texts. The maximum cost is committed before a call, and its answer before the code sees it; concurrent commits are
batched into one line. The reservation of a killed call stays spent, since it may be billed.

Limits: an answer that was received but not committed before a kill is lost, and the call is made again.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import re
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from labwright.record.errors import UserError
from labwright.record.events.run_events import CallAnswered, PromptChanged
from labwright.record.line_store import LineStore, RecordError, StoredRow, read_stored_row, read_stored_rows
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema import FrozenModel, is_empty, replace_unencodable
from labwright.record.schema.decisions import Cost, LLMExchange, LLMQuestion, StudiedLLMUsage
from labwright.record.untrusted_files import open_plain_file

EXCHANGES_FILE = "exchanges.jsonl"
EXCHANGES_LIST = "exchanges.jsonl"
"""File in the folder of an execution: the ids of its exchanges, with the sha256 of the answers."""


class LLMQuestionRefused(UserError):
    """A question was refused permanently. The code that asked must change it."""


class LLMBudgetSpent(UserError):
    """The budget for studied models is exhausted, so the question was not asked. The user has to raise it."""


class LLMUnavailable(UserError):
    """A studied model did not answer within the maximum wait. The user can resume the run later."""


class AskedCall(FrozenModel):
    """A question is about to be asked; `tokens` and `usd` are its maximum cost."""

    id: int
    cell: str
    exchange: str
    question: LLMQuestion
    tokens: int
    usd: float


class AnsweredCall(FrozenModel):
    """The end of a call: an answer with its cost, or the reason why the call cost nothing."""

    id: int
    answer: LLMExchange | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    why: str = ""


class CallBatch(FrozenModel):
    """The calls that one line commits."""

    asked: tuple[AskedCall, ...] = Field(default=(), exclude_if=is_empty)
    answered: tuple[AnsweredCall, ...] = Field(default=(), exclude_if=is_empty)


MAX_FILES_KEPT = 8
_BATCH = TypeAdapter(CallBatch)
CallId = tuple[str, str]
"""(key of the cell, id of the exchange)."""


class ExchangeIndex:
    """The places of all exchanges in a file, and their cost, without their texts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end, self._lines, self.inode = 0, 0, 0
        """End of the last line in bytes, number of lines with calls, and identity of the file (for readers)."""
        self.next_id = 1
        self.spent = Cost()
        """Cost of answers, reservations of running calls, and reservations of calls that were killed."""
        self._usage: dict[str, StudiedLLMUsage] = {}
        self._open: dict[int, tuple[CallId, str, Cost]] = {}
        """Number of a call that has not ended -> its exchange, studied model and maximum cost."""
        self._questions: dict[CallId, tuple[int, StoredRow]] = {}
        self._answers: dict[CallId, tuple[int, StoredRow]] = {}
        """Number of the first call with the question or the answer of an exchange, and its line, without the text."""

    def add(self, row: StoredRow, batch: CallBatch | None = None) -> None:
        """Add the calls of a line. Raises `RecordError`."""
        try:
            batch, row = batch or _BATCH.validate_json(row.body), row._replace(body="")
            for one in batch.asked:
                self._add_asked(one, row)
            for one in batch.answered:
                self._add_answered(one, row)
            self.end, self._lines = row.offset + row.length, self._lines + 1
        except (ValueError, KeyError):
            raise RecordError(f"cannot read the record {self.path}: the line at byte {row.offset} is damaged") from None

    def read_new(self) -> None:
        """Add the lines that were written since the last call. Raises `RecordError`."""
        for row in read_stored_rows(self.path, start=self.end, number=self._lines + 2 if self.end else 1):
            self.add(row)

    def _add_asked(self, call: AskedCall, row: StoredRow) -> None:
        key, most, name = (call.cell, call.exchange), Cost(usd=call.usd, tokens=call.tokens), call.question.subject
        self.next_id = max(self.next_id, call.id + 1)
        self.spent += most
        self._open[call.id] = key, name, most
        self._questions.setdefault(key, (call.id, row))
        known = self._usage.get(name, StudiedLLMUsage(name=name))
        self._usage[name] = known.model_copy(update={"lost": known.lost + 1})

    def _add_answered(self, call: AnsweredCall, row: StoredRow) -> None:
        key, name, most = self._open.pop(call.id)
        known, changes = self._usage[name], dict[str, object]()
        self.spent += most * -1 + Cost(usd=call.usd, tokens=call.input_tokens + call.output_tokens)
        if call.answer is not None:
            self._answers.setdefault(key, (call.id, row))
            last = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="seconds")
            models = tuple(sorted({*known.models, call.answer.model} - {""}))
            changes = {"calls": known.calls + 1, "models": models, "first": known.first or last, "last": last}
        for total in ("input_tokens", "output_tokens", "usd"):
            changes[total] = getattr(known, total) + getattr(call, total)
        self._usage[name] = known.model_copy(update={"lost": known.lost - 1, **changes})

    def find_exchange(self, cell: str, exchange: str) -> LLMExchange | None:
        """Return the committed exchange of a cell with this id, or None. Raises `RecordError`."""
        if (cell, exchange) not in self._answers:
            return None
        call, row = self._answers[cell, exchange]
        batch = _BATCH.validate_json(read_stored_row(self.path, row.offset, row.length))
        return next(one.answer for one in batch.answered if one.id == call)

    def read_question(self, cell: str, exchange: str) -> LLMQuestion:
        """Return the question of an exchange. Raises `LookupError`, `RecordError`."""
        call, row = self._questions[cell, exchange]
        batch = _BATCH.validate_json(read_stored_row(self.path, row.offset, row.length))
        return next(one.question for one in batch.asked if one.id == call)

    def find_differing(self, cell: str, listed: Iterable[tuple[str, str]]) -> str:
        """Return the first listed id whose answer differs from the committed sha256, or "". Raises `RecordError`."""
        for exchange, digest in listed:
            found = self.find_exchange(cell, exchange)
            if found is None or found.sha256 != digest:
                return exchange
        return ""

    @property
    def usage(self) -> tuple[StudiedLLMUsage, ...]:
        """Usage of each studied model, by name."""
        return tuple(one for _, one in sorted(self._usage.items()))


_read: dict[Path, ExchangeIndex] = {}
_reading = threading.Lock()


def read_exchanges(folder: Path) -> ExchangeIndex:
    """Return the exchanges of a run's folder, even while they are written. Raises `RecordError`.

    Each process reads a file once, and then only what is added to it.
    """
    path = (folder / EXCHANGES_FILE).absolute()
    with _reading:
        known, index = _read.pop(path, None), ExchangeIndex(path)
        if not path.is_file():
            return index
        about = path.stat()
        if known is not None and known.inode == about.st_ino and known.end <= about.st_size:
            index = known
        index.inode = about.st_ino
        index.read_new()
        _read[path] = index
        while len(_read) > MAX_FILES_KEPT:
            del _read[next(iter(_read))]
        return index


class LLMCallStore:
    """Stores the exchanges of one run; only one writer. Raises `RecordError`."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock, self.index = clock, ExchangeIndex(path)
        self._waiting: list[tuple[AskedCall | AnsweredCall, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._store = LineStore(path, "exchanges", self.index.add)
        self._next = self.index.next_id
        self.spent = self.index.spent
        """As in the index, with the reservations that are being committed."""

    async def reserve(self, cell: str, exchange: str, question: LLMQuestion, max_cost: Cost) -> int:
        """Commit the fact that a question is about to be asked, with its maximum cost. Returns the number of the
        call.
        """
        number, self._next = self._next, self._next + 1
        self.spent += max_cost
        plain = LLMQuestion.model_validate(replace_unencodable(question.model_dump()))
        tokens, usd = max_cost.tokens, max_cost.usd
        await self._commit(AskedCall(id=number, cell=cell, exchange=exchange, question=plain, tokens=tokens, usd=usd))
        return number

    async def settle(
        self, number: int, max_cost: Cost, exchange: LLMExchange, *, tokens: tuple[int, int], usd: float, seconds: float
    ) -> None:
        """Commit the answer to a call for which `max_cost` was reserved."""
        end = AnsweredCall(id=number, answer=exchange, input_tokens=tokens[0], output_tokens=tokens[1])
        await self._commit(end.model_copy(update={"usd": usd, "seconds": seconds}))
        self.spent += max_cost * -1 + Cost(usd=usd, tokens=sum(tokens))

    async def release(self, number: int, max_cost: Cost, why: str) -> None:
        """Commit the fact that a call cost nothing."""
        await self._commit(AnsweredCall(id=number, why=why))
        self.spent += max_cost * -1

    async def close(self) -> None:
        if self._writing is not None:
            with suppress(RecordError):
                await self._writing
        self._store.close()

    async def _commit(self, call: AskedCall | AnsweredCall) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((call, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_pending(), name="exchanges")
        await asyncio.shield(done)

    async def _write_pending(self) -> None:
        """Write all pending calls in batches: the next batch collects while one commit is in progress."""
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            error: Exception | None = None
            try:
                batch = CallBatch(
                    asked=tuple(one for one, _ in waiting if isinstance(one, AskedCall)),
                    answered=tuple(one for one, _ in waiting if isinstance(one, AnsweredCall)),
                )
                row = await asyncio.to_thread(self._store.append, self._clock(), batch.model_dump_json())
                self.index.add(row, batch)
            except Exception as caught:  # noqa: BLE001  otherwise the callers would wait forever
                error = caught
            for _, done in waiting:
                if not done.done():
                    done.set_result(None) if error is None else done.set_exception(error)


def copy_exchanges(source: Path, target: Path) -> None:
    """Copy the exchanges of a run's folder, even while they are written. Raises `OSError`."""
    if (source / EXCHANGES_FILE).is_file():
        shutil.copyfile(source / EXCHANGES_FILE, target / EXCHANGES_FILE)


# Prompts of model calls, stored next to the log as `prompts/<sha256>.json.gz`, named by the hash in the answer's
# event.
#
# The file has the exact text that was hashed: model and temperature, role, system and user text, the answer's schema,
# and the sha256 of each image (never its bytes), so one hash verifies it. It is written before the question is sent, so
# every committed answer has its prompt; a file without an answer (after a kill or a refusal) is harmless. Equal
# questions share a file.
#
# Limits: the folder is not protected. A file that is missing, too large, or changed is recognised when it is read, but
# is not an audit finding, since nothing in a paper depends on it.

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
