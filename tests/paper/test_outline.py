"""The outline is checked against the record: refusals, repairs by rule, and the inputs of sections."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labwright.models.offline.paper_writing import answer_outline
from labwright.models.roles.paper_writing import (
    DecidedHypothesis,
    EstimateLine,
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedExplanation,
    PlannedSection,
    WriteInputs,
)
from labwright.record.schema.data_plan import Arm, Level
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis, RivalExplanation
from labwright.record.schema.paper import EstimateRequest, FinalFigure, PaperDraft, Section
from labwright.stages.paper.outline import (
    build_section_inputs,
    find_unexplained_effects,
    group_sections,
    list_reportable_outcomes,
    match_sections,
    repair_outline,
    use_registered_keys,
)
from labwright.stages.paper.required_statements import complete_draft
from tests.models.offline.role_inputs import make_write_inputs
from tests.paper.synthetic_paper import DRAFT

ABLATIONS = ("without-smoothing",)


def inputs_of(better: bool = True, **changes: Any) -> WriteInputs:
    def is_better(*_: object) -> bool:
        return better

    given = make_write_inputs(is_better, ABLATIONS)
    told = list_reportable_outcomes(given.data_plan, given.decided, given.comparisons, given.disclosures)
    return given.model_copy(update={"statements": told, **changes})


INPUTS = inputs_of()
CALMER = EstimateLine(key="hypothesis/calmer/1", forms={"mean": "0.1", "ci": "[0.05, 0.15]"}, direction="positive")
DECIDED = (
    DecidedHypothesis(key="hypothesis/calmer", statement="It is calmer.", verdict="supported", effects=(CALMER,)),
    DecidedHypothesis(
        key="hypothesis/grows",
        statement="It grows.",
        verdict="open",
        effects=(CALMER.model_copy(update={"key": "hypothesis/grows/1", "note": "its sign is open"}),),
        confirmatory=False,
    ),
)
GOOD = answer_outline(OutlineInputs(inputs=INPUTS))


def changed(number: int, **fields: Any) -> PaperOutline:
    """Return the valid outline with one section changed."""
    sections = list(GOOD.sections)
    sections[number] = sections[number].model_copy(update=fields)
    return GOOD.model_copy(update={"sections": tuple(sections)})


RESULTS = next(k for k, one in enumerate(GOOD.sections) if one.title == "Results")


def test_an_outline_with_everything_in_its_place_is_taken_as_it_is() -> None:
    assert repair_outline(GOOD, INPUTS) == (GOOD, ())


@pytest.mark.parametrize(
    ("outline", "why"),
    [
        (changed(RESULTS, tells=()), "'primary-digits-method-baseline' is reported in no section"),
        (
            GOOD.model_copy(update={"abstract": PlannedAbstract(claim="c")}),
            "'primary-digits-method-baseline' is not reported in the abstract",
        ),
        (
            changed(len(GOOD.sections) - 1, tells=()),
            "'disclosure-1' is reported in no section: Some replicates failed.",
        ),
        (changed(0, keys=("test/digits/log_los/method@noise20.pm",)), "in keys; the closest are test/digits/log_"),
        (changed(0, references=("me2026",)), "unknown name 'me2026' in references"),
        (changed(0, figures=("ablation",)), "figures: 'ablation' is placed 2 times"),
        (changed(RESULTS, tables=()), "tables: 'main' is placed 0 times"),
        (changed(0, tells=("nothing",)), "unknown name 'nothing' in tells"),
        (changed(0, title="Abstract"), "section title 'abstract' is empty, reserved"),
        (changed(0, title="Results"), "'results' is empty, reserved or used 2 times"),
        (changed(0, share=1.0), "the shares add up to 1."),
    ],
)
def test_what_is_wrong_is_said_and_can_be_repaired_by_rule(outline: PaperOutline, why: str) -> None:
    repaired, found = repair_outline(outline, INPUTS)
    assert any(why in one for one in found), found
    assert repair_outline(repaired, INPUTS) == (repaired, ())


NAMES = st.lists(
    st.sampled_from(["main", "metrics", "ablation", "disclosure-1", "primary-digits", "x", "run.seeds"]), max_size=5
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["A", "a", "title", " ", "B"]), NAMES, NAMES, st.floats(0.01, 1)),
        min_size=1,
        max_size=12,
    )
)
def test_any_outline_is_repaired(planned: list[tuple[str, list[str], list[str], float]]) -> None:
    sections = tuple(
        PlannedSection(
            title=title,
            claim="c",
            keys=tuple(names),
            figures=tuple(names),
            tables=tuple(names),
            references=tuple(names),
            tells=tuple(told),
            share=share,
        )
        for title, names, told, share in planned
    )
    outline = PaperOutline(title="t", abstract=PlannedAbstract(claim="c", tells=("x",)), sections=sections)
    found, _ = repair_outline(outline, INPUTS)
    assert repair_outline(found, INPUTS) == (found, ()) and len(found.sections) == len(sections)


def test_a_figure_of_the_appendix_is_placed_nowhere_and_may_be_referred_to_anywhere() -> None:
    further = FinalFigure(name="further", description="d", placement="appendix")
    inputs = INPUTS.model_copy(update={"figures": (*INPUTS.figures, further)})
    assert repair_outline(GOOD, inputs) == (GOOD, ())
    placed = changed(0, figures=("further",))
    repaired, faults = repair_outline(placed, inputs)
    assert any("unknown name 'further' in figures" in one for one in faults)
    assert repair_outline(repaired, inputs) == (repaired, ())
    assert "further" in {one.name for one in build_section_inputs(inputs, GOOD, (GOOD.sections[0].title,), ()).figures}


def test_the_writer_may_leave_out_a_figure_that_a_model_drew() -> None:
    placing = next(k for k, one in enumerate(GOOD.sections) if one.figures)
    name = GOOD.sections[placing].figures[0]
    outline = changed(placing, figures=GOOD.sections[placing].figures[1:])
    assert repair_outline(outline, INPUTS) == (outline, ())
    shown = {one.name: one for one in build_section_inputs(INPUTS, outline, (GOOD.sections[0].title,), ()).figures}
    assert shown[name].placement == "appendix", "any section may refer to it"
    own = INPUTS.model_copy(update={"program_captions": (name,)})
    repaired, faults = repair_outline(outline, own)
    assert f"figures: {name!r} is placed 0 times: place it once" in faults
    assert name in {figure for one in repaired.sections for figure in one.figures}


# --- sections ---------------------------------------------------------------------------------------------------------


def test_sections_are_asked_for_in_order_and_see_what_they_were_planned_with() -> None:
    titles = [one.title for one in GOOD.sections]
    assert group_sections(GOOD, 0) == [tuple(titles)] and [len(one) for one in group_sections(GOOD, 3)][:2] == [3, 3]
    assert [title for one in group_sections(GOOD, 3) for title in one] == titles
    first = build_section_inputs(INPUTS, GOOD, ("Introduction",), ())
    assert first.tables == () and first.statements == () and not first.abstract
    assert first.inputs.winner_code == {}, "code is for who says how it was done"
    results = build_section_inputs(INPUTS, GOOD, ("Results",), (Section(title="Introduction", body="x"),))
    told = {key for one in results.statements for key in one.keys}
    assert told and {one.key for one in results.comparisons} >= told and results.written
    metrics = {line.key.split("/")[2] for line in INPUTS.results}
    assert {line.key.split("/")[2] for line in results.results} == metrics, "a figure may show any metric"
    own = INPUTS.model_copy(update={"program_captions": tuple(one.name for one in INPUTS.figures)})
    by_program = build_section_inputs(own, GOOD, ("Results",), ())
    assert {line.key.split("/")[2] for line in by_program.results} < metrics and not first.results
    shown, other = results.comparisons[0], next(one for one in INPUTS.comparisons if one not in results.comparisons)
    common = [one.model_copy(update={"at_common_setting": True, "listed": True}) for one in (shown, other)]
    both = INPUTS.model_copy(update={"comparisons": tuple(common)})
    assert len(build_section_inputs(both, GOOD, ("Results",), ()).comparisons) == 2, "none without the other"
    last = build_section_inputs(INPUTS, GOOD, (titles[-1],), ())
    alone = build_section_inputs(INPUTS, GOOD, (), ())
    assert alone.abstract and alone.statements and not alone.figures
    assert last.abstract and {"primary-digits-method-baseline", "disclosure-1"} <= {one.id for one in last.statements}


def test_answers_are_taken_by_title_or_place_and_what_is_missing_is_empty() -> None:
    a, b = Section(title="Method ", body=" m "), Section(title="The results", body="r")
    assert [one.body for one in match_sections(("Method", "Results"), (a, b))] == ["m", "r"]
    assert [one.body for one in match_sections(("Results", "Method"), (a,))] == ["", "m"]


# --- what has to be told ----------------------------------------------------------------------------------------------


def test_every_hypothesis_is_told_and_of_a_plan_without_any_each_primary_outcome() -> None:
    told = {one.id: one for one in INPUTS.statements}
    assert {one.partition("-")[0] for one in told} == {"primary", "disclosure"}
    one = told["primary-digits-method-baseline"]
    assert one.text.startswith("Exploratory, ") and one.abstract and len(one.keys) == 3
    held = list_reportable_outcomes(INPUTS.data_plan, DECIDED, INPUTS.comparisons, ())
    assert [(one.id, one.keys, one.abstract) for one in held] == [
        ("hypothesis-calmer", ("hypothesis/calmer/1",), True),
        ("hypothesis-grows", ("hypothesis/grows/1",), False),
    ]
    assert held[1].text == "It grows. Outcome: open, exploratory: its sign is open"


def test_without_comparisons_that_is_told() -> None:
    told = list_reportable_outcomes(INPUTS.data_plan, (), (), ("x",))
    assert [one.id for one in told] == ["hypothesis", "disclosure-1"] and "no paired comparison" in told[0].text


def test_a_hypothesis_that_is_told_nowhere_is_left_out_and_the_program_tells_it() -> None:
    statements = list_reportable_outcomes(INPUTS.data_plan, DECIDED, (), ())

    def draft(abstract: str, body: str) -> PaperDraft:
        return DRAFT.model_copy(update={"abstract": abstract, "sections": (Section(title="Results", body=body),)})

    def found(abstract: str, body: str) -> tuple[str, ...]:
        return complete_draft(draft(abstract, body), statements)[0]

    first, second = (rf"It is \result{{{one.key}/1.mean}}." for one in DECIDED)
    assert len(found("", "")) == 2 and "print \\result{hypothesis/calmer/1.mean}" in found("", "")[0]
    assert found("", first + second) == () and len(found(first, second)) == 1
    told = complete_draft(draft("It is so.", "As follows."), statements)[1]
    assert complete_draft(told, statements)[0] == () and told == complete_draft(told, statements)[1]
    assert told.abstract == "It is so." and told.sections[0].body.startswith(
        "As follows.\n\nThe confirmatory hypothesis ``\\setup{hypothesis.calmer.title}'' is supported: the "
        "estimate is \\result{hypothesis/calmer/1.mean} (\\result{hypothesis/calmer/1.confidence}\\% interval "
        "\\result{hypothesis/calmer/1.ci}). The exploratory hypothesis"
    )


# --- estimates and explanations ---------------------------------------------------------------------------------------


def test_explanations_are_of_known_effects_in_planned_sections_and_each_sure_effect_has_one() -> None:
    inputs = INPUTS.model_copy(update={"decided": DECIDED, "statements": ()})
    [line] = find_unexplained_effects(GOOD, inputs)
    assert "add an explanation of hypothesis/calmer/1" in line, "an exploratory one needs none"
    one = PlannedExplanation(
        effect="hypothesis/calmer/1", first="It smooths.", second="It cools.", separated_by="x", section="Results"
    )
    outline = GOOD.model_copy(
        update={
            "explanations": (
                one,
                one.model_copy(update={"effect": "no/such"}),
                one.model_copy(update={"section": "Nowhere", "separated_by": ""}),
            )
        }
    )
    repaired, faults = repair_outline(outline, inputs)
    assert repaired.explanations == (one.model_copy(update={"separated_by": ""}),) and len(faults) >= 3
    assert repair_outline(repaired, inputs) == (repaired, ()) and find_unexplained_effects(repaired, inputs) == ()
    named = CALMER.model_copy(update={"subject": "calm of one over the other"})
    hypotheses = tuple(
        DECIDED[0].model_copy(update={"effects": (named.model_copy(update={"key": f"hypothesis/{name}/1"}),)})
        for name in ("calmer", "again")
    )
    both = inputs.model_copy(update={"decided": hypotheses})
    assert len(find_unexplained_effects(GOOD, both)) == 2 and find_unexplained_effects(repaired, both) == ()
    shown = build_section_inputs(inputs, repaired, ("Results",), ())
    assert [each.key for each in shown.decided] == ["hypothesis/calmer"], "the writer of the paragraph sees the effect"


def test_a_requested_estimate_is_shown_to_every_section() -> None:
    line = EstimateLine(key="estimate/cost", subject="log loss", forms={"mean": "0.3", "ci": "[0.2, 0.4]"})
    chosen = changed(0, keys=("estimate/cost.mean", "estimate/cost.ci"))
    assert any("estimate/cost.mean" in fault for fault in repair_outline(chosen, INPUTS)[1])
    inputs = INPUTS.model_copy(update={"estimates": (line,)})
    assert repair_outline(chosen, inputs) == (chosen, ())
    titles = [one.title for one in chosen.sections]
    assert build_section_inputs(inputs, chosen, (titles[0],), ()).estimates == (line,)
    assert build_section_inputs(inputs, chosen, (titles[1],), ()).estimates == (line,)
    assert build_section_inputs(inputs, chosen, (), ()).estimates == (line,), "the abstract too"


def test_keys_are_taken_without_a_macro_around_them_and_only_close_names_are_suggested() -> None:
    key, setup = INPUTS.result_keys[0], INPUTS.setups[0].key
    keys = (f"setup/{setup}", f"\\result{{{key}}}", "code.SOMETHING_ELSE")
    written = PaperOutline.model_validate_json(changed(0, keys=keys).model_dump_json())
    repaired, faults = repair_outline(written, INPUTS)
    assert repaired.sections[0].keys == (setup, key)
    assert [one for one in faults if "code.SOMETHING_ELSE" in one] == [
        f"section {GOOD.sections[0].title!r}: unknown name 'code.SOMETHING_ELSE' in keys"
    ]


def test_requests_for_what_is_registered_become_its_keys() -> None:
    rival = RivalExplanation(statement="x", estimand="method@a - other@a", ours="above zero", theirs="near zero")
    effect = Effect(estimand="method@a - baseline@a", smallest=0.1)
    registered = Hypothesis(id="gain", statement="x", effects=(effect,), rival=rival, reason="x")
    plan = INPUTS.data_plan.model_copy(
        update={
            "arms": tuple(Arm(name=name, role="method") for name in ("method", "baseline", "other")),
            "levels": (Level(name="a"),),
            "factors": (),
            "hypotheses": (registered,),
        }
    )
    dataset, metric = plan.datasets[0].name, plan.primary_metric.name
    requests = (
        EstimateRequest(name="size", estimand=rival.estimand),
        EstimateRequest(name="size-of", estimand="other@a - baseline@a"),
    )
    keys = ("estimate/size.mean", "estimate/size-of.mean", f"diff/{dataset}/{metric}/method@a~baseline@a.ci")
    asked = changed(0, keys=keys).model_copy(
        update={
            "estimates": requests,
            "explanations": (
                PlannedExplanation(
                    effect="hypothesis/gain/1", first="x", second="y", separated_by="estimate/size", section="z"
                ),
            ),
        }
    )
    parts = {"1": effect, "rival": Effect(estimand=rival.estimand, smallest=0.1)}
    measured = {f"hypothesis/gain/{name}": EffectDecision(effect=one, values=()) for name, one in parts.items()}
    found = use_registered_keys(asked, plan, measured)
    assert found.estimates == requests[1:] and found.explanations[0].separated_by == "hypothesis/gain/rival"
    assert found.sections[0].keys == ("hypothesis/gain/rival.mean", "estimate/size-of.mean", "hypothesis/gain/1.ci")
    assert found.sections[1:] == asked.sections[1:] and found.abstract == asked.abstract
    reversed_key = f"diff/{dataset}/{metric}/baseline@a~method@a"
    opposite = EstimateRequest(name="opposite", estimand=f"-({rival.estimand})")
    turned = changed(0, keys=(f"{reversed_key}.mean",)).model_copy(update={"estimates": (opposite,)})
    turned = use_registered_keys(turned, plan, measured)
    bare = use_registered_keys(asked, plan, {key: one for key, one in measured.items() if key.endswith("1")})
    assert bare.estimates == requests, "a registered rival without a value is computed from other seeds"
    assert turned.sections[0].keys == ("hypothesis/gain/1.mean",)
    assert turned.estimates == ()


def test_a_section_with_floats_sees_the_values_behind_them() -> None:
    titles = [one.title for one in GOOD.sections]
    introduction, results = (build_section_inputs(INPUTS, GOOD, (title,), ()) for title in (titles[0], "Results"))
    primary = INPUTS.data_plan.primary_metric.name
    means = {one.key for one in INPUTS.results if one.listed and f"/{primary}/" in one.key}
    assert means and means <= {one.key for one in results.results}
    assert not means & {one.key for one in introduction.results}
