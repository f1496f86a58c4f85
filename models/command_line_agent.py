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
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from labwright.models.agent_programs import PROGRAMS, AgentOutput, AgentProgram, Question, parse_reset_time
from labwright.models.agent_session import AgentProcess, AuthorSession
from labwright.models.backend import ModelRequest, Prompt, Reply, SingleModelBackend
from labwright.models.client import build_schema
from labwright.models.conversation import Conversation, render_exchanges
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
from labwright.record.events.run_events import HAND_IN
from labwright.record.schema import describe_validation_error, replace_unencodable
from labwright.record.schema.decisions import TokenUsage

CLI_PREFIX = "cli:"
_MIN_QUOTA_SECONDS = 60.0
"""Shortest wait for a quota, since programs print the minute of its end."""
_LEFT_OUT = ("temperature", "max_tokens")

_FLAG = re.compile(r"unknown option|unexpected argument|unrecogni[sz]ed (?:option|argument|subcommand)", re.IGNORECASE)
_LOGIN = re.compile(
    r"\blog ?in\b|logged in|/login|unauthori[sz]ed|authenticat|invalid (?:x-)?api.?key|\b40[13]\b|oauth", re.IGNORECASE
)
_QUOTA = re.compile(
    r"usage limit|limit reached|hit your|credit balance|out of .{0,20}credit|quota|\b429\b|rate.?limit|billing",
    re.IGNORECASE,
)
_CONTEXT = re.compile(r"prompt is too long|context (?:window|length)|input is too long", re.IGNORECASE)
_SCHEMA = re.compile(r"invalid_json_schema|invalid schema", re.IGNORECASE)
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


