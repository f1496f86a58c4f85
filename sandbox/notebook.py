"""What was run and what it printed, as a Jupyter notebook that anybody can open."""

from __future__ import annotations

import re
from typing import Any

from record.nouns.nodes import Failure
from sandbox.output import Transcript

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


def notebook(source: str, transcript: Transcript, failure: Failure | None) -> str:
    """A valid notebook (nbformat 4) of one code cell with its text outputs, and the failure if there was one."""
    import nbformat

    library: Any = nbformat
    make = library.v4
    outputs = [make.new_output("stream", name=piece.stream, text=plain_text(piece.text))
               for piece in transcript.pieces()]
    if failure is not None:
        name, _, value = failure.message.partition(": ")
        outputs.append(make.new_output("error", ename=plain_text(name), evalue=plain_text(value),
                                       traceback=plain_text(failure.traceback).splitlines()))
    cell = make.new_code_cell(plain_text(source), outputs=outputs, execution_count=1, id="script")
    book = make.new_notebook(cells=[cell], metadata={
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})
    library.validate(book)
    return str(library.writes(book, version=4))


def plain_text(text: str) -> str:
    """A text as a notebook holds it: control characters become `?`."""
    return _CONTROL.sub("?", text)
