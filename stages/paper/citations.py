"""Manage the works that a paper may cite: the given library, and works that the draft still needs.

**The given library** is verified when the run begins. Entries with a valid verification record are accepted without a
lookup; the others, and the PDFs of a folder, are looked up if catalogues are reachable. Entries that cannot be verified
are not offered to the writer, and the user is informed.

**Gathering.** A round reads the first draft, proposes queries sentence by sentence, searches, selects works, and
verifies each like any other entry. Search results and selections are events; entries are in a file of the run whose
hash is in the event. An interruption loses only the searches in flight. Without a reachable catalogue nothing changes.

**Without published work.** If nothing can be cited, the program writes two sentences as related work, and the writer is
not asked for it. If nothing was cited although there was something, the reflector is told once that this section will
be replaced. In both cases page one says that novelty is unchecked.

Limits: relevant works may be missed; a work may not support the sentence that cites it (a model judges this from title
and abstract); searches on another day may give other works.
"""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from labwright.literature import LibraryError
from labwright.literature.bibtex import BibEntry, build_entry, format_bibtex, read_library
from labwright.literature.lookup import (
    LiteratureClient,
    attach_verification,
    list_identities,
    read_papers,
    read_verification,
)
from labwright.literature.works import parse_authors, strip_tex
from labwright.models.client import ModelClient
from labwright.models.roles.paper_revision import (
    CITE_ASK,
    CITE_SELECT,
    CiteAskInputs,
    CiteQuery,
    CiteSelectInputs,
    CiteSelection,
)
from labwright.models.roles.paper_writing import PlannedSection, Reference
from labwright.record.events.paper_events import LibraryChecked, WorksChosen, WorksFound
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, hash_file, write_file
from labwright.record.schema.paper import CheckedEntry, CitationSearch, CitationSupport, FoundWork, PaperDraft, Section
from labwright.review.evidence import collect_used_keys, scan
from labwright.review.evidence.latex_scanner import CITE_COMMANDS
from labwright.stages.paper.latex import escape
from labwright.stages.run_context import RunContext, run_once
from labwright.stages.settings import MAX_CITATION_QUERIES

UNPRINTED_FIELDS = frozenset({"verified", "abstract", "note", "annote", "addendum"})
"""Fields that no style prints, and free text that no catalogue verifies."""
ADDRESS_FIELDS = frozenset({"url", "doi", "eprint"})
MAX_FIELD_LENGTH = 10_000
"""Maximum characters of a printed field."""
RELATED_WORK = "Related work"
"""Title of the section that reviews the literature."""
UNCHECKED_NOVELTY_TEXT = (
    "We could search no catalogue of publications and were given no bibliography, so we do not compare this study with "
    "published work. Whether its question or its results are new is unchecked."
)
"""The related work of a paper that rests on no published work."""
UNCITED_COMPLAINT = (
    "the related work cites nothing: cite listed works on the topic, or the program replaces it by two sentences that "
    "say that novelty is unchecked"
)
_ADDRESS = re.compile(r"[\w:/?&=.~%+,;@()#<>\[\]-]{1,500}", re.ASCII)
_FIELD_NAME = re.compile(r"[a-z][a-z0-9-]*")


async def check_library(context: RunContext) -> None:
    """Record which entries of the run's library may be cited, once. Raises `literature.errors.LibraryError`."""
    bib, papers = context.folder.library, context.paper.papers
    if context.state.paper.library is not None or not (bib.is_file() or papers is not None):
        return
    entries = read_library(bib) if bib.is_file() else ()
    async with AsyncExitStack() as stack:
        literature = LiteratureClient()
        if context.literature is not None:
            literature = await stack.enter_async_context(context.literature())
        notes: tuple[str, ...] = ()
        if papers is not None:
            given = await read_papers(papers, literature, taken_keys=[one.key for one in entries])
            entries, notes = (*entries, *given.entries), given.notes
        library = await literature.check(entries)
    path, checked, version = context.folder.checked_library, library.checked, context.state.paper.version
    if version > 1:  # the first paper keeps its own
        path = path.with_stem(f"{path.stem}-v{version}")
    write_file(path, format_bibtex(library.usable_entries))
    files = {str(path.relative_to(context.folder.root)): hash_file(path)}
    found = (CheckedEntry(key=one.entry.key, outcome=one.outcome.outcome, why=one.reason) for one in checked)
    context.recorder.append(LibraryChecked(entries=tuple(found), notes=notes, files=files))


