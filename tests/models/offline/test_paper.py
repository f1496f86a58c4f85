"""The writer's words hold for any outcome: the binder finds nothing, and every comparison prints an estimate."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labwright.models.offline.paper_writing import answer_outline, answer_reflect, write_draft
from labwright.models.roles.paper_revision import ReflectInputs, Reflection
from labwright.models.roles.paper_writing import ClaimLine, DecidedHypothesis, EstimateLine, OutlineInputs
from labwright.record.schema.paper import PaperDraft
from labwright.review.evidence.source_check import check_draft
from labwright.stages.paper.reflection import apply_edits
from tests.models.offline.role_inputs import IsBetter, make_evidence, make_write_inputs

pytestmark = pytest.mark.slow

ABLATIONS = ("without-smoothing", "without-temperature", "without-clean-dev", "without-smoothing-and-weight-decay")


def always(better: bool) -> IsBetter:
    return lambda dataset, metric, condition: better


def text_of(draft: PaperDraft) -> str:
    return "\n".join((draft.title, draft.abstract, *(section.body for section in draft.sections)))


def without_macros(text: str) -> str:
    return re.sub(r"\\(?:result|setup|ref|citep|citet|paperfigure|papertable)\{[^}]*\}", "", text)


@pytest.mark.parametrize("ablations", [pytest.param((), marks=pytest.mark.bench), ABLATIONS])
@pytest.mark.parametrize("better", [True, False])
def test_the_binder_finds_nothing_whatever_the_outcome(better: bool, ablations: tuple[str, ...]) -> None:
    inputs = make_write_inputs(always(better), ablations)
    draft = write_draft(inputs)
    assert [str(one) for one in check_draft(draft, make_evidence(inputs))] == []
    typed = re.sub(r"K-1\b|95\\% interval|noise rate 0\.\d", "", without_macros(text_of(draft)))
    assert not re.search(r"\d", typed) and "<r:" not in typed and "<s:" not in typed
    assert ("Ablations" in [section.title for section in draft.sections]) == bool(ablations)


@given(st.integers(min_value=0))
@settings(max_examples=4, deadline=None)
def test_any_mixture_of_outcomes_holds(seed: int) -> None:
    def is_better(dataset: str, metric: str, condition: str) -> bool:
        return bool((sum(map(ord, dataset + metric + condition)) * 31 + seed) // 3 % 2)

    inputs = make_write_inputs(is_better, ABLATIONS)
    assert check_draft(write_draft(inputs), make_evidence(inputs)) == ()


def test_every_hypothesis_is_reported_with_its_estimate_and_verdict() -> None:
    line = EstimateLine(
        key="hypothesis/calmer-under-noise/1",
        forms={"mean": "0.1", "ci": "[0.05, 0.15]", "confidence": "97.5"},
        direction="positive",
    )
    one = DecidedHypothesis(key="hypothesis/calmer-under-noise", statement="s", verdict="supported", effects=(line,))
    inputs = make_write_inputs(always(True), ABLATIONS, decided=(one,))
    title = ClaimLine(key="hypothesis.calmer-under-noise.title", printed="calmer")
    inputs = inputs.model_copy(update={"setups": (*inputs.setups, title)})
    asked, bare = text_of(write_draft(inputs)), text_of(write_draft(make_write_inputs(always(True))))
    assert asked.count("\\result{hypothesis/calmer-under-noise/1.mean}") == 2, "abstract and results"
    sentences = [one for one in re.split(r"(?<=[.?!])\s+", asked) if len(one.split()) > 3]
    assert sorted({*sentences}) == sorted(sentences), "no sentence stands twice"
    assert "the registered hypothesis ``\\setup{hypothesis.calmer-under-noise.title}''" in asked
    assert "either of two causes" in asked and "either of two causes" not in bare
    assert "\\result{diff/digits/log_loss/method@noise0~baseline@noise0.mean} (95\\% interval" in bare
    assert check_draft(write_draft(inputs), make_evidence(inputs)) == ()


def test_the_outline_asks_what_noise_costs() -> None:
    outline = answer_outline(OutlineInputs(inputs=make_write_inputs(always(True), ABLATIONS)))
    [request] = outline.estimates
    assert request.estimand == "baseline@noise40 - baseline@noise0"
    without = answer_outline(OutlineInputs(inputs=make_write_inputs(always(True), results=(), comparisons=())))
    assert without.estimates == ()


def test_missing_keys_drop_sentences_and_not_the_paper() -> None:
    inputs = make_write_inputs(always(True), ABLATIONS, setups=(), references=(), comparisons=())
    draft = write_draft(inputs)
    assert check_draft(draft, make_evidence(inputs)) == ()
    assert r"\setup" not in text_of(draft) and r"\cite" not in text_of(draft)
    assert "no effect is claimed" in draft.abstract
    bare = make_write_inputs(always(True), results=(), comparisons=(), figures=(), tables=())
    assert check_draft(write_draft(bare), make_evidence(bare)) == ()


def test_validation_results_are_named_as_such() -> None:
    inputs = make_write_inputs(always(True))
    results = tuple(
        line.model_copy(update={"key": line.key.replace("test/", "validation/", 1)}) for line in inputs.results
    )
    draft = write_draft(inputs.model_copy(update={"results": results}))
    assert r"\result{validation/digits/log_loss/baseline@noise40.pm}" in text_of(draft)
    assert "no test predictions were scored" in text_of(draft)


def test_every_float_is_placed_once_also_those_of_unknown_name() -> None:
    inputs = make_write_inputs(always(True), ABLATIONS, tables=("main", "metrics", "ablation", "extra"), page_limit=20)
    text = text_of(write_draft(inputs))
    for name in inputs.tables:
        assert text.count(f"\\papertable{{{name}}}") == 1
    for figure in inputs.figures:
        assert text.count(f"\\paperfigure{{{figure.name}}}") == 1
        assert f"\\ref{{fig:{figure.name}}}" in text


# --- reflection -----------------------------------------------------------------------------------------------------


def applied(draft: PaperDraft, reflection: Reflection) -> PaperDraft:
    found = apply_edits(draft, reflection, figures=draft.captions.keys() | reflection.captions.keys())
    assert not found.refused
    return found.draft


def test_a_clean_draft_needs_no_reflection() -> None:
    inputs = make_write_inputs(always(True), ABLATIONS)
    assert answer_reflect(ReflectInputs(inputs=inputs, draft=write_draft(inputs), pages=4)) == Reflection(done=True)


def test_a_paper_that_is_too_long_moves_its_figures_to_the_appendix_one_by_one() -> None:
    inputs = make_write_inputs(always(True), ABLATIONS, page_limit=20)
    draft = write_draft(inputs)
    for _ in inputs.figures:
        draft = applied(draft, answer_reflect(ReflectInputs(inputs=inputs, draft=draft, pages=21)))
    assert "\\paperfigure" not in text_of(draft) and check_draft(draft, make_evidence(inputs)) == ()
    assert answer_reflect(ReflectInputs(inputs=inputs, draft=draft, pages=21)).done


def test_further_results_are_reported_once_in_a_paper_written_anew() -> None:
    before, inputs = make_write_inputs(always(True), ABLATIONS[1:2]), make_write_inputs(always(True), ABLATIONS)
    question = ReflectInputs(inputs=inputs, draft=write_draft(before), pages=3, news=("an ablation",))
    after = applied(question.draft, answer_reflect(question))
    assert "for without-smoothing" in text_of(after) and "for without-smoothing" not in text_of(question.draft)


# --- what a reader asks ---------------------------------------------------------------------------------------------


def test_the_paper_says_where_the_method_is_worse_and_what_to_do() -> None:
    inputs = make_write_inputs(
        lambda dataset, metric, condition: "noise0" not in condition and dataset != "wine",
        ABLATIONS,
        decided=(
            DecidedHypothesis(
                key="hypothesis/calmer-under-noise",
                statement="s",
                verdict="supported",
                effects=(EstimateLine(key="hypothesis/calmer-under-noise/1", forms={"mean": "0.1"}),),
            ),
            DecidedHypothesis(
                key="hypothesis/grows-with-noise",
                statement="s",
                verdict="open",
                confirmatory=False,
                effects=(EstimateLine(key="hypothesis/grows-with-noise/1", forms={"mean": "0.1"}),),
            ),
        ),
    )
    ids = ("calmer-under-noise", "grows-with-noise")
    titles = (ClaimLine(key=f"hypothesis.{one}.title", printed="calmer") for one in ids)
    inputs = inputs.model_copy(update={"setups": (*inputs.setups, *titles)})
    draft = write_draft(inputs)
    bodies = {one.title: one.body for one in draft.sections}
    assert r"on Digits, the estimate is \result{hypothesis/calmer-under-noise/1.mean} nats" in draft.abstract
    slope = (
        r"on Digits is \result{hypothesis/grows-with-noise/1.mean} nats per unit of label noise rate; the hypothesis"
    )
    assert slope in bodies["Results"]
    places = "at noise rate 0.0 on Digits%s, Breast Cancer%s and Wine%s, at noise rate 0.2 on Wine%s and "
    places += "at noise rate 0.4 on Wine%s"
    worse = [("digits", 0), ("breast_cancer", 0), ("wine", 0), ("wine", 20), ("wine", 40)]
    marks = [rf" (\result{{diff/{d}/log_loss/method@noise{n}~baseline@noise{n}.mean}})" for d, n in worse]
    assert f"exploratory) {places % tuple(marks)}." in bodies["Results"]
    last = bodies["Limitations and Conclusion"]
    assert "pay for themselves: use them. This answer rests on Digits" in last
    assert last.endswith(f"; the mean speaks for plain cross-entropy {places % (('',) * 5)}.")
    assert text_of(draft).count("minus that of the whole method") == 1
    assert check_draft(draft, make_evidence(inputs)) == ()
    better = text_of(write_draft(make_write_inputs(always(True))))
    assert "the mean speaks" not in better and "the question stays open" in better


def test_a_reference_to_a_figure_of_the_appendix_says_so() -> None:
    inputs = make_write_inputs(always(True), ABLATIONS, page_limit=20)
    last = inputs.figures[-1]
    moved = (*inputs.figures[:-1], last.model_copy(update={"placement": "appendix"}))
    apart = write_draft(inputs.model_copy(update={"figures": moved}))
    draft = write_draft(inputs)
    later = applied(draft, answer_reflect(ReflectInputs(inputs=inputs, draft=draft, pages=21)))
    for one in (apart, later):
        assert rf"\ref{{fig:{last.name}}} in the appendix" in text_of(one)
        assert text_of(one).count("in the appendix") == 1
