"""Content of a node's panel, from the record and from the sealed files of its attempts."""

from __future__ import annotations

import difflib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from labwright.inspector.findings import AUTHOR_ROLE, AuthorStep, list_author_steps
from labwright.inspector.run_files import ListedFile, list_files, read_curve_lines, read_text
from labwright.inspector.safe_text import to_printable
from labwright.inspector.web.charts import Chart, build_charts
from labwright.inspector.web.page_renderer import AvailableActions, list_actions
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.cell_status import CellCounts, CellStatus, compute_node_cells, count_cells
from labwright.record.events.run_events import CallAnswered
from labwright.record.llm_calls import find_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import list_recorded_files
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan, Measurement
from labwright.record.schema.decisions import CompareNodes, ExpandTree, RunTask
from labwright.record.schema.nodes import KIND_NAMES, Attempt, Node, format_node_id
from labwright.record.source_tree import CODE_FILE, ArmCode, format_arm_path

# Recorded model calls: prompt, answer and cost, including calls without a node.

MAX_TEXT_CHARACTERS: Final = 100_000
"""Maximum characters of a prompt or answer that are shown."""
REPLACED_NOTE: Final = "superseded: prompt changed"
KEPT_NOTE: Final = "reused: machine or limits changed"
CALLS_PER_PAGE: Final = 200
"""Calls per page."""


class ModelCall(NamedTuple):
    """A recorded call and its purpose. `node` is empty if the call concerns no node."""

    answered: CallAnswered
    node: str
    purpose: str
    note: str = ""


class ModelCallTexts(NamedTuple):
    """A call with its prompt and answer. `prompt` is None if it was not saved; `changed_warning` warns that it differs
    from the prompt that was sent.

    `pictures` are the images sent with the prompt: sha256 and path, which is empty if the image is not in the run's
    folder.
    """

    call: ModelCall
    system: str
    prompt: str | None
    changed_warning: str
    output_schema: str
    pictures: tuple[tuple[str, str], ...]
    answer: str
    tool_result: str = ""
    """What the tool returned that the answer called."""


class ModelCallPage(NamedTuple):
    """A page of a run's calls, newest first. `roles` count all calls."""

    shown: tuple[ModelCall, ...]
    roles: tuple[tuple[str, int], ...]
    role: str
    first: int
    total: int


def list_calls(state: RunState, role: str, first: int) -> ModelCallPage:
    """List calls of a role (empty: all; `-`: without a node), newest first, starting at `first`."""
    every = [
        *(build_call(state, one)._replace(note=REPLACED_NOTE) for one in state.calls.superseded_answers),
        *(build_call(state, one) for one in state.calls.answers.values()),
    ][::-1]
    counts = Counter(one.answered.key.role for one in every)
    fits = [one for one in every if not role or one.answered.key.role == role or (role == "-" and not one.node)]
    first = max(0, min(first, len(fits) - 1)) // CALLS_PER_PAGE * CALLS_PER_PAGE
    return ModelCallPage(
        tuple(fits[first : first + CALLS_PER_PAGE]), tuple(sorted(counts.items())), role, first, len(fits)
    )


def build_call(state: RunState, answered: CallAnswered) -> ModelCall:
    """Build a call with the purpose of its decision."""
    k = answered.key.decision
    decided = state.decisions.get(k)
    match decided.action if decided is not None else None:
        case ExpandTree(stage=stage, kind=kind):
            purpose = f"{KIND_NAMES[kind]} in {stage}"
        case CompareNodes(a=a, b=b):
            purpose = f"compare {a} and {b}"
        case RunTask(task=task):
            purpose = task
        case _:
            purpose = f"decision {k}"
    return ModelCall(
        answered,
        format_node_id(k) if format_node_id(k) in state.nodes else "",
        purpose,
        KEPT_NOTE if answered.key in state.calls.changed_prompts else "",
    )


def open_call(run: CachedRun, name: str) -> ModelCallTexts | None:
    """Open a call by its key, with prompt and answer; None if the run has no such call."""
    answered = next((one for key, one in run.state.calls.answers.items() if str(key) == name), None)
    if answered is None:
        return None
    call, kept = build_call(run.state, answered), find_prompt(run.folder, answered)
    asked = kept.asked if kept is not None else None
    paths: dict[str, str] = {}
    if asked is not None and asked.images:
        files = list_recorded_files(run.state, RunFolder(run.folder, run.state.paper.version))
        paths = {digest: str(path.relative_to(run.folder)) for path, digest in files}
    return ModelCallTexts(
        call=call,
        system=cut_text(asked.system) if asked else "",
        prompt=None if kept is None else cut_text(asked.user) if asked else "",
        changed_warning=kept.changed if kept else "",
        output_schema=asked.answer_name if asked else "",
        pictures=tuple((image, paths.get(image, "")) for image in (asked.images if asked else ())),
        answer=format_answer(answered.answer),
        tool_result=cut_text(used.result) if (used := run.state.calls.tool_uses.get(answered.key)) is not None else "",
    )


