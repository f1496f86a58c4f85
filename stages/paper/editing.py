"""A reflector's edits on a draft: those that can be made are, and of every other it is said why not.

A passage is found if it stands exactly once, where any run of white space is like any other: models wrap lines anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from models.roles import Reflection, SectionEdit, TextEdit
from record.nouns.drafts import Draft, Section
from record.nouns.figures import Placement

SHOWN = 80
"""Characters of a passage that are shown in a report on its edit."""


@dataclass(frozen=True)
class Edited:
    """A draft after a round of edits. `made` and `refused` have one line an edit."""

    draft: Draft
    made: tuple[str, ...]
    refused: tuple[str, ...]


def edited(draft: Draft, answer: Reflection, *, figures: Collection[str], rewritable: Collection[str] = ()) -> Edited:
    """The draft with the edits that can be made. `figures` are the paper's, `rewritable` the sections open to it."""
    desk = _Desk(draft, frozenset(figures), frozenset(rewritable))
    for rewrite in answer.rewrites:
        desk.rewrite(rewrite)
    for edit in answer.edits:
        desk.replace(edit)
    for name, caption in answer.captions.items():
        desk.caption(name, caption)
    for name, place in answer.placements.items():
        desk.move(name, place)
    return Edited(desk.draft(), tuple(desk.made), tuple(desk.refused))


@dataclass
class _Desk:
    """The parts of a draft while they are edited."""

    before: Draft
    figures: frozenset[str]
    rewritable: frozenset[str]
    made: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.parts = {"title": self.before.title, "abstract": self.before.abstract,
                      **{section.title: section.body for section in self.before.sections}}
        self.captions = dict(self.before.captions)
        self.placements = dict(self.before.placements)

    def draft(self) -> Draft:
        sections = tuple(Section(title=one.title, body=_tidy(self.parts[one.title])) for one in self.before.sections)
        return self.before.model_copy(update={
            "title": self.parts["title"].strip(), "abstract": _tidy(self.parts["abstract"]), "sections": sections,
            "captions": self.captions, "placements": self.placements})

    def rewrite(self, edit: SectionEdit) -> None:
        what = f"{edit.title}, as a whole"
        if edit.title not in self.parts:
            self.refused.append(f"{what}: there is no such section")
        elif edit.title not in self.rewritable:
            self.refused.append(f"{what}: it is not open to a whole rewrite, edit its passages")
        elif not edit.body.strip() or edit.body.strip() == self.parts[edit.title].strip():
            self.refused.append(f"{what}: the new text is empty, or the old one")
        else:
            self.parts[edit.title] = edit.body
            self.made.append(what)

    def replace(self, edit: TextEdit) -> None:
        what = f"{edit.section}: {_short(edit.old)}"
        if edit.section not in self.parts:
            self.refused.append(f"{what}: there is no section {edit.section!r}")
            return
        found = _found(self.parts[edit.section], edit.old)
        if not edit.old.strip():
            self.refused.append(f"{what}: the old passage is empty")
        elif len(found) != 1:
            times = f"stands there {len(found)} times: give more of it" if found else "does not stand there"
            self.refused.append(f"{what}: the passage {times}")
        elif edit.new == edit.old or (edit.section == "title" and not edit.new.strip()):
            self.refused.append(f"{what}: it would change nothing, or leave no title")
        else:
            text, (start, end) = self.parts[edit.section], found[0]
            self.parts[edit.section] = text[:start] + edit.new + text[end:]
            self.made.append(f"{what} -> {_short(edit.new) or 'taken out'}")

    def caption(self, name: str, caption: str) -> None:
        if name not in self.figures:
            self.refused.append(f"caption of {name}: there is no such figure")
        elif not caption.strip() or self.captions.get(name) == caption:
            self.refused.append(f"caption of {name}: it is empty, or as it was")
        else:
            self.captions[name] = caption
            self.made.append(f"caption of {name}")

    def move(self, name: str, place: Placement) -> None:
        if name not in self.figures:
            self.refused.append(f"{name} to {place}: there is no such figure")
        elif self.placements.get(name) == place:
            self.refused.append(f"{name} to {place}: it stands there")
        else:
            self.placements[name] = place
            self.made.append(f"{name} moved to {'the text' if place == 'main' else 'the appendix'}")
            if place == "appendix":
                self.parts |= {title: text.replace(f"\\paperfigure{{{name}}}", "")
                               for title, text in self.parts.items()}


def _found(text: str, passage: str) -> list[tuple[int, int]]:
    words = passage.split()
    if not words:
        return []
    pattern = re.compile(r"(?=(" + r"\s+".join(re.escape(word) for word in words) + "))")
    return [match.span(1) for match in pattern.finditer(text)]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= SHOWN else f"{flat[:SHOWN]}...") if flat else ""


def _tidy(text: str) -> str:
    """The text without the gaps that passages left."""
    return re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
