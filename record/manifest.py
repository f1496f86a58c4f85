"""All files that the record covers, with their hashes at the time of their event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labwright.record.llm_calls import EXCHANGES_LIST
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.nodes import ExecutionResult


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
