"""`python -m benchmarks.budget --out FILE`: what runs spend and reach under caps from $2 to $50.

Whole runs are simulated call by call. Budget, table of costs, retries, ledger and record are the real ones; models,
experiments and TeX are simulated. A prompt and an answer have the role's typical size times a spread between runs and
between calls. Answers fail their schema, are truncated, time out and are billed all the same, and are passed on to a
substitute at three times the price; calls run at once, nodes are killed in a call, and processes die in a call and
are resumed. Some models write three times as much, some always up to their limit. The provider's bill counts every
request. Exits 1 if a bill or a record exceeds its cap, or if fewer than 95 of 100 runs at $10 get a paper by a model.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median
from typing import Any

from pydantic import BaseModel

from benchmarks.report import make_parser, print_report
from benchmarks.scripted_study import IDEA, PLAN
from labwright.agent.forecast import build_cost_table, check_budget
from labwright.agent.settings import Settings, compose_settings
from labwright.models import budget as budget_layer
from labwright.models.backend import Backend, ModelRequest, Prompt, Reply
from labwright.models.budget import Budget
from labwright.models.client import Models
from labwright.models.errors import (
    UNUSABLE_ANSWER_ERRORS,
    AnswerCut,
    BudgetSpent,
    ModelConfigError,
    ModelOutputInvalid,
    ModelUnavailable,
)
from labwright.models.retry import Retry
from labwright.models.roles import ROLES
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn, PaperJudged, PaperReleased
from labwright.record.events.run_events import CallUnanswered, LimitReached, RunResumed, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    PlanPrepared,
    StageSummarised,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    MISSING_ABLATIONS_TASK,
    PROBE_TASK,
    CallKey,
    ExpandTree,
    RunTask,
    TokenUsage,
    build_summary_task,
)
from labwright.record.schema.nodes import STAGES, Attempt, NodeStatus, StageName, StageSummary, format_node_id
from labwright.record.schema.paper import PaperDraft, Section
from labwright.stages.cost_table import COPY_EDIT_TASK, CostTable, format_claims_task, format_figure_review_task
from labwright.stages.run_context import decision_number

CAPS = (2, 3, 5, 7.5, 10, 15, 20, 30, 50)
CHARACTERS_PER_TOKEN = 3.5
INVALID_RATE, TIMEOUT_RATE, OUTAGE_RATE, KILL_RATE, DEATH_RATE = 0.04, 0.01, 0.02, 0.01, 0.003
"""Probabilities: of a request, that its answer does not fit or that it times out; of a call, that the first model is
down, that its node is killed by the user, that the process dies."""
GOOD_RATE = 0.7
"""Probability that a node works."""
MODEL, SUBSTITUTE = "vllm:first", "vllm:substitute"
PRICES = {MODEL: {"input": 3.0, "output": 15.0}, SUBSTITUTE: {"input": 9.0, "output": 45.0}}
WRITERS = {"usual": 0.85, "three times as long": 0.1, "up to its limit": 0.05}


class Died(BaseException):
    """The process died in a call."""


class Answer(BaseModel):
    """An answer of any role."""

    text: str = ""


class Provider(Backend):
    """Answers requests and keeps the bill."""

    def __init__(self, settings: ModelSettings, rng: Random, writer: str) -> None:
        super().__init__(MODEL)
        self._settings, self._rng, self._writer = settings, rng, writer
        self.bill = 0.0
        self.calls = 0
        self._spread = rng.lognormvariate(0.0, 0.3)

    async def answer(self, request: ModelRequest) -> Reply:
        """Raises: `ModelError`, `Died`."""
        self.calls += 1
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        lost = TokenUsage(usd=0.0, cached_usd=0.0)
        if self._rng.random() < OUTAGE_RATE:  # times out at the first model, which may bill it
            lost = self._bill(MODEL, request, self._rng.randrange(request.max_tokens))
            if not self._settings.fallbacks:
                error = ModelUnavailable("down")
                error.billed, error.lost = True, lost
                raise error
            return await self._exchange(SUBSTITUTE, request, lost)
        return await self._exchange(MODEL, request, lost)

    async def _exchange(self, model: str, request: ModelRequest, used: TokenUsage) -> Reply:
        tries, late = (1, 0) if request.single else (1 + self._settings.output_retries, self._settings.retries)
        read = self._count_prompt(request)
        for number in range(tries):
            while self._rng.random() < TIMEOUT_RATE:
                used += self._bill(model, request, self._rng.randrange(request.max_tokens), read)
                if late == 0:
                    error = ModelUnavailable("slow")
                    error.billed, error.lost = True, used
                    raise error
                late -= 1
            written = self._draw_answer(request)
            used += self._bill(model, request, written, read, counted=True)
            if self._rng.random() < DEATH_RATE:
                raise Died
            if written == request.max_tokens and request.cuts == 0 and self._writer != "up to its limit":
                raise AnswerCut("cut", tokens=request.max_tokens, usage=used, retries=number)
            if self._rng.random() >= INVALID_RATE:
                return Reply(output=Answer(), usage=used, model=model)
            read += written + 300
        raise ModelOutputInvalid("no answer fits the schema")

    def _count_prompt(self, request: ModelRequest) -> int:
        return round(len(request.prompt.user) / CHARACTERS_PER_TOKEN) + 300

    def _draw_answer(self, request: ModelRequest) -> int:
        if self._writer == "up to its limit":
            return request.max_tokens
        likely = request.role.likely_tokens[1] * (3 if self._writer == "three times as long" else 1)
        return min(request.max_tokens, round(likely * self._spread * self._rng.lognormvariate(0.0, 0.5)))

    def _bill(
        self, model: str, request: ModelRequest, written: int, read: int = 0, *, counted: bool = False
    ) -> TokenUsage:
        """Add a request to the bill and return its usage: of one without a response, the maximum."""
        price, read = PRICES[model], read or self._count_prompt(request)
        self.bill += (price["input"] * read + price["output"] * written) / 1e6
        if not counted:
            read, written = budget_layer.estimate_prompt_tokens(request), request.max_tokens
        usd = (price["input"] * read + price["output"] * written) / 1e6
        return TokenUsage(input_tokens=read, output_tokens=written, usd=usd, cached_usd=0.0)


@dataclass
class SimulatedRun:
    """One run; `work` goes on from its record."""

    settings: Settings
    rng: Random
    provider: Provider
    log: MemoryLog
    left_out: Counter[str] = field(default_factory=Counter[str])
    written_by: str = ""
    overspent: bool = False

    def __post_init__(self) -> None:
        self.table: CostTable = build_cost_table(self.settings)
        self.budget = Budget(self.settings.budget, self.log, self.settings.models, self.table)
        retry = Retry(self.settings.models, lambda _: None, sleep=self._skip)
        self.models = Models(
            self.provider, self.log, self.settings.models, lambda: 0.0, retry=retry, budget=self.budget
        )
        self.asked = Counter[tuple[int, str]]()

    async def _skip(self, _: float) -> None:
        await asyncio.sleep(0)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def ask(self, k: int, name: str) -> bool:
        """Ask a role; return whether there is an answer. Raises `BudgetSpent`, `Died`."""
        role = replace(ROLES[name], check=None, choose_output=None)  # placeholder inputs and answers fit no check
        key = CallKey(decision=k, attempt=0, role=name, ordinal=self.asked[k, name])
        self.asked[k, name] += 1
        size = Random(f"{self.settings.seed}/{key}").lognormvariate(0.0, 0.3) * role.likely_tokens[0]
        text = "x" * round(size * CHARACTERS_PER_TOKEN)
        request = ModelRequest(
            role=role,
            inputs=Answer(),
            prompt=Prompt(system="", user=text),
            output_type=Answer,
            max_tokens=self.settings.models.get_max_tokens(role),
        )

        try:
            await self.models.answer_request(key, request)
        except UNUSABLE_ANSWER_ERRORS as error:
            self.log.append(CallUnanswered(key=key, why=str(error), then=""))
            return False
        except BudgetSpent as error:
            self.left_out[name] += 1
            if not error.optional:
                raise
            return False
        finally:
            cap = self.settings.budget.usd or math.inf
            self.overspent = self.overspent or max(self.log.state.calls.spent_cost.usd, self.provider.bill) > cap + 1e-9
        return True

    async def run_task(self, task: str, work: Callable[[int], Awaitable[None]]) -> None:
        if not self.log.state.is_task_done(task):
            k = decision_number(self.log, RunTask(task=task))
            await work(k)
            self.log.append(TaskDone(k=k))

    async def ask_all(self, task: str, *names: str) -> None:
        """Ask roles in turn in a task, each of which the run can do without."""

        async def work(k: int) -> None:
            for name in names:
                await self.ask(k, name)

        await self.run_task(task, work)

    # --- the run ------------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Do what is left of the run. Raises `BudgetSpent` without a plan; `Died`."""
        state = self.log.state
        if state.search.data_plan is None:
            await self.run_task("prepare", self._prepare)
        for stage in STAGES:
            if state.search.stages[stage].summary is None:
                await self._search(stage, self.table.search.find_limits(stage).nodes)
        if not any(node.status == "good" for node in state.nodes.values()):
            return
        ablated = sum(node.stage == "ablation" and node.status == "good" for node in state.nodes.values())
        await self.ask_all(PROBE_TASK, *["code_reader"] * (1 + ablated))
        await self.ask_all("score tests")
        await self.run_task("figures", self._draw)
        await self.run_task("write", self._write)
        if state.limit_reason is None:
            await self.ask_all("cite", *["cite_ask", "cite_select"] * 2)
        for number in range(self.rng.choice((2, 3))):
            await self._check(number)
            await self.ask_all("reflect", "reflect")
        await self.run_task("reflect over", self._finish_draft)
        if state.limit_reason is None:
            await self.run_task(MISSING_ABLATIONS_TASK.task, self._ablate_late)
        await self.ask_all(COPY_EDIT_TASK, "copy_edit")
        await self._check(9)
        self.log.append(PaperReleased(released=True, pdf=None))
        await self.ask_all("judge", "influence", "influence", "judge")
        self.log.append(PaperJudged())

    async def _prepare(self, k: int) -> None:
        for name in ("prior_search", *["prior_work"] * 3):
            await self.ask(k, name)
        for _ in range(3):
            if await self.ask(k, "plan"):
                break
        for name in ("protocol_review", "plan", "protocol_review"):
            await self.ask(k, name)
        self.log.append(PlanPrepared(data_plan=PLAN, datasets=()))

    async def _search(self, stage: StageName, most: int) -> None:
        """Run the nodes of a stage, a few at once, then report on it."""
        state, likely = self.log.state, {"preliminary": 5, "tuning": 0, "agenda": 12, "ablation": 6}[stage]
        if stage == "ablation":
            await self.ask_all(ABLATION_PLAN_TASK.task, "ablation_plan")
        begun = [
            k
            for k, one in state.decisions.items()
            if isinstance(one.action, ExpandTree) and one.action.stage == stage and k not in state.finished_decisions
        ]
        running = {asyncio.create_task(self._expand(k)) for k in begun}
        while True:
            made = sum(
                isinstance(one.action, ExpandTree) and one.action.stage == stage for one in state.decisions.values()
            )
            works = any(node.status == "good" for node in state.nodes.values())
            action = ExpandTree(stage=stage, kind="improve" if works else "draft", seed=0, ordinal=made)
            wanted = state.limit_reason is None and made < (likely if works else most if likely else 0)
            lacking = self.budget.find_shortage(action) if wanted else None
            if wanted and lacking is None and len(running) < 4:
                k = state.last_decision + 1
                self.log.append(DecisionMade(k=k, action=action))
                running.add(asyncio.create_task(self._expand(k)))
            elif running:
                running = await wait_for_one(running)
            elif lacking is not None:
                self.log.append(LimitReached(reason=lacking))
            else:
                break
        best = next((name for name, node in state.nodes.items() if node.status == "good"), None)
        self.log.append(StageWinnerChosen(stage=stage, best=best, ended="over"))

        async def report(k: int) -> None:
            await self.ask(k, "summary")
            self.log.append(StageSummarised(k=k, summary=StageSummary(stage=stage, tried="", found="")))

        await self.run_task(build_summary_task(stage).task, report)

    async def _expand(self, k: int) -> None:
        node = format_node_id(k)
        found: NodeStatus = "good" if Random(f"{self.settings.seed}/{k}").random() < GOOD_RATE else "buggy"
        if self.rng.random() < KILL_RATE:
            task = asyncio.ensure_future(self.ask(k, "code"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            found = "cancelled"
        else:
            try:
                found = found if await self._write_and_judge(k, node) else "buggy"
            except BudgetSpent:
                found = "cancelled"
        if node not in self.log.state.nodes:
            self._propose(k, node)
        self.log.append(NodeJudged(node=node, status=found))

    async def _write_and_judge(self, k: int, node: str) -> bool:
        if not await self.ask(k, "code"):
            return False
        if node not in self.log.state.nodes:
            self._propose(k, node)
            self.log.append(AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=1)))
        await self.ask(k, "vision")
        if Random(f"{self.settings.seed}/{k}/plot").random() < 0.3:
            await self.ask(k, "plot")
            await self.ask(k, "vision")
        return await self.ask(k, "feedback")

    def _propose(self, k: int, node: str) -> None:
        self.log.append(NodeProposed(node=node, decision=k, title="", plan="", varies="", source_sha256=""))

    async def _draw(self, k: int) -> None:
        for name in ("figures", "vision") * 2:
            await self.ask(k, name)
        self.log.append(FiguresDrawn(figures={}, descriptions={}, arrays=()))

    async def _write(self, k: int) -> None:
        """Write the draft: a model, or the program where the budget has no room or the model fails."""
        try:
            outlines = [await self.ask(k, "outline") for _ in range(2)]
            sections = [await self.ask(k, "write") or await self.ask(k, "write") for _ in range(2)]
            self.written_by = "model" if any(outlines) and all(sections) else "nobody"
        except BudgetSpent:
            self.written_by = "program"
        draft = PaperDraft(title="", abstract="", sections=(Section(title="", body=""),))
        self.log.append(DraftAssessed(round=0, draft=draft))

    async def _finish_draft(self, _: int) -> None:
        self.log.append(self.log.state.paper.drafts[0].model_copy(update={"round": 1, "done": True}))

    async def _check(self, number: int) -> None:
        await self.ask_all(format_figure_review_task(number), "figure_review")
        await self.ask_all(format_claims_task(number), "claim_reader", "second_claim_reader", "setup_reader")

    async def _ablate_late(self, k: int) -> None:
        if not await self.ask(k, "missing_ablations"):
            return
        action = ExpandTree(stage="ablation", kind="ablate", seed=0)
        if self.budget.find_shortage(action) is None:
            number = self.log.state.last_decision + 1
            self.log.append(DecisionMade(k=number, action=action))
            await self._expand(number)
            await self.ask(k, "code_reader")
        await self.ask(k, "reflect")


