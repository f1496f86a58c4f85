"""Command-line coding agents as models: `--model cli:claude`, `cli:codex`, or with a model, `cli:claude:opus`.

The user's own program is started for each question, with the credentials and the subscription that it has; no API key
is needed. Its own tools are off (`models.agent_programs`), so it answers from the prompt alone.

Guarantees: an answer is validated as any other, and the program is shown its error; a process ends at the time limit
with everything that it started; a used-up quota is an outage, with the time that the program says. Limits: a program
makes its own retries, and has no settings for temperature and length of an answer, which are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
import time
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from labwright.models.agent_programs import PROGRAMS, AgentOutput, AgentProgram, Question, parse_reset_time
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.client import build_schema
from labwright.models.conversation import render_conversation
from labwright.models.errors import (
    AccessLost,
    ContextTooLong,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelUnavailable,
    QuotaSpent,
)
from labwright.models.prices import compute_usd, fit_to_window
from labwright.models.settings import ModelSettings
from labwright.models.transport import describe_error
from labwright.record.schema import describe_validation_error, replace_unencodable
from labwright.record.schema.decisions import TokenUsage

CLI_PREFIX = "cli:"
_MAX_LINE_BYTES = 64 * 2**20
_MAX_NOISE_CHARS = 2000
"""Characters kept of what a program prints besides events."""
_NESTED_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT")
"""Set in commands that Claude Code runs; it refuses to start inside itself."""
_MIN_QUOTA_SECONDS = 60.0
"""Shortest wait for a quota, since programs print the minute of its end."""

_FLAG = re.compile(r"unknown option|unexpected argument|unrecogni[sz]ed (?:option|argument|subcommand)", re.IGNORECASE)
_LOGIN = re.compile(
    r"\blog ?in\b|logged in|/login|unauthori[sz]ed|authenticat|invalid (?:x-)?api.?key|\b40[13]\b|oauth", re.IGNORECASE
)
_QUOTA = re.compile(
    r"usage limit|limit reached|hit your|credit balance|out of .{0,20}credit|quota|\b429\b|rate.?limit|billing",
    re.IGNORECASE,
)
_CONTEXT = re.compile(r"prompt is too long|context (?:window|length)|input is too long", re.IGNORECASE)
_MODEL = re.compile(r"\b404\b|model.{0,80}(?:not (?:found|exist|supported|available)|does not exist)", re.IGNORECASE)
_DOWN = re.compile(
    r"\b5\d\d\b|overloaded|connection|network|timed? ?out|high demand|temporar|retry limit|reconnect", re.IGNORECASE
)


def open_command_line_agent(settings: ModelSettings) -> CommandLineAgent:
    """Open the backend for a model name `cli:PROGRAM[:MODEL]`. Raises `ModelConfigError`."""
    name, _, model = settings.name.removeprefix(CLI_PREFIX).partition(":")
    if (kind := PROGRAMS.get(name)) is None:
        raise ModelConfigError(
            f"{settings.name!r}: there is no command-line agent {name!r}; write "
            f"{' or '.join(f'{CLI_PREFIX}{one}' for one in PROGRAMS)}, with :MODEL for another than its default"
        )
    program = kind()
    if settings.base_url is not None:
        raise ModelConfigError(
            f"models.base_url cannot be used with {settings.name}: set it in {program.program} itself"
        )
    if shutil.which(program.program) is None:
        raise ModelConfigError(f"{settings.name}: {program.program} is not installed; {program.install_hint}")
    return CommandLineAgent(program, settings, model)


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
            limit=_MAX_LINE_BYTES,
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
        try:
            async for line in stream:
                self._take(line.decode(errors="replace"))
                if self.seen.own_tool:
                    _kill_group(process)
        except ValueError:
            raise OSError(f"it printed a line of more than {_MAX_LINE_BYTES} bytes") from None

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


class CommandLineAgent(Backend):
    """A command-line agent as a model."""

    def __init__(self, program: AgentProgram, settings: ModelSettings, model: str = "") -> None:
        super().__init__(settings.name)
        self._program, self._settings, self._model = program, settings, model
        self._has_answered = False
        self._own_tools: str | None = None
        """Why the program cannot switch off its own tools; None: not known yet."""

    async def get_context_limit(self, role: object) -> int | None:
        return self._settings.context_tokens

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the program's answer to a request; for a step of a conversation, it is shown all steps before it.

        Raises `ModelError`.
        """
        request = fit_to_window(request, self._settings.context_tokens, model=self.name)
        own_tools = await self._prepare()
        if own_tools and request.conversation is not None:
            raise ModelConfigError(
                f"{self.name} can answer but not work with tools, since it cannot switch off its own: {own_tools}; "
                f"{self._program.update_hint}, or choose another model for the role coder"
            )
        schema, why = build_schema(request.output_type), ""
        asked = user = request.prompt.user + (render_conversation(request.conversation) if request.conversation else "")
        usage, tries = TokenUsage(usd=0.0, cached_usd=0.0), 1 if request.single else 1 + self._settings.output_retries
        enforced = self._program.enforces(schema)
        form = "Answer with one JSON object" + ("." if enforced else f" of this JSON schema:\n{json.dumps(schema)}")
        for number in range(tries):
            try:
                seen = await self._ask(request, f"{user}\n\n{form}", schema if enforced else None)
            except ModelUnavailable as error:
                error.lost = usage + error.lost
                raise
            usage += self._price(seen)
            try:
                output = _parse_answer(seen, request)
            except ValueError as error:
                why = " ".join(str(error).split())[:600]
                user = (
                    f"{asked}\n\nYour last answer was:\n\n{seen.text[:4000]}\n\nIt cannot be used: "
                    f"{why}. Answer again, with JSON and nothing else."
                )
                continue
            answered_by = replace_unencodable(seen.model or self._model or "default")[:200]
            name = f"{CLI_PREFIX}{self._program.program}:{answered_by}"
            return Reply(output, usage, name, retries=number, left_out=("temperature", "max_tokens"))
        raise ModelOutputInvalid(
            f"{self.name}: no answer fits the schema after {tries} answers; choose another model: {why}"
        )

    async def _prepare(self) -> str:
        """Return why the program cannot switch off its own tools; empty if it can."""
        if self._own_tools is None:
            self._own_tools = await asyncio.to_thread(self._program.prepare)
        return self._own_tools

    def _price(self, seen: AgentOutput) -> TokenUsage:
        """Return the usage with its cost: by a configured price, otherwise as the program reports it."""
        usd = compute_usd(self._settings, seen.usage)
        usd = seen.usd if usd is None else usd
        return seen.usage.model_copy(update={"usd": usd, "cached_usd": 0.0 if usd == 0 else None})

    async def _ask(self, request: ModelRequest, user: str, schema: dict[str, Any] | None) -> AgentOutput:
        """Run the program once and return what it printed. Raises `ModelError`."""
        with tempfile.TemporaryDirectory(prefix="scientist-agent-") as folder:
            question = Question(
                Path(folder), request.prompt.system, user, self._model, request.images, schema and dict(schema)
            )
            process = AgentProcess(self._program, question, self._settings.retries)
            try:
                async with asyncio.timeout(self._settings.timeout):
                    await process.run()
            except TimeoutError:
                last = f": {process.seen.error}" if process.seen.error else ""
                late = ModelUnavailable(
                    f"{self.name}: no answer within {self._settings.timeout:g} s (models.timeout){last}"
                )
                late.billed, late.lost = True, self._price(process.seen)
                raise late from None
            except OSError as error:
                raise ModelConfigError(f"{self.name}: {self._program.program} does not start: {error}") from None
        self._raise_problem(process)
        self._has_answered = True
        return process.seen

    def _raise_problem(self, process: AgentProcess) -> None:
        """Raise the `ModelError` of a process that ended without an answer."""
        seen, program = process.seen, self._program
        if seen.own_tool:
            raise ModelConfigError(
                f"{self.name}: this version of {program.program} does not switch off its own tools ({seen.own_tool}), "
                f"so it cannot be used; {program.update_hint}"
            )
        if seen.is_complete or "structured_output" in seen.error_kind:  # no answer fits: the caller asks again
            return
        said = describe_error(ValueError(seen.error or process.noise or "it printed nothing"))
        text = f"{said} {seen.error_kind}"
        ended = f"{self.name}: {said}" if seen.error else f"{self.name}: it ended with exit code {process.code}: {said}"
        raise self._make_problem(text, ended, seen)

    def _make_problem(self, text: str, ended: str, seen: AgentOutput) -> ModelError:
        program, lost = self._program, AccessLost if self._has_answered else ModelConfigError
        if _FLAG.search(text):
            return ModelConfigError(f"{ended}; {program.update_hint}")
        if _LOGIN.search(text):
            return lost(f"{ended}; {program.login_hint}")
        if _QUOTA.search(text):
            now = time.time()
            at = seen.resets_at or parse_reset_time(text, now)
            return QuotaSpent(
                f"{ended}; its quota is used up", None if at is None else max(_MIN_QUOTA_SECONDS, at - now)
            )
        if _CONTEXT.search(text):
            return ContextTooLong(f"{ended}; choose a model with more context, or set models.context_tokens")
        if _MODEL.search(text):
            return lost(f"{ended}; choose another model, as {CLI_PREFIX}{program.program}:MODEL")
        if _DOWN.search(text) or self._has_answered:
            return ModelUnavailable(ended)
        return ModelConfigError(f"{ended}; try {program.program} in a terminal, or {program.update_hint}")


def _parse_answer(seen: AgentOutput, request: ModelRequest) -> BaseModel:
    """Return the answer. Raises `ValueError` with the reason if it does not fit."""
    value = seen.output
    if value is None:
        first, last = seen.text.find("{"), seen.text.rfind("}")
        if first < 0 or last < first:
            raise ValueError("it is no JSON object")
        value = json.loads(seen.text[first : last + 1])
    try:
        output = request.output_type.model_validate(replace_unencodable(value))
    except ValidationError as error:
        raise ValueError(describe_validation_error(error)) from None
    request.check_answer(output)
    return output
