"""The facts that a judge is given with a foreign paper: each true of an honest program, and telling of another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers import collect_audit_facts
from labwright.review.external_papers.claimed_settings import compare_claimed_settings

FILLER = "We compare two rules on points that a generator draws. " * 8
RUN = """import json
from data import read
SEEDS, EPOCHS = [0, 1, 2], 40
out = {}
for seed in SEEDS:
    x, y = read(seed)
    out[seed] = {"rmse": error(x, y), "ndcg": rank(x, y)}
    print(f"seed {seed}: rmse {out[seed]['rmse']:.4f} ndcg {out[seed]['ndcg']:.4f}")
json.dump(out, open("results/out.json", "w"))
"""
OUT = {
    "0": {"rmse": 1.2345, "ndcg": 0.8123},
    "1": {"rmse": 1.3456, "ndcg": 0.8234},
    "2": {"rmse": 1.4567, "ndcg": 0.8345},
}
LOG = "".join(f"seed {seed}: rmse {one['rmse']:.4f} ndcg {one['ndcg']:.4f}\n" for seed, one in OUT.items())
TEXT = "The errors are 1.2345, 1.3456 and 1.4567. The gains are 0.8123, 0.8234 and 0.8345.\n"


def facts(
    folder: Path, text: str = TEXT, *, code: Mapping[str, str] | None = None, results: Mapping[str, str] | None = None
) -> AuditFacts:
    """The facts on a small paper with this section of results."""
    given = {
        "results": {"out.json": json.dumps(OUT), "log.txt": LOG, **(results or {})},
        "code": {"run.py": RUN, **(code or {})},
    }
    for name, files in given.items():
        (folder / name).mkdir()
        for file, body in files.items():
            (folder / name / file).write_text(body)
    (folder / "paper.md").write_text(
        f"# Rules\n\n## Abstract\n\nWe measure it. {FILLER}\n\n## Method\n\n{FILLER}\n\n## Results\n\n{text}\n"
    )
    return asyncio.run(collect_audit_facts(folder / "paper.md", results=folder / "results", code=folder / "code"))


def said(found: AuditFacts, words: str) -> str:
    return "\n".join(line for line in found.provenance if words in line)


def test_where_numbers_stand_is_told(tmp_path: Path) -> None:
    assert "6 are in logs or files of programs that ran" in said(facts(tmp_path), "numbers of the paper")


def test_numbers_of_a_report_that_a_script_writes_stand_in_a_file_of_it(tmp_path: Path) -> None:
    text = "The least error is 1.0987.\n"
    code = {"run.py": RUN + "open('results/report.md', 'w').write(f'the least error is {least:.4f}')\n"}
    assert "1 are in logs or files" in said(
        facts(tmp_path, text, code=code, results={"report.md": "the least error is 1.0987\n"}), "numbers of the paper"
    )
    (other := tmp_path / "other").mkdir()
    found = facts(other, text, results={"report.md": "the least error is 1.0987\n"})
    assert "of the numbers, 1 is in a prose report, which no script is seen to write (report.md)" in found.provenance


def test_doubt_is_of_the_values_that_are_made_up(tmp_path: Path) -> None:
    drawn = RUN.replace('"ndcg": rank(x, y)', '"ndcg": rng.normal(0.82, 0.01)')
    found = facts(
        tmp_path,
        code={"run.py": "import numpy as np\nrng = np.random.default_rng(0)\n" + drawn},
        results={"log.txt": "begin\n"},
    )
    assert "3 are in logs or files of programs that ran" in said(found, "numbers of the paper")
    assert said(found, "of the numbers, 3 are in a file of a script with signs of made-up numbers (out.json)")


def test_where_it_cannot_be_told_the_whole_file_is_doubted(tmp_path: Path) -> None:
    drawn = "import numpy as np\nrng = np.random.default_rng(0)\nndcg = rng.normal(0.82, 0.01)\n" + RUN
    values = {"a": [1.2345, 1.3456, 1.4567], "b": [0.8123, 0.8234, 0.8345]}
    found = facts(tmp_path, code={"run.py": drawn}, results={"out.json": json.dumps(values), "log.txt": "begin\n"})
    assert "0 are in logs or files" in said(found, "numbers of the paper")


def test_sizes_years_and_settings_are_not_missed(tmp_path: Path) -> None:
    settings = "| setting | value |\n|---|---|\n| rate | 0.0375 |\n| rows | 12,000 |\n"
    text = f"{TEXT}Of 12,000 rows, as in 1998, 7,431 are kept. The loss is 0.5713.\n\n{settings}"
    assert "in no result file: 0.5713 (results, Results)" in facts(tmp_path, text).provenance


def test_the_least_of_the_seeds_is_no_best_one_that_is_kept(tmp_path: Path) -> None:
    code = RUN + "worst = {'rmse_max': max(one['rmse'] for one in out.values())}\n"
    assert not any("seeds are run" in line for line in facts(tmp_path, code={"run.py": code}).findings)


def test_the_best_seed_is_told_with_its_numbers(tmp_path: Path) -> None:
    runs = "rule,seed,accuracy\n" + "".join(
        f"{rule},{seed},{value}\n"
        for rule, values in (
            ("plain", (0.8123, 0.8251, 0.8417)),
            ("mixed", (0.8312, 0.8469, 0.8555)),
            ("cut", (0.7911, 0.8052, 0.8198)),
        )
        for seed, value in enumerate(values)
    )
    text = "| rule | accuracy |\n|---|---|\n| plain | 0.826 |\n| mixed | 0.8555 |\n| cut | 0.805 |\n"
    line = said(facts(tmp_path, text, results={"runs.csv": runs}), "best of the seeds")
    assert "3 values" in line and "0.844533" in line and "0.826 (plain / accuracy)" in line and "largest" in line


# --- claims beside what code sets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("All use twenty seeds.", "claimed twenty seeds; code: run.py:3 SEEDS, EPOCHS = [0, 1, 2], 40"),
        ("Each is trained for 40 epochs.", "claimed 40 epochs; code: run.py:3 SEEDS, EPOCHS = [0, 1, 2], 40"),
        ("We use five folds.", "claimed five folds; code: run.sh:1 python run.py --folds 5"),
        ("The weight of 0.5 is kept.", 'claimed weight of 0.5; code: settings.json:1 {"density_weight": 0.0}'),
        ("The learning rate is 0.1.", "claimed learning rate is 0.1; code: run.py:4 def fit(x, rate, lr=0.3):"),
        (
            "On 540 test images it is better.",
            "claimed 540 test images; code: run.py:5 split(x, test_size=0.3); log.txt:1 seed=0 n_test=540",
        ),
        ("With 800 trees it is better.", "claimed 800 trees; this number is not in code, logs or results"),
    ],
)
def test_a_claim_stands_beside_the_line_that_sets_it(sentence: str, line: str) -> None:
    code = {
        "run.py": "import json\nseed = 7\nSEEDS, EPOCHS = [0, 1, 2], 40\ndef fit(x, rate, lr=0.3):\n"
        "    split(x, test_size=0.3)\n",
        "run.sh": "python run.py --folds 5\n",
        "settings.json": '{"density_weight": 0.0}',
    }
    assert list(compare_claimed_settings([sentence], code, {"log.txt": "seed=0 n_test=540\n"}, ())) == [line]


@pytest.mark.parametrize(
    "sentence",
    [
        "It is right for 0.85 steps.",
        "The accuracy of 0.93 is 3 points above clients.",
        "The test part is 30 % of it.",
        "The table has 812 rows.",
        "It took ten steps.",
    ],
)
def test_what_is_no_claim_of_a_setting_is_left_alone(sentence: str) -> None:
    assert not list(compare_claimed_settings([sentence], {"run.py": "for x in range(10):\n    fit(x)\n"}, {}, ()))


def test_few_claims_are_told(tmp_path: Path) -> None:
    claims = " ".join(f"It has {at} epochs." for at in range(20, 60))
    assert len(said(facts(tmp_path, TEXT + claims), "claimed").splitlines()) == 10
