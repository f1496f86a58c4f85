"""Effects that are not importance are not ranked: the floor is below the baseline, targets are no components."""

from __future__ import annotations

from labwright.sandbox.repository.trace import CalledFunction, CallTrace, RecordedCall
from labwright.stages.repository.ablation_stats import PartMeasurements, build_results


def scored(function: str, *digests: str, shapes: tuple[int, ...] = (8, 8), returned: str = "number") -> CalledFunction:
    names = ("p", "y", "z")
    return CalledFunction(
        "train.py",
        function,
        1,
        1,
        (),
        (
            RecordedCall(
                {name: ["array", [shape]] for name, shape in zip(names, shapes, strict=False)},
                [returned],
                dict(zip(names, digests, strict=False)),
            ),
        ),
    )


def trace(*functions: CalledFunction) -> CallTrace:
    return CallTrace({f"{one.path}:{number}": one for number, one in enumerate(functions)})


def test_targets_that_stay_are_told_from_targets_that_a_part_makes() -> None:
    before = trace(scored("mse", "p1", "y"), scored("shape", "a", "b", shapes=(8, 4)))
    assert not before.is_scored_on_other_data(trace(scored("mse", "p2", "y"))), "predictions alone differ"
    assert before.is_scored_on_other_data(trace(scored("mse", "p2", "y2")))
    assert not before.is_scored_on_other_data(trace(scored("other", "p2", "y2"))), "nobody knows"
    assert not before.is_scored_on_other_data(trace(scored("shape", "c", "d", shapes=(8, 4)))), "not what scores"
    two = trace(scored("mse", "p1", "y"), scored("accuracy", "p1", "t"))
    assert not two.is_scored_on_other_data(
        trace(scored("mse", "p2", "batch of another order"), scored("accuracy", "p2", "t"))
    )


def test_rows_that_are_not_ranked_are_no_tests() -> None:
    base = {seed: 0.8 + 0.01 * seed for seed in range(5)}
    gone = {seed: value - 0.1 - 0.001 * seed for seed, value in base.items()}
    rows = build_results(
        [
            PartMeasurements("a", baseline=base, ablated=gone),
            PartMeasurements("b", gate="breaks the program", baseline={0: 0.8}, ablated={0: 0.1}),
            PartMeasurements("c", gate="changes what is scored", baseline=base, ablated=gone),
            PartMeasurements("d", gate="no effect", baseline={0: 0.8}, ablated={0: 0.8}),
        ],
        direction="max",
    )
    assert [row.called for row in rows] == ["critical", "breaks the program", "changes what is scored", "no effect"]
    assert rows[0].p is not None and rows[2].p is None and (rows[3].n, rows[3].mean) == (1, 0.0)
    alone = build_results([PartMeasurements("a", baseline=base, ablated=gone)], direction="max")
    assert alone[0].p == rows[0].p, "what is not ranked is not corrected for"
