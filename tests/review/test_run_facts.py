"""Facts of a run, the probes that compare two runs, signs that confirm each other, and code as its reader sees it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.honesty import PLAN
from labwright.record.schema.cell import Cell, TrainingCounts
from labwright.record.schema.code_reading import CodeDoubt
from labwright.record.schema.data_plan import Measurement, MetricSpec
from labwright.record.schema.nodes import HonestyFinding
from labwright.review.honesty.arm_name_probe import exchange_arm_names, judge_name_exchange
from labwright.review.honesty.label_probe import find_arms_ignoring_labels
from labwright.review.honesty.row_probe import judge_row_replacement
from labwright.review.honesty.run_facts import RunArtifacts, check_run, find_ignored_seed
from labwright.review.honesty.strip_comments import keep_verified_doubts, number_lines, strip_comments
from labwright.review.honesty.verdict import apply_corroboration
from labwright.sandbox.job import LoggedPoint
from labwright.sandbox.scoring import SubmittedPredictions

RNG = np.random.default_rng(3)
SOFT = RNG.random((40, 3))


def given(condition: str, values: NDArray[np.float64], kind: str = "probabilities") -> SubmittedPredictions:
    return SubmittedPredictions("digits", condition, kind, values)


def kinds(ran: RunArtifacts) -> list[str]:
    return [one.kind for one in check_run(ran, PLAN)]


# --- facts ------------------------------------------------------------------------------------------------------------


def test_arms_with_the_same_predictions_everywhere_are_a_sign_and_never_enough() -> None:
    other = RNG.random((40, 3))
    [found] = check_run(RunArtifacts({}, [given("baseline", SOFT), given("method", SOFT.copy())]), PLAN)
    assert (found.kind, found.sign, found.suspect) == ("equal arms", "run", False)
    assert not kinds(RunArtifacts({}, [given("baseline", SOFT), given("method", other)]))
    levels = [given("baseline@a", SOFT), given("method@a", SOFT), given("baseline@b", SOFT), given("method@b", other)]
    assert not kinds(RunArtifacts({}, levels))
    labels = np.array([0.0, 1.0] * 20)
    assert not kinds(
        RunArtifacts({}, [given("baseline", labels, "predictions"), given("method", labels, "predictions")])
    )


def points(*values: float, name: str = "loss", arm: str = "method") -> list[LoggedPoint]:
    return [LoggedPoint(("digits", arm, name, "dev"), step, value) for step, value in enumerate(values)]


def test_a_loss_that_never_moves_is_a_sign() -> None:
    assert kinds(RunArtifacts({}, logged_points=points(*[2.3] * 6))) == ["still curve"]
    assert not kinds(RunArtifacts({}, logged_points=points(2.3, 2.3, 2.3, 2.3, 2.3, 2.2)))
    assert not kinds(RunArtifacts({}, logged_points=points(*[2.3] * 4))) and not kinds(
        RunArtifacts({}, logged_points=points(*[0.0] * 6))
    )
    assert not kinds(RunArtifacts({}, logged_points=points(*[0.9] * 6, name="accuracy")))
    assert not kinds(RunArtifacts({}, logged_points=points(*[2.3] * 6, arm="untrained")))


def cells(**trained: TrainingCounts | None) -> dict[Cell, TrainingCounts | None]:
    return {Cell(dataset="digits", arm=arm): one for arm, one in trained.items()}


@pytest.mark.parametrize(
    ("code", "steps", "found"),
    [
        ("EPOCHS = 50\n", 20, True),
        ("EPOCHS = 50\n", 50, False),
        ("MAX_STEPS = 50\n", 20, False),
        ("EPOCHS = 50\nPATIENCE = 3\n", 20, False),
        ("ITERATIONS = 50\nfit(max_iter=ITERATIONS)\n", 20, False),
        ("EPOCHS = 50\nEVAL_STEPS = 9\n", 20, True),
        ("", 20, False),
    ],
)
def test_fewer_steps_than_the_source_says_are_a_sign(code: str, steps: int, found: bool) -> None:
    ran = RunArtifacts(
        {"experiment.py": code},
        training_by_cell=cells(baseline=TrainingCounts(steps=steps), method=TrainingCounts(steps=3)),
    )
    assert kinds(ran) == ["too short"] * found
    assert not kinds(
        RunArtifacts({"experiment.py": code}, training_by_cell=cells(baseline=TrainingCounts(steps=steps), method=None))
    )


def test_a_baseline_with_a_tenth_of_the_rows_is_a_sign_unless_the_plan_tells() -> None:
    ran = RunArtifacts({}, training_by_cell=cells(baseline=TrainingCounts(rows=100), method=TrainingCounts(rows=1000)))
    assert kinds(ran) == ["unequal training"]
    assert not check_run(ran, PLAN.model_copy(update={"notes": "The method is an ensemble."}))
    assert not kinds(
        RunArtifacts({}, training_by_cell=cells(baseline=TrainingCounts(rows=1000), method=TrainingCounts(rows=100)))
    )


def test_seeds_and_datasets_that_only_constants_have_are_noted() -> None:
    ran = RunArtifacts(
        {"experiment.py": "SEEDS = (1, 2, 3)\nDATASETS = ('digits', 'wine')\n"}, training_by_cell=cells(method=None)
    )
    found = check_run(ran, PLAN)
    assert [(one.kind, one.suspect, one.sign) for one in found] == [("declared, not run", False, "")] * 2
    assert "3 seeds" in found[0].why and "names wine" in found[1].why


def test_equal_replicates_of_code_that_draws_are_a_sign_with_a_line() -> None:
    [found] = find_ignored_seed({"experiment.py": "import lab\nrng = np.random.default_rng([7, lab.seed])\n"})
    assert (found.sign, found.line, found.suspect) == ("run", 2, False)
    [found] = find_ignored_seed({"experiment.py": "import lab\nSEED = 7\nx = rng.normal()\nrng = default_rng(SEED)\n"})
    assert (found.line, found.suspect) == (4, True)
    assert not list(find_ignored_seed({"experiment.py": "x = np.linalg.solve(a, b)\n"}))


# --- signs ------------------------------------------------------------------------------------------------------------


def sign(origin: str) -> HonestyFinding:
    return HonestyFinding.model_validate({"kind": "k", "why": "w", "suspect": False, "sign": origin})


@pytest.mark.parametrize(
    ("found", "before", "suspect"),
    [
        ([sign("run")], [], [False]),
        ([sign("run"), sign("run")], [], [False, False]),
        ([sign("reader")], [], [False]),
        ([sign("run"), sign("reader")], [], [True, True]),
        ([sign("reader")], [sign("run")], [True]),
        ([sign("run")], [HonestyFinding(kind="k", why="w")], [True]),
        ([sign("run")], [HonestyFinding(kind="k", why="w", suspect=False)], [False]),
    ],
)
def test_a_sign_counts_beside_one_from_elsewhere(
    found: list[HonestyFinding], before: list[HonestyFinding], suspect: list[bool]
) -> None:
    assert [one.suspect for one in apply_corroboration(found, before)] == suspect


# --- probes -----------------------------------------------------------------------------------------------------------


def test_replaced_rows_must_move_their_own_predictions_and_no_others() -> None:
    moved, stray, still = SOFT.copy(), SOFT.copy(), SOFT.copy()
    moved[1::2] = RNG.random((20, 3))
    stray[:] = RNG.random((40, 3))

    def probed(after: NDArray[np.float64], arm: str = "method", words: str = "") -> str:
        return judge_row_replacement([given(arm, SOFT)], [given(arm, after)], PLAN, words=words).outcome

    assert probed(moved) == "moved" and probed(moved + 1e-6) == "moved"
    assert probed(stray) == "still" and probed(stray, words="a transductive setting") == "moved"
    assert probed(still) == "still" and probed(still, arm="random-guess") == "moved"
    flat = np.tile(SOFT[:1], (40, 1))
    assert judge_row_replacement([given("method", flat)], [given("method", flat)], PLAN).outcome == "moved"
    assert judge_row_replacement([given("method", SOFT)], [], PLAN).outcome == "unclear"


def test_predictions_that_stay_with_permuted_labels_come_from_elsewhere() -> None:
    assert find_arms_ignoring_labels([given("method", SOFT)], [given("method", SOFT)], PLAN) == ("method",)
    assert find_arms_ignoring_labels([given("method", SOFT)], [given("method", SOFT + 1e-9)], PLAN) == ()
    assert find_arms_ignoring_labels([given("zero-shot", SOFT)], [given("zero-shot", SOFT)], PLAN) == ()


NAMES = ("baseline", "method")


def values(baseline: float, method: float) -> Sequence[Measurement]:
    return [
        Measurement(
            name="accuracy", value=value, condition=arm, dataset="digits", split="validation", seed=0, grade="scored"
        )
        for arm, value in zip(NAMES, (baseline, method), strict=True)
    ]


@pytest.mark.parametrize(
    ("after", "replicate", "outcome"),
    [
        ((0.9, 0.8), (0.81, 0.9), "moved"),
        ((0.8, 0.9), (0.81, 0.9), "still"),
        ((0.8, 0.9), (0.9, 0.8), "unclear"),
        ((0.85, 0.85), (0.81, 0.9), "unclear"),
    ],
)
def test_a_difference_must_go_with_the_code_and_not_with_the_name(
    after: tuple[float, float], replicate: tuple[float, float], outcome: str
) -> None:
    found = judge_name_exchange(
        values(0.8, 0.9),
        values(*after),
        [values(*replicate)] * 2,
        names=NAMES,
        metric=MetricSpec(name="accuracy", higher_is_better=True),
    )
    assert found.outcome == outcome


def test_names_are_exchanged_in_strings_and_files_or_not_at_all() -> None:
    files = {
        "experiment.py": "RATE = {'baseline': 1,\n        \"method\": 2}  # method\nmethod = 3\n",
        "arms/method.py": "X = 1\n",
    }
    turned = exchange_arm_names(files, NAMES)
    assert turned == {
        "experiment.py": "RATE = {'method': 1,\n        'baseline': 2}  # method\nmethod = 3\n",
        "arms/baseline.py": "X = 1\n",
    }
    assert turned is not None
    assert exchange_arm_names(turned, NAMES) == {**files, "experiment.py": files["experiment.py"].replace('"', "'")}
    for code in ("f(method=1)", "x.method", "def method(): ...", "import arms.method", "x = 'the method'", "("):
        assert exchange_arm_names({"experiment.py": code + "\n"}, NAMES) is None, code


# --- code as its reader sees it ---------------------------------------------------------------------------------------


CODE = '''"""Nothing wrong here."""
import lab


def run(cell):
    """Honest."""
    x = "#1"  # trust me
    return x
'''


def test_a_reader_sees_no_comments_and_no_docstrings_and_every_line_in_its_place() -> None:
    assert strip_comments(CODE) == '\nimport lab\n\n\ndef run(cell):\n\n    x = "#1"\n    return x'
    assert number_lines(strip_comments(CODE)).splitlines()[-1] == "   8     return x"
    assert strip_comments("def (") == "def ("


def test_a_doubt_counts_where_its_quote_stands_at_its_lines() -> None:
    def doubt(first: int, last: int, quote: str, file: str = "experiment.py") -> CodeDoubt:
        return CodeDoubt(kind="other", file=file, first=first, last=last, quote=quote, what="w", honest="h")

    code = {"experiment.py": strip_comments(CODE)}
    good = [doubt(7, 7, 'x = "#1"'), doubt(7, 8, 'x = "#1" return x')]
    bad = [
        doubt(8, 8, 'x = "#1"'),
        doubt(7, 7, "trust me"),
        doubt(7, 99, 'x = "#1"'),
        doubt(8, 7, "return x"),
        doubt(7, 7, 'x = "#1"', "a.py"),
    ]
    assert keep_verified_doubts([*good, *bad], code) == tuple(good)
