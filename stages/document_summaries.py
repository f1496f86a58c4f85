"""The step that summarises the user's documents: statements with places, as lines for prompts.

A page that is not there, or a quote that is not on it, is refused. Not guaranteed: that a statement says what its page
says; where it has a quote, the quote does stand there.
"""

from __future__ import annotations

from collections.abc import Sequence

from labwright.models.client import ModelClient
from labwright.models.roles.ideation import DIGEST, DigestAnswer, DigestInputs
from labwright.record.events.paper_events import ContextRead
from labwright.record.ideation import DocumentDigest, DocumentStatement
from labwright.review.judge.quotes import quote_is_in
from labwright.stages.run_context import RunContext, run_once
from labwright.stages.user_documents import DocumentCopy, UserDocument, read_copies, read_document

MAX_CONTEXT_CHARS = 12_000
"""Characters of all lines together."""


def format_statements(context: ContextRead | None) -> tuple[str, ...]:
    """One line a statement, `[name.pdf p. 3] ...`, from every document in turn until the bound is reached."""
    if context is None:
        return ()
    lines = [
        f"{one.file} ({one.pages} {'pages' if one.unit == 'p.' else 'parts'}): {one.subject}"
        for one in context.documents
    ]
    longest = max((len(one.statements) for one in context.documents), default=0)
    texts: list[str] = []
    for document, at in ((one, at) for at in range(longest) for one in context.documents if at < len(one.statements)):
        statement = document.statements[at]
        quote = f' ("{statement.quote}")' if statement.quote else ""
        texts.append(" ".join(f"{document.format_place(statement.page)} {statement.text}{quote}".split()))
    room = MAX_CONTEXT_CHARS - sum(map(len, lines))
    kept: list[str] = []
    for line in texts:
        room -= len(line)
        if room < 0:
            kept.append(f"[{len(texts) - len(kept)} more statements are left out]")
            break
        kept.append(line)
    return (*lines, *kept)


MAX_DIGEST_ROUNDS = 2
"""Summaries of a document at most: the second where places of the first are wrong."""


async def digest_documents(client: ModelClient, copies: Sequence[DocumentCopy], refused: Sequence[str]) -> ContextRead:
    """What all documents say, in their order, and why others cannot be read. Raises `ModelError`."""
    documents: list[DocumentDigest] = []
    lines = list(refused)
    for copied in copies:
        document = await read_document(copied)
        answer = None if isinstance(document, str) else await digest_document(client, document)
        if answer is not None:
            documents.append(answer)
        else:
            lines.append(
                document
                if isinstance(document, str)
                else f"{copied.file}: the model gave no summary of it that can be used"
            )
    return ContextRead(documents=tuple(documents), refused=tuple(lines))


async def digest_document(client: ModelClient, document: UserDocument) -> DocumentDigest | None:
    """One document's statements; those whose place is wrong after the last round are left out, and counted.

    None where no answer can be used.
    """
    complaints: tuple[str, ...] = ()
    answer: DigestAnswer | None = None
    for _ in range(MAX_DIGEST_ROUNDS):
        answer = (
            await client.ask_or_none(
                DIGEST,
                DigestInputs(
                    file=document.source_copy.file,
                    unit=document.unit,
                    pages=document.pages,
                    total=document.total,
                    unread=document.unread_chars,
                    complaints=complaints,
                ),
                instead="what was said of the document before stands, if anything was",
            )
            or answer
        )
        if answer is None:
            continue
        complaints = tuple(fault for one in answer.statements if (fault := find_place_fault(one, document)))
        if not complaints:
            break
    if answer is None:
        return None
    sound = tuple(one for one in answer.statements if find_place_fault(one, document) is None)
    copied = document.source_copy
    return DocumentDigest(
        file=copied.file,
        stored=f"{copied.path.parent.name}/{copied.path.name}",
        sha256=copied.sha256,
        pages=document.total,
        unit=document.unit,
        subject=answer.subject,
        statements=sound,
        dropped=len(answer.statements) - len(sound),
        unread=document.unread_chars,
    )


def find_place_fault(statement: DocumentStatement, document: UserDocument) -> str | None:
    """What is wrong with the place of a statement; None where it is sound."""
    text = document.read_page(statement.page)
    if not text:
        return (
            f"{statement.text[:80]!r} is said to be from {document.unit} {statement.page}, which was not shown; "
            f"shown are {', '.join(str(one.page) for one in document.pages[:40])}"
        )
    if statement.quote and not quote_is_in(statement.quote, text):
        return f"the quote {statement.quote[:120]!r} does not stand on {document.unit} {statement.page}: copy its words"
    return None


CONTEXT_TASK = "context"


async def read_context(context: RunContext) -> None:
    """Record what the run's documents say; a run without any has no such step. Raises `ModelError`."""
    copies, refused = read_copies(context.folder.context)
    if not copies and not refused:
        return

    async def work(client: ModelClient) -> None:
        if context.state.context is None:
            context.recorder.append(await digest_documents(client, copies, refused))

    await run_once(context, CONTEXT_TASK, work)
