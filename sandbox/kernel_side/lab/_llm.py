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
from lab._job import LabError, experiment

Messages = str | Sequence[dict[str, str]]
_MOST = 2**20
_AT_ONCE = 64
_TELL = 30.0
"""Seconds between two lines that say how far it is: whoever waits for this code sees that it lives."""


@dataclass(frozen=True)
class Answer:
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


class Subject:
    """A language model of the study, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(
        self,
        messages: Messages,
        schema: dict[str, Any] | None = None,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        logprobs: int | None = None,
    ) -> Answer:
        """The answer to a text, or to a list of {"role": ..., "content": ...}. Raises `LabError`."""
        return self.ask_many([messages], schema, temperature=temperature, max_tokens=max_tokens, logprobs=logprobs)[0]

    def ask_many(
        self,
        questions: Iterable[Messages],
        schema: dict[str, Any] | None = None,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        logprobs: int | None = None,
    ) -> list[Answer]:
        """The answers to many questions, in their order, asked as many at a time as the study allows."""
        common = {
            "subject": self.name,
            "json_schema": schema,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "logprobs": logprobs,
        }
        return _Line.mine().exchange([_packed({**common, "messages": _turns(one)}) for one in questions], self.name)


def llm(name: str) -> Subject:
    """A language model that this study may ask. Raises `LabError` for one that it may not."""
    current = experiment("llm")
    if name not in current.subjects:
        raise LabError(
            f"lab.llm: there is no subject {name!r} in this study; there are: {', '.join(current.subjects) or 'none'}"
        )
    if _child.builds_something():
        raise LabError(
            "lab.llm: no subject is asked while a shared value is built; call lab.shared before the first "
            "question of the cell, and ask in the cell itself"
        )
    return Subject(name)


def _turns(messages: Messages) -> list[dict[str, str]]:
    if isinstance(messages, str):
        return [{"role": "user", "content": str(messages)}]  # a numpy string is one too
    return [{"role": str(one["role"]), "content": str(one["content"])} for one in messages]


def _packed(question: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(question)) > _MOST - 100:
        raise LabError(f"lab.llm: a question has {_MOST} bytes at most")
    return question


class _Line:
    """The connection of one thread of one process."""

    _own = threading.local()

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(experiment("llm").llm)
        except OSError as error:
            raise LabError(f"lab.llm: nobody answers here ({error.strerror})") from error
        self._answers = self._socket.makefile("rb")

    @classmethod
    def mine(cls) -> _Line:
        line: _Line | None = getattr(cls._own, "line", None)
        if line is None or line._pid != os.getpid():
            line = cls._own.line = cls()
        return line

    def exchange(self, questions: list[dict[str, Any]], name: str) -> list[Answer]:
        """Raises `LabError` for the first question that got no answer, once nothing is under way any more."""
        found: dict[int, Answer] = {}
        error, sent, done, told = "", 0, 0, time.monotonic()
        try:
            while done < sent or (sent < len(questions) and not error):
                while not error and sent < len(questions) and sent - done < _AT_ONCE:
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
                    found[answer["n"]] = Answer(**{key: answer[key] for key in Answer.__dataclass_fields__})
                if time.monotonic() - told > _TELL:
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
