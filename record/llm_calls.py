"""Exchanges of a run's experiments with studied language models, in `exchanges.db` next to the log, never kept in
memory.

An exchange is identified by the key of the cell that asked, the hash of the question, and the ordinal of that question
in the cell's execution. Rows are only added. The maximum cost is committed before a call, and its answer before the
code sees it; concurrent commits are batched. The reservation of a killed call stays spent, since it may be billed.

Limits: an answer that was received but not committed before a kill is lost, and the call is made again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labwright.record.errors import UserError
from labwright.record.log_reader import RecordError
from labwright.record.schema.decisions import Cost
from labwright.record.schema.llm_exchanges import LLMExchange, LLMQuestion, StudiedLLMUsage

EXCHANGES_DB = "exchanges.db"
EXCHANGES_LIST = "exchanges.jsonl"
"""File in the folder of an execution: the ids of its exchanges, with the sha256 of the answers."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS asked (id INTEGER PRIMARY KEY, cell TEXT NOT NULL, exchange TEXT NOT NULL,
    subject TEXT NOT NULL, question BLOB NOT NULL, tokens INTEGER NOT NULL, usd REAL NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS asked_by ON asked (cell, exchange);
CREATE TABLE IF NOT EXISTS answered (id INTEGER PRIMARY KEY, answer TEXT, model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, usd REAL NOT NULL, seconds REAL NOT NULL,
    at REAL NOT NULL, why TEXT NOT NULL);
"""
_INSERT_QUESTION = "INSERT INTO asked VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_ANSWER = "INSERT INTO answered VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_SPENT = """SELECT COALESCE(SUM(COALESCE(answered.usd, asked.usd)), 0),
    COALESCE(SUM(COALESCE(answered.input_tokens + answered.output_tokens, asked.tokens)), 0)
    FROM asked LEFT JOIN answered USING (id)"""
_SELECT_ANSWER = """SELECT answer FROM asked JOIN answered USING (id)
    WHERE cell = ? AND exchange = ? AND answer IS NOT NULL ORDER BY id LIMIT 1"""


class LLMQuestionRefused(UserError):
    """A question was refused permanently. The code that asked must change it."""


class LLMBudgetSpent(UserError):
    """The budget for studied models is exhausted, so the question was not asked. The user has to raise it."""


class LLMUnavailable(UserError):
    """A studied model did not answer within the maximum wait. The user can resume the run later."""


class LLMCallStore:
    """Stores the exchanges of one run; only one writer. Raises `RecordError`."""

    def __init__(self, path: Path, *, network: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock, self._reading = path, clock, threading.Lock()
        self._waiting: list[tuple[str, tuple[object, ...], asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        try:
            self._writer, self._reader = (
                sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60) for _ in range(2)
            )
            for statement in (f"PRAGMA journal_mode={'DELETE' if network else 'WAL'}", "PRAGMA synchronous=FULL"):
                self._writer.execute(statement)
            self._writer.executescript(_SCHEMA)
            usd, tokens = self._reader.execute(_SELECT_SPENT).fetchone()
            self._next = self._reader.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM asked").fetchone()[0]
        except sqlite3.Error as error:
            raise RecordError(f"cannot open {path}: {error}") from error
        self.spent = Cost(usd=usd, tokens=tokens)
        """Cost of answers, reservations of running calls, and reservations of calls that were killed."""

    def find_exchange(self, cell: str, exchange: str) -> LLMExchange | None:
        """Return the committed exchange of a cell with this id, or None."""
        row = self._read(_SELECT_ANSWER, cell, exchange)
        return None if row is None else LLMExchange.model_validate_json(row[0])

    def read_question(self, cell: str, exchange: str) -> LLMQuestion:
        """Return the question of an exchange. Raises `LookupError`."""
        row = self._read("SELECT question FROM asked WHERE cell = ? AND exchange = ? LIMIT 1", cell, exchange)
        if row is None:
            raise LookupError(exchange)
        return LLMQuestion.model_validate_json(zlib.decompress(row[0]))

    async def reserve(self, cell: str, exchange: str, question: LLMQuestion, max_cost: Cost) -> int:
        """Commit the fact that a question is about to be asked, with its maximum cost. Returns the number of the
        call.
        """
        number, self._next = self._next, self._next + 1
        self.spent += max_cost
        packed = zlib.compress(question.canonical_text.encode(errors="replace"), 1)
        await self._commit(
            _INSERT_QUESTION,
            number,
            cell,
            exchange,
            question.subject,
            packed,
            max_cost.tokens,
            max_cost.usd,
            self._clock(),
        )
        return number

    async def settle(
        self, number: int, max_cost: Cost, exchange: LLMExchange, *, tokens: tuple[int, int], usd: float, seconds: float
    ) -> None:
        """Commit the answer to a call for which `max_cost` was reserved."""
        taken = Cost(usd=usd, tokens=sum(tokens))
        await self._commit(
            _INSERT_ANSWER, number, exchange.model_dump_json(), exchange.model, *tokens, usd, seconds, self._clock(), ""
        )
        self._release(max_cost, taken)

    async def release(self, number: int, max_cost: Cost, why: str) -> None:
        """Commit the fact that a call cost nothing."""
        await self._commit(_INSERT_ANSWER, number, None, "", 0, 0, 0.0, 0.0, self._clock(), why)
        self._release(max_cost, Cost())

    async def close(self) -> None:
        if self._writing is not None:
            with suppress(RecordError):
                await self._writing
        self._writer.close()
        self._reader.close()

    def _release(self, most: Cost, taken: Cost) -> None:
        self.spent = Cost(
            usd=self.spent.usd - most.usd + taken.usd, tokens=self.spent.tokens - most.tokens + taken.tokens
        )

    def _read(self, statement: str, *values: object) -> Any:
        try:
            with self._reading:
                return self._reader.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            raise RecordError(f"cannot read {self._path}: {error}") from error

    async def _commit(self, statement: str, *values: object) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((statement, values, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_pending(), name="exchanges")
        await asyncio.shield(done)

    async def _write_pending(self) -> None:
        """Write all pending rows in batches: the next batch collects while one commit is in progress."""
        while self._waiting:
            rows, self._waiting = self._waiting, []
            error: Exception | None = None
            try:
                await asyncio.to_thread(self._write, [(statement, values) for statement, values, _ in rows])
            except Exception as caught:  # noqa: BLE001  otherwise the callers would wait forever
                error = RecordError(f"cannot write to {self._path}: {caught}; free disk space, then resume")
            for _, _, done in rows:
                if not done.done():
                    done.set_result(None) if error is None else done.set_exception(error)

    def _write(self, rows: list[tuple[str, tuple[object, ...]]]) -> None:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            for statement, values in rows:
                self._writer.execute(statement, values)
            self._writer.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")
            raise


def _open_read_only(folder: Path) -> sqlite3.Connection | None:
    """Open the exchanges of a run's folder read-only; None if there are none."""
    path = folder / EXCHANGES_DB
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) if path.is_file() else None


