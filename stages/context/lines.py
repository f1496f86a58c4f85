"""What documents say as lines for prompts, within a bound."""

from __future__ import annotations

from record.context import Digest
from record.events.ideating import ContextRead

MOST = 12_000
"""Characters of all lines together."""


def lines_of(context: ContextRead | None) -> tuple[str, ...]:
    """One line a statement, `[name.pdf p. 3] ...`, from every document in turn until the bound is reached."""
    if context is None:
        return ()
    lines = [f"{one.file} ({one.pages} {'pages' if one.unit == 'p.' else 'parts'}): {one.subject}"
             for one in context.documents]
    longest = max((len(one.statements) for one in context.documents), default=0)
    said = [_line(one, at) for at in range(longest) for one in context.documents if at < len(one.statements)]
    room = MOST - sum(map(len, lines))
    kept: list[str] = []
    for line in said:
        room -= len(line)
        if room < 0:
            kept.append(f"[{len(said) - len(kept)} more statements are left out]")
            break
        kept.append(line)
    return (*lines, *kept)


def _line(document: Digest, at: int) -> str:
    statement = document.statements[at]
    quote = f' ("{statement.quote}")' if statement.quote else ""
    return " ".join(f"{document.place(statement.page)} {statement.text}{quote}".split())
