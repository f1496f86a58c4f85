"""Read rubrics from TOML files: bundled ones by name, or the user's own in the same format."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from labwright.models.roles.judge import Rubric
from labwright.review.judge.paper_reader import RubricError

RUBRICS_FOLDER = Path(__file__).parent / "rubrics"
END_TO_END_RUBRIC = RUBRICS_FOLDER / "end_to_end.toml"
MAX_RUBRIC_BYTES = 200_000
_TABLES = TypeAdapter(dict[str, dict[str, Any]])
_BAND = re.compile(r"(\d{1,3})(?:\s*-\s*(\d{1,3}))?")


def load_bundled_rubrics() -> dict[str, Rubric]:
    """Return the bundled rubrics by name."""
    found = [read_rubric(path) for path in sorted(RUBRICS_FOLDER.glob("*.toml"))]
    return {one.name: one for one in found}


def find_rubric(name_or_path: str) -> Rubric:
    """Return the rubric with a name or at a path; bundled names come first.

    Raises `RubricError`.
    """
    names = load_bundled_rubrics()
    name = name_or_path.replace("_", "-")
    if name in names:
        return names[name]
    if not name_or_path.endswith(".toml") and not Path(name_or_path).exists():
        raise RubricError(
            f"unknown rubric {name_or_path!r}: give one of {', '.join(names)}, or the path of a TOML file"
        )
    return read_rubric(Path(name_or_path))


def read_rubric(path: Path = END_TO_END_RUBRIC) -> Rubric:
    """Read the rubric in a file. Raises `RubricError`."""
    try:
        if path.stat().st_size > MAX_RUBRIC_BYTES:
            raise RubricError(f"the rubric {path} is larger than {MAX_RUBRIC_BYTES} bytes: shorten it")
        return Rubric.model_validate(_to_rubric_fields(tomllib.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        raise RubricError(f"cannot read the rubric {path}: {error.strerror}; give the path of a TOML file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RubricError(f"the rubric {path} is not valid TOML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        fault = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            fault = f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
        raise RubricError(f"the rubric {path}: {fault}; docs/judge.md describes the format") from None


def hash_rubric(rubric: Rubric) -> str:
    """Return a hash of the rubric's content, independent of formatting."""
    return hashlib.sha256(rubric.model_dump_json().encode()).hexdigest()


def _to_rubric_fields(found: dict[str, Any]) -> dict[str, Any]:
    """Return the file's tables as fields of a `Rubric`. Raises `ValueError`."""
    dimensions, checks, confidence = (
        _TABLES.validate_python(table)
        for table in (found.get("dimensions", {}), found.get("checks", {}), {"confidence": found.get("confidence", {})})
    )
    if not dimensions:
        raise ValueError("it has no [dimensions.NAME] tables")
    return {
        **found,
        "dimensions": [{"name": name, **_with_band_list(table, name)} for name, table in dimensions.items()],
        "confidence": _with_band_list(confidence["confidence"], "confidence"),
        "checks": [{"name": name, **table} for name, table in checks.items()],
    }


def _with_band_list(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table with its bands as a list. Raises `ValueError`."""
    bands: Any = table.get("bands")
    if not isinstance(bands, dict):
        raise ValueError(f'{name} has no bands: add lines such as "9-10" = "what it means"')
    listed: list[dict[str, Any]] = []
    for key, text in cast("dict[str, Any]", bands).items():
        match = _BAND.fullmatch(key.strip())
        if match is None:
            raise ValueError(f'{name} has the band {key!r}, which is neither a score nor a range such as "9-10"')
        listed.append({"lowest": int(match[1]), "highest": int(match[2] or match[1]), "meaning": text})
    return {**table, "bands": listed}
