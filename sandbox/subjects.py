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

from labwright.record.exchanges import SubjectBudgetSpent, SubjectRefused
from labwright.record.nouns.frozen import encodable
from labwright.record.nouns.subjects import Exchange, Question
from labwright.record.whole_numbers import parse_whole_number

MESSAGE = 2**20
"""Bytes of one question, at most."""
QUEUE = 64
"""Questions of one connection that are not answered yet; the next one is read when one is."""
CONNECTIONS = 64
"""Of one cell: one a thread that asks."""


class Subjects(Protocol):
    """The language models that experiments may ask."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def definition(self, name: str) -> str:
        """What tells it from another model."""
        ...

    def find(self, cell: str, exchange: str) -> Exchange | None:
        """What was committed under an id for the cell of a key."""
        ...

    async def ask(self, cell: str, question: Question, ordinal: int) -> Exchange:
        """The committed answer to that draw of a question, or a new one.

        Raises: `SubjectRefused`, `SubjectBudgetSpent`; `SubjectDown`, `RecordError`, which end the run.
        """
        ...

    async def close(self) -> None: ...


@dataclass
class Session:
    """What one execution of a cell asks, from its first question to its end."""

    subjects: Subjects
    key: str
    """Of the cell, or of a script that does all at once."""
    names: Collection[str]
    """Those that may be asked."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Subject -> questions that were answered."""
    spent: str = ""
    """Why a question was refused: the budget had no room for it."""
    fatal: Exception | None = None
    """What ends the run."""
    _drawn: Counter[str] = field(default_factory=Counter[str])
    """Question -> how often it was asked."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _open: int = 0

    def cited(self, exchange: str) -> Exchange | None:
        """An exchange of this execution by its id; None where it is none of its own."""
        digest, _, ordinal = exchange.rpartition("-")
        if (number := parse_whole_number(ordinal)) is None or number >= self._drawn.get(digest, 0):
            return None
        return self.subjects.find(self.key, exchange)

    def ids(self) -> list[str]:
        """Of all questions, in one order."""
        return [f"{digest}-{ordinal}" for digest in sorted(self._drawn) for ordinal in range(self._drawn[digest])]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what comes over one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open += 1
        room, under_way = asyncio.Semaphore(QUEUE), set[asyncio.Task[None]]()
        try:
            if self._open > CONNECTIONS:
                await _send(writer, {"error": f"a cell asks in {CONNECTIONS} threads at most: use ask_many", "n": -1})
            while self._open <= CONNECTIONS:
                await room.acquire()
                try:
                    line = await reader.readline()
                except ValueError:
                    await _send(writer, {"error": f"a question has {MESSAGE} bytes at most", "n": -1})
                    break
                if not line.endswith(b"\n"):
                    break
                answering = asyncio.create_task(self._answered(line, writer))
                under_way.add(answering)
                answering.add_done_callback(lambda done: (under_way.discard(done), room.release()))
        except asyncio.CancelledError:  # the cell is over; asyncio's server takes it for a fault
            pass
        finally:
            for one in list(under_way):
                one.cancel()
            self._open -= 1
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _answered(self, line: bytes, writer: asyncio.StreamWriter) -> Any:
        """Its ordinal is known at once, in order of arrival; the answer comes later."""
        number = -1
        try:
            fields: dict[str, Any] = encodable(json.loads(line))
            number = int(fields.pop("n"))
            question = Question.model_validate(fields)
            if question.subject not in self.names:
                there = ", ".join(self.names) or "none"
                raise SubjectRefused(f"there is no subject {question.subject!r} in this study; there are: {there}")
            digest = question.digest
        except ValidationError as error:
            first = error.errors()[0]
            return _send(writer, {"n": number, "error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"})
        except SubjectRefused as error:
            return _send(writer, {"n": number, "error": str(error)})
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
            return _send(writer, {"n": number, "error": f"no question ({type(error).__name__})"})
        ordinal = self._drawn[digest]
        self._drawn[digest] += 1
        return self._ask(number, question, ordinal, writer)

    async def _ask(self, number: int, question: Question, ordinal: int, writer: asyncio.StreamWriter) -> None:
        try:
            exchange = await self.subjects.ask(self.key, question, ordinal)
            self.asked[question.subject] += 1
            answer = {"n": number, **exchange.model_dump(mode="json")}
        except SubjectBudgetSpent as error:
            self.spent, answer = str(error), {"n": number, "error": str(error)}
        except SubjectRefused as error:
            answer = {"n": number, "error": str(error)}
        except Exception as error:  # noqa: BLE001  told to whoever runs the cell, which then ends the run
            self.fatal, answer = error, {"n": number, "error": "the run is ended; its answers are kept"}
        await _send(writer, answer)


async def _send(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    with suppress(ConnectionError):
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


@asynccontextmanager
async def serving(session: Session, socket: Path) -> AsyncGenerator[Session]:
    """While inside, the session is served on a socket at a path, made for it alone."""
    with suppress(FileNotFoundError):
        socket.unlink()
    server = await asyncio.start_unix_server(session.serve, path=str(socket), limit=MESSAGE)
    try:
        yield session
    finally:
        server.close()
        await session.close()
        with suppress(FileNotFoundError):
            socket.unlink()
