"""Chat completions as servers of other makers send them: what is off OpenAI's form, and does no harm, is put right.

Not put right: what an answer says. A page of HTML and an error in place of an answer are told as what they are.
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
    """Have a model read what servers send that are almost OpenAI's."""
    strict = model._process_response  # pyright: ignore[reportPrivateUsage]  no public place sees the whole answer

    def process(response: ChatCompletion | str, **more: Any) -> ModelResponse:
        if isinstance(response, str) and _HTML_PAGE.match(response):
            raise UnexpectedModelBehavior(
                "an HTML page came in place of an answer: a proxy or a login stands in between, or the address is not "
                "that of the model (models.base_url)"
            )
        return strict(_repair_response(response) if isinstance(response, ChatCompletion) else response, **more)

    model._process_response = process  # pyright: ignore[reportPrivateUsage]


def _repair_response(response: ChatCompletion) -> ChatCompletion:
    """The response in the form that its readers insist on. Raises `UnexpectedModelBehavior` where it is an error."""
    body: dict[str, Any] = response.model_dump(warnings=False)
    if not body.get("choices") and body.get("error"):
        error = json.dumps(body["error"], ensure_ascii=False)
        raise UnexpectedModelBehavior(f"it answered with an error: {error[:300]}")
    body |= {
        "id": str(body.get("id") or ""),
        "object": "chat.completion",
        "model": str(body.get("model") or ""),
        "created": _as_whole_number(body.get("created")),
    }
    try:
        CompletionUsage.model_validate(body.get("usage"))
    except ValidationError:
        body["usage"] = None  # what cannot be read is taken as not told
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
    """Those of a list that have fields."""
    return [one for one in cast("list[Any]", value) if isinstance(one, dict)] if isinstance(value, list) else []


def _as_whole_number(value: Any) -> int:
    """A number without its fraction; 0 where it is none, or not finite."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
