"""Effects that are not importance are not ranked: the floor is below the baseline, targets are no components."""

from __future__ import annotations

from labwright.sandbox.repository.trace import CalledFunction, CallTrace, RecordedCall


def scored(function: str, *digests: str, shapes: tuple[int, ...] = (8, 8)) -> CalledFunction:
    names = ("p", "y", "z")
    call = RecordedCall(
        argument_kinds={name: ["array", [shape]] for name, shape in zip(names, shapes, strict=False)},
        return_kind=["number"],
        digests=dict(zip(names, digests, strict=False)),
    )
    return CalledFunction(path="train.py", name=function, line=1, calls=1, callers={}, recorded_calls=[call])


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
