"""What a script printed: held in bounded memory, shown in a file while it runs, and kept as a notebook."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from labwright.record.schema.nodes import Failure

MAX_KEPT_CHARS = 200_000
"""Characters of output that are kept, half from the beginning and half from the end: what a person reads of a log."""
MAX_TAIL_CHARS = 4000
"""Characters of output that the record and prompts carry, from the end."""


OutputChunk = tuple[str, str]
"""A stream, and a run of its text."""


@dataclass
class Transcript:
    """The first and the last `limit / 2` characters of all output; what lies between is only counted."""

    limit: int
    dropped: int = 0
    """Characters left out."""
    _head: list[OutputChunk] = field(default_factory=list[OutputChunk])
    _tail: deque[OutputChunk] = field(default_factory=deque[OutputChunk])
    _head_chars: int = 0
    _tail_chars: int = 0

    @property
    def char_count(self) -> int:
        """Characters of all output so far, those left out included."""
        return self._head_chars + self._tail_chars + self.dropped

    def add(self, stream: str, text: str) -> None:
        """Take in some output."""
        room = self.limit // 2 - self._head_chars
        if room > 0:
            self._head.append((stream, text[:room]))
            self._head_chars += len(text[:room])
            text = text[room:]
        if text:
            self._tail.append((stream, text))
            self._tail_chars += len(text)
        while (excess := self._tail_chars - self.limit // 2) > 0:
            stream, text = self._tail.popleft()
            gone = min(excess, len(text))
            if gone < len(text):
                self._tail.appendleft((stream, text[gone:]))
            self._tail_chars -= gone
            self.dropped += gone

    def to_state(self) -> dict[str, Any]:
        """All that it holds, as JSON can carry it."""
        return {"head": self._head, "tail": list(self._tail), "dropped": self.dropped}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], limit: int) -> Transcript:
        """The transcript of a `state`."""
        made = cls(
            limit,
            state["dropped"],
            [(one[0], one[1]) for one in state["head"]],
            deque((one[0], one[1]) for one in state["tail"]),
        )
        made._head_chars = sum(len(text) for _, text in made._head)
        made._tail_chars = sum(len(text) for _, text in made._tail)
        return made

    def to_chunks(self) -> list[OutputChunk]:
        """The kept output in order, neighbours of one stream joined, with a line for what was left out."""
        gap = [("stderr", f"\n... [{self.dropped} characters of output left out] ...\n")] if self.dropped else []
        runs = groupby([*self._head, *gap, *self._tail], key=itemgetter(0))
        return [(stream, "".join(text for _, text in run)) for stream, run in runs]

    def to_text(self) -> str:
        """The kept output of both streams in order."""
        return "".join(text for _, text in self.to_chunks())

    def read_tail(self, chars: int) -> str:
        """The last whole lines, in so many characters, as a terminal shows them: of a progress bar, its last state.

        Of a last line that is longer, its end.
        """
        shown = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in self.to_text().split("\n"))
        if len(shown) <= chars:
            return shown
        begins = shown.find("\n", -chars - 1) + 1
        return shown[begins:] if 0 < begins < len(shown) else shown[-chars:]


class LiveOutput:
    """The beginning of a script's output in a file, as it comes; gone when it is closed.

    The file lies where the script cannot write. What cannot be written is not shown: no experiment fails by it.
    """

    def __init__(self, path: Path | None, limit: int) -> None:
        """`limit` is in characters."""
        self._path, self._room = path, limit
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)
                path.touch(exist_ok=False)

    def add(self, text: str) -> None:
        """Show some output at once."""
        if self._path is not None and self._room > 0:
            with suppress(OSError), open(self._path, "a", encoding="utf-8", errors="replace", newline="") as file:
                file.write(text[: self._room])
            self._room -= len(text)

    def close(self) -> None:
        """Take the file away: by now the output is, or will be, sealed with the attempt."""
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)


_CONTROL_PATTERN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


def build_notebook(source: str, transcript: Transcript, failure: Failure | None) -> str:
    """A valid notebook (nbformat 4) of one code cell with its text outputs, and the failure if there was one."""
    make = _import_nbformat().v4
    outputs = [
        make.new_output("stream", name=stream, text=strip_control_chars(text))
        for stream, text in transcript.to_chunks()
    ]
    if failure is not None:
        name, _, value = failure.message.partition(": ")
        outputs.append(
            make.new_output(
                "error",
                ename=strip_control_chars(name),
                evalue=strip_control_chars(value),
                traceback=strip_control_chars(failure.traceback).splitlines(),
            )
        )
    return _format_notebook(
        [make.new_code_cell(strip_control_chars(source), outputs=outputs, execution_count=1, id="script")]
    )


def build_cell_notebook(source: str, cell_outputs: Sequence[tuple[str, str]]) -> str:
    """A valid notebook of a program and, for each of its cells, what became of it (a line) and what it printed."""
    make = _import_nbformat().v4
    book = [make.new_code_cell(strip_control_chars(source), id="script")]
    for number, (words, output) in enumerate(cell_outputs, start=1):
        outputs = [make.new_output("stream", name="stdout", text=strip_control_chars(output))] if output else []
        book.append(
            make.new_code_cell(
                "# " + strip_control_chars(words).replace("\n", "\n# "),
                outputs=outputs,
                execution_count=number,
                id=f"cell-{number}",
            )
        )
    return _format_notebook(book)


def _import_nbformat() -> Any:
    import nbformat  # takes long to import

    return nbformat


def _format_notebook(cells: Sequence[Any]) -> str:
    library = _import_nbformat()
    book = library.v4.new_notebook(
        cells=list(cells),
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    library.validate(book)
    return str(library.writes(book, version=4))


def strip_control_chars(text: str) -> str:
    """A text as a notebook holds it: control characters become `?`."""
    return _CONTROL_PATTERN.sub("?", text)
