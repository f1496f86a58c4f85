"""`scientist doctor`: check whether this machine and a model are ready for a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from json import dumps
from pathlib import Path
from random import Random

from rich.text import Text

from labwright.agent.cli.commands import Doctor
from labwright.agent.cli.errors import DONE, FINDINGS, print_lines, print_to_stderr
from labwright.agent.cli.preflight import nearest_existing
from labwright.agent.doctor import Verdict, gpu, machine, model
from labwright.agent.environment import choose_reviewer, describe_reviewer
from labwright.agent.settings import Settings, compose_settings
from labwright.inspector.safe_text import to_plain
from labwright.record.errors import UsageError
from labwright.record.run_folder import write_file

OUTCOME_COLOURS = {"passed": "green", "failed": "red"}
GRADE_COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}


def run_doctor(args: Doctor) -> int:
    named = "models.name" in args.flags
    if not named and "models.base_url" in args.flags:
        raise UsageError("--base-url requires --model")
    place = nearest_existing(args.runs)
    if not place.is_dir():
        raise UsageError(f"--runs {args.runs}: {place} is a file, not a folder; choose another --runs")
    settings = compose_settings(config=args.config, flags=args.flags)
    if args.fix:
        for line in (machine.install_debian_packages(), machine.install_torch(settings.sandbox.python)):
            if line:
                print_to_stderr(line)
    if args.gpu:
        return check_gpus(settings, args.out, json=args.json)
    settings, findings = choose_reviewer(settings), list[tuple[str, Verdict]]()
    reviewer = describe_reviewer(settings.models) if named else ""
    named_probes = [("reviewer", Verdict("ok", reviewer))] * bool(reviewer), check_models(settings)
    for check, verdict in chain(check_machine(settings, place, os.environ), *(named_probes if named else ())):
        findings.append((check, verdict))
        if not args.json:
            fix = f"; fix: {to_plain(verdict.fix)}" if verdict.fix else ""
            head = (f"{verdict.grade:<8}", GRADE_COLOURS[verdict.grade]), (f"{check:<12}", "bold")
            print_lines([Text.assemble(*head, to_plain(verdict.found) + fix)])
    if args.json:
        counts = {grade: sum(one.grade == grade for _, one in findings) for grade in GRADE_COLOURS}
        listed = [{"check": check, **one._asdict()} for check, one in findings]
        print(dumps({"counts": counts, "findings": listed}, indent=1))
    elif not named:
        print_lines([Text(f"{'skipped':<8}{'model':<12}give --model to check it", style="dim")])
    return FINDINGS if any(one.grade == "fault" for _, one in findings) else DONE


def check_gpus(settings: Settings, out: Path, *, json: bool) -> int:
    """Run the GPU self-tests and write a report that can be shared. Raises `UsageError`, `GpuError`."""
    if out.exists():
        raise UsageError(f"{out} already exists: choose another --out")
    checks, made = gpu.open_gpu_checker(settings.sandbox), list[gpu.GpuCheck]()
    for one in checks.run_all():
        made.append(one)
        if not json:
            head = (f"{one.outcome:<8}", OUTCOME_COLOURS[one.outcome]), (f"{one.name:<8}", "bold")
            what = to_plain(one.what + (f": {one.why}" if one.why else ""))
            print_lines([Text.assemble(*head, what, f" ({one.seconds:g} s)")])
    report = gpu.build_gpu_report(checks, made)
    write_file(out, report.model_dump_json(indent=1))
    print(report.model_dump_json(indent=1) if json else f"{', '.join(report.gpus)}: the report is in {out}")
    return DONE if report.all_passed else FINDINGS


def check_machine(settings: Settings, place: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Verdict]]:
    """Yield each finding about the machine as soon as it is available. `place` is an existing folder for runs."""
    sandbox = settings.sandbox
    probes: dict[str, Callable[[], Verdict]] = {
        "packages": machine.check_packages,
        "experiments": lambda: machine.check_experiment_packages(sandbox.python),
        "gpu": lambda: machine.check_gpu(sandbox.python, sandbox.device),
        "memory": lambda: machine.check_memory(settings.search.num_workers),
        "disk": lambda: machine.check_disk(place, settings.min_free_gb),
        "tex": lambda: machine.check_typesetting(settings.paper.template),
        "isolation": lambda: machine.check_isolation(wanted=sandbox.isolation),
        "keys": lambda: machine.check_keys(environment),
        "kernel": lambda: machine.check_kernel(sandbox),
    }
    for check, probe in probes.items():
        try:
            yield check, probe()
        except Exception as error:  # noqa: BLE001  a failing probe must not hide the others
            yield check, _describe_broken_probe(error)


def check_models(settings: Settings) -> Iterator[tuple[str, Verdict]]:
    """Yield every finding about the configured models."""
    try:
        yield from model.check_models(settings.models, rng=Random())
    except Exception as error:  # noqa: BLE001  a failing probe must not hide the others
        yield "model", _describe_broken_probe(error)


def _describe_broken_probe(error: Exception) -> Verdict:
    problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Verdict("fault", f"could not be checked: {problem}", "fix the cause in the message, then run doctor again")
