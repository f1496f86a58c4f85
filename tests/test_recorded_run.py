"""`examples/recorded-run.zip` covers every feature, is valid and small, and is not changed by viewing it."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from labwright.agent.cli import main
from labwright.inspector.web.page_renderer import TABS
from labwright.models.replay import open_replay
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.event_log import read_state
from labwright.record.llm_calls import find_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import hash_file
from labwright.record.schema.nodes import STAGES
from labwright.record.zips import open_run_folder
from tests.inspector.web_server import running_server
from tests.recorded_run import EXAMPLES, MODEL, RECORDED, SECOND, recorded_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LARGEST = 6_000_000
"""Size limit of all examples in a git pack, in bytes."""
LOOKS = (("status",), ("tree",), ("logs",), ("status", "--json"), ("tree", "--json"))


@pytest.fixture(scope="module")
def state() -> RunState:
    return read_state(recorded_run())


@pytest.fixture(scope="module")
def web() -> Generator[httpx.Client]:
    before = _files(recorded_run())
    with running_server(recorded_run()) as client:
        yield client
    assert _files(recorded_run()) == before, "looking changes nothing"


def _files(run: Path) -> dict[str, str]:
    """Return every file and folder with its content."""
    return {str(path.relative_to(run)): hash_file(path) if path.is_file() else "" for path in sorted(run.rglob("*"))}


# --- what it is -----------------------------------------------------------------------------------------------------


def test_every_kind_of_node_and_act_is_in_it(state: RunState) -> None:
    nodes = list(state.nodes.values())
    assert {node.kind for node in nodes} == {
        "draft",
        "debug",
        "improve",
        "trial",
        "tune",
        "ablate",
        "replicate",
        "aggregate",
        "rung",
    }
    assert {node.stage for node in nodes} == set(STAGES)
    assert {node.status for node in nodes} == {"good", "buggy", "cancelled"}
    asked = [one.command for one in state.user_commands]
    assert [one.verb for one in asked] == ["note", "mark", "kill", "pause", "resume"]
    assert {one.by for one in asked} == {"ada"}
    assert all(one.text for one in asked)
    assert state.paper.released is not None and state.paper.released.released and state.process_end is not None
    assert state.process_end.exit_code == 0 and state.paper.judged is not None


def test_prompts_of_all_calls_are_kept_and_a_note_is_in_those_of_its_stage(state: RunState) -> None:
    [note] = [one.command.text for one in state.user_commands if one.command.verb == "note"]
    noted: set[str] = set()
    for answered in state.calls.answers.values():
        kept = find_prompt(recorded_run(), answered)
        assert kept is not None and kept.asked is not None and not kept.changed
        if note in kept.asked.user:
            noted |= {node.stage for node in state.nodes.values() if node.decision == answered.key.decision}
    assert noted == {"agenda"}


def test_it_tells_nothing_of_a_machine() -> None:
    wrong = re.compile(rb"/root/|/home/\w|/work/(?:main|example|runtree)|/Users/\w")
    for path in chain(
        EXAMPLES.rglob("*"), recorded_run().rglob("*"), *(open_run_folder(one).rglob("*") for one in (MODEL, SECOND))
    ):
        if path.is_file():
            text = path.read_bytes()
            assert not wrong.search(gzip.decompress(text) if path.suffix == ".gz" else text), path
    assert not [name for name in ("lock", "cache", "control") if (recorded_run() / name).exists()]


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no git checkout")
def test_git_takes_all_of_it_and_touches_no_byte() -> None:
    names = "".join(f"{path.relative_to(ROOT)}\n" for path in (RECORDED, MODEL, SECOND))
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        cwd=ROOT,
        input=names,
        text=True,
        capture_output=True,
        timeout=600,
    )
    assert ignored.stdout == ""
    found = subprocess.run(
        ["git", "check-attr", "text", "diff", "--stdin"],
        cwd=ROOT,
        input=names,
        text=True,
        capture_output=True,
        timeout=600,
        check=True,
    )
    assert found.stdout and all(line.endswith(": unset") for line in found.stdout.splitlines())
    listed = subprocess.run(
        ["git", "ls-files", "-s", "examples"], cwd=ROOT, capture_output=True, timeout=600, text=True, check=True
    )
    blobs = "".join(f"{one}\n" for one in sorted({line.split()[1] for line in listed.stdout.splitlines()}))
    packed = subprocess.run(
        ["git", "pack-objects", "--stdout", "-q"],
        cwd=ROOT,
        input=blobs.encode(),
        timeout=600,
        capture_output=True,
        check=True,
    )
    assert 0 < len(packed.stdout) <= LARGEST


def test_the_run_of_a_language_model_opens_and_its_numbers_are_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = MODEL
    state = read_state(open_run_folder(run))
    assert state.paper.released is not None and state.paper.released.released and state.paper.version == 3
    assert [one.verdict for one in decide_hypotheses(state) if one.confirmed] == ["supported"] * 2
    assert main(["trace", str(run), "0.46"]) == 0
    assert "n0040  10000  -0.00278552" in capsys.readouterr().out
    assert main(["export", str(run), "--exchange", str(tmp_path / "exchange.jsonl")]) == 0
    assert (
        sum(open_replay(f"replay:{tmp_path / 'exchange.jsonl'}").recorded_answers.values())
        == len(state.calls.answers)
        == 109
    )
    with running_server(open_run_folder(run)) as client:
        page = client.get("/runs/early-stopping").text
        assert "supported" in page and client.get("/runs/early-stopping/paper").status_code == 200


def test_its_exchange_holds_an_answer_for_each_call(state: RunState, tmp_path: Path) -> None:
    assert main(["export", str(recorded_run()), "--exchange", str(tmp_path / "exchange.jsonl")]) == 0
    asked = Counter(answered.key.role for answered in state.calls.answers.values())
    assert asked == open_replay(f"replay:{tmp_path / 'exchange.jsonl'}").recorded_answers


# --- looking changes nothing ----------------------------------------------------------------------------------------


@pytest.mark.bench  # tests/inspector/test_web.py does the same for a small run
@pytest.mark.slow
def test_looking_changes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _files(recorded_run())
    for words in LOOKS:
        assert main([words[0], str(recorded_run()), *words[1:]]) == 0, words
    capsys.readouterr()
    assert main(["trace", str(recorded_run()), _printed()]) == 0
    out = [f"--{kind}={tmp_path / kind}" for kind in ("events", "tree", "zip")]
    assert main(["export", str(recorded_run()), *out]) == 0
    capsys.readouterr()
    assert main(["resume", str(recorded_run())]) == 0
    assert "verdicts" in capsys.readouterr().out
    assert main(["pause", str(recorded_run())]) == 2
    assert "the run has finished" in capsys.readouterr().err
    assert _files(recorded_run()) == before


def _printed() -> str:
    """Return a number printed in the results."""
    text = (recorded_run() / "paper" / "results.tex").read_text()
    found = re.search(r"\b0\.\d{3}\b", text)
    assert found
    return found[0]


@pytest.mark.slow
def test_it_opens_from_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    before = hash_file(RECORDED)
    read_only = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
        str(tmp_path),
        str(tmp_path),
        "--setenv",
        "TMPDIR",
        str(tmp_path),
        "--setenv",
        "HOME",
        str(tmp_path),
    ]
    if not shutil.which("bwrap") or subprocess.run([*read_only, "true"], capture_output=True, timeout=600).returncode:
        read_only = []  # then check only that nothing changed
    code = (
        "import sys; from labwright.agent.cli import main; "
        "sys.exit(max(main([word, sys.argv[1]]) for word in ('audit', 'status')))"
    )
    done = subprocess.run(
        [*read_only, sys.executable, "-c", code, str(RECORDED)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "clean: 0 unbound" in done.stdout and hash_file(RECORDED) == before
    assert [*tmp_path.iterdir()] == [], "what was unpacked is removed"


# --- every page -----------------------------------------------------------------------------------------------------


def _links(text: str, *, having: str) -> Iterator[str]:
    yield from dict.fromkeys(
        link.replace("&amp;", "&") for link in re.findall(r'(?:href|src)="(/[^"#]+)', text) if having in link
    )


@pytest.mark.slow
def test_reference_models_have_the_name_of_the_glossary(
    web: httpx.Client, state: RunState, capsys: pytest.CaptureFixture[str]
) -> None:
    node = next(one.id for one in state.nodes.values() if one.kind == "rung")
    for command in ("tree", "logs", "status"):
        assert main([command, str(recorded_run())]) == 0
        printed = capsys.readouterr().out
        assert not re.search(r"\brungs?\b", printed) and ("reference model" in printed or command == "status")
    for view in ("tree", "table", "chart", "cells", "events", f"nodes/{node}"):
        shown = re.sub(r"<[^>]*>", " ", web.get(f"/runs/recorded-run/{view}").raise_for_status().text)
        assert not re.search(r"\brungs?\b", shown), view


@pytest.mark.bench
@pytest.mark.slow
def test_every_node_has_its_panel_with_its_parts(web: httpx.Client, state: RunState) -> None:
    page = "/runs/recorded-run/nodes/"
    for node in state.nodes.values():
        answer = web.get(page + node.id)
        assert answer.status_code == 200, node.id
        text = answer.text
        if node.status == "cancelled":
            assert "This recording shows what a kill looks like" in text
            continue
        assert "<h3>experiment.py</h3>" in text or node.kind == "aggregate", node.id
        changed = node.parent is None or node.source_sha256 != state.nodes[node.parent].source_sha256
        if node.kind in ("debug", "improve", "tune", "ablate") and changed:
            assert '<pre class="diff">' in text, node.id
        if node.kind not in ("replicate", "aggregate", "rung", "trial"):  # which no model wrote
            assert "prompt and answer" in text, node.id
        for link in _links(text, having="/plots"):
            assert web.get(link).status_code == 200, link
    failed = next(node for node in state.nodes.values() if node.status == "buggy")
    assert "ValueError" in web.get(page + failed.id).text


def test_every_page_answers(web: httpx.Client, state: RunState) -> None:
    pages = {view: web.get(f"/runs/recorded-run/{view}").text for view in TABS}
    for view, page in pages.items():
        assert f'aria-current="page">{view.capitalize()}<' in page
    assert "all numbers, figures and citations are bound to the record" in pages["checks"]
    assert "by ada" in pages["events"]
    assert "the run has finished" in pages["overview"] and 'method="post"' not in pages["overview"]
    calls = web.get("/runs/recorded-run/calls").text
    for key in list(state.calls.answers)[:: max(1, len(state.calls.answers) // 12)]:
        answer = web.get(f"/runs/recorded-run/calls/{quote(str(key), safe='')}")
        assert answer.status_code == 200 and "Prompt" in answer.text, key
    assert "code" in calls
    debugged = next(node.id for node in state.nodes.values() if node.kind == "debug")
    assert web.get(f"/runs/recorded-run/files/nodes/{debugged}/attempt1/node.ipynb").status_code == 200


@pytest.mark.slow
def test_numbers_of_the_paper_lead_to_measurements(web: httpx.Client) -> None:
    text = web.get("/runs/recorded-run/paper").text
    numbers = list(_links(text, having="/trace?key=test"))
    assert len(numbers) > 12
    for link in numbers[:: max(1, len(numbers) // 8)]:
        assert re.search(r"n\d{4}", web.get(link).text), link
    [*sheets] = _links(text, having="/sheets/")
    assert web.get(sheets[0]).headers["content-type"] == "image/png"
    [*figures] = _links(text, having="/figures/")
    assert figures and all(web.get(link).status_code == 200 for link in figures)


def test_reproduce_calls_kinds_of_nodes_by_their_names(state: RunState, capsys: pytest.CaptureFixture[str]) -> None:
    node = [one.id for one in state.nodes.values() if one.kind == "rung"][-1]
    assert main(["reproduce", str(RECORDED), "--node", node]) == 0
    assert f"{node} (reference model, seed " in capsys.readouterr().err


def test_the_first_rows_of_the_cells_have_values_in_the_first_columns(web: httpx.Client) -> None:
    grid = web.get(f"/runs/{RECORDED.stem}/cells").text
    first = grid[grid.index("<tbody>") :].partition("</tr>")[0]
    assert re.match(r".*?</a>.*?</td><td class=\"n o-", first, re.DOTALL), (
        "not a row of an ablation, whose columns are last"
    )


def test_nodes_without_a_value_stand_below_the_axis_of_the_chart(web: httpx.Client) -> None:
    chart = web.get(f"/runs/{RECORDED.stem}/chart").text
    axis = float(re.findall(r'class="axis" d="M0 0V([\d.]+)', chart)[0])
    heights = [float(one) for one in re.findall(r'class="dot k-[a-z]+ none[^>]*translate\([\d.]+ ([\d.]+)\)', chart)]
    assert heights and min(heights) > axis + 33, "below the ticks and the name of the axis"
    assert ">no value</text>" in chart
