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
from labwright.models.roles.influence import INFLUENCE, Influence, InfluenceInputs, Passage
from labwright.models.roles.judge import ExhibitKind
from labwright.record.nouns.papers import Removed
from labwright.review.judge.exhibits import GuardedExhibit
from labwright.review.judge.guards import REMOVED, Guarded
from labwright.review.judge.judge import CHARACTERS, Case
from labwright.review.judge.passages import Span, passages
from labwright.review.judge.quotes import squeezed
from labwright.review.judge.reader import Paper
from labwright.review.judge.sections import PaperSection, shares

AT_ONCE, MOST_PASSAGES = 24_000, 400
"""Characters, and passages, of one question."""
BESIDE_A_CUT = 1000
"""Characters that are read beyond what the judge is shown, since removals move the cuts."""
UNREAD = "orders to reviewers were looked for by patterns alone"
NOBODY = "no model read the paper for them"


@dataclass(frozen=True)
class _Text:
    """One text, and which parts of it are read."""

    where: str
    text: str
    source: ExhibitKind | None = None
    read: tuple[Span, ...] = ()

    def passages(self) -> list[Span]:
        prose = self.source in (None, "task")
        return [
            (begin, end)
            for begin, end in passages(self.text, prose=prose)
            if any(begin < last and end > first for first, last in self.read)
        ]


async def screened(case: Case, *readers: ModelClient) -> Case:
    """The case without the passages that a reader names: the first, or the next where one gives no answer."""
    paper, exhibits = case.guarded.paper, case.exhibits
    texts = [
        *_of_paper(paper),
        *(
            _Text(f"--{one.kind} {one.name}", one.text, one.kind, ((0, len(one.text)),))
            for one in (shown.exhibit for shown in exhibits)
        ),
    ]
    spans, why = await _named(texts, _about(paper), readers)
    cleaned = [_without(text, spans.get(at, ())) for at, text in enumerate(texts)]
    in_paper = cleaned[: 2 * len(paper.sections)]
    sections = tuple(
        PaperSection(title, text, section.back)
        for (title, _), (text, _), section in zip(in_paper[::2], in_paper[1::2], paper.sections, strict=True)
    )
    guarded = _guarded(case.guarded, replace(paper, sections=sections), [one for _, found in in_paper for one in found])
    if why:
        guarded = replace(guarded, not_looked_at=(*guarded.not_looked_at, f"{UNREAD}: {why}"))
    shown = tuple(
        GuardedExhibit(one.exhibit.model_copy(update={"text": text}), (*one.removed, *found))
        for one, (text, found) in zip(exhibits, cleaned[len(in_paper) :], strict=True)
    )
    return replace(case, guarded=guarded, exhibits=shown)


def _of_paper(paper: Paper) -> Iterator[_Text]:
    """Title and text of each section, of a long one the parts that the judge is shown."""
    for section, share in zip(paper.sections, shares(paper.sections, CHARACTERS), strict=True):
        where = section.title or "before the first heading"
        length, head = len(section.text), share * 2 // 5
        parts = (
            ((0, length),)
            if share >= length
            else ((0, head + BESIDE_A_CUT), (length - (share - head) - BESIDE_A_CUT, length))
            if share
            else ()
        )
        yield _Text("a heading", section.title, read=((0, len(section.title)),))
        yield _Text(where, section.text, read=parts)


def _about(paper: Paper) -> str:
    return "; ".join(section.title for section in paper.sections if section.title and not section.back)


async def _named(
    texts: Sequence[_Text], about: str, readers: Sequence[ModelClient]
) -> tuple[dict[int, list[Span]], str]:
    """The passages that the reader names, by text; and why some were not read, if any."""
    found: dict[int, list[Span]] = {}
    left, why = list(readers), "" if readers else NOBODY
    for chunk in _chunks(texts):
        inputs = InfluenceInputs(
            about=about,
            passages=tuple(
                Passage(number=number, text=texts[at].text[begin:end], source=texts[at].source)
                for number, (at, (begin, end)) in enumerate(chunk, 1)
            ),
        )
        answer, fault = await _answer(inputs, left)
        why = why or fault
        for number in sorted(set(answer.passages)):
            at, span = chunk[number - 1]
            found.setdefault(at, []).append(span)
    return found, why


async def _answer(inputs: InfluenceInputs, readers: list[ModelClient]) -> tuple[Influence, str]:
    """The answer, or none and why. Who fails is taken off the list; the last one, whose answer was unusable, may do
    better with other passages."""
    why = NOBODY
    while readers:
        try:
            answer = await readers[0].usable(INFLUENCE, inputs, then="the paper is judged without it")
        except ModelError as error:
            why = str(error)
            del readers[0]
            continue
        if answer is not None:
            return answer, NOBODY if answer.unread else ""
        why = "the model that reads for them gave no answer that can be used"
        if len(readers) == 1:
            break
        del readers[0]
    return Influence(), why


def _chunks(texts: Sequence[_Text]) -> Iterator[list[tuple[int, Span]]]:
    """The passages of all texts by question."""
    chunk: list[tuple[int, Span]] = []
    size = 0
    for at, text in enumerate(texts):
        for begin, end in text.passages():
            if chunk and (size + end - begin > AT_ONCE or len(chunk) >= MOST_PASSAGES):
                yield chunk
                chunk, size = [], 0
            chunk.append((at, (begin, end)))
            size += end - begin
    if chunk:
        yield chunk


def _without(text: _Text, spans: Sequence[Span]) -> tuple[str, tuple[Removed, ...]]:
    """The text with a mark in place of each run of these passages, and what was removed."""
    left, found = text.text, list[Removed]()
    for begin, end in reversed(_runs(text.text, spans)):
        passage = left[begin:end]
        found.append(
            Removed(
                kind="instruction",
                where=" ".join(text.where.split())[:200],
                text=passage[:2000],
                characters=len(passage),
                by="reader",
            )
        )
        left = left[:begin] + REMOVED + left[end:]
    return left, tuple(reversed(found))


def _runs(text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans in order, those with nothing but blanks between them as one."""
    runs: list[Span] = []
    for begin, end in sorted(spans):
        if runs and not text[runs[-1][1] : begin].strip():
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((begin, end))
    return runs


def _guarded(before: Guarded, paper: Paper, found: Sequence[Removed]) -> Guarded:
    """What the guards left, without these passages; of a PDF no picture is shown of a page that may hold one."""
    pages = {page for one in found for page in _pages(one.text, before.page_texts)}
    return replace(
        before,
        paper=paper,
        removed=(*before.removed, *found),
        marked_pages=tuple(sorted({*before.marked_pages, *pages})),
    )


def _pages(passage: str, texts: Sequence[str]) -> list[int]:
    """The pages on which a passage begins or ends; all of them where it is found on none."""
    bare = squeezed(passage)
    found = [page for page, text in enumerate(map(squeezed, texts), 1) if bare[:30] in text or bare[-30:] in text]
    return found or list(range(1, len(texts) + 1))
