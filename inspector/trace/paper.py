"""What a paper prints, and on which lines of its sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from inspector.files import LARGEST, bytes_of
from inspector.trace.nouns import Place
from record.folder import RunFolder
from record.typeset import filled, uses

SOURCES = ("paper.tex", "floats.tex", "appendix.tex")
_REC = re.compile(r"\\rec\{((?:[^{}]|\{\})*)\}")


class Sources:
    """The sources of a paper as they are when they are first asked for. `printed` is what each key prints."""

    def __init__(self, folder: RunFolder, printed: Mapping[str, str]) -> None:
        self._folder, self._printed = folder, printed

    @cached_property
    def uses(self) -> dict[str, tuple[Place, ...]]:
        """Key -> where the paper prints it."""
        found: dict[str, list[Place]] = {}
        for file, number, line in self._lines:
            for key in dict.fromkeys(use.key for use in uses(line)):
                found.setdefault(key, []).append(Place(file=file, line=number, text=self._around(line, key)))
        return {key: tuple(places) for key, places in found.items()}

    def told(self, number: str, fits: Callable[[str], bool]) -> Iterator[Place]:
        """Lines whose recorded text (`\\rec`) has the number."""
        for file, line_number, line in self._lines:
            if any(number == _plain(text).strip(".,;:()[]") for text in _REC.findall(line)):
                text = _plain(line)
                if fits(text):
                    yield Place(file=file, line=line_number, text=_cut(text))

    @cached_property
    def _lines(self) -> tuple[tuple[str, int, str], ...]:
        """Every line with its file and its number, from 1."""
        place = self._folder.paper.relative_to(self._folder.root)
        texts = {f"{place}/{name}": bytes_of(self._folder.root, f"{place}/{name}", LARGEST) for name in SOURCES}
        return tuple((file, number, line) for file, text in texts.items() if text is not None
                     for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1))

    def _around(self, line: str, key: str) -> str:
        """What stands around a key, every key as the value that it prints."""
        at = line.find(f"{{{key}}}")
        at = line.rfind("\\", 0, at + 1)
        before, after = (_plain(filled(part, lambda use: self._printed.get(use.key, use.key)))
                         for part in (line[:at], f" {line[at:]}"))
        start = before.rfind(" ", 0, max(0, len(before) - 60)) + 1
        return ("... " if start else "") + _cut(re.sub(r"\\[a-zA-Z]+|[{}$]", "", f"{before[start:]} {after}"))


def _plain(line: str) -> str:
    """A line of the program's own TeX as text, roughly."""
    line = re.sub(r"\\allowbreak\{\}", "", line)
    line = re.sub(r"\\(?:rec|emph|text[a-z]+)\{([^{}]*)\}", r"\1", line)
    return re.sub(r"\\([&%#_$])|\\\\", lambda found: found[1] or "", line).strip()


def _cut(text: str, width: int = 140) -> str:
    return text if len(text) <= width else f"{text[:width].rstrip()}..."
