"""Submissions for a task, by this project's agent or another: files, a design, a conclusion, the work log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from pydantic import BaseModel, Field

from labwright.evals.item_loop import select_items
from labwright.record.errors import UsageError
from labwright.record.schema import FrozenModel
from labwright.record.untrusted_files import write_file

# Tasks of EXP-Bench as published, with their quirks: `ID/ID_complete_final.json`, a task is ID/index. The same folder
# has `papers.jsonl` (category, `code_url`, `commit`) and `needs.json` (GPUs, keys, network, data, minutes). No field
# shown to an agent contains the answer (takeaways, outcomes, follow-ups).

TASK_FILE_SUFFIX = "_complete_final.json"
DRAFT_MARK = "draft"
"""Key of a task extracted by this program: unreviewed, accepted or rejected."""
PREFIXES = ("/workspace/", "/tmp/", "workspace/", "/")
VARIABLE_GROUPS = ("constant_variables", "independent_variables", "dependent_variables")


class TaskPathRefused(ValueError):
    """A path in a task is outside its repository, or is not a file."""


def parse_repository_path(path: str) -> str:
    """Parse a path in a task, relative to the root of the repository. Raises `TaskPathRefused`."""
    rest = next((path.removeprefix(one) for one in PREFIXES if path.startswith(one)), path)
    parts = [one for one in rest.split("/") if one != "."]
    if not rest or rest.startswith("/") or "\\" in rest or ".." in parts or not any(parts):
        raise TaskPathRefused(f"{path!r} is not a file of the repository")
    return "/".join(one for one in parts if one)


class TaskVariable(FrozenModel):
    group: str = Field(description="constant, independent or dependent")
    name: str
    value: str


def list_design_variables(design: Mapping[str, Any]) -> tuple[TaskVariable, ...]:
    """Return the variables of a design in order."""
    whole = as_mapping(design.get("design_complexity", design))
    return tuple(
        TaskVariable(group=group.removesuffix("_variables"), name=str(name), value=as_text(value))
        for group in VARIABLE_GROUPS
        for name, value in as_mapping(whole.get(group)).items()
    )


class TaskNeeds(BaseModel):
    """What a task needs from the machine, of the fields of needs.json; None if unknown."""

    gpus: int | None = 0
    network: bool | None = False
    keys: tuple[str, ...] = ()
    data: tuple[str, ...] | None = ()


class ExpTask(FrozenModel):
    """One question. `shown` is everything that an agent sees; the rest is for the judge."""

    name: str = Field(description="ID/index")
    type: Literal[1, 2, 3] = Field(description="1: of the paper, scripts found; 2: of the repository; 3: no script")
    question: str
    method: str
    instructions: str = ""
    masked: tuple[str, ...] = Field(default=(), description="files removed from the repository")
    invalid: str = Field(default="", description="why it cannot be used")
    design: tuple[TaskVariable, ...] = ()
    requirements: tuple[str, ...] = ()
    outcome: str
    category: str = ""
    code_url: str = ""
    commit: str = ""
    needs: TaskNeeds | None = None

    @property
    def agent_inputs(self) -> dict[str, str]:
        visible = {"question": self.question, "method": self.method, "instructions": self.instructions}
        return {name: text for name, text in visible.items() if text}


def read_tasks(folder: Path, only: Sequence[str] = ()) -> tuple[ExpTask, ...]:
    """Read the tasks of a folder by paper and index; `only` selects some. Raises `UsageError`.

    Selectors are ID, ID/N, type=1 and category=X; names may be patterns.
    """
    place = folder / "tasks" if (folder / "tasks").is_dir() else folder
    files = sorted(place.glob(f"*/*{TASK_FILE_SUFFIX}"))
    if not files:
        raise UsageError(f"--tasks {folder} contains no ID/ID{TASK_FILE_SUFFIX}: give the folder of EXP-Bench's tasks")
    papers, needs = _read_papers(place.parent, place), _read_needs(place.parent, place)
    tasks = [one for file in files for one in _read_file(file, papers, needs)]
    where = f"tasks in {folder}"
    if tasks:
        where += f"; use a name such as {tasks[0].name}, type={tasks[0].type} or category={tasks[0].category or 'X'}"
    return select_items(tasks, only, where, _is_chosen)


def _is_chosen(task: ExpTask, choice: str) -> bool:
    key, equals, value = choice.partition("=")
    if equals and key in ("type", "category"):
        return fnmatch(str(getattr(task, key)).lower(), value.lower())
    return fnmatch(task.name, choice) or fnmatch(task.name.partition("/")[0], choice)


def _read_papers(*places: Path) -> dict[str, dict[str, Any]]:
    file = next((one / "papers.jsonl" for one in places if (one / "papers.jsonl").is_file()), None)
    lines = file.read_text(encoding="utf-8").splitlines() if file is not None else []
    try:
        found: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
        return {str(one["id"]): one for one in found}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} is not a list of papers, one per line with id ({error})") from None


def _read_needs(*places: Path) -> dict[str, Any]:
    file = next((one / "needs.json" for one in places if (one / "needs.json").is_file()), None)
    try:
        return json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
    except ValueError as error:
        raise UsageError(f"{file} is not valid JSON: {error}") from None


def _read_file(file: Path, papers: Mapping[str, Any], needs: Mapping[str, Any]) -> Iterator[ExpTask]:
    try:
        questions: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8-sig"))["questions"]
        for index, one in enumerate(questions):
            name = f"{file.parent.name}/{index}"
            yield _parse_task(name, one, papers.get(file.parent.name, {}), needs.get(name))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} is not a file of EXP-Bench tasks ({type(error).__name__}: {error})") from None


def _parse_task(name: str, one: dict[str, Any], about: Mapping[str, Any], needs: Any) -> ExpTask:
    kind: Literal[1, 2, 3] = 1 if one.get("masked_source") else 2 if one.get("source") else 3
    named: list[str] = one.get("masked_source" if kind == 1 else "source") or [] if kind != 3 else []
    masked, invalid = list[str](), ""
    for said in named:
        try:
            masked.append(parse_repository_path(said))
        except TaskPathRefused as error:
            invalid = str(error)
    if (draft := one.get(DRAFT_MARK, "accepted")) != "accepted":
        invalid = f"a draft ({draft}): read it, then scientist bench exp-review DIR {name} --accept"
    steps: list[Any] = as_mapping(one.get("experiment_setup_complexity")).get("setup_steps") or []
    requirements: list[Any] = one.get("requirements") or (steps if kind == 3 else [])
    category, _, _ = str(about.get("category") or about.get("domain") or "").partition(" → ")
    return ExpTask(
        name=name,
        type=kind,
        question=as_text(one["question"]),
        method=as_text(one["method"]),
        instructions=as_text(one.get("agent_instructions")),
        masked=tuple(dict.fromkeys(masked)),
        invalid=invalid,
        design=list_design_variables(as_mapping(one.get("design_complexity"))),
        requirements=tuple(as_text(step) for step in requirements),
        outcome=as_text(one.get("expected_outcome")),
        category=category,
        code_url=str(about.get("code_url") or ""),
        commit=str(about.get("commit") or ""),
        needs=None if needs is None else TaskNeeds.model_validate(needs),
    )


def as_mapping(value: Any) -> dict[str, Any]:
    """Return a mapping unchanged, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    """Return a string from a string, a list, or an object."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


SCRIPT_FILE = "reproduce_exp_bench.sh"
REPLY_KEYS = frozenset(("design", "conclusion"))


class SubmittedAnswer(FrozenModel):
    """A submission. `files` are by path in the repository, including the script. `given`: whether there is a usable
    answer.
    """

    variant: str = ""
    files: dict[str, str] = Field(default_factory=dict)
    given: bool = True
    missing: bool = Field(default=False, description="whether no agent was asked, or the outcome is unknown")
    design: tuple[str, ...] = ()
    conclusion: str = ""
    extra: tuple[str, ...] = Field(default=(), description="extra keys, for which the original harness rejects it")
    record: dict[str, Any] = Field(default_factory=dict)
    judge: dict[str, Any] | None = Field(default=None, description="stored verdicts of a judge")
    minutes: float | None = None
    usd: float | None = None


def read_answers(file: Path) -> dict[str, tuple[SubmittedAnswer, ...]]:
    """Read the answers of a file, by task and variant. Raises `UsageError`."""
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
        return {
            str(task): tuple(_parse_answer(str(name), one) for name, one in variants.items())
            for task, variants in content.items()
        }
    except OSError as error:
        raise UsageError(f"--answers {file} cannot be read: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise UsageError(
            f"--answers {file} is not a file of answers, {{TASK: {{VARIANT: {{files, answer, record}}}}}} "
            f"({type(error).__name__}: {' '.join(str(error).split())[:160]})"
        ) from None


def _parse_answer(name: str, one: Mapping[str, Any]) -> SubmittedAnswer:
    files = cast("dict[str, str]", one.get("files") or {})
    for path in files:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ValueError(f"{path} is outside the repository")
    return answer_from_reply(one.get("answer")).model_copy(
        update={
            "variant": name,
            "files": files,
            "record": one.get("record") or {},
            "judge": one.get("judge"),
            "minutes": one.get("minutes"),
            "usd": one.get("usd"),
        }
    )


def answer_from_reply(reply: Any) -> SubmittedAnswer:
    """Parse an answer from JSON: design and conclusion; without either, there is no answer."""
    if not isinstance(reply, Mapping):
        return SubmittedAnswer(given=False)
    named = cast("Mapping[str, Any]", reply)
    if any(not named.get(key) for key in REPLY_KEYS):
        return SubmittedAnswer(given=False)
    design = named["design"]
    lines = cast("list[Any]", design) if isinstance(design, list) else [design]
    return SubmittedAnswer(
        design=tuple(as_text(line) for line in lines),
        conclusion=as_text(named["conclusion"]),
        extra=tuple(sorted(str(key) for key in named if key not in REPLY_KEYS)),
    )


def write_answer_files(answer: SubmittedAnswer, folder: Path) -> None:
    """Write its files into a masked copy."""
    for name, text in answer.files.items():
        write_file(folder, name, text)


def format_change(files: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Return a unified diff of the changed files against the originals."""
    parts: list[str] = []
    for path, text in sorted(files.items()):
        before = texts.get(path, "")
        parts += unified_diff(
            before.splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"a/{path}" if path in texts else "/dev/null",
            f"b/{path}",
        )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)
