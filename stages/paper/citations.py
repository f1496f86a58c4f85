"""The works that a paper may cite: the library that the run was given, and what the draft still needs.

**The given library** is verified when the run begins. Entries whose record of verification still holds count as they
are, and nobody is asked; the others, and the PDFs of a folder, are looked up where catalogues are in reach. What cannot
be verified then is not offered to the writer, and the user learns it.

**Gathering.** A round reads the first draft, asks for works sentence by sentence, searches, has works chosen, and
verifies each like any other entry. What a catalogue gave and what was chosen are events; entries lie in a file of the
run whose hash the event holds. A kill costs the searches in flight. With no catalogue in reach nothing changes.

What it does not guarantee: that the works that matter are found; that a chosen work says what it is cited for (the
reason is the model's, from title and abstract); the same works on another day.
"""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from labwright.literature import LibraryError
from labwright.literature.library import Entry, as_bibtex, entry_of, read_library
from labwright.literature.lookup import Literature, identities_of, with_record
from labwright.literature.matching import authors_in, plain
from labwright.literature.papers import read_papers
from labwright.literature.verification import verification_of
from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles.revising import (
    CITE_ASK,
    CITE_SELECT,
    CiteAskInputs,
    CiteQuery,
    CiteSelectInputs,
    CiteSelection,
)
from labwright.models.roles.writing import Reference
from labwright.record.events.papers import LibraryChecked, WorksChosen, WorksFound
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, sha256, write_file
from labwright.record.nouns.papers import CheckedEntry, Draft, FoundWork, Searched, Support
from labwright.record.wording import ranks
from labwright.review.evidence import scan
from labwright.stages.bench import Bench, do_work
from labwright.stages.paper.latex import escape
from labwright.stages.settings import CITATION_QUERIES

UNPRINTED = frozenset({"verified", "abstract"})
"""Fields that no style prints."""
CHECKED = frozenset({"title", "author", "year"})
"""Fields that were held against a catalogue."""
ADDRESSES = frozenset({"url", "doi", "eprint"})
MAX_FIELD_LENGTH = 10_000
"""Characters of a field that is printed."""
_ADDRESS = re.compile(r"[\w:/?&=.~%+,;@()#<>\[\]-]{1,500}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9-]*")


async def check_library(bench: Bench) -> None:
    """Record what of the run's library may be cited, once. Raises `literature.errors.LibraryError`."""
    given, papers = bench.folder.library, bench.paper.papers
    if bench.state.library is not None or not (given.is_file() or papers is not None):
        return
    entries = read_library(given) if given.is_file() else ()
    async with AsyncExitStack() as stack:
        literature = Literature()
        if bench.literature is not None:
            literature = await stack.enter_async_context(bench.literature())
        notes: tuple[str, ...] = ()
        if papers is not None:
            found = await read_papers(papers, literature, taken=[one.key for one in entries])
            entries, notes = (*entries, *found.entries), found.notes
        library = await literature.check(entries)
    write_file(bench.folder.checked, as_bibtex(library.usable))
    bench.recorder.append(
        LibraryChecked(
            entries=tuple(
                CheckedEntry(key=one.entry.key, outcome=one.outcome.outcome, why=one.reason) for one in library.checked
            ),
            notes=notes,
            files={str(bench.folder.checked.relative_to(bench.folder.root)): sha256(bench.folder.checked)},
        )
    )


def library_of(state: RunState, folder: RunFolder, *, before: int | None = None) -> tuple[Entry, ...]:
    """The run's verified entries: of the given library, then gathered ones, of this writing from rounds `before`.

    Raises: `literature.errors.LibraryError`, also for a file that is not as it was recorded.
    """
    gathered = [
        one
        for one in state.works_chosen
        if one.version <= state.version and (before is None or one.version < state.version or one.round < before)
    ]
    recorded = [*([state.library] if state.library is not None else []), *gathered]
    files = [(folder.root / name, digest) for one in recorded for name, digest in one.files.items()]
    for bib, digest in files:
        if not bib.is_file() or sha256(bib) != digest:
            raise LibraryError(f"{bib} is not as it was recorded: put it back, or start a new run")
    return tuple(entry for bib, _ in files for entry in read_verified(bib))


def read_verified(path: Path) -> tuple[Entry, ...]:
    """The entries of a library whose record of verification holds, in its order.

    Raises: `literature.errors.LibraryError`.
    """
    return tuple(entry for entry in read_library(path) if verification_of(entry))


def reference(entry: Entry) -> Reference:
    """An entry as a writer sees it."""
    names, cut = authors_in(entry.fields.get("author", ""))
    return Reference(
        key=entry.key,
        title=entry.plain("title"),
        year=entry.plain("year"),
        note=entry.venue,
        authors="; ".join([*map(plain, names), *["and others"] * cut]),
        abstract=entry.plain("abstract"),
    )


def bibliography(entries: Iterable[Entry], cited: Sequence[str]) -> str:
    """A references.bib with the cited entries alone, sorted by key, without what is not printed."""
    wanted = {entry.key: entry for entry in entries if entry.key in set(cited) and entry.fields.get("verified")}
    return as_bibtex([_harmless(wanted[key]) for key in sorted(wanted)], without=UNPRINTED)


