"""`scientist trace`: from a printed number to claims, nodes, files and code; or the nearest that is printed."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from labwright.agent.cli import main
from labwright.agent.cli.errors import print_lines
from labwright.agent.cli.trace import format_trace
from labwright.inspector.number_tracer import NumberTracer, parse_number
from labwright.inspector.provenance import NumberOrigin, NumberTrace, TraceCandidate, TracedFile
from labwright.record.claims.estimates import Claim, compute_paper_claims, find_replicates, find_winner
from labwright.record.claims.formatting import format_claims
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.event_log import EventLog, read_state
from labwright.record.events.search_events import CellExecuted, CellsRequired
from labwright.record.result_macros import to_plain_text
from labwright.record.run_folder import RunFolder
from labwright.record.schema.nodes import Cell, CellRun
from tests.recorded_run import recorded_run
from tests.stages import finished_run

KEY = "test/digits/log_loss/method@noise20"
DIFFERENCE = "diff/digits/log_loss/method@noise20~baseline@noise20"
CELL = f"{'0' * 24}-0"
SOURCE = """\
import lab
LEARNING_RATE = 0.003
lab.log("loss", 1.0, step=3, dataset="digits")
lab.submit("wine", "test", condition, predictions=p)
lab.submit(name, "validation", condition, predictions=p)
lab.submit(name, "test", condition, predictions=p)
lab.submit(name, "test", condition, predictions=p, step=7)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose paper prints a mean, a difference and a setting, with a node's predictions beside it."""
    root = finished_run.write_run(tmp_path_factory.mktemp("runs") / "run")
    folder, state = RunFolder(root), read_state(root)
    (folder.paper_folder / "paper.tex").write_text(
        f"The loss is \\result{{{KEY}.pm}} here,\nby \\result{{{DIFFERENCE}.mean}} less.\n"
        "The rate was \\setup{code.LEARNING_RATE}.\n"
    )
    (folder.paper_folder / "appendix.tex").write_text(
        "\\rec{n0003} & -- & tune & good & \\rec{0.4242} \\\\\n"
        "digits & log loss & method@\\allowbreak{}noise20 & "
        + ", ".join(f"\\rec{{{seed}:}} \\rec{{{value:.4g}}}" for seed, value in pairs(root))
        + " \\\\\n"
    )
    best = find_winner(state) or ""
    for node in (best, *(one.id for one in find_replicates(state, best))):
        folder.get_source_path(node).mkdir(parents=True)
        (folder.get_source_path(node) / "experiment.py").write_text(SOURCE)
        sealed = folder.get_attempt_path(node, 1) / "sealed"
        sealed.mkdir(parents=True)
        lines = [
            {"file": f"{n}.npz", "dataset": "digits", "split": "test", "condition": condition, "step": None}
            for n, condition in enumerate(("baseline@noise20", "method@noise20"))
        ]
        (sealed / "index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = EventLog(folder.events)
    one = Cell(dataset="digits", arm="method", level="noise20", seed=1)
    measured_by, *others = claim_of(root).nodes
    log.append(CellsRequired(node=measured_by, cells=(one,), keys=("0" * 64,)))
    log.append(CellExecuted(node=measured_by, run=CellRun(id=CELL, cell=one, key="0" * 64, seconds=1.0)))
    log.append(CellsRequired(node=others[0], cells=(one,), keys=("0" * 64,), taken={"0" * 64: CELL}))
    log.close()
    return root


def claim_of(root: Path) -> Claim:
    return next(one for one in compute_paper_claims(read_state(root)) if one.key == KEY)


def pairs(root: Path) -> list[tuple[int, float]]:
    claim = claim_of(root)
    return list(zip(claim.seeds, claim.values, strict=True))


def traced(capsys: pytest.CaptureFixture[str], run: Path, number: str, code: int = 0) -> dict[str, Any]:
    assert main(["trace", str(run), number, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_printed_mean_leads_to_its_nodes_files_code_and_command(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = claim_of(run)
    mean = to_plain_text(format_claims([claim])[f"{KEY}.mean"])
    found = next(one for one in traced(capsys, run, mean)["candidates"] if one["key"] == KEY)
    assert found["places"] == [{"file": "paper/paper.tex", "line": 1, "text": found["places"][0]["text"]}]
    assert f"{mean} ±" in found["places"][0]["text"]
    assert [(one["node"], one["seed"]) for one in found["origins"]] == list(zip(claim.nodes, claim.seeds, strict=True))
    assert {one["files"][0]["path"] for one in found["origins"]} == {
        f"nodes/{node}/attempt1/sealed/1.npz" for node in claim.nodes
    }
    assert [(place["line"], place["text"]) for place in found["code"]] == [(6, SOURCE.splitlines()[5])]
    assert [(one["cell"], one["measured_by"]) for one in found["origins"]][:3] == [
        (f"cells/{CELL}", ""),
        (f"cells/{CELL}", claim.nodes[0]),
        ("", ""),
    ]
    assert found["reproduce_command"] == f"scientist reproduce {run} " + " ".join(
        f"--node {node}" for node in claim.nodes
    )


def test_settings_values_by_seed_and_rows_of_the_record_are_found(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = traced(capsys, run, "0.003")["candidates"][0]
    assert (setting["kind"], setting["key"], setting["code"][0]["line"]) == ("setting", "code.LEARNING_RATE", 2)
    seed, value = pairs(run)[0]
    single = next(one for one in traced(capsys, run, f"{value:.4g}")["candidates"] if one["kind"] == "value")
    assert single["what"] == f"value of seed {seed}" and [one["seed"] for one in single["origins"]] == [seed]
    row = traced(capsys, run, "0.4242")["candidates"][0]
    assert (row["kind"], row["key"], row["places"][0]["line"]) == ("text", "n0003", 1)


def test_what_is_printed_nowhere_exits_5_with_the_nearest(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mean = float(to_plain_text(format_claims([claim_of(run)])[f"{KEY}.mean"]))
    found = traced(capsys, run, f"{100 * mean + 0.01:.2f}", code=5)
    assert found["candidates"] == [] and found["nearest"][0] == f"{mean:.3f} ({KEY}.pm)"
    near = [float(one.partition(" ")[0]) for one in traced(capsys, run, "0.5123", code=5)["nearest"]]
    assert len(near) > 2 and near == sorted(near, key=lambda one: abs(one - 0.5123)), "no share of 1 is a percentage"
    assert main(["trace", str(run), "-771.5"]) == 5
    assert "no such number in this paper; nearest:" in capsys.readouterr().out
    assert main(["trace", str(run), "many"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_titles_of_columns_break_between_arm_and_level() -> None:
    names = [f"{arm}@noise{level}" for arm in ("baseline", "smoothed") for level in (0, 20, 40)]
    origins = tuple(NumberOrigin(node="n0001", seed=1, value=0.123456, condition=name) for name in names)
    one = TraceCandidate(kind="claim", key="k", what="mean", printed="0.1", origins=origins)
    screen = StringIO()
    print_lines(format_trace(NumberTrace(number="0.1", candidates=(one,))), Console(file=screen, width=80))
    words = screen.getvalue().split()
    assert words.count("baseline") == words.count("smoothed") == 3 and words.count("@noise20") == 2


def test_the_page_names_every_part(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(run), to_plain_text(format_claims([claim_of(run)])[f"{KEY}.mean"])]) == 0
    out = capsys.readouterr().out
    assert all(f"  {part} " in out for part in ("printed", "node", "data", "code", "rerun"))
    _, taking_over, *_ = claim_of(run).nodes
    assert f"cells/{CELL}, measured by {claim_of(run).nodes[0]} and reused by {taking_over}" in out
    assert "sealed test predictions" in out and "\x1b" not in out


def test_a_mean_over_22_seeds_fits_a_screen_and_names_what_changed() -> None:
    files = [TracedFile(path=f"cells/{k}/a.npz", sha256="0" * 64, same=k != 3, holds="predictions") for k in range(22)]
    origins = tuple(
        NumberOrigin(node=f"n{k:04}", seed=k, value=k / 7, condition="method@noise20", files=(file,), cell=f"cells/{k}")
        for k, file in enumerate(files)
    )
    one = TraceCandidate(kind="claim", key=KEY, what="mean", printed="0.5", origins=origins)
    console = Console(record=True, file=StringIO(), width=80)
    print_lines(format_trace(NumberTrace(number="0.5", candidates=(one,))), console)
    lines = console.export_text().splitlines()
    assert len(lines) <= 45 and sum("cells/" in line for line in lines) == 22 + 2
    assert any(line.endswith("cells/3/a.npz CHANGED SINCE") for line in lines) and "0" * 64 not in str(lines)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("87.3", "87.3"),
        ("+5%", "5"),
        (" -0.021 ", "-0.021"),
        ("\u22120.5", "-0.5"),
        ("1e-05", "1e-05"),
        ("n0003", None),
        ("1.2.3", None),
        ("", None),
    ],
)
def test_numbers_as_people_write_them(text: str, number: str | None) -> None:
    assert parse_number(text) == number


def test_a_verdict_leads_past_the_hypothesis_to_predictions_cells_and_lines() -> None:
    run = recorded_run()
    state = read_state(run)
    decided = next(one for one in decide_hypotheses(state) if one.hypothesis.confirmatory)
    found = NumberTracer(state, RunFolder(run), run="RUN").trace_key(f"{decided.key}/1.mean")
    assert found is not None
    [one] = found.candidates
    assert any(origin.cell and origin.files for origin in one.origins) and one.code
    assert one.origins[0].condition == decided.parts[0].effect.estimand, "the effects in every unit come first"
