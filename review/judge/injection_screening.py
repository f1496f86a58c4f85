"""What is left of a case once a model has read it for passages that speak to its judge.

The guards by patterns come first; what they took out is gone before. The reader sees what the judge will see, in
numbered passages, some at a time, and names numbers; each passage is taken out of its text at its place, leaves the
guards' mark, and is reported (`removed`, by the reader). It is asked once for a paper, however many judges follow.

Not guaranteed: a model may be talked round as a judge may, though it has nothing to give but numbers. Where it gives no
answer the paper is judged all the same, and the judgement says that nobody read it for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from labwright.models.client import ModelClient
from labwright.models.errors import ModelError
from labwright.models.roles.injection_reader import INFLUENCE, Influence, InfluenceInputs, NumberedPassage
from labwright.models.roles.judge import ExhibitKind
from labwright.record.schema.paper import RemovedPassage
from labwright.review.judge.attachments import GuardedExhibit
from labwright.review.judge.guards import INJECTION_REMOVED_MARK, GuardedPaper
from labwright.review.judge.judge import MAX_PAPER_CHARACTERS, JudgeCase
from labwright.review.judge.paper_reader import Paper
from labwright.review.judge.passages import Span, split_passages
from labwright.review.judge.quotes import squeeze
from labwright.review.judge.sections import PaperSection, allot_characters

MAX_CHARACTERS_PER_CALL, MAX_PASSAGES_PER_CALL = 24_000, 400
"""Characters, and passages, of one question."""
CONTEXT_AT_CUT_CHARACTERS = 1000
"""Characters that are read beyond what the judge is shown, since removals move the cuts."""
PATTERNS_ONLY_NOTE = "orders to reviewers were looked for by patterns alone"
NO_READER_NOTE = "no model read the paper for them"


@dataclass(frozen=True)
class _ScreenedText:
    """One text, and which parts of it are read."""

    where: str
    text: str
    source: ExhibitKind | None = None
    read_spans: tuple[Span, ...] = ()

    def list_passages(self) -> list[Span]:
        prose = self.source in (None, "task")
        return [
            (begin, end)
            for begin, end in split_passages(self.text, prose=prose)
            if any(begin < last and end > first for first, last in self.read_spans)
        ]


async def screen_case(case: JudgeCase, *readers: ModelClient) -> JudgeCase:
    """The case without the passages that a reader names: the first, or the next where one gives no answer."""
    paper, exhibits = case.guarded.paper, case.exhibits
    texts = [
        *_list_texts(paper),
        *(
            _ScreenedText(f"--{one.kind} {one.name}", one.text, one.kind, ((0, len(one.text)),))
            for one in (shown.exhibit for shown in exhibits)
        ),
    ]
    spans, why = await _ask_readers(texts, _describe_paper(paper), readers)
    cleaned = [_remove_spans(text, spans.get(at, ())) for at, text in enumerate(texts)]
    in_paper = cleaned[: 2 * len(paper.sections)]
    sections = tuple(
        PaperSection(title, text, section.is_back_matter)
        for (title, _), (text, _), section in zip(in_paper[::2], in_paper[1::2], paper.sections, strict=True)
    )
    guarded = _remove_from_guarded(
        case.guarded, replace(paper, sections=sections), [one for _, found in in_paper for one in found]
    )
    if why:
        guarded = replace(guarded, unchecked=(*guarded.unchecked, f"{PATTERNS_ONLY_NOTE}: {why}"))
    shown = tuple(
        GuardedExhibit(one.exhibit.model_copy(update={"text": text}), (*one.removed, *found))
        for one, (text, found) in zip(exhibits, cleaned[len(in_paper) :], strict=True)
    )
    return replace(case, guarded=guarded, exhibits=shown)


def _list_texts(paper: Paper) -> Iterator[_ScreenedText]:
    """Title and text of each section, of a long one the parts that the judge is shown."""
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


def _describe_paper(paper: Paper) -> str:
    return "; ".join(section.title for section in paper.sections if section.title and not section.is_back_matter)


async def _ask_readers(
    texts: Sequence[_ScreenedText], about: str, readers: Sequence[ModelClient]
) -> tuple[dict[int, list[Span]], str]:
    """The passages that the reader names, by text; and why some were not read, if any."""
    found: dict[int, list[Span]] = {}
    left, why = list(readers), "" if readers else NO_READER_NOTE
    for chunk in _split_into_calls(texts):
        inputs = InfluenceInputs(
            about=about,
            passages=tuple(
                NumberedPassage(number=number, text=texts[at].text[begin:end], source=texts[at].source)
                for number, (at, (begin, end)) in enumerate(chunk, 1)
            ),
        )
        answer, fault = await _ask_first_available(inputs, left)
        why = why or fault
        for number in sorted(set(answer.passages)):
            at, span = chunk[number - 1]
            found.setdefault(at, []).append(span)
    return found, why


async def _ask_first_available(inputs: InfluenceInputs, readers: list[ModelClient]) -> tuple[Influence, str]:
    """The answer, or none and why. Who fails is taken off the list; the last one, whose answer was unusable, may do
    better with other passages."""
    why = NO_READER_NOTE
    while readers:
        try:
            answer = await readers[0].ask_or_none(INFLUENCE, inputs, instead="the paper is judged without it")
        except ModelError as error:
            why = str(error)
            del readers[0]
            continue
        if answer is not None:
            return answer, NO_READER_NOTE if answer.unread else ""
        why = "the model that reads for them gave no answer that can be used"
        if len(readers) == 1:
            break
        del readers[0]
    return Influence(), why


def _split_into_calls(texts: Sequence[_ScreenedText]) -> Iterator[list[tuple[int, Span]]]:
    """The passages of all texts by question."""
    chunk: list[tuple[int, Span]] = []
    size = 0
    for at, text in enumerate(texts):
        for begin, end in text.list_passages():
            if chunk and (size + end - begin > MAX_CHARACTERS_PER_CALL or len(chunk) >= MAX_PASSAGES_PER_CALL):
                yield chunk
                chunk, size = [], 0
            chunk.append((at, (begin, end)))
            size += end - begin
    if chunk:
        yield chunk


def _remove_spans(text: _ScreenedText, spans: Sequence[Span]) -> tuple[str, tuple[RemovedPassage, ...]]:
    """The text with a mark in place of each run of these passages, and what was removed."""
    left, found = text.text, list[RemovedPassage]()
    for begin, end in reversed(_merge_spans(text.text, spans)):
        passage = left[begin:end]
        found.append(
            RemovedPassage(
                kind="instruction",
                where=" ".join(text.where.split())[:200],
                text=passage[:2000],
                characters=len(passage),
                by="reader",
            )
        )
        left = left[:begin] + INJECTION_REMOVED_MARK + left[end:]
    return left, tuple(reversed(found))


def _merge_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans in order, those with nothing but blanks between them as one."""
    runs: list[Span] = []
    for begin, end in sorted(spans):
        if runs and not text[runs[-1][1] : begin].strip():
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((begin, end))
    return runs


def _remove_from_guarded(before: GuardedPaper, paper: Paper, found: Sequence[RemovedPassage]) -> GuardedPaper:
    """What the guards left, without these passages; of a PDF no picture is shown of a page that may hold one."""
    pages = {page for one in found for page in _find_pages(one.text, before.page_texts)}
    return replace(
        before,
        paper=paper,
        removed=(*before.removed, *found),
        hidden_text_pages=tuple(sorted({*before.hidden_text_pages, *pages})),
    )


def _find_pages(passage: str, texts: Sequence[str]) -> list[int]:
    """The pages on which a passage begins or ends; all of them where it is found on none."""
    bare = squeeze(passage)
    found = [page for page, text in enumerate(map(squeeze, texts), 1) if bare[:30] in text or bare[-30:] in text]
    return found or list(range(1, len(texts) + 1))
