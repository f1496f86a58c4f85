"""Hugging Face `datasets`: from the hub (or its local cache), and folders that `save_to_disk` wrote."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sandbox.data.frames import Frame
from sandbox.data.roles import part_named
from sandbox.data.spec import DataSpec
from sandbox.data.tables import USUAL_TARGETS
from sandbox.data.untyped import hugging_face, pyarrow
from sandbox.errors import DatasetError

_SAVED = ("dataset_dict.json", "dataset_info.json")


def is_saved(folder: Path) -> bool:
    """Whether a folder is what `save_to_disk` writes."""
    return any((folder / name).is_file() for name in _SAVED)


def from_disk(folder: Path, spec: DataSpec, limit: int) -> Frame:
    """The rows of a saved dataset or dictionary of splits. Raises `DatasetError`."""
    with _quiet():
        try:
            loaded = hugging_face().load_from_disk(str(folder))
        except Exception as error:  # noqa: BLE001  the library raises what its many readers raise
            raise DatasetError(f"the datasets library cannot read it: {_said(error)}") from None
        return _frame(loaded, spec, limit)


def from_hub(spec: DataSpec, limit: int) -> Frame:
    """The rows of a dataset of the hub, fetched once and then taken from the cache. Raises `DatasetError`."""
    with _quiet():
        try:
            loaded = hugging_face().load_dataset(spec.hub, spec.config or None, revision=spec.revision or None)
        except Exception as error:  # noqa: BLE001  as above, and whatever the network raises
            raise DatasetError(_hub_fault(spec, error)) from None
        return _frame(loaded, spec, limit)


def _hub_fault(spec: DataSpec, error: Exception) -> str:
    said = _said(error)
    if isinstance(error, ConnectionError) or any(word in f"{type(error).__name__} {said}" for word in (
            "Offline", "offline", "Connection", "reach", "resolve", "Timeout", "timed out", "LocalEntryNotFound")):
        return (f"the hub cannot be reached and {spec.hub!r} is not in the local cache: fetch it once where there is a "
                f"network, or save it with save_to_disk and give the folder ({said})")
    if "Config name is missing" in said or "BuilderConfig" in said:
        return f"it needs one of its configurations: say config=NAME ({said})"
    return f"the hub does not give {spec.hub!r}: {said}"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"


@contextmanager
def _quiet() -> Generator[None]:
    """No progress bars of the library while inside."""
    datasets = hugging_face()
    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


# --- splits and columns ---------------------------------------------------------------------------------------------


def _frame(loaded: Any, spec: DataSpec, limit: int) -> Frame:
    """One table of all splits. A split without labels is left out, as is one of a name that we do not know."""
    import numpy as np

    pa = pyarrow()
    splits: dict[str, Any] = dict(cast("Mapping[str, Any]", loaded)) if isinstance(loaded, dict) else {"": loaded}
    size = sum(int(one.data.nbytes) for one in splits.values())
    if size > limit:
        raise DatasetError(f"it holds {size} bytes, more than sandbox.data_bytes ({limit}): take a part of it, "
                           "or raise it")
    warnings: list[str] = []
    if len(splits) > 1:
        splits = _known(splits, warnings)
    target = spec.target or _target(splits)
    labelled = {name: one for name, one in splits.items() if _has_labels(one, target)}
    warnings += [f"its split {name!r} has no labels and is left out" for name in splits if name not in labelled]
    if not labelled:
        raise DatasetError(f"no split has labels in the column {target!r}")
    order = _class_order(next(iter(labelled.values())), target)
    tables = [_with_names(one.with_format("arrow")[:], target, order) for one in labelled.values()]
    parts = np.repeat([part_named(name) for name in labelled], [one.num_rows for one in tables])
    table = pa.concat_tables(tables, promote_options="default")
    if not table.num_rows:
        raise DatasetError("it holds no rows")
    return Frame(table, parts if len(labelled) > 1 else None, order, tuple(warnings))


def _known(splits: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in splits.items():
        part = part_named(name)
        if part and part not in found:
            found[part] = one
        else:
            warnings.append(f"its split {name!r} is not used: it is none of train, validation and test")
    if "train" not in found:
        raise DatasetError(f"it has no split named train; there are {', '.join(splits)}")
    return found


def _target(splits: Mapping[str, Any]) -> str:
    names: list[str] = next(iter(splits.values())).column_names
    usual = [name for name in names if name.lower() in USUAL_TARGETS]
    if len(usual) != 1:
        raise DatasetError(f"which column is the target? say target=COLUMN; there are {', '.join(names)}")
    return usual[0]


def _has_labels(split: Any, target: str) -> bool:
    """False where every label is missing, or -1, as hubs write a withheld one."""
    pc = pyarrow("compute")
    if target not in split.column_names:
        return target not in USUAL_TARGETS  # a column that the user named and that is not there is said later
    column = split.with_format("arrow")[:].column(target)
    if column.null_count == len(column):
        return False
    return not ("ClassLabel" in type(split.features[target]).__name__ and pc.all(pc.less(column, 0)).as_py())


def _class_order(split: Any, target: str) -> tuple[str, ...]:
    feature = split.features.get(target)
    return tuple(getattr(feature, "names", None) or ())


def _with_names(table: Any, target: str, order: tuple[str, ...]) -> Any:
    """The table with its class numbers replaced by the classes' names; -1 is missing."""
    pa = pyarrow()
    plain = table.replace_schema_metadata(None)
    if not order or target not in plain.column_names:
        return plain
    numbers: list[int | None] = plain.column(target).to_pylist()
    names = [order[i] if i is not None and 0 <= i < len(order) else None for i in numbers]
    place = plain.column_names.index(target)
    return plain.set_column(place, target, pa.array(names, type=pa.string()))
