"""Cells that call language models, in real kernels over a socket, with a local server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import pytest_asyncio
from pydantic_ai.models import override_allow_model_requests

from benchmarks.studied_llm_server import StudiedLlmServer
from labwright.models.budget import BudgetSettings
from labwright.models.settings import SubjectSettings
from labwright.models.studied_llms import StudiedLlms
from labwright.record.llm_calls import EXCHANGES_LIST, LLMBudgetSpent, LLMCallStore, LLMUnavailable, read_exchanges
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import LLMExchange, LLMQuestion
from labwright.record.schema.nodes import Cell
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.datasets import build_registry, materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import CellTask, Job, JobOutcome
from labwright.sandbox.llm_gateway import MAX_QUEUED_QUESTIONS, LlmSession, serve_session
from labwright.sandbox.scoring import score_sealed
from tests.jobs import SCRIPT, run_job
from tests.sandbox.conftest import SETTINGS


def rule(model: str, text: str, draw: int) -> str:
    """Answer even or odd for the last number, wrong in two of five draws for every third; some words trigger other
    answers."""
    number = int(text.split()[-1])
    wrong = number % 3 == 0 and draw % 5 in (0, 1)
    if "silent" in text and number % 10 == 0:
        return "I cannot say."
    if "grade" in text:
        return json.dumps({"grade": number % 2 if number % 10 else 1 - number % 2})
    if "value" in text:
        return f"I would say {number + draw:,}."
    return f"It is {('odd', 'even')[(number + wrong + 1) % 2]}."


@dataclass
class Place:
    """A place to run jobs, and the server that counts their requests."""

    executor: LocalExecutor
    server: StudiedLlmServer
    folder: Path

    async def run(self, code: str, *cells: str, key: str = "", number: int = 0, timeout: float = 60.0) -> JobOutcome:
        job = Job(
            name="test",
            folder=self.folder / f"job{number}",
            source={"experiment.py": code},
            timeout=timeout,
            subjects=("small",),
            datasets=("quiz", "sizes"),
        )
        made = tuple(Cell(dataset="quiz", arm=arm) for arm in cells)
        tasks = {one: CellTask(key=f"{key}{one}") for one in made} or {SCRIPT: CellTask(key=f"{key}script")}
        return await run_job(self.executor, replace(job, cells=tasks))

    def numbers(self, split: str) -> list[int]:
        """The rows of the quiz."""
        with np.load(self.folder / "views" / "quiz.npz") as view:
            text, ends = view[f"{split}_x"].tobytes().decode(), view[f"{split}_ends"]
        return [int(text[:end].split()[-1]) for end in ends]

    def sealed(self, number: int = 0) -> dict[str, Measurement]:
        job = self.folder / f"job{number}"
        places = [job, *sorted((job / "cells").glob("*"), reverse=True)]  # of a plain script, of cells
        return {one.name: one for at in places for one in score_sealed(at, self.folder / "labels", seed=0)}


@pytest_asyncio.fixture
async def place(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings: dict[str, Any] = getattr(request, "param", {})
    first, count = settings.get("rows", (0, 100))
    rows = "".join(f"number {i},{'odd' if i % 2 else 'even'},{i}.5\n" for i in range(first, first + count))
    (tmp_path / "quiz.csv").write_text(f"q,label,size\n{rows}")
    sources = build_registry(
        [
            parse_spec(f"quiz={tmp_path}/quiz.csv,target=label,text=q", tmp_path),
            parse_spec(f"sizes={tmp_path}/quiz.csv,target=size,text=q", tmp_path),
        ]
    )
    for name in ("quiz", "sizes"):
        materialise(name, views=tmp_path / "views", labels=tmp_path / "labels", seed=1, sources=sources)
    with override_allow_model_requests(True), StudiedLlmServer(rule) as server:
        one = SubjectSettings.model_validate(
            {
                "model": "openai-chat:m",
                "base_url": server.url,
                "price": {"input": 10, "output": 10},
                "max_tokens": 100,
                **settings.get("subject", {}),
            }
        )
        executor = LocalExecutor(
            1,
            tmp_path / "views",
            labels=tmp_path / "labels",
            settings=SETTINGS,
            cache=tmp_path / "cache",
            subjects=StudiedLlms(
                {"small": one}, BudgetSettings(**settings.get("caps", {})), LLMCallStore(tmp_path / "exchanges.jsonl")
            ),
        )
        yield Place(executor, server, tmp_path)
        await executor.close()


ASK = """
import lab

