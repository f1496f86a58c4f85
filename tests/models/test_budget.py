"""What is set aside for a call, what settles it, and what things cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from pydantic import BaseModel

from labwright.agent.forecast import check_prices_known
from labwright.agent.settings import compose_settings
from labwright.models import prices
from labwright.models.backend import Image, ModelRequest, Reply
from labwright.models.budget import (
    Budget,
    BudgetSettings,
    Priority,
    compute_max_call_cost,
    estimate_prompt_tokens,
    list_unpriced_models,
)
from labwright.models.client import Models
from labwright.models.errors import (
    AnswerCut,
    BudgetSpent,
    ContextTooLong,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelUnavailable,
)
from labwright.models.replay import ScriptedModel
from labwright.models.roles import ROLES
from labwright.models.roles.node_assessment import COMPARE, Preference
from labwright.models.settings import Alternative, ModelSettings, Price, RoleModel
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.run_events import (
    CallUnanswered,
    CostReserved,
    LimitReached,
    ReservationReturned,
    RunResumed,
    RunStarted,
)
from labwright.record.events.search_events import DecisionMade
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import CallKey, Cost, RunTask, SearchAction, TokenUsage
from labwright.record.schema.idea import Idea
from tests.models.examples import INPUTS

PRICED = ModelSettings(
    name="vllm:m", prices={"vllm:m": Price(input=1.0, output=10.0)}, roles={"compare": RoleModel(max_tokens=1000)}
)


@dataclass
class Equal:
    """Every call is of the same priority and leaves the same free; every action may take the same."""

    share: Cost = field(default_factory=Cost)
    priority: Priority = "search"

    def find_priority(self, state: RunState, decision_id: int, role: str) -> Priority:
        return self.priority

    def compute_set_aside(
        self, state: RunState, decision_id: int | None = None, role: str = "", action: SearchAction | None = None
    ) -> Cost:
        return self.share

    def estimate_action(self, action: SearchAction, state: RunState) -> Cost:
        return self.share

    def compute_attempt_cost(self, limit: float) -> Cost:
        return Cost(gpu_seconds=limit)


def log_of(*events: Event) -> MemoryLog:
    idea = Idea.model_validate({"Name": "x", "Title": "X", "Experiments": ["one"]})
    return MemoryLog(
        [
            RunStarted(idea=idea, settings={}, seed=0, version="0", model="m"),
            DecisionMade(k=1, action=RunTask(task="write")),
            *events,
        ]
    )


class Answers(ScriptedModel):
    """Fails in a given way, or takes a given part of what is set aside."""

    def __init__(self, *told: ModelError | TokenUsage) -> None:
        super().__init__(lambda request: Preference(better="a", reasons="r"))
        self._told = iter(told)

    async def answer(self, request: ModelRequest) -> Reply:
        told = next(self._told)
        if isinstance(told, ModelError):
            raise told
        return Reply(output=Preference(better="a", reasons="r"), usage=told, model="m")


def ask(log: MemoryLog, caps: BudgetSettings, *told: ModelError | TokenUsage, shares: Equal | None = None) -> BaseModel:
    budget = Budget(caps, log, PRICED, shares or Equal())
    models = Models(Answers(*told), log, PRICED, lambda: 0.0, budget=budget)
    return asyncio.run(models.make_client(1, 0).ask(ROLES["compare"], INPUTS["compare"]))


KEY = str(CallKey(decision=1, attempt=0, role="compare", ordinal=0))
TOOK = TokenUsage(input_tokens=100, output_tokens=10, usd=0.25)


def test_the_most_is_set_aside_before_a_call_and_settled_by_what_it_took() -> None:
    log = log_of()
    ask(log, BudgetSettings(usd=10), TOOK)
    kinds = [event.type for event in log.events]
    assert kinds[-2:] == ["reserved", "answered"]
    reserved = log.events[-2]
    assert isinstance(reserved, CostReserved) and reserved.name == KEY and reserved.spending.usd > 0.05
    assert log.state.calls.spent_cost == Cost(usd=0.25, tokens=110) and not log.state.calls.reservations


def test_without_a_cap_nothing_is_set_aside() -> None:
    log = log_of()
    ask(log, BudgetSettings(gpu_hours=1), TOOK)
    assert not any(isinstance(event, CostReserved) for event in log.events)
    assert log.state.calls.spent_cost.usd == 0.25


def test_a_failure_that_may_be_billed_stays_spent_and_another_does_not() -> None:
    for error in (ModelOutputInvalid("prose"), ContextTooLong("too long")):
        log = log_of()
        with pytest.raises(type(error)):
            ask(log, BudgetSettings(usd=10), error)
        assert bool(log.state.calls.spent_cost.usd) == error.billed
        assert isinstance(log.events[-1], ReservationReturned) != error.billed


def test_what_a_kill_cut_off_stays_spent_when_the_call_is_made_again() -> None:
    cut = CostReserved(k=1, name=KEY, spending=Cost(usd=0.5, tokens=5))
    log = log_of(cut, RunResumed())
    assert log.state.calls.spent_cost.usd == 0.5 and not log.state.calls.reservations
    ask(log, BudgetSettings(usd=10), TOOK)
    assert log.state.calls.spent_cost.usd == 0.75
    again = fold_events((event, 0.0) for event in (*log_of().events, cut, cut))
    assert again.calls.spent_cost.usd == 1.0, "set aside twice under one name: the first was cut off"


@pytest.mark.parametrize(("slots", "resumed", "spent"), [(1, 130.0, 60.0), (2, 130.0, 30.0), (1, 9000.0, 264.0)])
def test_a_killed_experiment_is_booked_for_the_time_until_the_resume_at_most(
    slots: int, resumed: float, spent: float
) -> None:
    sandbox = {"device": "cuda", "slots_per_gpu": slots}
    started = log_of().events[0].model_copy(update={"settings": {"sandbox": sandbox, "search": {"num_workers": 2}}})
    cut = CostReserved(k=1, name="n0002/1", spending=Cost(gpu_seconds=264))
    times = [(started, 0.0), *((one, 1.0) for one in log_of().events[1:]), (cut, 100.0), (RunResumed(), resumed)]
    assert fold_events(times).calls.spent_cost.gpu_seconds == spent


def test_a_call_that_does_not_fit_is_not_made() -> None:
    log = log_of()
    with pytest.raises(BudgetSpent, match=r"the budget of \$0\.01: .* may cost \$0\.\d\d; resume with a higher"):
        ask(log, BudgetSettings(usd=0.01))
    limited = log.events[-1]
    assert isinstance(limited, LimitReached) and limited.stage is None and log.state.calls.spent_cost == Cost()


def test_only_a_needed_call_may_take_what_is_set_aside() -> None:
    aside = Cost(usd=1.49)
    with pytest.raises(BudgetSpent, match=r"\$1\.49 are set aside for the paper"):
        ask(log_of(), BudgetSettings(usd=1.5), TOOK, shares=Equal(aside))
    log = log_of()
    ask(log, BudgetSettings(usd=1.5), TOOK, shares=Equal(aside, "needed"))
    assert log.state.limit_reason is None and log.state.calls.spent_cost.usd == 0.25


def test_an_optional_call_is_left_out_and_the_run_goes_on() -> None:
    log = log_of()
    budget = Budget(BudgetSettings(usd=1.5), log, PRICED, Equal(Cost(usd=1.49), "optional"))
    client = Models(Answers(), log, PRICED, lambda: 0.0, budget=budget).make_client(1, 0)
    assert asyncio.run(client.ask_or_none(ROLES["compare"], INPUTS["compare"], instead="nothing")) is None
    left_out = log.events[-1]
    assert isinstance(left_out, CallUnanswered) and "the budget of $1.50" in left_out.why
    assert log.state.limit_reason is None


def test_a_call_without_room_for_its_retries_is_one_request_and_is_repeated_while_there_is_room() -> None:
    class OneByOne(Answers):
        async def answer(self, request: ModelRequest) -> Reply:
            self.single = (*self.single, request.single)
            return await super().answer(request)

        single: tuple[bool, ...] = ()

    log, model = log_of(), OneByOne(ModelOutputInvalid("prose"), TOOK)
    single = compute_max_call_cost(PRICED, COMPARE, 5000, max_tokens=1000, single=True).usd
    budget = Budget(BudgetSettings(usd=3 * single), log, PRICED, Equal())
    models = Models(model, log, PRICED, lambda: 0.0, budget=budget)
    asyncio.run(models.make_client(1, 0).ask(ROLES["compare"], INPUTS["compare"]))
    (lost,) = log.state.calls.lost_costs.values()
    assert model.single == (True, True) and 0 < lost.usd <= single
    assert log.state.calls.spent_cost.usd == pytest.approx(0.25 + lost.usd)


async def test_a_call_without_room_beside_others_waits_for_them() -> None:
    class Slow(Answers):
        most_at_once = now = 0

        async def answer(self, request: ModelRequest) -> Reply:
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
            await asyncio.sleep(0.01)
            self.now -= 1
            return await super().answer(request)

    cheap = TokenUsage(input_tokens=1, usd=0.0)
    log, model = log_of(), Slow(*[cheap] * 8)
    single = compute_max_call_cost(PRICED, COMPARE, 5000, max_tokens=1000, single=True).usd
    models = Models(
        model, log, PRICED, lambda: 0.0, budget=Budget(BudgetSettings(usd=2 * single), log, PRICED, Equal())
    )
    clients = [models.make_client(1, attempt) for attempt in range(8)]
    await asyncio.gather(*(one.ask(ROLES["compare"], INPUTS["compare"]) for one in clients))
    assert 1 < model.most_at_once < 8 and len(log.state.calls.answers) == 8 and log.state.limit_reason is None


def test_a_cap_on_one_thing_does_not_stop_what_takes_none_of_it() -> None:
    log = log_of(CostReserved(k=1, name="n0001/1", spending=Cost(gpu_seconds=9000)))
    assert log.state.calls.spent_cost.gpu_seconds == 9000
    ask(log, BudgetSettings(usd=10, gpu_hours=1), TOOK)


# --- the most that a call may take ----------------------------------------------------------------------------------


def test_the_most_counts_every_retry_of_every_model_that_may_be_asked() -> None:
    once = PRICED.model_copy(update={"output_retries": 0, "retries": 0})
    assert compute_max_call_cost(once, COMPARE, 2000) == Cost(usd=(2000 + 10 * 1000) / 1e6, tokens=3000)
    assert compute_max_call_cost(PRICED, COMPARE, 2000).tokens > 5 * 3000
    dear = {**PRICED.prices, "vllm:dear": Price(input=5.0, output=50.0)}
    chain = once.model_copy(update={"prices": dear, "fallbacks": (Alternative(name="vllm:dear"),)})
    assert compute_max_call_cost(chain, COMPARE, 2000).usd == pytest.approx(
        6 * compute_max_call_cost(once, COMPARE, 2000).usd
    )


def test_prompts_are_estimated_upwards() -> None:
    model = ScriptedModel(lambda request: Preference(better="a", reasons="r"))
    models = Models(model, log_of(), PRICED, lambda: 0.0)
    asyncio.run(models.make_client(1, 0).ask(ROLES["compare"], INPUTS["compare"], images=[Image(b"")]))
    shown = model.requests[0].prompt
    assert estimate_prompt_tokens(model.requests[0]) > (len(shown.system) + len(shown.user)) / 2 + 5000


# --- prices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "base_url", "known"),
    [
        ("offline", None, True),
        ("ollama:m", None, True),
        ("vllm:m", "http://10.0.0.7:8000/v1", True),
        ("openai-chat:m", "http://gpu-box:8000/v1", True),
        ("openai-chat:m", "https://models.example.org/v1", False),
        ("anthropic:claude-sonnet-4-5", None, True),
        ("anthropic:no-such-model", None, False),
    ],
)
def test_servers_of_ones_own_cost_nothing_and_those_of_others_what_the_list_says(
    name: str, base_url: str | None, known: bool
) -> None:
    settings = ModelSettings(name=name, base_url=base_url)
    assert list_unpriced_models(settings) == (() if known else (name,))
    own = settings.model_copy(update={"prices": {name: Price(input=2.0, output=4.0)}})
    assert prices.compute_max_usd(own, 1_000_000, 1_000_000) == 6.0 and not list_unpriced_models(own)


def test_an_answer_is_priced_as_set_then_by_the_list() -> None:
    usage = TokenUsage(input_tokens=1_000_000, output_tokens=0)
    assert prices.compute_usd(ModelSettings(name="openai:gpt-4o"), usage) == 2.5
    assert prices.compute_usd(PRICED, usage) == 1.0 and prices.compute_usd(ModelSettings(name="ollama:m"), usage) == 0.0


def test_an_unknown_price_and_a_cap_are_refused_with_a_mend_that_works() -> None:
    flags = {"models.name": "openai:my.tuned-4.1", "budget.usd": 5}
    with pytest.raises(ModelConfigError, match=r"price of openai:my\.tuned-4\.1 is unknown: set it") as refused:
        check_prices_known(compose_settings(flags=flags, environment={}))
    import yaml

    mend = str(refused.value).partition("models.prices=")[2].partition("'")[0]
    check_prices_known(compose_settings(flags={**flags, "models.prices": yaml.safe_load(mend)}, environment={}))
    check_prices_known(compose_settings(flags={**flags, "budget.usd": None, "budget.tokens": 1000}, environment={}))


def test_gpu_hours_without_a_gpu_are_refused() -> None:
    with pytest.raises(ModelConfigError, match="run on the CPU"):
        check_prices_known(compose_settings(flags={"budget.gpu_hours": 1}, environment={}))


def cut(tokens: int) -> AnswerCut:
    return AnswerCut(
        f"m: the answer was truncated at {tokens} tokens",
        tokens=tokens,
        retries=1,
        usage=TokenUsage(input_tokens=100, output_tokens=tokens, usd=0.01),
    )


def test_a_longer_answer_is_set_aside_beside_the_first_and_all_that_was_paid_is_counted() -> None:
    log = log_of()
    ask(log, BudgetSettings(usd=10), cut(1000), cut(2000), TOOK)
    told = [(event.type, event.name) for event in log.events if isinstance(event, CostReserved | ReservationReturned)]
    assert told == [
        ("reserved", KEY),
        ("reserved", f"{KEY}+1"),
        ("reserved", f"{KEY}+2"),
        ("returned", f"{KEY}+1"),
        ("returned", f"{KEY}+2"),
    ]
    sizes = [event.spending.usd for event in log.events if isinstance(event, CostReserved)]
    assert sizes[0] < sizes[1] < sizes[2]
    assert log.state.calls.spent_cost.usd == pytest.approx(0.27) and not log.state.calls.reservations
    (answer,) = log.state.calls.answers.values()
    assert answer.usage.output_tokens == 3010 and answer.retries == 2


def test_without_room_for_a_longer_answer_the_call_fails_alone_and_the_run_is_not_limited() -> None:
    roomy = log_of()
    ask(roomy, BudgetSettings(usd=0.06), TOOK)  # no room for retries
    first = max(one.spending.usd for one in roomy.events if isinstance(one, CostReserved))
    log = log_of()
    with pytest.raises(ModelOutputInvalid, match=r"the budget has no room for a longer one; raise models\.roles"):
        ask(log, BudgetSettings(usd=1.001 * first), cut(1000))
    assert not any(isinstance(event, LimitReached) for event in log.events) and log.state.calls.spent_cost.usd == first


def test_what_fails_after_an_answer_that_was_cut_has_to_be_paid_all_the_same() -> None:
    log = log_of()
    with pytest.raises(ModelUnavailable):
        ask(log, BudgetSettings(usd=10), cut(1000), ModelUnavailable("down"))
    assert not any(isinstance(event, ReservationReturned) for event in log.events)
