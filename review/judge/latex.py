"""A paper's LaTeX as text by section: files included from its folder, comments out, our own value macros filled in.

Commands are left as they are; a language model reads them. Nothing is executed, and nothing outside the folder is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from record import typeset
from review.judge.sections import Part

MOST_FILES, MOST_CHARACTERS = 100, 10_000_000
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
_HIDDEN = re.compile(r"\\begin\{comment\}.*?\\end\{comment\}|\\iffalse\b.*?\\fi\b", re.DOTALL)
_INCLUDE = re.compile(r"\\(?:input|include|subfile)\s*\{([^{}]+)\}")
_FLOAT = re.compile(r"\\begin\{(table|figure)(\*?)\}.*?\\end\{\1\2\}", re.DOTALL)
_HEADING = re.compile(
    r"\\(section|chapter)\*?\s*(?:\[[^\[\]]*\])?\s*\{|\\(appendix)\b|\\begin\{(thebibliography|abstract)\}")


@dataclass
class Source:
    """What was read. `missing` names included files that are not there, or lie outside the folder; `unseen` is what
    TeX skips (comments, branches never taken), `preamble` what stands before the document begins."""

    parts: tuple[Part, ...] = ()
    missing: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    preamble: str = ""


@dataclass
class _Reader:
    folder: Path
    missing: list[str] = field(default_factory=list[str])
    unseen: list[str] = field(default_factory=list[str])
    files: int = 0
    characters: int = 0

    def whole(self, text: str, depth: int = 0) -> str:
        """The text with its includes in place, without what is never printed."""
        text = _HIDDEN.sub(self._skipped, _COMMENT.sub(self._comment, text))
        self.characters += len(text)
        return _INCLUDE.sub(lambda match: self._file(match[1].strip(), depth), text)

    def _comment(self, match: re.Match[str]) -> str:
        self.unseen.append(match[0][len(match[1]) + 1:])
        return match[1]

    def _skipped(self, match: re.Match[str]) -> str:
        self.unseen.append(match[0])
        return ""

    def _file(self, name: str, depth: int) -> str:
        if depth > 8 or self.files >= MOST_FILES or self.characters > MOST_CHARACTERS:
            self.missing.append(name)
            return ""
        self.files += 1
        for candidate in (name, f"{name}.tex"):
            try:
                path = (self.folder / candidate).resolve()
                if path.is_relative_to(self.folder.resolve()) and path.is_file():
                    with open(path, encoding="utf-8", errors="replace") as file:
                        return self.whole(file.read(MOST_CHARACTERS), depth + 1)
            except (OSError, ValueError):
                continue  # a name that no file can have
        self.missing.append(name)
        return ""


def read(text: str, folder: Path) -> Source:
    """The sections of a LaTeX document that lies in `folder`."""
    reader = _Reader(folder)
    whole = reader.whole(text)
    defined = typeset.parse(whole)
    whole = typeset.filled(typeset.without_lines(whole), lambda use: defined.get(use, str(use)))
    head, begun, body = whole.partition(r"\begin{document}")
    head, body = (head, body.partition(r"\end{document}")[0]) if begun else ("", whole)
    parts = [*_title(head or body), *_sections(body)]
    floats = "\n\n".join(match[0] for match in _FLOAT.finditer(head))
    if floats:
        parts.append(Part("Tables and figures", floats))
    return Source(tuple(parts), tuple(dict.fromkeys(reader.missing)), ("\n".join(reader.unseen),), head)


def _title(text: str) -> Iterator[Part]:
    match = re.search(r"\\title\s*(?:\[[^\[\]]*\])?\s*\{", text)
    if match:
        yield Part("Title", _braced(text, match.end()))


def _sections(body: str) -> Iterator[Part]:
    title, begin, back = "", 0, False
    for match in _HEADING.finditer(body):
        yield from _part(title, body[begin:match.start()], back)
        section, appendix, environment = match[1], match[2], match[3]
        back = back or bool(appendix) or environment == "thebibliography"
        title = _braced(body, match.end()) if section else (appendix or environment or "").capitalize()
        begin = match.end() + (len(title) + 1 if section else 0)
    yield from _part(title, body[begin:], back)


def _part(title: str, text: str, back: bool) -> Iterator[Part]:
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    if text:
        yield Part(title, text, back or bool(re.match(r"appendix|references|acknowledg", title, re.IGNORECASE)))


def _braced(text: str, begin: int) -> str:
    """The text up to the brace that closes the one before `begin`."""
    depth = 1
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return text[begin:match.start()]
    return text[begin:begin + 200]
