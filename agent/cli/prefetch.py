"""`scientist prefetch`: what a run needs from the Hugging Face hub, fetched into its cache while there is a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from agent.cli.checks import data_errors_refused
from agent.cli.edge import DONE, WrongUse
from agent.cli.options import Config, settings_options
from agent.data import with_idea
from agent.settings import Settings, compose
from record.nouns.idea import read_idea
from sandbox.data.own import OwnData
from sandbox.data.spec import HUB
from sandbox.pretrained import fetch, pretrained_of


@settings_options("assignments", "data")
def prefetch(
    file: Annotated[Path, typer.Argument(metavar="IDEA|CONFIG", help="An idea (.json) or a configuration (.yaml).")],
    idea_idx: Annotated[int | None, typer.Option(help="Which idea of a list, from 0.")] = None,
    config: Config = None,
    *, flags: dict[str, Any],
) -> int:
    """Fetch what a run needs from the hub. Datasets and pretrained models, for a machine without a network."""
    with data_errors_refused():
        fetched = False
        for line in _fetched(_settings(file, idea_idx, config, flags)):
            print(line)
            fetched = True
    if not fetched:
        print("nothing to fetch: neither data from the hub (hf:OWNER/SET) nor sandbox.pretrained is named")
    return DONE


def _settings(file: Path, index: int | None, config: Path | None, flags: dict[str, Any]) -> Settings:
    if file.suffix.lower() in (".yaml", ".yml"):
        if config is not None:
            raise WrongUse(f"{file} is a configuration already: leave out --config, or give an idea (.json)")
        return compose(config=file, flags=flags)
    idea = read_idea(file, index)
    with data_errors_refused():
        return with_idea(compose(config=config, flags=flags), idea, file.parent)


def _fetched(settings: Settings) -> Iterator[str]:
    """One line for each thing that is there now, fetched as the run itself will read it."""
    for spec in settings.data:
        if spec.hub:
            facts = OwnData(spec, settings.sandbox.data_bytes).facts(settings.seed)
            yield f"data {spec.name}: {HUB}{spec.hub}, {sum(facts.sizes.values())} examples"
    for model in pretrained_of(settings.sandbox.pretrained):
        yield f"pretrained {model}: commit {fetch(model).name}"
