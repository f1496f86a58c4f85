"""The audit of papers that are not ours: classes of numbers, formats of papers and of results."""

from __future__ import annotations

import json
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labwright.agent.cli import main
from labwright.review.external_papers.result_files import MAX_FILE_BYTES, read_results
from labwright.review.external_papers.verdicts import ExternalPaperAudit, audit_paper
from tests.review.test_judge import BODY, pdf

RUNS = {"net": [0.912, 0.908, 0.931], "tree": [0.847, 0.853, 0.844]}
PAPER = f"""# Rain

## Abstract
The net reaches an accuracy of 91.7% and leads by 6.9 percentage points.

## 1 Introduction
{BODY} We had 77.7% once.

## 4 Experiments

### 4.1 Setup
We use a rate of 0.0371 and 3 seeds.

### 4.2 Comparison
| Method | Accuracy | Latency (ms) |
|---|---|---|
| Net | **0.917** | 12.63 |
| Tree | 0.848 | **4.18** |

Table 1: Means over seeds. One run of the net reaches 0.931.

The latency rises by 8.45 ms, and memory by 55.5%.
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "paper.md").write_text(PAPER)
    rows = [f"{name},{seed},{value}" for name, values in RUNS.items() for seed, value in enumerate(values)]
    (tmp_path / "results" / "runs.csv").write_text("\n".join(["method,seed,accuracy", *rows]))
    timing = {"net": {"latency": 12.6312}, "tree": {"latency": 4.177}}
    (tmp_path / "results" / "timing.json").write_text(json.dumps(timing))
    return tmp_path


async def audited(place: Path, text: str = "", results: str | None = "results") -> ExternalPaperAudit:
    if text:
        (place / "paper.md").write_text(text)
    return await audit_paper(place / "paper.md", results=place / results if results else None)


def classes(report: ExternalPaperAudit) -> dict[str, str]:
    return {one.claim.number.text: one.kind for one in report.verdicts}


async def test_each_number_gets_the_class_it_deserves(place: Path):
    report = await audited(place)
    assert classes(report) == {
        "91.7%": "derivable",
        "6.9 percentage points": "derivable",
        "0.917": "derivable",
        "0.848": "derivable",
        "12.63": "found",
        "4.18": "found",
        "0.931": "found",
        "8.45": "derivable",
        "55.5%": "unsupported",
    }
    evidence = {one.claim.number.text: one.evidence for one in report.verdicts}
    assert evidence["12.63"].startswith("timing.json, net.latency")
    assert evidence["0.917"].startswith("runs.csv: mean of 3 values of accuracy")
    assert evidence["8.45"] == "12.63 - 4.18"
    assert [one.claim.number.text for one in report.missing_results] == ["55.5%"] and report.finding_count == 1
    assert report.contradictions == ()


async def test_the_sign_of_a_table_counts(place: Path):
    (place / "results" / "fit.json").write_text(json.dumps({"net": {"r2": -0.4637}}))
    text = PAPER.replace("Table 1", "| Method | R2 |\n|---|---|\n| Net | 0.4637 |\n\nTable 1")
    assert classes(await audited(place, text))["0.4637"] == "unsupported"
    assert classes(await audited(place, text.replace("0.4637", "-0.4637")))["-0.4637"] == "found"


async def test_a_match_among_values_that_cover_everything_is_ambiguous(place: Path):
    np.save(place / "results" / "memory.npy", np.arange(50.0, 60.0, 0.1))
    assert classes(await audited(place))["55.5%"] == "ambiguous"


async def test_a_number_that_only_a_report_states_is_found_and_marked(place: Path):
    (place / "results" / "report.md").write_text("Memory rises by 55.5%.")
    report = await audited(place)
    assert classes(report)["55.5%"] == "found" and report.prose_only_count == 1


async def test_the_paper_is_no_result_of_itself(place: Path):
    shutil.copy(place / "paper.md", place / "results" / "copy.md")
    assert classes(await audited(place))["55.5%"] == "unsupported"


# --- numbers that need not be in a file -----------------------------------------------------------------------------


async def test_means_of_rows_that_share_a_label_are_derivable(place: Path) -> None:
    runs = [
        (arm, data, (61.13 if arm == "net" else 43.71) + 7.3 * (data == "hail"))
        for arm in ("net", "tree")
        for data in ("rain", "hail")
    ]
    rows = [
        f"{arm},{data},r{number}{seed},{value + seed / 3}"
        for number, (arm, data, value) in enumerate(runs)
        for seed in range(5)
    ]
    (place / "results" / "runs.csv").write_text("\n".join(["method,data,run,score", *rows]))
    (place / "paper.md").write_text(f"# Rain\n\n{BODY}\n\n## Results\n\nNet has a mean score of 65.45.\n")
    assert classes(await audited(place))["65.45"] == "derivable"


COMPRESSION = """| Bits | Bytes | Compression |
|---|---|---|
| 32 | 2560 | {base} |
| 8 | 680 | {first} |
| 4 | 360 | 7.1 |
| 3 | 280 | 9.1 |
"""


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("The latency is 0.01263 s for the net.", []),  # results in ms
        ("The latency is 0.01263 h for the net.", ["0.01263"]),
        ("With 3 tests, a level of 0.05 becomes 0.0167.", []),
        ("With 3 tests, a level of 0.05 becomes 0.0176.", ["0.0176"]),
        ("One run costs 12.63 ms (95% interval [11.57, 13.69]).", []),
        ("The interval of the other is [11.57, 13.69].", ["11.57", "13.69"]),
        ("With 3 runs, the factor between net and tree is 3.02.", []),
        ("It reaches 48.3 % instead of 48.9 %, a difference of 0.6 points.", ["48.3 %", "48.9 %"]),
        (COMPRESSION.format(base="1.0", first="3.8"), []),
    ],
)
async def test_a_number_that_follows_from_others_is_not_missing(place: Path, text: str, missing: list[str]) -> None:
    timing = {"net": {"latency_ms": 12.6312}, "tree": {"latency_ms": 4.177}}
    (place / "results" / "timing.json").write_text(json.dumps(timing))
    (place / "results" / "sizes.csv").write_text("bits,bytes\n32,2560\n8,680\n4,360\n3,280\n")
    latency = "Net takes 12.63 ms and tree 4.18 ms."
    (place / "paper.md").write_text(f"# Rain\n\n{BODY}\n\n## Results\n\n{latency}\n\n{text}\n")
    report = await audit_paper(place / "paper.md", results=place / "results")
    assert [one.claim.number.text for one in report.missing_results] == missing


# --- formats --------------------------------------------------------------------------------------------------------


async def test_latex_is_read_with_its_tables_and_captions(place: Path):
    (place / "paper.tex").write_text(rf"""\documentclass{{article}}\begin{{document}}
