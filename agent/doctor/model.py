"""Probes that call a model to check whether it answers, follows a schema, sees images, and reads a long prompt to its
end.

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

from labwright.agent.doctor import DoctorFinding, make_fault, make_ok, make_warning
from labwright.inspector.safe_text import format_count, format_duration
from labwright.models.backend import Backend, Image, ModelRequest, Prompt, Reply
from labwright.models.errors import ModelConfigError, ModelError, ModelOutputInvalid, ModelUnavailable
from labwright.models.retry import open_backend
from labwright.models.roles.figures import VISION
from labwright.models.roles.study_plan import PLAN
from labwright.models.settings import ModelSettings
from labwright.record.schema.frozen_model import FrozenModel

ANSWER_LIMIT_SECONDS = 90.0
"""Seconds for one request, including retries."""
MIN_CONTEXT_TOKENS = 40_000
"""Tokens of the longest prompt of a run (writer or reflector, about 90,000 characters) plus an answer of up to 16,384
tokens."""
PROBE_CHARACTERS = 4 * MIN_CONTEXT_TOKENS
"""Length of the prompt sent by the context probe; English prose has about four characters per token."""


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


def check_models(settings: ModelSettings, *, probe_context: bool, rng: Random) -> Iterator[DoctorFinding]:
    """Yield findings on every named model; later probes run only if the model can be reached."""
    looking = {(one.name, one.base_url) for one in settings.list_candidates(VISION)}
    for one in settings.distinct_models:
        if one.name == "offline":
            yield make_ok("model", "offline: built in, sends nothing, supports only the study of docs/models.md")
            continue
        bounds = one.model_copy(update={"timeout": ANSWER_LIMIT_SECONDS, "retries": 0, "output_retries": 2})
        try:
            model = ProbedModel(one, open_backend(bounds), rng)
        except ModelConfigError as error:
            yield make_fault(
                "model", str(error), "see the message: correct --model or --base-url, export the key, or log in"
            )
            continue
        first = list(check_answers(model))
        yield from first
        if first[0].grade == "ok":
            needs_vision = (one.name, one.base_url) in looking
            yield check_vision(model) if needs_vision else make_ok("vision", "not needed: no role uses it for figures")
            yield check_context_by_probe(model) if probe_context else check_known_context(model)


# --- reachable, schema ----------------------------------------------------------------------------------------------


def check_answers(model: ProbedModel) -> Iterator[DoctorFinding]:
    """Send one request that shows whether the model can be reached and whether it follows a schema."""
    number = model.rng.randrange(100, 1000)
    question = (
        f"Give the word 'cedar', the number {number}, and the colours red (warm) and blue (not warm), in this order."
    )
    began = time.monotonic()
    try:
        reply = asyncio.run(model.ask(question, SchemaProbeAnswer))
    except ModelOutputInvalid as error:
        yield make_ok("model", f"{model.settings.name} answers ({format_duration(time.monotonic() - began)})")
        yield make_fault(
            "schema",
            str(error),
            "choose a model (or server option) with tool calls: for vLLM "
            "--enable-auto-tool-choice and --tool-call-parser; for Ollama a model listed with 'tools'",
        )
        return
    except ModelError as error:
        server = f" at {model.settings.base_url}" if model.settings.base_url else ""
        yield make_fault(
            "model",
            str(error),
            "see the message: correct --model, --base-url, the key or the login, check the "
            f"provider's account, or wait until the server{server} is up",
        )
        return
    without = f", without the parameters {', '.join(reply.left_out)}" if reply.left_out else ""
    yield make_ok(
        "model",
        f"{reply.model} answers ({format_duration(time.monotonic() - began)}, "
        f"{reply.usage.input_tokens} tokens in, {reply.usage.output_tokens} out){without}",
    )
    colours = (ProbeColour(name="red", warm=True), ProbeColour(name="blue", warm=False))
    better = "choose a larger model: this one will often fail on the long answers of a run"
    if reply.retries:
        yield make_warning(
            "schema", f"a small structured answer was valid only after {reply.retries} correction(s)", better
        )
    elif reply.output != SchemaProbeAnswer(word="cedar", number=number, colours=colours):
        yield make_warning("schema", "the answer fits the schema but has the wrong content", better)
    else:
        yield make_ok("schema", "a small structured answer was correct at the first attempt")


# --- vision ---------------------------------------------------------------------------------------------------------


def check_vision(model: ProbedModel) -> DoctorFinding:
    """Check whether the model can read a number in a small image."""
    fix = "--set models.vision=false (figures are then only checked by lint), or a model that supports images"
    number = str(model.rng.randrange(1000, 10_000))
    try:
        reply = asyncio.run(
            model.ask(
                "What number is written in this image? Give its digits.",
                ReadingProbeAnswer,
                (Image(draw_text_image(number)),),
            )
        )
    except ModelError as error:
        return make_warning("vision", f"it does not accept images: {error}", fix)
    assert isinstance(reply.output, ReadingProbeAnswer)
    if number not in "".join(reply.output.text.split()):
        return make_warning("vision", f"it read {reply.output.text[:40]!r} in an image of the number {number}", fix)
    return make_ok("vision", f"it read the number {number} in an image")


def draw_text_image(text: str) -> bytes:
    """Draw the text on a small PNG, large and black on white."""
    image = Pillow.new("RGB", (56 * len(text) + 40, 120), "white")
    ImageDraw.Draw(image).text((20, 10), text, fill="black", font=ImageFont.load_default(size=90))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


# --- context --------------------------------------------------------------------------------------------------------

_CONTEXT_FIX = (
    "give the model more context: for Ollama OLLAMA_CONTEXT_LENGTH=65536 (its default truncates silently"
    "), for vLLM --max-model-len 65536"
)


def check_known_context(model: ProbedModel) -> DoctorFinding:
    """Check the context length from the settings, the public price list, or the model's own server."""
    tokens = asyncio.run(model.backend.get_context_limit(PLAN))
    if tokens is None:
        return make_warning(
            "context",
            "unknown: not on the public list and not reported by the server",
            f"measure it with --probe-context (sends about {format_count(MIN_CONTEXT_TOKENS)} tokens)",
        )
    if tokens < MIN_CONTEXT_TOKENS:
        return make_warning(
            "context",
            f"{format_count(tokens)} tokens; the longest prompts of a run need about "
            f"{format_count(MIN_CONTEXT_TOKENS)}",
            _CONTEXT_FIX,
        )
    return make_ok("context", f"{format_count(tokens)} tokens (not probed)")