class CommandLineAgent(SingleModelBackend):
    """A command-line agent as a model."""

    def __init__(self, program: AgentProgram, settings: ModelSettings, model: str = "") -> None:
        super().__init__(settings.name)
        self._program, self._settings, self._model = program, settings, model
        self._has_answered = False
        self._own_tools: str | None = None
        """Why the program cannot switch off its own tools; None: not known yet."""
        self._refused_schemas = set[type[BaseModel]]()
        self._sessions: list[tuple[Prompt, AuthorSession]] = []

    async def get_context_limit(self, role: object) -> int | None:
        return self._settings.context_tokens

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the program's answer to a request. Raises `ModelError`."""
        request = fit_to_window(request, self._settings.context_tokens, model=self.name)
        unprepared = await self._prepare()
        if request.conversation is not None:
            return await self._answer_step(request, request.conversation, unprepared)
        schema, user, why = build_schema(request.output_type), request.prompt.user, ""
        usage, tries = TokenUsage(usd=0.0, cached_usd=0.0), 1 if request.single else 1 + self._settings.output_retries
        for number in range(tries):
            enforced = self._program.enforces(schema) and request.output_type not in self._refused_schemas
            form = "Answer with one JSON object" + ("." if enforced else f" of this JSON schema:\n{json.dumps(schema)}")
            try:
                seen = await self._ask(request, f"{user}\n\n{form}", schema if enforced else None)
            except ModelUnavailable as error:
                error.lost = usage + error.lost
                raise
            except _SchemaRefused:
                self._refused_schemas.add(request.output_type)
                why = "its service refuses the schema"
                continue
            usage += self._price(seen)
            try:
                output = _parse_answer(seen, request)
            except ValueError as error:
                why = " ".join(str(error).split())[:600]
                user = (
                    f"{request.prompt.user}\n\nYour last answer was:\n\n{seen.text[:4000]}\n\nIt cannot be used: "
                    f"{why}. Answer again, with JSON and nothing else."
                )
                continue
            return Reply(output, usage, self._name_answerer(seen), retries=number, left_out=_LEFT_OUT)
        raise ModelOutputInvalid(
            f"{self.name}: no answer fits the schema after {tries} answers; choose another model: {why}"
        )

    async def _answer_step(self, request: ModelRequest, conversation: Conversation, own_tools: str) -> Reply:
        """Return the next call of a tool, by the session that waits for the result of the last one, or by a new one."""
        if own_tools:
            raise ModelConfigError(
                f"{self.name} can answer but not work with tools, since it cannot switch off its own: {own_tools}; "
                f"{self._program.update_hint}, or choose another model for the role coder"
            )
        tries = 1 + (0 if request.single else self._settings.output_retries)
        usage, why = TokenUsage(usd=0.0, cached_usd=0.0), ""
        session = self._find_session(request.prompt, conversation)
        for number in range(tries):
            session = session or self._open_session(request, conversation, why)
            try:
                call = await session.wait_for_call(self._settings.timeout)
            except TimeoutError:
                late = ModelUnavailable(
                    f"{self.name}: no call of a tool within {self._settings.timeout:g} s (models.timeout)"
                )
                late.billed, late.lost = True, usage + self._price(session)
                raise late from None
            except OSError as error:
                raise ModelConfigError(f"{self.name}: {self._program.program} does not start: {error}") from None
            except BaseException:
                await session.close()
                raise
            if call is None:
                usage += self._price(session)
                self.raise_problem(session.process)
                session, why = None, "You ended without calling `hand_in`."
                continue
            self._has_answered = True
            try:
                request.check_answer(call)
            except ValueError as error:
                why = " ".join(str(error).split())[:1000]
                session.refuse(why)
                continue
            if call.tool == HAND_IN:
                await session.end()
            else:
                self._sessions.append((request.prompt, session))
            usage += self._price(session)
            name = self._name_answerer(session.process.seen)
            return Reply(call, usage, name, retries=number, left_out=_LEFT_OUT)
        if session is not None:
            await session.close()
        raise ModelOutputInvalid(f"{self.name}: no valid call of a tool after {tries} answers: {why}")

    def _find_session(self, prompt: Prompt, conversation: Conversation) -> AuthorSession | None:
        """Return the session that waits for the result of the last exchange, and deliver it."""
        *before, last = conversation.exchanges or (None,)
        for one in self._sessions:
            asked, session = one
            if last is not None and asked == prompt and session.exchanges == before and session.pending == last.call:
                self._sessions.remove(one)
                if session.has_ended:
                    return None
                session.deliver(last.result)
                return session
        return None

    def _open_session(self, request: ModelRequest, conversation: Conversation, why: str) -> AuthorSession:
        done = render_exchanges(conversation.exchanges)
        words = [
            request.prompt.user,
            f"## Calls so far\n\n{done}\n\nGo on from here." if done else "",
            f"Work with the tools of the MCP server, and end by calling `{HAND_IN}`; nothing else is seen. {why}",
        ]
        user = "\n\n".join(filter(None, words)).strip()
        return AuthorSession(
            self._program, user, request.prompt.system, self._model, self._settings.retries, conversation
        )

    def _name_answerer(self, seen: AgentOutput) -> str:
        answered_by = replace_unencodable(seen.model or self._model or "default")[:200]
        return f"{CLI_PREFIX}{self._program.program}:{answered_by}"

    async def _prepare(self) -> str:
        """Return why the program cannot switch off its own tools; empty if it can."""
        if self._own_tools is None:
            self._own_tools = await asyncio.to_thread(self._program.prepare)
        return self._own_tools

    def _price(self, source: AgentOutput | AuthorSession) -> TokenUsage:
        """Return the usage with its cost: by a configured price, otherwise as the program reports it (at its end).

        Of a session, return what is new.
        """
        usage = source.usage if isinstance(source, AgentOutput) else source.take_usage()
        reported = source.usd if isinstance(source, AgentOutput) else source.take_usd()
        usd = compute_usd(self._settings, usage)
        usd = reported if usd is None else usd
        return usage.model_copy(update={"usd": usd, "cached_usd": 0.0 if usd == 0 else None})

    async def _ask(self, request: ModelRequest, user: str, schema: dict[str, Any] | None) -> AgentOutput:
        """Run the program once and return what it printed. Raises `ModelError`, `_SchemaRefused`."""
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
        if schema is not None and _SCHEMA.search(process.seen.error):
            raise _SchemaRefused
        self.raise_problem(process)
        self._has_answered = True
        return process.seen

    def raise_problem(self, process: AgentProcess) -> None:
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


class _SchemaRefused(Exception):
    """The service behind a program does not accept a schema."""


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
