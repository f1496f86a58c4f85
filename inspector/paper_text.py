"""Convert a paper's TeX to text whose values keep their keys, to locate them on pages and in source lines.

Limits: this is not a faithful rendering; for that, see the PDF.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from labwright.inspector.provenance import SourceLocation
from labwright.inspector.run_files import MAX_FILE_BYTES, read_bytes
from labwright.record.result_macros import MACRO_USE_PATTERN, parse_results, to_plain_text
from labwright.record.run_folder import RunFolder

SOURCE_FILES = ("paper.tex", "floats.tex", "appendix.tex", "supplement.tex")
_RULE = re.compile(
    r"\\(?:toprule|midrule|bottomrule|addlinespace|endhead|endfirsthead|endfoot|endlastfoot|label|"
    r"begin|end|small|scriptsize|footnotesize|centering|noindent|maketitle|cmidrule)\b"
    r"(?:\([^)]*\))?(?:\[[^\]]*\])?(?:\{[^{}]*\})*\*?"
)
_CITE = re.compile(r"\\cite[pt]?\*?(?:\[[^\]]*\])*\{([^{}]*)\}")
_WRAPPED = re.compile(r"\\(?:emph|text[a-z]+|rec|mathbf|url|enquote|ensuremath)\{([^{}]*)\}")
_SPANNED = re.compile(r"\\multicolumn\{\d+\}\{(?:[^{}]|\{[^{}]*\})*\}\{((?:[^{}]|\{[^{}]*\})*)\}")
_SYMBOLS = {"pm": "±", "times": "×", "log": "log", "exp": "exp"} | {
    name: name for name in "alpha beta gamma delta epsilon eta theta lambda mu sigma tau".split()
}
"""Plain-text replacements of commands in running text."""
_RECORDED = re.compile(r"\\rec\{((?:[^{}]|\{\})*)\}")
_MAX_NESTING = 4
"""Maximum nesting of braces that is removed."""


class TextBit(NamedTuple):
    """A piece of text; with a `key`, a printed value."""

    text: str
    key: str = ""


TextBits = tuple[TextBit, ...]


def read_values(results: str) -> dict[str, str]:
    """Parse a `results.tex` into key -> printed text."""
    return {use.key: to_plain_text(text) for use, text in parse_results(results).items()}


def split_text(text: str, values: Mapping[str, str]) -> TextBits:
    """Split TeX into text and printed values, in order."""
    found: list[TextBit] = []
    at = 0
    for _ in range(_MAX_NESTING):  # remove commands around words, since a value may be inside one
        shielded = MACRO_USE_PATTERN.sub(lambda use: f"\x01{use[0][1:-1].replace('{', chr(2))}\x03", text)
        opened = _SPANNED.sub(r"\1", _WRAPPED.sub(r"\1", _CITE.sub(r"[\1]", shielded)))
        text = opened.replace("\x01", "\\").replace("\x02", "{").replace("\x03", "}")
    for use in MACRO_USE_PATTERN.finditer(text):
        found.append(TextBit(_to_plain_text(text[at : use.start()])))
        found.append(TextBit(values.get(use["key"], use["key"]), use["key"]))
        at = use.end()
    found.append(TextBit(_to_plain_text(text[at:])))
    return tuple(bit for bit in found if bit.text)


def _to_plain_text(text: str) -> str:
    text = _RULE.sub(" ", text.replace("~", " ").replace("---", "—").replace("--", "–"))
    text = text.replace("``", "“").replace("''", "”").replace(r"\\", " ").replace("$", "")
    text = re.sub(r"\\([%&#_{}$])", r"\1", text)
    text = re.sub(r"\\ref\{([^{}:]*:)?([^{}]*)\}", r"“\2”", text)
    text = re.sub(r"\\[,;! ]|\\allowbreak\{\}", " ", text)
    text = re.sub(r"\\([a-zA-Z]+)\*?|[{}]", lambda command: _SYMBOLS.get(command[1] or "", ""), text)
    return re.sub(r"\s+", " ", text)


# --- lines of the sources -------------------------------------------------------------------------------------------


class PaperSources:
    """Maps printed values to lines of a paper's sources, read on first access. `printed` maps key -> printed text.

    `files` are read instead of the paper's, relative to the folder of the run.
    """

    def __init__(self, folder: RunFolder, printed: Mapping[str, str], files: Sequence[str] = ()) -> None:
        self._folder, self._printed = folder, printed
        place = folder.paper_folder.relative_to(folder.root)
        self._files = tuple(files) or tuple(f"{place}/{name}" for name in SOURCE_FILES)

    @cached_property
    def uses(self) -> dict[str, tuple[SourceLocation, ...]]:
        """Key -> locations where the paper prints it."""
        found: dict[str, list[SourceLocation]] = {}
        for file, number, line in self._lines:
            bits = (
                split_text(line.replace(r"\allowbreak{}", ""), self._printed) if MACRO_USE_PATTERN.search(line) else ()
            )
            for at, bit in enumerate(bits):
                if bit.key and bit.key not in {one.key for one in bits[:at]}:
                    before, after = ("".join(one.text for one in part) for part in (bits[:at], bits[at:]))
                    start = before.rfind(" ", 0, max(0, len(before) - 60)) + 1
                    around = ("... " if start else "") + _shorten((before[start:] + after).strip())
                    found.setdefault(bit.key, []).append(SourceLocation(file=file, line=number, text=around))
        return {key: tuple(places) for key, places in found.items()}

    def find_recorded(self, number: str, fits: Callable[[str], bool]) -> Iterator[SourceLocation]:
        """Yield lines with the number in recorded text (`\\rec`) that has no key."""
        for file, line_number, line in self._lines:
            if any(number == self._to_text(one).strip(".,;:()[]") for one in _RECORDED.findall(line)):
                text = self._to_text(line)
                if fits(text):
                    yield SourceLocation(file=file, line=line_number, text=_shorten(text))

    def find_lines(self, start: str, fits: Callable[[str], bool]) -> Iterator[SourceLocation]:
        """Yield the lines of plain text that start with a text."""
        for file, line_number, line in self._lines:
            if line.startswith(start) and fits(line):
                yield SourceLocation(file=file, line=line_number, text=_shorten(line))

    def _to_text(self, line: str) -> str:
        return "".join(bit.text for bit in split_text(line.replace(r"\allowbreak{}", ""), self._printed)).strip()

    @cached_property
    def _lines(self) -> tuple[tuple[str, int, str], ...]:
        """All lines with their file and line number, from 1."""
        texts = {name: read_bytes(self._folder.root, name, MAX_FILE_BYTES) for name in self._files}
        return tuple(
            (file, number, line)
            for file, text in texts.items()
            if text is not None
            for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1)
        )


class AnswerSources(PaperSources):
    """Maps the printed values of a question to lines of its report, where each value has its key."""

    @cached_property
    def uses(self) -> dict[str, tuple[SourceLocation, ...]]:
        found: dict[str, list[SourceLocation]] = {}
        for file, number, line in self._lines:
            for key in re.findall(r"`([^`]+)`", line):
                if key in self._printed:
                    found.setdefault(key, []).append(SourceLocation(file=file, line=number, text=_shorten(line)))
        return {key: tuple(places) for key, places in found.items()}


def _shorten(text: str, width: int = 140) -> str:
    return text if len(text) <= width else f"{text[:width].rstrip()}..."
