"""Tasks made from a paper and its repository, as drafts: questions, their scripts, what an implementation must do.

Each answer of a model is kept, so that a call which is cut goes on. A draft is checked by program (the faults that
EXP-Bench lists in its table 7); the bench refuses it until a person accepts it. Nothing is executed here.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from labwright.agent.budget import models_of
from labwright.agent.campaign import slug
from labwright.agent.cli.checks import check_space, check_writable
from labwright.agent.cli.edge import DONE, FINDINGS
from labwright.agent.cli.paper_commands import BenchExpExtract, BenchExpReview
from labwright.agent.cli.shown import line, show
from labwright.agent.settings import Settings, compose
from labwright.evals.expbench.tasks import DRAFT, GROUPS, SUFFIX
from labwright.models.client import Models
from labwright.models.roles.extracting import (
    PAPER_QUESTIONS,
    QUESTION_SCRIPTS,
    SCRIPT_STEPS,
    DraftQuestion,
    PaperQuestionsInputs,
    QuestionScripts,
    QuestionScriptsInputs,
    ScriptSteps,
    ScriptStepsInputs,
)
from labwright.models.roles.judge import ShownPaper
from labwright.models.roles.repository import Shown
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file
from labwright.record.lock import hold
from labwright.record.log import EventLog
from labwright.record.nouns.decisions import Work
from labwright.record.prompts import keep as keep_prompt
from labwright.record.whole_numbers import parse_whole_number
from labwright.review.judge import guarded, read_paper
from labwright.review.judge.quotes import stands_in
from labwright.review.judge.sections import excerpt
from labwright.sandbox.repository.mirror import Mirror
from labwright.stages.bench import numbered
from labwright.stages.repository.context import context_of, requested
from labwright.stages.repository.stated import numbers_in

LOG, PAPERS, NEEDS = "extract.db", "papers.jsonl", "needs.json"
CHARACTERS = 110_000
REQUESTS, TURNS = 3, 3
OVERLAP = 7
"""Words in a row of the outcome that a question may not have."""


def bench_exp_extract(asked: BenchExpExtract) -> int:
    settings = compose(config=asked.config, flags=asked.flags)
    if settings.models.name == "offline":
        raise WrongUse("the offline model reads no papers: configure another, as with --model")
    check_writable(asked.out, "--out")
    check_space(settings, asked.out)
    out = asked.out.absolute()
    Mirror.check(asked.code)
    out.mkdir(parents=True, exist_ok=True)
    with hold(out), closing(EventLog(out / LOG)) as log:
        drafts = asyncio.run(extract(asked.paper, asked.code, out, settings, log))
    show(
        [
            line(f"{len(drafts)} drafts in {out}, none of which the bench takes before you accept it"),
            *(
                line(f"{name}: {'; '.join(faults) or 'no fault found'}", "yellow" if faults else "")
                for name, faults in drafts.items()
            ),
            line(f"read them, then: scientist bench exp-review {out} ID/N --accept"),
        ]
    )
    return FINDINGS if any(drafts.values()) or not drafts else DONE


async def extract(paper: Path, code: Path, out: Path, settings: Settings, log: EventLog) -> dict[str, list[str]]:
    """Make the drafts of a paper; task -> what is wrong with it. Raises `ModelError`, `WrongUse`."""
    read = await guarded(await read_paper(paper))
    taken = excerpt(read.paper.sections, CHARACTERS)
    mirror = Mirror(out / "mirror")
    tree = mirror.take(code)
    texts = mirror.texts(tree.tree)
    models = models_of(settings, log, partial(keep_prompt, out))
    context = context_of(texts, ())
    title = next((one.title for one in read.paper.sections if one.title), paper.stem)
    found = await models.at(numbered(log, Work(task="questions")), 0).ask(
        PAPER_QUESTIONS,
        PaperQuestionsInputs(
            title=title,
            map=context.map,
            paper=ShownPaper(text=taken.text, characters=len(read.paper.text), left_out=()),
        ),
    )
    name = slug(paper.stem)
    questions: list[dict[str, Any]] = []
    for number, one in enumerate(found.questions, 1):
        scripts = await scripts_of(models, log, number, one, texts)
        steps = await steps_of(models, log, number, one, scripts, texts)
        draft = task_of(one, scripts, steps)
        questions.append(
            draft
            | {DRAFT: "unreviewed", "lint": list(lint(draft, texts, quoted=stands_in(one.quote, read.paper.text)))}
        )
    write_file(
        out / "tasks" / name / f"{name}{SUFFIX}",
        json.dumps({"title": title, "questions": questions}, indent=1, ensure_ascii=False) + "\n",
    )
    write_file(
        out / PAPERS,
        json.dumps(
            {"id": name, "title": title, "code_url": str(code.absolute()), "commit": tree.commit, "domain": "extracted"}
        )
        + "\n",
    )
    write_file(
        out / NEEDS,
        json.dumps(
            {
                f"{name}/{index}": {"gpus": None, "network": None, "keys": [], "data": None, "minutes": None}
                for index in range(len(questions))
            },
            indent=1,
        )
        + "\n",
    )
    return {f"{name}/{index}": one["lint"] for index, one in enumerate(questions)}


async def scripts_of(
    models: Models, log: EventLog, number: int, one: DraftQuestion, texts: Mapping[str, str]
) -> QuestionScripts:
    """The scripts of a question; those that are not there are sent back."""
    context = context_of(texts, ())
    ask = models.at(numbered(log, Work(task=f"scripts {number}")), 0)
    inputs = QuestionScriptsInputs(
        question=one.question,
        method=one.method,
        map=context.map,
        shown=context.shown,
        left_out=context.left_out,
        requests_left=REQUESTS,
    )
    left, turns = REQUESTS, TURNS
    while True:
        found = await ask.ask(QUESTION_SCRIPTS, inputs)
        if found.wants and not found.scripts and left:
            left -= 1
            shown, missed = requested(found.wants, texts)
            inputs = inputs.model_copy(
                update={"requested": (*inputs.requested, *shown), "requests_left": left, "complaints": missed}
            )
            continue
        missing = [path for path in found.scripts if path not in texts]
        turns -= 1
        if not missing or not turns:
            return found.model_copy(update={"scripts": tuple(path for path in found.scripts if path in texts)})
        inputs = inputs.model_copy(update={"complaints": tuple(f"there is no file {path}" for path in missing)})


async def steps_of(
    models: Models, log: EventLog, number: int, one: DraftQuestion, scripts: QuestionScripts, texts: Mapping[str, str]
) -> ScriptSteps | None:
    """What the scripts do, each step with a line that is there; None without scripts."""
    if not scripts.scripts:
        return None
    ask = models.at(numbered(log, Work(task=f"steps {number}")), 0)
    inputs = ScriptStepsInputs(
        question=one.question,
        method=one.method,
        scripts=tuple(Shown(path=path, text=_numbered(texts[path])) for path in scripts.scripts),
    )
    found = await ask.ask(SCRIPT_STEPS, inputs)
    for _ in range(TURNS - 1):
        wrong = [
            f"{step.path}:{step.line} is no line of these scripts"
            for step in found.steps
            if step.path not in scripts.scripts or step.line > texts[step.path].count("\n") + 1
        ]
        if not wrong:
            break
        found = await ask.ask(SCRIPT_STEPS, inputs.model_copy(update={"complaints": tuple(wrong)}))
    return found


def _numbered(text: str) -> str:
    return "".join(f"{number:4} {each}\n" for number, each in enumerate(text.splitlines(), 1))


def task_of(one: DraftQuestion, scripts: QuestionScripts, steps: ScriptSteps | None) -> dict[str, Any]:
    """A draft in the form of the published tasks."""
    values = zip(GROUPS, (one.constants, one.varied, one.measured), strict=True)
    base: dict[str, Any] = {
        "question": one.question,
        "method": one.method,
        "expected_outcome": one.outcome,
        "subsection_source": one.section,
        "design_complexity": {group: {each.name: each.value for each in every} for group, every in values},
        "experiment_setup_complexity": {"setup_steps": list(one.setup)},
    }
    if steps is None:
        return base | {"no_answer": scripts.why}
    masked = [f"/workspace/{path}" for path in scripts.scripts]
    return base | {
        "source": masked,
        "masked_source": masked,
        "usage_instructions": scripts.usage,
        "agent_instructions": steps.instructions,
        "requirements": [
            f"{'Final Step' if number == len(steps.steps) else f'Step {number}'}: {step.text} "
            f"(/workspace/{step.path}:{step.line})"
            for number, step in enumerate(steps.steps, 1)
        ],
    }


# --- what is wrong with a draft ---------------------------------------------------------------------------------------


def lint(draft: Mapping[str, Any], texts: Mapping[str, str], *, quoted: bool = True) -> Iterator[str]:
    """The faults of EXP-Bench's table 7 that a program sees."""
    told = {name: str(draft.get(name) or "") for name in ("question", "method", "agent_instructions")}
    shown, outcome = "\n".join(told.values()), str(draft["expected_outcome"])
    masked = [str(one).removeprefix("/workspace/") for one in draft.get("masked_source", ())]
    if not told["question"].rstrip().endswith("?"):
        yield "a statement and no question"
    if (given := [one for one in numbers_in(outcome) if "." in one and one in numbers_in(shown)]) or (
        _overlap(outcome, told["question"])
    ):
        yield f"what is shown tells the outcome ({', '.join(given) or 'its words'})"
    for path in masked:
        if path not in texts:
            yield f"a masked file that is not there: {path}"
        elif path.rpartition("/")[2] in shown:
            yield f"what is shown names the masked file {path}"
    for one in draft.get("requirements", ()):
        text = str(one).rpartition(" (")[0]
        if any(path.rpartition("/")[2] in text for path in masked):
            yield f"a requirement uses a masked file: {text[:80]}"
    if re.search(r"\b(Table|Figure|Fig\.|Tab\.|Section|Appendix) ?\d", shown):
        yield "what is shown cites a table, figure or section of the paper"
    constants: Mapping[str, Any] = draft["design_complexity"][GROUPS[0]]
    missing = [
        name
        for name, value in constants.items()
        if any(number not in numbers_in(shown) for number in numbers_in(str(value)))
    ]
    if missing:
        yield f"settings that nobody is told: {', '.join(missing)}"
    if not quoted:
        yield "the passage that reports the outcome does not stand in the paper"
    if not masked and not draft["experiment_setup_complexity"]["setup_steps"]:
        yield "neither scripts nor steps: nothing to hold an implementation against"


