"""Figures that a plotting script drew, with the facts that its live figures gave. The files are untrusted."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from record.nouns.figures import Figure, FigureFacts
from record.nouns.frozen import encodable
from record.nouns.nodes import Failure
from sandbox.untrusted import Unfit, names_in, open_regular, read_as

_MAX_FIGURES = 50
_FACTS_BYTES = 2**20
MOST_PIXELS = 40_000_000
"""Of a figure: ten times a page at 300 dots an inch would have more; a small file may unpack to any number."""


def collect_figures(folder: Path, limit: int) -> tuple[tuple[Figure, ...], Failure | None]:
    """The figures under figures/ (PNG and PDF, by name), and a failure where one is no image or none was drawn.

    `limit` is in bytes of one file. A figure that matplotlib did not save has no facts.
    """
    figures: list[Figure] = []
    try:
        names = [*names_in(folder, "figures", ".png"), *names_in(folder, "figures", ".pdf")]
        if len(names) > _MAX_FIGURES:
            raise Unfit(f"figures/ holds {len(names)} figures, more than the limit of {_MAX_FIGURES}")
        for name in sorted(names):
            figures.append(_figure(folder, name, limit))
    except Unfit as error:
        return tuple(figures), Failure(kind="figure", message=str(error))
    if not any(figure.name.endswith(".png") for figure in figures):
        return tuple(figures), Failure(kind="figure", message="no figure was drawn: save PNG files into figures/")
    return tuple(figures), None


def _figure(folder: Path, name: str, limit: int) -> Figure:
    with open_regular(folder, f"figures/{name}", limit) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        (_check_png if name.endswith(".png") else _check_pdf)(file, name)
    return Figure(name=name, sha256=digest, facts=_facts(folder, name))


def _check_png(file: BufferedReader, name: str) -> None:
    from PIL import Image

    with (read_as(f"figures/{name} is not a PNG image that can be read", Unfit, Image.DecompressionBombWarning,
                  Image.DecompressionBombError), warnings.catch_warnings()):
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=["PNG"]) as image:
            image.verify()
    if image.width * image.height > MOST_PIXELS:
        raise Unfit(f"figures/{name} has {image.width} x {image.height} pixels, more than the limit of {MOST_PIXELS}: "
                    "save it with dpi=200")


def _check_pdf(file: BufferedReader, name: str) -> None:
    if not file.read(1024).startswith(b"%PDF-"):
        raise Unfit(f"figures/{name} is not a PDF file")


def _facts(folder: Path, name: str) -> FigureFacts:
    try:
        with open_regular(folder, f"figures/{name}.facts.json", _FACTS_BYTES) as file:
            return FigureFacts.model_validate(_finite(encodable(json.load(file))))
    except (Unfit, ValueError, RecursionError):
        return FigureFacts()


def _finite(said: Any) -> Any:
    """What was said without the fields that hold a number which is not finite."""
    if isinstance(said, dict):
        fields = cast("dict[str, Any]", said).items()
        return {name: _finite(value) for name, value in fields if not _endless(value)}
    return [_finite(one) for one in cast("list[Any]", said)] if isinstance(said, list) else said


def _endless(value: Any) -> bool:
    """Whether it is a number that is not finite, or a list with one."""
    if isinstance(value, list):
        return any(_endless(one) for one in cast("list[Any]", value))
    return isinstance(value, float) and not math.isfinite(value)
