"""Extract draft tasks from a paper and its repository: questions, their scripts, implementation requirements.

Each model answer is stored, so an interrupted call can continue. The program checks drafts for the faults in
EXP-Bench's table 7; the benchmark rejects a draft until a human accepts it. Nothing is executed here.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from labwright.agent.campaign import to_slug
from labwright.agent.cli.errors import DONE, FINDINGS, format_line, print_lines
from labwright.agent.cli.preflight import check_disk_space, check_writable
from labwright.agent.forecast import open_budgeted_models
from labwright.agent.settings import Settings, compose_settings
from labwright.evals.commands import BenchExpExtract, BenchExpReview
from labwright.evals.expbench.answer_judge import find_numbers
from labwright.evals.expbench.answers import DRAFT_MARK, TASK_FILE_SUFFIX, VARIABLE_GROUPS
from labwright.evals.expbench.roles import (
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
from labwright.evals.item_loop import open_answers
from labwright.models.client import Models
from labwright.models.roles.judge import ShownPaper
from labwright.models.roles.repository import ShownFile
from labwright.record.errors import UsageError
from labwright.record.event_log import EventLog
from labwright.record.float_compare import parse_whole_number
from labwright.record.llm_calls import store_prompt
from labwright.record.run_folder import write_file
from labwright.record.schema.decisions import RunTask
from labwright.review.judge.guards import guard_paper
from labwright.review.judge.paper_reader import make_excerpt, quote_is_in, read_paper
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.stages.repository.program_facts import read_requested, show_code
from labwright.stages.run_context import decision_number

LOG_FILE, PAPERS_FILE, NEEDS_FILE = "extract.jsonl", "papers.jsonl", "needs.json"
MAX_CHARACTERS = 110_000
MAX_REQUESTS, MAX_TURNS = 3, 3
MAX_SHARED_WORDS = 7
"""Maximum consecutive words of the outcome that a question may contain."""


def run_extraction(args: BenchExpExtract) -> int:
    settings = compose_settings(config=args.config, flags=args.flags)
    if settings.models.name == "offline":
        raise UsageError("the offline model cannot read papers: configure another, as with --model")
    check_writable(args.out, "--out")
    check_disk_space(settings, args.out)
    out = args.out.absolute()
    GitMirror.read_working_texts(args.code)
    with open_answers(out, file=LOG_FILE) as log:
        drafts = asyncio.run(extract_tasks(args.paper, args.code, out, settings, log))
    print_lines(
        [
            format_line(f"drafts in {out}: {len(drafts)}; the benchmark uses none before you accept it"),
            *(
                format_line(f"{name}: {'; '.join(faults) or 'no fault found'}", "yellow" if faults else "")
                for name, faults in drafts.items()
            ),
            format_line(f"read them, then: scientist bench exp-review {out} ID/N --accept"),
        ]
    )
    return FINDINGS if any(drafts.values()) or not drafts else DONE


async def extract_tasks(paper: Path, code: Path, out: Path, settings: Settings, log: EventLog) -> dict[str, list[str]]:
    """Make the drafts of a paper; return the faults of each task. Raises `ModelError`, `UsageError`."""
    read = await guard_paper(await read_paper(paper))
    taken = make_excerpt(read.paper.sections, MAX_CHARACTERS)
    mirror = GitMirror(out / "mirror")
    tree = mirror.import_head(code)
    texts = mirror.read_texts(tree.tree)
    models = open_budgeted_models(settings, log, partial(store_prompt, out))
    title = next((one.title for one in read.paper.sections if one.title), paper.stem)
    found = await models.make_client(decision_number(log, RunTask(task="questions")), 0).ask(
        PAPER_QUESTIONS,
        PaperQuestionsInputs(
            title=title,
            map=show_code(texts, ()).map,
            paper=ShownPaper(text=taken.text, characters=len(read.paper.text), left_out=()),
        ),
    )
    name = to_slug(paper.stem)
    questions: list[dict[str, Any]] = []
    for number, one in enumerate(found.questions, 1):
        scripts = await ask_scripts(models, log, number, one, texts)
        steps = await ask_script_steps(models, log, number, one, scripts, texts)
        draft = build_task(one, scripts, steps)
        questions.append(
            draft
            | {
                DRAFT_MARK: "unreviewed",
                "lint": list(lint_draft(draft, texts, quoted=quote_is_in(one.quote, read.paper.text))),
            }
        )
    write_file(
        out / "tasks" / name / f"{name}{TASK_FILE_SUFFIX}",
        json.dumps({"title": title, "questions": questions}, indent=1, ensure_ascii=False) + "\n",
    )
    write_file(
        out / PAPERS_FILE,
        json.dumps(
            {"id": name, "title": title, "code_url": str(code.absolute()), "commit": tree.commit, "domain": "extracted"}
        )
        + "\n",
    )
    write_file(
        out / NEEDS_FILE,
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


async def ask_scripts(
    models: Models, log: EventLog, number: int, one: DraftQuestion, texts: Mapping[str, str]
) -> QuestionScripts:
    """Return the scripts of a question; missing files are sent back to the model."""
    ask = models.make_client(decision_number(log, RunTask(task=f"scripts {number}")), 0)
    inputs = QuestionScriptsInputs(
        **dict(show_code(texts, ())), question=one.question, method=one.method, requests_left=MAX_REQUESTS
    )
    left, turns = MAX_REQUESTS, MAX_TURNS
    while True:
        found = await ask.ask(QUESTION_SCRIPTS, inputs)
        if found.wants and not found.scripts and left:
            left -= 1
            shown, missed = read_requested(found.wants, texts)
            inputs = inputs.model_copy(
                update={"requested": (*inputs.requested, *shown), "requests_left": left, "complaints": missed}
            )
            continue
        missing = [path for path in found.scripts if path not in texts]
        turns -= 1
        if not missing or not turns:
            return found.model_copy(update={"scripts": tuple(path for path in found.scripts if path in texts)})
        inputs = inputs.model_copy(update={"complaints": tuple(f"the file {path} does not exist" for path in missing)})


async def ask_script_steps(
    models: Models, log: EventLog, number: int, one: DraftQuestion, scripts: QuestionScripts, texts: Mapping[str, str]
) -> ScriptSteps | None:
    """Return what the scripts do, each step with an existing line; None without scripts."""
    if not scripts.scripts:
        return None
    ask = models.make_client(decision_number(log, RunTask(task=f"steps {number}")), 0)
    inputs = ScriptStepsInputs(
        question=one.question,
        method=one.method,
        scripts=tuple(ShownFile(path=path, text=_number_lines(texts[path])) for path in scripts.scripts),
    )
    found = await ask.ask(SCRIPT_STEPS, inputs)
    for _ in range(MAX_TURNS - 1):
        wrong = [
            f"{step.path}:{step.line} is not a line of these scripts"
            for step in found.steps
            if step.path not in scripts.scripts or step.line > texts[step.path].count("\n") + 1
        ]
        if not wrong:
            break
        found = await ask.ask(SCRIPT_STEPS, inputs.model_copy(update={"complaints": tuple(wrong)}))
    return found


def _number_lines(text: str) -> str:
    return "".join(f"{number:4} {each}\n" for number, each in enumerate(text.splitlines(), 1))


def build_task(one: DraftQuestion, scripts: QuestionScripts, steps: ScriptSteps | None) -> dict[str, Any]:
    """Build a draft in the format of the published tasks."""
    values = zip(VARIABLE_GROUPS, (one.constants, one.varied, one.measured), strict=True)
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


# --- faults of a draft
# ------------------------------------------------------------------------------------------------


def lint_draft(draft: Mapping[str, Any], texts: Mapping[str, str], *, quoted: bool = True) -> Iterator[str]:
    """Yield the faults from EXP-Bench's table 7 that a program can detect."""
    visible = {name: str(draft.get(name) or "") for name in ("question", "method", "agent_instructions")}
    shown, outcome = "\n".join(visible.values()), str(draft["expected_outcome"])
    masked = [str(one).removeprefix("/workspace/") for one in draft.get("masked_source", ())]
    if not visible["question"].rstrip().endswith("?"):
        yield "a statement instead of a question"
    if (given := [one for one in find_numbers(outcome) if "." in one and one in find_numbers(shown)]) or (
        _has_overlap(outcome, visible["question"])
    ):
        yield f"the visible text reveals the outcome ({', '.join(given) or 'its words'})"
    for path in masked:
        if path not in texts:
            yield f"a masked file does not exist: {path}"
        elif path.rpartition("/")[2] in shown:
            yield f"the visible text names the masked file {path}"
    for one in draft.get("requirements", ()):
        text = str(one).rpartition(" (")[0]
        if any(path.rpartition("/")[2] in text for path in masked):
            yield f"a requirement uses a masked file: {text[:80]}"
    if re.search(r"\b(Table|Figure|Fig\.|Tab\.|Section|Appendix) ?\d", shown):
        yield "the visible text cites a table, figure or section of the paper"
    constants: Mapping[str, Any] = draft["design_complexity"][VARIABLE_GROUPS[0]]
    missing = [
        name
        for name, value in constants.items()
        if any(number not in find_numbers(shown) for number in find_numbers(str(value)))
    ]
    if missing:
        yield f"settings that the task does not state: {', '.join(missing)}"
    if not quoted:
        yield "the passage that reports the outcome is not in the paper"
    if not masked and not draft["experiment_setup_complexity"]["setup_steps"]:
        yield "neither scripts nor steps: an implementation cannot be checked"


