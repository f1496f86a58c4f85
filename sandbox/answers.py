"""How the host reads a class or a number off an answer of a language model, without a model.

An answer is read only where it says one thing: all of it is the option, or a sentence of it is, or a short sentence
ends in it ("The answer is C.", "Sentiment: positive"). A class that is only mentioned ("not A", "A or B") is not read,
nor one of several numbers. Not guaranteed: that "I doubt it is A" is understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from labwright.sandbox.errors import SubmissionRefused

CUT = "\u2026"
"""Ends an answer that was cut off at its longest: a number before it may go on."""
_NUMBER = re.compile(
    r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+(?!,?\d)(?:\.\d+)?|\d*\.?\d+)(?:[eE][-+]?\d+)?(?![\d" + CUT + r"]|[.,]\d)"
)
_LETTER = re.compile(r"(?<![\w'])[A-Z](?![\w'])")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s|$)|(?=\n)|$)")
_MARKS = "*_`\"'()[]{}<>$# \t"
_LEAD = re.compile(r"(?:[A-Za-z]+,? ){1,4}is(?: an?| the)?:?|(?:[A-Za-z]+ ?){1,3}:")
"""What stands before an option in a sentence that says that it is the answer."""
_RIVAL = re.compile(r".*(?:\bis(?: an?| the)?:?|:)")
"""What stands before one that another sentence may say is the answer, with more words."""
_BOXED = "\\boxed"
_OPTION = re.compile(r"[*_`]*[.):](?:\s|$)")
"""What follows the letter of an option, as in "B) dog"."""
_WORDS = "AI"
"""Letters that are words, too."""
Reader = Callable[[str], float | None]


class _Mention(NamedTuple):
    """Where a sentence has a class or a number."""

    value: float
    text: str
    lead: str
    """The sentence before it."""
    tail: str
    """And after it."""


def reader(read: str, classes: int, names: Sequence[str]) -> Reader:
    """Reads an answer: the number of a class, or a number; None where it says none, or not which.

    Raises `SubmissionRefused`.
    """
    how, _, field = read.partition(":")
    if how == "json" and field:
        inner = reader("label" if classes else "number", classes, names)
        return lambda text: _from_json(text, field, inner)
    if how == "number":
        return lambda text: _numbered(_number(text), classes, names) if classes else _number(text)
    if how == "letter" and classes:
        return lambda text: _letter(text, classes)
    if how == "label" and classes:
        return lambda text: _label(text, classes, names)
    raise SubmissionRefused(f"read={read!r} does not go with {'classes' if classes else 'numbers'}")


def _from_json(text: str, field: str, inner: Reader) -> float | None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a field is given twice")
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        found: Any = json.loads(text[text.index("{") : text.rindex("}") + 1], object_pairs_hook=once)
        if isinstance(found, dict) and isinstance(found.get(field), str | int | float):  # pyright: ignore[reportUnknownMemberType]
            return inner(str(found[field]))  # pyright: ignore[reportUnknownArgumentType]
    return None


def _mentions(text: str, pattern: re.Pattern[str], value: Callable[[str], float | None]) -> list[list[_Mention]]:
    """What each sentence has, questions left out."""
    sentences = (found[0].strip() for found in _SENTENCE.finditer(text.replace(_BOXED, "")))
    return [
        [
            _Mention(known, found[0], one[: found.start()].strip(_MARKS), one[found.end() :])
            for found in pattern.finditer(one)
            if (known := value(found[0])) is not None
        ]
        for one in sentences
        if not one.endswith("?")
    ]


def _only(values: Iterable[float]) -> float | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _said(sentences: Sequence[Sequence[_Mention]], is_said: Callable[[_Mention], bool]) -> float | None:
    """The one value that sentences say is the answer; None where they say none, or where one may say another."""
    every = [(one, any(map(is_said, sentence))) for sentence in sentences for one in sentence]
    if not any(said for _, said in every):
        return None
    return _only(
        one.value
        for one, said in every
        if not _is_word(one)
        and (said or _RIVAL.fullmatch(one.lead) or (one.text.isupper() and _OPTION.match(one.tail)))
    )


def _is_word(one: _Mention) -> bool:
    """Whether a letter is one of "A square" or "I think"."""
    return one.text in _WORDS and re.match(r" [a-z]", one.tail) is not None


def _is_all(one: _Mention) -> bool:
    """Whether a sentence is nothing but the option."""
    return not one.lead and not one.tail.strip(_MARKS + ".!" + CUT)


def _number(text: str) -> float | None:
    """The number that it says is the answer, else the only one that it has."""

    def value(found: str) -> float | None:
        number = float(found.replace(",", ""))
        return number if abs(number) < 1e100 else None

    plain = text.replace("\u2212", "-")
    sentences = _mentions(plain, _NUMBER, value)
    said = _said(sentences, lambda one: _is_all(one) or _LEAD.fullmatch(one.lead) is not None)
    return said if said is not None else _only(one.value for sentence in sentences for one in sentence)


def _numbered(value: float | None, classes: int, names: Sequence[str]) -> float | None:
    """The class of a number: by its name where all names are numbers, else by its place."""
    if value is None:
        return None
    if names and all(_NUMBER.fullmatch(name) for name in names):
        return _only(float(place) for place, name in enumerate(names) if float(name.replace(",", "")) == value)
    return value if value == int(value) and 0 <= value < classes else None


def _letter(text: str, classes: int) -> float | None:
    alone = text.replace(_BOXED, "").strip(_MARKS + ".:" + CUT + "\n").upper()
    if len(alone) == 1:
        return _class_of(alone, classes)
    sentences = _mentions(text, _LETTER, lambda found: _class_of(found, classes))

    def is_said(one: _Mention) -> bool:
        word = _is_word(one) or (one.lead.endswith(":") and re.match(r" [a-z]", one.tail))
        return _is_all(one) or (not word and _LEAD.fullmatch(one.lead) is not None)

    if any(is_said(one) for sentence in sentences for one in sentence):
        return _said(sentences, is_said)
    first = sentences[0][0] if sentences and sentences[0] else None
    if first is None or first.lead or not text.lstrip("*_` \n").startswith(first.text) or not _OPTION.match(first.tail):
        return None
    return _only(one.value for sentence in sentences for one in sentence if one is first or not _is_word(one))


def _class_of(letter: str, classes: int) -> float | None:
    place = ord(letter) - 65
    return float(place) if 0 <= place < classes else None


def _label(text: str, classes: int, names: Sequence[str]) -> float | None:
    """The one class that an answer says; a number where classes have no names, or it is all that the answer says."""
    folded = [name.casefold() for name in names]
    known = {name: float(number) for number, name in enumerate(folded) if folded.count(name) == 1}
    plain = text.strip().strip(".!" + _MARKS + CUT).casefold()
    if (exact := [float(number) for number, name in enumerate(names) if name == text.strip()]) or plain in known:
        return exact[0] if exact else known[plain]
    if not names or _NUMBER.fullmatch(plain):
        return _numbered(_number(plain), classes, names)
    longest = "|".join(re.escape(name) for name in sorted(folded, key=len, reverse=True))
    sentences = _mentions(text.casefold(), re.compile(rf"(?<![\w-])(?:{longest})(?![\w-])"), known.get)
    return _said(
        sentences,
        lambda one: (
            not re.match(rf"\s*[^\s.!,;()*_`\"'{CUT}]", one.tail)
            and (not one.lead or _LEAD.fullmatch(one.lead) is not None)
        ),
    )
