"""What an ablation concludes: from fresh seeds, with the whole budget, and nothing from a coarse metric at one seed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.record.claims.part_effects import FIRST_FRESH_SEED
from labwright.record.log_reader import read_state
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from tests.repositories import make_repository

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]
STYLES = Path(__file__).parents[2] / "templates_latex" / "shared"

OPTIONS = """import argparse
import json
import random

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--no-alpha", dest="alpha", action="store_false")
parser.add_argument("--no-beta", dest="beta", action="store_false")
parser.add_argument("--no-gamma", dest="gamma", action="store_false")
opts = parser.parse_args()
noise = random.Random(str(sorted(vars(opts).items())))
"""
WRITE = 'json.dump({"test": {"acc": acc}}, open("metrics.json", "w"))\n'
LUCKY = f"""{OPTIONS}
acc = 1 + noise.gauss(0, 0.002)
if opts.alpha:
    acc += 0.3
if opts.beta:
    acc += 0.1
if opts.gamma:
    acc += 0.6 if opts.seed == 0 else 0.02
{WRITE}"""
"""At the first seed, gamma seems to matter most."""
COARSE = f"""{OPTIONS}
right = 63
if not opts.alpha:
    right -= 20
if not opts.beta and opts.seed >= 1000:
    right -= 3 + opts.seed % 2
if not opts.gamma:
    right += 0
acc = right / 72
{WRITE}"""
"""Accuracy on 72 rows: the same at every seed, and without beta at the seeds of the search. Gamma has no effect."""


def ablate(code: Path, out: Path, *words: object) -> dict[str, Any]:
    """Ablate a repository and return its results."""
    command = [sys.executable, "-m", "labwright", "ablate", str(code), "--command", "python train.py --seed {seed}"]
    words = ("--metric", "metrics.json:test.acc", "--workers", "2", "--out", out, *words)
    ran = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads((out / "ablations.json").read_text())


def test_parts_are_ranked_by_fresh_seeds_and_not_by_the_seed_of_the_search(tmp_path: Path) -> None:
    code, out = make_repository(tmp_path / "lucky", {"train.py": LUCKY}), tmp_path / "out"
    found = ablate(code, out, "--top", 2)
    search = {one["parts"][0]: one["value"] for one in found["runs"] if one["seed"] == 0 and one["kind"] == "ablate"}
    assert min(search, key=lambda part: search[part]) == "gamma", "it has the largest effect at the seed of the search"
    rows = {one["part"]: one for one in found["ablations"]["results"]}
    assert found["ablations"]["top"] == ["alpha", "beta"], rows
    assert [one["part"] for one in found["ablations"]["results"]] == ["alpha", "beta", "gamma"]
    assert rows["gamma"]["mean"] == pytest.approx(0.02, abs=0.005) and rows["gamma"]["fresh"]


def test_the_budget_is_spent_on_unknown_parts_and_a_resumed_study_with_more_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = make_repository(tmp_path / "lucky", {"train.py": LUCKY}), tmp_path / "out"
    few = ablate(code, out, "--top", 1, "--budget-runs", 20)
    rows = {one["part"]: one for one in few["ablations"]["results"]}
    assert few["ablations"]["runs"] <= 20 and "unknown" in {one["called"] for one in rows.values()}
    before = {*read_state(out).cells}
    more = ablate(code, out, "--top", 1, "--budget-runs", 40)
    assert before < {*read_state(out).cells} and more["ablations"]["runs"] <= 40
    assert all(one["fresh"] and one["called"] != "unknown" for one in more["ablations"]["results"])
    assert len({(one["title"], one["seed"]) for one in more["runs"]}) == len(more["runs"]), "no run is repeated"


def test_nothing_is_concluded_from_equal_values_of_a_coarse_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = make_repository(tmp_path / "coarse", {"train.py": COARSE}), tmp_path / "out"
    found = ablate(code, out, "--top", 1, "--budget-runs", 80)
    assert (
        "3 seeds gave the same value, 0.875: the seed has no effect, or an effect below the metric's resolution"
        in found["baseline"]["why"]
    )
    rows = {one["part"]: one for one in found["ablations"]["results"]}
    assert rows["beta"]["mean"] > 0.03 and rows["beta"]["called"] == "critical", "the search saw no effect of it"
    assert rows["gamma"]["called"] == "no effect" and rows["gamma"]["n"] == 5
    alpha = rows["alpha"]
    assert alpha["called"] == "unknown" and alpha["n"] == 15, "equal at every seed, so more seeds were tried"
    assert "the same at every seed, so it cannot be tested" in alpha["flag"]
    assert all(one["n"] for one in rows.values() if one["called"] == "no effect")
    assert main(["trace", str(out), "0.278"]) == 0
    assert "| alpha | --no-alpha |" in capsys.readouterr().out


def test_a_limit_ends_measuring_and_the_report_says_so(tmp_path: Path) -> None:
    slow = LUCKY.replace("import random\n", "import random\nimport time\ntime.sleep(0.4)\n")
    code, out = make_repository(tmp_path / "slow", {"train.py": slow}), tmp_path / "out"
    command = [sys.executable, "-m", "labwright", "ablate", str(code), "--command", "python train.py --seed {seed}"]
    words = [*command, "--metric", "metrics.json:test.acc", "--workers", "2", "--out", str(out)]
    ran = subprocess.run([*words, "--set", "time_limit=6s"], capture_output=True, text=True, timeout=600, check=False)
    report = (out / "report.md").read_text()
    assert ran.returncode == 3 and "the time limit of 6 s was reached" in report, ran.stdout + ran.stderr
    before = {*read_state(out).cells}
    ran = subprocess.run([*words, "--set", "time_limit=1h"], capture_output=True, text=True, timeout=600, check=False)
    state = read_state(out)
    assert ran.returncode == 0 and before < {*state.cells}, ran.stdout + ran.stderr
    assert "time limit" not in (out / "report.md").read_text()
    assert all(one.is_finished for one in state.nodes.values())
    assert any(one.seed >= FIRST_FRESH_SEED for one in state.nodes.values())


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
def test_the_section_compiles(tmp_path: Path) -> None:
    names = {"train.py": LUCKY.replace('"acc": acc', '"acc %_&": acc')}
    code, out = make_repository(tmp_path / "odd_name", names), tmp_path / "out"
    ablate(code, out, "--metric", "metrics.json:test.acc %_&", "--top", 1)
    for style in STYLES.glob("*.sty"):
        shutil.copy(style, out)
    (out / "whole.tex").write_text(
        r"\documentclass{article}\usepackage{scientist-look}\usepackage{scientist-paper}\input{results.tex}"
        r"\begin{document}\input{section.tex}\end{document}"
    )
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "whole.tex"]
    ran = subprocess.run(words, cwd=out, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]
