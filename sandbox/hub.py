"""Models and datasets of the Hugging Face hub: looked up before anything is fetched, and models fetched."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from labwright.record.schema.data_plan import DataPlan, HubItem
from labwright.sandbox.content_store import compute_key
from labwright.sandbox.data.spec import parse_specs
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.job import DatasetError, PretrainedError
from labwright.sandbox.packages import parse_allowed
from labwright.sandbox.settings import SandboxSettings


@dataclass
class HubOffers:
    """Hub items that a planner may request (`sandbox.allowed`), and how to fetch them into the run's folder."""

    settings: SandboxSettings
    add_pretrained: Callable[[Mapping[str, Path]], None] = lambda _: None
    """Called with the folders of fetched models."""

    @cached_property
    def offers(self) -> tuple[HubItem, ...]:
        """The allowed items with commit, size and licence; without a network, the facts in the local cache. Raises
        `PretrainedError` for an item that is neither on the hub nor in the cache, `DatasetError`."""
        models, datasets = self.models, self.sources.values()
        if not models and not datasets:
            return ()
        import huggingface_hub  # slow to import, and not needed by most runs

        api: Any = huggingface_hub.HfApi()
        items: list[HubItem] = []
        for model in models:
            about = HubItem(kind="model", name=str(model), id=model.id, revision=model.revision)
            items.append(_look_up_online(about, api.model_info) or _look_up_cached(about, partial(fetch_model, model)))
        for source in datasets:
            revision = source.spec.revision or "main"
            about = HubItem(kind="dataset", name=source.name, id=source.spec.hub, revision=revision)
            items.append(_look_up_online(about, api.dataset_info) or _look_up_cached(about, source.load))
        return tuple(items)

    @property
    def models(self) -> tuple[PretrainedModel, ...]:
        """The allowed models. Raises `PretrainedError`."""
        return parse_pretrained(parse_allowed(self.settings.allowed).models)

    @cached_property
    def sources(self) -> dict[str, UserDataset]:
        """The allowed datasets by name. Raises `DatasetError`."""
        specs = parse_specs(parse_allowed(self.settings.allowed).data, Path())
        if local := [spec.name for spec in specs if not spec.hub]:
            raise DatasetError(f"sandbox.allowed: data:{local[0]} is not on the hub: pass your own files with --data")
        return {spec.name: UserDataset(spec, self.settings.data_bytes) for spec in specs}

    def find_faults(self, plan: DataPlan) -> tuple[str, ...]:
        """Describe the models in a plan that are not available."""
        available = sorted({*map(str, self.models), *self.settings.pretrained})
        unknown = (name for name in plan.pretrained if name not in available)
        has = ", ".join(available) or "none"
        return tuple(f"unknown pretrained model {name!r}; available: {has}" for name in unknown)

    def select_for_plan(self, plan: DataPlan) -> tuple[HubItem, ...]:
        """Return the items that a plan uses."""
        names = {*plan.pretrained, *(use.name for use in plan.datasets)}
        return tuple(one for one in self.offers if one.name in names)

    def fetch(self, names: Iterable[str], store: Path) -> None:
        """Fetch models into `store` if missing. Raises `PretrainedError`."""
        self.add_pretrained(provide_models(names, store))


LOOKUP_TIMEOUT_SECONDS = 20.0
"""Timeout of one request, in seconds."""


def _look_up_online(about: HubItem, ask: Callable[..., Any]) -> HubItem | None:
    try:
        info = ask(about.id, revision=about.revision, files_metadata=True, timeout=LOOKUP_TIMEOUT_SECONDS)
    except Exception:  # noqa: BLE001  whatever the network and the library raise
        return None
    tags = (tag.partition(":")[2] for tag in info.tags or () if tag.startswith("license:"))
    licence = getattr(info.card_data, "license", None) or next(tags, "")
    size = sum(file.size or 0 for file in info.siblings or ())
    return about.model_copy(update={"revision": info.sha or about.revision, "licence": str(licence), "bytes": size})


