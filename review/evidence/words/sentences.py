"""A scanned text as sentences, with the bound values and names that stand in each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from review.evidence.scan import BLANK, CITE, KEY, Scanned, Use
from review.evidence.words.lexicon import Lexicon, Mention

VALUE, CITED = "\u00a4", "\u2020"
"""What stands in a sentence for a bound value and for a citation."""

FORMS = (".mean", ".pm", ".sd", ".n", ".low", ".high", ".ci", ".ci_examples", ".p", ".p_adjusted", ".mde")
"""The ends of keys that say in which form a claim is printed (`record.claims.printing`)."""

_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)(?<!\bal)[.!?](?=[\s}'\u2019)]|$)|\n[ \t]*\n")


@dataclass(frozen=True)
class Key:
    """A `\\result{key}` in a text. For a difference, `other` is the condition that is taken away."""

    at: int
    key: str
    split: str
    dataset: str
    metric: str
    condition: str
    other: str = ""
    form: str = ""

    @property
    def family(self) -> str:
        """The key of the claim, without the form in which it is printed."""
        return self.key.removesuffix(self.form)


@dataclass(frozen=True)
class Sentence:
    """Text in lower case with its length kept; places count from the beginning of the part. `start` is its own."""

    text: str
    start: int
    paragraph: int
    keys: tuple[Key, ...]
    mentions: tuple[Mention, ...]

    @property
    def asks(self) -> bool:
        return self.text.rstrip().endswith("?")

    def within(self, at: int, end: int) -> Sentence:
        """A stretch of the sentence, with what stands in it."""
        return replace(
            self, text=self.text[at - self.start:end - self.start], start=at,
            keys=tuple(one for one in self.keys if at <= one.at < end),
            mentions=tuple(one for one in self.mentions if at <= one.at < end))


def sentences(scanned: Scanned, lexicon: Lexicon) -> Iterator[Sentence]:
    """The sentences of a text; an item of a list begins one."""
    text, uses = _readable(scanned), [use for use in scanned.uses if use.command in ("result", "setup")]
    start, paragraph = 0, 0
    for match in [*_END.finditer(text), None]:
        end = match.end() if match else len(text)
        if text[start:end].strip():
            yield _sentence(text[start:end], start, paragraph, [one for one in uses if start <= one.at < end], lexicon)
        paragraph += bool(match) and "\n" in (match[0] if match else "")
        start = end


def key_of(use: Use) -> Key | None:
    """A use of `\\result` in its parts; None where the key has another shape."""
    form = next((one for one in FORMS if use.key.endswith(one)), "")
    parts = use.key.removesuffix(form).split("/")
    if use.command != "result" or len(parts) != 4:
        return None
    condition, _, other = parts[3].partition("~")
    return Key(use.at, use.key, parts[0], parts[1], parts[2], condition, other, form)


def _readable(scanned: Scanned) -> str:
    text = list(scanned.plain)
    for match in re.finditer(r"\\item\b|\\(?:sub)*paragraph\b", scanned.source):
        text[match.start()] = "."
    joined = "".join(text)
    joined = re.sub(f"{KEY}+", lambda match: VALUE + " " * (len(match[0]) - 1), joined)
    joined = re.sub(f"{CITE}+", lambda match: CITED + " " * (len(match[0]) - 1), joined)
    joined = joined.translate({ord(mark): " " for mark in f"{BLANK}~\\{{}}$"})
    lowered = joined.lower()
    return lowered if len(lowered) == len(joined) else joined


def _sentence(text: str, start: int, paragraph: int, uses: list[Use], lexicon: Lexicon) -> Sentence:
    keys = tuple(key for use in uses if (key := key_of(use)))
    levels = [Mention("level", (use.key.removeprefix("level."),), use.at, use.at + 1, exact=True) for use in uses
              if use.command == "setup" and use.key.startswith("level.")]
    found = [replace(one, at=one.at + start, end=one.end + start) for one in lexicon.mentions(text)]
    return Sentence(text, start, paragraph, keys, tuple(sorted([*found, *levels], key=lambda one: one.at)))
