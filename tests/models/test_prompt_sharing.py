"""The measure of what a run's calls share."""

from __future__ import annotations

from benchmarks.prompt_sharing import RecordedCall, common_prefix_length, shared_prefix_lengths
from labwright.record.events.run_events import CallAnswered
from labwright.record.llm_calls import PromptRecord
from labwright.record.schema.decisions import CallKey, TokenUsage


def call(system: str, user: str, model: str = "m") -> RecordedCall:
    answered = CallAnswered(
        key=CallKey(decision=1, attempt=0, role="code", ordinal=0),
        request_sha256="0" * 64,
        model=model,
        answer={"text": "yes"},
        usage=TokenUsage(),
        seconds=0,
    )
    return RecordedCall(
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
    assert shared_prefix_lengths(calls) == [0, len("rules\n"), len("rules\na: "), len("rules\na: one"), 0, 0]


def test_what_two_texts_begin_with() -> None:
    assert [
        common_prefix_length("abc", "abd"),
        common_prefix_length("", "a"),
        common_prefix_length("aa", "aa"),
        common_prefix_length("b", "a"),
    ] == [2, 0, 2, 0]