def _look_up_cached(about: HubItem, load: Callable[[], object]) -> HubItem:
    """Return the facts about an item in the local cache. Raises `PretrainedError` if it is not there."""
    try:
        folder = load()
    except (PretrainedError, DatasetError):
        raise PretrainedError(
            f"sandbox.allowed: {about.kind} {about.id}@{about.revision} is neither on the hub nor in the local cache: "
            "check the name, or run scientist prefetch with a network"
        ) from None
    if not isinstance(folder, Path):
        return about
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return about.model_copy(update={"revision": folder.name, "bytes": size})


_SPEC_PATTERN = re.compile(r"(?P<id>[\w.-]+(/[\w.-]+)?)@(?P<revision>[\w./-]+)")
_UNUSED_FILES = "*.msgpack *.h5 *.ot *.onnx *.tflite onnx/* openvino/* coreml/* .gitattributes".split()
"""Weights for other frameworks, which `from_pretrained` of torch never reads."""
MAX_BYTES = 160 * 2**30
"""Size limit of one model: 80 billion parameters in 16 bits, more than the GPUs of one node can hold."""


@dataclass(frozen=True)
class PretrainedModel:
    """A model on the hub at a revision (a commit, a tag or a branch)."""

    id: str
    revision: str

    def __str__(self) -> str:
        return f"{self.id}@{self.revision}"


def parse_pretrained(words: Iterable[str]) -> tuple[PretrainedModel, ...]:
    """Parse the models in `sandbox.pretrained`. Raises `PretrainedError` for a model without a revision."""
    models: list[PretrainedModel] = []
    for word in words:
        match = _SPEC_PATTERN.fullmatch(word)
        if match is None:
            why = "is not OWNER/NAME@REVISION; the revision is a commit or a tag"
            raise PretrainedError(f"sandbox.pretrained: {word!r} {why}")
        models.append(PretrainedModel(match["id"], match["revision"]))
    return tuple(models)


def fetch_model(model: PretrainedModel) -> Path:
    """Return the hub cache's folder of a model, named by the commit; without a network, only the cache is used. Raises
    `PretrainedError`."""
    import huggingface_hub
    from huggingface_hub.utils import disable_progress_bars

    library: Any = huggingface_hub  # its signatures are only partly typed
    disable_progress_bars()
    try:
        return Path(library.snapshot_download(model.id, revision=model.revision, ignore_patterns=_UNUSED_FILES))
    except Exception as error:  # noqa: BLE001  whatever the network and the library raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
        raise PretrainedError(
            f"pretrained model {model} cannot be fetched and is not in the local cache: run scientist prefetch with a "
            f"network, or check the name ({reason})"
        ) from None


def provide_models(words: Iterable[str], store: Path) -> dict[str, Path]:
    """Return the folders of models for kernels, by name. Raises `PretrainedError`."""
    return {str(model): provide_model(model, store) for model in parse_pretrained(words)}


def provide_model(model: PretrainedModel, store: Path) -> Path:
    """Return the folder of a model for kernels, copied to `store` and hashed on first use.

    `fetched.json` next to it contains the commit of the revision, the sha256 over names and files, and the total size.
    Raises `PretrainedError`.
    """
    place = store / str(model).replace("/", "--")
    if not place.is_dir():
        _copy_snapshot(model, fetch_model(model), place)
    return place / "files"


def _copy_snapshot(model: PretrainedModel, snapshot: Path, place: Path) -> None:
    """Copy a snapshot, whose files are links into the cache, completely or not at all; the copies are read-only."""
    sizes = [path.stat().st_size for path in snapshot.rglob("*") if path.is_file()]
    if not sizes or sum(sizes) > MAX_BYTES:
        raise PretrainedError(f"{model} has {sum(sizes)} bytes in {len(sizes)} files; the limit is {MAX_BYTES}")
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(snapshot, part / "files")  # copies what the links name
    for path in filter(Path.is_file, (part / "files").rglob("*")):
        path.chmod(0o444)
    facts = {"commit": snapshot.name, "sha256": compute_key(part / "files"), "size": sum(sizes)}
    (part / "fetched.json").write_text(json.dumps(facts))
    os.rename(part, place)
