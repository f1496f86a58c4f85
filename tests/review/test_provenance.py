"""What ran behind an external paper: strings of code in logs, writers of files, origins of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.review.external_papers.provenance import (
    Log,
    PaperProvenance,
    format_provenance,
    read_log,
    read_scripts,
    reconstruct_provenance,
)

RUN = """
import json, logging
from net import fit
log = logging.getLogger("run")

def say(text):
    print(f"[{__name__}] {text}")

def main():
    for seed in range(3):
        score = fit(seed)
        log.info("seed %d reached an accuracy of %.4f", seed, score)
        say(f"epoch {seed}/3: loss={score:.3f}" + " (kept)")
    with open("results/scores.json", "w") as file:
        json.dump({"score": score}, file)
    print("wrote", "results/scores.json")

if __name__ == "__main__":
    main()
"""
NET = "def fit(seed):\n    return 0.5\n"
MOCK = """
import json
print("Generating mock results for the table")
print("Mock results were saved to disk")
json.dump({"score": 0.9134}, open("results/table.json", "w"))
"""
LOG = """2026-01-02 03:04:05,123 - run - INFO - seed 0 reached an accuracy of 0.9120
[__main__] epoch 0/3: loss=0.912 (kept)
wrote results/scores.json
"""


def log_of(text: str, folder: Path, name: str = "log.txt") -> Log:
    (folder / name).write_text(text)
    return read_log(folder / name, name)


def found(folder: Path, log: str = LOG) -> PaperProvenance:
    scripts = read_scripts(
        {"run.py": RUN, "net.py": NET, "mock_results.py": MOCK, "tests/test_run.py": "print('a test ran')"}
    )
    return reconstruct_provenance(scripts, (log_of(log, folder),), ("scores.json", "table.json"))


def test_the_script_whose_lines_are_in_the_log_ran_and_another_did_not_print(tmp_path: Path) -> None:
    shown = found(tmp_path)
    assert shown.ran == {"run.py": ("log.txt:1, 2026-01-02 03:04:05", "log.txt:3")}
    assert (shown.loaded, shown.absent) == (("net.py",), ("mock_results.py",))
    assert shown.writers == {"scores.json": ("run.py",), "table.json": ("mock_results.py",)}
    assert list(format_provenance(shown)) == [
        "ran, with first and last log line that only it prints, in this order: "
        "run.py (log.txt:1, 2026-01-02 03:04:05 to log.txt:3)",
        "imported by these: net.py",
        "prints text, none of which is in the logs: mock_results.py",
        "result file scores.json is named in run.py, and not only to be read",
        "result file table.json is named in mock_results.py, and not only to be read",
        "3 of 3 log lines match strings of the code; the wording of 0 occurs nowhere in it (libraries print, too); "
        "0 begin with values or are put together",
    ]


def test_scripts_are_in_the_order_of_their_stamps(tmp_path: Path) -> None:
    code = {"a.py": "print('evaluation of the model')\n", "b.py": "print('training of the model')\n"}
    logs = (
        log_of("[10:00:09] evaluation of the model\n", tmp_path, "a.log"),
        log_of("[10:00:01] training of the model\n[10:00:03] training of the model\n", tmp_path, "b.log"),
    )
    shown = reconstruct_provenance(read_scripts(code), logs, ())
    assert list(shown.ran) == ["b.py", "a.py"] and shown.ran["b.py"] == ("b.log:1, 10:00:01", "b.log:2, 10:00:03")


@pytest.mark.parametrize(
    ("code", "log"),
    [
        ("import logging\nlogging.info('kept %d (%.0f%%) of all', n, share)\n", "kept 5 (97%) of all\n"),
        ("print('{} of {} epochs'.format(1, 2))\n", "1 of 2 epochs\n"),
        ("import json\nprint(json.dumps({'seed': 0, 'auroc': a}))\n", '{"seed": 0, "auroc": 0.91}\n'),
        ("file.write(f'{seed}\\nreward of the policy: {reward}')\n", "reward of the policy: 3.5\n"),
    ],
)
def test_text_that_is_put_together_is_recognised(tmp_path: Path, code: str, log: str) -> None:
    assert list(reconstruct_provenance(read_scripts({"run.py": code}), (log_of(log, tmp_path),), ()).ran) == ["run.py"]


def test_lines_of_values_are_counted_apart_from_wording_that_no_code_has(tmp_path: Path) -> None:
    code = "for arm in ('mixup', 'plain'):\n    print(arm, 'accuracy', fit(arm))\n    print(arm, fit(arm))\n"
    log = "mixup accuracy 0.91\nmixup 0.91\nThe baseline converged after nine rounds\nLoss of net: 0.5\n"
    shown = reconstruct_provenance(read_scripts({"run.py": code}), (log_of(log, tmp_path),), ())
    assert list(shown.printed_by) == [("log.txt", 1)]
    assert list(format_provenance(shown))[-1:] == [
        "1 of 4 log lines match strings of the code; the wording of 2 occurs nowhere in it (libraries print, too); "
        "1 begin with values or are put together"
    ]


def test_a_name_that_is_put_together_of_what_the_code_has_is_written_and_one_that_is_read_is_not() -> None:
    code = "for name in ('knn', 'tree'):\n    open(f'results/{name}.json', 'w').write('x')\n"
    read = "import json\njson.load(open('results/knn.json'))\nopen('seed_3.csv')\n"
    kept = "open(f'seed_{seed}.csv', 'w')\n"
    scripts = read_scripts({"run.py": code, "read.py": read, "kept.py": kept})
    shown = reconstruct_provenance(scripts, (), ("knn.json", "tree.json", "forest.json", "seed_3.csv"))
    assert shown.writers == {"knn.json": ("run.py",), "tree.json": ("run.py",), "seed_3.csv": ("kept.py",)}
