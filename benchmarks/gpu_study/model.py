"""A scripted model on a loopback port for the study of `benchmarks.gpu`: chat completions in the requested schema.

It returns experiment.py if a program is requested and plots.py if a plotting script is; any other question gets the
smallest answer that fits its schema. It knows no roles, so changes of them do not affect it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.models.openai_server import OpenAIServer, Step, answer_by_tool, answer_text

PROGRAMS = Path(__file__).parent / "programs"


class ScriptedServer(OpenAIServer):
    """Serves while entered; `asked` counts the questions by the title of their schema."""

    def __init__(self) -> None:
        super().__init__(self._choose)
        self.asked: Counter[str] = Counter()

    def _choose(self, number: int, body: dict[str, Any]) -> Step:
        """Answer a request, by its first tool or its response format."""
        if body.get("tools"):
            function: dict[str, Any] = body["tools"][0]["function"]
            return answer_by_tool(self._answer(function["parameters"]), name=function["name"])
        return answer_text(json.dumps(self._answer(body["response_format"]["json_schema"]["schema"])))

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
