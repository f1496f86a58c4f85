"""Runs one file exactly as a node would be run: `scientist exec FILE`."""

from __future__ import annotations

import ast
import shutil
import tempfile
from pathlib import Path

from record.syntax import parse
from sandbox.datasets import Sources, files_of, materialise, registry
from sandbox.errors import ExecutorError
from sandbox.executor import LocalExecutor
from sandbox.job import Job, Outcome
from sandbox.pretrained import pretrained_of, provide
from sandbox.scorers import freeze, scorers_of
from sandbox.settings import SandboxSettings
from sandbox.workspace import strings_in


async def run_file(
    path: Path, *, timeout: float | None = None, seed: int = 0, folder: Path | None = None,
    settings: SandboxSettings | None = None, sources: Sources | None = None,
) -> Outcome:
    """What came of the file. Raises `ExecutorError`.

    `timeout` is in seconds of wall clock. It runs in `folder`, which is kept, or in a temporary one. Modules that the
    file imports and that lie beside it come along. Every registered dataset whose name stands in the source as a
    string is there, cut with `seed`; others would only cost time. `sources` are all that there are, own data included.
    The same goes for the pretrained models of the settings.
    """
    chosen, known = (settings or SandboxSettings()).model_copy(update={"pool": 0}), sources or registry()
    try:
        source = _with_neighbours(path)
        strings = {word for text in source.values() for word in strings_in(text)}
    except (OSError, UnicodeDecodeError) as error:
        raise ExecutorError(f"cannot read {path}: {error}") from error
    around = Path(tempfile.mkdtemp(prefix="scientist-exec-"))
    executor: LocalExecutor | None = None
    try:
        names = tuple(name for name in known if name in strings)
        for name in names:
            materialise(name, views=around / "views", labels=around / "labels", seed=seed, sources=known)
        for name, place in scorers_of(known, chosen.scorers).items():
            if name in names:
                freeze(name, place, around / "scorers")
        pretrained = {str(model): provide(model, around / "pretrained")
                      for model in pretrained_of(chosen.pretrained) if model.id in strings}
        executor = LocalExecutor(
            1, around / "views", labels=around / "labels", settings=chosen, cache=around / "cache",
            pretrained=pretrained, secret=files_of(known), scorers=around / "scorers")
        return await executor.run(Job(
            name=path.name, folder=folder or around / "job", source=source, entry=path.name, seed=seed,
            timeout=timeout or chosen.timeout, datasets=names,
        ))
    finally:
        if executor is not None:
            await executor.close()
        shutil.rmtree(around, ignore_errors=True)


def _with_neighbours(path: Path) -> dict[str, str]:
    """The file and, over and over, the modules beside it that it imports; name -> text."""
    texts: dict[str, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        texts[file.name] = file.read_text(encoding="utf-8")
        try:
            nodes = list(ast.walk(parse(texts[file.name])))
        except (SyntaxError, ValueError):  # the kernel will say it better
            continue
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names} | {
            node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
        modules = (file.with_name(f"{name.partition('.')[0]}.py") for name in imported)
        waiting += [module for module in modules if module.is_file() and module.name not in texts]
    return texts
