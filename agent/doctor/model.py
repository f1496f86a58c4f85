"""Probes that call a model: whether it answers, follows a schema and sees images, and how long its context is.

They run only if a model is named. Every request has a time limit, and constants of this module bound its size.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont
from pydantic import BaseModel, Field

from labwright.agent.doctor import Verdict
from labwright.inspector.safe_text import format_count, format_duration
from labwright.models.backend import Backend, Image, ModelRequest, Prompt, Reply
from labwright.models.errors import ModelConfigError, ModelError, ModelOutputInvalid, ModelUnavailable
from labwright.models.retry import open_backend
from labwright.models.roles.figures import VISION
from labwright.models.roles.study_plan import PLAN
from labwright.models.settings import ModelSettings
from labwright.record.schema import FrozenModel

ANSWER_LIMIT_SECONDS = 90.0
"""Seconds for one request, including retries."""
MIN_CONTEXT_TOKENS = 40_000
"""Tokens of the longest prompt of a run (writer or reflector, about 90,000 characters) plus an answer of up to 16,384
tokens."""


class ProbeColour(FrozenModel):
    name: Literal["red", "green", "blue"]
    warm: bool


class SchemaProbeAnswer(FrozenModel):
    """A small structured answer: a word, a number, and a list of objects with a fixed vocabulary."""

    word: str
    number: int = Field(ge=0, le=1000)
    colours: tuple[ProbeColour, ...] = Field(min_length=2, max_length=3)


class ReadingProbeAnswer(FrozenModel):
    """Text that the model read in an image or a long text."""

    text: str = Field(description="the requested text exactly as written, or an empty string if you cannot see it")


@dataclass(frozen=True)
class ProbedModel:
    """A model to probe and its backend. `rng` draws values that the model cannot guess."""

    settings: ModelSettings
    backend: Backend
    rng: Random

    async def ask(self, user: str, output: type[BaseModel], images: tuple[Image, ...] = ()) -> Reply:
        """Return the answer within the time limit. Raises `ModelError`."""
        request = ModelRequest(
            role=replace(PLAN, choose_output=None, check=None),
            inputs=output.model_construct(),
            output_type=output,
            images=images,
            prompt=Prompt("Answer exactly what is asked, using the given tool.", user),
            temperature=self.settings.get_temperature(PLAN),
            max_tokens=self.settings.get_max_tokens(PLAN),
        )
        try:
            async with asyncio.timeout(ANSWER_LIMIT_SECONDS):
                return await self.backend.answer(request)
        except TimeoutError:
            raise ModelUnavailable(f"no answer within {ANSWER_LIMIT_SECONDS:g} s") from None


def check_models(settings: ModelSettings, *, rng: Random) -> Iterator[tuple[str, Verdict]]:
    """Yield findings on every named model; later probes run only if the model can be reached."""
    looking = {(one.name, one.base_url) for one in settings.list_candidates(VISION)}
    for one in settings.distinct_models:
        if one.name == "offline":
            yield "model", Verdict("ok", "offline: built in, sends nothing, supports only the study of docs/models.md")
            continue
        bounds = one.model_copy(update={"timeout": ANSWER_LIMIT_SECONDS, "retries": 0, "output_retries": 2})
        try:
            model = ProbedModel(one, open_backend(bounds), rng)
        except ModelConfigError as error:
            fix = "see the message: correct --model or --base-url, export the key, or log in"
            yield "model", Verdict("fault", str(error), fix)
            continue
        first = list(check_answers(model))
        yield from first
        if first[0][1].grade == "ok":
            unused = Verdict("ok", "not needed: no role uses it for figures")
            yield "vision", check_vision(model) if (one.name, one.base_url) in looking else unused
            yield "context", check_known_context(model)


def check_answers(model: ProbedModel) -> Iterator[tuple[str, Verdict]]:
    """Send one request that shows whether the model can be reached and whether it follows a schema."""
    number, began = model.rng.randrange(100, 1000), time.monotonic()
    question = (
        f"Give the word 'cedar', the number {number}, and the colours red (warm) and blue (not warm), in this order."
    )
    try:
        reply = asyncio.run(model.ask(question, SchemaProbeAnswer))
    except ModelOutputInvalid as error:
        fix = (
            "choose a model (or server option) with tool calls: for vLLM --enable-auto-tool-choice and "
            "--tool-call-parser; for Ollama a model listed with 'tools'"
        )
        yield "model", Verdict("ok", f"{model.settings.name} answers ({format_duration(time.monotonic() - began)})")
        yield "schema", Verdict("fault", str(error), fix)
        return
    except ModelError as error:
        server = f" at {model.settings.base_url}" if model.settings.base_url else ""
        fix = (
            "see the message: correct --model, --base-url, the key or the login, check the provider's account, or "
            f"wait until the server{server} is up"
        )
        yield "model", Verdict("fault", str(error), fix)
        return
    without = f", without the parameters {', '.join(reply.left_out)}" if reply.left_out else ""
    took = f"{format_duration(time.monotonic() - began)}, {reply.usage.input_tokens} tokens in"
    yield "model", Verdict("ok", f"{reply.model} answers ({took}, {reply.usage.output_tokens} out){without}")
    colours = (ProbeColour(name="red", warm=True), ProbeColour(name="blue", warm=False))
    better = "choose a larger model: this one will often fail on the long answers of a run"
    verdict = Verdict("ok", "a small structured answer was correct at the first attempt")
    if reply.retries:
        found = f"a small structured answer was valid only after {reply.retries} correction(s)"
        verdict = Verdict("warning", found, better)
    elif reply.output != SchemaProbeAnswer(word="cedar", number=number, colours=colours):
        verdict = Verdict("warning", "the answer fits the schema but has the wrong content", better)
    yield "schema", verdict


def check_vision(model: ProbedModel) -> Verdict:
    """Check whether the model can read a number in a small image."""
    fix = "--set models.vision=false (figures are then only checked by lint), or a model that supports images"
    number = str(model.rng.randrange(1000, 10_000))
    question, picture = "What number is written in this image? Give its digits.", Image(draw_text_image(number))
    try:
        read = asyncio.run(model.ask(question, ReadingProbeAnswer, (picture,))).output
    except ModelError as error:
        return Verdict("warning", f"it does not accept images: {error}", fix)
    assert isinstance(read, ReadingProbeAnswer)
    if number not in "".join(read.text.split()):
        return Verdict("warning", f"it read {read.text[:40]!r} in an image of the number {number}", fix)
    return Verdict("ok", f"it read the number {number} in an image")


def draw_text_image(text: str) -> bytes:
    """Draw the text on a small PNG, large and black on white."""
    image = Pillow.new("RGB", (56 * len(text) + 40, 120), "white")
    ImageDraw.Draw(image).text((20, 10), text, fill="black", font=ImageFont.load_default(size=90))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


_CONTEXT_FIX = (
    "give the model more context: for Ollama OLLAMA_CONTEXT_LENGTH=65536 (its default truncates silently), for vLLM "
    "--max-model-len 65536"
)


def check_known_context(model: ProbedModel) -> Verdict:
    """Check the context length from the settings, the public price list, or the model's own server."""
    tokens, least = asyncio.run(model.backend.get_context_limit(PLAN)), format_count(MIN_CONTEXT_TOKENS)
    if tokens is None:
        return Verdict("warning", "unknown: not on the public list and not reported by the server", _CONTEXT_FIX)
    found = f"{format_count(tokens)} tokens"
    if tokens < MIN_CONTEXT_TOKENS:
        return Verdict("warning", f"{found}; the longest prompts of a run need about {least}", _CONTEXT_FIX)
    return Verdict("ok", found)
