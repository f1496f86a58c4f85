"""Roles `reflect` (targeted edits for complaints about a draft) and `copy_edit`.

A sentence that the binder refuses is deleted, an unplaced figure is placed, and a paper that is too long loses the
paragraphs with the highest rank, then a figure to the appendix. It does not write new claims.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import takewhile
from math import ceil

from labwright.models.offline.outline import Outline
from labwright.models.offline.paper_writing import build_outline
from labwright.models.roles.copy_editing import CopyEditInputs, CopyEdits
from labwright.models.roles.paper_revision import ReflectInputs, Reflection, TextEdit
from labwright.record.schema.figures import FigurePlacement
from labwright.record.schema.paper import PaperDraft

_VIOLATION_LINE = re.compile(
    r"^\[(?P<kind>\w+)\] (?P<where>.*?): (?P<excerpt>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"): ", re.DOTALL
)
MAX_ROUNDS_IN_VAIN = 2
"""Number of consecutive undone rounds after which it gives up."""
_DOUBLED_WORD = re.compile(r"(?:\b\w+\W+)?\b([a-z]+) \1\b(?:\W+\w+\b)?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\\])")


def answer_reflect(inputs: ReflectInputs) -> Reflection:
    """Return edits for violations first, then for length; done if neither needs any, or two rounds failed."""
    draft, limit = inputs.draft, inputs.inputs.page_limit
    vain = len(list(takewhile(lambda one: one.outcome != "kept", reversed(inputs.tried))))
    if vain >= MAX_ROUNDS_IN_VAIN:
        return Reflection(done=True)
    paper = build_outline(inputs.inputs)
    bodies = {"title": draft.title, "abstract": draft.abstract} | {s.title: s.body for s in draft.sections}
    before = dict(bodies)
    captions: dict[str, str] = {}
    if inputs.news and not inputs.tried:
        fresh = {"title": paper.title, "abstract": paper.abstract} | {part.title: part.body for part in paper.sections}
        bodies |= {title: text for title, text in fresh.items() if title in bodies}
        if inputs.pages is not None and inputs.pages >= limit:  # the added results need room
            _shorten(paper, bodies, ranks=1)
    for violation in inputs.violations:
        _fix_violation(inputs, violation, bodies, captions)
    placements: dict[str, FigurePlacement] = {}
    if not inputs.violations and inputs.pages is not None and inputs.pages > limit:
        # Slightly less text may push a figure to the next page: after an undone round, cut more.
        _shorten(paper, bodies, ranks=ceil(inputs.pages - limit) + vain)
        if bodies == before or vain:
            placed = re.findall(r"\\paperfigure\{([^}]*)\}", "\n".join(section.body for section in draft.sections))
            placements = {placed[-1]: "appendix"} if placed else {}
    edits = tuple(edit for title in bodies for edit in _compute_text_edits(title, before[title], bodies[title]))
    found = Reflection(done=False, edits=edits, captions=captions, placements=placements)
    return found.model_copy(update={"done": found.is_empty})


def answer_copy_edit(inputs: CopyEditInputs) -> CopyEdits:
    """Remove words that are typed twice in a row."""
    return CopyEdits(
        edits=tuple(
            TextEdit(section=one.where, old=found[0], new=found[0].replace(f"{found[1]} {found[1]}", found[1]))
            for one in inputs.texts
            for found in _DOUBLED_WORD.finditer(one.text)
        )
    )


def _compute_text_edits(section: str, before: str, after: str) -> Iterator[TextEdit]:
    """Yield replacements of whole paragraphs that turn one text of a part into another, the last ones first."""
    old, new = (text.split("\n\n") for text in (before, after))
    for verb, a, b, c, d in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
        if verb == "equal":
            continue
        # For an insertion, or if the passage occurs twice, include the paragraphs before it.
        while a > 0 and (a == b or before.count("\n\n".join(old[a:b])) != 1):
            a, c = a - 1, c - 1
        while b < len(old) and (a == b or before.count("\n\n".join(old[a:b])) != 1):
            b, d = b + 1, d + 1
        yield TextEdit(section=section, old="\n\n".join(old[a:b]), new="\n\n".join(new[c:d]))


# --- violations -----------------------------------------------------------------------------------------------------


def _fix_violation(inputs: ReflectInputs, violation: str, bodies: dict[str, str], captions: dict[str, str]) -> None:
    """Change the bodies or captions for one violation; leave them if it names none of their text."""
    match = _VIOLATION_LINE.match(violation)
    excerpt = ast.literal_eval(match["excerpt"]) if match else ""
    known = {figure.name: figure.description for figure in inputs.inputs.figures}
    name = next((name for name in known if name == excerpt or f"{{{name}}}" in violation), "")
    if name and "caption" in violation:
        captions[name] = known[name]
    elif name and "never placed" in violation:
        _place_figure(inputs.draft, bodies, name)
    elif match and excerpt:
        _remove_sentence(bodies, match["where"], excerpt)


def _place_figure(draft: PaperDraft, bodies: dict[str, str], name: str) -> None:
    """Place a figure at the end of the section that refers to it, otherwise of the second-last one."""
    titles = [section.title for section in draft.sections]
    reference = f"\\ref{{fig:{name}}}"
    host = next((title for title in titles if reference in bodies[title]), titles[max(0, len(titles) - 2)])
    sentence = "" if reference in bodies[host] else f"Figure~{reference} is given for completeness.\n\n"
    bodies[host] = f"{bodies[host]}\n\n{sentence}\\paperfigure{{{name}}}"


def _remove_sentence(bodies: dict[str, str], where: str, excerpt: str) -> None:
    """Remove the sentence with the excerpt from the part that the violation names, or from wherever it is."""
    core = " ".join(re.sub(r"^line \d+: ", "", excerpt).strip().removeprefix("...").removesuffix("...").split())
    named = [title for title in bodies if f"'{title}'" in where or title == where]
    for title in named or list(bodies):
        paragraphs = bodies[title].split("\n\n")
        kept = [_drop_sentence(paragraph, core) for paragraph in paragraphs]
        if title != "title" and kept != paragraphs:
            bodies[title] = "\n\n".join(paragraph for paragraph in kept if paragraph)


def _drop_sentence(paragraph: str, core: str) -> str:
    """Return the paragraph without the sentence that contains the middle of the excerpt."""
    text = " ".join(paragraph.split())
    # An excerpt shows some thirty characters before the fault, and may begin in the previous paragraph.
    at = text.find(core) + min(30, len(core) // 2) if core in text else text.find(core[24:44]) + min(6, len(core) // 2)
    if not core or (core not in text and (len(core) < 44 or core[24:44] not in text)):
        return paragraph
    kept: list[str] = []
    end = 0
    for sentence in _SENTENCE.split(text):
        start, end = end, end + len(sentence) + 1
        if not start <= at < end:
            kept.append(sentence)
    return " ".join(kept)


# --- length ---------------------------------------------------------------------------------------------------------


def _shorten(paper: Outline, bodies: dict[str, str], *, ranks: int) -> None:
    """Drop the remaining paragraphs of the highest ranks, one rank per excess page."""
    optional = [(part.title, one) for part in paper.sections for one in part.paragraphs if one.spare_rank]
    present = {one.spare_rank for title, one in optional if one.text in bodies.get(title, "")}
    dropped = sorted(present, reverse=True)[:ranks]
    for title, one in optional:
        if one.spare_rank in dropped and title in bodies:
            rest = bodies[title].replace(one.text, "").split("\n\n")
            bodies[title] = "\n\n".join(text.strip() for text in rest if text.strip())
