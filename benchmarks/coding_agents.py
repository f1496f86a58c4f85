"""Whole studies by the real programs `claude` and `codex`, against a stand-in of the services behind them.

python -m benchmarks.coding_agents study|author|ablate claude|codex FOLDER [--bin DIR] [--faults N]

`study` runs an idea of the offline model to its paper with the program as the only model, `author` the same with
`search.author=always`, `ablate` a small repository with it as author. The programs are those on PATH or in DIR (`npm
install --prefix P` puts them into `P/node_modules/.bin`); they get a home in FOLDER, so that no login of the user is
read. The stand-in answers over loopback with what the offline model says to the typed question, and as author with
the calls of a scripted one. With `--faults N`, every N-th answer is an odd one in its place: prose, half a JSON, an
empty one, an error of the server, a used-up quota. Prints one JSON object; exits 1 if the study does not reach its
end.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, cast

from benchmarks.report import list_settings, make_parser, print_report
from labwright.agent import run
from labwright.agent.cli import main as run_command
from labwright.agent.cli import preflight
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.client import build_schema
from labwright.models.conversation import Conversation
from labwright.models.offline.researcher import OfflineResearcher
from labwright.models.retry import open_backend
from labwright.models.roles.experiment_code import CODE, Program, ProgramInputs
from labwright.models.roles.repository import PartsInputs
from labwright.models.settings import ModelSettings
from labwright.record.event_log import read_state
from labwright.record.events.run_events import HAND_IN
from tests.agent.test_authored_ablation import PARTS, PLACES, PREPARE, QUIET, use
from tests.faults.http_study import SMALL_SETTINGS
from tests.repositories import FILES, make_repository

EXAMPLES = Path(__file__).parents[1] / "examples"
FAULTS = ("prose", "half", "empty", "error", "quota")
QUOTA_SECONDS = 20
"""Seconds for which a used-up quota refuses everything."""
_ANSWER_TOOL = "StructuredOutput"
"""The tool by which Claude Code takes an answer that has a schema."""
USAGE = {"input_tokens": 100, "output_tokens": 20, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 40}


class Answer(NamedTuple):
    """What a service sends: the call of a tool, or text; `fault` in its place."""

    text: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = {}
    fault: str = ""


class SentRequest(NamedTuple):
    """What a program sent to its service."""

    system: str
    texts: Sequence[str]
    """Texts of the user."""
    tools: Sequence[str]
    is_done: bool
    """Whether nothing is left to say."""
    refusals: Sequence[str] = ()
    """What the program refused."""


class Researcher:
    """Answers what a program sends, from the typed requests that were noted before the program was started."""

    def __init__(self, faults: int) -> None:
        self.requests = list[str]()
        self.answered, self.faulty = Counter[str](), Counter[str]()
        self.unknown, self.refused = list[str](), list[str]()
        self.quota_until = 0.0
        self._noted = dict[str, ModelRequest]()
        self._every, self._faults = faults, itertools.cycle(FAULTS)
        self._offline, self._lock = OfflineResearcher(), threading.Lock()

    def note(self, request: ModelRequest) -> None:
        self._noted[_join_words(request.prompt.system, request.prompt.user)] = request

    def answer(self, sent: SentRequest) -> Answer:
        """Return the answer to what a program sent."""
        asked = _join_words(*sent.texts)
        self.refused += [one for one in sent.refusals if one not in self.refused]
        found = [
            one
            for one in self._noted.values()
            if _join_words(one.prompt.user) in asked
            and _join_words(one.prompt.system) in _join_words(sent.system, asked)
        ]
        if not found:
            self.unknown.append(asked[:200])
            return Answer("ok")
        request = max(found, key=lambda one: len(one.prompt.user))
        role = request.role.name
        with self._lock:
            self.answered[role] += 1
            if time.time() < self.quota_until:
                return Answer(fault="quota")
            if self._every and sum(self.answered.values()) % self._every == 0:
                self.faulty[fault := next(self._faults)] += 1
                if fault == "quota":
                    self.quota_until = time.time() + QUOTA_SECONDS
                return Answer("I would rather explain: it depends.", fault=fault)
        if sent.is_done:
            return Answer("done")
        if request.conversation is not None:
            output = self._choose_step(request, request.conversation)
        else:
            made = asyncio.run(self._offline.answer(request)).output
            offered = build_schema(request.output_type)["properties"]  # without what only the program may set
            answer = made.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            output = {name: value for name, value in answer.items() if name in offered}
        return Answer(tool=_ANSWER_TOOL, arguments=output) if _ANSWER_TOOL in sent.tools else Answer(json.dumps(output))

    def _choose_step(self, request: ModelRequest, conversation: Conversation) -> dict[str, Any]:
        """Return the scripted author's next call; a program is that of the offline model, which it writes and runs."""
        inputs = request.inputs
        if isinstance(inputs, ProgramInputs):
            program = asyncio.run(self._offline.answer(replace(request, role=CODE))).output
            assert isinstance(program, Program)
            files = program.apply_to(inputs.parent.files if inputs.parent is not None else {})
            words = program.model_dump(include={"title", "plan", "varies", "arms", "nothing_left"})
            steps = [use("write", path=path, text=text) for path, text in files.items()]
            steps += [use("run", seconds=60), use(HAND_IN, **words, reasons="as the offline model says")]
        elif isinstance(inputs, PartsInputs):
            steps = [use(HAND_IN, parts=PARTS, **PLACES, reasons="columns of the design")]
        else:
            steps = [*PREPARE]
        return steps[len(conversation.exchanges) % len(steps)]


