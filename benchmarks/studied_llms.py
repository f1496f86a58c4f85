"""Studies of language models: one killed during its calls, one stopped by its budget, and 10^5 calls.

python -m benchmarks.studied_llms [--calls N] [--kills N]      JSON on stdout

The studied models are scripted servers on this machine (`benchmarks.studied_llm_server`), which count their calls.
Kernels, record, scoring and TeX are the real ones; the researcher is the scripted model of the tests.
"""

from __future__ import annotations

import asyncio
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import make_parser, print_report
from benchmarks.studied_llm_server import StudiedLlmServer, find_question
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import FigurePart, FigureScript, FiguresInputs, PlotInputs, Plots
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.event_log import read_state
from labwright.record.events import Event
from labwright.record.line_store import read_stored_rows
from labwright.record.llm_calls import EXCHANGES_FILE, CallBatch, LLMCallStore, read_exchanges
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, MetricSpec
from labwright.record.schema.nodes import Cell
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import CellTask, Job, measure_all
from labwright.sandbox.settings import SandboxSettings
from tests.hypotheses import make_hypotheses
from tests.programs import whole_files
from tests.stages import small_study

ROWS, DRAWS, IN_FLIGHT = 300, 5, 20
PROMPTS = ("bare", "steps", "role")
RIGHT_SHARES = {"tiny": 0.45, "huge": 0.75}
"""Probability that one draw of a scripted model is right, of three classes."""
PLAN = DataPlan(
    task="say which of three kinds a sum is",
    datasets=(DatasetUse(name="sums"),),
    expected_seconds=60,
    metrics=(MetricSpec(name="accuracy", higher_is_better=True), MetricSpec(name="macro_f1", higher_is_better=True)),
    arms=(
        Arm(name="tiny", role="baseline", untuned="a fixed model"),
        Arm(name="huge", role="method", untuned="a fixed model"),
    ),
    factor="prompt",
    levels=tuple(Level(name=name) for name in PROMPTS),
    subjects=("tiny", "huge"),
    hypotheses=make_hypotheses("huge", "tiny", higher=True, level="bare"),
)

STUDY_CODE = """\
import numpy as np
import lab

DRAWS = {draws}
SHRINKAGE = {number}
PROMPTS = {{"bare": "{{}}", "steps": "{{}} Think step by step.", "role": "You are good at sums. {{}}"}}


def run(cell):
    data, subject = lab.data(cell.dataset), lab.llm(cell.arm)
    for split in ("validation", "test"):
        x = getattr(data, split).x
        asked = [PROMPTS[cell.level].format(row) for row in x for _ in range(DRAWS)]
        answers = subject.ask_many(asked, temperature=1.0)
        lab.submit(split=split, answers=[answers[i * DRAWS:(i + 1) * DRAWS] for i in range(len(x))], read="label")
    lab.save("loss", np.arange(4.0))


lab.measure(run)
"""


def answer_question(model: str, text: str, draw: int) -> str:
    """Return the kind of the sum in a question; wrong with the model's error rate, by question and draw."""
    numbers = [int(word.strip("?.,")) for word in text.split() if word.strip("?.,").isdigit()]
    kind = sum(numbers) % 3
    chance = random.Random(f"{model} {text} {draw}")
    if chance.random() > RIGHT_SHARES.get(model, 0.5):
        kind = (kind + chance.choice((1, 2))) % 3
    return f"It is {('low', 'middle', 'high')[kind]}."


def write_questions(path: Path) -> None:
    """Write 300 generated questions."""
    rng = random.Random(1)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("question", "kind"))
        for number in range(ROWS):
            a, b = rng.randrange(1000), 1000 * number + rng.randrange(1000)
            writer.writerow((f"Of which kind is {a} + {b} ?", ("low", "middle", "high")[(a + b) % 3]))


# --- a study in its own process
# --------------------------------------------------------------------------------------


def make_model() -> ScriptedModel:
    drawn = small_study.plots_code().replace("/loss.npy", "/loss__*__bare.npy")

    def code(inputs: CodeInputs) -> Program:
        number = inputs.ordinal if inputs.kind == "improve" else 0
        arms: tuple[str, ...] = ()
        text = STUDY_CODE.format(draws=DRAWS, number=number)
        if inputs.kind == "ablate":
            arms = (inputs.ablation.name if inputs.ablation is not None else "without-shrinkage",)
            text = text.replace("lab.llm(cell.arm)", 'lab.llm("tiny")')
        return Program(
            title=inputs.kind,
            plan="ask and cite",
            varies=f"{inputs.kind} {inputs.ordinal}",
            arms=arms,
            files=whole_files({"experiment.py": text, "plots.py": drawn}),
        )

    def figures(_: FiguresInputs) -> FigureScript:
        script = small_study.plots_code(save="import figure_style").replace("/loss.npy", "/loss__*__bare.npy")
        return FigureScript(
            script=script,
            figures=(FigurePart(name="loss", description="what was saved", code='figure_style.save(figure, "loss")'),),
        )

    def plot(_: PlotInputs) -> Plots:
        return Plots(plots=drawn)

    return small_study.make_small_model(plan=lambda _: PLAN, code=code, plot=plot, figures=figures)


