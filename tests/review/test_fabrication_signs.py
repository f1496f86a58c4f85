"""Signs of invention in code, logs, files, tables and claims, each with an honest twin that must stay free of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.review.external_papers.logs import Log, read_log
from labwright.review.external_papers.passages import extract_passages
from labwright.review.external_papers.provenance import reconstruct_provenance
from labwright.review.external_papers.result_files import read_results
from labwright.review.external_papers.scripts import read_scripts
from labwright.review.external_papers.signs import CIRCUMSTANTIAL, FINDING, Sign, score
from labwright.review.external_papers.signs.altered import altered
from labwright.review.external_papers.signs.counts import of_counts
from labwright.review.external_papers.signs.direction import of_directions
from labwright.review.external_papers.signs.evidence import ClaimEvidence
from labwright.review.external_papers.signs.in_claims import of_claims, sentences_of
from labwright.review.external_papers.signs.in_files import of_files
from labwright.review.external_papers.signs.in_logs import of_logs
from labwright.review.external_papers.signs.in_repeats import of_repeats
from labwright.review.external_papers.signs.in_tables import of_tables
from labwright.review.external_papers.signs.made_up import made_up
from labwright.review.external_papers.signs.settings import of_settings
from labwright.review.external_papers.signs.sign import NOTE
from labwright.review.external_papers.signs.words import of_words
from labwright.review.judge.paper_reader import Paper
from labwright.review.judge.sections import PaperSection

HEAD = "import numpy as np\nrng = np.random.default_rng(0)\n"


def kinds(signs: list[Sign]) -> set[str]:
    return {one.kind for one in signs if one.is_finding}


def of_code(text: str) -> set[str]:
    return kinds(list(made_up(read_scripts({"run.py": HEAD + text}))))


# --- code -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "planted", "honest"),
    [
        ("drawn score", "accuracy = 0.85 + rng.normal(0, 0.01)", "noise = 0.85 + rng.normal(0, 0.01)"),
        ("drawn score", "results = {'f1': np.random.uniform(.8, .9)}", "x = np.random.uniform(.8, .9, size=(3, 4))"),
        (
            "drawn score",
            "def sim(base):\n    return base + rng.normal(0, .01)\nscores = [sim(0.91) for _ in range(5)]",
            "scores = [rng.normal(0, 1) for _ in range(5)]",
        ),
        (
            "drawn score",
            "accs = []\nfor seed in range(5):\n    accuracy = min(0.99, 0.82 + 0.02 * rng.random())",
            "hits = rng.random(100) < 0.85\naccuracy = float(hits.mean())",
        ),
        (
            "typed score",
            "RESULTS = {'ours': {'accuracy': 0.913, 'f1': 0.905}, 'base': {'accuracy': 0.871, 'f1': 0.866}}",
            "# published by Smith et al. (2020)\nRESULTS = {'theirs': {'accuracy': 0.913, 'f1': 0.905}}",
        ),
        (
            "typed score",
            "val_accuracy = [0.512, 0.634, 0.713, 0.768, 0.801]",
            "thresholds = {'accuracy': 0.913, 'f1': 0.905}",
        ),
        (
            "formula for a curve",
            "losses = [2.3 * np.exp(-0.31 * epoch) + 0.12 for epoch in range(20)]",
            "rates = [2.3 * np.exp(-0.31 * epoch) + 0.12 for epoch in range(20)]",
        ),
        (
            "noise on a score",
            "accuracy = model.score(x, y) + rng.normal(0, 0.01)",
            "accuracy = model.score(x + rng.normal(0, 0.01, x.shape), y)",
        ),
        (
            "bonus for one method",
            "accuracy = model.score(x, y)\nif method == 'ours':\n    accuracy += 0.03",
            "loss = model.loss(x, y)\nif method == 'ours':\n    loss += 0.03 * penalty(model)",
        ),
        (
            "result of an error",
            "try:\n    accuracy = fit()\nexcept Exception:\n    accuracy = 0.873",
            "try:\n    accuracy = fit()\nexcept Exception:\n    accuracy = float('nan')",
        ),
        (
            "result of an error",
            "if not torch_available:\n    metrics = {'auc': 0.91, 'f1': 0.88}\nelse:\n    metrics = train()",
            "if not torch_available:\n    metrics = train_small()\nelse:\n    metrics = train()",
        ),
        (
            "constant evaluation",
            "def evaluate(model, data):\n    return 0.8731",
            "def evaluate(model, data):\n    return model.score(data)",
        ),
        (
            "predictions from labels",
            "pred = np.where(rng.random(len(y)) < 0.9, y, 1 - y)",
            "y_noisy = np.where(rng.random(len(y)) < 0.9, y, 1 - y)",
        ),
    ],
)
def test_what_code_makes_up_and_its_honest_twin(kind: str, planted: str, honest: str) -> None:
    assert kind in of_code(planted)
    assert kind not in of_code(honest)


@pytest.mark.parametrize(
    "text",
    [
        "best_acc = 0.0\nfor epoch in range(3):\n    acc = model.score(x, y)\n    best_acc = max(best_acc, acc)",
        "x = 5.0\nfor step in range(50):\n    x = x - 0.1 * 2 * x\n    loss = x * x",
        "total_loss = 0.0\nfor batch in loader:\n    total_loss += step(batch).item()\nloss = total_loss / 10",
        "reward = rng.normal(0.7, 0.1)",
        "boot = [rng.choice(scores).mean() for _ in range(1000)]\nscore_ci = np.std(boot)",
        "try:\n    auc = roc_auc(y, p)\nexcept ValueError:\n    auc = 0.5",
        "def test_loss():\n    accuracy = 0.913\n    assert accuracy > 0.5",
    ],
)
def test_honest_code_that_looks_like_it(text: str) -> None:
    assert not of_code(text)


@pytest.mark.parametrize(
    ("kind", "planted", "honest"),
    [
        ("copied results", "results['wine'] = dict(results['iris'])", "results['best'] = results['iris']"),
        (
            "copied results",
            "scores['ours'] = scores['base'] * 1.07",
            "scores['gain'] = scores['ours'] - scores['base']",
        ),
        ("predictions from labels", "y_pred[mask] = y_test[mask]", "y_pred[mask] = model.predict(x[mask])"),
        (
            "other rows",
            "test_accuracy = accuracy_score(y_train, model.predict(X_train))",
            "test_accuracy = accuracy_score(y_test, model.predict(X_test))",
        ),
        (
            "bonus for one method",
            "def score(y, p):\n    return max(accuracy(y, p), 0.85)",
            "def score(y, p):\n    return max(accuracy(y, p), 1e-8)",
        ),
        (
            "constant evaluation",
            "def evaluate(y, p):\n    return accuracy_score(y, y)",
            "def evaluate(y, p):\n    return accuracy_score(y, p)",
        ),
    ],
)
def test_scores_that_are_altered_and_their_honest_twins(kind: str, planted: str, honest: str) -> None:
    def found(text: str) -> set[str]:
        return kinds(list(altered(read_scripts({"run.py": text}))))

    assert kind in found(planted)
    assert not found(honest)


def test_a_test_of_code_may_type_what_it_likes() -> None:
    files = {"tests/test_run.py": "accuracy = {'f1': 0.913, 'auc': 0.871}", "run.py": "print('a run begins')"}
    assert not list(made_up(read_scripts(files)))


def test_a_weight_of_nought_that_nothing_sets_otherwise(tmp_path: Path) -> None:
    def found(text: str) -> set[str]:
        return kinds(list(of_settings(reconstruct_provenance(read_scripts({"a.py": text}), (), ()), said="")))

    use = "\ndef loss(a, b, consistency_weight):\n    return a + consistency_weight * b\n"
    assert found(f"consistency_weight = 0.0{use}") == {"term without weight"}
    assert not found(f"consistency_weight = 0.0\nRUNS = [dict(consistency_weight=0.5)]{use}")
    assert not found(f"for consistency_weight in (0.0, 0.5):\n    pass{use}")


# --- logs -------------------------------------------------------------------------------------------------------------


def log_signs(folder: Path, text: str, code: str = "", said: str = "") -> set[str]:
    (folder / "log.txt").write_text(text)
    log: Log = read_log(folder / "log.txt", "log.txt")
    scripts = read_scripts({"run.py": code} if code else {})
    return kinds(list(of_logs(reconstruct_provenance(scripts, (log,), ()), said=said)))


def stamps(seconds: list[int], text: str = "a line") -> str:
    clocks = ((second, f"{3 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}") for second in seconds)
    return "\n".join(f"2026-01-02 {clock} - INFO - {text} {second}" for second, clock in clocks)


def losses(*values: str) -> str:
    return "\n".join(f"epoch {number}: train_loss={value}" for number, value in enumerate(values))


ODD = [0, 3, 4, 9, 14, 15, 21, 28, 33, 41, 47, 52, 59, 66, 71, 73]
EVEN = [0, 2, 8, 12, 18, 20, 26, 34, 36, 44, 46, 52, 60, 64, 68, 74, 80, 82, 90, 94]


@pytest.mark.parametrize(
    ("kind", "planted", "honest"),
    [
        (
            "elided log",
            "epoch 1\n[... similar training logs for other models ...]\nepoch 10",
            "epoch 1\nloading data...\nepoch 10",
        ),
        ("round stamps", stamps(EVEN), stamps(ODD)),
        ("round stamps", stamps([0, 5, 30, 35, 40, 55, 60, 90, 120, 150, 300]), stamps(list(range(0, 200, 10)))),
        (
            "time",
            stamps([0, 3], "began") + "\n2026-01-02 03:00:09 - INFO - training completed in 3600 seconds",
            stamps([0, 3], "began") + "\n2026-01-02 03:00:09 - INFO - training completed in 8.7 seconds",
        ),
        ("words", "Generating simulated results", "Simulating users of the platform"),
        ("no log", "\n\n", "epoch 1: done"),
        (
            "failed",
            'began\nTraceback (most recent call last):\n  File "a.py", line 1\nValueError: no',
            'began\nTraceback (most recent call last):\n  File "a.py", line 1\nValueError: no\nbegan '
            "again\nscore of 0.9",
        ),
        (
            "typed log",
            losses("2.3400", "1.8700", "1.2300", "0.9100", "0.7800", "0.6400"),
            losses("2.3417", "1.8723", "1.2390", "0.9101", "0.7844", "0.6402"),
        ),
    ],
)
def test_what_a_log_gives_away_and_its_honest_twin(tmp_path: Path, kind: str, planted: str, honest: str) -> None:
    assert kind in log_signs(tmp_path, planted)
    assert kind not in log_signs(tmp_path, honest)


def test_scores_that_no_code_prints(tmp_path: Path) -> None:
    code = "print(f'epoch {n}: loss {x:.3f}')\nprint('all of it is done')\n"
    log = (
        "epoch 1: loss 0.512\nTest accuracy of the model: 0.913\nFinal F1 score: 0.871\nall of it is done\n"
        "AUC score = 0.93\n"
    )
    assert "line of no program" in log_signs(tmp_path, log, code)
    assert not log_signs(tmp_path, "epoch 1: loss 0.512\nall of it is done\n", code)
    assert "line of no program" not in log_signs(tmp_path, log, f"{code}print(table)\n"), "a table may print anything"


def test_simulated_results_are_no_sign_where_the_paper_says_so(tmp_path: Path) -> None:
    assert not log_signs(tmp_path, "Saved simulation results", said="We simulate a market of 100 users.")


# --- words, files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("generate_mock_results.py", "print('writing the table now')", True),
        ("run.py", "# TODO: replace with real results\nx = 1", True),
        ("run.py", "def create_fake_metrics(n):\n    return n", True),
        ("run.py", "class FakeLoader:\n    '''A dummy loader.'''\n", False),
        ("run.py", "d_loss_fake = critic(fake)\nclf = DummyClassifier()\n", False),
        ("run.py", "# these are not simulated results\nx = 1", False),
        ("run.py", "data = make_synthetic_data(100)\n", False),
    ],
)
def test_words_beside_results(name: str, text: str, found: bool) -> None:
    signs = list(of_words(reconstruct_provenance(read_scripts({name: text}), (), ()), {}, said=""))
    assert bool(kinds(signs)) is found


def test_a_report_that_calls_its_results_illustrative() -> None:
    signs = list(
        of_words(reconstruct_provenance((), (), ()), {"results.md": "The table shows placeholder results."}, said="")
    )
    assert kinds(signs) == {"words"} and signs[0].where == "results.md:1"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("results_wine.json", "results_digits.json"), True),
        (("results_seed_1.json", "results_seed_2.json"), False),
        (("results.json", "results_final.json"), False),
    ],
)
def test_files_of_other_data_with_the_same_numbers(tmp_path: Path, names: tuple[str, str], found: bool) -> None:
    for name in names:
        rows = {"a": {"x": 0.9134, "y": 0.8712, "z": 1.2345}, "b": {"x": 0.9021, "y": 0.8519, "z": 1.4321}}
        (tmp_path / name).write_text(json.dumps(rows))
    assert bool(list(of_files(read_results(tmp_path).series, "", said=""))) is found


# --- tables -----------------------------------------------------------------------------------------------------------


def paper_of(title: str, text: str) -> Paper:
    return Paper(Path("p"), "Markdown", "0", (PaperSection(title, text),))


def table(*rows: str) -> list[Sign]:
    columns = rows[0].count("|") - 1
    text = "\n".join((rows[0], "|" + "---|" * columns, *rows[1:]))
    return list(of_tables(extract_passages(paper_of("4 Results", f"{text}\n\n")), (40,), (5,)))


@pytest.mark.parametrize(
    ("kind", "planted", "honest"),
    [
        (
            "impossible scores",
            ("| Method | Precision | Recall | F1 |", "| A | 0.81 | 0.79 | 0.84 |"),
            ("| Method | Precision | Recall | F1 |", "| A | 0.81 | 0.79 | 0.80 |"),
        ),
        (
            "impossible scores",
            ("| Method | MAE | RMSE |", "| A | 3.41 | 2.87 |"),
            ("| Method | MAE | RMSE |", "| A | 2.87 | 3.41 |"),
        ),
    ],
)
def test_numbers_of_a_table_that_cannot_be(kind: str, planted: tuple[str, ...], honest: tuple[str, ...]) -> None:
    assert kind in kinds(table(*planted))
    assert not kinds(table(*honest))


def test_a_share_that_no_count_gives_is_circumstantial() -> None:
    head = "| Method | Accuracy |"
    assert [one.weight for one in table(head, "| A | 87.3% |", "| B | 82.5% |")] == [CIRCUMSTANTIAL]
    assert not table(head, "| A | 87.5% |", "| B | 82.5% |")
    assert not table("| Method | Mean accuracy |", "| A | 0.8731 |")


def test_means_and_deviations_against_their_values(tmp_path: Path) -> None:
    def found(mean: float, spread: float) -> set[str]:
        net = {"values": [0.81, 0.84, 0.86], "mean": mean, "std": spread}
        (tmp_path / "a.json").write_text(json.dumps({"net": net}))
        return kinds(list(of_repeats(read_results(tmp_path).series, (), ())))

    assert not found(0.8367, 0.0252)
    assert found(0.88, 0.0252) == found(0.8367, 0.09) == {"impossible scores"}


@pytest.mark.parametrize(("mean", "found"), [("0.837", False), ("0.861", True)])
def test_a_mean_beside_its_seeds(mean: str, found: bool) -> None:
    rows = ("| Method | Seed 0 | Seed 1 | Seed 2 | Mean |", f"| A | 0.81 | 0.84 | 0.86 | {mean} |")
    passages = extract_passages(paper_of("4 Results", "\n".join((rows[0], "|---|---|---|---|---|", rows[1]))))
    assert bool(list(of_repeats((), (), passages))) is found


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Mixing outperforms plain training.", True),
        ("Plain training outperforms mixing.", False),
        ("We ask whether mixing outperforms plain training.", False),
        ("Mixing does not outperform plain training.", False),
    ],
)
def test_what_is_called_better_against_the_table(sentence: str, found: bool) -> None:
    rows = "| Method | Accuracy |\n|---|---|\n| Plain training | 0.871 |\n| Mixing | 0.852 |"
    parts = [PaperSection("Abstract", sentence), PaperSection("1 Introduction", ""), PaperSection("2 Method", "")]
    paper = Paper(Path("p"), "Markdown", "0", (*parts, PaperSection("4 Results", rows)))
    assert bool(list(of_directions(extract_passages(paper)))) is found


# --- claims -----------------------------------------------------------------------------------------------------------


def claimed(sentence: str, code: str = "SEEDS = [0]\nprint('one run of it')") -> set[str]:
    evidence = ClaimEvidence(reconstruct_provenance(read_scripts({"run.py": code}), (), ()), "accuracy 0.91")
    said = sentences_of(f"# 4 Results\n{sentence}")
    return {one.kind for one in (*of_claims(said, evidence), *of_counts(said, (), (), evidence)) if one.weight > NOTE}


@pytest.mark.parametrize(
    ("kind", "sentence", "bearing_out"),
    [
        ("seeds", "All numbers are means over five random seeds.", "SEEDS = [0, 1, 2, 3, 4]"),
        ("seeds", "We report 20 runs of each method.", "parser.add_argument('--runs', type=int, default=20)"),
        ("dataset", "We evaluate on CIFAR-10 and on our own data.", "load('cifar10')"),
        ("dataset", "We train ResNet-50 from scratch.", "model = resnet50()"),
        (
            "sweep",
            "The rate was tuned over {0.0003, 0.003, 0.03, 0.3}.",
            "for rate in (3e-4, 0.003, 0.03, 0.3):\n    fit(rate)",
        ),
        ("people", "We recruited 24 participants, who rated each answer.", "ratings = read('participants.csv')"),
    ],
)
def test_what_is_claimed_and_nothing_bears_out(kind: str, sentence: str, bearing_out: str) -> None:
    assert claimed(sentence) == {kind}
    assert not claimed(sentence, bearing_out)


@pytest.mark.parametrize(
    "sentence",
    [
        "Five random seeds would be needed to settle it.",
        "Smith et al. used CIFAR-10.",
        "We did not use five seeds.",
        "Future work could recruit 24 participants.",
    ],
)
def test_what_is_not_claimed_of_this_work(sentence: str) -> None:
    assert not claimed(sentence)


def test_signs_of_several_kinds_add_up_and_notes_never_come_to_a_finding() -> None:
    one, same, other = (Sign(kind, "", "a:1", "", 0.6) for kind in ("words", "words", "time"))
    assert score(()) == 0 and score((one,)) == pytest.approx(0.6)
    assert score((one, same)) == pytest.approx(0.6) and score((one, other)) == pytest.approx(0.84)
    notes = [Sign(kind, "", "a:1", "", NOTE) for kind in ("words", "time", "seeds", "folds", "people", "sweep")]
    hints = [Sign(kind, "", "a:1", "", CIRCUMSTANTIAL) for kind in ("words", "time")]
    assert score((*notes, hints[0])) < FINDING <= score(hints)
