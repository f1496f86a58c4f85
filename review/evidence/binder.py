"""The binder over a draft's source: every number, figure and citation is tied to evidence, or it is a violation.

What it does not guarantee: that every sentence says what its value shows; `review.evidence.words` reads some.

Abstract and conclusion against the body: they print nothing that a reader cannot find there, on the same data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from record.nouns.drafts import Draft
from review.evidence import allowed, numbers, spelled, words
from review.evidence.bold import bold_wrong
from review.evidence.scan import BLANK, CITE, KEY, Scanned, scan
from review.evidence.violations import Evidence, Kind, Violation
from review.evidence.words.sentences import Key, key_of


@dataclass(frozen=True)
class Part:
    """A piece of a draft with the name by which a writer knows it."""

    where: str
    scanned: Scanned

    def violation(self, kind: Kind, at: int, mend: str, *, excerpt: str | None = None) -> Violation:
        return Violation(kind=kind, where=self.where, mend=mend, excerpt=excerpt or self._around(at))

    def _around(self, at: int) -> str:
        line = self.scanned.source.count("\n", 0, at) + 1
        text = " ".join(self.scanned.source[max(0, at - 30):at + 40].split())
        return f"line {line}: ...{text}..." if "\n" in self.scanned.source else f"...{text}..."


def check_draft(draft: Draft, evidence: Evidence) -> tuple[Violation, ...]:
    """Everything in a draft that is not tied to the evidence, in reading order; empty for a draft that may ship."""
    parts, lexicon = list(parts_of(draft)), words.Lexicon(evidence)
    found = [one for part in parts for one in _check(part, evidence, lexicon)]
    scanned = {part.where: part.scanned for part in parts}
    return (*found, *_floats(draft, parts, evidence), *unshown(draft, scanned, evidence))


def parts_of(draft: Draft) -> Iterator[Part]:
    """The scanned pieces of a draft: title, abstract, section titles and bodies, captions."""
    yield Part("title", scan(draft.title, inline=True))
    yield Part("abstract", scan(draft.abstract, inline=True))
    for section in draft.sections:
        yield Part(f"title of section {section.title!r}", scan(section.title, inline=True))
        yield Part(f"section {section.title!r}", scan(section.body))
    for name, caption in sorted(draft.captions.items()):
        yield Part(f"caption of {name}", scan(caption, inline=True))


def used_keys(texts: Iterable[str], commands: frozenset[str] = allowed.VALUES) -> dict[str, None]:
    """The keys that texts give to commands, in order of appearance."""
    pattern = re.compile(r"\\(?:" + "|".join(sorted(commands)) + r")\s*(?:\[[^\[\]]*\]\s*)*\{([^{}]*)\}")
    return dict.fromkeys(
        key.strip() for text in texts for match in pattern.finditer(text)
        for key in (match[1].split(",") if commands & allowed.CITES else [match[1]]))


# --- one part -------------------------------------------------------------------------------------------------------


def _check(part: Part, evidence: Evidence, lexicon: words.Lexicon) -> Iterator[Violation]:
    for problem in part.scanned.problems:
        yield part.violation(problem.kind, problem.at, problem.mend)
    yield from _keys(part, evidence)
    yield from _typed(part, evidence)
    yield from _worded(part, evidence, lexicon)


def _keys(part: Part, evidence: Evidence) -> Iterator[Violation]:
    for use in part.scanned.uses:
        known, kind = _known(use.command, evidence)
        if use.command == "rec":
            yield part.violation("command", use.at, r"\rec prints what the program generated: use \result or \setup")
        elif use.key not in known:
            yield part.violation(kind, use.at, _mend(use.command, use.key, known),
                                 excerpt=f"\\{use.command}{{{use.key}}}")
        if use.command in allowed.FLOATS and use.depth:
            yield part.violation(kind, use.at, f"place \\{use.command} in a paragraph of its own, outside of groups")


def _known(command: str, evidence: Evidence) -> tuple[frozenset[str], Kind]:
    if command == "result":
        return frozenset(evidence.results), "key"
    if command == "setup":
        return frozenset(evidence.setups), "key"
    if command in allowed.CITES:
        return evidence.cites, "citation"
    if command == "paperfigure":
        return evidence.figures, "figure"
    if command == "papertable":
        return evidence.tables, "table"
    labels = {f"fig:{name}" for name in evidence.figures} | {f"tab:{name}" for name in evidence.tables}
    return frozenset(labels), "reference"


def _mend(command: str, key: str, known: frozenset[str]) -> str:
    import difflib

    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    hint = f"the nearest are {', '.join(near)}" if near else f"there are {len(known)}" if known else "there are none"
    return f"no such key for \\{command}; {hint}"


def _typed(part: Part, evidence: Evidence) -> Iterator[Violation]:
    scanned = part.scanned
    plain = numbers.mask(scanned.plain, numbers.phrases(evidence.literals, evidence.names))
    lone = {one for one in evidence.literals if one.isdigit()}
    if {"0", "1"} <= lone:
        plain = numbers.UNIT_INTERVAL.sub(lambda found: found[0] if not any(scanned.math[found.start():found.end()])
                                          else BLANK * len(found[0]), plain)
    for at, text in numbers.digits(plain):
        if text in lone and scanned.math[at] and _constant(scanned, plain, at):
            continue
        yield part.violation("number", at, rf"the number {text!r} is typed: print it with \result{{key}} or "
                                           r"\setup{key}, or say it without a number")


def _constant(scanned: Scanned, plain: str, at: int) -> bool:
    if KEY in plain[max(0, at - 2):at + 3]:
        return False
    if numbers.INDICATOR.search(scanned.source[:at]) and scanned.source[at + 1:at + 2] == "}":
        return True
    return numbers.constant_of_formula(plain, at, script=bool(scanned.script[at]))


def _worded(part: Part, evidence: Evidence, lexicon: words.Lexicon) -> Iterator[Violation]:
    named = [numbers.phrase(name) for name in evidence.names if name.strip()]
    plain = numbers.mask(part.scanned.plain, named)
    plain = plain.replace(BLANK, " ").replace(KEY, " ").replace(CITE, " ")
    ratios = [one for one in spelled.ratios(plain) if not words.ratio_at(part.scanned, one, evidence, lexicon)]
    for found in (*spelled.numbers_in_words(plain, spelled.counted(evidence)), *ratios):
        yield part.violation("word", found.at, rf"{found.words!r} is a number in words: print it with "
                                               r"\result{key} or \setup{key}, or leave it out")
    yield from bold_wrong(part.scanned.source, evidence, part.where)
    for one in words.refused(part.scanned, evidence, lexicon):
        yield part.violation("claim", one.at, f"{one.words!r}: {one.why}")


# --- floats ---------------------------------------------------------------------------------------------------------


def _floats(draft: Draft, parts: list[Part], evidence: Evidence) -> Iterator[Violation]:
    placed = Counter((use.command, use.key) for part in parts for use in part.scanned.uses
                     if use.command in allowed.FLOATS)
    for (command, key), times in placed.items():
        if times > 1:
            yield Violation(kind="figure" if command == "paperfigure" else "table", where="sections",
                            excerpt=f"\\{command}{{{key}}}", mend=f"placed {times} times: place it once")
    for name in sorted(evidence.figures):
        if ("paperfigure", name) not in placed and name not in evidence.appendix:
            yield Violation(kind="figure", where="sections", excerpt=name,
                            mend=f"this figure is never placed: add \\paperfigure{{{name}}} to a section")
        if not draft.captions.get(name, "").strip():
            yield Violation(kind="figure", where=f"caption of {name}", excerpt=name,
                            mend="this figure has no caption: add one")
    for name in sorted(set(draft.captions) - evidence.figures):
        yield Violation(kind="figure", where=f"caption of {name}", excerpt=name, mend="there is no such figure")


def unshown(draft: Draft, parts: Mapping[str, Scanned], evidence: Evidence) -> Iterator[Violation]:
    """Values of the abstract and the conclusion that no placed table and no other section prints."""
    ending = _ending(draft)
    ends = {"abstract", f"section {ending!r}"}
    body = [key for where, scanned in parts.items() if where not in ends for key in _printed(scanned)]
    placed = {use.key for scanned in parts.values() for use in scanned.uses if use.command == "papertable"}
    tables = frozenset[str]().union(*(evidence.tabled.get(name, frozenset()) for name in placed))
    if any(name not in evidence.tabled for name in placed):
        return
    shown = tables | {key.family for key in body}
    for where in ("abstract", f"section {ending!r}"):
        for key in _printed(parts[where]) if where in parts else ():
            if why := _why(key, shown, tables, evidence):
                yield Violation(kind="claim", where=where, excerpt=f"\\result{{{key.key}}}", mend=why)


def _ending(draft: Draft) -> str:
    """The title of the last section, if it concludes; of a section that also discusses results nothing is asked."""
    last = draft.sections[-1].title if draft.sections else ""
    return last if "conclu" in last.lower() or "summary" in last.lower() else ""


def _printed(scanned: Scanned) -> list[Key]:
    return [key for use in scanned.uses if (key := key_of(use))]


def _why(key: Key, shown: frozenset[str], tables: frozenset[str], evidence: Evidence) -> str:
    """Why a summary may not print a value; empty where it may."""
    splits = {one.split("/")[0] for one in tables} - {"diff"}
    if not key.other and splits and key.split not in splits:
        return f"the tables are on {', '.join(sorted(splits))} data, this value is on {key.split} data: take theirs"
    if key.other and key.family not in shown:
        sides = {f"/{key.dataset}/{key.metric}/{one}" for one in (key.condition, key.other)}
        if all(any(one.endswith(side) for one in shown) for side in sides):
            return ""
    if key.family in shown or key.key not in evidence.results:
        return ""
    return "no table that is placed and no other section shows this value: show it there, or leave it out here"
