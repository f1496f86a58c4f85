"""`scientist prefetch`: download what a run needs from the Hugging Face Hub and a package index."""

from __future__ import annotations

from labwright.agent.cli.commands import Prefetch
from labwright.agent.cli.errors import DONE
from labwright.agent.data import add_idea_data
from labwright.agent.settings import compose_settings
from labwright.record.errors import UsageError
from labwright.record.schema.idea import read_idea
from labwright.sandbox.data.spec import HUB_PREFIX
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.hub import HubOffers, fetch_model, parse_pretrained
from labwright.sandbox.packages import RunPackages


def prefetch_files(args: Prefetch) -> int:
    file, config = args.file, args.config
    is_config = file.suffix.lower() in (".yaml", ".yml")
    if is_config and config is not None:
        raise UsageError(f"{file} is a configuration: omit --config, or give an idea (.json)")
    idea = None if is_config else read_idea(file, args.idea_idx)
    settings = compose_settings(config=file if is_config else config, flags=args.flags)
    settings = settings if idea is None else add_idea_data(settings, idea, file.parent)
    models, hub_data = parse_pretrained(settings.sandbox.pretrained), [spec for spec in settings.data if spec.hub]
    for spec in hub_data:  # read in the same way as by the run
        facts = UserDataset(spec, settings.sandbox.data_bytes).build_facts(settings.seed)
        print(f"data {spec.name}: {HUB_PREFIX}{spec.hub}, {facts.example_count} examples")
    for model in models:
        print(f"pretrained {model}: commit {fetch_model(model).name}")
    hub = HubOffers(settings.sandbox)
    for source in hub.sources.values():
        print(f"data {source.name}: {HUB_PREFIX}{source.spec.hub}, {len(source.load().y)} examples")
    for model in parse_pretrained(one.name for one in hub.offers if one.kind == "model"):
        print(f"pretrained {model}: commit {fetch_model(model).name}")
    more = RunPackages(settings.sandbox)
    overlay = more.build_overlay(more.names)  # resolved together, so that any subset works offline
    if overlay is not None:
        print(f"packages: {overlay.installed or 'all installed already'}; {overlay.installed.bytes / 1e6:.1f} MB")
    if not models and not hub_data and not hub.offers and overlay is None:
        print("nothing to fetch: the settings name no hf:OWNER/SET, pretrained model or package")
    return DONE
