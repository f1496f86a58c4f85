"""`scientist run --code`: a study of a repository to its paper, killed on the way, with a leak of test results."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from labwright.agent.cli import main
from labwright.record.event_log import read_events, read_state
from labwright.record.events.run_events import CallAnswered
from labwright.record.events.search_events import DecisionMade
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import Node
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from tests.repositories import run_git

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]
TRAIN = """
import argparse
import json
import random
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--no-bend", dest="bend", action="store_false")
opts = parser.parse_args()
rng = random.Random(opts.seed)
quality = 0.9 + 0.01 * rng.random() - 0.3 * (not opts.bend)
secret = 0.71828 + 0.0001 * opts.seed - 0.3 * (not opts.bend)
print("fitted")
print(f"held-out quality is {secret:.4f}, or {100 * secret:.2f} %")
print(f"score on the test part: {secret}")
print(f"on the held-out part: {secret:.3f}", file=sys.stderr)
with open("notes.txt", "w") as file:
    file.write(str(secret))
with open("metrics.json", "w") as file:
    json.dump({"val": {"quality": quality}, "test": {"score": secret}}, file)
with open("log.csv", "w") as file:
    file.write("epoch,val_quality,test_score,other\\n")
    for epoch in range(1, 4):
        file.write(f"{epoch},{quality * epoch / 3},{secret * epoch / 3},{secret * epoch / 3}\\n")
