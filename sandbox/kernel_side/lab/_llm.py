"""Query language models. The host calls them over a socket that only this cell has; there is no other access."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab._job import BuildState, LabError, require_experiment

LlmMessages = str | Sequence[dict[str, str]]
_MAX_MESSAGE_BYTES = 2**20
_MAX_AT_ONCE = 64
_PROGRESS_SECONDS = 30.0
"""Interval in seconds between progress lines, which show that the code is alive."""


@dataclass(frozen=True)
class LabLlmAnswer:
    """Answer of a language model."""

    id: str
    """Id to cite with `lab.submit`."""
    text: str
    model: str = ""
    """Model version that answered."""
    finish: str = ""
    """The reason why the answer ended: "stop", "length", ..."""
    logprobs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """`token`, `logprob` and `top` (token -> logprob) of each token, if requested."""

    @property
    def parsed(self) -> Any:
        """The text as JSON; None if it is not valid JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


class LabLlm:
    """A language model of the study, by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, messages: LlmMessages, schema: dict[str, Any] | None = None, **options: Any) -> LabLlmAnswer:
        """Return the answer to a prompt, given as a string or as a list of {"role": ..., "content": ...}, with the
        options of `ask_many`. Raises `LabError`.
        """
        return self.ask_many([messages], schema, **options)[0]

    def ask_many(
        self,
        questions: Iterable[LlmMessages],
        schema: dict[str, Any] | None = None,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        logprobs: int | None = None,
    ) -> list[LabLlmAnswer]:
        """Return the answers to many questions in order, asked with the maximum concurrency of the study."""
        options = {"temperature": temperature, "max_tokens": max_tokens, "logprobs": logprobs}
        common = {"subject": self.name, "json_schema": schema, **options}
        asked = [{**common, "messages": _parse_messages(one)} for one in questions]
        if any(len(json.dumps(one)) > _MAX_MESSAGE_BYTES - 100 for one in asked):
            raise LabError(f"lab.llm: a question may have at most {_MAX_MESSAGE_BYTES} bytes")
        return LlmConnection.for_thread().ask_questions(asked, self.name)


def llm(name: str) -> LabLlm:
    """Return a language model that this study may query. Raises `LabError` for any other model."""
    current = require_experiment("llm")
    if name not in current.subjects:
        has = ", ".join(current.subjects) or "none"
        raise LabError(f"lab.llm: unknown subject {name!r} in this study; available: {has}")
    if BuildState.seed is not None:
        raise LabError("lab.llm: a shared value cannot query language models; query in the cell itself")
    return LabLlm(name)


def _parse_messages(messages: LlmMessages) -> list[dict[str, str]]:
    several = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return [{name: str(one[name]) for name in ("role", "content")} for one in several]  # also converts numpy strings


class LlmConnection:
    """The connection of one thread of one process."""

    _own = threading.local()

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(require_experiment("llm").llm)
        except OSError as error:
            raise LabError(f"lab.llm: cannot connect to the host ({error.strerror})") from error
        self._answers = self._socket.makefile("rb")

    @classmethod
    def for_thread(cls) -> LlmConnection:
        line: LlmConnection | None = getattr(cls._own, "line", None)
        if line is None or line._pid != os.getpid():
            line = cls._own.line = cls()
        return line

    def ask_questions(self, questions: list[dict[str, Any]], name: str) -> list[LabLlmAnswer]:
        """Ask the questions and return the answers.

        Raises `LabError` for the first question without an answer, after all pending ones have ended.
        """
        answered: dict[int, LabLlmAnswer] = {}
        error, sent, done, last_progress = "", 0, 0, time.monotonic()
        try:
            while done < sent or (sent < len(questions) and not error):
                while not error and sent < len(questions) and sent - done < _MAX_AT_ONCE:
                    self._socket.sendall(json.dumps({"n": sent, **questions[sent]}).encode() + b"\n")
                    sent += 1
                line = self._answers.readline()
                if not line.endswith(b"\n"):
                    raise ConnectionError("the connection was closed")
                answer: dict[str, Any] = json.loads(line)
                done += 1
                if "error" in answer:
                    error = error or answer["error"]
                    if answer["n"] < 0:
                        raise ConnectionError(error)
                else:
                    fields = {key: answer[key] for key in LabLlmAnswer.__dataclass_fields__}
                    answered[answer["n"]] = LabLlmAnswer(**fields)
                if time.monotonic() - last_progress > _PROGRESS_SECONDS:
                    last_progress = time.monotonic()
                    print(f"lab.llm({name!r}): {len(answered)} of {len(questions)} answered", flush=True)
        except BaseException as broken:  # pending answers would be mistaken for those of later questions
            self._socket.close()
            del self._own.line
            if isinstance(broken, OSError):
                raise LabError(f"lab.llm({name!r}): {broken}") from broken
            raise
        if error:
            raise LabError(f"lab.llm({name!r}): {error}")
        return [answered[number] for number in range(len(questions))]
