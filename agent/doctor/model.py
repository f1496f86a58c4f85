"""A model really asked: does it answer, keep to a schema, see pictures, and read to the end of a long prompt?

Nothing here runs unless a model was named. Every question has a time limit, and the bounds on what a probe may send
are constants of this module.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont
from pydantic import BaseModel, Field

from labwright.agent.doctor import DoctorFinding, make_fault, make_ok, make_warning
from labwright.inspector.safe_text import format_count, format_duration
from labwright.models.backend import Backend, Image, ModelRequest, Prompt, Reply
from labwright.models.errors import ModelConfigError, ModelError, ModelOutputInvalid, ModelUnavailable
from labwright.models.failover import open_backend
from labwright.models.roles.figures import VISION
from labwright.models.roles.study_plan import PLAN
from labwright.models.settings import ModelSettings
from labwright.record.schema.frozen_model import FrozenModel

ANSWER_LIMIT_SECONDS = 90.0
"""Seconds for one question, its retries included."""
MIN_CONTEXT_TOKENS = 40_000
"""What the longest prompt of a run (writer or reflector, some 90,000 characters) and its answer of up to 16,384 tokens
take together."""
PROBE_CHARACTERS = 4 * MIN_CONTEXT_TOKENS
"""Of the prompt that the context probe sends: English prose has roughly four a token."""


class ProbeColour(FrozenModel):
    name: Literal["red", "green", "blue"]
    warm: bool


class SchemaProbeAnswer(FrozenModel):
    """The small structured answer: a word, a number, and a list of objects with a fixed vocabulary."""

    word: str
    number: int = Field(ge=0, le=1000)
    colours: tuple[ProbeColour, ...] = Field(min_length=2, max_length=3)


class ReadingProbeAnswer(FrozenModel):
    """What was read in a picture or a long text."""

    text: str = Field(description="what is asked for, as it is written there, or an empty string if you cannot see it")


@dataclass(frozen=True)
class ProbedModel:
    """A model with the means to ask it. `rng` draws what it cannot guess."""

    settings: ModelSettings
    backend: Backend
    rng: Random

    async def ask(self, user: str, output: type[BaseModel], images: tuple[Image, ...] = ()) -> Reply:
        """The answer within the limit. Raises `ModelError`."""
        request = ModelRequest(
            role=PLAN,
            inputs=output.model_construct(),
            output_type=output,
            images=images,
            prompt=Prompt("You answer exactly what is asked, by the tool that you are given.", user),
            temperature=self.settings.get_temperature(PLAN),
            max_tokens=self.settings.get_max_tokens(PLAN),
        )
        try:
            async with asyncio.timeout(ANSWER_LIMIT_SECONDS):
                return await self.backend.answer(request)
        except TimeoutError:
            raise ModelUnavailable(f"no answer within {ANSWER_LIMIT_SECONDS:g} s") from None


def check_models(settings: ModelSettings, *, probe_context: bool, rng: Random) -> Iterator[DoctorFinding]:
    """Findings on every model that is named, one after the other; the later ones only when it can be reached at all."""
    looking = {(one.name, one.base_url) for one in settings.list_candidates(VISION)}
    for one in settings.distinct_models:
        if one.name == "offline":
            yield make_ok("model", "offline: built in, asks nobody, for the study of docs/models.md only")
            continue
        bounds = one.model_copy(update={"timeout": ANSWER_LIMIT_SECONDS, "retries": 0, "output_retries": 2})
        try:
            model = ProbedModel(one, open_backend(bounds), rng)
        except ModelConfigError as error:
            yield make_fault("model", str(error), "correct --model and --base-url, or export the key that it names")
            continue
        first = list(check_answers(model))
        yield from first
        if first[0].grade == "ok":
            looks = (one.name, one.base_url) in looking
            yield check_vision(model) if looks else make_ok("vision", "not asked: it looks at no figures")
            yield check_context_by_probe(model) if probe_context else check_known_context(model)


# --- reachable, schema ----------------------------------------------------------------------------------------------


def check_answers(model: ProbedModel) -> Iterator[DoctorFinding]:
    """One question decides two findings: whether the model is reached, and whether it keeps to a schema."""
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
            "as the message says: correct --model, --base-url or the key, see the "
            f"provider's account, or wait until the server{server} is up",
        )
        return
    without = f", asked without {' and '.join(reply.left_out)}" if reply.left_out else ""
    yield make_ok(
        "model",
        f"{reply.model} answers ({format_duration(time.monotonic() - began)}, "
        f"{reply.usage.input_tokens} tokens in, {reply.usage.output_tokens} out){without}",
    )
    colours = (ProbeColour(name="red", warm=True), ProbeColour(name="blue", warm=False))
    better = "choose a larger model: this one will fail often on the large answers of a run"
    if reply.retries:
        yield make_warning(
            "schema", f"a small structured answer fitted only after {reply.retries} correction(s)", better
        )
    elif reply.output != SchemaProbeAnswer(word="cedar", number=number, colours=colours):
        yield make_warning(
            "schema", "the answer fits the schema but is wrong: it does not say what it was told to", better
        )
    else:
        yield make_ok("schema", "a small structured answer came at once and was correct")


# --- vision ---------------------------------------------------------------------------------------------------------


def check_vision(model: ProbedModel) -> DoctorFinding:
    """Whether it reads a number from a tiny picture."""
    fix = "--set models.vision=false (figures are then checked by the lint alone), or a model that sees"
    number = str(model.rng.randrange(1000, 10_000))
    try:
        reply = asyncio.run(
            model.ask(
                "What number is written in this picture? Give its digits.",
                ReadingProbeAnswer,
                (Image(draw_text_image(number)),),
            )
        )
    except ModelError as error:
        return make_warning("vision", f"it does not take pictures: {error}", fix)
    assert isinstance(reply.output, ReadingProbeAnswer)
    if number not in "".join(reply.output.text.split()):
        return make_warning(
            "vision", f"it answered {reply.output.text[:40]!r} to a picture of the number {number}", fix
        )
    return make_ok("vision", f"it read the number {number} in a picture")


def draw_text_image(text: str) -> bytes:
    """A small PNG with the text in it, large and black on white."""
    image = Pillow.new("RGB", (56 * len(text) + 40, 120), "white")
    ImageDraw.Draw(image).text((20, 10), text, fill="black", font=ImageFont.load_default(size=90))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


# --- context --------------------------------------------------------------------------------------------------------

_CONTEXT_FIX = (
    "give the model more context: for Ollama OLLAMA_CONTEXT_LENGTH=65536 (its default truncates without a "
    "word), for vLLM --max-model-len 65536"
)


def check_known_context(model: ProbedModel) -> DoctorFinding:
    """The context length as it is set, by the public price list, or as the model's own server says."""
    tokens = asyncio.run(model.backend.get_context_limit(PLAN))
    if tokens is None:
        return make_warning(
            "context",
            "its length is on no public list, and no server of your own tells it",
            f"find out with --probe-context (it sends about {format_count(MIN_CONTEXT_TOKENS)} tokens)",
        )
    if tokens < MIN_CONTEXT_TOKENS:
        return make_warning(
            "context",
            f"{format_count(tokens)} tokens; the longest prompts of a run want about "
            f"{format_count(MIN_CONTEXT_TOKENS)}",
            _CONTEXT_FIX,
        )
    return make_ok("context", f"{format_count(tokens)} tokens (not probed)")


