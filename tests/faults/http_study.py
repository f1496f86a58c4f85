"""The small study answered over real HTTP: the scripted model behind an OpenAI-compatible server.

The server must answer typed inputs and is sent a prompt. So the client's side leaves each request, pickled, in a folder
that both know, under the hash of its prompt; over the wire goes what goes over the wire to a provider.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from labwright.agent.settings import Settings, compose_settings
from labwright.models import transport
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.client import hash_request
from labwright.models.replay import ScriptedModel
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventListener
from labwright.record.events import Event
from labwright.record.reducers.run_state import RunState
from tests.models.openai_server import Choose, Step, answer_by_tool
from tests.stages.small_study import IDEA, make_small_model

SMALL_SETTINGS = {
    "seed": 3,
    "sandbox.timeout": 60,
    "search.order": "ticket",
    "search.window": 4,
    "search.num_workers": 2,
    "search.num_drafts": 1,
    "search.num_seeds": 2,
    "search.max_seeds": 2,
    "search.preliminary.nodes": 2,
    "search.tuning.nodes": 1,
    "search.agenda.nodes": 1,
    "search.ablation.nodes": 1,
    "search.ladder": False,
    "paper.reflections": 1,
    "models.name": "openai:some-model",
    "models.timeout": 15,
    "models.outage_timeout": 0,
}
"""A run of ten nodes and some 26 answers."""


@dataclass(frozen=True)
class NotedRequest:
    """A request and the hash under which the record knows it. Its output type is left out: it may not be picklable."""

    sha256: str
    request: ModelRequest


class NotingBackend:
    """A backend that leaves what it is asked in a folder before it asks."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def answer(self, request: ModelRequest) -> Reply:
        path = self._folder / _hash_name(request.prompt.system, request.prompt.user)
        part = path.with_suffix(f".{os.getpid()}")
        asked = f"{self._backend.get_model_name(request.role)} at temperature {request.temperature:g}"
        part.write_bytes(
            pickle.dumps(NotedRequest(hash_request(request, asked), replace(request, output_type=BaseModel)))
        )
        part.replace(path)
        return await self._backend.answer(request)


def make_settings(url: str, **changes: object) -> Settings:
    """The small run with its model at an address."""
    flags = (
        SMALL_SETTINGS | {"models.base_url": url} | {key.replace("__", "."): value for key, value in changes.items()}
    )
    return compose_settings(flags=flags, environment={})


def start_study(runs: Path, name: str, settings: Settings, noted: Path, listener: EventListener | None = None) -> int:
    """A run whose model is asked over HTTP; returns its exit code."""
    with noting_requests(noted) as run:
        return run.start_study(IDEA, settings, runs=runs, name=name, listener=listener or ignore_event)


def resume_run(run_folder: Path, noted: Path, listener: EventListener | None = None, **overrides: Any) -> int:
    """The same run taken up again."""
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    with noting_requests(noted) as run:
        return run.resume_run(run_folder, given, listener=listener or ignore_event)


@contextmanager
def noting_requests(noted: Path) -> Generator[ModuleType]:
    """`agent.run`, whose models leave what they are asked."""
    from labwright.agent import run

    def opened(settings: ModelSettings) -> Any:
        noted.mkdir(parents=True, exist_ok=True)
        return NotingBackend(open_backend(settings), noted)

    run.open_backend = opened
    waited, transport.RETRY_WAIT_SECONDS = transport.RETRY_WAIT_SECONDS, 0.01
    try:
        yield run
    finally:
        run.open_backend = open_backend
        transport.RETRY_WAIT_SECONDS = waited


def ignore_event(event: Event, state: RunState) -> None:
    """Nobody looks."""


def make_study_script(
    noted: Path, faults: Sequence[Step] = (), every: int = 0, *, model: Callable[[], ScriptedModel] = make_small_model
) -> Choose:
    """Answers by the small study, or another; each `every`-th request meets the next of the faults instead."""

    def choose(number: int, body: dict[str, Any]) -> Step:
        if faults and number % every == 0:
            return faults[(number // every - 1) % len(faults)]
        return answer_by_tool(answer_body(body, noted, model()))

    return choose


def answer_body(body: dict[str, Any], noted: Path, model: ScriptedModel) -> dict[str, Any]:
    """What the study's model answers a chat completion request with."""
    reply = asyncio.run(model.answer(find_noted(body, noted).request))
    return reply.output.model_dump(mode="json", by_alias=True)


def find_noted(body: dict[str, Any], noted: Path) -> NotedRequest:
    """The request that a chat completion request came from, whatever was added to it since."""
    texts = {
        role: next(_content_to_text(one["content"]) for one in body["messages"] if one["role"] == role)
        for role in ("system", "user")
    }
    return pickle.loads((noted / _hash_name(texts["system"], texts["user"])).read_bytes())


def _content_to_text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else next(part["text"] for part in content if part["type"] == "text")


def _hash_name(system: str, user: str) -> str:
    words = " ".join(f"{system} {user}".split())  # the client trims what it sends
    return hashlib.sha256(words.encode()).hexdigest() + ".pickle"
