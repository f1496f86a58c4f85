"""What an ablation concludes: from fresh seeds, with the whole budget, and nothing from a coarse metric at one seed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labwright.record.claims.part_effects import FIRST_FRESH_SEED
from labwright.record.event_log import read_state
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.search.ablation_bandit import advise_budget
from tests.command_line import run_scientist
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
WRITE = 'json.dump({"test": {"acc %_&": acc}}, open("metrics.json", "w"))\n'
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


def ablate(code: Path, out: Path, *words: object) -> dict[str, Any]:
    """Ablate a repository and return its results."""
    measured = ("--command", "python train.py --seed {seed}", "--metric", "metrics.json:test.acc %_&", "--workers", 2)
    ran = run_scientist("ablate", code, *measured, "--out", out, *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads((out / "ablations.json").read_text())


class Lucky(NamedTuple):
    """A finished study, and what it showed when its first, smaller budget was used up."""

    out: Path
    found: dict[str, Any]
    few: dict[str, Any]
    status: str
    report: str
    cells: set[str]


@pytest.fixture(scope="module")
def lucky(tmp_path_factory: pytest.TempPathFactory) -> Lucky:
    folder = tmp_path_factory.mktemp("ablated")
    code, out = make_repository(folder / "odd_name", {"train.py": LUCKY}), folder / "out"
    few = ablate(code, out, "--top", 2, "--budget-runs", 16)
    status, report, cells = (
        run_scientist("status", out).stdout,
        (out / "report.md").read_text(),
        {*read_state(out).cells},
    )
    enough = few["ablations"]["stopped"].partition("raise --budget-runs, to ")[2].partition(" ")[0] or 36
    return Lucky(out, ablate(code, out, "--top", 2, "--budget-runs", enough), few, status, report, cells)


def test_parts_are_ranked_by_fresh_seeds_and_a_resumed_study_with_a_larger_budget_goes_on(lucky: Lucky) -> None:
    out, found, few = lucky.out, lucky.found, lucky.few
    used = few["ablations"]["runs"]
    assert 6 < used <= 16 and "unknown" in {one["called"] for one in few["ablations"]["results"]}
    left = (
        f"3 parts have no verdict: {used} of 16 runs are used, and one more verdict takes at least 10; "
        f"raise --budget-runs, to {advise_budget(3)} for verdicts on all"
    )
    assert few["ablations"]["stopped"] == left
    assert left in lucky.status and f"{left}." in lucky.report
    assert lucky.cells < {*read_state(out).cells} and found["ablations"]["runs"] <= advise_budget(3)
    assert len({(one["title"], one["seed"]) for one in found["runs"]}) == len(found["runs"]), "no run is repeated"
    search = {one["parts"][0]: one["value"] for one in found["runs"] if one["seed"] == 0 and one["kind"] == "ablate"}
    assert min(search, key=lambda part: search[part]) == "gamma", "it has the largest effect at the seed of the search"
    rows = {one["part"]: one for one in found["ablations"]["results"]}
    assert found["ablations"]["top"] == ["alpha", "beta"], rows
    assert [*rows] == ["alpha", "beta", "gamma"]
    assert all(one["fresh"] and one["called"] != "unknown" for one in rows.values())
    assert rows["gamma"]["mean"] == pytest.approx(0.02, abs=0.005) and not found["ablations"]["stopped"]
    fresh = [one for one in read_state(out).nodes.values() if one.seed >= FIRST_FRESH_SEED and one.stage == "ablation"]
    assert [*dict.fromkeys(one.varies for one in fresh)] == ["gamma", "alpha", "beta"], "the largest effects come first"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
def test_the_section_of_a_metric_with_odd_characters_compiles(lucky: Lucky, tmp_path: Path) -> None:
    for file in (*STYLES.glob("*.sty"), lucky.out / "results.tex", lucky.out / "section.tex"):
        shutil.copy(file, tmp_path)
    (tmp_path / "whole.tex").write_text(
        r"\documentclass{article}\usepackage{scientist-look}\usepackage{scientist-paper}\input{results.tex}"
        r"\begin{document}\input{section.tex}\end{document}"
    )
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "whole.tex"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]


def test_a_command_that_does_not_vary_is_run_once_for_each_part_and_its_effects_are_exact(tmp_path: Path) -> None:
    fixed = LUCKY.replace("noise.gauss(0, 0.002)", "0").replace("if opts.seed == 0 else 0.02", "* 0")
    code, out = make_repository(tmp_path / "fixed", {"train.py": fixed}), tmp_path / "out"
    found = ablate(code, out, "--command", "python train.py")
    assert found["baseline"]["same_seed"] == "does not vary"
    runs = [one for one in found["runs"] if one["kind"] == "ablate" and len(one["parts"]) == 1]
    assert {one["seed"] for one in found["runs"]} == {0, 1, 2} and {one["seed"] for one in runs} == {0}
    exact, nothing = "exact: the command does not vary", found["ablations"]["stopped"]
    rows = [(one["part"], one["called"], one["n"], one["p"], one["flag"]) for one in found["ablations"]["results"]]
    assert rows == [
        ("alpha", "critical", 1, None, exact),
        ("beta", "critical", 1, None, exact),
        ("gamma", "no effect", 1, None, exact),
    ]
    assert found["ablations"]["top"] == ["alpha", "beta"] and nothing == ""
    report = (out / "report.md").read_text()
    assert "all its runs gave the same digits" in report and "fresh seeds" not in report and "Holm" not in report
    assert "fresh seeds" not in (out / "section.tex").read_text()
