"""Role `code_reader`: nothing is read, and the answer says so."""

from __future__ import annotations

from labwright.models.roles.code_audit import CodeReaderInputs, CodeReading


def answer_code_reader(inputs: CodeReaderInputs) -> CodeReading:
    """Not read: this model reads no code."""
    return CodeReading(verdict="doubtful", unread=True)
