"""Every file that the record vouches for, with the hash that it had when its event was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labwright.record.exchanges import LISTED
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder


def files_of(state: RunState, folder: RunFolder) -> Iterator[tuple[Path, str]]:
    """Scorers, lock, arrays, sealed predictions, curves, cells, figures, paper, judgement: path and recorded sha256."""
    yield from ((folder.scorers / f"{one.dataset}.py", one.sha256) for one in state.scorers)
    if state.installed is not None:
        yield folder.packages, state.installed.sha256
    yield from ((folder.root / one.stored, one.sha256) for one in (state.context.documents if state.context else ()))
    yield from ((folder.root / one.stored, one.sha256) for one in (state.prior_work.papers if state.prior_work else ()))
    for node in state.nodes.values():
        for attempt in node.attempts:
            sealed = folder.attempt(node.id, attempt.number)
            yield from ((sealed / "arrays" / name, digest) for name, digest in attempt.arrays.items())
            yield from ((sealed / "sealed" / name, digest) for name, digest in attempt.sealed.items())
            if attempt.curves_sha256:
                yield sealed / "measurements.jsonl", attempt.curves_sha256
            if attempt.exchanges_sha256:
                yield sealed / LISTED, attempt.exchanges_sha256
        for plotting in node.plottings:
            shown = folder.plots(node.id, plotting.n) / "figures"
            yield from ((shown / figure.name, figure.sha256) for figure in plotting.figures)
    for _, run in state.cells.values():
        measured = folder.cell(run.id)
        yield from ((measured / "arrays" / name, digest) for name, digest in run.arrays.items())
        yield from ((measured / "sealed" / name, digest) for name, digest in run.sealed.items())
        if run.curves_sha256:
            yield measured / "measurements.jsonl", run.curves_sha256
        if run.exchanges_sha256:
            yield measured / LISTED, run.exchanges_sha256
    drawn = state.figures.figures if state.figures is not None else {}
    yield from ((folder.drawn / name, digest) for name, digest in drawn.items())
    for added in ([state.library] if state.library is not None else []) + state.works_chosen:
        yield from ((folder.root / name, digest) for name, digest in added.files.items())
    known = [] if state.standing is None else [(state.standing.version, state.standing.released)]
    if state.released is not None and state.released not in [one for _, one in known]:
        known.append((state.version, state.released))
    for version, released in known:
        paper = RunFolder(folder.root, version).paper
        yield from ((paper / name, digest) for name, digest in released.files.items() if Path(name).name not in drawn)
        yield from ((folder.root / name, digest) for name, digest in released.beside.items())
    if state.assessed is not None:
        yield from ((folder.root / name, digest) for name, digest in state.assessed.files.items())


def manifest(state: RunState, folder: RunFolder) -> dict[str, str]:
    """The same as a mapping from the path within the run to the sha256, for `manifest.json`."""
    return {str(path.relative_to(folder.root)): digest for path, digest in files_of(state, folder)}