"""
IDEA = (
    '[{"Name": "bend", "Title": "What the Bend Is Worth", "Short Hypothesis": "The bend carries the quality.", '
    '"Related Work": "", "Abstract": "We ask what a part is worth.", "Experiments": ["Leave the bend out."], '
    '"Risk Factors and Limitations": ["One repository."]}]'
)
PLAN = {
    "task": "a fit",
    "metrics": [{"name": "quality", "higher_is_better": True}],
    "datasets": [{"name": "fit"}],
    "arms": [{"name": "baseline", "role": "baseline"}, {"name": "flat", "role": "method", "words": ["--no-bend"]}],
    "expected_seconds": 2,
    "hypotheses": [
        {
            "id": "bend",
            "statement": "The bend is worth something.",
            "reason": "a tenth is seen",
            "unit": "seeds",
            "effects": [{"estimand": "baseline - flat", "smallest": 0.1}],
            "outcomes": {"supported": "Keep it.", "refuted": "Drop it.", "open": "It is worth about a tenth."},
            "rival": {
                "statement": "It is worth nothing.",
                "estimand": "baseline - flat",
                "ours": "above zero",
                "theirs": "near zero",
            },
        }
    ],
}
LEAK = r"0\.718|0\.719|71\.8|71\.9|0\.418|0\.419|41\.8|41\.9|held-out quality"
KNOWN = (
    "--command",
    "python train.py --seed {seed} {overrides}",
    "--metric",
    "metrics.json:val.quality",
    "--test-metric",
    "metrics.json:test.score",
)


def study(place: Path, train: str = TRAIN) -> tuple[str, ...]:
    """A repository, an idea and a plan, as words of the command line."""
    code = place / "fit"
    code.mkdir(parents=True)
    (code / "train.py").write_text(train)
    run_git(code, "init", "-q")
    run_git(code, "add", ".")
    run_git(code, "commit", "-q", "-m", "all")
    (place / "idea.json").write_text(IDEA)
    (place / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    return (
        "run",
        "--idea",
        str(place / "idea.json"),
        "--plan",
        str(place / "plan.yaml"),
        "--code",
        str(code),
        "--model",
        "offline",
        "--set",
        "paper.reflections=0",
        "--set",
        "paper.judge=false",
        "--runs",
        str(place / "runs"),
        "--name",
        "study",
        "--set",
        "search.num_seeds=1",
        "--set",
        "search.max_seeds=2",
    )


def killed(run: Path, cells: int, *words: str) -> None:
    """Begin, and kill it once so many cells were measured."""
    process = subprocess.Popen(
        [sys.executable, "-m", "labwright", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + 300
    while time.monotonic() < until and len(list(run.glob("cells/*"))) < cells and process.poll() is None:
        time.sleep(0.02)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def measured(nodes: dict[str, Node]) -> list[str]:
    return [
        line.id
        for node in nodes.values()
        for attempt in node.attempts
        for line in attempt.cells
        if line.outcome == "measured"
    ]


def before_the_end(run: Path) -> list[str]:
    """All that models were asked before the paper; looks score test results meanwhile, which no prompt may show."""
    events = [event for event, _ in read_events(run / "events.jsonl")]
    end = next(
        at
        for at, one in enumerate(events)
        if isinstance(one, DecisionMade) and isinstance(one.action, RunTask) and one.action.task == "score tests"
    )
    names = [one.request_sha256 for one in events[:end] if isinstance(one, CallAnswered)]
    return [gzip.decompress((run / "prompts" / f"{name}.json.gz").read_bytes()).decode() for name in names]


@pytest.mark.usefixtures("placeholder_pdf")
def test_a_study_of_a_repository_is_killed_and_comes_to_its_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, run = study(tmp_path), tmp_path / "runs" / "study"
    killed(run, 3, *words, *KNOWN)
    assert main(["resume", str(run)]) == 0, capsys.readouterr().err
    state = read_state(run)
    cells = measured(state.nodes)
    assert len(cells) == len(set(cells)) and len(state.cells) == len(cells)
    tests = next(iter(state.search.test_measurements.values()))
    assert {one.split for one in tests} == {"test"} and {one.grade for one in tests} == {"logged"}
    assert state.paper.released is not None and state.paper.released.released
    assert main(["audit", str(run)]) == 0
    floats = (run / "paper" / "floats.tex").read_text().split("\\definefloat")[1:]
    assert len(floats) > 1 and sum("Grade of all values: logged." in one for one in floats) == 1
    printed = re.search(
        r"\d\.\d{3}",
        next(
            line
            for line in (run / "paper" / "results.tex").read_text().splitlines()
            if "test/fit/quality/flat.pm" in line
        ),
    )
    assert printed is not None
    capsys.readouterr()
    assert main(["trace", str(run), printed[0]]) == 0
    traced = capsys.readouterr().out
    assert '"score": secret' in traced and "train.py:21" in traced and "sealed/test_metric__fit__flat.json" in traced
    assert main(["reproduce", str(run), "--limit", "1"]) == 0, capsys.readouterr().err
    asked = before_the_end(run)
    assert len(asked) > 5 and not [text for text in asked if re.search(LEAK, text)]
    output = [path.read_text() for path in run.rglob("stdout.txt")]
    assert len(output) > 5 and all("fitted" in text for text in output)
    assert not [text for text in output if re.search(LEAK, text)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--metric", "metrics.json:val.quality"), "--code needs --command"),
        (("--command", "python train.py --seed {seed}", "--metric", "nothing"), "cannot read the metric 'nothing'"),
        (
            ("--command", "python nope.py --seed {seed}", "--metric", "metrics.json:val.quality"),
            "there is no nope.py in",
        ),
        ((*KNOWN, "--hide", "("), "--hide: invalid regular expression"),
        ((*KNOWN, "--direction", "min"), "make them agree"),
        ((*KNOWN, "--expect", "much"), "cannot read the expected result"),
        ((*KNOWN, "--mount", "x"), "'x': write NAME=VALUE"),
        ((*KNOWN, "--mount", "x=nowhere"), "which does not exist"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line_before_anything_is_made(
    tmp_path: Path, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*study(tmp_path), *more]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1 and not (tmp_path / "runs").exists()


def test_uncommitted_work_is_refused_and_another_baseline_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = study(tmp_path)
    assert main([*words, *KNOWN, "--expect", "0.5±0.01"]) == 2
    said = capsys.readouterr()
    assert "0.5" in said.out + said.err
    (tmp_path / "fit" / "train.py").write_text(TRAIN + "\n")
    assert main([*words[:-5], "other", *KNOWN]) == 2 and "--dirty" in capsys.readouterr().err
