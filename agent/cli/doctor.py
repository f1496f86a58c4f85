"""`scientist doctor`: is this machine, and a model, fit for a run?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from json import dumps
from pathlib import Path
from random import Random

from rich.text import Text

from labwright.agent.cli.checks import existing
from labwright.agent.cli.commands import Doctor
from labwright.agent.cli.edge import DONE, FINDINGS
from labwright.agent.cli.shown import show
from labwright.agent.doctor import Finding, broken, gpu, machine, model
from labwright.agent.settings import Settings, compose
from labwright.inspector.text import plain
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file

OUTCOMES = {"passed": "green", "skipped": "yellow", "failed": "red"}
COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}


def doctor(asked: Doctor) -> int:
    named, runs = "models.name" in asked.flags, asked.runs
    if not named and (asked.probe_context or "models.base_url" in asked.flags):
        raise WrongUse("--probe-context and --base-url go with --model: nothing is sent without it")
    place = existing(runs)
    if not place.is_dir():
        raise WrongUse(f"--runs {runs}: {place} is a file, not a folder; choose another --runs")
    if asked.gpu:
        return examine_gpus(compose(config=asked.config, flags=asked.flags), asked.out, json=asked.json)
    settings, findings = compose(config=asked.config, flags=asked.flags), list[Finding]()
    of_model = examine_model(settings, probe_context=asked.probe_context) if named else iter(())
    for finding in chain(examine(settings, place, os.environ), of_model):
        findings.append(finding)
        if not asked.json:
            show([finding_line(finding)])
    if asked.json:
        counts = {grade: sum(one.grade == grade for one in findings) for grade in COLOURS}
        print(dumps({"counts": counts, "findings": [one.model_dump() for one in findings]}, indent=1))
    elif not named:
        show([Text("model      not checked: give --model to check it", style="dim")])
    return FINDINGS if any(one.grade == "fault" for one in findings) else DONE


def examine_gpus(settings: Settings, out: Path, *, json: bool) -> int:
    """Try what experiments do on a GPU, and write a report that can be sent. Raises `WrongUse`, `GpuError`."""
    if out.exists():
        raise WrongUse(f"{out} exists: name another file with --out")
    checks, made = gpu.checks_of(settings.sandbox), list[gpu.GpuCheck]()
    for one in checks.all():
        made.append(one)
        if not json:
            show(
                [
                    Text.assemble(
                        (f"{one.outcome:<8}", OUTCOMES[one.outcome]),
                        (f"{one.name:<8}", "bold"),
                        plain(one.what + (f": {one.why}" if one.why else "")),
                        f" ({one.seconds:g} s)",
                    )
                ]
            )
    report = gpu.report_of(checks, made)
    write_file(out, report.model_dump_json(indent=1))
    print(report.model_dump_json(indent=1) if json else f"{', '.join(report.gpus)}: the report is in {out}")
    return DONE if report.good else FINDINGS


def examine(settings: Settings, place: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Every finding on the machine, as soon as it is there. `place`: an existing folder where runs are made."""
    sandbox = settings.sandbox
    probes: dict[str, Callable[[], Finding]] = {
        "packages": machine.packages,
        "experiments": lambda: machine.experiments(sandbox.python),
        "gpu": lambda: machine.gpu(sandbox.python, sandbox.device),
        "memory": lambda: machine.memory(settings.search.num_workers),
        "disk": lambda: machine.disk(place, settings.min_free_gb),
        "filesystem": lambda: machine.filesystem(place),
        "tex": lambda: machine.typesetting(settings.paper.template),
        "isolation": lambda: machine.isolation(wanted=sandbox.isolation),
        "keys": lambda: machine.keys(environment),
        "kernel": lambda: machine.kernel(sandbox),
    }
    for check, probe in probes.items():
        try:
            yield probe()
        except Exception as error:  # noqa: BLE001  the edge of one probe: one that breaks must not hide the others
            yield broken(check, error)


def examine_model(settings: Settings, *, probe_context: bool) -> Iterator[Finding]:
    """Every finding on the models that are named."""
    try:
        yield from model.examine(settings.models, probe_context=probe_context, rng=Random())
    except Exception as error:  # noqa: BLE001  the edge of the probes of a model, as of those of the machine
        yield broken("model", error)


def finding_line(finding: Finding) -> Text:
    """A finding on one line."""
    fix = f"; fix: {plain(finding.fix)}" if finding.fix else ""
    return Text.assemble(
        (f"{finding.grade:<8}", COLOURS[finding.grade]), (f"{finding.check:<12}", "bold"), plain(finding.found) + fix
    )