def _join_words(*texts: str) -> str:
    return " ".join(" ".join(texts).split())


class NotingBackend:
    """A backend that tells the stand-in what it is asked, before it asks."""

    def __init__(self, backend: Backend, researcher: Researcher) -> None:
        self._backend, self._researcher = backend, researcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def answer(self, request: ModelRequest) -> Reply:
        self._researcher.note(request)
        return await self._backend.answer(request)


# --- the services -----------------------------------------------------------------------------------------------------


def start_service(researcher: Researcher) -> ThreadingHTTPServer:
    """Serve the Messages API of Anthropic and the Responses API of OpenAI on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._send_json(200 if "models" in self.path else 404, {"data": [], "models": []})

        def do_HEAD(self) -> None:
            self._send_json(200, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            if "/v1/messages" in self.path and "count_tokens" not in self.path:
                answer = researcher.answer(read_messages(body))
                events = write_messages_events(body, answer)
            elif self.path.endswith("/responses"):
                answer = researcher.answer(read_responses(body))
                events = write_responses_events(body, answer)
            else:
                self._send_json(404, {"error": {"message": "not here"}})
                return
            if answer.fault == "error":
                self._send_json(500, {"type": "error", "error": {"type": "api_error", "message": "boom"}})
            elif answer.fault == "quota":
                at = int(researcher.quota_until) + 1
                headers = {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": at}
                words = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}
                words |= {"plan_type": "plus", "resets_at": at, "resets_in_seconds": QUOTA_SECONDS}
                self._send_json(429, {"type": "error", "error": words}, headers)
            else:
                self._send_events(events)

        def _send_json(self, status: int, content: object, headers: Mapping[str, object] | None = None) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": len(data),
                **(headers or {}),
            }.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _send_events(self, events: Iterator[dict[str, Any]]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for event in events:
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _spoil(text: str, fault: str) -> str:
    """Return the text of an odd answer."""
    return {"half": '{"title": "half an ans', "empty": ""}.get(fault, text)


def _list(value: object) -> list[dict[str, Any]]:
    """Return a list of objects; empty if it is none."""
    return cast("list[dict[str, Any]]", value) if isinstance(value, list) else []


def read_messages(body: dict[str, Any]) -> SentRequest:
    """Read a request of the Messages API."""
    system: object = body.get("system") or ""
    texts, used, refused = list[str](), list[str](), list[str]()
    for message in _list(body["messages"]):
        content: object = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else _list(content):
            if message["role"] == "user" and block["type"] == "text":
                texts.append(block["text"])
            if block["type"] == "tool_use":
                used.append(block["name"])
            if block["type"] == "tool_result" and block.get("is_error"):
                refused.append(json.dumps(block["content"])[:1000])
    return SentRequest(
        system if isinstance(system, str) else " ".join(one["text"] for one in _list(system)),
        texts,
        [one.get("name", "") for one in _list(body.get("tools"))],
        _ANSWER_TOOL in used,
        refused,
    )


def write_messages_events(body: dict[str, Any], answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer of the Messages API."""
    number = len(body["messages"])
    message: dict[str, Any] = {"type": "message", "role": "assistant", "model": body["model"]}
    message |= {"id": f"msg_{number}", "content": [], "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    yield {"type": "message_start", "message": message}
    if answer.tool and not answer.fault:
        block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{number}", "name": answer.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": _spoil(answer.text, answer.fault)}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": USAGE}
    yield {"type": "message_stop"}


def read_responses(body: dict[str, Any]) -> SentRequest:
    """Read a request of the Responses API."""
    items = _list(body.get("input"))
    texts = [str(block.get("text") or "") for item in items for block in _list(item.get("content"))]
    return SentRequest(str(body.get("instructions") or ""), texts, [], is_done=False)


