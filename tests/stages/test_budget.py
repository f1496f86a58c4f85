"""No cap is passed, whatever calls and experiments turn out to take: the real search with a scripted model and code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from labwright.agent.forecast import build_cost_table, check_budget, estimate_remaining
from labwright.agent.settings import Settings, compose_settings, override_settings
from labwright.inspector.render import format_status
from labwright.models.backend import ModelRequest, Reply
from labwright.models.budget import Budget, compute_max_call_cost, estimate_prompt_tokens
from labwright.models.client import Models
from labwright.models.errors import ModelConfigError, ModelOutputInvalid
from labwright.models.replay import ScriptedModel
from labwright.models.roles import CODE, OUTLINE
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.run_events import CostReserved, LimitReached, RunResumed, RunStarted
from labwright.record.events.search_events import PlanPrepared
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, hash_file
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import Cost
from labwright.record.schema.nodes import STAGES, Failure
from labwright.sandbox.job import Job, JobOutcome
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import NoWorkingNodeError, StageRunner
from tests.fake_executor import FakeExecutor
from tests.inspector.sample_run import read_status
from tests.programs import program_files
from tests.stages.small_study import IDEA, PLAN, experiment_code, make_small_model, plots_code

pytestmark = pytest.mark.slow

PLACES = 4
FLAGS: dict[str, Any] = {
    "models.name": "vllm:m",
    "models.prices": {"vllm:m": {"input": 3.0, "output": 15.0}},
    "sandbox.device": "cuda",
    "sandbox.timeout": 600,
    "sandbox.isolation": "auto",
    "search.num_workers": PLACES,
    "search.ladder": False,
    "search.num_drafts": 3,
    "search.num_seeds": 2,
    "search.max_seeds": 4,
    "search.preliminary.nodes": 6,
    "search.tuning.nodes": 4,
    "search.agenda.nodes": 4,
    "search.ablation.nodes": 3,
    "paper.reflections": 1,
    "seed": 5,
}


@pytest.fixture(autouse=True)
def without_test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted experiments submit no test predictions that a look could resample."""
    monkeypatch.setattr("labwright.stages.evidence.resampling.resample_effects", lambda *_: ())  # pyrefly: ignore


def mended(_: ModelRequest) -> Program:
    return Program(title="again", plan="as before", varies="", files=program_files(experiment_code(), plots_code()))


class Paid(ScriptedModel):
    """The small study's model with a bill: any part of what may be set aside for a call, and all of it at times."""

    def __init__(self, settings: ModelSettings, rng: Random) -> None:
        super().__init__(mended, name=settings.name)
        self._small = make_small_model()
        self._settings, self._rng = settings, rng
        self.bill = Cost()

    async def answer(self, request: ModelRequest) -> Reply:
        for _ in range(self._rng.randrange(6)):
            await asyncio.sleep(0)
        most = compute_max_call_cost(
            self._settings, request.role, estimate_prompt_tokens(request), single=request.single
        )
        share = self._rng.choice((1.0, self._rng.uniform(0.2, 1.0)))
        taken = Cost(usd=most.usd * share, tokens=int(most.tokens * share))
        self.bill += taken
        if request.role.name in ("code", "feedback") and self._rng.random() < 0.1:
            raise ModelOutputInvalid("it answered in prose")
        mends = isinstance(request.inputs, CodeInputs) and request.inputs.kind == "debug"
        reply = await (super().answer(request) if mends else self._small.answer(request))
        usage = reply.usage.model_copy(update={"input_tokens": taken.tokens, "output_tokens": 0, "usd": taken.usd})
        return Reply(output=reply.output, usage=usage, model=self.name)


