"""Parse a class or a number from a language model's answer, with fixed rules and no model.

An answer is accepted only if it is unambiguous: the whole answer or one of its sentences is the option, or a short
sentence ends with it ("The answer is C.", "Sentiment: positive"). A class that is only mentioned ("not A", "A or B") is
ignored, and so are several different numbers. Limits: hedged statements such as "I doubt it is A" may be misread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from labwright.sandbox.errors import SubmissionRefused

TRUNCATION_MARK = "\u2026"
"""Appended to an answer that was cut off at the length limit: a number directly before it may be incomplete."""
_NUMBER_PATTERN = re.compile(
    r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+(?!,?\d)(?:\.\d+)?|\d*\.?\d+)(?:[eE][-+]?\d+)?(?![\d"
    + TRUNCATION_MARK
    + r"]|[.,]\d)"
)
_LETTER_PATTERN = re.compile(r"(?<![\w'])[A-Z](?![\w'])")
_SENTENCE_PATTERN = re.compile(r"[^\n]+?(?:[.!?](?=\s|$)|(?=\n)|$)")
_MARKUP_CHARS = "*_`\"'()[]{}<>$# \t"
_ANSWER_LEAD_PATTERN = re.compile(r"(?:[A-Za-z]+,? ){1,4}is(?: an?| the)?:?|(?:[A-Za-z]+ ?){1,3}:")
"""Text before an option in a sentence that states the answer."""
_RIVAL_LEAD_PATTERN = re.compile(r".*(?:\bis(?: an?| the)?:?|:)")
"""Text before an option in a sentence that may state a competing answer (longer lead-ins allowed)."""
_BOXED_COMMAND = "\\boxed"
_OPTION_END_PATTERN = re.compile(r"[*_`]*[.):](?:\s|$)")
"""Text after the letter of an option, as in "B) dog"."""
_WORD_LETTERS = "AI"
"""Letters that are also English words."""
AnswerParser = Callable[[str], float | None]


class AnswerMention(NamedTuple):
    """An occurrence of a class or number in a sentence."""

    value: float
    text: str
    lead: str
    """The part of the sentence before the mention."""
    tail: str
    """The part of the sentence after the mention."""


def build_answer_parser(read: str, classes: int, names: Sequence[str]) -> AnswerParser:
    """Return a parser that maps an answer to a class index or a number, or to None if the answer is missing or
    ambiguous.

    Raises `SubmissionRefused` if `read` does not fit the task.
    """
    how, _, field = read.partition(":")
    if how == "json" and field:
        inner = build_answer_parser("label" if classes else "number", classes, names)
        return lambda text: _parse_json_field(text, field, inner)
    if how == "number":
        return lambda text: _number_to_class(_parse_number(text), classes, names) if classes else _parse_number(text)
    if how == "letter" and classes:
        return lambda text: _parse_letter(text, classes)
    if how == "label" and classes:
        return lambda text: _parse_label(text, classes, names)
    raise SubmissionRefused(f"read={read!r} cannot be used with {'classes' if classes else 'numbers'}")


def _parse_json_field(text: str, field: str, inner: AnswerParser) -> float | None:
    def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a field occurs twice")
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        fields: Any = json.loads(text[text.index("{") : text.rindex("}") + 1], object_pairs_hook=reject_duplicates)
        if isinstance(fields, dict) and isinstance(fields.get(field), str | int | float):  # pyright: ignore[reportUnknownMemberType]
            return inner(str(fields[field]))  # pyright: ignore[reportUnknownArgumentType]
    return None


def _find_mentions(
    text: str, pattern: re.Pattern[str], value: Callable[[str], float | None]
) -> list[list[AnswerMention]]:
    """Return the mentions in each sentence; questions are skipped."""
    sentences = (match[0].strip() for match in _SENTENCE_PATTERN.finditer(text.replace(_BOXED_COMMAND, "")))
    return [
        [
            AnswerMention(known, match[0], sentence[: match.start()].strip(_MARKUP_CHARS), sentence[match.end() :])
            for match in pattern.finditer(sentence)
            if (known := value(match[0])) is not None
        ]
        for sentence in sentences
        if not sentence.endswith("?")
    ]


def _single_value(values: Iterable[float]) -> float | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _find_stated_value(
    sentences: Sequence[Sequence[AnswerMention]], is_said: Callable[[AnswerMention], bool]
) -> float | None:
    """Return the value that the sentences state as the answer; None if there is none, or if another value may be
    stated as well.
    """
    every = [(one, any(map(is_said, sentence))) for sentence in sentences for one in sentence]
    if not any(said for _, said in every):
        return None
    return _single_value(
        one.value
        for one, said in every
        if not _is_word(one)
        and (
            said
            or _RIVAL_LEAD_PATTERN.fullmatch(one.lead)
            or (one.text.isupper() and _OPTION_END_PATTERN.match(one.tail))
        )
    )


def _is_word(one: AnswerMention) -> bool:
    """Whether the letter is a word, as in "A square" or "I think"."""
    return one.text in _WORD_LETTERS and re.match(r" [a-z]", one.tail) is not None


def _is_whole_sentence(one: AnswerMention) -> bool:
    """Whether the sentence consists only of the option."""
    return not one.lead and not one.tail.strip(_MARKUP_CHARS + ".!" + TRUNCATION_MARK)


def _parse_number(text: str) -> float | None:
    """Return the number stated as the answer, otherwise the only number in the text."""

    def value(found: str) -> float | None:
        number = float(found.replace(",", ""))
        return number if abs(number) < 1e100 else None

    plain = text.replace("\u2212", "-")
    sentences = _find_mentions(plain, _NUMBER_PATTERN, value)
    stated = _find_stated_value(
        sentences, lambda one: _is_whole_sentence(one) or _ANSWER_LEAD_PATTERN.fullmatch(one.lead) is not None
    )
    return stated if stated is not None else _single_value(one.value for sentence in sentences for one in sentence)


def _number_to_class(value: float | None, classes: int, names: Sequence[str]) -> float | None:
    """Map a number to a class, by name if all class names are numbers, otherwise by index."""
    if value is None:
        return None
    if names and all(_NUMBER_PATTERN.fullmatch(name) for name in names):
        return _single_value(float(index) for index, name in enumerate(names) if float(name.replace(",", "")) == value)
    return value if value == int(value) and 0 <= value < classes else None


def _parse_letter(text: str, classes: int) -> float | None:
    alone = text.replace(_BOXED_COMMAND, "").strip(_MARKUP_CHARS + ".:" + TRUNCATION_MARK + "\n").upper()
    if len(alone) == 1:
        return _letter_to_class(alone, classes)
    sentences = _find_mentions(text, _LETTER_PATTERN, lambda found: _letter_to_class(found, classes))

    def is_said(one: AnswerMention) -> bool:
        word = _is_word(one) or (one.lead.endswith(":") and re.match(r" [a-z]", one.tail))
        return _is_whole_sentence(one) or (not word and _ANSWER_LEAD_PATTERN.fullmatch(one.lead) is not None)

    if any(is_said(one) for sentence in sentences for one in sentence):
        return _find_stated_value(sentences, is_said)
    first = sentences[0][0] if sentences and sentences[0] else None
    if (
        first is None
        or first.lead
        or not text.lstrip("*_` \n").startswith(first.text)
        or not _OPTION_END_PATTERN.match(first.tail)
    ):
        return None
    return _single_value(one.value for sentence in sentences for one in sentence if one is first or not _is_word(one))


def _letter_to_class(letter: str, classes: int) -> float | None:
    index = ord(letter) - 65
    return float(index) if 0 <= index < classes else None


def _parse_label(text: str, classes: int, names: Sequence[str]) -> float | None:
    """Return the class that an answer states. Numbers are accepted if classes have no names or the answer is only a
    number.
    """
    folded = [name.casefold() for name in names]
    known = {name: float(number) for number, name in enumerate(folded) if folded.count(name) == 1}
    plain = text.strip().strip(".!" + _MARKUP_CHARS + TRUNCATION_MARK).casefold()
    if (exact := [float(number) for number, name in enumerate(names) if name == text.strip()]) or plain in known:
        return exact[0] if exact else known[plain]
    if not names or _NUMBER_PATTERN.fullmatch(plain):
        return _number_to_class(_parse_number(plain), classes, names)
    longest = "|".join(re.escape(name) for name in sorted(folded, key=len, reverse=True))
    sentences = _find_mentions(text.casefold(), re.compile(rf"(?<![\w-])(?:{longest})(?![\w-])"), known.get)
    return _find_stated_value(
        sentences,
        lambda one: (
            not re.match(rf"\s*[^\s.!,;()*_`\"'{TRUNCATION_MARK}]", one.tail)
            and (not one.lead or _ANSWER_LEAD_PATTERN.fullmatch(one.lead) is not None)
        ),
    )