def write_responses_events(body: dict[str, Any], answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer of the Responses API."""
    number = len(_list(body.get("input")))
    content = [{"type": "output_text", "text": _spoil(answer.text, answer.fault), "annotations": list[str]()}]
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}
    response: dict[str, Any] = {"id": f"resp_{number}", "object": "response", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 120,
    }
    done = response | {"status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}


# --- studies ----------------------------------------------------------------------------------------------------------


def prepare_program(program: str, folder: Path, url: str) -> None:
    """Make the program use the stand-in, and a home in the folder."""
    found = shutil.which(program)
    if found is None:
        raise SystemExit(f"{program} is not installed; give its folder with --bin")
    for name in ("home", "bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    os.environ |= {"HOME": str(folder / "home"), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "stand-in"}
    os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
    if program == "codex":  # it has no variable for the address of its service
        provider = {"name": "stand-in", "base_url": f"{url}/v1", "wire_api": "responses"}
        words = [f"{name}={json.dumps(value)}" for name, value in provider.items()]
        words += ["requires_openai_auth=false", "request_max_retries=0", "stream_max_retries=0"]
        given = f"-c 'model_providers.local={{{','.join(words)}}}' -c 'model_provider=\"local\"'"
        script = f'#!/bin/sh\nif [ "$1" = exec ]; then shift; exec {found} exec {given} "$@"; fi\nexec {found} "$@"\n'
        (folder / "bin" / program).write_text(script)
        (folder / "bin" / program).chmod(0o755)


def build_command(kind: str, program: str, folder: Path) -> list[str]:
    """Return the command that starts the study in `FOLDER/run`."""
    if kind == "ablate":
        files = {name: text for name, text in FILES.items() if name != "README.md"} | {"train.py": QUIET}
        code = make_repository(folder / "tinyfit", files)
        words = ["ablate", str(code), "--top", "2", "--budget-runs", "30", "--workers", "2"]
        return [*words, "--set", f"models.coder=cli:{program}", "--out", str(folder / "run")]
    idea = EXAMPLES / "ideas" / "label_noise_calibration.json"
    words = ["run", "--idea", str(idea), "--model", f"cli:{program}", "--runs", str(folder), "--name", "run"]
    settings = {
        "search.author": "always" if kind == "author" else "auto",
        **{name: value for name, value in SMALL_SETTINGS.items() if not name.startswith("models.")},
        "models.outage_timeout": 600,
        "paper.bib": str(EXAMPLES / "library.bib"),
    }
    return [*words, *list_settings(settings)]


def measure_study(kind: str, program: str, folder: Path, faults: int) -> dict[str, Any]:
    """Run one study and return its figures."""
    researcher = Researcher(faults)
    server = start_service(researcher)
    prepare_program(program, folder, f"http://127.0.0.1:{server.server_address[1]}")

    def open_noting(settings: ModelSettings) -> Any:
        return NotingBackend(open_backend(settings), researcher)

    run.open_backend = preflight.open_backend = open_noting
    began = time.monotonic()
    code = run_command(build_command(kind, program, folder))
    state = read_state(folder / "run")
    answers = list(state.calls.answers.values())
    return {
        "kind": kind,
        "program": program,
        "exit_code": code,
        "seconds": round(time.monotonic() - began),
        "limit": state.limit_reason,
        "nodes": len(state.nodes),
        "calls": len(answers),
        "calls_by_role": dict(Counter(one.key.role for one in answers)),
        "seconds_in_calls": round(sum(one.seconds for one in answers)),
        "seconds_per_call": round(sum(one.seconds for one in answers) / max(1, len(answers)), 1),
        "models": sorted({one.model for one in answers}),
        "repeated": sum(one.retries for one in answers),
        "tokens": sum(one.usage.input_tokens + one.usage.output_tokens for one in answers),
        "unanswered": [one.why for one in state.calls.unanswered_calls.values()],
        "requests": sum(researcher.answered.values()),
        "other_requests": researcher.unknown,
        "refused": researcher.refused,
        "faults": dict(researcher.faulty),
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("kind", choices=("study", "author", "ablate"))
    parser.add_argument("program", choices=("claude", "codex"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bin", type=Path)
    parser.add_argument("--faults", type=int, default=0)
    given = parser.parse_args()
    if given.bin is not None:
        os.environ["PATH"] = f"{given.bin.absolute()}:{os.environ['PATH']}"
    found = measure_study(given.kind, given.program, given.folder.absolute(), given.faults)
    print_report(found, given.out)
    return 0 if found["exit_code"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