DRAWS = 5


def run(cell):
    data, subject = lab.data("quiz"), lab.llm("small")
    for split in ("validation", "test"):
        x = getattr(data, split).x
        said = subject.ask_many([f"{cell.arm} {row}" for row in x for _ in range(DRAWS)], temperature=1.0)
        lab.submit(split=split, answers=[said[i * DRAWS:(i + 1) * DRAWS] for i in range(len(x))], read="label")
    print([one.id[-2:] for one in said[:DRAWS]], said[0].model)


lab.measure(run)
"""


@pytest.mark.slow
async def test_the_host_reads_and_scores_recorded_answers_and_replays_them_to_the_same_cell(place: Place) -> None:
    outcome = await place.run(ASK, "plain", "silent")
    assert outcome.failure is None, outcome.failure
    values = {(one.condition, one.name): one for one in outcome.measurements}
    assert {one.grade for one in values.values()} == {"scored" if place.executor.grade == "scored" else "computed"}
    assert values["plain", "accuracy"].value == 1.0  # by the majority of five draws, of which two are wrong
    numbers = place.numbers("validation")
    unread = sum(number % 10 == 0 for number in numbers)
    assert values["silent", "accuracy"].value == pytest.approx(1 - unread / len(numbers))
    assert f"{unread} of {len(numbers)} rows have no answer that can be parsed as 'label'" in outcome.stdout_tail
    assert "['-0', '-1', '-2', '-3', '-4'] m-2026-11-01" in outcome.stdout_tail
    asked = place.server.counts()
    assert outcome.asked == {"small": sum(asked.values())} and set(asked.values()) == {5}
    for cell in ("quiz__plain", "quiz__silent"):
        listed = [
            json.loads(line) for line in (place.folder / "job0/cells" / cell / EXCHANGES_LIST).read_text().splitlines()
        ]
        assert (
            read_exchanges(place.folder).find_differing(
                f"{cell.rpartition('_')[2]} on quiz", ((one["id"], one["sha256"]) for one in listed)
            )
            == ""
            and len(listed) == sum(asked.values()) // 2
        )
        assert (
            read_exchanges(place.folder).find_differing("another cell", [(listed[0]["id"], listed[0]["sha256"])])
            == listed[0]["id"]
        )
    tests = place.sealed()["accuracy"]
    assert tests.split == "test" and tests.grade == values["plain", "accuracy"].grade

    again = await place.run(ASK, "plain", "silent", number=1)
    assert place.server.counts() == asked and again.measurements == outcome.measurements
    anew = await place.run(ASK, "plain", key="another seed: ", number=2)
    assert sum(place.server.counts().values()) == sum(asked.values()) * 3 // 2 and anew.failure is None


@pytest.mark.slow
@pytest.mark.parametrize("place", [{"rows": (900, 200)}], indirect=True)
async def test_numbers_a_model_s_grades_and_what_an_error_leaves_behind(place: Place) -> None:
    outcome = await place.run("""
import threading
import lab

subject = lab.llm("small")
sizes, quiz = lab.data("sizes"), lab.data("quiz")
said = subject.ask_many([f"value {row}" for row in sizes.validation.x for _ in range(3)])
lab.submit("sizes", "validation", "m", read="number",
           answers=[said[3 * i:3 * i + 3] for i in range(len(sizes.validation.x))])

for split in ("validation", "test"):
    grades = subject.ask_many([f"grade {row}" for row in getattr(quiz, split).x], schema=None, max_tokens=20)
    lab.submit("quiz", split, "m", answers=grades, read="json:grade")

for wrong in (lambda: subject.ask("odd 3", max_tokens=10**6), lambda: lab.llm("large"),
              lambda: subject.ask("x" * 2**20), lambda: subject.ask([{"role": "robot", "content": "?"}]),
              lambda: subject.ask([]),
              lambda: lab.submit("quiz", "validation", "n", answers=[], read="label"),
              lambda: lab.submit("quiz", "validation", "n", answers=["a"] * len(quiz.validation.x), read="verse"),
              lambda: subject.ask_many([[{"role": "user", "content": "odd 3"}], []])):
    try:
        wrong()
        print("taken")
    except lab.LabError as error:
        print("refused:", error)
