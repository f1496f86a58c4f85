"""What the Hugging Face hub says of models and datasets that a planner may ask for, before any of it is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from labwright.record.schema.data_plan import DataPlan, HubItem
from labwright.sandbox.data.spec import parse_specs
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.errors import DatasetError, PretrainedError
from labwright.sandbox.packages.requirements import parse_allowed
from labwright.sandbox.pretrained_models import PretrainedModel, fetch_model, parse_pretrained, provide_model
from labwright.sandbox.settings import SandboxSettings


@dataclass
class HubOffers:
    """What a planner may ask for of the hub (`sandbox.allowed`), and how it is fetched into the run's folder."""

    settings: SandboxSettings
    add_pretrained: Callable[[Mapping[str, Path]], None] = lambda _: None
    """Told where the models lie that were fetched."""

    @cached_property
    def offers(self) -> tuple[HubItem, ...]:
        """Each with size and licence. Raises `PretrainedError`, `DatasetError`."""
        return look_up(self._models, self.sources.values())

    @property
    def _models(self) -> tuple[PretrainedModel, ...]:
        return parse_pretrained(parse_allowed(self.settings.allowed).models)

    @cached_property
    def sources(self) -> dict[str, UserDataset]:
        """The datasets by name. Raises `DatasetError`."""
        specs = parse_specs(parse_allowed(self.settings.allowed).data, Path())
        if local := [spec.name for spec in specs if not spec.hub]:
            raise DatasetError(f"sandbox.allowed: data:{local[0]} is not of the hub: name your own files with --data")
        return {spec.name: UserDataset(spec, self.settings.data_bytes) for spec in specs}

    def find_faults(self, plan: DataPlan) -> tuple[str, ...]:
        """What a plan asks for that is not offered, in words."""
        there = {*map(str, self._models), *self.settings.pretrained}
        return tuple(
            f"there is no pretrained model {name!r}; there are: {', '.join(sorted(there)) or 'none'}"
            for name in plan.pretrained
            if name not in there
        )

    def select_for_plan(self, plan: DataPlan) -> tuple[HubItem, ...]:
        """What of it the plan takes."""
        names = {*plan.pretrained, *(use.name for use in plan.datasets)}
        return tuple(one for one in self.offers if one.name in names)

    def fetch(self, names: Iterable[str], store: Path) -> dict[str, Path]:
        """The folders of models in `store`, fetched where they are not there yet. Raises `PretrainedError`."""
        found = {str(model): provide_model(model, store) for model in parse_pretrained(names)}
        self.add_pretrained(found)
        return found


LOOKUP_TIMEOUT_SECONDS = 20.0
"""Seconds to wait for one answer."""


def look_up(models: Iterable[PretrainedModel], datasets: Iterable[UserDataset]) -> tuple[HubItem, ...]:
    """Commit, size and licence of each; without a network, of what is in the local cache, what is known there.

    Raises `PretrainedError` for one that neither hub nor cache knows.
    """
    models, datasets = tuple(models), tuple(datasets)
    if not models and not datasets:
        return ()
    import huggingface_hub  # slow, and of no use to most runs

    api: Any = huggingface_hub.HfApi()
    found: list[HubItem] = []
    for model in models:
        about = HubItem(kind="model", name=str(model), id=model.id, revision=model.revision)
        found.append(_look_up_online(about, api.model_info) or _look_up_cached_model(about, model) or _refuse(about))
    for source in datasets:
        about = HubItem(kind="dataset", name=source.name, id=source.spec.hub, revision=source.spec.revision or "main")
        found.append(
            _look_up_online(about, api.dataset_info) or _look_up_cached_dataset(about, source) or _refuse(about)
        )
    return tuple(found)


def _look_up_online(about: HubItem, ask: Callable[..., Any]) -> HubItem | None:
    try:
        info = ask(about.id, revision=about.revision, files_metadata=True, timeout=LOOKUP_TIMEOUT_SECONDS)
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


def _look_up_cached_model(about: HubItem, model: PretrainedModel) -> HubItem | None:
    try:
        folder = fetch_model(model)
    except PretrainedError:
        return None
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return about.model_copy(update={"revision": folder.name, "bytes": size})


def _look_up_cached_dataset(about: HubItem, source: UserDataset) -> HubItem | None:
    try:
        source.load()
    except DatasetError:
        return None
    return about


def _refuse(about: HubItem) -> HubItem:
    raise PretrainedError(
        f"sandbox.allowed: of the {about.kind} {about.id}@{about.revision} neither the hub nor the local cache knows: "
        "check its name, run scientist prefetch where there is a network, or take it off the list"
    )
