"""Lets experiment code query language models over a socket that only one cell's kernel sees; the host answers.

The socket identifies the cell, regardless of what the code sends. It is in a folder that the kernel can
read but not write, and is removed with the cell. Messages, connections and queues are bounded.
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
"""Size limit of one question in bytes."""
MAX_QUEUED_QUESTIONS = 64
"""Maximum number of unanswered questions per connection; the next one is read once one has been answered."""
MAX_REFUSALS = 1000
"""Maximum number of questions per cell that are not answered; then its connections are closed, since refusing a
question costs the cell nothing."""
MAX_CONNECTIONS = 64
"""Maximum number of connections per cell: each thread that asks questions has one."""


class LlmGateway(Protocol):
    """The language models that experiments may query."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def definition(self, name: str) -> str:
        """Return a string that distinguishes the model from others."""
        ...

    def find(self, cell: str, exchange: str) -> LLMExchange | None:
        """Return the exchange committed under an id for the cell with this key."""
        ...

    async def ask(self, cell: str, question: LLMQuestion, ordinal: int) -> LLMExchange:
        """Return the committed answer to this draw of a question, or query a new one.

        Raises `LLMQuestionRefused`, `LLMBudgetSpent`; `LLMUnavailable` and `RecordError`, which end the run.
        """
        ...

    async def close(self) -> None: ...


@dataclass
class LlmSession:
    """Queries of one execution of a cell."""

    subjects: LlmGateway
    key: str
    """Key of the cell, or of a plain script."""
    names: Collection[str]
    """Models that may be queried."""
    answer_counts: Counter[str] = field(default_factory=Counter[str])
    """Model -> number of answered questions."""
    budget_message: str = ""
    """The reason why a question was refused for lack of budget."""
    fatal_error: Exception | None = None
    """Error that ends the run."""
    draw_counts: Counter[str] = field(default_factory=Counter[str])
    """Question -> number of times it was asked."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _open_connections: int = 0
    _refusals: int = 0

    def find_cited(self, exchange: str) -> LLMExchange | None:
        """Return an exchange of this execution by id; None if it belongs to another execution."""
        digest, _, ordinal = exchange.rpartition("-")
        if (number := parse_whole_number(ordinal)) is None or number >= self.draw_counts.get(digest, 0):
            return None
        return self.subjects.find(self.key, exchange)

    def list_ids(self) -> list[str]:
        """Return the ids of all questions, in a fixed order."""
        return [
            f"{digest}-{ordinal}" for digest in sorted(self.draw_counts) for ordinal in range(self.draw_counts[digest])
        ]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer all questions that arrive on one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open_connections += 1
        room, under_way = asyncio.Semaphore(MAX_QUEUED_QUESTIONS), set[asyncio.Task[None]]()
        try:
            if self._open_connections > MAX_CONNECTIONS:
                await _send_answer(
                    writer, {"error": f"a cell may query from at most {MAX_CONNECTIONS} threads: use ask_many", "n": -1}
                )
            while self._open_connections <= MAX_CONNECTIONS and self._refusals < MAX_REFUSALS:
                await room.acquire()
                try:
                    line = await reader.readline()
                except ValueError:
                    await _send_answer(
                        writer, {"error": f"a question may have at most {MAX_MESSAGE_BYTES} bytes", "n": -1}
                    )
                    break
                if not line.endswith(b"\n"):
                    break
                answering = asyncio.create_task(self._handle_question(line, writer))
                under_way.add(answering)
                answering.add_done_callback(lambda done: (under_way.discard(done), room.release()))
        except asyncio.CancelledError:  # the cell has ended; asyncio's server would log this as an error
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
        """Assign the question's ordinal now, in order of arrival; the answer follows later."""
        number = -1
        try:
            fields: dict[str, Any] = replace_unencodable(json.loads(line))
            number = int(fields.pop("n"))
            question = LLMQuestion.model_validate(fields)
            if question.subject not in self.names:
                available = ", ".join(self.names) or "none"
                raise LLMQuestionRefused(f"unknown subject {question.subject!r} in this study; available: {available}")
            digest = question.digest
        except ValidationError as error:
            first = error.errors()[0]
            return self._refuse(writer, number, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        except LLMQuestionRefused as error:
            return self._refuse(writer, number, str(error))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
            return self._refuse(writer, number, f"not a valid question ({type(error).__name__})")
        ordinal = self.draw_counts[digest]
        self.draw_counts[digest] += 1
        return self._ask(number, question, ordinal, writer)

    async def _ask(self, number: int, question: LLMQuestion, ordinal: int, writer: asyncio.StreamWriter) -> None:
        try:
            exchange = await self.subjects.ask(self.key, question, ordinal)
            self.answer_counts[question.subject] += 1
            await _send_answer(writer, {"n": number, **exchange.model_dump(mode="json")})
        except LLMBudgetSpent as error:
            self.budget_message = str(error)
            await self._refuse(writer, number, str(error))
        except LLMQuestionRefused as error:
            await self._refuse(writer, number, str(error))
        except Exception as error:  # noqa: BLE001  reported to the runner of the cell, which then ends the run
            self.fatal_error = error
            await self._refuse(writer, number, "the run is ending; its answers are kept")

    async def _refuse(self, writer: asyncio.StreamWriter, number: int, message: str) -> None:
        self._refusals += 1
        await _send_answer(writer, {"n": number, "error": message})


async def _send_answer(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    with suppress(ConnectionError):
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


@asynccontextmanager
async def serve_session(session: LlmSession, socket: Path) -> AsyncGenerator[LlmSession]:
    """Serve the session on a socket at this path while inside."""
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