\begin{{abstract}} The net reaches 91.7\%. {BODY}\end{{abstract}}
\section{{Setup}} A rate of 0.0371.
\section{{Results}} See Table~\ref{{t}} of \cite{{x12}}; memory rises by 55.5\%.
\begin{{table}}\caption{{Latency, one run at 0.931.}}\label{{t}}
\begin{{tabular}}{{l|cc}} \toprule Method & \multicolumn{{1}}{{c}}{{Accuracy}} & Latency (ms) \\ \midrule
Net & 0.917 & \textbf{{12.63}} \\ Tree & 0.848 & 4.18 \\ \bottomrule \end{{tabular}}\end{{table}}
\end{{document}}""")
    report = await audit_paper(place / "paper.tex", results=place / "results")
    assert classes(report) == {
        "91.7%": "derivable",
        "55.5%": "unsupported",
        "0.931": "found",
        "0.917": "derivable",
        "12.63": "found",
        "0.848": "derivable",
        "4.18": "found",
    }


async def test_a_pdf_is_read_line_by_line(place: Path):
    lines = ["Rain", "1 Introduction", *BODY.split(". "), "2 Results", "Net latency 12.63 and memory 55.5%."]
    (place / "p.pdf").write_bytes(pdf(lines))
    report = await audit_paper(place / "p.pdf", results=place / "results")
    assert classes(report) == {"12.63": "found", "55.5%": "unsupported"}


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.json": lambda path: path.write_text('{"net": {"loss": [0.51234, 1]}}'),
    "a.jsonl": lambda path: path.write_text('{"loss": 0.6}\n{"loss": 0.51234}\n'),
    "a.csv": lambda path: path.write_text("name,loss\nnet,0.51234 ± 0.01\n"),
    "a.tsv": lambda path: path.write_text("name\tloss\nnet\t0.51234\n"),
    "a.txt": lambda path: path.write_text("net: loss=0.51234\n"),
    "a.log": lambda path: path.write_text("2025-05-11 05:37:09,426 - INFO - loss: 0.51234\n"),
    "a.md": lambda path: path.write_text("| net | loss |\n|---|---|\n| a | 0.51234 |\n"),
    "a.yaml": lambda path: path.write_text("net:\n  loss: 0.51234\n"),
    "a.npy": lambda path: np.save(path, np.array([[1.0, 0.51234]])),
    "a.ipynb": lambda path: path.write_text(
        json.dumps({"cells": [{"source": ["x = 9.87654"], "outputs": [{"text": ["loss 0.51234\n"]}]}]})
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_form_of_result_file_is_read(tmp_path: Path, name: str):
    WRITERS[name](tmp_path / name)
    values = [value for one in read_results(tmp_path).series for value in one.values]
    assert 0.51234 in values and 9.87654 not in values and 2025 not in values


def test_what_cannot_be_read_is_said_and_nothing_is_unpickled(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.txt").write_text("loss 0.5\n" + "x" * MAX_FILE_BYTES)
    results = read_results(tmp_path)
    assert [line.partition(":")[0] for line in results.left_out] == ["a.npy", "b.json", "c.txt"]
    assert results.files == ["c.txt"]


@pytest.mark.slow
def test_files_that_stand_for_more_than_they_hold_are_left_out(tmp_path: Path):
    """Aliases of aliases, a text that holds itself, a number to the base of 60, an archive that unpacks, depth."""
    laughs = "a0: &a0 [1,2,3,4,5,6,7,8,9,10]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
    )
    merged = "k0: &k0 {x: 1}\n" + "".join(
        f"k{i}: &k{i} {{<<: [{','.join([f'*k{i - 1}'] * 10)}]}}\n" for i in range(1, 9)
    )
    for name, text in (
        ("a.yaml", laughs),
        ("b.yml", "a: &a\n  b: *a\n"),
        ("c.yaml", f"a: {':'.join(['1'] * 10_000)}"),
        ("d.yaml", merged),
        ("e.json", "[" * 200 + "1" + "]" * 200),
        ("f.json", "[" * 100_000),
        ("g.npz", "no zip"),
        ("h.ipynb", "[1]"),
    ):
        (tmp_path / name).write_text(text)
    with (
        zipfile.ZipFile(tmp_path / "i.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open("large.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (8 * 10**6,)})
        for _ in range(8):
            member.write(bytes(8 * 10**6))
    np.save(tmp_path / "j.npy", np.asfortranarray(np.ones((3, 4))))
    (tmp_path / "k.yaml").write_text("a: &a {loss: 0.5}\nb: *a\nc: {<<: *a, size: 3}\n")
    tracemalloc.start()
    results = read_results(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [line[: line.index(":")] for line in results.left_out] == [
        "a.yaml",
        "b.yml",
        "c.yaml",
        "d.yaml",
        "e.json",
        "f.json",
        "g.npz",
        "h.ipynb",
        "i.npz large",
    ]
    assert "a number has more than 100 characters" in results.left_out[2]
    assert [value for one in results.series if one.file == "k.yaml" for value in one.values] == [0.5, 0.5, 0.5, 3]
    assert results.files[-2:] == ["j.npy", "k.yaml"] and peak < 60e6


# --- the command ----------------------------------------------------------------------------------------------------


def command(*words: str | Path) -> int:
    return main(["audit", *map(str, words)])


def test_the_command_prints_a_table_and_exits_5_on_findings(place: Path, capsys: pytest.CaptureFixture[str]):
    assert command(place / "paper.md", "--results", place / "results") == 5
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 unsupported" in shown and "findings: 1 result in no result file" in shown
    (place / "paper.md").write_text(PAPER.replace(", and memory by 55.5%", ""))
    assert command(place / "paper.md", "--results", place / "results") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "findings: none" in shown and "whether the results are real is for a judge to decide" in shown
    (place / "paper.md").write_text(PAPER.replace("The latency", "It is right on 17 of 20 items (80%). It"))
    assert command(place / "paper.md") == 5
    assert "findings: 1 contradiction in arithmetic" in " ".join(capsys.readouterr().out.split())


SHORT = """# A small study of classifiers