def _has_overlap(outcome: str, question: str) -> bool:
    words, question_words = re.findall(r"\w+", outcome.lower()), " ".join(re.findall(r"\w+", question.lower()))
    return any(
        " ".join(words[at : at + MAX_SHARED_WORDS]) in question_words for at in range(len(words) - MAX_SHARED_WORDS + 1)
    )


# --- human review
# -----------------------------------------------------------------------------------------------------


def review_drafts(args: BenchExpReview) -> int:
    """List drafts with their faults, or record a human decision on one."""
    files = sorted((args.folder / "tasks").glob(f"*/*{TASK_FILE_SUFFIX}"))
    if not files:
        raise UsageError(f"{args.folder} contains no tasks: give the output folder of exp-extract")
    if args.accept and args.reject:
        raise UsageError("--accept and --reject exclude each other: choose one")
    if args.task is None:
        for file in files:
            print_lines(_read_entries(file))
        return DONE
    if not (args.accept or args.reject):
        raise UsageError(f"give --accept or --reject for {args.task}")
    paper, _, index = args.task.partition("/")
    file = next((one for one in files if one.parent.name == paper), None)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file is not None else {"questions": ()}
    number = parse_whole_number(index)
    if file is None or number is None or number >= len(content["questions"]):
        raise UsageError(f"{args.folder} has no task {args.task}: see scientist bench exp-review {args.folder}")
    state: Literal["accepted", "rejected"] = "accepted" if args.accept else "rejected"
    content["questions"][number][DRAFT_MARK] = state
    write_file(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print_lines([format_line(f"{args.task}: {state}")])
    return DONE


def _read_entries(file: Path) -> Iterator[Any]:
    questions: Sequence[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["questions"]
    for index, one in enumerate(questions):
        yield format_line(f"{file.parent.name}/{index} ({one.get(DRAFT_MARK, 'published')}): {one['question']}", "bold")
        for fault in one.get("lint", ()):
            yield format_line(f"  {fault}", "yellow")
