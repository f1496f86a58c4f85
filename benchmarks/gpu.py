"""Test the program on a real GPU through its command line, and write one report.

python -m benchmarks.gpu [--device cuda|cpu] [--minutes 8] [--only PART]... [--out FILE]

Parts run in order of importance until the minutes are over. The report is rewritten after each part, so an
interrupted run keeps its results. A part is `ok`, `failed` or `skipped`, with a reason and its figures. On the CPU
(`--device cpu`), the parts that apply there test this script. Exits 1 if a part failed. `benchmarks/gpu_carry.sh`
prepares a machine without network. Kernels, equal digits, bfloat16 and freed memory are the part `doctor`.

Not measured: several GPUs (`scientist doctor --gpu` tries two with nccl), MIG, other containers on the same GPU.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.gpu_study.model import ScriptedServer
from benchmarks.report import list_settings, list_words, make_parser, print_report, write_report

STUDY = Path(__file__).parent / "gpu_study"
PROGRAMS = STUDY / "programs"
MAX_OUTPUT_TAIL = 1500
"""Characters of a failed command's output that the report keeps."""
FREED_SHARE = 0.9
"""Share of the previously free memory that must be free again after a cell has ended."""


class PartFailed(Exception):
    """A part found a fault, described in the message."""


class PartSkipped(Exception):
    """A part does not apply here, for the reason in the message."""


@dataclass
class CommandResult:
    """A finished command."""

    code: int
    out: str
    err: str
    seconds: float

    def parse_json(self) -> Any:
        """Parse its output as JSON. Raises `PartFailed`."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise PartFailed(
                f"exit {self.code} without JSON output: {(self.out + self.err)[-MAX_OUTPUT_TAIL:]}"
            ) from None

    def expect_exit_code(self, *codes: int) -> CommandResult:
        """Return self. Raises `PartFailed` on any other exit code."""
        if self.code not in codes:
            raise PartFailed(f"exit {self.code}, expected {codes}: {(self.out + self.err)[-MAX_OUTPUT_TAIL:]}")
        return self


@dataclass
class GpuSampler:
    """Samples the first GPU with nvidia-smi; does nothing on the CPU."""

    on: bool
    samples: list[tuple[float, int, int, int]] = field(default_factory=list[tuple[float, int, int, int]])
    """Seconds, bytes used, compute processes, utilisation in percent."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def used_bytes(self) -> int:
        """Return the bytes used."""
        return self._sample()[1]

    def total_bytes(self) -> int:
        """Return the total bytes."""
        return int(_run_nvidia_smi("--query-gpu=memory.total")[0]) * 2**20

    def _sample(self) -> tuple[float, int, int, int]:
        words = _run_nvidia_smi("--query-gpu=memory.used,utilization.gpu")[0].split(",")
        processes = len(_run_nvidia_smi("--query-compute-apps=pid"))
        return time.monotonic(), int(words[0]) * 2**20, processes, int(words[1])

    def __enter__(self) -> GpuSampler:
        self.samples.clear()
        self._stop.clear()
        if self.on:
            threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(0.25):
            self.samples.append(self._sample())

    def count_busy_seconds(self, above: int) -> float:
        """Return the seconds in which more than `above` bytes were used."""
        return sum(
            after[0] - before[0]
            for before, after in zip(self.samples, self.samples[1:], strict=False)
            if before[1] > above
        )


