"""The whole examination in its order: the machine first, a model last and only when one is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agent.doctor import isolation, kernel, keys, machine, packages, typesetting
from agent.doctor.finding import Finding, fault, guarded
from agent.doctor.systems import read_system
from agent.settings import Settings
from stages.paper.template import names


@dataclass(frozen=True)
class Patient:
    """What is examined: settings, the folder where runs go (an existing one), the environment, perhaps a model."""

    settings: Settings
    place: Path
    environment: Mapping[str, str]
    model: bool = False
    probe_context: bool = False


def examine(patient: Patient) -> Iterator[Finding]:
    """Every finding, as soon as it is there."""
    settings, place = patient.settings, patient.place
    system, sandbox = read_system(), settings.sandbox
    probes: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", packages.python),
        ("packages", packages.packages),
        ("experiments", lambda: packages.of_experiments(sandbox.python)),
        ("gpu", lambda: machine.gpu(sandbox.python, sandbox.device)),
        ("memory", lambda: machine.memory(settings.search.num_workers)),
        ("disk", lambda: machine.disk(place, settings.min_free_gb)),
        ("filesystem", lambda: machine.filesystem(place)),
        ("clock", lambda: machine.clock(place)),
        ("tex", lambda: typesetting.typesetting(system, templates())),
        ("isolation", lambda: isolation.isolation(system, wanted=sandbox.isolation)),
        ("keys", lambda: keys.keys(patient.environment)),
        ("kernel", lambda: kernel.kernel(sandbox)),
    )
    if settings.paper.template not in names():
        probes = (*probes, ("template", lambda: typesetting.template(settings.paper.template)))
    for check, probe in probes:
        yield guarded(check, probe)
    if patient.model:
        yield from _model(patient)


def templates() -> Path:
    """The folder of our LaTeX templates."""
    return Path(__file__).resolve().parents[2] / "templates_latex"


def _model(patient: Patient) -> Iterator[Finding]:
    from agent.doctor.model import examine as ask

    try:
        yield from ask(patient.settings.models, probe_context=patient.probe_context, rng=Random())
    except Exception as error:  # noqa: BLE001  the edge of the probes of a model, as in `guarded`
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        yield fault("model", f"could not be examined: {said}", "look at what the message names, then ask again")
