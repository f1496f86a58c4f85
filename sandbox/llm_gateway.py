"""How code asks language models: a socket that one cell's kernel sees, answered by the host.

The host knows by the socket whom it serves, and nothing that code says can change that. It lies where the kernel reads
and cannot write, and is gone with the cell. Messages, connections and what waits are bounded.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from labwright.record.llm_calls import LLMBudgetSpent, LLMQuestionRefused
from labwright.record.schema.frozen_model import replace_unencodable
from labwright.record.schema.llm_exchanges import LLMExchange, LLMQuestion
from labwright.record.whole_numbers import parse_whole_number

MAX_MESSAGE_BYTES = 2**20
"""Bytes of one question, at most."""
MAX_QUEUED_QUESTIONS = 64
"""Questions of one connection that are not answered yet; the next one is read when one is."""
MAX_CONNECTIONS = 64
"""Of one cell: one a thread that asks."""


class LlmGateway(Protocol):
    """The language models that experiments may ask."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def definition(self, name: str) -> str:
        """What tells it from another model."""
        ...

    def find(self, cell: str, exchange: str) -> LLMExchange | None:
        """What was committed under an id for the cell of a key."""
        ...

    async def ask(self, cell: str, question: LLMQuestion, ordinal: int) -> LLMExchange:
        """The committed answer to that draw of a question, or a new one.

        Raises: `SubjectRefused`, `SubjectBudgetSpent`; `SubjectDown`, `RecordError`, which end the run.
        """
        ...

    async def close(self) -> None: ...


@dataclass
class LlmSession:
    """What one execution of a cell asks, from its first question to its end."""

    subjects: LlmGateway
    key: str
    """Of the cell, or of a script that does all at once."""
    names: Collection[str]
    """Those that may be asked."""
    answer_counts: Counter[str] = field(default_factory=Counter[str])
    """Subject -> questions that were answered."""
    budget_message: str = ""
    """Why a question was refused: the budget had no room for it."""
    fatal_error: Exception | None = None
    """What ends the run."""
    _draw_counts: Counter[str] = field(default_factory=Counter[str])
    """Question -> how often it was asked."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _open_connections: int = 0

    def find_cited(self, exchange: str) -> LLMExchange | None:
        """An exchange of this execution by its id; None where it is none of its own."""
        digest, _, ordinal = exchange.rpartition("-")
        if (number := parse_whole_number(ordinal)) is None or number >= self._draw_counts.get(digest, 0):
            return None
        return self.subjects.find(self.key, exchange)

    def list_ids(self) -> list[str]:
        """Of all questions, in one order."""
        return [
            f"{digest}-{ordinal}"
            for digest in sorted(self._draw_counts)
            for ordinal in range(self._draw_counts[digest])
        ]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what comes over one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open_connections += 1
        room, under_way = asyncio.Semaphore(MAX_QUEUED_QUESTIONS), set[asyncio.Task[None]]()
        try:
            if self._open_connections > MAX_CONNECTIONS:
                await _send_answer(
                    writer, {"error": f"a cell asks in {MAX_CONNECTIONS} threads at most: use ask_many", "n": -1}
                )
            while self._open_connections <= MAX_CONNECTIONS:
                await room.acquire()
                try:
                    line = await reader.readline()
                except ValueError:
                    await _send_answer(writer, {"error": f"a question has {MAX_MESSAGE_BYTES} bytes at most", "n": -1})
                    break
                if not line.endswith(b"\n"):
                    break
                answering = asyncio.create_task(self._handle_question(line, writer))
                under_way.add(answering)
                answering.add_done_callback(lambda done: (under_way.discard(done), room.release()))
        except asyncio.CancelledError:  # the cell is over; asyncio's server takes it for a fault
            pass
        finally:
            for one in list(under_way):
                one.cancel()
            self._open_connections -= 1
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _handle_question(self, line: bytes, writer: asyncio.StreamWriter) -> Any:
        """Its ordinal is known at once, in order of arrival; the answer comes later."""
        number = -1
        try:
            fields: dict[str, Any] = replace_unencodable(json.loads(line))
            number = int(fields.pop("n"))
            question = LLMQuestion.model_validate(fields)
            if question.subject not in self.names:
                there = ", ".join(self.names) or "none"
                raise LLMQuestionRefused(f"there is no subject {question.subject!r} in this study; there are: {there}")
            digest = question.digest
        except ValidationError as error:
            first = error.errors()[0]
            return _send_answer(writer, {"n": number, "error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"})
        except LLMQuestionRefused as error:
            return _send_answer(writer, {"n": number, "error": str(error)})
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
            return _send_answer(writer, {"n": number, "error": f"no question ({type(error).__name__})"})
        ordinal = self._draw_counts[digest]
        self._draw_counts[digest] += 1
        return self._ask(number, question, ordinal, writer)

    async def _ask(self, number: int, question: LLMQuestion, ordinal: int, writer: asyncio.StreamWriter) -> None:
        try:
            exchange = await self.subjects.ask(self.key, question, ordinal)
            self.answer_counts[question.subject] += 1
            answer = {"n": number, **exchange.model_dump(mode="json")}
        except LLMBudgetSpent as error:
            self.budget_message, answer = str(error), {"n": number, "error": str(error)}
        except LLMQuestionRefused as error:
            answer = {"n": number, "error": str(error)}
        except Exception as error:  # noqa: BLE001  told to whoever runs the cell, which then ends the run
            self.fatal_error, answer = error, {"n": number, "error": "the run is ended; its answers are kept"}
        await _send_answer(writer, answer)


async def _send_answer(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    with suppress(ConnectionError):
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


@asynccontextmanager
async def serve_session(session: LlmSession, socket: Path) -> AsyncGenerator[LlmSession]:
    """While inside, the session is served on a socket at a path, made for it alone."""
    with suppress(FileNotFoundError):
        socket.unlink()
    server = await asyncio.start_unix_server(session.serve, path=str(socket), limit=MAX_MESSAGE_BYTES)
    try:
        yield session
    finally:
        server.close()
        await session.close()
        with suppress(FileNotFoundError):
            socket.unlink()
