"""A paper as sections of paragraphs, read from text with one sentence per line; each sentence depends on the inputs.

In a sentence `<r:KEY>` prints a result, `<s:KEY>` a setting, `<fig:NAME>` and `<tab:NAME>` refer to a float,
`<figure:NAME>` and `<table:NAME>` place it, and `<citep:a,b>`, `<citet:a>` cite those keys that exist. A sentence is
left out if anything that it names is not in the inputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from labwright.models.roles.paper_writing import EstimateLine, WriteInputs

_MACRO_BY_MARK = {
    "r": r"\result{%s}",
    "s": r"\setup{%s}",
    "fig": r"Figure~\ref{fig:%s}",
    "tab": r"Table~\ref{tab:%s}",
    "figure": r"\paperfigure{%s}",
    "table": r"\papertable{%s}",
    "citep": r"\citep{%s}",
    "citet": r"\citet{%s}",
}
_MARK = re.compile(rf"<({'|'.join(_MACRO_BY_MARK)}):([^<>]+)>")
_RANK = re.compile(r"\[(\d)\](?:\n|$)")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph and its rank for shortening: 0 is never dropped, the highest rank is dropped first."""

    text: str
    spare_rank: int = 0


@dataclass(frozen=True)
class OutlineSection:
    """A section before it is flattened into text."""

    title: str
    paragraphs: tuple[Paragraph, ...]

    @property
    def body(self) -> str:
        return "\n\n".join(paragraph.text for paragraph in self.paragraphs)


@dataclass(frozen=True)
class Outline:
    """A paper before it is flattened into a draft."""

    title: str
    abstract: str
    sections: tuple[OutlineSection, ...]


def read_outline(title: str, text: str, inputs: WriteInputs) -> Outline:
    """Read an outline from a text whose sections begin with `# TITLE`, the abstract first."""
    known = _list_known_keys(inputs)
    abstract, *parts = (_read_section(section, known) for section in re.split(r"^# ", text, flags=re.MULTILINE)[1:])
    return Outline(title, abstract.body, tuple(one for one in parts if one.paragraphs))


def _list_known_keys(inputs: WriteInputs) -> dict[str, frozenset[str]]:
    """Return the names that each kind of mark may use."""
    references, tables = frozenset(one.key for one in inputs.references), frozenset(inputs.tables)
    return {
        "r": frozenset(inputs.result_keys),
        "s": frozenset(line.key for line in inputs.setups),
        "fig": frozenset(one.name for one in inputs.figures),
        "tab": tables,
        "table": tables,
        "figure": frozenset(one.name for one in inputs.figures if one.placement == "main"),
        "citep": references,
        "citet": references,
    }


def _read_section(section: str, known: Mapping[str, Collection[str]]) -> OutlineSection:
    title, _, rest = section.partition("\n")
    paragraphs: list[Paragraph] = []
    for block in re.split(r"\n{2,}", rest.strip()):
        rank = _RANK.match(block)
        lines = block[rank.end() :] if rank else block
        said = " ".join(one for line in lines.splitlines() if (one := _render_sentence(line.strip(), known)))
        if re.sub(r"\\paragraph\{[^}]*\}", "", said):
            paragraphs.append(Paragraph(said, int(rank[1]) if rank else 0))
    return OutlineSection(title.strip(), tuple(paragraphs))


def _render_sentence(sentence: str, known: Mapping[str, Collection[str]]) -> str:
    """Return the sentence in LaTeX, or an empty string if anything that it names is missing."""
    kept = {
        mark[0]: ",".join(key for key in mark[2].split(",") if key in known[mark[1]])
        for mark in _MARK.finditer(sentence)
    }
    if not all(kept.values()):
        return ""
    return _MARK.sub(lambda mark: _MACRO_BY_MARK[mark[1]] % kept[mark[0]], sentence)


def write_estimate(line: EstimateLine) -> str:
    """Return an estimate with its interval, in marks: `0.1 (95% interval [0.0, 0.2])`."""
    confidence = f"<r:{line.key}.confidence>" if "confidence" in line.forms else "95"
    return f"<r:{line.key}.mean>" + (f" ({confidence}\\% interval <r:{line.key}.ci>)" if "ci" in line.forms else "")
