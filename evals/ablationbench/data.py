"""Read the benchmark's tables: papers with their gold ablations, and plans labelled for judges.

The source is a folder with `author/test.jsonl` (or .parquet; `researcher/` is the paper's "author"), or `hf:OWNER`
for the public tables on the Hugging Face hub. Papers are below that folder, or below a given one (a checkout).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, cast, get_args

from labwright.evals.ablationbench.papers import ACTIONS, PlannedAblation, parse_entry
from labwright.evals.ablationbench.scores import Row
from labwright.evals.item_loop import select_items
from labwright.record.errors import UsageError
from labwright.sandbox.data.frames import import_datasets_library, import_pyarrow

Task = Literal["author", "reviewer"]
TASKS: tuple[Task, ...] = get_args(Task)
TASK_FOLDERS: dict[Task, tuple[str, ...]] = {"author": ("author", "researcher"), "reviewer": ("reviewer",)}
PUBLISHED_NAMES: dict[Task, str] = {"author": "researcher", "reviewer": "reviewer"}
"""Name of each task on the hub."""
MAX_BYTES = 500_000_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


@dataclass(frozen=True)
class BenchPaper:
    """A paper of one task.

    `gold` is in order of appearance (author); `reviews` and their requests (reviewer).
    """

    task: Task
    id: str
    title: str
    abstract: str
    folder: Path
    gold: tuple[PlannedAblation, ...] = ()
    reviews: tuple[str, ...] = ()
    requests: int = 0

    @property
    def target_count(self) -> int:
        """Return the number of gold ablations, or of requests in the reviews; 0 cannot be scored."""
        return len(self.gold) if self.task == "author" else self.requests


@dataclass(frozen=True)
class LabelledPlan:
    """A plan labelled by humans, as PLANNER/PAPER."""

    planner: str
    paper: str
    rows: tuple[Row, ...]


def read_papers(
    data: str, task: Task, split: str, *, papers: Path | None = None, only: Sequence[str] = ()
) -> tuple[BenchPaper, ...]:
    """Read the papers of a split, or those that `only` names. Raises `UsageError`."""
    rows = _read_table(data, task, split)
    below = papers or (Path() if data.startswith("hf:") else Path(data))
    read = [_parse_paper(task, row, number, below) for number, row in enumerate(rows, 1)]
    twice = {one.id for one in read if sum(other.id == one.id for other in read) > 1}
    if twice:
        raise UsageError(f"--data {data}: {task}/{split} has the id {min(twice)} twice: remove one of its rows")
    return select_items(read, only, f"papers of {task}/{split}", lambda one, pattern: fnmatch(one.id, pattern))


def find_tasks(data: str) -> tuple[Task, ...]:
    """Return the tasks for which a folder has tables. Raises `UsageError`."""
    if data.startswith("hf:"):
        return TASKS
    found: tuple[Task, ...] = tuple(
        task for task in TASKS if any((Path(data) / name).is_dir() for name in TASK_FOLDERS[task])
    )
    if not found:
        raise UsageError(
            f"--data {data}: there is no folder {' or '.join(TASKS)} with test.jsonl: see docs/benchmarks.md"
        )
    return found


def read_labels(data: str, task: Task) -> tuple[LabelledPlan, ...]:
    """Read the plans labelled by humans. Raises `UsageError`."""
    if data.startswith("hf:"):
        rows = _read_from_hub(f"{data.removeprefix('hf:')}/{PUBLISHED_NAMES[task]}-ablation-judge-eval", "test")
    else:
        folder = Path(data) / "judge_eval"
        rows = _read_first_file(
            [folder / f"{name}{end}" for name in TASK_FOLDERS[task] for end in (".jsonl", ".parquet")]
        )
    found = list[LabelledPlan]()
    for number, row in enumerate(rows, 1):
        planner, _, paper = str(row.get("id", "")).partition("/")
        if not _ID.fullmatch(planner) or not _ID.fullmatch(paper):
            raise UsageError(
                f"--data {data}: row {number} of the labels has the id {row.get('id')!r}: give PLANNER/PAPER"
            )
        found.append(LabelledPlan(planner, paper, tuple(_parse_label_rows(row.get("labels")))))
    return tuple(found)


def _read_table(data: str, task: Task, split: str) -> list[Row]:
    if data.startswith("hf:"):
        return _read_from_hub(f"{data.removeprefix('hf:')}/{PUBLISHED_NAMES[task]}-ablation-bench", split)
    if not Path(data).is_dir():
        raise UsageError(
            f"--data {data} is not a folder: give one with author/{split}.jsonl or reviewer/{split}.jsonl, or hf:OWNER"
        )
    return _read_first_file(
        [Path(data) / name / f"{split}{end}" for name in TASK_FOLDERS[task] for end in (".jsonl", ".parquet")]
    )


def _read_first_file(candidates: Sequence[Path]) -> list[Row]:
    """Return the rows of the first file that exists."""
    path = next((one for one in candidates if one.is_file()), None)
    if path is None:
        raise UsageError(f"{candidates[0]} does not exist (nor as .parquet): see docs/benchmarks.md for the layout")
    if path.stat().st_size > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES // 10**6} MB: give a part of it")
    return _read_parquet(path) if path.suffix == ".parquet" else list(read_json_lines(path))


def read_json_lines(path: Path) -> Iterable[Row]:
    """Read the objects of a JSON lines file. Raises `UsageError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise UsageError(f"{path}, line {number}: not a JSON object: fix or remove it")
            yield cast(Row, row)


def _read_parquet(path: Path) -> list[Row]:
    try:
        return cast(list[Row], import_pyarrow("parquet").read_table(path).to_pylist())
    except (import_pyarrow().ArrowException, OSError) as error:
        raise UsageError(f"{path} is not a readable Parquet file: {' '.join(str(error).split())[:200]}") from None


def _read_from_hub(name: str, split: str) -> list[Row]:
    try:
        return [dict(row) for row in cast(Iterable[Row], import_datasets_library().load_dataset(name, split=split))]
    except Exception as error:  # noqa: BLE001  whatever the network and the library's many readers raise
        raise UsageError(
            f"the datasets library cannot read {name} ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:200]}): fetch it once with network access"
        ) from None


def _parse_paper(task: Task, row: Row, number: int, below: Path) -> BenchPaper:
    """Parse a row as a paper. Raises `UsageError`."""
    try:
        id = str(row["id"])
        if not _ID.fullmatch(id):
            raise ValueError(f"the id {id!r} cannot name a file")
        gold, reviews, requests = (), (), 0
        if task == "author":
            gold = tuple(_parse_gold(one, at) for at, one in enumerate(_parse_list(row["ablations_in_paper"]), 1))
        else:
            reviews = tuple(str(one) for one in _parse_list(row["review_text"]))
            requests = int(row["num_ablation_suggestions"] or 0)
        return BenchPaper(
            task,
            id,
            str(row["paper_title"]),
            str(row["paper_abstract"]),
            below / str(row.get("paper_path") or id),
            gold,
            reviews,
            requests,
        )
    except (LookupError, ValueError, TypeError) as error:
        what = f"missing {error}" if isinstance(error, LookupError) else str(error)
        raise UsageError(f"row {number} of the {task} papers cannot be used: {what}") from None


def _parse_gold(given: object, number: int) -> PlannedAblation:
    """Parse a gold ablation; incomplete ones count, too."""
    fields = cast(dict[str, object], given) if isinstance(given, dict) else {"name": given}
    action = str(fields.get("action") or "").strip().upper()
    return parse_entry(
        {
            **fields,
            "name": fields.get("name") or fields.get("ablated_part") or f"Ablation {number}",
            "action": action if action in ACTIONS else "REPLACE" if fields.get("replacement") else "REMOVE",
        }
    )


def _parse_list(value: object) -> list[Any]:
    """Return a list, or parse one from JSON text."""
    found: object = json.loads(value) if isinstance(value, str) else value
    if isinstance(found, list):
        return cast(list[Any], found)
    raise ValueError(f"expected a list, not {str(found)[:60]!r}")


def _parse_label_rows(value: object) -> Iterable[Row]:
    if isinstance(value, str):
        return [cast(Row, json.loads(line)) for line in value.splitlines() if line.strip()]
    return list(cast(Sequence[Row], value or ()))
