"""`scientist prefetch`: what a run needs from the Hugging Face hub, fetched into its cache while there is a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.commands.edge import DONE, WrongUse, data_refused
from agent.data import with_idea
from agent.settings import Settings, compose
from record.nouns.idea import read_idea
from sandbox.data.own import OwnData
from sandbox.data.spec import HUB
from sandbox.pretrained import fetch, pretrained_of


def prefetch(file: Path, *, index: int | None, config: Path | None, flags: dict[str, Any]) -> int:
    """Fetch the datasets and models that an idea (.json) or configuration (.yaml) names; returns 0.

    Raises: `WrongUse`, `SettingsError`, `IdeaError`, `PretrainedError`.
    """
    settings = _settings(file, index, config, flags)
    said = False
    with data_refused():
        for line in _fetched(settings):
            print(line)
            said = True
    if not said:
        print("nothing to fetch: neither data from the hub (hf:OWNER/SET) nor sandbox.pretrained is named")
    return DONE


def _settings(file: Path, index: int | None, config: Path | None, flags: dict[str, Any]) -> Settings:
    if file.suffix.lower() in (".yaml", ".yml"):
        if config is not None:
            raise WrongUse(f"{file} is a configuration already: leave out --config, or give an idea (.json)")
        return compose(config=file, flags=flags)
    idea = read_idea(file, index)
    with data_refused():
        return with_idea(compose(config=config, flags=flags), idea, file.parent)


def _fetched(settings: Settings) -> Iterator[str]:
    """One line for each thing that is there now, fetched as the run itself will read it."""
    for spec in settings.data:
        if spec.hub:
            facts = OwnData(spec, settings.sandbox.data_bytes).facts(settings.seed)
            yield f"data {spec.name}: {HUB}{spec.hub}, {sum(facts.sizes.values())} examples"
    for model in pretrained_of(settings.sandbox.pretrained):
        yield f"pretrained {model}: commit {fetch(model).name}"
