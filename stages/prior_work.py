"""What the closest papers used: the user's documents and open full texts of arXiv, read into a table before the plan.

Held: at most `PRIOR_PAPERS` papers, `REACH` seconds for all that is looked up and fetched; what was fetched is kept in
the run's folder, so that a resumed run reads the same; an entry without its quote in the text is dropped and counted.
Where no paper was read, `RunState.prior_work` is None or `unread`, and page one of the paper says so.

Not held: that the closest papers are found or open; that a quote means what its entry says; that names which differ in
more than `record.nouns.prior.alike` forgives are told to be one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from labwright.literature import SourceError
from labwright.literature.lookup import Literature
from labwright.literature.works import Work, arxiv_of
from labwright.models.client import ModelClient
from labwright.models.roles.protocol import PRIOR_SEARCH, PRIOR_WORK, PriorSearchInputs, PriorWorkInputs
from labwright.record.events.papers import PriorWorkRead
from labwright.record.folder import RunFolder
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.idea import Idea
from labwright.record.nouns.prior import Omitted, PriorPaper, PriorRow, alike, named_in, rows_of
from labwright.review.judge.quotes import stands_in
from labwright.stages.bench import Bench
from labwright.stages.documents import LIST, Copied, copies_in, read, store
from labwright.stages.settings import PRIOR_PAPERS

QUERIES = 3
RESULTS = 8
"""Works of one query at most."""
REACH = 120.0
"""Seconds for all searches and full texts together."""


async def read_prior_work(bench: Bench, client: ModelClient) -> None:
    """Record what the closest papers used, once. Raises `ModelError`."""
    own = closest(bench)
    home, queries = bench.folder.prior, tuple[str, ...]()
    if bench.literature is not None and len(own) < PRIOR_PAPERS:
        asked = await client.usable(
            PRIOR_SEARCH, PriorSearchInputs(idea=bench.idea, most=QUERIES), then="no paper is looked for"
        )
        queries = asked.queries[:QUERIES] if asked is not None else ()
        if queries and not (home / LIST).exists():
            async with AsyncExitStack() as stack:
                literature = await stack.enter_async_context(bench.literature())
                await fetch(literature, bench.idea, queries, bench.folder, most=PRIOR_PAPERS - len(own))
    fetched, refused = copies_in(home)
    papers = [await read_paper(client, bench.idea, one, bench.folder) for one in (*own, *fetched)]
    if bench.state.prior_work is None and (queries or papers):
        bench.recorder.append(
            PriorWorkRead(
                papers=tuple(one for one in papers if isinstance(one, PriorPaper)),
                queries=queries,
                refused=(*refused, *(one for one in papers if isinstance(one, str))),
            )
        )


def closest(bench: Bench) -> tuple[Copied, ...]:
    """Of the user's documents those that share most words with the idea, `PRIOR_PAPERS` at most, in their order."""
    copies, _ = copies_in(bench.folder.context)
    digests = {
        one.sha256: " ".join((one.subject, *(said.text for said in one.statements))).casefold()
        for one in (bench.state.context.documents if bench.state.context is not None else ())
    }
    words = set(re.findall(r"\w{5,}", f"{bench.idea.title} {bench.idea.short_hypothesis}".casefold()))
    ranked = sorted(copies, key=lambda one: -sum(word in digests.get(one.sha256, "") for word in words))
    return tuple(one for one in copies if one in ranked[:PRIOR_PAPERS])


async def fetch(literature: Literature, idea: Idea, queries: Sequence[str], folder: RunFolder, *, most: int) -> None:
    """Fetch full texts of the works that the searches agree on most, or that the idea names, within `REACH` seconds."""
    texts: dict[str, bytes] = {}
    refused: list[str] = []
    named = arxiv_of(" ".join((idea.related_work, idea.abstract, *idea.experiments)))
    found: dict[str, tuple[float, Work | None]] = {named: (-99.0, None)} if named else {}
    try:
        async with asyncio.timeout(REACH):
            for query in queries:
                answer = await literature.search(query, RESULTS)
                refused += [f"{query!r}: {one}" for one in answer.outages]
                for place, work in enumerate(answer.works):
                    if work.arxiv and not work.retracted:
                        found[work.arxiv] = (found.get(work.arxiv, (0.0, work))[0] - 1 / (1 + place), work)
            for identifier, (_, work) in sorted(found.items(), key=lambda one: one[1][0])[: 2 * most]:
                try:
                    text = await literature.pdf(identifier) if literature.pdf is not None else b""
                except SourceError as error:
                    refused.append(f"arXiv:{identifier}: {error}")
                    continue
                if text and len(texts) < most:
                    texts[f"{work.title[:60] if work is not None else 'named'} arXiv {identifier}.pdf"] = text
                if len(texts) == most:
                    break
    except TimeoutError:
        refused.append(f"what was not fetched within {REACH:g} s")
    store(folder.prior, ((name.replace("/", "-"), text) for name, text in texts.items()), refused)


async def read_paper(client: ModelClient, idea: Idea, copied: Copied, folder: RunFolder) -> PriorPaper | str:
    """What a paper used, or why there is nothing to be had from it. Raises `ModelError`."""
    document = await read(copied)
    if isinstance(document, str):
        return document
    answer = await client.usable(
        PRIOR_WORK,
        PriorWorkInputs(idea=idea, file=copied.file, pages=document.pages, unread=document.unread),
        then="the paper stays unread",
    )
    if answer is None or not answer.title.strip():
        return f"{copied.file}: {'the model gave no usable answer' if answer is None else 'no paper with experiments'}"
    text = "\n".join(page.text for page in document.pages)
    sound = tuple(use for use in answer.uses if stands_in(use.quote, text) and named_in(use))
    return PriorPaper(
        title=" ".join(answer.title.split()),
        file=copied.file,
        stored=str(copied.path.relative_to(folder.root)),
        sha256=copied.sha256,
        uses=sound,
        dropped=len(answer.uses) - len(sound),
    )


# --- the plan held against it -----------------------------------------------------------------------------------------


def common_to(prior: PriorWorkRead | None) -> tuple[PriorRow, ...]:
    """What two of the papers or more used."""
    return rows_of(prior.papers) if prior is not None else ()


def unanswered(plan: DataPlan, rows: Sequence[PriorRow], titles: Mapping[str, str]) -> tuple[PriorRow, ...]:
    """The rows that the plan neither has nor tells of; `titles` are those of datasets by name."""
    named = {
        "dataset": [name for use in plan.datasets for name in (use.name, titles.get(use.name, ""), *use.answers)],
        "baseline": [name for arm in plan.arms for name in (arm.name, arm.title, *arm.answers)],
    }
    omitted = [one.name for one in plan.omitted]
    return tuple(
        row for row in rows if not any(name and alike(row.name, name) for name in (*named.get(row.what, ()), *omitted))
    )


def complaint_of(row: PriorRow) -> str:
    """What the planner is told of a row that its plan says nothing of."""
    noun = "a dataset" if row.what == "dataset" else "an arm"
    return (
        f"{len(row.papers)} of the closest papers use the {row.what} {row.name!r}: make it {noun} of the plan, "
        f"name it in the `answers` of the one that it is, or say in `omitted` why the study does without it"
    )


def with_omissions(plan: DataPlan, rows: Sequence[PriorRow]) -> DataPlan:
    """The plan with rows that it says nothing of as printed omissions."""
    said = tuple(Omitted(name=row.name, reason="the plan does not say why") for row in rows)
    return plan.model_copy(update={"omitted": (*plan.omitted, *said)})
