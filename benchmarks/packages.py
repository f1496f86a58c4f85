"""Packages that a plan requests, from the plan to `reproduce`: seconds and megabytes, shared, and without a network.

python -m benchmarks.packages [--packages einops,msgspec] [--out FILE] [--runs DIR]

The offline model's plan requests the packages, which the user's list allows, and its programs import them; the rest
is a smaller `make demo`. Needs a package index (PyPI). Prints one JSON object; exits 1 if anything fails.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from benchmarks.report import list_settings, list_words, make_parser, print_report
from labwright.agent.cli import main as scientist
from labwright.models.offline import researcher
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.study_plan import PlanInputs
from labwright.record.event_log import RecordError, read_state
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan

ROOT = Path(__file__).resolve().parents[1]
SMALL = {
    "search.num_drafts": 1,
    "search.num_seeds": 2,
    "search.max_seeds": 2,
    "search.preliminary.nodes": 2,
    "search.tuning.nodes": 1,
    "search.agenda.nodes": 1,
    "search.agenda.num_seeds": 2,
    "search.ablation.nodes": 1,
    "search.ablation.num_seeds": 2,
    "paper.missing_ablations": 0,
    "paper.judge": False,
    "search.ladder": False,
}
LIMIT_SECONDS = 900.0
"""Time limit of one command in seconds."""


def run_importing(names: list[str], arguments: list[str]) -> int:
    """Run `scientist` with an offline model that requests these packages and imports them."""
    plan, code = researcher.ANSWER_FUNCTIONS["plan"], researcher.ANSWER_FUNCTIONS["code"]

    def asks(inputs: PlanInputs) -> DataPlan:
        return cast("DataPlan", plan(inputs)).model_copy(update={"packages": tuple(names)})

    def imports(inputs: CodeInputs) -> Program:
        made, lines = cast("Program", code(inputs)), "".join(f"import {name}\n" for name in names)
        return made.model_copy(
            update={
                "files": tuple(
                    one.model_copy(
                        update={"text": re.sub(r"^import numpy", f"{lines}import numpy", one.text, count=1, flags=re.M)}
                    )
                    for one in made.files
                )
            }
        )

    researcher.ANSWER_FUNCTIONS.update(plan=asks, code=imports)
    return scientist(arguments)


class PackageRuns:
    """Runs in one folder, with their own store."""

    def __init__(self, runs: Path, names: list[str]) -> None:
        self.runs, self.names = runs, names
        self.cache = runs / "cache"
        self.store = self.cache / "scientist" / "store"

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.packages", "--as", ",".join(self.names), *arguments],
            cwd=ROOT,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"XDG_CACHE_HOME": str(self.cache)} | variables,
        )

    def run_options(self, name: str) -> list[str]:
        idea, config = "examples/ideas/label_noise_calibration.json", "examples/demo.yaml"
        options = {"--idea": idea, "--config": config, "--runs": self.runs, "--name": name}
        return ["run", *list_words(options), *list_settings(SMALL | {"sandbox.allowed": self.names})]

    def run_timed(self, *arguments: str, **variables: str) -> dict[str, Any]:
        began = time.monotonic()
        out, err = (process := self.start(*arguments, **variables)).communicate(timeout=LIMIT_SECONDS)
        return {
            "exit": process.returncode,
            "seconds": round(time.monotonic() - began, 1),
            "said": [line for line in err.splitlines() if line][-2:],
            "end": out.splitlines()[-1:],
        }

    def kill_when(self, process: subprocess.Popen[str], name: str, far: Callable[[RunState], object]) -> RunState:
        """Kill a run as soon as its state fulfils `far`."""
        end = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < end and process.poll() is None:
            try:
                state = read_state(self.runs / name)
            except RecordError:
                time.sleep(0.1)
                continue
            if far(state):
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return state
            time.sleep(0.1)
        raise SystemExit(f"{name} did not get that far: {process.communicate()[1][-400:]}")

    def empty_store(self, *, all_of_it: bool = False) -> None:
        place = self.cache if all_of_it else self.store
        subprocess.run(["chmod", "-R", "u+w", str(place)], check=True)
        shutil.rmtree(place)


def measure_packages(bench: PackageRuns) -> dict[str, Any]:
    """Measure a run from plan to paper, a second one that shares packages, and a rebuild from the lock."""
    found: dict[str, Any] = {"packages": bench.names, "run": bench.run_timed(*bench.run_options("first"))}
    installed = read_state(bench.runs / "first").search.installed_packages
    assert installed is not None, found
    found["installed"] = {
        "megabytes": round(installed.bytes / 1e6, 2),
        "seconds": installed.seconds,
        "all": installed.packages,
    }
    second = bench.kill_when(
        bench.start(*bench.run_options("second")), "second", lambda state: state.search.installed_packages is not None
    ).search.installed_packages
    assert second is not None
    found["second run"] = {
        "seconds": second.seconds,
        "shared": second.shared,
        "same lock": second.sha256 == installed.sha256,
    }
    bench.empty_store()
    bench.kill_when(
        bench.start("resume", str(bench.runs / "second")),
        "second",
        lambda state: any(node.status == "good" or node.attempts for node in state.nodes.values()),
    )
    found["resumed on an empty store"] = any(bench.store.iterdir())
    again = ("reproduce", str(bench.runs / "first"), "--limit", "2")
    dead = {"UV_OFFLINE": "1", "PIP_CONFIG_FILE": os.devnull} | {
        name: "" for name in os.environ if name.startswith(("PIP_", "UV_INDEX"))
    }
    bench.empty_store(all_of_it=True)
    found["reproduced on an empty store"] = bench.run_timed(*again)
    found["reproduced from the store, without a network"] = bench.run_timed(*again, **dead)
    bench.empty_store(all_of_it=True)
    found["refused without store and network"] = bench.run_timed(*again, **dead)
    return found | {
        "good": (
            found["run"]["exit"] == 0
            and second.shared
            and second.sha256 == installed.sha256
            and [found[key]["exit"] for key in found if key.startswith(("reproduced", "refused"))] == [0, 0, 2]
        )
    }


def main() -> int:
    if sys.argv[1:2] == ["--as"]:
        return run_importing(sys.argv[2].split(","), sys.argv[3:])
    parser = make_parser(__doc__)
    parser.add_argument("--packages", default="einops,msgspec")
    parser.add_argument("--runs", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-packages-", ignore_cleanup_errors=True) as folder:
        runs = (args.runs or Path(folder)).absolute()
        runs.mkdir(parents=True, exist_ok=True)
        found = measure_packages(PackageRuns(runs, args.packages.split(",")))
    print_report(found, args.out)
    return 0 if found["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
