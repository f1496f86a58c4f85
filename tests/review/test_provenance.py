"""What ran behind a foreign paper: templates of code, lines of logs, writers of files, grades of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.review.external_papers.logs import Log, LogLine, read_log, read_logs
from labwright.review.external_papers.provenance import PaperProvenance, format_provenance, reconstruct_provenance
from labwright.review.external_papers.scripts import read_scripts

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


def test_the_script_whose_lines_are_in_the_log_ran(tmp_path: Path) -> None:
    shown = found(tmp_path)
    assert shown.run_status == {
        "run.py": "ran",
        "net.py": "loaded",
        "mock_results.py": "not seen",
        "tests/test_run.py": "unknown",
    }
    assert shown.shown_by == {"run.py": "log.txt:1"} and shown.executed_scripts == ("run.py",)
    assert shown.writers == {"scores.json": ("run.py",), "table.json": ("mock_results.py",)}


def test_a_line_is_matched_to_the_lines_of_code_that_can_print_it(tmp_path: Path) -> None:
    lines = [sorted({one.line for one in source.templates}) for source in found(tmp_path).sources]
    assert lines == [[12], [13], [16]]


def test_a_line_that_no_code_prints_has_no_template(tmp_path: Path) -> None:
    (source,) = found(tmp_path, "seed 0 reached an accuracy of approximately 91 %\n").sources
    assert not source.templates


def test_what_another_script_made_is_told(tmp_path: Path) -> None:
    shown = found(tmp_path, "Generating mock results for the table\n")
    assert shown.run_status["mock_results.py"] == "ran" and shown.run_status["run.py"] == "unknown", (
        "one line says little"
    )


@pytest.mark.parametrize(
    ("text", "stamp", "message"),
    [
        ("2026-01-02 03:04:05,500 - run - INFO - began", 3 * 3600 + 4 * 60 + 5.5, "began"),
        ("[2026-01-02 03:04:05] [INFO] began", 3 * 3600 + 4 * 60 + 5, "began"),
        ("03:04:05 began", 3 * 3600 + 4 * 60 + 5, "began"),
        ("2026-01-02T03:04:05 | WARNING | began", 3 * 3600 + 4 * 60 + 5, "began"),
        ("began", None, "began"),
    ],
)
def test_stamps_of_many_forms_are_read(tmp_path: Path, text: str, stamp: float | None, message: str) -> None:
    line = log_of(text, tmp_path).lines[0]
    assert (line.stamp % 86_400 if line.stamp is not None else None, line.message) == (stamp, message)


def test_a_date_that_is_none_is_no_stamp(tmp_path: Path) -> None:
    assert log_of("2026-13-45 03:04:05 began", tmp_path).lines[0].stamp is None


def test_a_log_that_goes_on_after_an_error_does_not_end_in_it(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nValueError: no\n'
    ended = log_of(f"began\n{trace}", tmp_path).final_error
    assert isinstance(ended, LogLine) and ended.text == "ValueError: no"
    assert log_of(f"began\n{trace}began again\nseed 0\ndone\n", tmp_path).final_error is None


def test_logs_are_told_from_other_text(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "train.out").write_text("epoch 1\n")
    (tmp_path / "log.txt").write_text("\x00 not quite text \xff\n")
    assert [log.name for log in read_logs(tmp_path)] == ["log.txt", "train.out"]


def test_code_that_does_not_parse_says_nothing() -> None:
    (script,) = read_scripts({"a.py": "def (:\n"})
    assert script.tree is None and not script.templates


# --- what cannot be told of a line is not told ------------------------------------------------------------------------

KEYED = """
import json, time
def log(**values):
    with open("results/train.log", "a") as file:
        file.write(json.dumps({"t": time.strftime("%H:%M:%S"), **values}) + "\\n")
log(event="start", seeds=3)
log(run="plain", seed=0, acc=0.5)
"""
RECORDS = """
import json, time
for seed in range(2):
    record = {"seed": seed, "auc": 0.5, "ap": 0.25}
    print(time.strftime("[%H:%M:%S]"), json.dumps(record))
"""
SORTED = RECORDS.replace("json.dumps(record)", "json.dumps(record, sort_keys=True)")
HANDED = """
import json
from model import describe
print(describe(3))
print("the tables are written")
"""
BAR = """
import sys
for i in range(3):
    sys.stderr.write(f"\\r{50 * i:3d}%|{'#' * i:<8}| {i}/2 curves")
