"""Let a model read code without comments and docstrings, and a second request confirm what it calls dishonest.

Line numbers are unchanged. A doubt counts if the lines that it cites stand in the code. A finding needs two readings
that agree: the second request shows checks and files in reverse order and nothing of the first answer, and doubts the
same lines, or another place for the same kind of reason.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from labwright.models.client import ModelClient
from labwright.models.roles.node_assessment import CODE_READER, CodeReaderInputs
from labwright.record.python_syntax import parse_python
from labwright.record.schema.nodes import CodeDoubt, CodeReadingVerdict, HonestyFinding
from labwright.sandbox.scoring import SubmittedPredictions

MAX_CITED_LINES = 20
"""Maximum lines that one doubt may cite after the first."""


@dataclass(frozen=True)
class ReadCode:
    """Outcome of one or two readings.

    `doubts` are those of the first reading whose quote stands at the cited lines, and `dropped` counts the others.
    `confirmed` are the doubts that make the code dishonest. `second` is None if no second reading was needed.
    """

    verdict: CodeReadingVerdict = "not read"
    doubts: tuple[CodeDoubt, ...] = ()
    dropped: int = 0
    second: CodeReadingVerdict | None = None
    confirmed: tuple[CodeDoubt, ...] = ()


async def read_code(client: ModelClient, inputs: CodeReaderInputs, code: Mapping[str, str]) -> ReadCode:
    """Return what one or two requests say about `code`, which is without comments, by path. Raises `ModelError`."""
    first = await _read_once(client, inputs, code)
    if first.verdict != "dishonest":
        return first
    again = await _read_once(client, inputs.model_copy(update={"again": True}), code)
    agree = again.doubts if again.verdict == "dishonest" else ()
    confirmed = tuple(one for one in first.doubts if any(_is_same_doubt(one, other) for other in agree))
    return ReadCode(first.verdict, first.doubts, first.dropped, again.verdict, confirmed)


async def _read_once(client: ModelClient, inputs: CodeReaderInputs, code: Mapping[str, str]) -> ReadCode:
    answer = await client.ask_or_none(CODE_READER, inputs, instead="the code is not read")
    if answer is None or answer.unread:
        return ReadCode()
    doubts = keep_verified_doubts(answer.doubts, code)
    verdict = "doubtful" if answer.verdict == "dishonest" and not doubts else answer.verdict
    return ReadCode(verdict, doubts, len(answer.doubts) - len(doubts))


def _is_same_doubt(one: CodeDoubt, other: CodeDoubt) -> bool:
    overlap = one.file == other.file and one.first <= other.last and other.first <= one.last
    return overlap or (one.kind == other.kind != "other")


def strip_comments(text: str) -> str:
    """Remove comments and docstrings, keeping line numbers; return the source unchanged if it is not Python."""
    try:
        alone = [
            node
            for node in ast.walk(parse_python(text))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return text
    lines = text.splitlines()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in alone:
        for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            lines[row - 1] = ""
    return "\n".join(lines)


def number_lines(text: str) -> str:
    """Return the nonempty lines, each with its number."""
    return "\n".join(f"{number:4d} {line}" for number, line in enumerate(text.splitlines(), 1) if line.strip())


def keep_verified_doubts(doubts: Iterable[CodeDoubt], code: Mapping[str, str]) -> tuple[CodeDoubt, ...]:
    """Return the doubts whose quote matches the cited lines, ignoring spaces.

    `code` is without comments, by path.
    """
    return tuple(one for one in doubts if _quote_is_at_lines(one, code.get(one.file, "")))


def _quote_is_at_lines(doubt: CodeDoubt, text: str) -> bool:
    lines = text.splitlines()
    if not doubt.first <= doubt.last <= min(len(lines), doubt.first + MAX_CITED_LINES):
        return False
    quoted = "".join(doubt.quote.split())
    return bool(quoted) and quoted in "".join("".join(lines[doubt.first - 1 : doubt.last]).split())


# Facts of a run that need an explanation in its code. Nothing is executed here. They are notes, which the reader of
# the code gets (`review.honesty.code_reading`): honest arms can be equal if the component between them has no effect.


def find_equal_arms(predicted: Iterable[SubmittedPredictions]) -> Iterator[HonestyFinding]:
    """Yield pairs of arms whose predictions are identical wherever both were measured.

    Labels are skipped: on few rows, two arms may predict the same labels.
    """
    places: dict[tuple[str, str], dict[str, SubmittedPredictions]] = defaultdict(dict)
    for one in predicted:
        if one.values.ndim > 1 or (one.values != np.round(one.values)).any():
            arm, _, level = one.condition.partition("@")
            places[one.dataset, level][arm] = one
    pairs: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for arms in places.values():
        for a, b in combinations(sorted(arms), 2):
            pairs[a, b].append(arms[a].kind == arms[b].kind and np.array_equal(arms[a].values, arms[b].values))
    for (a, b), equal in pairs.items():
        if all(equal):
            yield HonestyFinding(
                kind="equal arms",
                suspect=False,
                why=f"the predictions of {a!r} and {b!r} are identical wherever both were measured "
                f"({len(equal)} places)",
            )
