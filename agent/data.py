"""Find, read and check the data and pretrained models available to a run, as named by flags, configuration file and
idea.

Raises `DatasetError` (`sandbox.job`) if a file or an option is invalid, before anything is created;
`PretrainedError` if a model's name is invalid or it cannot be downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from labwright.agent.settings import Settings
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.idea import Idea
from labwright.sandbox.data.spec import parse_idea_specs
from labwright.sandbox.data.tables import ColumnReading
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.datasets import DatasetSources, RepositoryDataset, build_registry
from labwright.sandbox.hub import HubOffers, provide_models
from labwright.sandbox.scorers import parse_scorers, read_scorer


def add_idea_data(settings: Settings, idea: Idea, folder: Path) -> Settings:
    """Add the idea's data to the settings, with paths relative to the idea file's folder; if names are equal, the
    settings win.
    """
    known = {spec.name for spec in settings.data}
    brought = [spec for spec in parse_idea_specs(idea.datasets, folder) if spec.name not in known]
    return settings.model_copy(update={"data": (*settings.data, *brought)})


def list_sources(settings: Settings) -> DatasetSources:
    """List every dataset available to a run with these settings, by name, without reading it. Raises `DatasetError`."""
    if settings.code.repository is not None:
        name = dataset_name(settings.code.repository)
        code = settings.code
        return {name: RepositoryDataset(name, code.commit, code.tree, code.command, code.truth)}
    return build_registry(settings.data, settings.sandbox.data_bytes) | HubOffers(settings.sandbox).sources


def dataset_name(repository: Path) -> str:
    """Return the name of a repository's data in a plan: its folder's name, converted to a valid name."""
    return re.sub(r"[^A-Za-z0-9]+", "_", repository.absolute().name).strip("_").lower() or "repository"


def survey_own_data(settings: Settings) -> tuple[str, ...]:
    """Read all of the user's data and return warnings, one line each. Raises `DatasetError`."""
    check_scorers(settings)
    return tuple(f"data {entry.name!r}: {warning}" for entry in _read_own_data(settings) for warning in entry.warnings)


def describe_targets(settings: Settings) -> tuple[str, ...]:
    """Describe how the target of each user dataset is interpreted, one line each. Raises `DatasetError`."""
    return tuple(f"data {one.name!r}: {_describe_target(one)}" for one in _read_own_data(settings) if one.target)


def describe_columns(settings: Settings) -> Iterator[tuple[DatasetFacts, int, tuple[ColumnReading, ...]]]:
    """Yield each of the user's datasets with its number of rows and how its columns are read; none if it is no table.
    Raises `DatasetError`."""
    for spec in settings.data:
        source = UserDataset(spec, settings.sandbox.data_bytes)
        yield source.build_facts(settings.seed), *source.describe_columns()


def _describe_target(facts: DatasetFacts) -> str:
    names = ", ".join(facts.class_names[:5]) + (", ..." if len(facts.class_names) > 5 else "")
    kind = f"{facts.classes} classes ({names})" if facts.classes else "numbers (task=classification makes them classes)"
    whole = all(name.lstrip("-").isdecimal() for name in facts.class_names) and facts.classes
    return f"the target {facts.target!r} is read as {kind}" + ("; task=regression makes them numbers" if whole else "")


def _read_own_data(settings: Settings) -> list[DatasetFacts]:
    """Return the facts of the user's data."""
    known = build_registry(settings.data, settings.sandbox.data_bytes)
    return [known[spec.name].build_facts(settings.seed) for spec in settings.data]


def pin_data(settings: Settings) -> Settings:
    """Pin the user's data to their fingerprints, so that changes are detected. Raises `DatasetError`."""
    check_scorers(settings)
    limit = settings.sandbox.data_bytes
    return settings.model_copy(
        update={"data": tuple(UserDataset(spec, limit).pin(settings.seed) for spec in settings.data)}
    )


def check_scorers(settings: Settings) -> None:
    """Check that all scorers can be used. Raises `DatasetError`."""
    for name, place in parse_scorers(list_sources(settings), settings.sandbox.scorers).items():
        read_scorer(name, place)


def check_unchanged(settings: Settings) -> None:
    """Raise `DatasetError` if the user's data changed since the run started, or a folder used by path is missing.

    A missing file is not an error, since the run has its own copy.
    """
    for spec in settings.data:
        if spec.path is not None and (spec.path.exists() or spec.task == "none"):
            UserDataset(spec, settings.sandbox.data_bytes).check_unchanged()


def fetch_models(settings: Settings, folder: RunFolder, state: RunState) -> dict[str, Path]:
    """Download missing models named by the settings and the plan; return `OWNER/NAME@REVISION` -> folder in the run.
    Raises `PretrainedError`."""
    asked = state.search.data_plan.pretrained if state.search.data_plan is not None else ()
    return provide_models(dict.fromkeys((*settings.sandbox.pretrained, *asked)), folder.pretrained)
