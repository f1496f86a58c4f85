"""Remove the passages of a case that a model identifies as prompt injection.

The guards remove hidden text first. The reader model sees the judge's input as numbered passages, in several calls if
long, and names passages with a quote, which is looked up. They are replaced by a mark and reported in `removed`. A
paper is screened once for all judges.

Limits: the reader can be manipulated like a judge, though it can only name passages, and it may name content of the
study. If it gives no answer, the paper is judged anyway and the judgement says that it was not screened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from labwright.models.client import ModelClient
from labwright.models.errors import ModelError
from labwright.models.prompt_filters import format_mark
from labwright.models.roles.judge import INFLUENCE, ExhibitKind, Influence, InfluenceInputs, NumberedPassage
from labwright.record.schema.paper import RemovedPassage
from labwright.review.judge.attachments import GuardedExhibit
from labwright.review.judge.guards import MARK_PATTERN
from labwright.review.judge.judge import MAX_PAPER_CHARACTERS, JudgeCase
from labwright.review.judge.paper_reader import Paper, PaperSection, allot_characters, squeeze

# Split text into passages that can be removed singly: sentences of prose or a few lines of code.

MAX_PASSAGE_CHARACTERS, MIN_PASSAGE_CHARACTERS = 500, 40
"""Limits for a passage: a longer one is split between lines, shorter ones of a paragraph are joined."""

_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"'\u201d\u2019)*]*\s+|(?<=[\u3002\uff01\uff1f])|\n\s*\n\s*"
    r"|\n(?=\s*(?:[-*+>|\u2022#]|\d{1,2}[.)]|\\item\b))|\Z"
)
_LINE_END = re.compile(r"\n+|\Z")
_NUMBERS_ONLY = re.compile(r"[\d\s.,%¦+\u2212-]*")
"""Tick labels of a figure and rows of numbers, which address nobody."""

Span = tuple[int, int]


def split_passages(text: str, *, prose: bool = True) -> list[Span]:
    """Return the start and end of each passage, except blank ones and the guards' marks."""
    found: list[Span] = []
    at = 0
    for part in MARK_PATTERN.split(text):
        if part and not MARK_PATTERN.fullmatch(part):
            found += [(at + begin, at + end) for begin, end in _join_short(part, prose=prose)]
        at += len(part)
    return found


def _join_short(text: str, *, prose: bool) -> Iterator[Span]:
    """Join short passages with the following ones, up to a blank line."""
    begin, end, start = 0, 0, 0
    room = MIN_PASSAGE_CHARACTERS if prose else MAX_PASSAGE_CHARACTERS // 2
    for match in (_SENTENCE_END if prose else _LINE_END).finditer(text):
        for first, last in _split_long(text, start, match.start()):
            is_full = last - begin > MAX_PASSAGE_CHARACTERS or end - begin >= room
            if end > begin and (is_full or re.search(r"\n\s*\n", text[end:first])):
                yield begin, end
                begin = end
            begin, end = (begin if end > begin else first), last
        start = match.end()
    if end > begin:
        yield begin, end


def _split_long(text: str, begin: int, end: int) -> Iterator[Span]:
    """Yield a passage, split at line ends or spaces if it is too long."""
    while end - begin > MAX_PASSAGE_CHARACTERS:
        cut = max(text.rfind(sign, begin + 1, begin + MAX_PASSAGE_CHARACTERS) for sign in "\n ")
        cut = cut if cut > begin else begin + MAX_PASSAGE_CHARACTERS
        if text[begin:cut].strip():
            yield begin, cut
        begin = cut
    if text[begin:end].strip():
        yield begin, end


MAX_CHARACTERS_PER_CALL, MAX_PASSAGES_PER_CALL = 24_000, 400
"""Characters and passages per call."""
CONTEXT_AT_CUT_CHARACTERS = 1000
"""Characters that are read beyond the judge's excerpt, since removals move the places of cuts."""
INJECTION_REMOVED_MARK = format_mark("an instruction to the reviewer was removed")
NOT_SCREENED_NOTE = "the paper was not screened for prompt injection"
NO_READER_NOTE = "no model screened the paper"

_Passage = tuple[int, Span]
"""Index of a text, and a span of it."""


@dataclass(frozen=True)
class _ScreenedText:
    """A document and the spans of it to screen."""

    where: str
    text: str
    source: ExhibitKind | None = None
    read_spans: tuple[Span, ...] = ()

    def list_passages(self) -> list[Span]:
        prose = self.source not in ("code", "log", "results")
        return [
            (begin, end)
            for begin, end in split_passages(self.text, prose=prose)
            if any(begin < last and end > first for first, last in self.read_spans)
            and not _NUMBERS_ONLY.fullmatch(self.text, begin, end)
        ]


