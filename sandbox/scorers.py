"""Scorers of the user's own: read, never run here, and frozen before any code of an experiment is written.

A scorer is one Python file with a function and, at its top level, a literal `METRICS`:

    TAKES = "artifact"                                   # or "predictions", which is the default
    METRICS = {"episode_return": "higher", "falls": "lower"}

    def evaluate(submission, truth):
        "Mean return of the policy over 20 episodes. Submit an .npz with `weights` (8, 4)."
        return {"episode_return": ..., "falls": ...}

What the arguments hold is told in docs/evidence.md. The first paragraph of the docstring is shown to whoever writes
experiments: it must say what to hand in.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from record.nouns.data import MetricSpec, Scorer
from record.syntax import parse
from sandbox.data.own import OwnData
from sandbox.datasets import Sources
from sandbox.errors import DatasetError, SubmissionRefused
from sandbox.metrics import METRICS

FORM = "write FILE.py:FUNCTION"
_BYTES = 2**20
"""Bytes of a scorer's file."""


def scorers_of(sources: Sources, named: Iterable[str] = ()) -> dict[str, str]:
    """Dataset -> `FILE:FUNCTION`: from own data, and from `NAME=FILE:FUNCTION` texts. Raises `DatasetError`."""
    places = {name: source.spec.scorer for name, source in sources.items()
              if isinstance(source, OwnData) and source.spec.scorer}
    for text in named:
        name, equals, place = text.partition("=")
        if not equals or name not in sources:
            raise DatasetError(f"scorer {text!r}: write DATASET=FILE.py:FUNCTION; datasets are {', '.join(sources)}")
        if name in places:
            raise DatasetError(f"dataset {name!r} has two scorers: give one")
        places[name] = place
    return places


def read_scorer(dataset: str, place: str) -> tuple[Scorer, str]:
    """A scorer and the text of its file. Raises `DatasetError` with what is wrong with it."""
    file, colon, function = place.rpartition(":")
    if not colon or not function.isidentifier():
        raise DatasetError(f"scorer of {dataset!r}: {place!r} names no function: {FORM}")
    try:
        content = Path(file).read_bytes()
        text = content.decode()
        tree = parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError) as error:
        raise DatasetError(f"scorer of {dataset!r}: cannot read {file}: {error}") from None
    if len(content) > _BYTES:
        raise DatasetError(f"scorer of {dataset!r}: {file} holds {len(content)} bytes, more than {_BYTES}")
    try:
        return _scorer(dataset, function, tree, hashlib.sha256(content).hexdigest()), text
    except (ValueError, ValidationError) as error:
        raise DatasetError(f"scorer of {dataset!r} ({Path(file).name}): {error}") from None


def freeze(dataset: str, place: str, folder: Path) -> Scorer:
    """Copy a scorer to `folder`, unless one is frozen there; what is to be recorded of it. Raises `DatasetError`."""
    if (frozen := read_frozen(folder, dataset)) is not None:
        return frozen[0]
    scorer, text = read_scorer(dataset, place)
    _write(folder, scorer, text)
    return scorer


def copy_frozen(scorers: Iterable[Scorer], source: Path, target: Path) -> None:
    """Put scorers of a record, whose files lie in `source`, into `target`, which may be the same folder.

    Raises `DatasetError` for one that is gone or was changed.
    """
    for scorer in scorers:
        file = source / f"{scorer.dataset}.py"
        content = file.read_bytes() if file.is_file() else b""
        if hashlib.sha256(content).hexdigest() != scorer.sha256:
            raise DatasetError(f"the frozen scorer of {scorer.dataset!r} is not what the record says it was: put the "
                               f"file back at {file}")
        _write(target, scorer, content.decode())


def read_frozen(folder: Path | None, dataset: str) -> tuple[Scorer, str] | None:
    """The frozen scorer of a dataset and its text; None where it has none. Raises `SubmissionRefused`."""
    if folder is None or not (folder / f"{dataset}.json").is_file():
        return None
    scorer = Scorer.model_validate_json((folder / f"{dataset}.json").read_text())
    text = (folder / f"{dataset}.py").read_text()
    if hashlib.sha256(text.encode()).hexdigest() != scorer.sha256:
        raise SubmissionRefused(f"the scorer of {dataset!r} is not what was frozen: put back {folder / dataset}.py")
    return scorer, text


def read_all_frozen(folder: Path | None) -> dict[str, tuple[Scorer, str]]:
    """Every frozen scorer with its text, by dataset. Raises `SubmissionRefused`."""
    names = sorted(path.stem for path in folder.glob("*.json")) if folder is not None else []
    return {name: frozen for name in names if (frozen := read_frozen(folder, name)) is not None}


def describe_scorer(scorer: Scorer) -> str:
    """What whoever plans or writes an experiment must know of a scorer."""
    metrics = ", ".join(f"`{metric.name}` ({'higher' if metric.higher_is_better else 'lower'} is better)"
                        for metric in scorer.metrics)
    how = "`lab.submit_artifact` takes what is evaluated" if scorer.takes == "artifact" else "of every `lab.submit`"
    return f"{metrics}, computed outside by a frozen scorer; {how}. {scorer.asks}".strip()


def _scorer(dataset: str, function: str, tree: ast.Module, sha256: str) -> Scorer:
    """Raises `ValueError`."""
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    if not defined:
        raise ValueError(f"it defines no function {function!r} at its top level")
    if len(defined[0].args.args) != 2:
        raise ValueError(f"{function} must take two arguments, (submission, truth)")
    metrics: Any = _literal(tree, "METRICS", None)
    if not isinstance(metrics, dict) or not metrics:
        raise ValueError('it needs METRICS = {"name": "higher" or "lower"} at its top level, written out')
    specs: list[MetricSpec] = []
    for key, better in cast("dict[Any, Any]", metrics).items():
        name = str(key)
        if better not in ("higher", "lower"):
            raise ValueError(f"METRICS[{name!r}] must be 'higher' or 'lower', not {better!r}")
        if name in METRICS:
            raise ValueError(f"the metric {name!r} is one of ours: name yours otherwise")
        if not name.isidentifier():
            raise ValueError(f"the metric {name!r} must be a name of letters, digits and _")
        specs.append(MetricSpec(name=name, title=name.replace("_", " "), higher_is_better=better == "higher"))
    paragraph = (ast.get_docstring(defined[0]) or "").partition("\n\n")[0]
    return Scorer(
        dataset=dataset, function=function, takes=_literal(tree, "TAKES", "predictions"), sha256=sha256,
        metrics=tuple(specs), asks=" ".join(paragraph.split()))


def _literal(tree: ast.Module, name: str, default: Any) -> Any:
    """The value that is written out for a name at the top level. Raises `ValueError` where it is computed."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
            try:
                return ast.literal_eval(node.value)
            except (ValueError, TypeError):
                raise ValueError(f"{name} must be written out, not computed: it is read, not run") from None
    return default


def _write(folder: Path, scorer: Scorer, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for ending, content in (("py", text), ("json", scorer.model_dump_json())):
        part = folder / f".{scorer.dataset}.{ending}.part"
        part.write_text(content)
        os.replace(part, folder / f"{scorer.dataset}.{ending}")