print(subject.ask("odd 7").text, subject.ask("odd 7").parsed, subject.ask("grade 7").parsed)

ids = []
threads = [threading.Thread(target=lambda: ids.append(subject.ask("thread 5").id)) for _ in range(12)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(sorted(int(one.rpartition("-")[2]) for one in ids))
""")
    assert outcome.failure is None, outcome.failure
    values = {(one.dataset, one.name): one for one in outcome.measurements}
    assert values["sizes", "mae"].value == pytest.approx(0.5)  # the mean of three draws is one more than the number
    right = np.mean([bool(n % 10) for n in place.numbers("validation")])
    assert values["quiz", "accuracy"].value == pytest.approx(right)
    assert values["quiz", "accuracy"].grade == place.sealed()["accuracy"].grade == place.executor.grade
    printed = outcome.stdout_tail.splitlines()
    assert "taken" not in printed
    assert sum(line.startswith("refused:") for line in printed) == 8
    assert printed[-2:] == ["It is odd. None {'grade': 1}", str(list(range(12)))]


@pytest.mark.slow
@pytest.mark.parametrize("place", [{"caps": {"subject_usd": 0.03}}], indirect=True)
async def test_a_spent_budget_ends_cells_and_is_no_fault_of_theirs(place: Place) -> None:
    swallowing = ASK.replace("def run(cell)", "def asking(cell)").replace(
        "lab.measure(run)",
        """
def run(cell):
    try:
        asking(cell)
    except lab.LabError as error:
        print("swallowed", error)
        lab.result("accuracy", 1.0)


lab.measure(run)
""",
    )
    outcome = await place.run(swallowing, "plain", "silent", "third")
    assert outcome.failure is not None and outcome.failure.kind == "budget"
    assert "resume with a higher budget.subject_usd" in outcome.failure.message
    assert {line.outcome for line in outcome.cells} <= {"measured", "failed", "left out"}
    assert [line.outcome for line in outcome.cells].count("failed") == 1
    assert 0.02 < read_exchanges(place.folder).spent.usd <= 0.03


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", [{"subject": {"base_url": "http://127.0.0.1:9/v1", "outage_timeout": 0.0}}], indirect=True
)
async def test_a_subject_that_is_gone_ends_the_run_and_no_experiment(place: Place) -> None:
    with pytest.raises(LLMUnavailable, match="has not answered for"):
        await place.run(ASK, "plain")


@pytest.mark.parametrize("exchange", ["a-²", "a-٣", "a-10", "a-", "a", "-1", "a--1", "a-1_0", "a-" + "9" * 5000, "b-0"])
def test_a_citation_that_is_none_is_the_code_s_fault(exchange: str) -> None:
    session = LlmSession(cast("Any", None), "key", ())
    session.draw_counts["a"] = 10
    assert session.find_cited(exchange) is None


class RefusingGateway:
    """Answers nothing, as one whose budget is spent."""

    names = ("m",)

    def find(self, cell: str, exchange: str) -> None:
        return None

    async def ask(self, cell: str, question: LLMQuestion, ordinal: int) -> LLMExchange:
        raise LLMBudgetSpent("the budget is used up")

    async def close(self) -> None:
        return


@pytest.mark.asyncio
async def test_questions_without_an_answer_cost_the_host_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labwright.sandbox.llm_gateway.MAX_REFUSALS", 20)
    session = LlmSession(RefusingGateway(), "key", ("m",))
    async with serve_session(session, tmp_path / "s"):
        for _ in range(3):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            with suppress(ConnectionError):
                for number in range(2000):
                    question = {"n": number, "subject": "m", "messages": [{"role": "user", "content": str(number)}]}
                    writer.write(json.dumps(question).encode() + b"\n" + b"[]\n")
                    await writer.drain()
                await reader.read()
            writer.close()
    assert session.draw_counts.total() <= 20 + MAX_QUEUED_QUESTIONS
