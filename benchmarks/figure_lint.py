"""Accuracy of the figure lint: recall on planted faults and false alarms on good figures, drawn in real kernels.

python -m benchmarks.figure_lint [--keep DIR] [--out FILE]

Prints one JSON object for a set of planted figures (`benchmarks/planted/figures.tar.gz`), which the lint's author
wrote before tuning it. A fault counts as found if there is a finding of its kind; a good figure with any finding is
a false alarm. Intervals are 95 % Wilson.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.planted import Script, scripts
from benchmarks.report import make_parser, print_report
from labwright.evals.intervals import wilson_interval
from labwright.review.figures import LintFinding, lint_figure_folder
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job, measure_all
from labwright.sandbox.settings import SandboxSettings

PRELUDE_CODE = '''\
import os
import matplotlib
import matplotlib.pyplot as plt
import numpy as np

os.makedirs("figures", exist_ok=True)


def fall(n=30, rate=0.1, low=0.2, seed=0):
    """A loss curve."""
    rng = np.random.default_rng(seed)
    return low + np.exp(-rate * np.arange(n)) + 0.02 * rng.normal(size=n)


def draw(name, code):
    """Run a script in a scope of its own; `fig` is saved unless it was by the script."""
    plt.rcdefaults()
    plt.close("all")
    path = f"figures/{name}.png"
    scope = {"np": np, "plt": plt, "fall": fall, "path": path, "again": f"figures/{name}-again.png",
             "rng": np.random.default_rng(7), "x": np.arange(1, 31.0), "matplotlib": matplotlib}
    exec(code, scope)
    if not os.path.exists(path):
        scope["fig"].savefig(path, dpi=200)
'''
"""Start of a job's script, which calls `draw(name, code)` for each case."""
MAX_PARALLEL = 30
"""Maximum cases per kernel, which may write fifty figures."""


async def lint_figures(cases: Sequence[Script], base: Path) -> dict[str, tuple[LintFinding, ...]]:
    """Return the findings on each case's figures, by name."""
    executor = LocalExecutor(1, base / "views", settings=SandboxSettings(isolation="none"))
    found: dict[str, tuple[LintFinding, ...]] = {}
    try:
        for start in range(0, len(cases), MAX_PARALLEL):
            found |= await _draw(executor, cases[start : start + MAX_PARALLEL], base / f"job{start}")
    finally:
        await executor.close()
    return found


async def _draw(executor: LocalExecutor, cases: Sequence[Script], folder: Path) -> dict[str, tuple[LintFinding, ...]]:
    script = PRELUDE_CODE + "".join(f"draw({case.name!r}, {case.code!r})\n" for case in cases)
    outcome = await measure_all(
        executor,
        Job(name="planted", folder=folder, source={"plots.py": script}, entry="plots.py", kind="plot", timeout=300.0),
    )
    if outcome.failure is not None:
        raise RuntimeError(f"the planted figures could not be drawn: {outcome.failure}")
    found: dict[str, tuple[LintFinding, ...]] = {}
    for case in cases:
        own = [figure for figure in outcome.figures if figure.name in (f"{case.name}.png", f"{case.name}-again.png")]
        linted = lint_figure_folder(own, outcome.folder / "figures")
        found[case.name] = tuple(finding for of_figure in linted.values() for finding in of_figure)
    return found


def build_report(cases: Iterable[Script], found: dict[str, tuple[LintFinding, ...]]) -> dict[str, Any]:
    """Return recall by kind, false alarms by kind and in total, refusals separately, and the misses."""
    good, faulty = [case for case in cases if not case.kind], [case for case in cases if case.kind]
    kinds: dict[str, dict[str, Any]] = {}
    for case in faulty:
        line = kinds.setdefault(case.kind, {"planted": 0, "found": 0, "alarms": 0})
        line["planted"] += 1
        line["found"] += any(one.kind == case.kind for one in found[case.name])
    alarms = [(case, one) for case in good for one in found[case.name]]
    for _, one in alarms:
        kinds.setdefault(one.kind, {"planted": 0, "found": 0, "alarms": 0})["alarms"] += 1
    for line in kinds.values():
        line["recall_interval"] = wilson_interval(line["found"], line["planted"])
        line["alarm_interval"] = wilson_interval(line["alarms"], len(good))
    hit = sum(line["found"] for line in kinds.values())
    wrong = {case.name for case, _ in alarms}
    refused = {case.name for case, one in alarms if one.severity == "refuse"}
    return {
        "recall": f"{hit}/{len(faulty)}",
        "recall_interval": wilson_interval(hit, len(faulty)),
        "false_alarms": f"{len(wrong)}/{len(good)}",
        "false_alarm_interval": wilson_interval(len(wrong), len(good)),
        "refused_good": f"{len(refused)}/{len(good)}",
        "refused_good_interval": wilson_interval(len(refused), len(good)),
        "by_kind": dict(sorted(kinds.items())),
        "missed": [
            {"case": case.name, "kind": case.kind, "findings": _finding_texts(found[case.name])}
            for case in faulty
            if not any(one.kind == case.kind for one in found[case.name])
        ],
        "alarmed": [{"case": case.name, "kind": one.kind, "finding": str(one)} for case, one in alarms],
        "other_findings": {
            case.name: others
            for case in faulty
            if (others := _finding_texts(one for one in found[case.name] if one.kind != case.kind))
        },
    }


def _finding_texts(found: Iterable[LintFinding]) -> list[str]:
    return [f"{one.kind}: {one}" for one in found]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--keep", type=Path, help="folder for the figures")
    arguments = parser.parse_args()
    chosen = scripts()
    with tempfile.TemporaryDirectory() as scratch:
        base = arguments.keep or Path(scratch)
        base.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(lint_figures(chosen, base))
    print_report(build_report(chosen, found), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
