"""The measure of what a run's calls share."""

from __future__ import annotations

from benchmarks.prompts import Call, common, shared
from labwright.record.events.running import Answered
from labwright.record.nouns.decisions import CallKey, Usage
from labwright.record.prompts import PromptRecord


def call(system: str, user: str, model: str = "m") -> Call:
    answered = Answered(
        key=CallKey(decision=1, attempt=0, role="code", ordinal=0),
        request_sha256="0" * 64,
        model=model,
        answer={"text": "yes"},
        usage=Usage(),
        seconds=0,
    )
    return Call(
        answered,
        PromptRecord.model_validate(
            {"asked": model, "role": "code", "system": system, "user": user, "images": (), "schema": {}}
        ),
    )


def test_the_longest_beginning_that_any_earlier_call_of_the_model_had_is_shared() -> None:
    calls = [
        call("rules", "a: one"),
        call("rules", "b"),
        call("rules", "a: two"),
        call("rules", "a: one"),
        call("other", "x"),
        call("rules", "a: one", model="another"),
    ]
    assert shared(calls) == [0, len("rules\n"), len("rules\na: "), len("rules\na: one"), 0, 0]


def test_what_two_texts_begin_with() -> None:
    assert [common("abc", "abd"), common("", "a"), common("aa", "aa"), common("b", "a")] == [2, 0, 2, 0]
