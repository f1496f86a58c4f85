"""What the Hugging Face hub says of models and datasets that a planner may ask for, before any of it is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from labwright.record.nouns.data import DataPlan, OnHub
from labwright.sandbox.data.own import OwnData
from labwright.sandbox.data.spec import specs_of
from labwright.sandbox.errors import DatasetError, PretrainedError
from labwright.sandbox.packages.wanted import allowed_of
from labwright.sandbox.pretrained import Pretrained, fetch, pretrained_of, provide
from labwright.sandbox.settings import SandboxSettings


@dataclass
class HubOffers:
    """What a planner may ask for of the hub (`sandbox.allowed`), and how it is fetched into the run's folder."""

    settings: SandboxSettings
    equip: Callable[[Mapping[str, Path]], None] = lambda _: None
    """Told where the models lie that were fetched."""

    @cached_property
    def offers(self) -> tuple[OnHub, ...]:
        """Each with size and licence. Raises `PretrainedError`, `DatasetError`."""
        return look_up(self._models, self.sources.values())

    @property
    def _models(self) -> tuple[Pretrained, ...]:
        return pretrained_of(allowed_of(self.settings.allowed).models)

    @cached_property
    def sources(self) -> dict[str, OwnData]:
        """The datasets by name. Raises `DatasetError`."""
        specs = specs_of(allowed_of(self.settings.allowed).data, Path())
        if local := [spec.name for spec in specs if not spec.hub]:
            raise DatasetError(f"sandbox.allowed: data:{local[0]} is not of the hub: name your own files with --data")
        return {spec.name: OwnData(spec, self.settings.data_bytes) for spec in specs}

    def faults(self, plan: DataPlan) -> tuple[str, ...]:
        """What a plan asks for that is not offered, in words."""
        there = {*map(str, self._models), *self.settings.pretrained}
        return tuple(
            f"there is no pretrained model {name!r}; there are: {', '.join(sorted(there)) or 'none'}"
            for name in plan.pretrained
            if name not in there
        )

    def taken(self, plan: DataPlan) -> tuple[OnHub, ...]:
        """What of it the plan takes."""
        names = {*plan.pretrained, *(use.name for use in plan.datasets)}
        return tuple(one for one in self.offers if one.name in names)

    def fetch(self, names: Iterable[str], store: Path) -> dict[str, Path]:
        """The folders of models in `store`, fetched where they are not there yet. Raises `PretrainedError`."""
        found = {str(model): provide(model, store) for model in pretrained_of(names)}
        self.equip(found)
        return found


LIMIT = 20.0
"""Seconds to wait for one answer."""


def look_up(models: Iterable[Pretrained], datasets: Iterable[OwnData]) -> tuple[OnHub, ...]:
    """Commit, size and licence of each; without a network, of what is in the local cache, what is known there.

    Raises `PretrainedError` for one that neither hub nor cache knows.
    """
    models, datasets = tuple(models), tuple(datasets)
    if not models and not datasets:
        return ()
    import huggingface_hub  # slow, and of no use to most runs

    api: Any = huggingface_hub.HfApi()
    found: list[OnHub] = []
    for model in models:
        about = OnHub(kind="model", name=str(model), id=model.id, revision=model.revision)
        found.append(_told(about, api.model_info) or _cached(about, model) or _refused(about))
    for source in datasets:
        about = OnHub(kind="dataset", name=source.name, id=source.spec.hub, revision=source.spec.revision or "main")
        found.append(_told(about, api.dataset_info) or _read(about, source) or _refused(about))
    return tuple(found)


def _told(about: OnHub, ask: Callable[..., Any]) -> OnHub | None:
    try:
        info = ask(about.id, revision=about.revision, files_metadata=True, timeout=LIMIT)
    except Exception:  # noqa: BLE001  whatever the network and the library raise
        return None
    licence = getattr(info.card_data, "license", None) or next(
        (tag.partition(":")[2] for tag in info.tags or () if tag.startswith("license:")), ""
    )
    return about.model_copy(
        update={
            "revision": info.sha or about.revision,
            "licence": str(licence),
            "bytes": sum(file.size or 0 for file in info.siblings or ()),
        }
    )


def _cached(about: OnHub, model: Pretrained) -> OnHub | None:
    try:
        folder = fetch(model)
    except PretrainedError:
        return None
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return about.model_copy(update={"revision": folder.name, "bytes": size})


def _read(about: OnHub, source: OwnData) -> OnHub | None:
    try:
        source.load()
    except DatasetError:
        return None
    return about


def _refused(about: OnHub) -> OnHub:
    raise PretrainedError(
        f"sandbox.allowed: of the {about.kind} {about.id}@{about.revision} neither the hub nor the local cache knows: "
        "check its name, run scientist prefetch where there is a network, or take it off the list"
    )
