"""`scientist ablate` from a repository to its report, by real processes: found, killed and taken up, refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.record.event_log import read_state
from labwright.record.lock import describe_process
from labwright.record.run_folder import RunFolder
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from tests.agent.test_authored_ablation import record, use
from tests.command_line import run_scientist
from tests.repositories import FILES, make_repository, run_git
from tests.test_first_day import read_example

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]
COMMAND = ("--command", "python train.py --seed {seed}")
METRIC = (*COMMAND, "--metric", "metrics.json:test.r2")


def ablate(*words: object) -> subprocess.CompletedProcess[str]:
    return run_scientist("ablate", *words, "--workers", 2)


def told(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "ablations.json").read_text())


def test_the_parts_that_carry_a_result_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "my_repository")
    monkeypatch.chdir(tmp_path)
    ran = run_scientist(*read_example("ablate"), "--expect", "0.99±0.01", "--top", 2)
    assert ran.returncode == 0, ran.stderr
    out = tmp_path / "ablated"
    found = told(out)
    assert found["baseline"]["verdict"] == "reproduced" and found["baseline"]["same_seed"] == "same digits"
    results = {one["part"]: one for one in found["ablations"]["results"]}
    assert found["ablations"]["top"] == ["tilt", "bend"]
    assert results["tilt"]["called"] == "critical" and results["tilt"]["n"] == 5 and results["tilt"]["mean"] > 0.4
    assert results["shift+twist"]["called"] == "critical" and results["shift"]["mean"] < 0.01
    assert results["centre"]["called"] in ("no measurable difference", "no effect")
    assert not any("banner" in part for run in found["runs"] for part in run["parts"])
    assert len(found["runs"]) <= 7 * 6 + 29
    report = (out / "report.md").read_text()
    assert "| tilt | tilt returns zeros | tinyfit/features.py:4 | 5 |" in report
    assert "How parts were chosen: without a language model" in report and "Terms of a loss" in report
    key = "diff/my_repository/test.r2/baseline~without-tilt.mean"
    value = next(line for line in (out / "results.tex").read_text().splitlines() if key in line).rpartition("{")[2][:-1]
    assert rf"\result{{{key}}}" in (out / "section.tex").read_text()
    traced = run_scientist("trace", out, value)
    assert traced.returncode == 0 and f"{key.removesuffix('.mean')}: mean" in traced.stdout
    patch = re.search(r"code +(nodes/\S+/arms/without_tilt\.diff):1", traced.stdout)
    assert patch is not None and "+    return _taken_out([x[:, 0]])" in (out / patch[1]).read_text()
    assert "train.py:40: json.dump(" in traced.stdout
    whole = run_scientist("trace", out, value, "--json")
    assert len(set(re.findall(r"cells/[^/\s\"]+-0\b", whole.stdout))) == 10
    nodes = read_state(out).nodes
    assert {one["node"] for one in found["runs"]} == {*nodes}
    tilt = nodes[results["tilt"]["node"]]
    assert tilt.kind == "ablate" and tilt.parent == found["baseline"]["node"]
    assert sorted(one.seed for one in nodes.values() if one.parent == tilt.id) == [*range(1000, 1005)]


def test_a_killed_study_goes_on_without_repeating_a_run(tmp_path: Path) -> None:
    code, out = make_repository(tmp_path / "tinyfit"), tmp_path / "out"
    words = (code, *METRIC, "--top", 1, "--budget-runs", 24, "--out", out)
    RunFolder(out).create_folders()  # what a kill in its first instants leaves
    (out / "code" / "mirror").mkdir(parents=True)
    (out / "lock").write_text(describe_process().model_dump_json())
    kills = 0
    for wait in (2.5, 2.8):
        process = subprocess.Popen(
            [sys.executable, "-m", "labwright", "ablate", *map(str, words), "--workers", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills and ablate(*words).returncode == 0
    runs = told(out)["runs"]
    assert len({run["id"] for run in runs}) == len(runs) <= 25
    assert told(out)["ablations"]["top"] == ["tilt"] and not (out / "work").exists()
    assert ablate(*words).returncode == 0 and told(out)["runs"] == runs


def test_an_author_repairs_what_does_not_run(tmp_path: Path) -> None:
    files = {f"src/{name}" if name.startswith("tinyfit") else name: text for name, text in FILES.items()}
    features = "src/tinyfit/features.py"
    files[features] = "from collections import Iterable\n\n" + FILES["tinyfit/features.py"]
    files["requirements.txt"] = "numpy==1.21.6\n"
    code, out = make_repository(tmp_path / "old", files), tmp_path / "out"
    ran = ablate(code, *METRIC, "--reproduce-only", "--out", out)
    found = told(out)
    assert ran.returncode == 5 and "No module named 'tinyfit'" in found["baseline"]["why"], (
        "the offline model repairs none"
    )
    assert found["command"]["command"]["argv"] == ["python", "train.py", "--seed", "{seed}"] and not found["repairs"]
    words = ["python", "train.py", "--seed", "{seed}"]
    model = record(
        tmp_path / "exchange.jsonl",
        use("edit", path=features, old="from collections import", new="from collections.abc import"),
        use(
            "hand_in",
            words=words,
            env={"PYTHONPATH": "src"},
            metric="metrics.json:test.r2",
            direction="max",
            reasons="Iterable was moved",
        ),
    )
    out = tmp_path / "repaired"
    ran = ablate(code, *METRIC, "--reproduce-only", "--model", model, "--out", out)
    assert ran.returncode == 0, ran.stderr
    found = told(out)
    assert ["No module named 'tinyfit'" in one["failure"] for one in found["repairs"]] == [True]
    assert found["environment"]["deviations"][0]["wanted"] == "numpy==1.21.6"
    assert found["baseline"]["verdict"] == "unchecked" and found["ablations"] is None
    commit = next(one["commit"] for one in reversed(found["repairs"]) if one["commit"])
    shown = subprocess.run(
        ["git", "--git-dir", str(out / "code" / "mirror"), "log", "--format=%s", commit],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.startswith("Iterable was moved")


def test_another_result_than_expected_ends_with_findings(tmp_path: Path) -> None:
    out = tmp_path / "out"
    limits = ("--top", 1, "--budget-runs", 16)
    asked = [make_repository(tmp_path / "tinyfit"), *METRIC, "--expect", "0.5±0.01", *limits, "--out", out]
    ran = ablate(*asked)
    assert ran.returncode == 5 and "--accept-baseline" in ran.stdout
    assert told(out)["baseline"]["verdict"] == "differs" and told(out)["ablations"] is None
    before = {*read_state(out).cells}
    ran = ablate(*asked, "--accept-baseline")
    assert ran.returncode == 0 and told(out)["ablations"]["results"], ran.stderr
    assert before < {*read_state(out).cells}, "the baseline is not run again"


COARSE = {
    "train.py": FILES["train.py"].replace(
        'parser.add_argument("--verbose"', 'parser.add_argument("--note")\nparser.add_argument("--verbose"'
    )
    + ("print('r2', 5 * round(20 * float(1 - (rest ** 2).mean() / y[300:].var())), '% of', opts.note)\n")
}


def test_a_coarse_metric_is_judged_on_fresh_seeds_and_every_printed_number_is_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = make_repository(tmp_path / "tinyfit", FILES | COARSE), tmp_path / "out"
    metric, given = "stdout:r2 ([0-9]+) % of a b", "python train.py --seed {seed} --note 'a b'"
    ran = ablate(code, "--metric", metric, "--command", given, "--top", 1, "--budget-runs", 60, "--out", out)
    assert ran.returncode == 0, ran.stderr
    found, report = told(out), (out / "report.md").read_text()
    assert (
        f"\n    {given}\n" in report
        and "Named by the user.\nMetric" in report
        and "command (given by you): python" in ran.stdout
    )
    assert (
        "3 seeds gave the same value, 100.0: the seed has no effect, or an effect below the metric's resolution"
        in (found["baseline"]["why"])
    )
    rows = found["ablations"]["results"]
    results = {one["part"]: one for one in rows}
    assert results["tilt"]["n"] == 5 and results["tilt"]["called"] == "critical"
    assert all(one["fresh"] for one in rows if one["called"] != "not measured"), "what the budget had left is used"
    assert not any(one["called"] == "no effect" and one["mean"] for one in rows)
    sizes = [abs(one["mean"]) for one in rows if one["mean"] is not None]
    assert sizes == sorted(sizes, reverse=True) and found["ablations"]["top"] == ["tilt"]
    section, values = (out / "section.tex").read_text(), (out / "results.tex").read_text()
    keys = set(re.findall(r"\\result\{([^}]*)\}", section))
    assert keys and all(re.fullmatch(r"[\w:./@+~-]+", key) and f"{{{key}}}" in values for key in keys)
    assert section.count("%") == section.count(r"\%") + 1  # the comment
    printed = [
        number
        for line in report.splitlines()
        if line.startswith("| ") and "| 5 |" in line
        for cell in line.split("|")[5:8]
        for number in re.findall(r"[-+]?\d[\d.e%-]*", cell)
    ]
    mean = re.search(r"mean ([\d.]+)", report)
    assert len(printed) > 10 and mean is not None
    for number in {*printed, mean[1]}:
        assert main(["trace", str(out), "--json", "--", number]) == 0, number
        (first, *_) = json.loads(capsys.readouterr().out)["candidates"]
        assert first["places"] and first["code"] and all(one["cell"] and one["files"] for one in first["origins"]), (
            first
        )


def test_a_repository_without_parts_says_so_and_a_seed_that_is_not_given_is_told(tmp_path: Path) -> None:
    code = make_repository(
        tmp_path / "code",
        {
            "run.py": (
                "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--seed', type=int, "
                "default=0)\n"
                "print('value', 0.5 + parser.parse_args().seed)\n"
            )
        },
    )
    ran = ablate(code, "--metric", "stdout:value ([0-9.]+)", "--command", "python run.py", "--out", tmp_path / "out")
    report = (tmp_path / "out" / "report.md").read_text()
    assert ran.returncode == 5 and "nothing was ablated: the offline model found no part" in ran.stdout
    assert "**Nothing was ablated**: the offline model found no part" in report and "| part |" not in report
    assert (
        "no seed is set, although the command accepts --seed {seed}" in report and "No seed can be given" not in report
    )


BREAKING = {
    "README.md": "    python train.py --seed 0\n",
    "train.py": """import argparse