async def screen_case(case: JudgeCase, *readers: ModelClient) -> JudgeCase:
    """Return the case without the passages that a reader names; if a reader gives no answer, the next one is asked."""
    paper, exhibits = case.guarded.paper, case.exhibits
    texts = [
        *_list_texts(paper),
        *(
            _ScreenedText(f"--{one.kind} {one.name}", one.text, one.kind, ((0, len(one.text)),))
            for one in (shown.exhibit for shown in exhibits)
        ),
    ]
    about = "; ".join(section.title for section in paper.sections if section.title and not section.is_back_matter)
    spans, notes = await _read_passages(texts, about, readers)
    cleaned = [_remove_spans(text, spans.get(at, ())) for at, text in enumerate(texts)]
    in_paper = cleaned[: 2 * len(paper.sections)]
    sections = tuple(
        PaperSection(title, text, section.is_back_matter)
        for (title, _), (text, _), section in zip(in_paper[::2], in_paper[1::2], paper.sections, strict=True)
    )
    found = [one for _, some in in_paper for one in some]
    pages = {page for one in found for page in _find_pages(one.text, case.guarded.page_texts)}
    guarded = replace(
        case.guarded,
        paper=replace(paper, sections=sections),
        removed=(*case.guarded.removed, *found),
        withheld_pages=tuple(sorted({*case.guarded.withheld_pages, *pages})),
        unchecked=(*case.guarded.unchecked, *notes),
    )
    shown = tuple(
        GuardedExhibit(one.exhibit.model_copy(update={"text": text}), (*one.removed, *found))
        for one, (text, found) in zip(exhibits, cleaned[len(in_paper) :], strict=True)
    )
    return replace(case, guarded=guarded, exhibits=shown)


def _list_texts(paper: Paper) -> Iterator[_ScreenedText]:
    """Yield the title and text of each section; for a long section, only the parts that the judge sees."""
    for section, share in zip(paper.sections, allot_characters(paper.sections, MAX_PAPER_CHARACTERS), strict=True):
        where = section.title or "before the first heading"
        length, head = len(section.text), share * 2 // 5
        parts = (
            ((0, length),)
            if share >= length
            else ((0, head + CONTEXT_AT_CUT_CHARACTERS), (length - (share - head) - CONTEXT_AT_CUT_CHARACTERS, length))
            if share
            else ()
        )
        yield _ScreenedText("a heading", section.title, read_spans=((0, len(section.title)),))
        yield _ScreenedText(where, section.text, read_spans=parts)


async def _read_passages(
    texts: Sequence[_ScreenedText], about: str, readers: Sequence[ModelClient]
) -> tuple[dict[int, list[Span]], list[str]]:
    """Return the passages that a reader names, by text, and a note if some were not read."""
    passages = [(at, span) for at, text in enumerate(texts) for span in text.list_passages()]
    found: dict[int, list[Span]] = {}
    left, why = list(readers), "" if readers else NO_READER_NOTE
    for chunk in _split_into_calls(passages):
        inputs = InfluenceInputs(
            about=about,
            passages=tuple(
                NumberedPassage(number=number, text=texts[at].text[begin:end], source=texts[at].source)
                for number, (at, (begin, end)) in enumerate(chunk, 1)
            ),
        )
        answer, fault = await _ask_first_available(inputs, left)
        why = why or fault
        for at, span in {chunk[one.number - 1]: None for one in answer.passages}:
            found.setdefault(at, []).append(span)
    return found, [f"{NOT_SCREENED_NOTE}: {why}"] if why else []


async def _ask_first_available(inputs: InfluenceInputs, readers: list[ModelClient]) -> tuple[Influence, str]:
    """Return the answer, or no answer and the reason.

    A reader that fails is removed from the list. The last reader stays if its answer was unusable, since it may succeed
    on other passages.
    """
    why = NO_READER_NOTE
    while readers:
        try:
            answer = await readers[0].ask_or_none(INFLUENCE, inputs, instead="the paper is judged without screening")
        except ModelError as error:
            why = str(error)
        else:
            if answer is not None:
                return answer, NO_READER_NOTE if answer.unread else ""
            why = "the screening model gave no usable answer"
            if len(readers) == 1:
                break
        del readers[0]
    return Influence(), why


def _split_into_calls(passages: Iterable[_Passage]) -> Iterator[list[_Passage]]:
    """Yield the passages grouped by call."""
    chunk: list[_Passage] = []
    size = 0
    for at, (begin, end) in passages:
        if chunk and (size + end - begin > MAX_CHARACTERS_PER_CALL or len(chunk) >= MAX_PASSAGES_PER_CALL):
            yield chunk
            chunk, size = [], 0
        chunk.append((at, (begin, end)))
        size += end - begin
    if chunk:
        yield chunk


def _remove_spans(text: _ScreenedText, spans: Sequence[Span]) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return the text with a mark in place of each run of passages, and the removed passages."""
    runs = list[Span]()
    for begin, end in sorted(spans):
        if runs and not text.text[runs[-1][1] : begin].strip():
            begin, _ = runs.pop()
        runs.append((begin, end))
    left, found, where = text.text, list[RemovedPassage](), " ".join(text.where.split())[:200]
    for begin, end in reversed(runs):
        passage = left[begin:end]
        size = len(passage)
        found.append(RemovedPassage(kind="instruction", where=where, text=passage[:2000], characters=size, by="reader"))
        left = left[:begin] + INJECTION_REMOVED_MARK + left[end:]
    return left, tuple(reversed(found))


def _find_pages(passage: str, texts: Sequence[str]) -> list[int]:
    """Return the pages on which a passage begins or ends; all pages if it is not found."""
    bare = squeeze(passage)
    found = [page for page, text in enumerate(map(squeeze, texts), 1) if bare[:30] in text or bare[-30:] in text]
    return found or list(range(1, len(texts) + 1))
