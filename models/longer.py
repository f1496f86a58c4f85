"""An answer that was cut at its length is asked for again with twice the room, as long as there is more to be had."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from models.backend import Reply, Request
from models.errors import AnswerCut, ModelError, ModelOutputInvalid
from record.nouns.decisions import Usage

Ask = Callable[[Request], Awaitable[Reply]]
Room = Callable[[Request], bool]
"""Sets the most that a longer answer may take aside; False: the budget has no room for it."""


async def whole(request: Request, ask: Ask, room: Room, *, tries: int) -> tuple[Reply, int]:
    """The reply, with all that was paid for it, and the tokens that it had; it is asked for `tries` times at most.

    Raises: what `ask` does; `ModelOutputInvalid`: it was cut at the most that can be had.
    """
    used, retries = Usage(usd=0.0, cached_usd=0.0), 0
    for number in range(1, tries + 1):
        try:
            reply = await ask(request)
        except AnswerCut as cut:
            used, retries = used + cut.usage, retries + cut.retries
            longer = replace(request, max_tokens=2 * cut.tokens, cut_at=cut.tokens)
            if cut.tokens <= request.cut_at:
                raise _given_up(cut, request, "the most that the model gives") from None
            if number == tries:
                raise _given_up(cut, request, f"in the last of {tries} answers") from None
            if not room(longer):
                raise _given_up(cut, request, "and the budget has no room for a longer one") from None
            request = longer
        except ModelError as error:
            error.billed = error.billed or number > 1
            raise
        else:
            return replace(reply, usage=used + reply.usage, retries=retries + reply.retries), request.max_tokens
    raise AssertionError("the loop above returns or raises")


def _given_up(cut: AnswerCut, request: Request, why: str) -> ModelOutputInvalid:
    return ModelOutputInvalid(f"{cut} (role {request.role}), {why}; raise models.roles.{request.role}.max_tokens where "
                              "the model writes more, or choose another")
