"""The review of a data plan by a second role, before any code is written: findings, answers, and open findings.

Guarantees: at most `MAX_REVIEW_CALLS` calls of the reviewer and `MAX_AMEND_CALLS` of the planner (`stages.settings`);
an amended plan is used only if it can be carried out; a finding never ends a run. Limits: the reviewer may miss faults.
A model other than the planner's finds more (`models.roles.protocol_review.name`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from labwright.literature import CatalogueAnswerError
from labwright.literature.lookup import LiteratureClient
from labwright.literature.works import PublishedWork, find_arxiv_id
from labwright.models.client import ModelClient
from labwright.models.roles.study_plan import (
    PRIOR_SEARCH,
    PRIOR_WORK,
    PROTOCOL_REVIEW,
    PriorSearchInputs,
    PriorWorkInputs,
    ProtocolReviewInputs,
)
from labwright.record.estimands import EstimandError, describe_estimand
from labwright.record.events.paper_events import PriorWorkRead
from labwright.record.events.search_events import REVIEW_AUTHOR, PlanAmended, ProtocolReviewed
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import FindingAnswer, ProtocolFinding, ReviewedFinding
from labwright.record.schema.idea import Idea
from labwright.record.schema.prior_work import (
    OmittedPriorWork,
    PriorPaper,
    SharedPriorUse,
    is_named_in_quote,
    is_same_name,
)
from labwright.review.judge.paper_reader import quote_is_in
from labwright.stages.run_context import RunContext
from labwright.stages.settings import MAX_PRIOR_PAPERS
from labwright.stages.user_documents import LIST_FILE, DocumentCopy, read_copies, read_document, store_documents

AmendPlan = Callable[
    [DataPlan, tuple[ProtocolFinding, ...]], Awaitable[tuple[DataPlan | None, tuple[FindingAnswer, ...]]]
]
"""Returns an amended plan with the answers to findings; None if no usable plan was obtained."""


async def review_plan(
    client: ModelClient,
    inputs: ProtocolReviewInputs,
    amend: AmendPlan | None,
    describe_hours: Callable[[DataPlan], tuple[str, ...]],
) -> tuple[ProtocolReviewed, DataPlan]:
    """Review the plan; return the findings, and the plan, which is unchanged if `amend` is None.

    `describe_hours` returns lines that say what a plan can decide in the run's time.

    Raises: `ModelError`, but never because of a finding.
    """
    plan = inputs.data_plan
    outcome = ProtocolReviewed(reviewer=client.get_model_name(PROTOCOL_REVIEW), reviewed=plan)
    first = inputs.model_copy(update={"hours": describe_hours(plan)})
    review = await client.ask_or_none(PROTOCOL_REVIEW, first, instead="the plan is not reviewed")
    if review is None:
        return outcome.model_copy(update={"why": "the reviewer gave no usable answer"}), plan
    if not review.findings:
        return outcome, plan
    amended, answers = await amend(plan, review.findings) if amend is not None else (None, ())
    why = "the planner gave no feasible plan that answers it" if amended is None else ""
    if amend is None:
        why = "the plan was given by the user and is not amended"
    findings = match_answers(review.findings, answers, changed=amended not in (None, plan), why=why)
    if amended is not None and any(one.answer for one in findings):
        update = {"data_plan": amended, "estimands": describe_estimands(amended), "hours": describe_hours(amended)}
        again = await client.ask_or_none(
            PROTOCOL_REVIEW,
            inputs.model_copy(update={**update, "answered": findings}),
            instead="answered findings count as closed",
        )
        upheld = {one.finding: one.why for one in again.upheld} if again is not None else {}
        findings = tuple(
            one.model_copy(update={"open": one.open or upheld.get(number, "")})
            for number, one in enumerate(findings, 1)
        )
    if amended is None or amended == plan:
        return outcome.model_copy(update={"findings": findings}), plan
    amendment = PlanAmended(
        number=1,
        data_plan=amended,
        by=REVIEW_AUTHOR,
        seen="no result: before any code was written",
        why="; ".join(one.answer for one in findings if one.changed) or "findings of the protocol review",
    )
    return outcome.model_copy(update={"findings": findings, "amendment": amendment}), amended


def match_answers(
    findings: Sequence[ProtocolFinding], answers: Sequence[FindingAnswer], *, changed: bool, why: str
) -> tuple[ReviewedFinding, ...]:
    """Pair each finding with its answer; findings without an answer, or with a claimed change that was not made,
    are open.
    """
    answer_by_number = {one.finding: one for one in answers}
    reviewed: list[ReviewedFinding] = []
    for number, finding in enumerate(findings, 1):
        answer = answer_by_number.get(number)
        claims_change = answer is not None and answer.changed
        lacking = why or ("it was not answered" if answer is None else "")
        if not lacking and claims_change and not changed:
            lacking = "the answer says that it is fixed, but the plan is unchanged"
        reviewed.append(
            ReviewedFinding(
                **finding.model_dump(),
                answer=answer.reason if answer is not None else "",
                open=lacking,
                changed=claims_change and changed,
            )
        )
    return tuple(reviewed)


def describe_estimands(plan: DataPlan) -> dict[str, str]:
    """Return every estimand of the plan's hypotheses with a description of the quantity that it estimates."""
    descriptions: dict[str, str] = {}
    for one in plan.hypotheses:
        for part in (*one.effects, *one.alternatives, *([one.rival] if one.rival is not None else [])):
            try:
                descriptions[part.estimand] = describe_estimand(part.estimand, plan)
            except EstimandError as error:
                descriptions[part.estimand] = str(error)
    return descriptions