We compare two classifiers on a small dataset that we collected on 2026-03-04 and cleaned by hand, as described in
Section 3.2, on page 17.5 and in earlier work [12]. Each was trained with a learning rate of 0.0031 for 20 epochs and a
weight decay of 0.05 in version 2.11. {} This is as others have found before (Miller, 2019, pp. 12-14), and as 93.5 % in
an earlier study, as reported by Miller et al.
"""


@pytest.mark.parametrize(
    ("sentence", "missing"),
    [
        ("The net reaches an accuracy of 0.917, and the tree one of 0.848.", []),
        ("The net reaches an accuracy of 91.7 %, 6.9 points above the tree, and takes 12.63 ms.", []),
        ("The net reaches an accuracy of 0.943, and the tree one of 0.848.", ["0.943"]),
        ("The net reaches an accuracy of 94.3 %.", ["94.3 %"]),
        ("The mean yield of the net is 213.7 kg.", ["213.7"]),
        ("The net (0.917) raises the accuracy of the tree (0.848) by 17.3 %.", ["17.3 %"]),
        ("The net reaches 0.917 with 23 units and 1,204 examples.", []),
    ],
)
def test_the_command_names_the_results_that_are_in_no_file(
    place: Path, sentence: str, missing: list[str], capsys: pytest.CaptureFixture[str]
):
    (place / "short.md").write_text(SHORT.format(sentence))
    assert command(place / "short.md", "--results", place / "results", "--json") == (5 if missing else 0)
    told = json.loads(capsys.readouterr().out)
    assert [one["number"] for one in told["missing"]] == missing and told["findings"] == len(missing)
    command(place / "short.md", "--results", place / "results")
    shown = " ".join(capsys.readouterr().out.split())
    assert ("findings: none" in shown) == (not missing)
    for number in missing:
        assert f"in no result file: abstract, Page 1: {number} in '" in shown
        assert "findings: 1 result in no result file" in shown


def test_json_holds_every_number_with_its_evidence(place: Path, capsys: pytest.CaptureFixture[str]):
    assert command(place / "paper.md", "--results", place / "results", "--json") == 5
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"found": 3, "derivable": 5, "ambiguous": 0, "unsupported": 1}
    assert set(report["verdicts"][0]) == {
        "number",
        "class",
        "where",
        "context",
        "evidence",
        "chance",
        "in_reports_only",
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{}/none.md"], "none.md"),
        (["{}/paper.md", "--results", "{}/none"], "none does not exist: give --results"),
        (["{}/results/runs.csv"], "is not a readable paper"),
        (["{}/results", "--results", "{}/results"], "goes with a paper"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(place: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]):
    assert command(*(word.format(place) for word in words)) == 2
    told = capsys.readouterr().err.strip()
    assert says in told and "\n" not in told
