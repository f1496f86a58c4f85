"""A whole library: the outcome of each entry, and entries that are one work."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from literature.library import Entry
from literature.names import authors_in, name_of
from literature.titles import pressed
from literature.verify import Outcome, Verified
from record.nouns.frozen import Frozen


class Checked(Frozen):
    """An entry and what was found of it. A verified one holds its record."""

    entry: Entry
    outcome: Outcome
    earlier: bool = Field(default=False, description="whether its own record was taken, and nobody was asked")
    merged_into: str = Field(default="", description="key of the entry that is the same work and stands before it")

    @property
    def usable(self) -> bool:
        return isinstance(self.outcome, Verified) and not self.merged_into

    @property
    def told(self) -> str:
        """The finding in words; empty for an entry that is usable."""
        if self.merged_into:
            return f"the same work as {self.merged_into!r}: cite that one"
        return "" if isinstance(self.outcome, Verified) else self.outcome.reason


class Library(Frozen):
    """The entries of a library in their order."""

    checked: tuple[Checked, ...]

    @property
    def usable(self) -> tuple[Entry, ...]:
        """What may be cited."""
        return tuple(one.entry for one in self.checked if one.usable)


def merged(checked: Sequence[Checked]) -> Library:
    """The library, in which every verified entry of a work after the first one is marked."""
    first: dict[str, str] = {}
    found: list[Checked] = []
    for one in checked:
        names = names_of_work(one.entry) if isinstance(one.outcome, Verified) else ()
        other = next((first[name] for name in names if name in first), "")
        for name in names:
            first.setdefault(name, other or one.entry.key)
        found.append(one.model_copy(update={"merged_into": other}) if other else one)
    return Library(checked=tuple(found))


def names_of_work(entry: Entry) -> tuple[str, ...]:
    """What two entries of one work share one of: DOI, arXiv identifier, or title with first author."""
    names, _ = authors_in(entry.fields.get("author", ""))
    author = "".join(sorted(name_of(names[0]).words[-1:])) if names else ""
    return tuple(one for one in (f"doi:{entry.doi}" if entry.doi else "", f"arxiv:{entry.arxiv}" if entry.arxiv else "",
                                 f"{pressed(entry.fields.get('title', ''))}/{author}") if one)