def _overlap(outcome: str, question: str) -> bool:
    words, held = re.findall(r"\w+", outcome.lower()), " ".join(re.findall(r"\w+", question.lower()))
    return any(" ".join(words[at : at + OVERLAP]) in held for at in range(len(words) - OVERLAP + 1))


# --- a person's word --------------------------------------------------------------------------------------------------


def bench_exp_review(asked: BenchExpReview) -> int:
    """List drafts with their faults, or take a person's word on one."""
    files = sorted((asked.folder / "tasks").glob(f"*/*{SUFFIX}"))
    if not files:
        raise WrongUse(f"{asked.folder} holds no tasks: give the folder that exp-extract wrote")
    if asked.accept and asked.reject:
        raise WrongUse("--accept and --reject: choose one")
    if asked.task is None:
        for file in files:
            show(_listed(file))
        return DONE
    if not (asked.accept or asked.reject):
        raise WrongUse(f"say --accept or --reject of {asked.task}")
    paper, _, index = asked.task.partition("/")
    file = next((one for one in files if one.parent.name == paper), None)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file is not None else {"questions": ()}
    number = parse_whole_number(index)
    if file is None or number is None or number >= len(content["questions"]):
        raise WrongUse(f"{asked.folder} has no task {asked.task}: see scientist bench exp-review {asked.folder}")
    state: Literal["accepted", "rejected"] = "accepted" if asked.accept else "rejected"
    content["questions"][number][DRAFT] = state
    write_file(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    show([line(f"{asked.task}: {state}")])
    return DONE


def _listed(file: Path) -> Iterator[Any]:
    questions: Sequence[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["questions"]
    for index, one in enumerate(questions):
        yield line(f"{file.parent.name}/{index} ({one.get(DRAFT, 'published')}): {one['question']}", "bold")
        for fault in one.get("lint", ()):
            yield line(f"  {fault}", "yellow")
