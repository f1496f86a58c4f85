"""A model whose answers come from a function, for tests and tools.

backend = ScriptedModel(lambda request: Program(...))
backend = ScriptedModel.from_role_functions(code=lambda inputs: Program(...), vision=lambda inputs: ...)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from labwright.models.backend import ModelRequest, Reply, SingleModelBackend
from labwright.models.errors import ModelConfigError, ModelOutputInvalid
from labwright.record.schema.decisions import TokenUsage

Script = Callable[[ModelRequest], BaseModel | Reply]


class ScriptedModel(SingleModelBackend):
    """Answers by calling a function and passes on its errors; `requests` lists the requests in order."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        super().__init__(name)
        self.requests: list[ModelRequest] = []

    @classmethod
    def from_role_functions(cls, **answers: Callable[[Any], BaseModel]) -> ScriptedModel:
        """Return a model that answers each role by a function of its typed inputs."""

        def script(request: ModelRequest) -> BaseModel:
            if request.role.name not in answers:
                raise ModelConfigError(f"this script has no answer for role '{request.role}', only {sorted(answers)}")
            return answers[request.role.name](request.inputs)

        return cls(script)

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the script's answer; usage is counted as four characters per token, without price."""
        self.requests.append(request)
        answer = self._script(request)
        if isinstance(answer, Reply):
            reply = answer
        else:
            asked = len(request.prompt.system) + len(request.prompt.user)
            usage = TokenUsage(input_tokens=asked // 4, output_tokens=len(answer.model_dump_json()) // 4)
            reply = Reply(output=answer, usage=usage, model=self.name)
        if not isinstance(reply.output, request.output_type):
            raise ModelOutputInvalid(
                f"the script answered role '{request.role}' with {type(reply.output).__name__}, "
                f"not {request.output_type.__name__}"
            )
        return reply