# Before planning, extract what the closest papers used into a table, from user documents and open arXiv full texts.
# Guarantees: at most `MAX_PRIOR_PAPERS` papers, and `FETCH_SECONDS` seconds for all searches and downloads; downloads
# are kept in the run's folder, so that a resumed run reads the same texts; an entry whose quote is not in the text is
# dropped and counted. If no paper was read, `PaperState.prior_work` is None or `unread`, and the appendix of the
# paper says so. Limits: the closest papers may not be found or open; a quote may not mean what its entry says; names
# count as different unless `record.schema.prior_work.is_same_name` matches them.

MAX_QUERIES = 3
RESULTS_PER_QUERY = 8
"""Maximum number of works per query."""
FETCH_SECONDS = 120.0
"""Time limit in seconds for all searches and full texts together."""


async def read_prior_work(context: RunContext, client: ModelClient) -> None:
    """Record once per run what the closest papers used. Raises `ModelError`."""
    user_documents = select_closest_documents(context)
    home, queries = context.folder.prior_papers, tuple[str, ...]()
    if context.literature is not None and len(user_documents) < MAX_PRIOR_PAPERS:
        search = await client.ask_or_none(
            PRIOR_SEARCH, PriorSearchInputs(idea=context.idea, most=MAX_QUERIES), instead="no papers are searched for"
        )
        queries = search.queries[:MAX_QUERIES] if search is not None else ()
        if queries and not (home / LIST_FILE).exists():
            async with context.literature() as literature:
                room = MAX_PRIOR_PAPERS - len(user_documents)
                await fetch_full_texts(literature, context.idea, queries, context.folder, limit=room)
    fetched, refused = read_copies(home)
    papers = [await read_paper(client, context.idea, one, context.folder) for one in (*user_documents, *fetched)]
    if context.state.paper.prior_work is None and (queries or papers):
        context.recorder.append(
            PriorWorkRead(
                papers=tuple(one for one in papers if isinstance(one, PriorPaper)),
                queries=queries,
                refused=(*refused, *(one for one in papers if isinstance(one, str))),
            )
        )


def select_closest_documents(context: RunContext) -> tuple[DocumentCopy, ...]:
    """Return the `MAX_PRIOR_PAPERS` user documents that share the most words with the idea, in their original order."""
    copies, _ = read_copies(context.folder.context)
    digests = {
        one.sha256: " ".join((one.subject, *(statement.text for statement in one.statements))).casefold()
        for one in (context.state.paper.context.documents if context.state.paper.context is not None else ())
    }
    words = set(re.findall(r"\w{5,}", f"{context.idea.title} {context.idea.short_hypothesis}".casefold()))
    ranked = sorted(copies, key=lambda one: -sum(word in digests.get(one.sha256, "") for word in words))
    return tuple(one for one in copies if one in ranked[:MAX_PRIOR_PAPERS])


