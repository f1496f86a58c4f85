"""Tolerate chat completions of other servers that deviate harmlessly from OpenAI's format.

The content of an answer is not repaired. An HTML page or an error instead of an answer is reported as such.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion
from pydantic import ValidationError
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel

_HTML_PAGE = re.compile(r"\s*<(!doctype html|html|head|body)", re.IGNORECASE)


def make_lenient(model: OpenAIChatModel) -> None:
    """Make a model accept responses that are almost in OpenAI's format."""
    strict = model._process_response  # pyrefly: ignore  no public hook sees the whole answer

    def process(response: ChatCompletion | str, **more: Any) -> ModelResponse:
        if isinstance(response, str) and _HTML_PAGE.match(response):
            raise UnexpectedModelBehavior(
                "the server sent an HTML page instead of an answer: there is a proxy or login page in between, or "
                "models.base_url is not the address of the model's API"
            )
        return strict(_repair_response(response) if isinstance(response, ChatCompletion) else response, **more)

    model._process_response = process  # pyrefly: ignore


def _repair_response(response: ChatCompletion) -> ChatCompletion:
    """Return the response in strict form. Raises `UnexpectedModelBehavior` if it is an error."""
    body: dict[str, Any] = response.model_dump(warnings=False)
    if not body.get("choices") and body.get("error"):
        error = json.dumps(body["error"], ensure_ascii=False)
        raise UnexpectedModelBehavior(f"the server answered with an error: {error[:300]}")
    body |= {
        "id": str(body.get("id") or ""),
        "object": "chat.completion",
        "model": str(body.get("model") or ""),
        "created": _as_whole_number(body.get("created")),
    }
    try:
        CompletionUsage.model_validate(body.get("usage"))
    except ValidationError:
        body["usage"] = None  # unreadable usage counts as unreported
    for number, choice in enumerate(_as_field_list(body.get("choices"))):
        choice["index"] = _as_whole_number(choice.get("index")) or number
        for place, call in enumerate(_as_field_list(_as_fields(choice.get("message")).get("tool_calls"))):
            call |= {"id": str(call.get("id") or f"call_{place}"), "type": call.get("type") or "function"}
            function = _as_fields(call.get("function"))
            if function and type(function.get("arguments")) is not str:
                function["arguments"] = json.dumps(function.get("arguments") or {})
    return ChatCompletion.construct(**body)


def _as_fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _as_field_list(value: Any) -> list[dict[str, Any]]:
    """Return the entries of a list that are mappings."""
    return [one for one in cast("list[Any]", value) if isinstance(one, dict)] if isinstance(value, list) else []


def _as_whole_number(value: Any) -> int:
    """Return the integer part of a number; 0 if it is not a finite number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
