"""Sentences that stand only on what the inputs hold: a sentence whose key, figure or reference is missing is left out.

In a sentence, `<r:KEY>` prints a result, `<s:KEY>` a setting, `<fig:NAME>` and `<tab:NAME>` refer to a float, and
`<citep:a,b>`, `<citet:a>` cite those of the keys that are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from models.roles.writing import Comparison, WriteInputs

_MARK = re.compile(r"<(r|s|fig|tab|citep|citet):([^<>]+)>")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph and how easily it is spared: 0 never, then the highest rank first."""

    text: str
    rank: int = 0


@dataclass(frozen=True)
class Part:
    """A section as a list of paragraphs."""

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
    parts: tuple[Part, ...]

    @property
    def ranks(self) -> list[int]:
        """The ranks of what may be spared, that which is spared first in front."""
        return sorted({one.rank for part in self.parts for one in part.paragraphs if one.rank}, reverse=True)

    def without(self, rank: int) -> Outline:
        """The outline without the paragraphs of this rank and above."""
        kept = (part(one.title, *(p for p in one.paragraphs if p.rank < rank)) for one in self.parts)
        return Outline(self.title, self.abstract, tuple(one for one in kept if one.paragraphs))


class Missing(Exception):
    """A sentence leans on something that the inputs do not hold. Never leaves this module."""


@dataclass(frozen=True)
class Claims:
    """What a writer may lean on, by name."""

    inputs: WriteInputs

    @cached_property
    def _known(self) -> dict[str, frozenset[str]]:
        references = frozenset(one.key for one in self.inputs.references)
        return {
            "r": frozenset(line.key for line in self.inputs.results), "citep": references, "citet": references,
            "s": frozenset(line.key for line in self.inputs.setups), "tab": frozenset(self.inputs.tables),
            "fig": frozenset(figure.name for figure in self.inputs.figures),
        }

    @cached_property
    def _comparisons(self) -> dict[tuple[str, str, frozenset[str]], Comparison]:
        return {(c.dataset, c.metric, frozenset((c.better, c.worse))): c for c in self.inputs.comparisons}

    def has(self, kind: str, key: str) -> bool:
        """Whether there is such a result (`r`), setting (`s`), figure (`fig`), table (`tab`) or reference."""
        return key in self._known[kind]

    def in_text(self, figure: str) -> bool:
        """Whether there is such a figure, and it stands in the main text."""
        return any(one.name == figure and one.placement == "main" for one in self.inputs.figures)

    def comparison(self, dataset: str, metric: str, one: str, other: str) -> Comparison | None:
        """The comparison of two conditions, whichever is better."""
        return self._comparisons.get((dataset, metric, frozenset((one, other))))

    def largest(self, keys: Iterable[str]) -> str:
        """The key that prints the largest number, of those that are there; else nothing."""
        printed = {line.key: line.printed for line in self.inputs.results}
        values = {key: float(found[0]) for key in keys if (found := re.search(r"\d+(?:\.\d+)?", printed.get(key, "")))}
        return max(values, key=lambda key: values[key], default="")

    def say(self, sentence: str) -> str:
        """The sentence in LaTeX, or an empty string if anything that it leans on is missing."""
        try:
            return _MARK.sub(self._marked, sentence)
        except Missing:
            return ""

    def _marked(self, match: re.Match[str]) -> str:
        kind, key = match[1], match[2]
        if kind in ("citep", "citet"):
            keys = [one for one in key.split(",") if self.has(kind, one)]
            if not keys:
                raise Missing(key)
            return f"\\{kind}{{{','.join(keys)}}}"
        if not self.has(kind, key):
            raise Missing(key)
        command = {"r": "result", "s": "setup"}.get(kind)
        return f"\\{command}{{{key}}}" if command else f"{'Figure' if kind == 'fig' else 'Table'}~\\ref{{{kind}:{key}}}"

    def paragraph(self, *sentences: str, rank: int = 0) -> Paragraph:
        """The sentences that can be said, as one paragraph; its text is empty if none can."""
        said = (self.say(sentence) for sentence in sentences if sentence)
        return Paragraph(" ".join(sentence for sentence in said if sentence), rank)


def part(title: str, *paragraphs: Paragraph) -> Part:
    """A section of the paragraphs that hold anything."""
    return Part(title, tuple(paragraph for paragraph in paragraphs if paragraph.text))


def listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def places(inputs: WriteInputs, text: str) -> list[Paragraph]:
    """Every figure and table that a text does not place yet, each with a sentence that refers to it."""
    floats = [("table", "Table~\\ref{tab:", name) for name in inputs.tables]
    floats += [("figure", "Figure~\\ref{fig:", figure.name) for figure in inputs.figures
               if figure.placement == "main"]
    return [Paragraph(f"{reference}{name}}} completes the picture.\n\n\\paper{kind}{{{name}}}")
            for kind, reference, name in floats if f"\\paper{kind}{{{name}}}" not in text]