def check_context_by_probe(model: ProbedModel) -> DoctorFinding:
    """Check whether the model reads a prompt as long as the longest one of a run. Two numbers are hidden in it, at
    the beginning and in the middle, where servers truncate prompts.
    """
    numbers = [str(model.rng.randrange(100_000, 1_000_000)) for _ in range(2)]
    hay = "The gauge at the weir was read again and the level had not changed since the morning. " * (
        PROBE_CHARACTERS // 172
    )
    text = "".join(f"\nThis is a code number: {number}\n{hay}" for number in numbers)
    prompt = (
        f"a prompt of {format_count(PROBE_CHARACTERS)} characters (about {format_count(MIN_CONTEXT_TOKENS)} tokens)"
    )
    try:
        reply = asyncio.run(model.ask(f"{text}\n\nGive both code numbers in the text above.", ReadingProbeAnswer))
    except ModelError as error:
        return make_warning("context", f"{prompt} got no answer: {error}", _CONTEXT_FIX)
    assert isinstance(reply.output, ReadingProbeAnswer)
    if not all(number in reply.output.text for number in numbers):
        return make_warning(
            "context", f"{prompt} was not read in full: a number hidden in it is missing from the answer", _CONTEXT_FIX
        )
    return make_ok("context", f"{prompt} was read in full")