def code(rng: Random) -> Callable[[Job], tuple[float, JobOutcome]]:
    """Experiments that measure, take their time, fail and run into their limit; plots that draw."""

    def run(job: Job) -> tuple[float, JobOutcome]:
        if job.kind == "plot":
            return 0.0, drawn(job)
        seconds = rng.uniform(0.1, 1.0) * job.timeout
        if rng.random() < 0.15:
            return 0.0, JobOutcome(seconds=job.timeout + 2, failure=Failure(kind="timeout", message="out of time"))
        if rng.random() < 0.1:
            return 0.0, JobOutcome(seconds=seconds, failure=Failure(kind="shape", message="shapes differ"))
        (job.folder / "arrays").mkdir(parents=True, exist_ok=True)
        np.save(job.folder / "arrays" / "loss.npy", np.arange(3.0))
        ablated = "without-shrinkage" in job.source["experiment.py"]
        found = tuple(
            Measurement(
                name=name,
                value=rng.random(),
                condition=arm,
                dataset="iris",
                split="validation",
                seed=job.seed,
                grade="computed",
            )
            for arm in (["without-shrinkage"] if ablated else ["plain", "shrunk"])
            for name in ("log_loss", "accuracy")
        )
        return 0.0, JobOutcome(
            seconds=seconds, measurements=found, arrays={"loss.npy": hash_file(job.folder / "arrays" / "loss.npy")}
        )

    return run


def drawn(job: Job) -> JobOutcome:
    from PIL import Image

    from labwright.record.schema.paper import AxesFacts, Figure, FigureFacts

    (job.folder / "figures").mkdir(parents=True, exist_ok=True)
    facts = FigureFacts(axes=(AxesFacts(xlabel="arm", ylabel="loss", series=1),))
    names = ("loss.png", "loss.pdf")
    picture = Image.radial_gradient("L")
    picture.putpixel((0, 0), crc32(job.name.encode()) % 256)  # equal pictures would be looked at once in a run
    for name in names:
        picture.save(job.folder / "figures" / name)
    return JobOutcome(
        seconds=0,
        figures=tuple(
            Figure(name=name, sha256=hash_file(job.folder / "figures" / name), facts=facts) for name in names
        ),
    )


def capped(seed: int) -> Settings:
    """Settings with a cap that is reached in the middle of a stage: of one kind, in turn."""
    kind = ("usd", "tokens", "gpu_hours")[seed % 3]
    settings = compose_settings(flags={**FLAGS, "seed": seed}, environment={})
    table, nodes = build_cost_table(settings), Random(seed).uniform(1.2, 2.2)
    call, attempt = (
        compute_max_call_cost(settings.models, CODE, CODE.prompt_tokens),
        table.compute_attempt_cost(settings.sandbox.timeout),
    )
    cap = {
        "usd": table.least_cost.usd + nodes * 2 * call.usd,
        "tokens": table.least_cost.tokens + int(nodes * 2 * call.tokens),
        "gpu_hours": nodes * 2 * attempt.gpu_seconds / 3600,
    }[kind]
    return compose_settings(flags={**FLAGS, "seed": seed, f"budget.{kind}": cap}, environment={})


def over(settings: Settings, spent: Cost) -> bool:
    return settings.budget.find_exceeded_cap(spent, spent) is not None


def bench_of(settings: Settings, root: Path, model: Paid, log: MemoryLog) -> RunContext:
    budget = Budget(settings.budget, log, settings.models, build_cost_table(settings))
    executor = FakeExecutor(code(Random(settings.seed)), slots=PLACES)
    folder = RunFolder(root)
    folder.create_folders()
    return RunContext(
        recorder=log,
        folder=folder,
        executor=executor,
        search=settings.search,
        paper=settings.paper,
        models=Models(model, log, settings.models, lambda: 0.0, budget=budget),
        budget=budget,
        node_seconds=settings.sandbox.timeout,
        device="cuda",
    )


async def search(bench: RunContext) -> None:
    research = StageRunner(bench)
    try:
        for stage in STAGES:
            await research.run_stage(stage)
    except NoWorkingNodeError:
        pass
    finally:
        await research.close()


@pytest.mark.parametrize("fives", [0, *(pytest.param(one, marks=pytest.mark.bench) for one in range(1, 10))])
def test_fifty_searches_stay_below_their_cap_and_leave_the_paper_its_share(fives: int, tmp_path: Path) -> None:
    most_at_once, limited = 0, 0
    for seed in range(5 * fives, 5 * fives + 5):
        settings = capped(seed)
        table, model = build_cost_table(settings), Paid(settings.models, Random(seed))

        def kept(event: Event, state: RunState, settings: Settings = settings) -> None:
            nonlocal most_at_once
            most_at_once = max(most_at_once, len(state.calls.reservations))
            assert not over(settings, state.calls.spent_cost), (event, state.calls.spent_cost)

        log = MemoryLog(listener=kept)
        log.append(RunStarted(idea=IDEA, settings=settings.model_dump(mode="json"), seed=seed, version="0", model="m"))
        log.append(PlanPrepared(data_plan=PLAN, datasets=()))
        asyncio.run(search(bench_of(settings, tmp_path / str(seed), model, log)))
        state = log.state
        spent = state.calls.spent_cost
        outline = compute_max_call_cost(table.models, OUTLINE, OUTLINE.prompt_tokens, single=True)
        outline = outline if settings.budget.gpu_hours is None else Cost()
        assert not over(settings, spent + outline), "no outline can be asked for any more"
        if settings.budget.usd or settings.budget.tokens:
            assert model.bill.subtract_floored(spent).usd < 1e-6, "more was billed than is counted"
        limited += state.limit_reason is not None
        assert all(node.is_finished for node in state.nodes.values())
    assert limited == 5 and most_at_once > 1


