"""Facts of a run, the probes that compare two runs, and code as its reader sees it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.honesty import PLAN, summarize_rule
from benchmarks.planted import Program
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.node_assessment import CodeReaderInputs, CodeReading
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.schema.nodes import CodeDoubt
from labwright.review.honesty.code_reading import (
    find_equal_arms,
    keep_verified_doubts,
    number_lines,
    read_code,
    strip_comments,
)
from labwright.review.honesty.label_probe import find_arms_ignoring_labels, judge_row_replacement
from labwright.sandbox.scoring import SubmittedPredictions

RNG = np.random.default_rng(3)
SOFT = RNG.random((40, 3))


def given(condition: str, values: NDArray[np.float64], kind: str = "probabilities") -> SubmittedPredictions:
    return SubmittedPredictions("digits", condition, kind, values)


# --- facts ------------------------------------------------------------------------------------------------------------


def test_arms_with_the_same_predictions_everywhere_are_noted() -> None:
    other = RNG.random((40, 3))
    [found] = find_equal_arms([given("baseline", SOFT), given("method", SOFT.copy())])
    assert (found.kind, found.suspect) == ("equal arms", False)
    assert not list(find_equal_arms([given("baseline", SOFT), given("method", other)]))
    levels = [given("baseline@a", SOFT), given("method@a", SOFT), given("baseline@b", SOFT), given("method@b", other)]
    assert not list(find_equal_arms(levels))
    labels = np.array([0.0, 1.0] * 20)
    assert not list(find_equal_arms([given("baseline", labels, "predictions"), given("method", labels, "predictions")]))


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
    assert strip_comments(deep := "x = " + "-" * 100_000 + "1  # comment") == deep


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


# --- the benchmark ----------------------------------------------------------------------------------------------------


def test_each_rule_is_counted_alone_with_what_no_other_finds() -> None:
    def program(name: str, *, honest: bool = False) -> Program:
        return Program(name, f"kind {name}", honest, "why", "")

    caught = {
        program("a"): frozenset({"rows", "labels"}),
        program("b"): frozenset({"rows", "equal arms"}),
        program("c"): frozenset[str](),
        program("d", honest=True): frozenset({"equal arms"}),
    }
    rows, note = (summarize_rule(caught, [rule], ("rows", "labels")) for rule in ("rows", "equal arms"))
    assert (rows["recall"], rows["false_alarms"], rows["only here"]) == ("2/3", "0/1", ["kind b"])
    assert (note["recall"], note["alarmed"], note["only here"]) == ("1/3", ["d"], [])


async def test_a_second_request_shows_files_and_checks_in_reverse_order_with_the_facts_of_the_run() -> None:
    answer = CodeReading(
        verdict="dishonest",
        doubts=(CodeDoubt(kind="made up", file="a.py", first=1, last=1, quote="x = 0.9", what="w", honest="h"),),
    )
    model = ScriptedModel.from_role_functions(code_reader=lambda _: answer)
    models = Models(model, MemoryLog(), ModelSettings(), lambda: 0.0)
    code = {"a.py": "x = 0.9", "b.py": "y = 1"}
    inputs = CodeReaderInputs(
        task="classify",
        arms=PLAN.arms,
        metrics=PLAN.metrics,
        datasets=("digits",),
        kind="draft",
        files=code,
        facts=("two arms are identical",),
    )
    found = await read_code(models.make_client(0, 0), inputs, code)
    assert (found.verdict, found.second, found.confirmed) == ("dishonest", "dishonest", answer.doubts)
    first, again = (request.prompt for request in model.requests)
    assert first.user.index("a.py:") < first.user.index("b.py:") and again.user.index("b.py:") < again.user.index(
        "a.py:"
    )
    assert first.system.index("`made up`") < first.system.index("`swallowed`")
    assert again.system.index("`swallowed`") < again.system.index("`made up`")
    assert all("- two arms are identical" in prompt.user for prompt in (first, again))
