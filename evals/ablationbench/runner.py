"""Run an ablation benchmark: plan for each paper, judge each plan, and judge the controls.

Each model answer is committed to the log in the benchmark's folder under a key of its question. A resumed benchmark
does not repeat committed calls, and keeps its budget. Results are derived from the answers each time, and written
to one file per paper.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import Field, ValidationError

from labwright.evals.ablationbench.data import BenchPaper, Task
from labwright.evals.ablationbench.papers import PlannedAblation, read_plan, read_visible_paper
from labwright.evals.ablationbench.plan_judge import (
    PlanVerdict,
    ask_author_matches,
    ask_review_requests,
    ask_reviewer_matches,
    requests_to_entries,
)
from labwright.evals.ablationbench.planners import (
    MEAN_GOLD_COUNT,
    ask_by_section,
    choose_likely,
    cut_plan,
    plan_from_headings,
    to_entry,
)
from labwright.evals.ablationbench.results import (
    CONTROLS,
    JudgedPlan,
    PaperResult,
    PlanResult,
    PlanSource,
    find_plan_file,
    read_stored_verdict,
)
from labwright.evals.ablationbench.roles import PAPER_ABLATIONS, PaperAblationsInputs, ReviewRequest
from labwright.evals.ablationbench.scores import K_AUTHOR, K_REVIEWER
from labwright.evals.item_loop import store_result
from labwright.models.client import ModelClient, Models
from labwright.models.errors import CatalogueError, ModelConfigError, ModelError, ProviderDown
from labwright.record.event_log import Recorder
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.schema import FrozenModel
from labwright.review.judge.paper_reader import JudgeError

MAX_PARALLEL = 4
"""Papers processed concurrently."""
MODEL_PLANNERS = ("lm", "agent")
FAILURES = (ModelError, JudgeError, OSError, ValidationError, UnicodeDecodeError)


class OpenModels(Protocol):
    """Opens the models of the planner (for None) or of a judge, by name."""

    def __call__(self, judge: str | None, log: Recorder) -> Models: ...


class AblationBenchWork(FrozenModel):
    """The work of a benchmark, which can only be continued with the same options. `plans` and `answers` are folders
    with stored data; with None, models are called."""

    planner: str
    judges: tuple[str, ...]
    k: int | None = None
    plans: Path | None = None
    answers: Path | None = None
    controls: bool = True
    data: str = ""
    split: str = ""
    model: str = Field(default="", description="model of the planner; empty: it has none")

    def max_entries(self, task: Task) -> int:
        return self.k or (K_AUTHOR if task == "author" else K_REVIEWER)


async def run_bench(
    bench: AblationBenchWork, papers: Sequence[BenchPaper], out: Path, log: Recorder, models: OpenModels
) -> list[PaperResult]:
    """Return the results of all papers, in order. Raises `ModelConfigError`."""
    desk, room = _BenchRunner(bench, log, models), asyncio.Semaphore(MAX_PARALLEL)

    async def plan(paper: BenchPaper) -> PlanResult:
        async with room:
            return await desk.make_plan(paper)

    async def judge(at: int) -> PaperResult:
        async with room:
            result = await desk.judge_paper(papers[at], plans[at], _find_other_plan(papers, plans, at))
        store_result(out / result.task / f"{result.id}.json", result)
        return result

    plans = await asyncio.gather(*map(plan, papers))
    return await asyncio.gather(*map(judge, range(len(papers))))


def _find_other_plan(papers: Sequence[BenchPaper], plans: Sequence[PlanResult], at: int) -> tuple[PlannedAblation, ...]:
    """Return the plan of the next paper of the task that has one."""
    order = [*range(at + 1, len(papers)), *range(at)]
    return next((plans[one].entries for one in order if papers[one].task == papers[at].task and plans[one].entries), ())


@dataclass
class _BenchRunner:
    """Makes the model calls of one benchmark."""

    bench: AblationBenchWork
    log: Recorder
    models: OpenModels
    _opened: dict[str | None, Models] = field(default_factory=dict[str | None, Models])

    def open_client(self, judge: str | None, *item: str) -> ModelClient:
        if judge not in self._opened:
            self._opened[judge] = self.models(judge, self.log)
        return self._opened[judge].make_client(item_number(judge or self.bench.planner, *item), 0)

    # --- plans --------------------------------------------------------------------------------------------------------

    async def make_plan(self, paper: BenchPaper) -> PlanResult:
        """Return the plan of a paper: stored, from headings, or from a model."""
        try:
            if self.bench.plans is not None:
                return self._read_stored_plan(paper)
            if self.bench.planner == "headings":
                return cut_plan(await self._plan_from_headings(paper), self.bench.max_entries(paper.task))
            return await self._ask_plan(paper)
        except (ModelConfigError, ProviderDown):
            raise
        except FAILURES as error:
            return PlanResult(state="failed", why=_format_error(error))

    def _read_stored_plan(self, paper: BenchPaper) -> PlanResult:
        path = find_plan_file(self.bench.plans or Path(), paper.task, self.bench.planner, paper.id)
        if path is None:
            return PlanResult(state="missing", why=f"{paper.id}.jsonl does not exist")
        plan = read_plan(path.read_text(encoding="utf-8-sig").splitlines())
        most = self.bench.max_entries(paper.task)
        found = cut_plan(plan.entries, most, faults=plan.faults)
        # stored rows refer to the plan with its repeats
        return found if self.bench.answers is None else found.model_copy(update={"entries": plan.entries[:most]})

    async def _ask_plan(self, paper: BenchPaper) -> PlanResult:
        most = self.bench.max_entries(paper.task)
        seen = await read_visible_paper(paper.folder, show_all=paper.task == "reviewer", already_cut=True)
        inputs = PaperAblationsInputs(
            view=paper.task, title=paper.title, abstract=paper.abstract, paper=seen.shown_paper, most=most
        )
        client = self.open_client(None, paper.task, paper.id)
        if self.bench.planner == "agent":
            answer = await ask_by_section(client, inputs, seen)
        else:
            answer = await client.ask(PAPER_ABLATIONS, inputs)
        wanted = choose_likely(answer.ablations, MEAN_GOLD_COUNT[paper.task])
        return cut_plan([to_entry(one) for one in wanted], most).model_copy(
            update={"took": _sum_costs(self.log, client.decision), "cut": seen.cut, "left_out": inputs.paper.left_out}
        )

    async def _plan_from_headings(self, paper: BenchPaper) -> tuple[PlannedAblation, ...]:
        """Return the plan from the method's headings, if the end of the method is known."""
        try:
            return plan_from_headings(
                await read_visible_paper(paper.folder, show_all=False, already_cut=paper.task == "author")
            )
        except JudgeError:
            return plan_from_headings(await read_visible_paper(paper.folder, show_all=True))

    # --- verdicts -----------------------------------------------------------------------------------------------------

    async def judge_paper(self, paper: BenchPaper, plan: PlanResult, other: tuple[PlannedAblation, ...]) -> PaperResult:
        """Return every judge's verdict on a plan and on the controls."""
        result = PaperResult(task=paper.task, id=paper.id, wanted=paper.target_count, plan=plan)
        if not paper.target_count:
            return result
        whats: list[tuple[PlanSource, tuple[PlannedAblation, ...]]] = (
            [("plan", plan.entries)] if plan.state == "done" else []
        )
        if self.bench.controls and self.bench.answers is None:
            whats += await self._list_controls(paper, other)
        judged = [
            JudgedPlan(
                what=what,
                entries=entries,
                verdicts=tuple([await self._ask_verdict(judge, paper, what, entries) for judge in self.bench.judges]),
            )
            for what, entries in whats
        ]
        return result.model_copy(update={"judged": tuple(judged)})

    async def _list_controls(
        self, paper: BenchPaper, other: tuple[PlannedAblation, ...]
    ) -> list[tuple[PlanSource, tuple[PlannedAblation, ...]]]:
        gold = paper.gold
        if paper.task == "reviewer" and self.bench.judges:
            try:
                gold = requests_to_entries(await self._ask_requests(self.bench.judges[0], paper))
            except FAILURES:
                gold = ()
        named = ()
        if self.bench.planner != "headings":
            try:
                named = cut_plan(await self._plan_from_headings(paper), self.bench.max_entries(paper.task)).entries
            except FAILURES:
                named = ()
        return [(what, entries) for what, entries in zip(CONTROLS, (gold, other, named), strict=True) if entries]

    async def _ask_verdict(
        self, judge: str, paper: BenchPaper, what: PlanSource, entries: tuple[PlannedAblation, ...]
    ) -> PlanVerdict:
        if self.bench.answers is not None:
            return read_stored_verdict(self.bench.answers, judge, self.bench.planner, paper, entries)
        client = self.open_client(judge, paper.task, paper.id, what)
        order, requests = None, ()
        try:
            seed = f"{judge} {paper.id} {what} {self.bench.planner}"
            if paper.task == "author":
                matches, order = await ask_author_matches(client, paper, entries, seed)
            else:
                requests = await self._ask_requests(judge, paper)
                seen = await read_visible_paper(paper.folder, show_all=True)
                matches = await ask_reviewer_matches(client, paper, seen.shown_paper, requests, entries, seed)
        except (ModelConfigError, ProviderDown):
            raise
        except FAILURES as error:
            return PlanVerdict(judge=judge, state="failed", why=_format_error(error))
        cost = _sum_costs(
            self.log,
            client.decision,
            *([item_number(judge, paper.task, paper.id, "requests")] if requests and what == "plan" else []),
        )
        return PlanVerdict(judge=judge, matches=matches, order=order, requests=requests, took=cost)

    async def _ask_requests(self, judge: str, paper: BenchPaper) -> tuple[ReviewRequest, ...]:
        client = self.open_client(judge, paper.task, paper.id, "requests")
        return await ask_review_requests(client, paper, f"{judge} {paper.id}")


def item_number(*item: str) -> int:
    """Return the stable number under which the answers on an item are stored."""
    return int.from_bytes(hashlib.sha256("\0".join(item).encode()).digest()[:7], "big")


def _sum_costs(log: Recorder, *decisions: int) -> RoleUsage:
    """Return the cost of the answers on some items."""
    answers = [one for key, one in log.state.calls.answers.items() if key.decision in decisions]
    usages = [one.usage for one in answers]
    return RoleUsage(
        calls=len(answers),
        input_tokens=sum(one.input_tokens for one in usages),
        output_tokens=sum(one.output_tokens for one in usages),
        usd=sum(one.usd or 0.0 for one in usages),
        unpriced=sum(one.usd is None for one in usages),
        seconds=sum(one.seconds for one in answers),
    )


def _format_error(error: BaseException) -> str:
    kind = "" if isinstance(error, JudgeError | CatalogueError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split())[:600]
