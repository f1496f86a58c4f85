"""Typed claims compared with a small record: true ones pass, and each swap of one field is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from labwright.models.roles.role import PROMPTS_FOLDER
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import Claim, compute_claims
from labwright.record.claims.hypothesis_tests import ReplicateValues, decide_from_runs
from labwright.record.reducers.run_state import RunState, SearchState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.schema.claims import ReadClaim, ReadSentence, SentenceReading
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, Measurement, MetricSpec
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis, RivalExplanation
from labwright.record.schema.nodes import Node
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.claims.comparisons import ClaimRecord
from labwright.review.claims.rules import UNREAD, check_claims, find_unreported
from labwright.review.claims.sentences import (
    PaperSentence,
    build_vocabulary,
    group_paragraphs,
    is_valid_reading,
    names_two_arms,
    split_sentences,
)
from labwright.stages.paper.claim_check import remove_claims

LEVELS = ("n0", "n20", "n40")
REFERENCE = next(iter(REFERENCE_ARM_TITLES))
GAIN = {"n0": 0.0, "n20": 0.03, "n40": 0.06}
"""Accuracy that mixup adds on Digits; on Wine it adds nothing, within much noise."""


def hypothesis(name: str, estimand: str, **more: Any) -> Hypothesis:
    effect = Effect(estimand=estimand, smallest=more.pop("smallest", 0.02), claim=more.pop("claim", "positive"))
    return Hypothesis(id=name, statement=f"{name}.", effects=(effect,), reason="less is noise", unit="seeds", **more)


PLAN = DataPlan(
    task="classify",
    datasets=(DatasetUse(name="digits", title="Digits"), DatasetUse(name="wine", title="Wine")),
    metrics=(
        MetricSpec(name="accuracy", higher_is_better=True, low=0, high=1),
        MetricSpec(name="log_loss", title="log loss", higher_is_better=False),
    ),
    arms=(
        Arm(name="plain", title="plain training", role="baseline"),
        Arm(name="mixup", title="mixup", role="method"),
        Arm(name="no-mixing", title="mixup without mixing", role="ablation"),
    ),
    levels=tuple(Level(name=name, title=f"{name[1:]} % noise", value=int(name[1:]) / 100) for name in LEVELS),
    factor="label noise",
    expected_seconds=1,
    hypotheses=(
        hypothesis("gain", "mean(mixup - plain, over=[n20, n40])"),
        hypothesis("large", "mixup@n40 - plain@n40", claim="at least", smallest=0.06),
        hypothesis("none-at-zero", "mixup@n0 - plain@n0", claim="within", smallest=0.02),
        hypothesis(
            "why",
            "mixup@n20 - no-mixing@n20",
            rival=RivalExplanation(
                statement="It trains longer.",
                estimand="no-mixing@n20 - plain@n20",
                ours="near zero",
                theirs="above zero",
            ),
        ),
    ),
)


def value(dataset: str, metric: str, arm: str, level: str, seed: int) -> float:
    """Accuracy, and a log loss and a number of steps that mirror it."""
    gain = GAIN[level] if arm == "mixup" and dataset == "digits" else 0.0
    noise = Random(f"{dataset}/{arm}/{level}/{seed}").gauss(0, 0.003 if dataset == "digits" or arm == "plain" else 0.03)
    accuracy = 0.9 - int(level[1:]) / 200 + gain + noise
    return accuracy if metric == "accuracy" else 1.2 - accuracy


def make_record(*, confirmed: bool = True, more: tuple[Hypothesis, ...] = ()) -> ClaimRecord:
    plan = PLAN.model_copy(update={"hypotheses": (*PLAN.hypotheses, *more)})
    seeds = range(6)
    measured = {
        seed: tuple(
            Measurement(
                name=metric,
                value=value(dataset, metric, arm, level, seed),
                condition=f"{arm}@{level}",
                dataset=dataset,
                split="test",
                seed=seed,
                grade="scored",
            )
            for dataset, metric, arm, level in product(
                ("digits", "wine"), ("accuracy", "log_loss", "steps"), ("plain", "mixup", "no-mixing"), LEVELS
            )
        )
        for seed in seeds
    }
    nodes = {
        seed: Node(
            id=f"r{seed}", decision=seed, parent=None, stage="agenda", kind="replicate", seed=seed, status="good"
        )
        for seed in seeds
    }
    means = compute_claims("test", [(nodes[seed], found) for seed, found in measured.items()])
    runs = [
        ReplicateValues(seed, f"r{seed}", {(one.dataset, one.condition, one.name): one.value for one in found})
        for seed, found in measured.items()
    ]
    state = RunState(search=SearchState(data_plan=plan), nodes={one.id: one for one in nodes.values()})
    return ClaimRecord(
        plan=plan,
        decisions=decide_from_runs(plan, runs, confirmed=confirmed),
        means=means,
        differences=compute_differences(state, means),
    )


RECORD = make_record()


def split(source: str, where: str = "section 'Results'", record: ClaimRecord = RECORD) -> tuple[PaperSentence, ...]:
    def render(text: str) -> str:
        return " ".join(re.sub(r"\\result\{[^}]*\}", "0.5", text).split())

    return split_sentences({where: source}, record, render)


def check(source: str, *claims: ReadClaim, record: ClaimRecord = RECORD) -> str:
    """Return why a sentence that is read as these claims is refused; "" if it passes."""
    (sentence,) = split(source, record=record)
    reading = SentenceReading(sha256=sentence.sha256, labels=("outcome",), claims=claims)
    return "; ".join(one.fix for _, one in check_claims((sentence,), {sentence.sha256: reading}, record))


def check_part(first: str, second: str, *claims: ReadClaim, where: str = "section 'Results'") -> str:
    """Return why two sentences of a part, each read as one claim, are refused."""
    sentences = split(f"{first} {second}", where)
    assert len(sentences) == 2
    readings = {
        one.sha256: SentenceReading(sha256=one.sha256, labels=("outcome",), claims=(each,))
        for one, each in zip(sentences, claims, strict=True)
    }
    return "; ".join(one.fix for _, one in check_claims(sentences, readings, RECORD))


def claim(kind: str, **fields: Any) -> ReadClaim:
    return ReadClaim.model_validate({"kind": kind, **fields})


BETTER = {
    "subject": "mixup",
    "other": "plain",
    "metric": "accuracy",
    "datasets": ("digits",),
    "levels": ("n20",),
    "direction": "better",
}
DIFFERENCE = r"\result{diff/digits/accuracy/mixup@n20~plain@n20.mean}"


def test_the_record_is_as_these_tests_need_it() -> None:
    assert {one.hypothesis.id: one.verdict for one in RECORD.decisions} == {
        "gain": "supported",
        "large": "open",
        "none-at-zero": "supported",
        "why": "supported",
    }
    assert [one.rival_sign for one in RECORD.decisions][-1] == "near zero"


def test_a_true_direction_passes_in_every_way_of_saying_it() -> None:
    for fields in (
        {},
        {"subject": "plain training", "other": "Mixup", "direction": "worse"},
        {"levels": ("20 % noise", "n40")},
        {"levels": ("n20", "n40"), "certainty": "shown"},
        {"levels": ("0.2",), "certainty": "suggested"},
        {"metric": "log loss", "direction": "lower"},
        {"levels": (), "certainty": "shown"},
        {"subject": "mixup@n0", "other": "mixup@n40", "levels": (), "direction": "higher"},
        {"direction": "none"},  # they differ
    ):
        assert check("Mixup helps.", claim("direction", **BETTER | fields)) == "", fields


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"direction": "worse"}, "opposite"),
        ({"metric": "log_loss", "direction": "higher"}, "opposite"),
        ({"subject": "no-mixing"}, "contains zero"),
        ({"datasets": ("wine",)}, "contains zero"),
        ({"levels": ("n0",)}, "contains zero"),
        ({"certainty": "shown"}, "not a confirmed effect"),
        ({"certainty": "open"}, "the record decides it"),
        ({"levels": ("n60",)}, "no level 'n60'"),
        ({"datasets": ("ImageNet",)}, "no dataset 'ImageNet'"),
        ({"certainty": "conjectured", "direction": "worse"}, "opposite"),
        ({"subject": "", "other": ""}, "both sides"),
    ],
)
def test_a_direction_with_one_field_swapped_is_refused(fields: dict[str, Any], why: str) -> None:
    assert why in check("Mixup helps.", claim("direction", **BETTER | fields))


def test_a_conjecture_or_an_open_question_may_name_what_was_not_measured() -> None:
    for certainty in ("conjectured", "open"):
        for kind in ("direction", "generality", "cause"):
            assert check("It may.", claim(kind, **BETTER | {"datasets": ("ImageNet",), "certainty": certainty})) == ""


def test_no_difference_needs_a_registered_equivalence_that_holds() -> None:
    same = BETTER | {"direction": "none", "levels": ("n0",)}
    assert check("They agree.", claim("no difference", **same, certainty="shown")) == ""
    assert check("They agree.", claim("no difference", **same | {"metric": "log_loss"})) != "", (
        "no margin is registered"
    )
    assert "equivalence" in check("They agree.", claim("no difference", **same | {"datasets": ("wine",)}))
    spared = same | {"subject": "no-mixing", "levels": ("n40",)}
    assert "equivalence" in check("They agree.", claim("no difference", **spared)), "a narrow interval is not enough"
    assert check("They agree.", claim("no difference", **spared | {"levels": ("n20",)})) == "", "a rival near zero"
    equal = replace(
        RECORD,
        decisions=(),
        means=[
            one.model_copy(update={"arm": "mixup", "condition": f"mixup@{one.level}"}) if one.arm == "plain" else one
            for one in RECORD.means
            if one.arm != "mixup"
        ]
        + [one for one in RECORD.means if one.arm == "plain"],
        differences=(),
    )
    assert check("They agree.", claim("no difference", **same), record=equal) == "", "all values are equal"
    assert "a difference" in check("They agree.", claim("no difference", **same | {"levels": ("n20",)}))
    other = Effect(estimand="mixup@n0 - plain@n0", metric="log_loss", smallest=0.02)
    also = make_record(more=(hypothesis("also", "mixup@n40 - plain@n40", alternatives=(other,)),))
    assert check("They agree.", claim("no difference", **same | {"metric": "log_loss"}), record=also) == "", (
        "a registered alternative within its margin"
    )
    undecided = same | {"datasets": ("wine",), "certainty": "open"}
    assert check("It is open.", claim("no difference", **undecided)) == ""
    assert check("It is open.", claim("direction", **undecided)) == ""


def test_a_size_needs_a_number_of_its_comparison_in_the_paragraph_and_its_sign() -> None:
    large = claim("size", **BETTER)
    assert check(f"Mixup adds {DIFFERENCE}.", large) == ""
    assert "no number of this comparison" in check("Mixup adds much.", large)
    open_size = claim("size", **BETTER | {"direction": "none", "levels": ("n0",), "certainty": "open"})
    assert check("How large the gain is stays open.", open_size) == ""
    other = r"\result{diff/digits/accuracy/no-mixing@n20~mixup@n20.mean}"
    assert "no number of this comparison" in check(f"Mixup adds {other}.", large)
    means = r"\result{test/digits/accuracy/mixup@n20.mean} against \result{test/digits/accuracy/plain@n20.mean}"
    assert check(f"It is {means}.", large) == ""
    assert check(rf"It is {means}.", claim("size", subject="mixup"), claim("size", subject="plain")) == ""
    assert "opposite" in check(f"Mixup costs {DIFFERENCE}.", claim("size", **BETTER | {"direction": "worse"}))
    vague = r"\result{diff/digits/accuracy/mixup@n0~plain@n0.mean}"
    fields = BETTER | {"levels": ("n0",)}
    found = {check(f"It adds {vague}.", claim("size", **fields | {"direction": one})) for one in ("better", "worse")}
    assert "" in found, "an amount with its interval says nothing of a direction that the interval leaves open"
    assert check_part("Mixup adds much.", f"The gain is {DIFFERENCE}.", large, large) == ""
    apart = ("Mixup adds much.", f"\n\nThe gain is {DIFFERENCE}.", large, large)
    assert "no number" in check_part(*apart)
    assert "no number" not in check_part(*apart, where="abstract")


def test_a_size_beside_the_number_of_a_change_has_the_sign_of_the_change() -> None:
    grows = hypothesis("grows", "(mixup@n40 - plain@n40) - (mixup@n0 - plain@n0)", confirmatory=False)
    record = make_record(more=(grows,))
    source = r"In this exploratory contrast the gains differ by \result{hypothesis/grows/1.mean}."
    gain = claim("size", **BETTER | {"levels": ("n0", "n40"), "direction": "higher"})
    assert check(source, gain, record=record) == "", "the mean at n0 alone is below zero"
    lower = gain.model_copy(update={"direction": "lower"})
    assert "the record has the opposite (hypothesis/grows/1" in check(source, lower, record=record)
    apart = r"The gain is \result{diff/digits/accuracy/mixup@n40~plain@n40.mean}."
    assert "opposite (hypothesis/none-at-zero" in check(apart, gain, record=record), "without the number of the change"
    at_zero = gain.model_copy(update={"levels": ("n0",)})
    assert "opposite (hypothesis/none-at-zero" in check(source, at_zero, record=record), "one level is no change"
    helps = claim("direction", **BETTER | {"levels": ("n0", "n40")})
    assert "contains zero" in check(source, helps, record=record), "that it helps at each level is another claim"


def test_a_ranking_of_printed_means_is_compared_with_these_means() -> None:
    printed = [rf"\result{{test/wine/accuracy/{arm}@n20.pm}}" for arm in ("mixup", "plain")]
    (pair,) = RECORD.find_all({("wine", "mixup", "n20"): 1.0, ("wine", "plain", "n20"): -1.0}, "accuracy")
    assert pair.mean is not None and pair.sign == 0
    above, below = ("higher", "lower") if pair.mean > 0 else ("lower", "higher")
    text = f"On Wine at 20 % noise mixup has one SAID ({printed[0]}) and plain training another ({printed[1]})."
    one, other = (claim("direction", **BETTER | {"datasets": ("wine",), "direction": said}) for said in (above, below))
    assert check(text.replace("SAID", "mean accuracy"), one) == ""
    assert "not even the mean" in check(text.replace("SAID", "mean accuracy"), other)
    assert "contains zero" in check(text.replace("SAID", "accuracy"), one)
    assert "contains zero" in check(f"Mixup has another mean accuracy ({printed[0]}).", one)
    squared = tuple(each.model_copy(update={"title": "mean accuracy"}) for each in PLAN.metrics)
    record = replace(RECORD, plan=RECORD.plan.model_copy(update={"metrics": squared}))
    assert "contains zero" in check(text.replace("SAID", "mean accuracy"), one, record=record)


def test_an_absence_that_the_sentence_itself_leaves_open_is_none() -> None:
    suggested, opened, seen = (
        claim("no difference", **BETTER | {"datasets": ("wine",), "direction": "none"}, certainty=certainty)
        for certainty in ("suggested", "open", "observed")
    )
    text = "On Wine both are right about as often, but this does not show that they are equal."
    assert check(text, suggested, opened) == ""
    assert "no registered equivalence" in check(text, suggested)
    assert "no registered equivalence" in check(text, seen, opened)
    decided = [one.model_copy(update={"datasets": ("digits",), "levels": ("n40",)}) for one in (suggested, opened)]
    assert "has a difference" in check("On Digits they are about as often right.", *decided)


def test_what_was_not_registered_is_shown_only_where_it_is_called_exploratory() -> None:
    shown = claim("direction", **BETTER | {"levels": ("n20",), "certainty": "shown"})
    for where in ("section 'Results'", "abstract", "caption of loss"):
        refused = check_part("Mixup helps.", "That is all.", shown, shown, where=where)
        assert "not a confirmed effect" in refused
        assert "write that it was observed, or call the comparison exploratory" in refused
        assert check_part("Mixup helps.", "This comparison is exploratory.", shown, shown, where=where) == ""


@pytest.mark.parametrize(
    "key",
    [
        "diff/digits/accuracy/mixup@n40~plain@n40.mean",
        "diff/wine/accuracy/mixup@n20~plain@n20.mean",
        "diff/digits/log_loss/mixup@n20~plain@n20.mean",
    ],
)
def test_a_number_of_another_comparison_is_refused(key: str) -> None:
    assert "belongs to no comparison" in check(rf"Mixup helps (\result{{{key}}}).", claim("direction", **BETTER))


def test_what_the_words_leave_open_comes_from_the_numbers() -> None:
    assert check(f"It gains {DIFFERENCE}.", claim("direction", direction="better")) == ""
    assert check(f"It loses {DIFFERENCE}.", claim("direction", direction="worse")) != ""
    registered = r"\result{hypothesis/gain/1.mean}"
    assert check(f"It gains {registered}.", claim("direction", direction="better", certainty="shown")) == ""


def test_a_trend_goes_from_the_first_level_to_the_last() -> None:
    fields = BETTER | {"levels": ()}
    assert check("The gain grows.", claim("trend", **fields)) == ""
    assert "opposite" in check("The gain shrinks.", claim("trend", **fields | {"direction": "worse"}))
    falls = {"subject": "plain", "metric": "accuracy", "datasets": ("digits",), "direction": "lower"}
    assert check("Accuracy falls.", claim("trend", **falls)) == ""
    assert check("Accuracy rises.", claim("trend", **falls | {"direction": "higher"})) != ""
    assert check("It never changes.", claim("trend", **falls | {"direction": "none"})) != ""
    assert check("The gain grows.", claim("trend", **fields | {"datasets": ("wine",)})) != ""


def test_a_cause_needs_an_ablation_that_isolates_it_or_a_decided_hypothesis() -> None:
    assert check("Mixing does it.", claim("cause", subject="no-mixing", levels=("n20",))) == ""
    assert check("Mixing does it.", claim("cause", hypothesis="why", certainty="shown")) == ""
    assert "isolates" in check("Smoothness does it.", claim("cause"))
    assert "isolates" in check("Mixup does it.", claim("cause", subject="mixup", other="plain"))
    assert "isolates" in check("It is the gain.", claim("cause", hypothesis="gain"))
    assert "does not show" in check("Mixing does it.", claim("cause", subject="no-mixing", levels=("n0",)))
    assert "exploratory" in check(
        "Mixing does it.", claim("cause", subject="no-mixing", levels=("n40",), certainty="shown")
    )
    assert check("Perhaps smoothness does it.", claim("cause", certainty="conjectured")) == ""


def test_a_cause_that_nobody_registered_may_only_be_suggested() -> None:
    ablated = claim("cause", subject="no-mixing", levels=("n40",))
    assert "no registered hypothesis or estimate decides this cause" in check("It is mixing.", ablated)
    assert check("This suggests mixing.", ablated.model_copy(update={"certainty": "suggested"})) == ""
    effect = Effect(estimand="mixup@n40 - no-mixing@n40", smallest=0.02, claim="positive")
    found = EffectDecision(effect=effect, values=(), mean=0.06, low=0.05, high=0.07)
    record = replace(RECORD, estimates={"without": found})
    assert check("It is mixing.", ablated, record=record) == ""
    assert "not a confirmed effect" in check(
        "It is mixing.", ablated.model_copy(update={"certainty": "shown"}), record=record
    )
    number = r"\result{hypothesis/why/1.mean}"
    assert "isolates" in check(f"Smoothness adds {number}.", claim("cause")), "a printed number is no mechanism"


def test_an_estimate_or_control_printed_in_the_paragraph_suggests_a_cause() -> None:
    effect = Effect(estimand="on(plain@n40 - no-mixing@n40, wine)", smallest=0.02, claim="positive")
    found = EffectDecision(effect=effect, values=(), mean=0.06, low=0.05, high=0.07)
    record = replace(RECORD, estimates={"setting": found})
    number, said = r"\result{estimate/setting.mean}", claim("cause", certainty="suggested")
    assert check(f"The difference of {number} speaks for the setting.", said, record=record) == ""
    shown = said.model_copy(update={"certainty": "observed"})
    assert "isolates" in check(f"The setting explains it ({number}).", shown, record=record)
    undecided = replace(RECORD, estimates={"setting": found.model_copy(update={"low": -0.05})})
    assert "isolates" in check(f"The difference of {number} speaks for the setting.", said, record=undecided)
    assert "isolates" in check(rf"The gain of {DIFFERENCE} speaks for it.", said), "it is no control"
    owned = claim("cause", subject="no-mixing", other="plain", levels=("n40",), certainty="suggested")
    assert "does not show" in check("Plain training owes it to mixing.", owned), "the named arm is the whole"


SHARE = {"subject": "mixup@n20", "other": "plain@n20", "of_subject": "mixup@n40", "of_other": "plain@n40"}


@pytest.mark.parametrize(
    ("limits", "certainty", "why"),
    [
        ((0.5, 0.5), "observed", ""),
        ((None, 0.9), "shown", "not a confirmed effect"),
        ((0.5, None), "observed", "the interval does not decide it"),
        ((0.5, None), "suggested", ""),
        ((None, 0.9), "open", "the record decides it"),
        ((2, 2), "conjectured", "opposite"),
        ((0.9, None), "observed", "opposite"),
        ((None, None), "observed", "no number of this ratio"),
    ],
)
def test_a_ratio_in_words_is_compared_with_its_interval(
    limits: tuple[float | None, float | None], certainty: str, why: str
) -> None:
    fields = SHARE | {"metric": "accuracy", "datasets": ("digits",), "at_least": limits[0], "at_most": limits[1]}
    found = check("Half of the gain is left.", claim("ratio", **fields, certainty=certainty))
    assert (why in found) if why else not found


def test_a_registered_share_decides_about_itself_and_about_the_rest() -> None:
    share = Effect(
        estimand="(no-mixing@n40 - plain@n40) / (mixup@n40 - plain@n40)", smallest=0.2, claim="at most", bound=0.3
    )
    decided = EffectDecision(effect=share, values=(), mean=0.2, low=0.15, high=0.25)
    record = replace(RECORD, estimates={"kept": decided})
    fields = {
        "metric": "accuracy",
        "levels": ("n40",),
        "of_subject": "mixup",
        "of_other": "plain",
        "datasets": ("digits",),
    }
    kept = fields | {"subject": "no-mixing", "other": "plain"}
    lost = fields | {"subject": "mixup", "other": "no-mixing"}
    assert check("A third at most is kept.", claim("ratio", **kept, at_most=0.3), record=record) == ""
    assert "estimate/kept" in check("Half is kept.", claim("ratio", **kept, at_least=0.5), record=record)
    assert check("Most is lost.", claim("ratio", **lost, at_least=0.5), record=record) == ""
    assert "1 - estimate/kept" in check("Half is lost.", claim("ratio", **lost, at_most=0.5), record=record)
    fifth = claim("ratio", **kept, at_least=0.2, at_most=0.2)
    shown = fifth.model_copy(update={"certainty": "shown"})
    assert check("A fifth is kept.", fifth, record=record) == ""
    assert "no equivalence at 0.2" in check("The share is not different from a fifth.", shown, record=record)
    number = r"\result{estimate/kept.mean}"
    assert check(f"The share is {number}.", claim("ratio", **kept), record=record) == ""
    assert check(f"It keeps {number}.", fifth, record=record) == ""
    for datasets, why in ((("wine", "digits"), "opposite"), (("digits",), "no measurement")):
        gain = {"subject": "mixup", "other": "plain", "of_subject": "mixup", "of_other": "plain", "levels": ("n40",)}
        said = claim("ratio", **gain, metric="accuracy", datasets=datasets, at_least=1, at_most=1)
        assert why in check("It is as large on Wine.", said), "a quantity is not compared with itself"
    doubled = {"subject": "plain@n0", "of_subject": "plain@n40", "metric": "log_loss", "datasets": ("digits",)}
    assert "opposite" in check("Loss is twice as high.", claim("ratio", **doubled, at_least=2, at_most=2))
    least = claim("ratio", **kept | {"levels": (), "other": "no-mixing", "subject": "mixup"}, at_least=0.5)
    assert check("Most of the gain is lost.", least) == "", "without noise there is no gain of which it is a share"
    assert check("Which share is lost stays open.", claim("ratio", **lost, certainty="open")) == ""


def test_a_bound_in_words_is_compared_with_the_interval_of_the_difference() -> None:
    fields = BETTER | {"levels": ("n40",)}
    for kind in ("size", "direction"):
        assert check("It adds at least two points.", claim(kind, **fields, at_least=0.02)) == ""
        assert "does not decide" in check("It adds at least six points.", claim(kind, **fields, at_least=0.06))
        assert (
            check("Whether it adds six points is open.", claim(kind, **fields, at_least=0.06, certainty="open")) == ""
        )
        assert "opposite" in check("It adds two points at most.", claim(kind, **fields, at_most=0.02))
    worse = fields | {"subject": "plain", "other": "mixup", "direction": "worse"}
    assert check("It costs at least two points.", claim("size", **worse, at_least=0.02)) == ""
    change = BETTER | {"levels": ("n0", "n40")}
    assert check("The gain grows by two points or more.", claim("trend", **change, at_least=0.02)) == ""
    assert "opposite" in check("The gain grows by ten points.", claim("trend", **change, at_least=0.1))


def test_an_amount_in_words_is_compared_with_the_smallest_effect_that_matters() -> None:
    fields = BETTER | {"subject": "plain@n0", "other": "plain@n40", "levels": ()}
    assert check("It is far better.", claim("size", **fields, amount="large")) == "", "0.2 against 0.02"
    assert "leave the judgement out" in check("It is slightly better.", claim("size", **fields, amount="small"))
    near = BETTER | {"other": "no-mixing", "levels": ("n0",), "direction": "none"}
    middle = BETTER | {"levels": ("n40",)}
    for amount in ("small", "large"):
        assert "leave the judgement out" in check("It is so.", claim("size", **middle, amount=amount)), (
            "it is undecided"
        )
    assert check("The difference is small.", claim("size", **near, amount="small")) == ""
    assert "leave the judgement out" in check("It is dramatic.", claim("size", **near, amount="large"))
    loss = fields | {"metric": "log_loss", "direction": "lower"}
    assert check("It is slightly lower.", claim("size", **loss, amount="small")) == "", "no margin is registered"
    assert "no number" in check("It is far lower.", claim("size", **loss, amount="large"))


def test_a_difference_on_one_dataset_is_compared_with_that_on_another() -> None:
    fields = BETTER | {"levels": ("n40",), "other_dataset": "wine"}
    assert check("The gain is larger there.", claim("direction", **fields | {"direction": "higher"})) == ""
    assert "opposite" in check("It is smaller there.", claim("direction", **fields | {"direction": "lower"}))
    flat = {"subject": "plain", "metric": "accuracy", "datasets": ("digits", "wine"), "levels": ("n20",)}
    assert "zero" in check("It is higher.", claim("direction", **flat, other_dataset="wine", direction="higher"))
    grows = fields | {"levels": ("n0", "n40"), "direction": "higher"}
    assert check("Whether it grows more is open.", claim("trend", **grows, certainty="open")) == ""
    assert "opposite" not in check("It grows more.", claim("trend", **grows)) != "", "its interval contains zero"
    assert "no dataset" in check("It is so.", claim("direction", **fields | {"other_dataset": "cifar"}))
    assert "name both" in check("It is so.", claim("direction", **fields | {"datasets": ("wine",)}))
    estimand = "mixup@n40 - plain@n40 - on(mixup@n40 - plain@n40, wine)"
    record = make_record(more=(hypothesis("across", estimand),))
    text = r"Whether it exceeds that on Wine is open: \result{hypothesis/across/1.mean}."
    higher = fields | {"direction": "higher"}
    size = claim("size", **fields | {"direction": "none"})
    assert check(text, claim("direction", **higher, certainty="open"), size, record=record) == ""
    assert "hypothesis/across/1" in check(text, claim("direction", **higher), record=record), "what was registered"
    assert "not a confirmed effect" in check(
        "The gain is larger there.", claim("direction", **higher, certainty="shown")
    )


def test_a_count_of_cases_is_that_of_the_record() -> None:
    fields = BETTER | {"levels": LEVELS}
    assert check("It helps at two levels.", claim("direction", **fields, count=2)) == ""
    twice = make_record(more=(hypothesis("again", "mixup@n40 - plain@n40"),))
    assert check("It helps at two levels.", claim("direction", **fields, count=2), record=twice) == ""
    assert "holds in 2 of 3 cases" in check("It helps at three levels.", claim("direction", **fields, count=3))
    every = BETTER | {"datasets": ("digits", "wine"), "levels": ("n40",)}
    assert check("It helps on one of both datasets.", claim("direction", **every, count=1)) == ""
    registered = BETTER | {"datasets": (), "levels": ("n20", "n40")}  # as the hypothesis on their mean
    assert check("It helps in two of four cases.", claim("direction", **registered, count=2)) == ""


def test_the_examples_of_the_writers_prompt_are_judged_as_it_says() -> None:
    text = (PROMPTS_FOLDER / "_paper.md").read_text()
    found = re.findall(r'^(Good|Bad): "([^"]+)"', text, re.MULTILINE)
    record = make_record(more=(hypothesis("erasing", "mixup@n40 - plain@n40", claim="at least", smallest=0.06),))
    gain = BETTER | {"levels": ("n40",)}
    readings = {
        "Erasing raises": (claim("direction", **gain, certainty="shown"), claim("size", **gain)),
        "The interval includes": (
            claim("direction", **gain, certainty="shown"),
            claim("registered", hypothesis="erasing", verdict="open", certainty="open"),
        ),
        "Sparing the mark": (
            claim(
                "ratio",
                subject="no-mixing",
                other="plain",
                of_subject="mixup",
                of_other="plain",
                metric="accuracy",
                levels=("n40",),
                datasets=("digits",),
                at_most=0.5,
            ),
        ),
        "We find that": (claim("ambiguous", metric="accuracy"),),
        "Erasing hides": (claim("direction", **gain), claim("cause", certainty="shown"), claim("generality")),
        "Without noise": (
            claim("no difference", **BETTER | {"levels": ("n0",), "direction": "none", "other": "no-mixing"}),
        ),
    }
    judged = {start: kind for kind, example in found for start in readings if example.startswith(start)}
    assert len(judged) == len(found) == len(readings)
    refused = {
        start: check(next(one for _, one in found if one.startswith(start)), *said, record=record)
        for start, said in readings.items()
    }
    assert {start: "Bad" if why else "Good" for start, why in refused.items()} == judged, refused


def test_generality_needs_data_that_vary_it() -> None:
    assert "beyond" in check("Mixup helps in general.", claim("generality", **BETTER | {"datasets": (), "levels": ()}))
    assert "contains zero" in check(
        "On both it helps.", claim("generality", **BETTER | {"datasets": ("digits", "wine")})
    )
    both = BETTER | {"levels": ("n20", "n40")}
    assert check("It helps whatever the noise.", claim("generality", **both)) == ""
    assert "beyond" in check("It helps whatever the noise.", claim("generality", **both | {"datasets": ()}))


def test_a_general_statement_holds_on_every_dataset_unless_its_paragraph_names_one() -> None:
    general = claim("direction", **BETTER | {"datasets": (), "levels": ("n20", "n40")})
    found = check("Mixup helps.", general)
    assert "on wine" in found and found.endswith("or name the dataset for which it holds")
    assert check("Mixup helps on Digits.", general.model_copy(update={"datasets": ("digits",)})) == ""
    setup = claim("measured", subject="mixup", datasets=("digits",))
    assert check_part("We turn to Digits.", "Mixup helps.", setup, general) == ""
    assert "on wine" in check_part("We turn to Digits.\n\n", "Mixup helps.", setup, general)
    assert check_part("We ask.", "Mixup helps.", setup, general, where="section 'Results on Digits'") == ""
    assert check("Whether it helps is open.", claim("registered", hypothesis="large", verdict="open")) == ""
    parts = {"title of section 'Gains'": "Mixup helps", "section 'Gains'": "On Digits, mixup helps."}
    heading, body = split_sentences(parts, RECORD, lambda text: text)
    readings = {
        one.sha256: SentenceReading(sha256=one.sha256, labels=("outcome",), claims=(general,))
        for one in (heading, body)
    }
    assert check_claims((heading, body), readings, RECORD) == (), "a heading is about its section"


def test_a_level_that_the_sentence_leaves_out_is_that_of_the_numbers_around_it() -> None:
    helps = claim("direction", **BETTER | {"other": "no-mixing", "levels": ()})
    loss = helps.model_copy(update={"metric": "log_loss"})
    assert check("Mixing helps.", loss) == "", "at one level, and at none it harms"
    assert "contains zero" in check("Mixing harms.", loss.model_copy(update={"direction": "worse"}))
    assert "contains zero" in check_part("Mixing helps.", "We explored.", loss, loss, where="abstract")
    at_zero = r"\result{diff/digits/accuracy/no-mixing@n0~mixup@n0.mean}"
    zero = claim("size", **BETTER | {"other": "no-mixing", "levels": ("n0",), "direction": "none"})
    assert "n0" in check_part("Mixing helps.", f"The loss is {at_zero}.", helps, zero)
    size = claim("size", **BETTER | {"other": "no-mixing"})
    number = r"\result{diff/digits/accuracy/no-mixing@n20~mixup@n20.mean}"
    assert check_part("Mixing helps.", f"The loss is {number}.", helps, size) == ""


def test_a_reference_model_is_compared_where_the_others_were_measured() -> None:
    means = [one for one in RECORD.means if (one.arm, one.level) != ("no-mixing", "n0")]
    accuracy = [
        one.model_copy(update={"condition": REFERENCE, "values": (0.99,) * len(one.values)})
        for one in RECORD.means
        if (one.name, one.condition) == ("accuracy", "plain@n0")
    ]
    part = replace(RECORD, means=[*means, *accuracy], differences=())
    best = BETTER | {"subject": REFERENCE, "other": "no-mixing", "levels": LEVELS, "datasets": ("digits", "wine")}
    assert check("It is above every arm.", claim("direction", **best), record=part) == ""
    assert "opposite" in check("It is below.", claim("direction", **best | {"direction": "worse"}), record=part)


def test_what_was_measured_is_compared_with_the_cells() -> None:
    part = replace(RECORD, means=[one for one in RECORD.means if (one.arm, one.dataset) != ("no-mixing", "wine")])
    only = claim("measured", subject="plain", other="mixup", datasets=("wine",), count=2)
    at_zero = replace(RECORD, means=[one for one in RECORD.means if one.arm != "no-mixing" or one.level == "n0"])
    assert check("At 40 % only the two.", only.model_copy(update={"levels": ("n40",)}), record=at_zero) == ""
    assert check("On Wine we measured only the two.", only, record=part) == ""
    assert "3 arms there" in check("On Wine we measured only the two.", only)
    ablated = claim("measured", subject="no-mixing", datasets=("digits", "wine"))
    assert "no-mixing" in check("Both have the ablation.", ablated, record=part)
    assert check("Both have the ablation.", ablated) == ""


def test_the_outcome_of_a_hypothesis_is_that_of_the_record() -> None:
    said = claim("registered", hypothesis="gain", verdict="supported", certainty="shown")
    assert check("The gain is supported.", said) == ""
    tried = hypothesis("tried", "mixup@n40 - plain@n40", confirmatory=False)
    preview, shown = make_record(confirmed=False, more=(tried,)), said.model_copy(update={"hypothesis": "tried"})
    assert check("The exploratory hypothesis is supported.", shown, record=preview) == ""
    assert "not confirmed" in check("The hypothesis is supported.", shown, record=preview)
    assert "not confirmed" in check("The exploratory hypothesis is supported.", said, record=preview)
    assert "not confirmed" in check("The gain is supported.", said, record=make_record(confirmed=False))
    for name, verdict, true in (
        ("gain", "open", "supported"),
        ("large", "supported", "open"),
        ("large", "refuted", "open"),
    ):
        assert f"hypothesis {name} is {true}" in check(
            "It is so.", claim("registered", hypothesis=name, verdict=verdict)
        )
    assert "which hypothesis" in check("It is supported.", claim("registered", verdict="supported"))
    assert "several ways" in check("It matters.", claim("ambiguous"))


def test_what_nobody_read_is_refused() -> None:
    (sentence,) = split("Mixup helps.")
    [(same, violation)] = check_claims((sentence,), {}, RECORD)
    assert same is sentence and violation.fix == UNREAD


def test_an_outcome_is_reported_where_a_claim_matches_it() -> None:
    sentences = (
        *split("Mixup helps. So it is.", "abstract"),
        *split("Mixup gains. It is open. They agree. Mixing does it."),
    )
    gain = claim("direction", **BETTER | {"levels": ("n20", "n40")})
    claims = (
        gain,
        claim("registered", hypothesis="large", verdict="supported"),
        gain,
        claim("registered", hypothesis="large", verdict="open"),
        claim("no difference", **BETTER | {"direction": "none", "levels": ("n0",)}),
        claim(
            "direction", subject="mixup", other="no-mixing", direction="better", levels=("n40",), datasets=("digits",)
        ),
    )
    readings = {
        one.sha256: SentenceReading(sha256=one.sha256, labels=("outcome",), claims=(said,))
        for one, said in zip(sentences, claims, strict=True)
    }
    lines = find_unreported(sentences, readings, RECORD)
    assert [re.sub(r".* (abstract|section) .* hypothesis (\S+) .*", r"\1 \2", line) for line in lines[:-1]] == [
        "abstract large",
        "abstract none-at-zero",
        "abstract why",
        "section why",
    ]
    assert lines[-1].startswith("section 'Results' reports comparisons that were not registered")


def test_an_abstract_calls_what_was_not_registered_exploratory() -> None:
    grows = hypothesis("grows", "(mixup@n40 - plain@n40) - (mixup@n0 - plain@n0)", confirmatory=False)
    record = make_record(more=(grows,))

    def list_missing(text: str, said: ReadClaim) -> list[str]:
        (sentence,) = split(text, "abstract")
        readings = {sentence.sha256: SentenceReading(sha256=sentence.sha256, labels=("outcome",), claims=(said,))}
        found = check_claims((sentence,), readings, record)
        return [one.fix for _, one in found if "it was not registered" in one.fix]

    pair = claim("direction", **BETTER)
    [line] = list_missing("Mixup helps.", pair)
    assert line.endswith("it was not registered: call it exploratory, or leave it out")
    assert list_missing("Mixup may help.", pair.model_copy(update={"certainty": "conjectured"})) == []
    assert list_missing("In an exploratory comparison mixup helps.", pair) == []
    assert list_missing("Mixup helps.", claim("direction", **BETTER | {"levels": ("n20", "n40")})) == []
    assert list_missing("The gain grows.", claim("trend", **BETTER | {"levels": ()})) != [], "it is not confirmatory"
    means = [
        *RECORD.means,
        *(
            one.model_copy(update={"condition": f"{REFERENCE}@{one.level}"})
            for one in RECORD.means
            if one.arm == "plain"
        ),
    ]
    above = claim("direction", **BETTER | {"other": REFERENCE})
    record = replace(record, means=means)
    assert list_missing("It is above the reference.", above) == [], "every paper compares with its references"
    size = claim("size", **BETTER)
    assert list_missing(r"Mixup adds \result{hypothesis/gain/1.mean}.", size) == [], "the number is registered"


# --- sentences --------------------------------------------------------------------------------------------------------


def draft(body: str, abstract: str = "We ask. It helps.") -> PaperDraft:
    return PaperDraft(
        title="On mixup",
        abstract=abstract,
        sections=(Section(title="Results", body=body), Section(title="Conclusion", body="It ends.")),
        captions={"loss": "The loss by level."},
    )


def test_every_text_is_split_and_title_abstract_and_conclusion_are_read_twice() -> None:
    parts = draft("Mixup helps.\n\nWine is small.").parts
    found = split_sentences(parts, RECORD, lambda text: text, exempt=("Wine is  small.",))
    assert [one.text for one in found] == [
        "On mixup", "We ask.", "It helps.", "Results", "Mixup helps.", "Conclusion", "It ends.", "The loss by level.",
    ]  # fmt: skip
    assert [one.text for one in found if one.read_twice] == ["On mixup", "We ask.", "It helps.", "It ends."]


@pytest.mark.parametrize("title", ["Mixup always helps", "Mixup always helps."])
def test_the_title_of_a_paragraph_is_a_sentence_that_can_be_cut(title: str) -> None:
    body = f"\\paragraph{{{title}}} Plain is slow."
    first, second = split(body)
    assert (first.text, second.text) == (title, "Plain is slow.")
    reading = SentenceReading(sha256=first.sha256, labels=("outcome",), claims=(claim("generality"),))
    setup = SentenceReading(sha256=second.sha256, labels=("setup",))
    readings = {first.sha256: reading, second.sha256: setup}
    paper = draft(body)
    [(at, violation)] = check_claims((first, second), readings, RECORD)
    cut, lines = remove_claims(paper, [(at, violation)])
    assert cut.sections[0].body == "Plain is slow." and len(lines) == 1


def test_a_hash_changes_with_the_paragraph_before_a_sentence_and_with_its_numbers_only() -> None:
    def hashes(source: str) -> list[str]:
        return [one.sha256 for one in split(source)]

    first = hashes("Mixup is fast. It helps.\n\nPlain is slow.")
    second = hashes("Mixup is slow. It helps.\n\nPlain is slow.")
    assert first[0] != second[0] and first[1] != second[1] and first[2] == second[2]
    one, other = (
        hashes(rf"It gains \result{{diff/digits/accuracy/mixup@{n}~plain@{n}.mean}}.") for n in ("n20", "n40")
    )
    assert one != other


def test_a_prompt_shows_paragraphs_with_the_asked_sentences_numbered() -> None:
    sentences = split("Mixup is fast. It helps.\n\nPlain is slow.")
    [paragraph] = group_paragraphs(sentences, [1])
    assert [(one.number, one.text) for one in paragraph.sentences] == [(None, "Mixup is fast."), (2, "It helps.")]
    names = build_vocabulary(RECORD)
    assert "supported" not in names.model_dump_json() and [role for role, _ in names.arms][-1] == "ablation"
    assert names.confirmatory == ("gain", "large", "none-at-zero", "why")


def test_a_reading_quotes_its_sentence_and_an_outcome_has_claims() -> None:
    (one,) = split("Plain training is slow, and mixup helps.")
    known = claim("direction", **BETTER)
    assert is_valid_reading(ReadSentence(number=1, label="outcome", quote="mixup  Helps", claims=(known,)), one)
    assert not is_valid_reading(ReadSentence(number=1, label="outcome", quote="mixup hurts", claims=(known,)), one)
    assert not is_valid_reading(ReadSentence(number=1, label="outcome", quote="mixup helps"), one)
    assert not is_valid_reading(ReadSentence(number=1, label="setup", quote="slow"), one)
    assert is_valid_reading(ReadSentence(number=1, label="setup", quote="training is slow"), one)
    assert names_two_arms(one, RECORD) and not names_two_arms(split("Mixup without mixing is fast.")[0], RECORD)


def test_a_denied_direction_is_compared_with_the_difference_that_matters() -> None:
    for fields, why in (
        ({"levels": ("n20",)}, "opposite"),
        ({"levels": ("n0",)}, ""),  # the interval ends below the margin
        ({"datasets": ("wine",), "levels": ("n40",)}, "does not exclude it"),
        ({"datasets": ("wine",), "levels": ("n40",), "certainty": "open"}, ""),
        ({"subject": "plain", "other": "mixup"}, ""),
        ({"levels": ("n0",), "certainty": "open"}, "the record decides it"),
    ):
        refused = check("Mixup is not better.", claim("direction", **BETTER | {"denied": True} | fields))
        assert (why in refused) if why else refused == "", fields


def test_a_denied_cause_is_a_conjecture() -> None:
    fields = {"denied": True, "metric": "accuracy", "datasets": ("digits",), "levels": ("n20",)}
    mixing = claim("cause", subject="no-mixing", **fields)
    assert "mark it as a conjecture" in check("Not because of mixing.", mixing)
    assert check("Perhaps not because of mixing.", mixing.model_copy(update={"certainty": "conjectured"})) == ""
    assert "is supported" in check("Mixing does not do it.", claim("cause", hypothesis="why", denied=True))


def test_a_denied_trend_must_not_be_there() -> None:
    fields = {"metric": "accuracy", "datasets": ("digits",), "denied": True}
    falls = claim("trend", subject="plain", direction="higher", **fields)
    assert check("It does not grow.", falls) == ""
    assert "opposite" in check("It does not fall.", falls.model_copy(update={"direction": "lower"}))


def give_values(one: Claim, arm: str, source: str) -> Claim:
    """Return a mean with the values of another arm, if it is of this arm."""
    if one.arm != arm:
        return one
    same = next(
        other
        for other in RECORD.means
        if (other.arm, other.name, other.dataset, other.level) == (source, one.name, one.dataset, one.level)
    )
    return same.model_copy(update={"arm": arm, "condition": f"{arm}@{one.level}"})


def test_an_estimate_that_the_outline_planned_for_it_separates_explanations() -> None:
    number = r"\result{diff/digits/accuracy/mixup@n20~plain@n20.mean}"
    suggested = claim("cause", **BETTER | {"direction": "none", "certainty": "suggested"})
    assert "no measured ablation" in check(f"It suggests mixing ({number}).", suggested)
    planned = replace(RECORD, separating=frozenset({"diff/digits/accuracy/mixup@n20~plain@n20"}))
    assert check(f"It suggests mixing ({number}).", suggested, record=planned) == ""


def test_arms_with_the_same_values_everywhere_are_one_arm() -> None:
    means = [give_values(one, "no-mixing", "mixup") for one in RECORD.means]
    kept = [one for one in RECORD.differences if one.arm == "mixup"]
    twins = replace(RECORD, means=means, differences=kept, decisions=())
    assert twins.twins == {"no-mixing": "mixup"} and RECORD.twins == {}
    either = BETTER | {"subject": "no-mixing"}
    assert check("Both help.", claim("direction", **either), record=twins) == ""
    assert check(f"They add {DIFFERENCE}.", claim("size", **either), record=twins) == ""
    counts = [claim("measured", subject="mixup", other="plain", datasets=("digits",), count=n) for n in (2, 3, 4)]
    assert [bool(check("Only they were measured.", one, record=twins)) for one in counts] == [False, False, True]


def test_a_difference_may_be_too_small_to_matter_where_its_interval_lies_within_the_margin() -> None:
    also = make_record(more=(hypothesis("fades", "mixup@n20 - plain@n20", claim="within", smallest=0.1),))
    fades = claim("no difference", **BETTER | {"direction": "none", "levels": ("n20",)})
    assert "say that it is too small to matter" in check("They agree.", fades, record=also)
    small = fades.model_copy(update={"amount": "small"})
    assert check("It is too small to matter.", small, record=also) == ""
    assert check("It is too small.", small.model_copy(update={"certainty": "shown"}), record=also) == ""
    assert "a difference" in check("It is too small to matter.", small), "not within the margin of 0.02"
    preview = make_record(more=also.plan.hypotheses[-1:], confirmed=False)
    assert "not a confirmed effect" in check("It is.", small.model_copy(update={"certainty": "shown"}), record=preview)


def test_a_count_of_arms_is_compared_with_the_record() -> None:
    counted = claim("direction", **BETTER | {"subject": "", "other": "plain", "levels": ("n40",), "count": 1})
    assert check("One arm beats it.", counted) == ""
    assert "1 of" in check("Two arms beat it.", counted.model_copy(update={"count": 2}))
