"""Split the LaTeX of a text into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.review.evidence.latex_scanner import BLANK, ScannedText

_SENTENCE_END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)(?<!\bal)(?<!\bFig)[.!?](?=[\s}'\u2019)]|$)|\n[ \t]*\n", re.IGNORECASE
)
_HEADING = re.compile(r"\\(?:sub)*(?:paragraph|section)\s*\{[^{}]*\}")
_SENTENCE_OPENING = re.compile(r"(?:item\b|(?:sub)*(?:paragraph|section)\b\s*\{?)?[\s}]*")


def find_sentence_spans(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence of the text. A list item starts a sentence."""
    masked = list(scanned.plain)
    for match in re.finditer(r"\\item\b|\\(?:sub)*(?:paragraph|section)\b", scanned.source):
        masked[match.start()] = "." if not match.start() or masked[match.start() - 1] != "." else " "
    headings = {match.end() - 1 for match in _HEADING.finditer(scanned.source)}
    for at in headings:
        masked[at] = "."
    text = "".join(masked).translate({ord(mark): " " for mark in f"{BLANK}~\\{{}}$"})
    start = 0
    for match in [*_SENTENCE_END.finditer(text), None]:
        end = match.end() if match else len(text)
        if text[start:end].strip(" .\n\t"):
            begun = _SENTENCE_OPENING.match(scanned.source, start)
            stop = start + len(scanned.source[start:end].rstrip())
            yield begun.end() if begun else start, stop - (stop - 1 in headings)
        start = end
