"""`scientist prefetch`: what a run needs from the Hugging Face hub and an index of packages, fetched ahead."""

from __future__ import annotations

from labwright.agent.cli.commands import Prefetch
from labwright.agent.cli.edge import DONE
from labwright.agent.data import with_idea
from labwright.agent.settings import compose
from labwright.record.errors import WrongUse
from labwright.record.nouns.idea import read_idea
from labwright.sandbox.data.own import OwnData
from labwright.sandbox.data.spec import HUB
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.packages.of_run import RunPackages
from labwright.sandbox.pretrained import fetch, pretrained_of


def prefetch(asked: Prefetch) -> int:
    file, config = asked.file, asked.config
    is_config = file.suffix.lower() in (".yaml", ".yml")
    if is_config and config is not None:
        raise WrongUse(f"{file} is a configuration already: leave out --config, or give an idea (.json)")
    idea = None if is_config else read_idea(file, asked.idea_idx)
    settings = compose(config=file if is_config else config, flags=asked.flags)
    settings = settings if idea is None else with_idea(settings, idea, file.parent)
    models, hub_data = pretrained_of(settings.sandbox.pretrained), [spec for spec in settings.data if spec.hub]
    for spec in hub_data:  # read as the run itself will read it
        facts = OwnData(spec, settings.sandbox.data_bytes).facts(settings.seed)
        print(f"data {spec.name}: {HUB}{spec.hub}, {facts.examples} examples")
    for model in models:
        print(f"pretrained {model}: commit {fetch(model).name}")
    hub = HubOffers(settings.sandbox)
    for source in hub.sources.values():
        print(f"data {source.name}: {HUB}{source.spec.hub}, {len(source.load().y)} examples")
    for model in pretrained_of(one.name for one in hub.offers if one.kind == "model"):
        print(f"pretrained {model}: commit {fetch(model).name}")
    more = RunPackages(settings.sandbox)
    overlay = more.overlay(more.names)  # together, so that any of them are there without a network
    if overlay is not None:
        print(f"packages: {overlay.installed or 'none that is not there'}; {overlay.installed.bytes / 1e6:.1f} MB")
    if not models and not hub_data and not hub.offers and overlay is None:
        print("nothing to fetch: no hf:OWNER/SET, no pretrained model and no package is named")
    return DONE
