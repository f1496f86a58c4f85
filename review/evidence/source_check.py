"""Check the source of a draft: every number, figure and citation must be bound to evidence.

Limits: whether a sentence agrees with the values that it prints is checked elsewhere.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from labwright.record.estimands import classify_scale
from labwright.record.result_macros import ClaimKey, ResultMacroUse, to_plain_text
from labwright.record.schema.paper import PaperDraft
from labwright.review.evidence import latex_scanner, number_words, numbers
from labwright.review.evidence.latex_scanner import BLANK, CITE, KEY, ScannedText, scan
from labwright.review.evidence.violations import Evidence, Kind, Violation


@dataclass(frozen=True)
class DraftPart:
    """A part of a draft, with its name in violations."""

    where: str
    scanned: ScannedText

    def make_violation(self, kind: Kind, at: int, fix: str, *, excerpt: str | None = None) -> Violation:
        if excerpt is None:
            source = self.scanned.source
            line = f"line {source.count(chr(10), 0, at) + 1}: " if "\n" in source else ""
            excerpt = f"{line}...{' '.join(source[max(0, at - 30) : at + 40].split())}..."
        return Violation(kind=kind, where=self.where, fix=fix, excerpt=excerpt)

    @property
    def printed_claims(self) -> list[ClaimKey]:
        """Return the claims that it prints, in order."""
        keys = (ClaimKey.parse_key(use.key) for use in self.scanned.uses if use.command == "result")
        return [key for key in keys if key is not None]


def check_draft(draft: PaperDraft, evidence: Evidence) -> tuple[Violation, ...]:
    """Return the violations in a draft, in reading order; a draft without any may be released."""
    pieces = [
        DraftPart("title", scan(draft.title, inline=True)),
        DraftPart("abstract", scan(draft.abstract, inline=True)),
    ]
    for section in draft.sections:
        pieces += [
            DraftPart(f"title of section {section.title!r}", scan(section.title, inline=True)),
            DraftPart(f"section {section.title!r}", scan(section.body)),
        ]
    pieces += [
        DraftPart(f"caption of {name}", scan(caption, inline=True))
        for name, caption in sorted(draft.captions.items())
        if evidence.captions.get(name) != caption
    ]
    return (
        *_check_parts(pieces, evidence),
        *_check_floats(draft, pieces, evidence),
        *_find_unshown_values(draft, pieces, evidence),
    )


def check_caption(name: str, caption: str, evidence: Evidence) -> tuple[Violation, ...]:
    """Return the violations in the caption of a figure."""
    return tuple(_check_parts([DraftPart(f"caption of {name}", scan(caption, inline=True))], evidence))


def compile_use(commands: Iterable[str], key: str = r"[^{}]*") -> re.Pattern[str]:
    """Return the pattern of commands with their options and a key, as group 1, that matches a pattern."""
    return re.compile(rf"\\(?:{'|'.join(sorted(commands))})\s*(?:\[[^\[\]]*\]\s*)*\{{\s*({key})\s*\}}")


def collect_used_keys(texts: Iterable[str], commands: frozenset[str] = latex_scanner.VALUE_COMMANDS) -> dict[str, None]:
    """Return the keys passed to commands in the draft, in order of appearance."""
    pattern = compile_use(commands)
    return dict.fromkeys(
        key.strip()
        for text in texts
        for match in pattern.finditer(text)
        for key in (match[1].split(",") if commands & latex_scanner.CITE_COMMANDS else [match[1]])
    )


_BOLD_VALUE = re.compile(r"\\(?:textbf|mathbf|boldsymbol)\s*\{(?:[^{}]|\{[^{}]*\}|\{)*?\\result\b")
"""A result within the argument of a command for bold text, which would rank it; the table of hypotheses ranks."""

# --- parts of a draft -----------------------------------------------------------------------------------------------


def _check_parts(pieces: Iterable[DraftPart], evidence: Evidence) -> Iterator[Violation]:
    counted, shares = number_words.list_counted_things(evidence), _list_typed_shares(evidence)
    for piece in pieces:
        for problem in piece.scanned.problems:
            yield piece.make_violation(problem.kind, problem.at, problem.fix)
        yield from _check_keys(piece, evidence)
        yield from _check_typed_numbers(piece, evidence)
        for found in _find_number_words(piece, evidence.names, counted, shares):
            yield piece.make_violation(
                "word",
                found.at,
                rf"{found.words!r} is a number in words: print it with "
                r"\result{key} or \setup{key}, say of what whole it is a part ('three of the four arms'), or remove it",
            )
        for bold in _BOLD_VALUE.finditer(piece.scanned.source):
            yield piece.make_violation("claim", bold.start(), "a value is printed in bold: remove the bold")


def _find_number_words(
    piece: DraftPart,
    names: Iterable[str],
    counted: tuple[number_words.CountedThings, ...],
    shares: frozenset[number_words.KnownShare] | None,
) -> Iterator[number_words.NumberWords]:
    """Return the number words in the text; commands, keys and names in the plan separate words."""
    masked = numbers.mask_matches(piece.scanned.plain, numbers.compile_names(names))
    plain = masked.translate(dict.fromkeys(map(ord, (BLANK, KEY, CITE)), " "))
    yield from number_words.find_number_words(plain, counted, ordinary=True)
    yield from _find_unregistered_ratios(plain, shares)
    places = [at for at, char in enumerate(masked) if char not in (BLANK, "{", "}")]
    joined = "".join(plain[at] for at in places)
    for found in (*number_words.find_number_words(joined, counted), *_find_unregistered_ratios(joined, shares)):
        at, end = places[found.at], places[found.at + len(found.words) - 1] + 1
        if end - at > len(found.words):
            yield number_words.NumberWords(at, piece.scanned.source[at:end])


def _list_typed_shares(evidence: Evidence) -> frozenset[number_words.KnownShare] | None:
    """Return the shares that may be written in words; None if a hypothesis is about a ratio: then the claims of the
    sentences are read as ratios and compared with the record."""
    hypotheses = evidence.plan.hypotheses if evidence.plan is not None else ()
    if any(classify_scale(each.estimand) == "ratio" for one in hypotheses for each in one.effects):
        return None
    return number_words.list_known_shares(evidence)


def _find_unregistered_ratios(
    plain: str, shares: frozenset[number_words.KnownShare] | None
) -> Iterator[number_words.NumberWords]:
    """Return the ratios in words that are none of the study's shares, if no hypothesis is about a ratio."""
    if shares is not None:
        yield from number_words.find_ratio_words(plain, shares)