def test_a_cap_that_cannot_hold_a_report_is_refused_with_the_least_that_can() -> None:
    flags = {one: FLAGS[one] for one in ("models.name", "models.prices")}
    with pytest.raises(
        ModelConfigError, match=r"budget of \$0\.50 cannot hold a report.*at least \$\d\.\d\d;"
    ) as refused:
        check_budget(compose_settings(flags={**flags, "budget.usd": 0.5}, environment={}))
    least = float(str(refused.value).partition("at least $")[2].partition(";")[0])
    for cap in (least + 0.01, 10):
        check_budget(compose_settings(flags={**flags, "budget.usd": cap}, environment={}))


def searched(settings: Settings, root: Path, *before: Event) -> MemoryLog:
    """The log of a search, begun or taken up after these events."""
    log = MemoryLog(
        [*before]
        or [
            RunStarted(
                idea=IDEA, settings=settings.model_dump(mode="json"), seed=settings.seed, version="0", model="m"
            ),
            PlanPrepared(data_plan=PLAN, datasets=()),
        ]
    )
    asyncio.run(search(bench_of(settings, root, Paid(settings.models, Random(0)), log)))
    return log


def test_a_raised_cap_goes_on_proposing_and_what_was_cut_off_stays_spent(tmp_path: Path) -> None:
    settings = capped(3)
    first = searched(settings, tmp_path)
    cut = next(i for i, event in enumerate(first.events) if isinstance(event, LimitReached))
    lost = CostReserved(k=1, name="1.0.code.9", spending=Cost(usd=1.25))
    again = RunResumed(settings={"budget.usd": 500.0})
    more = searched(
        override_settings(settings.model_dump(), again.settings), tmp_path, *first.events[:cut], lost, again
    )
    state = more.state
    assert state.limit_reason is None and len(state.nodes) > len(first.state.nodes)
    assert state.calls.lost_costs[1].usd >= 1.25 and state.read_setting("budget.usd") == 500.0
    same = searched(settings, tmp_path, *first.events[: cut + 1], RunResumed())
    assert same.state.limit_reason is not None, "the old cap still holds"


def test_status_tells_spent_reserved_left_and_what_is_to_come(tmp_path: Path) -> None:
    settings = capped(12)
    log = searched(settings, tmp_path)
    assert settings.budget.usd is not None
    half = (settings.budget.usd - log.state.calls.spent_cost.usd) / 2
    log.append(CostReserved(k=1, name="1.0.code.9", spending=Cost(usd=half)))
    found = read_status("runs/x", [(event, 0.0) for event in log.events], None, now=0.0)
    assert found.budget is not None
    used = found.budget
    assert used.spent.usd + used.reserved.usd + used.remaining.usd == pytest.approx(settings.budget.usd)
    assert used.reserved.usd == half
    assert "code" in found.roles and found.roles.keys() == log.state.calls.usage_by_role.keys()
    assert sum(one.usd for one in found.roles.values()) == pytest.approx(found.cost.usd, abs=1e-4)
    ahead = estimate_remaining(log.state)
    assert ahead is not None and ahead.usd is not None and ahead.usd > 0 and ahead.calls <= 40
    page = "\n".join(line.plain for line in format_status(found.model_copy(update={"remaining": ahead})))
    assert f"${half:.2f} reserved, ${used.remaining.usd:.2f} left of ${settings.budget.usd:.2f}" in page
    assert "to the end" in page and "code: " in page
    assert sum(one.spent for one in ahead.phases) == pytest.approx(used.spent.usd) and "preliminary $" in page
