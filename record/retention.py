"""Find and delete checkpoints and artifacts that can no longer be needed (docs/control-a-run.md).

A deletion is recorded as an event before it happens. From then on the files are not in the state, so later decisions
cannot use them. Arrays, predictions, curves and all other numbers are kept.
"""

from __future__ import annotations

import os
import re
from asyncio import to_thread
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from labwright.record.claims.estimates import find_ablation_nodes, find_winner
from labwright.record.event_log import Recorder
from labwright.record.events import Event
from labwright.record.events.run_events import FoldersDeleted
from labwright.record.llm_calls import EXCHANGES_LIST
from labwright.record.python_syntax import collect_strings
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, read_source
from labwright.record.schema.nodes import STAGES, Attempt, CellRun, ExecutionResult, Node
from labwright.record.untrusted_files import remove_tree

NamedNodesLookup = Callable[[Node], Iterable[str]]
"""Return the nodes whose output a node may read because its source names them."""

_NODE_ID_PATTERN = re.compile(r"n\d+")


async def delete_unreferenced(folder: RunFolder, recorder: Recorder) -> None:
    """Delete unreferenced folders, including those that a killed process recorded but did not delete. Raises
    `RecordError`."""
    state = recorder.state

    def find_named(node: Node) -> Iterable[str]:
        return _find_named_nodes(folder.get_source_path(node.id), node.source_sha256)

    going = tuple(one for one in collectable(state, find_named) if (folder.root / one).is_dir())
    if going:
        freed = _count_freed_bytes(folder.root / one for one in going)
        recorder.append(FoldersDeleted(keep=state.read_setting("keep") or "best", folders=going, bytes=freed))
    for place in [folder.root / one for one in state.deleted_folders]:
        if place.is_dir():
            with suppress(OSError):  # tried again next time
                await to_thread(remove_tree, place)


def collectable(state: RunState, reads: NamedNodesLookup) -> Iterator[str]:
    """Yield the folders in the run's folder that can be deleted but have not been deleted yet; some of them may not
    exist.

    In `ticket` order artifacts are kept until the search ends, since reuse must not depend on time.
    """
    if state.read_setting("keep") == "all":
        return
    scored = state.is_task_done("score tests")  # until then a node may execute reused cells again
    for node, place, left in _iterate_sealed(state):
        rests = not scored and node.id in state.required_cells and state.required_cells[node.id].taken
        gone = f"{place}/checkpoints" in state.deleted_folders
        if left.failure is not None and node.is_finished and not rests and not gone:
            yield f"{place}/checkpoints"
    if state.read_setting("search.order") == "ticket" and state.phase in (*STAGES, "missing"):
        return
    found = [
        place
        for _, place, left in _iterate_sealed(state)
        if (left.artifacts or left.failure is not None) and f"{place}/artifacts" not in state.deleted_folders
    ]
    wanted = _collect_wanted_folders(state, reads) if found else set[str]()
    yield from (f"{place}/artifacts" for place in found if place not in wanted)


def find_deletion_setting(state: RunState, node: str) -> str:
    """Return the `keep` setting under which the last artifacts of a node were deleted; empty if they were not
    deleted.
    """
    attempts = state.nodes[node].attempts
    cells = (f"cells/{line.id}" for one in attempts[-1:] for line in one.cells)
    places = (f"nodes/{node}/attempt{len(attempts)}", *cells)
    return next((keep for one in places if (keep := state.deleted_folders.get(f"{one}/artifacts"))), "")


def _iterate_sealed(state: RunState) -> Iterator[tuple[Node, str, Attempt | CellRun]]:
    """Yield each attempt and each cell execution with deletable files: its node, its folder relative to the run's, and
    its record."""
    for node in state.nodes.values():
        yield from ((node, f"nodes/{node.id}/attempt{one.number}", one) for one in node.attempts)
    for name, run in state.cells.values():
        if run.artifacts or run.failure is not None:
            yield state.nodes[name], f"cells/{run.id}", run


def _collect_wanted_folders(state: RunState, reads: NamedNodesLookup) -> set[str]:
    """Return the folders whose artifacts must be kept."""
    nodes = _collect_wanted_nodes(state, reads)
    attempts = [(name, state.nodes[name].attempts[-1]) for name in nodes if state.nodes[name].attempts]
    runs = {line.id for _, attempt in attempts for line in attempt.cells}
    runs |= {run.id for name in nodes for run in state.cells.list_node_runs(name)}
    unfinished = (owed for name, owed in state.required_cells.items() if not state.nodes[name].is_finished)
    runs |= {run for owed in unfinished for run in owed.taken.values()}
    return {f"nodes/{name}/attempt{last.number}" for name, last in attempts} | {f"cells/{run}" for run in runs}


