"""All files that the record covers, with their hashes at the time of their event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labwright.record.llm_calls import EXCHANGES_LIST
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder


def list_recorded_files(state: RunState, folder: RunFolder) -> Iterator[tuple[Path, str]]:
    """Yield path and recorded sha256 of scorers, lock, arrays, sealed predictions, artifacts, curves, figures, paper,
    judgement."""
    yield from ((folder.scorers / f"{one.dataset}.py", one.sha256) for one in state.search.scorers)
    if state.search.installed_packages is not None:
        yield folder.packages_lock, state.search.installed_packages.sha256
    yield from (
        (folder.root / one.stored, one.sha256) for one in (state.paper.context.documents if state.paper.context else ())
    )
    yield from (
        (folder.root / one.stored, one.sha256)
        for one in (state.paper.prior_work.papers if state.paper.prior_work else ())
    )
    for node in state.nodes.values():
        for attempt in node.attempts:
            if attempt.cells and not attempt.curves_sha256:
                continue  # its files are those of its cells; records of earlier versions have copies of them
            sealed = folder.get_attempt_path(node.id, attempt.number)
            yield from ((sealed / "arrays" / name, digest) for name, digest in attempt.arrays.items())
            yield from ((sealed / "sealed" / name, digest) for name, digest in attempt.sealed.items())
            if attempt.curves_sha256:
                yield sealed / "measurements.jsonl", attempt.curves_sha256
            if attempt.exchanges_sha256:
                yield sealed / EXCHANGES_LIST, attempt.exchanges_sha256
        for plotting in node.plottings:
            shown = folder.get_plots_path(node.id, plotting.n) / "figures"
            yield from ((shown / figure.name, figure.sha256) for figure in plotting.figures)
    for _, run in state.cells.values():
        measured = folder.get_cell_path(run.id)
        yield from ((measured / "arrays" / name, digest) for name, digest in run.arrays.items())
        yield from ((measured / "sealed" / name, digest) for name, digest in run.sealed.items())
        yield from ((measured / "artifacts" / name, digest) for name, digest in run.artifacts.items())
        if run.curves_sha256:
            yield measured / "measurements.jsonl", run.curves_sha256
        if run.exchanges_sha256:
            yield measured / EXCHANGES_LIST, run.exchanges_sha256
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
    yield from ((folder.root / one.stored, one.sha256) for one in state.paper.reviews)
    if state.paper.answered is not None:
        yield from ((folder.root / name, digest) for name, digest in state.paper.answered.files.items())
    if state.paper.judged is not None:
        yield from ((folder.root / name, digest) for name, digest in state.paper.judged.files.items())


def build_manifest(state: RunState, folder: RunFolder) -> dict[str, str]:
    """Return the sha256 of each file by its path within the run, for `manifest.json`."""
    return {str(path.relative_to(folder.root)): digest for path, digest in list_recorded_files(state, folder)}