def format_answer(answer: dict[str, Any]) -> str:
    """Format an answer field by field; multi-line strings start on a new line."""
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
        for key, value in answer.items()
    }
    between = {key: "\n" if isinstance(answer[key], str) and "\n" in text else " " for key, text in texts.items()}
    return cut_text("\n".join(f"{key}:{between[key]}{text}" for key, text in texts.items()))


def cut_text(text: str) -> str:
    """Truncate a string for display."""
    text = to_printable(text)
    more = len(text) - MAX_TEXT_CHARACTERS
    return f"{text[:MAX_TEXT_CHARACTERS]}\n... {more} more characters" if more > 0 else text


MAX_CURVES_BYTES: Final = 8 * 2**20
"""Maximum bytes of curves that are read."""


class SourceFile(NamedTuple):
    """A file of a node's code and its diff against the parent's file; None if the parent has no such file.

    `diff` has lines with kinds: add, removed, same or place; `patch` has those of a file that is itself a patch.
    """

    name: str
    text: str
    diff: tuple[tuple[str, str], ...] | None
    patch: tuple[tuple[str, str], ...] = ()


class AttemptView(NamedTuple):
    """An attempt with its output and curves."""

    attempt: Attempt
    output: str
    charts: tuple[Chart, ...]


class MeasurementView(NamedTuple):
    """A measurement in a table: its differences, and whether it is the best for its metric and level.

    `less_parent` is the difference from the node's parent; `less_baseline` from the baseline at the same level.
    """

    measurement: Measurement
    best: bool = False
    less_parent: float | None = None
    less_baseline: float | None = None


class MeasurementGrid(NamedTuple):
    """Final values of one dataset and split: one row per condition, one column per metric."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MeasurementView | None, ...]], ...]


class NodePanel(NamedTuple):
    """Content of the panel that is not in the node itself."""

    node: Node
    children: tuple[str, ...]
    sources: tuple[SourceFile, ...]
    grids: tuple[MeasurementGrid, ...]
    self_reported: tuple[MeasurementGrid, ...]
    """Values on train and dev that the code itself reported."""
    cells: tuple[CellStatus, ...]
    """Required cells in order; empty for code that measures all conditions at once."""
    counts: CellCounts | None
    arm_commands: tuple[tuple[str, str], ...]
    """For repository studies: arm -> its command-line words."""
    metric: str
    """Name of the primary metric."""
    tests: tuple[MeasurementGrid, ...]
    attempts: tuple[AttemptView, ...]
    calls: tuple[ModelCall, ...]
    author_steps: tuple[AuthorStep, ...]
    """What the author of the node's code did with tools."""
    files: tuple[ListedFile, ...]
    actions: AvailableActions


def build_panel(run: CachedRun, name: str) -> NodePanel | None:
    """The panel of a node; None if the run has no such node."""
    node = run.state.nodes.get(name)
    if node is None:
        return None
    cells, search = compute_node_cells(run.state, name), run.state.search
    plan, tests = search.data_plan, search.test_measurements
    before = run.state.nodes.get(node.parent or "")
    return NodePanel(
        node=node,
        children=tuple(one.id for one in run.state.nodes.values() if one.parent == name),
        sources=tuple(read_sources(run, node, node.parent)),
        grids=build_grids(node.measurements, before.measurements if before else (), plan),
        self_reported=build_grids(node.attempts[-1].self_reported if node.attempts else ()),
        cells=cells,
        counts=count_cells(cells),
        arm_commands=tuple(_read_arm_commands(run, node)),
        metric=plan.primary_metric.name if plan is not None else "",
        tests=build_grids(tests.get(name, ()), tests.get(node.parent or "", ()), plan),
        attempts=tuple(_read_attempts(run, node)),
        calls=tuple(
            build_call(run.state, answer)
            for key, answer in run.state.calls.answers.items()
            if key.decision == node.decision and key.role != AUTHOR_ROLE
        ),
        author_steps=list_author_steps(run.state, node),
        files=list_files(run.folder, f"nodes/{name}"),
        actions=list_actions(run, name),
    )


_DIFF_LINE_KINDS: Final = {"+": "add", "-": "removed", "@": "place"}