def _collect_wanted_nodes(state: RunState, reads: NamedNodesLookup) -> set[str]:
    """Return the nodes whose artifacts must be kept.

    These are selected nodes and ablations with their replicates, nodes that a source names, and all nodes of a running
    stage, or that a pending decision may see or build on. With `keep=cited` and a released paper, these are only the
    nodes on which the paper relies and those that they read.
    """
    current = state.paper.current
    cited = state.read_setting("keep") == "cited" and current is not None and current.released.released
    tops = {find_winner(state)} if cited else {stage.best for stage in state.search.stages.values()}
    tops |= {node.id for node in find_ablation_nodes(state)}
    wanted = {
        node.id
        for node in state.nodes.values()
        if node.id in tops
        or not state.search.stages[node.stage].is_settled
        or (node.kind == "replicate" and node.parent in tops)
    }
    for node in (one for one in state.nodes.values() if not one.is_finished):
        seen = state.decisions[node.decision].seen
        wanted |= {node.id, node.parent or node.id} | {
            one.id for one in state.nodes.values() if not node.source_sha256 and one.decision in seen
        }

    def list_read() -> set[str]:
        return {name for one in (wanted if cited else state.nodes) for name in reads(state.nodes[one])}

    while more := list_read() & state.nodes.keys() - wanted:
        wanted |= more
    return wanted


@lru_cache(maxsize=4096)
def _find_named_nodes(source: Path, sha256: str) -> frozenset[str]:
    """Strings in a source that may be nodes, cached by the hash of the source."""
    texts = read_source(source).values() if sha256 else ()
    return frozenset(word for text in texts for word in collect_strings(text) if _NODE_ID_PATTERN.fullmatch(word))


def _count_freed_bytes(folders: Iterable[Path]) -> int:
    """Return the bytes freed by deleting these folders; a file with further hard links frees nothing."""
    files = [Path(place, name).lstat() for folder in folders for place, _, names in os.walk(folder) for name in names]
    links = Counter((one.st_dev, one.st_ino) for one in files)
    return sum(one.st_size // one.st_nlink for one in files if links[one.st_dev, one.st_ino] == one.st_nlink)


def find_deletions(events: Iterable[Event], state: RunState) -> Iterator[FoldersDeleted]:
    """Yield the deletions in a log that affect a state, with 0 bytes freed: for a run that starts with that state."""
    known = {f"{place}/{name}" for _, place, _ in _iterate_sealed(state) for name in ("artifacts", "checkpoints")}
    known -= state.deleted_folders.keys()
    for event in events:
        if isinstance(event, FoldersDeleted) and (folders := tuple(one for one in event.folders if one in known)):
            yield event.model_copy(update={"folders": folders, "bytes": 0})


# All files that the record covers, with their hashes at the time of their event.


def list_recorded_files(state: RunState, folder: RunFolder) -> Iterator[tuple[Path, str]]:
    """Yield path and recorded sha256 of scorers, lock, arrays, sealed predictions, artifacts, curves, figures, paper,
    judgement."""
    yield from ((folder.scorers / f"{one.dataset}.py", one.sha256) for one in state.search.scorers)
    if state.search.installed_packages is not None:
        yield folder.packages_lock, state.search.installed_packages.sha256
    documents = state.paper.context.documents if state.paper.context else ()
    papers = state.paper.prior_work.papers if state.paper.prior_work else ()
    yield from ((folder.root / one.stored, one.sha256) for one in (*documents, *papers, *state.paper.reviews))
    for node in state.nodes.values():
        for attempt in node.attempts:
            # the files of a node with cells are those of its cells; records of earlier versions have copies of them
            if not attempt.cells or attempt.curves_sha256:
                own = attempt.model_copy(update={"artifacts": {}})
                yield from _list_sealed_files(folder.get_attempt_path(node.id, attempt.number), own)
        for plotting in node.plottings:
            shown = folder.get_plots_path(node.id, plotting.n) / "figures"
            yield from ((shown / figure.name, figure.sha256) for figure in plotting.figures)
    for _, run in state.cells.values():
        yield from _list_sealed_files(folder.get_cell_path(run.id), run)
    drawn: dict[Path, str] = {}
    if state.paper.figures is not None:
        figures = folder.get_figures_path(state.paper.figures.version)
        drawn = {figures / name: digest for name, digest in state.paper.figures.figures.items()}
    yield from drawn.items()
    for added in ([state.paper.library] if state.paper.library is not None else []) + state.paper.works_chosen:
        yield from ((folder.root / name, digest) for name, digest in added.files.items())
    known = [] if state.paper.current is None else [(state.paper.current.version, state.paper.current.released)]
    if state.paper.released is not None and state.paper.released not in [one for _, one in known]:
        known.append((state.paper.version, state.paper.released))
    for version, released in known:
        paper = RunFolder(folder.root, version).paper_folder
        yield from ((paper / name, digest) for name, digest in released.files.items() if paper / name not in drawn)
        yield from ((folder.root / name, digest) for name, digest in released.companion_files.items())
    for written in (state.paper.answered, state.paper.judged):
        if written is not None:
            yield from ((folder.root / name, digest) for name, digest in written.files.items())


def _list_sealed_files(sealed: Path, result: ExecutionResult) -> Iterator[tuple[Path, str]]:
    for kind, files in (("arrays", result.arrays), ("sealed", result.sealed), ("artifacts", result.artifacts)):
        yield from ((sealed / kind / name, digest) for name, digest in files.items())
    for name, digest in (("measurements.jsonl", result.curves_sha256), (EXCHANGES_LIST, result.exchanges_sha256)):
        if digest:
            yield sealed / name, digest


def build_manifest(state: RunState, folder: RunFolder) -> dict[str, str]:
    """Return the sha256 of each file by its path within the run, for `manifest.json`."""
    return {str(path.relative_to(folder.root)): digest for path, digest in list_recorded_files(state, folder)}
