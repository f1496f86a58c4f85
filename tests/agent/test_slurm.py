"""The recipe for SLURM, its commands scripted: what it starts where, how it resumes, and what it leaves to SLURM.

It was also tried on Debian's slurm 22.05 with two nodes on one machine (docs/hardware.md)."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from labwright.agent.cli import main, slurm

SCRIPT = Path(__file__).parents[2] / "examples" / "slurm" / "run.sbatch"
NOTES = 'echo "$(basename "$0") $*" >>"$NOTED"\n'
COMMANDS = {
    "scientist": 'case "$1" in run) exit ${FIRST:-130};; *) exit 0;; esac\n',
    "scontrol": '[ "$1" = show ] && printf "n1\\nn2\\n"\nexit 0\n',
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done\n[ "$1" = hostname ] && echo "127.0.0.1 ::1" || exec "$@"\n',
    "ray": '[ "$1" = status ] && grep "^ray start" "$NOTED" | sed "s/.*/ 1 node_/"\n'
    '[ "$1" = start ] && [ "$3" != "" ] && exec python3 -c "$LISTEN" "$@"\nexit 0\n',
    "apptainer": 'while [ "$1" != "$IMAGE" ]; do shift; done; shift; exec "$@"\n',
}
LISTEN = """
import socket, sys, time
words = sys.argv[1:]
if "--head" in words:
    held = socket.create_server(("127.0.0.1", int(words[words.index("--port") + 1])))
    time.sleep(20)
"""


class Job:
    """Runs the recipe as SLURM would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.noted = folder, folder / "noted"
        for name, body in COMMANDS.items():
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/bash\n{NOTES}{body}")
            path.chmod(0o755)

    def run(self, *words: str, **variables: str) -> int:
        self.noted.write_text("")
        ran = subprocess.run(
            ["bash", SCRIPT, *words],
            cwd=self.folder,
            timeout=600,
            check=False,
            capture_output=True,
            env={
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self.folder),
                "NOTED": str(self.noted),
                "LISTEN": LISTEN,
                **({"SLURM_JOB_ID": str(os.getpid())} | variables),
            },
        )
        return ran.returncode

    def called(self, name: str) -> list[str]:
        return [
            line.removeprefix(f"{name} ") for line in self.noted.read_text().splitlines() if line.startswith(f"{name} ")
        ]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    for name in ("a", "b"):
        (tmp_path / "ideas").mkdir(exist_ok=True)
        (tmp_path / "ideas" / f"{name}.json").write_text("{}")
    return Job(tmp_path)


def test_a_run_that_stopped_before_the_end_is_put_back_and_resumed(job: Job) -> None:
    assert job.run("ideas/a.json", "mine", "--workers", "3") == 130
    assert job.called("scientist") == ["run --idea ideas/a.json --runs runs --name mine --workers 3"]
    assert job.called("scontrol") == [f"requeue {os.getpid()}"]
    (job.folder / "runs" / "mine").mkdir()
    (job.folder / "runs" / "mine" / "events.jsonl").write_text("")
    assert job.run("ideas/a.json", "mine", "--workers", "3") == 0
    assert job.called("scientist") == ["resume runs/mine"] and not job.called("scontrol")


def test_an_array_takes_the_ideas_of_a_folder(job: Job) -> None:
    of_array = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_JOB_ID": "7", "SLURM_JOB_ID": "7"}
    assert job.run("ideas", "many", FIRST="4", **of_array) == 4
    assert job.called("scientist") == ["run --idea ideas/b.json --runs runs --name many-b"]
    assert job.run("ideas", "many", **of_array) == 130
    assert job.called("scontrol") == ["requeue 7_1"], "7 is the whole array to SLURM"


def test_on_several_nodes_ray_is_started_on_each(job: Job) -> None:
    assert (
        job.run(
            "ideas/a.json",
            "mine",
            SLURM_JOB_NUM_NODES="2",
            SLURM_JOB_NODELIST="n[1-2]",
            SLURM_CPUS_PER_TASK="4",
            FIRST="0",
        )
        == 0
    )
    port = 20000 + os.getpid() % 20000
    starts = [line for line in job.called("ray") if line.startswith("start")]
    assert len(starts) == 2 and all("--num-cpus 4" in one for one in starts)
    assert f"--head --port {port} --include-dashboard=false" in starts[0]
    assert f"--address 127.0.0.1:{port}" in starts[1] and "--head" not in starts[1]
    assert "get-auth-token --generate" in job.called("ray")
    [run] = job.called("scientist")
    assert run.endswith(f"--ray 127.0.0.1:{port}")


