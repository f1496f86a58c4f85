"""Processes of a command-line agent: one that answers, and one that works with tools that this process carries out."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import signal
import tempfile
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from labwright.models.agent_programs import AgentOutput, AgentProgram, Question, ToolServer
from labwright.models.conversation import Conversation, ToolCall, ToolExchange
from labwright.record.schema.decisions import TokenUsage

_READ_BYTES = 2**16
_MAX_LINE_BYTES = 64 * 2**20
_MAX_NOISE_CHARS = 2000
"""Characters kept of what a program prints besides events."""
_NESTED_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT")
"""Set in commands that Claude Code runs; it refuses to start inside itself."""
MAX_IDLE_SECONDS = 3600.0
"""Seconds after which a session ends that waits for the result of a tool: nobody continues it."""
_LAST_WORDS_SECONDS = 60.0
"""Seconds that a program has to end after it handed in, so that it reports its usage."""
_DONE = "Your work is done: end your turn now."
_EVENT_SECONDS = 0.1
"""Seconds by which the event of an answer may come later than the call of a tool in it."""


class AgentProcess:
    """One process of an agent, which ends with everything that it started when `run` ends."""

    def __init__(self, program: AgentProgram, question: Question, retries: int) -> None:
        self.seen = AgentOutput()
        self.noise = ""
        """End of what it printed besides events."""
        self.code: int | None = None
        self._program, self._question, self._retries = program, question, retries

    async def run(self) -> None:
        """Run to the end. Raises `OSError` if the program does not start."""
        line = self._program.build_command(self._question, self._retries)
        (work := self._question.folder / "work").mkdir()
        inherited = {name: value for name, value in os.environ.items() if name not in _NESTED_VARIABLES}
        process = await asyncio.create_subprocess_exec(
            *line.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=work,
            env={**inherited, "NO_COLOR": "1", **line.env},
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        try:
            with suppress(ConnectionError):
                process.stdin.write(line.stdin)
                await process.stdin.drain()
            process.stdin.close()
            await asyncio.gather(self._read(process.stdout, process), self._read(process.stderr, process))
            self.code = await process.wait()
        finally:
            _kill_group(process)
            await process.wait()

    async def _read(self, stream: asyncio.StreamReader, process: Process) -> None:
        """Read events, one JSON object a line, and everything else as noise. A program that has tools of its own is
        ended at once.
        """
        decoder, pending = codecs.getincrementaldecoder("utf-8")(errors="replace"), ""
        while data := await stream.read(_READ_BYTES):
            *lines, pending = (pending + decoder.decode(data)).split("\n")
            for text in lines:
                self._take(text)
            if self.seen.own_tool:
                _kill_group(process)
            if len(pending) > _MAX_LINE_BYTES:
                raise OSError(f"it printed a line of more than {_MAX_LINE_BYTES} characters")
        self._take(pending)

    def _take(self, text: str) -> None:
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            self._program.read_event(cast("dict[str, Any]", event), self.seen)
        elif text.strip():
            self.noise = f"{self.noise} {text.strip()}"[-_MAX_NOISE_CHARS:]


def _kill_group(process: Process) -> None:
    """Kill a process and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class AuthorSession:
    """A process that works with our tools, one call after the other.

    Its calls are the answers to the steps of a conversation (`models.conversation`), and the results of the tools are
    delivered with the next step; so each step is recorded and paid as that of any other model.
    """

    def __init__(
        self, program: AgentProgram, question: str, system: str, model: str, retries: int, conversation: Conversation
    ) -> None:
        self.exchanges = list(conversation.exchanges)
        """What happened before the call that waits for its result."""
        self.pending: ToolCall | None = None
        self._is_done = False
        """Whether it handed in; it can call nothing more."""
        self._result: asyncio.Future[tuple[str, bool]] | None = None
        self._calls = asyncio.Queue[tuple[ToolCall, asyncio.Future[tuple[str, bool]]]]()
        self._reported = TokenUsage(usd=0.0, cached_usd=0.0)
        self._folder = tempfile.TemporaryDirectory(prefix="scientist-agent-", ignore_cleanup_errors=True)
        self._server = ToolServer(conversation.tools, self._take_call)
        asked = Question(
            Path(self._folder.name), system, question, model, (), None, tuple(self._server.command), MAX_IDLE_SECONDS
        )
        self.process = AgentProcess(program, asked, retries)
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            async with self._server:
                await self.process.run()
        finally:
            self._folder.cleanup()

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def wait_for_call(self, seconds: float) -> ToolCall | None:
        """Return the next call; None if the process ended without one. Raises `TimeoutError`, `OSError`."""
        getting = asyncio.create_task(self._calls.get())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({getting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.close()
            raise
        finally:
            if not getting.done():
                getting.cancel()
        if not getting.done() or getting.cancelled():
            await self._task  # raises what stopped it
            return None
        await asyncio.wait({self._task}, timeout=_EVENT_SECONDS)
        self.pending, self._result = getting.result()
        return self.pending

    def deliver(self, text: str, *, failed: bool = False) -> None:
        """Give the program the result of its call."""
        assert self._result is not None and self.pending is not None
        self.exchanges.append(ToolExchange(self.pending, text))
        if not self._result.done():
            self._result.set_result((text, failed))
        self.pending = self._result = None

    def refuse(self, why: str) -> None:
        """Refuse a call that is no step of the conversation."""
        self.deliver(f"not done: {why}", failed=True)
        self.exchanges.pop()

    async def end(self) -> None:
        """Let the program end after it handed in, or end it."""
        self._is_done = True
        self.deliver(f"Received; the program checks it. {_DONE}")
        await asyncio.wait({self._task}, timeout=_LAST_WORDS_SECONDS)
        await self.close()

    async def close(self) -> None:
        """End the process. Idempotent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def take_usage(self) -> TokenUsage:
        """Return the usage since the last call of this method."""
        now, before = self.process.seen.usage, self._reported
        self._reported = now
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        return TokenUsage.model_validate({one: max(0, getattr(now, one) - getattr(before, one)) for one in names})

    def take_usd(self) -> float | None:
        """Return the cost that the program reported, all at its end, if it reports one."""
        return 0.0 if self.process.seen.usd is None and self.process.seen.reports_cost else self.process.seen.usd

    async def _take_call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        if self._is_done:
            return f"not done: you handed in. {_DONE}", True
        result = asyncio.get_running_loop().create_future()
        await self._calls.put((ToolCall(tool=tool[:100] or "?", arguments=arguments), result))
        try:
            async with asyncio.timeout(MAX_IDLE_SECONDS):
                return await result
        except TimeoutError:
            self._task.cancel()
            return "nobody continues this work", True