async def wait_for_one(running: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait for a node and return the others. Raises what it raised; the others are then cancelled."""
    done, left = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    try:
        for one in done:
            one.result()
    except BaseException:
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        raise
    return left


def simulate(case: tuple[float, int]) -> dict[str, Any]:
    """Simulate a run with a cap in USD and a seed."""
    cap, seed = case
    budget_layer.POLL_SECONDS = 0.0
    rng = Random(f"{cap}/{seed}")
    writer = rng.choices(list(WRITERS), list(WRITERS.values()))[0]
    flags: dict[str, Any] = {"models.name": MODEL, "models.prices": PRICES, "budget.usd": cap, "seed": seed}
    if rng.random() < 0.2:
        flags["models.fallbacks"] = [SUBSTITUTE]
    settings = compose_settings(flags=flags, environment={})
    try:
        check_budget(settings)
    except ModelConfigError:
        return {"cap": cap, "writer": writer, "outcome": "refused", "overspent": False}
    log = MemoryLog()
    log.append(RunStarted(idea=IDEA, settings=settings.model_dump(mode="json"), seed=seed, version="0", model=MODEL))
    run = SimulatedRun(settings, rng, Provider(settings.models, rng, writer), log)
    deaths = 0
    while True:
        try:
            asyncio.run(run.work())
            break
        except Died:
            deaths += 1
            again = MemoryLog(run.log.events)
            again.append(RunResumed())
            run = SimulatedRun(settings, rng, run.provider, again, run.left_out, run.written_by, run.overspent)
        except BudgetSpent:
            break
    state = run.log.state
    return {
        "cap": cap,
        "writer": writer,
        "outcome": {"model": "paper", "program": "report"}.get(run.written_by, "none"),
        "overspent": run.overspent,
        "bill": run.provider.bill,
        "recorded": state.calls.spent_cost.usd,
        "calls": run.provider.calls,
        "nodes": sum(node.status in ("good", "buggy") for node in state.nodes.values()),
        "cancelled": sum(node.status == "cancelled" for node in state.nodes.values()),
        "limited": state.limit_reason is not None,
        "deaths": deaths,
        "left out": dict(run.left_out),
    }


def summarise(cap: float, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts and medians of the runs with one cap."""
    done = [one for one in runs if "bill" in one]
    left_out = Counter[str]()
    for one in done:
        left_out.update(dict.fromkeys(one["left out"], 1))
    return {
        "cap": cap,
        "runs": len(runs),
        **{name: sum(one["outcome"] == name for one in runs) for name in ("paper", "report", "none", "refused")},
        "papers by writer": {
            writer: f"{sum(one['outcome'] == 'paper' for one in own)} of {len(own)}"
            for writer in WRITERS
            if (own := [one for one in runs if one["writer"] == writer])
        },
        "overspent": sum(one["overspent"] for one in runs),
        "limited": sum(one["limited"] for one in done),
        "resumed": sum(one["deaths"] > 0 for one in done),
        **{
            f"median {name}": round(median(one[name] for one in done), 2)
            for name in ("bill", "recorded", "calls", "nodes", "cancelled")
            if done
        },
        "largest bill": round(max((one["bill"] for one in done), default=0.0), 2),
        "runs that left out": dict(left_out.most_common()),
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=60, help="runs for each cap; at $10 at least 100")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    began = time.monotonic()
    cases = [(cap, seed) for cap in CAPS for seed in range(max(args.runs, 100 * (cap == 10)))]
    if args.processes > 1:
        with ProcessPoolExecutor(args.processes) as pool:
            found = list(pool.map(simulate, cases, chunksize=10))
    else:
        found = list(map(simulate, cases))
    caps = [summarise(cap, [one for one in found if one["cap"] == cap]) for cap in CAPS]
    overspent = sum(one["overspent"] for one in caps)
    at_ten = next(one["paper"] / one["runs"] for one in caps if one["cap"] == 10)
    report = {"runs": len(cases), "overspent": overspent, "caps": caps, "seconds": round(time.monotonic() - began, 1)}
    print_report(report, args.out)
    return 0 if not overspent and at_ten >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
