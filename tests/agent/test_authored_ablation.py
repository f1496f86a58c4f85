"""`scientist ablate` with an author: it finds the command and the parts, is killed at every step, and is refused."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labwright.record.event_log import read_state
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from tests.command_line import run_scientist
from tests.repositories import FILES, make_repository
from tests.sandbox.package_index import PackageIndex, build_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]
FEATURES = "tinyfit/features.py"


def use(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def record(path: Path, *calls: dict[str, Any]) -> str:
    """Write an exchange in which the author makes these calls, and return the name of the model that replays it."""
    lines = [{"role": "coder", "ordinal": number, "answer": one} for number, one in enumerate(calls)]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return f"replay:{path}"


def ablate(*words: object) -> subprocess.CompletedProcess[str]:
    return run_scientist("ablate", *words, "--workers", 2)


def part(name: str, old: str, new: str, **fields: Any) -> dict[str, Any]:
    way = {"what": f"{name} adds no column", "edits": [{"path": FEATURES, "old": old, "new": new}]}
    return {"name": name, "path": FEATURES, "symbol": name, "why": "a feature", "prior": 0.5, "ways": [way], **fields}


PLACES = {"data": ["train.py"], "targets": ["train.py"], "metric": ["train.py"]}
PARTS = [
    part("tilt", "return [x[:, 0]]", "return []"),
    part("wobble", "return [np.sin(9 * x[:, 3])]", "return []"),
    part("bend", "", "", path="train.py", symbol="bend", ways=[{"what": "--no-bend", "words": ["--no-bend"]}]),
]
LITERAL_SEED = FILES["train.py"].replace("np.random.default_rng(opts.seed)", "np.random.default_rng(7)").replace(
    'parser.add_argument("--seed", type=int, default=0)\n', ""
)  # fmt: skip
QUIET = LITERAL_SEED.partition('with open("metrics.json"')[0] + (
    'import sys\nprint("r2:", float(1 - (rest ** 2).mean() / y[300:].var()), file=sys.stderr)\n'
)
REASONS = "the seed was a literal, and the result is on standard error; " + "and so on, " * 20 + "to the end"
PREPARE = (
    use("read", path="train.py"),
    use("run", command="python train.py", seconds=30),
    use("hand_in", words=["python", "train.py"], metric="stdout:r2: ([0-9.]+)", direction="max", reasons="as it is"),
    use("edit", path="train.py", old="default_rng(7)", new="default_rng(opts.seed)"),
    use(
        "edit",
        path="train.py",
        old='parser.add_argument("--no-bend"',
        new='parser.add_argument("--seed", type=int, default=7)\nparser.add_argument("--no-bend"',
    ),
    use(
        "hand_in",
        words=["python", "train.py", "--seed", "{seed}"],
        metric="output:r2: ([0-9.]+)",
        direction="max",
        reasons=REASONS,
    ),
)


def test_an_author_finds_the_command_and_the_parts(tmp_path: Path) -> None:
    """The seed is a literal, the result is on standard error, and no document names a command."""
    files = {name: text for name, text in FILES.items() if name != "README.md"} | {"train.py": QUIET}
    code, out = make_repository(tmp_path / "tinyfit", files), tmp_path / "out"
    wrong = [
        part("tilt", "return [x[:, 0]]", "return []"),
        part("data", "rng.uniform(-1", "rng.uniform(0", path="train.py"),
    ]
    wrong[1]["ways"][0]["edits"][0]["path"] = "train.py"
    model = record(
        tmp_path / "exchange.jsonl",
        *PREPARE,
        use("hand_in", parts=wrong, **PLACES, reasons="a guess"),
        use("hand_in", parts=PARTS, **PLACES, left_out=["banner: it only prints"], reasons="columns of the design"),
    )
    ran = ablate(code, "--model", model, "--top", 2, "--budget-runs", 30, "--out", out)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads((out / "ablations.json").read_text())
    assert found["command"]["by"] == "model" and found["command"]["command"]["metric"] == "output:r2: ([0-9.]+)"
    [repair] = found["repairs"]
    assert repair["failure"] == "" and "+rng = np.random.default_rng(opts.seed)" in repair["patch"]
    assert f"\n{REASONS}\n" in (out / "report.md").read_text()
    logged = run_scientist("logs", out).stdout
    assert logged.count("started, first call: read") == 1 and logged.count("started, first call: hand_in") == 1
    assert found["baseline"]["same_seed"] == "same digits" and found["baseline"]["verdict"] == "unchecked"
    assert found["ablations"]["top"] == ["tilt", "bend"]
    assert {one["part"] for one in found["ablations"]["results"]} >= {"tilt", "bend", "wobble"}
    used = list(read_state(out).calls.tool_uses.values())
    assert "no printed line matches" in used[2].result and used[2].failed
    assert "train.py makes data, targets or the metric and may not change" in used[6].result
    assert [one.tool for one in used] == ["read", "run", "hand_in", "edit", "edit", "hand_in", "hand_in", "hand_in"]
    again = ablate(code, "--model", model, "--top", 2, "--budget-runs", 30, "--out", out)
    assert again.returncode == 0 and len(read_state(out).calls.answers) == 8


def test_a_checkout_is_as_its_author_knows_it(tmp_path: Path) -> None:
    """A folder to run in, words with blanks, git, data that git ignores, and a result in a text file."""
    script = (
        "import random, subprocess, sys\n"
        "offset = float(open('../data/points.txt').read())\n"
        "assert subprocess.check_output(['git', 'rev-list', '--count', 'HEAD']).split() == [b'1']\n"
        "random.seed(sys.argv[1])\n"
        "open('log.txt', 'w').write(''.join(f'{sys.argv[2]} r2={offset + random.random()}\\n' for _ in range(4)))\n"
        "open(sys.argv[3] + '/kept.txt', 'w').write('kept')\n"
    )
    code = make_repository(tmp_path / "tiny", {"src/train it.py": script, ".gitignore": "data\n"})
    (tmp_path / "points.txt").write_text("2.0")
    out = tmp_path / "out"
    ran = ablate(
        *(code, "--command", "cd src && python 'train it.py' {seed} 'a b' {out}"),
        *("--metric", "src/log.txt:a b r2=([0-9.]+)@mean", "--mount", f"data/points.txt={tmp_path / 'points.txt'}"),
        *("--reproduce-only", "--out", out),
    )
    assert ran.returncode == 0, ran.stdout[-2000:]
    found = json.loads((out / "ablations.json").read_text())
    assert found["baseline"]["same_seed"] == "same digits" and 2 < found["baseline"]["mean"] < 3
    assert "cd src && python 'train it.py' {seed} 'a b' {out}" in (out / "report.md").read_text()


HAND_IN = use(
    "hand_in",
    words=["python", "train.py", "--seed", "{seed}"],
    metric="metrics.json:test.r2",
    direction="max",
    reasons="as the README says",
)


def hand_in(**fields: Any) -> dict[str, Any]:
    return use("hand_in", **HAND_IN["arguments"] | fields)


def test_a_command_that_needs_more_time_ends_the_work_and_goes_on_with_more(tmp_path: Path) -> None:
    slow = FILES | {"train.py": f"import time\ntime.sleep(1.5)\n{FILES['train.py']}"}
    code, out = make_repository(tmp_path / "tinyfit", slow), tmp_path / "out"
    words = (code, "--model", record(tmp_path / "exchange.jsonl", *[HAND_IN] * 9), "--reproduce-only", "--out", out)
    ran = ablate(*words, "--timeout", "1s")
    assert ran.returncode == 5, ran.stderr[-2000:]
    state = read_state(out)
    assert len(state.calls.answers) == 3 and len(state.nodes) == 1
    first, second = (one.result for one in state.calls.tool_uses.values())
    assert first.startswith("seed 0: the wall-clock limit of 1 s was reached\n") and "in `impossible`" in first
    assert "the third time ends your work" in second
    report = (out / "report.md").read_text()
    assert "`python train.py --seed {seed}` with metric metrics.json:test.r2: seed 0: the wall-clock limit" in report
    assert "continue with a longer --timeout and the same --out" in report and "no command" not in report
    assert ablate(*words).returncode == 0
    assert read_state(out).repository.command is not None
    assert "is given**: mean 0.9" in (out / "report.md").read_text()


def test_an_author_may_say_that_the_result_cannot_be_produced(tmp_path: Path) -> None:
    code, out = make_repository(tmp_path / "tinyfit"), tmp_path / "out"
    why = "the data must be requested from a hospital."
    wrong = hand_in(words=["python", "train.py", "--data", "scans", "--seed", "{seed}"], impossible=why)
    model = record(tmp_path / "exchange.jsonl", wrong, HAND_IN)
    ran = ablate(code, "--model", model, "--reproduce-only", "--out", out)
    assert ran.returncode == 5 and len(read_state(out).calls.answers) == 1
    report = (out / "report.md").read_text()
    assert "the data must be requested from a hospital (seed 0: " in report and "unrecognized arguments" in report
    assert "the data must be requested" in ran.stderr + ran.stdout


def test_an_author_ends_at_the_time_limit_of_the_study_and_goes_on_after_it(tmp_path: Path) -> None:
    code, out = make_repository(tmp_path / "tinyfit"), tmp_path / "out"
    waits = [use("run", command=f"sleep 1; echo {n}") for n in range(5)]
    model = record(tmp_path / "exchange.jsonl", *waits, HAND_IN)
    words = (code, "--model", model, "--reproduce-only", "--out", out, "--time-limit")
    assert ablate(*words, "3s").returncode == 3
    calls = read_state(out).calls
    assert len(calls.answers) < 5 and "the time limit of 3 s was reached" in (out / "report.md").read_text()
    before = len(calls.answers)
    assert ablate(*words, "1h").returncode == 0
    assert len(read_state(out).calls.answers) == 6 > before


def test_commands_of_an_author_see_the_packages_that_it_handed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = PackageIndex()
    index.add(build_wheel("tinypin", "1.0", {"tinypin.py": "VALUE = 42\n"}))
    for name, value in (
        ("UV_DEFAULT_INDEX", index.url),
        ("UV_NO_CONFIG", "1"),
        ("UV_CACHE_DIR", str(tmp_path / "uv")),
        ("XDG_CACHE_HOME", str(tmp_path / "cache")),
    ):
        monkeypatch.setenv(name, value)
    code, out = make_repository(tmp_path / "tinyfit"), tmp_path / "out"
    look = use("run", command="python -c 'import tinypin; print(tinypin.VALUE)'")
    model = record(
        *(tmp_path / "exchange.jsonl", look, hand_in(pins=["tinypin"], metric="metrics.json:nothing")),
        *(look, hand_in(pins=["no-such-package"]), look, HAND_IN),
    )
    try:
        assert ablate(code, "--model", model, "--reproduce-only", "--out", out).returncode == 0
    finally:
        index.close()
    results = [one.result for one in read_state(out).calls.tool_uses.values()]
    assert "No module named" in results[0] and results[2].startswith("42\n") and results[4].startswith("42\n")
    assert results[3].startswith("no-such-package: not installed: ")


def test_an_author_of_parts_reads_the_paper_of_the_repository(tmp_path: Path) -> None:
    """The paper is read once; a statement that is not on its page is not shown."""
    code, out = make_repository(tmp_path / "tinyfit"), tmp_path / "out"
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "tinyfit.md").write_text("# Method\n\nThe tilt column carries most of the fit.\n")
    said = {"page": 1, "text": "Tilt matters most.", "quote": "The tilt column carries most of the fit"}
    false = {"page": 1, "text": "Bend is decisive.", "quote": "bend decides everything"}
    model = record(tmp_path / "exchange.jsonl", use("hand_in", parts=PARTS[:1], **PLACES, reasons="as the paper says"))
    digests = [{"subject": "the method of tinyfit", "statements": each} for each in ([said, false], [said, false])]
    with open(tmp_path / "exchange.jsonl", "a") as file:
        for number, one in enumerate(digests):
            file.write(json.dumps({"role": "digest", "ordinal": number, "answer": one}) + "\n")
    words = ("--command", "python train.py --seed {seed}", "--metric", "metrics.json:test.r2", "--budget-runs", 20)
    ran = ablate(code, *words, "--context", tmp_path / "papers", "--model", model, "--out", out)
    assert ran.returncode in (0, 3), ran.stderr[-2000:]
    state = read_state(out)
    assert state.ablation.results is not None and [one.part for one in state.ablation.results.results] == ["tilt"]
    packed = [path.read_bytes() for path in (out / "prompts").rglob("*") if path.is_file()]
    prompts = "\n".join(gzip.decompress(one).decode() for one in packed)
    assert "[tinyfit.md part 1] Tilt matters most." in prompts and "Bend is decisive." not in prompts