import json

import numpy as np


def simulate(x):
    return np.sin(2 * x) + 0.3 * x ** 2


def scale(x):
    return x / np.abs(x).max()


def wide(x):
    return np.concatenate([x, x ** 3], 1)


def rate(it):
    return 0.5 / (1 + it / 50)


def narrow(x):
    return x / 30


def step(w, grad, lr):
    return w - lr * grad


def mse(p, y):
    return float(((p - y) ** 2).mean())


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
rng = np.random.default_rng(parser.parse_args().seed)
x = narrow(rng.uniform(-36, 36, (200, 1)))
y = simulate(x)
w = np.zeros((2, 1))
for it in range(200):
    F = wide(scale(x[:100]))
    w = step(w, F.T @ (F @ w - y[:100]) / 100, rate(it))
json.dump({"loss": mse(wide(scale(x[100:])) @ w, y[100:])}, open("metrics.json", "w"))
""",
}


def test_what_breaks_the_program_or_makes_what_is_scored_is_told_and_not_ranked(tmp_path: Path) -> None:
    code, out = make_repository(tmp_path / "code", BREAKING), tmp_path / "out"
    ran = ablate(
        code, *COMMAND, "--metric", "metrics.json:loss", "--direction", "min", "--budget-runs", 20, "--out", out
    )
    assert ran.returncode == 0, ran.stderr
    settled = told(out)["ablations"]
    called = {one["part"]: one["called"] for one in settled["results"]}
    assert called["simulate"] == "changes what is scored" and called["narrow"] == "breaks the program", called
    assert not {"simulate", "narrow", "rate"} & {*settled["top"]} and "rate" not in called
    assert not any(one["n"] > 1 for one in settled["results"] if one["part"] in ("simulate", "narrow"))
    assert (
        re.search(r"without narrow: \S+, n = 1: breaks the program", ran.stdout)
        and re.search(r"^baseline unchecked: mean \S+", ran.stdout, re.MULTILINE)
        and (settled["stopped"] or "without") in ran.stdout
        and "| breaks the program (seen in the search) |" in (out / "report.md").read_text()
    )


@pytest.mark.parametrize(
    ("change", "words", "line"),
    [
        ("", (), "the offline model reads no documents: give --command and --metric"),
        ("", ("--metric", "metrics.txt"), "cannot read the metric 'metrics.txt'"),
        ("", (*METRIC, "--expect", "abc"), "cannot read the expected result 'abc'"),
        ("", (*METRIC, "--mount", "x"), "code.mounts' (on the command line): 'x': write NAME=VALUE"),
        ("", (*METRIC, "--mount", "x=nowhere"), "which does not exist"),
        ("", (*METRIC, "--python", "/no/such"), "is neither an interpreter"),
        ("", (*METRIC, "--command", "python 'train.py"), "is not a valid command line"),
        (
            "",
            (*METRIC, "--command", "python nope.py --name 'a b'"),
            "there is no nope.py in the repository; it contains",
        ),
        ("", (*METRIC, "--budget-runs", "3"), "should be greater than or equal to 8, not 3"),
        ("dirty", METRIC, "has uncommitted changes (train.py)"),
        ("empty", METRIC, "is not a git repository"),
        ("", METRIC[2:], "the offline model reads no documents: give --command"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, change: str, words: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change in ("empty",):
        code = tmp_path / "code"
        code.mkdir()
    else:
        code = make_repository(tmp_path / "code")
    if change == "dirty":
        (code / "train.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    ran = ablate(code, *words, "--runs", tmp_path / "runs")
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1 and line in ran.stderr, ran.stderr
    assert not any((tmp_path / "runs").glob("*")), list((tmp_path / "runs").rglob("*"))


@pytest.mark.parametrize(
    ("edit", "words", "verdict", "why"),
    [
        (('"metrics.json"', '"other.json"'), METRIC, "failed", "no such file: metrics.json"),
        (
            ("rng = np.random.default_rng(opts.seed)", "rng = np.random.default_rng(4)"),
            METRIC,
            "unchecked",
            "3 seeds gave the same value",
        ),
        (
            ("import argparse\n", "import argparse\nimport time\ntime.sleep(30)\n"),
            (*METRIC, "--timeout", "1s"),
            "failed",
            "the wall-clock limit of 1 s was reached",
        ),
        (
            ("import argparse\n", "import argparse\nopen('/usr/lib/x', 'w')\n"),
            METRIC,
            "failed",
            "Read-only file system",
        ),
    ],
)
def test_what_cannot_be_reproduced_is_told(
    tmp_path: Path, edit: tuple[str, str], words: tuple[str, ...], verdict: str, why: str
) -> None:
    code = make_repository(tmp_path / "code", FILES | {"train.py": FILES["train.py"].replace(*edit)})
    ran = ablate(code, *words, "--reproduce-only", "--out", tmp_path / "out")
    found = told(tmp_path / "out")["baseline"]
    assert (found["verdict"], ran.returncode) == (verdict, 5 if verdict == "failed" else 0) and why in found["why"]


def test_a_result_behind_a_link_is_not_deleted(tmp_path: Path) -> None:
    code, out = make_repository(tmp_path / "code"), tmp_path / "out"
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "metrics.json").write_text("{}")
    (code / "results").symlink_to(tmp_path / "disk")
    run_git(code, "add", "-A")
    run_git(code, "commit", "-qm", "results")
    ran = ablate(code, *COMMAND, "--metric", "results/metrics.json:acc", "--out", out)
    assert ran.returncode == 5 and "results is a symbolic link" in told(out)["baseline"]["why"]
    assert (tmp_path / "disk" / "metrics.json").exists()