def ignore_event(event: Event, state: RunState) -> None:
    """Ignore the event."""


def run_study(run: Path, url: str, questions: Path, cap: float) -> int:
    """Start or resume the study in this process."""
    from labwright.agent import run as running
    from labwright.agent.settings import compose_settings

    def opened(settings: Any) -> Any:
        return make_model()

    running.open_backend = opened
    price = {"input": 1.0, "output": 4.0}
    flags: dict[str, Any] = {
        "seed": 3,
        "sandbox.timeout": 600,
        "search.num_workers": 2,
        "search.num_drafts": 1,
        "search.num_seeds": 2,
        "search.max_seeds": 4,
        "search.preliminary.nodes": 1,
        "search.tuning.nodes": 1,
        "search.agenda.nodes": 1,
        "search.ablation.nodes": 1,
        "search.ladder": False,
        "paper.reflections": 1,
        "paper.judge": False,
        "paper.missing_ablations": 0,
        "literature.sources": [],
        "budget.subject_usd": cap,
        "data": f"sums={questions},target=kind,text=question",
        "models.name": "openai:some-model",
        **{
            f"subjects.{name}": {
                "model": f"openai-chat:{name}",
                "base_url": url,
                "price": price,
                "max_tokens": 16,
                "concurrency": IN_FLIGHT,
            }
            for name in RIGHT_SHARES
        },
    }
    if run.is_dir():
        return running.resume_run(run, {}, listener=ignore_event)
    return running.start_study(
        small_study.IDEA,
        compose_settings(flags=flags, environment={}),
        runs=run.parent,
        name=run.name,
        listener=ignore_event,
    )


def start_study(run: Path, url: str, questions: Path, cap: float) -> subprocess.Popen[bytes]:
    with open(run.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.studied_llms", "--work", str(run), url, str(questions), str(cap)],
            cwd=Path(__file__).resolve().parents[1],
            stdout=log,
            stderr=log,
            env=os.environ | {"OPENAI_API_KEY": "a-key-that-stays-with-the-host"},
        )


def measure_study(place: Path, *, kills: int, cap: float, delay: float = 0.2) -> dict[str, Any]:
    """Run the study with kills during its calls, complete it, and return repeated calls and the verdict."""
    run, questions = place / "study", place / "sums.csv"
    write_questions(questions)
    in_flight: list[int] = []
    began, rng, code = time.monotonic(), random.Random(5), -signal.SIGKILL
    with StudiedLlmServer(answer_question, delay=delay) as server:
        while code == -signal.SIGKILL:
            child = start_study(run, server.url, questions, cap)
            after = sum(server.counts().values()) + rng.randrange(500, 3000)
            while len(in_flight) < kills and child.poll() is None:
                counters = server.counters()
                if counters["open"] >= IN_FLIGHT and sum(counters["counts"].values()) > after:
                    child.kill()
                    in_flight.append(counters["open"])
                    break
                time.sleep(0.01)
            code = child.wait()
        time.sleep(2 * delay)
        counts = Counter(server.counts())
    state = read_state(run)
    asked, twice, lost = _read_ledger(run)
    checks = {
        command: subprocess.run(
            [sys.executable, "-m", "labwright", command, str(run), *more], check=False, capture_output=True
        ).returncode
        for command, more in (("audit", ()), ("reproduce", ("--limit", "1")))
    }  # the server has stopped by now
    exchanges = read_exchanges(run)
    uses = exchanges.usage
    return {
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "kills": len(in_flight),
        "in_flight_at_kills": in_flight,
        "calls_of_server": counts.total(),
        "calls_committed_before": asked.total(),
        "answers_committed": sum(one.calls for one in uses),
        "lost_in_flight": lost,
        "committed_answers_asked_again": twice,
        "asked_more_often_than_committed_before": sum((counts - asked).values()),
        "cap_usd": cap,
        "spent_usd": round(exchanges.spent.usd, 4),
        "cap_held": exchanges.spent.usd <= cap,
        "limited": state.limit_reason or "",
        "verdicts": {one.hypothesis.id: one.verdict for one in decide_hypotheses(state)},
        "nodes": Counter(f"{one.kind} {one.status}" for one in state.nodes.values()),
        "grades": sorted({one.grade for node in state.nodes.values() for one in node.measurements}),
        "exit_codes_of": checks,
        "models": {one.name: one.models for one in uses},
        "paper": state.paper.released is not None and state.paper.released.pdf,
        "ended": state.process_end.reason if state.process_end is not None else "",
        "why_not_released": (list(state.paper.released.reasons)[:3] if state.paper.released is not None else []),
    }