def _check_keys(piece: DraftPart, evidence: Evidence) -> Iterator[Violation]:
    labels = {f"fig:{name}" for name in evidence.figures} | {f"tab:{name}" for name in evidence.tables}
    keys: dict[str, tuple[frozenset[str], Kind]] = {
        "result": (frozenset(evidence.results), "key"),
        "setup": (frozenset(evidence.setups), "key"),
        "paperfigure": (evidence.figures, "figure"),
        "papertable": (evidence.tables, "table"),
        "ref": (frozenset(labels), "reference"),
        **dict.fromkeys(latex_scanner.CITE_COMMANDS, (evidence.cites, "citation")),
    }
    for use in piece.scanned.uses:
        if use.command == "rec":
            yield piece.make_violation("command", use.at, r"\rec is reserved for generated text: use \result or \setup")
            continue
        known, kind = keys[use.command]
        if use.key not in known:
            near = difflib.get_close_matches(use.key, known, n=3, cutoff=0.5)
            hint = f"the closest keys are {', '.join(near)}" if near else f"the keys are {len(known) or 'none'}"
            yield piece.make_violation(
                kind, use.at, f"no such key for \\{use.command}; {hint}", excerpt=f"\\{use.command}{{{use.key}}}"
            )
        if use.command in latex_scanner.FLOAT_COMMANDS and use.depth:
            yield piece.make_violation(kind, use.at, f"place \\{use.command} in its own paragraph, outside groups")


def _check_typed_numbers(piece: DraftPart, evidence: Evidence) -> Iterator[Violation]:
    scanned = piece.scanned
    plain = evidence.mask_typed(scanned.plain)
    lone = {one for one in evidence.literals if one.isdigit()}
    if {"0", "1"} <= lone:
        plain = numbers.UNIT_INTERVAL.sub(
            lambda found: found[0] if not any(scanned.math[found.start() : found.end()]) else BLANK * len(found[0]),
            plain,
        )
    for at, text in numbers.find_numbers(plain):
        if text in lone and scanned.math[at] and KEY not in plain[max(0, at - 2) : at + 3]:
            indicator = numbers.INDICATOR.search(scanned.source[:at]) and scanned.source[at + 1 : at + 2] == "}"
            if indicator or numbers.is_notation_digit(plain, at, script=bool(scanned.script[at])):
                continue
        own = [rf"\setup{{{key}}}" for key, value in evidence.setups.items() if to_plain_text(value) == text][:3]
        keys = " or ".join(own or (r"\result{key}", r"\setup{key}"))
        yield piece.make_violation(
            "number",
            at,
            rf"the number {text!r} is typed: print it with {keys}, "
            "write a count of the design in words, or remove it",
        )