def check_context_by_probe(model: ProbedModel) -> DoctorFinding:
    """Whether a prompt as long as the longest of a run is read whole: two numbers are hidden in it, at the beginning
    and in the middle, where servers cut."""
    numbers = [str(model.rng.randrange(100_000, 1_000_000)) for _ in range(2)]
    hay = "The gauge at the weir was read again and the level had not changed since the morning. " * (
        PROBE_CHARACTERS // 172
    )
    text = "".join(f"\nThis is a code number: {number}\n{hay}" for number in numbers)
    prompt = (
        f"a prompt of {format_count(PROBE_CHARACTERS)} characters (about {format_count(MIN_CONTEXT_TOKENS)} tokens)"
    )
    try:
        reply = asyncio.run(
            model.ask(f"{text}\n\nGive both code numbers that stand in the text above.", ReadingProbeAnswer)
        )
    except ModelError as error:
        return make_warning("context", f"{prompt} got no answer: {error}", _CONTEXT_FIX)
    assert isinstance(reply.output, ReadingProbeAnswer)
    if not all(number in reply.output.text for number in numbers):
        return make_warning(
            "context", f"{prompt} was not read in full: a number that was hidden in it did not come back", _CONTEXT_FIX
        )
    return make_ok("context", f"{prompt} was read in full")
