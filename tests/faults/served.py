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

from labwright.agent.settings import Settings, compose
from labwright.models import transport
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.failover import open_backend
from labwright.models.ledger import request_sha256
from labwright.models.scripted import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.events import Event
from labwright.record.fold.state import RunState
from labwright.record.log import Listener
from tests.models.openai_server import Choose, Step, tool
from tests.stages.small_study import IDEA, small_model

SMALL = {
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
    "models.timeout": 3,
    "models.outage_timeout": 0,
}
"""A run of ten nodes and some 26 answers."""


@dataclass(frozen=True)
class Noted:
    """A request and the hash under which the record knows it. Its output type is left out: it may not be picklable."""

    sha256: str
    request: ModelRequest


class Noting:
    """A backend that leaves what it is asked in a folder before it asks."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def answer(self, request: ModelRequest) -> Reply:
        path = self._folder / _name(request.prompt.system, request.prompt.user)
        part = path.with_suffix(f".{os.getpid()}")
        asked = f"{self._backend.name_of(request.role)} at temperature {request.temperature:g}"
        part.write_bytes(pickle.dumps(Noted(request_sha256(request, asked), replace(request, output_type=BaseModel))))
        part.replace(path)
        return await self._backend.answer(request)


def served_settings(url: str, **changes: object) -> Settings:
    """The small run with its model at an address."""
    flags = SMALL | {"models.base_url": url} | {key.replace("__", "."): value for key, value in changes.items()}
    return compose(flags=flags, environment={})


def start(runs: Path, name: str, settings: Settings, noted: Path, listener: Listener | None = None) -> int:
    """A run whose model is asked over HTTP; returns its exit code."""
    with noting_behind_the_door(noted) as run:
        return run.start(IDEA, settings, runs=runs, name=name, listener=listener or silent)


def resume(run_folder: Path, noted: Path, listener: Listener | None = None, **overrides: Any) -> int:
    """The same run taken up again."""
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    with noting_behind_the_door(noted) as run:
        return run.resume(run_folder, given, listener=listener or silent)


@contextmanager
def noting_behind_the_door(noted: Path) -> Generator[ModuleType]:
    """`agent.run`, whose models leave what they are asked."""
    from labwright.agent import run

    def opened(models: ModelSettings) -> Any:
        noted.mkdir(parents=True, exist_ok=True)
        return Noting(open_backend(models), noted)

    run.open_backend = opened
    waited, transport.RETRY_WAIT = transport.RETRY_WAIT, 0.01  # pyright: ignore[reportConstantRedefinition]
    try:
        yield run
    finally:
        run.open_backend = open_backend
        transport.RETRY_WAIT = waited  # pyright: ignore[reportConstantRedefinition]


def silent(event: Event, state: RunState) -> None:
    """Nobody looks."""


def studying(
    noted: Path, faults: Sequence[Step] = (), every: int = 0, *, model: Callable[[], ScriptedModel] = small_model
) -> Choose:
    """Answers by the small study, or another; each `every`-th request meets the next of the faults instead."""

    def choose(number: int, body: dict[str, Any]) -> Step:
        if faults and number % every == 0:
            return faults[(number // every - 1) % len(faults)]
        return tool(answer_to(body, noted, model()))

    return choose


def answer_to(body: dict[str, Any], noted: Path, model: ScriptedModel) -> dict[str, Any]:
    """What the study's model answers a chat completion request with."""
    reply = asyncio.run(model.answer(noted_of(body, noted).request))
    return reply.output.model_dump(mode="json", by_alias=True)


def noted_of(body: dict[str, Any], noted: Path) -> Noted:
    """The request that a chat completion request came from, whatever was added to it since."""
    texts = {
        role: next(_text(one["content"]) for one in body["messages"] if one["role"] == role)
        for role in ("system", "user")
    }
    return pickle.loads((noted / _name(texts["system"], texts["user"])).read_bytes())


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else next(part["text"] for part in content if part["type"] == "text")


def _name(system: str, user: str) -> str:
    words = " ".join(f"{system} {user}".split())  # the client trims what it sends
    return hashlib.sha256(words.encode()).hexdigest() + ".pickle"
