"""The step that summarises the user's documents as statements with page references, formatted as lines for prompts.

Statements with a missing page, or with a quote that is not on the page, are rejected. Limits: a statement may misread
its page; only its quote, if any, is verified.
"""

from __future__ import annotations

from collections.abc import Sequence

from labwright.models.client import ModelClient
from labwright.models.roles.ideation import DIGEST, DigestAnswer, DigestInputs
from labwright.record.events.paper_events import ContextRead
from labwright.record.ideation import DocumentDigest, DocumentStatement
from labwright.record.schema.decisions import CONTEXT_TASK
from labwright.review.judge.paper_reader import quote_is_in
from labwright.stages.run_context import RunContext, ask_until_sound, run_once
from labwright.stages.settings import MAX_DIGEST_ROUNDS
from labwright.stages.user_documents import DocumentCopy, UserDocument, read_copies, read_document

MAX_CONTEXT_CHARS = 12_000
"""Maximum number of characters of all lines together."""


def format_statements(context: ContextRead | None) -> tuple[str, ...]:
    """Return one line per statement, `[name.pdf p. 3] ...`, taking documents in turn until the limit is reached."""
    if context is None:
        return ()
    lines = [
        f"{one.file} ({one.pages} {'pages' if one.unit == 'p.' else 'parts'}): {one.subject}"
        for one in context.documents
    ]
    places = ((document, at) for document in context.documents for at in range(len(document.statements)))
    texts: list[str] = []
    for document, at in sorted(places, key=lambda place: place[1]):  # the documents in turn
        statement = document.statements[at]
        quote = f' ("{statement.quote}")' if statement.quote else ""
        texts.append(" ".join(f"{document.format_place(statement.page)} {statement.text}{quote}".split()))
    room = MAX_CONTEXT_CHARS - sum(map(len, lines))
    kept: list[str] = []
    for line in texts:
        room -= len(line)
        if room < 0:
            kept.append(f"[{len(texts) - len(kept)} more statements omitted]")
            break
        kept.append(line)
    return (*lines, *kept)


async def digest_documents(client: ModelClient, copies: Sequence[DocumentCopy], refused: Sequence[str]) -> ContextRead:
    """Summarise all documents in order, and list those that cannot be read. Raises `ModelError`."""
    documents: list[DocumentDigest] = []
    lines = list(refused)
    for copied in copies:
        document = await read_document(copied)
        if isinstance(document, str):
            lines.append(document)
        elif (answer := await digest_document(client, document)) is not None:
            documents.append(answer)
        else:
            lines.append(f"{copied.file}: the model gave no usable summary")
    return ContextRead(documents=tuple(documents), refused=tuple(lines))


async def digest_document(client: ModelClient, document: UserDocument) -> DocumentDigest | None:
    """Summarise one document; None if no answer is usable.

    Statements whose page reference is still wrong after the last round are dropped and counted.
    """
    inputs = DigestInputs(
        file=document.source_copy.file,
        unit=document.unit,
        pages=document.pages,
        total=document.total,
        unread=document.unread_chars,
    )

    def find_faults(answer: DigestAnswer) -> list[str]:
        return [fault for one in answer.statements if (fault := find_place_fault(one, document))]

    answer, _ = await ask_until_sound(client, DIGEST, inputs, find_faults, MAX_DIGEST_ROUNDS)
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
    """Return the error in the page reference of a statement; None if there is none."""
    text = document.read_page(statement.page)
    if not text:
        return (
            f"{statement.text[:80]!r} cites {document.unit} {statement.page}, which was not shown; "
            f"shown: {', '.join(str(one.page) for one in document.pages[:40])}"
        )
    if statement.quote and not quote_is_in(statement.quote, text):
        return f"the quote {statement.quote[:120]!r} is not on {document.unit} {statement.page}: copy the exact words"
    return None


async def read_context(context: RunContext) -> None:
    """Record statements from the run's documents; without documents, do nothing. Raises `ModelError`."""
    copies, refused = read_copies(context.folder.context)
    if not copies and not refused:
        return

    async def work(client: ModelClient) -> None:
        if context.state.paper.context is None:
            context.recorder.append(await digest_documents(client, copies, refused))

    await run_once(context, CONTEXT_TASK, work)
