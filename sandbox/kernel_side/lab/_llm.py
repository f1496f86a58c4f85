"""Asking language models. The host calls them, over a socket that this cell alone has; there is no other way to one."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab import _child
from lab._job import LabError, require_experiment

LlmMessages = str | Sequence[dict[str, str]]
_MAX_MESSAGE_BYTES = 2**20
_MAX_AT_ONCE = 64
_PROGRESS_SECONDS = 30.0
"""Seconds between two lines that say how far it is: whoever waits for this code sees that it lives."""


@dataclass(frozen=True)
class LabLlmAnswer:
    """What a subject answered."""

    id: str
    """To be cited with `lab.submit`."""
    text: str
    model: str = ""
    """The version that answered."""
    finish: str = ""
    """Why it ended: "stop", "length", ..."""
    logprobs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """`token`, `logprob` and `top` (token -> logprob) of each token, where they were asked for."""

    @property
    def parsed(self) -> Any:
        """The text as JSON; None where it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


class LabLlm:
    """A language model of the study, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(
        self,
        messages: LlmMessages,
        schema: dict[str, Any] | None = None,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        logprobs: int | None = None,
    ) -> LabLlmAnswer:
        """The answer to a text, or to a list of {"role": ..., "content": ...}. Raises `LabError`."""
        return self.ask_many([messages], schema, temperature=temperature, max_tokens=max_tokens, logprobs=logprobs)[0]

    def ask_many(
        self,
        questions: Iterable[LlmMessages],
        schema: dict[str, Any] | None = None,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        logprobs: int | None = None,
    ) -> list[LabLlmAnswer]:
        """The answers to many questions, in their order, asked as many at a time as the study allows."""
        common = {
            "subject": self.name,
            "json_schema": schema,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "logprobs": logprobs,
        }
        return LlmConnection.for_thread().ask_questions(
            [_encode_question({**common, "messages": _parse_messages(one)}) for one in questions], self.name
        )


def llm(name: str) -> LabLlm:
    """A language model that this study may ask. Raises `LabError` for one that it may not."""
    current = require_experiment("llm")
    if name not in current.subjects:
        raise LabError(
            f"lab.llm: there is no subject {name!r} in this study; there are: {', '.join(current.subjects) or 'none'}"
        )
    if _child.is_builder():
        raise LabError(
            "lab.llm: no subject is asked while a shared value is built; call lab.shared before the first "
            "question of the cell, and ask in the cell itself"
        )
    return LabLlm(name)


def _parse_messages(messages: LlmMessages) -> list[dict[str, str]]:
    if isinstance(messages, str):
        return [{"role": "user", "content": str(messages)}]  # a numpy string is one too
    return [{"role": str(one["role"]), "content": str(one["content"])} for one in messages]


def _encode_question(question: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(question)) > _MAX_MESSAGE_BYTES - 100:
        raise LabError(f"lab.llm: a question has {_MAX_MESSAGE_BYTES} bytes at most")
    return question


class LlmConnection:
    """The connection of one thread of one process."""

    _own = threading.local()

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(require_experiment("llm").llm)
        except OSError as error:
            raise LabError(f"lab.llm: nobody answers here ({error.strerror})") from error
        self._answers = self._socket.makefile("rb")

    @classmethod
    def for_thread(cls) -> LlmConnection:
        line: LlmConnection | None = getattr(cls._own, "line", None)
        if line is None or line._pid != os.getpid():
            line = cls._own.line = cls()
        return line

    def ask_questions(self, questions: list[dict[str, Any]], name: str) -> list[LabLlmAnswer]:
        """Raises `LabError` for the first question that got no answer, once nothing is under way any more."""
        found: dict[int, LabLlmAnswer] = {}
        error, sent, done, told = "", 0, 0, time.monotonic()
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
                    found[answer["n"]] = LabLlmAnswer(**{key: answer[key] for key in LabLlmAnswer.__dataclass_fields__})
                if time.monotonic() - told > _PROGRESS_SECONDS:
                    told = time.monotonic()
                    print(f"lab.llm({name!r}): {len(found)} of {len(questions)} answered", flush=True)
        except BaseException as broken:  # what is still under way would be taken for the answers to what comes next
            self._socket.close()
            del self._own.line
            if isinstance(broken, OSError):
                raise LabError(f"lab.llm({name!r}): {broken}") from broken
            raise
        if error:
            raise LabError(f"lab.llm({name!r}): {error}")
        return [found[number] for number in range(len(questions))]