def _harmless(entry: Entry) -> Entry:
    """The entry with fields that hold text, letters with marks and formulas, whoever wrote them.

    A field with any other TeX is plain text. Left out are addresses that are none, long fields, and notes that compare.
    """
    kept: dict[str, str] = {}
    for name, value in entry.fields.items():
        if name in ADDRESSES:
            sound = _ADDRESS.fullmatch(value) is not None
        else:
            sound = len(value) <= MAX_FIELD_LENGTH and not (name not in CHECKED and ranks(value))
            found = scan(value, inline=True)
            if found.problems or found.uses:
                value = escape(re.sub(r"[{}\\]", " ", plain(value)))
        if sound and _NAME.fullmatch(name):
            kept[name] = value
    return entry.model_copy(update={"fields": kept, "kind": entry.kind if _NAME.fullmatch(entry.kind) else "misc"})


NO_MORE = "no further works are gathered"
RESULTS = 6
"""Works that a search gives at most."""


async def cite(bench: Bench) -> None:
    """Let the library of the run grow by what the first draft needs, in bounded rounds."""

    async def work(client: ModelClient) -> None:
        if bench.literature is None or bench.state.limited is not None:
            return
        async with bench.literature() as literature:
            for number in range(1, bench.paper.citation_rounds + 1):
                try:
                    going = await _round(bench, client, literature, number)
                except BudgetSpent:
                    return
                if not going or bench.signals.stop.is_set() or bench.state.limited is not None:
                    return

    await do_work(bench, bench.state.paper_task("cite"), work)


def of_this_version(state: RunState) -> tuple[list[WorksFound], list[WorksChosen]]:
    """What was found and what was chosen for this writing of the paper."""
    return (
        [one for one in state.works_found if one.version == state.version],
        [one for one in state.works_chosen if one.version == state.version],
    )


async def _round(bench: Bench, client: ModelClient, literature: Literature, number: int) -> bool:
    """One round; False when no other one is worth it."""
    draft = bench.state.drafts[0].draft
    library = library_of(bench.state, bench.folder, before=number)
    references = tuple(reference(one) for one in library)
    rounds, chosen = of_this_version(bench.state)
    earlier = tuple(one for found in rounds if found.round < number for one in found.searches)
    asked = await client.usable(
        CITE_ASK,
        CiteAskInputs(idea=bench.idea, draft=draft, references=references, before=earlier, most=CITATION_QUERIES),
        then=NO_MORE,
    )
    queries = usable(asked.queries, draft, earlier, most=CITATION_QUERIES) if asked is not None else ()
    if not queries:
        return False
    found = next((one for one in rounds if one.round == number), None)
    if found is None:
        found = await _found(bench, literature, number, queries)
        bench.recorder.append(found)
    if not found.works:
        return False
    answer = await client.usable(
        CITE_SELECT,
        CiteSelectInputs(idea=bench.idea, searches=found.searches, works=found.works, references=references),
        then=NO_MORE,
    )
    if answer is None:
        return False
    if not any(one.round == number for one in chosen):
        bench.recorder.append(await _chosen(bench, literature, found, answer, library))
    return True


def usable(
    queries: Sequence[CiteQuery], draft: Draft, earlier: Sequence[Searched], *, most: int
) -> tuple[CiteQuery, ...]:
    """Queries that name a sentence of the draft and were not made before."""

    def even(text: str) -> str:
        return " ".join(text.split())

    text = even("\n".join((draft.abstract, *(section.body for section in draft.sections))))
    made = {even(one.query).casefold() for one in earlier}
    kept: dict[str, CiteQuery] = {}
    for one in queries:
        name = even(one.query).casefold()
        if name and name not in made and even(one.sentence) and even(one.sentence) in text:
            kept.setdefault(name, one)
    return tuple(kept.values())[:most]


async def _found(bench: Bench, literature: Literature, number: int, queries: Sequence[CiteQuery]) -> WorksFound:
    searches: list[Searched] = []
    works: dict[tuple[str, str], FoundWork] = {}
    for query in queries:
        answer = await literature.search(query.query, RESULTS)
        for work in answer.works:
            works.setdefault((work.source, work.id), FoundWork(number=len(works) + 1, **work.model_dump()))
        searches.append(
            Searched(
                sentence=query.sentence,
                query=query.query,
                outages=answer.outages,
                found=tuple(works[work.source, work.id].number for work in answer.works),
            )
        )
    return WorksFound(version=bench.state.version, round=number, searches=tuple(searches), works=tuple(works.values()))


async def _chosen(
    bench: Bench, literature: Literature, found: WorksFound, answer: CiteSelection, library: Sequence[Entry]
) -> WorksChosen:
    """Each chosen work as a verified entry, in a file of the round; why the others may not be cited."""
    works = {one.number: one for one in found.works}
    entries: list[Entry] = []
    supports: list[Support] = []
    refused: dict[str, str] = {}
    for one in answer.chosen:
        work = works.get(one.number)
        if work is None or one.search > len(found.searches):
            refused[f"work {one.number}"] = "there is no such work or search"
            continue
        known = (*library, *entries)
        made = entry_of(work, taken=[one.key for one in known])
        names = set(identities_of(made))
        held = next((one for one in known if names & set(identities_of(one))), None)
        if held is None:
            outcome = await literature.verify(made)
            if outcome.verification is None:
                refused[work.title[:160]] = outcome.reason
                continue
            held = with_record(made, outcome)
            entries.append(held)
        supports.append(Support(key=held.key, sentence=found.searches[one.search - 1].sentence, reason=one.reason))
    path = bench.folder.gathered(found.version, found.round)
    await to_thread(write_file, path, as_bibtex(entries))
    return WorksChosen(
        version=found.version,
        round=found.round,
        supports=tuple(supports),
        refused=refused,
        files={str(path.relative_to(bench.folder.root)): sha256(path)},
    )
