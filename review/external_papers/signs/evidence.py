"""Evidence for a paper's claims from code, logs and results, and the number of seeds that it supports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from labwright.review.external_papers.provenance import PaperProvenance


@dataclass(frozen=True)
class ClaimEvidence:
    """Evidence for claims. `bodies` are the contents of code, logs and results; `data` those without code."""

    found: PaperProvenance
    results: str

    @cached_property
    def code(self) -> str:
        return "\n".join(one.text for one in self.found.scripts)

    @cached_property
    def logs(self) -> str:
        return "\n".join(line.text for log in self.found.logs for line in log.lines)

    @cached_property
    def all(self) -> str:
        return plain(f"{self.code}\n{self.logs}\n{self.results}\n" + "\n".join(one.path for one in self.found.scripts))

    @cached_property
    def everything(self) -> str:
        return f"{self.code}\n{self.logs}\n{self.results}"

    @cached_property
    def numbers(self) -> frozenset[float]:
        """Return all numbers in code, logs and results."""
        found = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])", self.everything)
        return frozenset(map(float, found))

    def said_count(self, unit: str) -> int:
        """Return the count that code or results state, as in `n_seeds = 3` or `"seeds": 3`; 0 if there is none."""
        found = re.findall(
            rf"(?:\b|_){unit}s[\"']?\s*(?::\s*int\s*)?[=: ]\s*(\d{{1,5}})(?!\d|\.\d|,\s*\d|\s+\d)",
            self.everything,
            re.I,
        )
        return max(map(int, found), default=0)

    def shown(self, unit: str) -> int:
        """Return how many distinct repetitions logs and results number, as in `seed=3` or `fold|2`."""
        shown = f"{self.logs}\n{self.results}"
        columns = re.findall(rf"(?m)^\S+ \S*\b{unit}(?:\|\S*)? ((?:[\d.]+ ?)+)$", shown, re.I)
        return max(
            [
                len(set(re.findall(rf"\b{unit}s?\W{{0,4}}(\d+)", shown, re.I))),
                *(len(set(one.split())) for one in columns),
            ]
        )

    def names_count(self, count: int) -> bool:
        """Return whether code, log or results have this number next to a word for repetitions."""
        word = r"(?:seed|run|trial|rep|repeat|replicate|repetition|fold|split|restart|draw)s?"
        after = rf"{word}\w*[\"']?\s*[\s:=,(]\s*(?:type\s*=\s*int,\s*)?(?:default\s*=\s*)?(?:range\()?{count}(?![\d.])"
        before = rf"(?<![\d.]){count}\s+(?:\w+\s+)?{word}\b"
        everything = f"{self.code}\n{self.logs}\n{self.results}"
        return re.search(rf"(?:\b|_){after}(?!\s*,\s*\d)|{before}", everything, re.I) is not None

    @cached_property
    def seeds(self) -> int:
        """Return the largest supported number of seeds or repetitions; 0 if unknown."""
        shown, everything = f"{self.logs}\n{self.results}", f"{self.code}\n{self.logs}\n{self.results}"
        numbered = [len(set(re.findall(rf"\b{word}s?\W{{0,4}}(\d+)", shown, re.I))) for word in _REPEATS]
        lists = [
            match.count(",") + (not match.rstrip().endswith(","))
            for match in re.findall(
                r"(?:seeds?|runs?|repeats?|trials?)\w*[\"']?\s*(?::[^=\n]{0,30})?(?:[=:]|\bin\b)\s*[\[(]([\d,\s]+)[\])]",
                everything,
                re.I,
            )
        ]
        counts = [
            int(match)
            for match in re.findall(
                r"(?:seeds|runs|trials|repeats|reps|replicates|folds|splits)\w*[\"']?\s*[=:]\s*(\d{1,3})\b(?![.,\d])",
                everything,
                re.I,
            )
        ]
        options = [
            len(match.split()) for match in re.findall(r"(?:--seeds?|for\s+\w+\s+in)\s+((?:\d+\s+)+\d+)", everything)
        ]
        ranges = [
            int(b or a) - (int(a) if b else 0)
            for a, b in re.findall(
                r"\w*(?:seed|run|trial|rep|fold|repeat)\w*\s+(?:in|=)\s+(?:list\()?range\(\s*(\d+)\s*(?:,\s*(\d+))?",
                self.code,
                re.I,
            )
        ]
        return max([*numbered, *lists, *(count for count in counts if count <= 200), *options, *ranges, 0])


_REPEATS = ("seed", "run", "trial", "fold", "repeat", "rep", "replicate", "repetition", "split")


def plain(text: str) -> str:
    """Reduce a string to lower-case letters and digits, so that CIFAR-10 equals cifar10."""
    return re.sub(r"[^a-z0-9\n]", "", text.lower())
