"""`scientist doctor`: is this machine, and a model, fit for a run?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agent.commands.edge import DONE, FINDINGS, WrongUse
from agent.commands.run import existing
from agent.doctor.examination import Patient, examine
from agent.doctor.finding import Finding, as_json
from agent.settings import compose
from inspector.text import plain

COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}


def doctor(
    flags: dict[str, Any], *, config: Path | None, runs: Path, probe_context: bool, as_json_text: bool
) -> int:
    """Examine; returns 5 when something is at fault. Nothing is sent unless --model was given."""
    named = "models.name" in flags
    if not named and (probe_context or "models.base_url" in flags):
        raise WrongUse("--probe-context and --base-url go with --model: nothing is sent without it")
    place = existing(runs)
    if not place.is_dir():
        raise WrongUse(f"--runs {runs}: {place} is a file, not a folder; choose another --runs")
    patient = Patient(settings=compose(config=config, flags=flags), place=place, environment=os.environ, model=named,
                      probe_context=probe_context)
    findings: list[Finding] = []
    console = Console()
    for finding in examine(patient):
        findings.append(finding)
        if not as_json_text:
            console.print(line(finding), soft_wrap=True)
    if as_json_text:
        print(as_json(findings))
    elif not named:
        console.print(Text("model      not asked: give --model to have it examined", style="dim"), soft_wrap=True)
    return FINDINGS if any(one.grade == "fault" for one in findings) else DONE


def line(finding: Finding) -> Text:
    """A finding on one line."""
    text = Text(f"{finding.grade:<8}", style=COLOURS[finding.grade])
    text.append(f"{finding.check:<12}", style="bold default")
    text.append(plain(finding.found), style="default")
    if finding.mend:
        text.append(f"; mend: {plain(finding.mend)}", style="default")
    return text