"""


def told(folder: Path, code: str, log: str) -> list[str]:
    """What is said of the lines of a log."""
    shown = reconstruct_provenance(read_scripts({"run.py": code}), (log_of(log, folder),), ())
    return [line for line in format_provenance(shown) if "log lines" in line and "specific" not in line]


@pytest.mark.parametrize(
    ("code", "log", "owns"),
    [
        (
            KEYED,
            '{"t": "03:04:05", "event": "start", "seeds": 3}\n{"t": "03:04:09", "run": "plain", "seed": 0, '
            '"acc": 0.9}\n',
            2,
        ),
        (RECORDS, '[03:04:05] {"seed": 0, "auc": 0.91, "ap": 0.8}\n[03:04:06] {"seed": 1, "auc": 0.9, "ap": 0.7}\n', 2),
        (BAR, "  0%|        | 0/2 curves\r 50%|#       | 1/2 curves\r100%|##      | 2/2 curves", 3),
        ("import logging\nlogging.info('kept %d (%.0f%%)', n, share)\n", "kept 5 (97%)\nkept 6 (98%)\n", 2),
    ],
    ids=["names and values", "records", "bar", "percent"],
)
def test_lines_that_are_put_together_are_known_again(tmp_path: Path, code: str, log: str, owns: int) -> None:
    assert told(tmp_path, code, log) == [f"{owns} of {owns} log lines are printed by the code"]
    shown = reconstruct_provenance(read_scripts({"run.py": code}), (log_of(log, tmp_path),), ())
    assert shown.run_status == {"run.py": "ran"}


@pytest.mark.parametrize(
    ("code", "log"), [(SORTED, '[03:04:05] {"ap": 0.8, "auc": 0.91, "seed": 0}\n'), (HANDED, "0.93 0.88\nwritten: 3\n")]
)
def test_of_a_line_that_cannot_be_known_nothing_is_said(tmp_path: Path, code: str, log: str) -> None:
    said = told(tmp_path, code, log)
    assert said and all("may or may not be printed" in line for line in said), "and not that 0 of them are the code's"


def test_lines_of_no_string_are_named(tmp_path: Path) -> None:
    strange = "".join(f"The model of round {at} converges nicely\n" for at in range(5))
    trace = 'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\n    loss = fit(seed)\n'
    said = told(tmp_path, RUN, LOG + trace + strange)
    assert said[0] == "3 of 11 log lines are printed by the code"
    assert said[1].startswith("5 of 11") and said[1].count("converges nicely") == 3 and "log.txt:7 " in said[1]
    assert "fit(seed)" not in " ".join(said), "the code of a trace is no line of a log"


def test_a_script_that_only_writes_is_not_said_not_to_have_run(tmp_path: Path) -> None:
    code = "import json\njson.dump({'score': 0.5}, open('results/table.json', 'w'))\n"
    shown = reconstruct_provenance(
        read_scripts({"run.py": RUN, "net.py": NET, "table.py": code, "left.py": "x = 1\n"}),
        (log_of(LOG, tmp_path),),
        ("scores.json", "table.json"),
    )
    said = list(format_provenance(shown))
    assert "no log line is specific to it, but the files that it writes exist: table.py" in said
    assert "unknown whether it ran: no log line is specific to it: left.py" in said


def test_a_name_that_is_put_together_of_what_code_says_is_written(tmp_path: Path) -> None:
    code = "for name in ('knn', 'tree'):\n    open(f'results/{name}.json', 'w').write('x')\n"
    shown = reconstruct_provenance(read_scripts({"run.py": code}), (), ("knn.json", "tree.json", "forest.json"))
    assert shown.writers == {"knn.json": ("run.py",), "tree.json": ("run.py",)}


def test_a_log_of_records_is_a_log_and_a_file_of_records_none(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("".join(f'{{"time": 179566509{at}.5, "acc": 0.9}}\n' for at in range(4)))
    (tmp_path / "predictions.jsonl").write_text('{"text": "mock results"}\n')
    (tmp_path / "train.jsonl").write_text('{"text": "mock results"}\n')
    assert [log.name for log in read_logs(tmp_path)] == ["events.jsonl"]
