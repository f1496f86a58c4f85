"""The data and pretrained models that a run may use: from flags, file and idea to sources that were read and checked.

DatasetError       (sandbox.errors) you: a file or an option is at fault; nothing was created
PretrainedError    (sandbox.errors) you: a model is not named as it must be, or cannot be fetched
"""

from __future__ import annotations

import re
from pathlib import Path

from labwright.agent.settings import Settings
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.nouns.data import DatasetFacts
from labwright.record.nouns.idea import Idea
from labwright.sandbox.data.own import OwnData
from labwright.sandbox.data.spec import of_idea
from labwright.sandbox.datasets import OfRepository, Sources, catalogue, registry
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.pretrained import pretrained_of, provide
from labwright.sandbox.scorers import read_scorer, scorers_of


def with_idea(settings: Settings, idea: Idea, folder: Path) -> Settings:
    """The settings with the data of the idea, relative to its file's folder; settings win where both have a name."""
    taken = {spec.name for spec in settings.data}
    brought = [spec for spec in of_idea(idea.datasets, folder) if spec.name not in taken]
    return settings.model_copy(update={"data": (*settings.data, *brought)})


def sources_of(settings: Settings) -> Sources:
    """Every dataset that a run with these settings can have, by name; reads nothing. Raises `DatasetError`."""
    if settings.code.repository is not None:
        name = dataset_of(settings.code.repository)
        code = settings.code
        return {name: OfRepository(name, code.commit, code.tree, code.command, code.truth)}
    return registry(settings.data, settings.sandbox.data_bytes) | HubOffers(settings.sandbox).sources


def dataset_of(repository: Path) -> str:
    """What a plan calls the data of a repository: its folder's name, as a name may be written."""
    return re.sub(r"[^A-Za-z0-9]+", "_", repository.absolute().name).strip("_").lower() or "repository"


def survey(settings: Settings) -> tuple[str, ...]:
    """Warnings on own data before a run, one line each, after reading all of it. Raises `DatasetError`."""
    check_scorers(settings)
    return tuple(f"data {entry.name!r}: {warning}" for entry in _own(settings) for warning in entry.warnings)


def targets(settings: Settings) -> tuple[str, ...]:
    """How the target of each own dataset is read, a line each. Raises `DatasetError`."""
    return tuple(f"data {one.name!r}: {_target(one)}" for one in _own(settings) if one.target)


def _target(facts: DatasetFacts) -> str:
    names = ", ".join(facts.class_names[:5]) + (", ..." if len(facts.class_names) > 5 else "")
    kind = f"{facts.classes} classes ({names})" if facts.classes else "numbers (task=classification makes them classes)"
    whole = all(name.lstrip("-").isdecimal() for name in facts.class_names) and facts.classes
    return f"the target {facts.target!r} is read as {kind}" + ("; task=regression makes them numbers" if whole else "")


def _own(settings: Settings) -> tuple[DatasetFacts, ...]:
    """The facts of own data."""
    if not settings.data:
        return ()
    entries = catalogue(registry(settings.data, settings.sandbox.data_bytes), seed=settings.seed)
    return tuple(entry for entry in entries if isinstance(entry, DatasetFacts))


def pinned(settings: Settings) -> Settings:
    """The settings with the fingerprints of own data, so that a change is seen. Raises `DatasetError`."""
    check_scorers(settings)
    limit = settings.sandbox.data_bytes
    return settings.model_copy(
        update={"data": tuple(OwnData(spec, limit).pinned(settings.seed) for spec in settings.data)}
    )


def check_scorers(settings: Settings) -> None:
    """Raises `DatasetError` for a scorer that cannot be used."""
    for name, place in scorers_of(sources_of(settings), settings.sandbox.scorers).items():
        read_scorer(name, place)


def check_unchanged(settings: Settings) -> None:
    """Raises `DatasetError` for own data that changed since the run began, and for a folder by path that is gone.

    A file that is gone does not matter: the run has its own copy.
    """
    for spec in settings.data:
        if spec.path is not None and (spec.path.exists() or spec.task == "none"):
            OwnData(spec, settings.sandbox.data_bytes).check_unchanged()


def provided(settings: Settings, folder: RunFolder, state: RunState) -> dict[str, Path]:
    """`OWNER/NAME@REVISION` -> its folder in the run, fetched where it is not there yet, of all models that settings
    and plan name. Raises `PretrainedError`."""
    asked = state.data_plan.pretrained if state.data_plan is not None else ()
    models = pretrained_of(dict.fromkeys((*settings.sandbox.pretrained, *asked)))
    return {str(model): provide(model, folder.pretrained) for model in models}
