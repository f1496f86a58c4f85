"""Role `setup_reader`: the offline model writes its set-up with macros of the record, so nothing is contradicted."""

from __future__ import annotations

from labwright.models.roles.setup_reader import ComparedSentences, SetupReaderInputs
from labwright.record.schema.claims import ComparedSentence


def answer_setup_reader(inputs: SetupReaderInputs) -> ComparedSentences:
    """Find no fact for the numbered sentences."""
    return ComparedSentences(
        sentences=tuple(
            ComparedSentence(number=one.number, verdict="not in the facts", quote=" ".join(one.text.split()[:4]))
            for part in inputs.paragraphs
            for one in part.sentences
            if one.number is not None
        )
    )
