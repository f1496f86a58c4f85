"""A paper's TeX as text whose values keep their keys: for finding them on pages, for naming their lines.

What it does not guarantee: a faithful rendering; the PDF is that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from labwright.inspector.files import LARGEST, bytes_of
from labwright.inspector.provenance import Place
from labwright.record.folder import RunFolder
from labwright.record.typeset import USE, as_read, parse

SOURCES = ("paper.tex", "floats.tex", "appendix.tex", "supplement.tex")
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
"""What stays of a command in running text."""
_RECORDED = re.compile(r"\\rec\{((?:[^{}]|\{\})*)\}")
_ROUNDS = 4
"""Braces within braces that are taken off."""


class Bit(NamedTuple):
    """A piece of text; with a `key`, a printed value."""

    text: str
    key: str = ""


Bits = tuple[Bit, ...]


def values_of(results: str) -> dict[str, str]:
    """Key -> what it prints, of a `results.tex`."""
    return {use.key: as_read(text) for use, text in parse(results).items()}


def bits_of(text: str, values: Mapping[str, str]) -> Bits:
    """Text and printed values in their order."""
    found: list[Bit] = []
    at = 0
    for _ in range(_ROUNDS):  # the commands around words go: a value may stand within one
        shielded = USE.sub(lambda use: f"\x01{use[0][1:-1].replace('{', chr(2))}\x03", text)
        opened = _SPANNED.sub(r"\1", _WRAPPED.sub(r"\1", _CITE.sub(r"[\1]", shielded)))
        text = opened.replace("\x01", "\\").replace("\x02", "{").replace("\x03", "}")
    for use in USE.finditer(text):
        found.append(Bit(_plain(text[at : use.start()])))
        found.append(Bit(values.get(use["key"], use["key"]), use["key"]))
        at = use.end()
    found.append(Bit(_plain(text[at:])))
    return tuple(bit for bit in found if bit.text)


def _plain(text: str) -> str:
    text = _RULE.sub(" ", text.replace("~", " ").replace("---", "—").replace("--", "–"))
    text = text.replace("``", "“").replace("''", "”").replace(r"\\", " ").replace("$", "")
    text = re.sub(r"\\([%&#_{}$])", r"\1", text)
    text = re.sub(r"\\ref\{([^{}:]*:)?([^{}]*)\}", r"“\2”", text)
    text = re.sub(r"\\[,;! ]|\\allowbreak\{\}", " ", text)
    text = re.sub(r"\\([a-zA-Z]+)\*?|[{}]", lambda command: _SYMBOLS.get(command[1] or "", ""), text)
    return re.sub(r"\s+", " ", text)


# --- lines of the sources -------------------------------------------------------------------------------------------


class Sources:
    """Which lines of a paper's sources print what, read when first asked for. `printed` is what each key prints."""

    def __init__(self, folder: RunFolder, printed: Mapping[str, str]) -> None:
        self._folder, self._printed = folder, printed

    @cached_property
    def uses(self) -> dict[str, tuple[Place, ...]]:
        """Key -> where the paper prints it."""
        found: dict[str, list[Place]] = {}
        for file, number, line in self._lines:
            bits = bits_of(line.replace(r"\allowbreak{}", ""), self._printed) if USE.search(line) else ()
            for at, bit in enumerate(bits):
                if bit.key and bit.key not in {one.key for one in bits[:at]}:
                    before, after = ("".join(one.text for one in part) for part in (bits[:at], bits[at:]))
                    start = before.rfind(" ", 0, max(0, len(before) - 60)) + 1
                    around = ("... " if start else "") + _cut((before[start:] + after).strip())
                    found.setdefault(bit.key, []).append(Place(file=file, line=number, text=around))
        return {key: tuple(places) for key, places in found.items()}

    def recorded(self, number: str, fits: Callable[[str], bool]) -> Iterator[Place]:
        """Lines whose recorded text (`\\rec`), set by the program without a key, has the number."""
        for file, line_number, line in self._lines:
            if any(number == self._text(one).strip(".,;:()[]") for one in _RECORDED.findall(line)):
                text = self._text(line)
                if fits(text):
                    yield Place(file=file, line=line_number, text=_cut(text))

    def _text(self, line: str) -> str:
        return "".join(bit.text for bit in bits_of(line.replace(r"\allowbreak{}", ""), self._printed)).strip()

    @cached_property
    def _lines(self) -> tuple[tuple[str, int, str], ...]:
        """Every line with its file and its number, from 1."""
        place = self._folder.paper.relative_to(self._folder.root)
        texts = {f"{place}/{name}": bytes_of(self._folder.root, f"{place}/{name}", LARGEST) for name in SOURCES}
        return tuple(
            (file, number, line)
            for file, text in texts.items()
            if text is not None
            for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1)
        )


def _cut(text: str, width: int = 140) -> str:
    return text if len(text) <= width else f"{text[:width].rstrip()}..."
