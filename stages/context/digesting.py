"""Documents become statements with places: a page that is not there, or a quote that is not on it, is refused.

Not guaranteed: that a statement says what its page says; where it has a quote, the quote does stand there.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.door import Desk
from models.ideation import DigestAnswer, DigestInputs
from record.context import Digest, Statement
from record.events.ideating import ContextRead
from review.judge.quotes import stands_in
from stages.context.reading import Copied, Document, read

ROUNDS = 2
"""Summaries of a document at most: the second where places of the first are wrong."""


async def digest_all(desk: Desk, copies: Sequence[Copied], refused: Sequence[str]) -> ContextRead:
    """What all documents say, in their order; what cannot be read is told. Raises `ModelError`."""
    documents: list[Digest] = []
    lines = list(refused)
    for copied in copies:
        document = await read(copied)
        if isinstance(document, str):
            lines.append(document)
        else:
            said = await digest(desk, document)
            if said is None:
                lines.append(f"{document.copied.file}: the model gave no summary of it that can be used")
            else:
                documents.append(said)
    return ContextRead(documents=tuple(documents), refused=tuple(lines))


async def digest(desk: Desk, document: Document) -> Digest | None:
    """One document's statements; those whose place is wrong after the last round are left out, and counted.

    None where no answer can be used.
    """
    complaints: tuple[str, ...] = ()
    answer: DigestAnswer | None = None
    for _ in range(ROUNDS):
        answer = await desk.usable("digest", DigestInputs(
            file=document.copied.file, unit=document.unit, pages=document.pages, total=document.total,
            unread=document.unread, complaints=complaints), DigestAnswer,
            then="what was said of the document before stands, if anything was") or answer
        if answer is None:
            continue
        complaints = tuple(fault for one in answer.statements if (fault := fault_of(one, document)))
        if not complaints:
            break
    if answer is None:
        return None
    sound = tuple(one for one in answer.statements if fault_of(one, document) is None)
    copied = document.copied
    return Digest(
        file=copied.file, stored=f"{copied.path.parent.name}/{copied.path.name}", sha256=copied.sha256,
        pages=document.total, unit=document.unit, subject=answer.subject, statements=sound,
        dropped=len(answer.statements) - len(sound), unread=document.unread)


def fault_of(statement: Statement, document: Document) -> str | None:
    """What is wrong with the place of a statement; None where it is sound."""
    text = document.text(statement.page)
    if not text:
        return (f"{statement.text[:80]!r} is said to be from {document.unit} {statement.page}, which was not shown; "
                f"shown are {', '.join(str(one.page) for one in document.pages[:40])}")
    if statement.quote and not stands_in(statement.quote, text):
        return f"the quote {statement.quote[:120]!r} does not stand on {document.unit} {statement.page}: copy its words"
    return None