def read_llm_usage(folder: Path) -> tuple[StudiedLLMUsage, ...]:
    """Return the usage of each studied model in a run, by name. Raises `RecordError`."""
    try:
        if (db := _open_read_only(folder)) is None:
            return ()
        with closing(db):
            rows = db.execute(
                "SELECT subject, COUNT(answer), SUM(input_tokens), SUM(output_tokens), SUM(answered.usd), "
                "SUM(answered.id IS NULL), GROUP_CONCAT(DISTINCT NULLIF(model, '')), "
                "MIN(CASE WHEN answer IS NOT NULL THEN answered.at END), "
                "MAX(CASE WHEN answer IS NOT NULL THEN answered.at END) "
                "FROM asked LEFT JOIN answered USING (id) GROUP BY subject ORDER BY subject"
            ).fetchall()
    except sqlite3.Error as error:
        raise RecordError(f"cannot read {folder / EXCHANGES_DB}: {error}") from error
    return tuple(
        StudiedLLMUsage(
            name=name,
            calls=calls,
            input_tokens=read or 0,
            output_tokens=written or 0,
            usd=usd or 0.0,
            lost=lost or 0,
            models=tuple(sorted((models or "").split(","))) if models else (),
            first=_format_iso(first),
            last=_format_iso(last),
        )
        for name, calls, read, written, usd, lost, models, first, last in rows
    )


def read_llm_cost(folder: Path) -> Cost:
    """Return the cost of a run's exchanges, including reservations. Raises `RecordError`."""
    try:
        if (db := _open_read_only(folder)) is None:
            return Cost()
        with closing(db):
            usd, tokens = db.execute(_SELECT_SPENT).fetchone()
            return Cost(usd=usd, tokens=tokens)
    except sqlite3.Error as error:
        raise RecordError(f"cannot read {folder / EXCHANGES_DB}: {error}") from error


def find_differing_exchange(folder: Path, cell: str, listed: Iterable[tuple[str, str]]) -> str:
    """Return the first listed id whose answer differs from the committed sha256, or "".

    Raises: `RecordError`.
    """
    try:
        with ExitStack() as around:
            db = _open_read_only(folder)
            if db is not None:
                around.enter_context(closing(db))
            for exchange, digest in listed:
                row = None if db is None else db.execute(_SELECT_ANSWER, (cell, exchange)).fetchone()
                if row is None or LLMExchange.model_validate_json(row[0]).sha256 != digest:
                    return exchange
    except sqlite3.Error as error:
        raise RecordError(f"cannot read {folder / EXCHANGES_DB}: {error}") from error
    return ""


def copy_exchanges(source: Path, target: Path) -> None:
    """Copy the exchanges of a run's folder, even while they are written. Raises `sqlite3.Error` as `OSError`."""
    try:
        if (db := _open_read_only(source)) is not None:
            with closing(db), closing(sqlite3.connect(target / EXCHANGES_DB)) as copy:
                db.backup(copy)
    except sqlite3.Error as error:
        raise OSError(f"cannot copy {source / EXCHANGES_DB}: {error}") from error


def _format_iso(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
