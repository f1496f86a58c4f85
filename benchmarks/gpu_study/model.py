"""A scripted model on a loopback port for the study of `benchmarks.gpu`: chat completions in the requested schema.

It returns experiment.py if a program is requested and plots.py if a plotting script is; any other question gets the
smallest answer that fits its schema. It knows no roles, so changes of them do not affect it.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


class ScriptedServer:
    """Serves while entered; `url` is its base URL, `asked` counts the questions by the title of their schema."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

            def do_GET(self) -> None:
                self.reply({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
                self.reply(server.complete(body))

            def reply(self, content: dict[str, Any]) -> None:
                data = json.dumps(content).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.asked: Counter[str] = Counter()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a request, by its first tool or its response format."""
        function: dict[str, Any] = body["tools"][0]["function"] if body.get("tools") else {}
        name: str = function.get("name", "")
        schema: dict[str, Any] = function["parameters"] if name else body["response_format"]["json_schema"]["schema"]
        answer = self._answer(schema)
        message: dict[str, Any] = {"role": "assistant", "content": None if name else json.dumps(answer)}
        if name:
            message["tool_calls"] = [
                {
                    "id": f"call_{sum(self.asked.values())}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(answer)},
                }
            ]
        asked = len(json.dumps(body["messages"])) // 4
        return {
            "id": f"scripted-{sum(self.asked.values())}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if name else "stop"}],
            "usage": {"prompt_tokens": asked, "completion_tokens": 100, "total_tokens": asked + 100},
        }

    def _answer(self, schema: dict[str, Any]) -> Any:
        properties = schema.get("properties", {})
        self.asked[schema.get("title") or "/".join(sorted(properties))[:60]] += 1
        if {"files", "edits", "removed"} <= set(properties):
            return {
                "title": "Three arms",
                "plan": "Train and score each arm.",
                "varies": "nothing",
                "files": [
                    {"path": name, "text": (PROGRAMS / name).read_text()} for name in ("experiment.py", "plots.py")
                ],
            }
        if {"plots", "edits"} <= set(properties):
            return {"plots": (PROGRAMS / "plots.py").read_text()}
        return least(schema, schema.get("$defs", {}))


def least(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """Return the smallest value that fits a JSON schema."""
    if "$ref" in schema:
        return least(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            options = schema[word]
            return None if {"type": "null"} in options else least(options[0], definitions)
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: least(properties[name], definitions) for name in schema.get("required", []) if name in properties}
    if kind == "array":
        return [least(schema.get("items", {}), definitions) for _ in range(schema.get("minItems", 0))]
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 0), schema.get("exclusiveMinimum", -1) + 1)
    return "As the plan says.".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength", 10**6)]