def _run_nvidia_smi(*query: str) -> list[str]:
    ran = subprocess.run(
        ["nvidia-smi", *query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=30, check=True
    )
    return [line for line in ran.stdout.splitlines() if line.strip()]


class GpuParts:
    """The parts, in order of importance."""

    def __init__(self, device: str, base: Path, ends: float) -> None:
        self.device, self.base, self.ends = device, base, ends
        self.gpu = GpuSampler(device == "cuda")
        self.results: dict[str, Any] = {}
        self.program = _find_program()
        self.environment = os.environ | {
            "HF_HOME": str(base / "hf"),
            "HF_HUB_OFFLINE": "1",
            "OPENAI_API_KEY": "none",
            "COLUMNS": "200",
        }
        self.run_folder = base / "runs" / "study"

    def list_parts(self) -> dict[str, Callable[[], dict[str, Any]]]:
        return {
            "machine": self.describe_machine,
            "doctor": self.run_doctor,
            "study": self.run_study,
            "inside": self.check_inside,
            "leases": self.check_leases,
            "cells": self.check_cells,
            "fork": self.check_fork,
            "together": self.measure_sharing,
            "overhead": self.measure_overhead,
            "ablate": self.run_ablation,
            "hours": self.compare_gpu_hours,
        }

    # --- commands -----------------------------------------------------------------------------------------------------

    def seconds_left(self) -> float:
        return self.ends - time.monotonic()

    def start_scientist(self, *words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.program, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=self.environment,
            start_new_session=True,
        )

    def run_scientist(self, *words: str | Path, limit: float = 120.0) -> CommandResult:
        """Run a command of the program, killed at the limit or when the minutes are over."""
        return self.wait_for_end(self.start_scientist(*words), limit)

    def wait_for_end(self, process: subprocess.Popen[str], limit: float) -> CommandResult:
        began, cut = time.monotonic(), False
        try:
            out, err = process.communicate(timeout=min(limit, max(5.0, self.seconds_left())))
        except subprocess.TimeoutExpired:
            cut = True
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        seconds = time.monotonic() - began
        if cut and seconds < limit:
            raise PartSkipped(f"the minutes were over {seconds:.0f} s after it started")
        if cut:
            raise PartFailed(f"not finished after {seconds:.0f} s: {(out + err)[-MAX_OUTPUT_TAIL:]}")
        return CommandResult(process.returncode, out, err, seconds)

    def sandbox_options(self, more: Mapping[str, object] = MappingProxyType({})) -> list[str]:
        return list_settings({"sandbox.device": self.device, "sandbox.isolation": "auto", **more})

    def execute(
        self,
        program: str,
        *words: str | Path,
        limit: float = 120.0,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> tuple[CommandResult, dict[str, Any]]:
        """Run a program in the sandbox; return the command and its report."""
        ran = self.run_scientist(
            "exec", PROGRAMS / program, "--json", *self.sandbox_options(settings), *words, limit=limit
        )
        return ran, ran.parse_json()

    # --- parts --------------------------------------------------------------------------------------------------------

    def describe_machine(self) -> dict[str, Any]:
        """Describe the machine, and whether code can be sandboxed on it."""
        code = "import torch, transformers; print(torch.__version__, torch.version.cuda, transformers.__version__)"
        versions = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
        facts: dict[str, Any] = {
            "python": platform.python_version(),
            "torch_cuda_transformers": versions.stdout.split(),
            "cores": os.cpu_count(),
            "uid": os.getuid(),
            "kernel": platform.release(),
            "bubblewrap": bool(shutil.which("bwrap")),
        }
        if self.gpu.on:
            facts["gpus"] = _run_nvidia_smi("--query-gpu=name,memory.total,driver_version")
        report = self.run_scientist("doctor", "--json", *self.sandbox_options()).parse_json()
        facts["doctor"] = report
        return facts

    def run_doctor(self) -> dict[str, Any]:
        """Run every check of `doctor --gpu`."""
        out = self.base / "gpu-report.json"
        ran = self.run_scientist("doctor", "--gpu", "--out", out, *self.sandbox_options(), limit=240)
        if not self.gpu.on:
            if ran.code != 2 or out.exists():
                raise PartFailed(
                    f"without a GPU it must refuse with exit code 2, not {ran.code}: {ran.err[-MAX_OUTPUT_TAIL:]}"
                )
            raise PartSkipped(f"no GPU; refused as expected: {ran.err.strip()[-200:]}")
        report = json.loads(out.read_text())
        wrong = [one for one in report["checks"] if one["outcome"] == "failed"]
        if wrong or ran.code:
            raise PartFailed(f"exit {ran.code}: {json.dumps(wrong)[:MAX_OUTPUT_TAIL]}")
        return report

    def run_study(self) -> dict[str, Any]:
        """Run a study of three arms to its decision.

        It covers pretraining, cells, a run killed during a cell and resumed from its checkpoint, fresh seeds and
        test data.
        """
        hub = self.base / "hf" / "hub"
        hub.mkdir(parents=True)
        seconds = 20.0 if self.gpu.on else 10.0
        made = subprocess.run(
            [sys.executable, PROGRAMS / "pretrain.py", self.base, hub, self.device, str(seconds)],
            capture_output=True,
            text=True,
            timeout=seconds + 120,
            check=False,
        )
        if made.returncode:
            raise PartFailed(f"pretraining: {made.stderr[-MAX_OUTPUT_TAIL:]}")
        settings: Mapping[str, object] = {
            "search.ladder": False,
            "search.num_drafts": 1,
            "search.num_seeds": 0,
            "search.max_seeds": 5,
            "search.planned_ablations": 0,
            "search.tuning.nodes": 1,
            "search.preliminary.nodes": 3,
            "search.agenda.nodes": 1,
            "search.agenda.num_seeds": 3,
            "search.ablation.nodes": 1,
            "sandbox.pretrained": "check/sequences@v1",
            "sandbox.slots_per_gpu": 2,
            "sandbox.timeout": 240,
            "literature.sources": list[str](),
            "models.roles.vision.name": False,
            "paper.reflections": 0,
            "paper.judge": "false",
            "paper.missing_ablations": 0,
        } | ({"budget.gpu_hours": 2} if self.gpu.on else {})  # refused if no GPU is used
        with ScriptedServer() as server, self.gpu:
            before = self.gpu.used_bytes() if self.gpu.on else 0
            began = time.monotonic()
            running = self.start_scientist(
                "run",
                *list_words(
                    {
                        "--idea": STUDY / "idea.json",
                        "--plan": STUDY / "plan.yaml",
                        "--name": "study",
                        "--runs": self.base / "runs",
                        "--data": f"sequences={self.base / 'sequences.npz'}",
                        "--model": "openai-chat:scripted",
                        "--base-url": server.url,
                        "--workers": 2,
                        "--time-limit": "20m",
                    }
                ),
                *(["--gpus", "0"] if self.gpu.on else []),
                *self.sandbox_options(settings),
            )
            stopped = self._kill_the_run(running)
            resumed = (
                self.run_scientist("resume", self.run_folder, "--base-url", server.url, limit=400)
                if stopped
                else (self.wait_for_end(running, 400))
            )
            seconds = time.monotonic() - began
        resumed.expect_exit_code(0, 3, 4)  # 4: no paper without a writer
        status = self.run_scientist("status", self.run_folder, "--json").parse_json()
        logs = self.run_scientist("logs", self.run_folder).out
        printed = "\n".join(path.read_text(errors="replace") for path in self.run_folder.glob("cells/*/stdout.txt"))
        report = {
            "pretraining": json.loads(made.stdout),
            "seconds": round(seconds, 1),
            "run_killed_and_resumed": stopped,
            "exit_code": resumed.code,
            "cells": status["cells"],
            "decided": [
                line
                for line in self.run_scientist("status", self.run_folder).out.splitlines()
                if line.startswith("decided")
            ],
            "code_seconds": status["code_seconds"],
            "budget": status.get("budget"),
            "calls": dict(server.asked),
            "resumed_from_a_checkpoint": len(re.findall(r"RESUMED at epoch \d+", printed)),
            "used_before": before,
            "nvml_busy_seconds": round(self.gpu.count_busy_seconds(before + 2**28), 1),
            "mean_utilisation": _mean([one[3] for one in self.gpu.samples]),
        }
        if not report["decided"]:
            raise PartFailed(f"nothing was decided: {logs[-MAX_OUTPUT_TAIL:]} {json.dumps(report)[:MAX_OUTPUT_TAIL]}")
        if stopped and not report["resumed_from_a_checkpoint"]:
            raise PartFailed(f"no cell resumed from its checkpoint: {json.dumps(report)[:MAX_OUTPUT_TAIL]}")
        if self.gpu.on and "PEAK" not in printed:
            raise PartFailed(f"no cell used the GPU: {printed[-MAX_OUTPUT_TAIL:]}")
        return report

    def _kill_the_run(self, running: subprocess.Popen[str]) -> bool:
        """Kill the whole program once a cell has left a checkpoint; return whether there was one."""
        until = time.monotonic() + min(150.0, self.seconds_left())
        while time.monotonic() < until and running.poll() is None:
            if next(self.run_folder.glob("**/checkpoints/[!.]*"), None) is not None:
                os.kill(running.pid, signal.SIGKILL)
                running.communicate()
                return True
            time.sleep(0.02)
        return False

    def check_inside(self) -> dict[str, Any]:
        """Check devices, /dev/shm, NVML, pinned memory and data loaders inside the sandbox."""
        facts: dict[str, Any] = {}
        for isolation in ("auto", "none"):
            _, report = self.execute("inside.py", settings={"sandbox.isolation": isolation})
            found = re.search(r"SEEN (\{.*\})", report["stdout_tail"])
            if report["failure"] or found is None:
                raise PartFailed(
                    f"isolation {isolation}: {json.dumps(report['failure'])} {report['stdout_tail'][-MAX_OUTPUT_TAIL:]}"
                )
            facts[report["isolation"]] = json.loads(found[1]) | {
                "peak_gpu_bytes": report["peak_gpu_bytes"],
                "seconds": report["seconds"],
            }
            seen = facts[report["isolation"]]
            if self.gpu.on and (seen.get("sum") != 499500.0 or seen["loader"] != 8386560.0):
                raise PartFailed(f"isolation {isolation}: {json.dumps(seen)}")
        return facts

    def check_leases(self) -> dict[str, Any]:
        """Check that the program waits for a full GPU with a one-line message, and that two of its runs take turns."""
        if not self.gpu.on:
            raise PartSkipped("no GPU")
        holder = subprocess.Popen(
            [sys.executable, PROGRAMS / "hold.py", "0.97", "60"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert holder.stdout is not None
            if holder.stdout.readline() != "held\n":
                raise PartFailed("the holder process could not allocate the memory")
            busy = self.sandbox_options({"sandbox.gpu_free_gb": 8, "sandbox.gpu_wait": 5})
            ran = self.run_scientist("exec", PROGRAMS / "bare.py", "--json", *busy)
            if ran.code == 0:
                raise PartFailed("an experiment was started on a GPU whose memory another process holds")
            refused = ran.err.strip()
        finally:
            holder.kill()
            holder.wait()
        words = ["--json", *self._cell_options("busy"), *self.sandbox_options()]
        began = time.monotonic()
        pair = [self.start_scientist("exec", PROGRAMS / "cells.py", *words) for _ in range(2)]
        ends = [self.wait_for_end(one, 120).expect_exit_code(0).parse_json()["seconds"] for one in pair]
        wall = time.monotonic() - began
        return {
            "refused": refused[-300:],
            "refusal_seconds": ran.seconds,
            "two_runs_wall": wall,
            "two_runs_each": ends,
            "took_turns": wall > 1.8 * min(ends),
        }

    def check_cells(self) -> dict[str, Any]:
        """Check that a cell that uses all memory and one that is killed fail alone.

        The next cell must be measured, and the memory freed.
        """
        before = self.gpu.used_bytes() if self.gpu.on else 0
        more: dict[str, object] = {} if self.gpu.on else {"sandbox.memory_gb": 2.5}
        ran, report = self.execute("cells.py", *self._cell_options("memory,dies,ok"), limit=180, settings=more)
        outcomes = {
            one["cell"]["arm"] if isinstance(one["cell"], dict) else str(one["cell"]): (
                one["outcome"],
                one["why"][:160],
            )
            for one in report["cells"]
        }
        states = [outcome for outcome, _ in outcomes.values()]
        if sorted(states) != ["failed", "failed", "measured"]:
            raise PartFailed(f"outcomes: {json.dumps(outcomes)} {report['stdout_tail'][-MAX_OUTPUT_TAIL:]}")
        facts: dict[str, Any] = {"outcomes": outcomes, "seconds": ran.seconds}
        if self.gpu.on:
            time.sleep(1.0)
            after = self.gpu.used_bytes()
            facts |= {"used_before": before, "used_after": after}
            if after - before > (1 - FREED_SHARE) * self.gpu.total_bytes():
                raise PartFailed(f"memory was not freed: {json.dumps(facts)}")
        return facts

    def check_fork(self) -> dict[str, Any]:
        """Check that forking after CUDA was used fails with that message instead of hanging, and the next cell is
        measured.
        """
        _, report = self.execute("cells.py", *self._cell_options("forks,ok"), limit=150)
        outcomes = [(one["outcome"], one["why"][:200]) for one in report["cells"]]
        if outcomes[1][0] != "measured" or (self.gpu.on and outcomes[0][0] != "failed"):
            raise PartFailed(f"outcomes: {outcomes} {report['stdout_tail'][-MAX_OUTPUT_TAIL:]}")
        return {"outcomes": outcomes}

    def measure_sharing(self) -> dict[str, Any]:
        """Measure cells that share one device against sequential cells."""
        words = [*self._cell_options("busy"), *self.sandbox_options({"sandbox.slots_per_gpu": 2})]

        def steps(count: int) -> list[int]:
            running = [self.start_scientist("exec", PROGRAMS / "cells.py", "--json", *words) for _ in range(count)]
            return [
                int(
                    re.findall(
                        r"STEPS \S+ (\d+)", self.wait_for_end(one, 150).expect_exit_code(0).parse_json()["stdout_tail"]
                    )[0]
                )
                for one in running
            ]

        alone, pair = steps(1), steps(2)
        return {"steps_alone": alone[0], "steps_of_two": pair, "gain": sum(pair) / alone[0]}

    def measure_overhead(self) -> dict[str, Any]:
        """Measure a script in the sandbox against the bare interpreter, and the overhead per cell."""
        bare: list[float] = []
        ours: list[float] = []
        for _ in range(3):
            began = time.monotonic()
            subprocess.run([sys.executable, PROGRAMS / "bare.py"], capture_output=True, timeout=120, check=True)
            bare.append(time.monotonic() - began)
            ran, report = self.execute("bare.py")
            ran.expect_exit_code(0)
            ours.append(ran.seconds)
        cells = ",".join(f"ok{number}" for number in range(8))
        ran, report = self.execute("cells.py", *self._cell_options(cells), limit=180)
        if any(one["outcome"] != "measured" for one in report["cells"]):
            raise PartFailed(json.dumps(report["cells"])[:MAX_OUTPUT_TAIL])
        return {
            "bare_seconds": bare,
            "exec_seconds": ours,
            "ratio": min(ours) / min(bare),
            "eight_cells_seconds": ran.seconds,
            "their_code_seconds": [one["seconds"] for one in report["cells"]],
        }

    def run_ablation(self) -> dict[str, Any]:
        """Reproduce a generated repository on the device, and ablate its parts."""
        if shutil.which("git") is None:
            raise PartSkipped("no git")
        repository = self.base / "repository"
        repository.mkdir()
        shutil.copy(PROGRAMS / "train.py", repository / "train.py")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
            subprocess.run(
                ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words],
                cwd=repository,
                check=True,
                timeout=30,
                capture_output=True,
            )
        ran = self.run_scientist(
            "ablate",
            repository,
            "--json",
            *list_words(
                {
                    "--command": "python train.py --seed {seed} --device {device}",
                    "--metric": "metrics.json:r2",
                    "--out": self.base / "ablated",
                    "--budget-runs": 14,
                    "--python": sys.executable,
                }
            ),
            *(["--gpus", "0"] if self.gpu.on else []),
            *self.sandbox_options(),
            limit=240,
        )
        ran.expect_exit_code(0, 5)
        report = ran.parse_json()
        return {"exit_code": ran.code, "seconds": ran.seconds, "report": report}

    def compare_gpu_hours(self) -> dict[str, Any]:
        """Compare the GPU-hours that the study charged with those that NVML counted."""
        if not self.gpu.on:
            raise PartSkipped("no GPU")
        if not self.run_folder.exists():
            raise PartSkipped("the study did not run")
        study = self.results["study"]["figures"]
        booked = study["budget"]["spent"]["gpu_seconds"] if study.get("budget") else None
        return {
            "booked_gpu_seconds": booked,
            "nvml_busy_seconds": study["nvml_busy_seconds"],
            "code_seconds": study["code_seconds"],
        }

    def _cell_options(self, cells: str) -> list[str]:
        """Return the options that run cells of `cells.py` on a small dataset."""
        path = self.base / "small.npz"
        if not path.exists():
            code = (
                "import sys, numpy as np; r = np.random.default_rng(0); "
                "np.savez(sys.argv[1], x=r.integers(0, 50, (400, 16)), y=r.integers(0, 2, 400))"
            )
            subprocess.run([sys.executable, "-c", code, path], timeout=60, check=True)
        return list_words({"--cells": cells, "--on": "sequences", "--data": f"sequences={path}"})


def _find_program() -> list[str]:
    """Return the installed command, next to the interpreter or on the PATH."""
    installed = Path(sys.executable).with_name("scientist")
    found = str(installed) if installed.exists() else shutil.which("scientist")
    if found is None:
        raise SystemExit("benchmarks.gpu: the command `scientist` was not found: install the project first")
    return [found]


def _mean(values: list[int]) -> float | None:
    return round(statistics.fmean(values), 1) if values else None


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--only", action="append", default=[], help="run only this part; may be repeated")
    given = parser.parse_args(arguments)
    ends = time.monotonic() + 60 * given.minutes
    report: dict[str, Any] = {"device": given.device, "minutes": given.minutes, "parts": {}}
    with tempfile.TemporaryDirectory(prefix="scientist-gpu-", ignore_cleanup_errors=True) as base:
        checks = GpuParts(given.device, Path(base), ends)
        checks.results = report["parts"]
        known = checks.list_parts()
        if odd := set(given.only) - set(known):
            parser.error(f"--only {sorted(odd)[0]}: the parts are {', '.join(known)}")
        for name, part in known.items():
            if given.only and name not in given.only:
                continue
            report["parts"][name] = one = _run_part(part, ends)
            line = f"{name}: {one['outcome']} in {one['seconds']} s {one.get('why', '')}"
            print(line[:400], file=sys.stderr, flush=True)
            if given.out is not None:
                write_report(report, given.out)
    print_report(report, given.out)
    return 1 if any(one["outcome"] == "failed" for one in report["parts"].values()) else 0


def _run_part(part: Callable[[], dict[str, Any]], ends: float) -> dict[str, Any]:
    began = time.monotonic()
    result: dict[str, Any] = {"outcome": "ok"}
    try:
        if ends - began < 15:
            raise PartSkipped("the minutes are over")
        result["figures"] = part()
    except PartSkipped as skipped:
        result |= {"outcome": "skipped", "why": str(skipped)}
    except Exception as error:  # noqa: BLE001  one part that breaks must not hide the others
        why = str(error) if isinstance(error, PartFailed) else f"{type(error).__name__}: {error}"
        result |= {"outcome": "failed", "why": why}
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


if __name__ == "__main__":
    sys.exit(main())
