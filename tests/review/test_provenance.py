"""What ran behind a foreign paper: templates of code, lines of logs, writers of files, grades of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from review.foreign.logs import Log, LogLine, read_log, read_logs
from review.foreign.provenance import Provenance, reconstruct
from review.foreign.scripts import read_scripts

RUN = '''
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
'''
NET = 'def fit(seed):\n    return 0.5\n'
MOCK = '''
import json
print("Generating mock results for the table")
print("Mock results were saved to disk")
json.dump({"score": 0.9134}, open("results/table.json", "w"))
'''
LOG = """2026-01-02 03:04:05,123 - run - INFO - seed 0 reached an accuracy of 0.9120
[__main__] epoch 0/3: loss=0.912 (kept)
wrote results/scores.json
"""


def log_of(text: str, folder: Path, name: str = "log.txt") -> Log:
    (folder / name).write_text(text)
    return read_log(folder / name, name)


def found(folder: Path, log: str = LOG) -> Provenance:
    scripts = read_scripts({
        "run.py": RUN, "net.py": NET, "mock_results.py": MOCK, "tests/test_run.py": "print('a test ran')"})
    return reconstruct(scripts, (log_of(log, folder),), ("scores.json", "table.json"))


def test_the_script_whose_lines_are_in_the_log_ran(tmp_path: Path) -> None:
    shown = found(tmp_path)
    assert shown.ran == {
        "run.py": "ran", "net.py": "loaded", "mock_results.py": "not seen", "tests/test_run.py": "unknown"}
    assert shown.shown_by == {"run.py": "log.txt:1"} and shown.executed == ("run.py",)
    assert shown.writers == {"scores.json": ("run.py",), "table.json": ("mock_results.py",)}


def test_a_line_is_matched_to_the_lines_of_code_that_can_print_it(tmp_path: Path) -> None:
    lines = [sorted({one.line for one in source.templates}) for source in found(tmp_path).sources]
    assert lines == [[12], [13], [16]]


def test_a_line_that_no_code_prints_has_no_template(tmp_path: Path) -> None:
    source, = found(tmp_path, "seed 0 reached an accuracy of approximately 91 %\n").sources
    assert not source.templates


def test_what_another_script_made_is_told(tmp_path: Path) -> None:
    shown = found(tmp_path, "Generating mock results for the table\n")
    assert shown.ran["mock_results.py"] == "ran" and shown.ran["run.py"] == "unknown", "one line says little"


@pytest.mark.parametrize(("text", "stamp", "message"), [
    ("2026-01-02 03:04:05,500 - run - INFO - began", 3 * 3600 + 4 * 60 + 5.5, "began"),
    ("[2026-01-02 03:04:05] [INFO] began", 3 * 3600 + 4 * 60 + 5, "began"),
    ("03:04:05 began", 3 * 3600 + 4 * 60 + 5, "began"),
    ("2026-01-02T03:04:05 | WARNING | began", 3 * 3600 + 4 * 60 + 5, "began"),
    ("began", None, "began"),
])
def test_stamps_of_many_forms_are_read(tmp_path: Path, text: str, stamp: float | None, message: str) -> None:
    line = log_of(text, tmp_path).lines[0]
    assert (line.stamp % 86_400 if line.stamp is not None else None, line.message) == (stamp, message)


def test_a_date_that_is_none_is_no_stamp(tmp_path: Path) -> None:
    assert log_of("2026-13-45 03:04:05 began", tmp_path).lines[0].stamp is None


def test_a_log_that_goes_on_after_an_error_does_not_end_in_it(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nValueError: no\n'
    ended = log_of(f"began\n{trace}", tmp_path).ends_in_failure
    assert isinstance(ended, LogLine) and ended.text == "ValueError: no"
    assert log_of(f"began\n{trace}began again\nseed 0\ndone\n", tmp_path).ends_in_failure is None


def test_logs_are_told_from_other_text(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "train.out").write_text("epoch 1\n")
    (tmp_path / "log.txt").write_text("\x00 not quite text \xff\n")
    assert [log.name for log in read_logs(tmp_path)] == ["log.txt", "train.out"]


def test_code_that_does_not_parse_says_nothing() -> None:
    script, = read_scripts({"a.py": "def (:\n"})
    assert script.tree is None and not script.templates