def read_sources(run: CachedRun, node: Node, other: str | None) -> Iterator[SourceFile]:
    """Yield the files of a node's code with diffs against another node's. In repository studies, patches come first and
    arm files shown as words are skipped."""
    root = f"nodes/{node.id}/source"
    names = [one.path.removeprefix(f"{root}/") for one in list_files(run.folder, root)]
    is_repository_study = CODE_FILE in names
    for name in sorted(names, key=lambda one: (not one.endswith(".diff"), "/" in one)):
        text = read_text(run.folder, f"{root}/{name}") or ""
        if is_repository_study and name.startswith("arms/") and name.endswith(".json"):
            continue
        before = read_text(run.folder, f"nodes/{other}/source/{name}") if other else None
        diff = None
        if before is not None:
            lines = difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=3)
            diff = tuple((_DIFF_LINE_KINDS.get(line[:1], "same"), line) for line in islice(lines, 2, None))
        patch = tuple(map(_classify_patch_line, text.splitlines())) if name.endswith(".diff") else ()
        yield SourceFile(name, text, diff, patch)


def _classify_patch_line(line: str) -> tuple[str, str]:
    head = line.startswith(("diff ", "index ", "--- ", "+++ ", "new file", "deleted file"))
    return "place" if head else _DIFF_LINE_KINDS.get(line[:1], "same"), line


def _read_arm_commands(run: CachedRun, node: Node) -> Iterator[tuple[str, str]]:
    root = f"nodes/{node.id}/source/"
    plan = run.state.search.data_plan
    for name in (*(arm.name for arm in plan.arms), *node.arms) if plan is not None else ():
        if (text := read_text(run.folder, root + format_arm_path(name, ".json"))) is not None:
            with suppress(ValidationError):
                yield name, " ".join(ArmCode.model_validate_json(text).words)


def build_grids(
    values: Sequence[Measurement], before: Sequence[Measurement] = (), plan: DataPlan | None = None
) -> tuple[MeasurementGrid, ...]:
    """Build tables of measurements in the order of measuring; `before` has those of the node's parent.

    Metrics that are not in the plan are not marked or compared.
    """
    tables = defaultdict[str, dict[str, dict[str, Measurement]]](dict)
    for value in values:
        tables[f"{value.dataset}, {value.split}"].setdefault(value.condition, {})[value.name] = value
    shown, found = _make_comparer(values, before, plan), list[MeasurementGrid]()
    primary = plan.primary_metric.name if plan is not None else ""
    for title, rows in tables.items():
        known = dict.fromkeys(name for row in rows.values() for name in row)
        names = sorted(known, key=lambda name: name != primary)
        cells = (tuple(shown(row[name]) if name in row else None for name in names) for row in rows.values())
        found.append(MeasurementGrid(title, tuple(names), tuple(zip(rows, cells, strict=True))))
    return tuple(found)


def _make_comparer(
    values: Sequence[Measurement], before: Sequence[Measurement], plan: DataPlan | None
) -> Callable[[Measurement], MeasurementView]:
    higher = {metric.name: metric.higher_is_better for metric in plan.metrics} if plan is not None else {}
    baselines = {arm.name for arm in plan.arms if arm.role == "baseline"} if plan is not None else set[str]()
    earlier = {(one.dataset, one.split, one.condition, one.name): one.value for one in before}
    columns = defaultdict[tuple[str, ...], list[Measurement]](list)
    for one in values:
        columns[one.dataset, one.split, one.name, one.level].append(one)

    def shown(one: Measurement) -> MeasurementView:
        if one.name not in higher:
            return MeasurementView(one)
        column = columns[one.dataset, one.split, one.name, one.level]
        found = [other.value for other in column]
        parent = earlier.get((one.dataset, one.split, one.condition, one.name))
        base = next((other.value for other in column if other.arm in baselines), None)
        return MeasurementView(
            one,
            best=len({*found}) > 1 and one.value == (max if higher[one.name] else min)(found),
            less_parent=None if parent is None else one.value - parent,
            less_baseline=None if base is None or one.arm in baselines else one.value - base,
        )

    return shown


def _read_attempts(run: CachedRun, node: Node) -> Iterator[AttemptView]:
    for attempt in node.attempts:
        place = f"nodes/{node.id}/attempt{attempt.number}"
        output = read_text(run.folder, f"{place}/stdout.txt", end=True)
        log = read_curve_lines(run.folder, run.state, node, attempt, MAX_CURVES_BYTES)
        yield AttemptView(attempt, attempt.stdout_tail if output is None else output, build_charts(log))
