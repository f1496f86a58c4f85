"""What a run makes of the language models that its experiments may ask: keys, plans, prompts, status, audit, paper."""

from __future__ import annotations

import asyncio
import json
from copy import copy
from dataclasses import replace
from pathlib import Path

from labwright.agent.audit import audit_run
from labwright.models.client import render
from labwright.models.roles.experiment_code import CODE
from labwright.models.roles.study_plan import PLAN as PLAN_ROLE
from labwright.models.roles.study_plan import PlanInputs
from labwright.models.settings import Price, SubjectSettings
from labwright.record.events.search_events import PlanPrepared
from labwright.record.llm_calls import EXCHANGES_FILE, EXCHANGES_LIST, LLMCallStore
from labwright.record.reducers.event_fold import fold_events
from labwright.record.run_folder import hash_file
from labwright.record.schema.decisions import ChatMessage, Cost, LLMExchange, LLMQuestion
from labwright.record.schema.nodes import Cell, Failure
from labwright.sandbox.job import Job
from labwright.stages.data_planning import PlanChoices, build_subject_entries
from labwright.stages.nodes.node_cells import compute_cell_keys, with_llm_access
from labwright.stages.prompt_inputs import build_code_inputs
from labwright.stages.run_context import RunContext, record_spent_budget
from labwright.stages.stage_report import build_stage_view
from tests.inspector.cell_run import make_cell_run
from tests.inspector.test_logs import written
from tests.stages.test_plan_faults import CATALOGUE
from tests.stages.test_plan_faults import PLAN as SOUND
from tests.stages.test_prompt_inputs import PLAN, Story

SUBJECTS = {
    "small": SubjectSettings(
        model="openai-chat:tiny", base_url="http://localhost:8000/v1", requests_a_minute=60, description="a small one"
    ),
    "large": SubjectSettings(model="anthropic:huge", price=Price(input=3, output=15), context_tokens=200_000),
}
KEY = "a" * 64


def asked_by(story: Story, *names: str, **changes: SubjectSettings) -> RunContext:
    """The bench of a story whose plan names subjects."""
    story.log.append(PlanPrepared(data_plan=PLAN.model_copy(update={"subjects": names}), datasets=()))
    return replace(story.bench, subjects=SUBJECTS | changes)


def test_keys_hold_the_subjects_that_the_plan_names_and_no_others(tmp_path: Path) -> None:
    cells = (Cell(dataset="digits", arm="plain", level="n50"), Cell(dataset="digits", arm="mixup", level="n50", seed=1))

    def keys(*names: str, **changes: SubjectSettings) -> list[str]:
        bench = asked_by(Story(tmp_path), *names, **changes)
        found = compute_cell_keys(
            cells,
            {"experiment.py": "X = 1\n"},
            arms=("plain",),
            context=bench,
            view=build_stage_view(bench, "preliminary"),
        )
        job = Job(name="n", folder=tmp_path, source={"experiment.py": "X = 1\n"})
        (task,) = with_llm_access(job, bench.plan, bench.subjects, ()).with_script_cell().values()
        return [*found.values(), task.key]

    other = SUBJECTS["small"].model_copy(update={"model": "openai-chat:other"})
    faster = SUBJECTS["small"].model_copy(update={"concurrency": 99, "price": Price(input=1, output=1)})
    first = keys("small")
    assert len({*keys(), *first, *keys("large"), *keys("small", "large"), *keys("small", small=other)}) == 15
    assert keys()[-1] == "" and keys(small=other) == keys()
    assert first == keys("small", large=other) == keys("small", small=faster)