def test_in_an_image_experiments_may_run_without_walls(job: Job) -> None:
    assert job.run("ideas/a.json", "mine", IMAGE="some.sif", SLURM_JOB_GPUS="0", FIRST="0") == 0
    [inside] = job.called("apptainer")
    assert "--containall" in inside and " --nv " in inside and f"--bind {job.folder}/runs" in inside
    assert job.called("scientist") == ["run --idea ideas/a.json --runs runs --name mine --set sandbox.isolation=auto"]


# --- from a login node ------------------------------------------------------------------------------------------------


@pytest.fixture
def login(job: Job, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A login node with scripted commands of SLURM and Ray; `JOINED` nodes have joined."""
    scripts = {
        "sbatch": 'echo "7;here"\n',
        "squeue": '[ -n "${QUEUED:-}" ] && echo "PENDING (Resources)"\nexit 0\n',
        "scancel": "exit 0\n",
        "ray": '[ "$1" = status ] && for n in $(seq 0 $JOINED); do echo " 1 node_$n"; done\n'
        '[ "$1" = start ] && exec python3 -c "$SERVE" "$@"\nexit 0\n',
    }
    for name, body in scripts.items():
        path = job.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{NOTES}{body}")
        path.chmod(0o755)
    job.noted.write_text("")
    serve = "import socket, sys, time\nport = sys.argv[-1].removeprefix('--port=')\n"
    monkeypatch.setenv("SERVE", f"{serve}held = socket.create_server(('127.0.0.1', int(port)))\ntime.sleep(60)\n")
    monkeypatch.setenv("PATH", f"{job.folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("NOTED", str(job.noted))
    monkeypatch.setenv("JOINED", "2")
    monkeypatch.setattr(slurm, "RAY", job.folder / "bin" / "ray")
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.05)
    monkeypatch.chdir(job.folder)
    return job


WORDS = ("cluster", "slurm", "--nodes", "2", "--gpus", "1", "--address", "127.0.0.1")


@pytest.mark.slow
def test_a_command_runs_on_workers_that_are_released(login: Job, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--partition", "gpu", "--sbatch", "--account=lab", "--", "run", "--idea", "none.json"]) == 2
    assert "cannot read the idea file none.json" in capfd.readouterr().err, "the command ran, and its exit code is kept"
    [submitted] = login.called("sbatch")
    assert "--array=1-2" in submitted and "--requeue" in submitted and "--gpus-per-node=1" in submitted
    assert "--partition=gpu --account=lab" in submitted and login.called("scancel") == ["7"]
    worker, token = login.folder / "runs/slurm/worker.sh", login.folder / "runs/slurm/ray_token"
    [head] = [one for one in login.called("ray") if one.startswith("start --head")]
    port = head.rpartition("--port=")[2]
    assert f"--address=127.0.0.1:{port}" in worker.read_text() and token.stat().st_mode & 0o077 == 0
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(port)), timeout=1)


@pytest.mark.slow
def test_what_waits_and_what_ended_is_said(
    login: Job, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOINED", "1")
    assert main([*WORDS, "--", "run", "--idea", "none.json"]) == 2
    assert "the jobs of the workers ended before they joined" in capfd.readouterr().err
    monkeypatch.setenv("QUEUED", "1")
    assert main([*WORDS, "--wait-hours", "0.0001", "--", "run", "--idea", "none.json"]) == 2
    said = capfd.readouterr().err
    assert (
        "1 of 2 nodes joined; the queue: PENDING (Resources)" in said
        and "not all nodes joined within 0.0001 hours" in said
    )
    assert login.called("scancel") == ["7", "7"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status", "r"), "'status' does not run on a cluster"),
        (("run", "--ray", "auto"), "leave out --ray"),
        (("run",), "sbatch is not on the PATH"),
    ],
)
def test_what_cannot_run_on_slurm_is_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["cluster", "slurm", "--", *words]) == 2
    assert said in capsys.readouterr().err
