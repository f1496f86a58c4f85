"""Role `code_reader`: the code is not read, and the answer says so."""

from __future__ import annotations

from labwright.models.roles.code_audit import CodeReaderInputs, CodeReading


def answer_code_reader(inputs: CodeReaderInputs) -> CodeReading:
    """Return an empty reading, marked as unread."""
    return CodeReading(verdict="doubtful", unread=True)