def test_the_planner_is_told_of_subjects_and_a_name_that_is_none_is_sent_back(tmp_path: Path) -> None:
    story = Story(tmp_path)
    inputs = PlanInputs(
        idea=story.bench.idea, catalogue=tuple(CATALOGUE.values()), metrics=("accuracy",), node_seconds=60
    )
    without = render(PLAN_ROLE, inputs)
    told = render(
        PLAN_ROLE, inputs.model_copy(update={"subjects": build_subject_entries(SUBJECTS), "subject_budget": "$5.00"})
    )
    text = f"{told.system}\n{told.user}"
    for words in (
        "- `small`: openai-chat:tiny; a small one; free; 8 calls in parallel, 60 per minute",
        "- `large`: anthropic:huge; reads 200000 tokens; $3.00 and $15.00 per million input and output tokens",
        "they have their own budget ($5.00)",
    ):
        assert words in text
    assert "subject" not in without.user and "`subjects`" not in without.system
    plan = SOUND.model_copy(update={"subjects": ("small", "tiny")})
    assert [
        one for one in PlanChoices(CATALOGUE, subjects=list(SUBJECTS)).find_design_faults(plan) if "studied" in one
    ] == ["there is no studied model 'tiny'; available: small, large"]


def test_code_is_told_how_to_ask_only_where_the_plan_does(tmp_path: Path) -> None:
    story = Story(tmp_path)
    decided = story.decide("draft")
    before = render(CODE, build_code_inputs(story.bench, decided))
    asked = render(CODE, build_code_inputs(asked_by(story, "small"), decided))
    assert "lab.llm" not in before.system + before.user and "Language models" not in before.system + before.user
    assert asked.system.count('`lab.llm("name")`') == 1
    assert asked.system.index("`lab.llm(") < asked.system.index("## plots.py")
    assert "Language models that its code queries: small" in asked.system + asked.user


def test_a_spent_budget_limits_the_run(tmp_path: Path) -> None:
    story = Story(tmp_path)
    record_spent_budget(story.bench, Failure(kind="memory", message="too much"))
    assert story.log.state.limit_reason is None
    record_spent_budget(story.bench, Failure(kind="budget", message="the budget of subjects is used up"))
    assert story.log.state.limit_reason == "the budget of subjects is used up"


async def _exchange(folder: Path) -> LLMExchange:
    """One answered question and one that a kill cut off."""
    log, most = LLMCallStore(folder / EXCHANGES_FILE), Cost(usd=0.5, tokens=100)
    question = LLMQuestion(subject="small", messages=(ChatMessage(role="user", content="?"),))
    exchange = LLMExchange(id=f"{question.digest}-0", subject="small", text="yes", model="tiny-1")
    number = await log.reserve(KEY, exchange.id, question, most)
    await log.settle(number, most, exchange, tokens=(10, 1), usd=0.25, seconds=1.0)
    await log.reserve(KEY, f"{question.digest}-1", question, most)
    await log.close()
    return exchange


def test_an_answer_that_is_not_as_it_was_given_is_a_finding(tmp_path: Path) -> None:
    story = make_cell_run()
    exchange = asyncio.run(_exchange(tmp_path))
    run = next(one for _, one in fold_events(story.events).cells.values())
    folder = tmp_path / "cells" / run.id
    folder.mkdir(parents=True, exist_ok=True)

    def wrong(digest: str, key: str) -> list[str]:
        (folder / EXCHANGES_LIST).write_text(json.dumps({"id": exchange.id, "sha256": digest}) + "\n")
        changed = run.model_copy(
            update={"asked": {"small": 1}, "exchanges_sha256": hash_file(folder / EXCHANGES_LIST), "key": key}
        )
        events = [
            (one.model_copy(update={"run": changed}) if getattr(one, "run", None) == run else one, at)
            for one, at in story.events
        ]
        (tmp_path / "events.jsonl").unlink(missing_ok=True)
        told = copy(story)
        told.events = events
        written(tmp_path, told)
        return [one.what for one in audit_run(tmp_path).findings if "exchanges.jsonl" in one.what]

    assert wrong(exchange.sha256, KEY) == []
    for digest, key in (("0" * 64, KEY), (exchange.sha256, "b" * 64)):
        assert wrong(digest, key) == [f"the answer {exchange.id} in exchanges.jsonl differs from the recorded one"]