def read_run_library(state: RunState, folder: RunFolder, *, before_round: int | None = None) -> tuple[BibEntry, ...]:
    """Return the run's verified entries: the given library, then entries gathered up to this version, and in it up to
    `before_round`.

    Raises `literature.errors.LibraryError`, also for a file that differs from the record.
    """
    gathered = [
        one
        for one in state.paper.works_chosen
        if one.version <= state.paper.version
        and (before_round is None or one.version < state.paper.version or one.round < before_round)
    ]
    recorded = [*([state.paper.library] if state.paper.library is not None else []), *gathered]
    files = [(folder.root / name, digest) for one in recorded for name, digest in one.files.items()]
    for bib, digest in files:
        if not bib.is_file() or hash_file(bib) != digest:
            raise LibraryError(f"{bib} was changed since it was recorded: restore it, or start a new run")
    return tuple(entry for bib, _ in files for entry in read_verified_entries(bib))


def read_verified_entries(path: Path) -> tuple[BibEntry, ...]:
    """Return the entries of a library with a valid verification record, in order.

    Raises `literature.errors.LibraryError`.
    """
    return tuple(entry for entry in read_library(path) if read_verification(entry))


def to_reference(entry: BibEntry) -> Reference:
    """Convert an entry to the form shown to a writer."""
    names, cut = parse_authors(entry.fields.get("author", ""))
    return Reference(
        key=entry.key,
        title=entry.read_plain("title"),
        year=entry.read_plain("year"),
        note=entry.venue,
        authors="; ".join([*map(strip_tex, names), *["and others"] * cut]),
        abstract=entry.read_plain("abstract"),
    )


def name_authors(entry: BibEntry) -> str:
    """Return the authors as a sentence names them, such as Guo et al., or the title if there are none; TeX."""
    names, cut = parse_authors(_escape_entry(entry).fields.get("author", ""))
    families = [name.split(",")[0] if "," in name else name.split()[-1] for name in names]
    if not families:
        return entry.fields.get("title", entry.key)
    return f"{families[0]} et al." if cut or len(families) > 2 else " and ".join(families)


def format_bibliography(entries: Iterable[BibEntry], cited: Sequence[str]) -> str:
    """Format a references.bib with only the cited entries, sorted by key, without unprinted fields."""
    wanted = {entry.key: entry for entry in entries if entry.key in set(cited) and entry.fields.get("verified")}
    return format_bibtex([_escape_entry(wanted[key]) for key in sorted(wanted)], excluded_fields=UNPRINTED_FIELDS)


def _escape_entry(entry: BibEntry) -> BibEntry:
    """Return the entry with safe fields: text, accented letters and formulas only.

    A field with other TeX becomes plain text. Invalid addresses and long fields are removed.
    """
    kept: dict[str, str] = {}
    for name, value in entry.fields.items():
        if name in ADDRESS_FIELDS:
            sound = _ADDRESS.fullmatch(value) is not None
        else:
            sound = len(value) <= MAX_FIELD_LENGTH
            found = scan(value, inline=True)
            if found.problems or found.uses:
                value = escape(re.sub(r"[{}\\]", " ", strip_tex(value)))
        if sound and _FIELD_NAME.fullmatch(name):
            kept[name] = value
    if entry.arxiv and not entry.venue:  # a preprint, whose note is not printed
        kept.setdefault("howpublished", f"arXiv:{entry.arxiv}")
    return entry.model_copy(
        update={"fields": kept, "kind": entry.kind if _FIELD_NAME.fullmatch(entry.kind) else "misc"}
    )


NO_MORE_NOTE = "no further works are gathered"
RESULTS_PER_QUERY = 6
"""Maximum works per search."""


async def gather_citations(context: RunContext) -> None:
    """Add works that the first draft needs to the run's library, in a bounded number of rounds."""

    async def work(client: ModelClient) -> None:
        if context.literature is None or context.state.limit_reason is not None:
            return
        async with context.literature() as literature:
            for number in range(1, context.paper.citation_rounds + 1):
                going = await _run_round(context, client, literature, number)
                if not going or context.signals.stop_event.is_set() or context.state.limit_reason is not None:
                    return

    await run_once(context, context.state.paper.format_task("cite"), work)


def list_version_works(state: RunState) -> tuple[list[WorksFound], list[WorksChosen]]:
    """Return the works found and chosen for this version of the paper."""
    return (
        [one for one in state.paper.works_found if one.version == state.paper.version],
        [one for one in state.paper.works_chosen if one.version == state.paper.version],
    )


def is_novelty_unchecked(state: RunState, draft: PaperDraft) -> bool:
    """Return whether the paper rests on no published work: no paper was read before planning, no catalogue answered,
    and the related work cites nothing of the user's library."""
    read = state.paper.prior_work is not None and not state.paper.prior_work.is_unread
    searches = [search for one in list_version_works(state)[0] for search in one.searches]
    answered = any(one.found or not one.outages for one in searches)
    related = [one.body for one in draft.sections if is_related_work(one)] or draft.texts
    return not read and not answered and not collect_used_keys(related, CITE_COMMANDS)


def is_related_work(section: Section | PlannedSection) -> bool:
    """Return whether a section reviews the literature and does nothing else."""
    return " ".join(section.title.split()).casefold() == RELATED_WORK.casefold()