async def fetch_full_texts(
    literature: LiteratureClient, idea: Idea, queries: Sequence[str], folder: RunFolder, *, limit: int
) -> None:
    """Fetch full texts of works that the idea names or the searches rank highest, within `FETCH_SECONDS` seconds."""
    texts: dict[str, bytes] = {}
    refused: list[str] = []
    named = find_arxiv_id(" ".join((idea.related_work, idea.abstract, *idea.experiments)))
    works_by_id: dict[str, tuple[float, PublishedWork | None]] = {named: (-99.0, None)} if named else {}
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            for query in queries:
                answer = await literature.search(query, RESULTS_PER_QUERY)
                refused += [f"{query!r}: {one}" for one in answer.outages]
                for place, work in enumerate(answer.works):
                    if work.arxiv and not work.retracted:
                        works_by_id[work.arxiv] = (works_by_id.get(work.arxiv, (0.0, work))[0] - 1 / (1 + place), work)
            for identifier, (_, work) in sorted(works_by_id.items(), key=lambda one: one[1][0])[: 2 * limit]:
                try:
                    text = await literature.download_pdf(identifier) if literature.download_pdf is not None else b""
                except CatalogueAnswerError as error:
                    refused.append(f"arXiv:{identifier}: {error}")
                    continue
                if text and len(texts) < limit:
                    texts[f"{work.title[:60] if work is not None else 'named'} arXiv {identifier}.pdf"] = text
                if len(texts) == limit:
                    break
    except TimeoutError:
        refused.append(f"the remaining papers: not fetched within {FETCH_SECONDS:g} s")
    store_documents(folder.prior_papers, ((name.replace("/", "-"), text) for name, text in texts.items()), refused)


async def read_paper(client: ModelClient, idea: Idea, source_copy: DocumentCopy, folder: RunFolder) -> PriorPaper | str:
    """Return the items that a paper used, or why it could not be read. Raises `ModelError`."""
    document = await read_document(source_copy)
    if isinstance(document, str):
        return document
    answer = await client.ask_or_none(
        PRIOR_WORK,
        PriorWorkInputs(idea=idea, file=source_copy.file, pages=document.pages, unread=document.unread_chars),
        instead="the paper is not read",
    )
    if answer is None or not answer.title.strip():
        why = "the model gave no usable answer" if answer is None else "it is not a paper with experiments"
        return f"{source_copy.file}: {why}"
    text = "\n".join(page.text for page in document.pages)
    sound = tuple(use for use in answer.uses if quote_is_in(use.quote, text) and is_named_in_quote(use))
    return PriorPaper(
        title=" ".join(answer.title.split()),
        file=source_copy.file,
        stored=str(source_copy.path.relative_to(folder.root)),
        sha256=source_copy.sha256,
        uses=sound,
        dropped=len(answer.uses) - len(sound),
    )


# --- comparison with the plan -----------------------------------------------------------------------------------------


def find_unanswered_rows(
    plan: DataPlan, rows: Sequence[SharedPriorUse], titles: Mapping[str, str]
) -> tuple[SharedPriorUse, ...]:
    """Return the rows that the plan neither covers nor explains; `titles` are dataset titles by name."""
    named = {
        "dataset": [name for use in plan.datasets for name in (use.name, titles.get(use.name, ""), *use.answers)],
        "baseline": [name for arm in plan.arms for name in (arm.name, arm.title, *arm.answers)],
    }
    omitted = [one.name for one in plan.omitted]
    return tuple(
        row
        for row in rows
        if not any(name and is_same_name(row.name, name) for name in (*named.get(row.what, ()), *omitted))
    )


def format_complaint(row: SharedPriorUse) -> str:
    """Return the complaint about a row that the plan does not mention."""
    return (
        f"{len(row.papers)} of the closest papers use the {row.what} {row.name!r}: make it "
        f"{'a dataset' if row.what == 'dataset' else 'an arm'} of the plan, list it in the `answers` of the entry that "
        "matches it, or explain in `omitted` why the study leaves it out"
    )


def add_omissions(plan: DataPlan, rows: Sequence[SharedPriorUse]) -> DataPlan:
    """Return the plan, with rows that it does not mention added as omissions to be printed."""
    added = tuple(OmittedPriorWork(name=row.name, reason="the plan does not say why") for row in rows)
    return plan.model_copy(update={"omitted": (*plan.omitted, *added)})