def _read_ledger(run: Path) -> tuple[Counter[str], int, int]:
    """Return calls committed before they were made, by question; answers committed twice; and calls lost."""
    batches = [CallBatch.model_validate_json(row.body) for row in read_stored_rows(run / EXCHANGES_FILE)]
    asked = {one.id: one for batch in batches for one in batch.asked}
    ended = {one.id: one for batch in batches for one in batch.answered}
    answered = Counter((asked[k].cell, asked[k].exchange) for k, one in ended.items() if one.answer is not None)
    return (
        Counter(
            find_question(
                {
                    "model": one.question.subject,
                    "messages": [turn.model_dump(mode="json") for turn in one.question.messages],
                }
            )
            for one in asked.values()
        ),
        sum(n - 1 for n in answered.values()),
        len(asked) - len(ended),
    )


# --- many calls -------------------------------------------------------------------------------------------------------

MANY_CALLS_CODE = """\
import lab

subject = lab.llm("tiny")
for start in range(0, {calls}, 5000):
    asked = subject.ask_many([f"Of which kind is {{n}} + 1 ?" for n in range(start, min(start + 5000, {calls}))])
    assert len({{one.id for one in asked}}) == len(asked)
    print(start + len(asked), "answered")
lab.result("answers", {calls}, dataset="iris", condition="tiny")
"""


async def measure_many_calls(place: Path, calls: int) -> dict[str, Any]:
    """Make so many calls in one cell; return calls per second, and the host's memory."""
    from labwright.models.budget import BudgetSettings
    from labwright.models.settings import SubjectSettings
    from labwright.models.studied_llms import StudiedLlms

    memory: list[int] = []
    with StudiedLlmServer(answer_question) as server:
        subjects = StudiedLlms(
            {"tiny": SubjectSettings(model="openai-chat:tiny", base_url=server.url, concurrency=64)},
            BudgetSettings(),
            LLMCallStore(place / EXCHANGES_FILE),
        )
        executor = LocalExecutor(1, place / "views", settings=SandboxSettings(timeout=7200), subjects=subjects)

        async def look() -> None:
            while True:
                memory.append(psutil.Process().memory_info().rss)
                await asyncio.sleep(0.5)

        found: dict[str, Any] = {}
        for name in ("asked", "replayed"):
            looking = asyncio.create_task(look())
            outcome = await measure_all(
                executor,
                Job(
                    name=name,
                    folder=place / name,
                    source={"experiment.py": MANY_CALLS_CODE.format(calls=calls)},
                    timeout=7200,
                    subjects=("tiny",),
                    cells={Cell(dataset="", arm=""): CellTask(key="many")},
                ),
            )
            looking.cancel()
            assert outcome.failure is None and outcome.asked == {"tiny": calls}, outcome.failure
            quarter = len(memory) // 4
            found[name] = {
                "seconds": round(outcome.seconds, 1),
                "calls_a_second": round(calls / outcome.seconds),
                "host_mb_after_a_quarter": round(memory[quarter] / 1e6),
                "host_mb_at_the_end": round(memory[-1] / 1e6),
                "host_mb_most": round(max(memory) / 1e6),
                "sha256": outcome.exchanges_sha256,
            }
            memory.clear()
        await executor.close()
        counts = server.counts()
    (use,) = read_exchanges(place).usage
    return {
        "calls": calls,
        "asked_of_server": sum(counts.values()),
        "committed": use.calls,
        "exchanges_mb": round((place / EXCHANGES_FILE).stat().st_size / 1e6),
        **found,
        "same": found["asked"]["sha256"] == found["replayed"]["sha256"],
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--work", nargs=4)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=3)
    args = parser.parse_args()
    if args.work:
        run, url, questions, cap = args.work
        sys.exit(run_study(Path(run), url, Path(questions), float(cap)))
    with tempfile.TemporaryDirectory() as place:
        found: dict[str, Any] = {}
        if args.kills >= 0:
            for name in ("killed", "capped"):
                Path(place, name).mkdir()
            found["killed"] = measure_study(Path(place, "killed"), kills=args.kills, cap=25.0)
            found["capped"] = measure_study(Path(place, "capped"), kills=0, cap=0.45, delay=0.01)
        if args.calls:
            Path(place, "many").mkdir()
            found["many"] = asyncio.run(measure_many_calls(Path(place, "many"), args.calls))
    print_report(found, args.out)


if __name__ == "__main__":
    main()
