"""A study of a repository whose predictions we score: labels out of reach, test scores sealed, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from labwright.agent.cli import main
from labwright.record.event_log import read_state
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from tests.agent.test_repository_study import IDEA
from tests.repositories import run_git

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]
TRAIN = """
import argparse
import csv
import os
import random

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--flips", type=int, default=4)
opts = parser.parse_args()
rng = random.Random(opts.seed)
rows = list(range(40))
wrong = set(rng.sample(rows, opts.flips))
rng.shuffle(rows)
with open("predictions.csv", "w") as file:
    out = csv.writer(file)
    out.writerow(["id", "prediction"])
    out.writerows([f"r{row}", "odd" if (row % 2 == 1) != (row in wrong) else "even"] for row in rows)
print("can see", [place for place in ("TRUTH", "../truth.csv") if os.path.exists(place)])
print("mounted", os.path.exists("../extra/words"), os.environ.get("TOLD"))
"""
PLAN = {
    "task": "odd or even",
    "metrics": [{"name": "accuracy", "higher_is_better": True}],
    "datasets": [{"name": "fit"}],
    "arms": [{"name": "baseline", "role": "baseline"}, {"name": "sure", "role": "method", "words": ["--flips", "0"]}],
    "expected_seconds": 2,
    "hypotheses": [
        {
            "id": "sure",
            "statement": "Fewer flips are better.",
            "reason": "a tenth is seen",
            "unit": "seeds",
            "effects": [{"estimand": "sure - baseline", "smallest": 0.05}],
            "rival": {
                "statement": "It is worth nothing.",
                "estimand": "sure - baseline",
                "ours": "above zero",
                "theirs": "near zero",
            },
        }
    ],
}


def study(place: Path, *, truth: Path | None = None) -> list[str]:
    """A repository, its labels, an idea and a plan, as words of the command line."""
    code, truth = place / "fit", truth or place / "truth.csv"
    code.mkdir()
    (code / "train.py").write_text(TRAIN.replace("TRUTH", str(truth)))
    run_git(code, "init", "-q")
    run_git(code, "add", ".")
    run_git(code, "commit", "-q", "-m", "all")
    truth.write_text(
        "id,label,split\n"
        + "".join(
            f"r{row},{'odd' if row % 2 else 'even'},{'test' if row < 20 else 'validation'}\n" for row in range(40)
        )
    )
    (place / "idea.json").write_text(IDEA)
    (place / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    return [
        "run",
        "--idea",
        str(place / "idea.json"),
        "--plan",
        str(place / "plan.yaml"),
        "--code",
        str(code),
        "--model",
        "offline",
        "--runs",
        str(place / "runs"),
        "--name",
        "study",
        "--predictions",
        "predictions.csv",
        "--truth",
        str(truth),
        "--command",
        "python train.py --seed {seed} {overrides}",
        "--set",
        "search.num_seeds=1",
        "--set",
        "search.max_seeds=2",
    ]


@pytest.mark.usefixtures("placeholder_pdf")
def test_predictions_are_scored_and_the_test_is_sealed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "words").touch()
    words = [*study(tmp_path), "--mount", f"extra={tmp_path / 'extra'}", "--env", "TOLD=yes"]
    assert main([*words, "--set", "paper.reflections=0", "--set", "paper.judge=false"]) == 0, capsys.readouterr().err
    run = tmp_path / "runs" / "study"
    state = read_state(run)
    facts = state.search.datasets[0]
    assert facts.sizes == {"validation": 20, "test": 20} and facts.class_names == ("even", "odd")
    values = [
        one
        for node in state.nodes.values()
        for one in (*node.measurements, *state.search.test_measurements.get(node.id, ()))
    ]
    assert {one.grade for one in values} == {"scored"} and {one.split for one in values} == {"validation", "test"}
    by_seed = {(one.condition, one.split, one.seed): one.value for one in values if one.name == "accuracy"}
    assert all(value == 1.0 for (arm, *_), value in by_seed.items() if arm == "sure")
    sums = {
        seed: sum(value for (arm, _, of), value in by_seed.items() if (arm, of) == ("baseline", seed))
        for _, split, seed in by_seed
        if split == "test"
    }
    assert sums and all(total == pytest.approx(2 - 4 / 20) for total in sums.values())  # four of forty are wrong
    printed = "".join(attempt.stdout_tail for node in state.nodes.values() for attempt in node.attempts)
    assert "can see []" in printed and "can see ['" not in printed and "mounted True yes" in printed
    assert main(["audit", str(run)]) == 0 and ", 28 scores" in capsys.readouterr().out


def test_a_repository_is_reproduced_by_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study(tmp_path)
    words = [
        "ablate",
        str(tmp_path / "fit"),
        "--command",
        "python train.py --seed {seed}",
        "--predictions",
        "predictions.csv",
        "--truth",
        str(tmp_path / "truth.csv"),
        "--expect",
        "0.9±0.001",
        "--reproduce-only",
        "--model",
        "offline",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    assert main([*words, "--metric", "metrics.json:a"]) == 2
    assert "requires a --metric for predictions: accuracy" in capsys.readouterr().err
    assert main([*words, "--metric", "accuracy"]) == 0
    assert json.loads(capsys.readouterr().out)["baseline"]["mean"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--truth": "fit/labels.csv"}, "is readable by the command"),
        ({"--metric": "metrics.json:a"}, "scored by the plan's metrics"),
        ({"--predictions": None}, "must be given together"),
        ({"--predictions": "/etc/hosts"}, "does not name a file in the repository"),
        ({"--predictions": "../truth.csv"}, "does not name a file in the repository"),
    ],
)
def test_what_cannot_be_scored_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str | None], said: str
) -> None:
    words = study(tmp_path)
    for name, value in change.items():
        if name in words:
            at = words.index(name)
            del words[at : at + 2]
        if value is not None:
            words += [name, str(tmp_path / value) if name == "--truth" else value]
    assert main(words) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "runs").exists()
