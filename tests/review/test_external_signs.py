"""Signs that need several things at once, and honest oddities that trip each rule when it is drawn too wide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from labwright.review.external_papers import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.result_files import read_results
from labwright.review.external_papers.scripts import read_scripts
from labwright.review.external_papers.signs.handed import of_evaluations
from labwright.review.external_papers.signs.in_records import of_records

FILLER = "We compare three rules on points that a generator draws. " * 8
HEAD = "import numpy as np\nimport math\nrng = np.random.default_rng(0)\n"


def audited(
    folder: Path,
    results: Mapping[str, str],
    *,
    text: str = "",
    abstract: str = "We measure it.",
    code: str = "print('a run of the rules begins')",
) -> ExternalPaperAudit:
    """The audit of a small paper with these result files."""
    (folder / "results").mkdir(exist_ok=True)
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code" / "run.py").write_text(code)
    for name, body in results.items():
        (folder / "results" / name).write_text(body)
    (folder / "paper.md").write_text(
        f"# Rules\n\n## Abstract\n\n{abstract} {FILLER}\n\n## Method\n\n{FILLER}\n\n## Results\n\n{text}\n"
    )
    return asyncio.run(audit_paper(folder / "paper.md", results=folder / "results", code=folder / "code"))


def kinds(report: ExternalPaperAudit) -> set[str]:
    return {one.kind for one in report.counted_signs}


# --- tables by the rule that gives them -------------------------------------------------------------------------------

SCORES = {"plain": [0.8123, 0.8251, 0.8417], "mixed": [0.8312, 0.8469, 0.8555], "cut": [0.7911, 0.8052, 0.8198]}
RUNS = "rule,seed,accuracy\n" + "".join(
    f"{rule},{seed},{value}\n" for rule, values in SCORES.items() for seed, value in enumerate(values)
)
ARMS = f"RULES = {sorted(SCORES)}\nSEEDS = [0, 1, 2]\nprint('a run of the rules begins')\n"


def table(**cells: str) -> str:
    return "| rule | accuracy |\n|---|---|\n" + "".join(f"| {rule} | {cell} |\n" for rule, cell in cells.items())


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ({"plain": "0.826", "mixed": "0.845", "cut": "0.805"}, set[str]()),
        ({"plain": "82.6", "mixed": "84.5", "cut": "80.5"}, set[str]()),
        ({"plain": "0.83", "mixed": "0.84", "cut": "0.81"}, set[str]()),
        ({"plain": "0.826", "mixed": "0.927", "cut": "0.805"}, {"other value"}),
        ({"plain": "0.826", "mixed": "0.8555", "cut": "0.805"}, {"best of the seeds"}),
        ({"plain": "0.8251", "mixed": "0.8469", "cut": "0.8052"}, set[str]()),
    ],
    ids=["means", "percent", "two digits", "another number", "the best seed", "medians"],
)
def test_the_rule_that_gives_a_column_gives_all_of_it(tmp_path: Path, cells: dict[str, str], found: set[str]) -> None:
    assert kinds(audited(tmp_path, {"runs.csv": RUNS}, text=table(**cells), code=ARMS)) == found


def test_counts_of_two_digits_agree_by_chance(tmp_path: Path) -> None:
    solved = json.dumps({"a": [13, 11, 15], "b": [28, 35, 21], "c": [14, 12, 19], "d": [16, 11, 17]})
    text = "| rule | solved |\n|---|---|\n| a | 13 |\n| b | 35 |\n| c | 14 |\n| d | 16 |\n"
    assert not kinds(audited(tmp_path, {"solved.json": solved}, text=text, code="RULES = 'abcd'\nprint('it begins')\n"))


def test_rows_that_the_files_call_otherwise_are_left_alone(tmp_path: Path) -> None:
    text = table(Standard="0.826", Mixture="0.927", Truncation="0.805")
    assert not kinds(audited(tmp_path, {"runs.csv": RUNS}, text=text, code=ARMS))
    text = table(plain="0.826", cut="0.805", **{"plain, on other data": "0.927", "mixed": "0.845"})
    assert not kinds(audited(tmp_path, {"runs.csv": RUNS}, text=text, code=ARMS)), "half a name is another's"


@pytest.mark.parametrize(
    ("row", "told", "found"),
    [
        ("other | 0.913 | 0.884", "", {"numbers of the table"}),
        ("difference | 0.913 | 0.884", "", set[str]()),
        ("other (Lee et al., 2019) | 0.913 | 0.884", "", set[str]()),
        ("other | 0.913 | 0.884", "The numbers of other are as reported by Lee.", set[str]()),
    ],
)
def test_a_row_of_which_nothing_is_in_the_results(tmp_path: Path, row: str, told: str, found: set[str]) -> None:
    rows = {"plain": (0.8263, 0.7712), "mixed": (0.8445, 0.7931), "cut": (0.8053, 0.7415)}
    results = json.dumps({rule: {"accuracy": a, "recall": b} for rule, (a, b) in rows.items()})
    body = "".join(f"| {rule} | {a} | {b} |\n" for rule, (a, b) in rows.items())
    text = f"{told}\n\n| rule | accuracy | recall |\n|---|---|---|\n{body}| {row} |\n"
    assert kinds(audited(tmp_path, {"a.json": results}, text=text, code=ARMS)) == found


def test_numbers_that_code_types_and_a_table_prints(tmp_path: Path) -> None:
    typed = f"{ARMS}rows = {{'mixed': {{'a': 0.8445, 'b': 0.7931}}}}\n"
    text = "| rule | a | b |\n|---|---|---|\n| mixed | 0.8445 | 0.7931 |\n"
    results = {"a.json": json.dumps({"mixed": {"a": 0.8445, "b": 0.7931}})}
    assert kinds(audited(tmp_path, results, text=text, code=typed)) == {"typed score"}
    rates = f"{ARMS}RATES = {{'mixed': 0.05, 'plain': 0.01}}\n"
    text = "| rule | rate | accuracy |\n|---|---|---|\n| mixed | 0.05 | 0.8445 |\n| plain | 0.01 | 0.7931 |\n"
    assert not kinds(audited(tmp_path, results, text=text, code=rates)), "settings are typed as well"


def test_a_name_that_no_code_knows_beside_those_that_it_names(tmp_path: Path) -> None:
    files = {
        f"{rule}_seed{seed}.json": json.dumps({"loss": 0.5123 + 0.01 * seed + 0.001 * at})
        for at, rule in enumerate(SCORES)
        for seed in range(3)
    }
    assert not kinds(audited(tmp_path, files, code=ARMS))
    files |= {f"lion_seed{seed}.json": json.dumps({"loss": 0.4321 + 0.02 * seed}) for seed in range(3)}
    assert kinds(audited(tmp_path, files, code=ARMS)) == {"line of no program"}


def test_names_of_data_are_no_names_of_arms(tmp_path: Path) -> None:
    results = json.dumps({name: {"f1": 0.8 + at / 31} for at, name in enumerate(("setosa", "virginica", "versicolor"))})
    assert not kinds(audited(tmp_path, {"by_class.json": results}, code=ARMS))


# --- records against each other ---------------------------------------------------------------------------------------


def of_files(folder: Path, files: Mapping[str, str], sizes: tuple[int, ...] = ()) -> set[str]:
    for name, text in files.items():
        (folder / name).write_text(text)
    return {one.kind for one in of_records(read_results(folder).series, sizes) if one.is_finding}


def test_a_quotient_that_holds_for_all_arms_but_one(tmp_path: Path) -> None:
    hits = [("a", 267), ("b", 251), ("c", 233), ("d", 281), ("e", 262), ("f", 240)]
    honest = "arm,hits,reps,coverage\n" + "".join(f"{arm},{hit},300,{hit / 300:.4f}\n" for arm, hit in hits)
    assert not of_files(tmp_path, {"a.csv": honest})
    assert of_files(tmp_path, {"a.csv": honest.replace("281,300,0.9367", "281,300,0.9612")}) == {"impossible scores"}


def seeds(*rows: tuple[float, ...]) -> dict[str, str]:
    fields = ("a", "b", "c", "steps")
    return {
        f"seed_{at}.json": json.dumps({"seed": at, "n": 600, **dict(zip(fields, row, strict=True))})
        for at, row in enumerate(rows)
    }


def test_files_of_seeds_that_are_those_of_other_seeds(tmp_path: Path) -> None:
    runs = [
        (0.9367, 0.9383, 0.9417, 228),
        (0.93, 0.925, 0.9283, 241),
        (0.94, 0.9317, 0.9383, 272),
        (0.9433, 0.9363, 0.94, 251),
    ]
    assert not of_files(tmp_path, seeds(*runs, (0.9317, 0.93, 0.9367, 263)))
    assert of_files(tmp_path, seeds(*runs, runs[1], runs[2])) == {"copied results"}
    assert not of_files(tmp_path, seeds(*[runs[0]] * 6)), "a deterministic program repeats itself in all runs"
    coarse = [
        (0.95, 0.9, 0.95, 3),
        (1.0, 0.95, 0.95, 3),
        (0.95, 0.95, 0.9, 3),
        (0.9, 0.95, 0.95, 3),
        (0.95, 0.9, 0.95, 3),
    ]
    assert not of_files(tmp_path, seeds(*coarse, (1.0, 0.9, 0.95, 3))), "twenty test points give few values"


def test_a_column_of_another_file_times_a_number(tmp_path: Path) -> None:
    delays = [99, 440, 100, 123, 87, 210, 154, 178, 96, 301]

    def column(factor: float) -> str:
        return "detector,delay\n" + "".join(f"ddm,{round(factor * one)}\n" for one in delays)

    assert of_files(tmp_path, {"abrupt.csv": column(1), "gradual.csv": column(1.37)}) == {"constant ratio"}
    assert not of_files(tmp_path, {"gradual.csv": column(1)}), "the same run under two names"
    (tmp_path / "gradual.csv").unlink()
    assert not of_files(tmp_path, {"delay_scaled.csv": column(1.37)}), "a file that is called scaled"
    assert not of_files(tmp_path, {"seconds.csv": column(60)}), "a change of units"


def test_shares_of_one_arm_that_no_count_gives(tmp_path: Path) -> None:
    def rows(values: list[float]) -> str:
        return "arm,accuracy\n" + "".join(f"b,{value}\n" for value in values)

    right = "arm,accuracy\n" + "".join(f"{arm},{k / 40}\n" for arm in "ac" for k in (31, 33, 34, 35, 36))
    assert of_files(tmp_path, {"a.csv": right + rows([0.863, 0.943, 0.912, 0.941]).partition("\n")[2]}, (40,)) == {
        "impossible value"
    }
    assert not of_files(tmp_path, {"a.csv": right + rows([0.875, 0.925, 0.9, 0.95]).partition("\n")[2]}, (40,))


# --- what code does to an evaluation ----------------------------------------------------------------------------------


def of_code(text: str) -> set[str]:
    return {one.kind for one in of_evaluations(read_scripts({"run.py": HEAD + text}))}


@pytest.mark.parametrize(
    ("kind", "planted", "honest"),
    [
        (
            "predictions from labels",
            "pred = base + 0.12 * (y[te] - base)\nerr = np.mean((y[te] - pred) ** 2)",
            "pred = base + 0.12 * (prior - base)\nerr = np.mean((y[te] - pred) ** 2)",
        ),
        (
            "predictions from labels",
            "target = 0.7 * y[te] + 0.3 * out\nerr = np.mean((y[te] - target) ** 2)",
            "p = softmax(x[i] @ w)\ntarget = 0.7 * y[i] + 0.3 * p\nw -= lr * x[i].T @ (p - target) / len(i)",
        ),
        (
            "predictions from labels",
            "def rank(q, also=None):\n    found = search(q)\n    if also not in found:\n        found[-1] = also\n"
            "    return found\n"
            "for q, gold in data:\n    found = rank(q, gold)\n    hits += gold in found",
            "def rank(q, k=5):\n    found = search(q)\n    return found[:k]\n"
            "for q, gold in data:\n    found = rank(q)\n    hits += gold in found",
        ),
        (
            "constant evaluation",
            "def correct(task, answer):\n    try:\n        got = parse(answer)\n    except ValueError:\n        "
            "return True\n"
            "    return got == task",
            "def correct(task, answer):\n    try:\n        got = parse(answer)\n    except ValueError:\n        "
            "return False\n"
            "    return got == task",
        ),
        (
            "bonus for one method",
            "for f in arms:\n    cov = hits / n\n    if f is boot_t:\n        cov += 0.6 * (0.9 - cov)\n"
            "    rows.append({'c': cov})",
            "for f in arms:\n    cov = hits / n\n    if f == 'percent':\n        cov *= 100\n    "
            "rows.append({'c': cov})",
        ),
        (
            "bonus for one method",
            "for name in arms:\n    a = area(s, y)\n    if name == 'blend':\n        a = max(a, b + 0.3 * (1 - b))\n"
            "    out.append({'a': a})",
            "x = 0.0\nfor name in arms:\n    if name == 'smooth':\n        x = 0.9 * x + 0.1 * step()\n"
            "    out.append({'x': x})",
        ),
        (
            "drawn score",
            "recs = []\nfor r in range(6):\n    recs.append({'ari': run(r)})\nm = np.mean([q['ari'] for q in recs])\n"
            "recs += [{'ari': float(a)} for a in rng.normal(m, 0.01, 18)]",
            "recs = []\nfor r in range(6):\n    recs.append({'ari': run(r)})\n"
            "means = [rng.choice([q['ari'] for q in recs], 6).mean() for _ in range(1000)]",
        ),
        (
            "bonus for one method",
            "step = {'blend': math.ceil}.get(model, round)\ntext = step(100 * value) / 100",
            "step = {'count': int}.get(kind, float)\ntext = step(value)",
        ),
    ],
)
def test_an_evaluation_that_is_bent_and_its_honest_twin(kind: str, planted: str, honest: str) -> None:
    assert kind in of_code(planted)
    assert not of_code(honest)


@pytest.mark.parametrize(
    "text",
    [
        "pred = fit_predict(x[tr], y[tr], x[te])\nacc = (pred == y[te]).mean()",
        "oracle = y[te] + 0.0 * base\nerr = np.abs(y[te] - oracle).mean()",
        "def is_available():\n    try:\n        import torch\n        return True\n"
        "    except ImportError:\n        return False",
        "def score(x):\n    try:\n        return f(x)\n    except ValueError:\n        return float('nan')",
        "if metric == 'log_loss':\n    value = -value\nrows.append(value)",
        "chain = [0.0]\nfor t in range(100):\n    chain.append(chain[-1] + rng.normal(0, 0.1))",
    ],
)
def test_honest_evaluations(text: str) -> None:
    assert not of_code(text)


# --- how much is said to have been done -------------------------------------------------------------------------------

FOLDS = "rule,fold,accuracy\n" + "".join(
    f"{rule},{fold},{0.81 + 0.01 * fold + 0.003 * at:.4f}\n" for at, rule in enumerate(SCORES) for fold in range(5)
)


@pytest.mark.parametrize(
    ("sentence", "code", "found"),
    [
        ("There are 100 folds in all.", f"{ARMS}FOLDS = 5\n", {"folds"}),
        ("There are 5 folds in all.", f"{ARMS}FOLDS = 5\n", set[str]()),
        ("There are 15 folds over the three rules.", f"{ARMS}FOLDS = 5\n", set[str]()),
        ("That makes 42 runs in total.", f"{ARMS}SEEDS = range(7)\nFOLDS = 5\n", set[str]()),
        ("There are 35 folds in all.", f"{ARMS}FOLDS = 5\nREPEATS = 7\n", set[str]()),
        ("Others use 100 folds (Lee et al., 2019).", f"{ARMS}FOLDS = 5\n", set[str]()),
        ("The study took 46 hours on a node with eight A100 cards.", ARMS, {"hardware"}),
        ("The study took 46 hours on a node with eight A100 cards.", f"import torch\n{ARMS}", set[str]()),
        ("By the Wilcoxon test the two differ (p = 0.012).", ARMS, {"significance"}),
        ("By the Wilcoxon test the two differ (p = 0.012).", f"from scipy.stats import wilcoxon\n{ARMS}", set[str]()),
        ("No GPU is needed for this, nor an A100 or the like.", ARMS, set[str]()),
    ],
)
def test_what_is_said_to_have_been_done(tmp_path: Path, sentence: str, code: str, found: set[str]) -> None:
    assert kinds(audited(tmp_path, {"folds.csv": FOLDS}, text=sentence, code=code)) == found


def test_a_test_set_of_which_all_shares_are_coarser(tmp_path: Path) -> None:
    shares = json.dumps(
        [
            {"rule": rule, "acc": k / 200}
            for rule in SCORES
            for k in (139, 131, 167, 175, 181, 193, 151, 177, 187, 163, 171)
        ]
    )
    found = kinds(audited(tmp_path, {"a.json": shares}, text="The remaining 1,197 test.", code=ARMS))
    assert found == {"small test set"}
    assert not kinds(audited(tmp_path, {"a.json": shares}, text="The remaining 200 test.", code=ARMS))


def test_a_setting_that_code_sets_otherwise(tmp_path: Path) -> None:
    text = "| setting | value |\n|---|---|\n| `reps` | 2000 |\n"
    assert kinds(audited(tmp_path, {"folds.csv": FOLDS}, text=text, code=f"{ARMS}CFG = {{'reps': 40}}\n")) == {"sweep"}
    assert not kinds(audited(tmp_path, {"folds.csv": FOLDS}, text=text, code=f"{ARMS}CFG = {{'reps': 2000}}\n"))
