"""The work on a bench of plans: each paper planned, each plan judged, and the controls judged beside it.

A model's answer is committed to the log of the bench's folder when it comes, under a key of its own question; a bench
that goes on asks no committed answer again, and keeps its budget. What is read from answers is put together anew each
time, and written as a file a paper.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import ValidationError

from labwright.evals.ablationbench.data import BenchPaper, Task
from labwright.evals.ablationbench.entries import Entry, read_plan
from labwright.evals.ablationbench.judging import Verdict, as_entries, author_matches, review_requests, reviewer_matches
from labwright.evals.ablationbench.papers import Visible, visible
from labwright.evals.ablationbench.planning import (
    USUAL_GOLD,
    Planned,
    asked,
    asked_by_section,
    cut,
    entry,
    headings,
    likely,
)
from labwright.evals.ablationbench.results import CONTROLS, Judged, PaperResult, PlanResult, What
from labwright.evals.ablationbench.scores import K_AUTHOR, K_REVIEWER
from labwright.evals.ablationbench.stored import plan_file, stored_verdict
from labwright.models.client import ModelClient, Models
from labwright.models.errors import CatalogueError, ModelConfigError, ModelError
from labwright.models.roles.ablations import PaperAblationsInputs, ReviewRequest
from labwright.record.events.running import Answered
from labwright.record.folder import write_file
from labwright.record.log import Recorder
from labwright.review.judge import JudgeError

AT_ONCE = 4
"""Papers that are worked on at the same time."""
MODELS_PLAN = ("lm", "agent")
FAILURES = (ModelError, JudgeError, OSError, ValidationError, UnicodeDecodeError)
Found = TypeVar("Found")


class OpenModels(Protocol):
    """Opens the models of a role: those of the planner for None, else of a judge by its name."""

    def __call__(self, judge: str | None, log: Recorder) -> Models: ...


@dataclass(frozen=True)
class Work:
    """What a bench does. `plans` and `answers` are folders of what is stored; None: models are asked."""

    planner: str
    judges: tuple[str, ...]
    k: int | None = None
    plans: Path | None = None
    answers: Path | None = None
    controls: bool = True

    def most(self, task: Task) -> int:
        return self.k or (K_AUTHOR if task == "author" else K_REVIEWER)


async def work(
    bench: Work, papers: Sequence[BenchPaper], out: Path, log: Recorder, models: OpenModels
) -> list[PaperResult]:
    """The results of all papers, in their order. Raises `ModelConfigError`."""
    desk = _Desk(bench, log, models)
    room = asyncio.Semaphore(AT_ONCE)

    async def limited(asking: Callable[[int], Awaitable[Found]], at: int) -> Found:
        async with room:
            return await asking(at)

    async def plan(at: int) -> PlanResult:
        return await desk.planned(papers[at])

    async def judge(at: int) -> PaperResult:
        result = await desk.judged(papers[at], plans[at], _other(papers, plans, at))
        folder = out / papers[at].task
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / f"{papers[at].id}.json", result.model_dump_json(indent=1) + "\n")
        return result

    plans = await asyncio.gather(*(limited(plan, at) for at in range(len(papers))))
    return await asyncio.gather(*(limited(judge, at) for at in range(len(papers))))


def _other(papers: Sequence[BenchPaper], plans: Sequence[PlanResult], at: int) -> tuple[Entry, ...]:
    """The plan of the next paper of the task that has one."""
    order = [*range(at + 1, len(papers)), *range(at)]
    return next((plans[one].entries for one in order if papers[one].task == papers[at].task and plans[one].entries), ())


@dataclass
class _Desk:
    """Asks for one bench."""

    bench: Work
    log: Recorder
    models: OpenModels
    _opened: dict[str | None, Models] = field(default_factory=dict[str | None, Models])
    _answers: dict[int, list[Answered]] = field(default_factory=dict[int, list[Answered]])

    def client(self, judge: str | None, *item: str) -> ModelClient:
        if judge not in self._opened:
            self._opened[judge] = self.models(judge, self.log)
        return self._opened[judge].at(number_of(judge or self.bench.planner, *item), 0)

    # --- plans --------------------------------------------------------------------------------------------------------

    async def planned(self, paper: BenchPaper) -> PlanResult:
        """The plan of a paper: stored, made of headings, or asked for."""
        began = time.monotonic()
        try:
            if self.bench.plans is not None:
                return self._stored(paper)
            if self.bench.planner == "headings":
                found = cut(await self._headings(paper), self.bench.most(paper.task))
                return _result(found, time.monotonic() - began)
            return await self._asked(paper)
        except ModelConfigError:
            raise
        except FAILURES as error:
            return PlanResult(state="failed", why=_why(error))

    def _stored(self, paper: BenchPaper) -> PlanResult:
        path = plan_file(self.bench.plans or Path(), paper.task, self.bench.planner, paper.id)
        if path is None:
            return PlanResult(state="missing", why=f"there is no plan {paper.id}.jsonl")
        plan = read_plan(path.read_text(encoding="utf-8-sig").splitlines())
        if self.bench.answers is not None:  # stored rows are about the plan as it was judged: cut, with its repeats
            most = self.bench.most(paper.task)
            whole = cut(plan.entries, most, faults=plan.faults)
            return _result(Planned(plan.entries[:most], whole.repeats, plan.entries[most:], plan.faults), 0.0)
        return _result(cut(plan.entries, self.bench.most(paper.task), faults=plan.faults), 0.0)

    async def _asked(self, paper: BenchPaper) -> PlanResult:
        most = self.bench.most(paper.task)
        seen = await _seen(paper)
        inputs = PaperAblationsInputs(
            view=paper.task, title=paper.title, abstract=paper.abstract, paper=seen.shown, most=most
        )
        client = self.client(None, paper.task, paper.id)
        answer = await (
            asked_by_section(client, inputs, seen) if self.bench.planner == "agent" else asked(client, inputs)
        )
        wanted = likely(answer.ablations, USUAL_GOLD[paper.task])
        found = cut([entry(one) for one in wanted], most)
        dropped = tuple(entry(one) for one in answer.ablations[len(wanted) :])
        return _result(Planned(found.entries, found.repeats, (*found.beyond, *dropped)), None).model_copy(
            update={
                **_took(self.log, client.decision),
                "cut": seen.cut,
                "left_out": inputs.paper.left_out,
                "probabilities": tuple(one.probability for one in answer.ablations),
            }
        )

    async def _headings(self, paper: BenchPaper) -> tuple[Entry, ...]:
        """By the method alone, where its end can be told."""
        try:
            return headings(await visible(paper.folder, whole=False, already_cut=paper.task == "author"))
        except JudgeError:
            return headings(await visible(paper.folder, whole=True))

    # --- verdicts -----------------------------------------------------------------------------------------------------

    async def judged(self, paper: BenchPaper, plan: PlanResult, other: tuple[Entry, ...]) -> PaperResult:
        """What every judge says of a plan and of the controls."""
        result = PaperResult(task=paper.task, id=paper.id, wanted=paper.wanted, plan=plan)
        if not paper.wanted:
            return result
        whats: list[tuple[What, tuple[Entry, ...]]] = [("plan", plan.entries)] if plan.state == "done" else []
        if self.bench.controls and self.bench.answers is None:
            whats += await self._controls(paper, other)
        judged = [
            Judged(
                what=what,
                entries=entries,
                verdicts=tuple([await self._verdict(judge, paper, what, entries) for judge in self.bench.judges]),
            )
            for what, entries in whats
        ]
        return result.model_copy(update={"judged": tuple(judged)})

    async def _controls(self, paper: BenchPaper, other: tuple[Entry, ...]) -> list[tuple[What, tuple[Entry, ...]]]:
        found: list[tuple[What, tuple[Entry, ...]]] = []
        gold = paper.gold
        if paper.task == "reviewer" and self.bench.judges:
            try:
                gold = as_entries(await self._requests(self.bench.judges[0], paper))
            except FAILURES:
                gold = ()
        named = ()
        if self.bench.planner != "headings":
            try:
                named = cut(await self._headings(paper), self.bench.most(paper.task)).entries
            except FAILURES:
                named = ()
        for what, entries in zip(CONTROLS, (gold, other, named), strict=True):
            if entries:
                found.append((what, entries))
        return found

    async def _verdict(self, judge: str, paper: BenchPaper, what: What, entries: tuple[Entry, ...]) -> Verdict:
        if self.bench.answers is not None:
            return stored_verdict(self.bench.answers, judge, self.bench.planner, paper, entries)
        client = self.client(judge, paper.task, paper.id, what)
        order, requests = None, ()
        try:
            if paper.task == "author":
                seed = f"{judge} {paper.id} {what} {self.bench.planner}"
                matches, order = await author_matches(client, paper, entries, seed)
            else:
                requests = await self._requests(judge, paper)
                seen = await visible(paper.folder, whole=True)
                matches = await reviewer_matches(client, paper, seen.shown, requests, entries)
        except ModelConfigError:
            raise
        except FAILURES as error:
            return Verdict(judge=judge, state="failed", why=_why(error))
        took = _took(
            self.log,
            client.decision,
            *([number_of(judge, paper.task, paper.id, "requests")] if requests and what == "plan" else []),
        )
        return Verdict(judge=judge, matches=matches, order=order, requests=requests, **took)  # pyright: ignore

    async def _requests(self, judge: str, paper: BenchPaper) -> tuple[ReviewRequest, ...]:
        return await review_requests(self.client(judge, paper.task, paper.id, "requests"), paper)


async def _seen(paper: BenchPaper) -> Visible:
    return await visible(paper.folder, whole=paper.task == "reviewer", already_cut=True)


def number_of(*item: str) -> int:
    """The number under which the answers on an item are kept: the same in every call of the bench."""
    return int.from_bytes(hashlib.sha256("\0".join(item).encode()).digest()[:7], "big")


def _took(log: Recorder, *decisions: int) -> dict[str, float]:
    """What the answers on some items took."""
    answers = [one for key, one in log.state.answers.items() if key.decision in decisions]
    usages = [one.usage for one in answers]
    return {
        "calls": len(answers),
        "usd": sum(one.usd or 0.0 for one in usages),
        "unpriced": sum(one.usd is None for one in usages),
        "seconds": sum(one.seconds for one in answers),
        "tokens": sum(one.input_tokens + one.output_tokens for one in usages),
    }


def _result(plan: Planned, seconds: float | None) -> PlanResult:
    return PlanResult(
        entries=plan.entries,
        repeats=tuple(f"{one.entry.name} = {one.like}" for one in plan.repeats),
        beyond=len(plan.beyond),
        faults=plan.faults,
        seconds=seconds or 0.0,
    )


def _why(error: BaseException) -> str:
    kind = "" if isinstance(error, JudgeError | CatalogueError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split())[:600]