# --- floats ---------------------------------------------------------------------------------------------------------


def _check_floats(draft: PaperDraft, pieces: Sequence[DraftPart], evidence: Evidence) -> Iterator[Violation]:
    uses = [use for piece in pieces for use in piece.scanned.uses]
    placed = Counter((use.command, use.key) for use in uses if use.command in latex_scanner.FLOAT_COMMANDS)
    for (command, key), times in placed.items():
        if times > 1:
            yield Violation(
                kind="figure" if command == "paperfigure" else "table",
                where="sections",
                excerpt=f"\\{command}{{{key}}}",
                fix=f"placed {times} times: place it once",
            )
    bare = (name for name in evidence.figures if not draft.captions.get(name, "").strip())
    for names, fix in (
        (bare, "this figure has no caption: add one"),
        (draft.captions.keys() - evidence.figures, "there is no such figure"),
    ):
        for name in sorted(names):
            yield Violation(kind="figure", where=f"caption of {name}", excerpt=name, fix=fix)


# --- abstract and conclusion ----------------------------------------------------------------------------------------


def _find_unshown_values(draft: PaperDraft, pieces: Sequence[DraftPart], evidence: Evidence) -> Iterator[Violation]:
    """Return values in the abstract and conclusion that are in no placed table and in no other section.

    The conclusion is the last section, if its title says so; a section that also discusses results is not checked.
    """
    last = draft.sections[-1].title if draft.sections else ""
    concludes = "conclu" in last.lower() or "summary" in last.lower()
    ends = {"abstract", f"section {last if concludes else ''!r}"}
    placed = {use.key for piece in pieces for use in piece.scanned.uses if use.command == "papertable"}
    if not placed <= evidence.claims_by_table.keys():
        return
    tables = frozenset[str]().union(*(evidence.claims_by_table[name] for name in placed))
    shown = tables | {
        key.key_without_form for piece in pieces if piece.where not in ends for key in piece.printed_claims
    }
    for piece in pieces:
        for key in piece.printed_claims if piece.where in ends else ():
            if why := _summary_objection(key, shown, tables, evidence):
                yield Violation(
                    kind="claim", where=piece.where, excerpt=str(ResultMacroUse("result", key.key)), fix=why
                )


def _summary_objection(key: ClaimKey, shown: frozenset[str], tables: frozenset[str], evidence: Evidence) -> str:
    """Explain why a summary may not print a value; return "" if it may print it.

    A difference is allowed if both means are shown on any split.
    """
    splits = {table.split for one in tables if (table := ClaimKey.parse_key(one)) and not table.other}
    if not key.other and splits and key.split not in splits:
        return f"the tables are on {', '.join(sorted(splits))} data, this value is not: use a value from the tables"
    means = {one[1:4] for text in shown if (one := ClaimKey.parse_key(text)) and not one.other}
    sides = {(key.dataset, key.metric, side) for side in (key.condition, key.other)}
    if key.key_without_form in shown or key.key not in evidence.results or (key.other and sides <= means):
        return ""
    return "no placed table and no other section shows this value: show it there, or remove it here"


# Split the LaTeX of a text into sentences.

_SENTENCE_END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)(?<!\bal)(?<!\bFig)[.!?](?=[\s}'\u2019)]|$)|\n[ \t]*\n", re.IGNORECASE
)
_HEADING = re.compile(r"\\(?:sub)*(?:paragraph|section)\s*\{[^{}]*\}")
_SENTENCE_OPENING = re.compile(r"(?:item\b|(?:sub)*(?:paragraph|section)\b\s*\{?)?[\s}]*")


def find_sentence_spans(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence of the text. A list item starts a sentence."""
    masked = list(scanned.plain)
    for match in re.finditer(r"\\item\b|\\(?:sub)*(?:paragraph|section)\b", scanned.source):
        masked[match.start()] = "." if not match.start() or masked[match.start() - 1] != "." else " "
    headings = {match.end() - 1 for match in _HEADING.finditer(scanned.source)}
    for at in headings:
        masked[at] = "."
    text = "".join(masked).translate({ord(mark): " " for mark in f"{BLANK}~\\{{}}$"})
    start = 0
    for match in [*_SENTENCE_END.finditer(text), None]:
        end = match.end() if match else len(text)
        if text[start:end].strip(" .\n\t"):
            begun = _SENTENCE_OPENING.match(scanned.source, start)
            stop = start + len(scanned.source[start:end].rstrip())
            yield begun.end() if begun else start, stop - (stop - 1 in headings)
        start = end