def reduce_related_work(draft: PaperDraft) -> PaperDraft:
    """Return the draft with two sentences as its related work, in their own section."""
    found = tuple(
        one.model_copy(update={"body": UNCHECKED_NOVELTY_TEXT}) if is_related_work(one) else one
        for one in draft.sections
    )
    if not any(map(is_related_work, found)):
        found = (*found[:1], Section(title=RELATED_WORK, body=UNCHECKED_NOVELTY_TEXT), *found[1:])
    return draft.model_copy(update={"sections": found})


async def _run_round(context: RunContext, client: ModelClient, literature: LiteratureClient, number: int) -> bool:
    """Run one round; return False if no further round is worthwhile."""
    draft = context.state.paper.drafts[0].draft
    library = read_run_library(context.state, context.folder, before_round=number)
    references = tuple(to_reference(one) for one in library)
    rounds, chosen = list_version_works(context.state)
    earlier = tuple(one for found in rounds if found.round < number for one in found.searches)
    asked = await client.ask_or_none(
        CITE_ASK,
        CiteAskInputs(idea=context.idea, draft=draft, references=references, before=earlier, most=MAX_CITATION_QUERIES),
        instead=NO_MORE_NOTE,
    )
    queries = filter_queries(asked.queries, draft, earlier, limit=MAX_CITATION_QUERIES) if asked is not None else ()
    if not queries:
        return False
    found = next((one for one in rounds if one.round == number), None)
    if found is None:
        found = await _search_works(context, literature, number, queries)
        context.recorder.append(found)
    if not found.works:
        return False
    answer = await client.ask_or_none(
        CITE_SELECT,
        CiteSelectInputs(idea=context.idea, searches=found.searches, works=found.works, references=references),
        instead=NO_MORE_NOTE,
    )
    if answer is None:
        return False
    if not any(one.round == number for one in chosen):
        context.recorder.append(await _verify_choices(context, literature, found, answer, library))
    return True


def filter_queries(
    queries: Sequence[CiteQuery], draft: PaperDraft, earlier: Sequence[CitationSearch], *, limit: int
) -> tuple[CiteQuery, ...]:
    """Return queries that quote a sentence of the draft and were not made before."""

    def even(text: str) -> str:
        return " ".join(text.split())

    text = even("\n".join((draft.abstract, *(section.body for section in draft.sections))))
    made = {even(one.query).casefold() for one in earlier}
    kept: dict[str, CiteQuery] = {}
    for query in queries:
        name = even(query.query).casefold()
        if name and name not in made and even(query.sentence) and even(query.sentence) in text:
            kept.setdefault(name, query)
    return tuple(kept.values())[:limit]


async def _search_works(
    context: RunContext, literature: LiteratureClient, number: int, queries: Sequence[CiteQuery]
) -> WorksFound:
    searches: list[CitationSearch] = []
    works: dict[tuple[str, str], FoundWork] = {}
    for query in queries:
        answer = await literature.search(query.query, RESULTS_PER_QUERY)
        for work in answer.works:
            works.setdefault((work.source, work.id), FoundWork(number=len(works) + 1, **work.model_dump()))
        searches.append(
            CitationSearch(
                sentence=query.sentence,
                query=query.query,
                outages=answer.outages,
                found=tuple(works[work.source, work.id].number for work in answer.works),
            )
        )
    return WorksFound(
        version=context.state.paper.version, round=number, searches=tuple(searches), works=tuple(works.values())
    )


async def _verify_choices(
    context: RunContext,
    literature: LiteratureClient,
    found: WorksFound,
    answer: CiteSelection,
    library: Sequence[BibEntry],
) -> WorksChosen:
    """Verify the chosen works and write their entries to the round's file, with reasons for those that may not be
    cited."""
    works = {one.number: one for one in found.works}
    entries: list[BibEntry] = []
    supports: list[CitationSupport] = []
    refused: dict[str, str] = {}
    for one in answer.chosen:
        work = works.get(one.number)
        if work is None or one.search > len(found.searches):
            refused[f"work {one.number}"] = "there is no such work or search"
            continue
        known = (*library, *entries)
        made = build_entry(work, taken_keys=[one.key for one in known])
        names = set(list_identities(made))
        entry = next((one for one in known if names & set(list_identities(one))), None)
        if entry is None:
            outcome = await literature.verify(made)
            if outcome.verification is None:
                refused[work.title[:160]] = outcome.reason
                continue
            entry = attach_verification(made, outcome)
            entries.append(entry)
        supports.append(
            CitationSupport(key=entry.key, sentence=found.searches[one.search - 1].sentence, reason=one.reason)
        )
    path = context.folder.get_gathered_path(found.version, found.round)
    await to_thread(write_file, path, format_bibtex(entries))
    return WorksChosen(
        version=found.version,
        round=found.round,
        supports=tuple(supports),
        refused=refused,
        files={str(path.relative_to(context.folder.root)): hash_file(path)},
    )
